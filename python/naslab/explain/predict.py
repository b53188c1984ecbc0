"""What a server would do with other parts: each particle of the posterior is a whole server, and gets the part changed.

A prediction is the median of what the particles give, its interval their spread and the model's own error. What the
ladder never showed is as wide in the particles as it is unknown; then the low end of the interval is a bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naslab.explain.evidence import Evidence
from naslab.explain.fitted import Fitted, fit, quantile
from naslab.explain.forward import values_of
from naslab.explain.hypotheses import AT, LOW, Array
from naslab.explain.inference import RUNS
from naslab.explain.loads import Asked, Load, measured_loads, rows_of_loads
from naslab.explain.points import Figure
from naslab.explain.stations import KINDS, split
from naslab.explain.steps import SMALL_BYTES

WIDE = 1.3
"""An interval whose ends are further apart than this factor is no prediction."""
HIDDEN = 3.0
"""Where the particles' own ends are further apart than this, the high one comes from what nobody saw: left out."""
SAME = 1.05
"""A rate that changes by less than this factor stays."""
MODEL_ERROR = 0.03
"""Half of an interval, relative, that the model itself adds."""
FITS = 0.15
"""The model has to give what was measured within this, or it says nothing of what was not."""


@dataclass(frozen=True)
class Scale:
    """A changed number: so many times as much, or a value of its own."""

    factor: float | None = None
    value: float | None = None

    def of(self, logs: Array, power: float = 1.0) -> Array:
        """What becomes of the logarithms of a number; power -1: of one that is the inverse of what is scaled."""
        if self.value is not None:
            return np.full_like(logs, power * math.log(self.value))
        return logs + power * math.log(self.factor or 1.0)

    def document(self) -> dict[str, float]:
        """As in JSON."""
        return {"factor": self.factor} if self.factor is not None else {"value": self.value or 0.0}


@dataclass(frozen=True)
class Change:
    """Changed parts; None stays. Own values of link and disk are bytes/s, of ram bytes, of latency ns."""

    link: Scale | None = None
    disk: Scale | None = None
    disk_iops: Scale | None = None
    ram: Scale | None = None
    latency: Scale | None = None
    cpu: Scale | None = None

    def document(self) -> dict[str, Any]:
        """Only what changes."""
        return {name: each.document() for name, each in vars(self).items() if each is not None}

    def of(self, theta: Array) -> Array:
        """The particles with the changed parts.

        A disk's factor also holds for its requests, an own value does not; a link of an own value carries it each way.
        """
        new = theta.copy()

        def scale(names: str, by: Scale | None, power: float = 1.0) -> None:
            for name in names.split() if by else ():
                new[:, AT[name]] = by.of(new[:, AT[name]], power)  # type: ignore[union-attr]

        scale("link", self.link)
        if self.link and self.link.value is not None:
            new[:, AT["uplink_ratio"]] = 0.0
        scale("disk_read disk_write", self.disk)
        if self.disk and self.disk.factor is not None:
            scale("request_s seek_s commit_s", self.disk, -1.0)
        if self.disk_iops and self.disk_iops.value is not None:
            for name in ("seek_s", "commit_s"):
                new[:, AT[name]] = LOW[AT[name]]
            scale("request_s", self.disk_iops, -1.0)
        else:
            scale("request_s seek_s commit_s", self.disk_iops, -1.0)
        scale("cache", self.ram)
        delay = Scale(self.latency.factor, self.latency.value / 1e9 if self.latency.value else None) if (
            self.latency) else None  # fmt: skip
        scale("delay_s", delay)
        scale("server_s", self.cpu, -1.0)
        return new


@dataclass(frozen=True)
class Prediction:
    """One load, now and then. measured: None where it was not. known: `then` is a prediction, else only its ends are.

    certainty, certainty_now: the posterior probabilities of `limit_then` and of `limit_now`. factor: then over now
    within one particle (low, median, high); what the model misses now it misses then, too.
    """

    load: Load
    measured: Figure | None
    now: Figure
    then: Figure
    known: bool
    limit_now: str
    limit_then: str
    why: str = ""
    certainty: float = 1.0
    factor: tuple[float, float, float] = (1.0, 1.0, 1.0)
    certainty_now: float = 1.0

    @property
    def stays(self) -> bool:
        """Whether the change leaves the rate as it is, whatever the rate is known to."""
        return self.factor[0] > 1 / SAME and self.factor[2] < SAME

    def document(self) -> dict[str, Any]:
        """As in JSON."""
        load = self.load
        then = self.then.document() if self.known else {"at_least": self.then.low, "unit": self.then.unit}
        if not self.known and math.isfinite(self.then.high):
            then["at_most"] = self.then.high
        return {
            "applies_to": {"op": load.op, "size": load.size}, "record_bytes": load.record_bytes, "depth": load.depth,
            "connections": load.connections, "set_bytes": load.set_bytes, "random": load.random,
            "measured": self.measured.document() if self.measured else None, "now": self.now.document(),
            "then": then, "known": self.known, "limit_now": self.limit_now,
            "limit_then": self.limit_then if self.known else None,
            "limit_then_probability": self.certainty if self.known else None, "why": self.why,
        }  # fmt: skip


def predict(fitted: Fitted, change: Change, now: Load, then: Load, measured: Figure | None = None) -> Prediction:
    """A load now, and (perhaps another one) with the changed parts. measured: of `now`, where it was."""
    rows, weight = rows_of_loads([now, then], fitted.rows), fitted.weight
    before = split(values_of(fitted.theta), rows)
    after = split(values_of(change.of(fitted.theta)), rows)
    log_now, log_then = before.log_rate[:, 0], after.log_rate[:, 1]
    modelled = math.exp(quantile(log_now, weight, 0.5)) * now.scale
    limit_now, certainty_now = _limit(before.kind[:, 0], weight)
    limit_then, certainty = _limit(after.kind[:, 1], weight)
    why = fitted.unfit.get(f"{then.op} {then.size}", "") or _misfit(modelled, measured)
    same = before.kind[:, 0] == after.kind[:, 1]
    low, middle, high = (math.exp(quantile(log_then - log_now, weight, q)) for q in (0.025, 0.5, 0.975))
    part = then.scale / now.scale
    factor = (low * part, middle * part, high * part)
    if measured is not None and measured.value > 0 and not why:
        # Where the same part stays the slowest, what the model misses of it now it misses then.
        log_then = log_then + np.where(same, math.log(measured.value / now.scale) - log_now, 0.0)
    kept = measured if now == then or float(weight[same].sum()) > 0.5 or _is_sampled(then) else None
    figure = _figure(log_then + math.log(then.scale), weight, then.unit, kept)
    spread = math.exp(quantile(log_then, weight, 0.975) - quantile(log_then, weight, 0.025))
    if why:
        figure = Figure(0.0, 0.0, math.inf, then.unit)
    elif spread > HIDDEN:
        why, figure = "hidden", Figure(figure.low, figure.low, math.inf, then.unit)
    elif figure.high > WIDE * figure.low:
        why = "wide"
    exact = Figure.exactly(modelled, now.unit)
    return Prediction(
        then, measured, exact, figure, not why, limit_now, limit_then, why, certainty, factor, certainty_now
    )


def _figure(logs: Array, weight: Array, unit: str, measured: Figure | None) -> Figure:
    """Median of the particles; interval: theirs, the model's error and the measurement's, in quadrature."""
    middle, low, high = (quantile(logs, weight, q) for q in (0.5, 0.025, 0.975))
    down, up = (MODEL_ERROR**2 + each**2 for each in _doubt(measured))
    down, up = math.sqrt(down + (middle - low) ** 2), math.sqrt(up + (high - middle) ** 2)
    return Figure(math.exp(middle), math.exp(middle - down), math.exp(middle + up), unit)


def _doubt(measured: Figure | None) -> tuple[float, float]:
    """How far a measured rate's logarithm may be off, down and up."""
    if measured is None or measured.value <= 0:
        return 0.0, 0.0
    down = math.log(measured.value / measured.low) if measured.low > 0 else math.inf
    return down, math.log(max(measured.high / measured.value, 1.0))


def _is_sampled(load: Load) -> bool:
    """Random reads beyond the small files: how many of a few met the cache is chance."""
    return load.random and load.op == "read" and load.set_bytes > SMALL_BYTES


def _limit(kinds: NDArray[np.int64], weight: Array) -> tuple[str, float]:
    """The most probable limit, and its probability."""
    shares = np.bincount(kinds, weights=weight, minlength=len(KINDS))
    best = int(shares.argmax())
    return KINDS[best], round(float(shares[best] / shares.sum()), 3)


def _misfit(modelled: float, measured: Figure | None) -> str:
    """Whether the model misses what was measured."""
    if measured is None or measured.value <= 0:
        return ""
    return "misfit" if abs(math.log(measured.value / modelled)) > math.log(1 + FITS) else ""


def predictions(
    evidence: Evidence, change: Change, asked: Asked, runs: int = RUNS
) -> tuple[Fitted | None, list[Prediction]]:
    """The fitted model, and a prediction for each class of load that was measured."""
    fitted = fit(evidence, runs)
    if fitted is None:
        return None, []
    return fitted, [predict(fitted, change, load, asked.of(load), figure) for load, figure in measured_loads(evidence)]
