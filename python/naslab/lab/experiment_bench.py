"""Benches of the lab's own systems: built for one repeat, measured from the client's end, and taken down.

With a kernel mount naslab runs inside the client's guest; else on the host, in the network of the system's link.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from naslab.errors import UsageError
from naslab.lab import power
from naslab.lab.bench import POWER_TEST, AddressBench, Bench, BringUp, Document, document_of
from naslab.lab.experiment import System
from naslab.lab.experiment_guest import Once
from naslab.lab.guest import client as guests
from naslab.lab.guest import house
from naslab.lab.server import Server, start_system
from naslab.lab.systems import defined
from naslab.units import percent_text

_STORE = Path("/tmp/naslab-store.sqlite")
"""In the client's guest, and gone with it: what it measured comes home as a document."""
_DROP = Path("/proc/sys/vm/drop_caches")
_CREDENTIALS = "/run/naslab-credentials"
HOST, GUEST_SERVER, GUEST_CLIENT = "host", "a guest's server", "a guest's server and client"


class ServerBench(AddressBench):
    """A server of the lab and naslab's own client at the other end of its link."""

    def __init__(self, server: Server, seed: int, store: Path | None) -> None:
        self.server = server
        place = HOST if server.facts.get("backend") == "native" else GUEST_SERVER
        super().__init__(server.url, seed, store, place, self.prefix_at(1), server.credentials)
        self._share: float | None = None

    def prefix_at(self, client: int) -> tuple[str, ...]:
        """Words that put a command at a client's end of the link; none where there is no link."""
        where = self.server.facts.get("inside", {})
        nets = where.get("nets") or [where.get("net")]
        return ("nsenter", f"--net={nets[client - 1]}", "--") if nets[client - 1] else ()

    def measure(self, words: Sequence[str], client: str = "") -> Document:
        """As anywhere; `durable` has the power of the server's guest cut. Raises UsageError where it is no guest."""
        if words[0] != POWER_TEST:
            return super().measure(words, client)
        if "server" not in self.server.facts.get("guests", {}):
            raise UsageError(f"{POWER_TEST}: only a guest loses its power; give the system backend = 'uml'")
        try:
            return document_of(words, *self._run([*words, *power.cut_options(self.server)]))
        finally:
            if self._share is not None:  # the guest has started anew
                self.set_cpu(self._share)

    def empty(self) -> None:
        """Empties this machine's page cache, or that of the server's guest. Raises UsageError without the right to."""
        guest = self.server.facts.get("guests", {}).get("server")
        if guest is not None:
            guests.find(Path(guest)).shell(f"sync; echo 3 > {_DROP}")
            return
        os.sync()
        try:
            _DROP.write_text("3\n", "ascii")
        except OSError as error:
            raise UsageError(f"cold: {_DROP}: {error.strerror}; be root, or leave cold out") from None

    def set_cpu(self, share: float) -> None:
        """Gives the server in a guest another share of its processor. Raises UsageError, TargetError."""
        guest = self.server.facts.get("guests", {}).get("server")
        if guest is None:
            super().set_cpu(share)
            return
        guests.find(Path(guest)).shell("\n".join(house.cpu_lines(share)))
        self._share = share

    def close(self) -> None:
        """Ends the server with all that it stands on."""
        self.server.stop()


class MountBench:
    """A server that a guest's kernel has mounted; naslab runs in that guest, on the mount or with its own client.

    access: how the kernel mounts it, as in a system's file; naslab's own client speaks the same.
    """

    place = GUEST_CLIENT
    limits: Mapping[str, float] = {}

    def __init__(self, server: Server, seed: int, access: str) -> None:
        self.server, self.seed, self.access = server, seed, access
        self.guest = guests.find(Path(server.facts["guests"]["client1"]))
        if server.credentials:
            self.guest.write(_CREDENTIALS, server.credentials.read_bytes(), 0o600)
        self._once = Once(self.guest, _STORE)

    def measure(self, words: Sequence[str], client: str = "mount") -> Document:
        """The document that naslab prints inside. client: one of CLIENTS. Raises UsageError, TargetError."""
        if words[0] == POWER_TEST:
            raise UsageError(f"{POWER_TEST}: a kernel mount sends again what the server lost; use direct clients")
        done = self._once.run(
            [words[0], *self._target(client), *words[1:], "--json", "--quiet", "--seed", str(self.seed)]
        )
        return document_of(words, done.code, done.text, done.err.decode(errors="replace"))

    def _target(self, client: str) -> list[str]:
        """What naslab is given inside: the mount, or the server's address and the dialect or version of the mount."""
        if client != "own":
            return [str(self.server.facts["mount"])]
        key, version = ("dialect", self.access[4:]) if self.access.startswith("cifs") else ("version", self.access[3:])
        url = f"{self.server.url}{'&' if '?' in self.server.url else '?'}{key}={version}"
        return [url, "--credentials", _CREDENTIALS] if self.server.credentials else [url]

    @contextlib.contextmanager
    def beside(self, commands: Sequence[Sequence[str]], client: int = 1) -> Iterator[None]:
        """A guest has one processor: what ran beside a test would be measured, not the server."""
        if commands:
            raise UsageError(f"beside {commands[0][0]}: no other load can run in a guest, which has one processor")
        yield

    def prepare(self, words: Sequence[str]) -> None:
        """Raises UsageError: what is measured on a mount makes its own files."""
        raise UsageError(f"{words[0]}: there is no preparation in a guest; let the test create its own files")

    def empty(self) -> None:
        """Raises UsageError: the mount's own cache would have to be emptied, too."""
        raise UsageError("cold: the cache of a mount cannot be emptied; leave it out, or give the sweep --cold")

    def set_cpu(self, share: float) -> None:
        """Raises UsageError: a mount's own memory would answer, not the server."""
        raise UsageError(
            f"tune: {percent_text(share, 1)} of a processor is set where clients are direct; name another system"
        )

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
            if server.facts.get("mount"):
                return MountBench(server, seed, system.parts["clients"]["access"])
            return ServerBench(server, seed, store)
        except BaseException:
            server.stop()
            raise

    return bring_up
