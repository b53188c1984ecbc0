//! SESSION_SETUP and TREE_CONNECT: who we are, what protects the messages, which share.

use crate::addresses::another_server;
use crate::codec::{broken, Header, Put, View, ECHO, HEADER_BYTES, IOCTL, SESSION_SETUP, TREE_CONNECT};
use crate::crypto::{derive, random, Preauth, Signer};
use crate::ioctl;
use crate::link::{call, Link, Part, Proof};
use crate::names::utf16;
use crate::negotiate::{negotiate, Client, Server};
use crate::ntlm::{self, Fresh, Identity};
use crate::options::{Auth, Dialect, Encrypt, Plan, Sign};
use crate::seal::Seal;
use crate::spnego;
use crate::status;
use naslab_core::{Error, ErrorKind, Result};
use naslab_gss::{Initiator, Order};
use std::slice::from_mut;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

const SESSION_GUEST: u16 = 1;
const SESSION_ANONYMOUS: u16 = 2;
const SESSION_ENCRYPTS: u16 = 4;
const SHARE_ENCRYPTS: u32 = 0x8000;
/// SHAREFLAG_DFS and DFS_ROOT; SHARE_CAP_DFS (MS-SMB2 2.2.10).
const SHARE_IN_DFS: u32 = 0x3;
const SHARE_HAS_DFS: u32 = 0x8;
/// SHARE_CAP_CONTINUOUS_AVAILABILITY.
const SHARE_IS_CONTINUOUS: u32 = 0x10;
const SETUP_BINDING: u8 = 1;
/// Seconds from the year 1601 to 1970.
const WINDOWS_EPOCH_SECONDS: u64 = 11_644_473_600;

/// Rounds of a Kerberos login; one is usual, and clocks that differ may take another.
const MAX_KERBEROS_ROUNDS: u32 = 4;

/// Most requests made only to be granted credits.
const MOST_ASKS: u32 = 10;

/// The keys of a session.
#[derive(Clone)]
pub(crate) struct Keys {
    pub signing: [u8; 16],
    out: Vec<u8>,
    inward: Vec<u8>,
}

/// A session as the server gave it.
#[derive(Clone)]
pub(crate) struct Login {
    pub session_id: u64,
    /// `ntlmv2`, `kerberos`, `guest` or `anonymous`.
    pub auth: &'static str,
    pub keys: Option<Keys>,
    pub encrypts: bool,
    pub server_name: String,
}

/// A share as the server gave it.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    /// `disk`, `pipe` or `printer`.
    pub kind: &'static str,
    pub encrypts: bool,
    /// It is a DFS namespace, or a part of one.
    pub dfs: bool,
    /// What is open on it outlasts failovers.
    pub is_continuous: bool,
}

/// A connection with its session and share.
pub(crate) struct Connected {
    pub link: Link,
    pub server: Server,
    pub login: Login,
    pub tree: Tree,
}

/// Connects to an address, logs on and connects to a share.
pub(crate) fn connect(plan: &Plan, address: &Arc<str>, share: &str, client: Client) -> Result<Connected> {
    let (mut link, server) = negotiate(plan, address, client)?;
    let login = log_on(&mut link, plan, &server, None)?;
    protect(&mut link, plan, &server, &login, 0)?;
    let tree = connect_tree(&mut link, plan, &server, &login, share)?;
    if login.keys.is_some() && may_be_downgraded(&server) {
        validate_negotiation(&mut link, &server)?;
    }
    ask_for_credits(&mut link, server.credits_for(plan.options.depth))?;
    Ok(Connected { link, server, login, tree })
}

/// Collects credits before the work begins: servers give only so many with one answer.
fn ask_for_credits(link: &mut Link, wanted: u32) -> Result<()> {
    for _ in 0..MOST_ASKS {
        let before = link.window.total();
        if before >= wanted {
            return Ok(());
        }
        call(from_mut(link), 0, &[Part { command: ECHO, charge: 1, body: &[4, 0, 0, 0] }], Proof::AsSession, None)?;
        if link.window.total() <= before {
            return Ok(());
        }
    }
    Ok(())
}

/// One more connection of the session of `first`, to this address.
pub(crate) fn bind(plan: &Plan, first: &Connected, address: &Arc<str>, channel: u8) -> Result<Link> {
    let (mut link, server) = negotiate(plan, address, first.server.offer.client)?;
    if server.guid != first.server.guid && *address != first.link.address {
        return Err(another_server(&first.link.address, address));
    }
    if server.dialect != first.server.dialect || server.cipher != first.server.cipher {
        return Err(broken("the server agreed on something else for the second connection of a session"));
    }
    let keys = first.login.keys.as_ref().ok_or_else(|| status::error("connect", status::NOT_SUPPORTED))?;
    link.session_id = first.login.session_id;
    link.signer = Some(Signer::new(first.server.signing, &keys.signing));
    if let (Some(cipher), true) = (server.cipher, first.link.seal.is_some()) {
        // Before the logon: the server may encrypt its answers to it, with the keys of the session.
        link.seal = Some(Seal::new(cipher, &keys.out, &keys.inward, channel)?);
    }
    log_on(&mut link, plan, &server, Some(&first.login))?;
    (link.seal_all, link.sign_all, link.tree_id) = (first.link.seal_all, first.link.sign_all, first.link.tree_id);
    ask_for_credits(&mut link, server.credits_for(plan.options.depth))?;
    Ok(link)
}

/// A session that was lost is named to the server that gave it (MS-SMB2 3.2.4.2.3), which then ends it before it
/// answers, and what it keeps of it can be claimed.
fn setup_request(plan: &Plan, server: &Server, binding: bool, token: &[u8]) -> Vec<u8> {
    let lost = server.offer.client.lost.filter(|lost| !binding && lost.server == server.guid);
    let mut out = Vec::with_capacity(24 + token.len());
    out.u16(25);
    out.u8(if binding { SETUP_BINDING } else { 0 });
    out.u8(if plan.options.sign == Sign::On { 2 } else { 1 });
    out.u32(0);
    out.u32(0);
    out.u16((HEADER_BYTES + 24) as u16);
    out.u16(token.len() as u16);
    out.u64(lost.map_or(0, |lost| lost.id));
    out.put(token);
    out
}

/// The server's token in an answer to SESSION_SETUP.
pub(crate) fn setup_token(message: &[u8]) -> Result<&[u8]> {
    let view = View(message);
    view.piece(usize::from(view.u16(68)?), usize::from(view.u16(70)?))
}

fn windows_time() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_secs() + WINDOWS_EPOCH_SECONDS) * 10_000_000 + u64::from(since.subsec_nanos()) / 100
}

/// What client and server agreed on when they proved who they are.
struct Agreed {
    /// The key as long as the mechanism makes it: 16 bytes with NTLM, up to 32 with Kerberos.
    key: Vec<u8>,
    server_name: String,
}

fn log_on(link: &mut Link, plan: &Plan, server: &Server, bound: Option<&Login>) -> Result<Login> {
    check_mechanism(plan, server)?;
    let mut preauth = server.preauth.clone();
    let agreed = match plan.auth {
        Auth::Kerberos => by_kerberos(link, plan, server, bound.is_some(), &mut preauth)?,
        _ => by_ntlm(link, plan, server, bound.is_some(), &mut preauth)?,
    };
    finish_logon(link, plan, server, agreed, &preauth)
}

fn check_mechanism(plan: &Plan, server: &Server) -> Result<()> {
    let message = match plan.auth {
        Auth::Kerberos if server.refuses_kerberos => {
            "the server offers no Kerberos: it is in no realm or domain; log in with a user and a password (auth=ntlm)"
        }
        Auth::Ntlm | Auth::Guest if server.refuses_ntlm => {
            "the server offers only Kerberos: get a ticket with kinit and use auth=kerberos"
        }
        _ => return Ok(()),
    };
    Err(Error::new(ErrorKind::Unsupported, "connect", message))
}

/// Takes an answer that is not the last one.
fn take_interim(link: &mut Link, bound: bool, preauth: &mut Preauth) -> Result<Vec<u8>> {
    let message = link.replies.get(0).1.to_vec();
    preauth.add(&message);
    if bound {
        // Still signed with the key of the session that is being bound to, unless it came encrypted.
        link.check_reply_signature(0)?;
    } else {
        link.session_id = Header::parse(&message)?.session_id;
    }
    Ok(message)
}

fn by_ntlm(link: &mut Link, plan: &Plan, server: &Server, bound: bool, preauth: &mut Preauth) -> Result<Agreed> {
    let options = &plan.options;
    let (user, password) = match plan.auth {
        Auth::Guest => (options.user.as_deref().unwrap_or("guest"), options.password.as_deref().unwrap_or("")),
        _ => (options.user.as_deref().unwrap_or(""), options.password.as_deref().unwrap_or("")),
    };
    let identity = Identity { auth: plan.auth, user, password, domain: &options.domain };
    let first = ntlm::negotiate();
    let code = setup_call(link, &setup_request(plan, server, bound, &first), bound, preauth)?;
    if code != status::MORE_PROCESSING_REQUIRED {
        return Err(logon_error(plan, server, code));
    }
    let message = take_interim(link, bound, preauth)?;
    let fresh = Fresh { client_challenge: random()?, session_key: random()?, time: windows_time() };
    let proof = ntlm::authenticate(&identity, &first, setup_token(&message)?, &fresh)?;
    let code = setup_call(link, &setup_request(plan, server, bound, &proof.message), bound, preauth)?;
    if code != status::SUCCESS {
        return Err(logon_error(plan, server, code));
    }
    Ok(Agreed { key: proof.session_key.to_vec(), server_name: proof.server_name })
}

/// The principal that a target names: its user, of the realm that its domain gives. A domain without a dot is the short
/// name that Windows gives it (NetBIOS), which no realm has: the user is then one of the default realm.
fn principal(user: &str, domain: &str) -> String {
    let known = domain.contains('.') && !user.contains('@');
    if known {
        format!("{user}@{}", domain.to_uppercase())
    } else {
        user.to_string()
    }
}

fn by_kerberos(link: &mut Link, plan: &Plan, server: &Server, bound: bool, preauth: &mut Preauth) -> Result<Agreed> {
    let host = plan.options.host.trim_matches(['[', ']']);
    let user = plan.options.user.as_deref().map(|user| principal(user, &plan.options.domain));
    let (mut login, token) = Initiator::begin("cifs", host, user.as_deref(), Order::Watched)?;
    let mut body = setup_request(plan, server, bound, &spnego::first(&token));
    for _ in 0..MAX_KERBEROS_ROUNDS {
        let code = setup_call(link, &body, bound, preauth)?;
        let last = match code {
            status::SUCCESS => true,
            status::MORE_PROCESSING_REQUIRED => false,
            _ => return Err(kerberos_error(plan, server, code)),
        };
        let message = if last { link.replies.get(0).1.to_vec() } else { take_interim(link, bound, preauth)? };
        let answer = spnego::answer(setup_token(&message)?)?;
        if answer.rejected {
            return Err(kerberos_error(plan, server, status::LOGON_FAILURE));
        }
        // Without its token a server has not proved who it is: `session_key` refuses that.
        let token = if answer.token.is_empty() { Vec::new() } else { login.step(Some(answer.token))? };
        if last {
            if !bound {
                link.session_id = Header::parse(&message)?.session_id;
            }
            return Ok(Agreed { key: login.session_key()?, server_name: host.to_string() });
        }
        body = setup_request(plan, server, bound, &spnego::next(&token));
    }
    Err(broken("the server's Kerberos login does not end"))
}

fn kerberos_error(plan: &Plan, server: &Server, code: u32) -> Error {
    let error = logon_error(plan, server, code);
    if code != status::LOGON_FAILURE && code != status::ACCESS_DENIED {
        return error;
    }
    let host = &plan.options.host;
    let message = format!(
        "the server does not take the Kerberos ticket: it must know this user, and its keytab must hold the key of \
         cifs/{host}"
    );
    Error { message, ..error }
}

/// One round; the messages of a binding are signed with the session's key.
fn setup_call(link: &mut Link, body: &[u8], bound: bool, preauth: &mut Preauth) -> Result<u32> {
    let part = Part { command: SESSION_SETUP, charge: 1, body };
    let proof = if bound { Proof::RequestSigned } else { Proof::AsSession };
    call(from_mut(link), 0, &[part], proof, Some(preauth))?;
    Ok(link.replies.get(0).0)
}

fn logon_error(plan: &Plan, server: &Server, code: u32) -> Error {
    let error = denied(plan, server, code, "server");
    let error = match &plan.options.user {
        Some(user) => error.with("user", user),
        None => error,
    };
    if !plan.auth.has_key() && error.kind == ErrorKind::Permission {
        let message = format!("{}: the server accepts no guests, give a user and a password", error.message);
        return Error { message, ..error };
    }
    error
}

/// Takes the last answer: what kind of session it is, its keys, and whether the server knows them.
fn finish_logon(link: &mut Link, plan: &Plan, server: &Server, agreed: Agreed, preauth: &Preauth) -> Result<Login> {
    let (_, message) = link.replies.get(0);
    let flags = View(message).u16(66)?;
    let auth = match flags {
        flags if flags & SESSION_ANONYMOUS != 0 || plan.auth == Auth::Anonymous => "anonymous",
        flags if flags & SESSION_GUEST != 0 => "guest",
        _ if plan.auth == Auth::Kerberos => "kerberos",
        _ => "ntlmv2",
    };
    let known = matches!(auth, "ntlmv2" | "kerberos");
    if plan.auth.has_key() && !known {
        let message =
            "the server does not know this user and would let us in as a guest: check the name, or use auth=guest";
        return Err(Error::new(ErrorKind::Permission, "connect", message)
            .with("user", plan.options.user.as_deref().unwrap_or("")));
    }
    let mut login = Login {
        session_id: link.session_id,
        auth,
        keys: None,
        encrypts: flags & SESSION_ENCRYPTS != 0,
        server_name: agreed.server_name,
    };
    if !known {
        return Ok(login);
    }
    let keys = derive_keys(server, &agreed.key, preauth);
    link.signer = Some(Signer::new(server.signing, &keys.signing));
    let header = Header::parse(message)?;
    if header.flags & crate::codec::FLAG_SIGNED != 0 || server.dialect == Dialect::D311 {
        link.check_reply_signature(0)?;
    }
    login.keys = Some(keys);
    Ok(login)
}

/// The keys of a session (MS-SMB2 3.1.4.2 and 3.2.5.3.1). All come from the first 16 bytes of what was agreed on, but
/// for ciphers of 256 bits, which take all of it.
fn derive_keys(server: &Server, agreed: &[u8], preauth: &Preauth) -> Keys {
    let mut short = [0; 16];
    let len = agreed.len().min(16);
    short[..len].copy_from_slice(&agreed[..len]);
    let session_key = &short;
    let long = server.cipher.is_some_and(|c| c.key_bytes() == 32);
    let cipher_key = |label: &[u8], context: &[u8]| match long {
        true => derive::<32>(agreed, label, context).to_vec(),
        false => derive::<16>(session_key, label, context).to_vec(),
    };
    match server.dialect {
        Dialect::D202 | Dialect::D210 => Keys { signing: *session_key, out: Vec::new(), inward: Vec::new() },
        Dialect::D300 | Dialect::D302 => Keys {
            signing: derive(session_key, b"SMB2AESCMAC\0", b"SmbSign\0"),
            out: cipher_key(b"SMB2AESCCM\0", b"ServerIn \0"),
            inward: cipher_key(b"SMB2AESCCM\0", b"ServerOut\0"),
        },
        Dialect::D311 => Keys {
            signing: derive(session_key, b"SMBSigningKey\0", &preauth.0),
            out: cipher_key(b"SMBC2SCipherKey\0", &preauth.0),
            inward: cipher_key(b"SMBS2CCipherKey\0", &preauth.0),
        },
    }
}

/// Decides on signing and encryption of the session.
fn protect(link: &mut Link, plan: &Plan, server: &Server, login: &Login, channel: u8) -> Result<()> {
    let options = &plan.options;
    let Some(keys) = &login.keys else {
        return Ok(());
    };
    if options.sign == Sign::Off && server.requires_signing() {
        let message = "the server requires signed messages: use sign=on or sign=auto, or change its setting";
        return Err(Error::new(ErrorKind::Permission, "connect", message));
    }
    link.sign_all = options.sign == Sign::On || server.requires_signing();
    if let Some(cipher) = server.cipher {
        link.seal = Some(Seal::new(cipher, &keys.out, &keys.inward, channel)?);
    }
    link.seal_all = match options.encrypt {
        Encrypt::Off if login.encrypts => return Err(demands_encryption("server")),
        Encrypt::Off => false,
        Encrypt::Auto => login.encrypts,
        Encrypt::Preferred | Encrypt::Required => server.cipher.is_some(),
    };
    if link.seal_all && link.seal.is_none() {
        return Err(broken("the server requires encryption but agreed on no cipher"));
    }
    Ok(())
}

fn demands_encryption(who: &str) -> Error {
    let message =
        format!("this {who} requires encryption: use encrypt=auto or encrypt=required, and dialect 3.0 or later");
    Error::new(ErrorKind::Permission, "connect", message)
}

fn connect_tree(link: &mut Link, plan: &Plan, server: &Server, login: &Login, share: &str) -> Result<Tree> {
    let host = plan.options.host.trim_matches(['[', ']']);
    let path = utf16(&format!("\\\\{host}\\{share}"));
    let mut body = Vec::with_capacity(8 + path.len());
    body.u16(9);
    body.u16(0);
    body.u16((HEADER_BYTES + 8) as u16);
    body.u16(path.len() as u16);
    body.put(&path);
    // 3.1.1 wants this request signed even where nothing else is: it proves that nobody changed the negotiation.
    let proof = if server.dialect == Dialect::D311 { Proof::Signed } else { Proof::AsSession };
    call(from_mut(link), 0, &[Part { command: TREE_CONNECT, charge: 1, body: &body }], proof, None)?;
    let (code, message) = link.replies.get(0);
    if code != status::SUCCESS {
        return Err(denied(plan, server, code, "share").with("share", share));
    }
    let view = View(message);
    let tree_id = Header::parse(message)?.tree_id;
    let kind = match view.array::<1>(66)?[0] {
        1 => "disk",
        2 => "pipe",
        3 => "printer",
        _ => return Err(broken("the share is of no known kind")),
    };
    let (flags, capabilities) = (view.u32(68)?, view.u32(72)?);
    let dfs = flags & SHARE_IN_DFS != 0 || capabilities & SHARE_HAS_DFS != 0;
    let is_continuous = capabilities & SHARE_IS_CONTINUOUS != 0;
    let tree = Tree { kind, encrypts: flags & SHARE_ENCRYPTS != 0, dfs, is_continuous };
    link.tree_id = tree_id;
    if tree.encrypts {
        match (plan.options.encrypt, &link.seal) {
            (Encrypt::Off, _) => return Err(demands_encryption("share").with("share", share)),
            (_, Some(_)) => link.seal_all = true,
            _ if login.keys.is_none() => {
                let message = "this share requires encryption, and a guest has no key: name a user and a password";
                return Err(Error::new(ErrorKind::Permission, "connect", message).with("share", share));
            }
            _ => return Err(demands_encryption("share").with("share", share)),
        }
    }
    Ok(tree)
}

/// The error of a refusal; servers and shares that demand encryption refuse in the same words as others.
fn denied(plan: &Plan, server: &Server, code: u32, who: &str) -> Error {
    let error = status::error("connect", code);
    let unencrypted = plan.options.encrypt == Encrypt::Off || server.cipher.is_none();
    if code == status::ACCESS_DENIED && unencrypted {
        let hint =
            format!("a {who} that requires encryption also answers so: try encrypt=auto and dialect 3.0 or later");
        return Error { message: format!("{}; {hint}", error.message), ..error };
    }
    error
}

/// Whether somebody between client and server could have changed the negotiation unnoticed. 3.1.1 hashes all of it
/// into its keys; where one dialect before 3.0 was the only one offered there is nothing to take away.
fn may_be_downgraded(server: &Server) -> bool {
    match server.dialect {
        Dialect::D311 => false,
        Dialect::D300 | Dialect::D302 => true,
        older => server.offer.dialects.iter().any(|offered| *offered > older),
    }
}

fn changed_on_its_way(what: &str) -> Error {
    broken(format!("{what}: somebody changed the negotiation on its way to a dialect that protects less"))
}

/// Asks over the signed session whether the server saw the same negotiation (MS-SMB2 3.2.5.5 and 3.3.5.15.12). Servers
/// before 3.0 that do not know the question refuse it, and sign their refusal: a good answer, as nobody in between can.
fn validate_negotiation(link: &mut Link, server: &Server) -> Result<()> {
    let offer = &server.offer;
    let mut input = Vec::with_capacity(40);
    input.u32(offer.capabilities);
    input.put(&offer.client.guid);
    input.u16(offer.mode);
    input.u16(offer.dialects.len() as u16);
    offer.dialects.iter().for_each(|d| input.u16(d.code()));
    let body = ioctl::request(ioctl::VALIDATE_NEGOTIATION, &crate::codec::RELATED_FILE, &input, 24);
    let asked = call(from_mut(link), 0, &[Part { command: IOCTL, charge: 1, body: &body }], Proof::Signed, None);
    asked.map_err(|error| match error.kind {
        // A server that saw another offer ends the connection instead of answering (3.3.5.15.12).
        ErrorKind::Disconnected => {
            changed_on_its_way("the server closes the connection when asked what it was offered")
        }
        ErrorKind::Protocol => Error {
            message: format!(
                "{}. If this is an old server in a network that you trust, name its dialect: dialect={}",
                error.message,
                server.dialect.name()
            ),
            ..error
        },
        _ => error,
    })?;
    let (code, message) = link.replies.get(0);
    match code {
        status::SUCCESS => {}
        // These need no signature, or say that ours was not taken.
        status::ACCESS_DENIED | status::USER_SESSION_DELETED | status::NETWORK_SESSION_EXPIRED => {
            return Err(changed_on_its_way("the server does not say what it was offered"));
        }
        _ => return Ok(()),
    }
    let seen = View(ioctl::output(message)?);
    let same = seen.u32(0)? == server.capabilities
        && seen.array::<16>(4)? == server.guid
        && seen.u16(20)? == server.mode
        && seen.u16(22)? == server.dialect.code();
    if same {
        return Ok(());
    }
    Err(changed_on_its_way("the server negotiated something other than what arrived here"))
}

#[cfg(test)]
mod tests {
    use super::principal;

    #[test]
    fn a_short_domain_is_no_realm() {
        assert_eq!(principal("ann", "corp.example"), "ann@CORP.EXAMPLE");
        assert_eq!(principal("ann", "CORP"), "ann");
        assert_eq!(principal("ann", ""), "ann");
        assert_eq!(principal("ann@OTHER.EXAMPLE", "corp.example"), "ann@OTHER.EXAMPLE");
    }
}
