"""The report page: what is in it, what must not be, how large it is."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import math
import re
import statistics
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_tools import HANG_S
from fixtures_run import make_parts, make_run
from naslab import load
from naslab.cli.report import parse_drawing, parse_line, parse_link
from naslab.errors import UsageError
from naslab.render import report
from naslab.render.report import chart_library, figures, job_network, testbed, way
from naslab.render.report.axes import log_ticks
from naslab.render.report.ceilings import link_ceilings
from naslab.render.report.labels import plot_text, tight, time_label
from naslab.render.report.model import cases
from naslab.render.report.payload import coarser, pack_json, pack_series
from naslab.render.report.rawdata import Series, read_series
from naslab.render.report.rules import rules, uprights
from naslab.render.report.thinning import keep_extremes
from naslab.render.report.views import charts, shown
from naslab.results import Run
from naslab.results.describe import plain
from naslab.results.foreign import foreign_cell, foreign_document
from naslab.results.parts.cached import WorkingSet
from naslab.results.run import MemoryBlobs
from naslab.units import size_label

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&\u202e"


def unpacked(page: str, name: str) -> bytes:
    """One of the page's data blocks."""
    found = re.search(rf'id="naslab-{name}">([^<]*)<', page)
    assert found
    return zlib.decompress(base64.b64decode(found.group(1)))


class Elements(HTMLParser):
    """Counts elements and collects attributes and text outside scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.inside = tag

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside not in ("script", "style"):
            self.text.append(data)


def small(**options: Any) -> Run:
    return make_run(
        **{"ops": ("write", "read"), "file_sizes": (1 << 20, 16 << 20), "record_sizes": (4096, 65536), **options}
    )


def test_page_holds_the_headline_facts_and_data() -> None:
    run = small()
    run.document["summary"] = ["The link limits reads."]  # type: ignore[typeddict-unknown-key]
    run.document["note"] = "second shelf removed"  # type: ignore[typeddict-unknown-key]
    page = report.render([run])
    text = " ".join(Elements(page).text)
    wanted = ("Sweep of smb://tester@nas.example/bench", "Complete", "The link limits reads.", "SMB 3.1.1", "aes-gmac",
              "example NAS, one disk", "second shelf removed", "Linux 6.8.0", "1 Gbit/s", "MTU".lower(),
              "how much space is free")  # fmt: skip
    for part in wanted:
        assert part in text
    assert json.loads(unpacked(page, "runs")) == run.document


def test_several_runs_are_one_json_document_and_one_table() -> None:
    runs = [small(label="A", run_id="a"), small(label="B", run_id="b")]
    page = report.render(runs)
    assert json.loads(unpacked(page, "runs")) == {"schema": 1, "runs": [run.document for run in runs]}
    assert "2 runs compared" in page


def hostile_run() -> Run:
    document, blobs, _ = make_parts(ops=("read",), file_sizes=(1 << 20, 4 << 20), record_sizes=(4096, 65536))
    document.update(label=HOSTILE, note=HOSTILE, summary=[HOSTILE], labels={HOSTILE: HOSTILE}, run_id=HOSTILE)
    document.update(status=HOSTILE, command=HOSTILE, started_at=HOSTILE, argv=[HOSTILE], naslab_version=HOSTILE)
    document["target"] = {"url": HOSTILE, "protocol": HOSTILE, "dialect": HOSTILE, "signing": HOSTILE}
    document["environment"] = {HOSTILE: {HOSTILE: [HOSTILE, {HOSTILE: HOSTILE}]}}
    document["warnings"] = [HOSTILE, {"kind": HOSTILE, "message": HOSTILE}]
    limit = {"kind": HOSTILE, "applies_to": {"op": HOSTILE}, "unit": HOSTILE, "value": 1.0, "evidence": HOSTILE}
    document["verdict"] = {"limits": [limit]}
    for cell in document["cells"]:
        cell.update(workload=HOSTILE, durability=HOSTILE, regime=HOSTILE, warnings=[{"kind": "x", "message": HOSTILE}])
    document["cells"].append({**document["cells"][0], "id": 999, "status": "failed", "first_error": HOSTILE})
    return Run(document, MemoryBlobs(blobs))  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [1, 2])
def test_hostile_text_stays_text(count: int) -> None:
    page = report.render([hostile_run()] * count)
    clean = report.render([small()])
    counts = [sum(tag in ("script", "img") for tag, _ in Elements(one).tags) for one in (page, clean)]
    assert counts[0] == counts[1]
    assert "<script>alert" not in page
    assert "\u202e" not in page
    for _, attributes in Elements(page).tags:
        assert not [name for name in attributes if name.startswith("on")]
    titles = json.loads(unpacked(page, "charts"))["charts"]
    for chart in titles:
        for entry in chart["entries"]:
            drawn = json.dumps([entry["figure"]["data"], entry["figure"]["layout"]])
            assert "<script" not in drawn
            assert "<img" not in drawn


def test_policy_lets_only_our_own_scripts_run() -> None:
    page = report.render([small()])
    policy = next(a["content"] for tag, a in Elements(page).tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy
    assert "unsafe-inline" not in policy.split("style-src", maxsplit=1)[0]
    scripts = [re.findall(r"<script>(.*?)</script>", page, re.DOTALL)[0].encode(), unpacked(page, "plotly")]
    for script in scripts:
        digest = base64.b64encode(hashlib.sha256(script).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_page_asks_for_nothing_from_elsewhere() -> None:
    page = report.render([small()])
    assert not re.search(r"(https?:)?//[a-z0-9.-]+\.[a-z]{2,}", page.replace("smb://tester@nas.example", ""))
    for tag, attributes in Elements(page).tags:
        for name in ("src", "href", "action", "data", "poster"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:")), (tag, value)


def test_plotly_is_the_bundle_of_its_package_and_its_upload_is_off() -> None:
    page = report.render([small()])
    assert unpacked(page, "plotly").startswith(b"/**\n* plotly.js v")
    assert "showSendToCloud: false" in page
    charts = unpacked(page, "charts").decode()
    assert "scattergl" not in charts
    assert "parcoords" not in charts


def test_rendering_does_not_import_plotly() -> None:
    code = (
        "import sys; sys.path[:0] = sys.argv[1:]; from fixtures_run import make_run; import naslab.render.report\n"
        "naslab.render.report.render([make_run()])\n"
        "sys.exit(any(m.split('.')[0] in ('plotly', 'pandas') for m in sys.modules))"
    )
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", code, str(root / "python"), str(root / "tests")], check=True, timeout=HANG_S)


def test_every_chart_says_its_finding_in_words() -> None:
    tags = Elements(report.render([small()])).tags
    plots = [attributes for tag, attributes in tags if attributes.get("class") == "plot"]
    assert len(plots) >= 6
    for plot in plots:
        assert plot["role"] == "figure"
        assert re.search(r"\d", plot["aria-label"] or "")


def test_run_without_cells_says_so() -> None:
    page = report.render([small(ops=())])
    assert "nothing was measured" in page
    assert json.loads(unpacked(page, "charts"))["charts"] == []


def test_run_with_only_failed_cells_says_why() -> None:
    run = small(status="failed")
    for cell in run.cells:
        cell.update(status="failed", ops=0, bytes=0, throughput_bytes_per_s=0.0, iops=0.0, first_error="disk full")
    page = report.render([run])
    assert f"All {len(run.cells)} cells failed: nothing was measured." in page
    assert "disk full" in page


def test_failed_cells_beside_good_ones_are_left_out_and_told() -> None:
    run = small()
    run.cells[0].update(status="failed", throughput_bytes_per_s=9e12)
    page = report.render([run])
    assert "9,000,000" not in page
    assert "1 cell gave no value." in page


def test_validity_notes_name_cache_errors_and_bad_data() -> None:
    run = small()
    for cell in run.cells[:3]:
        cell.update(regime="client_cache", errors=2, verified={"blocks": 9, "bad": 1, "first_bad": "x"})
    page = report.render([run])
    assert "3 cells came from the client&#x27;s cache" in page
    assert "3 cells had failed operations." in page
    assert "3 cells read data that differs from the written data." in page


def test_short_form_of_the_document_is_enough() -> None:
    short = {
        "schema": 1, "naslab_version": "0.1", "run_id": "r", "command": "sweep", "status": "complete", "warnings": [],
        "target": {"url": "/mnt/x", "protocol": "local", "dialect": None, "signing": None, "encryption": None},
        "cells": [{"id": 0, "op": "read", "file_bytes": 4096, "record_bytes": 4096, "throughput_bytes_per_s": 1e6,
                   "iops": 244.0, "latency_ns": {"p50": None}}],
        "verdict": {"limits": []},
    }  # fmt: skip
    assert "Sweep of /mnt/x" in report.render([Run(short)])  # type: ignore[arg-type]
    address = f"smb://nas/{'folder/' * 12}"
    page = report.render([Run({**short, "target": {**short["target"], "url": address}})])  # type: ignore[dict-item, typeddict-item]
    assert "<h1>Sweep of smb://nas/folder/folde…" in page and f">{address}<" in page, "short in the title, whole below"


def test_write_replaces_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "a.html"
    target.write_text("of others")
    with pytest.raises(UsageError, match="not a naslab report"):
        report.write([small()], target)
    assert target.read_text() == "of others"
    target.write_text('<meta name="generator" content="naslab 0.1">')
    assert report.write([small()], target) == target
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [file.name for file in tmp_path.iterdir()] == ["a.html"]
    with pytest.raises(UsageError, match=r"there is no folder .*missing"):
        report.write([small()], tmp_path / "missing" / "a.html")
    with pytest.raises(UsageError, match="at least one RUN"):
        report.render([])


@pytest.mark.lab
def test_bar_ten_thousand_cells_and_a_million_intervals_stay_within_12_mb() -> None:
    document, blobs, _ = make_parts(
        ops=("write", "read"), file_sizes=[1 << n for n in range(20, 30)], record_sizes=[1 << n for n in range(12, 22)]
    )
    rng = np.random.default_rng(1)
    unique = document["cells"]
    document["cells"] = [{**unique[i % len(unique)], "id": i, "block": i // len(unique)} for i in range(10_000)]
    named = {cell["id"]: dict(blobs[unique[cell["id"] % len(unique)]["id"]]) for cell in document["cells"]}
    for cell in document["cells"]:
        rows = np.zeros((100, 7), "<i8")
        rows[:, 0] = np.maximum(rng.normal(1000, 30, 100), 1)
        rows[:, 1] = rows[:, 0] * cell["record_bytes"]
        rows[:, 6] = rng.lognormal(15, 0.5, 100)
        named[cell["id"]]["series"] = rows.tobytes()
    page = report.render([Run(document, MemoryBlobs(named))])  # type: ignore[arg-type]
    assert len(page.encode("utf-8")) <= 12_000_000
    about = json.loads(unpacked(page, "series-about"))
    assert (about["rows"], about["factor"]) == (1_000_000, 1)


def test_series_beyond_the_budget_are_summed_and_the_page_says_so() -> None:
    rng = np.random.default_rng(2)
    rows = rng.integers(0, 1 << 40, (5000, 7))
    about, _ = pack_series([Series(0, {"id": 1, "record_bytes": 4096}, rows)], budget=60_000)
    assert about["factor"] > 1
    assert about["rows"] == -(-5000 // about["factor"])
    summed = coarser(rows, 3)
    assert summed[0, :6].tolist() == rows[:3, :6].sum(axis=0).tolist()
    assert summed[0, 6] == rows[:3, 6].max()


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=400), st.integers(1, 60))
def test_thinning_keeps_both_extremes_and_the_ends(values: list[float], buckets: int) -> None:
    y = np.array(values)
    kept = keep_extremes(y, buckets)
    assert len(kept) <= 2 * buckets + 2
    assert (np.diff(kept) > 0).all()
    assert (kept[0], kept[-1]) == (0, len(y) - 1)
    assert (y[kept].min(), y[kept].max()) == (y.min(), y.max())


def test_thinning_skips_gaps() -> None:
    y = np.full(1000, np.nan)
    y[400] = 5.0
    assert 400 in keep_extremes(y, 10)


@given(st.floats(1e-6, 1e9), st.floats(1, 1e9))
def test_ticks_are_few_positive_and_ascending(low: float, ratio: float) -> None:
    ticks = log_ticks(low, low * ratio)
    assert 1 <= len(ticks) <= 20
    assert ticks[0] > 0
    assert all(a < b for a, b in itertools.pairwise(ticks))


def test_ceilings_come_from_the_slowest_link_and_the_verdict() -> None:
    document = {
        "target": {"protocol": "nfs"},
        "environment": {
            "client": {"nic_bits_per_s": 10_000_000_000, "mtu": 1500},
            "server": {"link_bits_per_s": 10**9},
        },
        "verdict": {"limits": [{"kind": "link", "value": 60e6, "unit": "bytes_per_s"}]},
    }
    found = link_ceilings(document)
    assert [round(value / 1e6) for _, value in found] == [119, 60]
    route = {"interface": "eth1", "speed_bits_per_s": 2.5e9, "mtu_bytes": 9000}
    listed = {"route": route, "client": {"interfaces": [{"name": "eth0", "speed_bits_per_s": 10**8}]}}
    found = link_ceilings({"target": {"protocol": "nfs"}, "environment": listed})
    assert [(text, round(value / 1e6, 1)) for text, value in found] == [("2.5 Gbit/s link, at most 310 MB/s", 309.8)]
    assert link_ceilings({"target": {"protocol": "nfs"}, "environment": {"client": listed["client"]}}) == []
    assert link_ceilings({**document, "target": {"protocol": "local"}, "verdict": {}}) == []


def test_labels() -> None:
    assert [size_label(n) for n in (512, 65536, 1 << 20, 3 << 19, 1 << 40)] == [
        "512 B", "64 KiB", "1 MiB", "1.50 MiB", "1 TiB",
    ]  # fmt: skip
    assert [time_label(n) for n in (12, 1500, 250_000, 8_370_000, 2e9)] == [
        "12 ns",
        "1.50 µs",
        "250 µs",
        "8.37 ms",
        "2 s",
    ]
    assert plot_text("<b>a & b</b>") == "&lt;b&gt;a &amp; b&lt;/b&gt;"
    assert tight("at 5 s, 118 MB/s, 3 best, 99 % of 4 Bs") == "at 5\xa0s, 118\xa0MB/s, 3 best, 99\xa0% of 4 Bs"


def test_numbers_json_cannot_hold_become_null() -> None:
    packed = pack_json({"a": [1.5, float("nan")], "b": float("inf")})
    assert json.loads(zlib.decompress(base64.b64decode(packed))) == {"a": [1.5, None], "b": None}


# --- what a reader asks for, and what stands beside the charts ------------------------------------------------


def entries(page: str) -> dict[str, list[dict[str, Any]]]:
    """Entries of each chart of a page."""
    return {chart["id"]: chart["entries"] for chart in json.loads(unpacked(page, "charts"))["charts"]}


def test_lines_asked_for_are_drawn_and_told_and_the_axis_ends_where_asked() -> None:
    run = small()
    asked = report.Drawing((("raw network, 3,000 MB/s", 3e9), ("a link, 119 MB/s", 118.66e6)), 4e9)
    entry = entries(report.render([run], asked))["throughput"][0]
    layout = entry["figure"]["layout"]
    shapes = [shape for shape in layout["shapes"] if shape["y0"] in (3000.0, 118.66)]
    assert sorted(shape["label"]["text"] for shape in shapes if "label" in shape) == [
        "a link, 119 MB/s",
        "raw network, 3,000 MB/s",
    ]
    assert layout["yaxis"]["range"][1] == pytest.approx(math.log10(4000))
    linear = entry["figure"]["scales"][1]["yaxis"]
    assert linear["range"] == [0, 4000] and "type" not in linear
    assert "raw network, 3,000\xa0MB/s" in entry["caption"] and "The axis ends at 4,000\xa0MB/s." in entry["caption"]
    plain = entries(report.render([run]))["throughput"][0]["figure"]["layout"]
    assert len(plain["shapes"]) == len(layout["shapes"]) - 2, "the link's own line is not drawn twice"
    assert plain["yaxis"]["range"][1] < math.log10(3000)


def places(levels: list[tuple[str, float]]) -> dict[str, tuple[str, str]]:
    """Where the name of each line stands: along it, and on which side."""
    labels = [shape["label"] for shape in rules(levels) if "label" in shape]
    return {label["text"]: (label["textposition"], label["yanchor"]) for label in labels}


def test_names_of_close_lines_keep_apart_and_one_level_is_one_line() -> None:
    assert places([("a", 100.0), ("b", 250.0)]) == {"a": ("start", "bottom"), "b": ("start", "bottom")}
    crowded = places([(name, 100.0 + at) for at, name in enumerate("abcdef")])
    assert crowded["a"] == ("start", "top") and crowded["f"] == ("start", "bottom") and len(set(crowded.values())) == 6
    assert list(places([("a", 100.0), ("b", 100.1), ("a", 100.0)])) == ["a; b"]
    assert len(rules([("a", 100.0), ("b", 100.1)])) == 2, "a line and its name"


def test_figures_of_the_clients_cache_are_marked_in_every_chart() -> None:
    """Whatever draws a value of the client's cache says so: on the mark, beside the number, and in words beneath."""
    swept = make_run(ops=("read",), file_sizes=(1 << 20, 16 << 20), record_sizes=(4096, 65536))
    alone = make_run(ops=("read", "write"), file_sizes=(1 << 30,), record_sizes=(1 << 20,))
    for run in (swept, alone):
        for cell in run.cells:
            small = cell["file_bytes"] == 1 << 20 or (run is alone and cell["op"] == "read")
            cell["regime"] = "client_cache" if small else "disk"
    (of_swept,) = cases(swept)
    heat = figures.heat(of_swept)["data"][0]["text"]
    assert [[text.startswith(figures.CACHED) for text in row] for row in heat] == [[True, False]] * 2
    hovers = figures.surface(of_swept)["data"][0]["text"]
    assert [["client's cache" in text for text in row] for row in hovers] == [[True, False]] * 2
    bar = figures.bars([("run", cases(alone))])["data"][0]
    marked = [text.startswith(figures.CACHED) for text in bar["text"]]
    assert sorted(marked) == [False, True]
    assert [bool(shape) for shape in bar["marker"]["pattern"]["shape"]] == marked
    for option in figures.slices(of_swept)["filter"]["options"]:
        assert ("client's cache" in option["caption"]) == (option["value"] == str(1 << 20))
    for run, ids in ((swept, ("throughput", "heat", "slices", "surface")), (alone, ("tests",))):
        found = {chart.id: chart for chart in charts(shown([run]), [])}
        for each in ids:
            captions = " ".join(entry["caption"] for entry in found[each].entries)
            assert "from the client's cache" in captions.replace("\N{NO-BREAK SPACE}", " "), each


@pytest.mark.parametrize("speed", [0.001, 0.37, 1.0, 40.0])
@pytest.mark.parametrize("steep", [True, False])
def test_the_height_of_a_surface_has_no_text_at_its_floor(speed: float, steep: bool) -> None:
    """There the sizes have theirs, and both would lie on each other."""
    records = (4096, 1 << 20) if steep else (1 << 20, 4 << 20)
    run = make_run(ops=("read",), file_sizes=(16 << 20, 64 << 20), record_sizes=records, speed=speed)
    (case,) = cases(run)
    axis = figures.surface(case)["layout"]["scene"]["zaxis"]
    low, high = axis["range"]
    values = [each for row in figures.surface(case)["data"][0]["z"] for each in row]
    assert low < min(values) and max(values) <= high
    assert len(axis["tickvals"]) == len(axis["ticktext"]) <= 8 and len(set(axis["ticktext"])) == len(axis["ticktext"])
    assert all(low + 0.1 * (high - low) < tick <= high for tick in axis["tickvals"])


def test_names_above_bars_stand_in_rows_where_they_would_overlap() -> None:
    layout: dict[str, Any] = {"xaxis": {}, "margin": {"t": 16}, "height": 200}
    figure: dict[str, Any] = {"layout": layout}
    uprights(figure, [("a name", 200.0), ("another name", 210.0), ("far away and long", 400.0)], 420.0)
    rows = {note["text"]: note["yshift"] for note in layout["annotations"]}
    assert rows == {"far away and long": 0, "another name": 0, "a name": 15} and len(layout["shapes"]) == 3
    assert layout["height"] == 215 and layout["margin"]["t"] == 52
    slim = {note["text"]: note["yshift"] for note in figure["narrow"]["annotations"]}
    assert slim == {"far away and long": 0, "another name": 15, "a name": 0}, "on a phone others overlap"


def test_an_axis_that_ends_below_values_says_how_many() -> None:
    entry = entries(report.render([small()], report.Drawing((), 10e6)))["throughput"][0]
    above = sum(y > 10 for t in entry["figure"]["data"] if t.get("fill") is None for y in t["y"])
    assert above > 0 and f"{above:,} values above it" in entry["caption"]


@pytest.mark.parametrize(
    ("text", "name", "mb"),
    [("1g", "1 Gbit/s link, at most 119 MB/s", 118.66), ("100m", "100 Mbit/s link, at most 11.9 MB/s", 11.866),
     ("2.5gbit/s:9000", "2.5 Gbit/s link, MTU 9,000, at most 310 MB/s", 309.80), ("10G:4000", None, 1225.9)],
)  # fmt: skip
def test_links_by_the_formula(text: str, name: str | None, mb: float) -> None:
    found, rate = parse_link(text)
    assert rate / 1e6 == pytest.approx(mb, rel=1e-4)
    assert name is None or found == name


def test_lines_of_the_command_line() -> None:
    assert parse_line("110MB/s=raw network") == ("raw network, 110 MB/s", 110e6)
    assert parse_line("1m") == ("1.05 MB/s", float(1 << 20))
    assert parse_line("5MB=a=b<c>") == ("a=b<c>, 5 MB/s", 5e6)


@pytest.mark.parametrize(
    ("links", "lines", "y_max", "told"),
    [(["1x"], [], "", "--link '1x'"), (["0"], [], "", "--link '0'"), (["1g:20"], [], "", "MTU 20"),
     ([], ["raw network"], "", "--line 'raw network'"), ([], ["0=x"], "", "rate of 0"), ([], [], "fast", "--y-max")],
)  # fmt: skip
def test_bad_lines_are_refused_by_name(links: list[str], lines: list[str], y_max: str, told: str) -> None:
    with pytest.raises(UsageError, match=re.escape(told)):
        parse_drawing(links, lines, y_max)


def test_two_runs_are_set_against_each_other_spot_by_spot() -> None:
    runs = [small(label=name, run_id=name, speed=speed) for name, speed in (("A", 1.0), ("B", 0.5))]
    found = entries(report.render(runs))
    values = [{(c["op"], c["file_bytes"], c["record_bytes"]): [] for c in run.cells} for run in runs]
    for run, each in zip(runs, values, strict=True):
        for cell in run.cells:
            each[cell["op"], cell["file_bytes"], cell["record_bytes"]].append(cell["throughput_bytes_per_s"])
    ratio = {at: statistics.median(values[1][at]) / statistics.median(values[0][at]) for at in values[0]}
    flat = next(e for e in found["difference"] if e["path"] == ["B", "Read"])["figure"]["data"][0]
    surface = next(e for e in found["difference-3d"] if e["path"] == ["B", "Read"])["figure"]
    for row, record in enumerate((4096, 65536)):
        for column, file in enumerate((1 << 20, 16 << 20)):
            assert surface["data"][0]["z"][row][column] == pytest.approx(ratio["read", file, record], rel=1e-4)
            assert 2 ** flat["z"][row][column] == pytest.approx(ratio["read", file, record], rel=1e-4)
    assert len(surface["cameras"]) == 2
    assert "difference" not in entries(report.render(runs[:1]))


BURST = {
    "op": "write", "cause": "token_bucket", "findings": [], "missing": [], "sharing": "shared",
    "best_second_bytes_per_s": 268e6, "mean_bytes_per_s": 132e6, "duration_ns": 50 * 10**9,
    "bucket": {
        "dropped_ns": 26_400_000_000, "burst_bytes_per_s": {"value": 259e6, "ci95": [257e6, 261e6]},
        "baseline_bytes_per_s": {"value": 32e6, "ci95": [31e6, 33e6]}, "size_bytes": {"value": 6e9, "ci95": [5e9, 7e9]},
        "burst_bytes": 6_800_000_000, "precision": 0.01, "refill_ns": 187 * 10**9,
    },
}  # fmt: skip


def burst_run(cause: str = "token_bucket") -> Run:
    run = small(ops=("write",), file_sizes=(1 << 30,), record_sizes=(1 << 20,), command="sustained")
    cached = {
        "network_only_bytes_per_s": 600e6, "cold_bytes_per_s": 250e6, "warm_bytes_per_s": 600e6, "file_bytes": 1 << 26,
        "contrast": 2.4, "separable": True, "reason": None,
    }  # fmt: skip
    part = {"regimes": [], "burst": {**BURST, "cause": cause}, "cached": cached, "working_set": None, "cost": None}
    run.document["sustained"] = part
    sets = WorkingSet(256 << 20, [200 << 20, 300 << 20], 590e6, 31e6, own_memory=False, reason=None, steps=[])
    stages = way.stages({"sustained": {**part, "burst": None, "cached": None, "working_set": plain(sets)}})
    assert stages[1].says[0].startswith("holds a working set of 256 MiB")
    return run


def test_the_way_of_the_data_is_drawn_with_what_was_measured() -> None:
    page = report.render([burst_run()])
    drawing = page.split('<figure class="way"')[1].split("</figure>")[0]
    assert drawing.count("<svg") == 2
    for text in ("600 MB/s", "259 MB/s for 26.4 s", "then 32 MB/s", "credit: 6 GB above", "not measured"):
        assert text in drawing.split('aria-hidden="true"')[0].replace("\xa0", " ") and text in drawing
    network, memory, disks = way.stages(burst_run("write_back_cache").document)
    assert (memory.fast, memory.slow, disks.fast) == (259e6, 32e6, 32e6)
    assert network.says == ["600 MB/s, reads from the server cache"]
    assert 'class="way"' not in report.render([small()])


def test_the_way_of_a_verdict_names_its_limits() -> None:
    limits = [
        {"kind": "link", "value": 118e6, "unit": "bytes_per_s", "applies_to": {"op": "write", "size": "large"}},
        {"kind": "disk", "value": 60e6, "unit": "bytes_per_s", "applies_to": {"op": "read", "size": "large"}},
        {"kind": "protocol", "value": 1.0, "unit": "bytes_per_s", "applies_to": {}},
    ]
    found = way.stages({"verdict": {"limits": limits}})
    assert [stage.says for stage in found] == [["large writes: 118 MB/s"], [], ["large reads: 60 MB/s"]]
    assert way.worth_drawing(found)


def test_the_network_of_jobs_is_drawn_from_what_was_on_the_wire() -> None:
    document, blobs, _ = make_parts(
        ops=("write", "read"), file_sizes=(1 << 30,), record_sizes=(1 << 20,), interval_ns=100_000_000
    )
    sent = {}
    for cell in document["cells"][:2]:
        intervals = len(blobs[cell["id"]]["series"]) // 56
        sent[cell["id"]] = np.arange(1, 2 * intervals + 1, dtype="<i8").reshape(-1, 2) * 1_000_000
        blobs[cell["id"]]["wire_series"] = sent[cell["id"]].tobytes()
    run = Run(document, MemoryBlobs(blobs))  # type: ignore[arg-type]
    steps = [
        SimpleNamespace(job=f"job-{at}", cell=cell["id"], repeat=0, wall_ns=cell["window_ns"])
        for at, cell in enumerate(run.cells[:2])
    ]
    series = [one for cell in run.cells if (one := read_series(run, 0, cell))]
    found = job_network.over_time(run, 0, steps, series)
    assert found is not None
    figure, words = found
    assert [trace["name"] for trace in figure["data"]] == ["Sent", "Received"]
    top = max(rows[:-1, 0].max() if len(rows) > 1 else 0 for rows in sent.values()) / 0.1 / 1e6
    assert max(y for y in figure["data"][0]["y"] if y is not None) == pytest.approx(top, rel=0.1)
    names = [shape["label"]["text"] for shape in figure["layout"]["shapes"] if "label" in shape]
    assert names == ["job-0", "job-1"]
    assert words.startswith("job-0: sent at most") and "not counted" not in words
    for cell in document["cells"][:2]:
        del blobs[cell["id"]]["wire_series"]
    bare = job_network.over_time(Run(document, MemoryBlobs(blobs)), 0, steps, series)  # type: ignore[arg-type]
    assert bare is not None and bare[0]["data"][0]["name"] == "Written" and "not counted" in bare[1]
    assert job_network.over_time(run, 0, steps, []) is None


def foreign_run() -> Run:
    """What a source tells that knows rates only, some with a file size."""
    told: list[dict[str, Any]] = [{"file_bytes": 1 << 30}, {"file_bytes": 2 << 30}, {}, {"workload": HOSTILE}]
    cells = [foreign_cell(at, "read", (50 + at) * 1e6, **each) for at, each in enumerate(told)]
    source = {"kind": "published", "tool": "iozone", "format": "article", "title": HOSTILE, "place": "page 3"}
    return Run(foreign_document("published:x", source, cells, target="an old NAS", protocol="smb"))


def test_a_run_of_a_source_that_tells_little_still_has_its_page() -> None:
    run = foreign_run()
    page = report.render([run])
    text = " ".join(Elements(page).text).replace("\xa0", " ")
    assert "naslab did not measure this; published: iozone" in text and "page 3" in text
    assert "Not reported by the source" in text and "queue depth" in text
    assert "1 Jan 1970" not in text and "no file data" not in text
    drawn = entries(page)["throughput"][0]["figure"]["data"]
    assert [(trace["x"], trace["y"]) for trace in drawn] == [([1 << 30, 2 << 30], [50.0, 51.0])]
    both = entries(report.render([small(ops=("read",)), run]))["throughput"][0]["figure"]
    theirs = [trace for trace in both["data"] if trace["x"] == [1 << 30, 2 << 30]]
    assert theirs and "record" not in theirs[0]["meta"], "shown whichever record size is chosen"
    assert "0" not in [option["value"] for option in both["filter"]["options"]]


def test_the_test_bed_is_a_table_with_a_column_for_each_run() -> None:
    page = report.render([small(label="A", run_id="a"), foreign_run()])
    bed = page.split('<section id="testbed">')[1].split("</section>")[0]
    assert bed.count('<th scope="col">') == 3
    for text in ("smb://tester@nas.example/bench", "SMB 3.1.1, signing aes-gmac", "an old NAS", testbed.UNTOLD):
        assert text in bed
    assert "<script>" not in bed


def test_the_table_has_every_cell_as_columns() -> None:
    runs = [make_run(label="mine", ops=("write",)), load("published:raid5-naspt-4")]
    runs[0].cells[1].update(predicted=True, regime_evidence="because")
    found = json.loads(unpacked(report.render(runs), "charts"))["table"]
    assert [run["name"] for run in found["runs"]] == ["mine", "raid5-naspt-4"]
    columns, own = found["columns"], runs[0].cells
    cells = [*own, *runs[1].cells]
    assert {len(values) for values in columns.values()} == {len(cells)}
    assert columns["run"] == [0] * len(own) + [1] * 12
    assert columns["rate"] == pytest.approx([cell["throughput_bytes_per_s"] / 1e6 for cell in cells], rel=1e-5)
    assert columns["p99"] == [(cell["latency_ns"] or {}).get("p99") for cell in cells]
    assert (columns["test"][0], columns["test"][-1]) == ("Write", runs[1].cells[-1]["workload"])
    assert (columns["status"][:2], columns["why"][1]) == (["complete", "predicted"], "because")
    assert columns["file"][-1] is None, "what a source does not tell stays untold"


# --- Plotly's script -----------------------------------------------------------------------------------------


def test_plotly_starts_with_the_kinds_most_pages_draw_and_keeps_the_others_by_name() -> None:
    script = chart_library.plotly_js()
    listed = re.search(r"\.register\(\[[\w$]+\(\),[\w$]+\(\)\]\),[\w$]+\.kinds=\{([^}]*)\}", script)
    assert listed, "the installed bundle ends in another way: pages start slowly (see chart_library.py)"
    kinds = dict(one.split(":") for one in listed[1].split(","))
    assert {"surface", "box", "contour", "scatter3d"} <= set(kinds) and not {"bar", "heatmap"} & set(kinds)
    assert script.endswith("return Plotly;\n})));")


def test_only_the_list_and_two_parentheses_of_plotly_are_changed() -> None:
    whole = chart_library._packaged()
    before, after = re.split(r"[\w$]+\.register\(\[[^]]*\]\),[\w$]+\.kinds=\{[^}]*\}", chart_library.plotly_js())
    unchanged = whole.startswith(before.replace("(() => {", "() => {")) and whole.endswith(
        after.replace("})));", "}));")
    )
    assert unchanged and len(before) + len(after) > 0.99 * len(whole)


@pytest.mark.parametrize(
    "script", ["", "window.Plotly = {};", "a.register([b(),c()])", "x.register([a()]);y.register([b()])"]
)
def test_a_script_of_another_form_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    monkeypatch.setattr(chart_library, "_packaged", lambda: script)
    assert chart_library.plotly_js() == script
