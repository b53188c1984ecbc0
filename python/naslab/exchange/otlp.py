"""`naslab export --otlp`: runs as metrics to an OpenTelemetry collector, by OTLP over HTTP and OpenTelemetry's own SDK.

Names and labels are those of Prometheus pages (`samples`), so that a collector that passes them on to Prometheus fills
the same dashboard; each value has the time of its cell. Headers, certificates and time limits are those of the SDK's
variables (OTEL_EXPORTER_OTLP_HEADERS and others). Sources: OpenTelemetry Protocol specification 1.5; OpenTelemetry,
"Prometheus and OpenMetrics Compatibility"; UCUM for units.
"""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from naslab import __version__
from naslab.errors import NaslabError, UsageError
from naslab.exchange.samples import ENDED, Family, Sample, conclusions, kept, of_runs

if TYPE_CHECKING:
    import requests
    from opentelemetry.sdk.metrics.export import MetricsData

    from naslab.results.run import Run

UNITS = {"bytes_per_second": "By/s", "bytes": "By", "seconds": "s", "ratio": "1", "": ""}
"""By UCUM, of the units of families."""
PATH = "/v1/metrics"
MOST_POINTS = 2000
"""In one request: a collector takes 4 MiB."""
MISSING = "--otlp needs OpenTelemetry's SDK, which is not installed: pip install 'naslab[otlp]'"


def endpoint(text: str) -> str:
    """Where metrics go: `http://HOST:4318` with the path that OTLP has, another path as it is. Raises UsageError."""
    try:
        parts = urlsplit(text)
        port_fits = parts.port != 0
    except ValueError:
        parts, port_fits = urlsplit(""), False
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_fits:
        raise UsageError(f"--otlp {text}: no address of a collector; write http://HOST:4318")
    if parts.username is not None or parts.password is not None:
        # what is typed can be read by every user of the machine, and is kept in the shell's history
        raise UsageError(
            f"--otlp: no password in the address; put it into OTEL_EXPORTER_OTLP_HEADERS: {parts.hostname}"
        )
    return urlunsplit(parts._replace(path=PATH)) if parts.path in ("", "/") else text


def send(runs: Sequence[Run], where: str) -> int:
    """Sends all that runs say to a collector, whose address `endpoint` checked; how many values those were.

    Raises UsageError where the SDK is missing, NaslabError where the collector did not take them.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http import Compression
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.metrics.export import MetricExportResult
    except ImportError as error:
        raise UsageError(MISSING) from error
    data, count = _metrics(runs)
    with _kept_words() as words, _session(words) as session:
        exporter = OTLPMetricExporter(
            where, compression=Compression.Gzip, max_export_batch_size=MOST_POINTS, session=session
        )
        result = exporter.export(data)
        exporter.shutdown()
    if result is not MetricExportResult.SUCCESS:
        raise NaslabError(f"--otlp {where}: {_reason(words)}; does a collector listen there for OTLP over HTTP?")
    return count


def _metrics(runs: Sequence[Run]) -> tuple[MetricsData, int]:
    from opentelemetry.sdk.metrics import export
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    now, points = time.time_ns(), dict[tuple[str, str, str], list[Any]]()
    for family, sample in _samples(runs):
        unit = UNITS[family.unit] if sample.name == family.name else ""
        value = sample.value if sample.scale == 1 else sample.value * sample.scale
        when = sample.wall_ns or now  # of runs from other tools, which do not tell it
        point = export.NumberDataPoint(kept(sample.labels), when, when, value)
        points.setdefault((sample.name, family.about, unit), []).append(point)
    metrics = [export.Metric(*named, export.Gauge(found)) for named, found in points.items()]
    about = Resource.create({"service.name": "naslab", "service.version": __version__})
    scope = export.ScopeMetrics(InstrumentationScope("naslab", __version__), metrics, "")
    return export.MetricsData([export.ResourceMetrics(about, [scope], "")]), sum(map(len, points.values()))


def _samples(runs: Sequence[Run]) -> Iterator[tuple[Family, Sample]]:
    parts = [of_runs(runs), *map(conclusions, runs)]
    yield from ((family, sample) for found in parts for family, samples in found for sample in samples)
    for run in runs:
        document, ended_ns = run.document, run.document.get("end_wall_ns")
        if ended_ns:
            labels = {
                "target": document["target"].get("url"), "run": run.run_id, "command": document["command"],
                "status": document["status"],
            }  # fmt: skip
            yield ENDED, Sample(ENDED.name, labels, ended_ns / 1e9, 1, ended_ns)


@contextlib.contextmanager
def _kept_words() -> Iterator[list[str]]:
    """What the SDK logs: the only place where it says why something was not sent."""
    words: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: words.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("opentelemetry")
    before, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield words
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


@contextlib.contextmanager
def _session(words: list[str]) -> Iterator[requests.Session]:
    """The SDK's way to the collector. It logs what failed only where it has time for another try."""
    import requests

    class Session(requests.Session):
        def request(self, *args: Any, **more: Any) -> requests.Response:
            try:
                return super().request(*args, **more)
            except requests.RequestException as error:
                words.append(str(error))
                raise

    with Session() as session:
        yield session


def _reason(words: Sequence[str]) -> str:
    """What the system or the collector said, without the SDK's own words around it."""
    said = " ".join(words)
    if found := re.search(r"\[Errno -?\d+\] ([^'\")]+)", said):
        return found[1].lower()
    if found := re.search(r"code: (\d+), reason: ([^.]*)", said) or re.search(r"code: (None), reason: (.*)", said):
        return f"the answer was {found[1]}, {found[2]}" if found[1] != "None" else found[2]
    return words[0] if words else "no answer"
