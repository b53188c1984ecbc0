"""The systems that the lab can start, by name."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from naslab.errors import UsageError
from naslab.lab import disk, embedded, ganesha, link, samba
from naslab.lab.place import Place, Service


@dataclass(frozen=True)
class System:
    """One kind of server.

    prepare: writes its configuration in a place. options: the class of its options. preset: some of these.
    programs: what it needs, and the Debian package of each. namespaces: run it in namespaces where possible.
    words: options that may be given as text (`lab up --set NAME=VALUE`, `lab:NAME?name=value`).
    """

    what: str
    prepare: Callable[[Place, Any], Service]
    options: type
    programs: Mapping[str, str] = field(default_factory=dict)
    preset: Mapping[str, Any] = field(default_factory=dict)
    namespaces: bool = True
    words: tuple[str, ...] = ()

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
        "Samba: SMB 2.0.2 to 3.1.1, signing and encryption as the client asks",
        samba.prepare, samba.SambaOptions, samba.PROGRAMS,
    ),
    "samba-signed": System(
        "Samba that demands signing",
        samba.prepare, samba.SambaOptions, samba.PROGRAMS, {"signing": "mandatory"},
    ),
    "samba-encrypted": System(
        "Samba that demands encryption",
        samba.prepare, samba.SambaOptions, samba.PROGRAMS, {"encrypt": "required", "min_dialect": "3.0"},
    ),
    "ganesha": System(
        "NFS-Ganesha: NFS 3, 4.0, 4.1 and 4.2 (needs root)",
        ganesha.prepare, ganesha.GaneshaOptions, ganesha.PROGRAMS,
    ),
    "demo": System(
        "the embedded NFS 3 server: nothing to install, no root",
        embedded.prepare, embedded.EmbeddedOptions, namespaces=False,
    ),
    "burst-disk": System(
        "Samba on a disk with a token bucket (needs root)",
        disk.prepare, disk.DiskOptions, disk.PROGRAMS, words=("burst", "base", "size", "disk", "cache"),
    ),
    "burst-link": System(
        "Samba behind a link with a token bucket (needs root)",
        link.prepare, link.LinkOptions, link.PROGRAMS, words=("burst", "base", "size"),
    ),
}  # fmt: skip


def system(name: str) -> System:
    """The system of this name. Raises UsageError naming those there are."""
    if name not in SYSTEMS:
        raise UsageError(f"lab: there is no system {name!r}; use one of {', '.join(SYSTEMS)}")
    return SYSTEMS[name]


def missing_packages(found: System) -> list[str]:
    """Debian packages that a system needs and this machine lacks."""
    return sorted({package for program, package in found.programs.items() if which(program) is None})


def search_path() -> str:
    """PATH with the folders where servers lie, which an ordinary user's lacks."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])


def which(program: str) -> str | None:
    """Where a program lies, None if nowhere."""
    return shutil.which(program, path=search_path())
