//! One compound: a row of operations in one call, carried out until one fails.

use super::op;
use super::V4;
use crate::data::{put_sequence, PROC_COMPOUND};
use crate::replies::{compound4, result4, sequence4};
use crate::status;
use crate::transport::{Reply, Transport};
use crate::xdr::{Bad, Decoded, Decoder, Handle, Put};
use naslab_core::{Error, Result};
use std::time::Duration;

/// Operations to carry out.
pub(super) struct Compound {
    pub(super) operation: &'static str,
    pub(super) arguments: Vec<u8>,
    pub(super) count: u32,
    /// Of one that may not be carried out twice: what it changes, by which it is known when it is repeated.
    pub(super) changes: Option<Vec<u8>>,
}

impl Compound {
    /// Without operations, for a call of this name.
    pub fn new(operation: &'static str) -> Compound {
        Compound { operation, arguments: Vec::with_capacity(256), count: 0, changes: None }
    }

    /// As `at`, for a call about `names` that would not do the same if it were carried out twice.
    pub fn changing(operation: &'static str, handle: &Handle, names: &[&[u8]]) -> Compound {
        let mut changes = Vec::new();
        [handle.as_slice()].iter().chain(names).for_each(|part| changes.put_opaque(part));
        Compound { changes: Some(changes), ..Compound::at(operation, handle) }
    }

    /// Beginning at a file or folder.
    pub fn at(operation: &'static str, handle: &Handle) -> Compound {
        let mut compound = Compound::new(operation);
        compound.place(handle);
        compound
    }

    /// Goes to a file or folder.
    pub fn place(&mut self, handle: &Handle) {
        self.op(op::PUTFH).put_opaque(handle.as_slice());
    }

    /// Adds an operation, whose arguments the caller appends.
    pub fn op(&mut self, code: u32) -> &mut Vec<u8> {
        self.count += 1;
        self.arguments.put_u32(code);
        &mut self.arguments
    }
}

/// Results of a compound, taken one after the other.
pub(super) struct Results {
    pub status: u32,
    operation: &'static str,
    reply: Reply,
    at: usize,
    left: u32,
    /// Results that came, without SEQUENCE's.
    pub count: u32,
}

impl Results {
    /// Of a reply that was read up to `at`, with so many results left.
    pub fn new(operation: &'static str, status: u32, reply: Reply, at: usize, left: u32) -> Results {
        Results { status, operation, reply, at, left, count: left }
    }

    /// Takes the next result, which must be that of `code`; the operation's status if it failed.
    pub fn take<T>(&mut self, code: u32, take: impl FnOnce(&mut Decoder<'_>) -> Decoded<T>) -> Result<T> {
        if self.left == 0 && self.status != status::OK {
            return Err(self.failure());
        }
        let bad = |bad: Bad| bad.error(self.operation);
        let mut d = self.reply.decoder();
        d.skip(self.at).map_err(bad)?;
        match result4(&mut d, code, &mut self.left).map_err(bad)? {
            status::OK => {}
            failed => return Err(status::error(self.operation, true, failed)),
        }
        let value = take(&mut d).map_err(bad)?;
        self.at = d.position();
        Ok(value)
    }

    /// Takes PUTFH's result.
    pub fn placed(&mut self) -> Result<()> {
        self.take(op::PUTFH, |_| Ok(()))
    }

    /// Whether all operations succeeded.
    pub fn ok(&self) -> Result<()> {
        match self.status {
            status::OK => Ok(()),
            _ => Err(self.failure()),
        }
    }

    /// The error of the operation that failed.
    pub fn failure(&self) -> Error {
        status::error(self.operation, true, self.status)
    }
}

impl V4 {
    /// Carries a compound out, in the session where there is one. Waits visibly while the server says DELAY or
    /// GRACE. Only for compounds in which nothing but the last operations change something.
    pub(super) fn run(&mut self, t: &mut Transport, compound: &Compound) -> Result<Results> {
        let mut since = None;
        loop {
            let results = self.run_once(t, compound, None)?;
            if !t.come_back(results.status, &mut since) {
                return Ok(results);
            }
        }
    }

    /// As `run`, without waiting and over a certain connection.
    pub(super) fn run_once(&mut self, t: &mut Transport, compound: &Compound, on: Option<usize>) -> Result<Results> {
        if self.minor == 0 {
            return self.run_bare(t, compound, on);
        }
        if let Some(results) = self.answer_of_before(t, compound)? {
            return Ok(results);
        }
        loop {
            let (results, slot) = self.run_in_slot(t, compound, on)?;
            // Not carried out: the server takes it for the repetition of an earlier call, of which it said nothing.
            if !(status::is_repetition(results.status) && results.count == 0 && t.slots.skip(slot)) {
                return Ok(results);
            }
            t.events.slot_repaired += 1;
        }
    }

    fn run_in_slot(&mut self, t: &mut Transport, compound: &Compound, on: Option<usize>) -> Result<(Results, u32)> {
        t.alive()?;
        let outcome = wait_for_slot(t);
        let (slot, number) = t.guard(outcome)?;
        let session = t.slots.session;
        let sequence = (slot, number, t.slots.highest_used());
        let keep = compound.changes.is_some() && self.sessions.is_some();
        let sent = t.call(compound.operation, on, PROC_COMPOUND, |out| {
            put_head(out, self.minor, compound.count + 1);
            put_sequence(out, &session, sequence, keep);
            out.put_raw(&compound.arguments);
        });
        let reply = match sent {
            Ok(reply) => reply,
            Err(e) => {
                // Refused, most likely before the session saw it: the number counts as not used.
                t.slots.give_back(slot, false);
                if keep && t.is_broken() {
                    self.note_unanswered(compound, session, sequence);
                }
                return Err(e);
            }
        };
        let (status, mut left, at, sequence) = {
            let mut d = reply.decoder();
            take_head(&mut d, true).map_err(|bad| bad.error(compound.operation))?
        };
        t.slots.give_back(slot, sequence.is_some());
        if let Some(sequence) = sequence {
            let checked = t.sequenced(slot, &sequence);
            t.guard(checked)?;
        } else {
            left = 0;
        }
        Ok((Results::new(compound.operation, status, reply, at, left), slot))
    }

    /// Outside of any session.
    pub(super) fn run_bare(&mut self, t: &mut Transport, compound: &Compound, on: Option<usize>) -> Result<Results> {
        let reply = t.call(compound.operation, on, PROC_COMPOUND, |out| {
            put_head(out, self.minor, compound.count);
            out.put_raw(&compound.arguments);
        })?;
        let (status, left, at, _) = {
            let mut d = reply.decoder();
            take_head(&mut d, false).map_err(|bad| bad.error(compound.operation))?
        };
        Ok(Results::new(compound.operation, status, reply, at, left))
    }
}

/// Replies of operations in flight free their slots.
fn wait_for_slot(t: &mut Transport) -> Result<(u32, u32)> {
    loop {
        if let Some(taken) = t.slots.take() {
            return Ok(taken);
        }
        t.events.slot_wait += 1;
        t.pump()?;
        t.wait_once(Duration::from_millis(50))?;
    }
}

pub(super) fn put_head(out: &mut Vec<u8>, minor: u32, count: u32) {
    out.put_u32(0);
    out.put_u32(minor);
    out.put_u32(count);
}

/// Status, results left, where they begin, and what SEQUENCE said if it succeeded.
pub(super) type Head = (u32, u32, usize, Option<crate::replies::Sequenced>);

pub(super) fn take_head(d: &mut Decoder<'_>, in_session: bool) -> Decoded<Head> {
    let (status, mut left) = compound4(d)?;
    let mut sequence = None;
    if in_session && !(status != status::OK && left == 0) && result4(d, op::SEQUENCE, &mut left)? == status::OK {
        sequence = Some(sequence4(d)?);
    }
    Ok((status, left, d.position(), sequence))
}
