//! RPCSEC_GSS (RFC 2203) with Kerberos: who calls is proved, and calls and replies are signed or encrypted.
//!
//! A session has one context or several, shared by its connections. A server looks at the numbers of a context's calls
//! through a window and drops those that fell out of it without a word. A number is therefore taken only while the
//! oldest one without a reply is near, and as many contexts are made as the depth needs, so that one slow call does not
//! hold all others up.

use crate::rpc::{self, Credentials, Head, Prefix, Refusal};
use crate::xdr::{Bad, Decoded, Decoder, Put};
use naslab_core::{Error, ErrorKind, Result};
use naslab_gss::Initiator;
use std::collections::VecDeque;

/// Longest handle of a context.
const MAX_HANDLE_BYTES: usize = 1024;
/// Longest token of a login; Kerberos tickets with many groups take up to 64 KiB.
const MAX_TOKEN_BYTES: usize = 128 * 1024;
/// Longest signature.
const MAX_SIGNATURE_BYTES: usize = 400;
/// Widest window that is used, and most contexts of one session.
const MAX_WINDOW: u32 = 4096;
const MAX_CONTEXTS: u32 = 128;
/// Numbers of one context's calls stay below this (MAXSEQ).
pub(crate) const MAX_SEQUENCE: u32 = 0x8000_0000;
/// The number of a call that no context carries.
const NO_SEQUENCE: u32 = 0;
/// Longest results of a reply; `Transport` has bounded the reply itself.
const MAX_BODY_BYTES: usize = 1 << 30;

/// gss_proc: what a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    /// It carries a procedure of the program.
    Data = 0,
    /// The first call of a login.
    Init = 1,
    /// A further one.
    ContinueInit = 2,
    /// The end of a context.
    Destroy = 3,
}

/// The security flavour of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sec {
    /// User numbers, which the server believes.
    Sys,
    /// Kerberos says who calls.
    Krb5,
    /// Calls and replies are signed, too.
    Krb5i,
    /// And encrypted.
    Krb5p,
}

impl Sec {
    /// All of them.
    pub const ALL: [Sec; 4] = [Sec::Sys, Sec::Krb5, Sec::Krb5i, Sec::Krb5p];

    /// As users write it.
    pub fn name(self) -> &'static str {
        match self {
            Sec::Sys => "sys",
            Sec::Krb5 => "krb5",
            Sec::Krb5i => "krb5i",
            Sec::Krb5p => "krb5p",
        }
    }

    /// The flavour's number in the mount protocol (RFC 2623, section 2.2; RFC 5531 for AUTH_SYS).
    pub fn flavour(self) -> u32 {
        match self {
            Sec::Sys => rpc::AUTH_SYS,
            Sec::Krb5 => 390_003,
            Sec::Krb5i => 390_004,
            Sec::Krb5p => 390_005,
        }
    }

    /// rpc_gss_service_t; AUTH_SYS has none.
    pub fn service(self) -> u32 {
        match self {
            Sec::Sys => 0,
            Sec::Krb5 => 1,
            Sec::Krb5i => 2,
            Sec::Krb5p => 3,
        }
    }
}

/// Names of the flavours that an export takes, for people: `krb5i or krb5p`. Unknown ones by their number.
pub(crate) fn flavour_names(flavours: &[u32]) -> String {
    let name = |flavour: &u32| match Sec::ALL.iter().find(|sec| sec.flavour() == *flavour) {
        Some(sec) => sec.name().to_string(),
        None if *flavour == rpc::AUTH_NONE => "none".to_string(),
        None => format!("flavour {flavour}"),
    };
    flavours.iter().map(name).collect::<Vec<_>>().join(" or ")
}

/// The context and the number of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    context: u32,
    sequence: u32,
}

impl Stamp {
    /// Of a call that no context carries.
    pub const NONE: Stamp = Stamp { context: 0, sequence: NO_SEQUENCE };
}

/// Numbers of one context's calls.
#[derive(Debug)]
struct Window {
    /// Most numbers from the oldest without a reply on.
    limit: u32,
    /// Numbers end before this one.
    end: u32,
    next: u32,
    /// Whether each number from the oldest without a reply on has one by now.
    answered: VecDeque<bool>,
}

impl Window {
    /// `server`: how many numbers the server looks back. A quarter of it is left to servers whose limits are off by one.
    fn new(server: u32, end: u32) -> Window {
        let server = server.clamp(1, MAX_WINDOW);
        let limit = (server - server / 4).max(1);
        Window { limit, end, next: 1, answered: VecDeque::with_capacity(limit as usize) }
    }

    /// Whether all numbers are used.
    fn is_spent(&self) -> bool {
        self.next >= self.end
    }

    fn is_idle(&self) -> bool {
        self.answered.is_empty()
    }

    #[inline]
    fn has_room(&self) -> bool {
        self.answered.len() < self.limit as usize && !self.is_spent()
    }

    #[inline]
    fn take(&mut self) -> u32 {
        self.answered.push_back(false);
        self.next += 1;
        self.next - 1
    }

    #[inline]
    fn answer(&mut self, sequence: u32) {
        let oldest = self.next - self.answered.len() as u32;
        if let Some(answered) = self.answered.get_mut(sequence.wrapping_sub(oldest) as usize) {
            *answered = true;
        }
        while self.answered.front() == Some(&true) {
            self.answered.pop_front();
        }
    }
}

/// An established context.
pub(crate) struct Context {
    login: Initiator,
    data: Prefix,
    destroy: Prefix,
    window: Window,
}

/// The contexts of a session.
pub(crate) struct Security {
    plan: Plan,
    contexts: Vec<Context>,
    next: usize,
    /// Kept for its memory.
    spare: Vec<u8>,
}

/// How contexts are made.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub sec: Sec,
    pub host: String,
    pub principal: Option<String>,
    /// Calls that the session keeps outstanding.
    pub depth: u32,
    /// Calls that one context carries.
    pub calls: u32,
}

impl Context {
    /// From a login that both sides have proved. `window`: the server's. `calls`: how many it may carry.
    pub fn new(login: Initiator, version: u32, plan: &Plan, answer: &Answer) -> Context {
        let prefix = |control| Prefix::gss(rpc::NFS_PROGRAM, version, control, plan.sec.service(), &answer.handle);
        Context {
            login,
            data: prefix(Control::Data),
            destroy: prefix(Control::Destroy),
            window: Window::new(answer.window, plan.calls.saturating_add(1)),
        }
    }

    /// Contexts of this kind that a depth needs: half of a window each, so that others have room where one waits.
    pub fn needed(&self, depth: u32) -> u32 {
        depth.div_ceil((self.window.limit / 2).max(1)).clamp(1, MAX_CONTEXTS)
    }
}

impl Security {
    /// With the first context.
    pub fn new(plan: Plan, first: Context) -> Security {
        Security { plan, contexts: vec![first], next: 0, spare: Vec::new() }
    }

    /// How its contexts are made.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Adds a context.
    pub fn add(&mut self, context: Context) {
        self.contexts.push(context);
    }

    /// A context that has carried all the calls it may, and has none outstanding.
    #[inline]
    pub fn spent(&self) -> Option<usize> {
        self.contexts.iter().position(|context| context.window.is_spent() && context.window.is_idle())
    }

    /// Puts another context in the place of one.
    pub fn replace(&mut self, at: usize, context: Context) {
        self.contexts[at] = context;
    }

    /// How many contexts there are.
    pub fn len(&self) -> usize {
        self.contexts.len()
    }

    /// Calls that may be outstanding; `None` where there are as many contexts as the depth wants.
    pub fn room(&self) -> Option<u32> {
        let full = self.contexts.len() == MAX_CONTEXTS as usize;
        full.then(|| self.contexts.iter().map(|context| context.window.limit).sum())
    }

    /// Whether a login's ticket has expired.
    #[cold]
    pub fn is_expired(&self) -> bool {
        self.contexts.iter().any(|context| context.login.is_expired())
    }

    /// What protects the calls, for the result.
    pub fn facts(&self) -> Vec<(String, String)> {
        let kind = self.contexts[0].login.encryption_type().unwrap_or_else(|_| "unknown".to_string());
        let only = |sec: Sec| if self.plan.sec == sec { kind.clone() } else { "none".to_string() };
        let facts = [
            ("signing", only(Sec::Krb5i)),
            ("encryption", only(Sec::Krb5p)),
            ("kerberos_encryption_type", kind.clone()),
            ("kerberos_contexts", self.contexts.len().to_string()),
        ];
        facts.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
    }

    /// Whether arguments and results are signed or encrypted, not only who calls.
    #[inline]
    pub fn covers(&self) -> bool {
        self.plan.sec != Sec::Krb5
    }

    /// Whether a context can carry one more call.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.contexts.iter().any(|context| context.window.has_room())
    }

    /// Appends a call, which `arguments` completes; `extra` bytes follow outside of `out`, of a session that does not
    /// cover them. There is room for it.
    pub fn write(
        &mut self,
        out: &mut Vec<u8>,
        head: Head,
        extra: usize,
        arguments: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Stamp> {
        let count = self.contexts.len();
        let mut turn = (0..count).map(|step| (self.next + step) % count);
        let at = turn.find(|at| self.contexts[*at].window.has_room()).ok_or_else(no_room)?;
        self.next = (at + 1) % count;
        let context = &mut self.contexts[at];
        let sequence = context.window.take();
        let spare = &mut self.spare;
        let start = context.data.begin(out, head.xid, head.procedure);
        sign_head(&context.login, out, start, sequence, spare)?;
        match self.plan.sec {
            Sec::Krb5i => {
                let at = out.len();
                out.put_u32(0);
                out.put_u32(sequence);
                arguments(out);
                let len = (out.len() - at - 4) as u32;
                out[at..at + 4].copy_from_slice(&len.to_be_bytes());
                spare.clear();
                context.login.sign(&out[at + 4..], spare)?;
                out.put_opaque(spare);
            }
            Sec::Krb5p => {
                spare.clear();
                spare.put_u32(sequence);
                arguments(spare);
                let at = out.len();
                out.put_u32(0);
                context.login.seal(spare, out)?;
                let len = out.len() - at - 4;
                out[at..at + 4].copy_from_slice(&(len as u32).to_be_bytes());
                out.put_padding(len);
            }
            _ => arguments(out),
        }
        rpc::seal(&mut out[start..], 0, extra);
        Ok(Stamp { context: at as u32, sequence })
    }

    /// Appends the call that ends a context.
    pub fn write_destroy(&mut self, out: &mut Vec<u8>, at: usize, xid: u32) -> Result<Stamp> {
        let Security { contexts, spare, .. } = self;
        let context = &mut contexts[at];
        let sequence = context.window.take();
        let start = context.destroy.begin(out, xid, rpc::PROC_NULL);
        sign_head(&context.login, out, start, sequence, spare)?;
        rpc::seal(&mut out[start..], 0, 0);
        Ok(Stamp { context: at as u32, sequence })
    }

    /// The reply to a call came.
    #[inline]
    pub fn answered(&mut self, stamp: Stamp) {
        if stamp != Stamp::NONE {
            self.contexts[stamp.context as usize].window.answer(stamp.sequence);
        }
    }

    /// Checks the head of a reply to a call that carries no more proof. A refusal carries none.
    pub fn check_head(&self, stamp: Stamp, message: &[u8]) -> Result<()> {
        let (_, verifier, outcome) = rpc::reply_head(&mut Decoder::new(message)).map_err(bad)?;
        if outcome.is_err() {
            return Ok(());
        }
        self.check_verifier(stamp, verifier)
    }

    fn check_verifier(&self, stamp: Stamp, verifier: rpc::Verifier<'_>) -> Result<()> {
        if verifier.flavour != rpc::RPCSEC_GSS {
            return Err(bad(Bad::Wrong("it carries no proof of the server's")));
        }
        let context = &self.contexts[stamp.context as usize];
        context.login.verify(&stamp.sequence.to_be_bytes(), verifier.body)
    }

    /// Checks a whole reply and takes its protection off: where in `message` the results begin from now on, or the
    /// server's refusal.
    pub fn open(&mut self, stamp: Stamp, message: &mut Vec<u8>) -> Result<std::result::Result<usize, Refusal>> {
        let mut d = Decoder::new(message);
        let (_, verifier, outcome) = rpc::reply_head(&mut d).map_err(bad)?;
        if let Err(refusal) = outcome {
            return Ok(Err(refusal));
        }
        self.check_verifier(stamp, verifier)?;
        let login = &self.contexts[stamp.context as usize].login;
        let (from, number) = match self.plan.sec {
            Sec::Krb5i => {
                let from = d.position() + 4;
                let body = d.opaque(MAX_BODY_BYTES).map_err(bad)?;
                login.verify(body, d.opaque(MAX_SIGNATURE_BYTES).map_err(bad)?)?;
                let (end, number) = (from + body.len(), Decoder::new(body).u32());
                message.truncate(end);
                (from, number)
            }
            Sec::Krb5p => {
                self.spare.clear();
                login.open(d.opaque(MAX_BODY_BYTES).map_err(bad)?, &mut self.spare)?;
                std::mem::swap(message, &mut self.spare);
                (0, Decoder::new(message).u32())
            }
            _ => return Ok(Ok(d.position())),
        };
        if number.map_err(bad)? != stamp.sequence {
            return Err(bad(Bad::Wrong("its results belong to another call")));
        }
        Ok(Ok(from + 4))
    }
}

/// Appends a call: with the proof of a context where calls need one, else as AUTH_SYS. `extra` bytes follow outside of
/// `out`, as `Security::write`.
#[inline]
pub(crate) fn write_call(
    prefix: &Prefix,
    security: &mut Option<Box<Security>>,
    out: &mut Vec<u8>,
    head: Head,
    extra: usize,
    arguments: impl FnOnce(&mut Vec<u8>),
) -> Result<Stamp> {
    match security {
        Some(security) => security.write(out, head, extra, arguments),
        None => {
            let start = prefix.begin(out, head.xid, head.procedure);
            arguments(out);
            rpc::seal(&mut out[start..], 0, extra);
            Ok(Stamp::NONE)
        }
    }
}

/// Writes the number into a call's head, which ends with the credential, and appends the signature over it.
fn sign_head(login: &Initiator, out: &mut Vec<u8>, start: usize, sequence: u32, spare: &mut Vec<u8>) -> Result<()> {
    Prefix::number(out, start, sequence);
    spare.clear();
    login.sign(&out[start + rpc::MARK_BYTES..], spare)?;
    out.put_u32(rpc::RPCSEC_GSS);
    out.put_opaque(spare);
    Ok(())
}

/// What the server answers to a call of a login: rpc_gss_init_res.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub handle: Vec<u8>,
    pub major: u32,
    pub minor: u32,
    pub window: u32,
    pub token: Vec<u8>,
}

impl Answer {
    /// Takes it.
    pub fn take(d: &mut Decoder<'_>) -> Decoded<Answer> {
        Ok(Answer {
            handle: d.opaque(MAX_HANDLE_BYTES)?.to_vec(),
            major: d.u32()?,
            minor: d.u32()?,
            window: d.u32()?,
            token: d.opaque(MAX_TOKEN_BYTES)?.to_vec(),
        })
    }

    /// Whether the server has refused the login.
    pub fn is_refusal(&self) -> bool {
        self.major & 0xFFFF_0000 != 0
    }

    /// Whether it expects another call.
    pub fn goes_on(&self) -> bool {
        self.major & 1 != 0
    }
}

/// The error of a login that the server does not take. `why`: what it says of it.
pub(crate) fn refused(host: &str, why: &str) -> Error {
    let message = format!(
        "the server does not take the Kerberos ticket ({why}): Kerberos must be enabled for NFS there, its keytab must \
         hold the key of nfs/{host}, and its clock must be right"
    );
    Error::new(ErrorKind::Permission, "connect", message)
}

/// Who calls, for the result.
pub(crate) fn identity(sec: Sec, who: &Credentials) -> String {
    match sec {
        Sec::Sys => format!("sys uid={} gid={}", who.uid, who.gid),
        _ => "kerberos".to_string(),
    }
}

fn bad(bad: Bad) -> Error {
    bad.error("receive")
}

fn no_room() -> Error {
    Error::new(ErrorKind::Io, "send", "no number is left for a call")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server's window as RFC 2203 describes it (section 5.3.3.1): numbers seen among the last `size`.
    struct Server {
        size: u32,
        last: u32,
        seen: Vec<u32>,
    }

    impl Server {
        fn takes(&mut self, number: u32) -> bool {
            if number + self.size <= self.last || self.seen.contains(&number) {
                return false;
            }
            self.last = self.last.max(number);
            self.seen.push(number);
            true
        }
    }

    #[test]
    fn no_number_falls_out_of_the_servers_window_whatever_overtakes_it() {
        for size in [1, 2, 3, 32, 128] {
            let mut window = Window::new(size, MAX_SEQUENCE);
            let mut server = Server { size, last: 0, seen: Vec::new() };
            let mut on_the_way: Vec<u32> = Vec::new();
            let mut chance = 7u64;
            for _ in 0..3000 {
                while window.has_room() {
                    on_the_way.push(window.take());
                }
                chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // The newest arrive first most of the time: the worst order there is.
                let at = if chance >> 62 == 0 { 0 } else { on_the_way.len() - 1 };
                let number = on_the_way.remove(at);
                assert!(server.takes(number), "window {size}: {number} after {}", server.last);
                window.answer(number);
            }
            assert!(window.next > 1000);
        }
    }

    #[test]
    fn a_call_without_a_reply_holds_back_only_what_would_push_it_out() {
        let mut window = Window::new(32, MAX_SEQUENCE);
        assert_eq!((window.limit, window.take()), (24, 1));
        let mut others = 0;
        while window.has_room() {
            let number = window.take();
            window.answer(number);
            others += 1;
        }
        assert_eq!(others, 23);
        window.answer(1);
        assert!(window.is_idle() && window.has_room());
        // A number that was never taken, or was answered before, changes nothing.
        window.answer(99);
        window.answer(1);
        assert!(window.is_idle());
    }

    #[test]
    fn numbers_end_before_the_protocols_last() {
        let mut window = Window::new(8, 4);
        let taken: Vec<u32> = std::iter::from_fn(|| window.has_room().then(|| window.take())).collect();
        assert_eq!(taken, [1, 2, 3]);
        assert!(window.is_spent() && !window.is_idle());
        taken.into_iter().for_each(|number| window.answer(number));
        assert!(window.is_idle() && !window.has_room());
    }

    #[test]
    fn answers_to_a_login_as_on_the_wire() {
        let mut out = Vec::new();
        out.put_opaque(b"handle");
        for word in [1, 0, 128] {
            out.put_u32(word);
        }
        out.put_opaque(b"token");
        let found = Answer::take(&mut Decoder::new(&out)).unwrap();
        assert_eq!((&found.handle[..], found.window, &found.token[..]), (&b"handle"[..], 128, &b"token"[..]));
        assert!(found.goes_on() && !found.is_refusal());
        for cut in 0..out.len() {
            assert!(Answer::take(&mut Decoder::new(&out[..cut])).is_err());
        }
        assert!(Answer { major: 13 << 16, ..found }.is_refusal());
        assert!(Answer::take(&mut Decoder::new(&[0xff; 64])).is_err());
    }

    #[test]
    fn flavours_have_names() {
        assert_eq!(flavour_names(&[390_004, 390_005]), "krb5i or krb5p");
        assert_eq!(flavour_names(&[1, 0, 7]), "sys or none or flavour 7");
    }
}
