//! The connection.

use crate::os::{self, Polled, Wait};
use crate::tls::{Session, Tls, TlsFacts};
use naslab_core::{errno, limit, Error, ErrorKind, Result, WireCounters};
use socket2::{MaybeUninitSlice, Socket};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Most bytes that `fill` can gather, and the largest read-ahead.
const BUFFER_BYTES: usize = 64 * 1024;
/// How long one blocking receive lasts before deadlines are looked at: the kernel's own timer does the waiting, so
/// that an answer within it costs one system call and no clock reading.
const TICK: Duration = Duration::from_millis(50);
/// Most parts of one message.
const MAX_PARTS: usize = 4;
pub(crate) const CLOSED: &str = "the server closed the connection";
/// Most connections that `ready` looks at.
const MAX_WIRES: usize = 32;

/// One blocking TCP connection. Received bytes go through a small buffer; large payloads go past it.
#[derive(Debug)]
pub struct Wire {
    socket: Socket,
    timeout: Duration,
    buffer: Box<[u8]>,
    /// Unconsumed bytes are `buffer[start..end]`.
    start: usize,
    end: usize,
    read_ahead: usize,
    /// Time spent on the message under way.
    waited: Waited,
    counters: WireCounters,
    /// What seals the connection, once it has changed over to TLS.
    tls: Option<Box<Session>>,
}

/// The socket under a session of TLS, and where its bytes are counted.
pub(crate) struct Plain<'a> {
    pub socket: &'a Socket,
    pub counters: &'a mut WireCounters,
}

/// What [`ready`] saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// Bit per connection: bytes or an end of the stream are there to be received.
    pub readable: u32,
    /// The connection asked about takes bytes again.
    pub writable: bool,
}

impl Wire {
    /// Takes a connected socket. Each call on it ends within `timeout`, and so does each message; see
    /// `begin_message`. The thread's own [`limit`]s end it sooner.
    pub fn new(socket: Socket, timeout: Duration) -> Result<Wire> {
        let failed = |e| Error::from_io("connect", e);
        socket.set_tcp_nodelay(true).map_err(failed)?;
        os::prepare(&socket, TICK).map_err(failed)?;
        Ok(Wire {
            socket,
            timeout,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            read_ahead: BUFFER_BYTES,
            waited: Waited::default(),
            counters: WireCounters::default(),
            tls: None,
        })
    }

    /// Changes over to TLS: from here on all that is sent and received is sealed. Nothing may be outstanding. Blocks
    /// up to the timeout.
    ///
    /// Errors have the operation [`TLS_OPERATION`](crate::TLS_OPERATION): `Permission` when the server's certificate is
    /// not taken, `Protocol`, `Disconnected` or `Timeout` when the handshake does not come to its end.
    pub fn start_tls(&mut self, tls: &Tls, host: &str) -> Result<TlsFacts> {
        if self.start != self.end || self.tls.is_some() {
            // Put there by whoever stands between, it would be taken for the server's sealed words.
            let message = "bytes came in the clear after the server had agreed to TLS: somebody may have added them";
            return Err(Error::new(ErrorKind::Protocol, crate::TLS_OPERATION, message));
        }
        let plain = Plain { socket: &self.socket, counters: &mut self.counters };
        let session = Session::begin(tls, host, plain, self.timeout)?;
        let facts = session.facts();
        self.tls = Some(Box::new(session));
        Ok(facts)
    }

    /// How the connection is sealed; `None` of one in the clear.
    pub fn tls(&self) -> Option<TlsFacts> {
        self.tls.as_ref().map(|session| session.facts())
    }

    /// Longest time of one call.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Sets the longest time of one call.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// The next message begins: `fill`, `read_into` and `skip` share one timeout from here to the next call of this,
    /// so that a server which sends a message drop by drop gains nothing. Counted from the first wait; no clock is
    /// read before it.
    #[inline]
    pub fn begin_message(&mut self) {
        self.waited = Waited::default();
    }

    /// How much one receive may take beyond what is asked for, at most 64 KiB (the value at the start). Large when
    /// replies are small, so that many come with one system call; about one reply header when payloads are large, so
    /// that they land in place without a copy.
    pub fn set_read_ahead(&mut self, bytes: usize) {
        self.read_ahead = bytes.min(BUFFER_BYTES);
    }

    /// Sends all parts (at most 4), blocking up to the timeout. Only while no reply is outstanding: a server that
    /// blocks in its own send takes no requests, and both would wait for each other; use `send_some` then.
    pub fn send(&mut self, parts: &[&[u8]]) -> Result<()> {
        let total: usize = parts.iter().map(|p| p.len()).sum();
        let mut done = 0;
        let mut waited = Waited::default();
        while done < total {
            match self.send_from(parts, done, Wait::First)? {
                0 => waited.check(self.timeout, "send")?,
                taken => done += taken,
            }
        }
        Ok(())
    }

    /// Sends what the socket takes at once of `parts` (at most 4) from byte `done` of them all; returns the new
    /// `done`. Never blocks.
    #[inline]
    pub fn send_some(&mut self, parts: &[&[u8]], done: usize) -> Result<usize> {
        Ok(done + self.send_from(parts, done, Wait::No)?)
    }

    /// Bytes taken; zero when the socket takes none now.
    fn send_from(&mut self, parts: &[&[u8]], done: usize, wait: Wait) -> Result<usize> {
        let mut slices = [IoSlice::new(&[]); MAX_PARTS];
        let mut skip = done;
        let mut count = 0;
        for part in parts {
            if skip >= part.len() {
                skip -= part.len();
                continue;
            }
            slices[count] = IoSlice::new(&part[skip..]);
            skip = 0;
            count += 1;
        }
        if count == 0 {
            return Ok(0);
        }
        if let Some(session) = &mut self.tls {
            let plain = Plain { socket: &self.socket, counters: &mut self.counters };
            return session.send(plain, &slices[..count], wait);
        }
        match os::send(&self.socket, &slices[..count], wait) {
            Ok(taken) => {
                self.counters.sent_bytes += taken as u64;
                Ok(taken)
            }
            Err(e) if is_wait(&e) => Ok(0),
            Err(e) => Err(broken("send", e)),
        }
    }

    /// Bytes received and not consumed yet.
    #[inline]
    pub fn buffered(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Drops the first `n` buffered bytes.
    #[inline]
    pub fn consume(&mut self, n: usize) {
        debug_assert!(n <= self.end - self.start);
        self.start = (self.start + n).min(self.end);
    }

    /// Waits until at least `n` bytes (at most 64 KiB) are buffered. A Timeout error after the timeout.
    #[inline]
    pub fn fill(&mut self, n: usize) -> Result<()> {
        if self.end - self.start >= n {
            return Ok(());
        }
        let mut waited = self.waited;
        let filled = self.fill_until(n, self.timeout, &mut waited);
        self.waited = waited;
        if filled? {
            return Ok(());
        }
        Err(too_late("receive", self.timeout))
    }

    /// As `fill`, waiting at most `wait` (zero: not at all); false when fewer bytes are there by then, which stay.
    #[inline]
    pub fn try_fill(&mut self, n: usize, wait: Duration) -> Result<bool> {
        if self.end - self.start >= n {
            return Ok(true);
        }
        self.fill_until(n, wait, &mut Waited::default())
    }

    fn fill_until(&mut self, n: usize, wait: Duration, waited: &mut Waited) -> Result<bool> {
        if n > BUFFER_BYTES {
            return Err(Error::new(ErrorKind::Invalid, "receive", "asked to buffer more than the buffer holds"));
        }
        if self.buffer.len() - self.start < n {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        } else if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        while self.end - self.start < n {
            let room = self.read_ahead.max(n - (self.end - self.start)).min(BUFFER_BYTES - self.end);
            if let Some(left) = waited.left(wait) {
                if waited.lasts {
                    limit::check("receive")?;
                }
                if left.is_zero() && !wait.is_zero() {
                    return Ok(false);
                }
                let silent = left < TICK && !left.is_zero() && !self.has_sealed();
                if silent && !poll_one(&self.socket, os::IN, left)? {
                    return Ok(false);
                }
            }
            let how = if wait < TICK { Wait::No } else { Wait::First };
            match self.receive(self.end, room, how)? {
                0 if wait.is_zero() => return Ok(false),
                0 => {}
                taken => self.end += taken,
            }
        }
        Ok(true)
    }

    /// Receives into the buffer at `at`; zero when nothing came within the socket's tick.
    fn receive(&mut self, at: usize, room: usize, wait: Wait) -> Result<usize> {
        let into = &mut self.buffer[at..at + room];
        let plain = Plain { socket: &self.socket, counters: &mut self.counters };
        receive_into(plain, &mut self.tls, into, wait)
    }

    /// Takes the next `into.len()` bytes: buffered ones first, then straight from the socket. Blocks up to the
    /// timeout.
    pub fn read_into(&mut self, into: &mut [u8]) -> Result<()> {
        let have = (self.end - self.start).min(into.len());
        into[..have].copy_from_slice(&self.buffer[self.start..self.start + have]);
        self.start += have;
        let mut done = have;
        if done < into.len() {
            done += self.receive_with_next(&mut into[done..])?;
        }
        while done < into.len() {
            let plain = Plain { socket: &self.socket, counters: &mut self.counters };
            match receive_into(plain, &mut self.tls, &mut into[done..], Wait::All)? {
                0 => {}
                taken => done += taken,
            }
            if done < into.len() {
                self.waited.check(self.timeout, "receive")?;
            }
        }
        Ok(())
    }

    /// Receives what is there into `into` and, beyond its end, into the empty buffer: the header of the next reply
    /// comes with the end of this one's payload in one system call. Bytes that went into `into`.
    fn receive_with_next(&mut self, into: &mut [u8]) -> Result<usize> {
        (self.start, self.end) = (0, 0);
        let wanted = into.len();
        if let Some(session) = &mut self.tls {
            let plain = Plain { socket: &self.socket, counters: &mut self.counters };
            let taken = session.receive(plain, into, Wait::All)?;
            if taken == wanted {
                self.end = session.take_opened(&mut self.buffer[..self.read_ahead])?;
            }
            return Ok(taken);
        }
        let (into, ahead) = (uninit(into), uninit(&mut self.buffer[..self.read_ahead]));
        let mut parts = [MaybeUninitSlice::new(into), MaybeUninitSlice::new(ahead)];
        let taken = match os::receive_vectored(&self.socket, &mut parts) {
            Ok(0) => return Err(Error::new(ErrorKind::Disconnected, "receive", CLOSED)),
            Ok(taken) => taken,
            Err(e) if is_wait(&e) => 0,
            Err(e) => return Err(broken("receive", e)),
        };
        self.counters.received_bytes += taken as u64;
        self.end = taken.saturating_sub(wanted);
        Ok(taken.min(wanted))
    }

    /// Drops the next `n` bytes, buffered or still to come. Blocks up to the timeout.
    pub fn skip(&mut self, mut n: usize) -> Result<()> {
        loop {
            let now = n.min(self.end - self.start);
            self.start += now;
            n -= now;
            if n == 0 {
                return Ok(());
            }
            self.fill(n.min(BUFFER_BYTES))?;
        }
    }

    /// Bytes sent and received so far.
    pub fn counters(&self) -> WireCounters {
        self.counters
    }

    /// This end.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok().and_then(|a| a.as_socket())
    }

    /// The other end.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        self.socket.peer_addr().ok().and_then(|a| a.as_socket())
    }

    /// Has the connection end without lingering when it is dropped, so that its source port is free at once: there are
    /// few below 1024, and a lingering one is lost for a minute. Nothing may be outstanding.
    pub fn free_port_at_end(&self) {
        drop(self.socket.set_linger(Some(Duration::ZERO)));
    }

    /// Says to the other end that nothing more will be sent or received. Never blocks.
    pub fn shutdown(&mut self) {
        self.close_tls();
        drop(self.socket.shutdown(std::net::Shutdown::Both));
    }

    fn close_tls(&mut self) {
        if let Some(session) = &mut self.tls {
            session.close(Plain { socket: &self.socket, counters: &mut self.counters });
        }
    }

    /// Whether something was received under TLS that is not in the buffer yet: polling the socket does not tell.
    #[inline]
    fn has_sealed(&self) -> bool {
        self.tls.as_ref().is_some_and(|session| session.has_pending())
    }
}

impl Drop for Wire {
    /// A connection under TLS ends with a word of its own (RFC 8446, section 6.1).
    fn drop(&mut self) {
        self.close_tls();
    }
}

impl AsRef<Wire> for Wire {
    fn as_ref(&self) -> &Wire {
        self
    }
}

/// The form that receiving takes memory in.
#[inline]
pub(crate) fn uninit(into: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    // SAFETY: u8 and MaybeUninit<u8> have one layout, and the kernel only ever writes initialised bytes into it.
    unsafe { &mut *(into as *mut [u8] as *mut [MaybeUninit<u8>]) }
}

#[inline]
fn receive_into(plain: Plain<'_>, tls: &mut Option<Box<Session>>, into: &mut [u8], wait: Wait) -> Result<usize> {
    if let Some(session) = tls {
        return session.receive(plain, into, wait);
    }
    match os::receive(plain.socket, uninit(into), wait) {
        Ok(0) => Err(Error::new(ErrorKind::Disconnected, "receive", CLOSED)),
        Ok(taken) => {
            plain.counters.received_bytes += taken as u64;
            Ok(taken)
        }
        Err(e) if is_wait(&e) => Ok(0),
        Err(e) => Err(broken("receive", e)),
    }
}

/// Time spent in one call; the clock is read only once the call had to wait.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waited {
    since: Option<Instant>,
    /// A first wait brought not enough.
    lasts: bool,
}

impl Waited {
    /// Time left of `limit`; `None` on the first question.
    fn left(&mut self, most: Duration) -> Option<Duration> {
        match self.since {
            Some(since) => {
                self.lasts = true;
                Some(most.saturating_sub(since.elapsed()))
            }
            None => {
                self.since = Some(Instant::now());
                if most < TICK {
                    Some(most)
                } else {
                    None
                }
            }
        }
    }

    pub(crate) fn check(&mut self, most: Duration, operation: &'static str) -> Result<()> {
        let left = self.left(most);
        if self.lasts {
            limit::check(operation)?;
        }
        match left {
            Some(left) if left.is_zero() => Err(too_late(operation, most)),
            _ => Ok(()),
        }
    }
}

pub(crate) fn is_wait(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

pub(crate) fn broken(operation: &'static str, error: io::Error) -> Error {
    let mut found = Error::from_io(operation, error);
    if found.kind == ErrorKind::Io || found.status as i32 == errno::ECONNABORTED {
        found.kind = ErrorKind::Disconnected;
    }
    found
}

fn too_late(operation: &'static str, limit: Duration) -> Error {
    let message = format!("no answer from the server for {} s", limit.as_secs_f64());
    Error::new(ErrorKind::Timeout, operation, message)
}

fn poll_one(socket: &Socket, events: i16, wait: Duration) -> Result<bool> {
    let mut polled = [Polled::new(socket, events)];
    os::poll(&mut polled, wait).map_err(|e| Error::from_io("poll", e))?;
    Ok(polled[0].saw(!0))
}

/// Waits until one of the connections (at most 32) has something to receive, or the one at index `writable` takes
/// bytes again, or `wait` is over. Bytes already buffered count as received and end the wait. Allocates nothing.
pub fn ready<W: AsRef<Wire>>(wires: &[W], writable: Option<usize>, wait: Duration) -> Result<Ready> {
    if wires.len() > MAX_WIRES {
        return Err(Error::new(ErrorKind::Invalid, "poll", format!("at most {MAX_WIRES} connections in one session")));
    }
    let mut polled = [Polled::NONE; MAX_WIRES];
    let mut found = Ready::default();
    for (at, wire) in wires.iter().enumerate() {
        let events = if writable == Some(at) { os::IN | os::OUT } else { os::IN };
        polled[at] = Polled::new(&wire.as_ref().socket, events);
        if !wire.as_ref().buffered().is_empty() || wire.as_ref().has_sealed() {
            found.readable |= 1 << at;
        }
    }
    let polled = &mut polled[..wires.len()];
    let wait = if found.readable == 0 { wait } else { Duration::ZERO };
    os::poll(polled, wait).map_err(|e| Error::from_io("poll", e))?;
    for (at, seen) in polled.iter().enumerate() {
        if seen.saw(os::IN | os::LOST) {
            found.readable |= 1 << at;
        }
        found.writable |= writable == Some(at) && seen.saw(os::OUT | os::LOST);
    }
    Ok(found)
}
