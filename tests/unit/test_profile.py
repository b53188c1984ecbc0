"""The cells of `naslab profile`, and what is said of their rates."""

from __future__ import annotations

import dataclasses
import statistics
from typing import Any

import pytest
from msgspec.structs import replace

from naslab.analysis import position
from naslab.commands.plans import profile as profiles
from naslab.commands.plans.profile import ProfileOptions
from naslab.errors import UsageError
from naslab.render.report import profile as picture
from naslab.render.terminal import tables
from naslab.results.parts.cell import Latency
from naslab.results.parts.profile import ProfileDocument, Zone

OPTIONS = ProfileOptions(64 << 20, 1 << 20, 16, 64 << 20)


@pytest.mark.parametrize("size", [64 << 20, (64 << 20) + 12_345 * 4096, 17 << 20])
def test_zones_cover_the_file_in_order(size: int) -> None:
    options = dataclasses.replace(OPTIONS, size_bytes=size)
    cells = [cell for cell in profiles.profile_cells(options) if cell.workload == position.ZONE]
    length = options.zone_bytes
    walks = [cell.walk for cell in cells]
    assert [walk.base_bytes for walk in walks if walk] == [zone * length for zone in range(16)]
    assert all(walk and walk.len_bytes == cell.stop_bytes for walk, cell in zip(walks, cells, strict=True))
    assert size - 16 * length < 16 * 4096 and 16 * length <= size
    for cell in profiles.profile_cells(options):
        cell.validate()


def test_an_existing_file_is_only_read() -> None:
    cells = profiles.profile_cells(dataclasses.replace(OPTIONS, fill=False, file="mine.dat"))
    assert not any(cell.writes() or cell.remove_before or cell.create != "never" for cell in cells)
    assert {tuple(cell.files) for cell in cells} == {("mine.dat",)}
    assert [cell.workload for cell in cells[-2:]] == [position.RANDOM, position.BURST]


def test_a_sample_bounds_what_is_read() -> None:
    cells = profiles.profile_cells(dataclasses.replace(OPTIONS, sample_bytes=3 << 20))
    assert {cell.stop_bytes for cell in cells if cell.workload == position.ZONE} == {3 << 20}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"block_bytes": 0}, "--block 0"), ({"zones": 0}, "--zones 0"), ({"zones": 100}, "--zones 100"),
        ({"sample_bytes": 1000}, "--sample 1000"), ({"direct": True, "block_bytes": 1000}, "--block 1000"),
    ],
)  # fmt: skip
def test_wrong_options_are_named(more: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        profiles.check(dataclasses.replace(OPTIONS, **more))


def made(rates: list[float]) -> ProfileDocument:
    cells: list[dict[str, Any]] = [
        {"workload": "zone", "block": i, "id": i, "bytes": 1 << 20, "duration_ns": 1, "throughput_bytes_per_s": rate}
        for i, rate in enumerate(rates)
    ]
    cells.append({"workload": "burst", "bytes": 1, "ops": 1, "throughput_bytes_per_s": 3e8})
    latency = {**dict.fromkeys(Latency.__struct_fields__), "mean": 8_000_000, "p50": 8_000_000, "p99": 12_000_000}
    cells.append({"workload": "random access", "bytes": 1, "ops": 1, "latency_ns": latency})
    return position.profile_of(cells, dataclasses.replace(OPTIONS, zones=len(rates)))


def test_a_disk_that_slows_down_towards_its_end() -> None:
    found = made([(200 - 5 * i) * 1e6 for i in range(20)])
    assert found.head_bytes_per_s == pytest.approx(197.5e6) and found.tail_bytes_per_s == pytest.approx(107.5e6)
    assert found.slowest_bytes_per_s == 105e6 and found.fastest_bytes_per_s == 200e6
    # Zones of one length: all of it takes the sum of their times.
    assert found.mean_bytes_per_s == pytest.approx(20 / sum(1 / (200e6 - 5e6 * i) for i in range(20)))
    text = " ".join(position.sentences(found))
    assert "198 MB/s at the head, 108 MB/s at the tail" in text and "Burst: 300 MB/s" in text and "8 ms" in text
    assert "head and tail alike" in " ".join(position.sentences(made([100e6] * 5)))


def test_the_picture_holds_the_zones() -> None:
    figure = picture.by_position([("disk", made([200e6, 150e6, 100e6]))])
    assert figure["data"][0]["y"] == [200, 150, 100] and figure["data"][0]["x"][0] == 0
    assert len(list(tables.profile_rows(made([1e8] * 100)))) == tables.MAX_ROWS


def shown(file_bytes: int, rates: list[float]) -> ProfileDocument:
    zone = file_bytes // len(rates)
    zones = [Zone(at * zone, zone, rate, at) for at, rate in enumerate(rates)]
    return replace(made(rates), file_bytes=file_bytes, zones=zones, mean_bytes_per_s=statistics.harmonic_mean(rates))


def test_the_picture_has_the_zones_and_their_average() -> None:
    figure = picture.by_position([("a", shown(1 << 30, [100e6, 50e6, 100e6, 50e6]))])
    zones, average = figure["data"]
    assert zones["x"] == [0, 256, 512, 768] and zones["y"] == [100, 50, 100, 50]
    assert average["x"] == [0, 1024] and average["y"] == pytest.approx([200 / 3] * 2)
    assert figure["layout"]["xaxis"]["title"]["text"] == "Position (MiB)"
    both = picture.by_position([("a", shown(8 << 40, [1e8])), ("b", shown(1 << 30, [2e8]))])
    assert [trace["name"] for trace in both["data"]] == ["a", "b"]
    assert both["layout"]["xaxis"]["title"]["text"] == "Position (TiB)"
