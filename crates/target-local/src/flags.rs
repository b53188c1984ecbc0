//! Opening a file: flags, the rules for links, and errors that say what to do next.

use crate::sys;
use naslab_core::{Access, Create, Error, ErrorKind, OpenOptions, Result, SyncMode};
use std::ffi::CString;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Permissions of new files, before the umask.
const MODE: libc::c_uint = 0o640;

/// Refuses options that contradict each other.
fn check(options: &OpenOptions) -> Result<()> {
    let refuse = |kind: ErrorKind, message: &str| Err(Error::new(kind, "open", message.to_string()));
    if !options.read && !options.write {
        return refuse(ErrorKind::Invalid, "neither read nor write was asked for");
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

/// Opens `full`, which was given as `path`. `fs_type` is only for messages.
pub(crate) fn open_fd(full: &Path, path: &str, options: &OpenOptions, fs_type: &str) -> Result<OwnedFd> {
    check(options).map_err(|err| err.with("path", path))?;
    let name = CString::new(full.as_os_str().as_bytes())
        .map_err(|_| Error::new(ErrorKind::Invalid, "open", "a path cannot contain a zero byte"))?;
    let flags = open_flags(options);
    // A refused O_DIRECT can leave the file behind that O_CREAT made just before.
    let made_here = options.direct && options.create != Create::Never && full.symlink_metadata().is_err();
    // SAFETY: `name` is a terminated string that outlives the call.
    match sys::retry(|| unsafe { libc::open(name.as_ptr(), flags, MODE) }) {
        // SAFETY: the descriptor was just made and nobody else has it.
        Ok(fd) => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        Err(err) => {
            if made_here && is_refusal(&err) {
                let _ = std::fs::remove_file(full);
            }
            Err(explain(err, options, fs_type).with("path", path))
        }
    }
}

fn is_refusal(err: &std::io::Error) -> bool {
    matches!(err.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP))
}

/// Turns errno of `open` into an error with the next step.
fn explain(err: std::io::Error, options: &OpenOptions, fs_type: &str) -> Error {
    let refused = options.direct && is_refusal(&err);
    let link = err.raw_os_error() == Some(libc::ELOOP);
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
