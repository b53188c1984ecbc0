//! Reads and writes on an NFS 3 server, one and 32 calls in flight: `speed PORT MOUNTPORT`. Prints MB/s, calls per
//! second and latency; the export is /data. A blocking client without any finesse, to compare servers with.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const FILE_BYTES: u64 = 256 << 20;
const LASTS: Duration = Duration::from_secs(2);

struct Link {
    stream: TcpStream,
    reply: Vec<u8>,
}

fn opaque(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u32).to_be_bytes());
    out.extend(bytes);
    out.resize(out.len().next_multiple_of(4), 0);
}

fn call(xid: u32, program: u32, procedure: u32) -> Vec<u8> {
    let words = [0, xid, 0, 2, program, 3, procedure, 0, 0, 0, 0];
    words.iter().flat_map(|word: &u32| word.to_be_bytes()).collect()
}

impl Link {
    fn new(port: &str) -> Self {
        let stream = TcpStream::connect(format!("127.0.0.1:{port}")).expect("connect");
        stream.set_nodelay(true).expect("nodelay");
        Self { stream, reply: Vec::new() }
    }

    fn send(&mut self, mut record: Vec<u8>) {
        let mark = (record.len() as u32 - 4) | 1 << 31;
        record[..4].copy_from_slice(&mark.to_be_bytes());
        self.stream.write_all(&record).expect("send");
    }

    /// The xid; the status must be 0. The reply stays in `reply`.
    fn receive(&mut self) -> u32 {
        let mut mark = [0; 4];
        self.stream.read_exact(&mut mark).expect("receive");
        self.reply.resize((u32::from_be_bytes(mark) & 0x7fff_ffff) as usize, 0);
        self.stream.read_exact(&mut self.reply).expect("receive");
        assert_eq!(self.reply[24..28], [0; 4], "status");
        u32::from_be_bytes(self.reply[..4].try_into().expect("four"))
    }
}

fn io(xid: u32, file: &[u8], offset: u64, data: &[u8], writes: bool) -> Vec<u8> {
    let mut record = call(xid, 100_003, if writes { 7 } else { 6 });
    opaque(&mut record, file);
    record.extend(offset.to_be_bytes());
    record.extend((data.len() as u32).to_be_bytes());
    if writes {
        record.extend(0u32.to_be_bytes());
        opaque(&mut record, data);
    }
    record
}

fn run(link: &mut Link, file: &[u8], bytes: usize, depth: u32, writes: bool) {
    let data = vec![0x5a; bytes];
    let mut begun = vec![Instant::now(); depth as usize];
    let mut latency = Vec::new();
    let (start, mut at, mut open) = (Instant::now(), 0u64, 0);
    let mut send = |link: &mut Link, slot: u32, begun: &mut [Instant]| {
        begun[slot as usize] = Instant::now();
        // 4 KiB calls jump about, large ones go on
        let offset = if bytes == 4096 {
            at.wrapping_mul(0x9e37_79b9) % (FILE_BYTES / 4096) * 4096
        } else {
            at * bytes as u64 % FILE_BYTES
        };
        at += 1;
        link.send(io(slot, file, offset, &data, writes));
    };
    for slot in 0..depth {
        send(link, slot, &mut begun);
        open += 1;
    }
    while open > 0 {
        let slot = link.receive();
        latency.push(begun[slot as usize].elapsed().as_nanos() as u64);
        if start.elapsed() < LASTS {
            send(link, slot, &mut begun);
        } else {
            open -= 1;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    latency.sort_unstable();
    let (count, p50, p99) =
        (latency.len(), latency[latency.len() / 2] / 1000, latency[latency.len() * 99 / 100] / 1000);
    println!(
        "{:>5} {:>7} depth {depth:>2}: {:>7.0} MB/s {:>8.0} calls/s  p50 {p50} us  p99 {p99} us",
        if writes { "write" } else { "read" },
        bytes,
        count as f64 * bytes as f64 / 1e6 / seconds,
        count as f64 / seconds,
    );
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let mut mount = Link::new(&args[2]);
    let mut record = call(1, 100_005, 1);
    opaque(&mut record, b"/data");
    mount.send(record);
    mount.receive();
    let len = u32::from_be_bytes(mount.reply[28..32].try_into().expect("four")) as usize;
    let root = mount.reply[32..32 + len].to_vec();
    let mut link = Link::new(&args[1]);
    let mut record = call(1, 100_003, 8);
    opaque(&mut record, &root);
    opaque(&mut record, b"speed.tmp");
    record.extend([0; 28]);
    link.send(record);
    link.receive();
    let len = u32::from_be_bytes(link.reply[32..36].try_into().expect("four")) as usize;
    let file = link.reply[36..36 + len].to_vec();
    for offset in (0..FILE_BYTES).step_by(1 << 20) {
        link.send(io(1, &file, offset, &vec![1; 1 << 20], true));
        link.receive();
    }
    for (bytes, depth) in [(1 << 20, 1), (1 << 20, 8), (1 << 16, 1), (1 << 16, 32), (4096, 1), (4096, 32)] {
        run(&mut link, &file, bytes, depth, true);
        run(&mut link, &file, bytes, depth, false);
    }
}
