"""What delegations (NFS 4) and leases (SMB) would save, from a run's counts.

naslab caches nothing: each operation reaches the server. A client that holds the right to cache a file need not ask
again what it knows: it opens and closes the file by itself after the first time, answers for its attributes, and reads
once what is read again. So the counts of opens, closes, lookups of attributes and reads say how many calls such a
client would not have made. With the right to write it saves these for files that it writes, too, and writes once what
is written again before it has to be durable.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, astuple, dataclass, field
from typing import Any

from naslab.explain import tell
from naslab.explain.cells import PREPARING
from naslab.results.foreign import is_foreign

Cell = Mapping[str, Any]
Document = Mapping[str, Any]

PROTOCOLS = ("smb", "nfs")
NAMES = {"smb": ("leases", "to read and keep handles", "to write"), "nfs": ("delegations", "to read", "to write")}
"""What a protocol calls the right, and its two kinds."""
RETURNED, TAKEN = ("delegation_returned",), ("lease_break", "oplock_break")
"""Events: delegations that came unasked, and leases that the server took back, both within cells' timed windows."""


@dataclass(frozen=True)
class Saved:
    """Calls that need not have reached the server."""

    opens: int = 0
    closes: int = 0
    lookups: int = 0
    reads: int = 0
    writes: int = 0

    @property
    def calls(self) -> int:
        """All of them."""
        return sum(astuple(self))

    def __add__(self, other: Saved) -> Saved:
        return Saved(*(mine + its for mine, its in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True)
class Caching:
    """calls: all that the run's cells made. reading: what the right to read would have saved of them; writing: what the
    right to write would have saved beyond that. asked: for which rights the run asked, and opens: for how many opens;
    given, taken: how many the server gave and took back.
    """

    protocol: str
    dialect: str
    calls: int
    reading: Saved
    writing: Saved
    asked: str
    opens: int
    given: int
    taken: int

    def document(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "calls": self.calls, "reading": asdict(self.reading), "writing": asdict(self.writing),
            "asked": self.asked, "opens": self.opens, "given": self.given, "taken": self.taken,
            "sentences": self.sentences(),
        }  # fmt: skip

    def sentences(self) -> list[str]:
        """What the server gave, and what that, or more of it, would have saved."""
        return [self._granted(), *self._savings()]

    @property
    def _has_none(self) -> bool:
        """Whether the protocol that the run spoke knows no such right, though a later version does."""
        return self.protocol == "nfs" and self.dialect == "3"

    def _whose(self) -> str:
        return " of NFS 4" if self._has_none else ""

    def _granted(self) -> str:
        name = NAMES[self.protocol][0]
        if self._has_none:
            return "NFS 3 has no delegations: its clients cache by guess, for some seconds"
        taken = f", and took {self.taken:,} of them back" if self.taken else ""
        if self.asked in ("", "none"):
            unasked = f", and gave back {self.given:,} that came all the same" if self.given else ""
            return f"this run asked for no {name}: naslab caches nothing, so that the server is measured{unasked}"
        given = f"the server gave {self.given:,} of {self.opens:,}" if self.opens else "how many it got is not known"
        return f"this run asked for {name} ({self.asked}): {given}{taken}; naslab used none"

    def _savings(self) -> Iterator[str]:
        name, *rights = NAMES[self.protocol]
        total = self.reading.calls + self.writing.calls
        if not total:
            yield (
                f"{name}{self._whose()} would have saved none of its {self.calls:,} calls: no file was opened twice, "
                "and no data were read or written twice"
            )
            return
        yield (
            f"of its {self.calls:,} calls a client with {name}{self._whose()} would have saved about {total:,} "
            f"({100 * total / self.calls:.0f} %)"
        )
        more = " more" if self.reading.calls else ""
        for saved, right, beyond in zip((self.reading, self.writing), rights, ("", more), strict=True):
            if saved.calls:
                yield f"{name} {right}: {saved.calls:,}{beyond} ({_named(saved)})"


def _named(saved: Saved) -> str:
    what = (
        "opens of files opened before", "closes of these", "lookups of attributes", "reads of data read before",
        "writes of data written again",
    )  # fmt: skip
    return tell.joined([f"{count:,} {name}" for count, name in zip(astuple(saved), what, strict=True) if count])


@dataclass
class _Group:
    """Files that some cells work on, and what a client may know of them by now. files: how many; None: not known.
    size_bytes: of these files together.
    """

    files: int | None = None
    size_bytes: int = 0
    created: int = 0
    opened: int = 0
    moved: Counter[str] = field(default_factory=Counter)

    def saved(self, cell: Cell) -> Saved:
        """What a client that may cache these files would not have asked in the next cell."""
        ops = Counter({kind: int(found["ops"]) for kind, found in cell["kinds"].items()})
        self.created += ops["create"]
        files = self.created if self.files is None else self.files
        self.opened = min(files, self.opened + ops["create"])
        first = min(ops["open"], files - self.opened)
        self.opened += first
        opens = ops["open"] - first if files else 0
        # Of files that were never opened a client may cache nothing, nor of folders.
        known = self.opened and cell.get("op") != "stat_dir"
        lookups = max(0, ops["stat"] - (files - self.opened)) if known else 0
        reads, writes = self._again("read", cell), self._again("write", cell)
        return Saved(opens, min(ops["close"], opens), lookups, reads, 0 if cell.get("durability") == "each" else writes)

    def _again(self, kind: str, cell: Cell) -> int:
        """Reads or writes of what was read or written before."""
        found = cell["kinds"].get(kind) or {"ops": 0, "bytes": 0}
        ops, moved = int(found["ops"]), int(found["bytes"])
        new = min(moved, max(0, self.size_bytes - self.moved[kind]))
        self.moved[kind] += moved
        return round(ops * (1 - new / moved)) if self.size_bytes and moved else 0


def caching(document: Document) -> Caching | None:
    """What a run's counts say; None of a target without such rights, and of a run without counts."""
    protocol = str(document["target"].get("protocol") or "")
    if protocol not in PROTOCOLS or is_foreign(document):
        return None
    cells = [cell for cell in document["cells"] if cell.get("kinds") and cell.get("workload") not in PREPARING]
    calls = sum(int(found["ops"]) for cell in cells for found in cell["kinds"].values())
    if not calls:
        return None
    reading, writing = Saved(), Saved()
    for group, cell in _grouped(document, cells):
        saved = group.saved(cell)
        if {"write", "create"} & {kind for kind, found in cell["kinds"].items() if found["ops"]}:
            writing += saved
        else:
            reading += saved
    facts = (document.get("environment") or {}).get("target") or {}
    return Caching(
        protocol, str(facts.get("dialect") or ""), calls, reading, writing, str(facts.get("leases") or "none"),
        _fact(facts, "leases_asked"), _fact(facts, "leases_granted") or _events(cells, RETURNED), _events(cells, TAKEN),
    )  # fmt: skip


def _fact(facts: Mapping[str, Any], name: str) -> int:
    found = facts.get(name)
    return found if isinstance(found, int) else 0


def _events(cells: Iterable[Cell], names: Iterable[str]) -> int:
    return sum(int((cell.get("protocol_events") or {}).get(name, 0)) for cell in cells for name in names)


def _grouped(document: Document, cells: Iterable[Cell]) -> Iterator[tuple[_Group, Cell]]:
    """Each cell with the files that it works on: a tree's by its repeat and what was cached, an application's its
    own, others' by their size."""
    apps = {cell: app for app in (document.get("apps") or {}).get("results") or [] for cell in app.get("cells") or []}
    tree, replay = document.get("tree") or {}, document.get("replay") or {}
    found: defaultdict[tuple[Any, ...], _Group] = defaultdict(_Group)
    for cell in cells:
        app, workload = apps.get(cell["id"]), cell.get("workload")
        if app is not None:
            group = found["app", cell["id"]]
            group.files = int(app["files_prepared"]) + int(app["files_made"])
            group.size_bytes = int(app["prepared_bytes"]) + int(app["written_bytes"])
        elif workload == "tree" and tree:
            # A pass over caches that were emptied begins anew.
            cold = cell["id"] if cell.get("cache_state") == "cold" else None
            group = found["tree", cell.get("block"), cold]
            group.files = int(tree["files"])
            group.size_bytes = int(tree["files"]) * int(tree["mean_bytes"])
        elif workload == "replay" and replay:
            group = found["replay", cell["id"]]
            group.files = int(replay.get("files") or 0) or None
        else:
            size, workers = int(cell.get("file_bytes") or 0), int(cell.get("workers") or 1)
            group = found[workload, size, workers, cell.get("block")]
            group.size_bytes = size * workers
        yield group, cell
