//! The portmapper (RFC 1833) and the mount service of NFS 3 (RFC 1813, appendix I).

use crate::options::{Privileged, Settings, NFS_PORT};
use crate::os;
use crate::protect::{protect, protect_if_offered};
use crate::rpc::{self, port_advice, Prefix, AUTH_NONE, NFS_PROGRAM};
use crate::security::{flavour_names, Sec};
use crate::status;
use crate::transport::assemble;
use crate::xdr::{Decoded, Decoder, Handle, Put};
use naslab_core::{Error, ErrorKind, Result};
use naslab_wire::{chance, dial, DialOptions, Wire, TLS_OPERATION};

const PORTMAP_PROGRAM: u32 = 100_000;
const PORTMAP_VERSION: u32 = 2;
const PORTMAP_GETPORT: u32 = 3;
const TCP: u32 = 6;
const MOUNT_PROGRAM: u32 = 100_005;
const MOUNT_VERSION: u32 = 3;
const MOUNT_NULL: u32 = 0;
const MOUNT_MNT: u32 = 1;
const MOUNT_EXPORT: u32 = 5;
/// Longest reply of these services.
const MOST_REPLY_BYTES: usize = 4 << 20;
/// Longest path and name in the mount protocol, with room for servers that allow more.
const MOST_PATH_BYTES: usize = 4096;
/// Most exports and groups read.
const MOST_ENTRIES: usize = 100_000;
/// Longest handle of NFS 3.
pub(crate) const HANDLE3_BYTES: usize = 64;

/// An export, and who may mount it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Path on the server.
    pub path: String,
    /// Hosts and groups that may mount it; empty when everyone may or the server does not say.
    pub groups: Vec<String>,
}

/// Connects to NFS itself at one of the server's addresses: over TLS where the options say so.
pub(crate) fn connect(settings: &Settings, address: &str, port: u16, version: u32) -> Result<Wire> {
    let mut wire = dial_as_told(settings, address, port)?;
    protect(&mut wire, settings, NFS_PROGRAM, version)?;
    Ok(wire)
}

/// Connects to a port of the server at one of its addresses, from a privileged port where the options say so.
pub(crate) fn dial_as_told(settings: &Settings, address: &str, port: u16) -> Result<Wire> {
    let options = |privileged_port| DialOptions { timeout: settings.timeout, privileged_port };
    let root = os::is_root();
    match settings.privileged {
        Privileged::On => dial(address, port, &options(true)),
        Privileged::Auto if root => match dial(address, port, &options(true)) {
            // A container's root may not be allowed to, or no such port is free.
            Err(e) if e.kind == ErrorKind::Permission || e.message.contains("source port") => {
                dial(address, port, &options(false))
            }
            other => other,
        },
        _ => dial(address, port, &options(false)),
    }
}

/// Whether a connection comes from a port that only root may use.
pub(crate) fn is_privileged(wire: &Wire) -> bool {
    wire.local_address().is_some_and(|address| address.port() < 1024)
}

/// A connection to a service that is asked one thing at a time, with AUTH_SYS: the mount service wants no other.
///
/// Under `xprtsec=tls` the mount service is asked for TLS, too, and goes on in the clear where it has none: that of Linux
/// never has, and its kernel's client asks for none there. The portmapper, which is told no secret, is not asked.
struct Service {
    wire: Wire,
    prefix: Prefix,
    /// It goes over TLS.
    is_protected: bool,
}

impl Service {
    fn new(settings: &Settings, port: u16, program: u32, version: u32) -> Result<Service> {
        let mut wire = dial_as_told(settings, settings.address(0, 0), port)?;
        let mut is_protected = false;
        if program == MOUNT_PROGRAM {
            match protect_if_offered(&mut wire, settings, program, version) {
                Ok(protected) => is_protected = protected,
                // Not every service answers what it does not know.
                Err(e) if e.operation != TLS_OPERATION && e.kind == ErrorKind::Disconnected => {
                    wire = dial_as_told(settings, settings.address(0, 0), port)?;
                }
                Err(e) => return Err(e),
            }
        }
        Ok(Service { wire, prefix: Prefix::new(program, version, &settings.credentials), is_protected })
    }

    /// The results of one call, from their first byte.
    fn call(&mut self, operation: &'static str, procedure: u32, arguments: &[u8]) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(256);
        let xid = chance() as u32;
        let start = self.prefix.begin(&mut out, xid, procedure);
        out.put_raw(arguments);
        rpc::seal(&mut out, start, 0);
        self.wire.send(&[&out])?;
        let mut reply = Vec::new();
        self.wire.begin_message();
        assemble(&mut self.wire, MOST_REPLY_BYTES, &mut reply)?;
        let mut d = Decoder::new(&reply);
        let (found, verdict) = rpc::reply(&mut d).map_err(|bad| bad.error(operation))?;
        if found != xid {
            let message = "the server's reply breaks the protocol: it answers a call that was not made";
            return Err(Error::new(ErrorKind::Protocol, operation, message));
        }
        let high = !is_privileged(&self.wire);
        verdict.map_err(|refusal| port_advice(refusal.error(operation, Sec::Sys), high))?;
        Ok(reply.split_off(d.position()))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if is_privileged(&self.wire) {
            self.wire.free_port_at_end();
        }
    }
}

/// Asks the portmapper for a program's TCP port.
fn port_of(settings: &Settings, program: u32, version: u32, what: &str) -> Result<u16> {
    let mut service = Service::new(settings, settings.portmap_port, PORTMAP_PROGRAM, PORTMAP_VERSION)
        .map_err(|e| portmap_advice(e, what))?;
    let mut arguments = Vec::new();
    for word in [program, version, TCP, 0] {
        arguments.put_u32(word);
    }
    let reply = service.call("portmap", PORTMAP_GETPORT, &arguments).map_err(|e| portmap_advice(e, what))?;
    let port = Decoder::new(&reply).u32().map_err(|bad| bad.error("portmap"))?;
    match u16::try_from(port) {
        Ok(0) => Err(Error::new(
            ErrorKind::Unsupported,
            "portmap",
            format!("the server's portmapper knows no {what} over TCP: is NFS version {version} enabled there?"),
        )),
        Ok(port) => Ok(port),
        Err(_) => Err(Error::new(ErrorKind::Protocol, "portmap", "the portmapper answers with a port above 65535")),
    }
}

fn portmap_advice(mut error: Error, what: &str) -> Error {
    error.message.push_str(&format!(
        ". The portmapper was asked for the port of {what}: give it yourself (port=, mountport=), or use NFS 4, which \
         needs neither"
    ));
    error
}

/// The port of NFS 3.
pub(crate) fn nfs3_port(settings: &Settings) -> Result<u16> {
    match settings.port {
        Some(port) => Ok(port),
        // A server may run NFS without a portmapper; the usual port is then the best guess.
        None => port_of(settings, NFS_PROGRAM, 3, "NFS").or_else(|error| match error.kind {
            ErrorKind::Disconnected | ErrorKind::Timeout => Ok(NFS_PORT),
            _ => Err(error),
        }),
    }
}

fn mount_service(settings: &Settings) -> Result<Service> {
    let port = match settings.mount_port {
        Some(port) => port,
        None => match port_of(settings, MOUNT_PROGRAM, MOUNT_VERSION, "the mount service") {
            Err(error) if error.kind != ErrorKind::Interrupted => return mount_service_beside_nfs(settings, error),
            found => found?,
        },
    };
    Service::new(settings, port, MOUNT_PROGRAM, MOUNT_VERSION)
}

/// Servers in user space often need no portmapper: their mount service answers on the port of NFS itself.
fn mount_service_beside_nfs(settings: &Settings, error: Error) -> Result<Service> {
    let port = settings.port.unwrap_or(NFS_PORT);
    let asked = Service::new(settings, port, MOUNT_PROGRAM, MOUNT_VERSION)
        .and_then(|mut service| service.call("mount", MOUNT_NULL, &[]).map(|_| service));
    asked.map_err(|_| Error {
        message: format!("{}; nor does it answer on NFS's own port {port}", error.message),
        ..error
    })
}

/// The exports that the mount service lists.
pub(crate) fn list_exports(settings: &Settings) -> Result<Vec<Export>> {
    exports_of(&mut mount_service(settings)?)
}

fn exports_of(service: &mut Service) -> Result<Vec<Export>> {
    let reply = service.call("exports", MOUNT_EXPORT, &[])?;
    take_exports(&mut Decoder::new(&reply)).map_err(|bad| bad.error("exports"))
}

pub(crate) fn take_exports(d: &mut Decoder<'_>) -> Decoded<Vec<Export>> {
    let mut exports = Vec::new();
    while d.bool()? && exports.len() < MOST_ENTRIES {
        let path = d.text(MOST_PATH_BYTES)?;
        let mut groups = Vec::new();
        while d.bool()? && groups.len() < MOST_ENTRIES {
            groups.push(d.text(MOST_PATH_BYTES)?);
        }
        exports.push(Export { path, groups });
    }
    Ok(exports)
}

/// A mounted export: its handle, and how many names of the wanted path it covers.
pub(crate) struct Mounted {
    pub handle: Handle,
    pub names: usize,
    /// The handle came over TLS.
    pub is_protected: bool,
}

/// Mounts the longest part of the path that is an export.
pub(crate) fn mount(settings: &Settings) -> Result<Mounted> {
    let mut service = mount_service(settings)?;
    let listed = exports_of(&mut service).unwrap_or_default();
    let mut first: Option<Error> = None;
    for names in candidates(&settings.path, &listed).0 {
        match mount_one(&mut service, &format!("/{}", settings.path[..names].join("/")), settings.sec) {
            Ok(handle) => return Ok(Mounted { handle, names, is_protected: service.is_protected }),
            Err(e) if matches!(e.kind, ErrorKind::Disconnected | ErrorKind::Timeout | ErrorKind::Protocol) => {
                return Err(e)
            }
            // A refusal tells more than that a shorter or longer path is no export.
            Err(e) if first.as_ref().is_none_or(|f| f.kind != ErrorKind::Permission) => first = Some(e),
            Err(_) => {}
        }
    }
    let mut error = first.unwrap_or_else(|| status::error("mount", false, status::NOENT));
    if !listed.is_empty() && !candidates(&settings.path, &listed).1 {
        // Servers refuse what does not exist in many ways.
        error.kind = ErrorKind::NotFound;
        error.message = format!("no export of the server is this path or above it ({})", error.message);
    }
    let known: Vec<&str> = listed.iter().take(20).map(|e| e.path.as_str()).collect();
    let error = error.with("path", format!("/{}", settings.path.join("/")));
    Err(if known.is_empty() { error } else { error.with("exports", known.join(" ")) })
}

/// How many leading names of the path to try as the export: listed exports first, longest first, then all others.
/// And whether any is listed.
fn candidates(path: &[String], listed: &[Export]) -> (Vec<usize>, bool) {
    let is_listed = |names: &usize| {
        listed.iter().any(|export| export.path.split('/').filter(|n| !n.is_empty()).eq(path[..*names].iter()))
    };
    let (mut good, rest): (Vec<usize>, Vec<usize>) = (0..=path.len()).rev().partition(is_listed);
    let any = !good.is_empty();
    good.extend(rest);
    (good, any)
}

fn mount_one(service: &mut Service, path: &str, sec: Sec) -> Result<Handle> {
    let mut arguments = Vec::new();
    arguments.put_opaque(path.as_bytes());
    let reply = service.call("mount", MOUNT_MNT, &arguments)?;
    let mut d = Decoder::new(&reply);
    let outcome = take_mount(&mut d).map_err(|bad| bad.error("mount"))?;
    let high = !is_privileged(&service.wire);
    let (handle, flavours) = outcome.map_err(|found| port_advice(status::error("mount", false, found), high))?;
    let fits = |flavour: &u32| *flavour == sec.flavour() || (*flavour == AUTH_NONE && sec == Sec::Sys);
    if !flavours.is_empty() && !flavours.iter().any(fits) {
        return Err(status::wrong_security("mount", sec, &flavour_names(&flavours)));
    }
    Ok(handle)
}

/// A handle with the security flavours it may be used with, or the server's refusal.
type MountOutcome = std::result::Result<(Handle, Vec<u32>), u32>;

pub(crate) fn take_mount(d: &mut Decoder<'_>) -> Decoded<MountOutcome> {
    match d.u32()? {
        status::OK => {}
        failed => return Ok(Err(failed)),
    }
    let handle = Handle::take(d, HANDLE3_BYTES)?;
    let count = d.length(64)?;
    let flavours = (0..count).map(|_| d.u32()).collect::<Decoded<Vec<u32>>>()?;
    Ok(Ok((handle, flavours)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &str) -> Vec<String> {
        path.split('/').filter(|n| !n.is_empty()).map(str::to_string).collect()
    }

    #[test]
    fn listed_exports_are_tried_first_and_longest_first() {
        let listed = ["/a", "/a/b", "/other"].map(|p| Export { path: p.into(), groups: vec![] });
        assert_eq!(candidates(&names("/a/b/c"), &listed), (vec![2, 1, 3, 0], true));
        assert_eq!(candidates(&names("/x"), &listed), (vec![1, 0], false));
        assert_eq!(candidates(&[], &[]), (vec![0], false));
    }

    #[test]
    fn export_list_as_on_the_wire() {
        let mut out = Vec::new();
        for (path, groups) in [("/srv", vec!["10.0.0.0/8", "host"]), ("/x", vec![])] {
            out.put_bool(true);
            out.put_opaque(path.as_bytes());
            for group in groups {
                out.put_bool(true);
                out.put_opaque(group.as_bytes());
            }
            out.put_bool(false);
        }
        out.put_bool(false);
        let found = take_exports(&mut Decoder::new(&out)).unwrap();
        assert_eq!(found[0], Export { path: "/srv".into(), groups: vec!["10.0.0.0/8".into(), "host".into()] });
        assert_eq!(found[1], Export { path: "/x".into(), groups: vec![] });
        for cut in 0..out.len() {
            assert!(take_exports(&mut Decoder::new(&out[..cut])).is_err());
        }
    }

    #[test]
    fn mount_replies() {
        let good = [0, 0, 0, 0, 0, 0, 0, 2, 7, 8, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1];
        let (handle, flavours) = take_mount(&mut Decoder::new(&good)).unwrap().unwrap();
        assert_eq!((handle.as_slice(), flavours), (&[7, 8][..], vec![1]));
        assert_eq!(take_mount(&mut Decoder::new(&[0, 0, 0, 13])).unwrap().unwrap_err(), 13);
        let too_long = [[0, 0, 0, 0, 0, 0, 0, 65].as_slice(), &[0; 80]].concat();
        assert!(take_mount(&mut Decoder::new(&too_long)).is_err());
    }
}
