"""Sentences on a target's history."""

from __future__ import annotations

from naslab.analysis.history import LEAST_RUNS
from naslab.comparison import words
from naslab.comparison.history import Change, Course
from naslab.comparison.names import short
from naslab.units import percent_text


def text_of(course: Course) -> str:
    """What happened, in words, and a line for each run."""
    count = len(course.runs)
    head = f"{short(course.target['url'])}, {course.command}: {count} {'run' if count == 1 else 'runs'}"
    if count > 1:
        head += f" from {course.runs[0]['started_at'][:10]} to {course.runs[-1]['started_at'][:10]}"
    lines = [head + "."]
    lines += [line for change in course.changes for line in change_lines(course, change)]
    if not course.changes:
        few = f"fewer than {2 * LEAST_RUNS} runs cannot show a change"
        lines.append("  no change was detected" if count >= 2 * LEAST_RUNS else f"  {few}")
    if course.last is not None:
        lines.append(f"  the last run, {course.runs[-1]['run_id']}, stands out: {apart(course.last)} than those before")
    starts = {change.run_id for change in course.changes}
    lines.append("")
    for run, index in zip(course.runs, course.index, strict=True):
        mark = "  <- changed" if run["run_id"] in starts else ""
        lines.append(f"  {run['started_at'][:16].replace('T', ' ')}  {run['run_id']}  {index:6.3f}{mark}")
    return "\n".join(lines)


def change_lines(course: Course, change: Change) -> list[str]:
    """A sentence of the change, and what moved most."""
    started = course.runs[[run["run_id"] for run in course.runs].index(change.run_id)]["started_at"]
    head = (
        f"  {apart(change.step.ratio)} since run {change.run_id} ({started[:16].replace('T', ' ')}): {change.before} "
        f"runs before, {change.after} after, p {change.step.p:.4f}"
    )
    return [head, *(f"    {words.name(moved.key)}: {moved.ratio.value:.3f}" for moved in change.moved)]


def apart(ratio: float) -> str:
    """`3.1% slower`."""
    return f"{percent_text(abs(ratio - 1), 1)} {'faster' if ratio > 1 else 'slower'}"
