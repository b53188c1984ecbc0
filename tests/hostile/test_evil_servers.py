"""Servers that lie on purpose, each in one way: no hang, no traceback, at most 512 MB of memory, no empty success."""

from __future__ import annotations

import os
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from typing import Any

import pytest

from cli_tools import PROGRAM, Cli, need
from frames import Answers, Frames, Hook, frames
from naslab import lab
from naslab.lab import systems

MAX_MEMORY_BYTES = 512 << 20
LIMIT_S = 60
"""Longer than any of these takes on a busy machine: `--timeout` is a second, and a plan has few calls."""
SWEEP = ("sweep", "--file-size", "256k", "--record", "64k", "--tests", "write,read", "--quiet")
CLEAN = ("clean",)
DOCTOR = ("doctor",)


@dataclass
class Watched:
    """How a command ended. max_bytes: the most memory it had."""

    code: int
    out: str
    err: str
    max_bytes: int


def watched(cli: Cli, words: list[object]) -> Watched:
    """Runs a command whose memory is looked at. Kills it after LIMIT_S, and fails."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        descriptors = [(os.POSIX_SPAWN_DUP2, file.fileno(), at) for at, file in ((1, out), (2, err))]
        command = [*PROGRAM, *map(str, words)]
        pid = os.posix_spawn(command[0], command, cli.env, file_actions=descriptors)
        timer = threading.Timer(LIMIT_S, os.kill, (pid, 9))
        timer.start()
        _, status, usage = os.wait4(pid, 0)
        timer.cancel()
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return Watched(os.waitstatus_to_exitcode(status), *texts, usage.ru_maxrss << 10)


def sound(done: Watched, codes: tuple[int, ...]) -> Watched:
    """Itself, if it ended by itself with one of these codes, in words and within its memory."""
    assert done.code != -9, f"still there after {LIMIT_S} s: {done.err}"
    assert "Traceback" not in done.err + done.out and "panicked" not in done.err, done.err
    assert done.code in codes, f"exit {done.code}\n{done.out}\n{done.err}"
    assert done.max_bytes <= MAX_MEMORY_BYTES, f"{done.max_bytes >> 20} MiB"
    return done


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, lab.Server]]:
    names = ("samba", "demo", "ganesha")
    missing = {package for name in names for package in systems.missing_packages(systems.system(name))}
    need(not missing, " ".join(sorted(missing)))
    with ExitStack() as stack:
        yield {name: stack.enter_context(lab.running(name)) for name in names}


def attacked(
    cli: Cli, server: lab.Server, query: str, command: tuple[str, ...], answer: Hook | None, call: Hook | None = None
) -> Watched:
    """A command against a server behind a relay with these hooks."""
    protocol = "smb" if server.url.startswith("smb") else "nfs"
    with frames(server.port, protocol, answer, call) as way:
        base = server.url.partition("?")[0].replace(f":{server.port}", f":{way.port}", 1)
        mount = f"&mountport={way.port}" if "version=3" in query else ""
        known = ["--credentials", server.credentials] if server.credentials else []
        return watched(cli, [command[0], f"{base}?{query}{mount}", *command[1:], *known, "--timeout", "1s"])


# SMB.

_SMB_HEAD = 64
_CREATE, _READ, _WRITE, _LIST, _BREAK = 5, 8, 9, 14, 18


def _kind(message: bytearray) -> tuple[int, int]:
    """(command, status) of a whole answer."""
    if message[:4] != b"\xfeSMB":
        return (-1, -1)
    return struct.unpack_from("<H", message, 12)[0], struct.unpack_from("<I", message, 8)[0]


def _listing(names: Callable[[int], list[str]]) -> Hook:
    """Each answer to QUERY_DIRECTORY has these names, and there is always another."""

    def hook(relay: Frames, message: bytearray, kept: dict[Any, Any], client: socket.socket) -> Answers:
        if _kind(message)[0] != _LIST:
            return None
        relay.seen += 1
        entries = b""
        given = names(relay.seen)
        for at, name in enumerate(given):
            text = name.encode("utf-16le")
            entry = bytearray(64) + text
            struct.pack_into("<II", entry, 56, 0x20, len(text))
            if at + 1 < len(given):
                entry += bytes(-len(entry) % 8)
                struct.pack_into("<I", entry, 0, len(entry))
            entries += entry
        head = message[:_SMB_HEAD]
        struct.pack_into("<I", head, 8, 0)
        return [relay.frame(head + struct.pack("<HHI", 9, 72 if entries else 0, len(entries)) + entries)]

    return hook


def _on_smb(command: int, change: Callable[[Frames, bytearray], Answers]) -> Hook:
    def hook(relay: Frames, message: bytearray, kept: dict[Any, Any], client: socket.socket) -> Answers:
        return change(relay, message) if _kind(message) == (command, 0) else None

    return hook


def _lease_breaks(relay: Frames, message: bytearray, kept: dict[Any, Any], client: socket.socket) -> Answers:
    """Nothing but breaks that ask for an answer, 22,000 at a time, as long as anybody takes them."""
    if _kind(message)[0] not in (_READ, _WRITE):
        return None
    head = bytearray(_SMB_HEAD)
    head[:4] = b"\xfeSMB"
    struct.pack_into("<HHI", head, 4, 64, 1, 0)
    struct.pack_into("<H", head, 12, _BREAK)
    head[16], head[24:32] = 1, b"\xff" * 8
    one = relay.frame(head + struct.pack("<HHI", 44, 0, 1) + bytes(36))
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until and not relay.wait(0):
        client.sendall(one * 22_000)
    return []


def _pending(relay: Frames, message: bytearray, kept: dict[Any, Any], client: socket.socket) -> Answers:
    """An answer that is always on its way."""
    if _kind(message) != (_READ, 0):
        return None
    head = message[:_SMB_HEAD]
    struct.pack_into("<I", head, 8, 0x103)
    head[16] |= 3
    one = relay.frame(head + b"\x09" + bytes(8))
    while not relay.wait(0.05):
        client.sendall(one)
    return []


def _dripped_padding(relay: Frames, message: bytearray, kept: dict[Any, Any], client: socket.socket) -> Answers:
    """The data, and then a byte more now and then."""
    if _kind(message) != (_READ, 0):
        return None
    client.sendall(struct.pack(">I", len(message) + 60_000) + message)
    while not relay.wait(0.4):
        client.sendall(b"\0")
    return []


def _patched(at: int, layout: str, *values: int) -> Callable[[Frames, bytearray], Answers]:
    def change(relay: Frames, message: bytearray) -> Answers:
        struct.pack_into(layout, message, at, *values)
        return [relay.frame(message)]

    return change


MOST = 0xFFFFFFFF
SMB: dict[str, tuple[tuple[str, ...], Hook, tuple[int, ...]]] = {
    "the same name for ever": (CLEAN, _listing(lambda _: ["."]), (1, 2)),
    "no names for ever": (CLEAN, _listing(lambda _: []), (1, 2)),
    "ever more names": (CLEAN, _listing(lambda n: [f"{'n' * 200}{n}_{at}" for at in range(1000)]), (1, 2)),
    "names that are paths": (CLEAN, _listing(lambda _: ["naslab-x/../../etc"]), (1, 2)),
    "names that lead up": (CLEAN, _listing(lambda _: ["naslab-x\\..\\.."]), (1, 2)),
    "an empty name": (CLEAN, _listing(lambda _: [""]), (1, 2)),
    "a name with NUL": (CLEAN, _listing(lambda _: ["naslab-a\0b"]), (1, 2)),
    "a flood of lease breaks": (SWEEP, _lease_breaks, (1, 2)),
    "always pending": (SWEEP, _pending, (1,)),
    "dripped padding": (SWEEP, _dripped_padding, (1,)),
    "short reads": (SWEEP, _on_smb(_READ, lambda r, m: [r.frame(_half_read(m))]), (0, 1)),
    "files of 4 EiB": (SWEEP, _on_smb(_CREATE, _patched(104, "<QQ", 1 << 62, 1 << 62)), (0, 1)),
    "limits of nothing": (SWEEP, _on_smb(0, _patched(_SMB_HEAD + 28, "<III", 0, 0, 0)), (1, 2)),
    "limits without end": (SWEEP, _on_smb(0, _patched(_SMB_HEAD + 28, "<III", MOST, MOST, MOST)), (0, 1, 2)),
    "no credits": (SWEEP, lambda r, m, k, c: _patched(14, "<H", 0)(r, m) if _kind(m)[0] >= 0 else None, (1, 2)),
}  # fmt: skip


def _half_read(message: bytearray) -> bytearray:
    half = struct.unpack_from("<I", message, 68)[0] // 2
    struct.pack_into("<I", message, 68, half)
    return message[: 80 + half]


@pytest.mark.timeout(2 * LIMIT_S)
@pytest.mark.parametrize("lie", SMB)
def test_smb_servers_that_lie(lie: str, servers: dict[str, lab.Server], cli: Cli) -> None:
    command, hook, codes = SMB[lie]
    sound(attacked(cli, servers["samba"], "dialect=3.0&sign=off", command, hook), codes)


# NFS 3.

_NFS = 100_003
_GETATTR, _SETATTR, _LOOKUP, _ACCESS, _NREAD, _NWRITE = 1, 2, 3, 4, 6, 7
_RMDIR, _READDIR, _READDIRPLUS, _FSINFO, _COMMIT = 13, 16, 17, 19, 21
_JUKEBOX = 10008


def _opaque(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data + bytes(-len(data) % 4)


def _attributes(kind: int, size: int = 4096) -> bytes:
    return struct.pack(">5I", kind, 0o755, 2, 0, 0) + struct.pack(">QQ", size, size) + bytes(84 - 36)


def _call(message: bytearray) -> tuple[int, int, int]:
    """(transaction, program, procedure)."""
    xid, _, _, program, _, procedure = struct.unpack_from(">6I", message)
    return xid, program, procedure


def _accepted(xid: int) -> bytes:
    return struct.pack(">6I", xid, 1, 0, 0, 0, 0)


def _entries(procedure: int, found: list[tuple[bytes, int]], cookie: int, is_end: bool) -> bytes:
    out = struct.pack(">II", 0, 0) + b"verifier"
    for at, (name, kind) in enumerate(found):
        out += struct.pack(">IQ", 1, at + 1) + _opaque(name) + struct.pack(">Q", cookie + at + 1)
        if procedure == _READDIRPLUS:
            out += struct.pack(">I", 1) + _attributes(kind) + struct.pack(">I", 0)
    return out + struct.pack(">II", 0, is_end)


def _folder(names: Callable[[int], list[bytes]], is_end: bool = False) -> Hook:
    """Every folder's listing: these names, and there is more."""

    def hook(relay: Frames, message: bytearray, kept: dict[Any, Any], client: socket.socket) -> Answers:
        xid, program, procedure = _call(message)
        if program != _NFS or procedure not in (_READDIR, _READDIRPLUS):
            return None
        relay.seen += 1
        entries = [(name, 1) for name in names(relay.seen)]
        client.sendall(relay.frame(_accepted(xid) + _entries(procedure, entries, relay.seen << 20, is_end)))
        return []

    return hook


def _tree(width: int) -> Hook:
    """A dead run's folder that is a tree without end: each folder holds `width` more, and nothing can be removed."""
    mark = (
        b'{"naslab_run": "x", "host": "%s", "boot_id": "forged", "machine": null, "pid": 1}'
        % os.uname().nodename.encode()
    )

    def answer(procedure: int, name: bytes, seen: int) -> bytes | None:
        kind = 1 if name == b"naslab-owner.json" else 2
        if procedure in (_READDIR, _READDIRPLUS):
            found = [(b"naslab-evil", 2)] if seen == 1 else [(b"naslab-owner.json", 1), (b"naslab.files", 2)]
            if seen > 3:
                found = [(b"d%d" % at, 2) for at in range(width)]
            return _entries(procedure, found, 0, True)
        return {
            _GETATTR: struct.pack(">I", 0) + _attributes(2),
            _LOOKUP: struct.pack(">I", 0) + _opaque(b"H" * 32) + struct.pack(">I", 1)
            + _attributes(kind, len(mark) if kind == 1 else 4096) + struct.pack(">I", 0),
            _ACCESS: struct.pack(">III", 0, 0, 0x3F),
            _NREAD: struct.pack(">IIII", 0, 0, len(mark), 1) + _opaque(mark),
            12: struct.pack(">III", 0, 0, 0), _RMDIR: struct.pack(">III", 0, 0, 0),
        }.get(procedure)  # fmt: skip

    def hook(relay: Frames, message: bytearray, kept: dict[Any, Any], client: socket.socket) -> Answers:
        xid, program, procedure = _call(message)
        if program != _NFS:
            return None
        relay.seen += procedure in (_READDIR, _READDIRPLUS)
        name = b"naslab-owner.json" if b"naslab-owner.json" in message else b""
        if (found := answer(procedure, name, relay.seen)) is None:
            return None
        client.sendall(relay.frame(_accepted(xid) + found))
        return []

    return hook


def _remember(relay: Frames, message: bytearray, kept: dict[Any, Any], client: socket.socket) -> Answers:
    xid, program, procedure = _call(message)
    kept[xid] = procedure if program == _NFS else -1
    return None


def _on_nfs(procedures: tuple[int, ...], change: Callable[[Frames, bytearray, socket.socket], Answers]) -> Hook:
    def hook(relay: Frames, message: bytearray, kept: dict[Any, Any], client: socket.socket) -> Answers:
        asked = kept.get(struct.unpack_from(">I", message)[0], -1)
        return change(relay, message, client) if asked in procedures else None

    return hook


def _jukebox(relay: Frames, message: bytearray, client: socket.socket) -> Answers:
    return [relay.frame(message[:24] + struct.pack(">III", _JUKEBOX, 0, 0))]


def _dripped(size: int) -> Callable[[Frames, bytearray, socket.socket], Answers]:
    """An answer of tiny fragments, or in single bytes (0), or empty fragments without end (-1)."""

    def change(relay: Frames, message: bytearray, client: socket.socket) -> Answers:
        if size < 0:
            pieces = [bytes(4)] * 200
        elif size == 0:
            pieces = [bytes([byte]) for byte in relay.frame(message)]
        else:
            cuts = range(0, len(message), size)
            last = len(message) - (len(message) - 1) % size - 1
            pieces = [
                struct.pack(">I", len(message[at : at + size]) | (1 << 31) * (at == last)) + message[at : at + size]
                for at in cuts
            ]
        for piece in pieces:
            client.sendall(piece)
            if relay.wait(0.4):
                break
        return []

    return change


def _read_of(count: Callable[[int], int], is_end: int) -> Callable[[Frames, bytearray, socket.socket], Answers]:
    def change(relay: Frames, message: bytearray, client: socket.socket) -> Answers:
        if len(message) < 2000:
            return None
        now = count(struct.unpack_from(">I", message, 116)[0])
        struct.pack_into(">III", message, 116, now, is_end, now)
        return [relay.frame(message[: 128 + now])]

    return change


def _written(count: Callable[[int], int]) -> Callable[[Frames, bytearray, socket.socket], Answers]:
    def change(relay: Frames, message: bytearray, client: socket.socket) -> Answers:
        at = len(message) - 16
        struct.pack_into(">I", message, at, count(struct.unpack_from(">I", message, at)[0]) & MOST)
        return [relay.frame(message)]

    return change


METADATA = (_GETATTR, _SETATTR, _LOOKUP, 8, 9, 12, _RMDIR, _READDIR, _READDIRPLUS)
CALLS: dict[str, tuple[tuple[str, ...], Hook, tuple[int, ...]]] = {
    "ever more names": (CLEAN, _folder(lambda n: [b"n" * 200 + b"%d_%d" % (n, at) for at in range(200)]), (1, 2)),
    "the same name, other cookies": (CLEAN, _folder(lambda _: [b"."]), (1, 2)),
    "no names for ever": (CLEAN, _folder(lambda _: []), (1, 2)),
    "names that are paths": (CLEAN, _folder(lambda _: [b"naslab-x/../../../etc"], True), (1, 2)),
    "an absolute name": (CLEAN, _folder(lambda _: [b"/etc/passwd"], True), (1, 2)),
    "a name with NUL": (CLEAN, _folder(lambda _: [b"naslab-a\0b"], True), (1, 2)),
    "an empty name": (CLEAN, _folder(lambda _: [b""], True), (1, 2)),
    "a tree without end": (("clean", "--force"), _tree(2), (1, 2)),
}  # fmt: skip
ANSWERS: dict[str, tuple[tuple[str, ...], Hook, tuple[int, ...]]] = {
    "data always later": (SWEEP, _on_nfs((_NREAD, _NWRITE, _COMMIT), _jukebox), (1, 2)),
    "metadata always later": (SWEEP, _on_nfs(METADATA, _jukebox), (1, 2)),
    "tiny fragments": (SWEEP, _on_nfs((_FSINFO, _ACCESS, _LOOKUP), _dripped(4)), (1, 2)),
    "single bytes": (SWEEP, _on_nfs((_FSINFO, _ACCESS, _LOOKUP), _dripped(0)), (1, 2)),
    "empty fragments": (SWEEP, _on_nfs((_FSINFO, _ACCESS, _LOOKUP), _dripped(-1)), (1, 2)),
    "half reads": (SWEEP, _on_nfs((_NREAD,), _read_of(lambda n: n // 2, 0)), (0, 1)),
    "half reads at an end": (SWEEP, _on_nfs((_NREAD,), _read_of(lambda n: n // 2, 1)), (1,)),
    "reads of nothing": (SWEEP, _on_nfs((_NREAD,), _read_of(lambda n: 0, 0)), (1,)),
    "writes of nothing": (SWEEP, _on_nfs((_NWRITE,), _written(lambda n: 0)), (1, 2)),
    "writes of more": (SWEEP, _on_nfs((_NWRITE,), _written(lambda n: 1 << 30)), (1, 2)),
}  # fmt: skip


@pytest.mark.timeout(2 * LIMIT_S)
@pytest.mark.parametrize("lie", CALLS)
def test_nfs_servers_with_endless_folders(lie: str, servers: dict[str, lab.Server], cli: Cli) -> None:
    command, hook, codes = CALLS[lie]
    sound(attacked(cli, servers["demo"], "version=3", command, None, hook), codes)


@pytest.mark.timeout(2 * LIMIT_S)
@pytest.mark.parametrize("lie", ANSWERS)
def test_nfs_servers_that_lie(lie: str, servers: dict[str, lab.Server], cli: Cli) -> None:
    command, hook, codes = ANSWERS[lie]
    sound(attacked(cli, servers["demo"], "version=3", command, hook, _remember), codes)


# NFS 4.

REFUSALS = {"delay": 10008, "grace": 10013, "badsession": 10052, "expired": 10011, "stale": 70, "resource": 10018}


@pytest.mark.timeout(2 * LIMIT_S)
@pytest.mark.parametrize("refusal", REFUSALS)
def test_nfs4_servers_that_never_mean_it(refusal: str, servers: dict[str, lab.Server], cli: Cli) -> None:
    """From the thirteenth answer on, every compound ends in its first operation with the same status."""
    code = REFUSALS[refusal]

    def hook(relay: Frames, message: bytearray, kept: dict[Any, Any], client: socket.socket) -> Answers:
        relay.seen += 1
        if relay.seen <= 12 or len(message) < 44:
            return None
        struct.pack_into(">I", message, 24, code)
        struct.pack_into(">I", message, 32, 1)
        struct.pack_into(">I", message, 40, code)
        return [relay.frame(message[:44])]

    version = "4.1" if refusal in ("badsession", "delay", "stale") else "4.0"
    sound(attacked(cli, servers["ganesha"], f"version={version}", SWEEP, hook), (1, 2))


# Whatever listens.


def _until_closed(piece: bytes, pause_s: float) -> Callable[[socket.socket], None]:
    def talk(client: socket.socket) -> None:
        until = time.monotonic() + LIMIT_S
        while time.monotonic() < until:
            client.sendall(piece)
            time.sleep(pause_s)

    return talk


def _answer_in_http(client: socket.socket) -> None:
    client.recv(10)
    client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    client.recv(1 << 16)


STRANGERS: dict[str, Callable[[socket.socket], None]] = {
    "silence": lambda client: time.sleep(LIMIT_S),
    "a reset": lambda client: client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)),
    "zeros": _until_closed(bytes(1 << 16), 0),
    "noise": _until_closed(bytes(range(256)) * 256, 0),
    "a drip": _until_closed(b"\0", 0.3),
    "keep-alives": _until_closed(b"\x85\0\0\0", 0.05),
    "empty messages": _until_closed(bytes(4000), 0.01),
    "HTTP": _answer_in_http,
}


@pytest.mark.timeout(4 * LIMIT_S)
@pytest.mark.parametrize("who", STRANGERS)
def test_strangers_on_the_port(who: str, cli: Cli) -> None:
    def serve(client: socket.socket) -> None:
        with suppress(OSError), closing(client):
            STRANGERS[who](client)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        port = listener.getsockname()[1]
        urls = (
            f"smb://127.0.0.1:{port}/x?user=",
            f"nfs://127.0.0.1:{port}/x?version=3&mountport={port}",
            f"nfs://127.0.0.1:{port}/x?version=4.1",
        )
        with ThreadPoolExecutor() as pool:
            small = ("--file-size", "64k", "--quiet", "--timeout", "1s")
            for done in pool.map(lambda url: watched(cli, ["sweep", url, *small]), urls):
                sound(done, (1, 2))
