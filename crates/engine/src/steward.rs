//! The run's own session: it makes the folder before the cells and cleans up after them.
//!
//! Its calls block without a limit of their own, and a server may never answer. On a real clock each job
//! is therefore done on a thread of its own, which is left behind if it takes too long.

use crate::drive::Patience;
use crate::files::protect_foreign;
use crate::run::Events;
use crate::spec::RunSpec;
use crate::threads::guarded;
use crate::workspace::{make, remove_if_there, remove_made};
use naslab_core::{Clock, Error, ErrorKind, Result, Session, Target};
use std::collections::BTreeSet;
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::sync::Arc;
use std::time::Duration;

/// How often signals are looked at.
const SLICE: Duration = Duration::from_millis(20);

/// The session with what it must know.
pub(crate) struct Steward {
    spec: Arc<RunSpec>,
    target: Arc<dyn Target>,
    session: Box<dyn Session>,
    /// Files that are never removed.
    protected: BTreeSet<String>,
}

impl Steward {
    /// Connects, refuses to run over files of others, and makes the run's folder.
    pub fn prepare(
        spec: &RunSpec,
        target: &Arc<dyn Target>,
        owner_mark: &str,
        events: &mut dyn Events,
    ) -> Result<Steward> {
        let (spec, target, owner) = (Arc::new(spec.clone()), target.clone(), owner_mark.to_string());
        let (timeout_ns, clock) = (spec.timeout_ns, target.clock());
        let work = move || {
            let mut session = target.connect(0)?;
            let protected = protect_foreign(&spec, &mut *session, &target.clock())?;
            if let Some(folder) = &spec.folder {
                make(&mut *session, &target.clock(), folder, &owner)?;
            }
            Ok(Steward { spec, target, session, protected })
        };
        bounded(&clock, Patience::new(timeout_ns), events, "preparing the run", work)?
    }

    /// Removes what the run made; returns what is left, and why. `hangs`: the target was seen to hang, so
    /// it gets no more than the run's timeout.
    pub fn clean_up(mut self, hangs: bool, events: &mut dyn Events) -> Vec<String> {
        let (spec, clock) = (self.spec.clone(), self.target.clock());
        let mut patience = Patience::new(spec.timeout_ns);
        if hangs {
            patience.hurry();
        }
        let work = move || self.clean();
        bounded(&clock, patience, events, "cleaning up", work).unwrap_or_else(|error| everything(&spec, &error))
    }

    fn clean(&mut self) -> Vec<String> {
        let (left, lost) = self.try_clean();
        if !lost {
            return left;
        }
        // The connection may have died long ago while the workers' lived; the server may be back.
        match self.target.connect(0) {
            Ok(session) => {
                self.session = session;
                self.try_clean().0
            }
            Err(error) => everything(&self.spec, &error),
        }
    }

    /// What is left, and whether the connection is gone.
    fn try_clean(&mut self) -> (Vec<String>, bool) {
        let mut left = Vec::new();
        let mut lost = false;
        let mut note = |error: Error, left: &mut Vec<String>| {
            lost |= error.kind.loses_session();
            left.push(error.to_string());
        };
        for name in &self.spec.cleanup_files {
            let path = self.spec.path(name);
            if !self.protected.contains(&path) {
                remove_if_there(&mut *self.session, &path).unwrap_or_else(|e| note(e, &mut left));
            }
        }
        if let Some(folder) = &self.spec.folder {
            match remove_made(&mut *self.session, folder) {
                Ok(foreign) => left.extend(foreign),
                Err(error) => note(error.with("folder", folder), &mut left),
            }
        }
        (left, lost)
    }
}

/// Everything that clean-up would have removed, when it could not be done.
fn everything(spec: &RunSpec, error: &Error) -> Vec<String> {
    let paths: Vec<String> = match &spec.folder {
        Some(folder) => vec![folder.clone()],
        None => spec.cleanup_files.clone(),
    };
    paths.iter().map(|path| format!("{path}: {error}")).collect()
}

/// Carries `work` out, with an end to its time on a real clock.
fn bounded<T: Send + 'static>(
    clock: &Clock,
    mut patience: Patience,
    events: &mut dyn Events,
    what: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    if clock.is_virtual() {
        return guarded(work);
    }
    let (report, answer) = channel();
    let thread = std::thread::Builder::new().name("steward".to_string());
    thread.spawn(move || drop(report.send(guarded(work)))).map_err(|e| Error::from_io("run", e))?;
    loop {
        match answer.recv_timeout(SLICE) {
            Ok(outcome) => return outcome,
            Err(RecvTimeoutError::Timeout) => patience.check(what, events)?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::new(ErrorKind::Io, "run", format!("{what} ended without a result")));
            }
        }
    }
}
