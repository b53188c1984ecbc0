"""Which backend builds a system here, and why another one does not."""

from __future__ import annotations

import dataclasses
import importlib
import os
import shutil
from dataclasses import dataclass
from typing import Any

from naslab.errors import UsageError
from naslab.lab.definition import BACKENDS, Definition
from naslab.lab.limits import planted
from naslab.lab.place import Place, Service

_MODULES = {"native": "naslab.lab.native.backend", "uml": "naslab.lab.guest.backend"}
_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")


@dataclass(frozen=True)
class Answer:
    """What a backend says of a system.

    refusals: what it never builds. problems: what this machine lacks, besides packages. packages: those missing.
    """

    backend: str
    refusals: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()

    @property
    def builds(self) -> bool:
        """Whether it can build the system here and now."""
        return not (self.refusals or self.problems or self.packages)

    @property
    def why_not(self) -> str:
        """In one line; empty where it builds."""
        lacking = f"missing packages; Debian/Ubuntu: apt install {' '.join(self.packages)}" if self.packages else ""
        return "; ".join((*self.refusals, *self.problems, *([lacking] if lacking else [])))


def module(backend: str) -> Any:
    """The backend's module (refusals, programs, problems, prepare); None where this version of naslab lacks it."""
    try:
        return importlib.import_module(_MODULES[backend])
    except ModuleNotFoundError as error:
        if error.name != _MODULES[backend]:
            raise
        return None


def ask(backend: str, definition: Definition) -> Answer:
    """What one backend says of a system."""
    found = module(backend)
    if found is None:
        return Answer(backend, refusals=("this version of naslab has no such backend",))
    if refusals := tuple(found.refusals(definition)):
        return Answer(backend, refusals)
    needed = found.programs(definition)
    packages = tuple(sorted({package for program, package in needed.items() if which(program) is None}))
    return Answer(backend, (), tuple(found.problems(definition)), packages)


def answers(definition: Definition) -> list[Answer]:
    """What the backends say that may build a system: all, or the one that it names."""
    return [ask(each, definition) for each in BACKENDS if definition.backend in (None, each)]


def choose(definition: Definition) -> Answer:
    """The first that builds it. Raises UsageError with what each lacks."""
    found = answers(definition)
    for each in found:
        if each.builds:
            return each
    reasons = " | ".join(f"{each.backend}: {each.why_not}" for each in found)
    raise UsageError(f"lab: {definition.name} cannot be built here: {reasons}")


def prepare(place: Place, definition: Definition) -> Service:
    """A server of the system, by the backend that builds it. Raises UsageError, TargetError."""
    answer = choose(definition)
    service: Service = module(answer.backend).prepare(place, definition)
    service.facts |= {"backend": answer.backend, "limits": [dataclasses.asdict(each) for each in planted(definition)]}
    return service


def search_path() -> str:
    """PATH with the folders where servers lie, which an ordinary user's lacks."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), *_FOLDERS])


def which(program: str) -> str | None:
    """Where a program lies, None if nowhere."""
    return shutil.which(program, path=search_path())
