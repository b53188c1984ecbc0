"""A run in a few sentences, from its cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from naslab.analysis import many, regimes_words, replayed
from naslab.explain import tell
from naslab.results.cell_names import capital, op_words
from naslab.results.describe import part_of, typed
from naslab.results.outages import outage_sentences
from naslab.results.parts.adaptive import AdaptiveDocument
from naslab.results.parts.apps import Apps
from naslab.results.parts.clients import Scaling
from naslab.results.parts.durable import Durable
from naslab.results.parts.job import JobDocument
from naslab.results.parts.tree import TreeDocument
from naslab.units import duration_text, rate_text, size_label

Cell = Mapping[str, Any]


def summarise(document: Mapping[str, Any]) -> list[str]:
    """What `_of_one` says, and what many clients got together."""
    told = (*_of_one(document), *outage_sentences(document), *many.sentences(document))
    return [capital(each) for each in told]


def _of_one(document: Mapping[str, Any]) -> list[str]:
    """Sentences about rates, latency of small records, durability, regimes and failures.

    With sustained cells (`naslab run`) they come first and the sweep is one sentence; a sweep alone gets one
    sentence per test.
    """
    if durable := part_of(document, "durable", Durable):
        from naslab.commands.durable import words

        return words.sentences(durable)
    if (job := part_of(document, "job", JobDocument)) and job.steps:
        from naslab.commands.jobs import outcome

        return [*outcome.sentences(job), *_errors(document["cells"])]
    if document.get("ladder"):
        return _of_ladder(document)
    cells = [c for c in document["cells"] if c["bytes"] and c["duration_ns"]]
    if not cells and not document.get("replay") and not document.get("tree"):
        return ["Nothing was measured."]
    told = _of_command(document)
    if told is not None:
        regimes = [] if any(map(document.get, ("apps", "replay", "tree"))) else regimes_words.sentences(cells)
        return [*told, *regimes, *_errors(document["cells"])]
    telling = [c for c in cells if c["workload"] not in ("probe", "sample")] or cells
    sustained = [c for c in telling if c["workload"] == "sustained"]
    if sustained:
        body = [*_sustained(sustained), *_latency(sustained), *_sweep([c for c in telling if not c["workload"]])]
    else:
        rated = [*telling, *(c for c in document["cells"] if c.get("predicted"))]
        body = [*_rates(rated), *_latency(telling), *_durability(telling)]
    if found := part_of(document, "adaptive", AdaptiveDocument):
        from naslab.analysis import adaptive

        body = [*adaptive.sentences(found), *body]
    return [*body, *regimes_words.sentences(cells), *_errors(document["cells"])]


def _of_ladder(document: Mapping[str, Any]) -> list[str]:
    """The verdict first, then the sweep and the large file; the ladder's own cells are what the verdict rests on."""
    others = [c for c in document["cells"] if c["workload"] != tell.WORKLOAD]
    rest = {key: value for key, value in document.items() if key != "ladder"}
    told = _of_one({**rest, "cells": others}) if any(c["bytes"] for c in others) else []
    failed = [] if told else _errors(document["cells"])
    return [*(tell.sentences(document) or ["What limits the target is not known."]), *told, *failed]


def _of_command(document: Mapping[str, Any]) -> list[str] | None:
    """Sentences of a command that has its own part of the document; None where there is none."""
    told: Iterable[str] | None = None
    if document.get("scaling"):
        from naslab.analysis import scaling

        told = scaling.sentences(typed(document["scaling"], Scaling))
    elif document.get("sustained"):
        from naslab.analysis import sustained

        told = sustained.sentences(document)
    elif document.get("profile"):
        from naslab.analysis import position
        from naslab.results.parts.profile import ProfileDocument

        told = position.sentences(typed(document["profile"], ProfileDocument))
    elif document.get("apps"):
        from naslab.commands.apps import results

        told = results.sentences(typed(document["apps"], Apps))
    elif document.get("curve"):
        from naslab.analysis import loadcurve
        from naslab.results.parts.curve import CurveDocument

        curve = typed(document["curve"], CurveDocument)
        told = [*loadcurve.sentences(curve), *loadcurve.compared_sentences(curve)]
    elif document.get("tree"):
        from naslab.analysis import metadata

        told = metadata.sentences(typed(document["tree"], TreeDocument))
    elif document.get("replay"):
        told = replayed.sentences(document)
    return None if told is None else list(told)


def _sustained(cells: Sequence[Cell]) -> Iterable[str]:
    """What one large file was written and read at."""
    for cell in cells:
        if cell["op"] not in ("write", "read"):
            continue
        head = f"{size_label(cell['file_bytes'])} file in {size_label(cell['record_bytes'])} records"
        rate = rate_text(cell["throughput_bytes_per_s"])
        if cell["op"] == "read":
            yield f"{head}: read at {rate}" + (", caches dropped first." if cell["cache_state"] == "cold" else ".")
        elif cell["durable_bytes_per_s"]:
            yield f"{head}: written at {rate}, {rate_text(cell['durable_bytes_per_s'])} including the flush."
        else:
            yield f"{head}: written at {rate}."


def _sweep(cells: Sequence[Cell]) -> Iterable[str]:
    """The range of a sweep: lowest and highest of reading and of writing."""
    if not cells:
        return
    sizes = [c["file_bytes"] for c in cells]
    parts = []
    for word, reads in (("writes", False), ("reads", True)):
        rates = [c["throughput_bytes_per_s"] for c in cells if ("read" in c["op"]) == reads]
        if rates:
            parts.append(f"{word} {rate_text(min(rates))} to {rate_text(max(rates))}")
    span = " to ".join(dict.fromkeys(map(size_label, (min(sizes), max(sizes)))))
    yield f"Files of {span}: {', '.join(parts)}."


def _rates(cells: Sequence[Cell]) -> Iterable[str]:
    for op in dict.fromkeys(c["op"] for c in cells):
        of_op = [c for c in cells if c["op"] == op]
        sure = [c for c in of_op if not c.get("predicted")] or of_op
        best = max(sure, key=lambda c: c["throughput_bytes_per_s"])
        largest = max(c["file_bytes"] for c in of_op)
        at_end = median(c["throughput_bytes_per_s"] for c in of_op if c["file_bytes"] == largest)
        name = op_words(op)
        text = (
            f"{name}: up to {rate_text(best['throughput_bytes_per_s'])} "
            f"({size_label(best['file_bytes'])} file, {size_label(best['record_bytes'])} records)"
        )
        if best["file_bytes"] != largest:
            guessed = any(c.get("predicted") for c in of_op if c["file_bytes"] == largest)
            basis = "median over records, some predicted" if guessed else "median over records"
            text += f"; {rate_text(at_end)} at {size_label(largest)} ({basis})"
        yield text + "."


def _latency(cells: Sequence[Cell]) -> Iterable[str]:
    small = min(c["record_bytes"] for c in cells)
    for op in ("random_read", "random_write", "read"):
        found = [c for c in cells if c["op"] == op and c["record_bytes"] == small and c["latency_ns"]["p50"]]
        if found:
            cell = max(found, key=lambda c: c["file_bytes"])
            latency = cell["latency_ns"]
            head = f"{op_words(op)} of {size_label(small)} at queue depth {cell['queue_depth']}"
            median_text, worst_text = duration_text(latency["p50"]), duration_text(latency["p99"])
            yield f"{head}: {cell['iops']:,.0f} IOPS, median {median_text}, p99 {worst_text}."


def _durability(cells: Sequence[Cell]) -> Iterable[str]:
    writes = [c for c in cells if "write" in c["kinds"] and c["durable_bytes_per_s"]]
    if not writes:
        return
    largest = max(writes, key=lambda c: (c["file_bytes"], c["bytes"]))
    acknowledged, durable = largest["acknowledged_bytes_per_s"], largest["durable_bytes_per_s"]
    yield (
        f"{op_words(largest['op'])} of {size_label(largest['file_bytes'])}: acknowledged at "
        f"{rate_text(acknowledged)}, {rate_text(durable)} including the flush."
    )


def _errors(cells: Sequence[Cell]) -> Iterable[str]:
    failed = [c for c in cells if c["status"] != "complete"]
    if failed:
        yield f"{len(failed)} {'cell' if len(failed) == 1 else 'cells'} did not complete, marked in the table."
