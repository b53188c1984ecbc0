//! Linux, and what else has POSIX's sockets.

use crate::os::Wait;
use crate::reference::Path;
use socket2::{MaybeUninitSlice, SockRef, Socket};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

#[cfg(target_os = "linux")]
const NO_SIGNAL: i32 = libc::MSG_NOSIGNAL;
#[cfg(not(target_os = "linux"))]
const NO_SIGNAL: i32 = 0; // an option of the socket there

/// Events of a [`Polled`]: bytes to receive, room to send, and an end of the connection.
pub(crate) const IN: i16 = libc::POLLIN;
pub(crate) const OUT: i16 = libc::POLLOUT;
pub(crate) const LOST: i16 = libc::POLLHUP | libc::POLLERR;

/// A connection, what is waited for, and what was seen.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Polled(libc::pollfd);

impl Polled {
    /// Of no connection.
    pub const NONE: Polled = Polled(libc::pollfd { fd: -1, events: 0, revents: 0 });

    pub fn new(socket: &Socket, events: i16) -> Polled {
        Polled(libc::pollfd { fd: socket.as_raw_fd(), events, revents: 0 })
    }

    pub fn saw(&self, events: i16) -> bool {
        self.0.revents & events != 0
    }
}

/// Waits at most `wait` for one of the connections. A signal ends it, too.
pub(crate) fn poll(polled: &mut [Polled], wait: Duration) -> io::Result<()> {
    let outcome = poll_all(polled, wait);
    if outcome < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
        polled.iter_mut().for_each(|p| p.0.revents = 0);
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn poll_all(polled: &mut [Polled], wait: Duration) -> libc::c_int {
    let spec = libc::timespec { tv_sec: wait.as_secs() as libc::time_t, tv_nsec: wait.subsec_nanos().into() };
    // SAFETY: the array is valid for its length during the call and its elements are pollfd; so is the time.
    unsafe { libc::ppoll(polled.as_mut_ptr().cast(), polled.len() as libc::nfds_t, &spec, std::ptr::null()) }
}

#[cfg(not(target_os = "linux"))]
fn poll_all(polled: &mut [Polled], wait: Duration) -> libc::c_int {
    let ms = wait.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as libc::c_int;
    // SAFETY: the array is valid for its length during the call and its elements are pollfd.
    unsafe { libc::poll(polled.as_mut_ptr().cast(), polled.len() as libc::nfds_t, ms) }
}

/// Makes a connected socket one whose calls wait a `tick`: the kernel's own timer does the waiting.
pub(crate) fn prepare(socket: &Socket, tick: Duration) -> io::Result<()> {
    #[cfg(target_vendor = "apple")]
    socket.set_nosigpipe(true)?;
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(tick))?;
    socket.set_write_timeout(Some(tick))
}

/// Whether an attempt to connect goes on behind the call.
pub(crate) fn is_under_way(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EINPROGRESS)
}

#[inline]
pub(crate) fn send(socket: &Socket, parts: &[IoSlice<'_>], wait: Wait) -> io::Result<usize> {
    let now = if wait == Wait::No { libc::MSG_DONTWAIT } else { 0 };
    socket.send_vectored_with_flags(parts, NO_SIGNAL | now)
}

#[inline]
pub(crate) fn receive(socket: &Socket, into: &mut [MaybeUninit<u8>], wait: Wait) -> io::Result<usize> {
    let flags = match wait {
        Wait::No => libc::MSG_DONTWAIT,
        Wait::First => 0,
        Wait::All => libc::MSG_WAITALL,
    };
    SockRef::from(socket).recv_with_flags(into, flags)
}

#[inline]
pub(crate) fn receive_vectored(socket: &Socket, parts: &mut [MaybeUninitSlice<'_>]) -> io::Result<usize> {
    SockRef::from(socket).recv_vectored(parts).map(|(taken, _)| taken)
}

/// What the kernel says of a connection; zeros where it says nothing.
#[cfg(target_os = "linux")]
pub(crate) fn path_of(stream: &TcpStream) -> Path {
    // SAFETY: all-zero bytes are a valid tcp_info, which holds integers only.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = std::mem::size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: info is writable for len bytes, and the descriptor is open while stream is borrowed.
    let code = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            std::ptr::from_mut(&mut info).cast(),
            &mut len,
        )
    };
    if code != 0 {
        return Path::default();
    }
    Path {
        mss_bytes: info.tcpi_snd_mss,
        mtu_bytes: info.tcpi_pmtu,
        retransmitted_segments: u64::from(info.tcpi_total_retrans),
    }
}

/// What the kernel says of a connection: nothing here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn path_of(_: &TcpStream) -> Path {
    Path::default()
}
