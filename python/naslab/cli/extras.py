"""What whole groups of commands share beside their own options, added to each when its parser is made.

All have `--options` and `--notify`, those that measure `--live`; one that writes files gets `--force`. So no command
knows of them, and none can be left out.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from naslab.cli.around import around
from naslab.cli.option_files import preset_commands
from naslab.cli.registry import ADDRESS, LIVE, MEASURE, NOTIFY, PRESET, RIDE_OUT, START, TARGETS, Command, Shared
from naslab.cli.ride_out import riding_out
from naslab.errors import UsageError
from naslab.targets.forms import check_local, with_addresses
from naslab.text.outputs import forcing

OUTPUTS = ("output", "report", "csv", "junit", "emit_app")
"""Parameters that name a file to write. A journal is never replaced."""
OF_FOLDERS = ("site",)
"""Commands whose output is a folder, which has rules of its own and is not forced."""
FORCE: tuple[Any, Any, Any] = (
    bool,
    typer.Option("--force", help="Replace the output file, whatever it holds."),
    False,
)


def extended(command: Callable[..., Any], entry: Command) -> Callable[..., Any]:
    """The command with what all share, and the groups that it belongs to."""
    names = inspect.signature(command).parameters
    command = _surrounded(_with_local_paths(command, entry), entry)
    if command.__name__ in OF_FOLDERS or not (any(name in names for name in OUTPUTS) or LIVE in entry.shared()):
        return command

    def forced(values: dict[str, Any]) -> Any:
        force = values["force"] if "force" in names else values.pop("force")
        with forcing(force):
            return command(**values)

    return with_options(command, {} if "force" in names else {"force": FORCE}, forced)


def _surrounded(command: Callable[..., Any], entry: Command) -> Callable[..., Any]:
    """The command with options from files, with lines for programs that watch it, and a word at its end."""
    shared = [*([PRESET] if entry.name in preset_commands() else []), *entry.shared()]

    def surrounded(values: dict[str, Any]) -> Any:
        own = {each.option: values.pop(_parameter(each)) for each in shared}
        if addresses := own.get(ADDRESS.option):
            values["target"] = _at(values.get("target"), addresses)
        # --options and --preset were taken from the command line before it was parsed.
        with riding_out(own.get(RIDE_OUT.option, "")):
            return around(entry, lambda: command(**values), own.get(LIVE.option, ""), own[NOTIFY.option],
                          _instead(entry, values))  # fmt: skip

    return with_options(command, {_parameter(each): _as_parameter(each) for each in shared}, surrounded)


def _parameter(shared: Shared) -> str:
    """The name of its Python parameter."""
    return shared.option.removeprefix("--").replace("-", "_")


def _at(target: str | None, addresses: str) -> str:
    """The target's name with these addresses of its server. Raises UsageError."""
    if not target:
        raise UsageError(f"--address {addresses}: name the target too; a run goes on with the addresses that it had")
    return with_addresses(target, addresses)


def _instead(entry: Command, values: Mapping[str, Any]) -> str:
    """What to do instead of lines to standard output; empty where --quiet keeps the result from it."""
    if entry.panel not in (START, MEASURE):
        return "name a file"
    silent = values.get("quiet") and not values.get("as_json")
    return "" if silent else "give --quiet without --json, or name a file"


def _as_parameter(shared: Shared) -> tuple[Any, Any, Any]:
    """For `with_options`."""
    return (str, typer.Option(shared.option, metavar=shared.value, help=shared.text, show_default=False), "")


def _refuse_host(text: str, command: str) -> None:
    """Raises UsageError with what to type where the target is a machine alone. What is plainly none costs no import."""
    if "://" in text or text.startswith(("/", ".", "sim:", "null:", "lab:")):
        return
    from naslab.commands.doctor.nearby import refuse_host

    refuse_host(text, f"naslab {command}" + (" RUN" if command == "rerun" else ""))


def _spelt(option: Any, name: str) -> str:
    """How a command line has it: --name, or help's word for an argument. Typer takes the first for a default."""
    words = [each for each in (option.default, *(option.param_decls or ())) if isinstance(each, str)]
    return next((each for each in words if each.startswith("--")), option.metavar or name.upper()).strip("[].")


def _with_local_paths(command: Callable[..., Any], entry: Command) -> Callable[..., Any]:
    """The command, which takes no name of a target where it takes a file or folder of this machine."""
    hints = get_type_hints(command, include_extras=True)
    options = {
        name: _spelt(each.__metadata__[0], name) for name, each in hints.items() if hasattr(each, "__metadata__")
    }

    def checked(values: dict[str, Any]) -> Any:
        of_target = entry.name in TARGETS and entry.name != "doctor"  # which looks at a whole machine
        if of_target and isinstance(values.get("target"), str):
            _refuse_host(values["target"], command.__name__)
        for name, value in values.items():
            for path in value if isinstance(value, list) else [value]:
                if isinstance(path, Path):
                    check_local(str(path), options[name])
        return command(**values)

    return with_options(command, {}, checked)


def with_options(
    command: Callable[..., Any], options: Mapping[str, tuple[Any, Any, Any]], call: Callable[[dict[str, Any]], Any]
) -> Callable[..., Any]:
    """The command with further options: (type, typer's option, default) by name. call: gets the values of all."""

    @functools.wraps(command)
    def wrapped(**values: Any) -> Any:
        return call(values)

    signature, hints = inspect.signature(command), get_type_hints(command, include_extras=True)
    known = [each.replace(annotation=hints[name]) for name, each in signature.parameters.items()]
    new = {name: Annotated[kind, option] for name, (kind, option, _) in options.items()}
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=options[name][2], annotation=annotation)
        for name, annotation in new.items()
    ]
    wrapped.__signature__ = signature.replace(parameters=_ordered(known, added))  # type: ignore[attr-defined]
    wrapped.__annotations__ = {**hints, **new}
    return wrapped


def _ordered(known: Iterable[inspect.Parameter], added: list[inspect.Parameter]) -> list[inspect.Parameter]:
    """Behind the command's own options and before those of many clients, which have a panel of their own."""
    known = list(known)
    at = next((at for at, each in enumerate(known) if each.name == "clients"), len(known))
    ends = [
        each.replace(kind=inspect.Parameter.KEYWORD_ONLY) if place >= at else each for place, each in enumerate(known)
    ]
    return [*ends[:at], *added, *ends[at:]]
