"""Options that several commands share, each defined once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from naslab.errors import UsageError

TargetArg = Annotated[str, typer.Argument(help="What to measure: a folder, sim:…, null:.", show_default=False)]
RunArg = Annotated[str, typer.Argument(help="A run: its id, a unique prefix, `last`, or an exported .json file.")]
StoreOpt = Annotated[
    Optional[Path],  # noqa: UP045 - Typer reads this at run time
    typer.Option(
        "--store", help="File that keeps results.", envvar="NASLAB_STORE", show_default="the user's data folder"
    ),
]
JsonOpt = Annotated[bool, typer.Option("--json", help="Print exactly one JSON document on stdout.")]
QuietOpt = Annotated[bool, typer.Option("--quiet", help="No progress and no summary.")]
SeedOpt = Annotated[int, typer.Option("--seed", help="Seed of data, orders and simulated servers.", min=0)]
VerifyOpt = Annotated[bool, typer.Option("--verify", help="Tag every block and check it on reading.")]
LabelOpt = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--label", help="A condition of the test, key=value; may be repeated.", show_default=False),
]
NoteOpt = Annotated[str, typer.Option("--note", help="A remark kept with the run.", show_default=False)]
PlanOpt = Annotated[bool, typer.Option("--plan", help="Print cells, bytes, time and space; measure nothing.")]
MaxBytesOpt = Annotated[
    str, typer.Option("--max-bytes", help="Refuse a plan that moves more than this.", show_default=False)
]
BudgetOpt = Annotated[
    str, typer.Option("--budget", help="Start no further row after this time, e.g. 5m.", show_default=False)
]
TimeoutOpt = Annotated[str, typer.Option("--timeout", help="Give up when no operation ends for so long.")]
DirectOpt = Annotated[bool, typer.Option("--direct", help="Unbuffered I/O, and proof that it is unbuffered.")]
DepthOpt = Annotated[int, typer.Option("--depth", help="Operations in flight per worker.", min=1, max=4096)]
WorkersOpt = Annotated[int, typer.Option("--workers", help="Workers, each with a file of its own.", min=1, max=4096)]
RepeatOpt = Annotated[int, typer.Option("--repeat", help="Blocks; above 1 rows run in random order.", min=1, max=1000)]
DurabilityOpt = Annotated[
    str, typer.Option("--durability", help="none, end (one flush, timed apart) or each (durable writes).")
]
CompressOpt = Annotated[float, typer.Option("--compress", help="Written data compress this many times.", min=1.0)]
DedupeOpt = Annotated[float, typer.Option("--dedupe", help="Written data deduplicate this many times.", min=1.0)]
ReportOpt = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--report", "-o", help="Also write an HTML report to this file.", show_default=False),
]


def parse_labels(labels: list[str] | None) -> dict[str, str]:
    """`key=value` texts as a dict. Raises UsageError."""
    found: dict[str, str] = {}
    for text in labels or []:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"--label {text!r}: write key=value, e.g. --label ram=1g")
        found[key.strip()] = value.strip()
    return found
