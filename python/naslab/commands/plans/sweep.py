"""File size x record size x test: IOzone's method, its tests 0 to 10, as cells.

Access semantics follow REFERENCE.md 1.2 (observed from IOzone 3.489); data, durability and order are
naslab's own defaults.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from naslab.errors import UsageError
from naslab.spec import DATA_OPS, CellSpec, DataSpec, Durability

FILE_NAME = "naslab.sweep"
DEFAULT_OPS = ("write", "rewrite", "read", "reread", "random_read", "random_write")
GROUPS: dict[str, tuple[str, ...]] = {
    "default": DEFAULT_OPS,
    "all": tuple(op for op in DATA_OPS if op != "mixed"),
    "stdio": ("fwrite", "frewrite", "fread", "freread"),
    "positioned": ("pwrite", "repwrite", "pread", "repread"),
}
"""Names that stand for several tests."""

_READS = {"read", "reread", "random_read", "backward_read", "stride_read", "fread", "freread", "pread", "repread"}
_PATTERNS: dict[str, str] = {
    "random_read": "permutation", "random_write": "permutation", "backward_read": "backward",
    "record_rewrite": "same_record", "stride_read": "stride",
}  # fmt: skip
_CREATES = {"write": "if_missing", "fwrite": "if_missing", "pwrite": "if_missing"}


@dataclass
class SweepOptions:
    """What to sweep. Sizes in bytes. repeat: blocks; with more than one, rows run in random order."""

    file_sizes: list[int]
    records: list[int]
    ops: list[str]
    repeat: int = 1
    workers: int = 1
    queue_depth: int = 1
    durability: Durability = "end"
    direct: bool = False
    cold: bool = False
    verify: bool = False
    seed: int = 0
    data: DataSpec = field(default_factory=DataSpec)


def parse_ops(text: str) -> list[str]:
    """Test names from `write,read` or a group (`default`, `all`, `stdio`, `positioned`), in IOzone's order.

    Raises UsageError for an unknown name.
    """
    wanted: set[str] = set()
    for part in text.split(","):
        name = part.strip().lower().replace("-", "_")
        if name in GROUPS:
            wanted.update(GROUPS[name])
        elif name in DATA_OPS and name != "mixed":
            wanted.add(name)
        else:
            known = ", ".join([*GROUPS, *(op for op in DATA_OPS if op != "mixed")])
            raise UsageError(f"--tests: unknown test {part!r}; choose from {known}")
    return [op for op in DATA_OPS if op in wanted]


def with_prerequisites(ops: Sequence[str]) -> tuple[list[str], str | None]:
    """The tests, with `write` in front when a test needs the file; and what was added, in words."""
    if "write" in ops or ops[0] in ("fwrite", "pwrite"):
        return list(ops), None
    return ["write", *ops], "the other tests need a written file: the test write was added"


def check_caps(options: SweepOptions, caps: Mapping[str, Any]) -> None:
    """Raises UsageError when the plan needs what the target lacks."""
    stdio = [op for op in options.ops if op in GROUPS["stdio"]]
    if stdio and not caps["stdio"]:
        why = "io_uring has none: leave --depth at 1" if options.queue_depth > 1 else "choose other --tests"
        raise UsageError(f"--tests {','.join(stdio)}: this target has no stdio streams; {why}")
    if stdio and options.direct:
        raise UsageError(f"--tests {','.join(stdio)}: stdio streams are buffered; leave out --direct or these tests")
    if options.cold and not caps["evict"]:
        raise UsageError("--cold: cached pages of this target cannot be dropped; leave it out, or use --direct")


def plan_cells(options: SweepOptions, caps: Mapping[str, Any]) -> list[CellSpec]:
    """All cells, ids in running order. Records larger than the file are left out, as IOzone does.

    Raises UsageError when no pair of sizes fits.
    """
    rows = [(f, r) for f in options.file_sizes for r in options.records if r <= f]
    if not rows:
        raise UsageError(
            f"--record: every record size is larger than every file size ({min(options.records)} > "
            f"{max(options.file_sizes)} bytes); choose smaller records or larger files"
        )
    cells: list[CellSpec] = []
    for block in range(options.repeat):
        order = list(rows)
        if options.repeat > 1:
            random.Random(options.seed * 1000 + block).shuffle(order)
        for file_bytes, record_bytes in order:
            for op in options.ops:
                cells.append(make_cell(options, caps, op, file_bytes, record_bytes, block, len(cells)))
    return cells


def make_cell(
    options: SweepOptions,
    caps: Mapping[str, Any],
    op: str,
    file_bytes: int,
    record_bytes: int,
    block: int,
    cell_id: int,
) -> CellSpec:
    """One cell of the sweep."""
    reads = op in _READS
    cold = reads and options.cold
    return CellSpec(
        op=op,
        id=cell_id,
        block=block,
        file_bytes=file_bytes,
        record_bytes=record_bytes,
        files=worker_files(FILE_NAME, options.workers),
        workers=options.workers,
        queue_depth=options.queue_depth,
        pattern=_PATTERNS.get(op, "sequential"),  # type: ignore[arg-type]
        write_fraction=0.0 if reads else 1.0,
        seed=options.seed,
        create=_CREATES.get(op, "never"),  # type: ignore[arg-type]
        remove_before=op == "write" or (op in _CREATES and op == options.ops[0]),
        direct=options.direct,
        sync="all" if options.durability == "each" and not reads else "none",
        access=_access(op, caps),
        cold=cold,
        prime=reads and not cold and op in ("read", "reread"),
        flush="none" if options.durability == "none" else "all",
        data=options.data,
        verify=options.verify,
        durability=options.durability,
        cache_state="cold" if cold or options.direct else "warm",
    )


def worker_files(name: str, workers: int) -> list[str]:
    """A file for each worker."""
    return [name] if workers == 1 else [f"{name}.{worker}" for worker in range(workers)]


def _access(op: str, caps: Mapping[str, Any]) -> Literal["positioned", "cursor", "stdio", "mmap"]:
    if op in GROUPS["stdio"]:
        return "stdio"
    return "cursor" if caps["cursor"] and op not in GROUPS["positioned"] else "positioned"


def rows_of(cells: Sequence[CellSpec]) -> list[list[CellSpec]]:
    """Cells grouped into rows: one file's whole test sequence, the unit that is repeated or resumed."""
    rows: dict[tuple[int, int, int], list[CellSpec]] = {}
    for cell in cells:
        rows.setdefault((cell.block, cell.file_bytes, cell.record_bytes), []).append(cell)
    return list(rows.values())


def remaining(cells: Sequence[CellSpec], complete_ids: set[int]) -> list[CellSpec]:
    """Cells still to run when some are done: whole rows, since a row's reads need its writes."""
    return [c for row in rows_of(cells) if any(c.id not in complete_ids for c in row) for c in row]
