//! A plain NFS 3 client for tests, with an XDR of its own: what the server's code gets wrong is not wrong here too.

use naslab_demo_server::{Server, Stopper};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

pub const NFS: u32 = 100_003;
pub const MOUNT: u32 = 100_005;

/// A server on a folder of its own; ends with the test.
pub struct Site {
    pub folder: tempfile::TempDir,
    pub port: u16,
    stopper: Stopper,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Site {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::bind(folder.path(), 0).unwrap();
        let (port, stopper) = (server.port().unwrap(), server.stopper().unwrap());
        let thread = Some(std::thread::spawn(move || server.serve()));
        Self { folder, port, stopper, thread }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn client(&self) -> Client {
        Client::new(self.port)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stopper.stop();
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Arguments of a call, and then its reply, read from the front.
#[derive(Clone, Default)]
pub struct Words(pub Vec<u8>);

impl Words {
    pub fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub fn bytes(self, bytes: &[u8]) -> Self {
        let mut words = self.u32(bytes.len() as u32);
        words.0.extend(bytes);
        words.0.resize(words.0.len().next_multiple_of(4), 0);
        words
    }

    /// sattr3 with at most a mode and a size.
    pub fn attributes(self, mode: Option<u32>, size: Option<u64>) -> Self {
        let words = match mode {
            Some(mode) => self.u32(1).u32(mode),
            None => self.u32(0),
        };
        let words = words.u32(0).u32(0);
        let words = match size {
            Some(size) => words.u32(1).u64(size),
            None => words.u32(0),
        };
        words.u32(0).u32(0)
    }

    pub fn take(&mut self, len: usize) -> Vec<u8> {
        assert!(len <= self.0.len(), "the reply is too short");
        self.0.drain(..len).collect()
    }

    pub fn take_u32(&mut self) -> u32 {
        u32::from_be_bytes(self.take(4).try_into().unwrap())
    }

    pub fn take_u64(&mut self) -> u64 {
        u64::from_be_bytes(self.take(8).try_into().unwrap())
    }

    pub fn take_bytes(&mut self) -> Vec<u8> {
        let len = self.take_u32() as usize;
        let bytes = self.take(len);
        self.take(len.next_multiple_of(4) - len);
        bytes
    }

    pub fn take_post(&mut self) -> Option<Attributes> {
        (self.take_u32() == 1).then(|| Attributes::take(self))
    }

    pub fn take_change(&mut self) -> (Option<u64>, Option<Attributes>) {
        let before = (self.take_u32() == 1).then(|| {
            let size = self.take_u64();
            self.take(16);
            size
        });
        (before, self.take_post())
    }
}

#[derive(Debug)]
#[allow(dead_code)]
pub struct Attributes {
    pub kind: u32,
    pub mode: u32,
    pub size: u64,
    pub used: u64,
    pub file_id: u64,
    pub mtime: (u32, u32),
    pub ctime: (u32, u32),
}

impl Attributes {
    pub fn take(words: &mut Words) -> Self {
        let (kind, mode) = (words.take_u32(), words.take_u32());
        words.take(12);
        let (size, used) = (words.take_u64(), words.take_u64());
        words.take(16);
        let file_id = words.take_u64();
        let mut time = || (words.take_u32(), words.take_u32());
        let (_, mtime, ctime) = (time(), time(), time());
        Self { kind, mode, size, used, file_id, mtime, ctime }
    }
}

pub struct Client {
    pub stream: TcpStream,
    xid: u32,
    pub root: Vec<u8>,
}

impl Client {
    pub fn new(port: u16) -> Self {
        let mut client = Self { stream: connect(port), xid: 0, root: Vec::new() };
        let mut reply = client.call(MOUNT, 1, Words::default().bytes(b"/data"));
        assert_eq!(reply.take_u32(), 0, "mount");
        client.root = reply.take_bytes();
        client
    }

    pub fn send(&mut self, program: u32, procedure: u32, args: &Words) -> u32 {
        self.xid += 1;
        let head = Words::default().u32(self.xid).u32(0).u32(2).u32(program).u32(3).u32(procedure);
        let record = [head.u64(0).u64(0).0, args.0.clone()].concat();
        let mark = (record.len() as u32 | 1 << 31).to_be_bytes();
        self.stream.write_all(&[&mark[..], &record].concat()).unwrap();
        self.xid
    }

    /// The next reply: its xid, and what follows an accepted, successful head.
    pub fn receive(&mut self) -> (u32, Words) {
        let (xid, mut reply) = self.receive_any();
        let head = [1, 0, 0, 0, 0].map(|_| reply.take_u32());
        assert_eq!(head, [1, 0, 0, 0, 0], "the call was refused");
        (xid, reply)
    }

    pub fn receive_any(&mut self) -> (u32, Words) {
        let mut mark = [0; 4];
        self.stream.read_exact(&mut mark).unwrap();
        let mark = u32::from_be_bytes(mark);
        assert!(mark >> 31 == 1, "one fragment");
        let mut record = vec![0; (mark & 0x7fff_ffff) as usize];
        self.stream.read_exact(&mut record).unwrap();
        let mut reply = Words(record);
        (reply.take_u32(), reply)
    }

    pub fn call(&mut self, program: u32, procedure: u32, args: Words) -> Words {
        let xid = self.send(program, procedure, &args);
        let (answered, reply) = self.receive();
        assert_eq!(answered, xid);
        reply
    }

    /// An NFS call: its status and the rest.
    pub fn nfs(&mut self, procedure: u32, args: Words) -> (u32, Words) {
        let mut reply = self.call(NFS, procedure, args);
        (reply.take_u32(), reply)
    }

    pub fn at(&self, handle: &[u8]) -> Words {
        Words::default().bytes(handle)
    }

    pub fn getattr(&mut self, handle: &[u8]) -> Result<Attributes, u32> {
        let (status, mut reply) = self.nfs(1, self.at(handle));
        if status == 0 {
            Ok(Attributes::take(&mut reply))
        } else {
            Err(status)
        }
    }

    pub fn lookup(&mut self, folder: &[u8], name: &[u8]) -> Result<Vec<u8>, u32> {
        let (status, mut reply) = self.nfs(3, self.at(folder).bytes(name));
        if status == 0 {
            Ok(reply.take_bytes())
        } else {
            Err(status)
        }
    }

    /// CREATE (8), MKDIR (9) or SYMLINK (10) with all arguments after the name.
    pub fn make(&mut self, procedure: u32, folder: &[u8], name: &[u8], rest: Words) -> Result<Vec<u8>, u32> {
        let mut args = self.at(folder).bytes(name);
        args.0.extend(rest.0);
        let (status, mut reply) = self.nfs(procedure, args);
        if status != 0 {
            return Err(status);
        }
        assert_eq!(reply.take_u32(), 1);
        let handle = reply.take_bytes();
        assert!(reply.take_post().is_some());
        let (before, after) = reply.take_change();
        assert!(before.is_some() && after.is_some() && reply.0.is_empty());
        Ok(handle)
    }

    pub fn create(&mut self, folder: &[u8], name: &[u8]) -> Result<Vec<u8>, u32> {
        self.make(8, folder, name, Words::default().u32(0).attributes(Some(0o640), None))
    }

    pub fn mkdir(&mut self, folder: &[u8], name: &[u8]) -> Result<Vec<u8>, u32> {
        self.make(9, folder, name, Words::default().attributes(Some(0o755), None))
    }

    /// REMOVE (12) or RMDIR (13).
    pub fn remove(&mut self, procedure: u32, folder: &[u8], name: &[u8]) -> u32 {
        self.nfs(procedure, self.at(folder).bytes(name)).0
    }

    pub fn rename(&mut self, from: (&[u8], &[u8]), to: (&[u8], &[u8])) -> u32 {
        self.nfs(14, self.at(from.0).bytes(from.1).bytes(to.0).bytes(to.1)).0
    }

    /// WRITE; the bytes taken and how durably.
    pub fn write(&mut self, handle: &[u8], offset: u64, bytes: &[u8], stable: u32) -> Result<(u32, u32), u32> {
        let args = self.at(handle).u64(offset).u32(bytes.len() as u32).u32(stable).bytes(bytes);
        let (status, mut reply) = self.nfs(7, args);
        let (before, after) = reply.take_change();
        if status != 0 {
            return Err(status);
        }
        assert!(before.is_some());
        assert!(after.unwrap().size >= offset + bytes.len() as u64);
        Ok((reply.take_u32(), reply.take_u32()))
    }

    /// READ; the bytes and whether the file ends there.
    pub fn read(&mut self, handle: &[u8], offset: u64, count: u32) -> Result<(Vec<u8>, bool), u32> {
        let (status, mut reply) = self.nfs(6, self.at(handle).u64(offset).u32(count));
        assert!(reply.take_post().is_some() || status != 0);
        if status != 0 {
            return Err(status);
        }
        let (count, eof) = (reply.take_u32(), reply.take_u32() == 1);
        let bytes = reply.take_bytes();
        assert!(bytes.len() == count as usize && reply.0.is_empty());
        Ok((bytes, eof))
    }

    /// READDIR (16) or READDIRPLUS (17): names with their cookies, and whether that is all.
    pub fn list(&mut self, procedure: u32, folder: &[u8], cookie: u64, count: u32) -> (Vec<(Vec<u8>, u64)>, bool) {
        let args = self.at(folder).u64(cookie).u64(0).u32(count);
        let (status, mut reply) = self.nfs(procedure, if procedure == 17 { args.u32(count) } else { args });
        assert_eq!(status, 0);
        assert!(reply.0.len() <= count as usize);
        assert!(reply.take_post().is_some());
        reply.take_u64();
        let mut names = Vec::new();
        while reply.take_u32() == 1 {
            reply.take_u64();
            let (name, cookie) = (reply.take_bytes(), reply.take_u64());
            if procedure == 17 {
                assert!(reply.take_post().is_some());
                assert_eq!(reply.take_u32(), 1);
                reply.take_bytes();
            }
            names.push((name, cookie));
        }
        (names, reply.take_u32() == 1)
    }
}

pub fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}
