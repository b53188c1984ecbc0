//! Memory of a cell that the next one, which follows it at once, uses again: it is still in the processor's caches.

use naslab_core::{AlignedBuf, Result};
use naslab_workload::{DataSpec, Payload, Tagger};

/// What a worker keeps from one cell to the next.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    pub read: Option<AlignedBuf>,
    pub payload: Option<Payload>,
}

/// Memory of this size: what is kept, where it fits.
pub(crate) fn memory(kept: Option<AlignedBuf>, len: usize) -> Result<AlignedBuf> {
    kept.filter(|kept| kept.len() == len).map_or_else(|| AlignedBuf::new(len), Ok)
}

impl Spare {
    /// Payload as [`Payload::new`] makes it.
    pub fn payload(
        &mut self,
        data: &DataSpec,
        record_bytes: u32,
        depth: u32,
        worker: u32,
        tagger: Option<Tagger>,
    ) -> Result<Payload> {
        match self.payload.take().and_then(|kept| kept.anew(data, record_bytes, depth, worker, tagger)) {
            Some(kept) => Ok(kept),
            None => Payload::new(data, record_bytes, depth, worker, tagger),
        }
    }
}
