"""The page /metrics: which runs it shows, and their texts, kept from one request to the next."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from naslab.errors import NaslabError
from naslab.exchange import scrape
from naslab.exchange.redact import Outgoing, target_name
from naslab.results.store.store import Store

if TYPE_CHECKING:
    from naslab.results.store.library import Library, OfTarget

MAX_TARGETS = 20
"""Targets on the page, those measured last: each has about twenty series for each cell of its run."""


class Metrics:
    """The newest run of each target as text. redacted: without names of hosts, shares, users and folders."""

    def __init__(self, library: Library, redacted: bool = False) -> None:
        self.library, self.redacted = library, redacted
        self._lock = threading.Lock()
        self._texts: dict[str, list[str]] = {}

    def text(self) -> str:
        """The page. A run that cannot be read has no numbers, and `damaged` as its status. Raises StoreError."""
        with self._lock:
            targets = self.library.newest_of_targets()
            store = self._store(targets)
            shown = sorted(targets, key=lambda each: each.last_wall_ns, reverse=True)[:MAX_TARGETS]
            self._texts = {each.run_id: self._of(store, each) for each in shown if each.run_id}
            ended = list(scrape.ended_lines((self._labels(store, each), each.last_wall_ns) for each in shown))
            return scrape.joined([ended, *self._texts.values()])

    def _store(self, targets: Iterable[OfTarget]) -> Store:
        """Where runs are read. Names are given in the order in which targets came: a later one changes no earlier."""
        if not self.redacted:
            return self.library.store
        store = Outgoing(self.library.store.path)
        for each in sorted(targets, key=lambda each: each.first_seq):
            target_name(each.target, "", store.names)
        return store

    def _of(self, store: Store, each: OfTarget) -> list[str]:
        if each.run_id in self._texts:
            return self._texts[each.run_id]
        try:
            return list(scrape.run_lines(store.load_id(each.run_id)))
        except NaslabError:
            return []

    def _labels(self, store: Store, each: OfTarget) -> dict[str, str]:
        target = target_name(each.target, "", store.names) if isinstance(store, Outgoing) else each.target
        damaged = each.last_run_id == each.run_id and not self._texts.get(each.run_id)
        status = "damaged" if damaged else each.last_status
        return {"target": target, "run": each.last_run_id, "command": each.last_command, "status": status}
