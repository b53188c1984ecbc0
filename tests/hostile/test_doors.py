"""Which doors naslab opens, to whom, and that nobody can hold them shut: listening sockets, half-open requests."""

from __future__ import annotations

import asyncio
import http.client
import ipaddress
import os
import resource
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("distributed")

from naslab.execution.clients import launch, local, settings

LISTEN = "0A"


@dataclass(frozen=True)
class Door:
    """A socket that listens for TCP; pid: of the first process that holds it."""

    pid: int
    address: str
    port: int


def doors(root: int) -> list[Door]:
    """The listening TCP sockets of a process and all that came from it, as the kernel lists them."""
    listening: dict[str, tuple[str, int]] = {}
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTEN:
                address, _, port = fields[1].partition(":")
                listening[fields[9]] = (_address(address), int(port, 16))
    return [Door(pid, *listening[inode]) for pid in tree(root) for inode in sorted(_sockets(pid)) if inode in listening]


def _address(digits: str) -> str:
    """Each 32-bit word is in the byte order of the machine."""
    words = [bytes.fromhex(digits[at : at + 8])[::-1] for at in range(0, len(digits), 8)]
    return str(ipaddress.ip_address(b"".join(words)))


def _sockets(pid: int) -> set[str]:
    found = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            name = os.readlink(link)
        except OSError:
            continue
        if name.startswith("socket:["):
            found.add(name[8:-1])
    return found


def tree(root: int) -> list[int]:
    """A process and its children's children."""
    found, at = [root], 0
    while at < len(found):
        for task in Path(f"/proc/{found[at]}/task").iterdir():
            try:
                found += map(int, (task / "children").read_text().split())
            except OSError:
                continue
        at += 1
    return found


def test_the_list_of_doors_is_right() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("::1", 0), family=socket.AF_INET6) as two:
        found = {(door.address, door.port) for door in doors(os.getpid())}
        assert {("127.0.0.1", one.getsockname()[1]), ("::1", two.getsockname()[1])} <= found


def test_clients_of_this_machine_listen_on_loopback_only_and_speak_no_http() -> None:
    before = {(door.address, door.port) for door in doors(os.getpid())}

    async def opened() -> tuple[list[Door], dict[Door, bytes]]:
        async with launch.started(settings.Wanted(clients=2)) as client:
            await client.wait_for_workers(2, timeout=60)
            found = [door for door in doors(os.getpid()) if (door.address, door.port) not in before]
            return found, {door: await _http_answer(door) for door in found}

    local.fork_server()
    found, answers = asyncio.run(opened())
    assert len(found) == 3, "one of the scheduler, one of each client"
    assert {door.address for door in found} == {"127.0.0.1"}
    assert not any(answer.startswith(b"HTTP/") for answer in answers.values()), answers


async def _http_answer(door: Door) -> bytes:
    """What comes back for a request by a name that is not this machine's."""
    reader, writer = await asyncio.open_connection(door.address, door.port)
    writer.write(b"GET / HTTP/1.1\r\nHost: attacker.example\r\n\r\n")
    try:
        return await asyncio.wait_for(reader.read(64), 2)
    except (TimeoutError, ConnectionError):
        return b""
    finally:
        writer.close()


# The library.


@contextmanager
def served(folder: Path, *words: str) -> Iterator[tuple[str, int]]:
    """(address, port) of a library of an empty store."""
    environment = {**os.environ, "NASLAB_STORE": str(folder / "runs.sqlite")}
    command = [sys.executable, "-m", "naslab", "serve", "--listen", "127.0.0.1:0", *words]
    child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        line = child.stdout.readline()
        assert line.startswith("Library: "), child.communicate()
        host, _, port = line.split("//")[1].rstrip("/\n").rpartition(":")
        yield host, int(port)
    finally:
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=30)


def answer(where: tuple[str, int], path: str = "/", **headers: str) -> int:
    """The status of a whole request."""
    with closing(http.client.HTTPConnection(*where, timeout=60)) as connection:
        connection.request("GET", path, headers=headers)
        found = connection.getresponse()
        found.read()
        return found.status


HALF_OPEN = (b"", b"G", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ", b"POST /login HTTP/1.1\r\n"
             b"Host: localhost\r\nContent-Length: 9\r\n\r\n")  # fmt: skip


def test_a_thousand_half_open_requests_leave_the_library_usable(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    with served(tmp_path, "--token", "0123456789abcdef") as where, ExitStack() as stack:
        for at in range(1000):
            one = stack.enter_context(socket.create_connection(where, timeout=60))
            with suppress(ConnectionError):
                one.sendall(HALF_OPEN[at % len(HALF_OPEN)])
            if at % 100 == 99:
                assert answer(where, Authorization="Bearer 0123456789abcdef") == 200
        assert answer(where) == 401
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_request_that_never_comes_is_not_waited_for(tmp_path: Path) -> None:
    """Each byte more gives it no more time: the connections end although something comes all the time."""
    with served(tmp_path, "--token", "0123456789abcdef") as where, ExitStack() as stack:
        still = []
        for sent in HALF_OPEN[:-1]:
            one = stack.enter_context(socket.create_connection(where, timeout=60))
            one.sendall(sent)
            still.append(one)
        for _ in range(240):
            ready, _, _ = select.select(still, [], [], 0.25)
            still = [one for one in still if one not in ready or not _ended(one)]
            if not still:
                return
            for one in still:
                with suppress(ConnectionError):
                    one.sendall(b"x")
        pytest.fail(f"{len(still)} connections were kept for a minute")


def _ended(one: socket.socket) -> bool:
    try:
        return one.recv(4096) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("host", ["attacker.example", "127.0.0.1.attacker.example", "localhost.attacker.example:80"])
def test_foreign_names_are_refused(tmp_path: Path, host: str) -> None:
    with served(tmp_path) as where:
        assert [answer(where, path, Host=host) for path in ("/", "/events/x", "/static/x.js")] == [400] * 3
        assert answer(where, Host="localhost") == 200
        assert {(door.address, door.port) for door in doors(os.getpid()) if door.port == where[1]} == {where}
