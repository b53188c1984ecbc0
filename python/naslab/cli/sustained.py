"""`naslab sustained`: one load for a while."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from naslab.analysis import scaling
from naslab.cli import arguments as a
from naslab.cli.common import Common, Load
from naslab.cli.groups import made, names_of
from naslab.cli.loads import (
    DEFAULT_DURATION,
    DEFAULT_SIZE,
    Task,
    carry_out,
    load_options,
    price_of,
    rest_of,
    size_of,
    time_of,
)
from naslab.cli.options import is_given
from naslab.commands.plans import scale as scales
from naslab.commands.plans import sustained as plans
from naslab.errors import UsageError
from naslab.results.describe import plain
from naslab.spec import CellSpec

if TYPE_CHECKING:
    import typer

    from naslab.targets import Target

_OLD = {
    "find_burst": ("burst", a.BurstArguments),
    "cached": ("cache speed", a.CacheSpeedArguments),
    "find_cache": ("cache size", a.CacheSizeArguments),
}
"""Options that once made this command another one, with its name and arguments now."""


def run_sustained(arguments: a.SustainedArguments, context: typer.Context) -> int:
    """`naslab sustained TARGET`; the exit code. Raises UsageError, TargetError, SpaceError."""
    if old := [name for name in _OLD if getattr(arguments.old, name)]:
        return _run_old(old, context)
    if arguments.old.evict_size:
        raise UsageError("--evict-size: only `naslab cache speed` evicts a file from the cache; leave it out")
    if arguments.old.budget:
        raise UsageError("--budget: this load runs for a --duration; `naslab burst` and `naslab cache` have a budget")
    return carry_out(parse(arguments, context.params["scale"]), arguments.target)


def parse(arguments: a.SustainedArguments, scale: str) -> _Sustained:
    """The command's own options. Raises UsageError naming the option for what cannot be or contradicts."""
    if arguments.bytes_ and arguments.duration:
        raise UsageError("--bytes with --duration: two ends; give one of them")
    load = Load.of(arguments.load, arguments.repeat)
    options = load_options(arguments.pattern, load, arguments.cache, DEFAULT_SIZE)
    options.burst_ops = arguments.burst_ops
    options.stop_bytes = size_of(arguments.bytes_, "--bytes") if arguments.bytes_ else None
    default = "" if options.stop_bytes else DEFAULT_DURATION
    options.duration_ns = time_of(arguments.duration or default, "--duration") or None
    options.warmup_ns = time_of(arguments.warmup, "--warmup")
    options.cooldown_ns = time_of(arguments.cooldown, "--cooldown")
    options.burst_gap_ns = time_of(arguments.burst_gap, "--burst-gap")
    if arguments.rate:
        options.rate_per_s = plans.parse_rate(arguments.rate, options.block_bytes)
    return _Sustained(
        Common.of("sustained", arguments), options, price_of(arguments.price), rest_of(arguments.rest, options),
        scales.parse_scale(scale) if scale else (),
    )  # fmt: skip


@dataclasses.dataclass
class _Sustained(Task):
    """One load, or the same with several numbers of clients. rest_ns: idle time between filling and load."""

    rest_ns: int = 0
    scale: tuple[int, ...] = ()

    def check_target(self, target: Target) -> None:
        """Raises UsageError where there are not enough clients."""
        if not self.scale:
            return
        if target.clients is None:
            raise UsageError("--scale: which clients? give --clients, --hosts or --scheduler, too")
        most = target.clients.count
        if most and self.scale[-1] > most:
            raise UsageError(
                f"--scale: {self.scale[-1]} of {most} clients; give --clients {self.scale[-1]}, or scale to fewer"
            )

    def cells(self, _probed: Mapping[str, Any]) -> list[CellSpec]:
        """All of them."""
        if not self.scale:
            return plans.sustained_cells(self.options, self.rest_ns)
        one = plans.sustained_cells(dataclasses.replace(self.options, repeat=1), self.rest_ns)
        return scales.scaled(one, self.scale, self.options.repeat, self.options.seed)

    def further_parts(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """How rates grew with the clients."""
        found = scaling.part(document) if self.scale else None
        return {"scaling": plain(found)} if found else {}


def _run_old(old: list[str], context: typer.Context) -> int:
    """The command that this one was with such an option. Raises UsageError for options that it does not have."""
    from naslab.cli import burst, cache_size, cache_speed

    if len(old) > 1:
        raise UsageError(f"{_flag(old[0])} with {_flag(old[1])}: two different measurements; run one at a time")
    command, kind = _OLD[old[0]]
    other = {*names_of(a.SustainedArguments), "scale"} - set(names_of(kind)) - set(old)
    for name in sorted(other):
        if is_given(context, name):
            unknown = _flag(name)
            raise UsageError(f"{_flag(old[0])} with {unknown}: `naslab {command}` has no {unknown}; leave it out")
    runs: dict[str, Callable[[Any], int]] = {
        "burst": burst.run_burst, "cache speed": cache_speed.run_speed, "cache size": cache_size.run_size,
    }  # fmt: skip
    values = {name: value for name, value in context.params.items() if is_given(context, name) or name == "target"}
    return runs[command](made(kind, values))


def _flag(name: str) -> str:
    return "--" + name.rstrip("_").replace("_", "-")
