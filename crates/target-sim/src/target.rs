//! The simulated server as a target.

use crate::config::SimConfig;
use crate::server::State;
use crate::session::{lock, Shared, SimSession};
use crate::stats::SimStats;
use naslab_core::{Alignment, Caps, Clock, Result, Session, Target};
use std::sync::{Arc, Mutex};

/// A simulated file server. Its sessions share one server, one client cache and one virtual clock;
/// the same seed and the same calls give the same times to the nanosecond.
pub struct SimTarget {
    shared: Shared,
    caps: Caps,
    clock: Clock,
    facts: Vec<(String, String)>,
}

impl SimTarget {
    /// Makes the server. Fails with `Invalid` when [`SimConfig::validate`] does.
    pub fn new(config: SimConfig) -> Result<SimTarget> {
        config.validate()?;
        let caps = Caps {
            max_depth: config.max_depth,
            direct: true,
            sync_writes: true,
            flush: true,
            keeps_data: config.store_data,
            evict: true,
            virtual_time: true,
            wire_counters: true,
            alignment: Alignment { offset_bytes: 1, memory_bytes: 1 },
            ..Caps::default()
        };
        let text = serde_json::to_string(&config).unwrap_or_default();
        let mut facts = vec![
            ("simulated".to_owned(), "true".to_owned()),
            ("seed".to_owned(), config.seed.to_string()),
            ("config".to_owned(), text),
        ];
        if config.client_nic_bytes_per_s > 0 {
            facts.push(("client_nic_bytes_per_s".to_owned(), config.client_nic_bytes_per_s.to_string()));
        }
        let state = State::new(config)?;
        Ok(SimTarget { clock: state.clock.clone(), shared: Arc::new(Mutex::new(state)), caps, facts })
    }

    /// What the server did by the clock's present time.
    pub fn stats(&self) -> SimStats {
        let mut state = lock(&self.shared);
        state.run_until(self.clock.now_ns());
        state.stats()
    }
}

impl Target for SimTarget {
    fn protocol(&self) -> &'static str {
        "sim"
    }

    fn caps(&self) -> Caps {
        self.caps.clone()
    }

    fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// Free of charge.
    fn connect(&self, _worker: u32) -> Result<Box<dyn Session>> {
        Ok(Box::new(SimSession::new(&self.shared)))
    }

    /// The whole configuration as JSON under `config`, every counter of [`SimStats`], and the rate of the client's
    /// interface as a real client would know it.
    fn facts(&self) -> Vec<(String, String)> {
        let stats = self.stats();
        let counters = stats.named().map(|(name, n)| (name.to_owned(), n.to_string()));
        self.facts.iter().cloned().chain(counters).collect()
    }
}
