//! Calls about names that are made again after an outage: the server may have carried them out before it went away.
//!
//! Where a protocol can tell, its session does ([`Session::repeat`]), and the answer is that of the first time. Where it
//! cannot, "exists" and "not there" are what a repeated call gets that was carried out before. They count as its success
//! only as far as the target shows what the call would have left there; how often is part of the outage.

use super::{is_away, LastingSession};
use crate::result::Outage;
use naslab_core::{Create, Error, ErrorKind, FileId, OpenOptions, Result, Session};
use std::sync::PoisonError;

/// The event of an answer that a server kept and gave again.
const REPLAYED: &str = "answer_replayed";

/// A call that changes names.
#[derive(Clone, Copy)]
pub(super) enum Change<'a> {
    Mkdir(&'a str),
    Rmdir(&'a str),
    Remove(&'a str),
    Discard(&'a str, Option<&'a str>),
    Rename(&'a str, &'a str),
}

impl Change<'_> {
    fn carry_out(self, session: &mut dyn Session) -> Result<()> {
        match self {
            Change::Mkdir(path) => session.mkdir(path),
            Change::Rmdir(path) => session.rmdir(path),
            Change::Remove(path) => session.remove(path),
            Change::Discard(path, mark) => session.discard(path, mark),
            Change::Rename(from, to) => session.rename(from, to),
        }
    }

    /// Whether a repeated call failed because it had been carried out.
    fn was_done(self, error: &Error, session: &mut dyn Session) -> bool {
        match (self, error.kind) {
            (Change::Mkdir(path), ErrorKind::Exists) => session.stat(path).is_ok_and(|found| found.is_dir),
            (Change::Rmdir(_) | Change::Remove(_) | Change::Discard(..), ErrorKind::NotFound) => true,
            (Change::Rename(_, to), ErrorKind::NotFound) => session.stat(to).is_ok(),
            _ => false,
        }
    }
}

impl LastingSession {
    /// Waits the outage out that a call met, and makes the call again.
    pub(super) fn ride_and_repeat<T>(
        &mut self,
        error: Error,
        call: impl FnOnce(&mut LastingSession) -> Result<T>,
    ) -> Result<T> {
        self.ride(error)?;
        let session = self.inner()?;
        session.repeat();
        let before = replayed(session);
        let outcome = call(self);
        let answers = self.inner().map_or(0, |session| replayed(session).saturating_sub(before));
        self.note(|outage| {
            outage.repeated_calls += 1;
            outage.answers_replayed += answers;
        });
        outcome
    }

    fn note(&self, change: impl FnOnce(&mut Outage)) {
        let mut outages = self.outages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(outage) = outages.get_mut(self.outage) {
            change(outage);
        }
    }

    fn note_done_before(&self) {
        self.note(|outage| outage.calls_done_before += 1);
    }

    /// Changes a name; once more after an outage.
    pub(super) fn change(&mut self, change: Change<'_>) -> Result<()> {
        let error = match change.carry_out(self.inner()?) {
            Err(error) if is_away(error.kind) => error,
            outcome => return outcome,
        };
        match self.ride_and_repeat(error, |s| change.carry_out(s.inner()?)) {
            Err(error) if change.was_done(&error, self.inner()?) => {
                self.note_done_before();
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// Opens a file that is not to exist yet; once more after an outage. An empty file is then the one that was made:
    /// whoever made it, nothing is lost by writing to it.
    pub(super) fn open_new(&mut self, path: &str, options: &OpenOptions) -> Result<FileId> {
        let error = match self.inner()?.open(path, options) {
            Err(error) if is_away(error.kind) => error,
            outcome => return outcome,
        };
        match self.ride_and_repeat(error, |s| s.inner()?.open(path, options)) {
            Err(error) if error.kind == ErrorKind::Exists && is_empty_file(self.inner()?, path) => {
                let options = OpenOptions { create: Create::Never, truncate: false, ..options.clone() };
                let opened = self.inner()?.open(path, &options);
                self.note_done_before();
                opened
            }
            outcome => outcome,
        }
    }
}

/// Answers that a session was given again.
fn replayed(session: &dyn Session) -> u64 {
    session.events().iter().find(|(name, _)| *name == REPLAYED).map_or(0, |(_, count)| *count)
}

fn is_empty_file(session: &mut dyn Session, path: &str) -> bool {
    session.stat(path).is_ok_and(|found| !found.is_dir && found.len_bytes == 0)
}

#[cfg(test)]
mod tests;
