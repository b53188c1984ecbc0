"""What naslab itself doubts, what has too few operations, and what these checks need and no source states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from naslab.analysis.validity import cell_findings, run_findings
from naslab.audit.figures import number
from naslab.audit.finding import Finding, Grade
from naslab.audit.subject import Subject, cell_name

_ELSEWHERE = ("above_link", "duplicate", "arithmetic", "mixed_mean", "client_cache")
"""Kinds of doubt that other checks of this audit tell, with more."""
_PROOF = ("clock",)
_NEXT = {
    "client_saturated": "measure with a faster client, or report it as the client's rate",
    "client_throttled": "raise the quota of the client's control group, or report it as the quota's rate",
    "client_busy": "repeat the measurement while nothing else runs",
    "other_load": "repeat the measurement while nothing else runs",
    "compressible": "check whether the server compresses; use incompressible data",
    "dedupable": "check whether the server deduplicates; use unique data",
    "not_direct": "do not report it as a disk rate",
    "corrupt": "first save the data on that server, then test its memory and disks",
    "errors": "find the cause of the failures first: the rates cover only the other operations",
    "unwritten": "write the whole file first: naslab mkfile",
    "drift": "compare the first and the last repeats; let the target settle first",
    "above_limit": "find out which cache took the data: no disk or link of this source has that rate",
    "file_sizes": "leave out rates of sizes that the command does not measure, or find the command that did",
    "clock": "do not use this cell",
    "client_stall": "repeat this cell on a client that is not stopped, paused or suspended",
    "clock_step": "repeat the measurement, and set the clock before or after it",
}
_FEW = 10
_FOR_P99 = 100


def validity(subject: Subject) -> Iterator[Finding]:
    """The doubts stored with the run, and those of analysis.validity on its cells as they are now."""
    links = {limit.get("bytes_per_s") for limit in _stated(subject) if limit.get("kind") == "link"}
    for each in _doubts(subject):
        kind = str(each.get("kind"))
        if kind in _ELSEWHERE or not each.get("message"):
            continue
        sure = kind in _PROOF or (kind == "above_limit" and each.get("limit") in links)
        grade: Grade = "impossible" if sure else "doubtful"
        numbers = {name: each[name] for name in ("value", "unit", "limit") if each.get(name) is not None}
        value, limit = number(each, "value"), number(each, "limit")
        excess = value / limit if value and limit else 1.0
        yield Finding(
            grade, str(each["message"]), _NEXT.get(kind, "look at the numbers of this finding"), numbers,
            tuple(each.get("cells") or ()), excess, kind,
        )  # fmt: skip


def _stated(subject: Subject) -> list[Mapping[str, Any]]:
    return list((subject.document.get("stated") or {}).get("limits") or ())


def _doubts(subject: Subject) -> Iterator[Mapping[str, Any]]:
    """Stored ones, then those found now that are not among them."""
    document, told = subject.document, set()
    for each in document.get("validity") or []:
        told.add((each.get("kind"), tuple(each.get("cells") or ())))
        yield each
    if not subject.own:
        return
    fresh = [each for cell in subject.cells for each in cell_findings(cell, document)] + run_findings(document)
    for found in fresh:
        entry = found.entry()
        if found.kind != "protocol_event" and (found.kind, tuple(entry["cells"])) not in told:
            yield entry


def few(subject: Subject) -> Iterator[Finding]:
    """Rates of a few operations; percentiles of fewer operations than they divide."""
    for cell in subject.fixed():
        ops = number(cell, "ops")
        if ops is None or ops <= 0:
            continue
        if ops < _FEW and number(cell, "throughput_bytes_per_s"):
            text = f"{cell_name(cell)}: only {ops:,.0f} operation{'s' * (ops != 1)}, so chance decides the rate"
            step = "measure longer, or with larger files, before comparing it"
            yield Finding("missing", text, step, {"ops": ops}, (cell["id"],), 1 / ops)
        if not subject.own and ops < _FOR_P99 and number(cell, "latency_ns.p99") is not None:
            text = f"{cell_name(cell)}: p99 of only {ops:,.0f} operations is the maximum, or means nothing"
            step = "use the median only"
            yield Finding("doubtful", text, step, {"ops": ops}, (cell["id"],), 1 / ops, "p99")


def untold(subject: Subject) -> Iterator[Finding]:
    """What the checks above could not look at."""
    cells, unknown = subject.cells, set(subject.source.get("unknown") or ())
    if not cells:
        yield Finding("missing", "no measured cells: there is nothing to check", "name another run or file")
        return
    if subject.link is None and _over_network(subject):
        yield _untold("link", "rates were not compared with a link: none is known", "give it: --link 1g")
    if subject.own:
        return
    if unknown >= {"bytes", "duration_ns"} or "duration_ns" in unknown:
        text = "rates cannot be recomputed: bytes or times are not reported"
        yield _untold("arithmetic", text, "look for the tool's raw output")
    if "latency_ns.mean" in unknown or "queue_depth" in unknown:
        text = "Little's law was not applied: mean latency or queue depth is not reported"
        yield _untold("little", text, "look for the tool's raw output, or its command line")
    if subject.client_memory is None or subject.server_memory is None:
        who = " and ".join(
            who for who, amount in (("client", subject.client_memory), ("server", subject.server_memory))
            if amount is None
        )  # fmt: skip
        options = " ".join(f"--{each}-memory 4g" for each in who.split(" and "))
        yield _untold(
            "memory", f"the memory of the {who} is unknown: reads may come from a cache", f"give it: {options}"
        )
    if "spread" in unknown and len({c.get("block") for c in cells}) < 2:
        text = "single values without a spread: differences cannot be judged"
        yield _untold("spread", text, "look for repeats, or repeat the test with naslab")


def _over_network(subject: Subject) -> bool:
    route = subject.part("route")
    protocol = subject.document["target"].get("protocol")
    return not route.get("loopback") and (protocol in ("smb", "nfs") or (not subject.own and protocol != "local"))


def _untold(about: str, text: str, next_step: str) -> Finding:
    return Finding("missing", text, next_step, about=about)
