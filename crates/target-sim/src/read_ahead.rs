//! Pages of a file that a server asks its disk for before anyone has asked the server.

use std::collections::VecDeque;

/// Requests that are remembered: a reader's requests overtake each other, but not by more.
const KEPT: usize = 64;

/// Requests that were made ahead of a file's reader, in order: first page, the page behind the last, and when they are
/// there.
#[derive(Debug, Default)]
pub(crate) struct Ahead(VecDeque<(u64, u64, u64)>);

impl Ahead {
    /// The page behind the last that was asked for.
    pub(crate) fn end(&self) -> u64 {
        self.0.back().map_or(0, |last| last.1)
    }

    /// How many pages from `first` to `end` were asked for, and when they are there.
    pub(crate) fn of(&self, first: u64, end: u64) -> (u64, u64) {
        let end = end.min(self.end());
        if end <= first || self.0.front().is_some_and(|each| each.0 > first) {
            return (0, 0);
        }
        let last = self.0.partition_point(|each| each.1 < end);
        (end - first, self.0[last].2)
    }

    pub(crate) fn push(&mut self, first: u64, end: u64, there_ns: u64) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back((first, end, there_ns));
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
