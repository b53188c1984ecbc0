//! Places of the model's parameters. Their bounds, units and meaning are those of `python/naslab/explain/hypotheses.py`,
//! which hands its table over; one that differs in a name is refused.

use std::fmt;

macro_rules! parameters {
    ($($variant:ident $name:literal),+ $(,)?) => {
        /// Place of one parameter in a particle.
        #[allow(missing_docs)] // named as in hypotheses.py, which tells of each
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Param { $($variant),+ }

        /// Names in the order of their places.
        pub const NAMES: &[&str] = &[$($name),+];
    };
}

parameters! {
    ClientS "client_s", ClientByteS "client_byte_s", DelayS "delay_s", Slots "slots", Window "window", Link "link",
    UplinkRatio "uplink_ratio", Queue "queue", Header "header", ServerS "server_s", ServerLanes "server_lanes",
    Memory "memory", CopyRatio "copy_ratio", CopyLanes "copy_lanes", Cold "cold", Cache "cache", DiskRead "disk_read", DiskWrite "disk_write",
    Fetch "fetch", RequestS "request_s", SeekS "seek_s", CommitS "commit_s", WriteBack "write_back", JoinsOn "joins_on", Overlap "overlap",
    Sharpness "sharpness", SlowOn "slow_on", SlowS "slow_s", LockOn "lock_on", LockS "lock_s", LockShare "lock_share", BucketOn "bucket_on",
    Base "base", Burst "burst", LastsS "lasts_s", Scope "scope",
}

/// Number of parameters.
pub const DIMS: usize = NAMES.len();

/// One particle: natural logarithms of all parameters.
pub type Theta = [f64; DIMS];

/// What was handed over does not fit the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch(pub String);

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Mismatch {}

/// Ends of the priors, in logarithms, and the values above which optional parts exist.
#[derive(Clone, Debug)]
pub struct Table {
    pub(crate) low: Theta,
    pub(crate) high: Theta,
    /// Infinite where a parameter is no switch.
    pub(crate) on_above: Theta,
}

impl Table {
    /// From the Python table. `switches`: prior probability that each optional part exists.
    pub fn new(names: &[String], low: &[f64], high: &[f64], switches: &[(String, f64)]) -> Result<Table, Mismatch> {
        if names != NAMES {
            return Err(Mismatch(format!("parameters differ: {names:?}, the engine has {NAMES:?}")));
        }
        let ends = |of: &[f64]| of.try_into().map_err(|_| Mismatch(format!("{} ends of {DIMS}", of.len())));
        let (low, high): (Theta, Theta) = (ends(low)?, ends(high)?);
        if low.iter().zip(&high).any(|(low, high)| !low.is_finite() || !high.is_finite() || low >= high) {
            return Err(Mismatch("a parameter without room between its ends".to_owned()));
        }
        let mut on_above = [f64::INFINITY; DIMS];
        for (name, often) in switches {
            let at = NAMES.iter().position(|each| each == name);
            let at = at.ok_or_else(|| Mismatch(format!("a switch that is no parameter: {name}")))?;
            on_above[at] = low[at] * often;
        }
        Ok(Table { low, high, on_above })
    }

    /// Whether the optional part of a switch exists.
    pub(crate) fn is_on(&self, theta: &Theta, switch: Param) -> bool {
        theta[switch as usize] > self.on_above[switch as usize]
    }

    /// Whether all parameters lie between their ends.
    pub(crate) fn holds(&self, theta: &Theta) -> bool {
        theta.iter().zip(self.low.iter().zip(&self.high)).all(|(value, (low, high))| low <= value && value <= high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_table_is_refused() {
        let names: Vec<String> = NAMES.iter().map(|name| (*name).to_owned()).collect();
        let (low, high) = ([0.0; DIMS], [1.0; DIMS]);
        assert!(Table::new(&names, &low, &high, &[("lock_on".to_owned(), 0.1)]).is_ok());
        assert!(Table::new(&names, &low, &high, &[("lock".to_owned(), 0.1)]).is_err());
        assert!(Table::new(&names, &low, &low, &[]).is_err());
        assert!(Table::new(&names[1..], &low, &high, &[]).is_err());
        let mut swapped = names.clone();
        swapped.swap(0, 1);
        assert!(Table::new(&swapped, &low, &high, &[]).is_err());
        assert_eq!(NAMES[Param::Scope as usize], "scope");
    }
}
