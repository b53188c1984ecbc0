//! One TCP connection with deadlines and counted bytes, for the protocol clients.
//!
//! The hot path of SMB and NFS is the same: gather a header and a payload into one send, and take replies off
//! the socket so that the payload lands in the caller's memory. A [`Wire`] does this on one blocking socket
//! without allocating, in the clear or under TLS. Nothing here waits longer than the connection's timeout.

mod chance;
mod dial;
mod os;
pub mod reference;
mod tls;
mod wire;

pub use chance::chance;
pub use dial::{dial, DialOptions};
pub use tls::{Tls, TlsFacts, TlsOptions, TLS_OPERATION};
pub use wire::{ready, Ready, Wire};
