"""IOzone's standard output: the table of single mode, the tables of -R, the blocks of throughput mode.

A paste that is indented as a whole, Windows line ends and banners of old versions (`KB`, narrower columns) are read
too; naslab's own front end prints the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from naslab.exchange.importers.base import KIB, MAX_CELLS, Cell, Draft, Input, checked, date_ns, number, short, whole
from naslab.exchange.importers.iozone_words import (
    NEW_WIDTHS,
    OLD_WIDTHS,
    OPS,
    REPORTS,
    THROUGHPUT,
    Told,
    cell_of,
    flags_of,
)

_HEAD = re.compile(r"(\s*)[kK]B\s{1,8}reclen(\s{1,8}write\b)")
_REPORT = re.compile(r'\s*"([A-Za-z -]{1,20}?) (CPU utilization )?report\b[^"]{0,80}"\s*\Z')
_ROW = re.compile(r'\s*"(\d{1,15})"([\d.\s]*)\Z')
_CHILDREN = re.compile(
    r"\s*Children see throughput for\s+(\d{1,7}) ([a-z -]{1,20}?)\s+=\s*(\d[\d.]{0,25}) (kB|KB|ops)/sec"
)
_PARENT = re.compile(r"\s*Parent sees throughput for\s+\d{1,7} [a-z -]{1,20}?\s+=\s*(\d[\d.]{0,25}) ")
_EACH = re.compile(r"\s*Each (?:process|thread) writes a (\d{1,15}) [kK][bB]yte file in (\d{1,12}) [kK][bB]yte records")
_CHILD = re.compile(
    r"\s*Child\[(\d{1,7})\] xfer count =\s*(\d[\d.]{0,25}) (kB|KB|ops),\s*Throughput =\s*(\d[\d.]{0,25}) "
)
_CPU = re.compile(r"\s*CPU [uU]tilization: .{0,120}?CPU utilization\s+(\d[\d.]{0,12}) ?%")
_VERSION = re.compile(r"\s*Version:? (?:\$Revision: ([\d.]{1,12}) \$|naslab (\S{1,20}) iozone front end)")
SUMMED = "rates are IOzone's sums of each child's own rate; the parent's, over the whole time, are lower"


def parse(source: Input) -> Draft:
    """The run in IOzone's text. Raises ForeignFileError where nothing of it can be read."""
    lines = [line.expandtabs(8) if "\t" in line[1:] else line for line in source.lines]
    told, draft = _banner(lines)
    if any("Children see throughput" in line for line in lines):
        draft.cells = _throughput(lines, told, draft)
    else:
        rows, notes = _rows(lines, told)
        draft.warnings += notes
        draft.cells = rows or _tables(lines, told)
        _cpu_tables(lines, draft.cells)
    if draft.command_line and not any("test complete" in line for line in lines):
        draft.warnings.append(("cut_off", "the output ends before IOzone reports that its test is complete"))
    return checked(draft, source)


def _banner(lines: list[str]) -> tuple[Told, Draft]:
    """What stands before the numbers."""
    draft = Draft("iozone", "iozone-text", [], unknown=("time zone",))
    banner = []
    for line in lines[:400]:
        if _HEAD.match(line) or _CHILDREN.match(line):
            break
        banner.append(line)
        if found := _VERSION.match(line):
            draft.tool_version = found[1] or f"naslab {found[2]} front end"
        elif "Run began:" in line:
            draft.start_wall_ns = date_ns(line.partition("Run began:")[2])
        elif "Command line used:" in line:
            draft.command_line = short(line.partition("Command line used:")[2])
    text = "\n".join(banner)
    unit = "ops/s" if "OPS Mode" in text else "us" if "icroseconds/op Mode" in text else "kB/s"
    flags = flags_of(banner) if draft.command_line is not None else {}
    return Told(unit, flags), draft


def _rows(lines: list[str], told: Told) -> tuple[list[Cell], list[tuple[str, str]]]:
    """Cells of the fixed columns; splitting on blanks would lose skipped tests and join touching numbers."""
    cells: list[Cell] = []
    spans: list[tuple[str, int, int]] = []
    odd = 0
    for line in lines:
        if head := _HEAD.match(line):
            spans = _spans(head)
        elif spans and line[: spans[1][2]].strip() and len(cells) < MAX_CELLS:
            values = [(op, line[start:end].strip()) for op, start, end in spans]
            sizes = [whole(text) for _, text in values[:2]]
            if not all(text.isdigit() for _, text in values if text) or None in sizes:
                odd += any(text.isdigit() for text in line.split()[:1])
                spans = spans if values[0][1].isdigit() else []  # the table has ended
                continue
            found = [(op, number(text)) for op, text in values[2:]]
            for op, value in found:
                if value:  # 0: left out by -+n or the cut-off
                    cells.append(cell_of(len(cells), op, sizes[0] * KIB, sizes[1] * KIB, value, told))  # type: ignore[operator]
    notes = [("unread_lines", f"{odd} lines of the table do not fit its columns and were left out")] if odd else []
    return cells, notes


def _spans(head: re.Match[str]) -> list[tuple[str, int, int]]:
    """(name, from, to) of the columns under a header, wherever the text was indented to."""
    shift = len(head[1]) + 2 - 16  # `kB` ends in column 16
    widths = OLD_WIDTHS if len(head[2]) <= 8 else NEW_WIDTHS
    spans, at = [("", max(0, shift), 16 + shift), ("", 16 + shift, 24 + shift)], 24 + shift
    for op, width in zip(OPS, widths, strict=True):
        spans.append((op, at, at + width))
        at += width
    return spans


def _reports(lines: list[str]) -> Iterator[tuple[str, bool, int, list[tuple[int, float]]]]:
    """(operation, of CPU, file KiB, [(record KiB, value)]) of each row of -R's tables."""
    op, cpu, records = "", False, list[int]()
    for line in lines:
        if title := _REPORT.match(line):
            op, cpu, records = REPORTS.get(title[1].lower(), ""), bool(title[2]), []
        elif op and not records and (sizes := re.findall(r'"(\d{1,12})"', line[:2000])):
            records = [int(size) for size in sizes]
        elif op and records and (row := _ROW.match(line)):
            values = [number(text) for text in row[2].split()[: len(records)]]
            yield op, cpu, int(row[1]), [(r, v) for r, v in zip(records, values, strict=False) if v]


def _tables(lines: list[str], told: Told) -> list[Cell]:
    """Cells of -R's tables, where the text has no other."""
    cells: list[Cell] = []
    for op, cpu, file_kib, values in _reports(lines):
        for record_kib, value in values:
            if not cpu and len(cells) < MAX_CELLS:
                cells.append(cell_of(len(cells), op, file_kib * KIB, record_kib * KIB, value, told))
    return cells


def _cpu_tables(lines: list[str], cells: list[Cell]) -> None:
    """The client's processor time, from -+u's tables; zeros are to be ignored, as IOzone says."""
    by_place = {(cell["op"], cell["file_bytes"], cell["record_bytes"]): cell for cell in cells}
    for op, cpu, file_kib, values in _reports(lines):
        for record_kib, percent in values:
            cell = by_place.get((op, file_kib * KIB, record_kib * KIB))
            if cpu and cell is not None:
                cell["cpu_fraction"] = percent / 100


def _throughput(lines: list[str], told: Told, draft: Draft) -> list[Cell]:
    """A cell a block. The rate is the children's sum, IOzone's headline; of naslab's front end the parent's, which is
    what naslab calls throughput."""
    own = bool(draft.tool_version and draft.tool_version.startswith("naslab"))
    cells: list[Cell] = []
    sizes: tuple[int | None, int | None] = (None, None)
    for line in lines:
        if each := _EACH.match(line):
            sizes = int(each[1]) * KIB, int(each[2]) * KIB
        elif (block := _CHILDREN.match(line)) and len(cells) < MAX_CELLS:
            if (op := THROUGHPUT.get(block[2])) and (value := number(block[3])):
                known = Told("ops/s" if block[4] == "ops" else "kB/s", {**told.flags, "workers": int(block[1])})
                cells.append(cell_of(len(cells), op, *sizes, value, known))
        elif cells and own and (parent := _PARENT.match(line)):
            if value := number(parent[1]):
                cells[-1] = _again(cells[-1], value, line)
        elif cells and (child := _CHILD.match(line)):
            cells[-1]["workers_detail"].append(_worker(child, cells[-1]))
        elif cells and (cpu := _CPU.match(line)):
            percent = number(cpu[1])
            cells[-1]["cpu_fraction"] = percent / 100 if percent else None
    if cells and not own:
        draft.warnings.append(("rates_summed", SUMMED))
    return cells


def _again(cell: Cell, value: float, line: str) -> Cell:
    """The cell with another rate."""
    unit = "ops/s" if "ops/sec" in line else "kB/s"
    fields = ("durability", "sync", "direct", "workers", "workers_detail")
    told = Told(unit, {name: cell[name] for name in fields if cell[name] is not None})
    return cell_of(cell["id"], cell["op"], cell["file_bytes"], cell["record_bytes"], value, told)


def _worker(child: re.Match[str], cell: Cell) -> dict[str, object]:
    """One child's line. Times follow from its own count and rate, as IOzone made the rate of them."""
    amount, rate = number(child[2]) or 0.0, number(child[4]) or 0.0
    in_ops, record = child[3] == "ops", cell["record_bytes"]
    moved = amount * (record or 0) if in_ops else amount * KIB
    ops = amount if in_ops else moved / record if record else 0
    duration = round(amount / rate * 1e9) if rate else 0
    return {
        "worker": int(child[1]), "bytes": round(moved), "ops": round(ops), "start_ns": 0, "end_ns": duration,
        "duration_ns": duration,
    }  # fmt: skip
