//! Which targets exist, and what crosses the seam to the engine, as JSON: for Python and for the agent.
//!
//! This is the one place that knows every target crate.

pub mod seam;

use naslab_core::{Caps, Error, ErrorKind, Result, Target};
#[cfg(target_os = "linux")]
use naslab_target_local::{LocalOptions, LocalTarget};
use naslab_target_nfs::{NfsOptions, NfsTarget};
use naslab_target_null::NullTarget;
use naslab_target_sim::{SimConfig, SimTarget};
use naslab_target_smb::{SmbOptions, SmbTarget};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

#[derive(Deserialize)]
#[serde(tag = "protocol", content = "options", rename_all = "snake_case")]
enum TargetSpec {
    #[cfg(target_os = "linux")]
    Local(LocalOptions),
    /// Folders are measured on Linux only.
    #[cfg(not(target_os = "linux"))]
    Local(serde::de::IgnoredAny),
    Smb(Box<SmbOptions>),
    Nfs(Box<NfsOptions>),
    Sim(Box<SimConfig>),
    Null(NoOptions),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoOptions {}

/// Makes the target of `{"protocol": ..., "options": {...}}`, with room for `depth` operations in flight.
pub fn make(spec: &serde_json::Value, depth: u32) -> Result<Arc<dyn Target>> {
    let spec = TargetSpec::deserialize(spec).map_err(|e| invalid(&e))?;
    Ok(match spec {
        #[cfg(target_os = "linux")]
        TargetSpec::Local(options) => Arc::new(LocalTarget::new(LocalOptions { depth, ..options })?),
        #[cfg(not(target_os = "linux"))]
        TargetSpec::Local(_) => {
            let message =
                "folders are measured on Linux only: name the server as smb://host/share or nfs://host/export";
            return Err(Error::new(ErrorKind::Unsupported, "target", message));
        }
        TargetSpec::Smb(options) => Arc::new(SmbTarget::new(SmbOptions { depth, ..*options })?),
        TargetSpec::Nfs(options) => Arc::new(NfsTarget::new(NfsOptions { depth, ..*options })?),
        TargetSpec::Sim(config) => Arc::new(SimTarget::new(*config)?),
        TargetSpec::Null(_) => Arc::new(NullTarget::new()),
    })
}

/// Shares or exports of the server that a target names, as a JSON list.
pub fn list_exports(target_json: &str) -> Result<serde_json::Value> {
    let spec: TargetSpec = serde_json::from_str(target_json).map_err(|e| invalid(&e))?;
    match spec {
        TargetSpec::Smb(options) => {
            let found = naslab_target_smb::shares(&options)?;
            let row = |s: &naslab_target_smb::Share| json!({"name": s.name, "kind": s.kind, "comment": s.comment});
            Ok(found.iter().map(row).collect())
        }
        TargetSpec::Nfs(options) => {
            let found = naslab_target_nfs::exports(&options)?;
            let row = |e: &naslab_target_nfs::Export| json!({"name": e.path, "kind": "export", "comment": e.groups.join(" ")});
            Ok(found.iter().map(row).collect())
        }
        _ => Err(Error::new(ErrorKind::Unsupported, "list exports", "only smb:// and nfs:// servers have any")),
    }
}

/// Whether the NFS server that a target names offers TLS (RFC 9289), whatever the target says of it.
pub fn offers_tls(target_json: &str) -> Result<bool> {
    match serde_json::from_str(target_json).map_err(|e| invalid(&e))? {
        TargetSpec::Nfs(options) => naslab_target_nfs::offers_tls(&options),
        _ => Err(Error::new(ErrorKind::Unsupported, "tls", "only nfs:// servers are asked for TLS")),
    }
}

/// As `make`, from text.
pub fn parse(target_json: &str, depth: u32) -> Result<Arc<dyn Target>> {
    make(&serde_json::from_str(target_json).map_err(|e| invalid(&e))?, depth)
}

fn invalid(error: &serde_json::Error) -> Error {
    Error::new(ErrorKind::Invalid, "target", format!("options of the target: {error}"))
}

/// Abilities of a target as JSON.
pub fn caps_json(caps: &Caps) -> serde_json::Value {
    json!({
        "max_depth": caps.max_depth, "direct": caps.direct, "sync_writes": caps.sync_writes,
        "flush": caps.flush, "stdio": caps.stdio, "cursor": caps.cursor, "mmap": caps.mmap,
        "locks": caps.locks, "keeps_data": caps.keeps_data, "evict": caps.evict,
        "virtual_time": caps.virtual_time, "wire_counters": caps.wire_counters,
        "ping": caps.ping, "server_copy": caps.server_copy,
        "alignment_offset_bytes": caps.alignment.offset_bytes,
        "alignment_memory_bytes": caps.alignment.memory_bytes,
    })
}
