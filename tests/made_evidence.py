"""What a ladder found, made by hand: a server of known ceilings, for the model of the verdict."""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass
from typing import Any

import numpy as np

from naslab.explain.evidence import Evidence
from naslab.explain.hypotheses import PARAMETERS, Array
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


# One server as the model has it.

SERVER = {
    "client_s": 2e-6, "client_byte_s": 1e-12, "delay_s": 2e-4, "slots": 2000.0, "window": 1e12, "link": 118e6,
    "uplink_ratio": 1.0, "queue": 1e-2, "header": 150.0, "server_s": 1e-5, "server_lanes": 1.0,
    "memory": 6e9, "copy_ratio": 1.0, "copy_lanes": 1.0, "cold": 1.0, "lock_share": 1e-2, "cache": 200e6,
    "disk_read": 60e6, "disk_write": 50e6, "fetch": 4e3, "request_s": 1e-6, "seek_s": 5e-3, "commit_s": 1e-6,
    "write_back": 6e4,
    "overlap": 3e-3, "sharpness": 30.0, "slow_s": 1e-3, "lock_s": 1e-4, "base": 1e8, "burst": 2.0, "lasts_s": 10.0,
    "scope": 0.5, "slow_on": 1.1e-3, "lock_on": 1.1e-3, "bucket_on": 1.1e-3,
    "joins_on": 1.1e-3,
}  # fmt: skip


def theta_of(count: int = 1, **other: float) -> Array:
    """Particles of one server, all alike."""
    return np.log(np.array([[{**SERVER, **other}[p.name] for p in PARAMETERS]] * count))


# A whole ladder over one server, by the bounds of a closed queueing network (Lazowska et al. 1984, chapter 5).

NEVER = 1e15


@dataclass(frozen=True)
class Server:
    """What each part of a server takes: rates in bytes/s, times in seconds an operation. cache: bytes it holds."""

    link: float = 118e6
    uplink: float = 0.0
    """Rate of the link from the client; 0: as to it."""
    memory: float = 6e9
    server_s: float = 5e-6
    delay_s: float = 2e-4
    client_s: float = 2e-6
    window: float = NEVER
    slots: float = NEVER
    cache: float = 256 * MIB
    disk_read: float = 2e9
    disk_write: float = 2e9
    request_s: float = 1e-6
    commit_s: float = 1e-5
    lock_s: float = 0.0
    write_back: bool = True
    cpus: int = 4

    def stations(self, p: Load) -> dict[str, float]:
        """Seconds of one operation at each station."""
        wire, at_disk = (
            p.record + 150.0,
            not p.cached and (p.op == "read" or p.durable or p.flushed or not self.write_back),
        )
        link = self.link if p.op == "read" else self.uplink or self.link
        disk = max(p.record / (self.disk_read if p.op == "read" else self.disk_write), self.request_s)
        return {
            "client": self.client_s, "server": self.server_s, "link": wire / link, "window": wire / self.window,
            "memory": p.record / self.memory, "lock": self.lock_s,
            "disk": disk * p.missed + (self.commit_s if p.durable else 0.0) if at_disk else 0.0,
        }  # fmt: skip

    def rate(self, p: Load) -> float:
        """Bytes a second: the slowest station's, or as many as are outstanding."""
        each = self.stations(p)
        lanes = {"client": min(p.workers, self.cpus), "window": p.workers, "lock": p.files}
        slowest = max(seconds / lanes.get(name, 1) for name, seconds in each.items())
        outstanding = min(p.depth, self.slots) * p.workers
        return p.record * min(1 / slowest, outstanding / (sum(each.values()) + self.delay_s))


@dataclass(frozen=True)
class Load:
    """One load of a ladder. missed: share of the operations that reach the disks."""

    op: str = "read"
    record: int = MIB
    depth: int = 1
    workers: int = 1
    files: int = 1
    set_bytes: int = 4 * MIB
    cached: bool = True
    missed: float = 1.0
    durable: bool = False
    flushed: bool = False
    """All of it is durable at the end."""


class Ladder:
    """Points over a server, one after another."""

    def __init__(self, server: Server, noise: float = 0.0, seed: int = 1) -> None:
        self.server, self.noise, self.random = server, noise, random.Random(seed)
        self.second, self.cell = 0, 0
        self.points: dict[str, list[Point]] = {}

    def add(self, step: str, load: Load, **more: Any) -> float:
        """Measures a load; its rate."""
        rate = self.server.rate(load) * (1 + self.noise * self.random.gauss(0, 1))
        self.second, self.cell = self.second + 4, self.cell + 1
        cores = self.server.client_s * rate / load.record
        given = {"durability": "each"} if load.durable else {}
        op, rate = more.pop("op", load.op), more.pop("rate", rate)
        made = point(
            op, load.record, rate, load.depth, workers=more.pop("workers", load.workers), files=load.files,
            set_bytes=load.set_bytes, cpu=cores, cell=self.cell, start_ns=self.second * SECOND,
            end_ns=(self.second + 4) * SECOND,
            mean_ns=load.depth * load.workers * load.record / rate * 1e9, **{**given, **more},
        )  # fmt: skip
        self.points.setdefault(step, []).append(made)
        return rate

    def beside(self) -> None:
        """A writer alone, then beside a reader: what both use is divided evenly."""
        deep = Load(depth=64)
        reads, writes = self.server.rate(deep), self.add("duplex", dataclasses.replace(deep, op="write"))
        shared = MIB / max(self.server.server_s, MIB / self.server.memory)
        if reads + writes > shared:
            reads, writes = max(shared / 2, shared - writes), min(shared / 2, writes)
        self.add("duplex", deep, op="mixed", rate=reads + writes, workers=2, reads=reads, writes=writes)


def ladder(server: Server, noise: float = 0.0, seed: int = 1, **more: Any) -> Evidence:
    """What a ladder over this server finds. more: fields of the evidence."""
    made, small = Ladder(server, noise, seed), 4 * KIB
    made.add("round_trip", Load(record=small))
    made.add("client_cache", Load())
    for depth in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        made.add("depth", Load(depth=depth))
    for depth in (4, 16, 64, 256):
        made.add("small_depth", Load(record=small, depth=depth))
    for record, depth in ((MIB, 32), (small, 64)):
        for workers in (2, 4):
            made.add("connections", Load(record=record, depth=depth, workers=workers, files=workers))
        made.add("same_file", Load(record=record, depth=depth, workers=4))
    made.add("record", Load(record=64 * KIB, depth=64), random=True)
    made.beside()
    for record, depth in ((MIB, 1), (64 * KIB, 1), (MIB, 16), (small, 1), (small, 64)):
        made.add("writes", Load("write", record, depth))
        made.add("writes", Load("write", record, depth, cached=False, durable=True))
    _sets(made)
    return Evidence(made.points, client_cpus=server.cpus, **more)


def _sets(made: Ladder) -> None:
    """Sets that double to 1 GiB, and small reads over the last."""
    size, held = 64 * MIB, made.server.cache
    while size <= GIB:
        load = Load("write", depth=16, set_bytes=size, cached=False, flushed=True)
        made.add("set", load, durability="end",
                 durable=made.server.rate(load))  # fmt: skip
        made.add("set", Load(depth=16, set_bytes=size, cached=size <= held))
        size *= 2
    missed = max(1 - held / GIB, 0.0)
    for depth in (1, 32):
        made.add("beyond", Load(record=4 * KIB, depth=depth, set_bytes=GIB, cached=not missed, missed=missed))
