//! Folders and metadata of a root: what the POSIX and the io_uring session have in common.

use crate::mounts::{self, Mount};
use crate::paths::Root;
use crate::{cache, flags, space, sys};
use naslab_core::{DirEntry, Error, ErrorKind, FileStat, FileTimes, OpenOptions, Result, Space, WireCounters};
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

/// A root and the mount it lies on, shared by all sessions of a target.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    root: Arc<Root>,
    mount: Option<Arc<Mount>>,
    /// NFS counts bytes per mount, not per session: only the first worker's session hands them over,
    /// so that the sum over sessions is right.
    counts_wire: bool,
}

impl Tree {
    pub(crate) fn new(root: &str) -> Result<Tree> {
        let root = Root::new(root)?;
        let mount = mounts::mount_of(root.path()).map(Arc::new);
        Ok(Tree { root: Arc::new(root), mount, counts_wire: false })
    }

    /// The tree as worker `worker` sees it.
    pub(crate) fn for_worker(&self, worker: u32) -> Tree {
        Tree { counts_wire: worker == 0, ..self.clone() }
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn mount(&self) -> Option<&Mount> {
        self.mount.as_deref()
    }

    pub(crate) fn open(&self, path: &str, options: &OpenOptions) -> Result<OwnedFd> {
        if options.delete_on_close {
            let message = "delete on close is SMB's: remove the file instead";
            return Err(Error::new(ErrorKind::Unsupported, "open", message).with("path", path));
        }
        let full = self.root.entry("open", path)?;
        let fs_type = self.mount().map_or("unknown", |m| &m.fs_type);
        let fd = flags::open_fd(&full, path, options, fs_type)?;
        if !options.write {
            return Ok(fd);
        }
        let file = File::from(fd);
        let kind = file.metadata().map_err(failed("open", path))?.file_type();
        if kind.is_block_device() || kind.is_char_device() {
            return Err(special("open", path));
        }
        Ok(file.into())
    }

    fn open_to_look(&self, operation: &'static str, path: &str) -> Result<File> {
        let full = self.root.join(operation, path)?;
        File::open(full).map_err(failed(operation, path))
    }

    pub(crate) fn evict(&self, path: &str) -> Result<()> {
        if let Some(mount) = self.mount().filter(|mount| mount.is_memory()) {
            let message = "files of this file system live in memory: nothing can be dropped";
            let error = Error::new(ErrorKind::Unsupported, "evict", message);
            return Err(error.with("filesystem", &mount.fs_type));
        }
        let file = self.open_to_look("evict", path)?;
        sys::drop_cached(&file).map_err(failed("evict", path))
    }

    pub(crate) fn cached_fraction(&self, path: &str) -> Result<Option<f64>> {
        let file = self.open_to_look("cached_fraction", path)?;
        cache::cached_fraction(&file).map_err(|err| err.with("path", path))
    }

    pub(crate) fn stat(&self, path: &str) -> Result<FileStat> {
        let full = self.root.join("stat", path)?;
        let meta = fs::metadata(full).map_err(failed("stat", path))?;
        Ok(FileStat {
            len_bytes: meta.len(),
            allocated_bytes: Some(meta.blocks() * 512),
            is_dir: meta.is_dir(),
            modified_ns: meta.mtime().checked_mul(1_000_000_000).and_then(|ns| ns.checked_add(meta.mtime_nsec())),
        })
    }

    /// A link's own times, not those of what it points to.
    pub(crate) fn set_times(&self, path: &str, times: FileTimes) -> Result<()> {
        let full = self.root.join("set_times", path)?;
        sys::set_times(&full, times).map_err(failed("set_times", path))
    }

    pub(crate) fn mkdir(&self, path: &str) -> Result<()> {
        let full = self.root.entry("mkdir", path)?;
        let made = fs::DirBuilder::new().mode(0o750).create(full);
        made.map_err(failed("mkdir", path))
    }

    pub(crate) fn rmdir(&self, path: &str) -> Result<()> {
        let full = self.root.entry("rmdir", path)?;
        fs::remove_dir(full).map_err(failed("rmdir", path))
    }

    /// Links count as files, so that walking a tree never leaves it. Names that are not UTF-8 come
    /// with replacement characters.
    pub(crate) fn readdir(&self, path: &str) -> Result<Vec<DirEntry>> {
        let full = self.root.join("readdir", path)?;
        let mut entries = Vec::new();
        for entry in fs::read_dir(full).map_err(failed("readdir", path))? {
            let entry = entry.map_err(failed("readdir", path))?;
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let name = entry.file_name().to_string_lossy().into_owned();
            entries.push(DirEntry { name, is_dir });
        }
        Ok(entries)
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<()> {
        let old = self.root.entry("rename", from)?;
        let new = self.root.entry("rename", to)?;
        fs::rename(old, new).map_err(|err| failed("rename", from)(err).with("to", to))
    }

    pub(crate) fn remove(&self, path: &str) -> Result<()> {
        let full = self.root.entry("remove", path)?;
        let kind = full.symlink_metadata().map_err(failed("remove", path))?.file_type();
        if !(kind.is_file() || kind.is_symlink() || kind.is_dir()) {
            return Err(special("remove", path));
        }
        fs::remove_file(full).map_err(failed("remove", path))
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

/// Devices are never written to, and nothing but files is removed, whatever a command line says.
fn special(operation: &'static str, path: &str) -> Error {
    let message = "this is a device, a pipe or a socket, and naslab writes to files only: name a file";
    Error::new(ErrorKind::Permission, operation, message).with("path", path)
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
        fn space(&mut self) -> Result<Space> {
            self.tree.space()
        }
        fn wire(&self) -> Option<WireCounters> {
            self.tree.wire()
        }
    };
}
pub(crate) use tree_methods;
