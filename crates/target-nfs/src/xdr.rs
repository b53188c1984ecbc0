//! XDR (RFC 4506): big-endian words, opaques padded to four bytes. Every length is bounded before it is used.

use naslab_core::{Error, ErrorKind};

/// Why bytes could not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bad {
    /// The bytes end too early.
    Truncated,
    /// A value that the protocol does not allow, in words.
    Wrong(&'static str),
}

/// Result of a decoding step.
pub(crate) type Decoded<T> = Result<T, Bad>;

impl Bad {
    /// As an error of a call.
    pub fn error(self, operation: &'static str) -> Error {
        let what = match self {
            Bad::Truncated => "it ends too early",
            Bad::Wrong(what) => what,
        };
        Error::new(ErrorKind::Protocol, operation, format!("the server's reply breaks the protocol: {what}"))
    }
}

/// Bytes that fill an opaque of this length up to a whole word.
#[inline]
pub(crate) fn padding(len: usize) -> usize {
    len.wrapping_neg() & 3
}

/// Takes values off the front of a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Decoder<'a> {
    /// Begins at the first byte.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Decoder<'a> {
        Decoder { bytes, at: 0 }
    }

    /// Bytes taken so far.
    #[inline]
    pub fn position(&self) -> usize {
        self.at
    }

    /// Bytes left.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next `n` bytes.
    #[inline]
    pub fn raw(&mut self, n: usize) -> Decoded<&'a [u8]> {
        if self.remaining() < n {
            return Err(Bad::Truncated);
        }
        let found = &self.bytes[self.at..self.at + n];
        self.at += n;
        Ok(found)
    }

    /// An opaque of fixed length (a multiple of four).
    #[inline]
    pub fn fixed<const N: usize>(&mut self) -> Decoded<[u8; N]> {
        let mut found = [0; N];
        found.copy_from_slice(self.raw(N)?);
        Ok(found)
    }

    /// An unsigned word.
    #[inline]
    pub fn u32(&mut self) -> Decoded<u32> {
        Ok(u32::from_be_bytes(self.fixed()?))
    }

    /// An unsigned double word.
    #[inline]
    pub fn u64(&mut self) -> Decoded<u64> {
        Ok(u64::from_be_bytes(self.fixed()?))
    }

    /// A truth value.
    #[inline]
    pub fn bool(&mut self) -> Decoded<bool> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Bad::Wrong("a truth value is neither 0 nor 1")),
        }
    }

    /// A length that must not be above `most`.
    #[inline]
    pub fn length(&mut self, most: usize) -> Decoded<usize> {
        let len = self.u32()? as usize;
        if len > most {
            return Err(Bad::Wrong("a length is above what the protocol allows"));
        }
        Ok(len)
    }

    /// An opaque of at most `most` bytes, and its padding.
    #[inline]
    pub fn opaque(&mut self, most: usize) -> Decoded<&'a [u8]> {
        let len = self.length(most)?;
        let found = self.raw(len)?;
        self.raw(padding(len))?;
        Ok(found)
    }

    /// Text of at most `most` bytes. Bytes that are no UTF-8 become the replacement character.
    pub fn text(&mut self, most: usize) -> Decoded<String> {
        Ok(String::from_utf8_lossy(self.opaque(most)?).into_owned())
    }

    /// Drops `n` bytes.
    #[inline]
    pub fn skip(&mut self, n: usize) -> Decoded<()> {
        self.raw(n).map(drop)
    }
}

/// Appends XDR values to a buffer that is used again and again.
pub(crate) trait Put {
    /// An unsigned word.
    fn put_u32(&mut self, value: u32);
    /// An unsigned double word.
    fn put_u64(&mut self, value: u64);
    /// Bytes as they are.
    fn put_raw(&mut self, bytes: &[u8]);
    /// An opaque: length, bytes, padding.
    fn put_opaque(&mut self, bytes: &[u8]);
    /// What fills an opaque of `len` bytes up to a whole word.
    fn put_padding(&mut self, len: usize) {
        self.put_raw(&[0; 3][..padding(len)]);
    }
    /// A truth value.
    fn put_bool(&mut self, value: bool) {
        self.put_u32(value.into());
    }
}

impl Put for Vec<u8> {
    #[inline]
    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    #[inline]
    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    #[inline]
    fn put_raw(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    #[inline]
    fn put_opaque(&mut self, bytes: &[u8]) {
        self.put_u32(bytes.len() as u32);
        self.extend_from_slice(bytes);
        self.put_padding(bytes.len());
    }
}

/// A file handle: what the server calls a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Handle {
    len: u8,
    bytes: [u8; Handle::MOST],
}

impl Handle {
    /// Longest handle of NFS 4; NFS 3 stops at 64.
    pub const MOST: usize = 128;

    /// From bytes; refused when there are too many.
    pub fn new(from: &[u8]) -> Decoded<Handle> {
        if from.len() > Handle::MOST {
            return Err(Bad::Wrong("a file handle is longer than the protocol allows"));
        }
        let mut bytes = [0; Handle::MOST];
        bytes[..from.len()].copy_from_slice(from);
        Ok(Handle { len: from.len() as u8, bytes })
    }

    /// Takes one of at most `most` bytes.
    pub fn take(d: &mut Decoder<'_>, most: usize) -> Decoded<Handle> {
        Handle::new(d.opaque(most.min(Handle::MOST))?)
    }

    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Handle({:02x?})", self.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn opaque_as_in_rfc_4506() {
        let mut out = Vec::new();
        out.put_opaque(b"sillyprog");
        // RFC 4506 section 7: length 9, the text, three bytes of fill.
        assert_eq!(out, [&[0, 0, 0, 9][..], b"sillyprog", &[0, 0, 0]].concat());
        let mut d = Decoder::new(&out);
        assert_eq!(d.opaque(9), Ok(&b"sillyprog"[..]));
        assert_eq!(d.remaining(), 0);
    }

    #[test]
    fn lengths_are_bounded_before_use() {
        let huge = [0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4];
        assert!(matches!(Decoder::new(&huge).opaque(64), Err(Bad::Wrong(_))));
        assert_eq!(Decoder::new(&huge).opaque(u32::MAX as usize), Err(Bad::Truncated));
        assert_eq!(Decoder::new(&[0, 0, 0, 2, 1, 2]).opaque(8), Err(Bad::Truncated), "padding is missing");
        assert!(Decoder::new(&[0, 0, 0, 2]).bool().is_err());
        assert!(Handle::new(&[0; 129]).is_err());
    }

    proptest! {
        #[test]
        fn what_goes_in_comes_out(bytes in proptest::collection::vec(any::<u8>(), 0..300), word: u32, long: u64, yes: bool) {
            let mut out = Vec::new();
            out.put_u32(word);
            out.put_opaque(&bytes);
            out.put_u64(long);
            out.put_bool(yes);
            prop_assert_eq!(out.len() % 4, 0);
            let mut d = Decoder::new(&out);
            prop_assert_eq!(d.u32(), Ok(word));
            prop_assert_eq!(d.opaque(300), Ok(&bytes[..]));
            prop_assert_eq!(d.u64(), Ok(long));
            prop_assert_eq!(d.bool(), Ok(yes));
            prop_assert_eq!(d.u32(), Err(Bad::Truncated));
        }
    }
}
