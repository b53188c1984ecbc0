//! The seam: a shared [`Target`], and one [`Session`] per worker thread.

use crate::{Caps, Clock, Completion, FileId, IoBuf, Op, OpError, Result, Submit, Token};
use std::collections::BTreeMap;
use std::ops::{Add, AddAssign};
use std::time::Duration;

/// Folders of runs, directly below a target's root, start with this. Inside them targets follow no links.
pub const RUN_FOLDER_PREFIX: &str = "naslab-";

/// A thing under test, shared by all workers.
pub trait Target: Send + Sync {
    /// Short name of the protocol: `local`, `sim`, `null`, `smb`, `nfs`.
    fn protocol(&self) -> &'static str;

    /// What it can do.
    fn caps(&self) -> Caps;

    /// The clock its operations are timed with.
    fn clock(&self) -> Clock;

    /// Opens a session for worker `worker` (from 0). Blocks until connected.
    fn connect(&self, worker: u32) -> Result<Box<dyn Session>>;

    /// As `connect`, for a worker that goes on after its server was lost: files that it opens can be claimed from the
    /// next session where the server keeps them, for which it is asked to hold them for `keep`. `lost`: the
    /// `Session::identity` of the session that was lost; empty for the first. Targets without open files to keep
    /// connect as usual. Blocks.
    fn connect_lasting(&self, worker: u32, keep: Duration, lost: &[u8]) -> Result<Box<dyn Session>> {
        let _ = (keep, lost);
        self.connect(worker)
    }

    /// What was negotiated or found, as name and value, for the result's `target` record. Protocol clients know
    /// most of it once a session was connected.
    fn facts(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// What an operation's error means, in words with the protocol's own name for it; None where there is no more to
    /// say than its class.
    fn explain(&self, error: &OpError) -> Option<String> {
        let _ = error;
        None
    }
}

/// Whether `open` may or must create.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Create {
    /// The file must exist.
    #[default]
    Never,
    /// Create it if it is missing.
    IfMissing,
    /// It must not exist yet.
    New,
}

/// Durability of each write on an open file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncMode {
    /// Writes may be cached.
    #[default]
    None,
    /// Data durable before the write is acknowledged (O_DSYNC, DATA_SYNC).
    Data,
    /// Data and metadata durable (O_SYNC, FILE_SYNC, write-through).
    All,
    /// As `All`, and reads wait for pending writes (O_RSYNC).
    ReadsToo,
}

/// How a file's bytes are reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Positioned calls (`pread`, `pwrite`, protocol reads and writes).
    #[default]
    Positioned,
    /// The file cursor: `read`/`write`, with `lseek` before a call that does not continue the last.
    Cursor,
    /// C library stream whose buffer is one record.
    Stdio,
    /// Memory map; flush is `msync`.
    Mmap,
}

/// Locks taken around the work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lock {
    /// None.
    #[default]
    None,
    /// The whole file while it is open.
    File,
    /// Each record during its operation.
    Record,
}

/// How to open a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Open for reading.
    pub read: bool,
    /// Open for writing.
    pub write: bool,
    /// Whether it may be created.
    pub create: Create,
    /// Cut to zero length.
    pub truncate: bool,
    /// Unbuffered.
    pub direct: bool,
    /// Durability of each write.
    pub sync: SyncMode,
    /// How bytes are reached.
    pub access: Access,
    /// Locks.
    pub lock: Lock,
    /// Record size: stream buffer of `Stdio`, in bytes.
    pub record_bytes: u32,
    /// Length the file will have: what `Mmap` maps, in bytes.
    pub file_bytes: u64,
    /// The target removes the file when its last handle closes, where it can (SMB); refused elsewhere.
    pub delete_on_close: bool,
}

/// What a flush must reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlushKind {
    /// Data and metadata (`fsync`, COMMIT, SMB FLUSH).
    #[default]
    All,
    /// Data only (`fdatasync`).
    Data,
}

/// What is known of a file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStat {
    /// Length in bytes.
    pub len_bytes: u64,
    /// Space taken, where the target says; less than the length means holes.
    pub allocated_bytes: Option<u64>,
    /// A folder.
    pub is_dir: bool,
    /// When its contents last changed, in nanoseconds since 1970, where the target says.
    pub modified_ns: Option<i64>,
}

/// Times of a file or folder, in nanoseconds since 1970 (UTC). Targets keep them as exactly as they can: SMB to
/// 100 ns, some file systems to whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileTimes {
    /// When it was last read.
    pub accessed_ns: i64,
    /// When its contents last changed.
    pub modified_ns: i64,
}

/// One entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Name without folder.
    pub name: String,
    /// A folder.
    pub is_dir: bool,
}

/// Room on the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes this identity may still write.
    pub free_bytes: u64,
    /// Size of the file system.
    pub total_bytes: u64,
}

/// Bytes a session put on and took off the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireCounters {
    /// Sent by the client.
    pub sent_bytes: u64,
    /// Received by the client.
    pub received_bytes: u64,
}

impl WireCounters {
    /// What has been added since `before`.
    pub fn since(self, before: WireCounters) -> WireCounters {
        WireCounters {
            sent_bytes: self.sent_bytes.saturating_sub(before.sent_bytes),
            received_bytes: self.received_bytes.saturating_sub(before.received_bytes),
        }
    }
}

impl Add for WireCounters {
    type Output = WireCounters;

    fn add(self, more: WireCounters) -> WireCounters {
        WireCounters {
            sent_bytes: self.sent_bytes + more.sent_bytes,
            received_bytes: self.received_bytes + more.received_bytes,
        }
    }
}

impl AddAssign for WireCounters {
    fn add_assign(&mut self, more: WireCounters) {
        *self = *self + more;
    }
}

/// What an open file is claimed with, in a form of the target's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim(pub Vec<u8>);

/// One worker's way to the target. Paths are relative to the target's root, with `/` between parts.
///
/// A session is used by one thread at a time. It never retries: a retry would hide latency.
pub trait Session: Send {
    /// Opens a file. Blocks.
    fn open(&mut self, path: &str, options: &OpenOptions) -> Result<FileId>;

    /// Closes a file. Blocks; all its operations must have been reaped.
    fn close(&mut self, file: FileId) -> Result<()>;

    /// By what the server knows this session and its client, for `Target::connect_lasting`; empty where it does not.
    fn identity(&self) -> Vec<u8> {
        Vec::new()
    }

    /// What an open file is claimed with from the session after this one; None where the server does not keep it.
    fn claim(&self, file: FileId) -> Option<Claim> {
        let _ = file;
        None
    }

    /// Opens a file that the session before had open; None where the server no longer keeps it. Blocks.
    fn reclaim(&mut self, path: &str, options: &OpenOptions, claim: &Claim) -> Result<Option<FileId>> {
        let _ = (path, options, claim);
        Ok(None)
    }

    /// After the last claim and before any other file is opened. Blocks.
    fn end_reclaim(&mut self) -> Result<()> {
        Ok(())
    }

    /// The next call is one that the session before this one made, and whose answer it lost: the server may have
    /// carried it out. Where the protocol has means to be answered as the first time, they are used.
    fn repeat(&mut self) {}

    /// Tells the session which memory operations will use, so that it can be registered once.
    ///
    /// # Safety
    /// The regions stay valid until the session is dropped or this is called again.
    unsafe fn register_memory(&mut self, regions: &[IoBuf]) -> Result<()> {
        let _ = regions;
        Ok(())
    }

    /// Starts an operation. Does not block on asynchronous targets; a synchronous target carries the
    /// operation out here and answers `Completed`, so that its end can be timed at once. `Err` means the session
    /// is unusable; a failed operation is a completion with an error instead.
    ///
    /// # Safety
    /// `buf` is valid for `op.len_bytes` bytes (reads: writable) and nobody else touches it until the
    /// operation was reaped or the session was dropped.
    unsafe fn submit(&mut self, op: &Op, buf: IoBuf, token: Token) -> Result<Submit>;

    /// Appends finished operations to `out` and returns how many. Waits until at least `min` are there
    /// or `timeout` has passed (`None`: no limit). On a virtual clock it never waits: it returns what
    /// has finished by the clock's present time.
    fn reap(&mut self, min: usize, timeout: Option<Duration>, out: &mut Vec<Completion>) -> Result<usize>;

    /// Virtual time only: when something next happens to the outstanding operations, at the latest when
    /// the earliest of them finishes. The driver advances to it, reaps, and asks again.
    fn next_event_ns(&self) -> Option<u64> {
        None
    }

    /// Makes all acknowledged writes of the file durable. Blocks (a virtual clock is advanced).
    fn flush(&mut self, file: FileId, kind: FlushKind) -> Result<()>;

    /// Sets the file's length in bytes. Blocks.
    fn set_len(&mut self, file: FileId, len_bytes: u64) -> Result<()>;

    /// Drops the client's cached pages of a file, after writing them back. Blocks.
    fn evict(&mut self, path: &str) -> Result<()> {
        Err(crate::Error::new(crate::ErrorKind::Unsupported, "evict", "this target cannot drop cached data on request")
            .with("path", path))
    }

    /// Share of a file's pages held in the client's cache, 0 to 1, where it can be told.
    fn cached_fraction(&mut self, path: &str) -> Result<Option<f64>> {
        let _ = path;
        Ok(None)
    }

    /// What is known of a path. Blocks.
    fn stat(&mut self, path: &str) -> Result<FileStat>;
    /// Sets the times of a file or folder. Blocks.
    fn set_times(&mut self, path: &str, times: FileTimes) -> Result<()> {
        let _ = times;
        Err(crate::Error::new(crate::ErrorKind::Unsupported, "set_times", "this target does not store times")
            .with("path", path))
    }
    /// Remembers which folder `folder`, directly below the root, is now. From here on calls of all sessions of this
    /// target fail where another one lies under that name; removing it ends that. Targets that cannot tell folders
    /// apart do nothing. Blocks.
    fn hold_folder(&mut self, folder: &str) -> Result<()> {
        let _ = folder;
        Ok(())
    }
    /// Makes a folder. Blocks.
    fn mkdir(&mut self, path: &str) -> Result<()>;
    /// Removes an empty folder. Blocks.
    fn rmdir(&mut self, path: &str) -> Result<()>;
    /// Lists a folder, without `.` and `..`. Blocks.
    fn readdir(&mut self, path: &str) -> Result<Vec<DirEntry>>;
    /// As `readdir`, of a folder whose entries are to be removed: `Invalid` where it can be told that the folder lies
    /// elsewhere and is only linked to from here. What is such a link among the entries is no folder. Blocks.
    fn readdir_within(&mut self, path: &str) -> Result<Vec<DirEntry>> {
        self.readdir(path)
    }
    /// Renames a file or folder. Blocks.
    fn rename(&mut self, from: &str, to: &str) -> Result<()>;
    /// Removes a file. Blocks.
    fn remove(&mut self, path: &str) -> Result<()>;
    /// Removes a file that nobody is to get back. Where the server may keep what is removed (a recycle bin), the file
    /// is emptied first, so that the bin does not fill. `mark`: a file that naslab made there before all others; what is
    /// not newer is somebody else's, seen through a link, and is not emptied. Blocks.
    fn discard(&mut self, path: &str, mark: Option<&str>) -> Result<()> {
        let _ = mark;
        self.remove(path)
    }
    /// Room left. Blocks.
    fn space(&mut self) -> Result<Space>;

    /// A null operation there and back (SMB ECHO, NFS NULL). Blocks.
    fn ping(&mut self) -> Result<()> {
        Err(crate::Error::new(crate::ErrorKind::Unsupported, "ping", "this target has no null operation"))
    }

    /// Copies a file within the target without moving its bytes through the client; returns how many. The new
    /// file must not exist yet. Blocks.
    fn server_copy(&mut self, from: &str, to: &str) -> Result<u64> {
        let message = "this target cannot copy by itself";
        Err(crate::Error::new(crate::ErrorKind::Unsupported, "server_copy", message).with("from", from).with("to", to))
    }

    /// What the protocol did beside the operations since the session began, as name and count: `delay`, `grace`,
    /// `verifier_changed`, `credit_wait`, ... Names that never happened may be left out.
    fn events(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Virtual time only: processor time that the client has spent on this session so far, in nanoseconds of that
    /// time. None where the time is real: there the process's own processor time counts.
    fn virtual_cpu_ns(&self) -> Option<u64> {
        None
    }

    /// As the target's: what the error of an operation of this session means.
    fn explain(&self, error: &OpError) -> Option<String> {
        let _ = error;
        None
    }

    /// Bytes on the wire so far, where the session counts them.
    fn wire(&self) -> Option<WireCounters> {
        None
    }

    /// The same by the server's address, of a session whose target was given several; empty for all others.
    fn wire_by_address(&self) -> BTreeMap<String, WireCounters> {
        BTreeMap::new()
    }
}
