//! What a specification may ask of the agent: work in one folder of its own, with room for it.

use naslab_core::RUN_FOLDER_PREFIX;
use naslab_engine::{CellSpec, Existing, RunSpec, FILE_PREFIX};
use serde_json::Value;
use std::collections::BTreeMap;

/// Longest name of a folder.
const MAX_NAME_BYTES: usize = 200;

/// Gives a specification's folder its name, and refuses what would reach beyond it. The error is a sentence.
pub fn contain(spec: &mut RunSpec) -> Result<(), String> {
    if spec.run_id.is_empty() {
        return Err("run_id \"\": give the run a name of its own".to_string());
    }
    if spec.cells.is_empty() {
        return Err("cells []: there is nothing to measure; name at least one".to_string());
    }
    if spec.folder.as_deref() == Some("") {
        spec.folder = Some(format!("{RUN_FOLDER_PREFIX}{}", spec.run_id));
    }
    check_client(spec)?;
    if spec.together || spec.join_folder {
        return Err("together, join_folder: the agent is the only client of its run; leave them out".to_string());
    }
    Ok(())
}

/// Refuses what would reach beyond one folder of naslab's own, for a client of many, too. The error is a sentence.
pub fn check_client(spec: &RunSpec) -> Result<(), String> {
    let Some(folder) = &spec.folder else {
        return Err("folder null: the agent measures in a folder of its own only; give \"\" for one".to_string());
    };
    check_folder(folder)?;
    if spec.existing != Existing::Refuse {
        return Err("existing: the agent touches no file that was there before; give \"refuse\"".to_string());
    }
    Ok(())
}

/// Refuses a folder that is none of naslab's, or lies deeper. The error is a sentence.
pub fn check_folder(folder: &str) -> Result<(), String> {
    if folder.starts_with(RUN_FOLDER_PREFIX) && is_plain(folder) {
        return Ok(());
    }
    Err(format!(
        "folder {folder:?}: give one name that begins with {RUN_FOLDER_PREFIX} and has only letters, digits, '-', '_' \
         and '.'"
    ))
}

/// Refuses a file that is none of naslab's, or lies deeper. The error is a sentence.
pub fn check_name(name: &str) -> Result<(), String> {
    if name.starts_with(FILE_PREFIX) && is_plain(name) {
        return Ok(());
    }
    Err(format!("file {name:?}: give one name that begins with {FILE_PREFIX}"))
}

fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.chars().all(plain) && name.len() <= MAX_NAME_BYTES
}

/// Refuses a plan that has no room on the target. The error is a sentence.
pub fn check_room(cells: &[CellSpec], probed: &Value) -> Result<(), String> {
    let Some(free) = probed["space"]["free_bytes"].as_u64() else { return Ok(()) };
    // As naslab.execution.execute.SPACE_FACTOR.
    let needed = needed_bytes(cells).saturating_mul(6) / 5;
    if needed <= free {
        return Ok(());
    }
    Err(format!(
        "the plan needs {needed} bytes (1.2 times its files), the target has {free} free: choose smaller files or free \
         some space"
    ))
}

/// What the files that cells write come to take up.
fn needed_bytes(cells: &[CellSpec]) -> u64 {
    let (mut files, mut scripts) = (BTreeMap::<&str, u64>::new(), 0u64);
    for cell in cells.iter().filter(|cell| cell.writes() || cell.prime) {
        if cell.script.is_some() {
            scripts = scripts.max(cell.file_bytes);
        }
        for name in &cell.files {
            let known = files.entry(name).or_default();
            *known = (*known).max(cell.file_bytes);
        }
    }
    files.values().fold(scripts, |sum, bytes| sum.saturating_add(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::spec;
    use serde_json::json;

    #[test]
    fn an_unnamed_folder_gets_the_runs_name() {
        let mut made = spec(json!({"folder": "", "run_id": "r1"}));
        contain(&mut made).unwrap();
        assert_eq!(made.folder.as_deref(), Some("naslab-r1"));
    }

    #[test]
    fn what_reaches_beyond_the_folder_is_refused() {
        for (change, named) in [
            (json!({"folder": null}), "folder null"),
            (json!({"folder": "data"}), "folder \"data\""),
            (json!({"folder": "naslab-x/../data"}), "folder \"naslab-x/../data\""),
            (json!({"folder": "", "run_id": "../data"}), "folder \"naslab-../data\""),
            (json!({"folder": "naslab-\u{0}"}), "folder \"naslab-\\0\""),
            (json!({"existing": "overwrite"}), "existing"),
            (json!({"existing": "read"}), "existing"),
            (json!({"together": true}), "together"),
            (json!({"join_folder": true}), "together"),
            (json!({"cells": []}), "cells []"),
            (json!({"run_id": ""}), "run_id"),
        ] {
            let message = contain(&mut spec(change.clone())).unwrap_err();
            assert!(message.starts_with(named), "{change}: {message}");
        }
    }

    #[test]
    fn a_client_of_many_stays_in_the_runs_folder() {
        let made = spec(json!({"folder": "naslab-r1-c2", "together": true, "join_folder": true}));
        assert_eq!(check_client(&made), Ok(()));
        assert!(check_client(&spec(json!({"folder": "data"}))).unwrap_err().starts_with("folder \"data\""));
        assert!(check_client(&spec(json!({"folder": "naslab-r1", "existing": "read"})))
            .unwrap_err()
            .starts_with("existing"));
        assert_eq!(check_name("naslab.client3"), Ok(()));
        assert!(check_name("naslab./../../x").unwrap_err().starts_with("file"));
    }

    #[test]
    fn room_is_needed_once_for_each_file_that_is_written() {
        let made = spec(json!({}));
        let mut two = [made.cells[0].clone(), made.cells[0].clone()];
        assert_eq!(needed_bytes(&two), 1 << 20);
        two[1].files = vec!["other".to_string()];
        assert_eq!(needed_bytes(&two), 2 << 20);
        let room = |free: u64| check_room(&two, &json!({"space": {"free_bytes": free}}));
        assert!(room((2 << 20) * 6 / 5).is_ok());
        assert!(room((2 << 20) * 6 / 5 - 1).unwrap_err().starts_with("the plan needs 2516582 bytes"));
        assert!(check_room(&two, &json!({"space": null})).is_ok(), "a server that does not say");
    }
}
