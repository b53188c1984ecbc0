"""DiskSpd's sizes: reading them, and the two ways its versions print them."""

from __future__ import annotations

import re

from naslab.errors import UsageError

MAX_BYTES = (1 << 64) - 1
_SIZE = re.compile(r"([0-9]+)([TGMKBtgmkb]?)\Z")
_SHIFT = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
_UNITS = ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB"))


def parse_bytes(option: str, text: str, block_bytes: int, *, old: bool = False) -> int:
    """Bytes of a DiskSpd size. old: 2.0.21a, which lacks T. Raises UsageError naming option and value."""
    found = _SIZE.match(text)
    if not found:
        raise UsageError(
            f"{option}{text}: not a size; write digits, then nothing (bytes), K, M, G, T (powers of 1024) "
            "or b (blocks), without a blank"
        )
    digits, unit = found[1], found[2].upper()
    if old and unit == "T":
        raise UsageError(f"{option}{text}: DiskSpd 2.0.21a has no T; write it in G, or leave out --compat")
    # Bounded before it is converted: Python refuses to convert very long digits with an error of its own.
    value = int(digits) if len(digits.lstrip("0")) <= 20 else MAX_BYTES + 1
    value = value * block_bytes if unit == "B" else value << _SHIFT[unit]
    if value > MAX_BYTES:
        raise UsageError(f"{option}{text}: the size does not fit 64 bits; give a smaller one")
    return value


def shown(size_bytes: int, width: int = 0) -> str:
    """A size as DiskSpd 2.2 prints it: `8GiB`, `1.86GiB`, `100`. width: of the number, blanks before it."""
    for shift, unit in _UNITS:
        whole, rest = divmod(size_bytes, 1 << shift)
        if whole:
            number = f"{size_bytes / (1 << shift):.2f}" if rest else str(whole)
            return f"{number:>{width}}{unit}"
    return str(size_bytes)


def shown_old(size_bytes: int) -> str:
    """A file's size as 2.0.21a prints it: whole units, and the smaller unit up to ten of the larger."""
    for shift, unit in _UNITS[1:]:
        if size_bytes > 10 << shift:
            return f"{size_bytes >> shift}{unit}"
    return f"{size_bytes}B"
