"""XML as DiskSpd lays it out: one element a line, two blanks a level. Unlike DiskSpd, all text is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from xml.sax.saxutils import escape, quoteattr

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class XmlLines:
    """Lines of an XML text that grows."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._level = 0

    def add(self, name: str, value: object, **attributes: object) -> None:
        """`<name>value</name>`; booleans as `true` and `false`."""
        text = str(value).lower() if isinstance(value, bool) else _clean(str(value))
        self._put(f"<{name}{_written(attributes)}>{escape(text)}</{name}>")

    def empty(self, name: str, **attributes: object) -> None:
        """`<name .../>`."""
        self._put(f"<{name}{_written(attributes)}/>")

    def comment(self, text: str) -> None:
        """A remark for people."""
        self._put(f"<!-- {_clean(text).replace('--', '- -')} -->")

    @contextmanager
    def within(self, name: str, **attributes: object) -> Iterator[None]:
        """An element around what is added in the block."""
        self._put(f"<{name}{_written(attributes)}>")
        self._level += 1
        yield
        self._level -= 1
        self._put(f"</{name}>")

    def text(self) -> str:
        """All lines."""
        return "".join(line + "\n" for line in self._lines)

    def _put(self, line: str) -> None:
        self._lines.append("  " * self._level + line)


def _written(attributes: dict[str, object]) -> str:
    return "".join(f" {name}={quoteattr(_clean(str(value)))}" for name, value in attributes.items())


def _clean(text: str) -> str:
    """Without characters that XML cannot hold; file names may."""
    return _FORBIDDEN.sub("\ufffd", text)
