"""Commands at the ends of a running system, and what is known of it."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from naslab.errors import TargetError, UsageError
from naslab.execution.waits import held_back
from naslab.lab import definition as definitions
from naslab.lab.backends import search_path, which
from naslab.lab.calibrate.finding import Finding
from naslab.lab.calibrate.tools import PACKAGES
from naslab.lab.definition import Definition
from naslab.lab.guest import backend as guest_backend
from naslab.lab.guest.agent import DATA
from naslab.lab.limits import BYTES, BYTES_PER_S, Planted
from naslab.lab.server import Server

_PATIENCE_S = 30.0
"""How much longer than planned a tool may take: a slow processor starts it slowly."""
_NAME = "naslab-calibrate"


@dataclass
class Probe:
    """One system, and how thoroughly it is measured.

    runs: of each limit. seconds: of each run. scratch: what is on the disks may be spoiled. say: gets one line on what
    is being measured.
    """

    server: Server
    runs: int = 3
    seconds: float = 1.0
    scratch: bool = False
    say: Callable[[str], None] = lambda _: None
    found: list[Finding] = field(default_factory=list)

    def __post_init__(self) -> None:
        given = self.server.facts.get("definition")
        self.definition: Definition | None = (
            None if given is None else definitions.read(given["data"], given["file"], self.server.name, given["chosen"])
        )
        self.planted = {each.name: each for each in planted_of(self.server)}

    @property
    def in_guest(self) -> bool:
        """Whether the server is a guest's."""
        return "server" in self.server.facts.get("guests", {})

    def prepare(self) -> None:
        """Lets programs start in a small guest: fio's libraries ask for more memory than they touch."""
        if self.in_guest:
            self.run(["sh", "-c", "echo 1 > /proc/sys/vm/overcommit_memory"], 0)

    @property
    def data(self) -> str:
        """What the server serves, where the server is."""
        return DATA if self.in_guest else str(self.server.data)

    @property
    def file(self) -> str:
        """A file of ours there."""
        return f"{self.data}/{_NAME}"

    @property
    def devices(self) -> list[str]:
        """The disks, where the server is."""
        facts = self.server.facts
        if "disk" in facts:
            return [facts["disk"]["device"]]
        if self.definition is None:
            return []
        if self.in_guest:
            made = guest_backend._volume(self.definition)
            return [] if made is None else made.devices()
        return [each["device"] for each in facts.get("disks", [])][: len(self.definition.disks)]

    def words(self, words: Sequence[str], client: int = 0) -> list[str]:
        """A command at an end: 0 is the server's."""
        return [*self.server.inside(client), *words]

    def run(self, words: Sequence[str], client: int = 0, seconds: float = 0.0, check: bool = True) -> str:
        """What a command prints on both streams, the standard one first. Raises TargetError when it fails."""
        try:
            done = subprocess.run(
                self.words(words, client), check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                errors="replace", timeout=seconds + _PATIENCE_S, env=_env(),
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise TargetError(f"{words[0]} did not end within {seconds + _PATIENCE_S:.0f} s") from None
        except OSError as error:
            raise TargetError(f"{words[0]}: {error.strerror}") from None
        if check and done.returncode != 0 and not done.stdout.strip().startswith("{"):
            said = (done.stderr or done.stdout).strip().splitlines()[-1:]
            raise TargetError(f"{words[0]} ended with {done.returncode}: {' '.join(said)[:300]}")
        return done.stdout + done.stderr

    @contextlib.contextmanager
    def beside(self, words: Sequence[str], client: int, ready: str) -> Iterator[None]:
        """A command that runs meanwhile; `ready` is in a line that it prints first. Raises TargetError."""
        children: list[subprocess.Popen[str]] = []
        try:
            with held_back():
                children.append(subprocess.Popen(
                    self.words(words, client), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT, text=True, env=_env(),
                ))  # fmt: skip
            said = []
            for line in children[0].stdout or ():
                said.append(line.strip())
                if ready in line:
                    break
            else:
                raise TargetError(f"{words[0]} does not start: {' '.join(said)[-200:]}")
            yield
        finally:
            for child in children:
                child.terminate()
                child.communicate()

    def add(
        self,
        name: str,
        at: str,
        tool: str,
        words: Sequence[str],
        measure: Callable[[], Sequence[float]],
        **more: object,
    ) -> None:
        """Measures one limit and keeps what came of it; a tool that fails is a reason.

        more: fields of the finding; planted and unit are those of the limit of this name.
        """
        limit = self.planted.get(name)
        given: dict[str, Any] = {"planted": None, "unit": BYTES_PER_S}
        if limit is not None:
            given = {"planted": limit.value, "unit": limit.unit}
        given |= {"name": name, "at": at, "tool": tool, "command": shlex.join(words)} | more
        self.say(f"{name} {at}".rstrip())
        try:
            runs = tuple(float(each) for each in measure())
            self.found.append(Finding(**given, runs=runs))
        except TargetError as error:
            note = f"{given['note']}; " if given.get("note") else ""
            self.found.append(Finding(**{**given, "note": f"{note}{error}"}))

    def skip(self, name: str, why: str, at: str = "", tool: str = "") -> None:
        """A limit that cannot be measured, and why."""
        limit = self.planted[name]
        self.found.append(Finding(name, limit.value, limit.unit, at=at, tool=tool, note=why))


def planted_of(server: Server) -> list[Planted]:
    """The limits of a running system; of the two that are not made of parts, their bucket's."""
    if "limits" in server.facts:
        return [Planted(**each) for each in server.facts["limits"]]
    bucket = server.facts.get("planted")
    if bucket is None:
        return []
    part, where = ("disks", "one disk") if "disk" in server.facts else ("link", "the wire, each direction")
    return [
        Planted(f"{part}.burst.rate", bucket["burst_bytes_per_s"], BYTES_PER_S, f"{where}, with credit"),
        Planted(f"{part}.burst.base", bucket["baseline_bytes_per_s"], BYTES_PER_S, f"{where}, without credit"),
        Planted(f"{part}.burst.size", bucket["size_bytes"], BYTES, f"{where}, moved above the base"),
    ]


def check_tools(names: Sequence[str], system: str) -> None:
    """Raises UsageError naming the packages of programs that are missing."""
    if missing := sorted({PACKAGES[name] for name in names if which(name) is None}):
        raise UsageError(
            f"lab calibrate {system}: {', '.join(missing)} missing; Debian/Ubuntu: apt install {' '.join(missing)}"
        )


def _env() -> dict[str, str]:
    return {**os.environ, "PATH": search_path(), "LC_ALL": "C.UTF-8"}


def private_file(folder: Path, size_bytes: int) -> Path:
    """A file with contents that do not compress, to be sent."""
    path = folder / _NAME
    block = os.urandom(1 << 20)
    with path.open("wb") as file:
        for _ in range(-(-size_bytes // len(block))):
            file.write(block)
    return path
