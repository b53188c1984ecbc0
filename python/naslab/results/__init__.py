"""The results room: the run document, its schema, and `Run`, which readers use."""

from __future__ import annotations

from naslab.results.columns import LATENCY_NAMES
from naslab.results.document import (
    Document,
    cell_blobs,
    cell_document,
    iso_utc,
    new_document,
    warning,
)
from naslab.results.parts import SCHEMA
from naslab.results.run import Run

__all__ = [
    "LATENCY_NAMES",
    "SCHEMA",
    "Document",
    "Run",
    "cell_blobs",
    "cell_document",
    "iso_utc",
    "new_document",
    "warning",
]
