"""What a command is: the types of the list in `commands`, and the options that commands share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

START, MEASURE, RESULTS, COMPARE, TOOLS, LAB, EXPERT = PANELS = (
    "Start here", "Measure", "Results", "Compare", "Other tools", "Lab", "Expert",
)  # fmt: skip
"""Panels of `naslab --help`, in their order."""
SYNONYMS = {"--size": "--file-size", "--file-size": "--size", "--block": "--record", "--record": "--block"}
"""Options accepted for each other wherever a command has one of the two."""
OLD_OPTIONS = {"--report": "--output", "--in-flight": "--depth"}
"""Old spellings of options, and what they are called now; they work for one release, with a hint."""
ASK = "__complete"
"""How a shell's completion asks, see `completing`."""


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
ADDRESS = Shared(
    "--address", "A[,B...]|auto", "Use these addresses of the server together; auto: those it lists (SMB 3)."
)
RIDE_OUT = Shared(
    "--ride-out", "TIME", "If the server goes away, wait this long for it, go on, and report the time without it."
)
NOTIFY = Shared("--notify", "bell|COMMAND", "At the end, ring or run this with NASLAB_RUN_ID and NASLAB_EXIT_CODE.")


TARGETS = (
    "run", "sweep", "sustained", "burst", "cache speed", "cache size", "curve", "profile", "tree", "apps", "job",
    "replay", "durable", "security", "compare rerun", "doctor", "clean",
)  # fmt: skip
"""Commands whose TARGET is one; `runs` and `history` look for a text in it."""


RIDING = ("sweep", "sustained", "curve")
"""Commands whose cells may wait for a server that comes back."""


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
        """The options that every command has beside its own, and those that its group has."""
        live = [LIVE] if self.measures or self.panel == MEASURE else []
        own = [shared for shared, names in ((ADDRESS, TARGETS), (RIDE_OUT, RIDING)) if self.name in names]
        return [OPTIONS, *own, *live, NOTIFY]
