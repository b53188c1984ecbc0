//! What both sides say to each other, and sockets that never wait for long.

use naslab_core::{Error, ErrorKind, Result};
use socket2::SockRef;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const MAGIC: &[u8; 8] = b"NASLABNT";
const VERSION: u16 = 1;
pub(super) const HELLO_BYTES: usize = 32;
pub(super) const ANSWER_BYTES: usize = 16;
/// Payload is sent and received in blocks of this size.
pub(super) const BLOCK_BYTES: usize = 256 * 1024;
/// One call on a socket waits no longer; then stop flags and deadlines are looked at.
pub(super) const SLICE: Duration = Duration::from_millis(100);

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Lives as long as the measurement; begins and ends it.
    Control,
    /// The client sends.
    Upload,
    /// The client receives.
    Download,
    /// Messages come back.
    Echo,
}

impl Mode {
    fn from_byte(byte: u8) -> Option<Mode> {
        [Mode::Control, Mode::Upload, Mode::Download, Mode::Echo].into_iter().find(|mode| *mode as u8 == byte)
    }
}

/// First words of the client on every connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub mode: Mode,
    pub duration_ms: u32,
    pub session: u64,
}

/// The server's answer to a hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Welcome,
    Busy,
    OtherVersion,
    Refused,
}

/// Why a hello is not one of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stranger {
    /// Not our protocol at all: no answer.
    Unknown,
    /// Ours, but another version.
    OtherVersion,
}

impl Hello {
    pub fn to_bytes(self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_be_bytes());
        bytes[10] = self.mode as u8;
        bytes[12..16].copy_from_slice(&self.duration_ms.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.session.to_be_bytes());
        bytes
    }

    pub fn from_bytes(bytes: &[u8; HELLO_BYTES]) -> std::result::Result<Hello, Stranger> {
        if &bytes[..8] != MAGIC {
            return Err(Stranger::Unknown);
        }
        if u16::from_be_bytes([bytes[8], bytes[9]]) != VERSION {
            return Err(Stranger::OtherVersion);
        }
        let mode = Mode::from_byte(bytes[10]).ok_or(Stranger::Unknown)?;
        let duration_ms = u32::from_be_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]);
        Ok(Hello { mode, duration_ms, session: number(&bytes[16..24]) })
    }
}

impl Answer {
    pub fn to_bytes(self) -> [u8; ANSWER_BYTES] {
        let mut bytes = [0; ANSWER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_be_bytes());
        bytes[10] = self as u8;
        bytes
    }

    /// `None` when the other side does not speak our protocol.
    pub fn from_bytes(bytes: &[u8; ANSWER_BYTES]) -> Option<Answer> {
        let known = [Answer::Welcome, Answer::Busy, Answer::OtherVersion, Answer::Refused];
        known.into_iter().find(|answer| &bytes[..8] == MAGIC && *answer as u8 == bytes[10])
    }
}

/// A number of eight bytes.
pub(super) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// A connection whose calls end early when `stop` is set, and fail after `patience` without progress.
pub(super) struct Line<'a> {
    pub stream: TcpStream,
    stop: &'a AtomicBool,
    patience: Duration,
}

impl<'a> Line<'a> {
    pub fn new(stream: TcpStream, stop: &'a AtomicBool, patience: Duration) -> Result<Line<'a>> {
        let set = |result: io::Result<()>| result.map_err(|e| Error::from_io("connect", e));
        set(stream.set_nodelay(true))?;
        set(stream.set_read_timeout(Some(SLICE)))?;
        set(stream.set_write_timeout(Some(SLICE)))?;
        set(SockRef::from(&stream).set_keepalive(true))?;
        Ok(Line { stream, stop, patience })
    }

    /// Receives some bytes; 0 at the other side's end.
    pub fn receive(&mut self, into: &mut [u8]) -> Result<usize> {
        let (stop, patience) = (self.stop, self.patience);
        bounded(stop, patience, "receive", || self.stream.read(into))
    }

    /// Receives all of `into`.
    pub fn receive_all(&mut self, into: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < into.len() {
            match self.receive(&mut into[done..])? {
                0 => {
                    return Err(Error::new(ErrorKind::Disconnected, "receive", "the other side closed the connection"))
                }
                n => done += n,
            }
        }
        Ok(())
    }

    /// Sends some bytes.
    pub fn send(&mut self, bytes: &[u8]) -> Result<usize> {
        let (stop, patience) = (self.stop, self.patience);
        bounded(stop, patience, "send", || self.stream.write(bytes))
    }

    /// Sends all bytes.
    pub fn send_all(&mut self, bytes: &[u8]) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            done += self.send(&bytes[done..])?;
        }
        Ok(())
    }
}

fn bounded(
    stop: &AtomicBool,
    patience: Duration,
    operation: &'static str,
    mut call: impl FnMut() -> io::Result<usize>,
) -> Result<usize> {
    let mut since = None;
    loop {
        match call() {
            Ok(n) => return Ok(n),
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(Error::from_io(operation, e)),
        }
        if stop.load(Ordering::Relaxed) {
            return Err(stopped());
        }
        if since.get_or_insert_with(Instant::now).elapsed() >= patience {
            return Err(Error::new(ErrorKind::Timeout, operation, "the other side no longer answers"));
        }
    }
}

/// The error of a call that was stopped on purpose.
pub(super) fn stopped() -> Error {
    Error::new(ErrorKind::Invalid, "net", "the measurement was stopped")
}

/// A block that no device on the way can compress.
pub(super) fn payload() -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut block = vec![0; BLOCK_BYTES];
    for chunk in block.chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        chunk.copy_from_slice(&state.to_le_bytes());
    }
    block
}

/// Sends blocks until the time is over; returns the bytes sent.
pub(super) fn send_for(line: &mut Line<'_>, block: &[u8], duration: Duration) -> Result<u64> {
    let end = Instant::now() + duration;
    let (mut sent, mut at) = (0, 0);
    while Instant::now() < end {
        if line.stop.load(Ordering::Relaxed) {
            return Err(stopped());
        }
        let n = line.send(&block[at..])?;
        sent += n as u64;
        at = (at + n) % block.len();
    }
    let closed = line.stream.shutdown(std::net::Shutdown::Write);
    closed.map_err(|e| Error::from_io("send", e))?;
    Ok(sent)
}

/// Receives until the other side has sent all; returns the bytes received.
pub(super) fn receive_to_end(line: &mut Line<'_>, block: &mut [u8]) -> Result<u64> {
    let mut received = 0;
    loop {
        if line.stop.load(Ordering::Relaxed) {
            return Err(stopped());
        }
        match line.receive(block)? {
            0 => return Ok(received),
            n => received += n as u64,
        }
    }
}
