//! Calls and replies over the connections of one session.
//!
//! Nothing here blocks in a send: what a socket does not take stays queued while replies are received, so that
//! client and server never wait for each other. Set-up and metadata calls wait for their own reply and process those
//! of operations in between.

use crate::calls::{Call, Calls, Piece, Purpose, RunningOps, Slots};
use crate::events::Events;
use crate::files::Files;
use crate::link::Link;
use crate::options::Version;
use crate::rpc::{self, Head, Prefix, Refusal, LAST_FRAGMENT, MARK_BYTES, PROC_NULL};
use crate::security::{write_call, Sec, Security, Stamp};
use crate::status;
use crate::xdr::{Bad, Decoder};
use naslab_core::{limit, Completion, Error, ErrorKind, Result, WireCounters};
use naslab_wire::{chance, ready, Wire};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// How often a server that answers DELAY or GRACE is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(100);
/// One wait for replies, after which the time since the last one is looked at.
const SLICE: Duration = Duration::from_millis(50);
/// Shortest reply: a refusal.
const LEAST_REPLY_BYTES: usize = 20;
/// What a reply may be longer than the largest read.
const REPLY_OVERHEAD_BYTES: usize = 64 * 1024;
/// Longest reply of a metadata call.
const CONTROL_REPLY_BYTES: usize = 1 << 20;
/// Most fragments of one reply.
const MAX_FRAGMENTS: usize = 4096;
/// Where a reply's results begin, or why the server did not carry the call out.
pub(crate) type Verdict = std::result::Result<usize, Refusal>;

/// What a transport is made with.
pub(crate) struct Setup {
    pub version: Version,
    pub prefix: Prefix,
    pub timeout: Duration,
    /// Most data calls outstanding.
    pub most_calls: usize,
    /// Connections come from ports above 1023.
    pub from_high_port: bool,
}

/// Connections, outstanding calls, running operations and open files of one session.
pub(crate) struct Transport {
    pub(crate) version: Version,
    pub(crate) prefix: Prefix,
    /// The contexts that carry calls, of a session with Kerberos.
    pub(crate) security: Option<Box<Security>>,
    pub(crate) links: Vec<Link>,
    next_link: usize,
    pub(crate) calls: Calls,
    pub(crate) most_calls: usize,
    pub(crate) slots: Slots,
    pub(crate) ops: RunningOps,
    pub(crate) waiting: VecDeque<Piece>,
    pub(crate) done: VecDeque<Completion>,
    /// Outcome of the session's own flush.
    pub(crate) own_flush: Option<Completion>,
    pub(crate) files: Files,
    pub(crate) events: Events,
    pub(crate) max_read_bytes: u32,
    pub(crate) max_write_bytes: u32,
    pub(crate) from_high_port: bool,
    timeout: Duration,
    /// The reply that a call waits for, once it came.
    reply: Option<Vec<u8>>,
    /// A reply put together from fragments; kept for its memory.
    pub(crate) assembled: Vec<u8>,
    silent_since: Option<Instant>,
    broken: Option<String>,
}

/// A reply's results.
pub(crate) struct Reply {
    bytes: Vec<u8>,
    at: usize,
}

impl Reply {
    /// The results from their first byte.
    pub fn decoder(&self) -> Decoder<'_> {
        Decoder::new(&self.bytes[self.at..])
    }

    /// First word: in every version the overall status.
    pub fn status(&self) -> std::result::Result<u32, Bad> {
        self.decoder().u32()
    }
}

impl Transport {
    /// Over these connections.
    pub fn new(links: Vec<Link>, setup: Setup) -> Transport {
        Transport {
            version: setup.version,
            prefix: setup.prefix,
            security: None,
            links,
            next_link: 0,
            calls: Calls::new(setup.most_calls, chance() as u32),
            most_calls: setup.most_calls,
            slots: Slots::default(),
            ops: RunningOps::with_room(setup.most_calls),
            waiting: VecDeque::with_capacity(64),
            done: VecDeque::with_capacity(setup.most_calls),
            own_flush: None,
            files: Files::default(),
            events: Events::default(),
            max_read_bytes: 64 * 1024,
            max_write_bytes: 64 * 1024,
            from_high_port: setup.from_high_port,
            timeout: setup.timeout,
            reply: None,
            assembled: Vec::new(),
            silent_since: None,
            broken: None,
        }
    }

    /// Bytes on all connections so far.
    pub fn wire(&self) -> WireCounters {
        self.links.iter().fold(WireCounters::default(), |sum, link| sum + link.counters())
    }

    /// The same by address.
    pub fn wire_by_address(&self) -> BTreeMap<String, WireCounters> {
        let mut all = BTreeMap::new();
        for link in &self.links {
            *all.entry(link.address.to_string()).or_default() += link.counters();
        }
        all
    }

    /// The first connection to each address but that of connection 0.
    pub fn elsewhere(&self) -> Vec<usize> {
        let address = |at: usize| &self.links[at].address;
        (1..self.links.len()).filter(|at| (0..*at).all(|before| address(before) != address(*at))).collect()
    }

    /// Whether nothing is on the wire or waits for it.
    pub fn is_idle(&self) -> bool {
        self.calls.outstanding() == 0 && self.waiting.is_empty()
    }

    /// An error once the session is unusable.
    #[inline]
    pub fn alive(&self) -> Result<()> {
        match &self.broken {
            None => Ok(()),
            Some(why) => {
                Err(Error::new(ErrorKind::Disconnected, "session", format!("this session ended before: {why}")))
            }
        }
    }

    /// Whether the session is unusable.
    pub fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Ends the session if this failed: the connections are closed and no memory of the caller is touched again.
    #[inline]
    pub fn guard<T>(&mut self, outcome: Result<T>) -> Result<T> {
        outcome.map_err(|error| self.fail(error))
    }

    #[cold]
    fn fail(&mut self, mut error: Error) -> Error {
        // A server may end the connection instead of refusing a call.
        let ended = error.kind == ErrorKind::Disconnected && !error.message.contains("expired");
        if ended && self.security.as_ref().is_some_and(|security| security.is_expired()) {
            error.message.push_str(": the Kerberos ticket has expired; get one that lasts (kinit) and measure again");
        }
        if self.broken.is_none() {
            self.broken = Some(error.message.clone());
            self.links.iter_mut().for_each(Link::abandon);
        }
        error
    }

    /// The connection for the next call.
    #[inline]
    pub fn turn(&mut self) -> usize {
        let at = self.next_link;
        self.next_link = if at + 1 == self.links.len() { 0 } else { at + 1 };
        at
    }

    /// Carries out one call and returns its results. Blocks up to the timeout. `on`: over this connection.
    pub fn call(
        &mut self,
        operation: &'static str,
        on: Option<usize>,
        procedure: u32,
        arguments: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Reply> {
        self.alive()?;
        let outcome = self.exchange_data(on, procedure, arguments);
        let (bytes, verdict) = self.guard(outcome).map_err(|e| Error { operation, ..e })?;
        let refused = |refusal: Refusal| rpc::port_advice(refusal.error(operation, self.sec()), self.from_high_port);
        let at = verdict.map_err(refused)?;
        Ok(Reply { bytes, at })
    }

    fn exchange_data(
        &mut self,
        on: Option<usize>,
        procedure: u32,
        arguments: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(Vec<u8>, Verdict)> {
        self.wait_for_context()?;
        let (mut bytes, stamp) = self.exchange(on, |prefix, security, out, xid| {
            write_call(prefix, security, out, Head { xid, procedure }, 0, arguments)
        })?;
        let verdict = self.open_reply(stamp, &mut bytes)?;
        Ok((bytes, verdict))
    }

    /// Waits until a context can carry one more call, where calls need one.
    fn wait_for_context(&mut self) -> Result<()> {
        while self.security.as_ref().is_some_and(|security| !security.has_room()) {
            if self.renew_context()? {
                continue;
            }
            limit::check("send")?;
            self.wait_once(SLICE)?;
            self.pump()?;
        }
        Ok(())
    }

    /// Where a reply's results begin in `bytes` from now on, checked and without protection, or the server's refusal.
    pub(crate) fn open_reply(&mut self, stamp: Stamp, bytes: &mut Vec<u8>) -> Result<Verdict> {
        match &mut self.security {
            Some(security) => security.open(stamp, bytes),
            None => {
                let mut d = Decoder::new(bytes);
                let (_, outcome) = rpc::reply(&mut d).map_err(|bad| bad.error("receive"))?;
                Ok(outcome.map(|()| d.position()))
            }
        }
    }

    /// The flavour of the session's calls.
    pub fn sec(&self) -> Sec {
        self.security.as_ref().map_or(Sec::Sys, |security| security.plan().sec)
    }

    /// Sends the call that `write` appends, and waits for its reply.
    pub(crate) fn exchange(
        &mut self,
        on: Option<usize>,
        write: impl FnOnce(&Prefix, &mut Option<Box<Security>>, &mut Vec<u8>, u32) -> Result<Stamp>,
    ) -> Result<(Vec<u8>, Stamp)> {
        let at = on.unwrap_or_else(|| self.turn());
        if self.calls.outstanding() == 0 {
            self.silent_since = None;
        }
        let xid = self.calls.take_xid();
        let Transport { links, prefix, security, .. } = self;
        let link = &mut links[at];
        let mut written = Ok(Stamp::NONE);
        link.gather(|out| written = write(prefix, security, out, xid));
        let stamp = written?;
        self.calls.insert_control(xid, at as u32, link.position(), stamp);
        self.reply = None;
        link.pump()?;
        loop {
            if let Some(reply) = self.reply.take() {
                return Ok((reply, stamp));
            }
            limit::check("receive")?;
            self.wait_once(SLICE)?;
            self.pump()?;
        }
    }

    /// NULL there and back.
    pub fn ping(&mut self) -> Result<()> {
        self.call("ping", Some(0), PROC_NULL, |_| ()).map(drop)
    }

    /// A server asked to come back later. Waits a little and answers whether to ask again; every wait is counted.
    /// Not once the timeout has passed since the first such answer, not for other statuses, and not while calls are
    /// being timed: as for reads and writes the answer is then the call's result.
    pub fn come_back(&mut self, found: u32, since: &mut Option<Instant>) -> bool {
        if !matches!(found, status::DELAY | status::GRACE) {
            return false;
        }
        if limit::is_timed() {
            self.count_delay(found);
            return false;
        }
        let waited = since.get_or_insert_with(Instant::now).elapsed();
        if waited >= self.timeout
            || limit::left().is_some_and(|left| left <= ASK_AGAIN)
            || limit::check("wait").is_err()
        {
            return false;
        }
        match found {
            status::GRACE => self.events.grace_waits += 1,
            _ => self.events.delay_waits += 1,
        }
        std::thread::sleep(ASK_AGAIN.min(self.timeout));
        true
    }

    /// Sends what the sockets take; true when nothing is left.
    #[inline]
    pub fn pump(&mut self) -> Result<bool> {
        let mut all = true;
        for link in &mut self.links {
            if !link.is_empty() {
                all &= link.pump()?;
            }
        }
        Ok(all)
    }

    /// Waits at most `wait` for a reply and processes those that are there; false when none was.
    pub fn wait_once(&mut self, wait: Duration) -> Result<bool> {
        let got = if self.links.len() == 1 && self.links[0].is_empty() {
            self.receive(0, wait)?
        } else {
            self.wait_for_any(wait)?
        };
        if got {
            self.take_arrived()?;
        } else {
            self.silence()?;
        }
        Ok(got)
    }

    fn wait_for_any(&mut self, wait: Duration) -> Result<bool> {
        let mut blocked = self.links.iter().enumerate().filter(|(_, link)| !link.is_empty()).map(|(at, _)| at);
        let writable = blocked.next();
        // Only one connection can be asked about: with two of them blocked, look again soon.
        let wait = if blocked.next().is_some() { wait.min(Duration::from_millis(1)) } else { wait };
        let seen = ready(&self.links, writable, wait)?;
        let mut got = seen.writable;
        for at in 0..self.links.len() {
            if seen.readable & (1 << at) != 0 {
                // The rest of a reply that has begun is on its way.
                let begun = !self.links[at].wire.buffered().is_empty();
                got |= self.receive(at, if begun { SLICE } else { Duration::ZERO })?;
            }
        }
        Ok(got)
    }

    /// Called when a wait brought nothing: an error once the server was silent for too long.
    #[cold]
    fn silence(&mut self) -> Result<()> {
        if self.calls.outstanding() == 0 {
            return Ok(());
        }
        let since = *self.silent_since.get_or_insert_with(Instant::now);
        if since.elapsed() < self.timeout {
            return Ok(());
        }
        let message = format!("no reply from the server for {} s", self.timeout.as_secs_f64());
        Err(Error::new(ErrorKind::Timeout, "receive", message).with("outstanding", self.calls.outstanding()))
    }

    /// A call begins with nothing outstanding: the server's silence until now does not count.
    #[inline]
    pub fn not_silent(&mut self) {
        self.silent_since = None;
    }

    /// Processes replies that are buffered whole. No system call.
    pub fn take_arrived(&mut self) -> Result<()> {
        for at in 0..self.links.len() {
            while is_whole(self.links[at].wire.buffered()) {
                self.receive(at, Duration::ZERO)?;
            }
        }
        Ok(())
    }

    /// Longest reply that can be right.
    fn most_reply_bytes(&self) -> usize {
        (self.max_read_bytes as usize + REPLY_OVERHEAD_BYTES).max(CONTROL_REPLY_BYTES)
    }

    /// Receives and processes one reply; false when none began within `wait`.
    pub fn receive(&mut self, at: usize, wait: Duration) -> Result<bool> {
        if !self.links[at].wire.try_fill(MARK_BYTES + 4, wait)? {
            return Ok(false);
        }
        self.links[at].wire.begin_message();
        let head = self.links[at].wire.buffered();
        let mark = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
        let len = (mark & !LAST_FRAGMENT) as usize;
        if mark & LAST_FRAGMENT == 0 {
            self.assemble(at)?;
            let xid = Decoder::new(&self.assembled).u32().map_err(|bad| bad.error("receive"))?;
            let call = self.answered(at, xid)?;
            self.process_assembled(&call)?;
        } else {
            if len < LEAST_REPLY_BYTES || len > self.most_reply_bytes() {
                return Err(Bad::Wrong("a reply's length cannot be right").error("receive"));
            }
            let xid = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
            let call = self.answered(at, xid)?;
            self.process(at, &call, len)?;
        }
        self.silent_since = None;
        Ok(true)
    }

    /// The call that a reply answers.
    #[inline]
    fn answered(&self, at: usize, xid: u32) -> Result<Call> {
        let Some(call) = self.calls.find(xid, at as u32) else {
            return Err(Bad::Wrong("it answers a call that was not made").error("receive"));
        };
        if !self.links[at].is_sent(call.end) {
            return Err(Bad::Wrong("it came before the whole call was sent").error("receive"));
        }
        Ok(call)
    }

    #[inline]
    fn process(&mut self, at: usize, call: &Call, len: usize) -> Result<()> {
        match call.purpose {
            Purpose::Data(_) if self.covers() => {
                self.receive_whole(at, len)?;
                self.assembled_data_reply(call)
            }
            Purpose::Data(_) => self.data_reply(at, call, len),
            _ => {
                let wire = &mut self.links[at].wire;
                let mut reply = vec![0; len];
                wire.consume(MARK_BYTES);
                wire.read_into(&mut reply)?;
                self.take_control(call, reply);
                Ok(())
            }
        }
    }

    fn process_assembled(&mut self, call: &Call) -> Result<()> {
        self.events.fragmented_reply += 1;
        match call.purpose {
            Purpose::Data(_) => self.assembled_data_reply(call),
            _ => {
                let reply = self.assembled.clone();
                self.take_control(call, reply);
                Ok(())
            }
        }
    }

    fn take_control(&mut self, call: &Call, reply: Vec<u8>) {
        self.forget(call);
        self.reply = Some(reply);
    }

    /// A call's reply came: its place and its number are free again.
    #[inline]
    pub(crate) fn forget(&mut self, call: &Call) {
        self.calls.remove(call.xid);
        if let Some(security) = &mut self.security {
            security.answered(call.stamp);
        }
    }

    /// Whether replies must be there whole before they can be read.
    #[inline]
    pub(crate) fn covers(&self) -> bool {
        self.security.as_ref().is_some_and(|security| security.covers())
    }

    fn receive_whole(&mut self, at: usize, len: usize) -> Result<()> {
        let Transport { links, assembled, .. } = self;
        let wire = &mut links[at].wire;
        wire.consume(MARK_BYTES);
        assembled.resize(len, 0);
        wire.read_into(assembled)
    }

    /// Puts a reply of several fragments together.
    fn assemble(&mut self, at: usize) -> Result<()> {
        let most = self.most_reply_bytes();
        self.assembled.clear();
        assemble(&mut self.links[at].wire, most, &mut self.assembled)
    }

    /// Replaces a connection.
    pub fn replace(&mut self, at: usize, wire: Wire) {
        self.links[at] = self.links[at].again(wire);
    }

    /// From now on waits at most this long.
    pub fn hurry(&mut self, timeout: Duration) {
        self.timeout = self.timeout.min(timeout);
        for link in &mut self.links {
            link.wire.set_timeout(self.timeout);
        }
    }
}

/// Whether the first buffered reply is there whole.
#[inline]
fn is_whole(buffered: &[u8]) -> bool {
    match buffered {
        [a, b, c, d, ..] => {
            let mark = u32::from_be_bytes([*a, *b, *c, *d]);
            buffered.len() - MARK_BYTES >= (mark & !LAST_FRAGMENT) as usize && mark & LAST_FRAGMENT != 0
        }
        _ => false,
    }
}

/// Appends all fragments of the next record, at most `most` bytes.
pub(crate) fn assemble(wire: &mut Wire, most: usize, into: &mut Vec<u8>) -> Result<()> {
    for _ in 0..MAX_FRAGMENTS {
        wire.fill(MARK_BYTES)?;
        let mark = match wire.buffered() {
            [a, b, c, d, ..] => u32::from_be_bytes([*a, *b, *c, *d]),
            _ => 0,
        };
        wire.consume(MARK_BYTES);
        let len = (mark & !LAST_FRAGMENT) as usize;
        if into.len() + len > most {
            return Err(Bad::Wrong("a reply is longer than any can be").error("receive"));
        }
        let start = into.len();
        into.resize(start + len, 0);
        wire.read_into(&mut into[start..])?;
        if mark & LAST_FRAGMENT != 0 {
            return Ok(());
        }
    }
    Err(Bad::Wrong("a reply has too many fragments").error("receive"))
}
