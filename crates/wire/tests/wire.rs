//! A connection against a scripted peer on loopback.

mod common;

use naslab_core::{errno, ErrorKind};
use naslab_wire::{dial, ready, DialOptions, Wire};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(20);

fn pair(timeout: Duration) -> (Wire, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let wire = dial("127.0.0.1", port, &DialOptions { timeout, privileged_port: false }).unwrap();
    (wire, listener.accept().unwrap().0)
}

#[test]
fn parts_arrive_in_order_and_are_counted() {
    let (mut wire, mut peer) = pair(LONG);
    wire.send(&[b"head", b"", b"pay", b"load"]).unwrap();
    let mut got = [0; 11];
    peer.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"headpayload");
    peer.write_all(b"answer").unwrap();
    wire.fill(6).unwrap();
    assert_eq!(wire.buffered(), b"answer");
    wire.consume(3);
    assert_eq!(wire.buffered(), b"wer");
    assert_eq!((wire.counters().sent_bytes, wire.counters().received_bytes), (11, 6));
}

#[test]
fn payloads_land_in_place_whatever_was_buffered() {
    common::payloads_arrive_whole(|| pair(LONG));
}

#[test]
fn silence_ends_in_a_timeout_and_keeps_what_came() {
    let (mut wire, mut peer) = pair(SHORT);
    peer.write_all(b"half").unwrap();
    assert_eq!(wire.fill(8).unwrap_err().kind, ErrorKind::Timeout);
    assert_eq!(wire.buffered(), b"half");
    let mut into = [0; 8];
    assert_eq!(wire.read_into(&mut into).unwrap_err().kind, ErrorKind::Timeout);
}

#[test]
fn a_slow_trickle_does_not_outlast_the_timeout() {
    let (mut wire, mut peer) = pair(SHORT);
    let trickle = std::thread::spawn(move || {
        let mut sent = 0;
        while sent < 2000 && peer.write_all(b".").is_ok() {
            sent += 1;
            std::thread::sleep(Duration::from_millis(20));
        }
        sent
    });
    let mut into = vec![0; 100_000];
    assert_eq!(wire.read_into(&mut into).unwrap_err().kind, ErrorKind::Timeout);
    drop(wire);
    assert!(trickle.join().unwrap() < 2000);
}

#[test]
fn looking_does_not_wait() {
    let (mut wire, mut peer) = pair(LONG);
    assert!(!wire.try_fill(1, Duration::ZERO).unwrap());
    assert!(!wire.try_fill(1, Duration::from_millis(5)).unwrap());
    assert!(!wire.try_fill(1, Duration::from_millis(60)).unwrap());
    peer.write_all(b"ab").unwrap();
    assert!(wire.try_fill(2, Duration::from_millis(30)).unwrap());
    assert!(!wire.try_fill(3, Duration::ZERO).unwrap());
    assert_eq!(wire.buffered(), b"ab");
    assert_eq!(wire.fill(1 << 20).unwrap_err().kind, ErrorKind::Invalid);
}

#[test]
fn a_closed_or_reset_connection_is_disconnected() {
    let (mut wire, peer) = pair(LONG);
    drop(peer);
    assert_eq!(wire.fill(1).unwrap_err().kind, ErrorKind::Disconnected);

    let (mut wire, peer) = pair(LONG);
    socket2::SockRef::from(&peer).set_linger(Some(Duration::ZERO)).unwrap();
    drop(peer);
    assert_eq!(wire.fill(1).unwrap_err().kind, ErrorKind::Disconnected);
    assert_eq!(wire.send(&[b"x"]).unwrap_err().kind, ErrorKind::Disconnected);
}

#[test]
fn a_full_socket_takes_nothing_and_says_when_it_does_again() {
    let (mut wire, mut peer) = pair(SHORT);
    let data = common::pattern(1 << 20);
    // The other end's buffer takes a little more each time, until it is full too.
    while wire.send_some(&[&data], 0).unwrap() > 0 {}
    assert_eq!(wire.send_some(&[&data], 17).unwrap(), 17);
    assert_eq!(wire.send(&[&data]).unwrap_err().kind, ErrorKind::Timeout);
    let sent = wire.counters().sent_bytes;
    let reader = std::thread::spawn(move || {
        let mut got = vec![0; sent as usize];
        peer.read_exact(&mut got).unwrap();
        peer
    });
    assert!(ready(&[wire], Some(0), LONG).unwrap().writable);
    drop(reader.join().unwrap());
}

#[test]
fn ready_names_the_connections() {
    let (first, _first_peer) = pair(LONG);
    let (second, mut second_peer) = pair(LONG);
    let (mut third, mut third_peer) = pair(LONG);
    third_peer.write_all(b"xy").unwrap();
    third.fill(2).unwrap();
    third.consume(1);
    let mut wires = [first, second, third];
    assert_eq!(ready(&wires, None, LONG).unwrap().readable, 0b100);
    second_peer.write_all(b"z").unwrap();
    wires[1].fill(1).unwrap();
    assert_eq!(ready(&wires, None, LONG).unwrap().readable, 0b110);
    wires[1].consume(1);
    wires[2].consume(1);
    assert_eq!(ready(&wires, None, Duration::from_millis(20)).unwrap().readable, 0);
    drop(second_peer);
    assert_eq!(ready(&wires, None, LONG).unwrap().readable, 0b010);
}

#[test]
fn nobody_listening_and_unknown_names_are_told_apart() {
    // tcpmux: a port that was free a moment ago may be another test's server by now.
    let port = 1;
    let options = DialOptions { timeout: SHORT, privileged_port: false };
    let refused = dial("127.0.0.1", port, &options).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Disconnected);
    assert_eq!(refused.status, i64::from(errno::ECONNREFUSED));
    assert_eq!(dial("no such host.invalid", port, &options).unwrap_err().kind, ErrorKind::NotFound);
}

#[test]
#[cfg(unix)]
fn privileged_source_ports_need_root() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let options = DialOptions { timeout: LONG, privileged_port: true };
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } == 0 {
        let first = dial("127.0.0.1", port, &options).unwrap();
        let second = dial("127.0.0.1", port, &options).unwrap();
        let ports = [first, second].map(|w| w.local_address().unwrap().port());
        assert!(ports.iter().all(|p| *p < 1024), "{ports:?}");
        assert_ne!(ports[0], ports[1]);
    } else {
        assert_eq!(dial("127.0.0.1", port, &options).unwrap_err().kind, ErrorKind::Permission);
    }
}

/// There are 359 source ports for root. A connection that ended keeps none of them, and one port serves several servers.
#[test]
#[cfg(unix)]
fn privileged_source_ports_do_not_run_out() {
    // SAFETY: the call has no conditions and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return;
    }
    let options = DialOptions { timeout: LONG, privileged_port: true };
    let server = || {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        std::thread::spawn(move || server.incoming().take(600).collect::<Vec<_>>());
        port
    };
    let ports = [server(), server()];
    let connect = |port| {
        let wire = dial("127.0.0.1", port, &options).unwrap();
        assert!(wire.local_address().unwrap().port() < 1024);
        wire.free_port_at_end();
        wire
    };
    (0..400).for_each(|_| drop(connect(ports[0])));
    let held: Vec<Wire> = (0..380).map(|at| connect(ports[at % 2])).collect();
    assert_eq!(held.len(), 380);
}
