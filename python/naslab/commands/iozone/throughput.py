"""IOzone's standard output in throughput mode (-t): a block per pass, and the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TextIO

from naslab.commands.iozone.args import Args
from naslab.commands.iozone.plan import KIB, Plan
from naslab.commands.iozone.tables import Results, children_value, cpu_percent, is_complete, rate, worker_rate


@dataclass(frozen=True)
class Words:
    """How a pass is named. plural: in the block; wide: its count is padded to two. tabs: before the equal
    sign of the children's and the parent's line. report: in the report. log: in latency histograms.
    """

    plural: str
    report: str
    log: str
    wide: bool = False
    tabs: tuple[int, int] = (1, 1)


WORDS: dict[str, Words] = {
    "write": Words("initial writers", "Initial write", "write", wide=True),
    "rewrite": Words("rewriters", "Rewrite", "Rewrite", wide=True),
    "read": Words("readers", "Read", "Read", wide=True, tabs=(2, 2)),
    "reread": Words("re-readers", "Re-read", "Reread"),
    "backward_read": Words("reverse readers", "Reverse Read", "Read Backwards"),
    "stride_read": Words("stride readers", "Stride read", "Stride Read"),
    "random_read": Words("random readers", "Random read", "Random Read"),
    "mixed": Words("mixed workload", "Mixed workload", "Mixed"),
    "random_write": Words("random writers", "Random write", "Random Write"),
    "pwrite": Words("pwrite writers", "Pwrite", "Pwrite"),
    "pread": Words("pread readers", "Pread", "Pread"),
    "fwrite": Words("fwriters", "Fwrite", "Fwrite", wide=True, tabs=(1, 2)),
    "fread": Words("freaders", "Fread", "Fread", wide=True, tabs=(1, 2)),
}


class BlockWriter:
    """Writes throughput mode's blocks as cells end."""

    def __init__(self, plan: Plan, out: TextIO) -> None:
        self._plan = plan
        self._out = out
        self._count: int | None = None
        self._cpu_word = "Utilization"

    def header(self) -> None:
        """The line before the first block."""
        count = self._plan.counts[0]
        self._write(f"\tThroughput test with {count} {_children(self._plan.args, count)}\n")

    def start(self, cell_id: int) -> None:
        """A cell is about to begin: its file and record size are shown when it is the count's first."""
        count, _ = self._plan.where[cell_id]
        if count == self._count:
            return
        self.end_row()
        self._count = count
        plan = self._plan
        size = plan.file_kib // count if plan.args.constant_total else plan.file_kib
        one = "thread" if plan.args.threads else "process"
        self._write(f"\tEach {one} writes a {size} kByte file in {plan.record_kib} kByte records\n")

    def cell(self, cell: Mapping[str, Any]) -> None:
        """The block of a completed cell."""
        self.start(cell["id"])
        if not is_complete(cell):
            return
        self._write("\n" + block(cell, self._plan.args))
        if self._plan.args.cpu:
            self._write(_cpu_line(cell, self._cpu_word))
            self._cpu_word = "utilization"
        if self._plan.args.children:
            self._write("".join(_child_lines(cell, self._plan.args)))

    def end_row(self) -> None:
        """Ends the blocks of one number of children."""
        if self._count is not None:
            self._write("\n\n")
            self._count = None

    def break_row(self) -> None:
        """The same when the run was interrupted."""
        self.end_row()

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


def _children(args: Args, count: int) -> str:
    one, many = ("thread", "threads") if args.threads else ("process", "processes")
    return one if count == 1 else many


def block(cell: Mapping[str, Any], args: Args) -> str:
    """The lines of one pass. Children: sum of their rates; parent: all bytes over the whole window."""
    words, workers = WORDS[cell["op"]], cell["workers_detail"]
    children = len(workers) or cell["workers"]  # workers of a client, where there are several
    count = f"{children:2d}" if words.wide else f"{children:d}"
    rates = [worker_rate(worker, args) for worker in workers] or [0.0]
    moved = [worker["ops"] if args.iops else worker["bytes"] / KIB for worker in workers] or [0]
    unit, amount = ("ops/sec", "ops") if args.iops else ("kB/sec", "kB")
    one = "thread" if args.threads else "process"
    total = rate(cell["bytes"], cell["ops"], cell["duration_ns"], args)
    lines = [
        f"\tChildren see throughput for {count} {words.plural} {_tabs(words.tabs[0])}"
        f"= {children_value(cell, args):10.2f} {unit}",
        f"\tParent sees throughput for {count} {words.plural} {_tabs(words.tabs[1])}= {total:10.2f} {unit}",
        f"\tMin throughput per {one} \t\t\t= {min(rates):10.2f} {unit} ",
        f"\tMax throughput per {one} \t\t\t= {max(rates):10.2f} {unit}",
        f"\tAvg throughput per {one} \t\t\t= {sum(rates) / children:10.2f} {unit}",
        f"\tMin xfer \t\t\t\t\t= {min(moved):10.2f} {amount}",
    ]
    return "\n".join(lines) + "\n"


def _tabs(count: int) -> str:
    return "\t" * count


def _cpu_line(cell: Mapping[str, Any], word: str) -> str:
    wall_s, cpu_s = cell["window_ns"] / 1e9, (cell["cpu_user_ns"] + cell["cpu_system_ns"]) / 1e9
    times = f"Wall time {wall_s:8.3f}    CPU time {cpu_s:8.3f}"
    return f"\tCPU {word}: {times}    CPU utilization {cpu_percent(cell):6.2f} %\n\n"


def _child_lines(cell: Mapping[str, Any], args: Args) -> Iterator[str]:
    unit, amount = ("ops/sec", "ops") if args.iops else ("kB/sec", "kB")
    for worker in cell["workers_detail"]:
        moved = worker["ops"] if args.iops else worker["bytes"] / KIB
        yield (
            f"\tChild[{worker['worker']}] xfer count = {moved:10.2f} {amount}, "
            f"Throughput = {worker_rate(worker, args):10.2f} {unit}\n"
        )


def report_rows(results: Results, cpu: bool) -> Iterator[tuple[str, list[float]]]:
    """(name, one value a number of children) of each pass; 0 where it was left out or not reached."""
    values = results.cpu if cpu else results.values
    begun = [count for count in results.plan.counts if any(key[0] == count for key in results.values)]
    for op in results.plan.ops:
        yield WORDS[op].report, [values.get((count, op), 0.0) for count in begun]


def report_heads(results: Results, cpu: bool) -> list[str]:
    """The three lines over a report."""
    args = results.plan.args
    title = "CPU utilization" if cpu else "Throughput"
    unit = "CPU%" if cpu else "ops/sec" if args.iops else "kBytes/sec"
    return [
        f"{title} report Y-axis is type of test X-axis is number of {'threads' if args.threads else 'processes'}",
        f"Record size = {results.plan.record_kib} kBytes",
        f"Output is in {unit}",
    ]


def report(results: Results) -> str:
    """The -R report: one line a pass, one value a number of children; with -+u the CPU report follows."""
    text = ""
    for cpu in (False, True) if results.plan.args.cpu else (False,):
        title, record, unit = report_heads(results, cpu)
        text += f'\n"{title}"\n"{record} "\n"{unit}"\n\n'
        for name, values in report_rows(results, cpu):
            text += f'"{name:>15} "' + "".join(f" {figure:10.2f} " for figure in values) + "\n\n"
    return text
