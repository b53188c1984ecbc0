//! Many calls at once, and clients that are none.

use crate::client::{connect, Site, Words, MOUNT, NFS};
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};

#[test]
fn calls_in_flight_are_all_answered_with_their_own_data() {
    let site = Site::new();
    let mut client = site.client();
    let root = client.root.clone();
    let file = client.create(&root, b"f").unwrap();
    let block = |number: u64, generation: u8| vec![(number as u8) ^ generation.wrapping_mul(31); 4096];
    for generation in 0..3u8 {
        let mut sent = HashMap::new();
        for number in 0..200u64 {
            let bytes = block(number, generation);
            let stable = (number % 5 == 0) as u32 * 2;
            let args = client.at(&file).u64(number * 4096).u32(4096).u32(stable).bytes(&bytes);
            sent.insert(client.send(NFS, 7, &args), number);
            if number % 40 == 39 {
                sent.insert(client.send(NFS, 21, &client.at(&file).u64(0).u32(0)), number);
            }
        }
        while !sent.is_empty() {
            let (xid, mut reply) = client.receive();
            assert!(sent.remove(&xid).is_some(), "an unknown call is answered");
            assert_eq!(reply.take_u32(), 0);
        }
        for number in 0..200u64 {
            sent.insert(client.send(NFS, 6, &client.at(&file).u64(number * 4096).u32(4096)), number);
        }
        while !sent.is_empty() {
            let (xid, mut reply) = client.receive();
            let number = sent.remove(&xid).unwrap();
            assert_eq!(reply.take_u32(), 0);
            reply.take_post();
            reply.take_u64();
            assert_eq!(reply.take_bytes(), block(number, generation));
        }
    }
}

/// Writes and does not read: neither side may wait for the other for ever.
#[test]
fn a_client_that_sends_on_without_reading_is_served() {
    let site = Site::new();
    let mut client = site.client();
    let root = client.root.clone();
    let file = client.create(&root, b"f").unwrap();
    let mib = vec![9u8; 1 << 20];
    client.write(&file, 0, &mib, 0).unwrap();
    client.stream.set_write_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let rounds = 24;
    for _ in 0..rounds {
        client.send(NFS, 6, &client.at(&file).u64(0).u32(1 << 20));
        client.send(NFS, 7, &client.at(&file).u64(0).u32(1 << 20).u32(0).bytes(&mib));
    }
    for _ in 0..2 * rounds {
        assert_eq!(client.receive().1.take_u32(), 0);
    }
}

#[test]
fn clients_side_by_side() {
    let site = Site::new();
    let threads: Vec<_> = (0..8u8)
        .map(|number| {
            let mut client = site.client();
            std::thread::spawn(move || {
                let root = client.root.clone();
                let folder = client.mkdir(&root, &[b'd', number + b'0']).unwrap();
                for turn in 0..100u8 {
                    let file =
                        client.create(&folder, &[turn | 0x80]).unwrap_or_else(|status| panic!("{status} {turn}"));
                    client.write(&file, 0, &[turn; 100], 2).unwrap();
                    assert_eq!(client.read(&file, 0, 100).unwrap().0, [turn; 100]);
                    assert_eq!(client.rename((&folder, &[turn | 0x80]), (&folder, b"last")), 0);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn what_is_not_served_is_refused_by_the_rules() {
    let site = Site::new();
    let mut client = site.client();
    let mut refused = |program, version: u32, procedure, rpc: u32, args: &[u8]| {
        let head = Words::default().u32(99).u32(0).u32(rpc).u32(program).u32(version).u32(procedure).u64(0).u64(0);
        let record = [&head.0, args].concat();
        client.stream.write_all(&(record.len() as u32 | 1 << 31).to_be_bytes()).unwrap();
        client.stream.write_all(&record).unwrap();
        let (xid, mut reply) = client.receive_any();
        assert_eq!((xid, reply.take_u32()), (99, 1));
        let words: Vec<u32> = (0..reply.0.len() / 4).map(|_| reply.take_u32()).collect();
        words
    };
    assert_eq!(refused(100_000, 2, 3, 2, &[]), [0, 0, 0, 1], "no such program");
    assert_eq!(refused(NFS, 4, 1, 2, &[]), [0, 0, 0, 2, 3, 3], "another version");
    assert_eq!(refused(NFS, 3, 22, 2, &[]), [0, 0, 0, 3], "no such procedure");
    assert_eq!(refused(MOUNT, 3, 6, 2, &[]), [0, 0, 0, 3]);
    assert_eq!(refused(NFS, 3, 1, 2, &[0, 0]), [0, 0, 0, 4], "garbage arguments");
    assert_eq!(refused(NFS, 3, 6, 2, &[0xff; 64]), [0, 0, 0, 4]);
    assert_eq!(refused(NFS, 3, 1, 3, &[]), [1, 0, 2, 2], "another RPC");
}

#[test]
fn garbage_ends_its_connection_and_nothing_else() {
    let site = Site::new();
    let mut good = site.client();
    let mut state = 1u64;
    for turn in 0..200 {
        let mut bytes: Vec<u8> = (0..1 + turn * 7)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as u8
            })
            .collect();
        if turn % 2 == 0 && bytes.len() > 8 {
            let len = bytes.len() as u32 - 4; // well framed, badly filled
            bytes[..4].copy_from_slice(&(len | 1 << 31).to_be_bytes());
        }
        let mut stream = connect(site.port);
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "turn {turn}"),
        }
    }
    for head in [[0xff; 4], [0x7f, 0xff, 0xff, 0xff], [0, 0, 0, 0]] {
        let mut stream = connect(site.port);
        stream.write_all(&head).unwrap();
        let ended = stream.read(&mut [0; 16]);
        assert!(matches!(ended, Ok(0)) || ended.is_err_and(|e| e.kind() == ErrorKind::ConnectionReset), "{head:?}");
    }
    let root = good.root.clone();
    assert!(good.create(&root, b"still serving").is_ok());
}

/// Every prefix of every procedure's arguments, and arguments with one bit turned: a reply or the end, no panic.
#[test]
fn damaged_calls_are_answered() {
    let site = Site::new();
    let mut client = site.client();
    let root = client.root.clone();
    let file = client.create(&root, b"f").unwrap();
    let calls: Vec<(u32, Words)> = (1..=21)
        .map(|procedure| {
            let handle = if matches!(procedure, 2 | 6 | 7 | 21) { &file } else { &root };
            (procedure, client.at(handle).bytes(b"x").u64(3).u64(1).bytes(&root).bytes(b"y").u64(0).u64(0))
        })
        .collect();
    for (procedure, args) in &calls {
        for len in (0..args.0.len()).step_by(4) {
            let xid = client.send(NFS, *procedure, &Words(args.0[..len].to_vec()));
            assert_eq!(client.receive_any().0, xid, "procedure {procedure}, {len} bytes");
        }
        for bit in (0..args.0.len() * 8).step_by(5) {
            let mut bytes = args.0.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let xid = client.send(NFS, *procedure, &Words(bytes));
            assert_eq!(client.receive_any().0, xid, "procedure {procedure}, bit {bit}");
        }
    }
}

#[test]
fn a_fragmented_call_is_put_together() {
    let site = Site::new();
    let mut client = site.client();
    let head = Words::default().u32(5).u32(0).u32(2).u32(NFS).u32(3).u32(0).u64(0).u64(0).0;
    for (at, part) in head.chunks(9).enumerate() {
        let last = if (at + 1) * 9 >= head.len() { 1 << 31 } else { 0 };
        client.stream.write_all(&(part.len() as u32 | last).to_be_bytes()).unwrap();
        client.stream.write_all(part).unwrap();
    }
    assert_eq!(client.receive().0, 5);
}

#[test]
fn a_folder_that_is_none_and_a_port_that_is_taken() {
    let site = Site::new();
    assert!(naslab_demo_server::Server::bind(&site.path("missing"), 0).is_err());
    std::fs::write(site.path("file"), b"").unwrap();
    assert!(naslab_demo_server::Server::bind(&site.path("file"), 0).is_err());
    assert!(naslab_demo_server::Server::bind(site.folder.path(), site.port).is_err());
}
