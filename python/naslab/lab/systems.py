"""The systems that the lab can start, by name."""

from __future__ import annotations

import dataclasses
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from naslab.errors import UsageError
from naslab.lab import backends, definition, disk, embedded, ganesha, link, samba, two_links
from naslab.lab.backends import search_path, which
from naslab.lab.definition import Definition
from naslab.lab.place import Place, Service

__all__ = [
    "SYSTEMS", "DefinedSystem", "System", "defined", "from_file", "missing_packages", "names", "said_of",
    "search_path", "system", "which",
]  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class System:
    """One kind of server.

    prepare: writes its configuration in a place. options: the class of its options. preset: some of these.
    programs: what it needs, and the Debian package of each. namespaces: run it in namespaces where possible.
    words: options that may be given as text (`lab up --set NAME=VALUE`, `lab:NAME?name=value`). root: it needs that.
    """

    what: str
    prepare: Callable[[Place, Any], Service]
    options: type
    programs: Mapping[str, str] = field(default_factory=dict)
    preset: Mapping[str, Any] = field(default_factory=dict)
    namespaces: bool = True
    words: tuple[str, ...] = ()
    root: bool = False

    def make_options(self, chosen: Mapping[str, Any]) -> Any:
        """The options with `chosen` over the preset. Raises UsageError for an unknown one."""
        known = [each.name for each in dataclasses.fields(self.options)]
        if unknown := set(chosen) - set(known):
            takes = f"it takes {', '.join(known)}" if known else "it takes none"
            raise UsageError(f"lab: unknown option {', '.join(sorted(unknown))}; {takes}")
        given = {name: tuple(value) if isinstance(value, list) else value for name, value in chosen.items()}
        return self.options(**{**self.preset, **given})


SYSTEMS: dict[str, System] = {
    "samba": System(
        "Samba: SMB 2.0.2 to 3.1.1, signing and encryption as the client requests",
        samba.prepare, samba.SambaOptions, samba.PROGRAMS,
    ),
    "samba-signed": System(
        "Samba that requires signing",
        samba.prepare, samba.SambaOptions, samba.PROGRAMS, {"signing": "mandatory"},
    ),
    "samba-encrypted": System(
        "Samba that requires encryption",
        samba.prepare, samba.SambaOptions, samba.PROGRAMS, {"encrypt": "required", "min_dialect": "3.0"},
    ),
    "ganesha": System(
        "NFS-Ganesha: NFS 3, 4.0, 4.1 and 4.2 (needs root)",
        ganesha.prepare, ganesha.GaneshaOptions, ganesha.PROGRAMS, root=True,
    ),
    "demo": System(
        "the embedded NFS 3 server: nothing to install, no root",
        embedded.prepare, embedded.EmbeddedOptions, namespaces=False,
    ),
    "burst-disk": System(
        "Samba on a disk with a token bucket (needs root)",
        disk.prepare, disk.DiskOptions, disk.PROGRAMS, words=("burst", "base", "size", "disk", "cache"),
        root=True,
    ),
    "burst-link": System(
        "Samba behind a link with a token bucket (needs root)",
        link.prepare, link.LinkOptions, link.PROGRAMS, words=("burst", "base", "size"), root=True,
    ),
    "two-links": System(
        "Samba with two addresses, each behind a link of its own (needs root)",
        two_links.prepare, two_links.TwoLinksOptions, two_links.PROGRAMS["samba"], words=("rate",), root=True,
    ),
    "two-links-nfs": System(
        "NFS-Ganesha with two addresses, each behind a link of its own (needs root)",
        two_links.prepare, two_links.TwoLinksOptions, two_links.PROGRAMS["ganesha"], {"server": "ganesha"},
        words=("rate",), root=True,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class DefinedSystem(System):
    """A system from parts. data: the tables of its file. file: named in errors. name: of the system."""

    data: Mapping[str, Any] = field(default_factory=dict)
    file: str = ""
    name: str = ""

    def make_options(self, chosen: Mapping[str, Any]) -> Definition:
        """The checked definition with `chosen` values by `part.key`. Raises UsageError."""
        return definition.read(dict(self.data), self.file, self.name, {key: str(each) for key, each in chosen.items()})


def defined(data: Mapping[str, Any], file: str, name: str) -> DefinedSystem:
    """The system that the tables of a file describe. Raises UsageError."""
    found = definition.read(dict(data), file, name)
    return DefinedSystem(
        found.what, backends.prepare, Definition, words=definition.words(), data=data, file=file, name=name
    )  # fmt: skip


def from_file(path: Path) -> DefinedSystem:
    """The system that a file describes, by the file's name. Raises UsageError."""
    name = path.stem
    if not _NAME.fullmatch(name) or name in names():
        taken = "a system of that name already exists" if name in names() else "use letters, digits and _.-"
        raise UsageError(f"lab: {path}: {taken}; rename the file")
    return defined(definition.tables(path), str(path), name)


def names() -> list[str]:
    """All systems that come with naslab."""
    return [*SYSTEMS, *definition.built_in()]


def system(name: str) -> System:
    """The system of this name. Raises UsageError naming those there are."""
    if name in SYSTEMS:
        return SYSTEMS[name]
    if name not in definition.built_in():
        raise UsageError(f"lab: there is no system {name!r}; use one of {', '.join(names())}, or a file: FILE.toml")
    return defined(tomllib.loads(definition.built_in()[name]), f"{name}.toml", name)


def said_of(found: System) -> list[backends.Answer]:
    """What the backends say of a system."""
    if isinstance(found, DefinedSystem):
        return backends.answers(found.make_options({}))
    problems = ("it needs root",) if found.root and os.geteuid() != 0 else ()
    return [backends.Answer("native", (), problems, tuple(missing_packages(found)))]


def missing_packages(found: System) -> list[str]:
    """Debian packages that a system needs and this machine lacks."""
    if isinstance(found, DefinedSystem):
        said = backends.answers(found.make_options({}))
        return [] if any(each.builds for each in said) else [*said[0].packages]
    return sorted({package for program, package in found.programs.items() if which(program) is None})
