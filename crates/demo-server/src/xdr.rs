//! XDR (RFC 4506), as much of it as NFS 3 needs. Every length is checked before it is used.

/// The bytes are not what the procedure takes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Garbage;

/// Takes values from the front of a message.
pub(crate) struct Reader<'a> {
    left: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { left: bytes }
    }

    pub(crate) fn fixed(&mut self, len: usize) -> Result<&'a [u8], Garbage> {
        let (taken, left) = self.left.split_at_checked(len).ok_or(Garbage)?;
        self.left = left;
        Ok(taken)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Garbage> {
        let (taken, left) = self.left.split_first_chunk().ok_or(Garbage)?;
        self.left = left;
        Ok(u32::from_be_bytes(*taken))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Garbage> {
        let (taken, left) = self.left.split_first_chunk().ok_or(Garbage)?;
        self.left = left;
        Ok(u64::from_be_bytes(*taken))
    }

    pub(crate) fn flag(&mut self) -> Result<bool, Garbage> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Garbage),
        }
    }

    /// Bytes with their length before them, at most `most` of them.
    pub(crate) fn opaque(&mut self, most: usize) -> Result<&'a [u8], Garbage> {
        let len = self.u32()? as usize;
        if len > most {
            return Err(Garbage);
        }
        let taken = self.fixed(len)?;
        self.fixed(padding(len))?;
        Ok(taken)
    }

    /// A value that is there or not.
    pub(crate) fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Garbage>,
    ) -> Result<Option<T>, Garbage> {
        if self.flag()? {
            read(self).map(Some)
        } else {
            Ok(None)
        }
    }
}

/// Bytes that fill up to a multiple of four.
pub(crate) fn padding(len: usize) -> usize {
    len.wrapping_neg() % 4
}

/// Replies under construction. Its memory stays initialised, so that data can be read straight into it without
/// clearing it each time.
#[derive(Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
    len: usize,
}

impl Writer {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn filled(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// `len` more bytes to fill, with whatever is in them.
    pub(crate) fn room(&mut self, len: usize) -> &mut [u8] {
        let end = self.len + len;
        if end > self.bytes.len() {
            self.bytes.resize(end.next_power_of_two().max(4096), 0);
        }
        let room = &mut self.bytes[self.len..end];
        self.len = end;
        room
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes(&value.to_be_bytes());
    }

    pub(crate) fn words(&mut self, values: &[u32]) {
        values.iter().for_each(|value| self.u32(*value));
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes(&value.to_be_bytes());
    }

    pub(crate) fn flag(&mut self, value: bool) {
        self.u32(u32::from(value));
    }

    /// Bytes with their length before them and their padding after.
    pub(crate) fn opaque(&mut self, bytes: &[u8]) {
        self.u32(bytes.len() as u32);
        self.bytes(bytes);
        self.room(padding(bytes.len())).fill(0);
    }

    /// Overwrites a word that was written before.
    pub(crate) fn set_u32(&mut self, at: usize, value: u32) {
        self.bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let mut out = Writer::default();
        out.u32(7);
        out.u64(1 << 40);
        out.opaque(b"abcde");
        out.flag(true);
        let mut reader = Reader::new(out.filled());
        assert_eq!(out.filled().len(), 4 + 8 + 4 + 8 + 4);
        assert_eq!(
            (reader.u32(), reader.u64(), reader.opaque(5), reader.flag()),
            (Ok(7), Ok(1 << 40), Ok(&b"abcde"[..]), Ok(true))
        );
        assert_eq!(reader.u32(), Err(Garbage));
    }

    #[test]
    fn lengths_are_checked_first() {
        assert_eq!(Reader::new(&[0xff; 4]).opaque(usize::MAX), Err(Garbage));
        assert_eq!(Reader::new(&[0, 0, 0, 2, b'a', b'b', 0, 0]).opaque(1), Err(Garbage));
        assert_eq!(Reader::new(&[0, 0, 0, 2, b'a', b'b']).opaque(9), Err(Garbage), "padding is missing");
        assert_eq!(Reader::new(&[0, 0, 0, 2]).flag(), Err(Garbage));
    }
}
