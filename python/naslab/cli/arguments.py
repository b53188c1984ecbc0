"""The options of every measuring command: a dataclass for each, of its own options and of groups that several share.

Sizes, times and rates are texts as typed; each command parses them. Field by field, `groups` makes the command line of
them, and with it help, completion, the man page and the reference page.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Optional

import typer

from naslab.cli import durable_options as d
from naslab.cli import job_options as j
from naslab.cli import options as o
from naslab.cli import sustained_options as s

# Groups.


@dataclass(frozen=True)
class CommonArguments:
    """Options of every command that measures."""

    seed: o.SeedOpt = 0
    timeout: o.TimeoutOpt = "30s"
    credentials: o.CredentialsOpt = None
    label: o.LabelOpt = None
    note: o.NoteOpt = ""
    report: o.ReportOpt = None
    store: o.StoreOpt = None
    as_json: o.JsonOpt = False
    quiet: o.QuietOpt = False


@dataclass(frozen=True)
class LimitArguments:
    """What a run may cost at most."""

    budget: o.BudgetOpt = ""
    max_bytes: o.MaxBytesOpt = ""


@dataclass(frozen=True)
class RunLimits(LimitArguments):
    """Of commands that end by themselves after five minutes."""

    budget: o.BudgetOpt = "5m"


@dataclass(frozen=True)
class DataArguments:
    """What is written."""

    compress: o.CompressOpt = 1.0
    dedupe: o.DedupeOpt = 1.0


@dataclass(frozen=True)
class LoadArguments:
    """How a load is put on the target."""

    depth: o.DepthOpt = 1
    workers: o.WorkersOpt = 1
    durability: o.DurabilityOpt = "end"
    direct: o.DirectOpt = False
    compress: o.CompressOpt = 1.0
    dedupe: o.DedupeOpt = 1.0
    verify: o.VerifyOpt = False


@dataclass(frozen=True)
class PatternArguments:
    """Which positions of how large a file operations of which size go to."""

    size: o.SizeOpt = ""
    block: o.BlockOpt = "1m"
    write: o.WriteOpt = 0
    random: o.RandomOpt = False
    align: s.AlignOpt = ""
    distribution: s.DistributionOpt = "uniform"
    stride: s.StrideOpt = ""
    interlocked: s.InterlockedOpt = False


@dataclass(frozen=True)
class PriceArguments:
    """What the server costs."""

    price_per_hour: s.PricePerHourOpt = 0.0
    price_per_month: s.PricePerMonthOpt = 0.0
    price_per_gb: s.PricePerGbOpt = 0.0
    stored: s.StoredOpt = ""


# Commands.


@dataclass(frozen=True)
class RunArguments:
    """Of `naslab run`."""

    target: o.TargetArg
    repeat: o.RepeatOpt = 1
    load: LoadArguments = field(default_factory=LoadArguments)
    sweep: Annotated[
        bool, typer.Option("--sweep/--no-sweep", help="After the verdict, sweep in the rest of the budget.")
    ] = True
    apps: o.AppsOfRunOpt = ""
    limits: RunLimits = field(default_factory=RunLimits)
    common: CommonArguments = field(default_factory=CommonArguments)
    details: Annotated[
        bool, typer.Option("--details", help="Print all measurements, not only the answer in ten lines.")
    ] = False


@dataclass(frozen=True)
class SweepArguments:
    """Of `naslab sweep`."""

    target: Annotated[str, typer.Argument(metavar="[TARGET]", help=o.TARGET_HELP, show_default=False)] = ""
    file_size: o.FileSizesOpt = "64k..64m"
    record: o.RecordsOpt = "4k..1m"
    tests: o.TestsOpt = "default"
    repeat: o.RepeatOpt = 1
    load: LoadArguments = field(default_factory=LoadArguments)
    cold: Annotated[bool, typer.Option("--cold", help="Drop the client's cached pages before each read test.")] = False
    adaptive: o.AdaptiveOpt = False
    plan: o.PlanOpt = False
    resume: Annotated[
        str,
        typer.Option(
            "--resume", metavar="RUN", help="Continue where this run ended; without TARGET.", show_default=False
        ),
    ] = ""
    limits: LimitArguments = field(default_factory=LimitArguments)
    common: CommonArguments = field(default_factory=CommonArguments)


@dataclass(frozen=True)
class OldModes:
    """What `naslab sustained` measured before there were commands for it; for one release."""

    find_burst: Annotated[bool, typer.Option("--find-burst", help="Now `naslab burst`.")] = False
    cached: Annotated[bool, typer.Option("--cached", help="Now `naslab cache speed`.")] = False
    find_cache: Annotated[bool, typer.Option("--find-cache", help="Now `naslab cache size`.")] = False
    evict_size: s.EvictSizeOpt = ""
    budget: o.BudgetOpt = ""


@dataclass(frozen=True)
class SustainedArguments:
    """Of `naslab sustained`."""

    target: o.TargetArg
    pattern: PatternArguments = field(default_factory=PatternArguments)
    duration: s.DurationOpt = ""
    bytes_: s.BytesOpt = ""
    warmup: s.WarmupOpt = ""
    cooldown: s.CooldownOpt = ""
    rate: s.RateOpt = ""
    burst_ops: s.BurstOpsOpt = 0
    burst_gap: s.BurstGapOpt = ""
    rest: s.RestOpt = ""
    cache: s.CacheOpt = ""
    repeat: o.RepeatOpt = 1
    load: LoadArguments = field(default_factory=LoadArguments)
    price: PriceArguments = field(default_factory=PriceArguments)
    max_bytes: o.MaxBytesOpt = ""
    common: CommonArguments = field(default_factory=CommonArguments)
    old: OldModes = field(default_factory=OldModes)


@dataclass(frozen=True)
class BurstArguments:
    """Of `naslab burst`."""

    target: o.TargetArg
    pattern: PatternArguments = field(default_factory=PatternArguments)
    rest: s.RestOpt = ""
    cache: s.CacheOpt = ""
    load: LoadArguments = field(default_factory=LoadArguments)
    price: PriceArguments = field(default_factory=PriceArguments)
    limits: LimitArguments = field(default_factory=LimitArguments)
    common: CommonArguments = field(default_factory=CommonArguments)


@dataclass(frozen=True)
class CacheSpeedArguments:
    """Of `naslab cache speed`."""

    target: o.TargetArg
    size: s.CachedSizeOpt = ""
    block: o.BlockOpt = "1m"
    depth: o.DepthOpt = 1
    workers: o.WorkersOpt = 1
    interlocked: s.InterlockedOpt = False
    duration: s.DurationOpt = ""
    evict_size: s.EvictSizeOpt = ""
    cache: s.CacheOpt = ""
    data: DataArguments = field(default_factory=DataArguments)
    verify: o.VerifyOpt = False
    limits: LimitArguments = field(default_factory=LimitArguments)
    common: CommonArguments = field(default_factory=CommonArguments)


@dataclass(frozen=True)
class CacheSizeArguments:
    """Of `naslab cache size`."""

    target: o.TargetArg
    size: s.LargestSetOpt = ""
    block: o.BlockOpt = "1m"
    depth: o.DepthOpt = 1
    cache: s.CacheOpt = ""
    data: DataArguments = field(default_factory=DataArguments)
    verify: o.VerifyOpt = False
    budget: o.BudgetOpt = ""
    common: CommonArguments = field(default_factory=CommonArguments)


@dataclass(frozen=True)
class CurveArguments:
    """Of `naslab curve`."""

    target: o.TargetArg
    arrivals: o.ArrivalsOpt = "constant"
    block: o.BlockOpt = "4k"
    write: o.WriteOpt = 0
    random: o.RandomOpt = False
    size: o.SizeOpt = "256m"
    depth: o.DepthOpt = 32
    workers: o.WorkersOpt = 1
    step_duration: o.StepOpt = "5s"
    start: o.StartOpt = ""
    factor: o.FactorOpt = 1.4
    max_rate: o.MaxRateOpt = ""
    compare: o.CompareOpt = ""
    durability: o.DurabilityOpt = "end"
    direct: o.DirectOpt = False
    data: DataArguments = field(default_factory=DataArguments)
    limits: RunLimits = field(default_factory=RunLimits)
    common: CommonArguments = field(default_factory=CommonArguments)


@dataclass(frozen=True)
class ProfileArguments:
    """Of `naslab profile`."""

    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="A target, or an existing file or block device of this machine, which is only read.",
            show_default=False,
        ),
    ]
    size: Annotated[
        str, typer.Option("--size", metavar="SIZE", help="Size of the file, e.g. 4g.", show_default="1g")
    ] = ""
    zones: o.ZonesOpt = 100
    block: o.BlockOpt = "1m"
    sample: o.SampleOpt = "64m"
    depth: o.DepthOpt = 8
    direct: o.DirectOpt = False
    limits: LimitArguments = field(default_factory=LimitArguments)
    common: CommonArguments = field(default_factory=CommonArguments)


@dataclass(frozen=True)
class AppsArguments:
    """Of `naslab apps`."""

    target: Annotated[str, typer.Argument(metavar="[TARGET]", help=o.TARGET_HELP, show_default=False)] = ""
    only: Annotated[
        str,
        typer.Option(
            "--only",
            metavar="NAMES",
            help="Applications or sets with commas: naspt, older, modern, all.",
            show_default="naspt, the twelve",
        ),
    ] = ""
    app_: o.OwnAppOpt = None
    scale: Annotated[
        float, typer.Option("--scale", metavar="X", help="Scale the size of all files by this factor.")
    ] = 1.0
    pace: o.PaceOpt = "fast"
    find_streams: o.FindStreamsOpt = False
    step: o.OneStepOpt = ""
    list_: Annotated[bool, typer.Option("--list", help="Print the definitions, each number with its source.")] = False
    csv: Annotated[
        Optional[Path],  # noqa: UP045 - Typer reads this at run time
        typer.Option("--csv", metavar="FILE", help="Also write a NASPerf-APP.csv, as NASPT does.", show_default=False),
    ] = None
    repeat: o.RepeatOpt = 1
    data: DataArguments = field(default_factory=DataArguments)
    limits: LimitArguments = field(default_factory=LimitArguments)
    common: CommonArguments = field(default_factory=CommonArguments)


@dataclass(frozen=True)
class ReplayArguments:
    """Of `naslab replay`."""

    target: o.TargetArg
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="A trace.", show_default=False)]
    pace: o.PaceOpt = "fast"
    deadline: o.DeadlineOpt = "50ms"
    max_streams: o.MaxStreamsOpt = 64
    data: DataArguments = field(default_factory=DataArguments)
    max_bytes: o.MaxBytesOpt = ""
    common: CommonArguments = field(default_factory=CommonArguments)


@dataclass(frozen=True)
class JobArguments:
    """Of `naslab job`."""

    target: o.TargetArg
    jobs: j.JobsArg
    source: j.SourceOpt = None
    corpus: j.CorpusOpt = ""
    scale: j.ScaleOpt = None
    streams: j.StreamsOpt = 4
    in_flight: j.InFlightOpt = None
    method: j.MethodOpt = "deflate"
    to: j.ToOpt = None
    durability: j.DurabilityOpt = "end"
    verify: j.VerifyOpt = False
    repeat: j.RepeatOpt = 1
    max_bytes: o.MaxBytesOpt = ""
    common: CommonArguments = field(default_factory=CommonArguments)


@dataclass(frozen=True)
class DurableArguments:
    """Of `naslab durable`."""

    target: o.TargetArg
    check: d.CheckOpt = None
    cut: d.CutOpt = ""
    cut_command: d.CutCommandOpt = None
    restore_command: d.RestoreCommandOpt = None
    load: d.LoadOpt = "10s"
    wait: d.WaitOpt = "10m"
    size: o.SizeOpt = "16m"
    block: o.BlockOpt = "4k"
    depth: o.DepthOpt = 8
    group: d.GroupOpt = 64
    repeat: d.CutsOpt = 1
    journal: d.JournalOpt = None
    modes: d.ModesOpt = "all"
    common: CommonArguments = field(default_factory=CommonArguments)


@dataclass(frozen=True)
class TreeArguments:
    """Of `naslab tree`."""

    target: o.TargetArg
    depth_of_tree: o.TreeDepthOpt = 2
    fan_out: o.FanOutOpt = 10
    files: o.FilesOpt = 1000
    file_size: o.SmallFileOpt = "4k"
    sizes: o.SizesOpt = "fixed"
    workers: o.WorkersOpt = 1
    shared: o.SharedOpt = False
    neighbour: o.NeighbourOpt = 0
    shuffle: o.ShuffleOpt = False
    cold: o.ColdOpt = False
    cold_command: o.ColdCommandOpt = None
    repeat: o.RepeatOpt = 1
    data: DataArguments = field(default_factory=DataArguments)
    max_bytes: o.MaxBytesOpt = ""
    common: CommonArguments = field(default_factory=CommonArguments)
