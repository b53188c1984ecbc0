"""The search for the number of streams that a target holds."""

from __future__ import annotations

import pytest

from naslab.commands.apps.capacity import Search, can_multiply, is_held, multiplied, step_of, streams_of
from naslab.commands.apps.generate import plan
from naslab.commands.apps.model import definitions


@pytest.mark.parametrize(("first", "step"), [(1, 1), (4, 1), (4, 4)])
@pytest.mark.parametrize("truth", [*range(20), 63, 64, 65, 1000])
def test_the_search_finds_the_number(first: int, step: int, truth: int) -> None:
    search = Search(first, step, most=1024)
    search.run(lambda streams: streams <= truth)
    assert search.held == truth // step * step and search.failed == search.held + step
    assert len(search.tried) == len(set(search.tried)) <= 22 and all(one % step == 0 for one in search.tried)


def test_the_search_ends_at_the_most() -> None:
    search = Search(3, 3, most=100)
    search.run(lambda _: True)
    assert search.held == 99 and search.failed is None


def test_the_search_gives_up() -> None:
    search = Search(1, 1)
    search.run(lambda streams: True if streams < 8 else None)
    assert (search.held, search.failed, search.tried) == (4, None, [1, 2, 4])


def test_more_streams_are_each_as_long_and_as_fast() -> None:
    for name, streams in (("HDVideo_4Play", 7), ("VideoEdit_4K", 12)):
        own = definitions()[name]
        one, more = plan(own, scale=0.01), plan(multiplied(own, streams), scale=0.01)
        assert len(more.streams) == streams and more.duration_ns == one.duration_ns and more.order is None
        for kind in ("read", "write"):
            assert more.moved_bytes(kind) == pytest.approx(one.moved_bytes(kind) * streams / streams_of(own), rel=1e-4)


def test_what_can_grow() -> None:
    able = {name for name, one in definitions().items() if can_multiply(one)}
    assert {"HDVideo_1Play", "HDVideo_4Play", "VideoEdit_4K"} <= able
    assert not able & {"FileCopyToNAS", "OfficeProductivity", "HDVideo_1Play_Office", "ContentCreation"}
    assert step_of(definitions()["HDVideo_4Play"]) == 1 and step_of(definitions()["VideoEdit_4K"]) == 4


def test_what_is_held() -> None:
    made = plan(definitions()["HDVideo_1Play"], scale=0.1)
    assert made.duration_ns == 60 * 10**9
    good = {"status": "complete", "errors": 0, "missed_starts": 0, "window_ns": 60_600_000_000}
    assert is_held(made, good)
    for change in ({"status": "partial"}, {"errors": 1}, {"missed_starts": 1}, {"window_ns": 60_600_000_001}):
        assert not is_held(made, good | change)
