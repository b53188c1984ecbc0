//! NFS 3 status codes (RFC 1813, section 2.6), and what errors of the system become.

use rustix::io::Errno;

/// An nfsstat3 other than NFS3_OK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status(pub(crate) u32);

impl Status {
    pub(crate) const ACCES: Self = Self(13);
    pub(crate) const EXIST: Self = Self(17);
    pub(crate) const NOTDIR: Self = Self(20);
    pub(crate) const ISDIR: Self = Self(21);
    pub(crate) const INVAL: Self = Self(22);
    pub(crate) const FBIG: Self = Self(27);
    pub(crate) const NAMETOOLONG: Self = Self(63);
    pub(crate) const STALE: Self = Self(70);
    pub(crate) const BADHANDLE: Self = Self(10001);
    pub(crate) const NOT_SYNC: Self = Self(10002);
    pub(crate) const NOTSUPP: Self = Self(10004);
    pub(crate) const TOOSMALL: Self = Self(10005);
}

impl From<Errno> for Status {
    fn from(errno: Errno) -> Self {
        Self(match errno {
            Errno::PERM => 1,
            Errno::NOENT => 2,
            Errno::NXIO => 6,
            Errno::ACCESS => 13,
            Errno::EXIST => 17,
            Errno::XDEV => 18,
            Errno::NODEV => 19,
            Errno::NOTDIR => 20,
            Errno::ISDIR => 21,
            Errno::INVAL => 22,
            Errno::FBIG => 27,
            Errno::NOSPC => 28,
            Errno::ROFS => 30,
            Errno::MLINK => 31,
            Errno::NAMETOOLONG => 63,
            Errno::NOTEMPTY => 66,
            Errno::DQUOT => 69,
            Errno::STALE => 70,
            Errno::OPNOTSUPP => 10004,
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => 10006,
            _ => 5,
        })
    }
}
