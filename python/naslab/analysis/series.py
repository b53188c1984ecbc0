"""Throughput over time as plain data: bins of equal length, cut, merged and turned into rates.

The interval series of a cell (int64 rows: read_ops, read_bytes, write_ops, write_bytes, flush_ops, errors,
max_latency_ns) becomes one `RateSeries` per kind of operation. Nothing here reads a file or a clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from naslab.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Kind = Literal["read", "write", "all"]
NS_PER_S = 1_000_000_000
LEAST_COMPLETIONS = 50
"""Completions a bin must hold before means of bins are compared: 50 keep the counting noise near 14 %."""
LEAST_BINS = 30
"""Merging never leaves fewer bins than this: a test on fewer says nothing."""
_COLUMNS = {"read": (0, 1), "write": (2, 3)}
_SERIES_WIDTH = 7


@dataclass(frozen=True)
class RateSeries:
    """Bytes moved and operations completed in bins of equal length.

    moved_bytes, ops: (n,) int64, at least 0. bin_ns: length of a bin. start_ns: when the first bin began, on
    the clock of whoever made the series. Raises UsageError for shapes or lengths that do not fit.
    """

    moved_bytes: NDArray[np.int64]
    ops: NDArray[np.int64]
    bin_ns: int
    start_ns: int = 0

    def __post_init__(self) -> None:
        if self.bin_ns <= 0:
            raise UsageError(f"a series needs bins longer than 0 ns, got {self.bin_ns}")
        if self.moved_bytes.ndim != 1 or self.moved_bytes.shape != self.ops.shape:
            raise UsageError(f"bytes {self.moved_bytes.shape} and ops {self.ops.shape} must be vectors of one length")
        if len(self.moved_bytes) and int(self.moved_bytes.min()) < 0:
            raise UsageError("a series cannot hold a negative number of bytes")

    def __len__(self) -> int:
        return len(self.moved_bytes)

    @property
    def duration_ns(self) -> int:
        """Length of all bins together."""
        return len(self) * self.bin_ns

    @property
    def total_bytes(self) -> int:
        """Bytes of all bins together."""
        return int(self.moved_bytes.sum())

    @property
    def rates_bytes_per_s(self) -> NDArray[np.float64]:
        """(n,) rate of each bin."""
        return self.moved_bytes.astype(np.float64) * (NS_PER_S / self.bin_ns)

    @property
    def cumulative_bytes(self) -> NDArray[np.int64]:
        """(n + 1,) bytes moved until each edge of a bin; begins with 0."""
        return np.concatenate((np.zeros(1, np.int64), np.cumsum(self.moved_bytes, dtype=np.int64)))

    def mean_bytes_per_s(self) -> float:
        """Rate over all bins; 0 for an empty series."""
        return self.total_bytes * NS_PER_S / self.duration_ns if len(self) else 0.0

    def part(self, first_bin: int, end_bin: int) -> RateSeries:
        """The bins first_bin .. end_bin - 1, with their own start_ns. Raises UsageError outside the series."""
        if not 0 <= first_bin <= end_bin <= len(self):
            raise UsageError(f"bins {first_bin} to {end_bin} are not inside a series of {len(self)}")
        start_ns = self.start_ns + first_bin * self.bin_ns
        return RateSeries(self.moved_bytes[first_bin:end_bin], self.ops[first_bin:end_bin], self.bin_ns, start_ns)

    def merged(self, factor: int) -> RateSeries:
        """Bins `factor` times as long; a rest that fills no bin is left out. Raises UsageError below 1."""
        if factor < 1:
            raise UsageError(f"bins can be merged 1 or more at a time, not {factor}")
        if factor == 1:
            return self
        whole = len(self) // factor * factor
        moved = self.moved_bytes[:whole].reshape(-1, factor).sum(axis=1)
        ops = self.ops[:whole].reshape(-1, factor).sum(axis=1)
        return RateSeries(moved, ops, self.bin_ns * factor, self.start_ns)

    def best_bytes_per_s(self, window_ns: int = NS_PER_S) -> float:
        """Highest rate over any window of window_ns (whole bins, at least one): the best second.

        0 for an empty series; a series shorter than the window gives its mean.
        """
        if not len(self):
            return 0.0
        bins = min(max(1, round(window_ns / self.bin_ns)), len(self))
        total = self.cumulative_bytes
        return float((total[bins:] - total[:-bins]).max() * (NS_PER_S / (bins * self.bin_ns)))


def series_of(
    rows: NDArray[np.int64], interval_ns: int, kind: Kind = "all", duration_ns: int | None = None, start_ns: int = 0
) -> RateSeries:
    """The series of one kind of operation, without the last partial interval.

    rows: (n, 7) int64 in the order of the module's first lines. duration_ns: how long the cell's window was;
    only intervals that lie whole inside it are kept. Without it the last row is dropped: whether it is whole
    cannot be known. Raises UsageError for other shapes and kinds.
    """
    if rows.ndim != 2 or rows.shape[1] != _SERIES_WIDTH:
        raise UsageError(f"an interval series has {_SERIES_WIDTH} columns, this one has the shape {rows.shape}")
    if kind not in ("read", "write", "all"):
        raise UsageError(f"kind is read, write or all, not {kind!r}")
    if interval_ns <= 0:
        raise UsageError(f"an interval is longer than 0 ns, not {interval_ns}")
    whole = len(rows) - 1 if duration_ns is None else min(len(rows), duration_ns // interval_ns)
    kept = rows[: max(whole, 0)]
    wanted = [_COLUMNS[k] for k in (("read", "write") if kind == "all" else (kind,))]
    ops = kept[:, [at for at, _ in wanted]].sum(axis=1)
    moved = kept[:, [at for _, at in wanted]].sum(axis=1)
    return RateSeries(moved, ops, interval_ns, start_ns)


def completions_factor(
    series: RateSeries, least_ops: int = LEAST_COMPLETIONS, window_ns: int | None = None, least_bins: int = LEAST_BINS
) -> int:
    """How many bins to merge so that a bin holds least_ops completions even where the run was slowest.

    The slowest stretch of window_ns decides (a thirtieth of the run when None), so that a floor far below
    the burst is judged on enough completions too. Never so many that fewer than least_bins remain: a stalled
    run cannot be helped by longer bins.
    """
    if len(series) <= least_bins:
        return 1
    window = len(series) // 30 if window_ns is None else window_ns // series.bin_ns
    window = min(max(1, int(window)), len(series))
    total = np.concatenate((np.zeros(1, np.int64), np.cumsum(series.ops, dtype=np.int64)))
    slowest = float((total[window:] - total[:-window]).min()) / window
    limit = len(series) // least_bins
    return limit if slowest * limit < least_ops else max(1, -int(-least_ops // slowest))
