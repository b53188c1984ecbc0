"""`make truth`: everything that naslab claims to find, held against what was planted; exits 1 on a miss.

A table goes to stdout, the whole as one JSON document to the file of `--json`, and with `--docs` the generated part of
docs/concepts/verdicts.md is written anew. Without options all parts run, those of the lab for an hour; `--only` names
some, `--part N` takes that many of the simulated systems. Parts of the same seed that the file of `--json` already has
and that are not run again stay in it, so that all of it can be made in pieces.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import resource
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from truth import sim_truth, truth_docs, verdict_truth  # noqa: E402

PARTS = ("verdict", "sim", "comparison", "adaptive", "whatif")
LAB = ("lab", "adaptive_lab", "whatif_lab")
REAL = ("real",)
"""Real servers built apart from the lab, only when they are asked for: 90 systems take two hours and more."""
"""Real servers on this machine: nothing else may work on it."""
Part = dict[str, Any]


def main() -> int:
    """0: every bar is held; 1: a miss; 2: wrong words."""
    options = _options()
    found = _kept(options)
    for name in options.only:
        make = _maker(name, options)
        print(f"{name}:", flush=True)
        cpu_s, begun = _cpu_s(), time.monotonic()
        made = make()
        found[name] = {**made, "cpu_s": round(_cpu_s() - cpu_s, 1), "wall_s": round(time.monotonic() - begun, 1)}
        for line in found[name]["summary"]:
            print(f"  {line}", flush=True)
        document = _document(options.seed, {name: found[name] for name in (*PARTS, *LAB, *REAL) if name in found})
        if options.json:
            options.json.write_text(json.dumps(document, indent=1) + "\n")
    if options.docs:
        truth_docs.write(document, ROOT / "docs" / "concepts" / "verdicts.md")
    print(
        "\n".join(
            ["", *truth_docs.table(document["parts"]), "", "truth holds" if document["ok"] else "a miss: see above"]
        )
    )
    return 0 if document["ok"] else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/truth", description=(__doc__ or "").partition("\n")[0])
    seed = os.environ.get("SEED") or "0"
    known = [*PARTS, *LAB]
    parser.add_argument("--seed", type=int, default=seed, help="draws other systems; the variable SEED does, too")
    parser.add_argument("--only", nargs="+", choices=[*known, *REAL], default=known, help="parts to run")
    parser.add_argument("--part", type=int, help="so many of the simulated or real systems, spread over all")
    parser.add_argument("--sim-seed", type=int, help="of the part `sim`; a new one without it, which is printed")
    parser.add_argument("--real-seed", type=int, help="of the part `real`; a new one without it, which is printed")
    parser.add_argument("--kinds", nargs="+", default=(), help="of the part `real`: only systems of these kinds")
    parser.add_argument("--keep", type=Path, help="of the part `real`: keep answers here, and go on where it was cut")
    parser.add_argument("--count", type=int, default=300, help="comparisons of each kind")
    parser.add_argument("--json", type=Path, help="also write everything to this file")
    parser.add_argument("--docs", action="store_true", help="write the generated part of docs/concepts/verdicts.md")
    return parser.parse_args()


def _maker(name: str, options: argparse.Namespace) -> Callable[[], Part]:
    """What makes a part."""
    if name == "verdict":
        return lambda: verdict_truth.figures(options.seed, options.part, _tell)
    if name == "sim":
        seed = _seed(options.sim_seed)
        return lambda: sim_truth.figures(seed, options.part, _tell_line)
    if name == "real":
        module = importlib.import_module("truth.real_truth")
        seed, keep = _seed(options.real_seed), options.keep
        return lambda: dict(module.figures(seed, options.part, options.kinds, keep, _tell_line))
    if name == "adaptive_lab":
        return lambda: dict(importlib.import_module("truth.adaptive_truth").lab_figures())
    module = importlib.import_module(f"truth.{name}_truth")
    if name == "comparison":
        return lambda: dict(module.figures(options.seed, options.count))
    return lambda: dict(module.figures(options.seed))


def _seed(given: int | None) -> int:
    """The one that was given, or a new one; said before anything is drawn."""
    found = random.SystemRandom().randrange(1 << 31) if given is None else given
    _tell_line(f"seed {found}")
    return found


def _tell_line(line: str) -> None:
    print(f"  {line}", flush=True)


def _tell(judged: verdict_truth.Judged) -> None:
    """One line as each system ends."""
    named = ", ".join(f"{' '.join(where)}: {kind}" for where, kind in judged.named.items())
    error = f" {judged.answer.error}" if judged.answer.error else ""
    print(f"  {judged.system.name:12} {judged.outcome:10} {judged.system.what}; {named}{error}", flush=True)


def _kept(options: argparse.Namespace) -> dict[str, Part]:
    """Parts of an earlier run of the same seed."""
    if not options.json or not options.json.exists():
        return {}
    before = json.loads(options.json.read_text())
    return dict(before["parts"]) if before["seed"] == options.seed else {}


def _document(seed: int, found: Mapping[str, Part]) -> Part:
    return {
        "schema": 1, "seed": seed, "made": datetime.now(UTC).strftime("%Y-%m-%d"),
        "ok": bool(found) and all(part["ok"] for part in found.values()), "parts": dict(found),
    }  # fmt: skip


def _cpu_s() -> float:
    """Processor time of this process and of its children that ended."""
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in (own, children))


if __name__ == "__main__":
    sys.exit(main())
