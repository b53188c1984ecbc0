"""Real programs recorded and replayed: the replay is recorded itself, and must have done the same operations."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli_tools import Cli, need, wait_until
from naslab.lab import systems
from naslab.trace import Header, Operation, Trace, TraceWriter, files_of
from naslab.trace.names import name_text

Row = tuple[object, ...]
INSIDE = re.compile(r"naslab-[^/]+/naslab\.files(?:/|\Z)")
GIT = (
    "git init -q repo && cd repo && cp -r ../src . && git add . && "
    "git -c user.name=a -c user.email=a@b commit -q -m x && rm -r src && git checkout -q -- src && git status -s"
)


def may_trace() -> bool:
    """Whether strace is there and works here."""
    command = ["strace", "-o", os.devnull, "true"]
    return shutil.which("strace") is not None and subprocess.run(command, check=False).returncode == 0


@pytest.fixture
def work(cli: Cli) -> Path:
    """A folder with a small tree `src` to work on."""
    need(may_trace(), "strace, and the right to trace processes,")
    src = cli.folder / "work" / "src"
    (src / "d" / "deep er").mkdir(parents=True)
    (src / "empty folder").mkdir()
    chance = random.Random(1)
    for name, size in {"empty": 0, "d/page": 4096, "d/odd": 12_345, "d/deep er/big": 30_001, "d/ünï:?": 20_000,
                       "d/%41": 5, "d/dot.": 17}.items():  # fmt: skip
        (src / name).write_bytes(chance.randbytes(size))
    return src.parent


def record(cli: Cli, work: Path, job: str) -> Path:
    """The trace of one of the jobs, each on a fresh copy of nothing but `src`."""
    scripts = {"tar": "tar -cf out.tar src", "untar": "tar -xf out.tar --one-top-level=new", "cp": "cp -r src dst",
               "git": GIT}  # fmt: skip
    if job == "untar":
        subprocess.run(["tar", "-cf", "out.tar", "src"], check=True, cwd=work)
    if job == "git":
        need(shutil.which("git"), "git")
    made = cli.folder / f"{job}.trace.zst"
    env = {**cli.env, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(work)}
    cli("trace", "record", "--quiet", "-o", made, "--", "sh", "-c", scripts[job], cwd=work, env=env).ok()
    return made


def of_trace(trace: Path) -> list[list[Row]]:
    """What a replay has to do, stream by stream, straight from the rules of the guide."""
    streams: dict[int, list[Row]] = {}
    folders = {fact.path for fact in files_of(Trace(trace)) if fact.folder} | {"."}
    opened: dict[int, str | None] = {}
    lengths = {fact.path: fact.size_bytes for fact in files_of(Trace(trace)) if not fact.folder}
    for o in Trace(trace):
        assert "i" not in o.flags, "nothing was open before the command began"
        rows = streams.setdefault(o.stream, [])
        path = o.path or "."
        if o.op == "mkdir" and o.error is None:
            folders.add(path)
        if o.op in ("open", "create") and o.error is None:
            opened[o.handle or 0] = "folder" if path in folders else None
            if path in folders:
                rows.append(row("stat", path))
                continue
            lengths[path] = 0 if "t" in o.flags else lengths.get(path, 0)
        state = opened.get(-1 if o.handle is None else o.handle)
        if state is not None and o.op in ("close", "readdir"):
            if o.op == "readdir":
                if state == "folder":
                    rows.append(row("readdir", path))
                opened[o.handle or 0] = "listed" if o.len_bytes else "folder"
            continue
        if o.op == "write":
            lengths[path] = max(lengths[path], (o.offset_bytes or 0) + (o.len_bytes or 0))
        rows += list(as_replayed(o, lengths))
    return sorted(streams.values(), key=repr)


def as_replayed(o: Operation, lengths: dict[str, int]) -> Iterator[Row]:
    """One operation that is on no folder's handle."""
    if o.op in ("read", "write") and not o.len_bytes:
        if o.op == "read" and o.asked_bytes:
            yield row("read", o.path, o.offset_bytes, 0)
        return
    if o.op == "link":
        to = o.to_path or ""
        lengths[to] = lengths[o.path or ""]
        yield row("create", to, "ew")
        yield row("truncate", to, lengths[to])
        yield row("close", to)
    elif o.op in ("open", "create"):
        if o.error is None:
            yield row(o.op, o.path, "".join(sorted(set(o.flags) & set("rwte"))))
        else:
            yield row(o.op, o.path, o.error)
    elif o.op in ("read", "write"):
        yield row(o.op, o.path, o.offset_bytes, o.len_bytes)
    elif o.op == "truncate":
        yield row(o.op, o.path, o.len_bytes)
    elif o.op == "rename":
        lengths[o.to_path or ""] = lengths.pop(o.path or "", 0)
        yield row(o.op, o.path, name(o.to_path))
    elif o.error is not None:
        # Before the engine removes anything in a folder it looks at it: that is all where nothing is.
        yield row("stat" if o.op == "remove" else o.op, o.path, o.error)
    else:
        yield row(o.op, o.path)


def name(path: str | None) -> str:
    """A path of the first trace as it stands in the trace of the replay: the files have its escapes in their names."""
    return name_text((path or ".").encode())


def row(op: str, path: str | None, *rest: object) -> Row:
    return (op, name(path), *rest)


def of_replay(trace: Path, prepared: int) -> list[list[Row]]:
    """What the replay did below its folder of files, stream by stream, the first `prepared` operations left out."""
    streams: dict[int, list[Row]] = {}
    folders: set[int] = set()
    count = 0
    for o in Trace(trace):
        if not INSIDE.match(o.path or ""):
            continue
        path = INSIDE.sub("", o.path or "") or "."
        if o.op == "open" and "f" in o.flags and o.error is None:
            folders.add(o.handle or 0)
            found: Row = ("readdir", path)
        elif o.handle in folders or (o.op == "stat" and o.handle is not None):
            continue  # a listing; what the engine asks of a file that it opened
        else:
            rest: tuple[object, ...] = ()
            if o.error is not None:
                rest = (o.error,)
            elif o.op in ("open", "create"):
                rest = ("".join(sorted(set(o.flags) & set("rwte"))),)
            elif o.op in ("read", "write"):
                rest = (o.offset_bytes, o.len_bytes)
            elif o.op == "truncate":
                rest = (o.len_bytes,)
            elif o.op == "rename":
                rest = (INSIDE.sub("", o.to_path or ""),)
            found = (o.op, path, *rest)
        count += 1
        if count > prepared:
            rows = streams.setdefault(o.stream, [])
            if found[0] == "remove" and rows and rows[-1][:2] == ("stat", path):
                rows.pop()  # the engine looks at what it is about to remove
            rows.append(found)
    return sorted(streams.values(), key=repr)


@pytest.mark.parametrize("job", ["tar", "untar", "cp", "git"])
def test_the_same_operations(job: str, cli: Cli, work: Path) -> None:
    """Kinds, names, offsets, lengths, flags and errors, in the order of each stream."""
    trace = record(cli, work, job)
    again = cli.folder / "again.trace.zst"
    inside = [sys.executable, "-m", "naslab", "replay", str(cli.target), str(trace), "--quiet"]
    cli("trace", "record", "--quiet", "-o", again, "--root", cli.target, "--", *inside).ok()
    expected = of_trace(trace)
    facts = files_of(Trace(trace))
    # The engine looks for its folder of files, makes it, and looks again before the replay. Each file is created,
    # closed, and written if it has a length: all are shorter than one record.
    prepared = 3 + sum(1 if fact.folder else 2 + (fact.size_bytes > 0) for fact in facts)
    found = of_replay(again, prepared)
    assert sum(map(len, expected)) >= 50
    # Afterwards another thread removes what is left, the folder of files itself included.
    found = [rows for rows in found if ("rmdir", ".") not in rows]
    assert found == expected
    assert list(cli.target.iterdir()) == []


def replayed(cli: Cli, target: object, trace: Path, *words: object) -> Any:
    """The document of a replay that ended well, with counts that agree."""
    document = cli("replay", target, trace, "--json", *words).ok().json()
    assert document["status"] == "complete" and all(cell["errors"] == 0 for cell in document["cells"])
    told = document["replay"]
    assert told["equal"] and all(row["issued"] == row["expected"] for row in told["operations"])
    return document


def lab_need(target: str) -> None:
    missing = systems.missing_packages(systems.system(target))
    need(not missing, f"{target}: {' '.join(missing)}")


@pytest.mark.lab
@pytest.mark.parametrize("target", ["samba", "ganesha"])
def test_over_the_network(target: str, cli: Cli, work: Path) -> None:
    """Without an error, and with as many operations of each kind as the trace has."""
    lab_need(target)
    for job in ("tar", "cp", "git"):
        trace = record(cli, work, job)
        document = replayed(cli, f"lab:{target}", trace)
        told = document["replay"]
        rows = {row["kind"]: row for row in told["operations"]}
        assert rows["write"]["issued"] == rows["write"]["trace"] > 0, job
        assert (told["escaped_names"] > 0) == (target == "samba")
        reasons = {note["reason"] for note in told["skipped"]}
        assert len(reasons) <= 3 and not any("does not tell" in reason for reason in reasons), reasons


def generated(path: Path, operations: int, streams: int = 4) -> Path:
    """A trace of streams that take turns, each to read or write a file of its own 98 times; every third file is new."""
    chance = random.Random(5)
    with TraceWriter(path, Header(source="naslab")) as writer:
        for handle in range(operations // 100):
            make = handle % 3 == 0
            file = f"d{handle % 50}/new{handle}" if make else f"d{handle % 50}/old{handle % 500}"
            todo: list[dict[str, Any]] = [
                {"op": "write" if make else "read", "offset_bytes": 4096 * chance.randrange(16), "len_bytes": 4096}
                for _ in range(98)
            ]
            first = {"op": "create" if make else "open", "path": file, "flags": "rw" if make else "r"}
            for fields in (first, *todo, {"op": "close"}):
                now = writer.operations * 1000
                writer.write(Operation(start_ns=now, stream=handle % streams, handle=handle, **fields))
                writer.settle(None)
    return path


def test_a_long_trace_in_little_memory(cli: Cli) -> None:
    """200 000 operations: all are issued, and the process stays below 200 MB."""
    trace = generated(cli.folder / "long.trace.zst", 200_000)
    code = (
        "import sys; from naslab.cli import main\n"
        "code = main(sys.argv[1:])\n"
        # Not ru_maxrss, in which a child begins with the peak of its parent.
        "peak = next(line for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
        "print(int(peak.split()[1]), file=sys.stderr)\n"
        "sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "replay", "null:", str(trace), "--json"], env=cli.env, cwd=cli.folder,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    told = json.loads(done.stdout)["replay"]
    assert told["equal"] and not told["skipped"] and not told["added"] and told["streams"] == 4
    assert sum(row["issued"] for row in told["operations"]) == 200_000
    assert int(done.stderr.split()[-1]) * 1024 < 200e6


def test_ctrl_c_leaves_nothing(cli: Cli) -> None:
    made = cli.folder / "slow.trace"
    with TraceWriter(made, Header(source="naslab")) as writer:
        writer.write(Operation(start_ns=0, stream=0, op="create", path="d/file", handle=0, flags="w"))
        for at in range(600):
            writer.write(Operation(start_ns=at * 10**8, stream=0, op="write", handle=0, offset_bytes=at, len_bytes=9))
    child = cli.start("replay", cli.target, made, "--pace", "recorded")
    wait_until(lambda: list(cli.target.glob("*/naslab.files/d/file")), child, "the first file")
    child.send_signal(signal.SIGINT)
    err = child.communicate(timeout=30)[1]
    assert child.returncode == 1 and "interrupted; what was measured is stored" in err, err
    assert list(cli.target.iterdir()) == []
    (run,) = cli.runs()
    assert run["status"] == "partial"


def test_bad_traces(cli: Cli) -> None:
    """A trace that breaks off ends it before anything is written; so do options that cannot be met."""
    made = generated(cli.folder / "x.trace", 1000)
    cut = cli.folder / "cut.trace"
    cut.write_bytes(made.read_bytes()[:-300])
    for words, told in (((cut,), "cut.trace"), ((cli.folder / "none.trace",), "none.trace"),
                        ((made, "--max-streams", "2"), "--max-streams 2"),
                        ((made, "--max-bytes", "1m"), "--max-bytes 1m")):  # fmt: skip
        done = cli("replay", cli.target, *words).sound()
        assert done.code == 2 and told in done.err and done.err.count("\n") == 1, done.err
        assert list(cli.target.iterdir()) == []
