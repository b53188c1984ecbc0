"""What `naslab show` and `naslab runs` print."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from fixtures_run import RUN_ID, START_WALL_NS, make_run
from naslab import load
from naslab.render.terminal.show import list_runs_text, show_run
from naslab.results import Run, new_document
from naslab.results.store import RunSummary

Golden = Callable[[str, str], None]


def explained() -> Run:
    """A sweep with a verdict, regimes, a predicted cell and warnings."""
    made = make_run(ops=("write", "read"), file_sizes=(65536, 1 << 20, 256 << 20), record_sizes=(4096, 65536, 1 << 20))
    made.document["verdict"] = {
        "limits": [
            {
                "kind": "link", "applies_to": {"op": "read", "size": "large"}, "confidence": 0.93, "value": 117.5e6,
                "unit": "bytes_per_s", "ci95": [116e6, 119e6], "evidence": "within 1 % of 1 Gbit/s",
            },
            {"kind": "latency", "applies_to": {}, "confidence": 0.5, "evidence": "250 us per request"},
        ]
    }  # fmt: skip
    for cell in made.cells:
        cell["predicted"] = cell["file_bytes"] == 1 << 20 and cell["record_bytes"] == 65536
        cell["warnings"] = [{"kind": "client_cache", "message": "too few bytes on the wire", "cell": cell["id"]}]
    return made


def sustained() -> Run:
    made = make_run(ops=("read", "mixed"), file_sizes=(1 << 30,), record_sizes=(4096,), command="sustained")
    made.cells[0]["regime"] = "disk"
    made.cells[1]["status"] = "partial"
    made.cells[2]["workload"] = "HDVideo_1Play"
    return made


@pytest.mark.parametrize(("made", "name"), [(explained, "show_sweep"), (sustained, "show_cells")])
def test_show_golden(made: Callable[[], Run], name: str, golden: Golden) -> None:
    golden(f"{name}.txt", show_run(made(), width=100, color=False))


@pytest.mark.parametrize("width", [40, 60, 80, 200])
@pytest.mark.parametrize("made", [explained, sustained])
def test_width_is_kept(made: Callable[[], Run], width: int) -> None:
    text = show_run(made(), width=width, color=False)
    assert max(map(len, text.splitlines())) <= width
    assert text.endswith("\n")


def test_a_wide_matrix_is_split_not_cut() -> None:
    records = tuple(4096 << step for step in range(13))
    made = make_run(ops=("read",), file_sizes=(64 << 20,), record_sizes=records, blocks=1)
    text = show_run(made, width=60, color=False)
    for size in ("4k", "8k", "512k", "1m", "16m"):
        assert f" {size}" in text
    assert "…" not in text


def test_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" in show_run(sustained())
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in show_run(sustained())
    assert "\x1b[" in show_run(sustained(), color=True)
    assert "\x1b[" not in list_runs_text([])


def test_columns_is_the_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    assert max(map(len, show_run(explained(), color=False).splitlines())) <= 50


def test_text_from_elsewhere_does_nothing() -> None:
    made = make_run(ops=("read",), file_sizes=(1 << 20,), blocks=1, label="[red]x[/red]\x1b]0;evil\x07\nsecond")
    made.document["warnings"] = [{"kind": "k", "message": "\x1b[2J[bold]", "cell": None}]
    made.document["environment"] = {"client": {"cpu": "\x1b[31m"}, "odd": [1], "none": None}
    text = show_run(made, width=100, color=False)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[red]x[/red]" in text
    assert "[bold]" in text


def test_nothing_measured() -> None:
    bare = Run(new_document(RUN_ID, "run", {"url": "/srv", "protocol": "local"}, start_wall_ns=START_WALL_NS))
    text = show_run(bare, width=80, color=False)
    assert "No cell was measured" in text
    assert "running" in text
    failed: dict[str, Any] = make_run(ops=("read",), file_sizes=(1 << 20, 2 << 20)).document  # type: ignore[assignment]
    for cell in failed["cells"]:
        cell["status"] = "failed"
    show_run(Run(failed), width=80, color=False)  # type: ignore[arg-type]


def test_list_golden(golden: Golden) -> None:
    runs = [
        RunSummary(RUN_ID, "sweep", "example NAS", "smb://nas.example/bench", "complete", START_WALL_NS, 252),
        RunSummary("20261119-080000-aaaa", "run", None, "/srv/\x1bdata", "partial", START_WALL_NS - 10**14, 3),
    ]
    golden("runs.txt", list_runs_text(runs, width=120, color=False))
    assert "naslab run TARGET" in list_runs_text([], width=80, color=False)


def test_means_over_sizes_show_their_sizes_and_warnings_their_range() -> None:
    assert re.search(r"write +64m-1g +64k", show_run(load("published:nas4220-raid1"), 100))
    shown = show_run(load("published:raid5-naspt"), 200)
    assert shown.count("Warning above_limit") == 2 and "at 619 to 733 MB/s" in shown and "(6 cells)" in shown
