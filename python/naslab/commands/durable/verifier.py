"""The NFS write verifier: it must change when a server restarts, so that clients send again what was not committed.

A sentinel writes a little without committing it before the load, and rests. After the cut the same session, connected
anew, commits: the engine compares the verifier with the one before and says when they differ. Only NFS 3 can be asked
so, as an open file of NFS 4 does not outlive the server's state.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import time
from typing import TYPE_CHECKING

from naslab import _engine
from naslab.errors import NaslabError, TargetError

if TYPE_CHECKING:
    from naslab.commands.durable.plan import Plan

IDLE_S = 5.5
"""A session opens a lost connection again after 5 s without work (crates/target-nfs/src/session.rs)."""
_NEW = json.dumps({"read": False, "write": True, "create": "new"})


class Sentinel:
    """One uncommitted write, and the verdicts verifier. To be made while nothing else opens connections."""

    def __init__(self, session: _engine.Session, plan: Plan, cut: int) -> None:
        before = _sockets()
        self._session = session.another()
        self._connections = _sockets() - before
        self._file = self._session.open(f"{plan.place(cut)}/verifier", _NEW)
        self._session.write(self._file, 0, bytes(4096))
        self._since = time.monotonic()

    def changed(self) -> bool | None:
        """Whether the verifier is another one than before the cut; None where that cannot be told. Waits until the
        session was idle for IDLE_S.
        """
        self._hang_up()
        time.sleep(max(0.0, self._since + IDLE_S - time.monotonic()))
        before = self._counted("verifier_changed")
        with contextlib.suppress(NaslabError):
            self._session.flush(self._file)
            return False
        return True if self._counted("verifier_changed") > before else None

    def _hang_up(self) -> None:
        """A machine whose power was cut has closed no connection: the session would use the old one, and break."""
        for number in self._connections:
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(number)) as connection:
                connection.shutdown(socket.SHUT_RDWR)

    def _counted(self, name: str) -> int:
        try:
            return self._session.events().get(name, 0)
        except TargetError:
            return 0

    def end(self) -> None:
        """Ends the session."""
        self._session.end()


def _sockets() -> set[int]:
    """Numbers of this process's sockets; none where the system does not tell."""
    found = set()
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                    found.add(int(name))
    return found
