"""The NASPT table of its article: MB/s of each application in each run, with the conditions of these."""

from __future__ import annotations

from functools import cache
from typing import Any

from naslab.published.article import article


@cache
def table() -> dict[str, Any]:
    """The article's table: source, system, conditions of its runs, MB/s of each test in each run."""
    found = article("raid5-naspt")
    runs = {run.name: run for run in found.runs}
    source = ", ".join(found.source[key] for key in ("author", "title", "date"))
    return {
        "source": source,
        "system": runs["raid5-naspt"].setting.target,
        "conditions": [runs[f"raid5-naspt-{at}"].what for at in range(1, 7)],
        "mb_per_s": {row: list(values) for row, values in found.tables["naspt"].rows.items()},
    }
