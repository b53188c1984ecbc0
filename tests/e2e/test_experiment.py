"""`naslab lab run`: an experiment over simulated servers from the command line, and its report in a real browser."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli_tools import HANG_S, Cli, need

SIM = Path(__file__).parents[1] / "sim_experiment.toml"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SHORT = ("--repeat", "3", "--only", "slow,fast")


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    return Cli(tmp_path_factory.mktemp("experiment"))


@pytest.fixture(scope="module")
def done(cli: Cli) -> tuple[Any, Path]:
    """The result and the report of a short run."""
    page = cli.folder / "page.html"
    result = cli("lab", "run", SIM, *SHORT, "-o", page, "--json", "--quiet").ok().json()
    return result, page


def test_verdicts_and_runs_come_out(done: tuple[Any, Path], cli: Cli) -> None:
    result, _ = done
    verdicts = {claim["id"]: claim["verdict"] for claim in result["claims"]}
    assert verdicts["true-more"] == verdicts["true-limit"] == "reproduced"
    assert verdicts["false-more"] == verdicts["false-same"] == "contradicted"
    assert verdicts["true-same"] == verdicts["not-built"] == "not testable here"
    assert {m["run_id"] for m in result["measurements"]} == {run["run_id"] for run in cli.runs()}
    course = next(chart for chart in result["charts"] if chart["kind"] == "time")
    shown = {series["condition"]: series["values"] for series in course["series"]}
    assert set(shown) == {"slow", "fast"} and all(shown.values()), "intervals come from the store"


def test_a_run_measured_elsewhere_can_be_given(done: tuple[Any, Path], cli: Cli) -> None:
    file = cli.folder / "run.json"
    cli("export", done[0]["measurements"][0]["run_id"], "-o", file).ok()
    words = ("--repeat", "1", "--only", "slow", "--import", f"elsewhere={file}", "--import", "elsewhere=last")
    result = cli("lab", "run", SIM, *words, "--json", "--quiet").ok().json()
    places = {m["condition"]: m["block"] for m in result["measurements"]}
    assert places == {"elsewhere": 1, "slow": 0}


def test_words_for_people(cli: Cli) -> None:
    told = cli("lab", "run", SIM, "--repeat", "1", "--only", "slow").ok()
    assert "undecided          The faster disk" not in told.out and "too few repeats" in told.out
    assert "1 of 5 conditions in 1 repeat each" in told.out and "repeat 1: slow" in told.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nobody",), "no such experiment; use one of fast-nas"),
        ((SIM, "--only", "nobody"), "--only 'nobody'"),
        ((SIM, "--import", "elsewhere"), "write ID=RUN"),
        ((SIM, "--import", "nobody=last"), "no condition 'nobody'"),
        ((SIM, "--budget", "soon"), "--budget"),
        ((SIM, "-o", "/nowhere/page.html"), "-o /nowhere/page.html"),
    ],
)
@pytest.mark.usefixtures("done")
def test_mistakes_end_with_one_line_and_2(words: tuple[object, ...], said: str, cli: Cli) -> None:
    found = cli("lab", "run", *words)
    assert found.code == 2 and said in found.err and found.err.count("\n") == 1 and not found.out


@pytest.mark.lab
def test_an_interruption_judges_what_there_is_and_cleans_up(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "target"
    folder.mkdir()
    text = SIM.read_text("utf-8").replace('"sim:?disk_read_bytes_per_s=50MB', f'"{folder}"\nstands_for = "x', 1)
    file = tmp_path / "mine.toml"
    file.write_text(
        text.replace('stands_for = "nothing"\n', "", 1).replace("--file-size {files}", "--file-size 1m,{files}")
    )
    child = cli.start("lab", "run", file, "--only", "slow", "--repeat", "1000", "--json")
    assert child.stderr is not None
    while "repeat 3" not in child.stderr.readline():
        pass
    child.send_signal(signal.SIGTERM)
    out, _ = child.communicate(timeout=HANG_S)
    found = json.loads(out)
    assert child.returncode == 130 and found["interrupted"] and len(found["measurements"]) >= 2
    assert any("interrupted" in note for note in found["notes"])
    assert list(folder.iterdir()) == []


@pytest.mark.lab
def test_an_experiment_goes_on_where_it_was_killed(cli: Cli, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    words = ("lab", "run", SIM, "--only", "slow,fast", "--state", state)
    child = cli.start(*words, "--repeat", "500")
    assert child.stderr is not None
    while "repeat 3" not in child.stderr.readline():
        pass
    child.kill()
    child.communicate(timeout=HANG_S)
    kept = json.loads(state.read_text("utf-8"))
    before = [(m["condition"], m["block"], m["run_id"]) for m in kept["measurements"]]
    assert {block for _, block, _ in before} == {0, 1} and not kept["interrupted"]
    result = cli(*words, "--repeat", "4", "--json", "--quiet").ok().json()
    after = [(m["condition"], m["block"], m["run_id"]) for m in result["measurements"]]
    assert after[: len(before)] == before and len(after) == 4 * len(before) // 2
    assert json.loads(state.read_text("utf-8"))["measurements"] == result["measurements"]
    again = cli(*words, "--repeat", "4", "--json", "--quiet").ok().json()
    assert again["measurements"] == result["measurements"], "nothing is left to measure"
    other = tmp_path / "other.sqlite"
    for more, said in ((("--seed", "5"), "seed 0 there, 5 here"), (("--store", other), "--store that it was measured")):
        refused = cli(*words, *more)
        assert refused.code == 2 and said in refused.err and refused.err.count("\n") == 1, refused.err


@pytest.mark.lab
def test_an_experiment_until_decided_goes_on_with_the_looks_it_took(cli: Cli, tmp_path: Path) -> None:
    words = ("lab", "run", SIM, "--only", "slow,fast", "--state", tmp_path / "state.json", "--until", "decided")
    first = cli(*words, "--repeat", "3", "--json", "--quiet").ok().json()
    again = cli(*words, "--repeat", "5", "--json", "--quiet").ok().json()
    decided = {claim["id"]: claim["verdict"] for claim in first["claims"] if claim["p"] is not None}
    assert decided and all(
        claim["verdict"] == decided[claim["id"]] for claim in again["claims"] if claim["id"] in decided
    )


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    need(CHROMIUM, "chromium in PATH")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        started = play.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
        )
        yield started
        started.close()


@pytest.mark.lab
@pytest.mark.parametrize("width", [1200, 390])
def test_the_report_in_a_browser(done: tuple[Any, Path], browser: Any, width: int) -> None:
    result, path = done
    page = browser.new_page(viewport={"width": width, "height": 900})
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on(
        "request",
        lambda request: wrong.append(request.url) if not request.url.startswith(("file:", "data:", "blob:")) else None,
    )
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=true]")
    rows = page.locator("#claims tbody tr")
    told = [rows.nth(at).locator("td").first.inner_text() for at in range(rows.count())]
    assert [text.split(maxsplit=1)[1] for text in told] == [claim["verdict"] for claim in result["claims"]]
    for chart in ("claims-chart", "chart-write", "chart-bars", "chart-surface"):
        page.locator(f"#{chart}").scroll_into_view_if_needed()
        page.wait_for_selector(f"#plot-{chart} .main-svg")
    assert page.locator("#plot-chart-write .scatterlayer .trace").count() >= 3
    section = page.locator("#chart-surface")
    section.get_by_role("tab", name="Difference").click()
    page.wait_for_function("document.querySelector('#plot-chart-surface').textContent.includes('%')")
    assert "fast over slow" in section.locator(".caption").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    with page.expect_download() as download:
        page.get_by_role("button", name="Result of the experiment").click()
    kept = json.loads(Path(download.value.path()).read_text("utf-8"))
    assert kept["claims"] == result["claims"] and wrong == []
    page.close()
