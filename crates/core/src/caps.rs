//! What a target can do. Asking for more is an error before the run, never a quiet fallback.

/// Alignment that offsets, lengths and buffers of unbuffered I/O must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alignment {
    /// For offsets and lengths, in bytes.
    pub offset_bytes: u32,
    /// For buffer addresses, in bytes.
    pub memory_bytes: u32,
}

/// Abilities of a target, known after it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Operations one session can have in flight.
    pub max_depth: u32,
    /// Unbuffered I/O (O_DIRECT or the protocol's equal).
    pub direct: bool,
    /// Writes that are durable when acknowledged (O_SYNC, write-through, FILE_SYNC).
    pub sync_writes: bool,
    /// A flush call that makes earlier writes durable.
    pub flush: bool,
    /// The C library's stdio streams (`fwrite`, `fread`).
    pub stdio: bool,
    /// A file cursor (`lseek` + `read`) apart from positioned I/O (`pread`).
    pub cursor: bool,
    /// Memory-mapped access.
    pub mmap: bool,
    /// Whole-file and record locks.
    pub locks: bool,
    /// Reads give back what was written (false: contents are not kept, so `--verify` is refused).
    pub keeps_data: bool,
    /// Client caches of a file can be dropped on request (`evict`).
    pub evict: bool,
    /// Time is virtual: the engine drives all workers from one thread.
    pub virtual_time: bool,
    /// The session counts the bytes it puts on the wire.
    pub wire_counters: bool,
    /// A null operation (SMB ECHO, NFS NULL) can be timed.
    pub ping: bool,
    /// The server can copy a file by itself.
    pub server_copy: bool,
    /// Alignment for unbuffered I/O.
    pub alignment: Alignment,
}

impl Default for Caps {
    fn default() -> Caps {
        Caps {
            max_depth: 1,
            direct: false,
            sync_writes: false,
            flush: true,
            stdio: false,
            cursor: false,
            mmap: false,
            locks: false,
            keeps_data: true,
            evict: false,
            virtual_time: false,
            wire_counters: false,
            ping: false,
            server_copy: false,
            alignment: Alignment { offset_bytes: 1, memory_bytes: 1 },
        }
    }
}
