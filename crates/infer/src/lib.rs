//! The model behind a verdict: what a server with given parameters would have shown in each row of a ladder, how likely
//! that makes what was seen, and the sampler of the posterior. Pure and seeded: one document gives one answer. Beside
//! it the segmentation of series, for the same reasons: arithmetic that Python would do too slowly.
//!
//! Stations, parameters and their priors are declared in `python/naslab/explain/hypotheses.py`, the model is written
//! down in `docs/concepts/model.md`.

mod ceilings;
mod forward;
mod guess;
mod likelihood;
mod math;
mod moves;
mod params;
mod rows;
mod sampler;
mod segments;
mod shared;
#[cfg(test)]
mod testing;

pub use ceilings::{BusyLoad, Forbidden};
pub use guess::Guess;
pub use likelihood::{Model, Scratch};
pub use math::{exp, ln};
pub use params::{Mismatch, Param, Table, Theta, DIMS, NAMES};
pub use rows::{Columns, Conditions};
pub use sampler::{side_by_side, Found, Likelihood, Run, Seen, Way, FOLLOW_MOVES};
pub use segments::segment_edges;

/// All that an answer follows from.
const SOURCE: [&str; 10] = [
    include_str!("ceilings.rs"),
    include_str!("forward.rs"),
    include_str!("guess.rs"),
    include_str!("likelihood.rs"),
    include_str!("math.rs"),
    include_str!("moves.rs"),
    include_str!("params.rs"),
    include_str!("rows.rs"),
    include_str!("sampler.rs"),
    include_str!("shared.rs"),
];

/// Fingerprint of this crate's own source (FNV-1a): which arithmetic said what a document keeps.
pub fn source_version() -> u32 {
    let bytes = SOURCE.iter().flat_map(|text| text.bytes());
    bytes.fold(0x811c_9dc5, |found: u32, byte| (found ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
