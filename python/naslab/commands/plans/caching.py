"""Cache modes, those of DiskSpd: what each means on a target of some kind, whichever command line asked for it.

A mode that was asked for and means nothing on the target is refused by its name; one that the target has
anyway is carried out with a note.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from naslab.errors import UsageError

if TYPE_CHECKING:
    from naslab.targets import Target

Cache = Literal["cached", "remote", "none"]
NETWORK_FILE_SYSTEMS = ("cifs", "smb3", "nfs", "nfs4", "9p", "fuse.sshfs", "ceph", "afs")


@dataclass(frozen=True)
class CacheMode:
    """What is asked for. given: `cache` was said, not just left as it is. sync: every write is durable at once."""

    cache: Cache = "cached"
    given: bool = False
    sync: bool = False
    mmap: bool = False


@dataclass(frozen=True)
class Names:
    """How a front end writes the modes. default: begins the note about a cache that is the default and not there."""

    cached: str
    remote: str
    none: str
    mmap: str
    default: str


MODES: dict[str, CacheMode] = {
    "cached": CacheMode("cached", given=True),
    "none": CacheMode("none", given=True),
    "write-through": CacheMode(sync=True),
    "none+write-through": CacheMode("none", given=True, sync=True),
    "remote": CacheMode("remote", given=True),
    "mmap": CacheMode(mmap=True),
}
"""What `--cache` takes: DiskSpd's -Sb, -Su, -Sw, -Sh, -Sr and -Sm."""


@dataclass(frozen=True)
class Place:
    """What decides the meaning. root: the folder of a local path. client_cache: a simulated server's client has one."""

    protocol: str
    root: Path | None = None
    client_cache: bool = False


@dataclass(frozen=True)
class Access:
    """How the engine reaches a file. remote: the client's cache is out, the server's is in.

    notes: what the cache mode means here, in sentences.
    """

    direct: bool = False
    sync: bool = False
    mmap: bool = False
    remote: bool = False
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What it comes to: `cached`, `none`, `remote` or `mmap`, and `+write-through`; `write-through` alone."""
        base = "mmap" if self.mmap else "remote" if self.remote else "none" if self.direct else "cached"
        if not self.sync:
            return base
        return "write-through" if base == "cached" else f"{base}+write-through"


def place_of(target: Target) -> Place:
    """Where a target lies, for `access`."""
    root = Path(target.options["root"]) if target.protocol == "local" else None
    simulated = target.protocol == "sim" and bool(target.options.get("client_cache_bytes"))
    return Place(target.protocol, root, simulated)


def parse_mode(text: str, direct: str, durability: str) -> CacheMode:
    """`--cache`, `--direct` and `--durability` together; text "": the target's own way.

    direct: what asks for unbuffered I/O (`--direct`, or the target's `?direct=1`); "": nothing does. Raises
    UsageError for what is no mode, or contradicts the others.
    """
    each = durability == "each"
    if not text:
        return CacheMode("none" if direct else "cached", bool(direct), each)
    mode = MODES.get(text)
    if mode is None:
        raise UsageError(f"--cache {text!r}: use {', '.join(list(MODES)[:-1])} or {list(MODES)[-1]}")
    if direct and mode.cache != "none":
        other = "give --cache none+write-through" if text == "write-through" else "leave one of them out"
        raise UsageError(f"--cache {text} with {direct}: {direct} is --cache none; {other}")
    if mode.sync and durability == "none":
        raise UsageError(f"--cache {text} with --durability none: it makes every write durable; leave one of them out")
    return dataclasses.replace(mode, sync=mode.sync or each)


def sustained_access(text: str, mode: CacheMode, place: Place) -> Access:
    """What `--cache TEXT` comes to at that place; of a mode that nobody asked for only what happens anyway.

    Raises UsageError as `access` does.
    """
    if text:
        names = {name: f"--cache {name}" for name in MODES}
        leaves = f"--cache {text} leaves the client's cache on"
        return access(mode, place, Names(names["cached"], names["remote"], names["none"], names["mmap"], leaves))
    direct = mode.cache == "none"
    served = place.protocol in ("smb", "nfs") and not direct
    return Access(direct=direct, sync=mode.sync, remote=served)


def access(mode: CacheMode, place: Place, names: Names) -> Access:
    """The cache mode on a target there. Raises UsageError for a mode that was asked for and means nothing there."""
    if place.protocol == "local":
        return _local(mode, place.root or Path("/"), names)
    protocol, sync = place.protocol, mode.sync
    if mode.mmap:
        raise UsageError(f"{names.mmap}: {protocol} targets cannot be mapped into memory; {_instead(protocol)}")
    if place.client_cache:
        return Access(direct=mode.cache != "cached", sync=sync, remote=mode.cache == "remote")
    if mode.cache == "cached":
        return _cached(mode, protocol, names)
    if mode.cache == "remote":
        note = f"{names.remote}: {protocol} targets have no client cache; the server's is used"
        return Access(sync=sync, remote=True, notes=(note,))
    if protocol == "nfs":
        note = f"{names.none}: nfs targets have no client cache; NFS cannot ask its server to leave its own out"
        return Access(sync=sync, remote=True, notes=(note,))
    return Access(direct=True, sync=sync)


def _cached(mode: CacheMode, protocol: str, names: Names) -> Access:
    """Without a client's cache: a default that comes to the server's, and nothing that can be asked for."""
    if mode.given:
        raise UsageError(
            f"{names.cached}: {protocol} targets have no client cache to enable; leave it out, or "
            f"{_instead(protocol, cache=True)}"
        )
    if protocol not in ("smb", "nfs"):
        return Access(sync=mode.sync)
    said = f"{names.default}; {protocol} targets have no client cache, so every operation reaches the server"
    return Access(sync=mode.sync, remote=True, notes=(f"{said} ({names.remote} requests the same)",))


def _instead(protocol: str, cache: bool = False) -> str:
    if protocol == "sim" and cache:
        return "simulate one with client_cache_bytes"
    return "give a path" if protocol in ("sim", "null") else "mount the share and give a path"


def _local(mode: CacheMode, root: Path, names: Names) -> Access:
    if mode.cache != "remote":
        return Access(direct=mode.cache == "none", sync=mode.sync, mmap=mode.mmap)
    kind = file_system(root)
    if kind not in NETWORK_FILE_SYSTEMS:
        raise UsageError(
            f"{names.remote}: failed to disable local caching: only supported on remote file systems, and "
            f"{str(root)!r} lies on {kind or 'a local disk'}; use {names.none}, or name a share"
        )
    note = f"{names.remote} on a mounted share ({kind}) is O_DIRECT: the server's cache is used"
    return Access(direct=True, sync=mode.sync, remote=True, notes=(note,))


def file_system(path: Path, mounts: str | None = None) -> str:
    """Kind of the file system that holds a path, as /proc/mounts says; empty when unknown."""
    try:
        text = mounts if mounts is not None else Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    whole = path.resolve() if mounts is None else path
    best, kind = -1, ""
    for line in text.splitlines():
        fields = line.split(" ")
        place = Path(fields[1].replace("\\040", " ")) if len(fields) > 2 else None
        if place is not None and (place == whole or place in whole.parents) and len(place.parts) >= best:
            best, kind = len(place.parts), fields[2]
    return kind
