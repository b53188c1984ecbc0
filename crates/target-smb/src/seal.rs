//! Encrypted messages: the transform header and the two directions' keys (MS-SMB2 2.2.41).

use crate::codec::{Put, View, TRANSFORM_BYTES, TRANSFORM_MAGIC};
use crate::crypto::{random, Aead, CipherId, Run};
use naslab_core::Result;

/// Where the associated data begin: all of the header after magic and signature.
const AAD_AT: usize = 20;

/// The two keys of a session, and the nonces of one of its connections.
pub(crate) struct Seal {
    out: Aead,
    inward: Aead,
    /// Tells the connections of one session apart, which share keys.
    salt: [u8; 4],
    sent: u64,
    nonce_bytes: usize,
}

/// A transform header that was read.
pub(crate) struct Transform {
    pub tag: [u8; 16],
    pub nonce: [u8; 16],
    pub aad: [u8; 32],
    pub text_bytes: u32,
    pub session_id: u64,
}

impl Transform {
    /// Reads the header at the start of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Transform> {
        let view = View(bytes);
        Ok(Transform {
            tag: view.array(4)?,
            nonce: view.array(20)?,
            aad: view.array(AAD_AT)?,
            text_bytes: view.u32(36)?,
            session_id: view.u64(44)?,
        })
    }
}

impl Seal {
    /// Keys for what the client sends and what it receives. `channel` numbers the session's connections.
    pub fn new(cipher: CipherId, out_key: &[u8], in_key: &[u8], channel: u8) -> Result<Seal> {
        let mut salt: [u8; 4] = random()?;
        // CCM's nonce ends within the salt: the number of the connection comes first.
        salt[0] = channel;
        Ok(Seal {
            out: Aead::new(cipher, out_key),
            inward: Aead::new(cipher, in_key),
            salt,
            sent: 0,
            nonce_bytes: if cipher.is_gcm() { 12 } else { 11 },
        })
    }

    /// Appends the header of a message of `text_bytes`; returns where the message must follow.
    pub fn begin(&mut self, out: &mut Vec<u8>, session_id: u64, text_bytes: usize) -> usize {
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&self.sent.to_le_bytes());
        nonce[8..12].copy_from_slice(&self.salt);
        nonce[self.nonce_bytes..].fill(0);
        self.sent += 1;
        out.put(&TRANSFORM_MAGIC);
        out.zeros(16);
        out.put(&nonce);
        out.u32(text_bytes as u32);
        out.u16(0);
        out.u16(1);
        out.u64(session_id);
        out.len()
    }

    /// Encrypts the message that lies from `text_at` to the end of `out`, and after it `payload`, which is
    /// appended encrypted. With a payload, what lies there has a multiple of 16 bytes.
    pub fn finish(&self, out: &mut Vec<u8>, text_at: usize, payload: &[u8]) {
        let head_at = text_at - TRANSFORM_BYTES;
        let (nonce, aad) = nonce_and_aad(&out[head_at..text_at]);
        let head_bytes = out.len() - text_at;
        debug_assert!(payload.is_empty() || head_bytes.is_multiple_of(16));
        let mut run = self.out.begin(&nonce, &aad, (head_bytes + payload.len()) as u32);
        out.reserve(payload.len());
        // SAFETY: the head is encrypted in place; room for the payload was reserved right after it, and the
        // payload, being borrowed apart from `out`, does not overlap it. The pointer comes from the vector, not from
        // a slice of it: one of a slice may not be used beyond the slice's end.
        unsafe {
            let text = out.as_mut_ptr().add(text_at);
            self.out.seal(&mut run, text, text, head_bytes);
            self.out.seal(&mut run, payload.as_ptr(), text.add(head_bytes), payload.len());
            out.set_len(text_at + head_bytes + payload.len());
        }
        let tag = self.out.tag(run);
        out[head_at + 4..head_at + 20].copy_from_slice(&tag);
    }

    /// Begins a received message.
    pub fn open(&self, head: &Transform) -> Run {
        self.inward.begin(&head.nonce, &head.aad, head.text_bytes)
    }

    /// Decrypts a piece in place; every piece but the last has a multiple of 16 bytes.
    pub fn open_piece(&self, run: &mut Run, piece: &mut [u8]) {
        let text = piece.as_mut_ptr();
        // SAFETY: one exclusive slice, in place; both pointers are the same one, since a shared one made before it
        // would end with it.
        unsafe { self.inward.open(run, text, text, piece.len()) };
    }

    /// Whether the message was what the server sent.
    pub fn is_genuine(&self, run: Run, head: &Transform) -> bool {
        crate::crypto::same(&self.inward.tag(run), &head.tag)
    }
}

fn nonce_and_aad(head: &[u8]) -> ([u8; 16], [u8; 32]) {
    let (mut nonce, mut aad) = ([0; 16], [0; 32]);
    nonce.copy_from_slice(&head[20..36]);
    aad.copy_from_slice(&head[AAD_AT..TRANSFORM_BYTES]);
    (nonce, aad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_messages_open_and_changed_ones_do_not() {
        for cipher in CipherId::ALL {
            let key = [9; 32];
            let mut seal = Seal::new(cipher, &key[..cipher.key_bytes()], &key[..cipher.key_bytes()], 3).unwrap();
            let payload: Vec<u8> = (0..5000u32).map(|i| i as u8).collect();
            let mut out = vec![1, 2, 3, 4];
            let at = seal.begin(&mut out, 77, 112 + payload.len());
            out.put(&[5; 112]);
            seal.finish(&mut out, at, &payload);
            let head = Transform::parse(&out[4..]).unwrap();
            assert_eq!((head.text_bytes as usize, head.session_id), (112 + payload.len(), 77));
            let mut text = out[at..].to_vec();
            let mut run = seal.open(&head);
            seal.open_piece(&mut run, &mut text);
            assert!(seal.is_genuine(run, &head), "{cipher:?}");
            assert_eq!((&text[..112], &text[112..]), (&[5u8; 112][..], &payload[..]));
            let mut text = out[at..].to_vec();
            text[4000] ^= 1;
            let mut run = seal.open(&head);
            seal.open_piece(&mut run, &mut text);
            assert!(!seal.is_genuine(run, &head));
            let again = seal.begin(&mut out, 77, 0);
            assert_ne!(out[again - 32..again - 16], head.nonce, "a nonce is used once");
        }
    }
}
