"""Offsets of clients' clocks from this machine's, with bounds that hold however unequal the two ways are.

One exchange has four timestamps: sent here (t1), received there (t2), sent there (t3), received here (t4). The offset,
theirs minus ours, lies in [t3 - t4, t2 - t1] whatever each way took (Cristian 1989; RFC 5905 section 8 takes the
middle). A clock that differs in rate widens that with the time since. All exchanges together leave the intersection,
whose middle is the estimate and whose half width the bound.
"""

from __future__ import annotations

from dataclasses import dataclass

MOST_DRIFT_PPM = 500
"""Of one clock against another: Linux slews no clock by more (adjtimex(2), 500 ppm)."""
KEPT = 64
"""Exchanges kept, those with the narrowest intervals at the time of the newest."""


@dataclass(frozen=True)
class Exchange:
    """Four timestamps in ns: t1 and t4 of this machine's clock, t2 and t3 of the client's."""

    t1: int
    t2: int
    t3: int
    t4: int

    def interval(self, at_ns: int) -> tuple[float, float]:
        """Least and greatest offset at a time of this machine's clock."""
        away = max(abs(at_ns - self.t1), abs(at_ns - self.t4)) * MOST_DRIFT_PPM / 1e6
        return self.t3 - self.t4 - away, self.t2 - self.t1 + away


@dataclass(frozen=True)
class Offset:
    """The client's clock minus this machine's, in ns, and how far off that can be; stepped: no offset fits all
    exchanges, so the clock was set or the machine stood still in between."""

    offset_ns: int
    bound_ns: int
    stepped: bool = False


@dataclass
class ClientClock:
    """What is known of one client's clock. The loop that calls clients adds to it while another thread reads: what was
    exchanged is replaced as a whole."""

    exchanges: tuple[Exchange, ...] = ()

    def add(self, exchange: Exchange) -> None:
        """One more exchange. Raises ValueError for one whose times run backwards."""
        if exchange.t4 < exchange.t1 or exchange.t3 < exchange.t2:
            raise ValueError(f"an exchange of timestamps runs backwards: {exchange}")
        kept = list(self.exchanges)
        if len(kept) == KEPT:
            kept.remove(max(kept, key=lambda each: _width(each.interval(exchange.t4))))
        self.exchanges = (*kept, exchange)

    def offset(self, at_ns: int) -> Offset:
        """At a time of this machine's clock. Raises ValueError where there was no exchange."""
        if not self.exchanges:
            raise ValueError("no exchange of timestamps yet")
        intervals = [each.interval(at_ns) for each in self.exchanges]
        low, high = max(each[0] for each in intervals), min(each[1] for each in intervals)
        if low > high:
            low, high = min(intervals, key=_width)
            return Offset(round((low + high) / 2), round((high - low) / 2), stepped=True)
        return Offset(round((low + high) / 2), -(-round(high - low) // 2))

    def there(self, at_ns: int) -> int:
        """What the client's clock shows at a time of this machine's."""
        return at_ns + self.offset(at_ns).offset_ns

    def here(self, there_ns: int) -> int:
        """This machine's time at which the client's clock shows `there_ns`."""
        last = self.exchanges[-1]
        near = there_ns - self.offset(last.t4).offset_ns
        return there_ns - self.offset(near).offset_ns


def _width(interval: tuple[float, float]) -> float:
    return interval[1] - interval[0]
