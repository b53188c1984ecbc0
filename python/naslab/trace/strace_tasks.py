"""Which process is whose child: clone, execve, exit, and lines of children that come before their parent's."""

from __future__ import annotations

from collections.abc import Callable

from naslab.trace.strace_files import Folder, OpenFile, Table, Task
from naslab.trace.strace_text import Begun, Call, Ended

FORKS = frozenset(("clone", "clone3", "fork", "vfork"))
MAX_ORPHANS = 20_000
"""Lines of children that wait for their parent's call to return; beyond, they count as of an unknown parent."""
MAX_TASKS = 1 << 16
"""Processes and threads that are alive at once."""
Event = Call | Begun | Ended


class Tasks:
    """Processes and threads by number.

    release: called with (task, time, file) when the last descriptor of a file is gone.
    """

    def __init__(self, folder: bytes | None, release: Callable[[Task, int, OpenFile], None]) -> None:
        self._tasks: dict[int, Task] = {}
        self._folder = folder
        self._release = release
        self._forking: dict[int, Begun] = {}
        self._orphans: dict[int, list[Event]] = {}
        self._orphan_lines = 0
        self.unknown_parents = 0

    def __len__(self) -> int:
        """How many are alive."""
        return len(self._tasks)

    def task(self, pid: int) -> Task:
        """The task of this number; one of unknown origin starts with no files."""
        found = self._tasks.get(pid)
        if found is None:
            if self._tasks:
                self.unknown_parents += 1
            found = self._tasks[pid] = Task(Table(), Folder(self._folder))
        return found

    def waits(self, event: Event) -> bool:
        """Whether this event's task is not known yet, while a clone is under way that may be its birth.

        The event is kept, and comes back from `born` or `stranded`.
        """
        if isinstance(event, Begun) and event.name in FORKS and event.pid in self._tasks:
            self._forking[event.pid] = event
        if event.pid in self._tasks or not self._forking:
            return False
        self._orphans.setdefault(event.pid, []).append(event)
        self._orphan_lines += 1
        return True

    def oldest_waiting_ns(self) -> int | None:
        """When the earliest event that is kept happened."""
        starts = [events[0].start_ns for events in self._orphans.values()]
        return min(starts, default=None)

    def born(self, call: Call) -> list[Event]:
        """A fork or clone returned: makes the child's task; the child's events that were kept."""
        self._forking.pop(call.pid, None)
        if call.ok and call.value:
            parent = self.task(call.pid)
            flags = " ".join(call.args)
            if call.value not in self._tasks:
                shares = "CLONE_FILES" in flags
                table = parent.table if shares else parent.table.copy()
                table.users += shares
                folder = parent.folder if "CLONE_FS" in flags else Folder(parent.folder.path, parent.folder.root)
                self._tasks[call.value] = Task(table, folder)
            kept = self._orphans.pop(call.value, [])
            self._orphan_lines -= len(kept)
            return kept + self.stranded()
        return self.stranded()

    def stranded(self) -> list[Event]:
        """Events whose parent cannot come any more, or which are too many to keep."""
        if self._orphans and (not self._forking or self._orphan_lines > MAX_ORPHANS):
            kept = [event for events in self._orphans.values() for event in events]
            self._orphans.clear()
            self._orphan_lines = 0
            for pid in {event.pid for event in kept}:
                self.task(pid)
            return sorted(kept, key=lambda event: event.start_ns)
        return []

    def give_up_waiting(self) -> list[Event]:
        """The source is at its end: what is still kept."""
        self._forking.clear()
        return self.stranded()

    def executed(self, call: Call) -> None:
        """An execve went well: the table is the task's own, without what closes on exec."""
        task = self.task(call.pid)
        self.own_table(task)
        for number in sorted(task.table.on_exec):
            self.drop(task, call.start_ns, task.table.take(number))
        task.table.on_exec.clear()

    def own_table(self, task: Task) -> None:
        """Ends the sharing of descriptors with other threads."""
        if task.table.users > 1:
            task.table.users -= 1
            task.table = task.table.copy()

    def ended(self, event: Ended) -> None:
        """A task is gone, or goes on as another of its threads after an execve."""
        self._forking.pop(event.pid, None)
        task = self._tasks.pop(event.pid, None)
        if event.successor is not None and event.successor in self._tasks:
            self._tasks[event.pid] = self._tasks.pop(event.successor)
        if task is not None:
            task.table.users -= 1
            if task.table.users == 0:
                for number in sorted(task.table.files):
                    self.drop(task, event.start_ns, task.table.files[number])

    def drop(self, task: Task, now_ns: int, file: OpenFile | None) -> None:
        """One descriptor less of a file."""
        if file is not None:
            file.references -= 1
            if file.references == 0:
                self._release(task, now_ns, file)
