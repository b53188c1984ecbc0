//! In steady state an operation allocates nothing. A program of its own: it counts in the allocator.

#[path = "all/common/mod.rs"]
mod common;
use common::*;
use naslab_core::{Completion, IoBuf, OpKind, Session};
use naslab_target_sim::{FileConfig, SimConfig};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs operations with 16 in flight, reusing one vector of completions.
fn run(c: &mut Client, f: naslab_core::FileId, out: &mut Vec<Completion>, from: u64, count: u64) {
    let (mut next, mut flying) = (from, 0);
    while next < from + count || flying > 0 {
        while next < from + count && flying < 16 {
            let kind = if next % 3 == 0 { OpKind::Write } else { OpKind::Read };
            let op = op(kind, f, next * 7919 % (1 << 14) * 4096, 65536);
            // SAFETY: the server keeps no data, so it never touches the buffer.
            unsafe { c.session.submit(&op, IoBuf::empty(), next as u32) }.unwrap();
            (next, flying) = (next + 1, flying + 1);
        }
        out.clear();
        flying -= c.session.reap(0, None, out).unwrap();
        if out.is_empty() {
            c.clock.advance_to(Session::next_event_ns(&*c.session).unwrap());
        }
    }
}

#[test]
fn steady_state_allocates_nothing() {
    let t = target(SimConfig {
        files: vec![FileConfig { path: "f".into(), len_bytes: 1 << 30 }],
        latency_ns: 100_000,
        jitter: 0.3,
        server_cache_bytes: 16 * MIB,
        client_cache_bytes: 8 * MIB,
        client_write_back_bytes: 2 * MIB,
        write_back_bytes: 4 * MIB,
        disk_read_bytes_per_s: 500_000_000,
        disk_write_bytes_per_s: 300_000_000,
        disk_seek_ns: 50_000,
        ..SimConfig::default()
    });
    let mut c = Client::new(&t);
    let f = c.open("f", &read_write());
    let mut out = Vec::with_capacity(64);
    run(&mut c, f, &mut out, 0, 50_000);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    run(&mut c, f, &mut out, 50_000, 20_000);
    let made = ALLOCATIONS.load(Ordering::Relaxed) - before;
    // The test harness's other thread may allocate a little now and then.
    assert!(made < 20, "{made} allocations in 20 000 operations");
}
