"""Devices ranked in the categories chosen: a table and a picture with intervals for each, and all together."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from naslab.analysis.ranking import Category, Standing, category, total
from naslab.comparison.names import short
from naslab.errors import UsageError
from naslab.render.report import theme
from naslab.render.report.axes import base_layout, number, numbers, plain_axis, rate_axis, time_axis
from naslab.render.report.figures import Figure
from naslab.render.report.labels import count_label, plot_text, time_label, value_label
from naslab.render.report.views import Chart
from naslab.render.web.frame import Page, of_charts, sections
from naslab.render.web.html import Html, checkbox, join, select, table, tag
from naslab.render.web.links import Links
from naslab.render.web.listing import MOST_WORDS, Query
from naslab.results.cell_names import NO_RESULTS, category_label
from naslab.results.store.library import Library

RATES = ("throughput", "iops", "capacity")
MEASURES = {"rate": "Rate", "p50": "Latency, median", "p99": "Latency, p99"}
MOST_DEVICES = 40
MOST_RUNS = 10
"""Newest runs of a device whose repeats count together."""
WHICH = {"all": f"the newest {MOST_RUNS} runs", "newest": "the newest run only"}


def rank_page(library: Library, query: Query, links: Links) -> Page:
    """The ranking of each `device` in each `test` by `measure`, from the repeats of `which` runs.

    Without a device all are ranked, without a test the one that most runs have. Raises UsageError.
    """
    tests = [name for name, _ in library.facets()["test"] if name not in NO_RESULTS]
    chosen = _known(query.get("test", ()), tests, "test") or tests[:1]
    measure = _one(query, "measure", MEASURES)
    which = _one(query, "which", WHICH)
    every = [device.name for device in library.devices(limit=MOST_DEVICES)]
    devices = list(dict.fromkeys(query.get("device", ()))) or every
    if len(devices) > MOST_DEVICES:
        raise UsageError(f"{len(devices)} devices are chosen; a ranking has at most {MOST_DEVICES}: choose fewer")
    of_device = library.runs_of(devices, chosen, MOST_RUNS if which == "all" else 1)
    head = tag("h1", "Ranking")
    form = _form(every, devices, tests, chosen, measure, which, links)
    found = ranked(library, of_device, chosen, measure)
    return shown_page([one.with_asked(devices) for one in found], [head, form], links)


def shown_page(found: Sequence[Ranked], head: Sequence[Html | None], links: Links) -> Page:
    """The page of rankings. head: what stands above them."""
    drawn = chart(found)
    body = join(
        [
            *head,
            tag("p", _RULE, class_="lead"),
            _total(found) if len(found) > 1 else None,
            *map(_section, found),
            sections([drawn]) if drawn.entries else tag("p", "There are no measurements to rank.", class_="lead"),
        ]
    )
    if not drawn.entries:
        return Page("Ranking", body, here="rank", scripts=["library.js"])
    return Page("Ranking", body, of_charts("Ranking", [drawn]), here="rank")


_RULE = (
    "The value is the geometric mean over the measurements that all devices of a category share, with the 95 % "
    "interval over "
    "its repeats. Devices with overlapping intervals share their ranks; a device with fewer than four repeats has none."
)


def _known(asked: Sequence[str], known: Sequence[str], name: str) -> list[str]:
    for one in asked:
        if one not in known:
            raise UsageError(f"{name}={one[:MOST_WORDS]}: no run has it; choose one from the list")
    return list(dict.fromkeys(asked))


def _one(query: Query, name: str, known: Mapping[str, str]) -> str:
    asked = (query.get(name) or [next(iter(known))])[0]
    if asked not in known:
        raise UsageError(f"{name}={asked[:MOST_WORDS]}: choose one of {', '.join(known)}")
    return asked


@dataclass(frozen=True)
class Ranked:
    """One test's ranking. unit: `bytes` or `ops` per second, or `ns`."""

    test: str
    unit: str
    found: Category

    cached: frozenset[str] = frozenset()

    def with_asked(self, devices: Sequence[str]) -> Ranked:
        """The same, in which each device that was asked for is ranked, or left out by name."""
        known = {*(each.name for each in self.found.standings), *self.found.left_out}
        missing = [name for name in devices if name not in known]
        return replace(self, found=replace(self.found, left_out=[*self.found.left_out, *missing]))

    def name_of(self, one: Standing) -> str:
        """A device's name, marked where some of its values came from the client's cache."""
        return f"{one.name} (client's cache)" if one.name in self.cached else one.name

    def mark(self, one: Standing) -> str:
        """Its shape: filled for a rank that the device itself earned."""
        return "circle" if one.ranked and one.name not in self.cached else "circle-open"

    @property
    def higher(self) -> bool:
        """Whether more is better."""
        return self.unit != "ns"

    def text(self, value: float) -> str:
        """A value with its unit."""
        return value_label(value, self.unit) if self.higher else time_label(value)

    def interval(self, one: Standing) -> str:
        """A device's interval in words."""
        if one.low is None or one.high is None:
            return "not known"
        low, high = self.text(one.low), self.text(one.high)
        number, unit = low.rsplit(" ", 1)
        return f"{number if high.endswith(f' {unit}') else low} to {high}"


def ranked(
    library: Library, of_device: Mapping[str, Sequence[int]], tests: Sequence[str], measure: str
) -> list[Ranked]:
    """The devices' ranking in each test. of_device: sequence numbers of the runs whose repeats count."""
    device_of = {seq: device for device, seqs in of_device.items() for seq in seqs}
    points = library.points(list(device_of), tests, RATES if measure == "rate" else (measure,))
    found = []
    for test in tests:
        mine = [point for point in points if point.test == test]
        moved = any(point.key.measure == "throughput" for point in mine)
        unit = "ns" if measure != "rate" else "bytes" if moved else "ops"
        values: dict[str, dict[Hashable, dict[Hashable, float]]] = {}
        for point in mine:
            if unit != "bytes" or point.key.measure == "throughput":
                by_key = values.setdefault(device_of[point.seq], {})
                by_key.setdefault(point.key.loose(), {})[point.seq, point.block] = point.value
        cached = library.answered_by_client({name: seqs[:1] for name, seqs in of_device.items()}, test)
        found.append(Ranked(test, unit, category(values, higher=unit != "ns"), frozenset(cached)))
    return found


def _form(
    every: Sequence[str], devices: Sequence[str], tests: Sequence[str], chosen: Sequence[str], measure: str, which: str,
    links: Links,
) -> Html:  # fmt: skip
    names = list(dict.fromkeys([*every, *devices]))
    categories = [checkbox(category_label(test), "test", test, test in chosen) for test in tests]
    boxes = [checkbox(name, "device", name, name in devices) for name in names]
    return tag(
        "form",
        tag("fieldset", tag("legend", "Categories"), tag("div", *categories, class_="boxes tall")),
        tag("fieldset", tag("legend", "Devices"), tag("div", *boxes, class_="boxes tall")),
        select("By", "measure", list(MEASURES.items()), measure),
        select("Repeats of", "which", list(WHICH.items()), which),
        tag("button", "Rank", type="submit"),
        method="get", action=links.page("rank"), class_="choose",
    )  # fmt: skip


def _section(one: Ranked) -> Html:
    said = f"{count_label(one.found.measurements, 'measurement')} in common."
    if one.found.left_out:
        said += f" Left out, without a measurement of it: {', '.join(one.found.left_out)}."
    if one.cached:
        said += (
            " Marked (client's cache): this machine's own memory answered a part of it, which shows nothing about the "
            "device."
        )
    rows = [
        [rank_text(each), one.name_of(each), one.text(each.value), one.interval(each), each.repeats or "apart"]
        for each in one.found.standings
    ]
    name = category_label(one.test)
    made = table(f"Ranking by {name}", ["Rank", "Device", "Value", "95 % interval", "Repeats"], rows, (2, 4))
    return tag("section", tag("h2", name), tag("p", said, class_="note"), made if rows else None, class_="ranking")


def _total(shown: Sequence[Ranked]) -> Html:
    """All categories that rank two devices or more together; the others are named."""
    usable = [one for one in shown if sum(each.ranked for each in one.found.standings) > 1]
    others = [category_label(one.test) for one in shown if one not in usable]
    found = total([(one.found, one.higher) for one in usable]) if len(usable) > 1 else []
    head = tag("h2", "All categories")
    if not found:
        words = "Fewer than two devices have a rank in every category, so there is no rank over all."
        return tag("section", head, tag("p", words, class_="note"), class_="ranking")
    words = (
        "How many times as good as the geometric mean of these devices, with equal weight for every category; above "
        "1 is "
        "better."
    )
    if others:
        words += f" Without {', '.join(others)}: fewer than two devices have a rank there."
    known = {each.name for each in found}
    every = dict.fromkeys(each.name for one in shown for each in one.found.standings)
    if missing := [name for name in every if name not in known]:
        words += f" Without a rank in every category: {', '.join(missing)}."
    rows = [[rank_text(one), one.name, f"{one.value:.3f}", f"{one.low:.3f} to {one.high:.3f}"] for one in found]
    made = table("Ranking over all categories", ["Rank", "Device", "Value", "95 % interval"], rows, (2,))
    return tag("section", head, tag("p", words, class_="note"), made, class_="ranking")


def rank_text(one: Standing) -> str:
    """`1`, `2 to 3` where it is shared, or that there is none."""
    if one.first is None or one.last is None:
        return "none"
    return f"{one.first}" if one.first == one.last else f"{one.first} to {one.last}"


def chart(shown: Sequence[Ranked]) -> Chart:
    """A dot with its interval for each device, one picture for each category."""
    lead = "A dot is the value, the line its 95 % interval; without a line there are too few repeats for one."
    made = Chart("ranking", "In pictures", lead, ["Category"])
    for one in shown:
        if one.found.standings:
            best = one.found.standings[0]
            words = f"{category_label(one.test)}: {best.name} has {one.text(best.value)}, rank {rank_text(best)}."
            made.add([category_label(one.test)], figure(one), words)
    return made


_AXES = {"bytes": (1e-6, "Throughput (MB/s)"), "ops": (1.0, "Operations per second"), "ns": (1e-6, "Latency")}


def figure(shown: Ranked) -> Figure:
    """Values in MB/s, operations per second or ms, logarithmic, best on top."""
    scale, title = _AXES[shown.unit]
    rows = list(shown.found.standings)
    names = [plot_text(short(shown.name_of(one))) for one in rows]
    far = max((one.value for one in rows), default=0.0) ** 0.5 * min((one.value for one in rows), default=0.0) ** 0.5
    ends = [scale * end for one in rows for end in (one.value, one.low, one.high) if end]
    trace = {
        "type": "scatter", "mode": "markers+text", "x": numbers(scale * one.value for one in rows), "y": names,
        "text": [f"  {shown.text(one.value)}  " for one in rows], "textfont": {"size": 12, "color": theme.INK},
        "textposition": ["middle left" if one.value > far else "middle right" for one in rows], "cliponaxis": False,
        "error_x": {
            "type": "data", "symmetric": False, "color": theme.ACCENT, "thickness": 2, "width": 5,
            "array": [number(scale * ((one.high or one.value) - one.value)) for one in rows],
            "arrayminus": [number(scale * (one.value - (one.low or one.value))) for one in rows],
        },
        "marker": {"color": theme.ACCENT, "size": 9, "symbol": [shown.mark(one) for one in rows]},
        "customdata": [[shown.text(one.value), rank_text(one)] for one in rows],
        "hovertemplate": "<b>%{customdata[0]}</b><br>%{y}, rank %{customdata[1]}<extra></extra>",
    }  # fmt: skip
    layout = base_layout(
        xaxis=rate_axis(ends, title) if shown.higher else time_axis(ends, title), height=130 + 30 * len(rows),
        showlegend=False, yaxis=plain_axis("", type="category", categoryorder="array", categoryarray=names,
                                           autorange="reversed", ticklabelstandoff=6),
    )  # fmt: skip
    return {"data": [trace], "layout": layout}
