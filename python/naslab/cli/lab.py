"""`naslab lab ...`: private servers that stay until they are taken down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from naslab.cli import options as o
from naslab.errors import UsageError

if TYPE_CHECKING:
    from naslab.lab import Server

lab_app = typer.Typer(
    name="lab",
    help="Private servers to measure, from this machine's own packages.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

NameArg = Annotated[
    str, typer.Argument(metavar="NAME", help="A system that `naslab lab list` names.", show_default=False)
]


@lab_app.callback()
def _root() -> None:
    """Private servers to measure, from this machine's own packages."""


@lab_app.command("list")
def list_systems(as_json: o.JsonOpt = False) -> int:
    """List the systems, which of them run, and what this machine lacks for the others."""
    from naslab.lab import SYSTEMS, state
    from naslab.lab.systems import missing_packages

    up = {server.name: server for server in state.all_servers()}
    systems = [
        {
            "name": name, "what": found.what, "missing_packages": missing_packages(found),
            "url": up[name].url if name in up else None, "answers": name in up and up[name].is_up,
        }
        for name, found in SYSTEMS.items()
    ]  # fmt: skip
    if as_json:
        print(json.dumps({"schema": 1, "systems": systems}))
        return 0
    for name, found in SYSTEMS.items():
        print(f"{name:<16} {found.what}")
        if missing := missing_packages(found):
            print(f"{'':<16} missing packages: {' '.join(missing)}")
        if name in up:
            print(f"{'':<16} {'up' if up[name].is_up else 'up, and its server ended'}: {up[name].url}")
    return 0


@lab_app.command()
def up(
    name: NameArg,
    folder: Annotated[
        Optional[Path],  # noqa: UP045 - Typer reads this at run time
        typer.Option("--folder", metavar="DIR", help="Serve this folder, and keep it.", show_default="a private one"),
    ] = None,
    fast: Annotated[bool, typer.Option("--fast", help="Keep the private folder in memory (/dev/shm).")] = False,
    as_json: o.JsonOpt = False,
) -> int:
    """Start a server, wait until it answers, print its address; it stays until `naslab lab down`."""
    from naslab import lab
    from naslab.lab import state

    if folder is not None and fast:
        raise UsageError(f"--fast: the private folder is not used with --folder {folder}; leave one out")
    lab.systems.system(name)
    with state.locked():
        if state.find(name) is not None:
            raise UsageError(f"lab: {name} is up already; use it as lab:{name}, or end it with naslab lab down {name}")
        server = lab.start(name, folder, fast=fast)
        state.save(server)
        server.release()
    _say(server, as_json)
    return 0


@lab_app.command()
def show(name: NameArg, as_json: o.JsonOpt = False) -> int:
    """Show a running server: addresses, user, credentials file, processes, folder."""
    _say(_running(name), as_json)
    return 0


@lab_app.command()
def down(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="The server to end; all without it.", show_default=False)
    ] = "",
    as_json: o.JsonOpt = False,
) -> int:
    """End a server, or all of them, and remove what it kept; a folder given with --folder stays."""
    from naslab.lab import state

    with state.locked():
        servers = [_running(name)] if name else state.all_servers()
        for server in servers:
            server.stop()
            state.forget(server)
    if as_json:
        print(json.dumps({"schema": 1, "ended": [server.name for server in servers]}))
    else:
        print("\n".join(f"{server.name} is down" for server in servers) or "nothing was up")
    return 0


def _running(name: str) -> Server:
    from naslab.lab import state, systems

    systems.system(name)
    server = state.find(name)
    if server is None:
        raise UsageError(f"lab: {name} is not up; start it with naslab lab up {name}, or measure lab:{name} directly")
    return server


def _say(server: Server, as_json: bool) -> None:
    public = server.public()
    if as_json:
        print(json.dumps({"schema": 1, **public}))
        return
    print(public["url"])
    others = [url for share, url in server.targets.items() if url != server.url]
    lines: list[tuple[str, str]] = [("also", url) for url in others]
    if server.credentials is not None:
        lines.append(("user", f"{server.user}; --credentials {server.credentials}"))
    lines += [("serves", str(server.data)), ("processes", " ".join(map(str, public["pids"])) or "none: it ended")]
    lines.append(("measure it", f"naslab sweep lab:{server.name}"))
    for label, text in lines:
        print(f"  {label:<11} {text}")
