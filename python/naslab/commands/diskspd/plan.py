"""From a profile to cells: what is created, how each time span goes through its files, what cannot be carried out.

A cell is one time span. Files of -c are written whole by cells of their own before it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from naslab.commands.diskspd.caching import access
from naslab.commands.diskspd.options import refusal
from naslab.commands.diskspd.profile import Profile, TargetSpec, TimeSpan
from naslab.commands.plans.caching import Access, Place
from naslab.errors import UsageError
from naslab.spec import CellSpec, DataSpec, PaceSpec, RunSpec, WalkSpec, operation_name

NS = 1_000_000_000
CREATE_RECORD_BYTES = 1 << 20
CREATE_DEPTH = 4
CREATING = "diskspd -c"
"""`workload` of the cells that create files."""
_CAP_DEPTH = "max_depth"


@dataclass(frozen=True)
class Setting:
    """What is known of the target before the plan. sizes: of the files that are there. root: of a local path.

    client_cache: a simulated server's client has a cache.
    """

    protocol: str
    names: Mapping[str, str]
    sizes: Mapping[str, int]
    caps: Mapping[str, Any] = field(default_factory=dict)
    root: Path | None = None
    client_cache: bool = False


@dataclass(frozen=True)
class PlannedSpan:
    """A time span and the cell that carries it out. sizes: of each worker's file. region_bytes: (first, length)."""

    span: TimeSpan
    cell: int
    workers: list[tuple[int, TargetSpec]]
    sizes: list[int]
    region: tuple[int, int]


@dataclass
class Plan:
    """Cells in order, and what each time span became. notes: sentences about what differs from DiskSpd."""

    profile: Profile
    cells: list[CellSpec] = field(default_factory=list)
    spans: list[PlannedSpan] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)

    def run_spec(self, overwrite: bool, timeout_ns: int) -> RunSpec:
        """The specification; `execute` puts the target in. Files stay where they are, as DiskSpd leaves them."""
        return RunSpec(
            target={},
            cells=self.cells,
            command="diskspd",
            folder=None,
            existing="overwrite" if overwrite else "read",
            seed=self.profile.spans[0].seed,
            timeout_ns=timeout_ns,
        )


def refuse(profile: Profile) -> None:
    """Raises UsageError for what naslab does not carry out, by the name of its option."""
    for span in profile.spans:
        first = span.targets[0]
        for target in span.targets:
            for is_there, message in _unsupported(span, target):
                if is_there:
                    raise UsageError(message)
            if dataclasses.replace(target, path=first.path) != first:
                raise UsageError(
                    f"target {target.shown!r} has different parameters from {first.shown!r}: the targets of one time "
                    "span "
                    "may differ only in their paths here; put them into separate time spans"
                )


def _unsupported(span: TimeSpan, target: TargetSpec) -> list[tuple[object, str]]:
    partly = 0 < target.random_pct < 100
    return [
        (target.priority in (1, 2), f"-I{target.priority} {refusal('-I', '1, -I2')}"),
        (target.map_flush in ("n", "i"), f"-N{target.map_flush} {refusal('-N', 'n, -Ni')}"),
        (target.parallel and target.outstanding > 1, f"-p {refusal('-p', '')}"),
        (target.source_path, f"-Z with a file {refusal('-Z', 'SIZE,FILE')}"),
        (span.outstanding and len(span.targets) > 1,
         "-O with several targets: naslab has no weights between targets; give -o, or one target"),
        (partly and target.distribution, "-rd with -rs: ranges apply to fully random I/O here; leave one of them out"),
        (partly and target.step_bytes != target.block_bytes,
         "-rs with an alignment other than the block: the sequential part goes on block by block here; leave -r's "
         "number out"),
        (not target.step_bytes and target.separation_bytes, "-s0 with -T: threads would never move; leave out -T"),
    ]  # fmt: skip


def make_plan(profile: Profile, setting: Setting) -> Plan:
    """Cells of all time spans. Raises UsageError for what does not fit the files or the target."""
    plan = Plan(profile)
    sizes = dict(setting.sizes)
    for span in profile.spans:
        _create(plan, span, setting, sizes)
        _measure(plan, span, setting, sizes)
    return plan


def _create(plan: Plan, span: TimeSpan, setting: Setting, sizes: dict[str, int]) -> None:
    """Cells that write the files of -c whole; a file that a span before created with this size stays."""
    wanted = {setting.names[t.path]: t for t in span.targets if t.file_bytes is not None}
    made = {name for cell in plan.cells if cell.workload == CREATING for name in cell.files}
    if plan.profile.precreate:
        wanted = {name: t for name, t in wanted.items() if name not in made or sizes[name] != t.file_bytes}
    if not wanted:
        return
    target = next(iter(wanted.values()))
    size, names = target.file_bytes or 0, sorted(wanted)
    if size < target.block_bytes:
        raise UsageError(
            f"-c{size}: the file is smaller than one block ({target.block_bytes} bytes); give a larger one"
        )
    record = min(CREATE_RECORD_BYTES, size)
    whole = size // record * record
    in_flight = min(CREATE_DEPTH, int(setting.caps.get(_CAP_DEPTH, 1)))
    base = CellSpec(
        "write", whole, record, names, workers=len(names), queue_depth=in_flight, write_fraction=1.0,
        create="if_missing", remove_before=True, seed=span.seed, data=_data(span, target), workload=CREATING,
    )  # fmt: skip
    _add(plan, base)
    if size > whole:
        tail = WalkSpec("sequential", base_bytes=whole, len_bytes=size - whole)
        _add(plan, dataclasses.replace(
            base, file_bytes=size, record_bytes=size - whole, remove_before=False, walk=tail, stop_ops=len(names),
            queue_depth=1,
        ))  # fmt: skip
    sizes.update(dict.fromkeys(names, size))


def _add(plan: Plan, cell: CellSpec) -> int:
    cell.id = len(plan.cells)
    plan.cells.append(cell)
    return cell.id


def _measure(plan: Plan, span: TimeSpan, setting: Setting, sizes: Mapping[str, int]) -> None:
    target, workers = span.targets[0], span.workers()
    names = [setting.names[of.path] for _, of in workers]
    size = _size(span, setting, sizes)
    region = _region(plan, target, size, max(target.threads, span.threads))
    way = access(target, Place(setting.protocol, setting.root, setting.client_cache))
    plan.notes |= dict.fromkeys(way.notes)
    _note_load(plan, span, target, region)
    _check_caps(setting, span, way, region)
    cell = _cell(span, target, names, size, region, way)
    number = _add(plan, cell)
    plan.spans.append(PlannedSpan(span, number, workers, [sizes[name] for name in names], region))


def _size(span: TimeSpan, setting: Setting, sizes: Mapping[str, int]) -> int:
    """Size of the span's files, which must have the range that is used in common."""
    found: dict[str, int] = {}
    for target in span.targets:
        name = setting.names[target.path]
        if name not in sizes:
            raise UsageError(
                f"Error opening file: {target.shown}: there is no such file; create it with -cSIZE, or name one that "
                "exists"
            )
        if sizes[name] == 0:
            raise UsageError(f"target size could not be determined: {target.shown} is empty; create it with -cSIZE")
        found[target.shown] = sizes[name]
    upto = span.targets[0].max_bytes
    if len({min(size, upto) if upto else size for size in found.values()}) > 1:
        listed = ", ".join(f"{name} ({size} bytes)" for name, size in found.items())
        raise UsageError(f"targets of one time span differ in size: {listed}; give -fSIZE, or time spans of their own")
    return min(found.values())


def _region(plan: Plan, target: TargetSpec, size: int, threads: int) -> tuple[int, int]:
    """First byte and length of what is used."""
    if target.max_bytes > size:
        plan.notes[f"file size {size} is less than MaxFileSize {target.max_bytes}: the whole file is used"] = None
    upto = min(target.max_bytes, size) if target.max_bytes else size
    start = target.base_bytes + (threads - 1) * target.separation_bytes
    if start + target.block_bytes > upto:
        raise UsageError(
            f"The file is too small. File: {target.shown!r} relative thread {threads - 1}: file size: {size}, "
            f"base offset: {target.base_bytes}, thread stride: {target.separation_bytes}, "
            f"block size: {target.block_bytes}; give a larger file, or smaller -b, -B, -T"
        )
    return target.base_bytes, upto - target.base_bytes


def positions(target: TargetSpec, length: int) -> int:
    """Offsets at which a block can begin."""
    return (length - target.block_bytes) // max(target.step_bytes, 1) + 1


def _note_load(plan: Plan, span: TimeSpan, target: TargetSpec, region: tuple[int, int]) -> None:
    notes = plan.notes
    if plan.profile.compat == "2.0.21" and target.random_pct:
        share = "reads only, because -w is absent or 0" if not target.write_pct else f"{target.write_pct} % writes"
        notes[
            f"as DiskSpd 2.0.21a: {target.block_bytes}-byte blocks at random multiples of {target.step_bytes} bytes, "
            f"{positions(target, region[1]):,} positions in {region[1]:,} bytes; {share}"
        ] = None
    if target.write_pct and target.pattern == "sequential" and not span.random_data:
        notes[
            "data written are random and unique; DiskSpd repeats the bytes 0 to 255, which compress (-Z writes zeros)"
        ] = None
    if target.pattern == "random":
        notes["-Z with a size: data are new for each write instead of repeating a buffer"] = None
    if span.threads and len(span.targets) > 1:
        notes[f"-F{span.threads}: carried out as one worker per thread and target"] = None
    if target.mmap and target.outstanding > 1:
        notes["-Sm: queue depth 1 per thread, because a mapped operation is synchronous"] = None
    if len(span.targets) > 1 and span.latency:
        notes["percentiles of latency are over all targets together"] = None


def _check_caps(setting: Setting, span: TimeSpan, way: Access, region: tuple[int, int]) -> None:
    """Raises UsageError, in terms of DiskSpd's options, for what the target cannot do."""
    caps, protocol, target = setting.caps, setting.protocol, span.targets[0]
    for needed, name, option in (
        (way.direct, "direct", "-Su"),
        (way.sync, "sync_writes", "-Sw"),
        (way.mmap, "mmap", "-Sm"),
    ):
        if needed and not caps.get(name, True):
            raise UsageError(f"{option}: this {protocol} target cannot do that; leave {option} out")
    wanted, most = depth(target, span.outstanding), int(caps.get(_CAP_DEPTH, 1 << 20))
    if wanted > most:
        raise UsageError(
            f"-o{wanted}: this {protocol} target has a maximum queue depth of {most}; give less, or more -t"
        )
    unit = int(caps.get("alignment_offset_bytes", 1)) if way.direct else 1
    for option, value in (
        ("-b", target.block_bytes), ("-r" if target.random_pct else "-s", target.step_bytes), ("-B", region[0]),
        ("-T", target.separation_bytes),
    ):  # fmt: skip
        if value % unit:
            raise UsageError(
                f"{option}{value}: unbuffered I/O here begins at multiples of {unit} bytes; choose one, or leave -S out"
            )


def depth(target: TargetSpec, per_thread: int = 0) -> int:
    """Operations in flight per thread. per_thread: -O, 0 when not given."""
    return 1 if target.mmap else per_thread or target.outstanding


def _cell(
    span: TimeSpan, target: TargetSpec, names: list[str], size: int, region: tuple[int, int], way: Access
) -> CellSpec:
    writes = target.write_pct > 0
    sync: Literal["all", "none"] = "all" if way.sync else "none"
    interval_ns = (span.bucket_ms if span.iops else 1000) * 1_000_000
    return CellSpec(
        op=operation_name(target.write_pct, bool(target.random_pct)),
        file_bytes=size,
        record_bytes=target.block_bytes,
        files=names if len(set(names)) > 1 else names[:1],
        workers=len(names),
        queue_depth=depth(target, span.outstanding),
        walk=_walk(target, region, len(names)),
        write_fraction=target.write_pct / 100,
        seed=span.seed,
        direct=way.direct,
        sync=sync,
        access="mmap" if way.mmap else "positioned",
        duration_ns=span.duration_s * NS,
        warmup_ns=span.warmup_s * NS,
        cooldown_ns=span.cooldown_s * NS,
        flush="all" if writes else "none",
        pace=_pace(target, len(names)),
        burst_ops=target.burst,
        burst_gap_ns=target.think_ms * 1_000_000,
        data=_data(span, target),
        interval_ns=interval_ns,
        durability="each" if way.sync else "end" if writes else "none",
    )


def _walk(target: TargetSpec, region: tuple[int, int], workers: int) -> WalkSpec:
    base, length = region
    if target.random_pct == 100:
        found = WalkSpec("random", align_bytes=target.step_bytes, base_bytes=base, len_bytes=length)
        if target.distribution is not None:
            found.spread = "ranges"
            found.ranges = [(share / 100, start, size) for share, start, size in ranges(target, length)]
        return found
    if target.random_pct:
        share = target.random_pct / 100
        return WalkSpec(
            "blend", align_bytes=target.step_bytes, base_bytes=base, len_bytes=length, random_share=share
        )  # fmt: skip
    if target.step_bytes == 0:  # -s0: one block for ever
        return WalkSpec("sequential", stride_bytes=target.block_bytes, base_bytes=base, len_bytes=target.block_bytes)
    order: Literal["interlocked", "sequential"] = "interlocked" if target.interlocked and workers > 1 else "sequential"
    return WalkSpec(
        order, stride_bytes=target.step_bytes, base_bytes=base, len_bytes=length,
        separation_bytes=target.separation_bytes,
    )  # fmt: skip


def ranges(target: TargetSpec, length: int) -> list[tuple[int, int, int]]:
    """-rd as (per cent of operations, first byte, length) within the region; parts without operations are left out.

    Per cent ranges begin and end at whole steps; of ranges in bytes, those beyond the region fall away, as in DiskSpd.
    Raises UsageError when a range holds no position.
    """
    found: list[tuple[int, int, int]] = []
    at = 0
    assert target.distribution is not None
    by_share = target.distribution.kind == "pct"
    step, usable = target.step_bytes, positions(target, length) * target.step_bytes
    for share, span in target.distribution.completed().parts:
        if by_share:
            start, end = (at * usable // 100 // step * step, (at + span) * usable // 100 // step * step)
        else:
            start, end = at, at + span if span else length
        end = min(end, length)
        if share and by_share and end <= start:
            raise UsageError(f"-rd: {span}% of the target hold no position ({step} bytes apart); give a larger file")
        if share and end - start >= (step if by_share else target.block_bytes):
            found.append((share, start, end - start))
        at += span
    if not found:
        raise UsageError("-rd: none of its ranges lies in the target; give smaller ranges or a larger file")
    return found


def _pace(target: TargetSpec, workers: int) -> PaceSpec | None:
    """-g per thread and target, as one rate over all workers."""
    if not target.limited:
        return None
    each = target.limit_per_s or target.limit_bytes_per_ms * 1000 / target.block_bytes
    return PaceSpec(each * workers, limit=True)


def _data(span: TimeSpan, target: TargetSpec) -> DataSpec:
    if target.pattern == "zero" and not span.random_data:
        return DataSpec(kind="fill", fill=0)
    return DataSpec()
