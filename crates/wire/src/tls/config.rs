//! What all connections of a target have in common.

use super::{trust, TlsOptions, TLS_OPERATION};
use naslab_core::{Error, ErrorKind, Result};
use rustls::client::Resumption;
use rustls::{version, ClientConfig};
use std::fmt;
use std::sync::Arc;

/// How connections change over to TLS. Cheap to copy.
#[derive(Clone)]
pub struct Tls {
    pub(super) config: Arc<ClientConfig>,
    pub(super) alpn: &'static str,
}

impl fmt::Debug for Tls {
    /// Nothing of the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("alpn", &self.alpn).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the files that the options name; opens no connection.
    ///
    /// Errors: `Invalid` names the file that cannot be used, `Unsupported` a processor that lacks what is needed.
    pub fn new(options: &TlsOptions) -> Result<Tls> {
        let identity = trust::identity(options)?;
        let authorities = if options.unchecked { None } else { Some(trust::authorities(options)?) };
        if !graviola::util::is_cpu_supported() {
            return Err(Error::new(ErrorKind::Unsupported, TLS_OPERATION, NEEDS));
        }
        let provider = Arc::new(rustls_graviola::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_protocol_versions(&[&version::TLS13]).map_err(unusable)?;
        let builder = match authorities {
            Some(authorities) => builder.with_root_certificates(authorities),
            None => builder.dangerous().with_custom_certificate_verifier(Arc::new(trust::Unchecked(provider))),
        };
        let mut config = match identity {
            Some((chain, key)) => {
                builder.with_client_auth_cert(chain, key).map_err(|error| trust::unfit(options, &error))?
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![options.alpn.as_bytes().to_vec()];
        // Each connection proves all anew: what a reconnection costs is the same each time.
        config.resumption = Resumption::disabled();
        Ok(Tls { config: Arc::new(config), alpn: options.alpn })
    }
}

#[cfg(target_arch = "x86_64")]
const NEEDS: &str =
    "TLS needs a processor with AES, PCLMULQDQ, AVX2, BMI1 and ADX (from about 2014 on; virtual machines \
                     may hide them): measure without TLS here (xprtsec=none), or from another machine";
#[cfg(target_arch = "aarch64")]
const NEEDS: &str =
    "TLS needs a processor with AES, PMULL and SHA-2 instructions, which a Raspberry Pi 4 lacks: measure \
                     without TLS here (xprtsec=none), or from another machine";

fn unusable(error: rustls::Error) -> Error {
    Error::new(ErrorKind::Unsupported, TLS_OPERATION, format!("TLS cannot be set up: {error}"))
}
