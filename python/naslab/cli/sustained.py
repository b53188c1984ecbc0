"""`naslab sustained`: one load for a while, the burst behind it, or the network alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from naslab.cli.common import Common, Load, measure
from naslab.cli.options import parse_labels
from naslab.cli.progress import Progress
from naslab.errors import UsageError
from naslab.execute import Execution, probe, start
from naslab.plans import sustained as plans
from naslab.spec import CellSpec
from naslab.store import Store
from naslab.units import parse_duration, parse_size

if TYPE_CHECKING:
    from naslab.analysis.cost import Price

Params = Mapping[str, Any]
DEFAULT_SIZE, DEFAULT_DURATION = "1g", "60s"


@dataclass
class Request:
    """A checked command line. price: None without one. rest_ns: idle time between filling and load."""

    options: plans.LoadOptions
    price: Price | None
    find_burst: bool
    cached: bool
    rest_ns: int


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
    options = request.options
    options.direct = options.direct or target.direct
    options.seed = common.seed
    probed = probe(target, [CellSpec("read", 1, 1, ["x"], queue_depth=options.depth)])
    plans.check(options, probed["caps"])
    spec.cells = _cells(request, common, probed["caps"])
    for cell in spec.cells:
        cell.validate()
    _check_bytes(spec.cells, common)
    spec.cleanup_files = sorted({file for cell in spec.cells for file in cell.files})
    execution = start(spec, target, Store(common.store), document_extra=common.document_extra())
    return measure(execution, common, spec.cells, lambda shown: _work(execution, shown, request, common))


def parse(params: Params) -> Request:
    """The command's own options. Raises UsageError naming the option for what cannot be or contradicts."""
    _refuse_pairs(params)
    load = Load(
        params["repeat"], params["depth"], params["workers"], params["durability"], params["direct"],
        params["compress"], params["dedupe"], params["verify"],
    )  # fmt: skip
    checked = load.options(params["seed"], params["direct"])
    size = params["size"] or (str(plans.CACHED_FILE_BYTES) if params["cached"] else DEFAULT_SIZE)
    options = plans.LoadOptions(
        _size(size, "--size"), _size(params["block"], "--block"), params["write"], params["random"],
        interlocked=params["interlocked"], depth=params["depth"], workers=params["workers"],
        burst_ops=params["burst_ops"], durability=checked.durability, direct=checked.direct, verify=checked.verify,
        repeat=checked.repeat, data=checked.data,
    )  # fmt: skip
    options.align_bytes = _size(params["align"], "--align") if params["align"] else None
    options.stride_bytes = _size(params["stride"], "--stride") if params["stride"] else None
    plans.parse_distribution(params["distribution"], options)
    _times(params, options)
    if params["rate"]:
        options.rate_per_s = plans.parse_rate(params["rate"], options.block_bytes)
    rest_ns = _time(params["rest"], "--rest")
    if rest_ns and not options.fills and options.repeat == 1:
        raise UsageError("--rest: this load fills no files first, so there is nothing to rest from; leave it out")
    return Request(options, _price(params), params["find_burst"], params["cached"], rest_ns)


def _times(params: Params, options: plans.LoadOptions) -> None:
    options.stop_bytes = _size(params["bytes_"], "--bytes") if params["bytes_"] else None
    default = "" if options.stop_bytes else DEFAULT_DURATION
    options.duration_ns = _time(params["duration"] or default, "--duration") or None
    options.warmup_ns = _time(params["warmup"], "--warmup")
    options.cooldown_ns = _time(params["cooldown"], "--cooldown")
    options.burst_gap_ns = _time(params["burst_gap"], "--burst-gap")


def _refuse_pairs(params: Params) -> None:
    """Options that say two things at once."""
    both = (
        ("bytes_", "duration", "two ends; give one of them"),
        ("find_burst", "cached", "two different questions; ask one at a time"),
        ("find_burst", "bytes_", "it runs until enough is known; --budget bounds it"),
        ("find_burst", "duration", "it runs until enough is known; --budget bounds it"),
        ("find_burst", "warmup", "the burst is at the beginning; leave the warm-up out"),
        ("find_burst", "cooldown", "it idles after the load; leave the cool-down out"),
        ("find_burst", "rate", "it needs all the speed there is"),
        ("find_burst", "burst_ops", "it needs constant load"),
        ("cached", "write", "it reads"),
        ("cached", "random", "it reads from the start to the end"),
        ("cached", "bytes_", "it reads for a --duration"),
        ("cached", "direct", "unbuffered reads on a server's own disk do not fill its cache"),
        ("cached", "warmup", "its first pass is a result"),
    )
    for one, other, why in both:
        if params[one] and params[other]:
            raise UsageError(f"{_flag(one)} with {_flag(other)}: {why}")
    if params["find_burst"] and params["repeat"] > 1:
        raise UsageError("--find-burst with --repeat: a burst that was used up is not there again; run it later anew")
    if params["find_burst"] and params["durability"] == "none" and params["write"]:
        raise UsageError("--find-burst with --durability none: the flush is part of the evidence; leave it out")
    if params["price_per_gb"] and not params["stored"]:
        raise UsageError("--price-per-gb: the price is for the storage; say how much with --stored SIZE")
    if params["budget"] and not params["find_burst"]:
        raise UsageError("--budget: only --find-burst decides how long to run; use --duration")


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


def _cells(request: Request, common: Common, caps: Mapping[str, Any]) -> list[CellSpec]:
    """What is measured in the first stage."""
    if request.cached:
        return plans.cached_cells(request.options, caps)
    if request.find_burst:
        from naslab.plans import burst

        cells = burst.first_run_cells(request.options, common.budget_ns() or burst.BUDGET_NS, request.rest_ns)
        return plans.numbered(cells)
    return plans.sustained_cells(request.options, request.rest_ns)


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


def _work(execution: Execution, progress: Progress, request: Request, common: Common) -> None:
    """Measures, and describes what was measured however it ended."""
    part: dict[str, Any] = {"regimes": [], "burst": None, "cached": None, "cost": None}
    try:
        if request.find_burst:
            from naslab.cli.find_burst import find_burst

            find_burst(execution, progress, request.options, common.budget_ns(), part)
        else:
            execution.stage(execution.spec.cells)
    finally:
        _describe(execution, request, part)


def _describe(execution: Execution, request: Request, part: dict[str, Any]) -> None:
    from naslab.analysis import sustained as analysis

    run = execution.store.load(execution.run_id)
    for cell in run.cells:
        if cell["workload"] in ("sustained", "warm") and cell["status"] != "failed":
            part["regimes"] += analysis.regimes_of(run, cell)
    by_name = {cell["workload"]: cell for cell in run.cells if cell["status"] == "complete"}
    if request.cached and {"cold", "warm"} <= by_name.keys():
        part["cached"] = analysis.cached_part(by_name["cold"], by_name["warm"], execution.target.protocol)
    sustained, burst = analysis.rates_to_pay_for(part)
    if request.price and sustained > 0:
        part["cost"] = analysis.cost_part(request.price, sustained, burst)
    execution.document["sustained"] = part
    execution.store.update_run(execution.run_id, sustained=part)
