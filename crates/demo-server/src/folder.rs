//! The served folder: handles become descriptors, one name at a time, never through a symbolic link, so that
//! nothing outside the folder can be reached.

use crate::attributes::{file_type, Wanted};
use crate::nodes::{identity, Node, Nodes, ROOT};
use crate::status::Status;
use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags, Stat, StatVfs, CWD};
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

/// Descriptors kept open.
const MOST_OPEN: usize = 256;
/// Folder listings kept for READDIR calls that go on.
const MOST_LISTINGS: usize = 16;
const NAME_BYTES: usize = 255;

/// An open file or folder.
pub(crate) struct Open {
    pub(crate) fd: OwnedFd,
    pub(crate) is_folder: bool,
    pub(crate) writable: bool,
    /// Cleared when the file system does not know reads that never wait.
    pub(crate) can_try: AtomicBool,
}

struct Kept {
    open: Arc<Open>,
    used: u64,
}

#[derive(Default)]
struct Cache {
    kept: HashMap<u64, Kept>,
    clock: u64,
}

type Listing = Arc<Vec<(u64, Box<[u8]>)>>;

/// One served folder.
pub(crate) struct Folder {
    nodes: Mutex<Nodes>,
    cache: Mutex<Cache>,
    listings: Mutex<HashMap<u64, Listing>>,
    root: Arc<Open>,
    /// Differs at every start: in handles (older ones are stale) and as the write verifier.
    pub(crate) verifier: u64,
}

impl Folder {
    pub(crate) fn new(path: &Path) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = fs::openat(CWD, path, flags, Mode::empty())?;
        let root = identity(&fs::fstat(&fd)?);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Self {
            nodes: Mutex::new(Nodes::new(root)),
            cache: Mutex::default(),
            listings: Mutex::default(),
            root: Arc::new(Open { fd, is_folder: true, writable: false, can_try: AtomicBool::new(false) }),
            verifier: now.as_nanos() as u64 ^ u64::from(std::process::id()).rotate_left(40),
        })
    }

    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn node(&self, id: u64) -> Result<Node, Status> {
        self.nodes().get(id).cloned()
    }

    /// The file or folder, open. Symbolic links and devices are not opened: INVAL.
    pub(crate) fn open(&self, id: u64) -> Result<Arc<Open>, Status> {
        if id == ROOT {
            return Ok(Arc::clone(&self.root));
        }
        let node = self.node(id)?;
        if let Some(open) = self.cache().find(id) {
            return Ok(open);
        }
        let parent = self.folder(node.parent)?;
        let stat = self.stat_name(&parent, &node)?;
        let open = match file_type(&stat) {
            FileType::Directory => Open::folder(&parent, &node.name)?,
            FileType::RegularFile => Open::file(&parent, &node.name)?,
            _ => return Err(Status::INVAL),
        };
        if identity(&fs::fstat(&open.fd)?) != node.identity {
            return Err(Status::STALE);
        }
        let open = Arc::new(open);
        self.cache().keep(id, &open);
        if !self.nodes().contains(id) {
            self.forget(Some(id)); // it was removed meanwhile
            return Err(Status::STALE);
        }
        Ok(open)
    }

    /// The same for what must be a folder.
    pub(crate) fn folder(&self, id: u64) -> Result<Arc<Open>, Status> {
        let open = self.open(id).map_err(|status| if status == Status::INVAL { Status::NOTDIR } else { status })?;
        if open.is_folder {
            Ok(open)
        } else {
            Err(Status::NOTDIR)
        }
    }

    /// The same for what must be a file.
    pub(crate) fn file(&self, id: u64) -> Result<Arc<Open>, Status> {
        let open = self.open(id)?;
        if open.is_folder {
            Err(Status::ISDIR)
        } else {
            Ok(open)
        }
    }

    pub(crate) fn stat(&self, id: u64) -> Result<Stat, Status> {
        if id == ROOT {
            return Ok(fs::fstat(&self.root.fd)?);
        }
        if let Some(open) = self.cache().find(id) {
            if self.nodes().contains(id) {
                return Ok(fs::fstat(&open.fd)?);
            }
        }
        let node = self.node(id)?;
        self.stat_name(&*self.folder(node.parent)?, &node)
    }

    fn stat_name(&self, parent: &Open, node: &Node) -> Result<Stat, Status> {
        match fs::statat(&parent.fd, &*node.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if identity(&stat) == node.identity => Ok(stat),
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => Err(Status::STALE),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Free and total space.
    pub(crate) fn space(&self, id: u64) -> Result<StatVfs, Status> {
        let open = self.open(id).unwrap_or_else(|_| Arc::clone(&self.root));
        Ok(fs::fstatvfs(&open.fd)?)
    }

    /// What a name in a folder means.
    pub(crate) fn lookup(&self, folder: u64, name: &[u8]) -> Result<(u64, Stat), Status> {
        let parent = self.folder(folder)?;
        match name {
            b"." => return Ok((folder, self.stat(folder)?)),
            b".." => {
                let up = self.node(folder)?.parent;
                return Ok((up, self.stat(up)?));
            }
            _ => check_name(name)?,
        }
        let stat = fs::statat(&parent.fd, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((self.nodes().seen(folder, name, identity(&stat)), stat))
    }

    /// Makes a file, or opens the one that is there unless `only_new`. Answers whether it was made.
    pub(crate) fn create(&self, folder: u64, name: &[u8], mode: Mode, only_new: bool) -> Result<(u64, bool), Status> {
        let parent = self.folder(folder)?;
        check_new_name(name)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match fs::openat(&parent.fd, name, flags, mode) {
            Ok(fd) => {
                let id = self.nodes().seen(folder, name, identity(&fs::fstat(&fd)?));
                let open = Open { fd, is_folder: false, writable: true, can_try: AtomicBool::new(true) };
                self.cache().keep(id, &Arc::new(open));
                Ok((id, true))
            }
            Err(Errno::EXIST) if !only_new => {
                let (id, stat) = self.lookup(folder, name)?;
                match file_type(&stat) {
                    FileType::RegularFile => Ok((id, false)),
                    _ => Err(Status::EXIST),
                }
            }
            Err(errno) => Err(errno.into()),
        }
    }

    /// CREATE EXCLUSIVE: the same verifier finds the file it made, another one that it exists.
    pub(crate) fn create_exclusive(&self, folder: u64, name: &[u8], verifier: u64) -> Result<u64, Status> {
        match self.create(folder, name, Mode::from_raw_mode(0o600), true) {
            Ok((id, _)) => {
                self.nodes().set_verifier(id, verifier);
                Ok(id)
            }
            Err(Status::EXIST) => {
                let (id, _) = self.lookup(folder, name)?;
                let same = self.node(id)?.verifier == Some(verifier);
                same.then_some(id).ok_or(Status::EXIST)
            }
            Err(status) => Err(status),
        }
    }

    pub(crate) fn mkdir(&self, folder: u64, name: &[u8], mode: Mode) -> Result<u64, Status> {
        check_new_name(name)?;
        fs::mkdirat(&self.folder(folder)?.fd, name, mode)?;
        Ok(self.lookup(folder, name)?.0)
    }

    pub(crate) fn symlink(&self, folder: u64, name: &[u8], to: &[u8]) -> Result<u64, Status> {
        check_new_name(name)?;
        fs::symlinkat(to, &self.folder(folder)?.fd, name)?;
        Ok(self.lookup(folder, name)?.0)
    }

    pub(crate) fn readlink(&self, id: u64) -> Result<Vec<u8>, Status> {
        if id == ROOT || file_type(&self.stat(id)?) != FileType::Symlink {
            return Err(Status::INVAL);
        }
        let node = self.node(id)?;
        let target = fs::readlinkat(&self.folder(node.parent)?.fd, &*node.name, Vec::new())?;
        Ok(target.into_bytes())
    }

    /// Removes a file, or with `a_folder` an empty folder.
    pub(crate) fn remove(&self, folder: u64, name: &[u8], a_folder: bool) -> Result<(), Status> {
        check_old_name(name)?;
        let flags = if a_folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        fs::unlinkat(&self.folder(folder)?.fd, name, flags)?;
        let gone = self.nodes().removed(folder, name);
        self.forget(gone);
        Ok(())
    }

    /// Renames; what had the new name is replaced.
    pub(crate) fn rename(&self, from: (u64, &[u8]), to: (u64, &[u8])) -> Result<(), Status> {
        check_old_name(from.1)?;
        check_new_name(to.1)?;
        let (source, target) = (self.folder(from.0)?, self.folder(to.0)?);
        let was = identity(&fs::statat(&source.fd, from.1, AtFlags::SYMLINK_NOFOLLOW)?);
        let replaced = fs::statat(&target.fd, to.1, AtFlags::SYMLINK_NOFOLLOW).map(|stat| identity(&stat));
        fs::renameat(&source.fd, from.1, &target.fd, to.1)?;
        if replaced == Ok(was) {
            return Ok(()); // two names of one file: both stay, as POSIX has it
        }
        let gone = self.nodes().renamed(from, to);
        self.forget(gone);
        Ok(())
    }

    fn forget(&self, id: Option<u64>) {
        if let Some(id) = id {
            self.cache().kept.remove(&id);
            self.listings().remove(&id);
        }
    }

    /// Sets what is asked for; the size last, because it can fail halfway.
    pub(crate) fn change(&self, id: u64, wanted: &Wanted) -> Result<(), Status> {
        if let Some(mode) = wanted.mode() {
            let open = self.open(id)?; // a symbolic link has no mode of its own: INVAL
            fs::fchmod(&open.fd, mode)?;
        }
        if let Some((owner, group)) = wanted.owners() {
            self.by_name(id, |fd, name, flags| fs::chownat(fd, name, owner, group, flags))?;
        }
        if let Some(size) = wanted.size {
            self.set_len(id, size)?;
        }
        if let Some(times) = wanted.times()? {
            self.by_name(id, |fd, name, flags| fs::utimensat(fd, name, &times, flags))?;
        }
        Ok(())
    }

    /// Attributes of something just made: its owner is the server's, whatever was asked for.
    pub(crate) fn change_new(&self, id: u64, wanted: &Wanted) -> Result<(), Status> {
        self.change(id, &Wanted { owner: None, group: None, mode: None, ..*wanted })
    }

    fn set_len(&self, id: u64, size: u64) -> Result<(), Status> {
        let open = self.file(id)?;
        if !open.writable {
            return Err(Status::ACCES);
        }
        if i64::try_from(size).is_err() {
            return Err(Status::FBIG);
        }
        Ok(fs::ftruncate(&open.fd, size)?)
    }

    /// Calls the system with the folder, name and flags of a handle.
    pub(crate) fn by_name(
        &self,
        id: u64,
        call: impl FnOnce(std::os::fd::BorrowedFd<'_>, &[u8], AtFlags) -> Result<(), Errno>,
    ) -> Result<(), Status> {
        self.stat(id)?;
        let node = self.node(id)?;
        let parent = self.folder(node.parent)?;
        let name: &[u8] = if id == ROOT { b"." } else { &node.name };
        Ok(call(parent.fd.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn listings(&self) -> MutexGuard<'_, HashMap<u64, Listing>> {
        self.listings.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Names in a folder in the order of their numbers, which serve as cookies; those after `cookie`. A listing
    /// begins with cookie 0; what is removed meanwhile is left out, and what is added may be.
    pub(crate) fn list(&self, id: u64, cookie: u64) -> Result<(Listing, usize), Status> {
        let open = self.folder(id)?;
        let known = if cookie == 0 { None } else { self.listings().get(&id).cloned() };
        let listing = match known {
            Some(listing) => listing,
            None => self.read_names(id, &open)?,
        };
        let first = listing.partition_point(|(number, _)| *number <= cookie);
        Ok((listing, first))
    }

    fn read_names(&self, id: u64, open: &Open) -> Result<Listing, Status> {
        let device = fs::fstat(&open.fd)?.st_dev;
        let mut found = Vec::new();
        for entry in Dir::read_from(&open.fd)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                found.push((entry.ino(), Box::<[u8]>::from(name)));
            }
        }
        let mut nodes = self.nodes();
        let mut numbered: Vec<_> =
            found.into_iter().map(|(ino, name)| (nodes.seen(id, &name, (device, ino)), name)).collect();
        drop(nodes);
        numbered.sort_unstable_by_key(|(number, _)| *number);
        let listing = Arc::new(numbered);
        let mut listings = self.listings();
        if listings.len() >= MOST_LISTINGS {
            listings.clear();
        }
        listings.insert(id, Arc::clone(&listing));
        Ok(listing)
    }

    /// Whether a listed name still means what it did.
    pub(crate) fn is_there(&self, id: u64) -> bool {
        self.nodes().contains(id)
    }

    /// Inode number as it was last seen.
    pub(crate) fn file_id(&self, id: u64) -> u64 {
        self.nodes().get(id).map_or(0, |node| node.identity.1)
    }

    pub(crate) fn parent(&self, id: u64) -> Result<u64, Status> {
        Ok(self.node(id)?.parent)
    }
}

impl Open {
    fn folder(parent: &Self, name: &[u8]) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = fs::openat(&parent.fd, name, flags, Mode::empty())?;
        Ok(Self { fd, is_folder: true, writable: false, can_try: AtomicBool::new(false) })
    }

    /// For reading and writing, or for reading alone where the other is not allowed.
    fn file(parent: &Self, name: &[u8]) -> Result<Self, Errno> {
        let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let both = fs::openat(&parent.fd, name, flags | OFlags::RDWR, Mode::empty());
        let (fd, writable) = match both {
            Ok(fd) => (fd, true),
            Err(Errno::ACCESS | Errno::ROFS | Errno::PERM | Errno::TXTBSY) => {
                (fs::openat(&parent.fd, name, flags | OFlags::RDONLY, Mode::empty())?, false)
            }
            Err(errno) => return Err(errno),
        };
        Ok(Self { fd, is_folder: false, writable, can_try: AtomicBool::new(true) })
    }

    pub(crate) fn cannot_try(&self) {
        self.can_try.store(false, Ordering::Relaxed);
    }
}

impl Cache {
    fn find(&mut self, id: u64) -> Option<Arc<Open>> {
        self.clock += 1;
        let kept = self.kept.get_mut(&id)?;
        kept.used = self.clock;
        Some(Arc::clone(&kept.open))
    }

    fn keep(&mut self, id: u64, open: &Arc<Open>) {
        if self.kept.len() >= MOST_OPEN {
            if let Some(&oldest) = self.kept.iter().min_by_key(|(_, kept)| kept.used).map(|(id, _)| id) {
                self.kept.remove(&oldest);
            }
        }
        self.clock += 1;
        self.kept.insert(id, Kept { open: Arc::clone(open), used: self.clock });
    }
}

/// A name of one entry, and nothing that leads elsewhere.
fn check_name(name: &[u8]) -> Result<(), Status> {
    if name.len() > NAME_BYTES {
        return Err(Status::NAMETOOLONG);
    }
    if name.is_empty() || name.contains(&b'/') || name.contains(&0) {
        return Err(Status::INVAL);
    }
    Ok(())
}

fn check_new_name(name: &[u8]) -> Result<(), Status> {
    match name {
        b"." | b".." => Err(Status::EXIST),
        _ => check_name(name),
    }
}

fn check_old_name(name: &[u8]) -> Result<(), Status> {
    match name {
        b"." | b".." => Err(Status::INVAL),
        _ => check_name(name),
    }
}
