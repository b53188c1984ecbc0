"""Options of `naslab durable`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

CheckOpt = Annotated[
    Optional[Path],  # noqa: UP045 - Typer reads this at run time
    typer.Option(
        "--check",
        metavar="JOURNAL",
        help="Cut nothing: check the files of a run that ended before its own check, by its journal.",
        show_default=False,
    ),
]
CutOpt = Annotated[
    str,
    typer.Option(
        "--cut",
        metavar="ask|lab",
        help="Who cuts the power: you, when asked; or the lab, which kills its own server.",
        show_default="lab for lab:NAME, else ask",
    ),
]
CutCommandOpt = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--cut-command", metavar="CMD", show_default=False,
        help="Shell command that cuts the power, e.g. of a switchable plug. It is not stored.",
    ),
]  # fmt: skip
RestoreCommandOpt = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--restore-command", metavar="CMD", show_default=False,
        help="Shell command that restores the power. It is not stored.",
    ),
]  # fmt: skip
LoadOpt = Annotated[str, typer.Option("--load", metavar="TIME", help="How long the load runs before a cut.")]
WaitOpt = Annotated[
    str, typer.Option("--wait", metavar="TIME", help="Longest wait for your cut, and for the server to answer again.")
]
ModesOpt = Annotated[
    str,
    typer.Option(
        "--modes",
        metavar="LIST",
        help="Modes to run together: none, end, each, metadata; a flush may save the others' writes.",
    ),
]
GroupOpt = Annotated[
    int, typer.Option("--group", metavar="N", help="Writes before each flush, in the mode that flushes.", min=1)
]
CutsOpt = Annotated[
    int, typer.Option("--repeat", metavar="N", help="Number of cuts, one after the other.", min=1, max=1000)
]
JournalOpt = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        "--journal",
        metavar="FILE",
        help="Keep the journal of acknowledgements here, never on the target.",
        show_default="beside the store, removed after the check",
    ),
]
