//! Raw TCP between two hosts for Python: the GIL released, Ctrl-C heard.

use crate::errors;
use naslab_core::{Error, ErrorKind};
use naslab_wire::reference::{self, Flow, ListenEvent, ListenOptions, MeasureOptions, Reference};
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::{json, Value};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MeasureJson {
    host: String,
    port: u16,
    connections: u32,
    duration_ns: u64,
    timeout_ns: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListenJson {
    /// None: all interfaces.
    address: Option<IpAddr>,
    port: u16,
    once: bool,
    idle_ns: Option<u64>,
}

/// Calls one Python function and keeps the first exception, also that of a signal.
struct Listener {
    on_event: Py<PyAny>,
    error: Option<PyErr>,
}

impl Listener {
    /// Whether to go on.
    fn hear(&mut self, event: Option<(&str, String)>) -> bool {
        let heard = Python::attach(|py| {
            py.check_signals()?;
            event.map_or(Ok(()), |event| self.on_event.call1(py, event).map(drop))
        });
        if let Err(error) = heard {
            self.error.get_or_insert(error);
        }
        self.error.is_none()
    }
}

/// Measures raw TCP to a listener; `on_event("phase", name)` as each part begins. The result as JSON.
#[pyfunction]
pub(crate) fn net_measure(py: Python<'_>, options_json: &str, on_event: Py<PyAny>) -> PyResult<String> {
    let json: MeasureJson = parse(options_json)?;
    let options = MeasureOptions {
        host: json.host.clone(),
        port: json.port,
        connections: json.connections,
        duration: Duration::from_nanos(json.duration_ns),
        timeout: Duration::from_nanos(json.timeout_ns),
    };
    let mut listener = Listener { on_event, error: None };
    let found = py.detach(|| {
        reference::measure(&options, &mut |phase| {
            listener.hear((!phase.is_empty()).then(|| ("phase", phase.to_string())))
        })
    });
    match listener.error {
        Some(error) => Err(error),
        None => found.map(|found| result(&json, &found).to_string()).map_err(errors::to_py),
    }
}

/// Serves measurements; `on_event(kind, address)` with kind `listening`, `begun` or `ended`. Returns how many.
#[pyfunction]
pub(crate) fn net_listen(py: Python<'_>, options_json: &str, on_event: Py<PyAny>) -> PyResult<u64> {
    let json: ListenJson = parse(options_json)?;
    let mut listener = Listener { on_event, error: None };
    let mut serve = |ip: IpAddr| {
        let options = ListenOptions {
            address: SocketAddr::new(ip, json.port),
            once: json.once,
            idle: json.idle_ns.map(Duration::from_nanos),
        };
        reference::listen(&options, &mut |event| {
            listener.hear(match event {
                ListenEvent::Listening(address) => Some(("listening", address.to_string())),
                ListenEvent::Begun(peer) => Some(("begun", peer.to_string())),
                ListenEvent::Ended(peer) => Some(("ended", peer.to_string())),
                ListenEvent::Tick => None,
            })
        })
    };
    let served = py.detach(|| match json.address {
        Some(address) => serve(address),
        // One IPv6 socket takes both families; where there is no IPv6, the other one alone.
        None => serve(Ipv6Addr::UNSPECIFIED.into()).or_else(|error| match error.status as i32 {
            libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL => serve(Ipv4Addr::UNSPECIFIED.into()),
            _ => Err(error),
        }),
    });
    match listener.error {
        Some(error) => Err(error),
        None => served.map_err(errors::to_py),
    }
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> PyResult<T> {
    serde_json::from_str(text).map_err(|e| errors::to_py(Error::new(ErrorKind::Invalid, "net", e.to_string())))
}

fn result(options: &MeasureJson, found: &Reference) -> Value {
    let flow = |flow: Flow| json!({ "bytes": flow.bytes, "duration_ns": flow.duration_ns });
    let trip = &found.round_trip;
    json!({
        "schema": 1,
        "host": options.host,
        "port": options.port,
        "address": found.address.ip().to_string(),
        "connections": options.connections,
        "duration_ns": options.duration_ns,
        "upload_bytes_per_s": found.upload.bytes_per_s(),
        "download_bytes_per_s": found.download.bytes_per_s(),
        "both_upload_bytes_per_s": found.both_upload.bytes_per_s(),
        "both_download_bytes_per_s": found.both_download.bytes_per_s(),
        "round_trip_ns": {
            "count": trip.count, "message_bytes": reference::MESSAGE_BYTES, "min": trip.min_ns,
            "mean": trip.mean_ns, "p50": trip.p50_ns, "p90": trip.p90_ns, "p99": trip.p99_ns,
            "p99_9": trip.p99_9_ns, "max": trip.max_ns,
        },
        "flows": {
            "upload": flow(found.upload), "download": flow(found.download),
            "both_upload": flow(found.both_upload), "both_download": flow(found.both_download),
        },
        "wire": {
            "mss_bytes": found.path.mss_bytes, "mtu_bytes": found.path.mtu_bytes,
            "retransmitted_segments": found.path.retransmitted_segments,
        },
    })
}
