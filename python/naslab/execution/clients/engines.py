"""The engine that an `Agent` leads: the one of its own process. On a host without Python it is a program (`far`)."""

from __future__ import annotations

import json
import os
import platform
import tempfile
import time
from pathlib import Path
from typing import Any, Protocol

from naslab import __version__, _engine
from naslab.client.environment import describe_client
from naslab.execution.clients.link import MakeRun, NodeRun
from naslab.execution.waits import ask
from naslab.execution.workspace import MARK, mark_folder

Reply = dict[str, Any]
Target = dict[str, Any]
"""As the engine takes it, with its password."""


class NodeEngine(Protocol):
    """What a client measures with. All but `clock` may wait for a target: they are called in threads."""

    async def clock(self) -> Reply:
        """Two timestamps of the CLOCK_MONOTONIC that cells go by, for `Exchange`."""
        ...

    def describe(self) -> Reply:
        """Who and where it is, and what it has."""
        ...

    def probe(self, target: Target, depth: int) -> Reply:
        """What the target says, as `_engine.probe`."""
        ...

    def mark(self, target: Target, folder: str, mark: str) -> None:
        """Makes a marked folder."""
        ...

    def sees(self, target: Target, folder: str, name: str) -> bool:
        """Whether it sees a marked folder; then it makes a file of that name there."""
        ...

    def unmark(self, target: Target, folder: str, in_doubt: bool) -> list[str]:
        """Removes such a folder; what is left. in_doubt: only on a server that answers at once."""
        ...

    def open(self, spec: dict[str, Any], mark: str, depth: int, job: MakeRun | None) -> NodeRun:
        """Begins a run; touches nothing. job: makes what is done instead of the engine's cells."""
        ...

    def keep(self, script: bytes) -> str:
        """Where a script lies for a cell, until `forget` or the next one."""
        ...

    def forget(self) -> None:
        """Removes what `keep` made."""
        ...


class OwnEngine:
    """The one of this process."""

    def __init__(self) -> None:
        self._scripts: tempfile.TemporaryDirectory[str] | None = None

    async def clock(self) -> Reply:
        """See `NodeEngine`; as all below."""
        received = time.monotonic_ns()
        return {"received_ns": received, "sent_ns": time.monotonic_ns()}

    def describe(self) -> Reply:
        return {
            "naslab_version": __version__,
            "python": platform.python_version(),
            "host": platform.node(),
            "pid": os.getpid(),
            "client": describe_client(),
        }

    def probe(self, target: Target, depth: int) -> Reply:
        found: Reply = json.loads(_engine.probe(json.dumps(target), depth))
        return found

    def mark(self, target: Target, folder: str, mark: str) -> None:
        session = _engine.Session(json.dumps(target))
        mark_folder(session, folder, mark)
        session.end()

    def sees(self, target: Target, folder: str, name: str) -> bool:
        if _engine.stat(json.dumps(target), f"{folder}/{MARK}") is None:
            return False
        _engine.set_len(json.dumps(target), f"{folder}/{name}", 0, True)
        return True

    def unmark(self, target: Target, folder: str, in_doubt: bool) -> list[str]:
        if in_doubt:
            ask(json.dumps(target), folder)
        return _engine.clean(json.dumps(target), folder)

    def open(self, spec: dict[str, Any], mark: str, depth: int, job: MakeRun | None) -> NodeRun:
        return _engine.open_run(json.dumps(spec), mark, depth) if job is None else job(spec, mark)

    def keep(self, script: bytes) -> str:
        # No folder is made before one is needed: a killed client leaves it.
        if self._scripts is None:
            self._scripts = tempfile.TemporaryDirectory(prefix="naslab-client-")
        path = Path(self._scripts.name, "cell.script")
        path.write_bytes(script)
        return str(path)

    def forget(self) -> None:
        if self._scripts is not None:
            self._scripts.cleanup()
            self._scripts = None
