"""What the commands share that put one load on a target: `sustained`, `burst`, `cache speed` and `cache size`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from naslab.cli.arguments import PatternArguments, PriceArguments
from naslab.cli.common import Common, Load, measure
from naslab.cli.progress import Progress
from naslab.commands.plans import caching
from naslab.commands.plans import sustained as plans
from naslab.errors import UsageError
from naslab.execution.execute import Execution, probe, start
from naslab.results.describe import plain
from naslab.results.parts.sustained import CacheModeDocument, Sustained
from naslab.results.store import Store
from naslab.spec import CellSpec
from naslab.units import parse_duration, parse_size

if TYPE_CHECKING:
    from naslab.analysis.cost import Price
    from naslab.targets import Target

DEFAULT_SIZE, DEFAULT_DURATION = "1g", "60s"


@dataclass
class Task:
    """A checked command line and what it does on a target; each command has one of its own.

    own_memory: a path's reads may come from this machine's own memory, where no step can show a server's.
    """

    common: Common
    options: plans.LoadOptions
    price: Price | None = None
    own_memory: bool = field(default=False, init=False)

    def check_target(self, target: Target) -> None:
        """Raises UsageError for a target that the command line does not fit."""

    def cells(self, probed: Mapping[str, Any]) -> list[CellSpec]:
        """What is measured in the first stage. Raises UsageError when the room is too small."""
        raise NotImplementedError

    def measure(self, execution: Execution, progress: Progress, part: Sustained) -> None:
        """Measures; what it finds goes into the part `sustained` of the document, however it ends."""
        execution.stage(execution.spec.cells)

    def further_parts(self, _document: Mapping[str, Any]) -> dict[str, Any]:
        """Other parts of the document."""
        return {}


def carry_out(task: Task, name: str) -> int:
    """Measures the target of this name; the exit code. Raises UsageError, TargetError, SpaceError before that."""
    common, options = task.common, task.options
    spec = common.run_spec()
    target = common.target(name)
    task.check_target(target)
    options.seed = common.seed
    way = _reach(options, target)
    task.own_memory = target.protocol == "local" and not way.remote
    probed = probe(target, [CellSpec("read", 1, 1, ["x"], queue_depth=options.depth)])
    plans.check(options, probed["caps"])
    spec.cells = task.cells(probed)
    for cell in spec.cells:
        cell.validate()
    _check_bytes(spec.cells, common)
    spec.cleanup_files = sorted({file for cell in spec.cells for file in cell.files})
    execution = start(spec, target, Store(common.store), document_extra=common.document_extra())
    for note in way.notes:
        execution.warn("cache", note)
    return measure(execution, common, spec.cells, lambda shown: _work(task, execution, shown, way))


def load_options(pattern: PatternArguments, load: Load, cache: str, default_size: str) -> plans.LoadOptions:
    """The load asked for, without its times. Raises UsageError naming the option for what cannot be."""
    checked = load.options(0, load.direct)
    options = plans.LoadOptions(
        size_of(pattern.size or default_size, "--size"), size_of(pattern.block, "--block"), pattern.write,
        pattern.random, interlocked=pattern.interlocked, depth=load.depth, workers=load.workers,
        durability=checked.durability, direct=checked.direct, verify=checked.verify, repeat=checked.repeat,
        data=checked.data,
    )  # fmt: skip
    options.duration_ns = time_of(DEFAULT_DURATION, "--duration")
    options.cache = cache
    caching.parse_mode(cache, "--direct" if options.direct else "", options.durability)
    options.align_bytes = size_of(pattern.align, "--align") if pattern.align else None
    options.stride_bytes = size_of(pattern.stride, "--stride") if pattern.stride else None
    plans.parse_distribution(pattern.distribution, options)
    return options


def rest_of(text: str, options: plans.LoadOptions) -> int:
    """`--rest` in nanoseconds, 0 when not given. Raises UsageError."""
    rest_ns = time_of(text, "--rest")
    if rest_ns and not options.fills and options.repeat == 1:
        raise UsageError("--rest: this load fills no files first, so there is nothing to rest from; leave it out")
    return rest_ns


def price_of(given: PriceArguments) -> Price | None:
    """None where none is given. Raises UsageError."""
    from naslab.analysis.cost import Price

    if given.price_per_gb and not given.stored:
        raise UsageError("--price-per-gb: the price is for the storage; say how much with --stored SIZE")
    prices = given.price_per_hour, given.price_per_month, given.price_per_gb
    if not any(prices):
        return None
    return Price(*prices, stored_bytes=size_of(given.stored, "--stored") if given.stored else 0)


def size_of(text: str, option: str) -> int:
    """Bytes, at least 1. Raises UsageError."""
    found = parse_size(text, option)
    if found < 1:
        raise UsageError(f"{option} {text!r}: give at least 1 byte")
    return found


def time_of(text: str, option: str) -> int:
    """Nanoseconds, 0 when not given. Raises UsageError."""
    if not text:
        return 0
    found = parse_duration(text, option)
    if found < 1:
        raise UsageError(f"{option} {text!r}: give more than 0")
    return found


def _reach(options: plans.LoadOptions, target: Target) -> caching.Access:
    """What --cache, --direct, --durability and the target's name come to, also set in the options."""
    direct = "--direct" if options.direct else "the target's ?direct=1" if target.direct else ""
    mode = caching.parse_mode(options.cache, direct, options.durability)
    way = caching.sustained_access(options.cache, mode, caching.place_of(target))
    options.direct, options.mmap = way.direct, way.mmap
    options.durability = "each" if way.sync else options.durability
    return way


def _check_bytes(cells: list[CellSpec], common: Common) -> None:
    """Only a plan bounded in bytes can be compared with --max-bytes; a timed one is cut by it."""
    most = common.most_bytes()
    if most is None:
        return
    moved = sum(cell.planned_bytes() for cell in cells if not cell.duration_ns)
    timed = [cell for cell in cells if cell.duration_ns]
    left = most - moved
    if left < sum(cell.record_bytes for cell in timed) or left < 0:
        raise UsageError(f"--max-bytes {common.max_bytes}: the files alone take {moved} bytes; give a smaller --size")
    for cell in timed:
        cell.stop_bytes = left // len(timed)


def _work(task: Task, execution: Execution, progress: Progress, way: caching.Access) -> None:
    """Measures, and describes what was measured however it ended."""
    mode = CacheModeDocument(way.name, bool(task.options.cache), list(way.notes))
    part = Sustained(regimes=[], burst=None, cached=None, cost=None, cache=mode)
    try:
        task.measure(execution, progress, part)
    finally:
        if execution.begun:  # a run that was refused is not in the store any more
            _describe(task, execution, part)


def _describe(task: Task, execution: Execution, part: Sustained) -> None:
    from naslab.analysis import sustained as analysis

    run = execution.store.load(execution.run_id)
    for cell in run.cells:
        # A series with a time without the server shows no plateau and no burst of the server.
        if cell["workload"] in ("sustained", "warm") and cell["status"] != "failed" and not cell.get("outages"):
            part.regimes += analysis.regimes_of(run, cell)
    sustained, burst = analysis.rates_to_pay_for(part)
    if task.price and sustained > 0:
        part.cost = analysis.cost_part(task.price, sustained, burst)
    execution.document["sustained"] = plain(part)
    execution.keep(sustained=execution.document["sustained"], **task.further_parts(execution.document))
