//! The run's own session: it makes the folder before the cells and cleans up after them.
//!
//! Its calls block without a limit of their own, and a server may never answer. On a real clock each job
//! is therefore done on a thread of its own, which is left behind if it takes too long.

use crate::drive::Patience;
use crate::files::{find_foreign, refuse_foreign};
use crate::result::Left;
use crate::run::Events;
use crate::spec::{CellSpec, Existing, RunSpec};
use crate::threads::guarded;
use crate::workspace::{make, remove_if_there, remove_made};
use naslab_core::{limit, Clock, Error, ErrorKind, Result, Session, Target};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::sync::Arc;
use std::time::Duration;

/// Longest call of a clean-up on a server that did not answer before.
const LAST_CALL: Duration = Duration::from_secs(1);
/// How often signals are looked at.
const SLICE: Duration = Duration::from_millis(20);

/// The session with what it must know.
pub(crate) struct Steward {
    spec: Arc<RunSpec>,
    target: Arc<dyn Target>,
    /// None after a call on it failed: whoever needs one next connects anew.
    session: Option<Box<dyn Session>>,
    /// Paths named by cells without a folder, and whether another hand wrote what was there before the run.
    foreign: BTreeMap<String, bool>,
}

impl Steward {
    /// Connects, refuses cells that would run over files of others, and makes the run's folder.
    pub fn prepare(
        spec: &Arc<RunSpec>,
        cells: &[CellSpec],
        target: &Arc<dyn Target>,
        owner_mark: &str,
        events: &mut dyn Events,
    ) -> Result<Steward> {
        let (spec, target, owner) = (spec.clone(), target.clone(), owner_mark.to_string());
        let (timeout_ns, clock) = (spec.timeout_ns, target.clock());
        let cells = cells.to_vec();
        let work = move || {
            let mut session = target.connect(0)?;
            let names = named(&spec, &cells, &BTreeMap::new());
            let foreign = find_foreign(&mut *session, &target.clock(), &names)?;
            refuse_foreign(spec.existing, &cells, &foreign)?;
            if let Some(folder) = spec.folder.as_ref().filter(|_| !spec.join_folder) {
                make(&mut *session, &target.clock(), folder, &owner)?;
            }
            Ok(Steward { spec, target, session: Some(session), foreign })
        };
        bounded(&clock, Patience::new(timeout_ns), events, "preparing the run", Wait::Calls(timeout_ns), work)?
    }

    /// Refuses cells of a later stage that would run over files of others.
    pub fn admit(&mut self, cells: &[CellSpec], events: &mut dyn Events) -> Result<()> {
        let names = named(&self.spec, cells, &self.foreign);
        if !names.is_empty() {
            let (target, session, clock) = (self.target.clone(), self.session.take(), self.target.clock());
            let work = move || look(&*target, session, &names);
            let patience = Patience::new(self.spec.timeout_ns);
            let wait = Wait::Calls(self.spec.timeout_ns);
            let (session, found) = bounded(&clock, patience, events, "looking at the files", wait, work)??;
            self.session = Some(session);
            self.foreign.extend(found);
        }
        refuse_foreign(self.spec.existing, cells, &self.foreign)
    }

    /// Removes what the run made; returns what is left, and why. `hurry`: nobody wants to wait, so it gets no more than
    /// the run's timeout; `silent`: the target was seen to hang, and gets a second for each call;
    /// `unwanted`: the user ended the run, and a silent target gets a second for all of it.
    pub fn clean_up(mut self, hurry: bool, silent: bool, unwanted: bool, events: &mut dyn Events) -> Vec<Left> {
        let (spec, clock) = (self.spec.clone(), self.target.clock());
        let mut patience = Patience::new(spec.timeout_ns);
        if hurry {
            patience.hurry();
        }
        let wait = if silent { Wait::LastCalls } else { Wait::ToTheEnd };
        let unwanted = unwanted && !clock.is_virtual();
        let work = move || if unwanted { self.clean_unless_silent() } else { self.clean() };
        bounded(&clock, patience, events, "cleaning up", wait, work).unwrap_or_else(|error| everything(&spec, &error))
    }

    /// The same for somebody who pressed Ctrl-C: a server that says nothing is left as it is, within [`LAST_CALL`].
    fn clean_unless_silent(&mut self) -> Vec<Left> {
        let half = LAST_CALL / 2;
        let folder = self.spec.folder.clone().unwrap_or_default();
        let answers = |session: &mut Box<dyn Session>| {
            let asked = limit::capped(half, || session.stat(&folder));
            asked.err().is_none_or(|error| !error.kind.loses_session())
        };
        if self.session.as_mut().is_some_and(answers) {
            return self.clean();
        }
        let _scope = limit::within(half);
        self.clean()
    }

    fn clean(&mut self) -> Vec<Left> {
        if let Some(mut session) = self.session.take() {
            let (left, lost) = self.try_clean(&mut *session);
            if !lost {
                return left;
            }
        }
        // The connection may have died long ago while the workers' lived; the server may be back.
        match self.target.connect(0) {
            Ok(mut session) => self.try_clean(&mut *session).0,
            Err(error) => everything(&self.spec, &error),
        }
    }

    /// What is left, and whether the connection is gone.
    fn try_clean(&self, session: &mut dyn Session) -> (Vec<Left>, bool) {
        let mut left = Vec::new();
        let mut lost = false;
        let mut note = |error: Error, left: &mut Vec<Left>| {
            lost |= error.kind.loses_session();
            left.push(Left::failed(&error));
        };
        for name in &self.spec.cleanup_files {
            let path = self.spec.path(name);
            let protected = self.spec.existing != Existing::Overwrite && self.foreign.get(&path) == Some(&true);
            if !protected {
                remove_if_there(session, &path, true).unwrap_or_else(|e| note(e, &mut left));
            }
        }
        if let Some(folder) = self.spec.folder.as_ref().filter(|_| !self.spec.join_folder) {
            match remove_made(session, folder) {
                Ok(foreign) => left.extend(foreign.into_iter().map(Left::foreign)),
                Err(error) => note(error.with("folder", folder), &mut left),
            }
        }
        (left, lost)
    }
}

/// Names that must be looked at before these cells: none in a folder that the run made itself.
fn named(spec: &RunSpec, cells: &[CellSpec], known: &BTreeMap<String, bool>) -> BTreeSet<String> {
    if spec.folder.is_some() {
        return BTreeSet::new();
    }
    let names = cells.iter().flat_map(|c| &c.files).chain(&spec.cleanup_files);
    names.filter(|name| !known.contains_key(*name)).cloned().collect()
}

/// A session, and which of the paths another hand wrote. A connection that died since is made anew.
fn look(
    target: &dyn Target,
    session: Option<Box<dyn Session>>,
    names: &BTreeSet<String>,
) -> Result<(Box<dyn Session>, BTreeMap<String, bool>)> {
    if let Some(mut session) = session {
        match find_foreign(&mut *session, &target.clock(), names) {
            Ok(found) => return Ok((session, found)),
            Err(error) if error.kind.loses_session() => {}
            Err(error) => return Err(error),
        }
    }
    let mut session = target.connect(0)?;
    let found = find_foreign(&mut *session, &target.clock(), names)?;
    Ok((session, found))
}

/// Everything that clean-up would have removed, when it could not be done.
fn everything(spec: &RunSpec, error: &Error) -> Vec<Left> {
    let paths: Vec<String> = match spec.folder.as_ref().filter(|_| !spec.join_folder) {
        Some(folder) => vec![folder.clone()],
        None => spec.cleanup_files.clone(),
    };
    paths.into_iter().map(|path| Left { path, why: Some(error.told()) }).collect()
}

/// How long the calls of a piece of work may take.
#[derive(Clone, Copy)]
enum Wait {
    /// So many nanoseconds each, and not much longer than the user wants to wait.
    Calls(u64),
    /// As long as the target's own calls take, whatever the user wants: what was made shall be removed.
    ToTheEnd,
    /// At most [`LAST_CALL`] each.
    LastCalls,
}

/// Carries `work` out on this thread.
fn waiting<T>(wait: Wait, over: &Arc<AtomicBool>, work: impl FnOnce() -> T) -> T {
    let over = over.clone();
    match wait {
        Wait::Calls(timeout_ns) => limit::capped(Duration::from_nanos(timeout_ns), || {
            limit::watched(move || over.load(Ordering::Relaxed), work)
        }),
        Wait::ToTheEnd => work(),
        Wait::LastCalls => limit::capped(LAST_CALL, work),
    }
}

/// Carries `work` out, with an end to its time on a real clock.
fn bounded<T: Send + 'static>(
    clock: &Clock,
    mut patience: Patience,
    events: &mut dyn Events,
    what: &str,
    wait: Wait,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    if clock.is_virtual() {
        return guarded(work);
    }
    let (report, answer) = channel();
    let thread = std::thread::Builder::new().name("steward".to_string());
    let over = Arc::new(AtomicBool::new(false));
    let seen = over.clone();
    thread
        .spawn(move || drop(report.send(guarded(|| waiting(wait, &seen, work)))))
        .map_err(|e| Error::from_io("run", e))?;
    loop {
        match answer.recv_timeout(SLICE) {
            Ok(outcome) => return outcome,
            Err(RecvTimeoutError::Timeout) => {
                patience.check(what, events)?;
                over.store(patience.is_over(), Ordering::Relaxed);
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::new(ErrorKind::Io, "run", format!("{what} ended without a result")));
            }
        }
    }
}
