"""Pictures of many clients hold the numbers of the document."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from naslab.render.report.clients import by_client, by_number, of_server
from naslab.results.parts.clients import (
    CellClients,
    ClientPart,
    DiskRates,
    MonitorDocument,
    MonitorSample,
    NetRates,
    Scaling,
    ScalingRung,
)

MB = 1e6
DOCUMENT: dict[str, Any] = {"environment": {"clients": [{"client": 0, "host": "a"}, {"client": 1, "host": "b<i>"}]}}


def test_a_bar_for_each_client_and_a_line_at_an_even_share() -> None:
    each = [
        ClientPart(
            client=at, bytes=1, ops=1, errors=at, status="complete", start_offset_ns=at * 1_000_000, duration_ns=1,
            bytes_per_s=rate * MB, cpu_ns=0, latency_ns={}, wire_bytes=None,
        )
        for at, rate in enumerate((30.0, 10.0))
    ]  # fmt: skip
    figure = by_client(CellClients(2, 0, 0, 0, 0, 1, 1, 1.0, 1.0, 1.0, 1.0, each, [1]), DOCUMENT)
    (bars,) = figure["data"]
    assert bars["x"] == [30.0, 10.0] and bars["customdata"] == [[0.0, 0], [1.0, 1]]
    assert bars["y"][0] == "client 0 (a)" and "<i>" not in bars["y"][1], "names are no markup"
    assert len(set(bars["marker"]["color"])) == 2, "the straggler is marked"
    assert [line["x0"] for line in figure["layout"]["shapes"]] == [20.0]


def scaling(limit: float | None) -> Scaling:
    rungs = [
        ScalingRung(n, 2, min(10 * n, 25) * MB, [min(10 * n, 25) * MB - 1, 26 * MB], min(10, 25 / n) * MB, False)
        for n in (1, 2, 4)
    ]
    knee = limit and limit / (10 * MB)
    return Scaling(10 * MB, limit, None, 25 * MB, knee, None, "unknown", rungs)


@pytest.mark.parametrize(("limit", "bend", "top"), [(25 * MB, 2.5, 25.0), (None, 4.0, 40.0)])
def test_the_line_bends_at_the_knee(limit: float | None, bend: float, top: float) -> None:
    line, points = by_number(scaling(limit))["data"]
    assert (line["x"], line["y"][-1]) == ([0.0, bend, 4.0], top)
    assert (points["x"], points["y"]) == ([1, 2, 4], [10.0, 20.0, 25.0])
    assert points["error_y"]["array"] == [16.0, 6.0, 1.0]


def test_what_hardly_moved_is_left_out() -> None:
    sample = MonitorSample(
        1_000_000_000, 0.5, 1, 1, 1, {"sda": DiskRates(50 * MB, 0.0, 0.9)}, {"eth0": NetRates(100.0, 51 * MB)}
    )
    later = replace(sample, at_ns=2_000_000_000, disks={})
    busy, moved = of_server(MonitorDocument("ssh://a", None, False, [sample, later]))
    assert {line["name"]: line["y"] for line in busy["data"]} == {"Processors": [50.0, 50.0], "Disk sda": [90.0, 0.0]}
    assert {line["name"]: line["y"] for line in moved["data"]} == {"sda read": [50.0, 0.0], "eth0 sent": [51.0, 51.0]}
    assert busy["data"][0]["x"] == [1.0, 2.0]
