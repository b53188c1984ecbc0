"""`naslab export RUN...`: stored runs as a file for other programs, or as a folder of pages."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from naslab.cli import options as o
from naslab.errors import UsageError
from naslab.exchange.references import load

SiteOpt = Annotated[
    Optional[Path],  # noqa: UP045 - Typer reads this at run time
    typer.Option(
        "--site", metavar="DIR", show_default=False,
        help="Write pages for any web server instead of a file; DIR is new, empty or an earlier export.",
    ),
]  # fmt: skip
OtlpOpt = Annotated[
    str,
    typer.Option(
        "--otlp", metavar="URL", show_default=False,
        help="Send them to an OpenTelemetry collector, http://HOST:4318, instead of a file.",
    ),
]  # fmt: skip
NEWEST = 50
"""Runs of a site where none are named."""


def export(
    runs: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(
            metavar="RUN...", help="One or more runs; with --site none is needed: the newest.", show_default=False
        ),
    ] = None,
    output: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "--output", "-o", metavar="FILE", show_default=False,
            help="FILE.json, .csv, .xlsx, .parquet, .series.csv, .series.parquet, .prom, .om or .fio.json.",
        ),
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            "--format", metavar="NAME",
            help="json, csv, xlsx, parquet, series.csv, series.parquet, prometheus, openmetrics or fio, where the "
            "file's name does not show it.",
            show_default=False,
        ),
    ] = "",
    site: SiteOpt = None,
    otlp: OtlpOpt = "",
    target: Annotated[str, typer.Option("--target", metavar="TEXT", help="Only targets with this in the name.")] = "",
    limit: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--limit", metavar="N", help="At most N runs, newest first.", min=1, show_default=str(NEWEST)),
    ] = None,
    redact: o.RedactOpt = False,
    store: o.StoreOpt = None,
) -> int:  # fmt: skip
    """Write runs as JSON (one, complete), CSV, XLSX, Parquet, Prometheus or OpenMetrics text, fio's JSON, or a site.

    With --site the library is written as files, for any web server or to be opened from a disk; --target and --limit
    choose its runs if none are named. With --otlp the runs go to an OpenTelemetry collector.
    """
    if site is not None:
        _check_no_file(f"--site {site}: pages are written", output, format)
        if otlp:
            raise UsageError(f"--site {site}: pages are written, and nothing is sent; leave --otlp out")
        return export_site(runs or [], target, NEWEST if limit is None else limit, site, store, redact)
    if target or limit is not None:
        raise UsageError("--target and --limit choose the runs of a --site; name the runs to export: naslab runs")
    if otlp:
        _check_no_file(f"--otlp {otlp}: a collector gets the runs", output, format)
        return _send(runs or [], otlp, store, redact)
    if not runs or output is None:
        missing = "RUN" if not runs else "-o FILE"
        raise UsageError(f"export: {missing} is missing; for example: naslab export last -o run.xlsx")
    return _export_file(runs, output, format, store, redact)


def _check_no_file(instead: str, output: Path | None, format: str) -> None:
    """Raises UsageError where a file is named, too."""
    if output is not None or format:
        raise UsageError(f"{instead}, and no file; leave -o and --format out")


def export_site(runs: list[str], target: str, limit: int, folder: Path, store: Path | None, redact: bool) -> int:
    """The library as files. Raises UsageError for a folder that holds what naslab did not write."""
    from naslab.exchange.redact import store_for
    from naslab.render.web.site import Chosen, write_site

    written = write_site(store_for(store, redact), Chosen(tuple(runs), target, limit), folder)
    print(f"Site: {written.resolve() / 'index.html'}")
    return 0


def _send(runs: list[str], where: str, store: Path | None, redact: bool) -> int:
    from naslab.exchange import otlp

    where = otlp.endpoint(where)
    if not runs:
        raise UsageError(f"export: RUN is missing; for example: naslab export last --otlp {where}")
    count = otlp.send(_loaded(runs, store, redact), where)
    print(f"Sent: {count:,} values to {where}")
    return 0


def _export_file(runs: list[str], output: Path, format: str, store: Path | None, redact: bool) -> int:
    from naslab.exchange.export import export as write
    from naslab.text.outputs import EXPORT, check_output

    check_output(output, "-o", EXPORT)
    found = _loaded(runs, store, redact)
    path = write(found, output, format or None, say=lambda text: print(f"naslab: {text}", file=sys.stderr))
    print(f"Exported: {path}")
    return 0


def _loaded(references: list[str], store: Path | None, redact: bool) -> list[Any]:
    """The runs as they leave the machine: the one place where they are loaded."""
    from naslab.exchange.redact import store_for

    opened = store_for(store, redact)
    return [load(opened, reference) for reference in references]
