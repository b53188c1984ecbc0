"""Facts and cells in the words that people read."""

from __future__ import annotations

from typing import Any

import pytest

from naslab.render.terminal.facts import fact
from naslab.results.cell_names import load_name, stage_words, test_name

test_name.__test__ = False  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("disk_read_bytes", 381_853_696, ("disk read", "364 MiB")),
        ("link_bytes_per_s", 125_000_000, ("link", "125 MB/s")),
        ("link_bits_per_s", 2_500_000_000, ("link", "2.50 Gbit/s")),
        ("wait_ns", 235_000, ("wait", "235 µs")),
        ("bytes_written", 4096, ("bytes written", "4,096")),
        ("rsize_bytes", 1_048_576, ("rsize", "1,048,576 bytes")),
        ("free_bytes", 0, ("free", "0")),
        ("seed", 1_234_567, ("seed", "1234567")),
        ("simulated", True, ("simulated", "yes")),
        ("load_1min", 3.694_2, ("load 1min", "3.69")),
        ("size_bytes", "unlimited", ("size bytes", "unlimited")),
        ("left_ns", -1, ("left ns", "-1")),
    ],
)
def test_a_fact_has_its_unit_beside_the_value(name: str, value: Any, told: tuple[str, str]) -> None:
    assert fact(name, value) == told


def test_a_cell_is_named_by_what_it_did_and_what_for() -> None:
    cell = {"op": "random_read", "record_bytes": 4096, "queue_depth": 4, "workers": 2, "workload": "probe"}
    assert test_name(cell) == "Random read (quick test)"
    assert test_name({**cell, "workload": None}) == "Random read"
    assert (
        test_name({**cell, "workload": "PhotoAlbum"}) == load_name({**cell, "workload": "PhotoAlbum"}) == "PhotoAlbum"
    )
    assert load_name(cell).startswith("4 KiB random reads, queue depth 4, 2 workers")
    assert load_name({**cell, "queue_depth": 1, "workers": 1, "workload": None}) == "4 KiB random reads"
    assert stage_words("ladder") == "experiment" and stage_words(None) == "" and stage_words("my-job") == "my-job"
