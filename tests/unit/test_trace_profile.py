"""What a trace needs before it is replayed, and its profile: definitions on small traces, memory on a large one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from msgspec import convert, to_builtins

from naslab.cli import main
from naslab.trace import FileSet, Header, Operation, Trace, TraceWriter, files_of
from naslab.trace.described import DescribedTrace, PowerCount, TraceTree
from naslab.trace.profile import Profile
from naslab.trace.text import profile_text


class Script:
    """Operations in a row, a microsecond apart."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []

    def __call__(self, op: Any, path: str | None = None, **more: Any) -> Script:
        start_ns = more.pop("start_ns", len(self.operations) * 1000)
        stream = more.pop("stream", 0)
        self.operations.append(Operation(start_ns=start_ns, stream=stream, op=op, path=path, **more))
        return self

    def io(self, op: Any, handle: int, offset: int, length: int, **more: Any) -> Script:
        """A read or write of the file that this handle was opened on."""
        path = next(o.path for o in reversed(self.operations) if o.handle == handle and o.op in ("open", "create"))
        return self(op, path, handle=handle, offset_bytes=offset, len_bytes=length, **more)

    def needed(self) -> list[tuple[Any, ...]]:
        """(path, folder, need, known) of what must be there."""
        return [(f.path, f.folder, f.need_bytes, f.known_bytes) for f in files_of(self.operations)]


def test_what_is_read_must_be_there() -> None:
    s = Script()("open", "d/e/a", handle=0).io("read", 0, 0, 100).io("read", 0, 500, 10).io("read", 0, 600, 0)
    s("stat", "b", file_bytes=77)("stat", "c", error="ENOENT")("readdir", "f", len_bytes=3)("stat", "g", flags="f")
    s("open", "h", error="EACCES")("stat", ".", flags="f")
    assert s.needed() == [
        ("b", False, 0, 77), ("d", True, 0, None), ("d/e", True, 0, None), ("d/e/a", False, 510, None),
        ("f", True, 0, None), ("g", True, 0, None),
    ]  # fmt: skip
    assert [f.size_bytes for f in files_of(s.operations)] == [77, 0, 0, 510, 0, 0]


def test_what_the_trace_makes_need_not_be_there() -> None:
    s = Script()("mkdir", "d")("create", "d/a", handle=0, flags="rwt").io("write", 0, 0, 100).io("read", 0, 0, 100)
    s("close", "d/a", handle=0)("open", "d/a", handle=1, flags="r").io("read", 1, 50, 50)("rename", "d", to_path="e")
    s("stat", "e/a", file_bytes=100)("remove", "e/a")("rmdir", "e")
    assert s.needed() == []
    files = FileSet()
    for operation in s.operations:
        files.add(operation)
    assert (files.created_files, files.created_folders, files.removed, files.unreadable) == (1, 1, 2, 0)
    assert files.shape() == TraceTree(files=0, folders=0, depth=0, most_entries=0)


def test_files_that_may_be_made_are_there_if_their_old_contents_are_read() -> None:
    """O_CREAT without O_TRUNC: a database, or a new file; what is read and was never written tells."""
    s = Script()("create", "db", handle=0, flags="rw").io("write", 0, 0, 10).io("read", 0, 0, 10)
    assert s.needed() == []
    assert s.io("read", 0, 0, 11).needed() == [("db", False, 11, None)]
    seen = Script()("create", "db", handle=0, flags="rw")("stat", "db", handle=0, file_bytes=400)
    assert seen.needed() == [("db", False, 0, 400)]
    empty = Script()("create", "db", handle=0, flags="rw")("stat", "db", handle=0, file_bytes=0)
    assert empty.needed() == []
    assert Script()("create", "x", handle=0, flags="we", file_bytes=5).needed() == []


def test_cut_files() -> None:
    """After a truncation nothing of the old contents can be needed; reads beyond are told."""
    s = Script()("open", "a", handle=0, flags="rw").io("read", 0, 0, 100)("truncate", "a", handle=0, len_bytes=10)
    s.io("read", 0, 0, 10).io("read", 0, 0, 50)
    assert s.needed() == [("a", False, 100, None)]
    profile = Profile()
    for operation in s.operations:
        profile.add(operation)
    files = profile.document().files
    assert files.unreadable == 1 and files.needed_sizes == [PowerCount(128, 1)]
    cut = Script()("open", "a", handle=0, flags="wt").io("write", 0, 0, 10)
    assert cut.io("read", 0, 0, 90).needed() == [("a", False, 0, None)], (
        "an open without permission to make it: it was there"
    )


def test_names_at_the_start_survive_renames() -> None:
    s = Script()("rename", "d", to_path="e")("open", "e/sub/a", handle=0).io("read", 0, 0, 5)
    s("rename", "e/b", to_path="c")("open", "c", handle=1).io("read", 1, 0, 7)
    s("create", "e/new", handle=2, flags="wt")("link", "c", to_path="c2")("remove", "c")("remove", "c2")
    s("rename", "x", to_path="e/sub/a")
    assert s.needed() == [
        ("d", True, 0, None), ("d/b", False, 7, None), ("d/sub", True, 0, None), ("d/sub/a", False, 5, None),
        ("x", False, 0, None),
    ]  # fmt: skip


def profile_of(script: Script) -> dict[str, Any]:
    profile = Profile()
    for operation in script.operations:
        profile.add(operation)
    return to_builtins(profile.document())  # type: ignore[no-any-return]


def test_sequential_shares() -> None:
    """Two streams take turns, each sequential in its own file: 100 % per handle, none as the server sees it."""
    s = Script()("open", "a", handle=0)("open", "b", handle=1)
    for i in range(5):
        s.io("read", 0, i * 10, 10, stream=0).io("read", 1, i * 10, 10, stream=1)
    found = profile_of(s)
    assert found["sequential"] == {
        "per_handle": 1.0, "per_handle_read": 1.0, "per_handle_write": None, "per_stream": 1.0, "global": 0.0,
    }  # fmt: skip
    alone = Script()("open", "a", handle=0)
    for offset in (0, 10, 20, 50, 60):
        alone.io("read", 0, offset, 10)
    alone.io("read", 0, 60, 0)("open", "a", handle=1).io("read", 1, 70, 10)
    shares = profile_of(alone)["sequential"]
    assert shares["per_handle"] == 3 / 4, "the first request of a handle has none before it; empty ones are none"
    assert shares["per_stream"] == shares["global"] == 4 / 5, "another handle of the same file goes on"


def test_sizes_mix_and_failures() -> None:
    s = Script()("open", "a", handle=0)("stat", "no", error="ENOENT").io("write", 0, 0, 4096).io("write", 0, 0, 4097)
    s.io("read", 0, 0, 1).io("read", 0, 0, 4096).io("read", 0, 9000, 0)
    found = profile_of(s)
    assert found["operations"] == 7 and found["failed"] == 1 and found["errors"] == {"ENOENT": 1}
    assert (found["read_bytes"], found["written_bytes"]) == (4097, 8193)
    assert found["read_share_of_requests"] == 0.5 and found["read_share_of_bytes"] == 4097 / 12290
    assert found["requests"]["write"] == {
        "count": 2, "at_end_of_file": 0, "mean_bytes": 4096.5,
        "common": [{"bytes": 4096, "count": 1}, {"bytes": 4097, "count": 1}],
        "histogram": [{"up_to_bytes": 4096, "count": 1}, {"up_to_bytes": 8192, "count": 1}],
    }  # fmt: skip
    assert found["requests"]["read"]["histogram"][0] == {"up_to_bytes": 1, "count": 1}
    assert found["requests"]["read"]["at_end_of_file"] == 1
    assert found["concurrency"] is None and found["think"] is None, "no durations"


def test_time() -> None:
    """Two streams, 4 and 2 ms under way, 1 ms together, 3 ms nothing at the end of the pause."""
    ms = 1_000_000
    s = Script()("stat", "a", start_ns=0, duration_ns=4 * ms)(
        "stat", "b", start_ns=3 * ms, duration_ns=2 * ms, stream=1
    )
    s("stat", "a", start_ns=8 * ms, duration_ns=2 * ms)
    found = profile_of(s)
    assert found["duration_ns"] == 10 * ms
    assert found["concurrency"] == {
        "max": 2, "mean": 0.8, "mean_while_busy": 8 / 7,
        "share_of_time": [{"operations": n, "share": share} for n, share in ((0, 0.3), (1, 0.6), (2, 0.1))],
    }  # fmt: skip
    assert found["think"]["count"] == 1 and found["think"]["mean_ns"] == 4 * ms
    assert found["think"]["p50_below_ns"] == 1 << 22
    assert found["series"]["interval_ns"] == ms
    assert found["series"]["busy_ns"] == [ms, ms, ms, 2 * ms, ms, 0, 0, 0, ms, ms, 0]
    assert found["kinds"]["stat"]["mean_ns"] == 8 * ms // 3 and found["kinds"]["stat"]["max_ns"] == 4 * ms
    assert found["streams"]["busiest"][0] == {
        "stream": 0, "operations": 2, "bytes": 0, "think_mean_ns": 4 * ms,
    }  # fmt: skip


def test_long_traces_get_longer_intervals() -> None:
    s = Script()("open", "a", handle=0)
    for i in range(1000):
        s.io("write", 0, i, 1, start_ns=i * 10**9, duration_ns=10**9)
    series = profile_of(s)["series"]
    assert len(series["written_bytes"]) <= 240 and sum(series["written_bytes"]) == 1000
    assert sum(series["operations"]) == 1001 and sum(series["busy_ns"]) == 1000 * 10**9
    assert len(series["written_bytes"]) * series["interval_ns"] >= 999 * 10**9


def test_text_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = tmp_path / "x.trace.zst"
    s = Script()("open", "a", handle=0, duration_ns=500)
    for i in range(4000):
        s.io("read", 0, i * 65536, 65536, duration_ns=900)
    with TraceWriter(made, Header(source="fio", command="x\x1b[31m", started_at=None)) as writer:
        for operation in s.operations:
            writer.write(operation)
        writer.skip("mmap", 3)
        writer.note("a note")
    assert main(["trace", "show", str(made), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == 1 and document["end"]["skipped"] == {"mmap": 3}
    assert document["profile"]["sequential"]["global"] == 1.0 and document["header"]["source"] == "fio"
    assert main(["trace", "show", str(made)]) == 0
    text = capsys.readouterr().out
    assert text == profile_text(convert(document, DescribedTrace))
    for words in (
        "4,001", "262 MB read", "65,536 B (4,000)", "100.0 % as a server sees it", "a note",
        "needed first 1 files (262 MB", "mean 0.90", "         3  mmap",
    ):  # fmt: skip
        assert words in text, words
    assert "\x1b" not in text and max(map(len, text.splitlines())) < 120


def test_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One well-formed page that loads nothing; bars of the lengths that the numbers have; foreign text escaped."""
    made, drawn = tmp_path / "<x>.trace", tmp_path / "x.html"
    with TraceWriter(made, Header(source="fio", command="<script>alert(1)</script>")) as writer:
        for i in range(30):
            writer.write(Operation(start_ns=i * 10**8, stream=0, op="read", path="<b>", handle=0, duration_ns=10**7,
                                   offset_bytes=0, len_bytes=4096 if i % 3 else 70_000))  # fmt: skip
    assert main(["trace", "show", str(made), "-o", str(drawn)]) == 0
    page = drawn.read_text()
    document = ElementTree.fromstring(page.removeprefix("<!doctype html>\n"))
    assert "<script" not in page and "http:" not in page and "https:" not in page and "&lt;x&gt;.trace" in page
    charts = {svg.get("aria-label", "").split(":")[0]: svg for svg in document.iter("svg")}
    assert set(charts) == {
        "Read over time", "Operations over time", "Outstanding operations over time", "Sizes of reads",
        "Kinds of operations", "Concurrency", "Sizes of the files it needs",
    }  # fmt: skip
    widths = [float(bar.get("width", 0)) for bar in charts["Sizes of reads"].iter("rect")]
    assert len(widths) == 2 and abs(widths[0] / widths[1] - 2) < 0.01, "20 of 4 KiB, 10 of 128 KiB"
    assert "0.10 operations are outstanding" in page
    assert main(["trace", "show", str(made), "-o", str(tmp_path / "x.png")]) == 2
    assert "name it FILE.html" in capsys.readouterr().err


def test_an_empty_trace_has_a_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with TraceWriter(tmp_path / "x", Header(source="naslab")):
        pass
    assert main(["trace", "show", str(tmp_path / "x"), "-o", str(tmp_path / "x.html")]) == 0
    assert "<svg" not in (tmp_path / "x.html").read_text()
    assert "0 of 0 streams" in capsys.readouterr().out


_MAKE = """
import sys
from pathlib import Path
from naslab.trace import Header, Operation, TraceWriter
with TraceWriter(Path(sys.argv[1]), Header(source="naslab")) as writer:
    t = 0
    for i in range(100_000):
        path, stream = f"dir{i % 100}/file{i % 20_000}", i % 8
        writer.write(Operation(start_ns=t, stream=stream, op="open", path=path, handle=i, duration_ns=900))
        for k in range(8):
            t += 1000
            writer.write(Operation(start_ns=t, stream=stream, op="read", path=path, handle=i, duration_ns=900,
                                   offset_bytes=k * 65536, len_bytes=65536))
        t += 1000
        writer.write(Operation(start_ns=t, stream=stream, op="close", path=path, handle=i, duration_ns=900))
        writer.settle(t)
"""
_READ = """
import json, sys
from pathlib import Path
from naslab.trace import Trace, files_of
from naslab.trace.profile import Profile
trace, profile = Trace(Path(sys.argv[1])), Profile()
for operation in trace:
    profile.add(operation)
facts = [profile.document().operations, len(files_of(trace))]
# Not ru_maxrss, in which a child begins with the peak of its parent.
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps([*facts, int(peak.split()[1])]))
"""


@pytest.mark.lab
def test_a_million_operations_stream(tmp_path: Path) -> None:
    """Writing, `files_of` and the profile of a million operations on 20,000 files need less than 200 MB."""
    made = tmp_path / "big.trace.zst"
    subprocess.run([sys.executable, "-c", _MAKE, str(made)], check=True)
    done = subprocess.run([sys.executable, "-c", _READ, str(made)], check=True, capture_output=True, text=True)
    operations, files, peak_kib = json.loads(done.stdout)
    assert (operations, files) == (1_000_000, 20_100)
    assert peak_kib * 1024 < 200e6
    assert Trace(made).header.source == "naslab"
