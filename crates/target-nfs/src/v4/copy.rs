//! COPY of NFS 4.2 (RFC 7862): the server moves the bytes.

use super::compound::Compound;
use super::{op, V4};
use crate::files::{stable, OpenFile, StateId};
use crate::status;
use crate::transport::Transport;
use crate::xdr::{Decoded, Decoder, Handle, Put};
use naslab_core::{Error, ErrorKind, Result};

/// A state that no server gave out.
const NO_STATE: StateId = *b"\0\0\0\x01naslab-probe";

/// COPY4resok: bytes copied, how durable, and the verifier if they are not.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Copied {
    later: bool,
    bytes: u64,
    committed: u32,
    verifier: [u8; 8],
}

pub(super) fn take_copied(d: &mut Decoder<'_>) -> Decoded<Copied> {
    let later = d.length(1)? == 1;
    if later {
        d.skip(16)?;
    }
    let copied = Copied { later, bytes: d.u64()?, committed: d.u32()?, verifier: d.fixed()? };
    d.bool()?;
    d.bool()?;
    Ok(copied)
}

fn put_copy(out: &mut Vec<u8>, from: &StateId, to: &StateId, at: u64, count: u64) {
    out.put_raw(from);
    out.put_raw(to);
    out.put_u64(at);
    out.put_u64(at);
    out.put_u64(count);
    out.put_bool(true);
    out.put_bool(true);
    out.put_u32(0);
}

impl V4 {
    /// Whether the server has COPY: asks it to copy a folder with a state that it never gave out, which can only fail,
    /// and looks at how.
    pub fn offers_copy(&mut self, t: &mut Transport, root: &Handle) -> Result<bool> {
        if self.minor < 2 {
            return Ok(false);
        }
        const BADXDR: u32 = 10036;
        let mut c = Compound::at("connect", root);
        c.op(op::SAVEFH);
        put_copy(c.op(op::COPY), &NO_STATE, &NO_STATE, 0, 1);
        let found = self.run_once(t, &c, None)?.status;
        Ok(!matches!(found, status::NOTSUPP | status::OP_ILLEGAL | BADXDR | status::OK))
    }

    /// Copies a whole file and makes the copy durable.
    pub(super) fn copy_all(
        &mut self,
        t: &mut Transport,
        from: &OpenFile,
        to: &OpenFile,
        len_bytes: u64,
    ) -> Result<u64> {
        let mut done = 0;
        let mut verifier = None;
        while done < len_bytes {
            let copied = self.copy_some(t, from, to, done, len_bytes - done)?;
            if copied.later || copied.bytes == 0 || copied.bytes > len_bytes - done {
                let message = "the server did not copy as asked: at once, and no more than asked for";
                return Err(Error::new(ErrorKind::Protocol, "server_copy", message).with("copied", copied.bytes));
            }
            done += copied.bytes;
            if copied.committed == stable::UNSTABLE {
                if verifier.is_some_and(|known| known != copied.verifier) {
                    return Err(restarted(t));
                }
                verifier = Some(copied.verifier);
            }
        }
        if let Some(verifier) = verifier {
            self.commit_copy(t, to, verifier)?;
        }
        Ok(done)
    }

    fn copy_some(&mut self, t: &mut Transport, from: &OpenFile, to: &OpenFile, at: u64, count: u64) -> Result<Copied> {
        let mut c = Compound::at("server_copy", &from.handle);
        c.op(op::SAVEFH);
        c.place(&to.handle);
        put_copy(c.op(op::COPY), &from.state, &to.state, at, count);
        let mut results = self.run(t, &c)?;
        results.placed()?;
        results.take(op::SAVEFH, |_| Ok(()))?;
        results.placed()?;
        results.take(op::COPY, take_copied)
    }

    fn commit_copy(&mut self, t: &mut Transport, to: &OpenFile, verifier: [u8; 8]) -> Result<()> {
        let mut c = Compound::at("server_copy", &to.handle);
        let out = c.op(op::COMMIT);
        out.put_u64(0);
        out.put_u32(0);
        let mut results = self.run(t, &c)?;
        results.placed()?;
        if results.take(op::COMMIT, |d| d.fixed::<8>())? != verifier {
            return Err(restarted(t));
        }
        Ok(())
    }
}

fn restarted(t: &mut Transport) -> Error {
    t.events.verifier_changed += 1;
    let message = "the server's write verifier changed during the copy: it restarted, and what it copied may be lost";
    Error::new(ErrorKind::Io, "server_copy", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_replies() {
        let mut out = vec![0, 0, 0, 0];
        out.put_u64(4096);
        out.put_u32(0);
        out.extend([3; 8]);
        out.extend([0, 0, 0, 1, 0, 0, 0, 1]);
        let found = take_copied(&mut Decoder::new(&out)).unwrap();
        assert_eq!(found, Copied { later: false, bytes: 4096, committed: 0, verifier: [3; 8] });
        for cut in 0..out.len() {
            assert!(take_copied(&mut Decoder::new(&out[..cut])).is_err());
        }
        let later = [&[0, 0, 0, 1][..], &[9; 16], &out[4..]].concat();
        assert!(take_copied(&mut Decoder::new(&later)).unwrap().later);
    }
}
