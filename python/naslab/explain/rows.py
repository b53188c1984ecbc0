"""What a ladder observed, as columns: one row for each rate that the model has to explain.

A cell of readers beside writers is two rows that name each other. Every cell is a row, also those that are left out of
the likelihood (weight 0): what they moved fills caches and spends credit.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from naslab.analysis.series import NS_PER_S
from naslab.explain.steps import LARGE_RECORD, PROTECTED, SMALL_BYTES, SMALL_RECORD

if TYPE_CHECKING:
    from naslab.explain.evidence import Evidence
    from naslab.explain.points import Point

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

ALIKE_POWER = 0.7
"""n rows of the same kind weigh n^-0.7 each: they share one error of the model."""
LEVEL = 0.1
"""Log rates of one kind that are further apart than this, with none between, are levels of their own."""
COUNTING = 0.3
"""Standard deviation of counting whole operations, in operations."""
MAX_SIGMA = 0.5
EARLY = 1.03
"""A pass that was so much faster at its start had parts of its set in the server's cache."""
NULL_SIGMA, HELD_UP = 0.05, 0.25
"""Of the time of a call that moves nothing; more where the mean is above the median, by a share of the log ratio."""
REFUSED_SIGMA = 0.3
"""Of the rate of refused writes: what a server does to receive them, beside copying, is in no station of the model."""
ASIDE = "aside"
"""The step of rows that no step compares: they are left out of the likelihood, and filled caches and spent credit."""
LEFT_OUT = frozenset((PROTECTED, "clients", "buffered_round_trip"))
"""Steps whose cells vary something that the model does not hold."""
MIN_STALLS = 3
LONGEST_TURN_NS = 400_000_000
"""Pauses of more are no turns of a processor, but of operations that are slow."""
RATION_NS = 250_000_000
"""Pauses shorter than this are those of a processor whose time is rationed, which does less work, or of a busy host."""
SHORT_STOP_NS = 150_000_000
"""Stops of all of many small reads are told from those pauses from here on: no usual period of rationing is longer."""
HEAVY, HEAVY_ERROR = 0.4, 0.10
"""Processors of the client in use from which on a rate is one of processors, too, the server's among them: schedulers,
clocks and caches make it differ from cell to cell by this standard deviation of its logarithm; by less below."""
CREDIT_BYTES = 65536
BUSY = 0.9
"""Share of a machine's processors in use from which on they may be what limits."""
CROWDED, BESIDE, WORKS = 0.8, 0.5, 0.15
"""Share of a machine's processors in use by a load, with so many of them in use before it, from which on a server that
is on the machine, too, is held up by them; so many at least are used by the client, and by others more than before."""
OWN_LIMIT, THROTTLED, OWN_HALF, ALWAYS = 0.75, 0.3, 0.5, 0.9
"""Share of the processor time that it may use, and of the time that it was stopped for it, from which on a client is
held up by its own limit; and the share that is enough where it was stopped again and again, without an end."""
TURNS, RATIONED = 50, 3.0
"""A pause, and the mean, of small reads over the usual one, where a processor's time is rationed."""
HELD, HELD_NS = 3.0, 200_000_000
"""A single request waited for the end of a stop, perhaps, where the slowest percent took so many times the usual time,
and so much longer."""
AS_READS = 0.4
"""Small durable writes at so much of the rate of reads that come in turns wait for the same processor."""
SPREAD, SPREAD_ERROR = 2.0, 0.1
"""Times the mean above the median, and share of the median, that slow operations may add."""
WATCHED_NS = 4 * NS_PER_S
"""Small reads that are watched for so long show whether a server stops every two seconds or so."""
OWN_NS = 3 * NS_PER_S
"""Loads of one kind that are watched for so long show its own stops, in all."""
OPERATIONS = ("read", "write")
DEEP = 4
"""Stops are looked for where at least a so-many-th of the most requests were outstanding."""


@dataclass(frozen=True)
class Rows:
    """Columns by row. rates are natural logarithms of operations per second, sizes bytes, times seconds.

    null: what is sent reaches no disk: a call without data, or a write that the server refuses, once it is in memory.
    durable: each operation is durable before its answer. whole: the time counts until all is durable. late: only the
    latter half of the pass counts. pair: the row that ran beside this one, or -1. moved: bytes of this row alone.
    sigma: standard deviation of `seen`, without the model's error; time that the host of a virtual machine took adds
    to it, and so does the use of processors. client_s: client's processor time per operation, NaN where it tells
    nothing.
    """

    read: Flags
    durable: Flags
    random: Flags
    null: Flags
    whole: Flags
    late: Flags
    record: Array
    depth: Array
    workers: Array
    files: Array
    size: Array
    start: Array
    seconds: Array
    pair: NDArray[np.int64]
    moved: Array
    count: Array
    weight: Array
    seen: Array
    sigma: Array
    client_s: Array
    step: list[str]
    cell: NDArray[np.int64]
    nic_bytes_per_s: float = 0.0
    granted_depth: int = 0
    slots: float = 0.0
    """What a connection may have outstanding, in `charge`s, as the server said; 0: it said nothing."""
    max_set_bytes: float = 0.0
    wire_fraction: float = 1.0
    stall: Mapping[str, float] = field(default_factory=dict)
    cpus: float = 1.0
    cpu_limit: float = 0.0
    same_machine: bool = False
    here: bool = False
    """Whether the server was seen to run on the client's machine; `same_machine` is that it may."""
    busy: bool = False
    """Whether all processors of the client's machine were in use, by whomever: the server may be on it, too."""
    rationed: bool = False
    """Whether small reads of cached data, one at a time, come in turns of work and long pauses: a processor's time is
    rationed, and everything that it does looks slow."""
    turns: frozenset[tuple[str, str]] = frozenset()
    """Kinds of I/O, as ("read", "large"), whose single requests come in such turns, as calls without data do."""
    crowded: frozenset[tuple[str, str]] = frozenset()
    """Kinds of I/O whose busiest loads leave nothing of processors that the client, the server and others share."""
    own_limit: frozenset[tuple[str, str]] = frozenset()
    """Kinds of I/O whose busiest loads used all the processor time that the client may use, and were throttled."""
    slow_most_s: float = float("inf")
    """Seconds that slow operations add on average at most, by how the times of single requests are spread."""
    server_times: tuple[tuple[float, float], ...] = ()
    """(bytes of an operation, seconds that a server on this machine works for it at least)."""
    local_disk: bool = False
    protocol: str = ""
    burst: tuple[float, float, float] | None = None
    credited: frozenset[str] = frozenset()
    """Operations whose large loads fell to a lower rate, and were as fast as before after a rest."""
    usual: bool = False
    """Whether the rows are cells of any run, which no ladder chose: what was not varied is as it usually is."""
    order: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """Rows in the order of their start."""

    def __len__(self) -> int:
        return len(self.record)

    @property
    def counted(self) -> bool:
        """Whether all that the server's processors do for an operation was counted, and nothing rations them."""
        return bool(self.server_times) and not self.rationed and not self.turns

    @property
    def charge(self) -> Array:
        """Slots of a connection that one operation takes: SMB counts credits of 64 KiB (MS-SMB2 3.1.5.2)."""
        return np.maximum(np.ceil(self.record / CREDIT_BYTES), 1.0) if self.protocol == "smb" else np.ones(len(self))

    def tells(self, op: str) -> bool:
        """Whether any row that counts is a load of this operation."""
        return bool(((self.read == (op == "read")) & ~self.null & (self.weight > 0)).any())

    def stopped(self, op: str, size: str) -> float:
        """Share of the time in which nothing moved, of one kind of I/O where that was watched for long enough."""
        return self.stall.get(f"{op} {size}", self.stall.get(size, 0.0))

    def label(self, at: int) -> str:
        """A row in words, for tables of residuals."""
        op = "read" if self.read[at] else "write"
        return f"{self.step[at]} {op} {int(self.record[at]) >> 10}K d{self.depth[at]:.0f} w{self.workers[at]:.0f}"


def rows_of(evidence: Evidence, usual: bool = False) -> Rows | None:
    """The rows of a ladder; None where it measured nothing. usual: they are cells of any run, which no ladder chose."""
    made: list[dict[str, Any]] = []
    for step, points in [*evidence.points.items(), (ASIDE, evidence.aside)]:
        if step in LEFT_OUT:
            continue
        for point in points:
            made += _paired(point, step, len(made)) if point.op == "mixed" else [_single(point, step, evidence.burst)]
    if all(m["step"] == ASIDE for m in made):
        return None
    if evidence.null_ns:
        made.append(_null(made[0], evidence.null_ns, _is_rationed(evidence.round_trip)))
    if evidence.refused_bytes_per_s:
        made.append(_refused(made[0], evidence.refused_bytes_per_s))
    largest = max((m["size"] for m in made if m["step"] == "set"), default=0.0)
    weights = _weights(made, largest)
    _count_pauses(made, evidence)
    points = evidence.as_it_is()
    busy = _is_busy(points, evidence.client_cpus)
    columns = {name: np.array([m[name] for m in made]) for name in made[0] if name not in ("step", "group")}
    wire = [p.crossed for p in evidence.step("client_cache") if p.crossed is not None]
    served = evidence.served()
    here = evidence.same_machine or bool(served)
    burst = evidence.burst or {}
    hint = tuple(burst[k] for k in ("base_bytes_per_s", "burst_bytes_per_s", "size_bytes")) if burst.get(
        "size_bytes") else None  # fmt: skip
    return Rows(
        **columns, step=[m["step"] for m in made], weight=weights, order=np.argsort(columns["start"], kind="stable"),
        nic_bytes_per_s=float(evidence.nic_bytes_per_s or 0), granted_depth=int(evidence.granted_depth or 0),
        slots=float(evidence.slots or 0), max_set_bytes=float(max(p.set_bytes for p in points)),
        wire_fraction=float(wire[0]) if wire else 1.0,
        stall=_stops(evidence, points), cpus=float(max(evidence.client_cpus, 1)), cpu_limit=_cpu_limit(points),
        same_machine=here or busy, here=here, busy=busy, server_times=served,
        rationed=_is_rationed(evidence.round_trip), turns=_turns(evidence, points), own_limit=_own_limit(points),
        crowded=_crowded(points, evidence),
        slow_most_s=_slow_most(points), local_disk=evidence.local_disk, protocol=evidence.protocol,
        burst=hint, usual=usual,
        credited=frozenset(op for op in OPERATIONS if hint and burst.get("proved") and evidence.credit(op)),
    )  # fmt: skip


def _single(p: Point, step: str, burst: Mapping[str, Any] | None) -> dict[str, Any]:
    """One row of a cell that read or wrote. burst: credit, where a rest proved it: of the load that spent it counts
    what was left."""
    if step == "long" and burst and burst.get("proved") and p.op == burst["spent_by"]:
        low, high = burst["base_ci95"]
        slow = dataclasses.replace(
            p, rate=dataclasses.replace(p.rate, value=burst["base_bytes_per_s"], low=low, high=high)
        )
        return _row(slow, step, p.op, slow.rate.value, late=True)
    if p.op == "read":
        late = p.set_bytes > SMALL_BYTES and p.reads > EARLY * p.rate.value
        return _row(p, step, "read", p.rate.value if late else p.reads, late=late)
    if p.durability != "end" or not p.durable:
        return _row(p, step, "write", p.writes)
    found = _row(p, step, "write", p.durable, whole=True)
    found["seconds"] = found["moved"] / p.durable
    return found


def _paired(p: Point, step: str, first: int) -> list[dict[str, Any]]:
    """Two rows of readers beside writers."""
    found = [_row(p, step, "read", p.reads), _row(p, step, "write", p.writes)]
    found[0]["pair"], found[1]["pair"] = first + 1, first
    return found


def _row(p: Point, step: str, op: str, rate: float, whole: bool = False, late: bool = False) -> dict[str, Any]:
    seconds = (p.end_ns - p.start_ns) / NS_PER_S
    count = max(rate * seconds / p.record_bytes, 1.0)
    half = min((p.rate.high - p.rate.low) / 3.92 / max(p.rate.value, 1.0), MAX_SIGMA)
    mixed, own = p.op == "mixed", p.files > 1 or p.workers == 1
    return {
        "read": op == "read", "durable": p.durability == "each", "random": p.random, "null": False, "whole": whole,
        "late": late, "record": float(p.record_bytes), "depth": float(p.depth),
        "workers": 1.0 if mixed else float(p.workers), "files": float(max(p.files, 1)) if own else 1.0,
        "size": float(p.set_bytes), "start": p.start_ns / NS_PER_S, "seconds": max(seconds, 1e-6), "pair": -1,
        "moved": (p.reads if op == "read" else p.writes) * seconds, "count": count,
        "seen": float(np.log(max(rate, 1.0) / p.record_bytes)),
        "sigma": float(np.sqrt(half**2 + (COUNTING / count) ** 2 + p.steal**2 + _heavy(p) ** 2)),
        "client_s": np.nan if mixed or rate <= 0 else p.cpu * p.record_bytes / rate, "step": step, "cell": p.cell,
        "group": (op, p.durability == "each", p.record_bytes, whole, mixed, p.depth == 1, p.set_bytes > SMALL_BYTES,
                  p.workers > 1, p.files > 1),
    }  # fmt: skip


def _heavy(p: Point) -> float:
    """What busy processors add to a row's standard deviation: the client's, and those of a server on its machine."""
    return HEAVY_ERROR * min((p.cpu + max(p.others, 0.0)) / HEAVY, 1.0)


def _null(like: dict[str, Any], latency_ns: Mapping[str, float], rationed: bool) -> dict[str, Any]:
    """The row of calls that move nothing: their median, for a busy machine holds up a few; where a processor's time is
    rationed their mean, for then the long ones are the server's."""
    usual, mean = max(latency_ns["p50"], 1), max(latency_ns["mean"], 1)
    rationed = rationed or _null_in_turns(latency_ns)
    seen_ns = mean if rationed else usual
    sigma = max(NULL_SIGMA, 0.0 if rationed else HELD_UP * float(np.log(max(mean / usual, 1.0))))
    return {**like, **_single_calls("null", 1, NS_PER_S / seen_ns), "read": True, "sigma": sigma}


def _refused(like: dict[str, Any], bytes_per_s: float) -> dict[str, Any]:
    """The row of writes that the server refused: they met all on the way into its memory, and no disk."""
    calls = _single_calls("refused", LARGE_RECORD, bytes_per_s / LARGE_RECORD)
    return {**like, **calls, "read": False, "sigma": REFUSED_SIGMA}


def _single_calls(step: str, record: int, per_s: float) -> dict[str, Any]:
    """What rows of calls have that reach no disk, one at a time."""
    return {
        "durable": False, "random": False, "null": True, "whole": False, "late": False, "record": float(record),
        "depth": 1.0, "workers": 1.0, "files": 1.0, "pair": -1, "moved": 0.0, "count": 1.0, "seconds": 0.1,
        "client_s": np.nan, "seen": float(np.log(per_s)), "step": step, "group": (step,),
    }  # fmt: skip


def _weights(made: list[dict[str, Any]], largest: float) -> Array:
    """Of each row in the likelihood: rows of one kind with like rates share an error; some only change state."""
    groups = _levels(made)
    count = Counter(groups)

    def aside(m: dict[str, Any]) -> bool:
        # What the passes before left in memory is read again: the set is not the largest, or a smaller one was last.
        sequential = m["read"] and not m["random"]
        again = m["step"] == "beyond" and sequential and (largest < m["size"] or _after_a_smaller_set(m, made))
        return m["step"] in (ASIDE, "set_taken_in", "client_cache") or again

    return np.array([0.0 if aside(m) else count[group] ** -ALIKE_POWER for m, group in zip(made, groups, strict=True)])


def _levels(made: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The kind of each row and the level of its rate, which rates far from each other do not share.

    A set that no longer fits into a cache is news, and no repetition of those that did.
    """
    level = [0] * len(made)
    order = sorted(range(len(made)), key=lambda at: (repr(made[at]["group"]), made[at]["seen"]))
    for before, at in itertools.pairwise(order):
        same = made[at]["group"] == made[before]["group"]
        level[at] = level[before] + (made[at]["seen"] - made[before]["seen"] > LEVEL) if same else 0
    return [(m["group"], where) for m, where in zip(made, level, strict=True)]


def _after_a_smaller_set(m: dict[str, Any], made: list[dict[str, Any]]) -> bool:
    """Whether a read of a part begins where the pass before it, over fewer bytes, has just been."""
    before = [o for o in made if o["read"] and not o["random"] and o["start"] < m["start"] and not o["null"]]
    last = max(before, key=lambda o: o["start"], default=None)
    return last is not None and last["size"] < m["size"] and m["moved"] < m["size"]


def _is_rationed(trip: Point | None) -> bool:
    return trip is not None and _comes_in_turns(trip.p50_ns, trip.mean_ns, trip.p99_ns)


def _null_in_turns(latency_ns: Mapping[str, float]) -> bool:
    return _comes_in_turns(latency_ns["p50"], latency_ns["mean"], latency_ns["p99"])


def _null_pause_ns(latency_ns: Mapping[str, float]) -> float:
    return _pause_ns(latency_ns["p50"], latency_ns["mean"], latency_ns["p99"])


def _comes_in_turns(usual_ns: float, mean_ns: float, p99_ns: float) -> bool:
    """Whether most calls are quick and a few take nearly all of the time."""
    return _pause_ns(usual_ns, mean_ns, p99_ns) > TURNS * usual_ns > 0 and mean_ns > RATIONED * usual_ns


def _pause_ns(usual_ns: float, mean_ns: float, p99_ns: float) -> float:
    """How long a call takes that is held up: as the slowest percent; where fewer than that are, yet take so much of the
    time that the mean is above it, at least a hundred times what they add to the mean."""
    return p99_ns if p99_ns >= mean_ns else 100 * (mean_ns - usual_ns)


def _count_pauses(made: list[dict[str, Any]], evidence: Evidence) -> None:
    """Where calls come in turns of work and pauses a rate depends on how many pauses fall into its time."""
    null, trip = evidence.null_ns, evidence.round_trip
    pauses = [_null_pause_ns(null)] if null and _null_in_turns(null) else []
    pauses += [_pause_ns(trip.p50_ns, trip.mean_ns, trip.p99_ns)] if trip is not None and _is_rationed(trip) else []
    if pauses:
        for m in made:
            m["sigma"] = float(np.hypot(m["sigma"], min(max(pauses) / NS_PER_S / m["seconds"], MAX_SIGMA)))


def _is_busy(points: Sequence[Point], cpus: int) -> bool:
    """Whether all of this machine's processors were in use while it measured: the server may be on it, too."""
    told = [p for p in points if p.others > 0]
    return bool(told) and median(p.cpu + p.others for p in told) >= BUSY * max(cpus, 1)


def _crowded(points: Sequence[Point], evidence: Evidence) -> frozenset[tuple[str, str]]:
    """Kinds of I/O that one connection's client and server share all processors for, with programs that ran before.

    A window, a link or a disk leaves processors idle; a server elsewhere adds nothing to what others use here.
    """
    before, cpus = evidence.before_cores, max(evidence.client_cpus, 1)
    if before is None or before < BESIDE:
        return frozenset()
    busiest = _deciding([p for p in points if p.workers == 1 and p.others > 0])

    def is_crowded(mine: Sequence[Point]) -> bool:
        client, others = median(p.cpu for p in mine), median(p.others for p in mine)
        return min(client, others - before) >= WORKS and client + others >= CROWDED * cpus

    return frozenset(where for where, mine in busiest.items() if is_crowded(mine))


def _turns(evidence: Evidence, points: Sequence[Point]) -> frozenset[tuple[str, str]]:
    """Kinds of I/O whose single requests come in turns of work and long pauses, where calls without data do, too.

    Disks and links that hand out bytes in slices make requests for data wait, but not those calls. A client whose own
    time is rationed is busy meanwhile.
    """
    null = evidence.null_ns
    if not null or not _null_in_turns(null) or _null_pause_ns(null) > LONGEST_TURN_NS:
        return frozenset()
    single = [p for p in points if p.depth * p.workers == 1 and p.p50_ns > 0 and not _is_throttled(p)]
    found = {
        where for where, mine in _by_kind(single).items()
        if median(p.mean_ns / p.p50_ns for p in mine if p.set_bytes == max(q.set_bytes for q in mine)) > RATIONED
    }  # fmt: skip
    # A large request takes longer than a turn: it shows none, and has to wait for its turns all the same.
    found |= {(op, "large") for op, size in found if size == "small"}
    reads, writes = (_small_rate(points, op) for op in OPERATIONS)
    if ("read", "small") in found and writes > AS_READS * reads:
        found.add(("write", "small"))
    return frozenset(found)


def _small_rate(points: Sequence[Point], op: str) -> float:
    """Of the busiest small loads of an operation, writes each durable; 0 where there are none."""
    mine = [p for p in points if p.op == op and p.record_bytes <= SMALL_RECORD and p.durability in ("none", "each")]
    return median(p.rate.value for p in _deep(mine)) if mine else 0.0


def _slow_most(points: Sequence[Point]) -> float:
    """Seconds that slow operations add on average at most: they are what makes the mean longer than the median.

    Of single requests, which wait for no others; most of what any of these loads shows.
    """
    single = [p for p in points if p.depth * p.workers == 1 and p.op != "mixed" and p.p50_ns > 0]
    spread = [max(p.mean_ns - p.p50_ns, 0.0) * SPREAD + p.p50_ns * SPREAD_ERROR for p in single]
    return max(spread, default=float("inf")) / NS_PER_S


def _own_limit(points: Sequence[Point]) -> frozenset[tuple[str, str]]:
    """Kinds of I/O in whose busiest loads the client used up the processor time that it may use."""
    return frozenset(where for where, mine in _deciding(points).items() if median(map(_is_throttled, mine)) > 0.5)


def _is_throttled(p: Point) -> bool:
    """Whether a client's own limit held it up. Of a small quota the system gives some to processors that do not use it:
    who is stopped nearly always has used what it got."""
    least = OWN_LIMIT if p.throttled < ALWAYS else OWN_HALF
    return p.throttled >= THROTTLED and p.cpu >= least * p.cpu_limit > 0


def _by_kind(points: Iterable[Point]) -> dict[tuple[str, str], list[Point]]:
    found: dict[tuple[str, str], list[Point]] = {}
    for p in points:
        if p.op != "mixed":
            found.setdefault((p.op, "small" if p.record_bytes <= SMALL_RECORD else "large"), []).append(p)
    return found


def _deciding(points: Sequence[Point]) -> dict[tuple[str, str], list[Point]]:
    """The busiest loads of each kind, of the largest working set: what limits cached reads is another matter."""
    found = _by_kind(points)
    largest = {where: max(p.set_bytes for p in mine) for where, mine in found.items()}
    return {where: _deep([p for p in mine if p.set_bytes == largest[where]]) for where, mine in found.items()}


def _deep(points: Sequence[Point]) -> list[Point]:
    """Those in which most requests of their size were outstanding."""
    most: dict[int, int] = {}
    for p in points:
        most[p.record_bytes] = max(most.get(p.record_bytes, 0), p.depth * p.workers)
    return [p for p in points if p.depth * p.workers * DEEP >= most[p.record_bytes]]


def _stops(evidence: Evidence, points: Sequence[Point]) -> dict[str, float]:
    """Share of the time in which nothing moved, by kind of I/O: what small reads were watched for decides, where they
    were.

    They come from memory, many in each moment: a server that stops, stops them, and where it does not, the others that
    stood still waited for disks or for a link that hand out bytes in slices.
    """
    found = _stall(points, evidence.null_ns)
    watched = [p for p in evidence.step("watch") if p.stalls and p.end_ns - p.start_ns >= WATCHED_NS]
    if not watched:
        return found
    lengths = [stalls.length_ns for p in watched if (stalls := p.stalls) for _ in range(stalls.count)]
    if not lengths:
        return {}
    # Single requests that waited for the end of a stop are further ones.
    if len(lengths) < MIN_STALLS and (len(lengths) < 2 or len(lengths) + sum(map(was_held, points)) < MIN_STALLS):
        return found
    if not found and median(lengths) >= SHORT_STOP_NS and not _in_turns(evidence, watched):
        found = {"large": 0.0, "small": 0.0}
    seen = _lost(watched)
    return {where: max(share, seen) for where, share in found.items()}


def was_held(p: Point) -> bool:
    """Whether a few single requests of a load took much longer than the others: for the end of a stop, perhaps."""
    return p.depth * p.workers == 1 and p.p99_ns > HELD * p.p50_ns and p.p99_ns - p.p50_ns > HELD_NS


def _in_turns(evidence: Evidence, points: Iterable[Point]) -> bool:
    """Whether calls without data come in turns, or the client's own time is rationed: then pauses are no stops."""
    null = evidence.null_ns
    return bool(null and _null_in_turns(null)) or any(map(_is_throttled, points))


def _stall(points: Iterable[Point], null_ns: Mapping[str, float] | None) -> dict[str, float]:
    """Share of the time in which nothing moved, of large and small I/O, where that is a property of the server.

    Counted where most requests were outstanding: a server that stops stops them all, one that is slow with some of its
    operations goes on with the others. Where calls without data come in short turns, large operations that stand still
    wait for several of them.
    """
    if null_ns and _null_in_turns(null_ns) and _null_pause_ns(null_ns) < RATION_NS:
        return {}
    timed = [p for p in points if p.stalls and (p.op == "read" or p.durability == "each")]
    lengths = [stalls.length_ns for p in timed if (stalls := p.stalls) for _ in range(stalls.count)]
    if len(lengths) < MIN_STALLS or median(lengths) < RATION_NS:
        return {}
    large, small = ([p for p in timed if (p.record_bytes > SMALL_RECORD) == size] for size in (True, False))
    most, least = _lost(large), _lost(small)
    # Small operations are measured for a second or less, which may lie between two stops; large ones are too few on a
    # slow link to show any, and a server stops for all alike.
    found = {"large": most if large else least, "small": max(most, least)}
    for op in OPERATIONS:
        own = [p for p in timed if p.op == op]
        mine, few = ([p for p in own if (p.record_bytes > SMALL_RECORD) == large] for large in (True, False))
        if _watched_ns(mine) >= OWN_NS:
            found[f"{op} large"] = _lost(mine)
        if _watched_ns([*mine, *few]) >= OWN_NS:
            found[f"{op} small"] = max(_lost(mine), _lost(few))
    return found


def _watched_ns(points: Iterable[Point]) -> int:
    return sum(p.end_ns - p.start_ns for p in points)


def _lost(points: Sequence[Point]) -> float:
    """Share of the time that stops took where most requests of each size were outstanding."""
    deep = _deep(points)
    lost = sum(p.stalls.lost * (p.end_ns - p.start_ns) for p in deep if p.stalls)
    return float(lost / max(sum(p.end_ns - p.start_ns for p in deep), 1))


def _cpu_limit(points: Iterable[Point]) -> float:
    """Processors that the client may use at most; 0 where nobody said."""
    known = [p.cpu_limit for p in points if p.cpu_limit > 0]
    return min(known, default=0.0)
