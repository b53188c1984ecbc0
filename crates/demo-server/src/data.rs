//! READ, WRITE and COMMIT.

use crate::attributes::{put_change, put_post};
use crate::folder::{Folder, Open};
use crate::nfs::{put_status, stat_of, take_handle, Done, Patience, Trouble};
use crate::rpc::MOST_DATA_BYTES;
use crate::status::Status;
use crate::xdr::{padding, Garbage, Reader, Writer};
use rustix::fs::{fdatasync, fstat, fsync};
use rustix::io::{preadv2, pwritev2, Errno, ReadWriteFlags};
use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::Ordering;

const UNSTABLE: u32 = 0;
const DATA_SYNC: u32 = 1;
const FILE_SYNC: u32 = 2;

pub(crate) fn read(folder: &Folder, args: &mut Reader<'_>, out: &mut Writer, patience: Patience) -> Done {
    let handle = take_handle(folder, args)?;
    let offset = args.u64()?;
    let count = (args.u32()? as usize).min(MOST_DATA_BYTES);
    let opened = handle.and_then(|id| {
        let open = folder.file(id)?;
        let stat = fstat(&open.fd)?;
        i64::try_from(offset).map_err(|_| Status::INVAL)?;
        Ok((open, stat))
    });
    let start = out.len();
    put_status(out, &opened);
    let (open, stat) = match opened {
        Ok(found) => found,
        Err(_) => {
            put_post(out, stat_of(folder, handle).as_ref());
            return Ok(());
        }
    };
    put_post(out, Some(&stat));
    let head = out.len();
    out.room(12);
    let end = stat.st_size as u64;
    let count = count.min(usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX));
    let filled = match fill(&open, out.room(count), offset, patience) {
        Ok(Some(filled)) => filled,
        Ok(None) => return Err(Trouble::WouldWait),
        Err(errno) => {
            out.truncate(start);
            put_status::<()>(out, &Err(errno.into()));
            put_post(out, Some(&stat));
            return Ok(());
        }
    };
    out.truncate(head + 12 + filled);
    out.room(padding(filled)).fill(0);
    out.set_u32(head, filled as u32);
    out.set_u32(head + 4, u32::from(offset.saturating_add(filled as u64) >= end || filled < count));
    out.set_u32(head + 8, filled as u32);
    Ok(())
}

/// Reads until `room` is full or the file ends; None when that would wait for a disk and must not.
fn fill(open: &Open, room: &mut [u8], offset: u64, patience: Patience) -> Result<Option<usize>, Errno> {
    let mut filled = 0;
    while filled < room.len() {
        let tries = patience == Patience::Never && open.can_try.load(Ordering::Relaxed);
        let flags = if tries { ReadWriteFlags::NOWAIT } else { ReadWriteFlags::empty() };
        let mut rest = [IoSliceMut::new(&mut room[filled..])];
        match preadv2(&open.fd, &mut rest, offset + filled as u64, flags) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::AGAIN) if tries => return Ok(None),
            Err(Errno::OPNOTSUPP) if tries => open.cannot_try(),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(Some(filled))
}

pub(crate) fn write(folder: &Folder, args: &mut Reader<'_>, out: &mut Writer, patience: Patience) -> Done {
    let handle = take_handle(folder, args)?;
    let (offset, count, stable) = (args.u64()?, args.u32()?, args.u32()?);
    let bytes = args.opaque(MOST_DATA_BYTES)?;
    if stable > FILE_SYNC {
        return Err(Garbage.into());
    }
    if stable != UNSTABLE && patience == Patience::Never {
        return Err(Trouble::WouldWait);
    }
    let before = stat_of(folder, handle);
    let result = handle.and_then(|id| {
        if count as usize != bytes.len() {
            return Err(Status::INVAL);
        }
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > i64::MAX as u64) {
            return Err(Status::FBIG);
        }
        let open = folder.file(id)?;
        if !open.writable {
            return Err(Status::ACCES);
        }
        store(&open, bytes, offset, stable)?;
        Ok(fstat(&open.fd)?)
    });
    put_status(out, &result);
    put_change(out, before.as_ref(), result.as_ref().ok());
    if result.is_ok() {
        out.words(&[count, stable]);
        out.u64(folder.verifier);
    }
    Ok(())
}

/// Writes all of it, durably if asked for.
fn store(open: &Open, bytes: &[u8], offset: u64, stable: u32) -> Result<(), Errno> {
    let flags = match stable {
        DATA_SYNC => ReadWriteFlags::DSYNC,
        FILE_SYNC => ReadWriteFlags::SYNC,
        _ => ReadWriteFlags::empty(),
    };
    let mut written = 0;
    while written < bytes.len() {
        let rest = [IoSlice::new(&bytes[written..])];
        match pwritev2(&open.fd, &rest, offset + written as u64, flags) {
            Ok(more) => written += more,
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::INVAL) if !flags.is_empty() => {
                store(open, &bytes[written..], offset + written as u64, UNSTABLE)?;
                return if stable == FILE_SYNC { fsync(&open.fd) } else { fdatasync(&open.fd) };
            }
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

pub(crate) fn commit(folder: &Folder, args: &mut Reader<'_>, out: &mut Writer, patience: Patience) -> Done {
    let handle = take_handle(folder, args)?;
    args.u64()?;
    args.u32()?;
    if patience == Patience::Never {
        return Err(Trouble::WouldWait);
    }
    let before = stat_of(folder, handle);
    let result = handle.and_then(|id| Ok(fsync(&folder.open(id)?.fd)?));
    put_status(out, &result);
    put_change(out, before.as_ref(), stat_of(folder, handle).as_ref());
    if result.is_ok() {
        out.u64(folder.verifier);
    }
    Ok(())
}
