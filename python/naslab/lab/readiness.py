"""Whether a server answers yet, and why it does not."""

from __future__ import annotations

import contextlib
import secrets
import socket
from pathlib import Path
from typing import Any

_MOUNT, _NFS = 100005, 100003


def answers(facts: dict[str, Any], seconds: float = 1.0) -> bool:
    """Whether the server at these facts takes a connection and, if it speaks NFS, answers a null call.

    Facts may name a file that must be there, too (`ready`).
    """
    if not Path(facts.get("ready", "/")).exists():
        return False
    host = facts.get("host", "127.0.0.1")
    try:
        if facts["protocol"] == "smb":
            with socket.create_connection((host, facts["port"]), seconds):
                return True
        versions = facts["versions"]
        if "3" not in versions:
            return _null_call((host, facts["port"]), _NFS, 4, seconds)
        if not _null_call((host, facts["port"]), _NFS, 3, seconds):
            return False
        return _null_call((host, facts["mount_port"]), _MOUNT, 3, seconds)
    except OSError:
        return False


def _null_call(address: tuple[str, int], program: int, version: int, seconds: float) -> bool:
    """Sends procedure 0 (RFC 5531) without credentials; whether it is accepted."""
    xid = secrets.randbits(32)
    call = b"".join(word.to_bytes(4, "big") for word in (xid, 0, 2, program, version, 0, 0, 0, 0, 0))
    with socket.create_connection(address, seconds) as connection:
        connection.sendall((0x80000000 | len(call)).to_bytes(4, "big") + call)
        reply = b""
        while len(reply) < 28:
            more = connection.recv(28 - len(reply))
            if not more:
                return False
            reply += more
    words = [int.from_bytes(reply[at : at + 4], "big") for at in range(4, 28, 4)]
    return words == [xid, 1, 0, 0, 0, 0]


def last_words(log: Path, lines: int = 4) -> str:
    """The end of a log as one line, without back traces and time stamps of their own; empty when there is none."""
    with contextlib.suppress(OSError):
        found = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
        return " | ".join([line for line in found if line and line[0] not in "#[="][-lines:])[-800:]
    return ""
