"""Real file servers with planted limits, drawn from a seed: own Samba and Ganesha, built apart from naslab's lab.

A system is data (`Spec`): which server, and which of the parts that `real_parts` builds from the kernel's own means
(tbf, blkio, control groups), from a relay or from a shim below the server. Figures are drawn log-uniform between the
bounds that each maker states, below what this machine does with its two processors shared; whether a class counts is
`real_truths`' arithmetic with the machine's measured ceilings, not the maker's hope.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

MB, MIB = 1_000_000, 1 << 20
SMB, NFS3, NFS40, NFS41, NFS42 = "smb", "nfs3", "nfs4.0", "nfs4.1", "nfs4.2"
PROTOCOLS = (SMB, NFS3, NFS41, SMB, NFS42, NFS40)
"""In turn within a kind, from a drawn start."""
BUDGETS_S = (60, 60, 100, 100, 300)
Spec = dict[str, Any]
"""Keys, all optional but protocol:

protocol, options (lines of the server's configuration) · link: down, up (bits/s; down is what reads take), client_down,
client_up, burst_bytes with peak (bits/s), discipline · relay: `real_relay.Plan` · disk: size_bytes, read, write
(bytes/s), riops, wiops, filesystem, dirty_bytes, credit (base, peak, size) · memory_bytes, server_cpu, period_us ·
client_cpu · slots · stop: every_s, stop_s · lock_us, slow_share, slow_us · load: client, server (busy loops) ·
loopback, signing.
"""


@dataclass(frozen=True)
class System:
    """kind: what is planted. budget_s: of the command. spec: how to build it."""

    name: str
    kind: str
    budget_s: int
    spec: Mapping[str, Any] = field(default_factory=dict)
    what: str = ""

    @property
    def protocol(self) -> str:
        """What the server speaks."""
        return str(self.spec["protocol"])

    def document(self) -> dict[str, Any]:
        """As it is kept, and given to the process that builds it."""
        return {**asdict(self), "spec": dict(self.spec)}

    @classmethod
    def from_document(cls, kept: Mapping[str, Any]) -> System:
        """As `document` gives it."""
        return cls(kept["name"], kept["kind"], kept["budget_s"], kept["spec"], kept["what"])

    @classmethod
    def from_kept(cls, kept: Mapping[str, Any]) -> System:
        """As the file of an answer has it."""
        return cls(kept["name"], kept["wanted"], kept["budget_s"], kept["options"], kept["what"])


def draw(seed: int, kinds: Sequence[str] = ()) -> list[System]:
    """All systems of a seed, one of each kind, then the next of each; the same for the same seed. kinds: only those."""
    plan = [(kind, at) for at in range(max(KINDS[k][1] for k in KINDS)) for kind in KINDS if at < KINDS[kind][1]]
    found = []
    for number, (kind, at) in enumerate(plan):
        rng = random.Random(f"{seed} {kind} {at}")
        first = random.Random(f"{seed} {kind}").randrange(len(PROTOCOLS))
        protocol = PROTOCOLS[(first + at) % len(PROTOCOLS)]
        spec, what = KINDS[kind][0](rng, at, protocol)
        budget = rng.choice(BUDGETS_S)
        found.append(System(f"{number:03d}-{kind}", kind, max(budget, spec.pop("least_s", 0)), spec, what))
    return [each for each in found if not kinds or each.kind in kinds]


def log(rng: random.Random, low: float, high: float) -> float:
    """Log-uniform."""
    return float(low * (high / low) ** rng.random())


def _load(rng: random.Random, share: float = 0.25) -> Spec:
    """Other work on the client or the server now and then: busy loops."""
    if rng.random() >= share:
        return {}
    return {"load": {rng.choice(("client", "server")): 1}}


def _mb(rate: float) -> str:
    return f"{rate / MB:.1f} MB/s"


# Links.


def _tbf(rng: random.Random) -> Spec:
    return {"discipline": rng.choice(("tbf", "htb"))}


def link(rng: random.Random, at: int, protocol: str) -> tuple[Spec, str]:
    """Both directions, 40 to 500 Mbit/s."""
    rate = round(log(rng, 40e6, 500e6))
    spec = {"protocol": protocol, "link": {"down": rate, "up": rate, **_tbf(rng)}, **_load(rng)}
    return spec, f"link of {_mb(rate / 8)}"


def link_reads(rng: random.Random, at: int, protocol: str) -> tuple[Spec, str]:
    """Only towards the client, 40 to 400 Mbit/s."""
    rate = round(log(rng, 40e6, 400e6))
    return {"protocol": protocol, "link": {"down": rate, **_tbf(rng)}}, f"link for reads alone, {_mb(rate / 8)}"


def link_writes(rng: random.Random, at: int, protocol: str) -> tuple[Spec, str]:
    """Only towards the server, 40 to 400 Mbit/s."""
    rate = round(log(rng, 40e6, 400e6))
    return {"protocol": protocol, "link": {"up": rate, **_tbf(rng)}}, f"link for writes alone, {_mb(rate / 8)}"


def link_uneven(rng: random.Random, at: int, protocol: str) -> tuple[Spec, str]:
    """Both directions, one 2 to 6 times the other."""
    slow = log(rng, 30e6, 150e6)
    rates = [round(slow), round(slow * log(rng, 2, 6))]
    rng.shuffle(rates)
    what = f"link of {_mb(rates[0] / 8)} for reads, {_mb(rates[1] / 8)} for writes"
    return {"protocol": protocol, "link": {"down": rates[0], "up": rates[1], **_tbf(rng)}, **_load(rng)}, what


def client_nic(rng: random.Random, at: int, protocol: str) -> tuple[Spec, str]:
    """The client's own port, 40 to 400 Mbit/s, in a network of 2 to 6 times as much or without a limit."""
    rate = log(rng, 40e6, 400e6)
    spec: Spec = {"client_down": round(rate), "client_up": round(rate), **_tbf(rng)}
    if at % 2:
        spec["down"] = spec["up"] = round(rate * log(rng, 2, 6))
    return {"protocol": protocol, "link": spec, **_load(rng)}, f"client's interface of {_mb(rate / 8)}"


def link_credit(rng: random.Random, at: int, protocol: str) -> tuple[Spec, str]:
    """tbf with a bucket: a base of 8 to 30 MB/s, 3 to 6 times as much with credit, which lasts 3 to 8 s."""
    base = log(rng, 8 * MB, 30 * MB)
    peak = min(base * log(rng, 3, 6), 110 * MB)
    size = round((peak - base) * log(rng, 3, 8))
    link = {"down": round(base * 8), "up": round(base * 8), "burst_bytes": size, "peak": round(peak * 8)}
    what = f"link of {_mb(base)}, {_mb(peak)} for {size / MB:.0f} MB of credit"
    return {"protocol": protocol, "link": {**link, "discipline": "tbf"}, "least_s": 100}, what


# What a relay plants.


def latency(rng: random.Random, at: int, protocol: str) -> tuple[Spec, str]:
    """A round trip of 40 to 200 ms; as many slots as a client may want."""
    trip = log(rng, 0.04, 0.2)
    spec = {"protocol": protocol, "slots": 1024, "relay": {"delay_s": round(trip / 2, 5)}, **_load(rng)}
    return spec, f"round trip of {1e3 * trip:.0f} ms"


def window(rng: random.Random, at: int, protocol: str) -> tuple[Spec, str]:
    """Each connection carries 3 to 25 MB/s."""
    rate = round(log(rng, 3 * MB, 25 * MB))
    return {"protocol": protocol, "relay": {"rate_bytes_per_s": rate}, **_load(rng)}, f"{_mb(rate)} a connection"


def relay_credit(rng: random.Random, at: int, protocol: str) -> tuple[Spec, str]:
    """One bucket for all: a base of 5 to 25 MB/s, 3 to 6 times as much with credit, which lasts 3 to 8 s."""
    base = log(rng, 5 * MB, 25 * MB)
    peak = min(base * log(rng, 3, 6), 90 * MB)
    size = round((peak - base) * log(rng, 3, 8))
    spec = {"base_bytes_per_s": round(base), "peak_bytes_per_s": round(peak), "size_bytes": size}
    what = f"{_mb(base)}, {_mb(peak)} for {size / MB:.0f} MB of credit, in a relay"
    return {"protocol": protocol, "relay": spec, "least_s": 100}, what


def slots(rng: random.Random, at: int, protocol: str) -> tuple[Spec, str]:
    """2 to 16 slots of a session behind a round trip of 4 to 16 ms (NFS 4.1, 4.2)."""
    count, trip = rng.choice((2, 4, 8, 16)), log(rng, 0.004, 0.016)
    protocol = (NFS41, NFS42)[at % 2]
    spec = {"protocol": protocol, "slots": count, "relay": {"delay_s": round(trip / 2, 5)}}
    return spec, f"{count} slots, {1e3 * trip:.1f} ms"


def credits(rng: random.Random, at: int, protocol: str) -> tuple[Spec, str]:
    """At most 32 to 128 credits of SMB behind a round trip of 10 to 40 ms."""
    count, trip = rng.choice((32, 64, 128)), log(rng, 0.01, 0.04)
    spec = {"protocol": SMB, "slots": count, "relay": {"delay_s": round(trip / 2, 5)}}
    return spec, f"{count} credits, {1e3 * trip:.0f} ms"


def relay_stops(rng: random.Random, at: int, protocol: str) -> tuple[Spec, str]:
    """The network stops for 20 to 35 % of 1.2 to 4 s."""
    every, share = log(rng, 1.2, 4), rng.uniform(0.2, 0.35)
    spec = {"every_s": round(every, 3), "stop_s": round(every * share, 3)}
    return {"protocol": protocol, "relay": spec}, f"network stops {every * share:.2f} s every {every:.1f} s"


# Disks.


def _disk(rng: random.Random, **more: Any) -> Spec:
    dirty = round(log(rng, 4 * MIB, 48 * MIB))
    return {"size_bytes": 2 << 30, "filesystem": rng.choice(("ext4", "ext4", "xfs")), "dirty_bytes": dirty, **more}


def disk(rng: random.Random, at: int, protocol: str) -> tuple[Spec, str]:
    """15 to 80 MB/s read, 0.5 to 1 of that written, behind 160 to 320 MiB of memory."""
    read = log(rng, 15 * MB, 80 * MB)
    write = read * rng.uniform(0.5, 1.0)
    part = _disk(rng, read=round(read), write=round(write))
    spec = {"protocol": protocol, "disk": part, "memory_bytes": round(log(rng, 160, 320)) * MIB, **_load(rng)}
    return {**spec, "least_s": 100 if read < 30 * MB else 60}, f"disk of {_mb(read)} read, {_mb(write)} written"


def disk_iops(rng: random.Random, at: int, protocol: str) -> tuple[Spec, str]:
    """100 to 1500 operations a second, behind 160 to 320 MiB of memory."""
    rate = round(log(rng, 100, 1500))
    part = _disk(rng, riops=rate, wiops=rate)
    spec = {"protocol": protocol, "disk": part, "memory_bytes": round(log(rng, 160, 320)) * MIB, **_load(rng)}
    return {**spec, "least_s": 100}, f"disk of {rate} operations/s"


def disk_behind_link(rng: random.Random, at: int, protocol: str) -> tuple[Spec, str]:
    """A disk of 10 to 40 MB/s, a link 1.6 to 4 times as fast, 160 to 320 MiB of memory."""
    rate = log(rng, 10 * MB, 40 * MB)
    wire = round(8 * rate * log(rng, 1.6, 4))
    part = _disk(rng, read=round(rate), write=round(rate))
    spec = {"protocol": protocol, "disk": part, "memory_bytes": round(log(rng, 160, 320)) * MIB}
    what = f"disk of {_mb(rate)} behind a link of {_mb(wire / 8)}"
    return {**spec, "link": {"down": wire, "up": wire, **_tbf(rng)}, "least_s": 100}, what


def disk_within(rng: random.Random, at: int, protocol: str) -> tuple[Spec, str]:
    """A slow disk that reads never see, because the file system is smaller than the memory; a link of 5 to 40 MB/s."""
    wire = log(rng, 5 * MB, 40 * MB)
    part = {**_disk(rng, read=round(wire * rng.uniform(0.3, 0.7)), write=round(wire * log(rng, 2, 4)))}
    spec = {"protocol": protocol, "disk": {**part, "size_bytes": 1 << 30}, "link": {"down": round(8 * wire)}}
    spec["link"] |= {"up": round(8 * wire), **_tbf(rng)}
    return spec, f"link of {_mb(wire)}, all in the server's memory"


def disk_credit(rng: random.Random, at: int, protocol: str) -> tuple[Spec, str]:
    """A disk with credit: a base of 8 to 30 MB/s, 3 to 6 times as much for 3 to 8 s."""
    base = log(rng, 8 * MB, 30 * MB)
    peak = min(base * log(rng, 3, 6), 120 * MB)
    size = round((peak - base) * log(rng, 3, 8))
    part = _disk(rng, credit={"base": round(base), "peak": round(peak), "size": size})
    spec = {"protocol": protocol, "disk": part, "memory_bytes": round(log(rng, 160, 256)) * MIB, "least_s": 100}
    return spec, f"disk of {_mb(base)}, {_mb(peak)} for {size / MB:.0f} MB of credit"


# Processors.


def server_cpu(rng: random.Random, at: int, protocol: str) -> tuple[Spec, str]:
    """1.5 to 12 % of a processor for the server, in periods of 10, 20 or 100 ms."""
    share = round(log(rng, 0.015, 0.12), 4)
    spec = {"protocol": protocol, "server_cpu": share, "period_us": rng.choice((10_000, 20_000, 100_000))}
    return {**spec, **_load(rng, 0.15)}, f"server with {share:.1%} of a processor"


def client_cpu(rng: random.Random, at: int, protocol: str) -> tuple[Spec, str]:
    """2.5 to 12 % of a processor for naslab."""
    share = round(log(rng, 0.025, 0.12), 4)
    spec = {"protocol": protocol, "client_cpu": share, "period_us": rng.choice((10_000, 100_000)), "least_s": 100}
    return spec, f"client with {share:.1%} of a processor"


def fast(rng: random.Random, at: int, protocol: str) -> tuple[Spec, str]:
    """Nothing planted: client and server share the machine, over a veth or over lo."""
    spec: Spec = {"protocol": protocol, "loopback": bool(at % 2)}
    if protocol == SMB and rng.random() < 0.5:
        spec["signing"] = True
    return {**spec, **_load(rng)}, "no limit planted"


# On no list.


def stops(rng: random.Random, at: int, protocol: str) -> tuple[Spec, str]:
    """The server stops for 20 to 35 % of 1.2 to 4 s, now and then behind a link."""
    every, share = log(rng, 1.2, 4), rng.uniform(0.2, 0.35)
    spec: Spec = {"protocol": protocol, "stop": {"every_s": round(every, 3), "stop_s": round(every * share, 3)}}
    if at % 2:
        rate = round(log(rng, 80e6, 400e6))
        spec["link"] = {"down": rate, "up": rate, "discipline": "tbf"}
    return spec, f"server stops {every * share:.2f} s every {every:.1f} s"


def lock(rng: random.Random, at: int, protocol: str) -> tuple[Spec, str]:
    """Each operation holds its file for 1 to 8 ms. Samba alone: Ganesha binds its file systems past a shim."""
    hold = round(log(rng, 1000, 8000))
    return {"protocol": SMB, "lock_us": hold}, f"lock of a file, {hold / 1e3:.1f} ms"


def slow_share(rng: random.Random, at: int, protocol: str) -> tuple[Spec, str]:
    """6 to 12 % of the operations take 0.5 to 1.2 s; Samba alone."""
    share, slow = round(rng.uniform(0.06, 0.12), 3), round(log(rng, 0.5, 1.2) * 1e6)
    spec = {"protocol": SMB, "slow_share": share, "slow_us": slow}
    return spec, f"{share:.1%} of the operations take {slow / 1e6:.2f} s"


Maker = Callable[[random.Random, int, str], tuple[Spec, str]]
KINDS: Mapping[str, tuple[Maker, int]] = {
    "link": (link, 6), "disk": (disk, 6), "server_cpu": (server_cpu, 6), "client_cpu": (client_cpu, 5),
    "window": (window, 5), "disk_iops": (disk_iops, 5), "fast": (fast, 5), "latency": (latency, 4),
    "link_reads": (link_reads, 4), "stops": (stops, 4), "link_writes": (link_writes, 4),
    "relay_credit": (relay_credit, 4), "slots": (slots, 3), "client_nic": (client_nic, 4),
    "disk_credit": (disk_credit, 3), "credits": (credits, 2), "link_uneven": (link_uneven, 3),
    "disk_behind_link": (disk_behind_link, 4), "lock": (lock, 3), "link_credit": (link_credit, 3),
    "disk_within": (disk_within, 3), "relay_stops": (relay_stops, 2), "slow_share": (slow_share, 2),
}  # fmt: skip
"""How many of each."""


def counts() -> Iterator[tuple[str, int]]:
    """(kind, how many)."""
    return ((kind, count) for kind, (_, count) in KINDS.items())
