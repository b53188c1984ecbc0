//! A small NFS 3 server over one folder: no root, no portmapper, a free loopback port, MOUNT on the same port.
//!
//! It is made to be measured: one thread a connection, data read from and written to the file without a copy of
//! ours in between, nothing allocated per call, replies sent together when calls came together. Calls that would
//! wait for a disk (COMMIT, stable WRITE, READ of what is not in memory) run beside each other when several are
//! here. Clients are served as the user that runs it, so it listens on the loopback interface alone and takes
//! connections of that user and of root.
//!
//! A name is one entry in a folder and symbolic links are never followed: what lies outside cannot be reached.
//! Names made or removed become durable with the file system's own pace, not with the call.

mod attributes;
mod connection;
mod data;
mod folder;
mod helpers;
#[cfg(test)]
mod hostile;
mod listing;
mod mount;
mod nfs;
mod nodes;
mod outgoing;
mod peer;
mod records;
mod rpc;
mod serve;
mod status;
mod xdr;

use crate::connection::Connection;
use crate::folder::Folder;
use std::io;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Connections at a time; more are closed at once.
const MOST_CONNECTIONS: usize = 256;

/// A server that has its port and serves nobody yet.
pub struct Server {
    listener: TcpListener,
    folder: Arc<Folder>,
    shared: Arc<Shared>,
}

/// Ends a server.
#[derive(Clone)]
pub struct Stopper {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    stops: AtomicBool,
    streams: Mutex<Vec<Arc<TcpStream>>>,
}

impl Server {
    /// Takes a loopback port (0: a free one) for serving `folder` as the export `/data`. Fails when the folder
    /// cannot be opened or the port is taken.
    pub fn bind(folder: &Path, port: u16) -> io::Result<Self> {
        let folder = Arc::new(Folder::new(folder)?);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        Ok(Self { listener, folder, shared: Arc::default() })
    }

    /// The port it has.
    pub fn port(&self) -> io::Result<u16> {
        Ok(self.listener.local_addr()?.port())
    }

    /// What ends it from another thread.
    pub fn stopper(&self) -> io::Result<Stopper> {
        Ok(Stopper { port: self.port()?, shared: Arc::clone(&self.shared) })
    }

    /// Serves until it is stopped. Blocks; starts a thread a connection.
    pub fn serve(&self) {
        loop {
            let accepted = self.listener.accept();
            if self.shared.stops.load(Ordering::Acquire) {
                return;
            }
            match accepted {
                Ok((stream, _)) => self.welcome(stream),
                Err(_) => std::thread::sleep(Duration::from_millis(10)), // out of descriptors: some come free
            }
        }
    }

    /// A thread for a client; one too many, and one of another user, is closed.
    fn welcome(&self, stream: TcpStream) {
        if !peer::is_ours(&stream) {
            return;
        }
        let folder = Arc::clone(&self.folder);
        let shared = Arc::clone(&self.shared);
        let Ok(second) = stream.try_clone().map(Arc::new) else { return };
        let mut streams = self.shared.streams();
        if streams.len() >= MOST_CONNECTIONS {
            return;
        }
        let thread = std::thread::Builder::new().name("naslab-nfs".into());
        let known = Arc::clone(&second);
        let started = thread.spawn(move || {
            if let Ok(connection) = Connection::new(folder, stream) {
                connection.run();
            }
            let _ = second.shutdown(Shutdown::Both);
            shared.streams().retain(|other| !Arc::ptr_eq(other, &second));
        });
        if started.is_ok() {
            streams.push(known);
        }
    }
}

impl Stopper {
    /// Ends the server: no further client, and those connected are cut off.
    pub fn stop(&self) {
        self.shared.stops.store(true, Ordering::Release);
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        for stream in self.shared.streams().iter() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Shared {
    fn streams(&self) -> std::sync::MutexGuard<'_, Vec<Arc<TcpStream>>> {
        self.streams.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
