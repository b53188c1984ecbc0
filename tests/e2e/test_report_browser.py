"""The report in a real browser: numbers, pixels, choosers, keyboard, phone, dark, downloads, silence on the wire."""

from __future__ import annotations

import base64
import csv
import io
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cli_tools import HANG_S
from fixtures_run import make_parts, make_run
from naslab import load
from naslab.render import report
from naslab.results import Run
from naslab.results.run import MemoryBlobs

pytestmark = pytest.mark.lab

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SIZES, RECORDS = (1 << 20, 16 << 20, 64 << 20, 1 << 30), (4096, 65536, 1 << 20)
QUIET = [
    "--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run", "--no-default-browser-check", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
]  # fmt: skip
HARMLESS = ("Canvas2D: Multiple readback", "GL Driver Message", "GPU stall")
"""Console messages of Chromium about software WebGL and canvas speed."""


def missing(reason: str) -> None:
    """Skips, or fails where the lab is required."""
    if os.environ.get("NASLAB_LAB_REQUIRED") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        missing("no chromium in PATH (Debian: apt install chromium)")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("the Python package playwright is not installed")
    with sync_playwright() as play:
        started = play.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield started
        started.close()


@pytest.fixture(scope="module")
def sweep() -> Run:
    return make_run(ops=("write", "read", "random_read"), file_sizes=SIZES, record_sizes=RECORDS)


@pytest.fixture(scope="module")
def sweep_page(sweep: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return report.write([sweep], tmp_path_factory.mktemp("report") / "sweep.html")


def sustained() -> Run:
    """One size, two tests, 20 s of intervals of 100 ms."""
    document, blobs, _ = make_parts(
        ops=("write", "mixed"), file_sizes=(1 << 30,), record_sizes=(1 << 20,), interval_ns=100_000_000,
        command="sustained",
    )  # fmt: skip
    return Run(document, MemoryBlobs(blobs))  # type: ignore[arg-type]


class Watched:
    """A page in a context of its own, and what it complained of and asked for."""

    def __init__(self, browser: Any, path: Path, width: int = 1200, height: int = 900, dark: bool = False, **more: Any):
        scheme = "dark" if dark else "light"
        self.context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, **more)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-ready]", timeout=30_000)

    def check(self) -> None:
        """There must have been no error and no request but the file."""
        assert not [text for text in self.complaints if not any(part in text for part in HARMLESS)]
        assert not [url for url in self.requests if not url.startswith(("file:", "blob:", "data:"))]


Open = Callable[..., Any]


@pytest.fixture
def opened(browser: Any) -> Iterator[Open]:
    """Opens a page that no other test uses; at its end it must have been silent."""
    watched: list[Watched] = []

    def start(path: Path, **more: Any) -> Any:
        watched.append(Watched(browser, path, **more))
        return watched[-1].page

    yield start
    for one in watched:
        one.context.close()
    for one in watched:
        one.check()


@pytest.fixture(scope="module")
def watched_sweep(browser: Any, sweep_page: Path) -> Iterator[Watched]:
    watched = Watched(browser, sweep_page)
    yield watched
    watched.context.close()


@pytest.fixture
def shared(watched_sweep: Watched) -> Iterator[Any]:
    """The sweep in light colours, opened once for many tests: each finds the choosers as they were at first."""
    page = watched_sweep.page
    page.emulate_media(color_scheme="light")
    page.evaluate(AS_AT_FIRST)
    yield page
    watched_sweep.check()


AS_AT_FIRST = """() => {
    for (const tab of document.querySelectorAll("[role=tab]:first-child[aria-selected=false]")) tab.click();
    for (const name of [...document.querySelectorAll(".figure select")].map((one) => one.closest("section").id)) {
        const list = document.querySelector(`#${name} select`);
        if (!list?.selectedIndex) continue;
        list.selectedIndex = 0;
        list.dispatchEvent(new Event("change"));
    }
    document.activeElement.blur();
    scrollTo(0, 0);
}"""


def resized(page: Any, width: int, chart: str) -> None:
    """The window gets another width; back once a chart was drawn for it."""
    before = page.evaluate("id => document.getElementById(id).layout.width", f"plot-{chart}")
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_function(
        "([id, was]) => document.getElementById(id).layout.width !== was", arg=[f"plot-{chart}", before]
    )


def drawn(page: Any, chart: str) -> list[dict[str, Any]]:
    """The data of a Plotly chart, after scrolling to it."""
    page.locator(f"#plot-{chart}").scroll_into_view_if_needed()
    page.wait_for_function("id => document.getElementById(id)?.data?.length > 0", arg=f"plot-{chart}")
    found: list[dict[str, Any]] = page.evaluate(
        """id => document.getElementById(id).data.map((trace) => ({
            type: trace.type, mode: trace.mode, name: trace.name, meta: trace.meta, x: trace.x, y: trace.y,
            z: trace.z, customdata: trace.customdata, marker: trace.marker, line: trace.line}))""",
        f"plot-{chart}",
    )
    return found


def median_mb(run: Run, op: str, file: int, record: int) -> float:
    wanted = (None, op, file, record)
    found = [c for c in run.cells if (c["workload"], c["op"], c["file_bytes"], c["record_bytes"]) == wanted]
    return statistics.median(c["throughput_bytes_per_s"] / 1e6 for c in found)


DECODE = """async (png) => {
    const bytes = Uint8Array.from(atob(png), (letter) => letter.charCodeAt(0));
    const image = await createImageBitmap(new Blob([bytes], {type: "image/png"}));
    const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
    context.drawImage(image, 0, 0);
    const data = context.getImageData(0, 0, image.width, image.height).data;
    let text = "";
    for (let at = 0; at < data.length; at += 32768) text += String.fromCharCode(...data.subarray(at, at + 32768));
    return btoa(text);
}"""
"""The browser reads a PNG that it made: in Python alone that takes three seconds for each chart."""


def shot(page: Any, chart: str) -> NDArray[np.int16]:
    """Pixels of a chart, (n, 3), red, green and blue, once WebGL has had time to draw."""
    plot = page.locator(f"#plot-{chart}")
    plot.scroll_into_view_if_needed()
    page.wait_for_timeout(800 if plot.locator("canvas").count() else 50)
    found = base64.b64decode(page.evaluate(DECODE, base64.b64encode(plot.screenshot()).decode()))
    return np.frombuffer(found, dtype=np.uint8).reshape(-1, 4)[:, :3].astype(np.int16)


def coloured(found: NDArray[np.int16]) -> int:
    """Pixels that are no shade of grey."""
    return int((found.max(axis=1) - found.min(axis=1) > 60).sum())


def test_charts_hold_the_numbers_of_the_run(shared: Any, sweep: Run) -> None:
    page = shared
    for trace in drawn(page, "throughput"):
        if trace["mode"] == "lines+markers":
            for file, value in zip(trace["x"], trace["y"], strict=True):
                assert value == pytest.approx(median_mb(sweep, "write", file, trace["meta"]["record"]), rel=1e-5)
    expected = [[median_mb(sweep, "write", file, record) for file in SIZES] for record in RECORDS]
    for chart, key in (("heat", "customdata"), ("surface", "z")):
        rows = drawn(page, chart)[0][key]
        assert [list(row) for row in rows] == [pytest.approx(row, rel=1e-5) for row in expected]
    first = next(t for t in drawn(page, "latency") if t["name"] == "p99")
    cells = [c for c in sweep.cells if (c["op"], c["file_bytes"], c["record_bytes"]) == ("write", 1 << 30, 1 << 20)]
    assert first["y"][-1] == pytest.approx(statistics.median(c["latency_ns"]["p99"] for c in cells) / 1e6, rel=1e-5)
    series = drawn(page, "series")
    assert max(series[0]["y"]) > 0


def test_the_demo_report_holds_the_numbers_of_its_run(opened: Open, tmp_path: Path) -> None:
    """What `make demo` runs after building, in less time: the main job on a real disk, its store, its report."""
    demo = subprocess.run(
        [ROOT / "tools" / "demo", "--budget", "20s"], capture_output=True, text=True, check=True,
        env={**os.environ, "NASLAB_DEMO": str(tmp_path)},
    )  # fmt: skip
    assert f"Open this in a browser: file://{tmp_path}/report.html" in demo.stdout
    assert list((tmp_path / "work").iterdir()) == []
    run = load("last", str(tmp_path / "runs.sqlite"))
    assert run.document["status"] == "complete"
    swept = {(c["op"], c["file_bytes"], c["record_bytes"]) for c in run.cells if c["workload"] is None}
    page = opened(tmp_path / "report.html")
    lines = [trace for trace in drawn(page, "throughput") if trace["mode"] == "lines+markers"]
    shown = {("write", file, t["meta"]["record"]): mb for t in lines for file, mb in zip(t["x"], t["y"], strict=True)}
    written = {spot for spot in swept if spot[0] == "write"}
    curves = len({file for _, file, _ in written}) > 1  # on a busy machine the budget is spent before the second size
    assert set(shown) == written if curves else shown.keys().isdisjoint(written)
    for (op, file, record), mb in shown.items():
        rates = [c["throughput_bytes_per_s"] / 1e6 for c in run.cells
                 if (c["op"], c["file_bytes"], c["record_bytes"], c["workload"] is None) == (op, file, record, curves)
                 and c["workload"] != "ladder"]  # fmt: skip
        assert mb == pytest.approx(statistics.median(rates), rel=1e-5)
    text = page.locator("body").inner_text().replace("\xa0", " ")
    # The page has the verdict as a list with its evidence, the terminal as sentences.
    limits = run.document["verdict"]["limits"]
    assert limits
    for told in [limit["evidence"] for limit in limits] + [s for s in run.document["summary"] if "limited by" not in s]:
        assert told.replace("\xa0", " ") in text


def test_tabs_and_choosers_switch_what_is_drawn(shared: Any, sweep: Run) -> None:
    page = shared
    drawn(page, "slices")
    page.get_by_role("tablist", name="Throughput against record size").get_by_role("tab", name="Random read").click()
    page.locator("#slices select").select_option(label="16 MiB")
    line = next(trace for trace in drawn(page, "slices") if trace["mode"] == "lines+markers")
    assert line["y"] == pytest.approx([median_mb(sweep, "random_read", 16 << 20, r) for r in RECORDS], rel=1e-5)
    assert "Random read of a 16\xa0MiB file" in page.locator("#caption-slices").inner_text()
    assert "Random read of a 16\xa0MiB file" in page.locator("#plot-slices").get_attribute("aria-label")


FOCUSED = "(e => `${e.closest('section')?.id} ${e.getAttribute('role') ?? e.tagName}`)(document.activeElement)"


def test_keyboard_reaches_and_works_the_choosers(shared: Any, sweep: Run) -> None:
    page = shared
    drawn(page, "throughput")
    page.locator(".skip").focus()
    reached: list[str] = []
    while "data BUTTON" not in reached and len(reached) < 200:
        page.keyboard.press("Tab")
        reached.append(page.evaluate(FOCUSED))
    wanted = {"throughput tab", "heat tab", "slices SELECT", "surface BUTTON", "latency SELECT", "data BUTTON"}
    assert wanted <= set(reached)
    page.locator("#throughput [role=tab][aria-selected=true]").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.textContent") == "Read"
    line = next(trace for trace in drawn(page, "throughput") if trace["mode"] == "lines+markers")
    assert line["y"][0] == pytest.approx(median_mb(sweep, "read", SIZES[0], RECORDS[0]), rel=1e-5)


@pytest.mark.parametrize("dark", [False, True])
def test_every_chart_draws_pixels_in_light_and_dark(shared: Any, dark: bool) -> None:
    page = shared
    page.emulate_media(color_scheme="dark" if dark else "light")
    background = (22, 27, 32) if dark else (255, 255, 255)
    for chart in ("throughput", "heat", "slices", "surface", "latency", "distribution", "series"):
        drawn(page, chart)
        found = shot(page, chart)
        plain = (found == background).all(axis=1).sum()
        assert 0.1 * len(found) < plain < 0.995 * len(found), chart
        assert coloured(found) > 300, f"{chart}: no coloured pixels"


def test_the_surface_turns(shared: Any) -> None:
    page = shared
    drawn(page, "surface")
    before = shot(page, "surface")
    assert coloured(before) > 0.05 * len(before)
    page.get_by_role("button", name="From large sizes").first.click()
    assert page.get_by_role("button", name="From large sizes").get_attribute("aria-pressed") == "true"
    after = shot(page, "surface")
    assert before.shape == after.shape
    assert (before != after).any(axis=1).sum() > 0.05 * len(before)


def test_colours_follow_the_scheme_when_it_changes(shared: Any) -> None:
    page = shared
    light = next(t for t in drawn(page, "throughput") if t["mode"] == "lines+markers")["line"]["color"]
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(
        "color => document.getElementById('plot-throughput').data.every((t) => t.line?.color !== color)", arg=light
    )
    assert page.evaluate("document.getElementById('plot-throughput').layout.paper_bgcolor") == "#161b20"


def test_phone_has_no_sideways_scroll(opened: Open, sweep_page: Path) -> None:
    page = opened(sweep_page, width=390, height=844, has_touch=True, is_mobile=True)
    for chart in ("throughput", "heat", "slices", "surface", "latency", "distribution", "series"):
        drawn(page, chart)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("[...document.querySelectorAll('.plot')].every((p) => p.getBoundingClientRect().right <= 390)")


def measured(folder: Path, *words: str) -> None:
    """Carries out a command of naslab; its page is `r.html` in the folder."""
    files = ["--quiet", "--store", str(folder / "s.sqlite"), "-o", str(folder / "r.html")]
    command = [sys.executable, "-m", "naslab", *words, *files]
    subprocess.run(command, check=True, timeout=HANG_S, stdin=subprocess.DEVNULL)


def test_tree_has_its_latencies_beside_or_below(opened: Open, tmp_path: Path) -> None:
    """Two panels side by side; on a phone one below the other, with names of their own."""
    measured(tmp_path, "tree", "sim:?latency_ns=1ms", "--files", "10", "--fan-out", "2", "--cold")
    named = "() => [...document.querySelectorAll('#plot-tree text')].filter((one) => one.textContent === 'Stat').length"
    page = opened(tmp_path / "r.html")
    traces = drawn(page, "tree")
    assert [trace["name"] for trace in traces if trace["type"] == "bar"] == ["new connection", "warm"]
    for width, names in ((1200, 1), (390, 2)):
        if width != 1200:
            resized(page, width, "tree")
        assert page.evaluate(named) == names
        boxes = page.evaluate(
            "() => ['xy', 'x2y2'].map((name) => document.querySelector(`#plot-tree .subplot.${name}`).getBBox().y)"
        )
        assert (boxes[1] > boxes[0] + 100) == (width == 390), boxes
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("#tree-table tbody tr").count() == 16


def test_applications_stand_beside_the_published_numbers(opened: Open, tmp_path: Path) -> None:
    """Twelve bars, a dot for each repeat, and below each bar, not on it, the published runs; so do the tables."""
    target = "sim:?link_bytes_per_s=118MB&latency_ns=200us"
    measured(tmp_path, "apps", target, "--scale", "0.005", "--repeat", "2")
    page = opened(tmp_path / "r.html", dark=True)
    bar, dots, published = drawn(page, "apps")
    assert (len(bar["x"]), len(dots["x"]), len(published["x"])) == (12, 24, 72)
    assert published["x"][:6] == [267.789, 267.789, 80.364, 54.54, 59.134, 274.603]
    where = """selector => [...document.querySelectorAll('#plot-apps ' + selector)].map(
        (one) => one.getBoundingClientRect()).map((box) => [box.top, box.bottom])"""
    for width in (1200, 390):
        if width != 1200:
            page.emulate_media(color_scheme="light")
            resized(page, width, "apps")
        bars = page.evaluate(where, ".bars .point path")
        points = page.evaluate(where, ".scatterlayer .trace:last-child path.point")
        assert len(bars) == 12 and len(points) == 72
        middles = [(top + bottom) / 2 for top, bottom in points]
        assert not any(top < middle < bottom for top, bottom in bars for middle in middles)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    cells = page.locator("#apps-table table").first.locator("tbody tr")
    assert cells.count() == 12 and "54.54 to 274.6" in cells.first.inner_text()
    assert page.locator("#apps-table tbody tr").count() == 36 and page.locator("#results").count() == 0


def test_table_sorts_and_pages(shared: Any, sweep: Run) -> None:
    page = shared
    assert page.locator("#cells tbody tr").count() == 50
    page.locator("#cells").get_by_role("button", name="MB/s").click()
    page.locator("#cells").get_by_role("button", name="MB/s").click()
    assert page.locator("#cells th[aria-sort=descending]").inner_text().startswith("MB/s")
    best = max(cell["throughput_bytes_per_s"] for cell in sweep.cells) / 1e6
    assert float(page.locator("#cells tbody tr").first.locator("td").nth(6).inner_text()) == pytest.approx(
        best, rel=5e-3
    )
    page.get_by_role("button", name="Last").click()
    assert page.locator("#pager").inner_text().endswith(f"of {len(sweep.cells)} cells")


def downloaded(page: Any, kind: str) -> str:
    with page.expect_download() as found:
        page.locator(f"[data-download={kind}]").click()
    return Path(found.value.path()).read_text(encoding="utf-8")


def test_downloads_hold_everything(shared: Any, sweep: Run) -> None:
    page = shared
    assert json.loads(downloaded(page, "json")) == sweep.document
    rows = list(csv.DictReader(io.StringIO(downloaded(page, "csv"))))
    columns = sweep.columns()
    assert list(rows[0]) == list(columns)
    for name in ("cell", "bytes", "latency_ns_p99", "start_wall_ns"):
        assert [int(row[name]) for row in rows] == columns[name]
    series = list(csv.DictReader(io.StringIO(downloaded(page, "series"))))
    expected = [row for cell in sweep.cells for row in sweep.series(cell)]
    assert len(series) == len(expected)
    for name in ("read_bytes", "write_ops", "write_bytes", "max_latency_ns"):
        assert [int(row[name]) for row in series] == [int(row[name]) for row in expected]


def test_sustained_run_shows_bars_latency_and_series(opened: Open, tmp_path: Path) -> None:
    run = sustained()
    page = opened(report.write([run], tmp_path / "s.html"))
    bars = drawn(page, "tests")[0]
    assert bars["x"] == pytest.approx([median_mb(run, op, 1 << 30, 1 << 20) for op in ("write", "mixed")], rel=1e-5)
    assert {trace["name"] for trace in drawn(page, "latency-tests")} == {"p50", "p90", "p99", "p99.9", "max"}
    line = drawn(page, "series")[0]
    rows = run.series(run.cells[0])
    assert max(line["y"]) == pytest.approx(max(rows["write_bytes"]) / 0.1 / 1e6, rel=1e-4)
    assert page.locator("#heat, #surface, #throughput").count() == 0


def test_hostile_names_stay_text_in_the_browser(opened: Open, tmp_path: Path) -> None:
    document, blobs, _ = make_parts(
        ops=("read",), label='<img src=x onerror="window.hit=1"><a href="http://x.example">y</a>'
    )
    for cell in document["cells"]:
        cell["workload"] = '</script><script>window.hit=1</script><b onclick="window.hit=1">'
    runs = [Run(document, MemoryBlobs(blobs)), make_run(ops=("read",))]  # type: ignore[arg-type]
    page = opened(report.write(runs, tmp_path / "h.html"))
    for chart in ("throughput", "heat", "series"):
        drawn(page, chart)
    assert page.evaluate("window.hit === undefined")
    assert page.locator("main img, main a[href^='http'], svg a").count() == 0


@pytest.mark.parametrize("ops", [(), ("read",)])
def test_empty_and_failed_runs_still_open(opened: Open, tmp_path: Path, ops: tuple[str, ...]) -> None:
    run = make_run(ops=ops, status="failed")
    for cell in run.cells:
        cell.update(status="failed", ops=0, throughput_bytes_per_s=0.0, iops=0.0)
    page = opened(report.write([run], tmp_path / "e.html"))
    assert "nothing was measured" in page.locator(".summary").inner_text()
    assert page.locator(".plot").count() == 0


# --- zoom, selection, lines, scales --------------------------------------------------------------------------


def corners(page: Any, chart: str) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of a chart's drawing area on the screen."""
    box = page.evaluate(
        """id => {
            const box = document.querySelector(`#plot-${id} .nsewdrag`).getBoundingClientRect();
            return [box.left, box.top, box.right, box.bottom];
        }""",
        chart,
    )
    return tuple(box)  # type: ignore[return-value]


def test_dragging_zooms_in_and_a_double_click_out_again(shared: Any) -> None:
    page = shared
    drawn(page, "throughput")
    span = "() => document.getElementById('plot-throughput')._fullLayout.xaxis.range"
    whole = page.evaluate(span)
    left, top, right, bottom = corners(page, "throughput")
    a, b = left + 0.25 * (right - left), left + 0.75 * (right - left)
    page.mouse.move(a, top + 0.2 * (bottom - top))
    page.mouse.down()
    page.mouse.move(b, top + 0.8 * (bottom - top), steps=5)
    page.mouse.up()
    page.wait_for_function(f"whole => ({span})()[0] > whole[0]", arg=whole)
    expected = [whole[0] + part * (whole[1] - whole[0]) for part in (0.25, 0.75)]
    assert page.evaluate(span) == pytest.approx(expected, abs=0.02)
    page.mouse.dblclick((left + right) / 2, (top + bottom) / 2)
    page.wait_for_function(f"whole => Math.abs(({span})()[0] - whole[0]) < 1e-6", arg=whole)


def test_the_legend_hides_and_singles_out_lines(shared: Any) -> None:
    page = shared
    drawn(page, "throughput")
    visible = """() => [...new Set(document.getElementById('plot-throughput')._fullData
        .filter((t) => t.visible === true).map((t) => t.name))]"""
    assert page.evaluate(visible) == ["4 KiB", "64 KiB", "1 MiB"]
    page.locator("#plot-throughput .legendtoggle").first.click()
    page.wait_for_function(f"() => ({visible})().length === 2")
    before = shot(page, "throughput")
    page.locator("#plot-throughput .legendtoggle").first.click()
    page.wait_for_function(f"() => ({visible})().length === 3")
    assert coloured(shot(page, "throughput")) > coloured(before)


def test_lines_asked_for_are_seen_on_both_scales(opened: Open, sweep: Run, tmp_path: Path) -> None:
    asked = report.Drawing((("raw network, 3,000 MB/s", 3e9),), 4e9)
    page = opened(report.write([sweep], tmp_path / "lines.html", asked))
    drawn(page, "throughput")
    red = (179, 38, 30)
    places = []
    for scale in ("Logarithmic", "Linear"):
        page.locator("#throughput").get_by_role("button", name=scale).click()
        assert page.evaluate("document.getElementById('plot-throughput')._fullLayout.yaxis.range[1]") == pytest.approx(
            math.log10(4000) if scale == "Logarithmic" else 4000
        )
        assert (
            page.locator("#plot-throughput .shapelayer text").all_text_contents().count("raw network, 3,000 MB/s") == 1
        )
        found = shot(page, "throughput")
        assert (np.abs(found - red).max(axis=1) < 8).sum() > 300, f"{scale}: no line"
        box = page.locator("#plot-throughput .shapelayer path").last.bounding_box()
        _, top, _, bottom = corners(page, "throughput")
        places.append((bottom - box["y"]) / (bottom - top))
    low = page.evaluate("document.getElementById('plot-throughput').layout.shapes.at(-1).y0")
    assert low == 3000 and places[1] == pytest.approx(0.75, abs=0.02) and places[0] > 0.9


def test_two_runs_overlay_and_their_differences_hold_the_ratios(opened: Open, tmp_path: Path) -> None:
    runs = [make_run(label=name, run_id=name, ops=("read",), speed=speed) for name, speed in (("A", 1.0), ("B", 0.5))]
    page = opened(report.write(runs, tmp_path / "two.html"))
    names = {trace["name"] for trace in drawn(page, "throughput") if trace["mode"] == "lines+markers"}
    assert names == {"A, 1 MiB", "B, 1 MiB"}
    assert page.locator("#plot-throughput .legend .traces").count() == 2
    page.locator("#heat select").select_option(label="B")
    heat = drawn(page, "heat")[0]["customdata"]
    assert heat[0][0] == pytest.approx(median_mb(runs[1], "read", 1 << 20, 4096), rel=1e-5)
    spot = (int(runs[0].cells[0]["file_bytes"]), int(runs[0].cells[0]["record_bytes"]))
    ratio = median_mb(runs[1], "read", *spot) / median_mb(runs[0], "read", *spot)
    assert drawn(page, "difference-3d")[0]["z"][0][0] == pytest.approx(ratio, rel=1e-4)
    assert 2 ** drawn(page, "difference")[0]["z"][0][0] == pytest.approx(ratio, rel=1e-4)
    for chart in ("difference", "difference-3d"):
        assert coloured(shot(page, chart)) > 300, chart


# --- everybody can read it -----------------------------------------------------------------------------------


def serious(page: Any) -> list[str]:
    """What axe finds that keeps people out: its serious and critical findings."""
    try:
        from axe_playwright_python.sync_playwright import Axe
    except ImportError:
        missing("the Python package axe-playwright-python is not installed")
    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['target']}" for one in found if one["impact"] in ("serious", "critical")]


def test_axe_finds_nothing_serious(opened: Open, tmp_path: Path) -> None:
    """Two runs with every chart of a sweep, and a burst with its drawing, series and tables, in both colours."""
    sweep = make_run(ops=("read",), file_sizes=SIZES[:2], record_sizes=RECORDS[:2])
    burst = sustained()
    burst.document["sustained"] = {  # type: ignore[typeddict-item]
        "regimes": [], "burst": None, "cost": None, "working_set": None,
        "cached": {
            "file_bytes": 1 << 28, "cold_bytes_per_s": 2e8, "warm_bytes_per_s": 6e8, "contrast": 3.0,
            "separable": True, "reason": None, "network_only_bytes_per_s": 6e8,
        },
    }  # fmt: skip
    sweep.document["warnings"].append({"kind": "x", "message": "The server was busy.", "cell": None})
    page = opened(report.write([sweep, burst], tmp_path / "axe.html"))
    for chart in page.evaluate("[...document.querySelectorAll('section.figure')].map((one) => one.id)"):
        drawn(page, chart)
    assert page.locator(".way svg:visible").count() == 1
    assert serious(page) == []
    page.emulate_media(color_scheme="dark")
    resized(page, 390, "throughput")
    assert serious(page) == []
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=\"data:,\"><button></button>')")
    assert serious(page), "axe sees what is wrong"


def test_the_page_prints_to_pdf(opened: Open, sweep_page: Path, tmp_path: Path) -> None:
    """Every chart drawn, at a width that fits the paper, in light colours even where the screen is dark."""
    page = opened(sweep_page, dark=True)
    assert page.evaluate("document.getElementById('plot-surface').data === undefined"), (
        "drawn before it is near the view"
    )
    page.evaluate(
        """() => addEventListener('beforeprint', () => {
            window.printed = [...document.querySelectorAll('.plot')].map((one) => [
                one.layout?.width, one.layout?.paper_bgcolor, one.querySelectorAll('.main-svg, canvas').length]);
        })"""
    )
    target = tmp_path / "page.pdf"
    page.pdf(path=target, format="A4", print_background=True)
    printed = page.evaluate("window.printed")
    assert len(printed) >= 7
    assert all(width <= 688 and colour == "#ffffff" and parts > 0 for width, colour, parts in printed)
    data = target.read_bytes()
    pages = len(re.findall(rb"/Type\s*/Page\b", data))
    assert data.startswith(b"%PDF") and 4 <= pages <= 20 and len(data) > 100_000
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 688, "height": 1000})
    assert page.evaluate("document.documentElement.scrollWidth") <= 688
