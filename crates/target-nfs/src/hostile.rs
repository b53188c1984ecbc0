//! Hostile replies: random bytes, cut and changed valid replies, through every decoder and through a whole session's
//! receive path. Nothing may panic, hang, or write outside of the caller's memory.
//!
//! `NASLAB_HOSTILE_INPUTS=N` tries so many inputs in each test (a sixteenth of them in sessions);
//! `NASLAB_HOSTILE_SEED` others.

use crate::files::OpenFile;
use crate::link::Link;
use crate::options::Version;
use crate::replies::data_reply;
use crate::rpc::NFS_PROGRAM;
use crate::rpc::{self, Credentials, Prefix};
use crate::security::Answer;
use crate::services::{take_exports, take_mount};
use crate::transport::{Setup, Transport};
use crate::xdr::{Decoder, Handle, Put};
use crate::{v3, v4};
use naslab_core::{ErrorKind, IoBuf, Op, OpKind};
use naslab_wire::Wire;
use socket2::Socket;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

const SEED: u64 = 0x6e66_735f_6675_7a7a;
const DECODER_CASES: usize = 60_000;
const SESSION_CASES: usize = 1_500;

/// A number from the environment.
fn setting(name: &str) -> Option<usize> {
    std::env::var(name).ok().map(|text| text.parse().expect("a whole number"))
}

/// xorshift64*: enough for bytes.
struct Chance(u64);

impl Chance {
    fn new(seed: u64) -> Chance {
        let other = setting("NASLAB_HOSTILE_SEED").unwrap_or(0) as u64;
        Chance(seed ^ other.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    /// Random bytes; words tend to be small, as in real replies.
    fn bytes(&mut self) -> Vec<u8> {
        let words = self.below(80);
        let mut out = Vec::new();
        for _ in 0..words {
            let word = self.next() as u32;
            out.put_u32(match self.below(4) {
                0 => word,
                1 => word % 64,
                _ => word % 3,
            });
        }
        out.truncate(out.len().saturating_sub(self.below(4)));
        out
    }

    /// A reply with some bytes changed, or an end cut off or added.
    fn mutate(&mut self, valid: &[u8]) -> Vec<u8> {
        let mut out = valid.to_vec();
        for _ in 0..1 + self.below(4) {
            let at = self.below(out.len());
            match self.below(5) {
                0 => out.truncate(at),
                1 => out.extend_from_slice(&self.bytes()),
                2 if !out.is_empty() => out[at] = self.next() as u8,
                3 if out.len() >= at + 4 => out[at..at + 4].copy_from_slice(&[0xff; 4]),
                _ if !out.is_empty() => out[at] ^= 1 << self.below(8),
                _ => {}
            }
        }
        out
    }
}

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_be_bytes()).collect()
}

/// Results of a successful operation, from the status on.
fn valid_results(version: Version, kind: OpKind, count: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let op = match version.minor() {
        None => {
            out.put_u32(0);
            out.extend(if kind == OpKind::Read { words(&[0]) } else { words(&[0, 0]) });
            0
        }
        Some(minor) => {
            let slots = u32::from(minor > 0);
            out.extend(words(&[0, 0, 2 + slots]));
            if minor > 0 {
                out.extend(words(&[53, 0]));
                out.extend([5; 16]);
                out.extend(words(&[1, 0, 7, 7, 0]));
            }
            out.extend(words(&[22, 0]));
            match kind {
                OpKind::Read => 25,
                OpKind::Write => 38,
                OpKind::Flush => 5,
            }
        }
    };
    if op != 0 {
        out.extend(words(&[op, 0]));
    }
    match (kind, version.minor()) {
        (OpKind::Read, None) => out.extend(words(&[count, 0, count])),
        (OpKind::Read, Some(_)) => out.extend(words(&[0, count])),
        (OpKind::Write, _) => out.extend(words(&[count, 2, 1, 2])),
        (OpKind::Flush, _) => out.extend(words(&[1, 2])),
    }
    if kind == OpKind::Read {
        out.resize(out.len() + count as usize, 0xaa);
    }
    out
}

const KINDS: [OpKind; 3] = OpKind::ALL;

fn decode_everything(bytes: &[u8]) -> usize {
    let mut taken = usize::from(rpc::reply(&mut Decoder::new(bytes)).is_ok());
    taken += usize::from(take_exports(&mut Decoder::new(bytes)).is_ok());
    taken += usize::from(Answer::take(&mut Decoder::new(bytes)).is_ok());
    taken += usize::from(take_mount(&mut Decoder::new(bytes)).is_ok());
    for version in Version::ALL {
        for kind in KINDS {
            taken += usize::from(data_reply(&mut Decoder::new(bytes), version, kind).is_ok());
        }
    }
    taken + v3::decode_all(bytes) + v4::decode_all(bytes)
}

#[test]
fn no_decoder_panics() {
    let mut chance = Chance::new(SEED);
    let mut valid: Vec<Vec<u8>> = Vec::new();
    for version in Version::ALL {
        for kind in KINDS {
            let results = valid_results(version, kind, 16);
            assert!(data_reply(&mut Decoder::new(&results), version, kind).is_ok(), "{version:?} {kind:?}");
            valid.push(results);
        }
    }
    let mut taken = 0;
    for case in 0..setting("NASLAB_HOSTILE_INPUTS").unwrap_or(DECODER_CASES) {
        let bytes = match case % 2 {
            0 => chance.bytes(),
            _ => {
                let which = chance.below(valid.len());
                chance.mutate(&valid[which])
            }
        };
        // 33 decoders each: close to two million decodings.
        taken += decode_everything(&bytes);
    }
    assert!(taken > 1000, "some of them are well-formed");
}

/// A transport with one open file, and the server's end of its connection.
fn connected(version: Version) -> (Transport, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    let timeout = Duration::from_millis(300);
    let wire = Wire::new(Socket::from(client), timeout).unwrap();
    let who = Credentials { machine: "m".into(), ..Credentials::default() };
    let prefix = Prefix::new(NFS_PROGRAM, version.rpc(), &who);
    let setup = Setup { version, prefix, timeout, most_calls: 8, from_high_port: true };
    let mut t = Transport::new(vec![Link::new(wire, &"".into())], setup);
    t.slots = crate::calls::Slots::new([5; 16], 8);
    let handle = Handle::new(b"file").unwrap();
    t.files
        .insert(0, OpenFile { handle, state: [0; 16], stable: 0, verifier: None, lost: false, wrote_durably: false });
    (t, server)
}

/// One operation of 64 bytes, whose memory lies between guard bytes, answered with `answer`.
fn answer_with(version: Version, kind: OpKind, answer: impl FnOnce(u32) -> Vec<u8>) -> Result<bool, ErrorKind> {
    let (mut t, mut server) = connected(version);
    let mut memory = [0x5a; 64 + 2 * 64];
    let op = Op { kind, file: naslab_core::FileId(0), offset_bytes: 0, len_bytes: 64, due_ns: None };
    // SAFETY: the memory outlives the transport's use of it, which ends with this function.
    unsafe { t.submit(&op, IoBuf::from_slice(&mut memory[64..128]), 1) }.map_err(|e| e.kind)?;
    let mut call = [0; 8];
    server.read_exact(&mut call).unwrap();
    let xid = u32::from_be_bytes([call[4], call[5], call[6], call[7]]);
    server.write_all(&answer(xid)).unwrap();
    // Whatever the server promised to send is not coming.
    drop(server.shutdown(std::net::Shutdown::Write));
    let mut out = Vec::new();
    let outcome = loop {
        match t.reap(1, Some(Duration::from_millis(50)), &mut out) {
            Err(e) => break Err(e.kind),
            Ok(0) => {}
            Ok(_) => break Ok(out[0].error.is_none()),
        }
    };
    assert!(memory[..64].iter().chain(&memory[128..]).all(|byte| *byte == 0x5a), "written outside");
    outcome
}

fn record(xid: u32, results: &[u8]) -> Vec<u8> {
    let mut out = words(&[(24 + results.len()) as u32 | rpc::LAST_FRAGMENT, xid, 1, 0, 0, 0, 0]);
    out.extend_from_slice(results);
    out
}

#[test]
fn no_session_panics_hangs_or_writes_outside() {
    let mut chance = Chance::new(SEED ^ 1);
    let (mut good, mut failed, mut ended) = (0, 0, 0);
    for case in 0..setting("NASLAB_HOSTILE_INPUTS").map_or(SESSION_CASES, |n| n / 16) {
        let version = Version::ALL[case % 4];
        let kind = KINDS[case / 4 % 3];
        let results = valid_results(version, kind, 64);
        let found = answer_with(version, kind, |xid| match case % 5 {
            // The head stays right, so that the change reaches the inner decoders.
            0..=2 => record(xid, &chance.mutate(&results)),
            3 => chance.mutate(&record(xid, &results)),
            _ => record(xid, &chance.bytes()),
        });
        match found {
            Ok(true) => good += 1,
            Ok(false) => failed += 1,
            Err(kind) => {
                let typed = [ErrorKind::Protocol, ErrorKind::Disconnected, ErrorKind::Timeout];
                assert!(typed.contains(&kind), "case {case}: {kind:?}");
                ended += 1;
            }
        }
    }
    assert!(good > 0 && failed > 0 && ended > 0, "{good} {failed} {ended}");
}

#[test]
fn unchanged_replies_are_taken() {
    for version in Version::ALL {
        for kind in KINDS {
            let results = valid_results(version, kind, 64);
            assert_eq!(answer_with(version, kind, |xid| record(xid, &results)), Ok(true), "{version:?} {kind:?}");
        }
    }
}
