"""How the keys of a lab definition are written and read: units, choices, and errors that name file, key and value.

Each part of a definition is a dataclass whose fields carry their key, their reader and their meaning; the same
declarations read a file and write the reference page.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING
from typing import Any, TypeVar

from naslab.errors import UsageError
from naslab.units import parse_duration, parse_size

T = TypeVar("T")
Reader = Callable[[Any], Any]
_BITS = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kMGT]?)bit/s\Z")
_SHARE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*%\Z")
_THOUSANDS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


class _WrongError(Exception):
    """A value that its reader does not take; the text says what to write instead."""


def key(name: str, reads: Reader, what: str, default: Any = MISSING) -> Any:
    """A field of a part: its key in the file, what reads its value, its meaning; a default where it may be left out."""
    metadata = {"key": name, "reads": reads, "what": what}
    return dataclasses.field(metadata=metadata) if default is MISSING else dataclasses.field(
        default=default, metadata=metadata
    )  # fmt: skip


def read_part(kind: type[T], data: Any, where: str) -> T:
    """The part of this class from a table of the file.

    where: what errors begin with, for example `lab: FILE: disks[0]`. Raises UsageError for unknown and missing keys
    and for values that are not taken.
    """
    if not isinstance(data, Mapping):
        raise UsageError(f"{where} = {data!r}: this is a table of keys; see docs/reference/lab-systems.md")
    fields = {each.metadata["key"]: each for each in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if unknown := sorted(set(data) - set(fields)):
        raise UsageError(f"{where}.{unknown[0]} = {data[unknown[0]]!r}: unknown key; use {', '.join(fields)}")
    found = {}
    for name, each in fields.items():
        if name in data:
            found[each.name] = read_value(each.metadata["reads"], data[name], f"{where}.{name}")
        elif each.default is MISSING:
            raise UsageError(f"{where}.{name} is missing: {each.metadata['what']}")
    return kind(**found)


def read_value(reads: Reader, value: Any, where: str) -> Any:
    """One value through its reader. Raises UsageError that names it."""
    nested = getattr(reads, "part", None)
    if nested is not None:
        return read_part(nested, value, where)
    try:
        return reads(value)
    except _WrongError as wrong:
        raise UsageError(f"{where} = {value!r}: {wrong}") from None


def _reader(help_text: str) -> Callable[[Reader], Reader]:
    """Gives a reader the words that the reference page uses for what it takes."""

    def named(reads: Reader) -> Reader:
        reads.takes = help_text  # type: ignore[attr-defined]
        return reads

    return named


def table(part: type) -> Reader:
    """A table in a table."""

    def reads(value: Any) -> Any:
        raise AssertionError("read_value reads tables")

    reads.part = part  # type: ignore[attr-defined]
    reads.takes = "table"  # type: ignore[attr-defined]
    return reads


def choice(*allowed: str) -> Reader:
    """One of some words."""

    @_reader(", ".join(f"`{each}`" for each in allowed))
    def reads(value: Any) -> str:
        if value not in allowed:
            raise _WrongError(f"use one of {', '.join(allowed)}")
        return str(value)

    return reads


def choices(*allowed: str) -> Reader:
    """Some of some words: one text, or a list."""

    @_reader(f"some of {', '.join(f'`{each}`' for each in allowed)}")
    def reads(value: Any) -> tuple[str, ...]:
        found = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else ()
        if not found or any(each not in allowed for each in found):
            raise _WrongError(f"use some of {', '.join(allowed)}")
        return found

    return reads


@_reader("text")
def text(value: Any) -> str:
    """One line of text."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise _WrongError("write one line of text")
    return value.strip()


def number(least: int, most: int) -> Reader:
    """A whole number; as text too, as `--set` gives it."""

    @_reader(f"whole number, {least} to {most}")
    def reads(value: Any) -> int:
        found = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
        if isinstance(found, bool) or not isinstance(found, int) or not least <= found <= most:
            raise _WrongError(f"write a whole number from {least} to {most}")
        return found

    return reads


def size(least_bytes: int, most_bytes: int) -> Reader:
    """Bytes: `1GiB`, `64MB`."""

    @_reader("size: `1GiB`, `64MB`")
    def reads(value: Any) -> int:
        found = _parsed(lambda: parse_size(value), value, "write a size: 1GiB, 64MB")
        if not least_bytes <= found <= most_bytes:
            raise _WrongError(f"write a size from {least_bytes} to {most_bytes} bytes")
        return found

    return reads


@_reader("rate: `67MB/s`")
def rate(value: Any) -> int:
    """Bytes per second: `67MB/s`; at least 64 KiB/s, below which the throttles are coarse."""
    wrong = "write a rate in bytes per second: 67MB/s"
    if not isinstance(value, str) or not value.strip().endswith("/s") or value.strip().endswith("bit/s"):
        raise _WrongError(wrong)
    found = _parsed(lambda: parse_size(value.strip().removesuffix("/s")), value, wrong)
    if not 1 << 16 <= found <= 100 * 10**9:
        raise _WrongError("write a rate from 64KiB/s to 100GB/s")
    return found


@_reader("rate of a link: `1Gbit/s`, `67MB/s`")
def bit_rate(value: Any) -> int:
    """Bits per second, of a link: `1Gbit/s`, `100Mbit/s`; bytes as well: `67MB/s`."""
    match = _BITS.match(value.strip()) if isinstance(value, str) else None
    if match is None:
        if isinstance(value, str) and value.strip().endswith("bit/s"):
            raise _WrongError("write a link's rate: 1Gbit/s, 100Mbit/s")
        return 8 * int(rate(value))
    found = round(float(match.group(1)) * _THOUSANDS[match.group(2)])
    if not 10**6 <= found <= 100 * 10**9:
        raise _WrongError("write a link's rate from 1Mbit/s to 100Gbit/s")
    return found


@_reader("list of rates of links: `1Gbit/s`, `100Mbit/s`")
def bit_rates(value: Any) -> tuple[int, ...]:
    """Several of `bit_rate`: a list, or one text with commas, as `--set` gives it."""
    found = value.split(",") if isinstance(value, str) else value
    if not isinstance(found, list) or not found:
        raise _WrongError("write a list of links' rates: ['1Gbit/s', '100Mbit/s']")
    return tuple(bit_rate(each) for each in found)


@_reader("time: `8ms`, `200us`")
def duration(value: Any) -> int:
    """Nanoseconds: `8ms`."""
    wrong = "write a time with its unit: 8ms, 200us, 2s"
    if not isinstance(value, str) or not value.strip()[-1:].isalpha():
        raise _WrongError(wrong)
    found = _parsed(lambda: parse_duration(value), value, wrong)
    if found > 3600 * 10**9:
        raise _WrongError("write a time of at most 1h")
    return found


def share(most: float) -> Reader:
    """A share: `25%`; as a fraction."""

    @_reader(f"share: `25%`, at most {most:.0%}")
    def reads(value: Any) -> float:
        match = _SHARE.match(value.strip()) if isinstance(value, str) else None
        if match is None or not 0 < float(match.group(1)) / 100 <= most:
            raise _WrongError(f"write a share above 0% and up to {most:.0%}: 25%")
        return float(match.group(1)) / 100

    return reads


def _parsed(parse: Callable[[], int], value: Any, wrong: str) -> int:
    if not isinstance(value, str):
        raise _WrongError(wrong)
    try:
        return parse()
    except UsageError:
        raise _WrongError(wrong) from None
