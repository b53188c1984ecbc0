"""The trace format: what is written is read back, and what breaks a rule is refused by file and line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from lengths import inputs
from naslab.errors import TraceError, UsageError
from naslab.text.outputs import forcing
from naslab.trace import Anonymiser, Header, Operation, Trace, TraceWriter, read_trace
from naslab.trace.format import FLAGS, MAX_HANDLE, RULES, problem
from naslab.trace.names import name_text, path_problem
from naslab.trace.reader import MAX_INFERRED_HANDLES
from naslab.trace.writer import LATE, LONG_HIDDEN

HEADER = '{"naslab_trace": 1, "source": "naslab"}'


def lines_file(path: Path, *operations: object, end: bool = True, header: str = HEADER) -> Path:
    """A plain trace of these lines (texts or dictionaries), with a matching end line."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in operations]
    streams = {json.loads(line).get("s") for line in texts} if end else set()
    if end:
        texts.append(json.dumps({"end": {"operations": len(texts), "streams": len(streams)}}))
    path.write_text("\n".join([header, *texts]) + "\n")
    return path


def op(kind: str, t: int = 0, s: int = 0, **more: Any) -> dict[str, Any]:
    return {"t": t, "s": s, "op": kind, **more}


OPEN = op("open", f="a/b", h=0, x="r")


def test_written_traces_are_read_back(tmp_path: Path) -> None:
    for name in ("x.trace", "x.trace.zst", "x"):
        made = tmp_path / name
        header = Header(source="strace", command="cp a b", started_at="2026-01-01T00:00:00Z", root="/r")
        with TraceWriter(made, header) as writer:
            writer.write(Operation(start_ns=5, stream=1, op="create", path="ü/b", handle=77, flags="rwt"))
            writer.write(
                Operation(start_ns=6, stream=1, op="write", path="ü/b", handle=77, offset_bytes=0, len_bytes=9)
            )
            writer.write(Operation(start_ns=7, stream=2, op="close", path="ü/b", handle=77, duration_ns=3))
            writer.skip("mmap", 2)
            writer.note("hello")
            writer.note("hello")
            assert not made.exists(), "it appears when it is whole"
        assert made.read_bytes().startswith(b"\x28\xb5\x2f\xfd") == (name != "x.trace")
        assert list(tmp_path.iterdir()) == [made]
        trace = Trace(made)
        assert trace.header == header and trace.end is None
        operations = list(trace)
        assert [o.op for o in operations] == ["create", "write", "close"]
        assert [o.path for o in operations] == ["ü/b"] * 3 and {o.handle for o in operations} == {0}
        assert operations[2].duration_ns == 3 and operations[1].len_bytes == 9
        assert trace.end is not None and trace.end.skipped == {"mmap": 2} and trace.end.notes == ["hello"]
        assert list(trace) == operations, "it can be read again"
        again_header, again = read_trace(made)
        assert again_header == header and list(again) == operations
        made.unlink()


def test_operations_come_in_the_order_of_their_starts(tmp_path: Path) -> None:
    made = tmp_path / "x.trace"
    with TraceWriter(made, Header(source="strace")) as writer:
        for start_ns in (5, 3, 9):
            writer.write(Operation(start_ns=start_ns, stream=0, op="stat", path="a"))
        writer.settle(6)
        writer.write(Operation(start_ns=2, stream=0, op="stat", path="late"))
        writer.write(Operation(start_ns=8, stream=0, op="stat", path="b"))
    trace = Trace(made)
    assert [(o.start_ns, o.path) for o in trace] == [(3, "a"), (5, "a"), (5, "late"), (8, "b"), (9, "a")]
    assert trace.end is not None and trace.end.skipped == {LATE: 1}


def test_handles_after_their_close(tmp_path: Path) -> None:
    """A number that the source uses again is another handle; a use without a name is counted."""
    made = tmp_path / "x.trace"
    with TraceWriter(made, Header(source="pcap")) as writer:
        for i in range(2):
            writer.write(Operation(start_ns=i * 10, stream=0, op="open", path=f"f{i}", handle=5))
            writer.write(Operation(start_ns=i * 10 + 1, stream=0, op="close", path=f"f{i}", handle=5))
        writer.write(Operation(start_ns=20, stream=0, op="flush", handle=5))
        writer.write(Operation(start_ns=21, stream=0, op="flush", handle=5, path="f1"))
    trace = Trace(made)
    assert [(o.op, o.path, o.handle) for o in trace] == [
        ("open", "f0", 0), ("close", "f0", 0), ("open", "f1", 1), ("close", "f1", 1), ("open", "f1", 2),
        ("flush", "f1", 2),
    ]  # fmt: skip
    assert trace.end is not None and trace.end.skipped == {"use of a closed handle": 1}


def test_nothing_is_left_of_a_failed_writing(tmp_path: Path) -> None:
    made = tmp_path / "x.trace.zst"
    with pytest.raises(RuntimeError), TraceWriter(made, Header(source="fio")):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    made.write_text("before")
    with pytest.raises(UsageError, match="exists"), TraceWriter(made, Header(source="fio")):
        pytest.fail("nothing is begun in place of a file that is there")
    with forcing(True), pytest.raises(RuntimeError), TraceWriter(made, Header(source="fio")) as writer:
        writer.write(Operation(start_ns=2, stream=0, op="stat", path="a"))
        raise RuntimeError
    assert [path.name for path in tmp_path.iterdir()] == [made.name] and made.read_text() == "before"
    with forcing(True), pytest.raises(ValueError, match="absolute"), TraceWriter(made, Header(source="fio")) as writer:
        writer.write(Operation(start_ns=2, stream=0, op="stat", path="/etc"))


def test_handles_that_were_never_opened_are_opened(tmp_path: Path) -> None:
    path = lines_file(tmp_path / "x", op("read", f="a", h=7, o=0, n=5), op("close", h=7))
    assert [(o.op, o.handle, o.path, o.flags) for o in Trace(path)] == [
        ("open", 7, "a", "rwi"), ("read", 7, "a", ""), ("close", 7, "a", ""),
    ]  # fmt: skip


def test_files_without_handles_get_some(tmp_path: Path) -> None:
    """NFS 3 reads and writes by name: open once, closed when it is renamed or removed, not too many at once."""
    path = lines_file(
        tmp_path / "x",
        op("write", f="d/a", o=0, n=5), op("flush", f="d/a"), op("read", f="b", o=0, n=5), op("stat", f="b"),
        op("rename", f="d", to="e"), op("read", f="e/a", o=0, n=5),
    )  # fmt: skip
    found = [(o.op, None if o.handle is None else o.handle - MAX_HANDLE - 1, o.path) for o in Trace(path)]
    assert found == [
        ("open", 0, "d/a"), ("write", 0, "d/a"), ("flush", 0, "d/a"), ("open", 1, "b"), ("read", 1, "b"),
        ("stat", None, "b"), ("close", 0, "d/a"), ("rename", None, "d"), ("open", 2, "e/a"), ("read", 2, "e/a"),
    ]  # fmt: skip
    many = [op("read", f=f"f{i}", o=0, n=1) for i in range(MAX_INFERRED_HANDLES + 3)]
    closed = [o.path for o in Trace(lines_file(tmp_path / "y", *many)) if o.op == "close"]
    assert closed == ["f0", "f1", "f2"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([op("read", h=0, o=0, n=1)], "line 2: read of handle 0, which was never opened"),
        ([op("close", h=0, f="a")], "line 2: close of handle 0, which was never opened"),
        ([OPEN, op("close", h=0), op("read", h=0, o=0, n=1, f="a/b")], "line 4: read of handle 0, which is closed"),
        ([OPEN, op("close", h=0), OPEN], '"h" 0 was used before'),
        ([op("open", f="a")], 'open without "h", and it did not fail'),
        ([op("read", h=0, n=1)], 'read without "o"'),
        ([op("read", o=0, n=1)], 'read without "h" or "f"'),
        ([op("rename", f="a")], 'rename without "to"'),
        ([op("mkdir", f="a", h=3)], 'mkdir with "h", which it does not use'),
        ([op("stat", f="a", o=3)], 'stat with "o"'),
        ([op("stat", f="../x")], "has the component '..'"),
        ([op("stat", f="a/./x")], "has the component '.'"),
        ([op("stat", f="a//x")], "has the component ''"),
        ([op("stat", f="/x")], "is absolute"),
        ([op("stat", f="")], "is empty"),
        ([op("stat", f="a\0")], "write it as %00"),
        ([op("rename", f="a", to="..\\..\\x")], '"to"'),
        ([op("rename", f="a", to="a/b")], "\"to\" 'a/b' cannot come from 'a'"),
        ([op("link", f=".", to="a/b")], "cannot come from"),
        ([op("rename", f="a/b", to="a")], "cannot come from"),
        ([op("stat", f="x" * 5000)], "longer than 4096"),
        ([op("stat", f="ü" * 3000)], "longer than 4096 bytes"),
        ([op("write", f="a", o=0, n=2**33)], "no request moves more than 4294967296"),
        ([op("stat", t=-1, f="a")], '"t": expected "int" >= 0'),
        ([op("stat", t=1.5, f="a")], '"t": expected "int", got "float"'),
        ([op("stat", t=5, f="a"), op("stat", t=4, f="a")], 'line 3: "t" 4 is before'),
        ([op("stat", s=-1, f="a")], '"s": expected'),
        ([op("read", h=0, o=-1, n=1)], '"o": expected'),
        ([op("read", h=0, o=2**63 - 1, n=1)], "beyond the largest file"),
        ([op("read", h=0, o=0, n="1")], '"n": expected'),
        ([op("open", f="a", h=MAX_HANDLE + 1)], f'"h" {MAX_HANDLE + 1} is above'),
        ([op("explode", f="a")], "invalid enum value 'explode'"),
        ([op("stat", f="a", zz=1)], "unknown field"),
        ([op("stat", f="a", e="no such")], '"e"'),
        ([op("open", f="a", h=0, x="q")], '"x"'),
        (["[]"], "expected"),
    ],
)
def test_broken_rules(lines: list[object], message: str, tmp_path: Path) -> None:
    path = lines_file(tmp_path / "bad.trace", *lines, end="[]" not in lines)
    with pytest.raises(TraceError, match=r"bad\.trace, line \d+: ") as caught:
        list(Trace(path))
    assert message in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"", "is empty"),
        (b"hello\n", "line 1: not a trace header"),
        (b"{}\n", "line 1: not a trace header"),
        (b'{"naslab_trace": 2, "source": "x"}\n', "line 1: version '2' of the format; this naslab reads 1"),
        (b'{"naslab_trace": 1}\n', "line 1: .*source"),
        (b'{"naslab_trace": 1, "source": "naslab", "skipped": {"x": -1}}\n', "line 1: .*skipped"),
        (HEADER.encode(), "cut off after line 1: the end line is missing"),
        (HEADER.encode() + b'\n{"t":0,"s":0,"op":"st', "line 2: "),
        (HEADER.encode() + b"\n\n", "line 2: empty"),
        (HEADER.encode() + b"\n\xff\xfe\n", "line 2: "),
        (HEADER.encode() + b'\n{"end":{"operations":1,"streams":0}}\n', "line 2: it reports 1 operations"),
        (HEADER.encode() + b'\n{"end":{"operations":0,"streams":0,"more":1}}\n', "line 2: .*more"),
        (HEADER.encode() + b'\n{"end":{"operations":0,"streams":0}}\n{}\n', "line 3: there is more after the end line"),
        (HEADER.encode() + b"\n" + b" " * (1 << 21) + b"\n", "line 2: longer than 1048576 bytes"),
        (b"x" * (1 << 21), "line 1: longer than"),
        (b"\x28\xb5\x2f\xfdgarbage", "damaged after line 0"),
        (HEADER.encode() + b"\n" + b"[" * 100_000 + b"\n", "line 2: "),
        (b"[" * 900_000 + b"\n", "line 1: not a trace header"),
        (b'{"naslab_trace":' + b"[" * 400_000 + b"]" * 400_000 + b"}\n", "line 1: not a trace header"),
    ],
)
def test_broken_files(contents: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.trace"
    path.write_bytes(contents)
    with pytest.raises(TraceError, match=message) as caught:
        list(Trace(path))
    assert "bad.trace" in str(caught.value) and len(str(caught.value)) < 500


def test_no_file(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(TraceError, match="cannot be read"):
            Trace(path)


def test_cut_compression_is_noticed_everywhere(tmp_path: Path) -> None:
    """Wherever a compressed trace is cut: an error that names it, never a shorter trace."""
    whole = tmp_path / "x.zst"
    with TraceWriter(whole, Header(source="naslab")) as writer:
        for i in range(3000):
            writer.write(Operation(start_ns=i * 977, stream=i % 7, op="stat", path=f"d{i % 91}/f{i * i % 1013}"))
    data = whole.read_bytes()
    cut = tmp_path / "cut.zst"
    for length in range(1, len(data) - 4, max(1, len(data) // 150)):
        cut.write_bytes(data[:length])
        with pytest.raises(TraceError, match=r"cut\.zst"):
            list(Trace(cut))
    for at in range(0, len(data), max(1, len(data) // 100)):
        cut.write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        with pytest.raises(TraceError, match=r"cut\.zst"):
            list(Trace(cut))


def test_a_huge_window_is_refused(tmp_path: Path) -> None:
    """A frame that asks its reader for gigabytes of memory."""
    parameters = zstandard.ZstdCompressionParameters(window_log=29, enable_ldm=False)
    path = tmp_path / "big.zst"
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    path.write_bytes(packer.compress(b"x" * 1000) + packer.flush())
    with pytest.raises(TraceError, match="damaged after line 0"):
        Trace(path)


def test_a_small_file_that_unpacks_to_terabytes_is_refused(tmp_path: Path) -> None:
    """Lines that are right one by one, without an end; half a gigabyte of them is enough to know."""
    path = tmp_path / "bomb.zst"
    line = json.dumps(op("stat", f="x" * 4000)).encode() + b"\n"
    packer = zstandard.ZstdCompressor().compressobj(size=-1)
    with path.open("wb") as out:
        out.write(packer.compress(HEADER.encode() + b"\n"))
        for _ in range(500):
            out.write(packer.compress(line * 256))
        out.write(packer.flush())
    assert path.stat().st_size < 1 << 18
    with pytest.raises(TraceError, match=r"bomb\.zst: unpacks to more than 200 times its size"):
        list(Trace(path))


@pytest.mark.parametrize(
    ("limit", "lines"),
    [
        ("MAX_STREAMS", [op("stat", s=s, f="a") for s in range(6)]),
        ("MAX_OPEN", [op("open", f="a", h=h) for h in range(6)]),
        ("MAX_OPEN", [op("read", f="a", h=h, o=0, n=0) for h in range(6)]),
    ],
)
def test_streams_and_open_files_are_bounded(
    limit: str, lines: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What costs memory for each: refused by readers, and by writers too, so that they write nothing unreadable."""
    path = lines_file(tmp_path / "x", *lines)
    for most in (6, 5):
        monkeypatch.setattr(f"naslab.trace.reader.{limit}", most)
        monkeypatch.setattr(f"naslab.trace.writer.{limit}", most)
        if most == 6:
            operations = list(Trace(path))
            continue
        with pytest.raises(TraceError, match="line 7: more than"):
            list(Trace(path))
        with pytest.raises(TraceError, match="more than 5"), TraceWriter(tmp_path / "y", Header(source="pcap")) as out:
            for operation in operations:
                out.write(operation)
    assert [each.name for each in tmp_path.iterdir()] == ["x"]


def test_names_that_are_too_long_once_they_are_hidden(tmp_path: Path) -> None:
    """Each component becomes 16 digits: what has hundreds of short ones is counted, and what is done to it."""
    made, path = tmp_path / "x.trace", "/".join("a" * 400)
    with TraceWriter(made, Header(source="strace"), Anonymiser()) as writer:
        for kind in ("open", "close"):
            writer.write(Operation(start_ns=0, stream=0, op=kind, path=path, handle=1))  # type: ignore[arg-type]
        writer.write(Operation(start_ns=0, stream=0, op="rename", path="b", to_path=path))
        writer.write(Operation(start_ns=0, stream=0, op="stat", path="b"))
    assert [o.op for o in Trace(made)] == ["stat"] and writer.skipped == {LONG_HIDDEN: 3}


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"plain", "plain"), ("ü".encode(), "ü"), (b"100%", "100%"), (b"%41", "%2541"), (b"\xff", "%FF"),
        (b"a\\b", "a%5Cb"), (b"line\nbreak", "line\nbreak"), (b"\xc3", "%C3"), (b"%zz%4", "%zz%4"),
    ],
)  # fmt: skip
def test_names_of_any_bytes(raw: bytes, text: str) -> None:
    assert name_text(raw) == text


@given(st.binary(max_size=40).filter(lambda raw: b"\0" not in raw and b"/" not in raw))
def test_escaped_names_stand_for_one_name_each(raw: bytes) -> None:
    import re

    text = name_text(raw)
    back = re.sub(rb"%([0-9A-Fa-f]{2})", lambda found: bytes([int(found[1], 16)]), text.encode())
    assert back == raw
    assert raw in (b"", b".", b"..") or path_problem(text) is None


def test_anonymised_names(tmp_path: Path) -> None:
    made = tmp_path / "x.trace"
    secret = Header(source="strace", command="tar secret", root="/home/secret")
    with TraceWriter(made, secret, Anonymiser()) as writer:
        writer.write(Operation(start_ns=0, stream=0, op="open", path="secret/a.jpg", handle=1))
        writer.write(Operation(start_ns=1, stream=0, op="rename", path="secret/a.jpg", to_path="secret/b.tar"))
        writer.write(Operation(start_ns=2, stream=0, op="stat", path="."))
        writer.write(Operation(start_ns=2, stream=0, op="stat", path=".secret"))
    assert "secret" not in made.read_text()
    trace = Trace(made)
    opened, renamed, root, hidden = list(trace)
    assert trace.header.anonymised and trace.header.command is None and trace.header.root is None
    assert opened.path == renamed.path and root.path == "." and "." not in str(hidden.path)
    assert str(opened.path).endswith(".jpg") and str(renamed.to_path).endswith(".tar")
    assert str(opened.path).split("/")[0] == str(renamed.to_path).split("/")[0]
    names = {Anonymiser(keep).path("secret/a.jpg") for keep in (True, True, False)}
    assert len(names) == 3, "another key each time"
    assert Anonymiser(False).path("x.jpg").isalnum()
    same = [Anonymiser(True, b"k" * 32).path("x/y") for _ in range(2)]
    assert same[0] == same[1]


PATHS = st.sampled_from(["a", "d/b", "d", "..", "/x", ".", "a\\b", "ü", "%FF"])
NUMBERS = st.sampled_from([0, 1, 5, 2**40, 2**62, 2**63 - 1])
OPERATIONS = st.fixed_dictionaries(
    {"t": st.integers(0, 9), "s": st.integers(0, 2), "op": st.sampled_from(sorted(RULES))},
    optional={
        "f": PATHS, "to": PATHS, "h": st.integers(0, 4), "o": NUMBERS, "n": NUMBERS, "q": NUMBERS, "len": NUMBERS,
        "d": NUMBERS, "x": st.text(FLAGS, max_size=3), "e": st.just("ENOENT"),
    },
)  # fmt: skip


@settings(max_examples=inputs(300), deadline=None)
@given(st.lists(OPERATIONS, max_size=12))
def test_any_lines_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, lines: list[dict[str, Any]]) -> None:
    """What is read obeys the rules that readers of traces rely on."""
    lines.sort(key=lambda line: line["t"])
    path = lines_file(tmp_path_factory.mktemp("fuzz") / "x", *lines)
    opened: set[int] = set()
    try:
        for o in Trace(path):
            assert problem(o) is None or o.handle is None or o.handle > MAX_HANDLE or o.op == "close" or o.path
            if o.op in ("open", "create") and o.error is None:
                assert o.handle is not None and o.handle not in opened
                opened.add(o.handle)
            elif o.op in ("read", "write", "flush", "close"):
                assert o.handle in opened and o.path is not None
                if o.op == "close" and o.error is None:
                    opened.discard(o.handle)  # type: ignore[arg-type]
    except TraceError as error:
        assert str(path) in str(error)


@settings(max_examples=inputs(300), deadline=None)
@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes, header: bool) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "x"
    path.write_bytes((HEADER.encode() + b"\n" if header else b"") + data)
    with pytest.raises(TraceError):
        list(Trace(path))


def test_the_documented_format_is_the_one_that_is_read(tmp_path: Path) -> None:
    """The example is a trace; the tables name every operation and flag with the fields it must and may have."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "trace.md").read_text()
    example = tmp_path / "x.trace"
    example.write_text(page.split("```text\n")[1].split("```")[0])
    assert [o.op for o in Trace(example)] == ["open", "create", "read", "write", "close", "close"]
    documented = {}
    for line in page.split("| `op` | must have")[1].split("\n\n")[0].splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == 4 and cells[0].startswith("`"):
            for name in cells[0].replace("`", "").split(", "):
                documented[name] = cells[1:3]
    assert set(documented) == set(RULES)
    for name, (needs, may) in documented.items():
        rule = RULES[name]
        assert all(f"`{field}`" in needs for field in rule.needs), name
        assert all(f"`{field}`" in needs + may for field in rule.may), name
        assert ("`h` or `f`" in needs) == rule.file, name
    fields = page.split("### Operations")[1].split("`op` | must")[0]
    assert all(f"| `{field}` |" in fields for field in Operation.__struct_encode_fields__)
    assert all(f"`{flag}` " in fields.split("| `x` |")[1] for flag in FLAGS)
