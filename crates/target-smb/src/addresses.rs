//! Several addresses of one server: which there are, and which connection takes which.
//!
//! Given addresses are taken as they are. `auto` asks the server for its interfaces (FSCTL_QUERY_NETWORK_INTERFACE_INFO,
//! MS-SMB2 2.2.32.5 and 3.2.4.20.10) and takes those that answer here as the same server.

use crate::codec::{broken, View, IOCTL, RELATED_FILE};
use crate::ioctl;
use crate::link::{call, Part, Proof};
use crate::login::Connected;
use crate::negotiate::negotiate;
use crate::options::{invalid, Plan, SmbOptions, MAX_CONNECTIONS};
use crate::status;
use naslab_core::{limit, Error, ErrorKind, Result};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::slice::from_mut;
use std::sync::Arc;
use std::time::Duration;

/// Asks the server for its addresses.
const AUTO: &str = "auto";
/// How long a listed address may take to answer.
const REACH: Duration = Duration::from_secs(3);
/// Longest list that is asked for, and most interfaces that are read of it.
const LIST_BYTES: u32 = 64 * 1024;
const MAX_INTERFACES: usize = 256;
const RSS: u32 = 1;
const RDMA: u32 = 2;
const FAMILY_IPV4: u16 = 2;
const FAMILY_IPV6: u16 = 23;

/// Whether connections and addresses fit together. `Invalid` names what does not.
pub(crate) fn check(options: &SmbOptions) -> Result<()> {
    let (connections, addresses) = (options.connections, &options.addresses);
    if connections == 0 && addresses.is_empty() || connections > MAX_CONNECTIONS {
        return Err(invalid(format!("connections={connections} is not 1 to {MAX_CONNECTIONS}")));
    }
    if addresses.iter().any(|one| one.is_empty() || (one == AUTO && addresses.len() > 1)) {
        return Err(invalid("addresses are names or addresses of the server, or auto alone"));
    }
    let count = addresses.len() as u32;
    if count > MAX_CONNECTIONS || (connections != 0 && count > connections) {
        return Err(invalid(format!(
            "{count} addresses need as many connections, at most {MAX_CONNECTIONS}, and connections={connections}"
        )));
    }
    Ok(())
}

/// The error of an address that leads elsewhere.
pub(crate) fn another_server(first: &str, address: &str) -> Error {
    let message =
        format!("{address} is another server than {first}, or shows another folder: leave it out of address=");
    Error::new(ErrorKind::Invalid, "connect", message)
}

/// Where connections go.
#[derive(Debug)]
pub(crate) struct Addresses {
    list: Vec<Arc<str>>,
    /// They were given or listed, and are not only the host of the target's name.
    named: bool,
    facts: Vec<(String, String)>,
}

impl Addresses {
    /// Those of the options; none where the server must be asked.
    pub fn given(options: &SmbOptions) -> Option<Addresses> {
        let named = !options.addresses.is_empty();
        if options.addresses.iter().any(|one| one == AUTO) {
            return None;
        }
        let list = if named { options.addresses.as_slice() } else { std::slice::from_ref(&options.host) };
        Some(Addresses::new(list.iter().map(|one| one.as_str().into()).collect(), named, Vec::new()))
    }

    /// Those that the server of a connection lists and that lead to it.
    pub fn listed(plan: &Plan, first: &mut Connected) -> Result<Addresses> {
        let interfaces = ask(first)?;
        let here = first.link.wire.peer_address().map(|peer| peer.ip());
        let (mut good, mut left_out) = choose(&interfaces, here);
        good.retain(|one| match leads_there(plan, first, one.address) {
            Ok(()) => true,
            Err(why) => {
                left_out.push(format!("{} ({why})", one.address));
                false
            }
        });
        let most = if plan.options.connections == 0 { MAX_CONNECTIONS } else { plan.options.connections } as usize;
        left_out.extend(good.drain(most.min(good.len())..).map(|one| format!("{} (no connection left)", one.address)));
        limit::check("connect")?;
        if good.is_empty() {
            let told = if left_out.is_empty() { "none".to_string() } else { left_out.join(", ") };
            let message = format!(
                "address=auto: of the addresses that the server lists none can be used ({told}); name them, or leave \
                 address= out"
            );
            return Err(Error::new(ErrorKind::Unsupported, "connect", message));
        }
        let mut facts = vec![("interfaces".into(), good.iter().map(Interface::text).collect::<Vec<_>>().join(", "))];
        if !left_out.is_empty() {
            facts.push(("addresses_left_out".into(), left_out.join(", ")));
        }
        Ok(Addresses::new(good.iter().map(|one| one.address.to_string().into()).collect(), true, facts))
    }

    fn new(list: Vec<Arc<str>>, named: bool, mut facts: Vec<(String, String)>) -> Addresses {
        if named {
            let all: Vec<&str> = list.iter().map(|one| &**one).collect();
            facts.push(("addresses".into(), all.join(" ")));
        }
        Addresses { list, named, facts }
    }

    /// Connections of each session.
    pub fn connections(&self, options: &SmbOptions) -> u32 {
        match options.connections {
            0 => self.list.len() as u32,
            given => given,
        }
    }

    /// Where a worker's connection goes: in turn, and each worker begins one further on.
    pub fn of(&self, worker: u32, channel: u32) -> &Arc<str> {
        &self.list[(u64::from(worker) + u64::from(channel)) as usize % self.list.len()]
    }

    /// Whether there is more than one.
    pub fn several(&self) -> bool {
        self.list.len() > 1
    }

    /// An error on the way to one of them.
    pub fn about(&self, error: Error, address: &str) -> Error {
        let known = error.context.iter().any(|(name, _)| *name == "host");
        if self.named && !known {
            error.with("host", address)
        } else {
            error
        }
    }

    /// Names and values for the result. bound: one session is bound to all connections.
    pub fn facts(&self, bound: bool) -> Vec<(String, String)> {
        let mut facts = self.facts.clone();
        if self.several() {
            let how = if bound { "multichannel" } else { "separate_sessions" };
            facts.push(("address_use".into(), how.into()));
        }
        facts
    }
}

/// One address of the server's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    index: u32,
    capabilities: u32,
    bits_per_s: u64,
    address: IpAddr,
}

impl Interface {
    fn text(&self) -> String {
        let speed = if self.bits_per_s >= 1_000_000_000 {
            format!("{} Gbit/s", self.bits_per_s as f64 / 1e9)
        } else {
            format!("{} Mbit/s", self.bits_per_s as f64 / 1e6)
        };
        let flags = [(RSS, " RSS"), (RDMA, " RDMA")];
        let flags: String = flags.iter().filter(|flag| self.capabilities & flag.0 != 0).map(|flag| flag.1).collect();
        format!("{} {speed}{flags}", self.address)
    }
}

fn ask(first: &mut Connected) -> Result<Vec<Interface>> {
    let body = ioctl::request(ioctl::QUERY_NETWORK_INTERFACES, &RELATED_FILE, &[], LIST_BYTES);
    call(from_mut(&mut first.link), 0, &[Part { command: IOCTL, charge: 1, body: &body }], Proof::AsSession, None)?;
    let (code, message) = first.link.replies.get(0);
    if code != status::SUCCESS {
        let error = status::error("connect", code);
        let message = format!("address=auto: the server lists no addresses ({}); name them", error.message);
        return Err(Error { kind: ErrorKind::Unsupported, message, ..error });
    }
    parse(ioctl::output(message)?)
}

/// NETWORK_INTERFACE_INFO, one after the other; families that are neither IPv4 nor IPv6 are left out.
pub(crate) fn parse(list: &[u8]) -> Result<Vec<Interface>> {
    let view = View(list);
    let mut found = Vec::new();
    let mut at = 0;
    for _ in 0..MAX_INTERFACES {
        if list.is_empty() {
            break;
        }
        let address = match view.u16(at + 24)? {
            FAMILY_IPV4 => Some(IpAddr::V4(Ipv4Addr::from(view.array::<4>(at + 28)?))),
            FAMILY_IPV6 => Some(IpAddr::V6(Ipv6Addr::from(view.array::<16>(at + 32)?))),
            _ => None,
        };
        let (index, capabilities, bits_per_s) = (view.u32(at + 4)?, view.u32(at + 8)?, view.u64(at + 16)?);
        found.extend(address.map(|address| Interface { index, capabilities, bits_per_s, address }));
        match view.u32(at)? as usize {
            0 => return Ok(found),
            next => at = at.checked_add(next).ok_or_else(|| broken("the list of interfaces has no valid form"))?,
        }
    }
    Ok(found)
}

/// The addresses that others reach, and why the rest is left out. An interface that has addresses of both families or
/// several of IPv6 counts once, with that of the family of `here`; several of IPv4 were given to it on purpose, or are
/// of interfaces that the server cannot tell apart.
fn choose(interfaces: &[Interface], here: Option<IpAddr>) -> (Vec<Interface>, Vec<String>) {
    let same_family = |one: &Interface| here.is_some_and(|here| here.is_ipv4() == one.address.is_ipv4());
    let mut ordered: Vec<&Interface> = interfaces.iter().collect();
    ordered.sort_by_key(|one| (!same_family(one), Some(one.address) != here));
    let (mut good, mut left_out) = (Vec::<Interface>::new(), Vec::new());
    for one in ordered {
        let twin = |other: &&Interface| {
            let both_4 = one.address.is_ipv4() && other.address.is_ipv4();
            other.address == one.address || (one.index != 0 && other.index == one.index && !both_4)
        };
        let why = match unusable(one.address, here) {
            Some(why) => why.to_string(),
            None => match good.iter().find(twin) {
                Some(other) if other.address == one.address => continue,
                Some(other) => format!("on the interface of {}", other.address),
                None => {
                    good.push(*one);
                    continue;
                }
            },
        };
        left_out.push(format!("{} ({why})", one.address));
    }
    (good, left_out)
}

/// Why an address leads nowhere from another machine.
fn unusable(address: IpAddr, here: Option<IpAddr>) -> Option<&'static str> {
    let link_local = match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.segments()[0] & 0xFFC0 == 0xFE80,
    };
    if link_local {
        return Some("link-local");
    }
    if address.is_loopback() && !here.is_some_and(|here| here.is_loopback()) {
        return Some("loopback");
    }
    (address.is_unspecified() || address.is_multicast()).then_some("not the address of a machine")
}

/// Whether the server of `first` answers at an address; else why not.
fn leads_there(plan: &Plan, first: &Connected, address: IpAddr) -> std::result::Result<(), &'static str> {
    let _scope = limit::within(REACH);
    match negotiate(plan, &address.to_string().into(), first.server.offer.client) {
        Ok((_, server)) if server.guid == first.server.guid => Ok(()),
        Ok(_) => Err("another server answers there"),
        Err(_) => Err("no answer from it here"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Put;

    fn interface(index: u32, address: &str) -> Interface {
        Interface { index, capabilities: RSS, bits_per_s: 2_500_000_000, address: address.parse().unwrap() }
    }

    fn encode(interfaces: &[Interface]) -> Vec<u8> {
        let mut out = Vec::new();
        for (n, one) in interfaces.iter().enumerate() {
            let start = out.len();
            out.u32(if n + 1 < interfaces.len() { 152 } else { 0 });
            out.u32(one.index);
            out.u32(one.capabilities);
            out.u32(0);
            out.u64(one.bits_per_s);
            match one.address {
                IpAddr::V4(v4) => {
                    out.u16(FAMILY_IPV4);
                    out.u16(0);
                    out.put(&v4.octets());
                }
                IpAddr::V6(v6) => {
                    out.u16(FAMILY_IPV6);
                    out.zeros(6);
                    out.put(&v6.octets());
                }
            }
            out.zeros(start + 152 - out.len());
        }
        out
    }

    #[test]
    fn lists_as_on_the_wire() {
        let list = [interface(2, "10.0.0.1"), interface(3, "2001:db8::7")];
        let encoded = encode(&list);
        assert_eq!(parse(&encoded).unwrap(), list);
        assert_eq!(parse(&[]).unwrap(), []);
        for cut in 1..40 {
            assert!(parse(&encoded[..cut]).is_err(), "{cut}");
        }
        // One that never ends, and one that points beyond itself.
        let mut endless = encode(&list[..1]);
        endless.resize(1 << 16, 1);
        endless[..4].copy_from_slice(&1u32.to_le_bytes());
        assert!(parse(&endless).is_err() || parse(&endless).unwrap().len() <= MAX_INTERFACES);
        endless[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(parse(&endless).is_err());
        assert_eq!(list[0].text(), "10.0.0.1 2.5 Gbit/s RSS");
    }

    #[test]
    fn addresses_that_others_reach_and_none_twice() {
        let all = [
            interface(2, "2001:db8::1"),
            interface(2, "10.0.0.1"),
            interface(2, "10.0.0.9"),
            interface(3, "10.0.1.1"),
            interface(3, "10.0.1.1"),
            interface(4, "fe80::1"),
            interface(5, "169.254.3.3"),
            interface(1, "127.0.0.1"),
            interface(0, "10.0.2.1"),
            interface(0, "10.0.3.1"),
        ];
        let (good, left_out) = choose(&all, Some("10.0.0.9".parse().unwrap()));
        let good: Vec<String> = good.iter().map(|one| one.address.to_string()).collect();
        assert_eq!(good, ["10.0.0.9", "10.0.0.1", "10.0.1.1", "10.0.2.1", "10.0.3.1"]);
        assert_eq!(left_out.len(), 4, "{left_out:?}");
        assert!(left_out.contains(&"2001:db8::1 (on the interface of 10.0.0.9)".to_string()), "{left_out:?}");
        let (here, _) = choose(&all, Some("127.0.0.1".parse().unwrap()));
        assert!(here.iter().any(|one| one.address.is_loopback()));
    }

    #[test]
    fn workers_begin_at_different_addresses_and_use_all() {
        let options = SmbOptions {
            addresses: ["a", "b", "c"].map(str::to_string).to_vec(),
            connections: 0,
            ..SmbOptions::default()
        };
        let found = Addresses::given(&options).unwrap();
        assert_eq!(found.connections(&options), 3);
        let of = |worker| (0..3).map(|n| found.of(worker, n).to_string()).collect::<String>();
        assert_eq!([of(0), of(1), of(2), of(3)], ["abc", "bca", "cab", "abc"]);
        assert!(Addresses::given(&SmbOptions { addresses: vec![AUTO.into()], ..options }).is_none());
    }
}
