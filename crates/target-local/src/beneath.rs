//! Inside a run's folder: places are reached through descriptors, no link is followed, no mount is crossed, and
//! the folder must be the one that was held.
//!
//! Others may write to a shared folder while naslab works in it. A path that is looked up name by name can be led
//! elsewhere by whoever swaps a folder for a link in between; a descriptor cannot.

use crate::paths::Place;
use crate::sys;
use naslab_core::{Error, ErrorKind, Result};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::path::Arg;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A folder opened only to go on from it.
#[cfg(target_os = "linux")]
const STEP: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const STEP: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Which folder it is, across renames and, where it has a time of birth, across the reuse of inode numbers.
#[derive(Clone, Copy, Debug)]
struct Identity {
    device: u64,
    inode: u64,
    born_ns: Option<i128>,
    /// Device of the target's root: it changes when the file system is mounted anew.
    root_device: u64,
}

impl Identity {
    fn of(root: &OwnedFd, folder: &OwnedFd) -> io::Result<Identity> {
        let stat = rustix::fs::fstat(folder)?;
        let root_device = rustix::fs::fstat(root)?.st_dev as u64;
        Ok(Identity { device: stat.st_dev as u64, inode: stat.st_ino as u64, born_ns: born_ns(folder), root_device })
    }

    fn is(&self, now: &Identity) -> bool {
        let same_device = match now.root_device == self.root_device {
            true => now.device == self.device,
            false => now.device == now.root_device,
        };
        let same_birth = self.born_ns.is_none() || now.born_ns.is_none() || self.born_ns == now.born_ns;
        same_device && same_birth && now.inode == self.inode
    }
}

/// When a file or folder was created, where the file system says.
#[cfg(target_os = "linux")]
pub(crate) fn born_ns(folder: &OwnedFd) -> Option<i128> {
    use rustix::fs::{statx, StatxFlags};
    let found = statx(folder, c"", AtFlags::EMPTY_PATH, StatxFlags::BTIME).ok()?;
    let known = found.stx_mask & StatxFlags::BTIME.bits() != 0;
    known.then(|| i128::from(found.stx_btime.tv_sec) * 1_000_000_000 + i128::from(found.stx_btime.tv_nsec))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn born_ns(_folder: &OwnedFd) -> Option<i128> {
    None
}

/// The folders that are held, shared by all sessions of a target. Their identities are kept, not descriptors: an
/// open folder would keep its file system from being unmounted between cells.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    known: Arc<Mutex<HashMap<String, Identity>>>,
    /// How often a folder may have come to lie elsewhere, or nowhere, by naslab's own doing.
    moves: Arc<AtomicU64>,
}

impl Held {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Identity>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds the folder `name` of `root` as it is now; one that is held already must be the same.
    pub(crate) fn hold(&self, root: &Path, name: &str) -> Result<()> {
        let fail = |err| explain("hold the folder", err);
        let root = open_root(root).map_err(fail)?;
        let folder = walk(&root, &[name]).map_err(fail)?;
        let now = Identity::of(&root, &folder).map_err(fail)?;
        let before = *self.lock().entry(name.to_string()).or_insert(now);
        match before.is(&now) {
            true => Ok(()),
            false => Err(replaced("hold the folder", &before, &now)),
        }
    }

    /// The folder was removed.
    pub(crate) fn forget(&self, name: &str) {
        self.lock().remove(name);
        self.moved();
    }

    /// Something was renamed: what was reached before may lie elsewhere now.
    pub(crate) fn moved(&self) {
        self.moves.fetch_add(1, Ordering::Relaxed);
    }

    /// The folder that holds the last of `names`, the first of which is a run's folder: the one that is held, if
    /// any is.
    pub(crate) fn parent(&self, operation: &'static str, root: &Path, names: &[&str]) -> Result<OwnedFd> {
        let fail = |err| explain(operation, err);
        let root = open_root(root).map_err(fail)?;
        let Some((folder, rest)) = names.split_first() else { return Ok(root) };
        let held = self.lock().get(*folder).copied();
        let Some(before) = held else {
            return walk(&root, &names[..names.len() - 1]).map_err(fail);
        };
        let entered = walk(&root, &[folder]).map_err(fail)?;
        let now = Identity::of(&root, &entered).map_err(fail)?;
        if !before.is(&now) {
            return Err(replaced(operation, &before, &now));
        }
        match rest.split_last() {
            None => Ok(root),
            Some((_, between)) => walk(&entered, between).map_err(fail),
        }
    }
}

/// Folders that a session works in again and again, open: an operation on a file is one call, as any program's is.
/// What is open stays the same folder, whoever swaps the names on the way to it; for [`Recent::TRUSTED`], so that a
/// run whose folder is moved away or removed by others fails instead of measuring where nobody looks.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    open: Mutex<Reached>,
}

#[derive(Debug, Default)]
struct Reached {
    /// The count of moves then.
    moves: u64,
    /// When the oldest of them was reached.
    since: Option<Instant>,
    /// Parents by name, the latest last.
    parents: Vec<(String, Arc<OwnedFd>)>,
}

impl Recent {
    /// A copy from folder to folder needs two; more are for jobs of several streams.
    const MOST: usize = 8;
    /// How long a folder is taken to lie where it was found.
    const TRUSTED: Duration = Duration::from_millis(100);

    /// As [`Held::parent`], by an open folder where there is one.
    pub(crate) fn parent(
        &self,
        held: &Held,
        operation: &'static str,
        root: &Path,
        names: &[&str],
    ) -> Result<Arc<OwnedFd>> {
        let Some((_, parents)) = names.split_last().filter(|(_, parents)| !parents.is_empty()) else {
            return held.parent(operation, root, names).map(Arc::new);
        };
        let now = held.moves.load(Ordering::Relaxed);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.moves != now || open.since.is_none_or(|since| since.elapsed() > Self::TRUSTED) {
            *open = Reached { moves: now, since: Some(Instant::now()), parents: Vec::new() };
        }
        let same = |path: &str| path.split('/').eq(parents.iter().copied());
        let found = match open.parents.iter().position(|(path, _)| same(path)) {
            Some(at) => open.parents.remove(at),
            None => (parents.join("/"), Arc::new(held.parent(operation, root, names)?)),
        };
        if open.parents.len() == Self::MOST {
            open.parents.remove(0);
        }
        let folder = Arc::clone(&found.1);
        open.parents.push(found);
        Ok(folder)
    }
}

fn replaced(operation: &'static str, before: &Identity, now: &Identity) -> Error {
    let message = "the run's folder is another one than before: somebody replaced it, and nothing in it is touched; \
                   look for the folder that was moved away";
    Error::new(ErrorKind::Invalid, operation, message).with("inode", now.inode).with("inode_before", before.inode)
}

/// The target's root, by its path.
pub(crate) fn open_root(root: &Path) -> io::Result<OwnedFd> {
    let flags = STEP.difference(OFlags::NOFOLLOW);
    Ok(rustix::fs::open(root, flags, Mode::empty())?)
}

/// The folder that `names` lead to from `from`; a link or another mount on the way is an error.
fn walk(from: &OwnedFd, names: &[&str]) -> io::Result<OwnedFd> {
    if names.is_empty() {
        return from.try_clone();
    }
    match open_at(from, names.join("/"), STEP, Mode::empty()) {
        Some(opened) => opened,
        None => walk_by_steps(from, names),
    }
}

/// As `walk`, with one call for each name, for systems without `openat2`.
fn walk_by_steps(from: &OwnedFd, names: &[&str]) -> io::Result<OwnedFd> {
    let device = rustix::fs::fstat(from)?.st_dev;
    let mut at = from.try_clone()?;
    for name in names {
        at = step(&at, name)?;
        if rustix::fs::fstat(&at)?.st_dev != device {
            return Err(io::Error::from_raw_os_error(libc::EXDEV));
        }
    }
    Ok(at)
}

fn step(at: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    match rustix::fs::openat(at, name, STEP, Mode::empty()) {
        Ok(folder) => Ok(folder),
        // With O_DIRECTORY a link is no folder; say that it is a link.
        Err(rustix::io::Errno::NOTDIR) => {
            let stat = rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW)?;
            let link = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_symlink();
            Err(io::Error::from_raw_os_error(if link { libc::ELOOP } else { libc::ENOTDIR }))
        }
        Err(err) => Err(err.into()),
    }
}

/// Opens `path` below `from` in one call; `None` where the system has no `openat2`.
#[cfg(target_os = "linux")]
fn open_at(from: impl AsFd, path: impl Arg, flags: OFlags, mode: Mode) -> Option<io::Result<OwnedFd>> {
    use rustix::fs::ResolveFlags;
    use std::sync::atomic::{AtomicBool, Ordering};
    static MISSING: AtomicBool = AtomicBool::new(false);
    if MISSING.load(Ordering::Relaxed) {
        return None;
    }
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    // Without NOFOLLOW, which is implied, a link at the end is told as what it is.
    match rustix::fs::openat2(&from, path, flags.difference(OFlags::NOFOLLOW), mode, resolve) {
        // Old kernels do not know the call, and some containers' filters refuse what they do not know.
        Err(rustix::io::Errno::NOSYS) => {
            MISSING.store(true, Ordering::Relaxed);
            None
        }
        Err(rustix::io::Errno::PERM) if is_refused(&from) => {
            MISSING.store(true, Ordering::Relaxed);
            None
        }
        outcome => Some(outcome.map_err(io::Error::from)),
    }
}

#[cfg(not(target_os = "linux"))]
fn open_at(_from: impl AsFd, _path: impl Arg, _flags: OFlags, _mode: Mode) -> Option<io::Result<OwnedFd>> {
    None
}

/// Whether the system refuses the call itself: it does not even open a folder's own `.`.
#[cfg(target_os = "linux")]
fn is_refused(from: impl AsFd) -> bool {
    let opened = rustix::fs::openat2(from, ".", STEP, Mode::empty(), rustix::fs::ResolveFlags::empty());
    matches!(opened, Err(rustix::io::Errno::PERM))
}

/// Errno of a call inside a run's folder as an error that says what happened.
pub(crate) fn explain(operation: &'static str, err: io::Error) -> Error {
    let message = match err.raw_os_error() {
        Some(libc::ELOOP) => {
            "a part of the path is a symbolic link, and naslab follows none inside its own folder: somebody put it \
             there; nothing was touched"
        }
        Some(libc::EXDEV) => {
            "another file system is mounted inside the run's folder, which naslab does not enter: unmount it first"
        }
        _ => return Error::from_io(operation, err),
    };
    let mut error = Error::from_io(operation, err);
    error.kind = ErrorKind::Invalid;
    error.message = message.to_string();
    error
}

/// Refuses what cannot be a data file: pipes, sockets, devices that would be written to, and inside a run's folder
/// whatever naslab did not make itself.
///
/// Returns the file's length in bytes.
pub(crate) fn check_opened(fd: &OwnedFd, write: bool, in_run: bool) -> Result<u64> {
    use rustix::fs::FileType;
    let stat = rustix::fs::fstat(fd).map_err(|err| Error::from_io("open", err.into()))?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    let device = kind.is_block_device() || kind.is_char_device();
    if kind.is_fifo() || kind.is_socket() || device && (write || in_run) {
        return Err(special("open"));
    }
    if in_run && write && kind.is_file() && stat.st_nlink > 1 {
        let message = "the file has another name elsewhere (a hard link), so it is not one that naslab made: it is \
                       not written to";
        return Err(Error::new(ErrorKind::Invalid, "open", message));
    }
    sys::set_blocking(fd).map_err(|err| Error::from_io("open", err))?;
    Ok(stat.st_size as u64)
}

/// Devices are never written to, and nothing but files is removed, whatever a command line says.
pub(crate) fn special(operation: &'static str) -> Error {
    let message = "this is a device, a pipe or a socket, and naslab writes to files only: name a file";
    Error::new(ErrorKind::Permission, operation, message)
}

/// A folder, to be listed.
pub(crate) fn open_folder(place: &Place) -> io::Result<OwnedFd> {
    open(place, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Opens a place; one in a run's folder must be no link and on no other mount.
pub(crate) fn open(place: &Place, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    if place.in_run() {
        let flags = flags | OFlags::NOFOLLOW;
        return match open_at(place.folder(), &place.name, flags, mode) {
            Some(opened) => opened,
            None => Ok(rustix::fs::openat(place.folder(), &place.name, flags, mode)?),
        };
    }
    Ok(rustix::fs::openat(place.folder(), &place.name, flags, mode)?)
}

/// A folder's entries, and whether each is a folder; links are none. Names that are not UTF-8 come with
/// replacement characters.
pub(crate) fn entries(folder: OwnedFd) -> io::Result<Vec<(String, bool)>> {
    use rustix::fs::{Dir, FileType};
    let mut found = Vec::new();
    let mut listing = Dir::new(folder)?;
    while let Some(entry) = listing.read() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => rustix::fs::statat(listing.fd()?, name, AtFlags::SYMLINK_NOFOLLOW)
                .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
            known => known,
        };
        found.push((name.to_string_lossy().into_owned(), kind.is_dir()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn tree() -> (tempfile::TempDir, OwnedFd) {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("naslab-r/a/b")).unwrap();
        std::fs::create_dir(root.path().join("elsewhere")).unwrap();
        std::fs::create_dir(root.path().join("elsewhere/b")).unwrap();
        symlink("../elsewhere", root.path().join("naslab-r/link")).unwrap();
        std::fs::write(root.path().join("naslab-r/file"), "x").unwrap();
        let fd = open_root(root.path()).unwrap();
        (root, fd)
    }

    fn status<T>(outcome: io::Result<T>) -> Option<i32> {
        outcome.err().and_then(|err| err.raw_os_error())
    }

    #[test]
    fn both_ways_of_walking_follow_no_link_and_agree() {
        let (_root, fd) = tree();
        for way in [walk, walk_by_steps] {
            let found = way(&fd, &["naslab-r", "a", "b"]).unwrap();
            let own = rustix::fs::fstat(walk(&fd, &["naslab-r", "a", "b"]).unwrap()).unwrap();
            assert_eq!(rustix::fs::fstat(found).unwrap().st_ino, own.st_ino);
            assert_eq!(status(way(&fd, &["naslab-r", "link"])), Some(libc::ELOOP));
            assert_eq!(status(way(&fd, &["naslab-r", "link", "b"])), Some(libc::ELOOP));
            assert_eq!(status(way(&fd, &["naslab-r", "file"])), Some(libc::ENOTDIR));
            assert_eq!(status(way(&fd, &["naslab-r", "none"])), Some(libc::ENOENT));
        }
    }

    #[test]
    fn no_mount_is_crossed() {
        let fd = open_root(Path::new("/")).unwrap();
        for way in [walk, walk_by_steps] {
            assert_eq!(status(way(&fd, &["proc", "self"])), Some(libc::EXDEV));
        }
    }

    #[test]
    fn a_held_folder_that_was_swapped_is_noticed() {
        let (root, _fd) = tree();
        let held = Held::default();
        held.hold(root.path(), "naslab-r").unwrap();
        held.parent("remove", root.path(), &["naslab-r", "a", "x"]).unwrap();
        std::fs::rename(root.path().join("naslab-r"), root.path().join("away")).unwrap();
        std::fs::create_dir_all(root.path().join("naslab-r/a")).unwrap();
        let error = held.parent("remove", root.path(), &["naslab-r", "a", "x"]).unwrap_err();
        assert!(error.message.contains("somebody replaced it"), "{error}");
        assert!(held.hold(root.path(), "naslab-r").is_err(), "it stays held");
        held.forget("naslab-r");
        held.hold(root.path(), "naslab-r").unwrap();
    }

    #[test]
    fn an_open_folder_stays_the_same_whoever_swaps_its_name() {
        let (root, _fd) = tree();
        let (held, recent) = (Held::default(), Recent::default());
        held.hold(root.path(), "naslab-r").unwrap();
        let inode = |names: &[&str]| {
            let folder = recent.parent(&held, "remove", root.path(), names).unwrap();
            rustix::fs::fstat(&*folder).unwrap().st_ino
        };
        let before = inode(&["naslab-r", "a", "x"]);
        found(&recent, Some(Instant::now() + Duration::from_secs(3600)));
        std::fs::rename(root.path().join("naslab-r/a"), root.path().join("away")).unwrap();
        symlink("../elsewhere", root.path().join("naslab-r/a")).unwrap();
        assert_eq!(inode(&["naslab-r", "a", "y"]), before);
        // What naslab itself moves is looked up anew, and the link is seen.
        held.moved();
        assert!(recent.parent(&held, "remove", root.path(), &["naslab-r", "a", "x"]).is_err());
    }

    #[test]
    fn a_folder_that_was_moved_away_is_missed_before_long() {
        let (root, _fd) = tree();
        let (held, recent) = (Held::default(), Recent::default());
        held.hold(root.path(), "naslab-r").unwrap();
        recent.parent(&held, "open", root.path(), &["naslab-r", "x"]).unwrap();
        std::fs::rename(root.path().join("naslab-r"), root.path().join("away")).unwrap();
        found(&recent, Instant::now().checked_sub(2 * Recent::TRUSTED));
        let error = recent.parent(&held, "open", root.path(), &["naslab-r", "x"]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
    }

    /// As if the folders had been found then.
    fn found(recent: &Recent, since: Option<Instant>) {
        recent.open.lock().unwrap().since = since;
    }

    #[test]
    fn few_folders_are_kept_open() {
        let (root, _fd) = tree();
        let (held, recent) = (Held::default(), Recent::default());
        for n in 0..3 * Recent::MOST {
            let name = format!("f{n}");
            std::fs::create_dir(root.path().join("naslab-r").join(&name)).unwrap();
            recent.parent(&held, "open", root.path(), &["naslab-r", &name, "x"]).unwrap();
            found(&recent, Some(Instant::now() + Duration::from_secs(3600)));
        }
        assert_eq!(recent.open.lock().unwrap().parents.len(), Recent::MOST);
    }
}
