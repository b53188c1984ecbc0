"""The first sheet of a run that looked for a limit: the verdict, what to do, one chart, and how far to trust it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from openpyxl.chart import BarChart, Reference
from openpyxl.styles import Alignment

from naslab.exchange.excel_cells import fit_to_width, styled, title_of
from naslab.exchange.excel_charts import describe, line_chart
from naslab.explain import ladder_table, tell
from naslab.explain.grounds import actions, evidence, grounds, sentences
from naslab.results.describe import part_of
from naslab.results.parts.ladder import Ladder, LadderPoint
from naslab.units import size_label

if TYPE_CHECKING:
    from naslab.explain.answer import Answer
    from naslab.results.run import Run

HEADER = ("class", "limited by", "value", "unit", "95 % from", "95 % to", "probability")
_WIDTHS = (24, 34, 24, 14, 12, 12, 12)
_LINE_CHARACTERS = 130
"""Of a text in one row: what the sheet's columns are wide together."""
_ROWS_OF_THE_CHART = 24
_NUMBERS = ("value", "95 % from", "95 % to", "probability")
_UNITS = {"bytes_per_s": ("MB/s", 1e6), "iops": ("operations/s", 1.0), "ns": ("µs", 1e3), "bytes": ("MB", 1e6)}
_DIGITS = 4


@dataclass(frozen=True)
class Picture:
    """Rates to be drawn, in MB/s. across: what the rows are. rows: (name, a rate for each line or None)."""

    title: str
    across: str
    lines: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    bars: bool = False

    @property
    def heads(self) -> tuple[str, ...]:
        """Of the columns."""
        return (self.across, *self.lines)


def has_answer(run: Run) -> bool:
    """Whether the run looked for what limits its target."""
    document: Mapping[str, Any] = run.document
    return bool(document.get("ladder") or (document.get("verdict") or {}).get("limits"))


def answer_sheet(book: Any, run: Run, title: str) -> None:
    """Adds the sheet of a run for which `has_answer` is true; its verdict is that of `naslab explain`."""
    from naslab.explain.answer import answer

    found = answer(run.document)
    picture = picture_of(run.document, found.limits)
    sheet = book.create_sheet(title_of(book, title))
    fit_to_width(sheet)
    sheet.page_setup.orientation = "portrait"
    for letter, width in zip("ABCDEFG", _WIDTHS, strict=True):
        sheet.column_dimensions[letter].width = width
    rows = list(_verdict(sheet, found))
    under = list(_reasons(sheet, found))
    if picture:
        place, head = len(rows) + 1, len(rows) + _ROWS_OF_THE_CHART + len(under) + 2
        sheet.add_chart(_chart(sheet, picture, head), f"A{place}")
        rows += [[]] * _ROWS_OF_THE_CHART
        under.append([styled(sheet, f"{picture.title}, MB/s (10^6 bytes per second)", bold=True)])
        under.append([styled(sheet, name, bold=True, right=at > 0) for at, name in enumerate(picture.heads)])
        under += [[styled(sheet, value) for value in row] for row in picture.rows]
    for row in rows + under:
        sheet.append(row)


def _verdict(sheet: Any, found: Answer) -> Iterator[list[Any]]:
    """The sheet's rows down to the picture: what limits the target, and what to do."""
    document = found.document
    target = document["target"].get("url") or "the target"
    yield [styled(sheet, f"What limits {target}", bold=True)]
    label = document.get("label")
    about = (f"run {document['run_id']}", str(document.get("started_at") or "")[:16].replace("T", " "), label)
    yield [styled(sheet, ", ".join(part for part in about if part))]
    yield []
    yield from _texts(sheet, sentences(found))
    yield []
    if found.limits:
        yield [styled(sheet, name, bold=True, right=name in _NUMBERS) for name in HEADER]
        yield from (_limit_cells(sheet, row) for row in limit_rows(found.limits))
        yield []
    yield from _part(sheet, "What to do", actions(found))


def _reasons(sheet: Any, found: Answer) -> Iterator[list[Any]]:
    """The rows below the picture."""
    yield from _part(sheet, "How far to trust it", grounds(found))
    yield from _part(sheet, "Evidence", evidence(found.limits))
    yield from _part(sheet, "Next", [f"{command}  ({brings})" for command, brings in found.next_commands])


def _part(sheet: Any, head: str, texts: Sequence[str]) -> Iterator[list[Any]]:
    """A heading, the texts and an empty row; nothing without texts."""
    if texts:
        yield [styled(sheet, head, bold=True)]
        yield from _texts(sheet, texts)
        yield []


def _texts(sheet: Any, texts: Sequence[str]) -> Iterator[list[Any]]:
    """Each text in rows of the sheet's width; what goes on is indented."""
    for text in texts:
        for at, line in enumerate(textwrap.wrap(text[:1].upper() + text[1:], _LINE_CHARACTERS) or [""]):
            cell = styled(sheet, line)
            cell.alignment = Alignment("left", indent=2 if at else 0)
            yield [cell]


def _limit_cells(sheet: Any, row: Sequence[Any]) -> list[Any]:
    cells = [styled(sheet, value) for value in row]
    for name, value, cell in zip(HEADER, row, cells, strict=True):
        if name == "unit":
            cell.alignment = Alignment("left", indent=1)
        elif name == "probability":
            cell.number_format = "0.00"
        elif name in _NUMBERS and value is not None:
            cell.number_format = "#,##0" if value >= 1000 else "General"
    return cells


def limit_rows(limits: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Any, ...]]:
    """In the columns of HEADER, by class, the most probable first; values as numbers in the unit beside them."""
    for ranked in tell.by_class(limits).values():
        for at, limit in enumerate(ranked):
            unit, factor = _UNITS.get(str(limit.get("unit")), (limit.get("unit"), 1.0))
            value, (low, high) = limit.get("value"), limit.get("ci95") or (None, None)
            numbers = [None if each is None else rounded(each / factor) for each in (value, low, high)]
            what = tell.rank_text(ranked, at) + tell.kind_name(str(limit["kind"]))
            yield (
                tell.class_name(limit), what, numbers[0], unit if value is not None else None, *numbers[1:],
                limit.get("confidence"),
            )  # fmt: skip


def rounded(value: float) -> float:
    """To four significant digits."""
    return float(f"{value:.{_DIGITS}g}")


def picture_of(document: Mapping[str, Any], limits: Sequence[Mapping[str, Any]]) -> Picture | None:
    """What shows the limit best: rates over the working set, over outstanding requests, or the limits side by side."""
    ladder = part_of(document, "ladder", Ladder)
    return (_by_set(ladder) or _by_depth(ladder) if ladder else None) or _by_class(limits)


def _points(ladder: Ladder, *names: str) -> list[LadderPoint]:
    return [point for step in ladder.steps if step.name in names for point in step.points]


def _by_set(ladder: Ladder) -> Picture | None:
    rates: dict[int, dict[str, float]] = {}
    for point in _points(ladder, "set"):
        if point.op in ("read", "write"):
            rate = point.rate.value if point.op == "read" else point.durable or point.rate.value
            rates.setdefault(point.set_bytes, {})[point.op] = rounded(rate / 1e6)
    if sum("read" in found for found in rates.values()) < 2:
        return None
    rows = [(size_label(size), rates[size].get("read"), rates[size].get("write")) for size in sorted(rates)]
    return Picture("Rate over working set", "working set", ("read", "written, including flush"), rows)


def _by_depth(ladder: Ladder) -> Picture | None:
    rates: dict[int, dict[int, float]] = {}
    for point in _points(ladder, "round_trip", "depth", "small_depth"):
        if point.op == "read":
            found = rates.setdefault(ladder_table.in_flight(point), {})
            found[point.record_bytes] = max(rounded(point.rate.value / 1e6), found.get(point.record_bytes, 0))
    if len(rates) < 2:
        return None
    records = sorted({record for found in rates.values() for record in found}, reverse=True)
    rows = [(str(depth), *(rates[depth].get(record) for record in records)) for depth in sorted(rates)]
    names = tuple(f"{size_label(record)} reads" for record in records)
    return Picture("Rate over outstanding requests", "outstanding requests", names, rows)


def _by_class(limits: Sequence[Mapping[str, Any]]) -> Picture | None:
    firsts = [ranked[0] for ranked in tell.by_class(limits).values()]
    rows = [
        (tell.class_name(limit), rounded(limit["value"] / 1e6))
        for limit in firsts
        if limit.get("unit") == "bytes_per_s" and limit.get("value") is not None
    ]
    return Picture("Limits", "class", ("limit",), rows, bars=True) if rows else None


def _chart(sheet: Any, picture: Picture, head: int) -> Any:
    """head: the row above the numbers, which names the lines."""
    last = head + len(picture.rows)
    data = Reference(sheet, min_col=2, max_col=1 + len(picture.lines), min_row=head, max_row=last)
    names = Reference(sheet, min_col=1, min_row=head + 1, max_row=last)
    if not picture.bars:
        chart = line_chart(f"{picture.title}: MB/s", data, names, picture.across)
        chart.display_blanks = "span"
        chart.legend.position = "b"
        return chart
    chart = BarChart()
    describe(chart, f"{picture.title}: MB/s", data, names, picture.across)
    chart.legend = None
    return chart
