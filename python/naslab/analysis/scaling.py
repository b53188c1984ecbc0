"""Where more clients bring no more: the knee of throughput over the number of clients.

The model is the least that has a knee: throughput is min(r n, C), r what one client gets alone, C what the server gives
at most. Both are fitted in logarithms, over every division of the rungs in those that grow and those that do not; the
knee is C / r. Intervals: of fits to means drawn from Student's t around those of the rungs, with the spread of all
blocks. It is Gunther's universal scalability law (Guerrilla Capacity Planning, 2007) without contention and coherence,
which so few rungs could not tell apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from naslab.analysis.intervals import t_interval
from naslab.results.parts.clients import Scaling, ScalingRung
from naslab.units import rate_text

DRAWS = 400
REACHED = 0.97
"""The knee lies below this share of the largest number of clients, or it was not reached."""
LEAST_BLOCKS = 2
Rungs = Mapping[int, Sequence[float]]


def part(document: Mapping[str, Any]) -> Scaling | None:
    """The document's part `scaling` from cells with different numbers of clients; None where there are no two."""
    rungs: dict[int, list[float]] = {}
    busy: set[int] = set()
    for cell in document["cells"]:
        clients = cell.get("clients")
        if cell["workload"] == "sustained" and clients and cell["status"] == "complete":
            rungs.setdefault(clients["count"], []).append(clients["common_bytes_per_s"])
            if any(each["kind"] in ("client_saturated", "client_throttled") for each in cell["warnings"]):
                busy.add(clients["count"])
    if len(rungs) < 2:
        return None
    return judge(dict(sorted(rungs.items())), busy)


def judge(rungs: Rungs, busy: set[int], seed: int = 0) -> Scaling:
    """Knee, limit, and whose limit it is. rungs: throughput of every block by number of clients, bytes/s. busy: numbers
    of clients at which their own hosts were what was busy."""
    one, most = fit({n: float(np.mean(rates)) for n, rates in rungs.items()})
    found = [fit(each) for each in _draws(rungs, seed)]
    knees = np.array([limit / each for each, limit in found])
    limits = np.array([limit for _, limit in found])
    largest = max(rungs)
    reached = bool(np.quantile(knees, 0.975) < REACHED * largest)
    beyond = [n for n in rungs if n >= most / one] or [largest]
    by: Literal["server", "clients", "unknown"] = "unknown"
    if reached:
        by = "clients" if any(n in busy for n in beyond) else "server"
    elif np.quantile(knees, 0.025) >= REACHED * largest:
        by = "clients"
    return Scaling(
        one_client_bytes_per_s=one,
        limit_bytes_per_s=most if reached else None,
        limit_ci95_bytes_per_s=_ends(limits) if reached else None,
        at_least_bytes_per_s=max(float(np.mean(rates)) for rates in rungs.values()),
        knee_clients=most / one if reached else None,
        knee_ci95_clients=_ends(knees) if reached else None,
        limited_by=by,
        rungs=[_rung(n, rates, n in busy) for n, rates in rungs.items()],
    )


def fit(rates: Mapping[int, float]) -> tuple[float, float]:
    """(what one client gets alone, what all get at most), bytes/s; the last is of the largest rung where no rung is
    short of its share."""
    counts = np.array(sorted(rates), float)
    logs = np.log([max(rates[int(n)], 1e-9) for n in counts])
    best: tuple[float, float, float] | None = None
    for growing in range(1, len(counts) + 1):
        one = float((logs[:growing] - np.log(counts[:growing])).mean())
        most = float(logs[growing:].mean()) if growing < len(counts) else one + float(np.log(counts[-1]))
        error = float(((logs - np.minimum(one + np.log(counts), most)) ** 2).sum())
        if best is None or error < best[0] - 1e-12:
            best = (error, one, most)
    assert best is not None
    return float(np.exp(best[1])), float(np.exp(best[2]))


def _draws(rungs: Rungs, seed: int) -> Iterator[dict[int, float]]:
    """Means that the blocks could as well have had: Student's t with the spread of the blocks of all rungs."""
    logs = {n: np.log(rates) for n, rates in rungs.items()}
    freedom = sum(len(each) - 1 for each in logs.values())
    squares = sum(float(((each - each.mean()) ** 2).sum()) for each in logs.values())
    spread = (squares / freedom) ** 0.5 if freedom else 0.0
    draw = np.random.default_rng(seed)
    for _ in range(DRAWS):
        yield {
            n: float(np.exp(each.mean() + spread / len(each) ** 0.5 * draw.standard_t(max(freedom, 1))))
            for n, each in logs.items()
        }


def sentences(scaling: Scaling) -> list[str]:
    """The ladder, and what it says."""
    steps = ", ".join(f"{each.clients}: {rate_text(each.bytes_per_s)}" for each in scaling.rungs)
    told = [f"By number of clients: {steps}."]
    most, by = scaling.rungs[-1].clients, scaling.limited_by
    limit, ends, knees = scaling.limit_bytes_per_s, scaling.limit_ci95_bytes_per_s, scaling.knee_ci95_clients
    if limit is not None and ends and knees:
        whose = {
            "server": "the limit of the server or its network, not of the clients",
            "clients": "but the clients' hosts were busy there: this may be their limit; use more hosts",
        }[by]
        told.append(
            f"From {_clients(scaling.knee_clients or 0)} on (95 %: {knees[0]:.1f} to {knees[1]:.1f}) more clients add "
            f"nothing: {rate_text(limit)} (95 %: {rate_text(ends[0])} to {rate_text(ends[1])}), {whose}."
        )
    elif by == "clients":
        told.append(
            f"Throughput grows with the clients up to {most}: the server reaches at least "
            f"{rate_text(scaling.at_least_bytes_per_s)}, but its limit was not reached; use more clients."
        )
    else:
        told.append(f"Whether {most} clients reach the server's limit is undecided; use more clients, or --repeat.")
    return told


def _clients(count: float) -> str:
    return "1 client" if count < 1.05 else f"{count:.1f} clients"


def _rung(clients: int, rates: Sequence[float], busy: bool) -> ScalingRung:
    ends = None
    if len(rates) >= LEAST_BLOCKS:
        _, low, high = t_interval(np.log(rates))
        ends = [float(np.exp(low)), float(np.exp(high))]
    mean = float(np.mean(rates))
    return ScalingRung(clients, len(rates), mean, ends, mean / clients, busy)


def _ends(values: Any) -> list[float]:
    return [float(np.quantile(values, 0.025)), float(np.quantile(values, 0.975))]
