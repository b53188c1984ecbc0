//! A server that misbehaves: every fault ends in a typed error or a counted event, never a hang or a panic.

mod fake;

use fake::{Fake, Fault, On};
use naslab_core::{
    AlignedBuf, Completion, Create, Error, ErrorKind, FileId, Op, OpKind, OpenOptions, Result, Session, Submit,
    SyncMode, Target,
};
use naslab_target_nfs::{exports, NfsOptions, NfsTarget};
use std::time::Duration;

/// Of a server that answers, however much else the machine has to do; and of one that will not.
const PATIENT_NS: u64 = 30_000_000_000;
const SILENT_NS: u64 = 1_000_000_000;
const VERSIONS: [&str; 2] = ["3", "4.1"];

fn options(fake: &Fake, version: &str) -> NfsOptions {
    let silent = |(_, fault): &(On, Fault)| matches!(fault, Fault::Freeze | Fault::Half | Fault::Status(10008));
    let is_silent = fake.state.lock().unwrap().faults.iter().any(silent);
    NfsOptions { timeout_ns: if is_silent { SILENT_NS } else { PATIENT_NS }, depth: 8, ..fake.options(version) }
}

struct Client {
    session: Box<dyn Session>,
    memory: AlignedBuf,
}

impl Client {
    fn new(fake: &Fake, version: &str) -> Result<Client> {
        Client::with(options(fake, version))
    }

    fn with(options: NfsOptions) -> Result<Client> {
        let session = NfsTarget::new(options)?.connect(0)?;
        Ok(Client { session, memory: AlignedBuf::new(1 << 20)? })
    }

    fn open(&mut self, sync: SyncMode) -> Result<FileId> {
        let options =
            OpenOptions { read: true, write: true, create: Create::IfMissing, sync, ..OpenOptions::default() };
        self.session.open("data", &options)
    }

    fn submit(&mut self, kind: OpKind, file: FileId, offset_bytes: u64, len_bytes: u32) -> Result<Submit> {
        let op = Op { kind, file, offset_bytes, len_bytes, due_ns: None };
        let buf = self.memory.lend(0, len_bytes as usize);
        // SAFETY: the memory belongs to the client, which outlives its session's use of it.
        unsafe { self.session.submit(&op, buf, 7) }
    }

    /// One operation to its end.
    fn one(&mut self, kind: OpKind, file: FileId, offset_bytes: u64, len_bytes: u32) -> Result<Completion> {
        assert_eq!(self.submit(kind, file, offset_bytes, len_bytes)?, Submit::Queued);
        Ok(self.reap(1)?[0])
    }

    fn reap(&mut self, count: usize) -> Result<Vec<Completion>> {
        let mut out = Vec::new();
        while out.len() < count {
            self.session.reap(1, Some(Duration::from_millis(50)), &mut out)?;
        }
        Ok(out)
    }

    fn event(&self, name: &str) -> u64 {
        self.session.events().iter().find(|(found, _)| *found == name).map_or(0, |(_, count)| *count)
    }
}

/// A client with the file open, against a server with faults to come.
fn ready(version: &str, sync: SyncMode, faults: Vec<(On, Fault)>) -> (Fake, Client, FileId) {
    let fake = Fake::start(faults);
    let mut client = Client::new(&fake, version).unwrap_or_else(|e| panic!("{version}: {e}"));
    let file = client.open(sync).unwrap_or_else(|e| panic!("{version}: {e}"));
    (fake, client, file)
}

fn kind_of<T>(outcome: Result<T>) -> ErrorKind {
    outcome.err().expect("it must fail").kind
}

#[test]
fn data_come_back_whole_whatever_their_size_and_place() {
    for version in VERSIONS {
        let (fake, mut client, file) = ready(version, SyncMode::None, vec![]);
        for (offset, len) in [(0, 1), (1, 4095), (4097, 8192), (12_300, 8193), (100_001, 200_003), (5, 0)] {
            let pattern: Vec<u8> = (0..len).map(|i| (i * 7 + offset) as u8).collect();
            client.memory.as_mut_slice()[..len].copy_from_slice(&pattern);
            let written = client.one(OpKind::Write, file, offset as u64, len as u32).unwrap();
            assert_eq!((written.bytes as usize, written.error), (len, None), "{version} {offset} {len}");
            assert_eq!(fake.state.lock().unwrap().file[offset..offset + len], pattern[..]);
            client.memory.as_mut_slice().fill(0);
            let read = client.one(OpKind::Read, file, offset as u64, len as u32).unwrap();
            assert_eq!((read.bytes as usize, read.error), (len, None), "{version} {offset} {len}");
            assert_eq!(client.memory.as_slice()[..len], pattern[..]);
        }
        assert_eq!(client.event("split"), 2 * 3, "200,003 bytes are four requests of 64 KiB, twice");
        client.session.flush(file, Default::default()).unwrap();
        assert_eq!(fake.count(On::Commit), 1);
        client.session.close(file).unwrap();
        let wire = client.session.wire().unwrap();
        assert!(wire.sent_bytes > 200_000 && wire.received_bytes > 200_000);
    }
}

#[test]
fn reads_at_the_end_of_the_file_are_short() {
    for version in VERSIONS {
        let (_fake, mut client, file) = ready(version, SyncMode::None, vec![]);
        client.one(OpKind::Write, file, 0, 1000).unwrap();
        let read = client.one(OpKind::Read, file, 900, 4096).unwrap();
        assert_eq!((read.bytes, read.error.unwrap().kind), (100, ErrorKind::Short));
        let beyond = client.one(OpKind::Read, file, 5000, 4096).unwrap();
        assert_eq!((beyond.bytes, beyond.error.unwrap().kind), (0, ErrorKind::Short));
    }
}

#[test]
fn broken_connections_end_in_typed_errors() {
    let cases: [(Fault, &[ErrorKind]); 9] = [
        (Fault::Close, &[ErrorKind::Disconnected]),
        (Fault::Reset, &[ErrorKind::Disconnected]),
        (Fault::Freeze, &[ErrorKind::Timeout]),
        (Fault::Half, &[ErrorKind::Timeout]),
        (Fault::HalfClose, &[ErrorKind::Disconnected]),
        (Fault::WrongXid, &[ErrorKind::Protocol]),
        (Fault::Garbage(vec![0xff; 64]), &[ErrorKind::Protocol]),
        (Fault::Garbage(vec![0x80, 0, 0, 4, 1, 2, 3, 4]), &[ErrorKind::Protocol]),
        (Fault::Garbage(vec![0; 1 << 20]), &[ErrorKind::Protocol]),
    ];
    for version in VERSIONS {
        for (fault, expected) in &cases {
            for (on, kind) in [(On::Read, OpKind::Read), (On::Write, OpKind::Write), (On::Commit, OpKind::Flush)] {
                let (_fake, mut client, file) = ready(version, SyncMode::None, vec![(on, fault.clone())]);
                let first = client.one(kind, file, 0, 20_000).expect_err("it must fail");
                assert!(expected.contains(&first.kind), "{version} {fault:?} on {on:?}: {first}");
                let later = client.submit(OpKind::Read, file, 0, 1).expect_err("it stays ended");
                assert_eq!(later.kind, ErrorKind::Disconnected);
                assert!(later.message.contains(&first.message), "the first reason: {later}");
                assert_eq!(kind_of(client.session.stat("data")), ErrorKind::Disconnected);
                assert_eq!(kind_of(client.session.flush(file, Default::default())), ErrorKind::Disconnected);
            }
        }
    }
}

#[test]
fn metadata_calls_meet_the_same_faults() {
    let cases = [
        (Fault::Close, ErrorKind::Disconnected),
        (Fault::Freeze, ErrorKind::Timeout),
        (Fault::Half, ErrorKind::Timeout),
        (Fault::HalfClose, ErrorKind::Disconnected),
        (Fault::WrongXid, ErrorKind::Protocol),
        (Fault::Garbage(vec![0xff; 64]), ErrorKind::Protocol),
        (Fault::Auth(5), ErrorKind::Permission),
    ];
    for version in VERSIONS {
        for (fault, expected) in &cases {
            let fake = Fake::start(vec![(On::Create, fault.clone())]);
            let mut client = Client::new(&fake, version).unwrap();
            let error = client.open(SyncMode::None).unwrap_err();
            assert_eq!(error.kind, *expected, "{version} {fault:?}: {error}");
            if let Fault::Auth(_) = fault {
                assert!(error.message.contains("AUTH_TOOWEAK") && error.message.contains("source port"), "{error}");
                client.open(SyncMode::None).expect("a refusal does not end the session");
            }
        }
    }
}

#[test]
fn a_second_answer_to_one_call_is_refused() {
    let (_fake, mut client, file) = ready("3", SyncMode::None, vec![(On::Write, Fault::Twice)]);
    // It may arrive together with the first, or later.
    let outcome = client.one(OpKind::Write, file, 0, 100).and_then(|_| client.one(OpKind::Read, file, 0, 100));
    assert_eq!(kind_of(outcome), ErrorKind::Protocol);
}

#[test]
fn more_data_than_asked_for_are_refused() {
    let (_fake, mut client, file) = ready("3", SyncMode::None, vec![(On::Read, Fault::Long)]);
    client.one(OpKind::Write, file, 0, 100).unwrap();
    assert_eq!(kind_of(client.one(OpKind::Read, file, 0, 100)), ErrorKind::Protocol);
}

#[test]
fn replies_in_fragments_are_put_together() {
    for version in VERSIONS {
        let faults = vec![
            (On::Create, Fault::Fragments(7)),
            (On::Write, Fault::Fragments(33)),
            (On::Read, Fault::Fragments(1000)),
            (On::Read, Fault::Fragments(1)),
        ];
        let (_fake, mut client, file) = ready(version, SyncMode::None, faults);
        let pattern: Vec<u8> = (0..30_000).map(|i| (i % 251) as u8).collect();
        client.memory.as_mut_slice()[..30_000].copy_from_slice(&pattern);
        client.one(OpKind::Write, file, 0, 30_000).unwrap();
        for len in [30_000, 500] {
            client.memory.as_mut_slice().fill(0);
            assert_eq!(client.one(OpKind::Read, file, 0, len as u32).unwrap().error, None);
            assert_eq!(client.memory.as_slice()[..len], pattern[..len]);
        }
        assert_eq!(client.event("fragmented_reply"), 4);
    }
}

#[test]
fn delay_and_grace_end_operations_and_are_counted() {
    for version in VERSIONS {
        let faults = vec![(On::Write, Fault::Status(10008)), (On::Read, Fault::Status(10013))];
        let (_fake, mut client, file) = ready(version, SyncMode::None, faults);
        let delayed = client.one(OpKind::Write, file, 0, 100).unwrap().error.unwrap();
        assert_eq!((delayed.kind, delayed.status), (ErrorKind::Delayed, 10008));
        let grace = client.one(OpKind::Read, file, 0, 100).unwrap().error.unwrap();
        assert_eq!((grace.kind, grace.status), (ErrorKind::Delayed, 10013));
        assert_eq!((client.event("delay"), client.event("grace")), (1, 1));
        assert_eq!(client.one(OpKind::Write, file, 0, 100).unwrap().error, None, "the session goes on");
    }
}

#[test]
fn metadata_calls_wait_visibly_and_not_for_ever() {
    for version in VERSIONS {
        let faults = vec![(On::Create, Fault::Status(10008)), (On::Create, Fault::Status(10013))];
        let fake = Fake::start(faults);
        // Two waits must fit into the patience, on a machine that has much else to do, too.
        let mut client = Client::with(NfsOptions { timeout_ns: PATIENT_NS, ..options(&fake, version) }).unwrap();
        client.open(SyncMode::None).unwrap();
        assert_eq!((client.event("delay_waits"), client.event("grace_waits")), (1, 1));
        assert_eq!(fake.count(On::Create), 3);

        let fake = Fake::start(vec![(On::Create, Fault::Status(10008)); 100]);
        let mut client = Client::new(&fake, version).unwrap();
        let error = client.open(SyncMode::None).unwrap_err();
        assert_eq!((error.kind, error.status), (ErrorKind::Delayed, 10008), "{error}");
        assert!(client.event("delay_waits") >= 1);
    }
}

#[test]
fn a_changed_write_verifier_fails_the_flush() {
    for version in VERSIONS {
        for at in [On::Write, On::Commit] {
            let (fake, mut client, file) = ready(version, SyncMode::None, vec![]);
            client.one(OpKind::Write, file, 0, 100).unwrap();
            fake.state.lock().unwrap().faults.push_back((at, Fault::NewVerifier));
            client.one(OpKind::Write, file, 100, 100).unwrap();
            let error = client.session.flush(file, Default::default()).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Io);
            assert!(error.message.contains("may be lost"), "{error}");
            assert_eq!(client.event("verifier_changed"), 1, "{version} {at:?}");
            client.one(OpKind::Write, file, 0, 100).unwrap();
            client.session.flush(file, Default::default()).expect("the next round is clean");
        }
        let (fake, mut client, file) = ready(version, SyncMode::None, vec![]);
        client.one(OpKind::Write, file, 0, 100).unwrap();
        fake.state.lock().unwrap().faults.push_back((On::Commit, Fault::NewVerifier));
        let flushed = client.one(OpKind::Flush, file, 0, 0).unwrap();
        assert_eq!(flushed.error.unwrap().kind, ErrorKind::Io);
    }
}

#[test]
fn less_durable_than_asked_is_an_error() {
    for version in VERSIONS {
        for sync in [SyncMode::Data, SyncMode::All] {
            let (_fake, mut client, file) = ready(version, sync, vec![(On::Write, Fault::LessStable)]);
            let written = client.one(OpKind::Write, file, 0, 100).unwrap();
            assert_eq!(written.error.unwrap().kind, ErrorKind::Protocol);
            assert_eq!(client.event("less_stable"), 1);
            assert_eq!(client.one(OpKind::Write, file, 0, 100).unwrap().error, None);
        }
        let (_fake, mut client, file) = ready(version, SyncMode::None, vec![(On::Write, Fault::LessStable)]);
        assert_eq!(client.one(OpKind::Write, file, 0, 100).unwrap().error, None, "unstable was asked for");
    }
}

#[test]
fn short_writes_and_reads_go_on_visibly() {
    for version in VERSIONS {
        let (fake, mut client, file) = ready(version, SyncMode::None, vec![(On::Write, Fault::Short(10_000))]);
        client.memory.as_mut_slice()[..50_000].iter_mut().enumerate().for_each(|(at, byte)| *byte = (at % 253) as u8);
        let written = client.one(OpKind::Write, file, 0, 50_000).unwrap();
        assert_eq!((written.bytes, written.error), (50_000, None));
        assert_eq!(client.event("short_write"), 1);
        assert!(fake.state.lock().unwrap().file.iter().enumerate().all(|(at, byte)| *byte == (at % 253) as u8));
    }
    let (_fake, mut client, file) = ready("3", SyncMode::None, vec![(On::Read, Fault::Short(1000))]);
    client.one(OpKind::Write, file, 0, 5000).unwrap();
    let read = client.one(OpKind::Read, file, 0, 5000).unwrap();
    assert_eq!((read.bytes, read.error, client.event("short_read")), (5000, None, 1));
    let (_fake, mut client, file) = ready("3", SyncMode::None, vec![(On::Write, Fault::Short(0))]);
    let stuck = client.one(OpKind::Write, file, 0, 5000).unwrap();
    assert_eq!((stuck.bytes, stuck.error.unwrap().kind), (0, ErrorKind::Short));
}

#[test]
fn the_slot_table_limits_what_is_outstanding() {
    let (fake, mut client, file) = ready("4.1", SyncMode::None, vec![]);
    let mut queued = 0;
    while client.submit(OpKind::Write, file, 0, 100).unwrap() == Submit::Queued && queued < 50 {
        queued += 1;
    }
    assert!(queued >= 4);
    client.reap(queued).unwrap();
    assert!(client.event("max_outstanding") <= 4, "four slots were granted");
    // Ten times more than the slots: the server checks every number of every slot.
    for _ in 0..40 {
        client.one(OpKind::Read, file, 0, 10).unwrap();
    }
    assert_eq!(fake.count(On::Read), 40);
}

#[test]
fn a_full_slot_table_answers_busy() {
    let (_fake, mut client, file) = ready("4.1", SyncMode::None, vec![(On::Write, Fault::Freeze)]);
    for _ in 0..4 {
        assert_eq!(client.submit(OpKind::Write, file, 0, 100).unwrap(), Submit::Queued);
    }
    assert_eq!(client.submit(OpKind::Write, file, 0, 100).unwrap(), Submit::Busy);
    assert_eq!(client.event("slot_wait"), 1);
    assert_eq!(kind_of(client.reap(4)), ErrorKind::Timeout);
}

#[test]
fn statuses_keep_their_numbers_and_classes() {
    let cases = [
        (2, ErrorKind::NotFound),
        (13, ErrorKind::Permission),
        (28, ErrorKind::NoSpace),
        (30, ErrorKind::ReadOnly),
        (69, ErrorKind::NoSpace),
        (70, ErrorKind::Io),
    ];
    for version in VERSIONS {
        for (status, kind) in cases {
            let (_fake, mut client, file) = ready(version, SyncMode::None, vec![(On::Write, Fault::Status(status))]);
            let found = client.one(OpKind::Write, file, 0, 100_000).unwrap().error.unwrap();
            assert_eq!((found.kind, found.status), (kind, status.into()), "{version}");
        }
    }
}

#[test]
fn a_lost_session_is_a_lost_connection() {
    let (fake, mut client, file) = ready("4.1", SyncMode::None, vec![]);
    fake.state.lock().unwrap().faults.push_back((On::Sequence, Fault::Status(10052)));
    let found = client.one(OpKind::Read, file, 0, 10).unwrap().error.unwrap();
    assert_eq!((found.kind, found.status), (ErrorKind::Disconnected, 10052));
    // The refused number is used again: the server asserts it.
    client.one(OpKind::Write, file, 0, 10).unwrap();
}

/// The server failed inside a call, after its session had counted it: no answer tells the client.
#[test]
fn a_slot_whose_last_call_failed_in_the_server_goes_on() {
    for kind in [OpKind::Read, OpKind::Write] {
        let on = if kind == OpKind::Read { On::Read } else { On::Write };
        let (fake, mut client, file) = ready("4.1", SyncMode::None, vec![(on, Fault::SystemError)]);
        fake.state.lock().unwrap().forgives = true;
        let failed = client.one(kind, file, 0, 100).unwrap().error.unwrap();
        assert_eq!((failed.kind, failed.status), (ErrorKind::Io, -1005), "the failure itself is the one told");
        for round in 0..9 {
            assert_eq!(client.one(OpKind::Write, file, round * 100, 100).unwrap().error, None, "round {round}");
        }
        assert_eq!(client.event("slot_repaired"), 1);
        assert_eq!(fake.state.lock().unwrap().file.len(), 900);
    }
    // The same for calls that are not reads or writes.
    let (fake, mut client, _file) = ready("4.1", SyncMode::None, vec![]);
    fake.state.lock().unwrap().forgives = true;
    fake.state.lock().unwrap().faults.push_back((On::Lookup, Fault::SystemError));
    let error = client.session.stat("data").unwrap_err();
    assert!(error.message.contains("SYSTEM_ERR"), "{error}");
    client.session.stat("data").unwrap();
    assert_eq!(client.event("slot_repaired"), 1);
    // A server that answers so for ever ends the operation instead of being asked for ever.
    let (fake, mut client, file) = ready("4.1", SyncMode::None, vec![]);
    fake.state.lock().unwrap().faults = vec![(On::Sequence, Fault::Status(10068)); 2].into();
    let refused = client.one(OpKind::Read, file, 0, 10).unwrap().error.unwrap();
    assert_eq!((refused.kind, refused.status, fake.count(On::Sequence) > 2), (ErrorKind::Io, 10068, true));
}

#[test]
fn no_commit_is_sent_where_every_write_was_durable_already() {
    for version in VERSIONS {
        let fake = Fake::start(vec![]);
        fake.state.lock().unwrap().always_stable = true;
        let mut client = Client::new(&fake, version).unwrap();
        let file = client.open(SyncMode::None).unwrap();
        client.session.flush(file, Default::default()).unwrap();
        assert_eq!(fake.count(On::Commit), 1, "{version}: nothing was written, so another's writes may be meant");
        client.one(OpKind::Write, file, 0, 200_000).unwrap();
        client.session.flush(file, Default::default()).unwrap();
        assert_eq!(client.one(OpKind::Flush, file, 0, 0).unwrap().error, None);
        assert_eq!((fake.count(On::Commit), client.event("commit_not_needed")), (1, 2), "{version}");
        fake.state.lock().unwrap().always_stable = false;
        client.one(OpKind::Write, file, 0, 100).unwrap();
        client.session.flush(file, Default::default()).unwrap();
        assert_eq!(fake.count(On::Commit), 2, "{version}: an unstable write is committed");
    }
}

#[test]
fn calls_that_rpc_refuses_say_so_in_words() {
    for version in VERSIONS {
        let (_fake, mut client, file) = ready(version, SyncMode::None, vec![(On::Commit, Fault::SystemError)]);
        let error = client.session.flush(file, Default::default()).unwrap_err();
        assert!(error.message.contains("SYSTEM_ERR") && !error.message.contains("ERR 0"), "{error}");
        let (_fake, mut client, file) = ready(version, SyncMode::None, vec![(On::Commit, Fault::Auth(1))]);
        let error = client.session.flush(file, Default::default()).unwrap_err();
        assert!(error.message.contains("AUTH_BADCRED"), "{error}");
    }
}

#[test]
fn a_server_of_nfs_3_alone_needs_no_portmapper_and_no_version() {
    let fake = Fake::start(vec![]);
    fake.state.lock().unwrap().only_3 = true;
    // Nobody listens on port 1.
    let alone = |path: &str| NfsOptions {
        version: None,
        mount_port: None,
        portmap_port: 1,
        path: path.into(),
        ..options(&fake, "3")
    };
    let target = NfsTarget::new(alone("/export")).unwrap();
    target.connect(0).unwrap_or_else(|e| panic!("{e}"));
    assert!(target.facts().contains(&("dialect".into(), "3".into())));
    // What a version says that the server speaks is told, not that it speaks no other.
    fake.state.lock().unwrap().faults = vec![(On::Mount, Fault::Status(2)); 4].into();
    let error = NfsTarget::new(alone("/elsewhere")).unwrap().connect(0).err().expect("it is no export");
    assert!(error.kind == ErrorKind::NotFound && error.to_string().contains("exports=/export"), "{error}");
}

#[test]
fn a_malformed_answer_to_one_version_moves_on_to_the_next_unless_it_is_pinned() {
    let garbage = Fault::Garbage(vec![0xff; 64]);
    let fake = Fake::start(vec![(On::Session, garbage.clone())]);
    let target = NfsTarget::new(NfsOptions { version: None, ..options(&fake, "3") }).unwrap();
    target.connect(0).unwrap_or_else(|e| panic!("{e}"));
    assert!(target.facts().contains(&("dialect".into(), "3".into())), "{:?}", target.facts());
    let fake = Fake::start(vec![(On::Session, garbage)]);
    assert_eq!(kind_of(Client::new(&fake, "4.1")), ErrorKind::Protocol);
}

#[test]
fn refused_mounts_advise_about_ports() {
    let fake = Fake::start(vec![(On::Mount, Fault::Status(13)); 2]);
    let error = Client::new(&fake, "3").err().expect("refused");
    assert_eq!((error.kind, error.status), (ErrorKind::Permission, 13));
    assert!(error.message.contains("source port") && error.message.contains("insecure"), "{error}");
}

#[test]
fn a_frozen_or_dead_server_ends_connecting() {
    for (fault, kind) in [(Fault::Freeze, ErrorKind::Timeout), (Fault::Close, ErrorKind::Disconnected)] {
        let fake = Fake::start(vec![(On::Limits, fault)]);
        assert_eq!(kind_of(Client::new(&fake, "3")), kind);
    }
    let fake = Fake::start(vec![]);
    let mut gone = options(&fake, "3");
    gone.port = Some(1);
    let refused: Error = NfsTarget::new(gone).unwrap().connect(0).err().expect("nobody listens there");
    assert_eq!(refused.kind, ErrorKind::Disconnected, "{refused}");
}

#[test]
fn the_best_version_is_found() {
    let fake = Fake::start(vec![]);
    let target = NfsTarget::new(NfsOptions { version: None, ..options(&fake, "3") }).unwrap();
    target.connect(0).unwrap();
    let facts = target.facts();
    let fact = |name: &str| facts.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str());
    assert_eq!(fact("dialect"), Some("4.1"), "the server speaks 3 and 4.1");
    assert_eq!(fact("slots"), Some("4"));
    assert_eq!(fact("lease_seconds"), Some("60"));
    assert_eq!(fact("server_owner"), Some("fake"));
    assert_eq!(target.caps().max_depth, 4);
    assert!(!target.caps().server_copy);
    let pinned = NfsTarget::new(options(&fake, "4.2")).unwrap();
    let error = pinned.connect(0).err().expect("4.2 is not spoken");
    assert_eq!((error.kind, error.status), (ErrorKind::Unsupported, 10021), "{error}");
}

#[test]
fn several_connections_share_the_work() {
    for version in VERSIONS {
        let fake = Fake::start(vec![]);
        let target = NfsTarget::new(NfsOptions { connections: 3, ..options(&fake, version) }).unwrap();
        let session = target.connect(0).unwrap();
        let mut client = Client { session, memory: AlignedBuf::new(1 << 20).unwrap() };
        let file = client.open(SyncMode::None).unwrap();
        let before = fake.state.lock().unwrap().connections;
        assert!(before >= 3);
        for round in 0..30u64 {
            client.one(OpKind::Write, file, round * 10, 10).unwrap();
        }
        assert_eq!(fake.state.lock().unwrap().file.len(), 300);
        assert_eq!(fake.state.lock().unwrap().connections, before);
    }
}

#[test]
fn a_path_outside_of_all_exports_is_not_found() {
    let fake = Fake::start(vec![(On::Mount, Fault::Status(13)); 2]);
    let target = NfsTarget::new(NfsOptions { path: "/elsewhere".into(), ..options(&fake, "3") }).unwrap();
    let error = target.connect(0).err().expect("it is no export");
    assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains("exports=/export"), "{error}");
}

#[test]
fn connections_that_the_server_closed_while_idle_are_opened_again_visibly() {
    for version in VERSIONS {
        let fake = Fake::start(vec![]);
        fake.state.lock().unwrap().patience = Some(Duration::from_millis(500));
        let mut client = Client::new(&fake, version).unwrap();
        let file = client.open(SyncMode::None).unwrap();
        let before = client.session.wire().unwrap().sent_bytes;
        // Longer than a session takes for a pause between two operations.
        std::thread::sleep(Duration::from_millis(5200));
        assert_eq!(client.one(OpKind::Write, file, 0, 100).unwrap().error, None, "{version}");
        assert_eq!(client.event("reconnect"), 1);
        assert!(client.session.wire().unwrap().sent_bytes > before + 100, "the old connection's bytes count too");
    }
}

#[test]
fn exports_are_listed() {
    let fake = Fake::start(vec![]);
    let found = exports(&options(&fake, "3")).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].path, "/export");
}

#[test]
fn contradictions_are_refused_by_name() {
    let fake = Fake::start(vec![]);
    let mut client = Client::new(&fake, "3").unwrap();
    let delete = OpenOptions { write: true, create: Create::New, delete_on_close: true, ..OpenOptions::default() };
    assert_eq!(kind_of(client.session.open("data", &delete)), ErrorKind::Unsupported);
    let truncate = OpenOptions { read: true, truncate: true, ..OpenOptions::default() };
    assert_eq!(kind_of(client.session.open("data", &truncate)), ErrorKind::Invalid);
    assert_eq!(kind_of(client.session.stat("../data")), ErrorKind::Invalid);
    assert_eq!(kind_of(client.session.stat("/data")), ErrorKind::Invalid);
    assert_eq!(kind_of(client.session.server_copy("data", "copy")), ErrorKind::Unsupported);
    assert_eq!(kind_of(client.session.close(FileId(9))), ErrorKind::Invalid);
    client.session.ping().unwrap();
}
