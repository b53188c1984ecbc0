use super::protocol::{number, payload, Answer, Hello, Mode, Stranger, HELLO_BYTES};
use super::*;
use naslab_core::{Error, ErrorKind};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver};
use std::thread::JoinHandle;

fn options(address: SocketAddr) -> MeasureOptions {
    MeasureOptions {
        host: address.ip().to_string(),
        port: address.port(),
        connections: 2,
        duration: Duration::from_millis(60),
        timeout: Duration::from_secs(10),
    }
}

/// A listener on a free port; it ends with `once`, or when the returned flag is set.
struct Far {
    address: SocketAddr,
    stop: std::sync::Arc<AtomicBool>,
    events: Receiver<ListenEvent>,
    thread: JoinHandle<naslab_core::Result<u64>>,
}

fn far(once: bool) -> Far {
    let stop = std::sync::Arc::new(AtomicBool::new(false));
    let (sender, events) = channel();
    let (asked, options) = (
        stop.clone(),
        ListenOptions { address: (Ipv4Addr::LOCALHOST, 0).into(), once, idle: Some(Duration::from_secs(60)) },
    );
    let thread = std::thread::spawn(move || {
        listen(&options, &mut |event| {
            if event != ListenEvent::Tick {
                let _ = sender.send(event);
            }
            !asked.load(Ordering::Relaxed)
        })
    });
    let Ok(ListenEvent::Listening(address)) = events.recv() else { panic!("no address") };
    Far { address, stop, events, thread }
}

#[test]
fn every_direction_moves_bytes_and_the_listener_ends() {
    let far = far(true);
    let mut phases = Vec::new();
    let found = measure(&options(far.address), &mut |phase| {
        if !phase.is_empty() {
            phases.push(phase.to_string());
        }
        true
    })
    .unwrap();
    assert_eq!(phases, ["upload", "download", "both", "round_trip"]);
    for flow in [found.upload, found.download, found.both_upload, found.both_download] {
        assert!(flow.bytes > 0 && flow.duration_ns >= 60_000_000, "{flow:?}");
        assert!(flow.bytes_per_s() > 0.0);
    }
    let trip = found.round_trip;
    assert!(trip.count > 0 && trip.min_ns > 0);
    assert!(trip.min_ns <= trip.p50_ns && trip.p50_ns <= trip.p99_ns && trip.p99_ns <= trip.max_ns);
    let told = found.path.mss_bytes > 0 && found.path.mtu_bytes >= found.path.mss_bytes;
    assert!(told || !cfg!(target_os = "linux"));
    assert_eq!(far.thread.join().unwrap().unwrap(), 1);
    let events: Vec<_> = far.events.iter().collect();
    assert!(matches!(events[..], [ListenEvent::Begun(_), ListenEvent::Ended(_)]), "{events:?}");
}

#[test]
fn strangers_get_no_answer_and_do_not_disturb() {
    let far = far(true);
    for words in [&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n    "[..], &[0xFF; 4096]] {
        let mut stranger = TcpStream::connect(far.address).unwrap();
        stranger.write_all(words).unwrap();
        let mut answer = Vec::new();
        // Closed with unread bytes is a reset; either way nothing was said.
        let _ = stranger.read_to_end(&mut answer);
        assert!(answer.is_empty(), "{answer:?}");
    }
    // Ours, but not of the measurement under way.
    let mut stray = TcpStream::connect(far.address).unwrap();
    stray.write_all(&Hello { mode: Mode::Upload, duration_ms: 5, session: 7 }.to_bytes()).unwrap();
    let mut answer = [0; 16];
    stray.read_exact(&mut answer).unwrap();
    assert_eq!(Answer::from_bytes(&answer), Some(Answer::Refused));
    measure(&options(far.address), &mut |_| true).unwrap();
    assert_eq!(far.thread.join().unwrap().unwrap(), 1);
}

#[test]
fn one_measurement_at_a_time() {
    let far = far(false);
    let mut first = TcpStream::connect(far.address).unwrap();
    first.write_all(&Hello { mode: Mode::Control, duration_ms: 5, session: 7 }.to_bytes()).unwrap();
    first.read_exact(&mut [0; 16]).unwrap();
    let error = measure(&options(far.address), &mut |_| true).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Delayed, "{error}");
    drop(first);
    assert!(far.events.iter().any(|event| matches!(event, ListenEvent::Ended(_))));
    measure(&options(far.address), &mut |_| true).unwrap();
    far.stop.store(true, Ordering::Relaxed);
    assert!(far.thread.join().unwrap().unwrap() >= 1);
}

#[test]
fn stopped_by_the_caller_in_each_part() {
    let far = far(false);
    for part in ["upload", "download", "both", "round_trip"] {
        let mut reached = false;
        let long = MeasureOptions { duration: Duration::from_millis(300), ..options(far.address) };
        let error: Error = loop {
            let outcome = measure(&long, &mut |phase| {
                let go_on = !reached;
                reached |= phase == part;
                go_on
            });
            match outcome {
                // The end of the last measurement is still on its way to the listener.
                Err(e) if e.kind == ErrorKind::Delayed => continue,
                outcome => break outcome.unwrap_err(),
            }
        };
        assert!(reached && error.message.contains("stopped"), "{part}: {error}");
    }
    far.stop.store(true, Ordering::Relaxed);
    far.thread.join().unwrap().unwrap();
}

#[test]
fn a_listener_that_ends_in_the_middle_is_an_error() {
    let far = far(false);
    let long = MeasureOptions { duration: Duration::from_secs(20), ..options(far.address) };
    let error = measure(&long, &mut |phase| {
        if phase.is_empty() {
            far.stop.store(true, Ordering::Relaxed);
        }
        true
    })
    .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Disconnected, "{error}");
    far.thread.join().unwrap().unwrap();
}

#[test]
fn nobody_there_and_somebody_else_there() {
    let free = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = free.local_addr().unwrap();
    let other = std::thread::spawn(move || {
        let (mut stream, _) = free.accept().unwrap();
        stream.write_all(b"220 mail.example.org ESMTP ready and waiting\r\n").unwrap();
        let _ = stream.read(&mut [0; 64]);
    });
    let error = measure(&options(address), &mut |_| true).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Protocol, "{error}");
    other.join().unwrap();
    let error = measure(&options(address), &mut |_| true).unwrap_err();
    assert!(error.kind == ErrorKind::Disconnected && error.message.contains("net --listen"), "{error}");
}

#[test]
fn options_out_of_range_are_refused() {
    let good = options((Ipv4Addr::LOCALHOST, 1).into());
    for bad in [
        MeasureOptions { connections: 0, ..good.clone() },
        MeasureOptions { connections: MAX_CONNECTIONS + 1, ..good.clone() },
        MeasureOptions { duration: Duration::ZERO, ..good.clone() },
        MeasureOptions { duration: MAX_DURATION + SECOND, ..good },
    ] {
        assert_eq!(measure(&bad, &mut |_| true).unwrap_err().kind, ErrorKind::Invalid);
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn hello_and_answer_survive_the_wire_and_nothing_else_does() {
    for mode in [Mode::Control, Mode::Upload, Mode::Download, Mode::Echo] {
        let hello = Hello { mode, duration_ms: 12_345, session: 0x0102_0304_0506_0708 };
        assert_eq!(Hello::from_bytes(&hello.to_bytes()), Ok(hello));
    }
    let mut bytes = Hello { mode: Mode::Echo, duration_ms: 1, session: 2 }.to_bytes();
    bytes[10] = 9;
    assert_eq!(Hello::from_bytes(&bytes), Err(Stranger::Unknown));
    bytes[9] = 2;
    assert_eq!(Hello::from_bytes(&bytes), Err(Stranger::OtherVersion));
    assert_eq!(Hello::from_bytes(&[0; HELLO_BYTES]), Err(Stranger::Unknown));
    assert_eq!(Answer::from_bytes(&[0; 16]), None);
    assert_eq!(number(&258_u64.to_be_bytes()), 258);
}

#[test]
fn round_trip_percentiles_are_those_of_the_definition() {
    let mut samples: Vec<u64> = (1..=1000).rev().collect();
    let found = RoundTrip::of(&mut samples);
    assert_eq!((found.count, found.min_ns, found.max_ns, found.mean_ns), (1000, 1, 1000, 500));
    assert_eq!((found.p50_ns, found.p90_ns, found.p99_ns, found.p99_9_ns), (500, 900, 990, 999));
    assert_eq!(RoundTrip::of(&mut []), RoundTrip::default());
    assert_eq!(RoundTrip::of(&mut [7]).p99_9_ns, 7);
}

#[test]
fn payload_does_not_repeat() {
    let block = payload();
    let mut words: Vec<&[u8]> = block.chunks_exact(8).collect();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), block.len() / 8);
}
