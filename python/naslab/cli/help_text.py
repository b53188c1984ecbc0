"""What `naslab help` prints: panels at the width of the terminal, from the registry and from a command's own options.

The first page needs neither Typer nor any command's module, so that it is there at once.
"""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from naslab.cli.describe import panels_of, usage
from naslab.cli.lookup import parts_of, shown
from naslab.cli.registry import PANELS, Command, Example
from naslab.text.printable import colours_of

if TYPE_CHECKING:
    from naslab.cli.build import NaslabCommand

MIN_WIDTH, MAX_WIDTH = 40, 120
STACKED_BELOW = 60
"""In a narrower terminal a text is below its name instead of beside it."""
NAME_SHARE = 0.35
"""A name that takes more of the width has its text on the next line."""
BEGIN = """\
naslab measures a file server and says what limits it. To begin:

  naslab doctor smb://SERVER        what the server offers, and what to fix first
  naslab run smb://SERVER/SHARE     five minutes: how fast it is, and what limits it
  naslab run lab:demo               the same without a server, to try it

naslab help lists all commands; naslab help COMMAND shows one, with examples.
"""
"""What `naslab` alone prints."""
ABOUT = (
    "Measures any file server, by SMB and NFS directly, mounted and local folders and simulated servers, and says what "
    "limits it."
)
Row = tuple[str, str]


def width() -> int:
    """Columns to use: the terminal's, or COLUMNS, within what can be read."""
    given = os.environ.get("COLUMNS", "")
    try:
        columns = int(given) if given.isdecimal() and int(given) else os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        columns = 80
    return max(MIN_WIDTH, min(columns or 80, MAX_WIDTH))


def root_help(columns: int) -> str:
    """`naslab --help`: every command in its panel."""
    commands = shown()
    head = [*_usage("naslab COMMAND [ARGUMENTS] [OPTIONS]", columns), "", *_wrapped(ABOUT, columns, 2)]
    name_width = max(len(command.name) for command in commands if command.panel)
    panels = [(panel, [(c.name, c.brief) for c in commands if c.panel == panel]) for panel in PANELS]
    more = [
        ("naslab help COMMAND", "A command's options, and examples."),
        ("naslab version", "The version."),
    ]
    return _page([head, *(_panel(name, rows, columns, name_width) for name, rows in panels),
                  _panel("More", more, columns)])  # fmt: skip


def group_help(command: Command, columns: int) -> str:
    """The help of a command that only has parts."""
    head = [
        *_usage(f"naslab {command.name} COMMAND [ARGUMENTS] [OPTIONS]", columns),
        "",
        *_wrapped(command.brief, columns, 2),
    ]
    return _page([head, _parts(command, columns), _examples(command.examples, columns)])


def command_help(command: NaslabCommand, columns: int) -> str:
    """The help of a command: usage, what it does, arguments and options in panels, its parts, examples."""
    head = [*_usage(usage(command), columns), "", *_paragraphs(command.help or "", columns)]
    panels = [_panel(name, rows, columns) for name, rows in panels_of(command)]
    return _page([head, *panels, _parts(command.entry, columns), _examples(command.entry.examples, columns)])


def examples_help(command: Command, columns: int) -> str:
    """What follows another tool's own help."""
    rows = [(f"{each.option} {each.value}", each.text) for each in command.shared()]
    return _page([_panel("Options of every naslab command", rows, columns), _examples(command.examples, columns)])


def coloured(text: str) -> str:
    """The same with headings in bold, where standard output is a terminal that may show them."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb" or not sys.stdout.isatty():
        return text

    lines = (f"\x1b[1m{line}\x1b[0m" if line and line[0] != " " and line[-1] == ":" else line
             for line in text.split("\n"))  # fmt: skip
    return colours_of("\n".join(lines))


def _page(parts: Iterable[list[str]]) -> str:
    return "\n\n".join("\n".join(part) for part in parts if part)


def _wrapped(text: str, columns: int, indent: int) -> list[str]:
    """Lines of at most `columns` characters; no word is divided, so that options and addresses can be copied."""
    space = " " * indent
    return textwrap.wrap(
        text, columns, initial_indent=space, subsequent_indent=space, break_long_words=False, break_on_hyphens=False
    )


def _usage(line: str, columns: int) -> list[str]:
    words = f"Usage: {line}"
    return textwrap.wrap(words, columns, subsequent_indent=" " * 7, break_long_words=False, break_on_hyphens=False)


def _paragraphs(text: str, columns: int) -> list[str]:
    lines: list[str] = []
    for paragraph in text.strip().split("\n\n"):
        lines += ["", *_wrapped(" ".join(paragraph.split()), columns, 2)]
    return lines[1:]


def _parts(command: Command, columns: int) -> list[str]:
    return _panel("Commands", [(part.name, part.brief) for part in parts_of(command.name)], columns)


def _panel(name: str, rows: Sequence[Row], columns: int, name_width: int = 0) -> list[str]:
    """A heading and its rows, names on the left."""
    if not rows:
        return []
    most = int(columns * NAME_SHARE)
    left = max(name_width, max((len(row[0]) for row in rows if len(row[0]) <= most), default=most))
    lines = [f"{name}:"]
    for row in rows:
        lines += _row(row, columns, left)
    return lines


def _row(row: Row, columns: int, left: int) -> list[str]:
    name, text = row
    if columns < STACKED_BELOW:
        return [f"  {name}", *_wrapped(text, columns, 6)]
    beside = _wrapped(text, columns, left + 4)
    if len(name) > left or not beside:
        return [f"  {name}", *beside]
    return [f"  {name:<{left}}  {beside[0].lstrip()}", *beside[1:]]


def _examples(examples: Sequence[Example], columns: int) -> list[str]:
    """Each as it is typed, on a line of its own however long, and what it does below."""
    if not examples:
        return []
    lines = ["Examples:"]
    for example in examples:
        lines += [f"  {example.line}", *_wrapped(example.does, columns, 6)]
    return lines
