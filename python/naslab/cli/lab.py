"""`naslab lab ...`: private servers that stay until they are taken down."""

from __future__ import annotations

import json
import os
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
    planted: Annotated[
        Optional[list[str]],  # noqa: UP045 - Typer reads this at run time
        typer.Option("--set", metavar="NAME=VALUE", help="Of a system with limits: burst=120MB/s.", show_default=False),
    ] = None,
    as_json: o.JsonOpt = False,
) -> int:
    """Start a server, wait until it answers, print its address; it stays until `naslab lab down`."""
    from naslab import lab
    from naslab.lab import state

    if folder is not None and fast:
        raise UsageError(f"--fast: the private folder is not used with --folder {folder}; leave one out")
    chosen = _chosen(name, planted or [])
    with state.locked():
        if state.find(name) is not None:
            raise UsageError(f"lab: {name} is up already; use it as lab:{name}, or end it with naslab lab down {name}")
        server = lab.start(name, folder, fast=fast, **chosen)
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


@lab_app.command("exec", context_settings={"ignore_unknown_options": True})
def execute(
    name: NameArg,
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND...", help="The program and its words, after --.", show_default=False)
    ],
) -> int:
    """Run a command where a running server's disk is mounted, or at the client's end of its link."""
    found = [*_running(name).inside(), *command]
    try:
        os.execvp(found[0], found)
    except OSError as error:
        raise UsageError(f"lab: {found[0]}: {error.strerror}; give a program and its words") from None


def _chosen(name: str, planted: list[str]) -> dict[str, str]:
    """NAME=VALUE pairs by name. Raises UsageError for what the system does not take."""
    from naslab.lab.systems import system

    words = system(name).words
    pairs = [text.partition("=") for text in planted]
    for text, (key, equals, _) in zip(planted, pairs, strict=True):
        if not equals or key not in words:
            takes = f"{name} takes {', '.join(words)}" if words else f"{name} has no limits to set"
            raise UsageError(f"--set {text!r}: write NAME=VALUE; {takes}")
    return {key: value for key, _, value in pairs}


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
    if "planted" in server.facts:
        lines.append(("planted", _planted_text(server.facts["planted"])))
    if server.facts.get("inside"):
        lines.append(("run in it", f"naslab lab exec {server.name} -- COMMAND"))
    lines.append(("measure it", f"naslab sweep lab:{server.name}"))
    for label, text in lines:
        print(f"  {label:<11} {text}")


def _planted_text(planted: dict[str, int]) -> str:
    from naslab.units import amount_text, rate_text

    return (
        f"{rate_text(planted['burst_bytes_per_s'])} until {amount_text(planted['size_bytes'])} of credit are spent, "
        f"then {rate_text(planted['baseline_bytes_per_s'])}"
    )
