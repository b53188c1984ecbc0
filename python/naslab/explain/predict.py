"""What a server would do with other parts: the fitted model, with a part changed.

Every rate is predicted twice: with the parts that were never the slowest as slow as they can be, and as fast. Where the
two differ, a part that nobody has seen decides, and there is no prediction but a lower bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from naslab.explain.evidence import Evidence
from naslab.explain.model import SAME, RandomRead, ServerModel, durable_large, durable_small, fit, smooth_least
from naslab.explain.points import Figure, Point
from naslab.explain.steps import LARGE_RECORD, SMALL_BYTES, SMALL_RECORD

HIDDEN = 1.1
"""A lower and an upper bound further apart than this are no prediction."""
WIDE = 1.3
"""An interval wider than this is none either."""
MODEL_ERROR = 0.03
"""Half of an interval, as a share, that the model itself adds."""
FITS = 0.15
"""The model has to give what was measured within this, or it says nothing of what was not."""
NS = 1e9
TRIES = 60
Values = Mapping[str, float]


@dataclass(frozen=True)
class Scale:
    """A changed number: so many times as much, or a value of its own."""

    factor: float | None = None
    value: float | None = None

    def of(self, number: float) -> float:
        """What becomes of a number."""
        return self.value if self.value is not None else number * (self.factor or 1.0)

    def document(self) -> dict[str, float]:
        """As in JSON."""
        return {"factor": self.factor} if self.factor is not None else {"value": self.value or 0.0}


@dataclass(frozen=True)
class Change:
    """Changed parts; None stays. Own values of link and disk are bytes/s, of ram bytes, of latency ns."""

    link: Scale | None = None
    disk: Scale | None = None
    disk_iops: Scale | None = None
    ram: Scale | None = None
    latency: Scale | None = None
    cpu: Scale | None = None

    def document(self) -> dict[str, Any]:
        """Only what changes."""
        return {name: each.document() for name, each in vars(self).items() if each is not None}


@dataclass(frozen=True)
class Load:
    """What is asked of the server. set_bytes: the data gone through. Writes count when they are durable."""

    op: str
    record_bytes: int
    depth: int
    connections: int
    set_bytes: int
    random: bool
    size: str

    @property
    def name(self) -> str:
        """`large reads`."""
        return f"{self.size} {self.op}s"


@dataclass(frozen=True)
class Answer:
    """Operations per second, and what holds them back."""

    ops: float
    limit: str


@dataclass(frozen=True)
class Prediction:
    """One load, now and then. measured: None where it was not. known: `then` is a prediction, else only its low is."""

    load: Load
    measured: Figure | None
    now: Figure
    then: Figure
    known: bool
    limit_now: str
    limit_then: str
    why: str = ""

    def document(self) -> dict[str, Any]:
        """As in JSON."""
        load = self.load
        then = self.then.document() if self.known else {"at_least": self.then.low, "unit": self.then.unit}
        if not self.known and math.isfinite(self.then.high):
            then["at_most"] = self.then.high
        return {
            "applies_to": {"op": load.op, "size": load.size}, "record_bytes": load.record_bytes, "depth": load.depth,
            "connections": load.connections, "set_bytes": load.set_bytes, "random": load.random,
            "measured": self.measured.document() if self.measured else None, "now": self.now.document(),
            "then": then, "known": self.known, "limit_now": self.limit_now,
            "limit_then": self.limit_then if self.known else None, "why": self.why,
        }  # fmt: skip


@dataclass(frozen=True)
class Scenario:
    """One set of numbers. hopeful: parts that were never reached cost nothing, nor do a disk's requests but bytes."""

    values: Values
    hopeful: bool = True

    def of(self, name: str, otherwise: float = math.inf) -> float:
        """A number."""
        return self.values.get(name, otherwise)


def scenario(model: ServerModel, hopeful: bool, **other: float) -> Scenario:
    """The model's numbers, some of them replaced."""
    values = {name: part.value if part.reached or not hopeful else math.inf for name, part in model.parts.items()}
    return Scenario({**values, **other}, hopeful)


def changed(now: Scenario, change: Change) -> Scenario:
    """The same server with the changed parts. A disk's scale also holds for its requests, an own value does not."""
    values = dict(now.values)
    scales = [
        (("link_read_bytes_per_s", "link_write_bytes_per_s"), change.link),
        (("disk_read_bytes_per_s", "disk_write_bytes_per_s"), change.disk),
        (("server_ops_per_s",), change.cpu), (("server_cache_bytes",), change.ram),
    ]  # fmt: skip
    for names, scale in scales:
        for name in names:
            if scale and (name in values or scale.value is not None):
                values[name] = scale.of(values.get(name, math.inf))
    if change.link and "path_bytes_per_s" in values:
        del values["path_bytes_per_s"]
    return Scenario(values, now.hopeful)


class Way:
    """One load over a server whose parts are as in `now`, changed to what they are in `then`."""

    def __init__(self, model: ServerModel, now: Scenario, change: Change) -> None:
        self.model, self.now, self.change = model, now, change
        self.then = changed(now, change)

    def answer(self, load: Load) -> Answer:
        """Operations per second of a load."""
        times = self.stations(self.then, load)
        disk_ns = self.disk_ns(load)
        if disk_ns:
            times["disk" if self._by_bytes(load, disk_ns) else "disk_iops"] = disk_ns
        slowest = max(times, key=lambda kind: times[kind])
        flying = self.in_flight(load)
        # A large write is answered from the server's memory, and the disk goes on beside it.
        waited = 0.0 if load.op == "write" and not load.random else disk_ns
        rising = flying * NS / max(self.alone_ns(load) + waited, 1.0)
        level = NS / times[slowest] if times[slowest] > 0 else math.inf
        waits = "protocol" if self.model.max_depth and load.depth >= self.model.max_depth else "latency"
        return Answer(smooth_least(rising, level, self.model.sharpness), slowest if level <= rising else waits)

    def in_flight(self, load: Load) -> int:
        """Requests that are under way at once."""
        return load.connections * min(load.depth, self.model.max_depth or load.depth)

    def stations(self, at: Scenario, load: Load) -> dict[str, float]:
        """Time of one request at each part, but for the disk, in ns."""
        size, many = load.record_bytes, load.connections
        whole = size + self.model.header_bytes * (1 - size / LARGE_RECORD)
        link = min(at.of(f"link_{load.op}_bytes_per_s"), self._interface())
        found = {
            "link": whole * NS / link, "server_cache": size * NS / at.of("server_memory_bytes_per_s"),
            "server_cpu": NS / at.of("server_ops_per_s"), "client_cpu": self._client_ns(load),
            "protocol": max(whole * NS / at.of("connection_bytes_per_s"), NS / at.of("connection_ops_per_s")) / many,
        }  # fmt: skip
        found["link or server_cache"] = whole * NS / at.of("path_bytes_per_s")
        return found

    def _interface(self) -> float:
        """What the client's own interface carries: it is no part of a changed link."""
        nic = self.model.nic_bytes_per_s
        if not nic:
            return math.inf
        link = self.model.parts.get("link_read_bytes_per_s")
        return max(0.95 * nic, link.value if link and link.value <= nic * 1.01 else 0.0)

    def _client_ns(self, load: Load) -> float:
        small, large = (self.now.of(n, 0.0) for n in ("client_op_ns", "client_large_op_ns"))
        each = float(np.interp(load.record_bytes, (SMALL_RECORD, LARGE_RECORD), (small, max(small, large))))
        return each / min(load.connections, self.model.client_cpus if not self.model.simulated else load.connections)

    def alone_ns(self, load: Load) -> float:
        """Time of one request alone that memory answers: as measured, but for what the changes add or take."""
        trip, per_byte = self.now.of("round_trip_ns", 0.0), self.now.of("byte_ns", 0.0)
        whole = trip + per_byte * (load.record_bytes - SMALL_RECORD)
        before, after = self.stations(self.now, load), self.stations(self.then, load)
        whole += sum(after[kind] - before[kind] for kind in ("link", "server_cache", "server_cpu"))
        if self.change.latency:
            here = (
                trip - NS / self.now.of("server_ops_per_s") - self.now.of("client_op_ns", 0.0) - per_byte * SMALL_RECORD
            )
            here = max(here, 0.0)
            whole += self.change.latency.of(here) - here
        return max(whole, 1.0)

    # The disk.

    def misses(self, at: Scenario, load: Load) -> float:
        """Share of the requests that the disk has to serve."""
        if load.op == "write":
            return 1.0
        cache = at.of("server_cache_bytes", float(SMALL_BYTES))
        if load.set_bytes <= max(cache, SMALL_BYTES):
            return 0.0
        return 1.0 - cache / load.set_bytes if load.random else 1.0

    def disk_ns(self, load: Load) -> float:
        """Time that a request costs the disk, on average over hits and misses."""
        share = self.misses(self.then, load)
        return share * self._request_ns(load) if share else 0.0

    def _request_ns(self, load: Load) -> float:
        """Time of one request at the changed disk."""
        name = f"disk_{load.op}_bytes_per_s"
        before, after = (
            _time_ns(load.record_bytes, self.now.of(name, 0.0)),
            _time_ns(load.record_bytes, self.then.of(name, 0.0)),
        )
        if not load.random:
            return after
        return self._changed_ns(self._random_ns(load), before, after)

    def _changed_ns(self, whole: float, before: float, after: float) -> float:
        """A random request's time at the changed disk: its bytes, and what it costs whatever its size.

        Seeks add to the time of the bytes; a number of requests per second goes on beside them.
        """
        disk, iops = self.change.disk, self.change.disk_iops
        if disk is not None and disk.factor is not None:
            whole, before = whole / disk.factor, after
        elif disk is not None:
            fixed = max(whole - before, 0.0)
            whole = fixed + after if self.model.seeks or self.then.hopeful else max(whole, after)
            before = after
        if iops is None:
            return whole
        fixed = max(whole - before, 0.0)
        if iops.value is not None:
            return max(NS / iops.value, before)
        if self.model.seeks:
            return fixed / (iops.factor or 1.0) + before
        return max(whole / (iops.factor or 1.0), before)

    def _random_ns(self, load: Load) -> float:
        """Time of one random request at the disk as it is: from the loads measured over more than memory."""
        if load.op == "write":
            small = self._small_write_ns(load)
            more = (load.record_bytes - SMALL_RECORD) * NS / self.now.of("disk_write_bytes_per_s", math.inf)
            return small + more
        seen = sorted(self.model.random_reads, key=lambda r: r.record_bytes)
        if not seen:
            return math.inf
        records = [r.record_bytes for r in seen]
        times = [self._solved(r) for r in seen]
        inside = float(np.interp(load.record_bytes, records, times))
        more = max(load.record_bytes - records[-1], 0) * NS / self.now.of("disk_read_bytes_per_s", math.inf)
        return inside + more

    def _small_write_ns(self, load: Load) -> float:
        ops = self.now.of("disk_write_iops", 0.0)
        if math.isinf(ops):
            return SMALL_RECORD * NS / self.now.of("disk_write_bytes_per_s", math.inf)
        return NS / ops if ops else math.inf

    def _solved(self, seen: RandomRead) -> float:
        """The disk's time for one request, that gives the rate seen: a rate falls with it, so halving finds it."""
        plain = Way(self.model, self.now, Change())
        load = Load("read", seen.record_bytes, seen.in_flight, 1, seen.set_bytes, True, "small")
        share = max(self.misses(self.now, load), 1e-6)
        level = NS / max(1e-3, *plain.stations(self.now, load).values())
        alone = plain.alone_ns(load)
        least = seen.record_bytes * NS / self.now.of("disk_read_bytes_per_s", math.inf)
        memory = smooth_least(seen.in_flight * NS / alone, level, self.model.sharpness)
        if self.now.hopeful and seen.iops.value >= SAME * memory:
            return least  # the way to memory explains the rate: of the disk it is only a lower bound
        low, high = least, max(10 * seen.in_flight * NS / seen.iops.value / share, 2 * least)
        for _ in range(TRIES):
            middle = math.sqrt(max(low, 1e-3) * high)
            rising = seen.in_flight * NS / (alone + share * middle)
            rate = smooth_least(rising, min(level, NS / (share * middle)), self.model.sharpness)
            low, high = (middle, high) if rate > seen.iops.value else (low, middle)
        return high

    def _by_bytes(self, load: Load, disk_ns: float) -> bool:
        """Whether bytes are what the disk needs its time for."""
        rate = self.then.of(f"disk_{load.op}_bytes_per_s", math.inf)
        share = self.misses(self.then, load)
        return not load.random or disk_ns <= 1.15 * share * load.record_bytes * NS / rate


def _time_ns(size: int, rate: float) -> float:
    """Of bytes at a rate; for ever at none."""
    return size * NS / rate if rate else math.inf


def predict(model: ServerModel, change: Change, now: Load, then: Load, measured: Figure | None = None) -> Prediction:
    """A load now, and (perhaps another one) with the changed parts. measured: of `now`, where it was."""
    unit = "bytes_per_s" if then.size == "large" else "iops"

    def rates(at: Scenario) -> tuple[Answer, Answer]:
        return Way(model, at, Change()).answer(now), Way(model, at, change).answer(then)

    before, after = rates(scenario(model, True))
    least = [each.ops for each in (*rates(scenario(model, False)), *rates(scenario(model, True)))]
    low, high = min(least[1], least[3]), max(least[1], least[3])
    factor, misfit = _calibration(before, after, measured, now, change == Change() and now == then)
    value = math.sqrt(max(low, 1e-9) * high) * factor if not math.isinf(high) else low * factor
    doubt = _sampled(measured) if then.random and then.op == "read" and then.set_bytes > SMALL_BYTES else (0.0, 0.0)
    down, up = _spread(model, lambda at: rates(at)[1].ops, doubt)
    scale = then.record_bytes if unit == "bytes_per_s" else 1
    figure = Figure(value * scale, value * scale * math.exp(-down), value * scale * math.exp(up), unit)
    unfit = model.unfit.get(f"{then.op} {then.size}", "")
    why = unfit or misfit or _hidden(low, high, figure)
    modelled = Figure.exactly(before.ops * (now.record_bytes if unit == "bytes_per_s" else 1), unit)
    if unfit or misfit:
        figure = Figure(0.0, 0.0, math.inf, unit)
    elif why == "hidden":
        figure = Figure(low * factor * scale, low * factor * scale * math.exp(-down), math.inf, unit)
    return Prediction(then, measured, modelled, figure, not why, before.limit, after.limit, why)


def _hidden(low: float, high: float, figure: Figure) -> str:
    """Why a prediction is none."""
    if high > HIDDEN * low:
        return "hidden"
    if figure.high > WIDE * figure.low:
        return "wide"
    return ""


def _calibration(before: Answer, after: Answer, measured: Figure | None, now: Load, same: bool) -> tuple[float, str]:
    """What the measured rate is of the modelled one, where the same part stays the slowest; and why it says nothing."""
    if measured is None or measured.value <= 0:
        return 1.0, ""
    modelled = before.ops * (now.record_bytes if measured.unit == "bytes_per_s" else 1)
    factor = measured.value / max(modelled, 1e-9)
    if abs(math.log(factor)) > math.log(1 + FITS):
        return 1.0, "misfit"
    return (factor if before.limit == after.limit or same else 1.0), ""


def _sampled(measured: Figure | None) -> tuple[float, float]:
    """How far a measured rate's logarithm may be off, down and up: of random reads, how many met memory is chance."""
    if measured is None or measured.value <= 0:
        return 0.0, 0.0
    down = math.log(measured.value / measured.low) if measured.low > 0 else math.inf
    return down, math.log(max(measured.high / measured.value, 1.0))


def _spread(model: ServerModel, ops: Callable[[Scenario], float], doubt: tuple[float, float]) -> tuple[float, float]:
    """How far the interval of a rate's logarithm goes down and up: each part at its ends, one at a time, in quadrature.

    The model's own error and `doubt` come on top.
    """
    middle = math.log(max(ops(scenario(model, True)), 1e-9))
    down, up = (MODEL_ERROR**2 + each**2 for each in doubt)
    for name, part in model.parts.items():
        if not part.reached or part.high <= part.low:
            continue
        ends = [ops(scenario(model, True, **{name: end})) for end in (max(part.low, 1e-9), part.high)]
        moves = [math.log(max(end, 1e-9)) - middle for end in ends]
        down, up = down + min(*moves, 0.0) ** 2, up + max(*moves, 0.0) ** 2
    return math.sqrt(down), math.sqrt(up)


# Which loads.


@dataclass(frozen=True)
class Asked:
    """What a user asks for; None: as measured."""

    depth: int | None = None
    connections: int | None = None
    record_bytes: int | None = None
    set_bytes: int | None = None

    def of(self, load: Load) -> Load:
        """The load, changed. A set of its own is only for reads beyond the small files."""
        beyond = load.op == "read" and load.set_bytes > SMALL_BYTES
        record = self.record_bytes if self.record_bytes is not None else load.record_bytes
        return Load(
            load.op, record, self.depth or load.depth, self.connections or load.connections,
            self.set_bytes if self.set_bytes is not None and beyond else load.set_bytes, load.random, load.size,
        )  # fmt: skip


def load_of(point: Point) -> Load:
    """The load that a point was measured with."""
    size = "large" if point.record_bytes > SMALL_RECORD else "small"
    op = "write" if point.op == "write" else "read"
    return Load(op, point.record_bytes, point.depth, point.workers, point.set_bytes, point.random, size)


def measured_loads(evidence: Evidence) -> list[tuple[Load, Figure]]:
    """The loads that stand for the verdict's classes: reads from memory and over the set, durable writes."""
    found: list[tuple[Load, Figure]] = []
    passes = evidence.passes
    beyond = [p for p in evidence.step("beyond") if p.op == "read" and p.record_bytes == SMALL_RECORD]
    for point in (evidence.large, passes[-1] if passes else None, evidence.small, beyond[-1] if beyond else None):
        if point is not None:
            found.append((load_of(point), point.rate if point.record_bytes > SMALL_RECORD else point.iops))
    large, small = durable_large(evidence), durable_small(evidence)
    if large:
        found.append((load_of(large[0]), large[1]))
    if small:
        found.append((load_of(small), small.iops))
    return found


def predictions(evidence: Evidence, change: Change, asked: Asked) -> tuple[ServerModel, list[Prediction]]:
    """The fitted model, and a prediction for each class of load that was measured."""
    model = fit(evidence)
    return model, [predict(model, change, load, asked.of(load), figure) for load, figure in measured_loads(evidence)]
