//! Room left: the file system's, and the quota's where one can be asked.

use naslab_core::{Error, Result, Space};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Room for this identity in the file system of `folder`.
///
/// `statvfs` (`f_bavail`: without what is kept for root), lowered to what a hard user or group quota
/// leaves. Quotas are asked through `quotactl_fd` (Linux 5.14); where that does not answer, and for
/// quotas of a file server behind a mount, the file system's number stands alone.
pub(crate) fn space(folder: &Path) -> Result<Space> {
    let fail = |err| Error::from_io("space", err);
    let name = CString::new(folder.as_os_str().as_bytes())
        .map_err(|_| fail(std::io::Error::from_raw_os_error(libc::EINVAL)))?;
    // SAFETY: statvfs is plain integers; zero is valid.
    let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: a terminated path and a valid struct that live through the call.
    crate::sys::retry(|| unsafe { libc::statvfs(name.as_ptr(), &mut stat) }).map_err(fail)?;
    let unit = stat.f_frsize as u64;
    let free_bytes = (stat.f_bavail as u64).saturating_mul(unit);
    Ok(Space {
        free_bytes: quota_left(folder).map_or(free_bytes, |left| left.min(free_bytes)),
        total_bytes: (stat.f_blocks as u64).saturating_mul(unit),
    })
}

/// Bytes the tightest hard quota leaves; `None` without quotas. Root is not held to any.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn quota_left(folder: &Path) -> Option<u64> {
    // SAFETY: these take no memory and cannot fail.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    if user == 0 {
        return None;
    }
    let folder = std::fs::File::open(folder).ok()?;
    let asked = [(libc::USRQUOTA, user), (libc::GRPQUOTA, group)];
    asked.into_iter().filter_map(|(kind, id)| one_quota(&folder, kind, id)).min()
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn one_quota(folder: &std::fs::File, kind: libc::c_int, id: u32) -> Option<u64> {
    use std::os::fd::AsRawFd;
    /// Unit of the limits in `dqblk`, in bytes.
    const BLOCK_BYTES: u64 = 1024;
    // SAFETY: dqblk is plain integers; zero is valid.
    let mut quota: libc::dqblk = unsafe { std::mem::zeroed() };
    let command = libc::QCMD(libc::Q_GETQUOTA, kind);
    // SAFETY: the struct has the kernel's layout and lives through the call.
    let code = unsafe {
        libc::syscall(libc::SYS_quotactl_fd, folder.as_raw_fd(), command, id, &mut quota as *mut libc::dqblk)
    };
    if code != 0 || quota.dqb_valid & libc::QIF_BLIMITS == 0 || quota.dqb_bhardlimit == 0 {
        return None;
    }
    let limit = quota.dqb_bhardlimit.saturating_mul(BLOCK_BYTES);
    Some(limit.saturating_sub(quota.dqb_curspace))
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn quota_left(_folder: &Path) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_is_at_most_total() {
        let room = space(&std::env::temp_dir()).unwrap();
        assert!(room.total_bytes > 0);
        assert!(room.free_bytes <= room.total_bytes);
        assert!(space(Path::new("/no/such")).is_err());
    }
}
