//! Headers and bounded access to received bytes. Every length is checked before it is used.

use naslab_core::{Error, ErrorKind, Result};

/// Bytes of an SMB2 header.
pub(crate) const HEADER_BYTES: usize = 64;
/// Bytes of a transform header, in front of an encrypted message.
pub(crate) const TRANSFORM_BYTES: usize = 52;

pub(crate) const NEGOTIATE: u16 = 0;
pub(crate) const SESSION_SETUP: u16 = 1;
pub(crate) const TREE_CONNECT: u16 = 3;
pub(crate) const CREATE: u16 = 5;
pub(crate) const CLOSE: u16 = 6;
pub(crate) const FLUSH: u16 = 7;
pub(crate) const READ: u16 = 8;
pub(crate) const WRITE: u16 = 9;
pub(crate) const IOCTL: u16 = 11;
pub(crate) const ECHO: u16 = 13;
pub(crate) const QUERY_DIRECTORY: u16 = 14;
pub(crate) const QUERY_INFO: u16 = 16;
pub(crate) const SET_INFO: u16 = 17;
pub(crate) const OPLOCK_BREAK: u16 = 18;

/// Header flags.
pub(crate) const FLAG_RESPONSE: u32 = 0x1;
pub(crate) const FLAG_ASYNC: u32 = 0x2;
pub(crate) const FLAG_RELATED: u32 = 0x4;
pub(crate) const FLAG_SIGNED: u32 = 0x8;
/// The request was sent before, and its answer was lost.
pub(crate) const FLAG_REPLAY: u32 = 0x2000_0000;

/// First bytes of a plain and of an encrypted message.
pub(crate) const PLAIN_MAGIC: [u8; 4] = [0xFE, b'S', b'M', b'B'];
pub(crate) const TRANSFORM_MAGIC: [u8; 4] = [0xFD, b'S', b'M', b'B'];
pub(crate) const COMPRESSED_MAGIC: [u8; 4] = [0xFC, b'S', b'M', b'B'];
pub(crate) const SMB1_MAGIC: [u8; 4] = [0xFF, b'S', b'M', b'B'];

/// The file id that means "of the request before" in a compound.
pub(crate) const RELATED_FILE: [u8; 16] = [0xFF; 16];

/// The error of an answer that breaks the protocol.
#[cold]
pub(crate) fn broken(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Protocol, "receive", message)
}

#[cold]
fn short(at: usize, wanted: usize, len: usize) -> Error {
    broken(format!("an answer ends too early: bytes {at} to {} of {len} are needed", at.saturating_add(wanted)))
}

/// Received bytes.
#[derive(Clone, Copy)]
pub(crate) struct View<'a>(pub &'a [u8]);

impl<'a> View<'a> {
    /// `len` bytes from `at`.
    pub fn bytes(self, at: usize, len: usize) -> Result<&'a [u8]> {
        let end = at.checked_add(len).filter(|end| *end <= self.0.len());
        end.map(|end| &self.0[at..end]).ok_or_else(|| short(at, len, self.0.len()))
    }

    /// A fixed array.
    pub fn array<const N: usize>(self, at: usize) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.bytes(at, N)?);
        Ok(out)
    }

    pub fn u16(self, at: usize) -> Result<u16> {
        self.array(at).map(u16::from_le_bytes)
    }

    pub fn u32(self, at: usize) -> Result<u32> {
        self.array(at).map(u32::from_le_bytes)
    }

    pub fn u64(self, at: usize) -> Result<u64> {
        self.array(at).map(u64::from_le_bytes)
    }

    /// The bytes that a pair of offset and length speaks of; none when the length is zero.
    pub fn piece(self, at: usize, len: usize) -> Result<&'a [u8]> {
        if len == 0 {
            return Ok(&[]);
        }
        self.bytes(at, len)
    }
}

/// A header of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub status: u32,
    pub command: u16,
    pub credits: u16,
    pub flags: u32,
    pub next: u32,
    pub message_id: u64,
    pub tree_id: u32,
    pub session_id: u64,
    pub signature: [u8; 16],
}

impl Header {
    /// Reads the header of an answer; refuses anything else.
    pub fn parse(message: &[u8]) -> Result<Header> {
        let view = View(message);
        view.bytes(0, HEADER_BYTES)?;
        if message[..4] != PLAIN_MAGIC || view.u16(4)? != HEADER_BYTES as u16 {
            return Err(broken("an answer does not begin with an SMB2 header"));
        }
        let header = Header {
            status: view.u32(8)?,
            command: view.u16(12)?,
            credits: view.u16(14)?,
            flags: view.u32(16)?,
            next: view.u32(20)?,
            message_id: view.u64(24)?,
            tree_id: view.u32(36)?,
            session_id: view.u64(40)?,
            signature: view.array(48)?,
        };
        if header.flags & FLAG_RESPONSE == 0 {
            return Err(broken("the server sent a request instead of an answer"));
        }
        Ok(header)
    }
}

/// What goes into the header of a request.
#[derive(Clone, Copy)]
pub(crate) struct RequestHeader {
    pub command: u16,
    pub charge: u16,
    pub credits: u16,
    pub flags: u32,
    pub next: u32,
    pub message_id: u64,
    pub tree_id: u32,
    pub session_id: u64,
}

impl RequestHeader {
    #[inline]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[..4].copy_from_slice(&PLAIN_MAGIC);
        out[4] = HEADER_BYTES as u8;
        out[6..8].copy_from_slice(&self.charge.to_le_bytes());
        out[12..14].copy_from_slice(&self.command.to_le_bytes());
        out[14..16].copy_from_slice(&self.credits.to_le_bytes());
        out[16..20].copy_from_slice(&self.flags.to_le_bytes());
        out[20..24].copy_from_slice(&self.next.to_le_bytes());
        out[24..32].copy_from_slice(&self.message_id.to_le_bytes());
        out[36..40].copy_from_slice(&self.tree_id.to_le_bytes());
        out[40..48].copy_from_slice(&self.session_id.to_le_bytes());
        out
    }
}

/// Appending numbers to a request.
pub(crate) trait Put {
    fn u8(&mut self, value: u8);
    fn u16(&mut self, value: u16);
    fn u32(&mut self, value: u32);
    fn u64(&mut self, value: u64);
    fn put(&mut self, bytes: &[u8]);
    fn zeros(&mut self, count: usize);
    /// Zeros up to the next multiple of 8.
    fn align8(&mut self);
}

impl Put for Vec<u8> {
    fn u8(&mut self, value: u8) {
        self.push(value);
    }

    fn u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn zeros(&mut self, count: usize) {
        self.resize(self.len() + count, 0);
    }

    fn align8(&mut self) {
        self.resize(self.len().next_multiple_of(8), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn headers_come_back(command in 0u16..19, credits in any::<u16>(), id in any::<u64>(), session in any::<u64>(),
                             tree in any::<u32>(), next in any::<u32>()) {
            let sent = RequestHeader { command, charge: 1, credits, flags: FLAG_RESPONSE | FLAG_SIGNED, next,
                message_id: id, tree_id: tree, session_id: session };
            let got = Header::parse(&sent.encode()).unwrap();
            prop_assert_eq!((got.command, got.credits, got.message_id), (command, credits, id));
            prop_assert_eq!((got.session_id, got.tree_id, got.next, got.status), (session, tree, next, 0));
        }

        #[test]
        fn any_bytes_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..100), at in any::<usize>(), len in any::<usize>()) {
            let _ = Header::parse(&bytes);
            let view = View(&bytes);
            prop_assert_eq!(view.bytes(at, len).is_ok(), at.checked_add(len).is_some_and(|end| end <= bytes.len()));
        }
    }
}
