//! Taking answers: the payload of a read goes straight into the operation's memory.

use crate::codec::{
    broken, Header, Put, View, COMPRESSED_MAGIC, FLAG_ASYNC, FLAG_SIGNED, FLUSH, HEADER_BYTES, OPLOCK_BREAK,
    PLAIN_MAGIC, READ, SMB1_MAGIC, TRANSFORM_BYTES, TRANSFORM_MAGIC, WRITE,
};
use crate::crypto::{same, Mac};
use crate::link::{Finished, Link};
use crate::seal::Transform;
use crate::status;
use crate::window::{Kind, Pending};
use naslab_core::{Error, ErrorKind, IoBuf, Result};
use std::time::Duration;

/// A header and the fixed part of a READ answer.
pub(crate) const HEAD_BYTES: usize = HEADER_BYTES + 16;
/// Checked or decrypted at a time, while still in the second-level cache.
const CHUNK_BYTES: usize = 64 * 1024;
/// The id of messages that answer nothing.
const UNASKED: u64 = u64::MAX;

/// The memory a part of a read goes to.
fn memory<'a>(buf: IoBuf, len: usize) -> &'a mut [u8] {
    debug_assert!(len <= buf.len);
    // SAFETY: the contract of `submit`: valid and untouched by others until the operation was reaped, and the
    // request is still outstanding. `len` was checked against the buffer's length.
    unsafe { std::slice::from_raw_parts_mut(buf.ptr, len) }
}

fn frame_bytes(prefix: &[u8], most: usize) -> Result<usize> {
    let len = u32::from_be_bytes([0, prefix[1], prefix[2], prefix[3]]) as usize;
    if prefix[0] != 0 || len < HEADER_BYTES.min(TRANSFORM_BYTES) {
        return Err(broken("an answer does not begin with the length of a message: is this an SMB server?"));
    }
    if len > most {
        return Err(broken(format!("an answer of {len} bytes is longer than the {most} that were negotiated")));
    }
    Ok(len)
}

/// Offset and length of the data in a READ answer of `len` bytes whose first bytes are `head`.
fn read_range(head: &[u8], len: usize, asked: usize) -> Result<(usize, usize)> {
    let view = View(head);
    if view.u16(HEADER_BYTES)? != 17 {
        return Err(broken("the answer to a read has no valid form"));
    }
    let at = usize::from(view.array::<1>(HEADER_BYTES + 2)?[0]);
    let bytes = view.u32(HEADER_BYTES + 4)? as usize;
    if bytes > asked {
        return Err(broken(format!("a read of {asked} bytes was answered with {bytes}")));
    }
    if bytes > 0 && (at < HEAD_BYTES || at + bytes > len) {
        return Err(broken("the data of a read lie outside its answer"));
    }
    Ok((at.max(HEAD_BYTES), bytes))
}

impl Link {
    /// Takes one frame if its beginning is there within `wait`; the rest is waited for. False when there is none.
    pub fn receive(&mut self, wait: Duration) -> Result<bool> {
        if !self.wire.try_fill(4, wait)? {
            return Ok(false);
        }
        self.wire.begin_message();
        let len = frame_bytes(self.wire.buffered(), self.max_frame)?;
        let envelope = if self.seal_all { TRANSFORM_BYTES } else { 0 };
        self.wire.fill(4 + len.min(HEAD_BYTES + envelope))?;
        match View(self.wire.buffered()).array(4)? {
            PLAIN_MAGIC => self.receive_plain(len)?,
            TRANSFORM_MAGIC => self.receive_sealed(len)?,
            COMPRESSED_MAGIC => return Err(broken("the server compresses although compression was not requested")),
            SMB1_MAGIC => return Err(smb1()),
            _ => return Err(broken("an answer is not SMB: is this an SMB server?")),
        }
        Ok(true)
    }

    /// Whether a whole frame lies in the buffer, so that taking it does not wait.
    pub fn has_whole_frame(&self) -> bool {
        let buffered = self.wire.buffered();
        buffered.len() >= 4 && frame_bytes(buffered, self.max_frame).map_or(true, |len| buffered.len() >= 4 + len)
    }

    fn receive_plain(&mut self, len: usize) -> Result<()> {
        let header = Header::parse(&self.wire.buffered()[4..])?;
        if self.seal_all && !may_be_plain(&header) {
            return Err(broken("an answer of an encrypted session is not encrypted"));
        }
        if let Some(pending) = self.plain_read(&header, len) {
            return self.receive_read(len, &header, &pending);
        }
        self.wire.consume(4);
        let mut frame = std::mem::take(&mut self.clear);
        frame.resize(len, 0);
        let taken = self.wire.read_into(&mut frame).and_then(|()| self.take_frame(&frame, false));
        self.clear = frame;
        taken
    }

    /// The read that this answer's payload belongs to, if it is one.
    fn plain_read(&self, header: &Header, len: usize) -> Option<Pending> {
        let good = matches!(header.status, status::SUCCESS | status::BUFFER_OVERFLOW);
        if header.command != READ || !good || header.next != 0 || len < HEAD_BYTES {
            return None;
        }
        self.window.find(header.message_id).filter(|p| p.kind == Kind::Read)
    }

    fn receive_read(&mut self, len: usize, header: &Header, pending: &Pending) -> Result<()> {
        let head: [u8; HEAD_BYTES] = View(self.wire.buffered()).array(4)?;
        let (at, bytes) = read_range(&head, len, pending.buf.len)?;
        self.wire.consume(4 + HEAD_BYTES);
        let into = memory(pending.buf, bytes);
        if pending.signed {
            self.read_signed(&head, header, into, at, len)?;
        } else {
            self.wire.skip(at.min(len) - HEAD_BYTES)?;
            self.wire.read_into(into)?;
            self.wire.skip(len - at.min(len) - bytes)?;
        }
        self.window.grant(header.credits);
        self.window.remove(pending);
        self.finish(pending, status::SUCCESS, bytes as u32);
        Ok(())
    }

    /// Receives and checks a signed READ answer: `into` lies at `at` of its `len` bytes.
    fn read_signed(&mut self, head: &[u8], header: &Header, into: &mut [u8], at: usize, len: usize) -> Result<()> {
        let Link { wire, signer, .. } = self;
        let mut mac = match signer {
            Some(signer) if header.flags & FLAG_SIGNED != 0 => signer.begin(header.message_id, true),
            _ => return Err(unsigned()),
        };
        mac_of_header(&mut mac, head);
        let mut around = [0; 256];
        let before = &mut around[..at.min(len) - HEAD_BYTES];
        wire.read_into(before)?;
        mac.update(before);
        for chunk in into.chunks_mut(CHUNK_BYTES) {
            wire.read_into(chunk)?;
            mac.update(chunk);
        }
        let mut left = len - at.min(len) - into.len();
        while left > 0 {
            let after = &mut around[..left.min(256)];
            wire.read_into(after)?;
            mac.update(after);
            left -= after.len();
        }
        if same(&mac.finish(), &header.signature) {
            Ok(())
        } else {
            Err(forged())
        }
    }

    fn receive_sealed(&mut self, len: usize) -> Result<()> {
        let Some(seal) = self.seal.take() else {
            return Err(broken("an encrypted answer in a session without a key"));
        };
        let outcome = self.open_frame(&seal, len);
        self.seal = Some(seal);
        outcome
    }

    fn open_frame(&mut self, seal: &crate::seal::Seal, len: usize) -> Result<()> {
        if len < TRANSFORM_BYTES + HEADER_BYTES {
            return Err(broken("an encrypted answer is too short"));
        }
        self.wire.fill(4 + len.min(TRANSFORM_BYTES + HEAD_BYTES))?;
        let transform = Transform::parse(&self.wire.buffered()[4..])?;
        let text_bytes = len - TRANSFORM_BYTES;
        if transform.text_bytes as usize != text_bytes || transform.session_id != self.session_id {
            return Err(broken("the envelope of an encrypted answer is wrong"));
        }
        self.wire.consume(4 + TRANSFORM_BYTES);
        let mut run = seal.open(&transform);
        let mut head = [0; HEAD_BYTES];
        let head_bytes = text_bytes.min(HEAD_BYTES);
        self.wire.read_into(&mut head[..head_bytes])?;
        seal.open_piece(&mut run, &mut head[..head_bytes]);
        if let Some((header, pending, bytes)) = self.sealed_read(&head, text_bytes) {
            for chunk in memory(pending.buf, bytes).chunks_mut(CHUNK_BYTES) {
                self.wire.read_into(chunk)?;
                seal.open_piece(&mut run, chunk);
            }
            if !seal.is_genuine(run, &transform) {
                return Err(forged());
            }
            self.window.grant(header.credits);
            self.window.remove(&pending);
            self.finish(&pending, status::SUCCESS, bytes as u32);
            return Ok(());
        }
        let mut frame = std::mem::take(&mut self.clear);
        frame.resize(text_bytes, 0);
        frame[..head_bytes].copy_from_slice(&head[..head_bytes]);
        let taken = self.open_rest(seal, run, &transform, &mut frame, head_bytes);
        self.clear = frame;
        taken
    }

    fn open_rest(
        &mut self,
        seal: &crate::seal::Seal,
        mut run: crate::crypto::Run,
        transform: &Transform,
        frame: &mut [u8],
        done: usize,
    ) -> Result<()> {
        self.wire.read_into(&mut frame[done..])?;
        seal.open_piece(&mut run, &mut frame[done..]);
        if !seal.is_genuine(run, transform) {
            return Err(forged());
        }
        self.take_frame(frame, true)
    }

    /// The read whose payload follows right behind this decrypted head, and its length. Nothing here is trusted yet:
    /// it only says where the bytes are put while the tag is computed.
    fn sealed_read(&self, head: &[u8; HEAD_BYTES], text_bytes: usize) -> Option<(Header, Pending, usize)> {
        if text_bytes < HEAD_BYTES {
            return None;
        }
        let header = Header::parse(head).ok()?;
        let pending = self.plain_read(&header, text_bytes)?;
        let (at, bytes) = read_range(head, text_bytes, pending.buf.len).ok()?;
        (at == HEAD_BYTES && at + bytes == text_bytes).then_some((header, pending, bytes))
    }

    /// Takes a frame that lies whole in memory: one answer or a compound of several.
    pub(crate) fn take_frame(&mut self, frame: &[u8], sealed: bool) -> Result<()> {
        let mut rest = frame;
        loop {
            let header = Header::parse(rest)?;
            let next = header.next as usize;
            if next == 0 {
                return self.take_message(&header, rest, sealed);
            }
            if next < HEADER_BYTES || !next.is_multiple_of(8) || next > rest.len() {
                return Err(broken("the answers of a compound do not follow one another"));
            }
            self.take_message(&header, &rest[..next], sealed)?;
            rest = &rest[next..];
        }
    }

    fn take_message(&mut self, header: &Header, message: &[u8], sealed: bool) -> Result<()> {
        if header.message_id == UNASKED && header.command == OPLOCK_BREAK {
            return self.take_break(message);
        }
        let pending = self.window.find(header.message_id);
        let pending = pending.ok_or_else(|| broken("the server answers a request that was not sent"))?;
        if header.status == status::PENDING && header.flags & FLAG_ASYNC != 0 {
            self.window.grant(header.credits);
            self.events.pending += 1;
            return Ok(());
        }
        if pending.signed && !sealed {
            self.check_signature(header, message)?;
        }
        self.window.grant(header.credits);
        self.window.remove(&pending);
        self.deliver(header, message, &pending, sealed)
    }

    fn check_signature(&self, header: &Header, message: &[u8]) -> Result<()> {
        let signer = self.signer.as_ref().ok_or_else(unsigned)?;
        if header.flags & FLAG_SIGNED == 0 {
            // A server that no longer knows the session has no key to sign with.
            return if may_be_plain(header) { Ok(()) } else { Err(unsigned()) };
        }
        let mut mac = signer.begin(header.message_id, true);
        mac_of_header(&mut mac, message);
        if same(&mac.finish(), &header.signature) {
            Ok(())
        } else {
            Err(forged())
        }
    }

    /// Checks the signature of an answer that came before the key was known; an encrypted one needs none.
    pub(crate) fn check_reply_signature(&self, at: usize) -> Result<()> {
        if self.replies.list[at].sealed {
            return Ok(());
        }
        let (_, message) = self.replies.get(at);
        self.check_signature(&Header::parse(message)?, message)
    }

    fn deliver(&mut self, header: &Header, message: &[u8], pending: &Pending, sealed: bool) -> Result<()> {
        let view = View(message);
        let good = header.status == status::SUCCESS;
        let command = match pending.kind {
            Kind::Read => READ,
            Kind::Write => WRITE,
            Kind::Flush => FLUSH,
            Kind::Ignore => return Ok(()),
            Kind::Call(at) => return self.deliver_call(header, message, usize::from(at), sealed),
        };
        if header.command != command {
            return Err(broken("the answer to an operation is of another kind"));
        }
        let bytes = match pending.kind {
            Kind::Write if good => view.u32(HEADER_BYTES + 4)?,
            Kind::Read if good || header.status == status::BUFFER_OVERFLOW => {
                let (at, bytes) = read_range(message, message.len(), pending.buf.len)?;
                memory(pending.buf, bytes).copy_from_slice(view.piece(at, bytes)?);
                self.finish(pending, status::SUCCESS, bytes as u32);
                return Ok(());
            }
            _ => 0,
        };
        if bytes as usize > pending.buf.len {
            return Err(broken("the server acknowledges more bytes than were written"));
        }
        self.finish(pending, header.status, bytes);
        Ok(())
    }

    fn deliver_call(&mut self, header: &Header, message: &[u8], at: usize, sealed: bool) -> Result<()> {
        let start = self.replies.data.len();
        match self.replies.list.get_mut(at) {
            Some(reply) if !reply.done && reply.command == header.command => {
                reply.done = true;
                reply.status = header.status;
                reply.sealed = sealed;
                reply.range = start..start + message.len();
            }
            _ => return Err(broken("the answer to a call is of another kind")),
        }
        self.answered();
        self.replies.missing -= 1;
        self.replies.data.put(message);
        Ok(())
    }

    #[inline]
    fn finish(&mut self, pending: &Pending, status: u32, bytes: u32) {
        self.answered();
        let Pending { slot, kind, at, .. } = *pending;
        self.finished.push(Finished { slot, kind, at, len: pending.buf.len as u32, status, bytes });
    }

    /// A lease or oplock was broken: nothing is cached here, so it is only acknowledged and counted.
    fn take_break(&mut self, message: &[u8]) -> Result<()> {
        self.count_break()?;
        let view = View(message);
        let mut body = Vec::with_capacity(36);
        match view.u16(HEADER_BYTES)? {
            44 => {
                self.events.lease_break += 1;
                if view.u32(HEADER_BYTES + 4)? & 1 == 0 {
                    return Ok(());
                }
                body.u16(36);
                body.zeros(6);
                body.put(view.bytes(HEADER_BYTES + 8, 16)?);
                body.u32(view.u32(HEADER_BYTES + 28)?);
                body.u64(0);
            }
            24 => {
                self.events.oplock_break += 1;
                body.u16(24);
                body.put(view.bytes(HEADER_BYTES + 2, 1)?);
                body.zeros(5);
                body.put(view.bytes(HEADER_BYTES + 8, 16)?);
            }
            _ => return Err(broken("a lease break has no valid form")),
        }
        self.owe(body);
        Ok(())
    }
}

fn mac_of_header(mac: &mut Mac, message: &[u8]) {
    mac.update(&message[..48]);
    mac.update(&[0; 16]);
    mac.update(&message[HEADER_BYTES..]);
}

/// Whether an answer may come without signature and encryption: breaks, and word that the session is gone.
fn may_be_plain(header: &Header) -> bool {
    header.message_id == UNASKED
        || matches!(header.status, status::USER_SESSION_DELETED | status::NETWORK_SESSION_EXPIRED)
}

#[cold]
fn unsigned() -> Error {
    broken("an answer is not signed although the session is: a third party may be in between")
}

#[cold]
fn forged() -> Error {
    broken("the signature of an answer is wrong: it was changed on its way, or the keys differ")
}

/// The error of a server that answers in SMB1.
pub(crate) fn smb1() -> Error {
    let message = "this server speaks only SMB1, which is obsolete and unsafe: enable SMB2 or later on the server";
    Error::new(ErrorKind::Unsupported, "connect", message)
}
