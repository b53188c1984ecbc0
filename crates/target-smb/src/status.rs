//! NTSTATUS values: their names, their classes, and what to do about them.

use naslab_core::{Error, ErrorKind, OpError};

/// Done.
pub(crate) const SUCCESS: u32 = 0;
/// The server works on it and answers later.
pub(crate) const PENDING: u32 = 0x0000_0103;
/// More data than the buffer takes; what fits was sent.
pub(crate) const BUFFER_OVERFLOW: u32 = 0x8000_0005;
/// A listing is at its end.
pub(crate) const NO_MORE_FILES: u32 = 0x8000_0006;
/// No name matches.
pub(crate) const NO_SUCH_FILE: u32 = 0xC000_000F;
/// Read at or past the end of the file.
pub(crate) const END_OF_FILE: u32 = 0xC000_0011;
/// Another round of the logon is needed.
pub(crate) const MORE_PROCESSING_REQUIRED: u32 = 0xC000_0016;
/// A value is out of the server's range.
pub(crate) const INVALID_INFO_CLASS: u32 = 0xC000_0003;
pub(crate) const INVALID_PARAMETER: u32 = 0xC000_000D;
/// Refused.
pub(crate) const ACCESS_DENIED: u32 = 0xC000_0022;
pub(crate) const INSUFFICIENT_RESOURCES: u32 = 0xC000_009A;
pub(crate) const LOGON_FAILURE: u32 = 0xC000_006D;
/// Not known to this server.
pub(crate) const NOT_SUPPORTED: u32 = 0xC000_00BB;
/// A name is taken.
pub(crate) const OBJECT_NAME_COLLISION: u32 = 0xC000_0035;
/// The client's name for an open is taken.
pub(crate) const DUPLICATE_OBJECTID: u32 = 0xC000_022A;
/// No such share.
pub(crate) const BAD_NETWORK_NAME: u32 = 0xC000_00CC;
/// The share was removed.
pub(crate) const NETWORK_NAME_DELETED: u32 = 0xC000_00C9;
/// Its storage does not answer the server.
pub(crate) const DEVICE_NOT_READY: u32 = 0xC000_00A3;
pub(crate) const IO_TIMEOUT: u32 = 0xC000_00B5;
/// A failover is under way.
pub(crate) const SERVER_UNAVAILABLE: u32 = 0xC000_0466;
pub(crate) const FILE_NOT_AVAILABLE: u32 = 0xC000_0467;
/// The server lacks memory or the like.
pub(crate) const INSUFF_SERVER_RESOURCES: u32 = 0xC000_0205;
/// The logon is too old.
pub(crate) const NETWORK_SESSION_EXPIRED: u32 = 0xC000_035C;
/// The server dropped the session.
pub(crate) const USER_SESSION_DELETED: u32 = 0xC000_0203;

/// One status: value, name, class, meaning.
type Row = (u32, &'static str, ErrorKind, &'static str);

const TABLE: &[Row] = &[
    (BUFFER_OVERFLOW, "STATUS_BUFFER_OVERFLOW", ErrorKind::Short, "the answer is longer than requested"),
    (NO_MORE_FILES, "STATUS_NO_MORE_FILES", ErrorKind::NotFound, "no more entries"),
    (0xC000_0001, "STATUS_UNSUCCESSFUL", ErrorKind::Io, "the server failed without giving a reason"),
    (0xC000_0002, "STATUS_NOT_IMPLEMENTED", ErrorKind::Unsupported, "the server cannot do this"),
    (INVALID_INFO_CLASS, "STATUS_INVALID_INFO_CLASS", ErrorKind::Unsupported, "the server cannot report this"),
    (0xC000_0008, "STATUS_INVALID_HANDLE", ErrorKind::Disconnected, "the server no longer knows this open file"),
    (INVALID_PARAMETER, "STATUS_INVALID_PARAMETER", ErrorKind::Invalid, "the server rejects a value as invalid"),
    (NO_SUCH_FILE, "STATUS_NO_SUCH_FILE", ErrorKind::NotFound, "there is no such file"),
    (0xC000_0010, "STATUS_INVALID_DEVICE_REQUEST", ErrorKind::Unsupported, "the server cannot do this here"),
    (END_OF_FILE, "STATUS_END_OF_FILE", ErrorKind::Short, "the file ends before this"),
    (ACCESS_DENIED, "STATUS_ACCESS_DENIED", ErrorKind::Permission, "the server does not allow this identity to do this"),
    (0xC000_0023, "STATUS_BUFFER_TOO_SMALL", ErrorKind::Invalid, "the answer does not fit"),
    (0xC000_0033, "STATUS_OBJECT_NAME_INVALID", ErrorKind::Invalid, "the server does not allow this name"),
    (0xC000_0034, "STATUS_OBJECT_NAME_NOT_FOUND", ErrorKind::NotFound, "nothing has this name"),
    (OBJECT_NAME_COLLISION, "STATUS_OBJECT_NAME_COLLISION", ErrorKind::Exists, "this name exists already"),
    (0xC000_0039, "STATUS_OBJECT_PATH_INVALID", ErrorKind::Invalid, "the server does not allow this path"),
    (0xC000_003A, "STATUS_OBJECT_PATH_NOT_FOUND", ErrorKind::NotFound, "a folder of the path does not exist"),
    (0xC000_003B, "STATUS_OBJECT_PATH_SYNTAX_BAD", ErrorKind::Invalid, "the server does not allow this path"),
    (0xC000_0043, "STATUS_SHARING_VIOLATION", ErrorKind::Permission, "somebody else has it open and does not share it"),
    (0xC000_0044, "STATUS_QUOTA_EXCEEDED", ErrorKind::NoSpace, "the quota is used up"),
    (0xC000_0054, "STATUS_FILE_LOCK_CONFLICT", ErrorKind::Permission, "somebody else holds a lock on this range"),
    (0xC000_0055, "STATUS_LOCK_NOT_GRANTED", ErrorKind::Permission, "somebody else holds a lock"),
    (0xC000_0056, "STATUS_DELETE_PENDING", ErrorKind::Permission, "it is being deleted: close its other handles"),
    (0xC000_0061, "STATUS_PRIVILEGE_NOT_HELD", ErrorKind::Permission, "this identity lacks a privilege for it"),
    (0xC000_006A, "STATUS_WRONG_PASSWORD", ErrorKind::Permission, "the server refuses this user name or password"),
    (LOGON_FAILURE, "STATUS_LOGON_FAILURE", ErrorKind::Permission, "the server refuses this user name or password"),
    (0xC000_006E, "STATUS_ACCOUNT_RESTRICTION", ErrorKind::Permission, "restrictions of this account forbid the logon"),
    (0xC000_006F, "STATUS_INVALID_LOGON_HOURS", ErrorKind::Permission, "this account may not log on at this hour"),
    (0xC000_0070, "STATUS_INVALID_WORKSTATION", ErrorKind::Permission, "this account may not log on from here"),
    (0xC000_0071, "STATUS_PASSWORD_EXPIRED", ErrorKind::Permission, "the password has expired: change it"),
    (0xC000_0072, "STATUS_ACCOUNT_DISABLED", ErrorKind::Permission, "this account is disabled on the server"),
    (0xC000_007F, "STATUS_DISK_FULL", ErrorKind::NoSpace, "the server's disk is full, or a quota is used up"),
    (INSUFFICIENT_RESOURCES, "STATUS_INSUFFICIENT_RESOURCES", ErrorKind::Io, "the server is out of memory or other resources"),
    (0xC000_009C, "STATUS_DEVICE_DATA_ERROR", ErrorKind::Io, "the server's disk failed to read the data"),
    (0xC000_00A2, "STATUS_MEDIA_WRITE_PROTECTED", ErrorKind::ReadOnly, "the server's file system is read-only"),
    (IO_TIMEOUT, "STATUS_IO_TIMEOUT", ErrorKind::Io, "the server's own storage did not answer in time"),
    (0xC000_00BA, "STATUS_FILE_IS_A_DIRECTORY", ErrorKind::Invalid, "it is a folder"),
    (NOT_SUPPORTED, "STATUS_NOT_SUPPORTED", ErrorKind::Unsupported, "the server does not support this"),
    (NETWORK_NAME_DELETED, "STATUS_NETWORK_NAME_DELETED", ErrorKind::Disconnected, "the server removed the share"),
    (0xC000_00CA, "STATUS_NETWORK_ACCESS_DENIED", ErrorKind::Permission, "the server denies access over the network"),
    (0xC000_00CB, "STATUS_BAD_DEVICE_TYPE", ErrorKind::Invalid, "the share is not a disk"),
    (BAD_NETWORK_NAME, "STATUS_BAD_NETWORK_NAME", ErrorKind::NotFound, "the server has no share of this name"),
    (
        0xC000_00D0,
        "STATUS_REQUEST_NOT_ACCEPTED",
        ErrorKind::Disconnected,
        "the server accepts no more connections or sessions",
    ),
    (0xC000_00D4, "STATUS_NOT_SAME_DEVICE", ErrorKind::Invalid, "it is on another file system"),
    (0xC000_0101, "STATUS_DIRECTORY_NOT_EMPTY", ErrorKind::Exists, "the folder is not empty"),
    (0xC000_0103, "STATUS_NOT_A_DIRECTORY", ErrorKind::NotFound, "a part of the path is not a folder"),
    (0xC000_0106, "STATUS_NAME_TOO_LONG", ErrorKind::Invalid, "the name is too long for the server"),
    (0xC000_011F, "STATUS_TOO_MANY_OPENED_FILES", ErrorKind::Io, "the server allows no more open files"),
    (0xC000_0120, "STATUS_CANCELLED", ErrorKind::Io, "the server cancelled it"),
    (0xC000_0121, "STATUS_CANNOT_DELETE", ErrorKind::Permission, "the file is read-only or may not be deleted"),
    (0xC000_0123, "STATUS_FILE_DELETED", ErrorKind::NotFound, "it was deleted"),
    (0xC000_0128, "STATUS_FILE_CLOSED", ErrorKind::Disconnected, "the server closed this handle"),
    (
        0xC000_015B,
        "STATUS_LOGON_TYPE_NOT_GRANTED",
        ErrorKind::Permission,
        "this account may not log on over the network",
    ),
    (
        0xC000_0190,
        "STATUS_TRUST_FAILURE",
        ErrorKind::Permission,
        "the server cannot reach the domain that knows this user",
    ),
    (0xC000_0193, "STATUS_ACCOUNT_EXPIRED", ErrorKind::Permission, "this account has expired"),
    (USER_SESSION_DELETED, "STATUS_USER_SESSION_DELETED", ErrorKind::Disconnected, "the server ended this session"),
    (INSUFF_SERVER_RESOURCES, "STATUS_INSUFF_SERVER_RESOURCES", ErrorKind::Io, "the server is out of resources"),
    (0xC000_0224, "STATUS_PASSWORD_MUST_CHANGE", ErrorKind::Permission, "the password must be changed first"),
    (0xC000_0234, "STATUS_ACCOUNT_LOCKED_OUT", ErrorKind::Permission, "this account is locked after wrong passwords"),
    (
        0xC000_0257,
        "STATUS_PATH_NOT_COVERED",
        ErrorKind::Unsupported,
        "the share is a DFS link: name the server behind it",
    ),
    (
        NETWORK_SESSION_EXPIRED,
        "STATUS_NETWORK_SESSION_EXPIRED",
        ErrorKind::Disconnected,
        "the logon of this session has expired: with Kerberos, renew the ticket (kinit) before a long run",
    ),
    (
        0xC05D_0000,
        "STATUS_SMB_NO_PREAUTH_HASH_OVERLAP",
        ErrorKind::Unsupported,
        "the server knows no common integrity hash",
    ),
    (
        0xC05D_0001,
        "STATUS_SMB_BAD_CLUSTER_DIALECT",
        ErrorKind::Unsupported,
        "the server's cluster refuses this dialect",
    ),
    (0x8000_002D, "STATUS_STOPPED_ON_SYMLINK", ErrorKind::Unsupported,
     "the path contains a symbolic link, which the client would have to follow: name the folder it points to"),
    (0xC000_000E, "STATUS_NO_SUCH_DEVICE", ErrorKind::Io, "the device behind the share is gone: check the server's disks"),
    (0xC000_0013, "STATUS_NO_MEDIA_IN_DEVICE", ErrorKind::Io, "the server's drive has no medium"),
    (0xC000_0017, "STATUS_NO_MEMORY", ErrorKind::Io, "the server is out of memory"),
    (0xC000_0032, "STATUS_DISK_CORRUPT_ERROR", ErrorKind::Io, "the server's file system is damaged: have it checked"),
    (0xC000_003F, "STATUS_CRC_ERROR", ErrorKind::Io, "the server's disk returned damaged data: check its health"),
    (0xC000_005E, "STATUS_NO_LOGON_SERVERS", ErrorKind::Permission,
     "the server reaches no domain controller that could check the login: look at the domain, or use a local account"),
    (0xC000_0064, "STATUS_NO_SUCH_USER", ErrorKind::Permission, "the server does not know this user name"),
    (DEVICE_NOT_READY, "STATUS_DEVICE_NOT_READY", ErrorKind::Io, "the server's disk is not ready: try again in a minute"),
    (0xC000_00A8, "STATUS_BAD_TOKEN_TYPE", ErrorKind::Permission,
     "the server is in no domain and takes no Kerberos tickets of a domain controller: join it to the domain"),
    (0xC000_00BC, "STATUS_REMOTE_NOT_LISTENING", ErrorKind::Disconnected, "the machine behind the server does not answer"),
    (0xC000_00BE, "STATUS_BAD_NETWORK_PATH", ErrorKind::NotFound, "the server does not find the machine behind this path"),
    (0xC000_00BF, "STATUS_NETWORK_BUSY", ErrorKind::Disconnected, "the server's network is too busy: try again later"),
    (0xC000_00CE, "STATUS_TOO_MANY_SESSIONS", ErrorKind::Disconnected, "the server accepts no more sessions"),
    (0xC000_00DF, "STATUS_NO_SUCH_DOMAIN", ErrorKind::Permission, "the server does not know this user's domain"),
    (0xC000_00E5, "STATUS_INTERNAL_ERROR", ErrorKind::Io, "internal error of the server: see its log"),
    (0xC000_0102, "STATUS_FILE_CORRUPT_ERROR", ErrorKind::Io, "the file is damaged on the server: have its file system checked"),
    (0xC000_0133, "STATUS_TIME_DIFFERENCE_AT_DC", ErrorKind::Permission,
     "the server's clock and the domain controller's differ too much: set them"),
    (0xC000_0155, "STATUS_LOGON_NOT_GRANTED", ErrorKind::Permission, "the server does not grant this login"),
    (0xC000_0185, "STATUS_IO_DEVICE_ERROR", ErrorKind::Io, "the server's disk failed: check its health"),
    (0xC000_018D, "STATUS_TRUSTED_RELATIONSHIP_FAILURE", ErrorKind::Permission,
     "the server's own membership in its domain is broken: join it again"),
    (0xC000_0192, "STATUS_NETLOGON_NOT_STARTED", ErrorKind::Permission, "the server's domain login service is not running"),
    (0xC000_020C, "STATUS_CONNECTION_DISCONNECTED", ErrorKind::Disconnected, "the server ended the connection"),
    (0xC000_020D, "STATUS_CONNECTION_RESET", ErrorKind::Disconnected, "the server ended the connection"),
    (0xC000_0225, "STATUS_NOT_FOUND", ErrorKind::NotFound, "nothing has this name"),
    (DUPLICATE_OBJECTID, "STATUS_DUPLICATE_OBJECTID", ErrorKind::Io, "the server has this open already, for another session"),
    (0xC000_0233, "STATUS_DOMAIN_CONTROLLER_NOT_FOUND", ErrorKind::Permission,
     "the server finds no domain controller that could check the login: look at the domain, or use a local account"),
    (0xC000_026D, "STATUS_DFS_UNAVAILABLE", ErrorKind::Unsupported,
     "the DFS service behind this path does not answer: name the server behind it"),
    (0xC000_026E, "STATUS_VOLUME_DISMOUNTED", ErrorKind::Disconnected, "the volume behind the share was removed"),
    (0xC000_0388, "STATUS_DOWNGRADE_DETECTED", ErrorKind::Permission,
     "the server suspects that somebody weakened the login on its path: check the network, or allow NTLM there"),
    (0xC000_0418, "STATUS_NTLM_BLOCKED", ErrorKind::Permission,
     "the server accepts only Kerberos logins: get a ticket with kinit and use auth=kerberos"),
    (0xC000_0465, "STATUS_INVALID_TOKEN", ErrorKind::Permission,
     "the server does not let this user of the domain be the local user that it maps it to: change the mapping there \
      (Samba: username map, min domain uid)"),
    (SERVER_UNAVAILABLE, "STATUS_SERVER_UNAVAILABLE", ErrorKind::Disconnected, "the server is not available: try again in a minute"),
    (FILE_NOT_AVAILABLE, "STATUS_FILE_NOT_AVAILABLE", ErrorKind::Disconnected,
     "the file is not available just now, as in a failover: try again in a minute"),
    (0xC000_0906, "STATUS_VIRUS_INFECTED", ErrorKind::Permission, "the server's virus scanner refuses the file"),
];

fn row(status: u32) -> Option<&'static Row> {
    TABLE.iter().find(|r| r.0 == status)
}

/// The class of a status.
pub(crate) fn kind(status: u32) -> ErrorKind {
    row(status).map_or(ErrorKind::Io, |r| r.2)
}

/// The name of a status, or its number.
pub(crate) fn name(status: u32) -> String {
    row(status).map_or_else(|| format!("NTSTATUS {status:#010x}"), |r| r.1.to_string())
}

/// What an operation's error means; None of one without a status.
pub(crate) fn explain(error: &OpError) -> Option<String> {
    let status = u32::try_from(error.status).ok().filter(|status| *status != 0)?;
    Some(self::error("", status).message)
}

/// The error of a call that the server answered with this status.
pub(crate) fn error(operation: &'static str, status: u32) -> Error {
    let message = match row(status) {
        // Of a connection it is a limit of their number, as Samba's `max connections`.
        Some((INSUFFICIENT_RESOURCES, name, ..)) if operation == "connect" => {
            format!("the server takes no more connections, or is out of memory ({name})")
        }
        Some((_, name, _, meaning)) => format!("{meaning} ({name})"),
        None => format!(
            "the server failed with a status that naslab does not know ({}): see the server's log",
            name(status)
        ),
    };
    Error { status: i64::from(status), ..Error::new(kind(status), operation, message) }
}

/// The copyable form for operations.
pub(crate) fn op_error(status: u32) -> OpError {
    OpError { kind: kind(status), status: i64::from(status) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_named_once_and_classified() {
        for (at, row) in TABLE.iter().enumerate() {
            assert!(TABLE[..at].iter().all(|r| r.0 != row.0 && r.1 != row.1), "{} twice", row.1);
            assert!(row.1.starts_with("STATUS_"));
        }
        assert_eq!(kind(0xC000_006D), ErrorKind::Permission);
        assert_eq!(kind(0xC000_0101), ErrorKind::Exists);
        assert_eq!(kind(0xC123_4567), ErrorKind::Io);
        assert_eq!(name(0xC123_4567), "NTSTATUS 0xc1234567");
        let unknown = super::error("read", 0xC123_4567).message;
        assert!(unknown.contains("does not know") && unknown.contains("0xc1234567"), "{unknown}");
        // What servers of companies and failing NAS answer has a name, a class of its own and words.
        for (status, class) in [
            (0xC000_0418, ErrorKind::Permission),
            (0xC000_005E, ErrorKind::Permission),
            (0x8000_002D, ErrorKind::Unsupported),
            (0xC000_026D, ErrorKind::Unsupported),
            (0xC000_0467, ErrorKind::Disconnected),
            (0xC000_0466, ErrorKind::Disconnected),
            (0xC000_00BF, ErrorKind::Disconnected),
            (0xC000_0185, ErrorKind::Io),
            (0xC000_026E, ErrorKind::Disconnected),
            (0xC000_0388, ErrorKind::Permission),
            (0xC000_0465, ErrorKind::Permission),
        ] {
            assert_eq!(kind(status), class, "{status:#x}");
            assert!(name(status).starts_with("STATUS_"), "{status:#x}");
        }
        let error = error("connect", BAD_NETWORK_NAME);
        assert_eq!((error.kind, error.status), (ErrorKind::NotFound, i64::from(BAD_NETWORK_NAME)));
        assert!(error.message.contains("STATUS_BAD_NETWORK_NAME"));
        // Samba says the same of a disk and of a quota.
        assert!(super::error("write", 0xC000_007F).message.contains("quota"));
    }
}
