"""What an application does, as a trace: as planned, or in the order in which its steps really started."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from naslab.commands.apps.actions import Action
from naslab.commands.apps.generate import Plan
from naslab.trace import Header, Operation, Trace, TraceWriter
from naslab.trace.profile import Profile

Step = tuple[int, int]
"""A stream and the number of one of its actions."""
GAP_NS, DURATION_NS = 100_000, 40_000
_FAIL = {"miss": "stat", "miss_open": "open"}


def planned(plan: Plan) -> Iterator[Step]:
    """The steps in the order planned; where there is none, the streams take turns, a request each."""
    left = [iter(_turns(number, actions)) for number, actions in enumerate(plan.streams)]
    if plan.order is not None:
        for number in plan.order:
            yield from next(left[number])
    while left:
        turns = [(turn, steps) for steps in left if (turn := next(steps, None)) is not None]
        left = [steps for _, steps in turns]
        yield from chain.from_iterable(turn for turn, _ in turns)


def _turns(number: int, actions: list[Action]) -> Iterator[list[Step]]:
    """A stream's steps in parts that end with a request, and what comes after the last."""
    part: list[Step] = []
    for at, action in enumerate(actions):
        part.append((number, at))
        if action.kind in ("read", "write"):
            yield part
            part = []
    yield part


def issued(plan: Plan, log: Any) -> list[Step]:
    """The steps of a run by their start, those of one nanosecond as planned. log: `Run.step_log`."""
    place = {step: at for at, step in enumerate(planned(plan))}
    found = [(int(row["start_ns"]), (int(row["worker"]), int(row["step"]))) for row in log]
    return [step for _, step in sorted(found, key=lambda one: (one[0], place[one[1]]))]


def write_trace(path: Path, plan: Plan, steps: Iterable[Step]) -> Trace:
    """These steps of a plan as a trace. Reads must find what they ask for."""
    with TraceWriter(path, Header(source="naslab")) as writer:
        for operation in _operations(plan, steps):
            writer.write(operation)
    return Trace(path)


def profile(trace: Iterable[Operation]) -> dict[str, Any]:
    """The profile's document."""
    found = Profile()
    for operation in trace:
        found.add(operation)
    return to_builtins(found.document())  # type: ignore[no-any-return]


def _operations(plan: Plan, steps: Iterable[Step]) -> Iterator[Operation]:
    lengths, handles, count = dict(plan.files), dict[tuple[int, str], int](), 0
    for at, (stream, step) in enumerate(steps):
        action = plan.streams[stream][step]
        kind, path = action.kind, action.path
        fields: dict[str, Any] = {"op": kind, "path": path}
        if kind in ("open", "create"):
            handles[stream, path] = fields["handle"] = count
            count += 1
            fields["flags"] = "rw" if action.path_to == "rw" else "we" if kind == "create" else "r"
            lengths[path] = 0 if kind == "create" else lengths[path]
            fields["file_bytes"] = lengths[path]
        elif (stream, path) in handles:
            fields["handle"] = handles[stream, path]
        if kind in ("read", "write", "end"):
            end = action.offset_bytes + action.len_bytes
            assert kind != "read" or end <= lengths[path], (action, lengths[path])
            assert kind != "end" or action.offset_bytes >= lengths[path]
            lengths[path] = max(lengths[path], end if kind == "write" else 0)
            fields |= {"offset_bytes": action.offset_bytes, "len_bytes": 0 if kind == "end" else action.len_bytes}
            fields |= {"op": "read", "asked_bytes": action.len_bytes} if kind == "end" else {}
        elif kind == "close":
            del handles[stream, path]
        elif kind == "truncate":
            fields["len_bytes"] = lengths[path] = action.len_bytes
        elif kind in _FAIL:
            fields |= {"op": _FAIL[kind], "error": "ENOENT"}
        elif kind == "rename":
            fields["to_path"] = action.path_to
            lengths[action.path_to] = lengths.pop(path)
        elif kind == "stat":
            fields |= {"file_bytes": lengths[path]} if path in lengths else {"flags": "f"}
        elif kind == "remove":
            del lengths[path]
        elif kind == "readdir":
            fields["len_bytes"] = 1
        if kind in ("stat", "remove", "rename", "mkdir", "rmdir", "readdir"):
            fields.pop("handle", None)
        yield Operation(start_ns=at * GAP_NS, duration_ns=DURATION_NS, stream=stream, **fields)
