"""Whether files that naslab did not write hold data everywhere: holes are read at the speed of memory.

Source: lseek(2), SEEK_DATA and SEEK_HOLE: file systems that know tell holes and, on ext4, xfs and btrfs, space that
was reserved but never written. Servers tell how much a file takes up.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from naslab import _engine
from naslab.errors import NaslabError

if TYPE_CHECKING:
    from naslab.targets.target import Target

LEAST_BYTES = 1 << 20
"""Smaller files may lie beside their name, or in space shared with others."""
WRITTEN_SHARE = 0.9
_MOST_PIECES = 4096


def written_share(target: Target, path: str, size_bytes: int) -> float | None:
    """Share of a file's first size_bytes that holds data, 0 to 1; None where it is small, or the target does not say.

    path: below the target's root. A share from a server is what the file takes up, also below 1 where it compresses.
    """
    if size_bytes < LEAST_BYTES:
        return None
    try:
        if target.protocol == "local":
            place = os.path.join(target.options["root"], path)
            # A device is data from end to end as far as anybody can tell.
            return data_bytes(place, size_bytes) / size_bytes if os.path.isfile(place) else None
        if target.protocol in ("smb", "nfs"):
            found = _engine.allocated(target.engine_json(), path)
            return None if found is None else min(found / size_bytes, 1.0)
    except (OSError, NaslabError):
        return None
    return None


def data_bytes(path: str, size_bytes: int) -> int:
    """Bytes of data before size_bytes; of a file in very many pieces the first part, scaled. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        end = min(size_bytes, os.fstat(handle).st_size)
        at = data = 0
        for _ in range(_MOST_PIECES):
            try:
                begin = os.lseek(handle, at, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:  # nothing but a hole from here on
                    return data
                raise
            if begin >= end:
                return data
            at = os.lseek(handle, begin, os.SEEK_HOLE)
            data += min(at, end) - begin
            if at >= end:
                return data
        return round(data * end / at)
    finally:
        os.close(handle)
