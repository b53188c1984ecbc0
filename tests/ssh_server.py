"""Private ssh servers for tests: OpenSSH's sshd with keys and configuration of its own, in the foreground."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cli_tools import HANG_S

CONFIG = """
ListenAddress {address}
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/id.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
MaxStartups 200
"""


def sshd() -> str | None:
    """The server's program, which wants to be called by its whole path."""
    return shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def make_keys(folder: Path) -> None:
    """`host`, and `id` for who logs in; in a folder that is an ssh client's own."""
    folder.mkdir(mode=0o700, exist_ok=True)
    for name in ("host", "id"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)


def know(folder: Path, address: str, port: int) -> None:
    """The ssh client of this folder knows the server there."""
    name = address if port == 22 else f"[{address}]:{port}"
    with (folder / "known_hosts").open("a") as known:
        known.write(f"{name} {(folder / 'host.pub').read_text()}")


@contextmanager
def running(folder: Path, address: str, port: int, inside: Sequence[str] = ()) -> Iterator[None]:
    """A server with the keys of `folder`. inside: words before its command line that bring it into a namespace."""
    program = sshd()
    assert program is not None
    Path("/run/sshd").mkdir(exist_ok=True)  # its empty folder, which a service would make
    config = folder / f"sshd-{address}-{port}"
    config.write_text(CONFIG.format(address=address, port=port, folder=folder))
    know(folder, address, port)
    with subprocess.Popen([*inside, program, "-D", "-e", "-f", str(config)], stderr=subprocess.DEVNULL) as server:
        try:
            if not inside:
                _until_it_answers(address, port)
            yield
        finally:
            server.terminate()
            server.wait(10)


def _until_it_answers(address: str, port: int) -> None:
    until = time.monotonic() + HANG_S
    while True:
        try:
            socket.create_connection((address, port), 1).close()
            return
        except OSError:
            assert time.monotonic() < until, "sshd does not answer"
            time.sleep(0.05)


def python_with_this_naslab(folder: Path) -> Path:
    """A program that is this Python with what it imports; ssh servers hand on no environment."""
    file = folder / "python"
    file.write_text(f'#!/bin/sh\nPYTHONPATH={os.pathsep.join(filter(None, sys.path))} exec {sys.executable} "$@"\n')
    file.chmod(0o755)
    return file
