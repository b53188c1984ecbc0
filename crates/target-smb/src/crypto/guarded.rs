//! Our AES-GCM, AES-CCM, GMAC and CMAC against the RustCrypto crates, between pages that may not be touched: a read or
//! write one byte outside a buffer ends the test program. Each way through the code is taken: with 512-bit
//! instructions, with 128-bit ones, and portable. Under Miri and AddressSanitizer (`make sanitize`) the same tests
//! show reads of other memory, too.

use super::aead::tests::reference;
use super::{same, Aead, CipherId, Signer, SigningId};
use cmac::{KeyInit, Mac as _};

/// Which instructions the code may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Portable,
    /// 128-bit instructions.
    Narrow,
    /// The best that the processor has.
    Best,
}

impl Way {
    const ALL: [Way; 3] = [Way::Portable, Way::Narrow, Way::Best];

    /// Whether wide instructions are allowed; `None` where no special ones are.
    pub fn wide(self) -> Option<bool> {
        (self != Way::Portable).then_some(self == Way::Best)
    }
}

/// Bytes on both sides of a buffer whose change is noticed.
const MARGIN: usize = 64;
const MARK: u8 = 0xC5;
/// The longest message: beyond eight times what the widest loop takes at once.
const LONGEST: usize = 4200;
#[cfg(all(unix, not(miri)))]
const PAGE: usize = 4096;

/// Where a buffer lies: right before the forbidden page, or so many bytes after a multiple of 64.
#[derive(Clone, Copy, Debug)]
enum Place {
    End,
    After(usize),
}

/// Memory between two forbidden pages.
struct Room {
    base: *mut u8,
    bytes: usize,
}

impl Room {
    #[cfg(all(unix, not(miri)))]
    fn new() -> Room {
        let bytes = (LONGEST + 3 * MARGIN).next_multiple_of(PAGE);
        // SAFETY: a fresh mapping, whose inner pages alone are made accessible.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let all = libc::mmap(std::ptr::null_mut(), bytes + 2 * PAGE, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(all, libc::MAP_FAILED);
            let base = all.cast::<u8>().add(PAGE);
            assert_eq!(libc::mprotect(base.cast(), bytes, libc::PROT_READ | libc::PROT_WRITE), 0);
            base.write_bytes(MARK, bytes);
            Room { base, bytes }
        }
    }

    /// Miri knows every buffer's bounds, and no forbidden pages; there are none on Windows either.
    #[cfg(any(miri, not(unix)))]
    fn new() -> Room {
        let bytes = LONGEST + 3 * MARGIN;
        let marked = vec![MARK; bytes].into_boxed_slice();
        Room { base: Box::into_raw(marked).cast(), bytes }
    }

    fn start(&self, place: Place, len: usize) -> usize {
        match place {
            Place::End => self.bytes - len,
            Place::After(offset) => (MARGIN - self.base as usize % MARGIN) % MARGIN + offset,
        }
    }

    /// Puts `text` at its place.
    fn put(&mut self, place: Place, text: &[u8]) -> *mut u8 {
        // SAFETY: every place leaves room for the longest message.
        unsafe {
            let at = self.base.add(self.start(place, text.len()));
            at.copy_from_nonoverlapping(text.as_ptr(), text.len());
            at
        }
    }

    /// Checks what lies at the place, and that nothing around it was written; then marks it all again.
    fn check(&mut self, place: Place, text: &[u8]) {
        let start = self.start(place, text.len());
        let (from, to) = (start.saturating_sub(MARGIN), (start + text.len() + MARGIN).min(self.bytes));
        // SAFETY: within the room, which nobody else looks into.
        let seen = unsafe { std::slice::from_raw_parts_mut(self.base.add(from), to - from) };
        let (before, rest) = seen.split_at_mut(start - from);
        let (middle, after) = rest.split_at_mut(text.len());
        assert!(middle == text, "{place:?}, {} bytes", text.len());
        assert!(before.iter().chain(after.iter()).all(|byte| *byte == MARK), "written outside: {place:?}");
        middle.fill(MARK);
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        #[cfg(all(unix, not(miri)))]
        // SAFETY: what `new` mapped.
        unsafe {
            libc::munmap(self.base.sub(PAGE).cast(), self.bytes + 2 * PAGE);
        }
        #[cfg(any(miri, not(unix)))]
        // SAFETY: what `new` leaked.
        unsafe {
            drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.base, self.bytes)));
        }
    }
}

/// Lengths that are tried: all, and under Miri, which is a thousand times slower, those around each loop's steps.
fn lengths() -> Vec<usize> {
    if cfg!(miri) {
        return [0, 1, 16, 17, 129, 257, 545].to_vec();
    }
    (0..=LONGEST).collect()
}

/// Pairs of places of input and output: the end, and alignments. In `make sanitize` all 64 of the input for each
/// length, each time with another one of the output; else every sixteenth, begun elsewhere for each length.
fn places(len: usize) -> Vec<(Place, Place)> {
    let step = match std::env::var_os("NASLAB_GUARDED_ALL") {
        _ if cfg!(miri) => 64,
        Some(_) => 1,
        None => 16,
    };
    let aligned = (len % step..64).step_by(step).map(|offset| (offset, (37 * offset + len / step) % 64));
    let aligned = aligned.map(|(from, to)| (Place::After(from), Place::After(to)));
    std::iter::once((Place::End, Place::End)).chain(aligned).collect()
}

fn noise(len: usize, seed: u8) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15 ^ u64::from(seed);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// One message and what it must become.
struct Case<'a> {
    ours: &'a Aead,
    nonce: [u8; 16],
    aad: [u8; 32],
    text: &'a [u8],
    sealed: &'a [u8],
    tag: [u8; 16],
}

/// Both ways, in place or from one room to the other, in one or two pieces.
fn crypt(case: &Case, rooms: &mut [Room; 2], places: (Place, Place), cut: usize, apart: bool) {
    let len = case.text.len();
    for (before, after, seal) in [(case.text, case.sealed, true), (case.sealed, case.text, false)] {
        let src = rooms[0].put(places.0, before);
        let dst = if apart { rooms[1].put(places.1, after).cast() } else { src };
        let mut run = case.ours.begin(&case.nonce, &case.aad, len as u32);
        for (from, bytes) in [(0, cut), (cut, len - cut)] {
            // SAFETY: `len` bytes were put at both places, and the rooms do not overlap.
            unsafe {
                if apart {
                    dst.add(from).write_bytes(0x5A, bytes);
                }
                match seal {
                    true => case.ours.seal(&mut run, src.add(from), dst.add(from), bytes),
                    false => case.ours.open(&mut run, src.add(from), dst.add(from), bytes),
                }
            }
        }
        assert!(same(&case.ours.tag(run), &case.tag));
        rooms[0].check(places.0, if apart { before } else { after });
        if apart {
            rooms[1].check(places.1, after);
        }
    }
}

fn ciphers(cipher: CipherId) {
    let (key, nonce, aad) = (noise(32, 1), [7; 16], [9; 32]);
    let key = &key[..cipher.key_bytes()];
    let ways = Way::ALL.map(|way| Aead::new(cipher, key).on(way));
    let text = noise(LONGEST, 2);
    let mut rooms = [Room::new(), Room::new()];
    for len in lengths() {
        let text = &text[..len];
        let (sealed, tag) = reference(cipher, key, &nonce, &aad, text);
        for ours in &ways {
            let case = Case { ours, nonce, aad, text, sealed: &sealed, tag };
            for (n, at) in places(len).into_iter().enumerate() {
                // Pieces but the last have a multiple of 16 bytes; every second time there is one only.
                let cut = if n % 2 == 0 { 0 } else { (len * 7 / 13 + 16 * n) % (len + 1) / 16 * 16 };
                crypt(&case, &mut rooms, at, cut, n == 0 || (n / 2 + len) % 2 == 0);
                if n == 0 {
                    crypt(&case, &mut rooms, at, cut, false);
                }
            }
        }
    }
}

#[test]
fn aes_128_gcm_stays_within_its_buffers() {
    ciphers(CipherId::Aes128Gcm);
}

#[test]
fn aes_256_gcm_stays_within_its_buffers() {
    ciphers(CipherId::Aes256Gcm);
}

#[test]
fn aes_128_ccm_stays_within_its_buffers() {
    ciphers(CipherId::Aes128Ccm);
}

#[test]
fn aes_256_ccm_stays_within_its_buffers() {
    ciphers(CipherId::Aes256Ccm);
}

fn expected(id: SigningId, key: &[u8; 16], text: &[u8]) -> [u8; 16] {
    if id == SigningId::AesGmac {
        let mut nonce = [0; 16];
        (nonce[0], nonce[8]) = (7, 1);
        return gmac(key, &nonce, text);
    }
    let mut mac = cmac::Cmac::<aes::Aes128>::new_from_slice(key).unwrap();
    mac.update(text);
    mac.finalize().into_bytes().into()
}

/// GMAC is GCM of no text, with the message as associated data.
fn gmac(key: &[u8], nonce: &[u8; 16], text: &[u8]) -> [u8; 16] {
    use aes_gcm::aead::AeadInOut;
    let gcm = aes_gcm::Aes128Gcm::new_from_slice(key).unwrap();
    let nonce = nonce[..12].try_into().unwrap();
    gcm.encrypt_inout_detached(nonce, text, (&mut [][..]).into()).unwrap().into()
}

/// Pieces of any length, each in a room of its own and so right before a forbidden page.
fn signatures(id: SigningId) {
    let key: [u8; 16] = noise(16, 3).try_into().unwrap();
    let ways = Way::ALL.map(|way| Signer::new(id, &key).on(way));
    let text = noise(LONGEST, 4);
    let mut rooms = [Room::new(), Room::new(), Room::new()];
    for len in lengths() {
        let text = &text[..len];
        let tag = expected(id, &key, text);
        for ours in &ways {
            for (n, (from, to)) in places(len).into_iter().enumerate() {
                let first = if n % 4 == 1 { 0 } else { (len * 5 / 11 + 3 * n) % (len + 1) };
                let second = if n % 4 == 3 { 0 } else { (n + len / 3) % (len - first + 1) };
                let cuts = [0, first, first + second, len];
                let mut mac = ours.begin(7, true);
                for (at, room) in rooms.iter_mut().enumerate() {
                    let piece = &text[cuts[at]..cuts[at + 1]];
                    let place = if at == 1 { to } else { from };
                    let there = room.put(place, piece);
                    // SAFETY: the piece was put there.
                    mac.update(unsafe { std::slice::from_raw_parts(there, piece.len()) });
                    room.check(place, piece);
                }
                assert!(same(&mac.finish(), &tag), "{id:?}, {len} bytes as {cuts:?}");
            }
        }
    }
}

#[test]
fn gmac_stays_within_its_buffers() {
    signatures(SigningId::AesGmac);
}

#[test]
fn cmac_stays_within_its_buffers() {
    signatures(SigningId::AesCmac);
}

/// The proof that the pages are forbidden: this program, begun once more, reads one byte on and dies of it.
#[test]
#[cfg(all(unix, not(miri)))]
fn one_byte_outside_ends_the_program() {
    use std::os::unix::process::ExitStatusExt;
    const SIDE: &str = "NASLAB_GUARDED_BITE";
    let room = Room::new();
    match std::env::var(SIDE).as_deref() {
        // SAFETY: none: the program ends here.
        Ok("after") => panic!("read {}", unsafe { room.base.add(room.bytes).read_volatile() }),
        // SAFETY: none: the program ends here.
        Ok(_) => panic!("read {}", unsafe { room.base.sub(1).read_volatile() }),
        Err(_) => {}
    }
    let name = "crypto::guarded::one_byte_outside_ends_the_program";
    for side in ["before", "after"] {
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        let ended = again.args(["--exact", name]).env(SIDE, side).output().unwrap();
        // AddressSanitizer catches the signal and says so.
        let text = String::from_utf8_lossy(&ended.stderr);
        let told = text.contains("AddressSanitizer: SEGV");
        assert!(told || ended.status.signal() == Some(libc::SIGSEGV), "{side}: {:?} {text}", ended.status);
    }
}
