//! What this machine is: as naslab.client.environment says it of a client that has Python.

use crate::texts::{bytes, field, read};
use naslab_engine::cpu_quota_cores;
use serde_json::{json, Value};
use std::path::Path;

/// Processors, memory, system and interfaces. What this system does not say is null.
pub fn describe() -> Value {
    let (usable, quota) = (usable_cores(), cpu_quota_cores(Path::new("/")));
    json!({
        "host": host(),
        "system": format!("{} {}", system(), read("/proc/sys/kernel/osrelease").unwrap_or_default()).trim_end(),
        "machine": std::env::consts::ARCH,
        "cpu": field("/proc/cpuinfo", "model name"),
        "cpus": processors(),
        "cpus_usable": usable,
        "cpu_quota_cores": quota,
        "cpu_limit_cores": quota.map_or(usable as f64, |cores| cores.min(usable as f64)),
        "memory_bytes": bytes("/proc/meminfo", "MemTotal"),
        "memory_available_bytes": bytes("/proc/meminfo", "MemAvailable"),
        "load_1min": read("/proc/loadavg").and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok()),
        "python": null,
        "interfaces": interfaces(Path::new("/sys/class/net")),
    })
}

/// The machine's name.
pub fn host() -> Option<String> {
    read("/proc/sys/kernel/hostname").or_else(|| std::env::var("COMPUTERNAME").ok())
}

fn system() -> &'static str {
    match std::env::consts::OS {
        "linux" => "Linux",
        "windows" => "Windows",
        "macos" => "Darwin",
        other => other,
    }
}

/// As affinity and control groups leave them.
fn usable_cores() -> usize {
    let allowed = field("/proc/self/status", "Cpus_allowed_list").map(|list| count(&list)).filter(|count| *count > 0);
    allowed.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Numbers in a list like `0-3,8`.
fn count(list: &str) -> usize {
    let number = |text: &str| text.trim().parse::<usize>().ok();
    let ranges = list.split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(number(last)?.checked_sub(number(first)?)? + 1)
    });
    ranges.sum()
}

/// Those that are switched on.
fn processors() -> Option<usize> {
    let online = read("/sys/devices/system/cpu/online").map(|list| count(&list)).filter(|count| *count > 0);
    online.or_else(|| std::thread::available_parallelism().ok().map(usize::from))
}

/// Those that are not down.
fn interfaces(root: &Path) -> Vec<Value> {
    let Ok(entries) = std::fs::read_dir(root) else { return Vec::new() };
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths.retain(|path| read(path.join("operstate")).as_deref() != Some("down"));
    let number = |path: &Path, name: &str| read(path.join(name))?.parse::<u64>().ok();
    let interface = |path: &Path| {
        json!({
            "name": path.file_name().map(|name| name.to_string_lossy()),
            "mtu_bytes": number(path, "mtu"),
            "speed_bits_per_s": number(path, "speed").filter(|speed| *speed > 0).map(|speed| speed * 1_000_000),
        })
    };
    paths.iter().map(|path| interface(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_counted_from_lists() {
        for (list, expected) in [("0", 1), ("0-3", 4), ("0-1,4,6-7", 5), ("", 0), ("3-1", 0), ("x", 0)] {
            assert_eq!(count(list), expected, "{list}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_machine_has_what_clients_have() {
        let found = describe();
        assert!(
            found["cpus"].as_u64() >= Some(1) && found["cpus_usable"].as_u64() <= found["cpus"].as_u64(),
            "{found}"
        );
        assert!(found["memory_bytes"].as_u64() > found["memory_available_bytes"].as_u64(), "{found}");
        assert!(found["system"].as_str().is_some_and(|name| name.starts_with("Linux ")), "{found}");
        assert!(
            found["interfaces"].as_array().is_some_and(|all| all.iter().any(|each| each["name"] == "lo")),
            "{found}"
        );
    }
}
