"""Prometheus and OpenMetrics text: valid by their own parsers, and the numbers of the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import parser as old_parser
from prometheus_client.openmetrics import parser

from fixtures_run import make_run
from naslab.exchange import openmetrics, samples
from naslab.exchange.export import export
from naslab.results import Run
from naslab.results.foreign import foreign_cell, foreign_document


def small(**more: Any) -> Run:
    return make_run(ops=("write", "read"), file_sizes=(1 << 20, 16 << 20), record_sizes=(65536,), blocks=1, **more)


def families(run: Run | list[Run], openmetrics_text: bool = True) -> dict[str, Any]:
    runs = run if isinstance(run, list) else [run]
    text = "\n".join(openmetrics.lines(runs, openmetrics_text)) + "\n"
    module = parser if openmetrics_text else old_parser
    return {family.name: family for family in module.text_string_to_metric_families(text)}


@pytest.mark.parametrize("openmetrics_text", [True, False])
def test_values_are_the_cells(openmetrics_text: bool) -> None:
    made = small(pace_per_s=100.0)
    found = families(made, openmetrics_text)
    for metric in samples.METRICS:
        for sample in found[metric.name].samples:
            value: Any = made.cell(int(sample.labels["cell"]))
            for part in metric.field.split("."):
                value = value[part]
            assert sample.value == pytest.approx(value * metric.scale, rel=1e-8), metric.name
    assert len(found["naslab_durable_bytes_per_second"].samples) == 2, "the reads were not flushed"
    assert len(found["naslab_throughput_bytes_per_second"].samples) == len(made.cells)
    latency = found["naslab_latency_seconds"].samples
    p99 = {s.labels["cell"]: s.value for s in latency if s.labels.get("quantile") == "0.99"}
    assert p99 == pytest.approx({str(c["id"]): c["latency_ns"]["p99"] / 1e9 for c in made.cells}, rel=1e-8)
    assert [s.value for s in latency if s.name.endswith("_count")] == [c["ops"] for c in made.cells]


def test_labels_say_what_was_measured() -> None:
    made = small()
    sample = families(made)["naslab_throughput_bytes_per_second"].samples[0]
    assert sample.labels == {
        "run": made.run_id, "cell": "0", "target": "smb://tester@nas.example/bench", "op": "write",
        "file_bytes": "1048576", "record_bytes": "65536", "queue_depth": "1", "workers": "1", "block": "0",
        "durability": "end", "cache_state": "warm", "status": "complete", "predicted": "false",
    }  # fmt: skip
    (info,) = families(made)["naslab_run"].samples
    assert (info.name, info.labels["label"], info.labels["signing"]) == (
        "naslab_run_info",
        made.document["label"],
        "aes-gmac",
    )


def test_times_and_units_are_of_openmetrics_alone() -> None:
    made = small()
    cell = made.cells[1]
    sample = families(made)["naslab_throughput_bytes_per_second"].samples[1]
    ended_ns = cell["start_wall_ns"] + cell["end_ns"] - cell["start_ns"]
    assert float(sample.timestamp) == pytest.approx(ended_ns / 1e9, abs=1e-3)
    assert families(made)["naslab_duration_seconds"].unit == "seconds"
    text = list(openmetrics.lines([made], False))
    assert not any(line.startswith(("# UNIT", "# EOF")) for line in text)
    assert all(s.timestamp is None for f in families(made, False).values() for s in f.samples)


def test_several_runs_are_told_apart() -> None:
    runs = [small(), small(run_id="20261121-000000-aaaa")]
    samples = families(runs)["naslab_throughput_bytes_per_second"].samples
    assert len(samples) == sum(len(run.cells) for run in runs)
    assert len({tuple(sorted(s.labels.items())) for s in samples}) == len(samples)


def test_what_is_not_told_has_no_sample() -> None:
    cells = [foreign_cell(0, "read", 60e6), foreign_cell(1, "write", 50e6, latency_ns={"mean": 1000})]
    source = {"kind": "imported", "tool": "iozone", "format": "iozone-text"}
    found = families(Run(foreign_document("20130101-000000-aaaa", source, cells)))
    assert set(found) == {"naslab_run", "naslab_throughput_bytes_per_second", "naslab_latency_mean_seconds"}
    labels = found["naslab_throughput_bytes_per_second"].samples[0].labels
    assert set(labels) == {"run", "cell", "op", "block", "cache_state", "regime", "status", "predicted"}
    assert found["naslab_throughput_bytes_per_second"].samples[0].timestamp is None


def test_failed_cells_have_errors_and_no_rate() -> None:
    made = small()
    made.cells[0]["status"], made.cells[0]["errors"] = "failed", 3
    found = families(made)
    assert "0" not in {s.labels["cell"] for s in found["naslab_throughput_bytes_per_second"].samples}
    assert found["naslab_errors"].samples[0].value == 3


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=40))
def test_any_text_can_be_a_label(text: str) -> None:
    made = small()
    made.document["target"]["url"] = text
    made.document["label"] = text
    shown = text.encode("utf-8", "replace").decode().replace("\r", " ")
    for openmetrics_text in (True, False):
        labels = families(made, openmetrics_text)["naslab_throughput_bytes_per_second"].samples[0].labels
        assert labels.get("target", "") == shown


def test_files_by_their_endings(tmp_path: Path) -> None:
    made = small()
    assert export(made, tmp_path / "x.om").read_text().endswith("# EOF\n")
    plain = export(made, tmp_path / "x.prom").read_text()
    assert plain.startswith("# TYPE naslab_run_info gauge\n")
    assert export(made, tmp_path / "x.txt", "prom").read_text() == plain
