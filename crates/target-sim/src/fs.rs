//! The server's file system: a tree of folders and files in memory. Nothing here takes time.

use crate::cache::KeyMap;
use crate::read_ahead::Ahead;
use naslab_core::{errno, DirEntry, Error, ErrorKind, FileStat, FileTimes, Result};
use std::collections::BTreeMap;

/// Pages that hold stored contents, in bytes.
const DATA_PAGE: u64 = 4096;
/// The root folder.
const ROOT: u32 = 0;
/// Longest file, as on real systems.
pub(crate) const MAX_FILE_BYTES: u64 = i64::MAX as u64;

/// A set-up error with its errno.
pub(crate) fn fail(operation: &'static str, errno: i32, path: &str) -> Error {
    let text = match errno {
        errno::ENOENT => "no such file or folder",
        errno::ENOTDIR => "a part of the path is not a folder",
        errno::EEXIST => "it exists already",
        errno::EISDIR => "it is a folder",
        errno::ENOTEMPTY => "the folder is not empty",
        errno::EINVAL => "the path or value is not valid",
        errno::ENAMETOOLONG => "a part of the path is longer than 255 bytes",
        errno::ENOSPC => "no space left: raise capacity_bytes or write less",
        errno::EFBIG => "the file would be too long",
        errno::EROFS => "the server is read-only: set read_only = false",
        errno::EBUSY => "the root cannot be changed",
        errno::EBADF => "the file is not open",
        _ => "injected fault",
    };
    let mut err = Error::new(ErrorKind::from_errno(errno), operation, text);
    err.status = errno.into();
    err.with("path", path)
}

/// The parts of a path below the root; empty for the root itself.
pub(crate) fn split_path<'a>(
    operation: &'static str,
    path: &'a str,
) -> Result<impl DoubleEndedIterator<Item = &'a str> + Clone> {
    let parts = path.split('/').filter(|p| !p.is_empty() && *p != ".");
    for part in parts.clone() {
        if part == ".." || part.contains('\0') {
            return Err(fail(operation, errno::EINVAL, path));
        }
        if part.len() > 255 {
            return Err(fail(operation, errno::ENAMETOOLONG, path));
        }
    }
    Ok(parts)
}

/// A file's length, contents and write-back counters.
#[derive(Debug, Default)]
pub(crate) struct File {
    pub(crate) len: u64,
    data: Option<KeyMap<u64, Box<[u8]>>>,
    opens: u32,
    linked: bool,
    /// Where a sequential read would go on.
    pub(crate) next_read: u64,
    /// What was asked of the disk beyond that.
    pub(crate) ahead: Ahead,
    /// Bytes of buffered writes taken by, and gone from, the client.
    pub(crate) client_in: u64,
    pub(crate) client_out: u64,
    /// Bytes of unstable writes taken by, and gone from, the server's memory.
    pub(crate) server_in: u64,
    pub(crate) server_out: u64,
    /// When the server's lock on it is free.
    pub(crate) unlocked_ns: u64,
}

impl File {
    /// Copies stored contents to `out`; holes are zeros. Nothing is copied when none are kept.
    pub(crate) fn read(&self, offset: u64, out: &mut [u8]) {
        let Some(data) = &self.data else { return };
        for_pages(offset, out.len(), |page, at, range| {
            let out = &mut out[range];
            match data.get(&page) {
                Some(stored) => out.copy_from_slice(&stored[at..at + out.len()]),
                None => out.fill(0),
            }
        });
    }

    /// Stores contents, if they are kept. The length is set apart from this.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let Some(data) = &mut self.data else { return };
        for_pages(offset, bytes.len(), |page, at, range| {
            let stored = data.entry(page).or_insert_with(|| vec![0; DATA_PAGE as usize].into_boxed_slice());
            stored[at..at + range.len()].copy_from_slice(&bytes[range]);
        });
    }

    /// Flips one stored byte.
    pub(crate) fn corrupt(&mut self, offset: u64) {
        let mut byte = [0];
        self.read(offset, &mut byte);
        self.write(offset, &[byte[0] ^ 0xff]);
    }

    fn cut_data(&mut self, len: u64) {
        if let Some(data) = &mut self.data {
            data.retain(|page, _| page * DATA_PAGE < len);
            if let Some(last) = data.get_mut(&(len / DATA_PAGE)) {
                last[(len % DATA_PAGE) as usize..].fill(0);
            }
        }
    }
}

/// Calls `each(page, offset in page, range of the buffer)` for every page touched.
fn for_pages(offset: u64, len: usize, mut each: impl FnMut(u64, usize, std::ops::Range<usize>)) {
    let mut done = 0;
    while done < len {
        let pos = offset + done as u64;
        let at = (pos % DATA_PAGE) as usize;
        let n = (DATA_PAGE as usize - at).min(len - done);
        each(pos / DATA_PAGE, at, done..done + n);
        done += n;
    }
}

#[derive(Debug)]
enum Node {
    Free,
    Dir(BTreeMap<String, u32>),
    File(File),
}

/// The tree. A node is named by its number; the number of a removed file is used again once nobody
/// has it open.
#[derive(Debug)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    /// Counts how often each number was used, so that an old reference can be told.
    generations: Vec<u32>,
    free: Vec<u32>,
    used_bytes: u64,
    capacity: u64,
    keep_data: bool,
    /// Files freed since last asked: their cached pages must go.
    freed: Vec<u32>,
    /// Times that were set; the tree itself knows no time.
    times: KeyMap<u32, FileTimes>,
}

impl Tree {
    /// An empty tree of `capacity` bytes (0: unlimited).
    pub(crate) fn new(capacity: u64, keep_data: bool) -> Tree {
        Tree {
            nodes: vec![Node::Dir(BTreeMap::new())],
            generations: vec![0],
            free: Vec::new(),
            used_bytes: 0,
            capacity: if capacity == 0 { u64::MAX } else { capacity },
            keep_data,
            freed: Vec::new(),
            times: KeyMap::default(),
        }
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// A file by its number.
    pub(crate) fn file(&self, id: u32) -> Option<&File> {
        match self.nodes.get(id as usize) {
            Some(Node::File(f)) => Some(f),
            _ => None,
        }
    }

    /// A file by its number.
    pub(crate) fn file_mut(&mut self, id: u32) -> Option<&mut File> {
        match self.nodes.get_mut(id as usize) {
            Some(Node::File(f)) => Some(f),
            _ => None,
        }
    }

    /// How often this number has been used before.
    pub(crate) fn generation(&self, id: u32) -> u32 {
        self.generations.get(id as usize).copied().unwrap_or(0)
    }

    /// Numbers of files that were freed since the last call.
    pub(crate) fn take_freed(&mut self) -> Option<u32> {
        self.freed.pop()
    }

    fn dir(&self, id: u32) -> Option<&BTreeMap<String, u32>> {
        match &self.nodes[id as usize] {
            Node::Dir(entries) => Some(entries),
            _ => None,
        }
    }

    fn dir_mut(&mut self, id: u32) -> Option<&mut BTreeMap<String, u32>> {
        match &mut self.nodes[id as usize] {
            Node::Dir(entries) => Some(entries),
            _ => None,
        }
    }

    /// The node of a path.
    fn find(&self, operation: &'static str, path: &str) -> Result<u32> {
        let mut at = ROOT;
        for part in split_path(operation, path)? {
            let entries = self.dir(at).ok_or_else(|| fail(operation, errno::ENOTDIR, path))?;
            at = *entries.get(part).ok_or_else(|| fail(operation, errno::ENOENT, path))?;
        }
        Ok(at)
    }

    /// The folder a path is in, and its last part. The root has none.
    fn find_parent<'a>(&self, operation: &'static str, path: &'a str) -> Result<(u32, &'a str)> {
        let mut parts = split_path(operation, path)?;
        let Some(name) = parts.next_back() else {
            return Err(fail(operation, errno::EBUSY, path));
        };
        let mut at = ROOT;
        for part in parts {
            let entries = self.dir(at).ok_or_else(|| fail(operation, errno::ENOTDIR, path))?;
            at = *entries.get(part).ok_or_else(|| fail(operation, errno::ENOENT, path))?;
        }
        match self.dir(at) {
            Some(_) => Ok((at, name)),
            None => Err(fail(operation, errno::ENOTDIR, path)),
        }
    }

    fn child(&self, dir: u32, name: &str) -> Option<u32> {
        self.dir(dir)?.get(name).copied()
    }

    fn add(&mut self, dir: u32, name: &str, node: Node) -> u32 {
        let id = match self.free.pop() {
            Some(id) => {
                self.nodes[id as usize] = node;
                id
            }
            None => {
                self.nodes.push(node);
                self.generations.push(0);
                (self.nodes.len() - 1) as u32
            }
        };
        if let Some(entries) = self.dir_mut(dir) {
            entries.insert(name.to_owned(), id);
        }
        id
    }

    fn free_node(&mut self, id: u32) {
        if let Some(f) = self.file(id) {
            self.used_bytes -= f.len;
            self.freed.push(id);
        }
        self.nodes[id as usize] = Node::Free;
        self.times.remove(&id);
        self.generations[id as usize] = self.generations[id as usize].wrapping_add(1);
        self.free.push(id);
    }

    /// The file of a path, for opening; `Ok(None)` if it does not exist but could.
    pub(crate) fn find_file(&self, operation: &'static str, path: &str) -> Result<Option<u32>> {
        if split_path(operation, path)?.next().is_none() {
            return Err(fail(operation, errno::EISDIR, path));
        }
        let (dir, name) = self.find_parent(operation, path)?;
        match self.child(dir, name) {
            Some(id) if self.dir(id).is_some() => Err(fail(operation, errno::EISDIR, path)),
            found => Ok(found),
        }
    }

    /// Makes an empty file where nothing is.
    pub(crate) fn create(&mut self, operation: &'static str, path: &str) -> Result<u32> {
        let (dir, name) = self.find_parent(operation, path)?;
        if self.child(dir, name).is_some() {
            return Err(fail(operation, errno::EEXIST, path));
        }
        let file = File { data: self.keep_data.then(KeyMap::default), linked: true, ..File::default() };
        Ok(self.add(dir, name, Node::File(file)))
    }

    /// Makes a file of this length with its folders.
    pub(crate) fn plant(&mut self, path: &str, len: u64) -> Result<()> {
        let operation = "configure sim";
        let mut prefix = String::new();
        let mut parts = split_path(operation, path)?;
        parts.next_back();
        for part in parts {
            prefix.push('/');
            prefix.push_str(part);
            if self.find(operation, &prefix).is_err() {
                self.mkdir(&prefix)?;
            }
        }
        let id = self.create(operation, path)?;
        self.set_len(operation, id, len)
    }

    /// Counts a file as open.
    pub(crate) fn hold(&mut self, id: u32) {
        if let Some(f) = self.file_mut(id) {
            f.opens += 1;
        }
    }

    /// Undoes [`Tree::hold`]; a removed file goes away with its last opener.
    pub(crate) fn release(&mut self, id: u32) {
        if let Some(f) = self.file_mut(id) {
            f.opens = f.opens.saturating_sub(1);
            if f.opens == 0 && !f.linked {
                self.free_node(id);
            }
        }
    }

    /// Makes a file at least `end` long. errno if it cannot be.
    pub(crate) fn grow(&mut self, id: u32, end: u64) -> std::result::Result<(), i32> {
        let Some(len) = self.file(id).map(|f| f.len) else {
            return Err(errno::ESTALE);
        };
        if end <= len {
            return Ok(());
        }
        if end > MAX_FILE_BYTES {
            return Err(errno::EFBIG);
        }
        if end - len > self.capacity.saturating_sub(self.used_bytes) {
            return Err(errno::ENOSPC);
        }
        self.used_bytes += end - len;
        if let Some(f) = self.file_mut(id) {
            f.len = end;
        }
        Ok(())
    }

    /// Sets a file's length.
    pub(crate) fn set_len(&mut self, operation: &'static str, id: u32, len: u64) -> Result<()> {
        self.grow(id, len).map_err(|errno| fail(operation, errno, ""))?;
        if let Some(f) = self.file_mut(id) {
            let cut = f.len - len;
            if cut > 0 {
                f.len = len;
                f.cut_data(len);
            }
            self.used_bytes -= cut;
        }
        Ok(())
    }

    pub(crate) fn stat(&self, path: &str) -> Result<FileStat> {
        let id = self.find("stat", path)?;
        let len = self.file(id).map_or(0, |f| f.len);
        let modified_ns = self.times.get(&id).map(|times| times.modified_ns);
        Ok(FileStat { len_bytes: len, allocated_bytes: Some(len), is_dir: self.dir(id).is_some(), modified_ns })
    }

    /// Keeps times; a later write does not change them, as the tree knows no time.
    pub(crate) fn set_times(&mut self, path: &str, times: FileTimes) -> Result<()> {
        let id = self.find("set_times", path)?;
        self.times.insert(id, times);
        Ok(())
    }

    pub(crate) fn mkdir(&mut self, path: &str) -> Result<()> {
        if split_path("mkdir", path)?.next().is_none() {
            return Err(fail("mkdir", errno::EEXIST, path));
        }
        let (dir, name) = self.find_parent("mkdir", path)?;
        if self.child(dir, name).is_some() {
            return Err(fail("mkdir", errno::EEXIST, path));
        }
        self.add(dir, name, Node::Dir(BTreeMap::new()));
        Ok(())
    }

    pub(crate) fn rmdir(&mut self, path: &str) -> Result<()> {
        let (parent, name) = self.find_parent("rmdir", path)?;
        let id = self.child(parent, name).ok_or_else(|| fail("rmdir", errno::ENOENT, path))?;
        match self.dir(id) {
            None => Err(fail("rmdir", errno::ENOTDIR, path)),
            Some(entries) if !entries.is_empty() => Err(fail("rmdir", errno::ENOTEMPTY, path)),
            Some(_) => {
                self.unlink(parent, name);
                Ok(())
            }
        }
    }

    pub(crate) fn readdir(&self, path: &str) -> Result<Vec<DirEntry>> {
        let id = self.find("readdir", path)?;
        let entries = self.dir(id).ok_or_else(|| fail("readdir", errno::ENOTDIR, path))?;
        let entry = |(name, id): (&String, &u32)| DirEntry { name: name.clone(), is_dir: self.dir(*id).is_some() };
        Ok(entries.iter().map(entry).collect())
    }

    pub(crate) fn remove(&mut self, path: &str) -> Result<()> {
        let (parent, name) = self.find_parent("remove", path)?;
        let id = self.child(parent, name).ok_or_else(|| fail("remove", errno::ENOENT, path))?;
        if self.dir(id).is_some() {
            return Err(fail("remove", errno::EISDIR, path));
        }
        self.unlink(parent, name);
        Ok(())
    }

    /// Renames as POSIX does: an existing file or empty folder of the same sort is replaced.
    pub(crate) fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        let (from_dir, from_name) = self.find_parent("rename", from)?;
        let id = self.child(from_dir, from_name).ok_or_else(|| fail("rename", errno::ENOENT, from))?;
        let from_parts: Vec<&str> = split_path("rename", from)?.collect();
        let to_parts: Vec<&str> = split_path("rename", to)?.collect();
        if to_parts == from_parts {
            return Ok(());
        }
        if to_parts.starts_with(&from_parts) {
            return Err(fail("rename", errno::EINVAL, to));
        }
        let (to_dir, to_name) = self.find_parent("rename", to)?;
        if let Some(old) = self.child(to_dir, to_name) {
            match (self.dir(id), self.dir(old)) {
                (None, Some(_)) => return Err(fail("rename", errno::EISDIR, to)),
                (Some(_), None) => return Err(fail("rename", errno::ENOTDIR, to)),
                (Some(_), Some(e)) if !e.is_empty() => return Err(fail("rename", errno::ENOTEMPTY, to)),
                _ => self.unlink(to_dir, to_name),
            }
        }
        if let Some(entries) = self.dir_mut(from_dir) {
            entries.remove(from_name);
        }
        if let Some(entries) = self.dir_mut(to_dir) {
            entries.insert(to_name.to_owned(), id);
        }
        Ok(())
    }

    /// Takes an entry out of its folder; the node goes unless it is an open file.
    fn unlink(&mut self, dir: u32, name: &str) {
        let Some(id) = self.dir_mut(dir).and_then(|entries| entries.remove(name)) else {
            return;
        };
        match self.file_mut(id) {
            Some(f) if f.opens > 0 => f.linked = false,
            _ => self.free_node(id),
        }
    }
}
