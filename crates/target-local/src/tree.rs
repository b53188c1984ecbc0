//! Folders and metadata of a root: what the POSIX and the io_uring session have in common.

use crate::beneath::{self, Held, Recent};
use crate::mounts::{self, Mount};
use crate::paths::{Place, Root};
use crate::{cache, flags, space, sys};
use naslab_core::listing::Listing;
use naslab_core::{DirEntry, Error, ErrorKind, FileStat, FileTimes, OpenOptions, Result, Space, WireCounters};
use rustix::fs::{AtFlags, FileType, Mode};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

/// A root and the mount it lies on, shared by all sessions of a target.
#[derive(Debug)]
pub(crate) struct Tree {
    root: Arc<Root>,
    mount: Option<Arc<Mount>>,
    /// NFS counts bytes per mount, not per session: only the first worker's session hands them over,
    /// so that the sum over sessions is right.
    counts_wire: bool,
    held: Held,
    /// Folders this session has open.
    recent: Recent,
}

impl Tree {
    pub(crate) fn new(root: &str) -> Result<Tree> {
        let root = Root::new(root)?;
        let mount = mounts::mount_of(root.path()).map(Arc::new);
        Ok(Tree { root: Arc::new(root), mount, counts_wire: false, held: Held::default(), recent: Recent::default() })
    }

    /// The tree as worker `worker` sees it.
    pub(crate) fn for_worker(&self, worker: u32) -> Tree {
        Tree {
            root: Arc::clone(&self.root),
            mount: self.mount.clone(),
            counts_wire: worker == 0,
            held: self.held.clone(),
            recent: Recent::default(),
        }
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn mount(&self) -> Option<&Mount> {
        self.mount.as_deref()
    }

    fn place(&self, operation: &'static str, path: &str) -> Result<Place> {
        self.root.place(operation, path, &self.held, &self.recent)
    }

    /// As `place`, for a path that must not be the root itself.
    fn entry(&self, operation: &'static str, path: &str) -> Result<Place> {
        self.root.entry_place(operation, path, &self.held, &self.recent)
    }

    pub(crate) fn open(&self, path: &str, options: &OpenOptions) -> Result<OwnedFd> {
        if options.delete_on_close {
            let message = "delete on close is SMB's: remove the file instead";
            return Err(Error::new(ErrorKind::Unsupported, "open", message).with("path", path));
        }
        let place = self.entry("open", path)?;
        let fs_type = self.mount().map_or("unknown", |m| &m.fs_type);
        flags::open_fd(&place, path, options, fs_type)
    }

    /// See [`naslab_core::Session::hold_folder`].
    pub(crate) fn hold_folder(&self, folder: &str) -> Result<()> {
        self.held.hold(self.root(), folder).map_err(|err| err.with("folder", folder))
    }

    fn open_to_look(&self, path: &str) -> Result<File> {
        let options = OpenOptions { read: true, ..OpenOptions::default() };
        self.open(path, &options).map(File::from)
    }

    pub(crate) fn evict(&self, path: &str) -> Result<()> {
        if let Some(mount) = self.mount().filter(|mount| mount.is_memory()) {
            let message = "this file system is in memory: there are no cached pages to drop";
            let error = Error::new(ErrorKind::Unsupported, "evict", message);
            return Err(error.with("filesystem", &mount.fs_type));
        }
        let file = self.open_to_look(path)?;
        sys::drop_cached(&file).map_err(failed("evict", path))
    }

    pub(crate) fn cached_fraction(&self, path: &str) -> Result<Option<f64>> {
        let file = self.open_to_look(path)?;
        cache::cached_fraction(&file).map_err(|err| err.with("path", path))
    }

    pub(crate) fn stat(&self, path: &str) -> Result<FileStat> {
        let place = self.place("stat", path)?;
        let meta = match place.in_run() {
            true => rustix::fs::statat(place.folder(), &place.name, AtFlags::SYMLINK_NOFOLLOW),
            false => rustix::fs::stat(&place.name),
        };
        let meta = meta.map_err(|err| failed("stat", path)(err.into()))?;
        Ok(FileStat {
            len_bytes: meta.st_size as u64,
            allocated_bytes: Some(meta.st_blocks as u64 * 512),
            is_dir: FileType::from_raw_mode(meta.st_mode).is_dir(),
            modified_ns: meta
                .st_mtime
                .checked_mul(1_000_000_000)
                .and_then(|ns| ns.checked_add(meta.st_mtime_nsec as _)),
        })
    }

    /// A link's own times, not those of what it points to.
    pub(crate) fn set_times(&self, path: &str, times: FileTimes) -> Result<()> {
        let place = self.place("set_times", path)?;
        sys::set_times(&place, times).map_err(failed("set_times", path))
    }

    pub(crate) fn mkdir(&self, path: &str) -> Result<()> {
        let place = self.entry("mkdir", path)?;
        let made = rustix::fs::mkdirat(place.folder(), &place.name, Mode::from_raw_mode(0o750));
        made.map_err(|err| failed("mkdir", path)(err.into()))
    }

    pub(crate) fn rmdir(&self, path: &str) -> Result<()> {
        let place = self.entry("rmdir", path)?;
        let removed = rustix::fs::unlinkat(place.folder(), &place.name, AtFlags::REMOVEDIR);
        removed.map_err(|err| failed("rmdir", path)(err.into()))?;
        self.held.forget(path);
        Ok(())
    }

    /// Links count as files, so that walking a tree never leaves it. Names that are not UTF-8 come
    /// with replacement characters.
    pub(crate) fn readdir(&self, path: &str) -> Result<Vec<DirEntry>> {
        let place = self.place("readdir", path)?;
        let fail = |err: std::io::Error| match place.in_run() {
            true => beneath::explain("readdir", err).with("path", path),
            false => failed("readdir", path)(err),
        };
        let folder = beneath::open_folder(&place).map_err(fail)?;
        let entries = beneath::entries(folder).map_err(fail)?;
        let (mut found, mut listing) = (Vec::new(), Listing::default());
        for (name, is_dir) in entries {
            if listing.take(&name, &['/'])? {
                found.push(DirEntry { name, is_dir });
            }
        }
        Ok(found)
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<()> {
        let old = self.entry("rename", from)?;
        let new = self.entry("rename", to)?;
        let renamed = rustix::fs::renameat(old.folder(), &old.name, new.folder(), &new.name);
        self.held.moved();
        renamed.map_err(|err| failed("rename", from)(err.into()).with("to", to))
    }

    pub(crate) fn remove(&self, path: &str) -> Result<()> {
        let place = self.entry("remove", path)?;
        let fail = |err: rustix::io::Errno| failed("remove", path)(err.into());
        let stat = rustix::fs::statat(place.folder(), &place.name, AtFlags::SYMLINK_NOFOLLOW).map_err(fail)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if !(kind.is_file() || kind.is_symlink() || kind.is_dir()) {
            return Err(beneath::special("remove").with("path", path));
        }
        rustix::fs::unlinkat(place.folder(), &place.name, AtFlags::empty()).map_err(fail)
    }

    /// On a mounted share, which may have a recycle bin, the file is emptied first: see [`naslab_core::Session::discard`].
    pub(crate) fn discard(&self, path: &str, mark: Option<&str>) -> Result<()> {
        if self.mount().is_some_and(Mount::is_network) {
            self.empty(path, mark);
        }
        self.remove(path)
    }

    /// Empties a file that is newer than the mark. A server may follow links by itself, so what is not stays as it is.
    fn empty(&self, path: &str, mark: Option<&str>) {
        let options = OpenOptions { write: true, ..OpenOptions::default() };
        let Ok(file) = self.open(path, &options) else { return };
        let since = match mark {
            None => Some(i128::MIN),
            Some(mark) => self.open_to_look(mark).ok().and_then(|mark| beneath::born_ns(&mark.into())),
        };
        if beneath::born_ns(&file).zip(since).is_some_and(|(born, since)| born > since) {
            // What is not emptied is removed as it is.
            let _ = rustix::fs::ftruncate(&file, 0);
        }
    }

    pub(crate) fn space(&self) -> Result<Space> {
        space::space(self.root())
    }

    pub(crate) fn wire(&self) -> Option<WireCounters> {
        let mount = self.mount().filter(|mount| mount.is_nfs())?;
        if self.counts_wire {
            mounts::nfs_bytes_now(&mount.point)
        } else {
            Some(WireCounters::default())
        }
    }
}

fn failed<'a>(operation: &'static str, path: &'a str) -> impl Fn(std::io::Error) -> Error + 'a {
    move |err| Error::from_io(operation, err).with("path", path)
}

/// The methods of [`naslab_core::Session`] that concern names, for a session with a field `tree`.
macro_rules! tree_methods {
    () => {
        fn evict(&mut self, path: &str) -> Result<()> {
            self.tree.evict(path)
        }
        fn cached_fraction(&mut self, path: &str) -> Result<Option<f64>> {
            self.tree.cached_fraction(path)
        }
        fn stat(&mut self, path: &str) -> Result<FileStat> {
            self.tree.stat(path)
        }
        fn set_times(&mut self, path: &str, times: FileTimes) -> Result<()> {
            self.tree.set_times(path, times)
        }
        fn hold_folder(&mut self, folder: &str) -> Result<()> {
            self.tree.hold_folder(folder)
        }
        fn mkdir(&mut self, path: &str) -> Result<()> {
            self.tree.mkdir(path)
        }
        fn rmdir(&mut self, path: &str) -> Result<()> {
            self.tree.rmdir(path)
        }
        fn readdir(&mut self, path: &str) -> Result<Vec<DirEntry>> {
            self.tree.readdir(path)
        }
        fn rename(&mut self, from: &str, to: &str) -> Result<()> {
            self.tree.rename(from, to)
        }
        fn remove(&mut self, path: &str) -> Result<()> {
            self.tree.remove(path)
        }
        fn discard(&mut self, path: &str, mark: Option<&str>) -> Result<()> {
            self.tree.discard(path, mark)
        }
        fn space(&mut self) -> Result<Space> {
            self.tree.space()
        }
        fn wire(&self) -> Option<WireCounters> {
            self.tree.wire()
        }
    };
}
pub(crate) use tree_methods;
