//! A server that speaks just enough SMB 3.1.1 to guests, and misbehaves on demand.

use socket2::SockRef;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{mpsc, Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// The calls of one short life of a session, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Negotiate = 0,
    FirstSetup = 1,
    SecondSetup = 2,
    Tree = 3,
    Create = 4,
    Read = 5,
}

/// What the server does instead of answering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing wrong.
    None,
    /// Ends the connection.
    Death,
    /// Says nothing more.
    Freeze,
    /// Resets the connection.
    Reset,
    /// Sends half of the answer and says nothing more.
    Half,
    /// Sends half of the answer and ends the connection.
    HalfThenDeath,
    /// Sends random bytes.
    Garbage,
    /// Answers a request that was not made.
    WrongId,
    /// Says a length that is far too large.
    WrongLength,
    /// Answers in SMB1.
    OldProtocol,
    /// Says that it works on it, over and over.
    ForeverPending,
    /// Grants no more credits.
    NoCredits,
    /// Grants leases and durable handles, and keeps what is open.
    Keeps,
    /// Grants them, and refuses claims with this status.
    Refuses(u32),
    /// Grants them, and answers a flush only when the client has acknowledged that its lease is broken.
    Breaks,
    /// Grants them, and loses the connection instead of its first answer to an open. An open that is asked for again is
    /// refused with this status, if it is not 0.
    Loses(u32),
    /// Grants a batch oplock and a durable handle of version 1, in SMB 2.0.2.
    Old,
}

impl Fault {
    fn is_durable(self) -> bool {
        matches!(self, Fault::Keeps | Fault::Refuses(_) | Fault::Breaks | Fault::Loses(_) | Fault::Old)
    }
}

/// What the server got to see.
#[derive(Debug, Default)]
pub struct Seen {
    /// Sessions that were named as replaced, one for each last round of a login.
    pub replaced: Vec<u64>,
    /// Names of opens that asked for something beside the file, and the keys of their leases.
    pub leases: Vec<(Vec<u8>, Vec<u8>)>,
    /// The client's names for opens that were to be kept, and whether each was said to be asked for again.
    pub asked: Vec<(Vec<u8>, bool)>,
    /// Files that were closed.
    pub closed: usize,
    /// The first byte of the server's name for itself.
    pub server: u8,
}

/// A running server.
pub struct Fake {
    pub port: u16,
    pub seen: Arc<Mutex<Seen>>,
    stop: mpsc::Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Fake {
    /// Misbehaves at this stage.
    pub fn start(stage: Stage, fault: Fault) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (stop, stopped) = mpsc::channel();
        let seen = Arc::new(Mutex::new(Seen { server: 7, ..Seen::default() }));
        let shared = Arc::clone(&seen);
        listener.set_nonblocking(true).unwrap();
        let thread = std::thread::spawn(move || {
            let mut held = Vec::new();
            while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {
                match listener.accept() {
                    Ok((socket, _)) if fault.is_durable() => {
                        // Some clients have several.
                        let seen = Arc::clone(&shared);
                        std::thread::spawn(move || serve(socket, stage, fault, &seen));
                    }
                    Ok((socket, _)) => held.extend(serve(socket, stage, fault, &shared)),
                    Err(_) => std::thread::sleep(Duration::from_millis(2)),
                }
            }
        });
        Fake { port, seen, stop, thread: Some(thread) }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = self.stop.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn put(out: &mut Vec<u8>, value: u64, bytes: usize) {
    out.extend_from_slice(&value.to_le_bytes()[..bytes]);
}

fn negotiated() -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, 65, 2);
    put(&mut out, 1, 2);
    put(&mut out, 0x0311, 2);
    put(&mut out, 1, 2);
    out.extend([7; 16]);
    put(&mut out, 4, 4);
    (0..3).for_each(|_| put(&mut out, 1 << 20, 4));
    out.extend([0; 16]);
    put(&mut out, 128, 2);
    put(&mut out, 0, 2);
    put(&mut out, 128, 4);
    // One context: SHA-512 guards the negotiation.
    out.extend([1, 0, 6, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0]);
    out
}

fn challenged() -> Vec<u8> {
    let mut token = b"NTLMSSP\0\x02\0\0\0".to_vec();
    token.extend([0; 8]);
    put(&mut token, 0xE288_8215, 4);
    token.extend([9; 8]);
    token.extend([0; 8]);
    put(&mut token, 4, 2);
    put(&mut token, 4, 2);
    put(&mut token, 56, 4);
    token.extend([0; 8]);
    token.extend([0; 4]);
    let mut out = Vec::new();
    put(&mut out, 9, 2);
    put(&mut out, 0, 2);
    put(&mut out, 72, 2);
    put(&mut out, token.len() as u64, 2);
    out.extend(token);
    out
}

/// Body and status of a good answer.
fn answer(command: u16, setups: usize, asked: u32) -> (Vec<u8>, u32) {
    let mut body = Vec::new();
    match command {
        0 => body = negotiated(),
        1 if setups == 0 => return (challenged(), 0xC000_0016),
        1 => body.extend([9, 0, 1, 0, 72, 0, 0, 0]),
        3 => {
            body.extend([16, 0, 1, 0]);
            body.extend([0; 12]);
        }
        5 => {
            body.extend([0; 88]);
            body[0] = 89;
            body[64..80].copy_from_slice(&[3; 16]);
        }
        6 => {
            body.extend([0; 60]);
            body[0] = 60;
        }
        8 => {
            put(&mut body, 17, 2);
            put(&mut body, 80, 2);
            put(&mut body, asked.into(), 4);
            put(&mut body, 0, 8);
            body.resize(16 + asked as usize, 0x5C);
        }
        9 => {
            put(&mut body, 17, 4);
            put(&mut body, asked.into(), 4);
            body.extend([0; 8]);
        }
        _ => body.extend([4, 0, 0, 0]),
    }
    (body, 0)
}

fn framed(command: u16, id: u64, status: u32, flags: u32, credits: u16, body: &[u8]) -> Vec<u8> {
    let mut out = ((64 + body.len()) as u32).to_be_bytes().to_vec();
    out.extend([0xFE, b'S', b'M', b'B', 64, 0, 1, 0]);
    put(&mut out, status.into(), 4);
    put(&mut out, command.into(), 2);
    put(&mut out, credits.into(), 2);
    put(&mut out, (1 | flags).into(), 4);
    put(&mut out, 0, 4);
    put(&mut out, id, 8);
    put(&mut out, 0, 4);
    put(&mut out, 1, 4);
    put(&mut out, 0x77, 8);
    out.extend([0; 16]);
    out.extend(body);
    out
}

/// As a server that grants leases and persistent handles on a share that is continuously available.
fn framed_durably(fault: Fault, command: u16, request: &[u8], good: Vec<u8>, seen: &mut Seen) -> Vec<u8> {
    let mut good = good;
    let (id, credits) = (number(&request[24..32]), (number(&request[14..16]) as u16).max(1));
    let body = 4 + 64;
    match command {
        0 if fault == Fault::Old => good[body + 4..body + 6].copy_from_slice(&[2, 2]),
        // Leases, large MTU, persistent handles.
        0 => good[body + 24] = 0x16,
        3 => good[body + 8] = 0x10,
        5 => {
            let (at, len) = (number(&request[112..116]) as usize, number(&request[116..120]) as usize);
            let contexts = &request[at..at + len];
            let (name_at, name_len) = (number(&request[108..110]) as usize, number(&request[110..112]) as usize);
            let name = request[name_at..name_at + name_len].to_vec();
            if len == 0 {
                return good;
            }
            if fault == Fault::Old {
                seen.leases.push((name, Vec::new()));
                return good;
            }
            seen.leases.push((name, contexts[number(&contexts[..4]) as usize + 24..][..16].to_vec()));
            let (name, next) = (&contexts[16..20], number(&contexts[..4]) as usize);
            assert_eq!((request[67], &contexts[next..][16..20]), (0xFF, &b"RqLs"[..]), "a lease goes with each");
            if name == b"DH2C" {
                if let Fault::Refuses(status) = fault {
                    return framed(5, id, status, 0, credits, &[9, 0, 0, 0, 0, 0, 0, 0, 0]);
                }
                // What was given before, and the name of the open.
                assert_eq!((&contexts[24..40], &contexts[56..60]), (&[3; 16][..], &[2, 0, 0, 0][..]));
                good[body + 64..body + 80].copy_from_slice(&[4; 16]);
                return good;
            }
            assert_eq!((name, &contexts[24..32]), (&b"DH2Q"[..], &[0x60, 0xEA, 0, 0, 2, 0, 0, 0][..]));
            let (guid, is_replay) = (contexts[40..56].to_vec(), number(&request[16..20]) & 0x2000_0000 != 0);
            assert_eq!(is_replay, seen.asked.iter().any(|(before, _)| *before == guid), "only what was asked for");
            seen.asked.push((guid, is_replay));
            match fault {
                Fault::Loses(status) if status != 0 && is_replay => {
                    return framed(5, id, status, 0, credits, &[9, 0, 0, 0, 0, 0, 0, 0, 0]);
                }
                _ => {}
            }
            good[body + 2] = 0xFF;
            let at = (good.len() - 4) as u32;
            good[body + 80..body + 84].copy_from_slice(&at.to_le_bytes());
            good[body + 84..body + 88].copy_from_slice(&32u32.to_le_bytes());
            good.extend([0, 0, 0, 0, 16, 0, 4, 0, 0, 0, 24, 0, 8, 0, 0, 0]);
            good.extend(b"DH2Q\0\0\0\0");
            good.extend([0, 0, 0, 0, 2, 0, 0, 0]);
            let len = (good.len() - 4) as u32;
            good[..4].copy_from_slice(&len.to_be_bytes());
        }
        // The open says that writes are to be durable; one that was claimed may not.
        9 => assert_eq!(request[64 + 44], u8::from(request[64 + 16..64 + 32] == [4; 16])),
        _ => {}
    }
    good
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |sum, b| sum << 8 | u64::from(*b))
}

/// Answers as `framed_durably`; None when the client has gone.
fn answer_durably(
    socket: &mut TcpStream,
    fault: Fault,
    setups: &mut usize,
    request: &[u8],
    seen: &mut Seen,
) -> Option<()> {
    let (command, id) = (number(&request[12..14]) as u16, number(&request[24..32]));
    let asked = if matches!(command, 8 | 9) { number(&request[68..72]) as u32 } else { 0 };
    let (mut body, status) = answer(command, *setups, asked);
    if command == 1 {
        *setups += 1;
        if status == 0 {
            seen.replaced.push(number(&request[80..88]));
        }
    }
    if command == 0 {
        body[8..24].copy_from_slice(&[seen.server; 16]);
    }
    seen.closed += usize::from(command == 6 && request[64 + 8..64 + 24] != [0xFF; 16]);
    let good = framed(command, id, status, 0, (number(&request[14..16]) as u16).max(1), &body);
    let good = framed_durably(fault, command, request, good, seen);
    if matches!(fault, Fault::Loses(_)) && command == 5 && seen.asked.len() == 1 {
        return None;
    }
    if (fault, command) == (Fault::Breaks, 7) {
        // From reading and handle to reading, to be acknowledged.
        let mut lease_break = vec![44, 0, 0, 0, 1, 0, 0, 0];
        lease_break.extend([1; 16]);
        lease_break.extend([3, 0, 0, 0, 1, 0, 0, 0]);
        lease_break.resize(44, 0);
        socket.write_all(&framed(0x12, u64::MAX, 0, 0, 0, &lease_break)).ok()?;
        let mut acknowledged = [0; 4 + 64 + 36];
        socket.read_exact(&mut acknowledged).ok()?;
        assert_eq!((acknowledged[4 + 12], &acknowledged[4 + 64 + 8..][..16]), (0x12, &[1; 16][..]));
        let id = number(&acknowledged[4 + 24..][..8]);
        socket.write_all(&framed(0x12, id, 0, 0, 1, &[36; 36])).ok()?;
    }
    socket.write_all(&good).ok()
}

/// Serves until the fault; the socket, if it stays open.
fn serve(mut socket: TcpStream, stage: Stage, fault: Fault, seen: &Mutex<Seen>) -> Option<TcpStream> {
    socket.set_nonblocking(false).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut setups = 0;
    loop {
        let mut prefix = [0; 4];
        socket.read_exact(&mut prefix).ok()?;
        let mut request = vec![0; u32::from_be_bytes(prefix) as usize];
        socket.read_exact(&mut request).ok()?;
        while fault.is_durable() && number(&request[20..24]) != 0 {
            // One of several: each is answered by itself.
            let rest = request.split_off(number(&request[20..24]) as usize);
            answer_durably(&mut socket, fault, &mut setups, &request, &mut seen.lock().unwrap())?;
            request = rest;
        }
        if fault.is_durable() {
            answer_durably(&mut socket, fault, &mut setups, &request, &mut seen.lock().unwrap())?;
            continue;
        }
        let (command, id) = (number(&request[12..14]) as u16, number(&request[24..32]));
        let asked = if matches!(command, 8 | 9) { number(&request[68..72]) as u32 } else { 0 };
        let at = match command {
            0 => Some(Stage::Negotiate),
            1 if setups == 0 => Some(Stage::FirstSetup),
            1 => Some(Stage::SecondSetup),
            3 => Some(Stage::Tree),
            5 => Some(Stage::Create),
            8 => Some(Stage::Read),
            _ => None,
        };
        let (body, status) = answer(command, setups, asked);
        setups += usize::from(command == 1);
        // Credits as asked for, so that each request can be followed by another.
        let credits = (number(&request[14..16]) as u16).max(1);
        let good = framed(command, id, status, 0, credits, &body);
        if at != Some(stage) || fault == Fault::None {
            socket.write_all(&good).ok()?;
            continue;
        }
        match fault {
            Fault::NoCredits => {
                socket.write_all(&framed(command, id, status, 0, 0, &body)).ok()?;
                continue;
            }
            Fault::ForeverPending => {
                while socket.write_all(&framed(command, id, 0x103, 2, 1, &[9, 0, 0, 0, 0, 0, 0, 0, 0])).is_ok() {
                    std::thread::sleep(Duration::from_millis(20));
                }
                return None;
            }
            fault => return misbehave(socket, fault, &good, command, id, &body),
        }
    }
}

fn misbehave(
    mut socket: TcpStream,
    fault: Fault,
    good: &[u8],
    command: u16,
    id: u64,
    body: &[u8],
) -> Option<TcpStream> {
    match fault {
        Fault::Death => return None,
        Fault::Reset => {
            SockRef::from(&socket).set_linger(Some(Duration::ZERO)).unwrap();
            return None;
        }
        Fault::Half | Fault::HalfThenDeath => {
            socket.write_all(&good[..good.len() / 2]).ok()?;
            if fault == Fault::HalfThenDeath {
                return None;
            }
        }
        Fault::Garbage => {
            let noise: Vec<u8> = (0..500u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8 | 1).collect();
            socket.write_all(&noise).ok()?;
        }
        Fault::WrongId => socket.write_all(&framed(command, id + 5, 0, 0, 1, body)).ok()?,
        Fault::WrongLength => {
            let mut bad = good.to_vec();
            bad[1] = 0xFF;
            socket.write_all(&bad).ok()?;
        }
        Fault::OldProtocol => {
            let mut bad = good.to_vec();
            bad[4] = 0xFF;
            socket.write_all(&bad).ok()?;
        }
        _ => {}
    }
    Some(socket)
}
