"""Why did the rate drop? A token bucket, a write-back cache, an SLC cache, heat: separated by experiment.

All four begin fast and end slow, and after a while of idling all are fast again. They differ in what an idle
time gives back, in what a flush costs, in whether reads suffer too, and in what the drop is tied to:

| probe | token bucket | write-back cache | SLC cache | heat, drift |
|---|---|---|---|---|
| regained above the floor r in an idle time t | r * t | all, once flushed | what was folded | like 1 - exp |
| flush at the end | short | the cache at the floor's rate | short | short |
| reads right after | at r (shared bucket) or not slow | slow while it drains | not slow | slow |
| shape of the drop | a step | a step | a step | gradual, or a step |
| limited to a lower rate | same bytes above the floor | same | same bytes in all | same time |

Each probe speaks for some causes and against others; a cause is named when something speaks for it, nothing
against it, and every rival was ruled out. Otherwise the verdict is `undecided`, and the reasons say what is missing.
An idle time gives a write-back cache that acknowledges its flush early exactly the credit of a bucket; only reads,
or a floor too even for a disk, tell these two apart: its disks are busy with what is still in memory, so reads get
a part of them until a whole refill later. Reads tell this only where they wait for the disks: where reading the
same bytes again is clearly faster. Few reads in flight (see READ_DEPTH) see the disks' other work best.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from naslab.analysis.buckets import LEAST_RATIO, BucketFit, fit_bucket
from naslab.analysis.changepoints import find_changes
from naslab.analysis.series import NS_PER_S, RateSeries
from naslab.analysis.steady import judge
from naslab.errors import UsageError
from naslab.units import percent_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

Cause = Literal["token_bucket", "write_back_cache", "slc_cache", "thermal_or_drift"]
Word = Literal["token_bucket", "write_back_cache", "slc_cache", "thermal_or_drift", "none", "undecided"]
Sharing = Literal["shared", "separate", "unknown"]
CAUSES: tuple[Cause, ...] = ("token_bucket", "write_back_cache", "slc_cache", "thermal_or_drift")
CLIENT_CACHE_SHARE = 0.5
"""With fewer bytes on the wire than this share of the claimed ones, the burst came from the client's own cache."""
LEAST_MATCH, MATCH = 0.06, 0.12
"""Regained bytes this close to baseline * idle are a bucket's, between both by how well the fit knows the baseline
and the size (of 100 simulated buckets 95 were within 1.5 %, all within three half-widths); beyond MISMATCH they are
not."""
MISMATCH = 0.25
WAITING_SHARE = 0.4
"""A flush that moved this share of the burst: it was waiting in memory. Below DURABLE_SHARE: it was not."""
DURABLE_SHARE = 0.1
EVEN_FLOOR_CV = 0.025
READS_SLOW, READS_FREE, READS_AT_FLOOR = 0.6, 0.85, 0.15
READ_CONTRAST = 1.25
"""Reading the same again so many times as fast: the first time came from the disks, this time from memory."""
READ_DEPTH = 4
"""One block in flight would alternate with a draining cache's and run at the floor, as a shared bucket's reads do;
many would hide that the disks are busy."""
HEAD_SHARE = 0.25
"""Rested reads that take credit are judged on this share of the bucket."""
SATURATED = 0.8
"""A bucket that would have regained more than this share of its size is full for all one can see."""
TWO_RATES = 1.25
_LEAST_BINS = 4
_SHAPE_BINS, _SHAPE_REACH = 150, 5


@dataclass(frozen=True)
class Retest:
    """A second run under load. idle_ns: time without any load before it, flushes and pauses included.

    limited: it ran at a rate below what the target could do (see `retest_rate_bytes_per_s`).
    """

    idle_ns: int
    series: RateSeries
    limited: bool = False


@dataclass(frozen=True)
class Reads:
    """Reading a file that should be in no cache.

    after_bytes_per_s: right after a run that ended at the floor, and its flush. again_bytes_per_s: the last part of
    the same bytes once more, at once. rested: another file after an idle time; whole: one long enough to fill a
    bucket, or to empty a cache, from end to end. deep: READ_DEPTH blocks were in flight.
    """

    after_bytes_per_s: float
    again_bytes_per_s: float
    rested: RateSeries
    whole: bool
    deep: bool = True

    @property
    def from_disks(self) -> bool:
        """Whether the reads waited for the disks, shown by the contrast to memory."""
        return self.again_bytes_per_s >= READ_CONTRAST * self.after_bytes_per_s

    def rested_bytes_per_s(self, most_bytes: float) -> float:
        """Rate of the rested reads until so many bytes were moved, one bin at least."""
        bins = 1 + int(np.searchsorted(np.cumsum(self.rested.moved_bytes), most_bytes))
        return self.rested.part(0, min(bins, len(self.rested))).mean_bytes_per_s()


@dataclass(frozen=True)
class BurstEvidence:
    """What a measuring plan must bring.

    op: of the runs. before: the first run, from a rested target until the floor is known. retests: at least one; two,
    the second limited to about twice the floor, tell an SLC cache apart. flush_ns: time of a flush right after the
    first run (writes). dirty_bytes: acknowledged and not on the disks then, where a counter tells; else the flush
    is taken to run at the floor's rate. reads: for runs that write. wire_bytes: of the first run.
    """

    op: Literal["read", "write"]
    before: RateSeries
    retests: tuple[Retest, ...] = ()
    flush_ns: int | None = None
    dirty_bytes: int | None = None
    reads: Reads | None = None
    wire_bytes: int | None = None


@dataclass(frozen=True)
class Finding:
    """One probe's outcome in words and numbers, what it speaks for, and what it rules out."""

    probe: str
    text: str
    supports: tuple[Cause, ...] = ()
    against: tuple[Cause, ...] = ()


@dataclass(frozen=True)
class CauseVerdict:
    """word: the cause. findings: all evidence. bucket: the numbers, when the series has burst and floor.

    sharing: whether reads spend the credit of writes, too; `unknown` for any other cause.
    """

    word: Word
    findings: tuple[Finding, ...]
    bucket: BucketFit | None
    missing: tuple[str, ...] = field(default=())
    sharing: Sharing = "unknown"


def retest_idle_ns(fit: BucketFit, bin_ns: int, bins: int = 30) -> int:
    """How long to idle so that a bucket would have regained a burst of `bins` bins, at most 0.6 of its size.

    Raises UsageError for a fit without a baseline above 0.
    """
    baseline, burst = fit.baseline_bytes_per_s.value, fit.burst_bytes_per_s.value
    if baseline <= 0:
        raise UsageError("a floor of 0 bytes/s refills nothing, so an idle time would show nothing")
    wanted = min((burst - baseline) * bins * bin_ns / NS_PER_S, 0.6 * fit.size_bytes.value)
    return math.ceil(wanted / baseline * NS_PER_S)


def retest_rate_bytes_per_s(fit: BucketFit) -> float:
    """Rate for the limited retest: twice the floor, less where the burst itself is below four times."""
    baseline, burst = fit.baseline_bytes_per_s.value, fit.burst_bytes_per_s.value
    return baseline * (1 + min(1.0, (burst / max(baseline, 1.0) - 1) / 3))


def retest_duration_ns(fit: BucketFit, idle_ns: int, bin_ns: int, limited: bool = False) -> int:
    """How long a second run must be to see its drop: half as long again as the credit lasts, and 30 bins."""
    baseline = fit.baseline_bytes_per_s.value
    rate = retest_rate_bytes_per_s(fit) if limited else fit.burst_bytes_per_s.value
    credit = min(baseline * idle_ns / NS_PER_S, fit.size_bytes.value)
    return math.ceil(1.5 * credit / max(rate - baseline, 1.0) * NS_PER_S) + 30 * bin_ns


def decide_cause(evidence: BurstEvidence) -> CauseVerdict:
    """Names the cause of the drop, or says what is missing. Raises UsageError for an empty series.

    Source: the table in the module's first lines.
    """
    before = evidence.before
    fit = fit_bucket(before)
    shape = _shape(before, fit)
    if evidence.wire_bytes is not None and evidence.wire_bytes < CLIENT_CACHE_SHARE * before.total_bytes:
        share = evidence.wire_bytes / max(before.total_bytes, 1)
        text = f"only {percent_text(share)} of the bytes were on the wire: the burst came from the client's own cache"
        return CauseVerdict(
            "undecided", (Finding("wire bytes", text),), fit, ("a run that bypasses the client's cache",)
        )
    if fit is None:
        return _without_a_drop(before, shape)
    regained = [_Regained.of(retest, fit) for retest in evidence.retests if len(retest.series)]
    waiting = _waiting_share(evidence, fit)
    short_flush = waiting is not None and waiting <= DURABLE_SHARE
    gradual = shape is not None and "thermal_or_drift" in shape.supports
    pace = _pace(evidence, fit)
    findings = [
        shape, _operation(evidence), _flush(evidence, fit, pace), _reads(evidence, fit, pace, short_flush),
        _recovery(fit),
        *(_retest_finding(found, fit, short_flush, gradual) for found in regained), _two_rates(regained),
    ]  # fmt: skip
    verdict = _weigh(evidence, fit, tuple(finding for finding in findings if finding is not None))
    if verdict.word == "undecided" and not all(found.ended for found in regained):
        return replace(verdict, missing=("a second run until it drops", *verdict.missing))
    if verdict.word == "token_bucket":
        return replace(verdict, sharing=_sharing(evidence, pace))
    return verdict


def _weigh(evidence: BurstEvidence, fit: BucketFit, findings: tuple[Finding, ...]) -> CauseVerdict:
    """One cause left with something for it; a bucket only when its rivals are ruled out."""
    against = {cause for finding in findings for cause in finding.against}
    supported = {cause for finding in findings for cause in finding.supports} - against
    alive = [cause for cause in CAUSES if cause not in against]
    missing = _missing(evidence, alive)
    if "token_bucket" in supported:
        word: Word = "token_bucket" if alive == ["token_bucket"] else "undecided"
        return CauseVerdict(word, findings, fit, () if word == "token_bucket" else missing)
    if len(supported) == 1:
        # A rival that nothing speaks for is no rival; but a bucket that nobody tested is one.
        named = next(iter(supported))
        if "token_bucket" in against:
            return CauseVerdict(named, findings, fit)
    return CauseVerdict("undecided", findings, fit, missing)


def _missing(evidence: BurstEvidence, alive: list[Cause]) -> tuple[str, ...]:
    """Experiments not done that would separate the causes still standing."""
    lacking = []
    if not evidence.retests:
        lacking.append("a second run after an idle time")
    if evidence.op == "write" and evidence.flush_ns is None and "write_back_cache" in alive:
        lacking.append("a timed flush at the end of the first run")
    if evidence.op == "write" and len(alive) > 1:
        lacking += _missing_reads(evidence.reads)
    if "slc_cache" in alive and not any(retest.limited for retest in evidence.retests):
        lacking.append("a second run, limited to about twice the floor")
    return tuple(lacking)


def _missing_reads(reads: Reads | None) -> list[str]:
    if reads is None:
        return ["reads of an uncached file right after a run and after a rest"]
    lacking = [] if reads.whole else ["reads after a rest as long as a refill takes"]
    if not reads.from_disks:
        lacking.append("reads that wait for the disks: from files larger than the server cache")
    return lacking


def _without_a_drop(series: RateSeries, shape: Finding | None) -> CauseVerdict:
    """No burst and floor: a drift when it falls gradually or has a slope, else nothing at all."""
    if shape is not None and "thermal_or_drift" in shape.supports:
        return CauseVerdict("thermal_or_drift", (shape,), None)
    verdict = judge(series)
    if verdict.slope is not None and verdict.slope.drift < 0 and verdict.word == "drifting":
        return CauseVerdict("thermal_or_drift", (Finding("slope", verdict.reason, ("thermal_or_drift",)),), None)
    return CauseVerdict("none", (Finding("series", "the rate did not drop to a lower floor"),), None)


def _shape(series: RateSeries, fit: BucketFit | None) -> Finding | None:
    """A step or a gradual fall: the better of a two-level and an exponential fit, by squares left over.

    Looks at five times what was before the drop: beside hours of floor any fall is a step. A fall slower than 4 %
    of that is gradual. None when neither explains half of the squares.
    """
    if fit is not None:
        near = max(_SHAPE_REACH * (fit.dropped_ns - series.start_ns) // series.bin_ns, 2 * _SHAPE_BINS)
        series = series.part(0, min(near, len(series)))
    work = series.merged(max(1, len(series) // _SHAPE_BINS))
    rates = work.rates_bytes_per_s
    if len(rates) < 20 or not find_changes(series).points:
        return None
    total = float(np.square(rates - rates.mean()).sum())
    step = min(
        float(np.square(rates[:at] - rates[:at].mean()).sum() + np.square(rates[at:] - rates[at:].mean()).sum())
        for at in range(2, len(rates) - 2)
    )
    decay, constant_bins = _best_decay(rates)
    if min(step, decay) > total / 2:
        return None
    seconds = constant_bins * work.bin_ns / NS_PER_S
    if decay < 0.8 * step and constant_bins > 0.04 * len(rates):
        text = f"the rate fell gradually, with a time constant near {seconds:.0f} s, not in a step"
        return Finding("shape", text, ("thermal_or_drift",), ("token_bucket", "write_back_cache", "slc_cache"))
    return Finding("shape", "the rate fell in a step")


def _best_decay(rates: NDArray[np.float64]) -> tuple[float, float]:
    """(squares left over, time constant in bins) of floor + rise * exp(-t / constant), held level until a start."""
    count = len(rates)
    at = np.arange(count, dtype=np.float64)
    best: tuple[float, float] = (math.inf, 0.0)
    for start in np.linspace(0, 0.6 * count, 7).tolist():
        for constant in np.geomspace(0.02 * count, 2 * count, 14).tolist():
            column = np.exp(-np.maximum(at - start, 0) / constant)
            centred = column - column.mean()
            rise = float(np.dot(centred, rates) / np.dot(centred, centred))
            left = float(np.square(rates - rates.mean() - rise * centred).sum())
            if rise > 0 and left < best[0]:
                best = (left, constant)
    return best


def _operation(evidence: BurstEvidence) -> Finding | None:
    if evidence.op == "write":
        return None
    text = "reads have no write-back or SLC cache to fill"
    return Finding("operation", text, (), ("write_back_cache", "slc_cache"))


def _waiting_share(evidence: BurstEvidence, fit: BucketFit) -> float | None:
    """Bytes not on the disks when the first run ended, as a share of the burst; None when nobody looked."""
    waiting = evidence.dirty_bytes
    if waiting is None and evidence.flush_ns is not None:
        waiting = round(evidence.flush_ns / NS_PER_S * fit.baseline_bytes_per_s.value)
    return None if waiting is None or evidence.op == "read" else waiting / max(fit.size_bytes.value, 1.0)


def _flush(evidence: BurstEvidence, fit: BucketFit, pace: _Pace | None) -> Finding | None:
    """What still waited in memory when the first run ended."""
    share = _waiting_share(evidence, fit)
    if share is None:
        return None
    text = f"{percent_text(share)} of the burst was not yet on the disks when the run ended"
    if share >= WAITING_SHARE:
        return Finding("flush", text, ("write_back_cache",), ("token_bucket", "slc_cache", "thermal_or_drift"))
    if share <= DURABLE_SHARE and fit.floor_cv <= EVEN_FLOOR_CV and pace not in ("slowed", "somewhat"):
        # A short flush alone may be a lie; a floor this even is no disk that drains a cache, unless reads say so.
        text += f", and the floor is steady within {percent_text(fit.floor_cv, 1)}"
        return Finding("flush and floor", text, (), ("write_back_cache",))
    return Finding("flush", text)


_Pace = Literal["floor", "free", "slowed", "somewhat"]


def _pace(evidence: BurstEvidence, fit: BucketFit) -> _Pace | None:
    """Reads right after: held to the floor (a shared bucket gives that and no more), free, slowed, or in between."""
    reads = evidence.reads
    if evidence.op == "read" or reads is None or not reads.rested.total_bytes:
        return None
    now, floor = reads.after_bytes_per_s, fit.baseline_bytes_per_s.value
    at_floor = abs(now / max(floor, 1.0) - 1) <= READS_AT_FLOOR
    # Rested reads that take credit may run out of it; others tell more the longer they are.
    rested = reads.rested_bytes_per_s(HEAD_SHARE * fit.size_bytes.value if at_floor else math.inf)
    if now >= READS_FREE * rested:
        return "free"
    if now > READS_SLOW * rested:
        return "somewhat"
    if at_floor and not reads.deep:
        return "somewhat"
    return "floor" if at_floor else "slowed"


def _reads(evidence: BurstEvidence, fit: BucketFit, pace: _Pace | None, short_flush: bool) -> Finding | None:
    """Whether reads suffer too."""
    reads = evidence.reads
    if reads is None or pace is None:
        return None
    rested = reads.rested_bytes_per_s(HEAD_SHARE * fit.size_bytes.value if pace == "floor" else math.inf)
    text = f"reads right after ran at {reads.after_bytes_per_s / 1e6:,.1f} MB/s, rested at {rested / 1e6:,.1f} MB/s"
    if pace == "floor":
        return Finding("reads", f"{text}: limited to the same floor", (), ("write_back_cache", "slc_cache"))
    if pace == "slowed":
        causes: tuple[Cause, ...] = ("thermal_or_drift", "write_back_cache")
        return Finding("reads", f"{text}: slowed, but above the floor", causes, ("token_bucket", "slc_cache"))
    if pace == "free" and not reads.from_disks:
        return Finding("reads", f"{text}: not limited, but perhaps from the server cache")
    if pace == "free":
        # As fast as after a whole rest: nothing is left to write, though the flush was short.
        rivals: tuple[Cause, ...] = ("thermal_or_drift", "write_back_cache")
        return Finding("reads", f"{text}: not limited", (), rivals if reads.whole and short_flush else rivals[:1])
    return Finding("reads", text)


def _sharing(evidence: BurstEvidence, pace: _Pace | None) -> Sharing:
    if pace == "floor":
        return "shared"
    return "separate" if pace == "free" and evidence.reads is not None and evidence.reads.from_disks else "unknown"


def _recovery(fit: BucketFit) -> Finding | None:
    if not fit.recovers:
        return None
    text = "the rate rose again under load: spent credit does not refill while it is used"
    return Finding("floor", text, ("thermal_or_drift",), ("token_bucket", "write_back_cache"))


@dataclass(frozen=True)
class _Regained:
    """What a retest moved above the floor before it dropped again.

    expected_bytes: a bucket's credit after this idle time. burst_share: (rate - floor) / rate of its burst, 0
    without one. ended: it dropped within the retest. telling: the credit would have been neither full nor too
    little to be seen.
    """

    idle_ns: int
    above_bytes: float
    expected_bytes: float
    burst_share: float
    ended: bool
    telling: bool
    tolerance: float = MATCH

    @property
    def matches(self) -> bool:
        """Whether a bucket of the fit would have given this."""
        return self.telling and abs(self.ratio - 1) <= self.tolerance

    @property
    def ratio(self) -> float:
        """Regained / expected."""
        return self.above_bytes / max(self.expected_bytes, 1.0)

    @classmethod
    def of(cls, retest: Retest, fit: BucketFit) -> _Regained:
        """Counts the bytes above the floor, as fit_bucket does, with the retest's own burst rate."""
        series, floor = retest.series, fit.baseline_bytes_per_s.value
        rates, bin_s = series.rates_bytes_per_s, series.bin_ns / NS_PER_S
        head = float(rates[:3].mean()) if len(rates) else 0.0
        credit = floor * retest.idle_ns / NS_PER_S
        expected = min(credit, fit.size_bytes.value)
        usual = head if retest.limited else max(head, fit.burst_bytes_per_s.value)
        seen = expected >= _LEAST_BINS * bin_s * max(usual - floor, 0.0) and expected > 0
        telling = seen and credit <= SATURATED * fit.size_bytes.value
        if head <= LEAST_RATIO * floor:
            # No burst: what little the first bins hold above the floor.
            above = max(0.0, float((rates[:3] - floor).sum()) * bin_s)
            return cls(retest.idle_ns, above, expected, 0.0, True, telling)
        excess = np.concatenate((np.zeros(1), np.cumsum(rates - (head + floor) / 2)))
        drop = int(np.argmax(excess))
        above = float((rates[: drop + 1] - floor).sum()) * bin_s
        ended = len(rates) - drop >= _LEAST_BINS
        rate = max(float(rates[: max(drop, 1)].mean()), 1.0)
        # Not ended, it can only grow: too much already is too much.
        telling &= ended or above > (1 + MISMATCH) * expected
        tolerance = min(max(0.03 + 3 * fit.precision, LEAST_MATCH), MATCH)
        return cls(retest.idle_ns, above, expected, max(0.0, 1 - floor / rate), ended, telling, tolerance)


def _retest_finding(found: _Regained, fit: BucketFit, short_flush: bool, gradual: bool) -> Finding:
    """A bucket gives back floor * idle, no more and no less."""
    size = fit.size_bytes.value
    text = (
        f"after {found.idle_ns / NS_PER_S:,.1f} s idle, {found.above_bytes / 1e6:,.1f} MB moved above the floor; "
        f"floor times idle time is {found.expected_bytes / 1e6:,.1f} MB, the first burst had {size / 1e6:,.1f} MB"
    )
    all_back = found.above_bytes >= 0.85 * size
    if found.matches:
        return Finding("retest", text, ("token_bucket",), () if gradual else ("thermal_or_drift",))
    if found.telling and abs(found.ratio - 1) > MISMATCH:
        if not found.ended and not all_back:
            return Finding("retest", f"{text}, and the rate had not dropped yet", (), ("token_bucket",))
        if all_back and not short_flush:
            return Finding("retest", text, ("write_back_cache",), ("token_bucket",))
        against: tuple[Cause, ...] = ("token_bucket",) if all_back else ("token_bucket", "write_back_cache")
        return Finding("retest", text, ("slc_cache",), against)
    if not found.telling and found.ended and found.above_bytes < 0.7 * found.expected_bytes:
        return Finding("retest", text, (), ("token_bucket",))
    return Finding("retest", text)


def _two_rates(regained: list[_Regained]) -> Finding | None:
    """The same law at two rates: a cache of bytes would have given back less above the floor at the lower one."""
    matching = [found.burst_share for found in regained if found.matches]
    if len(matching) < 2 or max(matching) < TWO_RATES * min(matching):
        return None
    text = "at two different rates the bytes above the floor, not all bytes, follow the idle time"
    return Finding("two rates", text, ("token_bucket",), ("slc_cache",))
