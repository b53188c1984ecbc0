//! Numbers of the operations of NFS 4.

pub(crate) use crate::replies::op4::{COMMIT, PUTFH, READ, SEQUENCE};

pub(crate) const CLOSE: u32 = 4;
pub(crate) const CREATE: u32 = 6;
pub(crate) const DELEGRETURN: u32 = 8;
pub(crate) const GETATTR: u32 = 9;
pub(crate) const GETFH: u32 = 10;
pub(crate) const LOOKUP: u32 = 15;
pub(crate) const NVERIFY: u32 = 17;
pub(crate) const OPEN: u32 = 18;
pub(crate) const OPEN_CONFIRM: u32 = 20;
pub(crate) const PUTROOTFH: u32 = 24;
pub(crate) const READDIR: u32 = 26;
pub(crate) const REMOVE: u32 = 28;
pub(crate) const RENAME: u32 = 29;
pub(crate) const RENEW: u32 = 30;
pub(crate) const SAVEFH: u32 = 32;
pub(crate) const SECINFO: u32 = 33;
pub(crate) const SETATTR: u32 = 34;
pub(crate) const SETCLIENTID: u32 = 35;
pub(crate) const SETCLIENTID_CONFIRM: u32 = 36;
pub(crate) const VERIFY: u32 = 37;
pub(crate) const BIND_CONN_TO_SESSION: u32 = 41;
pub(crate) const EXCHANGE_ID: u32 = 42;
pub(crate) const CREATE_SESSION: u32 = 43;
pub(crate) const DESTROY_SESSION: u32 = 44;
pub(crate) const FREE_STATEID: u32 = 45;
pub(crate) const TEST_STATEID: u32 = 55;
pub(crate) const DESTROY_CLIENTID: u32 = 57;
pub(crate) const RECLAIM_COMPLETE: u32 = 58;
pub(crate) const COPY: u32 = 60;
/// What a server calls an operation that it does not know.
pub(crate) const ILLEGAL: u32 = 10044;
