//! OPEN and CLOSE.

use super::attributes::{put_new, skip_mask, NewAttributes};
use super::compound::{Compound, Results};
use super::{op, FILE_MODE, V4};
use crate::dialect::{At, Opened};
use crate::files::{OpenFile, StateId};
use crate::status;
use crate::transport::Transport;
use crate::xdr::{Bad, Decoded, Decoder, Handle, Put};
use naslab_core::{Create, OpenOptions, Result};

const ACCESS_READ: u32 = 1;
const ACCESS_WRITE: u32 = 2;
/// 4.1: please no delegation.
const WANT_NO_DELEGATION: u32 = 0x400;
const NOCREATE: u32 = 0;
const CREATE: u32 = 1;
const UNCHECKED: u32 = 0;
const GUARDED: u32 = 1;
const CLAIM_NULL: u32 = 0;
const CLAIM_PREVIOUS: u32 = 1;
/// The server wants the open confirmed (4.0).
const MUST_CONFIRM: u32 = 2;
/// change_info4.
const CHANGE_BYTES: usize = 20;
/// Longest name in an access control entry.
const MOST_WHO_BYTES: usize = 4096;

/// Which file an OPEN asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Want<'a> {
    /// One of a folder.
    Name(&'a str),
    /// One that this client had open when the server restarted.
    Previous,
}

impl<'a> Want<'a> {
    fn name(self) -> &'a [u8] {
        match self {
            Want::Name(name) => name.as_bytes(),
            Want::Previous => &[],
        }
    }
}

/// OPEN4resok.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OpenReply {
    state: StateId,
    confirm: bool,
    delegation: Option<StateId>,
}

/// Statuses after which the server has not counted the call of an open-owner (RFC 7530, section 9.1.7).
fn counts(found: u32) -> bool {
    const UNCOUNTED: [u32; 8] = [10018, 10019, 10020, 10022, 10023, 10025, 10026, 10036];
    !UNCOUNTED.contains(&found)
}

impl V4 {
    /// Number of the owner's next call; zero where sessions count instead.
    pub(super) fn owner_sequence(&mut self, number: u32) -> u32 {
        if self.minor > 0 {
            return 0;
        }
        let at = number as usize;
        if self.sequence.len() <= at {
            self.sequence.resize(at + 1, 0);
        }
        self.sequence[at]
    }

    /// Counts an owner's call that was result number `place` of a compound, if the server did.
    fn count_owner(&mut self, number: u32, results: &Results, place: u32) {
        let reached = results.count >= place;
        let failed_there = results.count == place;
        if self.minor == 0 && reached && (!failed_there || counts(results.status)) {
            let next = &mut self.sequence[number as usize];
            *next = next.wrapping_add(1);
        }
    }

    /// Carries out a compound whose operation number `place` is counted by an open-owner, waiting visibly while the
    /// server says DELAY or GRACE.
    fn run_owned(
        &mut self,
        t: &mut Transport,
        number: u32,
        place: u32,
        build: &dyn Fn(u32) -> Compound,
    ) -> Result<Results> {
        let mut since = None;
        loop {
            let compound = build(self.owner_sequence(number));
            let results = self.run_once(t, &compound, None)?;
            self.count_owner(number, &results, place);
            if !t.come_back(results.status, &mut since) {
                return Ok(results);
            }
        }
    }

    pub(super) fn open_file(
        &mut self,
        t: &mut Transport,
        at: At<'_>,
        options: &OpenOptions,
        number: u32,
    ) -> Result<Opened> {
        let results = self.ask_to_open(t, at.folder, Want::Name(at.name), options, number)?;
        let opened = self.take_opened(t, results, None, number)?;
        if options.truncate && options.create == Create::Never {
            self.truncate(t, &opened, number)?;
        }
        Ok(opened)
    }

    /// Asks for a file in the folder `at`, or for the file `at` itself.
    pub(super) fn ask_to_open(
        &mut self,
        t: &mut Transport,
        at: &Handle,
        want: Want<'_>,
        options: &OpenOptions,
        number: u32,
    ) -> Result<Results> {
        let (owner, minor) = ((self.client_id, self.owner(number)), self.minor);
        let how = [options.create as u8, options.truncate.into(), options.read.into(), options.write.into()];
        let build = |sequence| {
            let mut c = Compound::changing("open", at, &[want.name(), &how]);
            put_open(c.op(op::OPEN), want, options, &owner, minor, sequence);
            if want != Want::Previous {
                c.op(op::GETFH);
            }
            c
        };
        self.run_owned(t, number, 2, &build)
    }

    /// Takes the answer. handle: of a file that was asked for itself.
    pub(super) fn take_opened(
        &mut self,
        t: &mut Transport,
        mut results: Results,
        handle: Option<Handle>,
        number: u32,
    ) -> Result<Opened> {
        results.placed()?;
        let reply = results.take(op::OPEN, take_open)?;
        let handle = match handle {
            Some(handle) => handle,
            None => results.take(op::GETFH, |d| Handle::take(d, Handle::MOST))?,
        };
        let mut opened = Opened { handle, state: reply.state };
        if reply.confirm && self.minor == 0 {
            opened.state = self.confirm(t, &opened, number)?;
        }
        if self.minor > 0 {
            // Number zero: the state as it is when the server looks at it.
            opened.state[..4].fill(0);
        }
        if let Some(delegation) = reply.delegation {
            self.give_back(t, &handle, &delegation)?;
        }
        Ok(opened)
    }

    fn truncate(&mut self, t: &mut Transport, opened: &Opened, number: u32) -> Result<()> {
        let mut c = Compound::at("open", &opened.handle);
        let out = c.op(op::SETATTR);
        out.put_raw(&opened.state);
        put_new(out, NewAttributes { size: Some(0), ..NewAttributes::default() });
        let outcome = self.run(t, &c)?.ok();
        if outcome.is_err() {
            // The open failed as a whole; its state must not stay behind.
            drop(self.close_state(t, &opened.handle, &opened.state, number));
        }
        outcome
    }

    fn confirm(&mut self, t: &mut Transport, opened: &Opened, number: u32) -> Result<StateId> {
        let build = |sequence: u32| {
            let mut c = Compound::at("open", &opened.handle);
            let out = c.op(op::OPEN_CONFIRM);
            out.put_raw(&opened.state);
            out.put_u32(sequence);
            c
        };
        let mut results = self.run_owned(t, number, 2, &build)?;
        results.placed()?;
        results.take(op::OPEN_CONFIRM, |d| d.fixed())
    }

    /// Delegations are not asked for; one that comes anyway could not be recalled.
    fn give_back(&mut self, t: &mut Transport, handle: &Handle, state: &StateId) -> Result<()> {
        let mut c = Compound::at("open", handle);
        c.op(op::DELEGRETURN).put_raw(state);
        t.events.delegation_returned += 1;
        self.run(t, &c)?.ok()
    }

    pub(super) fn close_file(&mut self, t: &mut Transport, file: &OpenFile, number: u32) -> Result<()> {
        self.close_state(t, &file.handle, &file.state, number)
    }

    fn close_state(&mut self, t: &mut Transport, handle: &Handle, state: &StateId, number: u32) -> Result<()> {
        let build = |sequence: u32| {
            let mut c = Compound::at("close", handle);
            let out = c.op(op::CLOSE);
            out.put_u32(sequence);
            out.put_raw(state);
            c
        };
        let results = self.run_owned(t, number, 2, &build)?;
        match results.status {
            // The file is gone, and its state with it.
            status::STALE | status::FHEXPIRED => Ok(()),
            _ => results.ok(),
        }
    }
}

fn put_open(
    out: &mut Vec<u8>,
    want: Want<'_>,
    options: &OpenOptions,
    owner: &(u64, Vec<u8>),
    minor: u32,
    sequence: u32,
) {
    out.put_u32(sequence);
    let mut access = 0;
    if options.read || !options.write {
        access |= ACCESS_READ;
    }
    if options.write {
        access |= ACCESS_WRITE;
    }
    if minor > 0 {
        access |= WANT_NO_DELEGATION;
    }
    out.put_u32(access);
    out.put_u32(0);
    out.put_u64(owner.0);
    out.put_opaque(&owner.1);
    let Want::Name(name) = want else {
        out.put_u32(NOCREATE);
        out.put_u32(CLAIM_PREVIOUS);
        // There was no delegation.
        out.put_u32(0);
        return;
    };
    let size = options.truncate.then_some(0);
    match options.create {
        Create::Never => out.put_u32(NOCREATE),
        Create::IfMissing => {
            out.put_u32(CREATE);
            out.put_u32(UNCHECKED);
            put_new(out, NewAttributes { mode: Some(FILE_MODE), size, ..NewAttributes::default() });
        }
        Create::New => {
            out.put_u32(CREATE);
            out.put_u32(GUARDED);
            put_new(out, NewAttributes { mode: Some(FILE_MODE), ..NewAttributes::default() });
        }
    }
    out.put_u32(CLAIM_NULL);
    out.put_opaque(name.as_bytes());
}

pub(super) fn take_open(d: &mut Decoder<'_>) -> Decoded<OpenReply> {
    let state = d.fixed()?;
    d.skip(CHANGE_BYTES)?;
    let flags = d.u32()?;
    skip_mask(d)?;
    let delegation = take_delegation(d)?;
    Ok(OpenReply { state, confirm: flags & MUST_CONFIRM != 0, delegation })
}

/// open_delegation4.
fn take_delegation(d: &mut Decoder<'_>) -> Decoded<Option<StateId>> {
    let kind = d.u32()?;
    match kind {
        0 => return Ok(None),
        1 | 2 => {}
        3 => {
            // NONE_EXT: contention and resource say whether the server will offer one later.
            if matches!(d.u32()?, 1 | 2) {
                d.bool()?;
            }
            return Ok(None);
        }
        _ => return Err(Bad::Wrong("unknown kind of delegation")),
    }
    let state = d.fixed()?;
    d.bool()?;
    if kind == 2 {
        d.skip(4 + 8)?;
    }
    d.skip(12)?;
    d.opaque(MOST_WHO_BYTES)?;
    Ok(Some(state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_with_and_without_delegation() {
        let mut out = vec![7; 16];
        out.extend([0; 20]);
        out.put_u32(MUST_CONFIRM | 4);
        out.extend([0, 0, 0, 1, 0, 0, 0, 16]);
        let plain = |tail: &[u8]| take_open(&mut Decoder::new(&[&out, tail].concat()));
        let none = OpenReply { state: [7; 16], confirm: true, delegation: None };
        assert_eq!(plain(&[0, 0, 0, 0]).unwrap(), none);
        assert_eq!(plain(&[0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 1]).unwrap(), none);
        assert_eq!(plain(&[0, 0, 0, 3, 0, 0, 0, 0]).unwrap(), none);
        assert!(plain(&[0, 0, 0, 4]).is_err());
        let mut read = vec![0, 0, 0, 1];
        read.extend([9; 16]);
        read.extend([0; 4 + 12]);
        read.put_opaque(b"EVERYONE@");
        assert_eq!(plain(&read).unwrap().delegation, Some([9; 16]));
        for cut in 0..read.len() {
            assert!(plain(&read[..cut]).is_err());
        }
        let mut write = vec![0, 0, 0, 2];
        write.extend([9; 16]);
        write.extend([0; 4 + 12 + 12]);
        write.put_opaque(b"");
        assert_eq!(plain(&write).unwrap().delegation, Some([9; 16]));
    }

    #[test]
    fn which_failures_an_owner_counts() {
        assert!(counts(status::OK) && counts(status::DELAY) && counts(17));
        assert!(!counts(10026) && !counts(10018));
    }
}
