//! Sealed bytes on their way: made once for each connection, and big enough for many records.

use crate::os::{self, Wait};
use crate::wire::{broken, is_wait, Plain, CLOSED};
use naslab_core::{Error, ErrorKind, Result};
use std::io::IoSlice;

/// Received bytes that one system call may take.
const INCOMING_BYTES: usize = 128 * 1024;
/// Content that is sealed at once.
pub(super) const CHUNK_BYTES: usize = 128 * 1024;
/// Room beside it: what records add, and a message that changes the keys.
const OUTGOING_BYTES: usize = CHUNK_BYTES + 8 * 1024;
/// What a record adds to at most 16 KiB of content: head, kind and tag.
const RECORD_BYTES: usize = 16 * 1024;
const OVERHEAD_BYTES: usize = HEAD_BYTES + 1 + 16;
/// Kind, version and length.
const HEAD_BYTES: usize = 5;

/// Received and not opened yet: `bytes[start..end]`.
#[derive(Debug)]
pub(super) struct Incoming {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Incoming {
    pub fn new() -> Incoming {
        Incoming { bytes: vec![0; INCOMING_BYTES].into_boxed_slice(), start: 0, end: 0 }
    }

    pub fn filled(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.end]
    }

    pub fn discard(&mut self, count: usize) {
        self.start += count;
        if self.start >= self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Whether the first record is there whole, as its head says.
    pub fn has_record(&self) -> bool {
        self.lacking_bytes() == 0
    }

    /// What the first record lacks, or its head.
    fn lacking_bytes(&self) -> usize {
        match &self.bytes[self.start..self.end] {
            [_, _, _, high, low, rest @ ..] => {
                usize::from(u16::from_be_bytes([*high, *low])).saturating_sub(rest.len())
            }
            part => HEAD_BYTES - part.len(),
        }
    }

    /// Bytes that are sure to come where `wanted` bytes of content are: never less than the record under way lacks, for
    /// single bytes of it would bring nothing.
    fn to_come(&self, wanted: usize) -> usize {
        let sealed = wanted + wanted.div_ceil(RECORD_BYTES) * OVERHEAD_BYTES;
        sealed.saturating_sub(self.end - self.start).max(self.lacking_bytes()).max(1)
    }

    /// Receives more, of which at least `wanted` bytes of content are to come; zero when nothing came now.
    pub fn receive(&mut self, plain: &mut Plain<'_>, wanted: usize, wait: Wait) -> Result<usize> {
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let mut room = self.bytes.len() - self.end;
        if wait == Wait::All {
            room = room.min(self.to_come(wanted));
        }
        if room == 0 {
            return Err(Error::new(
                ErrorKind::Protocol,
                "receive",
                "a record of the server's is longer than TLS allows",
            ));
        }
        let into = &mut self.bytes[self.end..self.end + room];
        match os::receive(plain.socket, crate::wire::uninit(into), wait) {
            Ok(0) => Err(Error::new(ErrorKind::Disconnected, "receive", CLOSED)),
            Ok(taken) => {
                plain.counters.received_bytes += taken as u64;
                self.end += taken;
                Ok(taken)
            }
            Err(e) if is_wait(&e) => Ok(0),
            Err(e) => Err(broken("receive", e)),
        }
    }
}

/// Sealed and not sent yet: `bytes[start..end]`.
#[derive(Debug)]
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Outgoing {
    pub fn new() -> Outgoing {
        Outgoing { bytes: vec![0; OUTGOING_BYTES], start: 0, end: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Appends what `write` seals into the room there is; it is asked again with the room that it says it needs.
    pub fn append<E>(
        &mut self,
        mut write: impl FnMut(&mut [u8]) -> std::result::Result<usize, E>,
        needed: impl Fn(&E) -> Option<usize>,
    ) -> std::result::Result<(), E> {
        let written = match write(&mut self.bytes[self.end..]) {
            Err(error) => match needed(&error) {
                Some(room) => {
                    self.bytes.resize(self.end + room, 0);
                    write(&mut self.bytes[self.end..])?
                }
                None => return Err(error),
            },
            Ok(written) => written,
        };
        self.end += written;
        Ok(())
    }

    /// Sends what the socket takes; true when nothing is left.
    pub fn flush(&mut self, plain: &mut Plain<'_>, wait: Wait) -> Result<bool> {
        if !self.is_empty() {
            match os::send(plain.socket, &[IoSlice::new(&self.bytes[self.start..self.end])], wait) {
                Ok(taken) => {
                    plain.counters.sent_bytes += taken as u64;
                    self.start += taken;
                }
                Err(e) if is_wait(&e) => return Ok(false),
                Err(e) => return Err(broken("send", e)),
            }
        }
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
        }
        Ok(self.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_waited_for_completes_a_record() {
        let mut incoming = Incoming::new();
        assert!(!incoming.has_record());
        assert_eq!(incoming.to_come(100), 122);
        assert_eq!(incoming.to_come(16 * 1024 + 1), 16 * 1024 + 1 + 2 * 22);
        // 1,000 bytes of a record of 16 KiB: the last hundred that are wanted are in the rest of it.
        incoming.bytes[..5].copy_from_slice(&[23, 3, 3, 0x40, 0x11]);
        incoming.end = 1000;
        assert_eq!(incoming.to_come(100), 5 + 0x4011 - 1000);
        incoming.end = 5 + 0x4011;
        assert!(incoming.has_record());
        assert_eq!(incoming.to_come(1), 1);
        incoming.discard(5 + 0x4011);
        assert_eq!((incoming.filled().len(), incoming.to_come(1)), (0, 23));
    }
}
