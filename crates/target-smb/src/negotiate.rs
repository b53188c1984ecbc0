//! NEGOTIATE: dialect, sizes, cipher and signing algorithm (MS-SMB2 2.2.3, 2.2.4).

use crate::codec::{broken, Put, View, HEADER_BYTES, NEGOTIATE};
use crate::crypto::{random, CipherId, Preauth, SigningId};
use crate::link::{call, Link, Part, Proof};
use crate::options::{check_cipher, check_signing, Dialect, Encrypt, Plan, Sign};
use crate::spnego::{KERBEROS_OID, KERBEROS_OID_OF_WINDOWS};
use crate::status;
use naslab_core::{Error, ErrorKind, Result};
use naslab_wire::{dial, DialOptions};
use std::sync::Arc;
use std::time::Duration;

const CAP_DFS: u32 = 0x01;
const CAP_LEASING: u32 = 0x02;
pub(crate) const CAP_LARGE_MTU: u32 = 0x04;
pub(crate) const CAP_MULTI_CHANNEL: u32 = 0x08;
const CAP_PERSISTENT_HANDLES: u32 = 0x10;
const CAP_ENCRYPTION: u32 = 0x40;
const CAPABILITIES: [(u32, &str); 8] = [
    (CAP_DFS, "dfs"),
    (CAP_LEASING, "leasing"),
    (CAP_LARGE_MTU, "large_mtu"),
    (CAP_MULTI_CHANNEL, "multi_channel"),
    (CAP_PERSISTENT_HANDLES, "persistent_handles"),
    (0x20, "directory_leasing"),
    (CAP_ENCRYPTION, "encryption"),
    (0x80, "notifications"),
];

const MODE_ENABLED: u16 = 1;
const MODE_REQUIRED: u16 = 2;

const CONTEXT_PREAUTH: u16 = 1;
const CONTEXT_ENCRYPTION: u16 = 2;
const CONTEXT_SIGNING: u16 = 8;
const HASH_SHA512: u16 = 1;

/// Largest read, write and answer that are believed, whatever the server says.
const MOST_BYTES: u32 = 8 << 20;
/// What dialects without large MTU move at once.
const SMALL_BYTES: u32 = 65_536;

/// The object identifier of NTLM in a server's list of mechanisms, as DER.
const NTLM_OID: [u8; 10] = [0x2b, 0x06, 0x01, 0x04, 0x01, 0x82, 0x37, 0x02, 0x02, 0x0a];

/// By what the server knows who connects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Client {
    /// The connections of one session share it, and sessions that claim each other's files.
    pub guid: [u8; 16],
    /// The session that this one replaces.
    pub lost: Option<LostSession>,
    /// How long the server is asked to keep the files of a lost connection; None: not at all.
    pub keep: Option<Duration>,
    /// What the session before asked for and was not answered.
    pub unanswered: Option<Unanswered>,
}

/// An open that was to be kept, and whose answer was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unanswered {
    /// The client's name for it.
    pub create_guid: [u8; 16],
    /// The key of its lease.
    pub key: [u8; 16],
    /// Made from the file's name.
    pub name: [u8; 16],
}

/// A session whose connection was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LostSession {
    pub id: u64,
    /// The server that gave it: to others its number may be that of somebody else's session.
    pub server: [u8; 16],
}

impl Client {
    /// One that nobody knows.
    pub fn unknown() -> Result<Client> {
        Ok(Client { guid: random()?, ..Client::default() })
    }
}

/// What the client offered.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub dialects: Vec<Dialect>,
    pub capabilities: u32,
    pub mode: u16,
    pub client: Client,
    ciphers: Vec<CipherId>,
    signings: Vec<SigningId>,
}

/// What was agreed on.
#[derive(Clone)]
pub(crate) struct Server {
    pub offer: Offer,
    pub dialect: Dialect,
    pub capabilities: u32,
    pub mode: u16,
    pub guid: [u8; 16],
    pub max_transact: u32,
    pub max_read: u32,
    pub max_write: u32,
    pub cipher: Option<CipherId>,
    pub signing: SigningId,
    /// The mechanisms that the server offers do not hold NTLM.
    pub refuses_ntlm: bool,
    /// They do not hold Kerberos.
    pub refuses_kerberos: bool,
    pub preauth: Preauth,
}

impl Offer {
    fn new(plan: &Plan, client: Client) -> Offer {
        let dialects = plan.dialect.map_or_else(|| Dialect::ALL.to_vec(), |d| vec![d]);
        let newest = *dialects.last().expect("never empty");
        let encrypts = plan.options.encrypt != Encrypt::Off;
        let mut capabilities = 0;
        if newest >= Dialect::D300 {
            capabilities = CAP_LEASING | CAP_LARGE_MTU | CAP_MULTI_CHANNEL;
            capabilities |= if plan.options.dfs { CAP_DFS } else { 0 };
            capabilities |= if encrypts { CAP_ENCRYPTION } else { 0 };
            capabilities |= if client.keep.is_some() { CAP_PERSISTENT_HANDLES } else { 0 };
        }
        let mode = if plan.options.sign == Sign::On { MODE_ENABLED | MODE_REQUIRED } else { MODE_ENABLED };
        let all = if encrypts { CipherId::ALL.to_vec() } else { Vec::new() };
        let ciphers = plan.cipher.map_or(all, |c| vec![c]);
        let signings = plan.signing.map_or_else(|| SigningId::ALL.to_vec(), |s| vec![s]);
        Offer { dialects, capabilities, mode, client, ciphers, signings }
    }

    fn encode(&self) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(200);
        out.u16(36);
        out.u16(self.dialects.len() as u16);
        out.u16(self.mode);
        out.u16(0);
        out.u32(self.capabilities);
        out.put(&self.client.guid);
        out.zeros(8);
        self.dialects.iter().for_each(|d| out.u16(d.code()));
        if self.dialects.contains(&Dialect::D311) {
            out.align8();
            let at = (HEADER_BYTES + out.len()) as u32;
            let count = self.put_contexts(&mut out)?;
            out[28..32].copy_from_slice(&at.to_le_bytes());
            out[32..34].copy_from_slice(&count.to_le_bytes());
        }
        Ok(out)
    }

    fn put_contexts(&self, out: &mut Vec<u8>) -> Result<u16> {
        let mut preauth = Vec::new();
        preauth.u16(1);
        preauth.u16(32);
        preauth.u16(HASH_SHA512);
        preauth.put(&random::<32>()?);
        let listed = |codes: Vec<u16>| {
            let mut data = Vec::new();
            data.u16(codes.len() as u16);
            codes.into_iter().for_each(|c| data.u16(c));
            data
        };
        let mut contexts = vec![(CONTEXT_PREAUTH, preauth)];
        if !self.ciphers.is_empty() {
            contexts.push((CONTEXT_ENCRYPTION, listed(self.ciphers.iter().map(|c| c.code()).collect())));
        }
        contexts.push((CONTEXT_SIGNING, listed(self.signings.iter().map(|s| s.code()).collect())));
        for (kind, data) in &contexts {
            out.align8();
            out.u16(*kind);
            out.u16(data.len() as u16);
            out.u32(0);
            out.put(data);
        }
        Ok(contexts.len() as u16)
    }
}

/// What the contexts of a 3.1.1 answer say.
#[derive(Debug, Default, PartialEq, Eq)]
struct Contexts {
    hash: Option<u16>,
    cipher: Option<u16>,
    signing: Option<u16>,
}

fn parse_contexts(message: &[u8], at: usize, count: u16) -> Result<Contexts> {
    let view = View(message);
    let mut found = Contexts::default();
    let mut at = at;
    for _ in 0..count {
        let (kind, len) = (view.u16(at)?, usize::from(view.u16(at + 2)?));
        let data = View(view.bytes(at + 8, len)?);
        match kind {
            CONTEXT_PREAUTH => found.hash = Some(data.u16(4)?),
            CONTEXT_ENCRYPTION => found.cipher = Some(data.u16(2)?),
            CONTEXT_SIGNING => found.signing = Some(data.u16(2)?),
            _ => {}
        }
        at = (at + 8 + len).next_multiple_of(8);
    }
    Ok(found)
}

impl Server {
    fn parse(offer: Offer, message: &[u8]) -> Result<Server> {
        let view = View(message);
        let code = view.u16(68)?;
        let dialect = Dialect::from_code(code).filter(|d| offer.dialects.contains(d));
        let dialect = dialect.ok_or_else(|| broken(format!("the server chose dialect {code:#06x}, not offered")))?;
        let capabilities = view.u32(88)?;
        let large = dialect >= Dialect::D210 && capabilities & CAP_LARGE_MTU != 0;
        let limit = if large { MOST_BYTES } else { SMALL_BYTES };
        let size = |at| view.u32(at).map(|bytes| bytes.min(limit));
        let token = view.piece(usize::from(view.u16(120)?), usize::from(view.u16(122)?))?;
        let offers = |oid: &[u8]| token.is_empty() || token.windows(oid.len()).any(|w| w == oid);
        let mut server = Server {
            dialect,
            capabilities,
            mode: view.u16(66)?,
            guid: view.array(72)?,
            max_transact: size(92)?,
            max_read: size(96)?,
            max_write: size(100)?,
            cipher: None,
            signing: if dialect < Dialect::D300 { SigningId::HmacSha256 } else { SigningId::AesCmac },
            refuses_ntlm: !offers(&NTLM_OID),
            refuses_kerberos: !offers(&KERBEROS_OID) && !offers(&KERBEROS_OID_OF_WINDOWS),
            preauth: Preauth::new(),
            offer,
        };
        if server.max_read < 4096 || server.max_write < 4096 || server.max_transact < 4096 {
            return Err(broken("the server allows no reads or writes of a sensible size"));
        }
        if dialect == Dialect::D311 {
            server.take_contexts(parse_contexts(message, view.u32(124)? as usize, view.u16(70)?)?)?;
        } else if dialect >= Dialect::D300 && capabilities & CAP_ENCRYPTION != 0 {
            server.cipher = Some(CipherId::Aes128Ccm);
        }
        Ok(server)
    }

    fn take_contexts(&mut self, contexts: Contexts) -> Result<()> {
        if contexts.hash != Some(HASH_SHA512) {
            return Err(broken("the server names no integrity hash that was offered"));
        }
        // Zero says that no cipher is common to both.
        self.cipher = match contexts.cipher.filter(|c| *c != 0) {
            None => None,
            Some(code) => match CipherId::from_code(code).filter(|c| self.offer.ciphers.contains(c)) {
                None => return Err(broken("the server chose a cipher that was not offered")),
                cipher => cipher,
            },
        };
        if let Some(code) = contexts.signing {
            let chosen = SigningId::from_code(code).filter(|s| self.offer.signings.contains(s));
            self.signing = chosen.ok_or_else(|| broken("the server chose a way of signing that was not offered"))?;
        }
        Ok(())
    }

    /// Whether the server refuses unsigned messages.
    pub fn requires_signing(&self) -> bool {
        self.mode & MODE_REQUIRED != 0
    }

    /// Whether requests may be longer than one credit pays for.
    pub fn has_large_mtu(&self) -> bool {
        self.dialect >= Dialect::D210 && self.capabilities & CAP_LARGE_MTU != 0
    }

    /// Whether the server grants leases; without them there are oplocks.
    pub fn has_leases(&self) -> bool {
        self.dialect >= Dialect::D210 && self.capabilities & CAP_LEASING != 0
    }

    /// Whether it keeps files of shares that are continuously available over its own restarts.
    pub fn has_persistent_handles(&self) -> bool {
        self.dialect >= Dialect::D300 && self.capabilities & CAP_PERSISTENT_HANDLES != 0
    }

    /// Whether a session may have several connections.
    pub fn has_multichannel(&self) -> bool {
        self.dialect >= Dialect::D300 && self.capabilities & CAP_MULTI_CHANNEL != 0
    }

    /// Whether it knows where DFS paths lead.
    pub fn has_dfs(&self) -> bool {
        self.capabilities & CAP_DFS != 0
    }

    /// The capabilities in words.
    pub fn capability_names(&self) -> String {
        let names = CAPABILITIES.iter().filter(|c| self.capabilities & c.0 != 0).map(|c| c.1);
        names.collect::<Vec<_>>().join(" ")
    }

    /// Credits for `depth` operations of the largest size.
    pub fn credits_for(&self, depth: u32) -> u32 {
        let each = self.max_read.max(self.max_write).div_ceil(crate::window::CREDIT_BYTES);
        depth.saturating_mul(each).saturating_add(16).min(crate::session::MAX_CREDITS)
    }

    /// Whether what was pinned was agreed on.
    fn check(&self, plan: &Plan) -> Result<()> {
        check_cipher(self.dialect, plan.cipher, plan.options.encrypt)?;
        check_signing(self.dialect, plan.signing)?;
        let unsupported = |message: String| Err(Error::new(ErrorKind::Unsupported, "connect", message));
        if let (Some(asked), None) = (plan.cipher, self.cipher) {
            return unsupported(format!("the server does not know the cipher {}: choose another", asked.name()));
        }
        if plan.options.encrypt == Encrypt::Required && self.cipher.is_none() {
            return unsupported("the server offers no encryption: use encrypt=preferred or turn it on there".into());
        }
        match plan.signing {
            Some(asked) if asked != self.signing => {
                unsupported(format!("the server does not sign with {}: it knows {}", asked.name(), self.signing.name()))
            }
            _ => Ok(()),
        }
    }
}

/// Connects to an address and negotiates.
pub(crate) fn negotiate(plan: &Plan, address: &Arc<str>, client: Client) -> Result<(Link, Server)> {
    let wire = dial(address, plan.options.port, &dial_options(plan))?;
    let mut link = Link::new(wire, address, crate::session::MAX_CREDITS);
    let offer = Offer::new(plan, client);
    let body = offer.encode()?;
    let mut preauth = Preauth::new();
    let part = Part { command: NEGOTIATE, charge: 1, body: &body };
    let answered = call(std::slice::from_mut(&mut link), 0, &[part], Proof::AsSession, Some(&mut preauth));
    answered.map_err(|error| probe_smb1(plan, address, error))?;
    let (code, message) = link.replies.get(0);
    if code != status::SUCCESS {
        return Err(refused(plan, code));
    }
    preauth.add(message);
    let mut server = Server::parse(offer, message)?;
    server.preauth = preauth;
    server.check(plan)?;
    link.charges = server.dialect >= Dialect::D210;
    link.max_frame = server.max_transact.max(server.max_read).max(SMALL_BYTES) as usize + SMALL_BYTES as usize;
    link.window.set_target(server.credits_for(plan.options.depth));
    Ok((link, server))
}

fn dial_options(plan: &Plan) -> DialOptions {
    DialOptions { timeout: plan.timeout, privileged_port: false }
}

fn refused(plan: &Plan, code: u32) -> Error {
    let error = status::error("connect", code);
    match plan.dialect {
        Some(dialect) if code == status::NOT_SUPPORTED => Error {
            message: format!(
                "the server does not speak SMB {}: leave out dialect=, or turn it on there",
                dialect.name()
            ),
            ..error
        },
        _ => error,
    }
}

/// A server that hangs up on SMB2 may know only SMB1, or take no more connections: asks it in SMB1 for either, to say so
/// (MS-SMB2 3.3.5.3.1: a server that knows SMB2 answers in it).
fn probe_smb1(plan: &Plan, address: &str, error: Error) -> Error {
    if error.kind != ErrorKind::Disconnected {
        return error;
    }
    let mut request = vec![0xFF, b'S', b'M', b'B', 0x72, 0, 0, 0, 0, 0x18, 0x53, 0xC8];
    request.zeros(20);
    let dialects = b"\x02NT LM 0.12\0\x02SMB 2.002\0\x02SMB 2.???\0";
    request.u8(0);
    request.u16(dialects.len() as u16);
    request.put(dialects);
    let asked = dial(address, plan.options.port, &dial_options(plan)).and_then(|mut wire| {
        wire.send(&[&(request.len() as u32).to_be_bytes(), &request])?;
        wire.fill(8)?;
        Ok(<[u8; 4]>::try_from(&wire.buffered()[4..8]).unwrap_or_default())
    });
    match asked {
        Ok(crate::codec::SMB1_MAGIC) => crate::receive::smb1(),
        Ok(crate::codec::PLAIN_MAGIC) => Error {
            message: format!("{}: it speaks SMB, and takes no more connections just now", error.message),
            ..error
        },
        _ => Error {
            message: format!(
                "{} while it was asked for its SMB version: is this an SMB server, and does it take more connections?",
                error.message
            ),
            ..error
        },
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::options::SmbOptions;
    use proptest::prelude::*;

    const CLIENT: Client = Client { guid: [1; 16], lost: None, keep: None, unanswered: None };

    fn plan(change: impl FnOnce(&mut SmbOptions)) -> Plan {
        let mut options =
            SmbOptions { host: "h".into(), user: Some("u".into()), password: Some("p".into()), ..Default::default() };
        change(&mut options);
        Plan::new(options).unwrap()
    }

    /// Decodes whatever it is; bounds hold for what comes out.
    pub(crate) fn decode(message: &[u8]) {
        if let Ok(server) = Server::parse(Offer::new(&plan(|_| {}), CLIENT), message) {
            assert!(server.max_read <= MOST_BYTES && server.credits_for(4096) <= crate::session::MAX_CREDITS);
        }
    }

    /// A valid answer of a 3.1.1 server.
    pub(crate) fn answer(dialect: Dialect, cipher: u16, signing: u16) -> Vec<u8> {
        let mut out = vec![0; HEADER_BYTES];
        out.u16(65);
        out.u16(1);
        out.u16(dialect.code());
        out.u16(3);
        out.put(&[7; 16]);
        out.u32(0x4F);
        out.u32(8 << 20);
        out.u32(8 << 20);
        out.u32(8 << 20);
        out.zeros(16);
        out.u16(128);
        out.u16(0);
        out.u32(128);
        for (kind, data) in [
            (CONTEXT_PREAUTH, vec![1, 0, 0, 0, 1, 0]),
            (CONTEXT_ENCRYPTION, vec![1, 0, cipher as u8, 0]),
            (CONTEXT_SIGNING, vec![1, 0, signing as u8, 0]),
        ] {
            out.align8();
            out.u16(kind);
            out.u16(data.len() as u16);
            out.u32(0);
            out.put(&data);
        }
        out
    }

    #[test]
    fn pins_offer_exactly_what_they_say() {
        let all = Offer::new(&plan(|_| {}), CLIENT);
        assert_eq!((all.dialects.len(), all.ciphers.len(), all.signings.len()), (5, 4, 3));
        let pinned = plan(|o| {
            o.dialect = Some("3.1.1".into());
            o.cipher = Some("aes-256-ccm".into());
            o.signing_algorithm = Some("aes-cmac".into());
        });
        let offer = Offer::new(&pinned, CLIENT);
        assert_eq!(offer.dialects, [Dialect::D311]);
        assert_eq!((offer.ciphers, offer.signings), (vec![CipherId::Aes256Ccm], vec![SigningId::AesCmac]));
        let off = Offer::new(&plan(|o| o.encrypt = Encrypt::Off), CLIENT);
        assert!(off.ciphers.is_empty() && off.capabilities & CAP_ENCRYPTION == 0);
        let old = Offer::new(&plan(|o| o.dialect = Some("2.1".into())), CLIENT);
        assert_eq!((old.capabilities, old.encode().unwrap().len()), (0, 38));
    }

    #[test]
    fn answers_are_taken_or_refused() {
        let plan = plan(|o| o.cipher = Some("aes-128-gcm".into()));
        let parse = |message: &[u8]| Server::parse(Offer::new(&plan, CLIENT), message);
        let server = parse(&answer(Dialect::D311, 2, 2)).unwrap();
        assert_eq!((server.cipher, server.signing), (Some(CipherId::Aes128Gcm), SigningId::AesGmac));
        assert_eq!(server.capability_names(), "dfs leasing large_mtu multi_channel encryption");
        assert!(server.check(&plan).is_ok() && !server.refuses_ntlm);
        assert_eq!(parse(&answer(Dialect::D311, 4, 2)).err().unwrap().kind, ErrorKind::Protocol);
        let none = parse(&answer(Dialect::D311, 0, 2)).unwrap();
        assert_eq!(none.check(&plan).unwrap_err().kind, ErrorKind::Unsupported);
        assert_eq!(parse(&answer(Dialect::D302, 2, 2)).unwrap().check(&plan).unwrap_err().kind, ErrorKind::Unsupported);
    }

    proptest! {
        #[test]
        fn hostile_answers_never_panic(changes in proptest::collection::vec((0usize..200, any::<u8>()), 0..6), cut in 0usize..220) {
            let mut message = answer(Dialect::D311, 2, 2);
            let len = message.len();
            changes.iter().for_each(|(at, value)| message[at % len] = *value);
            message.truncate(cut);
            decode(&message);
        }
    }
}
