//! The program as it is started: what it reads, writes, touches and leaves. For Windows: tests/packages.

#![cfg(target_os = "linux")]

use serde_json::{json, Value};
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

fn agent(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_naslab-agent"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env_remove("NASLAB_PASSWORD");
    command
}

/// The small run of sim.json, changed in some parts.
fn spec(change: &Value) -> Value {
    let mut text: Value = serde_json::from_str(include_str!("sim.json")).unwrap();
    for (name, value) in change.as_object().unwrap() {
        text[name] = value.clone();
    }
    text
}

fn fed(mut command: Command, text: &str) -> Output {
    let mut child = command.spawn().unwrap();
    // A program that refuses its arguments reads nothing.
    let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
    child.wait_with_output().unwrap()
}

fn lines(output: &Output) -> Vec<Value> {
    output.stdout.split(|b| *b == b'\n').filter(|line| !line.is_empty()).map(parsed).collect()
}

fn parsed(line: &[u8]) -> Value {
    serde_json::from_slice(line).unwrap()
}

fn complaint(output: &Output) -> String {
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn local(root: &Path, change: &Value) -> Value {
    let mut text = spec(&json!({"target": {"protocol": "local", "options": {"root": root}}}));
    for (name, value) in change.as_object().unwrap() {
        text[name] = value.clone();
    }
    text
}

fn entries(root: &Path) -> Vec<String> {
    std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_simulated_run_is_the_same_every_time() {
    let text = spec(&json!({})).to_string();
    let (first, second) = (fed(agent(&["run"]), &text), fed(agent(&["run", "-"]), &text));
    assert_eq!(first.status.code(), Some(0), "{}", String::from_utf8_lossy(&first.stderr));
    let (first, second) = (lines(&first), lines(&second));
    let kinds: Vec<&str> = first.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["begin", "before", "cell", "before", "cell", "end"]);
    assert_eq!(first[0]["data"]["target"]["protocol"], "sim");
    assert_eq!(first[0]["data"]["spec"], spec(&json!({})), "who reads the lines knows what was asked");
    assert_eq!(first[5]["data"]["status"], "complete");
    assert_eq!(first[5]["data"]["left_behind"], json!([]));
    for at in [2, 4] {
        for name in ["start_ns", "end_ns", "window_ns", "bytes", "ops", "kinds", "workers"] {
            assert_eq!(first[at]["data"][name], second[at]["data"][name], "{name}");
        }
        assert_eq!(first[at]["blobs"], second[at]["blobs"]);
    }
    assert_eq!(first[4]["data"]["ops"], 500);
}

#[test]
fn a_folder_is_as_it_was_before() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("mine"), "kept").unwrap();
    let file = root.path().join("spec.json");
    std::fs::write(&file, local(root.path(), &json!({})).to_string()).unwrap();
    let done = agent(&["run", file.to_str().unwrap()]).output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(lines(&done)[2]["data"]["bytes"], 1 << 20);
    std::fs::remove_file(file).unwrap();
    assert_eq!(entries(root.path()), ["mine"]);
    assert_eq!(std::fs::read_to_string(root.path().join("mine")).unwrap(), "kept");
}

#[test]
fn files_beyond_the_folder_are_not_touched() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("mine"), "kept").unwrap();
    for name in ["../mine", "../../mine", "/etc/mine"] {
        let mut text = local(root.path(), &json!({}));
        for cell in text["cells"].as_array_mut().unwrap() {
            cell["files"] = json!([name]);
        }
        text["cleanup_files"] = json!([name]);
        let done = fed(agent(&["run"]), &text.to_string());
        assert_ne!(done.status.code(), Some(0), "{name}");
        assert_eq!(entries(root.path()), ["mine"], "{name}");
        assert_eq!(std::fs::read_to_string(root.path().join("mine")).unwrap(), "kept");
    }
}

#[test]
fn what_is_wrong_is_named_and_nothing_is_written() {
    let root = tempfile::tempdir().unwrap();
    let missing = root.path().join("missing");
    let cases = [
        (vec!["run"], "{".to_string(), "standard input: run specification: EOF"),
        (vec!["run"], spec(&json!({"colour": 1})).to_string(), "unknown field `colour`"),
        (vec!["run"], spec(&json!({"schema": 9})).to_string(), "version 9 is not 1"),
        (vec!["run"], spec(&json!({"folder": null})).to_string(), "folder null"),
        (vec!["run"], local(&missing, &json!({})).to_string(), "missing"),
        (
            vec!["run"],
            spec(&json!({"target": {"protocol": "ftp", "options": {}}})).to_string(),
            "unknown variant `ftp`",
        ),
        (vec!["run", "no-such.json"], String::new(), "no-such.json: No such file"),
        (vec!["run", "--password-fd", "77"], spec(&json!({})).to_string(), "--password-fd 77: that descriptor"),
        (vec!["walk"], String::new(), "walk: no such command"),
    ];
    for (arguments, text, named) in cases {
        let done = fed(agent(&arguments), &text);
        let told = complaint(&done);
        assert_eq!(done.status.code(), Some(2), "{arguments:?}: {told}");
        assert!(told.starts_with("naslab-agent: ") && told.contains(named), "{arguments:?}: {told}");
    }
    assert!(entries(root.path()).is_empty());
}

#[test]
fn a_plan_larger_than_the_target_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let mut text = local(root.path(), &json!({}));
    text["cells"][0]["file_bytes"] = json!(1u64 << 60);
    let done = fed(agent(&["run"]), &text.to_string());
    assert_eq!(done.status.code(), Some(2));
    assert!(complaint(&done).contains("the plan needs"));
    assert!(entries(root.path()).is_empty());
}

#[test]
fn a_password_is_never_told() {
    let secret = "Wachtwoord-4711";
    let mut command = agent(&["run"]);
    command.env("NASLAB_PASSWORD", secret);
    // No server listens there: the login's own words, and nothing else, may be in what is said.
    let options = json!({"host": "127.0.0.1", "port": 1, "share": "s", "user": "u", "timeout_ns": 2_000_000_000u64});
    let done = fed(command, &spec(&json!({"target": {"protocol": "smb", "options": options}})).to_string());
    assert_eq!(done.status.code(), Some(2));
    assert!(complaint(&done).contains("connect"));
    assert!(!complaint(&done).contains(secret));
}

/// A run under way that reads on and on, for an hour is never over; and what it tells.
fn endless(root: &Path) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut text = local(root, &json!({}));
    text["cells"][1]["stop_ops"] = Value::Null;
    text["cells"][1]["duration_ns"] = json!(3_600_000_000_000u64);
    text["cells"][1]["queue_depth"] = json!(1);
    let mut child = agent(&["run", "--progress"]).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.to_string().as_bytes()).unwrap();
    let told = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, told)
}

#[test]
fn a_signal_ends_the_run_and_what_was_measured_is_written() {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        let root = tempfile::tempdir().unwrap();
        let (mut child, mut told) = endless(root.path());
        let under_way = |line: &Value| line["event"] == "progress" && line["data"]["cell"] == 1;
        assert!(told.by_ref().any(|line| under_way(&parsed(line.unwrap().as_bytes()))));
        assert_eq!(entries(root.path()), ["naslab-20261127-000000-abcd"]);
        // SAFETY: the child was not waited for, so that its number is still its own.
        assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
        let rest: Vec<Value> = told.map(|line| parsed(line.unwrap().as_bytes())).collect();
        assert_eq!(child.wait().unwrap().code(), Some(130));
        let cell = rest.iter().find(|line| line["event"] == "cell").unwrap();
        assert_eq!(cell["data"]["status"], "partial");
        assert!(cell["data"]["ops"].as_u64().unwrap() > 0);
        assert_eq!(rest.last().unwrap()["data"]["status"], "interrupted");
        assert!(entries(root.path()).is_empty());
    }
}

#[test]
fn a_reader_who_goes_ends_the_run_and_nothing_is_left() {
    let root = tempfile::tempdir().unwrap();
    let (child, mut told) = endless(root.path());
    assert!(told.next().unwrap().unwrap().contains("\"begin\""));
    drop(told);
    let done = child.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    assert!(String::from_utf8(done.stderr).unwrap().contains("the result cannot be written"));
    assert!(entries(root.path()).is_empty());
}

#[test]
fn help_and_version_are_told() {
    let help = agent(&["--help"]).output().unwrap();
    assert_eq!(help.status.code(), Some(0));
    let text = String::from_utf8(help.stdout).unwrap();
    assert!(["SPEC.json", "--progress", "--password-fd", "NASLAB_PASSWORD", "130"]
        .iter()
        .all(|each| text.contains(each)));
    let version = agent(&["--version"]).output().unwrap();
    assert_eq!(String::from_utf8(version.stdout).unwrap(), format!("naslab-agent {}\n", env!("CARGO_PKG_VERSION")));
}
