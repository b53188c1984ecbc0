"""What a ladder found, made by hand: a server of known ceilings, for the rules of the verdict."""

from __future__ import annotations

from typing import Any

from naslab.explain.evidence import Evidence
from naslab.explain.points import Figure, Point, Stalls

KIB, MIB, MB, GIB = 1 << 10, 1 << 20, 1_000_000, 1 << 30
SECOND = 1_000_000_000


def point(op: str = "read", record: int = MIB, rate: float = 100 * MB, depth: int = 1, **more: Any) -> Point:
    """A point of one second with an interval of 1 %; latency by Little's law unless given."""
    workers = more.get("workers", 1)
    figure = Figure(rate, 0.99 * rate, 1.01 * rate)
    mean = depth * workers * record / rate * 1e9
    usual: dict[str, Any] = {
        "cell": 1, "op": op, "random": record == 4 * KIB, "record_bytes": record, "depth": depth, "workers": workers,
        "files": workers, "set_bytes": 4 * MIB, "bypass": False, "durability": "none", "rate": figure,
        "iops": figure.scaled(1 / record, "iops"), "reads": rate if op == "read" else 0.0,
        "writes": rate if op == "write" else 0.0, "durable": None, "p50_ns": mean, "mean_ns": mean, "p99_ns": 2 * mean,
        "cpu": 0.1, "crossed": 1.0, "stalls": Stalls(0.0, 0, 0, 0), "start_ns": 0, "end_ns": SECOND,
    }  # fmt: skip
    return Point(**{**usual, **more})


def level(top: float, alone: float | None = None) -> list[Point]:
    """Large reads that level off at once."""
    return [point(rate=alone or 0.8 * top), *(point(rate=top, depth=d) for d in (2, 4, 8))]


def beside(one: float, share: float, writes: float) -> list[Point]:
    """A reader beside a writer; share: of the writer's bytes that come on top of the reader's ceiling."""
    reads = one - (1 - share) * writes
    return [
        point("write", rate=writes, depth=4),
        point("mixed", rate=reads + writes, depth=4, workers=2, reads=reads, writes=writes),
    ]


def evidence(top: float = 118 * MB, share: float = 1.0, **steps: list[Point]) -> Evidence:
    """A server whose large reads level off at `top`; small ones at 20,000 a second."""
    small = [point(record=4 * KIB, rate=20_000 * 4 * KIB, depth=d) for d in (16, 64)]
    found: dict[str, list[Point]] = {
        "round_trip": [point(record=4 * KIB, rate=2_000 * 4 * KIB)],
        "client_cache": [point(rate=0.8 * top)],
        "depth": level(top), "small_depth": small,
        "record": [point(record=64 * KIB, rate=top, depth=32, random=True)],
        "duplex": beside(top, share, top),
        "writes": [point("write", 4 * KIB, 8 * MB, 16, durability="each")],
        "set": [point("write", rate=top, set_bytes=GIB, durable=top), point(rate=top, set_bytes=GIB)],
        **steps,
    }  # fmt: skip
    return Evidence(found)
