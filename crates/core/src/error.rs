//! One error for set-up calls and one small copyable error for operations in the hot loop.

use crate::errno;
use std::fmt;

/// What went wrong, in the classes the engine acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Path, share or export does not exist.
    NotFound,
    /// It exists although it must not.
    Exists,
    /// The identity may not do this.
    Permission,
    /// No space or quota left.
    NoSpace,
    /// The target is read-only.
    ReadOnly,
    /// The target cannot do what was asked.
    Unsupported,
    /// A value is out of range or contradicts another.
    Invalid,
    /// No answer within the time allowed.
    Timeout,
    /// The user wanted to stop and the answer was not waited for.
    Interrupted,
    /// The server asks to come back later (NFS delay, jukebox and grace): reported, never waited out in silence.
    Delayed,
    /// The connection or the server is gone.
    Disconnected,
    /// The server's answer breaks the protocol: wrong lengths, unknown replies, a bad signature.
    Protocol,
    /// Fewer bytes moved than asked for, before the end that the file should have.
    Short,
    /// Data read differs from data written.
    Corrupt,
    /// Any other failure reported by the target.
    Io,
}

impl ErrorKind {
    /// Whether further operations of the same worker cannot succeed either.
    pub fn ends_worker(self) -> bool {
        matches!(
            self,
            ErrorKind::NoSpace
                | ErrorKind::ReadOnly
                | ErrorKind::Disconnected
                | ErrorKind::Protocol
                | ErrorKind::Unsupported
                | ErrorKind::Interrupted
        )
    }

    /// Whether the request was wrong, and the target did nothing amiss.
    pub fn is_of_request(self) -> bool {
        matches!(self, ErrorKind::Invalid | ErrorKind::Unsupported | ErrorKind::Exists | ErrorKind::NotFound)
    }

    /// Whether the session it happened in is of no more use.
    pub fn loses_session(self) -> bool {
        matches!(self, ErrorKind::Disconnected | ErrorKind::Protocol | ErrorKind::Timeout | ErrorKind::Interrupted)
    }

    /// The name used in results: `no_space`, `disconnected`, ...
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::NotFound => "not_found",
            ErrorKind::Exists => "exists",
            ErrorKind::Permission => "permission",
            ErrorKind::NoSpace => "no_space",
            ErrorKind::ReadOnly => "read_only",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::Invalid => "invalid",
            ErrorKind::Timeout => "timeout",
            ErrorKind::Interrupted => "interrupted",
            ErrorKind::Delayed => "delayed",
            ErrorKind::Disconnected => "disconnected",
            ErrorKind::Protocol => "protocol",
            ErrorKind::Short => "short",
            ErrorKind::Corrupt => "corrupt",
            ErrorKind::Io => "io",
        }
    }

    /// The class of an errno value.
    pub fn from_errno(number: i32) -> ErrorKind {
        match number {
            errno::ENOENT | errno::ENOTDIR => ErrorKind::NotFound,
            errno::EEXIST | errno::ENOTEMPTY => ErrorKind::Exists,
            errno::EACCES | errno::EPERM => ErrorKind::Permission,
            errno::ENOSPC | errno::EDQUOT | errno::EFBIG => ErrorKind::NoSpace,
            errno::EROFS => ErrorKind::ReadOnly,
            errno::ENOTSUP | errno::ENOSYS => ErrorKind::Unsupported,
            errno::EINVAL | errno::ENAMETOOLONG | errno::EISDIR => ErrorKind::Invalid,
            errno::ETIMEDOUT => ErrorKind::Timeout,
            errno::ESTALE
            | errno::ENOTCONN
            | errno::ECONNRESET
            | errno::EPIPE
            | errno::ECONNREFUSED
            | errno::EHOSTDOWN
            | errno::ENODEV
            | errno::ENXIO => ErrorKind::Disconnected,
            _ => ErrorKind::Io,
        }
    }
}

/// The failure of one operation in the hot loop: its class and the target's raw status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpError {
    /// The class.
    pub kind: ErrorKind,
    /// errno, NTSTATUS or nfsstat as the target reported it; 0 where there is none.
    pub status: i64,
}

impl OpError {
    /// From an errno value (positive).
    pub fn from_errno(errno: i32) -> OpError {
        OpError { kind: ErrorKind::from_errno(errno), status: errno as i64 }
    }
}

/// The failure of a set-up or metadata call: class, operation, raw status, and what it was about.
#[derive(Debug)]
pub struct Error {
    /// The class.
    pub kind: ErrorKind,
    /// The call that failed: `open`, `connect`, ...
    pub operation: &'static str,
    /// errno, NTSTATUS or nfsstat; 0 where there is none.
    pub status: i64,
    /// What happened and, where known, what to do next.
    pub message: String,
    /// Named facts: path, offset, option.
    pub context: Vec<(&'static str, String)>,
    /// The error underneath.
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// Result of a set-up or metadata call.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of this class in this call.
    pub fn new(kind: ErrorKind, operation: &'static str, message: impl Into<String>) -> Error {
        Error { kind, operation, status: 0, message: message.into(), context: Vec::new(), source: None }
    }

    /// From an operating-system error.
    pub fn from_io(operation: &'static str, err: std::io::Error) -> Error {
        let number = errno::of(&err);
        let kind = if number == 0 { ErrorKind::Io } else { ErrorKind::from_errno(number) };
        Error {
            kind,
            operation,
            status: number as i64,
            message: err.to_string(),
            context: Vec::new(),
            source: Some(Box::new(err)),
        }
    }

    /// From errno, just after a libc call failed.
    pub fn last_os(operation: &'static str) -> Error {
        Error::from_io(operation, std::io::Error::last_os_error())
    }

    /// Adds a named fact.
    pub fn with(mut self, name: &'static str, value: impl ToString) -> Error {
        self.context.push((name, value.to_string()));
        self
    }

    /// What it says, in parts.
    pub fn told(&self) -> Told {
        Told {
            kind: self.kind.name(),
            status: self.status,
            operation: self.operation,
            cause: self.message.clone(),
            facts: self.context.clone(),
        }
    }

    /// The copyable form for the hot loop.
    pub fn op_error(&self) -> OpError {
        OpError { kind: self.kind, status: self.status }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_parts(f, self.operation, &self.message, &self.context)
    }
}

/// What an error says, in parts, for whoever puts it into words.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Told {
    /// Name of the class.
    pub kind: &'static str,
    /// errno, NTSTATUS or nfsstat; 0 where there is none.
    pub status: i64,
    /// The call that failed; empty where the cause says all.
    pub operation: &'static str,
    /// What happened.
    pub cause: String,
    /// Named facts: path, offset, option.
    pub facts: Vec<(&'static str, String)>,
}

impl Told {
    /// A cause that says all.
    pub fn plain(error: OpError, cause: String) -> Told {
        Told { kind: error.kind.name(), status: error.status, operation: "", cause, facts: Vec::new() }
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_parts(f, self.operation, &self.cause, &self.facts)
    }
}

fn write_parts(f: &mut fmt::Formatter<'_>, operation: &str, cause: &str, facts: &[(&str, String)]) -> fmt::Result {
    let between = if operation.is_empty() { "" } else { ": " };
    write!(f, "{operation}{between}{cause}")?;
    facts.iter().try_for_each(|(name, value)| write!(f, ", {name}={value}"))
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|e| e as &(dyn std::error::Error + 'static))
    }
}
