//! Windows. A blocking call whose time ran out leaves a socket in no defined state there, so sockets never block: what
//! waits polls first.

use crate::os::Wait;
use crate::reference::Path;
use socket2::{MaybeUninitSlice, SockRef, Socket};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::windows::io::AsRawSocket;
use std::time::Duration;
use windows_sys::Win32::Networking::WinSock::{
    WSAGetLastError, WSAPoll, INVALID_SOCKET, POLLERR, POLLHUP, POLLRDNORM, POLLWRNORM, SOCKET, WSAPOLLFD,
};

/// How long a call waits.
const TICK: Duration = Duration::from_millis(50);

/// Events of a [`Polled`]: bytes to receive, room to send, and an end of the connection.
pub(crate) const IN: i16 = POLLRDNORM;
pub(crate) const OUT: i16 = POLLWRNORM;
pub(crate) const LOST: i16 = POLLHUP | POLLERR;

/// A connection, what is waited for, and what was seen.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Polled(WSAPOLLFD);

impl Polled {
    /// Of no connection.
    pub const NONE: Polled = Polled(WSAPOLLFD { fd: INVALID_SOCKET, events: 0, revents: 0 });

    pub fn new(socket: &Socket, events: i16) -> Polled {
        Polled(WSAPOLLFD { fd: socket.as_raw_socket() as SOCKET, events, revents: 0 })
    }

    pub fn saw(&self, events: i16) -> bool {
        self.0.revents & events != 0
    }
}

/// Waits at most `wait`, in whole milliseconds, for one of the connections.
pub(crate) fn poll(polled: &mut [Polled], wait: Duration) -> io::Result<()> {
    let ms = wait.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as i32;
    // SAFETY: the array is valid for its length during the call and its elements are WSAPOLLFD.
    let outcome = unsafe { WSAPoll(polled.as_mut_ptr().cast(), polled.len() as u32, ms) };
    if outcome < 0 {
        // SAFETY: asks for a number.
        return Err(io::Error::from_raw_os_error(unsafe { WSAGetLastError() }));
    }
    Ok(())
}

/// Makes a connected socket one that never blocks.
pub(crate) fn prepare(socket: &Socket, _tick: Duration) -> io::Result<()> {
    socket.set_nonblocking(true)
}

/// Whether an attempt to connect goes on behind the call.
pub(crate) fn is_under_way(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

fn await_one(socket: &Socket, events: i16, wait: Wait) -> io::Result<()> {
    match wait {
        Wait::No => Ok(()),
        Wait::First | Wait::All => poll(&mut [Polled::new(socket, events)], TICK),
    }
}

pub(crate) fn send(socket: &Socket, parts: &[IoSlice<'_>], wait: Wait) -> io::Result<usize> {
    await_one(socket, OUT, wait)?;
    socket.send_vectored(parts)
}

/// Of `Wait::All` perhaps fewer: the caller goes on.
pub(crate) fn receive(socket: &Socket, into: &mut [MaybeUninit<u8>], wait: Wait) -> io::Result<usize> {
    await_one(socket, IN, wait)?;
    SockRef::from(socket).recv(into)
}

pub(crate) fn receive_vectored(socket: &Socket, parts: &mut [MaybeUninitSlice<'_>]) -> io::Result<usize> {
    await_one(socket, IN, Wait::First)?;
    SockRef::from(socket).recv_vectored(parts).map(|(taken, _)| taken)
}

/// What the system says of a connection: nothing here.
pub(crate) fn path_of(_: &TcpStream) -> Path {
    Path::default()
}
