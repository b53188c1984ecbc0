//! What this machine can do, for Python: memory and ciphers, the GIL released.

use crate::errors;
use pyo3::prelude::*;
use serde_json::json;
use std::time::Duration;

/// Bandwidth of `threads` side by side on buffers of `buf_bytes` each, as JSON.
#[pyfunction]
pub(crate) fn memory_rates(py: Python<'_>, buf_bytes: usize, threads: usize, each_ns: u64) -> PyResult<String> {
    let found = py.detach(|| naslab_engine::memory_rates(buf_bytes, threads, Duration::from_nanos(each_ns)));
    let found = found.map_err(errors::to_py)?;
    Ok(json!({
        "read_bytes_per_s": found.read_bytes_per_s,
        "write_bytes_per_s": found.write_bytes_per_s,
        "copy_bytes_per_s": found.copy_bytes_per_s,
    })
    .to_string())
}

/// Nanoseconds of one dependent load over `buf_bytes` in random order.
#[pyfunction]
pub(crate) fn memory_latency_ns(py: Python<'_>, buf_bytes: usize, each_ns: u64) -> PyResult<f64> {
    py.detach(|| naslab_engine::memory_latency_ns(buf_bytes, Duration::from_nanos(each_ns))).map_err(errors::to_py)
}

/// Processors that control groups allow this process; None where none has a quota. root: `/`, but in tests.
#[pyfunction]
pub(crate) fn cpu_quota_cores(py: Python<'_>, root: std::path::PathBuf) -> Option<f64> {
    py.detach(|| naslab_engine::cpu_quota_cores(&root))
}

/// Bytes per second that one thread encrypts and decrypts; None for a cipher SMB does not have.
#[pyfunction]
pub(crate) fn cipher_speed(py: Python<'_>, cipher: &str, message_bytes: usize, each_ns: u64) -> Option<(f64, f64)> {
    py.detach(|| naslab_target_smb::cipher_speed(cipher, message_bytes, Duration::from_nanos(each_ns)))
}
