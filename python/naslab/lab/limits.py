"""The limits that a definition plants, as data: what calibration measures, and what verdicts are held against."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from naslab.lab.definition import Burst, Definition, Disk

BYTES_PER_S, BITS_PER_S, BYTES, PER_S, NS, SHARE = "bytes_per_s", "bits_per_s", "bytes", "per_s", "ns", "share"


@dataclass(frozen=True)
class Planted:
    """One limit.

    name: `part.key`; of several kinds of disks `disks[0].key`, by its first disk. value: in `unit`. where: at what it
    is measured. derived: it follows from others by the arithmetic of a RAID, with an allowance of its own.
    """

    name: str
    value: float
    unit: str
    where: str
    derived: bool = False


def planted(definition: Definition) -> list[Planted]:
    """All limits of a system, in the order of its parts."""
    found = [each for at, disk in kinds(definition) for each in _disk(disk, _prefix(definition, at))]
    found += _volume(definition)
    server, link, clients = definition.server, definition.link, definition.clients
    if server.ram_bytes is not None:
        found.append(Planted("server.ram", server.ram_bytes, BYTES, "the server's processes and its cache"))
    if server.cpu is not None:
        found.append(Planted("server.cpu", server.cpu, SHARE, "the server's processes"))
    if link is not None:
        wire = "the wire, each direction"
        if link.rate_bits_per_s is not None:
            found.append(Planted("link.rate", link.rate_bits_per_s, BITS_PER_S, wire))
        if link.burst is not None:
            found += _burst("link.burst", link.burst, wire)
        if link.mtu is not None:
            found.append(Planted("link.mtu", link.mtu, BYTES, "a packet"))
        if link.latency_ns:
            found.append(Planted("link.latency", link.latency_ns, NS, "each direction"))
    if clients.rate_bits_per_s is not None:
        found.append(Planted("clients.rate", clients.rate_bits_per_s, BITS_PER_S, "each client's wire"))
    for at, rate in enumerate(clients.rates_bits_per_s, 1):
        found.append(Planted(client_rate(at), rate, BITS_PER_S, f"the wire of client {at}"))
    return found


def client_rate(client: int) -> str:
    """The name of one client's limit where their rates differ."""
    return f"clients.rates[{client}]"


def kinds(definition: Definition) -> list[tuple[int, Disk]]:
    """Disks that differ, each with the place of its first one."""
    found: list[tuple[int, Disk]] = []
    for at, disk in enumerate(definition.disks):
        if all(disk != each for _, each in found):
            found.append((at, disk))
    return found


def _prefix(definition: Definition, at: int) -> str:
    return "disks" if len(kinds(definition)) == 1 else f"disks[{at}]"


def _disk(disk: Disk, name: str) -> Iterator[Planted]:
    where = "one disk, bypassing the page cache"
    if disk.rate_bytes_per_s is not None:
        yield Planted(f"{name}.rate", disk.rate_bytes_per_s, BYTES_PER_S, f"{where}, reads and writes together")
    if disk.read_bytes_per_s is not None:
        yield Planted(f"{name}.read", disk.read_bytes_per_s, BYTES_PER_S, where)
    if disk.write_bytes_per_s is not None:
        yield Planted(f"{name}.write", disk.write_bytes_per_s, BYTES_PER_S, where)
    if disk.iops is not None:
        yield Planted(f"{name}.iops", disk.iops, PER_S, f"{where}, small requests")
    if disk.latency_ns:
        yield Planted(f"{name}.latency", disk.latency_ns, NS, f"{where}, one request at a time")
    if disk.burst is not None:
        yield from _burst(f"{name}.burst", disk.burst, where)
    if disk.error_rate:
        yield Planted(f"{name}.errors", disk.error_rate, SHARE, f"{where}, requests that fail")


def _burst(name: str, burst: Burst, where: str) -> list[Planted]:
    return [
        Planted(f"{name}.rate", burst.rate_bytes_per_s, BYTES_PER_S, f"{where}, with credit"),
        Planted(f"{name}.base", burst.base_bytes_per_s, BYTES_PER_S, f"{where}, without credit"),
        Planted(f"{name}.size", burst.size_bytes, BYTES, f"{where}, moved above the base"),
    ]


def _volume(definition: Definition) -> list[Planted]:
    """What a volume of equal disks moves at most, streaming; nothing where its disks differ or have no rate."""
    if len(kinds(definition)) != 1 or len(definition.disks) < 2:
        return []
    disk, count = definition.disks[0], len(definition.disks)
    factors = {"raid0": (count, count), "raid5": (count, count - 1), "raid1": (1, 1)}.get(definition.volume.level)
    if factors is None:
        return []
    found = []
    for name, rate, factor in (
        ("volume.read", disk.reads_bytes_per_s, factors[0]), ("volume.write", disk.writes_bytes_per_s, factors[1]),
    ):  # fmt: skip
        if rate is not None:
            found.append(Planted(name, rate * factor, BYTES_PER_S, _stream(definition, name), derived=True))
    return found


def _stream(definition: Definition, name: str) -> str:
    """Where a volume's limit is measured. btrfs takes a mirror's copy by the process that asks, md by what is idle."""
    several = definition.volume.level == "raid1" and name == "volume.read"
    return "one long stream of the volume" + (
        "; several outstanding requests may read both copies, up to twice as much" if several else ""
    )
