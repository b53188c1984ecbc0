//! What a target is made from, and its check.

use crate::crypto::{CipherId, SigningId};
use crate::dfs::Place;
use naslab_core::{Error, ErrorKind, Result};
use serde::Deserialize;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// Most operations that one session holds in flight.
pub(crate) const MAX_DEPTH: u32 = 4096;
/// Most connections of one session.
pub(crate) const MAX_CONNECTIONS: u32 = 32;

/// How an identity is shown to the server.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Auth {
    /// User name and password, NTLMv2.
    Ntlm,
    /// Whoever the server lets in as its guest.
    Guest,
    /// No name at all.
    Anonymous,
    /// A Kerberos ticket from the system's ticket cache or client keytab.
    Kerberos,
}

impl Auth {
    /// Whether the login gives a key to sign and encrypt with.
    pub(crate) fn has_key(self) -> bool {
        matches!(self, Auth::Ntlm | Auth::Kerberos)
    }
}

/// Whether messages are signed.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Sign {
    /// When the server demands it.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never; an error where the server demands it.
    Off,
}

/// Whether messages are encrypted.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Encrypt {
    /// When the server or the share requires it.
    #[default]
    Auto,
    /// Never; an error where it is demanded.
    Off,
    /// When the server can.
    Preferred,
    /// Always; an error where the server cannot.
    Required,
}

/// Which cache rights are asked for with each open file.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Lease {
    /// None.
    #[default]
    None,
    /// Read, write and handle (a batch oplock where the dialect has no leases). Nothing is cached on the client.
    Rwh,
}

impl Lease {
    /// The rights that are asked for, in words. keep: of files that the server is to keep for a lost connection.
    pub(crate) fn asked(self, keep: bool) -> &'static str {
        match (self, keep) {
            (Lease::Rwh, _) => "read, write and handle",
            (Lease::None, true) => "read and handle",
            (Lease::None, false) => "none",
        }
    }
}

/// Options of one SMB target.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SmbOptions {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Share; only `shares` does without.
    pub share: Option<String>,
    /// Folder inside the share, parts separated by `/`; empty for its top.
    pub root: String,
    /// User name; none means anonymous, or with Kerberos whom the default ticket is of.
    pub user: Option<String>,
    /// Password.
    pub password: Option<String>,
    /// Domain or workgroup of the user.
    pub domain: String,
    /// How to log on; by default NTLMv2 with a user name and anonymous without.
    pub auth: Option<Auth>,
    /// The only dialect offered, as `3.1.1`; none offers all.
    pub dialect: Option<String>,
    /// Signing.
    pub sign: Sign,
    /// The only signing algorithm offered: `hmac-sha256`, `aes-cmac`, `aes-gmac`.
    pub signing_algorithm: Option<String>,
    /// Encryption.
    pub encrypt: Encrypt,
    /// The only cipher offered: `aes-128-ccm`, `aes-128-gcm`, `aes-256-ccm`, `aes-256-gcm`.
    pub cipher: Option<String>,
    /// TCP connections of each session, 1 to 32; 0 with `addresses`: one to each.
    pub connections: u32,
    /// Names or addresses of the server, which the connections of each session take in turn, instead of `host`;
    /// `auto` alone: those that the server lists.
    pub addresses: Vec<String>,
    /// With several connections: one session bound to all of them where the server offers it. Otherwise each
    /// connection has a session and handles of its own.
    pub multichannel: bool,
    /// Cache rights asked for.
    pub lease: Lease,
    /// Whether DFS links are followed to the server behind them, at the same port.
    pub dfs: bool,
    /// Longest wait for an answer, in nanoseconds.
    pub timeout_ns: u64,
    /// Operations one session must be able to hold in flight; credits are asked for accordingly.
    pub depth: u32,
}

impl Default for SmbOptions {
    fn default() -> SmbOptions {
        SmbOptions {
            host: String::new(),
            port: 445,
            share: None,
            root: String::new(),
            user: None,
            password: None,
            domain: String::new(),
            auth: None,
            dialect: None,
            sign: Sign::Auto,
            signing_algorithm: None,
            encrypt: Encrypt::Auto,
            cipher: None,
            connections: 1,
            addresses: Vec::new(),
            multichannel: true,
            lease: Lease::None,
            dfs: true,
            timeout_ns: 30_000_000_000,
            depth: 32,
        }
    }
}

impl SmbOptions {
    /// The same at another place.
    pub(crate) fn moved(&self, to: &Place) -> SmbOptions {
        let (share, root) = (Some(to.share.clone()), to.folder.clone());
        SmbOptions { host: to.host.clone(), share, root, ..self.clone() }
    }
}

impl fmt::Debug for SmbOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmbOptions")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("share", &self.share)
            .field("root", &self.root)
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "(hidden)"))
            .field("domain", &self.domain)
            .field("auth", &self.auth)
            .field("dialect", &self.dialect)
            .field("sign", &self.sign)
            .field("signing_algorithm", &self.signing_algorithm)
            .field("encrypt", &self.encrypt)
            .field("cipher", &self.cipher)
            .field("connections", &self.connections)
            .field("addresses", &self.addresses)
            .field("multichannel", &self.multichannel)
            .field("lease", &self.lease)
            .field("dfs", &self.dfs)
            .field("timeout_ns", &self.timeout_ns)
            .field("depth", &self.depth)
            .finish()
    }
}

/// A version of the protocol, in the order of age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Dialect {
    D202,
    D210,
    D300,
    D302,
    D311,
}

impl Dialect {
    pub const ALL: [Dialect; 5] = [Dialect::D202, Dialect::D210, Dialect::D300, Dialect::D302, Dialect::D311];

    /// Its number on the wire.
    pub fn code(self) -> u16 {
        match self {
            Dialect::D202 => 0x0202,
            Dialect::D210 => 0x0210,
            Dialect::D300 => 0x0300,
            Dialect::D302 => 0x0302,
            Dialect::D311 => 0x0311,
        }
    }

    /// Its name in options and results.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::D202 => "2.0.2",
            Dialect::D210 => "2.1",
            Dialect::D300 => "3.0",
            Dialect::D302 => "3.0.2",
            Dialect::D311 => "3.1.1",
        }
    }

    pub fn from_code(code: u16) -> Option<Dialect> {
        Dialect::ALL.into_iter().find(|d| d.code() == code)
    }
}

/// Opens that asked for a lease or an oplock, and those of them that got one or part of one.
#[derive(Default)]
pub(crate) struct LeaseCounts {
    asked: AtomicU64,
    granted: AtomicU64,
}

impl LeaseCounts {
    pub fn count(&self, granted: bool) {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.granted.fetch_add(u64::from(granted), Ordering::Relaxed);
    }

    /// For the result; none where none was asked for.
    pub fn facts(&self) -> Vec<(String, String)> {
        match self.asked.load(Ordering::Relaxed) {
            0 => Vec::new(),
            asked => {
                let granted = self.granted.load(Ordering::Relaxed);
                [("leases_asked", asked), ("leases_granted", granted)].map(|(k, v)| (k.into(), v.to_string())).into()
            }
        }
    }
}

/// Checked options: names are values now.
#[derive(Clone)]
pub(crate) struct Plan {
    pub options: SmbOptions,
    pub auth: Auth,
    pub dialect: Option<Dialect>,
    pub signing: Option<SigningId>,
    pub cipher: Option<CipherId>,
    pub timeout: Duration,
    /// Of all sessions.
    pub leases: Arc<LeaseCounts>,
}

pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, "smb", message)
}

fn unsupported(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unsupported, "smb", message)
}

impl Plan {
    /// Checks options without any I/O. `Invalid` for values that are wrong or contradict each other,
    /// `Unsupported` for SMB1 and ciphers that a pinned dialect does not know.
    pub fn new(options: SmbOptions) -> Result<Plan> {
        if options.host.is_empty() {
            return Err(invalid("no host: write smb://HOST/SHARE"));
        }
        let dialect = options.dialect.as_deref().map(parse_dialect).transpose()?;
        let signing = options.signing_algorithm.as_deref().map(parse_signing).transpose()?;
        let cipher = options.cipher.as_deref().map(parse_cipher).transpose()?;
        crate::addresses::check(&options)?;
        if !(1..=MAX_DEPTH).contains(&options.depth) {
            return Err(invalid(format!("depth={} is not 1 to {MAX_DEPTH}", options.depth)));
        }
        if options.timeout_ns == 0 {
            return Err(invalid("timeout_ns=0: give the server some time"));
        }
        let timeout = Duration::from_nanos(options.timeout_ns);
        let plan =
            Plan { auth: choose_auth(&options)?, dialect, signing, cipher, timeout, leases: Arc::default(), options };
        plan.check_security()?;
        plan.check_names()?;
        Ok(plan)
    }

    fn check_security(&self) -> Result<()> {
        let options = &self.options;
        if !self.auth.has_key() && options.sign == Sign::On {
            return Err(invalid("sign=on needs a user and a password: guests and anonymous sessions have no key"));
        }
        if !self.auth.has_key() && options.encrypt == Encrypt::Required {
            return Err(invalid("encrypt=required needs a user and a password: guests have no key"));
        }
        if options.sign == Sign::Off && self.signing.is_some() {
            return Err(invalid("signing_algorithm contradicts sign=off"));
        }
        if options.encrypt == Encrypt::Off && self.cipher.is_some() {
            return Err(invalid("cipher contradicts encrypt=off"));
        }
        if let Some(dialect) = self.dialect {
            check_cipher(dialect, self.cipher, options.encrypt)?;
            check_signing(dialect, self.signing)?;
        }
        Ok(())
    }

    fn check_names(&self) -> Result<()> {
        if let Some(share) = &self.options.share {
            if share.is_empty() || share.contains(['/', '\\']) {
                return Err(invalid("a share's name has no slash in it").with("share", share));
            }
        }
        crate::names::check(&self.options.root)
    }
}

/// Whether this dialect knows this cipher, and encryption at all where it is demanded.
pub(crate) fn check_cipher(dialect: Dialect, cipher: Option<CipherId>, encrypt: Encrypt) -> Result<()> {
    if dialect < Dialect::D300 && (encrypt == Encrypt::Required || cipher.is_some()) {
        return Err(unsupported(format!("SMB {} has no encryption: use dialect=3.0 or later", dialect.name())));
    }
    match cipher {
        Some(cipher) if dialect < Dialect::D311 && cipher != CipherId::Aes128Ccm => Err(unsupported(format!(
            "SMB {} knows only the cipher aes-128-ccm: use it or dialect=3.1.1 for {}",
            dialect.name(),
            cipher.name()
        ))),
        _ => Ok(()),
    }
}

/// Whether this dialect knows this way of signing.
pub(crate) fn check_signing(dialect: Dialect, signing: Option<SigningId>) -> Result<()> {
    let only = match dialect {
        Dialect::D202 | Dialect::D210 => SigningId::HmacSha256,
        Dialect::D300 | Dialect::D302 => SigningId::AesCmac,
        Dialect::D311 => return Ok(()),
    };
    match signing {
        Some(asked) if asked != only => Err(unsupported(format!(
            "SMB {} signs only with {}: use it or dialect=3.1.1 for {}",
            dialect.name(),
            only.name(),
            asked.name()
        ))),
        _ => Ok(()),
    }
}

fn choose_auth(options: &SmbOptions) -> Result<Auth> {
    let auth = options.auth.unwrap_or(if options.user.is_some() { Auth::Ntlm } else { Auth::Anonymous });
    match auth {
        Auth::Kerberos if options.password.is_some() => {
            Err(invalid("auth=kerberos logs in with the ticket of kinit: leave the password out"))
        }
        Auth::Ntlm if options.user.is_none() => Err(invalid("auth=ntlm needs a user")),
        Auth::Ntlm if options.password.is_none() => Err(invalid("a user needs a password: set NASLAB_PASSWORD")),
        Auth::Anonymous if options.user.is_some() => Err(invalid("auth=anonymous contradicts a user name")),
        auth => Ok(auth),
    }
}

fn parse_dialect(name: &str) -> Result<Dialect> {
    if let Some(dialect) = Dialect::ALL.into_iter().find(|d| d.name() == name) {
        return Ok(dialect);
    }
    match name {
        "1" | "1.0" | "NT1" | "smb1" | "cifs" => {
            Err(unsupported("SMB1 is not supported: it is obsolete and unsafe; enable SMB2 on the server"))
        }
        _ => Err(invalid(format!("dialect={name} is not one of 2.0.2, 2.1, 3.0, 3.0.2, 3.1.1"))),
    }
}

fn parse_signing(name: &str) -> Result<SigningId> {
    SigningId::ALL
        .into_iter()
        .find(|s| s.name() == name)
        .ok_or_else(|| invalid(format!("signing_algorithm={name} is not one of hmac-sha256, aes-cmac, aes-gmac")))
}

fn parse_cipher(name: &str) -> Result<CipherId> {
    let known = "aes-128-ccm, aes-128-gcm, aes-256-ccm, aes-256-gcm";
    CipherId::ALL
        .into_iter()
        .find(|c| c.name() == name)
        .ok_or_else(|| invalid(format!("cipher={name} is not one of {known}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> SmbOptions {
        SmbOptions {
            host: "h".into(),
            share: Some("s".into()),
            user: Some("u".into()),
            password: Some("secret".into()),
            ..SmbOptions::default()
        }
    }

    fn refused(change: impl FnOnce(&mut SmbOptions)) -> (ErrorKind, String) {
        let mut options = options();
        change(&mut options);
        let error = Plan::new(options).err().expect("refused");
        (error.kind, error.message)
    }

    #[test]
    fn good_options_pass() {
        assert_eq!(Plan::new(options()).unwrap().auth, Auth::Ntlm);
        let anonymous = SmbOptions { user: None, password: None, ..options() };
        assert_eq!(Plan::new(anonymous).unwrap().auth, Auth::Anonymous);
        let json =
            r#"{"host":"h","dialect":"3.0","cipher":"aes-128-ccm","encrypt":"required","user":"u","password":"p"}"#;
        let plan = Plan::new(serde_json::from_str(json).unwrap()).unwrap();
        assert_eq!((plan.dialect, plan.cipher), (Some(Dialect::D300), Some(CipherId::Aes128Ccm)));
        assert!(serde_json::from_str::<SmbOptions>(r#"{"hots":"h"}"#).is_err());
    }

    #[test]
    fn contradictions_and_the_unsupported_are_refused_by_name() {
        use ErrorKind::{Invalid, Unsupported};
        assert_eq!(refused(|o| o.host.clear()).0, Invalid);
        let (kind, message) = refused(|o| o.auth = Some(Auth::Kerberos));
        assert!(kind == Invalid && message.contains("leave the password out"));
        let (kind, message) = refused(|o| o.dialect = Some("smb1".into()));
        assert!(kind == Unsupported && message.contains("SMB1"));
        assert_eq!(refused(|o| o.dialect = Some("4".into())).0, Invalid);
        let (kind, message) = refused(|o| (o.dialect, o.cipher) = (Some("3.0.2".into()), Some("aes-128-gcm".into())));
        assert!(kind == Unsupported && message.contains("aes-128-ccm"));
        assert_eq!(refused(|o| (o.dialect, o.encrypt) = (Some("2.1".into()), Encrypt::Required)).0, Unsupported);
        let pins =
            |o: &mut SmbOptions| (o.dialect, o.signing_algorithm) = (Some("2.1".into()), Some("aes-cmac".into()));
        assert_eq!(refused(pins).0, Unsupported);
        assert_eq!(refused(|o| (o.sign, o.signing_algorithm) = (Sign::Off, Some("aes-cmac".into()))).0, Invalid);
        assert_eq!(refused(|o| (o.auth, o.sign) = (Some(Auth::Guest), Sign::On)).0, Invalid);
        assert_eq!(refused(|o| o.password = None).0, Invalid);
        assert_eq!(refused(|o| o.connections = 0).0, Invalid);
        let two = || vec!["10.0.0.1".to_string(), "10.0.0.2".to_string()];
        let (kind, message) = refused(|o| o.addresses = two());
        assert!(kind == Invalid && message.contains("2 addresses"), "{message}");
        assert_eq!(refused(|o| (o.addresses, o.connections) = (vec!["auto".into(), "b".into()], 0)).0, Invalid);
        assert_eq!(refused(|o| (o.addresses, o.connections) = (vec![String::new()], 0)).0, Invalid);
        assert_eq!(refused(|o| o.depth = MAX_DEPTH + 1).0, Invalid);
        assert_eq!(refused(|o| o.root = "a/../b".into()).0, Invalid);
        assert_eq!(refused(|o| o.share = Some("a/b".into())).0, Invalid);
    }

    #[test]
    fn a_kerberos_login_has_keys_and_needs_no_user() {
        let kerberos = SmbOptions { user: None, password: None, auth: Some(Auth::Kerberos), ..options() };
        let strict = SmbOptions { sign: Sign::On, encrypt: Encrypt::Required, ..kerberos };
        assert_eq!(Plan::new(strict).unwrap().auth, Auth::Kerberos);
    }

    #[test]
    fn the_password_is_never_shown() {
        let shown = format!("{:?}", options());
        assert!(shown.contains("(hidden)") && !shown.contains("secret"));
    }
}
