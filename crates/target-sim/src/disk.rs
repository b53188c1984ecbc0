//! The disk: one queue, with rates, a least time per request, and seeks.

use crate::config::{BucketConfig, BucketScope, SimConfig};
use crate::resource::{Bucket, Flow, Queue, Work};
use crate::stats::SimStats;

/// Buckets of one scope.
pub(crate) fn buckets(configs: &[BucketConfig], scope: BucketScope) -> Vec<Bucket> {
    let of_scope = configs.iter().filter(|b| b.scope == scope);
    of_scope.map(Bucket::new).collect()
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
    /// Where the next request would continue: file and offset.
    head: Option<(u32, u64)>,
}

impl Disk {
    pub(crate) fn new(config: &SimConfig) -> Disk {
        Disk {
            queue: Queue::default(),
            buckets: buckets(&config.buckets, BucketScope::Disk),
            read_rate: config.disk_read_bytes_per_s,
            write_rate: config.disk_write_bytes_per_s,
            per_second: config.disk_iops,
            seek_ns: config.disk_seek_ns,
            head: None,
        }
    }

    /// Serves nothing before `until_ns`.
    pub(crate) fn block(&mut self, until_ns: u64) {
        self.queue.block(until_ns);
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
        let rate = match flow {
            Flow::Read => {
                stats.disk_read_bytes += bytes;
                self.read_rate
            }
            Flow::Write => {
                stats.disk_written_bytes += bytes;
                self.write_rate
            }
        };
        let work = Work {
            lead_ns: if seeks { self.seek_ns } else { 0 },
            per_second: self.per_second,
            ..Work::new(bytes, rate, flow)
        };
        self.queue.serve(now_ns, &work, &mut self.buckets)
    }
}
