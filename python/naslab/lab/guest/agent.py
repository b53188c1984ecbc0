"""A guest's first program: prepares its system and carries out requests from a serial line.

It runs inside, from the host's own files and with nothing but the standard library. Requests and answers are lines of
JSON on a line of their own (ttyS0), which no message of the kernel reaches; what is no JSON object is passed over.

Requests have an `id` of the sender's and `do`: `run` (command, env, cwd, input; with `log` it stays in the background
and its output goes to that file), `signal` (of: an id, number), `write` (path, data, mode), `read` (path), `port`
(host, port, seconds: waits until it takes a connection), `stop`.
Answers carry that id: `out` and `err` (pieces of output), then one with `end`: `code`, `elapsed_ns`, `pid`, `data` or
`error`. Bytes are base64. A long request lies in a `file`, which is named
instead. The first line of all is `ready` or `failed`.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import fcntl
import json
import os
import shlex
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
import tty
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

LINE = "/dev/ttyS0"
MODULES = "/usr/lib/uml"
PATH = "/run/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TOP = "/lab"
"""Where a guest's own things lie; hides what the host may have of that name."""
DATA = f"{TOP}/data"
"""Where its volume is mounted and served from."""
_EMPTY = (TOP, "/run", "/tmp", "/mnt", "/proc", "/sys", "/dev")
_MASKED = ("/var/lib/nfs", "/var/tmp", "/var/log")
FRESH = (*_EMPTY, *_MASKED)
"""Folders that begin empty, in memory, instead of the host's."""
THROTTLES = "/sys/fs/cgroup/blkio"
_PIECE_BYTES = 24 << 10
_MOST_LINE_BYTES = 64 << 20
_READ_ONLY, _NO_SUID, _REMOUNT, _BIND, _MOVE, _DETACH = 1, 2, 32, 4096, 8192, 2
_PIVOT_ROOT = 155
_POWER_OFF = 0x4321FEDC
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _SIOCSIFADDR, _SIOCSIFNETMASK, _UP = 0x8913, 0x8914, 0x8916, 0x891C, 1
_VIRTUAL = frozenset({"proc", "sysfs", "tmpfs", "devtmpfs", "devpts", "cgroup", "rpc_pipefs", "nfsd"})


def encode(words: dict[str, Any]) -> bytes:
    """One line."""
    return json.dumps(words).encode("ascii") + b"\n"


def decode(line: bytes) -> dict[str, Any] | None:
    """What a line says; None where it is no JSON object."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


class Lines:
    """Bytes as they come, to the lines in them."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._length_bytes = 0

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Requests or answers that are complete now. A line beyond 64 MiB is dropped."""
        *ended, rest = data.split(b"\n")
        for end in ended:
            if (found := decode(b"".join([*self._parts, end]))) is not None:
                yield found
            self._parts, self._length_bytes = [], 0
        if rest and self._length_bytes <= _MOST_LINE_BYTES:
            self._parts.append(rest)
            self._length_bytes += len(rest)


def to_text(data: bytes) -> str:
    """Bytes as they travel."""
    return base64.b64encode(data).decode("ascii")


def to_bytes(text: str) -> bytes:
    """What `to_text` took. Raises ValueError."""
    return base64.b64decode(text, validate=True)


# the system


def mount(source: str, target: str, kind: str, flags: int = 0, options: str = "") -> None:
    """mount(2). Raises OSError."""
    words = [os.fsencode(each) for each in (source, target, kind)]
    if ctypes.CDLL(None, use_errno=True).mount(*words, ctypes.c_ulong(flags), os.fsencode(options)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def new_root() -> None:
    """Puts a root in memory over the host's folders, so that folders can be made in it and servers can export it.

    Everything that has the old root gets the new one (pivot_root(2)): threads of the kernel that start programs, too.
    In a guest of an ordinary user files of the host's root are those of nobody, who no program may become.
    """
    mount("/", "/", "", _REMOUNT | _BIND | _READ_ONLY | _NO_SUID)
    root = Path("/mnt")
    mount("root", str(root), "tmpfs", options="mode=755")
    for entry in sorted(Path("/").iterdir()):
        there = root / entry.name
        if entry.is_symlink():
            there.symlink_to(entry.readlink())
        elif entry.is_dir() and str(entry) not in _EMPTY:
            there.mkdir()
            with contextlib.suppress(OSError):
                mount(str(entry), str(there), "", _BIND)
    for name in (*_EMPTY, "/old", DATA):
        (root / name[1:]).mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)
    mount("/dev", str(root / "dev"), "", _MOVE)
    library = ctypes.CDLL(None, use_errno=True)
    if library.syscall(_PIVOT_ROOT, os.fsencode(root), os.fsencode(root / "old")) != 0:
        raise OSError(ctypes.get_errno(), "pivot_root")
    os.chdir("/")
    library.umount2(b"/old", _DETACH)
    Path("/old").rmdir()


def prepare(config: dict[str, Any]) -> None:
    """Mounts what a system has, shares folders with the host, limits disks, brings the network up. Raises OSError."""
    new_root()
    mount("proc", "/proc", "proc")
    mount("sysfs", "/sys", "sysfs")
    for folder in _MASKED:
        if Path(folder).is_dir():
            mount("fresh", folder, "tmpfs", options="mode=1777" if folder.endswith("tmp") else "mode=755")
    for folder in ("/dev/pts", "/dev/shm"):
        Path(folder).mkdir(exist_ok=True)
    mount("devpts", "/dev/pts", "devpts", options="ptmxmode=666")
    mount("shm", "/dev/shm", "tmpfs")
    for folder, writable in config["folders"].items():
        Path(folder).mkdir(parents=True, exist_ok=True)
        mount("none", folder, "hostfs", 0 if writable else _READ_ONLY, folder)
    with contextlib.suppress(OSError):
        socket.sethostname(config["name"])
    _programs(config["naslab"])
    _throttle(config["limits"])
    _interface("lo", "127.0.0.1", "255.0.0.0")
    if config["address"]:
        _interface("vec0", config["address"], "255.255.255.0")


def _programs(naslab: list[str]) -> None:
    """`naslab`, and a `modprobe` by which the kernel, too, finds the guest's modules where they lie on the host."""
    Path("/run/bin").mkdir()
    _script("naslab", f'PYTHONDONTWRITEBYTECODE=1 exec {shlex.join(naslab)} "$@"')
    _script("modprobe", 'PATH=/usr/sbin:/sbin:/usr/bin:/bin exec modprobe -d /run/modules "$@"')
    tree = Path("/run/modules/lib")
    tree.mkdir(parents=True)
    (tree / "modules").symlink_to(f"{MODULES}/modules")
    Path("/proc/sys/kernel/modprobe").write_text("/run/bin/modprobe")


def _script(name: str, line: str) -> None:
    path = Path("/run/bin", name)
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def _throttle(limits: dict[str, dict[str, int]]) -> None:
    """Limits disks in the root group, so that threads of the kernel (RAID) keep to them too."""
    mount("cgroups", "/sys/fs/cgroup", "tmpfs")
    Path(THROTTLES).mkdir()
    mount("cgroup", THROTTLES, "cgroup", options="blkio")
    for device, values in limits.items():
        for name, value in values.items():
            Path(f"{THROTTLES}/blkio.throttle.{name}").write_text(f"{device} {value}")


def _interface(name: str, address: str, netmask: str) -> None:
    """Gives an interface its address and brings it up, without starting a program (40 ms each in a guest)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:

        def call(number: int, value: bytes) -> bytes:
            return fcntl.ioctl(handle, number, struct.pack("16s24s", name.encode(), value))

        def inet(text: str) -> bytes:
            return struct.pack("HH4s", socket.AF_INET, 0, socket.inet_aton(text))

        call(_SIOCSIFADDR, inet(address))
        call(_SIOCSIFNETMASK, inet(netmask))
        flags = struct.unpack_from("H", call(_SIOCGIFFLAGS, b""), 16)[0]
        call(_SIOCSIFFLAGS, struct.pack("H", flags | _UP))


# requests


class Agent:
    """Carries out requests, each on threads of its own."""

    def __init__(self, line: int) -> None:
        self._line = line
        self._lock = threading.Lock()
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def say(self, **words: Any) -> None:
        """One line out."""
        data = encode(words)
        with self._lock:
            while data:
                data = data[os.write(self._line, data) :]

    def listen(self) -> None:
        """Takes requests until the line ends."""
        lines = Lines()
        while data := os.read(self._line, 65536):
            for request in lines.feed(data):
                threading.Thread(target=self._answer, args=(request,), daemon=True).start()

    def _answer(self, request: dict[str, Any]) -> None:
        ways: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "run": self._run, "signal": self._signal, "write": _write, "read": _read, "port": _port,
            "stop": self._stop,
        }  # fmt: skip
        try:
            if "file" in request:
                path = Path(request["file"])
                request = json.loads(path.read_bytes())
                path.unlink()
            found = ways[request["do"]](request)
        except (OSError, ValueError, KeyError, TypeError, subprocess.SubprocessError) as error:
            found = {"error": f"{type(error).__name__}: {error}"}
        self.say(id=request.get("id"), end=True, **found)
        if request.get("do") == "stop":
            power_off()

    def _run(self, request: dict[str, Any]) -> dict[str, Any]:
        env = {"PATH": PATH, "HOME": "/root", "LC_ALL": "C.UTF-8", "TMPDIR": "/tmp", **request.get("env", {})}
        log = request.get("log")
        given = to_bytes(request.get("input", ""))
        with contextlib.ExitStack() as stack:
            out: Any = stack.enter_context(Path(log).open("ab")) if log else subprocess.PIPE
            begin_ns = time.monotonic_ns()
            child = subprocess.Popen(
                request["command"], env=env, cwd=request.get("cwd", "/"), start_new_session=True,
                stdin=subprocess.PIPE if given else subprocess.DEVNULL, stdout=out, stderr=out,
            )  # fmt: skip
        if log:
            threading.Thread(target=child.wait, daemon=True).start()
            return {"pid": child.pid}
        self._running[request["id"]] = child
        try:
            self._pass_on(request["id"], child, given)
            return {"code": child.wait(), "elapsed_ns": time.monotonic_ns() - begin_ns}
        finally:
            del self._running[request["id"]]

    def _pass_on(self, number: int, child: subprocess.Popen[bytes], given: bytes) -> None:
        """Output as it comes, until both streams end."""
        threads = [
            threading.Thread(target=self._stream, args=(number, name, stream), daemon=True)
            for name, stream in (("out", child.stdout), ("err", child.stderr))
        ]
        for thread in threads:
            thread.start()
        if child.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                child.stdin.write(given)
            with contextlib.suppress(BrokenPipeError):
                child.stdin.close()
        for thread in threads:
            thread.join()

    def _stream(self, number: int, name: str, stream: Any) -> None:
        with stream:
            while data := os.read(stream.fileno(), _PIECE_BYTES):
                self.say(id=number, **{name: to_text(data)})

    def _signal(self, request: dict[str, Any]) -> dict[str, Any]:
        """Signals a command with all that it started."""
        child = self._running.get(request["of"])
        if child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, request["number"])
        return {"data": child is not None}

    def _stop(self, _request: dict[str, Any]) -> dict[str, Any]:
        """Ends all programs, takes file systems off."""
        with contextlib.suppress(OSError):
            os.kill(-1, signal.SIGTERM)  # reaches neither this process nor the guest's first one
        time.sleep(0.1)
        with contextlib.suppress(OSError):
            os.kill(-1, signal.SIGKILL)
        os.sync()
        left = unmount_all()
        return {"data": left}


def _write(request: dict[str, Any]) -> dict[str, Any]:
    path = Path(request["path"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(to_bytes(request["data"]))
    path.chmod(request.get("mode", 0o644))
    return {}


def _read(request: dict[str, Any]) -> dict[str, Any]:
    return {"data": to_text(Path(request["path"]).read_bytes())}


def _port(request: dict[str, Any]) -> dict[str, Any]:
    deadline = time.monotonic() + request["seconds"]
    while True:
        try:
            socket.create_connection((request["host"], request["port"]), 1.0).close()
        except OSError:
            if time.monotonic() > deadline:
                return {"data": False}
            time.sleep(0.02)
        else:
            return {"data": True}


def unmount_all() -> list[str]:
    """Takes off what is on disks or a server, the last mounted first; what would not go."""
    left = []
    for row in reversed(Path("/proc/mounts").read_text(encoding="utf-8").splitlines()):
        _, target, kind, *_ = row.split(" ")
        if kind in _VIRTUAL or kind == "hostfs":
            continue
        path = target.encode().decode("unicode_escape")
        if ctypes.CDLL(None, use_errno=True).umount2(os.fsencode(path), 0) != 0:
            left.append(path)
    return left


def power_off() -> None:
    """Ends the guest."""
    os.sync()
    time.sleep(0.05)  # the last answer leaves the line
    ctypes.CDLL(None).reboot(ctypes.c_int(_POWER_OFF))


def _watch(agent: int) -> None:
    """The first process's whole life: to bury whom nobody else does. Without the agent the guest ends."""
    while True:
        with contextlib.suppress(InterruptedError):
            if os.wait()[0] == agent:
                power_off()


def _serve(config: dict[str, Any], agent: Agent) -> None:
    uptime = Path("/proc/uptime").read_text(encoding="ascii").split()[0]
    agent.say(ready={"kernel": os.uname().release, "up_s": float(uptime), "name": config["name"]})
    agent.listen()


def main() -> int:
    """Entry point: the configuration's path is the argument."""
    config = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    os.environ["PATH"] = PATH
    line = os.open(LINE, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    tty.setraw(line, termios.TCSANOW)
    agent = Agent(line)
    try:
        prepare(config)
    except OSError as error:
        agent.say(failed=f"{type(error).__name__}: {error}")
        power_off()
    child = os.fork()
    if child:
        _watch(child)
    _serve(config, agent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
