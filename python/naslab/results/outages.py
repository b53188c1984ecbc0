"""Times without the server that a run waited out: what its workers saw, put together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from naslab.results.document import warning
from naslab.units import amount_text, duration_text

_LATER = ("kept_files", "reopened_files", "repeated_calls", "answers_replayed", "calls_done_before")
"""Counts that documents of older versions do not have."""
_WRITES = ("read_back_writes", "read_back_bytes", "lost_writes")


@dataclass
class Outage:
    """One time without the server. start_ns: the last answer that any worker got before; end_ns: the last worker was
    served again. files, calls, writes and bytes: of all workers.
    """

    cell: int
    start_ns: int
    end_ns: int
    workers: int = 0
    kept_files: int = 0
    reopened_files: int = 0
    repeated_calls: int = 0
    answers_replayed: int = 0
    calls_done_before: int = 0
    read_back_writes: int = 0
    read_back_bytes: int = 0
    lost_writes: int = 0

    @property
    def no_service_ns(self) -> int:
        """How long it lasted."""
        return self.end_ns - self.start_ns


def outages_of(document: Mapping[str, Any]) -> list[Outage]:
    """The outages of a run in their order; what several workers saw at overlapping times is one."""
    found: list[Outage] = []
    for cell in document.get("cells") or []:
        for one in sorted(cell.get("outages") or [], key=lambda one: one["start_ns"]):
            last = found[-1] if found and found[-1].cell == cell["id"] else None
            if last is None or one["start_ns"] > last.end_ns:
                last = Outage(cell["id"], one["start_ns"], one["end_ns"])
                found.append(last)
            last.end_ns = max(last.end_ns, one["end_ns"])
            last.workers += 1
            for name in (*_LATER, *_WRITES):
                count = one.get(name, 0) if name in _LATER else one[name]
                setattr(last, name, getattr(last, name) + count)
    return found


def outage_warnings(cell: Mapping[str, Any]) -> list[dict[str, Any]]:
    """That the figures of a cell include times without the server."""
    found = outages_of({"cells": [cell]})
    total = duration_text(sum(each.no_service_ns for each in found))
    text = f"the server was away for {total} within this cell: its rate and its latency include that time"
    return [warning("outage", text, int(cell["id"]))] if found else []


def outage_sentences(document: Mapping[str, Any]) -> list[str]:
    """How long there was no service, and what survived; nothing for a run without an outage."""
    found = outages_of(document)
    if not found:
        return []
    times = ", ".join(duration_text(each.no_service_ns) for each in found)
    count = "" if len(found) == 1 else f", {len(found)} times"
    told = [f"there was no service for {times}{count}: the server went away and came back"]
    held, again = sum(each.kept_files for each in found), sum(each.reopened_files for each in found)
    if held + again:
        told.append(f"{held:,} of {held + again:,} open files were kept by the server, {again:,} opened again by name")
    if calls := sum(each.repeated_calls for each in found):
        done = sum(each.calls_done_before for each in found)
        before = f", of which {done:,} had been carried out before it" if done else ""
        told.append(f"calls without an answer that were made again after the outage: {calls:,}{before}")
    writes, lost = sum(each.read_back_writes for each in found), sum(each.lost_writes for each in found)
    if writes:
        size = amount_text(sum(each.read_back_bytes for each in found))
        kept = "all had survived" if not lost else f"{lost:,} of them were lost"
        told.append(f"the last {writes:,} acknowledged writes ({size}) were read back: {kept}")
    return told
