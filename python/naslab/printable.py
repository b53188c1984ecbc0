r"""Text of others on its way to a terminal: nothing in it is obeyed, all of it is seen.

Names of files and exports, imported runs, servers' banners and their errors may hold anything: escapes that move the
cursor or set the clipboard, letters that turn the line around, halves of characters. `printable` shows such characters
as `\u001b`, which is also how JSON writes them. `guarded` puts it before all that a command prints.
"""

from __future__ import annotations

import re
import sys
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
    """A text stream that writes nothing a terminal would obey. It is the stream in all else."""

    def __init__(self, stream: TextIO) -> None:
        self.raw = stream

    def write(self, text: str) -> int:
        """Writes the text as `printable`; lines that `colours_of` knows with their colours."""
        if _OBEYED.search(text) is not None:
            text = "\n".join(map(_guard_line, text.split("\n")))
        return self.raw.write(text)

    def writelines(self, lines: Any) -> None:
        """Writes one after the other."""
        for line in lines:
            self.write(line)

    def __iter__(self) -> Iterator[str]:
        return iter(self.raw)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


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
