//! Small texts of the system, as those below /proc.

use std::path::Path;

/// A file's text without blanks at its ends; none where it cannot be read.
pub fn read(path: impl AsRef<Path>) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_string())
}

/// What follows a name and its colon, in the first line that begins with it.
pub fn field(path: &str, name: &str) -> Option<String> {
    let text = read(path)?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'))?;
    Some(line.trim().to_string())
}

/// A field of so many kB, in bytes.
pub fn bytes(path: &str, name: &str) -> Option<u64> {
    Some(field(path, name)?.strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}
