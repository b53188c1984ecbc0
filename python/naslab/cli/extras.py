"""What whole groups of commands share beside their own options, added to each when its parser is made.

A command that writes files gets `--force`. So no command knows of it, and none can be left out.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from naslab.errors import INTERRUPTED
from naslab.outputs import forcing
from naslab.targets.forms import check_local

OUTPUTS = ("output", "report", "csv", "junit", "emit_app")
"""Parameters that name a file to write. A journal is never replaced."""
OF_TARGETS = (
    "run", "sweep", "sustained", "curve", "profile", "tree", "apps", "job", "replay", "durable", "rerun", "doctor",
    "clean",
)  # fmt: skip
"""Commands whose `target` is one; `runs` and `history` look for a text in it."""
OF_FOLDERS = ("site",)
"""Commands whose output is a folder, which has rules of its own and is not forced."""
MEASURING = OF_TARGETS[: OF_TARGETS.index("rerun")]
WATCHED: dict[str, tuple[Any, Any, Any]] = {
    "preset": (str, typer.Option("--preset", metavar="media|backup|office|vm|photo", show_default=False,
                                 help="Options for what a person does with a NAS; others given here win."), ""),
    "options": (str, typer.Option("--options", metavar="FILE.toml", show_default=False,
                                  help="Options from a file, one a line as depth = 4; others given here win."), ""),
    "live": (str, typer.Option("--live", metavar="FILE|-", show_default=False,
                               help="Also write what happens, a JSON object a line, for programs that watch."), ""),
    "notify": (str, typer.Option("--notify", metavar="bell|COMMAND", show_default=False,
                                 help="At the end ring, or run this with NASLAB_RUN_ID and NASLAB_EXIT_CODE."), ""),
}  # fmt: skip
FORCE: tuple[Any, Any, Any] = (
    bool,
    typer.Option("--force", help="Replace the output file, whatever it holds."),
    False,
)


def extended(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with what the groups it belongs to share."""
    names = inspect.signature(command).parameters
    command = _with_local_paths(command)
    if command.__name__ in MEASURING and "target" in names:  # `lab run` is a run of another kind
        command = _watched(command)
    if command.__name__ in OF_FOLDERS or not any(name in names for name in OUTPUTS):
        return command

    def forced(values: dict[str, Any]) -> Any:
        force = values["force"] if "force" in names else values.pop("force")
        with forcing(force):
            return command(**values)

    return with_options(command, {} if "force" in names else {"force": FORCE}, forced)


def _watched(command: Callable[..., Any]) -> Callable[..., Any]:
    """A measuring command with options from files, with lines for programs that watch it, and a word at its end."""

    def watched(values: dict[str, Any]) -> Any:
        from naslab.cli import live, notify

        where, told = values.pop("live"), values.pop("notify")
        del values["options"], values["preset"]  # they were taken from the command line before it was parsed
        words = notify.check(told) if told else None
        name, code = command.__name__, 1
        runs = _begun_runs()
        with live.watching(where, bool(values.get("as_json")), bool(values.get("quiet"))) as lines:
            if lines is not None:
                lines.say("begun", command=name)
            try:
                code = command(**values)
                return code
            except BaseException as error:
                code = INTERRUPTED if isinstance(error, KeyboardInterrupt) else getattr(error, "exit_code", 1)
                raise
            finally:
                run_id = next(iter(_begun_runs()[len(runs) :][-1:]), None)
                if lines is not None:
                    lines.say("ended", exit_code=code, run_id=run_id)
                if words is not None:
                    notify.tell(words, code, run_id, name)

    return with_options(command, WATCHED, watched)


def _begun_runs() -> list[str]:
    execute = sys.modules.get("naslab.execute")
    return list(execute.begun_runs) if execute else []


def _refuse_host(text: str, command: str) -> None:
    """Raises UsageError with what to type where the target is a machine alone. What is plainly none costs no import."""
    if "://" in text or text.startswith(("/", ".", "sim:", "null:", "lab:")):
        return
    from naslab.doctor.nearby import refuse_host

    refuse_host(text, f"naslab {command}" + (" RUN" if command == "rerun" else ""))


def _spelt(option: Any, name: str) -> str:
    """How a command line has it: --name, or help's word for an argument. Typer takes the first for a default."""
    words = [each for each in (option.default, *(option.param_decls or ())) if isinstance(each, str)]
    return next((each for each in words if each.startswith("--")), option.metavar or name.upper()).strip("[].")


def _with_local_paths(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command, which takes no name of a target where it takes a file or folder of this machine."""
    hints = get_type_hints(command, include_extras=True)
    options = {
        name: _spelt(each.__metadata__[0], name) for name, each in hints.items() if hasattr(each, "__metadata__")
    }

    def checked(values: dict[str, Any]) -> Any:
        if command.__name__ in OF_TARGETS and isinstance(values.get("target"), str):
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
