"""Figure data of the report from a fixed run, and against the cells it came from."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fixtures_run import make_run
from naslab.render.report import figures, theme
from naslab.render.report.model import Case, cases
from naslab.render.report.rawdata import read_series
from naslab.render.report.views import Chart, charts, shown
from naslab.results import Run

SIZES, RECORDS = (1 << 20, 16 << 20, 256 << 20), (4096, 65536, 1 << 20)


def small() -> Run:
    """Two tests over three sizes and records, two repeats, series of 100 ms."""
    return make_run(ops=("read", "write"), file_sizes=SIZES, record_sizes=RECORDS, interval_ns=100_000_000)


def charts_of(*runs: Run) -> dict[str, Chart]:
    """Charts by their id."""
    found = [one for i, run in enumerate(runs) for cell in run.cells if (one := read_series(run, i, cell))]
    return {chart.id: chart for chart in charts(shown(list(runs)), found)}


def figure(chart: Chart, *path: str) -> dict[str, Any]:
    """The figure at a path of choices."""
    return next(entry["figure"] for entry in chart.entries if entry["path"] == list(path))


def medians(run: Run, op: str) -> dict[tuple[int, int], float]:
    """MB/s by (file, record), straight from the cells."""
    values: dict[tuple[int, int], list[float]] = {}
    for cell in run.cells:
        if cell["op"] == op:
            values.setdefault((cell["file_bytes"], cell["record_bytes"]), []).append(
                cell["throughput_bytes_per_s"] / 1e6
            )
    return {at: statistics.median(found) for at, found in values.items()}


def case_of(run: Run, label: str) -> Case:
    """One test of a run."""
    return next(case for case in cases(run) if case.label == label)


def test_figures_of_the_fixed_run(golden: Callable[[str, str], None]) -> None:
    found = charts_of(small())
    picked = {}
    for name, chart in found.items():
        entry = chart.entries[0]
        picked[name] = {
            "path": entry["path"],
            "caption": entry["caption"],
            "data": entry["figure"]["data"],
            "filter": entry["figure"].get("filter"),
        }
    golden("report_figures.json", json.dumps(picked, indent=1, ensure_ascii=False) + "\n")


def test_lines_hold_the_medians_of_the_cells() -> None:
    run = small()
    drawn = figure(charts_of(run)["throughput"], "Read")
    expected = medians(run, "read")
    lines = [trace for trace in drawn["data"] if trace["mode"] == "lines+markers"]
    assert [trace["meta"]["record"] for trace in lines] == list(RECORDS)
    for trace in lines:
        for file, value in zip(trace["x"], trace["y"], strict=True):
            assert value == pytest.approx(expected[file, trace["meta"]["record"]], rel=1e-5)


def test_dots_and_band_hold_every_repeat() -> None:
    run = small()
    drawn = figure(charts_of(run)["throughput"], "Read")["data"]
    dots = [trace for trace in drawn if trace["mode"] == "markers" and trace["meta"]["record"] == 4096]
    values = [c["throughput_bytes_per_s"] / 1e6 for c in run.cells if c["op"] == "read" and c["record_bytes"] == 4096]
    assert sorted(dots[0]["y"]) == pytest.approx(sorted(values), rel=1e-5)
    band = next(trace for trace in drawn if trace.get("fill") == "toself" and trace["meta"]["record"] == 4096)
    assert min(band["y"]) == pytest.approx(min(values), rel=1e-5)
    assert max(band["y"]) == pytest.approx(max(values), rel=1e-5)


def test_link_ceiling_line_is_where_the_framing_puts_it() -> None:
    layout = figure(charts_of(small())["throughput"], "Read")["layout"]
    assert layout["shapes"][0]["y0"] == pytest.approx(118.66, abs=0.01)  # 1 Gbit/s, MTU 1500
    assert (
        "1 Gbit/s link" in layout["shapes"][1]["label"]["text"]
        and layout["shapes"][1]["y0"] == layout["shapes"][0]["y0"]
    )


def test_heat_map_and_surface_hold_the_medians_and_blanks() -> None:
    run = make_run(ops=("read",), file_sizes=(4096, 65536, 1 << 20), record_sizes=(4096, 65536))
    found, expected = charts_of(run), medians(run, "read")
    heat = found["heat"].entries[0]["figure"]
    for rows in (heat["data"][0]["customdata"], found["surface"].entries[0]["figure"]["data"][0]["z"]):
        for record, row in zip((4096, 65536), rows, strict=True):
            for file, value in zip((4096, 65536, 1 << 20), row, strict=True):
                if record > file:
                    assert value is None
                else:
                    assert value == pytest.approx(expected[file, record], rel=1e-5)
    assert len(heat["data"][1]["text"]) == 5  # blank where the record is larger than the file


def test_percentiles_hold_the_latencies_of_the_cells() -> None:
    run = small()
    drawn = charts_of(run)["latency"].entries[0]["figure"]
    for key, name in (("p50", "p50"), ("p99_9", "p99.9"), ("max", "max")):
        line = next(t for t in drawn["data"] if t["name"] == name and t["meta"]["record"] == 65536)
        for file, value in zip(line["x"], line["y"], strict=True):
            cells = [c for c in run.cells if (c["op"], c["file_bytes"], c["record_bytes"]) == ("write", file, 65536)]
            assert value == pytest.approx(statistics.median(c["latency_ns"][key] for c in cells) / 1e6, rel=1e-5)


def test_distribution_loses_no_sample() -> None:
    rng = np.random.default_rng(4)
    values = np.unique(rng.integers(1_000, 90_000_000, 500))
    edges, share = figures.log_bins(values, rng.integers(1, 1000, len(values)))
    assert sum(share) == pytest.approx(100, abs=1e-3)
    assert edges[0] <= values[0]
    assert edges[-1] >= values[-1]
    assert len(edges) == len(share) + 1
    one_edge, one_share = figures.log_bins(np.array([500]), np.array([7]))
    assert (len(one_edge), one_share) == (2, [100.0])


def test_series_keeps_peak_and_dip_when_thinned() -> None:
    rates = np.full(100_000, 100e6)
    rates[77_777], rates[5] = 3e6, 400e6
    worst = np.full(100_000, 1e6)
    worst[61_803] = 2e9
    drawn = figures.series(np.arange(100_000.0), {"Write": rates}, worst, buckets=500)
    line, latency = drawn["data"]
    assert len(line["x"]) <= 1002
    assert (max(line["y"]), min(line["y"]), max(latency["y"])) == (400, 3, 2000)
    assert line["x"][line["y"].index(3)] == 77_777


def test_series_leaves_out_an_interval_cut_short_by_the_end() -> None:
    run = make_run(ops=("read",), file_sizes=(1 << 30,), record_sizes=(1 << 20,), blocks=1)
    drawn = charts_of(run)["series"].entries[0]["figure"]["data"][0]
    assert min(drawn["y"]) > 0.9 * max(drawn["y"])


def test_runs_overlay_in_the_first_chart_with_a_chooser_for_the_record() -> None:
    fast, slow = make_run(label="A", ops=("read",)), make_run(label="B", ops=("read",), speed=0.5)
    drawn = figure(charts_of(fast, slow)["throughput"], "Read")
    names = [t["name"] for t in drawn["data"] if t["mode"] == "lines+markers" and t["meta"]["record"] == 1 << 20]
    assert names == ["A, 1 MiB", "B, 1 MiB"]
    assert drawn["filter"]["by"] == "record"
    assert {option["value"] for option in drawn["filter"]["options"]} == {"4096", "65536", "1048576", "all"}


def test_a_field_that_differs_at_one_size_makes_separate_tests() -> None:
    run = make_run(ops=("read",), blocks=2)
    for cell in run.cells:
        cell["queue_depth"] = 32 if cell["block"] else 1
    assert [case.label for case in cases(run)] == ["Read, depth 1", "Read, depth 32"]
    assert all(case.repeats() == 1 for case in cases(run))


def test_predicted_cells_are_open_marks_and_marked_in_the_heat_map() -> None:
    run = make_run(ops=("read",), blocks=1)
    run.cells[0]["predicted"] = True
    case = case_of(run, "Read")
    line = figures.throughput([("run", case)])["data"][0]
    assert line["marker"]["symbol"][0] == "circle-open"
    heat = figures.heat(case)
    assert heat["data"][0]["text"][0][0].startswith("~")


def test_metadata_is_drawn_in_operations_per_second() -> None:
    run = make_run(ops=("read",), file_sizes=(1 << 20,), record_sizes=(4096,))
    for cell in run.cells:
        cell.update(op="create", file_bytes=0, record_bytes=0, bytes=0, throughput_bytes_per_s=0.0, iops=1500.0)
    drawn = charts_of(run)["tests"].entries[0]["figure"]
    assert drawn["data"][0]["x"] == [1500]
    assert drawn["layout"]["xaxis"]["title"]["text"] == "Operations per second"


def colours_in(value: Any) -> set[str]:
    """Every colour of a figure outside its colour maps."""
    if isinstance(value, dict):
        return set().union(*(colours_in(v) for k, v in value.items() if k != "colorscale"))
    if isinstance(value, list):
        return set().union(*map(colours_in, value))
    return {value} if isinstance(value, str) and value.startswith(("#", "rgba(")) else set()


def test_every_colour_has_a_dark_partner() -> None:
    runs = [make_run(label="A"), make_run(label="B")]
    single = make_run(ops=("read", "write"), file_sizes=(1 << 30,), record_sizes=(1 << 20,))
    for chart in [*charts_of(small()).values(), *charts_of(*runs).values(), *charts_of(single).values()]:
        for entry in chart.entries:
            unknown = colours_in(entry["figure"]) - set(theme.DARK) - {theme.ON_LIGHT, theme.ON_DARK}
            assert not unknown, chart.id
