//! The folder a run makes for itself, and nothing outside it.

use crate::files::{read_small, write_small};
use crate::script::FILES_FOLDER;
use naslab_core::{Clock, Error, ErrorKind, Result, Session, Told};

/// Name of the owner mark inside a run's folder.
pub const MARKER_NAME: &str = "naslab-owner.json";
/// Run folders start with this.
const FOLDER_PREFIX: &str = "naslab-";
/// Files of a run, in its folder, start with this.
pub const FILE_PREFIX: &str = "naslab.";
/// Folders in folders that clean-up enters.
const MAX_DEPTH: u32 = 200;
/// Entries of one folder's whole tree that clean-up removes: a server can show folders without an end.
const MAX_TREE_ENTRIES: u64 = 8 << 20;
/// The mark is never longer.
const MARKER_MAX_BYTES: u32 = 4096;

/// A folder that some run left behind.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct LeftFolder {
    /// Name under the target's root.
    pub folder: String,
    /// Text of its owner mark (JSON); empty where there is none, or it could not be read.
    pub owner: String,
    /// Why its mark, or the folder, could not be read.
    pub unread: Option<Told>,
    /// Whether it has a run's name and holds nothing but perhaps a mark of no bytes: a run was killed while it began, or
    /// begins just now.
    pub unmarked: bool,
}

/// Makes the folder and marks it. The folder must not exist yet.
pub fn make(session: &mut dyn Session, clock: &Clock, folder: &str, owner: &str) -> Result<()> {
    session.mkdir(folder)?;
    let text = owner.as_bytes().to_vec();
    let mark = format!("{folder}/{MARKER_NAME}");
    write_small(session, clock, &mark, text).inspect_err(|_| {
        // An unmarked folder would be found by nobody. What cannot be removed either is in the error's path.
        let _ = remove_if_there(session, &mark, true).and_then(|()| session.rmdir(folder));
    })
}

/// Folders directly under the target's root that have our mark, that hold nothing, or that could not be read.
///
/// A folder named like ours with other things in it and no mark of ours is somebody else's, and is not listed.
pub fn find_folders(session: &mut dyn Session, clock: &Clock) -> Result<Vec<LeftFolder>> {
    let mut found = Vec::new();
    for entry in session.readdir_within("")? {
        if entry.is_dir && entry.name.starts_with(FOLDER_PREFIX) {
            found.extend(look_into(session, clock, entry.name)?);
        }
    }
    Ok(found)
}

fn look_into(session: &mut dyn Session, clock: &Clock, folder: String) -> Result<Option<LeftFolder>> {
    let marker = format!("{folder}/{MARKER_NAME}");
    let looked = match read_small(session, clock, &marker, MARKER_MAX_BYTES) {
        Ok(bytes) if !bytes.is_empty() => {
            let owner = String::from_utf8_lossy(&bytes).into_owned();
            Ok(owner.contains("\"naslab_run\"").then(|| LeftFolder { owner, ..LeftFolder::default() }))
        }
        Err(e) if e.kind != ErrorKind::NotFound => Err(e),
        _ => holds_nothing(session, &folder)
            .map(|empty| empty.then(|| LeftFolder { unmarked: true, ..LeftFolder::default() })),
    };
    match looked {
        Err(e) if e.kind.loses_session() => Err(e),
        // Removed, or renamed, since it was listed.
        Err(e) if e.kind == ErrorKind::NotFound => Ok(None),
        Err(e) => Ok(Some(LeftFolder { folder, unread: Some(e.told()), ..LeftFolder::default() })),
        Ok(left) => Ok(left.map(|left| LeftFolder { folder, ..left })),
    }
}

/// Whether a folder with a run's name, `naslab-20261124-031402-x7k2` and the like, has nothing in it but a mark.
fn holds_nothing(session: &mut dyn Session, folder: &str) -> Result<bool> {
    Ok(is_run_folder(folder)
        && session.readdir_within(folder)?.iter().all(|entry| entry.name == MARKER_NAME && !entry.is_dir))
}

fn is_run_folder(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(FOLDER_PREFIX) else { return false };
    let parts: Vec<&str> = rest.splitn(3, '-').collect();
    let digits = |text: &str, count: usize| text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
    matches!(parts[..], [day, time, pick] if digits(day, 8) && digits(time, 6) && !pick.is_empty())
}

/// Removes a marked folder: files named `naslab.*` in it, the mark last. Names of files it did not make
/// are returned and left, with the folder and its mark around them. A folder without mark is refused, unless it has a
/// run's name and holds nothing.
pub fn clean(session: &mut dyn Session, folder: &str) -> Result<Vec<String>> {
    let entries = session.readdir_within(folder)?;
    let marked = entries.iter().any(|entry| entry.name == MARKER_NAME && !entry.is_dir);
    if entries.is_empty() && is_run_folder(folder) {
        return session.rmdir(folder).map(|()| Vec::new());
    }
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
    for entry in session.readdir_within(folder)? {
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
            failed = failed.and(remove_if_there(session, &path, true));
        }
        if failed.as_ref().is_err_and(is_vain) {
            break;
        }
    }
    failed?;
    if foreign.is_empty() {
        remove_if_there(session, &format!("{folder}/{MARKER_NAME}"), true)?;
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
        return endless("the folders are nested too deeply");
    }
    let mut failed = Ok(());
    for entry in session.readdir_within(folder)? {
        if *left == 0 {
            return endless("the folder contains more than naslab creates");
        }
        *left -= 1;
        let path = format!("{folder}/{}", entry.name);
        failed = failed.and(match entry.is_dir {
            true => remove_tree(session, &path, depth + 1, left),
            false => remove_if_there(session, &path, true),
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

/// Removes a file of a run's so that no recycle bin keeps its bytes; see [`Session::discard`].
pub fn discard(session: &mut dyn Session, path: &str) -> Result<()> {
    let mark = path.split_once('/').map(|(folder, _)| format!("{folder}/{MARKER_NAME}"));
    session.discard(path, mark.as_deref())
}

/// Removes a file; a missing one is fine. `ours`: nobody is to get it back.
pub(crate) fn remove_if_there(session: &mut dyn Session, path: &str, ours: bool) -> Result<()> {
    let removed = if ours { discard(session, path) } else { session.remove(path) };
    match removed {
        Err(e) if e.kind != ErrorKind::NotFound => Err(Error::with(e, "file", path)),
        _ => Ok(()),
    }
}
