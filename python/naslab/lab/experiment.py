"""Experiments as data: an article's systems, conditions, tests, published numbers, conclusions and charts, from TOML.

docs/guide/experiments.md explains the form. Unknown keys, unknown names and numbers out of range are refused, by file,
key and value. Sizes come by scale: quick for a check of a minute or two, scaled to minutes, and full as in the article
(`[values]`).
"""

from __future__ import annotations

import copy
import shlex
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from naslab.analysis.claims import Claim
from naslab.analysis.quantities import WHERE, Quantity
from naslab.errors import UsageError
from naslab.lab import definition
from naslab.lab.experiment_article import with_article
from naslab.lab.experiment_cost import ArticleCost, article_cost
from naslab.lab.experiment_parts import RATE_UNITS, chart_of, claim_of, filled
from naslab.lab.experiment_tune import Tune
from naslab.results.numbers import is_positive
from naslab.toml.tables import UNITS, Table, limit_value, where_of

SCALES = ("quick", "scaled", "full")
COMMANDS = (
    "sweep", "sustained", "burst", "apps", "job", "tree", "iozone", "diskspd", "profile", "curve", "run", "durable",
)  # fmt: skip
CLIENTS = ("mount", "own")
"""In a client's guest: what its kernel has mounted, or naslab's own client of the protocol."""
_TOP = ("title", "source", "about", "repeats", "margin", "values", "systems", "limits", "tests", "condition",
        "published", "claim", "chart", "tune", "speed", "cost")  # fmt: skip


@dataclass(frozen=True)
class System:
    """What is built for a condition, or the address of what is there already.

    parts: as a system's file has them; None with an address. stands_for: the machine of the article that it is the
    closest stand-in for, and in what it differs.
    """

    name: str
    what: str
    stands_for: str
    parts: Mapping[str, Any] | None
    target: str
    checked: definition.Definition | None


@dataclass(frozen=True)
class Test:
    """A command of naslab; words: its options, the target left out.

    measures: whether its result counts; one that does not makes ready what others measure, and need print none.
    cold: the server's memory is emptied before it.
    """

    name: str
    what: str
    command: str
    words: tuple[str, ...]
    measures: bool = True
    cold: bool = False


@dataclass(frozen=True)
class Condition:
    """A system under a circumstance.

    words: further options of its tests. beside: commands that run meanwhile on the same target, at the client
    beside_client of several, from 1. client: one of CLIENTS, of a system whose clients are guests; empty elsewhere.
    missing: why it cannot exist here; then it is never measured. repeats: in how many of the blocks it is measured,
    where not in all. replaces: the condition that stands for it in the claims while nothing is known of it.
    """

    id: str
    what: str
    system: str
    tests: tuple[str, ...]
    words: tuple[str, ...] = ()
    beside: tuple[tuple[str, ...], ...] = ()
    client: str = ""
    missing: str = ""
    repeats: int | None = None
    replaces: str = ""
    beside_client: int = 1

    @property
    def beside_words(self) -> list[str]:
        """What runs meanwhile, and where if not at the client that measures."""
        at = f", at client {self.beside_client}" if self.beside_client > 1 else ""
        return [f"{' '.join(words)}{at}" for words in self.beside]


@dataclass(frozen=True)
class Limit:
    """A limit that the systems have, bytes per second or bytes; a reference line of the charts where line is set.

    condition: the only one that has it, empty for all.
    """

    name: str
    what: str
    value: float
    condition: str = ""
    line: bool = True


@dataclass(frozen=True)
class Published:
    """One number of the article. value in `unit`; scaled: in bytes, bytes per second, nanoseconds or as it is.

    place: where in the article. chart, condition, group, size_bytes: where it is drawn, if anywhere. column: of a
    table.
    """

    id: str
    what: str
    value: float
    unit: str
    place: str
    chart: str = ""
    condition: str = ""
    group: str = ""
    size_bytes: int = 0
    column: str = ""

    @property
    def scaled(self) -> float:
        """In bytes, bytes per second or nanoseconds."""
        return self.value * UNITS[self.unit]


@dataclass(frozen=True)
class Chart:
    """A picture: throughput against file size, bars, surfaces over file and record size, or rates over time.

    groups: of bars, label and what differs in `of`. published: of time, ids of numbers that are drawn as lines.
    """

    id: str
    title: str
    kind: str
    of: Mapping[str, Any]
    conditions: tuple[str, ...]
    groups: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    limits: tuple[str, ...] = ()
    unit: str = "MB/s"
    published: tuple[str, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """One article, whole and checked. speed: how many times as fast as the article's systems its own are built."""

    name: str
    scale: str
    title: str
    source: Mapping[str, str]
    about: str
    repeats: int
    margin: float
    systems: Mapping[str, System]
    limits: tuple[Limit, ...]
    tests: Mapping[str, Test]
    conditions: tuple[Condition, ...]
    published: tuple[Published, ...]
    claims: tuple[Claim, ...]
    charts: tuple[Chart, ...] = field(default=())
    tune: Tune | None = None
    speed: float = 1.0
    cost: ArticleCost | None = None

    def condition(self, name: str) -> Condition:
        """The condition of this id."""
        return next(each for each in self.conditions if each.id == name)


@cache
def built_in() -> dict[str, str]:
    """Texts of the experiments that come with naslab, by name."""
    folder = resources.files("naslab.lab") / "experiments"
    found = {each.name: each.read_text("utf-8") for each in folder.iterdir() if each.name.endswith(".toml")}
    return {name.removesuffix(".toml"): found[name] for name in sorted(found)}


def load(name: str, scale: str = "scaled") -> Experiment:
    """An experiment that comes with naslab, or one of a TOML file. Raises UsageError."""
    texts = built_in()
    if name in texts:
        return parse(texts[name], f"{name}.toml", name, scale)
    path = Path(name)
    if path.suffix != ".toml":
        raise UsageError(f"lab run {name}: no such experiment; use one of {', '.join(texts)}, or give a .toml file")
    try:
        return parse(path.read_text("utf-8"), name, path.stem, scale)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"lab run {name}: {reason}; give a file that describes an experiment") from None


def parse(words: str, file: str, name: str, scale: str = "scaled") -> Experiment:
    """The experiment that a text describes. file: named in errors. Raises UsageError."""
    try:
        data = tomllib.loads(words)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"experiment {file}: {error}; correct the TOML") from None
    where = f"experiment {file}: "
    top = Table(_with_values(with_article(data, where), where, SCALES.index(scale)), where, _TOP)
    tests = {key: _test(key, each, f"{where}tests.{key}") for key, each in top.table("tests").items()}
    systems = _systems(top.table("systems"), where)
    at_scale = SCALES.index(scale)
    conditions = tuple(_condition(each, at, systems, tests, at_scale) for each, at in top.tables("condition"))
    _unique([each.id for each in conditions], f"{where}condition")
    ids = {each.id: each for each in conditions}
    for each in conditions:
        if each.replaces and each.replaces not in ids:
            raise UsageError(f"{where}condition {each.id}.replaces = {each.replaces!r}: no such condition")
    limits = tuple(_limit(key, each, f"{where}limits.{key}", ids) for key, each in top.table("limits").items())
    margin = top.share("margin", 0.05)
    charts = tuple(Chart(**chart_of(each, at, ids, tests, limits)) for each, at in top.tables("chart"))
    published = tuple(one for each, at in top.tables("published") for one in _published(each, at, charts, ids))
    known = {each.id: each.scaled for each in published}
    _check_lines(charts, published, where)
    claims = tuple(claim_of(each, at, ids, tests, limits, known, margin) for each, at in top.tables("claim"))
    for kind, names in (
        ("published", list(known)),
        ("claim", [c.id for c in claims]),
        ("chart", [c.id for c in charts]),
    ):
        _unique(names if kind != "published" else [each.id for each in published], f"{where}{kind}")
    return Experiment(
        name, scale, top.text("title"), {key: str(text) for key, text in top.table("source").items()},
        top.text("about"), _repeats(top, SCALES.index(scale)), margin, systems, limits, tests, conditions, published,
        claims, charts, _tune(top, systems, tests) if "tune" in top.data else None, _speed(top, at_scale),
        article_cost(top, ids, published),
    )  # fmt: skip


def _check_lines(charts: tuple[Chart, ...], published: tuple[Published, ...], where: str) -> None:
    """Raises UsageError for a chart over time with a line of a number that is no published rate."""
    rates = [each.id for each in published if each.unit in RATE_UNITS]
    for chart in charts:
        for name in chart.published:
            if name not in rates:
                raise UsageError(f"{where}chart[{chart.id}].published: {name!r}: no such rate; use {', '.join(rates)}")


def _tune(top: Table, systems: Mapping[str, System], tests: Mapping[str, Test]) -> Tune:
    table = Table(top.data["tune"], f"{top.where}tune", ("system", "test", "of", "value"))
    system, test = table.word("system", tuple(systems)), table.word("test", tuple(tests))
    made = systems[system].checked
    if made is None or made.server.cpu is None:
        raise UsageError(f"{table.where}.system = {system!r}: its server has no CPU limit; give it a cpu")
    where = where_of(Table(table.table("of"), f"{table.where}.of", WHERE))
    return Tune(system, Quantity(system, test, where=where), limit_value(table.text("value"), f"{table.where}.value"))


def _repeats(top: Table, scale: int) -> int:
    """A number, or one for each scale."""
    found = top.data.get("repeats", 5)
    if isinstance(found, list) and len(found) in (2, 3):
        found = _of_scale(found, scale)
    return Table({"repeats": found}, top.where, None).whole("repeats", 5, 1, 1000)


def _speed(top: Table, scale: int) -> float:
    """A number, or one for each scale."""
    found = top.data.get("speed", 1)
    found = _of_scale(found, scale) if isinstance(found, list) and len(found) in (2, 3) else found
    if not is_positive(found):
        raise UsageError(f"{top.where}speed = {found!r}: write a number above 0, or [quick, scaled, full]")
    return float(found)


def _of_scale(found: list[Any], scale: int) -> Any:
    """Of [quick, scaled, full], or of [scaled, full], which quick shares with scaled."""
    return found[scale if len(found) == len(SCALES) else max(scale - 1, 0)]


def _unique(names: list[str], where: str) -> None:
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{where}: {name!r} is used {names.count(name)} times; give each an id of its own")


def _with_values(data: dict[str, Any], where: str, scale: int) -> dict[str, Any]:
    """The data with `{name}` in texts replaced by the value of the scale, which [values] has by name."""
    values = Table(data.get("values", {}), f"{where}values", None)
    for name, pair in values.data.items():
        if not isinstance(pair, list) or len(pair) not in (2, 3) or not all(isinstance(each, str) for each in pair):
            raise UsageError(f"{where}values.{name} = {pair!r}: write texts: [quick, scaled, full] or [scaled, full]")
    used: set[str] = set()
    chosen = {name: _of_scale(pair, scale) for name, pair in values.data.items()}
    found = {
        key: each if key in ("values", "published") else filled(each, chosen, used, where + key)
        for key, each in data.items()
    }
    if unused := sorted(set(chosen) - used):
        raise UsageError(f"{where}values.{unused[0]}: it is not used; write {{{unused[0]}}} where it belongs")
    return found


def _systems(data: Mapping[str, Any], where: str) -> dict[str, System]:
    return {
        name: _system(name, data, where) for name in data if not Table(data[name], where + name, None).data.get("base")
    }


def _system(name: str, data: Mapping[str, Any], where: str) -> System:
    here = f"{where}systems.{name}"
    parts = _inherited(name, data, here, ())
    target, stands_for = parts.pop("target", ""), parts.pop("stands_for", "")
    parts.pop("base", None)
    if not isinstance(stands_for, str) or not isinstance(target, str):
        raise UsageError(f"{here}: stands_for and target are texts")
    if target:
        if set(parts) - {"what"}:
            raise UsageError(f"{here}.target and .{min(set(parts) - {'what'})}: an address has no parts; leave one out")
        return System(name, str(parts.get("what", target)), stands_for, None, target, None)
    checked = definition.read(parts, here.removeprefix("experiment "), name)
    return System(name, checked.what, stands_for, parts, "", checked)


def _inherited(name: str, data: Mapping[str, Any], here: str, seen: tuple[str, ...]) -> dict[str, Any]:
    """The parts of a system, those of the one it is `like` below its own.

    Tables are joined; lists, and tables that name a level or a kind anew, replace what was there.
    """
    if name not in data or name in seen:
        why = "no such system" if name not in data else "it refers to itself"
        raise UsageError(f"{here}.like = {name!r}: {why}; use another of {', '.join(data)}")
    mine = copy.deepcopy(dict(Table(data[name], here, None).data))
    like = mine.pop("like", None)
    if like is None:
        return mine
    under = _inherited(str(like), data, here, (*seen, name))
    under.pop("base", None)
    for key, value in mine.items():
        tables = isinstance(value, dict) and isinstance(under.get(key), dict)
        joined = tables and not {"level", "kind"} & set(value)
        under[key] = {**under[key], **value} if joined else value
    return under


def _test(name: str, data: Any, where: str) -> Test:
    table = Table(data, where, ("what", "command", "options", "measures", "cold"))
    command = table.word("command", COMMANDS)
    words = _words(table.text("options", ""), f"{where}.options")
    return Test(name, table.text("what"), command, words, table.flag("measures", True), table.flag("cold", False))


def _words(text: str, where: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"{where} = {text!r}: {error}; close the quotes") from None


def _condition(
    data: Any, where: str, systems: Mapping[str, System], tests: Mapping[str, Test], scale: int
) -> Condition:
    known = ("id", "what", "system", "tests", "options", "beside", "beside_client", "client", "missing", "repeats",
             "replaces")  # fmt: skip
    table = Table(data, where, known)
    missing = table.text("missing", "")
    system = "" if missing and "system" not in table.data else table.word("system", tuple(systems))
    chosen = table.texts("tests", tuple(tests))
    for each in chosen:
        if each not in tests:
            raise UsageError(f"{where}.tests: {each!r}: no such test; use {', '.join(tests)}")
    beside = tuple(_words(each, f"{where}.beside") for each in table.texts("beside", ()))
    for words in beside:
        if not words or words[0] not in COMMANDS:
            raise UsageError(f"{where}.beside = {' '.join(words)!r}: begin with one of {', '.join(COMMANDS)}")
    options = _words(table.text("options", ""), f"{where}.options")
    client = _client(table, systems.get(system))
    repeats = _repeats(table, scale) if "repeats" in table.data else None
    told = (table.name("id"), table.text("what"), system, chosen, options, beside, client, missing, repeats)
    made = systems[system].checked if system else None
    clients = 1 if made is None or made.clients.access != "direct" else made.clients.count
    return Condition(*told, table.text("replaces", ""), table.whole("beside_client", 1, 1, clients))


def without_stand_ins(experiment: Experiment, there: Collection[str]) -> Experiment:
    """The experiment with claims on the conditions of `there`, where others stood for them."""
    instead = {one.replaces: one.id for one in experiment.conditions if one.replaces and one.id in there}

    def on(claim: Claim) -> Claim:
        if not any(side.condition in instead for side in claim.sides):
            return claim
        sides = (replace(side, condition=instead.get(side.condition, side.condition)) for side in claim.sides)
        return replace(claim, sides=tuple(sides), stand_in="")

    return replace(experiment, claims=tuple(map(on, experiment.claims)))


def _client(table: Table, system: System | None) -> str:
    made = system.checked if system else None
    if made is None or made.clients.access == "direct":
        if "client" in table.data:
            raise UsageError(f"{table.where}.client: only where a guest's kernel is the client; leave it out")
        return ""
    return table.word("client", CLIENTS, CLIENTS[0])


def _limit(name: str, data: Any, where: str, ids: Mapping[str, Condition]) -> Limit:
    table = Table(data, where, ("what", "value", "condition", "line"))
    value = limit_value(table.text("value"), f"{where}.value")
    condition = table.word("condition", ids) if "condition" in table.data else ""
    return Limit(name, table.text("what"), value, condition, table.flag("line", True))


_PUBLISHED = ("id", "what", "value", "unit", "place", "chart", "condition", "group", "file", "columns", "conditions",
              "rows")  # fmt: skip


def _published(data: Any, where: str, charts: tuple[Chart, ...], ids: Mapping[str, Condition]) -> Iterator[Published]:
    table = Table(data, where, _PUBLISHED)
    unit, chart = table.word("unit", tuple(UNITS)), table.text("chart", "")
    if chart and chart not in {each.id for each in charts}:
        raise UsageError(f"{where}.chart = {chart!r}: no such chart; use {', '.join(each.id for each in charts)}")
    common = (unit, table.text("place"), chart)
    if "rows" in table.data:
        yield from _rows(table, common, ids)
        return
    condition = table.text("condition", "")
    if condition and condition not in ids:
        raise UsageError(f"{where}.condition = {condition!r}: no such condition; use {', '.join(ids)}")
    size = int(limit_value(table.text("file"), f"{where}.file")) if "file" in table.data else 0
    value = table.number("value")
    yield Published(table.name("id"), table.text("what"), value, *common, condition, table.text("group", ""), size)


def _rows(table: Table, common: tuple[str, str, str], ids: Mapping[str, Condition]) -> Iterator[Published]:
    """A table: a value for each row and column."""
    rows = table.data["rows"]
    columns = table.texts("columns", ())
    conditions = table.texts("conditions", ("",) * len(columns))
    if not isinstance(rows, Mapping) or len(conditions) != len(columns):
        raise UsageError(f"{table.where}: rows is a table of lists, and conditions is as long as columns")
    for condition in conditions:
        if condition and condition not in ids:
            raise UsageError(f"{table.where}.conditions: {condition!r}: no such condition; use {', '.join(ids)}")
    for row, values in rows.items():
        if not isinstance(values, list) or len(values) != len(columns) or not all(map(is_positive, values)):
            raise UsageError(f"{table.where}.rows.{row}: give {len(columns)} numbers above 0, one for each column")
        for column, condition, value in zip(columns, conditions, values, strict=True):
            name = f"{table.name('id')}.{row}.{column}"
            yield Published(name, f"{row}, {column}", float(value), *common, condition, row, 0, column)
