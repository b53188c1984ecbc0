"""The regime of each cell against truth: simulated servers whose parts are known, and documents made for one rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regime_truth as truth
from naslab.analysis import regimes_words
from naslab.explain.regimes import Regime, regimes_of
from naslab.results.run import MemoryBlobs, Run

MB, MIB, KIB = 10**6, 1 << 20, 1 << 10
CAPS = {"cursor": False, "stdio": False, "evict": False}


@pytest.mark.parametrize("number", [0, 3, 6, 9])
def test_sweeps_against_what_was_configured(number: int, tmp_path: Path) -> None:
    system, score = truth.draw(number, 1), truth.Score()
    spec = truth.sweep_spec(truth.DEPTHS[number % len(truth.DEPTHS)], [MIB, 16 * MIB], CAPS)
    truth.judge_run(system, truth.measure(system, spec, tmp_path), score)
    assert score.share("wrong") <= 0.02, score.wrong
    # Without a limit of the link nothing tells it from the server's memory.
    assert score.share("unknown") <= (0.2 if system.get("link_bytes_per_s") else 0.7), score.counts


@pytest.mark.parametrize(("number", "write"), [(0, True), (2, True), (5, False)])
def test_credit_against_what_was_configured(number: int, write: bool, tmp_path: Path) -> None:
    system, score = truth.draw_credit(number, 1), truth.Score()
    run = truth.measure(system, truth.load_spec(write, MIB, 20 if number % 2 == 0 else 60, 2), tmp_path)
    truth.judge_credit(system, run, score)
    assert score.counts["wrong"] == 0, score.wrong
    assert score.counts["right"] >= 2, score.counts


# --- one rule at a time ----------------------------------------------------------------------------------


def cell(number: int, **more: Any) -> dict[str, Any]:
    """A read of 64 KiB records, one in flight, 1 ms each."""
    made: dict[str, Any] = {
        "id": number, "op": "read", "workload": None, "file_bytes": 16 * MIB, "record_bytes": 64 * KIB,
        "queue_depth": 1, "workers": 1, "durability": "end", "sync": "none", "direct": False, "pattern": "sequential",
        "bytes": 16 * MIB, "ops": 256, "status": "complete", "predicted": False, "offered_per_s": None,
        "each_ns": 1_000_000, "flush_ns": None, "durable_bytes_per_s": None, "interval_ns": 10**9, "window_ns": 1,
        "wire_bytes": None, "storage_read_bytes": None, "storage_write_bytes": None, "regime": None, "errors": 0,
        **more,
    }  # fmt: skip
    made["ops"] = made["bytes"] // made["record_bytes"] if "ops" not in more else more["ops"]
    each = made.pop("each_ns")
    in_flight = made["queue_depth"] * made["workers"]
    took = made["ops"] * each / in_flight
    latency = {"min": made.pop("least_ns", each), "mean": each, "p50": each, "p99": each}
    computed = {
        "kinds": {"write" if "write" in made["op"] else "read": {"ops": made["ops"]}}, "latency_ns": latency,
        "duration_ns": round(took), "acknowledged_ns": round(took), "iops": made["ops"] / took * 1e9 if took else 0.0,
        "throughput_bytes_per_s": made["bytes"] / took * 1e9 if took else 0.0,
        "start_ns": number * 10**12, "end_ns": number * 10**12 + round(took), "cpu_fraction": 0.02,
    }  # fmt: skip
    return {**made, **computed, **{name: more[name] for name in computed if name in more}}


def found(*cells: dict[str, Any], protocol: str = "smb", blobs: Any = None, **more: Any) -> list[Regime]:
    document = {"target": {"protocol": protocol}, "environment": {"target": {}}, "cells": list(cells), **more}
    by_id = regimes_of(Run(document, MemoryBlobs(blobs)))  # type: ignore[arg-type]
    return [by_id[each["id"]] for each in cells]


def line(wait_ns: float, bytes_per_s: float, **more: Any) -> list[dict[str, Any]]:
    """Reads and writes of three records, one in flight: a wait and a transfer."""
    return [
        cell(10 * at + (op == "write"), op=op, record_bytes=r, each_ns=wait_ns + r / bytes_per_s * 1e9, **more)
        for at, r in enumerate((4 * KIB, 64 * KIB, MIB))
        for op in ("read", "write")
    ]


def test_a_wait_and_a_link_that_reads_and_writes_share() -> None:
    words = [each.word for each in found(*line(400_000, 60 * MB))]
    assert words == ["latency"] * 2 + ["link"] * 4
    (first, *_, last) = found(*line(400_000, 60 * MB))
    assert "one 4 KiB read takes" in first.evidence and "of it for waiting" in first.evidence
    assert "of it for the link" in last.evidence and "probability 0." in last.evidence


def test_what_memory_and_link_may_both_be_is_left_open_until_the_interface_tells() -> None:
    large = found(*line(100_000, 2500 * MB))[-1]
    assert large.word == "unknown" and "would separate" in large.evidence
    # 25 Gbit/s carry 2966 MB/s of data.
    route = {"environment": {"target": {}, "route": {"interface": "eth0", "speed_bits_per_s": 25e9, "mtu_bytes": 1500}}}
    assert found(*line(20_000, 2800 * MB), **route)[-1].word == "link"
    wide = {"environment": {"target": {}, "route": {"interface": "eth0", "speed_bits_per_s": 100e9, "mtu_bytes": 1500}}}
    assert found(*line(20_000, 2500 * MB), **wide)[-1].word in ("unknown", "server_cache")


def test_more_than_the_interface_carries() -> None:
    route = {"environment": {"target": {}, "route": {"interface": "eth0", "speed_bits_per_s": 1e9, "mtu_bytes": 1500}}}
    (one, both, under) = found(
        cell(0, each_ns=500_000), cell(1, each_ns=300_000, kinds={"read": {"ops": 1}, "write": {"ops": 1}}),
        cell(2, each_ns=600_000), **route,
    )  # fmt: skip
    assert one.word == "above_link" and "131 MB/s" in one.evidence and "119 MB/s" in one.evidence
    assert both.word != "above_link" and under.word == "link"


def test_files_that_memory_does_not_hold() -> None:
    cells = line(400_000, 60 * MB)
    cells += [
        cell(100 + at, file_bytes=256 * MIB, record_bytes=r, each_ns=400_000 + r / (60 * MB) * 1e9 + 5_000_000)
        for at, r in enumerate((4 * KIB, 64 * KIB, MIB))
    ]
    slow = found(*cells)[-3:]
    assert [each.word for each in slow] == ["disk", "disk", "link"]
    assert "of it for the disks" in slow[0].evidence


def test_the_same_read_faster_before_is_no_disk() -> None:
    later = found(*line(400_000, 60 * MB), cell(99, each_ns=9_000_000))[-1]
    assert later.word == "unknown" and "does not explain" in later.evidence


def test_writes_that_filled_the_memory() -> None:
    full = {"op": "write", "file_bytes": 512 * MIB, "bytes": 512 * MIB, "record_bytes": MIB}
    each = MIB / (33 * MB) * 1e9
    more = {"flush_ns": 500_000_000, "durable_bytes_per_s": 32 * MB}
    told = found(*line(400_000, 60 * MB), cell(99, each_ns=each, **full, **more))[-1]
    assert told.word == "disk" and "disks" in told.evidence


def test_durable_writes_wait_for_the_disks() -> None:
    told = found(*line(400_000, 60 * MB), cell(99, op="write", sync="all", each_ns=12_000_000))[-1]
    assert told.word == "disk" and "disks" in told.evidence


def test_many_in_flight() -> None:
    waits = [
        cell(4 * at + depth, queue_depth=depth, record_bytes=r, each_ns=1_000_000, bytes=4096 * r, ops=4096)
        for at, r in enumerate((4 * KIB, 16 * KIB))
        for depth in (1, 8)
    ]
    assert [each.word for each in found(*waits)] == ["latency"] * 4
    queued = [
        cell(
            at, op=op, queue_depth=8, record_bytes=r, each_ns=8 * r / (117 * MB) * 1e9, least_ns=200_000, bytes=999 * r
        )
        for at, (op, r) in enumerate((op, r) for op in ("read", "write") for r in (64 * KIB, MIB))
    ]
    told = found(*queued)
    assert [each.word for each in told] == ["link"] * 4 and "set by the link" in told[0].evidence


def test_local_paths_are_told_by_counted_bytes_and_flushes() -> None:
    local: dict[str, Any] = {"protocol": "local", "environment": {"target": {"filesystem": "ext4"}}}
    moved = {"storage_read_bytes": 16 * MIB, "storage_write_bytes": 0}
    (disk,) = found(cell(0, **moved), **local)
    assert disk == Regime("disk", "the device moved 100 % of the bytes")
    (memory,) = found(cell(0, **{**moved, "storage_read_bytes": 0}), **local)
    assert memory == Regime("client_cache", "the device moved 0 % of the bytes")
    flushed = {"op": "write", "flush_ns": 9 * 10**8, "storage_read_bytes": 0, "storage_write_bytes": 0}
    (kept,) = found(cell(0, **flushed, durable_bytes_per_s=20 * MB), **local)
    assert kept.word == "client_cache" and "durable at 20 MB/s" in kept.evidence
    (half,) = found(cell(0, **flushed, durable_bytes_per_s=45 * MB), **local)
    assert half.word == "mixed"
    tmpfs = {**local, "environment": {"target": {"filesystem": "tmpfs"}}}
    assert "tmpfs" in found(cell(0), **tmpfs)[0].evidence


NOTHING_TELLS: list[tuple[dict[str, Any], str, str]] = [
    ({}, "smb", "too few other loads"),
    ({"offered_per_s": 10.0}, "smb", "the load was paced"),
    ({"workload": "idle"}, "smb", "the load was paced"),
    ({"bytes": 0, "ops": 0}, "smb", "nothing was measured"),
    ({"bytes": 0, "ops": 9, "op": "stat", "kinds": {"stat": {"ops": 9}}}, "nfs", "call without data"),
    ({}, "null", "no server"),
]


@pytest.mark.parametrize(("more", "protocol", "words"), NOTHING_TELLS)
def test_unknown_says_why(more: dict[str, Any], protocol: str, words: str) -> None:
    (told,) = found(cell(0, **more), protocol=protocol)
    assert told.word == "unknown" and words in told.evidence


def test_a_client_that_does_not_keep_up_is_no_pace() -> None:
    slow = cell(0, queue_depth=8)
    slow["latency_ns"]["mean"] *= 0.6
    (told,) = found(slow)
    assert (
        told.word == "unknown"
        and "4.8 of 8 requests were outstanding" in told.evidence
        and "paced" not in told.evidence
    )
    slow["pause_ns"] = slow["duration_ns"] // 5
    (told,) = found(slow)
    assert "the load was paced" in told.evidence, "pauses were asked for"


def test_a_run_with_a_ladder_has_its_model() -> None:
    from made_evidence import Server, ladder

    made = ladder(Server(link=66 * MB, delay_s=0.0009))
    points = {name: [point.document() for point in of] for name, of in made.points.items()}
    steps = [{"name": name, "points": of} for name, of in points.items()]
    kept = {"conditions": made.document(), "steps": steps, "stopped": "certain"}
    small, large = found(cell(9000, record_bytes=4 * KIB), cell(9001, record_bytes=MIB, each_ns=17e6), ladder=kept)
    assert small.word == "latency" and large.word == "link", (small, large)


def series(*parts: tuple[float, int], write: bool) -> bytes:
    """(bytes per second, seconds) one after another, a row a second."""
    rows = np.zeros((sum(length for _, length in parts), 7), np.int64)
    rates = np.concatenate([np.full(length, rate) for rate, length in parts])
    rows[:, 2 if write else 0], rows[:, 3 if write else 1] = 1000, rates
    return rows.tobytes()


def timed(op: str, mean: float, seconds: int, **more: Any) -> dict[str, Any]:
    amount = round(mean * seconds)
    return cell(
        0,
        op=op,
        bytes=amount,
        ops=amount // (64 * KIB),
        window_ns=seconds * 10**9,
        each_ns=64 * KIB / mean * 1e9,
        **more,
    )


DROPS: list[tuple[str, tuple[int, int], int | None, str]] = [
    ("read", (100, 20), None, "burst"), ("read", (20, 100), None, "baseline"), ("read", (60, 60), None, "mixed"),
    ("write", (20, 100), 10**7, "baseline"), ("write", (20, 100), 4 * 10**10, "disk"),
    ("write", (60, 60), 10**11, "mixed"), ("write", (20, 100), None, "unknown"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "seconds", "flush_ns", "word"), DROPS)
def test_cells_that_cross_a_drop(op: str, seconds: tuple[int, int], flush_ns: int | None, word: str) -> None:
    high, low = 200 * MB, 50 * MB
    mean = (high * seconds[0] + low * seconds[1]) / sum(seconds)
    rows = series((high, seconds[0]), (low, seconds[1]), write=op == "write")
    durable = None if flush_ns is None else mean
    (told,) = found(
        timed(op, mean, sum(seconds), flush_ns=flush_ns, durable_bytes_per_s=durable), blobs={0: {"series": rows}}
    )
    assert told.word == word, told
    assert "200 MB/s for" in told.evidence and "then 50 MB/s" in told.evidence


def test_a_read_that_falls_within_one_pass_may_have_left_a_cache() -> None:
    rows = series((200 * MB, 20), (50 * MB, 100), write=False)
    (told,) = found(timed("read", 75 * MB, 120, file_bytes=64 << 30), blobs={0: {"series": rows}})
    assert told.word == "unknown"


def test_words() -> None:
    cells = [{"regime": "link", "regime_evidence": f"e{at}", "bytes": at} for at in range(3)]
    assert regimes_words.sentences(cells) == ["All 3 cells at the link's rate."]
    open_ones = [{"regime": "unknown", "regime_evidence": "why", "bytes": 1}] * 4
    assert regimes_words.sentences(cells + open_ones) == [
        "Of 7 cells, 3 at the link's rate, 4 unexplained.", "Unexplained: why.",
    ]  # fmt: skip
    assert regimes_words.lines(cells + open_ones) == ["link (3): e2", "unknown (4): why"]
    assert regimes_words.sentences([{"regime": None, "bytes": 1}]) == []
    assert regimes_words.label({"regime": "disk"}) == "disk" and regimes_words.label({"regime": None}) == ""
