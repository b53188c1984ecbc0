//! Numbers of failures as POSIX systems have them: what targets report, whatever system naslab itself runs on.

use std::io;

#[cfg(unix)]
pub use libc::{
    EACCES, EADDRINUSE, EADDRNOTAVAIL, EAGAIN, EBADF, EBUSY, ECONNABORTED, ECONNREFUSED, ECONNRESET, EDEADLK, EDQUOT,
    EEXIST, EFBIG, EHOSTDOWN, EHOSTUNREACH, EINTR, EINVAL, EIO, EISDIR, EMFILE, ENAMETOOLONG, ENETUNREACH, ENFILE,
    ENOBUFS, ENODEV, ENOENT, ENOSPC, ENOSYS, ENOTCONN, ENOTDIR, ENOTEMPTY, ENOTSUP, ENXIO, EPERM, EPIPE, EPROTO, EROFS,
    ESTALE, ETIMEDOUT,
};

#[cfg(not(unix))]
pub use linux::*;

/// Linux's numbers, for systems that have none of their own.
#[cfg(not(unix))]
#[allow(missing_docs)] // their names are those of errno(3)
mod linux {
    pub const EPERM: i32 = 1;
    pub const ENOENT: i32 = 2;
    pub const EINTR: i32 = 4;
    pub const EIO: i32 = 5;
    pub const ENXIO: i32 = 6;
    pub const EBADF: i32 = 9;
    pub const EAGAIN: i32 = 11;
    pub const EACCES: i32 = 13;
    pub const EBUSY: i32 = 16;
    pub const EEXIST: i32 = 17;
    pub const ENODEV: i32 = 19;
    pub const ENOTDIR: i32 = 20;
    pub const EISDIR: i32 = 21;
    pub const EINVAL: i32 = 22;
    pub const ENFILE: i32 = 23;
    pub const EMFILE: i32 = 24;
    pub const EFBIG: i32 = 27;
    pub const ENOSPC: i32 = 28;
    pub const EROFS: i32 = 30;
    pub const EPIPE: i32 = 32;
    pub const EDEADLK: i32 = 35;
    pub const ENAMETOOLONG: i32 = 36;
    pub const ENOSYS: i32 = 38;
    pub const ENOTEMPTY: i32 = 39;
    pub const EPROTO: i32 = 71;
    pub const ENOTSUP: i32 = 95;
    pub const EADDRINUSE: i32 = 98;
    pub const EADDRNOTAVAIL: i32 = 99;
    pub const ENETUNREACH: i32 = 101;
    pub const ECONNABORTED: i32 = 103;
    pub const ECONNRESET: i32 = 104;
    pub const ENOBUFS: i32 = 105;
    pub const ENOTCONN: i32 = 107;
    pub const ETIMEDOUT: i32 = 110;
    pub const ECONNREFUSED: i32 = 111;
    pub const EHOSTDOWN: i32 = 112;
    pub const EHOSTUNREACH: i32 = 113;
    pub const ESTALE: i32 = 116;
    pub const EDQUOT: i32 = 122;
}

/// The number of an operating-system error; 0 of one that has none.
#[cfg(unix)]
pub fn of(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(0)
}

/// The number of an operating-system error; 0 of one that has none, EIO of one that POSIX does not know.
#[cfg(not(unix))]
pub fn of(error: &io::Error) -> i32 {
    use io::ErrorKind::*;
    match error.kind() {
        _ if error.raw_os_error().is_none() => 0,
        NotFound => ENOENT,
        PermissionDenied => EACCES,
        ConnectionRefused => ECONNREFUSED,
        ConnectionReset => ECONNRESET,
        ConnectionAborted => ECONNABORTED,
        HostUnreachable => EHOSTUNREACH,
        NetworkUnreachable | NetworkDown => ENETUNREACH,
        NotConnected => ENOTCONN,
        AddrInUse => EADDRINUSE,
        AddrNotAvailable => EADDRNOTAVAIL,
        BrokenPipe => EPIPE,
        AlreadyExists => EEXIST,
        WouldBlock => EAGAIN,
        NotADirectory => ENOTDIR,
        IsADirectory => EISDIR,
        DirectoryNotEmpty => ENOTEMPTY,
        ReadOnlyFilesystem => EROFS,
        InvalidInput => EINVAL,
        TimedOut => ETIMEDOUT,
        StorageFull => ENOSPC,
        QuotaExceeded => EDQUOT,
        FileTooLarge => EFBIG,
        ResourceBusy => EBUSY,
        Deadlock => EDEADLK,
        InvalidFilename => ENAMETOOLONG,
        Interrupted => EINTR,
        Unsupported => ENOTSUP,
        _ => EIO,
    }
}

/// What the system says of a number.
pub fn text(errno: i32) -> String {
    match cfg!(unix) {
        true => io::Error::from_raw_os_error(errno).to_string(),
        false => format!("{} (error {errno})", crate::ErrorKind::from_errno(errno).name().replace('_', " ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    #[test]
    fn errors_of_the_system_have_numbers() {
        let missing = std::fs::File::open("naslab-has-no-such-file").unwrap_err();
        assert_eq!(of(&missing), ENOENT);
        // Port 1 of this machine: nobody listens.
        let refused = TcpStream::connect(("127.0.0.1", 1)).unwrap_err();
        assert_eq!(of(&refused), ECONNREFUSED);
        assert_eq!(of(&io::Error::other("ours")), 0);
        assert!(!text(ENOSPC).is_empty());
    }
}
