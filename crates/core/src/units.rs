//! Integer bytes and integer nanoseconds, so that a unit cannot be mistaken.

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// A duration or a point in time, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Nanoseconds in one second.
    pub const SECOND: Nanos = Nanos(1_000_000_000);

    /// The value as a [`std::time::Duration`].
    pub fn duration(self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.0)
    }
}
