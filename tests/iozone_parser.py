"""A parser of IOzone's standard output, written from its format alone; it imports nothing of naslab.

Fixed columns (splitting on blanks fails: fields touch, skipped tests vanish), the -R tables, and
throughput mode's lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

COLUMNS: tuple[tuple[str, int, int], ...] = (
    ("kB", 0, 16), ("reclen", 16, 24), ("write", 24, 33), ("rewrite", 33, 42), ("read", 42, 51),
    ("reread", 51, 60), ("random_read", 60, 69), ("random_write", 69, 78), ("backward_read", 78, 87),
    ("record_rewrite", 87, 97), ("stride_read", 97, 107), ("fwrite", 107, 116), ("frewrite", 116, 125),
    ("fread", 125, 134), ("freread", 134, 143), ("pwrite", 143, 152), ("repwrite", 152, 161),
    ("pread", 161, 169), ("repread", 169, 178),
)  # fmt: skip

Row = dict[str, int | None]


@dataclass
class Output:
    """rows: the table. reports: heading -> {file KiB: [values]}; headers: heading -> record sizes."""

    command: str | None = None
    complete: bool = False
    rows: list[Row] = field(default_factory=list)
    headers: dict[str, list[int]] = field(default_factory=dict)
    reports: dict[str, dict[int, list[float]]] = field(default_factory=dict)


def parse(text: str) -> Output:
    """The table and the -R tables of single mode."""
    lines = text.splitlines()
    found = Output(complete="iozone test complete." in lines)
    for line in lines:
        if line.startswith("\tCommand line used: "):
            found.command = line.partition(": ")[2]
    head = next((n for n, line in enumerate(lines) if re.match(r" +k[bB] +reclen ", line)), None)
    if head is not None:
        for line in lines[head + 1 :]:
            if not line.strip() or not line[:16].strip().isdigit():
                break
            found.rows.append(_row(line))
    _reports(lines, found)
    return found


def _row(line: str) -> Row:
    row: Row = {}
    for name, start, end in COLUMNS:
        piece = line[start:end].strip()
        row[name] = int(piece) if piece else None
    return row


def _reports(lines: list[str], found: Output) -> None:
    title: str | None = None
    for line in lines:
        heading = re.fullmatch(r'"([^"]* report[^"]*)"', line)
        if heading:
            title = heading.group(1)
            found.reports[title] = {}
        elif title and line.startswith('        "'):
            found.headers[title] = [int(size) for size in re.findall(r'"(\d+)"', line)]
        elif title and (row := re.fullmatch(r'"(\d+)"  (( +[\d.]+ ?)*)', line)):
            found.reports[title][int(row.group(1))] = [float(value) for value in row.group(2).split()]


@dataclass
class Block:
    """One pass of throughput mode. values: Children, Parent, Min, Max, Avg, Min xfer."""

    name: str
    count: int
    values: dict[str, float]
    children: list[tuple[float, float]] = field(default_factory=list)
    cpu_percent: float | None = None


def parse_throughput(text: str) -> list[Block]:
    """The blocks of throughput mode, in order."""
    blocks: list[Block] = []
    for line in text.splitlines():
        head = re.fullmatch(r"\tChildren see throughput for ([ \d]*\d) (.+?) \t+= *([\d.]+) (kB|ops)/sec", line)
        if head:
            blocks.append(Block(head.group(2), int(head.group(1)), {"Children": float(head.group(3))}))
        elif blocks and (part := re.match(r"\t(Parent|Min|Max|Avg)( xfer)?.*\t= *([\d.]+) ", line)):
            blocks[-1].values[part.group(1) + (part.group(2) or "")] = float(part.group(3))
        elif blocks and (cpu := re.match(r"\tCPU [uU]tilization: .* CPU utilization +([\d.]+) %", line)):
            blocks[-1].cpu_percent = float(cpu.group(1))
        elif blocks and (child := re.match(r"\tChild\[\d+\] xfer count = +([\d.]+) .*Throughput = +([\d.]+) ", line)):
            blocks[-1].children.append((float(child.group(1)), float(child.group(2))))
    return blocks


def parse_throughput_report(text: str) -> dict[str, list[float]]:
    """The -R report of throughput mode: pass -> one value a number of children."""
    part = text.partition('"Throughput report')[2].partition('"CPU utilization report')[0]
    return {
        match.group(1).strip(): [float(value) for value in match.group(2).split()]
        for match in re.finditer(r'^"( *[A-Z][\w -]+) "((?: +[\d.]+ )+)$', part, re.MULTILINE)
    }
