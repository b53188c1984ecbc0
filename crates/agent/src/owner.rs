//! The mark in the run's folder: who made it, as `python/naslab/results/store/process.py` reads it, so that `naslab clean` finds
//! what a killed agent left.

use crate::texts::read;
use serde_json::{json, Value};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Digits of a machine id.
const MACHINE_ID_DIGITS: usize = 32;

/// The text of the mark.
pub fn mark(run_id: &str) -> String {
    let pid = std::process::id();
    json!({
        "naslab_run": run_id,
        "host": read("/proc/sys/kernel/hostname"),
        "machine": machine(),
        "boot_id": read("/proc/sys/kernel/random/boot_id"),
        "pid_namespace": std::fs::read_link("/proc/self/ns/pid").ok().map(|link| link.to_string_lossy().into_owned()),
        "pid": pid,
        "start_time": start_time(),
        "what": "made by naslab; `naslab clean` removes it when its run is gone",
    })
    .to_string()
}

/// This machine's id, hashed as machine-id(5) asks for.
fn machine() -> Option<String> {
    let found = ["/etc/machine-id", "/var/lib/dbus/machine-id"].iter().find_map(read)?;
    (found.len() == MACHINE_ID_DIGITS).then(|| hashed(&found))
}

fn hashed(id: &str) -> String {
    let mut text = String::new();
    for byte in &Sha256::digest(format!("naslab {id}").as_bytes())[..8] {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Of this process in clock ticks since boot: field 22 of its stat; the name before it may hold anything.
fn start_time() -> Value {
    let stat = read("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    fields.split_whitespace().nth(19).map_or(Value::Null, Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_names_run_and_process() {
        let mark: Value = serde_json::from_str(&mark("r-1")).unwrap();
        assert_eq!(mark["naslab_run"], "r-1");
        assert_eq!(mark["pid"], std::process::id());
        let started = mark["start_time"].as_str().is_some_and(|ticks| ticks.parse::<u64>().is_ok_and(|n| n > 0));
        assert!(started || !cfg!(target_os = "linux"));
    }

    #[test]
    fn a_machine_is_named_by_a_hash_of_its_id() {
        // python3 -c 'import hashlib; print(hashlib.sha256(b"naslab " + b"0" * 32).hexdigest()[:16])'
        assert_eq!(hashed(&"0".repeat(32)), "4dff86544d39844f");
    }
}
