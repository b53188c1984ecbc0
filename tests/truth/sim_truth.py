"""Verdicts on simulated servers that nobody tuned for: drawn over every field of the simulator (`sim_systems`).

Each class that has one clear limit is a statement: right where the first limit is that one, certain from
`calibration.CERTAIN` on. Of two close limits neither may be called alone with certainty. The seed is new by default and
is printed; the seeds that were looked at while verdicts were made are in `LOOKED_AT` and judge nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from truth import sim_kept
from truth.asking import BUDGET, TOGETHER, Answer
from truth.calibration import Claim, brier, calibration_error, certain, matrix, reliability, text
from truth.sim_ceilings import Class
from truth.sim_systems import System, draw
from truth.sim_truths import Truth, as_spent

LOOKED_AT = (
    1001,
    2002,
    3003,
    4004,
    5005,
    6006,
    7007,
    8008,
    300388130,
    495689503,
    771204433,
    834741868,
    1337717122,
    1338381285,
    1424009718,
    1681177604,
    1919754107,
    1532425097,
    1422489654,
)
COUNT = 100
RIGHT, WRONG, ERROR, UNDECIDED = 0.97, 0.01, 0.05, 0.15
"""Classes named right first, at least; certain statements that may be wrong, expected calibration error and undecided
classes, at most."""
DECIDED = 0.7
"""Below this probability a class is undecided."""
NOTHING = "(none)"


@dataclass(frozen=True)
class Statement:
    """What was said of one class. planted: its limit; level: how clear; probability: of the limit named first."""

    system: str
    group: str
    where: Class
    planted: str
    level: str
    named: str
    probability: float
    right: bool
    strictly: bool = True
    """Whether it is right also where credit counts that no load of the run spent."""

    @property
    def claim(self) -> Claim:
        """As calibration takes it."""
        return Claim(self.probability, self.right)


def statements(system: System, answer: Answer) -> list[Statement]:
    """One for each class that counts."""
    limits = ((answer.document or {}).get("verdict") or {}).get("limits") or []
    return [
        _statement(system, where, (as_spent(found, where, system.options, answer.document), found), limits)
        for where, found in system.judged().items()
    ]


def _statement(
    system: System, where: Class, truths: tuple[Truth, Truth], limits: Sequence[Mapping[str, Any]]
) -> Statement:
    """truths: of what the run measured, and of what there is."""
    mine = [x for x in limits if (x["applies_to"]["op"], x["applies_to"]["size"]) == where]
    first = max(mine, key=lambda limit: limit["confidence"], default=None)
    named, probability = (first["kind"], float(first["confidence"])) if first else (NOTHING, 0.0)
    found = truths[0]
    right, strictly = (
        each.accepts(named) and not (each.level == "pair" and probability >= DECIDED_PAIR) for each in truths
    )
    return Statement(system.name, system.group, where, found.kind, found.level, named, probability, right, strictly)


DECIDED_PAIR = 0.9
"""Of two close limits one alone is called from this probability on, which is wrong."""


def figures(seed: int, count: int | None, told: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """The part of `make truth`. count: of systems."""
    systems = draw(seed, count or COUNT)
    with tempfile.TemporaryDirectory(prefix="naslab-truth-") as name, ThreadPoolExecutor(TOGETHER) as pool:

        def one(system: System) -> tuple[System, Answer]:
            answer = sim_kept.ask(system, BUDGET, Path(name))
            told(_line(system, answer))
            return system, answer

        answers = list(pool.map(one, systems))
    return summed(seed, answers)


def _line(system: System, answer: Answer) -> str:
    wrong = [s for s in statements(system, answer) if not s.right]
    said = "; ".join(f"{' '.join(s.where)} {s.planted}: {s.named} {s.probability:.2f}" for s in wrong)
    return f"{system.name:16} {answer.error or said or 'right'}"


def summed(seed: int, answers: Sequence[tuple[System, Answer]]) -> dict[str, Any]:
    """Figures, bars and rows of what was answered."""
    failed = [system.name for system, answer in answers if answer.document is None]
    said = [each for system, answer in answers for each in statements(system, answer)]
    clear = [s for s in said if s.level == "clear"]
    pairs = [s for s in said if s.level == "pair"]
    claims = [s.claim for s in clear]
    wrong, sure = certain(claims)
    alone = sum(s.probability >= DECIDED_PAIR for s in pairs)
    right = sum(c.right for c in claims)
    strictly = [Claim(s.probability, s.strictly) for s in clear]
    undecided = sum(c.probability < DECIDED for c in claims) / max(len(claims), 1)
    error = calibration_error(claims)
    spent = [answer.document["ladder"]["spent_ns"] / 1e9 for _, answer in answers if answer.document]
    summary = [
        f"seed {seed}{' (looked at before: it judges nothing)' if seed in LOOKED_AT else ''}, {len(answers)} systems, "
        f"{len(clear)} clear classes, {len(pairs)} of two close limits, {len(failed)} failed",
        f"named first: {right} of {len(claims)} (at least {RIGHT:.0%}); "
        f"undecided {undecided:.0%} (at most {UNDECIDED:.0%})",
        f"certain and wrong: {wrong} of {sure} (at most {WRONG:.0%}); of two close limits one alone: {alone}",
        f"with credit that no load spent as the limit: named first {sum(c.right for c in strictly)}, certain and wrong "
        f"{certain(strictly)[0]}",
        f"expected calibration error {error:.3f} (at most {ERROR:.2f}), Brier score {brier(claims):.3f}",
        *text(claims),
        f"time to verdict: median {median(spent) if spent else 0:.0f} s of the server's own time",
    ]
    ok = not (failed or alone) and right >= RIGHT * len(claims) and wrong <= WRONG * sure
    ok = ok and error <= ERROR and undecided <= UNDECIDED
    return {"ok": ok, "summary": summary, "matrix": matrix((s.planted, s.named) for s in clear),
            "rows": [asdict(s) for s in said],
            "reliability": [asdict(each) for each in reliability(claims)]}  # fmt: skip
