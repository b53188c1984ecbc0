"""Starts a guest's kernel (user-mode Linux) as a program of this machine, and ends it.

Its root is the host's own, read-only; what it may write to are its shared folders. It runs in mount and process
namespaces of its own, which end as a whole: the host's kernel (PR_SET_PDEATHSIG) kills all that it is made of when this
process ends. Its disks are files without a name, held open here, so that they outlive a power cut of the
guest and end with this process.

Source: Documentation/virt/uml/user_mode_linux_howto_v2.rst of Linux 6.1 (vector transports, consoles, ubd).
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import naslab
from naslab.client import process
from naslab.errors import TargetError, UsageError
from naslab.lab import link as links
from naslab.lab.guest import agent, registers
from naslab.lab.guest.spec import BRIDGE, HOST, Spec, check_folder, device_number
from naslab.lab.readiness import last_words
from naslab.lab.systems import search_path

PROGRAMS = {"linux.uml": "user-mode-linux", "unshare": "util-linux", "ip": "iproute2", "modprobe": "kmod"}
"""Programs and the Debian packages that hold them."""
_MEMORY = "/dev/shm"
"""Where the kernel keeps a guest's memory, in a file without a name."""
_WATCH = "{ read -r _ <&3; while :; do kill -KILL -1; sleep 1; done; } &"
_FIRST = ("/bin/sh", "-c", f'exec 3<&0 </dev/null; {_WATCH} ulimit -c 0; "$@" 3<&-; exit $?', "guest")
"""The first process of the namespace, which no signal of its own ends; the kernel ends by one when it panics. Where the
process that started it was killed before the kernel was told to end both, its end of the pipe tells."""


class Machine:
    """A guest's disks, network and kernel.

    folder: private; holds what the kernel says (console.log) and its control files.
    """

    def __init__(self, spec: Spec, folder: Path) -> None:
        check(spec, folder)
        self.spec, self.folder = spec, folder
        self.child: subprocess.Popen[bytes] | None = None
        self.line_in = self.line_out = -1
        self._disks = [_memory(disk.size_bytes, folder.name) if disk.size_bytes else -1 for disk in spec.disks]
        self._own_net = not spec.net
        join_network(spec)

    @property
    def console(self) -> Path:
        """What its kernel says."""
        return self.folder / "console.log"

    def start(self) -> None:
        """Starts the kernel; it is ready when its agent says so on `line_in`. Raises OSError."""
        shutil.rmtree(self.folder / "uml", ignore_errors=True)  # a name of a killed one would be refused
        config = self.folder / "agent.json"
        config.write_text(json.dumps(agent_config(self.spec, self.folder)), encoding="utf-8")
        words = [sys.executable, "-S", agent.__file__, str(config)]
        init = self.folder / "init"
        init.write_text(f"#!/bin/sh\nexec {shlex.join(words)}\n", encoding="utf-8")
        init.chmod(0o700)
        from_guest, guest_out = os.pipe()
        guest_in, to_guest = os.pipe()
        command = kernel_command(self.spec, self.folder, init, self._disks, (guest_in, guest_out))
        env = {**os.environ, "PATH": search_path(), "HOME": str(self.folder)}
        if registers.needed():
            env["LD_PRELOAD"] = str(registers.build(self.folder))
        me = os.getpid()
        with self.console.open("ab") as log:
            self.child = subprocess.Popen(
                ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", *_FIRST, *command],
                stdin=subprocess.PIPE, stdout=log, stderr=log, cwd="/", start_new_session=True,
                pass_fds=[guest_in, guest_out, *(each for each in self._disks if each >= 0)],
                env=env,
                preexec_fn=lambda: process.die_with_parent(me),  # noqa: PLW1509 - this process has one thread
            )  # fmt: skip
        os.close(guest_in)
        os.close(guest_out)
        self.line_in, self.line_out = from_guest, to_guest

    def cut(self) -> None:
        """Takes the guest's power: it is killed at once. Returns when nothing of it runs."""
        if self.child is None:
            return
        while self.child.poll() is None:
            # The first process of its namespace, once it is there; the kernel ends the rest.
            for each in process.descendants(self.child.pid)[:1]:
                process.send(each, 9)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.child.wait(0.01)
        self.ended()

    def ended(self) -> int:
        """Waits for the end of the kernel's processes; their exit code."""
        assert self.child is not None
        code = self.child.wait()
        assert self.child.stdin is not None
        self.child.stdin.close()
        for number in (self.line_in, self.line_out):
            os.close(number)
        self.child, self.line_in, self.line_out = None, -1, -1
        return code

    def end(self) -> None:
        """Kills the guest, gives back its disks and its interface."""
        self.cut()
        for number in self._disks:
            if number >= 0:
                os.close(number)
        self._disks = []
        if not self._own_net:
            with contextlib.suppress(TargetError):
                links.run_command("ip", "link", "del", self.spec.tap)

    def why(self) -> str:
        """The end of what its kernel said."""
        return last_words(self.console) or "it printed nothing"


def programs() -> dict[str, str]:
    """Programs that a guest needs on this machine, and the Debian packages that hold them."""
    return {**PROGRAMS, **(registers.PROGRAMS if registers.needed() else {})}


def check(spec: Spec, folder: Path) -> None:
    """Raises UsageError where no such guest can be started."""
    if os.geteuid() != 0:
        raise UsageError(
            "lab: a guest needs its own network interface and mounts: run as root, or in a user namespace: "
            "unshare --user --map-root-user naslab ..."
        )
    missing = [package for name, package in programs().items() if shutil.which(name, path=search_path()) is None]
    if missing:
        raise UsageError(f"lab: a guest needs {', '.join(missing)}; Debian/Ubuntu: apt install {' '.join(missing)}")
    if not Path(agent.MODULES, "modules").is_dir():
        raise UsageError(
            f"lab: the guest's modules are not in {agent.MODULES}; apt install --reinstall user-mode-linux"
        )
    check_folder(str(folder))
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        raise UsageError("lab: /dev/net/tun is not there: this machine (a container?) has no tap interfaces")
    room = os.statvfs(_MEMORY) if os.path.isdir(_MEMORY) else None
    if room is not None and room.f_bavail * room.f_frsize < spec.ram_bytes:
        raise UsageError(f"guest: {_MEMORY} has no space for ram_bytes={spec.ram_bytes}: make it larger, or give less")
    for disk in spec.disks:
        if disk.path and not os.access(disk.path, os.R_OK | os.W_OK):
            raise UsageError(f"guest: disk {disk.path!r} cannot be read and written; name a file or a block device")


def kernel_command(spec: Spec, folder: Path, init: Path, disks: list[int], line: tuple[int, int]) -> list[str]:
    """The kernel's command line. disks: descriptors of those in memory. line: of the agent's line, in and out."""
    words = [
        "linux.uml", f"mem={spec.ram_bytes >> 10}K", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro",
        f"init={init}", f"uml_dir={folder}/uml", "umid=guest", "noreboot", "panic=1",
        "con0=null,fd:1", "con=null", f"ssl0=fd:{line[0]},fd:{line[1]}", "ssl=null",
        f"vec0:transport=tap,ifname={spec.tap},depth=64,gro=1,mtu={spec.mtu_bytes},mac={mac(spec.address)}",
    ]  # fmt: skip
    for number, (disk, handle) in enumerate(zip(spec.disks, disks, strict=True)):
        words.append(f"ubd{number}d={disk.path or f'/proc/self/fd/{handle}'}")
    return words


def mac(address: str) -> str:
    """A guest's hardware address, which stays when it starts again: what others remember of it stays true."""
    return "02:6e:" + ":".join(f"{int(part):02x}" for part in address.split("."))


def agent_config(spec: Spec, folder: Path) -> dict[str, Any]:
    """What the agent is told. Folders of the host that an empty one of the guest would hide are given back."""
    folders = {str(Path(each).resolve()): True for each in (str(folder), *spec.shared)}
    needed = {sys.prefix, sys.base_prefix, str(Path(naslab.__file__).parents[1])}
    for each in needed:
        hidden = any(each == fresh or each.startswith(f"{fresh}/") for fresh in agent.FRESH)
        if hidden and each not in folders:
            folders[each] = False
    limits = {device_number(number): disk.limits() for number, disk in enumerate(spec.disks)}
    return {
        "name": folder.name, "folders": dict(sorted(folders.items())), "address": spec.address,
        "limits": {device: values for device, values in limits.items() if values},
        "naslab": [sys.executable, "-m", "naslab"],
    }  # fmt: skip


def join_network(spec: Spec) -> None:
    """Moves this process into the guest's network, makes that if it has none, and the guest's tap in it.

    Raises UsageError, TargetError.
    """
    if spec.net:
        links.enter(spec.net)
    else:
        links.unshare_network()
        make_bridge(HOST)
    links.run_command("ip", "tuntap", "add", spec.tap, "mode", "tap")
    links.run_command("ip", "link", "set", spec.tap, "mtu", str(spec.mtu_bytes), "master", BRIDGE, "up")


def make_bridge(address: str, *prefix: str) -> None:
    """The switch that taps are ports of. address: the host's own there; empty for none. Raises TargetError.

    prefix: words that put a command into another network than this process's.
    """
    links.run_command(*prefix, "ip", "link", "set", "lo", "up")
    links.run_command(*prefix, "ip", "link", "add", BRIDGE, "type", "bridge")
    if address:
        links.run_command(*prefix, "ip", "addr", "add", f"{address}/24", "dev", BRIDGE)
    links.run_command(*prefix, "ip", "link", "set", BRIDGE, "up")


def _memory(size_bytes: int, label: str) -> int:
    """A file of this size in memory, without a name; its descriptor."""
    handle = os.memfd_create(label)
    os.ftruncate(handle, size_bytes)
    return handle
