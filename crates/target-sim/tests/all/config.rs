//! The configuration: what is refused, and that the reference page tells all of it.

use crate::common::target;
use naslab_core::ErrorKind;
use naslab_target_sim::{
    AppliesTo, BucketConfig, BucketScope, FaultConfig, FaultKind, FaultOp, FaultScope, FileConfig, SimConfig, SimTarget,
};
use serde_json::Value;

const PAGE: &str = include_str!("../../../../docs/reference/sim.md");

/// The cells of the table row of a field: name, unit, default, meaning.
fn row(section: &str, field: &str) -> Vec<String> {
    let start = PAGE.find(&format!("## {section}\n")).expect("the section exists");
    let body = &PAGE[start + 3..];
    let body = &body[..body.find("\n## ").unwrap_or(body.len())];
    let line = body.lines().find(|l| l.starts_with(&format!("| `{field}` |")));
    let line = line.unwrap_or_else(|| panic!("{field} is missing from section {section}"));
    let cells = line.trim_matches('|').split('|');
    cells.map(|cell| cell.trim().to_owned()).collect()
}

fn check_section(section: &str, defaults: &Value) {
    for (field, default) in defaults.as_object().unwrap() {
        let cells = row(section, field);
        assert_eq!(cells.len(), 4, "{field}: name, unit, default, meaning");
        let shown = match default {
            Value::Null => "none".to_owned(),
            Value::Array(items) if items.is_empty() => "none".to_owned(),
            Value::String(text) => format!("{text:?}"),
            other => other.to_string(),
        };
        assert_eq!(cells[2].trim_matches('`'), shown, "default of {field}");
        assert!(cells[3].len() > 10, "{field} has no meaning");
        let unit_in_name = [("_ns", "ns"), ("_bytes", "bytes"), ("_bytes_per_s", "bytes/s")];
        for (suffix, unit) in unit_in_name {
            if field.ends_with(suffix) {
                assert_eq!(cells[1], unit, "unit of {field}");
            }
        }
    }
}

#[test]
fn the_page_lists_every_field_with_its_default() {
    let json = |v: Result<Value, serde_json::Error>| v.unwrap();
    check_section("Server", &json(serde_json::to_value(SimConfig::default())));
    check_section("Buckets", &json(serde_json::to_value(BucketConfig::default())));
    check_section("Faults", &json(serde_json::to_value(FaultConfig::default())));
    check_section("Files", &json(serde_json::to_value(FileConfig::default())));
}

#[test]
fn the_page_lists_every_choice() {
    let choices = [
        serde_json::to_value([AppliesTo::Read, AppliesTo::Write, AppliesTo::Both]),
        serde_json::to_value([BucketScope::Disk, BucketScope::Link]),
        serde_json::to_value([FaultOp::Read, FaultOp::Write, FaultOp::Flush, FaultOp::Any]),
        serde_json::to_value([FaultScope::Session, FaultScope::All]),
        serde_json::to_value([
            FaultKind::Error,
            FaultKind::Stall,
            FaultKind::Disconnect,
            FaultKind::Enospc,
            FaultKind::Short,
            FaultKind::Corrupt,
            FaultKind::Freeze,
        ]),
    ];
    for choice in choices.iter().flat_map(|c| c.as_ref().unwrap().as_array().unwrap()) {
        let name = format!("`{}`", choice.as_str().unwrap());
        assert!(PAGE.contains(&name), "{name} is missing");
    }
}

#[test]
fn the_examples_of_the_page_are_valid_and_the_field_names_exist() {
    let examples: Vec<&str> = PAGE.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(examples.len() >= 2);
    for example in examples {
        let config: SimConfig = toml::from_str(example).unwrap_or_else(|e| panic!("{e}"));
        target(config);
    }
}

#[test]
fn an_unknown_field_is_refused() {
    let err = toml::from_str::<SimConfig>("link_bytes = 5").unwrap_err();
    assert!(err.to_string().contains("link_bytes"), "{err}");
}

#[test]
fn the_default_is_valid_and_empty_text_is_the_default() {
    SimConfig::default().validate().unwrap();
    assert_eq!(toml::from_str::<SimConfig>("").unwrap(), SimConfig::default());
}

/// Every rule: a text that breaks it, the field and the value that the message names.
#[test]
fn bad_values_are_refused_by_name_and_value() {
    let cases = [
        ("max_depth = 0", "max_depth = 0"),
        ("max_depth = 65537", "max_depth = 65537"),
        ("latency_ns = 5\njitter = -0.5", "jitter = -0.5"),
        ("latency_ns = 5\njitter = nan", "jitter = NaN"),
        ("jitter = 0.5", "jitter = 0.5"),
        ("latency_ns = 1000000000000001", "latency_ns = 1000000000000001"),
        ("link_bytes_per_s = 1000000000000001", "link_bytes_per_s = 1000000000000001"),
        ("write_back_bytes = 1125899906842625", "write_back_bytes = 1125899906842625"),
        ("page_bytes = 1000", "page_bytes = 1000"),
        ("page_bytes = 256", "page_bytes = 256"),
        ("server_cache_bytes = 4095", "server_cache_bytes = 4095"),
        ("client_cache_bytes = 8796093022208", "client_cache_bytes = 8796093022208"),
        ("op_overhead_ns = 0", "op_overhead_ns = 0"),
        ("op_overhead_ns = 0\nlatency_ns = 5\nclient_cache_bytes = 4096", "client_cache_bytes = 4096"),
        ("client_write_back_bytes = 1", "client_write_back_bytes = 1"),
        ("server_read_ahead_bytes = 1", "server_read_ahead_bytes = 1"),
        ("server_reads_ahead_early = true", "server_reads_ahead_early = true"),
        ("disk_iops = 5\ndisk_noise = 0.1", "disk_noise = 0.1"),
        ("disk_read_bytes_per_s = 5\ndisk_noise = 0.4", "disk_noise = 0.4"),
        ("link_noise = 0.1", "link_noise = 0.1"),
        ("stall_every_ns = 5", "stall_ns = 0"),
        ("stall_ns = 5", "stall_ns = 5"),
        ("stall_every_ns = 5\nstall_ns = 5", "stall_ns = 5"),
        ("file_lock_ns = 1000000000000001", "file_lock_ns = 1000000000000001"),
        ("noise_memory = 1.0", "noise_memory = 1"),
        ("noise_span_ns = 5", "noise_span_ns = 5"),
        ("slc_bytes = 5", "slc_full_bytes_per_s = 0"),
        ("slc_full_bytes_per_s = 5", "slc_full_bytes_per_s = 5"),
        ("heat_busy_ns = 5\nheat_idle_ns = 5", "heat_busy_ns = 5"),
        ("heat_busy_ns = 5\ndisk_read_bytes_per_s = 5", "heat_idle_ns = 0"),
        ("heat_floor = 0.0", "heat_floor = 0"),
        ("heat_step = 1.0", "heat_step = 1"),
        ("[[buckets]]\nburst_bytes_per_s = 5\nsize_bytes = 5", "buckets[0].base_bytes_per_s = 0"),
        (
            "[[buckets]]\nburst_bytes_per_s = 5\nbase_bytes_per_s = 5\nsize_bytes = 5",
            "buckets[0].burst_bytes_per_s = 5",
        ),
        ("[[buckets]]\nburst_bytes_per_s = 5\nbase_bytes_per_s = 1", "buckets[0].size_bytes = 0"),
        (
            "[[buckets]]\nburst_bytes_per_s = 5\nbase_bytes_per_s = 1\nsize_bytes = 5\ninitial_fill = 1.5",
            "buckets[0].initial_fill = 1.5",
        ),
        ("[[faults]]\nkind = 'short'", "faults[0].at_op = none"),
        ("[[faults]]\nat_op = 1\nprobability = 0.5", "faults[0].at_op = 1"),
        ("[[faults]]\nprobability = 2.0", "faults[0].probability = 2"),
        ("[[faults]]\nat_op = 1\nkind = 'stall'", "faults[0].duration_ns = 0"),
        ("[[faults]]\nat_op = 1\nduration_ns = 5", "faults[0].duration_ns = 5"),
        ("[[faults]]\nat_op = 1\nerrno = 0", "faults[0].errno = 0"),
        ("[[faults]]\nat_op = 1\nkind = 'short'\nerrno = 13", "faults[0].errno = 13"),
        ("[[faults]]\nat_op = 1\nscope = 'all'", "faults[0].scope = all"),
        ("[[faults]]\nat_op = 1\nkind = 'corrupt'", "faults[0].kind = corrupt"),
        ("[[faults]]\nat_op = 1\nkind = 'short'\nop = 'flush'", "faults[0].op = flush"),
        ("[[files]]\nlen_bytes = 5", "files[0].path = "),
        ("capacity_bytes = 5\n[[files]]\npath = 'f'\nlen_bytes = 6", "capacity_bytes = 5"),
    ];
    for (text, named) in cases {
        let config: SimConfig = toml::from_str(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let Err(err) = config.validate() else {
            panic!("accepted: {text}");
        };
        assert_eq!(err.kind, ErrorKind::Invalid, "{text}");
        let message = err.to_string();
        assert!(message.contains(&format!("{named}: ")), "{text}: {message}");
        assert!(SimTarget::new(config).is_err(), "{text}");
    }
}

#[test]
fn files_that_clash_are_refused() {
    let text = "[[files]]\npath = 'a'\n[[files]]\npath = 'a/b'";
    assert!(SimTarget::new(toml::from_str(text).unwrap()).is_err());
    let text = "[[files]]\npath = 'a/../b'";
    let config: SimConfig = toml::from_str(text).unwrap();
    assert!(config.validate().is_err());
}
