//! Where a password comes from: never from the command line, where process lists show it.

use crate::os;
use std::io::Read;

/// The variable that `naslab` reads, too.
const VARIABLE: &str = "NASLAB_PASSWORD";
/// No password is longer.
const MAX_BYTES: u64 = 4096;

/// The password of the environment, which is taken out of it. To be called before a thread runs.
pub fn of_environment() -> Option<String> {
    let found = std::env::var(VARIABLE).ok();
    std::env::remove_var(VARIABLE);
    found
}

/// All that can be read from a descriptor, without the end of its line. The error is a sentence.
pub fn of_descriptor(fd: i32) -> Result<String, String> {
    let file = os::opened(fd).map_err(|why| format!("--password-fd {fd}: {why}"))?;
    let mut text = String::new();
    let read = file.take(MAX_BYTES + 1).read_to_string(&mut text);
    read.map_err(|error| format!("--password-fd {fd}: {error}; it must hold the password as UTF-8 text"))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(format!("--password-fd {fd}: more than {MAX_BYTES} bytes, which is no password"));
    }
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(text.strip_suffix('\r').unwrap_or(text).to_string())
}

/// Puts the password where the target reads it. `by_descriptor`: it was named, so that it must be of use.
pub fn put(target: &mut serde_json::Value, password: String, by_descriptor: Option<i32>) -> Result<(), String> {
    let protocol = target["protocol"].as_str().unwrap_or_default().to_string();
    let options = target.get_mut("options").and_then(serde_json::Value::as_object_mut);
    let Some(options) = options.filter(|_| protocol == "smb") else {
        return by_descriptor.map_or(Ok(()), |fd| {
            Err(format!("--password-fd {fd}: only smb targets log in with a password; leave it out"))
        });
    };
    if by_descriptor.is_some() && options.get("password").is_some_and(|own| !own.is_null()) {
        let fd = by_descriptor.unwrap_or_default();
        return Err(format!("--password-fd {fd}: the specification holds a password, too; give one of them"));
    }
    let own = options.entry("password").or_insert(serde_json::Value::Null);
    if own.is_null() {
        *own = serde_json::Value::String(password);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    #[cfg(unix)]
    fn a_descriptor_gives_a_line() {
        use std::io::{Seek, Write};
        use std::os::fd::IntoRawFd;

        let mut file = tempfile::tempfile().unwrap();
        file.write_all("p ä=ss\r\n".as_bytes()).unwrap();
        file.rewind().unwrap();
        assert_eq!(of_descriptor(file.into_raw_fd()), Ok("p ä=ss".to_string()));
        assert!(of_descriptor(9999).unwrap_err().contains("9999: that descriptor is not open"));
    }

    #[test]
    fn only_smb_takes_one_and_only_once() {
        let mut smb = json!({"protocol": "smb", "options": {"host": "nas"}});
        put(&mut smb, "one".into(), None).unwrap();
        assert_eq!(smb["options"]["password"], "one");
        put(&mut smb, "two".into(), None).unwrap();
        assert_eq!(
            smb["options"]["password"], "one",
            "what the specification says is not overruled by the environment"
        );
        let twice = put(&mut smb, "two".into(), Some(3)).unwrap_err();
        assert!(twice.contains("give one of them") && !twice.contains("two"), "{twice}");
        let mut local = json!({"protocol": "local", "options": {"root": "/x"}});
        put(&mut local, "one".into(), None).unwrap();
        assert_eq!(local["options"], json!({"root": "/x"}));
        assert!(put(&mut local, "one".into(), Some(3)).unwrap_err().starts_with("--password-fd 3: only smb"));
    }
}
