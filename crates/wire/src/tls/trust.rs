//! Which certificates are trusted, read from files and from the system.

use super::{TlsOptions, TLS_OPERATION};
use naslab_core::{Error, ErrorKind, Result};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature, CryptoProvider};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::path::Path;
use std::sync::Arc;

fn invalid(message: String, name: &'static str, path: &Path) -> Error {
    Error::new(ErrorKind::Invalid, TLS_OPERATION, message).with(name, path.display())
}

/// The error of a file that is not what an option says. Nothing of its content is in it.
fn unreadable(name: &'static str, path: &Path, what: &str, error: &pem::Error) -> Error {
    let why = match error {
        pem::Error::Io(error) => format!("cannot be read ({error}): give the path of a file that this user may read"),
        pem::Error::NoItemsFound => format!("holds no {what} in PEM form (-----BEGIN …-----): convert it with openssl"),
        _ => format!("is damaged: its {what} in PEM form cannot be decoded"),
    };
    invalid(format!("{name}={}: the file {why}", path.display()), name, path)
}

fn certificates(name: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let failed = |error: pem::Error| unreadable(name, path, "certificate", &error);
    let found = CertificateDer::pem_file_iter(path).map_err(failed)?.collect::<std::result::Result<Vec<_>, _>>();
    match found.map_err(failed)? {
        none if none.is_empty() => Err(failed(pem::Error::NoItemsFound)),
        found => Ok(found),
    }
}

/// This end's certificate and key.
pub(super) type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Reads what this end proves itself with.
pub(super) fn identity(options: &TlsOptions) -> Result<Option<Identity>> {
    let Some((certificate, key)) = &options.identity else { return Ok(None) };
    let chain = certificates("tlscert", certificate)?;
    let failed = |error: pem::Error| unreadable("tlskey", key, "private key without a passphrase", &error);
    Ok(Some((chain, PrivateKeyDer::from_pem_file(key).map_err(failed)?)))
}

/// The error of a key that is no key of the certificate, or of a kind that is not known.
pub(super) fn unfit(options: &TlsOptions, error: &rustls::Error) -> Error {
    let (certificate, key) = options.identity.clone().unwrap_or_default();
    let why = match error {
        rustls::Error::InconsistentKeys(_) => format!("is not the key of tlscert={}", certificate.display()),
        _ => "is of no kind that can be used: make one for RSA, ECDSA (P-256, P-384) or Ed25519".to_string(),
    };
    invalid(format!("tlskey={}: the private key {why}", key.display()), "tlskey", &key)
}

/// The authorities that a server's certificate must lead to.
pub(super) fn authorities(options: &TlsOptions) -> Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    match &options.authorities {
        Some(path) => {
            for certificate in certificates("tlscacert", path)? {
                store.add(certificate).map_err(|error| {
                    let message = format!("tlscacert={}: a certificate in it is damaged ({error})", path.display());
                    invalid(message, "tlscacert", path)
                })?;
            }
        }
        None => {
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if store.is_empty() {
                let message = "this system lists no trusted authorities: install its package ca-certificates, or give \
                               the file of the server's authority with tlscacert=FILE";
                return Err(Error::new(ErrorKind::Invalid, TLS_OPERATION, message));
            }
        }
    }
    Ok(store)
}

/// Takes any certificate; that its owner is at the other end is still proved.
#[derive(Debug)]
pub(super) struct Unchecked(pub Arc<CryptoProvider>);

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
