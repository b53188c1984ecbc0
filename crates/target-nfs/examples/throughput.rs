//! Throughput and metadata rates of one NFS session, for a quick look while working on the hot path.
//!
//! `throughput OPTIONS_JSON [SECONDS]`, for example
//! `throughput '{"host":"127.0.0.1","port":22049,"path":"/x","version":"4.1"}' 2`. Makes and removes the file
//! `naslab-probe` and the folder `naslab-probe.d`, and refuses when either is there.

use naslab_core::{
    AlignedBuf, Completion, Create, Error, ErrorKind, FileId, Op, OpKind, OpenOptions, Result, Session, Submit, Target,
};
use naslab_target_nfs::{NfsOptions, NfsTarget};
use std::time::{Duration, Instant};

const FILE: &str = "naslab-probe";
const FOLDER: &str = "naslab-probe.d";
const FILE_BYTES: u64 = 256 << 20;
const FILES: u32 = 2000;
const CELLS: [(u32, usize); 6] =
    [(1 << 20, 1), (1 << 20, 8), (64 << 10, 1), (64 << 10, 32), (4 << 10, 1), (4 << 10, 32)];

fn main() {
    if let Err(error) = run() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let usage = || Error::new(ErrorKind::Invalid, "throughput", "usage: throughput OPTIONS_JSON [SECONDS]");
    let text = words.next().ok_or_else(usage)?;
    let mut options: NfsOptions = serde_json::from_str(&text).map_err(|_| usage())?;
    options.depth = options.depth.max(32);
    let seconds: f64 = words.next().map_or(Ok(2.0), |s| s.parse()).map_err(|_| usage())?;
    let target = NfsTarget::new(options)?;
    let mut session = target.connect(0)?;
    for (name, value) in target.facts() {
        println!("{name}: {value}");
    }
    let options = OpenOptions { read: true, write: true, create: Create::New, ..OpenOptions::default() };
    let file = session.open(FILE, &options)?;
    let outcome = cells(&mut *session, file, seconds);
    session.close(file)?;
    session.remove(FILE)?;
    outcome?;
    metadata(&mut *session)?;
    println!("{:?}", session.events());
    Ok(())
}

fn cells(session: &mut dyn Session, file: FileId, seconds: f64) -> Result<()> {
    cell(session, file, OpKind::Write, (1 << 20, 4), 0.0)?;
    for kind in [OpKind::Write, OpKind::Read] {
        for (len, depth) in CELLS {
            cell(session, file, kind, (len, depth), seconds)?;
        }
    }
    Ok(())
}

/// At least once over the file, or for so many seconds.
fn cell(session: &mut dyn Session, file: FileId, kind: OpKind, shape: (u32, usize), seconds: f64) -> Result<()> {
    let (len, depth) = shape;
    let mut memory = AlignedBuf::new(len as usize * depth)?;
    memory.as_mut_slice().iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 31) as u8);
    let mut free: Vec<u32> = (0..depth as u32).collect();
    let mut done: Vec<Completion> = Vec::with_capacity(depth);
    let (mut next, mut ops) = (0u64, 0u64);
    let (cpu, start) = (cpu_seconds(), Instant::now());
    let over = |next: u64| if seconds == 0.0 { next >= FILE_BYTES } else { start.elapsed().as_secs_f64() >= seconds };
    loop {
        while let Some(token) = free.last().copied().filter(|_| !over(next)) {
            let op = Op { kind, file, offset_bytes: next % FILE_BYTES, len_bytes: len, due_ns: None };
            // SAFETY: each token has memory of its own, which outlives the loop that reaps all.
            match unsafe { session.submit(&op, memory.lend(token as usize * len as usize, len as usize), token)? } {
                Submit::Queued => drop(free.pop()),
                _ => break,
            }
            next += u64::from(len);
        }
        if free.len() == depth {
            break;
        }
        session.reap(1, Some(Duration::from_millis(50)), &mut done)?;
        for completion in done.drain(..) {
            if let Some(error) = completion.error {
                return Err(Error::new(error.kind, "operation", format!("status {}", error.status)));
            }
            free.push(completion.token);
            ops += 1;
        }
    }
    let took = start.elapsed().as_secs_f64();
    session.flush(file, Default::default())?;
    let bytes = (ops * u64::from(len)) as f64;
    if seconds > 0.0 {
        let per_gib = (cpu_seconds() - cpu) / (bytes / (1u64 << 30) as f64);
        let name = kind.name();
        println!(
            "{name} {len} q{depth}: {:.0} MB/s {:.0} IOPS, {per_gib:.2} CPU s/GiB",
            bytes / took / 1e6,
            ops as f64 / took
        );
    }
    Ok(())
}

fn metadata(session: &mut dyn Session) -> Result<()> {
    session.mkdir(FOLDER)?;
    let options = OpenOptions { read: true, write: true, create: Create::New, ..OpenOptions::default() };
    let names: Vec<String> = (0..FILES).map(|n| format!("{FOLDER}/f{n}")).collect();
    rate("create+close", || {
        names.iter().try_for_each(|name| session.open(name, &options).and_then(|file| session.close(file)))
    })?;
    rate("stat", || names.iter().try_for_each(|name| session.stat(name).map(drop)))?;
    rate("readdir entries", || {
        let found = session.readdir(FOLDER)?.len();
        assert_eq!(found, names.len());
        Ok(())
    })?;
    rate("remove", || names.iter().try_for_each(|name| session.remove(name)))?;
    session.rmdir(FOLDER)
}

fn rate(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    work()?;
    println!("{name}: {:.0} per s", f64::from(FILES) / start.elapsed().as_secs_f64());
    Ok(())
}

fn cpu_seconds() -> f64 {
    // SAFETY: all-zero is a valid rusage, and the call fills it in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
