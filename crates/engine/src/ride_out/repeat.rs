//! Calls about names that are made again after an outage: the server may have carried them out before it went away.
//!
//! Where a protocol can tell, its session does ([`Session::repeat`]), and the answer is that of the first time. Where it
//! cannot, "exists" and "not there" are what a repeated call gets that was carried out before. They count as its success
//! only as far as the target shows what the call would have left there; how often is part of the outage.

use super::{is_away, LastingSession};
use crate::result::Outage;
use naslab_core::{Create, Error, ErrorKind, FileId, OpenOptions, Result, Session};
use std::sync::PoisonError;

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
    /// Waits the outage out that a call met, which is made again next.
    pub(super) fn ride_to_repeat(&mut self, error: Error) -> Result<()> {
        self.ride(error)?;
        self.note(|outage| outage.repeated_calls += 1);
        self.inner()?.repeat();
        Ok(())
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
        match change.carry_out(self.inner()?) {
            Err(error) if is_away(error.kind) => self.ride_to_repeat(error)?,
            outcome => return outcome,
        }
        match change.carry_out(self.inner()?) {
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
        match self.inner()?.open(path, options) {
            Err(error) if is_away(error.kind) => self.ride_to_repeat(error)?,
            outcome => return outcome,
        }
        let session = self.inner()?;
        match session.open(path, options) {
            Err(error) if error.kind == ErrorKind::Exists && is_empty_file(session, path) => {
                let options = OpenOptions { create: Create::Never, truncate: false, ..options.clone() };
                let opened = session.open(path, &options);
                self.note_done_before();
                opened
            }
            outcome => outcome,
        }
    }
}

fn is_empty_file(session: &mut dyn Session, path: &str) -> bool {
    session.stat(path).is_ok_and(|found| !found.is_dir && found.len_bytes == 0)
}

#[cfg(test)]
mod tests;
