"""Guests of the lab without a guest: framing, descriptions, command lines, plans."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from naslab.errors import TargetError, UsageError
from naslab.lab import definition
from naslab.lab.definition import Definition
from naslab.lab.guest import Disk, Spec, agent, backend, boot, client, mounts, registers, servers, spec, volume
from naslab.lab.guest.attendant import Wire
from naslab.lab.guest.house import House, load, remote
from naslab.lab.guest.volume import Volume

# framing


def test_lines_are_found_however_they_come() -> None:
    said: list[dict[str, Any]] = [{"id": 1, "out": agent.to_text(bytes(range(256)) * 9)}, {"id": 2, "end": True}, {}]
    data = b"".join(agent.encode(each) for each in said)
    seed = random.randrange(1 << 32)
    dice = random.Random(seed)
    for _ in range(50):
        lines, found, at = agent.Lines(), [], 0
        while at < len(data):
            step = dice.choice((1, 2, 7, 100, 5000))
            found += lines.feed(data[at : at + step])
            at += step
        assert found == said, f"seed {seed}"


def test_what_is_no_object_is_passed_over() -> None:
    noise = b"EXT4-fs (md0): mounted\r\n[1, 2]\n\xff\xfe\n\n{half\n3\nnull\n"
    lines = agent.Lines()
    assert list(lines.feed(noise + b'{"id": 5}\n' + noise + b'{"id": 6}')) == [{"id": 5}]
    assert list(lines.feed(b"\n")) == [{"id": 6}]


def test_a_line_without_end_takes_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "_MOST_LINE_BYTES", 1000)
    lines = agent.Lines()
    for _ in range(100):
        assert not list(lines.feed(b"x" * 100))
    assert sum(map(len, lines._parts)) <= 1100
    assert list(lines.feed(b'\n{"id": 1}\n')) == [{"id": 1}]


def test_bytes_travel_whole() -> None:
    data = os.urandom(1000)
    assert agent.to_bytes(agent.to_text(data)) == data
    with pytest.raises(ValueError, match="base64"):
        agent.to_bytes("not base64!")


def test_a_wire_keeps_what_does_not_go_yet() -> None:
    read, write = os.pipe()
    try:
        os.set_blocking(write, False)
        wire = Wire(-1, write)
        wire.send(id=1, data="x" * 300_000)
        wire.flush()
        assert wire.waiting
        lines = agent.Lines()
        found: list[dict[str, Any]] = []
        while not found:
            found += lines.feed(os.read(read, 1 << 20))
            wire.flush()
        assert found == [{"id": 1, "data": "x" * 300_000}] and not wire.waiting
    finally:
        os.close(read)
        os.close(write)


# what a guest is


def test_a_spec_survives_json() -> None:
    found = Spec(256 << 20, (Disk(size_bytes=1 << 30, read_bytes_per_s=67_000_000), Disk(path="/dev/loop1")), ("/a",))
    assert spec.from_json(json.loads(json.dumps(found.to_json()))) == found


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (Disk, "either size_bytes"),
        (lambda: Disk(size_bytes=1 << 20, path="/x"), "either size_bytes"),
        (lambda: Disk(size_bytes=1000), "size_bytes=1000 of a disk; give a multiple of 4096"),
        (lambda: Disk(path="/a b"), "disk '/a b'"),
        (lambda: Spec(ram_bytes=1 << 20), "ram_bytes=1048576"),
        (lambda: Spec(disks=(Disk(size_bytes=4096),) * 9), "9 disks; it takes 8"),
        (lambda: Spec(shared=("here",)), "folder 'here'; give an absolute path"),
        (lambda: Spec(shared=("/a,b",)), "folder '/a,b'"),
        (lambda: Spec(tap="eth0; rm"), "tap='eth0; rm'"),
        (lambda: Spec(address="here"), "address='here'; give one like 10.78.0.2"),
        (lambda: Volume("raid6", "ext4", (0, 1)), "level='raid6' of a volume; use one of single,"),
        (lambda: Volume("raid0", "zfs", (0, 1)), "filesystem='zfs'; use one of ext2,"),
        (lambda: Volume("raid5", "ext4", (0, 1)), "raid5 of 2 disks; it takes 3 disks or more"),
        (lambda: Volume("single", "ext4", (0, 1)), "single of 2 disks; it takes one disk"),
        (lambda: Volume("raid0", "ext4", (0, 1), chunk_bytes=5000), "chunk_bytes=5000"),
        (lambda: servers.KernelNfsOptions(versions=("2",)), "use some of 3, 4.0, 4.1, 4.2"),
        (lambda: servers.KernelNfsOptions(write="never"), "write='never'; use sync or async"),
        (lambda: servers.KernelNfsOptions(lease_s=5), "lease_s=5"),
        (lambda: mounts.mount_words("nfs5", mounts.Remote("h", 1, "p")), "access='nfs5'; use one of nfs3,"),
    ],
)
def test_what_cannot_be_is_refused(make: Any, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        make()
    assert words in str(caught.value)


def test_limits_name_files_of_the_control_group() -> None:
    disk = Disk(size_bytes=1 << 20, read_bytes_per_s=67_000_000, write_iops=500)
    assert disk.limits() == {"read_bps_device": 67_000_000, "write_iops_device": 500}
    assert (spec.device(2), spec.device_number(2)) == ("/dev/ubdc", "98:32")


def test_the_kernels_command_line(tmp_path: Path) -> None:
    found = Spec(200 << 20, (Disk(size_bytes=1 << 20), Disk(path="/dev/loop7")), tap="tap3")
    words = boot.kernel_command(found, Path("/x"), Path("/x/init"), [11, -1], (3, 4))
    assert words[0] == "linux.uml" and "mem=204800K" in words and "ro" in words
    assert {"ubd0d=/proc/self/fd/11", "ubd1d=/dev/loop7", "ssl0=fd:3,fd:4"} < set(words)
    assert any(word.startswith("vec0:transport=tap,ifname=tap3,") for word in words)
    assert not any(word.startswith(("eth", "mem=/")) for word in words)


def test_folders_that_an_empty_one_would_hide_are_given_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "prefix", "/tmp/venv")
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    config = boot.agent_config(Spec(shared=(str(tmp_path),), disks=(Disk(size_bytes=4096),)), Path("/tmp/private"))
    assert config["folders"]["/tmp/venv"] is False and "/usr" not in config["folders"]
    assert config["folders"]["/tmp/private"] is True and config["folders"][str(tmp_path.resolve())] is True
    assert config["limits"] == {}


def test_no_guest_without_its_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(boot, "search_path", lambda: "/nowhere")
    with pytest.raises(UsageError, match=r"a guest needs .*user-mode-linux.*apt install"):
        boot.check(Spec(), Path("/x"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UsageError, match="run as root"):
        boot.check(Spec(), Path("/x"))


def test_nobody_answers_for_a_guest_that_ended(tmp_path: Path) -> None:
    ended = client.from_facts(
        {"folder": str(tmp_path), "address": "10.78.0.2", "net": "/x", "attendant": [1 << 22, 5], "kernel": "6.1"}
    )
    assert not ended.is_up
    with pytest.raises(TargetError, match="its supervisor does not answer"):
        ended.run(["true"])


# plans


@pytest.mark.parametrize("level", volume.LEVELS)
@pytest.mark.parametrize("filesystem", volume.MKFS)
def test_volumes(level: str, filesystem: str) -> None:
    disks = tuple(range(3 if level != "single" else 1))
    found = Volume(level, filesystem, disks)
    made, opened = "\n".join(found.make_lines()), "\n".join(found.open_lines())
    kind = "vfat" if filesystem == "fat" else filesystem
    assert made.count("mkfs.") == made.count("\nmount -t ") + made.startswith("mount -t ")
    assert "mkfs" not in opened and "--create" not in opened
    assert f"mount -t {kind} -o noatime" in made and f"mount -t {kind} -o noatime" in opened
    if level in ("single", "jbod"):
        assert "mdadm" not in made + opened and "mdadm" not in found.programs()
        assert [source for source, _ in found.places()] == found.devices()
    else:
        word = {"span": "linear", "raid0": "0", "raid1": "1", "raid5": "5"}[level]
        assert f"--level={word} --raid-devices=3" in made and "mdadm --assemble" in opened
        assert found.places() == [("/dev/md0", "/lab/data")]
        assert ("--assume-clean" in made) is (level in ("raid1", "raid5"))


def test_versions_of_the_kernels_server() -> None:
    lines = "\n".join(servers.KernelNfsOptions(versions=("4.1",), write="async").lines())
    assert "rpc.nfsd -N 3 -N 4.0 -N 4.2 8" in lines and "rw,async," in lines
    assert "rpc.nfsd -N 4 8" in "\n".join(servers.KernelNfsOptions(versions=("3",)).lines())
    assert "rpc.nfsd 8" in "\n".join(servers.KernelNfsOptions().lines())


def test_kernel_mounts() -> None:
    nfs = mounts.Remote("10.78.0.1", 2049, "/data", mount_port=20048)
    assert mounts.mount_words("nfs3", nfs)[4:] == [
        "vers=3,port=2049,proto=tcp,nolock,mountproto=tcp,mountport=20048", "10.78.0.1:/data", "/lab/mount"
    ]  # fmt: skip
    assert mounts.mount_words("nfs4.2", nfs, ["rsize=65536"])[4] == "vers=4.2,port=2049,proto=tcp,rsize=65536"
    smb = mounts.Remote("10.78.0.1", 445, "data", "me", "secret")
    words = mounts.mount_words("cifs3.1.1", smb)
    assert words[3:] == ["-o", "vers=3.1.1,port=445,credentials=/run/credentials", "//10.78.0.1/data", "/lab/mount"]
    assert "secret" not in " ".join(words)


# systems of guests

SYSTEM = """
what = "a system"
[[disks]]
count = 3
size = "256MiB"
read = "67MB/s"
[volume]
level = "raid5"
[filesystem]
type = "xfs"
[server]
kind = "{kind}"
ram = "256MiB"
{more}
[link]
rate = "1Gbit/s"
[clients]
access = "{access}"
count = {count}
"""


def system(
    kind: str = "knfsd", more: str = "", access: str = "direct", count: int = 1, text: str = SYSTEM
) -> Definition:
    filled = text.format(kind=kind, more=more, access=access, count=count).replace("256MiB", "320MiB", 1)
    return definition.parse(filled, "x.toml", "x")


def with_disk(words: str) -> Definition:
    return system("samba", text=SYSTEM.replace('read = "67MB/s"', words))


def test_guests_that_mount_have_rates_of_their_own() -> None:
    text = SYSTEM + 'rates = ["1Gbit/s", "100Mbit/s"]\n'
    made = system("knfsd", access="nfs4.1", count=2, text=text)
    outside = [(words[4], words[8]) for _, words in backend._shapers(made, "/net")]
    assert outside == [("tap1", "1000000000bit"), ("tap2", "100000000bit")]
    inside = [(name, line.split()[8]) for name, line in backend._inside(made) if "tbf" in line]
    assert inside == [("client1", "1000000000bit"), ("client2", "100000000bit")]


def test_disks_that_fail() -> None:
    made = with_disk('errors = "1%"')
    assert not backend.refusals(made)
    found = backend._volume(made)
    assert found is not None and found.faults == (100, 100, 100)
    lines = found.make_lines()
    built = [at for at, line in enumerate(lines) if "--level=faulty --layout=none --raid-devices=1 /dev/ubd" in line]
    armed = [line for line in lines if "--grow /dev/md101 --level=faulty" in line]
    (raid,) = [at for at, line in enumerate(lines) if "--create /dev/md0" in line]
    assert built == [1, 2, 3] and raid > 3 and "/dev/md100 /dev/md101 /dev/md102" in lines[raid]
    assert [line.split("--layout=")[1].split()[0] for line in armed] == ["read-transient100", "write-transient100"]
    assert lines.index(armed[0]) > raid, "made and mounted without errors"
    assert found.open_lines()[1:4] == lines[1:4] and found.open_lines()[-6:] == lines[-6:]
    assert Volume("single", "ext4", (0,)).make_lines()[0].startswith("mkfs.ext4")


def test_a_house_survives_json() -> None:
    served = servers.plan_knfsd("10.78.0.2")
    house = House(
        "/x", Spec(disks=(Disk(size_bytes=4096),)), served, Volume("single", "ext4", (0,), faults=(9,)), 5, 0.2,
        (Spec(tap="tap1"),), "nfs3", (("/net", ("tc", "qdisc")),), (("server", "true"),),
    )  # fmt: skip
    assert load(house.dump()) == house
    assert house.names == ["server", "client1"] and house.home("client1") == Path("/x/client1")
    assert load(House("/x", Spec(), servers.plan_ganesha("10.78.0.2")).dump()).volume is None


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (system("demo"), "server.kind = 'demo'"),
        (system("knfsd", 'cpu = "20%"'), "server.cpu: the kernel's threads"),
        (system("samba", 'cpu = "200%"'), "a guest has one processor"),
        (system("samba", count=3), "clients.count: several direct clients"),
        (system("samba", text=SYSTEM.replace("read =", "rate =")), "disks.rate: a guest limits reads and writes"),
        (with_disk('latency = "8ms"'), "disks.latency: a guest's clock ticks every 10 ms, too coarse"),
        (
            with_disk('burst = {{ rate = "60MB/s", size = "100MB", base = "20MB/s" }}'),
            "disks.burst: a guest's kernel does not apply",
        ),
        (with_disk('seek = "8ms"'), "disks.seek: no packaged program delays only seeks"),
        (
            with_disk('errors = "30%"'),
            "disks.errors = 30.00%: a guest can only fail one request in a whole number of requests",
        ),
        (system("samba", text=SYSTEM.replace("count = 3", "count = 9")), "disks: a guest has 8 at most"),
        (system("samba", text=SYSTEM.replace('"xfs"', '"ntfs"')), "filesystem.type = 'ntfs'"),
        (system("samba", text=SYSTEM.replace('"raid5"', '"pool"')), "volume.level = 'pool'"),
    ],
)
def test_what_guests_do_not_build(made: Definition, words: str) -> None:
    assert any(words in each for each in backend.refusals(made)), backend.refusals(made)


@pytest.mark.parametrize("kind", ["samba", "ganesha", "knfsd"])
def test_what_guests_build(kind: str) -> None:
    made = system(kind, access="cifs3.1.1" if kind == "samba" else "nfs4.2", count=2)
    assert backend.refusals(made) == []
    needed = backend.programs(made)
    assert {"linux.uml", "mdadm", "mkfs.xfs", "mount.cifs" if kind == "samba" else "mount.nfs"} < set(needed)
    assert needed["mkfs.xfs"] == "xfsprogs"


def test_latency_is_added_each_way_and_packets_are_as_large_as_told() -> None:
    text = SYSTEM.replace("[link]\n", '[link]\nmtu = 4000\nlatency = "2500us"\n')
    lines = backend._inside(system(access="nfs3", count=2, text=text))
    whose = [name for name, line in lines if "gso_max_segs 1" in line]
    assert whose == ["server", "client1", "client2"]
    delays = [line for name, line in lines if "netem delay 2.500ms" in line and name == "server"]
    assert len(delays) == 2 and "dev vec0 root" in delays[0] and "dev ifb0 root" in delays[1]
    assert backend._inside(system()) == []


def test_what_a_kernel_mounts_of_a_server(tmp_path: Path) -> None:
    facts = servers.plan_knfsd("10.78.0.2").facts
    assert remote(facts) == mounts.Remote("10.78.0.2", 2049, "/lab/data", mount_port=20048)
    (tmp_path / "c").write_text("username=me\npassword=a=b\n")
    smb = {"protocol": "smb", "host": "h", "port": 1, "credentials": str(tmp_path / "c")}
    assert remote(smb) == mounts.Remote("h", 1, "data", "me", "a=b")


CUT_REGISTERS = """
#include <elf.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
static unsigned char there[1 << 17], again[1 << 17];
int main(void) {
    pid_t child = fork();
    if (child == 0) { ptrace(PTRACE_TRACEME, 0, 0, 0); raise(SIGSTOP); _exit(0); }
    waitpid(child, 0, 0);
    struct iovec all = {there, sizeof there}, found = {again, sizeof again};
    if (ptrace(PTRACE_GETREGSET, child, NT_X86_XSTATE, &all) < 0) { puts("none"); return 0; }
    there[512] |= 3;                       /* XSTATE_BV: x87 and SSE are in use */
    memset(there + 160, 0x5a, 16);         /* xmm0 */
    all.iov_len -= 64;
    int refused = ptrace(PTRACE_SETREGSET, child, NT_X86_XSTATE, &all) < 0;
    ptrace(PTRACE_GETREGSET, child, NT_X86_XSTATE, &found);
    puts(refused ? "refused" : memcmp(again + 160, there + 160, 16) ? "lost" : "set");
    kill(child, SIGKILL);
    return 0;
}
"""
"""Sets a stopped program's registers from a buffer that is 64 bytes too small."""


def test_registers_that_a_guests_kernel_cuts_are_completed(tmp_path: Path) -> None:
    source = tmp_path / "cut.c"
    source.write_text(CUT_REGISTERS, encoding="utf-8")
    subprocess.run(["cc", "-o", tmp_path / "cut", source], check=True)

    def said(**env: str) -> str:
        done = subprocess.run([tmp_path / "cut"], env=env, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    plain = said()
    if plain == "none":
        pytest.skip("this machine's kernel gives no extended registers")
    assert plain == "refused"
    assert said(LD_PRELOAD=str(registers.build(tmp_path))) == "set"


def test_a_compiler_is_needed_only_where_the_processor_has_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = "processor\t: 0\nflags\t\t: fpu avx512f {}\n"
    assert registers.needed(flags.format("amx_bf16 amx_tile amx_int8")) and not registers.needed(flags.format("amx"))
    for needed in (True, False):
        monkeypatch.setattr(registers, "needed", lambda needed=needed: needed)
        assert ("cc" in boot.programs()) is needed


def test_a_compiler_that_fails_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = tmp_path / "wrong.c"
    source.write_text("this is not C\n", encoding="utf-8")
    monkeypatch.setattr(registers, "_SOURCE", source)
    with pytest.raises(TargetError, match=r"registers\.so .* failed: "):
        registers.build(tmp_path)
