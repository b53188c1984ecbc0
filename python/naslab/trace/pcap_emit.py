"""What the readers of SMB and NFS share: names as a tree, streams with one operation each, and the writing."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any, NamedTuple, Protocol

from naslab.trace.format import DATA, Operation, problem
from naslab.trace.names import name_text
from naslab.trace.pcap_flow import HOLD_NS

_NO_REPLY_NS = 120_000_000_000
"""A request is forgotten when its reply has not come in this time of the capture."""
NO_REPLY = "requests without a reply"
AGAIN = "requests sent again"
NO_REQUEST = "replies without a request"
UNNAMED = "files whose names are not in the capture"
BAD_NAME = "names that are not allowed in a trace"


class Sink(Protocol):
    """What is used of a TraceWriter."""

    def write(self, operation: Operation) -> None: ...
    def settle(self, before_ns: int | None) -> None: ...
    def skip(self, reason: str, count: int = 1) -> None: ...
    def note(self, text: str) -> None: ...


class Nothing:
    """A sink for the first reading, which only learns names."""

    def write(self, operation: Operation) -> None:
        """Forgets it."""

    def settle(self, before_ns: int | None) -> None:
        """Has nothing to settle."""

    def skip(self, reason: str, count: int = 1) -> None:
        """Does not count."""

    def note(self, text: str) -> None:
        """Does not keep it."""


class Node:
    """A file or folder by its name in its folder. A renamed folder takes what lies in it along."""

    __slots__ = ("children", "folder", "name", "parent", "root")

    def __init__(self, name: str, parent: Node | None = None, root: tuple[str, str] | None = None) -> None:
        self.name = name
        self.parent = parent
        self.root = root
        self.folder = root is not None
        self.children: dict[str, Node] | None = None

    def child(self, name: bytes, fold: bool = False) -> Node:
        """The one of this name, made if it is new. fold: upper and lower case are the same."""
        text = name_text(name)
        key = text.casefold() if fold else text
        if self.children is None:
            self.children = {}
            self.folder = True
        found = self.children.get(key)
        if found is None:
            found = self.children[key] = Node(text, self)
        return found

    def leave(self) -> None:
        """It is removed, or moves away: its folder knows it no more."""
        children = None if self.parent is None else self.parent.children
        if children is not None:
            for key in (self.name, self.name.casefold()):
                if children.get(key) is self:
                    del children[key]

    def move(self, folder: Node, name: bytes, fold: bool = False) -> None:
        """It has another name now, and what had it before is gone. Nothing moves into itself."""
        if folder.inside(self):
            return
        self.leave()
        text = name_text(name)
        if folder.children is None:
            folder.children = {}
        folder.children[text.casefold() if fold else text] = self
        self.name, self.parent, self.root = text, folder, None

    def inside(self, other: Node) -> bool:
        """Whether it is `other` or lies below it."""
        node: Node | None = self
        while node is not None and node is not other:
            node = node.parent
        return node is other


class Exchange:
    """One request under way. lane: its stream, and when that was free again. where: by whom and as what its parts
    are waited for, to be forgotten when no reply comes.
    """

    __slots__ = ("key", "lane", "start_ns", "where")

    def __init__(self, lane: list[int], start_ns: int, key: int) -> None:
        self.lane, self.start_ns, self.key = lane, start_ns, key
        self.where: list[tuple[dict[Any, Any], Any]] = []


class _Below(NamedTuple):
    """Below the folder of another handle."""

    key: Any


class Context:
    """One reading of a capture. prefixed: paths begin with the share or export; learned: names of handles that
    the reading before found later than it needed them.
    """

    def __init__(self, sink: Sink, prefixes: dict[tuple[str, str], str] | None = None) -> None:
        self.sink = sink
        self.prefixes = prefixes or {}
        self.learned: dict[Any, tuple[Any, tuple[str, ...]]] = {}
        """Names below a root (server, label), or below another handle (`_Below`) that was nameless itself."""
        self.wanted: set[Any] = set()
        self._nameless: dict[Node, Any] = {}
        self.used: set[tuple[str, str]] = set()
        self.operations = 0
        self.handles = 0
        self._first_ns: int | None = None
        self._now_ns = 0
        self._roots: dict[tuple[str, str], Node] = {}
        self._lanes: dict[int, list[list[int]]] = {}
        self._streams = 0
        self._keys = 0
        self._pending: OrderedDict[int, Exchange] = OrderedDict()

    # time and streams

    def at(self, time_ns: int) -> int:
        """Nanoseconds since the first packet."""
        if self._first_ns is None:
            self._first_ns = time_ns
        return max(time_ns - self._first_ns, 0)

    def tick(self, time_ns: int) -> None:
        """The capture has come this far: what began before all that may still come is written."""
        self._now_ns = max(self._now_ns, self.at(time_ns))
        while self._pending:
            oldest = next(iter(self._pending.values()))
            if oldest.start_ns > self._now_ns - _NO_REPLY_NS:
                break
            self.drop(oldest)
            self.sink.skip(NO_REPLY)
            for waiting, key in oldest.where:
                waiting.pop(key, None)
        settled = self._now_ns - 2 * HOLD_NS
        if self._pending:
            settled = min(settled, next(iter(self._pending.values())).start_ns)
        if settled > 0:
            self.sink.settle(settled)

    def begin(self, connection: int, time_ns: int) -> Exchange:
        """A request that will be operations: takes a stream of its connection that has none under way."""
        start_ns = self.at(time_ns)
        lanes = self._lanes.setdefault(connection, [])
        lane = next((lane for lane in lanes if lane[1] >= 0 and lane[1] <= start_ns), None)
        if lane is None:
            lane = [self._streams, 0]
            self._streams += 1
            lanes.append(lane)
        lane[1] = -1
        self._keys += 1
        exchange = self._pending[self._keys] = Exchange(lane, start_ns, self._keys)
        return exchange

    def drop(self, exchange: Exchange) -> None:
        """The request came to nothing that a trace holds."""
        exchange.lane[1] = exchange.start_ns
        self._pending.pop(exchange.key, None)

    def known(self, exchange: Exchange) -> bool:
        """Whether its reply is still waited for."""
        return exchange.key in self._pending

    def finish(self) -> None:
        """Counts what no reply came to."""
        if self._pending:
            self.sink.skip(NO_REPLY, len(self._pending))
        self._pending.clear()

    def end(self, exchange: Exchange, time_ns: int, made: list[dict[str, Any]]) -> None:
        """The reply came: writes its operations, one after the other, each with an equal part of the time."""
        self.drop(exchange)
        start_ns, end_ns = exchange.start_ns, max(self.at(time_ns), exchange.start_ns)
        for index, fields in enumerate(made):
            begin = start_ns + (end_ns - start_ns) * index // len(made)
            until = start_ns + (end_ns - start_ns) * (index + 1) // len(made)
            operation = Operation(start_ns=begin, duration_ns=until - begin, stream=exchange.lane[0], **fields)
            if problem(operation) is not None:
                self.sink.skip("impossible sizes" if operation.op in DATA else BAD_NAME)
                continue
            self.operations += 1
            self.sink.write(operation)
        exchange.lane[1] = end_ns

    def new_handle(self) -> int:
        """A number for one more open file."""
        self.handles += 1
        return self.handles

    # names

    def root(self, server: str, label: str) -> Node:
        """The folder that a share or export is."""
        key = (server, label)
        node = self._roots.get(key)
        if node is None:
            node = self._roots[key] = Node("", None, key)
        return node

    def unnamed(self, key: Any, raw: bytes) -> Node:
        """The node of something whose name was never seen; a later name of it is kept for the next reading."""
        node = self._learned(key)
        if node is not None:
            return node
        self.wanted.add(key)
        self.sink.skip(UNNAMED)
        made = Node("unnamed-" + hashlib.blake2b(raw, digest_size=8).hexdigest())
        self._nameless[made] = key
        return made

    def _learned(self, key: Any) -> Node | None:
        """By what the reading before found; None where that does not lead to a root."""
        found: list[tuple[str, ...]] = []
        above: Any = _Below(key)
        while isinstance(above, _Below):
            if above.key not in self.learned or len(found) > len(self.learned):
                return None
            above, parts = self.learned[above.key]
            found.append(parts)
        node = self.root(*above)
        for part in (part for parts in reversed(found) for part in parts):
            if node.children is None:
                node.children = {}
            node = node.children.setdefault(part, Node(part, node))
        return node

    def named(self, key: Any, node: Node) -> None:
        """The name of a handle became known."""
        if key in self.wanted and key not in self.learned:
            top, parts = self._walk(node)
            if top is not None and top.root is not None:
                self.learned[key] = (top.root, tuple(parts))
            elif top in self._nameless and self._nameless[top] != key:
                self.learned[key] = (_Below(self._nameless[top]), tuple(parts[1:]))

    def text(self, node: Node) -> str:
        """The path as the trace has it."""
        top, parts = self._walk(node)
        if top is not None and top.root is not None:
            self.used.add(top.root)
            prefix = self.prefixes.get(top.root)
            if prefix:
                parts = [prefix, *parts]
        return "/".join(parts) or "."

    @staticmethod
    def _walk(node: Node) -> tuple[Node | None, list[str]]:
        """The node above all others, and the names on the way down from it; its own too where it is no root."""
        parts: list[str] = []
        at = node
        while len(parts) < 2048:
            if at.root is not None:
                return at, parts[::-1]
            parts.append(at.name)
            if at.parent is None:
                return at, parts[::-1]
            at = at.parent
        return None, parts[::-1]


def prefixes(used: set[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Folders for the roots of a trace: none for a single one, else its name, with the server's where needed."""
    if len(used) < 2:
        return {}
    labels = [label for _, label in used]
    found: dict[tuple[str, str], str] = {}
    for server, label in sorted(used):
        name = label.strip("/").replace("/", "_") or "root"
        if labels.count(label) > 1:
            name += "@" + server
        taken = set(found.values())
        found[server, label] = name if name not in taken else f"{name}-{len(taken)}"
    return found
