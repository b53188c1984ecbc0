"""Failed logins cost time: twice as much each, by address, until one is right or the address has rested."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

FIRST_S, LAST_S = 0.5, 8.0
FREE = 2
"""So many mistakes in typing cost nothing."""
REST_S = 900.0
MAX_SOURCES = 4096


@dataclass
class Failures:
    """Of one server. sleep, clock: asyncio's and the machine's, but for tests."""

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    _seen: OrderedDict[str, tuple[int, float]] = field(default_factory=OrderedDict)

    def delay_s(self, source: str) -> float:
        """How long the next refusal of this address waits."""
        count = self._count(source)
        return 0.0 if count <= FREE else min(FIRST_S * 2.0 ** min(count - FREE - 1, 16), LAST_S)

    async def failed(self, source: str) -> None:
        """Counts a wrong token, and waits before it may be told."""
        self._seen[source] = (self._count(source) + 1, self.clock())
        self._seen.move_to_end(source)
        if len(self._seen) > MAX_SOURCES:
            self._seen.popitem(last=False)
        if delay := self.delay_s(source):
            await self.sleep(delay)

    def right(self, source: str) -> None:
        """The address knows the token."""
        self._seen.pop(source, None)

    def _count(self, source: str) -> int:
        count, at = self._seen.get(source, (0, 0.0))
        return count if self.clock() - at < REST_S else 0
