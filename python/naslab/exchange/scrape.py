"""`naslab serve --metrics`: the newest run of each target as a page that Prometheus reads, text format 0.0.4.

The families of `openmetrics` and, beside them, when each target was measured last, its verdict and its warnings.
Source: Prometheus, "Exposition formats".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from naslab.exchange.openmetrics import LATENCY, METRICS, head_of, labels_of, lines, number_of
from naslab.explain.answer import answer

if TYPE_CHECKING:
    from naslab.results.run import Run

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ENDED = "naslab_last_run_timestamp_seconds"
PROBABILITY = "naslab_limit_probability"
RATES = {
    "bytes_per_s": ("naslab_limit_bytes_per_second", 1.0),
    "iops": ("naslab_limit_operations_per_second", 1.0),
    "ns": ("naslab_limit_seconds", 1e-9),
}
"""Names of what a limit allows, and the factor to their unit, by the limit's own unit."""
WARNINGS = "naslab_run_warnings"
WARNINGS_BY_KIND = "naslab_warnings"
ABOUT = {
    ENDED: "When the newest run of a target ended, including a failed one.",
    PROBABILITY: "Probability that this limits the target for this class of I/O.",
    "naslab_limit_bytes_per_second": "Throughput that a limit allows.",
    "naslab_limit_operations_per_second": "Operations that a limit allows.",
    "naslab_limit_seconds": "Latency that a limit causes.",
    WARNINGS: "Warnings of the run; 0 means that nothing makes its numbers doubtful.",
    WARNINGS_BY_KIND: "Warnings of the run by kind.",
}
NAMES = (*(metric.name for metric in METRICS), LATENCY, f"{LATENCY}_count", "naslab_run_info", *ABOUT)
"""Every name that the page can have."""


def run_lines(run: Run) -> Iterator[str]:
    """What the page has of one run. Raises StoreError."""
    yield from lines([run], False)
    yield from _verdict(run)
    yield from _warnings(run)


def ended_lines(rows: Iterable[tuple[Mapping[str, Any], int]]) -> Iterator[str]:
    """When runs ended: (labels, nanoseconds since 1970)."""
    samples = [f"{ENDED}{labels_of(named)} {number_of(wall_ns, 1e-9)}" for named, wall_ns in rows]
    yield from _family(ENDED, samples)


def joined(parts: Iterable[Iterable[str]]) -> str:
    """Texts of several runs as one page: each family once, its samples together."""
    families: dict[str, tuple[list[str], list[str]]] = {}
    head, samples = list[str](), list[str]()
    for part in parts:
        for line in part:
            if line.startswith("# TYPE "):
                head, samples = families.setdefault(line.split()[2], ([], []))
            if not line.startswith("#"):
                samples.append(line)
            elif line not in head:
                head.append(line)
    return "".join(f"{line}\n" for head, samples in families.values() for line in (*head, *samples))


def _verdict(run: Run) -> Iterator[str]:
    samples: dict[str, list[str]] = {}
    for limit in answer(run.document).limits:
        where, unit = limit.get("applies_to") or {}, limit.get("unit")
        about = {"op": where.get("op") or "", "size": where.get("size") or "", "limit": limit["kind"]}
        named = labels_of({**_run_labels(run), **about})
        values = [(PROBABILITY, limit.get("confidence"), 1.0)]
        if unit in RATES:
            name, scale = RATES[unit]
            values.append((name, limit.get("value"), scale))
        for name, value, scale in values:
            if (text := number_of(value, scale)) is not None:
                samples.setdefault(name, []).append(f"{name}{named} {text}")
    for name, found in samples.items():
        yield from _family(name, found)


def _warnings(run: Run) -> Iterator[str]:
    kinds = Counter(str(warning.get("kind")) for warning in run.document.get("warnings") or [])
    yield from _family(WARNINGS, [f"{WARNINGS}{labels_of(_run_labels(run))} {kinds.total()}"])
    named = [(labels_of({**_run_labels(run), "kind": kind}), count) for kind, count in sorted(kinds.items())]
    yield from _family(WARNINGS_BY_KIND, [f"{WARNINGS_BY_KIND}{labels} {count}" for labels, count in named])


def _family(name: str, samples: list[str]) -> Iterator[str]:
    if samples:
        yield from head_of(name, "gauge", "", ABOUT[name], False)
        yield from samples


def _run_labels(run: Run) -> dict[str, Any]:
    return {"run": run.run_id, "target": run.document["target"].get("url")}
