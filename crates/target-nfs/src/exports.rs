//! What a server exports.

use crate::dialect::Dialect;
use crate::options::{NfsOptions, Settings, Version, NFS_PORT};
use crate::services::{self, Export};
use crate::target::transport;
use crate::transport::Transport;
use crate::v4::V4;
use crate::xdr::Handle;
use naslab_core::{limit, Result};

/// How deep the pseudo file system is looked through.
const MOST_LEVELS: usize = 8;
/// Folders of the pseudo file system looked at.
const MOST_FOLDERS: usize = 1000;

/// The exports of a server: the mount service's list, or what NFS 4 shows of them where no mount service answers.
///
/// Blocks up to the timeout in all. Errors are the mount service's when NFS 4 does not answer either.
pub fn exports(options: &NfsOptions) -> Result<Vec<Export>> {
    let settings = Settings::new(options)?;
    let _scope = limit::within(settings.timeout);
    match services::list_exports(&settings) {
        Ok(found) => Ok(found),
        Err(error) => pseudo_root(&settings).map_err(|_| error),
    }
}

/// In NFS 4 exports hang in a tree of folders; a folder of another file system than its parent's is one.
fn pseudo_root(settings: &Settings) -> Result<Vec<Export>> {
    let mut outcome = look(settings, Version::V41);
    for version in [Version::V42, Version::V40] {
        outcome = outcome.or_else(|_| look(settings, version));
    }
    outcome
}

fn look(settings: &Settings, version: Version) -> Result<Vec<Export>> {
    let mut t = transport(settings, version, settings.port.unwrap_or(NFS_PORT), 0, 1)?;
    let mut v4 = V4::begin(&mut t, &settings.credentials, 0, 1, None)?;
    let found = walk_tree(&mut v4, &mut t);
    v4.leave(&mut t);
    t.log_out();
    found
}

fn walk_tree(v4: &mut V4, t: &mut Transport) -> Result<Vec<Export>> {
    let top = v4.top(t)?;
    let fsid = v4.attributes(t, &top)?.fsid;
    let mut open: Vec<(Handle, String, usize)> = vec![(top, String::new(), 0)];
    let mut exports = Vec::new();
    let mut looked_at = 0;
    while let Some((folder, path, level)) = open.pop() {
        looked_at += 1;
        if looked_at > MOST_FOLDERS {
            break;
        }
        for entry in v4.list(t, &folder)?.into_iter().filter(|e| e.is_dir) {
            let path = format!("{path}/{}", entry.name);
            if entry.fsid.is_some_and(|found| found != fsid) {
                exports.push(Export { path, groups: Vec::new() });
            } else if level + 1 < MOST_LEVELS {
                let found = v4.walk(t, &folder, &[&entry.name])?;
                open.push((found.handle, path, level + 1));
            }
        }
    }
    if exports.is_empty() {
        // No tree of exports: the root itself is one.
        exports.push(Export { path: "/".into(), groups: Vec::new() });
    }
    exports.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(exports)
}
