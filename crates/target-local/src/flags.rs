//! Opening a file: flags, the rules for links, and errors that say what to do next.

use crate::paths::Place;
use crate::{beneath, sys};
use naslab_core::{Access, Create, Error, ErrorKind, OpenOptions, Result, SyncMode};
use rustix::fs::{AtFlags, Mode, OFlags};
use std::os::fd::{AsRawFd, OwnedFd};

/// Permissions of new files, before the umask.
const MODE: libc::c_uint = 0o640;

/// Refuses options that contradict each other.
fn check(options: &OpenOptions) -> Result<()> {
    let refuse = |kind: ErrorKind, message: &str| Err(Error::new(kind, "open", message.to_string()));
    if !options.read && !options.write {
        return refuse(ErrorKind::Invalid, "neither read nor write was requested");
    }
    if options.truncate && !options.write {
        return refuse(ErrorKind::Invalid, "truncate needs write");
    }
    if options.direct && options.access == Access::Mmap {
        let message = "a memory map always goes through the page cache: drop direct or mmap";
        return refuse(ErrorKind::Unsupported, message);
    }
    if options.direct && sys::O_DIRECT == 0 {
        return refuse(ErrorKind::Unsupported, "this system has no O_DIRECT");
    }
    Ok(())
}

/// The flags of `open(2)` for these options.
///
/// Streams and memory maps that write also need to read, as `r+`, `w+` and shared maps do.
pub(crate) fn open_flags(options: &OpenOptions) -> libc::c_int {
    let both = matches!(options.access, Access::Stdio | Access::Mmap);
    let mut flags = match (options.read || both, options.write) {
        (true, true) => libc::O_RDWR,
        (false, true) => libc::O_WRONLY,
        _ => libc::O_RDONLY,
    };
    flags |= libc::O_CLOEXEC;
    flags |= match options.create {
        Create::Never => 0,
        Create::IfMissing => libc::O_CREAT | libc::O_NOFOLLOW,
        Create::New => libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW,
    };
    if options.truncate {
        flags |= libc::O_TRUNC | libc::O_NOFOLLOW;
    }
    if options.direct {
        flags |= sys::O_DIRECT;
    }
    flags
        | match options.sync {
            SyncMode::None => 0,
            SyncMode::Data => libc::O_DSYNC,
            SyncMode::All => libc::O_SYNC,
            SyncMode::ReadsToo => libc::O_SYNC | sys::O_RSYNC,
        }
}

/// Opens `place`, which was given as `path`. `fs_type` is only for messages.
///
/// A pipe that lies there does not hold the call up. In a run's folder the file is cut only after it was seen to be
/// one that naslab can have made.
pub(crate) fn open_fd(place: &Place, path: &str, options: &OpenOptions, fs_type: &str) -> Result<OwnedFd> {
    check(options).map_err(|err| err.with("path", path))?;
    let fresh = options.create == Create::New;
    let cut_after = options.truncate && place.in_run() && !fresh;
    let mut flags = open_flags(options);
    flags |= if place.in_run() { libc::O_NOFOLLOW } else { 0 };
    flags |= if fresh { 0 } else { libc::O_NONBLOCK };
    flags &= if cut_after { !libc::O_TRUNC } else { !0 };
    let named = |err: Error| err.with("path", path);
    let fd = open_at(place, flags, options).map_err(|err| named(explain(err, options, place.in_run(), fs_type)))?;
    let len_bytes = match fresh {
        true => 0,
        false => beneath::check_opened(&fd, options.write, place.in_run()).map_err(named)?,
    };
    if cut_after && len_bytes > 0 {
        sys::truncate_fd(fd.as_raw_fd(), 0).map_err(|err| named(Error::from_io("open", err)))?;
    }
    Ok(fd)
}

fn open_at(place: &Place, flags: libc::c_int, options: &OpenOptions) -> std::io::Result<OwnedFd> {
    let no_follow = AtFlags::SYMLINK_NOFOLLOW;
    // A refused O_DIRECT can leave the file behind that O_CREAT made just before.
    let may_make = options.direct && options.create != Create::Never;
    let made_here = may_make && rustix::fs::statat(place.folder(), &place.name, no_follow).is_err();
    let mode = if options.create == Create::Never { 0 } else { MODE };
    let flags = OFlags::from_bits_retain(flags as _);
    match retry(|| beneath::open(place, flags, Mode::from_raw_mode(mode as _))) {
        Ok(fd) => Ok(fd),
        Err(err) => {
            if made_here && is_refusal(&err) {
                let _ = rustix::fs::unlinkat(place.folder(), &place.name, AtFlags::empty());
            }
            Err(err)
        }
    }
}

/// Repeats a call that a signal interrupted.
fn retry<T>(mut call: impl FnMut() -> std::io::Result<T>) -> std::io::Result<T> {
    loop {
        match call() {
            Err(err) if err.kind() == std::io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

fn is_refusal(err: &std::io::Error) -> bool {
    matches!(err.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP))
}

/// Turns errno of `open` into an error with the next step.
fn explain(err: std::io::Error, options: &OpenOptions, in_run: bool, fs_type: &str) -> Error {
    if in_run && matches!(err.raw_os_error(), Some(libc::ELOOP | libc::EXDEV)) {
        return beneath::explain("open", err);
    }
    let pipe = err.raw_os_error() == Some(libc::ENXIO);
    let refused = options.direct && is_refusal(&err);
    let link = err.raw_os_error() == Some(libc::ELOOP);
    if pipe {
        return beneath::special("open"); // a pipe nobody reads, or a socket
    }
    let mut error = Error::from_io("open", err);
    if refused {
        error.kind = ErrorKind::Unsupported;
        error.message = format!(
            "the file system ({fs_type}) refuses O_DIRECT: leave out direct, or test a folder on \
             ext4, xfs, btrfs or a network mount"
        );
    } else if link {
        error.kind = ErrorKind::Invalid;
        error.message = "the path is a symbolic link, and files are never created or cut through \
                         one: remove it or name another path"
            .to_string();
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(change: impl FnOnce(&mut OpenOptions)) -> libc::c_int {
        let mut options = OpenOptions { write: true, ..OpenOptions::default() };
        change(&mut options);
        open_flags(&options)
    }

    #[test]
    fn access_modes() {
        let mode = |f: libc::c_int| f & libc::O_ACCMODE;
        assert_eq!(mode(flags(|_| ())), libc::O_WRONLY);
        assert_eq!(mode(flags(|o| o.read = true)), libc::O_RDWR);
        assert_eq!(mode(flags(|o| o.access = Access::Mmap)), libc::O_RDWR);
        let read_only = flags(|o| (o.read, o.write) = (true, false));
        assert_eq!(mode(read_only), libc::O_RDONLY);
    }

    #[test]
    fn creating_never_follows_a_link() {
        assert_eq!(flags(|_| ()) & libc::O_NOFOLLOW, 0);
        assert_ne!(flags(|o| o.create = Create::New) & libc::O_NOFOLLOW, 0);
        assert_ne!(flags(|o| o.create = Create::New) & libc::O_EXCL, 0);
        assert_ne!(flags(|o| o.truncate = true) & libc::O_NOFOLLOW, 0);
    }

    #[test]
    fn contradictions_are_refused() {
        let direct_map = OpenOptions { read: true, direct: true, access: Access::Mmap, ..OpenOptions::default() };
        assert_eq!(check(&direct_map).unwrap_err().kind, ErrorKind::Unsupported);
        assert!(check(&OpenOptions::default()).is_err());
    }
}
