//! One connection: requests are framed, signed or encrypted and sent; `receive.rs` takes the answers.

use crate::codec::{
    broken, Put, RequestHeader, FLAG_RELATED, FLAG_REPLAY, FLAG_SIGNED, HEADER_BYTES, OPLOCK_BREAK, TRANSFORM_BYTES,
};
use crate::crypto::{Preauth, Signer};
use crate::seal::Seal;
use crate::window::{Kind, Pending, Window};
use naslab_core::{limit, Error, ErrorKind, IoBuf, Result};
use naslab_wire::{ready, Wire};
use std::mem::take;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Payloads up to this size are copied behind their request so that several requests leave with one system call.
pub(crate) const COPY_BYTES: usize = 8 * 1024;
/// So many bytes of gathered requests are sent at once.
const BATCH_BYTES: usize = 24 * 1024;
/// How long a full socket is waited for before deadlines are looked at.
const TICK: Duration = Duration::from_millis(50);
/// Broken leases and oplocks that may come in a row, without an answer to anything, and that may wait for a credit to
/// be acknowledged: more than one client has files open.
const MAX_BREAKS: usize = 16_384;
/// Largest answer before the server said its limits.
const FIRST_FRAME_BYTES: usize = 256 * 1024;

/// A part of an operation that was answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finished {
    pub slot: u32,
    pub kind: Kind,
    /// Where in the operation it began, and what was asked for.
    pub at: u32,
    pub len: u32,
    pub status: u32,
    /// Bytes moved.
    pub bytes: u32,
}

/// What happened beside the operations.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LinkEvents {
    pub pending: u64,
    pub lease_break: u64,
    pub oplock_break: u64,
}

/// One answer of a call.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub command: u16,
    pub status: u32,
    pub range: Range<usize>,
    pub done: bool,
    /// It came encrypted.
    pub sealed: bool,
}

/// The answers of the call under way.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    pub data: Vec<u8>,
    pub list: Vec<Reply>,
    pub missing: usize,
}

impl Replies {
    /// Status and whole message, header included, of the answer to part `at`.
    pub fn get(&self, at: usize) -> (u32, &[u8]) {
        let reply = &self.list[at];
        (reply.status, &self.data[reply.range.clone()])
    }
}

/// How the messages of a call are signed where not everything is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// As the session's other messages.
    AsSession,
    /// Requests and answers.
    Signed,
    /// Only the requests; the caller checks the answers, whose key comes with them.
    RequestSigned,
}

/// One request of a call.
pub(crate) struct Part<'a> {
    pub command: u16,
    pub charge: u16,
    pub body: &'a [u8],
}

/// One request of the hot path.
pub(crate) struct Data<'a> {
    pub command: u16,
    pub charge: u16,
    pub kind: Kind,
    pub slot: u32,
    pub at: u32,
    pub buf: IoBuf,
    pub body: &'a [u8],
}

/// One connection.
pub(crate) struct Link {
    pub wire: Wire,
    /// Where it goes, as it was named.
    pub address: Arc<str>,
    pub window: Window,
    pub session_id: u64,
    pub tree_id: u32,
    /// The dialect counts the credits of each request.
    pub charges: bool,
    pub signer: Option<Signer>,
    pub sign_all: bool,
    pub seal: Option<Seal>,
    pub seal_all: bool,
    /// Longest answer that is believed.
    pub max_frame: usize,
    pub finished: Vec<Finished>,
    pub replies: Replies,
    pub events: LinkEvents,
    /// The next call was made before, and its answer was lost.
    pub replays: bool,
    /// Built and not sent.
    out: Vec<u8>,
    /// One received message, out of its envelope.
    pub(crate) clear: Vec<u8>,
    /// Acknowledgements of broken leases that wait for a credit.
    owed: Vec<Vec<u8>>,
    /// Leases and oplocks broken since the last answer.
    breaks: usize,
    read_ahead: usize,
}

impl AsRef<Wire> for Link {
    fn as_ref(&self) -> &Wire {
        &self.wire
    }
}

impl Link {
    /// A fresh connection to `address` that wants `credits` in all.
    pub fn new(wire: Wire, address: &Arc<str>, credits: u32) -> Link {
        Link {
            wire,
            address: Arc::clone(address),
            window: Window::new(credits),
            session_id: 0,
            tree_id: 0,
            charges: false,
            signer: None,
            sign_all: false,
            seal: None,
            seal_all: false,
            max_frame: FIRST_FRAME_BYTES,
            finished: Vec::new(),
            replies: Replies::default(),
            events: LinkEvents::default(),
            replays: false,
            out: Vec::with_capacity(2 * BATCH_BYTES),
            clear: Vec::new(),
            owed: Vec::new(),
            breaks: 0,
            read_ahead: 0,
        }
    }

    /// Whether requests wait to be sent.
    pub fn has_unsent(&self) -> bool {
        !self.out.is_empty() || !self.owed.is_empty()
    }

    /// Whether so much waits that it should go now.
    pub fn is_batch_full(&self) -> bool {
        self.out.len() >= BATCH_BYTES
    }

    /// Says how large the answers will be: large payloads should not go through the buffer.
    #[inline]
    pub fn expect_large(&mut self, large: bool) {
        let bytes = match (large, self.seal_all) {
            (false, _) => 64 * 1024,
            (true, false) => 4 + crate::receive::HEAD_BYTES,
            (true, true) => 4 + crate::receive::HEAD_BYTES + TRANSFORM_BYTES,
        };
        if bytes != self.read_ahead {
            self.read_ahead = bytes;
            self.wire.set_read_ahead(bytes);
        }
    }

    fn header(&mut self, command: u16, charge: u16, flags: u32) -> RequestHeader {
        let (message_id, credits) = self.window.take(charge);
        RequestHeader {
            command,
            charge: if self.charges { charge } else { 0 },
            credits,
            flags,
            next: 0,
            message_id,
            tree_id: self.tree_id,
            session_id: self.session_id,
        }
    }

    fn is_sealed(&self) -> bool {
        self.seal_all && self.seal.is_some()
    }

    /// Appends the frame's length and, if encrypted, the transform header; where the message begins.
    fn begin_frame(&mut self, message_bytes: usize) -> usize {
        let extra = if self.is_sealed() { TRANSFORM_BYTES } else { 0 };
        self.out.put(&((message_bytes + extra) as u32).to_be_bytes());
        match &mut self.seal {
            Some(seal) if self.seal_all => seal.begin(&mut self.out, self.session_id, message_bytes),
            _ => self.out.len(),
        }
    }

    /// Signs the message at `at..` of what waits to be sent, followed by `payload`.
    fn sign(&mut self, at: usize, message_id: u64, payload: &[u8]) {
        if let Some(signer) = &self.signer {
            let mut mac = signer.begin(message_id, false);
            mac.update(&self.out[at..]);
            mac.update(payload);
            let signature = mac.finish();
            self.out[at + 48..at + HEADER_BYTES].copy_from_slice(&signature);
        }
    }

    /// Appends a request of the hot path with the payload of a write. Call only with room in the window. If `apart`
    /// and not encrypted, the payload is not copied and must be sent right behind.
    #[inline]
    pub fn push(&mut self, data: &Data, payload: &[u8], apart: bool) {
        let sealed = self.is_sealed();
        let signed = self.sign_all && !sealed && self.signer.is_some();
        let header = self.header(data.command, data.charge, if signed { FLAG_SIGNED } else { 0 });
        let at = self.begin_frame(HEADER_BYTES + data.body.len() + payload.len());
        self.out.put(&header.encode());
        self.out.put(data.body);
        if signed {
            self.sign(at, header.message_id, payload);
        }
        match &self.seal {
            Some(seal) if sealed => seal.finish(&mut self.out, at, payload),
            _ if !apart => self.out.put(payload),
            _ => {}
        }
        self.window.expect(Pending {
            id: header.message_id,
            kind: data.kind,
            charge: data.charge,
            signed,
            slot: data.slot,
            at: data.at,
            buf: data.buf,
        });
    }

    /// Whether a payload must go apart: too large to be copied, and not encrypted.
    #[inline]
    pub fn goes_apart(&self, payload_bytes: usize) -> bool {
        payload_bytes > COPY_BYTES && !self.is_sealed()
    }

    /// Appends the requests of one call as one compound; where its message begins in what waits to be sent.
    fn push_call(&mut self, parts: &[Part], proof: Proof) -> usize {
        let sealed = self.is_sealed();
        let signed = (self.sign_all || proof != Proof::AsSession) && !sealed && self.signer.is_some();
        self.replies.data.clear();
        self.replies.list.clear();
        self.replies.missing = parts.len();
        let sizes = parts.iter().map(|p| HEADER_BYTES + p.body.len());
        let last = parts.len() - 1;
        let total = sizes.enumerate().map(|(n, s)| if n == last { s } else { s.next_multiple_of(8) }).sum();
        let frame = self.begin_frame(total);
        let all = if signed { FLAG_SIGNED } else { 0 } | if take(&mut self.replays) { FLAG_REPLAY } else { 0 };
        for (n, part) in parts.iter().enumerate() {
            let flags = all | if n > 0 { FLAG_RELATED } else { 0 };
            let mut header = self.header(part.command, part.charge, flags);
            let size = HEADER_BYTES + part.body.len();
            if n < last {
                header.next = size.next_multiple_of(8) as u32;
            }
            let at = self.out.len();
            self.out.put(&header.encode());
            self.out.put(part.body);
            if n < last {
                self.out.zeros(size.next_multiple_of(8) - size);
            }
            if signed {
                self.sign(at, header.message_id, &[]);
            }
            self.expect_call(n, part, header.message_id, signed && proof != Proof::RequestSigned);
        }
        if let Some(seal) = self.seal.as_ref().filter(|_| sealed) {
            seal.finish(&mut self.out, frame, &[]);
        }
        frame
    }

    fn expect_call(&mut self, at: usize, part: &Part, id: u64, signed: bool) {
        self.replies.list.push(Reply { command: part.command, status: 0, range: 0..0, done: false, sealed: false });
        let kind = Kind::Call(at as u8);
        let buf = IoBuf::empty();
        self.window.expect(Pending { id, kind, charge: part.charge, signed, slot: 0, at: 0, buf });
    }

    /// Acknowledges a broken lease or oplock, now or when there is a credit.
    pub(crate) fn owe(&mut self, body: Vec<u8>) {
        self.owed.push(body);
    }

    /// A lease or oplock was broken. An error when more are than this client can hold.
    pub(crate) fn count_break(&mut self) -> Result<()> {
        self.breaks += 1;
        if self.breaks > MAX_BREAKS || self.owed.len() >= MAX_BREAKS {
            return Err(broken("the server breaks more leases than it granted, and sends nothing else"));
        }
        Ok(())
    }

    /// A request was answered.
    #[inline]
    pub(crate) fn answered(&mut self) {
        self.breaks = 0;
    }

    fn pay_owed(&mut self) {
        while self.window.has_room(1) {
            let Some(body) = self.owed.pop() else { return };
            let buf = IoBuf::empty();
            let data = Data { command: OPLOCK_BREAK, charge: 1, kind: Kind::Ignore, slot: 0, at: 0, buf, body: &body };
            self.push(&data, &[], false);
        }
    }
}

/// Sends what waits on connection `i`, and `apart` behind it, receiving meanwhile whatever arrives: a server that
/// cannot send takes no requests.
pub(crate) fn flush(links: &mut [Link], i: usize, apart: &[u8]) -> Result<()> {
    let mut apart = apart;
    if apart.is_empty() {
        links[i].pay_owed();
    }
    loop {
        let mut out = take(&mut links[i].out);
        let sent = if out.is_empty() && apart.is_empty() { Ok(()) } else { drain(links, i, [&out, apart]) };
        out.clear();
        // Acknowledgements may have been added meanwhile.
        let added = std::mem::replace(&mut links[i].out, out);
        sent?;
        if added.is_empty() {
            return Ok(());
        }
        links[i].out.put(&added);
        apart = &[];
    }
}

fn drain(links: &mut [Link], i: usize, parts: [&[u8]; 2]) -> Result<()> {
    let total = parts[0].len() + parts[1].len();
    let mut done = 0;
    let mut quiet_since: Option<Instant> = None;
    loop {
        let now = links[i].wire.send_some(&parts, done)?;
        let mut progressed = now > done;
        done = now;
        if done == total {
            return Ok(());
        }
        limit::check("send")?;
        let seen = ready(links, Some(i), TICK)?;
        for (n, link) in links.iter_mut().enumerate() {
            if seen.readable & (1 << n) != 0 {
                // What answers nothing is no progress: a server can send it for ever.
                let before = link.window.outstanding();
                link.receive(Duration::ZERO)?;
                progressed |= link.window.outstanding() < before;
            }
        }
        if progressed || seen.writable {
            quiet_since = None;
        } else if quiet_since.get_or_insert_with(Instant::now).elapsed() >= links[i].wire.timeout() {
            return Err(late(links[i].wire.timeout()));
        }
    }
}

/// The error when nothing came for too long.
pub(crate) fn late(limit: Duration) -> Error {
    let message = format!("no answer from the server for {} s", limit.as_secs_f64());
    Error::new(ErrorKind::Timeout, "receive", message)
}

/// Sends a compound of requests on connection `i` and waits for all its answers, which are then in its `replies`.
/// `hash` takes what was sent.
pub(crate) fn call(
    links: &mut [Link],
    i: usize,
    parts: &[Part],
    proof: Proof,
    hash: Option<&mut Preauth>,
) -> Result<()> {
    let until = Instant::now() + links[i].wire.timeout();
    links[i].expect_large(false);
    let charge: u32 = parts.iter().map(|p| u32::from(p.charge)).sum();
    while !links[i].window.has_room_for(charge, parts.len()) {
        if links[i].window.outstanding() == 0 {
            return Err(Error::new(ErrorKind::Protocol, "send", "the server grants too few credits for one call"));
        }
        flush(links, i, &[])?;
        wait(links, i, until)?;
    }
    let at = links[i].push_call(parts, proof);
    if let Some(hash) = hash {
        hash.add(&links[i].out[at..]);
    }
    flush(links, i, &[])?;
    while links[i].replies.missing > 0 {
        wait(links, i, until)?;
    }
    Ok(())
}

/// Takes what comes next. All connections are looked at: an answer on one may wait for the acknowledgement of a
/// lease that was broken on another.
fn wait(links: &mut [Link], i: usize, until: Instant) -> Result<()> {
    limit::check("receive")?;
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(late(links[i].wire.timeout()));
    }
    if let [link] = links {
        if link.receive(left.min(TICK))? && link.has_unsent() {
            flush(links, 0, &[])?;
        }
        return Ok(());
    }
    let seen = ready(links, None, left.min(TICK))?;
    for n in 0..links.len() {
        if seen.readable & (1 << n) != 0 && links[n].receive(Duration::ZERO)? && links[n].has_unsent() {
            flush(links, n, &[])?;
        }
    }
    Ok(())
}
