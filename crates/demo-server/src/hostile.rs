//! Hostile calls: random bytes, and valid calls cut and changed, through the whole server. Nothing may panic, no reply
//! may break the bounds of a record, and nothing outside the served folder is touched.
//!
//! `NASLAB_HOSTILE_INPUTS=N` tries so many calls; `NASLAB_HOSTILE_SEED` others.

use crate::folder::Folder;
use crate::nfs::{Patience, PROGRAM};
use crate::nodes::ROOT;
use crate::records::{Record, Records};
use crate::rpc::MOST_RECORD_BYTES;
use crate::serve::serve;
use crate::xdr::Writer;

const CALLS: usize = 20_000;
const NAMES: [&[u8]; 8] = [b"a", b"b", b"folder", b"link", b"..", b".", b"", b"../outside"];
/// Handles are given in the order in which things are first named: a guess often hits.
const GUESSED_HANDLES: usize = 40;

fn setting(name: &str) -> Option<usize> {
    std::env::var(name).ok().map(|text| text.parse().expect("a whole number"))
}

struct Chance(u64);

impl Chance {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }

    /// A call of any procedure, whose arguments are of the right kind half of the time.
    fn call(&mut self, folder: &Folder) -> Vec<u8> {
        let mut out = Writer::default();
        let procedure = self.below(23) as u32;
        let program = if self.below(12) == 0 { 100_005 } else { PROGRAM };
        out.words(&[7, 0, 2, program, 3, procedure, 0, 0, 0, 0]);
        self.handle(folder, &mut out);
        if matches!(procedure, 3 | 8..=14) {
            out.opaque(NAMES[self.below(NAMES.len())]);
        }
        if procedure == 14 {
            self.handle(folder, &mut out);
            out.opaque(NAMES[self.below(NAMES.len())]);
        }
        if procedure == 10 {
            out.words(&[0; 6]);
            out.opaque(b"../outside");
        }
        for _ in 0..self.below(12) {
            out.u32([0, 0, 1, 16, 4096, u32::MAX][self.below(6)]);
        }
        out.filled().to_vec()
    }

    fn handle(&mut self, folder: &Folder, out: &mut Writer) {
        out.u32(16);
        out.u64(folder.verifier);
        out.u64(if self.below(2) == 0 { ROOT } else { self.below(GUESSED_HANDLES) as u64 });
    }

    /// Changes bytes, words or the end; often nothing.
    fn spoil(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..self.below(4) {
            let at = self.below(bytes.len());
            match self.below(5) {
                0 => bytes.truncate(at),
                1 => bytes.extend((0..self.below(40)).map(|n| n as u8)),
                2 if bytes.len() >= at + 4 => bytes[at..at + 4].copy_from_slice(&[0xff; 4]),
                _ if bytes.is_empty() => {}
                _ => bytes[at] = self.below(256) as u8,
            }
        }
    }
}

/// A folder to serve beside one that must stay as it is; what calls bring in comes in pieces of any length.
#[test]
fn no_call_panics_or_leaves_the_folder() {
    let both = tempfile::tempdir().unwrap();
    let (served, outside) = (both.path().join("served"), both.path().join("outside"));
    std::fs::create_dir_all(served.join("folder")).unwrap();
    std::fs::write(&outside, b"of somebody else").unwrap();
    std::os::unix::fs::symlink("../outside", served.join("link")).unwrap();
    let folder = Folder::new(&served).unwrap();
    let seed = setting("NASLAB_HOSTILE_SEED").unwrap_or(0) as u64;
    let mut chance = Chance(0x6465_6d6f ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let (mut records, mut out, mut replies, mut refused) = (Records::new(), Writer::default(), 0, 0);
    let count = setting("NASLAB_HOSTILE_INPUTS").unwrap_or(CALLS);
    for case in 0..count {
        let mut call = chance.call(&folder);
        chance.spoil(&mut call);
        let mut stream = (call.len() as u32 | 1 << 31).to_be_bytes().to_vec();
        stream.extend(&call);
        if case % 7 == 0 {
            chance.spoil(&mut stream);
        }
        feed(&mut records, &stream, &mut chance);
        loop {
            let record = match records.next() {
                Ok(Some(Record::Here(at))) => records.bytes(at).to_vec(),
                Ok(Some(Record::Joined(bytes))) => bytes,
                Ok(None) if !records.has_more() => break,
                // The connection ends: no record may be so long, or its end never comes.
                _ => {
                    records = Records::new();
                    break;
                }
            };
            out.truncate(0);
            match serve(&folder, &record, &mut out, Patience::Waits) {
                Ok(_) => replies += 1,
                Err(_) => refused += 1,
            }
            assert!(out.len() <= MOST_RECORD_BYTES, "case {case}: a reply of {} bytes", out.len());
        }
    }
    assert_eq!(std::fs::read(&outside).unwrap(), b"of somebody else");
    assert_eq!(std::fs::read_dir(both.path()).unwrap().count(), 2, "something was made beside the folder");
    assert!(replies > count / 4 && refused > count / 100, "{replies} replies, {refused} refused");
}

fn feed(records: &mut Records, mut bytes: &[u8], chance: &mut Chance) {
    while !bytes.is_empty() {
        let room = records.room();
        let take = (1 + chance.below(bytes.len())).min(room.len());
        room[..take].copy_from_slice(&bytes[..take]);
        records.filled(take);
        bytes = &bytes[take..];
    }
}
