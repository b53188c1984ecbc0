"""`export --otlp`: what a collector gets, by the protocol's own definitions, and what is said where it gets nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli_tools import called
from fixtures_run import make_run
from naslab import __version__
from naslab.errors import NaslabError, UsageError
from naslab.exchange import otlp, samples
from naslab.exchange.openmetrics import lines
from naslab.results import Run
from naslab.results.store import Store
from otlp_collector import Collector, listening


@pytest.fixture
def collector() -> Iterator[Collector]:
    with listening() as kept:
        yield kept


def small(**more: Any) -> Run:
    return make_run(ops=("write", "read"), file_sizes=(1 << 20, 16 << 20), record_sizes=(65536,), blocks=1, **more)


def test_a_collector_gets_the_numbers_of_the_run_at_their_times(collector: Collector) -> None:
    run = small()
    count = otlp.send([run], otlp.endpoint(collector.url))
    found = collector.points()
    assert collector.paths == ["/v1/metrics"] and count == sum(map(len, found.values()))
    for metric in samples.METRICS:
        for labels, value, when in found.get(metric.name, []):
            cell: Any = run.cell(labels["cell"])
            seen: Any = cell
            for part in metric.field.split("."):
                seen = seen[part]
            assert value == pytest.approx(seen * metric.scale), metric.name
            assert when == cell["start_wall_ns"] + cell["end_ns"] - cell["start_ns"]
            assert (labels["op"], labels["record_bytes"]) == (cell["op"], 65536)
    assert len(found["naslab_throughput_bytes_per_second"]) == len(run.cells)
    p99 = {labels["cell"]: v for labels, v, _ in found["naslab_latency_seconds"] if labels["quantile"] == "0.99"}
    assert p99 == pytest.approx({c["id"]: c["latency_ns"]["p99"] / 1e9 for c in run.cells})
    ((labels, ended, when),) = found["naslab_last_run_timestamp_seconds"]
    assert ended == pytest.approx(when / 1e9) and when == run.document["end_wall_ns"] and labels["run"] == run.run_id
    units = collector.units()
    assert (units["naslab_throughput_bytes_per_second"], units["naslab_latency_seconds"]) == ("By/s", "s")
    assert (units["naslab_client_cpu_ratio"], units["naslab_latency_seconds_count"]) == ("1", "")
    about = {
        each.key: each.value.string_value for each in collector.requests[0].resource_metrics[0].resource.attributes
    }
    assert (about["service.name"], about["service.version"]) == ("naslab", __version__)


def test_what_a_collector_gets_is_what_prometheus_is_told(collector: Collector) -> None:
    """Every name and label of the text has a point: a dashboard works with either."""
    runs = [small(), small(run_id="20261120-190002-abcd", seed=2)]
    otlp.send(runs, otlp.endpoint(collector.url + "/"))
    text = [line for line in lines(runs, False) if not line.startswith("#")]
    told = {
        f"{name}{{{','.join(f'{k}={_text(v)}' for k, v in labels.items())}}}"
        for name, points in collector.points().items() for labels, _, _ in points
    }  # fmt: skip
    missing = {line.rpartition(" ")[0] for line in text} - told
    assert not missing and len(text) > 100


def _text(value: object) -> str:
    return f'"{str(value).lower() if isinstance(value, bool) else value}"'


def test_large_runs_go_in_parts(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "MOST_POINTS", 50)
    count = otlp.send([small()], otlp.endpoint(collector.url))
    assert len(collector.requests) == -(-count // 50) > 1
    assert sum(map(len, collector.points().values())) == count


@pytest.mark.parametrize(("given", "used"), [
    ("http://host:4318", "http://host:4318/v1/metrics"), ("https://host/", "https://host/v1/metrics"),
    ("http://host:9090/api/v1/otlp/v1/metrics", "http://host:9090/api/v1/otlp/v1/metrics"),
    ("http://[::1]:4318", "http://[::1]:4318/v1/metrics"),
])  # fmt: skip
def test_an_address_without_a_path_gets_the_protocols(given: str, used: str) -> None:
    assert otlp.endpoint(given) == used


@pytest.mark.parametrize("wrong", ["", "host:4318", "grpc://host:4317", "http://", "http://host:x", "http://host:0"])
def test_what_is_no_address_is_refused(wrong: str) -> None:
    with pytest.raises(UsageError, match="http://HOST:4318"):
        otlp.endpoint(wrong)


def test_no_password_is_taken_from_the_address() -> None:
    with pytest.raises(UsageError, match="OTEL_EXPORTER_OTLP_HEADERS") as error:
        otlp.endpoint("http://me:secret-word@host:4318")
    assert "secret-word" not in str(error.value)


@pytest.mark.parametrize(("answer", "told"), [(404, "the answer was 404, Not Found"), (401, "401, Unauthorized")])
def test_a_refusal_is_told(collector: Collector, answer: int, told: str) -> None:
    collector.answer = answer
    with pytest.raises(NaslabError, match=told) as error:
        otlp.send([small()], otlp.endpoint(collector.url))
    assert error.value.exit_code == 1 and "\n" not in str(error.value) and collector.url in str(error.value)


def test_a_collector_that_is_not_there(collector: Collector, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "1")
    with pytest.raises(NaslabError, match="connection refused"):
        otlp.send([small()], "http://127.0.0.1:1/v1/metrics")
    assert capfd.readouterr() == ("", ""), "nothing of the SDK's own words"


def test_without_the_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http", None)
    with pytest.raises(UsageError, match=r"pip install 'naslab\[otlp\]'"):
        otlp.send([small()], "http://127.0.0.1:1/v1/metrics")


def test_the_command(collector: Collector, store: Store, tmp_path: Path) -> None:
    """Also without names, and with the headers of the SDK's variable."""
    run = small()
    store.save(run.document)
    environment = {"NASLAB_STORE": str(store.path), "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20word"}
    done = called(["export", "last", "--otlp", collector.url, "--redact"], tmp_path, environment)
    assert done.code == 0 and done.err == "" and done.out.startswith("Sent: ") and done.out.endswith("/v1/metrics\n")
    targets = {labels["target"] for points in collector.points().values() for labels, _, _ in points}
    assert {target[:11] for target in targets} == {"smb://host-"} and collector.headers[0][
        "authorization"
    ] == "Bearer word"
    for words, told in (
        (("export", "--otlp", collector.url), "RUN is missing"),
        (("export", "last", "--otlp", collector.url, "-o", "x.csv"), "leave -o and --format out"),
        (("export", "--site", "s", "--otlp", collector.url), "leave --otlp out"),
    ):
        done = called(list(words), tmp_path, environment)
        assert done.code == 2 and told in done.err and not list(tmp_path.glob("[xs]*")), done.err
