//! Compounds of NFS 4.1 and 4.0.

use super::v3::store;
use super::{put, put_opaque, Answer, Fault, On, State, Words};
use std::sync::Mutex;

const BAD_SEQID: u32 = 10026;
const SEQ_MISORDERED: u32 = 10063;

pub fn nfs(procedure: u32, words: &mut Words<'_>, state: &Mutex<State>) -> Answer {
    if procedure == 0 {
        return Answer { results: Vec::new(), fault: None };
    }
    let mut state = state.lock().unwrap();
    words.opaque();
    let (minor, count) = (words.u32(), words.u32());
    if minor != 1 && !(minor == 0 && state.also_40) {
        let mut results = Vec::new();
        put(&mut results, &[10021, 0, 0]);
        return Answer { results, fault: None };
    }
    let before = state.slots.clone();
    let mut body = Vec::new();
    let call = call_of(words);
    if let Some(kept) = call.and_then(|call| state.kept.iter().find(|(of, _)| *of == call)) {
        return Answer { results: kept.1.clone(), fault: None };
    }
    let (mut done, mut overall, mut fault) = (0, 0, None);
    for _ in 0..count {
        let op = words.u32();
        let (status, results) = carry_out(op, minor, words, &mut state, &mut fault);
        put(&mut body, &[op, status]);
        body.extend_from_slice(&results);
        done += 1;
        overall = status;
        if status != 0 {
            break;
        }
    }
    if let Some(Fault::Auth(_)) = fault {
        // Refused before the session sees it.
        state.slots = before;
    }
    let mut results = Vec::new();
    put(&mut results, &[overall, 0, done]);
    results.extend_from_slice(&body);
    state.kept.extend(call.map(|call| (call, results.clone())));
    Answer { results, fault }
}

/// Session, slot and number of a call whose answer is to be kept.
fn call_of(words: &Words<'_>) -> Option<[u32; 3]> {
    let mut words = Words(words.0);
    if words.0.len() < 36 || words.u32() != 53 {
        return None;
    }
    let session = u32::from(words.raw(16)[0]);
    let (number, slot, _) = (words.u32(), words.u32(), words.u32());
    (words.u32() == 1).then_some([session, slot, number])
}

fn carry_out(
    op: u32,
    minor: u32,
    words: &mut Words<'_>,
    state: &mut State,
    fault: &mut Option<Fault>,
) -> (u32, Vec<u8>) {
    let kind = match op {
        53 => On::Sequence,
        18 => On::Create,
        25 => On::Read,
        38 => On::Write,
        5 => On::Commit,
        15 => On::Lookup,
        43 => On::Session,
        9 => On::Limits,
        4 => On::Close,
        44 | 57 => On::Leave,
        45 => On::Free,
        28 => On::Remove,
        _ => On::Any,
    };
    if kind != On::Any {
        if let Some(new) = state.fault(kind) {
            if let Fault::Status(status) = new {
                // Of a call that failed so an open-owner counts all the same.
                state.owner_next += u32::from(op == 4);
                return (status, Vec::new());
            }
            *fault = Some(new);
        }
    }
    let mut out = Vec::new();
    let status = match op {
        53 => return sequence(words, state),
        42 => exchange_id(words, state, &mut out),
        43 => return create_session(words, state),
        9 => getattr(words, state, &mut out),
        18 => open(minor, words, state, &mut out),
        35 => {
            // Callbacks end the compound: nothing reads on.
            put(&mut out, &[0, state.client_id, 0, 0]);
            0
        }
        36 => 0,
        25 => read(words, state, &mut out),
        38 => write(words, state, fault, &mut out),
        5 => commit(state, fault, &mut out),
        10 => {
            put_opaque(&mut out, b"handle");
            0
        }
        4 => {
            let number = words.u32();
            words.raw(16);
            out.extend([0; 16]);
            let is_next = minor == 1 || number == state.owner_next;
            state.owner_next += u32::from(is_next);
            if is_next {
                0
            } else {
                BAD_SEQID
            }
        }
        15 => {
            if words.opaque() == b"data" && state.guards && !state.exists {
                2
            } else {
                0
            }
        }
        22 => {
            words.opaque();
            0
        }
        17 => {
            // NVERIFY: it is no folder.
            words.raw(8);
            words.opaque();
            0
        }
        58 => words.u32(),
        57 => {
            state.client = None;
            0
        }
        24 => 0,
        44 => {
            let session = words.raw(16)[0];
            state.lost_sessions.retain(|(lost, _)| *lost != session);
            0
        }
        41 => {
            let session = words.raw(16);
            words.raw(8);
            match session[0] == state.session || state.lost_sessions.iter().any(|(lost, _)| *lost == session[0]) {
                true => {
                    out.extend_from_slice(session);
                    put(&mut out, &[1, 0]);
                    0
                }
                false => 10052,
            }
        }
        45 => {
            words.raw(16);
            state.revoked = false;
            0
        }
        55 => {
            let count = words.u32();
            words.raw(16 * count as usize);
            put(&mut out, &[1, state.tested]);
            0
        }
        28 => {
            words.opaque();
            state.exists = false;
            put(&mut out, &[0, 0, 0, 0, 0]);
            0
        }
        other => panic!("operation {other}"),
    };
    (status, out)
}

/// Checks that each slot's numbers count up by one: exactly once.
fn sequence(words: &mut Words<'_>, state: &mut State) -> (u32, Vec<u8>) {
    let session = words.raw(16);
    let State { slots, lost_sessions, .. } = state;
    let slots = match lost_sessions.iter_mut().find(|(lost, _)| *lost == session[0]) {
        _ if session == [state.session; 16] => slots,
        Some((_, slots)) => slots,
        None => return (10052, Vec::new()),
    };
    let (number, slot, highest, _) = (words.u32(), words.u32(), words.u32(), words.u32());
    assert!(slot <= highest && (highest as usize) < slots.len());
    let last = slots.len() as u32 - 1;
    let next = &mut slots[slot as usize];
    if state.forgives && number + 1 == *next {
        return (10068, Vec::new());
    }
    if number != *next {
        return (SEQ_MISORDERED, Vec::new());
    }
    *next += 1;
    let mut out = session.to_vec();
    put(&mut out, &[number, slot, last, last, if state.revoked { 0x20 } else { 0 }]);
    (0, out)
}

fn exchange_id(words: &mut Words<'_>, state: &mut State, out: &mut Vec<u8>) -> u32 {
    let mut who = words.raw(8).to_vec();
    who.extend(words.opaque());
    // Its other arguments end the compound: nothing reads on.
    let known = state.client.as_ref().is_some_and(|(client, next)| *client == who && *next > 1);
    if !known {
        state.client = Some((who, 1));
    }
    // What is said of the number counts only for new clients.
    put(out, &[0, state.client_id, if known { 77 } else { 1 }, u32::from(known) << 31 | 0x0001_0000, 0, 0, 0]);
    put_opaque(out, b"fake");
    put_opaque(out, b"scope");
    put(out, &[0]);
    0
}

fn create_session(words: &mut Words<'_>, state: &mut State) -> (u32, Vec<u8>) {
    let (client_id, number) = (words.u64(), words.u32());
    let Some((_, next)) = &mut state.client else { panic!("no client") };
    assert_eq!(client_id, u64::from(state.client_id));
    // A number that was seen last is answered as it was: with a session whose slots may be in use.
    if number != *next && number + 1 != *next {
        return (SEQ_MISORDERED, Vec::new());
    }
    if number == *next {
        *next += 1;
        let lost = (state.session, state.slots.clone());
        state.lost_sessions.push(lost);
        state.session += 1;
        state.slots.fill(1);
    }
    let bytes = state.most_bytes + 4096;
    let mut out = [state.session; 16].to_vec();
    put(&mut out, &[1, 0]);
    put(&mut out, &[0, bytes, bytes, 4096, 16, state.slots.len() as u32, 0]);
    put(&mut out, &[0, 4096, 4096, 4096, 2, 1, 0]);
    (0, out)
}

/// Sends type, size, fsid, lease, largest file, read and write, as far as asked for.
fn getattr(words: &mut Words<'_>, state: &State, out: &mut Vec<u8>) -> u32 {
    let count = words.u32();
    let asked: Vec<u32> = (0..count).map(|_| words.u32()).collect();
    let mut values = Vec::new();
    let mut sent = 0;
    for (bit, words) in [
        (1u32, vec![2]),
        (4, vec![0, state.file.len() as u32]),
        (8, vec![0, 1, 0, 1]),
        (10, vec![state.lease_seconds]),
        (27, vec![1, 0]),
        (30, vec![0, state.most_bytes]),
        (31, vec![0, state.most_bytes]),
    ] {
        if asked[0] & (1 << bit) != 0 {
            sent |= 1 << bit;
            put(&mut values, &words);
        }
    }
    put(out, &[1, sent]);
    put_opaque(out, &values);
    0
}

/// Takes the arguments of an OPEN that creates or opens `data`.
fn open(minor: u32, words: &mut Words<'_>, state: &mut State, out: &mut Vec<u8>) -> u32 {
    let number = words.u32();
    words.raw(4 + 4 + 8);
    state.owners.push(words.opaque().to_vec());
    if minor == 0 {
        // A new owner may begin anywhere.
        state.owner_next = number + 1;
    }
    let mut guarded = false;
    if words.u32() == 1 {
        guarded = words.u32() == 1;
        let mask = words.u32();
        words.raw(4 * mask as usize);
        words.opaque();
    }
    match words.u32() {
        0 => assert_eq!(words.opaque(), b"data"),
        1 => {
            assert_eq!(words.u32(), 0, "there was no delegation");
            if !state.grace {
                return 10033;
            }
        }
        other => panic!("claim {other}"),
    }
    if std::mem::replace(&mut state.exists, true) && guarded && state.guards {
        return 17;
    }
    out.extend([6; 16]);
    out.extend([0; 20]);
    put(out, &[4, 0, 0]);
    0
}

fn read(words: &mut Words<'_>, state: &State, out: &mut Vec<u8>) -> u32 {
    words.raw(16);
    let (offset, count) = (words.u64() as usize, words.u32() as usize);
    let start = offset.min(state.file.len());
    let end = (start + count).min(state.file.len());
    put(out, &[u32::from(end == state.file.len())]);
    put_opaque(out, &state.file[start..end]);
    0
}

fn write(words: &mut Words<'_>, state: &mut State, fault: &Option<Fault>, out: &mut Vec<u8>) -> u32 {
    // In 4.0 as it was opened.
    assert!([[0; 4], [6; 4]].iter().any(|state| words.0.starts_with(state)), "the state as it is now");
    words.raw(16);
    let (offset, stable) = (words.u64() as usize, words.u32());
    let data = words.opaque();
    if matches!(fault, Some(Fault::NewVerifier)) {
        state.verifier = state.verifier.map(|byte| byte + 1);
    }
    let (count, committed) = store(state, fault, offset, stable, data);
    put(out, &[count, committed]);
    out.extend_from_slice(&state.verifier);
    0
}

fn commit(state: &mut State, fault: &Option<Fault>, out: &mut Vec<u8>) -> u32 {
    if matches!(fault, Some(Fault::NewVerifier)) {
        state.verifier = state.verifier.map(|byte| byte + 1);
    }
    out.extend_from_slice(&state.verifier);
    0
}
