//! SPNEGO (RFC 4178) around Kerberos tokens: the one mechanism offered, and what the server answers.

use crate::codec::broken;
use naslab_core::Result;

const SEQUENCE: u8 = 0x30;
const OCTETS: u8 = 0x04;
const OID: u8 = 0x06;
const ENUMERATED: u8 = 0x0a;
const APPLICATION: u8 = 0x60;

/// 1.3.6.1.5.5.2.
const SPNEGO_OID: [u8; 6] = [0x2b, 0x06, 0x01, 0x05, 0x05, 0x02];
/// 1.2.840.113554.1.2.2, and what Windows writes for it: 1.2.840.48018.1.2.2.
pub(crate) const KERBEROS_OID: [u8; 9] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02];
pub(crate) const KERBEROS_OID_OF_WINDOWS: [u8; 9] = [0x2a, 0x86, 0x48, 0x82, 0xf7, 0x12, 0x01, 0x02, 0x02];

const STATE_REJECT: u8 = 2;

/// What the server says of the login.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer<'a> {
    pub rejected: bool,
    /// Its Kerberos token; empty when it sends none.
    pub token: &'a [u8],
}

fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = vec![tag];
    match len {
        0..=0x7f => out.push(len as u8),
        0x80..=0xff => out.extend([0x81, len as u8]),
        _ => {
            out.push(0x82);
            out.extend((len as u16).to_be_bytes());
        }
    }
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out
}

/// The first message: Kerberos is the only mechanism, and `token` its first token.
pub(crate) fn first(token: &[u8]) -> Vec<u8> {
    let mechanisms = element(0xa0, &[&element(SEQUENCE, &[&element(OID, &[&KERBEROS_OID])])]);
    let token = element(0xa2, &[&element(OCTETS, &[token])]);
    let init = element(0xa0, &[&element(SEQUENCE, &[&mechanisms, &token])]);
    element(APPLICATION, &[&element(OID, &[&SPNEGO_OID]), &init])
}

/// A further message of ours.
pub(crate) fn next(token: &[u8]) -> Vec<u8> {
    element(0xa1, &[&element(SEQUENCE, &[&element(0xa2, &[&element(OCTETS, &[token])])])])
}

/// The element at the front: its tag, its content, and what follows it.
fn take(bytes: &[u8]) -> Result<(u8, &[u8], &[u8])> {
    let short = || broken("the server's logon token is cut short");
    let (tag, rest) = bytes.split_first().ok_or_else(short)?;
    let (first, rest) = rest.split_first().ok_or_else(short)?;
    let (len, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f)).ok_or_else(short)?;
            (digits.iter().fold(0, |len, digit| len << 8 | usize::from(*digit)), rest)
        }
        _ => return Err(broken("the server's logon token has a length of no known form")),
    };
    let (content, rest) = rest.split_at_checked(len).ok_or_else(short)?;
    Ok((*tag, content, rest))
}

fn only(bytes: &[u8], wanted: u8) -> Result<&[u8]> {
    match take(bytes)? {
        (tag, content, _) if tag == wanted => Ok(content),
        (tag, ..) => {
            Err(broken(format!("the server's logon token has an element {tag:#04x} instead of {wanted:#04x}")))
        }
    }
}

/// What the server's token says. A server may also send the Kerberos token as it is.
pub(crate) fn answer(token: &[u8]) -> Result<Answer<'_>> {
    match token.first() {
        None => return Ok(Answer { rejected: false, token }),
        Some(&APPLICATION) => return Ok(Answer { rejected: false, token }),
        Some(_) => {}
    }
    let mut fields = only(only(token, 0xa1)?, SEQUENCE)?;
    let mut found = Answer { rejected: false, token: &[] };
    while !fields.is_empty() {
        let (tag, content, rest) = take(fields)?;
        match tag {
            0xa0 => found.rejected = only(content, ENUMERATED)? == [STATE_REJECT],
            0xa1 => {
                let mechanism = only(content, OID)?;
                if mechanism != KERBEROS_OID && mechanism != KERBEROS_OID_OF_WINDOWS {
                    return Err(broken("the server chose another kind of login than Kerberos"));
                }
            }
            0xa2 => found.token = only(content, OCTETS)?,
            _ => {}
        }
        fields = rest;
    }
    Ok(found)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::crypto::unhex;
    use proptest::prelude::*;

    #[test]
    fn the_first_message_offers_kerberos_alone() {
        let expected = "6020 0606 2b0601050502 a016 3014 a00d 300b 0609 2a864886f712010202 a203 0401 55";
        let expected = unhex(&expected.replace(' ', ""));
        assert_eq!(first(&[0x55]), expected);
        // Kerberos tokens are about 600 bytes, or some thousands with many groups.
        for len in [0, 100, 200, 600, 9000] {
            let token = vec![7; len];
            let message = first(&token);
            let (tag, content, rest) = take(&message).unwrap();
            assert!(tag == APPLICATION && rest.is_empty() && content.ends_with(&token), "{len}");
        }
    }

    #[test]
    fn answers_are_read_or_refused() {
        let accepted = unhex("a1193017a0030a0100a10b06092a864882f712010202a2030401aa");
        assert_eq!(answer(&accepted).unwrap(), Answer { rejected: false, token: &[0xaa] });
        assert!(answer(&unhex("a1073005a0030a0102")).unwrap().rejected);
        assert_eq!(answer(&[]).unwrap().token, b"");
        assert_eq!(answer(&next(&[1, 2])).unwrap().token, [1, 2]);
        let plain = [APPLICATION, 1, 9];
        assert_eq!(answer(&plain).unwrap().token, plain);
        // NTLM was not offered.
        assert!(answer(&unhex("a110300ea10c060a2b06010401823702020a")).is_err());
        assert!(answer(&accepted[..20]).is_err());
    }

    proptest! {
        #[test]
        fn hostile_answers_never_panic(changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..6), cut in 0usize..40) {
            let mut token = unhex("a1193017a0030a0100a10b06092a864882f712010202a2030401aa");
            let len = token.len();
            changes.iter().for_each(|(at, value)| token[at % len] = *value);
            token.truncate(cut);
            let _ = answer(&token);
        }
    }
}
