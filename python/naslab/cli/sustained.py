"""`naslab sustained`: one load for a while, the burst behind it, or the network alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from naslab.analysis import scaling
from naslab.cli.common import Common, Load, measure
from naslab.cli.options import parse_labels
from naslab.cli.progress import Progress
from naslab.commands.plans import cached, caching, workingset
from naslab.commands.plans import scale as scales
from naslab.commands.plans import sustained as plans
from naslab.errors import UsageError
from naslab.execution.execute import Execution, probe, start
from naslab.results.store import Store
from naslab.spec import CellSpec
from naslab.units import parse_duration, parse_size

if TYPE_CHECKING:
    from naslab.analysis.cost import Price
    from naslab.targets import Target

Params = Mapping[str, Any]
DEFAULT_SIZE, DEFAULT_DURATION = "1g", "60s"


@dataclass
class Request:
    """A checked command line. price: None without one. rest_ns: idle time between filling and load.

    evict_bytes: --evict-size, None: not given.
    """

    options: plans.LoadOptions
    price: Price | None
    find_burst: bool
    cached: bool
    rest_ns: int
    evict_bytes: int | None = None
    find_cache: bool = False
    scale: tuple[int, ...] = ()


def run_sustained(params: Params) -> int:
    """`naslab sustained TARGET` with the command's parameters by name; the exit code."""
    common = Common(
        "sustained", params["store"], params["as_json"], params["quiet"], params["seed"],
        parse_labels(params["label"]), params["note"], params["timeout"], params["report"], params["max_bytes"],
        params["budget"], params["credentials"],
    )  # fmt: skip
    request = parse(params)
    spec = common.run_spec()
    target = common.target(params["target"])
    _check_scale(request.scale, target)
    options = request.options
    options.seed = common.seed
    way = _reach(options, target)
    probed = probe(target, [CellSpec("read", 1, 1, ["x"], queue_depth=options.depth)])
    plans.check(options, probed["caps"])
    task = _Task(request, common, way, target)
    spec.cells = task.cells(probed)
    for cell in spec.cells:
        cell.validate()
    _check_bytes(spec.cells, common)
    spec.cleanup_files = sorted({file for cell in spec.cells for file in cell.files})
    execution = start(spec, target, Store(common.store), document_extra=common.document_extra())
    for note in way.notes:
        execution.warn("cache", note)
    return measure(execution, common, spec.cells, lambda shown: task.work(execution, shown))


def _check_scale(scale: tuple[int, ...], target: Target) -> None:
    if not scale:
        return
    if target.clients is None:
        raise UsageError("--scale: which clients? give --clients, --hosts or --scheduler, too")
    most = target.clients.count
    if most and scale[-1] > most:
        raise UsageError(f"--scale: {scale[-1]} of {most} clients; give --clients {scale[-1]}, or scale to fewer")


def _reach(options: plans.LoadOptions, target: Target) -> caching.Access:
    """What --cache, --direct, --durability and the target's name come to, also set in the options."""
    direct = "--direct" if options.direct else "the target's ?direct=1" if target.direct else ""
    mode = caching.parse_mode(options.cache, direct, options.durability)
    way = caching.sustained_access(options.cache, mode, caching.place_of(target))
    options.direct, options.mmap = way.direct, way.mmap
    options.durability = "each" if way.sync else options.durability
    return way


def parse(params: Params) -> Request:
    """The command's own options. Raises UsageError naming the option for what cannot be or contradicts."""
    _refuse_pairs(params)
    load = Load(
        params["repeat"], params["depth"], params["workers"], params["durability"], params["direct"],
        params["compress"], params["dedupe"], params["verify"],
    )  # fmt: skip
    checked = load.options(params["seed"], params["direct"])
    size = params["size"] or (str(cached.FILE_BYTES) if params["cached"] else DEFAULT_SIZE)
    options = plans.LoadOptions(
        _size(size, "--size"), _size(params["block"], "--block"), params["write"], params["random"],
        interlocked=params["interlocked"], depth=params["depth"], workers=params["workers"],
        burst_ops=params["burst_ops"], durability=checked.durability, direct=checked.direct, verify=checked.verify,
        repeat=checked.repeat, data=checked.data,
    )  # fmt: skip
    options.cache = params["cache"]
    caching.parse_mode(options.cache, "--direct" if options.direct else "", options.durability)
    options.align_bytes = _size(params["align"], "--align") if params["align"] else None
    options.stride_bytes = _size(params["stride"], "--stride") if params["stride"] else None
    plans.parse_distribution(params["distribution"], options)
    _times(params, options)
    if params["rate"]:
        options.rate_per_s = plans.parse_rate(params["rate"], options.block_bytes)
    rest_ns = _time(params["rest"], "--rest")
    if rest_ns and not options.fills and options.repeat == 1:
        raise UsageError("--rest: this load fills no files first, so there is nothing to rest from; leave it out")
    evict = _size(params["evict_size"], "--evict-size") if params["evict_size"] else None
    return Request(
        options, _price(params), params["find_burst"], params["cached"], rest_ns, evict, params["find_cache"],
        scales.parse_scale(params["scale"]) if params["scale"] else (),
    )  # fmt: skip


def _times(params: Params, options: plans.LoadOptions) -> None:
    options.stop_bytes = _size(params["bytes_"], "--bytes") if params["bytes_"] else None
    default = "" if options.stop_bytes else DEFAULT_DURATION
    options.duration_ns = _time(params["duration"] or default, "--duration") or None
    options.warmup_ns = _time(params["warmup"], "--warmup")
    options.cooldown_ns = _time(params["cooldown"], "--cooldown")
    options.burst_gap_ns = _time(params["burst_gap"], "--burst-gap")


_NOT_WITH_FIND_CACHE = (
    ("write", "it reads"), ("random", "it reads from the start to the end"), ("stride", "it reads whole working sets"),
    ("bytes_", "--size is the largest working set"), ("duration", "each working set is read a few times; --budget "
        "limits the run"),
    ("warmup", "the first passes of each working set are its "
        "warm-up"), ("cooldown", "it has no idle time"), ("rest", "it has no idle time"),
    ("rate", "it needs full speed"), ("burst_ops", "it needs constant load"),
    ("direct", "unbuffered reads bypass a cache"), ("interlocked", "it reads one file"),
    ("max_bytes", "--size and --budget bound it"),
)  # fmt: skip


def _refuse_pairs(params: Params) -> None:
    """Options that say two things at once."""
    both = (
        ("bytes_", "duration", "two ends; give one of them"),
        ("find_burst", "cached", "two different measurements; run one at a time"),
        ("find_burst", "find_cache", "two different measurements; run one at a time"),
        ("cached", "find_cache", "two different measurements; run one at a time"),
        *(
            (option, "scale", "two different measurements; run one at a time")
            for option in ("find_burst", "cached", "find_cache")
        ),
        *((option, "find_cache", why) for option, why in _NOT_WITH_FIND_CACHE),
        ("find_burst", "bytes_", "it runs until enough is known; --budget limits it"),
        ("find_burst", "duration", "it runs until enough is known; --budget limits it"),
        ("find_burst", "warmup", "the burst is at the beginning; leave the warm-up out"),
        ("find_burst", "cooldown", "it idles after the load; leave the cool-down out"),
        ("find_burst", "rate", "it needs full speed"),
        ("find_burst", "burst_ops", "it needs constant load"),
        ("cached", "write", "it reads"),
        ("cached", "random", "it reads from the start to the end"),
        ("cached", "bytes_", "it reads for a --duration"),
        ("cached", "direct", "unbuffered reads on a server's own disk do not fill its cache"),
        ("cached", "warmup", "its first pass is a result"),
        ("cached", "rate", "it needs full speed"),
        ("cached", "burst_ops", "it needs constant load"),
        ("cached", "stride", "it reads from the start to the end"),
        ("cached", "rest", "cached data is read immediately"),
    )
    for one, other, why in both:
        if params[one] and params[other]:
            raise UsageError(f"{_flag(one)} with {_flag(other)}: {why}")
    if params["find_burst"] and params["repeat"] > 1:
        raise UsageError("--find-burst with --repeat: a used-up burst does not return at once; repeat the run later")
    if params["find_burst"] and params["durability"] == "none" and params["write"]:
        raise UsageError("--find-burst with --durability none: the flush is part of the evidence; leave it out")
    if params["price_per_gb"] and not params["stored"]:
        raise UsageError("--price-per-gb: the price is for the storage; say how much with --stored SIZE")
    if params["cached"] and params["repeat"] > 1:
        raise UsageError("--cached with --repeat: files are read for the first time only once; run it again instead")
    if params["find_cache"] and (params["workers"] > 1 or params["repeat"] > 1):
        raise UsageError("--find-cache with --workers or --repeat: it reads one file; leave them out, and use --depth")
    if params["cached"] and params["cache"] not in ("", "remote"):
        raise UsageError(f"--cached with --cache {params['cache']}: it reads what the server has cached; leave it out")
    if params["evict_size"] and not params["cached"]:
        raise UsageError("--evict-size: only --cached evicts a file from the cache; add it, or leave this out")
    if params["budget"] and not (params["find_burst"] or params["cached"] or params["find_cache"]):
        raise UsageError(
            "--budget: only --find-burst, --cached and --find-cache decide how long to run; use --duration"
        )


def _flag(name: str) -> str:
    return "--" + name.rstrip("_").replace("_", "-")


def _size(text: str, option: str) -> int:
    found = parse_size(text, option)
    if found < 1:
        raise UsageError(f"{option} {text!r}: give at least 1 byte")
    return found


def _time(text: str, option: str) -> int:
    """Nanoseconds, 0 when not given."""
    if not text:
        return 0
    found = parse_duration(text, option)
    if found < 1:
        raise UsageError(f"{option} {text!r}: give more than 0")
    return found


def _price(params: Params) -> Price | None:
    from naslab.analysis.cost import Price

    given = params["price_per_hour"], params["price_per_month"], params["price_per_gb"]
    if not any(given):
        return None
    return Price(*given, stored_bytes=_size(params["stored"], "--stored") if params["stored"] else 0)


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


# --- measuring -------------------------------------------------------------------------------------------


class _Task:
    """What a checked command line does on a target. way: how the cache mode reaches the files."""

    def __init__(self, request: Request, common: Common, way: caching.Access, target: Target) -> None:
        self.request, self.common, self.way = request, common, way
        # A path's reads may come from this machine's own memory, where no step can show a server's.
        self.own_memory = target.protocol == "local" and not way.remote
        self.room = cached.Room(0)

    def cells(self, probed: Mapping[str, Any]) -> list[CellSpec]:
        """What is measured in the first stage. Raises UsageError when the room is too small."""
        request, common, options = self.request, self.common, self.request.options
        if request.cached:
            if not self.own_memory:
                free = (probed.get("space") or {}).get("free_bytes")
                self.room = cached.room(options, request.evict_bytes, common.most_bytes(), free)
            return cached.cached_cells(options, probed["caps"], self.room.evict_bytes)
        if request.find_cache:
            workingset.smallest_bytes(options)
            return plans.numbered(workingset.fill_cells(options))
        if request.find_burst:
            from naslab.commands.plans import burst

            cells = burst.first_run_cells(options, common.budget_ns() or burst.BUDGET_NS, request.rest_ns)
            return plans.numbered(cells)
        if request.scale:
            one = plans.sustained_cells(dataclasses.replace(options, repeat=1), request.rest_ns)
            return scales.scaled(one, request.scale, options.repeat, options.seed)
        return plans.sustained_cells(options, request.rest_ns)

    def work(self, execution: Execution, progress: Progress) -> None:
        """Measures, and describes what was measured however it ended."""
        asked, way = bool(self.request.options.cache), self.way
        part: dict[str, Any] = {
            "regimes": [], "burst": None, "cached": None, "cost": None,
            "cache": {"mode": way.name, "asked": asked, "notes": list(way.notes)},
        }  # fmt: skip
        budget_ns = self.common.budget_ns()
        try:
            if self.request.find_burst:
                from naslab.cli.find_burst import find_burst

                find_burst(execution, progress, self.request.options, budget_ns, part)
            elif self.request.cached:
                from naslab.cli.cached import measure_cached

                budget_ns = budget_ns or cached.BUDGET_NS
                measure_cached(execution, progress, budget_ns, self.room.by, self.own_memory, part)
            elif self.request.find_cache:
                from naslab.cli.workingset import measure_working_set

                budget_ns = budget_ns or workingset.BUDGET_NS
                measure_working_set(execution, progress, self.request.options, budget_ns, self.own_memory, part)
            else:
                execution.stage(execution.spec.cells)
        finally:
            if execution.begun:  # a run that was refused is not in the store any more
                self._describe(execution, part)

    def _describe(self, execution: Execution, part: dict[str, Any]) -> None:
        from naslab.analysis import sustained as analysis

        run = execution.store.load(execution.run_id)
        for cell in run.cells:
            # A series with a time without the server shows no plateau and no burst of the server.
            if cell["workload"] in ("sustained", "warm") and cell["status"] != "failed" and not cell.get("outages"):
                part["regimes"] += analysis.regimes_of(run, cell)
        sustained, burst = analysis.rates_to_pay_for(part)
        if self.request.price and sustained > 0:
            part["cost"] = analysis.cost_part(self.request.price, sustained, burst)
        execution.document["sustained"] = part
        updates: dict[str, Any] = {"sustained": part}
        if self.request.scale and (found := scaling.part(execution.document)):
            execution.document["scaling"] = updates["scaling"] = found
        execution.keep(**updates)
