//! One run, from its specification to its last line.

use crate::lines::Lines;
use crate::options::Options;
use crate::{contained, os, owner, password, signals, texts};
use naslab_core::{limit, ErrorKind, Target};
use naslab_engine::{Left, Run, RunSpec, StageEnd};
use naslab_targets::{make, seam};
use serde_json::{json, Value};
use std::io::{Read, Stdout, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Nothing was measured.
const REFUSED: u8 = 2;
const FAILED: u8 = 1;
/// As shells say of a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;
/// A specification is never longer: hundreds of thousands of cells.
const MAX_SPEC_BYTES: u64 = 256 << 20;

/// Says why nothing is measured.
pub fn refused(message: &str) -> ExitCode {
    complain(message);
    ExitCode::from(REFUSED)
}

fn complain(message: &str) {
    // A standard error that is closed is no reason to end.
    let _ = writeln!(std::io::stderr(), "naslab-agent: {message}");
}

/// Carries a run out; the exit code. `given`: the environment's password.
pub fn run(options: &Options, given: Option<String>) -> ExitCode {
    let prepared = read(options, given).and_then(|(spec, asked)| {
        os::listen();
        let probed = probe(&spec)?;
        let target = make(&spec.target, seam::depth(&spec.cells)).map_err(|error| error.to_string())?;
        let run = Run::open(&spec, &target, &owner::mark(&spec.run_id)).map_err(|error| error.to_string())?;
        let begin = json!({"schema": spec.schema, "agent": env!("CARGO_PKG_VERSION"), "run_id": spec.run_id,
            "folder": spec.folder, "seed": spec.seed, "target": probed, "spec": asked});
        Ok((spec, target, begin, run))
    });
    match prepared {
        Ok((spec, target, begin, run)) => measure(options, &spec, &target, &begin, run),
        Err(_) if signals::end_wanted() => ExitCode::from(INTERRUPTED),
        Err(message) => refused(&message),
    }
}

/// The specification, checked, with the password; and as it was given, without one.
fn read(options: &Options, given: Option<String>) -> Result<(RunSpec, Value), String> {
    let mut text = String::new();
    let (what, input): (String, Box<dyn Read>) = match &options.spec {
        Some(path) => {
            let fail = |error| format!("{}: {error}; name a specification, or - for standard input", path.display());
            (path.display().to_string(), Box::new(std::fs::File::open(path).map_err(fail)?))
        }
        None => ("standard input".to_string(), Box::new(std::io::stdin())),
    };
    input.take(MAX_SPEC_BYTES + 1).read_to_string(&mut text).map_err(|error| format!("{what}: {error}"))?;
    if text.len() as u64 > MAX_SPEC_BYTES {
        return Err(format!("{what}: longer than a specification can be"));
    }
    let mut spec: RunSpec = seam::read(&text).map_err(|message| format!("{what}: {message}"))?;
    contained::contain(&mut spec).map_err(|message| format!("{what}: {message}"))?;
    let asked = without_password(&text).map_err(|error| format!("{what}: {error}"))?;
    let named = options.password_fd.map(password::of_descriptor).transpose()?;
    if let Some(found) = named.or(given) {
        password::put(&mut spec.target, found, options.password_fd)?;
    }
    Ok((spec, asked))
}

/// The specification for whoever reads the lines.
fn without_password(text: &str) -> serde_json::Result<Value> {
    let mut asked: Value = serde_json::from_str(text)?;
    if let Some(options) = asked["target"]["options"].as_object_mut() {
        options.remove("password");
    }
    Ok(asked)
}

/// What the target says of itself. It is made for that alone: asking a simulated server takes simulated time.
fn probe(spec: &RunSpec) -> Result<Value, String> {
    let timeout = Duration::from_nanos(spec.timeout_ns);
    let probed = limit::capped(timeout, || {
        limit::watched(signals::end_wanted, || seam::probe(&*make(&spec.target, seam::depth(&spec.cells))?))
    });
    let probed = probed.map_err(|error| error.to_string())?;
    contained::check_room(&spec.cells, &probed)?;
    Ok(probed)
}

/// Measures, with a line for each event. `begin`: the first of them.
fn measure(options: &Options, spec: &RunSpec, target: &Arc<dyn Target>, begin: &Value, mut run: Run) -> ExitCode {
    let mut lines = Lines::new(std::io::stdout(), options.progress);
    let begun = lines.write("begin", &begin.to_string(), None);
    let outcome = begun.and_then(|()| run.stage(&spec.cells, &mut lines));
    let left = run.finish(&mut lines);
    let (end, code) = match outcome {
        Ok(end) => {
            let why = end.error.iter().chain(end.refused.values().take(1));
            why.filter(|_| lines.unwritten.is_none()).for_each(|error| complain(&error.to_string()));
            told(&end, &**target)
        }
        Err(error) => {
            complain(&error.to_string());
            let code = if error.kind == ErrorKind::Interrupted { INTERRUPTED } else { REFUSED };
            (json!({"status": "failed", "error": error.told()}), code)
        }
    };
    finish(&mut lines, end, &left, code)
}

/// How the stage ended, and the exit code.
fn told(end: &StageEnd, target: &dyn Target) -> (Value, u8) {
    let code = match end.status {
        "complete" => 0,
        "interrupted" => INTERRUPTED,
        _ => FAILED,
    };
    let told = seam::end(end, target).unwrap_or_else(|error| json!({"status": "failed", "error": error.told()}));
    (told, code)
}

/// The last line.
fn finish(lines: &mut Lines<Stdout>, mut end: Value, left: &[Left], code: u8) -> ExitCode {
    for path in left {
        complain(&format!("left on the target: {path}; look at it, then run `naslab clean` on the target"));
    }
    end["left_behind"] = json!(left);
    end["memory_peak_bytes"] = json!(texts::bytes("/proc/self/status", "VmHWM"));
    // Even where an earlier line was not written: a file system may have room again.
    let _ = lines.write("end", &end.to_string(), None);
    if let Some(message) = lines.unwritten.take() {
        complain(&message);
        return ExitCode::from(FAILED);
    }
    ExitCode::from(code)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A small run on a simulated server, changed in some parts.
    pub fn spec(change: Value) -> RunSpec {
        let mut text: Value = serde_json::from_str(include_str!("../tests/sim.json")).unwrap();
        for (name, value) in change.as_object().unwrap() {
            text[name] = value.clone();
        }
        seam::read(&text.to_string()).unwrap()
    }

    #[test]
    fn the_specification_is_told_without_a_password() {
        let text = r#"{"target":{"protocol":"smb","options":{"host":"nas","password":"Wachtwoord-4711"}},"seed":7}"#;
        let told = without_password(text).unwrap();
        assert_eq!(told, json!({"target": {"protocol": "smb", "options": {"host": "nas"}}, "seed": 7}));
    }
}
