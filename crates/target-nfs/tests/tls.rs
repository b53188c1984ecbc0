//! RPC-with-TLS (RFC 9289) against the server that misbehaves on demand, its TLS being rustls's own server side.

#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]

#[allow(dead_code)]
mod fake;

use fake::{Fake, Fault, On};
use naslab_core::{
    AlignedBuf, Completion, Create, Error, ErrorKind, FileId, Op, OpKind, OpenOptions, Session, Submit, Target,
};
use naslab_target_nfs::{exports, offers_tls, NfsOptions, NfsTarget};
use rustls::pki_types::{pem::PemObject, CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::sync::Arc;
use std::time::Duration;

const DEPTH: u32 = 8;
const LEN: u32 = 100_003;

fn file(name: &str) -> String {
    format!("{}/../wire/tests/certificates/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// TLS of a server that asks clients for a certificate where `mutual`.
fn tls(mutual: bool) -> Arc<ServerConfig> {
    let provider = Arc::new(rustls_graviola::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone());
    let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]).unwrap();
    let builder = if mutual {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(file("authority.pem")).unwrap()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        builder.with_client_cert_verifier(verifier)
    } else {
        builder.with_no_client_auth()
    };
    let certificate = CertificateDer::from_pem_file(file("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(file("server.key")).unwrap();
    let mut config = builder.with_single_cert(vec![certificate], key).unwrap();
    config.alpn_protocols = vec![b"sunrpc".to_vec()];
    Arc::new(config)
}

fn options(fake: &Fake, version: &str) -> NfsOptions {
    NfsOptions {
        depth: DEPTH,
        xprtsec: Some("tls".into()),
        tls_authorities: Some(file("authority.pem")),
        ..fake.options(version)
    }
}

fn served(faults: Vec<(On, Fault)>) -> Fake {
    let fake = Fake::start(faults);
    fake.state.lock().unwrap().tls = Some(tls(false));
    fake.state.lock().unwrap().also_40 = true;
    fake
}

fn open(session: &mut dyn Session) -> FileId {
    let options = OpenOptions { read: true, write: true, create: Create::IfMissing, ..OpenOptions::default() };
    session.open("data", &options).unwrap()
}

/// As many operations at once as the depth allows, each in memory and at a place of its own.
fn all_at_once(session: &mut dyn Session, file: FileId, kind: OpKind, memory: &mut AlignedBuf) -> Vec<Completion> {
    let mut done = Vec::new();
    for at in 0..DEPTH {
        let op = Op { kind, file, offset_bytes: u64::from(at * LEN), len_bytes: LEN, due_ns: None };
        let buf = memory.lend((at * LEN) as usize, LEN as usize);
        // SAFETY: the memory outlives the session's use of it, and no two operations share any.
        while unsafe { session.submit(&op, buf, at) }.unwrap() == Submit::Busy {
            session.reap(1, Some(Duration::from_millis(50)), &mut done).unwrap();
        }
    }
    while done.len() < DEPTH as usize {
        session.reap(1, Some(Duration::from_millis(50)), &mut done).unwrap();
    }
    done
}

fn refused(options: NfsOptions) -> Error {
    NfsTarget::new(options).and_then(|target| target.connect(0)).err().expect("it must fail")
}

#[test]
fn data_come_back_whole_at_depth_over_several_connections_and_nothing_goes_in_the_clear() {
    for (version, connections) in [("3", 1), ("3", 3), ("4.0", 1), ("4.1", 1), ("4.1", 3)] {
        let fake = served(vec![]);
        let target = NfsTarget::new(NfsOptions { connections, ..options(&fake, version) }).unwrap();
        let mut session = target.connect(0).unwrap();
        let mut memory = AlignedBuf::new((DEPTH * LEN) as usize).unwrap();
        let file = open(&mut *session);
        let data: Vec<u8> = (0..DEPTH * LEN).map(|i| (i * 7 + i / 251) as u8).collect();
        memory.as_mut_slice()[..data.len()].copy_from_slice(&data);
        for (kind, name) in [(OpKind::Write, "written"), (OpKind::Read, "read")] {
            let done = all_at_once(&mut *session, file, kind, &mut memory);
            assert!(done.iter().all(|each| each.error.is_none() && each.bytes == LEN), "{version} {name}: {done:?}");
            assert!(fake.state.lock().unwrap().file == data, "{version} {name}");
            assert!(memory.as_slice()[..data.len()] == data[..], "{version} {name}");
            memory.as_mut_slice().fill(u8::from(kind == OpKind::Read));
        }
        let wire = session.wire().unwrap();
        // Each 16 KiB are a record, with 22 bytes of its own at least.
        let sealed = data.len() as u64 + (data.len() as u64 / 16_384) * 22;
        assert!(wire.sent_bytes > sealed && wire.received_bytes > sealed, "{version}: {wire:?}");
        session.close(file).unwrap();
        let facts = target.facts();
        let fact = |name: &str| facts.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value.as_str());
        assert_eq!((fact("xprtsec"), fact("tls_version"), fact("signing")), ("tls", "1.3", "none"));
        assert!(fact("tls_cipher_suite").starts_with("TLS_") && fact("encryption").contains('-'), "{facts:?}");
        assert_eq!(fact("mount_tls"), if version == "3" { "yes" } else { "" });
        assert!(fake.state.lock().unwrap().in_the_clear.is_empty(), "{version}");
    }
}

#[test]
fn faults_of_the_server_are_told_as_without_tls() {
    let cases = [
        (Fault::Close, ErrorKind::Disconnected),
        (Fault::Reset, ErrorKind::Disconnected),
        (Fault::Half, ErrorKind::Timeout),
        (Fault::HalfClose, ErrorKind::Disconnected),
        (Fault::WrongXid, ErrorKind::Protocol),
        (Fault::Garbage(vec![0xff; 64]), ErrorKind::Protocol),
    ];
    for version in ["3", "4.1"] {
        for (fault, expected) in &cases {
            let fake = served(vec![(On::Read, fault.clone())]);
            let timeout_ns = if *expected == ErrorKind::Timeout { 500_000_000 } else { 30_000_000_000 };
            let target = NfsTarget::new(NfsOptions { timeout_ns, ..options(&fake, version) }).unwrap();
            let mut session = target.connect(0).unwrap();
            let file = open(&mut *session);
            let memory = AlignedBuf::new(4096).unwrap();
            let op = Op { kind: OpKind::Read, file, offset_bytes: 0, len_bytes: 4096, due_ns: None };
            // SAFETY: the memory outlives the session's use of it.
            unsafe { session.submit(&op, memory.lend(0, 4096), 1) }.unwrap();
            let mut done = Vec::new();
            let error = loop {
                match session.reap(1, Some(Duration::from_millis(50)), &mut done) {
                    Ok(_) => assert!(done.is_empty(), "{version} {fault:?}"),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.kind, *expected, "{version} {fault:?}: {error}");
        }
    }
}

#[test]
fn connections_that_were_closed_while_idle_ask_for_tls_again() {
    let fake = served(vec![]);
    fake.state.lock().unwrap().patience = Some(Duration::from_secs(1));
    let target = NfsTarget::new(options(&fake, "3")).unwrap();
    let mut session = target.connect(0).unwrap();
    std::thread::sleep(Duration::from_millis(5500));
    session.ping().unwrap();
    assert!(session.events().iter().any(|(name, count)| *name == "reconnect" && *count == 1));
    assert!(fake.state.lock().unwrap().in_the_clear.is_empty());
}

#[test]
fn a_server_without_tls_is_told_at_once_and_gets_nothing_else() {
    for version in ["3", "4.1"] {
        let fake = Fake::start(vec![]);
        let error = refused(options(&fake, version));
        assert_eq!((error.kind, error.operation), (ErrorKind::Unsupported, "tls"), "{error}");
        assert!(error.message.contains("the server does not offer TLS (RFC 9289: AUTH_REJECTEDCRED)"), "{error}");
        assert!(error.message.contains("xprtsec=none"), "{error}");
    }
    // Nor is any other version tried.
    let fake = Fake::start(vec![]);
    let error = refused(NfsOptions { version: None, ..options(&fake, "3") });
    assert!(error.message.contains("does not offer TLS"), "{error}");
    let state = fake.state.lock().unwrap();
    assert_eq!((state.connections, state.in_the_clear.len()), (1, 0));
}

#[test]
fn certificates_that_are_not_taken_end_the_search_for_a_version() {
    let fake = served(vec![]);
    let any_version = NfsOptions { version: None, ..options(&fake, "3") };
    let error = refused(NfsOptions { tls_authorities: Some(file("expired.pem")), ..any_version.clone() });
    assert_eq!((error.kind, error.operation), (ErrorKind::Permission, "tls"), "{error}");
    assert!(error.message.contains("tlscacert=FILE"), "{error}");
    assert_eq!(fake.state.lock().unwrap().connections, 1);
    let unchecked = NfsOptions { tls_authorities: None, tls_verify: false, ..any_version };
    NfsTarget::new(unchecked).unwrap().connect(0).unwrap();
    assert!(fake.state.lock().unwrap().in_the_clear.is_empty());
}

#[test]
fn clients_prove_themselves_where_the_server_asks() {
    let fake = served(vec![]);
    fake.state.lock().unwrap().tls = Some(tls(true));
    let error = refused(options(&fake, "4.1"));
    assert_eq!(error.kind, ErrorKind::Permission, "{error}");
    assert!(error.message.contains("xprtsec=mtls"), "{error}");
    let mutual = |name: &str| NfsOptions {
        xprtsec: Some("mtls".into()),
        tls_certificate: Some(file(&format!("{name}.pem"))),
        tls_key: Some(file(&format!("{name}.key"))),
        ..options(&fake, "4.1")
    };
    let target = NfsTarget::new(mutual("client")).unwrap();
    target.connect(0).unwrap();
    assert!(target.facts().contains(&("xprtsec".into(), "mtls".into())));
    let error = refused(mutual("expired"));
    assert!(error.message.contains("does not take this client's certificate"), "{error}");
}

#[test]
fn the_question_alone_harms_nothing() {
    let with = served(vec![]);
    assert!(offers_tls(&NfsOptions { xprtsec: None, tls_authorities: None, ..options(&with, "4.1") }).unwrap());
    let without = Fake::start(vec![]);
    for version in [Some("3".to_string()), None] {
        let plain = NfsOptions { xprtsec: None, tls_authorities: None, version, ..options(&without, "3") };
        assert!(!offers_tls(&plain).unwrap());
    }
    let fake = served(vec![]);
    fake.state.lock().unwrap().only_3 = true;
    assert_eq!(exports(&options(&fake, "3")).unwrap()[0].path, "/export");
    assert!(fake.state.lock().unwrap().in_the_clear.is_empty());
}
