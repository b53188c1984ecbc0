//! RPC-with-TLS (RFC 9289): a new connection is asked for TLS with a NULL call, and changes over before anything else.

use crate::options::{NfsOptions, Settings, Version, NFS_PORT};
use crate::rpc::{self, Refusal, Verifier, AUTH_NONE, NFS_PROGRAM, PROC_NULL};
use crate::security::Sec;
use crate::services;
use crate::transport::assemble;
use crate::xdr::{Decoder, Put};
use naslab_core::{limit, Error, ErrorKind, Result};
use naslab_wire::{chance, Tls, TlsOptions, Wire, TLS_OPERATION};
use std::path::PathBuf;

/// The flavour of the call that asks (section 4.1).
const AUTH_TLS: u32 = 7;
/// What a server says in its verifier that goes on with TLS.
const STARTTLS: &[u8] = b"STARTTLS";
/// The protocol inside, for ALPN (section 8.2).
const ALPN: &str = "sunrpc";
/// Longest answer.
const MAX_REPLY_BYTES: usize = 4096;

/// What protects connections below RPC, in the words of mount.nfs(8).
#[derive(Clone, Debug)]
pub(crate) enum Xprtsec {
    /// Nothing.
    None,
    /// TLS; the server has a certificate.
    Tls(Tls),
    /// TLS; both sides have one.
    Mtls(Tls),
}

impl Xprtsec {
    /// As users write it.
    pub fn name(&self) -> &'static str {
        match self {
            Xprtsec::None => "none",
            Xprtsec::Tls(_) => "tls",
            Xprtsec::Mtls(_) => "mtls",
        }
    }

    /// How connections change over, where they do.
    pub fn tls(&self) -> Option<&Tls> {
        match self {
            Xprtsec::None => None,
            Xprtsec::Tls(tls) | Xprtsec::Mtls(tls) => Some(tls),
        }
    }
}

/// Reads the files that TLS needs. No certificate of this side: None, and so for its key.
pub(crate) fn tls(authorities: Option<&str>, verifies: bool, identity: Option<(&str, &str)>) -> Result<Tls> {
    let file = |name: &str| PathBuf::from(name);
    Tls::new(&TlsOptions {
        alpn: ALPN,
        authorities: authorities.map(file),
        unchecked: !verifies,
        identity: identity.map(|(certificate, key)| (file(certificate), file(key))),
    })
}

/// A server's answer to the question for TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// The handshake comes next.
    Tls,
    /// It speaks the program in other versions only; of TLS this says nothing.
    OtherVersion(Refusal),
    /// It goes on in the clear, and why.
    No(String),
}

/// Asks whether the server of a program goes on with TLS. Harms nothing: a NULL call, which it may refuse.
pub(crate) fn ask(wire: &mut Wire, program: u32, version: u32) -> Result<Offer> {
    let xid = chance() as u32;
    let mut call = Vec::with_capacity(48);
    for word in [0, xid, rpc::CALL, rpc::RPC_VERSION, program, version, PROC_NULL, AUTH_TLS, 0, AUTH_NONE, 0] {
        call.put_u32(word);
    }
    rpc::seal(&mut call, 0, 0);
    wire.send(&[&call])?;
    wire.begin_message();
    let mut reply = Vec::new();
    assemble(wire, MAX_REPLY_BYTES, &mut reply)?;
    let (found, verifier, outcome) =
        rpc::reply_head(&mut Decoder::new(&reply)).map_err(|bad| bad.error(TLS_OPERATION))?;
    if found != xid {
        let message = "the server's reply breaks the protocol: it answers a call that was not made";
        return Err(Error::new(ErrorKind::Protocol, TLS_OPERATION, message));
    }
    Ok(offer(verifier, outcome))
}

fn offer(verifier: Verifier<'_>, outcome: std::result::Result<(), Refusal>) -> Offer {
    match outcome {
        Ok(()) if verifier.flavour == AUTH_NONE && verifier.body == STARTTLS => Offer::Tls,
        Ok(()) => Offer::No("it answers as if it had not been asked".to_string()),
        Err(refusal @ (Refusal::ProgramMismatch(..) | Refusal::ProgramUnavailable)) => Offer::OtherVersion(refusal),
        Err(Refusal::Auth(status)) => Offer::No(rpc::auth_name(status)),
        Err(refusal) => Offer::No(refusal.error(TLS_OPERATION, Sec::Sys).message),
    }
}

/// Changes a new connection of NFS over to TLS where the settings ask for it: nothing but the question was sent then.
///
/// Errors have the operation `TLS_OPERATION`, but for a server that does not speak this version of the program.
pub(crate) fn protect(wire: &mut Wire, settings: &Settings, program: u32, version: u32) -> Result<()> {
    let Some(tls) = settings.xprtsec.tls() else { return Ok(()) };
    match ask(wire, program, version).map_err(unanswered)? {
        Offer::Tls => wire.start_tls(tls, &settings.host).map(drop),
        Offer::OtherVersion(refusal) => Err(refusal.error("connect", settings.sec)),
        Offer::No(why) => Err(not_offered(&why)),
    }
}

/// The same of a service beside NFS, which goes on in the clear where it does not know TLS; whether it has changed over.
pub(crate) fn protect_if_offered(wire: &mut Wire, settings: &Settings, program: u32, version: u32) -> Result<bool> {
    let Some(tls) = settings.xprtsec.tls() else { return Ok(false) };
    match ask(wire, program, version)? {
        Offer::Tls => wire.start_tls(tls, &settings.host).map(|_| true),
        Offer::OtherVersion(_) | Offer::No(_) => Ok(false),
    }
}

/// Whether a server offers TLS, whatever the options say of it. Harms nothing.
///
/// Blocks up to the timeout. Errors are those of connecting and of a server that gives no answer.
pub fn offers_tls(options: &NfsOptions) -> Result<bool> {
    let settings = Settings::new(options)?;
    let _scope = limit::within(settings.timeout);
    let port = match settings.versions[..] {
        [Version::V3] => services::nfs3_port(&settings)?,
        _ => settings.port.unwrap_or(NFS_PORT),
    };
    let mut wire = services::dial_as_told(&settings, settings.address(0, 0), port)?;
    let mut offer = ask(&mut wire, NFS_PROGRAM, settings.versions[0].rpc())?;
    if matches!(offer, Offer::OtherVersion(_)) && settings.versions.contains(&Version::V3) {
        offer = ask(&mut wire, NFS_PROGRAM, Version::V3.rpc())?;
    }
    Ok(offer == Offer::Tls)
}

/// The error of a server that was asked and goes on in the clear.
fn not_offered(why: &str) -> Error {
    let message = format!(
        "the server does not offer TLS (RFC 9289: {why}): turn it on there, which Linux does with the service tlshd and \
         a certificate, or measure without it: xprtsec=none"
    );
    Error::new(ErrorKind::Unsupported, TLS_OPERATION, message)
}

/// The error of a question that was not answered.
fn unanswered(error: Error) -> Error {
    let message = match error.kind {
        ErrorKind::Disconnected => "the server closed the connection when it was asked for TLS: it does not offer TLS \
                                    (RFC 9289), or is just starting"
            .to_string(),
        ErrorKind::Timeout => format!("{} to the question whether it offers TLS (RFC 9289)", error.message),
        _ => error.message,
    };
    Error { operation: TLS_OPERATION, message, ..error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_starttls_is_an_offer() {
        let verifier = |flavour, body| Verifier { flavour, body };
        assert_eq!(offer(verifier(AUTH_NONE, STARTTLS), Ok(())), Offer::Tls);
        for (flavour, body) in [(AUTH_NONE, &b""[..]), (AUTH_NONE, b"STARTTLS0000"), (1, STARTTLS), (0, b"starttls")] {
            assert!(matches!(offer(verifier(flavour, body), Ok(())), Offer::No(_)), "{flavour} {body:?}");
        }
        let none = verifier(AUTH_NONE, b"");
        assert_eq!(offer(none, Err(Refusal::Auth(2))), Offer::No("AUTH_REJECTEDCRED".into()));
        let refusal = Refusal::ProgramMismatch(3, 3);
        assert_eq!(offer(none, Err(refusal)), Offer::OtherVersion(refusal));
        assert!(matches!(offer(verifier(AUTH_NONE, STARTTLS), Err(Refusal::SystemError)), Offer::No(_)));
    }
}
