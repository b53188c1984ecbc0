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
const MOST_DEPTH: u32 = 200;
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
            failed = failed.and(remove_tree(session, &path, 0));
            continue;
        }
        if entry.is_dir || !entry.name.starts_with(FILE_PREFIX) {
            foreign.push(path);
        } else {
            failed = failed.and(remove_if_there(session, &path));
        }
    }
    failed?;
    if foreign.is_empty() {
        remove_if_there(session, &format!("{folder}/{MARKER_NAME}"))?;
        session.rmdir(folder)?;
    }
    Ok(foreign)
}

/// Removes a folder with all that lies in it. A link is removed, not followed.
fn remove_tree(session: &mut dyn Session, folder: &str, depth: u32) -> Result<()> {
    if depth > MOST_DEPTH {
        return Err(
            Error::new(ErrorKind::Invalid, "clean", "folders lie too deep in one another").with("folder", folder)
        );
    }
    let mut failed = Ok(());
    for entry in session.readdir(folder)? {
        let path = format!("{folder}/{}", entry.name);
        failed = failed.and(match entry.is_dir {
            true => remove_tree(session, &path, depth + 1),
            false => remove_if_there(session, &path),
        });
    }
    failed?;
    session.rmdir(folder)
}

/// Removes a file; a missing one is fine.
pub(crate) fn remove_if_there(session: &mut dyn Session, path: &str) -> Result<()> {
    match session.remove(path) {
        Err(e) if e.kind != ErrorKind::NotFound => Err(Error::with(e, "file", path)),
        _ => Ok(()),
    }
}
