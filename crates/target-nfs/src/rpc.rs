//! ONC RPC (RFC 5531) over TCP: record marks, call headers with AUTH_SYS or RPCSEC_GSS, reply headers.

use crate::os;
use crate::security::{Control, Sec};
use crate::status;
use crate::xdr::{padding, Bad, Decoded, Decoder, Put};
use naslab_core::{Error, ErrorKind, OpError};

/// Bit of a record mark: no more fragments follow.
pub(crate) const LAST_FRAGMENT: u32 = 0x8000_0000;
/// The record mark.
pub(crate) const MARK_BYTES: usize = 4;
/// Longest verifier or credential body.
const MAX_AUTH_BYTES: usize = 400;
pub(crate) const CALL: u32 = 0;
const REPLY: u32 = 1;
pub(crate) const RPC_VERSION: u32 = 2;
pub(crate) const AUTH_NONE: u32 = 0;
/// User numbers.
pub(crate) const AUTH_SYS: u32 = 1;
/// A login's proof (RFC 2203).
pub(crate) const RPCSEC_GSS: u32 = 6;
const GSS_VERSION: u32 = 1;
/// NULL: does nothing.
pub(crate) const PROC_NULL: u32 = 0;
/// The NFS program.
pub(crate) const NFS_PROGRAM: u32 = 100_003;

/// What distinguishes one call from another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub xid: u32,
    pub procedure: u32,
}

/// Who calls: AUTH_SYS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub machine: String,
    pub uid: u32,
    pub gid: u32,
    pub gids: Vec<u32>,
}

/// Everything of a call up to its arguments, ready to be copied.
#[derive(Clone, Debug)]
pub(crate) struct Prefix {
    bytes: Vec<u8>,
}

const XID_AT: usize = 4;
const PROCEDURE_AT: usize = 24;
const SEQUENCE_AT: usize = 44;

impl Prefix {
    /// For calls to one version of a program.
    pub fn new(program: u32, version: u32, who: &Credentials) -> Prefix {
        let mut bytes = Vec::with_capacity(128);
        for word in [0, 0, CALL, RPC_VERSION, program, version, 0, AUTH_SYS] {
            bytes.put_u32(word);
        }
        let machine = who.machine.as_bytes();
        let body = 4 + 4 + machine.len() + padding(machine.len()) + 4 + 4 + 4 + 4 * who.gids.len();
        bytes.put_u32(body as u32);
        bytes.put_u32(0);
        bytes.put_opaque(machine);
        bytes.put_u32(who.uid);
        bytes.put_u32(who.gid);
        bytes.put_u32(who.gids.len() as u32);
        for gid in &who.gids {
            bytes.put_u32(*gid);
        }
        bytes.put_u32(0);
        bytes.put_u32(0);
        Prefix { bytes }
    }

    /// For calls of an RPCSEC_GSS context: the verifier is still to follow.
    pub fn gss(program: u32, version: u32, control: Control, service: u32, handle: &[u8]) -> Prefix {
        let mut bytes = Vec::with_capacity(64 + handle.len());
        for word in [0, 0, CALL, RPC_VERSION, program, version, 0, RPCSEC_GSS] {
            bytes.put_u32(word);
        }
        bytes.put_u32((20 + handle.len() + padding(handle.len())) as u32);
        for word in [GSS_VERSION, control as u32, 0, service] {
            bytes.put_u32(word);
        }
        bytes.put_opaque(handle);
        Prefix { bytes }
    }

    /// Writes a call's number into the head of a context's call that starts at `start`.
    #[inline]
    pub fn number(out: &mut [u8], start: usize, sequence: u32) {
        out[start + SEQUENCE_AT..start + SEQUENCE_AT + 4].copy_from_slice(&sequence.to_be_bytes());
    }

    /// Begins a call; returns where it starts in `out`, for `seal`.
    #[inline]
    pub fn begin(&self, out: &mut Vec<u8>, xid: u32, procedure: u32) -> usize {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        out[start + XID_AT..start + XID_AT + 4].copy_from_slice(&xid.to_be_bytes());
        out[start + PROCEDURE_AT..start + PROCEDURE_AT + 4].copy_from_slice(&procedure.to_be_bytes());
        start
    }
}

/// Writes the record mark of the call that starts at `start`; `extra` bytes follow outside of `out`.
#[inline]
pub(crate) fn seal(out: &mut [u8], start: usize, extra: usize) {
    let len = (out.len() - start - MARK_BYTES + extra) as u32;
    out[start..start + MARK_BYTES].copy_from_slice(&(len | LAST_FRAGMENT).to_be_bytes());
}

/// Statuses of refused calls lie so far below zero, apart from every nfsstat: accept_stat, and auth_stat.
const NOT_ACCEPTED: i64 = -1000;
const NOT_AUTHENTICATED: i64 = -2000;

/// Why a server did not carry a call out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Another RPC version is wanted.
    RpcMismatch,
    /// The identity is refused: auth_stat.
    Auth(u32),
    /// The program is not served here.
    ProgramUnavailable,
    /// It is, in versions from low to high.
    ProgramMismatch(u32, u32),
    /// The version does not know the procedure.
    ProcedureUnavailable,
    /// The server could not decode the arguments.
    GarbageArguments,
    /// The server failed.
    SystemError,
}

impl Refusal {
    /// Class of error.
    pub fn kind(self) -> ErrorKind {
        match self {
            Refusal::Auth(GSS_CREDPROBLEM | GSS_CTXPROBLEM) => ErrorKind::Disconnected,
            Refusal::Auth(_) => ErrorKind::Permission,
            Refusal::GarbageArguments | Refusal::SystemError => ErrorKind::Io,
            _ => ErrorKind::Unsupported,
        }
    }

    /// For the hot loop.
    pub fn op_error(self) -> OpError {
        let status = match self {
            Refusal::Auth(status) => NOT_AUTHENTICATED - i64::from(status),
            Refusal::RpcMismatch => NOT_ACCEPTED,
            Refusal::ProgramUnavailable => NOT_ACCEPTED - 1,
            Refusal::ProgramMismatch(..) => NOT_ACCEPTED - 2,
            Refusal::ProcedureUnavailable => NOT_ACCEPTED - 3,
            Refusal::GarbageArguments => NOT_ACCEPTED - 4,
            Refusal::SystemError => NOT_ACCEPTED - 5,
        };
        OpError { kind: self.kind(), status }
    }

    /// The refusal that an operation's status stands for; None for a status of NFS itself.
    pub fn from_status(status: i64) -> Option<Refusal> {
        match NOT_ACCEPTED - status {
            0 => Some(Refusal::RpcMismatch),
            1 => Some(Refusal::ProgramUnavailable),
            2 | 3 => Some(Refusal::ProcedureUnavailable),
            4 => Some(Refusal::GarbageArguments),
            5 => Some(Refusal::SystemError),
            _ => u32::try_from(NOT_AUTHENTICATED - status).ok().map(Refusal::Auth),
        }
    }

    /// As the error of a call that was made with the flavour `sec`.
    pub fn error(self, operation: &'static str, sec: Sec) -> Error {
        let message = match self {
            Refusal::RpcMismatch => "the server does not speak RPC version 2".into(),
            Refusal::Auth(status) => auth_message(status, sec),
            Refusal::ProgramUnavailable => "the server does not offer this service on this port".into(),
            Refusal::ProgramMismatch(low, high) => {
                format!("the server speaks versions {low} to {high} of this service; choose one of them with version=")
            }
            Refusal::ProcedureUnavailable => "the server does not offer this procedure".into(),
            Refusal::GarbageArguments => "the server could not decode the call".into(),
            Refusal::SystemError => "internal error of the server (RPC SYSTEM_ERR): see its log".into(),
        };
        Error { status: self.op_error().status, ..Error::new(self.kind(), operation, message) }
    }
}

/// auth_stat: the export takes stronger flavours only.
const AUTH_TOOWEAK: u32 = 5;
/// The server does not know the context, or no longer.
const GSS_CREDPROBLEM: u32 = 13;
const GSS_CTXPROBLEM: u32 = 14;

/// The name of an auth_stat.
pub(crate) fn auth_name(status: u32) -> String {
    match status {
        0..=5 => ["AUTH_OK", "AUTH_BADCRED", "AUTH_REJECTEDCRED", "AUTH_BADVERF", "AUTH_REJECTEDVERF", "AUTH_TOOWEAK"]
            [status as usize]
            .to_string(),
        GSS_CREDPROBLEM => "RPCSEC_GSS_CREDPROBLEM".to_string(),
        GSS_CTXPROBLEM => "RPCSEC_GSS_CTXPROBLEM".to_string(),
        _ => format!("auth_stat {status}"),
    }
}

fn auth_message(status: u32, sec: Sec) -> String {
    let name = auth_name(status);
    match (status, sec) {
        (GSS_CREDPROBLEM | GSS_CTXPROBLEM, _) => format!(
            "the server no longer takes this Kerberos login ({name}): the ticket has expired, or the server has \
             restarted; get a ticket that lasts (kinit) and measure again"
        ),
        (AUTH_TOOWEAK, _) => format!(
            "the server refuses the security flavour {} from here ({name}): if the export requires another, give it \
             with ?sec=krb5, krb5i or krb5p",
            sec.name()
        ),
        (_, Sec::Sys) => format!("the server refuses AUTH_SYS from here ({name})"),
        _ => format!("the server refuses the Kerberos login ({name})"),
    }
}

/// Who a reply says it is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verifier<'a> {
    pub flavour: u32,
    pub body: &'a [u8],
}

/// xid, verifier and outcome of a reply.
pub(crate) type ReplyHead<'a> = (u32, Verifier<'a>, Result<(), Refusal>);

/// Takes a reply header; the results follow it when the call was carried out.
#[inline]
pub(crate) fn reply(d: &mut Decoder<'_>) -> Decoded<(u32, Result<(), Refusal>)> {
    reply_head(d).map(|(xid, _, outcome)| (xid, outcome))
}

/// As `reply`, with the verifier; that of a call that was denied is empty.
#[inline]
pub(crate) fn reply_head<'a>(d: &mut Decoder<'a>) -> Decoded<ReplyHead<'a>> {
    let xid = d.u32()?;
    if d.u32()? != REPLY {
        return Err(Bad::Wrong("a message of the server is not a reply"));
    }
    match d.u32()? {
        0 => {}
        1 => return Ok((xid, Verifier { flavour: AUTH_NONE, body: &[] }, Err(denied(d)?))),
        _ => return Err(Bad::Wrong("unknown reply_stat")),
    }
    let verifier = Verifier { flavour: d.u32()?, body: d.opaque(MAX_AUTH_BYTES)? };
    let outcome = match d.u32()? {
        0 => Ok(()),
        1 => Err(Refusal::ProgramUnavailable),
        2 => Err(Refusal::ProgramMismatch(d.u32()?, d.u32()?)),
        3 => Err(Refusal::ProcedureUnavailable),
        4 => Err(Refusal::GarbageArguments),
        5 => Err(Refusal::SystemError),
        _ => return Err(Bad::Wrong("unknown accept_stat")),
    };
    Ok((xid, verifier, outcome))
}

fn denied(d: &mut Decoder<'_>) -> Decoded<Refusal> {
    match d.u32()? {
        0 => {
            d.skip(8)?;
            Ok(Refusal::RpcMismatch)
        }
        1 => Ok(Refusal::Auth(d.u32()?)),
        _ => Err(Bad::Wrong("unknown reject_stat")),
    }
}

/// The advice for refusals that often mean: the call came from a port above 1023.
pub(crate) fn port_advice(mut error: Error, from_high_port: bool) -> Error {
    let refused = error.kind == ErrorKind::Permission && !error.message.contains("insecure");
    let refused = refused && error.status != i64::from(status::WRONGSEC);
    if refused && from_high_port {
        let root = os::is_root();
        let cure = match root {
            false => "run naslab as root",
            true => "use fewer workers and connections, so that a lower port is free, and not privileged=off",
        };
        error.message.push_str(&format!(
            ". The call came from a source port above 1023: if the export demands a privileged port, {cure}, or allow \
             insecure ports on the export (`insecure` on Linux, PrivilegedPort=false in Ganesha)",
        ));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_as_on_the_wire() {
        let who = Credentials { machine: "abcde".into(), uid: 1, gid: 2, gids: vec![3] };
        let mut out = vec![9, 9];
        let start = Prefix::new(100_003, 3, &who).begin(&mut out, 0x0102_0304, 6);
        out.put_u32(0xaabb_ccdd);
        seal(&mut out, start, 8);
        let words: Vec<u32> = out[2..].chunks(4).map(|c| u32::from_be_bytes(c.try_into().unwrap())).collect();
        let machine = [5, u32::from_be_bytes(*b"abcd"), u32::from_be_bytes([b'e', 0, 0, 0])];
        let mut expected =
            vec![LAST_FRAGMENT | (out.len() as u32 - 2 - 4 + 8), 0x0102_0304, 0, 2, 100_003, 3, 6, 1, 32, 0];
        expected.extend(machine);
        expected.extend([1, 2, 1, 3, 0, 0, 0xaabb_ccdd]);
        assert_eq!(words, expected);
    }

    #[test]
    fn a_call_of_a_context_as_on_the_wire() {
        let mut out = vec![9, 9];
        let start = Prefix::gss(100_003, 4, Control::Data, 3, b"abcde").begin(&mut out, 0x0102_0304, 1);
        Prefix::number(&mut out, start, 77);
        let found: Vec<u32> = out[2..].chunks(4).map(|c| u32::from_be_bytes(c.try_into().unwrap())).collect();
        let handle = [5, u32::from_be_bytes(*b"abcd"), u32::from_be_bytes([b'e', 0, 0, 0])];
        // Flavour 6, body of 28 bytes: version 1, DATA, number, privacy, handle. The verifier is not there yet.
        let head = vec![0, 0x0102_0304, 0, 2, 100_003, 4, 1, 6, 28, 1, 0, 77, 3];
        assert_eq!(found, [head, handle.to_vec()].concat());
    }

    #[test]
    fn a_refused_identity_has_a_next_step() {
        for (status, sec, wanted) in [
            (1, Sec::Sys, ["AUTH_SYS", "AUTH_BADCRED"]),
            (5, Sec::Sys, ["flavour sys", "?sec=krb5"]),
            (5, Sec::Krb5, ["flavour krb5 ", "AUTH_TOOWEAK"]),
            (2, Sec::Krb5p, ["Kerberos login", "AUTH_REJECTEDCRED"]),
            (13, Sec::Krb5i, ["has expired", "kinit"]),
            (14, Sec::Krb5, ["RPCSEC_GSS_CTXPROBLEM", "kinit"]),
            (99, Sec::Krb5, ["Kerberos", "auth_stat 99"]),
        ] {
            let error = Refusal::Auth(status).error("open", sec);
            assert!(wanted.iter().all(|words| error.message.contains(words)), "{error}");
            let ended = matches!(status, 13 | 14);
            assert_eq!(error.kind, if ended { ErrorKind::Disconnected } else { ErrorKind::Permission });
        }
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_be_bytes()).collect()
    }

    #[test]
    fn replies_and_refusals() {
        let cases = [
            (vec![7, 1, 0, 0, 0, 0], Ok(())),
            (vec![7, 1, 0, 6, 8, 0, 0, 0], Ok(())),
            (vec![7, 1, 0, 0, 0, 1], Err(Refusal::ProgramUnavailable)),
            (vec![7, 1, 0, 0, 0, 2, 3, 4], Err(Refusal::ProgramMismatch(3, 4))),
            (vec![7, 1, 0, 0, 0, 3], Err(Refusal::ProcedureUnavailable)),
            (vec![7, 1, 1, 1, 5], Err(Refusal::Auth(5))),
            (vec![7, 1, 1, 0, 2, 2], Err(Refusal::RpcMismatch)),
        ];
        for (reply_words, expected) in cases {
            let bytes = words(&reply_words);
            assert_eq!(reply(&mut Decoder::new(&bytes)), Ok((7, expected)));
            for cut in 0..bytes.len() {
                assert_eq!(reply(&mut Decoder::new(&bytes[..cut])), Err(Bad::Truncated));
            }
        }
        for wrong in [vec![7, 0, 0], vec![7, 1, 2], vec![7, 1, 0, 0, 401], vec![7, 1, 0, 0, 0, 6], vec![7, 1, 1, 2]] {
            assert!(matches!(reply(&mut Decoder::new(&words(&wrong))), Err(Bad::Wrong(_))));
        }
        let all = [
            Refusal::Auth(5),
            Refusal::Auth(14),
            Refusal::RpcMismatch,
            Refusal::ProgramUnavailable,
            Refusal::SystemError,
        ];
        for refusal in [&all[..], &[Refusal::GarbageArguments, Refusal::ProcedureUnavailable]].concat() {
            assert_eq!(Refusal::from_status(refusal.op_error().status), Some(refusal));
        }
        assert_eq!([0, 5, 10008].map(Refusal::from_status), [None; 3]);
        assert!(Refusal::ProgramMismatch(2, 3).error("open", Sec::Sys).message.contains("2 to 3"));
    }

    #[test]
    fn advice_about_ports() {
        let advised = port_advice(Refusal::Auth(1).error("mount", Sec::Sys), true);
        let root = os::is_root();
        assert!(advised.message.contains(if root { "fewer workers" } else { "as root" }), "{}", advised.message);
        assert!(!port_advice(Refusal::Auth(1).error("mount", Sec::Sys), false).message.contains("source port"));
        let flavour = status::wrong_security("mount", Sec::Sys, "krb5p");
        assert!(!port_advice(flavour, true).message.contains("source port"));
    }
}
