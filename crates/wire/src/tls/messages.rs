//! What rustls reports, as sentences with the next step.

use super::{TlsFacts, TLS_OPERATION};
use naslab_core::{Error, ErrorKind};
use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, CipherSuite};

const UNTRUSTED: &str = "give its authority's file with tlscacert=FILE; tlsverify=off measures without the check";

/// The error of a connection to `host`, which may be empty once its certificate was taken.
pub(super) fn error(error: &rustls::Error, host: &str, operation: &'static str) -> Error {
    let (kind, message) = match error {
        rustls::Error::InvalidCertificate(why) => (ErrorKind::Permission, certificate(why, host)),
        rustls::Error::AlertReceived(AlertDescription::CloseNotify) => {
            (ErrorKind::Disconnected, crate::wire::CLOSED.to_string())
        }
        rustls::Error::AlertReceived(alert) => refused(*alert),
        rustls::Error::NoCertificatesPresented => {
            (ErrorKind::Permission, "the server has no TLS certificate: install one there".to_string())
        }
        rustls::Error::PeerIncompatible(why) => {
            let message = format!("the server speaks no TLS 1.3 that this client knows ({why:?}): update the server");
            (ErrorKind::Unsupported, message)
        }
        rustls::Error::PeerMisbehaved(rustls::PeerMisbehaved::SelectedUnofferedApplicationProtocol) => (
            ErrorKind::Protocol,
            "the server's TLS is for another protocol: check that this is its NFS port".to_string(),
        ),
        rustls::Error::DecryptError => {
            (ErrorKind::Protocol, "a TLS record from the server is damaged: it cannot be decrypted".to_string())
        }
        _ => (ErrorKind::Protocol, format!("what the server sends is not TLS as RFC 8446 says ({error})")),
    };
    Error::new(kind, operation, message)
}

/// Why a certificate is not taken.
fn certificate(why: &CertificateError, host: &str) -> String {
    match why {
        CertificateError::Expired => "the server's TLS certificate has expired: renew it there".to_string(),
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("the server's TLS certificate expired on {}: renew it there", date(*not_after))
        }
        CertificateError::NotValidYet => {
            "the server's TLS certificate is not valid yet: check the clocks of server and client".to_string()
        }
        CertificateError::NotValidYetContext { not_before, .. } => format!(
            "the server's TLS certificate is valid from {} on only: check the clocks of server and client",
            date(*not_before)
        ),
        CertificateError::UnknownIssuer => {
            format!("the server's TLS certificate comes from no authority that is trusted here: {UNTRUSTED}")
        }
        CertificateError::NotValidForName => {
            format!("the server's TLS certificate is not for {host}: name the server as the certificate does")
        }
        CertificateError::NotValidForNameContext { presented, .. } => format!(
            "the server's TLS certificate is for {}, not for {host}: name the server as the certificate does",
            names(presented)
        ),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "the server's TLS certificate is not one for servers: install one with the purpose serverAuth".to_string()
        }
        CertificateError::BadSignature => {
            "the server's TLS certificate or its proof is forged or damaged: its signature is wrong".to_string()
        }
        CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "the server's TLS certificate is an authority's own (self-signed): install one that an authority has \
             signed, or measure without the check with tlsverify=off"
                .to_string()
        }
        _ => format!("the server's TLS certificate cannot be used ({why:?}): replace it there"),
    }
}

/// Names in a certificate, as rustls writes them: `DnsName("nas.example.org")`.
fn names(presented: &[String]) -> String {
    let bare = |name: &String| match name.split_once('(') {
        Some((_, rest)) => rest.trim_end_matches(')').trim_matches('"').to_string(),
        None => name.clone(),
    };
    let mut all: Vec<String> = presented.iter().take(5).map(bare).collect();
    if all.is_empty() {
        all.push("no name at all".to_string());
    }
    all.join(", ")
}

/// Why the server ended it, as it says.
fn refused(alert: AlertDescription) -> (ErrorKind, String) {
    use AlertDescription as Alert;
    let message = match alert {
        Alert::CertificateRequired | Alert::NoCertificate => {
            "the server asks for a certificate of this client: give xprtsec=mtls with tlscert=FILE and tlskey=FILE"
                .to_string()
        }
        Alert::BadCertificate
        | Alert::UnsupportedCertificate
        | Alert::CertificateRevoked
        | Alert::CertificateExpired
        | Alert::CertificateUnknown
        | Alert::UnknownCA
        | Alert::AccessDenied => format!(
            "the server does not take this client's certificate ({alert:?}): give one with tlscert=FILE that an \
             authority it trusts has signed"
        ),
        Alert::NoApplicationProtocol => return (ErrorKind::Protocol, without_alpn("sunrpc").message),
        Alert::ProtocolVersion | Alert::HandshakeFailure | Alert::InsufficientSecurity => {
            let message = format!("the server shares no version or cipher of TLS 1.3 with this client ({alert:?})");
            return (ErrorKind::Unsupported, message);
        }
        _ => return (ErrorKind::Protocol, format!("the server ended TLS with the alert {alert:?}: see its log")),
    };
    (ErrorKind::Permission, message)
}

/// The error of a server that does not say that it speaks the protocol inside.
pub(super) fn without_alpn(alpn: &str) -> Error {
    let message = format!(
        "the server's TLS does not name the protocol {alpn} (ALPN), which RFC 9289 demands: check that this is its NFS \
         port, and update its TLS service"
    );
    Error::new(ErrorKind::Protocol, TLS_OPERATION, message)
}

/// An error of the connection under a handshake.
pub(super) fn in_handshake(error: Error) -> Error {
    let message = match error.kind {
        ErrorKind::Disconnected => "the server closed the connection in the TLS handshake: see its log".to_string(),
        ErrorKind::Timeout => format!("{} in the TLS handshake", error.message),
        _ => error.message,
    };
    Error { operation: TLS_OPERATION, message, ..error }
}

/// What was agreed on, in the names of IANA and in ours.
pub(super) fn facts(suite: Option<CipherSuite>) -> TlsFacts {
    let (cipher_suite, cipher) = match suite {
        Some(CipherSuite::TLS13_AES_128_GCM_SHA256) => ("TLS_AES_128_GCM_SHA256", "aes-128-gcm"),
        Some(CipherSuite::TLS13_AES_256_GCM_SHA384) => ("TLS_AES_256_GCM_SHA384", "aes-256-gcm"),
        Some(CipherSuite::TLS13_CHACHA20_POLY1305_SHA256) => ("TLS_CHACHA20_POLY1305_SHA256", "chacha20-poly1305"),
        _ => ("unknown", "unknown"),
    };
    TlsFacts { version: "1.3", cipher_suite, cipher }
}

/// The day in UTC, as 2026-11-30 (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days).
fn date(time: UnixTime) -> String {
    let days = time.as_secs() / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let (day, month) = (day_of_year - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    format!("{}-{month:02}-{day:02}", year_of_era + era * 400 + u64::from(month <= 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (days, expected) in
            [(0, "1970-01-01"), (11_016, "2000-02-29"), (20_787, "2026-11-30"), (47_540, "2100-02-28")]
        {
            assert_eq!(date(UnixTime::since_unix_epoch(Duration::from_secs(days * 86_400 + 5))), expected);
        }
    }

    #[test]
    fn every_failure_has_a_sentence_of_its_own_and_a_next_step() {
        let of = |why: CertificateError| error(&rustls::Error::InvalidCertificate(why), "nas", TLS_OPERATION);
        let presented = vec!["DnsName(\"a.example\")".to_string(), "IpAddress(192.0.2.1)".to_string()];
        let expected = rustls::pki_types::ServerName::try_from("nas").unwrap();
        let cases = [
            (of(CertificateError::Expired), "has expired"),
            (of(CertificateError::UnknownIssuer), "tlscacert=FILE"),
            (of(CertificateError::NotValidForName), "not for nas"),
            (
                of(CertificateError::NotValidForNameContext { expected, presented }),
                "for a.example, 192.0.2.1, not for nas",
            ),
            (of(CertificateError::NotValidYet), "clocks"),
            (error(&rustls::Error::DecryptError, "", "receive"), "damaged"),
            (
                error(&rustls::Error::AlertReceived(AlertDescription::CertificateRequired), "", "receive"),
                "xprtsec=mtls",
            ),
            (error(&rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol), "", "tls"), "ALPN"),
            (error(&rustls::Error::AlertReceived(AlertDescription::UnknownCA), "", "tls"), "tlscert=FILE"),
            (without_alpn("sunrpc"), "sunrpc"),
        ];
        for (found, words) in &cases {
            assert!(found.message.contains(words), "{found}");
        }
    }
}
