"""`naslab lab run EXPERIMENT`: an article's systems measured, and its conclusions judged."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from naslab import load
from naslab.cli import options as o
from naslab.cli.groups import with_arguments
from naslab.errors import INTERRUPTED, UnknownRunError, UsageError
from naslab.units import parse_duration, percent_text

if TYPE_CHECKING:
    from naslab.lab.experiment import Experiment
    from naslab.lab.experiment_result import Measurements
    from naslab.results.run import Run

ExperimentArg = Annotated[
    str,
    typer.Argument(
        metavar="EXPERIMENT", help="fast-nas, raid5-naspt, nas4220, fsx-32, nfs-servers, or FILE.toml.",
        show_default=False,
    ),
]  # fmt: skip
FullOpt = Annotated[bool, typer.Option("--full", help="Use the article's own sizes instead of scaled ones: hours.")]
QuickOpt = Annotated[
    bool,
    typer.Option("--quick", help="Use the smallest sizes and start each guest once for all repeats: minutes."),
]
CalibrateOpt = Annotated[
    bool,
    typer.Option("--calibrate", help="First measure each system's planted limits with other tools: 10 to 25 s each."),
]
DryOpt = Annotated[bool, typer.Option("--dry-run", help="Show what would be built and measured; build nothing.")]
RepeatsOpt = Annotated[
    Optional[int],  # noqa: UP045 - Typer reads this at run time
    typer.Option(
        "--repeat", metavar="N", help="Repeats of every condition; at least 3 to decide anything.", min=1, max=1000,
        show_default="the experiment's own",
    ),
]  # fmt: skip
UntilOpt = Annotated[
    str,
    typer.Option(
        "--until", metavar="decided", show_default=False,
        help="Repeat what open claims need until all are decided, at most 40 times, or up to --repeat or --budget.",
    ),
]  # fmt: skip
OnlyOpt = Annotated[
    str,
    typer.Option("--only", metavar="IDS", help="Measure only these conditions, with commas.", show_default="all"),
]
ImportOpt = Annotated[
    Optional[list[str]],  # noqa: UP045 - Typer reads this at run time
    typer.Option(
        "--import", metavar="ID=RUN", show_default=False,
        help="A condition measured elsewhere: a run's id, or a file of naslab or IOzone; once for each repeat.",
    ),
]  # fmt: skip
DECIDED = "decided"
PLANNED_SPREADS = (0.05, 0.07)
"""Standard deviations of a rate that equivalence claims are planned with."""
StateOpt = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        "--state", metavar="FILE", show_default=False,
        help="Keep the result here after each repeat; the same command continues from it.",
    ),
]  # fmt: skip
ReportOpt = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--output", "-o", metavar="FILE", help="Also write an HTML report to this file.", show_default=False),
]


@dataclass(frozen=True)
class ExperimentArguments:
    """Of `naslab lab run`."""

    name: ExperimentArg
    full: FullOpt = False
    quick: QuickOpt = False
    calibrate: CalibrateOpt = False
    dry_run: DryOpt = False
    repeat: RepeatsOpt = None
    until: UntilOpt = ""
    only: OnlyOpt = ""
    given: ImportOpt = None
    seed: o.SeedOpt = 0
    budget: o.BudgetOpt = ""
    state: StateOpt = None
    report: ReportOpt = None
    store: o.StoreOpt = None
    as_json: o.JsonOpt = False
    quiet: o.QuietOpt = False


@with_arguments
def run(arguments: ExperimentArguments) -> int:
    """Run an article's experiment, and test its conclusions against the measurements."""
    from naslab.execution.waits import termination_as_interrupt
    from naslab.lab.calibrate import of_experiment
    from naslab.lab.experiment_bench import bring_up_lab
    from naslab.lab.run_experiment import run_experiment
    from naslab.text.outputs import HTML, check_output

    a = arguments
    found = _asked_for(a)
    if a.dry_run:
        print("\n".join(_plan(found, found.repeats if a.repeat is None else a.repeat, bool(a.until))))
        return 0
    if a.report is not None:
        check_output(a.report, "-o", HTML)
    before = _before(a.state, found, a.seed, a.store)
    limit_s = parse_duration(a.budget, "--budget") / 1e9 if a.budget else float("inf")
    documents = _given(a.given or [], a.store)
    started = time.monotonic()
    say = _sayer(a.quiet)
    with termination_as_interrupt():
        failed = of_experiment.calibrate_experiment(found, say) if a.calibrate else []
        result = run_experiment(
            found, bring_up_lab(a.store), repeats=a.repeat, keep=a.quick, until=bool(a.until), seed=a.seed,
            given=documents, before=before, kept=lambda result: _keep(result, a.state), say=say,
            enough=lambda: time.monotonic() - started > limit_s,
        )  # fmt: skip
    of_experiment.record(found, result, failed)
    _add_series(found, result, a.state, a.store)
    return _tell(result, a.report, a.as_json, a.quiet, a.store)


def _asked_for(a: ExperimentArguments) -> Experiment:
    """The experiment at its size, with the conditions asked for. Raises UsageError."""
    from naslab.lab import experiment

    if a.full and a.quick:
        raise UsageError("--full and --quick: sizes are the article's or the smallest; leave one out")
    if a.until not in ("", DECIDED):
        raise UsageError(f"--until {a.until!r}: write --until {DECIDED}, or give a number of repeats with --repeat")
    return _chosen(experiment.load(a.name, "full" if a.full else "quick" if a.quick else "scaled"), a.only)


def _before(state: Path | None, found: Experiment, seed: int, store: Path | None) -> Measurements | None:
    """What the file of --state holds. Raises UsageError, also where it is a file of somebody's."""
    from naslab.lab.experiment_state import read_state
    from naslab.text.outputs import EXPERIMENT, check_output

    if state is None:
        return None
    check_output(state, "--state", EXPERIMENT)
    return read_state(state, found, seed, lambda run_id: _document(run_id, store))


def _keep(result: dict[str, Any], state: Path | None) -> None:
    """Writes the state of the experiment."""
    from naslab.text.outputs import EXPERIMENT, write_output

    if state is not None:
        write_output(json.dumps(result, allow_nan=False), state, "--state", EXPERIMENT)


def _add_series(found: Experiment, result: dict[str, Any], state: Path | None, store: Path | None) -> None:
    """Adds what charts over time show, from the store, and writes the state with it."""
    from naslab.render.report.experiment_series import add_series, shown_runs

    add_series(found, result, _stored(shown_runs(result), store))
    _keep(result, state)


def _document(run_id: str, store: Path | None) -> dict[str, Any]:

    return dict(load(run_id, None if store is None else str(store)).document)


def _sayer(quiet: bool) -> Callable[[str], None]:
    """Says what happens, to people and to programs that watch: the cells are measured by processes of their own."""
    from naslab.cli.live import current

    live, started = current(), time.monotonic()

    def say(text: str) -> None:
        if live is not None:
            live.say("phase", name=text)
        if not quiet:
            print(f"naslab: {time.monotonic() - started:5.0f} s, {text}", file=sys.stderr, flush=True)

    return say


def _tell(result: dict[str, Any], report: Path | None, as_json: bool, quiet: bool, store: Path | None) -> int:
    """Writes the report and prints the result; the exit code."""
    if report is not None:
        from naslab.render.report.experiment import timed_runs, write

        write(result, report, _stored(timed_runs(result), store))
    if as_json:
        print(json.dumps(result, allow_nan=False))
    elif not quiet:
        print("\n".join(_words(result, report)))
    if result["interrupted"]:
        return INTERRUPTED
    return 0 if result["measurements"] else 1


def _stored(run_ids: Sequence[str], store: Path | None) -> dict[str, Run]:
    """Runs that are in the store; those that came by --import are not."""
    found: dict[str, Run] = {}
    for run_id in run_ids:
        with contextlib.suppress(UnknownRunError):
            found[run_id] = load(run_id, None if store is None else str(store))
    return found


def _chosen(found: Experiment, only: str) -> Experiment:
    """The experiment with conditions that were not asked for left out. Raises UsageError for unknown ones."""
    if not only:
        return found
    wanted, known = [each.strip() for each in only.split(",")], [each.id for each in found.conditions]
    if unknown := [each for each in wanted if each not in known]:
        raise UsageError(f"--only {unknown[0]!r}: {found.name} has no such condition; it has {', '.join(known)}")
    conditions = tuple(
        each if each.id in wanted or each.missing else dataclasses.replace(each, missing="left out by --only")
        for each in found.conditions
    )
    return dataclasses.replace(found, conditions=conditions)


def _plan(found: Experiment, repeats: int, until: bool = False) -> list[str]:
    """What a run would build and measure, for a terminal."""
    count = "repeats until all claims are decided" if until else f"{repeats} repeats"
    lines = [f"{found.title}: {found.scale}, {count}", ""]
    for one in found.conditions:
        if one.missing:
            lines.append(f"{one.id:<16} not measured: {one.missing}")
            continue
        system = found.systems[one.system]
        told = [f"on {_parts(system.parts)}" if system.parts else f"on {system.target}"]
        for test in (found.tests[name] for name in one.tests):
            told.append(f"naslab {' '.join([test.command, *test.words, *one.words])}")
        told += [f"other load: naslab {words}" for words in one.beside_words]
        told += ["with naslab's own client in the guest"] if one.client == "own" else []
        lines += [f"{one.id:<16} {system.what}", *(f"{'':<16} {line}" for line in told)]
    if found.tune:
        wanted = f"{found.tune.wanted / 1e6:.4g} MB/s"
        lines += ["", f"First, naslab searches for the processor share at which {found.tune.system} reaches {wanted}."]
    return [*lines, "", f"{len(found.claims)} claims, {len(found.published)} published numbers", *_equivalences(found)]


def _equivalences(found: Experiment) -> list[str]:
    """How many repeats the claims of `the same` take, where the ratio is exactly 1."""
    from naslab.analysis.intervals import LEVEL
    from naslab.analysis.sequential import nominal_level, repeats_needed

    claims = [one for one in found.claims if 0 < one.region[0] < 1 < one.region[1] < math.inf and len(one.sides) == 2]
    if not claims:
        return []
    level = nominal_level(LEVEL)
    near = min(min(-math.log(low), math.log(high)) for low, high in (one.region for one in claims))
    told = [
        f"{math.ceil(repeats_needed(near, math.sqrt(2) * spread, level, both=True))} repeats at a spread of "
        f"{percent_text(spread)}" for spread in PLANNED_SPREADS
    ]  # fmt: skip
    return [f"Of these, {len(claims)} say that two rates are equal; showing that takes about {' and '.join(told)}."]


def _parts(parts: Mapping[str, Any]) -> str:
    """Parts of a system in one line: `disks count 2, size 8GiB; volume level pool`."""
    found = []
    for key, value in parts.items():
        for table in value if isinstance(value, list) else [value]:
            if isinstance(table, dict):
                found.append(f"{key} {', '.join(f'{name} {each}' for name, each in table.items())}")
    return "; ".join(found)


def _given(pairs: Sequence[str], store: Path | None) -> dict[str, list[dict[str, Any]]]:
    """Run documents by condition. Raises UsageError, StoreError."""

    found: dict[str, list[dict[str, Any]]] = {}
    for pair in pairs:
        name, equals, run_name = pair.partition("=")
        if not equals:
            raise UsageError(f"--import {pair!r}: write ID=RUN with a condition, and a run's id or file")
        found.setdefault(name, []).append(_measured_elsewhere(run_name, store))
    return found


def _measured_elsewhere(name: str, store: Path | None) -> dict[str, Any]:
    """The document of a stored run, of an exported one, or of another tool's file. Raises UsageError."""
    from naslab.exchange.importers.build import read_file

    if not Path(name).is_file():
        return _document(name, store)
    runs = read_file(Path(name))
    if len(runs) != 1:
        raise UsageError(f"--import {name}: it holds {len(runs)} runs; give a file with one")
    return dict(runs[0].document)


def _words(result: dict[str, Any], report: Path | None) -> list[str]:
    """The result for a terminal: each conclusion with its verdict and why."""
    lines = [result["title"], ""]
    for claim in result["claims"]:
        lines += [f"{claim['verdict']:<18} {claim['words']}", f"{'':<18} {claim['why']}"]
    lines += ["", *result["summary"], *_costs(result), *(f"Note: {note}." for note in result["notes"])]
    return [*lines, f"Report: {report.resolve()}"] if report else lines


def _costs(result: dict[str, Any]) -> Iterator[str]:
    """What moving data costs, where a test was given a price, beside the article's."""
    names = {"sustained_per_tib": "sustained", "burst_per_tib": "burst"}
    for one in result["costs"]:
        if one["name"] in names:
            article = "" if one["published"] is None else f", article {one['published']:.3g}"
            rate = f"a TiB moved at the {names[one['name']]} rate"
            yield f"Cost of {rate}: {statistics.median(one['values']):.3g}{article} ({one['condition']})."
