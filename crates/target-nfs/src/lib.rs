//! NFS 3, 4.0, 4.1 and 4.2, spoken directly from user space.
//!
//! [`NfsTarget`] is an export or a folder below it. Its sessions have one hot path for all versions: requests are
//! gathered and leave with few system calls, payloads go from and to the caller's memory without a copy, and nothing
//! is allocated per operation. There is no cache: every operation goes to the server.
//!
//! Nothing is repeated or waited for in silence. In the data path a server's DELAY, JUKEBOX or GRACE ends the
//! operation with an error; set-up and metadata calls ask again for as long as the timeout allows and count each wait.
//! Write verifiers are compared at each COMMIT. Layouts (pNFS) and delegations are never asked for.

mod calls;
mod data;
mod dialect;
mod events;
mod exports;
mod files;
mod folders;
#[cfg(test)]
mod hostile;
mod link;
mod login;
mod options;
mod os;
mod protect;
mod reclaim;
mod replies;
mod rpc;
mod security;
mod services;
mod session;
mod status;
mod target;
mod transport;
mod v3;
mod v4;
mod xdr;

pub use exports::exports;
pub use options::NfsOptions;
pub use protect::offers_tls;
pub use services::Export;
pub use target::NfsTarget;
