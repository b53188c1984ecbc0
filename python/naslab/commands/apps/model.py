"""Definitions of applications: read from TOML, and refused where a number does not say where it is from.

A definition has parts that run at once, each with one behaviour and its numbers; docs/guide/apps.md explains the form.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naslab.errors import UsageError
from naslab.spec.script import MOST_STEP_BYTES
from naslab.units import parse_duration, parse_size

if TYPE_CHECKING:
    from naslab.results.parts.apps import AppSet

TWELVE = (
    "HDVideo_1Play", "HDVideo_2Play", "HDVideo_4Play", "HDVideo_1Record", "HDVideo_1Play_1Record", "ContentCreation",
    "OfficeProductivity", "FileCopyToNAS", "FileCopyFromNAS", "DirectoryCopyToNAS", "DirectoryCopyFromNAS",
    "PhotoAlbum",
)  # fmt: skip
"""NASPT's result names, in the order of its own result file."""
SETS = ("naspt", "older", "modern")
OWN = "own"
"""The set of a definition that is given as a file."""
CHOSEN = "chosen"
_FILES = {"files": "count", "bytes": "size", "request": "size", "spread": "number"}
BEHAVIOURS: dict[str, dict[str, str]] = {
    "play": {"streams": "count", "bytes": "size", "request": "size"},
    "record": {"streams": "count", "bytes": "size", "request": "size", "flush_every": "number"},
    "copy_in": {**_FILES, "folders": "count", "levels": "count"},
    "copy_out": {**_FILES, "folders": "count", "levels": "count"},
    "view": {**_FILES, "folders": "count", "levels": "count"},
    "office": {**_FILES, "saved": "percent", "out_of_order": "percent"},
    "create": {**_FILES, "writes": "percent", "header": "size"},
    "random": {
        "streams": "count", "bytes": "size", "requests": "count", "sizes": "sizes", "writes": "percent",
        "flush_every": "number",
    },
    "load": {**_FILES, "folders": "count", "streams": "count"},
    "build": {**_FILES, "folders": "count", "levels": "count", "objects": "percent", "looks": "count"},
}  # fmt: skip
"""What a part may do, and its numbers with their kinds. Each is required; sizes are those of all files together."""
MIX = {
    "streams": "count", "files": "sized", "folders": "count", "levels": "count", "at_once": "count", "opens": "count",
    "idle": "count", "makes": "sized", "reads": "requests", "writes": "requests", "sequential_reads": "percent",
    "sequential_writes": "percent", "onward": "percent", "ends": "count", "flushes": "count", "truncates": "count",
    "stats": "count", "missing": "count", "missing_opens": "count", "lists": "count", "mkdirs": "count",
    "rmdirs": "count", "removes": "count", "renames": "count",
}  # fmt: skip
"""The numbers of a `mix`, in naslab.commands.apps.mix. All but `streams` may be left out: then there is none of it, and
the percentages are 100."""
BEHAVIOURS["mix"] = MIX
_REQUIRED = {"mix": ("streams",)}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
_STEPS = ("prepare", "clean")
_MOST_FILE_BYTES = 1 << 20
_MOST_ROWS = 1000
WHOLE = {
    "sequential": "percent", "duration": "duration", "buffer": "duration", "think": "duration", "compress": "ratio",
    "dedupe": "ratio",
}  # fmt: skip
"""Numbers of the application as a whole; each may be left out, but `duration` and `buffer` come together.

duration: at recorded pace. think: what the application itself takes at any pace, however fast the server is.
compress, dedupe: how far the data that it writes can be reduced.
"""


@dataclass(frozen=True)
class Value:
    """A number: bytes, a count, nanoseconds or a percentage, and where it is from.

    why: the reason of a chosen one, or a remark. scales: a count that --scale shrinks.
    """

    is_: Any
    text: str
    source: str
    why: str = ""
    scales: bool = False


@dataclass(frozen=True)
class Part:
    """One behaviour with its numbers."""

    does: str
    values: Mapping[str, Value]

    def __getitem__(self, name: str) -> Any:
        return self.values[name].is_


@dataclass(frozen=True)
class Definition:
    """One application. sources: what the names in `from` stand for."""

    name: str
    set: AppSet
    about: str
    rationale: str
    sources: Mapping[str, str]
    whole: Mapping[str, Value]
    parts: tuple[Part, ...]

    @property
    def sequential(self) -> float | None:
        """Share of requests that continue the one issued before, 0 to 1; None: as it comes."""
        value = self.whole.get("sequential")
        return None if value is None else value.is_ / 100

    def records_steps(self) -> bool:
        """Whether each step is recorded when it runs: where an order was planned, and of those given as files."""
        return self.sequential is not None or self.set == OWN

    @property
    def sequential_published(self) -> float | None:
        """`sequential` where it was published; None where it was chosen or measured, or not planned at all."""
        value = self.whole.get("sequential")
        return None if value is None or value.source == CHOSEN or self.set == OWN else value.is_ / 100


@cache
def definitions() -> dict[str, Definition]:
    """All definitions by name: the twelve first, then older, then modern ones. Raises UsageError for a bad one."""
    folder = resources.files("naslab.commands.apps") / "definitions"
    found = [parse(path.read_text("utf-8"), path.name) for path in folder.iterdir() if path.name.endswith(".toml")]
    order = {name: at for at, name in enumerate(TWELVE)}
    found.sort(key=lambda one: (SETS.index(one.set), order.get(one.name, 99), one.name))
    return {one.name: one for one in found}


def chosen(only: str, own: Sequence[Path] = ()) -> list[Definition]:
    """The definitions of `--only` (names or sets with commas) and those in the files of `--app`; the twelve where there
    is neither. Raises UsageError."""
    mine = [_own(path) for path in own]
    every = definitions()
    for number, one in enumerate(mine):
        if one.name in every or one.name in {other.name for other in mine[:number]}:
            raise UsageError(
                f"--app {own[number]}: there is another application named {one.name}; give it its own name"
            )
    if mine and not only.strip():
        return mine
    names = [name.strip() for name in (only or "naspt").split(",")]
    known = {name.lower(): [one] for name, one in every.items()}
    known |= {kind: [one for one in every.values() if one.set == kind] for kind in SETS} | {"all": list(every.values())}
    for name in names:
        if name.lower() not in known:
            near = get_close_matches(name.lower(), known, n=1)
            hint = f"did you mean {known[near[0]][0].name if len(known[near[0]]) == 1 else near[0]}? " if near else ""
            raise UsageError(f"--only {name!r}: no such application; {hint}naslab apps --list shows them all")
    wanted = {one.name for name in names for one in known[name.lower()]}
    return [*(one for one in every.values() if one.name in wanted), *mine]


def _own(path: Path) -> Definition:
    try:
        text = path.read_bytes()[: _MOST_FILE_BYTES + 1].decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UsageError(f"--app {path}: cannot be read: {reason}; check the name") from error
    if len(text) > _MOST_FILE_BYTES:
        raise UsageError(f"--app {path}: longer than {_MOST_FILE_BYTES} bytes; this is not a definition")
    found = parse(text, str(path))
    if found.set != OWN:
        raise UsageError(f'--app {path}: set: {found.set!r} is reserved for the built-in ones; write set = "{OWN}"')
    return found


def parse(text: str, file: str) -> Definition:
    """A definition from its text. Raises UsageError with the file and the key for anything wrong."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file}: {error}; correct the TOML, as docs/guide/apps.md describes it") from error
    _only_keys(data, ("name", "set", "about", "rationale", "sources", "whole", "part"), file, "")
    words = {key: data.get(key, "") for key in ("name", "set", "about", "rationale")}
    for key, word in words.items():
        needed = key != "rationale" or words["set"] == "modern"
        if not isinstance(word, str) or (needed and not word.strip()):
            raise UsageError(f"{file}: {key}: must be a text")
    if not _NAME.match(words["name"]) or words["name"].lower() in _STEPS:
        raise UsageError(f"{file}: name: {words['name'][:80]!r}: give at most 64 letters, digits, _ . -")
    if words["set"] not in (*SETS, OWN):
        raise UsageError(f"{file}: set: {words['set']!r} is none of {', '.join((*SETS, OWN))}")
    sources = data.get("sources", {})
    if not isinstance(sources, dict) or not all(isinstance(one, str) and one.strip() for one in sources.values()):
        raise UsageError(f"{file}: sources: must be a table of texts")
    whole = _values(data.get("whole", {}), WHOLE, sources, file, "whole", ())
    if ("duration" in whole) != ("buffer" in whole):
        raise UsageError(f"{file}: whole: duration and buffer need each other")
    parts = data.get("part", [])
    if not isinstance(parts, list) or not parts:
        raise UsageError(f"{file}: part: needs at least one [[part]]")
    made = tuple(_part(part, sources, file, f"part {number}") for number, part in enumerate(parts, 1))
    return Definition(sources=sources, whole=whole, parts=made, **words)


def _part(part: Any, sources: Mapping[str, str], file: str, where: str) -> Part:
    does = part.get("does") if isinstance(part, dict) else None
    if does not in BEHAVIOURS:
        raise UsageError(f"{file}: {where}: does = {does!r} is none of {', '.join(BEHAVIOURS)}")
    values = {key: value for key, value in part.items() if key != "does"}
    kinds = BEHAVIOURS[does]
    return Part(does, _values(values, kinds, sources, file, where, _REQUIRED.get(does, tuple(kinds))))


def _values(
    found: Any, kinds: Mapping[str, str], sources: Mapping[str, str], file: str, where: str, needed: Sequence[str]
) -> dict[str, Value]:
    if not isinstance(found, dict):
        raise UsageError(f"{file}: {where}: must be a table")
    _only_keys(found, kinds, file, f"{where}: ")
    missing = [key for key in needed if key not in found]
    if missing:
        raise UsageError(f"{file}: {where}: {missing[0]} is missing")
    return {key: _value(value, kinds[key], sources, f"{file}: {where}: {key}") for key, value in found.items()}


def _only_keys(found: Mapping[str, Any], known: Any, file: str, where: str) -> None:
    for key in found:
        if key not in known:
            raise UsageError(f"{file}: {where}{key}: unknown; known are {', '.join(known)}")


def _value(found: Any, kind: str, sources: Mapping[str, str], where: str) -> Value:
    if not isinstance(found, dict) or "is" not in found or "from" not in found:
        raise UsageError(f'{where}: write {{ is = …, from = "…" }}, so that the number states its source')
    for key in found:
        if key not in ("is", "from", "why", "scales"):
            raise UsageError(f"{where}: {key}: unknown; known are is, from, why, scales")
    source, why, scales = found["from"], found.get("why", ""), found.get("scales", False)
    if (
        not isinstance(why, str)
        or not isinstance(scales, bool)
        or (scales and kind not in ("count", "sized", "requests"))
    ):
        raise UsageError(f"{where}: why must be a text, and scales = true is for counts only")
    if source == CHOSEN and not why.strip():
        raise UsageError(f"{where}: a chosen number needs a reason: why = …")
    if source != CHOSEN and source not in sources:
        raise UsageError(f"{where}: from = {source!r} is neither {CHOSEN!r} nor in [sources]")
    return Value(_number(found["is"], kind, where), str(found["is"]), source, why, scales)


def _number(found: Any, kind: str, where: str) -> Any:
    """The number of a kind. Raises UsageError for another type and for what is out of range."""
    if kind == "sizes":
        if not isinstance(found, list) or not found:
            raise UsageError(f"{where}: must be a list of sizes")
        return tuple(_number(one, "size", where) for one in found)
    if kind in ("sized", "requests"):
        return _sized(found, kind, where)
    if kind in ("size", "duration"):
        value = parse_size(str(found), where) if kind == "size" else parse_duration(str(found), where)
        if value <= 0:
            raise UsageError(f"{where}: {found!r}: give more than 0")
        return value
    whole = kind == "count"
    if isinstance(found, bool) or not isinstance(found, int if whole else int | float):
        raise UsageError(f"{where}: {found!r}: a {'whole ' if whole else ''}number is needed")
    low, high = {"count": (1, 10**9), "percent": (0, 100), "number": (0, 10**9), "ratio": (1, 10**6)}[kind]
    if not low <= found <= high:
        raise UsageError(f"{where}: {found}: give {low} to {high}")
    return found


def _sized(found: Any, kind: str, where: str) -> tuple[tuple[int, int], ...]:
    """(size in bytes, how many of it) of rows like ["64k", 20]."""
    if not isinstance(found, list) or not 1 <= len(found) <= _MOST_ROWS:
        raise UsageError(f'{where}: give 1 to {_MOST_ROWS} rows, each a size and a count: [["64k", 20]]')
    rows = []
    for row in found:
        if not isinstance(row, list) or len(row) != 2:
            raise UsageError(f'{where}: {str(row)[:80]}: a row is a size and a count: ["64k", 20]')
        size = parse_size(str(row[0]), where)
        if kind == "requests" and not 1 <= size <= MOST_STEP_BYTES:
            raise UsageError(f"{where}: a request of {row[0]}: give 1 byte to 64m")
        rows.append((size, int(_number(row[1], "count", where))))
    return tuple(rows)
