//! Keys, signatures and ciphers of SMB 2 and 3 (MS-SMB2 3.1.4), made for messages that lie in several pieces.

mod aead;
mod block;
mod ghash;
#[cfg(test)]
mod guarded;
mod mac;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(crate) use aead::{same, Aead, Run};
pub(crate) use mac::{Mac, Signer};

use hmac::{Hmac, KeyInit, Mac as _};
use naslab_core::{Error, ErrorKind, Result};
use sha2::{Digest, Sha256, Sha512};

/// A cipher of the encryption context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CipherId {
    Aes128Ccm,
    Aes128Gcm,
    Aes256Ccm,
    Aes256Gcm,
}

impl CipherId {
    /// All, the fastest first: the order in which they are offered.
    pub const ALL: [CipherId; 4] = [CipherId::Aes128Gcm, CipherId::Aes256Gcm, CipherId::Aes128Ccm, CipherId::Aes256Ccm];

    pub fn code(self) -> u16 {
        match self {
            CipherId::Aes128Ccm => 1,
            CipherId::Aes128Gcm => 2,
            CipherId::Aes256Ccm => 3,
            CipherId::Aes256Gcm => 4,
        }
    }

    pub fn from_code(code: u16) -> Option<CipherId> {
        CipherId::ALL.into_iter().find(|c| c.code() == code)
    }

    pub fn name(self) -> &'static str {
        match self {
            CipherId::Aes128Ccm => "aes-128-ccm",
            CipherId::Aes128Gcm => "aes-128-gcm",
            CipherId::Aes256Ccm => "aes-256-ccm",
            CipherId::Aes256Gcm => "aes-256-gcm",
        }
    }

    pub fn key_bytes(self) -> usize {
        match self {
            CipherId::Aes128Ccm | CipherId::Aes128Gcm => 16,
            CipherId::Aes256Ccm | CipherId::Aes256Gcm => 32,
        }
    }

    pub fn is_gcm(self) -> bool {
        matches!(self, CipherId::Aes128Gcm | CipherId::Aes256Gcm)
    }
}

/// A way of signing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SigningId {
    HmacSha256,
    AesCmac,
    AesGmac,
}

impl SigningId {
    /// All, the fastest first: the order in which they are offered.
    pub const ALL: [SigningId; 3] = [SigningId::AesGmac, SigningId::AesCmac, SigningId::HmacSha256];

    pub fn code(self) -> u16 {
        match self {
            SigningId::HmacSha256 => 0,
            SigningId::AesCmac => 1,
            SigningId::AesGmac => 2,
        }
    }

    pub fn from_code(code: u16) -> Option<SigningId> {
        SigningId::ALL.into_iter().find(|s| s.code() == code)
    }

    pub fn name(self) -> &'static str {
        match self {
            SigningId::HmacSha256 => "hmac-sha256",
            SigningId::AesCmac => "aes-cmac",
            SigningId::AesGmac => "aes-gmac",
        }
    }
}

/// HMAC-SHA256 with a key of any length.
pub(crate) fn hmac_sha256(key: &[u8]) -> Hmac<Sha256> {
    <Hmac<Sha256> as KeyInit>::new_from_slice(key).expect("HMAC takes keys of every length")
}

/// SP800-108 in counter mode with HMAC-SHA256 (MS-SMB2 3.1.4.2): the first `N` bytes.
pub(crate) fn derive<const N: usize>(key: &[u8], label: &[u8], context: &[u8]) -> [u8; N] {
    let mut mac = hmac_sha256(key);
    mac.update(&1u32.to_be_bytes());
    mac.update(label);
    mac.update(&[0]);
    mac.update(context);
    mac.update(&(8 * N as u32).to_be_bytes());
    let full = mac.finalize().into_bytes();
    let mut out = [0; N];
    out.copy_from_slice(&full[..N]);
    out
}

/// Running SHA-512 over the messages of a connection's and session's set-up (MS-SMB2 3.1.4.4.1).
#[derive(Clone)]
pub(crate) struct Preauth(pub [u8; 64]);

impl Preauth {
    pub fn new() -> Preauth {
        Preauth([0; 64])
    }

    pub fn add(&mut self, message: &[u8]) {
        let mut hash = Sha512::new();
        hash.update(self.0);
        hash.update(message);
        self.0.copy_from_slice(&hash.finalize());
    }
}

/// Unguessable bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut out = [0; N];
    getrandom::fill(&mut out)
        .map_err(|e| Error::new(ErrorKind::Io, "connect", format!("the system provides no random numbers: {e}")))?;
    Ok(out)
}

#[cfg(test)]
pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Microsoft's published example of a 3.0 session ("SMB 2 and SMB 3 security in Windows 10").
    #[test]
    fn keys_are_derived_as_published() {
        let session = unhex("7CD451825D0450D235424E44BA6E78CC");
        let signing: [u8; 16] = derive(&session, b"SMB2AESCMAC\0", b"SmbSign\0");
        assert_eq!(signing.to_vec(), unhex("0B7E9C5CAC36C0F6EA9AB275298CEDCE"));
    }

    #[test]
    fn the_integrity_hash_chains() {
        let mut hash = Preauth::new();
        hash.add(b"abc");
        let mut whole = Sha512::new();
        whole.update([0; 64]);
        whole.update(b"abc");
        assert_eq!(hash.0.to_vec(), whole.finalize().to_vec());
    }
}
