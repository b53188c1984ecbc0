"""`naslab lab ...`: private servers that stay until they are taken down."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from naslab import lab
from naslab.cli import options as o
from naslab.errors import UsageError
from naslab.units import amount_text, rate_text

if TYPE_CHECKING:
    from naslab.lab import Server
    from naslab.lab.definition import Definition

NameArg = Annotated[
    str, typer.Argument(metavar="NAME", help="A system that `naslab lab list` names.", show_default=False)
]
SystemArg = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="A system that `naslab lab list` names, or FILE.toml that describes one.",
        show_default=False,
    ),
]


def list_systems(as_json: o.JsonOpt = False) -> int:
    """List the systems, which of them are running, and what the others require."""
    from naslab.lab import state
    from naslab.lab.systems import DefinedSystem, missing_packages, names, said_of, system

    up = {server.name: server for server in state.all_servers()}
    found = {name: system(name) for name in names()}
    systems: list[dict[str, Any]] = [
        {
            "name": name, "what": each.what, "missing_packages": missing_packages(each),
            "kind": "parts" if isinstance(each, DefinedSystem) else "server",
            "backend": next((said.backend for said in said_of(each) if said.builds), None),
            "url": up[name].url if name in up else None, "answers": name in up and up[name].is_up,
        }
        for name, each in found.items()
    ]  # fmt: skip
    if as_json:
        print(json.dumps({"schema": 1, "systems": systems}))
        return 0
    for line in systems:
        name = line["name"]
        print(f"{name:<16} {line['what']}")
        if missing := line["missing_packages"]:
            print(f"{'':<16} missing packages: {' '.join(missing)}")
        elif line["backend"] is None:
            print(f"{'':<16} cannot be built here; naslab lab doctor shows why")
        if name in up:
            print(f"{'':<16} {_state(up.pop(name))}")
    for name, server in up.items():
        print(f"{name:<16} from a file\n{'':<16} {_state(server)}")
    return 0


def doctor(as_json: o.JsonOpt = False) -> int:
    """List which systems this machine can build, by which backend, and what the others require."""
    from naslab.lab.systems import names, said_of, system

    found = {name: said_of(system(name)) for name in names()}
    builds = {name: next((each.backend for each in said if each.builds), None) for name, said in found.items()}
    unmet = {
        package for name, said in found.items() if builds[name] is None for each in said for package in each.packages
    }
    if as_json:
        systems = [
            {"name": name, "backend": builds[name],
             "why_not": {each.backend: each.why_not for each in said if not each.builds}}
            for name, said in found.items()
        ]  # fmt: skip
        print(json.dumps({"schema": 1, "systems": systems, "missing_packages": sorted(unmet)}))
        return 0
    for name, said in found.items():
        print(f"{name:<16} {builds[name] or 'cannot be built here'}")
        for each in said if builds[name] is None else []:
            print(f"{'':<16} {each.backend}: {each.why_not}")
    if unmet:
        print(f"missing packages; Debian/Ubuntu: apt install {' '.join(sorted(unmet))}")
    return 0


def status(as_json: o.JsonOpt = False) -> int:
    """Show running servers: addresses, processes, memory used by their disks."""
    from naslab.lab import state

    servers = state.all_servers()
    if as_json:
        print(json.dumps({"schema": 1, "servers": [{**each.public(), "answers": each.is_up} for each in servers]}))
        return 0
    for server in servers:
        print(f"{server.name:<16} {_state(server)}")
    if not servers:
        print("nothing is up; start a system with naslab lab up NAME")
    return 0


def _state(server: Server) -> str:
    return f"{'up' if server.is_up else 'up, and its server ended'}: {server.url}"


def up(
    name: SystemArg,
    folder: Annotated[
        Optional[Path],  # noqa: UP045 - Typer reads this at run time
        typer.Option("--folder", metavar="DIR", help="Serve this folder, and keep it.", show_default="a private one"),
    ] = None,
    fast: Annotated[bool, typer.Option("--fast", help="Keep the private folder in memory (/dev/shm).")] = False,
    planted: Annotated[
        Optional[list[str]],  # noqa: UP045 - Typer reads this at run time
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            show_default=False,
            help="Change a value: burst=120MB/s or, for a system with parts, disks.size=1GiB, link.rate=100Mbit/s.",
        ),
    ] = None,
    as_json: o.JsonOpt = False,
) -> int:
    """Start a server, wait until it answers, print its address; it stays until `naslab lab down`."""
    from naslab.lab import state

    if folder is not None and fast:
        raise UsageError(f"--fast: the private folder is not used with --folder {folder}; leave one out")
    called = Path(name).stem if name.endswith(".toml") else name
    chosen = chosen_limits(name, planted or [])
    with state.locked():
        if state.find(called) is not None:
            raise UsageError(
                f"lab: {called} is up already; use it as lab:{called}, or end it: naslab lab down {called}"
            )
        server = lab.start(name, folder, fast=fast, **chosen)
        state.save(server)
        server.release()
    _say(server, as_json)
    return 0


def show(name: SystemArg, as_json: o.JsonOpt = False) -> int:
    """Draw a system with its limits; if it is running, show addresses, user, credentials file, processes, folder."""
    from naslab.lab import state
    from naslab.lab.drawing import draw

    server = None if name.endswith(".toml") else state.find(name)
    definition = _definition(name, server)
    if definition is None:
        _say(_running(name), as_json)
        return 0
    if as_json:
        print(json.dumps({"schema": 1, "name": definition.name, **_described(definition), **_up(server)}))
        return 0
    print(f"{definition.name}: {definition.what}\n\n{draw(definition)}\n")
    if server is not None:
        _say(server, as_json)
        return 0
    from naslab.lab import backends

    said = backends.answers(definition)
    if built := [each.backend for each in said if each.builds]:
        print(f"  built by    {built[0]}")
        print(f"  start it    naslab lab up {name}")
        return 0
    print("  cannot be built here:")
    for each in said:
        print(f"    {each.backend}: {each.why_not}")
    return 0


def _definition(name: str, server: Server | None) -> Definition | None:
    """What a system is made of; None for a server that is not made of parts."""
    from naslab.lab import definition, systems

    if server is not None:
        given = server.facts.get("definition")
        return None if given is None else definition.read(given["data"], given["file"], server.name, given["chosen"])
    found = systems.from_file(Path(name)) if name.endswith(".toml") else systems.system(name)
    if isinstance(found, systems.DefinedSystem):
        return found.make_options({})
    return None


def _described(definition: Definition) -> dict[str, Any]:
    """As JSON: the parts, the limits, who builds it."""
    from naslab.lab import backends
    from naslab.lab.limits import planted

    said = backends.answers(definition)
    return {
        "what": definition.what, "definition": dataclasses.asdict(definition),
        "limits": [dataclasses.asdict(each) for each in planted(definition)],
        "backend": next((each.backend for each in said if each.builds), None),
        "why_not": {each.backend: each.why_not for each in said if not each.builds},
    }  # fmt: skip


def _up(server: Server | None) -> dict[str, Any]:
    return {"up": False} if server is None else {**server.public(), "up": True, "answers": server.is_up}


def down(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="Server to stop; without it, all.", show_default=False)
    ] = "",
    as_json: o.JsonOpt = False,
) -> int:
    """Stop one server, or all, and remove its files; a folder given with --folder stays."""
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


def execute(
    name: NameArg,
    client: Annotated[
        int, typer.Option("--client", metavar="N", help="Run it at this client of several; 0: at the server's end.")
    ] = 1,
    *,
    command: Annotated[
        list[str],
        typer.Argument(metavar="COMMAND...", help="The program and its arguments, after --.", show_default=False),
    ],
) -> int:
    """Run a command at a running server's client: its disk mounted, behind its link."""
    found = [*_running(name).inside(client), *command]
    try:
        os.execvp(found[0], found)
    except OSError as error:
        raise UsageError(f"lab: {found[0]}: {error.strerror}; give a program and its words") from None


def chosen_limits(name: str, planted: list[str]) -> dict[str, str]:
    """NAME=VALUE pairs by name. Raises UsageError for what the system does not take."""
    from naslab.lab.systems import from_file, system

    words = (from_file(Path(name)) if name.endswith(".toml") else system(name)).words
    pairs = [text.partition("=") for text in planted]
    for text, (key, equals, _) in zip(planted, pairs, strict=True):
        if not equals or key not in words:
            takes = f"{name} takes {', '.join(words)}" if words else f"{name} has no limits to set"
            raise UsageError(f"--set {text!r}: write NAME=VALUE; {takes}")
    return {key: value for key, _, value in pairs}


def _running(name: str) -> Server:
    from naslab.lab import state, systems

    server = state.find(name)
    if server is None:
        systems.system(name)
        raise UsageError(f"lab: {name} is not up; start it with naslab lab up {name}, or measure lab:{name} directly")
    return server


def _say(server: Server, as_json: bool) -> None:
    from naslab.lab import mounted

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
    if "backend" in server.facts:
        lines.append(("built by", server.facts["backend"]))
    if "planted" in server.facts:
        lines.append(("planted", _planted_text(server.facts["planted"])))
    if server.facts.get("inside"):
        lines.append(("run in it", f"naslab lab exec {server.name} -- COMMAND"))
    if server.facts.get("mount"):
        steps = mounted.words(server)
        lines += [("measure it", steps[0]), ("the same", f"by naslab's own client: {steps[1]}")]
    else:
        lines.append(("measure it", f"naslab sweep lab:{server.name}"))
    for label, text in lines:
        print(f"  {label:<11} {text}")


def _planted_text(planted: dict[str, int]) -> str:

    return (
        f"{rate_text(planted['burst_bytes_per_s'])} until {amount_text(planted['size_bytes'])} of credit are spent, "
        f"then {rate_text(planted['baseline_bytes_per_s'])}"
    )
