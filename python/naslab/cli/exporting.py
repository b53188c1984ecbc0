"""`naslab export RUN...`: stored runs as a file for other programs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from naslab.cli import options as o


def export(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="One or more runs.", show_default=False)],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE",
            help="FILE.json, .csv, .xlsx, .parquet, .series.csv, .series.parquet, .prom, .om or .fio.json.",
        ),
    ],
    format: Annotated[
        str,
        typer.Option(
            "--format", metavar="NAME",
            help="json, csv, xlsx, parquet, series.csv, series.parquet, prometheus, openmetrics or fio, where the "
            "file's name does not tell.",
            show_default=False,
        ),
    ] = "",
    redact: o.RedactOpt = False,
    store: o.StoreOpt = None,
) -> int:  # fmt: skip
    """Write runs as JSON (one, complete), CSV, XLSX, Parquet, Prometheus or OpenMetrics text, or fio's JSON."""
    from naslab.exchange.export import export as write
    from naslab.outputs import EXPORT, check_output

    check_output(output, "-o", EXPORT)
    found = _loaded(runs, store, redact)
    path = write(found, output, format or None, say=lambda text: print(f"naslab: {text}", file=sys.stderr))
    print(f"Exported: {path}")
    return 0


def _loaded(references: list[str], store: Path | None, redact: bool) -> list[Any]:
    """The runs as they leave the machine: the one place where they are loaded."""
    from naslab.redact import store_for

    opened = store_for(store, redact)
    return [opened.load(reference) for reference in references]
