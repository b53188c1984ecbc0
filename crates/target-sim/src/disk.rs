//! The disk: one queue, with rates, a least time per request, seeks, fast cells, heat and noise.

use crate::config::{BucketConfig, BucketScope, SimConfig};
use crate::noise::{Noise, RateNoise};
use crate::resource::{Bucket, Flow, Queue, Work};
use crate::stalls::Stalls;
use crate::stats::SimStats;

/// Buckets of one scope.
pub(crate) fn buckets(configs: &[BucketConfig], scope: BucketScope) -> Vec<Bucket> {
    let of_scope = configs.iter().filter(|b| b.scope == scope);
    of_scope.map(Bucket::new).collect()
}

/// How warm a disk is, and what that costs: 0 cold, 1 as warm as load makes it, exponentially in between.
#[derive(Debug)]
struct Heat {
    busy_ns: f64,
    idle_ns: f64,
    floor: f64,
    step: f64,
    level: f64,
    /// The level is right at this time; also the end of the last request.
    updated_ns: u64,
}

impl Heat {
    /// None where heat is off.
    fn new(config: &SimConfig) -> Option<Heat> {
        let cold = Heat {
            busy_ns: config.heat_busy_ns as f64,
            idle_ns: config.heat_idle_ns as f64,
            floor: config.heat_floor,
            step: config.heat_step,
            level: 0.0,
            updated_ns: 0,
        };
        (config.heat_busy_ns > 0).then_some(cold)
    }

    /// Cools until a request starts; the share of its rate that the disk has then.
    fn speed(&mut self, start_ns: u64) -> f64 {
        let idle_ns = start_ns.saturating_sub(self.updated_ns) as f64;
        self.level *= libm::exp(-idle_ns / self.idle_ns);
        self.updated_ns = self.updated_ns.max(start_ns);
        if self.step == 0.0 {
            1.0 - (1.0 - self.floor) * self.level
        } else if self.level < self.step {
            1.0
        } else {
            self.floor
        }
    }

    /// Warms until the request ends.
    fn busy(&mut self, end_ns: u64) {
        let busy_ns = end_ns.saturating_sub(self.updated_ns) as f64;
        self.level = 1.0 - (1.0 - self.level) * libm::exp(-busy_ns / self.busy_ns);
        self.updated_ns = end_ns;
    }
}

/// The disk of a simulated server.
#[derive(Debug)]
pub(crate) struct Disk {
    queue: Queue,
    buckets: Vec<Bucket>,
    read_rate: u64,
    write_rate: u64,
    per_second: u64,
    seek_ns: u64,
    heat: Option<Heat>,
    /// Where the next request would continue: file and offset.
    head: Option<(u32, u64)>,
    /// When the last request is through.
    free_ns: u64,
}

impl Disk {
    pub(crate) fn new(config: &SimConfig) -> Disk {
        let noise = Noise::new(config.seed, 5);
        let wander = RateNoise::new(noise, config.disk_noise, config.noise_memory, config.noise_span_ns);
        let mut buckets = buckets(&config.buckets, BucketScope::Disk);
        if config.slc_bytes > 0 {
            buckets.push(Bucket::fast_cells(
                config.slc_bytes,
                config.slc_full_bytes_per_s,
                config.slc_fold_bytes_per_s,
            ));
        }
        Disk {
            queue: Queue::noisy(wander).with(Stalls::new(config)),
            buckets,
            read_rate: config.disk_read_bytes_per_s,
            write_rate: config.disk_write_bytes_per_s,
            per_second: config.disk_iops,
            seek_ns: config.disk_seek_ns,
            heat: Heat::new(config),
            head: None,
            free_ns: 0,
        }
    }

    /// Serves nothing before `until_ns`.
    pub(crate) fn block(&mut self, until_ns: u64) {
        self.queue.block(until_ns);
        self.free_ns = self.free_ns.max(until_ns);
    }

    /// Moves `bytes` of a file from `offset`; returns when they are moved.
    pub(crate) fn request(
        &mut self,
        now_ns: u64,
        flow: Flow,
        (file, offset): (u32, u64),
        bytes: u64,
        stats: &mut SimStats,
    ) -> u64 {
        let seeks = self.head != Some((file, offset));
        self.head = Some((file, offset.saturating_add(bytes)));
        stats.disk_requests += 1;
        stats.disk_seeks += u64::from(seeks);
        let full = match flow {
            Flow::Read => {
                stats.disk_read_bytes += bytes;
                self.read_rate
            }
            Flow::Write => {
                stats.disk_written_bytes += bytes;
                self.write_rate
            }
        };
        let start_ns = now_ns.max(self.free_ns);
        let rate = match &mut self.heat {
            Some(heat) if full > 0 => ((full as f64 * heat.speed(start_ns)) as u64).max(1),
            _ => full,
        };
        let work = Work {
            lead_ns: if seeks { self.seek_ns } else { 0 },
            per_second: self.per_second,
            ..Work::new(bytes, rate, flow)
        };
        self.free_ns = self.queue.serve(now_ns, &work, &mut self.buckets);
        if let Some(heat) = &mut self.heat {
            heat.busy(self.free_ns);
        }
        self.free_ns
    }
}
