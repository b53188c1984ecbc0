//! What whoever started `naslab-agent serve` asks of it, one JSON object a line, and the lines it answers with.
//!
//! `{"id": 3, "ask": "probe", ...}` is answered by `{"id": 3, "reply": {...}}` or `{"id": 3, "error": {...}}`; the
//! events of a stage come in between, as those of `run` do. naslab.execution.clients.far is the other end.

use crate::lines::Lines;
use naslab_core::{Error, ErrorKind};
use serde::Deserialize;
use serde_json::{json, Value};
use std::io::{Result, Stdout, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// One line of standard input.
#[derive(Debug, Deserialize)]
pub struct Request {
    pub id: u64,
    #[serde(flatten)]
    pub ask: Ask,
}

/// What is asked. Paths lie below the target's root.
#[derive(Debug, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Ask {
    /// Who and where this agent is.
    Describe,
    /// Two times of its clock; also the sign of life that it waits for.
    Clock,
    /// What the target is, and the room on it.
    Probe { target: Value, depth: u32 },
    /// Makes a marked folder.
    Mark { target: Value, folder: String, mark: String },
    /// Whether a marked folder is seen here, and files can be made in it: one of this name is.
    Sees { target: Value, folder: String, name: String },
    /// Removes a marked folder.
    Unmark { target: Value, folder: String },
    /// Begins a run; touches nothing.
    Open { spec: Value, mark: String, depth: u32 },
    /// Keeps a script, in base64; where it lies, for a cell's `script.path`.
    Script { data: String },
    /// Carries out cells.
    Stage { cells: Value },
    /// The clients that a cell waits for are there: go on at this time of the clock.
    Go { at_ns: u64 },
    /// Ends the stage under way.
    Interrupt,
    /// Removes what the run made.
    Finish,
}

/// Standard output for several threads: a line is written whole.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<Stdout>>);

impl Shared {
    pub fn stdout() -> Shared {
        Shared(Arc::new(Mutex::new(std::io::stdout())))
    }

    /// Answers a request. Nobody who listens is told by the end of standard input.
    pub fn answer(&self, id: u64, outcome: &naslab_core::Result<Value>) {
        let line = match outcome {
            Ok(reply) => json!({"id": id, "reply": reply}),
            Err(error) => json!({"id": id, "error": told(error)}),
        };
        let _ = self.clone().write_all(format!("{line}\n").as_bytes());
    }

    /// For the events of a stage.
    pub fn lines(&self) -> Lines<Shared> {
        Lines::new(self.clone(), true)
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let mut out = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_all(bytes)?;
        out.flush()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// An error as the clients of a run hand it on; the classes of python/naslab/errors.py, as crates/py names them.
fn told(error: &Error) -> Value {
    let class = if error.kind.is_of_request() { "UsageError" } else { "TargetError" };
    json!({
        "class": class,
        "message": error.to_string(),
        "kind": error.kind.name(),
        "status": error.status,
        "space": error.kind == ErrorKind::NoSpace,
        "failure": error.told(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_a_line() {
        let read = |text: &str| serde_json::from_str::<Request>(text);
        let clock = read(r#"{"id": 7, "ask": "clock"}"#).unwrap();
        assert!(clock.id == 7 && matches!(clock.ask, Ask::Clock));
        let probe = read(r#"{"id": 8, "ask": "probe", "target": {"protocol": "null"}, "depth": 4}"#).unwrap();
        assert!(matches!(probe.ask, Ask::Probe { depth: 4, .. }));
        assert!(read(r#"{"id": 9, "ask": "reboot"}"#).unwrap_err().to_string().contains("unknown variant `reboot`"));
        assert!(read(r#"{"id": 9, "ask": "go"}"#).unwrap_err().to_string().contains("at_ns"));
    }

    #[test]
    fn errors_have_the_classes_of_python() {
        for (kind, class, space) in [
            (ErrorKind::Invalid, "UsageError", false),
            (ErrorKind::NoSpace, "TargetError", true),
            (ErrorKind::Disconnected, "TargetError", false),
        ] {
            let found = told(&Error::new(kind, "open", "why"));
            assert_eq!((found["class"].as_str(), found["space"].as_bool()), (Some(class), Some(space)));
            assert_eq!(found["kind"], kind.name());
        }
    }
}
