"""fio's I/O logs and dbench's load files as traces, and what `naslab trace convert` refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lengths import inputs
from naslab.cli import main
from naslab.errors import NaslabError, TraceError
from naslab.trace import Anonymiser, Header, Operation, Trace, TraceWriter, files_of
from naslab.trace.convert import convert
from naslab.trace.dbench import convert_dbench
from naslab.trace.fio import convert_fio

FIO3 = """\
fio version 3 iolog
21 /data/x/a.0.0 add
30 /data/x/b 1 add
295 /data/x/a.0.0 open
297 /data/x/a.0.0 read 0 16384
498 /data/x/a.0.0 write 32768 16384
500 /data/x/a.0.0 sync 0 0
505 /data/x/a.0.0 trim 0 4096
600 /data/x/b 1 open
610 /data/x/b 1 read 4096 512
718 /data/x/a.0.0 close
fio version 3 iolog
20 /data/x/c add
140 /data/x/c open
300 /data/x/c datasync 0 0
400 /data/x/c close
"""
FIO2 = """\
fio version 2 iolog
/data/a add
/data/a open
/data/a read 0 100
/data/a wait 1500 0
/data/a write 100 100
/data/a close
"""
DBENCH = """\
# comment
0.000 Deltree "\\clients\\client1" 0x00000000
0.010 NTCreateX "\\clients\\client1\\~dmtmp" 0x1 0x2 10003 NT_STATUS_OK
0.011 Close 10003 NT_STATUS_OK
0.020 NTCreateX "\\clients\\client1\\~dmtmp\\A B.DOC" 0x40 0x5 10004 NT_STATUS_OK
WriteX 10004 0 65536 65536 NT_STATUS_OK
QUERY_FILE_INFORMATION 10004 258 NT_STATUS_OK
Flush 10004 NT_STATUS_OK
0.5 ReadX 10004 0 70000 65536 NT_STATUS_OK
ReadX 10004 70000 10 0 NT_STATUS_END_OF_FILE
QUERY_PATH_INFORMATION "\\clients\\client1\\no" 1004 NT_STATUS_OBJECT_NAME_NOT_FOUND
NTCreateX "\\clients\\client1\\no" 0x40 0x1 -1 0xc0000034
FIND_FIRST "\\clients\\client1\\~dmtmp\\*" 260 1366 3 NT_STATUS_OK
LockX 10004 0 10 NT_STATUS_OK
Close 10004 NT_STATUS_OK
Rename "\\clients\\client1\\~dmtmp\\A B.DOC" "\\clients\\client1\\~dmtmp\\C.DOC" NT_STATUS_OK
Unlink "\\clients\\client1\\~dmtmp\\C.DOC" 6 NT_STATUS_OK
Rmdir "\\clients\\client1\\~dmtmp" NT_STATUS_OK
"""


def operations(path: Path) -> list[Operation]:
    """All of them, but for those that the reader infers."""
    return [o for o in Trace(path) if "i" not in o.flags]


def converted(folder: Path, text: str, kind: str, **more: Any) -> tuple[list[Operation], dict[str, Any]]:
    source = folder / "source.txt"
    source.write_text(text)
    done = convert(source, folder / "made.trace", kind, more.get("root"), more.get("cwd"), more.get("anonymise"))
    return operations(folder / "made.trace"), done


def test_fio_3(tmp_path: Path) -> None:
    """Jobs are streams, merged by time; the folder that all files share is left out of names."""
    found, done = converted(tmp_path, FIO3, "")
    assert [(o.start_ns // 1000, o.stream, o.op, o.path, o.offset_bytes, o.len_bytes) for o in found] == [
        (140, 1, "open", "c", None, None), (295, 0, "create", "a.0.0", None, None),
        (297, 0, "read", "a.0.0", 0, 16384), (300, 1, "flush", "c", None, None), (400, 1, "close", "c", None, None),
        (498, 0, "write", "a.0.0", 32768, 16384), (500, 0, "flush", "a.0.0", None, None),
        (600, 0, "open", "b 1", None, None), (610, 0, "read", "b 1", 4096, 512),
        (718, 0, "close", "a.0.0", None, None),
    ]  # fmt: skip
    assert done["operations"] == 10 and done["skipped"] == {"trim": 1}
    assert [(f.path, f.need_bytes) for f in files_of(found)] == [("a.0.0", 16384), ("b 1", 4608), ("c", 0)]
    assert Trace(tmp_path / "made.trace").header.source == "fio"


def test_fio_2_and_a_root(tmp_path: Path) -> None:
    found, _ = converted(tmp_path, FIO2, "fio")
    assert [(o.start_ns, o.op) for o in found] == [
        (0, "create"), (0, "read"), (1_500_000, "write"), (1_500_000, "close"),
    ]  # fmt: skip
    found, done = converted(tmp_path, FIO3, "fio", root=Path("/data"))
    assert found[0].path == "x/c"
    found, done = converted(tmp_path, FIO3, "fio", root=Path("/other"))
    assert found == [] and done["skipped"]["outside the root"] == 11


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fio version 1 iolog\n", "line 1: version 1"),
        ("/data/a add\n", "line 1: a log of fio's begins with"),
        ("fio version 3 iolog\n1 /a open\n", "line 2: open of a file that was not added"),
        ("fio version 3 iolog\n1 /a add\n1 /a read 0 1\n", "line 3: read of a file that is not open"),
        ("fio version 3 iolog\n1 /a add\n1 /a open\n1 /a open\n", "line 4: open of a file that is open already"),
        ("fio version 3 iolog\n1 /a add\n1 /a open\n1 /a wait 0 1\n", 'line 4: "wait" has no place'),
        ("fio version 3 iolog\n1 /a add\n1 /a open\n1 /a read 0 -1\n", "line 4: '-1' is not a whole number"),
        ("fio version 3 iolog\n1 /a add\n1 /a read 9223372036854775807 9\n", "line 3: .*beyond the largest file"),
        ("fio version 3 iolog\n1 /a add\n1 /a open\n1 /a read 0 4294967297\n", "line 4: a request of 4294967297 bytes"),
        ("fio version 3 iolog\n/a add\n", "line 2: '/a' is not a whole number"),
        ("fio version 2 iolog\n/a jump\n", "line 2: '/a jump' is not a line of fio's log"),
        ("fio version 2 iolog\n/a wait 99999999999999999999 0\n", "line 2: .*not a whole number"),
        ("fio version 2 iolog\n" * 300, "line 257: more than 256 jobs"),
    ],
)
def test_bad_logs_of_fio(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=message):
        converted(tmp_path, text, "fio")
    assert [path.name for path in tmp_path.iterdir()] == ["source.txt"]


def test_files_of_a_log_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("naslab.trace.fio._MAX_FILES", 3)
    lines = "".join(f"1 /a/{number} add\n" for number in range(4))
    with pytest.raises(TraceError, match="line 5: more than 3 files in one log"):
        converted(tmp_path, "fio version 3 iolog\n" + lines, "fio")


def test_dbench(tmp_path: Path) -> None:
    found, done = converted(tmp_path, DBENCH, "")
    base = "clients/client1/~dmtmp"
    assert [(o.start_ns // 10**6, o.op, o.path, o.len_bytes, o.error) for o in found] == [
        (10, "mkdir", base, None, None), (10, "open", base, None, None), (11, "close", base, None, None),
        (20, "create", f"{base}/A B.DOC", None, None), (20, "write", f"{base}/A B.DOC", 65536, None),
        (20, "stat", f"{base}/A B.DOC", None, None), (20, "flush", f"{base}/A B.DOC", None, None),
        (500, "read", f"{base}/A B.DOC", 65536, None),
        (500, "read", f"{base}/A B.DOC", 0, "NT_STATUS_END_OF_FILE"),
        (500, "stat", "clients/client1/no", None, "NT_STATUS_OBJECT_NAME_NOT_FOUND"),
        (500, "open", "clients/client1/no", None, "NT_STATUS_0XC0000034"), (500, "readdir", base, 3, None),
        (500, "close", f"{base}/A B.DOC", None, None), (500, "rename", f"{base}/A B.DOC", None, None),
        (500, "remove", f"{base}/C.DOC", None, None), (500, "rmdir", base, None, None),
    ]  # fmt: skip
    assert found[3].flags == "rwt" and found[7].asked_bytes == 70000 and found[1].flags == "rf"
    assert done["skipped"] == {"DELTREE": 1, "LOCKX": 1}
    assert [f.path for f in files_of(found)] == ["clients", "clients/client1"]


def test_dbench_2_and_nfs(tmp_path: Path) -> None:
    """Names without quotes, no status, -1 for what fails; NFS operations by name; REPEAT."""
    text = "NTCreateX \\a\\b 0x40 0x2 5\nWriteX 5 0 10 10\nNTCreateX \\a\\c 0x40 0x1 -1\nClose 5\n"
    found, done = converted(tmp_path, text, "dbench")
    assert [(o.op, o.path, o.error) for o in found] == [
        ("create", "a/b", None), ("write", "a/b", None), ("open", "a/c", "ENOENT"), ("close", "a/b", None),
    ]  # fmt: skip
    assert any("no times" in note for note in done["notes"])
    nfs = (
        '0.040 CREATE3 "/c/f" 0x00000000\n1.0 WRITE3 "/c/f" 0 1024 0 0x00000000\nREPEAT 2\n'
        '1.1 READ3 "/c/f" 0 512 0x00000000\n1.2 READ3 "/c/f" *%100 512 0x00000000\n1.3 COMMIT3 "/c/f" 0x00000000\n'
        '1.4 LINK3 "/c/new" "/c/f" *\n1.5 GETATTR3 "/c" 0x00000000\n1.6 READDIRPLUS3 "/c" 0x00000000\n'
    )
    found, done = converted(tmp_path, nfs, "dbench")
    assert [o.op for o in found] == [
        "create", "close", "write", "read", "read", "flush", "link", "stat", "readdir",
    ]  # fmt: skip
    assert (found[6].path, found[6].to_path) == ("c/f", "c/new") and done["skipped"] == {"random offset": 1}


def test_dbench_by_name(tmp_path: Path) -> None:
    """The operations of its SMB back end, where the name stands for the handle; links of NFS are counted."""
    text = (
        'OPEN "/t" 0x2c SUCCESS\nWRITE "/t" 0 50 SUCCESS\nREAD "/t" 0 50 SUCCESS\nCLOSE "/t" SUCCESS\n'
        'OPEN "/t" 0x41 SUCCESS\nCLOSE "/t" *\nCLOSE "/u" ERROR\nREADDIR "/" SUCCESS\nUNLINK "/t" SUCCESS\n'
        'SYMLINK3 "/l" "/t" 0x00000000\nREMOVE3 "/l" 0x00000000\n'
    )
    found, done = converted(tmp_path, text, "dbench")
    assert [(o.op, o.path, o.handle, o.flags) for o in found] == [
        ("create", "t", 0, "rwt"), ("write", "t", 0, ""), ("read", "t", 0, ""), ("close", "t", 0, ""),
        ("open", "t", 1, "ra"), ("close", "t", 1, ""), ("readdir", ".", None, ""), ("remove", "t", None, ""),
    ]  # fmt: skip
    assert done["skipped"] == {"SYMLINK3": 1, "removed symbolic link": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('CLOSE "/t" SUCCESS', "line 1: 't' was never opened, or is closed"),
        ('OPEN "/t" 0x4 SUCCESS\nOPEN "/t" 0x4 SUCCESS', "line 2: 't' is open already"),
        ("WriteX 5 0 10 10 NT_STATUS_OK", "line 1: handle 5 was never opened, or is closed"),
        ('NTCreateX "\\a" 0x40 0x2 5 SUCCESS\nNTCreateX "\\b" 0x40 0x2 5 SUCCESS', "line 2: handle 5 is open already"),
        ('NTCreateX "\\a" 0x40 0x9 5 SUCCESS', "line 1: disposition 9"),
        ('NTCreateX "\\a" 0x40', "line 1: 2 arguments where at least 3 are needed"),
        ('Mkdir "\\..\\..\\etc" SUCCESS', "line 1: .*component"),
        ('NTCreateX "\\a" -5 0x1 5 SUCCESS', "line 1: '-5' is not a whole number"),
        ("Explode 5 SUCCESS", "line 1: 'Explode' is not an operation of dbench"),
        ("REPEAT -1", "line 1: REPEAT takes"),
        ("x" * 70_000, "line 1: longer than"),
    ],
)
def test_bad_load_files(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=message):
        converted(tmp_path, text, "dbench")
    assert [path.name for path in tmp_path.iterdir()] == ["source.txt"]


@pytest.mark.parametrize(
    ("text", "kind", "more", "message"),
    [
        ("nothing known\n", "", {}, "unknown format; name it with --from"),
        ("x", "cap", {}, "--from 'cap': use strace, fio, dbench or pcap"),
        ("1 1.0 close(3) = 0\n", "", {}, "--root is needed"),
        (DBENCH, "", {"root": Path("/x")}, "--root /x: dbench's names"),
        (FIO2, "", {"cwd": Path("/x")}, "--cwd /x: only strace"),
        ("hello\nworld\n", "strace", {"root": Path("/r")}, "lines are not from strace"),
    ],
)
def test_refused(text: str, kind: str, more: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(NaslabError, match=message) as caught:
        converted(tmp_path, text, kind, **more)
    assert caught.value.exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["source.txt"]


def test_strace_is_known_by_its_look(tmp_path: Path) -> None:
    text = '1 1700000000.500000 openat(AT_FDCWD, "b", O_RDONLY) = 3\n1 1700000001.500000 close(3) = 0\n'
    found, _ = converted(tmp_path, text, "", root=Path("/r"))
    assert [(o.op, o.path, o.start_ns) for o in found] == [("open", "b", 0), ("close", "b", 10**9)]
    header = Trace(tmp_path / "made.trace").header
    assert header.started_at == "2023-11-14T22:13:20.500+00:00" and header.root == "/r"
    found, _ = converted(tmp_path, text, "", root=Path("/r"), cwd=Path("/r/sub"), anonymise=Anonymiser())
    assert str(found[0].path).count("/") == 1 and "sub" not in str(found[0].path)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit codes, JSON, and files that are in the way."""
    source, made = tmp_path / "job.log", tmp_path / "job.trace.zst"
    source.write_text(FIO2)
    assert main(["trace", "convert", str(source), "-o", str(made), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["operations"] == 4
    assert main(["trace", "convert", str(source), "-o", str(made)]) == 2
    assert "exists; name another, or give --force" in capsys.readouterr().err
    assert main(["trace", "convert", str(source), "-o", str(made), "--force", "--anonymise"]) == 0
    said = capsys.readouterr()
    assert said.out == "" and "4 operations are in" in said.err and Trace(made).header.anonymised
    before = made.read_bytes()
    source.write_text(FIO2 + "/data/a jump\n")
    assert main(["trace", "convert", str(source), "-o", str(made), "--force"]) == 2
    assert "job.log, line 8: " in capsys.readouterr().err and made.read_bytes() == before
    assert main(["trace", "convert", str(tmp_path / "none"), "-o", str(tmp_path / "x")]) == 2
    assert "none: cannot be read: No such file" in capsys.readouterr().err
    for part in (b"", made.read_bytes()[:50]):
        (tmp_path / "cut.zst").write_bytes(part)
        assert main(["trace", "show", str(tmp_path / "cut.zst")]) == 2
        said = capsys.readouterr()
        assert said.out == "" and said.err.startswith("naslab: ") and "cut.zst" in said.err


WORDS = st.sampled_from(
    ["/a", "/b", "add", "open", "close", "read", "write", "wait", "sync", "0", "5", "-1", "99999999999999999999", "é"]
)
LOAD_WORDS = st.sampled_from([
    "OPEN", "READ", "WRITE", "SYMLINK3", "Unlink", "CREATE3", "/t",
    "NTCreateX", "Close", "ReadX", "WriteX", "Rename", "Deltree", "READ3", "FIND_FIRST", '"\\a"', '"\\a\\..\\b"', "0",
    "0x1", "0x2", "5", "-1", "*", "NT_STATUS_OK", "0xC0000034", "1.5", "REPEAT", "\\x",
])  # fmt: skip


@settings(max_examples=inputs(200), deadline=None)
@given(st.lists(st.lists(WORDS, max_size=5), max_size=12), st.sampled_from([2, 3]))
def test_any_fio_log(tmp_path_factory: pytest.TempPathFactory, lines: list[list[str]], version: int) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    source = folder / "s"
    source.write_text(f"fio version {version} iolog\n" + "\n".join(" ".join(words) for words in lines))
    try:
        with TraceWriter(folder / "x.trace", Header(source="fio")) as writer:
            convert_fio(source, writer, None)
    except TraceError as error:
        assert f"{source}, line " in str(error)
    else:
        list(Trace(folder / "x.trace"))


@settings(max_examples=inputs(200), deadline=None)
@given(st.lists(st.lists(LOAD_WORDS, min_size=1, max_size=6), max_size=12))
def test_any_load_file(tmp_path_factory: pytest.TempPathFactory, lines: list[list[str]]) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    source = folder / "s"
    source.write_text("\n".join(" ".join(words) for words in lines))
    try:
        with TraceWriter(folder / "x.trace", Header(source="dbench")) as writer:
            convert_dbench(source, writer)
    except TraceError as error:
        assert f"{source}, line " in str(error)
    else:
        list(Trace(folder / "x.trace"))


@settings(max_examples=inputs(200), deadline=None)
@given(st.binary(max_size=200), st.sampled_from(["", "strace", "fio", "dbench"]))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes, kind: str) -> None:
    """Refused, or a trace that can be read."""
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "s").write_bytes(data)
    root = Path("/r") if kind == "strace" else None
    try:
        convert(folder / "s", folder / "x.trace", kind, root, None)
    except NaslabError as error:
        assert error.exit_code == 2 and not (folder / "x.trace").exists()
    else:
        list(Trace(folder / "x.trace"))
