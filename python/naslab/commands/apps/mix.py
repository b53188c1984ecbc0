"""`mix`: given numbers of operations over files of given sizes, for what no other behaviour says.

All numbers are met together. Files are opened and made in *sessions*; the requests are dealt out to them, so that files
that are read or written in order are read and written whole; shares are kept by carrying the error on from one request
to the next, so that they hold for short runs, too. Other operations are spread evenly between the requests.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from naslab.commands.apps.actions import READ_FLAGS, WRITE_FLAGS, Action, Work, tree
from naslab.errors import UsageError

MOST_ACTIONS = 3_000_000
MOST_STREAMS = 1024
IN_ORDER = 0.5
"""From this share on, files are read or written from the beginning to the end, as far as their size allows."""
SHUFFLES = 16
"""Orders of files that are tried."""
LONGEST_RUN = 64
WHOLE = 0.03
"""Where what is read differs from the size of the files by no more, they are read whole."""
MAY_GROW = 2
"""Percent that the files which must be there may become longer, so that requests in order find their place."""
_BETWEEN = {
    "stats": "stat", "missing": "miss", "missing_opens": "miss_open", "lists": "readdir", "mkdirs": "mkdir",
    "rmdirs": "rmdir", "removes": "remove", "renames": "rename",
}  # fmt: skip
"""Operations between the requests, by their number in the definition."""
Rows = Sequence[tuple[int, int]]


class Share:
    """Keeps a share of decisions: `wanted` says which way the next one should go, `count` how it went."""

    def __init__(self, percent: float) -> None:
        self.share = percent / 100
        self._all = self._hits = 0

    def wanted(self) -> bool:
        """Whether a hit brings the share nearer."""
        return self._hits + 0.5 <= self.share * (self._all + 1)

    def count(self, hit: bool) -> None:
        """One decision."""
        self._all += 1
        self._hits += hit


class _Spread:
    """Says how many of `total` are due when so many of `steps` are done."""

    def __init__(self, total: int, steps: int) -> None:
        self._total, self._steps = total, max(steps, 1)
        self._done = self._given = 0

    def due(self) -> Iterator[None]:
        """One step is done: one item for each that is due."""
        self._done += 1
        while self._given < min(self._total, round(self._total * self._done / self._steps)):
            self._given += 1
            yield


class _Session:
    """A file opened or made, used and closed. of: the session that made the file, where this mix made it.

    size_bytes: of the file, of a new one in the end. todo: (kind, length) of its requests; placed: with offsets.
    """

    __slots__ = ("idle", "made", "of", "path", "placed", "size_bytes", "todo")

    def __init__(self, path: str, size_bytes: int, made: bool = False, of: _Session | None = None) -> None:
        self.path = path
        self.size_bytes = size_bytes
        self.made = made
        self.idle = made and not size_bytes
        """It has no requests."""
        self.of = of
        self.todo: list[tuple[str, int]] = []
        self.placed: deque[tuple[str, int, int, bool]] = deque()
        """(kind, offset, length, whether it goes on where the one before it ended)."""

    def writes(self) -> bool:
        """Whether it needs permission to write."""
        return self.made or any(kind == "write" for kind, _ in self.todo)

    def reads(self) -> bool:
        """Whether anything is read in it."""
        return any(kind == "read" for kind, _ in self.todo)


class _Pool:
    """Names, of which any can be drawn or taken away at once."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names = list(names)
        self._at = {name: at for at, name in enumerate(self.names)}

    def add(self, name: str) -> None:
        """One more."""
        self._at[name] = len(self.names)
        self.names.append(name)

    def drop(self, name: str) -> None:
        """One less, if it is there."""
        at = self._at.pop(name, None)
        if at is not None:
            last = self.names.pop()
            if last != name:
                self.names[at], self._at[last] = last, at

    def __contains__(self, name: str) -> bool:
        return name in self._at

    def draw(self, rng: random.Random) -> str | None:
        """Any of them, which stays; None if there is none."""
        return rng.choice(self.names) if self.names else None


def mix(values: Any, root: str, rng: random.Random) -> Work:
    """Streams that open, read, write and name files in the numbers given. Raises UsageError for what cannot be done."""
    maker = _Maker(values, root, rng)
    streams = [_Stream(maker, number).actions() for number in range(maker.streams)]
    return Work(maker.folders, maker.files, streams)


class _Maker:
    """What all streams of a mix share: the files, the sessions with their requests, the shares."""

    def __init__(self, values: Any, root: str, rng: random.Random) -> None:
        self.values, self.root, self.rng = values, root, rng
        self.streams: int = values["streams"]
        self._check()
        sizes = _each(values.get("files", ()))
        sizes = self._shuffled(sizes, self.number("opens"))
        self.folders, paths = tree(root, self.number("folders") or 1, self.number("levels") or 1, len(sizes))
        self.files = dict(zip(paths, sizes, strict=True))
        self.shared = len(paths) < self.streams
        """Streams use the same files: nobody may take one away."""
        self.sequential = {
            "read": Share(values.get("sequential_reads", 100)), "write": Share(values.get("sequential_writes", 100)),
        }  # fmt: skip
        self.onward = Share(values.get("onward", 100))
        self.sessions = self._make_sessions(paths)
        self.reach: dict[str, int] = {}
        """How far the files that must be there are written."""
        self.may_grow_bytes = sum(sizes) * MAY_GROW // 100
        self._deal()
        if (self.number("at_once") or 1) > 1:
            self.sessions = [_longest_first(own) for own in self.sessions]
        every = [session for own in self.sessions for session in own]
        reading = sum(session.reads() for session in every)
        writing = sum(session.writes() for session in every)
        writes = sum(kind == "write" for session in every for kind, _ in session.todo)
        self.ends = _Spread(self.number("ends"), reading)
        self.truncates = _Spread(self.number("truncates"), writing)
        self.flushes = _Spread(self.number("flushes"), writes)

    def number(self, name: str) -> int:
        """One of the counts; 0 where it is left out."""
        return int(self.values.get(name, 0))

    def _check(self) -> None:
        rows = {name: self.values.get(name, ()) for name in ("files", "makes", "reads", "writes")}
        counts = {name: sum(count for _, count in found) for name, found in rows.items()}
        names = ("opens", "ends", "flushes", "truncates", *_BETWEEN)
        total = sum(counts.values()) + sum(self.number(name) for name in names)
        if total > MOST_ACTIONS:
            raise UsageError(f"{self.root}: mix: {total:,} operations, at most {MOST_ACTIONS:,}; use a smaller --scale")
        if self.streams > MOST_STREAMS:
            raise UsageError(f"{self.root}: mix: {self.streams} streams, at most {MOST_STREAMS}")
        if (counts["reads"] or counts["writes"] or self.number("opens")) and not (counts["files"] or counts["makes"]):
            raise UsageError(f"{self.root}: mix: opens, reads and writes need `files`, `makes` or both")

    def _shuffled(self, sizes: list[int], opened: int) -> list[int]:
        """The sizes in an order in which the first ones, which are opened, hold about as much as is read; the largest
        first where no others hold enough."""
        reads: Rows = self.values.get("reads", ())
        read_bytes = _sum(reads)
        self.rng.shuffle(sizes)
        if not 0 < opened < len(sizes) or not reads:
            return sizes
        largest, most = max(reads)

        def unfit(one: list[int]) -> int:
            """Bytes that are too few or too many, and room for too few or too many of the largest requests."""
            room = sum(size // largest for size in one[:opened])
            return abs(sum(one[:opened]) - read_bytes) + largest * abs(room - most)

        best = min((self.rng.sample(sizes, len(sizes)) for _ in range(SHUFFLES)), key=unfit)
        return sorted(sizes, reverse=True) if sum(best[:opened]) < 0.9 * read_bytes else best

    def _make_sessions(self, paths: list[str]) -> list[list[_Session]]:
        """Those of each stream, in order: files opened and files made take turns."""
        sizes = _each(self.values.get("makes", ()))
        opens = self.number("opens")
        sizes = self._shuffled(sizes, 0 if paths else opens)
        if not opens and not sizes and (self.values.get("reads") or self.values.get("writes")):
            opens = max(len(paths), self.streams)
        made = [_Session("", size, made=True) for size in sizes]
        found: list[list[tuple[float, _Session]]] = [[] for _ in range(self.streams)]
        places = [(at + 0.5) / len(made) for at in range(len(made))]
        for at, session in enumerate(made):
            found[at % self.streams].append((places[at], session))
        idle = min(self.number("idle"), opens)
        for at in range(opens):
            place = (at + 0.5) / opens
            if paths:
                file = at % len(paths)
                stream = (at if self.shared else file) % self.streams
                session = _Session(paths[file], self.files[paths[file]])
            else:
                file = at % len(made)
                stream, place = file % self.streams, max(place, places[file] + 1e-9)
                session = _Session("", made[file].size_bytes, of=made[file])
            session.idle = (at + 1) * idle // opens > at * idle // opens
            found[stream].append((place, session))
        return [[session for _, session in sorted(own, key=lambda pair: pair[0])] for own in found]

    def _deal(self) -> None:
        """Gives each request to a session, and a place in its file."""
        every = [session for own in self.sessions for session in own]
        every = [session for session in every if not session.idle] or every
        made, opened = [s for s in every if s.made], [s for s in every if not s.made]
        reads, writes = (sorted(self.values.get(name, ()), reverse=True) for name in ("reads", "writes"))
        left = _fill(made, writes, "write", 1.0)
        most_new = sum(session.size_bytes for session in made) >= _sum(writes) / 2
        self._spread(made if made and (most_new or not opened) else opened, left, "write")
        if opened:
            for session in made:
                self._place(session)
        for session in opened:
            session.size_bytes = session.of.size_bytes if session.of else session.size_bytes
        left = [list(row) for row in reads]
        if opened and self.sequential["read"].share >= IN_ORDER:
            room = max(sum(session.size_bytes for session in opened), 1)
            left = _fill(opened, reads, "read", min(1.0, _sum(reads) / room))
            if abs(_sum(reads) / room - 1) < WHOLE:
                self._fit(opened)
        self._spread(opened or made, left, "read")
        for session in opened or made:
            self._place(session)

    def _fit(self, opened: list[_Session]) -> None:
        """Files that are read once, and whole, are as long as what is read of them."""
        times = Counter(session.path for session in opened)
        for session in opened:
            size = sum(length for _, length in session.todo)
            near = session.size_bytes / 2 < size < session.size_bytes * 2
            if times[session.path] == 1 and session.path in self.files and near:
                session.size_bytes = self.files[session.path] = size

    def _spread(self, sessions: list[_Session], rows: Iterable[Sequence[int]], kind: str) -> None:
        """Deals what is left out evenly. New files become longer by what is written to them."""
        left = [size for size, count in rows for _ in range(count)]
        self.rng.shuffle(left)
        new = kind == "read" and any(session.of or session.made for session in sessions)
        if new:  # what is not there cannot be read: large requests go where most is left
            left.sort(reverse=True)
        most_left = sorted(sessions, key=lambda one: sum(size for _, size in one.todo) - one.size_bytes)
        empty_first = most_left if new else sorted(sessions, key=lambda one: bool(one.todo))
        for at, length in enumerate(left):
            session = empty_first[at % len(sessions)]
            session.todo.append((kind, length))
            if session.made and kind == "write":
                session.size_bytes += length

    def _place(self, session: _Session) -> None:
        """Decides where in the file each request is. What is not there in a new file is not read."""
        todo = session.todo
        if len({kind for kind, _ in todo}) > 1:
            self.rng.shuffle(todo)
            if session.made:
                todo.sort(key=lambda one: one[0], reverse=True)  # writes first: then there is something to read
        if session.made and self.sequential["write"].share >= IN_ORDER:
            session.size_bytes = sum(length for kind, length in todo if kind == "write")
        at, extent = -1, 0 if session.made else session.size_bytes
        for kind, wanted in todo:
            length = wanted
            new = session.made or session.of is not None
            limit = extent if new and kind == "read" else session.size_bytes
            if new and kind == "read":
                length = min(length, limit - at if 0 < at < limit else limit)
            if length:
                if kind == "read" and self.files.get(session.path, length) < length:
                    limit = session.size_bytes = self.files[session.path] = length
                start = self._start(session, kind, length, limit, at)
                session.placed.append((kind, start, length, start == at))
                at = start + length
                extent = max(extent, at)
                if kind == "write" and session.path in self.files:
                    self.reach[session.path] = max(self.reach.get(session.path, 0), at)
        if session.made:
            session.size_bytes = extent

    def _start(self, session: _Session, kind: str, length: int, limit: int, at: int) -> int:
        """Where the next request is. A file that must be there becomes a little longer if the share asks for it."""
        share = self.sequential[kind]
        if at < 0:
            return 0 if session.made or share.share >= IN_ORDER else self._anywhere(kind, limit, length, -1)
        start = at
        if not share.wanted() or (at + length > limit and not self._grow(session, at + length)):
            start = self._anywhere(kind, limit, length, at)
        share.count(start == at)
        return start

    def _grow(self, session: _Session, size_bytes: int) -> bool:
        """Makes a file that must be there so long, if all together do not become much longer by that."""
        more = size_bytes - self.files.get(session.path, size_bytes)
        if session.path not in self.files or more > self.may_grow_bytes:
            return False
        self.may_grow_bytes -= max(more, 0)
        self.files[session.path] = max(self.files[session.path], size_bytes)
        session.size_bytes = self.files[session.path]
        return True

    def _anywhere(self, kind: str, limit: int, length: int, avoid: int) -> int:
        """A place in the file at a multiple of the length, with room for a run of requests; not at `avoid` if there is
        another."""
        run = min(1 / (1 - min(self.sequential[kind].share, 1 - 1 / LONGEST_RUN)), max(limit // length, 1))
        slots = max((limit - int(length * run)) // length + 1, 1)
        slot = self.rng.randrange(slots)
        if slot * length == avoid:
            slot = (slot + 1) % max(slots, limit // length)
        return slot * length


class _Stream:
    """One stream of a mix: its sessions, up to `at_once` open at a time, and what it does between the requests."""

    def __init__(self, maker: _Maker, number: int) -> None:
        self.m, self.number, self.rng = maker, number, maker.rng
        self.queue = deque(maker.sessions[number])
        self.out: list[Action] = []
        mine = [path for at, path in enumerate(maker.files) if maker.shared or at % maker.streams == number]
        self.there = _Pool(mine)
        self.uses = Counter(id(s.of) if s.of else s.path for s in self.queue if not s.made)
        self.free = _Pool() if maker.shared else _Pool(path for path in mine if not self.uses[path])
        self.folders = _Pool(maker.folders[1:])
        self.new_folders = _Pool()
        self.inside = Counter(path.rpartition("/")[0] for path in [*maker.files, *maker.folders])
        self.able = maker.folders[1:] if maker.streams == 1 else []
        self.named = 0
        between = [kind for name, kind in _BETWEEN.items() for _ in range(self._part(maker.number(name)))]
        self.rng.shuffle(between)
        self.between = iter(between)
        self.late: list[str] = []
        self.pace = _Spread(len(between), sum(1 + len(session.todo) for session in self.queue))
        self.active: list[_Session] = []
        self.last: _Session | None = None

    def _part(self, total: int) -> int:
        """This stream's of a number that all share."""
        return total * (self.number + 1) // self.m.streams - total * self.number // self.m.streams

    def actions(self) -> list[Action]:
        """All it does, in order."""
        while self.queue or self.active:
            self._open()
            if self.active:
                session = self._next()
                self._request(session)
                if not session.placed:
                    self._close(session)
        self.late += self.between
        while sum(self._do(kind) for kind in self._take_late()):
            pass
        return self.out

    def _take_late(self) -> list[str]:
        late, self.late = self.late, []
        return late

    def _step(self) -> None:
        """One request or open is done: whatever is due between comes now, or later if it cannot be."""
        for _ in self.pace.due():
            kind = next(self.between, None)
            if kind is not None:
                self._do(kind)

    def _open(self) -> None:
        at_once = self.m.number("at_once") or 1
        while self.queue and len(self.active) < at_once:
            session = self.queue[0]
            session.path = self._new_path() if session.made else session.of.path if session.of else session.path
            if any(session.path == other.path for other in self.active):
                return
            self.queue.popleft()
            if session.made:
                self.out.append(Action("create", session.path, path_to=WRITE_FLAGS if session.reads() else ""))
                self.there.add(session.path)
                self.inside[session.path.rpartition("/")[0]] += 1
            else:
                flags = WRITE_FLAGS if session.writes() else READ_FLAGS
                self.out.append(Action("open", session.path, path_to=flags))
            self._step()
            if session.placed:
                self.active.append(session)
            else:
                self._close(session)

    def _next(self) -> _Session:
        """Whose request comes now: the last one's while it goes on and that is wanted, else the next one's."""
        last, active = self.last, self.active
        if last is None or last not in active:
            return active[0]
        goes_on = last.placed[0][3]
        if len(active) == 1 or (goes_on and self.m.onward.wanted()):
            return last
        return active[(active.index(last) + 1) % len(active)]

    def _request(self, session: _Session) -> None:
        kind, offset, length, goes_on = session.placed.popleft()
        if self.last is not None:
            self.m.onward.count(goes_on and session is self.last)
        self.last = session
        self.out.append(Action(kind, session.path, offset, length))
        if kind == "write":
            self.out += [Action("flush", session.path) for _ in self.m.flushes.due()]
        self._step()

    def _close(self, session: _Session) -> None:
        path = session.path
        size = max(self.m.files.get(path, session.size_bytes), self.m.reach.get(path, 0))
        if session.reads():
            self.out += [Action("end", path, size, session.todo[0][1]) for _ in self.m.ends.due()]
        if session.writes():
            self.out += [Action("truncate", path, len_bytes=size) for _ in self.m.truncates.due()]
        self.out.append(Action("close", path))
        if session in self.active:
            self.active.remove(session)
        key = id(session) if session.made else id(session.of) if session.of else path
        self.uses[key] -= not session.made
        if not self.uses[key] and (session.made or session.of or not self.m.shared):
            self.free.add(path)

    # Between the requests

    def _do(self, kind: str) -> bool:
        """Does one of the operations between; if it cannot be done now, it waits. Whether it was done."""
        action = self._action(kind)
        if action is None:
            self.late.append(kind)
            return False
        self.out.append(action)
        return True

    def _action(self, kind: str) -> Action | None:
        if kind in ("mkdir", "rmdir"):
            return self._mkdir() if kind == "mkdir" else self._rmdir()
        if kind in ("remove", "rename"):
            return self._take_away(kind)
        if kind in ("stat", "readdir"):
            names = self.there if kind == "stat" else self.folders
            return Action(kind, names.draw(self.rng) or self.m.root)
        return Action(kind, self._name(f"{self.m.root}/missing"))

    def _take_away(self, kind: str) -> Action | None:
        """Removes or renames a file that nobody needs any more."""
        path = self.free.draw(self.rng)
        if path is None:
            return None
        self.free.drop(path)
        self.there.drop(path)
        if kind == "remove":
            self.inside[path.rpartition("/")[0]] -= 1
            return Action(kind, path)
        renamed = self._name(f"{path.rpartition('/')[0]}/renamed")
        self.free.add(renamed)
        self.there.add(renamed)
        return Action(kind, path, path_to=renamed)

    def _mkdir(self) -> Action:
        """The first ones lead down to the deepest level; the others lie beside them."""
        made = self.new_folders.names
        deep = len(made) < (self.m.number("levels") or 1)
        path = self._name(f"{made[-1] if made and deep else self.m.root}/new")
        self.new_folders.add(path)
        self.folders.add(path)
        self.able.append(path)
        self.inside[path.rpartition("/")[0]] += 1
        return Action("mkdir", path)

    def _rmdir(self) -> Action | None:
        """The newest that is empty; prepared ones only where no other stream can have files in them."""
        while self.able and self.able[-1] not in self.folders:
            self.able.pop()
        path = next((one for one in reversed(self.able) if one in self.folders and not self.inside[one]), None)
        if path is None:
            return None
        self.folders.drop(path)
        self.new_folders.drop(path)
        self.inside[path.rpartition("/")[0]] -= 1
        return Action("rmdir", path)

    def _new_path(self) -> str:
        folder = self.new_folders.names[-1] if self.new_folders.names else self.folders.draw(self.rng)
        return self._name(f"{folder or self.m.root}/made")

    def _name(self, start: str) -> str:
        self.named += 1
        return f"{start}{self.number + 1}-{self.named:05}"


def _longest_first(sessions: list[_Session]) -> list[_Session]:
    """Files opened and files made in turns, those with most requests first: else the longest would be left alone."""
    place: dict[int, float] = {}
    for made in (True, False):
        own = sorted((one for one in sessions if one.made == made), key=lambda one: -len(one.placed))
        for at, session in enumerate(own):
            after = place[id(session.of)] + 1e-9 if session.of else 0.0
            place[id(session)] = max(at / len(own), after)
    return sorted(sessions, key=lambda one: place[id(one)])


def _each(rows: Rows) -> list[int]:
    return [size for size, count in rows for _ in range(count)]


def _sum(rows: Rows) -> int:
    return sum(size * count for size, count in rows)


def _fill(sessions: list[_Session], rows: Rows, kind: str, share: float) -> list[list[int]]:
    """Fills each session's file up to a share of its size: large requests first, and one for the rest; what is left.

    rows: the largest requests first. Large files come first, and each session gets a request while there are any. Of
    the requests for the rest, the largest goes to the largest rest, and so on.
    """
    left = [list(row) for row in rows]
    if not left:
        return left
    requests = sum(count for _, count in left)
    waiting = sorted((one for one in sessions if one.size_bytes), key=lambda one: -one.size_bytes)
    rests: list[tuple[int, _Session]] = []
    for number, session in enumerate(waiting, 1):
        room = round(session.size_bytes * share)
        able = requests - (len(waiting) - number)
        given = 0
        for row in left:
            count = max(min(row[1], room // row[0], able - given), 0)
            if row[0] < rows[0][0] and count == 1 and room - row[0] < row[0]:
                break  # no more than a rest
            session.todo += [(kind, row[0])] * count
            row[1] -= count
            room -= count * row[0]
            given += count
            if count and row[1]:
                break  # the rest is less than one of these
        if room >= rows[-1][0] or not given:
            rests.append((room, session))
        requests -= given
    _fill_rests(rests, left, kind)
    return left


def _fill_rests(rests: list[tuple[int, _Session]], left: list[list[int]], kind: str) -> None:
    """One request for each rest, the largest for the largest; those that have none yet come first."""
    requests = [row for row in left for _ in range(row[1])]
    empty_first = sorted(rests, key=lambda one: (bool(one[1].todo), -one[0]))[: len(requests)]
    for at, (_, session) in enumerate(sorted(empty_first, key=lambda one: -one[0])):
        row = requests[at * len(requests) // len(empty_first)]
        session.todo.append((kind, row[0]))
        row[1] -= 1
