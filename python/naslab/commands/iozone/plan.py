"""From `Args` to rows, cells and the `RunSpec`: IOzone's tests, size series and cut-off rule.

Facts: which pass opens, primes, flushes and times what; auto mode's series; the order of tests.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from naslab.commands.iozone.args import MAX_RECORD_KIB, Args
from naslab.commands.iozone.cluster import Cluster
from naslab.errors import UsageError
from naslab.spec import CellSpec, DataSpec, Durability, Pattern, RunSpec
from naslab.targets import parse_target
from naslab.targets.forms import PLACELESS, names_target, scheme_of
from naslab.text.messages import without_secrets
from naslab.units import amount_text

KIB = 1024
SHUFFLE_SEED = 1
"""Random passes use the same order for reading and writing, and in every run."""

CUTOFF_FILE_KIB = 16 * 1024
CUTOFF_RECORD_KIB = 64
"""Files larger than 16 MiB start at records of 64 KiB, unless the cut-off is off."""

VIRTUAL_FILE = "iozone.tmp"
"""What a file on a simulated server is called."""

Access = Literal["positioned", "cursor", "stdio", "mmap"]


@dataclass(frozen=True)
class Pass:
    """One pass of a test. creates: the file is made when missing. retest: left out by -+n."""

    test: int
    op: str
    writes: bool = False
    pattern: Pattern = "sequential"
    access: Access = "cursor"
    prime: bool = False
    creates: bool = False
    removes: bool = False
    retest: bool = False


PASSES: tuple[Pass, ...] = (
    Pass(0, "write", writes=True, creates=True, removes=True),
    Pass(0, "rewrite", writes=True, retest=True),
    Pass(1, "read", prime=True),
    Pass(1, "reread", prime=True, retest=True),
    Pass(2, "random_read", pattern="permutation"),
    Pass(2, "random_write", writes=True, pattern="permutation"),
    Pass(3, "backward_read", pattern="backward"),
    Pass(4, "record_rewrite", writes=True, pattern="same_record"),
    Pass(5, "stride_read", pattern="stride"),
    Pass(6, "fwrite", writes=True, access="stdio", creates=True),
    Pass(6, "frewrite", writes=True, access="stdio", retest=True),
    Pass(7, "fread", access="stdio"),
    Pass(7, "freread", access="stdio", retest=True),
    Pass(9, "pwrite", writes=True, access="positioned", creates=True),
    Pass(9, "repwrite", writes=True, access="positioned", retest=True),
    Pass(10, "pread", access="positioned", prime=True),
    Pass(10, "repread", access="positioned", prime=True, retest=True),
)  # fmt: skip
"""Single mode, in the order of running and of the columns."""

BY_OP: dict[str, Pass] = {found.op: found for found in PASSES} | {"mixed": Pass(8, "mixed", pattern="permutation")}

THROUGHPUT_OPS: tuple[str, ...] = (
    "write", "rewrite", "read", "reread", "backward_read", "stride_read", "random_read", "mixed",
    "random_write", "pwrite", "pread", "fwrite", "fread",
)  # fmt: skip
"""Throughput mode's passes, in IOzone's order."""


@dataclass(frozen=True)
class Row:
    """One line of the table. Sizes in KiB. cut_off: left out by auto mode's rule; 0 in reports."""

    file_kib: int
    record_kib: int
    cut_off: bool = False


@dataclass
class Plan:
    """What will be run. rows: single mode, cut-off ones included. ops: passes with a column, in order, also
    those -+n leaves out. counts: children of throughput mode, over all clients.
    where: cell id -> (row index, op), or (number of workers, op) in throughput mode.
    """

    args: Args
    rows: list[Row]
    counts: list[int]
    ops: list[str]
    folder: str
    cells: list[CellSpec] = field(default_factory=list)
    where: dict[int, tuple[int, str]] = field(default_factory=dict)
    cleanup_files: list[str] = field(default_factory=list)

    @property
    def file_kib(self) -> int:
        """Throughput mode's file size per worker, before -+k shares it."""
        return self.rows[0].file_kib

    @property
    def record_kib(self) -> int:
        """Throughput mode's record size."""
        return self.rows[0].record_kib

    def run_spec(self) -> RunSpec:
        """The specification; `execute` puts the target in."""
        args = self.args
        return RunSpec(
            target={},
            cells=self.cells,
            command="iozone",
            folder=None if args.cluster is None else "",
            cleanup_files=self.cleanup_files,
            existing=self._existing(),
            seed=args.seed or 0,
            back_to_back=not (args.throughput or args.pause_s or args.mount),
        )

    def _existing(self) -> Literal["overwrite", "read", "refuse"]:
        """What may be done to files that are there: the null target has every file, and none of anybody's."""
        if self.args.overwrite or scheme_of(self.folder) == "null":
            return "overwrite"
        return "read" if self.args.foreign or self.args.read_existing else "refuse"

    def planned_bytes(self) -> int:
        """Bytes all cells move together."""
        return sum(cell.planned_bytes() for cell in self.cells)


def make_plan(args: Args) -> Plan:
    """Rows, cells and files of the command line.

    Raises UsageError when nothing fits, or the plan exceeds --max-bytes.
    """
    rows = list(_throughput_row(args) if args.throughput else _rows(args))
    if not rows:
        raise UsageError("no record size fits into a file size: widen -n -g or -y -q, or give -s and -r")
    folder, names = _split(_file_names(args)) if args.cluster is None else _of_clients(args.cluster)
    counts = args.worker_counts() if args.throughput else []
    plan = Plan(args, rows, counts, _ops(args), folder)
    for number, op, row, workers in _cell_order(plan):
        cell = _cell(args, BY_OP[op], row, workers, _files_for(args, names, workers))
        cell.id = len(plan.cells)
        plan.cells.append(cell)
        plan.where[cell.id] = (number, op)
    if not args.keep and any(BY_OP[cell.op].creates for cell in plan.cells):
        plan.cleanup_files = names
    _check_max(plan)
    return plan


def _check_max(plan: Plan) -> None:
    limit = plan.args.max_bytes
    if limit is not None and plan.planned_bytes() > limit:
        raise UsageError(
            f"--max-bytes {limit}: the plan moves {plan.planned_bytes()} bytes ({amount_text(plan.planned_bytes())}); "
            "raise the limit, or choose smaller sizes or fewer tests"
        )


def file_sizes(args: Args) -> list[int]:
    """File sizes in KiB, ascending: -s, or auto mode's series from -n up to -g."""
    if args.sizes or not args.automatic:
        return args.sizes or [512]
    return _series(args.min_file or 64, args.max_file or 512 * 1024, args.multiplier)


def record_sizes(args: Args) -> list[int]:
    """Record sizes in KiB to run where they fit: -r, or auto mode's series from -y up to -q."""
    return report_records(args) if args.records or args.automatic else [4]


def report_records(args: Args) -> list[int]:
    """Record sizes in KiB of the report's header: without -r always the whole series."""
    if args.records:
        return args.records
    return _series(args.min_record or 4, args.max_record or MAX_RECORD_KIB, args.multiplier)


def _series(first: int, last: int, factor: int) -> list[int]:
    sizes = []
    while first <= last:
        sizes.append(first)
        first *= factor
    return sizes


def _rows(args: Args) -> Iterator[Row]:
    cutting = not (args.no_cutoff or args.records or args.min_record or args.max_record or len(args.sizes) > 1)
    for file_kib in file_sizes(args):
        for record_kib in record_sizes(args):
            if record_kib <= file_kib:
                small = args.automatic and file_kib > CUTOFF_FILE_KIB and record_kib < CUTOFF_RECORD_KIB
                yield Row(file_kib, record_kib, cutting and small)


def _throughput_row(args: Args) -> Iterator[Row]:
    file_kib, record_kib = (args.sizes or [512])[0], (args.records or [4])[0]
    smallest = file_kib // max(args.worker_counts()) if args.constant_total else file_kib
    if record_kib <= smallest:
        yield Row(file_kib, record_kib)


def _ops(args: Args) -> list[str]:
    order = THROUGHPUT_OPS if args.throughput else tuple(found.op for found in PASSES)
    return [op for op in order if BY_OP[op].test in args.tests]


def _cell_order(plan: Plan) -> Iterator[tuple[int, str, Row, int]]:
    """(row index or number of all children, op, row, workers of a client) in the order of running."""
    ops = [op for op in plan.ops if not (BY_OP[op].retest and plan.args.no_retest)]
    if plan.args.throughput:
        for workers in plan.counts:
            size = plan.file_kib // workers if plan.args.constant_total else plan.file_kib
            own = workers if plan.args.cluster is None else plan.args.cluster.children
            for op in ops:
                yield workers, op, Row(size, plan.record_kib), own
        return
    for index, row in enumerate(plan.rows):
        if not row.cut_off:
            for op in ops:
                yield index, op, row, 1


def _cell(args: Args, found: Pass, row: Row, workers: int, files: list[str]) -> CellSpec:
    """One pass as the engine carries it out."""
    mixed = found.op == "mixed"
    writes = found.writes or mixed
    access = _access(args, found)
    stonewall = args.throughput and not args.no_stonewall
    flush_wanted = args.flush_timed or (writes and not args.close_timed)
    return CellSpec(
        op=found.op,
        file_bytes=row.file_kib * KIB,
        record_bytes=row.record_kib * KIB,
        files=files,
        workers=workers,
        queue_depth=1 if access == "stdio" else args.depth,
        pattern="sequential" if mixed and args.sequential_mix else found.pattern,
        stride_records=args.stride,
        write_fraction=1.0 if found.writes else 0.0,
        read_workers=_readers(args, workers) if mixed else None,
        seed=SHUFFLE_SEED if args.seed is None else args.seed,
        create="if_missing" if found.creates else "never",
        remove_before=found.removes and not args.no_truncate,
        direct=args.direct and access != "stdio",
        sync="reads_too" if args.sync_reads else "all" if args.sync_all else "data" if args.sync_data else "none",
        access=access,
        lock="file" if args.lock_file else "record" if args.lock_record or args.lock_shared else "none",
        prime=found.prime,
        stonewall=stonewall,
        finish_untimed=stonewall and (found.creates or found.op == "rewrite"),
        flush="all" if flush_wanted else "none",
        timed_flush=args.flush_timed,
        timed_close=args.close_timed,
        think_ns=args.think_ms * 1_000_000,
        think_counted=args.think_counted,
        data=_data(args),
        verify=(args.verify or args.diagnose or args.pattern is not None) and not args.foreign,
        record_ops=args.offset_files or args.histograms,
        durability=_durability(args),
        cache_state="cold" if args.mount else "unknown",
    )


def _access(args: Args, found: Pass) -> Access:
    """How the file is read and written. Depths above 1 have no cursor; addresses have neither cursor nor stdio."""
    if args.mmap:
        return "mmap"
    if found.access == "cursor" and args.depth > 1:
        return "positioned"
    return "positioned" if is_address(args.names[0] if args.names else args.file) else found.access


def _readers(args: Args, workers: int) -> int:
    """Workers of the mixed workload that read: -+p per cent, rounded down; every other one without -+p."""
    return (workers + 1) // 2 if args.read_pct is None else args.read_pct * workers // 100


def _data(args: Args) -> DataSpec:
    if args.pattern is not None:
        return DataSpec(kind="fill", fill=args.pattern)
    if args.iozone_data:
        return DataSpec(kind="iozone")
    return DataSpec(
        compress_ratio=100 / (100 - args.compress_pct),
        dedupe_ratio=100 / (100 - args.dedupe_pct),
    )


def _durability(args: Args) -> Durability:
    if args.sync_all or args.sync_data or args.sync_reads:
        return "each"
    return "end" if args.flush_timed or not args.close_timed else "none"


def is_address(name: str) -> bool:
    """Whether a file is named by an address (smb://, nfs://, \\\\host\\share, sim:) and not by a path."""
    return names_target(name)


def _file_names(args: Args) -> list[str]:
    if not args.throughput:
        return [args.file]
    most = 1 if args.one_file else max(args.worker_counts())
    return (args.names or _dummies(most))[:most]


def _dummies(count: int) -> list[str]:
    return [f"iozone.DUMMY.{number}" for number in range(count)]


def _of_clients(cluster: Cluster) -> tuple[str, list[str]]:
    """The folder of -+m, and the files of each client in its own folder there."""
    return cluster.folder, _dummies(cluster.children)


def _files_for(args: Args, names: list[str], workers: int) -> list[str]:
    return names[:1] if args.one_file else names[:workers]


def _split(names: list[str]) -> tuple[str, list[str]]:
    """The folder all files share, and their names relative to it. Raises UsageError."""
    if any(is_address(name) for name in names):
        return _split_addresses(names)
    if len(names) == 1:
        head, tail = os.path.split(names[0])
        if tail in ("", ".", ".."):
            raise UsageError(f"-f {names[0]}: give a file, not a folder")
        return head or ".", [tail]
    full = [os.path.abspath(name) for name in names]
    folder = os.path.commonpath([os.path.dirname(name) for name in full])
    return folder, [os.path.relpath(name, folder) for name in full]


_ADDRESS = re.compile(r"(smb|nfs)://|lab:|\\\\", re.IGNORECASE)

_SHARE_ONLY = re.compile(r"smb://[^/]+/[^/]+", re.IGNORECASE)


def _split_addresses(names: list[str]) -> tuple[str, list[str]]:
    """`smb://host/share/dir/file?options`: the options stay with the folder."""
    parts: list[tuple[str, str]] = []
    for name in names:
        if scheme_of(name) in PLACELESS:
            root, _, file = name.partition("#")
            parts.append((root, file or f"{VIRTUAL_FILE}.{len(parts)}"))
            continue
        if not _ADDRESS.match(name):
            parse_target(name)  # it says what is wrong with the whole name
        address = "smb://" + name[2:].replace("\\", "/") if name.startswith("\\\\") else name
        path, mark, options = address.partition("?")
        head, _, tail = path.rpartition("/")
        if not tail or not head or head.endswith("/") or _SHARE_ONLY.fullmatch(path):
            raise UsageError(f"-f {without_secrets(name)}: give a file within the address, as {_example(name)}")
        parts.append((head + mark + options, tail))
    folders = {head for head, _ in parts}
    if len(folders) != 1:
        raise UsageError(
            "-F: addresses must name files of one folder; give smb://host/share/dir/a smb://host/share/dir/b"
        )
    return folders.pop(), [tail for _, tail in parts]


def _example(name: str) -> str:
    scheme = scheme_of(name)
    return f"lab:{name[4:].strip('/') or 'NAME'}/file" if scheme == "lab" else f"{scheme or 'smb'}://host/share/file"
