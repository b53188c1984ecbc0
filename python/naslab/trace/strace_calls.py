"""What each system call means for a trace: one handler a call, in the table `HANDLERS` at the end."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from naslab.trace.format import MAX_OFFSET, Kind
from naslab.trace.strace_text import BadLineError, Call, descriptor, quoted

if TYPE_CHECKING:
    from naslab.trace.strace import Converter

OUTSIDE = "outside the root"
Handler = Callable[["Converter", Call], None]


def _number(arg: str) -> int:
    """A whole number argument: decimal, octal or hexadecimal."""
    found = re.match(r"(-?)(0x[0-9a-f]{1,16}|\d{1,20})", arg)
    if found is None:
        raise BadLineError("not a number")
    value = int(found[2], 16 if found[2].startswith("0x") else 10)
    return -value if found[1] else value


def _size(arg: str) -> int:
    """A number of bytes or an offset. Raises BadLineError for one that no file has."""
    value = _number(arg)
    if not 0 <= value <= MAX_OFFSET:
        raise BadLineError("not a size")
    return value


def _open(c: Converter, call: Call, name: int, flags: str, at: int | None) -> None:
    place = c.path(call, name, at)
    table = c.tasks.task(call.pid).table
    if call.ok and call.path is not None:
        relative = c.root.relative(call.path) if call.path else None
        if call.path and relative is None and place is not None:
            c.skip(OUTSIDE)
        place = (relative, call.path) if relative is not None else place if call.path == b"" else None
    words = set(re.split(r"[|{}=, ]+", flags))
    if "O_TMPFILE" in words or place is None:
        if place is not None:
            c.skip("temporary file without a name")
        if call.ok:
            c.tasks.drop(c.tasks.task(call.pid), call.start_ns, table.take(call.value or 0))
        return
    x = "".join(letter for word, letter in _OPEN_FLAGS if word in words)
    kind: Kind = "create" if "O_CREAT" in words else "open"
    visible = "O_PATH" not in words
    if not call.ok:
        if call.error and visible:
            c.emit(call, kind, path=place[0], flags=x)
        return
    file = c.new_file(*place, append="a" in x, visible=visible)
    if visible:
        c.emit(call, kind, path=place[0], flags=x, handle=file.handle)
    if "t" in x or (kind == "create" and "e" in x):
        c.sizes.set(place[0], 0)
    before = table.put(call.value or 0, file, "O_CLOEXEC" in words)
    c.tasks.drop(c.tasks.task(call.pid), call.start_ns, before)


_OPEN_FLAGS = (
    ("O_RDONLY", "r"), ("O_RDWR", "r"), ("O_RDWR", "w"), ("O_WRONLY", "w"), ("O_TRUNC", "t"), ("O_EXCL", "e"),
    ("O_DIRECT", "d"), ("O_SYNC", "s"), ("O_DSYNC", "s"), ("O_APPEND", "a"), ("O_DIRECTORY", "f"),
)  # fmt: skip


def _creat(c: Converter, call: Call) -> None:
    _open(c, call, 0, "O_WRONLY|O_CREAT|O_TRUNC", None)


def _close(c: Converter, call: Call) -> None:
    number = descriptor(call.args[0])[0]
    task = c.tasks.task(call.pid)
    # Linux lets go of the descriptor whatever close returns, but for one that was not open.
    file = task.table.take(number) if number is not None and call.error != "EBADF" else None
    if file is None:
        return
    file.references -= 1
    if file.references == 0 and file.visible:
        c.emit(Call(call.pid, call.start_ns, call.name, [], 0, None, call.duration_ns), "close",
               handle=file.handle, path=file.path)  # fmt: skip


def _close_range(c: Converter, call: Call) -> None:
    if not call.ok:
        return
    task = c.tasks.task(call.pid)
    flags = call.args[2]
    if "UNSHARE" in flags:
        c.tasks.own_table(task)
    low, high = _number(call.args[0]), _number(call.args[1])
    for number in sorted(n for n in task.table.files if low <= n <= high):
        if "CLOEXEC" in flags:
            task.table.on_exec.add(number)
        else:
            c.tasks.drop(task, call.start_ns, task.table.take(number))


def _dup(c: Converter, call: Call) -> None:
    on_exec = "O_CLOEXEC" in call.args[-1] or "DUPFD_CLOEXEC" in call.args[min(1, len(call.args) - 1)]
    if call.ok and call.value != descriptor(call.args[0])[0]:
        task = c.tasks.task(call.pid)
        number, path, _ = descriptor(call.args[0])
        file = task.table.files.get(number if number is not None else -1)
        if file is None and path is not None:
            file = c.file(call, 0)
        if file is not None:
            file.references += 1
            before = task.table.put(call.value or 0, file, on_exec)
        else:
            before = task.table.take(call.value or 0)
        c.tasks.drop(task, call.start_ns, before)


def _fcntl(c: Converter, call: Call) -> None:
    command, table = call.args[1], c.tasks.task(call.pid).table
    number = descriptor(call.args[0])[0]
    if command.startswith("F_DUPFD"):
        _dup(c, call)
    elif command == "F_SETFD" and call.ok and number in table.files:
        (table.on_exec.add if "FD_CLOEXEC" in call.args[2] else table.on_exec.discard)(number)
    elif command == "F_SETFL" and call.ok and number in table.files:
        table.files[number].append = "O_APPEND" in call.args[2]
    elif command in ("F_SETLK", "F_SETLKW", "F_OFD_SETLK", "F_OFD_SETLKW", "F_GETLK") and number in table.files:
        c.skip("lock")


def _data(
    c: Converter, call: Call, op: Kind, index: int, asked: int | None, at: int | None, append: bool = False, **more: Any
) -> bool:
    """A read or write through the descriptor argument `index`; at: its offset, None for the file's position.

    append: this write goes where the file ends. Whether it was one of a file under the root.
    """
    file = c.file(call, index)
    if file is None or (call.value is None and call.error is None):
        return False
    moved = max(call.value or 0, 0) if call.ok else 0
    start = file.position if at is None else at
    if op == "write" and (file.append or append):
        known = c.sizes.get(file.path)
        if known is None:
            c.skip("appended to a file of unknown length")
        start = known or 0
    if asked is None or start + max(moved, asked) > MAX_OFFSET:
        asked = moved
    if file.visible:
        more["asked_bytes"] = asked if asked != moved else None
        c.emit(call, op, handle=file.handle, path=file.path, offset_bytes=start, len_bytes=moved, **more)
    if call.ok:
        if at is None:
            file.position = start + moved
        if op == "write":
            c.sizes.grow(file.path, start + moved)
    return True


def _plain(op: Kind) -> Handler:
    def handle(c: Converter, call: Call) -> None:
        _data(c, call, op, 0, _size(call.args[2]), None)

    return handle


def _positioned(op: Kind) -> Handler:
    def handle(c: Converter, call: Call) -> None:
        _data(c, call, op, 0, _size(call.args[2]), _size(call.args[3]))

    return handle


def _vectored(op: Kind, positioned: bool) -> Handler:
    def handle(c: Converter, call: Call) -> None:
        # With -s 0, and for long lists, strace shows `...` in place of the parts.
        parts = re.findall(r"iov_len=(\d{1,19})", call.args[1])
        asked = None if "..." in re.sub(r'"\.\.\.', '"', call.args[1]) else sum(map(_size, parts))
        at = _number(call.args[3]) if positioned else -1
        _data(c, call, op, 0, asked, at if at >= 0 else None, append="RWF_APPEND" in call.args[-1])

    return handle


def _offset(arg: str) -> int | None:
    """The offset before a copying call: `[5]`, `[5] => [9]` or `[5 => 9]`; None for NULL."""
    found = re.match(r"\[(\d{1,19})", arg)
    return int(found[1]) if found else None


def _copy(source: int, source_at: int | None, sink: int, sink_at: int | None, size: int, kind: str) -> Handler:
    """A call that moves bytes from one descriptor to another inside the kernel: a read, then a write."""

    def handle(c: Converter, call: Call) -> None:
        if not call.ok:
            c.skip("failed copy")
            return
        moved, took = call.value or 0, call.duration_ns
        half = None if took is None else took // 2
        asked = min(_size(call.args[size]), moved) if moved else 0
        ends = (source_at, sink_at)
        at = [None if index is None else _offset(call.args[index]) for index in ends]
        inside = _data(c, call, "read", source, asked, at[0], duration_ns=half)
        if moved:
            later = Call(call.pid, call.start_ns + (half or 0), call.name, call.args, moved, None, half)
            inside |= _data(c, later, "write", sink, asked, at[1])
        if kind and inside:
            c.skip(kind)

    return handle


def _lseek(c: Converter, call: Call) -> None:
    file = c.file(call, 0)
    if file is not None and call.ok and call.value is not None:
        file.position = min(call.value, MAX_OFFSET)
        if call.args[2] == "SEEK_END" and call.args[1] == "0":
            c.sizes.set(file.path, file.position)


def _llseek(c: Converter, call: Call) -> None:
    """32-bit machines: the new position is the third argument."""
    file = c.file(call, 0)
    position = _offset(call.args[2])
    if file is not None and call.ok and position is not None:
        file.position = min(position, MAX_OFFSET)


def _ftruncate(c: Converter, call: Call) -> None:
    file = c.file(call, 0)
    if file is not None:
        size = _size(call.args[1])
        c.emit(call, "truncate", handle=file.handle, path=file.path, len_bytes=size)
        if call.ok:
            c.sizes.set(file.path, size)


def _truncate(c: Converter, call: Call) -> None:
    place = c.path(call, 0)
    if place is not None:
        size = _size(call.args[1])
        c.emit(call, "truncate", path=place[0], len_bytes=size)
        if call.ok:
            c.sizes.set(place[0], size)


def _fallocate(c: Converter, call: Call) -> None:
    file = c.file(call, 0)
    if file is not None:
        c.skip("fallocate")
        if call.ok and call.args[1] == "0":
            c.sizes.grow(file.path, min(_size(call.args[2]) + _size(call.args[3]), MAX_OFFSET))


def _flush(c: Converter, call: Call) -> None:
    file = c.file(call, 0)
    if file is not None and file.visible:
        c.emit(call, "flush", handle=file.handle, path=file.path)


def _two_names(op: Kind, first: int, second: int, at: bool) -> Handler:
    def handle(c: Converter, call: Call) -> None:
        old = c.path(call, first, first - 1 if at else None)
        new = c.path(call, second, second - 1 if at else None)
        if old is None or new is None:
            if (old is None) != (new is None):
                c.skip(f"{op} across the root")
            return
        if "RENAME_EXCHANGE" in call.args[-1]:
            c.skip("exchange of two files")
            return
        if old[0] in c.links:
            c.links.move(old[0], new[0] if call.ok else old[0])
            c.skip("symlink")
            return
        c.emit(call, op, path=old[0], to_path=new[0])
        if call.ok and op == "rename":
            c.sizes.move(old[0], new[0])
        elif call.ok and (length := c.sizes.get(old[0])) is not None:
            c.sizes.set(new[0], length)

    return handle


def _one_name(op: Kind, index: int, at: bool) -> Handler:
    def handle(c: Converter, call: Call) -> None:
        place = c.path(call, index, index - 1 if at else None)
        if place is not None and op == "remove" and place[0] in c.links:
            c.links.discard(place[0])
            c.skip("symlink")
        elif place is not None:
            kind: Kind = "rmdir" if "AT_REMOVEDIR" in call.args[-1] else op
            c.emit(call, kind, path=place[0])
            if call.ok and kind == "mkdir":
                c.sizes.made(place[0])
            elif call.ok:
                c.sizes.forget(place[0])

    return handle


_SIZE = re.compile(r"stx?_size=(\d{1,19})")


def _stat_facts(c: Converter, call: Call, path: str) -> dict[str, Any]:
    """Length of a plain file, mark of a folder, from the structure that strace shows."""
    text = next((arg for arg in call.args if arg.startswith("{")), "")
    if "S_IFDIR" in text:
        return {"flags": "f"}
    size = _SIZE.search(text)
    if call.ok and size is not None and "S_IFREG" in text and int(size[1]) <= MAX_OFFSET:
        c.sizes.set(path, int(size[1]))
        return {"file_bytes": int(size[1])}
    return {}


def _stat(index: int, at: bool) -> Handler:
    def handle(c: Converter, call: Call) -> None:
        if at and (call.args[index] in ('""', "NULL")):
            _fstat(c, call)
            return
        place = c.path(call, index, index - 1 if at else None)
        if place is not None:
            if "S_IFLNK" in "".join(arg for arg in call.args if arg.startswith("{")):
                c.links.add(place[0])
                c.skip("symlink")
            else:
                c.emit(call, "stat", path=place[0], **_stat_facts(c, call, place[0]))

    return handle


def _fstat(c: Converter, call: Call) -> None:
    file = c.file(call, 0)
    if file is not None:
        facts = _stat_facts(c, call, file.path)
        named = {"handle": file.handle} if file.visible else {}
        c.emit(call, "stat", path=file.path, **named, **facts)


def _getdents(c: Converter, call: Call) -> None:
    file = c.file(call, 0)
    if file is not None:
        entries = re.search(r"/\* (\d{1,12}) entries \*/", call.args[1])
        c.emit(call, "readdir", handle=file.handle, path=file.path, len_bytes=int(entries[1]) if entries else None)


def _symlink(index: int, at: bool) -> Handler:
    """Traces have no symbolic links: their names are kept in mind, and what is done to them is counted."""

    def handle(c: Converter, call: Call) -> None:
        place = c.path(call, index, index - 1 if at else None)
        if place is not None:
            c.skip("symlink")
            if call.ok:
                c.links.add(place[0])

    return handle


def _chdir(c: Converter, call: Call) -> None:
    name = quoted(call.args[0])
    if call.ok and name is not None:
        folder = c.tasks.task(call.pid).folder
        folder.path = folder.absolute(name)


def _chroot(c: Converter, call: Call) -> None:
    name = quoted(call.args[0])
    if call.ok and name is not None:
        folder = c.tasks.task(call.pid).folder
        found = folder.absolute(name)
        folder.root = b"/?" if found is None else posixpath.normpath(found).rstrip(b"/")


def _fchdir(c: Converter, call: Call) -> None:
    if call.ok:
        number, shown, _ = descriptor(call.args[0])
        task = c.tasks.task(call.pid)
        known = task.table.files.get(number if number is not None else -1)
        task.folder.path = shown or (known.absolute if known else None)


def _mmap(c: Converter, call: Call) -> None:
    if call.ok and "MAP_ANONYMOUS" not in call.args[3] and c.file(call, 4) is not None:
        c.skip("mmap")


def _execve(c: Converter, call: Call) -> None:
    if call.ok:
        c.tasks.executed(call)


def _unshare(c: Converter, call: Call) -> None:
    if call.ok and "CLONE_FILES" in call.args[0]:
        c.tasks.own_table(c.tasks.task(call.pid))


def _always(reason: str) -> Handler:
    return lambda c, call: c.skip(reason)


def _on_name(reason: str, index: int, at: bool = False) -> Handler:
    """A call that is only counted, where it names a file under the root."""

    def handle(c: Converter, call: Call) -> None:
        if c.path(call, index, index - 1 if at else None) is not None:
            c.skip(reason)

    return handle


def _on_file(reason: str) -> Handler:
    def handle(c: Converter, call: Call) -> None:
        if c.file(call, 0) is not None:
            c.skip(reason)

    return handle


HANDLERS: dict[str, Handler] = {
    "open": lambda c, call: _open(c, call, 0, call.args[1], None),
    "openat": lambda c, call: _open(c, call, 1, call.args[2], 0),
    "openat2": lambda c, call: _open(c, call, 1, call.args[2], 0),
    "creat": _creat, "close": _close, "close_range": _close_range, "dup": _dup, "dup2": _dup, "dup3": _dup,
    "fcntl": _fcntl, "read": _plain("read"), "write": _plain("write"), "pread64": _positioned("read"),
    "pwrite64": _positioned("write"), "readv": _vectored("read", False), "writev": _vectored("write", False),
    "preadv": _vectored("read", True), "pwritev": _vectored("write", True), "preadv2": _vectored("read", True),
    "pwritev2": _vectored("write", True), "sendfile": _copy(1, 2, 0, None, 3, ""),
    "copy_file_range": _copy(0, 1, 2, 3, 4, "server-side copy"), "splice": _copy(0, 1, 2, 3, 4, "server-side copy"),
    "lseek": _lseek, "ftruncate": _ftruncate, "truncate": _truncate, "fallocate": _fallocate, "fsync": _flush,
    "fdatasync": _flush, "sync_file_range": _on_file("sync_file_range"), "sync": _always("sync of all files"),
    "syncfs": _on_file("sync of all files"), "msync": _always("msync"), "rename": _two_names("rename", 0, 1, False),
    "renameat": _two_names("rename", 1, 3, True), "renameat2": _two_names("rename", 1, 3, True),
    "link": _two_names("link", 0, 1, False), "linkat": _two_names("link", 1, 3, True),
    "unlink": _one_name("remove", 0, False), "unlinkat": _one_name("remove", 1, True),
    "mkdir": _one_name("mkdir", 0, False), "mkdirat": _one_name("mkdir", 1, True),
    "rmdir": _one_name("rmdir", 0, False), "symlink": _symlink(1, False),
    "symlinkat": _symlink(2, True), "readlink": _on_name("readlink", 0),
    "readlinkat": _on_name("readlink", 1, True), "getdents": _getdents, "getdents64": _getdents,
    "stat": _stat(0, False), "lstat": _stat(0, False), "fstat": _fstat, "newfstatat": _stat(1, True),
    "statx": _stat(1, True), "access": _stat(0, False), "faccessat": _stat(1, True), "faccessat2": _stat(1, True),
    "chdir": _chdir, "chroot": _chroot, "fchdir": _fchdir, "mmap": _mmap, "io_uring_setup": _always("io_uring"),
    "io_submit": _always("aio"), "execve": _execve, "execveat": _execve, "unshare": _unshare,
    "chmod": _on_name("attributes", 0), "fchmod": _on_file("attributes"), "fchmodat": _on_name("attributes", 1, True),
    "chown": _on_name("attributes", 0), "lchown": _on_name("attributes", 0), "fchown": _on_file("attributes"),
    "fchownat": _on_name("attributes", 1, True), "utimensat": _on_file("attributes"),
    "setxattr": _on_name("extended attributes", 0), "getxattr": _on_name("extended attributes", 0),
    "lgetxattr": _on_name("extended attributes", 0), "fgetxattr": _on_file("extended attributes"),
    "fsetxattr": _on_file("extended attributes"), "flock": _on_file("lock"),
}  # fmt: skip
_OTHER_NAMES = {
    "stat64": "stat", "lstat64": "lstat", "fstat64": "fstat", "fstatat64": "newfstatat", "fcntl64": "fcntl",
    "ftruncate64": "ftruncate", "truncate64": "truncate", "sendfile64": "sendfile", "mmap2": "mmap",
    "pread": "pread64", "pwrite": "pwrite64",
}  # fmt: skip
"""The same calls as 32-bit machines and older strace name them."""
HANDLERS |= {"_llseek": _llseek} | {name: HANDLERS[usual] for name, usual in _OTHER_NAMES.items()}
