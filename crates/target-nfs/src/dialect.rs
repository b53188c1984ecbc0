//! What NFS 3 and NFS 4 do differently: set-up and metadata calls. The hot path is shared.

use crate::files::{OpenFile, StateId};
use crate::transport::Transport;
use crate::xdr::Handle;
use naslab_core::listing::{endless, Listing};
use naslab_core::{FileTimes, OpenOptions, Result, Space};
use std::collections::HashSet;
use std::time::Instant;

/// What kind of file it is; numbers of ftype3 and nfs_ftype4.
pub(crate) const TYPE_REGULAR: u32 = 1;
/// A folder.
pub(crate) const TYPE_DIRECTORY: u32 = 2;
/// A symbolic link.
pub(crate) const TYPE_LINK: u32 = 5;

/// Follows a folder's list from page to page.
#[derive(Default)]
pub(crate) struct Pages {
    listing: Listing,
    /// Cookies that pages were asked for with.
    seen: HashSet<u64>,
}

impl Pages {
    /// Takes a name, as [`Listing::take`]; false for `.` and `..`.
    pub fn take(&mut self, name: &str) -> Result<bool> {
        self.listing.take(name, &['/'])
    }

    /// The cookie from which the list goes on; `None` after the last page.
    ///
    /// last: cookie of the page's last entry. A Protocol error when the server would never come to an end: a page
    /// without entries that is not the last, a cookie for the second time, or as [`Listing::page`], whose other errors
    /// come too.
    pub fn next(&mut self, eof: bool, last: Option<u64>) -> Result<Option<u64>> {
        if eof {
            return Ok(None);
        }
        self.listing.page()?;
        match last {
            Some(cookie) if cookie != 0 && self.seen.insert(cookie) => Ok(Some(cookie)),
            _ => Err(endless()),
        }
    }
}

/// What is known of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub kind: u32,
    pub len_bytes: u64,
    pub used_bytes: Option<u64>,
    /// File system it lies in.
    pub fsid: (u64, u64),
    /// Nanoseconds since 1970.
    pub modified_ns: Option<i64>,
}

impl Attributes {
    pub fn is_dir(&self) -> bool {
        self.kind == TYPE_DIRECTORY
    }
}

/// A file that was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub handle: Handle,
    pub attributes: Attributes,
}

/// A file that was opened.
pub(crate) struct Opened {
    pub handle: Handle,
    pub state: StateId,
}

/// One entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub name: String,
    pub is_dir: bool,
    /// File system it lies in, where that was told.
    pub fsid: Option<(u64, u64)>,
}

/// What the server's file system says of itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    pub max_read_bytes: u32,
    pub max_write_bytes: u32,
    pub preferred_read_bytes: Option<u32>,
    pub preferred_write_bytes: Option<u32>,
    pub max_file_bytes: Option<u64>,
    pub lease_seconds: Option<u32>,
}

/// A place in a folder.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub folder: &'a Handle,
    pub name: &'a str,
}

/// Set-up and metadata calls of one version. All block; all wait visibly while the server says DELAY or GRACE.
pub(crate) trait Dialect: Send {
    /// Follows names down from a folder; at least one.
    fn walk(&mut self, t: &mut Transport, from: &Handle, names: &[&str]) -> Result<Found>;
    /// Numbers of the security flavours that a name takes, as far as the version can ask; see [`crate::security::Sec`].
    fn flavours(&mut self, _t: &mut Transport, _at: At<'_>) -> Result<Vec<u32>> {
        Ok(Vec::new())
    }
    /// What is known of a file.
    fn attributes(&mut self, t: &mut Transport, of: &Handle) -> Result<Attributes>;
    /// What the file system at the root takes.
    fn limits(&mut self, t: &mut Transport, root: &Handle) -> Result<Limits>;
    /// Opens or creates a file that gets this number.
    fn open(&mut self, t: &mut Transport, at: At<'_>, options: &OpenOptions, number: u32) -> Result<Opened>;
    /// By what the server knows this client; empty where it does not.
    fn client(&self) -> Vec<u8> {
        Vec::new()
    }
    /// What an open file is claimed with from the next session.
    fn claim(&self, file: &OpenFile, number: u32) -> Vec<u8>;
    /// Opens a file of the session before, which gets this number; None where the server no longer has it.
    fn reclaim(
        &mut self,
        t: &mut Transport,
        claim: &[u8],
        options: &OpenOptions,
        number: u32,
    ) -> Result<Option<Opened>>;
    /// The next call that changes something was made by the session before, and not answered.
    fn repeat(&mut self) {}
    /// Nothing more is claimed.
    fn end_reclaim(&mut self, _t: &mut Transport) -> Result<()> {
        Ok(())
    }
    /// Ends an open.
    fn close(&mut self, t: &mut Transport, file: &OpenFile, number: u32) -> Result<()>;
    /// Sets a file's length.
    fn set_len(&mut self, t: &mut Transport, file: &OpenFile, len_bytes: u64) -> Result<()>;
    /// Sets the times of a file or folder.
    fn set_times(&mut self, t: &mut Transport, of: &Handle, times: FileTimes) -> Result<()>;
    /// Makes a folder.
    fn mkdir(&mut self, t: &mut Transport, at: At<'_>) -> Result<()>;
    /// Removes an empty folder.
    fn rmdir(&mut self, t: &mut Transport, at: At<'_>) -> Result<()>;
    /// Removes a file.
    fn remove(&mut self, t: &mut Transport, at: At<'_>) -> Result<()>;
    /// Renames; replaces an existing file.
    fn rename(&mut self, t: &mut Transport, from: At<'_>, to: At<'_>) -> Result<()>;
    /// Entries of a folder, without `.` and `..`.
    fn list(&mut self, t: &mut Transport, folder: &Handle) -> Result<Vec<Entry>>;
    /// Room left.
    fn space(&mut self, t: &mut Transport, root: &Handle) -> Result<Space>;
    /// Copies an open file's bytes into another, server-side; returns how many.
    fn copy(&mut self, t: &mut Transport, from: &OpenFile, to: &OpenFile, len_bytes: u64) -> Result<u64>;
    /// Called before work begins while nothing is outstanding: keeps the lease, or gets a new one when nothing
    /// was lost with it.
    fn keep_lease(&mut self, t: &mut Transport, now: Instant) -> Result<()>;
    /// Takes leave, with no file open; failures do not matter.
    fn leave(&mut self, t: &mut Transport);
    /// Names and values for the result.
    fn facts(&self) -> Vec<(String, String)>;
}
