//! Replies of READ, WRITE and COMMIT, up to where a read's data begins, in every version.

use crate::options::Version;
use crate::xdr::{Bad, Decoded, Decoder};
use naslab_core::OpKind;

/// Numbers of the operations of NFS 4 that the data path uses.
pub(crate) mod op4 {
    pub const COMMIT: u32 = 5;
    pub const PUTFH: u32 = 22;
    pub const READ: u32 = 25;
    pub const WRITE: u32 = 38;
    pub const SEQUENCE: u32 = 53;
}

/// Longest tag of a compound.
const MAX_TAG_BYTES: usize = 1024;
/// Attributes of a file in NFS 3.
const FATTR3_BYTES: usize = 84;
/// Size, mtime and ctime before a change.
const WCC_ATTR_BYTES: usize = 24;

/// What SEQUENCE says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sequenced {
    pub session: [u8; 16],
    pub slot: u32,
    pub target_highest: u32,
    pub flags: u32,
}

/// What a data reply says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DataReply {
    /// nfsstat of the first operation that failed, or zero.
    pub status: u32,
    /// SEQUENCE's results, when it succeeded.
    pub sequence: Option<Sequenced>,
    /// Bytes read or written.
    pub count: u32,
    /// The read met the end of the file.
    pub eof: bool,
    /// How durable a write is.
    pub committed: u32,
    /// Changes when the server loses uncommitted data.
    pub verifier: [u8; 8],
    /// Where a read's data begins, from the decoder's first byte.
    pub data_at: usize,
}

/// Takes a reply's results. For reads, the data themselves need not be there.
#[inline]
pub(crate) fn data_reply(d: &mut Decoder<'_>, version: Version, kind: OpKind) -> Decoded<DataReply> {
    let mut reply = DataReply::default();
    match version.minor() {
        None => results3(d, kind, &mut reply)?,
        Some(minor) => results4(d, minor, kind, &mut reply)?,
    }
    reply.data_at = d.position();
    Ok(reply)
}

fn results3(d: &mut Decoder<'_>, kind: OpKind, reply: &mut DataReply) -> Decoded<()> {
    reply.status = d.u32()?;
    if kind == OpKind::Read {
        skip_attributes3(d)?;
    } else {
        skip_wcc3(d)?;
    }
    if reply.status != 0 {
        return Ok(());
    }
    match kind {
        OpKind::Read => {
            reply.count = d.u32()?;
            reply.eof = d.bool()?;
            if d.u32()? != reply.count {
                return Err(Bad::Wrong("a read's count and its data differ in length"));
            }
        }
        OpKind::Write => {
            reply.count = d.u32()?;
            reply.committed = d.u32()?;
            reply.verifier = d.fixed()?;
        }
        OpKind::Flush => reply.verifier = d.fixed()?,
    }
    Ok(())
}

/// post_op_attr.
#[inline]
pub(crate) fn skip_attributes3(d: &mut Decoder<'_>) -> Decoded<()> {
    if d.bool()? {
        d.skip(FATTR3_BYTES)?;
    }
    Ok(())
}

/// wcc_data.
#[inline]
pub(crate) fn skip_wcc3(d: &mut Decoder<'_>) -> Decoded<()> {
    if d.bool()? {
        d.skip(WCC_ATTR_BYTES)?;
    }
    skip_attributes3(d)
}

fn results4(d: &mut Decoder<'_>, minor: u32, kind: OpKind, reply: &mut DataReply) -> Decoded<()> {
    let (status, mut left) = compound4(d)?;
    reply.status = status;
    if status != 0 && left == 0 {
        return Ok(());
    }
    if minor > 0 {
        match result4(d, op4::SEQUENCE, &mut left)? {
            0 => reply.sequence = Some(sequence4(d)?),
            failed => return fail(reply, failed),
        }
    }
    match result4(d, op4::PUTFH, &mut left)? {
        0 => {}
        failed => return fail(reply, failed),
    }
    let op = match kind {
        OpKind::Read => op4::READ,
        OpKind::Write => op4::WRITE,
        OpKind::Flush => op4::COMMIT,
    };
    match result4(d, op, &mut left)? {
        0 => {}
        failed => return fail(reply, failed),
    }
    if status != 0 {
        return Err(Bad::Wrong("a compound failed though each of its operations succeeded"));
    }
    match kind {
        OpKind::Read => {
            reply.eof = d.bool()?;
            reply.count = d.u32()?;
        }
        OpKind::Write => {
            reply.count = d.u32()?;
            reply.committed = d.u32()?;
            reply.verifier = d.fixed()?;
        }
        OpKind::Flush => reply.verifier = d.fixed()?,
    }
    Ok(())
}

fn fail(reply: &mut DataReply, status: u32) -> Decoded<()> {
    reply.status = status;
    Ok(())
}

/// Head of a compound's results: its status and how many results follow.
#[inline]
pub(crate) fn compound4(d: &mut Decoder<'_>) -> Decoded<(u32, u32)> {
    let status = d.u32()?;
    d.opaque(MAX_TAG_BYTES)?;
    Ok((status, d.u32()?))
}

/// Head of the next result, which must be that of `op`: its status. A compound that failed before any operation
/// has no results and answers with an error of its own, which the caller knows.
#[inline]
pub(crate) fn result4(d: &mut Decoder<'_>, op: u32, left: &mut u32) -> Decoded<u32> {
    if *left == 0 {
        return Err(Bad::Wrong("a compound has fewer results than operations"));
    }
    *left -= 1;
    let found = d.u32()?;
    let status = d.u32()?;
    if found != op && !(found == crate::v4::op::ILLEGAL && status != 0) {
        return Err(Bad::Wrong("a result belongs to another operation"));
    }
    Ok(status)
}

/// Results of SEQUENCE.
#[inline]
pub(crate) fn sequence4(d: &mut Decoder<'_>) -> Decoded<Sequenced> {
    let session = d.fixed()?;
    d.u32()?;
    let slot = d.u32()?;
    d.u32()?;
    Ok(Sequenced { session, slot, target_highest: d.u32()?, flags: d.u32()? })
}
