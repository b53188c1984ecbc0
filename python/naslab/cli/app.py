"""Commands: options in, one function of another room called, text or JSON out. `commands` lists them all."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from naslab.cli import durable_options as d
from naslab.cli import job_options as j
from naslab.cli import options as o
from naslab.cli import sustained_options as s
from naslab.cli.clients import with_clients, with_scaled_clients
from naslab.errors import UsageError


@with_clients
def run(
    target: o.TargetArg,
    repeat: o.RepeatOpt = 1,
    depth: o.DepthOpt = 1,
    workers: o.WorkersOpt = 1,
    durability: o.DurabilityOpt = "end",
    direct: o.DirectOpt = False,
    compress: o.CompressOpt = 1.0,
    dedupe: o.DedupeOpt = 1.0,
    verify: o.VerifyOpt = False,
    seed: o.SeedOpt = 0,
    budget: o.BudgetOpt = "5m",
    sweep: Annotated[
        bool, typer.Option("--sweep/--no-sweep", help="After the verdict, sweep in the rest of the budget.")
    ] = True,
    apps: o.AppsOfRunOpt = "",
    max_bytes: o.MaxBytesOpt = "",
    timeout: o.TimeoutOpt = "30s",
    credentials: o.CredentialsOpt = None,
    label: o.LabelOpt = None,
    note: o.NoteOpt = "",
    report: o.ReportOpt = None,
    details: Annotated[
        bool, typer.Option("--details", help="Print all measurements, not only the answer in ten lines.")
    ] = False,
    store: o.StoreOpt = None,
    as_json: o.JsonOpt = False,
    quiet: o.QuietOpt = False,
) -> int:
    """Find what limits the target, with evidence, in five minutes; then a small sweep.

    With --direct a mounted share is measured through the mount and by naslab's own client, alternately: this shows
    what the kernel's client costs.
    """
    from naslab.cli.both_ways import mount_behind, run_both_ways
    from naslab.cli.common import Common, Load
    from naslab.cli.survey import run_survey

    common = Common(
        "run", store, as_json, quiet, seed, o.parse_labels(label), note, timeout, report, max_bytes, budget,
        credentials, details,
    )  # fmt: skip
    load = Load(repeat, depth, workers, durability, direct, compress, dedupe, verify)
    if direct and (found := mount_behind(target)):
        if apps:
            raise UsageError("--apps: not with --direct on a mounted share; leave one of them out")
        return run_both_ways(target, found, load, common, sweep)
    return run_survey(target, load, common, sweep, apps)


_WITH_RESUME = {
    "resume",
    "target",
    "plan",
    "max_bytes",
    "budget",
    "timeout",
    "credentials",
    "report",
    "store",
    "as_json",
    "quiet",
}
"""Options of sweep that mean something beside --resume; the plan itself is the stored run's."""


@with_clients
def sweep(
    context: typer.Context,
    target: Annotated[str, typer.Argument(metavar="[TARGET]", help=o.TARGET_HELP, show_default=False)] = "",
    file_size: o.FileSizesOpt = "64k..64m",
    record: o.RecordsOpt = "4k..1m",
    tests: o.TestsOpt = "default",
    repeat: o.RepeatOpt = 1,
    depth: o.DepthOpt = 1,
    workers: o.WorkersOpt = 1,
    durability: o.DurabilityOpt = "end",
    direct: o.DirectOpt = False,
    cold: Annotated[bool, typer.Option("--cold", help="Drop the client's cached pages before each read test.")] = False,
    compress: o.CompressOpt = 1.0,
    dedupe: o.DedupeOpt = 1.0,
    verify: o.VerifyOpt = False,
    adaptive: o.AdaptiveOpt = False,
    seed: o.SeedOpt = 0,
    plan: o.PlanOpt = False,
    resume: Annotated[
        str,
        typer.Option(
            "--resume", metavar="RUN", help="Continue where this run ended; without TARGET.", show_default=False
        ),
    ] = "",
    budget: o.BudgetOpt = "",
    max_bytes: o.MaxBytesOpt = "",
    timeout: o.TimeoutOpt = "30s",
    credentials: o.CredentialsOpt = None,
    label: o.LabelOpt = None,
    note: o.NoteOpt = "",
    report: o.ReportOpt = None,
    store: o.StoreOpt = None,
    as_json: o.JsonOpt = False,
    quiet: o.QuietOpt = False,
) -> int:
    """File size x record size x test: IOzone's method with honest data and cache labels."""
    from naslab.cli.common import Common, Load
    from naslab.cli.sweep import SweepRequest, resume_sweep, run_sweep

    common = Common(
        "sweep", store, as_json, quiet, seed, o.parse_labels(label), note, timeout, report, max_bytes, budget,
        credentials,
    )  # fmt: skip
    if o.is_given(context, "resume"):
        o.refuse_others(context, _WITH_RESUME, "--resume continues the stored plan")
        return resume_sweep(resume, target, common, plan)
    load = Load(repeat, depth, workers, durability, direct, compress, dedupe, verify)
    return run_sweep(SweepRequest(target, file_size, record, tests, cold, plan, load, adaptive), common)


@with_scaled_clients
def sustained(
    context: typer.Context,
    target: o.TargetArg,
    size: o.SizeOpt = "",
    block: o.BlockOpt = "1m",
    write: o.WriteOpt = 0,
    random: o.RandomOpt = False,
    align: s.AlignOpt = "",
    distribution: s.DistributionOpt = "uniform",
    stride: s.StrideOpt = "",
    interlocked: s.InterlockedOpt = False,
    depth: o.DepthOpt = 1,
    workers: o.WorkersOpt = 1,
    duration: s.DurationOpt = "",
    bytes_: s.BytesOpt = "",
    warmup: s.WarmupOpt = "",
    cooldown: s.CooldownOpt = "",
    rate: s.RateOpt = "",
    burst_ops: s.BurstOpsOpt = 0,
    burst_gap: s.BurstGapOpt = "",
    durability: o.DurabilityOpt = "end",
    direct: o.DirectOpt = False,
    cache: s.CacheOpt = "",
    compress: o.CompressOpt = 1.0,
    dedupe: o.DedupeOpt = 1.0,
    verify: o.VerifyOpt = False,
    seed: o.SeedOpt = 0,
    repeat: o.RepeatOpt = 1,
    find_burst: s.FindBurstOpt = False,
    rest: s.RestOpt = "",
    cached: s.CachedOpt = False,
    find_cache: s.FindCacheOpt = False,
    evict_size: s.EvictSizeOpt = "",
    price_per_hour: s.PricePerHourOpt = 0.0,
    price_per_month: s.PricePerMonthOpt = 0.0,
    price_per_gb: s.PricePerGbOpt = 0.0,
    stored: s.StoredOpt = "",
    budget: o.BudgetOpt = "",
    max_bytes: o.MaxBytesOpt = "",
    timeout: o.TimeoutOpt = "30s",
    credentials: o.CredentialsOpt = None,
    label: o.LabelOpt = None,
    note: o.NoteOpt = "",
    report: o.ReportOpt = None,
    store: o.StoreOpt = None,
    as_json: o.JsonOpt = False,
    quiet: o.QuietOpt = False,
) -> int:
    """One load for minutes: rate over time, burst and baseline, steadiness, what ended the burst."""
    from naslab.cli.sustained import run_sustained

    return run_sustained(context.params)


@with_clients
def curve(
    target: o.TargetArg,
    arrivals: o.ArrivalsOpt = "constant",
    block: o.BlockOpt = "4k",
    write: o.WriteOpt = 0,
    random: o.RandomOpt = False,
    size: o.SizeOpt = "256m",
    depth: o.DepthOpt = 32,
    workers: o.WorkersOpt = 1,
    step_duration: o.StepOpt = "5s",
    start: o.StartOpt = "",
    factor: o.FactorOpt = 1.4,
    max_rate: o.MaxRateOpt = "",
    compare: o.CompareOpt = "",
    durability: o.DurabilityOpt = "end",
    direct: o.DirectOpt = False,
    compress: o.CompressOpt = 1.0,
    dedupe: o.DedupeOpt = 1.0,
    seed: o.SeedOpt = 0,
    budget: o.BudgetOpt = "5m",
    max_bytes: o.MaxBytesOpt = "",
    timeout: o.TimeoutOpt = "30s",
    credentials: o.CredentialsOpt = None,
    label: o.LabelOpt = None,
    note: o.NoteOpt = "",
    report: o.ReportOpt = None,
    store: o.StoreOpt = None,
    as_json: o.JsonOpt = False,
    quiet: o.QuietOpt = False,
) -> int:
    """Latency against offered load: an open loop at rising rates, the knee and the capacity."""
    from naslab.cli.common import Common, Load
    from naslab.cli.curve import CurveRequest, run_curve

    common = Common(
        "curve", store, as_json, quiet, seed, o.parse_labels(label), note, timeout, report, max_bytes, budget,
        credentials,
    )  # fmt: skip
    load = Load(1, depth, workers, durability, direct, compress, dedupe)
    request = CurveRequest(
        target, arrivals, block, write, random, size, step_duration, start, factor, max_rate, compare, load
    )
    return run_curve(request, common)


def runs(
    label: Annotated[str, typer.Option("--label", metavar="TEXT", help="Only runs whose labels contain this.")] = "",
    target: Annotated[str, typer.Option("--target", metavar="TEXT", help="Only targets with this in the name.")] = "",
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="List at most N runs, newest first.", min=1)] = 50,
    published: Annotated[
        bool, typer.Option("--published", help="Results that articles print, instead of stored runs.")
    ] = False,
    redact: o.RedactOpt = False,
    store: o.StoreOpt = None,
    as_json: o.JsonOpt = False,
) -> int:
    """List stored runs."""
    from naslab.cli.read import list_runs

    if published:
        from naslab.cli.published import list_published

        return list_published(label, target, limit, as_json)
    return list_runs(label, target, limit, store, as_json, redact)


def show(
    run: o.RunArg = "last", redact: o.RedactOpt = False, store: o.StoreOpt = None, as_json: o.JsonOpt = False
) -> int:
    """Show a run in the terminal."""
    from naslab.cli.read import show_one

    return show_one(run, store, as_json, redact)


def mkfile(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="File to create; it must not exist.", show_default=False)
    ],
    size: o.SizeOpt,
    sparse: Annotated[
        bool, typer.Option("--sparse", help="Make a sparse file; reads of it do not reach the disk.")
    ] = False,
    seed: o.SeedOpt = 0,
    as_json: o.JsonOpt = False,
    quiet: o.QuietOpt = False,
) -> int:
    """Create a test file of incompressible data (or a sparse file)."""
    from naslab.cli.mkfile import make_file

    return make_file(path, size, sparse, seed, as_json, quiet)


def clean(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Target to clean up.", show_default=False)],
    force: Annotated[bool, typer.Option("--force", help="Also remove folders whose run may not have ended.")] = False,
    recycle_bin: Annotated[
        bool, typer.Option("--recycle-bin", help="Also remove naslab's folders from the share's recycle bin.")
    ] = False,
    credentials: o.CredentialsOpt = None,
    timeout: o.TimeoutOpt = "30s",
    as_json: o.JsonOpt = False,
) -> int:
    """Remove folders that killed runs left on a target."""
    from naslab.cli.clean import clean_target

    return clean_target(target, force, as_json, timeout, credentials, recycle_bin)


def net(
    host: Annotated[
        str,
        typer.Argument(
            metavar="[HOST]",
            help="HOST[:PORT] where `naslab reference net --listen` runs; with --listen [ADDR:]PORT to listen on.",
            show_default=False,
        ),
    ] = "",
    listen: Annotated[bool, typer.Option("--listen", help="Serve measurements on all interfaces, or on ADDR.")] = False,
    connections: Annotated[
        int, typer.Option("--connections", metavar="N", help="TCP connections in each direction.", min=1, max=64)
    ] = 1,
    duration: Annotated[
        str, typer.Option("--duration", metavar="TIME", help="Measure each part for this time.")
    ] = "5s",
    once: Annotated[bool, typer.Option("--once", help="With --listen: end after the first measurement.")] = False,
    idle: Annotated[
        str,
        typer.Option(
            "--idle", metavar="TIME", help="With --listen: end after this time without a measurement, or never."
        ),
    ] = "1h",
    timeout: o.TimeoutOpt = "30s",
    store: o.StoreOpt = None,
    as_json: o.JsonOpt = False,
    quiet: o.QuietOpt = False,
) -> int:
    """Raw TCP to another host, both ways: the reference for the rates of file protocols."""
    from naslab.cli.net import NetRequest
    from naslab.cli.net import net as run_net

    return run_net(NetRequest(host, listen, connections, duration, once, idle, timeout, store, as_json, quiet))


def profile(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="A target, or an existing file or block device of this machine, which is only read.",
            show_default=False,
        ),
    ],
    size: Annotated[
        str, typer.Option("--size", metavar="SIZE", help="Size of the file, e.g. 4g.", show_default="1g")
    ] = "",
    zones: o.ZonesOpt = 100,
    block: o.BlockOpt = "1m",
    sample: o.SampleOpt = "64m",
    depth: o.DepthOpt = 8,
    direct: o.DirectOpt = False,
    seed: o.SeedOpt = 0,
    budget: o.BudgetOpt = "",
    max_bytes: o.MaxBytesOpt = "",
    timeout: o.TimeoutOpt = "30s",
    credentials: o.CredentialsOpt = None,
    label: o.LabelOpt = None,
    note: o.NoteOpt = "",
    report: o.ReportOpt = None,
    store: o.StoreOpt = None,
    as_json: o.JsonOpt = False,
    quiet: o.QuietOpt = False,
) -> int:
    """Sequential read rate by position, burst rate and random access time."""
    from naslab.cli.common import Common
    from naslab.cli.profile import ProfileRequest, run_profile

    common = Common(
        "profile", store, as_json, quiet, seed, o.parse_labels(label), note, timeout, report, max_bytes, budget,
        credentials,
    )  # fmt: skip
    return run_profile(ProfileRequest(target, size, zones, block, sample, depth, direct), common)


@with_clients
def apps(
    target: Annotated[str, typer.Argument(metavar="[TARGET]", help=o.TARGET_HELP, show_default=False)] = "",
    only: Annotated[
        str,
        typer.Option(
            "--only",
            metavar="NAMES",
            help="Applications or sets with commas: naspt, older, modern, all.",
            show_default="naspt, the twelve",
        ),
    ] = "",
    app_: o.OwnAppOpt = None,
    scale: Annotated[
        float, typer.Option("--scale", metavar="X", help="Scale the size of all files by this factor.")
    ] = 1.0,
    pace: o.PaceOpt = "fast",
    find_streams: o.FindStreamsOpt = False,
    step: o.OneStepOpt = "",
    list_: Annotated[bool, typer.Option("--list", help="Print the definitions, each number with its source.")] = False,
    csv: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--csv", metavar="FILE", help="Also write a NASPerf-APP.csv, as NASPT does.", show_default=False),
    ] = None,
    repeat: o.RepeatOpt = 1,
    compress: o.CompressOpt = 1.0,
    dedupe: o.DedupeOpt = 1.0,
    seed: o.SeedOpt = 0,
    budget: o.BudgetOpt = "",
    max_bytes: o.MaxBytesOpt = "",
    timeout: o.TimeoutOpt = "30s",
    credentials: o.CredentialsOpt = None,
    label: o.LabelOpt = None,
    note: o.NoteOpt = "",
    report: o.ReportOpt = None,
    store: o.StoreOpt = None,
    as_json: o.JsonOpt = False,
    quiet: o.QuietOpt = False,
) -> int:
    """Application workloads: twelve like NASPT's, and newer ones."""
    from naslab.cli.apps import AppsRequest, list_apps, run_apps
    from naslab.cli.common import Common, Load

    if list_:
        return list_apps(only, as_json, app_ or ())
    if not target:
        raise UsageError("apps: name a TARGET to measure, or give --list")
    common = Common(
        "apps", store, as_json, quiet, seed, o.parse_labels(label), note, timeout, report, max_bytes, budget,
        credentials,
    )  # fmt: skip
    load = Load(repeat=repeat, compress=compress, dedupe=dedupe)
    return run_apps(AppsRequest(target, only, scale, pace, csv, load, app_ or (), find_streams, step), common)


@with_clients
def replay(
    target: o.TargetArg,
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="A trace.", show_default=False)],
    pace: o.PaceOpt = "fast",
    deadline: o.DeadlineOpt = "50ms",
    max_streams: o.MaxStreamsOpt = 64,
    compress: o.CompressOpt = 1.0,
    dedupe: o.DedupeOpt = 1.0,
    seed: o.SeedOpt = 0,
    max_bytes: o.MaxBytesOpt = "",
    timeout: o.TimeoutOpt = "30s",
    credentials: o.CredentialsOpt = None,
    label: o.LabelOpt = None,
    note: o.NoteOpt = "",
    report: o.ReportOpt = None,
    store: o.StoreOpt = None,
    as_json: o.JsonOpt = False,
    quiet: o.QuietOpt = False,
) -> int:
    """Replay a trace: every operation of an application, on files created for it."""
    from naslab.cli.common import Common
    from naslab.cli.replay import ReplayRequest, run_replay

    common = Common(
        "replay", store, as_json, quiet, seed, o.parse_labels(label), note, timeout, report, max_bytes, "", credentials
    )
    return run_replay(ReplayRequest(target, trace, pace, deadline, max_streams, compress, dedupe), common)


@with_clients
def job(
    target: o.TargetArg,
    jobs: j.JobsArg,
    source: j.SourceOpt = None,
    corpus: j.CorpusOpt = "",
    scale: j.ScaleOpt = None,
    streams: j.StreamsOpt = 4,
    in_flight: j.InFlightOpt = None,
    method: j.MethodOpt = "deflate",
    to: j.ToOpt = None,
    durability: j.DurabilityOpt = "end",
    verify: j.VerifyOpt = False,
    repeat: j.RepeatOpt = 1,
    seed: o.SeedOpt = 0,
    max_bytes: o.MaxBytesOpt = "",
    timeout: o.TimeoutOpt = "30s",
    credentials: o.CredentialsOpt = None,
    label: o.LabelOpt = None,
    note: o.NoteOpt = "",
    report: o.ReportOpt = None,
    store: o.StoreOpt = None,
    as_json: o.JsonOpt = False,
    quiet: o.QuietOpt = False,
) -> int:
    """Real jobs on real files: copy in and out, zip, unzip, checksum, find, checkout; and what limited them."""
    from naslab.cli.common import Common
    from naslab.cli.job import JobRequest, run_job

    common = Common(
        "job", store, as_json, quiet, seed, o.parse_labels(label), note, timeout, report, max_bytes, "", credentials
    )
    return run_job(
        JobRequest(target, jobs, source, corpus, scale, streams, in_flight, method, to, durability, verify, repeat),
        common,
    )


def durable(
    target: o.TargetArg,
    check: d.CheckOpt = None,
    cut: d.CutOpt = "",
    cut_command: d.CutCommandOpt = None,
    restore_command: d.RestoreCommandOpt = None,
    load: d.LoadOpt = "10s",
    wait: d.WaitOpt = "10m",
    size: o.SizeOpt = "16m",
    block: o.BlockOpt = "4k",
    depth: o.DepthOpt = 8,
    group: d.GroupOpt = 64,
    repeat: d.CutsOpt = 1,
    journal: d.JournalOpt = None,
    modes: d.ModesOpt = "all",
    seed: o.SeedOpt = 0,
    timeout: o.TimeoutOpt = "30s",
    credentials: o.CredentialsOpt = None,
    label: o.LabelOpt = None,
    note: o.NoteOpt = "",
    report: o.ReportOpt = None,
    store: o.StoreOpt = None,
    as_json: o.JsonOpt = False,
    quiet: o.QuietOpt = False,
) -> int:
    """Cut the server's power under load, and report which acknowledged writes survived."""
    from naslab.cli.common import Common
    from naslab.cli.durable import DurableRequest, run_durable

    common = Common(
        "durable", store, as_json, quiet, seed, o.parse_labels(label), note, timeout, report, "", "", credentials
    )
    request = DurableRequest(
        target, check, cut, cut_command, restore_command, load, wait, size, block, depth, group, repeat, journal, modes
    )
    return run_durable(request, common)


@with_clients
def tree(
    target: o.TargetArg,
    depth_of_tree: o.TreeDepthOpt = 2,
    fan_out: o.FanOutOpt = 10,
    files: o.FilesOpt = 1000,
    file_size: o.SmallFileOpt = "4k",
    sizes: o.SizesOpt = "fixed",
    workers: o.WorkersOpt = 1,
    shared: o.SharedOpt = False,
    neighbour: o.NeighbourOpt = 0,
    shuffle: o.ShuffleOpt = False,
    cold: o.ColdOpt = False,
    cold_command: o.ColdCommandOpt = None,
    repeat: o.RepeatOpt = 1,
    compress: o.CompressOpt = 1.0,
    dedupe: o.DedupeOpt = 1.0,
    seed: o.SeedOpt = 0,
    max_bytes: o.MaxBytesOpt = "",
    timeout: o.TimeoutOpt = "30s",
    credentials: o.CredentialsOpt = None,
    label: o.LabelOpt = None,
    note: o.NoteOpt = "",
    report: o.ReportOpt = None,
    store: o.StoreOpt = None,
    as_json: o.JsonOpt = False,
    quiet: o.QuietOpt = False,
) -> int:
    """Metadata and small files: create, stat, open, read, list, rename and remove a tree of them, warm and cold."""
    from naslab.cli.common import Common, Load
    from naslab.cli.tree import TreeRequest, run_tree

    common = Common(
        "tree", store, as_json, quiet, seed, o.parse_labels(label), note, timeout, report, max_bytes, "", credentials
    )
    load = Load(repeat, workers=workers, compress=compress, dedupe=dedupe)
    request = TreeRequest(
        target, depth_of_tree, fan_out, files, file_size, sizes, shared, load, neighbour, shuffle, cold, cold_command
    )
    return run_tree(request, common)


def fsx(
    tier: Annotated[
        int | None,
        typer.Option("--tier", metavar="N", help="Throughput capacity in MB/s: 8 to 2048.", show_default=False),
    ] = None,
    storage: Annotated[
        str, typer.Option("--storage", metavar="hdd|ssd", help="Kind of storage.", show_default=False)
    ] = "",
    tib: Annotated[
        float | None, typer.Option("--tib", metavar="N", help="Size of the storage in TiB.", show_default=False)
    ] = None,
    year: Annotated[int, typer.Option("--year", metavar="2020|2022", help="As published in this year.")] = 2022,
    run: Annotated[
        str,
        typer.Option(
            "--run",
            metavar="RUN",
            show_default=False,
            help="Show this run's measurements beside the model; without --tier, what would carry its load.",
        ),
    ] = "",
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace",
            metavar="FILE",
            help="Without --tier: what would carry the load of this trace.",
            show_default=False,
        ),
    ] = None,
    price_hdd_gib: o.PriceHddOpt = None,
    price_ssd_gib: o.PriceSsdOpt = None,
    price_mb_s: o.PriceMbOpt = None,
    store: o.StoreOpt = None,
    as_json: o.JsonOpt = False,
) -> int:
    """Amazon's published limits of an FSx for Windows file system, or the one that would carry a load."""
    from naslab.cli.fsx import print_model
    from naslab.cli.fsx_advice import prices_of, print_advice, refuse_with_tier

    prices = prices_of(price_hdd_gib, price_ssd_gib, price_mb_s, storage)
    if tier is None:
        return print_advice(run, trace, year, storage, tib, prices, store, as_json)
    refuse_with_tier(trace, prices, storage, tib)
    assert tib is not None
    return print_model(tier, storage, tib, year, run, store, as_json)


def doctor(
    target: Annotated[
        str,
        typer.Argument(
            metavar="[TARGET]",
            help="What to check: as elsewhere; a host alone, or smb://host, nfs://host for its shares and exports.",
            show_default=False,
        ),
    ] = "",
    timeout: o.TimeoutOpt = "30s",
    credentials: o.CredentialsOpt = None,
    as_json: o.JsonOpt = False,
) -> int:
    """Check what this machine can do, or what a target supports, and say what to fix."""
    from naslab.cli.doctor import run_doctor

    return run_doctor(target, timeout, credentials, as_json)
