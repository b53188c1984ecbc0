"""The server as a ladder leaves it: the posterior of the model's parameters, and their summary for documents.

One fit serves the verdict, `naslab whatif` and the regimes of the run's cells: `posterior_of` remembers it by its data.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import naslab
from naslab._engine import infer_version
from naslab.explain.challenge import thorough
from naslab.explain.evidence import Evidence
from naslab.explain.forward import values_of
from naslab.explain.hypotheses import AT, HIGH, LOW, Array, switched_on
from naslab.explain.inference import BELIEVED, PARTICLES, RUNS, Posterior
from naslab.explain.loads import Load, rows_of_loads
from naslab.explain.rows import Rows, rows_of
from naslab.explain.stations import split
from naslab.explain.steps import LARGE_RECORD, SMALL_BYTES, SMALL_RECORD
from naslab.explain.verdict import WIRE_FRACTION, judge

KNOWN = 4.0
"""A number whose 95 % interval ends lie within this factor has a value; of others the ends are given."""
SLOW_EDGE, FAST_EDGE = 0.1, 0.3
"""An end of an interval so near to that of the prior, as a share of its width, says nothing. What nobody saw has no
fast end of its own, and few particles reach the prior's."""
TAIL = 0.15
"""Nor does an end whose tail, the 7.5 % of the particles next to it, is as wide as this share of the prior's width: the
data made that side less likely, they did not end it (a flat prior's would be 0.075)."""
STRANGE = 0.4
"""Probability of `unknown` from which on nothing is predicted for a class."""
REMEMBERED = 8
FILES = (
    "hypotheses", "ceilings", "forward", "rows", "inference", "stations", "loads", "evidence", "verdict", "conclusion",
    "measured", "reasons", "compiled", "coherent", "rivals", "challenge", "trust", "neighbour",
)  # fmt: skip
"""All that a verdict follows from, but for the engine's part."""


@lru_cache(1)
def model_version() -> str:
    """Version of naslab, and a fingerprint of the model's own source: what said what a document keeps."""
    source = b"".join((Path(__file__).parent / f"{name}.py").read_bytes() for name in FILES)
    return f"{naslab.__version__}+{zlib.crc32(source, infer_version()):08x}"


_MADE: dict[tuple[int, int, int], Posterior] = {}


def posterior_of(
    rows: Rows, runs: int = RUNS, count: int = PARTICLES, make: Callable[[Rows, int, int], Posterior] = thorough
) -> Posterior:  # fmt: skip
    """`thorough`, or another sampler, once for the same data within one process."""
    key = (_fingerprint(rows), runs, count)
    if key not in _MADE:
        while len(_MADE) >= REMEMBERED:
            _MADE.pop(next(iter(_MADE)))
        _MADE[key] = make(rows, runs, count)
    return _MADE[key]


def remembered(rows: Rows) -> Posterior | None:
    """The posterior of the same data that was made within this process, however many runs it took; None: none was."""
    mine = _fingerprint(rows)
    return next((made for (data, _, _), made in reversed(_MADE.items()) if data == mine), None)


def _fingerprint(rows: Rows) -> int:
    """One number for all that the likelihood sees: every field of the rows."""
    found = 0
    for name, value in vars(rows).items():
        told = sorted(value) if isinstance(value, frozenset) else value
        data = value.tobytes() if isinstance(value, np.ndarray) else repr(told).encode()
        found = zlib.crc32(data, zlib.crc32(name.encode(), found))
    return found


@dataclass(frozen=True)
class Interval:
    """Median and 95 % interval of the posterior. seen_low, seen_high: that end comes from the data, not the prior."""

    value: float
    low: float
    high: float
    unit: str
    seen_low: bool = True
    seen_high: bool = True

    @property
    def known(self) -> bool:
        """Whether it is a value rather than a bound."""
        return self.seen_low and self.seen_high and self.high <= KNOWN * self.low

    def document(self) -> dict[str, Any] | None:
        """As it is kept with the run; None where the data say nothing."""
        if self.known:
            return {"value": self.value, "unit": self.unit, "ci95": [self.low, self.high]}
        ends = {"at_least": self.low if self.seen_low else None, "at_most": self.high if self.seen_high else None}
        told = {name: end for name, end in ends.items() if end is not None}
        return {**told, "unit": self.unit} if told else None


@dataclass(frozen=True)
class Fitted:
    """The posterior of a ladder, with the conditions that predictions keep."""

    rows: Rows
    posterior: Posterior
    evidence: Evidence

    @property
    def theta(self) -> Array:
        """Particles."""
        return self.posterior.theta

    @property
    def weight(self) -> Array:
        """Of each particle; they sum to 1."""
        return self.posterior.weight

    @cached_property
    def unfit(self) -> dict[str, str]:
        """Why no prediction holds, by class: stops, locks, or reads that never reached the server."""
        strange = "the limit is outside the model (stops, a lock, slow operations)"
        found = {}
        for each in judge(self.rows, self.posterior):
            share = sum(c.probability for c in each.ceilings if c.kind == "unknown")
            if share >= STRANGE:
                found[f"{each.op} {each.size}"] = strange
        wire = [p.crossed for p in self.evidence.step("client_cache", "depth") if p.crossed is not None]
        if min(wire, default=1.0) < WIRE_FRACTION:
            found.update(dict.fromkeys(("read large", "read small"), "the reads came from the client's own cache"))
        return found

    @cached_property
    def parts(self) -> dict[str, Interval]:
        """The server's numbers by name."""
        v = {name: each[:, 0] for name, each in values_of(self.theta).items()}
        trip, large = self._alone_s()
        up = v["link"] * v["uplink_ratio"]
        request = np.maximum(SMALL_RECORD / v["disk_write"], v["request_s"]) + v["seek_s"] + v["commit_s"]
        random_read = np.maximum(np.maximum(SMALL_RECORD, v["fetch"]) / v["disk_read"], v["request_s"]) + v["seek_s"]
        found = {
            "round_trip_ns": (trip * 1e9, "ns", ()),
            "byte_ns": (np.maximum(large - trip, 0) * 1e9 / (LARGE_RECORD - SMALL_RECORD), "ns", ()),
            "client_op_ns": ((v["client_s"] + SMALL_RECORD * v["client_byte_s"]) * 1e9, "ns", ("client_s",)),
            "client_large_op_ns": (
                (v["client_s"] + LARGE_RECORD * v["client_byte_s"]) * 1e9, "ns", ("client_byte_s",)),
            "connection_bytes_per_s": (v["window"], "bytes_per_s", ("window",)),
            "link_read_bytes_per_s": (v["link"], "bytes_per_s", ("link",)),
            "link_write_bytes_per_s": (up, "bytes_per_s", ("link",)),
            "server_ops_per_s": (1 / v["server_s"], "iops", ("server_s",)),
            "server_memory_bytes_per_s": (v["memory"], "bytes_per_s", ("memory",)),
            "server_cache_bytes": (v["cache"], "bytes", ("cache",)),
            "disk_read_bytes_per_s": (v["disk_read"], "bytes_per_s", ("disk_read",)),
            "disk_write_bytes_per_s": (v["disk_write"], "bytes_per_s", ("disk_write",)),
            "disk_read_iops": (1 / random_read, "iops", ("request_s", "seek_s")),
            "disk_write_iops": (1 / request, "iops", ("request_s", "seek_s", "commit_s")),
            "write_back_bytes": (v["write_back"], "bytes", ("write_back",)),
        }  # fmt: skip
        return {name: self._interval(values, unit, of) for name, (values, unit, of) in found.items()}

    def _alone_s(self) -> tuple[Array, Array]:
        """Seconds of one small and of one large read from the server's cache, nothing else outstanding, by particle."""
        alone = [
            Load("read", record, 1, 1, SMALL_BYTES, record == SMALL_RECORD, "small")
            for record in (SMALL_RECORD, LARGE_RECORD)
        ]
        times = np.exp(-split(values_of(self.theta), rows_of_loads(alone, self.rows)).log_rate)
        return times[:, 0], times[:, 1]

    def _interval(self, values: Array, unit: str, of: tuple[str, ...]) -> Interval:
        low, middle, high = (quantile(values, self.weight, q) for q in (0.025, 0.5, 0.975))
        edges = [self._edges(name) for name in of]
        inverse = unit == "iops"
        seen_low = not edges or any(edge[1 if inverse else 0] for edge in edges)
        seen_high = not edges or any(edge[0 if inverse else 1] for edge in edges)
        return Interval(middle, low, high, unit, seen_low, seen_high)

    def _edges(self, name: str) -> tuple[bool, bool]:
        """Whether the data, and not the prior, end a parameter's interval below and above."""
        at = AT[name]
        low, after, before, high = (quantile(self.theta[:, at], self.weight, q) for q in (0.025, 0.1, 0.9, 0.975))
        below, above = (FAST_EDGE, SLOW_EDGE) if name.endswith("_s") else (SLOW_EDGE, FAST_EDGE)
        width = (HIGH - LOW)[at]
        seen_low = low > LOW[at] + below * width and after - low < TAIL * width
        return seen_low, high < HIGH[at] - above * width and high - before < TAIL * width

    def document(self) -> dict[str, Any]:
        """As it is kept with the run: every name, None where the data say nothing of it."""
        return {
            **{name: part.document() for name, part in self.parts.items()},
            "max_depth": self.evidence.granted_depth, "burst": self.evidence.burst, "unfit": dict(self.unfit),
            "version": model_version(),
        }  # fmt: skip


def fit(evidence: Evidence, runs: int = RUNS) -> Fitted | None:
    """The model of a ladder; works with whatever steps there are. None where it measured nothing."""
    rows = rows_of(evidence)
    if rows is None:
        return None
    return Fitted(rows, _as_seen(posterior_of(rows, runs)), evidence)


def _as_seen(posterior: Posterior) -> Posterior:
    """Without the token buckets that nothing speaks for: a prediction is for a server that goes on as it did."""
    bucket = np.asarray(switched_on(posterior.theta, "bucket_on"))
    if not bucket.any() or posterior.share(bucket) >= BELIEVED:
        return posterior
    weight = posterior.weight[~bucket]
    theta, run = posterior.theta[~bucket], posterior.run[~bucket]
    return dataclasses.replace(posterior, theta=theta, weight=weight / weight.sum(), run=run)


def document_of(evidence: Evidence, runs: int = RUNS) -> Mapping[str, Any]:
    """`ladder.model` of a run's document; empty where nothing was measured."""
    fitted = fit(evidence, runs)
    return fitted.document() if fitted else {"version": model_version()}


def quantile(values: Array, weight: Array, q: float) -> float:
    """Of a weighted sample."""
    order = np.argsort(values)
    sums = np.cumsum(weight[order])
    return float(values[order[min(int(np.searchsorted(sums, q * sums[-1])), len(order) - 1)]])
