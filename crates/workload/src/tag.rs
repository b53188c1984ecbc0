//! The tag at the head of every written block: it makes the block unique and lets a read be checked.

use naslab_core::ErrorKind;

/// Length of a tag in bytes.
pub const TAG_BYTES: usize = 32;
/// First four bytes of every tagged block; a file that starts with them was written by naslab.
pub const TAG_MAGIC: [u8; 4] = *b"nSlb";

/// What is wrong with a block that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// No tag at all: never written, or overwritten by something else.
    NoTag,
    /// A block of another run, file or place.
    Misplaced {
        /// Offset in the file that the tag names, in bytes.
        tagged_offset_bytes: u64,
    },
    /// An older generation: a write was acknowledged and lost.
    Stale {
        /// Generation found.
        generation: u32,
    },
    /// Checksum does not match the bytes.
    Damaged,
    /// A plain pattern byte differs.
    Pattern,
}

impl Defect {
    /// Class used in results.
    pub fn kind(self) -> ErrorKind {
        ErrorKind::Corrupt
    }
}

/// Size of the blocks a record is tagged in: 4096, else 512, else the record itself; `None` for records
/// too small to hold a tag.
pub fn tag_unit(record_bytes: u32) -> Option<u32> {
    match record_bytes {
        r if r % 4096 == 0 => Some(4096),
        r if r % 512 == 0 => Some(512),
        r if r as usize >= TAG_BYTES => Some(r),
        _ => None,
    }
}

/// Writes and checks the tags of one file's blocks.
///
/// Layout, little-endian: magic 4, checksum 4, run 8, file 4, generation 4, offset 8. The checksum is
/// CRC-32C of the last 24 tag bytes exclusive-or CRC-32C of the block's body, so that the body's part
/// can be computed once per ring slot; 0 means "not computed" (runs without `--verify`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tagger {
    /// The run.
    pub run: u64,
    /// The file within the run.
    pub file: u32,
    /// Rises with every pass that writes the file.
    pub generation: u32,
    /// Block size, from [`tag_unit`].
    pub unit: u32,
    /// Whether checksums are written and checked.
    pub checksum: bool,
}

impl Tagger {
    /// Tags one block, whose body has CRC-32C `body_crc`.
    #[inline]
    pub fn stamp(&self, block: &mut [u8], offset_bytes: u64, body_crc: u32) {
        let mut tag = [0u8; TAG_BYTES];
        tag[..4].copy_from_slice(&TAG_MAGIC);
        tag[8..16].copy_from_slice(&self.run.to_le_bytes());
        tag[16..20].copy_from_slice(&self.file.to_le_bytes());
        tag[20..24].copy_from_slice(&self.generation.to_le_bytes());
        tag[24..32].copy_from_slice(&offset_bytes.to_le_bytes());
        if self.checksum {
            let crc = crc32c::crc32c(&tag[8..]) ^ body_crc;
            tag[4..8].copy_from_slice(&crc.to_le_bytes());
        }
        block[..TAG_BYTES].copy_from_slice(&tag);
    }

    /// Checks one block read at `offset_bytes`. `exact`: the generation must be this one; else not newer.
    pub fn check(&self, block: &[u8], offset_bytes: u64, exact: bool) -> Result<(), Defect> {
        let tag = &block[..TAG_BYTES];
        if tag[..4] != TAG_MAGIC {
            return Err(Defect::NoTag);
        }
        let word = |at: usize| u32::from_le_bytes(tag[at..at + 4].try_into().unwrap_or_default());
        let long = |at: usize| u64::from_le_bytes(tag[at..at + 8].try_into().unwrap_or_default());
        let crc = crc32c::crc32c(&tag[8..]) ^ crc32c::crc32c(&block[TAG_BYTES..]);
        if self.checksum && crc != word(4) {
            return Err(Defect::Damaged);
        }
        if long(8) != self.run || word(16) != self.file || long(24) != offset_bytes {
            return Err(Defect::Misplaced { tagged_offset_bytes: long(24) });
        }
        let generation = word(20);
        if generation != self.generation && (exact || generation > self.generation || generation == 0) {
            return Err(Defect::Stale { generation });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tagger() -> Tagger {
        Tagger { run: 11, file: 2, generation: 3, unit: 512, checksum: true }
    }

    fn block() -> Vec<u8> {
        let mut block: Vec<u8> = (0..512).map(|i| (i * 7) as u8).collect();
        let crc = crc32c::crc32c(&block[TAG_BYTES..]);
        tagger().stamp(&mut block, 4096, crc);
        block
    }

    #[test]
    fn good_block_passes() {
        assert_eq!(tagger().check(&block(), 4096, true), Ok(()));
    }

    #[test]
    fn every_flipped_bit_is_found() {
        for bit in 0..512 * 8 {
            let mut bad = block();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(tagger().check(&bad, 4096, true).is_err(), "bit {bit} went unseen");
        }
    }

    #[test]
    fn wrong_place_run_file_and_generation() {
        let misplaced = tagger().check(&block(), 0, true);
        assert_eq!(misplaced, Err(Defect::Misplaced { tagged_offset_bytes: 4096 }));
        let newer = Tagger { generation: 4, ..tagger() };
        assert_eq!(newer.check(&block(), 4096, true), Err(Defect::Stale { generation: 3 }));
        assert_eq!(newer.check(&block(), 4096, false), Ok(()));
        assert!(Tagger { run: 12, ..tagger() }.check(&block(), 4096, true).is_err());
        assert!(Tagger { file: 1, ..tagger() }.check(&block(), 4096, true).is_err());
        assert_eq!(tagger().check(&[0; 512], 4096, true), Err(Defect::NoTag));
    }

    #[test]
    fn units() {
        assert_eq!(tag_unit(65536), Some(4096));
        assert_eq!(tag_unit(1536), Some(512));
        assert_eq!(tag_unit(1000), Some(1000));
        assert_eq!(tag_unit(31), None);
    }
}
