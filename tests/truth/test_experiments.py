"""All five experiments through the real command, in their quick form: every claim ends, what is planted is found.

The claims named here follow from what the lab builds alone: a drive's rate, a link's, a bucket's, more disks. Their
ratios must lie where the claim says, but for noise; that the verdict is certain of it, three repeats do not promise.
The others may end in any way. Each report is opened in a headless Chromium.
"""

from __future__ import annotations

import html
import json
import math
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cli_tools import Cli, need
from naslab.analysis.claims import VERDICTS
from naslab.lab import experiment
from naslab.render.report.experiment import ours
from naslab.results.describe import typed
from naslab.results.parts.experiment import ExperimentDocument

pytestmark = [pytest.mark.lab, pytest.mark.timeout(420)]
CERTAIN = {
    "fast-nas": ("drive-sets-the-maximum-read", "pool-reads-as-one-drive", "fast-drive-reads-large"),
    "raid5-naspt": ("lan-would-be-the-bottleneck", "raid5-reads-above-one-disk"),
    "nas4220": ("small-blocks-slow", "rewrite-above-the-wire", "reads-near-100-mbit"),
    "fsx-32": ("baseline-as-provisioned", "burst-above-baseline", "memory-above-disks", "network-baseline"),
    "nfs-servers": ("reads-fill-the-link",),
}
"""Claims whose answer the lab plants, by experiment."""
NEAR = 1.2
"""A share of a processor is found by measuring on this machine: what it leads to may lie so far beside its region."""
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
HARMLESS = ("Canvas2D: Multiple readback", "GL Driver Message", "GPU stall")
SHOTS = os.environ.get("NASLAB_SHOTS")
"""A folder for pictures and results, for whoever wants to look at them."""


@pytest.fixture(scope="module", params=list(CERTAIN))
def done(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """The result and the report of an experiment."""
    need(os.geteuid() == 0, "root, for systems from parts")
    cli = Cli(tmp_path_factory.mktemp(request.param))
    page = cli.folder / f"{request.param}.html"
    result = cli("lab", "run", request.param, "--quick", "-o", page, "--json", timeout=400).ok().json()
    if SHOTS:
        shutil.copy(page, SHOTS)
        Path(SHOTS, f"{request.param}.json").write_text(json.dumps(result), "utf-8")
    return result, page


def test_every_claim_ends_and_what_is_planted_is_found(done: tuple[Any, Path]) -> None:
    result, _ = done
    article = experiment.load(result["name"], "quick")
    ends = {claim["id"]: (claim["verdict"], claim["why"]) for claim in result["claims"]}
    assert list(ends) == [claim.id for claim in article.claims]
    assert {verdict for verdict, _ in ends.values()} <= set(VERDICTS) and all(why for _, why in ends.values())
    missing = {one["id"]: one["missing"] for one in result["conditions"] if one["missing"]}
    assert list(missing) == [one.id for one in article.conditions if one.missing], missing
    blocks = {(m["condition"], m["block"]) for m in result["measurements"]}
    known = {one.id: one.repeats or article.repeats for one in article.conditions if not one.missing}
    assert blocks == {(name, block) for name, count in known.items() for block in range(count)}, result["notes"]
    tested = {claim.id for claim in article.claims if not claim.not_testable}
    assert {name for name, (verdict, _) in ends.items() if verdict != "not testable here"} == tested
    certain = [claim for claim in result["claims"] if claim["id"] in CERTAIN[result["name"]]]
    for claim in certain:
        low, high = claim["region"][0] or 0.0, claim["region"][1] or math.inf
        assert claim["verdict"] != "contradicted" and claim["contrasts"], claim
        for contrast in claim["contrasts"]:
            assert contrast["low"] is not None and contrast["high"] is not None, (claim["id"], claim["why"], contrast)
            # Three repeats of a noisy machine: their interval reaches the region, and its middle is not far from it.
            assert contrast["low"] <= high and contrast["high"] >= low, (claim["id"], contrast)
            assert low / NEAR <= contrast["value"] <= high * NEAR, (claim["id"], contrast)
    assert "reproduced" in {claim["verdict"] for claim in result["claims"]}


def test_published_numbers_stand_beside_ours(done: tuple[Any, Path]) -> None:
    result, page = done
    article = experiment.load(result["name"], "quick")
    assert [one["value"] for one in result["published"]] == [one.value for one in article.published]
    document = typed(result, ExperimentDocument)
    drawn = [one for one in document.published if one.chart and not one.size_bytes and one.condition]
    assert all(ours(document, one) != "-" for one in drawn)
    text = html.unescape(page.read_text("utf-8")).replace("\xa0", " ")
    assert [one["what"] for one in result["published"] if one["what"] not in text] == []


LOOKS = (("light", 1200), ("dark", 390))
"""Colours, and how wide the window is."""


def test_the_report_in_a_browser(done: tuple[Any, Path]) -> None:
    """Both looks at once, each in a browser of its own: drawing takes one processor."""
    need(CHROMIUM, "chromium in PATH")
    with ThreadPoolExecutor(len(LOOKS)) as pool:
        for ended in [pool.submit(look_at, *done, scheme, width) for scheme, width in LOOKS]:
            ended.result()


def look_at(result: Any, path: Path, scheme: str, width: int) -> None:
    """Every claim stands in the table and every chart is drawn; nothing is wider than the window, or complains."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        said: list[str] = []
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready=true]")
        assert page.locator("#claims tbody tr").count() == len(result["claims"])
        for name in ["claims-chart", *(f"chart-{one['id']}" for one in result["charts"] if one["series"])]:
            drawn(page, name)
            if SHOTS:
                page.locator(f"#{name}").screenshot(path=Path(SHOTS, f"{result['name']}-{name}-{scheme}.png"))
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if SHOTS:
            page.screenshot(path=Path(SHOTS, f"{result['name']}-{scheme}.png"), full_page=True)
        browser.close()
    assert [text for text in said if not any(part in text for part in HARMLESS)] == []


def drawn(page: Any, name: str) -> None:
    """Scrolls to a chart and waits until there is something in it."""
    plot = page.locator(f"#plot-{name}")
    plot.scroll_into_view_if_needed()
    page.wait_for_selector(f"#plot-{name} .main-svg")
    assert plot.bounding_box()["height"] > 100
    assert plot.evaluate("plot => plot.querySelectorAll('path, image, canvas').length") > 3, name
