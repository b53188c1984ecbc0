"""Commands by their names, old and mistyped ones included.

Nothing here imports Typer or a command's own module: help is printed and a name is checked without them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from naslab.cli.command_list import COMMANDS, OLD_NAMES
from naslab.cli.registry import Command


class Choice(NamedTuple):
    """The command that words name. rest: the words after its name. old: the name as typed, if it is an old one."""

    command: Command
    rest: list[str]
    old: str = ""


def table() -> dict[str, Command]:
    """All commands by name, in the order of the help."""
    return {command.name: command for command in COMMANDS}


def shown() -> list[Command]:
    """The commands that help and pages list."""
    return [command for command in table().values() if not command.instead]


def old_names() -> Mapping[str, str]:
    """Old names of commands, and what they are called now."""
    return OLD_NAMES


def choose(words: Sequence[str]) -> Choice | None:
    """The command with the longest name that `words` begin with, old names included."""
    known, old = table(), old_names()
    for length in (2, 1):
        name = " ".join(words[:length])
        if len(words) >= length and (name in known or name in old):
            return Choice(known[old.get(name, name)], list(words[length:]), name if name in old else "")
    return None


def parts_of(name: str) -> list[Command]:
    """The commands whose names begin with this one's."""
    return [command for command in shown() if command.name.startswith(f"{name} ")]


def nearest(word: str, among: Sequence[str], likeness: float = 0.6) -> str:
    """The name most like a mistyped one; empty when none is."""
    return next(iter(get_close_matches(word, among, 1, likeness)), "")


def nearest_command(words: Sequence[str]) -> str:
    """The command most like what was typed, by its name now; empty when none is."""
    known, old = [command.name for command in shown()], old_names()
    found = nearest(" ".join(words[:2]), known) if len(words) > 1 and words[0] in known else ""
    found = found or nearest(words[0], [*known, *old])
    return old.get(found, found)
