//! The folder a run makes for itself, and nothing outside it.

use crate::files::{read_small, write_small};
use crate::script::FILES_FOLDER;
use naslab_core::{Clock, Error, ErrorKind, Result, Session};

/// Name of the owner mark inside a run's folder.
pub const MARKER_NAME: &str = "naslab-owner.json";
/// Run folders start with this.
const FOLDER_PREFIX: &str = "naslab-";
/// Files of a run, in its folder, start with this.
const FILE_PREFIX: &str = "naslab.";
/// Folders in folders that clean-up enters.
const MAX_DEPTH: u32 = 200;
/// Entries of one folder's whole tree that clean-up removes: a server can show folders without an end.
const MAX_TREE_ENTRIES: u64 = 8 << 20;
/// The mark is never longer.
const MARKER_MAX_BYTES: u32 = 4096;

/// A folder that some run left behind.
#[derive(Clone, Debug, serde::Serialize)]
pub struct LeftFolder {
    /// Name under the target's root.
    pub folder: String,
    /// Text of its owner mark (JSON).
    pub owner: String,
}

/// Makes the folder and marks it. The folder must not exist yet.
pub(crate) fn make(session: &mut dyn Session, clock: &Clock, folder: &str, owner: &str) -> Result<()> {
    session.mkdir(folder)?;
    let text = owner.as_bytes().to_vec();
    let mark = format!("{folder}/{MARKER_NAME}");
    write_small(session, clock, &mark, text).inspect_err(|_| {
        // An unmarked folder would be found by nobody. What cannot be removed either is in the error's path.
        let _ = remove_if_there(session, &mark).and_then(|()| session.rmdir(folder));
    })
}

/// Folders with our mark directly under the target's root.
pub fn find_folders(session: &mut dyn Session, clock: &Clock) -> Result<Vec<LeftFolder>> {
    let mut found = Vec::new();
    for entry in session.readdir("")? {
        if !entry.is_dir || !entry.name.starts_with(FOLDER_PREFIX) {
            continue;
        }
        let marker = format!("{}/{MARKER_NAME}", entry.name);
        if let Ok(bytes) = read_small(session, clock, &marker, MARKER_MAX_BYTES) {
            let owner = String::from_utf8_lossy(&bytes).into_owned();
            if owner.contains("\"naslab_run\"") {
                found.push(LeftFolder { folder: entry.name, owner });
            }
        }
    }
    Ok(found)
}

/// Removes a marked folder: files named `naslab.*` in it, the mark last. Names of files it did not make
/// are returned and left, with the folder and its mark around them. A folder without mark is refused.
pub fn clean(session: &mut dyn Session, folder: &str) -> Result<Vec<String>> {
    let marked = session.readdir(folder)?.iter().any(|entry| entry.name == MARKER_NAME && !entry.is_dir);
    if !marked {
        let message = "the folder has no owner mark, so naslab did not make it: remove it yourself";
        return Err(Error::new(ErrorKind::Permission, "clean", message).with("folder", folder));
    }
    remove_made(session, folder)
}

/// As [`clean`], for a folder that this run made. What fails is passed over; the first failure is returned.
pub(crate) fn remove_made(session: &mut dyn Session, folder: &str) -> Result<Vec<String>> {
    let mut foreign = Vec::new();
    let mut failed = Ok(());
    for entry in session.readdir(folder)? {
        let path = format!("{folder}/{}", entry.name);
        if entry.name == MARKER_NAME {
            continue;
        }
        if entry.is_dir && entry.name == FILES_FOLDER {
            failed = failed.and(remove_tree(session, &path, 0, &mut MAX_TREE_ENTRIES.clone()));
            if failed.as_ref().is_err_and(is_vain) {
                return failed.map(|()| foreign);
            }
            continue;
        }
        if entry.is_dir || !entry.name.starts_with(FILE_PREFIX) {
            foreign.push(path);
        } else {
            failed = failed.and(remove_if_there(session, &path));
        }
        if failed.as_ref().is_err_and(is_vain) {
            break;
        }
    }
    failed?;
    if foreign.is_empty() {
        remove_if_there(session, &format!("{folder}/{MARKER_NAME}"))?;
        session.rmdir(folder)?;
    }
    Ok(foreign)
}

/// Whether going on after this error is in vain: the session is gone, or the tree has no end.
fn is_vain(error: &Error) -> bool {
    error.kind.loses_session() || (error.kind == ErrorKind::Invalid && error.operation == "clean")
}

/// Removes a folder with all that lies in it. A link is removed, not followed. left: entries that may still be met.
fn remove_tree(session: &mut dyn Session, folder: &str, depth: u32, left: &mut u64) -> Result<()> {
    let endless = |what: &str| Err(Error::new(ErrorKind::Invalid, "clean", what).with("folder", shortened(folder)));
    if depth > MAX_DEPTH {
        return endless("folders lie too deep in one another");
    }
    let mut failed = Ok(());
    for entry in session.readdir(folder)? {
        if *left == 0 {
            return endless("the folder holds more than naslab makes");
        }
        *left -= 1;
        let path = format!("{folder}/{}", entry.name);
        failed = failed.and(match entry.is_dir {
            true => remove_tree(session, &path, depth + 1, left),
            false => remove_if_there(session, &path),
        });
        if failed.as_ref().is_err_and(is_vain) {
            return failed;
        }
    }
    failed?;
    session.rmdir(folder)
}

/// A path that fits a message.
fn shortened(path: &str) -> String {
    match path.char_indices().nth(120) {
        Some((at, _)) => format!("{}...", &path[..at]),
        None => path.to_string(),
    }
}

/// Removes a file; a missing one is fine.
pub(crate) fn remove_if_there(session: &mut dyn Session, path: &str) -> Result<()> {
    match session.remove(path) {
        Err(e) if e.kind != ErrorKind::NotFound => Err(Error::with(e, "file", path)),
        _ => Ok(()),
    }
}
