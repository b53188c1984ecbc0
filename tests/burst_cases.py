"""Simulated servers with a planted cause behind a burst, drawn by seed, and `naslab burst` on them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

MB = 1_000_000
BUDGET = "24h"
LONGEST_BURST_S, MOST_OPS = 1800.0, 600_000
OTHERS = ("write-back", "lying write-back", "slc", "drift", "throttle", "none")
NAMES = {
    "bucket": "token_bucket", "write-back": "write_back_cache", "lying write-back": "write_back_cache",
    "slc": "slc_cache", "drift": "thermal_or_drift", "throttle": "thermal_or_drift", "none": "none",
}  # fmt: skip
"""What each is rightly called; `undecided` is no error of those that are no bucket."""
TOLERANCE = 0.05


@dataclass(frozen=True)
class Case:
    """A server, the load on it, and the truth. Rates in bytes/s; 0 where the kind has no such number."""

    seed: int
    kind: str
    fields: dict[str, Any]
    words: tuple[str, ...]
    burst_bytes_per_s: float = 0.0
    floor_bytes_per_s: float = 0.0
    size_bytes: float = 0.0
    sharing: Literal["shared", "separate", ""] = ""
    drawn: dict[str, Any] = field(default_factory=dict)

    @property
    def target(self) -> str:
        """`sim:?...`"""
        texts = {
            name: json.dumps(value) if isinstance(value, (list, bool)) else value for name, value in self.fields.items()
        }
        return "sim:?" + "&".join(f"{name}={value}" for name, value in texts.items())

    @property
    def command(self) -> tuple[str, ...]:
        """Words behind `naslab`."""
        return ("burst", self.target, *self.words, "--budget", BUDGET, "--json")


@dataclass(frozen=True)
class _Drawn:
    """What all kinds have in common."""

    rng: np.random.Generator
    ratio: float
    burst_s: float
    floor: int
    block: int
    depth: int
    noise: float
    memory: float

    @property
    def burst(self) -> int:
        return round(self.floor * self.ratio)

    @property
    def size(self) -> int:
        return round((self.burst - self.floor) * self.burst_s)

    def noisy(self, where: str = "disk_noise") -> dict[str, Any]:
        """Fields of the noise."""
        return {where: round(self.noise, 4), "noise_memory": self.memory}

    def facts(self) -> dict[str, Any]:
        """For people."""
        return {
            "ratio": round(self.ratio, 2), "burst_s": round(self.burst_s, 2), "floor": self.floor,
            "block": self.block, "depth": self.depth, "noise": round(self.noise, 3), "memory": self.memory,
        }  # fmt: skip


def _between(rng: np.random.Generator, low: float, high: float) -> float:
    """Log-uniform."""
    return float(np.exp(rng.uniform(math.log(low), math.log(high))))


def _draw(seed: int, longest_s: float) -> _Drawn:
    rng = np.random.default_rng(seed)
    ratio, burst_s = _between(rng, 2, 20), _between(rng, 1, longest_s)
    block, depth = int(rng.choice([65536, 262144, 1 << 20])), int(rng.choice([1, 2, 4, 16]))
    # Not more operations than a test has time for, not fewer than three in 100 ms.
    floor = min(_between(rng, 5 * MB, 200 * MB), MOST_OPS * block / (ratio * burst_s + 100))
    while floor < 30 * block and block > 8192:
        block //= 2
    return _Drawn(
        rng, ratio, burst_s, round(floor), block, depth, float(rng.uniform(0, 0.1)), float(rng.choice([0, 0.3, 0.7]))
    )


def bucket_case(seed: int, longest_s: float = LONGEST_BURST_S) -> Case:
    """A token bucket on the disk: shared by reads and writes, or one for each; reading, writing or both at once."""
    d = _draw(seed, longest_s)
    op = str(d.rng.choice(["read", "write", "both"]))
    sharing: Any = "shared" if op == "both" else str(d.rng.choice(["shared", "separate"]))
    buckets = [_bucket("both", d.burst, d.floor, d.size)]
    if sharing == "separate":
        more = _between(d.rng, 1.5, 4)
        rates = [round(more * number) for number in (d.burst, d.floor, d.size)]
        buckets = [_bucket(op, d.burst, d.floor, d.size), _bucket("write" if op == "read" else "read", *rates)]
    # The way must not be the limit, or what was planted cannot be seen.
    link, latency_s, depth = 3 * max(bucket["burst_bytes_per_s"] for bucket in buckets), 1e-4, d.depth
    while _reached(d, link, latency_s, depth) < 1.3 * d.burst:
        depth *= 2
    random = bool(d.rng.random() < 0.25)
    # The least memory that a server has. Reads and mixes go without: half of their file would be in it.
    memory = {"server_cache_bytes": 32 << 20, "page_bytes": min(d.block, 1 << 20)} if op == "write" else {}
    fields = {
        "link_bytes_per_s": link,
        "latency_ns": round(latency_s * 1e9),
        **d.noisy(),
        **memory,
        "seed": seed,
        "buckets": buckets,
    }
    words = [*_load({"read": 0, "write": 100, "both": 50}[op], d.block, depth), *(["--random"] if random else [])]
    if op != "write" or random:
        words += ["--rest", f"{math.ceil(1.2 * max(b['size_bytes'] / b['base_bytes_per_s'] for b in buckets)) + 1}s"]
    facts = {**d.facts(), "depth": depth, "op": op, "sharing": sharing, "random": random}
    shown = sharing if op != "read" else ""
    return Case(seed, "bucket", fields, tuple(words), d.burst, d.floor, d.size, shown, facts)


def _reached(d: _Drawn, link: int, latency_s: float, depth: int) -> float:
    """Bytes/s that so many operations in flight can reach, were the disk at its burst."""
    return depth * d.block / (d.block / d.burst + d.block / link + latency_s)


def _bucket(applies_to: str, burst: int, base: int, size: int) -> dict[str, Any]:
    return {"applies_to": applies_to, "burst_bytes_per_s": burst, "base_bytes_per_s": base, "size_bytes": size}


def _load(write_pct: int, block: int, depth: int) -> list[str]:
    return ["--write", str(write_pct), "--block", str(block), "--depth", str(depth), "--size", str(64 << 20)]


def other_case(seed: int, longest_s: float = LONGEST_BURST_S, kind: str = "") -> Case:
    """Something else that begins fast and ends slow, or nothing; the kinds in turn when none is named."""
    kind = kind or OTHERS[seed % len(OTHERS)]
    d = _draw(seed + 1_000_000, longest_s)
    op = "write" if kind in ("write-back", "lying write-back", "slc") else str(d.rng.choice(["read", "write"]))
    fields = {
        "link_bytes_per_s": 3 * d.burst,
        "latency_ns": 100_000,
        **d.noisy(),
        "seed": seed,
        **_other_fields(kind, d),
    }
    words = _load(100 if op == "write" else 0, d.block, max(d.depth, 4))
    if op == "read":
        words += ["--rest", f"{math.ceil(40 * d.burst_s)}s"]
    return Case(seed, kind, fields, tuple(words), drawn={**d.facts(), "op": op})


def _other_fields(kind: str, d: _Drawn) -> dict[str, Any]:
    read = {"disk_read_bytes_per_s": round(d.floor * _between(d.rng, 1, 20))}
    if kind in ("write-back", "lying write-back"):
        lies = {"flush_ignored": True} if kind.startswith("lying") else {}
        # Its memory holds what is dirty and, every second time, all that was ever written.
        cache = round(d.size * 1.5 if d.rng.random() < 0.5 else 32 << 20)
        memory = {"server_cache_bytes": max(cache, 32 << 20), "page_bytes": 1 << 20}
        return {"disk_write_bytes_per_s": d.floor, "write_back_bytes": d.size, **read, **lies, **memory,
                "link_bytes_per_s": max(d.burst, 2 * d.floor)}  # fmt: skip
    full = {"disk_write_bytes_per_s": d.burst, "disk_read_bytes_per_s": round(d.burst * _between(d.rng, 0.5, 2))}
    if kind == "slc":
        return {**full, "server_cache_bytes": 32 << 20, "page_bytes": 1 << 16,
                "slc_bytes": round(d.burst * d.burst_s), "slc_full_bytes_per_s": d.floor,
                "slc_fold_bytes_per_s": round(d.floor * _between(d.rng, 0.05, 10))}  # fmt: skip
    busy = round(d.burst_s * 1e9)
    if kind == "drift":
        return {**full, "heat_busy_ns": busy, "heat_idle_ns": round(busy * d.rng.uniform(0.3, 2)),
                "heat_floor": round(1 / min(d.ratio, 8), 4)}  # fmt: skip
    if kind == "throttle":
        return {**full, "heat_busy_ns": busy, "heat_idle_ns": round(busy * _between(d.rng, 0.1, 30)),
                "heat_floor": round(1 / d.ratio, 4), "heat_step": 0.632}  # fmt: skip
    # Nothing behind it, and not more operations than in the others: it runs for half of the budget.
    return {"disk_write_bytes_per_s": 40 * d.block, "disk_read_bytes_per_s": 40 * d.block}


def burst_tolerance(case: Case) -> float:
    """5 %, and three standard errors of what noise does to the mean of so many spans of 100 ms."""
    drawn = case.drawn
    spans = max(1.0, 10 * drawn["burst_s"])
    return TOLERANCE + 3 * drawn["noise"] * math.sqrt((1 + drawn["memory"]) / (1 - drawn["memory"]) / spans)


def errors_of(case: Case, burst: Mapping[str, Any]) -> dict[str, float]:
    """Relative errors of burst, floor and size of a document's `burst`; infinite where there is no number."""
    found = burst["bucket"]
    truth = {"burst_bytes_per_s": case.burst_bytes_per_s, "baseline_bytes_per_s": case.floor_bytes_per_s,
             "size_bytes": case.size_bytes}  # fmt: skip
    return {name: found[name]["value"] / value - 1 if found else math.inf for name, value in truth.items()}


def wrong(case: Case, burst: Mapping[str, Any]) -> list[str]:
    """What a document's `burst` says that is not so, in words; empty when all is right.

    Of a bucket: the cause, floor and size within 5 %, the burst as far as noise leaves it, sharing. Of all else:
    only that it is called a bucket.
    """
    if case.kind != "bucket":
        return ["called a bucket"] if burst["cause"] == "token_bucket" else []
    errors = errors_of(case, burst)
    limits = {name: burst_tolerance(case) if name == "burst_bytes_per_s" else TOLERANCE for name in errors}
    found = [f"{name} {error:+.1%}" for name, error in errors.items() if abs(error) > limits[name]]
    found += [f"called {burst['cause']}"] if burst["cause"] != "token_bucket" else []
    return found + ([f"sharing {burst['sharing']}"] if case.sharing and burst["sharing"] != case.sharing else [])
