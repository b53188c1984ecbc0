//! Paths of the seam as names on the wire: UTF-16, `\` between parts.

use naslab_core::{Error, ErrorKind, Result};

/// Longest path, in UTF-16 units, that is sent at all.
const MAX_UNITS: usize = 32_000;
/// Characters that no name may hold (MS-FSCC 2.1.5).
const FORBIDDEN: &[char] = &['"', '*', ':', '<', '>', '?', '|', '\\'];

/// Whether a path is fit to be sent. `Invalid` names the character or part that is not.
pub(crate) fn check(path: &str) -> Result<()> {
    let bad = |message: String| Err(Error::new(ErrorKind::Invalid, "name", message).with("path", path));
    for part in path.split('/').filter(|p| !p.is_empty()) {
        if part == "." || part == ".." {
            return bad(format!("\"{part}\" is not allowed within a path"));
        }
        if let Some(c) = part.chars().find(|c| FORBIDDEN.contains(c) || (*c as u32) < 0x20) {
            return bad(format!("SMB names cannot hold the character {c:?}: rename the file"));
        }
    }
    if path.encode_utf16().count() > MAX_UNITS {
        return bad(format!("a path longer than {MAX_UNITS} characters"));
    }
    Ok(())
}

/// A checked path below `root` as it is sent: UTF-16LE bytes without a leading `\`.
pub(crate) fn wire_path(root: &str, path: &str) -> Result<Vec<u8>> {
    check(path)?;
    if path.starts_with('/') {
        let message = "paths are relative to the target's folder: leave out the leading /";
        return Err(Error::new(ErrorKind::Invalid, "name", message).with("path", path));
    }
    let mut out = Vec::with_capacity(2 * (root.len() + path.len() + 1));
    for part in root.split('/').chain(path.split('/')).filter(|p| !p.is_empty()) {
        if !out.is_empty() {
            out.extend_from_slice(&u16::from(b'\\').to_le_bytes());
        }
        put_utf16(&mut out, part);
    }
    Ok(out)
}

/// Appends text as UTF-16LE.
pub(crate) fn put_utf16(out: &mut Vec<u8>, text: &str) {
    out.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
}

/// Text as UTF-16LE bytes.
pub(crate) fn utf16(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(2 * text.len());
    put_utf16(&mut out, text);
    out
}

/// UTF-16LE bytes as text; what is no text becomes U+FFFD, an odd last byte is dropped.
pub(crate) fn from_utf16(bytes: &[u8]) -> String {
    let units = bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]));
    char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_are_joined_below_the_root() {
        assert_eq!(from_utf16(&wire_path("", "").unwrap()), "");
        assert_eq!(from_utf16(&wire_path("a/b", "c/d").unwrap()), "a\\b\\c\\d");
        assert_eq!(from_utf16(&wire_path("/a/", "").unwrap()), "a");
        for bad in ["/a", "a:b", "x/..", "a\\b", "q?", "tab\tname", "."] {
            assert_eq!(wire_path("", bad).unwrap_err().kind, ErrorKind::Invalid, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn text_survives_the_wire(text in "\\PC{0,200}") {
            prop_assert_eq!(from_utf16(&utf16(&text)), text);
        }

        #[test]
        fn any_bytes_are_some_text(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(from_utf16(&bytes).chars().count() <= bytes.len() / 2);
        }
    }
}
