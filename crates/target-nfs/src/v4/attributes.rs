//! Attributes of NFS 4: a bitmap of what is there, and the values in the order of their bits.

use crate::xdr::{Bad, Decoded, Decoder, Put};
use naslab_core::FileTimes;

/// Masks of the attributes that are asked for, two words each.
pub(super) mod bit {
    pub const TYPE: u32 = 1 << 1;
    pub const SIZE: u32 = 1 << 4;
    pub const FSID: u32 = 1 << 8;
    pub const LEASE_TIME: u32 = 1 << 10;
    pub const RDATTR_ERROR: u32 = 1 << 11;
    pub const MAXFILESIZE: u32 = 1 << 27;
    pub const MAXREAD: u32 = 1 << 30;
    pub const MAXWRITE: u32 = 1 << 31;
    /// In the second word.
    pub const MODE: u32 = 1 << 1;
    pub const SPACE_AVAIL: u32 = 1 << 10;
    pub const SPACE_TOTAL: u32 = 1 << 12;
    pub const SPACE_USED: u32 = 1 << 13;
    pub const TIME_ACCESS_SET: u32 = 1 << 16;
    pub const TIME_MODIFY: u32 = 1 << 21;
    pub const TIME_MODIFY_SET: u32 = 1 << 22;

    pub const STAT: [u32; 2] = [TYPE | SIZE | FSID, SPACE_USED | TIME_MODIFY];
    pub const LIST: [u32; 2] = [TYPE | FSID | RDATTR_ERROR, 0];
    pub const LIMITS: [u32; 2] = [LEASE_TIME | MAXFILESIZE | MAXREAD | MAXWRITE, 0];
    pub const SPACE: [u32; 2] = [0, SPACE_AVAIL | SPACE_TOTAL];
}

/// Longest bitmap taken, in words.
const MOST_WORDS: usize = 8;
/// Longest list of values taken.
const MOST_VALUE_BYTES: usize = 64 * 1024;

/// settime4: as the client says.
const SET_TO_CLIENT_TIME: u32 = 1;
const NS_PER_SECOND: i64 = 1_000_000_000;

/// Attributes to set.
#[derive(Clone, Copy, Default)]
pub(super) struct NewAttributes {
    pub mode: Option<u32>,
    pub size: Option<u64>,
    pub times: Option<FileTimes>,
}

/// bitmap4.
pub(super) fn put_mask(out: &mut Vec<u8>, mask: [u32; 2]) {
    let words = if mask[1] == 0 { 1 } else { 2 };
    out.put_u32(words as u32);
    for word in &mask[..words] {
        out.put_u32(*word);
    }
}

/// fattr4 with attributes to set.
pub(super) fn put_new(out: &mut Vec<u8>, new: NewAttributes) {
    let size_bit = if new.size.is_some() { bit::SIZE } else { 0 };
    let mode_bit = if new.mode.is_some() { bit::MODE } else { 0 };
    let times_bits = if new.times.is_some() { bit::TIME_ACCESS_SET | bit::TIME_MODIFY_SET } else { 0 };
    put_mask(out, [size_bit, mode_bit | times_bits]);
    let times_bytes = if new.times.is_some() { 2 * 16 } else { 0 };
    out.put_u32(8 * u32::from(new.size.is_some()) + 4 * u32::from(new.mode.is_some()) + times_bytes);
    if let Some(size) = new.size {
        out.put_u64(size);
    }
    if let Some(mode) = new.mode {
        out.put_u32(mode);
    }
    for ns in new.times.iter().flat_map(|times| [times.accessed_ns, times.modified_ns]) {
        out.put_u32(SET_TO_CLIENT_TIME);
        out.put_u64(ns.div_euclid(NS_PER_SECOND) as u64);
        out.put_u32(ns.rem_euclid(NS_PER_SECOND) as u32);
    }
}

/// fattr4 with a type to compare.
pub(super) fn put_type(out: &mut Vec<u8>, kind: u32) {
    put_mask(out, [bit::TYPE, 0]);
    out.put_u32(4);
    out.put_u32(kind);
}

/// Drops a bitmap.
pub(super) fn skip_mask(d: &mut Decoder<'_>) -> Decoded<()> {
    let words = d.length(MOST_WORDS)?;
    d.skip(4 * words)
}

/// Attributes that came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Values {
    pub kind: Option<u32>,
    pub size: Option<u64>,
    pub fsid: Option<(u64, u64)>,
    pub lease_seconds: Option<u32>,
    pub max_file: Option<u64>,
    pub max_read: Option<u64>,
    pub max_write: Option<u64>,
    pub space_available: Option<u64>,
    pub space_total: Option<u64>,
    pub space_used: Option<u64>,
    pub modified_ns: Option<i64>,
}

impl Values {
    /// fattr4. Attributes that were never asked for are refused: their length is not known.
    pub fn take(d: &mut Decoder<'_>) -> Decoded<Values> {
        let words = d.length(MOST_WORDS)?;
        let mut mask = [0u32; MOST_WORDS];
        for word in &mut mask[..words] {
            *word = d.u32()?;
        }
        let mut d = Decoder::new(d.opaque(MOST_VALUE_BYTES)?);
        let mut values = Values::default();
        for at in 0..32 * words {
            let bit = 1u32 << (at % 32);
            if mask[at / 32] & bit != 0 {
                values.take_one(&mut d, at / 32, bit)?;
            }
        }
        Ok(values)
    }

    fn take_one(&mut self, d: &mut Decoder<'_>, word: usize, bit: u32) -> Decoded<()> {
        match (word, bit) {
            (0, bit::TYPE) => self.kind = Some(d.u32()?),
            (0, bit::SIZE) => self.size = Some(d.u64()?),
            (0, bit::FSID) => self.fsid = Some((d.u64()?, d.u64()?)),
            (0, bit::LEASE_TIME) => self.lease_seconds = Some(d.u32()?),
            (0, bit::RDATTR_ERROR) => d.skip(4)?,
            (0, bit::MAXFILESIZE) => self.max_file = Some(d.u64()?),
            (0, bit::MAXREAD) => self.max_read = Some(d.u64()?),
            (0, bit::MAXWRITE) => self.max_write = Some(d.u64()?),
            (1, bit::SPACE_AVAIL) => self.space_available = Some(d.u64()?),
            (1, bit::SPACE_TOTAL) => self.space_total = Some(d.u64()?),
            (1, bit::SPACE_USED) => self.space_used = Some(d.u64()?),
            (1, bit::TIME_MODIFY) => {
                let (seconds, ns) = (d.u64()? as i64, d.u32()?);
                self.modified_ns = seconds.checked_mul(NS_PER_SECOND).and_then(|whole| whole.checked_add(ns.into()));
            }
            _ => return Err(Bad::Wrong("an attribute came that was not requested")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_in_the_order_of_their_bits() {
        let mut out = Vec::new();
        put_mask(&mut out, bit::STAT);
        out.put_u32(4 + 8 + 16 + 8 + 12);
        out.put_u32(2);
        out.put_u64(4096);
        out.put_u64(7);
        out.put_u64(8);
        out.put_u64(8192);
        out.put_u64(3);
        out.put_u32(5);
        let values = Values::take(&mut Decoder::new(&out)).unwrap();
        let expected = Values {
            kind: Some(2),
            size: Some(4096),
            fsid: Some((7, 8)),
            space_used: Some(8192),
            modified_ns: Some(3_000_000_005),
            ..Values::default()
        };
        assert_eq!(values, expected);
        for cut in 0..out.len() {
            assert!(Values::take(&mut Decoder::new(&out[..cut])).is_err());
        }
    }

    #[test]
    fn new_attributes_as_on_the_wire() {
        let mut out = Vec::new();
        put_new(&mut out, NewAttributes { mode: Some(0o644), size: Some(0), times: None });
        assert_eq!(out, [0, 0, 0, 2, 0, 0, 0, 16, 0, 0, 0, 2, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xa4]);
        let mut set = Vec::new();
        let times = FileTimes { accessed_ns: 1, modified_ns: -1 };
        put_new(&mut set, NewAttributes { times: Some(times), ..NewAttributes::default() });
        assert_eq!(set[..16], [0, 0, 0, 2, 0, 0, 0, 0, 0, 0x41, 0, 0, 0, 0, 0, 32]);
        assert_eq!(set[16..32], [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(set[32..44], [0, 0, 0, 1, 255, 255, 255, 255, 255, 255, 255, 255]);
        assert_eq!(set[44..], 999_999_999u32.to_be_bytes());
        let mut none = Vec::new();
        put_new(&mut none, NewAttributes::default());
        assert_eq!(none, [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn unknown_attributes_are_refused() {
        let unknown = [0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 0];
        assert!(matches!(Values::take(&mut Decoder::new(&unknown)), Err(Bad::Wrong(_))));
        assert!(Values::take(&mut Decoder::new(&[0, 0, 0, 9])).is_err());
    }
}
