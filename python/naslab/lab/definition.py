"""Systems of the lab as data: what a TOML file says, read and checked.

Disks -> volume -> file system -> server -> link -> clients. Amounts are bytes, bytes per second, bits per second
(links) and nanoseconds; shares are fractions. What cannot be combined is refused here; what a backend cannot build is
its own word (naslab.lab.backends).
"""

from __future__ import annotations

import copy
import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from naslab.errors import UsageError
from naslab.lab.bucket import Plan
from naslab.toml.values import (
    bit_rate,
    bit_rates,
    choice,
    choices,
    duration,
    key,
    number,
    rate,
    read_part,
    read_value,
    share,
    size,
    table,
    text,
)

MIB = 1 << 20
LEVELS = ("single", "span", "jbod", "raid0", "raid1", "raid5", "pool", "duplicated")
FILESYSTEMS = ("ext2", "ext3", "ext4", "xfs", "btrfs", "fat", "ntfs")
KINDS = ("samba", "ganesha", "knfsd", "demo")
NFS_VERSIONS = ("3", "4.0", "4.1", "4.2")
SMB_DIALECTS = ("2.0.2", "2.1", "3.0", "3.0.2", "3.1.1")
ACCESS = ("direct", "nfs3", "nfs4.0", "nfs4.1", "nfs4.2", "cifs2.1", "cifs3.0", "cifs3.1.1")
BACKENDS = ("native", "uml")
_LEAST_DISK_BYTES = {"btrfs": 112 * MIB, "xfs": 320 * MIB}
"""What mkfs demands; 32 MiB elsewhere."""
_DISKS = {"single": (1, 1), "span": (2, 16), "jbod": (1, 16), "raid0": (2, 16), "raid1": (2, 2), "raid5": (3, 16),
          "pool": (2, 16), "duplicated": (2, 16)}  # fmt: skip


@dataclass(frozen=True)
class Burst:
    """A token bucket: `rate` while there is credit, `base` without; `size` of credit, earned at the base rate."""

    rate_bytes_per_s: int = key("rate", rate, "bytes per second while there is credit")
    size_bytes: int = key("size", size(MIB, 1 << 40), "full credit, spent above the base rate")
    base_bytes_per_s: int = key(
        "base", rate, "bytes per second without credit; also the rate at which credit is earned"
    )

    @property
    def plan(self) -> Plan:
        """As the keepers take it."""
        return Plan(self.rate_bytes_per_s, self.base_bytes_per_s, self.size_bytes)


@dataclass(frozen=True)
class Disk:
    """One disk, held in this machine's memory. Limits that are left out are not planted."""

    count: int = key("count", number(1, 16), "number of such disks", 1)
    size_bytes: int = key("size", size(32 * MIB, 1 << 40), "size of each disk", 512 * MIB)
    rate_bytes_per_s: int | None = key("rate", rate, "shared by reads and writes", None)
    read_bytes_per_s: int | None = key("read", rate, "for reads only", None)
    write_bytes_per_s: int | None = key("write", rate, "for writes only", None)
    iops: int | None = key("iops", number(10, 10**6), "requests per second: reads, and as many writes", None)
    latency_ns: int = key("latency", duration, "added to each request", 0)
    burst: Burst | None = key("burst", table(Burst), "a token bucket, shared by reads and writes", None)  # noqa: RUF009
    error_rate: float = key("errors", share(1.0), "share of requests that fail", 0.0)
    seek_ns: int = key("seek", duration, "added to a request that does not continue the previous one", 0)

    @property
    def reads_bytes_per_s(self) -> int | None:
        """The most that it reads: a burst's base; None without a limit."""
        return self.rate_bytes_per_s or self.read_bytes_per_s or (self.burst.base_bytes_per_s if self.burst else None)

    @property
    def writes_bytes_per_s(self) -> int | None:
        """The most that it writes: a burst's base; None without a limit."""
        return self.rate_bytes_per_s or self.write_bytes_per_s or (self.burst.base_bytes_per_s if self.burst else None)


@dataclass(frozen=True)
class Volume:
    """How the disks are put together."""

    level: str = key("level", choice(*LEVELS), "how the disks are combined", "single")
    mode: str | None = key(
        "mode", choice("synchronous", "background"), "for a duplicated pool: when the second copy is made", None
    )
    delay_ns: int | None = key(
        "delay", duration,
        "for `background`: how long a file must be unchanged before it is copied; 2s if omitted", None,
    )  # fmt: skip


@dataclass(frozen=True)
class Filesystem:
    """What is on the volume; on each disk of a pool or JBOD."""

    type: str = key("type", choice(*FILESYSTEMS), "its type", "ext4")


@dataclass(frozen=True)
class Server:
    """What serves it, and with how much of a machine."""

    kind: str = key("kind", choice(*KINDS), "the program; knfsd is the kernel's own NFS server")
    dialect: str | None = key("dialect", choice(*SMB_DIALECTS), "for Samba: its newest dialect", None)
    signing: str | None = key("signing", choice("auto", "mandatory", "disabled"), "for Samba", None)
    encryption: str | None = key("encryption", choice("default", "off", "desired", "required"), "for Samba", None)
    versions: tuple[str, ...] = key("version", choices(*NFS_VERSIONS), "for NFS: its versions; all if omitted", ())
    sync: str = key(
        "sync", choice("asked", "always", "never"),
        "when written data become durable: when the client asks; before each answer; never", "asked",
    )  # fmt: skip
    ram_bytes: int | None = key("ram", size(32 * MIB, 1 << 42), "memory, including the server cache", None)
    write_cache_bytes: int | None = key(
        "write_cache", size(MIB, 1 << 42),
        "maximum of data not yet on disk, approximately; a fifth of `ram` if omitted", None,
    )  # fmt: skip
    cpu: float | None = key("cpu", share(64.0), "share of one CPU; `200%` are two", None)


@dataclass(frozen=True)
class Link:
    """The server's way to its clients, in each direction. Rates are those of the wire, framing included."""

    rate_bits_per_s: int | None = key("rate", bit_rate, "its rate", None)
    mtu: int | None = key(
        "mtu", number(576, 9000), "bytes of the largest packet, each sent alone; if omitted 1500, sent in bursts", None
    )
    latency_ns: int = key("latency", duration, "added in each direction", 0)
    burst: Burst | None = key("burst", table(Burst), "a token bucket; instead of `rate`", None)  # noqa: RUF009
    queue_ns: int | None = key("queue", duration, "maximum wait of a packet at the shaper; 5ms if omitted", None)


@dataclass(frozen=True)
class Clients:
    """Who measures, and how."""

    count: int = key("count", number(1, 8), "number of clients, each with its own address", 1)
    access: str = key(
        "access", choice(*ACCESS), "naslab's own protocol client (`direct`), or a kernel mount in a guest", "direct"
    )
    rate_bits_per_s: int | None = key("rate", bit_rate, "of each client's own link; the server's if omitted", None)
    rates_bits_per_s: tuple[int, ...] = key("rates", bit_rates, "the same where they differ, one for each client", ())
    ram_bytes: int | None = key("ram", size(64 * MIB, 1 << 42), "memory of the guest that mounts", None)

    @property
    def own_bits_per_s(self) -> tuple[int | None, ...]:
        """The rate of each client's own link; None: the server's."""
        return self.rates_bits_per_s or (self.rate_bits_per_s,) * self.count


@dataclass(frozen=True)
class Definition:
    """One system, whole and checked. disks: each one by itself, in order, with a count of 1."""

    name: str
    what: str
    server: Server
    source: str = ""
    backend: str | None = None
    disks: tuple[Disk, ...] = ()
    volume: Volume = field(default_factory=Volume)
    filesystem: Filesystem = field(default_factory=Filesystem)
    link: Link | None = None
    clients: Clients = field(default_factory=Clients)

    @property
    def capacity_bytes(self) -> int:
        """Room on the volume before a file system takes its share; 0 without disks."""
        sizes = [each.size_bytes for each in self.disks]
        if self.volume.level in ("raid0", "raid1", "raid5"):
            data = {"raid0": len(sizes), "raid1": 1, "raid5": len(sizes) - 1}[self.volume.level]
            return min(sizes) * data
        return sum(sizes) // (2 if self.volume.level == "duplicated" else 1)


_PARTS: dict[str, type] = {"volume": Volume, "filesystem": Filesystem, "server": Server, "link": Link,
                           "clients": Clients}  # fmt: skip
_TOP = {"what": text, "source": text, "backend": choice(*BACKENDS)}


def load(path: Path, name: str | None = None, chosen: Mapping[str, str] | None = None) -> Definition:
    """The system of a file. chosen: values that replace the file's, by `part.key`. Raises UsageError."""
    return read(tables(path), str(path), name or path.stem, chosen)


def parse(words: str, file: str, name: str, chosen: Mapping[str, str] | None = None) -> Definition:
    """The system that a text describes. file: named in errors. Raises UsageError."""
    try:
        data = tomllib.loads(words)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"lab: {file}: {error}; correct the TOML") from None
    return read(data, file, name, chosen)


def read(data: dict[str, Any], file: str, name: str, chosen: Mapping[str, str] | None = None) -> Definition:
    """The system of data as a TOML file has them. file: named in errors. Raises UsageError."""
    where = f"lab: {file}: "
    data = _replaced(data, chosen or {}, where)
    if unknown := sorted(set(data) - set(_PARTS) - set(_TOP) - {"disks"}):
        raise UsageError(f"{where}{unknown[0]}: unknown key; use {', '.join((*_TOP, 'disks', *_PARTS))}")
    for needed in ("what", "server"):
        if needed not in data:
            raise UsageError(f"{where}{needed} is missing; a system has `what` (one line) and a [server] with its kind")
    top = {each: read_value(reads, data[each], where + each) for each, reads in _TOP.items() if each in data}
    parts: dict[str, Any] = {
        each: read_part(kind, data[each], where + each) for each, kind in _PARTS.items() if each in data
    }
    found = Definition(name, disks=_disks(data.get("disks", []), where), **top, **parts)
    _check(found, data, where)
    return found


def tables(path: Path) -> dict[str, Any]:
    """The tables of a file, unchecked. Raises UsageError."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"lab: {path}: {reason}; give a TOML file that describes a system") from None


def built_in() -> dict[str, str]:
    """Texts of the definitions that come with naslab, by name."""
    folder = resources.files("naslab.lab") / "definitions"
    found = [each for each in folder.iterdir() if each.name.endswith(".toml")]
    return {each.name.removesuffix(".toml"): each.read_text("utf-8") for each in sorted(found, key=lambda it: it.name)}


def words() -> tuple[str, ...]:
    """All `part.key` that may be replaced."""
    kinds = {"disks": Disk, **_PARTS}
    return tuple(
        f"{part}.{each.metadata['key']}" for part, kind in kinds.items() for each in dataclasses.fields(kind)
    )  # fmt: skip


def _replaced(data: dict[str, Any], chosen: Mapping[str, str], where: str) -> dict[str, Any]:
    found = copy.deepcopy(data)
    for name, value in chosen.items():
        if name not in words():
            raise UsageError(f"{where}{name} = {value!r}: unknown key; use one of {', '.join(words())}")
        part, _, word = name.partition(".")
        tables = found.get("disks", []) if part == "disks" else [found.setdefault(part, {})]
        if not tables:
            raise UsageError(f"{where}{name} = {value!r}: this system has no disks; add [[disks]] to its file")
        for each in tables:
            if not isinstance(each, dict):
                raise UsageError(
                    f"{where}{part} = {each!r}: this is a table of keys; see docs/reference/lab-systems.md"
                )
            each[word] = value
    return found


def _disks(data: Any, where: str) -> tuple[Disk, ...]:
    if not isinstance(data, list):
        raise UsageError(f"{where}disks = {data!r}: write [[disks]], once for each kind of disk")
    kinds = [read_part(Disk, each, f"{where}disks[{at}]") for at, each in enumerate(data)]
    return tuple(dataclasses.replace(each, count=1) for each in kinds for _ in range(each.count))


def _check(found: Definition, data: Mapping[str, Any], where: str) -> None:
    """Raises UsageError for parts that do not go together."""
    for at, each in enumerate(found.disks):
        _check_disk(each, f"{where}disks[{at}]")
    _check_volume(found, data, where)
    _check_server(found, where)
    link = found.link
    if link is not None:
        if link.burst is not None:
            if link.rate_bits_per_s is not None:
                raise UsageError(f"{where}link.rate and link.burst: a link has one of them; leave one out")
            _check_burst(link.burst, f"{where}link.burst")
            _check_shaper(link.burst, f"{where}link.burst")
        if link.queue_ns is not None and link.rate_bits_per_s is None and link.burst is None:
            raise UsageError(f"{where}link.queue: a queue needs a rate; give link.rate")
    _check_clients(found, where)


def _check_disk(disk: Disk, where: str) -> None:
    own = [name for name, value in (("read", disk.read_bytes_per_s), ("write", disk.write_bytes_per_s)) if value]
    if disk.rate_bytes_per_s is not None and own:
        raise UsageError(f"{where}.rate and .{own[0]}: reads and writes share a rate or have one each; leave one out")
    if disk.burst is not None:
        if disk.rate_bytes_per_s is not None or own:
            raise UsageError(
                f"{where}.burst and .{own[0] if own else 'rate'}: the burst's base is the rate; leave one out"
            )
        _check_burst(disk.burst, f"{where}.burst")


def _check_room(found: Definition, where: str) -> None:
    """Raises UsageError where the file system does not fit on its disks."""
    kind, level = found.filesystem.type, found.volume.level
    least = _LEAST_DISK_BYTES.get(kind, 32 * MIB)
    if kind == "btrfs" or level in ("single", "jbod", "pool", "duplicated"):
        if (smallest := min(each.size_bytes for each in found.disks)) < least:
            raise UsageError(f"{where}disks.size = {smallest} bytes: {kind} needs at least {least // MIB}MiB")
    elif (room := found.capacity_bytes) < least * 3 // 2:  # a RAID keeps some of its room for itself
        raise UsageError(
            f"{where}disks.size: {level} of {room} bytes: {kind} needs at least {least * 3 // 2 // MIB}MiB there"
        )


def _check_burst(burst: Burst, where: str) -> None:
    if burst.rate_bytes_per_s <= burst.base_bytes_per_s:
        raise UsageError(
            f"{where}.rate = {burst.rate_bytes_per_s}: not above its base ({burst.base_bytes_per_s}); give a higher one"
        )


def _check_shaper(burst: Burst, where: str) -> None:
    """What tc's tbf cannot count: its bucket has 32 bits of bytes, and of nanoseconds in steps of 64."""
    if burst.size_bytes >= min(1 << 32, 250 * burst.base_bytes_per_s):
        raise UsageError(
            f"{where}.size = {burst.size_bytes}: a link's shaper takes less than 4 GiB and less than 250 s at the base "
            f"rate ({burst.base_bytes_per_s}); give less"
        )


def _check_volume(found: Definition, data: Mapping[str, Any], where: str) -> None:
    volume, disks = found.volume, len(found.disks)
    if not disks:
        if given := [part for part in ("volume", "filesystem") if part in data]:
            raise UsageError(f"{where}{given[0]}: there are no disks for it; add [[disks]], or leave it out")
        return
    least, most = _DISKS[volume.level]
    if not least <= disks <= most:
        counts = str(least) if least == most else f"{least} to {most}"
        raise UsageError(f"{where}volume.level = {volume.level!r}: it needs {counts} disks, but there are {disks}")
    _check_room(found, where)
    if volume.level == "duplicated" and volume.mode is None:
        raise UsageError(f"{where}volume.mode is missing: a duplicated pool is synchronous or background")
    if volume.level != "duplicated" and volume.mode is not None:
        raise UsageError(f"{where}volume.mode = {volume.mode!r}: for level duplicated only; leave it out")
    if volume.delay_ns is not None and volume.mode != "background":
        raise UsageError(f"{where}volume.delay: for a duplicated pool in the background only; leave it out")
    if volume.mode == "synchronous" and disks != 2:
        raise UsageError(f"{where}volume.mode = 'synchronous': needs exactly two disks; there are {disks}")
    if volume.level == "duplicated" and found.filesystem.type == "fat":
        raise UsageError(f"{where}filesystem.type = 'fat': duplication needs exact modification times; use ext4 or xfs")


def _check_server(found: Definition, where: str) -> None:
    server = found.server
    smb = {"dialect": server.dialect, "signing": server.signing, "encryption": server.encryption}
    if server.kind != "samba" and (given := [name for name, value in smb.items() if value]):
        raise UsageError(f"{where}server.{given[0]}: for kind samba only; leave it out with {server.kind}")
    if server.kind not in ("ganesha", "knfsd") and server.versions:
        raise UsageError(f"{where}server.version: for kinds ganesha and knfsd only; samba has server.dialect")
    if server.encryption == "required" and (server.dialect or "3")[0] == "2":
        raise UsageError(f"{where}server.encryption = 'required': dialect {server.dialect} has none; use 3.0 or newer")
    if server.sync == "always" and server.kind in ("ganesha", "knfsd", "demo"):
        raise UsageError(
            f"{where}server.sync = 'always': for kind samba only; an NFS client requests it (durability each)"
        )
    if server.sync == "never" and server.kind in ("ganesha", "demo"):
        raise UsageError(
            f"{where}server.sync = 'never': for kinds samba and knfsd only; {server.kind} does as requested"
        )
    if server.write_cache_bytes and not found.disks:
        raise UsageError(f"{where}server.write_cache: there are no disks behind it; add [[disks]]")
    if server.write_cache_bytes and server.ram_bytes and server.write_cache_bytes > server.ram_bytes:
        raise UsageError(f"{where}server.write_cache: more than server.ram; give less")
    if server.kind in ("ganesha", "knfsd") and found.filesystem.type == "ntfs" and found.disks:
        raise UsageError(
            f"{where}filesystem.type = 'ntfs': NFS servers need file handles, which ntfs-3g lacks; use samba"
        )


def _check_clients(found: Definition, where: str) -> None:
    clients, kind = found.clients, found.server.kind
    protocol = "cifs" if kind == "samba" else "nfs"
    if clients.access != "direct" and not clients.access.startswith(protocol):
        raise UsageError(
            f"{where}clients.access = {clients.access!r}: {kind} speaks {protocol}; choose one of its versions"
        )
    version = clients.access.removeprefix("nfs")
    if clients.access.startswith("nfs") and version not in (found.server.versions or NFS_VERSIONS):
        raise UsageError(f"{where}clients.access = {clients.access!r}: server.version lacks {version}; add it")
    dialect = clients.access.removeprefix("cifs")
    if clients.access.startswith("cifs") and SMB_DIALECTS.index(dialect) > SMB_DIALECTS.index(
        found.server.dialect or "3.1.1"
    ):
        raise UsageError(f"{where}clients.access = {clients.access!r}: server.dialect is older; raise it")
    if clients.rates_bits_per_s:
        if clients.rate_bits_per_s is not None:
            raise UsageError(f"{where}clients.rate and .rates: clients have one rate or one each; leave one out")
        if (given := len(clients.rates_bits_per_s)) != clients.count:
            raise UsageError(f"{where}clients.rates: {given} rates for {clients.count} clients; give one for each")
    if found.link is None and (clients.count > 1 or any(clients.own_bits_per_s)):
        raise UsageError(f"{where}clients: several clients, or a rate of theirs, need a [link]; add one")
    if clients.ram_bytes and clients.access == "direct":
        raise UsageError(f"{where}clients.ram: for the guest of a kernel mount only; leave it out with direct access")
