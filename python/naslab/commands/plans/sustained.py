"""One load held for a while: how it goes through its files, how long, how fast; and the cells that carry it out.

Order of cells: the files are written whole where they are read or written at random, then the load, once for
each repeat. `naslab cache` and `naslab burst` have plans of their own. All cells of a plan must be measured in one
stage: a stage begins with an empty folder.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from naslab.commands.plans.sweep import worker_files
from naslab.errors import UsageError
from naslab.spec import CellSpec, DataSpec, Durability, PaceSpec, WalkSpec, operation_name
from naslab.units import parse_size, size_text

NS_PER_S = 1_000_000_000
INTERVAL_NS = NS_PER_S // 10
FILE_NAME = "naslab.sustained"
FILL_RECORD_BYTES = 1 << 20
_RATE = re.compile(r"(.+?)\s*(iops|/s)\Z", re.IGNORECASE)


@dataclass
class LoadOptions:
    """What to do. Sizes in bytes, times in nanoseconds. write_pct: share of operations that write, 0 to 100.

    align_bytes: of random positions, None: the block. spread: `uniform`, or `zipf` with theta, or `hot` with
    (percent of the operations, percent of the file). stride_bytes: None: block after block. stop_bytes or
    duration_ns ends the load. rate_per_s: operations over all workers. cache: the mode as asked for, "": none was;
    direct, mmap and durability are what it comes to.
    """

    size_bytes: int
    block_bytes: int
    write_pct: float = 0
    random: bool = False
    align_bytes: int | None = None
    spread: Literal["uniform", "zipf", "hot"] = "uniform"
    theta: float = 0.99
    hot: tuple[float, float] = (90.0, 10.0)
    stride_bytes: int | None = None
    interlocked: bool = False
    depth: int = 1
    workers: int = 1
    duration_ns: int | None = 60 * NS_PER_S
    stop_bytes: int | None = None
    warmup_ns: int = 0
    cooldown_ns: int = 0
    rate_per_s: float | None = None
    burst_ops: int = 0
    burst_gap_ns: int = 0
    durability: Durability = "end"
    cache: str = ""
    direct: bool = False
    mmap: bool = False
    verify: bool = False
    seed: int = 0
    repeat: int = 1
    data: DataSpec = field(default_factory=DataSpec)

    @property
    def op(self) -> str:
        """Name of the operation."""
        return operation_name(self.write_pct, self.random)

    @property
    def writes(self) -> bool:
        """Whether anything is written."""
        return self.write_pct > 0

    @property
    def fills(self) -> bool:
        """Whether the files must be there first: to be read, or to be written at random without holes."""
        return self.write_pct < 100 or self.random

    @property
    def files(self) -> list[str]:
        """A file for each worker; one for all when they take turns in it."""
        return [FILE_NAME] if self.interlocked else worker_files(FILE_NAME, self.workers)


def parse_rate(text: str, block_bytes: int) -> float:
    """Operations per second from `5000iops` or `100MB/s`. Raises UsageError."""
    match = _RATE.match(text.strip())
    if match and match.group(2).lower() == "iops":
        try:
            found = float(match.group(1))
        except ValueError:
            found = 0.0
    elif match:
        found = parse_size(match.group(1), "--rate") / block_bytes
    else:
        found = 0.0
    if not 0 < found < 1e9:
        raise UsageError(f"--rate {text!r}: write bytes as 100MB/s, or operations as 5000iops")
    return found


def parse_distribution(text: str, options: LoadOptions) -> None:
    """`uniform`, `zipf:0.99` or `hot:90/10` into the options. Raises UsageError."""
    kind, _, rest = text.strip().lower().partition(":")
    try:
        if kind == "uniform" and not rest:
            return
        if kind == "zipf":
            options.spread, options.theta = "zipf", float(rest or 0.99)
            if 0 < options.theta <= 10 and options.theta != 1:
                return
        if kind == "hot":
            ops, _, share = (rest or "90/10").partition("/")
            options.spread, options.hot = "hot", (float(ops), float(share))
            if all(0 < part < 100 for part in options.hot):
                return
    except ValueError:
        pass
    raise UsageError(
        f"--distribution {text!r}: write uniform, zipf:0.99 (above 0, not 1) or hot:90/10 (90 % of the operations "
        "in 10 % of the file)"
    )


def check(options: LoadOptions, caps: Mapping[str, Any]) -> None:
    """Raises UsageError for options that contradict one another or that the target cannot follow."""
    unit = int(caps.get("alignment_offset_bytes") or 1) if options.direct else 1
    walks = options.align_bytes or options.stride_bytes or options.interlocked or options.spread != "uniform"
    for wrong, message in (
        *_cache_checks(options, caps),
        (options.size_bytes % options.block_bytes,
         f"--size {options.size_bytes}: give a multiple of --block {size_text(options.block_bytes)}"),
        (options.size_bytes < options.block_bytes, "--block: larger than --size; choose a smaller block"),
        (not options.random and options.align_bytes, "--align: for random offsets only; add --random"),
        (not options.random and options.spread != "uniform", "--distribution: for random offsets only; add --random"),
        (options.random and options.stride_bytes, "--stride: for sequential access only; leave out --random"),
        (options.random and options.interlocked, "--interlocked: for sequential access only; leave out --random"),
        (options.interlocked and options.workers < 2, "--interlocked: a single worker cannot take turns; "
         "give --workers 2 or more"),
        (bool(options.burst_ops) != bool(options.burst_gap_ns), "--burst-ops and --burst-gap: give both or none"),
        (options.burst_ops and options.rate_per_s, "--rate with --burst-ops: two ways to pace; leave one out"),
        (options.cooldown_ns and not options.duration_ns, "--cooldown: only after a load of a fixed --duration"),
        (options.verify and walks, "--verify: overlapping blocks cannot be checked; leave out --align, "
         "--distribution, --stride and --interlocked, or --verify"),
        (options.verify and options.op == "mixed" and options.depth > 1,
         "--verify: reads and writes of one file overlap at this --depth; use --depth 1"),
        (options.verify and options.data.dedupe_ratio > 1, "--verify makes every block unique; leave out --dedupe"),
        (options.block_bytes % unit,
         f"--block {options.block_bytes}: unbuffered I/O here moves multiples of {unit} bytes; choose one"),
        (options.direct and any(n % unit for n in (options.align_bytes or 0, options.stride_bytes or 0)),
         f"--align and --stride: unbuffered I/O here begins at multiples of {unit} bytes"),
    ):  # fmt: skip
        if wrong:
            raise UsageError(message)


def _cache_checks(options: LoadOptions, caps: Mapping[str, Any]) -> list[tuple[object, str]]:
    """What --cache, --direct and --durability ask for, and the load or the target cannot do."""
    asked = f"--cache {options.cache}"
    each = asked if options.cache.endswith("write-through") else "--durability each"
    return [
        (options.durability == "each" and not options.writes,
         f"{each}: nothing is written; give --write PCT or leave it out"),
        (options.mmap and options.depth > 1,
         f"{asked} with --depth {options.depth}: a mapped operation is synchronous; use --depth 1, and --workers for "
         "more at once"),
        (options.mmap and not caps.get("mmap", True),
         f"{asked}: io_uring has no memory maps; leave engine=uring out of the target"),
        (options.cache and options.direct and not caps.get("direct", True),
         f"{asked}: this target refuses unbuffered I/O; leave it out, or test a folder on ext4, xfs, btrfs or a "
         "network mount"),
    ]  # fmt: skip


def load_cell(options: LoadOptions, workload: str = "sustained", **more: Any) -> CellSpec:
    """The load itself, as one cell. more: fields of the cell that differ."""
    creates = not options.fills
    made: dict[str, Any] = {
        "file_bytes": options.size_bytes, "record_bytes": options.block_bytes, "files": options.files,
        "workers": options.workers, "queue_depth": options.depth, "write_fraction": options.write_pct / 100,
        "seed": options.seed, "direct": options.direct, "data": options.data, "verify": options.verify,
        "sync": "all" if options.durability == "each" else "none", "durability": options.durability,
        "flush": "all" if options.writes and options.durability != "none" else "none",
        "duration_ns": options.duration_ns, "stop_bytes": options.stop_bytes, "warmup_ns": options.warmup_ns,
        "cooldown_ns": options.cooldown_ns, "burst_ops": options.burst_ops, "burst_gap_ns": options.burst_gap_ns,
        "pace": PaceSpec(options.rate_per_s, limit=True) if options.rate_per_s else None,
        "access": "mmap" if options.mmap else "positioned",
        "pattern": "random" if options.random else "sequential", "walk": _walk(options),
        "create": "if_missing" if creates else "never", "remove_before": creates,
        "interval_ns": INTERVAL_NS, "workload": workload,
    }  # fmt: skip
    return CellSpec(op=options.op, **{**made, **more})


def _walk(options: LoadOptions) -> WalkSpec | None:
    """None for what the engine's own patterns do: blocks in a row, or blocks at random."""
    if options.random:
        align = options.align_bytes or options.block_bytes
        if options.spread == "uniform" and align == options.block_bytes:
            return None
        walk = WalkSpec("random", align_bytes=align)
        if options.spread == "zipf":
            walk.spread, walk.theta = "zipf", options.theta
        elif options.spread == "hot":
            walk.spread, walk.ranges = "ranges", _ranges(options, align)
        return walk
    if options.interlocked:
        return WalkSpec("interlocked", stride_bytes=options.stride_bytes or options.block_bytes)
    return WalkSpec("sequential", stride_bytes=options.stride_bytes) if options.stride_bytes else None


def _ranges(options: LoadOptions, align: int) -> list[tuple[float, int, int]]:
    """The hot part at the head of the file, the cold one behind it. Raises UsageError when one is below a block."""
    share, part = options.hot[0] / 100, options.hot[1] / 100
    edge = int(options.size_bytes * part) // align * align
    if min(edge, options.size_bytes - edge) < options.block_bytes:
        raise UsageError("--distribution hot: one of its parts is smaller than --block; give a larger --size")
    return [(share, 0, edge), (1 - share, edge, options.size_bytes - edge)]


def fill_cell(options: LoadOptions, workload: str = "fill", **more: Any) -> CellSpec:
    """Writes the files whole, with the same data, and flushes them."""
    whole = options.size_bytes % FILL_RECORD_BYTES == 0 and not options.verify
    record = FILL_RECORD_BYTES if whole else options.block_bytes
    made: dict[str, Any] = {
        "op": "write", "file_bytes": options.size_bytes, "record_bytes": record, "files": options.files,
        "workers": len(options.files), "queue_depth": options.depth, "write_fraction": 1.0, "seed": options.seed,
        "direct": options.direct, "data": options.data, "verify": options.verify, "create": "if_missing",
        "remove_before": True, "flush": "all", "interval_ns": INTERVAL_NS, "workload": workload,
    }  # fmt: skip
    return CellSpec(**{**made, **more})


def idle_cell(options: LoadOptions, idle_ns: int) -> CellSpec:
    """Nothing but one small read before and one after idle_ns; a simulated server's clock goes on with it."""
    record = min(4096, options.block_bytes)
    return CellSpec(
        op="read", file_bytes=options.size_bytes, record_bytes=record, files=options.files[:1], seed=options.seed,
        stop_ops=2, burst_ops=1, burst_gap_ns=idle_ns, flush="none", interval_ns=NS_PER_S, workload="idle",
    )  # fmt: skip


def numbered(cells: list[CellSpec], first: int = 0) -> list[CellSpec]:
    """The cells with ids from `first` on, in order."""
    return [dataclasses.replace(cell, id=first + at) for at, cell in enumerate(cells)]


def sustained_cells(options: LoadOptions, rest_ns: int = 0) -> list[CellSpec]:
    """Fill where needed, a rest, and the load, for each repeat."""
    cells = [fill_cell(options)] if options.fills else []
    for block in range(options.repeat):
        if rest_ns and cells:
            cells.append(idle_cell(options, rest_ns))
        cells.append(load_cell(options, block=block))
    return numbered(cells)
