"""IOzone's standard output in single mode: banner, fixed columns, report tables."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TextIO

from naslab import __version__
from naslab.commands.iozone.args import Args, parse_kib
from naslab.commands.iozone.options import Option
from naslab.commands.iozone.plan import BY_OP, Plan
from naslab.commands.iozone.tables import Results, Table, is_complete, value
from naslab.text.messages import without_secrets

WIDTHS: dict[str, int] = {
    "write": 9, "rewrite": 9, "read": 9, "reread": 9, "random_read": 9, "random_write": 9,
    "backward_read": 9, "record_rewrite": 10, "stride_read": 10, "fwrite": 9, "frewrite": 9, "fread": 9,
    "freread": 9, "pwrite": 9, "repwrite": 9, "pread": 8, "repread": 9,
}  # fmt: skip
"""Width of each column; they follow `kB` (16) and `reclen` (8)."""

_BASIC = ("write", "rewrite", "read", "reread")
_EXTENSIONS = ("pwrite", "repwrite", "pread", "repread")

_STDIO_NAMES = "   fwrite frewrite    fread  freread"
_SKIPPED_BLANKS = {"freread": -1, "repread": 1}
"""IOzone prints one blank less for a skipped test 7, one more for a skipped test 10. Followed at the end of
a row only: within a row it would push the columns of tests 9 and 10 out of their places."""

_HEAD_UPPER = (" " * 60, "  random    random     bkwd    record    stride" + " " * 36, " " * 35)
_HEAD_LOWER = (
    "              kB  reclen    write  rewrite    read    reread",
    "    read     write     read   rewrite      read" + _STDIO_NAMES,
    "  pwrite repwrite   pread   repread",
)


def banner(args: Args, plan: Plan, now: datetime) -> str:
    """The lines before the table. They keep the words that parsers look for and say whose output it is."""
    lines = [
        "\tIozone: Performance Test of File I/O",
        f"\t        Version: naslab {__version__} iozone front end (options and output of IOzone 3.489)",
        "\t\tThis is naslab, not IOzone: measured by naslab's own engine.",
        "",
        f"\tRun began: {now:%a %b} {now.day:2d} {now:%H:%M:%S %Y}",
        "",
        *echo_lines(args),
        f"\tCommand line used: {command_line(args)}",
    ]
    if not (args.iops or args.usec):
        lines.append("\tOutput is in kBytes/sec")
    lines += [
        "\tTime Resolution = 0.000001 seconds.",
        f"\tProcessor cache size set to {args.cache_kib} kBytes.",
        f"\tProcessor cache line size set to {args.line_bytes} bytes.",
        f"\tFile stride size set to {args.stride} * record size.",
    ]
    if args.lower is not None or args.upper is not None:
        word = "thread" if args.threads else "process"
        lines += [f"\tMin {word} = {plan.counts[0]} ", f"\tMax {word} = {plan.counts[-1]} "]
    return "\n".join(lines) + "\n"


def command_line(args: Args) -> str:
    """The command as given, passwords of addresses left out."""
    return " ".join(["iozone", *(without_secrets(word) for word in args.argv)])


def echo_lines(args: Args) -> list[str]:
    """One line an option, in the order given."""
    return [f"\t{_echo(args, option, operand)}" for option, operand in args.echoes if option.echo]


def _echo(args: Args, option: Option, operand: str) -> str:

    number = parse_kib(option, operand) if option.kind == "kib" else operand
    if option.dest in ("min_file", "max_file"):
        number = getattr(args, option.dest)
    uname = platform.uname()
    return option.echo.format(
        v=number,
        hex=f"{(args.pattern or 0) * 0x01010101:x}",
        seconds=args.think_ms / 1000,
        uname=f"{uname.system} {uname.node} {uname.release} {uname.version} {uname.machine}",
    )


def header(columns: Iterable[str], no_stdio: bool = False) -> str:
    """The two header lines for the columns of `table_columns`; without stdio its names are blank."""
    shown = set(columns)
    parts = 1 + ("freread" in shown) + ("repread" in shown)
    lower = "".join(_HEAD_LOWER[:parts])
    if no_stdio:
        lower = lower.replace(_STDIO_NAMES, " " * len(_STDIO_NAMES))
    return "".join(_HEAD_UPPER[:parts]) + "\n" + lower + "\n"


def table_columns(args: Args) -> list[str]:
    """Columns of the table: -A prints the first four, -E adds pwrite to repread."""
    if args.auto2 and set(args.tests) <= {0, 1}:
        return list(_BASIC)
    return [op for op in WIDTHS if args.extensions or op not in _EXTENSIONS]


class TableWriter:
    """Writes rows field by field as cells end, as IOzone does; a skipped field is blank."""

    def __init__(self, plan: Plan, out: TextIO) -> None:
        self._plan = plan
        self._out = out
        self._columns = table_columns(plan.args)
        self._row: int | None = None
        self._next = 0

    def header(self) -> None:
        """The two header lines."""
        self._write(header(self._columns, self._plan.args.mmap or self._plan.args.depth > 1))

    def start(self, cell_id: int) -> None:
        """A cell is about to begin: sizes of its row are shown when it is the row's first."""
        index, _ = self._plan.where[cell_id]
        if index == self._row:
            return
        self.end_row()
        row = self._plan.rows[index]
        self._row, self._next = index, 0
        self._write(f"{row.file_kib:16d}{row.record_kib:8d}")

    def cell(self, cell: Mapping[str, Any]) -> None:
        """Shows the cell's figure in its column; nothing when the cell did not complete."""
        self.start(cell["id"])
        _, op = self._plan.where[cell["id"]]
        if is_complete(cell):
            self._fill_to(op)
            self._write(f"{value(cell, self._plan.args):{WIDTHS[op]}d}")
            self._next = self._columns.index(op) + 1

    def end_row(self) -> None:
        """Completes the row's blanks and ends the line."""
        if self._row is not None:
            skipped = [op for op in self._columns if op not in self._plan.ops]
            self._fill_to(
                None, sum(_SKIPPED_BLANKS.get(op, 0) for op in skipped) if self._columns[-1] in skipped else 0
            )
            self._write("\n")
            self._row = None

    def break_row(self) -> None:
        """Ends the line where it is: the run was interrupted or failed."""
        if self._row is not None:
            self._write("\n")
            self._row = None

    def _fill_to(self, op: str | None, spare: int = 0) -> None:
        """Blanks for skipped columns before `op`; passes left out by -+n show 0. spare: more blanks at the end."""
        stop = len(self._columns) if op is None else self._columns.index(op)
        for name in self._columns[self._next : stop]:
            width = WIDTHS[name] + (spare if name == self._columns[-1] else 0)
            self._write(f"{0:{width}d}" if self._left_out(name) else " " * width)
        self._next = stop

    def _left_out(self, op: str) -> bool:

        return op in self._plan.ops and BY_OP[op].retest and self._plan.args.no_retest

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


def report(results: Results) -> str:
    """The -R tables, with their introduction."""
    return "Excel output is below:\n" + "".join(_table(table) for table in results.tables())


def _table(table: Table) -> str:
    lines = ["", f'"{table.text_name}"', " " * 6 + "".join(f'  "{size}"' for size in table.records)]
    for file_kib, values in table.rows:
        cells = "".join(f" {figure:6.2f}" if table.cpu else f" {int(figure)} " for figure in values)
        lines.append(f'"{file_kib}"  {cells}')
    return "\n".join(lines) + "\n"
