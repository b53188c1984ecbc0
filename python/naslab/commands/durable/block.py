"""Tagged records: every sector of 512 bytes says whose it is, so that half-written records differ from old ones.

A disk writes sectors, not records: after a power cut one record may hold sectors of two writes. The tag at the head of
each sector has the shape of crates/workload/src/tag.rs (magic, checksum, run, file, generation, offset; little-endian)
with a magic of its own, as its checksum is the CRC-32 of zlib over all the sector's other bytes.
"""

from __future__ import annotations

import random
import struct
import zlib
from dataclasses import dataclass, field

SECTOR_BYTES = 512
MAGIC = b"nSlD"
_TAG = struct.Struct("<4sIQIIQ")
_REST = struct.Struct("<QIIQ")
_BODY_BYTES = SECTOR_BYTES - _TAG.size
_POOL_BYTES = 1 << 16
_EMPTY = bytes(SECTOR_BYTES)


@dataclass(frozen=True)
class Found:
    """A record as it was read: lowest and highest generation of its sound sectors, and how many are not sound.

    Generation 0: a sector of zeros, or one behind the end of the file. bad: sectors that are neither zeros nor what
    was written there: damaged, of another place or of another file. Without a sound sector low is NEVER, high 0.
    """

    low: int
    high: int
    bad: int


NEVER = 1 << 62
"""Above every generation."""
UNREADABLE = Found(NEVER, 0, 1)


@dataclass(frozen=True)
class Tagger:
    """Makes and reads the records of one file."""

    run: int
    file: int
    _pool: bytes = field(default=random.Random(0).randbytes(_POOL_BYTES), repr=False, compare=False)

    def record(self, generation: int, offset_bytes: int, length_bytes: int) -> bytes:
        """A record's bytes; incompressible, and unlike those of every other record and generation."""
        sectors = []
        for at in range(offset_bytes, offset_bytes + length_bytes, SECTOR_BYTES):
            start = (at * 31 + generation * 7919) % (_POOL_BYTES - _BODY_BYTES)
            rest = _REST.pack(self.run, self.file, generation, at) + self._pool[start : start + _BODY_BYTES]
            sectors.append(struct.pack("<4sI", MAGIC, zlib.crc32(rest)) + rest)
        return b"".join(sectors)

    def look(self, data: bytes, offset_bytes: int, length_bytes: int) -> Found:
        """What a record read at `offset_bytes` holds; `data` may be shorter than it."""
        generations: list[int] = []
        bad = 0
        for at in range(0, length_bytes, SECTOR_BYTES):
            found = self._sector(data[at : at + SECTOR_BYTES], offset_bytes + at)
            if found is None:
                bad += 1
            else:
                generations.append(found)
        return Found(min(generations, default=NEVER), max(generations, default=0), bad)

    def _sector(self, sector: bytes, offset_bytes: int) -> int | None:
        if not sector.strip(b"\0"):
            return 0
        if len(sector) < SECTOR_BYTES:
            return None
        magic, checksum, run, file, generation, offset = _TAG.unpack_from(sector)
        sound = magic == MAGIC and (run, file, offset) == (self.run, self.file, offset_bytes)
        return int(generation) if sound and checksum == zlib.crc32(sector[8:]) and generation > 0 else None
