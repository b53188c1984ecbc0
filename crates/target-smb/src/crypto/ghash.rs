//! GHASH, the polynomial hash of GCM.

use super::block::B16;
use ghash_crate::universal_hash::UniversalHash;
use ghash_crate::{Block, GHash};

/// The hash key.
pub(crate) struct GhashKey {
    h: B16,
    #[cfg(target_arch = "x86_64")]
    fast: Option<Box<super::x86::Ghash>>,
}

impl GhashKey {
    pub fn new(h: B16) -> GhashKey {
        GhashKey {
            h,
            #[cfg(target_arch = "x86_64")]
            fast: super::x86::Ghash::new(h).map(Box::new),
        }
    }

    #[cfg(test)]
    pub fn on(mut self, way: super::guarded::Way) -> GhashKey {
        #[cfg(target_arch = "x86_64")]
        {
            self.fast = self.fast.and_then(|fast| (*fast).on(way)).map(Box::new);
        }
        self
    }

    /// Takes whole blocks into the state `y`.
    pub fn update(&self, y: &mut B16, blocks: &[u8]) {
        #[cfg(target_arch = "x86_64")]
        if let Some(fast) = &self.fast {
            return fast.update(y, blocks);
        }
        self.update_soft(y, blocks);
    }

    fn update_soft(&self, y: &mut B16, blocks: &[u8]) {
        // The crate keeps its state to itself: continue by adding it to the first block.
        let mut hash = GHash::new(&self.h.into());
        let mut first = *y;
        for (at, block) in blocks.chunks_exact(16).enumerate() {
            let mut one = [0; 16];
            one.copy_from_slice(block);
            if at == 0 {
                super::block::xor(&mut one, &first);
                first = [0; 16];
            }
            hash.update(&[Block::from(one)]);
        }
        if blocks.len() >= 16 {
            *y = hash.finalize().into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::guarded::Way;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fast_and_portable_agree(h in any::<[u8; 16]>(), y in any::<[u8; 16]>(), blocks in 0usize..150, seed in any::<u8>()) {
            let data: Vec<u8> = (0..blocks * 16).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect();
            let (mut a, mut b) = (y, y);
            GhashKey::new(h).update(&mut a, &data);
            GhashKey::new(h).on(Way::Portable).update(&mut b, &data);
            prop_assert_eq!(a, b);
        }
    }
}
