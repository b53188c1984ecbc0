//! Which operation gets which fault.

use crate::config::{FaultConfig, FaultKind, FaultOp, FaultScope};
use crate::noise::Noise;
use naslab_core::{errno, OpKind};

/// What happens to one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Error(i32),
    Stall(u64),
    Freeze(u64),
    Disconnect { all: bool },
    Short,
    Corrupt,
}

#[derive(Debug)]
struct Rule {
    config: FaultConfig,
    seen: u64,
}

/// The rules with their counts.
#[derive(Debug)]
pub(crate) struct Faults {
    rules: Vec<Rule>,
    noise: Noise,
}

impl Faults {
    pub(crate) fn new(configs: &[FaultConfig], seed: u64) -> Faults {
        let rule = |config: &FaultConfig| Rule { config: config.clone(), seen: 0 };
        Faults { rules: configs.iter().map(rule).collect(), noise: Noise::new(seed, 2) }
    }

    /// The fault of the next operation of this kind: of the first rule that fires. Every rule counts,
    /// and draws, whether or not an earlier one fired.
    pub(crate) fn next(&mut self, kind: OpKind) -> Option<Fault> {
        let mut found = None;
        for rule in self.rules.iter_mut().filter(|r| counts(r.config.op, kind)) {
            let number = rule.seen;
            rule.seen += 1;
            let fires = match rule.config.at_op {
                Some(at) => at == number,
                None => self.noise.uniform() < rule.config.probability,
            };
            if fires && found.is_none() {
                found = effect(&rule.config, kind);
            }
        }
        found
    }
}

fn counts(rule: FaultOp, kind: OpKind) -> bool {
    match rule {
        FaultOp::Any => true,
        FaultOp::Read => kind == OpKind::Read,
        FaultOp::Write => kind == OpKind::Write,
        FaultOp::Flush => kind == OpKind::Flush,
    }
}

fn effect(config: &FaultConfig, kind: OpKind) -> Option<Fault> {
    let moves_data = kind != OpKind::Flush;
    match config.kind {
        FaultKind::Error => Some(Fault::Error(config.errno)),
        FaultKind::Enospc => Some(Fault::Error(errno::ENOSPC)),
        FaultKind::Stall => Some(Fault::Stall(config.duration_ns)),
        FaultKind::Freeze => Some(Fault::Freeze(config.duration_ns)),
        FaultKind::Disconnect => Some(Fault::Disconnect { all: config.scope == FaultScope::All }),
        FaultKind::Short => moves_data.then_some(Fault::Short),
        FaultKind::Corrupt => moves_data.then_some(Fault::Corrupt),
    }
}
