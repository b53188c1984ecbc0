//! Hostile answers: valid ones, changed at random by a seeded generator, through every decoder and through the
//! receiving side of a connection. A failing case prints its number, and the seed is fixed.
//!
//! `NASLAB_HOSTILE_INPUTS=N` tries so many inputs in each test (a sixteenth of them as whole streams);
//! `NASLAB_HOSTILE_SEED` others.

use crate::codec::{
    Header, Put, CREATE, FLAG_ASYNC, FLAG_RESPONSE, FLUSH, HEADER_BYTES, IOCTL, OPLOCK_BREAK, QUERY_DIRECTORY, READ,
    WRITE,
};
use crate::crypto::{CipherId, Signer, SigningId};
use crate::file;
use crate::link::{Link, Reply};
use crate::options::Dialect;
use crate::seal::Seal;
use crate::window::{Kind, Pending};
use naslab_core::{ErrorKind, IoBuf};
use naslab_wire::Wire;
use std::io::Write;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

const SESSION: u64 = 0x55;
/// The operation's memory lies between guards that must not change.
const GUARD_BYTES: usize = 64;
const DATA_BYTES: usize = 256;
const GUARD: u8 = 0xA7;

/// A number from the environment.
fn setting(name: &str) -> Option<usize> {
    std::env::var(name).ok().map(|text| text.parse().expect("a whole number"))
}

fn inputs(usual: usize) -> usize {
    setting("NASLAB_HOSTILE_INPUTS").unwrap_or(usual)
}

struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        let other = setting("NASLAB_HOSTILE_SEED").unwrap_or(0) as u64;
        Random(seed ^ other.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    /// Changes bytes, whole numbers, the length, or nothing.
    fn spoil(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..self.below(4) {
            let at = self.below(bytes.len());
            match self.below(6) {
                0 => bytes.truncate(at),
                1 => bytes.extend((0..self.below(40)).map(|n| n as u8)),
                2 if bytes.len() >= at + 4 => {
                    let odd = [0, 1, 7, 0x7FFF_FFFF, u32::MAX, bytes.len() as u32, 80, 64][self.below(8)];
                    bytes[at..at + 4].copy_from_slice(&odd.to_le_bytes());
                }
                _ if bytes.is_empty() => {}
                _ => bytes[at] = self.next() as u8,
            }
            if bytes.is_empty() {
                return;
            }
        }
    }
}

fn message(command: u16, id: u64, status: u32, flags: u32, body: &[u8]) -> Vec<u8> {
    let mut out = vec![0xFE, b'S', b'M', b'B', 64, 0, 1, 0];
    out.u32(status);
    out.u16(command);
    out.u16(1);
    out.u32(FLAG_RESPONSE | flags);
    out.u32(0);
    out.u64(id);
    out.zeros(8);
    out.u64(SESSION);
    out.zeros(16);
    out.put(body);
    out
}

fn read_answer(id: u64, data_bytes: usize) -> Vec<u8> {
    let mut body = Vec::new();
    body.u16(17);
    body.put(&[80, 0]);
    body.u32(data_bytes as u32);
    body.zeros(8);
    body.extend((0..data_bytes).map(|n| n as u8));
    message(READ, id, 0, 0, &body)
}

fn output_answer(command: u16, id: u64, output: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    body.u16(9);
    body.u16(72);
    body.u32(output.len() as u32);
    body.put(output);
    message(command, id, 0, 0, &body)
}

/// Valid answers of all kinds; ids 1 to 3 are a read, a write and a flush, 4 to 6 parts of a call.
fn answers() -> Vec<Vec<u8>> {
    let mut write = vec![0; 16];
    write[0] = 17;
    write[4] = 200;
    let mut create = vec![0; 88];
    (create[0], create[56]) = (89, 0x10);
    let mut lease = vec![0; 44];
    (lease[0], lease[4]) = (44, 1);
    let mut oplock = vec![0; 24];
    oplock[0] = 24;
    let mut listing = vec![0; 64 + 6];
    listing[60] = 6;
    listing[64..].copy_from_slice(&[b'a', 0, b'b', 0, b'c', 0]);
    let mut compound = message(CREATE, 4, 0, 0, &create);
    compound.align8();
    let next = compound.len() as u32;
    compound[20..24].copy_from_slice(&next.to_le_bytes());
    compound.put(&output_answer(QUERY_DIRECTORY, 5, &listing));
    vec![
        read_answer(1, DATA_BYTES),
        read_answer(1, 3),
        message(WRITE, 2, 0, 0, &write),
        message(FLUSH, 3, 0, 0, &[4, 0, 0, 0]),
        message(READ, 1, 0xC000_0011, 0, &[9, 0, 0, 0, 0, 0, 0, 0, 0]),
        message(READ, 1, 0x103, FLAG_ASYNC, &[9, 0, 0, 0, 0, 0, 0, 0, 0]),
        message(OPLOCK_BREAK, u64::MAX, 0, 0, &lease),
        message(OPLOCK_BREAK, u64::MAX, 0, 0, &oplock),
        output_answer(QUERY_DIRECTORY, 5, &listing),
        message(IOCTL, 6, 0xC000_000D, 0, &[49; 60]),
        compound,
    ]
}

fn pair() -> (TcpStream, Wire) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    (far, Wire::new(near.into(), Duration::from_millis(300)).unwrap())
}

/// The memory of one read and one write, between guards.
struct Memory(Vec<u8>);

impl Memory {
    fn new() -> Memory {
        Memory(vec![GUARD; 2 * GUARD_BYTES + DATA_BYTES])
    }

    fn lend(&mut self) -> IoBuf {
        IoBuf::from_slice(&mut self.0[GUARD_BYTES..GUARD_BYTES + DATA_BYTES])
    }

    fn is_whole(&self) -> bool {
        let end = GUARD_BYTES + DATA_BYTES;
        self.0[..GUARD_BYTES].iter().chain(&self.0[end..]).all(|b| *b == GUARD)
    }
}

/// Makes requests 1 to 6 outstanding.
fn expect_all(link: &mut Link, memory: &mut Memory, signed: bool) {
    link.session_id = SESSION;
    link.max_frame = 1 << 20;
    link.window = crate::window::Window::new(64);
    link.window.grant(100);
    link.finished.clear();
    link.replies.data.clear();
    link.replies.list.clear();
    let kinds = [Kind::Ignore, Kind::Read, Kind::Write, Kind::Flush, Kind::Call(0), Kind::Call(1), Kind::Call(2)];
    for kind in kinds {
        let (id, _) = link.window.take(1);
        let buf = if matches!(kind, Kind::Read | Kind::Write) { memory.lend() } else { IoBuf::empty() };
        link.window.expect(Pending { id, kind, charge: 1, signed, slot: 0, at: 0, buf });
    }
    for command in [CREATE, QUERY_DIRECTORY, IOCTL] {
        link.replies.list.push(Reply { command, status: 0, range: 0..0, done: false, sealed: false });
    }
    link.replies.missing = 3;
}

fn check_finished(link: &Link, case: usize) {
    for part in &link.finished {
        assert!(part.bytes as usize <= DATA_BYTES, "case {case}: {part:?}");
    }
    assert!(link.window.total() < 1 << 21, "case {case}");
}

#[test]
fn spoiled_messages_never_panic_or_write_outside() {
    let mut random = Random::new(0x9E37_79B9_7F4A_7C15);
    let answers = answers();
    let (_far, wire) = pair();
    let mut link = Link::new(wire, &"".into(), 64);
    let mut memory = Memory::new();
    let (mut good, mut bad) = (0, 0);
    let count = inputs(100_000);
    for case in 0..count {
        expect_all(&mut link, &mut memory, case % 4 == 0);
        link.signer = (case % 8 == 0).then(|| Signer::new(SigningId::ALL[case % 3], &[1; 16]));
        let mut frame = answers[random.below(answers.len())].clone();
        random.spoil(&mut frame);
        match link.take_frame(&frame, case % 16 == 0) {
            Ok(()) => good += 1,
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::Protocol, "case {case}: {error}");
                bad += 1;
            }
        }
        assert!(memory.is_whole(), "case {case} wrote outside the operation's memory");
        check_finished(&link, case);
    }
    assert!(good > count / 10 && bad > count / 10, "{good} good, {bad} bad: the cases are not mixed");
}

/// Puts a message into an envelope as the server would.
fn sealed(seal: &mut Seal, message: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let at = seal.begin(&mut out, SESSION, message.len());
    out.put(message);
    seal.finish(&mut out, at, &[]);
    out
}

#[test]
fn spoiled_streams_end_in_typed_errors() {
    let mut random = Random::new(0x1234_5678_9ABC_DEF1);
    let answers = answers();
    let mut kinds = std::collections::BTreeMap::new();
    let count = setting("NASLAB_HOSTILE_INPUTS").map_or(6_000, |n| n / 16);
    for case in 0..count {
        let (mut far, wire) = pair();
        let mut link = Link::new(wire, &"".into(), 64);
        let mut memory = Memory::new();
        expect_all(&mut link, &mut memory, false);
        link.expect_large(case % 3 == 0);
        let mut frame = answers[random.below(answers.len())].clone();
        if case % 2 == 0 {
            let cipher = CipherId::ALL[case / 2 % 4];
            let key = &[1; 32][..cipher.key_bytes()];
            let mut server = Seal::new(cipher, key, key, 0).unwrap();
            link.seal = Some(Seal::new(cipher, key, key, 0).unwrap());
            link.seal_all = true;
            if case % 4 == 0 {
                random.spoil(&mut frame);
                frame = sealed(&mut server, &frame);
            } else {
                frame = sealed(&mut server, &frame);
                random.spoil(&mut frame);
            }
        } else {
            random.spoil(&mut frame);
        }
        let mut stream = (frame.len() as u32).to_be_bytes().to_vec();
        stream.put(&frame);
        if case % 5 == 0 {
            random.spoil(&mut stream);
        }
        far.write_all(&stream).unwrap();
        far.shutdown(Shutdown::Write).unwrap();
        let error = loop {
            if let Err(error) = link.receive(Duration::from_millis(300)) {
                break error;
            }
        };
        *kinds.entry(error.kind.name()).or_insert(0) += 1;
        assert!(memory.is_whole(), "case {case} wrote outside the operation's memory");
        check_finished(&link, case);
    }
    let known = ["disconnected", "protocol", "unsupported"];
    assert!(kinds.keys().all(|k| known.contains(k)), "{kinds:?}");
    assert!(kinds["protocol"] > count / 12 && kinds["disconnected"] > count / 12, "{kinds:?}");
}

#[test]
fn spoiled_answers_pass_every_decoder() {
    let mut random = Random::new(0xDEAD_BEEF_1234_5677);
    let mut originals = answers();
    originals.push(crate::negotiate::tests::answer(Dialect::D311, 2, 2));
    originals.push(message(1, 0, 0xC000_0016, 0, &[9, 0, 0, 0, 72, 0, 4, 0, 1, 2, 3, 4]));
    for _ in 0..inputs(100_000) {
        let mut bytes = originals[random.below(originals.len())].clone();
        random.spoil(&mut bytes);
        let _ = Header::parse(&bytes);
        let _ = file::parse_create(&bytes);
        if let Ok(output) = file::output(&bytes) {
            assert!(output.len() <= bytes.len());
            let _ = file::parse_entries(output, &mut Default::default(), &mut Vec::new(), None);
            let mut ids = file::Ids::default();
            let _ = file::parse_entries(output, &mut Default::default(), &mut Vec::new(), Some(&mut ids));
            let _ = file::parse_space(output);
        }
        if let Ok(output) = crate::ioctl::output(&bytes) {
            let _ = crate::ioctl::CopyLimits::parse(output);
            let _ = crate::ioctl::copied_bytes(output);
        }
        let _ = crate::seal::Transform::parse(&bytes);
        crate::negotiate::tests::decode(&bytes);
        let _ = crate::login::setup_token(&bytes);
        let _ = crate::shares::parse_shares(bytes.get(HEADER_BYTES..).unwrap_or(&[]));
    }
}

#[test]
fn spoiled_challenges_and_lists_end_in_errors_or_answers() {
    let mut random = Random::new(0x6E74_6C6D_6E74_6C6D);
    let originals = [crate::ntlm::tests::challenge(), crate::shares::tests::answer()];
    let (mut answered, count) = (0, inputs(20_000));
    for case in 0..count {
        let mut bytes = originals[case % 2].clone();
        random.spoil(&mut bytes);
        answered += usize::from(crate::ntlm::tests::answers(&bytes));
        answered += usize::from(crate::shares::tests::takes(&bytes));
        crate::dfs::tests::takes(&bytes);
    }
    assert!(answered > count / 10 && answered < count, "{answered} of {count}: the cases are not mixed");
}
