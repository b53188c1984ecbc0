//! The target: finds out what the server speaks, and connects sessions.

use crate::dialect::{At, Dialect, Limits, TYPE_LINK};
use crate::folders::Folders;
use crate::link::Link;
use crate::options::{NfsOptions, Settings, Version, MAX_DEPTH, NFS_PORT};
use crate::reclaim::{Lasting, Sessions};
use crate::rpc::{port_advice, Prefix, Refusal, NFS_PROGRAM};
use crate::security::{flavour_names, identity};
use crate::services::{self, Mounted};
use crate::session::NfsSession;
use crate::status::{self, another_server};
use crate::transport::{Setup, Transport};
use crate::v3::V3;
use crate::v4::V4;
use crate::xdr::Handle;
use naslab_core::{limit, Alignment, Bounded, Caps, Clock, Error, ErrorKind, OpError, Result, Session, Target};
use naslab_wire::{TlsFacts, TLS_OPERATION};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Operation of errors that came after the server had answered in NFS 3.
const MOUNTING: &str = "mount";
/// Largest read or write in one request, whatever the server takes.
const MOST_TRANSFER_BYTES: u32 = 4 << 20;

/// What the first session found out, for those after it and for the result.
#[derive(Clone)]
struct Negotiated {
    version: Version,
    port: u16,
    root: Handle,
    copy: bool,
    slots: Option<u32>,
    /// Most calls outstanding, where the contexts of Kerberos limit them.
    room: Option<u32>,
    /// Whether the handle of NFS 3 came over TLS.
    mount_tls: Option<bool>,
    facts: Vec<(String, String)>,
}

/// What all sessions of a target share.
pub(crate) struct Shared {
    pub settings: Settings,
    pub folders: Folders,
    sessions: Arc<Sessions>,
    negotiated: Mutex<Option<Negotiated>>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<Negotiated>> {
        self.negotiated.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Port of NFS itself.
    pub fn port(&self) -> u16 {
        self.lock().as_ref().map_or(self.settings.port.unwrap_or(NFS_PORT), |n| n.port)
    }

    /// What an operation's error means; None of one without a status.
    pub fn explain(&self, error: &OpError) -> Option<String> {
        if let Some(refusal) = Refusal::from_status(error.status) {
            return Some(refusal.error("", self.settings.sec).message);
        }
        let status = u32::try_from(error.status).ok().filter(|status| *status != 0)?;
        let version_4 = self.lock().as_ref().is_some_and(|known| known.version.minor().is_some());
        Some(status::error("", version_4, status).message)
    }

    /// Whether the server copies files by itself. Before a session was connected: whether it may.
    pub fn can_copy(&self) -> bool {
        match self.lock().as_ref() {
            Some(found) => found.copy,
            None => self.settings.versions.contains(&Version::V42),
        }
    }
}

/// An export of an NFS server, or a folder below it.
///
/// There is no cache on this side: every operation goes to the server, so `direct` is always true and asks for
/// nothing. Sessions each have their own connections and, in version 4, their own client id, slots and lease.
pub struct NfsTarget {
    shared: Arc<Shared>,
}

/// A connected session's parts.
struct Connected {
    t: Transport,
    dialect: Box<dyn Dialect>,
    root: Handle,
    port: u16,
    limits: Limits,
    copy: bool,
    mount_tls: Option<bool>,
}

impl NfsTarget {
    /// Checks the options. No I/O but reading certificates that they name: `connect` opens connections.
    pub fn new(options: NfsOptions) -> Result<NfsTarget> {
        let settings = Settings::new(&options)?;
        Ok(NfsTarget {
            shared: Arc::new(Shared {
                settings,
                folders: Folders::default(),
                sessions: Arc::default(),
                negotiated: Mutex::new(None),
            }),
        })
    }

    fn open_session(&self, worker: u32, lasting: Option<&Lasting<'_>>) -> Result<Connected> {
        let settings = &self.shared.settings;
        let before = lasting.and_then(|lasting| lasting.version);
        let known = self.shared.lock().clone().filter(|known| before.is_none_or(|version| version == known.version));
        match (known, before, &settings.versions[..]) {
            (Some(known), ..) => connect(settings, known.version, worker, Some(&known), lasting),
            (None, Some(version), _) | (None, None, &[version]) => connect(settings, version, worker, None, lasting),
            _ => self.connect_best(worker, lasting),
        }
    }

    /// The newest version that the server speaks and in which the path exists.
    fn connect_best(&self, worker: u32, lasting: Option<&Lasting<'_>>) -> Result<Connected> {
        let mut first: Option<Error> = None;
        let mut no_version_4 = false;
        for &version in &self.shared.settings.versions {
            if no_version_4 && version != Version::V3 {
                continue;
            }
            match connect(&self.shared.settings, version, worker, None, lasting) {
                Ok(connected) => return Ok(connected),
                Err(e) if may_go_on(&e) => {
                    // Nobody listens, or the program is another: older minor versions fare no better.
                    no_version_4 |= e.operation == "connect" && e.kind == ErrorKind::Disconnected;
                    no_version_4 |= e.kind == ErrorKind::NotFound;
                    first = Some(more_telling(first, e));
                }
                Err(e) => return Err(e),
            }
        }
        Err(first.unwrap_or_else(|| Error::new(ErrorKind::Unsupported, "connect", "the server speaks no NFS version")))
    }

    /// A worker's session. identity: for one whose files are to outlast it, that of the session that it follows, or
    /// an empty one.
    fn session(&self, worker: u32, identity: Option<&[u8]>) -> Result<Box<dyn Session>> {
        let lasting = identity.map(|identity| Lasting::after(identity, &self.shared.sessions)).transpose()?;
        let lasting = lasting.as_ref();
        let about = |e: Error| match e.context.iter().any(|(name, _)| *name == "host") {
            true => e,
            false => e.with("host", &self.shared.settings.host),
        };
        let _scope = limit::within(self.shared.settings.timeout);
        let connected = match self.open_session(worker, lasting) {
            // The server lost or replaced what an earlier session found: look anew.
            Err(e) if self.shared.lock().is_some() && e.status != 0 => {
                *self.shared.lock() = None;
                self.shared.folders.forget("");
                self.open_session(worker, lasting).map_err(about)?
            }
            other => other.map_err(about)?,
        };
        self.note(&connected);
        let Connected { t, dialect, root, .. } = connected;
        let session = NfsSession::new(t, dialect, root, self.shared.clone(), identity);
        Ok(Box::new(Bounded::new(session, self.shared.settings.timeout)))
    }

    fn note(&self, connected: &Connected) {
        let mut known = self.shared.lock();
        let version = connected.t.version;
        let slots = version.has_slots().then(|| connected.t.slots.granted());
        *known = Some(Negotiated {
            version,
            port: connected.port,
            root: connected.root,
            copy: connected.copy,
            slots,
            room: connected.t.security.as_ref().and_then(|security| security.room()),
            mount_tls: connected.mount_tls,
            facts: facts(&self.shared.settings, connected),
        });
    }
}

/// Whether another version may do better. No other version has TLS where this one has none.
fn may_go_on(error: &Error) -> bool {
    use ErrorKind::{Disconnected, NotFound, Permission, Protocol, Unsupported};
    error.operation != TLS_OPERATION
        && matches!(error.kind, Unsupported | NotFound | Disconnected | Permission | Protocol)
}

/// Of two failures with different versions, the one that says more than "not spoken here": that of a version which
/// the server does speak.
fn more_telling(first: Option<Error>, second: Error) -> Error {
    let weight = |e: &Error| match e.kind {
        ErrorKind::Unsupported | ErrorKind::Disconnected if e.operation == MOUNTING => 2,
        ErrorKind::Unsupported | ErrorKind::Disconnected => 0,
        ErrorKind::Protocol => 1,
        ErrorKind::NotFound => 3,
        _ => 4,
    };
    match first {
        Some(first) if weight(&first) >= weight(&second) => first,
        _ => second,
    }
}

/// A worker's connections to a port, over which calls can be made.
pub(crate) fn transport(
    settings: &Settings,
    version: Version,
    port: u16,
    worker: u32,
    connections: usize,
) -> Result<Transport> {
    let to = |n| settings.address(worker, n);
    let link = |n| services::connect(settings, to(n), port, version.rpc()).map(|wire| Link::new(wire, to(n)));
    let links = (0..connections).map(link).collect::<Result<Vec<_>>>()?;
    let from_high_port = !links.iter().all(|link| services::is_privileged(&link.wire));
    let setup = Setup {
        version,
        prefix: Prefix::new(NFS_PROGRAM, version.rpc(), &settings.credentials),
        timeout: settings.timeout,
        most_calls: settings.most_calls() as usize,
        from_high_port,
    };
    let mut t = Transport::new(links, setup);
    t.secure(settings)?;
    Ok(t)
}

fn connect(
    settings: &Settings,
    version: Version,
    worker: u32,
    known: Option<&Negotiated>,
    lasting: Option<&Lasting<'_>>,
) -> Result<Connected> {
    let mut connected = match version {
        Version::V3 => connect3(settings, worker, known)?,
        _ => connect4(settings, version, worker, known, lasting)?,
    };
    let Connected { t, dialect, root, .. } = &mut connected;
    let limits = dialect.limits(t, root).map_err(|e| {
        let error = Error { operation: "connect", ..e };
        port_advice(error, t.from_high_port)
    })?;
    t.max_read_bytes = limits.max_read_bytes.min(MOST_TRANSFER_BYTES);
    t.max_write_bytes = limits.max_write_bytes.min(MOST_TRANSFER_BYTES);
    connected.limits = limits;
    Ok(connected)
}

fn connect3(settings: &Settings, worker: u32, known: Option<&Negotiated>) -> Result<Connected> {
    let port = known.map_or_else(|| services::nfs3_port(settings), |known| Ok(known.port))?;
    let mut t = transport(settings, Version::V3, port, worker, settings.connections)?;
    let mut dialect: Box<dyn Dialect> = Box::new(V3);
    let mut mount_tls = known.and_then(|known| known.mount_tls);
    let root = match known {
        Some(known) => known.root,
        None => {
            // Tells a server without NFS 3 from one without this export.
            t.ping().map_err(|e| Error { operation: "connect", ..e })?;
            let mounted = mount_everywhere(settings).map_err(|e| Error { operation: MOUNTING, ..e })?;
            mount_tls = Some(mounted.is_protected);
            descend(&mut *dialect, &mut t, &mounted.handle, &settings.path, mounted.names)?
        }
    };
    Ok(Connected { t, dialect, root, port, limits: Limits::default(), copy: false, mount_tls })
}

/// Mounts the export at each address, where it must be the same folder.
fn mount_everywhere(settings: &Settings) -> Result<Mounted> {
    let first = services::mount(settings)?;
    for address in &settings.addresses()[1..] {
        let other = services::mount(&settings.only(address)).map_err(|e| e.with("address", address))?;
        if (other.handle, other.names) != (first.handle, first.names) {
            return Err(another_server(&settings.addresses()[0], address));
        }
    }
    Ok(first)
}

fn connect4(
    settings: &Settings,
    version: Version,
    worker: u32,
    known: Option<&Negotiated>,
    lasting: Option<&Lasting<'_>>,
) -> Result<Connected> {
    let port = settings.port.unwrap_or(NFS_PORT);
    let mut t = transport(settings, version, port, worker, settings.connections)?;
    let high = t.from_high_port;
    let slots = settings.slots.unwrap_or_else(|| settings.depth.max(64));
    let mut v4 = V4::begin(&mut t, &settings.credentials, worker, slots, lasting).map_err(|e| port_advice(e, high))?;
    let root = match known {
        Some(known) => known.root,
        None => {
            let top = v4.top(&mut t).map_err(|e| port_advice(e, high))?;
            descend(&mut v4, &mut t, &top, &settings.path, 0)?
        }
    };
    let copy = match known {
        Some(known) => known.copy,
        None => v4.offers_copy(&mut t, &root)?,
    };
    Ok(Connected { t, dialect: Box::new(v4), root, port, limits: Limits::default(), copy, mount_tls: None })
}

/// Walks from an export's handle down to the wanted folder.
fn descend(
    dialect: &mut dyn Dialect,
    t: &mut Transport,
    from: &Handle,
    path: &[String],
    covered: usize,
) -> Result<Handle> {
    let names: Vec<&str> = path[covered..].iter().map(String::as_str).collect();
    if names.is_empty() {
        return Ok(*from);
    }
    let whole = format!("/{}", path.join("/"));
    let high = t.from_high_port;
    let walked = dialect.walk(t, from, &names).map_err(|e| match e.status == i64::from(status::WRONGSEC) {
        true => name_flavours(dialect, t, from, &names, e),
        false => e,
    });
    if walked.as_ref().map_or_else(is_in_the_way, |found| !found.attributes.is_dir()) {
        if let Some(parts) = find_link(dialect, t, from, &names) {
            let link = path[..covered + parts].join("/");
            let message =
                format!("/{link} is a symbolic link, which a client has to follow: name the folder it points to");
            return Err(Error::new(ErrorKind::Invalid, "connect", message).with("path", whole));
        }
    }
    let found = walked.map_err(|mut e| {
        if e.kind == ErrorKind::NotFound {
            e.message.push_str(": no export and no folder of one; `naslab doctor nfs://HOST` lists the exports");
            if high {
                e.message.push_str(". Some servers hide exports from source ports above 1023: try as root");
            }
        }
        port_advice(Error { operation: "connect", ..e }.with("path", &whole), high)
    })?;
    if !found.attributes.is_dir() {
        return Err(
            Error::new(ErrorKind::Invalid, "connect", "the target is a file: give a folder").with("path", whole)
        );
    }
    Ok(found.handle)
}

/// Whether the error of a walk is that something on the path is no folder.
fn is_in_the_way(error: &Error) -> bool {
    [status::NOTDIR, status::SYMLINK].iter().any(|status| error.status == i64::from(*status))
}

/// How many parts of a path lead to the first symbolic link on it.
fn find_link(dialect: &mut dyn Dialect, t: &mut Transport, from: &Handle, names: &[&str]) -> Option<usize> {
    let mut here = *from;
    for (at, name) in names.iter().enumerate() {
        let found = dialect.walk(t, &here, &[name]).ok()?;
        if found.attributes.kind == TYPE_LINK {
            return Some(at + 1);
        }
        here = found.handle;
    }
    None
}

/// The error of a path that does not take the session's flavour, with those that it does take where the server tells.
fn name_flavours(dialect: &mut dyn Dialect, t: &mut Transport, from: &Handle, names: &[&str], error: Error) -> Error {
    let mut folder = *from;
    for name in names {
        match dialect.flavours(t, At { folder: &folder, name }) {
            Ok(taken) if !taken.is_empty() && !taken.contains(&t.sec().flavour()) => {
                return status::wrong_security("connect", t.sec(), &flavour_names(&taken));
            }
            Ok(_) => {}
            Err(_) => return error,
        }
        // Only names before the refused one can be walked.
        folder = match dialect.walk(t, &folder, &[name]) {
            Ok(found) => found.handle,
            Err(_) => return error,
        };
    }
    error
}

/// How connections to several addresses belong together.
fn address_use(version: Version) -> &'static str {
    match version {
        Version::V3 => "separate_mounts",
        Version::V40 => "shared_client",
        Version::V41 | Version::V42 => "session_trunking",
    }
}

/// Adds what TLS protects a session with. Of one whose messages Kerberos encrypts, too, its cipher stays the one named.
fn add_tls(facts: &mut Vec<(String, String)>, tls: TlsFacts) {
    let named = |name: &str, value: &str| (name.to_string(), value.to_string());
    facts.extend([named("tls_version", tls.version), named("tls_cipher_suite", tls.cipher_suite)]);
    match facts.iter_mut().find(|(name, _)| name == "encryption") {
        Some((_, cipher)) if cipher == "none" => *cipher = tls.cipher.to_string(),
        Some(_) => {}
        None => facts.extend([named("signing", "none"), named("encryption", tls.cipher)]),
    }
}

fn facts(settings: &Settings, connected: &Connected) -> Vec<(String, String)> {
    let Connected { t, dialect, limits, .. } = connected;
    let mut facts: Vec<(&str, String)> = vec![
        ("dialect", t.version.name().into()),
        ("sec", settings.sec.name().into()),
        ("xprtsec", settings.xprtsec.name().into()),
        ("auth", identity(settings.sec, &settings.credentials)),
        ("privileged_port", if t.from_high_port { "no" } else { "yes" }.into()),
        ("connections", settings.connections.to_string()),
        ("max_read_bytes", t.max_read_bytes.to_string()),
        ("max_write_bytes", t.max_write_bytes.to_string()),
        ("server_max_read_bytes", limits.max_read_bytes.to_string()),
        ("server_max_write_bytes", limits.max_write_bytes.to_string()),
        ("port", connected.port.to_string()),
    ];
    if settings.addresses_given {
        facts.push(("addresses", settings.addresses().join(" ")));
    }
    if settings.addresses().len() > 1 {
        facts.push(("address_use", address_use(t.version).into()));
    }
    let mut add = |name, value: Option<String>| facts.extend(value.map(|value| (name, value)));
    add("preferred_read_bytes", limits.preferred_read_bytes.map(|v| v.to_string()));
    add("preferred_write_bytes", limits.preferred_write_bytes.map(|v| v.to_string()));
    add("max_file_bytes", limits.max_file_bytes.map(|v| v.to_string()));
    add("lease_seconds", limits.lease_seconds.map(|v| v.to_string()));
    add("slots", t.version.has_slots().then(|| t.slots.granted().to_string()));
    add("server_copy", (t.version == Version::V42).then(|| if connected.copy { "yes" } else { "no" }.into()));
    let mut facts: Vec<(String, String)> = facts.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
    if let (Version::V3, true, Some(protected)) = (t.version, settings.xprtsec.tls().is_some(), connected.mount_tls) {
        facts.push(("mount_tls".to_string(), if protected { "yes" } else { "no" }.to_string()));
    }
    facts.extend(t.security.iter().flat_map(|security| security.facts()));
    if let Some(tls) = t.links.first().and_then(|link| link.wire.tls()) {
        add_tls(&mut facts, tls);
    }
    facts.extend(dialect.facts());
    facts
}

impl Target for NfsTarget {
    fn protocol(&self) -> &'static str {
        "nfs"
    }

    /// Before a session was connected, the depth is what the protocol allows and `server_copy` says whether the
    /// version may have it; afterwards both are what the server granted.
    fn caps(&self) -> Caps {
        let granted = self
            .shared
            .lock()
            .as_ref()
            .map_or(MAX_DEPTH, |known| known.slots.unwrap_or(MAX_DEPTH).min(known.room.unwrap_or(MAX_DEPTH)));
        Caps {
            max_depth: self.shared.settings.most_calls().min(granted),
            direct: true,
            sync_writes: true,
            flush: true,
            keeps_data: true,
            wire_counters: true,
            ping: true,
            server_copy: self.shared.can_copy(),
            alignment: Alignment { offset_bytes: 1, memory_bytes: 1 },
            ..Caps::default()
        }
    }

    fn clock(&self) -> Clock {
        Clock::real()
    }

    fn connect(&self, worker: u32) -> Result<Box<dyn Session>> {
        self.session(worker, None)
    }

    /// The server keeps what is open for the time of its lease, or its grace period, whatever is asked of it.
    fn connect_lasting(&self, worker: u32, _keep: Duration, lost: &[u8]) -> Result<Box<dyn Session>> {
        self.session(worker, Some(lost))
    }

    fn explain(&self, error: &OpError) -> Option<String> {
        self.shared.explain(error)
    }

    fn facts(&self) -> Vec<(String, String)> {
        self.shared.lock().as_ref().map(|known| known.facts.clone()).unwrap_or_default()
    }
}
