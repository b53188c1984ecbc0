//! Sessions after sessions that were lost: what they claim, give up and ask about again.

mod fake;

use fake::{Fake, Fault, On, State};
use naslab_core::{limit, Claim, Create, ErrorKind, OpenOptions, Result, Session, Target};
use naslab_target_nfs::{NfsOptions, NfsTarget};
use std::time::Duration;

fn options(fake: &Fake, version: &str) -> NfsOptions {
    NfsOptions { timeout_ns: 30_000_000_000, depth: 8, ..fake.options(version) }
}

fn kind_of<T>(outcome: Result<T>) -> ErrorKind {
    outcome.err().expect("it must fail").kind
}

/// The file of a first session, claimed from a second one; `meanwhile` the server may restart. Whether it was kept.
fn claimed(meanwhile: impl FnOnce(&mut State), version: &str) -> Result<bool> {
    let fake = Fake::start(Vec::new());
    let target = NfsTarget::new(options(&fake, version))?;
    let (identity, claim) = lose(&target);
    meanwhile(&mut fake.state.lock().unwrap());
    let mut second = target.connect_lasting(0, KEEP, &identity)?;
    let claimed = second.reclaim("data", &to_write(), &claim)?;
    second.end_reclaim()?;
    let is_kept = claimed.is_some();
    let file = claimed.map_or_else(|| second.open("data", &to_write()), Ok)?;
    assert_eq!(second.identity(), identity, "the same client");
    second.close(file)?;
    Ok(is_kept)
}

fn restart(state: &mut State) {
    (state.client, state.client_id) = (None, state.client_id + 1);
}

#[test]
fn files_that_the_server_kept_are_claimed() {
    for version in ["3", "4.1"] {
        assert!(claimed(|_| (), version).unwrap(), "{version}");
    }
    let in_grace = |state: &mut State| {
        restart(state);
        state.grace = true;
    };
    assert!(claimed(in_grace, "4.1").unwrap());
    assert!(!claimed(restart, "4.1").unwrap(), "no grace period");
    const EXPIRED: u32 = 10011;
    let expired = |state: &mut State| state.faults.push_back((On::Read, Fault::Status(EXPIRED)));
    assert!(!claimed(expired, "4.1").unwrap(), "the client is known, its opens are not");
    const IO: u32 = 5;
    let failing = |state: &mut State| state.faults.push_back((On::Read, Fault::Status(IO)));
    assert!(claimed(failing, "4.1").unwrap(), "the disk fails, the open is there");
}

#[test]
fn a_session_that_is_lost_again_is_no_refusal() {
    const BADSESSION: u32 = 10052;
    let lost = |state: &mut State| state.faults.push_back((On::Read, Fault::Status(BADSESSION)));
    assert_eq!(claimed(lost, "4.1").unwrap_err().kind, ErrorKind::Disconnected);
    // The number of the next session was lost, too: the server's word counts.
    let number = |state: &mut State| state.client.as_mut().unwrap().1 = 77;
    assert!(claimed(number, "4.1").unwrap());
    // Refused before the file was looked at: of the first, GETATTR for the limits, the slot says nothing yet.
    const BADSLOT: u32 = 10053;
    let refused = |state: &mut State| {
        state.faults = vec![(On::Limits, Fault::Short(0)), (On::Sequence, Fault::Status(BADSLOT))].into();
    };
    assert_eq!(claimed(refused, "4.1").unwrap_err().status, i64::from(BADSLOT));
    // NFS 3: JUKEBOX.
    let busy = |state: &mut State| state.faults = vec![(On::Attributes, Fault::Status(10008)); 100].into();
    let error = limit::capped(Duration::from_secs(1), || claimed(busy, "3")).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Delayed);
}

const KEEP: Duration = Duration::from_secs(60);

fn to_write() -> OpenOptions {
    OpenOptions { read: true, write: true, create: Create::IfMissing, ..OpenOptions::default() }
}

/// A first session with the file open, lost: its identity, and what the file is claimed with.
fn lose(target: &NfsTarget) -> (Vec<u8>, Claim) {
    let mut first = target.connect_lasting(0, KEEP, &[]).unwrap();
    let file = first.open("data", &to_write()).unwrap();
    (first.identity(), first.claim(file).unwrap())
}

#[test]
fn an_attempt_that_failed_costs_no_later_one() {
    // Of the calls that join connections to the session the second is lost; or the one that asks for limits.
    for lost in [On::Sequence, On::Limits] {
        let fake = Fake::start(Vec::new());
        let target = NfsTarget::new(NfsOptions { connections: 3, ..options(&fake, "4.1") }).unwrap();
        let (identity, claim) = lose(&target);
        let mut faults = vec![(lost, Fault::Close)];
        if lost == On::Sequence {
            faults.insert(0, (On::Sequence, Fault::Fragments(7)));
        }
        fake.state.lock().unwrap().faults = faults.into();
        assert_eq!(kind_of(target.connect_lasting(0, KEEP, &identity)), ErrorKind::Disconnected);
        let mut second = target.connect_lasting(0, KEEP, &identity).unwrap_or_else(|e| panic!("{lost:?}: {e}"));
        assert!(second.reclaim("data", &to_write(), &claim).unwrap().is_some());
    }
    // The server restarted, and the answer to the new client's CREATE_SESSION was lost.
    let fake = Fake::start(Vec::new());
    let target = NfsTarget::new(options(&fake, "4.1")).unwrap();
    let (identity, claim) = lose(&target);
    restart(&mut fake.state.lock().unwrap());
    fake.state.lock().unwrap().grace = true;
    fake.state.lock().unwrap().faults.push_back((On::Session, Fault::Close));
    assert_eq!(kind_of(target.connect_lasting(0, KEEP, &identity)), ErrorKind::Disconnected);
    let mut second = target.connect_lasting(0, KEEP, &identity).unwrap();
    assert!(second.reclaim("data", &to_write(), &claim).unwrap().is_some());
}

#[test]
fn files_are_claimed_in_the_version_in_which_they_were_opened() {
    let fake = Fake::start(Vec::new());
    let target = NfsTarget::new(NfsOptions { version: None, ..options(&fake, "3") }).unwrap();
    let (identity, claim) = lose(&target);
    const BADSESSION: u32 = 10052;
    fake.state.lock().unwrap().faults = vec![(On::Limits, Fault::Status(BADSESSION)); 2].into();
    let error = target.connect_lasting(0, KEEP, &identity).err().expect("the server does not know the session");
    assert_eq!((error.kind, error.status), (ErrorKind::Disconnected, i64::from(BADSESSION)), "{error}");
    let mut second = target.connect_lasting(0, KEEP, &identity).unwrap();
    assert!(second.reclaim("data", &to_write(), &claim).unwrap().is_some());
    assert!(target.facts().contains(&("dialect".into(), "4.1".into())));
}

#[test]
fn a_client_that_renewed_itself_is_followed() {
    let fake = Fake::start(Vec::new());
    let target = NfsTarget::new(options(&fake, "4.1")).unwrap();
    let first = target.connect_lasting(0, KEEP, &[]).unwrap();
    let identity = first.identity();
    // The server forgets the client while it has nothing open, and is asked again after half of a lease of one second.
    fake.state.lock().unwrap().lease_seconds = 1;
    drop(first);
    let mut first = target.connect_lasting(0, KEEP, &identity).unwrap();
    first.end_reclaim().unwrap();
    restart(&mut fake.state.lock().unwrap());
    fake.state.lock().unwrap().session += 1;
    std::thread::sleep(Duration::from_millis(5200));
    let file = first.open("data", &to_write()).unwrap();
    assert!(first.events().contains(&("client_renewal", 1)));
    let claim = first.claim(file).unwrap();
    drop(first);
    let mut second = target.connect_lasting(0, KEEP, &identity).unwrap();
    assert!(second.reclaim("data", &to_write(), &claim).unwrap().is_some());
}

#[test]
fn open_owners_have_longer_names_only_after_a_loss() {
    let fake = Fake::start(Vec::new());
    let target = NfsTarget::new(options(&fake, "4.1")).unwrap();
    target.connect(0).unwrap().open("data", &to_write()).unwrap();
    let (identity, _) = lose(&target);
    let mut second = target.connect_lasting(0, KEEP, &identity).unwrap();
    second.end_reclaim().unwrap();
    second.open("data", &to_write()).unwrap();
    let owners = fake.state.lock().unwrap().owners.clone();
    assert_eq!((&owners[0][..], &owners[1]), (&b"naslab\0\0\0\0"[..], &owners[0]));
    assert_eq!((owners[2].len(), &owners[2][..10]), (14, &owners[0][..]));
}

#[test]
fn nobody_takes_leave_before_all_is_claimed() {
    let fake = Fake::start(Vec::new());
    let target = NfsTarget::new(options(&fake, "4.1")).unwrap();
    let (identity, claim) = lose(&target);
    let attempt = target.connect_lasting(0, KEEP, &identity).unwrap();
    let before = fake.count(On::Leave);
    drop(attempt);
    assert_eq!(fake.count(On::Leave), before, "it failed before its first claim");
    let mut second = target.connect_lasting(0, KEEP, &identity).unwrap();
    let file = second.reclaim("data", &to_write(), &claim).unwrap().unwrap();
    second.end_reclaim().unwrap();
    second.close(file).unwrap();
    let before = fake.count(On::Leave);
    drop(second);
    assert_eq!(fake.count(On::Leave), before + 2, "session and client");
}

#[test]
fn a_close_that_was_lost_is_repeated_with_its_owners_next_number() {
    let fake = Fake::start(Vec::new());
    fake.state.lock().unwrap().also_40 = true;
    let target = NfsTarget::new(options(&fake, "4.0")).unwrap();
    let mut first = target.connect_lasting(0, KEEP, &[]).unwrap();
    let (identity, file) = (first.identity(), first.open("data", &to_write()).unwrap());
    const DELAY: u32 = 10008;
    let faults = vec![(On::Close, Fault::Status(DELAY)), (On::Any, Fault::Close)];
    fake.state.lock().unwrap().faults = faults.into();
    assert_eq!(first.close(file).unwrap_err().kind, ErrorKind::Disconnected);
    // The call that was lost was not counted: nobody carried it out.
    let claim = first.claim(file).expect("it is still to be closed");
    fake.state.lock().unwrap().owner_next = 2;
    drop(first);
    let mut second = target.connect_lasting(0, KEEP, &identity).unwrap();
    let file = second.reclaim("data", &to_write(), &claim).unwrap().unwrap();
    second.close(file).unwrap();
}

#[test]
fn opens_that_the_server_revoked_are_freed() {
    const EXPIRED: u32 = 10011;
    const BAD_STATEID: u32 = 10025;
    const ADMIN_REVOKED: u32 = 10047;
    const DELEG_REVOKED: u32 = 10087;
    for (read, tested, is_kept, freed) in [
        (EXPIRED, 0, false, 1),
        (ADMIN_REVOKED, 0, false, 1),
        (DELEG_REVOKED, 0, false, 1),
        (0, ADMIN_REVOKED, false, 1),
        (0, 0, true, 0),
        (BAD_STATEID, 0, false, 0),
    ] {
        let fake = Fake::start(Vec::new());
        let target = NfsTarget::new(options(&fake, "4.1")).unwrap();
        let (identity, claim) = lose(&target);
        {
            let mut state = fake.state.lock().unwrap();
            (state.revoked, state.tested) = (true, tested);
            state.faults.extend((read != 0).then_some((On::Read, Fault::Status(read))));
        }
        let mut second = target.connect_lasting(0, KEEP, &identity).unwrap();
        let claimed = second.reclaim("data", &to_write(), &claim).unwrap();
        assert_eq!((claimed.is_some(), fake.count(On::Free)), (is_kept, freed), "{read} {tested}");
        assert_eq!(fake.state.lock().unwrap().revoked, freed == 0, "the server no longer tells of it");
        assert_eq!(second.events().contains(&("state_freed", 1)), freed == 1);
        second.end_reclaim().unwrap();
        second.open("data", &to_write()).unwrap();
        assert_eq!(fake.count(On::Free), freed, "once");
    }
}

/// What became of the first session while the client was away.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    /// It carried the call out, and lives on.
    Lives,
    /// It lives on, and the call never reached it.
    MissedTheCall,
    /// It carried the call out, and is over.
    Ended,
}

/// A second session, in which the call that the first one lost is to be repeated.
fn repeating(fake: &Fake, at: On, first: First, call: impl Fn(&mut dyn Session) -> Result<()>) -> Box<dyn Session> {
    let target = NfsTarget::new(options(fake, "4.1")).unwrap();
    let mut session = target.connect_lasting(0, KEEP, &[]).unwrap();
    let identity = session.identity();
    let before = fake.state.lock().unwrap().exists;
    fake.state.lock().unwrap().faults.push_back((at, Fault::Close));
    assert_eq!(call(&mut *session).unwrap_err().kind, ErrorKind::Disconnected);
    drop(session);
    {
        let mut state = fake.state.lock().unwrap();
        match first {
            First::Lives => {}
            First::MissedTheCall => {
                state.exists = before;
                state.kept.pop().expect("the client wanted the answer to be kept");
                let next = state.slots.iter_mut().find(|next| **next > 1).unwrap();
                *next -= 1;
            }
            First::Ended => state.session += 1,
        }
    }
    // An attempt that fails before anything is repeated takes nothing away.
    drop(target.connect_lasting(0, KEEP, &identity).unwrap());
    let mut session = target.connect_lasting(0, KEEP, &identity).unwrap();
    session.end_reclaim().unwrap();
    session.repeat();
    session
}

#[test]
fn a_call_whose_answer_was_lost_is_carried_out_once() {
    let new = OpenOptions { create: Create::New, ..to_write() };
    let opening = |session: &mut dyn Session| session.open("data", &new).map(drop);
    let removing = |session: &mut dyn Session| session.remove("data");
    for (first, replayed) in [(First::Lives, 1), (First::MissedTheCall, 1), (First::Ended, 0)] {
        let fake = Fake::start(Vec::new());
        fake.state.lock().unwrap().guards = true;
        let mut second = repeating(&fake, On::Create, first, opening);
        match (replayed, second.open("data", &new)) {
            (1, Ok(file)) => second.close(file).unwrap(),
            (_, outcome) => assert_eq!(kind_of(outcome), ErrorKind::Exists),
        }
        assert_eq!(second.events().contains(&("answer_replayed", 1)), replayed == 1);
        let mut second = repeating(&fake, On::Remove, first, removing);
        match (replayed, second.remove("data")) {
            (1, outcome) => outcome.unwrap(),
            (_, outcome) => assert_eq!(kind_of(outcome), ErrorKind::NotFound),
        }
        let state = fake.state.lock().unwrap();
        assert!(!state.exists && state.lost_sessions.iter().all(|(lost, _)| *lost != 1), "it was ended");
    }
}

#[test]
fn answers_are_kept_of_calls_that_change_something_and_only_for_sessions_that_may_ask() {
    let fake = Fake::start(Vec::new());
    let target = NfsTarget::new(options(&fake, "4.1")).unwrap();
    let kept = |fake: &Fake| fake.state.lock().unwrap().kept.len();
    target.connect(0).unwrap().open("data", &to_write()).unwrap();
    assert_eq!(kept(&fake), 0);
    let mut session = target.connect_lasting(0, KEEP, &[]).unwrap();
    session.open("data", &to_write()).unwrap();
    assert_eq!(kept(&fake), 1, "the open, and neither what finds the file nor what set the session up");
    // What is repeated is another call than the one that was lost, in its operation, its name or how it opens: it is
    // made, and nothing is asked about. The session that was lost is ended all the same, at the latest with the client.
    let others: [fn(&mut dyn Session); 4] = [
        |s| drop(s.remove("data")),
        |s| drop(s.remove("other")),
        |s| drop(s.open("data", &OpenOptions { create: Create::New, ..to_write() })),
        |_| (),
    ];
    for (at, other) in others.into_iter().enumerate() {
        let fake = Fake::start(Vec::new());
        let target = NfsTarget::new(options(&fake, "4.1")).unwrap();
        let mut first = target.connect_lasting(0, KEEP, &[]).unwrap();
        let lost = if at == 1 { On::Remove } else { On::Create };
        fake.state.lock().unwrap().faults.push_back((lost, Fault::Close));
        match lost {
            On::Remove => first.remove("data").unwrap_err(),
            _ => first.open("data", &to_write()).unwrap_err(),
        };
        let mut second = target.connect_lasting(0, KEEP, &first.identity()).unwrap();
        second.end_reclaim().unwrap();
        second.repeat();
        other(&mut *second);
        assert!(!second.events().iter().any(|(name, _)| *name == "answer_replayed"), "{at}");
        let file = second.open("data", &to_write()).unwrap();
        second.close(file).unwrap();
        drop(second);
        assert!(fake.state.lock().unwrap().lost_sessions.iter().all(|(session, _)| *session != 1), "{at}");
    }
}
