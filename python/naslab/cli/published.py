"""`naslab runs --published`: results that articles print, and what is doubtful about them."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Any

from naslab.text.screen import plain_table


def list_published(label: str, target: str, limit: int, as_json: bool) -> int:
    """Lists the published runs whose label and target contain these texts, upper or lower case alike, by article."""
    from naslab import published

    runs = [published.load(name).document for name in published.names()]
    found = [run for run in runs if _has(_labels(run), label) and _has(run["target"]["url"], target)][:limit]
    if as_json:
        articles = [_article(each) for each in published.articles().values()]
        json.dump({"schema": 1, "runs": found, "articles": articles}, sys.stdout)
        print()
        return 0
    print(_text(found), end="")
    return 0


def _has(text: str, part: str) -> bool:
    return part.lower() in text.lower()


def _labels(run: Any) -> str:
    return ", ".join([run["label"], *(f"{key}={value}" for key, value in run["labels"].items())])


def _article(each: Any) -> dict[str, Any]:
    """Everything that an article's file holds but for the runs."""
    tables = [
        {"id": one.id, "unit": one.unit, "place": one.place, "columns": list(one.columns),
         "rows": {row: list(values) for row, values in one.rows.items()}}
        for one in each.tables.values()
    ]  # fmt: skip
    findings = [{"id": name, "place": place, "words": words} for name, (place, words) in each.findings.items()]
    numbers = [dataclasses.asdict(number) for number in each.numbers.values()]
    return {
        "name": each.name, "source": dict(each.source), "runs": [run.name for run in each.runs], "numbers": numbers,
        "tables": tables, "findings": findings,
    }  # fmt: skip


def _text(runs: list[Any]) -> str:
    from naslab.render.terminal.show import columns_of, render

    if not runs:
        return "No published result fits; see all with: naslab runs --published\n"
    table = plain_table(("run", "tool", "rates", "doubts", "what"), right=("rates", "doubts"))
    table.columns[0].no_wrap = True
    for run in runs:
        doubts = str(len(run["warnings"])) if run["warnings"] else ""
        table.add_row(run["run_id"], run["source"]["tool"], str(len(run["cells"])), doubts, run["note"])
    more = "naslab show published:NAME shows a result with its doubts; any command with a RUN accepts these names."
    return render([table], columns_of(None), None) + more + "\n"
