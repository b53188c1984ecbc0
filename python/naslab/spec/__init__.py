"""What to measure: `RunSpec` and its cells, plain versioned data handed to the engine as JSON.

The engine (crates/engine/src/spec.rs) reads the same names and refuses unknown ones. A cell is one set
of parameters carried out once; the run is the list of cells in order.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from naslab.errors import SpecError

SPEC_SCHEMA = 1
MAX_RECORD_BYTES = 1 << 30

DATA_OPS = (
    "write", "rewrite", "read", "reread", "random_read", "random_write", "backward_read",
    "record_rewrite", "stride_read", "fwrite", "frewrite", "fread", "freread", "pwrite", "repwrite",
    "pread", "repread", "mixed",
)  # fmt: skip
"""Operation names of DESIGN.md section 4 that move file data, in IOzone's column order."""


def operation_name(write_pct: float, random: bool) -> str:
    """What an operation of such a load is called. write_pct: share of operations that write, 0 to 100."""
    if 0 < write_pct < 100:
        return "mixed"
    kind = "write" if write_pct else "read"
    return f"random_{kind}" if random else kind


Pattern = Literal["sequential", "permutation", "random", "backward", "stride", "same_record"]
Durability = Literal["none", "end", "each"]


@dataclass
class DataSpec:
    """Contents of written blocks.

    kind: `random` (incompressible, every 4 KiB block unique and tagged), `iozone` (zero but for 8 bytes
    a page, as IOzone writes), `fill` (the byte `fill`).
    compress_ratio, dedupe_ratio: raw size over reduced size, >= 1; only for `random`.
    """

    kind: Literal["random", "iozone", "fill"] = "random"
    compress_ratio: float = 1.0
    dedupe_ratio: float = 1.0
    fill: int = 0


@dataclass
class PaceSpec:
    """Open loop: operations start when due, latency counts from the due time.

    rate_per_s: operations per second over all workers. limit: no open loop, just at most this rate: latency
    counts from submission.
    """

    rate_per_s: float
    arrival: Literal["constant", "poisson"] = "constant"
    limit: bool = False


@dataclass
class WalkSpec:
    """A way through a region of the file that counts bytes, not records; operations may overlap.

    order: `sequential` (steps of stride_bytes, from the start again after the end; the k-th worker of a file
    begins k * separation_bytes later), `interlocked` (the workers of a file take turns on one position),
    `random` (multiples of align_bytes), `blend` (random with probability random_share, else the record after
    the last one). base_bytes, len_bytes: the region; None: to the end of the file.
    spread of random positions: `uniform`, `zipf` (exponent theta), `ranges` of (share of operations, first
    byte in the region, length in bytes).
    """

    order: Literal["sequential", "interlocked", "random", "blend"]
    stride_bytes: int = 1
    align_bytes: int = 1
    base_bytes: int = 0
    len_bytes: int | None = None
    separation_bytes: int = 0
    random_share: float = 0.0
    spread: Literal["uniform", "zipf", "ranges"] = "uniform"
    theta: float = 0.99
    ranges: list[tuple[float, int, int]] = field(default_factory=list)


@dataclass
class ScriptSpec:
    """A script that a cell carries out (`naslab.spec.script`), one worker for each of its streams.

    path: of the script file on this machine. recorded_pace: steps start when due and latency counts from then; else
    each starts as soon as it can. deadline_ns: a step that starts so much later than due missed it; 0: not looked at.
    planned_bytes: all that its steps move, for progress.
    """

    path: str
    recorded_pace: bool = False
    deadline_ns: int = 0
    planned_bytes: int = 0


@dataclass
class CellSpec:
    """One cell. Sizes in bytes, times in nanoseconds.

    op: name of DESIGN.md section 4. files: one path per worker (or one for all), relative to the folder.
    pattern: order of offsets; `permutation` visits each record once, `stride` jumps `stride_records` and
    restarts one record later at the end, `same_record` stays at offset 0. walk: chooses the offsets instead.
    script: steps to carry out instead, on files of their own; then files is empty, file_bytes the size of all files
    and record_bytes the longest request.
    write_fraction: share of operations that write, 0 to 1. read_workers: for a mix by worker, the first
    so many workers read and the others write (then write_fraction is unused).
    cold: the client's cached pages of the files are dropped before. fresh_sessions: every worker ends its session and
    opens a new one before the cell: nothing of a connection, an open file or a lease is left.
    stop_*: the cell ends at the first that is reached; all None = one pass over the file.
    stonewall: the first worker to finish ends the others; with finish_untimed they write the rest of
    their files outside the window. think_counted: think time stays in the window.
    burst_ops, burst_gap_ns: after so many operations of a worker, a pause (0: none), within the window.
    cooldown_ns: the load goes on so long after the window, unrecorded (not in virtual time).
    timed_flush, timed_close: part of the timed window. flush: `fsync` after the last operation, timed
    apart when not part of the window; its time is the time to durable.
    """

    op: str
    file_bytes: int
    record_bytes: int
    files: list[str]
    id: int = 0
    block: int = 0
    workers: int = 1
    queue_depth: int = 1
    pattern: Pattern = "sequential"
    stride_records: int = 17
    walk: WalkSpec | None = None
    script: ScriptSpec | None = None
    write_fraction: float = 0.0
    read_workers: int | None = None
    seed: int = 0
    # files
    create: Literal["never", "if_missing", "new"] = "never"
    remove_before: bool = False
    truncate: bool = False
    direct: bool = False
    sync: Literal["none", "data", "all", "reads_too"] = "none"
    access: Literal["positioned", "cursor", "stdio", "mmap"] = "positioned"
    lock: Literal["none", "file", "record"] = "none"
    cold: bool = False
    fresh_sessions: bool = False
    prime: bool = False
    # when it stops
    stop_bytes: int | None = None
    stop_ops: int | None = None
    duration_ns: int | None = None
    warmup_ns: int = 0
    stonewall: bool = False
    finish_untimed: bool = False
    # what is timed
    flush: Literal["none", "data", "all"] = "all"
    timed_flush: bool = False
    timed_close: bool = False
    think_ns: int = 0
    think_counted: bool = False
    pace: PaceSpec | None = None
    burst_ops: int = 0
    burst_gap_ns: int = 0
    cooldown_ns: int = 0
    # data
    data: DataSpec = field(default_factory=DataSpec)
    verify: bool = False
    # recording
    interval_ns: int = 1_000_000_000
    record_ops: bool = False
    # labels kept with the result, not used by the engine
    durability: Durability = "end"
    cache_state: Literal["warm", "cold", "unknown"] = "unknown"
    workload: str | None = None
    # how many of the run's clients carry it out: the first so many; None: all
    clients: int | None = None

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> CellSpec:
        """A cell as `dataclasses.asdict` or the store gives it."""
        parts = {"data": DataSpec, "pace": PaceSpec, "walk": WalkSpec, "script": ScriptSpec}
        made = {name: kind(**stored[name]) for name, kind in parts.items() if stored.get(name)}
        return cls(**{**stored, **made})

    def records(self) -> int:
        """Whole records in the file."""
        return self.file_bytes // self.record_bytes

    def planned_bytes(self) -> int:
        """Bytes one execution moves over all workers, when it is not bounded by time."""
        if self.script is not None:
            return self.script.planned_bytes
        if self.stop_bytes is not None:
            return self.stop_bytes
        if self.stop_ops is not None:
            return self.stop_ops * self.record_bytes
        return self.records() * self.record_bytes * len(self.files)

    def writes(self) -> bool:
        """Whether any operation of the cell writes."""
        return self.write_fraction > 0 or (self.read_workers is not None and self.read_workers < self.workers)

    def validate(self) -> None:
        """Raises SpecError naming the field, the value and the next step."""
        _check(self.record_bytes >= 1, f"record_bytes {self.record_bytes}: give at least 1 byte")
        _check(
            self.record_bytes <= MAX_RECORD_BYTES,
            f"--record {self.record_bytes}: records above 1 GiB are not supported; choose a smaller --record",
        )
        _check(
            self.file_bytes >= self.record_bytes,
            f"record_bytes {self.record_bytes} is larger than file_bytes {self.file_bytes}: "
            "choose a smaller --record or a larger --file-size",
        )
        _check(1 <= self.workers <= 4096, f"workers {self.workers}: give 1 to 4096")
        _check(1 <= self.queue_depth <= 4096, f"queue_depth {self.queue_depth}: give 1 to 4096")
        _check(
            len(self.files) in ((0,) if self.script else (1, self.workers)),
            f"files: {len(self.files)} names for {self.workers} workers; give one for all or one for each",
        )
        _check(0.0 <= self.write_fraction <= 1.0, f"write_fraction {self.write_fraction}: give 0 to 1")
        _check(self.data.compress_ratio >= 1.0, f"compress_ratio {self.data.compress_ratio}: give at least 1")
        _check(self.data.dedupe_ratio >= 1.0, f"dedupe_ratio {self.data.dedupe_ratio}: give at least 1")
        _check(
            not (self.verify and self.data.dedupe_ratio > 1.0),
            "--verify tags every block, which makes it unique: it cannot be combined with --dedupe",
        )
        _check(self.interval_ns >= 1_000_000, f"interval_ns {self.interval_ns}: give at least 1 ms")


@dataclass
class RunSpec:
    """A whole run: target, folder, cells. `target` is what `naslab.targets.Target.stored_spec` gives;
    the password goes to the engine beside it.

    folder: made for the run and removed with it; None: cells name files under the target's root.
    cleanup_files: removed at the end, however the run ends. existing: treatment of files that naslab did
    not write (`refuse`; `read`: only by cells that read; `overwrite`: also written and removed).
    timeout_ns: longest time without any completion. ride_out_ns: how long a server that goes away during a cell is
    waited for; 0: its session ends at once. goes_on: a session without an answer in time ends its cell alone.
    together, join_folder: for one of many clients, which waits for the others at the points of a cell, and whose folder
    another one makes and removes. back_to_back: short cells of one worker follow each other at once and are reported
    after the last of them, so that nothing in between pushes their data out of the processor's caches.
    """

    target: dict[str, Any]
    cells: list[CellSpec]
    run_id: str = ""
    command: str = "run"
    folder: str | None = None
    cleanup_files: list[str] = field(default_factory=list)
    existing: Literal["refuse", "read", "overwrite"] = "refuse"
    seed: int = 0
    timeout_ns: int = 30_000_000_000
    ride_out_ns: int = 0
    goes_on: bool = False
    progress_interval_ns: int = 200_000_000
    together: bool = False
    join_folder: bool = False
    back_to_back: bool = False
    schema: int = SPEC_SCHEMA

    def validate(self) -> None:
        """Checks every cell. Raises SpecError."""
        _check(bool(self.cells), "the plan holds no cells: widen --file-size, --record or --tests")
        _check(len({cell.id for cell in self.cells}) == len(self.cells), "the plan uses a cell id twice")
        for cell in self.cells:
            cell.validate()

    def to_json(self) -> str:
        """The JSON the engine reads."""
        return json.dumps(dataclasses.asdict(self))


def _check(ok: bool, message: str) -> None:
    if not ok:
        raise SpecError(message)
