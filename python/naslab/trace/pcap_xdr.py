"""XDR (RFC 4506) as NFS uses it: reading, with bounds."""

from __future__ import annotations

import struct

SIZE, KIND, FILEHANDLE = 4, 1, 19
FOLDER = 2
_WIDTHS = {
    1: 4, 2: 4, 3: 8, 4: 8, 5: 4, 6: 4, 7: 4, 8: 16, 9: 4, 10: 4, 11: 4, 13: 4, 14: 4, 15: 4, 16: 4, 17: 4, 18: 4,
}  # fmt: skip
"""Bytes of NFS 4's attributes up to the file handle, but for the list of attributes (0) and ACLs (12)."""


class Cut(Exception):
    """The message ends before what was to be read. No error: captures are cut as a matter of course."""


class Xdr:
    """A place in a message."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def u32(self) -> int:
        """Four bytes. Raises Cut."""
        try:
            (value,) = struct.unpack_from(">I", self.data, self.at)
        except struct.error as error:
            raise Cut from error
        self.at += 4
        return int(value)

    def u64(self) -> int:
        """Eight bytes. Raises Cut."""
        return self.u32() << 32 | self.u32()

    def skip(self, length: int) -> None:
        """Raises Cut where there is not as much."""
        self.at += length
        if self.at > len(self.data):
            raise Cut

    def fixed(self, length: int) -> bytes:
        """So many bytes. Raises Cut."""
        self.skip(length)
        return self.data[self.at - length : self.at]

    def opaque(self) -> bytes:
        """A length, and as many bytes. Raises Cut."""
        length = self.u32()
        found = self.fixed(length)
        # The last field of a message may lack its padding at the cut; whoever reads on finds out.
        self.at += -length % 4
        return found

    def words(self) -> list[int]:
        """A counted list of 32-bit numbers. Raises Cut."""
        count = self.u32()
        if count * 4 > len(self.data) - self.at:
            raise Cut
        return [self.u32() for _ in range(count)]

    def optional(self, length: int) -> bytes | None:
        """A boolean, and so many bytes if it is true. Raises Cut."""
        return self.fixed(length) if self.u32() else None

    def attributes4(self) -> dict[int, int | bytes]:
        """Kind, size and file handle of NFS 4's attributes, as far as they are there. Raises Cut."""
        mask, values = self.words(), Xdr(self.opaque())
        found: dict[int, int | bytes] = {}
        bits = mask[0] if mask else 0
        for bit in range(FILEHANDLE + 1):
            if not bits >> bit & 1:
                continue
            if bit == 0:
                values.words()
            elif bit == FILEHANDLE:
                found[bit] = values.opaque()
            elif bit == KIND:
                found[bit] = values.u32()
            elif bit == SIZE:
                found[bit] = values.u64()
            elif bit in _WIDTHS:
                values.skip(_WIDTHS[bit])
            else:
                break
        return found
