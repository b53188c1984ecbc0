"""What a terminal can show, and small pictures of it: heat maps and sparklines of blocks, or of ASCII.

NO_COLOR switches colours off (no-color.org), FORCE_COLOR on where the output is no terminal or a dumb one
(force-color.org); the first wins. Blocks need a UTF-8 locale.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from naslab.text.printable import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

BLOCKS = "▁▂▃▄▅▆▇█"
ASCII_BLOCKS = ".:-=+*#@"
"""The same eight steps where there are no blocks."""
NOTHING = "·"
"""A place of a heat map where nothing was measured."""
_TO_ASCII = str.maketrans(
    {**dict(zip(BLOCKS, ASCII_BLOCKS, strict=True)), "─": "-", "·": "_", "…": "~", "→": ">", "µ": "u"}
)
_LEAST_TEXT = 14
"""Columns that running text needs beside numbers, or its longest word."""


def has_colour() -> bool:
    """Whether to colour what is printed."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def has_blocks(environment: Mapping[str, str] | None = None) -> bool:
    """Whether the locale is UTF-8: of LC_ALL, LC_CTYPE and LANG the first that is set, and what Python writes in.

    The name is asked, too, since Python itself writes UTF-8 under LC_ALL=C.
    """
    found = os.environ if environment is None else environment
    encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "")
    locale = next((found[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if found.get(name)), "utf8")
    return encoding == "utf8" and "utf8" in locale.lower().replace("-", "")


@cache
def console_class() -> type[Console]:
    """rich's console, which draws all texts as `printable`: what is left of escapes are its own colours."""
    from rich.console import Console
    from rich.segment import Segment

    class Printing(Console):
        def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
            for segment in super().render(renderable, options):
                text = segment.text if segment.control else printable(segment.text)
                yield segment if text is segment.text else Segment(text, segment.style)

    return Printing


def in_ascii(text: str) -> str:
    """The text without blocks and lines; other letters that the output cannot hold become question marks."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.translate(_TO_ASCII).encode(encoding, "replace").decode(encoding)


def spark(values: Sequence[float], low: float, high: float, marks: int) -> str:
    """One block a value, its height between low and high; more values than `marks` are averaged in equal parts.

    NaN is a blank. Values outside are drawn as the nearest end.
    """
    if len(values) > marks:
        edges = [round(at * len(values) / marks) for at in range(marks + 1)]
        values = [_mean(values[a:b]) for a, b in pairwise(edges)]
    return "".join(" " if math.isnan(value) else BLOCKS[step(value, low, high)] for value in values)


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def step(value: float, low: float, high: float) -> int:
    """Which of the eight blocks: equal parts of low to high."""
    if high <= low:
        return len(BLOCKS) - 1
    return min(len(BLOCKS) - 1, max(0, int((value - low) / (high - low) * len(BLOCKS))))


def heat_map(
    title: str, rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float]], high: float,
    wide: int = 2,
) -> list[str]:  # fmt: skip
    """Lines of a map: a title, a row of `wide` blocks a column each from 0 to `high`, first and last column's name.

    All lines are of one width. NaN is a dot.
    """
    left = max(map(len, rows))
    lines = [
        f"{name:>{left}} " + "".join((NOTHING if math.isnan(v) else BLOCKS[step(v, 0, high)]) * wide for v in row)
        for name, row in zip(rows, values, strict=True)
    ]
    room = wide * len(columns)
    ends = columns[0] + columns[-1].rjust(max(len(columns[-1]) + 1, room - len(columns[0])))
    lines = [title, *lines, " " * (left + 1) + ends]
    width = max(map(len, lines))
    return [line.ljust(width) for line in lines]


def side_by_side(maps: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Maps of equal height next to each other, as many as fit, then below."""
    line: list[Sequence[str]] = []
    for one in maps:
        if line and sum(len(each[0]) + 3 for each in line) + len(one[0]) > width:
            yield from _joined(line)
            yield ""
            line = []
        line.append(one)
    yield from _joined(line)


def _joined(maps: Sequence[Sequence[str]]) -> Iterator[str]:
    height = max((len(one) for one in maps), default=0)
    for at in range(height):
        yield "   ".join(one[at] if at < len(one) else " " * len(one[0]) for one in maps).rstrip()


def fitted(table: Table, width: int) -> list[Any]:
    """The table so that no number and no word is cut: whole, or without columns that it can go without, or in parts.

    `optional` of a table (see `plain_table`) names those columns, the first to go first; a line says which are
    left out. Columns of running text may fold between words. Parts have the first column in each; one beside which
    another has no room is not repeated.
    """
    needs = [_needed(column) for column in table.columns]
    gap = 2
    kept = list(range(len(needs)))
    heads = [str(column.header) for column in table.columns]
    left_out = []
    for name in getattr(table, "optional", ()):
        if sum(needs[at] for at in kept) + gap * (len(kept) - 1) <= width:
            break
        if name in heads and heads.index(name) in kept:
            kept.remove(heads.index(name))
            left_out.append(name)
    if sum(needs[at] for at in kept) + gap * (len(kept) - 1) <= width:
        return [_part(table, kept, needs, width), *_left_out([name for name in heads if name in left_out], width)]
    repeated = needs[0] + gap + max((needs[at] for at in kept[1:]), default=0) <= width
    parts: list[list[int]] = [[0]]
    for at in kept[1:]:
        used = sum(needs[one] + gap for one in parts[-1])
        if used + needs[at] > width and parts[-1] != [0]:
            parts.append([0] if repeated else [])
        parts[-1].append(at)
    return [_part(table, part, needs, width) for part in parts]


def _left_out(names: Sequence[str], width: int) -> list[Any]:
    """The line that names the columns without room; nothing where all have some."""
    from rich.text import Text

    return [Text(f"Not shown in {width} columns: {', '.join(names)}", style="dim")] if names else []


def _needed(column: Any) -> int:
    texts = [str(column.header), *(getattr(cell, "plain", str(cell)) for cell in column.cells)]
    longest = max(map(len, texts))
    if column.no_wrap:
        return longest
    words = max((len(word) for text in texts for word in text.split()), default=1)
    return min(longest, max(words, _LEAST_TEXT))


def _part(table: Table, columns: Sequence[int], needs: Sequence[int], width: int) -> Table:
    from rich.table import Table as RichTable

    made = RichTable(
        box=table.box, show_edge=table.show_edge, pad_edge=table.pad_edge, padding=table.padding,
        show_header=table.show_header,
    )  # fmt: skip
    for at in columns:
        found = table.columns[at]
        made.add_column(
            found.header, justify=found.justify, no_wrap=found.no_wrap, overflow=found.overflow, style=found.style,
            min_width=min(needs[at], width),
        )  # fmt: skip
    for row in zip(*(list(table.columns[at].cells) for at in columns), strict=True):
        made.add_row(*row)
    return made


def plain_table(header: Iterable[str], right: Iterable[str] = (), optional: Sequence[str] = ()) -> Any:
    """An empty table with a line under its header. right: columns set to the right, which never wrap.

    optional: columns that a terminal too narrow for all goes without, the first named first.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.optional = tuple(optional)  # type: ignore[attr-defined]
    for name in header:
        table.add_column(name, justify="right" if name in right else "left", no_wrap=name in right, overflow="fold")
    return table
