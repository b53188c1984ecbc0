//! SMB 2.0.2 to 3.1.1, spoken directly from user space.
//!
//! [`SmbTarget`] is a share under test; each worker's session has its own connections. From the outside in:
//! `target` makes sessions, `addresses` says where their connections go, `dfs` which server a path leads to,
//! `negotiate` and `login` set a connection up, `session` and `slots` are the hot path of reads and writes, `calls`
//! everything else, `durable` what a server keeps of a lost connection, `link` and `receive` one connection's
//! messages, `window` its credits, `seal` and `crypto` what protects them. `codec`, `file`, `ioctl` and `ntlm` know
//! the layouts.
//!
//! The codecs are our own: about a dozen messages of fixed layout, bounded and fuzzed, against an asynchronous
//! runtime and sixty-five crates that the ready-made structures bring.

mod addresses;
mod calls;
mod codec;
mod crypto;
mod dfs;
mod durable;
mod file;
#[cfg(test)]
mod fuzz;
mod ioctl;
mod link;
mod login;
mod names;
mod negotiate;
mod ntlm;
mod options;
mod receive;
mod seal;
mod session;
mod shares;
mod slots;
mod speed;
mod spnego;
mod status;
mod target;
mod window;

pub use options::{Auth, Encrypt, Lease, Sign, SmbOptions};
pub use shares::{shares, Share};
pub use speed::cipher_speed;
pub use target::SmbTarget;
