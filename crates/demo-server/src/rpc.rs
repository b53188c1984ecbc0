//! ONC RPC (RFC 5531): the head of a call, and the heads of replies.

use crate::xdr::{Garbage, Reader, Writer};

/// Largest READ and WRITE, in bytes.
pub(crate) const MOST_DATA_BYTES: usize = 1 << 20;
/// Largest record: data, and room for its head.
pub(crate) const MOST_RECORD_BYTES: usize = MOST_DATA_BYTES + 4096;

const MOST_AUTH_BYTES: usize = 400;
const LAST_FRAGMENT: u32 = 1 << 31;

/// What a client asks for.
pub(crate) struct Call<'a> {
    pub(crate) xid: u32,
    pub(crate) program: u32,
    pub(crate) version: u32,
    pub(crate) procedure: u32,
    pub(crate) args: Reader<'a>,
}

/// Why a call was not carried out.
pub(crate) enum Refusal {
    NoProgram,
    Versions { low: u32, high: u32 },
    NoProcedure,
    Garbage,
}

impl From<Garbage> for Refusal {
    fn from(_: Garbage) -> Self {
        Self::Garbage
    }
}

/// The call in a record; None after a refusal was written. Fails for what is no call at all.
pub(crate) fn parse<'a>(record: &'a [u8], out: &mut Writer) -> Result<Option<Call<'a>>, Garbage> {
    let mut args = Reader::new(record);
    let (xid, kind, rpc_version) = (args.u32()?, args.u32()?, args.u32()?);
    if kind != 0 {
        return Err(Garbage);
    }
    if rpc_version != 2 {
        let start = begin(out, xid);
        out.words(&[1, 0, 2, 2]); // denied: versions 2 to 2
        finish(out, start);
        return Ok(None);
    }
    let (program, version, procedure) = (args.u32()?, args.u32()?, args.u32()?);
    for _ in ["credentials", "verifier"] {
        args.u32()?;
        args.opaque(MOST_AUTH_BYTES)?;
    }
    Ok(Some(Call { xid, program, version, procedure, args }))
}

/// Begins a reply; what it returns goes to `finish`.
fn begin(out: &mut Writer, xid: u32) -> usize {
    let start = out.len();
    out.words(&[0, xid, 1]);
    start
}

/// Begins the reply to a call that is carried out.
pub(crate) fn accept(out: &mut Writer, xid: u32) -> usize {
    let start = begin(out, xid);
    out.words(&[0, 0, 0, 0]); // accepted, empty verifier, success
    start
}

/// Ends a reply: its length is known now.
pub(crate) fn finish(out: &mut Writer, start: usize) {
    let len = (out.len() - start - 4) as u32;
    out.set_u32(start, LAST_FRAGMENT | len);
}

/// Replaces a reply begun at `start` by a refusal.
pub(crate) fn refuse(out: &mut Writer, start: usize, xid: u32, why: &Refusal) {
    out.truncate(start);
    begin(out, xid);
    out.words(&[0, 0, 0]); // accepted, empty verifier
    match why {
        Refusal::NoProgram => out.u32(1),
        Refusal::Versions { low, high } => out.words(&[2, *low, *high]),
        Refusal::NoProcedure => out.u32(3),
        Refusal::Garbage => out.u32(4),
    }
    finish(out, start);
}

/// Length of a fragment and whether it is a record's last, from its mark.
pub(crate) fn mark(word: u32) -> (usize, bool) {
    ((word & !LAST_FRAGMENT) as usize, word & LAST_FRAGMENT != 0)
}
