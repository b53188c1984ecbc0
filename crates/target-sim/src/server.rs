//! The state all sessions share, and the event loop over it.
//!
//! An operation is a job that goes from stage to stage. A stage reserves time in one queue and names
//! the next stage and when it starts; jobs that are due at different times wait in one heap, so every
//! queue sees its requests in the order of their arrival. A stage that takes no time is entered at once.

use crate::cache::PageCache;
use crate::config::{BucketScope, SimConfig};
use crate::disk::{buckets, Disk};
use crate::faults::{Fault, Faults};
use crate::fs::Tree;
use crate::noise::{Noise, RateNoise};
use crate::resource::{Bucket, Queue};
use crate::stalls::Stalls;
use crate::stats::SimStats;
use crate::writeback::{Extent, WriteBack};
use naslab_core::{errno, Clock, Completion, ErrorKind, IoBuf, OpError, Result, Token, WireCounters};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Event of the server's write-back instead of a job.
const DRAIN: u32 = u32::MAX;

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    Flush,
    /// A metadata call that takes this much more server CPU time.
    Meta(u64),
    /// The client sends held bytes on by itself.
    SendBack,
    /// Waits until the client holds no more of the file.
    WriteOut,
    /// Refused by the client.
    Refused,
}

/// Where a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Has the client's CPU time behind it.
    Issued,
    /// Goes out, through its session's window.
    Send,
    /// Goes onto the link.
    Depart,
    /// Has reached the server.
    Arrive,
    /// Has the server's CPU time behind it.
    Serve,
    /// Has had its file's lock.
    Unlocked,
    /// The disk or the memory has delivered.
    Loaded,
    /// The answer goes out, through its session's window.
    Reply,
    /// The answer goes onto the link.
    Return,
    /// The answer has reached the client.
    Finish,
    /// A blocking call may go on.
    Finished,
}

/// What comes after a stage.
pub(crate) enum Next {
    At(u64, Stage),
    /// Somebody else goes on with it.
    Wait,
    /// Through; or dead.
    Done,
}

/// An operation under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) kind: Kind,
    pub(crate) stage: Stage,
    pub(crate) session: u32,
    pub(crate) token: Token,
    pub(crate) file: u32,
    pub(crate) generation: u32,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) buf: IoBuf,
    pub(crate) started_ns: u64,
    /// The way back of the round trip.
    pub(crate) reply_ns: u64,
    /// Around the client's cache.
    pub(crate) bypass: bool,
    /// A write that is durable before it is answered.
    pub(crate) durable: bool,
    pub(crate) fault: Option<Fault>,
    pub(crate) corrupt: bool,
    /// Bytes asked of the server: offset and length.
    pub(crate) ask: (u64, u64),
    /// Bytes of the answer's data.
    pub(crate) payload: u64,
    /// Pages the server's cache gets when the disk has delivered.
    pub(crate) fill: (u64, u64),
    /// How much of the file must be gone before a flush goes on.
    pub(crate) target: u64,
    pub(crate) bytes: u64,
    pub(crate) error: Option<OpError>,
    /// The session waits for it inside a call.
    pub(crate) blocking: bool,
    /// Its session is gone: forget it when it next comes up.
    pub(crate) dead: bool,
    /// Under way; otherwise its place is free.
    live: bool,
}

impl Job {
    pub(crate) fn new(kind: Kind, session: u32) -> Job {
        Job {
            kind,
            stage: Stage::Issued,
            session,
            token: 0,
            file: 0,
            generation: 0,
            offset: 0,
            len: 0,
            buf: IoBuf::empty(),
            started_ns: 0,
            reply_ns: 0,
            bypass: true,
            durable: false,
            fault: None,
            corrupt: false,
            ask: (0, 0),
            payload: 0,
            fill: (0, 0),
            target: 0,
            bytes: 0,
            error: None,
            blocking: false,
            dead: false,
            live: true,
        }
    }

    /// The written bytes, for write-back.
    pub(crate) fn extent(&self) -> Extent {
        Extent {
            file: self.file,
            generation: self.generation,
            session: self.session,
            offset: self.offset,
            len: self.len,
        }
    }

    /// Ends with an errno and no bytes moved.
    pub(crate) fn fail(&mut self, errno: i32) {
        self.error = Some(OpError::from_errno(errno));
        self.bytes = 0;
        self.payload = 0;
    }

    /// Settles how much of the file is read: less than asked for meets the end.
    pub(crate) fn settle_read(&mut self, file_len: u64) {
        self.bytes = self.len.min(file_len.saturating_sub(self.offset));
        if self.bytes < self.len {
            self.error = Some(OpError { kind: ErrorKind::Short, status: 0 });
        }
    }
}

/// An open file of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    pub(crate) file: u32,
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) bypass: bool,
    pub(crate) durable: bool,
}

/// A session as the server state sees it.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    pub(crate) gone: bool,
    pub(crate) cpu: Queue,
    /// Client CPU time asked for, in nanoseconds: spent, but for what `cpu` has still to do.
    pub(crate) cpu_ns: u64,
    /// The connection's window, each direction for itself.
    pub(crate) up: Queue,
    pub(crate) down: Queue,
    pub(crate) files: Vec<Option<Open>>,
    pub(crate) done: VecDeque<Job>,
    pub(crate) outstanding: u32,
    pub(crate) wire: WireCounters,
}

/// The simulated server, its clients' shared caches, and the events under way.
pub(crate) struct State {
    pub(crate) config: SimConfig,
    pub(crate) clock: Clock,
    pub(crate) tree: Tree,
    pub(crate) stats: SimStats,
    pub(crate) peers: Vec<Peer>,
    pub(crate) faults: Faults,
    pub(crate) jitter: Noise,
    pub(crate) client_cache: PageCache,
    pub(crate) client_memory: Queue,
    pub(crate) client_held: WriteBack,
    /// Messages of the client's write-back under way.
    pub(crate) sending_back: u32,
    pub(crate) up: Queue,
    pub(crate) down: Queue,
    pub(crate) link_buckets: Vec<Bucket>,
    pub(crate) cpu: Queue,
    pub(crate) memory: Queue,
    pub(crate) server_cache: PageCache,
    pub(crate) server_held: WriteBack,
    /// The extent the server is putting on the disk.
    pub(crate) draining: Option<Extent>,
    pub(crate) disk: Disk,
    /// Scratch: runs of missing pages.
    pub(crate) runs: Vec<(u64, u64)>,
    jobs: Vec<Job>,
    free_jobs: Vec<u32>,
    events: BinaryHeap<Reverse<(u64, u64, u32)>>,
    event_number: u64,
}

impl State {
    pub(crate) fn new(config: SimConfig) -> Result<State> {
        let page = u64::from(config.page_bytes);
        let mut tree = Tree::new(config.capacity_bytes, config.store_data);
        for file in &config.files {
            tree.plant(&file.path, file.len_bytes)?;
        }
        let link = |stream| {
            let noise = Noise::new(config.seed, stream);
            Queue::noisy(RateNoise::new(noise, config.link_noise, config.noise_memory, config.noise_span_ns))
        };
        let (up, down) = (link(3), link(4));
        let stalls = Stalls::new(&config);
        Ok(State {
            clock: Clock::new_virtual(),
            tree,
            stats: SimStats::default(),
            peers: Vec::new(),
            faults: Faults::new(&config.faults, config.seed),
            jitter: Noise::new(config.seed, 1),
            client_cache: PageCache::new(config.client_cache_bytes / page),
            client_memory: Queue::default(),
            client_held: WriteBack::new(config.client_write_back_bytes),
            sending_back: 0,
            up,
            down,
            link_buckets: buckets(&config.buckets, BucketScope::Link),
            cpu: Queue::default().with(stalls),
            memory: Queue::default().with(stalls),
            server_cache: PageCache::new(config.server_cache_bytes / page),
            server_held: WriteBack::new(config.write_back_bytes),
            draining: None,
            disk: Disk::new(&config),
            runs: Vec::new(),
            jobs: Vec::new(),
            free_jobs: Vec::new(),
            events: BinaryHeap::new(),
            event_number: 0,
            config,
        })
    }

    pub(crate) fn stats(&self) -> SimStats {
        SimStats {
            client_dirty_bytes: self.client_held.held(),
            server_dirty_bytes: self.server_held.held(),
            client_evicted_pages: self.client_cache.evicted(),
            server_evicted_pages: self.server_cache.evicted(),
            ..self.stats
        }
    }

    pub(crate) fn job(&self, id: u32) -> &Job {
        &self.jobs[id as usize]
    }

    pub(crate) fn job_mut(&mut self, id: u32) -> &mut Job {
        &mut self.jobs[id as usize]
    }

    /// Adds a job that enters `stage` at `at_ns`.
    pub(crate) fn add_job(&mut self, job: Job, at_ns: u64, stage: Stage) -> u32 {
        let id = match self.free_jobs.pop() {
            Some(id) => {
                self.jobs[id as usize] = job;
                id
            }
            None => {
                self.jobs.push(job);
                (self.jobs.len() - 1) as u32
            }
        };
        self.schedule(id, at_ns, stage);
        id
    }

    pub(crate) fn free_job(&mut self, id: u32) {
        let job = &mut self.jobs[id as usize];
        job.live = false;
        job.buf = IoBuf::empty();
        self.free_jobs.push(id);
    }

    pub(crate) fn schedule(&mut self, id: u32, at_ns: u64, stage: Stage) {
        self.jobs[id as usize].stage = stage;
        self.push_event(at_ns, id);
    }

    /// The server's write-back goes on at `at_ns`.
    pub(crate) fn schedule_drain(&mut self, at_ns: u64) {
        self.push_event(at_ns, DRAIN);
    }

    fn push_event(&mut self, at_ns: u64, id: u32) {
        self.event_number += 1;
        self.events.push(Reverse((at_ns, self.event_number, id)));
    }

    /// Starts a session's operation: first the client's CPU time.
    pub(crate) fn start(&mut self, mut job: Job, now_ns: u64) -> u32 {
        job.started_ns = now_ns;
        let peer = &mut self.peers[job.session as usize];
        peer.cpu_ns += self.config.op_overhead_ns;
        let issued = peer.cpu.hold(now_ns, self.config.op_overhead_ns);
        self.add_job(job, issued, Stage::Issued)
    }

    pub(crate) fn next_event_ns(&self) -> Option<u64> {
        self.events.peek().map(|Reverse((at, _, _))| *at)
    }

    /// Carries out everything that is due by `now_ns`.
    pub(crate) fn run_until(&mut self, now_ns: u64) {
        while self.next_event_ns().is_some_and(|at| at <= now_ns) {
            self.run_one();
        }
    }

    /// Carries out the next event; returns its time.
    fn run_one(&mut self) -> Option<u64> {
        let Reverse((at, _, id)) = self.events.pop()?;
        if id == DRAIN {
            self.drained(at);
        } else {
            self.advance(id, at);
        }
        Some(at)
    }

    /// Moves a job on until it has to wait.
    fn advance(&mut self, id: u32, now_ns: u64) {
        if self.job(id).dead {
            return self.free_job(id);
        }
        loop {
            let next = match self.job(id).stage {
                Stage::Issued => self.issued(id, now_ns),
                Stage::Send => self.send(id, now_ns),
                Stage::Depart => self.depart(id, now_ns),
                Stage::Arrive => self.arrive(id, now_ns),
                Stage::Serve => self.serve(id, now_ns),
                Stage::Unlocked => self.unlocked(id, now_ns),
                Stage::Loaded => self.loaded(id, now_ns),
                Stage::Reply => self.reply(id, now_ns),
                Stage::Return => self.go_back(id, now_ns),
                Stage::Finish => self.finish(id, now_ns),
                Stage::Finished => Next::Wait,
            };
            match next {
                Next::At(at, stage) if at > now_ns => return self.schedule(id, at, stage),
                Next::At(_, stage) => self.job_mut(id).stage = stage,
                Next::Wait => return,
                Next::Done => return self.free_job(id),
            }
        }
    }

    /// Hands a finished job to its session.
    pub(crate) fn complete(&mut self, id: u32) -> Next {
        let job = self.jobs[id as usize];
        if job.blocking {
            self.job_mut(id).stage = Stage::Finished;
            return Next::Wait;
        }
        self.peers[job.session as usize].done.push_back(job);
        Next::Done
    }

    /// Carries a blocking call out, moving the clock. The result is its errno, if it failed.
    pub(crate) fn block_on(&mut self, mut job: Job) -> std::result::Result<(), i32> {
        job.blocking = true;
        let session = job.session as usize;
        let now = self.clock.now_ns();
        self.run_until(now);
        if self.peers[session].gone {
            return Err(errno::ECONNRESET);
        }
        let id = self.start(job, now);
        while self.job(id).stage != Stage::Finished {
            let Some(at) = self.run_one() else {
                return Err(errno::EDEADLK);
            };
            self.clock.advance_to(at);
            if self.peers[session].gone {
                return Err(errno::ECONNRESET);
            }
        }
        let error = self.job(id).error;
        self.free_job(id);
        error.map_or(Ok(()), |e| Err(e.status as i32))
    }

    /// Cuts sessions off: what they have outstanding fails now. The client's own write-back goes on.
    pub(crate) fn disconnect(&mut self, session: Option<u32>) {
        let hit = |number: u32| session.unwrap_or(number) == number;
        for (number, peer) in self.peers.iter_mut().enumerate() {
            peer.gone |= hit(number as u32);
        }
        for job in &mut self.jobs {
            if !hit(job.session) || job.dead || !job.live || job.kind == Kind::SendBack {
                continue;
            }
            job.dead = true;
            if !job.blocking {
                let mut failed = *job;
                failed.fail(errno::ECONNRESET);
                self.peers[job.session as usize].done.push_back(failed);
            }
        }
    }

    /// Forgets a session: nothing of it touches its buffers any more.
    pub(crate) fn drop_session(&mut self, session: u32) {
        for job in &mut self.jobs {
            if job.session == session && job.kind != Kind::SendBack {
                job.dead = true;
            }
        }
        let peer = std::mem::take(&mut self.peers[session as usize]);
        self.peers[session as usize].gone = true;
        for open in peer.files.into_iter().flatten() {
            self.tree.release(open.file);
        }
        self.purge_freed();
    }

    /// Drops cached pages of files that are gone.
    pub(crate) fn purge_freed(&mut self) {
        while let Some(file) = self.tree.take_freed() {
            self.client_cache.remove(file, 0, u64::MAX);
            self.server_cache.remove(file, 0, u64::MAX);
        }
    }

    /// The completion of a finished job.
    pub(crate) fn completion(job: &Job) -> Completion {
        Completion { token: job.token, bytes: job.bytes as u32, error: job.error }
    }
}
