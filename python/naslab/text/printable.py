r"""Text of others on its way to a terminal: nothing in it is obeyed, all of it is seen.

Names of files and exports, imported runs, servers' banners and their errors may hold anything: escapes that move the
cursor or set the clipboard, letters that turn the line around, halves of characters. `printable` shows such characters
as `\u001b`, which is also how JSON writes them. `guarded` puts it before all that a command prints.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

_OBEYED = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls but for tabs and ends of lines; C1, which some terminals take for ESC [
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction of text (Boucher, Anderson: Trojan Source, 2021)
    "\u00ad\u180e\u200b\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"  # nothing to be seen
    "\u2028\u2029\ud800-\udfff\ufffe\uffff"  # ends of lines that only some know; halves of a pair; no characters
    "]"
)
_HANGING = re.compile(r" *(?:- |\S+ {2,}|(?:note|naslab): )?")
"""What the lines after the first stand under: the indentation, a bullet, a name in a column of its own."""
_NUMBER_SPACE = re.compile(r"(?<=\d) (?=(?:%|[kMG]B/s|ops/s|[KMGT]iB|[kMGT]?B|[mµn]?s|min|h|[MG]bit/s)(?![\w/]))")
_LINE_ENDS = re.compile(r"[\n\t]")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_MOST_LINES = 1 << 16
_coloured: set[str] = set()
_coloured_order: deque[str] = deque()


def printable(text: object, *, one_line: bool = False) -> str:
    r"""The text with every character that a terminal would obey, or not show, written as `\u001b`.

    Tabs and ends of lines stay. one_line: they are escaped as well, for names within a line or a table.
    """
    shown = _OBEYED.sub(_escaped, str(text))
    return _LINE_ENDS.sub(_escaped, shown) if one_line else shown


def _escaped(found: re.Match[str]) -> str:
    code = ord(found.group())
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\u{0xD7C0 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def colours_of(text: str) -> str:
    """The same text, whose lines may be printed with their colours: its escapes are naslab's own.

    What it was made of must have been `printable` before.
    """
    for line in text.split("\n"):
        if "\x1b" in line and line not in _coloured:
            _coloured.add(line)
            _coloured_order.append(line)
            if len(_coloured_order) > _MOST_LINES:
                _coloured.discard(_coloured_order.popleft())
    return text


def _guard_line(line: str) -> str:
    if "\x1b" in line and line in _coloured:
        return line if _OBEYED.search(_COLOUR.sub("", line)) is None else printable(line)
    return printable(line)


class Guarded:
    """A text stream that writes nothing a terminal would obey. It is the stream in all else.

    A terminal that is narrower than a line gets it in several, broken between words; see `fold`.
    """

    folds = False

    def __init__(self, stream: TextIO) -> None:
        self.raw = stream
        self._within = False

    def write(self, text: str) -> int:
        """Writes the text as `printable`; lines that `colours_of` knows with their colours."""
        if _OBEYED.search(text) is not None:
            text = "\n".join(map(_guard_line, text.split("\n")))
        # What goes on in a line, and what overwrites one, is as long as its writer made it.
        if self.folds and not self._within and "\r" not in text:
            text = fold(text, _columns())
        self._within = bool(text) and not text.endswith("\n")
        return self.raw.write(text)

    def writelines(self, lines: Any) -> None:
        """Writes one after the other."""
        for line in lines:
            self.write(line)

    def __iter__(self) -> Iterator[str]:
        return iter(self.raw)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


def _columns() -> int:
    import shutil

    return shutil.get_terminal_size().columns


def fold(text: str, width: int) -> str:
    """Lines longer than the terminal, broken between words; what follows stands under the first one's text.

    Lines with colours, which are drawn for the width, and JSON stay as they are; so do words longer than a line, and
    lines of a command that goes on after a backslash.
    """
    if len(text) <= width or all(len(line) <= width for line in text.split("\n")):
        return text
    return "\n".join(_fold_line(line, width) for line in text.split("\n"))


def _fold_line(line: str, width: int) -> str:
    if len(line) <= width or "\x1b" in line or line.startswith(("{", "[")) or line.endswith(" \\"):
        return line
    found = _HANGING.match(line)

    indent = len(found.group()) if found and len(found.group()) <= width // 2 else 2
    # A number stays with its unit.
    line = _NUMBER_SPACE.sub("\N{NO-BREAK SPACE}", line)
    text = line.lstrip(" ")
    lines = textwrap.fill(
        text, width, initial_indent=line[: len(line) - len(text)], subsequent_indent=" " * indent,
        break_long_words=False, break_on_hyphens=False, replace_whitespace=False, drop_whitespace=True,
    )  # fmt: skip
    return lines.replace("\N{NO-BREAK SPACE}", " ")


def fold_for_terminals() -> None:
    """From now on what is printed on a terminal is folded; a file and a pipe get every line whole."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, Guarded) and stream.raw.isatty():
            stream.folds = True


def raw(stream: TextIO) -> TextIO:
    """The stream behind a guard, for what naslab itself draws: progress, and lines that overwrite one another."""
    return stream.raw if isinstance(stream, Guarded) else stream


@contextmanager
def guarded() -> Iterator[None]:
    """Within it, whatever is printed is `printable`."""
    before = sys.stdout, sys.stderr
    guard_again()
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def guard_again() -> None:
    """Guards the streams that stand in place of the guarded ones now."""
    sys.stdout, sys.stderr = _guarded(sys.stdout), _guarded(sys.stderr)


def _guarded(stream: TextIO | None) -> TextIO:
    """A missing stream (closed before Python began) stays missing."""
    return cast("TextIO", stream if stream is None or isinstance(stream, Guarded) else Guarded(stream))
