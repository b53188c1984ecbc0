"""Offsets of clients' clocks: the true one lies within the bound, whatever the way there and back takes."""

from __future__ import annotations

import random

import pytest

from naslab.execution.clients.clock import MOST_DRIFT_PPM, ClientClock, Exchange

SECOND = 1_000_000_000


class Remote:
    """A clock that is off and runs at another rate, behind a network whose two ways differ."""

    def __init__(self, rng: random.Random, offset_ns: int, drift_ppm: float) -> None:
        self.rng, self.offset_ns, self.drift_ppm = rng, offset_ns, drift_ppm

    def at(self, here_ns: int) -> int:
        return round(here_ns * (1 + self.drift_ppm / 1e6)) + self.offset_ns

    def exchange(self, now_ns: int) -> Exchange:
        there = round(self.rng.lognormvariate(12, 1.5))  # ~160 us, with a long tail
        back = round(self.rng.lognormvariate(12, 1.5)) * self.rng.choice((1, 1, 20))
        worked = self.rng.randrange(1_000, 50_000)
        return Exchange(
            now_ns, self.at(now_ns + there), self.at(now_ns + there + worked), now_ns + there + worked + back
        )


@pytest.mark.parametrize("seed", range(20))
def test_the_true_offset_lies_within_the_bound(seed: int) -> None:
    """Offsets of up to 2 s, drifts of up to 100 ppm, unequal ways; at any time of a run of ten minutes."""
    rng = random.Random(seed)
    remote = Remote(rng, rng.randrange(-2 * SECOND, 2 * SECOND), rng.uniform(-100, 100))
    clock, asked, within = ClientClock(), 0, 0
    now = 1000 * SECOND
    for round_ in range(600):
        for _ in range(16 if round_ == 0 else 1):
            exchange = remote.exchange(now)
            clock.add(exchange)
            now = exchange.t4 + rng.randrange(1_000_000)
        found = clock.offset(now)
        asked, within = asked + 1, within + (abs(found.offset_ns - (remote.at(now) - now)) <= found.bound_ns)
        assert not found.stepped
        now += SECOND
    assert within == asked


def test_bounds_are_narrow_where_the_way_is_short() -> None:
    rng = random.Random(1)
    remote = Remote(rng, 5 * SECOND, 20.0)
    clock = ClientClock()
    now = 0
    for _ in range(16):
        exchange = remote.exchange(now)
        clock.add(exchange)
        now = exchange.t4
    shortest = min(each.t4 - each.t1 - (each.t3 - each.t2) for each in clock.exchanges)
    assert clock.offset(now).bound_ns <= shortest, "half of it, and what the drift adds"


def test_there_and_here_are_each_others_inverse() -> None:
    clock = ClientClock()
    clock.add(Exchange(100, 1_000_150, 1_000_160, 220))
    at = 1_000_000
    assert abs(clock.here(clock.there(at)) - at) <= 2
    assert clock.there(at) - at == clock.offset(at).offset_ns


def test_a_clock_that_was_set_is_said_to_be() -> None:
    clock = ClientClock()
    clock.add(Exchange(0, 50, 60, 100))
    clock.add(Exchange(200, 5_000_250, 5_000_260, 300))
    assert clock.offset(300).stepped


def test_an_old_exchange_counts_for_less() -> None:
    clock = ClientClock()
    clock.add(Exchange(0, 50, 60, 100))
    early, late = clock.offset(100).bound_ns, clock.offset(10 * SECOND).bound_ns
    assert late >= early + 10 * SECOND * MOST_DRIFT_PPM / 1e6 - 1


@pytest.mark.parametrize("exchange", [Exchange(10, 0, 0, 5), Exchange(0, 10, 5, 20)])
def test_times_that_run_backwards_are_refused(exchange: Exchange) -> None:
    with pytest.raises(ValueError, match="backwards"):
        ClientClock().add(exchange)


def test_nothing_is_known_before_the_first_exchange() -> None:
    with pytest.raises(ValueError, match="no exchange"):
        ClientClock().offset(0)


def test_a_clock_is_read_while_exchanges_are_added() -> None:
    """The loop that calls clients adds one as the results of a cell are merged in another thread."""
    clock = ClientClock()
    for at in range(4):
        clock.add(Exchange(at * 1000, at * 1000 + 10, at * 1000 + 20, at * 1000 + 30))
    seen = iter(clock.exchanges)
    next(seen)
    clock.add(Exchange(9000, 9010, 9020, 9030))
    assert len([*seen]) == 3 and len(clock.exchanges) == 5
