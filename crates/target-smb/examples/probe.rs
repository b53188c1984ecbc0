//! Measures or checks one SMB share: `probe JSON_OPTIONS shares|facts|check|speed=SECONDS|meta`. The password comes from
//! `NASLAB_PASSWORD`. Writes and removes `naslab-probe*` in the share.

use naslab_core::{AlignedBuf, Completion, Create, FileId, Op, OpKind, OpenOptions, Result, Session, Submit, Target};
use naslab_target_smb::{shares, SmbOptions, SmbTarget};
use std::time::{Duration, Instant};

const FILE_BYTES: u64 = 256 << 20;
const READ_WRITE: OpenOptions = OpenOptions {
    read: true,
    write: true,
    create: Create::IfMissing,
    truncate: false,
    direct: false,
    sync: naslab_core::SyncMode::None,
    access: naslab_core::Access::Positioned,
    lock: naslab_core::Lock::None,
    record_bytes: 0,
    file_bytes: 0,
    delete_on_close: false,
};

fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|t| t.parse().ok()).unwrap_or(0)
}

struct Cell {
    kind: OpKind,
    len: u32,
    depth: usize,
    random: bool,
    seconds: f64,
}

/// One cell; how many operations in how long, and the latencies.
fn run(session: &mut dyn Session, file: FileId, cell: &Cell) -> Result<(u64, f64, Vec<u64>)> {
    let stride = (cell.len as usize).next_multiple_of(4096);
    let memory = AlignedBuf::new(stride * cell.depth)?;
    let (mut started, mut latencies) = (vec![Instant::now(); cell.depth], Vec::with_capacity(1 << 20));
    let mut free: Vec<u32> = (0..cell.depth as u32).collect();
    let mut done: Vec<Completion> = Vec::with_capacity(cell.depth);
    let (blocks, mut next, mut seed) = (FILE_BYTES / u64::from(cell.len), 0u64, 88172645463325252u64);
    let begin = Instant::now();
    loop {
        let over = begin.elapsed().as_secs_f64() >= cell.seconds;
        let room = if over { 0 } else { free.len() };
        for _ in 0..room {
            let token = free[free.len() - 1];
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let block = if cell.random { seed % blocks } else { next % blocks };
            let offset_bytes = block * u64::from(cell.len);
            let op = Op { kind: cell.kind, file, offset_bytes, len_bytes: cell.len, due_ns: None };
            started[token as usize] = Instant::now();
            // SAFETY: each token has its own memory until it is reaped.
            match unsafe { session.submit(&op, memory.lend(token as usize * stride, cell.len as usize), token)? } {
                Submit::Busy => break,
                _ => {
                    free.pop();
                    next += 1;
                }
            }
        }
        if free.len() == cell.depth {
            break;
        }
        session.reap(1, Some(Duration::from_millis(50)), &mut done)?;
        for end in done.drain(..) {
            assert!(end.error.is_none(), "{end:?}");
            latencies.push(started[end.token as usize].elapsed().as_nanos() as u64);
            free.push(end.token);
        }
    }
    Ok((latencies.len() as u64, begin.elapsed().as_secs_f64(), latencies))
}

const CELLS: [(OpKind, u32, usize); 12] = [
    (OpKind::Write, 1 << 20, 1),
    (OpKind::Read, 1 << 20, 1),
    (OpKind::Write, 1 << 20, 8),
    (OpKind::Read, 1 << 20, 8),
    (OpKind::Write, 65536, 1),
    (OpKind::Read, 65536, 1),
    (OpKind::Write, 65536, 32),
    (OpKind::Read, 65536, 32),
    (OpKind::Read, 4096, 1),
    (OpKind::Read, 4096, 32),
    (OpKind::Write, 4096, 1),
    (OpKind::Write, 4096, 32),
];

fn speed(session: &mut dyn Session, seconds: f64) -> Result<()> {
    let file = session.open("naslab-probe", &READ_WRITE)?;
    let fill = Cell { kind: OpKind::Write, len: 1 << 20, depth: 4, random: false, seconds: 0.5 };
    run(session, file, &fill)?;
    session.set_len(file, FILE_BYTES)?;
    // `ONLY=9` measures that cell alone.
    let only = std::env::var("ONLY").ok().and_then(|n| n.parse::<usize>().ok());
    for (_, (kind, len, depth)) in CELLS.into_iter().enumerate().filter(|(n, _)| only.is_none_or(|o| o == *n)) {
        let cell = Cell { kind, len, depth, random: len == 4096, seconds };
        let cpu = cpu_ns();
        let (ops, took, mut latencies) = run(session, file, &cell)?;
        let cpu = (cpu_ns() - cpu) as f64 / 1e9;
        latencies.sort_unstable();
        let bytes = ops as f64 * f64::from(len);
        println!(
            "{:5} {:4}k depth {:2}: {:6.0} MB/s {:7.0} IOPS  p50 {:5.0} us  p99 {:5.0} us  cpu {:.2} s/GiB {:.1} us/op",
            kind.name(),
            len >> 10,
            depth,
            bytes / took / 1e6,
            ops as f64 / took,
            latencies[latencies.len() / 2] as f64 / 1e3,
            latencies[latencies.len() * 99 / 100] as f64 / 1e3,
            cpu / (bytes / (1u64 << 30) as f64),
            cpu * 1e6 / ops as f64,
        );
    }
    session.close(file)?;
    session.remove("naslab-probe")
}

fn meta(session: &mut dyn Session) -> Result<()> {
    const FILES: usize = 2000;
    session.mkdir("naslab-probe-dir")?;
    let name = |n: usize| format!("naslab-probe-dir/file{n}");
    let timed = |what: &str, begin: Instant| println!("{what}: {:.0}/s", FILES as f64 / begin.elapsed().as_secs_f64());
    let begin = Instant::now();
    for n in 0..FILES {
        let file = session.open(&name(n), &OpenOptions { create: Create::New, ..READ_WRITE })?;
        session.close(file)?;
    }
    timed("create", begin);
    let begin = Instant::now();
    for n in 0..FILES {
        session.stat(&name(n))?;
    }
    timed("stat", begin);
    let begin = Instant::now();
    assert_eq!(session.readdir("naslab-probe-dir")?.len(), FILES);
    timed("readdir entries", begin);
    let begin = Instant::now();
    for n in 0..FILES {
        session.remove(&name(n))?;
    }
    timed("remove", begin);
    session.rmdir("naslab-probe-dir")
}

fn pattern(at: u64) -> u8 {
    (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

/// Moves one piece and waits for it.
fn one(session: &mut dyn Session, kind: OpKind, file: FileId, at: u64, data: &mut [u8]) -> Result<Completion> {
    let op = Op { kind, file, offset_bytes: at, len_bytes: data.len() as u32, due_ns: None };
    let mut done = Vec::new();
    // SAFETY: the slice outlives the wait below.
    let sent = unsafe { session.submit(&op, naslab_core::IoBuf::from_slice(data), 7)? };
    assert_eq!(sent, Submit::Queued);
    while done.is_empty() {
        session.reap(1, None, &mut done)?;
    }
    Ok(done[0])
}

fn check(session: &mut dyn Session) -> Result<()> {
    session.ping()?;
    session.mkdir("naslab-probe-dir")?;
    let path = "naslab-probe-dir/\u{fc}n\u{ef}c\u{f6}de \u{1f600}";
    let file = session.open(path, &READ_WRITE)?;
    for (at, len) in [(0u64, 1usize), (1, 4095), (4096, 65536), (69_632, 65537), (135_169, 3 << 20), (5 << 30, 12345)] {
        let mut data: Vec<u8> = (at..at + len as u64).map(pattern).collect();
        let done = one(session, OpKind::Write, file, at, &mut data)?;
        assert_eq!((done.bytes as usize, done.error), (len, None));
        let mut back = vec![0; len];
        let done = one(session, OpKind::Read, file, at, &mut back)?;
        assert_eq!((done.bytes as usize, done.error), (len, None));
        assert!(back == data, "{len} bytes at {at} came back changed");
    }
    let mut over = vec![0; 100_000];
    let end = (5u64 << 30) + 12345;
    let done = one(session, OpKind::Read, file, end - 10, &mut over)?;
    assert_eq!((done.bytes, done.error.map(|e| e.kind)), (10, Some(naslab_core::ErrorKind::Short)));
    one(session, OpKind::Flush, file, 0, &mut [])?;
    session.flush(file, naslab_core::FlushKind::All)?;
    session.set_len(file, 5_000_000)?;
    assert_eq!(session.stat(path)?.len_bytes, 5_000_000);
    session.close(file)?;
    assert_eq!(session.readdir("naslab-probe-dir")?.len(), 1);
    assert_eq!(session.rmdir("naslab-probe-dir").unwrap_err().kind, naslab_core::ErrorKind::Exists);
    assert_eq!(session.server_copy(path, "naslab-probe-dir/copy")?, 5_000_000);
    session.rename("naslab-probe-dir/copy", path)?;
    assert_eq!(session.stat("naslab-probe-dir/copy").unwrap_err().kind, naslab_core::ErrorKind::NotFound);
    assert_eq!(session.mkdir("naslab-probe-dir").unwrap_err().kind, naslab_core::ErrorKind::Exists);
    session.remove(path)?;
    let gone = OpenOptions { delete_on_close: true, ..READ_WRITE };
    let file = session.open(path, &gone)?;
    session.close(file)?;
    assert_eq!(session.stat(path).unwrap_err().kind, naslab_core::ErrorKind::NotFound);
    session.rmdir("naslab-probe-dir")?;
    assert!(session.space()?.free_bytes > 0);
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let mut options: SmbOptions = serde_json::from_str(&arguments[1]).expect("options as JSON");
    options.password = options.user.is_some().then(|| std::env::var("NASLAB_PASSWORD").unwrap_or_default());
    if arguments[2] == "shares" {
        shares(&options)?.iter().for_each(|s| println!("{s:?}"));
        return Ok(());
    }
    let target = SmbTarget::new(options)?;
    let mut session = target.connect(0)?;
    for mode in &arguments[2..] {
        match mode.as_str() {
            "facts" => target.facts().iter().for_each(|(name, value)| println!("{name}: {value}")),
            "check" => check(&mut *session)?,
            "meta" => meta(&mut *session)?,
            mode => speed(&mut *session, mode.strip_prefix("speed=").and_then(|s| s.parse().ok()).unwrap_or(1.0))?,
        }
    }
    println!("ok {:?}", session.events().iter().filter(|e| e.1 > 0).collect::<Vec<_>>());
    Ok(())
}
