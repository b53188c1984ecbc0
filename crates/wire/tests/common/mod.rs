//! What a connection does in the clear and under TLS alike.

use naslab_wire::Wire;
use std::io::Write;

/// Bytes that differ from their neighbours.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 % 251) as u8).collect()
}

/// A head, a payload in two parts and the next message, however much is read ahead.
pub fn payloads_arrive_whole<P: Write + Send + 'static>(pair: impl Fn() -> (Wire, P)) {
    for read_ahead in [16, 1000, 64 * 1024] {
        let (mut wire, mut peer) = pair();
        wire.set_read_ahead(read_ahead);
        let data = pattern(3_000_000);
        let sent = data.clone();
        let writer = std::thread::spawn(move || {
            peer.write_all(b"header-of-16-byt").unwrap();
            peer.write_all(&sent).unwrap();
            peer.write_all(b"next").unwrap();
            peer
        });
        wire.fill(16).unwrap();
        assert!(wire.buffered().len() <= read_ahead.max(16));
        wire.consume(16);
        let mut into = vec![0; 1_999_999];
        wire.read_into(&mut into).unwrap();
        assert_eq!(into, data[..1_999_999]);
        wire.skip(1_000_001).unwrap();
        wire.fill(4).unwrap();
        assert_eq!(wire.buffered(), b"next");
        drop(writer.join().unwrap());
    }
}
