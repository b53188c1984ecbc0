//! Raw TCP between two machines, as the reference line for what a file protocol reaches.
//!
//! `naslab reference net --listen` runs [`listen`] on the far machine, `naslab reference net HOST` runs [`measure`]
//! here. The protocol is our own and small: every connection begins with a hello of 32 bytes that carries a magic number,
//! a version and the measurement's number; a connection that says anything else is closed without an answer.
//! One measurement is served at a time, all buffers are made before the clock starts, every wait is bounded.

mod listen;
mod measure;
mod protocol;

use std::net::SocketAddr;
use std::time::Duration;

pub use listen::listen;
pub use measure::measure;

/// The port that both sides take when none is named.
pub const REFERENCE_PORT: u16 = 6277;
/// Connections of one measurement in one direction, at most.
pub const MAX_CONNECTIONS: u32 = 64;
/// Longest time of one direction.
pub const MAX_DURATION: Duration = Duration::from_secs(600);
/// Size of the messages whose round trip is timed.
pub const MESSAGE_BYTES: usize = 64;

/// Where and how long to listen.
#[derive(Clone, Copy, Debug)]
pub struct ListenOptions {
    /// Address to listen on; port 0 takes a free one.
    pub address: SocketAddr,
    /// End after the first measurement.
    pub once: bool,
    /// End when nobody measured for so long.
    pub idle: Option<Duration>,
}

/// What happens while listening. Whoever hears it answers whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenEvent {
    /// Ready, on this address.
    Listening(SocketAddr),
    /// A client began to measure.
    Begun(SocketAddr),
    /// It ended, or went away.
    Ended(SocketAddr),
    /// Some time passed.
    Tick,
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct MeasureOptions {
    /// Host name or address.
    pub host: String,
    /// Port of the listener.
    pub port: u16,
    /// Connections in each direction, 1 to [`MAX_CONNECTIONS`].
    pub connections: u32,
    /// Time for each direction.
    pub duration: Duration,
    /// Longest time without any progress.
    pub timeout: Duration,
}

/// Bytes that arrived, and the time from the first connection's start to the last one's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Payload received by the other side.
    pub bytes: u64,
    /// Time it took.
    pub duration_ns: u64,
}

impl Flow {
    /// Payload rate.
    pub fn bytes_per_s(self) -> f64 {
        if self.duration_ns == 0 {
            return 0.0;
        }
        self.bytes as f64 * 1e9 / self.duration_ns as f64
    }
}

/// Times of small messages there and back, one at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // percentiles, in nanoseconds
pub struct RoundTrip {
    pub count: u64,
    pub min_ns: u64,
    pub mean_ns: u64,
    pub p50_ns: u64,
    pub p90_ns: u64,
    pub p99_ns: u64,
    pub p99_9_ns: u64,
    pub max_ns: u64,
}

impl RoundTrip {
    /// Sorts the samples. Percentiles are exact: the smallest sample at or above that share.
    pub(crate) fn of(samples_ns: &mut [u64]) -> RoundTrip {
        samples_ns.sort_unstable();
        let (Some(&min_ns), Some(&max_ns)) = (samples_ns.first(), samples_ns.last()) else {
            return RoundTrip::default();
        };
        let count = samples_ns.len();
        let at = |share: f64| samples_ns[((count as f64 * share).ceil() as usize).clamp(1, count) - 1];
        let sum: u128 = samples_ns.iter().map(|&ns| u128::from(ns)).sum();
        RoundTrip {
            count: count as u64,
            min_ns,
            mean_ns: (sum / count as u128) as u64,
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            p99_9_ns: at(0.999),
            max_ns,
        }
    }
}

/// What the kernel knows of the way to the other side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Largest payload of one segment, in bytes.
    pub mss_bytes: u32,
    /// Largest packet of the whole way, in bytes.
    pub mtu_bytes: u32,
    /// Segments sent again while uploading.
    pub retransmitted_segments: u64,
}

/// Result of one measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Address that answered.
    pub address: SocketAddr,
    /// From here to there.
    pub upload: Flow,
    /// From there to here.
    pub download: Flow,
    /// From here to there, while the other direction was busy too.
    pub both_upload: Flow,
    /// From there to here, while the other direction was busy too.
    pub both_download: Flow,
    /// Small messages.
    pub round_trip: RoundTrip,
    /// The way.
    pub path: Path,
}

#[cfg(test)]
mod tests;
