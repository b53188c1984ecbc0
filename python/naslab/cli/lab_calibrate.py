"""`naslab lab calibrate`: each planted limit of a system beside what another tool measures of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from naslab.cli import options as o
from naslab.cli.lab import chosen_limits
from naslab.errors import UsageError

if TYPE_CHECKING:
    from naslab.lab.calibrate import Calibration

CALIBRATED_MISSES = 1
"""Exit code where a part misses its planted limit: it ran, and the system is not what it says."""

SystemArg = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="A system that `naslab lab list` names, or FILE.toml that describes one.",
        show_default=False,
    ),
]
SetOpt = Annotated[
    Optional[list[str]],  # noqa: UP045 - Typer reads this at run time
    typer.Option(
        "--set", metavar="NAME=VALUE", show_default=False,
        help="Change a value: burst=120MB/s or, for a system with parts, disks.size=1GiB, link.rate=100Mbit/s.",
    ),
]  # fmt: skip


QuickOpt = Annotated[bool, typer.Option("--quick", help="Measure each limit in one short run instead of three.")]


def run(
    name: SystemArg, planted: SetOpt = None, quick: QuickOpt = False, as_json: o.JsonOpt = False,
    quiet: o.QuietOpt = False,
) -> int:  # fmt: skip
    """Measure each planted limit with fio, iperf3, smbclient and the like; later results carry the measured values.

    A system that is not up is built for this and taken down. Exit code 1: a part is more than 5 % off.
    """
    from naslab.execution.waits import termination_as_interrupt
    from naslab.lab import calibrate

    def say(text: str) -> None:
        if not quiet:
            print(f"naslab: measuring {text}", file=sys.stderr, flush=True)

    with termination_as_interrupt():
        found = _calibrated(name, planted or [], say, quick)
    calibrate.keep(found)
    if as_json:
        print(json.dumps(found.as_dict(), allow_nan=False))
    elif not quiet:
        print("\n".join(_words(found)))
    return 0 if found.holds else CALIBRATED_MISSES


def _calibrated(name: str, planted: list[str], say: Callable[[str], None], quick: bool) -> Calibration:
    """One that is up is measured as it is; another is built. Raises UsageError, TargetError."""
    from naslab.lab import calibrate, state

    called = Path(name).stem if name.endswith(".toml") else name
    runs, seconds = calibrate.QUICK if quick else calibrate.THOROUGH
    server = state.find(called)
    if server is None:
        return calibrate.calibrate_system(name, chosen_limits(name, planted), runs=runs, seconds=seconds, say=say)
    if planted:
        raise UsageError(f"--set {planted[0]!r}: {called} is up with its own limits; leave it out, or end it first")
    return calibrate.calibrate(server, runs=runs, seconds=seconds, say=say)


def _words(found: Calibration) -> list[str]:
    from naslab.lab.calibrate.finding import table

    return [f"{found.system}, built by {found.backend}, measured at {found.measured_at}", "",
            *table(found.findings), "", found.summary()]  # fmt: skip
