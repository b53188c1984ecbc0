"""Options that several commands share, each defined once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from naslab.errors import UsageError

MAX_SEED = (1 << 63) - 1


def check_seed(value: int) -> int:
    """Raises UsageError for a seed that 63 bits cannot hold."""
    if value > MAX_SEED:
        raise UsageError(f"--seed {value}: give at most {MAX_SEED}")
    return value


TARGET_HELP = "What to measure: a folder, smb://host/share, nfs://host/export, lab:NAME, sim:…, null:."
TargetArg = Annotated[str, typer.Argument(metavar="TARGET", help=TARGET_HELP, show_default=False)]
RunArg = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="A run: its id, a unique prefix, `last`, `published:NAME`, or an exported .json file."
    ),
]
PriceHddOpt = Annotated[
    float | None,
    typer.Option("--price-hdd-gib", metavar="N", help="Price of a GiB of HDD a month.", show_default=False),
]
PriceSsdOpt = Annotated[
    float | None,
    typer.Option("--price-ssd-gib", metavar="N", help="Price of a GiB of SSD a month.", show_default=False),
]
PriceMbOpt = Annotated[
    float | None,
    typer.Option("--price-mb-s", metavar="N", help="Price of 1 MB/s of throughput a month.", show_default=False),
]
StoreOpt = Annotated[
    Optional[Path],  # noqa: UP045 - Typer reads this at run time
    typer.Option(
        "--store",
        metavar="FILE",
        help="File that keeps results.",
        envvar="NASLAB_STORE",
        show_default="the user's data folder",
    ),
]
RedactOpt = Annotated[
    bool,
    typer.Option(
        "--redact",
        help="Remove hosts, users, addresses, shares, paths, labels and notes; one server keeps one replacement name.",
    ),
]
JsonOpt = Annotated[bool, typer.Option("--json", help="Print exactly one JSON document on stdout, messages on stderr.")]
QuietOpt = Annotated[bool, typer.Option("--quiet", help="Print no progress and no summary, only errors.")]
SeedOpt = Annotated[
    int,
    typer.Option("--seed", metavar="N", help="Seed of data, orders and simulated servers.", min=0, callback=check_seed),
]
VerifyOpt = Annotated[bool, typer.Option("--verify", help="Tag every block and check it on reading.")]
LabelOpt = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(
        "--label", metavar="KEY=VALUE", help="A condition of the test, key=value; may be repeated.", show_default=False
    ),
]
NoteOpt = Annotated[
    str, typer.Option("--note", metavar="TEXT", help="A remark stored with the run.", show_default=False)
]
PlanOpt = Annotated[bool, typer.Option("--plan", help="Print cells, bytes, time and space; measure nothing.")]
AdaptiveOpt = Annotated[
    bool, typer.Option("--adaptive", help="Measure a tenth of the bytes and predict the other cells, marked as such.")
]
MaxBytesOpt = Annotated[
    str,
    typer.Option(
        "--max-bytes",
        metavar="SIZE",
        help="Move at most this many bytes, e.g. 20G; refuse a larger plan.",
        show_default=False,
    ),
]
BudgetOpt = Annotated[
    str,
    typer.Option(
        "--budget",
        metavar="TIME",
        help="Start no further part of the plan after this time, e.g. 5m.",
        show_default=False,
    ),
]
TimeoutOpt = Annotated[
    str, typer.Option("--timeout", metavar="TIME", help="Give up when no operation completes for this time.")
]
CredentialsOpt = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        "--credentials",
        metavar="FILE",
        help="File with username=, password= and domain=, in the format of mount.cifs.",
        show_default="NASLAB_PASSWORD, keyring or prompt",
    ),
]
DirectOpt = Annotated[bool, typer.Option("--direct", help="Unbuffered I/O, and proof that it is unbuffered.")]
DepthOpt = Annotated[
    int, typer.Option("--depth", metavar="N", help="Queue depth: outstanding requests of each worker.", min=1, max=4096)
]
WorkersOpt = Annotated[
    int, typer.Option("--workers", metavar="N", help="Workers, each with a file of its own.", min=1, max=4096)
]
RepeatOpt = Annotated[
    int,
    typer.Option(
        "--repeat", metavar="N", help="Repeat everything N times; from 2 on in random order.", min=1, max=1000
    ),
]
DurabilityOpt = Annotated[
    str,
    typer.Option(
        "--durability",
        metavar="none|end|each",
        help="none, end (a flush, timed separately), each (durable writes).",
    ),
]
CompressOpt = Annotated[
    float, typer.Option("--compress", metavar="RATIO", help="Write data that compresses by this ratio.", min=1.0)
]
DedupeOpt = Annotated[
    float, typer.Option("--dedupe", metavar="RATIO", help="Write data that deduplicates by this ratio.", min=1.0)
]
FileSizesOpt = Annotated[
    str, typer.Option("--file-size", metavar="LIST", help="File sizes: 64k..64m (doubling) or a list with commas.")
]
RecordsOpt = Annotated[str, typer.Option("--record", metavar="LIST", help="Record sizes, in the same form.")]
TestsOpt = Annotated[
    str, typer.Option("--tests", metavar="LIST", help="Tests with commas, or default, all, stdio, positioned.")
]
SizeOpt = Annotated[str, typer.Option("--size", metavar="SIZE", help="Size of the file, e.g. 4g.")]
BlockOpt = Annotated[str, typer.Option("--block", metavar="SIZE", help="Bytes of one operation, e.g. 4k.")]
WriteOpt = Annotated[
    float, typer.Option("--write", metavar="PCT", help="Percentage of operations that write.", min=0, max=100)
]
RandomOpt = Annotated[bool, typer.Option("--random", help="Random offsets instead of one after another.")]
ArrivalsOpt = Annotated[
    str, typer.Option("--arrivals", metavar="constant|poisson", help="Even gaps between due times, or random ones.")
]
StepOpt = Annotated[str, typer.Option("--step-duration", metavar="TIME", help="How long each load is offered.")]
StartOpt = Annotated[
    str,
    typer.Option(
        "--start", metavar="RATE", help="First load, operations per second.",
        show_default="a sixteenth of what a closed loop reaches",
    ),
]  # fmt: skip
FactorOpt = Annotated[
    float, typer.Option("--factor", metavar="X", help="Each load is this many times the one before.", min=1.05, max=10)
]
MaxRateOpt = Annotated[
    str,
    typer.Option(
        "--max-rate",
        metavar="RATE",
        help="Offer no load above this many operations per second.",
        show_default="until saturated",
    ),
]
CompareOpt = Annotated[
    str,
    typer.Option(
        "--compare", metavar="RUN", help="Offer the loads of this run's curve, and compare.", show_default=False
    ),
]
ZonesOpt = Annotated[int, typer.Option("--zones", metavar="N", help="Zones that the file is divided into.")]
SampleOpt = Annotated[str, typer.Option("--sample", metavar="SIZE", help="Read at most this much of each zone.")]
PaceOpt = Annotated[
    str,
    typer.Option(
        "--pace",
        metavar="fast|recorded",
        help="Run as fast as the order of operations allows, or each operation at its recorded time.",
    ),
]
AppsOfRunOpt = Annotated[
    str,
    typer.Option(
        "--apps", metavar="NAMES", show_default=False,
        help="After the verdict, measure these applications instead of the sweep: names as in naslab apps --list.",
    ),
]  # fmt: skip
FindStreamsOpt = Annotated[
    bool,
    typer.Option(
        "--find-streams", help="With --pace recorded: find how many streams of each film the server sustains."
    ),
]
OneStepOpt = Annotated[
    str,
    typer.Option(
        "--step", metavar="prepare|run|clean", help="Only one of the three steps; files stay between them.",
        show_default="all three",
    ),
]  # fmt: skip
OwnAppOpt = Annotated[
    Optional[list[Path]],  # noqa: UP045 - Typer reads this at run time
    typer.Option("--app", metavar="FILE", help="An application of your own, as TOML; repeatable.", show_default=False),
]
DeadlineOpt = Annotated[
    str,
    typer.Option(
        "--deadline", metavar="TIME", help="At recorded pace, an operation that starts later than this counts as late."
    ),
]
MaxStreamsOpt = Annotated[
    int,
    typer.Option("--max-streams", metavar="N", help="At most N streams; those that do not overlap in time are joined."),
]
TreeDepthOpt = Annotated[
    int, typer.Option("--depth-of-tree", metavar="N", help="Levels of folders below the top folder.", min=0, max=20)
]
FanOutOpt = Annotated[int, typer.Option("--fan-out", metavar="N", help="Folders in a folder.", min=1, max=100_000)]
FilesOpt = Annotated[int, typer.Option("--files", metavar="N", help="Files in a tree.", min=1, max=2_000_000)]
SmallFileOpt = Annotated[str, typer.Option("--file-size", metavar="SIZE", help="Size of a file; 0 for empty files.")]
SizesOpt = Annotated[
    str,
    typer.Option(
        "--sizes", metavar="fixed|lognormal", help="All files of --file-size, or sizes spread around that mean."
    ),
]
SharedOpt = Annotated[bool, typer.Option("--shared", help="One tree for all workers instead of one for each.")]
NeighbourOpt = Annotated[
    int,
    typer.Option(
        "--neighbour",
        metavar="N",
        help="Each worker looks up the files that the worker N after it made (mdtest -N).",
        min=0,
    ),
]
ShuffleOpt = Annotated[bool, typer.Option("--shuffle", help="Look up files and folders in random order (mdtest -R).")]
ColdOpt = Annotated[
    bool,
    typer.Option(
        "--cold", help="Repeat the reading phases with new connections; with --cold-command also with cold caches."
    ),
]
ColdCommandOpt = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--cold-command", metavar="CMD", show_default=False,
        help="Shell command run before each cold pass that empties the server's caches. It is not stored.",
    ),
]  # fmt: skip
ReportOpt = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--output", "-o", metavar="FILE", help="Also write an HTML report to this file.", show_default=False),
]


def parse_labels(labels: list[str] | None) -> dict[str, str]:
    """`key=value` texts as a dict. Raises UsageError."""
    found: dict[str, str] = {}
    for text in labels or []:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"--label {text!r}: write key=value, e.g. --label ram=1g")
        if key.strip() in found:
            raise UsageError(f"--label {text!r}: {key.strip()} is given twice; give each key once")
        found[key.strip()] = value.strip()
    return found


def is_given(context: typer.Context, name: str) -> bool:
    """Whether the command line (not a default, not the environment) sets this parameter."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def refuse_others(context: typer.Context, allowed: set[str], why: str) -> None:
    """Raises UsageError when an option outside `allowed` is on the command line."""
    for parameter in context.command.params:
        name = parameter.name or ""
        if name not in allowed and is_given(context, name):
            raise UsageError(f"{why}: leave {parameter.opts[0]} out")
