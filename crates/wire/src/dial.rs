//! Opening a connection.

use crate::os::{self, Polled};
use crate::Wire;
use naslab_core::{errno, limit, Error, ErrorKind, Result};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Source ports that only root may use and that servers with `secure` exports ask for (RFC 1813's time, and
/// still the default of Linux and most NAS). Below 512 lie well-known services.
const PRIVILEGED_PORTS: RangeInclusive<u16> = 665..=1023;

/// How often a wait is looked at.
const TICK: Duration = Duration::from_millis(50);

/// How to connect.
#[derive(Clone, Copy, Debug)]
pub struct DialOptions {
    /// Longest time for the connection and for each call on it afterwards.
    pub timeout: Duration,
    /// Come from a port below 1024.
    pub privileged_port: bool,
}

/// Connects to a host name or address, trying its addresses in turn.
///
/// Errors: `NotFound` when the name means nothing, `Timeout`, `Disconnected` when nobody listens there,
/// `Permission` when a privileged port is asked for and not allowed.
pub fn dial(host: &str, port: u16, options: &DialOptions) -> Result<Wire> {
    let plain = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    let about = |error: Error| error.with("host", plain).with("port", port);
    let _scope = limit::within(options.timeout);
    let until = Instant::now() + limit::left().unwrap_or(options.timeout);
    let addresses = resolve(plain, port).map_err(about)?;
    let mut last = Error::new(ErrorKind::NotFound, "connect", "this host name has no address");
    for address in addresses {
        match connect(address, until, options) {
            Ok(socket) => return Wire::new(socket, options.timeout).map_err(about),
            Err(error) => last = error,
        }
    }
    Err(about(last))
}

/// The addresses of a host. A name is looked up on a thread of its own: the system's resolver has no deadline.
fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let (report, answer) = channel();
    let name = host.to_string();
    let look_up = move || drop(report.send((name.as_str(), port).to_socket_addrs().map(Vec::from_iter)));
    let thread = std::thread::Builder::new().name("resolver".to_string());
    thread.spawn(look_up).map_err(|e| Error::from_io("connect", e))?;
    loop {
        match answer.recv_timeout(TICK) {
            Ok(Ok(addresses)) => return Ok(addresses),
            Err(RecvTimeoutError::Timeout) => limit::check("connect").map_err(unresolved)?,
            Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => {
                let message = "this host name is not known: check its spelling";
                return Err(Error::new(ErrorKind::NotFound, "connect", message));
            }
        }
    }
}

fn unresolved(error: Error) -> Error {
    match error.kind {
        ErrorKind::Timeout => Error { message: "no answer from the address of this host name".to_string(), ..error },
        _ => error,
    }
}

fn connect(address: SocketAddr, until: Instant, options: &DialOptions) -> Result<Socket> {
    let failed = |error| refused(error);
    if !options.privileged_port {
        let socket = new_socket(address).map_err(failed)?;
        return connect_until(socket, address, until).map_err(failed);
    }
    // A port may be taken, or its last connection to this server may still linger: try the next one.
    let start = std::process::id() as u16;
    let count = PRIVILEGED_PORTS.end() - PRIVILEGED_PORTS.start() + 1;
    for step in 0..count {
        let port = PRIVILEGED_PORTS.start() + start.wrapping_add(step) % count;
        let socket = new_socket(address).map_err(failed)?;
        // A port whose last connection lingers, or that leads to another server, may be used again: what must be new
        // is the pair of addresses and ports, which connecting checks.
        let outcome = socket
            .set_reuse_address(true)
            .and_then(|()| socket.bind(&source(address, port)))
            .and_then(|()| connect_until(socket, address, until));
        match outcome {
            Err(e) if matches!(errno::of(&e), errno::EADDRINUSE | errno::EADDRNOTAVAIL) => continue,
            Err(e) if errno::of(&e) == errno::EACCES => {
                let message =
                    "a source port below 1024 needs root: run naslab as root or let the server accept any port";
                return Err(Error {
                    status: errno::EACCES as i64,
                    ..Error::new(ErrorKind::Permission, "connect", message)
                });
            }
            other => return other.map_err(failed),
        }
    }
    let message = format!(
        "no source port from {} to {} is free for another connection to this server: use fewer workers or connections, \
         or wait a minute for closed ones to be forgotten",
        PRIVILEGED_PORTS.start(),
        PRIVILEGED_PORTS.end()
    );
    Err(Error::new(ErrorKind::Io, "connect", message))
}

fn new_socket(address: SocketAddr) -> io::Result<Socket> {
    Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))
}

fn connect_until(socket: Socket, address: SocketAddr, until: Instant) -> io::Result<Socket> {
    socket.set_nonblocking(true)?;
    match socket.connect(&SockAddr::from(address)) {
        Err(e) if os::is_under_way(&e) => {}
        outcome => return outcome.map(|()| socket),
    }
    while !writable(&socket)? {
        if Instant::now() >= until || limit::check("connect").is_err() {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    socket.take_error()?.map_or(Ok(socket), Err)
}

/// Waits a tick for the end of an attempt to connect.
fn writable(socket: &Socket) -> io::Result<bool> {
    let mut polled = [Polled::new(socket, os::OUT)];
    os::poll(&mut polled, TICK)?;
    Ok(polled[0].saw(!0))
}

fn source(address: SocketAddr, port: u16) -> SockAddr {
    let any = match address {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    SockAddr::from(SocketAddr::new(any, port))
}

fn refused(error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::TimedOut {
        if let Err(interrupted @ Error { kind: ErrorKind::Interrupted, .. }) = limit::check("connect") {
            return interrupted;
        }
        return Error::new(ErrorKind::Timeout, "connect", "the server does not answer");
    }
    let mut found = Error::from_io("connect", error);
    if matches!(found.status as i32, errno::EHOSTUNREACH | errno::ENETUNREACH) {
        found.kind = ErrorKind::Disconnected;
    }
    found
}
