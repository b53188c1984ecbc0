//! A server of one thread that speaks just enough SMB 3.1.1 to guests, and misbehaves on demand.

use socket2::SockRef;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
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
}

/// A running server.
pub struct Fake {
    pub port: u16,
    stop: mpsc::Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Fake {
    /// Misbehaves at this stage.
    pub fn start(stage: Stage, fault: Fault) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (stop, stopped) = mpsc::channel();
        listener.set_nonblocking(true).unwrap();
        let thread = std::thread::spawn(move || {
            let mut held = Vec::new();
            while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {
                match listener.accept() {
                    Ok((socket, _)) => held.extend(serve(socket, stage, fault)),
                    Err(_) => std::thread::sleep(Duration::from_millis(2)),
                }
            }
        });
        Fake { port, stop, thread: Some(thread) }
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

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |sum, b| sum << 8 | u64::from(*b))
}

/// Serves until the fault; the socket, if it stays open.
fn serve(mut socket: TcpStream, stage: Stage, fault: Fault) -> Option<TcpStream> {
    socket.set_nonblocking(false).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut setups = 0;
    loop {
        let mut prefix = [0; 4];
        socket.read_exact(&mut prefix).ok()?;
        let mut request = vec![0; u32::from_be_bytes(prefix) as usize];
        socket.read_exact(&mut request).ok()?;
        let (command, id) = (number(&request[12..14]) as u16, number(&request[24..32]));
        let asked = if command == 8 { number(&request[68..72]) as u32 } else { 0 };
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
