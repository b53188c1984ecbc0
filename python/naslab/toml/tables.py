"""Tables of TOML files about measurements: values with their checks, amounts with units, and which cells are meant."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from naslab.analysis.quantities import WHERE
from naslab.errors import UsageError
from naslab.results.numbers import is_positive
from naslab.toml.values import bit_rate, rate, read_value
from naslab.units import parse_size

UNITS = {
    "MB/s": 1e6, "KiB/s": 1024.0, "Gbit/s": 1e9 / 8, "GB": 1e9, "GiB": float(1 << 30), "s": 1e9, "USD": 1.0,
    "count": 1.0, "%": 0.01, "ratio": 1.0,
}  # fmt: skip
"""What one of it is in bytes per second, bytes, nanoseconds, or itself."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
_LARGEST = (1 << 63) - 1


class Table:
    """A table of the file whose keys are known. where: what errors begin with. known None: any key."""

    def __init__(self, data: Any, where: str, known: Collection[str] | None) -> None:
        if not isinstance(data, Mapping):
            raise UsageError(f"{where.rstrip(': ')} = {data!r}: this is a table of keys; see docs/guide/experiments.md")
        if known is not None and (unknown := sorted(set(data) - set(known))):
            raise UsageError(f"{_key(where, unknown[0])}: unknown key; use {', '.join(known)}")
        self.data, self.where = data, where

    def _get(self, key: str, default: Any) -> Any:
        found = self.data.get(key, default)
        if found is None:
            raise UsageError(f"{_key(self.where, key)} is missing")
        return found

    def _wrong(self, key: str, found: Any, words: str) -> UsageError:
        return UsageError(f"{_key(self.where, key)} = {found!r}: {words}")

    def text(self, key: str, default: str | None = None) -> str:
        """One line of text."""
        found = self._get(key, default)
        if not isinstance(found, str) or (key in self.data and not found.strip()):
            raise self._wrong(key, found, "write a text")
        return " ".join(found.split())

    def name(self, key: str) -> str:
        """A short name of letters, digits, `_`, `.` and `-`."""
        found = self.text(key)
        if not _NAME.match(found):
            raise self._wrong(key, found, "give at most 64 letters, digits, _ . -")
        return found

    def word(self, key: str, allowed: Collection[str], default: str | None = None) -> str:
        """One of some words."""
        found = self.text(key, default)
        if found not in allowed:
            raise self._wrong(key, found, f"use one of {', '.join(allowed)}")
        return found

    def texts(self, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """A list of texts."""
        found = self.data.get(key, list(default))
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise self._wrong(key, found, "write a list of texts")
        return tuple(found)

    def number(self, key: str) -> float:
        """A finite number above 0."""
        found = self._get(key, None)
        if not is_positive(found):
            raise self._wrong(key, found, "write a number above 0")
        return float(found)

    def whole(self, key: str, default: int, least: int, most: int) -> int:
        """A whole number."""
        found = self.data.get(key, default)
        if isinstance(found, bool) or not isinstance(found, int) or not least <= found <= most:
            raise self._wrong(key, found, f"write a whole number from {least} to {most}")
        return found

    def share(self, key: str, default: float) -> float:
        """A share above 0 and below 1: 0.05."""
        found = self.data.get(key, default)
        if isinstance(found, bool) or not isinstance(found, int | float) or not 0 < found < 1:
            raise self._wrong(key, found, "write a share above 0 and below 1: 0.05")
        return float(found)

    def flag(self, key: str, default: bool) -> bool:
        """true or false."""
        found = self.data.get(key, default)
        if not isinstance(found, bool):
            raise self._wrong(key, found, "write true or false")
        return found

    def table(self, key: str) -> Mapping[str, Any]:
        """A table in it; empty where it is left out."""
        return Table(self.data.get(key, {}), _key(self.where, key), None).data

    def tables(self, key: str) -> Iterator[tuple[Any, str]]:
        """(data, where) of each [[key]]."""
        found = self.data.get(key, [])
        if not isinstance(found, list):
            raise self._wrong(key, found, f"write [[{key}]], once for each")
        for at, each in enumerate(found):
            named = each.get("id") if isinstance(each, Mapping) else None
            yield each, _key(self.where, f"{key}[{named if isinstance(named, str) else at}]")


def _key(where: str, key: str) -> str:
    return f"{where}{key}" if where.endswith(": ") else f"{where}.{key}"


def limit_value(text: str, where: str) -> float:
    """Bytes per second of `118MB/s` and `1Gbit/s` (of the wire, as bytes), or bytes of `256MiB`. Raises UsageError."""
    if text.strip().endswith("bit/s"):
        return float(read_value(bit_rate, text, where)) / 8
    if text.strip().endswith("/s"):
        return float(read_value(rate, text, where))
    return float(parse_size(text, where))


def where_of(table: Table) -> dict[str, Any]:
    """Which cells: words as they are, sizes and counts as (low, high)."""
    found: dict[str, Any] = {}
    for key in WHERE:
        if key not in table.data:
            continue
        text = table.text(key)
        found[key] = text if key in ("op", "workload") else _range(text, f"{table.where}.{key}")
    return found


def _range(text: str, where: str) -> tuple[int, int]:
    """`64k`, `64m..`, `..32m`, `1m..4m`."""
    low, dots, high = text.partition("..")
    ends = (parse_size(low, where) if low else 0, parse_size(high, where) if high else _LARGEST)
    ends = ends if dots else (ends[0], ends[0])
    if ends[0] > ends[1] or not text.strip("."):
        raise UsageError(f"{where} = {text!r}: the range is empty; write 64k, 64m.., ..32m or 1m..4m")
    return ends
