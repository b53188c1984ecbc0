"""CrystalDiskMark's text (copy or save as text), versions 2 to 9, and those of KDiskMark and AmorphousDiskMark.

Source: CDiskMarkDlg::OnEditCopy and SaveText of github.com/hiyohiyo/CrystalDiskMark (2.x, 3.0, 8.0), scoreString of
AmorphousDiskMark, and texts of 3.0.1 to 8.0.4 that people published. MB/s is 10^6 bytes per second, as every text
says; the number is the best of its passes, so nothing tells a spread.
"""

from __future__ import annotations

import re

from naslab.exchange.importers.base import (
    MAX_CELLS,
    MB,
    Cell,
    Draft,
    Input,
    checked,
    date_ns,
    number,
    short,
    size_bytes,
)
from naslab.results.foreign import foreign_cell
from naslab.spec import operation_name

_NEW = re.compile(
    r"\W{0,8}(SEQ|RND|Sequential|Random)\s+(\d{1,6}) ?([KM]i?B)\s*\(Q= *(\d{1,5}), ?T= *(\d{1,5})\)\s*:\s*"
    r"(\d[\d.,]{0,20}) MB/s(?:\s*\[\s*(\d[\d.,]{0,20}) IOPS\])?(?:\s*<\s*(\d[\d.,]{0,20}) us>)?"
)
_OLD = re.compile(
    r"\W{0,20}(Sequential|Random) (Read|Write)(?: (\d{1,6}) ?([KM]i?B))?\s*"
    r"(?:\((?:(?:Q= *(\d{1,5}), ?)?T= *(\d{1,5})|QD= *(\d{1,5}))\))?\s*:\s*"
    r"(\d[\d.,]{0,20}) MB/s(?:\s*\[\s*(\d[\d.,]{0,20}) IOPS\])?"
)
_MIX = re.compile(r"\W{0,8}\[Mix\] Read (\d{1,3})%/Write (\d{1,3})%")
_TITLE = re.compile(r"\W{0,30}(CrystalDiskMark|KDiskMark|AmorphousDiskMark)[ (]{1,2}([\d.]{1,12})")
_TEST = re.compile(r"\W{0,20}Test(?: Size)? ?: (\d[\d.]{0,12} ?[KMG]i?B)\b(.{0,200})")


def parse(source: Input) -> Draft:
    """The run in the text: a cell a line. Raises ForeignFileError where it holds none."""
    draft = Draft("crystaldiskmark", "crystaldiskmark-text", [], unknown=("durability", "time zone"))
    share, file_bytes = 0.0, None
    for line in source.lines:
        text = line[:400]
        if title := _TITLE.match(text):
            draft.tool_version = title[2] if title[1] == "CrystalDiskMark" else f"{title[1]} {title[2]}"
        elif "[Read]" in text:
            share = 0.0
        elif "[Write]" in text:
            share = 100.0
        elif mix := _MIX.match(text):
            share = float(mix[2])
        elif test := _TEST.match(text):
            file_bytes = size_bytes(test[1])
            draft.title = short(f"{test[1]}{test[2]}")
        elif (date := text.strip(" >*")).startswith("Date"):
            draft.start_wall_ns = date_ns(date.partition(":")[2])
        elif date.startswith("Target: "):  # of KDiskMark
            draft.target = short(date[8:])
        elif len(draft.cells) < MAX_CELLS and (cell := _cell(len(draft.cells), text, share)):
            draft.cells.append(cell)
    for cell in draft.cells:
        cell["file_bytes"] = file_bytes
    draft.warnings.append(("best_of", "each number is the best of its passes, not their mean or median"))
    return checked(draft, source)


def _cell(at: int, text: str, share: float) -> Cell | None:
    if found := _NEW.match(text):
        kind, size, unit, depth, threads, rate, iops, latency = found.groups()
    elif found := _OLD.match(text):
        kind, way, size, unit, queue, threads, old_queue, rate, iops = found.groups()
        share, depth, latency = 100.0 if way == "Write" else 0.0, queue or old_queue or "1", None
    else:
        return None
    value = number(rate)
    if not value or not 0 <= share <= 100:
        return None
    random = kind.lower() in ("rnd", "random")
    microseconds = number(latency)
    return foreign_cell(
        at, operation_name(share, random), value * MB,
        record_bytes=size_bytes(f"{size}{unit}") if size else None,
        queue_depth=max(1, int(depth)), workers=max(1, int(threads or 1)), iops=number(iops),
        write_fraction=share / 100, pattern="random" if random else "sequential", direct=True, access="positioned",
        latency_ns={"mean": round(microseconds * 1000)} if microseconds else {},
    )  # fmt: skip
