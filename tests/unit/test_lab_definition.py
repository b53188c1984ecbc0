"""Definitions of systems: units, defaults, and what is refused, by key, value and next step."""

from __future__ import annotations

from pathlib import Path

import pytest

from naslab.errors import UsageError
from naslab.lab import definition
from naslab.lab.bucket import Plan

MB = 1_000_000
WHOLE = """
what = "all of it"
source = "nobody"
backend = "native"
[[disks]]
count = 3
size = "1GiB"
read = "67MB/s"
write = "64k/s"
iops = 500
latency = "8ms"
errors = "1%"
[[disks]]
size = "1g"
burst = { rate = "260MB/s", size = "900MB", base = "32MB/s" }
seek = "4ms"
[volume]
level = "raid5"
[filesystem]
type = "xfs"
[server]
kind = "ganesha"
version = ["4.0", "4.1"]
ram = "256MiB"
write_cache = "20MB"
cpu = "150%"
[link]
rate = "2.5Gbit/s"
mtu = 9000
latency = "200us"
queue = "20ms"
[clients]
count = 2
access = "nfs4.1"
rate = "67MB/s"
ram = "512m"
"""


def small(*parts: str, kind: str = "samba") -> str:
    """A definition with one disk, and more."""
    return "\n".join(('what = "x"', "[server]", f'kind = "{kind}"', "[[disks]]", *parts))


def test_amounts_are_integers_of_base_units() -> None:
    found = definition.parse(WHOLE, "f.toml", "whole")
    assert (found.name, found.what, found.source, found.backend) == ("whole", "all of it", "nobody", "native")
    assert [each.count for each in found.disks] == [1, 1, 1, 1]
    first, last = found.disks[0], found.disks[3]
    assert (first.size_bytes, first.read_bytes_per_s, first.write_bytes_per_s) == (1 << 30, 67 * MB, 1 << 16)
    assert (first.iops, first.latency_ns, first.error_rate, first.seek_ns) == (500, 8 * MB, 0.01, 0)
    assert (first.reads_bytes_per_s, first.writes_bytes_per_s) == (67 * MB, 1 << 16)
    assert last.burst is not None and last.burst.plan == Plan(260 * MB, 32 * MB, 900 * MB)
    assert (last.seek_ns, last.reads_bytes_per_s, last.writes_bytes_per_s) == (4 * MB, 32 * MB, 32 * MB)
    assert (found.volume.level, found.filesystem.type, found.capacity_bytes) == ("raid5", "xfs", 3 << 30)
    server, link, clients = found.server, found.link, found.clients
    assert (server.versions, server.ram_bytes, server.cpu) == (("4.0", "4.1"), 256 << 20, 1.5)
    assert (server.write_cache_bytes, server.sync) == (20 * MB, "asked")
    assert link is not None and link.rate_bits_per_s == 2_500_000_000
    assert (link.mtu, link.latency_ns, link.queue_ns, link.burst) == (9000, 200_000, 20 * MB, None)
    assert (clients.count, clients.access) == (2, "nfs4.1")
    assert (clients.rate_bits_per_s, clients.ram_bytes) == (8 * 67 * MB, 512 << 20)


def test_a_server_alone_is_a_system() -> None:
    found = definition.parse('what = "x"\n[server]\nkind = "demo"', "f.toml", "x")
    assert (found.disks, found.link, found.capacity_bytes, found.clients.count) == ((), None, 0, 1)


@pytest.mark.parametrize(
    ("level", "count", "capacity"),
    [("span", 3, 900), ("jbod", 3, 900), ("raid0", 3, 900), ("raid1", 2, 300), ("raid5", 3, 600), ("pool", 3, 900)],
)
def test_capacity(level: str, count: int, capacity: int) -> None:
    words = small(f"count = {count}", 'size = "300m"', "[volume]", f'level = "{level}"')
    assert definition.parse(words, "f", "x").capacity_bytes == capacity << 20


def test_values_are_replaced_by_part_and_key() -> None:
    chosen = {"disks.size": "2g", "disks.count": "4", "link.rate": "100Mbit/s", "volume.level": "raid0"}
    found = definition.parse(WHOLE, "f.toml", "x", {**chosen, "server.ram": "64m"})
    assert [each.size_bytes for each in found.disks] == [2 << 30] * 8
    assert found.link is not None and found.link.rate_bits_per_s == 100 * MB
    assert (found.volume.level, found.server.ram_bytes) == ("raid0", 64 << 20)
    for name, message in (("disks.colour", "unknown key; use one of disks.count"), ("link", "unknown key")):
        with pytest.raises(UsageError, match=message):
            definition.parse(WHOLE, "f.toml", "x", {name: "1"})
    with pytest.raises(UsageError, match="this system has no disks"):
        definition.parse('what = "x"\n[server]\nkind = "demo"', "f", "x", {"disks.size": "1g"})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("what = ", "f.toml: Invalid value .*; correct the TOML"),
        ('what = "x"', "server is missing; a system has"),
        ('[server]\nkind = "demo"', "what is missing"),
        ('what = ""\n[server]\nkind = "demo"', "f.toml: what = '': write one line of text"),
        ('what = "x"\ncolour = 1\n[server]\nkind = "demo"', "f.toml: colour: unknown key; use what, source"),
        ('what = "x"\nserver = 3', "f.toml: server = 3: this is a table of keys"),
        ('what = "x"\ndisks = 3\n[server]\nkind = "demo"', "disks = 3: write \\[\\[disks\\]\\]"),
        ('what = "x"\n[server]\nkind = "iis"', "server.kind = 'iis': use one of samba, ganesha"),
        ('what = "x"\n[server]\nram = "1g"', "server.kind is missing: the program"),
        ('what = "x"\n[server]\nkind = "demo"\n[volume]\nlevel = "raid0"', "volume: there are no disks for it"),
        (small("colour = 1"), "disks\\[0\\].colour = 1: unknown key; use count, size"),
        (small("size = 5"), "disks\\[0\\].size = 5: write a size: 1GiB"),
        (small('size = "1k"'), "disks\\[0\\].size = '1k': write a size from 33554432"),
        (small('rate = "67"'), "disks\\[0\\].rate = '67': write a rate in bytes per second: 67MB/s"),
        (small('rate = "1Gbit/s"'), "write a rate in bytes per second"),
        (small('rate = "1k/s"'), "write a rate from 64KiB/s"),
        (small("iops = 1"), "iops = 1: write a whole number from 10"),
        (small("iops = true"), "iops = True: write a whole number"),
        (small('latency = "8"'), "latency = '8': write a time with its unit"),
        (small('errors = "200%"'), "errors = '200%': write a share above 0% and up to 100%"),
        (small("errors = 0.1"), "errors = 0.1: write a share"),
        (small('burst = "much"'), "burst = 'much': this is a table"),
        (small('rate = "1MB/s"', 'read = "1MB/s"'), "disks\\[0\\].rate and .read: reads and writes share a rate"),
        (small('rate = "1MB/s"', 'burst = {rate="2MB/s",base="1MB/s",size="2m"}'), ".burst and .rate"),
        (small('burst = {rate="1MB/s",base="1MB/s",size="2m"}'), "burst.rate = 1000000: not above its base"),
        (
            small("[link]", 'burst={rate="2GB/s",base="1GB/s",size="5GB"}'),
            "link.burst.size = 5000000000: a link's shaper",
        ),
        (small("[link]", 'burst={rate="2MB/s",base="1MB/s",size="250MB"}'), "link.burst.size = 250000000: a link's"),
        (small('size = "100m"', "[filesystem]", 'type = "xfs"'), "disks.size = 104857600 bytes: xfs needs at least"),
        (
            small("count=2", 'size="200m"', "[volume]", 'level="raid1"', "[filesystem]", 'type="xfs"'),
            "needs at least 480MiB",
        ),
        (small("count = 2"), "volume.level = 'single': it needs 1 disks, but there are 2"),
        (small("[volume]", 'level = "raid5"'), "'raid5': it needs 3 to 16 disks, but there are 1"),
        (small("count=2", "[volume]", 'level = "duplicated"'), "volume.mode is missing"),
        (small("[volume]", 'mode = "background"'), "volume.mode = 'background': for level duplicated only"),
        (small("[volume]", 'delay = "1s"'), "volume.delay: for a duplicated pool"),
        (small("count=3", "[volume]", 'level="duplicated"', 'mode="synchronous"'), "needs exactly two disks"),
        (small("[link]", 'rate = "1Gb"'), "link.rate = '1Gb': write a rate in bytes"),
        (small("[link]", 'rate = "1bit/s"'), "link.rate = '1bit/s': write a link's rate from 1Mbit/s"),
        (small("[link]", 'queue = "1ms"'), "link.queue: a queue needs a rate"),
        (small("[link]", 'rate="1Gbit/s"', 'burst={rate="2MB/s",base="1MB/s",size="2m"}'), "link.rate and link.burst"),
        (small("[link]", "[clients]", 'rates=["1Gbit/s","1Mbit/s"]'), "clients.rates: 2 rates for 1 clients; give one"),
        (small("[link]", "[clients]", 'rates=["1Gbit/s"]', 'rate="1Gbit/s"'), "clients.rate and .rates: clients have"),
        (small("[clients]", 'rates=["1Gbit/s"]'), "a rate of theirs, need a \\[link\\]"),
        (small("[link]", "[clients]", "rates=[]"), "rates = \\[\\]: write a list of links' rates"),
        (small("[link]", "[clients]", 'rates=["fast"]'), "write a rate in bytes per second"),
        (small("[clients]", "count = 2"), "clients: several clients, or a rate of theirs, need a \\[link\\]"),
        (small("[clients]", 'access = "nfs3"'), "clients.access = 'nfs3': samba speaks cifs"),
        (small("[clients]", 'ram = "1g"'), "clients.ram: for the guest of a kernel mount only"),
        (small(kind="ganesha") + '\n[clients]\naccess="cifs3.0"', "ganesha speaks nfs"),
        (small("[filesystem]", 'type = "ntfs"', kind="ganesha"), "NFS servers need file handles"),
    ],
)
def test_what_is_refused_is_named(words: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        definition.parse(words, "f.toml", "x")
    assert str(refused.value).startswith("lab: f.toml: ")


@pytest.mark.parametrize(
    ("server", "message"),
    [
        ('kind = "ganesha"\ndialect = "3.0"', "server.dialect: for kind samba only"),
        ('kind = "samba"\nversion = "3"', "server.version: for kinds ganesha and knfsd only"),
        ('kind = "ganesha"\nversion = "5"', "version = '5': use some of 3, 4.0"),
        ('kind = "samba"\ndialect = "2.1"\nencryption = "required"', "dialect 2.1 has none"),
        ('kind = "ganesha"\nsync = "never"', "for kinds samba and knfsd only"),
        ('kind = "knfsd"\nsync = "always"', "for kind samba only"),
        ('kind = "samba"\nwrite_cache = "4m"', "there are no disks"),
        ('kind = "samba"\ncpu = "0%"', "write a share above 0%"),
    ],
)
def test_what_a_server_does_not_take(server: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        definition.parse(f'what = "x"\n[server]\n{server}', "f.toml", "x")


def test_a_kernel_mount_needs_a_server_that_speaks_its_version() -> None:
    words = 'what = "x"\n[server]\nkind = "ganesha"\nversion = "4.0"\n[clients]\naccess = "nfs4.1"'
    with pytest.raises(UsageError, match="lacks 4"):
        definition.parse(words, "f.toml", "x")
    words = 'what = "x"\n[server]\nkind = "samba"\ndialect = "2.1"\n[clients]\naccess = "cifs3.0"'
    with pytest.raises(UsageError, match="is older; raise it"):
        definition.parse(words, "f.toml", "x")


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(WHOLE)
    assert definition.load(path).name == "mine"
    with pytest.raises(UsageError, match="No such file"):
        definition.load(tmp_path / "nothing.toml")
    path.write_bytes(b"\xff")
    with pytest.raises(UsageError, match="give a TOML file"):
        definition.load(path)


@pytest.mark.parametrize("name", definition.built_in())
def test_what_comes_with_naslab_is_sound(name: str) -> None:
    found = definition.parse(definition.built_in()[name], name, name)
    assert found.what and found.disks
