//! The hot path: READ, WRITE and COMMIT of every version, without a copy of large payloads and without an allocation
//! per operation.

use crate::calls::{Call, Piece, Purpose, Running, NO_SLOT};
use crate::files::stable;
use crate::replies::{data_reply, op4, DataReply, Sequenced};
use crate::rpc::{self, Head, Refusal, MARK_BYTES};
use crate::security::{write_call, Stamp};
use crate::status;
use crate::transport::Transport;
use crate::xdr::{padding, Bad, Decoder, Put};
use naslab_core::{Completion, Error, ErrorKind, FileId, IoBuf, Op, OpError, OpKind, Result, Submit, Token};
use std::time::{Duration, Instant};

/// Payloads up to this size are copied behind their header, so that many requests leave with one system call.
const COPY_BYTES: u32 = 8 * 1024;
/// Requests that wait for the next reap at most, in bytes.
const GATHER_BYTES: u64 = 64 * 1024;
/// Reads from this size on land in place: little is received beyond a reply's header.
const IN_PLACE_BYTES: u32 = 16 * 1024;
/// A reply's header, in nearly every case.
const HEAD_BYTES: usize = 256;
/// Longest header of a data reply, whatever the server puts into verifiers and tags.
const MOST_HEAD_BYTES: usize = 8 * 1024;
const READ_AHEAD_BYTES: usize = 64 * 1024;

/// Numbers of the procedures of NFS 3.
mod proc3 {
    pub const READ: u32 = 6;
    pub const WRITE: u32 = 7;
    pub const COMMIT: u32 = 21;
}
/// COMPOUND of NFS 4.
pub(crate) const PROC_COMPOUND: u32 = 1;

impl Transport {
    /// Starts an operation; see `Session::submit`.
    ///
    /// # Safety
    /// As `Session::submit`.
    pub unsafe fn submit(&mut self, op: &Op, buf: IoBuf, token: Token) -> Result<Submit> {
        self.alive()?;
        if self.files.get(op.file.0).is_none() {
            return Err(Error::new(ErrorKind::Invalid, "submit", "this file is not open").with("file", op.file.0));
        }
        if op.kind != OpKind::Flush && (op.len_bytes as usize) > buf.len {
            return Err(Error::new(ErrorKind::Invalid, "submit", "the buffer is smaller than the operation"));
        }
        if op.kind == OpKind::Flush && self.needs_no_commit(op.file) {
            self.events.commit_not_needed += 1;
            self.done.push_back(Completion { token, bytes: 0, error: None });
            return Ok(Submit::Queued);
        }
        if !self.has_room() {
            let arrived = self.make_room();
            self.guard(arrived)?;
            if !self.has_room() {
                self.events.slot_wait += 1;
                return Ok(Submit::Busy);
            }
        }
        let started = self.start(op, buf.ptr, token, false).and_then(|()| self.send_soon(op));
        self.guard(started)?;
        Ok(Submit::Queued)
    }

    /// Whether all that this open has written was acknowledged as durable already, so that no COMMIT is due. A file
    /// that was not written by it is committed all the same: another open's writes may be meant.
    fn needs_no_commit(&mut self, file: FileId) -> bool {
        self.is_idle() && self.files.get(file.0).is_some_and(|file| file.is_durable())
    }

    /// Sends what is queued, and takes replies that have arrived.
    fn make_room(&mut self) -> Result<()> {
        self.pump()?;
        self.wait_once(Duration::ZERO)?;
        self.dispatch()?;
        self.renew_context()?;
        self.pump().map(drop)
    }

    #[inline]
    fn has_room(&self) -> bool {
        self.waiting.is_empty() && self.ops.len() < self.most_calls && self.can_call()
    }

    #[inline]
    fn can_call(&self) -> bool {
        self.calls.outstanding() < self.most_calls
            && (!self.version.has_slots() || self.slots.has_free())
            && self.security.as_ref().is_none_or(|security| security.has_room())
    }

    /// Queues an operation, in parts when it is larger than what the server takes.
    fn start(&mut self, op: &Op, ptr: *mut u8, token: Token, internal: bool) -> Result<()> {
        if self.calls.outstanding() == 0 {
            self.not_silent();
        }
        let most = match op.kind {
            OpKind::Read => self.max_read_bytes,
            OpKind::Write => self.max_write_bytes,
            OpKind::Flush => u32::MAX,
        };
        let (offset_bytes, len) = match op.kind {
            OpKind::Flush => (0, 0),
            _ => (op.offset_bytes, op.len_bytes),
        };
        let pieces = len.div_ceil(most).max(1);
        let running = self.ops.insert(Running { token, internal, done: 0, pieces, error: None });
        self.events.split += u64::from(pieces - 1);
        let first = Piece { kind: op.kind, op: running, file: op.file.0, offset_bytes, ptr, len: len.min(most) };
        self.call_piece(first)?;
        for part in 1..pieces {
            let at = part * most;
            self.waiting.push_back(Piece {
                offset_bytes: offset_bytes.wrapping_add(at.into()),
                ptr: ptr.wrapping_add(at as usize),
                len: (len - at).min(most),
                ..first
            });
        }
        if pieces > 1 {
            self.dispatch()?;
        }
        Ok(())
    }

    /// Large payloads and the first of several requests leave at once; further small ones go with the next reap.
    #[inline]
    fn send_soon(&mut self, op: &Op) -> Result<()> {
        let large = op.kind == OpKind::Write && op.len_bytes > COPY_BYTES;
        let first = self.calls.outstanding() == 1;
        if large || first || self.links.iter().any(|link| link.waiting_bytes() > GATHER_BYTES) {
            self.pump()?;
        }
        Ok(())
    }

    /// Queues waiting parts for which there is room.
    #[inline]
    fn dispatch(&mut self) -> Result<()> {
        while self.can_call() {
            match self.waiting.pop_front() {
                Some(piece) => self.call_piece(piece)?,
                None => break,
            }
        }
        Ok(())
    }

    /// Writes one request. There is room for it.
    fn call_piece(&mut self, piece: Piece) -> Result<()> {
        let at = self.turn();
        let xid = self.calls.take_xid();
        let slot = if self.version.has_slots() { self.slots.take() } else { None };
        let inside = piece.kind == OpKind::Write && self.covers();
        let stamp = self.write_request(at, xid, slot, &piece, inside)?;
        let link = &mut self.links[at];
        if piece.kind == OpKind::Write && !inside {
            // SAFETY: `submit`'s caller keeps the memory valid until the operation was reaped, which is not before
            // the reply, and a reply before the end of the request ends the session and drops the queue.
            unsafe {
                if piece.len <= COPY_BYTES {
                    link.gather(|out| out.put_raw(std::slice::from_raw_parts(piece.ptr, piece.len as usize)));
                } else {
                    link.lend(piece.ptr, piece.len as usize);
                }
            }
            link.gather(|out| out.put_raw(&[0; 3][..padding(piece.len as usize)]));
        }
        if piece.len < IN_PLACE_BYTES {
            link.wire.set_read_ahead(READ_AHEAD_BYTES);
        } else if piece.kind == OpKind::Read {
            link.wire.set_read_ahead(MARK_BYTES + HEAD_BYTES);
        }
        let slot = slot.map_or(NO_SLOT, |(slot, _)| slot);
        let (link, end) = (at as u32, link.position());
        self.calls.insert(Call { purpose: Purpose::Data(piece.kind), xid, link, slot, stamp, end, piece });
        self.events.max_outstanding = self.events.max_outstanding.max(self.calls.outstanding() as u64);
        Ok(())
    }

    /// Writes a request, with a write's payload where it lies `inside` of what is signed or encrypted; else the payload
    /// is still to follow.
    fn write_request(
        &mut self,
        at: usize,
        xid: u32,
        slot: Option<(u32, u32)>,
        piece: &Piece,
        inside: bool,
    ) -> Result<Stamp> {
        let Transport { links, prefix, security, slots, files, version, .. } = self;
        let Some(file) = files.get(piece.file) else {
            return Ok(Stamp::NONE);
        };
        let procedure = match (version.minor(), piece.kind) {
            (Some(_), _) => PROC_COMPOUND,
            (None, OpKind::Read) => proc3::READ,
            (None, OpKind::Write) => proc3::WRITE,
            (None, OpKind::Flush) => proc3::COMMIT,
        };
        let len = piece.len as usize;
        let extra = if piece.kind == OpKind::Write && !inside { len + padding(len) } else { 0 };
        let arguments = |out: &mut Vec<u8>| {
            match version.minor() {
                None => {
                    out.put_opaque(file.handle.as_slice());
                    put_range3(out, piece, file.stable);
                }
                Some(minor) => {
                    out.put_u32(0);
                    out.put_u32(minor);
                    out.put_u32(if slot.is_some() { 3 } else { 2 });
                    if let Some((slot, number)) = slot {
                        put_sequence(out, &slots.session, (slot, number, slots.highest_used()), false);
                    }
                    out.put_u32(op4::PUTFH);
                    out.put_opaque(file.handle.as_slice());
                    put_operation4(out, piece, file.stable, &file.state);
                }
            }
            if inside {
                // SAFETY: `submit`'s caller keeps the memory valid until the operation was reaped.
                out.put_raw(unsafe { std::slice::from_raw_parts(piece.ptr, len) });
                out.put_padding(len);
            }
        };
        let mut written = Ok(Stamp::NONE);
        links[at].gather(|out| {
            written = write_call(prefix, security, out, Head { xid, procedure }, extra, arguments);
        });
        written
    }

    /// Takes finished operations; see `Session::reap`.
    pub fn reap(&mut self, min: usize, timeout: Option<Duration>, out: &mut Vec<Completion>) -> Result<usize> {
        self.alive()?;
        let outcome = self.finish(min, timeout);
        self.guard(outcome)?;
        let count = self.done.len();
        out.extend(self.done.drain(..));
        Ok(count)
    }

    fn finish(&mut self, min: usize, timeout: Option<Duration>) -> Result<()> {
        self.pump()?;
        self.take_arrived()?;
        self.dispatch()?;
        self.pump()?;
        if min == 0 && self.calls.outstanding() > 0 {
            self.wait_once(Duration::ZERO)?;
            self.dispatch()?;
            return self.pump().map(drop);
        }
        let mut until = None;
        let mut left = timeout;
        while self.done.len() < min && self.calls.outstanding() > 0 {
            let got = self.wait_once(left.unwrap_or(Duration::from_millis(50)))?;
            self.dispatch()?;
            self.pump()?;
            if self.done.len() >= min {
                break;
            }
            if let Some(timeout) = timeout {
                let until = *until.get_or_insert_with(|| Instant::now() + if got { timeout } else { Duration::ZERO });
                left = Some(until.saturating_duration_since(Instant::now()));
                if left == Some(Duration::ZERO) {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Processes a data reply of which at least the record mark and xid are buffered.
    pub(crate) fn data_reply(&mut self, at: usize, call: &Call, len: usize) -> Result<()> {
        let mut head = len.min(HEAD_BYTES);
        let (outcome, data_at) = loop {
            let wire = &mut self.links[at].wire;
            wire.fill(MARK_BYTES + head)?;
            let bytes = &wire.buffered()[MARK_BYTES..];
            let available = bytes.len().min(len);
            match decode(&bytes[..available], self.version, call) {
                Err(Bad::Truncated) if available < len && available < MOST_HEAD_BYTES => {
                    head = len.min(available * 2).max(available + 1);
                }
                Err(bad) => return Err(bad.error("receive")),
                Ok(found) => break found,
            }
        };
        if let Some(security) = &self.security {
            security.check_head(call.stamp, &self.links[at].wire.buffered()[MARK_BYTES..])?;
        }
        let data = read_bytes(call, &outcome);
        check_data(call, &outcome, len - data_at.min(len))?;
        let wire = &mut self.links[at].wire;
        wire.consume(MARK_BYTES + data_at);
        if data > 0 {
            // SAFETY: the operation's caller lends this memory until its completion was reaped; `check_data` bounded it.
            wire.read_into(unsafe { std::slice::from_raw_parts_mut(call.piece.ptr, data) })?;
        }
        wire.skip(len - data_at - data)?;
        self.finish_call(call, &outcome)
    }

    /// As `data_reply`, for a reply that lies whole in `assembled`: it came in fragments, or had to be opened.
    pub(crate) fn assembled_data_reply(&mut self, call: &Call) -> Result<()> {
        let mut reply = std::mem::take(&mut self.assembled);
        let opened = self.open_reply(call.stamp, &mut reply);
        self.assembled = reply;
        let (outcome, data_at) = match opened? {
            Err(refusal) => (Err(refusal), 0),
            Ok(at) => {
                let mut d = Decoder::new(&self.assembled[at..]);
                let reply = data_reply(&mut d, self.version, call.piece.kind).map_err(|bad| bad.error("receive"))?;
                (Ok(reply), at + reply.data_at)
            }
        };
        let data = read_bytes(call, &outcome);
        check_data(call, &outcome, self.assembled.len() - data_at)?;
        if data > 0 {
            // SAFETY: as in `data_reply`.
            let into = unsafe { std::slice::from_raw_parts_mut(call.piece.ptr, data) };
            into.copy_from_slice(&self.assembled[data_at..data_at + data]);
        }
        self.finish_call(call, &outcome)
    }

    /// Frees the call and its slot, and carries its operation on.
    fn finish_call(&mut self, call: &Call, outcome: &Outcome) -> Result<()> {
        self.forget(call);
        if call.slot != NO_SLOT {
            let sequence = outcome.as_ref().ok().and_then(|reply| reply.sequence);
            self.slots.give_back(call.slot, sequence.is_some());
            if let Some(sequence) = sequence {
                self.sequenced(call.slot, &sequence)?;
            } else if self.saw_the_number(call.slot, outcome) {
                self.waiting.push_front(call.piece);
                return Ok(());
            }
        }
        match outcome {
            Ok(reply) if reply.status == status::OK => self.advance(&call.piece, reply),
            Ok(reply) => {
                self.count_delay(reply.status);
                self.end_piece(&call.piece, 0, Some(status::op_error(reply.status)));
            }
            Err(refusal) => self.end_piece(&call.piece, 0, Some(refusal.op_error())),
        }
        Ok(())
    }

    /// Whether the server takes the call for the repetition of an earlier one, which failed without a word about the
    /// slot: then it was not carried out, and is due again with the slot's next number. Once in a row for each slot.
    fn saw_the_number(&mut self, slot: u32, outcome: &Outcome) -> bool {
        let seen = outcome.as_ref().is_ok_and(|reply| status::is_repetition(reply.status)) && self.slots.skip(slot);
        self.events.slot_repaired += u64::from(seen);
        seen
    }

    /// Checks and obeys what SEQUENCE said.
    pub(crate) fn sequenced(&mut self, slot: u32, found: &Sequenced) -> Result<()> {
        if found.slot != slot || found.session != self.slots.session {
            return Err(Bad::Wrong("SEQUENCE answers for another slot or session").error("receive"));
        }
        self.slots.obey(found.target_highest);
        self.slots.tells_of_revoked = found.flags & REVOKED_FLAGS != 0;
        self.events.state_revoked += u64::from(self.slots.tells_of_revoked);
        Ok(())
    }

    pub(crate) fn count_delay(&mut self, status: u32) {
        match status {
            status::DELAY => self.events.delay += 1,
            status::GRACE => self.events.grace += 1,
            _ => {}
        }
    }

    fn advance(&mut self, piece: &Piece, reply: &DataReply) {
        match piece.kind {
            OpKind::Read => self.advance_read(piece, reply),
            OpKind::Write => self.advance_write(piece, reply),
            OpKind::Flush => self.advance_flush(piece, reply),
        }
    }

    fn advance_read(&mut self, piece: &Piece, reply: &DataReply) {
        if reply.count == piece.len {
            return self.end_piece(piece, reply.count, None);
        }
        if reply.eof || reply.count == 0 {
            let short = OpError { kind: ErrorKind::Short, status: 0 };
            return self.end_piece(piece, reply.count, Some(short));
        }
        self.events.short_read += 1;
        self.go_on(piece, reply.count);
    }

    fn advance_write(&mut self, piece: &Piece, reply: &DataReply) {
        let Some(file) = self.files.get(piece.file) else {
            return self.end_piece(piece, reply.count, None);
        };
        if reply.committed != stable::UNSTABLE {
            file.wrote_durably = true;
        } else if file.wrote(reply.verifier) {
            self.events.verifier_changed += 1;
        }
        if reply.committed < file.stable {
            self.events.less_stable += 1;
            let broken = OpError { kind: ErrorKind::Protocol, status: 0 };
            return self.end_piece(piece, reply.count, Some(broken));
        }
        if reply.count == piece.len {
            return self.end_piece(piece, reply.count, None);
        }
        self.events.short_write += 1;
        if reply.count == 0 {
            let short = OpError { kind: ErrorKind::Short, status: 0 };
            return self.end_piece(piece, 0, Some(short));
        }
        self.go_on(piece, reply.count);
    }

    fn advance_flush(&mut self, piece: &Piece, reply: &DataReply) {
        let (durable, newly) = self.files.get(piece.file).map_or((true, false), |file| file.committed(reply.verifier));
        self.events.verifier_changed += u64::from(newly);
        let lost = OpError { kind: ErrorKind::Io, status: 0 };
        self.end_piece(piece, 0, (!durable).then_some(lost));
    }

    /// Asks for the rest of a part that was carried out in part.
    fn go_on(&mut self, piece: &Piece, count: u32) {
        self.ops.get(piece.op).done += count;
        self.waiting.push_front(Piece {
            offset_bytes: piece.offset_bytes.wrapping_add(count.into()),
            ptr: piece.ptr.wrapping_add(count as usize),
            len: piece.len - count,
            ..*piece
        });
    }

    #[inline]
    fn end_piece(&mut self, piece: &Piece, count: u32, error: Option<OpError>) {
        let op = self.ops.get(piece.op);
        op.done += count;
        op.pieces -= 1;
        op.error = worse(op.error, error);
        if op.pieces > 0 {
            return;
        }
        let completion = Completion { token: op.token, bytes: op.done, error: op.error };
        let internal = op.internal;
        self.ops.remove(piece.op);
        if internal {
            self.own_flush = Some(completion);
        } else {
            self.done.push_back(completion);
        }
    }

    /// COMMIT of the whole file, waiting for its end. DELAY and GRACE are waited out visibly.
    pub fn flush(&mut self, file: FileId) -> Result<()> {
        self.alive()?;
        if self.needs_no_commit(file) {
            self.events.commit_not_needed += 1;
            return Ok(());
        }
        let mut since = None;
        loop {
            let outcome = self.commit(file);
            let completion = self.guard(outcome)?;
            let Some(error) = completion.error else {
                return Ok(());
            };
            if self.come_back(error.status as u32, &mut since) {
                continue;
            }
            if error.status == 0 && error.kind == ErrorKind::Io {
                let message =
                    "the server's write verifier changed: it restarted, and data written before may be lost; \
                               write them again and look at the server's log";
                return Err(Error::new(ErrorKind::Io, "flush", message));
            }
            return Err(match Refusal::from_status(error.status) {
                Some(refusal) => rpc::port_advice(refusal.error("flush", self.sec()), self.from_high_port),
                None => status::error("flush", self.version.minor().is_some(), error.status as u32),
            });
        }
    }

    fn commit(&mut self, file: FileId) -> Result<Completion> {
        while !self.has_room() {
            self.wait_once(Duration::from_millis(50))?;
            self.dispatch()?;
            self.pump()?;
        }
        let op = Op { kind: OpKind::Flush, file, offset_bytes: 0, len_bytes: 0, due_ns: None };
        self.start(&op, std::ptr::null_mut(), Token::MAX, true)?;
        self.pump()?;
        loop {
            if let Some(completion) = self.own_flush.take() {
                return Ok(completion);
            }
            self.wait_once(Duration::from_millis(50))?;
            self.dispatch()?;
            self.pump()?;
        }
    }
}

/// SEQ4_STATUS flags that say that state of this client is gone.
const REVOKED_FLAGS: u32 = 0x8 | 0x10 | 0x20 | 0x40;

type Outcome = std::result::Result<DataReply, Refusal>;

/// The RPC header and the results up to a read's data, and where these begin.
#[inline]
fn decode(bytes: &[u8], version: crate::options::Version, call: &Call) -> std::result::Result<(Outcome, usize), Bad> {
    let mut d = Decoder::new(bytes);
    let (_, verdict) = rpc::reply(&mut d)?;
    match verdict {
        Err(refusal) => Ok((Err(refusal), d.position())),
        Ok(()) => {
            let reply = data_reply(&mut d, version, call.piece.kind)?;
            Ok((Ok(reply), reply.data_at))
        }
    }
}

/// Bytes of a read's data in a reply.
#[inline]
fn read_bytes(call: &Call, outcome: &Outcome) -> usize {
    match outcome {
        Ok(reply) if call.piece.kind == OpKind::Read && reply.status == status::OK => reply.count as usize,
        _ => 0,
    }
}

/// The server may not move more bytes than asked, nor promise more data than the reply holds.
#[inline]
fn check_data(call: &Call, outcome: &Outcome, behind_head: usize) -> Result<()> {
    let Ok(reply) = outcome else {
        return Ok(());
    };
    if reply.count > call.piece.len {
        return Err(Bad::Wrong("more bytes were moved than requested").error("receive"));
    }
    if read_bytes(call, outcome) > behind_head {
        return Err(Bad::Wrong("a read's data is longer than its reply").error("receive"));
    }
    Ok(())
}

/// The error that an operation of several parts reports: the first, but a real failure before an early end.
fn worse(known: Option<OpError>, new: Option<OpError>) -> Option<OpError> {
    match (known, new) {
        (Some(known), Some(new)) if known.kind == ErrorKind::Short => Some(new),
        (Some(known), _) => Some(known),
        (None, new) => new,
    }
}

fn put_range3(out: &mut Vec<u8>, piece: &Piece, stable: u32) {
    out.put_u64(piece.offset_bytes);
    match piece.kind {
        OpKind::Flush | OpKind::Read => out.put_u32(piece.len),
        OpKind::Write => {
            out.put_u32(piece.len);
            out.put_u32(stable);
            out.put_u32(piece.len);
        }
    }
}

/// SEQUENCE. The reply need not be cached: nothing is ever sent twice here.
#[inline]
/// keep: the server is to keep its answer.
pub(crate) fn put_sequence(
    out: &mut Vec<u8>,
    session: &[u8; 16],
    (slot, number, highest): (u32, u32, u32),
    keep: bool,
) {
    out.put_u32(op4::SEQUENCE);
    out.put_raw(session);
    out.put_u32(number);
    out.put_u32(slot);
    out.put_u32(highest);
    out.put_bool(keep);
}

fn put_operation4(out: &mut Vec<u8>, piece: &Piece, stable: u32, state: &[u8; 16]) {
    match piece.kind {
        OpKind::Read => {
            out.put_u32(op4::READ);
            out.put_raw(state);
            out.put_u64(piece.offset_bytes);
            out.put_u32(piece.len);
        }
        OpKind::Write => {
            out.put_u32(op4::WRITE);
            out.put_raw(state);
            out.put_u64(piece.offset_bytes);
            out.put_u32(stable);
            out.put_u32(piece.len);
        }
        OpKind::Flush => {
            out.put_u32(op4::COMMIT);
            out.put_u64(0);
            out.put_u32(0);
        }
    }
}
