//! One operation and its completion.

use crate::OpError;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// Read `len_bytes` at `offset_bytes` into the buffer.
    Read,
    /// Write `len_bytes` from the buffer at `offset_bytes`.
    Write,
    /// Make all earlier writes of the file durable.
    Flush,
}

impl OpKind {
    /// All kinds, in the order of their indices.
    pub const ALL: [OpKind; 3] = [OpKind::Read, OpKind::Write, OpKind::Flush];

    /// The name used in results.
    pub fn name(self) -> &'static str {
        match self {
            OpKind::Read => "read",
            OpKind::Write => "write",
            OpKind::Flush => "flush",
        }
    }
}

/// An open file of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId(pub u32);

/// The engine's name for an outstanding operation; unique among those in flight on one session.
pub type Token = u32;

/// One operation to carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// What to do.
    pub kind: OpKind,
    /// On which open file of the session.
    pub file: FileId,
    /// Where in the file.
    pub offset_bytes: u64,
    /// How much.
    pub len_bytes: u32,
    /// Open loop: when it should start, in nanoseconds of the engine's clock.
    pub due_ns: Option<u64>,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The token given to `submit`.
    pub token: Token,
    /// Bytes moved.
    pub bytes: u32,
    /// Why it failed; `None` when it succeeded.
    pub error: Option<OpError>,
}

/// Answer to a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submit {
    /// Taken; its completion will be reaped.
    Queued,
    /// Carried out within the call, as synchronous targets do: nothing is left to reap.
    Completed(Completion),
    /// No room now: reap first and submit again. Nothing was done.
    Busy,
}

/// A piece of memory owned by the engine and lent to a session for one operation.
#[derive(Clone, Copy, Debug)]
pub struct IoBuf {
    /// First byte.
    pub ptr: *mut u8,
    /// Length in bytes.
    pub len: usize,
}

// SAFETY: an IoBuf is only an address; whoever dereferences it answers for exclusive use, as the
// contract of `Session::submit` says.
unsafe impl Send for IoBuf {}

impl IoBuf {
    /// The memory of a slice. The caller keeps the slice alive and unaliased while lent.
    pub fn from_slice(slice: &mut [u8]) -> IoBuf {
        IoBuf { ptr: slice.as_mut_ptr(), len: slice.len() }
    }

    /// An empty buffer, for operations that move no data.
    pub fn empty() -> IoBuf {
        IoBuf { ptr: std::ptr::NonNull::dangling().as_ptr(), len: 0 }
    }
}
