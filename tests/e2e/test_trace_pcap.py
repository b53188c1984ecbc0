"""Captures on the loopback device: what clients of SMB and NFS really moved is what the trace says."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from cli_tools import HANG_S, Cli, captured, need
from lab_tools import need_system, own_folders
from naslab import lab
from naslab.lab.server import Server
from naslab.trace import Operation, Trace
from trace_reenact import reenact, tree

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("own_folders")]
__all__ = ["own_folders"]
SIZE = 3_000_001


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder with the files `big` and `one`."""
    need(shutil.which("tshark") and shutil.which("dumpcap"), "tshark")
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "big").write_bytes(random.Random(1).randbytes(SIZE))
    (folder / "one").write_bytes(b"1")
    return folder


def run(*command: object) -> str:
    """What a client says; it must end well."""
    done = subprocess.run([str(word) for word in command], check=False, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def converted(cli: Cli, capture: Path, *options: object) -> tuple[dict[str, int], list[Operation]]:
    """What was skipped, and the operations. A busy machine sends segments again on the loopback device, too."""
    trace = cli.folder / "made.trace.zst"
    told = cli("trace", "convert", capture, "-o", trace, "--force", "--json", *options).ok().json()
    told["skipped"].pop("segments sent again", None)
    return told["skipped"], list(Trace(trace))


def moved(operations: list[Operation], kind: str) -> Counter[str]:
    """Bytes by file."""
    found: Counter[str] = Counter()
    for o in operations:
        if o.op == kind:
            found[str(o.path)] += o.len_bytes or 0
    return +found


def one_at_a_time(operations: list[Operation]) -> None:
    """No stream begins an operation before its last one ended."""
    ends: dict[int, int] = {}
    for o in operations:
        assert o.start_ns >= ends.get(o.stream, 0), o
        ends[o.stream] = o.start_ns + (o.duration_ns or 0)


def names(operations: list[Operation], kind: str) -> list[str]:
    return [str(o.path) for o in operations if o.op == kind and o.error is None]


SMB_COMMANDS = (
    "mkdir d; cd d; put {work}/big b; put {work}/one o; ls; get b {work}/back; rename o p; get none {work}/none; "
    "del b; cd ..; mkdir e; rmdir e"
)


def smbclient(server: Server, commands: str, *options: str) -> str:
    need(shutil.which("smbclient"), "smbclient")
    return run("smbclient", "//127.0.0.1/data", "-p", server.port, "-A", server.credentials, "-t", "30", *options,
               "-c", commands)  # fmt: skip


@pytest.mark.parametrize("system", ["samba", "samba-signed"])
def test_smbclient(system: str, cli: Cli, work: Path) -> None:
    need_system(system)
    full, short = cli.folder / "full.pcapng", cli.folder / "short.pcapng"
    with lab.running(system) as server:
        with captured(full, [server.port]), captured(short, [server.port], "-s", "400"):
            smbclient(server, SMB_COMMANDS.format(work=work))
        left = sorted(str(path.relative_to(server.data)) for path in server.data.rglob("*"))
    assert (work / "back").read_bytes() == (work / "big").read_bytes()
    for capture in (full, short):
        _, operations = converted(cli, capture)
        assert moved(operations, "write") == {"d/b": SIZE, "d/o": 1}
        assert moved(operations, "read") == {"d/b": SIZE}
        assert names(operations, "mkdir") == ["d", "e"] and names(operations, "rmdir") == ["e"]
        assert names(operations, "remove") == ["d/b"] and names(operations, "create") == ["d/b", "d/o"]
        assert [(o.path, o.to_path) for o in operations if o.op == "rename"] == [("d/o", "d/p")]
        failed = [(o.path, o.error) for o in operations if o.error]
        assert failed == [("d/none", "NT_STATUS_OBJECT_NAME_NOT_FOUND")]
        one_at_a_time(operations)
        opened = Counter(o.handle for o in operations if o.op in ("open", "create") and o.error is None)
        assert opened == Counter(o.handle for o in operations if o.op == "close"), "all that was opened was closed"
    assert left == ["d", "d/p"]
    _, hidden = converted(cli, full, "--anonymise")
    assert sum(moved(hidden, "write").values()) == SIZE + 1 and "d/b" not in moved(hidden, "write")


def test_smb_encrypted(cli: Cli, work: Path) -> None:
    need_system("samba-encrypted")
    capture = cli.folder / "capture.pcapng"
    with lab.running("samba-encrypted") as server, captured(capture, [server.port]):
        smbclient(server, f"put {work}/one o")
    done = cli("trace", "convert", capture, "-o", cli.folder / "made.trace").sound()
    assert done.code == 2 and "encrypted" in done.err and not (cli.folder / "made.trace").exists()


def test_libnfs(cli: Cli, work: Path) -> None:
    """NFS 3 with its mount, and NFS 4."""
    need_system("ganesha")
    need(shutil.which("nfs-cp") and shutil.which("nfs-cat"), "libnfs-utils")
    full, short = cli.folder / "full.pcapng", cli.folder / "short.pcapng"
    with lab.running("ganesha") as server:
        ports = [server.port, server.mount_port or server.port]

        def url(name: str, version: int) -> str:
            more = f"nfsport={server.port}&mountport={server.mount_port}&version={version}"
            return f"nfs://127.0.0.1/data{name}?{more}"

        with captured(full, ports), captured(short, ports, "-s", "400"):
            run("nfs-cp", work / "big", url("/b", 3))
            run("nfs-ls", url("", 3))
            run("nfs-cp", url("/b", 3), work / "back")
        with captured(cli.folder / "four.pcapng", ports):
            run("sh", "-c", 'nfs-cat "$0" > "$1"', url("/b", 4), work / "again")
    assert (work / "back").read_bytes() == (work / "again").read_bytes() == (work / "big").read_bytes()
    for capture in (full, short):
        skipped, operations = converted(cli, capture)
        assert moved(operations, "write") == moved(operations, "read") == {"b": SIZE}
        assert names(operations, "create") == ["b"] and names(operations, "readdir") == ["."]
        assert set(skipped) <= {"listings cut short"}
        one_at_a_time(operations)
    assert replayed(cli) == {"read": SIZE, "write": SIZE}
    skipped, operations = converted(cli, cli.folder / "four.pcapng")
    assert moved(operations, "read") == {"data/b": SIZE} and not moved(operations, "write")
    assert [o.op for o in operations if o.op in ("open", "create", "close")] == ["open", "close"]
    assert skipped == {}
    assert replayed(cli) == {"read": SIZE}


def replayed(cli: Cli) -> dict[str, int]:
    """Bytes that a replay of the trace converted last moved, by kind."""
    done = cli("replay", cli.target, cli.folder / "made.trace.zst", "--json").ok().json()
    assert done["status"] == "complete" and done["replay"]["equal"]
    kinds = done["cells"][-1]["kinds"]
    return {kind: told["bytes"] for kind, told in kinds.items() if kind in ("read", "write") and told["bytes"]}


@pytest.mark.parametrize(("system", "version"), [("demo", "3"), ("ganesha", "4.1")])
def test_naslab_over_nfs(system: str, version: str, cli: Cli, work: Path) -> None:
    """A sweep with four requests in flight: the bytes of its cells, on four streams."""
    need_system(system)
    capture = cli.folder / "capture.pcapng"
    with lab.running(system) as server:
        target = server.targets["data"]
        if "version=" not in target:
            target += ("&" if "?" in target else "?") + f"version={version}"
        with captured(capture, [server.port, server.mount_port or server.port]):
            done = cli.sweep(target, "--depth", "4")
    skipped, operations = converted(cli, capture)
    assert not skipped
    one_at_a_time(operations)
    assert len({o.stream for o in operations if o.op in ("read", "write")}) >= 4
    for kind in ("read", "write"):
        cells = [cell for cell in done["cells"] if cell["op"].endswith(kind)]
        told = sum(cell["bytes"] + cell["warmup_bytes"] for cell in cells)
        seen = sum(size for name, size in moved(operations, kind).items() if name.endswith("naslab.sweep"))
        # Before some cells that read, one record is read outside the measurement.
        beside = sum(cell["record_bytes"] for cell in cells) if kind == "read" else 0
        assert told <= seen <= told + beside, kind
    assert len(names(operations, "mkdir")) == len(names(operations, "rmdir")) == 1, "the run's folder"


def test_a_capture_is_done_again(cli: Cli, work: Path) -> None:
    """What smbclient did, by hand in an empty folder and by a replay."""
    need_system("samba")
    capture = cli.folder / "full.pcapng"
    with lab.running("samba") as server, captured(capture, [server.port]):
        smbclient(server, SMB_COMMANDS.format(work=work))
    converted(cli, capture)
    trace, folder = cli.folder / "made.trace.zst", cli.folder / "again"
    folder.mkdir()
    reenact(trace, folder)
    assert tree(folder) == {"d": None, "d/p": 1}
    assert replayed(cli) == {"write": SIZE + 1, "read": SIZE}


def test_garbage(cli: Cli, work: Path) -> None:
    for name, data in (("noise", os.urandom(2000)), ("empty", b""), ("magic", b"\xd4\xc3\xb2\xa1" + bytes(20))):
        path = cli.folder / name
        path.write_bytes(data)
        done = cli("trace", "convert", path, "--from", "pcap", "-o", cli.folder / "made.trace").sound()
        assert done.code == 2 and str(path) in done.err and not (cli.folder / "made.trace").exists()
