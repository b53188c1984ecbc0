//! What unbuffered I/O asks for: alignment of offsets, lengths and memory.

use crate::mounts::{self, Mount};
use naslab_core::Alignment;
use std::path::Path;

/// What is taken when the system does not say.
const FALLBACK: Alignment = Alignment { offset_bytes: 4096, memory_bytes: 4096 };

/// What is known of O_DIRECT in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direct {
    /// The system states the alignment.
    Known(Alignment),
    /// The system does not say; opening will tell.
    Unknown,
    /// The file system refuses it.
    Refused,
}

/// Alignment that O_DIRECT asks for on the file system of `path`, a folder or a file.
///
/// From `statx` (STATX_DIOALIGN, Linux 6.1), asked of an unnamed temporary file when `path` is a
/// folder, for folders have no such value; else 1 on NFS and SMB mounts, which align nothing; else the
/// disk's logical block size; else 4096.
pub fn direct_alignment(path: &Path) -> Alignment {
    alignment(path, probe(path), mounts::mount_of(path).as_ref())
}

/// The alignment when the probe's answer and the mount are known already.
pub(crate) fn alignment(path: &Path, probed: Direct, mount: Option<&Mount>) -> Alignment {
    match probed {
        Direct::Known(alignment) => alignment,
        Direct::Unknown if mount.is_some_and(Mount::is_network) => Alignment { offset_bytes: 1, memory_bytes: 1 },
        _ => logical_block(path).unwrap_or(FALLBACK),
    }
}

#[cfg(target_os = "linux")]
pub(crate) fn probe(path: &Path) -> Direct {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    if !path.is_dir() {
        let file = options.read(true).open(path);
        return file.map_or(Direct::Unknown, |file| ask(&file));
    }
    options.read(true).write(true).mode(0o600);
    let file = match options.custom_flags(libc::O_TMPFILE).open(path) {
        Ok(file) => file,
        Err(_) => return Direct::Unknown,
    };
    match ask(&file) {
        Direct::Unknown => {}
        known => return known,
    }
    match options.custom_flags(libc::O_TMPFILE | libc::O_DIRECT).open(path) {
        Err(err) if err.raw_os_error() == Some(libc::EINVAL) => Direct::Refused,
        _ => Direct::Unknown,
    }
}

/// Asks `statx` of an open file.
#[cfg(target_os = "linux")]
fn ask(file: &std::fs::File) -> Direct {
    use std::os::fd::AsRawFd;
    const STATX_DIOALIGN: libc::c_uint = 0x2000;
    // SAFETY: statx is plain integers; zero is valid.
    let mut stat: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: an empty terminated path and a valid struct that live through the call.
    let code = unsafe { libc::statx(file.as_raw_fd(), c"".as_ptr(), libc::AT_EMPTY_PATH, STATX_DIOALIGN, &mut stat) };
    if code != 0 || stat.stx_mask & STATX_DIOALIGN == 0 {
        return Direct::Unknown;
    }
    match (stat.stx_dio_offset_align, stat.stx_dio_mem_align) {
        (0, _) => Direct::Refused,
        (offset_bytes, memory) => Direct::Known(Alignment { offset_bytes, memory_bytes: memory.max(1) }),
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn probe(_path: &Path) -> Direct {
    Direct::Refused
}

/// The logical block size of the disk that holds `path`, from sysfs (what BLKSSZGET returns, but
/// readable without opening the disk).
fn logical_block(path: &Path) -> Option<Alignment> {
    use std::os::unix::fs::MetadataExt;
    let dev = path.metadata().ok()?.dev();
    let disk = format!("/sys/dev/block/{}:{}", libc::major(dev as _), libc::minor(dev as _));
    // A partition has its queue one level up.
    let size = ["queue", "../queue"].iter().find_map(|queue| {
        let file = format!("{disk}/{queue}/logical_block_size");
        std::fs::read_to_string(file).ok()
    })?;
    let bytes: u32 = size.trim().parse().ok()?;
    bytes.is_power_of_two().then_some(Alignment { offset_bytes: bytes, memory_bytes: bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alignments_are_powers_of_two() {
        for path in ["/", "/proc", "/no/such", "/dev/shm"] {
            let got = direct_alignment(Path::new(path));
            assert!(got.offset_bytes.is_power_of_two(), "{path} {got:?}");
            assert!(got.memory_bytes.is_power_of_two(), "{path} {got:?}");
        }
    }
}
