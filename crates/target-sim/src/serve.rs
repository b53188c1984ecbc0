//! Stages on the server's side: CPU, cache, write-back, disk.

use crate::faults::Fault;
use crate::resource::Flow;
use crate::server::{Job, Kind, Next, Stage, State};
use naslab_core::errno;

/// A read that continues another one may have overtaken so many like it.
const OVERTAKEN: u64 = 16;

impl State {
    /// Waits for the server's CPU.
    pub(crate) fn arrive(&mut self, id: u32, now_ns: u64) -> Next {
        let more = match self.job(id).kind {
            Kind::Meta(more) => more,
            _ => 0,
        };
        let done = self.cpu.hold(now_ns, self.config.server_op_ns + more);
        Next::At(done, Stage::Serve)
    }

    /// Carries the request out, or the fault it drew.
    pub(crate) fn serve(&mut self, id: u32, now_ns: u64) -> Next {
        let job = *self.job(id);
        if let Some(fault) = self.job_mut(id).fault.take() {
            return self.inject(id, fault, now_ns);
        }
        let Kind::Meta(_) = job.kind else {
            return self.lock_file(&job, now_ns);
        };
        Next::At(now_ns, Stage::Reply)
    }

    /// Waits for the file's lock, and holds it for its time: reads and writes of one file one after another.
    fn lock_file(&mut self, job: &Job, now_ns: u64) -> Next {
        let hold_ns = self.config.file_lock_ns;
        if hold_ns == 0 || job.kind == Kind::Flush {
            return Next::At(now_ns, Stage::Unlocked);
        }
        let Some(file) = self.file_of(job.file, job.generation) else {
            return Next::At(now_ns, Stage::Unlocked);
        };
        file.unlocked_ns = file.unlocked_ns.max(now_ns).saturating_add(hold_ns);
        Next::At(file.unlocked_ns, Stage::Unlocked)
    }

    /// Carries a request on a file out.
    pub(crate) fn unlocked(&mut self, id: u32, now_ns: u64) -> Next {
        match self.file_len(self.job(id)) {
            None => self.refuse(id, errno::ESTALE, now_ns),
            Some(len) => self.serve_file(id, len, now_ns),
        }
    }

    fn serve_file(&mut self, id: u32, file_len: u64, now_ns: u64) -> Next {
        match self.job(id).kind {
            Kind::Read => self.serve_read(id, file_len, now_ns),
            Kind::Flush => self.serve_flush(id, now_ns),
            _ => self.serve_write(id, now_ns),
        }
    }

    fn refuse(&mut self, id: u32, errno: i32, now_ns: u64) -> Next {
        self.job_mut(id).fail(errno);
        Next::At(now_ns, Stage::Reply)
    }

    fn inject(&mut self, id: u32, fault: Fault, now_ns: u64) -> Next {
        match fault {
            Fault::Error(errno) => self.refuse(id, errno, now_ns),
            Fault::Stall(ns) => Next::At(now_ns.saturating_add(ns), Stage::Serve),
            Fault::Freeze(ns) => {
                let until = now_ns.saturating_add(ns);
                self.cpu.block(until);
                self.memory.block(until);
                self.disk.block(until);
                Next::At(until, Stage::Serve)
            }
            Fault::Disconnect { all } => {
                let session = self.job(id).session;
                self.disconnect((!all).then_some(session));
                Next::Done
            }
            // These two were settled when the operation was submitted.
            Fault::Short | Fault::Corrupt => Next::At(now_ns, Stage::Serve),
        }
    }

    fn serve_read(&mut self, id: u32, file_len: u64, now_ns: u64) -> Next {
        let mut job = *self.job(id);
        job.settle_read(file_len);
        let (offset, len) = job.ask;
        job.payload = len.min(file_len.saturating_sub(offset));
        let follows = self.follows(&job);
        let loaded = if job.payload == 0 {
            now_ns
        } else if self.server_cache.on() {
            self.cached_read(&mut job, file_len, now_ns)
        } else {
            self.disk_read(job.file, offset, job.payload, now_ns)
        };
        if let Some(file) = self.tree.file_mut(job.file) {
            let end = offset + job.payload;
            file.next_read = if follows { end.max(file.next_read) } else { end };
            if !follows {
                file.ahead.clear();
            }
        }
        *self.job_mut(id) = job;
        Next::At(loaded, Stage::Loaded)
    }

    /// Whether a read continues what a server that reads ahead early has fetched for.
    fn follows(&self, job: &Job) -> bool {
        let next = self.tree.file(job.file).map_or(0, |f| f.next_read);
        self.config.server_reads_ahead_early && next.abs_diff(job.ask.0) <= OVERTAKEN * job.payload
    }

    fn disk_read(&mut self, file: u32, offset: u64, len: u64, now_ns: u64) -> u64 {
        self.disk.request(now_ns, Flow::Read, (file, offset), len, &mut self.stats)
    }

    /// Takes pages from the cache and the missing ones, as whole pages, from the disk; returns when
    /// both are there.
    fn cached_read(&mut self, job: &mut Job, file_len: u64, now_ns: u64) -> u64 {
        let page = u64::from(self.config.page_bytes);
        let (offset, asked_end) = (job.ask.0, job.ask.0 + job.payload);
        let (first, end) = self.pages(offset, job.payload);
        let mut runs = std::mem::take(&mut self.runs);
        runs.clear();
        self.server_cache.look_up(job.file, first, end, &mut runs);
        job.fill = (first, end);
        let missed = |r: &(u64, u64)| asked_end.min(r.1 * page) - offset.max(r.0 * page);
        let hit = job.payload - runs.iter().map(missed).sum::<u64>();
        let waits = !self.config.server_reads_ahead_early;
        let sequential = self.tree.file(job.file).map(|f| f.next_read) == Some(offset);
        if let Some(last) = runs.last_mut().filter(|r| r.1 == end && sequential && waits) {
            last.1 += self.config.server_read_ahead_bytes / page;
            job.fill.1 = last.1.min(file_len.div_ceil(page));
        }
        let mut loaded = now_ns;
        if hit > 0 {
            self.stats.server_cache_read_bytes += hit;
            let rate = self.config.server_cache_bytes_per_s;
            loaded = self.memory.send(now_ns, hit, rate);
        }
        loaded = loaded.max(match self.follows(job) {
            true => self.follow(job.file, file_len, end, &runs, now_ns),
            false => self.fetch(job.file, file_len, &runs, now_ns),
        });
        self.runs = runs;
        loaded
    }

    /// Reads runs of pages from the disk; returns when they are there.
    fn fetch(&mut self, file: u32, file_len: u64, runs: &[(u64, u64)], now_ns: u64) -> u64 {
        let page = u64::from(self.config.page_bytes);
        let mut loaded = now_ns;
        for &(from, to) in runs.iter().filter(|run| run.0 < run.1) {
            let (from, to) = (from * page, (to * page).min(file_len));
            loaded = loaded.max(self.disk_read(file, from, to - from, now_ns));
        }
        loaded
    }

    /// Answers a sequential reader who lacks `runs` of the pages before `end`, and asks for those behind; returns when
    /// the runs are there. As Linux does, it goes on once half of what is ahead has been read.
    fn follow(&mut self, file: u32, file_len: u64, end: u64, runs: &[(u64, u64)], now_ns: u64) -> u64 {
        let Some(&(first, _)) = runs.first() else { return now_ns };
        self.ask_ahead(file, file_len, (first, end), now_ns);
        let mut loaded = now_ns;
        for &(from, to) in runs {
            let (asked, there) = self.tree.file(file).map_or((0, 0), |f| f.ahead.of(from, to));
            loaded = loaded.max(there).max(self.fetch(file, file_len, &[(from + asked, to)], now_ns));
        }
        let page = u64::from(self.config.page_bytes);
        let (ahead, last) = (self.config.server_read_ahead_bytes / page, file_len.div_ceil(page));
        let asked = self.tree.file(file).map_or(end, |f| f.ahead.end().max(end));
        let to = (end + ahead).min(last);
        if asked < to && (to - asked >= ahead / 2 || to == last) {
            self.ask_ahead(file, file_len, (asked, to), now_ns);
        }
        loaded
    }

    /// Asks the disk for those of these pages that the cache lacks and that nobody has asked for yet.
    fn ask_ahead(&mut self, file: u32, file_len: u64, (first, end): (u64, u64), now_ns: u64) {
        let asked = self.tree.file(file).map_or(0, |f| f.ahead.end());
        let from = if asked > 0 { asked } else { first };
        let mut runs = Vec::new();
        self.server_cache.look_up(file, from, end, &mut runs);
        if !runs.is_empty() {
            let there = self.fetch(file, file_len, &runs, now_ns);
            if let Some(file) = self.tree.file_mut(file) {
                file.ahead.push(from, end, there);
            }
        }
    }

    /// The data is there: it stays in the server's cache, and goes out.
    pub(crate) fn loaded(&mut self, id: u32, now_ns: u64) -> Next {
        let job = *self.job(id);
        if self.file_len(&job).is_some() {
            self.server_cache.insert(job.file, job.fill.0, job.fill.1);
        }
        Next::At(now_ns, Stage::Reply)
    }

    /// Makes the file long enough for a write.
    pub(crate) fn grow(&mut self, job: &Job) -> std::result::Result<(), i32> {
        if self.file_len(job).is_none() {
            return Err(errno::ESTALE);
        }
        self.tree.grow(job.file, job.offset.saturating_add(job.len))
    }

    fn serve_write(&mut self, id: u32, now_ns: u64) -> Next {
        let job = *self.job(id);
        // Bytes the client sends back by itself had their room since they were written.
        if job.kind == Kind::Write {
            if let Err(errno) = self.grow(&job) {
                return self.refuse(id, errno, now_ns);
            }
        }
        if job.len == 0 {
            return Next::At(now_ns, Stage::Reply);
        }
        if self.server_held.on() && !job.durable {
            if !self.server_held.admit(id, job.len) {
                return Next::Wait;
            }
            return self.server_take(id, now_ns);
        }
        self.keep_written(&job);
        self.job_mut(id).bytes = job.len;
        let place = (job.file, job.offset);
        let written = self.disk.request(now_ns, Flow::Write, place, job.len, &mut self.stats);
        Next::At(written, Stage::Reply)
    }

    fn keep_written(&mut self, job: &Job) {
        let (first, end) = self.pages(job.offset, job.len);
        self.server_cache.insert(job.file, first, end);
    }

    /// Takes an unstable write into the server's memory.
    fn server_take(&mut self, id: u32, now_ns: u64) -> Next {
        let job = *self.job(id);
        self.keep_written(&job);
        self.server_held.take(job.extent());
        let most = &mut self.stats.server_dirty_bytes_max;
        *most = (*most).max(self.server_held.held());
        if let Some(file) = self.file_of(job.file, job.generation) {
            file.server_in += job.len;
        }
        self.job_mut(id).bytes = job.len;
        self.drain(now_ns);
        let rate = self.config.server_cache_bytes_per_s;
        Next::At(self.memory.send(now_ns, job.len, rate), Stage::Reply)
    }

    /// Starts putting the oldest held bytes on the disk, one request at a time.
    fn drain(&mut self, now_ns: u64) {
        if self.draining.is_some() {
            return;
        }
        if let Some(extent) = self.server_held.next() {
            self.draining = Some(extent);
            let alive = self.tree.generation(extent.file) == extent.generation;
            let done = if alive {
                let place = (extent.file, extent.offset);
                self.disk.request(now_ns, Flow::Write, place, extent.len, &mut self.stats)
            } else {
                now_ns // The file was removed: nothing to write.
            };
            self.schedule_drain(done);
        }
    }

    /// Held bytes are on the disk: their room is free.
    pub(crate) fn drained(&mut self, now_ns: u64) {
        let Some(extent) = self.draining.take() else {
            return;
        };
        self.server_held.gone(extent.len);
        if let Some(file) = self.file_of(extent.file, extent.generation) {
            file.server_out += extent.len;
        }
        self.drain(now_ns);
        while let Some(id) = self.server_held.wake() {
            if self.job(id).dead {
                self.free_job(id);
            } else if let Next::At(at, stage) = self.wake_write(id, now_ns) {
                self.schedule(id, at, stage);
            }
        }
        self.wake_server_flushes(now_ns);
    }

    fn wake_write(&mut self, id: u32, now_ns: u64) -> Next {
        if self.file_len(self.job(id)).is_none() {
            return self.refuse(id, errno::ESTALE, now_ns);
        }
        self.server_take(id, now_ns)
    }

    /// A flush waits until everything the server held of the file is on the disk; of a server that lies, not.
    fn serve_flush(&mut self, id: u32, now_ns: u64) -> Next {
        let file = self.tree.file(self.job(id).file);
        self.job_mut(id).target = file.map_or(0, |f| f.server_in);
        if self.config.flush_ignored || self.server_is_clean(id) {
            return Next::At(now_ns, Stage::Reply);
        }
        self.server_held.flushes.push(id);
        Next::Wait
    }

    fn server_is_clean(&self, id: u32) -> bool {
        let job = self.job(id);
        let out = self.tree.file(job.file).map(|f| f.server_out);
        job.dead || self.file_len(job).is_none() || out >= Some(job.target)
    }

    fn wake_server_flushes(&mut self, now_ns: u64) {
        let mut flushes = std::mem::take(&mut self.server_held.flushes);
        flushes.retain(|&id| {
            let clean = self.server_is_clean(id);
            if clean {
                self.schedule(id, now_ns, Stage::Reply);
            }
            !clean
        });
        self.server_held.flushes = flushes;
    }
}
