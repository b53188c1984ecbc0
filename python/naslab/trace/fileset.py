"""What must be there before a trace is replayed: folders, and files long enough for its reads.

The operations are followed through a tree of names, renames of whole folders included. A thing is needed from the
start if an operation that went well used it before the trace made it. Memory grows with the number of files, not
with the number of operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from naslab.errors import TraceError
from naslab.trace.described import TraceTree
from naslab.trace.format import Operation

MAX_NAMES = 1 << 21


@dataclass(frozen=True, slots=True)
class FileFacts:
    """One file or folder that must be there at the start.

    need_bytes: the shortest that makes all reads give what they gave; known_bytes: how long the source saw it when
    the trace began, None where it did not tell. Prepare max(need_bytes, known_bytes or 0).
    """

    path: str
    folder: bool
    need_bytes: int = 0
    known_bytes: int | None = None

    @property
    def size_bytes(self) -> int:
        """How long to make it."""
        return max(self.need_bytes, self.known_bytes or 0)


class _Node:
    """A file or folder while the trace goes on. need, known: as in FileFacts.

    above, name: the folder it was in at the start, and its name there; None of what the trace made. A path of its own
    for each would be most of the memory.
    """

    __slots__ = ("above", "children", "known", "length", "maybe", "name", "need", "pristine")

    def __init__(self, above: _Node | None, name: str | None, maybe: bool = False) -> None:
        self.children: dict[str, _Node] | None = None
        self.name: str | None = name if above is None or above.name is not None else None
        self.above = above if self.name is not None else None
        self.length = 0
        """Up to where the trace itself wrote it."""
        self.need = 0
        self.known: int | None = None
        self.pristine = self.name is not None
        """What it held at the start is still there."""
        self.maybe = maybe
        """Opened with permission to make it: it was there only if something is read that was not written."""

    def original(self) -> str:
        """Its path at the start, if it was there then."""
        parts = []
        node = self
        while node.above is not None:
            parts.append(node.name or "")
            node = node.above
        return "/".join(reversed(parts)) or "."


class FileSet:
    """Follows operations (`add`, in their order, as a `Trace` yields them) and tells what they need."""

    def __init__(self) -> None:
        self._root = _Node(None, ".")
        self._root.children = {}
        self._handles: dict[int, _Node] = {}
        self._gone: list[_Node] = []
        self._linked = False
        self._names = 0
        self.created_files = 0
        self.created_folders = 0
        self.removed = 0
        self.unreadable = 0
        """Reads of more than was ever there, as far as the trace tells: it lacks operations."""

    def add(self, operation: Operation) -> None:
        """The next operation. Failed ones change nothing and need nothing."""
        if operation.error is None:
            _STEPS[operation.op](self, operation)

    def is_folder(self, handle: int) -> bool:
        """Whether what is open under this handle is known to be a folder."""
        node = self._handles.get(handle)
        return node is not None and node.children is not None

    def needed(self) -> Iterator[FileFacts]:
        """Folders before what is in them, the root itself left out; each by its name at the start."""
        nodes = (node for node in self._nodes() if node.name is not None and not node.maybe and node is not self._root)
        found = [FileFacts(node.original(), node.children is not None, node.need, node.known) for node in nodes]
        found.sort(key=lambda fact: fact.path)
        for at, fact in enumerate(found, 1):
            if at == len(found) or found[at].path != fact.path:
                yield fact

    def _nodes(self) -> Iterator[_Node]:
        for node, _ in self._walk([self._root, *self._gone]):
            yield node

    def _walk(self, start: list[_Node]) -> Iterator[tuple[_Node, int]]:
        """Nodes and how deep they lie. Where there are links each is met once: what was linked may lie in itself."""
        waiting = [(node, 0) for node in start]
        met: set[_Node] = set()
        while waiting:
            node, level = waiting.pop()
            if self._linked:
                if node in met:
                    continue
                met.add(node)
            yield node, level
            waiting.extend((child, level + 1) for child in (node.children or {}).values())

    def shape(self) -> TraceTree:
        """The tree of all names that the trace used and that are there at its end: files, folders, depth, width."""
        files = folders = depth = widest = 0
        for node, level in self._walk([self._root]):
            depth = max(depth, level)
            if node.children is None:
                files += 1
                continue
            folders += 1
            widest = max(widest, len(node.children))
        return TraceTree(files, folders - 1, depth, widest)

    # The tree

    def _new(self, above: _Node | None, name: str | None, maybe: bool = False) -> _Node:
        """One more name. Raises TraceError beyond MAX_NAMES."""
        self._names += 1
        if self._names > MAX_NAMES:
            raise TraceError(f"the trace names more than {MAX_NAMES} files and folders, which are kept in memory")
        return _Node(above, name, maybe)

    def _folder(self, path: str) -> tuple[_Node, str]:
        """The folder that holds this name, and the last component. Folders that are missing were there."""
        node, parts = self._root, path.split("/")
        for part in parts[:-1]:
            if node.children is None:
                node.children = {}
            child = node.children.get(part)
            if child is None:
                child = node.children[part] = self._new(node, part)
            node = child
        if node.children is None:
            node.children = {}
        return node, parts[-1]

    def _find(self, path: str) -> _Node:
        """What is there under this name; it was there from the start if the trace did not make it."""
        if path == ".":
            return self._root
        folder, name = self._folder(path)
        children = folder.children
        assert children is not None
        node = children.get(name)
        if node is None:
            node = children[name] = self._new(folder, name)
        return node

    def _take(self, path: str) -> _Node | None:
        """Removes a name; what it stood for."""
        if path == ".":
            return None
        node = self._find(path)
        folder, name = self._folder(path)
        assert folder.children is not None
        del folder.children[name]
        return node

    def _drop(self, node: _Node | None) -> None:
        """It is no longer reachable; what it was at the start is still needed."""
        if node is not None and (node.name is not None or node.children):
            self._gone.append(node)

    def _node_of(self, operation: Operation) -> _Node:
        node = self._handles.get(operation.handle) if operation.handle is not None else None
        return node if node is not None else self._find(operation.path or ".")

    # Operations

    def _open(self, operation: Operation) -> None:
        path: str = operation.path  # type: ignore[assignment]
        makes = operation.op == "create" and path != "."
        node = self._created(operation, path) if makes else self._find(path)
        if "f" in operation.flags and node.children is None:
            node.children = {}
        if operation.handle is not None:
            self._handles[operation.handle] = node
        if "t" in operation.flags:
            node.length, node.pristine = 0, False
        self._saw(node, operation.file_bytes)

    def _created(self, operation: Operation, path: str) -> _Node:
        folder, name = self._folder(path)
        assert folder.children is not None
        node = folder.children.get(name)
        if node is None:
            self.created_files += 1
            exclusive = "e" in operation.flags
            node = self._new(folder, None if exclusive else name, maybe=True)
            folder.children[name] = node
        return node

    def _saw(self, node: _Node, size_bytes: int | None) -> None:
        """The source saw this length: it tells what was there at the start until the trace changes it."""
        if size_bytes is None or not node.pristine:
            return
        if size_bytes > node.length:
            node.maybe = False
        if node.known is None and node.length == 0:
            node.known = size_bytes

    def _close(self, operation: Operation) -> None:
        self._handles.pop(operation.handle, None)  # type: ignore[arg-type]

    def _read(self, operation: Operation) -> None:
        node = self._node_of(operation)
        if not operation.len_bytes:
            return
        end = operation.offset_bytes + operation.len_bytes  # type: ignore[operator]
        if end > node.length:
            if node.pristine:
                node.maybe = False
                node.need = max(node.need, end)
            else:
                self.unreadable += 1

    def _write(self, operation: Operation) -> None:
        node = self._node_of(operation)
        if operation.len_bytes:
            node.length = max(node.length, operation.offset_bytes + operation.len_bytes)  # type: ignore[operator]

    def _truncate(self, operation: Operation) -> None:
        node = self._node_of(operation)
        node.length = operation.len_bytes or 0
        node.pristine = False

    def _stat(self, operation: Operation) -> None:
        node = self._node_of(operation)
        if "f" in operation.flags and node.children is None:
            node.children = {}
        self._saw(node, operation.file_bytes)

    def _readdir(self, operation: Operation) -> None:
        node = self._node_of(operation)
        if node.children is None:
            node.children = {}

    def _mkdir(self, operation: Operation) -> None:
        if operation.path == ".":
            return
        folder, name = self._folder(operation.path)  # type: ignore[arg-type]
        assert folder.children is not None
        self._drop(folder.children.get(name))
        node = folder.children[name] = self._new(None, None)
        node.children = {}
        self.created_folders += 1

    def _remove(self, operation: Operation) -> None:
        node = self._take(operation.path)  # type: ignore[arg-type]
        if operation.op == "rmdir" and node is not None and node.children is None:
            node.children = {}
        self._drop(node)
        self.removed += 1

    def _rename(self, operation: Operation) -> None:
        old, new = operation.path, operation.to_path
        if old == "." or new == ".":
            return
        node = self._find(old)  # type: ignore[arg-type]
        folder, name = self._folder(new)  # type: ignore[arg-type]
        assert folder.children is not None
        before = folder.children.get(name)
        if before is node:
            return  # two names of one file: POSIX leaves both
        if before is not None and (before.children is not None or node.children is not None):
            # A folder replaces an empty folder only, and nothing else does.
            node.children = {} if node.children is None else node.children
            before.children = {} if before.children is None else before.children
        self._drop(before)
        self._take(old)  # type: ignore[arg-type]
        folder.children[name] = node

    def _link(self, operation: Operation) -> None:
        node = self._find(operation.path)  # type: ignore[arg-type]
        folder, name = self._folder(operation.to_path)  # type: ignore[arg-type]
        assert folder.children is not None
        self._drop(folder.children.get(name))
        folder.children[name] = node
        self._linked = True

    def _nothing(self, operation: Operation) -> None:
        self._node_of(operation)


_STEPS = {
    "open": FileSet._open, "create": FileSet._open, "close": FileSet._close, "read": FileSet._read,
    "write": FileSet._write, "flush": FileSet._nothing, "stat": FileSet._stat, "readdir": FileSet._readdir,
    "mkdir": FileSet._mkdir, "rmdir": FileSet._remove, "remove": FileSet._remove, "rename": FileSet._rename,
    "link": FileSet._link, "truncate": FileSet._truncate,
}  # fmt: skip


def files_of(operations: Iterable[Operation]) -> list[FileFacts]:
    """The folders and files that must be there before these operations are carried out, folders first.

    operations: a `Trace`, or what one yields.
    """
    files = FileSet()
    for operation in operations:
        files.add(operation)
    return list(files.needed())
