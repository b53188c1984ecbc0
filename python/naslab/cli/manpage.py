"""docs/man/naslab.1, made from the commands themselves as the reference page is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from naslab import __version__
from naslab.cli.build import parser_of
from naslab.cli.describe import panels_of, usage
from naslab.cli.help_text import ABOUT
from naslab.cli.lookup import shown
from naslab.cli.registry import PANELS, Command

if TYPE_CHECKING:
    from naslab.cli.build import NaslabCommand

_EXITS = (
    ("0", "Done, even if --budget ended the run early."),
    ("1", "It ran, but failed; what was measured is stored."),
    ("2", "Refused: a wrong option, a target that cannot carry out the plan; nothing was measured or stored."),
    ("3", "naslab compare check: worse than the baseline."),
    ("4", "naslab compare, naslab compare check: undecided."),
    ("130", "Interrupted by Ctrl-C; what was measured is stored."),
)
_VARIABLES = (
    ("NASLAB_STORE", "File that keeps results, as --store."),
    ("NASLAB_PASSWORD", "Password of the server, if no --credentials are given."),
    ("NASLAB_TOKEN", "Token that readers of naslab serve need, as --token."),
    ("NO_COLOR", "No bold headings in help."),
)


def man_page() -> str:
    """The page for man(1), in the macros of man(7)."""
    lines = [
        '.\\" Made by tools/make-docs from naslab/cli; edit the help texts there instead.',
        f'.TH NASLAB 1 "" "naslab {__version__}" "User Commands"',
        ".SH NAME", "naslab \\- measure any file server, and see what limits it",
        ".SH SYNOPSIS", ".B naslab", ".I COMMAND", "[\\fIARGUMENTS\\fR] [\\fIOPTIONS\\fR]",
        ".SH DESCRIPTION", _plain(ABOUT), ".SH COMMANDS",
    ]  # fmt: skip
    for panel in PANELS:
        lines.append(f".SS {_plain(panel)}")
        lines += _rows([(f"naslab {each.name}", each.brief) for each in shown() if each.panel == panel])
    for entry in shown():
        lines += [f'.SH "NASLAB {entry.name.upper()}"', *_command(entry)]
    lines += [".SH EXIT STATUS", *_rows(_EXITS), ".SH ENVIRONMENT", *_rows(_VARIABLES)]
    return "\n".join(lines) + "\n"


def _command(entry: Command) -> list[str]:
    parsed = entry.where and not entry.own_syntax
    lines = _described(parser_of(entry.name)) if parsed else [_plain(f"{entry.brief}.")]
    if not parsed and entry.own_syntax:
        lines += _rows([(f"{each.option} {each.value}", each.text) for each in entry.shared()])
    lines += [".PP", "Examples:"]
    for example in entry.examples:
        lines += [".PP", ".nf", f".RS 4\n{_plain(example.line)}\n.RE", ".fi", ".RS 8", _plain(example.does), ".RE"]
    return lines


def _described(command: NaslabCommand) -> list[str]:
    lines = [f".B {_plain(usage(command))}"]
    for paragraph in str(command.help).strip().split("\n\n"):
        lines += [".PP", _plain(" ".join(paragraph.split()))]
    for panel, rows in panels_of(command):
        lines += [f".SS {_plain(panel)}", *_rows(rows)]
    return lines


def _rows(rows: list[tuple[str, str]] | tuple[tuple[str, str], ...]) -> list[str]:
    return [line for name, text in rows for line in (".TP", f".B {_plain(name)}", _plain(text))]


def _plain(text: str) -> str:
    """The text with nothing in it that roff obeys; hyphens can be searched and copied."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...")
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped
