//! The near side.

use super::protocol::{
    number, payload, receive_to_end, send_for, stopped, Answer, Hello, Line, Mode, ANSWER_BYTES, BLOCK_BYTES,
};
use super::{Flow, MeasureOptions, Path, Reference, RoundTrip, MAX_CONNECTIONS, MAX_DURATION, MESSAGE_BYTES};
use crate::chance;
use crate::os::path_of;
use naslab_core::{errno, Error, ErrorKind, Result};
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Round trips are timed no longer than this.
const LONGEST_ECHO: Duration = Duration::from_secs(2);
const MOST_SAMPLES: usize = 1_000_000;
/// How often the caller is asked whether to go on.
const SLICE: Duration = Duration::from_millis(50);

/// What one measurement needs in all its parts.
struct Measurement<'a> {
    options: &'a MeasureOptions,
    address: SocketAddr,
    session: u64,
    stop: AtomicBool,
}

/// Upload, download, both at once, and round trips, in this order.
///
/// `on_phase` hears the name of each part as it begins (`upload`, `download`, `both`, `round_trip`) and, with an
/// empty name, about 20 times a second; when it answers false the measurement is stopped with an `Invalid` error.
/// Errors: `Disconnected` when nobody listens, `Protocol` when something else than naslab does, `Delayed` when
/// another measurement is going on there, `Timeout`.
pub fn measure(options: &MeasureOptions, on_phase: &mut dyn FnMut(&str) -> bool) -> Result<Reference> {
    check(options)?;
    let (address, stream) = dial(options)?;
    let session = chance();
    let work = Measurement { options, address, session, stop: AtomicBool::new(false) };
    let _control = work.greet(stream, Mode::Control)?;
    let n = options.connections as usize;
    let mut path = Path::default();
    let (upload, _) = work.flows("upload", n, 0, &mut path, on_phase)?;
    let (_, download) = work.flows("download", 0, n, &mut path, on_phase)?;
    let (both_upload, both_download) = work.flows("both", n, n, &mut path, on_phase)?;
    let round_trip = work.round_trip(on_phase)?;
    Ok(Reference { address, upload, download, both_upload, both_download, round_trip, path })
}

fn check(options: &MeasureOptions) -> Result<()> {
    let invalid = |message: String| Err(Error::new(ErrorKind::Invalid, "net", message));
    if !(1..=MAX_CONNECTIONS).contains(&options.connections) {
        return invalid(format!("connections {}: give 1 to {MAX_CONNECTIONS}", options.connections));
    }
    if options.duration.is_zero() || options.duration > MAX_DURATION {
        return invalid(format!("duration {:?}: give more than 0 and at most {MAX_DURATION:?}", options.duration));
    }
    Ok(())
}

fn dial(options: &MeasureOptions) -> Result<(SocketAddr, TcpStream)> {
    let about = |error: Error| error.with("host", &options.host).with("port", options.port);
    let addresses = (options.host.as_str(), options.port).to_socket_addrs().map_err(|_| {
        about(Error::new(ErrorKind::NotFound, "connect", "this host name is not known: check its spelling"))
    })?;
    let mut last = Error::new(ErrorKind::NotFound, "connect", "this host name has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, options.timeout) {
            Ok(stream) => return Ok((address, stream)),
            Err(error) => last = refused(error),
        }
    }
    Err(about(last))
}

fn refused(error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::TimedOut {
        return Error::new(ErrorKind::Timeout, "connect", "the host does not answer: check the address and firewalls");
    }
    let found = Error::from_io("connect", error);
    if found.status as i32 == errno::ECONNREFUSED {
        let message = "nothing listens there: run `naslab reference net --listen` on that host first";
        return Error { kind: ErrorKind::Disconnected, message: message.into(), ..found };
    }
    found
}

impl Measurement<'_> {
    fn connect(&self, mode: Mode) -> Result<Line<'_>> {
        let stream = TcpStream::connect_timeout(&self.address, self.options.timeout).map_err(refused)?;
        self.greet(stream, mode)
    }

    fn greet(&self, stream: TcpStream, mode: Mode) -> Result<Line<'_>> {
        let mut line = Line::new(stream, &self.stop, self.options.timeout)?;
        let duration_ms = self.options.duration.as_millis().max(1) as u32;
        line.send_all(&Hello { mode, duration_ms, session: self.session }.to_bytes())?;
        let mut bytes = [0; ANSWER_BYTES];
        let other = "a program other than `naslab reference net --listen` answers there: check the port";
        line.receive_all(&mut bytes).map_err(|e| match e.kind {
            ErrorKind::Disconnected => Error::new(ErrorKind::Protocol, "connect", other),
            _ => e,
        })?;
        let (kind, message) = match Answer::from_bytes(&bytes) {
            Some(Answer::Welcome) => return Ok(line),
            Some(Answer::Busy) => (ErrorKind::Delayed, "another measurement is running there: wait until it ends"),
            Some(Answer::OtherVersion) => {
                (ErrorKind::Protocol, "naslab there speaks another version: use the same naslab on both hosts")
            }
            Some(Answer::Refused) => (ErrorKind::Protocol, "the listener refused: it has been restarted"),
            None => (ErrorKind::Protocol, other),
        };
        Err(Error::new(kind, "connect", message))
    }

    /// `up` connections that send and `down` that receive, all at the same time.
    fn flows(
        &self,
        name: &str,
        up: usize,
        down: usize,
        path: &mut Path,
        on_phase: &mut dyn FnMut(&str) -> bool,
    ) -> Result<(Flow, Flow)> {
        let modes = std::iter::repeat_n(Mode::Upload, up).chain(std::iter::repeat_n(Mode::Download, down));
        let ready: Vec<Ready<'_>> = modes.map(|mode| self.ready(mode)).collect::<Result<Vec<_>>>()?;
        if !on_phase(name) {
            return Err(stopped());
        }
        let start = Instant::now();
        let ends = std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for one in ready {
                let thread = std::thread::Builder::new().spawn_scoped(scope, move || one.run(self.options.duration));
                threads.push(thread.map_err(|e| {
                    self.stop.store(true, Ordering::Relaxed);
                    Error::from_io("net", e)
                })?);
            }
            while threads.iter().any(|thread| !thread.is_finished()) {
                if !on_phase("") {
                    self.stop.store(true, Ordering::Relaxed);
                }
                std::thread::sleep(SLICE);
            }
            threads.into_iter().map(|thread| thread.join().map_err(|_| panicked())?).collect::<Result<Vec<_>>>()
        })?;
        Ok(merge(&ends, start, path))
    }

    fn ready(&self, mode: Mode) -> Result<Ready<'_>> {
        let block = if mode == Mode::Upload { payload() } else { vec![0; BLOCK_BYTES] };
        Ok(Ready { mode, line: self.connect(mode)?, block })
    }

    fn round_trip(&self, on_phase: &mut dyn FnMut(&str) -> bool) -> Result<RoundTrip> {
        let mut line = self.connect(Mode::Echo)?;
        let mut message = [0x5A; MESSAGE_BYTES];
        let mut samples_ns = Vec::with_capacity(MOST_SAMPLES);
        if !on_phase("round_trip") {
            return Err(stopped());
        }
        let begin = Instant::now();
        let mut asked = begin;
        while begin.elapsed() < self.options.duration.min(LONGEST_ECHO) && samples_ns.len() < MOST_SAMPLES {
            let start = Instant::now();
            line.send_all(&message)?;
            line.receive_all(&mut message)?;
            let end = Instant::now();
            samples_ns.push((end - start).as_nanos() as u64);
            if end - asked > SLICE {
                asked = end;
                if !on_phase("") {
                    return Err(stopped());
                }
            }
        }
        Ok(RoundTrip::of(&mut samples_ns))
    }
}

/// A connection whose clock has not started yet, with its memory.
struct Ready<'a> {
    mode: Mode,
    line: Line<'a>,
    block: Vec<u8>,
}

impl Ready<'_> {
    /// One connection's share. Uploads count what the other side says it received.
    fn run(mut self, duration: Duration) -> Result<End> {
        let bytes = if self.mode == Mode::Upload {
            send_for(&mut self.line, &self.block, duration)?;
            let mut arrived = [0; 8];
            self.line.receive_all(&mut arrived)?;
            number(&arrived)
        } else {
            self.line.send_all(&[1])?;
            receive_to_end(&mut self.line, &mut self.block)?
        };
        Ok(End { mode: self.mode, bytes, at: Instant::now(), path: path_of(&self.line.stream) })
    }
}

/// How one connection ended.
struct End {
    mode: Mode,
    bytes: u64,
    at: Instant,
    path: Path,
}

/// Sums of the connections that sent and of those that received, each over its own window.
fn merge(ends: &[End], start: Instant, path: &mut Path) -> (Flow, Flow) {
    let (mut sent, mut received) = (Flow::default(), Flow::default());
    for end in ends {
        let flow = if end.mode == Mode::Upload { &mut sent } else { &mut received };
        flow.bytes += end.bytes;
        flow.duration_ns = flow.duration_ns.max(end.at.saturating_duration_since(start).as_nanos() as u64);
        if end.mode == Mode::Upload {
            path.mss_bytes = end.path.mss_bytes;
            path.mtu_bytes = end.path.mtu_bytes;
            path.retransmitted_segments += end.path.retransmitted_segments;
        }
    }
    (sent, received)
}

fn panicked() -> Error {
    Error::new(ErrorKind::Io, "net", "a thread of the measurement failed")
}
