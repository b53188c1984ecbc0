//! NTLMv2 (MS-NLMP), sent as it is within SESSION_SETUP, as Linux clients do.

use crate::codec::{broken, Put, View};
use crate::names::{from_utf16, utf16};
use crate::options::Auth;
use hmac::{Hmac, KeyInit, Mac};
use md4::{Digest, Md4};
use md5::Md5;
use naslab_core::Result;

const SIGNATURE: &[u8; 8] = b"NTLMSSP\0";
/// Unicode, request target, sign, NTLM, always sign, extended session security, target info, version, 128 bit,
/// key exchange, 56 bit.
const FLAGS: u32 = 0xE288_8215;
const FLAG_ANONYMOUS: u32 = 0x0000_0800;
const FLAG_KEY_EXCHANGE: u32 = 0x4000_0000;
/// Key exchange, signing and always signing: what an anonymous session has no key for.
const FLAGS_WITH_KEY: u32 = FLAG_KEY_EXCHANGE | 0x8010;
/// Windows 10 and revision 15 of NTLM, which servers of all makers know.
const VERSION: [u8; 8] = [10, 0, 0x61, 0x4A, 0, 0, 0, 15];
/// Bytes of an AUTHENTICATE message before its payload, and where the integrity code lies.
const AUTHENTICATE_BYTES: usize = 88;
const MIC_AT: usize = 72;

const AV_END: u16 = 0;
const AV_NETBIOS_NAME: u16 = 1;
const AV_DNS_NAME: u16 = 3;
const AV_FLAGS: u16 = 6;
const AV_TIME: u16 = 7;
const AV_FLAG_MIC: u32 = 2;

/// Who logs on.
pub(crate) struct Identity<'a> {
    pub auth: Auth,
    pub user: &'a str,
    pub password: &'a str,
    pub domain: &'a str,
}

/// What the caller must bring so that the same input gives the same bytes.
pub(crate) struct Fresh {
    pub client_challenge: [u8; 8],
    pub session_key: [u8; 16],
    /// Windows time, for servers that tell none.
    pub time: u64,
}

/// The last message and what it agreed on.
pub(crate) struct Proof {
    pub message: Vec<u8>,
    /// The session key; all zeros for anonymous sessions, which have none.
    pub session_key: [u8; 16],
    /// The server's own name.
    pub server_name: String,
}

/// The first message.
pub(crate) fn negotiate() -> Vec<u8> {
    let mut out = Vec::with_capacity(40);
    out.put(SIGNATURE);
    out.u32(1);
    out.u32(FLAGS);
    out.zeros(16);
    out.put(&VERSION);
    out
}

struct Challenge<'a> {
    flags: u32,
    challenge: [u8; 8],
    info: &'a [u8],
}

/// The message within a token, which the server may have wrapped in SPNEGO.
fn unwrap(token: &[u8]) -> Result<&[u8]> {
    let at = token.windows(SIGNATURE.len()).position(|w| w == SIGNATURE);
    at.map(|at| &token[at..]).ok_or_else(|| broken("the server's logon token holds no NTLM message"))
}

fn parse_challenge(message: &[u8]) -> Result<Challenge<'_>> {
    let view = View(message);
    if view.u32(8)? != 2 {
        return Err(broken("the server's NTLM message is no challenge"));
    }
    let (len, at) = (view.u16(40)?, view.u32(44)?);
    let info = view.piece(at as usize, usize::from(len))?;
    Ok(Challenge { flags: view.u32(20)?, challenge: view.array(24)?, info })
}

/// The pairs of a target information, up to its end mark.
fn pairs(info: &[u8]) -> Result<Vec<(u16, &[u8])>> {
    let view = View(info);
    let mut out = Vec::new();
    let mut at = 0;
    while at < info.len() {
        let (id, len) = (view.u16(at)?, usize::from(view.u16(at + 2)?));
        let value = view.bytes(at + 4, len)?;
        if id == AV_END {
            break;
        }
        out.push((id, value));
        at += 4 + len;
    }
    Ok(out)
}

fn hmac_md5(key: &[u8], parts: &[&[u8]]) -> [u8; 16] {
    let mut mac = <Hmac<Md5> as KeyInit>::new_from_slice(key).expect("HMAC takes keys of every length");
    parts.iter().for_each(|p| mac.update(p));
    mac.finalize().into_bytes().into()
}

/// NTOWFv2: the key of a user, name and domain.
fn response_key(identity: &Identity) -> [u8; 16] {
    let hash = Md4::digest(utf16(identity.password));
    hmac_md5(&hash, &[&utf16(&identity.user.to_uppercase()), &utf16(identity.domain)])
}

/// RC4 of 16 bytes, only to hand over the session key.
fn rc4(key: &[u8; 16], data: &[u8; 16]) -> [u8; 16] {
    let mut s: [u8; 256] = std::array::from_fn(|i| i as u8);
    let mut j = 0u8;
    for i in 0..256 {
        j = j.wrapping_add(s[i]).wrapping_add(key[i % 16]);
        s.swap(i, usize::from(j));
    }
    let (mut i, mut j) = (0u8, 0u8);
    data.map(|byte| {
        i = i.wrapping_add(1);
        j = j.wrapping_add(s[usize::from(i)]);
        s.swap(usize::from(i), usize::from(j));
        byte ^ s[usize::from(s[usize::from(i)].wrapping_add(s[usize::from(j)]))]
    })
}

/// The target information to send back: the server's, and that the message carries an integrity code.
fn answer_info(pairs: &[(u16, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut flags = AV_FLAG_MIC;
    for (id, value) in pairs {
        match *id {
            AV_FLAGS => flags |= View(value).u32(0).unwrap_or(0),
            id => {
                out.u16(id);
                out.u16(value.len() as u16);
                out.put(value);
            }
        }
    }
    out.u16(AV_FLAGS);
    out.u16(4);
    out.u32(flags);
    out.u32(0);
    out
}

/// The NTLMv2 response and the session's base key.
fn respond(key: &[u8; 16], challenge: &[u8; 8], fresh: &Fresh, time: u64, info: &[u8]) -> (Vec<u8>, [u8; 16]) {
    let mut blob = vec![1, 1, 0, 0, 0, 0, 0, 0];
    blob.u64(time);
    blob.put(&fresh.client_challenge);
    blob.u32(0);
    blob.put(info);
    blob.u32(0);
    let proof = hmac_md5(key, &[challenge, &blob]);
    let base = hmac_md5(key, &[&proof]);
    let mut response = proof.to_vec();
    response.put(&blob);
    (response, base)
}

/// Answers the server's challenge; `first` is the message that `negotiate` gave.
pub(crate) fn authenticate(identity: &Identity, first: &[u8], token: &[u8], fresh: &Fresh) -> Result<Proof> {
    let message = unwrap(token)?;
    let challenge = parse_challenge(message)?;
    let pairs = pairs(challenge.info)?;
    let find = |id: u16| pairs.iter().find(|p| p.0 == id).map(|p| p.1);
    let server_name = find(AV_DNS_NAME).filter(|n| !n.is_empty()).or(find(AV_NETBIOS_NAME)).map(from_utf16);
    let server_name = server_name.unwrap_or_default();
    if identity.auth == Auth::Anonymous {
        let parts = Parts { lm: &[0], nt: &[], domain: &[], user: &[], key: &[], flags: FLAG_ANONYMOUS };
        return Ok(Proof {
            message: parts.build(challenge.flags & !FLAGS_WITH_KEY),
            session_key: [0; 16],
            server_name,
        });
    }
    let key = response_key(identity);
    let time = find(AV_TIME).and_then(|t| View(t).u64(0).ok()).unwrap_or(fresh.time);
    let info = answer_info(&pairs);
    let (nt, base) = respond(&key, &challenge.challenge, fresh, time, &info);
    let exchange = challenge.flags & FLAG_KEY_EXCHANGE != 0;
    let session_key = if exchange { fresh.session_key } else { base };
    let wrapped = rc4(&base, &session_key);
    let (domain, user) = (utf16(identity.domain), utf16(identity.user));
    let sent_key: &[u8] = if exchange { &wrapped } else { &[] };
    let parts = Parts { lm: &[0; 24], nt: &nt, domain: &domain, user: &user, key: sent_key, flags: 0 };
    let mut out = parts.build(challenge.flags);
    let mic = hmac_md5(&session_key, &[first, message, &out]);
    out[MIC_AT..MIC_AT + 16].copy_from_slice(&mic);
    Ok(Proof { message: out, session_key, server_name })
}

struct Parts<'a> {
    lm: &'a [u8],
    nt: &'a [u8],
    domain: &'a [u8],
    user: &'a [u8],
    key: &'a [u8],
    flags: u32,
}

impl Parts<'_> {
    fn build(&self, offered: u32) -> Vec<u8> {
        let fields = [self.lm, self.nt, self.domain, self.user, &[], self.key];
        let mut out = Vec::with_capacity(512);
        out.put(SIGNATURE);
        out.u32(3);
        let mut at = AUTHENTICATE_BYTES as u32;
        for field in fields {
            out.u16(field.len() as u16);
            out.u16(field.len() as u16);
            out.u32(at);
            at += field.len() as u32;
        }
        out.u32((FLAGS & offered) | self.flags);
        out.put(&VERSION);
        out.zeros(16);
        fields.iter().for_each(|f| out.put(f));
        out
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::crypto::unhex;
    use proptest::prelude::*;

    const ALICE: Identity = Identity { auth: Auth::Ntlm, user: "User", password: "Password", domain: "Domain" };
    const FRESH: Fresh = Fresh { client_challenge: [0xAA; 8], session_key: [0x55; 16], time: 0 };

    /// MS-NLMP 4.2.4.
    #[test]
    fn published_vectors() {
        let key = response_key(&ALICE);
        assert_eq!(key.to_vec(), unhex("0c868a403bfd7a93a3001ef22ef02e3f"));
        let info = unhex("02000c0044006f006d00610069006e0001000c005300650072007600650072000000 0000");
        let challenge = unhex("0123456789abcdef").try_into().unwrap();
        let (response, base) = respond(&key, &challenge, &FRESH, 0, &info);
        assert_eq!(response[..16].to_vec(), unhex("68cd0ab851e51c96aabc927bebef6a1c"));
        assert_eq!(base.to_vec(), unhex("8de40ccadbc14a82f15cb0ad0de95ca3"));
        assert_eq!(rc4(&base, &[0x55; 16]).to_vec(), unhex("c5dad2544fc9799094ce1ce90bc9d03e"));
    }

    pub(crate) fn challenge() -> Vec<u8> {
        let mut info = Vec::new();
        for (id, text) in [(2, "Domain"), (1, "Server"), (3, "server.example")] {
            let text = utf16(text);
            info.u16(id);
            info.u16(text.len() as u16);
            info.put(&text);
        }
        info.u16(AV_TIME);
        info.u16(8);
        info.u64(77);
        info.u32(0);
        let mut out = Vec::new();
        out.put(SIGNATURE);
        out.u32(2);
        out.zeros(8);
        out.u32(FLAGS);
        out.put(&[1, 2, 3, 4, 5, 6, 7, 8]);
        out.zeros(8);
        out.u16(info.len() as u16);
        out.u16(info.len() as u16);
        out.u32(56);
        out.zeros(8);
        out.put(&info);
        out
    }

    /// Whether a server's challenge gets an answer.
    pub(crate) fn answers(token: &[u8]) -> bool {
        authenticate(&ALICE, &negotiate(), token, &FRESH).is_ok()
    }

    #[test]
    fn the_last_message_carries_all_parts() {
        let mut wrapped = vec![0xA1, 0x10, 0x30];
        wrapped.put(&challenge());
        let proof = authenticate(&ALICE, &negotiate(), &wrapped, &FRESH).unwrap();
        assert_eq!(proof.server_name, "server.example");
        assert_eq!(proof.session_key, [0x55; 16]);
        let view = View(&proof.message);
        let field = |at: usize| {
            view.bytes(view.u32(at + 4).unwrap() as usize, usize::from(view.u16(at).unwrap())).unwrap().to_vec()
        };
        assert_eq!((from_utf16(&field(28)), from_utf16(&field(36))), ("Domain".into(), "User".into()));
        assert_eq!(field(52).len(), 16);
        let mut without = proof.message.clone();
        without[MIC_AT..MIC_AT + 16].fill(0);
        let mic = hmac_md5(&[0x55; 16], &[&negotiate(), &challenge(), &without]);
        assert_eq!(proof.message[MIC_AT..MIC_AT + 16], mic);
        let nobody = Identity { auth: Auth::Anonymous, user: "", password: "", domain: "" };
        let proof = authenticate(&nobody, &negotiate(), &challenge(), &FRESH).unwrap();
        assert_eq!(proof.message.len(), AUTHENTICATE_BYTES + 1);
    }

    proptest! {
        #[test]
        fn hostile_challenges_end_in_an_error_or_an_answer(at in 0usize..200, value in any::<u8>(), cut in 0usize..200) {
            let mut token = challenge();
            let len = token.len();
            token[at % len] = value;
            token.truncate(cut.max(8));
            let _ = authenticate(&ALICE, &negotiate(), &token, &FRESH);
        }
    }
}
