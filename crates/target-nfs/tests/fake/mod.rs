//! A small NFS server in memory, for one file `data` in one export `/export`, that misbehaves on demand.
//!
//! It speaks the mount protocol, NFS 3, 4.1 and, where told to, 4.0 on one port; its codec is written apart from the
//! client's.

mod v3;
mod v4;

use naslab_target_nfs::NfsOptions;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Where a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code)]
pub enum On {
    Any,
    Mount,
    Create,
    Read,
    Write,
    Commit,
    Sequence,
    Limits,
    Lookup,
    Session,
    Attributes,
    Close,
    Leave,
    Free,
    Remove,
}

/// What goes wrong.
#[derive(Clone, Debug)]
#[allow(dead_code)]
pub enum Fault {
    /// The connection is closed instead of an answer.
    Close,
    /// The connection is reset.
    Reset,
    /// No answer, ever; the connection stays.
    Freeze,
    /// Half of the answer, then silence.
    Half,
    /// Half of the answer, then the end.
    HalfClose,
    /// These bytes instead of the answer.
    Garbage(Vec<u8>),
    /// The answer belongs to another call.
    WrongXid,
    /// The answer comes in fragments of so many bytes.
    Fragments(usize),
    /// The answer twice.
    Twice,
    /// This status.
    Status(u32),
    /// The call is refused: auth_stat.
    Auth(u32),
    /// The server fails inside, after it has carried the call out.
    SystemError,
    /// The program is spoken in version 3 alone.
    Mismatch,
    /// Reads and writes move only so many bytes.
    Short(u32),
    /// Reads claim more bytes than asked for.
    Long,
    /// Writes are acknowledged as unstable whatever was asked.
    LessStable,
    /// The server restarts just before.
    NewVerifier,
}

/// What the server holds.
pub struct State {
    pub file: Vec<u8>,
    pub exists: bool,
    pub verifier: [u8; 8],
    pub faults: VecDeque<(On, Fault)>,
    /// Calls per kind, for tests that count.
    pub seen: Vec<On>,
    /// Next number of each slot.
    pub slots: Vec<u32>,
    pub most_bytes: u32,
    pub connections: usize,
    /// Connections without a call for so long are closed.
    pub patience: Option<Duration>,
    /// A slot's last number, used again, is answered as the repetition of a call whose answer was not kept.
    pub forgives: bool,
    /// Every write is durable before it is acknowledged.
    pub always_stable: bool,
    /// Which session there is (4.1), by its number; the ones before have ended.
    pub session: u8,
    /// Names of open-owners, in the order of their opens.
    pub owners: Vec<Vec<u8>>,
    /// Number of an open-owner's next call (4.0).
    pub owner_next: u32,
    /// NFS 4.0 is spoken, too.
    pub also_40: bool,
    pub lease_seconds: u32,
    /// The client that NFS 4.1 knows by this id: its verifier and name, and the number of its next session.
    pub client: Option<(Vec<u8>, u32)>,
    pub client_id: u32,
    /// Clients of before a restart may claim what they had open.
    pub grace: bool,
    /// Sessions that were lost and live on (4.1), with their slots.
    pub lost_sessions: Vec<(u8, Vec<u32>)>,
    /// Answers that clients wanted to be kept: session, slot and number of the call.
    pub kept: Vec<([u32; 3], Vec<u8>)>,
    /// SEQUENCE says that state was revoked, until it is freed.
    pub revoked: bool,
    /// What TEST_STATEID says.
    pub tested: u32,
    /// A guarded creation fails where the file exists, and a name is found only then (4.1).
    pub guards: bool,
    /// NFS 4 is not spoken.
    pub only_3: bool,
    /// Connections that ask for TLS get it (RFC 9289).
    pub tls: Option<Arc<ServerConfig>>,
    /// Calls that came in the clear, but for those that asked for TLS: their programs.
    pub in_the_clear: Vec<u32>,
}

/// A connection, in the clear or under TLS.
enum Stream {
    Clear(TcpStream),
    Sealed(Box<StreamOwned<ServerConnection, TcpStream>>),
}

impl Stream {
    fn socket(&self) -> &TcpStream {
        match self {
            Stream::Clear(socket) => socket,
            Stream::Sealed(sealed) => &sealed.sock,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Clear(socket) => socket.read(into),
            Stream::Sealed(sealed) => sealed.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Clear(socket) => socket.write(bytes),
            Stream::Sealed(sealed) => sealed.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Clear(socket) => socket.flush(),
            Stream::Sealed(sealed) => sealed.flush(),
        }
    }
}

impl State {
    /// The fault for this call, if it is the next one's turn.
    pub fn fault(&mut self, at: On) -> Option<Fault> {
        self.seen.push(at);
        match self.faults.front() {
            Some((on, _)) if *on == at || *on == On::Any => self.faults.pop_front().map(|(_, fault)| fault),
            _ => None,
        }
    }
}

/// An answer: results of an accepted call, and what happens to it on the way.
pub struct Answer {
    pub results: Vec<u8>,
    pub fault: Option<Fault>,
}

/// The running server. Its threads end with their connections.
pub struct Fake {
    pub port: u16,
    pub state: Arc<Mutex<State>>,
}

impl Fake {
    /// How its export is reached in one version.
    pub fn options(&self, version: &str) -> NfsOptions {
        NfsOptions {
            host: "127.0.0.1".into(),
            port: Some(self.port),
            mount_port: Some(self.port),
            path: "/export".into(),
            version: Some(version.into()),
            privileged_port: "off".into(),
            ..NfsOptions::default()
        }
    }

    pub fn start(faults: Vec<(On, Fault)>) -> Fake {
        let state = Arc::new(Mutex::new(State {
            file: Vec::new(),
            exists: false,
            verifier: [1; 8],
            faults: faults.into(),
            seen: Vec::new(),
            slots: vec![1; 4],
            most_bytes: 64 * 1024,
            connections: 0,
            patience: None,
            forgives: false,
            always_stable: false,
            session: 0,
            owners: Vec::new(),
            owner_next: 0,
            also_40: false,
            lease_seconds: 60,
            client: None,
            client_id: 9,
            grace: false,
            lost_sessions: Vec::new(),
            kept: Vec::new(),
            revoked: false,
            tested: 0,
            guards: false,
            only_3: false,
            tls: None,
            in_the_clear: Vec::new(),
        }));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, state) = (stream.unwrap(), shared.clone());
                state.lock().unwrap().connections += 1;
                std::thread::spawn(move || serve(stream, &state));
            }
        });
        Fake { port, state }
    }

    /// How many calls of this kind came.
    pub fn count(&self, kind: On) -> usize {
        self.state.lock().unwrap().seen.iter().filter(|seen| **seen == kind).count()
    }
}

/// Reads and writes words; panics on nonsense, for the client under test must not send any.
pub struct Words<'a>(pub &'a [u8]);

impl<'a> Words<'a> {
    pub fn raw(&mut self, n: usize) -> &'a [u8] {
        let (head, rest) = self.0.split_at(n);
        self.0 = rest;
        head
    }
    pub fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.raw(4).try_into().unwrap())
    }
    pub fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.raw(8).try_into().unwrap())
    }
    pub fn opaque(&mut self) -> &'a [u8] {
        let len = self.u32() as usize;
        let found = self.raw(len);
        self.raw((4 - len % 4) % 4);
        found
    }
}

pub fn put(out: &mut Vec<u8>, words: &[u32]) {
    words.iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
}

pub fn put_opaque(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, &[bytes.len() as u32]);
    out.extend_from_slice(bytes);
    out.resize(out.len().next_multiple_of(4), 0);
}

fn serve(stream: TcpStream, state: &Mutex<State>) {
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(state.lock().unwrap().patience).unwrap();
    let mut stream = Stream::Clear(stream);
    let mut mark = [0; 4];
    while stream.read_exact(&mut mark).is_ok() {
        let mut call = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
        if stream.read_exact(&mut call).is_err() {
            return;
        }
        let mut words = Words(&call);
        let xid = words.u32();
        assert_eq!((words.u32(), words.u32()), (0, 2), "a call of RPC version 2");
        let (program, version, procedure) = (words.u32(), words.u32(), words.u32());
        let flavour = words.u32();
        words.opaque();
        if flavour == 7 {
            assert_eq!(procedure, 0, "the call that asks for TLS is a NULL call");
            let Stream::Clear(socket) = stream else { panic!("asked for TLS under TLS") };
            match start_tls(socket, xid, state) {
                Some(next) => stream = next,
                None => return,
            }
            continue;
        }
        assert_eq!(flavour, 1, "AUTH_SYS");
        if matches!(stream, Stream::Clear(_)) {
            state.lock().unwrap().in_the_clear.push(program);
        }
        assert_eq!((words.u32(), words.u32()), (0, 0), "no verifier");
        let answer = match (program, version) {
            (100_005, 3) => v3::mount(procedure, state),
            (100_003, 3) => v3::nfs(procedure, &mut words, state),
            (100_003, 4) if state.lock().unwrap().only_3 => {
                Answer { results: Vec::new(), fault: Some(Fault::Mismatch) }
            }
            (100_003, 4) => v4::nfs(procedure, &mut words, state),
            _ => panic!("program {program} version {version}"),
        };
        if !deliver(&mut stream, xid, answer) {
            return;
        }
    }
}

/// Answers the question for TLS, and changes over where there is some.
fn start_tls(mut socket: TcpStream, xid: u32, state: &Mutex<State>) -> Option<Stream> {
    let Some(config) = state.lock().unwrap().tls.clone() else {
        let mut refusal = Vec::new();
        put(&mut refusal, &[0x8000_0000 | 20, xid, 1, 1, 1, 2]);
        socket.write_all(&refusal).ok()?;
        return Some(Stream::Clear(socket));
    };
    let mut answer = Vec::new();
    put(&mut answer, &[0x8000_0000 | 32, xid, 1, 0, 0]);
    put_opaque(&mut answer, b"STARTTLS");
    put(&mut answer, &[0]);
    socket.write_all(&answer).ok()?;
    let mut sealed = StreamOwned::new(ServerConnection::new(config).unwrap(), socket);
    while sealed.conn.is_handshaking() {
        sealed.conn.complete_io(&mut sealed.sock).ok()?;
    }
    Some(Stream::Sealed(Box::new(sealed)))
}

/// Sends an answer in the way its fault wants; false when the connection ends.
fn deliver(stream: &mut Stream, xid: u32, answer: Answer) -> bool {
    let mut reply = Vec::new();
    match answer.fault {
        Some(Fault::Auth(status)) => put(&mut reply, &[xid, 1, 1, 1, status]),
        Some(Fault::SystemError) => put(&mut reply, &[xid, 1, 0, 0, 0, 5]),
        Some(Fault::Mismatch) => put(&mut reply, &[xid, 1, 0, 0, 0, 2, 3, 3]),
        Some(Fault::WrongXid) => put(&mut reply, &[xid.wrapping_add(77), 1, 0, 0, 0, 0]),
        _ => put(&mut reply, &[xid, 1, 0, 0, 0, 0]),
    }
    if !matches!(answer.fault, Some(Fault::Auth(_) | Fault::SystemError | Fault::Mismatch)) {
        reply.extend_from_slice(&answer.results);
    }
    let mut record = Vec::new();
    let fragment = match answer.fault {
        Some(Fault::Fragments(bytes)) => bytes,
        _ => reply.len(),
    };
    let mut left = reply.as_slice();
    while !left.is_empty() {
        let (head, rest) = left.split_at(fragment.min(left.len()));
        put(&mut record, &[head.len() as u32 | if rest.is_empty() { 0x8000_0000 } else { 0 }]);
        record.extend_from_slice(head);
        left = rest;
    }
    let half = &record[..record.len() / 2];
    match answer.fault {
        Some(Fault::Close) => return false,
        Some(Fault::Reset) => {
            let socket = socket2::SockRef::from(stream.socket());
            socket.set_linger(Some(Duration::ZERO)).unwrap();
            return false;
        }
        Some(Fault::Freeze) => return wait_for_end(stream),
        Some(Fault::Half) => {
            stream.write_all(half).unwrap();
            return wait_for_end(stream);
        }
        Some(Fault::HalfClose) => {
            stream.write_all(half).unwrap();
            drop(stream.socket().shutdown(Shutdown::Both));
            return false;
        }
        Some(Fault::Garbage(bytes)) => return stream.write_all(&bytes).is_ok(),
        Some(Fault::Twice) => return stream.write_all(&[record.clone(), record].concat()).is_ok(),
        _ => {}
    }
    stream.write_all(&record).is_ok()
}

/// Stays silent until the client leaves.
fn wait_for_end(stream: &mut Stream) -> bool {
    let mut sink = [0; 4096];
    while matches!(stream.read(&mut sink), Ok(n) if n > 0) {}
    false
}
