"""What is built natively, as data: plans, shell lines, links, groups, second copies; and what is refused."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from naslab.cli import main
from naslab.errors import UsageError
from naslab.lab import backends, definition, drawing, limits
from naslab.lab.definition import Clients, Definition, Link
from naslab.lab.devices import blocks, format, plan
from naslab.lab.native import backend, groups, mover, net

MB = 1_000_000
UUID = "6e61736c-6162-4000-8000-0000000000fe"


def made(
    *parts: str, level: str = "single", kind: str = "ext4", server: str = 'kind = "samba"', rest: str = ""
) -> Definition:
    """A definition with one kind of disks."""
    words = f"""
        what = "x"
        [volume]
        level = "{level}"
        [filesystem]
        type = "{kind}"
        [server]
        {server}
        {rest}
        [[disks]]
        """
    return definition.parse("\n".join((words, *parts)), "f.toml", "x")


def build(found: Definition, version: int = 1) -> plan.BuildPlan:
    count = len(found.disks) + plan.needs_engine(found)
    return plan.build_plan(found, Path("/p"), [*range(1000, 1000 + count)], version, UUID)


def test_who_keeps_which_limit() -> None:
    (one,) = build(made('read = "67MB/s"', 'write = "50MB/s"', "iops = 500")).disks
    assert one.kernel == {"rbps": 67 * MB, "wbps": 50 * MB, "riops": 500, "wiops": 500} and not one.is_served
    (one,) = build(made('rate = "67MB/s"', "iops = 500")).disks
    assert one.served == {"x-bps-total": 67 * MB} and one.kernel == {"riops": 500, "wiops": 500}
    (one,) = build(made('latency = "8ms"', 'errors = "1%"')).disks
    assert (one.served, one.kernel, one.latency_ns, one.error_rate, one.is_served) == ({}, {}, 8 * MB, 0.01, True)
    (one,) = build(made('burst = { rate = "200MB/s", base = "20MB/s", size = "1GB" }')).disks
    assert one.bucket == (200 * MB, 20 * MB, 1000 * MB) and not one.is_served


def test_threads_of_a_raid_escape_limits_of_version_2() -> None:
    found = made("count = 3", 'read = "67MB/s"', "iops = 500", level="raid5")
    assert not plan.is_escaped(found, 1) and plan.is_escaped(found, 2)
    one = build(found, 2).disks[0]
    assert one.kernel == {} and one.served == {"x-bps-read": 67 * MB, "x-iops-read": 500, "x-iops-write": 500}
    assert not plan.is_escaped(made('read = "67MB/s"'), 2)


def test_a_plan_survives_its_way_to_the_keeper() -> None:
    found = build(made("count = 3", 'burst = { rate = "2MB/s", base = "1MB/s", size = "9MB" }', level="raid5"))
    assert plan.load(found.dump()) == found
    assert (found.minors, found.devices, found.engine_minor) == ([1000, 1001, 1002, 1003], [1003], 1003)


@pytest.mark.parametrize(
    ("server", "expected"),
    [("", 64 << 20), ('ram = "500MiB"', 100 << 20), ('ram = "500MiB"\nwrite_cache = "7MiB"', 7 << 20)],
)
def test_what_may_wait_to_be_written(server: str, expected: int) -> None:
    assert build(made(server=f'kind = "samba"\n{server}')).cache_bytes == expected


def lines(found: Definition) -> list[str]:
    built = build(found)
    mounts = plan.mount_lines(built, Path("/p"), Path("/p/data"))
    pooled = found.volume.level in ("pool", "duplicated")
    return [*mounts, *(plan.pool_lines(built, found, Path("/p"), Path("/p/data")) if pooled else [])]


def test_lines_that_mount() -> None:
    assert lines(made())[0] == "mount -t ext4 -o noatime,nodiscard /dev/loop1000 /p/data"
    assert lines(made("count = 2", level="raid1"))[0].split()[-2:] == ["/dev/loop1002", "/p/data"]
    assert lines(made(kind="ntfs"))[0] == "ntfs-3g -o big_writes,noatime /dev/loop1000 /p/data"
    many = lines(made("count = 2", kind="btrfs", level="raid0"))
    assert many[0].endswith("device=/dev/loop1000,device=/dev/loop1001 /dev/loop1000 /p/data")
    assert f"/sys/fs/btrfs/{UUID}/bdi/max_bytes" in many[1]
    each = lines(made("count = 3", level="jbod", kind="ext2"))
    assert [line.split()[-1] for line in each[:3]] == ["/p/data", "/p/disk2", "/p/disk3"]


def test_lines_of_pools() -> None:
    single = lines(made("count = 2", level="pool"))
    assert single[-2] == "mkdir -p /p/disk1/files /p/disk2/files"
    assert "/p/disk1/files:/p/disk2/files /p/data" in single[-1] and "newest" not in single[-1]
    later = made("count = 2", level='duplicated"\nmode = "background"\ndelay = "3s')
    assert "category.search=newest" in lines(later)[-2]
    assert "naslab.lab.native.mover 3000000000 /p/disk1 /p/disk2 >> /p/mover.log" in lines(later)[-1]
    at_once = made("count = 2", level='duplicated"\nmode = "synchronous')
    assert any(line.startswith("glusterfs -f /p/pool.vol") for line in lines(at_once))
    text = plan.replica_text([Path("/p/disk1"), Path("/p/disk2")])
    assert "option directory /p/disk2/files" in text and "subvolumes threads1 threads2" in text


def test_commands_that_format() -> None:
    assert format.mkfs_words("xfs", ["/d"], "single", UUID) == ["mkfs.xfs", "-q", "-f", "-K", "/d"]
    words = format.mkfs_words("btrfs", ["/a", "/b", "/c"], "raid5", UUID)
    assert " ".join(words) == f"mkfs.btrfs -q -f -K -d raid5 -m raid1 -U {UUID} /a /b /c"
    assert format.mkfs_words("btrfs", ["/a", "/b"], "span", UUID)[5] == "single"
    assert format.nth("00000000-0000-0000-0000-0000000000ff", 2).endswith("01"), "each btrfs has its own identity"


def test_servers_of_blocks() -> None:
    disk = plan.DiskPlan(1000, 1 << 20, {}, {"x-bps-total": 5}, None, 8 * MB, 0.01)
    first, second, third = blocks.stages(disk, Path("/p"))
    assert first == [
        "nbdkit", "-f", "-U", "/p/filter1000", "-t", "16", "--filter=delay", "--filter=error", "file",
        "/p/memory1000/disk", "rdelay=8ms", "wdelay=8ms", "error-rate=1%", "error-file=/p/armed",
    ]  # fmt: skip
    assert "throttle-group,id=limits,x-bps-total=5" in second and "/p/limit1000" in second
    assert "file.server.path=/p/filter1000" in second[second.index("--image-opts") + 1]
    assert third == ["nbdfuse", "-C", "4", "/p/blocks1000", "nbd+unix:///?socket=/p/limit1000"]
    plain = dataclasses.replace(disk, latency_ns=0, error_rate=0.0)
    assert [words[0] for words in blocks.stages(plain, Path("/p"))] == ["qemu-nbd", "nbdfuse"]


# links


def commands(link: Link, clients: Clients) -> list[str]:
    network = net.Network("S", tuple(f"C{at}" for at in range(1, clients.count + 1)))
    found = net.commands(network, "W" if clients.count > 1 else "", link, clients)
    return [f"{where}: {' '.join(words)}" for where, words in found]


def test_a_link_of_one_client_is_a_pair() -> None:
    found = commands(Link(rate_bits_per_s=10**9), Clients())
    shaper = "tc qdisc add dev eth0 root tbf rate 1000000000bit burst 32000 limit 657000"
    assert found[0] == "C1: ip link add eth0 type veth peer name eth0 netns S"
    assert found[-2:] == [f"S: {shaper}", f"C1: {shaper}"]
    assert sum("set eth0 gso_max_size 16000 up" in line for line in found) == 2
    assert not any("gso_max_segs" in line for line in found)


def test_packets_have_their_size_only_where_it_is_given() -> None:
    found = commands(Link(mtu=9000), Clients())
    assert sum("mtu 9000 gso_max_segs 1" in line for line in found) == 2 and not any("tbf" in line for line in found)
    found = commands(Link(rate_bits_per_s=200_000_000, mtu=9000), Clients())
    assert sum(f"burst {3 * 9014} " in line for line in found) == 2, "what is earned while one waits is not lost"


def test_several_clients_share_the_servers_port() -> None:
    found = commands(Link(rate_bits_per_s=10**9), Clients(count=3, rate_bits_per_s=10**8))
    shaped = {line.split(":")[0] + " " + line.split()[5]: line.split()[9] for line in found if "tbf" in line}
    slow, fast = "100000000bit", "1000000000bit"
    assert shaped == {
        "S eth0": fast, "W port0": fast, "C1 eth0": slow, "C2 eth0": slow, "C3 eth0": slow,
        "W port1": slow, "W port2": slow, "W port3": slow,
    }  # fmt: skip
    assert "C3: ip addr add 10.77.0.4/24 dev eth0" in found


def test_clients_with_rates_of_their_own() -> None:
    found = commands(Link(rate_bits_per_s=10**9), Clients(count=2, rates_bits_per_s=(10**9, 10**8)))
    shaped = {line.split(":")[0] + " " + line.split()[5]: line.split()[9] for line in found if "tbf" in line}
    slow, fast = "100000000bit", "1000000000bit"
    assert shaped == {
        "S eth0": fast, "W port0": fast, "C1 eth0": fast, "C2 eth0": slow, "W port1": fast, "W port2": slow,
    }  # fmt: skip
    trains = [line.split("gso_max_size ")[1].split()[0] for line in found if "gso_max_size" in line]
    assert trains == ["16000", "16000", "4608"], "each end sends trains of its own rate"


MIXED = """what = "mixed"
[server]
kind = "samba"
[link]
rate = "1Gbit/s"
[clients]
count = 2
rates = ["1Gbit/s", "100Mbit/s"]
"""


def test_each_clients_rate_is_a_limit_and_is_drawn() -> None:
    found = definition.parse(MIXED, "mixed.toml", "mixed")
    named = {each.name: each.value for each in limits.planted(found)}
    assert named == {"link.rate": 1e9, "clients.rates[1]": 1e9, "clients.rates[2]": 1e8}
    assert "1 of them 1 Gbit/s" in drawing.draw(found) and "1 of them 100 Mbit/s" in drawing.draw(found)
    assert definition.parse(MIXED, "f", "m", {"clients.rates": "1Gbit/s,2Mbit/s"}).clients.own_bits_per_s[1] == 2 * MB


def test_a_link_with_credit() -> None:
    burst = definition.Burst(100 * MB, 500 * MB, 20 * MB)
    shaper = next(line for line in commands(Link(burst=burst, queue_ns=10 * MB), Clients()) if "tbf" in line)
    assert "rate 20000000bps burst 500000000 peakrate 100000000bps mtu 131072 limit 1131072" in shaper


LATE = 'what = "late"\n[server]\nkind = "samba"\n[link]\nlatency = "1ms"\n'


def test_packets_wait_once_each_way_and_before_the_shaper() -> None:
    found = commands(Link(rate_bits_per_s=10**9, latency_ns=2_500_000), Clients(count=2))
    delays = [line for line in found if "netem" in line]
    assert delays == [
        f"{end}: tc qdisc add dev eth0 root handle 1: netem delay 2.500ms limit 100000" for end in ("S", "C1", "C2")
    ]
    below = [line for line in found if "tbf" in line and "eth0" in line]
    assert len(below) == 3 and all("parent 1:1 handle 10: tbf rate 1000000000bit" in line for line in below)
    assert all("root tbf" in line for line in found if "tbf" in line and "port" in line)


def test_a_kernel_that_delays_no_packets_leaves_it_to_a_guest(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise UsageError("lab: link.latency: this kernel has no netem")

    monkeypatch.setattr("os.geteuid", lambda: 0)
    for check, problems in ((refuse, ["link.latency: this kernel has no netem"]), (lambda: None, [])):
        monkeypatch.setattr("naslab.lab.native.net.check_delay", check)
        said = backends.ask("native", definition.parse(LATE, "late.toml", "late"))
        assert [each for each in said.problems if "latency" in each] == problems and not said.refusals


# control groups


def mounts(folder: Path, *words: str) -> Path:
    path = folder / "mounts"
    path.write_text("".join(f"none {line} 0 0\n" for line in words))
    return path


def test_groups_of_version_1(tmp_path: Path) -> None:
    where = mounts(tmp_path, "/m cgroup rw,memory", "/c cgroup rw,cpu,cpuacct", "/b cgroup rw,blkio")
    memory, cpu = groups.find("x", 1 << 20, 0.25, True, where)
    assert (memory.folder, memory.settings) == (Path("/m/x"), (("memory.limit_in_bytes", "1048576"),))
    assert cpu.settings == (("cpu.cfs_period_us", "20000"), ("cpu.cfs_quota_us", "5000"))
    assert groups.join_lines([cpu]) == ["echo 0 > /c/x/cgroup.procs"]
    assert groups.find("x", None, None, True, where) == []
    assert [groups.quota(share) for share in (2.0, 0.05, 0.01)] == [(40000, 20000), (1000, 20000), (1000, 100000)]


def test_groups_of_version_2_are_one(tmp_path: Path) -> None:
    where = mounts(tmp_path, f"{tmp_path} cgroup2 rw")
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory\n")
    (one,) = groups.find("x", 1 << 20, 1.5, False, where)
    assert one.settings == (("memory.max", "1048576"), ("cpu.max", "30000 20000"))
    groups.make([one])
    assert (tmp_path / "x" / "memory.max").read_text() == "1048576"
    assert (tmp_path / "x" / "memory.swap.max").read_text() == "0"
    with pytest.raises(UsageError, match="no control group here has the io controller"):
        groups.find("x", 1 << 20, None, True, where)
    with pytest.raises(UsageError, match="File exists"):
        groups.make([one])
    with pytest.raises(UsageError, match="has the cpu controller"):
        groups.find("x", None, 1.0, False, mounts(tmp_path))


# second copies


@pytest.fixture
def disks(tmp_path: Path) -> list[Path]:
    """Two disks of a pool, empty."""
    found = [tmp_path / name for name in ("a", "b")]
    for each in found:
        (each / "files").mkdir(parents=True)
    return found


def put(disk: Path, name: str, text: str, age_s: float) -> Path:
    path = disk / "files" / name
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(text)
    at = time.time_ns() - int(age_s * 1e9)
    os.utime(path, ns=(at, at))
    return path


def test_files_at_rest_are_copied(disks: list[Path]) -> None:
    put(disks[0], "d/old", "x" * 5000, 10).chmod(0o640)
    put(disks[0], "young", "y", 0)
    assert mover.copy_all(disks, 10**9, time.time_ns()) == 1
    other = disks[1] / "files" / "d" / "old"
    first = disks[0] / "files" / "d" / "old"
    assert other.read_text() == "x" * 5000 and other.stat().st_mtime_ns == first.stat().st_mtime_ns
    assert other.stat().st_mode & 0o777 == 0o640 and not (disks[1] / "files" / "young").exists()
    assert mover.copy_all(disks, 10**9, time.time_ns()) == 0, "nothing is due twice"
    assert not any((disks[1] / "drafts").iterdir())


def test_the_newest_copy_wins(disks: list[Path]) -> None:
    put(disks[0], "f", "old", 20)
    put(disks[1], "f", "newer", 10)
    assert mover.copy_all(disks, 10**9, time.time_ns()) == 1
    assert (disks[0] / "files" / "f").read_text() == "newer"


def test_a_file_that_changes_while_it_is_copied_is_left_for_later(disks: list[Path]) -> None:
    path = put(disks[0], "f", "first", 10)
    ((name, seen, target),) = mover.due(mover.survey(disks), disks, 0, time.time_ns())
    path.write_text("second!")
    assert not mover.copy(name, seen, target) and not (disks[1] / "files" / "f").exists()
    path.unlink()
    with pytest.raises(FileNotFoundError):
        mover.copy(name, seen, target)
    assert not any((disks[1] / "drafts").iterdir())


# backends and limits


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"kind": "fat"}, "filesystem.type = 'fat': only a guest has it"),
        ({"level": "span", "count": 2}, "volume.level = 'span'"),
        ({"server": 'kind = "knfsd"'}, "the kernel's server belongs to the whole machine"),
        ({"server": 'kind = "demo"', "rest": '[link]\nrate = "1Gbit/s"'}, "it serves the loopback interface only"),
        ({"rest": '[clients]\naccess = "cifs3.0"'}, "kernel mounts are possible in guests only"),
        ({"parts": 'seek = "1ms"'}, "no packaged program delays only seeks"),
        ({"parts": 'latency = "1500us"'}, "disks are delayed by whole milliseconds"),
        ({"parts": 'size = "64MiB"\ncount = 2', "level": "raid0"}, "a RAID here takes disks of 128MiB or more"),
    ],
)
def test_what_a_guest_must_build(words: dict[str, str | int], message: str) -> None:
    parts = [str(words.pop("parts", "")), *([f"count = {words.pop('count')}"] if "count" in words else [])]
    found = backends.ask("native", made(*parts, **words))  # type: ignore[arg-type]
    assert any(message in each for each in found.refusals) and not found.builds and message in found.why_not


def test_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = made("count = 3", 'rate = "67MB/s"', 'latency = "1ms"', level="raid5", kind="xfs")
    assert {"mkfs.xfs", "mkfs.btrfs", "nbdkit", "qemu-nbd", "nbdfuse", "smbd"} <= set(backend.programs(found))
    monkeypatch.setattr(backends, "which", lambda program: None if program in ("nbdkit", "mkfs.xfs") else "/bin/x")
    monkeypatch.setattr(backend, "problems", lambda found: [])
    assert backends.ask("native", found).why_not == "missing packages; Debian/Ubuntu: apt install nbdkit xfsprogs"
    with pytest.raises(UsageError, match="x cannot be built here: native: missing packages"):
        backends.choose(found)


def test_who_is_not_root_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert backend.problems(made())[0].endswith("need root: run as root")
    assert backend.problems(definition.parse('what = "x"\n[server]\nkind = "samba"', "f", "x")) == []


def test_disks_must_fit_in_memory() -> None:
    found = made('size = "1t"')
    with pytest.raises(UsageError, match="TB of disks are in memory"):
        backend._check_memory(found)


def test_limits_are_data() -> None:
    server, rest = 'kind = "samba"\nram = "64MiB"\ncpu = "20%"', '[link]\nrate = "1Gbit/s"\nmtu = 1500'
    parts = ("count = 4", 'read = "67MB/s"', 'write = "50MB/s"', "iops = 99")
    found = limits.planted(made(*parts, level="raid5", server=server, rest=rest))
    assert [(each.name, each.value, each.unit, each.derived) for each in found] == [
        ("disks.read", 67 * MB, "bytes_per_s", False), ("disks.write", 50 * MB, "bytes_per_s", False),
        ("disks.iops", 99, "per_s", False), ("volume.read", 268 * MB, "bytes_per_s", True),
        ("volume.write", 150 * MB, "bytes_per_s", True), ("server.ram", 64 << 20, "bytes", False),
        ("server.cpu", 0.2, "share", False), ("link.rate", 10**9, "bits_per_s", False),
        ("link.mtu", 1500, "bytes", False),
    ]  # fmt: skip


@pytest.mark.parametrize("name", definition.built_in())
def test_drawings_fit_a_terminal(name: str) -> None:
    drawn = drawing.draw(definition.parse(definition.built_in()[name], name, name))
    rows = drawn.splitlines()
    assert all(len(row) <= drawing.WIDTH for row in rows) and rows[0].lstrip().startswith("┌")
    joints = [(at, below) for above, below in pairwise(rows) for at, mark in enumerate(above) if mark == "┬"]
    assert joints and all(below[at] in "│┴┼" for at, below in joints), "every line goes on"


def test_a_drawing(golden: Callable[[str, str], None]) -> None:
    server = 'kind = "ganesha"\nversion = "4.1"\nram = "256MiB"'
    rest = '[link]\nrate = "100Mbit/s"\nlatency = "5ms"\n[clients]\ncount = 2\naccess = "nfs4.1"'
    parts = ("count = 5", 'rate = "67MB/s"', "iops = 120", 'latency = "8ms"', 'errors = "1%"')
    golden("lab/drawing.txt", drawing.draw(made(*parts, level="raid5", server=server, rest=rest)) + "\n")


# the command line


def test_doctor_names_what_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    everything = backends.which
    monkeypatch.setattr(backends, "which", lambda program: None if program == "mergerfs" else everything(program))
    monkeypatch.setattr(backend, "problems", lambda found: [])
    monkeypatch.setattr(backends, "module", lambda name: backend if name == "native" else None)
    assert main(["lab", "doctor", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    found = {each["name"]: each for each in said["systems"]}
    assert "mergerfs" in said["missing_packages"] and found["pool"]["backend"] is None
    assert "apt install" in found["pool"]["why_not"]["native"] and "mergerfs" in found["pool"]["why_not"]["native"]
    assert "no such backend" in found["span-fat"]["why_not"]["uml"]
    assert main(["lab", "doctor"]) == 0
    assert "pool             cannot be built here\n" in capsys.readouterr().out


def test_show_draws_what_is_not_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert main(["lab", "show", "raid5", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["up"] is False and said["definition"]["volume"]["level"] == "raid5" and len(said["limits"]) == 6
    assert main(["lab", "show", "raid5"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("raid5: Four disks") and out.count("│ 67 MB/s │") == 4
    assert main(["lab", "show", str(tmp_path / "none.toml")]) == 2
    assert "No such file" in capsys.readouterr().err
    assert main(["lab", "status"]) == 0 and "nothing is up" in capsys.readouterr().out
