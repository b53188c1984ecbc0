//! How far data can be reduced, measured rather than assumed.

use std::collections::HashSet;
use std::io::Write;

/// Chunk that compressors see at once, as file systems do.
const CHUNK_BYTES: usize = 128 * 1024;

/// Reducibility of a sample: raw size over reduced size.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Reducibility {
    /// zlib level 1, per 128 KiB.
    pub compress_ratio_zlib: f64,
    /// lz4, per 128 KiB.
    pub compress_ratio_lz4: f64,
    /// Whole 4 KiB blocks over distinct ones.
    pub dedupe_ratio: f64,
}

/// Measures a sample of at least one byte.
pub fn measure(sample: &[u8]) -> Reducibility {
    let raw = sample.len().max(1) as f64;
    let zlib: usize = sample.chunks(CHUNK_BYTES).map(zlib_len).sum();
    let lz4: usize = sample.chunks(CHUNK_BYTES).map(|c| lz4_flex::block::compress(c).len()).sum();
    let blocks: Vec<&[u8]> = sample.chunks_exact(4096).collect();
    let distinct: HashSet<&[u8]> = blocks.iter().copied().collect();
    Reducibility {
        compress_ratio_zlib: (raw / zlib.max(1) as f64).max(1.0),
        compress_ratio_lz4: (raw / lz4.max(1) as f64).max(1.0),
        dedupe_ratio: blocks.len().max(1) as f64 / distinct.len().max(1) as f64,
    }
}

fn zlib_len(chunk: &[u8]) -> usize {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    match encoder.write_all(chunk).and_then(|()| encoder.finish()) {
        Ok(out) => out.len(),
        Err(_) => chunk.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_reduce_and_counting_is_right() {
        let zeros = vec![0u8; 1 << 20];
        let m = measure(&zeros);
        assert!(m.compress_ratio_zlib > 100.0 && m.compress_ratio_lz4 > 100.0);
        assert_eq!(m.dedupe_ratio, 256.0);
    }
}
