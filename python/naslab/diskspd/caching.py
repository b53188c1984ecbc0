"""-S and -h: cache modes as DiskSpd combines them, and what each means on a target of some kind."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from naslab.diskspd.profile import Cache, TargetSpec
from naslab.errors import UsageError

NETWORK_FILE_SYSTEMS = ("cifs", "smb3", "nfs", "nfs4", "9p", "fuse.sshfs", "ceph", "afs")
_CACHES: dict[str, Cache] = {"b": "cached", "r": "remote", "u": "none"}


@dataclass
class CacheModes:
    """What the letters of -S, one after the other, ask for; None: not said."""

    cache: Cache | None = None
    write_through: bool = False
    mmap: bool = False

    def take(self, letter: str, option: str) -> None:
        """One letter. Raises UsageError when it conflicts with an earlier one."""
        if letter == "h":
            mapped = self.mmap and option != "-h"
            if self.cache is not None or self.write_through or mapped:
                raise self._conflict(option, "cache/writethrough/memory mapped")
            self.cache, self.write_through = "none", True
        elif letter == "w":
            if self.write_through:
                raise self._conflict(option, "write through")
            self.write_through = True
        elif letter == "m":
            if self.mmap or self.cache == "none":
                raise self._conflict(option, "memory mapped IO/unbuffered IO")
            self.mmap = True
        elif letter in _CACHES:
            if self.cache is not None or (letter == "u" and self.mmap):
                raise self._conflict(option, "cache mode" + ("/memory mapped IO" if letter == "u" else ""))
            self.cache = _CACHES[letter]
        else:
            raise UsageError(f"unrecognized option provided to -S: {letter!r}; the letters are b, h, m, r, u, w")

    def apply(self, target: TargetSpec) -> None:
        """Sets the modes of a target."""
        target.cache = self.cache or "cached"
        target.cache_given = self.cache is not None
        target.write_through, target.mmap = self.write_through, self.mmap

    @staticmethod
    def _conflict(option: str, what: str) -> UsageError:
        return UsageError(f"{option} conflicts with earlier specification of {what}: leave one of them out")


@dataclass(frozen=True)
class Access:
    """How the engine reaches a file. notes: what the cache mode means here."""

    direct: bool = False
    sync: bool = False
    mmap: bool = False
    notes: tuple[str, ...] = ()


def access(target: TargetSpec, protocol: str, root: Path | None = None) -> Access:
    """The cache mode on a target of this protocol. root: the folder of a local path.

    Raises UsageError for a mode that was asked for and means nothing there.
    """
    sync = target.write_through or (target.mmap and target.map_flush == "v")
    sync = sync and target.write_pct > 0
    if protocol == "local":
        return _local(target, root or Path("/"), sync)
    if target.mmap:
        raise UsageError(f"-Sm: {protocol} targets cannot be mapped into memory; mount the share and give a path")
    if target.cache == "cached":
        if target.cache_given:
            raise UsageError(
                f"-Sb: {protocol} targets have no client cache to enable; leave -Sb out, or mount the share and "
                "give a path"
            )
        if protocol in ("sim", "null"):
            return Access(sync=sync)
        return Access(sync=sync, notes=(
            f"caching is DiskSpd's default; {protocol} targets have no client cache, so every operation reaches the "
            "server (-Sr says so)",
        ))  # fmt: skip
    if target.cache == "remote":
        return Access(sync=sync, notes=(f"-Sr: {protocol} targets have no client cache; the server's is used",))
    if protocol == "nfs":
        message = "-Su: nfs targets have no client cache; NFS cannot ask its server to leave its own out"
        return Access(sync=sync, notes=(message,))
    return Access(direct=True, sync=sync)


def _local(target: TargetSpec, root: Path, sync: bool) -> Access:
    if target.mmap and target.write_through:
        raise UsageError(
            "-Smw: writes past the processor's cache (non-temporal) are not made here: use -Sm -Nv (msync)"
        )
    if target.mmap and target.cache == "remote":
        raise UsageError("-Smr: a map lies in the client's cache, which -Sr turns off: leave one out")
    if target.cache != "remote":
        return Access(direct=target.cache == "none", sync=sync, mmap=target.mmap)
    kind = file_system(root)
    if kind not in NETWORK_FILE_SYSTEMS:
        raise UsageError(
            f"-Sr: failed to disable local caching: only supported on remote file systems, and {str(root)!r} lies on "
            f"{kind or 'a local disk'}; use -Su, or name a share"
        )
    return Access(
        direct=True, sync=sync, notes=(f"-Sr on a mounted share ({kind}) is O_DIRECT: the server's cache is used",)
    )


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
