"""Tables of what was found, for the terminal and for docs/concepts/verdicts.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

BEGIN = "<!-- Made by tools/truth --docs from here on; edit above. -->"
Part = Mapping[str, Any]


def table(parts: Mapping[str, Part]) -> list[str]:
    """All tables as lines of text."""
    lines: list[str] = []
    for name in ("verdict", "sim", "lab"):
        if parts.get(name, {}).get("matrix"):
            lines += [
                f"Planted (rows) and named first (columns), {_places(name)}:",
                "",
                *matrix(parts[name]["matrix"]),
                "",
            ]
    return lines


def _places(name: str) -> str:
    return "each class of each system in the lab" if name == "lab" else "each class of each simulated system"


def matrix(found: Mapping[str, Mapping[str, int]]) -> list[str]:
    """The confusion matrix in Markdown: planted kinds down, named ones across."""
    named = list(dict.fromkeys([*found, *(kind for row in found.values() for kind in row)]))
    columns = [kind for kind in named if any(row.get(kind) for row in found.values())]
    lines = [["planted", *columns], ["---"] * (len(columns) + 1)]
    lines += [[kind, *(str(row.get(column) or "") for column in columns)] for kind, row in found.items()]
    return _markdown(lines)


def _markdown(rows: Sequence[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(row) + " |" for row in rows]


def write(document: Part, path: Path) -> None:
    """Replaces the generated part of a page; the rest of it is kept."""
    kept = path.read_text().partition(BEGIN)[0].rstrip()
    path.write_text("\n".join([kept, "", BEGIN, "", *page(document), ""]))


def page(document: Part) -> list[str]:
    """The generated part."""
    parts = document["parts"]
    cpu_s = sum(part.get("cpu_s", 0.0) for part in parts.values())
    lines = [f"Seed {document['seed']}, {document['made']}; {cpu_s / 60:.0f} minutes of processor in all.", ""]
    titles = {"verdict": "Simulated systems", "sim": "Simulated systems drawn anew",
              "comparison": "Comparisons", "adaptive": "Adaptive sweeps",
              "whatif": "Predictions", "lab": "Systems of the lab", "adaptive_lab": "Adaptive sweeps in the lab",
              "whatif_lab": "Predictions in the lab"}  # fmt: skip
    for name, part in parts.items():
        lines += [f"## {titles.get(name, name)}", "", *(f"- {line}" for line in part["summary"]), ""]
        if part.get("matrix"):
            lines += [f"Planted down, named first across, {_places(name)}:", "", *matrix(part["matrix"]), ""]
        if name in ("verdict", "lab"):
            lines += [*misses(part["rows"]), ""]
        if name == "comparison":
            lines += [*comparisons(part["rows"]), ""]
    return lines[:-1]


def misses(rows: Sequence[Part]) -> list[str]:
    """The systems that were not judged right, one by one; nothing where there is none."""
    wrong = [row for row in rows if row["outcome"] not in ("right", "both", "undecided")]
    if not wrong:
        return ["No system was judged wrong."]
    cells = [["planted", "system", "named first"], ["---"] * 3]
    for row in wrong:
        named = ", ".join(f"{where}: {kind}" for where, kind in row["named"].items()) or row["error"] or row["outcome"]
        cells.append([" and ".join(row["planted"]), row["what"], named])
    return ["Judged wrong:", "", *_markdown(cells)]


def comparisons(rows: Sequence[Part]) -> list[str]:
    """Shares of what was asked."""
    cells = [["asked", "of", "repeats", "spread", "called different", "better or worse", "equivalent"], ["---"] * 7]
    for row in rows:
        if "spread" not in row or row.get("different") is None:
            continue
        more = "".join(
            [", disturbed" * bool(row["disturbed"]), f", drift {100 * row['drift']:.0f} %" * bool(row["drift"])]
        )
        cells.append(
            [row["asked"] + more, row["way"], str(row["n"]), f"{100 * row['spread']:.1f} %",
             f"{100 * row['different']:.1f} %", f"{100 * (row['better'] + row['worse']):.1f} %",
             f"{100 * row['equivalent']:.1f} %"]
        )  # fmt: skip
    return _markdown(cells)
