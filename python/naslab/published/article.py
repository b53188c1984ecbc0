"""Reading an article's file: where it is from, its numbers and tables, its findings, and which runs they make.

Unknown keys, names that nothing has and numbers that are none are refused, by file, key and value.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from naslab.errors import UsageError
from naslab.results.describe import typed
from naslab.results.numbers import is_positive
from naslab.results.parts.stated import StatedLimit, StatedNumber, StatedPart
from naslab.spec import DATA_OPS
from naslab.toml.tables import UNITS, Table, limit_value, where_of

_TOP = ("source", "setting", "numbers", "tables", "findings", "run", "derived")
_MACHINE = ("machine", "system", "cpu")
_CELL = ("number", "op", "file", "record", "workload", "regime")
RATE_UNITS = ("MB/s", "KiB/s", "Gbit/s")
HOW = ("mean", "difference")


@dataclass(frozen=True)
class Number:
    """One number that the article prints, in `unit`. place: where in the article."""

    id: str
    what: str
    value: float
    unit: str
    place: str

    @property
    def scaled(self) -> float:
        """In bytes, bytes per second, nanoseconds, or as it is."""
        return self.value * UNITS[self.unit]


@dataclass(frozen=True)
class NumberTable:
    """A table of the article. rows: values by row, one for each column. labels: of each column's circumstances.

    ops: of each row, where a row is a load.
    """

    id: str
    unit: str
    place: str
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[float, ...]]
    labels: tuple[Mapping[str, str], ...]
    ops: Mapping[str, str]


@dataclass(frozen=True)
class Setting:
    """The circumstances of a run; None, or nothing, where the article does not tell. link: bits per second. sizes: of
    files, from and to. client, server: facts, as a run of naslab's own has them of its client.
    """

    tool: str
    tool_version: str | None
    target: str
    protocol: str
    link: float | None
    limits: list[StatedLimit]
    labels: dict[str, str]
    depth: int | None
    workers: int | None
    command: str | None
    prepare: str | None
    sizes: tuple[int, int] | None
    client: dict[str, Any]
    server: dict[str, Any]


_SETTING = tuple(Setting.__annotations__)
_RUN = ("name", "what", "place", "cells", "table", "columns", *_SETTING)


@dataclass(frozen=True)
class PublishedCell:
    """A rate of a run. file_bytes, record_bytes: (low, high), (0, 0) where not told; a range of file sizes is a mean.

    block: which repeat.
    """

    op: str
    bytes_per_s: float
    workload: str | None
    file_bytes: tuple[int, int]
    record_bytes: tuple[int, int]
    block: int
    regime: str


@dataclass(frozen=True)
class PublishedRun:
    """Rates that were measured together."""

    name: str
    what: str
    place: str
    setting: Setting
    cells: tuple[PublishedCell, ...]


@dataclass(frozen=True)
class Derived:
    """A number that the article computes from others of its own. run: name of the run it belongs to."""

    run: str
    number: StatedNumber


@dataclass(frozen=True)
class Article:
    """One article, whole and checked. findings: (place, words) by name."""

    name: str
    source: Mapping[str, str]
    numbers: Mapping[str, Number]
    tables: Mapping[str, NumberTable]
    findings: Mapping[str, tuple[str, str]]
    runs: tuple[PublishedRun, ...]
    derived: tuple[Derived, ...]


@cache
def articles() -> dict[str, Article]:
    """All articles that come with naslab, by name. Raises UsageError where a file is wrong."""
    found = [each for each in resources.files("naslab.published").iterdir() if each.name.endswith(".toml")]
    texts = {each.name.removesuffix(".toml"): each.read_text("utf-8") for each in found}
    return {name: parse(texts[name], f"{name}.toml", name) for name in sorted(texts)}


def article(name: str) -> Article:
    """The article of this name. Raises UsageError."""
    if name not in articles():
        raise UsageError(f"article {name!r}: no such article; use one of {', '.join(articles())}")
    return articles()[name]


def parse(words: str, file: str, name: str) -> Article:
    """The article that a text describes. file: named in errors. Raises UsageError."""
    try:
        data = tomllib.loads(words)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"published {file}: {error}; correct the TOML") from None
    where = f"published {file}: "
    top = Table(data, where, _TOP)
    source = Table(top.table("source"), f"{where}source", ("title", "author", "site", "date", "url"))
    numbers = {key: _number(key, each, f"{where}numbers.{key}") for key, each in top.table("numbers").items()}
    tables = {key: _table(key, each, f"{where}tables.{key}") for key, each in top.table("tables").items()}
    common = Table(top.table("setting"), f"{where}setting", _SETTING).data
    runs = tuple(_run(each, at, name, common, numbers, tables) for each, at in top.tables("run"))
    known = [each.name for each in runs]
    for each in known:
        if known.count(each) > 1:
            raise UsageError(f"{where}run: {each!r} is used {known.count(each)} times; give each a name of its own")
    derived = tuple(
        one for each, at in top.tables("derived") for one in _derived(each, at, name, runs, numbers, tables)
    )
    return Article(
        name, {"title": source.text("title"), **{key: source.text(key) for key in source.data}}, numbers, tables,
        {key: _finding(each, f"{where}findings.{key}") for key, each in top.table("findings").items()}, runs, derived,
    )  # fmt: skip


def _number(key: str, data: Any, where: str) -> Number:
    table = Table(data, where, ("value", "unit", "place", "what"))
    return Number(key, table.text("what"), table.number("value"), table.word("unit", UNITS), table.text("place"))


def _finding(data: Any, where: str) -> tuple[str, str]:
    table = Table(data, where, ("place", "words"))
    return table.text("place"), table.text("words")


def _table(key: str, data: Any, where: str) -> NumberTable:
    table = Table(data, where, ("unit", "place", "columns", "rows", "labels", "ops"))
    columns = table.texts("columns", ())
    rows: dict[str, tuple[float, ...]] = {}
    for row, values in table.table("rows").items():
        if not isinstance(values, list) or len(values) != len(columns) or not all(map(is_positive, values)):
            raise UsageError(f"{where}.rows.{row}: give {len(columns)} numbers above 0, one for each column")
        rows[row] = tuple(float(value) for value in values)
    if not rows:
        raise UsageError(f"{where}.rows is missing; give a list of numbers for each row")
    labels = table.data.get("labels", [{} for _ in columns])
    if not isinstance(labels, list) or len(labels) != len(columns):
        raise UsageError(f"{where}.labels: give a table for each of the {len(columns)} columns")
    checked = tuple(_labels(each, f"{where}.labels") for each in labels)
    ops = Table(table.table("ops"), f"{where}.ops", tuple(rows))
    return NumberTable(
        key, table.word("unit", UNITS), table.text("place"), columns, rows, checked,
        {row: ops.word(row, DATA_OPS) for row in ops.data},
    )  # fmt: skip


def _labels(data: Any, where: str) -> dict[str, str]:
    table = Table(data, where, None)
    return {key: table.text(key) for key in table.data}


def _run(
    data: Any, where: str, name: str, common: Mapping[str, Any],
    numbers: Mapping[str, Number], tables: Mapping[str, NumberTable],
) -> PublishedRun:  # fmt: skip
    given = Table(data, where, _RUN)
    table = Table({**common, **given.data}, where, _RUN)
    own = table.text("name", "")
    whole = f"{name}-{table.name('name')}" if own else name
    where = f"{where.rpartition('[')[0]}[{whole}]"
    setting = _setting(Table({key: table.data[key] for key in _SETTING if key in table.data}, where, _SETTING), table)
    if ("cells" in table.data) == ("table" in table.data):
        raise UsageError(f"{where}: give cells, or a table and its columns")
    if "table" in table.data:
        cells = tuple(_columns(Table(table.data, where, _RUN), tables))
    else:
        cells = tuple(_cell(each, f"{at.replace(table.where, where)}", numbers) for each, at in table.tables("cells"))
    return PublishedRun(whole, table.text("what"), table.text("place"), setting, cells)


def _setting(table: Table, run: Table) -> Setting:
    """The circumstances of a run, read."""

    def text(key: str) -> str | None:
        return table.text(key) if key in table.data else None

    def whole(key: str) -> int | None:
        return table.whole(key, 0, 1, 1 << 20) if key in table.data else None

    def machine(key: str) -> dict[str, Any]:
        return _machine(Table(table.table(key), f"{table.where}.{key}", (*_MACHINE, "cpus", "memory")))

    sizes = where_of(Table({"file": table.data["sizes"]}, table.where, None)) if "sizes" in table.data else {}
    return Setting(
        table.text("tool"), text("tool_version"), table.text("target"),
        table.word("protocol", ("smb", "nfs", "local")),
        limit_value(table.text("link"), f"{table.where}.link") * 8 if "link" in table.data else None,
        [_limit(each, at) for each, at in table.tables("limits")],
        _labels(run.table("labels"), f"{table.where}.labels"),
        whole("depth"), whole("workers"), text("command"), text("prepare"), sizes.get("file"),
        machine("client"), machine("server"),
    )  # fmt: skip


def _machine(table: Table) -> dict[str, Any]:
    """What the article tells of a computer, as a run of naslab's own has it of its client."""
    found: dict[str, Any] = {key: table.text(key) for key in _MACHINE if key in table.data}
    if "cpus" in table.data:
        found["cpus"] = table.whole("cpus", 0, 1, 1 << 12)
    if "memory" in table.data:
        found["memory_bytes"] = where_of(Table({"file": table.data["memory"]}, table.where, None))["file"][0]
    return found


def _limit(data: Any, where: str) -> StatedLimit:
    table = Table(data, where, ("what", "value", "op", "kind"))
    op = table.word("op", DATA_OPS) if "op" in table.data else None
    rate = limit_value(table.text("value"), f"{where}.value")
    kind = table.word("kind", ("link", "disk"))
    return typed({"what": table.text("what"), "kind": kind, "bytes_per_s": rate, "op": op}, StatedLimit)


def _cell(data: Any, where: str, numbers: Mapping[str, Number]) -> PublishedCell:
    table = Table(data, where, _CELL)
    number = numbers[table.word("number", numbers)]
    if number.unit not in RATE_UNITS:
        raise UsageError(
            f"{where}.number = {number.id!r}: {number.unit} is not a rate; name a number in bytes per second"
        )
    sizes = where_of(Table({key: each for key, each in table.data.items() if key in ("file", "record")}, where, None))
    workload = table.text("workload") if "workload" in table.data else None
    regime = table.word("regime", ("burst", "baseline", "server_cache", "client_cache", "disk", "unknown"), "unknown")
    for key, (_, high) in sizes.items():
        if high > 1 << 60:
            raise UsageError(f"{where}.{key} = {table.data[key]!r}: give both ends of the range: 64m..1g")
    file, record = sizes.get("file", (0, 0)), sizes.get("record", (0, 0))
    return PublishedCell(table.word("op", DATA_OPS), number.scaled, workload, file, record, 0, regime)


def _columns(table: Table, tables: Mapping[str, NumberTable]) -> Iterator[PublishedCell]:
    """Cells of a table's columns: each column is a repeat, each row a load."""
    found = tables[table.word("table", tables)]
    chosen = table.texts("columns", found.columns)
    for block, column in enumerate(chosen):
        if column not in found.columns:
            raise UsageError(f"{table.where}.columns: {column!r}: no such column; use {', '.join(found.columns)}")
        at = found.columns.index(column)
        for row, values in found.rows.items():
            if row not in found.ops:
                raise UsageError(f"{table.where}.table = {found.id!r}: its ops do not contain {row}; add it there")
            yield PublishedCell(
                found.ops[row], values[at] * UNITS[found.unit], row, (0, 0), (0, 0), block, "unknown"
            )  # fmt: skip


def _derived(
    data: Any, where: str, name: str, runs: Sequence[PublishedRun],
    numbers: Mapping[str, Number], tables: Mapping[str, NumberTable],
) -> Iterator[Derived]:  # fmt: skip
    """Of numbers: one; of a table: one for each of its rows, over the columns of another."""
    table = Table(data, where, ("how", "number", "of", "table", "run"))
    how = table.word("how", HOW)
    run = f"{name}-{table.text('run')}" if table.text("run", "") else name
    if run not in (known := [each.name for each in runs]):
        raise UsageError(f"{where}.run = {run!r}: no such run; use {', '.join(known)}")
    if "table" in table.data:
        printed, members = tables[table.word("table", tables)], tables[table.word("of", tables)]
        for row, values in printed.rows.items():
            columns = zip(members.columns, members.rows[row], members.labels, strict=True)
            of = [StatedPart(column, value * UNITS[members.unit], dict(labels)) for column, value, labels in columns]
            yield _stated(run, f"{row}, {printed.columns[0]}", how, values[0], printed.unit, of)
        return
    number = numbers[table.word("number", numbers)]
    names = table.texts("of", ())
    if len(names) < 2 or any(each not in numbers for each in names):
        raise UsageError(f"{where}.of = {list(names)}: name two numbers or more")
    of = [StatedPart(numbers[each].what, numbers[each].scaled, {}) for each in names]
    yield _stated(run, number.what, how, number.value, number.unit, of)


def _stated(run: str, what: str, how: str, value: float, unit: str, of: list[StatedPart]) -> Derived:
    rate, step = value * UNITS[unit], _step(value) * UNITS[unit]
    return Derived(run, StatedNumber(what, "mean" if how == "mean" else "difference", rate, step, of))


def _step(value: float) -> float:
    """How finely a number is printed: 0.01 of 46.5, because the others of its column have two places."""
    text = f"{value:.3f}".rstrip("0")
    places = max(len(text.partition(".")[2]), 0)
    return math.pow(10.0, -places)
