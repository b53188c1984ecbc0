//! AES as the modes need it: one block, a counter stream, a chain.

use aes::cipher::{BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Aes256, Block};

/// A block.
pub(crate) type B16 = [u8; 16];

enum Soft {
    A128(Box<Aes128>),
    A256(Box<Aes256>),
}

/// An expanded key of 16 or 32 bytes.
pub(crate) struct AesKey {
    soft: Soft,
    #[cfg(target_arch = "x86_64")]
    fast: Option<super::x86::Aes>,
}

impl AesKey {
    /// Expands a key. Panics unless it has 16 or 32 bytes, which the ciphers' table says.
    pub fn new(key: &[u8]) -> AesKey {
        let soft = match key.len() {
            16 => Soft::A128(Box::new(Aes128::new_from_slice(key).expect("16 bytes"))),
            _ => Soft::A256(Box::new(Aes256::new_from_slice(key).expect("32 bytes"))),
        };
        AesKey {
            soft,
            #[cfg(target_arch = "x86_64")]
            fast: super::x86::Aes::new(key),
        }
    }

    #[cfg(test)]
    pub fn on(mut self, way: super::guarded::Way) -> AesKey {
        #[cfg(target_arch = "x86_64")]
        {
            self.fast = self.fast.and_then(|fast| fast.on(way));
        }
        self
    }

    fn blocks(&self, blocks: &mut [Block]) {
        match &self.soft {
            Soft::A128(aes) => aes.encrypt_blocks(blocks),
            Soft::A256(aes) => aes.encrypt_blocks(blocks),
        }
    }

    /// Encrypts one block.
    pub fn block(&self, block: B16) -> B16 {
        let mut one = [Block::from(block)];
        self.blocks(&mut one);
        one[0].into()
    }

    /// XORs `len` bytes with the key stream that begins at `counter`, whose last four bytes count up; `counter`
    /// is left at the next block (a partial block counts as one).
    ///
    /// # Safety
    /// `src` is readable and `dst` writable for `len` bytes; they are the same or do not overlap.
    pub unsafe fn ctr(&self, counter: &mut B16, src: *const u8, dst: *mut u8, len: usize) {
        #[cfg(target_arch = "x86_64")]
        if let Some(fast) = &self.fast {
            return fast.ctr(counter, src, dst, len);
        }
        self.ctr_soft(counter, src, dst, len);
    }

    unsafe fn ctr_soft(&self, counter: &mut B16, src: *const u8, dst: *mut u8, len: usize) {
        let mut done = 0;
        while done < len {
            let take = (len - done).min(512);
            let mut stream = [Block::default(); 32];
            let count = take.div_ceil(16);
            for block in &mut stream[..count] {
                *block = Block::from(*counter);
                bump(counter, 1);
            }
            self.blocks(&mut stream[..count]);
            for at in 0..take {
                let byte = src.add(done + at).read() ^ stream[at / 16][at % 16];
                dst.add(done + at).write(byte);
            }
            done += take;
        }
    }

    /// Chains whole blocks: `x = E(x ^ block)` for each.
    pub fn chain(&self, x: &mut B16, blocks: &[u8]) {
        #[cfg(target_arch = "x86_64")]
        if let Some(fast) = &self.fast {
            return fast.chain(x, blocks);
        }
        for block in blocks.chunks_exact(16) {
            xor(x, block);
            *x = self.block(*x);
        }
    }
}

/// Adds to the counter in the last four bytes.
pub(crate) fn bump(counter: &mut B16, by: u32) {
    let at = u32::from_be_bytes([counter[12], counter[13], counter[14], counter[15]]);
    counter[12..].copy_from_slice(&at.wrapping_add(by).to_be_bytes());
}

/// `x ^= other`.
pub(crate) fn xor(x: &mut B16, other: &[u8]) {
    x.iter_mut().zip(other).for_each(|(a, b)| *a ^= b);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::guarded::Way;
    use crate::crypto::unhex;
    use proptest::prelude::*;

    #[test]
    fn fips_197_vectors() {
        let plain: B16 = unhex("00112233445566778899aabbccddeeff").try_into().unwrap();
        let k128 = unhex("000102030405060708090a0b0c0d0e0f");
        let k256 = unhex("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f");
        for (key, cipher) in [(k128, "69c4e0d86a7b0430d8cdb78070b4c55a"), (k256, "8ea2b7ca516745bfeafc49904b496089")] {
            let key = AesKey::new(&key);
            assert_eq!(key.block(plain).to_vec(), unhex(cipher));
            let mut x = [0; 16];
            key.chain(&mut x, &plain);
            assert_eq!(x.to_vec(), unhex(cipher));
        }
    }

    proptest! {
        #[test]
        fn fast_and_portable_agree(
            key in prop_oneof![proptest::collection::vec(any::<u8>(), 16), proptest::collection::vec(any::<u8>(), 32)],
            start in any::<[u8; 16]>(),
            data in proptest::collection::vec(any::<u8>(), 0..3000),
        ) {
            let (fast, soft) = (AesKey::new(&key), AesKey::new(&key).on(Way::Portable));
            let (mut a, mut b) = (data.clone(), data.clone());
            let (mut ca, mut cb) = (start, start);
            // SAFETY: both buffers are as long as said.
            unsafe {
                fast.ctr(&mut ca, data.as_ptr(), a.as_mut_ptr(), a.len());
                let at = b.as_mut_ptr();
                soft.ctr(&mut cb, at, at, b.len());
            }
            prop_assert_eq!(&a, &b);
            prop_assert_eq!(ca, cb);
            let whole = data.len() / 16 * 16;
            let (mut xa, mut xb) = (start, start);
            fast.chain(&mut xa, &data[..whole]);
            soft.chain(&mut xb, &data[..whole]);
            prop_assert_eq!(xa, xb);
        }
    }
}
