//! The one place that knows every target crate.

use naslab_core::{Error, ErrorKind, Result, Target};
use naslab_target_local::{LocalOptions, LocalTarget, NullTarget};
use naslab_target_sim::{SimConfig, SimTarget};
use serde::Deserialize;
use std::sync::Arc;

#[derive(Deserialize)]
#[serde(tag = "protocol", content = "options", rename_all = "snake_case")]
enum TargetSpec {
    Local(LocalOptions),
    Sim(Box<SimConfig>),
    Null(NoOptions),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoOptions {}

/// Makes the target of `{"protocol": ..., "options": {...}}`, with room for `depth` operations in flight.
pub(crate) fn make(spec: &serde_json::Value, depth: u32) -> Result<Arc<dyn Target>> {
    let spec = TargetSpec::deserialize(spec).map_err(|e| invalid(&e))?;
    Ok(match spec {
        TargetSpec::Local(options) => Arc::new(LocalTarget::new(LocalOptions { depth, ..options })?),
        TargetSpec::Sim(config) => Arc::new(SimTarget::new(*config)?),
        TargetSpec::Null(_) => Arc::new(NullTarget::new()),
    })
}

/// As `make`, from text.
pub(crate) fn parse(target_json: &str, depth: u32) -> Result<Arc<dyn Target>> {
    make(&serde_json::from_str(target_json).map_err(|e| invalid(&e))?, depth)
}

fn invalid(error: &serde_json::Error) -> Error {
    Error::new(ErrorKind::Invalid, "target", format!("options of the target: {error}"))
}
