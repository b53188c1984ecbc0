"""fio's JSON and json+, also where it follows the normal output in one file. Source: fio 3.33's own output, and fio's
stat.c for 2.x. `bw` is KiB/s, `bw_bytes` bytes per second; times of 2.x are microseconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from naslab.exchange.importers.base import (
    KIB,
    MAX_CELLS,
    Cell,
    Draft,
    Input,
    checked,
    date_ns,
    may_be,
    number,
    short,
    whole,
)
from naslab.exchange.importers.fio_options import operation, told_by
from naslab.results.columns import LATENCY_NAMES
from naslab.results.foreign import foreign_cell
from naslab.results.histogram import Histogram, from_values, merge

_PERCENTILES = {"50.000000": "p50", "90.000000": "p90", "99.000000": "p99", "99.900000": "p99_9"}
MAX_BINS = 200_000
_OWN = ("op", "workload", "block", "cache_state", "durability", "regime", "durable_bytes_per_s", "wire_bytes")
Job = Mapping[str, Any]


def parse(source: Input) -> list[Draft]:
    """The run in fio's JSON: a cell a job; clones of a job in one group are workers of one cell. Several runs only in
    what naslab exported, whose jobs name theirs.

    Raises ForeignFileError where nothing of it can be read.
    """
    document = load(source)
    shared = _object(document.get("global options"))
    drafts: dict[str, Draft] = {}
    paths: dict[str, list[str]] = {}
    for jobs in _alike(document.get("jobs")):
        options = {**shared, **_object(jobs[0].get("job options"))}
        own = _object(jobs[0].get("naslab"))
        run = short(str(own.get("run_id") or ""))[:80]
        draft = drafts[run] = drafts.get(run) or _draft(document, run)
        told = [own.get("target")] if run else [options.get(name) for name in ("filename", "directory")]
        paths.setdefault(run, []).extend(path for path in told if isinstance(path, str))
        made = _cell(len(draft.cells), jobs, options, own if run else {})
        if made and len(draft.cells) <= MAX_CELLS:
            draft.cells.append(made[0])
            draft.blobs |= {made[0]["id"]: made[1]} if made[1] else {}
            draft.format = "fio-json+" if made[1] else draft.format
    for run, draft in drafts.items():
        draft.target = short(", ".join(dict.fromkeys(paths[run])))
        draft.warnings += _notes(document, draft)
    return [checked(draft, source) for draft in drafts.values()] or [checked(_draft(document, ""), source)]


def _draft(document: Mapping[str, Any], run: str) -> Draft:
    """What the document says before its jobs. run: the id of naslab's, where it exported the file."""
    draft = Draft("naslab" if run else "fio", "fio-json", [], unknown=("time zone",), title=run or None)
    version = document.get("naslab version" if run else "fio version", "")
    draft.tool_version, draft.label = short(str(version)).removeprefix("fio-") or None, run or None
    stamp = whole(document.get("timestamp"))
    if stamp is not None and 0 < stamp < 10**11:
        draft.start_wall_ns, draft.unknown = stamp * 10**9, ()
    else:
        draft.start_wall_ns = date_ns(str(document.get("time", "")))
    return draft


def _named(own: Mapping[str, Any]) -> dict[str, Any]:
    """What a job that naslab exported says in its own words, where fio has none."""
    told = {name: own[name] for name in _OWN if name in own and may_be(name, own[name])}
    return {name: short(value)[:80] if isinstance(value, str) else value for name, value in told.items()}


def load(source: Input) -> dict[str, Any]:
    """The JSON object in the file, whatever stands before it. Raises ForeignFileError."""
    source.values(b",[{")
    found, _ = source.json(max(0, source.text.find("{")))
    if not isinstance(found, dict):
        raise source.broken("is JSON, but not an object")
    return found


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _alike(jobs: Any) -> list[list[Job]]:
    """Jobs by name and group, in order: those alike ran at the same time as clones of one."""
    found: dict[tuple[Any, ...], list[Job]] = {}
    for at, job in enumerate(jobs if isinstance(jobs, list) else []):
        if isinstance(job, dict):
            options = _object(job.get("job options"))
            alike = str(options.get("numjobs", "1")) != "1"
            key = (str(job.get("jobname")), str(job.get("groupid")), None if alike else at)
            found.setdefault(key, []).append(job)
    return list(found.values())


def _cell(
    number_: int, jobs: Sequence[Job], options: Mapping[str, Any], own: Mapping[str, Any]
) -> tuple[Cell, dict[str, bytes]] | None:
    """(cell, raw data) of a job and its clones; None where it moved nothing."""
    sides = {kind: [_object(job.get(kind)) for job in jobs] for kind in ("read", "write")}
    ops = {kind: sum(whole(each.get("total_ios")) or 0 for each in parts) for kind, parts in sides.items()}
    rates = {kind: _rates(parts) for kind, parts in sides.items()}
    if not any(rate for rate, _ in rates.values()):
        return None
    op, random = operation(options, ops["read"], ops["write"])
    told = told_by(options)
    workers = len(jobs) if len(jobs) > 1 else whole(options.get("numjobs", "1")) or 1
    moved = [found for _, found in rates.values()]
    histograms = {kind: _histogram(parts) for kind, parts in sides.items() if ops[kind]}
    kinds = {kind: _kind(sides[kind], ops[kind], rates[kind][1], histograms[kind]) for kind in histograms}
    times = [number(each.get("runtime")) or 0 for parts in sides.values() for each in parts]
    total = sum(ops.values())
    iops = sum(number(each.get("iops")) or 0 for parts in sides.values() for each in parts)
    rate = sum(rate for rate, _ in rates.values())
    if len(jobs) > 1 and None not in moved and max(times) > 0:
        # Each clone's rate is by its own time; fio, too, divides all by the longest for its line of the group.
        rate, iops = sum(found or 0 for found in moved) / max(times) * 1e3, total / max(times) * 1e3
    told |= {
        "workers": workers, "pattern": "random" if random else "sequential", "ops": total,
        "bytes": None if None in moved else sum(found or 0 for found in moved),
        "iops": iops,
        "duration_ns": round(max(times) * 1e6) or None, "errors": sum(bool(job.get("error")) for job in jobs),
        "write_fraction": ops["write"] / total if total else None, "kinds": kinds,
        "latency_ns": _together(kinds, histograms), "cpu_fraction": _cpu(jobs) if len(jobs) == workers else None,
    }  # fmt: skip
    blobs = {f"latency:{kind}": found.encode() for kind, found in histograms.items() if found is not None}
    told |= _named(own)
    return foreign_cell(number_, told.pop("op", op), rate, **told), blobs


def _rates(parts: Sequence[Job]) -> tuple[float, int | None]:
    """(bytes per s of clones together, bytes; None where the version tells kilobytes)."""
    rate, moved = 0.0, 0
    modern = all("io_kbytes" in each for each in parts if each.get("total_ios"))
    for each in parts:
        exact, kib = number(each.get("bw_bytes")), number(each.get("bw"))
        rate += exact if exact is not None else (kib or 0) * KIB
        moved += whole(each.get("io_bytes")) or 0
    return rate, moved if modern else None


def _cpu(jobs: Sequence[Job]) -> float | None:
    """Processors in use by the jobs: percentages of each are of its own time."""
    found = [number(job.get(name)) for job in jobs for name in ("usr_cpu", "sys_cpu")]
    return None if None in found else sum(value or 0 for value in found) / 100


def _clock(side: Job, name: str) -> tuple[dict[str, Any], int]:
    """(statistics of `lat`, `clat` of one side, nanoseconds of their unit)."""
    if isinstance(side.get(f"{name}_ns"), dict):
        return side[f"{name}_ns"], 1
    return _object(side.get(name)), 1000


def _kind(parts: Sequence[Job], ops: int, moved: int | None, histogram: Histogram | None) -> dict[str, Any]:
    latency: dict[str, Any] = dict.fromkeys(LATENCY_NAMES)
    clocks = [_clock(each, "lat") for each in parts if each.get("total_ios")]
    for name, pick in (("min", min), ("max", max)):
        values = [value * unit for found, unit in clocks if (value := number(found.get(name))) is not None]
        latency[name] = round(pick(values)) if values else None
    weights = [(number(found.get("mean")), unit, number(found.get("N")) or 1) for found, unit in clocks]
    if weights and all(mean is not None for mean, _, _ in weights):
        all_of = sum(n for _, _, n in weights)
        latency["mean"] = round(sum((mean or 0) * unit * n for mean, unit, n in weights) / all_of) if all_of else None
    if len(clocks) == 1:
        side = next(each for each in parts if each.get("total_ios"))
        latency |= _percentiles(side)
    elif histogram is not None:
        latency |= {name: value for name, value in histogram.summary().items() if name.startswith("p")}
    high = latency["max"]  # percentiles are ends of fio's buckets, which may be above the exact largest
    if high is not None:
        latency = {name: value if value is None else min(value, high) for name, value in latency.items()}
    return {"ops": ops, "bytes": moved or 0, "latency_ns": latency, "response_ns": None}


def _percentiles(side: Job) -> dict[str, int]:
    """Of the whole latency where fio was asked for these, else of completion, which leaves submission out."""
    for name in ("lat", "clat"):
        found, unit = _clock(side, name)
        told = _object(found.get("percentile"))
        values = {ours: number(told.get(theirs)) for theirs, ours in _PERCENTILES.items()}
        if any(value is not None for value in values.values()):
            return {ours: round(value * unit) for ours, value in values.items() if value is not None}
    return {}


def _histogram(parts: Sequence[Job]) -> Histogram | None:
    """json+'s bins; None where they are not there, or not of all clones."""
    found = []
    for side in (each for each in parts if each.get("total_ios")):
        for name in ("lat", "clat"):
            stats, unit = _clock(side, name)
            bins = [
                (whole(value), whole(count)) for value, count in list(_object(stats.get("bins")).items())[:MAX_BINS]
            ]
            good = [(v * unit, c) for v, c in bins if v is not None and c and v * unit < 1 << 62 and c < 1 << 40]
            if good:
                found.append(from_values([v for v, _ in good], [c for _, c in good]))
                break
        else:
            return None
    return merge(found) if found else None


def _together(kinds: Mapping[str, Any], histograms: Mapping[str, Histogram | None]) -> dict[str, Any]:
    """Latency over reads and writes."""
    if len(kinds) == 1:
        return dict(next(iter(kinds.values()))["latency_ns"])
    each = [(kind["latency_ns"], kind["ops"]) for kind in kinds.values()]
    latency: dict[str, Any] = {}
    for name, pick in (("min", min), ("max", max)):
        values = [found[name] for found, _ in each if found[name] is not None]
        latency[name] = pick(values) if values else None
    if each and all(found["mean"] is not None for found, _ in each):
        latency["mean"] = round(sum(found["mean"] * ops for found, ops in each) / sum(ops for _, ops in each))
    parts = [found for found in histograms.values() if found is not None]
    if parts and len(parts) == len(histograms):
        latency |= {name: value for name, value in merge(parts).summary().items() if name.startswith("p")}
    return latency


def _notes(document: Mapping[str, Any], draft: Draft) -> list[tuple[str, str]]:
    notes = []
    if draft.tool == "fio" and any(cell["latency_ns"]["p50"] is not None for cell in draft.cells):
        text = "percentiles are fio's completion latency unless fio had --lat_percentiles; mean, min and max are those"
        notes.append(("completion_latency", f"{text} of the total latency"))
    trims = [job for job in document.get("jobs") or [] if _object(_object(job).get("trim")).get("total_ios")]
    if trims:
        notes.append(("left_out", f"trims of {len(trims)} jobs are left out"))
    return notes
