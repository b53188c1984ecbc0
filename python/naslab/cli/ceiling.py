"""`naslab reference client`: what this client can do at most, in one table."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from naslab.cli import options as o
from naslab.errors import UsageError
from naslab.units import percent_text

if TYPE_CHECKING:
    from naslab.results.parts.client import ClientCeiling

SECONDS = 5.0

AgainOpt = Annotated[
    bool, typer.Option("--again", help="Measure again, even if today's measurement of this boot is stored.")
]
HostArg = Annotated[
    str,
    typer.Argument(
        metavar="[HOST]", help="A server: also the network interface on the path to it.", show_default=False
    ),
]


def ceiling(
    host: HostArg = "", again: AgainOpt = False, store: o.StoreOpt = None, as_json: o.JsonOpt = False,
    quiet: o.QuietOpt = False,
) -> int:  # fmt: skip
    """What this client can do at most, without any server: memory, zlib, AES, TCP to itself."""
    from naslab.client import ceiling_for, keep, measure, route_to
    from naslab.client.kept import is_quiet
    from naslab.results.describe import plain
    from naslab.results.store import Store

    route = route_to(host) if host else None
    if host and route is None:
        raise UsageError(f"HOST {host!r}: the name is not known, or no route leads to it; check its spelling")
    place = Store(store).path

    def say(text: str) -> None:
        if not quiet:
            print(f"naslab: {text}", file=sys.stderr, flush=True)

    if again:
        say(f"measuring the client's own ceiling for {SECONDS:.0f} s")
        found = measure(SECONDS)
        fresh = True
        if is_quiet(found):
            keep(place, found)
    else:
        found, fresh = ceiling_for(place, SECONDS, say)
    if as_json:
        json.dump({"schema": 1, "client_ceiling": plain(found), "route": route}, sys.stdout)
        print()
    else:
        print("\n".join(lines(found, route, fresh)))
    return 0


def lines(found: ClientCeiling, route: Mapping[str, Any] | None = None, fresh: bool = True) -> list[str]:
    """The figures as a table. fresh: measured now, else kept from when it says."""
    from naslab.analysis.client_table import rows
    from naslab.client.kept import QUIET_SHARE
    from naslab.results.document import iso_utc

    when = "" if fresh else f"; measured {iso_utc(found.measured_wall_ns)}, --again repeats it"
    told = [f"{found.host}, {found.cpus} {'processor' if found.cpus == 1 else 'processors'}{when}"]
    told += [f"  {name:<34}{value:>16}  {more}".rstrip() for name, value, more in rows(found, route)]
    foreign = found.foreign_cpu_fraction or 0.0
    if foreign > QUIET_SHARE:
        told.append(
            f"Other programs used {percent_text(foreign)} of the processors meanwhile: these figures are too low."
        )
    return told
