"""What a user names, as a run: a stored run, a file naslab wrote, a published result, or another tool's output."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from naslab.errors import BadStoreError
from naslab.exchange.references import load

if TYPE_CHECKING:
    from naslab.results.run import Run
    from naslab.results.store import Store


def open_runs(reference: str, store: Store) -> list[tuple[str, Run]]:
    """(name, run) of each run that a reference names: a file of another tool may hold several.

    Raises UnknownRunError, UsageError or StoreError.
    """
    if reference.startswith("published:") or not Path(reference).is_file():
        return [(reference, load(store, reference))]
    path = Path(reference)
    if path.suffix.lower() == ".json":
        try:
            return [(reference, load(store, str(path.absolute())))]
        except BadStoreError:
            pass  # perhaps JSON of another tool
    return _imported(path)


def _imported(path: Path) -> list[tuple[str, Run]]:
    from naslab.exchange.importers.build import Asked, import_files

    runs, _ = import_files([path], Asked({}, "", "", False))
    return [(str(path), run) for run in runs]
