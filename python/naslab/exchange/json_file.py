"""A run as one JSON file: the run document, and its raw data in base64 under `blobs`."""

from __future__ import annotations

import base64
import binascii
import json
from pathlib import Path
from typing import Any

from naslab.errors import BadStoreError, StoreError, UnknownRunError
from naslab.results.parts import SCHEMA
from naslab.results.run import MemoryBlobs, Run

MAX_FILE_BYTES = 4 << 30


def json_text(run: Run, blobs: bool = True) -> str:
    """The document, one cell a line; with `blobs`, all that `load` needs: {"<cell id>": {"<name>": "<base64>"}}."""
    document: dict[str, Any] = dict(run.document)
    if blobs:
        document["blobs"] = {
            str(cell["id"]): {name: base64.b64encode(run.blob(cell, name)).decode() for name in run.blob_names(cell)}
            for cell in run.cells
        }
    try:
        parts = [
            f'"{key}": {_lines(value) if key in ("cells", "blobs") else _dump(value)}'
            for key, value in document.items()
        ]
    except ValueError as error:
        raise StoreError(f"run {run.run_id} has a number that JSON cannot represent: {error}") from error
    return "{" + ",\n ".join(parts) + "}\n"


def read_json(path: Path) -> Run:
    """The run in a file that `naslab export` (or `--json`) wrote.

    Raises UnknownRunError when there is no such file, StoreError when it is something else or of a newer naslab.
    """
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise BadStoreError(f"{path} is above {MAX_FILE_BYTES} bytes; it is not a run exported by naslab")
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        raise UnknownRunError(f"there is no file {path}; name a run by its id (naslab runs), or a file") from error
    except (OSError, ValueError, RecursionError) as error:
        raise BadStoreError(f"{path} is not a run exported by naslab: {error}") from error
    return run_from_object(found, str(path))


def run_from_object(found: Any, what: str) -> Run:
    """The run in parsed JSON. Raises StoreError naming `what` when it is not a run document."""
    if not isinstance(found, dict) or not isinstance(found.get("schema"), int) or "run_id" not in found:
        raise BadStoreError(f"{what} is not a run exported by naslab: it has no schema and run_id")
    if found["schema"] > SCHEMA:
        raise BadStoreError(f"{what} has schema {found['schema']} and this naslab knows {SCHEMA}: upgrade naslab")
    document = {key: value for key, value in found.items() if key != "blobs"}
    _check_shape(document, what)
    return Run(document, MemoryBlobs(_read_blobs(found.get("blobs") or {}, what)))


def _check_shape(document: dict[str, Any], what: str) -> None:
    from naslab.results.shape import fault, leaf_fault  # the types of all parts: only reading needs them

    try:
        wrong = leaf_fault(document) or fault(document)
    except RecursionError:
        wrong = "it is nested too deeply"
    if wrong:
        raise BadStoreError(f"{what} is not a run exported by naslab: {wrong}")
    ids = [cell["id"] for cell in document["cells"]]
    if len(set(ids)) != len(ids):
        raise BadStoreError(f"{what} is not a run exported by naslab: its cells have no ids of their own")


def _read_blobs(found: Any, what: str) -> dict[int, dict[str, bytes]]:
    try:
        return {
            int(cell): {str(name): base64.b64decode(text, validate=True) for name, text in named.items()}
            for cell, named in found.items()
        }
    except (ValueError, TypeError, AttributeError, binascii.Error) as error:
        raise BadStoreError(f"{what}: its raw data is damaged: {error}") from error


def _dump(value: Any) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False)


def _lines(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ",\n  ".join(_dump(item) for item in value) + "]"
    return "{" + ",\n  ".join(f"{_dump(key)}: {_dump(item)}" for key, item in value.items()) + "}"
