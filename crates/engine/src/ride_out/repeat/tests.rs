//! Calls whose answer is lost, on a server that carried them out or did not, and in one that remembers its answers.

use super::super::LastingTarget;
use super::*;
use naslab_core::{Caps, Clock, Completion, DirEntry, FileStat, FlushKind, IoBuf, Op, Space, Submit, Target, Token};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Names, and what they are: None for a folder, otherwise the length of a file.
type Names = BTreeMap<String, Option<u64>>;

/// What the server does with the call whose answer is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lost {
    CarriedOut,
    NeverSeen,
}

struct Server {
    names: Mutex<Names>,
    /// Consumed by the next call about a name.
    lost: Mutex<Option<Lost>>,
    /// It answers repeated calls as the first time.
    remembers: bool,
    repeats: Mutex<u32>,
    /// Whether it has the answer to the call that was lost, and how many such answers it gave.
    kept: Mutex<bool>,
    replayed: Mutex<u64>,
}

struct Naming(Arc<Server>);

fn gone() -> Error {
    Error::new(ErrorKind::Disconnected, "receive", "the server closed the connection")
}

fn failed(kind: ErrorKind) -> Error {
    Error::new(kind, "call", "refused")
}

impl Naming {
    fn call<T>(&mut self, act: impl Fn(&mut Names) -> Result<T>) -> Result<T> {
        let mut names = self.0.names.lock().unwrap();
        let before = names.clone();
        match self.0.lost.lock().unwrap().take() {
            Some(Lost::CarriedOut) => {
                act(&mut names)?;
                if self.0.remembers {
                    // The same call once more is answered as if it were the first.
                    *names = before;
                    *self.0.kept.lock().unwrap() = true;
                }
                Err(gone())
            }
            Some(Lost::NeverSeen) => Err(gone()),
            None => {
                *self.0.replayed.lock().unwrap() += u64::from(std::mem::take(&mut *self.0.kept.lock().unwrap()));
                act(&mut names)
            }
        }
    }
}

fn add(names: &mut Names, path: &str, what: Option<u64>) -> Result<()> {
    match names.contains_key(path) {
        true => Err(failed(ErrorKind::Exists)),
        false => {
            names.insert(path.into(), what);
            Ok(())
        }
    }
}

fn take(names: &mut Names, path: &str) -> Result<Option<u64>> {
    names.remove(path).ok_or_else(|| failed(ErrorKind::NotFound))
}

impl Session for Naming {
    fn open(&mut self, path: &str, options: &OpenOptions) -> Result<FileId> {
        let new = options.create == Create::New;
        self.call(|names| if new { add(names, path, Some(0)) } else { Ok(()) }).map(|()| FileId(1))
    }
    fn close(&mut self, _file: FileId) -> Result<()> {
        Ok(())
    }
    fn repeat(&mut self) {
        *self.0.repeats.lock().unwrap() += 1;
    }
    unsafe fn submit(&mut self, _op: &Op, _buf: IoBuf, _token: Token) -> Result<Submit> {
        Ok(Submit::Busy)
    }
    fn reap(&mut self, _min: usize, _timeout: Option<Duration>, _out: &mut Vec<Completion>) -> Result<usize> {
        Ok(0)
    }
    fn flush(&mut self, _file: FileId, _kind: FlushKind) -> Result<()> {
        Ok(())
    }
    fn set_len(&mut self, _file: FileId, _len_bytes: u64) -> Result<()> {
        Ok(())
    }
    fn stat(&mut self, path: &str) -> Result<FileStat> {
        let found = self.call(|names| names.get(path).copied().ok_or_else(|| failed(ErrorKind::NotFound)))?;
        let is_dir = found.is_none();
        Ok(FileStat { len_bytes: found.unwrap_or(0), allocated_bytes: None, is_dir, modified_ns: None })
    }
    fn mkdir(&mut self, path: &str) -> Result<()> {
        self.call(|names| add(names, path, None))
    }
    fn rmdir(&mut self, path: &str) -> Result<()> {
        self.call(|names| take(names, path).map(drop))
    }
    fn readdir(&mut self, _path: &str) -> Result<Vec<DirEntry>> {
        Ok(Vec::new())
    }
    fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        self.call(|names| {
            let what = take(names, from)?;
            names.insert(to.into(), what);
            Ok(())
        })
    }
    fn remove(&mut self, path: &str) -> Result<()> {
        self.call(|names| take(names, path).map(drop))
    }
    fn events(&self) -> Vec<(&'static str, u64)> {
        vec![("answer_replayed", *self.0.replayed.lock().unwrap())]
    }
    fn space(&mut self) -> Result<Space> {
        Ok(Space { free_bytes: 0, total_bytes: 0 })
    }
}

struct NamesTarget(Arc<Server>);

impl Target for NamesTarget {
    fn protocol(&self) -> &'static str {
        "names"
    }
    fn caps(&self) -> Caps {
        Caps::default()
    }
    fn clock(&self) -> Clock {
        Clock::real()
    }
    fn connect_lasting(&self, worker: u32, _keep: Duration, _lost: &[u8]) -> Result<Box<dyn Session>> {
        self.connect(worker)
    }
    fn connect(&self, _worker: u32) -> Result<Box<dyn Session>> {
        Ok(Box::new(Naming(Arc::clone(&self.0))))
    }
}

/// A call whose answer is lost, on a server with these names: what became of it and of the names, how many calls were
/// repeated, and how many of them had been done before.
fn after(
    before: &[(&str, Option<u64>)],
    lost: Lost,
    remembers: bool,
    call: impl Fn(&mut dyn Session) -> Result<()>,
) -> (Result<()>, Vec<String>, u64, u64) {
    let names: Names = before.iter().map(|(name, what)| ((*name).to_string(), *what)).collect();
    let server = Arc::new(Server {
        names: Mutex::new(names),
        lost: Mutex::default(),
        remembers,
        repeats: Mutex::default(),
        kept: Mutex::default(),
        replayed: Mutex::default(),
    });
    let outages = Arc::new(Mutex::new(Vec::new()));
    let target = NamesTarget(Arc::clone(&server));
    let target = LastingTarget::new(Arc::new(target), Duration::from_secs(20), Arc::clone(&outages));
    let mut session = target.connect(0).unwrap();
    *server.lost.lock().unwrap() = Some(lost);
    let outcome = call(&mut *session);
    assert_eq!(*server.repeats.lock().unwrap(), 1, "the session knows that the call is repeated");
    let outage = outages.lock().unwrap().pop().unwrap();
    assert_eq!(outage.answers_replayed, u64::from(remembers && lost == Lost::CarriedOut));
    let names = server.names.lock().unwrap().keys().cloned().collect();
    (outcome, names, outage.repeated_calls, outage.calls_done_before)
}

type Call = fn(&mut dyn Session) -> Result<()>;
type Case = (&'static [(&'static str, Option<u64>)], Call, &'static [&'static str]);

fn new() -> OpenOptions {
    OpenOptions { create: Create::New, write: true, ..OpenOptions::default() }
}

#[test]
fn a_change_happens_once_whether_or_not_the_server_had_carried_it_out() {
    let cases: [Case; 5] = [
        (&[], |s| s.mkdir("d"), &["d"]),
        (&[("d", None)], |s| s.rmdir("d"), &[]),
        (&[("f", Some(9))], |s| s.remove("f"), &[]),
        (&[("f", Some(9))], |s| s.rename("f", "g"), &["g"]),
        (&[], |s| s.open("f", &new()).map(drop), &["f"]),
    ];
    for (at, (before, call, then)) in cases.into_iter().enumerate() {
        for (lost, remembers, done_before) in
            [(Lost::CarriedOut, false, 1), (Lost::NeverSeen, false, 0), (Lost::CarriedOut, true, 0)]
        {
            let (outcome, names, repeated, done) = after(before, lost, remembers, call);
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            assert!(outcome.is_ok(), "{at} {lost:?}: {outcome:?}");
            assert_eq!((names.as_slice(), repeated, done), (then, 1, done_before), "{at} {lost:?}");
        }
    }
}

#[test]
fn what_the_call_cannot_have_left_there_is_a_failure_still() {
    // A file where a folder was to be made; a file with data where a new one was; nothing under either name.
    let cases: [(Case, ErrorKind); 3] = [
        ((&[("d", Some(0))], |s| s.mkdir("d"), &["d"]), ErrorKind::Exists),
        ((&[("f", Some(9))], |s| s.open("f", &new()).map(drop), &["f"]), ErrorKind::Exists),
        ((&[], |s| s.rename("f", "g"), &[]), ErrorKind::NotFound),
    ];
    for ((before, call, then), kind) in cases {
        let (outcome, names, repeated, done) = after(before, Lost::NeverSeen, false, call);
        assert_eq!(outcome.unwrap_err().kind, kind);
        assert_eq!((names, repeated, done), (then.iter().map(|name| (*name).to_string()).collect(), 1, 0));
    }
}
