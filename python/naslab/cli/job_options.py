"""Options of `naslab job`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

JobsArg = Annotated[
    str,
    typer.Argument(
        metavar="JOBS",
        help="copy-in, copy-out, zip, unzip, checksum, find, checkout; several with commas, or all.",
        show_default=False,
    ),
]
SourceOpt = Annotated[
    Optional[Path],  # noqa: UP045 - Typer reads this at run time
    typer.Option("--source", metavar="FOLDER", help="Work on a copy of this folder.", show_default="a corpus"),
]
CorpusOpt = Annotated[
    str,
    typer.Option(
        "--corpus",
        metavar="NAME",
        help="Generated files: article, office or sources.",
        show_default="office; sources for checkout alone",
    ),
]
ScaleOpt = Annotated[
    Optional[float],  # noqa: UP045
    typer.Option("--scale", metavar="X", help="Use this fraction of the corpus, e.g. 0.1.", show_default="1"),
]
StreamsOpt = Annotated[
    int, typer.Option("--streams", metavar="N", help="Parallel streams; also the number of zip archives.")
]
InFlightOpt = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(
        "--depth",
        metavar="N",
        help="Queue depth of each stream, in requests of 1 MiB.",
        show_default="4 on a server, 1 on a folder",
    ),
]
MethodOpt = Annotated[str, typer.Option("--method", metavar="deflate|zstd", help="Compression of zip and unzip.")]
ToOpt = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        "--to",
        metavar="FOLDER",
        help="copy-out writes this new folder and keeps it.",
        show_default="read, not kept",
    ),
]
DurabilityOpt = Annotated[
    str,
    typer.Option(
        "--durability",
        metavar="none|end|each",
        help="none, end (each file is flushed before it is closed) or each (durable writes).",
    ),
]
VerifyOpt = Annotated[bool, typer.Option("--verify", help="Compare with the source by SHA-256, outside the timing.")]
RepeatOpt = Annotated[int, typer.Option("--repeat", metavar="N", help="Repeat all jobs N times.", min=1, max=1000)]
