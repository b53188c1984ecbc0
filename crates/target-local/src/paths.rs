//! Paths below the root. A path given by the engine can never name anything outside it.

use crate::beneath::{Held, Recent};
use naslab_core::{Error, ErrorKind, Result, RUN_FOLDER_PREFIX};
use rustix::fs::CWD;
use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a call goes: a name in an open folder inside a run's folder, a whole path elsewhere.
pub(crate) struct Place {
    folder: Option<Arc<OwnedFd>>,
    pub name: CString,
}

impl Place {
    /// The folder that `name` starts from.
    pub(crate) fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_ref().map_or(CWD, |folder| (**folder).as_fd())
    }

    /// Whether it lies in a run's folder, where nothing is followed.
    pub(crate) fn in_run(&self) -> bool {
        self.folder.is_some()
    }
}

/// The folder everything happens in.
///
/// It is kept as a path, not as an open folder: an open one would keep its file system from being
/// unmounted between passes.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    path: PathBuf,
}

impl Root {
    /// The folder `root`, which must be absolute and exist.
    pub(crate) fn new(root: &str) -> Result<Root> {
        let path = PathBuf::from(root);
        if !path.is_absolute() || root.contains('\0') {
            let message = "the root must be an absolute path: write it from / on";
            return Err(Error::new(ErrorKind::Invalid, "open root", message).with("root", root));
        }
        let meta = std::fs::metadata(&path).map_err(|err| Error::from_io("open root", err).with("root", root))?;
        if !meta.is_dir() {
            let message = "the root is not a folder: name the folder to test";
            return Err(Error::new(ErrorKind::Invalid, "open root", message).with("root", root));
        }
        Ok(Root { path })
    }

    /// The folder itself.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The place of `path`; empty or `.` is the root itself.
    pub(crate) fn join(&self, operation: &'static str, path: &str) -> Result<PathBuf> {
        let refuse = |message: &str| Err(Error::new(ErrorKind::Invalid, operation, message).with("path", path));
        if path.starts_with('/') {
            return refuse("paths are relative to the target's root");
        }
        if path.contains('\0') {
            return refuse("a path cannot contain a zero byte");
        }
        let mut full = self.path.clone();
        for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
            if part == ".." {
                return refuse("`..` could leave the target's root");
            }
            full.push(part);
        }
        Ok(full)
    }

    /// Where a call on `path` goes. Inside a run's folder its parent is reached without following any link, and
    /// must lie in the folder that is `held`.
    pub(crate) fn place(&self, operation: &'static str, path: &str, held: &Held, recent: &Recent) -> Result<Place> {
        let full = self.join(operation, path)?;
        let names: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
        let in_run = names.first().is_some_and(|name| name.starts_with(RUN_FOLDER_PREFIX));
        let folder = match in_run {
            true => {
                let parent = recent.parent(held, operation, &self.path, &names);
                Some(parent.map_err(|err| err.with("path", path))?)
            }
            false => None,
        };
        let name = if in_run { names[names.len() - 1].as_bytes() } else { full.as_os_str().as_bytes() };
        let no_zero = |_| Error::new(ErrorKind::Invalid, operation, "a path cannot contain a zero byte");
        Ok(Place { folder, name: CString::new(name).map_err(no_zero)? })
    }

    /// As `place`, for a path that must not be the root itself.
    pub(crate) fn entry_place(
        &self,
        operation: &'static str,
        path: &str,
        held: &Held,
        recent: &Recent,
    ) -> Result<Place> {
        self.entry(operation, path)?;
        self.place(operation, path, held, recent)
    }

    /// The place of `path`, which must not be the root itself.
    fn entry(&self, operation: &'static str, path: &str) -> Result<PathBuf> {
        let full = self.join(operation, path)?;
        if full == self.path {
            let message = "the target's root itself cannot be created, renamed or removed";
            return Err(Error::new(ErrorKind::Invalid, operation, message).with("path", path));
        }
        Ok(full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_the_root() {
        let root = Root::new("/").unwrap();
        for bad in ["/etc", "..", "a/..", "a/../b", "../a", "a\0b"] {
            assert_eq!(root.join("open", bad).unwrap_err().kind, ErrorKind::Invalid, "{bad}");
        }
        assert_eq!(root.join("open", "a//b/./c/").unwrap(), Path::new("/a/b/c"));
        assert_eq!(root.join("open", "..a/b..").unwrap(), Path::new("/..a/b.."));
        assert_eq!(root.join("stat", "").unwrap(), Path::new("/"));
        assert!(root.entry("remove", "./").is_err());
    }

    #[test]
    fn the_root_must_be_an_absolute_folder() {
        assert_eq!(Root::new("tmp").unwrap_err().kind, ErrorKind::Invalid);
        assert_eq!(Root::new("/no/such").unwrap_err().kind, ErrorKind::NotFound);
        assert_eq!(Root::new("/dev/null").unwrap_err().kind, ErrorKind::Invalid);
    }
}
