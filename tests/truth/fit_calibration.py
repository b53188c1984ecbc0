"""Fits `verdict.CALIBRATION`: how often what was named first is it, by the probability that the model gives it.

    python tests/truth/fit_calibration.py --real FOLDER... --sim FOLDER...

Folders hold answers kept by `tools/truth` (`sim_kept`). They are judged anew with no map and none of the bounds that
other explanations set, and a logistic regression in logits is fitted to all their statements (Platt 1999). Each folder
is also judged by the map that the others alone give. Ten minutes for 370 systems.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from multiprocessing import Pool
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from naslab.explain import answer, verdict
from truth import real_truth, sim_kept, sim_truth
from truth.asking import Answer
from truth.calibration import Claim, calibration_error, logistic
from truth.real_systems import System as RealSystem
from truth.real_truths import truths as real_truths
from truth.sim_systems import System as SimSystem

Judged = list[tuple[float, bool]]


def unbounded() -> None:
    """The model's own probabilities."""
    verdict.CALIBRATION = (verdict.ANCHOR, 1.0)
    verdict.DOUBTED = 1.0


def judged(document: dict[str, Any]) -> dict[str, Any] | None:
    """The document with today's verdict; None where there is none."""
    found = answer._judged(document, document["ladder"])
    if found is None:
        return None
    return {**document, "verdict": {"limits": [limit.document() for limit in found[0].limits]}}


def of_real(path: Path) -> Judged:
    """Statements on a real system."""
    kept = json.loads(path.read_text())
    document = judged(kept["document"]) if kept["document"] else None
    if document is None:
        return []
    machine = json.loads((path.parent / "machine" / "machine.json").read_text())
    again = real_truths(RealSystem.from_kept(kept), machine)
    kept |= {"document": document, "truth": {" ".join(where): each.document() for where, each in again.items()}}
    return [(s.probability, s.right) for s in real_truth.statements(kept)]


def of_sim(path: Path) -> Judged:
    """Statements on a simulated system."""
    kept = json.loads(path.read_text())
    document = judged(kept["document"]) if kept["document"] else None
    if document is None:
        return []
    named = {name: kept[name] for name in ("name", "group", "wanted", "options")}
    system = SimSystem(**named, truths=sim_kept.truths(kept))
    return [(s.probability, s.right) for s in sim_truth.statements(system, Answer(document, "", 0, 0))]


def claims(pool: Any, how: Callable[[Path], Judged], folder: Path) -> list[Claim]:
    """Of all answers in a folder."""
    found = pool.map(how, sorted(folder.glob("[0-9]*.json")), chunksize=4)
    return [Claim(*each) for statements in found for each in statements]


def main(words: Sequence[str] | None = None) -> None:
    """Prints the map, and what it does to each folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--real", nargs="*", default=[], type=Path)
    parser.add_argument("--sim", nargs="*", default=[], type=Path)
    asked = parser.parse_args(words)
    with Pool(initializer=unbounded) as pool:
        kinds = ((of_real, asked.real), (of_sim, asked.sim))
        found = {folder: claims(pool, how, folder) for how, folders in kinds for folder in folders}
    offset, slope = logistic([claim for each in found.values() for claim in each], verdict.ANCHOR)
    print(f"CALIBRATION = ({offset:.2f}, {slope:.2f}) of {sum(map(len, found.values()))} statements")
    for folder, mine in found.items():
        others = [claim for other, each in found.items() if other != folder for claim in each]
        fitted = logistic(others, verdict.ANCHOR) if others else (offset, slope)
        after = [Claim(verdict.mapped(claim.probability, fitted), claim.right) for claim in mine]
        right = sum(claim.right for claim in mine)
        print(f"{folder.name}: {right} of {len(mine)} right; error {calibration_error(mine):.3f}, with the map of the "
              f"others {calibration_error(after):.3f}")  # fmt: skip


if __name__ == "__main__":
    main()
