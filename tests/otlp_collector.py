"""A collector of OpenTelemetry metrics over HTTP, which reads by the protocol's own definitions."""

from __future__ import annotations

import contextlib
import gzip
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest


@dataclass
class Collector:
    """Takes what is sent, or answers with a code and nothing else."""

    url: str = ""
    answer: int = 200
    requests: list[ExportMetricsServiceRequest] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    def points(self) -> dict[str, list[tuple[dict[str, Any], float, int]]]:
        """(labels, value, time) by metric."""
        found: dict[str, list[tuple[dict[str, Any], float, int]]] = {}
        for request in self.requests:
            for metric in (m for r in request.resource_metrics for s in r.scope_metrics for m in s.metrics):
                for point in metric.gauge.data_points:
                    labels = {
                        each.key: getattr(each.value, each.value.WhichOneof("value")) for each in point.attributes
                    }
                    value = point.as_int if point.HasField("as_int") else point.as_double
                    found.setdefault(metric.name, []).append((labels, value, point.time_unix_nano))
        return found

    def units(self) -> dict[str, str]:
        """Of each metric."""
        request = self.requests[0]
        return {m.name: m.unit for r in request.resource_metrics for s in r.scope_metrics for m in s.metrics}


@contextlib.contextmanager
def listening() -> Iterator[Collector]:
    """A collector on a port of its own, until the block ends."""
    kept = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            kept.paths.append(self.path)
            kept.headers.append({name.lower(): value for name, value in self.headers.items()})
            if kept.answer == 200:
                kept.requests.append(ExportMetricsServiceRequest.FromString(gzip.decompress(body)))
            self.send_response(kept.answer)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kept.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield kept
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
