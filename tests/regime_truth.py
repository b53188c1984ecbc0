"""Simulated servers whose parts are known, and the regime that each cell of a run on them must have.

The truth comes from the configuration by operational analysis: with one operation in flight the parts of its time add
up, and the one with the largest share names the cell; with more, the queue that serves slowest does once enough are in
flight to fill it (N* = R0 / Dmax), and until then the wait. Where two parts are as good as equal, both names are right.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from naslab.commands.plans import sustained, sweep
from naslab.execution.execute import execute
from naslab.explain.regimes import Regime, regimes_of
from naslab.results.run import Run
from naslab.results.store import Store
from naslab.spec import RunSpec
from naslab.targets import parse_target

KIB, MIB = 1 << 10, 1 << 20
NEAR = 0.15
"""Shares so near to each other are as good as equal."""
LINK_RATES = (11.8e6, 117.7e6, 123.8e6, 294e6, 1177e6)
SHAPED = (25e6, 60e6, 190e6)
DEPTHS = (1, 1, 8, 32)
RECORDS = (4 * KIB, 64 * KIB, MIB)


@dataclass
class System:
    """fields: of docs/reference/sim.md; 0 where a part does not count."""

    name: str
    fields: dict[str, Any]
    buckets: list[dict[str, Any]] = field(default_factory=list)

    def get(self, name: str) -> float:
        """A field, 0 where it is not set."""
        return float(self.fields.get(name, 0))

    def text(self) -> str:
        """As TOML."""
        lines = [f"{name} = {value}" for name, value in self.fields.items()]
        for bucket in self.buckets:
            lines.append("[[buckets]]")
            lines += [f'{n} = "{v}"' if isinstance(v, str) else f"{n} = {v}" for n, v in bucket.items()]
        return "\n".join(lines) + "\n"


def draw(number: int, seed: int) -> System:
    """A server of a link, a memory and a disk; some without a limit of the link, some with a known interface."""
    rng = random.Random(seed * 1000 + number)
    link = rng.choice(LINK_RATES if rng.random() < 0.75 else SHAPED)
    memory = rng.uniform(1.5e9, 6e9)
    disk = rng.choice((40e6, 90e6, 150e6, 240e6, 500e6)) * rng.uniform(0.9, 1.1)
    fields: dict[str, Any] = {
        "seed": number + 1, "latency_ns": round(rng.choice((5e4, 1e5, 2e5, 5e5, 2e6)) * rng.uniform(0.8, 1.2)),
        "jitter": rng.choice((0.0, 0.05)), "header_bytes": 150, "server_op_ns": rng.choice((0, 5_000, 20_000)),
        "link_bytes_per_s": 0 if number % 7 == 6 else round(link),
        "server_cache_bytes": rng.choice((4, 8, 16)) * MIB, "server_cache_bytes_per_s": round(memory),
        "disk_read_bytes_per_s": round(disk), "disk_write_bytes_per_s": round(disk * rng.uniform(0.5, 0.95)),
        "disk_seek_ns": rng.choice((0, 0, 100_000, 4_000_000)),
        "write_back_bytes": 0 if number % 5 == 4 else rng.choice((2, 4, 8)) * MIB,
        "disk_noise": rng.choice((0.0, 0.05)), "link_noise": rng.choice((0.0, 0.01)),
        "noise_span_ns": 10_000_000,
    }  # fmt: skip
    if not fields["link_bytes_per_s"]:
        fields["link_noise"] = 0.0
    return System(f"s{number}", fields)


# --- measuring -------------------------------------------------------------------------------------------


def measure(system: System, spec: RunSpec, folder: Path) -> Run:
    """The run on the system, in virtual time."""
    file = folder / f"{system.name}.toml"
    file.write_text(system.text())
    return execute(spec, target=parse_target(f"sim:{file}"), store=Store(folder / "runs.db"))


def sweep_spec(depth: int, sizes: Iterable[int], caps: Mapping[str, Any], durability: str = "end") -> RunSpec:
    """A small sweep over records and file sizes."""
    options = sweep.SweepOptions(
        list(sizes), list(RECORDS), ["write", "rewrite", "read", "reread", "random_read", "random_write"],
        queue_depth=depth, durability=durability,  # type: ignore[arg-type]
    )  # fmt: skip
    return RunSpec(target={}, command="sweep", cells=sweep.plan_cells(options, caps))


# --- the truth -------------------------------------------------------------------------------------------


def _ns(amount: float, rate: float) -> float:
    return amount / rate * 1e9 if rate else 0.0


def truth(system: System, cell: Mapping[str, Any]) -> set[str]:
    """Names that are right for a cell of a server without buckets."""
    s, record, depth = system, cell["record_bytes"], cell["queue_depth"] * cell["workers"]
    writes = "write" in cell["kinds"]
    fixed = (
        s.get("latency_ns") + 1000 + s.get("server_op_ns") + _ns(2 * s.get("header_bytes"), s.get("link_bytes_per_s"))
    )
    parts = {"link": _ns(record, s.get("link_bytes_per_s")), "server_cache": 0.0, "disk": 0.0}
    response = depth / cell["iops"] * 1e9
    memory = _ns(record, s.get("server_cache_bytes_per_s"))
    if writes and s.get("write_back_bytes") and cell["sync"] == "none":
        parts["server_cache"] = memory
        return _write_truth(s, cell, fixed, parts, depth)
    if writes:
        parts["disk"] = response - fixed - parts["link"] if depth == 1 else response / depth
    elif cell["file_bytes"] > s.get("server_cache_bytes"):
        if depth > 1:
            return _missing(s, cell, fixed, parts, depth)
        parts["disk"] = max(response - fixed - parts["link"], 0.0)
    else:
        parts["server_cache"] = memory
    return _named(fixed, parts, depth)


def _missing(s: System, cell: Mapping[str, Any], fixed: float, parts: Mapping[str, float], depth: int) -> set[str]:
    """Deep reads of a file beyond the cache: at most its size is still there; jitter may reorder them into seeks."""
    record = cell["record_bytes"]
    moving = _ns(record, s.get("disk_read_bytes_per_s"))
    seek = s.get("disk_seek_ns")
    seeks = {seek} if cell["pattern"] != "sequential" else {0.0, seek} if s.get("jitter") else {0.0}
    held = (
        s.get("server_cache_bytes") / cell["file_bytes"]
        if record * depth > MIB or cell["pattern"] != "sequential"
        else 0
    )
    return set().union(
        *(
            _named(fixed, {**parts, "disk": (moving + each) * missed}, depth)
            for each in seeks
            for missed in {1, 1 - held}
        )
    )


def _named(fixed: float, parts: Mapping[str, float], depth: int) -> set[str]:
    """By shares of the time at one in flight, by the queue that fills first with more."""
    whole = fixed + sum(parts.values())
    if depth == 1:
        shares = {"latency": fixed / whole, **{name: part / whole for name, part in parts.items()}}
        best = max(shares.values())
        names = {name for name, share in shares.items() if share >= best - NEAR}
        return names | {"mixed"} if len(names) > 1 or best < 0.5 + NEAR / 2 else names
    slowest = max(parts.values())
    names = {name for name, part in parts.items() if part >= (1 - NEAR) * slowest}
    filled = depth * slowest / whole
    return {"latency"} if filled < 0.7 else names if filled > 1.5 else names | {"latency", "mixed"}


def _write_truth(s: System, cell: Mapping[str, Any], fixed: float, parts: dict[str, float], depth: int) -> set[str]:
    """Writes into memory until it is full: named by what they did for most of the time."""
    record = cell["record_bytes"]
    disk = s.get("disk_write_bytes_per_s")
    # The server joins neighbours, up to 1 MiB a request; those that arrive in no order have a seek each.
    random_order = cell["pattern"] == "permutation"
    seeks = s.get("disk_seek_ns") / record if random_order or (depth > 1 and s.get("jitter")) else 0.0
    slow = 1e9 / (1e9 / disk + seeks)
    each = max((fixed + sum(parts.values())) / depth, *parts.values())
    before = record / each * 1e9
    named = _named(fixed, parts, depth)
    return set().union(*(_filling(s, cell, named, before, after) for after in {slow if random_order else disk, slow}))


def _filling(s: System, cell: Mapping[str, Any], named: set[str], before: float, after: float) -> set[str]:
    """before, after: what memory takes and what the disks do, bytes per second."""
    if before <= after:
        return named
    if before <= 1.25 * after:
        return named | {"disk", "mixed"}
    share = s.get("write_back_bytes") / (before - after) * 1e9 / cell["duration_ns"]
    if share >= 0.5 + NEAR:
        return named
    return {"disk"} if share <= 0.5 - NEAR else named | {"disk", "mixed"}


# --- credit ----------------------------------------------------------------------------------------------


def draw_credit(number: int, seed: int) -> System:
    """A disk or a link that bursts, fast cells that fill up, a write-back cache that does, or a server without any."""
    rng = random.Random(seed * 1000 + number + 500)
    kind = ("disk", "link", "cache", "cells", "none")[number % 5]
    burst, base = rng.choice((80e6, 160e6, 260e6)) * rng.uniform(0.9, 1.1), rng.choice((16e6, 32e6, 50e6))
    size = rng.choice((0.5e9, 1e9, 2e9))
    fields: dict[str, Any] = {
        "seed": number + 1, "latency_ns": 300_000, "jitter": 0.05, "header_bytes": 150,
        "link_bytes_per_s": round(rng.choice((117.7e6, 294e6))), "server_cache_bytes": 32 * MIB,
        "server_cache_bytes_per_s": 3_000_000_000, "disk_read_bytes_per_s": round(burst),
        "disk_write_bytes_per_s": round(burst), "write_back_bytes": 16 * MIB, "disk_noise": 0.05,
        "noise_span_ns": 200_000_000,
    }  # fmt: skip
    credit = {"burst_bytes_per_s": round(burst), "base_bytes_per_s": round(base), "size_bytes": round(size)}
    if kind == "cache":
        fields |= {"write_back_bytes": round(size), "disk_write_bytes_per_s": round(base)}
    if kind == "cells":
        fields |= {"slc_bytes": round(size), "slc_full_bytes_per_s": round(base)}
    buckets = [{**credit, "scope": kind}] if kind in ("disk", "link") else []
    return System(f"{kind}{number}", fields, buckets)


def load_spec(write: bool, block_bytes: int, seconds: int, repeat: int = 1) -> RunSpec:
    """`naslab sustained`: a file of 512 MiB, filled where it is read, then one load or two."""
    options = sustained.LoadOptions(
        size_bytes=512 * MIB, block_bytes=block_bytes, write_pct=100 if write else 0, depth=8,
        duration_ns=seconds * 10**9, repeat=repeat,
    )  # fmt: skip
    return RunSpec(target={}, command="sustained", cells=sustained.sustained_cells(options))


def credit_truth(system: System, cells: list[dict[str, Any]]) -> list[set[str]]:
    """Names that are right for each cell of a run, from what is left of the credit when it begins and ends."""
    kind = system.name.rstrip("0123456789")
    left, ended_ns, out = _credit(system, kind), None, []
    for cell in cells:
        writes = "write" in cell["kinds"]
        high, low = _levels(system, kind, writes)
        if ended_ns is not None and kind in ("disk", "link", "cache"):
            left = min(left + low * max(cell["start_ns"] - ended_ns, 0) / 1e9, _credit(system, kind))
        seconds = cell["duration_ns"] / 1e9
        spends = left > 0 and high > 1.02 * low and (writes or kind in ("disk", "link"))
        drained = min(left / (high - low), seconds) if spends else seconds if not low else 0.0
        if spends:
            left -= drained * (high - low)
        out.append(_credit_names(system, kind, writes, drained / seconds if low else None))
        ended_ns = cell["end_ns"]
        if kind == "cache" and writes and cell["flush_ns"] is not None:
            left = _credit(system, kind)
    return out


def _credit(system: System, kind: str) -> float:
    if system.buckets:
        return float(system.buckets[0]["size_bytes"])
    return {"cache": system.get("write_back_bytes"), "cells": system.get("slc_bytes")}.get(kind, 0.0)


def _levels(system: System, kind: str, writes: bool) -> tuple[float, float]:
    """Rate with and without credit, bytes per second; 0 where there is none."""
    link, disk = system.get("link_bytes_per_s"), system.get("disk_read_bytes_per_s")
    if system.buckets:
        found = system.buckets[0]
        return min(link, found["burst_bytes_per_s"], disk), found["base_bytes_per_s"]
    if writes and kind == "cache":
        return link, system.get("disk_write_bytes_per_s")
    if writes and kind == "cells":
        return min(link, disk), system.get("slc_full_bytes_per_s")
    return min(link, disk), 0.0


def _credit_names(system: System, kind: str, writes: bool, share: float | None) -> set[str]:
    """share: of the time with credit; None for what has none."""
    link, disk = system.get("link_bytes_per_s"), system.get("disk_read_bytes_per_s")
    plain = {"link"} if disk > (1 + NEAR) * link else {"disk"} if link > (1 + NEAR) * disk else {"link", "disk"}
    if share is None:
        return plain
    before, after = ({"link", "server_cache"}, {"disk"}) if kind == "cache" else ({"burst", *plain}, {"baseline"})
    if share >= 0.5 + NEAR:
        # A credit that was never seen to end looks like a faster disk, and is one for as long.
        return before if share >= 0.98 else before - plain if kind != "cache" else before
    return after if share <= 0.5 - NEAR else before | after | {"mixed"}


# --- judging ---------------------------------------------------------------------------------------------


@dataclass
class Score:
    """How many cells were named right, wrong, or unknown; wrong: those that were not, in words."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, where: str, right: set[str], found: Regime, cell: Mapping[str, Any]) -> None:
        """One cell."""
        verdict = "right" if found.word in right else "unknown" if found.word == "unknown" else "wrong"
        self.counts[verdict] += 1
        self.pairs["/".join(sorted(right)), found.word] += 1
        if verdict == "wrong":
            shape = f"{cell['op']} {cell['file_bytes'] / MIB:g}m/{cell['record_bytes'] // KIB}k"
            self.wrong.append(f"{where} {shape}: {found.word}, not {sorted(right)}: {found.evidence}")

    def share(self, verdict: str) -> float:
        """Of all cells."""
        return self.counts[verdict] / max(sum(self.counts.values()), 1)


def judge_run(system: System, run: Run, score: Score) -> None:
    """Every cell of a run on a server without buckets."""
    found = regimes_of(run)
    for cell in run.cells:
        score.add(f"{system.name} depth {cell['queue_depth']}", truth(system, cell), found[cell["id"]], cell)


def judge_credit(system: System, run: Run, score: Score) -> None:
    """Every cell of a run on a server with or without credit."""
    found = regimes_of(run)
    for cell, right in zip(run.cells, credit_truth(system, run.cells), strict=True):
        score.add(system.name, right, found[cell["id"]], cell)


def score_all(systems: int, seed: int) -> tuple[Score, Score]:
    """Sweeps of so many drawn servers (depths 1, 8 and 32 by turns), and loads on as many with or without credit."""
    caps = {"cursor": False, "stdio": False, "evict": False}
    sweeps, loads = Score(), Score()
    for number in range(systems):
        with tempfile.TemporaryDirectory() as folder:
            spec = sweep_spec(DEPTHS[number % len(DEPTHS)], [MIB, 4 * MIB, 16 * MIB, 64 * MIB], caps)
            system = draw(number, seed)
            judge_run(system, measure(system, spec, Path(folder)), sweeps)
        for write in (True, False):
            with tempfile.TemporaryDirectory() as folder:
                system = draw_credit(number, seed)
                run = measure(system, load_spec(write, MIB, (20, 60)[number % 2], 2), Path(folder))
                judge_credit(system, run, loads)
    return sweeps, loads


def main() -> None:
    """Prints how many cells were named right, wrong and unknown; for docs/concepts/measurement.md."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--systems", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    for name, score in zip(("sweeps", "loads"), score_all(asked.systems, asked.seed), strict=True):
        whole = sum(score.counts.values())
        shares = ", ".join(f"{verdict} {score.share(verdict):.1%}" for verdict in ("right", "wrong", "unknown"))
        print(f"{name}: {whole} cells, {shares}", *(f"  {line}" for line in score.wrong), sep="\n")


if __name__ == "__main__":
    main()
