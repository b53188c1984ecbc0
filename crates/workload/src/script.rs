//! Scripts: what each stream of an application does, step by step, as fixed-size binary records.
//!
//! A script file is a head, the steps of one stream after the other, and the table of paths. All numbers are little
//! endian; docs/notes/0003-scripts.md describes the form, `python/naslab/spec/script.py` writes it.

use naslab_core::{Error, ErrorKind, Result};

/// First bytes of a script file.
pub const SCRIPT_MAGIC: [u8; 8] = *b"naslabS1";
/// Bytes of the head before the streams.
pub const SCRIPT_HEAD_BYTES: usize = 32;
/// Bytes of the record of one stream.
pub const STREAM_BYTES: usize = 32;
/// Bytes of one step.
pub const STEP_BYTES: usize = 40;
/// No path, no handle, no stream to wait for.
pub const NONE: u32 = u32::MAX;
/// In `wait_steps`: it is enough that the other stream has started the last of them.
pub const STARTED: u32 = 1 << 31;
/// No stream to wait for.
pub const NO_STREAM: u16 = u16::MAX;

/// Most bytes that one read or write of a script moves.
const MOST_STEP_BYTES: u32 = 64 << 20;
/// Longest path, in bytes.
const MOST_PATH_BYTES: usize = 4096;

/// What a step does. The numbers are those of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum StepKind {
    Read = 0,
    Write = 1,
    Flush = 2,
    Open = 3,
    Close = 4,
    Stat = 5,
    Readdir = 6,
    Mkdir = 7,
    Rmdir = 8,
    Remove = 9,
    Rename = 10,
    Truncate = 11,
    /// Nothing but waiting until it is due, or for another stream.
    Pause = 12,
}

impl StepKind {
    const ALL: [StepKind; 13] = [
        StepKind::Read,
        StepKind::Write,
        StepKind::Flush,
        StepKind::Open,
        StepKind::Close,
        StepKind::Stat,
        StepKind::Readdir,
        StepKind::Mkdir,
        StepKind::Rmdir,
        StepKind::Remove,
        StepKind::Rename,
        StepKind::Truncate,
        StepKind::Pause,
    ];

    #[inline]
    fn of(number: u8) -> Option<StepKind> {
        StepKind::ALL.get(number as usize).copied()
    }

    #[inline]
    fn is_one_of(self, kinds: u32) -> bool {
        kinds & self.bit() != 0
    }

    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// Kinds whose step names an open file, as bits.
const WITH_HANDLE: u32 = StepKind::Read.bit()
    | StepKind::Write.bit()
    | StepKind::Flush.bit()
    | StepKind::Open.bit()
    | StepKind::Close.bit()
    | StepKind::Truncate.bit();
/// Kinds whose step names a path.
const WITH_PATH: u32 = StepKind::Open.bit()
    | StepKind::Stat.bit()
    | StepKind::Readdir.bit()
    | StepKind::Mkdir.bit()
    | StepKind::Rmdir.bit()
    | StepKind::Remove.bit()
    | StepKind::Rename.bit();
/// Kinds whose step moves bytes.
const WITH_BYTES: u32 = StepKind::Read.bit() | StepKind::Write.bit();

/// Bits of a step's flags. The first six are of an open.
pub mod flag {
    /// Open for reading.
    pub const READ: u8 = 1;
    /// Open for writing.
    pub const WRITE: u8 = 2;
    /// Create the file if it is missing.
    pub const CREATE: u8 = 4;
    /// It must not exist yet.
    pub const EXCLUSIVE: u8 = 8;
    /// Cut to zero length.
    pub const TRUNCATE: u8 = 16;
    /// Each write durable.
    pub const SYNC: u8 = 32;
    /// Unbuffered.
    pub const DIRECT: u8 = 64;
    /// The step failed when it was recorded: that it fails again is right.
    pub const FAILS: u8 = 128;
}

/// One step of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it does.
    pub kind: StepKind,
    /// Bits of [`flag`].
    pub flags: u8,
    /// Another stream that must have done `wait_steps` steps before this one starts; [`NO_STREAM`]: none.
    pub wait_stream: u16,
    /// Steps the other stream must have done; with [`STARTED`], started.
    pub wait_steps: u32,
    /// Which open file of the stream.
    pub handle: u32,
    /// Path in the table.
    pub path: u32,
    /// New path of a rename.
    pub path_to: u32,
    /// Bytes to move.
    pub len_bytes: u32,
    /// Where in the file; the new length of a truncate.
    pub offset_bytes: u64,
    /// When it starts at recorded pace, in nanoseconds from the start.
    pub due_ns: u64,
}

/// One stream of a script: where its steps lie, and what they need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamHead {
    /// Position of its first step in the file.
    pub at_bytes: u64,
    /// How many steps it has.
    pub steps: u64,
    /// Handle numbers are below this.
    pub handles: u32,
    /// Longest read or write.
    pub most_bytes: u32,
    /// Bit n: it has steps of the kind with number n.
    pub kinds: u32,
}

impl StreamHead {
    /// Whether it has steps of this kind.
    #[inline]
    pub fn has(&self, kind: StepKind) -> bool {
        kind.is_one_of(self.kinds)
    }
}

/// The head of a script: its streams and where the paths begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptHead {
    /// In order.
    pub streams: Vec<StreamHead>,
    /// Position of the table of paths in the file.
    pub paths_at_bytes: u64,
    /// How many paths there are.
    pub paths: u32,
}

fn wrong(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, "script", message)
}

#[inline]
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

#[inline]
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[inline]
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// How many streams a script has, from the first [`SCRIPT_HEAD_BYTES`] of its file. An Invalid error when these
/// are no head of a script.
pub fn stream_count(head: &[u8]) -> Result<u32> {
    if head.len() < SCRIPT_HEAD_BYTES || head[..8] != SCRIPT_MAGIC {
        return Err(wrong("this is not a naslab script"));
    }
    match u32_at(head, 8) {
        0 => Err(wrong("the script has no stream")),
        streams if streams >= u32::from(NO_STREAM) => Err(wrong(format!("{streams} streams are too many"))),
        streams => Ok(streams),
    }
}

impl ScriptHead {
    /// Reads a head: the first [`SCRIPT_HEAD_BYTES`] and [`STREAM_BYTES`] for each stream. file_bytes: of the whole
    /// file. An Invalid error when a part lies outside of the file.
    pub fn parse(head: &[u8], file_bytes: u64) -> Result<ScriptHead> {
        let count = stream_count(head)? as usize;
        let (paths, paths_at_bytes) = (u32_at(head, 12), u64_at(head, 16));
        let table = head.get(SCRIPT_HEAD_BYTES..SCRIPT_HEAD_BYTES + count * STREAM_BYTES);
        let table = table.ok_or_else(|| wrong("the script ends within its head"))?;
        let streams: Vec<StreamHead> = table.chunks_exact(STREAM_BYTES).map(stream_head).collect();
        for (i, stream) in streams.iter().enumerate() {
            let end = stream.steps.checked_mul(STEP_BYTES as u64).and_then(|n| n.checked_add(stream.at_bytes));
            if end.is_none_or(|end| end > file_bytes) {
                return Err(wrong(format!("the steps of stream {i} lie outside of the script")));
            }
            if stream.most_bytes > MOST_STEP_BYTES {
                return Err(wrong(format!("stream {i} moves {} bytes at once, more than 64 MiB", stream.most_bytes)));
            }
        }
        if paths_at_bytes > file_bytes {
            return Err(wrong("the paths lie outside of the script"));
        }
        Ok(ScriptHead { streams, paths_at_bytes, paths })
    }

    /// Reads the table of paths: for each its length (u32) and its bytes. An Invalid error for one that leads out of
    /// the folder, or is no UTF-8.
    pub fn parse_paths(&self, table: &[u8]) -> Result<Vec<String>> {
        let mut paths = Vec::new();
        let mut rest = table;
        for i in 0..self.paths {
            let cut = || wrong(format!("the script ends within path {i}"));
            let len = if rest.len() < 4 { return Err(cut()) } else { u32_at(rest, 0) as usize };
            let text = rest.get(4..4 + len).filter(|_| len <= MOST_PATH_BYTES).ok_or_else(cut)?;
            let path = std::str::from_utf8(text).map_err(|_| wrong(format!("path {i} is not UTF-8")))?;
            let inside = path.split('/').all(|part| !matches!(part, "" | "." | "..") && !part.contains('\0'));
            if !inside && !path.is_empty() {
                return Err(wrong(format!("path {i}, {path:?}, is not a plain relative path")));
            }
            paths.push(path.to_string());
            rest = &rest[4 + len..];
        }
        Ok(paths)
    }

    /// Checks a step of a stream. number: of the step, for the message. An Invalid error for one that names what does
    /// not exist.
    #[inline]
    pub fn check_step(&self, stream: usize, number: u64, bytes: &[u8; STEP_BYTES]) -> Result<()> {
        let Some(step) = Step::decode(bytes) else {
            return Err(wrong_step(stream, number, &format!("unknown kind {}", bytes[0])));
        };
        match self.wrong_in(stream, &step) {
            None => Ok(()),
            Some(what) => Err(wrong_step(stream, number, what)),
        }
    }

    /// What the step names that does not exist.
    #[inline]
    fn wrong_in(&self, stream: usize, step: &Step) -> Option<&'static str> {
        let head = &self.streams[stream];
        if !head.has(step.kind) {
            return Some("its kind is not in the head");
        }
        if step.kind.is_one_of(WITH_HANDLE) && step.handle >= head.handles {
            return Some("its handle is not in the head");
        }
        let two = step.kind == StepKind::Rename;
        if step.kind.is_one_of(WITH_PATH) && (step.path >= self.paths || two && step.path_to >= self.paths) {
            return Some("its path is not in the table");
        }
        if step.kind.is_one_of(WITH_BYTES) && step.len_bytes > head.most_bytes {
            return Some("it is longer than the head says");
        }
        if step.wait_stream == NO_STREAM {
            return None;
        }
        let steps = u64::from(step.wait_steps & !STARTED);
        match self.streams.get(step.wait_stream as usize) {
            Some(other) if steps <= other.steps && step.wait_stream as usize != stream => None,
            _ => Some("it waits for a step that never happens"),
        }
    }
}

#[cold]
fn wrong_step(stream: usize, number: u64, what: &str) -> Error {
    wrong(format!("step {number} of stream {stream}: {what}"))
}

impl Step {
    /// Reads a step that was checked; `None` when its kind is unknown.
    #[inline]
    pub fn decode(bytes: &[u8; STEP_BYTES]) -> Option<Step> {
        Some(Step {
            kind: StepKind::of(bytes[0])?,
            flags: bytes[1],
            wait_stream: u16_at(bytes, 2),
            wait_steps: u32_at(bytes, 4),
            handle: u32_at(bytes, 8),
            path: u32_at(bytes, 12),
            path_to: u32_at(bytes, 16),
            len_bytes: u32_at(bytes, 20),
            offset_bytes: u64_at(bytes, 24),
            due_ns: u64_at(bytes, 32),
        })
    }
}

fn stream_head(bytes: &[u8]) -> StreamHead {
    StreamHead {
        at_bytes: u64_at(bytes, 0),
        steps: u64_at(bytes, 8),
        handles: u32_at(bytes, 16),
        most_bytes: u32_at(bytes, 20),
        kinds: u32_at(bytes, 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head_bytes(streams: &[StreamHead], paths: u32, paths_at: u64) -> Vec<u8> {
        let mut out = SCRIPT_MAGIC.to_vec();
        out.extend((streams.len() as u32).to_le_bytes());
        out.extend(paths.to_le_bytes());
        out.extend(paths_at.to_le_bytes());
        out.extend([0; 8]);
        for s in streams {
            out.extend(s.at_bytes.to_le_bytes());
            out.extend(s.steps.to_le_bytes());
            [s.handles, s.most_bytes, s.kinds, 0].iter().for_each(|n| out.extend(n.to_le_bytes()));
        }
        out
    }

    fn stream() -> StreamHead {
        StreamHead { at_bytes: 64, steps: 2, handles: 1, most_bytes: 4096, kinds: 0x1fff }
    }

    fn step_bytes(kind: u8, handle: u32, path: u32, len: u32, wait: u16) -> [u8; STEP_BYTES] {
        let mut out = vec![kind, 0];
        out.extend(wait.to_le_bytes());
        [1, handle, path, NONE, len].iter().for_each(|n: &u32| out.extend(n.to_le_bytes()));
        out.extend([0; 16]);
        out.try_into().unwrap()
    }

    #[test]
    fn a_head_and_its_parts_are_read() {
        let head = ScriptHead::parse(&head_bytes(&[stream()], 2, 144), 200).unwrap();
        assert_eq!(head.streams, [stream()]);
        let mut table = Vec::new();
        for path in ["dir", "dir/file ü"] {
            table.extend((path.len() as u32).to_le_bytes());
            table.extend(path.as_bytes());
        }
        assert_eq!(head.parse_paths(&table).unwrap(), ["dir", "dir/file ü"]);
        let bytes = step_bytes(3, 0, 1, 0, NO_STREAM);
        head.check_step(0, 0, &bytes).unwrap();
        let step = Step::decode(&bytes).unwrap();
        assert_eq!((step.kind, step.path, step.len_bytes), (StepKind::Open, 1, 0));
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let parse = |bytes: &[u8], file| ScriptHead::parse(bytes, file).unwrap_err().to_string();
        assert!(parse(b"no script", 9).contains("not a naslab script"));
        assert!(parse(&head_bytes(&[], 0, 0), 99).contains("no stream"));
        assert!(parse(&head_bytes(&[stream()], 0, 0), 99).contains("outside of the script"));
        let head = ScriptHead::parse(&head_bytes(&[stream(), stream()], 1, 144), 200).unwrap();
        for path in ["../up", "/root", "a//b", "a/./b"] {
            let mut table = (path.len() as u32).to_le_bytes().to_vec();
            table.extend(path.as_bytes());
            assert!(head.parse_paths(&table).unwrap_err().to_string().contains("plain relative path"), "{path}");
        }
        for (bytes, word) in [
            (step_bytes(99, 0, 0, 0, NO_STREAM), "unknown kind"),
            (step_bytes(0, 7, 0, 0, NO_STREAM), "handle"),
            (step_bytes(3, 0, 9, 0, NO_STREAM), "path"),
            (step_bytes(0, 0, 0, 5000, NO_STREAM), "longer"),
            (step_bytes(0, 0, 0, 1, 0), "waits"),
        ] {
            assert!(head.check_step(0, 3, &bytes).unwrap_err().to_string().contains(word), "{word}");
        }
        assert!(head.check_step(0, 3, &step_bytes(0, 0, 0, 1, 1)).is_ok());
    }

    /// Scripts whose words were changed; `NASLAB_HOSTILE_INPUTS=N` tries so many, `NASLAB_HOSTILE_SEED` others.
    #[test]
    fn spoiled_scripts_are_refused_or_hold() {
        let setting = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a whole number"));
        let mut state = 0x7363_7269_7074 ^ setting("NASLAB_HOSTILE_SEED").unwrap_or(0) << 48;
        let mut below = move |n: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % n.max(1) as u64) as usize
        };
        let mut whole = head_bytes(&[stream(), stream()], 2, 176);
        whole.extend([step_bytes(3, 0, 1, 0, NO_STREAM), step_bytes(0, 0, 0, 512, 1)].concat());
        whole.extend([3u32.to_le_bytes().as_slice(), b"a/b", 1u32.to_le_bytes().as_slice(), b"c"].concat());
        let (mut held, count) = (0, setting("NASLAB_HOSTILE_INPUTS").unwrap_or(50_000));
        for _ in 0..count {
            let mut bytes = whole.clone();
            for _ in 0..below(4) {
                let at = below(bytes.len().saturating_sub(4));
                match below(4) {
                    0 => bytes.truncate(at),
                    1 if bytes.len() >= at + 4 => bytes[at..at + 4].copy_from_slice(&[0xff; 4]),
                    _ if bytes.is_empty() => {}
                    _ => bytes[at] = below(256) as u8,
                }
            }
            let Ok(head) = ScriptHead::parse(&bytes, bytes.len() as u64) else { continue };
            held += 1;
            let _ = head.parse_paths(&bytes[head.paths_at_bytes as usize..]);
            for (at, stream) in head.streams.iter().enumerate() {
                let from = stream.at_bytes as usize;
                for (n, step) in
                    bytes[from..from + stream.steps as usize * STEP_BYTES].chunks_exact(STEP_BYTES).enumerate()
                {
                    let _ = head.check_step(at, n as u64, step.try_into().unwrap());
                }
            }
        }
        assert!(held > count / 10 && held < count, "{held} of {count}");
    }

    proptest! {
        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..400), file in any::<u64>()) {
            let mut with_magic = head_bytes(&[stream()], 3, 144);
            let keep = with_magic.len().min(16);
            with_magic.truncate(keep);
            with_magic.extend(&bytes);
            for garbage in [&bytes, &with_magic] {
                if let Ok(head) = ScriptHead::parse(garbage, file) {
                    let _ = head.parse_paths(&bytes);
                    let steps = bytes.chunks_exact(STEP_BYTES).map(|step| step.try_into().unwrap());
                    steps.for_each(|step| drop(head.check_step(0, 0, step)));
                }
            }
        }
    }
}
