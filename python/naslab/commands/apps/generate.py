"""From a definition to three scripts: one that prepares the files, one that runs, one that cleans up."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from naslab.commands.apps import limits
from naslab.commands.apps.actions import BEHAVE, WRITE_FLAGS, Action, Work, pieces
from naslab.commands.apps.mix import Rows, mix
from naslab.commands.apps.model import Definition, Part
from naslab.commands.apps.order import DATA, interleave, requests_of, sequential_share, with_jumps
from naslab.errors import UsageError
from naslab.spec import script as steps
from naslab.spec.script import ScriptStream, ScriptWriter

PREPARE_REQUEST_BYTES = 1 << 20
PREPARE_STREAMS, CLEAN_STREAMS = 4, 16
_NEW = steps.FLAG_WRITE | steps.FLAG_CREATE | steps.FLAG_EXCLUSIVE
_ON_PATH = {
    "stat": steps.STAT, "readdir": steps.READDIR, "mkdir": steps.MKDIR, "rmdir": steps.RMDIR, "remove": steps.REMOVE,
}  # fmt: skip
_BEHAVE = {**BEHAVE, "mix": mix}


@dataclass
class Plan:
    """What an application does, before it is written as scripts.

    files, folders: what is prepared. streams: the actions of each. order: which stream issues each request; None:
    each stream goes its own way. duration_ns, buffer_ns: of the recorded pace, None where there is none. think_ns: what
    the application itself takes at any pace.
    """

    definition: Definition
    scale: float
    folders: list[str] = field(default_factory=list)
    files: dict[str, int] = field(default_factory=dict)
    streams: list[list[Action]] = field(default_factory=list)
    order: list[int] | None = None
    duration_ns: int | None = None
    buffer_ns: int | None = None
    think_ns: int | None = None

    def pace_ns(self, recorded: bool) -> int | None:
        """Time over which its requests are spread; None: as fast as they can."""
        return self.duration_ns if recorded and self.duration_ns is not None else self.think_ns

    def issued(self) -> list[Action]:
        """The requests in the order planned; those of one stream after the other where there is no order."""
        queues = [iter(requests_of(stream)) for stream in self.streams]
        if self.order is None:
            return [action for queue in queues for action in queue]
        return [next(queues[number]) for number in self.order]

    def request_steps(self) -> list[tuple[int, int]]:
        """(stream, number of the step in it) of each of `issued`, as the script of the run has them."""
        places = [
            [(stream, at) for at, action in enumerate(actions) if action.kind in DATA]
            for stream, actions in enumerate(self.streams)
        ]
        if self.order is None:
            return [place for stream in places for place in stream]
        queues = [iter(stream) for stream in places]
        return [next(queues[stream]) for stream in self.order]

    def moved_bytes(self, kind: str) -> int:
        """Bytes of all its `read`s or `write`s."""
        return sum(a.len_bytes for stream in self.streams for a in stream if a.kind == kind)

    def prepared_bytes(self) -> int:
        """Size of the files that must be there."""
        return sum(self.files.values())

    def facts(self) -> dict[str, Any]:
        """What the plan does in numbers, for the document. Sizes in bytes."""
        issued = self.issued()
        single = len([stream for stream in self.streams if requests_of(stream)]) == 1
        return {
            "files_prepared": len(self.files),
            "prepared_bytes": self.prepared_bytes(),
            "files_made": sum(a.kind == "create" for stream in self.streams for a in stream),
            "read_bytes": self.moved_bytes("read"),
            "written_bytes": self.moved_bytes("write"),
            "requests": len(issued),
            "write_fraction": sum(a.kind == "write" for a in issued) / max(len(issued), 1),
            "largest_request_bytes": max((a.len_bytes for a in issued), default=0),
            "streams": len(self.streams),
            "think_ns": self.think_ns,
            "sequential": sequential_share(issued) if self.order is not None or single else None,
            "sequential_published": self.definition.sequential_published,
        }


class _Scaled(Mapping[str, Any]):
    """A part's numbers with --scale applied to sizes of files, and to counts that say so."""

    def __init__(self, part: Part, scale: float) -> None:
        self._part, self._scale = part, scale

    def __getitem__(self, name: str) -> Any:
        value = self._part.values[name]
        if value.scales and isinstance(value.is_, tuple):
            return _fewer(value.is_, self._scale)
        if name == "bytes" or value.scales:
            return max(1, round(value.is_ * self._scale))
        return value.is_

    def __iter__(self) -> Iterator[str]:
        return iter(self._part.values)

    def __len__(self) -> int:
        return len(self._part.values)


def _fewer(rows: Rows, scale: float) -> Rows:
    """So many times the files or requests. Where less than one of a size is left, it becomes a smaller one if it holds
    a tenth of all bytes, and counts with the next smaller ones otherwise."""
    whole = sum(size * count for size, count in rows)
    found: list[tuple[int, int]] = []
    due = 0.0
    for size, count in rows:
        if count * scale < 1 and size * count * 10 >= whole:
            found.append((max(round(size * count * scale), 1), 1))
            continue
        due += count * scale
        if round(due):
            found.append((size, round(due)))
            due -= round(due)
    return tuple(found) or rows[:1]


def plan(definition: Definition, seed: int = 0, scale: float = 1.0) -> Plan:
    """The plan of an application; the same seed gives the same plan."""
    rng = random.Random(f"{seed} {definition.name}")
    made = Plan(definition, scale, [definition.name])
    for number, part in enumerate(definition.parts, 1):
        values, root = _Scaled(part, scale), f"{definition.name}/part{number}"
        limits.check(root, values)
        work: Work = _BEHAVE[part.does](values, root, rng)
        made.folders += work.folders
        made.files |= work.files
        made.streams += work.streams
    share = definition.sequential
    if share is not None and len(made.streams) == 1 and definition.parts[0].does == "mix":
        raise UsageError(f"{definition.name}: whole.sequential is for several streams; one stream's is its onward")
    if share is not None and len(made.streams) == 1:
        made.streams = [with_jumps(made.streams[0], share)]
    elif share is not None:
        made.order = interleave(made.streams, share, rng)
    if "duration" in definition.whole:
        made.duration_ns = max(1, round(definition.whole["duration"].is_ * scale))
        made.buffer_ns = definition.whole["buffer"].is_
    if "think" in definition.whole:
        made.think_ns = max(1, round(definition.whole["think"].is_ * scale))
    return made


def write_prepare(made: Plan, path: Path) -> int:
    """Writes the script that makes folders and files; its streams."""
    with ScriptWriter(path.parent) as writer:
        first = writer.stream()
        for folder in made.folders:
            first.on_path(steps.MKDIR, folder)
        others = [writer.stream() for _ in range(min(PREPARE_STREAMS, len(made.files)) - 1)]
        for other in others:
            other.after(first)
            other.pause()
        every = [first, *others]
        for number, (name, size) in enumerate(made.files.items()):
            stream = every[number % len(every)]
            handle = stream.open(name, _NEW, handle=0)
            for piece in pieces(size, PREPARE_REQUEST_BYTES):
                stream.write(handle, *piece)
            stream.flush(handle)
            stream.close(handle)
        writer.save(path)
        return len(every)


def write_clean(made: Plan, path: Path) -> int:
    """Writes the script that removes all that is there after the run; its streams."""
    folders, files = list(made.folders), dict.fromkeys(made.files)
    for stream in made.streams:
        for action in stream:
            if action.kind == "create":
                files[action.path] = None
            elif action.kind == "mkdir":
                folders.append(action.path)
            elif action.kind == "rmdir":
                folders.remove(action.path)
            elif action.kind == "remove":
                files.pop(action.path, None)
            elif action.kind == "rename":
                files.pop(action.path, None)
                files[action.path_to] = None
    return write_removal(files, folders, path)


def write_removal(files: Iterable[str], folders: Iterable[str], path: Path) -> int:
    """Writes the script that removes files, then folders, what is gone already passed over; its streams."""
    with ScriptWriter(path.parent) as writer:
        names = list(files)
        first, *others = every = [writer.stream() for _ in range(max(1, min(CLEAN_STREAMS, len(names))))]
        for number, name in enumerate(names):
            every[number % len(every)].on_path(steps.REMOVE, name, flags=steps.FLAG_FAILS)
        for other in others:
            first.after(other)
            first.pause()
        for folder in sorted(folders, key=lambda name: (-name.count("/"), name)):
            first.on_path(steps.RMDIR, folder, flags=steps.FLAG_FAILS)
        if not first.steps:
            first.pause()
        writer.save(path)
        return len(every)


def write_run(made: Plan, path: Path, recorded: bool = False) -> int:
    """Writes the script of the application itself; its streams.

    recorded: with due times, spread evenly over the duration in the order of the requests; so is what the application
    itself takes at any pace. Otherwise a request that
    follows one of another stream waits until that one has started, so that they reach the server in this order
    while each stream has its own under way.
    """
    paced = made.pace_ns(recorded)
    with ScriptWriter(path.parent) as writer:
        hands = [_Hand(writer.stream(), stream) for stream in made.streams]
        order = made.order
        if order is None:
            order = _in_turn(made.streams) if paced is not None else _one_by_one(made.streams)
        before: _Hand | None = None
        for number, turn in enumerate(order):
            hand = hands[turn]
            hand.due_ns = paced * number // len(order) if paced is not None else 0
            # Due times are order enough: a late stream then holds up no other.
            after = before if made.order is not None and paced is None else None
            hand.to_next_request(after)
            before = hand
        for hand in hands:
            hand.to_end()
        writer.save(path)
        return len(hands)


def _one_by_one(streams: Sequence[Sequence[Action]]) -> list[int]:
    return [number for number, stream in enumerate(streams) for _ in requests_of(stream)]


def _in_turn(streams: Sequence[Sequence[Action]]) -> list[int]:
    """Requests of all streams evenly spread over the whole, so that each takes all of the time."""
    counts = [len(requests_of(stream)) for stream in streams]
    return [n for _, n in sorted(((i + 0.5) / count, n) for n, count in enumerate(counts) for i in range(count))]


class _Hand:
    """Writes the actions of one stream, as far as asked. due_ns: of the steps that come."""

    def __init__(self, stream: ScriptStream, actions: Sequence[Action]) -> None:
        self.stream = stream
        self.due_ns = 0
        self._left = iter(actions)
        self._handles: dict[str, int] = {}
        self._free: list[int] = []

    def to_next_request(self, after: _Hand | None) -> None:
        """Up to its next read or write, which waits for the last one of `after` to have started."""
        for action in self._left:
            if action.kind in DATA:
                if after is not None and after is not self:
                    self.stream.after(after.stream, started=True)
                self._write(action)
                return
            self._write(action)

    def to_end(self) -> None:
        """All that is left."""
        for action in self._left:
            self._write(action)

    def _write(self, action: Action) -> None:
        stream, due, path = self.stream, self.due_ns, action.path
        if action.kind in ("open", "create"):
            flags = _NEW if action.kind == "create" else steps.FLAG_READ
            flags |= steps.FLAG_READ | steps.FLAG_WRITE if action.path_to == WRITE_FLAGS else 0
            number = self._free.pop() if self._free else None
            self._handles[path] = stream.open(path, flags, due_ns=due, handle=number)
        elif action.kind in DATA:
            move = stream.read if action.kind == "read" else stream.write
            move(self._handles[path], action.offset_bytes, action.len_bytes, due_ns=due)
        elif action.kind == "flush":
            stream.flush(self._handles[path], due_ns=due)
        elif action.kind == "close":
            handle = self._handles.pop(path)
            stream.close(handle, due_ns=due)
            self._free.append(handle)
        elif action.kind == "rename":
            stream.rename(path, action.path_to, due_ns=due)
        elif action.kind == "end":
            stream.read(self._handles[path], action.offset_bytes, action.len_bytes, due_ns=due)
        elif action.kind == "truncate":
            stream.truncate(self._handles[path], action.len_bytes, due_ns=due)
        elif action.kind == "miss":
            stream.on_path(steps.STAT, path, due_ns=due, flags=steps.FLAG_FAILS)
        elif action.kind == "miss_open":
            number = self._free.pop() if self._free else None
            self._free.append(stream.open(path, steps.FLAG_READ | steps.FLAG_FAILS, due_ns=due, handle=number))
        else:
            stream.on_path(_ON_PATH[action.kind], path, due_ns=due)
