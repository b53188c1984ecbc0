"""Bytes come back as they were written: any offset, any size, any depth, from any session."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from files import Files

from naslab import _engine

Connect = Callable[[], _engine.Session]


def noise(seed: int, length: int) -> bytes:
    return random.Random(seed).randbytes(length)


def test_odd_offsets_and_sizes(files: Files) -> None:
    model = bytearray()
    pieces = [(0, 1), (1, 511), (777, 4097), (65_535, 2), (65_537, 65_537), (200_003, 1_048_579), (5, 70_001)]
    with files.open("odd") as file:
        for seed, (offset, length) in enumerate(pieces):
            data = noise(seed, length)
            model.extend(bytes(max(0, offset + length - len(model))))
            model[offset : offset + length] = data
            assert files.session.write(file, offset, data) == length
        for offset, length in [(0, len(model)), (1, 1), (3, 65_536), (65_535, 131_073), (777, 4096)]:
            assert files.session.read(file, offset, length) == bytes(model[offset : offset + length])
    assert files.session.stat(files.path("odd")) == (len(model), False)


@pytest.mark.parametrize("record", [4096, 65_536, 262_147])
def test_many_operations_in_flight(files: Files, caps: dict[str, Any], record: int) -> None:
    """Random order, full depth, then reads of another order see every byte."""
    count = 48
    order = random.Random(record).sample(range(count), count)
    depth = min(caps["max_depth"], 32)
    with files.open("deep") as file:
        writes = [("write", i * record, noise(i, record)) for i in order]
        for moved, _, failure, status in files.session.run_ops(file, writes, depth):
            assert (moved, failure) == (record, None), status
        reads = [("read", i * record, record) for i in reversed(order)]
        outcomes = files.session.run_ops(file, reads, depth)
        for i, (moved, data, failure, _) in zip(reversed(order), outcomes, strict=True):
            assert (moved, failure) == (record, None)
            assert data == noise(i, record), f"record {i}"


def test_reads_and_writes_mixed_at_depth(files: Files, caps: dict[str, Any]) -> None:
    """Reads of one half while the other half is written: replies must reach their own buffers."""
    record, count = 32_768, 32
    with files.open("mixed") as file:
        first = b"".join(noise(i, record) for i in range(count))
        assert files.session.write(file, 0, first) == len(first)
        ops: list[tuple[str, int, int | bytes]] = []
        for i in range(count):
            ops.append(("read", i * record, record))
            ops.append(("write", (count + i) * record, noise(1000 + i, record)))
        outcomes = files.session.run_ops(file, ops, min(caps["max_depth"], 24))
        for i in range(count):
            assert outcomes[2 * i][1] == noise(i, record)
            assert outcomes[2 * i + 1][0] == record
        assert files.session.read(file, count * record, record) == noise(1000, record)


def test_records_larger_than_any_server_takes(files: Files, caps: dict[str, Any]) -> None:
    """16 MiB in one operation: the client divides it, the caller sees one."""
    data = noise(9, (16 << 20) + 5)
    with files.open("large") as file:
        ops = [("write", 3, data), ("flush", 0, 0)]
        outcomes = [files.session.run_ops(file, [op], 1)[0] for op in ops]
        assert [(o[0], o[2]) for o in outcomes] == [(len(data), None), (0, None)]
        read = files.session.run_ops(file, [("read", 3, len(data))], min(caps["max_depth"], 4))
        assert read[0][1] == data


def test_the_end_of_the_file(files: Files) -> None:
    with files.open("end") as file:
        files.session.write(file, 0, b"x" * 10_000)
        assert files.session.read(file, 9_990, 100) == b"x" * 10
        assert files.session.read(file, 10_000, 100) == b""
        assert files.session.read(file, 1 << 30, 100) == b""
        (moved, data, failure, _), *_ = files.session.run_ops(file, [("read", 9_000, 4096)], 1)
        assert (moved, data, failure) == (1000, b"x" * 1000, "short")


def test_holes_read_as_zeros(files: Files) -> None:
    with files.open("hole") as file:
        files.session.write(file, 300_000, b"after")
        assert files.session.read(file, 100, 1000) == bytes(1000)
        assert files.session.read(file, 299_999, 6) == b"\0after"


def test_beyond_four_gibibytes(files: Files) -> None:
    at = (5 << 30) + 12_345
    with files.open("far") as file:
        assert files.session.write(file, at, b"far away") == 8
        files.session.set_len(file, at + 100)
        assert files.session.read(file, at - 2, 12) == b"\0\0far away\0\0"
        assert files.session.stat(files.path("far"))[0] == at + 100
        files.session.set_len(file, 0)


def test_another_session_sees_what_was_written(files: Files, connect: Connect, caps: dict[str, Any]) -> None:
    if caps["virtual_time"]:
        pytest.skip("sessions of a simulated server share one clock that only the engine drives")
    data = noise(1, 300_000)
    other = connect()
    with files.open("shared") as file:
        files.session.write(file, 0, data)
        files.session.flush(file)
        with files.open("shared", session=other, create="never") as theirs:
            assert other.read(theirs, 0, len(data)) == data
            other.write(theirs, 100, b"theirs")
            other.flush(theirs)
        assert files.session.read(file, 99, 8) == data[99:100] + b"theirs" + data[106:107]


@pytest.mark.parametrize("sync", ["none", "data", "all"])
def test_durable_writes(files: Files, caps: dict[str, Any], sync: str) -> None:
    if sync != "none" and not caps["sync_writes"]:
        pytest.skip("the target has no such writes")
    data = noise(2, 100_000)
    with files.open("durable", sync=sync) as file:
        outcomes = files.session.run_ops(file, [("write", 0, data), ("write", 100_000, data)], 1)
        assert [o[2] for o in outcomes] == [None, None]
        files.session.flush(file)
        (_, _, failure, _), *_ = files.session.run_ops(file, [("flush", 0, 0)], 1)
        assert failure is None
    assert files.content("durable") == data + data


def test_unbuffered(files: Files, caps: dict[str, Any]) -> None:
    if not caps["direct"] or caps["alignment_memory_bytes"] > 1:
        pytest.skip("no unbuffered I/O, or one that asks for aligned memory, which this test has none of")
    data = noise(3, 65_536)
    with files.open("direct", direct=True) as file:
        assert files.session.write(file, 0, data) == len(data)
        assert files.session.read(file, 4096, 8192) == data[4096 : 4096 + 8192]


def test_lengths(files: Files) -> None:
    with files.open("length") as file:
        files.session.write(file, 0, b"abcdefghij")
        files.session.set_len(file, 4)
        assert files.session.read(file, 0, 100) == b"abcd"
        files.session.set_len(file, 8)
        assert files.session.read(file, 0, 100) == b"abcd\0\0\0\0"
        files.session.set_len(file, 0)
        assert files.session.read(file, 0, 100) == b""


def test_bytes_on_the_wire_cover_the_data(files: Files, caps: dict[str, Any]) -> None:
    if not caps["wire_counters"]:
        pytest.skip("the target counts no bytes on a wire")
    data = noise(4, 1 << 20)
    with files.open("wire") as file:
        before = files.session.wire()
        files.session.write(file, 0, data)
        files.session.read(file, 0, len(data))
        after = files.session.wire()
    assert before is not None and after is not None
    for sent, earlier in zip(after, before, strict=True):
        assert len(data) <= sent - earlier < len(data) * 1.1
