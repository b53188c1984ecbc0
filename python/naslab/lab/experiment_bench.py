"""Benches of the lab's own systems: built for one repeat, measured from the client's end, and taken down.

With a kernel mount naslab runs inside the client's guest; else on the host, in the network of the system's link.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from naslab.errors import UsageError
from naslab.lab.experiment import System
from naslab.lab.guest import client as guests
from naslab.lab.guest import mounts
from naslab.lab.run_experiment import AddressBench, Bench, BringUp, Document, document_of
from naslab.lab.server import Server, start_system
from naslab.lab.systems import defined

_STORE = Path("/tmp/naslab-store.sqlite")
"""In the client's guest, and gone with it: what it measured comes home as a document."""
HOST, GUEST_SERVER, GUEST_CLIENT = "host", "a guest's server", "a guest's server and client"


class ServerBench(AddressBench):
    """A server of the lab and naslab's own client at the other end of its link."""

    def __init__(self, server: Server, seed: int, store: Path | None) -> None:
        net = server.facts.get("inside", {}).get("net")
        prefix = ["nsenter", f"--net={net}", "--"] if net else []
        place = HOST if server.facts.get("backend") == "native" else GUEST_SERVER
        super().__init__(server.url, seed, store, place, prefix, server.credentials)
        self.server = server

    def close(self) -> None:
        """Ends the server with all that it stands on."""
        self.server.stop()


class MountBench:
    """A server that a guest's kernel has mounted; naslab runs in that guest."""

    place = GUEST_CLIENT
    limits: Mapping[str, float] = {}

    def __init__(self, server: Server, seed: int) -> None:
        self.server, self.seed = server, seed
        self.guest = guests.find(Path(server.facts["guests"]["client1"]))

    def measure(self, words: Sequence[str]) -> Document:
        """The document that naslab prints inside. Raises TargetError."""
        command = [words[0], self.server.facts["mount"], *words[1:], "--json", "--quiet", "--seed", str(self.seed)]
        done = mounts.naslab(self.guest, command, _STORE)
        return document_of(words, done.code, done.text, done.err.decode(errors="replace"))

    @contextlib.contextmanager
    def beside(self, words: Sequence[str]) -> Iterator[None]:
        """A guest has one processor: what ran beside a test would be measured, not the server."""
        raise UsageError(f"beside {words[0]}: nothing runs beside a test in a guest, which has one processor")
        yield

    def close(self) -> None:
        """Ends the server and the guests."""
        self.server.stop()


def bring_up_lab(store: Path | None = None) -> BringUp:
    """Builds systems from parts, and takes those that are addresses as they are."""

    def bring_up(system: System, seed: int) -> Bench:
        if system.parts is None:
            return AddressBench(system.target, seed, store)
        found = defined(dict(system.parts), f"systems.{system.name}", system.name)
        server = start_system(system.name, found)
        try:
            return MountBench(server, seed) if server.facts.get("mount") else ServerBench(server, seed, store)
        except BaseException:
            server.stop()
            raise

    return bring_up
