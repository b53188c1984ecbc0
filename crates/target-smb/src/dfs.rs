//! DFS: which server and share a path leads to (MS-DFSC 2.2 and 3.1.5.4, MS-SMB2 3.2.4.20.3).
//!
//! A namespace of links is a share like any other: `\\host\namespace\link\folder` is `\\server\share\folder`, and only
//! the server of the namespace knows. It is asked over its share IPC$. Referrals are followed as long as a place is
//! itself part of a namespace; a link may name several servers, of which the first that answers is taken.

use crate::codec::{broken, Put, View, IOCTL, RELATED_FILE};
use crate::ioctl;
use crate::link::{call, Part, Proof};
use crate::login::connect;
use crate::names::{from_utf16, put_utf16};
use crate::negotiate::Client;
use crate::options::Plan;
use crate::status;
use naslab_core::{Error, ErrorKind, Result};
use std::slice::from_mut;

/// Most places that are tried.
pub(crate) const MOST_STEPS: usize = 16;
/// Newest form of a referral that is asked for.
const NEWEST: u16 = 4;
const MOST_BYTES: u32 = 56 * 1024;
/// Most places of one referral that are read.
const MOST_PLACES: u16 = 64;
const HEADER_BYTES: usize = 8;
/// Answers to a question about what is part of no namespace: not found (three of them), no such share, not supported, no
/// such request, no DFS service (MS-DFSC 3.2.5.1 and what servers say).
const IN_NO_NAMESPACE: [u32; 7] =
    [0xC000_0225, 0xC000_0034, 0xC000_003A, status::BAD_NETWORK_NAME, status::NOT_SUPPORTED, 0xC000_0010, 0xC000_019C];
/// Flag of an entry that lists domain controllers instead of a place.
const IS_NAME_LIST: u16 = 2;

/// A folder of a share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub host: String,
    pub share: String,
    /// Parts separated by `/`.
    pub folder: String,
}

impl Place {
    /// Of `\host\share\folder`; none where there is no share.
    fn of(unc: &str) -> Option<Place> {
        let mut parts = unc.split('\\').filter(|part| !part.is_empty());
        let (host, share) = (parts.next()?.to_string(), parts.next()?.to_string());
        Some(Place { host, share, folder: parts.collect::<Vec<_>>().join("/") })
    }

    /// As `\host\share\folder`: with one backslash in front, as referrals have it.
    fn path(&self) -> String {
        let folders = self.folder.split('/').filter(|part| !part.is_empty());
        [self.host.as_str(), self.share.as_str()]
            .into_iter()
            .chain(folders)
            .fold(String::new(), |path, part| path + "\\" + part)
    }

    /// As people write it.
    pub fn unc(&self) -> String {
        format!("\\{}", self.path())
    }

    /// Whether both are one place.
    pub fn is(&self, other: &Place) -> bool {
        self.path().to_lowercase() == other.path().to_lowercase()
    }

    /// The same share of the same server: names there have no case.
    pub fn is_share_of(&self, other: &Place) -> bool {
        self.host.eq_ignore_ascii_case(&other.host) && self.share.to_lowercase() == other.share.to_lowercase()
    }
}

/// Where the server of a place says that it is, the nearest server first; none where it is what it is. plan: of a target
/// at that place.
pub(crate) fn ask(plan: &Plan, place: &Place) -> Result<Vec<Place>> {
    let mut connected = connect(plan, &place.host.as_str().into(), "IPC$", Client::unknown()?)?;
    if !connected.server.has_dfs() {
        return Ok(Vec::new());
    }
    let body = ioctl::request(ioctl::DFS_GET_REFERRALS, &RELATED_FILE, &question(&place.path()), MOST_BYTES);
    call(from_mut(&mut connected.link), 0, &[Part { command: IOCTL, charge: 1, body: &body }], Proof::AsSession, None)?;
    let (code, message) = connected.link.replies.get(0);
    match code {
        status::SUCCESS | status::BUFFER_OVERFLOW => parse(ioctl::output(message)?, place),
        _ if IN_NO_NAMESPACE.contains(&code) => Ok(Vec::new()),
        _ => Err(status::error("connect", code).with("path", place.unc())),
    }
}

/// REQ_GET_DFS_REFERRAL (MS-DFSC 2.2.2).
fn question(path: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(4 + 2 * path.len());
    out.u16(NEWEST);
    put_utf16(&mut out, path);
    out.u16(0);
    out
}

/// RESP_GET_DFS_REFERRAL (MS-DFSC 2.2.4) to a question about `place`: where it leads, each place once, in the order
/// told; none where it leads nowhere else. A link that leads to itself does.
pub(crate) fn parse(answer: &[u8], place: &Place) -> Result<Vec<Place>> {
    let view = View(answer);
    let (consumed, count) = (usize::from(view.u16(0)?), view.u16(2)?);
    let asked: Vec<u16> = place.path().encode_utf16().collect();
    let rest = asked.get(consumed / 2..).ok_or_else(|| broken("a DFS referral speaks of more than it was asked"))?;
    let rest = String::from_utf16_lossy(rest);
    let is_root = consumed / 2 <= 2 + (place.host.encode_utf16().count() + place.share.encode_utf16().count());
    let mut found: Vec<Place> = Vec::new();
    let mut at = HEADER_BYTES;
    for _ in 0..count.min(MOST_PLACES) {
        let (version, size, flags) = (view.u16(at)?, usize::from(view.u16(at + 2)?), view.u16(at + 6)?);
        let name = match version {
            1 => text(view, at + 8)?,
            2 => text(view, at + usize::from(view.u16(at + 20)?))?,
            3 | 4 if flags & IS_NAME_LIST == 0 => text(view, at + usize::from(view.u16(at + 16)?))?,
            _ => String::new(),
        };
        let led = Place::of(&format!("{name}\\{rest}"));
        found.extend(led.filter(|led| !(found.contains(led) || is_root && led.is_share_of(place))));
        at = at.checked_add(size.max(HEADER_BYTES)).ok_or_else(|| broken("a DFS referral has no valid form"))?;
    }
    Ok(found)
}

/// Text up to a null character.
fn text(view: View, at: usize) -> Result<String> {
    let rest = view.0.get(at..).ok_or_else(|| broken("a DFS referral names a place beyond its end"))?;
    let end = rest
        .chunks_exact(2)
        .position(|unit| unit == [0, 0])
        .ok_or_else(|| broken("a name of a DFS referral does not end"))?;
    Ok(from_utf16(&rest[..2 * end]))
}

/// The error of places that lead in a circle, or on and on.
pub(crate) fn endless(place: &Place) -> Error {
    let message =
        format!("the DFS links lead on and on, last to {}: have the namespace mended, or name the server", place.unc());
    Error::new(ErrorKind::Unsupported, "connect", message)
}

/// The error of a link of which no server answers. tried: each place with what went wrong there.
pub(crate) fn unreachable(place: &Place, tried: &[(Place, Error)]) -> Error {
    // Without the names of statuses, which are those of another place than the one that was named.
    let why = |error: &Error| error.message.split(" (STATUS_").next().unwrap_or_default().to_string();
    let told: Vec<String> = tried.iter().map(|(led, error)| format!("{}: {}", led.unc(), why(error))).collect();
    let message =
        format!("{} is a DFS link, and no server behind it can be reached ({})", place.unc(), told.join("; "));
    let kind = tried.last().map_or(ErrorKind::NotFound, |(_, error)| error.kind);
    Error::new(kind, "connect", message)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    fn place(host: &str, share: &str, folder: &str) -> Place {
        Place { host: host.into(), share: share.into(), folder: folder.into() }
    }

    /// An answer of version 4 that names these places for so much of the path.
    pub(crate) fn answer(consumed: &str, names: &[&str]) -> Vec<u8> {
        const ENTRY_BYTES: usize = 34;
        let mut out = Vec::new();
        out.u16(2 * consumed.encode_utf16().count() as u16);
        out.u16(names.len() as u16);
        out.u32(2);
        let mut strings = Vec::new();
        for (n, name) in names.iter().enumerate() {
            let start = out.len();
            out.u16(4);
            out.u16(ENTRY_BYTES as u16);
            out.u16(0);
            out.u16(0);
            out.u32(300);
            let at = (names.len() - n) * ENTRY_BYTES + strings.len();
            [at, at, at].iter().for_each(|at| out.u16(*at as u16));
            out.zeros(start + ENTRY_BYTES - out.len());
            put_utf16(&mut strings, name);
            strings.u16(0);
        }
        out.put(&strings);
        out
    }

    /// Whether the bytes are a referral.
    pub(crate) fn takes(bytes: &[u8]) -> bool {
        parse(bytes, &place("dom", "ns", "link/sub")).is_ok()
    }

    #[test]
    fn a_link_leads_elsewhere_with_the_rest_of_the_path() {
        let asked = place("dom", "ns", "link/sub/deep");
        let told = answer("\\dom\\ns\\link", &["\\nas1\\data", "\\nas2\\data\\inner", "\\nas1\\data"]);
        assert_eq!(
            parse(&told, &asked).unwrap(),
            [place("nas1", "data", "sub/deep"), place("nas2", "data", "inner/sub/deep")]
        );
        assert_eq!(asked.unc(), "\\\\dom\\ns\\link\\sub\\deep");
    }

    #[test]
    fn a_root_leads_to_itself_or_to_its_server() {
        let asked = place("NAS", "ns", "folder");
        assert_eq!(parse(&answer("\\NAS\\ns", &["\\nas\\NS"]), &asked).unwrap(), []);
        let circle = parse(&answer("\\NAS\\ns\\folder", &["\\nas\\ns\\folder"]), &asked).unwrap();
        assert_eq!(circle, [place("nas", "ns", "folder")], "a link to itself");
        let domain = parse(&answer("\\NAS\\ns", &["\\server\\ns"]), &asked).unwrap();
        assert_eq!(domain, [place("server", "ns", "folder")]);
        assert!(!asked.is_share_of(&domain[0]) && asked.is_share_of(&place("nas", "NS", "other")));
        assert_eq!(parse(&answer("\\NAS\\ns", &[]), &asked).unwrap(), []);
    }

    #[test]
    fn more_than_was_asked_is_refused() {
        let told = answer("\\dom\\ns\\link\\and\\more", &["\\nas\\data"]);
        assert_eq!(parse(&told, &place("dom", "ns", "link")).unwrap_err().kind, ErrorKind::Protocol);
        let whole = answer("\\dom\\ns", &["\\nas\\data"]);
        for cut in 0..whole.len() {
            let _ = parse(&whole[..cut], &place("dom", "ns", ""));
        }
        assert!(parse(&whole[..20], &place("dom", "ns", "")).is_err());
    }

    proptest! {
        #[test]
        fn hostile_referrals_never_panic(changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..8), cut in any::<usize>()) {
            let mut bytes = answer("\\dom\\ns\\link", &["\\nas1\\data", "\\nas2\\data"]);
            let len = bytes.len();
            changes.iter().for_each(|(at, value)| bytes[at % len] = *value);
            bytes.truncate(cut % (len + 1));
            takes(&bytes);
        }
    }
}
