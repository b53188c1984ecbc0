"""`naslab mcp`: a server of the Model Context Protocol on standard input and output."""

from __future__ import annotations

import sys
from typing import Annotated, Optional

import typer

from naslab.cli import options as o
from naslab.errors import UsageError
from naslab.execution.waits import termination_as_interrupt

MISSING = "mcp: the package mcp (2 or newer) is not installed: pip install 'naslab[mcp]'"
TargetsOpt = Annotated[
    Optional[list[str]],  # noqa: UP045 - Typer reads this at run time
    typer.Option("--target", metavar="TARGET", help="Allow measurements of this target; may be repeated."),
]
BudgetOpt = Annotated[
    str,
    typer.Option("--budget", metavar="TIME", help="Maximum time of one measurement.", show_default="5m"),
]
MaxBytesOpt = Annotated[
    str,
    typer.Option("--max-bytes", metavar="SIZE", help="Maximum bytes that one measurement moves.", show_default="20g"),
]
CountOpt = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(
        "--measurements",
        metavar="N",
        help="Maximum number of measurements until the server ends.",
        min=1,
        show_default="10",
    ),
]


def mcp(
    target: TargetsOpt = None,
    budget: BudgetOpt = "",
    max_bytes: MaxBytesOpt = "",
    measurements: CountOpt = None,
    credentials: o.CredentialsOpt = None,
    redact: o.RedactOpt = False,
    store: o.StoreOpt = None,
) -> int:
    """Stored runs as tools for language models (Model Context Protocol, on standard input and output).

    The tools list, show, explain, compare and export runs. Without --target nothing can be measured.
    """
    given = [
        option
        for option, value in (
            ("--budget", budget), ("--max-bytes", max_bytes), ("--measurements", measurements),
            ("--credentials", credentials),
        )
        if value
    ]  # fmt: skip
    if given and not target:
        raise UsageError(f"{given[0]}: nothing can be measured without --target; add one, or leave {given[0]} out")
    if redact and target:
        raise UsageError("--redact hides names of targets, and --target shows them; leave one of them out")
    from naslab.mcp.measuring import Limits
    from naslab.mcp.reading import Reading

    limits = None
    if target:
        names = tuple(dict.fromkeys(target))
        limits = Limits(names, budget or "5m", max_bytes or "20g", measurements or 10, credentials).checked()
    try:
        from naslab.mcp.server import server_of
    except ImportError as error:
        if not (error.name or "").startswith("mcp"):
            raise
        raise UsageError(MISSING) from None
    if sys.stdin.isatty():
        print("naslab mcp: waiting for a client on standard input; Ctrl-C ends it.", file=sys.stderr)
    with termination_as_interrupt():
        server_of(Reading(store, redact), limits).run("stdio")
    return 0
