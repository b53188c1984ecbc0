"""What a command is, and how one is looked up by its name. The commands themselves are listed in `commands`.

Nothing here imports Typer or a command's own module: help is printed and a name is checked without them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

START, MEASURE, RESULTS, COMPARE, TOOLS, LAB, EXPERT = PANELS = (
    "Start here", "Measure", "Results", "Compare", "Other tools", "Lab", "Expert",
)  # fmt: skip
"""Panels of `naslab --help`, in their order."""
SYNONYMS = {"--size": "--file-size", "--file-size": "--size", "--block": "--record", "--record": "--block"}
"""Options accepted for each other wherever a command has one of the two."""
OLD_OPTIONS = {"--report": "--output"}
"""Old spellings of options, and what they are called now; they work for one release, with a hint."""


class Shared(NamedTuple):
    """An option that commands have beside their own. value: its word in the help."""

    option: str
    value: str
    text: str


PRESET = Shared(
    "--preset", "media|backup|office|vm|photo", "Options for a typical use of a NAS; other options given here win."
)
OPTIONS = Shared(
    "--options", "FILE.toml", "Options from a file, one per line: depth = 4; other options given here win."
)
LIVE = Shared("--live", "FILE|-", "Also write events as JSON lines, for other programs.")
NOTIFY = Shared("--notify", "bell|COMMAND", "At the end, ring or run this with NASLAB_RUN_ID and NASLAB_EXIT_CODE.")


class Example(NamedTuple):
    """A command line as typed, and what it does."""

    line: str
    does: str


class Command(NamedTuple):
    """One command. name: its words after `naslab`, e.g. `compare check`.

    panel: empty for parts that only the help of their group lists. where: `module:function`, of naslab.cli unless the
    module is whole; empty for a command that only has parts, as `lab`. old_options: options that still work, and the
    command line to use instead. instead: what to type instead of a command that still works and that no page lists.
    own_syntax: of another tool's command line, its option that prints its help. forms: `module:function` that says how
    such a line has its options (`option_files.Forms`). settings: for the parser. measures: outside the panel Measure.
    """

    name: str
    panel: str
    brief: str
    where: str
    examples: tuple[Example, ...]
    old_options: Mapping[str, str] = {}
    instead: str = ""
    own_syntax: str = ""
    forms: str = ""
    settings: Mapping[str, object] = {}
    measures: bool = False

    def shared(self) -> list[Shared]:
        """The options that every command has beside its own, and those that every measuring command has."""
        return [OPTIONS, *([LIVE] if self.measures or self.panel == MEASURE else []), NOTIFY]


class Choice(NamedTuple):
    """The command that words name. rest: the words after its name. old: the name as typed, if it is an old one."""

    command: Command
    rest: list[str]
    old: str = ""


def table() -> dict[str, Command]:
    """All commands by name, in the order of the help."""
    from naslab.cli.commands import COMMANDS

    return {command.name: command for command in COMMANDS}


def shown() -> list[Command]:
    """The commands that help and pages list."""
    return [command for command in table().values() if not command.instead]


def old_names() -> Mapping[str, str]:
    """Old names of commands, and what they are called now."""
    from naslab.cli.commands import OLD_NAMES

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
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, among, 1, likeness)), "")


def nearest_command(words: Sequence[str]) -> str:
    """The command most like what was typed, by its name now; empty when none is."""
    known, old = [command.name for command in shown()], old_names()
    found = nearest(" ".join(words[:2]), known) if len(words) > 1 and words[0] in known else ""
    found = found or nearest(words[0], [*known, *old])
    return old.get(found, found)
