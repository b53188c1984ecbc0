"""The HdrHistogram reader: against bytes of the Rust crate, against a slow definition, against hostile bytes."""

from __future__ import annotations

import json
import math
import random
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naslab.errors import StoreError
from naslab.results.histogram import (
    COOKIE_COMPRESSED,
    COOKIE_PLAIN,
    MAX_BLOB_BYTES,
    Histogram,
    decode,
    from_values,
    merge,
)

# Written by V2DeflateSerializer of the Rust crate hdrhistogram 7.6.0, with its own totals, means and quantiles.
RUST = json.loads((Path(__file__).parent.parent / "golden" / "hdrhistogram_rust.json").read_text())
QS = (0.0, 0.5, 0.9, 0.99, 0.999, 1.0)

values_lists = st.lists(st.integers(0, (1 << 63) - 1), max_size=200)


@pytest.mark.parametrize("vector", RUST, ids=lambda v: v["name"])
def test_reads_what_rust_wrote(vector: dict) -> None:
    found = decode(bytes.fromhex(vector["hex"]))
    assert found.total == vector["total"]
    if found.total:
        assert found.mean_ns() == pytest.approx(vector["mean"], rel=1e-12)
        np.testing.assert_allclose(found.quantiles(QS), vector["q"], rtol=1e-15)
    again = decode(found.encode())
    assert (again.indexes == found.indexes).all()
    assert (again.counts == found.counts).all()


@given(values_lists, st.integers(0, 5), st.sampled_from([1, 1000, 4096]))
def test_buckets_hold_their_values(values: list[int], digits: int, lowest: int) -> None:
    found = decode(from_values(values, None, digits, lowest).encode())
    assert found.total == len(values)
    for value in values:
        at = int(np.searchsorted(found.values_ns, value))
        low, high = int(found.lower_ns[at]), int(found.values_ns[at])
        assert low <= value <= high
        unit = 1 << (lowest.bit_length() - 1)
        assert high - low < max(unit, value * 10.0**-digits + 1)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=300), st.floats(0.001, 1.0))
def test_quantile_is_the_definition(values: list[int], q: float) -> None:
    exact = sorted(values)[max(math.ceil(q * len(values)), 1) - 1]
    found = from_values(values).quantiles([q])[0]
    assert exact <= found <= exact * 1.001 + 1


@given(values_lists, values_lists)
def test_merge_is_recording_both(first: list[int], second: list[int]) -> None:
    one, other = from_values(first), from_values(second)
    both = from_values(first + second)
    for merged in (merge([one, other]), merge([other, one])):
        assert (merged.indexes == both.indexes).all()
        assert (merged.counts == both.counts).all()


def test_merge_meets_at_the_coarser_precision() -> None:
    fine, coarse = from_values([123_456_789], [7], 4), from_values([123_456_789], [3], 2)
    merged = merge([fine, coarse])
    assert (merged.significant_digits, merged.counts.tolist()) == (2, [10])
    with pytest.raises(StoreError, match="no histograms"):
        merge([])


def test_empty_has_no_numbers() -> None:
    empty = from_values([])
    assert empty.mean_ns() is None
    assert np.isnan(empty.quantiles([0.5])).all()
    assert set(empty.summary().values()) == {None}


def blob(payload: bytes, *, digits: int = 3, lowest: int = 1, highest: int = 1 << 40, **other: float) -> bytes:
    """A V2 blob from parts, well formed or not."""
    inner = struct.pack(
        ">IIIIQQd", other.get("cookie", COOKIE_PLAIN), other.get("length", len(payload)), other.get("offset", 0),
        digits, lowest, highest, other.get("ratio", 1.0),
    )  # fmt: skip
    packed = zlib.compress(inner + payload)
    return struct.pack(">II", COOKIE_COMPRESSED, len(packed)) + packed


HOSTILE = {
    "nothing": b"",
    "text": b"not a histogram at all",
    "v1": struct.pack(">II", 0x1C849304, 4) + b"\0\0\0\0",
    "too long": b"\x1c\x84\x93\x14" + bytes(MAX_BLOB_BYTES + 8),
    "cut": from_values([1, 2, 3]).encode()[:-1],
    "padded": from_values([1, 2, 3]).encode() + b"\0",
    "zlib damage": struct.pack(">II", COOKIE_COMPRESSED, 8) + b"\x78\x9cabcdef",
    "header cut": struct.pack(">II", COOKIE_COMPRESSED, len(zlib.compress(b"x"))) + zlib.compress(b"x"),
    "bomb": struct.pack(">II", COOKIE_COMPRESSED, len(zlib.compress(bytes(64 << 20)))) + zlib.compress(bytes(64 << 20)),
    "inner cookie": blob(b"\x02", cookie=1),
    "payload length": blob(b"\x02", length=1 << 31),
    "shifted": blob(b"\x02", offset=5),
    "scaled": blob(b"\x02", ratio=2.0),
    "nan ratio": blob(b"\x02", ratio=math.nan),
    "digits": blob(b"\x02", digits=4_000_000_000),
    "lowest 0": blob(b"\x02", lowest=0),
    "highest below": blob(b"\x02", lowest=1000, highest=10),
    "highest": blob(b"\x02", highest=1 << 63),
    "count cut": blob(b"\x02\x80"),
    "count of 9 bytes": blob(b"\x80" * 8 + b"\x01"),
    "endless zeros": blob(b"\x81" * 7 + b"\x01" + b"\x02"),
    "many long runs": blob((b"\xff" * 7 + b"\x7f") * 1000 + b"\x02"),
    "beyond 63 bits": blob(b"\xff\xff\x3f\x02"),
    "sum overflows": blob((b"\xfe" * 7 + b"\x7f") * 1000),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bytes_are_refused(name: str) -> None:
    with pytest.raises(StoreError):
        decode(HOSTILE[name])


@settings(max_examples=300)
@given(st.binary(max_size=60), st.integers(0, 5))
def test_any_payload_is_read_or_refused(payload: bytes, digits: int) -> None:
    try:
        found = decode(blob(payload, digits=digits))
    except StoreError:
        return
    assert isinstance(found, Histogram)
    assert (found.counts > 0).all()
    assert (found.lower_ns >= 0).all()
    assert (np.diff(found.values_ns) > 0).all()


def test_any_damage_is_read_or_refused() -> None:
    whole = bytearray(from_values(range(1000, 90_000, 77)).encode())
    rng = random.Random(1)
    for _ in range(500):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        try:
            decode(bytes(damaged))
        except StoreError:
            continue


def test_negative_latency_is_refused() -> None:
    with pytest.raises(StoreError, match="negative"):
        from_values([-1])
