"""What the repeats of applications say: medians, intervals, repeats that are the same, streams that kept up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from naslab.analysis.intervals import median_interval
from naslab.commands.apps.capacity import can_multiply
from naslab.commands.apps.generate import Plan
from naslab.commands.apps.model import TWELVE
from naslab.commands.apps.order import sequential_share
from naslab.results.parts.apps import App, Apps, StreamsHeld
from naslab.units import count_text, rate_text, size_label

if TYPE_CHECKING:
    from naslab.results.run import Run

PREPARE, CLEAN = "prepare", "clean"
"""Workloads of the cells around that of the application itself."""
THROUGHPUT = "bytes read and written by the application, over the window of its cell: first step to last, flushes too"
Cell = Mapping[str, Any]


def apps_document(run: Run, plans: Sequence[Plan], recorded: bool) -> Apps:
    """The part `apps` of the run document."""
    results = [_result(run, plan, _cells_of(plan, run.cells), recorded) for plan in plans]
    found = [result for result in results if result.cells]
    return Apps(plans[0].scale, "recorded" if recorded else "fast", THROUGHPUT, found, _identical(found))


def _cells_of(plan: Plan, cells: Sequence[Cell]) -> list[Cell]:
    """The whole runs of an application; one whose files could not all be prepared is none. Without any cell that
    prepares, a command before did that."""
    prepared = [c for c in cells if c["workload"] == PREPARE]
    sound = {c["id"] + 1 for c in prepared if c["status"] == "complete"} if prepared else {c["id"] for c in cells}
    own = [c for c in cells if c["workload"] == plan.definition.name and c["id"] in sound]
    own = [c for c in own if c["status"] == "complete" and c["bytes"]]
    return sorted(own, key=lambda cell: cell["block"])


def _result(run: Run, plan: Plan, cells: Sequence[Cell], recorded: bool) -> App:
    # Not the cell's own rate: its window leaves out the time in which a stream waits for its turn.
    rates = [cell["bytes"] * 1e9 / cell["window_ns"] for cell in cells]
    operations = [cell["ops"] * 1e9 / cell["window_ns"] for cell in cells]
    interval, coverage = median_interval(rates)
    paced = recorded and plan.duration_ns is not None
    return App(
        name=plan.definition.name,
        set=plan.definition.set,
        about=plan.definition.about,
        **plan.facts(),
        sequential_issued=[share for cell in cells if (share := issued_share(run, cell, plan)) is not None],
        cells=[cell["id"] for cell in cells],
        repeats=[cell["block"] + 1 for cell in cells],
        bytes_per_s=rates,
        median_bytes_per_s=median(rates) if rates else None,
        interval_bytes_per_s=[*interval] if interval else None,
        interval_coverage=coverage,
        operations_per_s=operations,
        median_operations_per_s=median(operations) if operations else None,
        paced=paced,
        missed_starts=sum(cell["missed_starts"] for cell in cells) if paced else None,
        streams_kept_up=min((_kept_up(plan, cell) for cell in cells), default=None) if paced else None,
        needs_bytes_per_s=needed_rate(plan),
    )


def needed_rate(plan: Plan) -> float | None:
    """What all its streams take together at the media's rate; None for what is more than played and recorded: that
    goes as fast as it can."""
    if not plan.duration_ns or not can_multiply(plan.definition):
        return None
    return (plan.moved_bytes("read") + plan.moved_bytes("write")) * 1e9 / plan.duration_ns


def issued_share(run: Run, cell: Cell, plan: Plan) -> float | None:
    """Share of sequential requests in the order in which they started; None where that was not recorded, or where
    requests of the plan are missing.

    Requests that started in the same nanosecond (of a simulated clock) are taken in the order planned.
    """
    log = run.step_log(cell)
    if plan.definition.sequential is None or not len(log):
        return None
    steps = plan.request_steps()
    started = {(int(row["worker"]), int(row["step"])): int(row["start_ns"]) for row in log}
    if not all(place in started for place in steps):
        return None
    issued = sorted(range(len(steps)), key=lambda number: (started[steps[number]], number))
    planned = plan.issued()
    return sequential_share([planned[number] for number in issued])


def _kept_up(plan: Plan, cell: Cell) -> int:
    """Streams whose last step ended no later than the application's length and what is kept ahead allow."""
    assert plan.duration_ns is not None and plan.buffer_ns is not None
    workers = cell["workers_detail"]
    if not cell["missed_starts"]:
        return len(workers)
    begin = min((worker["start_ns"] for worker in workers), default=0)
    late = begin + plan.duration_ns + plan.buffer_ns
    return sum(worker["end_ns"] <= late for worker in workers)


def _identical(results: Sequence[App]) -> list[list[int]]:
    """Groups of repeats whose rates are the same to a thousandth of a MB/s in every application."""
    tables = [dict(zip(one.repeats, one.bytes_per_s, strict=True)) for one in results]
    groups: dict[tuple[float | None, ...], list[int]] = {}
    for repeat in sorted({repeat for table in tables for repeat in table}):
        rates = tuple(round(table[repeat] / 1e6, 3) if repeat in table else None for table in tables)
        groups.setdefault(rates, []).append(repeat)
    return [group for group in groups.values() if len(group) > 1]


def identical_runs(runs: Sequence[tuple[str, Apps]]) -> list[list[str]]:
    """Groups of runs whose rates are the same to 0.001 MB/s in every application and repeat. runs: (name, `apps`)."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    for name, apps in runs:
        rates = [(one.name, tuple(round(rate / 1e6, 3) for rate in one.bytes_per_s)) for one in apps.results]
        groups.setdefault(tuple(sorted(rates)), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def median_rows(runs: Sequence[tuple[str, Apps]]) -> Iterator[tuple[str, ...]]:
    """Each application with its median (MB/s) in every run, side by side; "-" where a run has none."""
    tables = [{one.name: one.median_bytes_per_s for one in apps.results} for _, apps in runs]
    for name in dict.fromkeys(name for table in tables for name in table):
        yield (name, *(_mb(table.get(name)) for table in tables))


def identical_text(group: Sequence[int]) -> str:
    """What is odd about repeats that are the same."""
    numbers = ", ".join(map(str, group[:-1]))
    return (
        f"repeats {numbers} and {group[-1]} are identical in every test within 0.001 MB/s: those of a real "
        "server would differ"
    )


def sentences(apps: Apps) -> Iterator[str]:
    """What was run, how fast, and who kept up."""
    scale = "" if apps.scale == 1 else f" Files were scaled to {apps.scale:g} of their size."
    count = len(apps.results)
    yield f"MB/s of {count} application{'s' * (count != 1)}; those with NASPT's names are not NASPT scores.{scale}"
    ranked = sorted(apps.results, key=lambda one: one.median_bytes_per_s or 0)
    free = [f"{one.name}, {rate_text(rate)}" for one in ranked if not one.paced and (rate := one.median_bytes_per_s)]
    if free:
        yield f"Fastest: {free[-1]}" + (f"; slowest: {free[0]}." if len(free) > 1 else ".")
    for one in apps.results:
        if one.think_ns and not one.paced:
            most = (one.read_bytes + one.written_bytes) * 1e9 / one.think_ns
            yield f"{one.name} pauses by itself: on no server does it exceed about {rate_text(most)}."
        if one.paced:
            streams = f"{one.streams_kept_up} of {one.streams} streams kept up"
            yield f"{one.name} at recorded pace: {streams}, {one.missed_starts} steps started too late."
    yield from map(_held_text, apps.streams_held or ())


def _held_text(one: StreamsHeld) -> str:
    """How many streams were held, and why no more were found."""
    text = f"{one.name}: {one.streams} streams of {rate_text(one.stream_bytes_per_s)} were sustained"
    if one.failed_streams is not None:
        text += f", {one.failed_streams} were not"
    if one.stopped:
        text += f"; the true number may lie between, the search ended early: {one.stopped}"
    elif one.failed_streams is None:
        text += ", the maximum that naslab tries"
    return f"{text}."


def csv_text(apps: Apps) -> str:
    """Lines as in NASPerf-APP.csv: the twelve are lines 3 to 14, name and MB/s (10^6, median over the repeats).

    A test that was not run has no number; tests beside the twelve follow.
    """
    by_name = {one.name: one for one in apps.results}
    names = [*TWELVE, *(name for name in by_name if name not in TWELVE)]
    lines = [
        f"NASPT-class applications by naslab, scale {apps.scale:g}, pace {apps.pace}",
        "Test,Throughput MB/s",
    ]
    for name in names:
        rate = by_name[name].median_bytes_per_s if name in by_name else None
        lines.append(f"{name},{'' if rate is None else f'{rate / 1e6:.3f}'}")
    return "\n".join(lines) + "\n"


def rows(apps: Apps) -> Iterator[tuple[str, ...]]:
    """The rates of each application as texts, in the columns of `header`."""
    repeats = _repeats(apps)
    for one in apps.results:
        rates = dict(zip(one.repeats, one.bytes_per_s, strict=True))
        each = [_mb(rates.get(repeat)) for repeat in repeats] if len(repeats) > 1 else []
        yield (one.name, *each, _mb(one.median_bytes_per_s))


def header(apps: Apps) -> tuple[str, ...]:
    """Columns of `rows`: the name, MB/s (10^6) of each repeat, their median. Six repeats fit into 80 characters."""
    repeats = _repeats(apps)
    each = [f"run {repeat}" for repeat in repeats] if len(repeats) > 1 else []
    return ("application", *each, "median" if each else "MB/s")


FACTS = ("application", "95 %", "ops/s", "largest", "% seq.", "issued", "publ.")
"""Columns of `fact_rows`: the name, interval of the median (MB/s), operations of all kinds per second (median), largest
request, percentage of sequential requests as planned, as issued (median over the repeats) and as published."""


def fact_rows(apps: Apps) -> Iterator[tuple[str, ...]]:
    """What each application did, as texts, in the columns of `FACTS`."""
    for one in apps.results:
        issued = [share for share in one.sequential_issued if share is not None]
        interval = one.interval_bytes_per_s
        yield (
            one.name, f"{_mb(interval[0])}-{_mb(interval[1])}" if interval else "-",
            _count(one.median_operations_per_s), size_label(one.largest_request_bytes),
            _percent(one.sequential), _percent(median(issued) if issued else None),
            _percent(one.sequential_published),
        )  # fmt: skip


def _repeats(apps: Apps) -> list[int]:
    return sorted({repeat for one in apps.results for repeat in one.repeats})


def _mb(rate: float | None) -> str:
    return "-" if rate is None else count_text(rate / 1e6)


def _count(rate: float | None) -> str:
    return "-" if rate is None else count_text(rate)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.3g}"
