//! Attributes: fattr3, wcc_data and sattr3 (RFC 1813, sections 2.5.5 to 2.6).

use crate::status::Status;
use crate::xdr::{Garbage, Reader, Writer};
use rustix::fs::{FileType, Gid, Mode, Stat, Timespec, Timestamps, Uid, UTIME_NOW, UTIME_OMIT};

/// What a client wants set.
#[derive(Clone, Copy, Default)]
pub(crate) struct Wanted {
    pub(crate) mode: Option<u32>,
    pub(crate) owner: Option<u32>,
    pub(crate) group: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) access: Time,
    pub(crate) change: Time,
}

#[derive(Clone, Copy, Default)]
pub(crate) enum Time {
    #[default]
    Keep,
    Now,
    At(u32, u32),
}

impl Wanted {
    pub(crate) fn read(args: &mut Reader<'_>) -> Result<Self, Garbage> {
        Ok(Self {
            mode: args.option(Reader::u32)?,
            owner: args.option(Reader::u32)?,
            group: args.option(Reader::u32)?,
            size: args.option(Reader::u64)?,
            access: Time::read(args)?,
            change: Time::read(args)?,
        })
    }

    /// Times for `utimensat`; None when they stay.
    pub(crate) fn times(&self) -> Result<Option<Timestamps>, Status> {
        if matches!((self.access, self.change), (Time::Keep, Time::Keep)) {
            return Ok(None);
        }
        Ok(Some(Timestamps { last_access: self.access.spec()?, last_modification: self.change.spec()? }))
    }

    pub(crate) fn owners(&self) -> Option<(Option<Uid>, Option<Gid>)> {
        let named = |id: u32| (id != u32::MAX).then_some(id);
        let (owner, group) = (self.owner.and_then(named), self.group.and_then(named));
        (owner.is_some() || group.is_some()).then(|| (owner.map(Uid::from_raw), group.map(Gid::from_raw)))
    }

    pub(crate) fn mode(&self) -> Option<Mode> {
        self.mode.map(|mode| Mode::from_raw_mode(mode & 0o7777))
    }
}

impl Time {
    fn read(args: &mut Reader<'_>) -> Result<Self, Garbage> {
        match args.u32()? {
            0 => Ok(Self::Keep),
            1 => Ok(Self::Now),
            2 => Ok(Self::At(args.u32()?, args.u32()?)),
            _ => Err(Garbage),
        }
    }

    fn spec(self) -> Result<Timespec, Status> {
        match self {
            Self::Keep => Ok(Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }),
            Self::Now => Ok(Timespec { tv_sec: 0, tv_nsec: UTIME_NOW }),
            Self::At(_, nanos) if nanos >= 1_000_000_000 => Err(Status::INVAL),
            Self::At(seconds, nanos) => Ok(Timespec { tv_sec: seconds.into(), tv_nsec: nanos.into() }),
        }
    }
}

/// Whether the stored change time is the one of a SETATTR's guard.
pub(crate) fn changed_at(stat: &Stat, seconds: u32, nanos: u32) -> bool {
    (stat.st_ctime as u32, stat.st_ctime_nsec as u32) == (seconds, nanos)
}

pub(crate) fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// fattr3.
pub(crate) fn put(out: &mut Writer, stat: &Stat) {
    out.u32(match file_type(stat) {
        FileType::RegularFile => 1,
        FileType::Directory => 2,
        FileType::BlockDevice => 3,
        FileType::CharacterDevice => 4,
        FileType::Symlink => 5,
        FileType::Socket => 6,
        _ => 7,
    });
    out.words(&[stat.st_mode & 0o7777, stat.st_nlink as u32, stat.st_uid, stat.st_gid]);
    out.u64(stat.st_size as u64);
    out.u64(stat.st_blocks as u64 * 512);
    out.u64(0); // device numbers: nodes of devices are shown, never served
    out.u64(stat.st_dev);
    out.u64(stat.st_ino);
    put_time(out, stat.st_atime, stat.st_atime_nsec);
    put_time(out, stat.st_mtime, stat.st_mtime_nsec);
    put_time(out, stat.st_ctime, stat.st_ctime_nsec);
}

fn put_time(out: &mut Writer, seconds: i64, nanos: u64) {
    out.u32(seconds as u32);
    out.u32(nanos as u32);
}

/// post_op_attr.
pub(crate) fn put_post(out: &mut Writer, stat: Option<&Stat>) {
    out.flag(stat.is_some());
    if let Some(stat) = stat {
        put(out, stat);
    }
}

/// wcc_data: size and times before, everything after.
pub(crate) fn put_change(out: &mut Writer, before: Option<&Stat>, after: Option<&Stat>) {
    out.flag(before.is_some());
    if let Some(stat) = before {
        out.u64(stat.st_size as u64);
        put_time(out, stat.st_mtime, stat.st_mtime_nsec);
        put_time(out, stat.st_ctime, stat.st_ctime_nsec);
    }
    put_post(out, after);
}
