//! What a listing may hold, whatever a server sends: sound names, and an end.

use crate::{limit, Error, ErrorKind, Result};

/// Entries of one folder, at most.
pub const MAX_ENTRIES: usize = 1 << 20;
/// Bytes of the names of one folder, at most.
pub const MAX_NAME_BYTES: usize = 64 << 20;
/// Pages of a listing that bring nothing new, at most: `.` and `..` may come alone, and come once.
const MAX_EMPTY_PAGES: usize = 16;

/// Counts what came of one folder. A listing is refused as a whole: one that holds a name which no folder can hold
/// was made up.
#[derive(Debug, Default)]
pub struct Listing {
    entries: usize,
    name_bytes: usize,
    empty_pages: usize,
    page_began_at: usize,
}

impl Listing {
    /// Takes one name. False for `.` and `..`, which are not entries.
    ///
    /// separators: the characters that part names on this target. Errors: `Protocol` for a name that is empty or
    /// holds a separator or a NUL, and when the folder holds more than [`MAX_ENTRIES`] or [`MAX_NAME_BYTES`].
    pub fn take(&mut self, name: &str, separators: &[char]) -> Result<bool> {
        if matches!(name, "." | "..") {
            return Ok(false);
        }
        check_name(name, separators)?;
        self.entries += 1;
        self.name_bytes += name.len();
        if self.entries > MAX_ENTRIES || self.name_bytes > MAX_NAME_BYTES {
            let message = format!("the folder has more than {MAX_ENTRIES} names, or too many long ones");
            return Err(Error::new(ErrorKind::Protocol, "readdir", message));
        }
        Ok(true)
    }

    /// One answer of the server was taken and more are to come.
    ///
    /// Errors: `Protocol` when answers keep coming and bring nothing; `Timeout` and `Interrupted` as [`limit::check`].
    pub fn page(&mut self) -> Result<()> {
        self.empty_pages += usize::from(self.entries == self.page_began_at);
        self.page_began_at = self.entries;
        if self.empty_pages > MAX_EMPTY_PAGES {
            return Err(endless());
        }
        limit::check("readdir").map_err(|e| e.with("entries_so_far", self.entries))
    }
}

/// The error of a list without an end.
pub fn endless() -> Error {
    Error::new(ErrorKind::Protocol, "readdir", "the server's list of the folder does not end")
}

fn check_name(name: &str, separators: &[char]) -> Result<()> {
    if name.is_empty() {
        return Err(Error::new(ErrorKind::Protocol, "readdir", "the server lists an empty name"));
    }
    if name.contains('\0') || name.contains(separators) {
        let message = "the server lists an invalid name, or one that leads out of its folder";
        let shown: String = name.chars().take(80).collect();
        return Err(Error::new(ErrorKind::Protocol, "readdir", message).with("name", format!("{shown:?}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_folder_can_hold_are_refused() {
        let mut listing = Listing::default();
        for good in ["a", "...", ".a", "..a", "a b", "naslab\\x", "\u{1F980}", "\u{1b}[2J"] {
            assert!(listing.take(good, &['/']).unwrap(), "{good}");
        }
        for own in [".", ".."] {
            assert!(!listing.take(own, &['/']).unwrap());
        }
        for bad in ["", "/etc/passwd", "a/../b", "a\0b", "../x", "\0"] {
            assert_eq!(listing.take(bad, &['/']).unwrap_err().kind, ErrorKind::Protocol, "{bad:?}");
        }
        assert!(listing.take("naslab-x\\..\\etc", &['/', '\\']).is_err());
        assert!(listing.take("\u{1b}[2J/", &['/']).unwrap_err().to_string().contains("\\u{1b}"));
    }

    #[test]
    fn too_many_and_too_long_names_end_a_listing() {
        let mut listing = Listing::default();
        let outcome = (0..=MAX_ENTRIES).try_for_each(|_| listing.take("a", &['/']).map(drop));
        assert!(outcome.is_err());
        let (mut listing, name) = (Listing::default(), "n".repeat(4000));
        let most = MAX_NAME_BYTES / 4000;
        assert!((0..most).try_for_each(|_| listing.take(&name, &['/']).map(drop)).is_ok());
        assert!(listing.take(&name, &['/']).is_err());
    }

    #[test]
    fn pages_that_bring_nothing_end_a_listing() {
        let mut listing = Listing::default();
        for n in 0..100 {
            listing.take(&n.to_string(), &['/']).unwrap();
            listing.page().unwrap();
        }
        assert!((0..=MAX_EMPTY_PAGES).try_for_each(|_| listing.page()).is_err());
    }
}
