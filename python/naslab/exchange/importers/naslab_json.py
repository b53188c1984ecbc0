"""Runs that naslab itself exported: one document, or several as `--json` prints them."""

from __future__ import annotations

import json

from naslab.errors import StoreError
from naslab.exchange.importers.base import Input
from naslab.exchange.json_file import run_from_object
from naslab.results.run import Run


def parse(source: Input) -> list[Run]:
    """The runs in the file, as they are. Raises ForeignFileError."""
    source.values(b",[{")
    try:
        found = json.loads(source.text)
        several = found.get("runs") if isinstance(found, dict) and "run_id" not in found else None
        runs = [run_from_object(each, source.name) for each in (several if isinstance(several, list) else [found])]
    except (StoreError, ValueError, RecursionError) as error:
        raise source.broken(f"is not a complete run exported by naslab: {str(error)[:200]}") from error
    if not runs:
        raise source.broken("contains no run")
    return runs
