"""Pages and downloads kept until the store changes, so that what is asked for again is not made again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeVar

from naslab.results.store.library import Library

MOST_BYTES = 64_000_000
MOST_OF_ONE = MOST_BYTES // 8
"""What is larger is made each time, rather than to push all others out."""
Made = TypeVar("Made", str, bytes)


class Pages:
    """Texts and files by what was asked. A change of the store by anyone forgets them all."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._lock = threading.Lock()
        self._made: OrderedDict[Hashable, str | bytes] = OrderedDict()
        self._bytes = 0
        self._stamp: object = None

    def get(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What `make` makes for `key`, where it is not kept. A key is for one kind. Raises what `make` does."""
        stamp = self._library.stamp()
        with self._lock:
            if stamp != self._stamp:
                self._made.clear()
                self._stamp, self._bytes = stamp, 0
            if key in self._made:
                self._made.move_to_end(key)
                return self._made[key]  # type: ignore[return-value]
        made = make()
        with self._lock:
            if stamp == self._stamp and key not in self._made and len(made) <= MOST_OF_ONE:
                self._made[key] = made
                self._bytes += len(made)
                while self._bytes > MOST_BYTES:
                    self._bytes -= len(self._made.popitem(last=False)[1])
        return made
