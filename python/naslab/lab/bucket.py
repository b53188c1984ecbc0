"""Credit for bytes: the token bucket that the lab plants, and how one is written."""

from __future__ import annotations

from dataclasses import dataclass

from naslab.errors import UsageError
from naslab.units import parse_size

NS_PER_S = 1_000_000_000
TICK_NS = 20_000_000
_LEAST_TICK_NS = 1_000_000
_UNLOCK_NS = NS_PER_S // 4
SLICE_NS = NS_PER_S // 10
"""What the block layer's throttle lets through at once after a change or a pause (DFL_THROTL_SLICE of blk-throttle)."""


@dataclass(frozen=True)
class Plan:
    """A bucket: at most burst_bytes_per_s while there is credit, base_bytes_per_s without; size_bytes of credit at
    most, earned at base_bytes_per_s. A run from a full bucket moves size_bytes above the base.
    """

    burst_bytes_per_s: int
    base_bytes_per_s: int
    size_bytes: int

    @classmethod
    def parse(cls, system: str, burst: str, base: str, size: str) -> Plan:
        """From `120MB/s`, `24MB/s`, `400MB`. Raises UsageError naming what cannot be."""
        plan = cls(_rate(system, "burst", burst), _rate(system, "base", base), parse_size(size, f"{system}: size"))
        if plan.base_bytes_per_s < 1 << 16 or plan.size_bytes < 1 << 20:
            raise UsageError(f"{system}: base={base!r}, size={size!r}; give at least 64KiB/s and 1MiB")
        if plan.burst_bytes_per_s <= plan.base_bytes_per_s:
            raise UsageError(f"{system}: burst={burst!r} is not above base={base!r}; give a higher one")
        return plan

    def facts(self) -> dict[str, int]:
        """As JSON."""
        return {
            "burst_bytes_per_s": self.burst_bytes_per_s, "baseline_bytes_per_s": self.base_bytes_per_s,
            "size_bytes": self.size_bytes,
        }  # fmt: skip


def _rate(system: str, name: str, text: str) -> int:
    return parse_size(text.strip().removesuffix("/s"), f"{system}: {name}")


class Credit:
    """Follows what was moved, and says which limit holds until when.

    Time is measured and not assumed, and what is moved beyond the credit is a debt, so that a late tick does not add
    up. The kernel's throttle begins its account anew when its limit changes and lets a tenth of a second's worth
    through at once: the limit falls so much earlier, and is otherwise left alone. It returns to the burst only when a
    quarter of a second's credit has come together: a rate that swings between burst and base would be no floor.
    """

    def __init__(self, plan: Plan, now_ns: int, moved_bytes: int) -> None:
        self.plan = plan
        self.credit_bytes = float(plan.size_bytes)
        self.limit_bytes_per_s = plan.burst_bytes_per_s
        self._at_ns, self._moved_bytes = now_ns, moved_bytes
        self._lead_bytes = plan.base_bytes_per_s * SLICE_NS / NS_PER_S
        self._unlock_bytes = min(plan.base_bytes_per_s * _UNLOCK_NS / NS_PER_S, plan.size_bytes / 2)

    def step(self, now_ns: int, moved_bytes: int) -> int:
        """The counter stands at moved_bytes: sets `limit_bytes_per_s`; nanoseconds until it must be called again."""
        plan = self.plan
        earned = plan.base_bytes_per_s * (now_ns - self._at_ns) / NS_PER_S
        credit = self.credit_bytes + earned - (moved_bytes - self._moved_bytes)
        # A throttle that gives a little more than the base must not make a debt that takes minutes to pay back.
        self.credit_bytes = min(plan.size_bytes, max(credit, -self._unlock_bytes))
        self._at_ns, self._moved_bytes = now_ns, moved_bytes
        bursting = self.limit_bytes_per_s == plan.burst_bytes_per_s
        left = self.credit_bytes - (self._lead_bytes if bursting else self._unlock_bytes)
        self.limit_bytes_per_s = plan.burst_bytes_per_s if left > 0 else plan.base_bytes_per_s
        if left <= 0:
            return TICK_NS
        drains = plan.burst_bytes_per_s - plan.base_bytes_per_s
        return min(TICK_NS, max(_LEAST_TICK_NS, int(left / drains * NS_PER_S)))
