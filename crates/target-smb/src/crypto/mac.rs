//! Signatures over a message in pieces.

use super::block::{xor, AesKey, B16};
use super::ghash::GhashKey;
use super::{hmac_sha256, SigningId};
use hmac::{Hmac, Mac as _};
use sha2::Sha256;

/// A session's or channel's signing key.
pub(crate) enum Signer {
    Hmac(Box<Hmac<Sha256>>),
    Cmac { aes: AesKey, k1: B16, k2: B16 },
    Gmac { aes: AesKey, ghash: GhashKey },
}

/// A signature under way.
pub(crate) struct Mac<'a> {
    signer: &'a Signer,
    hmac: Option<Hmac<Sha256>>,
    state: B16,
    /// The last 1 to 16 bytes so far: CMAC treats the last block of all in its own way.
    held: B16,
    held_bytes: usize,
    total_bytes: u64,
    mask: B16,
}

impl Signer {
    pub fn new(id: SigningId, key: &[u8; 16]) -> Signer {
        match id {
            SigningId::HmacSha256 => Signer::Hmac(Box::new(hmac_sha256(key))),
            SigningId::AesCmac => {
                let aes = AesKey::new(key);
                let k1 = doubled(aes.block([0; 16]));
                Signer::Cmac { aes, k1, k2: doubled(k1) }
            }
            SigningId::AesGmac => {
                let aes = AesKey::new(key);
                let ghash = GhashKey::new(aes.block([0; 16]));
                Signer::Gmac { aes, ghash }
            }
        }
    }

    #[cfg(test)]
    pub fn on(self, way: super::guarded::Way) -> Signer {
        match self {
            Signer::Hmac(fresh) => Signer::Hmac(fresh),
            Signer::Cmac { aes, k1, k2 } => Signer::Cmac { aes: aes.on(way), k1, k2 },
            Signer::Gmac { aes, ghash } => Signer::Gmac { aes: aes.on(way), ghash: ghash.on(way) },
        }
    }

    /// Begins the signature of message `id`. The nonce of GMAC holds who sent it (MS-SMB2 3.1.4.1).
    pub fn begin(&self, id: u64, from_server: bool) -> Mac<'_> {
        let mut mac = Mac {
            signer: self,
            hmac: None,
            state: [0; 16],
            held: [0; 16],
            held_bytes: 0,
            total_bytes: 0,
            mask: [0; 16],
        };
        match self {
            Signer::Hmac(fresh) => mac.hmac = Some((**fresh).clone()),
            Signer::Cmac { .. } => {}
            Signer::Gmac { aes, .. } => {
                let mut nonce = [0; 16];
                nonce[..8].copy_from_slice(&id.to_le_bytes());
                nonce[8] = u8::from(from_server);
                nonce[15] = 1;
                mac.mask = aes.block(nonce);
            }
        }
        mac
    }
}

impl Mac<'_> {
    fn blocks(&mut self, blocks: &[u8]) {
        match self.signer {
            Signer::Hmac(_) => {}
            Signer::Cmac { aes, .. } => aes.chain(&mut self.state, blocks),
            Signer::Gmac { ghash, .. } => ghash.update(&mut self.state, blocks),
        }
    }

    /// Adds a piece of any length.
    pub fn update(&mut self, mut piece: &[u8]) {
        if let Some(hmac) = &mut self.hmac {
            return hmac.update(piece);
        }
        self.total_bytes += piece.len() as u64;
        if self.held_bytes > 0 {
            let take = (16 - self.held_bytes).min(piece.len());
            self.held[self.held_bytes..self.held_bytes + take].copy_from_slice(&piece[..take]);
            self.held_bytes += take;
            piece = &piece[take..];
            if piece.is_empty() {
                return;
            }
            let full = self.held;
            self.blocks(&full);
        }
        let whole = piece.len().saturating_sub(1) / 16 * 16;
        self.blocks(&piece[..whole]);
        self.held_bytes = piece.len() - whole;
        self.held[..self.held_bytes].copy_from_slice(&piece[whole..]);
    }

    /// The signature.
    pub fn finish(mut self) -> B16 {
        if let Some(hmac) = self.hmac.take() {
            let mut out = [0; 16];
            out.copy_from_slice(&hmac.finalize().into_bytes()[..16]);
            return out;
        }
        let full = self.held_bytes == 16;
        self.held[self.held_bytes..].fill(0);
        let mut last = self.held;
        match self.signer {
            Signer::Cmac { k1, k2, .. } => {
                if !full {
                    last[self.held_bytes] = 0x80;
                }
                xor(&mut last, if full { k1 } else { k2 });
                self.blocks(&last);
            }
            _ => {
                if self.held_bytes > 0 {
                    self.blocks(&last);
                }
                let mut lengths = [0; 16];
                lengths[..8].copy_from_slice(&(8 * self.total_bytes).to_be_bytes());
                self.blocks(&lengths);
                xor(&mut self.state, &self.mask);
            }
        }
        self.state
    }
}

/// Doubling in GF(2^128), for the sub-keys of CMAC (RFC 4493).
fn doubled(x: B16) -> B16 {
    let value = u128::from_be_bytes(x);
    let carry = if value >> 127 == 1 { 0x87 } else { 0 };
    ((value << 1) ^ carry).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::unhex;
    use aes_gcm::aead::{AeadInOut, KeyInit};
    use proptest::prelude::*;

    fn sign(id: SigningId, key: &[u8; 16], pieces: &[&[u8]]) -> Vec<u8> {
        let signer = Signer::new(id, key);
        let mut mac = signer.begin(7, true);
        pieces.iter().for_each(|p| mac.update(p));
        mac.finish().to_vec()
    }

    /// RFC 4493, section 4.
    #[test]
    fn cmac_vectors() {
        let key: B16 = unhex("2b7e151628aed2a6abf7158809cf4f3c").try_into().unwrap();
        let text = unhex(
            "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51
             30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710",
        );
        for (len, tag) in [
            (0, "bb1d6929e95937287fa37d129b756746"),
            (16, "070a16b46b4d4144f79bdd9dd04a287c"),
            (40, "dfa66747de9ae63030ca32611497c827"),
            (64, "51f0bebf7e3b9d92fc49741779363cfe"),
        ] {
            assert_eq!(sign(SigningId::AesCmac, &key, &[&text[..len]]), unhex(tag), "{len} bytes");
        }
    }

    /// RFC 4231, test case 1, cut to 16 bytes; the key there is longer, so only the function is shared.
    #[test]
    fn hmac_vector() {
        let mut mac = hmac_sha256(&[0x0b; 20]);
        mac.update(b"Hi There");
        let full = mac.finalize().into_bytes();
        assert_eq!(full[..16].to_vec(), unhex("b0344c61d8db38535ca8afceaf0bf12b"));
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter_and_gmac_is_gcm(
            key in any::<[u8; 16]>(),
            text in proptest::collection::vec(any::<u8>(), 0..2000),
            cuts in proptest::collection::vec(0usize..2000, 0..4),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(text.len())).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut at = 0;
            for cut in cuts {
                pieces.push(&text[at..cut]);
                at = cut;
            }
            pieces.push(&text[at..]);
            for id in SigningId::ALL {
                prop_assert_eq!(sign(id, &key, &pieces), sign(id, &key, &[&text]));
            }
            let mut nonce = [0u8; 12];
            (nonce[0], nonce[8]) = (7, 1);
            let gcm = aes_gcm::Aes128Gcm::new_from_slice(&key).unwrap();
            let tag = gcm.encrypt_inout_detached(&nonce.into(), &text, (&mut [][..]).into()).unwrap();
            prop_assert_eq!(sign(SigningId::AesGmac, &key, &[&text]), tag.to_vec());
        }
    }
}
