"""The results room: the run document, its schema, and `Run`, which readers use."""

from __future__ import annotations

from naslab.results.columns import LATENCY_NAMES
from naslab.results.document import (
    SCHEMA,
    CellDocument,
    RunDocument,
    cell_blobs,
    cell_document,
    iso_utc,
    new_document,
    warning,
)
from naslab.results.run import Run

__all__ = [
    "LATENCY_NAMES",
    "SCHEMA",
    "CellDocument",
    "Run",
    "RunDocument",
    "cell_blobs",
    "cell_document",
    "iso_utc",
    "new_document",
    "warning",
]
