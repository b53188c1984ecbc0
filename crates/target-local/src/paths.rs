//! Paths below the root. A path given by the engine can never name anything outside it.

use naslab_core::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

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
            let message = "the root is not a folder: name the folder that is to be tested";
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

    /// The place of `path`, which must not be the root itself.
    pub(crate) fn entry(&self, operation: &'static str, path: &str) -> Result<PathBuf> {
        let full = self.join(operation, path)?;
        if full == self.path {
            let message = "the target's root itself cannot be made, renamed or removed";
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
