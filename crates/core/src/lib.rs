//! What the engine and every target share: operations, sessions, capabilities, errors, clock.
//!
//! No I/O happens here and no sibling crate is imported. A target is one crate that implements
//! [`Target`] and [`Session`]; the engine knows nothing else about it.

mod bounded;
mod caps;
mod clock;
pub mod errno;
mod error;
pub mod limit;
pub mod listing;
mod memory;
mod op;
mod os;
mod target;

pub use bounded::Bounded;
pub use caps::{Alignment, Caps};
pub use clock::Clock;
pub use error::{Error, ErrorKind, OpError, Result, Told};
pub use memory::AlignedBuf;
pub use op::{Completion, FileId, IoBuf, Op, OpKind, Submit, Token};
pub use os::{boot_ns, monotonic_ns, wall_ns};
pub use target::{
    Access, Claim, Create, DirEntry, FileStat, FileTimes, FlushKind, Lock, OpenOptions, Session, Space, SyncMode,
    Target, WireCounters, RUN_FOLDER_PREFIX,
};
