//! What a simulated server is made of, as plain data.
//!
//! Conventions: a rate of 0 is unlimited, a size of 0 is off, a time of 0 costs nothing. Every field is
//! listed with its unit and default in `docs/reference/sim.md`; a test keeps the two together.

use crate::fs::split_path;
use naslab_core::{errno, Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// Largest time a field may hold: about 11 days.
const MAX_NS: u64 = 1_000_000_000_000_000;
/// Largest rate a field may hold: 1 PB/s.
const MAX_RATE: u64 = 1_000_000_000_000_000;
/// Largest size a field may hold: 1 PiB.
const MAX_BYTES: u64 = 1 << 50;

/// Everything a simulated server can be told. The default answers each operation after
/// `op_overhead_ns` and has no other limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SimConfig {
    /// Seed of jitter, of noise and of faults by probability.
    pub seed: u64,
    /// Operations one session can have in flight.
    pub max_depth: u32,
    /// Client time per operation, in nanoseconds; a session spends it on one operation after another.
    pub op_overhead_ns: u64,
    /// Round trip added to every call that reaches the server, in nanoseconds: half before, half after.
    pub latency_ns: u64,
    /// Standard deviation of the round trip divided by its mean (lognormal); 0 is constant.
    pub jitter: f64,
    /// Server CPU time per call, in nanoseconds; one queue for all sessions.
    pub server_op_ns: u64,
    /// More server CPU time for an open, in nanoseconds.
    pub open_ns: u64,
    /// More server CPU time for any other metadata call, in nanoseconds.
    pub metadata_ns: u64,
    /// Time for which a read or write holds its file's lock at the server, in nanoseconds.
    pub file_lock_ns: u64,
    /// Time from one stop of the whole server to the next, in nanoseconds; 0 is no stops.
    pub stall_every_ns: u64,
    /// How long the server stops, in nanoseconds.
    pub stall_ns: u64,
    /// Bytes on the wire per message besides the data.
    pub header_bytes: u64,
    /// Link rate in each direction, in bytes per second; one queue per direction.
    pub link_bytes_per_s: u64,
    /// Rate of the client's own network interface in each direction, in bytes per second; also told as a fact.
    pub client_nic_bytes_per_s: u64,
    /// Rate of one session in each direction, in bytes per second: a connection's window.
    pub connection_bytes_per_s: u64,
    /// Size of the client's page cache, in bytes; shared by all sessions.
    pub client_cache_bytes: u64,
    /// Rate of the client's page cache, in bytes per second; one queue for all sessions.
    pub client_cache_bytes_per_s: u64,
    /// Bytes of buffered writes the client holds back; 0 sends each write at once.
    pub client_write_back_bytes: u64,
    /// Size of the server's page cache, in bytes.
    pub server_cache_bytes: u64,
    /// Rate of the server's memory, in bytes per second: cache hits and writes taken into memory.
    pub server_cache_bytes_per_s: u64,
    /// Bytes that a sequential read which misses the server's cache fetches beyond its end.
    pub server_read_ahead_bytes: u64,
    /// Fetches these bytes while earlier reads are answered, instead of making a read wait for them.
    pub server_reads_ahead_early: bool,
    /// Page size of both caches, in bytes: a power of two.
    pub page_bytes: u32,
    /// Disk read rate, in bytes per second; the disk is one queue.
    pub disk_read_bytes_per_s: u64,
    /// Disk write rate, in bytes per second.
    pub disk_write_bytes_per_s: u64,
    /// Disk requests per second: the least time of a request is its inverse.
    pub disk_iops: u64,
    /// Time for a disk request that does not continue the one before, in nanoseconds.
    pub disk_seek_ns: u64,
    /// Standard deviation of the disk's rate divided by its mean, buckets included; 0 is constant.
    pub disk_noise: f64,
    /// Standard deviation of the link's rate divided by its mean, buckets included; 0 is constant.
    pub link_noise: f64,
    /// How long a noisy rate stays as it is, in nanoseconds.
    pub noise_span_ns: u64,
    /// How much of a span's noise is left in the next one: their correlation, 0 to 0.99.
    pub noise_memory: f64,
    /// Bytes of fast cells that writes fill before they go at `slc_full_bytes_per_s`; 0 is no such cells.
    pub slc_bytes: u64,
    /// Rate of writes when the fast cells are full, in bytes per second.
    pub slc_full_bytes_per_s: u64,
    /// Rate at which fast cells come free while the disk is idle, in bytes per second.
    pub slc_fold_bytes_per_s: u64,
    /// Time constant in which a busy disk warms up, in nanoseconds; 0 is no heat.
    pub heat_busy_ns: u64,
    /// Time constant in which an idle disk cools, in nanoseconds.
    pub heat_idle_ns: u64,
    /// Share of its rate that a hot disk has.
    pub heat_floor: f64,
    /// Heat at which the rate falls in one step; 0: it falls as it warms.
    pub heat_step: f64,
    /// Bytes of unstable writes the server holds in memory; 0 sends each write to the disk at once.
    pub write_back_bytes: u64,
    /// Answer a flush at once, whatever is still in memory.
    pub flush_ignored: bool,
    /// Space of the file system, in bytes; 0 is unlimited.
    pub capacity_bytes: u64,
    /// Refuse every change.
    pub read_only: bool,
    /// Keep what is written; otherwise reads leave the buffer untouched.
    pub store_data: bool,
    /// Token buckets on disk or link.
    pub buckets: Vec<BucketConfig>,
    /// Failures to inject.
    pub faults: Vec<FaultConfig>,
    /// Files that exist from the start, with their folders.
    pub files: Vec<FileConfig>,
}

impl Default for SimConfig {
    fn default() -> SimConfig {
        SimConfig {
            seed: 1,
            max_depth: 1024,
            op_overhead_ns: 1000,
            latency_ns: 0,
            jitter: 0.0,
            server_op_ns: 0,
            open_ns: 0,
            metadata_ns: 0,
            file_lock_ns: 0,
            stall_every_ns: 0,
            stall_ns: 0,
            header_bytes: 0,
            link_bytes_per_s: 0,
            client_nic_bytes_per_s: 0,
            connection_bytes_per_s: 0,
            client_cache_bytes: 0,
            client_cache_bytes_per_s: 0,
            client_write_back_bytes: 0,
            server_cache_bytes: 0,
            server_cache_bytes_per_s: 0,
            server_read_ahead_bytes: 0,
            server_reads_ahead_early: false,
            page_bytes: 4096,
            disk_read_bytes_per_s: 0,
            disk_write_bytes_per_s: 0,
            disk_iops: 0,
            disk_seek_ns: 0,
            disk_noise: 0.0,
            link_noise: 0.0,
            noise_span_ns: 100_000_000,
            noise_memory: 0.0,
            slc_bytes: 0,
            slc_full_bytes_per_s: 0,
            slc_fold_bytes_per_s: 0,
            heat_busy_ns: 0,
            heat_idle_ns: 0,
            heat_floor: 0.5,
            heat_step: 0.0,
            write_back_bytes: 0,
            flush_ignored: false,
            capacity_bytes: 0,
            read_only: false,
            store_data: false,
            buckets: Vec::new(),
            faults: Vec::new(),
            files: Vec::new(),
        }
    }
}

/// A token bucket: data moves at the burst rate while tokens last, then at the base rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BucketConfig {
    /// Which data takes tokens: `read`, `write` or `both`.
    pub applies_to: AppliesTo,
    /// Where the data is counted: `disk` or `link`.
    pub scope: BucketScope,
    /// Rate while tokens last, in bytes per second.
    pub burst_bytes_per_s: u64,
    /// Rate without tokens, in bytes per second; the bucket fills at this rate.
    pub base_bytes_per_s: u64,
    /// Most tokens the bucket holds, in bytes.
    pub size_bytes: u64,
    /// Tokens at the start, as a share of the size, 0 to 1.
    pub initial_fill: f64,
}

impl Default for BucketConfig {
    fn default() -> BucketConfig {
        BucketConfig {
            applies_to: AppliesTo::Both,
            scope: BucketScope::Disk,
            burst_bytes_per_s: 0,
            base_bytes_per_s: 0,
            size_bytes: 0,
            initial_fill: 1.0,
        }
    }
}

/// Which data takes tokens from a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AppliesTo {
    /// Data that is read.
    Read,
    /// Data that is written.
    Write,
    /// All data, from one store of tokens.
    #[default]
    Both,
}

/// Where a bucket counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BucketScope {
    /// Data moved by the disk.
    #[default]
    Disk,
    /// Messages with data on the link, headers included.
    Link,
}

/// One rule of fault injection. It fires at one operation (`at_op`) or by chance (`probability`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FaultConfig {
    /// Which operations the rule counts: `read`, `write`, `flush` or `any`.
    pub op: FaultOp,
    /// Fires at the operation with this number, from 0, among those counted over all sessions.
    pub at_op: Option<u64>,
    /// Fires with this chance at each operation counted, 0 to 1.
    pub probability: f64,
    /// What happens.
    pub kind: FaultKind,
    /// errno of kind `error`.
    pub errno: i32,
    /// Duration of kinds `stall` and `freeze`, in nanoseconds.
    pub duration_ns: u64,
    /// Whom a `disconnect` hits: the `session` or `all`.
    pub scope: FaultScope,
}

impl Default for FaultConfig {
    fn default() -> FaultConfig {
        FaultConfig {
            op: FaultOp::Any,
            at_op: None,
            probability: 0.0,
            kind: FaultKind::Error,
            errno: errno::EIO,
            duration_ns: 0,
            scope: FaultScope::Session,
        }
    }
}

/// Operations a fault rule counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultOp {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Flushes.
    Flush,
    /// All of them.
    #[default]
    Any,
}

/// What an injected fault does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The server answers with `errno` and does nothing else.
    #[default]
    Error,
    /// The server holds this operation back for `duration_ns`.
    Stall,
    /// The connection is gone: everything outstanding and everything later fails.
    Disconnect,
    /// The server answers that no space is left.
    Enospc,
    /// Half of the bytes are moved, with an error of kind `short`.
    Short,
    /// One byte is flipped: in the buffer of a read, in the stored contents of a write.
    Corrupt,
    /// The whole server stops for `duration_ns`.
    Freeze,
}

/// Whom a disconnect hits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultScope {
    /// The session whose operation fired.
    #[default]
    Session,
    /// Every session.
    All,
}

/// A file that exists from the start. Its contents are zeros.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FileConfig {
    /// Path relative to the root, `/` between parts; folders are made.
    pub path: String,
    /// Length in bytes.
    pub len_bytes: u64,
}

fn invalid(field: impl std::fmt::Display, value: impl std::fmt::Display, next: &str) -> Error {
    Error::new(ErrorKind::Invalid, "configure sim", format!("{field} = {value}: {next}"))
}

fn check(ok: bool, field: &str, value: impl std::fmt::Display, next: &str) -> Result<()> {
    if ok {
        Ok(())
    } else {
        Err(invalid(field, value, next))
    }
}

impl SimConfig {
    /// The slower of the link and the client's own interface, in bytes per second; 0 is unlimited.
    pub(crate) fn link_rate(&self) -> u64 {
        let rates = [self.link_bytes_per_s, self.client_nic_bytes_per_s];
        rates.into_iter().filter(|r| *r > 0).min().unwrap_or(0)
    }

    /// Checks every value. The error names the field, its value and what to use instead.
    pub fn validate(&self) -> Result<()> {
        self.check_ranges()?;
        self.check_pages()?;
        self.check_together()?;
        for (i, bucket) in self.buckets.iter().enumerate() {
            bucket.validate(i)?;
        }
        for (i, fault) in self.faults.iter().enumerate() {
            fault.validate(i, self.store_data)?;
        }
        self.check_files()
    }

    fn check_ranges(&self) -> Result<()> {
        check((1..=65_536).contains(&self.max_depth), "max_depth", self.max_depth, "use 1 to 65536")?;
        check(self.jitter.is_finite() && (0.0..=10.0).contains(&self.jitter), "jitter", self.jitter, "use 0 to 10")?;
        for (field, value) in [
            ("op_overhead_ns", self.op_overhead_ns),
            ("latency_ns", self.latency_ns),
            ("server_op_ns", self.server_op_ns),
            ("open_ns", self.open_ns),
            ("metadata_ns", self.metadata_ns),
            ("file_lock_ns", self.file_lock_ns),
            ("stall_every_ns", self.stall_every_ns),
            ("stall_ns", self.stall_ns),
            ("disk_seek_ns", self.disk_seek_ns),
            ("heat_busy_ns", self.heat_busy_ns),
            ("heat_idle_ns", self.heat_idle_ns),
        ] {
            check(value <= MAX_NS, field, value, "use at most 10^15 ns")?;
        }
        for (field, value) in [
            ("link_bytes_per_s", self.link_bytes_per_s),
            ("client_nic_bytes_per_s", self.client_nic_bytes_per_s),
            ("connection_bytes_per_s", self.connection_bytes_per_s),
            ("client_cache_bytes_per_s", self.client_cache_bytes_per_s),
            ("server_cache_bytes_per_s", self.server_cache_bytes_per_s),
            ("disk_read_bytes_per_s", self.disk_read_bytes_per_s),
            ("disk_write_bytes_per_s", self.disk_write_bytes_per_s),
            ("disk_iops", self.disk_iops),
            ("slc_full_bytes_per_s", self.slc_full_bytes_per_s),
            ("slc_fold_bytes_per_s", self.slc_fold_bytes_per_s),
        ] {
            check(value <= MAX_RATE, field, value, "use at most 10^15 a second")?;
        }
        for (field, value) in [
            ("header_bytes", self.header_bytes),
            ("client_write_back_bytes", self.client_write_back_bytes),
            ("write_back_bytes", self.write_back_bytes),
            ("capacity_bytes", self.capacity_bytes),
            ("server_read_ahead_bytes", self.server_read_ahead_bytes),
            ("slc_bytes", self.slc_bytes),
        ] {
            check(value <= MAX_BYTES, field, value, "use at most 2^50 bytes")?;
        }
        self.check_changing_rates()
    }

    /// Noise, fast cells and heat: their ranges, and the rates they work on.
    fn check_changing_rates(&self) -> Result<()> {
        for (field, value, least, most, next) in [
            ("disk_noise", self.disk_noise, 0.0, 0.3, "use 0 to 0.3"),
            ("link_noise", self.link_noise, 0.0, 0.3, "use 0 to 0.3"),
            ("noise_memory", self.noise_memory, 0.0, 0.99, "use 0 to 0.99"),
            ("heat_floor", self.heat_floor, 0.01, 1.0, "use 0.01 to 1"),
            ("heat_step", self.heat_step, 0.0, 0.99, "use 0 to 0.99"),
        ] {
            check((least..=most).contains(&value), field, value, next)?;
        }
        let span = self.noise_span_ns;
        check((1_000_000..=MAX_NS).contains(&span), "noise_span_ns", span, "use 10^6 to 10^15 ns")?;
        let has = |scope| self.buckets.iter().any(|b| b.scope == scope);
        let disk = self.disk_read_bytes_per_s > 0 || self.disk_write_bytes_per_s > 0;
        for (field, value, there) in [
            ("link_noise", self.link_noise, self.link_rate() > 0 || has(BucketScope::Link)),
            ("disk_noise", self.disk_noise, disk || self.slc_bytes > 0 || has(BucketScope::Disk)),
        ] {
            check(value == 0.0 || there, field, value, "it varies a rate: set one, or a bucket")?;
        }
        let full = self.slc_full_bytes_per_s;
        check(
            (self.slc_bytes > 0) == (full > 0),
            "slc_full_bytes_per_s",
            full,
            "use a rate with slc_bytes, 0 without",
        )?;
        let heat = self.heat_busy_ns;
        check(heat == 0 || disk, "heat_busy_ns", heat, "heat lowers disk_read_bytes_per_s and disk_write_bytes_per_s")?;
        check(
            (heat > 0) == (self.heat_idle_ns > 0),
            "heat_idle_ns",
            self.heat_idle_ns,
            "set both times of heat, or none",
        )
    }

    fn check_pages(&self) -> Result<()> {
        check(
            self.page_bytes.is_power_of_two() && (512..=16 << 20).contains(&self.page_bytes),
            "page_bytes",
            self.page_bytes,
            "use a power of two from 512 to 16 MiB",
        )?;
        let page = u64::from(self.page_bytes);
        for (field, value) in
            [("client_cache_bytes", self.client_cache_bytes), ("server_cache_bytes", self.server_cache_bytes)]
        {
            let pages = value / page;
            check(value == 0 || pages > 0, field, value, "use 0 for no cache, or at least page_bytes")?;
            check(pages < u64::from(u32::MAX) / 2, field, value, "use fewer than 2^31 pages: raise page_bytes")?;
        }
        Ok(())
    }

    fn check_together(&self) -> Result<()> {
        check(
            self.op_overhead_ns + self.latency_ns > 0,
            "op_overhead_ns",
            0,
            "with latency_ns = 0 an operation would take no time; set one of them",
        )?;
        check(
            self.client_cache_bytes == 0 || self.op_overhead_ns > 0 || self.client_cache_bytes_per_s > 0,
            "client_cache_bytes",
            self.client_cache_bytes,
            "a hit would take no time; set op_overhead_ns or client_cache_bytes_per_s",
        )?;
        check(
            self.client_write_back_bytes <= self.client_cache_bytes,
            "client_write_back_bytes",
            self.client_write_back_bytes,
            "use at most client_cache_bytes",
        )?;
        check(
            self.server_read_ahead_bytes <= self.server_cache_bytes / 2,
            "server_read_ahead_bytes",
            self.server_read_ahead_bytes,
            "use at most half of server_cache_bytes",
        )?;
        check(
            !self.server_reads_ahead_early || self.server_read_ahead_bytes >= u64::from(self.page_bytes),
            "server_reads_ahead_early",
            self.server_reads_ahead_early,
            "set server_read_ahead_bytes to a page at least: how far ahead",
        )?;
        let (every, stall) = (self.stall_every_ns, self.stall_ns);
        check((every > 0) == (stall > 0), "stall_ns", stall, "set stall_every_ns and stall_ns, or none of them")?;
        check(every == 0 || stall < every, "stall_ns", stall, "use less than stall_every_ns")?;
        check(
            self.jitter == 0.0 || self.latency_ns > 0,
            "jitter",
            self.jitter,
            "it varies the round trip: set latency_ns",
        )
    }

    fn check_files(&self) -> Result<()> {
        let mut total = 0u64;
        for (i, file) in self.files.iter().enumerate() {
            let named = split_path("configure sim", &file.path)?.next().is_some();
            check(named, &format!("files[{i}].path"), &file.path, "name a file below the root")?;
            check(
                file.len_bytes <= MAX_BYTES,
                &format!("files[{i}].len_bytes"),
                file.len_bytes,
                "use at most 2^50 bytes",
            )?;
            total = total.saturating_add(file.len_bytes);
        }
        check(
            self.capacity_bytes == 0 || total <= self.capacity_bytes,
            "capacity_bytes",
            self.capacity_bytes,
            "the configured files need more",
        )
    }
}

impl BucketConfig {
    fn validate(&self, i: usize) -> Result<()> {
        let name = |field: &str| format!("buckets[{i}].{field}");
        check(
            (1..=MAX_RATE).contains(&self.base_bytes_per_s),
            &name("base_bytes_per_s"),
            self.base_bytes_per_s,
            "use 1 to 10^15",
        )?;
        check(
            self.burst_bytes_per_s > self.base_bytes_per_s && self.burst_bytes_per_s <= MAX_RATE,
            &name("burst_bytes_per_s"),
            self.burst_bytes_per_s,
            "use more than base_bytes_per_s, at most 10^15",
        )?;
        check((1..=MAX_BYTES).contains(&self.size_bytes), &name("size_bytes"), self.size_bytes, "use 1 to 2^50")?;
        check((0.0..=1.0).contains(&self.initial_fill), &name("initial_fill"), self.initial_fill, "use 0 to 1")
    }
}

impl FaultConfig {
    fn validate(&self, i: usize, store_data: bool) -> Result<()> {
        let name = |field: &str| format!("faults[{i}].{field}");
        check((0.0..=1.0).contains(&self.probability), &name("probability"), self.probability, "use 0 to 1")?;
        check(
            self.at_op.is_some() != (self.probability > 0.0),
            &name("at_op"),
            self.at_op.map_or("none".into(), |n| n.to_string()),
            "set either at_op or probability",
        )?;
        let timed = matches!(self.kind, FaultKind::Stall | FaultKind::Freeze);
        check(
            timed == (self.duration_ns > 0) && self.duration_ns <= MAX_NS,
            &name("duration_ns"),
            self.duration_ns,
            "use 1 to 10^15 with kinds stall and freeze, 0 with the others",
        )?;
        check(
            self.errno > 0 && (self.kind == FaultKind::Error || self.errno == errno::EIO),
            &name("errno"),
            self.errno,
            "use a positive errno, and only with kind error",
        )?;
        check(
            self.scope == FaultScope::Session || self.kind == FaultKind::Disconnect,
            &name("scope"),
            "all",
            "use it only with kind disconnect",
        )?;
        check(
            self.kind != FaultKind::Corrupt || store_data,
            &name("kind"),
            "corrupt",
            "it changes stored contents: set store_data = true",
        )?;
        check(
            !matches!(self.kind, FaultKind::Corrupt | FaultKind::Short) || self.op != FaultOp::Flush,
            &name("op"),
            "flush",
            "a flush moves no data: use read, write or any",
        )
    }
}
