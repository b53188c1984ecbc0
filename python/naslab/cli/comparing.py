"""The commands that compare: their options. What they do is in the modules they import."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from naslab.cli import options as o
from naslab.cli.arguments import CommonArguments
from naslab.cli.groups import with_arguments

MarginOpt = Annotated[
    float, typer.Option("--margin", metavar="PERCENT", help="Rates that differ by less than this are equivalent.")
]
WhyOpt = Annotated[
    bool,
    typer.Option(
        "--why", help="For runs of naslab run: name the first step of the ladder at which the targets differ."
    ),
]


ComparedArg = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN RUN...",
        show_default=False,
        help="The baseline, then what is compared with it; several runs of one target: A1,A2,A3.",
    ),
]
InTurnsOpt = Annotated[
    bool,
    typer.Option(
        "--run",
        help="Names are targets: measure them alternately until the verdict is certain, with these tests and sizes.",
    ),
]


@dataclass(frozen=True)
class CompareArguments:
    """Of `naslab compare`."""

    runs: ComparedArg
    run: InTurnsOpt = False
    margin: MarginOpt = 5.0
    every: Annotated[bool, typer.Option("--all", help="List every measurement, not only the decisive ones.")] = False
    why: WhyOpt = False
    file_size: o.FileSizesOpt = "64m"
    record: o.RecordsOpt = "4k,1m"
    tests: o.TestsOpt = "write,read,random_read,random_write"
    depth: o.DepthOpt = 1
    workers: o.WorkersOpt = 1
    durability: o.DurabilityOpt = "end"
    direct: o.DirectOpt = False
    budget: o.BudgetOpt = ""
    redact: o.RedactOpt = False
    common: CommonArguments = field(default_factory=CommonArguments)


@with_arguments
def compare(arguments: CompareArguments) -> int:
    """Is the difference real: better, worse, equivalent or undecided, with intervals."""
    from naslab.cli.common import Common, Load
    from naslab.cli.compare import Request, compare_measured, compare_stored
    from naslab.cli.interleave import Plan

    a, common = arguments, arguments.common
    request = Request(a.runs, a.margin, a.every, common.report, common.store, common.as_json, a.why, a.redact)
    if not a.run:
        return compare_stored(request)
    load = Load(1, a.depth, a.workers, a.durability, a.direct)
    plan = Plan(a.runs, a.file_size, a.record, a.tests, load, a.margin / 100)
    return compare_measured(request, plan, Common.of("compare", arguments))


def check(
    run: o.RunArg,
    baseline: Annotated[
        str,
        typer.Option(
            "--baseline",
            metavar="RUN",
            help="Baseline that RUN must not be worse than: a run, or A1,A2,A3.",
            show_default=False,
        ),
    ] = "",
    margin: MarginOpt = 5.0,
    any_measurement: Annotated[
        bool, typer.Option("--any", help="Fail if any single measurement is worse, not only all together.")
    ] = False,
    junit: Annotated[
        Path | None,
        typer.Option("--junit", metavar="FILE", help="JUnit XML to write, for a CI server.", show_default=False),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="List every measurement, not only the decisive ones.")] = False,
    report: o.ReportOpt = None,
    redact: o.RedactOpt = False,
    store: o.StoreOpt = None,
    as_json: o.JsonOpt = False,
) -> int:
    """A gate for releases: exit code 0 if a run is not worse than the baseline, 3 worse, 4 undecided."""
    from naslab.cli.check import Gate, run_check
    from naslab.cli.compare import Request

    request = Request([baseline, run], margin, every, report, store, as_json, redact=redact)
    return run_check(Gate(run, baseline, junit, any_measurement), request)


def rerun(
    run: o.RunArg,
    target: Annotated[str, typer.Argument(metavar="TARGET", help=o.TARGET_HELP)],
    margin: MarginOpt = 5.0,
    seed: o.SeedOpt = 0,
    timeout: o.TimeoutOpt = "30s",
    credentials: o.CredentialsOpt = None,
    label: o.LabelOpt = None,
    note: o.NoteOpt = "",
    report: o.ReportOpt = None,
    store: o.StoreOpt = None,
    as_json: o.JsonOpt = False,
    quiet: o.QuietOpt = False,
) -> int:
    """Repeat the tests of a stored run on any target, and compare the two."""
    from naslab.cli.common import Common
    from naslab.cli.compare import Request
    from naslab.cli.rerun import run_rerun

    common = Common(
        "rerun", store, as_json, quiet, seed, o.parse_labels(label), note, timeout, report, "", "", credentials
    )
    return run_rerun(run, target, Request([run], margin, False, report, store, as_json), common)


def history(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="A target, or a part of its name.")],
    command: Annotated[
        str, typer.Option("--command", metavar="NAME", help="Only runs of this command, e.g. sweep.")
    ] = "",
    label: Annotated[str, typer.Option("--label", metavar="TEXT", help="Only runs whose labels contain this.")] = "",
    report: o.ReportOpt = None,
    redact: o.RedactOpt = False,
    store: o.StoreOpt = None,
    as_json: o.JsonOpt = False,
) -> int:
    """Stored runs of a target over time, and the run at which it changed."""
    from naslab.cli.history import Request, run_history

    return run_history(Request(target, label, command, report, store, as_json, redact))
