//! Pages of a file that are on their way from the disk before anyone has asked for them.

use std::collections::VecDeque;

/// Requests that were made ahead of a file's reader, in order: the page behind each, and when its pages are there.
#[derive(Debug, Default)]
pub(crate) struct Ahead(VecDeque<(u64, u64)>);

impl Ahead {
    /// The page behind the last that is on its way.
    pub(crate) fn end(&self) -> u64 {
        self.0.back().map_or(0, |last| last.0)
    }

    /// When the pages before `end` are there, of those that are on their way; 0 if none of them is.
    pub(crate) fn there_ns(&self, end: u64) -> u64 {
        let holds = self.0.partition_point(|each| each.0 < end);
        self.0.get(holds).or(self.0.back()).map_or(0, |each| each.1)
    }

    pub(crate) fn push(&mut self, end: u64, there_ns: u64) {
        self.0.push_back((end, there_ns));
    }

    /// The reader has come to this page, and needs nothing before it.
    pub(crate) fn forget_before(&mut self, page: u64) {
        let passed = self.0.partition_point(|each| each.0 <= page);
        self.0.drain(..passed);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
