//! A server that dies, freezes, resets, stops half-way or talks nonsense, at every stage of a session: each ends in
//! a typed error within the timeout, never in a hang or a panic.

mod fake;

use fake::{Fake, Fault, Stage};
use naslab_core::{Completion, Error, ErrorKind, FileId, IoBuf, Op, OpKind, OpenOptions, Result, Session, Target};
use naslab_target_smb::{Auth, SmbOptions, SmbTarget};
use std::time::Duration;

const STAGES: [Stage; 6] =
    [Stage::Negotiate, Stage::FirstSetup, Stage::SecondSetup, Stage::Tree, Stage::Create, Stage::Read];
const TIMEOUT_NS: u64 = 300_000_000;
const READ_BYTES: usize = 100_000;
/// tcpmux. A port that was free a moment ago may be another test's server by now.
const NOBODYS_PORT: u16 = 1;

fn target(port: u16) -> SmbTarget {
    let options = SmbOptions {
        host: "127.0.0.1".into(),
        port,
        share: Some("s".into()),
        auth: Some(Auth::Guest),
        timeout_ns: TIMEOUT_NS,
        depth: 4,
        ..SmbOptions::default()
    };
    SmbTarget::new(options).unwrap()
}

fn open(session: &mut dyn Session) -> Result<FileId> {
    session.open("file", &OpenOptions { read: true, ..OpenOptions::default() })
}

/// One read; what it brought.
fn read(session: &mut dyn Session, file: FileId, data: &mut [u8]) -> Result<Completion> {
    let op = Op { kind: OpKind::Read, file, offset_bytes: 0, len_bytes: data.len() as u32, due_ns: None };
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
                assert_eq!(later.unwrap_err().kind, ErrorKind::Disconnected);
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
    live(&target(server.port)).expect_err("the fault must be seen")
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
        timeout_ns: TIMEOUT_NS,
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
