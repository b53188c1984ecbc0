"""What makes the numbers of a run doubtful, gathered while it is measured: warnings, and the figures behind them.

`ValidityWatch` belongs to one execution. It looks at files that naslab did not write, watches this machine, judges each
cell as it ends, and at the end the whole run. What it finds is in `warnings` in words and in `validity` as numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from naslab.analysis.findings import Finding
from naslab.analysis.validity import cell_findings, run_findings
from naslab.client import own_servers
from naslab.client.kept import recent
from naslab.client.route import Route, route_to_all
from naslab.client.watch import Watch, watch_for
from naslab.results.describe import plain
from naslab.spec import CellSpec, RunSpec
from naslab.targets.unwritten import WRITTEN_SHARE, written_share
from naslab.units import amount_text

if TYPE_CHECKING:
    from pathlib import Path

    from naslab.targets import Target

_MOST_FILES = 64
"""Of a run with more files that were there before, only so many are looked at."""


class ValidityWatch:
    """Of one run. document: as it grows; its `client_ceiling` and `environment` are read."""

    def __init__(self, document: Mapping[str, Any], target: Target, spec: RunSpec) -> None:
        self._document, self._target, self._spec = document, target, spec
        self._found: dict[int | None, list[Finding]] = {}
        self._earlier = list(document.get("validity") or [])
        self._looked: set[str] = set()
        self._watch: Watch | None = watch_for(document, _ours(target))

    def files(self, cells: Sequence[CellSpec]) -> list[dict[str, Any]]:
        """Looks at files that are about to be read and were there before: warnings about those not wholly written."""
        if self._spec.folder is not None or self._target.protocol in ("sim", "null"):
            return []
        told = []
        for cell in cells:
            for name in cell.files:
                if name in self._looked or len(self._looked) >= _MOST_FILES:
                    continue
                self._looked.add(name)  # a file that is written first is whole when it is read
                if not (cell.writes() or cell.prime or cell.create != "never"):
                    told += self._look_at(name, cell.file_bytes)
        return told

    def _look_at(self, name: str, size_bytes: int) -> list[dict[str, Any]]:
        share = written_share(self._target, name, size_bytes)
        if share is None or share >= WRITTEN_SHARE:
            return []
        text = (
            f"{name}: only {amount_text(round(share * size_bytes))} of {amount_text(size_bytes)} hold data: the rest "
            "was never written, or was compressed, and reading it needs no disk; write it first (naslab mkfile)"
        )
        return self._keep(None, [Finding("unwritten", text, None, share, "fraction", WRITTEN_SHARE)])

    def before(self) -> None:
        """A cell is about to be measured."""
        if self._watch is not None:
            self._watch.before()

    def progress(self, event: Mapping[str, Any]) -> None:
        """The engine's event of a cell under way."""
        if self._watch is not None:
            self._watch.progress(event)

    def cell(self, cell: Mapping[str, Any], spec: CellSpec) -> list[dict[str, Any]]:
        """A cell ended: what a reader of it must know."""
        if self._watch is not None:
            self._watch.after(cell)
        self._found.pop(cell["id"], None)
        return self._keep(cell["id"], cell_findings(cell, self._document, spec))

    def finish(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Warnings about the whole run, and what becomes part of the document: `validity`, `environment`."""
        whole = [*(self._watch.findings() if self._watch else []), *run_findings(self._document)]
        found = [*(each for of_cell in self._found.values() for each in of_cell), *whole]
        updates: dict[str, Any] = {"validity": [*self._earlier, *(each.entry() for each in found)]}
        if self._watch is not None:
            updates["environment"] = {**self._document["environment"], "during": self._watch.summary()}
        return [each.warning() for each in whole], updates

    def _keep(self, cell: int | None, found: Iterable[Finding]) -> list[dict[str, Any]]:
        fresh = list(found)
        self._found.setdefault(cell, []).extend(fresh)
        return [each.warning() for each in fresh]


def found_at_start(target: Target, facts: Mapping[str, Any], store: Path) -> dict[str, Any]:
    """(parts of the environment, `route` and perhaps `client_ceiling`) that later judgements rest on.

    facts: of the target. A simulated target has neither: its client is simulated, too.
    """
    if target.protocol in ("sim", "null"):
        return {}
    hosts = addresses_of(target, facts)
    route: Route | None = route_to_all(hosts) if hosts else None
    ceiling = recent(store)
    return {
        **({"route": route} if route else {}),
        **({"client_ceiling": plain(ceiling)} if ceiling else {}),
    }


def addresses_of(target: Target, facts: Mapping[str, Any]) -> list[str]:
    """Where a target's server is reached: the addresses that are used, its host's name, or what a mount says."""
    if used := facts.get("addresses"):
        return str(used).split()
    host = facts.get("mount_address") if target.protocol == "local" else target.options.get("host")
    return [str(host)] if host else []


def _ours(target: Target) -> Callable[[], list[int]] | None:
    """Trees of processes that serve a lab: target on this machine."""
    if target.lab is None:
        return None
    return partial(own_servers.supervisors, target.lab["name"])
