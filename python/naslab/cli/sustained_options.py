"""Options of `sustained`, `burst` and `cache`, each defined once."""

from __future__ import annotations

from typing import Annotated

import typer

AlignOpt = Annotated[
    str,
    typer.Option("--align", metavar="SIZE", help="Random positions are multiples of this.", show_default="the block"),
]
DistributionOpt = Annotated[
    str,
    typer.Option(
        "--distribution",
        metavar="KIND",
        help="Distribution of random positions: uniform, zipf:THETA or hot:90/10 (ops/file).",
    ),
]
StrideOpt = Annotated[
    str,
    typer.Option(
        "--stride",
        metavar="SIZE",
        help="Sequential: distance from one operation to the next.",
        show_default="the block",
    ),
]
InterlockedOpt = Annotated[
    bool, typer.Option("--interlocked", help="Sequential: all workers take turns in one file.")
]  # fmt: skip
DurationOpt = Annotated[
    str, typer.Option("--duration", metavar="TIME", help="Measure each part for this time.", show_default="60s")
]
BytesOpt = Annotated[
    str,
    typer.Option(
        "--bytes", metavar="SIZE", help="End after this many bytes instead of a duration.", show_default=False
    ),
]
WarmupOpt = Annotated[
    str, typer.Option("--warmup", metavar="TIME", help="Load before the measurement begins.", show_default=False)
]
CooldownOpt = Annotated[
    str, typer.Option("--cooldown", metavar="TIME", help="Load after the measurement has ended.", show_default=False)
]
RateOpt = Annotated[
    str,
    typer.Option(
        "--rate",
        metavar="RATE",
        help="Limit the rate of all workers together: 100MB/s or 5000iops.",
        show_default=False,
    ),
]
BurstOpsOpt = Annotated[
    int, typer.Option("--burst-ops", metavar="N", help="Pause after this many operations of a worker.", min=0)
]
BurstGapOpt = Annotated[
    str, typer.Option("--burst-gap", metavar="TIME", help="Length of that pause.", show_default=False)
]
CacheOpt = Annotated[
    str,
    typer.Option(
        "--cache", metavar="MODE",
        help="cached, none, write-through, none+write-through, remote (the server's alone) or mmap.",
        show_default="the target's own way",
    ),
]  # fmt: skip
RestOpt = Annotated[
    str,
    typer.Option("--rest", metavar="TIME", help="Idle after filling, before the load begins.", show_default=False),
]
CachedSizeOpt = Annotated[
    str, typer.Option("--size", metavar="SIZE", help="Size of the file, e.g. 4g.", show_default="64m")
]
LargestSetOpt = Annotated[
    str, typer.Option("--size", metavar="SIZE", help="Size of the file, e.g. 4g.", show_default="1g")
]
EvictSizeOpt = Annotated[
    str,
    typer.Option(
        "--evict-size", metavar="SIZE",
        help="Write at most this much to evict the file from the server cache.",
        show_default="16g, or half the free space",
    ),
]  # fmt: skip
PricePerHourOpt = Annotated[
    float, typer.Option("--price-per-hour", metavar="X", help="Cost of the server per hour.", min=0.0)
]
PricePerMonthOpt = Annotated[
    float, typer.Option("--price-per-month", metavar="X", help="Cost of the server per month of 730 hours.", min=0.0)
]
PricePerGbOpt = Annotated[
    float, typer.Option("--price-per-gb", metavar="X", help="Cost of a GB (10^9) of its storage per month.", min=0.0)
]
StoredOpt = Annotated[
    str,
    typer.Option("--stored", metavar="SIZE", help="Storage that is paid for, with --price-per-gb.", show_default=False),
]
