//! What to do next and with which bytes: offset patterns, mixes, arrival times, payload and its check.
//!
//! Everything here is pure and seeded: the same seed gives the same operations. Nothing reads a clock.

mod arrival;
mod data;
mod measure;
mod offsets;
mod rng;
mod script;
mod stream;
mod tag;
mod walk;

pub use arrival::{Arrival, ArrivalKind};
pub use data::{check_record, DataKind, DataSpec, Payload, BLOCK_BYTES};
pub use measure::{measure, Reducibility};
pub use offsets::{Offsets, Pattern};
pub use rng::Rng;
pub use script::{
    flag, stream_count, ScriptHead, Step, StepKind, StreamHead, NONE, NO_STREAM, SCRIPT_HEAD_BYTES, SCRIPT_MAGIC,
    STARTED, STEP_BYTES, STREAM_BYTES,
};
pub use stream::{Mix, OpStream};
pub use tag::{tag_unit, Defect, Tagger, TAG_BYTES, TAG_MAGIC};
pub use walk::{HotRange, Order, Spread, Walk};
