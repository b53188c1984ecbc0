//! A server that dies, freezes, resets, stops half-way or talks nonsense, at every stage of a session: each ends in
//! a typed error within the timeout, never in a hang or a panic.

mod fake;

use fake::{Fake, Fault, Stage};
use naslab_core::{
    Completion, Create, Error, ErrorKind, FileId, IoBuf, Op, OpKind, OpenOptions, Result, Session, SyncMode, Target,
};
use naslab_target_smb::{Auth, Lease, SmbOptions, SmbTarget};
use std::time::Duration;

const STAGES: [Stage; 6] =
    [Stage::Negotiate, Stage::FirstSetup, Stage::SecondSetup, Stage::Tree, Stage::Create, Stage::Read];
/// Of a server that answers, however much else the machine has to do; and of one that will not.
const PATIENT_NS: u64 = 30_000_000_000;
const SILENT_NS: u64 = 1_000_000_000;
const READ_BYTES: usize = 100_000;
/// tcpmux. A port that was free a moment ago may be another test's server by now.
const NOBODYS_PORT: u16 = 1;

fn target(port: u16) -> SmbTarget {
    patient(port, PATIENT_NS)
}

fn options_of(port: u16, timeout_ns: u64) -> SmbOptions {
    SmbOptions {
        host: "127.0.0.1".into(),
        port,
        share: Some("s".into()),
        auth: Some(Auth::Guest),
        timeout_ns,
        depth: 4,
        ..SmbOptions::default()
    }
}

fn patient(port: u16, timeout_ns: u64) -> SmbTarget {
    SmbTarget::new(options_of(port, timeout_ns)).unwrap()
}

fn open(session: &mut dyn Session) -> Result<FileId> {
    session.open("file", &OpenOptions { read: true, ..OpenOptions::default() })
}

/// One read; what it brought.
fn read(session: &mut dyn Session, file: FileId, data: &mut [u8]) -> Result<Completion> {
    carry_out(session, OpKind::Read, file, data)
}

fn carry_out(session: &mut dyn Session, kind: OpKind, file: FileId, data: &mut [u8]) -> Result<Completion> {
    let op = Op { kind, file, offset_bytes: 0, len_bytes: data.len() as u32, due_ns: None };
    let mut done = Vec::new();
    // SAFETY: the memory outlives the session's use of it: until the completion, or the error after which the
    // session is never used for operations again.
    unsafe { session.submit(&op, IoBuf::from_slice(data), 1)? };
    for _ in 0..1000 {
        session.reap(1, Some(Duration::from_millis(50)), &mut done)?;
        if let Some(done) = done.first() {
            return Ok(*done);
        }
    }
    panic!("neither an end nor an error");
}

fn live(target: &SmbTarget) -> Result<()> {
    let mut session = target.connect(0)?;
    let file = open(&mut *session)?;
    let mut data = vec![0; READ_BYTES];
    let outcome = read(&mut *session, file, &mut data);
    match outcome {
        Err(error) => {
            // Lost for good: every later call says so at once.
            for later in [session.ping(), session.close(file), session.stat("x").map(drop)] {
                let later = later.unwrap_err();
                assert_eq!(later.kind, ErrorKind::Disconnected);
                assert!(later.message.contains(&error.message), "the first reason: {later}");
            }
            Err(error)
        }
        Ok(done) => {
            assert_eq!((done.bytes as usize, done.error), (READ_BYTES, None));
            assert!(data.iter().all(|b| *b == 0x5C));
            session.close(file)
        }
    }
}

fn fails(stage: Stage, fault: Fault) -> Error {
    let server = Fake::start(stage, fault);
    let is_silent = matches!(fault, Fault::Freeze | Fault::Half | Fault::ForeverPending);
    let timeout_ns = if is_silent { SILENT_NS } else { PATIENT_NS };
    live(&patient(server.port, timeout_ns)).expect_err("the fault must be seen")
}

#[test]
fn a_good_server_serves() {
    let server = Fake::start(Stage::Read, Fault::None);
    let target = target(server.port);
    live(&target).unwrap();
    let facts = target.facts();
    let fact = |name: &str| facts.iter().find(|f| f.0 == name).map(|f| f.1.as_str()).unwrap_or("");
    assert_eq!((fact("dialect"), fact("auth"), fact("signing")), ("3.1.1", "guest", "none"));
    assert_eq!((fact("max_read_bytes"), fact("encryption")), ("1048576", "none"));
}

#[test]
fn every_fault_at_every_stage_is_a_typed_error() {
    use ErrorKind::{Disconnected, Protocol, Timeout};
    let cases = [
        (Fault::Death, Disconnected),
        (Fault::Reset, Disconnected),
        (Fault::HalfThenDeath, Disconnected),
        (Fault::Freeze, Timeout),
        (Fault::Half, Timeout),
        (Fault::ForeverPending, Timeout),
        (Fault::Garbage, Protocol),
        (Fault::WrongId, Protocol),
        (Fault::WrongLength, Protocol),
    ];
    std::thread::scope(|scope| {
        for (fault, kind) in cases {
            scope.spawn(move || {
                for stage in STAGES {
                    let error = fails(stage, fault);
                    assert_eq!(error.kind, kind, "{fault:?} at {stage:?}: {error}");
                    assert!(!error.message.is_empty());
                }
            });
        }
    });
}

#[test]
fn an_answer_that_nobody_depends_on_may_be_too_short() {
    let server = Fake::start(Stage::Read, Fault::Keeps);
    let mut session = target(server.port).connect(0).unwrap();
    // This server answers questions about its file system with four bytes.
    assert_eq!(session.space().unwrap_err().kind, ErrorKind::Unsupported);
    open(&mut *session).unwrap();
}

#[test]
fn smb1_is_refused_by_name() {
    let error = fails(Stage::Negotiate, Fault::OldProtocol);
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(error.message.contains("SMB1"), "{error}");
}

#[test]
fn without_credits_nothing_hangs() {
    let server = Fake::start(Stage::Create, Fault::NoCredits);
    let options = SmbOptions {
        host: "127.0.0.1".into(),
        port: server.port,
        share: Some("s".into()),
        auth: Some(Auth::Guest),
        timeout_ns: PATIENT_NS,
        depth: 1,
        ..SmbOptions::default()
    };
    let mut session = SmbTarget::new(options).unwrap().connect(0).unwrap();
    // The credits granted so far are used up by opens that bring none back.
    let error = loop {
        if let Err(error) = open(&mut *session) {
            break error;
        }
    };
    assert_eq!(error.kind, ErrorKind::Protocol, "{error}");
}

#[test]
fn nobody_listening_is_said_at_once() {
    let error = live(&target(NOBODYS_PORT)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Disconnected, "{error}");
}

#[test]
fn a_closed_file_is_no_file() {
    let server = Fake::start(Stage::Read, Fault::None);
    let mut session = target(server.port).connect(0).unwrap();
    let file = open(&mut *session).unwrap();
    session.close(file).unwrap();
    let op = Op { kind: OpKind::Read, file, offset_bytes: 0, len_bytes: 0, due_ns: None };
    // SAFETY: no memory is touched.
    let refused = unsafe { session.submit(&op, IoBuf::empty(), 0) };
    assert_eq!(refused.unwrap_err().kind, ErrorKind::Invalid);
    assert_eq!(session.close(file).unwrap_err().kind, ErrorKind::Invalid);
    assert!(matches!(session.ping(), Ok(())), "the session itself is well");
    let mut none = Vec::new();
    assert_eq!(session.reap(1, Some(Duration::ZERO), &mut none).unwrap(), 0);
}

/// The file of a first session, claimed from a second one.
fn claimed(fault: Fault) -> Result<Option<FileId>> {
    let server = Fake::start(Stage::Read, fault);
    let target = target(server.port);
    let keep = KEEP;
    let options = OpenOptions { read: true, write: true, sync: SyncMode::All, ..OpenOptions::default() };
    let mut data = vec![0; READ_BYTES];
    let mut first = target.connect_lasting(0, keep, &[])?;
    let file = first.open("file", &options)?;
    assert_eq!(carry_out(&mut *first, OpKind::Write, file, &mut data)?.error, None);
    let (identity, claim) = (first.identity(), first.claim(file).expect("it was granted"));
    drop(first);
    let mut second = target.connect_lasting(0, keep, &identity)?;
    assert_eq!(second.identity(), identity, "the same client; this server calls all its sessions the same");
    let claimed = second.reclaim("file", &options, &claim)?;
    second.end_reclaim()?;
    if let Some(file) = claimed {
        assert!(second.claim(file).is_some_and(|again| again != claim), "the handle is a new one");
        for kind in [OpKind::Read, OpKind::Write] {
            assert_eq!(carry_out(&mut *second, kind, file, &mut data)?.error, None);
        }
    }
    Ok(claimed)
}

#[test]
fn files_that_the_server_kept_are_claimed() {
    const OBJECT_NAME_NOT_FOUND: u32 = 0xC000_0034;
    const FILE_NOT_AVAILABLE: u32 = 0xC000_0467;
    const INVALID_HANDLE: u32 = 0xC000_0008;
    const FILE_CLOSED: u32 = 0xC000_0128;
    const INSUFF_SERVER_RESOURCES: u32 = 0xC000_0205;
    assert!(claimed(Fault::Keeps).unwrap().is_some());
    for of_the_file in [OBJECT_NAME_NOT_FOUND, INVALID_HANDLE, FILE_CLOSED] {
        assert!(claimed(Fault::Refuses(of_the_file)).unwrap().is_none());
    }
    for passing in [FILE_NOT_AVAILABLE, INSUFF_SERVER_RESOURCES] {
        let error = claimed(Fault::Refuses(passing)).unwrap_err();
        assert_eq!(error.status, i64::from(passing), "not ready yet: to be asked again");
    }
}

const KEEP: Duration = Duration::from_secs(60);

#[test]
fn what_connections_without_channels_cannot_use_is_closed() {
    let server = Fake::start(Stage::Read, Fault::Keeps);
    let options = OpenOptions { read: true, write: true, ..OpenOptions::default() };
    let mut first = target(server.port).connect_lasting(0, KEEP, &[]).unwrap();
    let file = first.open("file", &options).unwrap();
    let (identity, claim) = (first.identity(), first.claim(file).unwrap());
    drop(first);
    let two = SmbOptions { connections: 2, ..options_of(server.port, PATIENT_NS) };
    let mut second = SmbTarget::new(two).unwrap().connect_lasting(0, KEEP, &identity).unwrap();
    assert_eq!(second.reclaim("file", &options, &claim).unwrap(), None);
    assert_eq!(server.seen.lock().unwrap().closed, 1);
}

/// The client's names for an open whose answer was lost, for the open that repeats it and for one after that, each with
/// whether it was said to be asked for again. refusal: of what is asked for again; 0 for none.
fn asked_again(refusal: u32) -> Vec<(Vec<u8>, bool)> {
    let server = Fake::start(Stage::Create, Fault::Loses(refusal));
    let target = target(server.port);
    let options = OpenOptions { read: true, write: true, create: Create::New, ..OpenOptions::default() };
    let mut first = target.connect_lasting(0, KEEP, &[]).unwrap();
    assert_eq!(first.open("file", &options).unwrap_err().kind, ErrorKind::Disconnected);
    // An attempt that fails before anything is repeated hands on what it knew.
    let attempt = target.connect_lasting(0, KEEP, &first.identity()).unwrap();
    let mut second = target.connect_lasting(0, KEEP, &attempt.identity()).unwrap();
    second.repeat();
    second.open("file", &options).unwrap();
    second.open("another", &options).unwrap();
    // The lease of the first open may be held still: another file of this name has one of its own, in later sessions too.
    second.remove("file").unwrap();
    second.open("file", &options).unwrap();
    let mut third = target.connect_lasting(0, KEEP, &second.identity()).unwrap();
    third.repeat();
    third.open("file", &options).unwrap();
    let seen = server.seen.lock().unwrap();
    let key = |nth: usize| &seen.leases[nth].1;
    let repeated = 1 + usize::from(refusal != 0);
    assert_eq!(key(repeated), key(0), "the same file");
    assert!(key(repeated + 2) != key(0) && key(repeated + 3) != key(0));
    seen.asked.clone()
}

#[test]
fn an_open_whose_answer_was_lost_is_asked_for_again_under_its_name() {
    let asked = asked_again(0);
    assert_eq!(asked.iter().map(|(_, is_replay)| *is_replay).collect::<Vec<_>>(), [false, true, false, false, false]);
    assert!(asked[0].0 == asked[1].0 && asked[2].0 != asked[0].0);
    const DUPLICATE_OBJECTID: u32 = 0xC000_022A;
    let asked = asked_again(DUPLICATE_OBJECTID);
    assert_eq!(
        asked.iter().map(|(_, is_replay)| *is_replay).collect::<Vec<_>>(),
        [false, true, false, false, false, false]
    );
    assert!(asked[0].0 == asked[1].0 && asked[2].0 != asked[0].0, "the server kept it and does not give it");
}

#[test]
fn another_file_is_not_asked_for_under_the_name_of_the_one_that_was_lost() {
    let server = Fake::start(Stage::Create, Fault::Loses(0));
    let target = target(server.port);
    let options = OpenOptions { read: true, write: true, create: Create::IfMissing, ..OpenOptions::default() };
    let mut first = target.connect_lasting(0, KEEP, &[]).unwrap();
    assert_eq!(first.open("file", &options).unwrap_err().kind, ErrorKind::Disconnected);
    let mut second = target.connect_lasting(0, KEEP, &first.identity()).unwrap();
    second.repeat();
    second.open("another", &options).unwrap();
    second.open("file", &options).unwrap();
    let seen = server.seen.lock().unwrap();
    assert!(seen.asked.iter().all(|(_, is_replay)| !is_replay));
    assert!(seen.leases[2].1 != seen.leases[0].1, "its lease may be that of a file that is no longer called so");
}

#[test]
fn a_lost_session_is_named_to_the_server_that_gave_it() {
    let server = Fake::start(Stage::Read, Fault::Keeps);
    let target = target(server.port);
    let identity = target.connect_lasting(0, KEEP, &[]).unwrap().identity();
    drop(target.connect_lasting(0, KEEP, &identity).unwrap());
    server.seen.lock().unwrap().server += 1;
    drop(target.connect_lasting(0, KEEP, &identity).unwrap());
    assert_eq!(server.seen.lock().unwrap().replaced, [0, 0x77, 0], "the last server is another one");
}

#[test]
fn a_broken_lease_is_acknowledged_in_the_call_that_waits_for_it() {
    let server = Fake::start(Stage::Read, Fault::Breaks);
    let mut session = patient(server.port, SILENT_NS).connect_lasting(0, KEEP, &[]).unwrap();
    let file = open(&mut *session).unwrap();
    session.flush(file, Default::default()).unwrap();
    assert!(session.events().contains(&("lease_break", 1)));
}

#[test]
fn two_files_that_are_open_never_share_the_key_of_a_lease() {
    let server = Fake::start(Stage::Read, Fault::Keeps);
    let target = target(server.port);
    let options = OpenOptions { read: true, write: true, ..OpenOptions::default() };
    let mut session = target.connect_lasting(0, KEEP, &[]).unwrap();
    let identity = session.identity();
    let file = session.open("d/a", &options).unwrap();
    session.open("d/a", &options).unwrap();
    session.rename("d/a", "d/b").unwrap();
    session.rename("d", "e").unwrap();
    session.open("d/a", &options).unwrap();
    session.open("e/b", &options).unwrap();
    session.remove("e/b").unwrap();
    session.open("e/b", &options).unwrap();
    let facts = target.facts();
    for (name, value) in [("leases", "read and handle"), ("leases_asked", "5"), ("leases_granted", "5")] {
        assert!(facts.contains(&(name.into(), value.into())), "{name} {facts:?}");
    }
    let claim = session.claim(file).unwrap();
    drop(session);
    target.connect_lasting(0, KEEP, &identity).unwrap().reclaim("e/b", &options, &claim).unwrap().unwrap();
    let seen = server.seen.lock().unwrap();
    let keys: Vec<&[u8]> = seen.leases.iter().map(|(_, key)| &key[..]).collect();
    assert_eq!((keys[1], keys[3], keys[5]), (keys[0], keys[0], keys[0]), "one file, under its names and when claimed");
    assert!(keys[2] != keys[0] && keys[4] != keys[0] && keys[4] != keys[2], "another file");
    assert_eq!(seen.leases[5].0, seen.leases[3].0, "it is claimed under its new name");
}

#[test]
fn nothing_is_kept_where_a_claimed_file_could_not_write_durably() {
    let server = Fake::start(Stage::Read, Fault::Old);
    let old = options_of(server.port, PATIENT_NS);
    let options = SmbOptions { lease: Lease::Rwh, dialect: Some("2.0.2".into()), ..old };
    let mut session = SmbTarget::new(options).unwrap().connect_lasting(0, KEEP, &[]).unwrap();
    for (sync, kept) in [(SyncMode::None, 1), (SyncMode::All, 1)] {
        session.open("file", &OpenOptions { read: true, write: true, sync, ..OpenOptions::default() }).unwrap();
        assert_eq!(server.seen.lock().unwrap().leases.len(), kept, "{sync:?}");
    }
}

#[test]
fn nothing_is_asked_for_without_need() {
    let server = Fake::start(Stage::Read, Fault::None);
    let target = target(server.port);
    let mut session = target.connect(0).unwrap();
    let file = open(&mut *session).unwrap();
    assert_eq!(session.claim(file), None);
    let leases = target.facts().into_iter().filter(|(name, _)| name.starts_with("leases")).collect::<Vec<_>>();
    assert_eq!(leases, [("leases".to_string(), "none".to_string())]);
    let mut lasting = target.connect_lasting(0, Duration::from_secs(60), &[]).unwrap();
    let file = open(&mut *lasting).unwrap();
    assert_eq!(lasting.claim(file), None, "a server without leases keeps nothing");
    let foreign = target.connect_lasting(0, Duration::from_secs(60), &[1, 2]).err().unwrap();
    assert_eq!(foreign.kind, ErrorKind::Invalid);
}
