//! The far side.

use super::protocol::{
    payload, receive_to_end, send_for, Answer, Hello, Line, Mode, Stranger, BLOCK_BYTES, HELLO_BYTES, SLICE,
};
use super::{ListenEvent, ListenOptions, MAX_CONNECTIONS, MAX_DURATION, MESSAGE_BYTES};
use crate::os;
use naslab_core::{errno, Error, ErrorKind, Result};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Mutex;
use std::thread::Scope;
use std::time::{Duration, Instant};

/// A hello must be there by then.
const HELLO_PATIENCE: Duration = Duration::from_secs(3);
/// Longest silence on a connection of a measurement.
const PATIENCE: Duration = Duration::from_secs(30);
/// A client that forgot to end: control connections live no longer.
const LONGEST_SESSION: Duration = Duration::from_secs(4 * 3600);
/// Both directions at once, the control connection, and some that are still saying hello.
const MAX_THREADS: usize = MAX_CONNECTIONS as usize * 2 + 32;

/// What the threads of one listener share.
struct Shared {
    stop: AtomicBool,
    threads: AtomicUsize,
    /// Number of the measurement under way.
    session: Mutex<Option<u64>>,
    block: Vec<u8>,
}

/// Serves one measurement after the other until `on_event` answers false, the idle time is over, or, with `once`,
/// the first has ended. Returns how many were served. Blocks; its threads have ended when it returns.
///
/// Errors: what binding the address fails with.
pub fn listen(options: &ListenOptions, on_event: &mut dyn FnMut(ListenEvent) -> bool) -> Result<u64> {
    let listener = bind(options.address)?;
    let address = listener.local_addr().map_err(|e| Error::from_io("listen", e))?;
    let shared = Shared {
        stop: AtomicBool::new(false),
        threads: AtomicUsize::new(0),
        session: Mutex::new(None),
        block: payload(),
    };
    let (sender, events) = channel();
    std::thread::scope(|scope| {
        let served = if on_event(ListenEvent::Listening(address)) {
            accept_all(scope, &listener, &shared, options, (&sender, &events), on_event)
        } else {
            Ok(0)
        };
        shared.stop.store(true, Ordering::Relaxed);
        served
    })
}

fn bind(address: SocketAddr) -> Result<TcpListener> {
    let failed = |error: io::Error| {
        let found = Error::from_io("listen", error);
        let step = match found.status as i32 {
            errno::EADDRINUSE => "; another program listens there: choose another port",
            errno::EACCES => "; ports below 1024 need root: choose another port",
            errno::EADDRNOTAVAIL => "; this machine has no such address",
            _ => "",
        };
        let message = format!("{}{step}", found.message);
        Error { message, ..found }.with("address", address)
    };
    let listener = TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

fn accept_all<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    listener: &TcpListener,
    shared: &'env Shared,
    options: &ListenOptions,
    (sender, events): (&Sender<ListenEvent>, &Receiver<ListenEvent>),
    on_event: &mut dyn FnMut(ListenEvent) -> bool,
) -> Result<u64> {
    let (mut served, mut quiet_since) = (0, Instant::now());
    loop {
        match os::accept(listener, SLICE) {
            Ok((stream, peer)) => welcome(scope, shared, stream, peer, sender.clone()),
            Err(e) if passing(&e) => {}
            Err(e) => return Err(Error::from_io("listen", e)),
        }
        for event in std::iter::once(ListenEvent::Tick).chain(events.try_iter()) {
            if !on_event(event) {
                return Ok(served);
            }
            if matches!(event, ListenEvent::Ended(_)) {
                served += 1;
            }
        }
        if shared.threads.load(Ordering::Relaxed) > 0 {
            quiet_since = Instant::now();
        }
        let idle = options.idle.is_some_and(|limit| quiet_since.elapsed() >= limit);
        if idle || (options.once && served > 0) {
            return Ok(served);
        }
    }
}

/// Errors of accept that concern one connection, or go away again.
fn passing(error: &io::Error) -> bool {
    use errno::{EAGAIN, ECONNABORTED, EINTR, EMFILE, ENFILE, ENOBUFS, EPROTO};
    let code = errno::of(error);
    if matches!(code, EMFILE | ENFILE) {
        std::thread::sleep(SLICE);
    }
    [EAGAIN, EINTR, ECONNABORTED, EMFILE, ENFILE, ENOBUFS, EPROTO].contains(&code)
}

/// Gives the connection a thread; one too many is closed at once.
fn welcome<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    shared: &'env Shared,
    stream: TcpStream,
    peer: SocketAddr,
    events: Sender<ListenEvent>,
) {
    if shared.threads.fetch_add(1, Ordering::Relaxed) >= MAX_THREADS {
        shared.threads.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
    let work = move || {
        // What goes wrong on one connection is the client's to report.
        let _ = serve(shared, stream, peer, &events);
        shared.threads.fetch_sub(1, Ordering::Relaxed);
    };
    if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
        shared.threads.fetch_sub(1, Ordering::Relaxed);
    }
}

fn serve(shared: &Shared, stream: TcpStream, peer: SocketAddr, events: &Sender<ListenEvent>) -> Result<()> {
    let Some((hello, stream)) = greeted(shared, stream)? else {
        return Ok(());
    };
    let mut line = Line::new(stream, &shared.stop, PATIENCE)?;
    let duration = Duration::from_millis(u64::from(hello.duration_ms));
    if hello.mode == Mode::Control {
        return control(shared, line, hello.session, peer, events);
    }
    if duration > MAX_DURATION || *lock(&shared.session) != Some(hello.session) {
        return line.send_all(&Answer::Refused.to_bytes());
    }
    let mut block = vec![0; if hello.mode == Mode::Upload { BLOCK_BYTES } else { MESSAGE_BYTES }];
    line.send_all(&Answer::Welcome.to_bytes())?;
    match hello.mode {
        Mode::Upload => {
            let received = receive_to_end(&mut line, &mut block)?;
            line.send_all(&received.to_be_bytes())
        }
        Mode::Download => {
            line.receive_all(&mut block[..1])?;
            send_for(&mut line, &shared.block, duration).map(drop)
        }
        _ => echo(&mut line, &mut block),
    }
}

/// The hello, within its time as a whole: a stranger who says little slowly gets no longer.
fn greeted(shared: &Shared, stream: TcpStream) -> Result<Option<(Hello, TcpStream)>> {
    let end = Instant::now() + HELLO_PATIENCE;
    let mut line = Line::new(stream, &shared.stop, HELLO_PATIENCE)?;
    let mut bytes = [0; HELLO_BYTES];
    let mut done = 0;
    while done < bytes.len() {
        let n = line.receive(&mut bytes[done..])?;
        if n == 0 || Instant::now() > end {
            return Ok(None);
        }
        done += n;
    }
    match Hello::from_bytes(&bytes) {
        Ok(hello) => Ok(Some((hello, line.stream))),
        Err(Stranger::OtherVersion) => line.send_all(&Answer::OtherVersion.to_bytes()).map(|()| None),
        Err(Stranger::Unknown) => Ok(None),
    }
}

/// Begins a measurement if none is under way, and waits for its end.
fn control(
    shared: &Shared,
    mut line: Line<'_>,
    number: u64,
    peer: SocketAddr,
    events: &Sender<ListenEvent>,
) -> Result<()> {
    {
        let mut session = lock(&shared.session);
        if session.is_some() {
            drop(session);
            return line.send_all(&Answer::Busy.to_bytes());
        }
        *session = Some(number);
    }
    let _ = events.send(ListenEvent::Begun(peer));
    let began = Instant::now();
    let mut lived = line.send_all(&Answer::Welcome.to_bytes());
    let mut byte = [0; 1];
    while lived.is_ok() && began.elapsed() < LONGEST_SESSION {
        match line.receive(&mut byte) {
            Ok(0) => break,
            Ok(_) => {}
            Err(e) if e.kind == ErrorKind::Timeout => {}
            Err(e) => lived = Err(e),
        }
    }
    *lock(&shared.session) = None;
    let _ = events.send(ListenEvent::Ended(peer));
    lived
}

fn echo(line: &mut Line<'_>, message: &mut [u8]) -> Result<()> {
    let end = Instant::now() + MAX_DURATION;
    while Instant::now() < end {
        match line.receive(message)? {
            0 => return Ok(()),
            n => line.send_all(&message[..n])?,
        }
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
