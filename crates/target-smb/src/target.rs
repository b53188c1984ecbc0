//! The target: options in, sessions out.

use crate::crypto::random;
use crate::login::{bind, connect, Connected};
use crate::options::{Lease, Plan, SmbOptions, MAX_DEPTH};
use crate::session::{Limits, SmbSession};
use crate::status;
use crate::window::CREDIT_BYTES;
use naslab_core::{limit, Alignment, Bounded, Caps, Clock, Error, ErrorKind, OpError, Result, Session, Target};
use std::sync::{Arc, Mutex, PoisonError};

/// An SMB share under test.
pub struct SmbTarget {
    plan: Arc<Plan>,
    share: String,
    /// The name of this client where its sessions must count as one: with leases, so that its own workers do not
    /// break each other's. Otherwise each session has its own, because servers may serve one name in one process.
    guid: [u8; 16],
    clock: Clock,
    facts: Mutex<Vec<(String, String)>>,
}

impl SmbTarget {
    /// Checks the options; no I/O. `Invalid` and `Unsupported` say which option and why.
    pub fn new(options: SmbOptions) -> Result<SmbTarget> {
        let plan = Plan::new(options)?;
        let share = plan.options.share.clone().ok_or_else(|| {
            Error::new(
                ErrorKind::Invalid,
                "smb",
                "no share: write smb://HOST/SHARE, or ask naslab doctor for the shares",
            )
        })?;
        let facts = Mutex::new(Vec::new());
        Ok(SmbTarget { plan: Arc::new(plan), share, guid: random()?, clock: Clock::real(), facts })
    }

    fn guid(&self) -> Result<[u8; 16]> {
        match self.plan.options.lease {
            Lease::Rwh => Ok(self.guid),
            Lease::None => random(),
        }
    }

    fn connect_all(&self) -> Result<SmbSession> {
        let guid = self.guid()?;
        let first = connect(&self.plan, &self.share, guid)?;
        if first.tree.kind != "disk" {
            let message = format!("the share is a {}, not a disk: name another", first.tree.kind);
            return Err(Error::new(ErrorKind::Invalid, "connect", message).with("share", &self.share));
        }
        let wanted = self.plan.options.connections;
        let mut more = Vec::new();
        let mut multichannel = "no";
        if wanted > 1 && self.plan.options.multichannel {
            multichannel = match self.bind_all(&first)? {
                Some(bound) => {
                    more = bound;
                    "yes"
                }
                None => "not offered",
            };
        }
        if multichannel != "yes" {
            for _ in 1..wanted {
                more.push(connect(&self.plan, &self.share, self.guid()?)?.link);
            }
        }
        *self.facts.lock().unwrap_or_else(PoisonError::into_inner) = self.facts_of(&first, multichannel);
        let limits = limits_of(&first);
        let mut links = vec![first.link];
        links.append(&mut more);
        Ok(SmbSession::new(Arc::clone(&self.plan), links, limits, multichannel == "yes", guid))
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

    /// The other connections of a session that has several; none where the server cannot.
    fn bind_all(&self, first: &Connected) -> Result<Option<Vec<crate::link::Link>>> {
        if !first.server.has_multichannel() || first.login.keys.is_none() {
            return Ok(None);
        }
        let mut bound = Vec::new();
        for channel in 1..self.plan.options.connections {
            match bind(&self.plan, first, channel as u8) {
                Ok(link) => bound.push(link),
                Err(error) if error.status == i64::from(status::NOT_SUPPORTED) => return Ok(None),
                // The request that binds is never encrypted (MS-SMB2 3.2.4.1.8), and Samba takes no plain ones in a
                // session that it wants encrypted.
                Err(error) if first.login.encrypts && error.status == i64::from(status::ACCESS_DENIED) => {
                    return Ok(None)
                }
                Err(error) => return Err(error.with("connection", channel + 1)),
            }
        }
        Ok(Some(bound))
    }

    fn facts_of(&self, connected: &Connected, multichannel: &str) -> Vec<(String, String)> {
        let Connected { link, server, login, tree } = connected;
        let signing = if link.sign_all && !link.seal_all { server.signing.name() } else { "none" };
        let cipher = server.cipher.filter(|_| link.seal_all).map_or("none", |c| c.name());
        let yes = |b: bool| if b { "yes" } else { "no" };
        let facts: [(&str, String); 19] = [
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
            ("connections", self.plan.options.connections.to_string()),
            ("multichannel", multichannel.into()),
        ];
        facts.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
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

    fn connect(&self, _worker: u32) -> Result<Box<dyn Session>> {
        let _scope = limit::within(self.plan.timeout);
        let mut session = self.connect_all()?;
        self.check_root(&mut session)?;
        Ok(Box::new(Bounded::new(session, self.plan.timeout)))
    }

    fn explain(&self, error: &OpError) -> Option<String> {
        let status = u32::try_from(error.status).ok().filter(|status| *status != 0)?;
        Some(status::error("", status).message)
    }

    fn facts(&self) -> Vec<(String, String)> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
