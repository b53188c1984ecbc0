"""Sizes, rates and durations: parsed and printed at the edge, integers inside.

Sizes: `64k`, `1m`, `2g`, `1t` are powers of 1024 (also `64KiB`); `64kB`, `1MB` are powers of 1000.
Rates are printed in MB/s (10^6), measured values with three significant digits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from naslab.errors import UsageError

_BINARY = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}
_BINARY_UNITS = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]*)\Z")
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|min|h)?\Z")
MAX_SIZE_BYTES = (1 << 63) - 1
MAX_DURATION_NS = (1 << 63) - 1
_MAX_DIGITS = 30
UNLIMITED_BYTES = 1 << 60
"""Servers without a limit report such space: 8 EiB, 1 EiB less a block."""
_DURATION_NS = {
    "ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "min": 60 * 10**9, "h": 3600 * 10**9,
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


def percent_text(share: float, digits: int = 0, signed: bool = False) -> str:
    """`93 %`, `0.4 %`, `+2.0 %` of a share."""
    return f"{100 * share:{'+' if signed else ''}.{digits}f} %"


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
        raise UsageError(f"{option}: {text!r} exceeds the largest possible file size ({MAX_SIZE_BYTES} bytes)")
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


def three_digits(value: float) -> str:
    """A number with three significant digits: 31.97 -> `32.0`, 29438 -> `29,400`; a small whole number as it is: `32`.

    Not a number and infinities are `-`.
    """
    if not math.isfinite(value):
        return "-"
    if abs(value) < 999.5 and abs(value - round(value)) <= 1e-6 * abs(value):
        return f"{value:.0f}"  # set, not measured; 1e-6 is what arithmetic loses
    places = 2 - math.floor(math.log10(abs(value)))
    rounded = round(value, places)
    # 99.97 becomes 100.0: one digit before the point more, so one after it less.
    places = max(0, 2 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:,.{places}f}"


def _scaled(value: float, units: Sequence[tuple[str, float]]) -> str:
    """A value in the first of the units (largest first) in which it is at least 1 once rounded, else in the last."""
    for unit, factor in units[:-1]:
        if value >= 0.9995 * factor:
            return f"{three_digits(value / factor)} {unit}"
    unit, factor = units[-1]
    return f"{three_digits(value / factor)} {unit}"


def size_label(size_bytes: float) -> str:
    """Size in powers of 1024, short: 65536 -> `64 KiB`; 1000 -> `1,000 B`; 1.5 MiB -> `1.50 MiB`."""
    if size_bytes >= UNLIMITED_BYTES:
        return "unlimited"
    for unit, factor in _BINARY_UNITS:
        if size_bytes >= factor:
            value = size_bytes / factor
            # 1,023 MiB has four digits, and no larger unit in which it is at least 1.
            return f"{value:,.0f} {unit}" if value == int(value) or value >= 1000 else f"{three_digits(value)} {unit}"
    return f"{size_bytes:,.0f} B"


def rate_text(bytes_per_s: float | None) -> str:
    """Throughput in MB/s (10^6) with three significant digits; from 10,000 MB/s on in GB/s, below 0.01 MB/s in kB/s."""
    if bytes_per_s is None:
        return "-"
    if bytes_per_s >= 9.995e9:
        return f"{three_digits(bytes_per_s / 1e9)} GB/s"
    if 0 < bytes_per_s < 0.01e6:
        return f"{three_digits(bytes_per_s / 1e3)} kB/s"
    return f"{three_digits(bytes_per_s / 1e6)} MB/s"


def count_text(value: float) -> str:
    """A measured number, three significant digits: 29438 -> `29,400`. Exact counts are no matter of it."""
    return three_digits(value)


def amount_text(size_bytes: float) -> str:
    """A rounded amount of data in powers of 1000: `1.50 GB`."""
    if size_bytes >= UNLIMITED_BYTES:
        return "unlimited"
    return _scaled(size_bytes, (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1)))


def duration_text(duration_ns: float) -> str:
    """A rounded duration: `1.50 ms`, `12 s`, `3 min 20 s`, `2 h`."""
    if duration_ns < 59.95e9:
        return _scaled(duration_ns, (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1)))
    minutes, seconds = divmod(round(duration_ns / 1e9), 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s" if seconds else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
