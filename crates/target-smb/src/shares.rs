//! The list of a server's shares: NetShareEnumAll of srvsvc (MS-SRVS) over DCE/RPC on a pipe of IPC$.

use crate::codec::{broken, Put, View, CREATE, IOCTL, READ};
use crate::file::{self, Create, Handle};
use crate::ioctl;
use crate::link::{call, Link, Part, Proof};
use crate::login::connect;
use crate::names::{from_utf16, utf16};
use crate::negotiate::Client;
use crate::options::{Plan, SmbOptions};
use crate::status;
use naslab_core::{limit, Error, Result};
use std::slice::from_mut;

/// One share of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its name.
    pub name: String,
    /// `disk`, `printer`, `ipc` or `special` (administrative shares and devices).
    pub kind: String,
    /// What the server says about it.
    pub comment: String,
}

const PDU_REQUEST: u8 = 0;
const PDU_RESPONSE: u8 = 2;
const PDU_FAULT: u8 = 3;
const PDU_BIND: u8 = 11;
const PDU_BIND_ACK: u8 = 12;
const FIRST_AND_LAST: u8 = 3;
const LAST: u8 = 2;
const PDU_HEADER_BYTES: usize = 16;
const RESPONSE_HEADER_BYTES: usize = 24;
const FRAGMENT_BYTES: u16 = 4280;
/// Largest list that is taken.
const MOST_BYTES: usize = 4 << 20;
/// Read from the pipe at once.
const PIPE_BYTES: u32 = 16 * 1024;
const SHARE_ENUM_ALL: u16 = 15;

/// 4b324fc8-1670-01d3-1278-5a47bf6ee188 version 3, and NDR 8a885d04-1ceb-11c9-9fe8-08002b104860 version 2.
const SRVSVC: [u8; 20] =
    [0xc8, 0x4f, 0x32, 0x4b, 0x70, 0x16, 0xd3, 0x01, 0x12, 0x78, 0x5a, 0x47, 0xbf, 0x6e, 0xe1, 0x88, 3, 0, 0, 0];
const NDR: [u8; 20] =
    [0x04, 0x5d, 0x88, 0x8a, 0xeb, 0x1c, 0xc9, 0x11, 0x9f, 0xe8, 0x08, 0x00, 0x2b, 0x10, 0x48, 0x60, 2, 0, 0, 0];

/// Lists the shares of a server. The share in the options is not used. Errors as for connecting; `Permission` when
/// the server does not list its shares for this identity.
pub fn shares(options: &SmbOptions) -> Result<Vec<Share>> {
    let plan = Plan::new(SmbOptions { connections: 1, addresses: Vec::new(), depth: 1, ..options.clone() })?;
    let _scope = limit::within(plan.timeout);
    let mut connected = connect(&plan, &options.host.as_str().into(), "IPC$", Client::unknown()?)?;
    let mut pipe = Pipe::open(&mut connected.link)?;
    let ack = pipe.transceive(&bind())?;
    if pdu_kind(&ack)? != PDU_BIND_ACK {
        return Err(broken("the server's list of shares does not speak DCE/RPC"));
    }
    let stub = pipe.request(&enumerate(&options.host))?;
    parse_shares(&stub)
}

fn pdu(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![5, 0, kind, FIRST_AND_LAST, 0x10, 0, 0, 0];
    out.u16((PDU_HEADER_BYTES + body.len()) as u16);
    out.u16(0);
    out.u32(1);
    out.put(body);
    out
}

fn bind() -> Vec<u8> {
    let mut body = Vec::new();
    body.u16(FRAGMENT_BYTES);
    body.u16(FRAGMENT_BYTES);
    body.u32(0);
    body.put(&[1, 0, 0, 0, 0, 0, 1, 0]);
    body.put(&SRVSVC);
    body.put(&NDR);
    pdu(PDU_BIND, &body)
}

fn enumerate(host: &str) -> Vec<u8> {
    let name = utf16(&format!("\\\\{host}\0"));
    let units = (name.len() / 2) as u32;
    let mut stub = Vec::new();
    stub.u32(0x0002_0000);
    [units, 0, units].iter().for_each(|v| stub.u32(*v));
    stub.put(&name);
    stub.zeros(stub.len().next_multiple_of(4) - stub.len());
    // Level 1, its empty container, no limit, and where to begin.
    [1, 1, 0x0002_0004, 0, 0, u32::MAX, 0x0002_0008, 0].iter().for_each(|v| stub.u32(*v));
    let mut body = Vec::new();
    body.u32(stub.len() as u32);
    body.u16(0);
    body.u16(SHARE_ENUM_ALL);
    body.put(&stub);
    pdu(PDU_REQUEST, &body)
}

fn pdu_kind(pdu: &[u8]) -> Result<u8> {
    View(pdu).array::<4>(0).map(|head| head[2])
}

/// An open pipe on a connection.
struct Pipe<'a> {
    link: &'a mut Link,
    handle: Handle,
}

impl<'a> Pipe<'a> {
    fn open(link: &'a mut Link) -> Result<Pipe<'a>> {
        let name = utf16("srvsvc");
        let access = file::ACCESS_READ | file::ACCESS_WRITE;
        let create = Create {
            name: &name,
            access,
            disposition: file::OPEN,
            options: 0,
            oplock: file::OPLOCK_NONE,
            contexts: &[],
        };
        let message = exchange(link, CREATE, &create.encode(), 1)?;
        let handle = file::parse_create(&message)?.handle;
        Ok(Pipe { link, handle })
    }

    /// Writes one message and reads what fits of the answer.
    fn transceive(&mut self, input: &[u8]) -> Result<Vec<u8>> {
        let body = ioctl::request(ioctl::PIPE_TRANSCEIVE, &self.handle, input, PIPE_BYTES);
        let message = exchange(self.link, IOCTL, &body, 1)?;
        ioctl::output(&message).map(<[u8]>::to_vec)
    }

    fn read(&mut self, into: &mut Vec<u8>) -> Result<()> {
        let body = file::read(&self.handle, 0, PIPE_BYTES);
        let message = exchange(self.link, READ, &body, 1)?;
        let view = View(&message);
        let data = view.piece(usize::from(view.array::<1>(66)?[0]), view.u32(68)? as usize)?;
        if data.is_empty() || into.len() + data.len() > MOST_BYTES {
            return Err(broken("the list of shares does not end"));
        }
        into.put(data);
        Ok(())
    }

    /// One procedure: its results out of all fragments of the answer.
    fn request(&mut self, input: &[u8]) -> Result<Vec<u8>> {
        let mut raw = self.transceive(input)?;
        let mut stub = Vec::new();
        loop {
            while raw.len() < PDU_HEADER_BYTES || raw.len() < usize::from(View(&raw).u16(8)?) {
                self.read(&mut raw)?;
            }
            let fragment_bytes = usize::from(View(&raw).u16(8)?);
            let last = take_fragment(&raw[..fragment_bytes], &mut stub)?;
            if last {
                return Ok(stub);
            }
            raw.drain(..fragment_bytes);
        }
    }
}

/// Appends a fragment's part of the results; whether it was the last.
fn take_fragment(fragment: &[u8], stub: &mut Vec<u8>) -> Result<bool> {
    match pdu_kind(fragment)? {
        PDU_RESPONSE => {}
        PDU_FAULT => return Err(status::error("shares", status::ACCESS_DENIED)),
        _ => return Err(broken("the list of shares is not an answer")),
    }
    let data =
        fragment.get(RESPONSE_HEADER_BYTES..).ok_or_else(|| broken("a piece of the list of shares is too short"))?;
    if stub.len() + data.len() > MOST_BYTES {
        return Err(broken("the list of shares is too long"));
    }
    stub.put(data);
    Ok(fragment[3] & LAST != 0)
}

fn exchange(link: &mut Link, command: u16, body: &[u8], charge: u16) -> Result<Vec<u8>> {
    call(from_mut(link), 0, &[Part { command, charge, body }], Proof::AsSession, None)?;
    match link.replies.get(0) {
        (status::SUCCESS | status::BUFFER_OVERFLOW, message) => Ok(message.to_vec()),
        (code, _) => Err(status::error("shares", code)),
    }
}

/// A string of NDR at `at`, which is moved behind it.
fn ndr_string(view: View, at: &mut usize) -> Result<String> {
    let units = view.u32(*at + 8)? as usize;
    let bytes = view.bytes(*at + 12, units.saturating_mul(2))?;
    *at = (*at + 12 + bytes.len()).next_multiple_of(4);
    let text = from_utf16(bytes);
    Ok(text.trim_end_matches('\0').to_string())
}

pub(crate) fn parse_shares(stub: &[u8]) -> Result<Vec<Share>> {
    const ENTRY_BYTES: usize = 12;
    let view = View(stub);
    if stub.len() < 24 {
        let code = if stub.len() >= 4 { view.u32(stub.len() - 4)? } else { 0 };
        return Err(refused(code));
    }
    let (container, count, array) = (view.u32(8)?, view.u32(12)? as usize, view.u32(16)?);
    let code = view.u32(stub.len() - 4)?;
    if container == 0 || array == 0 {
        return if code == 0 { Ok(Vec::new()) } else { Err(refused(code)) };
    }
    let fixed = 24;
    view.bytes(fixed, count.saturating_mul(ENTRY_BYTES))?;
    let mut at = fixed + count * ENTRY_BYTES;
    let mut found = Vec::new();
    for n in 0..count {
        let entry = fixed + n * ENTRY_BYTES;
        let name = if view.u32(entry)? != 0 { ndr_string(view, &mut at)? } else { String::new() };
        let comment = if view.u32(entry + 8)? != 0 { ndr_string(view, &mut at)? } else { String::new() };
        found.push(Share { name, kind: share_kind(view.u32(entry + 4)?).into(), comment });
    }
    Ok(found)
}

fn refused(code: u32) -> Error {
    let error = status::error("shares", status::ACCESS_DENIED);
    let message = format!("the server does not list its shares (code {code}): name one, or log on as another user");
    Error { status: i64::from(code), message, ..error }
}

fn share_kind(code: u32) -> &'static str {
    match (code & 0xFF, code & 0x8000_0000 != 0) {
        (3, _) => "ipc",
        (1, _) => "printer",
        (0, false) => "disk",
        _ => "special",
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    fn put_string(out: &mut Vec<u8>, text: &str) {
        let bytes = utf16(&format!("{text}\0"));
        let units = (bytes.len() / 2) as u32;
        [units, 0, units].iter().for_each(|v| out.u32(*v));
        out.put(&bytes);
        out.zeros(out.len().next_multiple_of(4) - out.len());
    }

    pub(crate) fn answer() -> Vec<u8> {
        let mut out = Vec::new();
        [1, 1, 0x20000, 2, 0x20004, 2].iter().for_each(|v| out.u32(*v));
        [0x20008, 0, 0x2000c, 0x20010, 0x8000_0003, 0x20014].iter().for_each(|v| out.u32(*v));
        for text in ["data", "the big disk", "IPC$", ""] {
            put_string(&mut out, text);
        }
        [2, 0, 0].iter().for_each(|v| out.u32(*v));
        out
    }

    /// Whether the bytes are a list; they are read as a part of one, too.
    pub(crate) fn takes(bytes: &[u8]) -> bool {
        let _ = take_fragment(bytes, &mut Vec::new());
        parse_shares(bytes).is_ok()
    }

    #[test]
    fn lists_are_read() {
        let found = parse_shares(&answer()).unwrap();
        assert_eq!(
            (found[0].name.as_str(), found[0].kind.as_str(), found[0].comment.as_str()),
            ("data", "disk", "the big disk")
        );
        assert_eq!((found[1].name.as_str(), found[1].kind.as_str(), found.len()), ("IPC$", "ipc", 2));
        let mut denied = vec![0; 24];
        denied.u32(5);
        assert_eq!(parse_shares(&denied).unwrap_err().status, 5);
    }

    proptest! {
        #[test]
        fn hostile_lists_never_panic(changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..8), cut in any::<usize>()) {
            let mut bytes = answer();
            let len = bytes.len();
            changes.iter().for_each(|(at, value)| bytes[at % len] = *value);
            bytes.truncate(cut % (len + 1));
            let _ = parse_shares(&bytes);
            let _ = take_fragment(&bytes, &mut Vec::new());
        }
    }
}
