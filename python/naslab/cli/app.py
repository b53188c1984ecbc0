"""Commands: options in, one function of another room called, text or JSON out. `commands` lists them all."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from naslab.cli import arguments as a
from naslab.cli import options as o
from naslab.cli.clients import with_clients, with_scaled_clients
from naslab.cli.groups import with_arguments
from naslab.cli.published import list_published
from naslab.errors import UsageError


@with_clients
@with_arguments
def run(arguments: a.RunArguments) -> int:
    """Find what limits the target, with evidence, in five minutes; then a small sweep.

    With --direct a mounted share is measured through the mount and by naslab's own client, alternately: this shows
    what the kernel's client costs.
    """
    from naslab.cli.both_ways import mount_behind, run_both_ways
    from naslab.cli.common import Common, Load
    from naslab.cli.survey import run_survey

    common = Common.of("run", arguments, arguments.details)
    load = Load.of(arguments.load, arguments.repeat)
    if load.direct and (found := mount_behind(arguments.target)):
        if arguments.apps:
            raise UsageError("--apps: not with --direct on a mounted share; leave one of them out")
        return run_both_ways(arguments.target, found, load, common, arguments.sweep)
    return run_survey(arguments.target, load, common, arguments.sweep, arguments.apps)


_WITH_RESUME = {
    "resume", "target", "plan", "max_bytes", "budget", "timeout", "credentials", "report", "store", "as_json", "quiet",
}  # fmt: skip
"""Options of sweep that mean something beside --resume; the plan itself is the stored run's."""


@with_clients
@with_arguments
def sweep(context: typer.Context, arguments: a.SweepArguments) -> int:
    """File size x record size x test: IOzone's method with honest data and cache labels."""
    from naslab.cli.common import Common
    from naslab.cli.sweep import resume_sweep, run_sweep

    if o.is_given(context, "resume"):
        o.refuse_others(context, _WITH_RESUME, "--resume continues the stored plan")
        return resume_sweep(arguments.resume, arguments.target, Common.of("sweep", arguments), arguments.plan)
    return run_sweep(arguments)


@with_scaled_clients
@with_arguments
def sustained(context: typer.Context, arguments: a.SustainedArguments) -> int:
    """One load for minutes: rate over time, burst and baseline, steadiness, percentiles, cost."""
    from naslab.cli.sustained import run_sustained

    return run_sustained(arguments, context)


@with_clients
@with_arguments
def burst(arguments: a.BurstArguments) -> int:
    """How long a burst lasts, the rate after it, and why it ended: one load at full speed until both are known."""
    from naslab.cli.burst import run_burst

    return run_burst(arguments)


@with_clients
@with_arguments
def cache_speed(arguments: a.CacheSpeedArguments) -> int:
    """Rate of the network and the protocol alone: a file that the server has cached, read cold, warm and evicted."""
    from naslab.cli.cache_speed import run_speed

    return run_speed(arguments)


@with_clients
@with_arguments
def cache_size(arguments: a.CacheSizeArguments) -> int:
    """Largest working set that fits the server cache: sets of growing size, read until they no longer fit."""
    from naslab.cli.cache_size import run_size

    return run_size(arguments)


@with_clients
@with_arguments
def curve(arguments: a.CurveArguments) -> int:
    """Latency against offered load: an open loop at rising rates, the knee and the capacity."""
    from naslab.cli.curve import run_curve

    return run_curve(arguments)


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
        return list_published(label, target, limit, as_json)
    return list_runs(label, target, limit, store, as_json, redact)


def show(
    run: o.RunArg = "last",
    redact: o.RedactOpt = False,
    spec: Annotated[
        bool, typer.Option("--spec", help="Print the run's specification as JSON, for naslab-agent.")
    ] = False,
    store: o.StoreOpt = None,
    as_json: o.JsonOpt = False,
) -> int:
    """Show a run in the terminal."""
    from naslab.cli.read import show_one, show_spec

    if spec:
        if redact:
            raise UsageError("--spec: it names the server; leave --redact out")
        return show_spec(run, store)
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


@with_arguments
def profile(arguments: a.ProfileArguments) -> int:
    """Sequential read rate by position, burst rate and random access time."""
    from naslab.cli.profile import run_profile

    return run_profile(arguments)


@with_clients
@with_arguments
def apps(arguments: a.AppsArguments) -> int:
    """Application workloads: twelve like NASPT's, and newer ones."""
    from naslab.cli.apps import list_apps, run_apps

    if arguments.list_:
        return list_apps(arguments.only, arguments.common.as_json, arguments.app_ or ())
    if not arguments.target:
        raise UsageError("apps: name a TARGET to measure, or give --list")
    return run_apps(arguments)


@with_clients
@with_arguments
def replay(arguments: a.ReplayArguments) -> int:
    """Replay a trace: every operation of an application, on files created for it."""
    from naslab.cli.replay import run_replay

    return run_replay(arguments)


@with_clients
@with_arguments
def job(arguments: a.JobArguments) -> int:
    """Real jobs on real files: copy in and out, zip, unzip, checksum, find, checkout; and what limited them."""
    from naslab.cli.job import run_job

    return run_job(arguments)


@with_arguments
def durable(arguments: a.DurableArguments) -> int:
    """Cut the server's power under load, and report which acknowledged writes survived."""
    from naslab.cli.durable import run_durable

    return run_durable(arguments)


@with_clients
@with_arguments
def tree(arguments: a.TreeArguments) -> int:
    """Metadata and small files: create, stat, open, read, list, rename and remove a tree of them, warm and cold."""
    from naslab.cli.tree import run_tree

    return run_tree(arguments)


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
