//! Latency histograms: HdrHistogram, three significant digits, up to one hour.

use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use hdrhistogram::Histogram;
use serde::Serialize;

/// Largest latency told apart; longer ones are recorded as this, in nanoseconds.
pub const LATENCY_MAX_NS: u64 = 3_600_000_000_000;
/// A recorded value is at most 0.1 % off.
pub const LATENCY_SIGNIFICANT_DIGITS: u8 = 3;

/// An empty latency histogram.
pub(crate) fn empty() -> Histogram<u64> {
    // The bounds are constants within the library's limits, so construction cannot fail.
    Histogram::new_with_bounds(1, LATENCY_MAX_NS, LATENCY_SIGNIFICANT_DIGITS)
        .unwrap_or_else(|_| unreachable!("constant histogram bounds are valid"))
}

/// HdrHistogram V2, compressed.
pub(crate) fn encode(histogram: &Histogram<u64>) -> Vec<u8> {
    let mut out = Vec::new();
    match V2DeflateSerializer::new().serialize(histogram, &mut out) {
        Ok(_) => out,
        Err(_) => Vec::new(),
    }
}

/// Reads what this engine wrote; `None` if it is no histogram.
pub fn decode(mut blob: &[u8]) -> Option<Histogram<u64>> {
    Deserializer::new().deserialize(&mut blob).ok()
}

/// Summary of a histogram, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct LatencySummary {
    min: u64,
    mean: f64,
    p50: u64,
    p90: u64,
    p99: u64,
    p99_9: u64,
    p99_99: u64,
    max: u64,
}

impl LatencySummary {
    /// Percentiles are upper ends of histogram buckets; least and greatest are exact.
    pub(crate) fn of(h: &Histogram<u64>, least: u64, greatest: u64) -> LatencySummary {
        LatencySummary {
            min: least,
            mean: h.mean(),
            p50: h.value_at_quantile(0.5),
            p90: h.value_at_quantile(0.9),
            p99: h.value_at_quantile(0.99),
            p99_9: h.value_at_quantile(0.999),
            p99_99: h.value_at_quantile(0.9999),
            max: greatest,
        }
    }
}
