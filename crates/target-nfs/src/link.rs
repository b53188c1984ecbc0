//! One connection with the requests that wait to be sent on it.
//!
//! Headers and small payloads are gathered in one buffer, large payloads stay where the caller has them; a system
//! call takes as much of all that as the socket accepts. Nothing blocks and nothing is allocated per request.

use naslab_core::{Result, WireCounters};
use naslab_wire::Wire;
use std::collections::VecDeque;
use std::sync::Arc;

/// Parts that one system call takes.
const PARTS: usize = 4;
/// Sent bytes that may stay in front of the gathered ones before these are moved up.
const COMPACT_BYTES: usize = 256 * 1024;

#[derive(Clone, Copy)]
enum Segment {
    /// The next so many gathered bytes.
    Gathered(usize),
    /// Memory of the caller, valid until its operation was reaped.
    Lent(*const u8, usize),
}

impl Segment {
    fn len(self) -> usize {
        match self {
            Segment::Gathered(len) | Segment::Lent(_, len) => len,
        }
    }
}

/// A connection and its outgoing queue.
pub(crate) struct Link {
    pub wire: Wire,
    /// Where it goes, as it was named.
    pub address: Arc<str>,
    /// Counters of connections that it took the place of.
    past: WireCounters,
    gathered: Vec<u8>,
    /// First gathered byte of the first segment that is not sent.
    sent_gathered: usize,
    segments: VecDeque<Segment>,
    /// Bytes of the first segments that are sent.
    done: usize,
    queued_bytes: u64,
    sent_bytes: u64,
}

// SAFETY: lent memory may be read from any thread; the contract of `Session::submit` keeps it valid and untouched.
unsafe impl Send for Link {}

impl AsRef<Wire> for Link {
    fn as_ref(&self) -> &Wire {
        &self.wire
    }
}

impl Link {
    /// Around a new connection to `address`.
    pub fn new(wire: Wire, address: &Arc<str>) -> Link {
        Link {
            wire,
            address: Arc::clone(address),
            past: WireCounters::default(),
            gathered: Vec::with_capacity(64 * 1024),
            sent_gathered: 0,
            segments: VecDeque::with_capacity(64),
            done: 0,
            queued_bytes: 0,
            sent_bytes: 0,
        }
    }

    /// The same around another connection to the same address.
    pub fn again(&self, wire: Wire) -> Link {
        Link { past: self.counters(), ..Link::new(wire, &self.address) }
    }

    /// Bytes so far, those of earlier connections included.
    pub fn counters(&self) -> WireCounters {
        self.past + self.wire.counters()
    }

    /// Gathers what `write` appends.
    #[inline]
    pub fn gather(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.gathered.len();
        write(&mut self.gathered);
        let len = self.gathered.len() - before;
        self.queued_bytes += len as u64;
        match self.segments.back_mut() {
            Some(Segment::Gathered(last)) => *last += len,
            _ if len > 0 => self.segments.push_back(Segment::Gathered(len)),
            _ => {}
        }
    }

    /// Queues memory that is sent from where it is.
    ///
    /// # Safety
    /// It stays valid and unchanged until `is_sent` of the position after it, or the queue was dropped.
    #[inline]
    pub unsafe fn lend(&mut self, ptr: *const u8, len: usize) {
        self.queued_bytes += len as u64;
        self.segments.push_back(Segment::Lent(ptr, len));
    }

    /// Bytes queued so far: the position after the last request.
    #[inline]
    pub fn position(&self) -> u64 {
        self.queued_bytes
    }

    /// Whether everything before a position has left.
    #[inline]
    pub fn is_sent(&self, position: u64) -> bool {
        self.sent_bytes >= position
    }

    /// Whether nothing waits to be sent.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Bytes that wait to be sent.
    #[inline]
    pub fn waiting_bytes(&self) -> u64 {
        self.queued_bytes - self.sent_bytes
    }

    /// Sends what the socket takes; true when nothing is left.
    #[inline]
    pub fn pump(&mut self) -> Result<bool> {
        while !self.segments.is_empty() {
            let taken = self.send_front()?;
            if taken == 0 {
                return Ok(false);
            }
            self.advance(taken);
        }
        Ok(true)
    }

    /// One system call over the first segments; returns how many further bytes were taken.
    fn send_front(&mut self) -> Result<usize> {
        let mut parts: [&[u8]; PARTS] = [&[]; PARTS];
        let mut at = self.sent_gathered;
        let count = self.segments.len().min(PARTS);
        for (part, segment) in parts.iter_mut().zip(self.segments.iter()) {
            *part = match *segment {
                Segment::Gathered(len) => {
                    at += len;
                    &self.gathered[at - len..at]
                }
                // SAFETY: as promised to `lend`.
                Segment::Lent(ptr, len) => unsafe { std::slice::from_raw_parts(ptr, len) },
            };
        }
        Ok(self.wire.send_some(&parts[..count], self.done)? - self.done)
    }

    fn advance(&mut self, taken: usize) {
        self.sent_bytes += taken as u64;
        self.done += taken;
        while let Some(first) = self.segments.front().copied() {
            if self.done < first.len() {
                break;
            }
            self.done -= first.len();
            if let Segment::Gathered(len) = first {
                self.sent_gathered += len;
            }
            self.segments.pop_front();
        }
        if self.segments.is_empty() {
            self.gathered.clear();
            self.sent_gathered = 0;
        } else if self.sent_gathered > COMPACT_BYTES.max(self.gathered.len() / 2) {
            self.gathered.drain(..self.sent_gathered);
            self.sent_gathered = 0;
        }
    }

    /// Forgets what was not sent and ends the connection.
    pub fn abandon(&mut self) {
        self.segments.clear();
        self.gathered.clear();
        (self.sent_gathered, self.done, self.sent_bytes) = (0, 0, self.queued_bytes);
        self.wire.shutdown();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::Socket;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    #[test]
    fn segments_arrive_in_order_though_the_socket_takes_little() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let mut link = Link::new(Wire::new(Socket::from(client), Duration::from_secs(5)).unwrap(), &"".into());
        let lent: Vec<u8> = (0..3_000_000u32).map(|i| (i * 7) as u8).collect();
        let mut expected = Vec::new();
        for round in 0..8u8 {
            link.gather(|out| out.extend_from_slice(&[round; 100]));
            link.gather(|_| {});
            expected.extend_from_slice(&[round; 100]);
            // SAFETY: `lent` outlives the loop that sends all.
            unsafe { link.lend(lent.as_ptr(), lent.len()) };
            expected.extend_from_slice(&lent);
        }
        let position = link.position();
        assert_eq!(position, expected.len() as u64);
        assert!(!link.pump().unwrap(), "more than a socket buffer holds");
        assert!(!link.is_sent(position));
        let mut found = vec![0; expected.len()];
        let mut at = 0;
        while at < found.len() {
            link.pump().unwrap();
            at += server.read(&mut found[at..]).unwrap();
        }
        assert!(found == expected);
        assert!(link.is_sent(position) && link.is_empty());
        assert_eq!(link.waiting_bytes(), 0);
    }
}
