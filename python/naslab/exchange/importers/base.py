"""What the readers of other tools' files share: the file, what is read from it, and numbers within bounds."""

from __future__ import annotations

import codecs
import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from naslab.errors import ForeignFileError

MAX_FILE_BYTES = 256 << 20
"""Larger files are no results of a benchmark."""
MAX_TEXT_BYTES = 64 << 20
"""Of files that are read line by line; logs of fio, which may be longer, are not held as lines."""
MAX_LINES = 1_000_000
MAX_LINE = 1 << 16
"""Characters of a line."""
MAX_VALUES = 8_000_000
"""Of JSON or XML: more would need gigabytes of memory."""
MAX_CELLS = 100_000
MAX_NUMBER = 1e18
"""No rate, count or size of a real result is above."""
MAX_TEXT = 2000
KIB, MIB, MB = 1 << 10, 1 << 20, 10**6
Cell = dict[str, Any]


@dataclass
class Input:
    """A file to import. name: its base name, as messages call it."""

    name: str
    data: bytes
    modified_ns: int = 0

    @classmethod
    def of(cls, path: Path) -> Input:
        """Reads a file whole. Raises ForeignFileError when that cannot be, or it is too large to be a result."""
        try:
            status = path.stat()
            if status.st_size > MAX_FILE_BYTES:
                raise ForeignFileError(
                    f"{path} has {status.st_size} bytes; results of benchmarks are below {MAX_FILE_BYTES}"
                )
            with path.open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise ForeignFileError(f"{path} cannot be read: {error.strerror or error}; check the name") from error
        return cls(path.name, data[:MAX_FILE_BYTES], status.st_mtime_ns)

    @property
    def sha256(self) -> str:
        """Of the bytes."""
        return hashlib.sha256(self.data).hexdigest()

    @cached_property
    def text(self) -> str:
        """The bytes as text, whatever wrote them: UTF-8, UTF-16 with its mark, else Windows' Western encoding."""
        data = self.data
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return data.decode("utf-16", errors="replace")
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError:
            return data.decode("cp1252", errors="replace")

    @cached_property
    def lines(self) -> list[str]:
        """Lines of the text without their ends, in Unix, Windows or old Mac style.

        Raises ForeignFileError for more, or longer ones, than any result has.
        """
        if len(self.data) > MAX_TEXT_BYTES:
            raise self.broken(f"has {len(self.data)} bytes; results in this format are below {MAX_TEXT_BYTES}")
        text = self.text.replace("\r\n", "\n").replace("\r", "\n")
        if (count := text.count("\n")) >= MAX_LINES:
            raise self.broken(f"has {count} lines; results in this format have below {MAX_LINES}")
        found = text.split("\n")
        if long := next((at for at, line in enumerate(found, 1) if len(line) > MAX_LINE), None):
            raise self.broken(f"line {long} has {len(found[long - 1])} characters; results have at most {MAX_LINE}")
        return found

    def values(self, marks: bytes) -> None:
        """Checks, before any of them is made, that the file has no more values than fit in memory.

        marks: bytes of which each value has one at least. Raises ForeignFileError.
        """
        count = sum(self.data.count(mark) for mark in marks)
        if count > MAX_VALUES:
            raise self.broken(f"holds about {count} values; results have below {MAX_VALUES}")

    def json(self, start: int = 0) -> tuple[Any, int]:
        """(the JSON value that begins there in the text, where it ends). Raises ForeignFileError, naming the line."""
        try:
            return json.JSONDecoder(parse_constant=lambda _: None).raw_decode(self.text, start)
        except (ValueError, RecursionError) as error:
            raise self.broken(f"is JSON that is cut off or damaged: {str(error)[:100]}") from error

    def broken(self, what: str) -> ForeignFileError:
        """The error that this file deserves."""
        return ForeignFileError(f"{self.name}: {what}")


@dataclass
class Draft:
    """One run as a file tells it. cells: made by `naslab.results.foreign.foreign_cell`, ids from 0. blobs: raw data by
    cell id and name. start_wall_ns: 0 where the file does not tell. label: what the file calls the run. unknown: what
    else it does not tell."""

    tool: str
    format: str
    cells: list[Cell]
    tool_version: str | None = None
    title: str | None = None
    target: str = ""
    command_line: str | None = None
    start_wall_ns: int = 0
    end_wall_ns: int | None = None
    environment: dict[str, Any] = field(default_factory=dict)
    warnings: list[tuple[str, str]] = field(default_factory=list)
    blobs: dict[int, dict[str, bytes]] = field(default_factory=dict)
    unknown: Sequence[str] = ()
    label: str | None = None
    protocol: str = ""


_NUMBER = re.compile(r"[+-]?\d{1,30}(?:[.,]\d{0,30})?(?:[eE][+-]?\d{1,3})?\Z")


def number(text: Any) -> float | None:
    """A finite number from 0 to MAX_NUMBER, from text (a comma may stand for the point) or JSON; else None."""
    if isinstance(text, bool) or text is None:
        return None
    if isinstance(text, int | float):
        try:
            value = float(text)
        except OverflowError:
            return None
    else:
        stripped = str(text).strip()[:70]
        if not _NUMBER.match(stripped):
            return None
        value = float(stripped.replace(",", "."))
    return value if math.isfinite(value) and 0 <= value <= MAX_NUMBER else None


def whole(text: Any) -> int | None:
    """As `number`, rounded to an integer."""
    value = number(text)
    return None if value is None else round(value)


def short(text: str) -> str:
    """Text of the file for the document: one line, printable, bounded."""
    return "".join(c if c.isprintable() else " " for c in text[:MAX_TEXT]).strip()


_SIZE = re.compile(r"(\d{1,18}(?:[.,]\d{1,6})?)\s*([KMGT]?)(i?)B?\Z", re.IGNORECASE)


def size_bytes(text: str) -> int | None:
    """Bytes of `64KiB`, `8GiB`, `1 MiB`, `64K`, `512`: powers of 1024 with and without the i."""
    found = _SIZE.match(text.strip()[:40])
    if not found:
        return None
    value = float(found[1].replace(",", ".")) * 1024 ** " KMGT".index(found[2].upper() or " ")
    return round(value) if value <= MAX_NUMBER else None


_DATES = (
    "%a %b %d %H:%M:%S %Y", "%Y/%m/%d %H:%M:%S UTC", "%Y/%m/%d %H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y/%m/%d %H:%M",
    "%Y-%m-%dT%H:%M:%SZ",
)  # fmt: skip


def date_ns(text: str) -> int:
    """Nanoseconds since 1970 of a date as the tools write it, taken as UTC; 0 where it is none."""
    plain = " ".join(text.split())[:40]
    for form in _DATES:
        try:
            found = datetime.strptime(plain, form).replace(tzinfo=UTC)
        except ValueError:
            continue
        return max(0, round(found.timestamp())) * 10**9
    return 0


def checked(draft: Draft, source: Input) -> Draft:
    """The draft, if it holds a result of sane size. Raises ForeignFileError."""
    if not draft.cells:
        raise source.broken(f"looks like {draft.format}, but contains no result (cut off before the first?)")
    if len(draft.cells) > MAX_CELLS:
        raise source.broken(f"holds {len(draft.cells)} results; at most {MAX_CELLS} are imported")
    return draft


def may_be(name: str, value: Any) -> bool:
    """Whether a cell's field may have this value, by the schema: its type, and its words where it has few."""
    from naslab.results.fields import fields_of
    from naslab.results.parts.cell import CellDocument
    from naslab.results.shape import of_field

    field = next((each for each in fields_of(CellDocument) if each.name == name), None)
    return field is not None and value is not None and of_field(field)(value, name) is None
