//! The simulated server through its sessions; one program, which is linked once.

mod buckets;
mod caches;
mod changing_rates;
mod common;
mod config;
mod faults;
mod files;
mod more_limits;
mod timing;
mod write_back;
