//! A connection under TLS against a peer on loopback that rustls's own server side speaks for.

#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]

mod common;

use naslab_core::{ErrorKind, Result};
use naslab_wire::{dial, ready, DialOptions, Tls, TlsFacts, TlsOptions, Wire, TLS_OPERATION};
use rustls::pki_types::{pem::PemObject, CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(30);

type Sealed = StreamOwned<ServerConnection, TcpStream>;

fn file(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/certificates")).join(name)
}

/// A server with this certificate and ALPN.
fn server(name: &str, alpn: &[&str]) -> Arc<ServerConfig> {
    let certificate = CertificateDer::from_pem_file(file(&format!("{name}.pem"))).unwrap();
    let key = PrivateKeyDer::from_pem_file(file(&format!("{name}.key"))).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(rustls_graviola::default_provider()));
    let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]).unwrap().with_no_client_auth();
    let mut config = builder.with_single_cert(vec![certificate], key).unwrap();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}

fn options() -> TlsOptions {
    TlsOptions { alpn: "sunrpc", authorities: Some(file("authority.pem")), ..TlsOptions::default() }
}

fn dialled(timeout: Duration) -> (Wire, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let wire = dial("127.0.0.1", port, &DialOptions { timeout, privileged_port: false }).unwrap();
    (wire, listener.accept().unwrap().0)
}

fn accept(config: Arc<ServerConfig>, stream: TcpStream) -> JoinHandle<std::io::Result<Sealed>> {
    std::thread::spawn(move || {
        let mut sealed = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
        while sealed.conn.is_handshaking() {
            sealed.conn.complete_io(&mut sealed.sock)?;
        }
        Ok(sealed)
    })
}

/// Both ends of a connection that shook hands.
fn pair(timeout: Duration) -> (Wire, Sealed) {
    let (mut wire, stream) = dialled(timeout);
    let peer = accept(server("server", &["sunrpc"]), stream);
    let facts = wire.start_tls(&Tls::new(&options()).unwrap(), "nas.test").unwrap();
    assert_eq!((facts.version, wire.tls()), ("1.3", Some(facts)));
    assert!(facts.cipher_suite.starts_with("TLS_") && facts.cipher.contains('-'), "{facts:?}");
    (wire, peer.join().unwrap().unwrap())
}

/// The outcome of a handshake for `host` with this certificate.
fn shake(name: &str, alpn: &[&str], host: &str, options: &TlsOptions) -> Result<TlsFacts> {
    let (mut wire, stream) = dialled(LONG);
    let peer = accept(server(name, alpn), stream);
    let outcome = wire.start_tls(&Tls::new(options)?, host);
    drop(wire);
    drop(peer.join());
    outcome
}

#[test]
fn what_one_end_sends_the_other_receives_and_the_sockets_bytes_are_counted() {
    let (mut wire, mut peer) = pair(LONG);
    let before = wire.counters();
    assert!(before.sent_bytes > 200 && before.received_bytes > 200, "the handshake counts: {before:?}");
    wire.send(&[b"head", b"", b"pay", b"load"]).unwrap();
    let mut got = [0; 11];
    peer.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"headpayload");
    // Three records, each with its head, its kind and its tag.
    assert_eq!(wire.counters().sent_bytes - before.sent_bytes, 11 + 3 * 22);
    peer.write_all(b"answer").unwrap();
    wire.fill(6).unwrap();
    assert_eq!(wire.buffered(), b"answer");
    assert!(wire.counters().received_bytes >= before.received_bytes + 6 + 22);
}

#[test]
fn payloads_arrive_whole_whatever_was_buffered() {
    common::payloads_arrive_whole(|| pair(LONG));
}

#[test]
fn a_full_socket_takes_nothing_and_what_it_took_is_not_sealed_twice() {
    let (mut wire, mut peer) = pair(SHORT);
    let data = common::pattern(20_000_000);
    let mut done = 0;
    let mut idle = 0;
    while idle < 3 {
        match wire.send_some(&[&data], done).unwrap() {
            same if same == done => idle += 1,
            more => done = more,
        }
    }
    assert!(done < data.len());
    let total = data.len();
    let reader = std::thread::spawn(move || {
        let mut got = vec![0; total];
        peer.read_exact(&mut got).unwrap();
        got
    });
    while done < data.len() {
        // Tickets of the server's are no content.
        assert!(!wire.try_fill(1, Duration::ZERO).unwrap());
        assert!(ready(std::slice::from_ref(&wire), Some(0), LONG).unwrap().writable);
        done = wire.send_some(&[&data], done).unwrap();
    }
    assert!(reader.join().unwrap() == data);
}

#[test]
fn what_was_opened_already_needs_no_polling() {
    let (mut wire, mut peer) = pair(LONG);
    wire.set_read_ahead(4);
    peer.write_all(b"firstsecond").unwrap();
    wire.fill(4).unwrap();
    wire.consume(4);
    assert_eq!(ready(std::slice::from_ref(&wire), None, LONG).unwrap().readable, 1);
    for rest in [b"tsec", b"ond\0"] {
        let wanted = if rest[3] == 0 { 3 } else { 4 };
        assert!(wire.try_fill(wanted, Duration::from_millis(5)).unwrap());
        assert_eq!(wire.buffered(), &rest[..wanted]);
        wire.consume(wanted);
    }
    assert_eq!(ready(std::slice::from_ref(&wire), None, Duration::from_millis(20)).unwrap().readable, 0);
    assert!(!wire.try_fill(1, Duration::ZERO).unwrap());
}

#[test]
fn new_keys_of_the_server_are_followed() {
    let (mut wire, mut peer) = pair(LONG);
    for round in 0..3u8 {
        peer.conn.refresh_traffic_keys().unwrap();
        peer.write_all(&[round; 100]).unwrap();
        wire.fill(100).unwrap();
        assert_eq!(wire.buffered(), [round; 100]);
        wire.consume(100);
        wire.send(&[&[round; 50]]).unwrap();
        let mut got = [0; 50];
        peer.read_exact(&mut got).unwrap();
        assert_eq!(got, [round; 50]);
    }
}

#[test]
fn the_end_is_said_and_heard() {
    let (wire, mut peer) = pair(LONG);
    drop(wire);
    // An end without a word of TLS's would be an error here.
    assert_eq!(peer.read(&mut [0; 8]).unwrap(), 0);

    let (mut wire, mut peer) = pair(LONG);
    peer.conn.send_close_notify();
    peer.conn.complete_io(&mut peer.sock).unwrap();
    assert_eq!(wire.fill(1).unwrap_err().kind, ErrorKind::Disconnected);

    let (mut wire, peer) = pair(LONG);
    drop(peer.sock);
    assert_eq!(wire.fill(1).unwrap_err().kind, ErrorKind::Disconnected);
}

#[test]
fn damaged_and_clear_bytes_are_refused_and_silence_ends() {
    let mut record = vec![23, 3, 3, 0, 40];
    record.extend([7; 40]);
    for bytes in [record, b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), vec![0x80, 0, 0, 24, 1, 2, 3, 4], vec![0; 100]]
    {
        let (mut wire, mut peer) = pair(LONG);
        peer.sock.write_all(&bytes).unwrap();
        let error = wire.fill(1).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Protocol, "{error}");
    }
    let (mut wire, mut peer) = pair(SHORT);
    peer.sock.write_all(&[23, 3, 3, 0, 40, 7, 7]).unwrap();
    assert_eq!(wire.fill(1).unwrap_err().kind, ErrorKind::Timeout, "half a record, then nothing");
    drop(peer);
    wire.begin_message();
    assert_eq!(wire.fill(1).unwrap_err().kind, ErrorKind::Disconnected);
}

#[test]
fn certificates_are_checked() {
    let trusting_system = TlsOptions { authorities: None, ..options() };
    let unchecked = TlsOptions { authorities: None, unchecked: true, ..options() };
    type Case<'a> = (&'a str, &'a [&'a str], &'a str, &'a TlsOptions, ErrorKind, &'a str);
    let cases: [Case<'_>; 6] = [
        (
            "server",
            &["sunrpc"],
            "other.test",
            &options(),
            ErrorKind::Permission,
            "nas.test, 127.0.0.1, not for other.test",
        ),
        ("server", &["sunrpc"], "127.0.0.2", &options(), ErrorKind::Permission, "not for 127.0.0.2"),
        ("expired", &["sunrpc"], "nas.test", &options(), ErrorKind::Permission, "expired on 2021-06-30"),
        ("client", &["sunrpc"], "nas.test", &options(), ErrorKind::Permission, "serverAuth"),
        ("server", &[], "nas.test", &unchecked, ErrorKind::Protocol, "ALPN"),
        ("server", &["h2"], "nas.test", &options(), ErrorKind::Protocol, "ALPN"),
    ];
    for (name, alpn, host, options, kind, words) in cases {
        let error = shake(name, alpn, host, options).unwrap_err();
        assert_eq!((error.kind, error.operation), (kind, TLS_OPERATION), "{error}");
        assert!(error.message.contains(words), "{error}");
    }
    for host in ["nas.test", "localhost", "127.0.0.1"] {
        shake("server", &["sunrpc"], host, &options()).unwrap();
    }
    shake("expired", &["sunrpc"], "other.test", &unchecked).unwrap();
    match Tls::new(&trusting_system) {
        // A machine may trust nobody at all.
        Err(error) => assert!(error.message.contains("ca-certificates"), "{error}"),
        Ok(_) => {
            let error = shake("server", &["sunrpc"], "nas.test", &trusting_system).unwrap_err();
            assert!(error.message.contains("no authority that is trusted here"), "{error}");
        }
    }
}

#[test]
fn a_handshake_that_ends_or_stays_silent_is_told() {
    type Peer = fn(TcpStream);
    let silent: Peer = |mut stream| drop(stream.read_to_end(&mut Vec::new()));
    let half: Peer = |mut stream| {
        stream.write_all(&[22, 3, 3, 0, 122, 2, 0]).unwrap();
        drop(stream.read_to_end(&mut Vec::new()));
    };
    let drops: Peer = |mut stream| {
        while stream.write_all(&[22]).is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let cases: [(Peer, ErrorKind, &str); 5] = [
        (|stream| drop(stream), ErrorKind::Disconnected, "closed the connection in the TLS handshake"),
        (silent, ErrorKind::Timeout, "in the TLS handshake"),
        (half, ErrorKind::Timeout, "in the TLS handshake"),
        (drops, ErrorKind::Protocol, "is not TLS"),
        (|mut stream| stream.write_all(&[0; 200]).unwrap(), ErrorKind::Protocol, "is not TLS"),
    ];
    for (peer, kind, words) in cases {
        let (mut wire, stream) = dialled(SHORT);
        let other = std::thread::spawn(move || peer(stream));
        let error = wire.start_tls(&Tls::new(&options()).unwrap(), "nas.test").unwrap_err();
        // A connection that was closed with bytes of ours unread is reset.
        assert_eq!((error.kind, error.operation), (kind, TLS_OPERATION), "{error}");
        assert!(error.message.contains(words), "{error}");
        drop(wire);
        other.join().unwrap();
    }
}

#[test]
fn bytes_in_the_clear_before_the_handshake_are_refused() {
    let (mut wire, mut peer) = dialled(LONG);
    peer.write_all(b"yes, and more").unwrap();
    wire.fill(13).unwrap();
    wire.consume(3);
    let error = wire.start_tls(&Tls::new(&options()).unwrap(), "nas.test").unwrap_err();
    assert_eq!((error.kind, error.operation), (ErrorKind::Protocol, TLS_OPERATION));
}

#[test]
fn files_that_cannot_be_used_are_named_and_nothing_of_keys_is_told() {
    let authorities = |name: &str| TlsOptions { authorities: Some(file(name)), ..options() };
    let identity = |one: &str, other: &str| TlsOptions { identity: Some((file(one), file(other))), ..options() };
    let cases = [
        (authorities("missing.pem"), "tlscacert", "cannot be read"),
        (authorities("README.md"), "tlscacert", "no certificate in PEM form"),
        (authorities("server.key"), "tlscacert", "no certificate in PEM form"),
        (identity("client.key", "client.key"), "tlscert", "no certificate in PEM form"),
        (identity("client.pem", "client.pem"), "tlskey", "no private key"),
        (identity("client.pem", "server.key"), "tlskey", "is not the key of tlscert="),
    ];
    for (options, name, words) in cases {
        let error = Tls::new(&options).unwrap_err();
        assert_eq!((error.kind, error.context[0].0), (ErrorKind::Invalid, name), "{error}");
        assert!(error.message.contains(words) && error.message.contains(&format!("{name}=")), "{error}");
        assert!(!error.to_string().contains("MIG"), "{error}");
    }
    let tls = Tls::new(&identity("client.pem", "client.key")).unwrap();
    assert_eq!(format!("{tls:?}"), "Tls { alpn: \"sunrpc\", .. }");
}
