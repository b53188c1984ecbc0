//! The procedures of NFS 3 (RFC 1813, section 3).

use crate::attributes::{changed_at, put, put_change, put_post, Wanted};
use crate::folder::Folder;
use crate::nodes::ROOT;
use crate::rpc::{Refusal, MOST_DATA_BYTES};
use crate::status::Status;
use crate::xdr::{Garbage, Reader, Writer};
use crate::{data, listing};
use rustix::fs::{Access, AtFlags, Mode, Stat};

pub(crate) const PROGRAM: u32 = 100_003;
const MOST_HANDLE_BYTES: usize = 64;
const MOST_NAME_BYTES: usize = 1024;
const MOST_LINK_BYTES: usize = 4096;

/// Whether a call may wait for a disk, or must say that it would.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    Waits,
    Never,
}

/// Why there is no reply yet.
pub(crate) enum Trouble {
    Refused(Refusal),
    /// It would wait, and was told not to. Nothing was done.
    WouldWait,
}

impl From<Garbage> for Trouble {
    fn from(_: Garbage) -> Self {
        Self::Refused(Refusal::Garbage)
    }
}

pub(crate) type Done = Result<(), Trouble>;

/// A file as clients name it: checked for belonging to this start of the server.
pub(crate) type Handle = Result<u64, Status>;

/// Carries out one procedure and writes its result.
pub(crate) fn call(
    folder: &Folder,
    procedure: u32,
    args: &mut Reader<'_>,
    out: &mut Writer,
    patience: Patience,
) -> Done {
    match procedure {
        0 => Ok(()),
        1 => getattr(folder, args, out),
        2 => setattr(folder, args, out),
        3 => lookup(folder, args, out),
        4 => access(folder, args, out),
        5 => readlink(folder, args, out),
        6 => data::read(folder, args, out, patience),
        7 => data::write(folder, args, out, patience),
        8 => create(folder, args, out),
        9 => mkdir(folder, args, out),
        10 => symlink(folder, args, out),
        11 | 15 => not_served(out, procedure == 15),
        12 => remove(folder, args, out, false),
        13 => remove(folder, args, out, true),
        14 => rename(folder, args, out),
        16 => listing::readdir(folder, args, out),
        17 => listing::readdirplus(folder, args, out),
        18 => fsstat(folder, args, out),
        19 => fsinfo(folder, args, out),
        20 => pathconf(folder, args, out),
        21 => data::commit(folder, args, out, patience),
        _ => Err(Trouble::Refused(Refusal::NoProcedure)),
    }
}

pub(crate) fn take_handle(folder: &Folder, args: &mut Reader<'_>) -> Result<Handle, Garbage> {
    let bytes = args.opaque(MOST_HANDLE_BYTES)?;
    let mut parts = Reader::new(bytes);
    Ok(match (bytes.len(), parts.u64(), parts.u64()) {
        (16, Ok(verifier), Ok(id)) if verifier == folder.verifier => Ok(id),
        (16, ..) => Err(Status::STALE),
        _ => Err(Status::BADHANDLE),
    })
}

pub(crate) fn put_handle(folder: &Folder, out: &mut Writer, id: u64) {
    out.u32(16);
    out.u64(folder.verifier);
    out.u64(id);
}

/// The status word; whether results follow.
pub(crate) fn put_status<T>(out: &mut Writer, result: &Result<T, Status>) {
    out.u32(result.as_ref().err().map_or(0, |status| status.0));
}

pub(crate) fn stat_of(folder: &Folder, handle: Handle) -> Option<Stat> {
    handle.and_then(|id| folder.stat(id)).ok()
}

fn take_name<'a>(args: &mut Reader<'a>) -> Result<&'a [u8], Garbage> {
    args.opaque(MOST_NAME_BYTES)
}

fn getattr(folder: &Folder, args: &mut Reader<'_>, out: &mut Writer) -> Done {
    let stat = take_handle(folder, args)?.and_then(|id| folder.stat(id));
    put_status(out, &stat);
    if let Ok(stat) = stat {
        put(out, &stat);
    }
    Ok(())
}

fn setattr(folder: &Folder, args: &mut Reader<'_>, out: &mut Writer) -> Done {
    let handle = take_handle(folder, args)?;
    let wanted = Wanted::read(args)?;
    let guard = args.option(|args| Ok((args.u32()?, args.u32()?)))?;
    let before = stat_of(folder, handle);
    let result = handle.and_then(|id| match (guard, &before) {
        (Some((seconds, nanos)), Some(stat)) if !changed_at(stat, seconds, nanos) => Err(Status::NOT_SYNC),
        _ => folder.change(id, &wanted),
    });
    put_status(out, &result);
    put_change(out, before.as_ref(), stat_of(folder, handle).as_ref());
    Ok(())
}

fn lookup(folder: &Folder, args: &mut Reader<'_>, out: &mut Writer) -> Done {
    let handle = take_handle(folder, args)?;
    let name = take_name(args)?;
    let found = handle.and_then(|id| folder.lookup(id, name));
    put_status(out, &found);
    if let Ok((id, stat)) = &found {
        put_handle(folder, out, *id);
        put_post(out, Some(stat));
    }
    put_post(out, stat_of(folder, handle).as_ref());
    Ok(())
}

const ACCESS_READ: u32 = 0x01;
const ACCESS_LOOKUP: u32 = 0x02;
const ACCESS_CHANGE: u32 = 0x04 | 0x08 | 0x10;
const ACCESS_EXECUTE: u32 = 0x20;

/// What the server itself may do: it serves everybody as the user it runs as.
fn access(folder: &Folder, args: &mut Reader<'_>, out: &mut Writer) -> Done {
    let handle = take_handle(folder, args)?;
    let asked = args.u32()?;
    let granted = handle.and_then(|id| {
        let mut granted = 0;
        for (kind, bits) in [
            (Access::READ_OK, ACCESS_READ),
            (Access::WRITE_OK, ACCESS_CHANGE),
            (Access::EXEC_OK, ACCESS_LOOKUP | ACCESS_EXECUTE),
        ] {
            let allowed =
                folder.by_name(id, |fd, name, flags| rustix::fs::accessat(fd, name, kind, flags | AtFlags::EACCESS));
            granted |= if allowed.is_ok() { bits } else { 0 };
        }
        folder.stat(id).map(|_| granted)
    });
    put_status(out, &granted);
    put_post(out, stat_of(folder, handle).as_ref());
    if let Ok(granted) = granted {
        out.u32(granted & asked);
    }
    Ok(())
}

fn readlink(folder: &Folder, args: &mut Reader<'_>, out: &mut Writer) -> Done {
    let handle = take_handle(folder, args)?;
    let target = handle.and_then(|id| folder.readlink(id));
    put_status(out, &target);
    put_post(out, stat_of(folder, handle).as_ref());
    if let Ok(target) = target {
        out.opaque(&target);
    }
    Ok(())
}

/// The result that CREATE, MKDIR and SYMLINK share.
fn put_made(folder: &Folder, out: &mut Writer, made: Result<u64, Status>, parent: Handle, before: Option<&Stat>) {
    put_status(out, &made);
    if let Ok(id) = made {
        out.flag(true);
        put_handle(folder, out, id);
        put_post(out, folder.stat(id).ok().as_ref());
    }
    put_change(out, before, stat_of(folder, parent).as_ref());
}

fn create(folder: &Folder, args: &mut Reader<'_>, out: &mut Writer) -> Done {
    let parent = take_handle(folder, args)?;
    let name = take_name(args)?;
    let how = args.u32()?;
    let (wanted, verifier) = match how {
        0 | 1 => (Wanted::read(args)?, 0),
        2 => (Wanted::default(), args.u64()?),
        _ => return Err(Garbage.into()),
    };
    let before = stat_of(folder, parent);
    let made = parent.and_then(|parent| {
        if how == 2 {
            return folder.create_exclusive(parent, name, verifier);
        }
        let mode = wanted.mode().unwrap_or(Mode::from_raw_mode(0o644));
        let (id, is_new) = folder.create(parent, name, mode, how == 1)?;
        if is_new {
            folder.change_new(id, &wanted)?;
        } else if wanted.size.is_some() {
            folder.change(id, &Wanted { size: wanted.size, ..Wanted::default() })?;
        }
        Ok(id)
    });
    put_made(folder, out, made, parent, before.as_ref());
    Ok(())
}

fn mkdir(folder: &Folder, args: &mut Reader<'_>, out: &mut Writer) -> Done {
    let parent = take_handle(folder, args)?;
    let name = take_name(args)?;
    let mode = Wanted::read(args)?.mode().unwrap_or(Mode::from_raw_mode(0o755));
    let before = stat_of(folder, parent);
    let made = parent.and_then(|parent| folder.mkdir(parent, name, mode));
    put_made(folder, out, made, parent, before.as_ref());
    Ok(())
}

fn symlink(folder: &Folder, args: &mut Reader<'_>, out: &mut Writer) -> Done {
    let parent = take_handle(folder, args)?;
    let name = take_name(args)?;
    Wanted::read(args)?;
    let to = args.opaque(MOST_LINK_BYTES)?;
    let before = stat_of(folder, parent);
    let made = parent.and_then(|parent| folder.symlink(parent, name, to));
    put_made(folder, out, made, parent, before.as_ref());
    Ok(())
}

fn remove(folder: &Folder, args: &mut Reader<'_>, out: &mut Writer, a_folder: bool) -> Done {
    let parent = take_handle(folder, args)?;
    let name = take_name(args)?;
    let before = stat_of(folder, parent);
    let result = parent.and_then(|parent| folder.remove(parent, name, a_folder));
    put_status(out, &result);
    put_change(out, before.as_ref(), stat_of(folder, parent).as_ref());
    Ok(())
}

fn rename(folder: &Folder, args: &mut Reader<'_>, out: &mut Writer) -> Done {
    let (from, from_name) = (take_handle(folder, args)?, take_name(args)?);
    let (to, to_name) = (take_handle(folder, args)?, take_name(args)?);
    let before = [from, to].map(|handle| stat_of(folder, handle));
    let result = from.and_then(|from| folder.rename((from, from_name), (to?, to_name)));
    put_status(out, &result);
    for (handle, before) in [from, to].into_iter().zip(&before) {
        put_change(out, before.as_ref(), stat_of(folder, handle).as_ref());
    }
    Ok(())
}

/// Devices and hard links.
fn not_served(out: &mut Writer, a_link: bool) -> Done {
    put_status::<()>(out, &Err(Status::NOTSUPP));
    if a_link {
        put_post(out, None);
    }
    put_change(out, None, None);
    Ok(())
}

fn fsstat(folder: &Folder, args: &mut Reader<'_>, out: &mut Writer) -> Done {
    let handle = take_handle(folder, args)?;
    let space = handle.and_then(|id| folder.space(id));
    put_status(out, &space);
    put_post(out, stat_of(folder, handle).as_ref());
    if let Ok(space) = space {
        for blocks in [space.f_blocks, space.f_bfree, space.f_bavail] {
            out.u64(blocks.saturating_mul(space.f_frsize));
        }
        [space.f_files, space.f_ffree, space.f_favail].into_iter().for_each(|value| out.u64(value));
        out.u32(0);
    }
    Ok(())
}

fn fsinfo(folder: &Folder, args: &mut Reader<'_>, out: &mut Writer) -> Done {
    const SYMLINKS: u32 = 0x02;
    const HOMOGENEOUS: u32 = 0x08;
    const SETS_TIMES: u32 = 0x10;
    let stat = take_handle(folder, args)?.and_then(|id| folder.stat(id));
    put_status(out, &stat);
    put_post(out, stat.as_ref().ok());
    if stat.is_ok() {
        let most = MOST_DATA_BYTES as u32;
        out.words(&[most, most, 4096, most, most, 4096, 64 << 10]);
        out.u64(i64::MAX as u64);
        out.words(&[0, 1]); // times count nanoseconds
        out.u32(SYMLINKS | HOMOGENEOUS | SETS_TIMES);
    }
    Ok(())
}

fn pathconf(folder: &Folder, args: &mut Reader<'_>, out: &mut Writer) -> Done {
    let stat = take_handle(folder, args)?.and_then(|id| folder.stat(id));
    put_status(out, &stat);
    put_post(out, stat.as_ref().ok());
    if stat.is_ok() {
        out.words(&[1, 255]); // links, length of a name
        [true, true, false, true].into_iter().for_each(|flag| out.flag(flag)); // no truncation, chown restricted, cases kept apart
    }
    Ok(())
}

/// The folder that a MOUNT path names below the export.
pub(crate) fn resolve(folder: &Folder, path: &[u8]) -> Result<u64, Status> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).try_fold(ROOT, |at, name| {
        if matches!(name, b"." | b"..") {
            return Err(Status::INVAL);
        }
        let (id, _) = folder.lookup(at, name)?;
        folder.folder(id).map(|_| id)
    })
}
