//! TLS 1.3 (RFC 8446) on a connection that was opened in the clear, for protocols that change over to it.
//!
//! rustls speaks it, graviola has its arithmetic: both need no C compiler, on any system that naslab is built for. What
//! graviola asks of a processor is looked at when TLS is wanted, and never before.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod buffers;
#[cfg_attr(any(target_arch = "x86_64", target_arch = "aarch64"), path = "tls/config.rs")]
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), path = "tls/absent.rs")]
mod config;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod messages;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod session;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod trust;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) use config::Session;
pub use config::Tls;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) use session::Session;

use std::path::PathBuf;

/// Operation of errors that TLS makes: the server speaks it not, or not so that it can be trusted.
pub const TLS_OPERATION: &str = "tls";

/// How the server's certificate is checked, and what this end proves itself with.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// The protocol inside, as ALPN names it; a server that does not know it is refused.
    pub alpn: &'static str,
    /// File of the authorities that are trusted, PEM. `None`: those that the system trusts.
    pub authorities: Option<PathBuf>,
    /// Take any certificate: encrypted, but perhaps to somebody else.
    pub unchecked: bool,
    /// Files of this end's certificate (with those between it and its authority) and of its private key, PEM.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// What both ends agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsFacts {
    /// `1.3`.
    pub version: &'static str,
    /// As IANA registers it: `TLS_AES_256_GCM_SHA384`.
    pub cipher_suite: &'static str,
    /// The cipher of it: `aes-256-gcm`.
    pub cipher: &'static str,
}
