//! What a user may say about an NFS target, checked before anything is sent.

use crate::os;
use crate::protect::{self, Xprtsec};
use crate::rpc::Credentials;
use crate::security::{Sec, MAX_SEQUENCE};
use naslab_core::{Error, ErrorKind, Result};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;

/// Most connections of one session.
const MAX_CONNECTIONS: u32 = 32;
/// Most operations in flight on one session.
pub(crate) const MAX_DEPTH: u32 = 1024;
/// Groups that AUTH_SYS can carry (RFC 5531, appendix A).
const MAX_GROUPS: usize = 16;
/// Most calls of one context; the number after them is that of its end.
const MAX_CONTEXT_CALLS: u32 = MAX_SEQUENCE - 2;
/// Longest machine name in AUTH_SYS.
const MAX_MACHINE_BYTES: usize = 255;
/// The port of NFS 4, and of NFS 3 when no portmapper is asked.
pub(crate) const NFS_PORT: u16 = 2049;

/// An NFS server, an export or folder on it, and how to talk to it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NfsOptions {
    /// Host name or address.
    pub host: String,
    /// Port of NFS itself. `None`: version 3 asks the portmapper, version 4 takes 2049.
    pub port: Option<u16>,
    /// Export and folder below it: `/export/dir`. The client finds out where the export ends.
    pub path: String,
    /// `3`, `4.0`, `4.1` or `4.2`; `4`: its newest minor version. `None`: the best that the server speaks, newest first.
    pub version: Option<String>,
    /// Port of the mount service (version 3). `None`: ask the portmapper.
    pub mount_port: Option<u16>,
    /// Port of the portmapper.
    pub portmap_port: u16,
    /// Connections of each session, over which operations are spread.
    pub connections: u32,
    /// Names or addresses of the server, which the connections of each session take in turn, instead of `host`.
    pub addresses: Vec<String>,
    /// User id told to the server; the process's own by default.
    pub uid: Option<u32>,
    /// Group id told to the server; the process's own by default.
    pub gid: Option<u32>,
    /// Further group ids, at most 16. Empty: the process's own when no uid and gid are given.
    pub gids: Vec<u32>,
    /// Security flavour: `sys`, or with Kerberos `krb5`, `krb5i` (signed) or `krb5p` (encrypted). `None`: `sys`.
    pub sec: Option<String>,
    /// What protects connections below RPC: `none`, `tls` (RFC 9289), or `mtls`, with a certificate of this side, too.
    /// `None`: `none`.
    pub xprtsec: Option<String>,
    /// File of the authorities that the server's certificate may come from, PEM. `None`: those that the system trusts.
    pub tls_authorities: Option<String>,
    /// Whether the server's certificate is checked. Without: the data are encrypted, perhaps for somebody else.
    pub tls_verify: bool,
    /// File of this side's certificate, PEM (`mtls`).
    pub tls_certificate: Option<String>,
    /// File of its private key, PEM (`mtls`).
    pub tls_key: Option<String>,
    /// User principal of Kerberos, with `@REALM` or without. `None`: that of the default ticket.
    pub principal: Option<String>,
    /// Calls that one Kerberos context carries before another takes its place.
    pub context_calls: u32,
    /// Name of this machine told to the server; the host name by default.
    pub machine: Option<String>,
    /// Source ports below 1024: `on`, `off`, or `auto` (when root).
    pub privileged_port: String,
    /// Most calls outstanding on one session; for 4.1 and 4.2 also the slots asked for.
    pub slots: Option<u32>,
    /// Longest wait for an answer, in nanoseconds.
    pub timeout_ns: u64,
    /// Operations that the caller will keep in flight on one session.
    pub depth: u32,
}

impl Default for NfsOptions {
    fn default() -> NfsOptions {
        NfsOptions {
            host: String::new(),
            port: None,
            path: "/".into(),
            version: None,
            mount_port: None,
            portmap_port: 111,
            connections: 1,
            addresses: Vec::new(),
            uid: None,
            gid: None,
            gids: Vec::new(),
            sec: None,
            xprtsec: None,
            tls_authorities: None,
            tls_verify: true,
            tls_certificate: None,
            tls_key: None,
            principal: None,
            context_calls: MAX_CONTEXT_CALLS,
            machine: None,
            privileged_port: "auto".into(),
            slots: None,
            timeout_ns: 30_000_000_000,
            depth: 1,
        }
    }
}

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Version {
    /// NFS 3, RFC 1813.
    V3,
    /// NFS 4.0, RFC 7530.
    V40,
    /// NFS 4.1, RFC 8881.
    V41,
    /// NFS 4.2, RFC 7862.
    V42,
}

impl Version {
    /// Best first.
    pub const ALL: [Version; 4] = [Version::V42, Version::V41, Version::V40, Version::V3];

    /// As users write it.
    pub fn name(self) -> &'static str {
        match self {
            Version::V3 => "3",
            Version::V40 => "4.0",
            Version::V41 => "4.1",
            Version::V42 => "4.2",
        }
    }

    /// Minor version of NFS 4; `None` for NFS 3.
    #[inline]
    pub fn minor(self) -> Option<u32> {
        match self {
            Version::V3 => None,
            Version::V40 => Some(0),
            Version::V41 => Some(1),
            Version::V42 => Some(2),
        }
    }

    /// Whether calls go through the slots of a session.
    #[inline]
    pub fn has_slots(self) -> bool {
        self >= Version::V41
    }

    /// Version of the RPC program.
    pub fn rpc(self) -> u32 {
        if self == Version::V3 {
            3
        } else {
            4
        }
    }

    /// The versions that a pin leaves: all without one, the minor versions for `4`.
    fn wanted(pin: Option<&str>) -> Result<Vec<Version>> {
        let Some(text) = pin else { return Ok(Version::ALL.to_vec()) };
        let fits = |v: &Version| v.name() == text || text == "4" && v.minor().is_some();
        let left: Vec<Version> = Version::ALL.into_iter().filter(fits).collect();
        if left.is_empty() {
            let message = format!("NFS version {text:?} is not spoken here: use 3, 4, 4.0, 4.1 or 4.2");
            return Err(Error::new(ErrorKind::Unsupported, "target", message).with("version", text));
        }
        Ok(left)
    }
}

/// Whether connections come from a port below 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Privileged {
    /// When root, and a free one can be had.
    Auto,
    /// Always; an error where it cannot be had.
    On,
    /// Never.
    Off,
}

/// Options after checking.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub host: String,
    pub port: Option<u16>,
    /// Names from the server's root down.
    pub path: Vec<String>,
    /// Versions that may be spoken, the preferred one first.
    pub versions: Vec<Version>,
    pub mount_port: Option<u16>,
    pub portmap_port: u16,
    pub connections: usize,
    /// Where connections go, `host` alone where no addresses were given.
    addresses: Vec<Arc<str>>,
    pub addresses_given: bool,
    pub credentials: Credentials,
    pub sec: Sec,
    pub xprtsec: Xprtsec,
    pub principal: Option<String>,
    pub context_calls: u32,
    pub privileged: Privileged,
    pub slots: Option<u32>,
    pub timeout: Duration,
    pub depth: u32,
}

impl Settings {
    /// Checks options. No I/O but reading the files that they name.
    pub fn new(options: &NfsOptions) -> Result<Settings> {
        if options.host.is_empty() {
            return Err(invalid("no host: write nfs://HOST/EXPORT", "host", ""));
        }
        in_range("connections", options.connections, 1, MAX_CONNECTIONS)?;
        in_range("depth", options.depth, 1, MAX_DEPTH)?;
        let count = options.addresses.len();
        if options.addresses.iter().any(String::is_empty) || count > options.connections as usize {
            let message = format!("{count} addresses need as many connections, and none may be empty");
            return Err(invalid(message, "addresses", options.addresses.join(",")));
        }
        if let Some(slots) = options.slots {
            in_range("slots", slots, 1, MAX_DEPTH)?;
        }
        in_range("context_calls", options.context_calls, 1, MAX_CONTEXT_CALLS)?;
        if options.timeout_ns == 0 {
            return Err(invalid("the timeout must be above zero", "timeout_ns", "0"));
        }
        Ok(Settings {
            host: options.host.clone(),
            port: options.port,
            path: split_path(&options.path)?,
            versions: Version::wanted(options.version.as_deref())?,
            mount_port: options.mount_port,
            portmap_port: options.portmap_port,
            connections: options.connections as usize,
            addresses: places(options),
            addresses_given: count > 0,
            credentials: credentials(options)?,
            sec: sec(options)?,
            xprtsec: xprtsec(options)?,
            principal: options.principal.clone(),
            context_calls: options.context_calls,
            privileged: privileged(&options.privileged_port)?,
            slots: options.slots,
            timeout: Duration::from_nanos(options.timeout_ns),
            depth: options.depth,
        })
    }

    /// Where a worker's connection goes: in turn, and each worker begins one further on.
    pub fn address(&self, worker: u32, connection: usize) -> &Arc<str> {
        &self.addresses[(worker as usize + connection) % self.addresses.len()]
    }

    /// All addresses.
    pub fn addresses(&self) -> &[Arc<str>] {
        &self.addresses
    }

    /// The same with one of the addresses alone.
    pub fn only(&self, address: &Arc<str>) -> Settings {
        Settings { addresses: vec![Arc::clone(address)], ..self.clone() }
    }

    /// Most calls that one session may have outstanding.
    pub fn most_calls(&self) -> u32 {
        self.slots.unwrap_or(MAX_DEPTH)
    }
}

fn places(options: &NfsOptions) -> Vec<Arc<str>> {
    match options.addresses.as_slice() {
        [] => vec![options.host.as_str().into()],
        given => given.iter().map(|one| one.as_str().into()).collect(),
    }
}

fn invalid(message: impl Into<String>, name: &'static str, value: impl ToString) -> Error {
    Error::new(ErrorKind::Invalid, "target", message).with(name, value)
}

fn in_range(name: &'static str, value: u32, least: u32, most: u32) -> Result<()> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(invalid(format!("{name} must be from {least} to {most}"), name, value))
}

/// Names of a path on the server. Empty names vanish; `.` and `..` are refused, as in every path here.
pub(crate) fn split_path(path: &str) -> Result<Vec<String>> {
    let names: Vec<String> = path.split('/').filter(|n| !n.is_empty()).map(str::to_string).collect();
    if names.iter().any(|n| n == ".." || n == "." || n.contains('\0')) {
        return Err(invalid("a path may not hold `.`, `..` or a zero byte", "path", path));
    }
    Ok(names)
}

fn sec(options: &NfsOptions) -> Result<Sec> {
    let text = options.sec.as_deref().unwrap_or(Sec::Sys.name());
    let found = Sec::ALL.into_iter().find(|sec| sec.name() == text);
    let sec = found.ok_or_else(|| invalid("sec must be sys, krb5, krb5i or krb5p", "sec", text))?;
    match &options.principal {
        Some(principal) if sec == Sec::Sys => {
            Err(invalid("a user needs Kerberos: give sec=krb5, krb5i or krb5p too", "principal", principal))
        }
        Some(principal) if principal.is_empty() => Err(invalid("a user's name is empty", "principal", principal)),
        _ => Ok(sec),
    }
}

fn xprtsec(options: &NfsOptions) -> Result<Xprtsec> {
    let text = options.xprtsec.as_deref().unwrap_or("none");
    let files =
        [("tlscacert", &options.tls_authorities), ("tlscert", &options.tls_certificate), ("tlskey", &options.tls_key)];
    let given = |name: &str| files.iter().find(|(found, _)| *found == name).and_then(|(_, file)| file.as_deref());
    let authorities = given("tlscacert");
    if authorities.is_some() && !options.tls_verify {
        let message = "tlsverify=off checks no certificate: leave tlscacert= or tlsverify= out";
        return Err(invalid(message, "tlscacert", authorities.unwrap_or_default()));
    }
    match (text, given("tlscert"), given("tlskey")) {
        ("none", ..) => match files.iter().find_map(|(name, file)| file.as_ref().map(|file| (*name, file))) {
            Some((name, file)) => Err(invalid(format!("{name}= needs TLS: give xprtsec=tls or mtls too"), name, file)),
            None if !options.tls_verify => Err(invalid("tlsverify= needs xprtsec=tls or mtls", "tlsverify", "off")),
            None => Ok(Xprtsec::None),
        },
        ("tls", None, None) => protect::tls(authorities, options.tls_verify, None).map(Xprtsec::Tls),
        ("tls", certificate, key) => {
            let message = "a certificate of this client is shown with xprtsec=mtls only: give that, or leave it out";
            Err(invalid(message, "xprtsec", certificate.or(key).unwrap_or_default()))
        }
        ("mtls", Some(certificate), Some(key)) => {
            protect::tls(authorities, options.tls_verify, Some((certificate, key))).map(Xprtsec::Mtls)
        }
        ("mtls", ..) => Err(invalid("xprtsec=mtls needs both tlscert=FILE and tlskey=FILE", "xprtsec", text)),
        _ => Err(invalid("xprtsec must be none, tls or mtls", "xprtsec", text)),
    }
}

fn privileged(text: &str) -> Result<Privileged> {
    match text {
        "auto" => Ok(Privileged::Auto),
        "on" => Ok(Privileged::On),
        "off" => Ok(Privileged::Off),
        _ => Err(invalid("privileged_port must be auto, on or off", "privileged_port", text)),
    }
}

fn credentials(options: &NfsOptions) -> Result<Credentials> {
    if options.gids.len() > MAX_GROUPS {
        let message = format!("AUTH_SYS carries at most {MAX_GROUPS} groups");
        return Err(invalid(message, "gids", options.gids.len()));
    }
    let machine = options.machine.clone().unwrap_or_else(os::host_name);
    if machine.len() > MAX_MACHINE_BYTES {
        return Err(invalid(format!("a machine name has at most {MAX_MACHINE_BYTES} bytes"), "machine", machine));
    }
    let own_identity = options.uid.is_none() && options.gid.is_none() && options.gids.is_empty();
    let (uid, gid) = os::user();
    Ok(Credentials {
        machine,
        uid: options.uid.unwrap_or(uid),
        gid: options.gid.unwrap_or(gid),
        gids: if own_identity { os::groups(MAX_GROUPS) } else { options.gids.clone() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> NfsOptions {
        NfsOptions { host: "server".into(), path: "/export//dir/".into(), ..NfsOptions::default() }
    }

    fn with_tls() -> NfsOptions {
        NfsOptions { xprtsec: Some("tls".into()), ..options() }
    }

    #[test]
    fn good_options_are_taken() {
        let settings = Settings::new(&NfsOptions { version: Some("4.1".into()), ..options() }).unwrap();
        assert_eq!(settings.path, ["export", "dir"]);
        assert_eq!(settings.versions, [Version::V41]);
        let newest = Settings::new(&NfsOptions { version: Some("4".into()), ..options() }).unwrap();
        assert_eq!(newest.versions, [Version::V42, Version::V41, Version::V40]);
        let text = r#"{"host": "h", "path": "/x", "uid": 7, "gid": 8, "gids": [9]}"#;
        let parsed: NfsOptions = serde_json::from_str(text).unwrap();
        let settings = Settings::new(&parsed).unwrap();
        assert_eq!((settings.credentials.uid, settings.credentials.gid), (7, 8));
        assert_eq!(settings.credentials.gids, [9]);
        assert!(serde_json::from_str::<NfsOptions>(r#"{"hots": "h"}"#).is_err());
    }

    #[test]
    fn bad_options_are_named() {
        let cases: Vec<(NfsOptions, ErrorKind, &str)> = vec![
            (NfsOptions { host: String::new(), ..options() }, ErrorKind::Invalid, "host"),
            (NfsOptions { version: Some("2".into()), ..options() }, ErrorKind::Unsupported, "version"),
            (NfsOptions { connections: 0, ..options() }, ErrorKind::Invalid, "connections"),
            (NfsOptions { connections: 33, ..options() }, ErrorKind::Invalid, "connections"),
            (NfsOptions { addresses: vec!["a".into(), "b".into()], ..options() }, ErrorKind::Invalid, "addresses"),
            (NfsOptions { addresses: vec![String::new()], ..options() }, ErrorKind::Invalid, "addresses"),
            (NfsOptions { gids: vec![1; 17], ..options() }, ErrorKind::Invalid, "gids"),
            (NfsOptions { path: "/a/../b".into(), ..options() }, ErrorKind::Invalid, "path"),
            (NfsOptions { privileged_port: "yes".into(), ..options() }, ErrorKind::Invalid, "privileged_port"),
            (NfsOptions { timeout_ns: 0, ..options() }, ErrorKind::Invalid, "timeout_ns"),
            (NfsOptions { depth: 5000, ..options() }, ErrorKind::Invalid, "depth"),
            (NfsOptions { slots: Some(0), ..options() }, ErrorKind::Invalid, "slots"),
            (NfsOptions { machine: Some("m".repeat(256)), ..options() }, ErrorKind::Invalid, "machine"),
            (NfsOptions { sec: Some("lkey".into()), ..options() }, ErrorKind::Invalid, "sec"),
            (NfsOptions { xprtsec: Some("ssl".into()), ..options() }, ErrorKind::Invalid, "xprtsec"),
            (NfsOptions { xprtsec: Some("mtls".into()), ..options() }, ErrorKind::Invalid, "xprtsec"),
            (NfsOptions { tls_verify: false, ..options() }, ErrorKind::Invalid, "tlsverify"),
            (NfsOptions { tls_key: Some("/k".into()), ..options() }, ErrorKind::Invalid, "tlskey"),
            (NfsOptions { tls_key: Some("/k".into()), ..with_tls() }, ErrorKind::Invalid, "xprtsec"),
            (NfsOptions { tls_authorities: Some("/no/f".into()), ..with_tls() }, ErrorKind::Invalid, "tlscacert"),
            (NfsOptions { principal: Some("ann".into()), ..options() }, ErrorKind::Invalid, "principal"),
            (NfsOptions { context_calls: 0, ..options() }, ErrorKind::Invalid, "context_calls"),
        ];
        for (options, kind, name) in cases {
            let error = Settings::new(&options).unwrap_err();
            assert_eq!(error.kind, kind, "{error}");
            assert_eq!(error.context[0].0, name, "{error}");
        }
    }
}
