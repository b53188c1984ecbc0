"""Run documents of drawn systems, kept as files, so that inference can be replayed without measuring.

A file holds `{name, group, wanted, seed, options, truth, document, error, wall_s, cpu_s}`; truth is for each class, as
"read large", what `sim_truths.Truth.document` gives, and document holds the parts of the run document that a verdict
rests on (`PARTS`) and its bytes moved. The system's configuration is never shown to the command: the name of the file
it is asked with tells nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from truth.asking import Answer, run_command, toml_of
from truth.sim_systems import System
from truth.sim_truths import Truth

PARTS = ("naslab_version", "seed", "target", "environment", "verdict", "ladder", "validity", "warnings", "status")
Kept = dict[str, Any]


def ask(system: System, budget: str, folder: Path, package: Path | None = None) -> Answer:
    """`naslab run` on a system, which the command sees through the same seam as any other target."""
    stem = system.name.partition("-")[0]
    path = folder / f"server-{stem}.toml"
    path.write_text(toml_of(system.options))
    return run_command(f"sim:{path}", budget, folder / f"server-{stem}.sqlite", ["--no-sweep"], package)


def kept(system: System, seed: int, answer: Answer) -> Kept:
    """What is kept of a system and its answer."""
    whole = answer.document
    document = {name: whole.get(name) for name in PARTS} if whole else None
    if document is not None and whole is not None:
        document["moved_bytes"] = sum(cell.get("bytes") or 0 for cell in whole.get("cells", ()))
    return {
        "name": system.name, "group": system.group, "wanted": system.wanted, "seed": seed,
        "options": dict(system.options),
        "truth": {" ".join(where): found.document() for where, found in system.truths.items()},
        "document": document, "error": answer.error, "wall_s": round(answer.wall_s, 2), "cpu_s": round(answer.cpu_s, 2),
    }  # fmt: skip


def write(found: Mapping[str, Any], folder: Path) -> None:
    """Keeps it as NAME.json."""
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f".{found['name']}.part"
    part.write_text(json.dumps(found))
    part.rename(folder / f"{found['name']}.json")


def read(folder: Path) -> Iterator[Kept]:
    """All that is kept in a folder, in the order of names."""
    for path in sorted(folder.glob("*.json")):
        yield json.loads(path.read_text())


def truths(found: Mapping[str, Any]) -> dict[tuple[str, str], Truth]:
    """The truths of a kept system."""
    of = {tuple(name.split()): Truth.from_document(each) for name, each in found["truth"].items()}
    return {(op, size): each for (op, size), each in of.items()}
