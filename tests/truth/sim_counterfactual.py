"""What limits a simulated server, by experiment: relieve one station threefold, and see whether the rate rises.

This asks the simulator, not arithmetic: the truth of `sim_truths` cannot be wrong in the way that its own sums are
wrong, nor in the way of a model that makes the same ones. Everything runs in virtual time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from naslab.execution.execute import execute
from naslab.results.store import Store
from naslab.spec import CellSpec, RunSpec
from naslab.targets import parse_target
from truth.asking import toml_of
from truth.sim_ceilings import HOLDS_ALL, MAX_DEPTH, NS, Class, Options, relieved, size_of
from truth.sim_systems import System
from truth.sim_truths import Truth

FACTOR = 3.0
RISES, STAYS = 0.9, 0.05
"""Of the rise that the truth promises, at least this share; a station that is no limit raises the rate by no more."""
MIB, GIB = 1 << 20, 1 << 30
OPERATIONS = {"large": 1500, "small": 6000}
OPERATION: Mapping[Class, str] = {
    ("read", "large"): "read", ("write", "large"): "rewrite",
    ("read", "small"): "random_read", ("write", "small"): "random_write",
}  # fmt: skip
WANDERS = ("disk_noise", "link_noise", "noise_memory", "capacity_bytes")
PERIODS = 8
_FILE = "counterfactual.bin"


@dataclass(frozen=True)
class Relieved:
    """One experiment. before, after: operations per second; expected: the factor that arithmetic promises."""

    system: str
    where: Class
    kind: str
    before: float
    after: float
    expected: float

    @property
    def rise(self) -> float:
        """By how much the rate rose, as a factor."""
        return self.after / self.before

    @property
    def agrees(self) -> bool:
        """Whether the simulator and arithmetic say the same."""
        if self.expected <= 1 + STAYS:
            return abs(self.rise - 1) <= STAYS
        return abs(self.rise / self.expected - 1) <= 1 - RISES

    def __str__(self) -> str:
        return (
            f"{self.system} {' '.join(self.where)}: {self.kind} x {FACTOR:g}: {self.before:,.0f}"
            f" to {self.after:,.0f} operations per second, {self.rise:.2f} times (expected {self.expected:.2f})"
        )


def experiments(system: System, where: Class) -> list[Relieved]:
    """Every listed station of a class that arithmetic sees, relieved in turn."""
    found = system.truths[where]
    before = rate(system.options, where, found)
    done = []
    for kind, _ in found.ranked:
        after = relieved(system.options, kind, FACTOR)
        done.append(Relieved("", where, kind, before, rate(after, where, found), expected(found, kind)))
    return [Relieved(system.name, each.where, each.kind, each.before, each.after, each.expected) for each in done]


def expected(found: Truth, kind: str) -> float:
    """The factor by which the rate rises with a station relieved, by the ceilings of the others."""
    others = min((ceiling for other, ceiling in found.ranked if other != kind), default=float("inf"))
    own = dict(found.ranked)[kind]
    return min(own * FACTOR, others) / found.ranked[0][1]


def rate(options: Options, where: Class, found: Truth) -> float:
    """Operations per second of a busy client, at the operating point that a truth is about."""
    server, set_bytes = steady(options, where)
    due_ns = NS / max(found.ranked[0][1], 1.0)
    trips_ns = 6 * server.get("latency_ns", 0) + PERIODS * server.get("stall_every_ns", 0)
    longest = max((f["duration_ns"] for f in server.get("faults", ())), default=0)
    depth = min(server.get("max_depth", 1024), MAX_DEPTH)
    op, size = where
    cell = CellSpec(
        op=OPERATION[where],
        file_bytes=set_bytes, record_bytes=size_of(where), files=[_FILE], queue_depth=depth,
        pattern="random" if size == "small" else "sequential", write_fraction=float(op == "write"),
        warmup_ns=round((2 * depth + 300) * due_ns + trips_ns + 2 * longest), flush="none", durability="none",
        duration_ns=round(OPERATIONS[size] * due_ns + trips_ns + 20 * longest), id=1,
    )  # fmt: skip
    first = [_whole(set_bytes)] if server.get("server_cache_bytes", 0) >= HOLDS_ALL and op == "read" else []
    return _carry_out(server, [*first, cell])


def _whole(set_bytes: int) -> CellSpec:
    """Reads the set once, so that the server's cache holds it."""
    return CellSpec("read", set_bytes, MIB, [_FILE], id=0, flush="none")


def steady(options: Options, where: Class) -> tuple[dict[str, Any], int]:
    """The server in the state that a truth is about, and the bytes of its set.

    Credit is spent, write-back small enough to be full at once, the cache small against the set (or it holds all), and
    no rate wanders. None of it moves a ceiling.
    """
    found = {
        k: v for k, v in options.items() if k not in ("disk_noise", "link_noise", "noise_memory", "capacity_bytes")
    }
    large = where[1] == "large"
    set_bytes = 4 * GIB if large else GIB
    if found.get("server_cache_bytes", 0) >= HOLDS_ALL:
        set_bytes = 64 * MIB
    elif found.get("server_cache_bytes"):
        found["server_cache_bytes"] = 512 * MIB if large else 4 * MIB
        found["server_read_ahead_bytes"] = found.get("server_read_ahead_bytes", 0) if large else 0
    if found.get("write_back_bytes"):
        found["write_back_bytes"] = min(found["write_back_bytes"], 8 * MIB if large else MIB)
    if found.get("buckets"):
        found["buckets"] = [{**b, "size_bytes": MIB, "initial_fill": 0.0} for b in found["buckets"]]
    found["files"] = [{"path": _FILE, "len_bytes": set_bytes}]
    return found, set_bytes


def _carry_out(server: Mapping[str, Any], cells: list[CellSpec]) -> float:
    with tempfile.TemporaryDirectory(prefix="naslab-truth-") as name:
        path = Path(name) / "server.toml"
        path.write_text(toml_of(server))
        target = parse_target(f"sim:{path}")
        spec = RunSpec(target.engine_spec(), cells, folder=None, existing="overwrite")
        run = execute(spec, target=target, store=Store(Path(name) / "store.sqlite"))
    cell = run.cells[-1]
    return float(cell["ops"] * NS / cell["duration_ns"])
