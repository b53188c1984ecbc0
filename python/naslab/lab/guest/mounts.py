"""Kernel-mount clients: a server mounted in a guest by its kernel, and naslab measuring that mount from inside.

The server may be on the host's side of the guest's network or in another guest of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from naslab.errors import UsageError
from naslab.lab.guest.agent import TOP
from naslab.lab.guest.client import Done, Guest

MOUNT = f"{TOP}/mount"
"""Where a server is mounted."""
ACCESS = ("nfs3", "nfs4.0", "nfs4.1", "nfs4.2", "cifs2.1", "cifs3.0", "cifs3.1.1")
"""Kinds of kernel mounts: protocol and version."""
PROGRAMS = {"mount.nfs": "nfs-common", "mount.cifs": "cifs-utils"}
"""Programs and the Debian packages that hold them."""
CREDENTIALS = "/run/credentials"
"""In a guest that mounts a share: its user and password, as mount.cifs and `--credentials` take them."""


@dataclass(frozen=True)
class Remote:
    """What is mounted: `path` is an export or the name of a share.

    user, password: for cifs; without a user one mounts as guest. mount_port: of NFS 3.
    """

    host: str
    port: int
    path: str
    user: str = ""
    password: str = ""
    mount_port: int = 0


def mount_words(access: str, remote: Remote, more: Sequence[str] = (), target: str = MOUNT) -> list[str]:
    """The command that mounts it. more: further options of mount(8). Raises UsageError for an unknown kind."""
    if access not in ACCESS:
        raise UsageError(f"guest: access={access!r}; use one of {', '.join(ACCESS)}")
    kind, version = ("nfs", access[3:]) if access.startswith("nfs") else ("cifs", access[4:])
    options = [f"vers={version}", f"port={remote.port}"]
    if kind == "cifs":
        options.append(f"credentials={CREDENTIALS}" if remote.user else "guest")
        source = f"//{remote.host}/{remote.path.strip('/')}"
    else:
        options.append("proto=tcp")
        if version == "3":
            options += ["nolock", "mountproto=tcp", f"mountport={remote.mount_port or remote.port}"]
        source = f"{remote.host}:/{remote.path.strip('/')}"
    return ["mount", "-t", kind, "-o", ",".join([*options, *more]), source, target]


def mount(guest: Guest, access: str, remote: Remote, more: Sequence[str] = (), target: str = MOUNT) -> None:
    """Mounts it in the guest. Raises UsageError, TargetError."""
    words = mount_words(access, remote, more, target)
    guest.run(["mkdir", "-p", target], check=True)
    if access.startswith("cifs") and remote.user:
        guest.write(CREDENTIALS, f"username={remote.user}\npassword={remote.password}\n".encode(), 0o600)
    guest.run(words, check=True)


def unmount(guest: Guest, target: str = MOUNT) -> None:
    """Takes it off. Raises TargetError."""
    guest.run(["umount", target], check=True)


def naslab(
    guest: Guest, words: Sequence[str], store: Path, *, timeout_s: float | None = None,
    on_output: Callable[[str, bytes], None] | None = None,
) -> Done:  # fmt: skip
    """Runs this naslab inside, from the host's own files. store: in one of the guest's shared folders."""
    command = [sys.executable, "-m", "naslab", *words]
    env = {"NASLAB_STORE": str(store), "COLUMNS": "100", "PYTHONDONTWRITEBYTECODE": "1"}
    return guest.run(command, env=env, timeout_s=timeout_s, on_output=on_output)
