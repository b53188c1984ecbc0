//! Stages on the client's side: its cache, its write-back, and the link.

use crate::fs::File;
use crate::resource::{Flow, Work};
use crate::server::{Job, Kind, Next, Stage, State};

/// Messages of the client's write-back under way at once.
const SEND_BACK_DEPTH: u32 = 16;

impl State {
    /// The client's CPU time is spent: the cache answers, or a message goes out.
    pub(crate) fn issued(&mut self, id: u32, now_ns: u64) -> Next {
        let job = *self.job(id);
        match job.kind {
            Kind::Refused => Next::At(now_ns, Stage::Finish),
            Kind::Read if !job.bypass => self.client_read(id, now_ns),
            Kind::Write if !job.bypass && self.client_held.on() => self.client_write(id, now_ns),
            Kind::Write if job.bypass && self.client_cache.on() => {
                let (first, end) = self.pages(job.offset, job.len);
                self.client_cache.remove(job.file, first, end);
                self.ask_for(id, job.offset, job.len, now_ns)
            }
            Kind::Flush | Kind::WriteOut => self.client_flush(id, now_ns),
            _ => self.ask_for(id, job.offset, job.len, now_ns),
        }
    }

    fn ask_for(&mut self, id: u32, offset: u64, len: u64, now_ns: u64) -> Next {
        self.job_mut(id).ask = (offset, len);
        Next::At(now_ns, Stage::Send)
    }

    /// The pages that hold these bytes: first, and one past the last.
    pub(crate) fn pages(&self, offset: u64, len: u64) -> (u64, u64) {
        let page = u64::from(self.config.page_bytes);
        if len == 0 {
            return (offset / page, offset / page);
        }
        (offset / page, offset.saturating_add(len).div_ceil(page))
    }

    /// Length of a job's file, if it is still the same file.
    pub(crate) fn file_len(&self, job: &Job) -> Option<u64> {
        let same = self.tree.generation(job.file) == job.generation;
        self.tree.file(job.file).filter(|_| same).map(|f| f.len)
    }

    /// A job's file, if it is still the same file.
    pub(crate) fn file_of(&mut self, file: u32, generation: u32) -> Option<&mut File> {
        let same = self.tree.generation(file) == generation;
        self.tree.file_mut(file).filter(|_| same)
    }

    /// Answers a read from the client's cache, or asks for the span of whole pages that misses.
    fn client_read(&mut self, id: u32, now_ns: u64) -> Next {
        let mut job = *self.job(id);
        let file_len = self.file_len(&job).unwrap_or(0);
        let available = job.len.min(file_len.saturating_sub(job.offset));
        if available == 0 {
            return self.ask_for(id, job.offset, job.len, now_ns);
        }
        let (first, end) = self.pages(job.offset, available);
        self.runs.clear();
        self.client_cache.look_up(job.file, first, end, &mut self.runs);
        let (Some(head), Some(tail)) = (self.runs.first(), self.runs.last()) else {
            job.settle_read(file_len);
            *self.job_mut(id) = job;
            self.stats.client_cache_read_bytes += available;
            let rate = self.config.client_cache_bytes_per_s;
            let copied = self.client_memory.send(now_ns, available, rate);
            return Next::At(copied, Stage::Finish);
        };
        let page = u64::from(self.config.page_bytes);
        let (from, to) = (head.0 * page, tail.1 * page);
        let asked = to.min(job.offset + available) - from.max(job.offset);
        self.stats.client_cache_read_bytes += available - asked;
        self.ask_for(id, from, to - from, now_ns)
    }

    /// Takes a buffered write into the client's memory, when there is room.
    fn client_write(&mut self, id: u32, now_ns: u64) -> Next {
        let job = *self.job(id);
        if let Err(errno) = self.grow(&job) {
            self.job_mut(id).fail(errno);
            return Next::At(now_ns, Stage::Finish);
        }
        if !self.client_held.admit(id, job.len) {
            return Next::Wait;
        }
        self.client_take(id, now_ns)
    }

    fn client_take(&mut self, id: u32, now_ns: u64) -> Next {
        let job = *self.job(id);
        self.client_held.take(job.extent());
        if let Some(file) = self.file_of(job.file, job.generation) {
            file.client_in += job.len;
        }
        self.job_mut(id).bytes = job.len;
        self.send_back(now_ns);
        let rate = self.config.client_cache_bytes_per_s;
        let copied = self.client_memory.send(now_ns, job.len, rate);
        Next::At(copied, Stage::Finish)
    }

    /// Starts sending held bytes on, a few messages at a time.
    fn send_back(&mut self, now_ns: u64) {
        while self.sending_back < SEND_BACK_DEPTH {
            let Some(extent) = self.client_held.next() else {
                return;
            };
            let mut job = Job::new(Kind::SendBack, extent.session);
            job.file = extent.file;
            job.generation = extent.generation;
            job.offset = extent.offset;
            job.len = extent.len;
            job.ask = (extent.offset, extent.len);
            self.sending_back += 1;
            self.add_job(job, now_ns, Stage::Send);
        }
    }

    /// Held bytes have reached the server: their room is free.
    fn sent_back(&mut self, job: &Job, now_ns: u64) -> Next {
        self.sending_back -= 1;
        self.client_held.gone(job.len);
        if let Some(file) = self.file_of(job.file, job.generation) {
            file.client_out += job.len;
        }
        while let Some(id) = self.client_held.wake() {
            if self.job(id).dead {
                self.free_job(id);
            } else if let Next::At(at, stage) = self.client_take(id, now_ns) {
                self.schedule(id, at, stage);
            }
        }
        self.wake_client_flushes(now_ns);
        self.send_back(now_ns);
        Next::Done
    }

    /// A flush goes out once the client holds nothing more that was written before it.
    fn client_flush(&mut self, id: u32, now_ns: u64) -> Next {
        let job = *self.job(id);
        let file = self.tree.file(job.file);
        self.job_mut(id).target = file.map_or(0, |f| f.client_in);
        if self.client_is_clean(id) {
            return Next::At(now_ns, after_client_flush(&job));
        }
        self.client_held.flushes.push(id);
        Next::Wait
    }

    fn client_is_clean(&self, id: u32) -> bool {
        let job = self.job(id);
        let out = self.tree.file(job.file).map(|f| f.client_out);
        job.dead || self.file_len(job).is_none() || out >= Some(job.target)
    }

    fn wake_client_flushes(&mut self, now_ns: u64) {
        let mut flushes = std::mem::take(&mut self.client_held.flushes);
        flushes.retain(|&id| {
            let clean = self.client_is_clean(id);
            if clean {
                let stage = after_client_flush(self.job(id));
                self.schedule(id, now_ns, stage);
            }
            !clean
        });
        self.client_held.flushes = flushes;
    }

    /// Bytes of data that a request carries.
    fn sent_data(job: &Job) -> u64 {
        match job.kind {
            Kind::Write | Kind::SendBack => job.ask.1,
            _ => 0,
        }
    }

    /// Lets the request through its session's window.
    pub(crate) fn send(&mut self, id: u32, now_ns: u64) -> Next {
        let job = *self.job(id);
        let bytes = self.config.header_bytes + Self::sent_data(&job);
        let window = &mut self.peers[job.session as usize].up;
        Next::At(window.send(now_ns, bytes, self.config.connection_bytes_per_s), Stage::Depart)
    }

    /// Puts the request onto the link; it arrives half a round trip after it has left.
    pub(crate) fn depart(&mut self, id: u32, now_ns: u64) -> Next {
        let job = *self.job(id);
        let data = Self::sent_data(&job);
        let bytes = self.config.header_bytes + data;
        let work = Work::new(bytes, self.config.link_rate(), Flow::Write);
        let taking = if data > 0 { &mut self.link_buckets[..] } else { &mut [] };
        let left = self.up.serve(now_ns, &work, taking);
        self.stats.uplink_bytes += bytes;
        self.peers[job.session as usize].wire.sent_bytes += bytes;
        let trip = self.jitter.lognormal_ns(self.config.latency_ns, self.config.jitter);
        self.job_mut(id).reply_ns = trip - trip / 2;
        Next::At(left.saturating_add(trip / 2), Stage::Arrive)
    }

    /// Lets the answer through its session's window.
    pub(crate) fn reply(&mut self, id: u32, now_ns: u64) -> Next {
        let job = *self.job(id);
        let bytes = self.config.header_bytes + job.payload;
        let window = &mut self.peers[job.session as usize].down;
        Next::At(window.send(now_ns, bytes, self.config.connection_bytes_per_s), Stage::Return)
    }

    /// Puts the answer onto the link back.
    pub(crate) fn go_back(&mut self, id: u32, now_ns: u64) -> Next {
        let job = *self.job(id);
        let bytes = self.config.header_bytes + job.payload;
        let work = Work::new(bytes, self.config.link_rate(), Flow::Read);
        let taking = if job.payload > 0 { &mut self.link_buckets[..] } else { &mut [] };
        let left = self.down.serve(now_ns, &work, taking);
        self.stats.downlink_bytes += bytes;
        self.peers[job.session as usize].wire.received_bytes += bytes;
        Next::At(left.saturating_add(job.reply_ns), Stage::Finish)
    }

    /// The client has its answer. No operation takes less than a nanosecond.
    pub(crate) fn finish(&mut self, id: u32, now_ns: u64) -> Next {
        let job = *self.job(id);
        if job.kind == Kind::SendBack {
            return self.sent_back(&job, now_ns);
        }
        if now_ns <= job.started_ns {
            return Next::At(job.started_ns + 1, Stage::Finish);
        }
        let moved = matches!(job.kind, Kind::Read | Kind::Write) && job.bytes > 0;
        if moved && !job.bypass && self.file_len(&job).is_some() {
            let (first, end) = self.pages(job.offset, job.bytes);
            self.client_cache.insert(job.file, first, end);
        }
        self.complete(id)
    }
}

fn after_client_flush(job: &Job) -> Stage {
    match job.kind {
        Kind::WriteOut => Stage::Finish,
        _ => Stage::Send,
    }
}
