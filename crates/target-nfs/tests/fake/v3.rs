//! The mount protocol and NFS 3.

use super::{put, put_opaque, Answer, Fault, On, State, Words};
use std::sync::Mutex;

fn failed(status: u32, tail_words: usize) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, &[status]);
    out.resize(4 + 4 * tail_words, 0);
    out
}

pub fn mount(procedure: u32, state: &Mutex<State>) -> Answer {
    let mut out = Vec::new();
    if procedure == 0 {
        return Answer { results: out, fault: None };
    }
    if procedure == 5 {
        put(&mut out, &[1]);
        put_opaque(&mut out, b"/export");
        put(&mut out, &[0, 0]);
        return Answer { results: out, fault: None };
    }
    assert_eq!(procedure, 1, "MNT");
    let fault = state.lock().unwrap().fault(On::Mount);
    if let Some(Fault::Status(status)) = fault {
        return Answer { results: failed(status, 0), fault: None };
    }
    put(&mut out, &[0]);
    put_opaque(&mut out, b"root");
    put(&mut out, &[1, 1]);
    Answer { results: out, fault }
}

/// fattr3 of the root or the file.
fn attributes(out: &mut Vec<u8>, state: &State, folder: bool) {
    put(out, &[if folder { 2 } else { 1 }, 0o755, 1, 0, 0]);
    for value in [state.file.len() as u64, state.file.len() as u64, 0, 7, 3, 0, 0, 0] {
        out.extend_from_slice(&value.to_be_bytes());
    }
}

pub fn nfs(procedure: u32, words: &mut Words<'_>, state: &Mutex<State>) -> Answer {
    let mut state = state.lock().unwrap();
    let kind = match procedure {
        0 => return Answer { results: Vec::new(), fault: None },
        1 => On::Attributes,
        3 => On::Lookup,
        6 => On::Read,
        7 => On::Write,
        8 => On::Create,
        19 => On::Limits,
        21 => On::Commit,
        _ => On::Any,
    };
    let fault = state.fault(kind);
    if let Some(Fault::Status(status)) = fault {
        let tail = match procedure {
            7 | 8 | 21 => 2,
            _ => 1,
        };
        return Answer { results: failed(status, tail), fault: None };
    }
    if let Some(Fault::NewVerifier) = fault {
        state.verifier = state.verifier.map(|byte| byte + 1);
    }
    let results = match procedure {
        1 => getattr(words, &state),
        2 => setattr(words, &mut state),
        3 => lookup(&state),
        4 => access(),
        6 => read(words, &state, &fault),
        7 => write(words, &mut state, &fault),
        8 => create(&mut state),
        12 => {
            state.exists = false;
            failed(0, 2)
        }
        19 => limits(&state),
        21 => commit(&state),
        other => panic!("procedure {other}"),
    };
    Answer { results, fault }
}

fn getattr(words: &mut Words<'_>, state: &State) -> Vec<u8> {
    let folder = words.opaque() == b"root";
    let mut out = failed(0, 0);
    attributes(&mut out, state, folder);
    out
}

fn setattr(words: &mut Words<'_>, state: &mut State) -> Vec<u8> {
    words.opaque();
    assert_eq!((words.u32(), words.u32(), words.u32(), words.u32()), (0, 0, 0, 1), "only the size");
    state.file.resize(words.u64() as usize, 0);
    failed(0, 2)
}

fn lookup(state: &State) -> Vec<u8> {
    if !state.exists {
        return failed(2, 1);
    }
    let mut out = failed(0, 0);
    put_opaque(&mut out, b"file");
    put(&mut out, &[1]);
    attributes(&mut out, state, false);
    put(&mut out, &[0]);
    out
}

fn access() -> Vec<u8> {
    let mut out = failed(0, 1);
    put(&mut out, &[0x3f]);
    out
}

fn create(state: &mut State) -> Vec<u8> {
    state.exists = true;
    state.file.clear();
    let mut out = failed(0, 0);
    put(&mut out, &[1]);
    put_opaque(&mut out, b"file");
    put(&mut out, &[0, 0, 0]);
    out
}

fn read(words: &mut Words<'_>, state: &State, fault: &Option<Fault>) -> Vec<u8> {
    words.opaque();
    let (offset, mut count) = (words.u64() as usize, words.u32() as usize);
    if let Some(Fault::Short(most)) = fault {
        count = count.min(*most as usize);
    }
    let start = offset.min(state.file.len());
    let end = (start + count).min(state.file.len());
    let mut data = state.file[start..end].to_vec();
    if let Some(Fault::Long) = fault {
        data.extend([7; 64]);
    }
    let mut out = failed(0, 0);
    put(&mut out, &[1]);
    attributes(&mut out, state, false);
    put(&mut out, &[data.len() as u32, u32::from(end == state.file.len())]);
    put_opaque(&mut out, &data);
    out
}

/// Stores what the fault allows; count and stability to answer.
pub fn store(state: &mut State, fault: &Option<Fault>, offset: usize, stable: u32, data: &[u8]) -> (u32, u32) {
    let count = match fault {
        Some(Fault::Short(most)) => data.len().min(*most as usize),
        _ => data.len(),
    };
    let end = offset + count;
    if state.file.len() < end {
        state.file.resize(end, 0);
    }
    state.file[offset..end].copy_from_slice(&data[..count]);
    let committed = match fault {
        Some(Fault::LessStable) => 0,
        _ if state.always_stable => 2,
        _ => stable,
    };
    (count as u32, committed)
}

fn write(words: &mut Words<'_>, state: &mut State, fault: &Option<Fault>) -> Vec<u8> {
    words.opaque();
    let (offset, count, stable) = (words.u64() as usize, words.u32(), words.u32());
    let data = words.opaque();
    assert_eq!(count as usize, data.len());
    assert!(words.0.is_empty(), "nothing behind the data");
    let (count, committed) = store(state, fault, offset, stable, data);
    let mut out = failed(0, 2);
    put(&mut out, &[count, committed]);
    out.extend_from_slice(&state.verifier);
    out
}

fn commit(state: &State) -> Vec<u8> {
    let mut out = failed(0, 2);
    out.extend_from_slice(&state.verifier);
    out
}

fn limits(state: &State) -> Vec<u8> {
    let most = state.most_bytes;
    let mut out = failed(0, 1);
    put(&mut out, &[most, most, 1, most, most, 1, 4096, 0, u32::MAX, 0, 1, 0x1b]);
    out
}
