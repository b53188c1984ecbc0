"""What the fitted model says of cells: which station sets the rate of each, with its probability.

At one outstanding request the parts of its time add up, and the one that has most of it is named; with more the
station that sets the rate is. A write that is acknowledged from memory is the memory's until that is full.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from naslab.analysis.regimes_cells import View
from naslab.explain import cells
from naslab.explain.cell_fit import PARTICLES, fit
from naslab.explain.conclusion import SEPARATED_BY
from naslab.explain.evidence import Evidence
from naslab.explain.fitted import posterior_of, quantile, remembered
from naslab.explain.forward import storage, values_of
from naslab.explain.hypotheses import AT as PARAMETER
from naslab.explain.hypotheses import HIGH, LOW, USUAL_MEMORY, Array, Values, is_standard
from naslab.explain.inference import FREEDOM, MISFIT, MODEL_ERROR, Posterior, log_likelihood
from naslab.explain.rows import Rows, rows_of
from naslab.explain.stations import AT, KINDS, LOWERED, Split, split
from naslab.explain.verdict import DOUBTED
from naslab.units import duration_text, percent_text, rate_text, size_label

ASKED = 120
"""Particles that are asked about each cell."""
SURE = 0.7
"""Probability from which on a regime is named."""
CERTAIN = 0.99
FEW = 2
"""Different loads from which on there is a fit; of fewer than `cells.MIN_LOADS` the disks are not told from credit."""
MOST = 0.5
"""Share of a single request's time, or of a cell's, that names it."""
AT_LINK = 0.85
WORDS = ("latency", "link", "server_cache", "disk", "baseline", "mixed", "unknown")
WORD = {word: at for at, word in enumerate(WORDS)}
_OF_KIND = {
    "client_nic": "link", "link": "link", "server_cache": "server_cache", "server_cpu": "server_cache", "disk": "disk",
    "disk_iops": "disk", "latency": "latency", "burst_credit": "baseline",
}  # fmt: skip
"""Regime of the station that sets the rate of many requests; of other stations none."""
_PARTS = {
    "latency": ("delay", "client_cpu", "server_cpu"), "link": ("link",), "server_cache": ("server_cache",),
    "disk": ("disk",), "unknown": ("protocol", "unknown"),
}  # fmt: skip
"""What the time of a single request goes to."""
_NAMES = {
    "latency": "waiting for round trips", "link": "the link", "server_cache": "the server cache or processor",
    "disk": "the disks", "baseline": "spent credit", "mixed": "no single part", "unknown": "another part",
}  # fmt: skip
_LIMIT = {
    "latency": "latency", "link": "link", "server_cache": "server_cache", "disk": "disk", "baseline": "burst_credit",
}  # fmt: skip
_TELLS = {
    "duplex": "reads beside writes", "depth": "another --depth", "connections": "more --workers",
    "record": "another --record", "long": "the same for longer, after a rest", "set": "other --file-size",
}  # fmt: skip
"""What to vary, by the step of a ladder that separates two kinds."""


@dataclass(frozen=True)
class Answers:
    """at: row of each cell. shares: probability of each of WORDS by row. parts: seconds of each in one request, by row.

    link: bytes per second. most: highest probability that is said. few: too few loads to tell disks from credit.
    any_link: the link is as fast as memories are and its rate is no usual one: it is not told from them.
    """

    at: Mapping[int, int]
    shares: Array
    parts: Array
    link: float
    round_trip_ns: float
    most: float
    few: bool
    any_link: bool

    def of(self, view: View) -> tuple[str, str] | None:
        """(regime, evidence) of a cell; None where the model has no row of it."""
        at = self.at.get(view.id)
        if at is None:
            return None
        share = self.shares[at]
        first, second = (int(each) for each in np.argsort(-share)[:2])
        word, rate = WORDS[first], rate_text(view.rate)
        if self.few and word == "disk":
            return "unknown", f"{rate}, set by the disks or by spent credit; {_TELLS['long']}, would separate them"
        if self.any_link and word in ("link", "server_cache", "mixed"):
            return "unknown", f"{rate}, set by the link or the server cache; {_TELLS['duplex']} would separate them"
        # Whether a part has just more or just less than half of the time is no question of its own.
        near = share[first] + (share[second] if "mixed" in (word, WORDS[second]) else 0.0)
        if near < SURE or word == "unknown":
            return "unknown", _open(rate, share, first, second)
        return word, self._words(view, at, word, min(float(share[first]), self.most))

    def _words(self, view: View, at: int, word: str, share: float) -> str:
        sure = f"probability {share:.2f}"
        if view.in_flight > 1:
            how = "too few outstanding requests" if word == "latency" else _NAMES[word]
            return f"{rate_text(view.rate)}, set by {how} ({sure})"
        each = f"one {size_label(view.record)} {view.direction} takes {duration_text(view.op_ns)}"
        if word == "mixed":
            return f"{each}, no part takes half of it ({sure})"
        part = self.parts[at, WORD[word]] / max(self.parts[at].sum(), 1e-15)
        return f"{each}, {percent_text(part)} of it for {_NAMES[word]} ({sure})"

    def at_link(self, rate: float) -> bool:
        """Whether a rate is about what the link carries."""
        return rate >= AT_LINK * self.link


def _open(rate: str, share: Array, first: int, second: int) -> str:
    """What an unknown cell may be limited by, and what would tell."""
    if share[WORD["unknown"]] == 1:
        return f"{rate}, which the fitted model does not explain"
    named = [f"{_NAMES[WORDS[each]]} ({share[each]:.2f})" for each in (first, second) if share[each] > 0]
    kinds = [_LIMIT[WORDS[each]] for each in (first, second) if WORDS[each] in _LIMIT]
    step = next((step for kind, step in SEPARATED_BY.items() if kind in kinds), "set")
    return f"{rate}, set by {' or '.join(named)}; {_TELLS.get(step, _TELLS['set'])} would separate them"


def answers(views: Sequence[View], document: Mapping[str, Any]) -> Answers | None:
    """The answers for cells; None where there are too few different loads for a model.

    A run with a ladder has that one's model, which explains its other cells, too.
    """
    seen = cells.evidence_of(document, views)
    made = _of_ladder(document["ladder"]) if document.get("ladder") else None
    few, most = False, CERTAIN
    if made is not None:
        base, rows, posterior = made
        seen = dataclasses.replace(base, points=seen.points)
    else:
        known = cells.merged(seen)
        found = rows_of(known, usual=True) if cells.loads(known) >= FEW else None
        if found is None:
            return None
        rows, few, most = found, cells.loads(known) < cells.MIN_LOADS, DOUBTED
        posterior = remembered(rows) or posterior_of(rows, 1, PARTICLES, fit)
    every = rows_of(seen, usual=made is None)
    if every is None:
        return None
    theta, weight = _both(_picked(posterior), rows)
    v = values_of(theta)
    found_split = split(v, every)
    parts, words = _words(v, every, found_split)
    link = quantile(np.exp(theta[:, PARAMETER["link"]]), weight, 0.5)
    trip = quantile(v["delay_s"][:, 0], weight, 0.5) * 1e9
    shares = _shares(words, found_split, every, weight)
    odd = made is None and link > USUAL_MEMORY and not is_standard(np.array([link]))[0]
    if odd and rows.nic_bytes_per_s:
        odd = link < AT_LINK * rows.nic_bytes_per_s
    return Answers(_rows_by_cell(every), shares, np.median(parts, axis=0), link, trip, most, few, bool(odd))


def _of_ladder(ladder: Mapping[str, Any]) -> tuple[Evidence, Rows, Posterior] | None:
    evidence = Evidence.from_document(ladder)
    rows = rows_of(evidence)
    if rows is None:
        return None
    return evidence, rows, remembered(rows) or posterior_of(rows, 1, PARTICLES)


def _picked(posterior: Posterior) -> Array:
    """So many particles, by their weight."""
    places = (0.5 + np.arange(ASKED)) / ASKED
    at = np.searchsorted(np.cumsum(posterior.weight), places)
    return np.asarray(posterior.theta[np.minimum(at, len(posterior.weight) - 1)])


def _both(theta: Array, rows: Rows) -> tuple[Array, Array]:
    """(particles, weights): each also with link and memory exchanged, as likely as that explains the rows.

    Only readers beside writers take the two apart, and few of the sampler's moves exchange them.
    """
    other = theta.copy()
    other[:, [PARAMETER["link"], PARAMETER["memory"]]] = theta[:, [PARAMETER["memory"], PARAMETER["link"]]]
    inside = np.asarray(((other >= LOW) & (other <= HIGH)).all(axis=1), np.bool_)
    odds = log_likelihood(np.where(inside[:, None], other, theta), rows) - log_likelihood(theta, rows)
    share = np.where(inside, 1 / (1 + np.exp(-np.clip(odds, -50, 50))), 0.0)
    return np.concatenate([theta, other[inside]]), np.concatenate([1 - share, share[inside]]) / len(theta)


def _words(v: Values, rows: Rows, found: Split) -> tuple[Array, Array]:
    """(seconds of one request by each word's parts, word that names the row), by particle and row."""
    shape = found.log_rate.shape
    parts = np.stack([sum((found.times[name] for name in _PARTS.get(w, ())), np.zeros(shape)) for w in WORDS], axis=-1)
    single = np.where(parts.max(-1) >= MOST * parts.sum(-1), parts.argmax(-1), WORD["mixed"])
    many = np.array([WORD[_OF_KIND.get(kind, "unknown")] for kind in KINDS])[found.kind]
    alone = (rows.depth * rows.workers == 1) & ~rows.null
    # Writes that were acknowledged from memory: the disks' where that was full for most of the time.
    s = storage(v, rows)
    after, rate = 1 / np.maximum(s.drain, 1e-12), np.exp(found.log_rate)
    quick = np.clip((rate - after) / np.maximum(found.free - after, 1e-12), 0, 1)
    full = np.where(rows.whole, rate < LOWERED * found.free, (found.free > after) & (quick < MOST))
    taken = np.where(full, WORD["disk"], np.where(found.kind == AT["disk"], WORD["server_cache"], many))
    taken = np.where(alone & ~full, single, taken)
    return parts, np.where(s.queued, taken, np.where(alone, single, many))


def _shares(words: Array, found: Split, rows: Rows, weight: Array) -> Array:
    """Probability of each word, (rows, words). A particle counts for a row as far as it explains its rate."""
    z = (found.log_rate - rows.seen) / np.hypot(rows.sigma, MODEL_ERROR)
    fits = weight[:, None] * (1 + z * z / FREEDOM) ** (-(FREEDOM + 1) / 2)
    shares = np.stack([((words == at) * fits).sum(axis=0) / fits.sum(axis=0) for at in range(len(WORDS))], axis=-1)
    shares[np.abs(z).min(axis=0) > MISFIT] = np.eye(len(WORDS))[WORD["unknown"]]
    return np.asarray(shares)


def _rows_by_cell(rows: Rows) -> dict[int, int]:
    """The row that tells how fast each cell was."""
    at: dict[int, int] = {}
    for row, cell in enumerate(rows.cell):
        if rows.step[row] != cells.FASTEST:
            at.setdefault(int(cell), row)
    return at
