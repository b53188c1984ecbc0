"""Options behind the `?` of a target's name."""

from __future__ import annotations

from urllib.parse import parse_qsl, quote

from naslab.errors import UsageError

_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
_SECRETS = ("password", "pass", "passwd", "pw")


def parse_query(shown: str, query: str) -> dict[str, str]:
    """name=value pairs. Raises UsageError when malformed, or when a name comes twice."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), encoding="utf-8")
    except ValueError:
        raise UsageError(f"target {shown!r}: the part after ? is not name=value&name=value") from None
    found = dict(pairs)
    if len(found) < len(pairs):
        raise UsageError(f"target {shown!r}: an option is given twice; give it once")
    return found


def flag(shown: str, name: str, value: str) -> bool:
    """Whether an option is on. Raises UsageError for anything but 1, true, yes, on and their opposites."""
    if value.lower() in _TRUE:
        return True
    if value.lower() in _FALSE:
        return False
    raise UsageError(f"target {shown!r}: {name}={value!r}; use 1 or 0")


class Options:
    """Options of one target, taken one by one; `finish` refuses what nobody took.

    Every method raises UsageError that names the option, its value and what may be given.
    """

    def __init__(self, shown: str, query: str) -> None:
        self.shown = shown
        self._left = parse_query(shown, query)
        self._given = dict(self._left)
        self._known: list[str] = []
        for name in self._left:
            if name.lower() in _SECRETS:
                raise UsageError(
                    f"target {shown!r}: a password is not an option of a target; use NASLAB_PASSWORD or "
                    "--credentials FILE"
                )

    def given(self, name: str) -> bool:
        """Whether the option is there."""
        return name in self._given

    def text(self, name: str, default: str = "") -> str:
        """The option's text."""
        self._known.append(name)
        return self._left.pop(name, default)

    def choice(self, name: str, default: str, choices: tuple[str, ...]) -> str:
        """One of some words, written in any case."""
        value = self.text(name, default)
        if value.lower() not in choices:
            raise self.error(f"{name}={value!r}; use {', '.join(choices[:-1])} or {choices[-1]}")
        return value.lower()

    def flag(self, name: str, default: bool) -> bool:
        """On or off."""
        value = self.text(name, "on" if default else "off")
        return flag(self.shown, name, value)

    def number(self, name: str, low: int, high: int) -> int | None:
        """A whole number within bounds; None when not given."""
        if not self.given(name):
            self._known.append(name)
            return None
        return self._whole(name, self.text(name), low, high)

    def numbers(self, name: str, low: int, high: int, most: int) -> list[int] | None:
        """Whole numbers with commas; None when not given."""
        if not self.given(name):
            self._known.append(name)
            return None
        parts = [part for part in self.text(name).split(",") if part]
        if len(parts) > most:
            raise self.error(f"{name} holds {len(parts)} numbers; give at most {most}")
        return [self._whole(name, part, low, high) for part in parts]

    def _whole(self, name: str, text: str, low: int, high: int) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) < 20 and low <= int(text) <= high):
            raise self.error(f"{name}={text!r}; give a whole number from {low} to {high}")
        return int(text)

    def finish(self) -> str:
        """Refuses options that nobody took; the others as text for the target's name in results."""
        if self._left:
            unknown = ", ".join(self._left)
            raise self.error(f"unknown option {unknown}; there are {', '.join(self._known)}")
        pairs = [f"{quote(name)}={quote(value, safe=',')}" for name, value in self._given.items()]
        return "?" + "&".join(pairs) if pairs else ""

    def error(self, message: str) -> UsageError:
        """An error about this target."""
        return UsageError(f"target {self.shown!r}: {message}")
