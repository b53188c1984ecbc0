"""strace's text as operations: descriptors, offsets, processes, names, and lines that are none."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lengths import inputs
from naslab.errors import NaslabError, TraceError
from naslab.trace import Header, Trace, TraceWriter
from naslab.trace.convert import convert
from naslab.trace.strace import UNREADABLE, Converter, convert_strace
from naslab.trace.strace_text import BadLineError, arguments, descriptor, quoted

ROOT = b"/r"


def converted(folder: Path, text: str, cwd: bytes | None = ROOT) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Operations as they stand in the file, and what was skipped. Lines get a process 1 and times where they lack."""
    lines = [line for line in text.splitlines() if line.strip()]
    timed = [
        line if line[0].isdigit() else f"1 {1_700_000_000 + i}.000000000 {line}" for i, line in enumerate(lines)
    ]  # fmt: skip
    source, made = folder / "s.txt", folder / "s.trace"
    source.write_text("\n".join(timed) + "\n", encoding="latin-1")
    with TraceWriter(made, Header(source="strace")) as writer:
        convert_strace(source, writer, ROOT, cwd)
    trace = Trace(made)
    list(trace)
    assert trace.end is not None
    raw = [msgspec.json.decode(line) for line in made.read_bytes().splitlines()[1:-1]]
    return raw, trace.end.skipped


def brief(operations: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Operation, handle or name, offset, length."""
    return [
        tuple(o[key] for key in ("op", "h", "f", "to", "o", "n", "e") if key in o) for o in operations
    ]  # fmt: skip


def test_one_file_from_open_to_close(tmp_path: Path) -> None:
    operations, skipped = converted(
        tmp_path,
        """
        openat(AT_FDCWD</r>, "a/b", O_RDWR|O_CREAT|O_TRUNC|O_CLOEXEC, 0666) = 3</r/a/b> <0.000010>
        write(3</r/a/b>, "x"..., 100) = 100 <0.000020>
        write(3</r/a/b>, "x"..., 100) = 60 <0.000020>
        lseek(3</r/a/b>, 10, SEEK_SET) = 10 <0.000020>
        read(3</r/a/b>, "x"..., 4096) = 150
        pread64(3</r/a/b>, "x"..., 5, 7) = 5
        pwrite64(3</r/a/b>, "x"..., 5, 1000) = 5
        fsync(3</r/a/b>) = 0
        ftruncate(3</r/a/b>, 12) = 0
        fstat(3</r/a/b>, {st_mode=S_IFREG|0644, st_size=12, ...}) = 0
        close(3</r/a/b>) = 0 <0.000030>
        """.replace("\n        ", "\n"),
    )
    assert brief(operations) == [
        ("create", 0, "a/b"), ("write", 0, 0, 100), ("write", 0, 100, 60), ("read", 0, 10, 150), ("read", 0, 7, 5),
        ("write", 0, 1000, 5), ("flush", 0), ("truncate", 0, 12), ("stat", 0), ("close", 0),
    ]  # fmt: skip
    assert operations[0]["x"] == "rwt" and operations[0]["d"] == 10_000 and operations[0]["t"] == 0
    assert operations[2]["q"] == 100 and operations[3]["q"] == 4096 and "q" not in operations[1]
    assert operations[8]["len"] == 12 and operations[-1]["t"] == 10 * 10**9 and operations[-1]["d"] == 30_000
    assert skipped == {}


def test_descriptors_are_shared_and_copied(tmp_path: Path) -> None:
    """dup shares the position; a file is closed with its last descriptor; dup2 closes what was there."""
    operations, _ = converted(
        tmp_path,
        """
open("/r/a", O_RDONLY) = 3
open("/r/b", O_RDONLY) = 4
dup(3) = 5
read(3, ""..., 10) = 10
read(5, ""..., 10) = 10
close(3) = 0
fcntl(5, F_DUPFD_CLOEXEC, 10) = 10
dup2(5, 4) = 4
read(4, ""..., 10) = 10
dup3(4, 7, O_CLOEXEC) = 7
close(5) = 0
close(4) = 0
execve("/bin/x", ["x"], 0x1 /* 3 vars */) = 0
read(7, ""..., 1) = -1 EBADF (Bad file descriptor)
""",
    )
    assert brief(operations) == [
        ("open", 0, "a"), ("open", 1, "b"), ("read", 0, 0, 10), ("read", 0, 10, 10), ("close", 1),
        ("read", 0, 20, 10), ("close", 0),
    ]  # fmt: skip


def test_children_copy_and_threads_share(tmp_path: Path) -> None:
    """A fork copies the table, a thread shares it; exits close what is left."""
    operations, skipped = converted(
        tmp_path,
        """
1 10.0 open("/r/a", O_RDONLY) = 3
1 11.0 clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD, child_tidptr=0x7) = 2
2 12.0 read(3, ""..., 10) = 10
2 13.0 close(3) = 0
1 14.0 read(3, ""..., 10) = 10
1 15.0 clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD, exit_signal=0}, 88) = 3
3 16.0 open("/r/b", O_RDONLY) = 4
1 17.0 read(4, ""..., 10) = 10
3 18.0 close(3) = 0
3 19.0 +++ exited with 0 +++
1 20.0 read(4, ""..., 10) = 10
1 21.0 exit_group(0) = ?
1 22.0 +++ exited with 0 +++
2 23.0 +++ killed by SIGKILL +++
""",
    )
    assert brief(operations) == [
        ("open", 0, "a"), ("read", 0, 0, 10), ("read", 0, 10, 10), ("open", 1, "b"), ("read", 1, 0, 10),
        ("close", 0), ("read", 1, 10, 10), ("close", 1),
    ]  # fmt: skip
    assert [o["s"] for o in operations] == [0, 1, 0, 2, 0, 2, 0, 0]
    assert skipped == {}


def test_halves_are_joined_and_order_is_by_start(tmp_path: Path) -> None:
    operations, skipped = converted(
        tmp_path,
        """
1 1.0 open("/r/a", O_RDONLY) = 3
1 2.0 clone(child_stack=0x7, flags=CLONE_VM|CLONE_FILES) = 2
1 3.0 pread64(3,  <unfinished ...>
2 4.0 pread64(3, ""..., 10, 100) = 10 <0.5>
1 5.0 <... pread64 resumed>""..., 20, 0) = 20 <2.0>
2 6.0 read(3,  <unfinished ...>
1 7.0 close(3) = 0
""",
    )
    assert brief(operations) == [("open", 0, "a"), ("read", 0, 0, 20), ("read", 0, 100, 10), ("close", 0)]
    # Times below 100,000,000 s are read as -r: from line to line.
    assert [o["t"] for o in operations] == [10**9, 6 * 10**9, 10 * 10**9, 28 * 10**9]
    assert operations[1]["d"] == 2 * 10**9
    assert skipped == {"call that did not end": 1}


def test_a_long_call_keeps_its_place(tmp_path: Path) -> None:
    """A read that takes long while another thread goes on; one from a pipe holds nothing up."""
    lines = ['1 1700000000.0 open("/r/a", O_RDONLY) = 3', "1 1700000000.1 clone(flags=CLONE_VM|CLONE_FILES) = 2"]
    lines += [
        "1 1700000000.1 clone(flags=CLONE_VM|CLONE_FILES) = 3",
        "3 1700000000.1 read(0<pipe:[1]>,  <unfinished ...>",
    ]
    lines += ["2 1700000000.2 pread64(3,  <unfinished ...>"]
    lines += [f'1 1700000001.{i:03} pread64(3, ""..., 1, {i}) = 1' for i in range(900)]
    lines += ['2 1700000002.0 <... pread64 resumed>""..., 7, 0) = 7', '3 1700000003.0 <... read resumed>"", 1) = 0']
    operations, skipped = converted(tmp_path, "\n".join(lines))
    assert skipped == {} and len(operations) == 902
    assert operations[1] == {"t": 200_000_000, "s": 1, "op": "read", "h": 0, "o": 0, "n": 7}


def test_a_child_may_speak_before_its_parent(tmp_path: Path) -> None:
    """vfork: the parent's call returns after the child's execve; the child's table is still the parent's copy."""
    operations, skipped = converted(
        tmp_path,
        """
1 1700000001.0 open("/r/a", O_RDONLY) = 3
1 1700000002.0 open("/r/b", O_RDONLY|O_CLOEXEC) = 4
1 1700000003.0 vfork( <unfinished ...>
2 1700000004.0 read(3, ""..., 10) = 10
2 1700000005.0 chdir("/r/sub") = 0
2 1700000005.5 execve("/bin/x", ["x"], 0x1 /* 3 vars */ <unfinished ...>
1 1700000006.0 <... vfork resumed>) = 2
2 1700000006.1 <... execve resumed>) = 0
1 1700000007.0 read(4, ""..., 10) = 10
2 1700000008.0 stat("c", {st_mode=S_IFDIR|0755, st_size=4096, ...}) = 0
1 1700000009.0 stat("c", 0x7ff) = -1 ENOENT (No such file or directory)
2 1700000010.0 +++ exited with 0 +++
""",
    )
    assert brief(operations) == [
        ("open", 0, "a"), ("open", 1, "b"), ("read", 0, 0, 10), ("read", 1, 0, 10), ("stat", "sub/c"),
        ("stat", "c", "ENOENT"),
    ]  # fmt: skip
    assert operations[4]["x"] == "f" and skipped == {}


def test_a_thread_that_executes_goes_on_as_the_leader(tmp_path: Path) -> None:
    operations, skipped = converted(
        tmp_path,
        """
1 1.0 open("/r/a", O_RDONLY) = 3
1 1.0 open("/r/b", O_RDONLY|O_CLOEXEC) = 4
1 1.0 clone(child_stack=0x7, flags=CLONE_VM|CLONE_FILES|CLONE_THREAD) = 2
2 1.0 execve("/bin/x", ["x"], 0x1 /* 3 vars */ <unfinished ...>
1 1.0 +++ superseded by execve in pid 2 +++
1 1.0 <... execve resumed>) = 0
1 1.0 read(3, ""..., 10) = 10
1 1.0 +++ exited with 0 +++
""",
    )
    assert brief(operations) == [("open", 0, "a"), ("open", 1, "b"), ("close", 1), ("read", 0, 0, 10), ("close", 0)]
    assert skipped == {}


def test_names_and_folders(tmp_path: Path) -> None:
    operations, skipped = converted(
        tmp_path,
        """
mkdir("d", 0777) = 0
mkdirat(AT_FDCWD, "d/e", 0777) = 0
openat(AT_FDCWD, "d", O_RDONLY|O_DIRECTORY) = 3
openat(3, "e", O_RDONLY|O_PATH) = 4
getdents64(3, 0x55 /* 3 entries */, 32768) = 80
newfstatat(4, "x", {st_mode=S_IFREG|0644, st_size=7, ...}, AT_SYMLINK_NOFOLLOW) = 0
newfstatat(4, "", {st_mode=S_IFDIR|0755, st_size=4096, ...}, AT_EMPTY_PATH) = 0
rename("d/e/x", "d/y") = 0
renameat2(3, "y", 4, "../../z", RENAME_NOREPLACE) = 0
linkat(AT_FDCWD, "z", AT_FDCWD, "zz", 0) = 0
unlinkat(4, "../../zz", 0) = 0
unlinkat(3, "e", AT_REMOVEDIR) = 0
chdir("d") = 0
access("q", R_OK) = -1 ENOENT (No such file or directory)
truncate("/r/z", 5) = 0
rename("/r/z", "/elsewhere/z") = 0
unlink("/etc/passwd") = -1 EACCES (Permission denied)
symlink("a", "b") = 0
renameat2(AT_FDCWD, "a", AT_FDCWD, "b", RENAME_EXCHANGE) = 0
""",
    )
    assert brief(operations) == [
        ("mkdir", "d"), ("mkdir", "d/e"), ("open", 0, "d"), ("readdir", 0, 3), ("stat", "d/e/x"), ("stat", "d/e"),
        ("rename", "d/e/x", "d/y"), ("rename", "d/y", "z"), ("link", "z", "zz"), ("remove", "zz"),
        ("rmdir", "d/e"), ("stat", "d/q", "ENOENT"), ("truncate", "z", 5),
    ]  # fmt: skip
    assert operations[2]["x"] == "rf" and operations[4]["len"] == 7 and operations[5]["x"] == "f"
    assert skipped == {
        "outside the root": 2, "rename across the root": 1, "symlink": 1, "exchange of two files": 1,
    }  # fmt: skip


def test_hostile_names(tmp_path: Path) -> None:
    """Quotes, newlines, brackets, bytes that are no text: as text with escapes, and in hexadecimal."""
    name = b'/r/q")= 5 <u> \n\xff%41\\..'
    hexed = "".join(f"\\x{byte:02x}" for byte in name)
    as_text = '/r/q\\")= 5 <u> \\n\\377%41\\\\..'
    shown = as_text.replace("<", "\\74").replace(">", "\\76")
    for lines in (
        f'open("{as_text}", O_RDONLY) = 3<{shown}>\nread(3<{shown}>, ""..., 5) = 5',
        f'open("{hexed}", O_RDONLY) = 3<{hexed}>\nread(3<{hexed}>, ""..., 5) = 5',
    ):
        operations, skipped = converted(tmp_path, lines)
        assert brief(operations) == [("open", 0, 'q")= 5 <u> \n%FF%2541%5C..'), ("read", 0, 0, 5)]
        assert skipped == {}


def test_lists_of_buffers_and_copies(tmp_path: Path) -> None:
    operations, skipped = converted(
        tmp_path,
        """
open("/r/a", O_RDWR) = 3
open("/r/b", O_WRONLY|O_CREAT|O_EXCL, 0600) = 4
writev(3, [{iov_base="ab", iov_len=2}, {iov_base="cd", iov_len=3}], 2) = 5
preadv(3, [{iov_base=""..., iov_len=100}], 1, 1) = 4
preadv2(3, [{iov_base="", iov_len=10}], 1, -1, 0) = 0
pwritev(3, [...], 2, 50) = 9
copy_file_range(3, [10], 4, NULL, 4096, 0) = 30 <0.000008>
sendfile(4, 3, [5] => [9], 4) = 4
sendfile(9, 3, NULL, 4096) = 6
splice(3, [0], 9<pipe:[1]>, NULL, 7, 0) = 7
""",
    )
    assert brief(operations) == [
        ("open", 0, "a"), ("create", 1, "b"), ("write", 0, 0, 5), ("read", 0, 1, 4), ("read", 0, 5, 0),
        ("write", 0, 50, 9), ("read", 0, 10, 30), ("write", 1, 0, 30), ("read", 0, 5, 4), ("write", 1, 30, 4),
        ("read", 0, 5, 6), ("read", 0, 0, 7),
    ]  # fmt: skip
    assert operations[3]["q"] == 100 and operations[4]["q"] == 10 and "q" not in operations[5]
    assert (operations[6]["d"], operations[7]["t"] - operations[6]["t"]) == (4000, 4000)
    assert skipped["server-side copy"] == 2


def test_machines_of_32_bits(tmp_path: Path) -> None:
    operations, skipped = converted(
        tmp_path,
        """
open("/r/a", O_RDWR|O_LARGEFILE) = 3
fstat64(3, {st_mode=S_IFREG|0644, st_size=5, ...}) = 0
_llseek(3, 0, [4294967300], SEEK_END) = 0
write(3, ""..., 10) = 10
fcntl64(3, F_DUPFD, 7) = 7
ftruncate64(7, 3) = 0
mmap2(NULL, 4096, PROT_READ, MAP_PRIVATE, 7, 0) = 0xb6f00000
""",
    )
    assert brief(operations) == [("open", 0, "a"), ("stat", 0), ("write", 0, 4294967300, 10), ("truncate", 0, 3)]
    assert operations[1]["len"] == 5 and skipped == {"mmap": 1}


def test_appending(tmp_path: Path) -> None:
    """Appended writes go where the file ends, as far as the calls before show."""
    operations, skipped = converted(
        tmp_path,
        """
stat("new", 0x7) = -1 ENOENT (No such file or directory)
open("new", O_WRONLY|O_CREAT|O_APPEND, 0666) = 3
write(3, ""..., 10) = 10
write(3, ""..., 10) = 10
stat("old", {st_mode=S_IFREG|0644, st_size=500, ...}) = 0
open("old", O_WRONLY|O_APPEND) = 4
write(4, ""..., 10) = 10
open("unknown", O_WRONLY|O_APPEND) = 5
write(5, ""..., 10) = 10
mkdir("own", 0777) = 0
open("own/x", O_WRONLY|O_CREAT, 0777) = 6
fcntl(6, F_SETFL, O_WRONLY|O_APPEND) = 0
write(6, ""..., 10) = 10
""",
    )
    assert [(o["o"], o["n"]) for o in operations if o["op"] == "write"] == [
        (0, 10), (10, 10), (500, 10), (0, 10), (0, 10),
    ]  # fmt: skip
    assert skipped == {"appended to a file of unknown length": 1}


@pytest.mark.parametrize(
    ("limit", "line", "message"),
    [
        ("strace.MAX_TASKS", '{} 1.0 stat("/r/a", 0x7) = 0\n', "line 6: more than 5 processes and threads at once"),
        ("strace_text.MAX_HALF", '{} 1.0 open("/r/a", <unfinished ...>\n', "15 of its 20 lines are not from strace"),
    ],
)
def test_processes_are_bounded(
    limit: str, line: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"naslab.trace.{limit}", 5)
    with pytest.raises(TraceError, match=message):
        converted(tmp_path, "".join(line.format(pid) for pid in range(1, 21)))


def test_lines_that_wait_for_a_clone_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clone that never returns: what waits for it is taken as of an unknown parent when it is too much."""
    monkeypatch.setattr("naslab.trace.strace_tasks.MAX_ORPHANS", 5)
    with TraceWriter(tmp_path / "x.trace", Header(source="strace")) as writer:
        converter = Converter(writer, ROOT, ROOT)
        converter.line(b'1 1.0 stat("a", 0x7) = 0')
        converter.line(b"1 1.0 clone( <unfinished ...>")
        for number in range(20):
            converter.line(b'%d 1.0 stat("b", 0x7) = 0' % (2 + number % 3))
            assert converter.tasks._orphan_lines <= 5
        converter.finish()
    assert writer.operations == 21 and converter.tasks.unknown_parents == 3


def test_one_write_that_is_appended(tmp_path: Path) -> None:
    """pwritev2 with RWF_APPEND, whatever offset is given; only without one does the file's position move."""
    operations, _ = converted(
        tmp_path,
        """
open("new", O_RDWR|O_CREAT|O_TRUNC, 0666) = 3
pwrite64(3, ""..., 10, 20) = 10
pwritev2(3, [{iov_base=""..., iov_len=4}], 1, 0, RWF_APPEND) = 4
pwritev2(3, [{iov_base=""..., iov_len=5}], 1, 0, 0) = 5
pwritev2(3, [{iov_base=""..., iov_len=6}], 1, -1, RWF_APPEND) = 6
write(3, ""..., 7) = 7
""",
    )
    assert [(o["o"], o["n"]) for o in operations if o["op"] == "write"] == [(20, 10), (30, 4), (0, 5), (34, 6), (40, 7)]


def test_another_root(tmp_path: Path) -> None:
    """After chroot `/` is another folder, for children too; nothing leads out of it."""
    operations, skipped = converted(
        tmp_path,
        """
mkdir("cr", 0777) = 0
chroot("cr") = 0
stat("here", 0x7) = -1 ENOENT (No such file or directory)
chdir("/") = 0
mkdir("/../in", 0777) = 0
rename("/in", "out") = 0
clone(child_stack=NULL, flags=SIGCHLD) = 2
2 1700000100.0 mkdir("/child", 0777) = 0
chroot("/out") = 0
mkdir("/deep", 0777) = 0
chdir("/etc") = -1 ENOENT (No such file or directory)
rmdir("relative") = 0
""",
    )
    assert brief(operations) == [
        ("mkdir", "cr"), ("stat", "here", "ENOENT"), ("mkdir", "cr/in"), ("rename", "cr/in", "cr/out"),
        ("mkdir", "cr/child"), ("mkdir", "cr/out/deep"), ("rmdir", "cr/relative"),
    ]  # fmt: skip
    assert skipped == {}


def test_what_strace_cannot_show_is_counted(tmp_path: Path) -> None:
    _, skipped = converted(
        tmp_path,
        """
open("/r/a", O_RDWR) = 3
mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 3, 0) = 0x7f0000000000
mmap(NULL, 4096, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f0000000000
fallocate(3, 0, 0, 4096) = 0
io_uring_setup(8, {flags=0}) = 5
io_submit(0x7, 1, [{}]) = 1
flock(3, LOCK_EX) = 0
fchmod(3, 0600) = 0
read(9, ""..., 10) = 10
read(0<pipe:[77]>, ""..., 10) = 10
read(8</etc/passwd>, ""..., 10) = 10
open("/r", O_RDWR|O_TMPFILE, 0600) = 10
openat(11, "x", O_RDONLY) = 12
sync() = 0
""",
    )
    assert skipped == {
        "mmap": 1, "fallocate": 1, "io_uring": 1, "aio": 1, "lock": 1, "attributes": 1,
        "descriptor of an unknown file": 1, "outside the root": 1, "temporary file without a name": 1,
        "name relative to an unknown folder": 1, "sync of all files": 1,
    }  # fmt: skip


def test_descriptors_from_before_are_taken_in(tmp_path: Path) -> None:
    operations, skipped = converted(tmp_path, 'read(0</r/in>, ""..., 10) = 10\nread(0</r/in>, ""..., 10) = 0')
    assert brief(operations) == [("read", 0, "in", 0, 10), ("read", 0, 10, 0)]
    assert skipped == {"offset unknown": 1}


@pytest.mark.parametrize(
    ("lines", "times"),
    [
        ('open("/r/a", O_RDONLY) = 3\nclose(3) = 0', [0, 0]),
        ('[pid 7] open("/r/a", O_RDONLY) = 3\n[pid 7] close(3) = 0', [0, 0]),
        ('7 23:59:59.5 open("/r/a", O_RDONLY) = 3\n7 00:00:01.0 close(3) = 0', [0, 1_500_000_000]),
        ('7 10:00:00 open("/r/a", O_RDONLY) = 3\n7 10:00:02 close(3) = 0', [0, 2 * 10**9]),
        ('     0.000000 open("/r/a", O_RDONLY) = 3\n     0.000250 close(3) = 0', [0, 250_000]),
        ('1700000000.5 open("/r/a", O_RDONLY) = 3\n1700000000.2 close(3) = 0', [0, 0]),
    ],
)
def test_every_kind_of_time(lines: str, times: list[int], tmp_path: Path) -> None:
    source, made = tmp_path / "s.txt", tmp_path / "s.trace"
    source.write_text(lines)
    with TraceWriter(made, Header(source="strace")) as writer:
        converter = convert_strace(source, writer, ROOT, None)
    assert [o.start_ns for o in Trace(made)] == times
    assert converter.has_times == any(character in lines for character in ":.")


def test_lexer() -> None:
    text = 'f(3</a,b>, "x,\\")(", {a=[1, 2], b="}"}, NULL) = 0'
    args, end = arguments(text, 2)
    assert args == ["3</a,b>", '"x,\\")("', '{a=[1, 2], b="}"}', "NULL"] and text[end:] == " = 0"
    assert arguments("f()", 2) == ([], 3)
    assert descriptor("3</x>(deleted)") == (3, b"/x", True)
    assert descriptor("AT_FDCWD</x>") == (None, b"/x", False)
    assert descriptor("4<TCP:[1.2.3.4:5->6.7.8.9:1]>")[0] == 4
    assert quoted('"cut"...') is None and quoted("NULL") is None and quoted('"\\x41\\x42"') == b"AB"
    for bad in ('f("x', "f(", "f({1}"):
        with pytest.raises(BadLineError):
            arguments(bad, 2)


def test_lines_that_are_none(tmp_path: Path) -> None:
    """A cut last line is counted; a file of something else is refused."""
    text = "\n".join(['open("/r/a", O_RDONLY) = 3', 'read(3, "", 5) = 5', "close(3) = 0", 'open("/r/b", O_RD'])
    operations, skipped = converted(tmp_path, text)
    assert len(operations) == 3 and skipped == {UNREADABLE: 1}
    with pytest.raises(TraceError, match=r"s\.txt: 3 of its 3 lines are not from strace"):
        converted(tmp_path, "1 1.0 what is this\n1 1.0 no\n1 1.0 {}")
    assert not (tmp_path / "s.trace.part").exists()


SAMPLE = [
    'open("/r/a", O_RDWR|O_CREAT, 0666) = 3</r/a> <0.1>', 'read(3</r/a>, ""..., 10) = 10', "dup(3) = 4",
    'pwrite64(4</r/a>, ""..., 10, 9223372036854775807) = 10', "lseek(3, -1, SEEK_END) = 18446744073709551615",
    'clone(child_stack=NULL, flags=CLONE_FILES|CLONE_FS) = 2', 'read(3,  <unfinished ...>',
    '<... read resumed>""..., 10) = 10', "+++ exited with 0 +++", "+++ superseded by execve in pid 2 +++",
    "vfork( <unfinished ...>", "<... vfork resumed>) = 9", 'rename("a", "../../../x") = 0', 'fchdir(3</r/d>) = 0',
    "close_range(3, 4294967295, 0) = 0", 'openat(3</r/d>, "..", O_PATH) = 5</r>', "ftruncate(3, -5) = 0",
    'sendfile(3, 4, [1] => [2], 99999999999999999999) = 1', 'execve("x", [], 0x1) = 0', "unshare(CLONE_FILES) = 0",
]  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        "1 1.0 read(" + "1<" * 80_000, "1 1.0 read(" + "/*," * 80_000 + ") = 0", "1 1.0 read(" + "{" * 80_000,
        "1 1.0 read(3) = 0" + " " * 80_000 + "x", "1 1.0 read(3) = 0<" + "->" * 80_000, " " * 80_000 + "x",
        "1" * 80_000, '1 1.0 read(3, "' + "\\" * 80_000 + '") = 0', "1 1.0 read(3) = 0 " + "<1." * 80_000,
        "1 1.0 read(-1, 5, 5) = " + "9" * 80_000, "1 " + "9" * 80_000 + ".1 close(3) = 0",
    ],
)  # fmt: skip
def test_long_hostile_lines_are_soon_done(line: str, tmp_path: Path) -> None:
    """No pattern needs time that grows with the square of a line (the limit of a test's time would tell)."""
    feed(tmp_path, [line.encode()] * 3)
    (tmp_path / "s").write_text(f"{line}\n")
    with contextlib.suppress(NaslabError):
        convert(tmp_path / "s", tmp_path / "x.trace", "", Path("/r"), None)


def feed(folder: Path, lines: list[bytes]) -> None:
    """Whatever comes, a valid trace results."""
    made = folder / "fuzz.trace"
    with TraceWriter(made, Header(source="strace")) as writer:
        converter = Converter(writer, ROOT, ROOT)
        for line in lines:
            converter.line(line)
        converter.finish()
    list(Trace(made))


@settings(max_examples=inputs(150), deadline=None)
@given(st.data())
def test_any_order_of_calls_makes_a_valid_trace(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    calls = data.draw(st.lists(st.tuples(st.integers(1, 4), st.sampled_from(SAMPLE)), max_size=40))
    lines = [f"{pid} 170000000{i % 10}.5 {call}".encode() for i, (pid, call) in enumerate(calls)]
    feed(tmp_path_factory.mktemp("fuzz"), lines)


def test_damaged_lines_make_a_valid_trace(tmp_path: Path) -> None:
    """Seeded mutations: cut, doubled, replaced bytes."""
    generator = random.Random(5)
    for _ in range(60):
        lines = []
        for _ in range(60):
            line = bytearray(f"{generator.randint(1, 3)} 1700000000.1 {generator.choice(SAMPLE)}".encode())
            for _ in range(generator.randint(0, 3)):
                at = generator.randrange(len(line))
                line[at : at + generator.randint(0, 6)] = generator.randbytes(generator.randint(0, 3))
            lines.append(bytes(line).replace(b"\n", b""))
        feed(tmp_path, lines)
