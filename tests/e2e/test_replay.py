"""Real programs recorded and replayed: the replay is recorded itself, and must have done the same operations."""

from __future__ import annotations

import json
import posixpath
import random
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli_tools import HANG_S, Cli, may_trace, need, wait_until
from naslab.trace import FileFacts, Header, Operation, Trace, TraceWriter, files_of
from replay_rules import Row, as_text, by_stream, named, of_trace

INSIDE = re.compile(r"naslab-[^/]+/naslab\.files(?:/|\Z)")
GIT = (
    "git init -q repo && cd repo && cp -r ../src . && git add . && "
    "git -c user.name=a -c user.email=a@b commit -q -m x && rm -r src && git checkout -q -- src && git status -s"
)


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


def without_second_looks(trace: Path) -> Iterator[Operation]:
    """All inside the folder but for this: a read that gives less than it asked for is followed by one for the rest, by
    which the engine sees that it met the end of the file."""
    short: dict[int, tuple[object, ...]] = {}
    for o in Trace(trace):
        second = o.op == "read" and (o.handle, o.offset_bytes, o.asked_bytes) == short.pop(o.stream, None)
        if o.op == "read" and o.len_bytes and o.asked_bytes:
            short[o.stream] = (o.handle, (o.offset_bytes or 0) + o.len_bytes, o.asked_bytes - o.len_bytes)
        if INSIDE.match(o.path or "") and not second:
            yield o


def of_replay(trace: Path, prepared: int) -> list[list[Row]]:
    """What the replay did below its folder of files, stream by stream, the first `prepared` operations left out."""
    streams: dict[int, list[Row]] = {}
    folders: set[int] = set()
    count = 0
    for o in without_second_looks(trace):
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
                # The engine cuts a file that exists once it has seen which file that is; a new one has nothing to cut.
                rest = ("".join(sorted(set(o.flags) & set("rwte") - set("t" if o.op == "create" else ""))),)
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


def new_uncut(row: Row) -> Row:
    """A file that is made is empty, whether it was to be cut or not."""
    return (*row[:2], row[2].replace("t", "")) if row[0] == "create" and len(row) == 3 else row


def reached(rows: Iterable[tuple[int, Row]], facts: Iterable[FileFacts]) -> Iterator[tuple[int, Row]]:
    """Those whose folder is there: the engine looks it up first, and asks nothing of a name in one that is not."""
    folders = {".", ""} | {fact.path for fact in facts if fact.folder}
    for stream, row in rows:
        if row[-1] == "ENOENT" and posixpath.dirname(row[1]) not in folders:
            continue
        if row[0] == "mkdir" and len(row) == 2:
            folders.add(row[1])
        if row[0] == "rmdir" and len(row) == 2:
            folders.discard(row[1])
        yield stream, row


@pytest.mark.lab
@pytest.mark.parametrize("job", ["tar", "untar", "cp", "git"])
def test_the_same_operations(job: str, cli: Cli, work: Path) -> None:
    """Kinds, names, offsets, lengths, flags and errors, in the order of each stream."""
    trace = record(cli, work, job)
    again = cli.folder / "again.trace.zst"
    inside = [sys.executable, "-m", "naslab", "replay", str(cli.target), str(trace), "--quiet"]
    cli("trace", "record", "--quiet", "-o", again, "--root", cli.target, "--", *inside).ok()
    facts = files_of(Trace(trace))
    expected = by_stream((stream, named(new_uncut(row), as_text)) for stream, row in reached(of_trace(trace), facts))
    # The engine looks for its folder of files, makes it, and looks again before the replay. Each file is created,
    # closed, and written if it has a length: all are shorter than one record.
    prepared = 3 + sum(1 if fact.folder else 2 + (fact.size_bytes > 0) for fact in facts)
    found = of_replay(again, prepared)
    assert sum(map(len, expected)) >= 45
    # Afterwards another thread removes what is left, the folder of files itself included.
    found = [rows for rows in found if ("rmdir", ".") not in rows]
    assert found == expected
    assert list(cli.target.iterdir()) == []


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


def many_files(path: Path, files: int) -> Path:
    """A trace of one stream that reads or makes each of so many files once."""
    with TraceWriter(path, Header(source="naslab")) as writer:
        for handle in range(files):
            file = f"folder {handle % 500}/a name of usual length {handle}.dat"
            make = handle % 2 == 0
            first = {"op": "create" if make else "open", "path": file, "flags": "w" if make else "r"}
            data = {"op": "write" if make else "read", "offset_bytes": 0, "len_bytes": 4096}
            for fields in (first, data, {"op": "close"}):
                writer.write(Operation(start_ns=writer.operations, stream=0, handle=handle, **fields))
                writer.settle(None)
    return path


def test_the_page_counts_operations_by_kind(cli: Cli) -> None:
    """As many as the trace has of each, with latencies."""
    trace = generated(cli.folder / "short.trace.zst", 3000)
    kinds = Counter(o.op for o in Trace(trace))
    cli("replay", "sim:?latency_ns=1ms", trace, "--quiet", "-o", "r.html").ok()
    table = (cli.folder / "r.html").read_text().partition('id="replay-table"')[2].partition("</table>")[0]
    rows = [re.findall("<td>(.*?)</td>", row) for row in table.split("<tr>")[2:]]
    assert {row[0].lower(): int(row[1].replace(",", "")) for row in rows} == kinds
    assert all(row[1] == row[2] and row[3] and row[4] for row in rows)


@pytest.mark.lab
@pytest.mark.parametrize(("many", "operations", "most_bytes"), [(False, 200_000, 100e6), (True, 180_000, 120e6)])
def test_a_long_trace_in_little_memory(many: bool, operations: int, most_bytes: float, cli: Cli) -> None:
    """All operations are issued, and memory grows with the files by less than 700 bytes each."""
    name = cli.folder / "long.trace.zst"
    trace = many_files(name, operations // 3) if many else generated(name, operations)
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
    assert told["equal"] and not told["skipped"] and not told["added"] and told["streams"] == (1 if many else 4)
    assert sum(row["issued"] for row in told["operations"]) == operations
    assert int(done.stderr.split()[-1]) * 1024 < most_bytes, done.stderr


def test_ctrl_c_leaves_nothing(cli: Cli) -> None:
    made = cli.folder / "slow.trace"
    with TraceWriter(made, Header(source="naslab")) as writer:
        writer.write(Operation(start_ns=0, stream=0, op="create", path="d/file", handle=0, flags="w"))
        for at in range(600):
            writer.write(Operation(start_ns=at * 10**8, stream=0, op="write", handle=0, offset_bytes=at, len_bytes=9))
    child = cli.start("replay", cli.target, made, "--pace", "recorded")
    wait_until(lambda: list(cli.target.glob("*/naslab.files/d/file")), child, "the first file")
    child.send_signal(signal.SIGINT)
    err = child.communicate(timeout=HANG_S)[1]
    assert child.returncode == 130 and "interrupted; the results so far are stored" in err, err
    assert list(cli.target.iterdir()) == []
    (run,) = cli.runs()
    assert run["status"] == "partial"


def far(cli: Cli, kind: Any) -> Path:
    """A trace that moves one byte at a place where no disk has any."""
    made = cli.folder / f"far-{kind}.trace"
    with TraceWriter(made, Header(source="naslab")) as writer:
        writer.write(Operation(start_ns=0, stream=0, op=kind, path="a", offset_bytes=1 << 62, len_bytes=1))
    return made


def test_bad_traces(cli: Cli) -> None:
    """A trace that breaks off ends it before anything is written; so do options that cannot be met."""
    made = generated(cli.folder / "x.trace", 1000)
    cut = cli.folder / "cut.trace"
    cut.write_bytes(made.read_bytes()[:-300])
    for words, told in (((cut,), "cut.trace"), ((cli.folder / "none.trace",), "none.trace"),
                        ((made, "--max-streams", "2"), "--max-streams 2"),
                        ((made, "--max-bytes", "1m"), "--max-bytes 1m"),
                        ((far(cli, "read"),), "far-read.trace: needs files of"),
                        ((far(cli, "write"),), "free some space"),
                        ((far(cli, "read"), "--max-bytes", "1m"), "needs files of")):  # fmt: skip
        done = cli("replay", cli.target, *words).sound()
        assert done.code == 2 and told in done.err and done.err.count("\n") == 1, done.err
        assert list(cli.target.iterdir()) == []
