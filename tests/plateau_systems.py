"""Systems of the lab whose limiting part is known, and the loads whose plateau has to show its limit.

A load names the planted limit by its name in `naslab.lab.limits` and says how payload follows from it: a link carries
frames, a limit of requests carries blocks, a delay lets one block through at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from naslab.lab import definition, limits

LINK, DISK, RAID, KNEE = 0.02, 0.03, 0.05, 0.10
"""How far a plateau may lie from its limit."""
HEADERS_BYTES, TCP_BYTES = 14, 52
"""Of each frame: Ethernet's header; IP's and TCP's with time stamps."""
STANDARD_MTU = 1500


@dataclass(frozen=True)
class Load:
    """One command, `naslab sustained` or `naslab cache size` with `words`, and what limits it.

    limit: name of the planted limit. tolerance: how far the figure may lie from it.
    figure: `plateau`, the floor of the regime of `kind`; `durable`, the rate until all was on the disks; `knee`, the
    largest working set read from memory. at: the server's target, or `disk`: the volume itself, past the page cache.
    """

    limit: str
    words: tuple[str, ...]
    tolerance: float
    figure: str = "plateau"
    kind: str = ""
    at: str = "server"

    @property
    def command(self) -> tuple[str, ...]:
        """What measures the figure."""
        return ("cache", "size") if self.figure == "knee" else ("sustained",)

    @property
    def says(self) -> str:
        """What it does, for the table."""
        if self.figure == "knee":
            return "read again and again, in sizes"
        writes = "--write" in self.words and self.words[self.words.index("--write") + 1]
        what = {False: "read", "100": "write"}.get(writes, "read and write")
        return f"{what}{' at random' if '--random' in self.words else ''}{', at the disk' * (self.at == 'disk')}"


@dataclass(frozen=True)
class System:
    """text: of the definition, without its `what`."""

    name: str
    part: str
    text: str
    loads: Sequence[Load] = field(default_factory=tuple)

    @property
    def toml(self) -> str:
        """The whole file."""
        return f'what = "{self.part}"\n{self.text}'

    def definition(self) -> definition.Definition:
        """As the lab reads it."""
        return definition.parse(self.toml, f"{self.name}.toml", self.name)


def payload_share(mtu: int | None) -> float:
    """Of the bytes on the wire, how many are a TCP segment's data."""
    packet = mtu or STANDARD_MTU
    return (packet - TCP_BYTES) / (packet + HEADERS_BYTES)


def planted(system: System, load: Load) -> float:
    """What a load may move, bytes per second; of a knee, bytes of memory, of which the server needs some itself."""
    made = system.definition()
    found = {each.name: each for each in limits.planted(made)}[load.limit]
    if found.unit == limits.BITS_PER_S:
        assert made.link is not None
        return found.value / 8 * payload_share(made.link.mtu)
    if found.unit == limits.PER_S:
        return found.value * block_bytes(load)
    if found.unit == limits.NS:
        return block_bytes(load) * 1e9 / found.value
    if found.unit == limits.BYTES:
        return found.value
    assert found.unit == limits.BYTES_PER_S
    return found.value


def block_bytes(load: Load) -> int:
    """Of a load, in KiB or MiB as its words say."""
    text = load.words[load.words.index("--block") + 1]
    return int(text[:-1]) << {"k": 10, "m": 20}[text[-1]]


def measured(document: dict[str, Any], load: Load) -> float:
    """naslab's own figure of a run, bytes per second; of a knee bytes, 0 where none was found."""
    if load.figure == "knee":
        return float(document["sustained"]["working_set"]["knee_bytes"] or 0)
    if load.figure == "durable":
        cell = next(each for each in reversed(document["cells"]) if each["workload"] == "sustained")
        return float(cell["durable_bytes_per_s"])
    regimes = document["sustained"]["regimes"]
    found = next(each for each in regimes if each["kind"] == (load.kind or regimes[-1]["kind"]))
    return float(found["baseline_bytes_per_s"])


def _words(block: str, depth: int, size: str, duration: str, *more: str) -> tuple[str, ...]:
    return ("--block", block, "--depth", str(depth), "--size", size, "--duration", duration, *more)


def _link(name: str, part: str, link: str, server: str, *loads: Load) -> System:
    return System(name, part, f"[server]\n{server}\n[link]\n{link}\n", loads)


def _read(size: str = "16m", block: str = "256k", duration: str = "3s") -> Load:
    return Load("link.rate", _words(block, 8, size, duration), LINK)


def _write(size: str = "32m", block: str = "256k", duration: str = "3s") -> Load:
    return Load("link.rate", _words(block, 8, size, duration, "--write", "100"), LINK)


SAMBA, NFS3, NFS41 = 'kind = "samba"', 'kind = "ganesha"\nversion = ["3"]', 'kind = "ganesha"\nversion = ["4.1"]'
LINKS = (
    _link("link-20", "link of 20 Mbit/s", 'rate = "20Mbit/s"', SAMBA, _write("4m", "64k")),
    _link("link-50", "link of 50 Mbit/s", 'rate = "50Mbit/s"', SAMBA + '\ndialect = "2.1"', _read("4m", "64k")),
    _link("link-100", "link of 100 Mbit/s", 'rate = "100Mbit/s"', NFS3, _write()),
    _link("link-200", "link of 200 Mbit/s", 'rate = "200Mbit/s"', NFS41, _read()),
    _link("link-200-signed", "link of 200 Mbit/s, signed", 'rate = "200Mbit/s"',
          SAMBA + '\nsigning = "mandatory"', _write()),
    _link("link-200-1500", "link of 200 Mbit/s, packets of 1500", 'rate = "200Mbit/s"\nmtu = 1500', SAMBA, _read()),
    _link("link-200-9000", "link of 200 Mbit/s, packets of 9000", 'rate = "200Mbit/s"\nmtu = 9000', SAMBA, _write()),
    _link("link-400-sealed", "link of 400 Mbit/s, encrypted", 'rate = "400Mbit/s"',
          SAMBA + '\nencryption = "required"', _read()),
    _link("link-1000", "link of 1 Gbit/s", 'rate = "1Gbit/s"', SAMBA, _read("64m")),
    _link("client-80", "one client's link of 80 Mbit/s", 'rate = "1Gbit/s"\n[clients]\ncount = 2\nrate = "80Mbit/s"',
          SAMBA, Load("clients.rate", _words("256k", 8, "16m", "3s"), LINK)),
)  # fmt: skip

_RANDOM_WRITE = ("--write", "100", "--random", "--durability", "each")
_OWN = 'ram = "128MiB"\nwrite_cache = "8MiB"'


def _disk(limit: str, words: tuple[str, ...], tolerance: float = DISK, figure: str = "plateau", **more: Any) -> Load:
    return Load(limit, words, tolerance, figure, **more)


def _stored(name: str, part: str, disks: str, volume: str, kind: str, server: str, *loads: Load) -> System:
    text = f'[[disks]]\n{disks}\n[volume]\n{volume}\n[filesystem]\ntype = "{kind}"\n[server]\n{server}\n{_OWN}\n'
    return System(name, part, text, loads)


def _volume_write(limit: str = "volume.write", tolerance: float = RAID) -> Load:
    return Load(limit, _words("1m", 4, "96m", "4s", "--write", "100"), tolerance, "durable")


_PAST = {"at": "disk"}
_SINGLE = 'level = "single"'
DISKS = (
    _stored("disk-rates", "disk of 80 MB/s read, 60 written", 'size = "320MiB"\nread = "80MB/s"\nwrite = "60MB/s"',
            _SINGLE, "ext4", SAMBA,
            _disk("disks.write", _words("256k", 8, "64m", "3s", *_RANDOM_WRITE)),
            _disk("disks.read", _words("256k", 8, "192m", "3s"))),
    _stored("disk-nfs", "disk of 50 MB/s, NFS", 'size = "320MiB"\nread = "50MB/s"\nwrite = "120MB/s"',
            _SINGLE, "xfs", NFS3, _disk("disks.read", _words("256k", 8, "192m", "3s"))),
    _stored("disk-shared", "disk of 50 MB/s for reads and writes", 'size = "320MiB"\nrate = "50MB/s"',
            _SINGLE, "xfs", SAMBA,
            _disk("disks.rate", _words("256k", 8, "64m", "3s", "--write", "50", "--random", "--direct"),
                  kind="all", **_PAST)),
    _stored("disk-iops", "disk of 500 requests/s", 'size = "320MiB"\niops = 500', _SINGLE, "ext4", SAMBA,
            _disk("disks.iops", _words("4k", 16, "64m", "3s", "--random", "--direct"), **_PAST)),
    _stored("disk-latency", "disk with 40 ms of latency", 'size = "320MiB"\nlatency = "40ms"', _SINGLE, "ext4", SAMBA,
            _disk("disks.latency", _words("4k", 1, "16m", "5s", "--random", "--direct"), **_PAST)),
    _stored("disk-one-of-two", "one of two disks of 40 MB/s read",
            'count = 2\nsize = "320MiB"\nread = "40MB/s"\nwrite = "90MB/s"',
            'level = "jbod"', "ext3", SAMBA, _disk("disks.read", _words("256k", 8, "160m", "3s"))),
    _stored("pool-one-disk", "one disk of a pool, 45 MB/s written",
            'count = 2\nsize = "320MiB"\nread = "90MB/s"\nwrite = "45MB/s"', 'level = "pool"', "ext4", SAMBA,
            _disk("disks.write", _words("256k", 8, "64m", "3s", *_RANDOM_WRITE))),
    _stored("stripes", "two disks of 30 MB/s striped", 'count = 2\nsize = "256MiB"\nread = "40MB/s"\nwrite = "30MB/s"',
            'level = "raid0"', "ext4", SAMBA,
            _volume_write(), _disk("volume.read", _words("256k", 8, "192m", "3s"), RAID)),
    _stored("mirror", "two disks of 40 MB/s mirrored", 'count = 2\nsize = "256MiB"\nread = "90MB/s"\nwrite = "40MB/s"',
            'level = "raid1"', "btrfs", SAMBA, _volume_write()),
    _stored("parity", "three disks with parity, 40 MB/s read, 30 written",
            'count = 3\nsize = "256MiB"\nread = "40MB/s"\nwrite = "30MB/s"', 'level = "raid5"', "xfs", SAMBA,
            _volume_write(), _disk("volume.read", _words("256k", 8, "192m", "3s"), RAID)),
)  # fmt: skip
_KNFS = 'kind = "knfsd"'
_MD = 'count = {}\nsize = "{}MiB"\nread = "80MB/s"\nwrite = "30MB/s"'
GUESTS = (
    _stored("md-mirror", "two disks of 30 MB/s mirrored by md, kernel's NFS", _MD.format(2, 256), 'level = "raid1"',
            "ext4", _KNFS, _volume_write()),
    # Slower ones: beside 90 MB/s the parity takes most of the guest's one processor.
    _stored("md-parity-4", "four disks of 20 MB/s, md's RAID 5, kernel's NFS",
            _MD.format(4, 128).replace('"30MB/s"', '"20MB/s"'), 'level = "raid5"', "ext4", _KNFS, _volume_write()),
    _stored("md-span-fat", "one of two disks of 30 MB/s in a row, FAT", _MD.format(2, 160), 'level = "span"', "fat",
            SAMBA, Load("disks.write", _words("1m", 4, "96m", "6s", "--write", "100"), DISK, "durable")),
    _link("mount-nfs", "kernel's mount over 200 Mbit/s", 'rate = "200Mbit/s"\n[clients]\naccess = "nfs4.1"', _KNFS,
          Load("link.rate", _words("256k", 8, "16m", "3s", "--direct"), LINK)),
)  # fmt: skip


def _cached(name: str, part: str, read: str, kind: str, server: str, size: str) -> System:
    text = f'[[disks]]\nsize = "400MiB"\nread = "{read}"\nwrite = "500MB/s"\n[filesystem]\ntype = "{kind}"\n'
    words = ("--block", "256k", "--depth", "8", "--size", size)
    return System(name, part, f"{text}[server]\n{server}\n", (Load("server.ram", words, KNEE, "knee"),))


KNEES = (
    _cached("memory-160", "server with 160 MiB of memory", "160MB/s", "ext4", SAMBA + '\nram = "160MiB"', "240m"),
    _cached("memory-128", "server with 128 MiB of memory, NFS", "120MB/s", "xfs", NFS3 + '\nram = "128MiB"', "160m"),
    _cached("guest-128", "guest with 128 MiB of memory, kernel's NFS", "40MB/s", "ext4", _KNFS + '\nram = "128MiB"',
            "100m"),
)  # fmt: skip
SYSTEMS = (*LINKS, *DISKS, *GUESTS, *KNEES)
