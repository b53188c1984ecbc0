//! What went wrong, in one line: the reason, and what to do.

use naslab_core::{Error, ErrorKind};

pub(crate) const SILENT_KDC: &str =
    "no KDC of the Kerberos realm answers: check the network and the realm's kdc in /etc/krb5.conf";

/// Routine errors of RFC 2744, as they lie in a major status.
const NO_CREDENTIAL: u32 = 7;
const CREDENTIAL_EXPIRED: u32 = 11;
pub(crate) const CONTEXT_EXPIRED: u32 = 12;

/// MIT's codes, counted from the base of their table.
const TABLE_BASE: i32 = -1_765_328_384;
const CLIENT_UNKNOWN: i32 = 6;
const SERVER_UNKNOWN: i32 = 7;
const TICKET_EXPIRED: i32 = 32;
const CLOCK_SKEW: i32 = 37;
const MODIFIED: i32 = 41;
const NO_MATCH_IN_CACHE: i32 = 141;
const REALM_UNKNOWN: i32 = 154;
const KDC_UNREACHABLE: i32 = 156;
const NO_KEY_IN_KEYTAB: i32 = 181;
const NO_CACHE: i32 = 195;
const HOST_REALM_UNKNOWN: i32 = 217;
const KDC_HAS_NO_ADDRESS: i32 = 220;
const NO_DEFAULT_REALM: i32 = 224;

/// Who wanted to log in where.
pub(crate) struct Asked {
    pub service: String,
    pub host: String,
    pub user: Option<String>,
}

impl Asked {
    /// The principal for `kinit`.
    fn principal(&self) -> String {
        match self.user.as_deref() {
            Some(user) if user.contains('@') => user.to_string(),
            Some(user) => format!("{user}@REALM"),
            None => "USER@REALM".to_string(),
        }
    }
}

/// The error of a failed call. `text`: what the library says of it.
pub(crate) fn explain(asked: &Asked, major: u32, minor: u32, text: &str) -> Error {
    let (kind, advice) = advice(asked, (major >> 16) & 0xFF, (minor as i32).wrapping_sub(TABLE_BASE));
    let message = if text.is_empty() { advice } else { format!("{advice} ({text})") };
    Error::new(kind, "connect", message)
}

fn advice(asked: &Asked, routine: u32, code: i32) -> (ErrorKind, String) {
    let Asked { service, host, .. } = asked;
    let kinit = format!("kinit {}", asked.principal());
    let whose = asked.user.as_ref().map_or_else(String::new, |user| format!(" of {user}"));
    let text = match code {
        TICKET_EXPIRED => format!("the Kerberos ticket{whose} has expired: {kinit}"),
        NO_CACHE | NO_MATCH_IN_CACHE | NO_KEY_IN_KEYTAB => format!("there is no Kerberos ticket{whose}: {kinit}"),
        CLIENT_UNKNOWN => {
            format!("the Kerberos realm does not know {}: check the name", asked.user.as_deref().unwrap_or("this user"))
        }
        SERVER_UNKNOWN => format!(
            "the Kerberos realm has no service {service}/{host}: name the server as its realm does, by its full host \
             name instead of an address or alias"
        ),
        CLOCK_SKEW => "the clock here differs too much from the KDC's or the server's: set both by NTP".to_string(),
        MODIFIED => format!("the key of {service}/{host} on the server is not the KDC's: renew the server's keytab"),
        REALM_UNKNOWN | HOST_REALM_UNKNOWN | KDC_HAS_NO_ADDRESS | NO_DEFAULT_REALM => format!(
            "the Kerberos realm of {host} cannot be found: name the realm and its kdc in /etc/krb5.conf, and the \
             server by its full host name"
        ),
        KDC_UNREACHABLE => return (ErrorKind::Timeout, SILENT_KDC.to_string()),
        _ if matches!(routine, CREDENTIAL_EXPIRED | CONTEXT_EXPIRED) => {
            format!("the Kerberos ticket{whose} has expired: {kinit}")
        }
        _ if routine == NO_CREDENTIAL => format!("there is no Kerberos ticket{whose}: {kinit}"),
        _ => format!("the Kerberos login at {service}/{host} failed: look at the ticket with klist"),
    };
    (ErrorKind::Permission, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(user: Option<&str>, major: u32, code: i32) -> (ErrorKind, String) {
        let asked = Asked { service: "cifs".into(), host: "nas.lab".into(), user: user.map(str::to_string) };
        let minor = if code == 0 { 0 } else { TABLE_BASE.wrapping_add(code) as u32 };
        let error = explain(&asked, major, minor, "as the library says");
        assert!(error.message.ends_with("(as the library says)") && !error.message.contains('\n'));
        (error.kind, error.message)
    }

    #[test]
    fn each_failure_says_what_to_do() {
        for (user, major, code, words) in [
            (None, NO_CREDENTIAL << 16, 0, ["no Kerberos ticket", "kinit USER@REALM"]),
            (Some("ann"), NO_CREDENTIAL << 16, NO_CACHE, ["ticket of ann:", "kinit ann@REALM"]),
            (Some("ann@T.LAB"), NO_CREDENTIAL << 16, NO_MATCH_IN_CACHE, ["ticket of ann@T.LAB:", "kinit ann@T.LAB"]),
            (None, CREDENTIAL_EXPIRED << 16, 0, ["has expired", "kinit"]),
            (None, CONTEXT_EXPIRED << 16, 0, ["has expired", "kinit"]),
            (None, 13 << 16, TICKET_EXPIRED, ["has expired", "kinit"]),
            (None, 13 << 16, SERVER_UNKNOWN, ["no service cifs/nas.lab", "full host name"]),
            (None, 13 << 16, CLOCK_SKEW, ["clock", "NTP"]),
            (None, 13 << 16, MODIFIED, ["cifs/nas.lab", "keytab"]),
            (None, 13 << 16, REALM_UNKNOWN, ["realm of nas.lab", "krb5.conf"]),
            (Some("ann"), 13 << 16, CLIENT_UNKNOWN, ["does not know ann", "check the name"]),
            (None, 13 << 16, 99, ["cifs/nas.lab failed", "klist"]),
        ] {
            let (kind, message) = said(user, major, code);
            assert!(words.iter().all(|word| message.contains(word)), "{message}");
            assert_eq!(kind, ErrorKind::Permission, "{message}");
        }
        assert_eq!(said(None, 13 << 16, KDC_UNREACHABLE).0, ErrorKind::Timeout);
    }
}
