"""Sizes, rates and durations: parsed and printed at the edge, integers inside.

Sizes: `64k`, `1m`, `2g`, `1t` are powers of 1024 (also `64KiB`); `64kB`, `1MB` are powers of 1000.
Rates are printed in MB/s (10^6).
"""

from __future__ import annotations

import re

from naslab.errors import UsageError

_BINARY = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}
_BINARY_UNITS = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]*)\Z")
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|ms|s|m|min|h)?\Z")
MAX_SIZE_BYTES = (1 << 63) - 1
MAX_DURATION_NS = (1 << 63) - 1
_MAX_DIGITS = 30
_DURATION_NS = {
    "ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "min": 60 * 10**9, "h": 3600 * 10**9,
}  # fmt: skip


def _size_factor(suffix: str) -> int | None:
    lower = suffix.lower()
    if lower in _BINARY:
        return _BINARY[lower]
    if lower.endswith("ib") and lower[:-2] in _BINARY and len(lower) == 3:
        return _BINARY[lower[:-2]]
    if lower.endswith("b") and len(lower) == 2:
        return 1000 ** "kmgtp".index(lower[0]) * 1000 if lower[0] in "kmgtp" else None
    return None


def parse_size(text: str, option: str = "size") -> int:
    """Bytes from `64k` (65536), `1.5g`, `64kB` (64000), `512`.

    Raises UsageError naming `option` for anything else, for a fraction of a byte, and for negatives.
    """
    match = _SIZE.match(text.strip())
    factor = _size_factor(match.group(2)) if match else None
    if match is None or factor is None:
        raise UsageError(
            f"{option}: {text!r} is not a size; write 64k, 1m, 2g (powers of 1024) or 64kB, 1MB (powers of 1000)"
        )
    whole, _, fraction = match.group(1).partition(".")
    if len(whole) > _MAX_DIGITS or len(fraction) > _MAX_DIGITS:
        raise UsageError(f"{option}: {text[:40]!r} has too many digits; write a size of at most {MAX_SIZE_BYTES} bytes")
    scale = int(10 ** len(fraction))
    value, rest = divmod(int(whole + fraction) * factor, scale)
    if rest:
        raise UsageError(f"{option}: {text!r} is not a whole number of bytes; write the bytes themselves")
    if value > MAX_SIZE_BYTES:
        raise UsageError(f"{option}: {text!r} is above the largest file there can be ({MAX_SIZE_BYTES} bytes)")
    return value


def parse_size_list(text: str, option: str = "size") -> list[int]:
    """Sizes from `64k..1g` (doubling from the first up to the second) or `4k,64k,1m`; ascending, unique.

    Raises UsageError naming `option` for an empty list, a zero size or a range that runs backwards.
    """
    sizes: set[int] = set()
    for part in text.split(","):
        if not all(end.strip() for end in part.split("..")):
            raise UsageError(f"{option}: {text!r} lacks a size; write 64k..1g (doubling), or 4k,64k,1m")
        if ".." in part:
            low, high = (parse_size(end, option) for end in part.split("..", 1))
            if low < 1 or low > high:
                raise UsageError(f"{option}: the range {part!r} is empty; write it small..large, from at least 1")
            while low <= high:
                sizes.add(low)
                low *= 2
        else:
            sizes.add(parse_size(part, option))
    if 0 in sizes:
        raise UsageError(f"{option}: a size of 0 cannot be measured; give at least 1 byte")
    return sorted(sizes)


def parse_duration(text: str, option: str = "duration") -> int:
    """Nanoseconds from `5m`, `30s`, `200us`, `1.5h`; a bare number is seconds. Raises UsageError."""
    match = _DURATION.match(text.strip())
    if not match:
        raise UsageError(f"{option}: {text!r} is not a duration; write 30s, 5m, 1h or 200us")
    value = float(match.group(1)) * _DURATION_NS[match.group(2) or "s"]
    if value > MAX_DURATION_NS:
        raise UsageError(f"{option}: {text!r} is too long; write 30s, 5m, 1h")
    return round(value)


def size_text(size_bytes: int) -> str:
    """Shortest exact text in powers of 1024: 65536 -> `64k`; 1000 -> `1000`."""
    for suffix, factor in (("t", 1 << 40), ("g", 1 << 30), ("m", 1 << 20), ("k", 1 << 10)):
        if size_bytes >= factor and size_bytes % factor == 0:
            return f"{size_bytes // factor}{suffix}"
    return str(size_bytes)


def size_label(size_bytes: float) -> str:
    """Size in powers of 1024, short: 65536 -> `64 KiB`; 1500 -> `1,500 B`; 1.5 MiB -> `1.5 MiB`."""
    for unit, factor in _BINARY_UNITS:
        if size_bytes >= factor:
            value = size_bytes / factor
            return f"{value:.0f} {unit}" if value == int(value) else f"{value:.3g} {unit}"
    return f"{size_bytes:,.0f} B"


def rate_text(bytes_per_s: float | None) -> str:
    """Throughput in MB/s (10^6), three significant digits or more."""
    if bytes_per_s is None:
        return "-"
    value = bytes_per_s / 1e6
    return f"{value:,.0f} MB/s" if value >= 100 else f"{value:,.3g} MB/s"


def count_text(value: float) -> str:
    """A number, three significant digits or more."""
    return f"{value:,.0f}" if value >= 100 else f"{value:,.3g}"


def amount_text(size_bytes: float) -> str:
    """A rounded amount of data in powers of 1000: `1.5 GB`."""
    for suffix, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.3g} {suffix}"
    return f"{size_bytes:.0f} B"


def duration_text(duration_ns: float) -> str:
    """A rounded duration: `1.5 ms`, `12 s`, `3 min 20 s`."""
    if duration_ns >= 3600e9:
        return f"{int(duration_ns // 3600e9)} h {int(duration_ns % 3600e9 // 60e9)} min"
    if duration_ns >= 60e9:
        return f"{int(duration_ns // 60e9)} min {int(duration_ns % 60e9 // 1e9)} s"
    for suffix, factor in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if duration_ns >= factor:
            return f"{duration_ns / factor:.3g} {suffix}"
    return f"{duration_ns:.0f} ns"
