"""The library in a real browser, served by the real command and opened from files: numbers, filters, live, silence."""

from __future__ import annotations

import http.client
import math
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli_tools import HANG_S
from e2e.test_report_browser import HARMLESS, QUIET, coloured, corners, drawn, missing, serious, shot
from fixtures_run import make_parts
from naslab.render.web.site import Chosen, write_site
from naslab.results import Run
from naslab.results.store import Store
from naslab.results.store.underway import UnderWay

pytestmark = pytest.mark.lab

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SIZES, RECORDS = (1 << 20, 16 << 20, 64 << 20), (65536, 1 << 20)
LIVE = "20261120-200000-live"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        missing("no chromium in PATH (Debian: apt install chromium)")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("the Python package playwright is not installed")
    with sync_playwright() as play:
        # Pages put together without the graphics process take a third less time; WebGL stays where it is.
        started = play.chromium.launch(executable_path=CHROMIUM, args=[*QUIET, "--disable-gpu-compositing"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Three devices: B as fast as A within what repeats tell, C slower; and 60 runs of others for the pages."""
    made = Store(tmp_path_factory.mktemp("library") / "runs.sqlite")
    for number, (device, speed, seed) in enumerate((("A", 1.0, 1), ("B", 1.0, 2), ("C", 0.5, 3))):
        document, blobs, spec = make_parts(
            ops=("write", "read"), file_sizes=SIZES, record_sizes=RECORDS, blocks=5, seed=seed, speed=speed,
            run_id=f"20261120-19000{number}-dev{device.lower()}", label=f"device={device}",
            start_wall_ns=1_795_201_000_000_000_000 + number * 10**9,
        )  # fmt: skip
        document["labels"] = {"device": device}
        made.save(document, blobs, spec)
    small, blobs, _ = make_parts(ops=("mixed",), file_sizes=(1 << 20,), record_sizes=(65536,), blocks=1)
    for number in range(60):
        made.save({**small, "run_id": f"20261119-1000{number:02}-many", "label": f"old {number}",
                   "labels": {"device": f"old NAS {number % 2}"}}, blobs)  # fmt: skip
    return made


@pytest.fixture(scope="module")
def address(store: Store) -> Iterator[str]:
    """`naslab serve` on a free port."""
    command = [sys.executable, "-m", "naslab", "serve", "--listen", "127.0.0.1:0", "--store", str(store.path)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    line = server.stdout.readline()
    assert line.startswith("Library: http://127.0.0.1:")
    yield line.removeprefix("Library: ").strip()
    server.terminate()
    assert server.wait(10) is not None
    server.stdout.close()


Open = Callable[..., Any]
ASKED = (*HARMLESS, "status of 401", "status of 403", "[DOM] Password forms should have")
"""What Chromium says of every login form and of the answers before it."""


@pytest.fixture(scope="module")
def windows(browser: Any) -> dict[str, Any]:
    """A wide and bright window, and a phone in the dark; each keeps the scripts it has loaded."""
    phone = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "has_touch": True, "is_mobile": True}
    made = {"wide": browser.new_context(viewport={"width": 1200, "height": 900}), "phone": browser.new_context(**phone)}
    for context in made.values():
        context.add_init_script(
            "addEventListener('securitypolicyviolation', (e) => console.error(`CSP ${e.blockedURI}`))"
        )
    return made


@pytest.fixture
def opened(windows: dict[str, Any]) -> Iterator[Open]:
    """Opens a page; at the end nothing may have been complained about or loaded from elsewhere."""
    pages, complaints, requests = [], [], []

    def start(url: str, window: str = "wide", ready: str = "html[data-ready]") -> Any:
        page = windows[window].new_page()
        pages.append(page)
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("request", lambda asked: requests.append(asked.url))
        page.goto(url)
        page.wait_for_selector(ready, timeout=30_000)
        return page

    yield start
    for page in pages:
        page.close()
    assert not [text for text in complaints if not any(part in text for part in ASKED)]
    assert not [url for url in requests if not url.startswith(("file:", "blob:", "data:", "http://127.0.0.1:"))]


def median_mb(run: Run, op: str, file: int, record: int, field: str = "throughput_bytes_per_s") -> float:
    found = [c for c in run.cells if (c["op"], c["file_bytes"], c["record_bytes"]) == (op, file, record)]
    return statistics.median(cell[field] for cell in found) / 1e6  # type: ignore[literal-required]


def check_lines(page: Any, chart: str, runs: dict[str, Run], op: str, field: str = "throughput_bytes_per_s") -> None:
    """Every drawn line holds the medians of its run; rates in MB/s, operations as they are."""
    lines = [trace for trace in drawn(page, chart) if trace["mode"] == "lines+markers"]
    assert {trace["meta"]["run"] for trace in lines} == set(runs)
    scale = 1.0 if field == "throughput_bytes_per_s" else 1e6
    for trace in lines:
        run = runs[trace["meta"]["run"]]
        expected = [scale * median_mb(run, op, file, trace["meta"]["record"], field) for file in trace["x"]]
        assert trace["y"] == pytest.approx(expected, rel=1e-5)


def check_zoom_and_legend(page: Any, chart: str) -> None:
    """Dragging narrows the axis to what was dragged over; the legend takes lines out and back."""
    span = f"() => document.getElementById('plot-{chart}')._fullLayout.xaxis.range"
    page.locator(f"#plot-{chart}").scroll_into_view_if_needed()
    whole = page.evaluate(span)
    left, top, right, bottom = corners(page, chart)
    page.mouse.move(left + 0.25 * (right - left), top + 0.2 * (bottom - top))
    page.mouse.down()
    page.mouse.move(left + 0.75 * (right - left), top + 0.8 * (bottom - top), steps=5)
    page.mouse.up()
    page.wait_for_function(f"whole => ({span})()[0] > whole[0]", arg=whole)
    expected = [whole[0] + part * (whole[1] - whole[0]) for part in (0.25, 0.75)]
    assert page.evaluate(span) == pytest.approx(expected, abs=0.02)
    page.mouse.dblclick((left + right) / 2, (top + bottom) / 2)
    page.wait_for_function(f"whole => Math.abs(({span})()[0] - whole[0]) < 1e-6", arg=whole)
    visible = f"""() => document.getElementById('plot-{chart}')._fullData.filter((t) => t.visible === true).length"""
    before = page.evaluate(visible)
    page.locator(f"#plot-{chart} .legendtoggle").first.click()
    page.wait_for_function(f"before => ({visible})() < before", arg=before)
    page.locator(f"#plot-{chart} .legendtoggle").first.click()
    page.wait_for_function(f"before => ({visible})() === before", arg=before)


def devices_of(store: Store) -> dict[str, Run]:
    return {f"device={name}": store.load(f"20261120-19000{number}") for number, name in enumerate("ABC")}


def test_the_list_is_searched_filtered_and_paged(opened: Open, address: str) -> None:
    page = opened(address)
    assert page.locator("#found").inner_text() == "63 runs in this library"
    assert page.locator("#runs tbody tr").count() == 50
    assert serious(page) == []
    page.get_by_role("link", name="Next").click()
    page.wait_for_selector("text=page 2 of 2")
    assert page.locator("#runs tbody tr").count() == 13
    page.get_by_label("Search").fill("old 17")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=1 run found")
    page.get_by_role("link", name="Show all").click()
    page.locator("select[name=device]").select_option("A")
    page.wait_for_selector("text=1 run found")
    assert "20261120-190000-deva" in page.locator("#runs tbody").inner_text()


def test_chosen_runs_are_overlaid_zoomed_and_compared(opened: Open, address: str, store: Store) -> None:
    page = opened(f"{address}?text=20261120-19000")
    for box in page.locator("#runs input[type=checkbox]").all():
        box.focus()
        page.keyboard.press("Space")
    page.get_by_role("button", name="Overlay").click()
    page.wait_for_selector("#plot-overlay-rate")
    runs = devices_of(store)
    check_lines(page, "overlay-rate", runs, "write")
    page.get_by_role("tab", name="Read", exact=True).first.click()
    check_lines(page, "overlay-rate", runs, "read")
    assert coloured(shot(page, "overlay-rate")) > 300
    check_zoom_and_legend(page, "overlay-rate")
    page.get_by_label("Latency, p99").check()
    page.get_by_label("Operations per second").check()
    page.get_by_role("button", name="Draw").click()
    page.wait_for_selector("#plot-overlay-p99")
    check_lines(page, "overlay-ops", runs, "write", "iops")
    line = next(trace for trace in drawn(page, "overlay-p99") if trace["meta"]["run"] == "device=A")
    cells = [c for c in runs["device=A"].cells if (c["op"], c["file_bytes"], c["record_bytes"])
             == ("write", SIZES[0], line["meta"]["record"])]  # fmt: skip
    expected = statistics.median(cell["latency_ns"]["p99"] for cell in cells) / 1e6
    assert line["y"][0] == pytest.approx(expected, rel=1e-5)
    assert serious(page) == []
    page.get_by_role("link", name="Compare these").click()
    page.wait_for_selector(".verdict")
    text = page.locator("main").inner_text()
    assert "device=A: 20261120-190000-deva (baseline)" in text and "equivalent" in text and "worse" in text
    check_difference(page, runs)
    assert coloured(shot(page, "difference")) > 300
    assert serious(page) == []


def check_difference(page: Any, runs: dict[str, Run]) -> None:
    """The comparison's pictures: about half as fast at every size, as C was made."""
    assert all(0.9 < value < 1.1 for value in drawn(page, "ratios")[0]["x"] if value)
    page.get_by_role("tablist", name="Where they differ").first.get_by_role("tab", name="device=C").click()
    map_ = drawn(page, "difference")[0]
    for record, row in zip(sorted(RECORDS), map_["z"], strict=True):
        one, other = (
            [median_mb(runs[name], "write", file, record) for file in SIZES] for name in ("device=A", "device=C")
        )
        assert [2**value for value in row] == pytest.approx([b / a for a, b in zip(one, other, strict=True)], rel=0.03)


def test_a_device_without_the_test_is_said_and_single_sizes_are_bars(opened: Open, address: str, store: Store) -> None:
    page = opened(f"{address}overlay/?device=old+NAS+0&device=old+NAS+1&device=A&test=mixed")
    assert "Left out, without a run of the test Mixed" in page.locator(".leftout").inner_text()
    runs = [store.load(f"20261119-1000{number}") for number in (58, 59)]
    bars = [trace for trace in drawn(page, "overlay-tests") if trace["type"] == "bar"]
    assert [trace["meta"]["run"] for trace in bars] == ["old 58", "old 59"] or len(bars) == 2
    for trace, run in zip(bars, runs, strict=True):
        values = [value for axis in ("x", "y") for value in trace[axis] if isinstance(value, int | float)]
        assert values == pytest.approx([median_mb(run, "mixed", 1 << 20, 65536)], rel=1e-5)
    assert coloured(shot(page, "overlay-tests")) > 300
    page.locator(".leftout").get_by_role("link", name="Read").click()
    page.wait_for_selector("#plot-overlay-rate")
    check_lines(page, "overlay-rate", {"device=A": store.load("20261120-190000")}, "read")


def test_the_ranking_shares_ranks(opened: Open, address: str, store: Store) -> None:
    page = opened(f"{address}rank/?test=read&test=write&device=A&device=B&device=C")
    for table in page.locator(".ranking table").all():
        rows = [row.split("\t") for row in table.locator("tbody").inner_text().splitlines()]
        assert {row[1]: row[0] for row in rows} == {"A": "1 to 2", "B": "1 to 2", "C": "3"}
    (trace,) = drawn(page, "ranking")
    runs = {name.removeprefix("device="): run for name, run in devices_of(store).items()}
    for name, value in zip(trace["y"], trace["x"], strict=True):
        rates = [cell["throughput_bytes_per_s"] for cell in runs[name].cells if cell["op"] == "read"]
        assert value == pytest.approx(math.exp(statistics.fmean(map(math.log, rates))) / 1e6, rel=1e-5)
    shown = page.locator(".ranking table").nth(1).locator("tbody tr").last.inner_text()
    assert f"{trace['x'][-1]:.3g} MB/s" in shown.replace("\xa0", " ")
    assert coloured(shot(page, "ranking")) > 50
    assert serious(page) == []
    page.locator("select[name=measure]").select_option("p99")
    page.get_by_role("button", name="Rank").click()
    page.wait_for_function("() => location.search.includes('measure=p99')")
    (trace,) = drawn(page, "ranking")
    assert len(trace["x"]) == 3 and trace["x"] == sorted(trace["x"])


def test_a_run_has_a_permanent_page_with_every_chart_and_downloads(opened: Open, address: str, store: Store) -> None:
    page = opened(f"{address}run/20261120-190000-deva/")
    run = store.load("20261120-190000-deva")
    for trace in drawn(page, "throughput"):
        if trace["mode"] == "lines+markers":
            expected = [median_mb(run, "write", file, trace["meta"]["record"]) for file in trace["x"]]
            assert trace["y"] == pytest.approx(expected, rel=1e-5)
    table = [[median_mb(run, "write", file, record) for file in SIZES] for record in RECORDS]
    for chart, key in (("heat", "customdata"), ("surface", "z")):
        rows = drawn(page, chart)[0][key]
        assert [list(row) for row in rows] == [pytest.approx(row, rel=1e-5) for row in table]
    (slice_,) = [trace for trace in drawn(page, "slices") if trace["mode"] == "lines+markers"][:1]
    assert len(slice_["y"]) == len(RECORDS) and max(drawn(page, "distribution")[0]["y"]) > 0
    p99 = next(trace for trace in drawn(page, "latency") if trace["name"] == "p99")
    cells = [c for c in run.cells if (c["op"], c["file_bytes"], c["record_bytes"]) == ("write", SIZES[-1], RECORDS[-1])]
    assert p99["y"][-1] == pytest.approx(statistics.median(c["latency_ns"]["p99"] for c in cells) / 1e6, rel=1e-5)
    for chart in ("heat", "surface"):
        assert coloured(shot(page, chart)) > 300, chart
    assert page.locator("#cells tbody tr").count() == 50
    for kind, least in (("JSON", 10_000), ("CSV", 5_000), ("XLSX", 5_000)):
        with page.expect_download() as found:
            page.get_by_role("link", name=f"Download {kind}").click()
        assert Path(found.value.path()).stat().st_size > least
        assert found.value.suggested_filename == f"naslab-20261120-190000-deva.{kind.lower()}"
    assert serious(page) == []


def test_a_running_test_is_watched_within_a_cell_and_to_its_end(opened: Open, address: str, store: Store) -> None:
    document, blobs, _ = make_parts(ops=("write",), file_sizes=SIZES, record_sizes=(65536,), blocks=1, run_id=LIVE)
    writer = Store(store.path)
    writer.create_run({**document, "cells": [], "warnings": [], "status": "running", "labels": {"device": "now"}})
    clock = [10**9]
    under_way = UnderWay(store.path, LIVE, lambda: clock[0])
    page = opened(address)
    page.get_by_role("link", name="now").click()
    page.wait_for_selector("html[data-ready]")
    under_way.before({"id": 0, "op": "write", "workload": None, "file_bytes": SIZES[0], "record_bytes": 65536,
                      "workers": 1, "queue_depth": 1, "duration_ns": 60 * 10**9, "warmup_ns": 0,
                      "planned_bytes": 0, "timed": True},
                     len(SIZES))  # fmt: skip
    page.wait_for_selector("text=Write, 1 MiB file, 64 KiB records")
    for second in range(1, 31):
        clock[0] += 10**9
        under_way.progress({"elapsed_ns": second * 10**9, "bytes": second * 10**8, "ops": second, "errors": 0,
                            "p99_ns": 2_000_000})  # fmt: skip
    page.wait_for_selector("#now-facts:has-text('3 GB moved')")
    assert "of 1\xa0min" in page.locator("#now-facts").inner_text()
    assert page.locator("#now-share").evaluate("(one) => one.value") == 0.5
    page.wait_for_function("() => document.getElementById('now-plot').data?.[0].y.length === 30")
    assert page.evaluate("document.getElementById('now-plot').data[0].y") == [100.0] * 30
    assert page.locator("#count").inner_text() == "0 cells stored, 3 planned so far"
    assert serious(page) == []
    again = opened(address)
    said = again.locator(".now").inner_text().replace("\xa0", " ")
    assert "now Write, 1 MiB file, 64 KiB records, " in said and "of 1 min, 3 GB moved, 100 MB/s now" in said
    under_way.close()
    for cell in document["cells"]:
        writer.add_cell(LIVE, cell, blobs[cell["id"]])
    writer.finish_run(LIVE, "complete")
    page.wait_for_selector("html[data-ended]", timeout=20_000)
    rows = page.locator("#live tbody tr")
    assert rows.count() == len(document["cells"]) == 3 and not page.locator("#now").is_visible()
    assert rows.first.inner_text().startswith("Write\t64") and page.locator("#status").inner_text() == "complete"
    page.wait_for_function("() => document.getElementById('live-plot').data?.[0].y.length === 3")
    values = page.evaluate("document.getElementById('live-plot').data[0].y")
    assert values == pytest.approx([cell["throughput_bytes_per_s"] / 1e6 for cell in document["cells"]])
    writer.delete_run(LIVE)
    writer.close()


def test_phone_and_dark(opened: Open, address: str) -> None:
    """Nothing wider than the phone, dark where the phone is, every picture drawn."""
    page = opened(address, "phone")
    for path in ("", "run/20261120-190000-deva/", "rank/?test=read", "compare/", "overlay/?device=A&device=C"):
        page.goto(address + path)
        page.wait_for_selector("html[data-ready]")
        for plot in page.locator(".plot").all()[:3]:
            drawn(page, plot.get_attribute("id").removeprefix("plot-"))
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(22, 27, 32)", path
    assert serious(page) == []


def test_a_token_opens_the_library(opened: Open, store: Store) -> None:
    command = [sys.executable, "-m", "naslab", "serve", "--listen", "127.0.0.1:0", "--store", str(store.path)]
    server = subprocess.Popen([*command, "--token", "auto"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None and server.stderr is not None
        url = server.stdout.readline().removeprefix("Library: ").strip()
        token = server.stderr.readline().removeprefix("Token: ").strip()
        page = opened(url, "phone", "form")
        assert serious(page) == []
        page.get_by_label("Token").fill("not the token at all")
        page.get_by_role("button", name="Open").click()
        page.wait_for_selector("text=Wrong token")
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Open").click()
        page.wait_for_selector("#runs")
        wrong = http.client.HTTPConnection("127.0.0.1", int(url.rstrip("/").rpartition(":")[2]), timeout=10)
        wrong.request("GET", "/", headers={"Host": "evil.example"})
        assert wrong.getresponse().status == 400
        wrong.close()
    finally:
        server.terminate()
        said = server.communicate(timeout=HANG_S)[1]
    assert token not in said and "GET" not in said


def test_a_site_works_from_files(opened: Open, store: Store, tmp_path: Path) -> None:
    names = [f"20261120-19000{n}" for n in range(3)]
    site = write_site(store, Chosen((*names, "20261119-100017")), tmp_path / "site")
    page = opened((site / "index.html").as_uri())
    page.get_by_label("Search").fill("old 17")
    assert page.locator("#found").inner_text() == "1 run"
    assert page.locator("#runs tbody tr:visible").count() == 1
    page.get_by_label("Search").fill("")
    page.locator("select[name=test]").select_option("read")
    assert page.locator("#found").inner_text() == "3 runs"
    page.get_by_role("link", name="Overlay").click()
    page.wait_for_selector("html[data-ready]")
    runs = {f"device={d}": store.load(names[n]) for n, d in enumerate("ABC")}
    check_lines(page, "overlay-rate", runs, "write")
    page.get_by_role("checkbox", name="device=B").uncheck()
    check_lines(page, "overlay-rate", {name: run for name, run in runs.items() if name != "device=B"}, "write")
    page.get_by_role("link", name="Ranking").click()
    page.wait_for_selector("html[data-ready]")
    assert page.locator(".ranking table").count() == 4
    assert "Without Mixed" in page.locator(".ranking").first.inner_text()
    page.get_by_role("link", name="Compare").click()
    page.get_by_role("link", name="against device=A").click()
    page.wait_for_selector("html[data-ready]")
    assert len(drawn(page, "ratios")) >= 1
    page.get_by_role("link", name=names[2] + "-devc").click()
    page.wait_for_selector("html[data-ready]")
    assert len(drawn(page, "throughput")) >= 2
