"""What limits each class of a real system: arithmetic on what was planted and on what the machine does without it.

A ceiling is in operations per second of one busy connection. Ceilings of planted parts are sums; the machine's own
(`real_machine`) is measured once per session on an unshaped server and counted at `SAFETY` of that, half of it beside
other load, because it varies with what else runs here. A class is judged where the planted limit lies `APART` below the
next ceiling, `FAR_APART` where more connections multiply it, `COSTS_APART` where it follows from
what an operation costs a processor, which varies by a factor of two with caches and queues. Where the machine's is the
lowest, what it may do at most has to be the lowest, too.

Conventions, in which several names are right (`ALSO`):

- Nothing planted: client, server, its memory and the wire are the same two processors; any of `MACHINE` is right.
- A server whose processor is rationed copies slowly: for large I/O its memory is right, too (docs/concepts/ladder.md,
  what it cannot tell).
- A client's interface that is a veth says no speed, so nothing tells it from the link: `link` is right, too.
- Disks are disks, whether bytes or operations count.
- A server or network that stops is `unknown` in every class, whatever limits it while it moves.
- Large I/O of a disk with limited operations has a ceiling that depends on how the kernel merges them: its upper end
  is taken. So has a random read half of whose set is in memory. Where another part is the lowest, but is not with the
  disk's lower end (requests of 128 KiB, nothing in memory), the class is not judged.
- Credit, slots of bytes and round trips are judged where their arithmetic is: credit for large I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from truth.real_parts import MTU_SHARE
from truth.real_systems import System

APART, COSTS_APART, FAR_APART, CLOSE = 1.3, 2.5, 3.0, 1.1
SAFETY = 0.7
DEPTH, FLYING_BYTES = 256, 64 << 20
"""Operations, and bytes of them, that a client has outstanding at most."""
HEADER, REPLY = 130, 200
"""Bytes beside the data of an operation, and of one that moves none in that direction, with its share of frames."""
ALONE_S = 0.0008
"""Of a round trip, what is not planted, at most."""
MERGED = 128 << 10
"""Bytes that a disk's request has at least where neighbours are merged."""
REACH_SHARE = 0.4
"""Of the budget, what may go into writing and reading twice the server's memory once."""
CREDIT_SHARE = 0.25
"""Of the budget, what may go into spending credit."""
LARGE, SMALL = 1 << 20, 4 << 10
CLASSES = (("read", "large"), ("write", "large"), ("read", "small"), ("write", "small"))
MULTIPLY = ("protocol", "latency", "slow")
COSTED = ("client_cpu", "server_cpu")
MACHINE = ("shared_machine", "server_cpu", "client_cpu", "server_cache")
ALSO: Mapping[str, tuple[str, ...]] = {
    "machine": MACHINE, "client_nic": ("client_nic", "link"), "disk": ("disk", "disk_iops"),
    "disk_iops": ("disk", "disk_iops"), "slow": ("unknown",), "lock": ("unknown",), "stop": ("unknown",),
}  # fmt: skip
WITHIN = {"link": 0.03, "client_nic": 0.03, "disk": 0.05, "disk_iops": 0.1, "burst_credit": 0.08, "protocol": 0.05}
Machine = Mapping[str, Mapping[str, Mapping[str, float]]]
"""`real_machine.Costs` by what was measured: smb, nfs3, nfs4.1, and those with `+relay`."""
Class = tuple[str, str]
Table = dict[str, float]


@dataclass(frozen=True)
class RealTruth:
    """ranked: (part, ceiling), the lowest first. why: not judged because. value: what the limit's value should be."""

    ranked: tuple[tuple[str, float], ...]
    why: str = ""
    value: float | None = None
    large: bool = False

    @property
    def part(self) -> str:
        """What limits: a kind, or `machine`, `lock`, `slow`, `stop`."""
        return self.ranked[0][0]

    @property
    def accepted(self) -> tuple[str, ...]:
        """Kinds that are right."""
        if self.part == "server_cpu" and self.large:
            return ("server_cpu", "server_cache")
        return ALSO.get(self.part, (self.part,))

    @property
    def headroom(self) -> float:
        """How far the next ceiling lies above."""
        if len(self.ranked) < 2 or not self.ranked[0][1]:
            return float("inf")
        return self.ranked[1][1] / self.ranked[0][1]

    @property
    def judged(self) -> bool:
        """Whether it counts."""
        apart = FAR_APART if self.part in MULTIPLY else COSTS_APART if self.part in COSTED else APART
        return not self.why and self.headroom >= apart

    def document(self) -> dict[str, Any]:
        """As `sim_truths.Truth.document`, with `accepted`, `part`, `value` and `within` beside it."""
        level = "pair" if self.headroom < CLOSE else "clear" if self.judged else "between"
        kind = self.accepted[0] if self.part in ALSO else self.part
        ranked = [[kind, self.ranked[0][1]], *([ALSO.get(p, (p,))[0], rate] for p, rate in self.ranked[1:])]
        return {"ranked": ranked, "judged": self.judged, "why": self.why, "level": level, "steady": bool(self.value),
                "headroom": None if self.headroom == float("inf") else self.headroom, "part": self.part,
                "accepted": list(self.accepted), "value": self.value, "within": WITHIN.get(self.part)}  # fmt: skip


def truths(system: System, machine: Machine) -> dict[Class, RealTruth]:
    """Of each class."""
    return {where: truth(system, where, machine) for where in CLASSES}


def truth(system: System, where: Class, machine: Machine) -> RealTruth:
    """What limits a class."""
    spec, relay = system.spec, system.spec.get("relay") or {}
    table = dict(_ceilings(system, where, machine))
    ranked = tuple(sorted(table.items(), key=lambda pair: pair[1]))
    if spec.get("stop") or relay.get("every_s"):
        return RealTruth((("stop", 0.0), *ranked))
    large = where[1] == "large"
    first, rate = ranked[0]
    return RealTruth(ranked, _why(system, where, first, table), _value(spec, where, first, rate), large)


def _value(spec: Mapping[str, Any], where: Class, first: str, rate: float) -> float | None:
    """The limit's value, where arithmetic gives one figure: bytes per second of large, operations of small ones."""
    if first == "protocol" and not (spec.get("relay") or {}).get("rate_bytes_per_s"):
        return None  # slots and credits: the round trip under load is not known
    if where[1] == "large":
        return rate * LARGE if first in ("link", "client_nic", "disk", "burst_credit", "protocol") else None
    if first == "disk_iops":
        return float(spec["disk"]["riops"]) if where[0] == "read" else None
    return rate if first in ("link", "client_nic") else None


def _why(system: System, where: Class, first: str, table: Table) -> str:
    """Why a class is not judged; empty: nothing is against it."""
    spec = system.spec
    if first == "machine" and len(table) > 1:
        most = table[first] * (2 if spec.get("load") else 1) / SAFETY
        if most * (FAR_APART if "slow" in table else APART) > min(
            rate for kind, rate in table.items() if kind != first
        ):
            return "the machine may do as much as the part that was planted"
    if first == "burst_credit":
        if where[1] == "small":
            return "credit is judged on large I/O"
        others = min((rate for kind, rate in table.items() if kind != first), default=0.0) * LARGE
        base, peak, size = _credit(spec) or (0.0, 0.0, 0.0)
        if size / max(min(others, peak) - base, 1.0) > CREDIT_SHARE * system.budget_s:
            return "credit that lasts"
    return _why_not_disk(system, where, first, table) if spec.get("disk") else ""


def _why_not_disk(system: System, where: Class, first: str, table: Table) -> str:
    """The same of a system with a slow disk."""
    spec, disk = system.spec, first.startswith("disk")
    if where[0] == "read" and spec.get("memory_bytes") and not _outgrown(system, table):
        return "a cache that no set outgrows"
    if where == ("write", "small") and not disk:
        return "how many requests a durable write takes is not known"
    if not disk and first != "burst_credit" and _slowest_disk(spec, where) < APART * table[first]:
        return "how many bytes a disk's request takes, and what memory answers, is not known"
    if where[0] == "write" and system.kind == "disk_within":
        return "the disk behind the memory is not held against writes"
    return ""


def _slowest_disk(spec: Mapping[str, Any], where: Class) -> float:
    """The lower end of a disk's ceiling, operations per second."""
    op, size = where[0], LARGE if where[1] == "large" else SMALL
    part = spec.get("disk") or {}
    if not part or (op == "read" and not spec.get("memory_bytes")):
        return float("inf")
    iops, rate = part.get(f"{op[0]}iops"), part.get(op)
    return min(iops * min(MERGED / size, 1.0) if iops else float("inf"), rate / size if rate else float("inf"))


def _outgrown(system: System, table: Table) -> bool:
    """Whether the budget suffices to get beyond the server's memory."""
    part, size = system.spec["disk"], 2 * system.spec["memory_bytes"]
    rates = []
    for op in ("read", "write"):
        iops = part.get(f"{op[0]}iops")
        credit = (part.get("credit") or {}).get("base")
        rates.append(min(part.get(op) or 1e12, credit or 1e12, iops * 128e3 if iops else 1e12))
    link = system.spec.get("link") or {}
    wires = [link[name] / 8 for name in ("down", "up") if link.get(name)]
    return sum(size / min([rate, *wires, 3e8]) for rate in rates) <= REACH_SHARE * system.budget_s


def _credit(spec: Mapping[str, Any]) -> tuple[float, float, float] | None:
    """(base, peak, size) in bytes."""
    relay, link, disk = (spec.get(name) or {} for name in ("relay", "link", "disk"))
    if relay.get("base_bytes_per_s"):
        return relay["base_bytes_per_s"], relay["peak_bytes_per_s"], relay["size_bytes"]
    if link.get("burst_bytes"):
        return link["down"] / 8, link["peak"] / 8, link["burst_bytes"]
    if disk.get("credit"):
        return disk["credit"]["base"], disk["credit"]["peak"], disk["credit"]["size"]
    return None


def _ceilings(system: System, where: Class, machine: Machine) -> Iterator[tuple[str, float]]:
    op, size = where[0], LARGE if where[1] == "large" else SMALL
    spec = system.spec
    costs = costs_of(system, machine)[f"{where[0]} {where[1]}"]
    yield "machine", costs["ops_per_s"] * SAFETY / (2 if spec.get("load") else 1)
    for name, cost in (("server_cpu", "server_s"), ("client_cpu", "client_s")):
        if spec.get(name):
            yield name, spec[name] / costs[cost] / (2 if name in (spec.get("load") or {}) else 1)
    yield from _wire(spec, op, size)
    yield from _relay(spec, op, size)
    yield from _disk(spec, op, size)
    if spec.get("lock_us"):
        yield "lock", 1e6 / spec["lock_us"]
    if spec.get("slow_share"):
        yield "slow", min(DEPTH, FLYING_BYTES // size) / (spec["slow_share"] * spec["slow_us"] / 1e6)


def costs_of(system: System, machine: Machine) -> Mapping[str, Mapping[str, float]]:
    """The measurement that is nearest to a system: its protocol, with a relay or without."""
    family = {"nfs4.0": "nfs4.1", "nfs4.2": "nfs4.1"}.get(system.protocol, system.protocol)
    if system.spec.get("relay"):
        family = ("smb" if family == "smb" else "nfs4.1") + "+relay"
    return machine[family]


def _wire(spec: Mapping[str, Any], op: str, size: int) -> Iterator[tuple[str, float]]:
    link = spec.get("link") or {}
    data, other = (size + HEADER) / MTU_SHARE, REPLY + size * 66 / (1448 * 12)
    per = {"down": data if op == "read" else other, "up": other if op == "read" else data}
    kind = "burst_credit" if link.get("burst_bytes") else "link"
    for name, prefix in ((kind, ""), ("client_nic", "client_")):
        rates = [link[prefix + way] / 8 / per[way] for way in ("down", "up") if link.get(prefix + way)]
        if rates:
            yield name, min(rates)


def _relay(spec: Mapping[str, Any], op: str, size: int) -> Iterator[tuple[str, float]]:
    relay = spec.get("relay") or {}
    if relay.get("rate_bytes_per_s"):
        yield "protocol", relay["rate_bytes_per_s"] / (size + HEADER)
    if relay.get("base_bytes_per_s"):
        yield "burst_credit", relay["base_bytes_per_s"] / (size + HEADER + REPLY)
    if relay.get("delay_s"):
        trip = 2 * relay["delay_s"] + ALONE_S
        count = spec.get("slots") or (64 if spec["protocol"] in ("nfs4.1", "nfs4.2") else 8192)
        if count < 1024 and spec["protocol"] in ("smb", "nfs4.1", "nfs4.2"):
            each = max(size // 65536, 1) if spec["protocol"] == "smb" else 1
            yield "protocol", count / each / trip
        yield "latency", min(DEPTH, FLYING_BYTES // size) / trip


def _disk(spec: Mapping[str, Any], op: str, size: int) -> Iterator[tuple[str, float]]:
    part = spec.get("disk") or {}
    if not part or (op == "read" and not spec.get("memory_bytes")):
        return
    small = size == SMALL
    if part.get("credit"):
        yield "burst_credit", part["credit"]["base"] / size
    rate, iops = part.get(op), part.get(f"{op[0]}iops")
    more = 2.0 if small and op == "read" else 1.3 if small else 1.0
    if iops:
        yield "disk_iops", iops * (more if small else 1.25)
    if rate:
        yield "disk", rate / size * more
