"""From operations of a trace to steps of a script, one after the other in bounded memory.

An operation waits for the last steps of other streams that it needs: those that made or removed its path or a folder
above it; for a read, those that wrote the file; for a change of its length, its removal or renaming, all that used it.
"""

from __future__ import annotations

from collections.abc import Mapping

from naslab.commands.replay.lanes import Lane, OpenFile
from naslab.commands.replay.tally import Tally
from naslab.commands.replay.tree import Node, Tree, mark, put
from naslab.spec import script as steps
from naslab.spec.script import ScriptWriter
from naslab.trace.format import MAX_HANDLE, Operation

UNACCOUNTED = "the trace does not show how its file appeared or disappeared"
AT_END = "empty reads and writes that are not at the end of a file"
BEYOND = "reads of data that the trace never wrote"
FAILED_CHANGE = "it failed when recorded and might change the file here"
FAILED_LENGTH = "it failed when recorded, and the trace does not contain the requested size"
LONGER = "a short read, and the file is longer here: reads only what the recorded read returned"
SHORTER = "a short write: writes only what the recorded write moved"
MIGHT_SUCCEED = "it failed when recorded and might succeed here"
GONE = "its file was removed while it was open and no longer has a name"
FOLDER_OPEN = "a folder is looked up; the listing opens it"
FOLDER_CLOSE = "folders are not held open"
LISTING = "further calls of one listing, as many as the client needs"
LINK = "a second name is not possible: a new file of the same length"
BEFORE = "files that were open before the trace began, or are used without being opened"
SHARED = "files that another stream had opened"
PIECES = "requests above 64 MiB in pieces"
BY_PATH = "files with a truncated path"
MOST_ASKED_BYTES = 1 << 20
"""A read that gave less asks for no more than this: each stream needs memory for its longest request."""
_KEEP = ~(steps.FLAG_CREATE | steps.FLAG_EXCLUSIVE | steps.FLAG_TRUNCATE)


class Converter:
    """Adds the operations of a trace, in its order, to a script.

    numbers: the script's stream for each of the trace's (`join`). tree: what is there at the start. direct: the target
    can open files unbuffered. modes: it refuses to write to files that were opened to be read. `tally` counts all that
    is done and left out; `bytes` what is moved; `peak_bytes` the most that all files hold at once, if the streams keep
    to the order of the trace.
    """

    def __init__(
        self, writer: ScriptWriter, numbers: Mapping[int, int], tree: Tree, direct: bool = False, modes: bool = True
    ) -> None:
        self.tally = Tally()
        self.bytes = 0
        self.peak_bytes = self._held_bytes = tree.prepared_bytes
        self._numbers = numbers
        self._direct = direct
        self._modes = modes
        self._lanes = [Lane(writer, writer.stream(), self.tally) for _ in range(max(numbers.values(), default=-1) + 1)]
        self._tree = tree
        self._open: dict[int, OpenFile] = {}

    def add(self, operation: Operation) -> None:
        """The next operation, as a `Trace` yields it."""
        lane = self._lanes[self._numbers[operation.stream]]
        lane.due_ns = operation.start_ns
        if _is_inferred(operation):
            self.tally.added[operation.op, BEFORE] += 1
        else:
            self.tally.trace[operation.op] += 1
        if operation.error is not None and operation.op != "close":
            self._failed(lane, operation)
        else:
            _STEPS[operation.op](self, lane, operation)

    # Waiting

    def _use(self, lane: Lane, node: Node | None) -> None:
        """The next step needs all on the way to this name."""
        while node is not None:
            lane.need(node.made)
            node = node.parent

    def _change(self, lane: Lane, node: Node) -> None:
        """The next step changes what this name stands for: all who use it come first."""
        self._use(lane, node)
        for marks in (node.users, node.wrote, node.cut):
            lane.need(marks)

    def _used(self, lane: Lane, node: Node | None) -> None:
        """The last step used this name."""
        number, count = lane.number, lane.steps
        while node is not None:
            node.users = put(node.users, number, count)
            node = node.parent

    def _made(self, lane: Lane, node: Node) -> None:
        """The last step changed what this name stands for."""
        node.made = mark(lane.number, lane.steps)
        node.users = None
        self._used(lane, node.parent)

    # Opening and closing

    def _opens(self, lane: Lane, operation: Operation) -> None:
        handle: int = operation.handle  # type: ignore[assignment]
        node = self._tree.find(operation.path or ".")
        creates = operation.op == "create"
        if node.is_folder():
            self._open[handle] = OpenFile(node, folder=True)
            self._stat_node(lane, node)
            self.tally.instead[operation.op, "stat", FOLDER_OPEN] += 1
            return
        parent = node.parent
        if not node.present and not (creates and parent is not None and parent.is_folder()):
            self._open[handle] = OpenFile(None)
            self.tally.skipped[operation.op, UNACCOUNTED] += 1
            return
        flags = self._flags(operation)
        if creates:
            flags |= steps.FLAG_CREATE
            flags |= steps.FLAG_EXCLUSIVE if "e" in operation.flags and not node.present else 0
        opened = self._open[handle] = OpenFile(node, flags=flags & _KEEP)
        if node.present and not flags & steps.FLAG_TRUNCATE:
            self._use(lane, node)
        else:
            self._change(lane, node)
        opened.numbers[lane.number] = lane.open(node.path(), flags)
        if node.present:
            self._used(lane, node)
            if flags & steps.FLAG_TRUNCATE:
                self._cut(lane, node, 0)
        else:
            node.present, node.folder = True, False
            self._cut(lane, node, 0)
            self._made(lane, node)

    def _flags(self, operation: Operation) -> int:
        given = operation.flags
        flags = (steps.FLAG_READ if "r" in given else 0) | (steps.FLAG_WRITE if "w" in given else 0)
        flags = flags or steps.FLAG_READ | steps.FLAG_WRITE
        if "t" in given:
            flags |= steps.FLAG_TRUNCATE | steps.FLAG_WRITE
        flags |= steps.FLAG_SYNC if "s" in given else 0
        return flags | (steps.FLAG_DIRECT if "d" in given and self._direct else 0)

    def _close(self, lane: Lane, operation: Operation) -> None:
        opened = self._open.pop(operation.handle or 0, None)
        if opened is None or not opened.numbers:
            reason = FOLDER_CLOSE if opened is not None and opened.folder else UNACCOUNTED
            self.tally.skipped["close", reason] += 1
            return
        # Who opened it and who used it close it, each in its own stream.
        for number in opened.numbers:
            closing = self._lanes[number]
            closing.due_ns = max(closing.due_ns, operation.start_ns)
            closing.close(opened.numbers[number])
            self._used(closing, opened.node)
        if len(opened.numbers) > 1:
            self.tally.added["close", SHARED] += len(opened.numbers) - 1

    def _number(self, lane: Lane, operation: Operation) -> tuple[Lane, Node, int] | None:
        """Who does an operation, on which file, by which handle; None, and counted, if there is none.

        That is the stream itself, which opens the file if another had opened it; or that one where the file has no
        name any more.
        """
        opened = self._open.get(operation.handle if operation.handle is not None else -1)
        if opened is None or opened.node is None or opened.folder:
            self.tally.skipped[operation.op, UNACCOUNTED] += 1
            return None
        number = opened.numbers.get(lane.number)
        if number is None:
            if opened.node.is_file():
                self._use(lane, opened.node)
                number = opened.numbers[lane.number] = lane.open(opened.node.path(), opened.flags)
                self.tally.added["open", SHARED] += 1
                self._used(lane, opened.node)
            else:
                other, number = next(iter(opened.numbers.items()))
                lane = self._lanes[other]
                lane.due_ns = operation.start_ns
        return lane, opened.node, number

    # Data

    def _data(self, lane: Lane, operation: Operation) -> None:
        kind, length = operation.op, operation.len_bytes or 0
        if not length:
            self._at_end(lane, operation)
            return
        end = (operation.offset_bytes or 0) + length
        opened = self._open.get(operation.handle if operation.handle is not None else -1)
        if kind == "read" and opened is not None and opened.node is not None and end > opened.node.length_bytes:
            self.tally.skipped[kind, BEYOND] += 1
            return
        found = self._number(lane, operation)
        if found is None:
            return
        lane, node, number = found
        lane.need(node.cut)
        if kind == "read":
            lane.need(node.wrote)
        pieces = lane.move(kind, number, operation.offset_bytes or 0, self._asked(operation, node, length))
        if pieces > 1:
            self.tally.added[kind, PIECES] += pieces - 1
        self.bytes += length
        if kind == "read":
            node.users = put(node.users, lane.number, lane.steps)
        else:
            node.wrote = put(node.wrote, lane.number, lane.steps)
            self._holds(max(end - node.length_bytes, 0))
            node.length_bytes = max(node.length_bytes, end)

    def _asked(self, operation: Operation, node: Node, length: int) -> int:
        """How much to ask for. A read that gave less than it asked for does so again where the file ends here, too."""
        asked = operation.asked_bytes or length
        if asked <= length:
            return length
        if operation.op == "write":
            self.tally.instead["write", "write", SHORTER] += 1
        elif node.length_bytes > (operation.offset_bytes or 0) + length:
            self.tally.instead["read", "read", LONGER] += 1
        else:
            return max(length, min(asked, MOST_ASKED_BYTES))
        return length

    def _at_end(self, lane: Lane, operation: Operation) -> None:
        """A read that found the file's end: asked for again where it ends here, too."""
        opened = self._open.get(operation.handle if operation.handle is not None else -1)
        node, offset, asked = opened.node if opened else None, operation.offset_bytes or 0, operation.asked_bytes or 0
        if operation.op != "read" or not asked or node is None or offset < node.length_bytes:
            self.tally.skipped[operation.op, AT_END] += 1
            return
        found = self._number(lane, operation)
        if found is None:
            return
        lane, node, number = found
        lane.need(node.cut)
        lane.need(node.wrote)
        lane.move("read", number, offset, min(asked, MOST_ASKED_BYTES))
        node.users = put(node.users, lane.number, lane.steps)

    def _flush(self, lane: Lane, operation: Operation) -> None:
        found = self._number(lane, operation)
        if found is not None:
            lane, node, number = found
            lane.flush(number)
            node.users = put(node.users, lane.number, lane.steps)

    def _truncate(self, lane: Lane, operation: Operation) -> None:
        if operation.handle is not None:
            found = self._number(lane, operation)
            if found is None:
                return
            lane, node, number = found
            self._change(lane, node)
            lane.truncate(number, operation.len_bytes or 0)
        else:
            node = self._tree.find(operation.path or ".")
            if not node.is_file():
                self.tally.skipped["truncate", UNACCOUNTED] += 1
                return
            self._change(lane, node)
            number = lane.open(node.path(), steps.FLAG_WRITE)
            lane.truncate(number, operation.len_bytes or 0)
            lane.close(number)
            self.tally.added["open", BY_PATH] += 1
            self.tally.added["close", BY_PATH] += 1
            self._used(lane, node)
        self._cut(lane, node, operation.len_bytes or 0)

    def _cut(self, lane: Lane, node: Node, length_bytes: int) -> None:
        """The last step set the length."""
        self._holds(length_bytes - node.length_bytes)
        node.cut, node.wrote, node.length_bytes = mark(lane.number, lane.steps), None, length_bytes

    def _holds(self, more_bytes: int) -> None:
        self._held_bytes += more_bytes
        self.peak_bytes = max(self.peak_bytes, self._held_bytes)

    # Names

    def _node_of(self, operation: Operation) -> Node | None:
        """What an operation by handle or path works on; None, and counted, where that is not there."""
        if operation.handle is not None:
            opened = self._open.get(operation.handle)
            node = opened.node if opened is not None else None
            if node is not None and not node.present:
                self.tally.skipped[operation.op, GONE] += 1
                return None
        else:
            node = self._tree.find(operation.path or ".")
        if node is None or not node.reachable():
            self.tally.skipped[operation.op, UNACCOUNTED] += 1
            return None
        return node

    def _stat(self, lane: Lane, operation: Operation) -> None:
        node = self._node_of(operation)
        if node is not None:
            self._stat_node(lane, node)

    def _stat_node(self, lane: Lane, node: Node, flags: int = 0, kind: int = steps.STAT) -> None:
        self._use(lane, node)
        lane.on_path(kind, node.path(), flags)
        self._used(lane, node)

    def _readdir(self, lane: Lane, operation: Operation) -> None:
        opened = self._open.get(operation.handle) if operation.handle is not None else None
        if opened is not None and opened.listed:
            opened.listed = bool(operation.len_bytes)
            self.tally.skipped["readdir", LISTING] += 1
            return
        node = self._node_of(operation)
        if node is None:
            return
        if not node.folder:
            self.tally.skipped["readdir", UNACCOUNTED] += 1
            return
        self._stat_node(lane, node, kind=steps.READDIR)
        if opened is not None:
            opened.listed = bool(operation.len_bytes)

    def _mkdir(self, lane: Lane, operation: Operation) -> None:
        node = self._tree.find(operation.path or ".")
        if node.present or node.parent is None or not node.parent.is_folder():
            self.tally.skipped["mkdir", UNACCOUNTED] += 1
            return
        self._change(lane, node)
        lane.on_path(steps.MKDIR, node.path())
        node.present = node.folder = True
        self._made(lane, node)

    def _remove(self, lane: Lane, operation: Operation) -> None:
        path, kind = operation.path or ".", steps.RMDIR if operation.op == "rmdir" else steps.REMOVE
        node = self._tree.find(path)
        if _removal_fails(node, kind):
            self.tally.skipped[operation.op, UNACCOUNTED] += 1
            return
        self._change(lane, node)
        lane.on_path(kind, node.path())
        self._holds(-node.length_bytes)
        self._made(lane, self._tree.remove(path))

    def _rename(self, lane: Lane, operation: Operation) -> None:
        path, path_to = operation.path or ".", operation.to_path or "."
        node, target = self._tree.find(path), self._tree.find(path_to)
        if _rename_fails(node, target):
            self.tally.skipped["rename", UNACCOUNTED] += 1
            return
        self._change(lane, node)
        self._change(lane, target)
        lane.rename(node.path(), target.path())
        if node is target:
            self._used(lane, node)
            return
        self._holds(-target.length_bytes)
        left = self._tree.move(path, path_to)
        self._made(lane, left)
        self._made(lane, node)

    def _link(self, lane: Lane, operation: Operation) -> None:
        source, node = self._tree.find(operation.path or "."), self._tree.find(operation.to_path or ".")
        if not source.is_file() or node.present or node.parent is None or not node.parent.is_folder():
            self.tally.skipped["link", UNACCOUNTED] += 1
            return
        self._change(lane, node)
        self._use(lane, source)
        flags = steps.FLAG_WRITE | steps.FLAG_CREATE | steps.FLAG_EXCLUSIVE
        number = lane.open(node.path(), flags)
        self.tally.instead["link", "create", LINK] += 1
        if source.length_bytes:
            lane.truncate(number, source.length_bytes)
            self.tally.added["truncate", LINK] += 1
        lane.close(number)
        self.tally.added["close", LINK] += 1
        node.present, node.folder = True, False
        self._cut(lane, node, source.length_bytes)
        self._made(lane, node)

    # Operations that failed when they were recorded

    def _failed(self, lane: Lane, operation: Operation) -> None:
        """Carried out again where it will fail again: then it changes nothing here either."""
        kind = operation.op
        if kind in ("read", "write", "flush") or (kind == "truncate" and operation.handle is not None):
            self._failed_data(lane, operation)
            return
        if kind in ("stat", "readdir") and operation.handle is not None:
            node = self._node_of(operation)
            if node is not None:
                self._stat_node(lane, node, steps.FLAG_FAILS, steps.STAT if kind == "stat" else steps.READDIR)
            return
        node = self._tree.find(operation.path or ".")
        target = self._tree.find(operation.to_path) if operation.to_path is not None else None
        # A folder that is not empty stays so while one thing that is in it does.
        inside = node.something() if kind == "rmdir" else None
        for each in (node, target, inside):
            self._use(lane, each)
        if not self._again(lane, operation, node, target):
            lane.on_path(steps.STAT, node.path(), steps.FLAG_FAILS)
            if kind != "stat":
                self.tally.instead[kind, "stat", MIGHT_SUCCEED] += 1
        for each in (node, target, inside):
            self._used(lane, each)

    def _failed_data(self, lane: Lane, operation: Operation) -> None:
        """What changes nothing if it does not fail, and what the way in which the file is open makes fail again."""
        kind, fails = operation.op, steps.FLAG_FAILS
        opened = self._open.get(operation.handle if operation.handle is not None else -1)
        writable = opened is not None and bool(opened.flags & steps.FLAG_WRITE)
        asked = operation.asked_bytes or operation.len_bytes or 0
        if opened is not None and opened.folder:
            self.tally.skipped[kind, FOLDER_CLOSE] += 1
        elif kind in ("write", "truncate") and (writable or not self._modes):
            self.tally.skipped[kind, FAILED_CHANGE] += 1
        elif kind in ("read", "write") and not asked:
            self.tally.skipped[kind, FAILED_LENGTH] += 1
        elif (found := self._number(lane, operation)) is not None:
            lane, node, number = found
            lane.need(node.cut)
            lane.need(node.wrote)
            if kind == "flush":
                lane.flush(number, fails)
            elif kind == "truncate":
                lane.truncate(number, operation.len_bytes or 0, fails)
            else:
                lane.move(kind, number, operation.offset_bytes or 0, min(asked, MOST_ASKED_BYTES), fails)
            node.users = put(node.users, lane.number, lane.steps)

    def _again(self, lane: Lane, operation: Operation, node: Node, target: Node | None) -> bool:
        """Adds the step if what is there makes it fail; whether it does."""
        kind, path, fails = operation.op, node.path(), steps.FLAG_FAILS
        if kind in ("open", "create"):
            flags = self._flags(operation)
            if kind == "create":
                missing = node.parent is None or not node.parent.is_folder()
                if not (missing or (node.reachable() and ("e" in operation.flags or node.folder))):
                    return False
                flags |= steps.FLAG_CREATE | steps.FLAG_EXCLUSIVE
            elif node.reachable():
                return False
            lane.open_fails(path, flags)
        elif kind == "readdir" and not node.is_folder():
            lane.on_path(steps.READDIR, path, fails)
        elif kind == "mkdir" and (node.present or node.parent is None or not node.parent.is_folder()):
            lane.on_path(steps.MKDIR, path, fails)
        elif kind in ("rmdir", "remove") and _removal_fails(node, steps.RMDIR if kind == "rmdir" else steps.REMOVE):
            lane.on_path(steps.RMDIR if kind == "rmdir" else steps.REMOVE, path, fails)
        elif kind == "rename" and target is not None and not node.reachable():
            lane.rename(path, target.path(), fails)
        else:
            return False
        return True


def _is_inferred(operation: Operation) -> bool:
    """What the reader of the trace puts in: opens, and closes of its own handles."""
    own = operation.handle is not None and operation.handle > MAX_HANDLE
    return "i" in operation.flags or (own and operation.op == "close")


def _removal_fails(node: Node, kind: int) -> bool:
    if kind == steps.RMDIR:
        return node.parent is None or not node.is_folder() or not node.is_empty()
    return not node.is_file()


def _rename_fails(node: Node, target: Node) -> bool:
    if node.parent is None or target.parent is None or not node.reachable() or not target.parent.is_folder():
        return True
    if node is target or not target.present:
        return False
    return target.folder != node.folder or not target.is_empty()


_STEPS = {
    "open": Converter._opens, "create": Converter._opens, "close": Converter._close, "read": Converter._data,
    "write": Converter._data, "flush": Converter._flush, "stat": Converter._stat, "readdir": Converter._readdir,
    "mkdir": Converter._mkdir, "rmdir": Converter._remove, "remove": Converter._remove, "rename": Converter._rename,
    "link": Converter._link, "truncate": Converter._truncate,
}  # fmt: skip
