//! How fast this machine encrypts and decrypts SMB messages, with nothing else to do.

use crate::crypto::{Aead, CipherId};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Bytes per second of one thread: encrypting from one buffer to another, and decrypting in place, as sessions do.
///
/// `cipher`: as in a target's facts, such as `aes-128-gcm`; `None` for an unknown one. `message_bytes`: of each
/// message. `each`: how long either is measured.
pub fn cipher_speed(cipher: &str, message_bytes: usize, each: Duration) -> Option<(f64, f64)> {
    let id = CipherId::ALL.into_iter().find(|id| id.name() == cipher)?;
    let aead = Aead::new(id, &[7; 32][..id.key_bytes()]);
    let clear = vec![0x5A_u8; message_bytes.max(16)];
    let mut sealed = vec![0_u8; clear.len()];
    let len = clear.len();
    let seal = repeat(each, len, |nonce| {
        let mut run = aead.begin(nonce, &[3; 32], len as u32);
        // SAFETY: two buffers of `len` bytes that do not overlap.
        unsafe { aead.seal(&mut run, clear.as_ptr(), sealed.as_mut_ptr(), len) };
        black_box(aead.tag(run));
    });
    let open = repeat(each, len, |nonce| {
        let mut run = aead.begin(nonce, &[3; 32], len as u32);
        let at = sealed.as_mut_ptr();
        // SAFETY: one buffer of `len` bytes, in place.
        unsafe { aead.open(&mut run, at, at, len) };
        black_box(aead.tag(run));
    });
    Some((seal, open))
}

/// Bytes per second of `work` on messages of `len` bytes, each with a nonce of its own.
fn repeat(each: Duration, len: usize, mut work: impl FnMut(&[u8; 16])) -> f64 {
    let begun = Instant::now();
    let mut count = 0u64;
    while count == 0 || begun.elapsed() < each {
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&count.to_le_bytes());
        work(&nonce);
        count += 1;
    }
    (count as f64 * len as f64) / begun.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ciphers_are_known_by_the_name_in_facts() {
        for id in CipherId::ALL {
            let (seal, open) = cipher_speed(id.name(), 4096, Duration::from_millis(1)).unwrap();
            assert!(seal > 0.0 && open > 0.0);
        }
        assert!(cipher_speed("none", 4096, Duration::from_millis(1)).is_none());
    }
}
