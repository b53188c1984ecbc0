"""-S and -h: cache modes as DiskSpd combines them; what each means on a target is in naslab.commands.plans.caching."""

from __future__ import annotations

from dataclasses import dataclass

from naslab.commands.diskspd.profile import TargetSpec
from naslab.commands.plans import caching
from naslab.commands.plans.caching import Access, Cache, CacheMode, Names, Place
from naslab.errors import UsageError

NAMES = Names("-Sb", "-Sr", "-Su", "-Sm", "caching is DiskSpd's default")
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


def access(target: TargetSpec, place: Place) -> Access:
    """The cache mode of a target that lies there. Raises UsageError for one that was asked for and means nothing."""
    sync = target.write_through or (target.mmap and target.map_flush == "v")
    if place.protocol == "local" and target.mmap and target.write_through:
        raise UsageError(
            "-Smw: naslab does not make writes past the processor's cache (non-temporal): use -Sm -Nv (msync)"
        )
    if place.protocol == "local" and target.mmap and target.cache == "remote":
        raise UsageError("-Smr: a map lies in the client's cache, which -Sr turns off: leave one out")
    mode = CacheMode(target.cache, target.cache_given, sync and target.write_pct > 0, target.mmap)
    return caching.access(mode, place, NAMES)
