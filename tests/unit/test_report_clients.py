"""Pictures of many clients hold the numbers of the document."""

from __future__ import annotations

from typing import Any

import pytest

from naslab.render.report.clients import by_client, by_number, of_server

MB = 1e6
DOCUMENT: dict[str, Any] = {"environment": {"clients": [{"client": 0, "host": "a"}, {"client": 1, "host": "b<i>"}]}}


def test_a_bar_for_each_client_and_a_line_at_an_even_share() -> None:
    each = [
        {"client": at, "bytes_per_s": rate * MB, "start_offset_ns": at * 1_000_000, "errors": at}
        for at, rate in enumerate((30.0, 10.0))
    ]
    figure = by_client({"clients": {"count": 2, "each": each, "stragglers": [1]}}, DOCUMENT)
    (bars,) = figure["data"]
    assert bars["x"] == [30.0, 10.0] and bars["customdata"] == [[0.0, 0], [1.0, 1]]
    assert bars["y"][0] == "client 0 (a)" and "<i>" not in bars["y"][1], "names are no markup"
    assert len(set(bars["marker"]["color"])) == 2, "the straggler is marked"
    assert [line["x0"] for line in figure["layout"]["shapes"]] == [20.0]


def scaling(limit: float | None) -> dict[str, Any]:
    rungs = [
        {"clients": n, "bytes_per_s": min(10 * n, 25) * MB, "ci95_bytes_per_s": [min(10 * n, 25) * MB - 1, 26 * MB]}
        for n in (1, 2, 4)
    ]
    return {
        "rungs": rungs, "one_client_bytes_per_s": 10 * MB, "limit_bytes_per_s": limit,
        "knee_clients": limit and limit / (10 * MB),
    }  # fmt: skip


@pytest.mark.parametrize(("limit", "bend", "top"), [(25 * MB, 2.5, 25.0), (None, 4.0, 40.0)])
def test_the_line_bends_at_the_knee(limit: float | None, bend: float, top: float) -> None:
    line, points = by_number(scaling(limit))["data"]
    assert (line["x"], line["y"][-1]) == ([0.0, bend, 4.0], top)
    assert (points["x"], points["y"]) == ([1, 2, 4], [10.0, 20.0, 25.0])
    assert points["error_y"]["array"] == [16.0, 6.0, 1.0]


def test_what_hardly_moved_is_left_out() -> None:
    sample = {
        "at_ns": 1_000_000_000, "cpu_fraction": 0.5,
        "disks": {"sda": {"read_bytes_per_s": 50 * MB, "write_bytes_per_s": 0.0, "busy_fraction": 0.9}},
        "nets": {"eth0": {"received_bytes_per_s": 100.0, "sent_bytes_per_s": 51 * MB}},
    }  # fmt: skip
    busy, moved = of_server({"samples": [sample, {**sample, "at_ns": 2_000_000_000, "disks": {}}]})
    assert {line["name"]: line["y"] for line in busy["data"]} == {"Processors": [50.0, 50.0], "Disk sda": [90.0, 0.0]}
    assert {line["name"]: line["y"] for line in moved["data"]} == {"sda read": [50.0, 0.0], "eth0 sent": [51.0, 51.0]}
    assert busy["data"][0]["x"] == [1.0, 2.0]
