//! What this machine's memory can do: bandwidth of threads side by side, and how long one load takes.

use naslab_core::{AlignedBuf, Error, ErrorKind, Result};
use std::hint::black_box;
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

/// A cache line of every machine this runs on; a larger one only makes the chase touch some lines twice.
const LINE_BYTES: usize = 64;
/// Loads between two looks at the clock.
const CHASE_STEPS: u32 = 1 << 14;

/// Bytes per second over all threads together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryRates {
    /// Loads of 8 bytes, summed up.
    pub read_bytes_per_s: f64,
    /// `memset`.
    pub write_bytes_per_s: f64,
    /// `memcpy`; a byte that is copied counts once.
    pub copy_bytes_per_s: f64,
}

/// Reads, writes and copies memory with `threads` at once, `each` for every one of the three.
///
/// `buf_bytes`: of each thread, much larger than the caches; copies go from one half to the other.
pub fn memory_rates(buf_bytes: usize, threads: usize, each: Duration) -> Result<MemoryRates> {
    let mut bufs = (0..threads.max(1)).map(|_| AlignedBuf::new(buf_bytes.max(4096))).collect::<Result<Vec<_>>>()?;
    let mut rate = |work: fn(&mut [u8]) -> usize| side_by_side(&mut bufs, each, work);
    Ok(MemoryRates {
        read_bytes_per_s: rate(read_once)?,
        write_bytes_per_s: rate(write_once)?,
        copy_bytes_per_s: rate(copy_once)?,
    })
}

/// Bytes per second of threads that all repeat `work` for as long as every other one does.
fn side_by_side(bufs: &mut [AlignedBuf], each: Duration, work: fn(&mut [u8]) -> usize) -> Result<f64> {
    let start = Barrier::new(bufs.len());
    let rates = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for buf in bufs.iter_mut() {
            scope.spawn(|| {
                start.wait();
                let begun = Instant::now();
                let mut done = 0;
                while done == 0 || begun.elapsed() < each {
                    done += work(black_box(buf.as_mut_slice()));
                }
                let rate = done as f64 / begun.elapsed().as_secs_f64();
                rates.lock().unwrap_or_else(|e| e.into_inner()).push(rate);
            });
        }
    });
    let rates = rates.into_inner().unwrap_or_else(|e| e.into_inner());
    match rates.len() == bufs.len() {
        true => Ok(rates.iter().sum()),
        false => Err(Error::new(ErrorKind::Io, "memory", "a thread ended early")),
    }
}

fn read_once(buf: &mut [u8]) -> usize {
    // SAFETY: every bit pattern is a u64; the parts that do not fit are left out.
    let (_, words, _) = unsafe { buf.align_to::<u64>() };
    let mut sums = [0u64; 32];
    for chunk in words.chunks_exact(32) {
        for (sum, word) in sums.iter_mut().zip(chunk) {
            *sum = sum.wrapping_add(*word);
        }
    }
    black_box(sums);
    words.len() / 32 * 256
}

fn write_once(buf: &mut [u8]) -> usize {
    buf.fill(black_box(1));
    buf.len()
}

fn copy_once(buf: &mut [u8]) -> usize {
    let (to, from) = buf.split_at_mut(buf.len() / 2);
    let len = to.len().min(from.len());
    to[..len].copy_from_slice(&from[..len]);
    len
}

/// Nanoseconds of one load that depends on the one before, over `buf_bytes` in random order.
///
/// Each cache line holds the number of the next, in one ring through all of them; the median over short stretches.
pub fn memory_latency_ns(buf_bytes: usize, each: Duration) -> Result<f64> {
    let lines = (buf_bytes / LINE_BYTES).clamp(2, u32::MAX as usize);
    let mut buf = AlignedBuf::new(lines * LINE_BYTES)?;
    // SAFETY: every bit pattern is a u32, and pages are aligned for it.
    let (_, words, _) = unsafe { buf.as_mut_slice().align_to_mut::<u32>() };
    let stride = LINE_BYTES / size_of::<u32>();
    link_ring(words, lines, stride);
    let mut at = 0u32;
    let mut steps_ns = Vec::new();
    let begun = Instant::now();
    while steps_ns.is_empty() || begun.elapsed() < each {
        let stretch = Instant::now();
        for _ in 0..CHASE_STEPS {
            at = words[at as usize * stride];
        }
        black_box(at);
        steps_ns.push(stretch.elapsed().as_nanos() as f64 / f64::from(CHASE_STEPS));
    }
    steps_ns.sort_by(f64::total_cmp);
    Ok(steps_ns[steps_ns.len() / 2])
}

/// One random ring through all lines: each holds the number of the one after it.
fn link_ring(words: &mut [u32], lines: usize, stride: usize) {
    let mut order: Vec<u32> = (0..lines as u32).collect();
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for i in (1..lines).rev() {
        // Marsaglia's xorshift64: enough to leave prefetchers nothing to guess.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(i, (state % (i as u64 + 1)) as usize);
    }
    for (i, &line) in order.iter().enumerate() {
        words[line as usize * stride] = order[(i + 1) % lines];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_passes_every_line_once() {
        let (lines, stride) = (1000, 16);
        let mut words = vec![0u32; lines * stride];
        link_ring(&mut words, lines, stride);
        let mut seen = vec![false; lines];
        let mut at = 0usize;
        for _ in 0..lines {
            assert!(!std::mem::replace(&mut seen[at], true));
            at = words[at * stride] as usize;
        }
        assert_eq!(at, 0);
    }

    #[test]
    fn work_is_counted_in_bytes() {
        let mut buf = AlignedBuf::new(1 << 16).unwrap();
        assert_eq!(read_once(buf.as_mut_slice()), 1 << 16);
        assert_eq!(write_once(buf.as_mut_slice()), 1 << 16);
        buf.as_mut_slice()[1 << 15] = 7;
        assert_eq!(copy_once(buf.as_mut_slice()), 1 << 15);
        assert_eq!(buf.as_slice()[0], 7);
    }

    #[test]
    fn every_figure_is_there() {
        let rates = memory_rates(1 << 16, 2, Duration::from_millis(1)).unwrap();
        assert!(rates.read_bytes_per_s > 0.0 && rates.write_bytes_per_s > 0.0 && rates.copy_bytes_per_s > 0.0);
        assert!(memory_latency_ns(1 << 16, Duration::from_millis(1)).unwrap() > 0.0);
    }
}
