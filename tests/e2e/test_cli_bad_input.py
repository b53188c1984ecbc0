"""What is wrong is said once, clearly, before anything is written."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli_tools import SIM, Cli, Done, need, snapshot
from naslab.results.store import Store

SWEEP = ("sweep", "TARGET")
# command line (TARGET stands for an empty folder), words the message must hold
CASES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "unknown command": (("bogus",), ("bogus", "naslab --help")),
    "unknown option": ((*SWEEP, "--bogus"), ("--bogus", "naslab sweep --help")),
    "option without value": ((*SWEEP, "--record"), ("--record", "--help")),
    "too many arguments": (("show", "a", "b"), ("b", "naslab show --help")),
    "missing path of run": (("run",), ("TARGET", "naslab run --help")),
    "missing path of sweep": (("sweep",), ("TARGET", "--resume")),
    "empty path": (("sweep", ""), ("TARGET",)),
    "size with a wrong suffix": ((*SWEEP, "--file-size", "12q"), ("--file-size", "'12q'", "64k")),
    "negative size": ((*SWEEP, "--file-size", "-5"), ("--file-size", "'-5'")),
    "size 0": ((*SWEEP, "--file-size", "0"), ("--file-size", "0", "at least 1")),
    "part of a byte": ((*SWEEP, "--file-size", "1.0000001k"), ("--file-size", "'1.0000001k'", "whole number")),
    "empty size": ((*SWEEP, "--file-size", ""), ("--file-size", "''", "64k")),
    "exponent": ((*SWEEP, "--record", "1e3"), ("--record", "'1e3'")),
    "not a number": ((*SWEEP, "--record", "nan"), ("--record", "'nan'")),
    "no file is so large": ((*SWEEP, "--file-size", "99999999999999999999t"), ("--file-size", "largest")),
    "a number of 5000 digits": ((*SWEEP, "--file-size", "9" * 5000), ("--file-size", "digits")),
    "open range": ((*SWEEP, "--file-size", "64k.."), ("--file-size", "'64k..'", "64k..1g")),
    "backwards range": ((*SWEEP, "--file-size", "4m..1m"), ("--file-size", "'4m..1m'", "small..large")),
    "empty part of a list": ((*SWEEP, "--record", "4k,,8k"), ("--record", "'4k,,8k'")),
    "record above the file": (
        (*SWEEP, "--file-size", "64k", "--record", "1m"), ("--record", "larger than every file", "larger files"),
    ),
    "record above 1 GiB": ((*SWEEP, "--file-size", "4g", "--record", "2g"), ("--record", "1 GiB")),
    "unknown test": ((*SWEEP, "--tests", "read,nope"), ("--tests", "'nope'", "random_read")),
    "no test": ((*SWEEP, "--tests", ""), ("--tests", "choose from")),
    "test that is no part of a sweep": ((*SWEEP, "--tests", "mixed"), ("--tests", "'mixed'")),
    "repeat 0": ((*SWEEP, "--repeat", "0"), ("--repeat", "at least 1")),
    "repeat without end": ((*SWEEP, "--repeat", "1000000"), ("--repeat", "at most 1000")),
    "workers in words": ((*SWEEP, "--workers", "many"), ("--workers", "whole number")),
    "depth 0": ((*SWEEP, "--depth", "0"), ("--depth", "at least 1")),
    "unknown durability": ((*SWEEP, "--durability", "always"), ("--durability", "'always'", "none, end or each")),
    "compress below 1": ((*SWEEP, "--compress", "0.5"), ("--compress", "at least 1")),
    "compress nan": ((*SWEEP, "--compress", "nan"), ("--compress",)),
    "compress infinite": ((*SWEEP, "--compress", "inf"), ("--compress", "inf")),
    "dedupe infinite": ((*SWEEP, "--dedupe", "inf"), ("--dedupe", "inf")),
    "negative seed": ((*SWEEP, "--seed", "-1"), ("--seed", "at least 0")),
    "seed above 63 bits": ((*SWEEP, "--seed", "99999999999999999999"), ("--seed", "at most")),
    "timeout 0": ((*SWEEP, "--timeout", "0"), ("--timeout", "'0'", "more than 0")),
    "timeout in words": ((*SWEEP, "--timeout", "soon"), ("--timeout", "'soon'", "30s")),
    "budget in words": ((*SWEEP, "--budget", "x"), ("--budget", "'x'", "30s")),
    "budget of run in words": (("run", "TARGET", "--budget", "x"), ("--budget", "'x'")),
    "max-bytes in words": ((*SWEEP, "--max-bytes", "x"), ("--max-bytes", "'x'")),
    "plan above max-bytes": ((*SWEEP, "--max-bytes", "1k"), ("--max-bytes 1k", "narrow")),
    "run above max-bytes": (("run", "TARGET", "--max-bytes", "1m"), ("--max-bytes", "8m")),
    "label without value": ((*SWEEP, "--label", "x"), ("--label", "'x'", "key=value")),
    "label without key": ((*SWEEP, "--label", "=x"), ("--label", "'=x'")),
    "label twice": ((*SWEEP, "--label", "a=1", "--label", "a=2"), ("--label", "twice")),
    "report in no folder": ((*SWEEP, "--output", "no/such/file.html"), ("-o", "no folder", "create")),
    "report is a folder": ((*SWEEP, "--report", "target"), ("-o", "folder")),
    "no such folder": (("sweep", "/no/such"), ("/no/such", "create it or mount")),
    "path is a file": (("sweep", "FILE"), ("FILE", "not a folder", "give the folder")),
    "path with a zero byte's neighbour": (("sweep", "x" * 300), ("x" * 300, "folder")),
    "unknown engine": (("sweep", "TARGET?engine=fast"), ("engine='fast'", "posix or uring")),
    "unknown option of a path": (("sweep", "TARGET?speed=1"), ("speed", "engine= and direct=")),
    "direct neither yes nor no": (("sweep", "TARGET?direct=2"), ("direct='2'", "1 or 0")),
    "option of a path twice": (("sweep", "TARGET?direct=1&direct=0"), ("twice",)),
    "posix has no depth": (("sweep", "TARGET?engine=posix", "--depth", "2"), ("engine=posix", "workers", "uring")),
    "stdio has no depth": ((*SWEEP, "--tests", "stdio", "--depth", "4"), ("--tests", "stdio", "--depth")),
    "stdio is never direct": ((*SWEEP, "--tests", "stdio", "--direct"), ("--tests", "--direct")),
    "direct record of 1000 bytes": (
        (*SWEEP, "--direct", "--file-size", "100000", "--record", "1000"), ("1000", "multiple"),
    ),
    "verify of unique blocks that repeat": ((*SWEEP, "--verify", "--dedupe", "2"), ("--verify", "--dedupe")),
    "verify without memory": (("sweep", "null:", "--verify"), ("null", "--verify")),
    "verify on a forgetful sim": (("sweep", SIM, "--verify"), ("--verify", "store_data=true")),
    "unknown kind of target": (("sweep", "foo://host/x"), ("'foo'", "sim:")),
    "smb without share": (("sweep", "smb://host"), ("share", "naslab doctor smb://host")),
    "nfs without export": (("run", "nfs://host"), ("export", "naslab doctor nfs://host")),
    "mount's name of an export": (("sweep", "host:/export"), ("nfs://host/export",)),
    "a path that is no UNC name": (("sweep", "//host/share"), ("smb://host/share",)),
    "SMB1": (("sweep", "smb://host/share?dialect=1"), ("SMB1", "mount")),
    "user without password": (("sweep", "smb://ann@host/share"), ("NASLAB_PASSWORD", "--credentials")),
    "credentials that are not there": (
        ("sweep", "smb://host/share", "--credentials", "none"), ("--credentials none", "No such file", "username="),
    ),
    "credentials of another kind": (("sweep", "smb://host/share", "--credentials", "FILE"), ("line 1",)),
    "credentials for a folder": ((*SWEEP, "--credentials", "FILE"), ("--credentials", "smb://")),
    "net without host": (("reference", "net"), ("HOST", "--listen")),
    "net of a share": (("reference", "net", "smb://host/share"), ("smb://host/share", "HOST:PORT")),
    "net without time": (("reference", "net", "host", "--duration", "0"), ("--duration", "more than 0", "10 min")),
    "net for hours": (("reference", "net", "host", "--duration", "2h"), ("--duration", "10 min")),
    "net with 65 connections": (("reference", "net", "host", "--connections", "65"), ("--connections", "at most 64")),
    "listening on a name": (("reference", "net", "--listen", "host"), ("--listen", "ADDRESS:PORT")),
    "null with options": (("sweep", "null:?a=b"), ("null:", "no options")),
    "sim with an unknown field": (("sweep", "sim:?speed=1"), ("speed", "latency_ns", "docs/reference/sim.md")),
    "sim with a wrong time": (("sweep", "sim:?latency_ns=abc"), ("latency_ns", "'abc'", "200us")),
    "sim with a negative time": (("sweep", "sim:?latency_ns=-5"), ("latency_ns", "'-5'")),
    "sim with a wrong size": (("sweep", "sim:?link_bytes_per_s=fast"), ("link_bytes_per_s", "'fast'")),
    "sim with a wrong list": (("sweep", "sim:?faults=[1"), ("faults", "JSON")),
    "sim with a wrong fault": (("sweep", 'sim:?faults=[{"kind":"bad","at_op":1}]'), ("bad",)),
    "sim with nothing to read": (("sweep", "sim:?=&="), ("sim:",)),
    "sim field out of range": (("sweep", "sim:?jitter=99"), ("jitter",)),
    "sim without its file": (("sweep", "sim:nofile.toml"), ("nofile.toml", "sim:?field=value")),
    "sim of another file": (("sweep", "sim:FILE"), ("FILE", "TOML")),
    "no run yet": (("show", "last"), ("no runs", "measure one")),
    "no such run": (("show", "nope"), ("'nope'",)),
    "no such exported file": (("show", "no/such.json"), ("no/such.json", "naslab runs")),
    "file that is no run": (("show", "./FILE"), ("FILE", "not a run")),
    "export to no folder": (("export", "last", "-o", "no/such/x.json"), ("-o no/such/x.json", "no folder", "create")),
    "export without a run": (("export", "last", "-o", "x.json"), ("no runs",)),
    "report without a run": (("report", "last"), ("no runs",)),
    "resume without a run": (("sweep", "--resume", "last"), ("no runs",)),
    "resume of nothing": (("sweep", "--resume", ""), ("''",)),
    "resume and target": (("sweep", "TARGET", "--resume", "last"), ("--resume", "leave")),
    "resume and another plan": (("sweep", "--resume", "last", "--depth", "2"), ("--resume", "--depth")),
    "limit 0": (("runs", "--limit", "0"), ("--limit", "at least 1")),
    "mkfile of nothing": (("mkfile", "TARGET/x", "--size", "0"), ("--size", "at least 1")),
    "mkfile without size": (("mkfile", "TARGET/x"), ("--size", "--help")),
    "mkfile nowhere": (("mkfile", "/no/such/x", "--size", "1k"), ("/no/such", "create")),
    "mkfile over a file": (("mkfile", "FILE", "--size", "1k"), ("FILE", "exists", "another name")),
    "mkfile without room": (("mkfile", "TARGET/x", "--size", "1024t"), ("needs", "free")),
    "clean nowhere": (("clean", "/no/such"), ("/no/such",)),
    "sweep without room": (("sweep", f"{SIM}&capacity_bytes=100k"), ("needs", "free", "smaller files")),
    "run without room": (("run", f"{SIM}&capacity_bytes=10k"), ("needs", "78.6 kB", "free some space")),
}  # fmt: skip


def refused(done: Done, words: tuple[str, ...] = ()) -> None:
    """Exit code 2, nothing on stdout, one line on stderr that holds these words."""
    done.sound()
    assert done.code == 2, (done.code, done.out, done.err)
    assert done.out == ""
    lines = done.err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("naslab: "), done.err
    for word in words:
        assert word in lines[0], (word, lines[0])


REAL = (
    "unknown command",
    "size with a wrong suffix",
    "posix has no depth",
    "smb without share",
    "mkfile without room",
)
"""Cases that go through the installed program; the others call its entry point here, which is faster."""


@pytest.mark.parametrize("name", CASES)
def test_refused(name: str, cli: Cli, here: Callable[..., Done]) -> None:
    command, words = CASES[name]
    file = cli.folder / "a_file"
    file.write_text("= not TOML, not JSON")
    before = snapshot(cli.folder)

    def filled(text: str) -> str:
        return text.replace("TARGET", str(cli.target)).replace("FILE", "a_file")

    plain = [filled(text) for text in command]
    refused(
        (cli if name in REAL else here)(*plain),
        tuple(word if word == "TARGET" else filled(word) for word in words),
    )
    after = snapshot(cli.folder)
    assert {k: v for k, v in after.items() if not k.startswith("store.sqlite")} == before
    if cli.store.exists():
        assert Store(cli.store).list_runs() == []


def test_ambiguous_prefix_lists_the_runs(cli: Cli) -> None:
    for _ in range(2):
        cli("sweep", "null:", "--file-size", "64k", "--record", "64k", "--quiet").ok()
    ids = [run["run_id"] for run in cli.runs()]
    for words in (("show", "20"), ("export", "20", "-o", "x.json"), ("sweep", "--resume", "20")):
        refused(cli(*words), ("'20'", *ids, "give more of the id"))
    refused(cli("show", ids[0][:-1] + "0"), ("near", ids[0]))
    refused(cli("sweep", "--resume", ids[0]), ("complete", "nothing is left"))


def newer(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA application_id = {0x6E61736C}")
        db.execute("PRAGMA user_version = 999")
        db.execute("CREATE TABLE runs (x)")
    db.close()


STORES = {
    "text": lambda path: path.write_text("my diary, which is long enough to be looked at " * 4),
    "folder": lambda path: path.mkdir(),
    "newer": newer,
    "other database": lambda path: sqlite3.connect(path).execute("CREATE TABLE x (y)").connection.close(),
    "in no folder": lambda path: path.symlink_to("/no/such/folder/store"),
}


@pytest.mark.parametrize("kind", STORES)
def test_bad_store(kind: str, cli: Cli) -> None:
    bad = cli.folder / "bad.sqlite"
    STORES[kind](bad)
    before = snapshot(cli.folder)
    small = ("--file-size", "64k", "--record", "64k")
    for words in (("runs",), ("sweep", cli.target, *small)):
        if kind == "in no folder" and words == ("runs",):
            continue  # nothing is stored there yet
        refused(cli(*words, "--store", bad), (str(bad),))
    assert snapshot(cli.folder) == before


@pytest.mark.lab
@pytest.mark.parametrize("command", [("sweep",), ("run",)])
def test_folder_without_permission(command: tuple[str], cli: Cli, tmp_path: Path) -> None:
    prefix = []
    if os.geteuid() == 0:
        need(shutil.which("setpriv"), "setpriv, or a user other than root,")
        prefix = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
        store = tmp_path / "theirs"
        store.mkdir(mode=0o777)
        store.chmod(0o777)
        cli.env["NASLAB_STORE"] = str(store / "s.sqlite")
        cli.store = store / "s.sqlite"
        for folder in tmp_path.parents:
            if folder.stat().st_mode & 0o005 != 0o005 and folder != Path("/"):
                folder.chmod(folder.stat().st_mode | 0o055)
        tmp_path.chmod(0o755)
        probe = subprocess.run([*prefix, *cli_program_check()], env=cli.env, capture_output=True, check=False)
        need(probe.returncode == 0, "an installation that other users can read")
    cli.target.chmod(0o555)
    done = cli(*command, cli.target, prefix=prefix)
    refused(done, ("cannot create a folder on", "this user has no write access", "name another"))
    assert list(cli.target.iterdir()) == [] and (not cli.store.exists() or cli.runs() == [])


def cli_program_check() -> list[str]:
    from cli_tools import PROGRAM

    return [*PROGRAM, "--version"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB in memory."""
    need(os.geteuid() == 0, "root, for a mount,")
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", disk], capture_output=True, check=False)
    need(mounted.returncode == 0, "a mount of tmpfs")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


@pytest.mark.lab
def test_read_only_file_system(cli: Cli, small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    small = ("--file-size", "64k", "--record", "64k")
    refused(cli("sweep", small_disk, *small), ("cannot create a folder", "read-only", "make it writable"))
    refused(cli("mkfile", small_disk / "x", "--size", "1k"), ("Read-only file system",))
    assert not cli.store.exists() or cli.runs() == []


@pytest.mark.lab
def test_small_disk(cli: Cli, small_disk: Path) -> None:
    refused(cli("sweep", small_disk, "--file-size", "64m"), ("needs 80.5 MB", "2.10 MB", "free some space"))
    refused(cli("sweep", small_disk, "--file-size", "64k", "--record", "4k", "--cold"), ("--cold", "--direct"))
    run = cli("run", small_disk, "--budget", "3s", "--json").ok().json()
    assert run["status"] == "complete" and max(c["file_bytes"] for c in run["cells"]) < 2 << 20
    assert {c["regime"] for c in run["cells"]} == {"client_cache"}
    assert list(small_disk.iterdir()) == []


@pytest.mark.lab
def test_full_store(cli: Cli, small_disk: Path) -> None:
    """The store's disk fills up in the middle: exit 1, one message, the target is tidied all the same."""
    cli.env["NASLAB_STORE"] = str(small_disk / "store.sqlite")
    words = ("sweep", cli.target, "--file-size", "64k..512k", "--record", "4k..64k", "--repeat", "4", "--quiet")
    done = cli(*words).sound()
    assert done.code == 1 and "full" in done.err and len(done.err.splitlines()) == 1, done.err
    assert list(cli.target.iterdir()) == []
    stored = cli.runs()[0]
    assert stored["status"] == "partial" and stored["cells"]
