"""The files of a replay as its operations leave them, and who used them last.

Operations of different streams may trade places unless one needs the other. Each name and each file remembers which
steps a later operation has to wait for: at most one of each stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from naslab.commands.replay.names import Names, folded
from naslab.trace.fileset import FileFacts

Marks = int | dict[int, int] | None
"""Steps of streams, one of each stream: none, one (packed) or several. Most files are used by one stream only."""
_BITS = 40


def mark(stream: int, steps: int) -> int:
    """The last of the first `steps` steps of a stream."""
    return stream << _BITS | steps


def put(marks: Marks, stream: int, steps: int) -> Marks:
    """With the step of one stream replaced."""
    if isinstance(marks, dict):
        marks[stream] = steps
        return marks
    if marks is None or marks >> _BITS == stream:
        return mark(stream, steps)
    return {marks >> _BITS: marks & ((1 << _BITS) - 1), stream: steps}


def each(marks: Marks) -> Iterator[tuple[int, int]]:
    """(stream, steps) of all."""
    if isinstance(marks, dict):
        yield from marks.items()
    elif marks is not None:
        yield marks >> _BITS, marks & ((1 << _BITS) - 1)


class Node:
    """A name: a file, a folder, or nothing (any more, or yet).

    made: the step that last changed what the name stands for. users: last uses of it, and of all below it, since.
    wrote, cut: last writes, and the last step that set the length. length_bytes: of a file.
    """

    __slots__ = ("children", "cut", "folder", "length_bytes", "made", "name", "parent", "present", "users", "wrote")

    def __init__(self, name: str, parent: Node | None) -> None:
        self.name = name
        self.parent = parent
        self.children: dict[str, Node] | None = None
        self.folder = False
        self.present = False
        self.length_bytes = 0
        self.made: Marks = None
        self.users: Marks = None
        self.wrote: Marks = None
        self.cut: Marks = None

    def path(self) -> str:
        """On the target, below the folder of files; "" for that itself."""
        parts = []
        node: Node | None = self
        while node is not None and node.parent is not None:
            parts.append(node.name)
            node = node.parent
        return "/".join(reversed(parts))

    def reachable(self) -> bool:
        """Whether it is there, in folders that are there."""
        node: Node | None = self
        while node is not None:
            if not node.present:
                return False
            node = node.parent
        return True

    def is_file(self) -> bool:
        """There, and no folder."""
        return not self.folder and self.reachable()

    def is_folder(self) -> bool:
        """There, and a folder."""
        return self.folder and self.reachable()

    def something(self) -> Node | None:
        """What is in it, the first; None where it is empty."""
        return next((child for child in (self.children or {}).values() if child.present), None)

    def is_empty(self) -> bool:
        """Nothing is in it."""
        return self.something() is None


class Tree:
    """All names that the trace used.

    files: what is there when the trace begins. prepared_files, prepared_folders: how many; prepared_bytes: the length
    of all files. names: how many there are.
    """

    def __init__(self, names: Names, files: Iterable[FileFacts] = ()) -> None:
        self._naming = names
        self._odd: dict[Node, set[str]] = {}
        """Folded names of what is in a folder, but for those that are spelled like it."""
        self.root = Node("", None)
        self.root.folder = self.root.present = True
        self.names = self.prepared_files = self.prepared_folders = self.prepared_bytes = 0
        for fact in files:
            node = self.find(fact.path)
            node.present, node.folder, node.length_bytes = True, fact.folder, fact.size_bytes
            self.prepared_files += not fact.folder
            self.prepared_folders += fact.folder
            self.prepared_bytes += fact.size_bytes

    def find(self, path: str) -> Node:
        """The node of a path of the trace; made, as something that is not there, if nobody asked before."""
        node = self.root
        if path == ".":
            return node
        for part in path.split("/"):
            if node.children is None:
                node.children = {}
            child = node.children.get(part)
            if child is None:
                self.names += 1
                child = node.children[part] = Node(self._named(part, node), node)
            node = child
        return node

    def there(self) -> Iterator[tuple[str, Node]]:
        """All that is there, with its path on the target: folders before what is in them, the root left out."""
        waiting = [("", self.root)]
        while waiting:
            path, node = waiting.pop()
            if node.parent is not None:
                yield path, node
            for child in reversed((node.children or {}).values()):
                if child.present:
                    waiting.append((f"{path}/{child.name}" if path else child.name, child))

    def _named(self, part: str, parent: Node) -> str:
        """A name on the target that no other in the folder is taken for."""
        if not self._naming.folds:
            return part
        children, odd = parent.children or {}, self._odd.get(parent)

        def taken(key: str) -> bool:
            spelled = children.get(key)
            return (odd is not None and key in odd) or (spelled is not None and folded(spelled.name) == key)

        name = self._naming(part, taken)
        if folded(name) != part:
            self._odd.setdefault(parent, set()).add(folded(name))
        return name

    def remove(self, path: str) -> Node:
        """Takes away what a name stands for; the node that is left there, as nothing.

        Who has the file open still has the old node.
        """
        node = self.find(path)
        node.present = False
        return self._put(path, Node(node.name, node.parent))

    def move(self, path: str, path_to: str) -> Node:
        """Gives a name to what another name stands for; the node that is left where it was, as nothing."""
        node, replaced = self.find(path), self.find(path_to)
        left = self._put(path, Node(node.name, node.parent))
        replaced.present = False
        node.name, node.parent = replaced.name, replaced.parent
        self._put(path_to, node)
        return left

    def _put(self, path: str, node: Node) -> Node:
        assert node.parent is not None and node.parent.children is not None
        node.parent.children[path.rpartition("/")[2]] = node
        return node
