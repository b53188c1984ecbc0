"""Files that naslab writes: none of others is overwritten, and each appears whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from naslab.errors import StoreError, UsageError
from naslab.render.report import write as write_report
from naslab.results.run import Run
from naslab.text import outputs
from naslab.text.outputs import check_output, forcing, write_output, written
from naslab.trace import Header, TraceWriter

OURS = '<!doctype html>\n<head><meta name="generator" content="naslab 0.2"></head>\n'
KINDS = {name: kind for name, kind in vars(outputs).items() if isinstance(kind, outputs.Kind)}
OTHERS = {
    "text": b"lab.example.net\n", "html": b"<html><head><title>naslab</title></head></html>",
    "binary": bytes(range(256)), "zip": b"PK\x03\x04" + bytes(40),
    "ole": b"\xd0\xcf\x11\xe0" + bytes(600), "json": b'{"schema": 1}\n',
}  # fmt: skip


@pytest.mark.parametrize("content", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_file_of_others_is_refused_and_kept(kind: outputs.Kind, content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=rf"-o {file}: the file exists.*name another, or give --force"):
        check_output(file, "-o", kind)
    with pytest.raises(UsageError), written(file, "-o", kind):
        pytest.fail("nothing is begun for a file that may not be replaced")
    assert file.read_bytes() == content and os.listdir(tmp_path) == ["file"]
    with forcing(True):
        write_output("new", file, "-o", kind)
    assert file.read_text() == "new"
    with pytest.raises(UsageError):
        check_output(file, "-o", kind)


def test_what_naslab_wrote_as_this_kind_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(OURS)
    check_output(file, "-o", outputs.HTML)
    write_output(OURS + "2", file, "-o", outputs.HTML)
    assert file.read_text() == OURS + "2"
    for name, kind in KINDS.items():
        if name != "HTML":
            with pytest.raises(UsageError, match="the file exists"):
                check_output(file, "-o", kind)


def test_each_kind_recognises_what_its_writer_writes(tmp_path: Path, run: Run) -> None:
    from naslab.exchange.excel import write_workbook
    from naslab.trace.picture import _PAGE

    write_report([run], tmp_path / "report.html")
    assert outputs.HTML.own(tmp_path / "report.html")
    (tmp_path / "picture.html").write_text(_PAGE)
    assert outputs.HTML.own(tmp_path / "picture.html")
    for name in ("t.trace", "t.trace.zst"):
        with TraceWriter(tmp_path / name, Header(source="fio")):
            pass
        assert outputs.TRACE.own(tmp_path / name)
    write_workbook([run], tmp_path / "run.xlsx")
    assert outputs.WORKBOOK.own(tmp_path / "run.xlsx")


def test_an_empty_file_and_a_device_are_free(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch(mode=0o640)
    write_output("text", empty, "-o", outputs.HTML)
    assert empty.read_text() == "text" and stat.S_IMODE(empty.stat().st_mode) == 0o640
    write_output("text", Path("/dev/null"), "-o", outputs.HTML)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode), "it is written to and not replaced"


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_output("text", pipe, "-o", outputs.HTML)
        assert os.read(reader, 10) == b"text"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.lstat().st_mode)


def test_a_link_stays_and_its_file_is_judged(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("of others")
    (tmp_path / "link").symlink_to("there")
    with pytest.raises(UsageError, match="the file exists and is not a naslab report"):
        check_output(tmp_path / "link", "-o", outputs.HTML)
    (tmp_path / "there").write_text(OURS)
    write_output("new", tmp_path / "link", "-o", outputs.HTML)
    assert (tmp_path / "link").is_symlink() and (tmp_path / "there").read_text() == "new"
    (tmp_path / "dangling").symlink_to("later")
    write_output("new", tmp_path / "dangling", "-o", outputs.HTML)
    assert (tmp_path / "dangling").is_symlink() and (tmp_path / "later").read_text() == "new"
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(UsageError, match=r"-o .*round: "):
        check_output(tmp_path / "round", "-o", outputs.HTML)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda folder: folder, "this is a folder; name a file in it"),
        (lambda folder: folder / "none" / "file", "there is no folder .*none; create it first, or name another"),
        (lambda folder: folder / "file" / "more", "file is not a folder; name another file|not a directory"),
        (lambda folder: folder / ("n" * 300), "name too long"),
        (lambda folder: Path("-"), "not standard output; name one"),
        (lambda folder: Path("a\0b"), "null"),
    ],
)
def test_a_place_where_nothing_can_be(make: Callable[[Path], Path], says: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(OURS)
    with forcing(True), pytest.raises(UsageError, match=says):
        check_output(make(tmp_path), "-o", outputs.HTML)
    assert os.listdir(tmp_path) == ["file"]


def test_nothing_is_left_when_the_writing_fails(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text(OURS)
    says = f"-o {file}: it cannot be written: no space left"
    with pytest.raises(StoreError, match=says), written(file, "-o", outputs.HTML) as temporary:
        temporary.write_text("half")
        raise OSError(28, "No space left on device")
    with pytest.raises(KeyboardInterrupt), written(file, "-o", outputs.HTML):
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == ["file"] and file.read_text() == OURS
