//! nfsstat: names, and the class of error each belongs to. Versions 3 and 4 share their numbers.

use crate::security::Sec;
use naslab_core::{Error, ErrorKind, OpError};

/// Success.
pub(crate) const OK: u32 = 0;
/// No such file.
pub(crate) const NOENT: u32 = 2;
/// Permission denied.
pub(crate) const ACCES: u32 = 13;
/// Not a folder.
pub(crate) const NOTDIR: u32 = 20;
/// A folder.
pub(crate) const ISDIR: u32 = 21;
/// The handle's file is gone.
pub(crate) const STALE: u32 = 70;
/// The operation is not offered.
pub(crate) const NOTSUPP: u32 = 10004;
/// Come back later: JUKEBOX of NFS 3, DELAY of NFS 4.
pub(crate) const DELAY: u32 = 10008;
/// The attributes are as said (NVERIFY).
pub(crate) const SAME: u32 = 10009;
/// The server waits for clients to reclaim what they had.
pub(crate) const GRACE: u32 = 10013;
/// The handle was volatile and has expired.
pub(crate) const FHEXPIRED: u32 = 10014;
/// The minor version is not spoken.
pub(crate) const MINOR_VERS_MISMATCH: u32 = 10021;
/// The attributes are not as said (VERIFY).
pub(crate) const NOT_SAME: u32 = 10027;
/// A symbolic link where a folder is needed.
pub(crate) const SYMLINK: u32 = 10029;
/// No such operation.
pub(crate) const OP_ILLEGAL: u32 = 10044;
/// The server takes the call for the repetition of one whose answer it did not keep.
const RETRY_UNCACHED_REP: u32 = 10068;
/// The server takes the call for the repetition of one that was another.
const SEQ_FALSE_RETRY: u32 = 10076;
/// The export does not take the security flavour.
pub(crate) const WRONGSEC: u32 = 10016;
/// The handle means nothing.
pub(crate) const BADHANDLE: u32 = 10001;
/// The lease has ended, and with it what the client had.
pub(crate) const EXPIRED: u32 = 10011;
/// The client is not known.
pub(crate) const STALE_CLIENTID: u32 = 10022;
/// An open is of the time before a restart.
pub(crate) const STALE_STATEID: u32 = 10023;
/// An open has changed since.
pub(crate) const OLD_STATEID: u32 = 10024;
/// No such open.
pub(crate) const BAD_STATEID: u32 = 10025;
/// An administrator ended the open.
pub(crate) const ADMIN_REVOKED: u32 = 10047;
/// A delegation was ended without its holder.
pub(crate) const DELEG_REVOKED: u32 = 10087;
/// The session is not known.
pub(crate) const BADSESSION: u32 = 10052;
/// A call is not the next one of its slot, or a CREATE_SESSION not that of its client.
pub(crate) const SEQ_MISORDERED: u32 = 10063;
/// The session is about to end.
pub(crate) const DEADSESSION: u32 = 10078;
/// The connection does not belong to the session.
pub(crate) const CONN_NOT_BOUND_TO_SESSION: u32 = 10055;

/// The error of an address that leads elsewhere.
pub(crate) fn another_server(first: &str, address: &str) -> Error {
    let message =
        format!("{address} is another server than {first}, or shows another folder: leave it out of address=");
    Error::new(ErrorKind::Invalid, "connect", message)
}

/// `(status, name without prefix, class)` of everything the RFCs know.
const TABLE: &[(u32, &str, ErrorKind)] = {
    use ErrorKind::*;
    &[
        (1, "PERM", Permission),
        (2, "NOENT", NotFound),
        (5, "IO", Io),
        (6, "NXIO", Io),
        (13, "ACCES", Permission),
        (17, "EXIST", Exists),
        (18, "XDEV", Invalid),
        (19, "NODEV", Io),
        (20, "NOTDIR", NotFound),
        (21, "ISDIR", Invalid),
        (22, "INVAL", Invalid),
        (27, "FBIG", NoSpace),
        (28, "NOSPC", NoSpace),
        (30, "ROFS", ReadOnly),
        (31, "MLINK", Io),
        (63, "NAMETOOLONG", Invalid),
        (66, "NOTEMPTY", Exists),
        (69, "DQUOT", NoSpace),
        (70, "STALE", Io),
        (71, "REMOTE", Io),
        (10001, "BADHANDLE", Io),
        (10002, "NOT_SYNC", Io),
        (10003, "BAD_COOKIE", Io),
        (10004, "NOTSUPP", Unsupported),
        (10005, "TOOSMALL", Invalid),
        (10006, "SERVERFAULT", Io),
        (10007, "BADTYPE", Invalid),
        (10008, "DELAY", Delayed),
        (10009, "SAME", Invalid),
        (10010, "DENIED", Io),
        (10011, "EXPIRED", Disconnected),
        (10012, "LOCKED", Io),
        (10013, "GRACE", Delayed),
        (10014, "FHEXPIRED", Io),
        (10015, "SHARE_DENIED", Permission),
        (10016, "WRONGSEC", Permission),
        (10017, "CLID_INUSE", Permission),
        (10018, "RESOURCE", Io),
        (10019, "MOVED", Io),
        (10020, "NOFILEHANDLE", Protocol),
        (10021, "MINOR_VERS_MISMATCH", Unsupported),
        (10022, "STALE_CLIENTID", Disconnected),
        (10023, "STALE_STATEID", Disconnected),
        (10024, "OLD_STATEID", Io),
        (10025, "BAD_STATEID", Io),
        (10026, "BAD_SEQID", Protocol),
        (10027, "NOT_SAME", Invalid),
        (10028, "LOCK_RANGE", Invalid),
        (10029, "SYMLINK", Invalid),
        (10030, "RESTOREFH", Protocol),
        (10031, "LEASE_MOVED", Io),
        (10032, "ATTRNOTSUPP", Unsupported),
        (10033, "NO_GRACE", Io),
        (10034, "RECLAIM_BAD", Io),
        (10035, "RECLAIM_CONFLICT", Io),
        (10036, "BADXDR", Protocol),
        (10037, "LOCKS_HELD", Io),
        (10038, "OPENMODE", Permission),
        (10039, "BADOWNER", Invalid),
        (10040, "BADCHAR", Invalid),
        (10041, "BADNAME", Invalid),
        (10042, "BAD_RANGE", Invalid),
        (10043, "LOCK_NOTSUPP", Unsupported),
        (10044, "OP_ILLEGAL", Unsupported),
        (10045, "DEADLOCK", Io),
        (10046, "FILE_OPEN", Io),
        (10047, "ADMIN_REVOKED", Disconnected),
        (10048, "CB_PATH_DOWN", Io),
        (10049, "BADIOMODE", Invalid),
        (10050, "BADLAYOUT", Invalid),
        (10051, "BAD_SESSION_DIGEST", Protocol),
        (10052, "BADSESSION", Disconnected),
        (10053, "BADSLOT", Protocol),
        (10054, "COMPLETE_ALREADY", Io),
        (10055, "CONN_NOT_BOUND_TO_SESSION", Disconnected),
        (10056, "DELEG_ALREADY_WANTED", Io),
        (10057, "BACK_CHAN_BUSY", Io),
        (10058, "LAYOUTTRYLATER", Delayed),
        (10059, "LAYOUTUNAVAILABLE", Unsupported),
        (10060, "NOMATCHING_LAYOUT", Io),
        (10061, "RECALLCONFLICT", Io),
        (10062, "UNKNOWN_LAYOUTTYPE", Unsupported),
        (10063, "SEQ_MISORDERED", Disconnected),
        (10064, "SEQUENCE_POS", Protocol),
        (10065, "REQ_TOO_BIG", Invalid),
        (10066, "REP_TOO_BIG", Invalid),
        (10067, "REP_TOO_BIG_TO_CACHE", Invalid),
        (10068, "RETRY_UNCACHED_REP", Io),
        (10069, "UNSAFE_COMPOUND", Io),
        (10070, "TOO_MANY_OPS", Invalid),
        (10071, "OP_NOT_IN_SESSION", Protocol),
        (10072, "HASH_ALG_UNSUPP", Unsupported),
        (10074, "CLIENTID_BUSY", Io),
        (10075, "PNFS_IO_HOLE", Io),
        (10076, "SEQ_FALSE_RETRY", Protocol),
        (10077, "BAD_HIGH_SLOT", Protocol),
        (10078, "DEADSESSION", Disconnected),
        (10079, "ENCR_ALG_UNSUPP", Unsupported),
        (10080, "PNFS_NO_LAYOUT", Io),
        (10081, "NOT_ONLY_OP", Protocol),
        (10082, "WRONG_CRED", Permission),
        (10083, "WRONG_TYPE", Invalid),
        (10084, "DIRDELEG_UNAVAIL", Unsupported),
        (10085, "REJECT_DELEG", Io),
        (10086, "RETURNCONFLICT", Io),
        (10087, "DELEG_REVOKED", Disconnected),
        (10088, "PARTNER_NOTSUPP", Unsupported),
        (10089, "PARTNER_NO_AUTH", Permission),
        (10090, "UNION_NOTSUPP", Unsupported),
        (10091, "OFFLOAD_DENIED", Permission),
        (10092, "WRONG_LFS", Invalid),
        (10093, "BADLABEL", Invalid),
        (10094, "OFFLOAD_NO_REQS", Io),
    ]
};

fn find(status: u32) -> Option<&'static (u32, &'static str, ErrorKind)> {
    TABLE.binary_search_by_key(&status, |entry| entry.0).ok().map(|at| &TABLE[at])
}

/// Whether a server that answers so takes a new call for the repetition of an old one.
pub(crate) fn is_repetition(status: u32) -> bool {
    matches!(status, RETRY_UNCACHED_REP | SEQ_FALSE_RETRY)
}

/// The class of a status.
pub(crate) fn kind(status: u32) -> ErrorKind {
    find(status).map_or(ErrorKind::Io, |entry| entry.2)
}

/// The status of one operation in the hot loop.
pub(crate) fn op_error(status: u32) -> OpError {
    OpError { kind: kind(status), status: status.into() }
}

/// Name as in the RFCs: `NFS3ERR_NOENT`, `NFS4ERR_GRACE`.
pub(crate) fn name(version_4: bool, status: u32) -> String {
    let prefix = if version_4 { "NFS4ERR" } else { "NFS3ERR" };
    match find(status) {
        Some((10008, ..)) if !version_4 => "NFS3ERR_JUKEBOX".into(),
        Some((_, name, _)) => format!("{prefix}_{name}"),
        None => format!("{prefix} {status}"),
    }
}

/// What the status means for the user, where its name does not say it.
fn meaning(status: u32) -> &'static str {
    match status {
        1 | 13 => ": this user may not do that",
        2 => ": it does not exist",
        17 => ": it exists already",
        20 => ": a part of the path is not a folder",
        21 => ": it is a folder",
        28 | 69 => ": no space or quota is left",
        30 => ": the export is read-only",
        63 => ": a name is longer than the server allows",
        66 => ": the folder is not empty",
        70 | 10014 => ": the file was removed or the server lost it",
        10008 => ": the server is temporarily busy",
        10013 => ": the server has just started and lets old clients reclaim their files",
        10011 | 10022 | 10023 | 10047 | 10052 | 10078 | 10087 => {
            ": the server has forgotten this client; connect again"
        }
        10016 => ": the export does not take this security flavour; give another: ?sec=sys, krb5, krb5i or krb5p",
        _ => "",
    }
}

/// The error of a call.
pub(crate) fn error(operation: &'static str, version_4: bool, status: u32) -> Error {
    let message = format!("{}{}", name(version_4, status), meaning(status));
    Error { status: status.into(), ..Error::new(kind(status), operation, message) }
}

/// The error of an export that does not take the session's flavour. `taken`: those that it does take.
pub(crate) fn wrong_security(operation: &'static str, sec: Sec, taken: &str) -> Error {
    let message = format!("the export takes {taken}, not sec={}: give ?sec={taken}", sec.name());
    Error { message, ..error(operation, true, WRONGSEC) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_classes_fit() {
        assert!(TABLE.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let classes = [
            (NOENT, ErrorKind::NotFound),
            (ACCES, ErrorKind::Permission),
            (66, ErrorKind::Exists),
            (69, ErrorKind::NoSpace),
            (30, ErrorKind::ReadOnly),
            (63, ErrorKind::Invalid),
            (DELAY, ErrorKind::Delayed),
            (GRACE, ErrorKind::Delayed),
            (10052, ErrorKind::Disconnected),
            (4711, ErrorKind::Io),
        ];
        for (status, class) in classes {
            assert_eq!(kind(status), class, "{status}");
        }
        assert_eq!(name(false, DELAY), "NFS3ERR_JUKEBOX");
        assert_eq!(name(true, DELAY), "NFS4ERR_DELAY");
        assert_eq!(name(true, 4711), "NFS4ERR 4711");
        let stale = error("read", false, STALE);
        assert_eq!(stale.status, 70);
        assert!(stale.message.contains("removed"));
    }
}
