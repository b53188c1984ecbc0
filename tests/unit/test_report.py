"""The report page: what is in it, what must not be, how large it is."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures_run import make_parts, make_run
from naslab import report
from naslab.errors import UsageError
from naslab.report.axes import log_ticks
from naslab.report.ceilings import link_ceilings, tcp_payload_bytes_per_s
from naslab.report.labels import plot_text, tight, time_label
from naslab.report.payload import coarser, pack_json, pack_series
from naslab.report.rawdata import Series
from naslab.report.thinning import keep_extremes
from naslab.results import Run
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
        "import sys; sys.path[:0] = sys.argv[1:]; from fixtures_run import make_run; import naslab.report\n"
        "naslab.report.render([make_run()])\n"
        "sys.exit(any(m.split('.')[0] in ('plotly', 'pandas') for m in sys.modules))"
    )
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", code, str(root / "python"), str(root / "tests")], check=True, timeout=60)


def test_every_chart_says_its_finding_in_words() -> None:
    tags = Elements(report.render([small()])).tags
    plots = [attributes for tag, attributes in tags if attributes.get("class") == "plot"]
    assert len(plots) >= 6
    for plot in plots:
        assert plot["role"] == "img"
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
    assert "3 cells had operations that failed." in page
    assert "3 cells read data that differs from what was written." in page


def test_short_form_of_the_document_is_enough() -> None:
    short = {
        "schema": 1, "naslab_version": "0.1", "run_id": "r", "command": "sweep", "status": "complete", "warnings": [],
        "target": {"url": "/mnt/x", "protocol": "local", "dialect": None, "signing": None, "encryption": None},
        "cells": [{"id": 0, "op": "read", "file_bytes": 4096, "record_bytes": 4096, "throughput_bytes_per_s": 1e6,
                   "iops": 244.0, "latency_ns": {"p50": None}}],
        "verdict": {"limits": []},
    }  # fmt: skip
    assert "Sweep of /mnt/x" in report.render([Run(short)])  # type: ignore[arg-type]


def test_write_replaces_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "a.html"
    target.write_text("old")
    assert report.write([small()], target) == target
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [file.name for file in tmp_path.iterdir()] == ["a.html"]
    with pytest.raises(UsageError, match="cannot be written"):
        report.write([small()], tmp_path / "missing" / "a.html")
    with pytest.raises(UsageError, match="at least one RUN"):
        report.render([])


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


@pytest.mark.parametrize(
    ("bits", "mtu", "mb"), [(1e8, 1500, 11.77), (1e9, 1500, 117.69), (2.5e9, 9000, 309.39), (1e10, 4000, 1222.1)]
)
def test_link_ceilings_of_the_framing(bits: float, mtu: int, mb: float) -> None:
    assert tcp_payload_bytes_per_s(bits, mtu) / 1e6 == pytest.approx(mb, rel=1e-3)


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
    assert [round(value / 1e6) for _, value in found] == [118, 60]
    assert link_ceilings({**document, "target": {"protocol": "local"}, "verdict": {}}) == []


def test_labels() -> None:
    assert [size_label(n) for n in (512, 65536, 1 << 20, 3 << 19, 1 << 40)] == [
        "512 B", "64 KiB", "1 MiB", "1.5 MiB", "1 TiB",
    ]  # fmt: skip
    assert [time_label(n) for n in (12, 1500, 250_000, 8_370_000, 2e9)] == [
        "12 ns",
        "1.5 µs",
        "250 µs",
        "8.37 ms",
        "2 s",
    ]
    assert plot_text("<b>a & b</b>") == "&lt;b&gt;a &amp; b&lt;/b&gt;"
    assert tight("at 5 s, 118 MB/s, 3 best, 99 % of 4 Bs") == "at 5\xa0s, 118\xa0MB/s, 3 best, 99\xa0% of 4 Bs"


def test_numbers_json_cannot_hold_become_null() -> None:
    packed = pack_json({"a": [1.5, float("nan")], "b": float("inf")})
    assert json.loads(zlib.decompress(base64.b64decode(packed))) == {"a": [1.5, None], "b": None}
