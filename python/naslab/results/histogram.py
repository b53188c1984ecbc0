"""HdrHistogram V2 (compressed): read, write, merge, quantiles.

The engine records latencies with the Rust crate `hdrhistogram` and hands over its `V2DeflateSerializer`
bytes, which every HdrHistogram implementation reads. This module holds the few lines needed for our own
results (about 100, sparse and vectorised) instead of the PyPI package `hdrhistogram`, a compiled extension
that keeps every bucket dense, gives no arrays and trusts the lengths it reads.

Layout (HdrHistogram V2, big-endian): cookie, length, zlib stream of {cookie, payload length, normalizing
offset, significant digits, lowest u64, highest u64, conversion ratio f64, counts as ZigZag LEB128 where a
negative number is a run of empty buckets}. A bucket is at most 10^-digits of its value wide.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from naslab.errors import StoreError
from naslab.results.columns import LATENCY_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

COOKIE_COMPRESSED = 0x1C849314
COOKIE_PLAIN = 0x1C849313
MAX_BLOB_BYTES = 16 << 20
"""Longest blob, and longest payload after inflating: 5 digits over 1 ns to 1 h need 4 MiB at the worst."""

_OUTER = struct.Struct(">II")
_INNER = struct.Struct(">IIIIQQd")


@dataclass(frozen=True)
class Histogram:
    """Counts by latency bucket, only the buckets that hold something.

    indexes: (n,) int64, ascending: HdrHistogram's counts-array index. counts: (n,) int64, above 0.
    significant_digits: 0 to 5. lowest_ns: smallest value told apart, a bound of the unit.
    """

    indexes: NDArray[np.int64]
    counts: NDArray[np.int64]
    significant_digits: int = 3
    lowest_ns: int = 1

    @property
    def _unit_magnitude(self) -> int:
        return self.lowest_ns.bit_length() - 1

    @property
    def _half_magnitude(self) -> int:
        largest: int = 2 * 10**self.significant_digits
        return (largest - 1).bit_length() - 1

    def _shift_and_lower(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        half = 1 << self._half_magnitude
        bucket = (self.indexes >> self._half_magnitude) - 1
        sub = (self.indexes & (half - 1)) + np.where(bucket < 0, 0, half)
        shift = np.maximum(bucket, 0) + self._unit_magnitude
        return shift, sub << shift

    @cached_property
    def lower_ns(self) -> NDArray[np.int64]:
        """(n,) smallest value of each bucket, nanoseconds."""
        return self._shift_and_lower()[1]

    @cached_property
    def values_ns(self) -> NDArray[np.int64]:
        """(n,) largest value of each bucket, nanoseconds, which HdrHistogram reports for quantiles."""
        shift, lower = self._shift_and_lower()
        return (lower - 1) + (np.int64(1) << shift)

    @property
    def total(self) -> int:
        """Number of samples."""
        return int(self.counts.sum())

    def mean_ns(self) -> float | None:
        """Mean of the bucket middles, as HdrHistogram's `mean`, nanoseconds; None without samples."""
        if not self.total:
            return None
        middle = self.lower_ns + ((self.values_ns - self.lower_ns + 1) >> 1)
        return float(np.average(middle, weights=self.counts))

    def quantiles(self, qs: Iterable[float]) -> NDArray[np.float64]:
        """Latency at each quantile, nanoseconds: the bucket of sample ceil(q * total), its largest value.

        qs: 0 to 1; 0 gives the smallest value of the first bucket. NaN for each when there is no sample.
        Source: HdrHistogram's value_at_quantile.
        """
        wanted = np.asarray(list(qs), dtype=np.float64)
        if not self.total:
            return np.full(wanted.shape, np.nan)
        rank = np.maximum(np.ceil(wanted * self.total), 1)
        at = np.minimum(np.searchsorted(np.cumsum(self.counts), rank), len(self.counts) - 1)
        return np.where(wanted == 0.0, self.lower_ns[at], self.values_ns[at]).astype(np.float64)

    def summary(self) -> dict[str, int | None]:
        """The document's `latency_ns`: min, mean, p50, p90, p99, p99_9, max in nanoseconds; None without samples."""
        if not self.total:
            return dict.fromkeys(LATENCY_NAMES)
        low, p50, p90, p99, p999, high = (int(v) for v in self.quantiles((0.0, 0.5, 0.9, 0.99, 0.999, 1.0)))
        mean = round(self.mean_ns() or 0.0)
        return dict(zip(LATENCY_NAMES, (low, mean, p50, p90, p99, p999, high), strict=True))

    def encode(self) -> bytes:
        """The V2 compressed bytes that `decode` and other HdrHistogram implementations read."""
        payload = _encode_counts(self.indexes, self.counts)
        highest = max(int(self.values_ns[-1]) if len(self.counts) else 0, 2 * self.lowest_ns)
        inner = _INNER.pack(
            COOKIE_PLAIN, len(payload), 0, self.significant_digits, self.lowest_ns, highest, 1.0
        )  # fmt: skip
        packed = zlib.compress(inner + payload)
        return _OUTER.pack(COOKIE_COMPRESSED, len(packed)) + packed


def from_values(
    values_ns: Sequence[int] | NDArray[np.int64],
    counts: Sequence[int] | NDArray[np.int64] | None = None,
    significant_digits: int = 3,
    lowest_ns: int = 1,
) -> Histogram:
    """A histogram of values (nanoseconds, 0 to 2^63 - 1) that occurred `counts` times (once each when None)."""
    empty = Histogram(np.empty(0, np.int64), np.empty(0, np.int64), significant_digits, lowest_ns)
    values = np.asarray(values_ns, dtype=np.int64)
    weights = np.ones(len(values), np.int64) if counts is None else np.asarray(counts, dtype=np.int64)
    if len(values) and values.min() < 0:
        raise StoreError("a latency is negative; it cannot be recorded")
    half = empty._half_magnitude
    # exact bit length: frexp is right for all integers below 2^53, and above that may round up
    top = values >> empty._unit_magnitude
    bits = np.minimum(np.frexp(top.astype(np.float64))[1].astype(np.int64), 63)
    bits -= (bits > 0) & ((np.int64(1) << np.maximum(bits - 1, 0)) > top)
    bucket = np.maximum(bits - (half + 1), 0)
    sub = top >> bucket
    indexes = ((bucket + 1) << half) + sub - (1 << half)
    unique, inverse = np.unique(indexes, return_inverse=True)
    sums = np.zeros(len(unique), np.int64)
    np.add.at(sums, inverse, weights)
    keep = sums > 0
    return Histogram(unique[keep], sums[keep], significant_digits, lowest_ns)


def merge(histograms: Iterable[Histogram]) -> Histogram:
    """All samples together. Different precisions meet at the coarsest. Raises StoreError for none at all."""
    parts = list(histograms)
    if not parts:
        raise StoreError("no histograms to merge")
    digits = min(h.significant_digits for h in parts)
    lowest = max(h.lowest_ns for h in parts)
    values = np.concatenate([h.values_ns for h in parts])
    counts = np.concatenate([h.counts for h in parts])
    return from_values(values, counts, digits, lowest)


def decode(blob: bytes) -> Histogram:
    """Reads a V2 compressed histogram. Raises StoreError for anything else; never allocates beyond its bounds."""
    if not _OUTER.size <= len(blob) <= MAX_BLOB_BYTES:
        raise StoreError(f"histogram of {len(blob)} bytes is empty or above {MAX_BLOB_BYTES} bytes")
    cookie, length = _OUTER.unpack_from(blob)
    if cookie != COOKIE_COMPRESSED or length != len(blob) - _OUTER.size:
        raise StoreError("not an HdrHistogram V2 compressed histogram, or cut short")
    inner = _inflate(blob[_OUTER.size :])
    if len(inner) < _INNER.size:
        raise StoreError("histogram: its header is cut short")
    cookie, payload, offset, digits, lowest, highest, ratio = _INNER.unpack_from(inner)
    if cookie != COOKIE_PLAIN or payload != len(inner) - _INNER.size:
        raise StoreError("histogram: wrong inner cookie or payload length")
    if offset != 0 or ratio != 1.0:
        raise StoreError("histogram: shifted or scaled counts are not supported")
    if digits > 5 or not 1 <= lowest <= 1 << 40 or not lowest <= highest < 1 << 63:
        raise StoreError(f"histogram: {digits} digits from {lowest} to {highest} is out of range")
    indexes, counts = _decode_counts(np.frombuffer(inner, np.uint8, offset=_INNER.size))
    result = Histogram(indexes, counts, int(digits), int(lowest))
    buckets = 63 - result._half_magnitude - result._unit_magnitude
    if len(indexes) and indexes[-1] >= (buckets + 1) << result._half_magnitude:
        raise StoreError("histogram: more buckets than a 63-bit value can have")
    return result


def _inflate(packed: bytes) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        inner = unpacker.decompress(packed, MAX_BLOB_BYTES)
    except zlib.error as error:
        raise StoreError(f"histogram: damaged zlib stream ({error})") from error
    if not unpacker.eof or unpacker.unused_data:
        raise StoreError(f"histogram: zlib stream is cut short, padded or inflates above {MAX_BLOB_BYTES} bytes")
    return inner


def _decode_counts(data: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """ZigZag LEB128 numbers to (bucket indexes, counts). Counts from 2^55 (9 bytes) are refused."""
    if not len(data):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    ends = np.flatnonzero(data < 0x80)
    if not len(ends) or ends[-1] != len(data) - 1:
        raise StoreError("histogram: its last count is cut short")
    starts = np.concatenate(([0], ends[:-1] + 1))
    if int((ends - starts).max()) > 7:
        raise StoreError("histogram: a count of 2^55 or more is not plausible")
    place = np.arange(len(data)) - np.repeat(starts, ends - starts + 1)
    parts = (data & 0x7F).astype(np.int64) << (7 * place)
    zigzag = np.add.reduceat(parts, starts)
    numbers = (zigzag >> 1) ^ -(zigzag & 1)
    steps = np.where(numbers < 0, -numbers, 1)
    samples = np.where(numbers > 0, numbers, 0)
    if steps.sum(dtype=np.float64) > 1 << 24 or samples.sum(dtype=np.float64) > 1 << 62:
        raise StoreError("histogram: a run of empty buckets, or the sum of counts, is out of range")
    indexes = np.cumsum(steps) - steps
    keep = numbers > 0
    return indexes[keep].astype(np.int64), numbers[keep]


def _encode_counts(indexes: NDArray[np.int64], counts: NDArray[np.int64]) -> bytes:
    out = bytearray()
    expected = 0
    for index, count in zip(indexes.tolist(), counts.tolist(), strict=True):
        if index > expected:
            _put(out, expected - index)
        _put(out, count)
        expected = index + 1
    return bytes(out)


def _put(out: bytearray, number: int) -> None:
    zigzag = (number << 1) ^ (number >> 63)
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
