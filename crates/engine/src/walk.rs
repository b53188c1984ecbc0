//! The byte-addressed way of a cell: `walk` of the specification, made for each worker.

use crate::spec::CellSpec;
use naslab_core::{Error, ErrorKind, Result};
use naslab_workload::{HotRange, Order, Spread, Walk};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::Arc;

/// How workers go through a region of their file, in bytes. Fields as documented in `spec.py`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct WalkSpec {
    order: OrderName,
    base_bytes: u64,
    len_bytes: Option<u64>,
    stride_bytes: u64,
    separation_bytes: u64,
    align_bytes: u64,
    random_share: f64,
    spread: SpreadName,
    theta: f64,
    ranges: Vec<(f64, u64, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OrderName {
    Sequential,
    Interlocked,
    Random,
    Blend,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SpreadName {
    Uniform,
    Zipf,
    Ranges,
}

/// Positions that interlocked workers share, by file.
pub(crate) type Positions = BTreeMap<String, Arc<AtomicU64>>;

impl WalkSpec {
    fn region_bytes(&self, cell: &CellSpec) -> u64 {
        self.len_bytes.unwrap_or(cell.file_bytes.saturating_sub(self.base_bytes))
    }

    /// An `Invalid` error when the walk leaves its file or says nothing.
    pub fn check(&self, cell: &CellSpec) -> Result<()> {
        let refuse =
            |what: &str| Err(Error::new(ErrorKind::Invalid, "plan", format!("cell {}: the walk {what}", cell.id)));
        let len_bytes = self.region_bytes(cell);
        if self.base_bytes.saturating_add(len_bytes) > cell.file_bytes || len_bytes < cell.record_bytes as u64 {
            return refuse("leaves the file, or its region is shorter than one record");
        }
        if self.stride_bytes == 0 || self.align_bytes == 0 {
            return refuse("needs a stride and an alignment of at least 1 byte");
        }
        if !(0.0..=1.0).contains(&self.random_share)
            || self.spread == SpreadName::Zipf && (self.theta <= 0.0 || !self.theta.is_finite())
        {
            return refuse("needs a random share from 0 to 1 and a theta above 0");
        }
        let fits = |(share, start, len): &(f64, u64, u64)| {
            *share > 0.0 && share.is_finite() && *len > 0 && start.saturating_add(*len) <= len_bytes
        };
        if self.spread == SpreadName::Ranges && (self.ranges.is_empty() || !self.ranges.iter().all(fits)) {
            return refuse("needs ranges inside its region, each with a share above 0");
        }
        if cell.verify {
            return refuse("may overlap itself, so its data cannot be verified: leave out --verify");
        }
        Ok(())
    }

    /// The walk of one worker.
    pub fn of_worker(&self, cell: &CellSpec, worker: u32, shared: &Positions, seed: u64) -> Walk {
        let stride_bytes = self.stride_bytes;
        let order = match self.order {
            OrderName::Sequential => {
                let before = (0..worker).filter(|w| cell.file_of(*w) == cell.file_of(worker)).count() as u64;
                Order::Sequential { start_bytes: before * self.separation_bytes, stride_bytes }
            }
            OrderName::Interlocked => {
                let taken = shared.get(cell.file_of(worker)).cloned().unwrap_or_default();
                Order::Interlocked { taken, stride_bytes }
            }
            OrderName::Random => Order::Random { align_bytes: self.align_bytes, spread: self.spread() },
            OrderName::Blend => Order::Blend { random_share: self.random_share, align_bytes: self.align_bytes },
        };
        Walk::new(order, self.base_bytes, self.region_bytes(cell), cell.record_bytes, seed)
    }

    fn spread(&self) -> Spread {
        match self.spread {
            SpreadName::Uniform => Spread::Uniform,
            SpreadName::Zipf => Spread::Zipf { theta: self.theta },
            SpreadName::Ranges => {
                let range = |(share, start_bytes, len_bytes): &(f64, u64, u64)| HotRange {
                    share: *share,
                    start_bytes: *start_bytes,
                    len_bytes: *len_bytes,
                };
                Spread::Ranges(self.ranges.iter().map(range).collect())
            }
        }
    }
}

/// One shared position per file of the cell.
pub(crate) fn positions(cell: &CellSpec) -> Positions {
    cell.files.iter().map(|name| (name.clone(), Arc::default())).collect()
}
