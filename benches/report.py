#!/usr/bin/env python3
"""A report of 10,000 cells and 1,000,000 interval points against its bars: built within 5 s, at most 12 MB,
interactive within 2 s in headless Chromium; the same run as a workbook with every interval within 20 s.

Interactive: from opening the file until every chooser, the table and the downloads work and the first chart is on the
screen. Medians over the rounds; the time until the surface is drawn, once it was scrolled to, is told beside.

Usage: report.py [--rounds N] [--json FILE] [--keep FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests")]

CELLS, POINTS = 10_000, 1_000_000
BARS = {"built, s": 5.0, "size, MB": 12.0, "interactive, s": 2.0, "workbook, s": 20.0}
CHROMIUM_ARGS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]


def large_run() -> Any:
    """100 file and record sizes, two tests, 50 repeats, 100 intervals in each cell, seeded."""
    from fixtures_run import make_parts
    from naslab.results import Run
    from naslab.results.run import MemoryBlobs

    sizes = {"file_sizes": [1 << n for n in range(20, 30)], "record_sizes": [1 << n for n in range(12, 22)]}
    document, blobs, _ = make_parts(ops=("write", "read"), **sizes)
    unique, rng, named = document["cells"], np.random.default_rng(1), {}
    document["cells"] = [{**unique[at % len(unique)], "id": at, "block": at // len(unique)} for at in range(CELLS)]
    for cell in document["cells"]:
        rows = np.zeros((POINTS // CELLS, 7), "<i8")
        rows[:, 0] = np.maximum(rng.normal(1000, 30, len(rows)), 1)
        rows[:, 1] = rows[:, 0] * cell["record_bytes"]
        rows[:, 6] = rng.lognormal(15, 0.5, len(rows))
        named[cell["id"]] = {**blobs[unique[cell["id"] % len(unique)]["id"]], "series": rows.tobytes()}
    return Run(document, MemoryBlobs(named))


def built(run: Any, target: Path) -> tuple[float, float]:
    """(seconds, MB) of writing the page."""
    from naslab.render import report

    begun = time.perf_counter()
    report.write([run], target)
    return time.perf_counter() - begun, target.stat().st_size / 1e6


def exported(run: Any, target: Path) -> float:
    """Seconds of writing the workbook, with a row for each interval."""
    from naslab.exchange.excel import write_workbook

    begun = time.perf_counter()
    write_workbook([run], target)
    return time.perf_counter() - begun


def opened(browser: Any, page_file: Path) -> tuple[float, float]:
    """(seconds until interactive, seconds from scrolling to the surface until it is drawn)."""
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    begun = time.perf_counter()
    page.goto(page_file.as_uri())
    page.wait_for_function("() => document.documentElement.dataset.ready && document.querySelector('.plot .main-svg')")
    ready = time.perf_counter() - begun
    begun = time.perf_counter()
    page.locator("#plot-surface").scroll_into_view_if_needed()
    page.wait_for_function("() => document.querySelector('#plot-surface canvas')")
    drawn = time.perf_counter() - begun
    page.close()
    return ready, drawn


def main() -> int:
    """Measures; 0 if every bar is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="how often each step is timed")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--keep", type=Path, help="keep the page here")
    options = parser.parse_args()
    run, found = large_run(), {name: [] for name in (*BARS, "surface drawn, s")}
    with tempfile.TemporaryDirectory(prefix="naslab-bench-") as folder:
        target = (options.keep or Path(folder) / "report.html").resolve()
        for _ in range(options.rounds):
            seconds, size = built(run, target)
            found["built, s"].append(seconds)
            found["size, MB"].append(size)
            found["workbook, s"].append(exported(run, Path(folder) / "run.xlsx"))
        _browse(target, options.rounds, found)
    medians = {name: statistics.median(values) for name, values in found.items() if values}
    for name, value in medians.items():
        bar = BARS.get(name)
        told = "" if bar is None else f"  bar {bar:g}: {'met' if value <= bar else 'MISSED'}"
        print(f"{name:20} {value:8.2f}{told}")
    if options.json:
        options.json.write_text(json.dumps({"cells": CELLS, "points": POINTS, **medians}, indent=1) + "\n")
    return int(any(value > BARS.get(name, float("inf")) for name, value in medians.items()))


def _browse(target: Path, rounds: int, found: dict[str, list[float]]) -> None:
    """Times the page in Chromium, where that and playwright are installed."""
    import shutil

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        chromium = None
    if chromium is None:
        print("no chromium, or no playwright: the page was not opened", file=sys.stderr)
        return
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=CHROMIUM_ARGS)
        for _ in range(rounds):
            ready, drawn = opened(browser, target)
            found["interactive, s"].append(ready)
            found["surface drawn, s"].append(drawn)
        browser.close()


if __name__ == "__main__":
    sys.exit(main())
