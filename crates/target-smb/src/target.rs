//! The target: options in, sessions out.

use crate::addresses::{another_server, Addresses};
use crate::crypto::random;
use crate::dfs::{self, Place};
use crate::durable::{foreign, HeldLease};
use crate::login::{bind, connect, Connected};
use crate::negotiate::Client;
use crate::options::{Lease, Plan, SmbOptions, MAX_DEPTH};
use crate::session::{Limits, SmbSession};
use crate::status;
use crate::window::CREDIT_BYTES;
use naslab_core::{limit, Alignment, Bounded, Caps, Clock, Error, ErrorKind, OpError, Result, Session, Target};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// An SMB share under test.
pub struct SmbTarget {
    clock: Clock,
    timeout: Duration,
    /// Where it is: as it was named, or where DFS links led.
    site: Mutex<Arc<Site>>,
}

/// Of a session that is to outlast its connection: how long the server is asked to keep what it opens, and the
/// identity of the session that was lost, empty for the first.
type Lasting<'a> = Option<(Duration, &'a [u8])>;

/// A share of one server.
struct Site {
    plan: Arc<Plan>,
    share: String,
    /// The name of this client where its sessions must count as one: with leases, so that its own workers do not
    /// break each other's. Otherwise each session has its own, because servers may serve one name in one process.
    guid: [u8; 16],
    facts: Mutex<Vec<(String, String)>>,
    /// Where connections go, once that is known.
    addresses: Mutex<Option<Arc<Addresses>>>,
    /// The place that was named, where this one is behind DFS links.
    named: Option<Place>,
    /// Nobody has to ask any more whether it leads elsewhere.
    settled: bool,
}

impl SmbTarget {
    /// Checks the options; no I/O. `Invalid` and `Unsupported` say which option and why.
    pub fn new(options: SmbOptions) -> Result<SmbTarget> {
        let plan = Plan::new(options)?;
        let (timeout, settled) = (plan.timeout, !plan.options.dfs);
        let site = Site::new(plan, None, settled)?;
        Ok(SmbTarget { clock: Clock::real(), timeout, site: Mutex::new(Arc::new(site)) })
    }

    fn session(&self, worker: u32, lasting: Lasting<'_>) -> Result<Box<dyn Session>> {
        let _scope = limit::within(self.timeout);
        let (site, mut session) = self.connect_there(worker, lasting)?;
        site.check_root(&mut session)?;
        Ok(Box::new(Bounded::new(session, self.timeout)))
    }

    fn site(&self) -> Arc<Site> {
        Arc::clone(&self.site.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A worker's session with the share, or with that behind DFS links: the first call follows them.
    fn connect_there(&self, worker: u32, lasting: Lasting<'_>) -> Result<(Arc<Site>, SmbSession)> {
        let site = self.site();
        if site.settled {
            let (session, _) = site.connect(worker, lasting)?;
            return Ok((site, session));
        }
        let (found, session) = site.settle(worker, lasting)?;
        let found = Arc::new(found);
        *self.site.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&found);
        Ok((found, session))
    }
}

impl Site {
    fn new(plan: Plan, named: Option<Place>, settled: bool) -> Result<Site> {
        let share = plan.options.share.clone().ok_or_else(|| {
            Error::new(
                ErrorKind::Invalid,
                "smb",
                "no share: write smb://HOST/SHARE, or ask naslab doctor for the shares",
            )
        })?;
        let addresses = Mutex::new(Addresses::given(&plan.options).map(Arc::new));
        Ok(Site { plan: Arc::new(plan), share, guid: random()?, facts: Mutex::default(), addresses, named, settled })
    }

    fn place(&self) -> Place {
        let options = &self.plan.options;
        Place { host: options.host.clone(), share: self.share.clone(), folder: options.root.clone() }
    }

    /// The share at another place, which DFS links lead to.
    fn moved(&self, to: &Place) -> Result<Site> {
        let (named, options) = (self.place(), &self.plan.options);
        if *to == named {
            return Site::new((*self.plan).clone(), None, true);
        }
        if !options.addresses.is_empty() && !to.is_share_of(&named) {
            let message = format!(
                "{} is a DFS link to {}: address= names addresses of one server, so name that one",
                named.unc(),
                to.unc()
            );
            return Err(Error::new(ErrorKind::Invalid, "connect", message));
        }
        Site::new(Plan { options: options.moved(to), ..(*self.plan).clone() }, Some(named), true)
    }

    /// Follows DFS links from the place that was named to the first share that answers and leads nowhere else.
    fn settle(&self, worker: u32, lasting: Lasting<'_>) -> Result<(Site, SmbSession)> {
        let (mut waiting, mut known, mut failed) = (vec![self.place()], Vec::new(), Vec::new());
        while let Some(place) = waiting.pop() {
            if known.iter().any(|each: &Place| each.is(&place)) {
                continue;
            }
            if known.len() > dfs::MOST_STEPS {
                break;
            }
            let at = self.moved(&place)?;
            let met = at.connect(worker, lasting);
            let led = at.leads_to(&place, &met)?;
            known.push(place.clone());
            match met {
                _ if !led.is_empty() => waiting.extend(led.into_iter().rev()),
                Ok((session, _)) => return Ok((at, session)),
                Err(error) => failed.push((place, error)),
            }
        }
        match failed.pop() {
            None => Err(dfs::endless(&known[known.len() - 1])),
            Some((place, error)) if place == self.place() => Err(error),
            Some(last) => {
                failed.push(last);
                Err(dfs::unreachable(&self.place(), &failed))
            }
        }
    }

    /// Where DFS links lead from here; nowhere from a share that is no part of a namespace.
    fn leads_to(&self, place: &Place, met: &Result<(SmbSession, bool)>) -> Result<Vec<Place>> {
        match met {
            Ok((_, true)) => dfs::ask(&self.plan, place),
            // The name of a domain's namespace is no share of the server that knows it.
            Err(error) if error.status == i64::from(status::BAD_NETWORK_NAME) => {
                Ok(dfs::ask(&self.plan, place).unwrap_or_default())
            }
            _ => Ok(Vec::new()),
        }
    }

    fn client(&self) -> Result<Client> {
        match self.plan.options.lease {
            Lease::Rwh => Ok(Client { guid: self.guid, ..Client::default() }),
            Lease::None => Client::unknown(),
        }
    }

    /// The client of a session whose files the server is to keep, or which claims them.
    fn lasting_client(&self, lasting: Lasting<'_>) -> Result<Client> {
        let client = self.client()?;
        match lasting {
            None => Ok(client),
            Some((keep, [])) => Ok(Client { keep: Some(keep), ..client }),
            Some((keep, lost)) => {
                let (before, _) = SmbSession::parse_identity(lost).map_err(foreign)?;
                Ok(Client { keep: Some(keep), ..before })
            }
        }
    }

    /// Where connections go; the first call asks the server where it is to say so.
    fn addresses(&self) -> Result<Arc<Addresses>> {
        let mut known = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = &*known {
            return Ok(Arc::clone(found));
        }
        let host = self.plan.options.host.as_str().into();
        let mut first = connect(&self.plan, &host, &self.share, self.client()?)?;
        let found = Arc::new(Addresses::listed(&self.plan, &mut first)?);
        *known = Some(Arc::clone(&found));
        Ok(found)
    }

    /// A worker's session, and whether the share is part of a DFS namespace.
    fn connect(&self, worker: u32, lasting: Lasting<'_>) -> Result<(SmbSession, bool)> {
        let client = self.lasting_client(lasting)?;
        let addresses = self.addresses()?;
        let wanted = addresses.connections(&self.plan.options);
        let to = |channel| addresses.of(worker, channel);
        let first = connect(&self.plan, to(0), &self.share, client).map_err(|e| addresses.about(e, to(0)))?;
        if first.tree.kind != "disk" {
            let message = format!("the share is a {}, not a disk: name another", first.tree.kind);
            return Err(Error::new(ErrorKind::Invalid, "connect", message).with("share", &self.share));
        }
        let mut more = Vec::new();
        let mut multichannel = "no";
        if wanted > 1 && self.plan.options.multichannel {
            let channels: Vec<&Arc<str>> = (1..wanted).map(to).collect();
            multichannel = match self.bind_all(&first, &channels, &addresses)? {
                Some(bound) => {
                    more = bound;
                    "yes"
                }
                None => "not offered",
            };
        }
        if multichannel != "yes" {
            for address in (1..wanted).map(to) {
                let one = connect(&self.plan, address, &self.share, self.client()?)
                    .map_err(|e| addresses.about(e, address))?;
                if addresses.several() && one.server.guid != first.server.guid {
                    return Err(another_server(to(0), address));
                }
                more.push(one.link);
            }
        }
        let (mut facts, in_dfs) = (self.facts_of(&first, multichannel), first.tree.dfs);
        facts.push(("connections".into(), wanted.to_string()));
        facts.extend(addresses.facts(multichannel == "yes"));
        *self.facts.lock().unwrap_or_else(PoisonError::into_inner) = facts;
        let limits = limits_of(&first);
        let mut links = vec![first.link];
        links.append(&mut more);
        let mut session = SmbSession::new(Arc::clone(&self.plan), links, limits, multichannel == "yes", client);
        session.server = first.server.guid;
        if let Some((_, lost @ [_, ..])) = lasting {
            let (_, keys) = SmbSession::parse_identity(lost).map_err(foreign)?;
            session.orphans = keys.into_iter().map(HeldLease::nameless).collect();
        }
        if !session.shared && addresses.several() {
            self.check_same_folder(&mut session)?;
        }
        Ok((session, in_dfs))
    }

    /// Sessions of their own must reach one folder: servers that are copies of each other call themselves the same.
    fn check_same_folder(&self, session: &mut SmbSession) -> Result<()> {
        let first = session.id_on(0, "");
        for i in 1..session.links.len() {
            let other = session.id_on(i, "");
            let (a, b) = (Arc::clone(&session.links[0].address), Arc::clone(&session.links[i].address));
            session.alive()?;
            match (&first, other) {
                (Ok(one), Ok(other)) if *one != other => return Err(another_server(&a, &b)),
                (Ok(_), Err(error)) if error.kind == ErrorKind::NotFound => return Err(another_server(&a, &b)),
                _ => {}
            }
        }
        Ok(())
    }

    /// The folder to work in must be there.
    fn check_root(&self, session: &mut SmbSession) -> Result<()> {
        let root = &self.plan.options.root;
        if root.is_empty() {
            return Ok(());
        }
        let about = |error: Error| error.with("folder", root).with("share", &self.share);
        let found = session.stat("").map_err(|e| about(Error { operation: "connect", ..e }))?;
        if !found.is_dir {
            let message = "this is a file: give the folder to work in";
            return Err(about(Error::new(ErrorKind::Invalid, "connect", message)));
        }
        Ok(())
    }

    /// The other connections of a session that has several, to these addresses; none where the server cannot.
    fn bind_all(
        &self,
        first: &Connected,
        channels: &[&Arc<str>],
        addresses: &Addresses,
    ) -> Result<Option<Vec<crate::link::Link>>> {
        if !first.server.has_multichannel() || first.login.keys.is_none() {
            return Ok(None);
        }
        let mut bound = Vec::new();
        for (address, channel) in channels.iter().zip(1..) {
            match bind(&self.plan, first, address, channel) {
                Ok(link) => bound.push(link),
                Err(error) if error.status == i64::from(status::NOT_SUPPORTED) => return Ok(None),
                // The session is not known at this address: a node of a cluster that shares none, or another server.
                Err(error) if addresses.several() && error.status == i64::from(status::USER_SESSION_DELETED) => {
                    return Ok(None)
                }
                // The request that binds is never encrypted (MS-SMB2 3.2.4.1.8), and Samba takes no plain ones in a
                // session that it wants encrypted.
                Err(error) if first.login.encrypts && error.status == i64::from(status::ACCESS_DENIED) => {
                    return Ok(None)
                }
                Err(error) => return Err(addresses.about(error, address).with("connection", channel + 1)),
            }
        }
        Ok(Some(bound))
    }

    fn facts_of(&self, connected: &Connected, multichannel: &str) -> Vec<(String, String)> {
        let Connected { link, server, login, tree } = connected;
        let signing = if link.sign_all && !link.seal_all { server.signing.name() } else { "none" };
        let cipher = server.cipher.filter(|_| link.seal_all).map_or("none", |c| c.name());
        let yes = |b: bool| if b { "yes" } else { "no" };
        let facts: [(&str, String); 18] = [
            ("dialect", server.dialect.name().into()),
            ("auth", login.auth.into()),
            ("signing", signing.into()),
            ("signing_required", yes(server.requires_signing()).into()),
            ("encryption", cipher.into()),
            ("encryption_required", yes(login.encrypts || tree.encrypts).into()),
            ("session_encryption_required", yes(login.encrypts).into()),
            ("share_encryption_required", yes(tree.encrypts).into()),
            ("server_name", login.server_name.clone()),
            ("server_guid", guid_text(&server.guid)),
            ("share_type", tree.kind.into()),
            ("max_read_bytes", server.max_read.to_string()),
            ("max_write_bytes", server.max_write.to_string()),
            ("max_transact_bytes", server.max_transact.to_string()),
            ("capabilities", server.capability_names()),
            ("credits_granted", link.window.most.to_string()),
            ("credits_wanted", server.credits_for(self.plan.options.depth).to_string()),
            ("multichannel", multichannel.into()),
        ];
        let keep = connected.server.offer.client.keep;
        let leases = ("leases", self.plan.options.lease.asked(keep.is_some()).to_string());
        let keep = keep.map(|_| ("durable_handles", "asked".to_string()));
        let behind =
            self.named.iter().flat_map(|named| [("dfs_path", named.unc()), ("dfs_target", self.place().unc())]);
        facts
            .into_iter()
            .chain([leases])
            .chain(keep)
            .chain(behind)
            .map(|(name, value)| (name.to_string(), value))
            .collect()
    }
}

fn limits_of(connected: &Connected) -> Limits {
    let server = &connected.server;
    let most = if server.has_large_mtu() { u32::MAX } else { CREDIT_BYTES };
    Limits {
        max_read: server.max_read.min(most),
        max_write: server.max_write.min(most),
        max_transact: server.max_transact.min(most),
        leases: server.has_leases(),
        leases_2: server.dialect >= crate::options::Dialect::D300,
        write_through: server.dialect > crate::options::Dialect::D202,
        persistent: server.has_persistent_handles() && connected.tree.is_continuous,
    }
}

/// A GUID as Microsoft writes it: the first three groups are numbers.
fn guid_text(guid: &[u8; 16]) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let turned = |bytes: &[u8]| bytes.iter().rev().map(|b| format!("{b:02x}")).collect::<String>();
    let (a, b, c) = (turned(&guid[..4]), turned(&guid[4..6]), turned(&guid[6..8]));
    format!("{a}-{b}-{c}-{}-{}", hex(&guid[8..10]), hex(&guid[10..]))
}

impl Target for SmbTarget {
    fn protocol(&self) -> &'static str {
        "smb"
    }

    fn caps(&self) -> Caps {
        Caps {
            max_depth: MAX_DEPTH,
            direct: true,
            sync_writes: true,
            flush: true,
            wire_counters: true,
            ping: true,
            server_copy: true,
            alignment: Alignment { offset_bytes: 1, memory_bytes: 1 },
            ..Caps::default()
        }
    }

    fn clock(&self) -> Clock {
        self.clock.clone()
    }

    fn connect(&self, worker: u32) -> Result<Box<dyn Session>> {
        self.session(worker, None)
    }

    fn connect_lasting(&self, worker: u32, keep: Duration, lost: &[u8]) -> Result<Box<dyn Session>> {
        self.session(worker, Some((keep, lost)))
    }

    fn explain(&self, error: &OpError) -> Option<String> {
        status::explain(error)
    }

    fn facts(&self) -> Vec<(String, String)> {
        let site = self.site();
        let mut facts = site.facts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        facts.extend(site.plan.leases.facts());
        facts
    }
}
