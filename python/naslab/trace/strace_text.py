"""strace's text: one line of output as a call with its arguments, whatever options strace was run with.

Understood: `PID`, `[pid PID]` or nothing in front; -ttt, -tt, -t, -r or no time; -T or no duration; -y or -yy or no
paths of descriptors; strings as text or in hexadecimal (-x, -xx); calls in two halves (`<unfinished ...>`,
`<... NAME resumed>`), which come joined.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

_FRONT = re.compile(
    r"\s*(?:\[pid +(?P<inner>\d+)\] +|(?P<pid>\d+) +)?"
    r"(?:(?P<clock>\d\d:\d\d:\d\d(?:\.\d+)?)|(?P<seconds>\d{1,11}\.\d{1,12}))? *"
)
_RESUMED = re.compile(r"<\.\.\. (?P<name>\w+) resumed> ?")
_UNFINISHED = re.compile(r" ?<unfinished \.\.\.>\s*\Z")
_NAME = re.compile(r"[a-z_]\w*(?=\()")
_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*"(?:\.\.\.)?'
    r"|(?:\d+|AT_FDCWD)<[^<>]*(?:->[^<>]*)*>(?:\(deleted\))?(?=[,)\]}\s]|$)"
    r"|/\*.{0,200}?\*/|[{\[(]|[}\])]|,\s*|[^\"{}\[\](),<]+|<",
    re.DOTALL,
)
_RESULT = re.compile(
    r"\s*= (?P<value>\?|-?\d+|0x[0-9a-f]+)(?:<(?P<path>[^<>]*(?:->[^<>]*)*)>(?P<deleted>\(deleted\))?(?=\s|\Z))?"
    r"(?: (?P<error>E[A-Z0-9_]{1,40})\b)?.*?(?:<(?P<seconds>\d{1,9}\.\d{1,12})>)?\Z",
    re.DOTALL,
)
_ENDED = re.compile(r"\+\+\+ (?:exited with \d+|killed by \S+(?: \(core dumped\))?) \+\+\+")
_SUPERSEDED = re.compile(r"\+\+\+ superseded by execve in pid (\d+) \+\+\+")
_FD = re.compile(r"(-?\d+|AT_FDCWD)(?:<(.*)>(\(deleted\))?)?\Z", re.DOTALL)
_HEX_ONLY = re.compile(r"(?:\\x[0-9a-f]{2})*\Z")
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|[0-7]{1,3}|.)", re.DOTALL)
_SIMPLE = {"n": 10, "t": 9, "r": 13, "f": 12, "v": 11, "a": 7, "b": 8, "e": 27, "0": 0}
_DAY_NS = 86_400 * 10**9
_LONGEST_NS = 1 << 60
MAX_HALF = 1 << 15
"""Calls that are under way at once."""
_EPOCH_NS = 10**8 * 10**9
"""Times below this many seconds are since the line above (-r), not since 1970."""


@dataclass(slots=True)
class Call:
    """One system call. value: what it returned, None for `?`. path: of a returned descriptor, b"" if deleted."""

    pid: int
    start_ns: int
    name: str
    args: list[str]
    value: int | None = None
    error: str | None = None
    duration_ns: int | None = None
    path: bytes | None = None

    @property
    def ok(self) -> bool:
        """It returned, and without an error."""
        return self.error is None and self.value is not None and self.value != -1


@dataclass(slots=True)
class Begun:
    """The first half of a call that another thread interrupted."""

    pid: int
    start_ns: int
    name: str
    text: str


@dataclass(slots=True)
class Ended:
    """A process or thread is gone; successor: the thread that goes on under its number after an execve."""

    pid: int
    start_ns: int
    successor: int | None = None


class BadLineError(ValueError):
    """A line that is none of strace's."""


@dataclass
class Lexer:
    """Lines in, events out; remembers the clock and calls that are half done."""

    wanted: frozenset[str]
    """Names of the calls that matter; others come as None."""
    half: dict[int, Begun] = field(default_factory=dict)
    has_times: bool = False
    """Whether the lines carry times; they count from the first."""
    started_at_ns: int | None = None
    """Since 1970, where the source tells."""
    _last_ns: int = 0
    _base_ns: int | None = None
    _clock_ns: int | None = None

    @property
    def now_ns(self) -> int:
        """When the line read last was begun, since the first."""
        return self._last_ns

    def event(self, line: bytes) -> Call | Begun | Ended | None:
        """What a line tells; None for signals, blank lines and calls that are not wanted. Raises BadLineError."""
        text = line.decode("latin-1").rstrip()
        front = _FRONT.match(text)
        assert front is not None
        rest = text[front.end() :]
        if not rest.strip() or rest.startswith("---"):
            return None
        pid = int(front["inner"] or front["pid"] or 0)
        now_ns = self._time(front["clock"], front["seconds"])
        if rest.startswith("+++"):
            ended = _end(pid, now_ns, rest)
            begun = self.half.pop(pid, None)
            if ended and ended.successor is not None and (begun := self.half.pop(ended.successor, None)):
                self.half[pid] = begun
            return ended
        if resumed := _RESUMED.match(rest):
            return self._resumed(pid, resumed["name"], rest[resumed.end() :])
        name = _NAME.match(rest)
        if name is None:
            raise BadLineError("not a line of strace")
        if name[0] not in self.wanted:
            return None
        if unfinished := _UNFINISHED.search(rest):
            if len(self.half) >= MAX_HALF:
                raise BadLineError("too many calls that have not ended")
            begun = self.half[pid] = Begun(pid, now_ns, name[0], rest[: unfinished.start()])
            return begun
        return _call(pid, now_ns, name[0], rest)

    def _resumed(self, pid: int, name: str, tail: str) -> Call | None:
        if name not in self.wanted:
            return None
        begun = self.half.pop(pid, None)
        if begun is None or begun.name != name:
            raise BadLineError("the second half of a call whose first half is missing")
        if _UNFINISHED.search(tail) or "<unfinished ...>" in tail[:24]:
            return None
        return _call(pid, begun.start_ns, name, begun.text + tail)

    def _time(self, clock: str | None, seconds: str | None) -> int:
        if clock is not None:
            now_ns = _clock_ns(clock)
            if self._clock_ns is not None and now_ns < self._clock_ns - _DAY_NS // 2:
                self._base_ns = (self._base_ns or 0) - _DAY_NS
            self._clock_ns = now_ns
        elif seconds is not None:
            now_ns = _decimal_ns(seconds)
            if now_ns < _EPOCH_NS:
                self.has_times = True
                self._last_ns = min(self._last_ns + now_ns, _LONGEST_NS)
                return self._last_ns
            if self.started_at_ns is None:
                self.started_at_ns = now_ns
        else:
            return self._last_ns
        self.has_times = True
        if self._base_ns is None:
            self._base_ns = now_ns
        if now_ns - self._base_ns > _LONGEST_NS:
            raise BadLineError("a time decades after the first")
        self._last_ns = max(self._last_ns, now_ns - self._base_ns)
        return self._last_ns


def _end(pid: int, now_ns: int, text: str) -> Ended | None:
    if successor := _SUPERSEDED.match(text):
        return Ended(pid, now_ns, int(successor[1]))
    return Ended(pid, now_ns) if _ENDED.match(text) else None


def _call(pid: int, start_ns: int, name: str, text: str) -> Call:
    args, end = arguments(text, len(name) + 1)
    result = _RESULT.match(text, end)
    if result is None:
        raise BadLineError("a call without its result")
    told = result["value"]
    value = None if told == "?" else int(told, 16 if told.startswith("0x") else 10)
    path = None
    if result["path"] is not None:
        path = b"" if result["deleted"] else string_bytes(result["path"])
    took = _decimal_ns(result["seconds"]) if result["seconds"] else None
    return Call(pid, start_ns, name, args, value, result["error"], took, path)


def arguments(text: str, start: int) -> tuple[list[str], int]:
    """The arguments of a call, split at its commas, and the position after its closing parenthesis.

    start: after the opening one. Raises BadLineError when it is never closed.
    """
    found: list[str] = []
    depth, begin, position, length = 0, start, start, len(text)
    match = _TOKEN.match
    while position < length:
        token = match(text, position)
        if token is None:
            raise BadLineError("a string without its end")
        first = text[position]
        if first == "," and depth == 0:
            found.append(text[begin:position].strip())
            begin = token.end()
        elif first in "{[(":
            depth += 1
        elif first in "}])":
            if depth == 0:
                if begin < position or found:
                    found.append(text[begin:position].strip())
                return found, position + 1
            depth -= 1
        position = token.end()
    raise BadLineError("a call without its closing parenthesis")


def descriptor(arg: str) -> tuple[int | None, bytes | None, bool]:
    """(number, path as strace shows it, deleted) of `3</tmp/x>`; number None for AT_FDCWD and for what is none."""
    found = _FD.match(arg)
    if found is None:
        return None, None, False
    path = string_bytes(found[2]) if found[2] is not None else None
    return None if found[1] == "AT_FDCWD" else int(found[1]), path, found[3] is not None


def quoted(arg: str) -> bytes | None:
    """The bytes of a string argument; None for NULL, an address, or a string that strace cut short."""
    if len(arg) < 2 or arg[0] != '"' or arg[-1] != '"':
        return None
    return string_bytes(arg[1:-1])


@lru_cache(maxsize=1 << 14)
def string_bytes(text: str) -> bytes:
    """What strace's escapes stand for."""
    if _HEX_ONLY.match(text):
        return bytes.fromhex(text.replace("\\x", ""))
    if "\\" not in text:
        return text.encode("latin-1")
    return _ESCAPE.sub(_unescaped, text).encode("latin-1")


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    if code[0] == "x" and len(code) == 3:
        return chr(int(code[1:], 16))
    if code[0] in "01234567":
        return chr(int(code, 8) & 0xFF)
    return chr(_SIMPLE[code]) if code in _SIMPLE else code


def _decimal_ns(text: str) -> int:
    whole, _, fraction = text.partition(".")
    return int(whole) * 10**9 + int(fraction[:9].ljust(9, "0"))


def _clock_ns(text: str) -> int:
    hours, minutes, seconds = text.split(":")
    return (int(hours) * 60 + int(minutes)) * 60 * 10**9 + _decimal_ns(seconds if "." in seconds else seconds + ".0")
