//! Arguments and results of NFS 3.

use crate::dialect::{Attributes, Limits, TYPE_DIRECTORY};
use crate::replies::{skip_attributes3, skip_wcc3};
use crate::services::HANDLE3_BYTES;
use crate::xdr::{Bad, Decoded, Decoder, Handle, Put};
use naslab_core::{FileTimes, Space};

/// createmode3: a file that is there already is taken.
pub(super) const UNCHECKED: u32 = 0;
/// createmode3: a file that is there already is an error.
pub(super) const GUARDED: u32 = 1;
/// Longest name in a listing.
const MOST_NAME_BYTES: usize = 4096;
/// Most entries of one answer: each takes at least 24 bytes of it.
const MOST_PAGE_ENTRIES: usize = 1 << 16;

/// time_how: leave it alone.
const DONT_CHANGE: u32 = 0;
/// time_how: as the client says.
const SET_TO_CLIENT_TIME: u32 = 2;
const NS_PER_SECOND: i64 = 1_000_000_000;

/// Attributes to set.
#[derive(Clone, Copy, Default)]
pub(super) struct NewAttributes {
    pub mode: Option<u32>,
    pub size: Option<u64>,
    pub times: Option<FileTimes>,
}

/// diropargs3.
pub(super) fn put_at(out: &mut Vec<u8>, folder: &Handle, name: &str) {
    out.put_opaque(folder.as_slice());
    out.put_opaque(name.as_bytes());
}

/// sattr3: mode, uid, gid, size, atime, mtime.
pub(super) fn put_attributes(out: &mut Vec<u8>, new: NewAttributes) {
    out.put_bool(new.mode.is_some());
    if let Some(mode) = new.mode {
        out.put_u32(mode);
    }
    out.put_u64(0);
    out.put_bool(new.size.is_some());
    if let Some(size) = new.size {
        out.put_u64(size);
    }
    let times = new.times.map(|times| [times.accessed_ns, times.modified_ns]);
    for time in [0, 1].map(|at| times.map(|times| times[at])) {
        out.put_u32(if time.is_some() { SET_TO_CLIENT_TIME } else { DONT_CHANGE });
        if let Some(ns) = time {
            out.put_u32(ns.div_euclid(NS_PER_SECOND) as u32);
            out.put_u32(ns.rem_euclid(NS_PER_SECOND) as u32);
        }
    }
}

/// fattr3.
pub(super) fn take_attributes(d: &mut Decoder<'_>) -> Decoded<Attributes> {
    let kind = d.u32()?;
    d.skip(16)?;
    let len_bytes = d.u64()?;
    let used_bytes = Some(d.u64()?);
    d.skip(8)?;
    let fsid = (d.u64()?, 0);
    d.skip(8 + 8)?;
    let modified_ns = Some(i64::from(d.u32()?) * NS_PER_SECOND + i64::from(d.u32()?));
    d.skip(8)?;
    Ok(Attributes { kind, len_bytes, used_bytes, fsid, modified_ns })
}

/// post_op_attr.
fn take_optional(d: &mut Decoder<'_>) -> Decoded<Option<Attributes>> {
    d.bool()?.then(|| take_attributes(d)).transpose()
}

/// LOOKUP3resok.
pub(super) fn take_lookup(d: &mut Decoder<'_>) -> Decoded<(Handle, Option<Attributes>)> {
    Ok((Handle::take(d, HANDLE3_BYTES)?, take_optional(d)?))
}

/// CREATE3resok: the handle, if told.
pub(super) fn take_created(d: &mut Decoder<'_>) -> Decoded<Option<Handle>> {
    let handle = d.bool()?.then(|| Handle::take(d, HANDLE3_BYTES)).transpose()?;
    skip_attributes3(d)?;
    skip_wcc3(d)?;
    Ok(handle)
}

/// ACCESS3resok.
pub(super) fn take_access(d: &mut Decoder<'_>) -> Decoded<u32> {
    skip_attributes3(d)?;
    d.u32()
}

/// FSINFO3resok.
pub(super) fn take_limits(d: &mut Decoder<'_>) -> Decoded<Limits> {
    skip_attributes3(d)?;
    let (rtmax, rtpref, _) = (d.u32()?, d.u32()?, d.u32()?);
    let (wtmax, wtpref, _) = (d.u32()?, d.u32()?, d.u32()?);
    d.u32()?;
    let max_file_bytes = Some(d.u64()?);
    if rtmax == 0 || wtmax == 0 {
        return Err(Bad::Wrong("the server's largest read or write is zero"));
    }
    Ok(Limits {
        max_read_bytes: rtmax,
        max_write_bytes: wtmax,
        preferred_read_bytes: Some(rtpref),
        preferred_write_bytes: Some(wtpref),
        max_file_bytes,
        lease_seconds: None,
    })
}

/// FSSTAT3resok.
pub(super) fn take_space(d: &mut Decoder<'_>) -> Decoded<Space> {
    skip_attributes3(d)?;
    let total_bytes = d.u64()?;
    d.u64()?;
    Ok(Space { free_bytes: d.u64()?, total_bytes })
}

/// One entry of a listing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PageEntry {
    pub name: String,
    pub cookie: u64,
    pub is_dir: Option<bool>,
}

/// One answer to READDIR or READDIRPLUS.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub verifier: [u8; 8],
    pub entries: Vec<PageEntry>,
    pub eof: bool,
}

/// READDIR3resok, or READDIRPLUS3resok if `plus`.
pub(super) fn take_page(d: &mut Decoder<'_>, plus: bool) -> Decoded<Page> {
    skip_attributes3(d)?;
    let verifier = d.fixed()?;
    let mut entries = Vec::new();
    while d.bool()? {
        if entries.len() == MOST_PAGE_ENTRIES {
            return Err(Bad::Wrong("a listing has too many entries"));
        }
        d.u64()?;
        let name = d.text(MOST_NAME_BYTES)?;
        let cookie = d.u64()?;
        let mut is_dir = None;
        if plus {
            is_dir = take_optional(d)?.map(|a| a.kind == TYPE_DIRECTORY);
            if d.bool()? {
                d.opaque(HANDLE3_BYTES)?;
            }
        }
        entries.push(PageEntry { name, cookie, is_dir });
    }
    Ok(Page { verifier, entries, eof: d.bool()? })
}
