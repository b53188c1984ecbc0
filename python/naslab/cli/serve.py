"""`naslab serve`: the library of results in a browser; and `naslab site`, the old name of `naslab export --site`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from naslab.cli import options as o
from naslab.cli.exporting import export_site
from naslab.errors import UsageError
from naslab.text.printable import raw

if TYPE_CHECKING:
    from naslab.results.store.library import Library

ListenOpt = Annotated[
    str, typer.Option("--listen", metavar="[ADDR:]PORT", help="Where to listen; other addresses need --token.")
]
TokenOpt = Annotated[
    str,
    typer.Option(
        "--token",
        metavar="TOKEN|auto",
        envvar="NASLAB_TOKEN",
        show_envvar=False,
        help="Secret that all readers need; auto makes one and prints it. NASLAB_TOKEN keeps it off the command line.",
        show_default=False,
    ),
]
HostOpt = Annotated[
    Optional[list[str]],  # noqa: UP045 - Typer reads this at run time
    typer.Option(
        "--host", metavar="NAME", help="Another name by which browsers address this machine; may be repeated."
    ),
]
MetricsOpt = Annotated[
    bool,
    typer.Option(
        "--metrics", help="Also serve /metrics for Prometheus: the newest run of each target; with --redact only that."
    ),
]


def serve(
    listen: ListenOpt = "127.0.0.1:8321",
    token: TokenOpt = "",
    host: HostOpt = None,
    metrics: MetricsOpt = False,
    redact: o.RedactOpt = False,
    store: o.StoreOpt = None,
    quiet: o.QuietOpt = False,
) -> int:
    """The library of results in a browser: search, overlay, rank, compare, watch a running test. Read-only."""
    from naslab.render.web.server import AUTO, Request, listen_on, run_server, token_of

    if redact and not metrics:
        raise UsageError(
            "--redact: pages of the library show names; add --metrics to serve /metrics alone without them, or write "
            "pages without names: naslab export --site DIR --redact"
        )
    where = listen_on(listen)
    library = open_library(store, quiet)
    asked = Request(where, token_of(token, where), tuple(host or ()), quiet, token == AUTO, metrics, redact)
    return run_server(library, asked)


def site(
    runs: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(metavar="[RUN]...", help="Runs to publish; none: the newest ones.", show_default=False),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder to write; new, empty or an earlier export.")
    ] = Path("naslab-site"),
    target: Annotated[
        str, typer.Option("--target", metavar="TEXT", help="Only targets whose names contain this text.")
    ] = "",
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="List at most N runs, newest first.", min=1)] = 50,
    redact: o.RedactOpt = False,
    store: o.StoreOpt = None,
) -> int:
    """The library as files, for any web server or to be opened from a disk."""
    return export_site(runs or [], target, limit, output, store, redact)


def open_library(path: Path | None, quiet: bool) -> Library:
    """The store, its summaries made where they are missing. Raises StoreError."""
    from naslab.results.store import Store
    from naslab.results.store.library import Library

    library = Library(Store(path))

    def told(made: int, of: int) -> None:
        if not quiet:
            end = "\n" if made >= of else ""
            text = f"\rSummaries of older runs, made once: {made:,} of {of:,}"
            print(text, end=end, file=raw(sys.stderr), flush=True)

    library.fill(told if os.isatty(2) else None)
    return library
