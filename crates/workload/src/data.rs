//! Payload of writes: a ring of pre-generated slots, stamped per block just before use.

use crate::rng::{mix64, Rng};
use crate::tag::{Defect, Tagger, TAG_BYTES};
use naslab_core::{AlignedBuf, IoBuf, Result};

/// Block size in which data are made unique, compressible and dedupable.
pub const BLOCK_BYTES: usize = 4096;
/// The ring is at least this long, so that repeats lie beyond the windows of zlib (32 KiB) and lz4
/// (64 KiB) and beyond the records that file systems compress (128 KiB by default, 1 MiB at most).
const RING_BYTES: usize = 1 << 20;
/// Records up to this size are written from one slot that is changed throughout before each use, when
/// nothing else is in flight.
const FOLD_BYTES: usize = 32 << 10;
/// Slots up to this size are brought near before use, when nothing else is in flight.
const NEAR_BYTES: usize = 256 << 10;
/// Distinct blocks that duplicates are drawn from.
const DUPLICATES: usize = 8;

/// Contents of written data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DataKind {
    /// Random bytes, reducible by these ratios (raw over reduced, >= 1).
    Random {
        /// By a compressor.
        compress_ratio: f64,
        /// By deduplication of 4 KiB blocks.
        dedupe_ratio: f64,
    },
    /// Zero but for 8 equal bytes at the head of each 4 KiB page, as IOzone writes by default.
    Iozone,
    /// One byte everywhere.
    Fill(u8),
}

/// What to write and how to tag it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DataSpec {
    /// Contents.
    pub kind: DataKind,
    /// Seed of the contents.
    pub seed: u64,
}

impl DataSpec {
    /// Incompressible, unique data.
    pub fn random(seed: u64) -> DataSpec {
        DataSpec { kind: DataKind::Random { compress_ratio: 1.0, dedupe_ratio: 1.0 }, seed }
    }
}

/// The byte IOzone 3.489 repeats at the head of each page (observed).
const IOZONE_BYTE: u8 = 0x5f;

/// Ring of write buffers of one worker. A slot belongs to one operation from `take` to `release`.
#[derive(Debug)]
pub struct Payload {
    spec: DataSpec,
    worker: u32,
    depth: u32,
    memory: AlignedBuf,
    slot_bytes: usize,
    record_bytes: usize,
    busy: Vec<bool>,
    next: usize,
    tagger: Option<Tagger>,
    body_crcs: Vec<u32>,
    duplicate_below: u64,
    source: Vec<u8>,
    rng: Rng,
    /// Bytes at the head of each block that are changed throughout before each use; 0 with a ring.
    fold_bytes: usize,
    /// Whether a slot is read once before use.
    warm: bool,
}

impl Payload {
    /// A ring for records of `record_bytes` with up to `depth` slots in use at once.
    ///
    /// `tagger`: how to tag blocks (`None` for `Iozone`, `Fill` and records too small).
    pub fn new(spec: &DataSpec, record_bytes: u32, depth: u32, worker: u32, tagger: Option<Tagger>) -> Result<Payload> {
        let record_bytes = record_bytes as usize;
        let slot_bytes = record_bytes.next_multiple_of(BLOCK_BYTES);
        let fold_bytes = fold_bytes(spec, record_bytes, depth, tagger);
        let slots = if fold_bytes > 0 { 1 } else { (depth as usize).max(RING_BYTES.div_ceil(slot_bytes)) };
        let mut memory = AlignedBuf::new(slots * slot_bytes)?;
        fill(memory.as_mut_slice(), spec, worker);
        let dedupe = match spec.kind {
            DataKind::Random { dedupe_ratio, .. } => dedupe_ratio,
            _ => 1.0,
        };
        let mut payload = Payload {
            spec: *spec,
            worker,
            depth,
            source: if dedupe > 1.0 { source_blocks(spec) } else { Vec::new() },
            duplicate_below: ((1.0 - 1.0 / dedupe) * u64::MAX as f64) as u64,
            memory,
            slot_bytes,
            record_bytes,
            busy: vec![false; slots],
            next: 0,
            tagger,
            body_crcs: Vec::new(),
            rng: Rng::new(spec.seed, 0xDA7A ^ worker as u64),
            fold_bytes,
            warm: depth == 1 && fold_bytes == 0 && slot_bytes <= NEAR_BYTES,
        };
        payload.compute_body_crcs();
        Ok(payload)
    }

    /// The same ring for another pass, with the contents that [`Payload::new`] gives; `None` where it does not fit one.
    pub fn anew(
        mut self,
        spec: &DataSpec,
        record_bytes: u32,
        depth: u32,
        worker: u32,
        tagger: Option<Tagger>,
    ) -> Option<Payload> {
        let tags = |tagger: Option<Tagger>| tagger.map(|t| (t.unit, t.checksum));
        let same = (self.spec, self.worker, self.depth) == (*spec, worker, depth)
            && self.record_bytes == record_bytes as usize
            && tags(self.tagger) == tags(tagger);
        if !same || !self.source.is_empty() || self.busy.contains(&true) {
            return None;
        }
        if self.fold_bytes > 0 {
            fill(self.memory.as_mut_slice(), spec, worker);
        }
        self.next = 0;
        self.tagger = tagger;
        self.rng = Rng::new(spec.seed, 0xDA7A ^ worker as u64);
        Some(self)
    }

    /// The whole ring, for registration with a session.
    pub fn region(&self) -> IoBuf {
        self.memory.lend(0, self.memory.len())
    }

    /// A free slot stamped for a write at `offset_bytes`: its number and its bytes.
    /// `None` when all slots are in use.
    #[inline]
    pub fn take(&mut self, offset_bytes: u64) -> Option<(u32, IoBuf)> {
        let slot = self.free_slot()?;
        self.busy[slot] = true;
        self.stamp(slot, offset_bytes, self.record_bytes);
        if self.warm {
            self.bring_near(slot);
        }
        Some((slot as u32, self.memory.lend(slot * self.slot_bytes, self.record_bytes)))
    }

    /// As `take`, but only the first `len_bytes` of a slot, of which only whole and begun blocks are stamped.
    /// unique: what no other write has as its offset.
    #[inline]
    pub fn take_part(&mut self, unique: u64, len_bytes: usize) -> Option<(u32, IoBuf)> {
        let slot = self.free_slot()?;
        let len_bytes = len_bytes.min(self.record_bytes);
        self.busy[slot] = true;
        self.stamp(slot, unique, len_bytes);
        Some((slot as u32, self.memory.lend(slot * self.slot_bytes, len_bytes)))
    }

    /// Gives a slot back.
    #[inline]
    pub fn release(&mut self, slot: u32) {
        self.busy[slot as usize] = false;
    }

    #[inline]
    fn free_slot(&mut self) -> Option<usize> {
        for _ in 0..self.busy.len() {
            let slot = self.next;
            self.next = if slot + 1 == self.busy.len() { 0 } else { slot + 1 };
            if !self.busy[slot] {
                return Some(slot);
            }
        }
        None
    }

    #[inline]
    fn stamp(&mut self, slot: usize, offset_bytes: u64, len_bytes: usize) {
        let Some(tagger) = self.tagger else { return };
        let unit = tagger.unit as usize;
        let units = self.record_bytes / unit;
        let used = len_bytes.div_ceil(unit).min(units);
        let at = slot * self.slot_bytes;
        if self.fold_bytes > 0 {
            self.fold();
        }
        for i in 0..used {
            let start = at + i * unit;
            let duplicate = self.duplicate_below > 0 && self.copy_block(start);
            if !duplicate {
                let crc = self.body_crcs.get(slot * units + i).copied().unwrap_or(0);
                let block = &mut self.memory.as_mut_slice()[start..start + unit];
                tagger.stamp(block, offset_bytes + (i * unit) as u64, crc);
            }
        }
    }

    /// Reads a slot once, so that it is as near to the processor as a buffer used again and again.
    fn bring_near(&self, slot: usize) {
        const LINE_BYTES: usize = 64;
        let at = slot * self.slot_bytes;
        let bytes = &self.memory.as_slice()[at..at + self.slot_bytes];
        std::hint::black_box(bytes.iter().step_by(LINE_BYTES).fold(0u8, |sum, byte| sum ^ byte));
    }

    /// Changes every random byte of the one slot: no data repeat at any distance, and the slot stays as near
    /// to the processor as a buffer written again and again, without pushing anything else out of its caches.
    #[inline]
    fn fold(&mut self) {
        let key = self.rng.bits() | 1;
        let fold_bytes = self.fold_bytes;
        for block in self.memory.as_mut_slice()[..self.record_bytes].chunks_mut(BLOCK_BYTES) {
            let random = block.len().min(fold_bytes);
            for word in block[..random].chunks_exact_mut(8) {
                let mixed = u64::from_le_bytes(word.try_into().unwrap_or_default()) ^ key;
                word.copy_from_slice(&mixed.to_le_bytes());
            }
        }
    }

    /// With deduplication: lays a duplicate or a fresh body into the block; true if a duplicate.
    fn copy_block(&mut self, start: usize) -> bool {
        let duplicate = self.rng.bits() < self.duplicate_below;
        let blocks = self.source.len() / BLOCK_BYTES;
        let pick = match duplicate {
            true => self.rng.below(DUPLICATES as u64) as usize,
            false => DUPLICATES + self.rng.below((blocks - DUPLICATES) as u64) as usize,
        };
        let from = &self.source[pick * BLOCK_BYTES..(pick + 1) * BLOCK_BYTES];
        self.memory.as_mut_slice()[start..start + BLOCK_BYTES].copy_from_slice(from);
        duplicate
    }

    fn compute_body_crcs(&mut self) {
        let Some(tagger) = self.tagger.filter(|t| t.checksum) else { return };
        let unit = tagger.unit as usize;
        let units = self.record_bytes / unit;
        for slot in 0..self.busy.len() {
            for i in 0..units {
                let start = slot * self.slot_bytes + i * unit;
                let body = &self.memory.as_slice()[start + TAG_BYTES..start + unit];
                self.body_crcs.push(crc32c::crc32c(body));
            }
        }
    }
}

/// Checks a record that was read. Returns the number of blocks checked, or the first defect and where
/// it lies in the file.
pub fn check_record(
    kind: DataKind,
    tagger: Option<&Tagger>,
    exact: bool,
    record: &[u8],
    offset_bytes: u64,
) -> std::result::Result<u64, (u64, Defect)> {
    match (kind, tagger) {
        (DataKind::Fill(byte), _) => match record.iter().position(|b| *b != byte) {
            Some(at) => Err((offset_bytes + at as u64, Defect::Pattern)),
            None => Ok(1),
        },
        (DataKind::Iozone, _) => check_iozone(record, offset_bytes),
        (DataKind::Random { .. }, Some(tagger)) => check_tags(tagger, exact, record, offset_bytes),
        (DataKind::Random { .. }, None) => Ok(0),
    }
}

fn check_iozone(record: &[u8], offset_bytes: u64) -> std::result::Result<u64, (u64, Defect)> {
    for (i, page) in record.chunks(BLOCK_BYTES).enumerate() {
        if page.iter().take(8).any(|b| *b != IOZONE_BYTE) {
            return Err((offset_bytes + (i * BLOCK_BYTES) as u64, Defect::Pattern));
        }
    }
    Ok(record.len().div_ceil(BLOCK_BYTES) as u64)
}

fn check_tags(
    tagger: &Tagger,
    exact: bool,
    record: &[u8],
    offset_bytes: u64,
) -> std::result::Result<u64, (u64, Defect)> {
    let unit = tagger.unit as usize;
    for (i, block) in record.chunks_exact(unit).enumerate() {
        let at = offset_bytes + (i * unit) as u64;
        tagger.check(block, at, exact).map_err(|defect| (at, defect))?;
    }
    Ok((record.len() / unit) as u64)
}

fn fill(memory: &mut [u8], spec: &DataSpec, worker: u32) {
    match spec.kind {
        DataKind::Fill(byte) => memory.fill(byte),
        DataKind::Iozone => {
            for page in memory.chunks_mut(BLOCK_BYTES) {
                let head = page.len().min(8);
                page[..head].fill(IOZONE_BYTE);
            }
        }
        DataKind::Random { compress_ratio, .. } => {
            fill_random(memory, compress_ratio, mix64(spec.seed ^ worker as u64));
        }
    }
}

/// Random bytes of which each 4 KiB block is random at its head and zero at its tail.
fn fill_random(memory: &mut [u8], compress_ratio: f64, seed: u64) {
    const UNIQUE_BYTES: usize = 4 << 20;
    let random = random_bytes_per_block(compress_ratio);
    let mut rng = Rng::new(seed, 0xB10C);
    let unique = memory.len().min(UNIQUE_BYTES);
    let (head, tail) = memory.split_at_mut(unique);
    for block in head.chunks_mut(BLOCK_BYTES) {
        let n = random.min(block.len());
        rng.fill(&mut block[..n]);
    }
    for chunk in tail.chunks_mut(UNIQUE_BYTES) {
        chunk.copy_from_slice(&head[..chunk.len()]);
    }
}

/// Whether one slot suffices: nothing else in flight, small records, no checksums or duplicates that a
/// change would spoil. The bytes of each block to change, or 0.
fn fold_bytes(spec: &DataSpec, record_bytes: usize, depth: u32, tagger: Option<Tagger>) -> usize {
    match spec.kind {
        DataKind::Random { compress_ratio, dedupe_ratio }
            if dedupe_ratio <= 1.0
                && depth == 1
                && record_bytes <= FOLD_BYTES
                && tagger.is_some_and(|t| !t.checksum) =>
        {
            random_bytes_per_block(compress_ratio)
        }
        _ => 0,
    }
}

/// Random bytes at the head of a block so that it compresses `ratio` times, tag included.
///
/// What the codecs add for the run of zeros and save on the tag nearly cancels: fitted to zlib level 1
/// and lz4 over 128 KiB chunks, checked within 5 % by this module's tests.
fn random_bytes_per_block(ratio: f64) -> usize {
    const CODEC_BYTES: f64 = 4.0;
    if ratio <= 1.0 {
        return BLOCK_BYTES;
    }
    let random = BLOCK_BYTES as f64 / ratio - CODEC_BYTES;
    (random.round() as usize).clamp(TAG_BYTES, BLOCK_BYTES)
}

fn source_blocks(spec: &DataSpec) -> Vec<u8> {
    let mut source = vec![0u8; RING_BYTES];
    fill(&mut source, spec, u32::MAX);
    source
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::measure;

    fn sample(compress_ratio: f64, dedupe_ratio: f64, bytes: usize) -> Vec<u8> {
        let spec = DataSpec { kind: DataKind::Random { compress_ratio, dedupe_ratio }, seed: 9 };
        sample_of(&spec, 65536, 1, bytes)
    }

    fn sample_of(spec: &DataSpec, record: u32, depth: u32, bytes: usize) -> Vec<u8> {
        let tagger = Tagger { run: 5, file: 1, generation: 1, unit: 4096, checksum: false };
        let mut payload = Payload::new(spec, record, depth, 0, Some(tagger)).unwrap();
        let mut out = Vec::with_capacity(bytes);
        while out.len() < bytes {
            let (slot, buf) = payload.take(out.len() as u64).unwrap();
            // SAFETY: the slot was just taken and is not shared.
            out.extend_from_slice(unsafe { std::slice::from_raw_parts(buf.ptr, buf.len) });
            payload.release(slot);
        }
        out
    }

    #[test]
    fn compress_ratio_is_confirmed_by_zlib_and_lz4() {
        for ratio in [1.0, 1.3, 2.0, 3.0, 5.7, 10.0, 20.0] {
            let measured = measure(&sample(ratio, 1.0, 2 << 20));
            for (codec, got) in [("zlib", measured.compress_ratio_zlib), ("lz4", measured.compress_ratio_lz4)] {
                assert!((got / ratio - 1.0).abs() < 0.05, "{codec}: {got:.3} for {ratio}");
            }
            assert!((measured.dedupe_ratio - 1.0).abs() < 1e-9, "every block is unique");
        }
    }

    #[test]
    fn dedupe_ratio_is_confirmed_by_counting_blocks() {
        for ratio in [1.5, 2.0, 4.0] {
            let measured = measure(&sample(1.0, ratio, 32 << 20));
            assert!((measured.dedupe_ratio / ratio - 1.0).abs() < 0.05, "{:.3} for {ratio}", measured.dedupe_ratio);
        }
    }

    #[test]
    fn default_data_do_not_repeat_within_a_megabyte_window() {
        for (record, depth) in [(4096, 1), (65536, 1), (4096, 8), (262_144, 1)] {
            let data = sample_of(&DataSpec::random(9), record, depth, 2 << 20);
            let body = |i: usize| &data[i * BLOCK_BYTES + TAG_BYTES..(i + 1) * BLOCK_BYTES];
            let near = RING_BYTES / BLOCK_BYTES;
            assert!((1..near).all(|i| body(0) != body(i)), "records of {record} at depth {depth}");
        }
    }

    #[test]
    fn slots_in_use_are_not_handed_out() {
        let mut payload = Payload::new(&DataSpec::random(1), 1 << 20, 3, 0, None).unwrap();
        let taken: Vec<u32> = (0..3).map(|i| payload.take(i << 20).unwrap().0).collect();
        assert!(payload.take(0).is_none());
        payload.release(taken[1]);
        assert_eq!(payload.take(0).unwrap().0, taken[1]);
    }

    #[test]
    fn written_blocks_pass_their_check_and_damage_does_not() {
        let spec = DataSpec::random(3);
        for (record, unit) in [(16384u32, 4096u32), (1536, 512), (1000, 1000)] {
            let tagger = Tagger { run: 5, file: 1, generation: 2, unit, checksum: true };
            let mut payload = Payload::new(&spec, record, 2, 0, Some(tagger)).unwrap();
            let (_, buf) = payload.take(7 * record as u64).unwrap();
            // SAFETY: the slot was just taken and is not shared.
            let bytes = unsafe { std::slice::from_raw_parts_mut(buf.ptr, buf.len) };
            let check = |b: &[u8]| check_record(spec.kind, Some(&tagger), true, b, 7 * record as u64);
            assert_eq!(check(bytes), Ok((record / unit) as u64));
            bytes[record as usize - 1] ^= 1;
            assert!(matches!(check(bytes), Err((_, Defect::Damaged))));
        }
    }

    #[test]
    fn plain_patterns_are_checked() {
        for kind in [DataKind::Fill(0xA5), DataKind::Iozone] {
            let mut payload = Payload::new(&DataSpec { kind, seed: 0 }, 8192, 1, 0, None).unwrap();
            let (_, buf) = payload.take(0).unwrap();
            // SAFETY: the slot was just taken and is not shared.
            let bytes = unsafe { std::slice::from_raw_parts_mut(buf.ptr, buf.len) };
            assert!(check_record(kind, None, true, bytes, 0).is_ok());
            bytes[4096] ^= 1;
            assert_eq!(check_record(kind, None, true, bytes, 0), Err((4096, Defect::Pattern)));
        }
    }
}
