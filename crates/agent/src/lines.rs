//! Events of a run as lines of JSON: `{"event": kind, "data": {...}}`, and of a cell its blobs in base64.

use crate::signals;
use base64::prelude::{Engine, BASE64_STANDARD};
use naslab_core::{Error, ErrorKind, Result};
use naslab_engine::{CellOutcome, Events, Progress};
use naslab_targets::seam;
use std::io::Write;

/// Writes each event when it comes. One that cannot be written ends the run.
pub struct Lines<W: Write> {
    out: W,
    progress: bool,
    /// Why a line was not written: nobody listens any more.
    pub unwritten: Option<String>,
}

impl<W: Write> Lines<W> {
    /// `progress`: also what comes during a cell.
    pub fn new(out: W, progress: bool) -> Lines<W> {
        Lines { out, progress, unwritten: None }
    }

    /// One line. `data` is JSON.
    pub fn write(&mut self, event: &str, data: &str, blobs: Option<&[Vec<u8>]>) -> Result<()> {
        let mut line = format!("{{\"event\":\"{event}\",\"data\":{data}");
        if let Some(blobs) = blobs {
            let texts: Vec<String> = blobs.iter().map(|blob| format!("\"{}\"", BASE64_STANDARD.encode(blob))).collect();
            line.push_str(&format!(",\"blobs\":[{}]", texts.join(",")));
        }
        line.push_str("}\n");
        let written = self.out.write_all(line.as_bytes()).and_then(|()| self.out.flush());
        written.map_err(|error| {
            let message = format!("the result cannot be written: {error}");
            self.unwritten.get_or_insert(message.clone());
            Error::new(ErrorKind::Io, "standard output", message)
        })
    }
}

impl<W: Write> Events for Lines<W> {
    fn before_cell(&mut self, id: u64) -> Result<bool> {
        self.write("before", &seam::before(id), None).map(|()| true)
    }

    fn progress(&mut self, progress: &Progress) {
        if let Some(json) = seam::progress(progress).ok().filter(|_| self.progress) {
            // What was not written ends the run through `interrupted`.
            let _ = self.write("progress", &json, None);
        }
    }

    fn cell(&mut self, outcome: CellOutcome) -> Result<()> {
        self.write("cell", &seam::cell(&outcome)?, Some(&outcome.blobs))
    }

    fn interrupted(&mut self) -> bool {
        self.unwritten.is_some() || signals::end_wanted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_object_with_its_blobs() {
        let mut lines = Lines::new(Vec::new(), false);
        lines.write("cell", r#"{"id":0}"#, Some(&[vec![0, 255], Vec::new()])).unwrap();
        lines.before_cell(7).unwrap();
        let text = String::from_utf8(lines.out).unwrap();
        let expected = "{\"event\":\"cell\",\"data\":{\"id\":0},\"blobs\":[\"AP8=\",\"\"]}\n\
                        {\"event\":\"before\",\"data\":{\"cell\":7}}\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_reader_who_has_gone_ends_the_run() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _bytes: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let mut lines = Lines::new(Gone, true);
        assert!(!lines.interrupted());
        assert!(lines.before_cell(0).is_err());
        assert!(lines.interrupted());
    }
}
