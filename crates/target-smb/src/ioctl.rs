//! IOCTL requests (MS-SMB2 2.2.31).

use crate::codec::{Put, View, HEADER_BYTES};
use naslab_core::Result;

pub(crate) const VALIDATE_NEGOTIATION: u32 = 0x0014_0204;
pub(crate) const DFS_GET_REFERRALS: u32 = 0x0006_0194;
pub(crate) const REQUEST_RESUME_KEY: u32 = 0x0014_0078;
pub(crate) const COPY_CHUNKS: u32 = 0x0014_80F2;
pub(crate) const PIPE_TRANSCEIVE: u32 = 0x0011_C017;
pub(crate) const QUERY_NETWORK_INTERFACES: u32 = 0x0014_01FC;

const FIXED_BYTES: usize = 56;
const IS_FSCTL: u32 = 1;

/// A control request with at most `max_output` bytes of answer.
pub(crate) fn request(code: u32, file: &[u8; 16], input: &[u8], max_output: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(FIXED_BYTES + input.len());
    out.u16(57);
    out.u16(0);
    out.u32(code);
    out.put(file);
    out.u32(if input.is_empty() { 0 } else { (HEADER_BYTES + FIXED_BYTES) as u32 });
    out.u32(input.len() as u32);
    out.u32(0);
    out.u32(0);
    out.u32(0);
    out.u32(max_output);
    out.u32(IS_FSCTL);
    out.u32(0);
    out.put(input);
    out
}

/// The output of an answer.
pub(crate) fn output(message: &[u8]) -> Result<&[u8]> {
    let view = View(message);
    view.piece(view.u32(HEADER_BYTES + 32)? as usize, view.u32(HEADER_BYTES + 36)? as usize)
}

/// What a server copies at once (MS-SMB2 3.3.3): many servers take these, others say theirs when asked for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CopyLimits {
    chunks: u32,
    chunk_bytes: u32,
    total_bytes: u32,
}

impl Default for CopyLimits {
    fn default() -> CopyLimits {
        CopyLimits { chunks: 16, chunk_bytes: 1 << 20, total_bytes: 16 << 20 }
    }
}

impl CopyLimits {
    /// Reads the limits a server tells with its refusal.
    pub fn parse(output: &[u8]) -> Result<CopyLimits> {
        let view = View(output);
        Ok(CopyLimits { chunks: view.u32(0)?, chunk_bytes: view.u32(4)?, total_bytes: view.u32(8)? })
    }

    /// Whether asking within these limits asks for less than before, and for something at all.
    pub fn is_less_than(&self, other: &CopyLimits) -> bool {
        let some = self.chunks > 0 && self.chunk_bytes > 0 && self.total_bytes >= self.chunk_bytes;
        let less =
            self.chunks < other.chunks || self.chunk_bytes < other.chunk_bytes || self.total_bytes < other.total_bytes;
        some && less
    }
}

/// Asks to copy from `at` on, as much of `left_bytes` as the limits allow.
pub(crate) fn copy_request(key: &[u8], at: u64, left_bytes: u64, limits: &CopyLimits) -> Vec<u8> {
    let most = left_bytes.min(u64::from(limits.total_bytes));
    let mut chunks = Vec::new();
    let (mut count, mut done) = (0, 0);
    while done < most && count < limits.chunks.min(256) {
        let len = (most - done).min(u64::from(limits.chunk_bytes));
        chunks.u64(at + done);
        chunks.u64(at + done);
        chunks.u32(len as u32);
        chunks.u32(0);
        done += len;
        count += 1;
    }
    let mut out = key.to_vec();
    out.u32(count);
    out.u32(0);
    out.put(&chunks);
    out
}

/// How many bytes the server says it copied.
pub(crate) fn copied_bytes(output: &[u8]) -> Result<u64> {
    View(output).u32(8).map(u64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_stay_within_the_limits() {
        let limits = CopyLimits { chunks: 3, chunk_bytes: 100, total_bytes: 250 };
        let request = copy_request(&[1; 24], 1000, 10_000, &limits);
        let view = View(&request);
        assert_eq!((view.u32(24).unwrap(), request.len()), (3, 32 + 3 * 24));
        let lens: Vec<u32> = (0..3).map(|n| view.u32(32 + 24 * n + 16).unwrap()).collect();
        assert_eq!(lens, [100, 100, 50]);
        assert_eq!(view.u64(32 + 48).unwrap(), 1200);
        assert_eq!(View(&copy_request(&[1; 24], 0, 70, &limits)).u32(24).unwrap(), 1);
        assert!(limits.is_less_than(&CopyLimits::default()) && !CopyLimits::default().is_less_than(&limits));
        let nothing = CopyLimits { chunks: 0, ..limits };
        assert!(!nothing.is_less_than(&CopyLimits::default()));
    }
}
