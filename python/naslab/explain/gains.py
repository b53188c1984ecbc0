"""What a change of a server would bring to the person who uses it: `naslab whatif` asked for the usual purchases.

Each candidate is put to the fitted model for the loads that the verdict is about. One that helps has what it would
bring; one that changes nothing is worth saying, too.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from naslab.analysis.linkrate import payload_bytes_per_s, speed_text
from naslab.explain.fitted import Fitted
from naslab.explain.loads import Asked, Load, measured_loads
from naslab.explain.points import Figure
from naslab.explain.predict import Change, Prediction, Scale, predict

Where = tuple[str, str]
HELPS = 1.15
"""A change that makes a rate this much higher, at the low end of its interval, helps."""
MAX_FACTOR = 3.0
"""Ends of an effect further apart than this: only the low one is told."""
CONNECTIONS = 4
NEXT_LINK = ((0.5e9, 1e9), (2e9, 10e9), (20e9, 25e9))
"""Up to the first rate, in bits per second, the second is the link to buy."""
AS_MEASURED = Asked()
FASTER_LINK = 4.0
"""So many times as fast where the link is faster than these."""


class Effect(msgspec.Struct, frozen=True):
    """One kind of I/O after a change. now, low, high in `unit`; high None: at least low. limit: what limits it then."""

    op: str
    size: str
    unit: str
    now: float
    low: float
    high: float | None
    limit: str

    @property
    def gain(self) -> float:
        """Factor, by the low end where there is no high one."""
        top = self.high if self.high is not None else self.low
        return math.sqrt(max(self.low, 1e-9) * max(top, 1e-9)) / max(self.now, 1e-9)


class Gain(msgspec.Struct, frozen=True):
    """A change. change: its candidate's key. words: a noun phrase. helps: what it brings. unchanged: kinds of I/O
    that it leaves as they are, as `read large`.
    """

    change: str
    words: str
    helps: tuple[Effect, ...]
    unchanged: tuple[str, ...]

    @property
    def total(self) -> float:
        """Sum of the logarithms of the factors: what is tried first is what helps most kinds of I/O most."""
        return sum(math.log(max(effect.gain, 1.0)) for effect in self.helps)


@dataclass(frozen=True)
class Candidate:
    """A purchase, or a setting. words: a noun phrase."""

    key: str
    words: str
    change: Change
    asked: Asked = AS_MEASURED
    interface_bytes_per_s: float = 0.0
    """Of the client, where it gets another."""


def gains(fitted: Fitted, rates: Mapping[Where, float]) -> list[Gain]:
    """Every candidate by the fitted model. rates: of each kind of I/O, the value of the verdict."""
    loads = {where: found for where, rate in rates.items() if (found := _load(fitted, where, rate))}
    return [_gain(fitted, candidate, loads) for candidate in candidates(fitted)]


def _load(fitted: Fitted, where: Where, rate: float) -> tuple[Load, Figure] | None:
    """The measured load of a kind of I/O whose rate is nearest to the verdict's."""
    mine = [
        (load, figure)
        for load, figure in measured_loads(fitted.evidence)
        if (load.op, load.size) == where and figure.value > 0
    ]
    return min(mine, key=lambda found: abs(math.log(found[1].value / max(rate, 1e-9))), default=None)


def candidates(fitted: Fitted) -> Iterator[Candidate]:
    """What can be bought or set for this target."""
    evidence = fitted.evidence
    yield Candidate("disk", "disks twice as fast", Change(disk=Scale(2.0)))
    yield Candidate("ssd", "SSDs with ten times the IOPS", Change(disk_iops=Scale(10.0)))
    if evidence.local_disk or evidence.protocol == "null":
        return
    yield _link(fitted)
    if evidence.memory_bytes and evidence.memory_bytes[1] is not None:
        yield Candidate("ram", "four times the server cache (memory)", Change(ram=Scale(4.0)))
    yield Candidate("cpu", "a server CPU twice as fast", Change(cpu=Scale(2.0)))
    yield Candidate("latency", "half the round-trip time", Change(latency=Scale(0.5)))
    words = f"{CONNECTIONS} connections (SMB multichannel, NFS nconnect)"
    yield Candidate("connections", words, Change(), Asked(connections=CONNECTIONS))


def _link(fitted: Fitted) -> Candidate:
    """The next usual link, with an interface of the client that goes with it."""
    part = fitted.parts["link_read_bytes_per_s"]
    known = [each for each in (fitted.evidence.nic_bytes_per_s, part.value if part.known else None) if each]
    bits = 8 * min(known, default=110e6)
    new = next((new for most, new in NEXT_LINK if bits < most), None)
    if new is None:
        nic = FASTER_LINK * (fitted.evidence.nic_bytes_per_s or 0)
        return Candidate(
            "link", "a link four times as fast", Change(link=Scale(FASTER_LINK)), interface_bytes_per_s=nic
        )
    rate = new / 8 if fitted.evidence.simulated else payload_bytes_per_s(new, timestamps=True)
    name = speed_text(new).replace(" Gbit/s", " GbE")
    return Candidate("link", f"a {name} link", Change(link=Scale(value=rate)), interface_bytes_per_s=new / 8)


def _gain(fitted: Fitted, candidate: Candidate, loads: Mapping[Where, tuple[Load, Figure]]) -> Gain:
    if candidate.interface_bytes_per_s and fitted.rows.nic_bytes_per_s:
        rows = dataclasses.replace(fitted.rows, nic_bytes_per_s=candidate.interface_bytes_per_s)
        fitted = dataclasses.replace(fitted, rows=rows)
    helps, unchanged = [], []
    for (op, size), (load, figure) in loads.items():
        if candidate.asked.connections and load.connections >= candidate.asked.connections:
            continue
        found = predict(fitted, candidate.change, load, candidate.asked.of(load), figure)
        if found.stays and found.why in ("", "wide", "hidden", "misfit"):
            unchanged.append(f"{op} {size}")
        elif effect := _effect(found, figure.value):
            helps.append(effect)
    return Gain(candidate.key, candidate.words, tuple(helps), tuple(unchanged))


def _effect(found: Prediction, now: float) -> Effect | None:
    """What the change brings; None where it brings too little, or where that is not clear."""
    low, _, high = found.factor
    if found.why not in ("", "wide", "hidden") or low < HELPS:
        return None
    top = min(found.then.high, high * now)
    least = max(found.then.low, low * now) if found.why != "hidden" else min(found.then.low, low * now)
    if least < HELPS * now:
        return None
    load = found.load
    known = top <= MAX_FACTOR * least and found.why != "hidden"
    return Effect(load.op, load.size, load.unit, now, least, max(top, least) if known else None, found.limit_then)


def ranked(found: Sequence[Gain]) -> tuple[list[Gain], list[Gain]]:
    """(those that help, the most effective first; those that help nothing, in their order)."""
    helping = sorted((gain for gain in found if gain.helps), key=lambda gain: -gain.total)
    return helping, [gain for gain in found if not gain.helps and gain.unchanged]
