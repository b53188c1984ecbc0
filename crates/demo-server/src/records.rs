//! Records out of a stream of bytes (RFC 5531, section 11).

use crate::rpc::{mark, MOST_RECORD_BYTES};
use std::ops::Range;

/// Taken at once while no large record is under way.
const SMALL_BYTES: usize = 64 << 10;
const MARK_BYTES: usize = 4;

/// A length that no record may have: whoever speaks is no client of ours.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Bytes received and not yet used. A large record is received to its end and no further, so that it never has to
/// be moved.
pub(crate) struct Records {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
    /// Fragments of a record that came in several.
    joined: Vec<u8>,
}

/// Where a record lies.
pub(crate) enum Record {
    Here(Range<usize>),
    Joined(Vec<u8>),
}

impl Records {
    pub(crate) fn new() -> Self {
        let bytes = vec![0; MARK_BYTES + MOST_RECORD_BYTES + SMALL_BYTES].into_boxed_slice();
        Self { bytes, start: 0, end: 0, joined: Vec::new() }
    }

    pub(crate) fn bytes(&self, at: Range<usize>) -> &[u8] {
        &self.bytes[at]
    }

    /// The next whole record, if there is one.
    pub(crate) fn next(&mut self) -> Result<Option<Record>, TooLong> {
        while let Some((len, is_last)) = self.head()? {
            if self.end - self.start < MARK_BYTES + len {
                return Ok(None);
            }
            let at = self.start + MARK_BYTES..self.start + MARK_BYTES + len;
            self.start = at.end;
            if is_last && self.joined.is_empty() {
                return Ok(Some(Record::Here(at)));
            }
            self.joined.extend_from_slice(&self.bytes[at]);
            if is_last {
                return Ok(Some(Record::Joined(std::mem::take(&mut self.joined))));
            }
        }
        Ok(None)
    }

    /// Length of the fragment that begins here, and whether it is the last.
    fn head(&self) -> Result<Option<(usize, bool)>, TooLong> {
        let Some(word) = self.bytes[self.start..self.end].first_chunk() else { return Ok(None) };
        let (len, is_last) = mark(u32::from_be_bytes(*word));
        let is_idle = len == 0 && !is_last;
        if self.joined.len() + len > MOST_RECORD_BYTES || is_idle {
            return Err(TooLong);
        }
        Ok(Some((len, is_last)))
    }

    /// Whether bytes of a further record are here.
    pub(crate) fn has_more(&self) -> bool {
        self.start < self.end
    }

    /// Where to receive to. Call `filled` afterwards.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        let have = self.end - self.start;
        let missing = match self.head() {
            Ok(Some((len, _))) if MARK_BYTES + len > have => MARK_BYTES + len - have,
            _ => 0,
        };
        if have == 0 {
            (self.start, self.end) = (0, 0);
        } else if self.end + missing.max(SMALL_BYTES) > self.bytes.len() {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, have);
        }
        let most = if missing > SMALL_BYTES { missing } else { SMALL_BYTES };
        let stop = (self.end + most).min(self.bytes.len());
        &mut self.bytes[self.end..stop]
    }

    pub(crate) fn filled(&mut self, bytes: usize) {
        self.end += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(records: &mut Records, bytes: &[u8]) {
        let mut left = bytes;
        while !left.is_empty() {
            let room = records.room();
            let take = room.len().min(left.len());
            assert!(take > 0, "no room");
            room[..take].copy_from_slice(&left[..take]);
            records.filled(take);
            left = &left[take..];
        }
    }

    fn take(records: &mut Records) -> Option<Vec<u8>> {
        records.next().unwrap().map(|record| match record {
            Record::Here(at) => records.bytes(at).to_vec(),
            Record::Joined(bytes) => bytes,
        })
    }

    fn record(bytes: &[u8], is_last: bool) -> Vec<u8> {
        let word = bytes.len() as u32 | if is_last { 1 << 31 } else { 0 };
        [&word.to_be_bytes(), bytes].concat()
    }

    #[test]
    fn records_come_whole_however_they_arrive() {
        let large: Vec<u8> = (0..MOST_RECORD_BYTES).map(|i| i as u8).collect();
        let all = [record(b"one", true), record(&large, true), record(b"fr", false), record(b"agments", true)].concat();
        for step in [1, 7, 65_536, 1 << 20] {
            let mut records = Records::new();
            let mut found = Vec::new();
            for part in all.chunks(step) {
                feed(&mut records, part);
                while let Some(bytes) = take(&mut records) {
                    found.push(bytes);
                }
            }
            assert_eq!(found, [b"one".to_vec(), large.clone(), b"fragments".to_vec()], "in steps of {step}");
            assert!(!records.has_more());
        }
    }

    #[test]
    fn lengths_out_of_bounds_end_it() {
        for word in [u32::MAX, MOST_RECORD_BYTES as u32 + 1, 0] {
            let mut records = Records::new();
            feed(&mut records, &word.to_be_bytes());
            assert_eq!(records.next().err(), Some(TooLong), "{word:x}");
        }
        let mut records = Records::new();
        feed(&mut records, &record(&[0; 600_000], false));
        assert!(records.next().unwrap().is_none());
        feed(&mut records, &600_000u32.to_be_bytes());
        assert_eq!(records.next().err(), Some(TooLong), "fragments add up");
    }
}
