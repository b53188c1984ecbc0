//! What a simulated server did: the truth that measurements are compared with.

/// Counters since the server was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimStats {
    /// Read operations submitted.
    pub reads: u64,
    /// Write operations submitted.
    pub writes: u64,
    /// Flushes submitted or called.
    pub flushes: u64,
    /// Opens and other metadata calls.
    pub metadata_calls: u64,
    /// Bytes of reads answered from the client's cache.
    pub client_cache_read_bytes: u64,
    /// Bytes asked of the server and answered from its cache.
    pub server_cache_read_bytes: u64,
    /// Bytes the disk read, whole pages and read-ahead included.
    pub disk_read_bytes: u64,
    /// Bytes the disk wrote.
    pub disk_written_bytes: u64,
    /// Requests the disk served.
    pub disk_requests: u64,
    /// Requests the disk had to seek for.
    pub disk_seeks: u64,
    /// Bytes from client to server, headers included.
    pub uplink_bytes: u64,
    /// Bytes from server to client, headers included.
    pub downlink_bytes: u64,
    /// Buffered bytes the client has not sent yet or that are not acknowledged yet.
    pub client_dirty_bytes: u64,
    /// Acknowledged bytes the server has not put on the disk yet.
    pub server_dirty_bytes: u64,
    /// Most of `server_dirty_bytes` at any time.
    pub server_dirty_bytes_max: u64,
    /// Pages pushed out of the client's cache for room.
    pub client_evicted_pages: u64,
    /// Pages pushed out of the server's cache for room.
    pub server_evicted_pages: u64,
    /// Faults injected.
    pub faults: u64,
}

impl SimStats {
    /// Every counter with its name.
    pub fn named(&self) -> [(&'static str, u64); 18] {
        [
            ("reads", self.reads),
            ("writes", self.writes),
            ("flushes", self.flushes),
            ("metadata_calls", self.metadata_calls),
            ("client_cache_read_bytes", self.client_cache_read_bytes),
            ("server_cache_read_bytes", self.server_cache_read_bytes),
            ("disk_read_bytes", self.disk_read_bytes),
            ("disk_written_bytes", self.disk_written_bytes),
            ("disk_requests", self.disk_requests),
            ("disk_seeks", self.disk_seeks),
            ("uplink_bytes", self.uplink_bytes),
            ("downlink_bytes", self.downlink_bytes),
            ("client_dirty_bytes", self.client_dirty_bytes),
            ("server_dirty_bytes", self.server_dirty_bytes),
            ("server_dirty_bytes_max", self.server_dirty_bytes_max),
            ("client_evicted_pages", self.client_evicted_pages),
            ("server_evicted_pages", self.server_evicted_pages),
            ("faults", self.faults),
        ]
    }
}
