//! Texts of the seam between who plans a run and the engine: docs/notes/0001-seams.md.

use naslab_core::{Error, ErrorKind, Result, Target};
use naslab_engine::{CellOutcome, CellSpec, Point, Progress};
use serde::de::DeserializeOwned;
use serde::Serialize;
use serde_json::{json, Value};
use std::collections::BTreeMap;

/// A specification, or the cells of a stage. Unknown names are refused. The error is a sentence.
pub fn read<T: DeserializeOwned>(text: &str) -> std::result::Result<T, String> {
    serde_json::from_str(text).map_err(|e| format!("run specification: {e}"))
}

/// The most operations in flight that any of the cells asks for.
pub fn depth(cells: &[CellSpec]) -> u32 {
    cells.iter().map(|cell| cell.queue_depth).max().unwrap_or(1)
}

/// What a target is and can do, and the room on it. Asks its server.
pub fn probe(target: &dyn Target) -> Result<Value> {
    let mut session = target.connect(0)?;
    // A file system of no size is one whose server does not say.
    let space = session
        .space()
        .ok()
        .filter(|s| s.total_bytes > 0)
        .map(|s| json!({"free_bytes": s.free_bytes, "total_bytes": s.total_bytes}));
    Ok(json!({
        "protocol": target.protocol(),
        "facts": facts(target),
        "space": space,
        "caps": crate::caps_json(&target.caps()),
    }))
}

/// How a stage or a run ended, with what is known of the target by then.
pub fn end(end: &impl Serialize, target: &dyn Target) -> Result<Value> {
    let mut end = serde_json::to_value(end).map_err(unwritten)?;
    end["facts"] = json!(facts(target));
    Ok(end)
}

/// The event `before`.
pub fn before(cell: u64) -> String {
    json!({ "cell": cell }).to_string()
}

/// The event `together`.
pub fn together(cell: u64, point: Point) -> String {
    json!({ "cell": cell, "point": point.name() }).to_string()
}

/// The event `progress`.
pub fn progress(progress: &Progress) -> Result<String> {
    serde_json::to_string(progress).map_err(unwritten)
}

/// The event `cell`; its blobs go beside it.
pub fn cell(outcome: &CellOutcome) -> Result<String> {
    serde_json::to_string(&outcome.result).map_err(unwritten)
}

fn facts(target: &dyn Target) -> BTreeMap<String, String> {
    target.facts().into_iter().collect()
}

fn unwritten(error: serde_json::Error) -> Error {
    Error::new(ErrorKind::Io, "event", error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use naslab_core::{
        Caps, Clock, Completion, DirEntry, FileId, FileStat, FlushKind, IoBuf, Op, OpenOptions, Session, Space, Submit,
        Token,
    };
    use naslab_engine::RunSpec;
    use std::time::Duration;

    #[test]
    fn an_unknown_name_is_refused_with_its_place() {
        let error = read::<RunSpec>("{\"schema\": 1,\n \"colour\": 2}").unwrap_err();
        assert!(error.starts_with("run specification: unknown field `colour`"), "{error}");
        assert!(error.contains("line 2"), "{error}");
    }

    /// A file system with so many bytes, of which half are free.
    struct Sized(u64);

    impl Target for Sized {
        fn protocol(&self) -> &'static str {
            "sized"
        }
        fn caps(&self) -> Caps {
            Caps::default()
        }
        fn clock(&self) -> Clock {
            Clock::real()
        }
        fn connect(&self, _worker: u32) -> Result<Box<dyn Session>> {
            Ok(Box::new(Sized(self.0)))
        }
    }

    /// Of a session that only tells of its space.
    fn nothing<T>() -> Result<T> {
        Err(Error::new(ErrorKind::Unsupported, "call", "not here"))
    }

    impl Session for Sized {
        fn open(&mut self, _: &str, _: &OpenOptions) -> Result<FileId> {
            nothing()
        }
        fn close(&mut self, _: FileId) -> Result<()> {
            nothing()
        }
        unsafe fn submit(&mut self, _: &Op, _: IoBuf, _: Token) -> Result<Submit> {
            nothing()
        }
        fn reap(&mut self, _: usize, _: Option<Duration>, _: &mut Vec<Completion>) -> Result<usize> {
            nothing()
        }
        fn flush(&mut self, _: FileId, _: FlushKind) -> Result<()> {
            nothing()
        }
        fn set_len(&mut self, _: FileId, _: u64) -> Result<()> {
            nothing()
        }
        fn stat(&mut self, _: &str) -> Result<FileStat> {
            nothing()
        }
        fn mkdir(&mut self, _: &str) -> Result<()> {
            nothing()
        }
        fn rmdir(&mut self, _: &str) -> Result<()> {
            nothing()
        }
        fn readdir(&mut self, _: &str) -> Result<Vec<DirEntry>> {
            nothing()
        }
        fn rename(&mut self, _: &str, _: &str) -> Result<()> {
            nothing()
        }
        fn remove(&mut self, _: &str) -> Result<()> {
            nothing()
        }
        fn space(&mut self) -> Result<Space> {
            Ok(Space { free_bytes: self.0 / 2, total_bytes: self.0 })
        }
    }

    #[test]
    fn a_file_system_of_no_size_is_one_that_does_not_say() {
        assert_eq!(probe(&Sized(0)).unwrap()["space"], Value::Null);
        assert_eq!(probe(&Sized(10)).unwrap()["space"], json!({"free_bytes": 5, "total_bytes": 10}));
    }

    #[test]
    fn a_target_is_probed_by_its_own_name() {
        let target = crate::parse(r#"{"protocol": "null", "options": {}}"#, 1).unwrap();
        let found = probe(&*target).unwrap();
        assert_eq!(found["protocol"], "null");
        assert_eq!(found["caps"]["keeps_data"], false);
    }
}
