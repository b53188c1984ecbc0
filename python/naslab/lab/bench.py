"""A system of an experiment that stands, and how naslab reaches it: the protocol, and servers that have an address."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from naslab.errors import TargetError, UsageError
from naslab.execution.waits import held_back
from naslab.lab.experiment import System
from naslab.units import percent_text

Document = dict[str, Any]
_STOP_S = 30
POWER_TEST = "durable"
"""The command that needs somebody who cuts the server's power."""


class Bench(Protocol):
    """A system that stands, and how naslab reaches it.

    place: on which side of a guest's boundary server and client are, in words; places that differ are not compared.
    limits: what independent tools measured of its planted limits, by the experiment's names. seed: of what is measured
    next.
    """

    place: str
    limits: Mapping[str, float]
    seed: int

    def measure(self, words: Sequence[str], client: str = "") -> Document:
        """The document of one command: its name, then its options. client: one of CLIENTS where a server has several.

        Raises NaslabError.
        """

    def prepare(self, words: Sequence[str]) -> None:
        """Carries out a command that makes something ready. Raises NaslabError when it fails."""

    def empty(self) -> None:
        """Makes the server's memory forget what it holds of files. Raises UsageError where nobody can."""

    def beside(self, commands: Sequence[Sequence[str]], client: int = 1) -> contextlib.AbstractContextManager[None]:
        """Such commands at work while the context lasts. client: which of several, from 1. Raises NaslabError."""

    def set_cpu(self, share: float) -> None:
        """Gives the server another share of one processor. Raises UsageError where that cannot be changed."""

    def close(self) -> None:
        """Takes the system down."""


BringUp = Callable[[System, int], Bench]
"""A Bench of a system; the number is a seed. Raises NaslabError when it cannot be built here."""


class AddressBench:
    """A server with an address, measured by a `naslab` of its own for each command.

    store: where runs are kept. prefix: words before the command, as to enter a namespace. credentials: the file with
    the server's password.
    """

    limits: Mapping[str, float] = {}

    def __init__(
        self,
        target: str,
        seed: int = 0,
        store: Path | None = None,
        place: str = "host",
        prefix: Sequence[str] = (),
        credentials: Path | None = None,
    ) -> None:
        self.target, self.seed, self.store, self.place = target, seed, store, place
        self.prefix, self.credentials = tuple(prefix), credentials

    def command(self, words: Sequence[str], client: int = 1) -> list[str]:
        """The whole command line. words: the command, then its options. client: where it runs, of several."""
        more = ["--json", "--quiet", *([] if "--seed" in words else ["--seed", str(self.seed)])]
        for option, path in (("--store", self.store), ("--credentials", self.credentials)):
            more += [] if path is None else [option, str(path)]
        return [*self.prefix_at(client), sys.executable, "-m", "naslab", words[0], self.target, *words[1:], *more]

    def prefix_at(self, client: int) -> tuple[str, ...]:
        """Words before a command of this client; an address has one, which is here."""
        return self.prefix

    def measure(self, words: Sequence[str], client: str = "") -> Document:
        """The document that a child of this process prints. Raises TargetError with what it says, UsageError."""
        if words[0] == POWER_TEST:
            raise UsageError(f"{POWER_TEST}: nobody here can cut the power of a server with an address")
        return document_of(words, *self._run(words))

    def prepare(self, words: Sequence[str]) -> None:
        """Raises TargetError with what the child says when it fails."""
        code, _, err = self._run(words)
        if code != 0:
            raise TargetError(f"naslab {words[0]}: {last_line(err, code)}")

    def _run(self, words: Sequence[str]) -> tuple[int, str, str]:
        children: list[subprocess.Popen[str]] = []
        try:
            with held_back():
                children.append(subprocess.Popen(
                    self.command(words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    text=True,
                ))  # fmt: skip
            out, err = children[0].communicate()
        except BaseException:
            _end(*children)  # in order, so that it removes what it wrote
            raise
        return children[0].returncode, out, err

    def empty(self) -> None:
        """Raises UsageError: nobody here can reach into a server that was there already."""
        raise UsageError("cold: the cache of a server with an address cannot be emptied from here; leave it out")

    @contextlib.contextmanager
    def beside(self, commands: Sequence[Sequence[str]], client: int = 1) -> Iterator[None]:
        """Children that work until the end of the context. Raises TargetError when one ended by itself before."""
        if commands and self.target.startswith("sim:"):
            raise UsageError("beside: a simulated server is one command's own; no other load can run on it")
        children: list[subprocess.Popen[str]] = []
        try:
            for words in commands:
                with held_back():
                    children.append(subprocess.Popen(
                        self.command(words, client), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                        stderr=subprocess.PIPE, text=True,
                    ))  # fmt: skip
            yield
            for words, child in zip(commands, children, strict=True):
                if child.poll() is not None:
                    said = (child.stderr.read() if child.stderr else "").strip().splitlines()
                    told = said[-1] if said else ""
                    raise TargetError(f"naslab {' '.join(words)}: ended before the test did: {told}")
        finally:
            _end(*children)

    def set_cpu(self, share: float) -> None:
        """Raises UsageError: nothing is known of a server that was there already."""
        raise UsageError(
            f"tune: the share of a processor, {percent_text(share, 1)}, can only be set in a guest; name another system"
        )

    def close(self) -> None:
        """Nothing was started for it."""


def _end(*children: subprocess.Popen[str]) -> None:
    """Ends children as an interruption does, which cleans up, all at once; kills those that do not end."""
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(signal.SIGTERM)
    for child in children:
        try:
            child.communicate(timeout=_STOP_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()


def document_of(words: Sequence[str], code: int, out: str, err: str) -> Document:
    """The document that a command printed, as one that failed does, too. Raises TargetError with what it said."""
    try:
        found: Document = json.loads(out)
    except json.JSONDecodeError:
        raise TargetError(f"naslab {words[0]}: {last_line(err, code)}") from None
    return found


def last_line(err: str, code: int) -> str:
    """Why a command failed, in its own words."""
    said = err.strip().splitlines() or [f"it ended with {code} and no result"]
    return said[-1].removeprefix("naslab: ")


def bring_up_addresses(store: Path | None = None) -> BringUp:
    """Takes systems that are addresses, and none other."""

    def bring_up(system: System, seed: int) -> Bench:
        if not system.target:
            raise UsageError(f"{system.name}: only systems with a target can be measured in this way")
        return AddressBench(system.target, seed, store)

    return bring_up
