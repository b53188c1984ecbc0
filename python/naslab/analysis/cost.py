"""What a megabyte a second and a moved terabyte cost, from a price and the measured rates.

A month has 730 hours, as cloud price lists count it. Money is a plain number in the currency of the price.
"""

from __future__ import annotations

from dataclasses import dataclass

from naslab.errors import UsageError

HOURS_PER_MONTH = 730
BYTES_PER_MB = 10**6
BYTES_PER_GB = 10**9
BYTES_PER_TIB = 1 << 40
_S_PER_HOUR = 3600


@dataclass(frozen=True)
class Price:
    """What the server costs while it runs.

    per_hour, per_month: for the whole server. per_gb_month: for each 10^9 bytes of stored_bytes a month. What
    is given is added up. Raises UsageError when nothing is given, for a negative price, and for a price per GB
    without stored_bytes.
    """

    per_hour: float = 0.0
    per_month: float = 0.0
    per_gb_month: float = 0.0
    stored_bytes: int = 0

    def __post_init__(self) -> None:
        parts = (self.per_hour, self.per_month, self.per_gb_month)
        if min(parts) < 0 or self.stored_bytes < 0:
            raise UsageError("a price cannot be negative")
        if not any(parts):
            raise UsageError("no price given: name one per hour, per month or per GB and month")
        if self.per_gb_month and not self.stored_bytes:
            raise UsageError("a price per GB needs the size of the storage it is paid for")

    @property
    def month(self) -> float:
        """Cost of a month of 730 hours."""
        return self.per_month + self.per_hour * HOURS_PER_MONTH + self.per_gb_month * self.stored_bytes / BYTES_PER_GB

    @property
    def hour(self) -> float:
        """Cost of an hour: a month's by 730."""
        return self.month / HOURS_PER_MONTH


@dataclass(frozen=True)
class RateCost:
    """per_mb_per_s_month: a month's cost for each MB/s (10^6). per_tib_moved: cost of the time 2^40 bytes take."""

    bytes_per_s: float
    per_mb_per_s_month: float
    per_tib_moved: float


@dataclass(frozen=True)
class Cost:
    """per_hour, per_month: of the server. sustained: at the rate it can hold; burst: None where it has none."""

    per_hour: float
    per_month: float
    sustained: RateCost
    burst: RateCost | None


def cost_at(price: Price, bytes_per_s: float) -> RateCost:
    """Cost of one rate. Raises UsageError when the rate is not above 0."""
    if not bytes_per_s > 0:
        raise UsageError(f"a cost needs a rate above 0, not {bytes_per_s}")
    moving_hours = BYTES_PER_TIB / bytes_per_s / _S_PER_HOUR
    return RateCost(bytes_per_s, price.month / (bytes_per_s / BYTES_PER_MB), price.hour * moving_hours)


def cost_of(price: Price, sustained_bytes_per_s: float, burst_bytes_per_s: float | None = None) -> Cost:
    """Cost of a measured server. Raises UsageError when a rate is not above 0."""
    burst = None if burst_bytes_per_s is None else cost_at(price, burst_bytes_per_s)
    return Cost(price.hour, price.month, cost_at(price, sustained_bytes_per_s), burst)
