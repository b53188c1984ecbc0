//! AES-GCM and AES-CCM over a message in pieces: memory to memory or in place, one pass through the cache.

use super::block::{bump, xor, AesKey, B16};
use super::ghash::GhashKey;
use super::CipherId;

/// Bytes of associated data of a transform header.
pub(crate) const AAD_BYTES: usize = 32;
/// Worked on at a time, so that the second pass finds the bytes in the first-level cache.
const STEP: usize = 8192;

/// One direction's key.
pub(crate) struct Aead {
    aes: AesKey,
    /// With GCM; CCM has none.
    ghash: Option<GhashKey>,
}

/// One message under way.
pub(crate) struct Run {
    counter: B16,
    mac: B16,
    /// What the tag is hidden with.
    mask: B16,
    text_bytes: u64,
}

impl Aead {
    /// The key has as many bytes as the cipher says.
    pub fn new(cipher: CipherId, key: &[u8]) -> Aead {
        let aes = AesKey::new(key);
        let ghash = cipher.is_gcm().then(|| GhashKey::new(aes.block([0; 16])));
        Aead { aes, ghash }
    }

    #[cfg(test)]
    pub fn on(self, way: super::guarded::Way) -> Aead {
        Aead { aes: self.aes.on(way), ghash: self.ghash.map(|ghash| ghash.on(way)) }
    }

    /// Begins a message of `text_bytes`. Of the 16 nonce bytes of the header GCM uses 12 and CCM 11.
    pub fn begin(&self, nonce: &[u8; 16], aad: &[u8; AAD_BYTES], text_bytes: u32) -> Run {
        let mut counter = [0; 16];
        let mut mac = [0; 16];
        match &self.ghash {
            Some(ghash) => {
                counter[..12].copy_from_slice(&nonce[..12]);
                counter[15] = 1;
                ghash.update(&mut mac, aad);
            }
            None => {
                counter[0] = 3;
                counter[1..12].copy_from_slice(&nonce[..11]);
                let mut head = [0; 64];
                head[..12].copy_from_slice(&counter[..12]);
                head[0] = 0x7B;
                head[12..16].copy_from_slice(&text_bytes.to_be_bytes());
                head[16..18].copy_from_slice(&(AAD_BYTES as u16).to_be_bytes());
                head[18..18 + AAD_BYTES].copy_from_slice(aad);
                self.aes.chain(&mut mac, &head);
            }
        }
        let mask = self.aes.block(counter);
        bump(&mut counter, 1);
        Run { counter, mac, mask, text_bytes: u64::from(text_bytes) }
    }

    fn absorb(&self, run: &mut Run, text: &[u8]) {
        let whole = text.len() / 16 * 16;
        let mut last = [0; 16];
        last[..text.len() - whole].copy_from_slice(&text[whole..]);
        let last = if whole == text.len() { &[][..] } else { &last[..] };
        for part in [&text[..whole], last] {
            match &self.ghash {
                Some(ghash) => ghash.update(&mut run.mac, part),
                None => self.aes.chain(&mut run.mac, part),
            }
        }
    }

    /// Encrypts one piece. Every piece but the last has a multiple of 16 bytes.
    ///
    /// # Safety
    /// `src` is readable and `dst` writable for `len` bytes; they are the same or do not overlap.
    pub unsafe fn seal(&self, run: &mut Run, src: *const u8, dst: *mut u8, len: usize) {
        self.crypt(run, src, dst, len, self.ghash.is_none());
    }

    /// Decrypts one piece. What comes out must not be trusted before the tag was compared.
    ///
    /// # Safety
    /// As for `seal`.
    pub unsafe fn open(&self, run: &mut Run, src: *const u8, dst: *mut u8, len: usize) {
        self.crypt(run, src, dst, len, self.ghash.is_some());
    }

    /// GCM authenticates the cipher text and CCM the clear text: one is there before, the other after.
    unsafe fn crypt(&self, run: &mut Run, src: *const u8, dst: *mut u8, len: usize, absorb_source: bool) {
        let mut at = 0;
        while at < len {
            let take = (len - at).min(STEP);
            if absorb_source {
                self.absorb(run, std::slice::from_raw_parts(src.add(at), take));
            }
            self.aes.ctr(&mut run.counter, src.add(at), dst.add(at), take);
            if !absorb_source {
                self.absorb(run, std::slice::from_raw_parts(dst.add(at), take));
            }
            at += take;
        }
    }

    /// The tag after the last piece.
    pub fn tag(&self, mut run: Run) -> B16 {
        if let Some(ghash) = &self.ghash {
            let mut lengths = [0; 16];
            lengths[..8].copy_from_slice(&(8 * AAD_BYTES as u64).to_be_bytes());
            lengths[8..].copy_from_slice(&(8 * run.text_bytes).to_be_bytes());
            ghash.update(&mut run.mac, &lengths);
        }
        xor(&mut run.mac, &run.mask);
        run.mac
    }
}

/// Compares without telling by time where two tags differ.
pub(crate) fn same(a: &B16, b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |seen, (x, y)| seen | (x ^ y)) == 0
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use aes_gcm::aead::{AeadInOut, KeyInit};
    use proptest::prelude::*;

    type Ccm128 = ccm::Ccm<aes::Aes128, ccm::consts::U16, ccm::consts::U11>;
    type Ccm256 = ccm::Ccm<aes::Aes256, ccm::consts::U16, ccm::consts::U11>;

    pub fn reference(cipher: CipherId, key: &[u8], nonce: &[u8; 16], aad: &[u8], text: &[u8]) -> (Vec<u8>, B16) {
        let mut out = text.to_vec();
        let (gcm, short) = (&nonce[..12], &nonce[..11]);
        let tag = match cipher {
            CipherId::Aes128Gcm => aes_gcm::Aes128Gcm::new_from_slice(key).unwrap().encrypt_inout_detached(
                gcm.try_into().unwrap(),
                aad,
                (&mut out[..]).into(),
            ),
            CipherId::Aes256Gcm => aes_gcm::Aes256Gcm::new_from_slice(key).unwrap().encrypt_inout_detached(
                gcm.try_into().unwrap(),
                aad,
                (&mut out[..]).into(),
            ),
            CipherId::Aes128Ccm => Ccm128::new_from_slice(key).unwrap().encrypt_inout_detached(
                short.try_into().unwrap(),
                aad,
                (&mut out[..]).into(),
            ),
            CipherId::Aes256Ccm => Ccm256::new_from_slice(key).unwrap().encrypt_inout_detached(
                short.try_into().unwrap(),
                aad,
                (&mut out[..]).into(),
            ),
        };
        (out, tag.unwrap().into())
    }

    proptest! {
        #[test]
        fn agrees_with_the_reference_in_any_pieces(
            which in 0usize..4,
            key in any::<[u8; 32]>(),
            nonce in any::<[u8; 16]>(),
            aad in any::<[u8; 32]>(),
            text in proptest::collection::vec(any::<u8>(), 0..20_000),
            cut in 0usize..1250,
        ) {
            let cipher = CipherId::ALL[which];
            let key = &key[..cipher.key_bytes()];
            let (sealed, tag) = reference(cipher, key, &nonce, &aad, &text);
            let ours = Aead::new(cipher, key);
            let cut = (cut * 16).min(text.len() / 16 * 16);
            let mut run = ours.begin(&nonce, &aad, text.len() as u32);
            let mut out = vec![0; text.len()];
            // SAFETY: the pieces lie within both buffers.
            unsafe {
                ours.seal(&mut run, text.as_ptr(), out.as_mut_ptr(), cut);
                ours.seal(&mut run, text.as_ptr().add(cut), out.as_mut_ptr().add(cut), text.len() - cut);
            }
            prop_assert_eq!(&out, &sealed);
            prop_assert_eq!(ours.tag(run), tag);
            let mut run = ours.begin(&nonce, &aad, text.len() as u32);
            // SAFETY: in place, within the buffer.
            unsafe {
                let at = out.as_mut_ptr();
                ours.open(&mut run, at, at, cut);
                ours.open(&mut run, at.add(cut), at.add(cut), text.len() - cut);
            }
            prop_assert_eq!(&out, &text);
            prop_assert!(same(&ours.tag(run), &tag));
        }
    }
}
