"""What a cell is called where people read: its operations, and what the plan did them for.

A plan's own names of its parts (`first run`, `ladder`) and the numbers of cells say nothing to a reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from naslab.units import size_label

Cell = Mapping[str, Any]

STAGES = {
    "sustained": "sustained", "probe": "quick test", "ladder": "experiment", "curve": "load curve",
    "fill": "filling the file", "prepare": "preparation", "clean": "removal", "diskspd -c": "creating the file",
    "evict": "emptying the server cache", "drain": "using up the burst", "idle": "rest", "sample": "sample",
    "first run": "from the start", "retest": "after a rest", "limited retest": "after a rest, limited",
    "reads after": "after the burst", "reads again": "once more", "reads rested": "after a rest",
    "zone": "by position", "burst": "one zone again", "random access": "random access",
    "first": "first time", "warm": "from the cache", "cold": "cold", "working set": "working set",
    "both_ways": "both ways", "replay": "replay", "tree": "tree",
}  # fmt: skip
"""What each part of a plan is for, by the workload its cells carry. Names that people chose (applications, jobs) are
not among them."""
_TREES = ("tree",)
"""Workloads whose operation is name enough."""


_SMALL = frozenset(("naslab", "fio"))
"""Names that begin a sentence as they are."""


def capital(text: str) -> str:
    """A sentence with a capital letter, where it begins with a word."""
    first = text.partition(" ")[0].rstrip(",:;")
    return text if not first.replace("-", "").isalpha() or first in _SMALL else text[0].upper() + text[1:]


def op_words(op: str) -> str:
    """`random read`, `backward read`."""
    return op.replace("_", " ")


def stage_words(workload: str | None) -> str:
    """What a cell was for, or the application's name; nothing for a plain test."""
    return "" if workload is None else STAGES.get(workload, workload)


def test_name(cell: Cell) -> str:
    """`Random read (quick test)`: the operation, or an application's name; sizes and depth stand beside it."""
    workload = cell.get("workload")
    if workload is not None and workload not in STAGES:
        return str(workload)
    name = op_words(str(cell["op"]))
    name = name[:1].upper() + name[1:]
    return name if workload is None or workload in _TREES else f"{name} ({STAGES[workload]})"


def load_name(cell: Cell) -> str:
    """A cell with its load, where no table says it: `1 MiB reads, queue depth 4`; an application by its name."""
    workload = cell.get("workload")
    if workload is not None and workload not in STAGES:
        return str(workload)
    record, depth, workers = (cell.get(name) for name in ("record_bytes", "queue_depth", "workers"))
    name = _plural(op_words(str(cell["op"])))
    parts = [f"{size_label(record)} {name}" if record else name]
    parts += [f"queue depth {depth}"] if depth and depth > 1 else []
    parts += [f"{workers} workers"] if workers and workers > 1 else []
    parts += ["durable"] if cell.get("durability") == "each" else []
    return ", ".join(parts)


def long_name(cell: Cell) -> str:
    """A cell among all of its run: `64 KiB reads, queue depth 4, 1 GiB file, repeat 2`."""
    workload, size, block = (cell.get(name) for name in ("workload", "file_bytes", "block"))
    stage = f" ({STAGES[workload]})" if workload in STAGES and workload not in _TREES else ""
    size_text = [f"{size_label(size)} file"] if size and not stage else []
    return ", ".join([load_name(cell) + stage, *size_text, *([f"repeat {block + 1}"] if block else [])])


NO_RESULTS = ("fill", "idle", "drain", "evict", "diskspd -c", "prepare", "clean", "sample", "ladder", "probe")
"""Workloads that prepare, or ask what a verdict rests on: nobody compares devices by them."""


def category_label(test: str) -> str:
    """What a test is called among others, an operation's or a workload's: `Random read`, `Working set`."""
    name = op_words(STAGES.get(test, test))
    return name if name != name.lower() else name[:1].upper() + name[1:]


def _plural(op: str) -> str:
    return "reads and writes" if op == "mixed" else f"{op}s"
