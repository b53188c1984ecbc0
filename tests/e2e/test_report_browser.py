"""The report in a real browser: numbers, pixels, choosers, keyboard, phone, dark, downloads, silence on the wire."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import statistics
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures_run import make_parts, make_run
from naslab import load, report
from naslab.results import Run
from naslab.results.run import MemoryBlobs

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


Open = Callable[..., Any]


@pytest.fixture
def opened(browser: Any) -> Iterator[Open]:
    """Opens a page; at the end of the test there must have been no error and no request but the file."""
    contexts, complaints, requests = [], [], []

    def start(path: Path, width: int = 1200, height: int = 900, dark: bool = False, **more: Any) -> Any:
        scheme = "dark" if dark else "light"
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, **more)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]", timeout=30_000)
        return page

    yield start
    for context in contexts:
        context.close()
    assert not [text for text in complaints if not any(part in text for part in HARMLESS)]
    assert not [url for url in requests if not url.startswith(("file:", "blob:", "data:"))]


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


def pixels(png: bytes) -> list[tuple[int, int, int]]:
    """Every pixel of an 8-bit RGB or RGBA PNG, without another library."""
    at, data, width, channels = 8, b"", 0, 3
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        body = png[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, channels = struct.unpack(">I", body[:4])[0], {2: 3, 6: 4}[body[9]]
        data += body if kind == b"IDAT" else b""
        at += 12 + length
    raw, stride = zlib.decompress(data), width * channels
    above, found = bytearray(stride), []
    for start in range(0, len(raw), stride + 1):
        row = unfiltered(raw[start], bytearray(raw[start + 1 : start + 1 + stride]), above, channels)
        found += [(row[i], row[i + 1], row[i + 2]) for i in range(0, stride, channels)]
        above = row
    return found


def unfiltered(kind: int, row: bytearray, above: bytearray, step: int) -> bytearray:
    """One PNG row without its filter (PNG specification, section 9)."""
    for i in range(len(row) if kind else 0):
        left, up, corner = (row[i - step] if i >= step else 0), above[i], (above[i - step] if i >= step else 0)
        guess = left + up - corner
        near = min((left, up, corner), key=lambda value: abs(guess - value))
        row[i] = (row[i] + {1: left, 2: up, 3: (left + up) // 2, 4: near}[kind]) & 255
    return row


def shot(page: Any, chart: str) -> list[tuple[int, int, int]]:
    """Pixels of a chart, once WebGL has had time to draw."""
    page.locator(f"#plot-{chart}").scroll_into_view_if_needed()
    page.wait_for_timeout(800)
    return pixels(page.locator(f"#plot-{chart}").screenshot())


def test_charts_hold_the_numbers_of_the_run(opened: Open, sweep: Run, sweep_page: Path) -> None:
    page = opened(sweep_page)
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
    """What `make demo` runs after building: the main job on a real disk, its store, its report."""
    demo = subprocess.run(
        [ROOT / "tools" / "demo"], env={**os.environ, "NASLAB_DEMO": str(tmp_path)}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert f"Open this in a browser: file://{tmp_path}/report.html" in demo.stdout
    assert list((tmp_path / "work").iterdir()) == []
    run = load("last", str(tmp_path / "runs.sqlite"))
    assert run.document["status"] == "complete"
    swept = {(c["op"], c["file_bytes"], c["record_bytes"]) for c in run.cells if c["workload"] is None}
    page = opened(tmp_path / "report.html")
    lines = [trace for trace in drawn(page, "throughput") if trace["mode"] == "lines+markers"]
    shown = {("write", file, t["meta"]["record"]): mb for t in lines for file, mb in zip(t["x"], t["y"], strict=True)}
    assert set(shown) == {spot for spot in swept if spot[0] == "write"}
    for (op, file, record), mb in shown.items():
        assert mb == pytest.approx(median_mb(run, op, file, record), rel=1e-5)
    text = page.locator("body").inner_text().replace("\xa0", " ")
    assert run.document["summary"]
    for sentence in run.document["summary"]:
        assert sentence in text


def test_tabs_and_choosers_switch_what_is_drawn(opened: Open, sweep: Run, sweep_page: Path) -> None:
    page = opened(sweep_page)
    drawn(page, "slices")
    page.get_by_role("tablist", name="Throughput against record size").get_by_role("tab", name="Random read").click()
    page.locator("#slices select").select_option(label="16 MiB")
    line = next(trace for trace in drawn(page, "slices") if trace["mode"] == "lines+markers")
    assert line["y"] == pytest.approx([median_mb(sweep, "random_read", 16 << 20, r) for r in RECORDS], rel=1e-5)
    assert "Random read of a 16\xa0MiB file" in page.locator("#caption-slices").inner_text()
    assert "Random read of a 16\xa0MiB file" in page.locator("#plot-slices").get_attribute("aria-label")


def test_keyboard_reaches_and_works_the_choosers(opened: Open, sweep: Run, sweep_page: Path) -> None:
    page = opened(sweep_page)
    drawn(page, "throughput")
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                "(e => `${e.closest('section')?.id} ${e.getAttribute('role') ?? e.tagName}`)(document.activeElement)"
            )
        )
    for wanted in ("throughput tab", "heat tab", "slices SELECT", "surface BUTTON", "latency SELECT", "data BUTTON"):
        assert wanted in reached
    page.locator("#throughput [role=tab][aria-selected=true]").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.textContent") == "Read"
    line = next(trace for trace in drawn(page, "throughput") if trace["mode"] == "lines+markers")
    assert line["y"][0] == pytest.approx(median_mb(sweep, "read", SIZES[0], RECORDS[0]), rel=1e-5)


@pytest.mark.parametrize("dark", [False, True])
def test_every_chart_draws_pixels_in_light_and_dark(opened: Open, sweep_page: Path, dark: bool) -> None:
    page = opened(sweep_page, dark=dark)
    background = (22, 27, 32) if dark else (255, 255, 255)
    for chart in ("throughput", "heat", "slices", "surface", "latency", "distribution", "series"):
        drawn(page, chart)
        found = shot(page, chart)
        plain = sum(pixel == background for pixel in found)
        assert 0.1 * len(found) < plain < 0.995 * len(found), chart
        assert sum(max(pixel) - min(pixel) > 60 for pixel in found) > 300, f"{chart}: no coloured pixels"


def test_surface_is_drawn_only_near_the_view_and_turns(opened: Open, sweep_page: Path) -> None:
    page = opened(sweep_page)
    assert page.evaluate("document.getElementById('plot-surface').data === undefined")
    drawn(page, "surface")
    before = shot(page, "surface")
    coloured = sum(max(pixel) - min(pixel) > 60 for pixel in before)
    assert coloured > 0.05 * len(before)
    page.get_by_role("button", name="From large sizes").click()
    assert page.get_by_role("button", name="From large sizes").get_attribute("aria-pressed") == "true"
    after = shot(page, "surface")
    assert sum(a != b for a, b in zip(before, after, strict=True)) > 0.05 * len(before)


def test_colours_follow_the_scheme_when_it_changes(opened: Open, sweep_page: Path) -> None:
    page = opened(sweep_page)
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


def test_tree_has_its_latencies_beside_or_below(opened: Open, tmp_path: Path) -> None:
    """Two panels side by side; on a phone one below the other, with names of their own."""
    command = [
        sys.executable,
        "-m",
        "naslab",
        "tree",
        "sim:?latency_ns=1ms",
        "--files",
        "10",
        "--fan-out",
        "2",
        "--cold",
    ]
    words = ["--quiet", "--store", str(tmp_path / "s.sqlite"), "--report", str(tmp_path / "r.html")]
    subprocess.run([*command, *words], check=True, timeout=60, stdin=subprocess.DEVNULL)
    named = "() => [...document.querySelectorAll('#plot-tree text')].filter((one) => one.textContent === 'Stat').length"
    for width, names in ((1200, 1), (390, 2)):
        page = opened(tmp_path / "r.html", width=width)
        traces = drawn(page, "tree")
        assert [trace["name"] for trace in traces if trace["type"] == "bar"] == ["new connection", "warm"]
        assert page.evaluate(named) == names
        boxes = page.evaluate(
            "() => ['xy', 'x2y2'].map((name) => document.querySelector(`#plot-tree .subplot.${name}`).getBBox().y)"
        )
        assert (boxes[1] > boxes[0] + 100) == (width == 390), boxes
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("#tree-table tbody tr").count() == 16


@pytest.mark.parametrize(("width", "dark"), [(1200, True), (390, False)])
def test_applications_stand_beside_the_published_numbers(opened: Open, tmp_path: Path, width: int, dark: bool) -> None:
    """Twelve bars, a dot for each repeat, and below each bar, not on it, the published runs; so do the tables."""
    words = ["apps", "sim:?link_bytes_per_s=118MB&latency_ns=200us", "--scale", "0.005", "--repeat", "2", "--quiet"]
    files = ["--store", str(tmp_path / "s.sqlite"), "--report", str(tmp_path / "r.html")]
    subprocess.run([sys.executable, "-m", "naslab", *words, *files], check=True, timeout=60, stdin=subprocess.DEVNULL)
    page = opened(tmp_path / "r.html", width=width, dark=dark)
    bar, dots, published = drawn(page, "apps")
    assert (len(bar["x"]), len(dots["x"]), len(published["x"])) == (12, 24, 72)
    assert published["x"][:6] == [267.789, 267.789, 80.364, 54.54, 59.134, 274.603]
    where = """selector => [...document.querySelectorAll('#plot-apps ' + selector)].map(
        (one) => one.getBoundingClientRect()).map((box) => [box.top, box.bottom])"""
    bars, points = (
        page.evaluate(where, ".bars .point path"),
        page.evaluate(where, ".scatterlayer .trace:last-child path.point"),
    )
    assert len(bars) == 12 and len(points) == 72
    middles = [(top + bottom) / 2 for top, bottom in points]
    assert not any(top < middle < bottom for top, bottom in bars for middle in middles)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    cells = page.locator("#apps-table table").first.locator("tbody tr")
    assert cells.count() == 12 and "54.54 to 274.6" in cells.first.inner_text()
    assert page.locator("#apps-table tbody tr").count() == 36 and page.locator("#results").count() == 0


def test_table_sorts_and_pages(opened: Open, sweep: Run, sweep_page: Path) -> None:
    page = opened(sweep_page)
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


def test_downloads_hold_everything(opened: Open, sweep: Run, sweep_page: Path) -> None:
    page = opened(sweep_page, accept_downloads=True)
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


def test_several_runs_overlay_with_a_legend(opened: Open, tmp_path: Path) -> None:
    runs = [make_run(label=name, ops=("read",), speed=speed) for name, speed in (("A", 1.0), ("B", 0.5))]
    page = opened(report.write(runs, tmp_path / "m.html"))
    names = {trace["name"] for trace in drawn(page, "throughput") if trace["mode"] == "lines+markers"}
    assert names == {"A, 1 MiB", "B, 1 MiB"}
    assert page.locator("#plot-throughput .legend .traces").count() == 2
    page.locator("#heat select").select_option(label="B")
    heat = drawn(page, "heat")[0]["customdata"]
    assert heat[0][0] == pytest.approx(median_mb(runs[1], "read", 1 << 20, 4096), rel=1e-5)


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


def test_print_draws_every_chart_in_light_colours(opened: Open, sweep_page: Path) -> None:
    page = opened(sweep_page, dark=True)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    backgrounds = page.evaluate("[...document.querySelectorAll('.plot')].map((p) => p.layout?.paper_bgcolor)")
    assert set(backgrounds) == {"#ffffff"}
