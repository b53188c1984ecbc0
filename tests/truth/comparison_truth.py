"""How often a comparison is wrong, and what it finds: two simulated servers measured beside each other, many times.

A repeat is a cell of half a second on a server whose disk wanders, is disturbed now and then, or grows slower as it
warms; the other server is the same but for its seed and, where an effect is planted, its disk's rate. Repeats are
compared as `naslab compare` does it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from naslab import _engine
from naslab.analysis import ratios
from naslab.analysis.ratios import Floats, Judged, Ratio
from naslab.execution.workspace import owner_mark
from naslab.spec import CellSpec, RunSpec

RATE = 100_000_000
CELL_NS, SPAN_NS, RECORD = 500_000_000, 100_000_000, 1 << 20
SPANS = CELL_NS / SPAN_NS
LOST_NS = (40_000_000, 80_000_000, 120_000_000)
"""What a disturbed repeat loses: 8 to 24 % of its time."""
DISTURBED = 0.1
CHUNK = 540
"""Repeats of one run of the engine: a multiple of all the numbers of repeats below."""
ALARM, POWER, WRONG_EQUIVALENCE = 0.05, 0.80, 0.05
MDE_WITHIN = 1.2
TOGETHER = 2
MARGIN = ratios.RATE_MARGIN
WAYS: dict[str, Callable[[Floats, Floats, float], Ratio]] = {"pairs": ratios.paired, "stored runs": ratios.unpaired}


@dataclass(frozen=True)
class Side:
    """A server's repeats. spread: standard deviation of a repeat. drift: rate lost over ten repeats as it warms."""

    spread: float
    disturbed: bool = False
    effect: float = 0.0
    drift: float = 0.0
    seed: int = 0

    def target(self) -> dict[str, Any]:
        """The simulated server."""
        rate = round(RATE * (1 + self.effect))
        options: dict[str, Any] = {
            "seed": self.seed, "latency_ns": 100_000, "disk_read_bytes_per_s": rate, "disk_write_bytes_per_s": rate,
            "disk_noise": self.spread * math.sqrt(SPANS), "noise_span_ns": SPAN_NS,
        }  # fmt: skip
        if self.disturbed:
            chance = DISTURBED / (CELL_NS / 1e9 * RATE / RECORD) / len(LOST_NS)
            options["faults"] = [
                {"op": "read", "kind": "freeze", "probability": chance, "duration_ns": lost} for lost in LOST_NS
            ]
        if self.drift:
            options |= {"heat_busy_ns": 5_000_000_000, "heat_idle_ns": 5_000_000_000, "heat_floor": 1 - self.drift}
        return {"protocol": "sim", "options": options}


@dataclass(frozen=True)
class Case:
    """Comparisons of one kind. count: how many; n: repeats on a side."""

    spread: float
    disturbed: bool
    n: int
    count: int
    effect: float = 0.0
    drift: float = 0.0
    seed: int = 0


def repeats(side: Side, count: int) -> Floats:
    """Rates of repeats on one server, in bytes per second."""
    first = CellSpec(op="write", file_bytes=RECORD, record_bytes=RECORD, files=["f"], write_fraction=1.0,
                     create="if_missing")  # fmt: skip
    one = {"op": "read", "file_bytes": RECORD, "record_bytes": RECORD, "files": ["f"], "queue_depth": 4,
           "duration_ns": CELL_NS, "interval_ns": CELL_NS, "warmup_ns": 2 * SPAN_NS}  # fmt: skip
    cells = [first, *(CellSpec(id=1 + at, **one) for at in range(count))]  # type: ignore[arg-type]
    found: list[float] = []

    def listen(kind: str, text: str, _: Sequence[bytes]) -> bool:
        if kind == "cell":
            cell = json.loads(text)
            found.append(cell["bytes"] / cell["duration_ns"] * 1e9)
        return True

    spec = RunSpec(target=side.target(), cells=cells, run_id="truth", folder="naslab-truth", seed=side.seed)
    _engine.run(spec.to_json(), owner_mark("truth"), listen)
    assert len(found) == count + 1
    return np.array(found[1:])


def sides(case: Case) -> tuple[Floats, Floats]:
    """(count, n) repeats of either server; the first has the effect. Each run of the engine has a seed of its own."""
    # What drifts begins anew with every comparison; what does not may go on.
    each = case.n if case.drift else CHUNK - CHUNK % case.n
    found: list[list[Floats]] = [[], []]
    while sum(map(len, found[0])) < case.count * case.n:
        for at, effect in enumerate((case.effect, 0.0)):
            seed = hash((case.seed, case.spread, case.disturbed, case.effect, case.n, at, len(found[at]))) % (1 << 31)
            side = Side(case.spread, case.disturbed, effect, case.drift, seed)
            found[at].append(repeats(side, each))
    mine, other = (np.concatenate(rows)[: case.count * case.n].reshape(-1, case.n) for rows in found)
    return mine, other


@dataclass(frozen=True)
class Shares:
    """Shares of the comparisons that were called so; mde: median of the printed detectable effect."""

    case: Case
    way: str
    seen: int
    different: float
    better: float
    worse: float
    equivalent: float
    mde: float
    spread: float
    found: int

    def row(self, asked: str, bar: str, ok: bool | None) -> dict[str, Any]:
        """For the table. ok: None where the row is part of a total."""
        case = self.case
        return {
            "asked": asked, "way": self.way, "n": case.n, "comparisons": self.seen, "spread": round(self.spread, 4),
            "disturbed": case.disturbed, "drift": case.drift, "effect": round(case.effect, 4),
            "different": self.different, "better": self.better, "worse": self.worse, "equivalent": self.equivalent,
            "minimum_detectable_effect": round(self.mde, 4), "bar": bar, "ok": ok,
        }  # fmt: skip


def shares(case: Case) -> list[Shares]:
    """Of pairs; and of two samples, where no drift lies between them."""
    mine, other = sides(case)
    spread = float(np.std(np.log(other), axis=1, ddof=1).mean())
    found = []
    for way, compare in WAYS.items():
        if case.drift and way != "pairs":
            continue
        judged = [ratios.judge([compare(a, b, MARGIN)], higher=True)[0] for a, b in zip(mine, other, strict=True)]
        found.append(_shares(case, way, judged, spread))
    return found


def _shares(case: Case, way: str, judged: Sequence[Judged], spread: float) -> Shares:
    different = [each.different for each in judged]
    of = {word: float(np.mean([each.verdict == word for each in judged])) for word in ("better", "worse", "equivalent")}
    mde = float(np.median([each.ratio.mde for each in judged]))
    return Shares(case, way, len(judged), float(np.mean(different)), of["better"], of["worse"], of["equivalent"], mde,
                  spread, sum(different))  # fmt: skip


def looks_alarm(seed: int, count: int) -> float:
    """Share of targets beside themselves called different at any of the looks of `compare --run`."""
    most = ratios.LOOKS[-1]
    mine, other = sides(Case(0.05, True, most, count, seed=seed))
    alarms = 0
    for a, b in zip(mine, other, strict=True):
        looks = [ratios.paired(a[:n], b[:n], MARGIN, ratios.POCOCK) for n in ratios.LOOKS]
        alarms += any(ratios.judge([look], higher=True)[0].different for look in looks)
    return alarms / count


# All of it.


def figures(seed: int, count: int = 300) -> dict[str, Any]:
    """rows: what was asked and found; ok: every bar is held. count: comparisons of each kind."""
    with ProcessPoolExecutor(TOGETHER) as pool:
        rows = [*_alarms(pool, seed, count), *_power(pool, seed, count), *_detectable(pool, seed, count)]
        rows += _equivalence(pool, seed, count)
        looked = pool.submit(looks_alarm, seed, count).result()
    rows.append({"asked": "A/A with five looks", "way": "pairs", "comparisons": count, "different": looked,
                 "bar": "<= 5 %, two standard errors", "ok": looked <= ALARM + 2 * _error(ALARM, count)})  # fmt: skip
    summary = [f"{'ok  ' if row['ok'] else 'MISS'} {row['asked']}: {_words(row)} ({row['bar']})"
               for row in rows if row["ok"] is not None]  # fmt: skip
    return {"rows": rows, "ok": all(row["ok"] is not False for row in rows), "summary": summary}


def _words(row: dict[str, Any]) -> str:
    parts = [row["way"], f"n {row['n']}"] if "n" in row else [row["way"]]
    name, share = row.get("share", ("different", row.get("different")))
    return ", ".join([*parts, *([f"{name} {100 * share:.1f} %"] if share is not None else [])])


def _error(share: float, count: int) -> float:
    return math.sqrt(share * (1 - share) / max(count, 1))


def _map(pool: ProcessPoolExecutor, cases: Sequence[Case]) -> list[Shares]:
    return [each for found in pool.map(shares, cases) for each in found]


def _alarms(pool: ProcessPoolExecutor, seed: int, count: int) -> list[dict[str, Any]]:
    cases = [Case(spread, disturbed, n, count, seed=seed)
             for spread in (0.03, 0.06, 0.10) for disturbed in (False, True) for n in (5, 10)]  # fmt: skip
    cases += [Case(0.05, True, 10, max(count // 3, 1), drift=drift, seed=seed) for drift in (0.1, 0.3)]
    found = _map(pool, cases)
    rows = [each.row("A/A", "part of the total", None) for each in found]
    for way in WAYS:
        of = [each for each in found if each.way == way]
        seen = sum(each.seen for each in of)
        share = sum(each.found for each in of) / seen
        # What is counted is never exact: two standard errors in all, three of a single kind.
        worst = max(each.different - 3 * _error(ALARM, each.seen) for each in of)
        ok = share <= ALARM + 2 * _error(ALARM, seen) and worst <= ALARM
        rows.append(
            {"asked": "A/A, called different", "way": way, "comparisons": seen, "different": share,
             "bar": f"<= 5 % in {seen}, two standard errors", "ok": ok}
        )  # fmt: skip
    return rows


def _power(pool: ProcessPoolExecutor, seed: int, count: int) -> list[dict[str, Any]]:
    rows = []
    for each in _map(pool, [Case(0.03, False, 10, count, effect=-0.05, seed=seed)]):
        bar = "different in >= 80 %"
        rows.append(each.row("a loss of 5 % at a spread of 3 %", bar, each.different >= POWER))
    for each in _map(pool, [Case(0.03, False, 10, count, effect=-0.10, seed=seed)]):
        row = each.row("a loss of 10 % at a spread of 3 %", "worse in >= 80 %", each.worse >= POWER)
        rows.append({**row, "share": ("worse", each.worse)})
    return rows


def _detectable(pool: ProcessPoolExecutor, seed: int, count: int) -> list[dict[str, Any]]:
    """The effect found in 80 of 100 lies within a fifth of the printed one: more often found above it, less below."""
    rows = []
    plain = [Case(spread, disturbed, 10, count, seed=seed) for spread, disturbed in ((0.05, False), (0.08, True))]
    for case, found in zip(plain, pool.map(shares, plain), strict=True):
        for each in found:
            small, large = each.mde / MDE_WITHIN, each.mde * MDE_WITHIN
            at = [Case(case.spread, case.disturbed, 10, count, effect=effect, seed=seed) for effect in (small, large)]
            below, above = (next(s for s in shared if s.way == each.way) for shared in pool.map(shares, at))
            slack = _error(POWER, count)
            ok = below.different <= POWER + slack and above.different >= POWER - slack
            bar = f"80 % lies between {100 * below.different:.0f} % and {100 * above.different:.0f} %"
            noisy = f"the printed detectable effect of {100 * each.mde:.1f} %, a fifth less and more"
            rows.append({**each.row(noisy, bar, ok), "different": None, "at_less": below.different,
                         "at_more": above.different})  # fmt: skip
    return rows


def _equivalence(pool: ProcessPoolExecutor, seed: int, count: int) -> list[dict[str, Any]]:
    cases = [Case(spread, False, 10, count, effect=effect, seed=seed)
             for spread in (0.02, 0.04) for effect in (MARGIN, 1 / (1 + MARGIN) - 1)]  # fmt: skip
    rows = []
    for each in _map(pool, cases):
        ok = each.equivalent <= WRONG_EQUIVALENCE
        row = each.row(_at_margin(each.case), "equivalent in <= 5 %", ok)
        rows.append({**row, "share": ("equivalent", each.equivalent)})
    return rows


def _at_margin(case: Case) -> str:
    return f"a difference as large as the margin, {100 * case.effect:+.1f} % at a spread of {100 * case.spread:.0f} %"
