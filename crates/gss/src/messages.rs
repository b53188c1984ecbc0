//! What an established login does with messages (RFC 2743, section 2.3): signatures and encryption.

use crate::advice::CONTEXT_EXPIRED;
use crate::library::Buffer;
use crate::Initiator;
use naslab_core::{Error, ErrorKind, Result};

impl Initiator {
    /// Appends the signature of `message` to `out`. Permission once the login has expired.
    pub fn sign(&self, message: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let input = self.established(message)?;
        let (mut minor, mut output) = (0, Buffer::EMPTY);
        // SAFETY: the context is established, and `input` describes bytes that outlive the call.
        let major = unsafe { (self.api.get_mic)(&mut minor, self.context, 0, &input, &mut output) };
        self.api.append(&mut output, out);
        self.check(major, minor, "send", "the Kerberos library cannot sign a message")
    }

    /// Checks the signature of `message`. Protocol where it is not the server's.
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> Result<()> {
        let (input, signature) = (self.established(message)?, Buffer::of(signature));
        let (mut minor, mut quality) = (0, 0);
        // SAFETY: as in `sign`, for both descriptions.
        let major = unsafe { (self.api.verify_mic)(&mut minor, self.context, &input, &signature, &mut quality) };
        self.check(
            major,
            minor,
            "receive",
            "a message of the server carries a wrong signature: it was changed on the way",
        )
    }

    /// Appends `message`, encrypted and signed, to `out`. Permission once the login has expired, Unsupported where the
    /// library signs only.
    pub fn seal(&self, message: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let input = self.established(message)?;
        let (mut minor, mut encrypted, mut output) = (0, 0, Buffer::EMPTY);
        // SAFETY: as in `sign`.
        let major = unsafe { (self.api.wrap)(&mut minor, self.context, 1, 0, &input, &mut encrypted, &mut output) };
        let before = out.len();
        self.api.append(&mut output, out);
        self.check(major, minor, "send", "the Kerberos library cannot encrypt a message")?;
        if encrypted == 0 {
            out.truncate(before);
            return Err(Error::new(
                ErrorKind::Unsupported,
                "send",
                "the Kerberos library does not encrypt with this key",
            ));
        }
        Ok(())
    }

    /// Appends what `seal` of the server was given to `out`. Protocol where the token is not the server's, or is not
    /// encrypted.
    pub fn open(&self, token: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let input = self.established(token)?;
        let (mut minor, mut encrypted, mut quality, mut output) = (0, 0, 0, Buffer::EMPTY);
        // SAFETY: as in `sign`.
        let major =
            unsafe { (self.api.unwrap)(&mut minor, self.context, &input, &mut output, &mut encrypted, &mut quality) };
        let before = out.len();
        self.api.append(&mut output, out);
        self.check(major, minor, "receive", "a message of the server cannot be decrypted: it was changed on the way")?;
        if encrypted == 0 {
            out.truncate(before);
            return Err(Error::new(ErrorKind::Protocol, "receive", "a message of the server came unencrypted"));
        }
        Ok(())
    }

    /// Whether the ticket has expired by the clock here, or does within the second in which its server counts.
    pub fn is_expired(&self) -> bool {
        let (mut minor, mut left_s) = (0, 0);
        // SAFETY: the library takes any context of its own, and null for none.
        let major = unsafe { (self.api.context_time)(&mut minor, self.context, &mut left_s) };
        (major >> 16) & 0xFF == CONTEXT_EXPIRED || (major == 0 && left_s <= 1)
    }

    /// Describes a message for a login that both sides have proved.
    fn established(&self, message: &[u8]) -> Result<Buffer> {
        if !self.complete {
            return Err(Error::new(ErrorKind::Protocol, "connect", "the server did not prove who it is"));
        }
        Ok(Buffer::of(message))
    }

    fn check(&self, major: u32, minor: u32, operation: &'static str, what: &str) -> Result<()> {
        if major == 0 {
            return Ok(());
        }
        if (major >> 16) & 0xFF == CONTEXT_EXPIRED {
            return Err(Error { operation, ..self.fail(major, minor) });
        }
        let kind = if operation == "send" { ErrorKind::Io } else { ErrorKind::Protocol };
        Err(Error::new(kind, operation, format!("{what} ({})", self.api.text(major, minor))))
    }
}
