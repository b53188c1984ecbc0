//! Calls of the operating system that its connections are made of.

#[cfg_attr(unix, path = "os/unix.rs")]
#[cfg_attr(windows, path = "os/windows.rs")]
mod system;

pub(crate) use system::{is_under_way, path_of, poll, prepare, receive, receive_vectored, send, Polled, IN, LOST, OUT};

use socket2::SockRef;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// Whether a call waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// It takes what is there.
    No,
    /// For the first bytes, a tick at most.
    First,
    /// For all of them, a tick at most.
    All,
}

/// The next connection to a listener that does not block; an error of the kind WouldBlock where none came in time.
pub(crate) fn accept(listener: &TcpListener, wait: Duration) -> io::Result<(TcpStream, SocketAddr)> {
    poll(&mut [Polled::new(&SockRef::from(listener), IN)], wait)?;
    let (stream, peer) = listener.accept()?;
    // Elsewhere than on Linux it takes after its listener.
    stream.set_nonblocking(false)?;
    Ok((stream, peer))
}
