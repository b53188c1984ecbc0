"""Readers of DiskSpd's output written the way scripts in the field do it: by line and column, or by element."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from xml.etree import ElementTree

SHARES = ("usage", "user", "kernel", "idle")
_HEAD = re.compile(r"^thread \|")
_PERCENTILES = ("min", "25th", "50th", "75th", "90th", "95th", "99th", *(f"{n}-nines" for n in range(3, 10)), "max")


@dataclass
class Table:
    """One of Total IO, Read IO, Write IO: columns by heading; numbers as written."""

    columns: list[str] = field(default_factory=list)
    rows: list[dict[str, str]] = field(default_factory=list)
    total: dict[str, str] = field(default_factory=dict)


@dataclass
class TextSpan:
    """Results of one time span."""

    seconds: float = 0.0
    threads: int = 0
    processors: int | None = None
    cpu: dict[str, float] = field(default_factory=dict)
    processor_rows: list[dict[str, float]] = field(default_factory=list)
    tables: dict[str, Table] = field(default_factory=dict)
    percentiles: dict[str, list[str]] = field(default_factory=dict)


def read_text(text: str) -> list[TextSpan]:
    """All time spans of DiskSpd's text."""
    parts = re.split(r"^Results for timespan \d+:\n\*{79}\n", text, flags=re.MULTILINE)[1:]
    return [_span(part.split("\n\nTotals:\n")[0]) for part in parts]


def _span(text: str) -> TextSpan:
    span = TextSpan()
    span.seconds = float(re.search(r"^actual test time:\t([\d.]+)s$", text, re.MULTILINE)[1])  # type: ignore[index]
    span.threads = int(re.search(r"^thread count:\t\t(\d+)$", text, re.MULTILINE)[1])  # type: ignore[index]
    processors = re.search(r"^proc count:\t\t(\d+)$", text, re.MULTILINE)
    span.processors = int(processors[1]) if processors else None
    lines = text.split("\n")
    _read_processors(span, lines)
    for at, line in enumerate(lines):
        if line in ("Total IO", "Read IO", "Write IO"):
            span.tables[line] = _table(lines[at + 1 :])
        name = line.split("|")[0].strip()
        if name in _PERCENTILES and line.count("|") == 3:
            span.percentiles[name] = [cell.strip() for cell in line.split("|")[1:]]
    return span


def _read_processors(span: TextSpan, lines: list[str]) -> None:
    """The CPU table. Columns of the topology stand before `CPU`; the average's line has blanks below them."""
    at = next(n for n, line in enumerate(lines) if re.search(r"\bCPU\s*\|\s*Usage\s*\|", line))
    columns = [cell.strip() for cell in lines[at].split("|")]
    assert columns[-4:] == ["Usage", "User", "Kernel", "Idle"] and set(lines[at + 1]) == {"-"}
    for line in lines[at + 2 :]:
        if set(line) == {"-"}:
            continue
        cells = [cell.strip().rstrip("%") for cell in line.split("|")]
        if cells[0] == "avg.":
            assert line.index("|") == len("|".join(lines[at].split("|")[:-4])), "below the bar behind CPU"
            span.cpu = dict(zip(SHARES, map(float, cells[1:]), strict=True))
            return
        span.processor_rows.append(dict(zip(columns, map(float, cells), strict=True)))


def _table(lines: list[str]) -> Table:
    table = Table()
    assert _HEAD.match(lines[0]) and set(lines[1]) == {"-"} and len(lines[1]) >= len(lines[0])
    table.columns = [cell.strip() for cell in lines[0].split("|")]
    for line in lines[2:]:
        if line.startswith("total:"):
            cells = [cell.strip() for cell in line.removeprefix("total:").split("|")]
            table.total = dict(zip(table.columns[1:-1], cells, strict=True))
            return table
        if set(line) != {"-"}:
            cells = [cell.strip() for cell in line.split("|", len(table.columns) - 1)]
            table.rows.append(dict(zip(table.columns, cells, strict=True)))
    raise AssertionError("a table without a total line")


def totals(text: str) -> dict[str, list[str]]:
    """The table over several time spans."""
    part = text.split("\n\nTotals:\n")[1]
    found = {}
    for name in ("write", "read", "total"):
        line = re.search(rf"^{name} +\|(.*)$", part, re.MULTILINE)
        found[name] = [cell.strip() for cell in line[1].split("|")]  # type: ignore[index]
    return found


def read_xml(text: str) -> ElementTree.Element:
    """The Results element."""
    root = ElementTree.fromstring(text)
    assert root.tag == "Results"
    return root


def order(element: ElementTree.Element) -> list[str]:
    """Names of the children, repeats once."""
    return list(dict.fromkeys(child.tag for child in element))
