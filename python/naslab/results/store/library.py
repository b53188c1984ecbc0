"""`Library`: the store as lists and rankings read it, thousands of runs at a time, without reading their documents.

Every method asks a fixed number of queries, however many runs there are, and returns at most a page of rows.
"""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from naslab.results.document import iso_utc
from naslab.results.measurements import Key
from naslab.results.store import summaries
from naslab.results.store.store import Store, status_now

FILL_AT_ONCE = 100
"""Runs in one transaction while summaries are filled: another process that measures waits no longer than for these."""


@dataclass(frozen=True)
class Listed:
    """One run in a list. best_bytes_per_s: its highest throughput, None without one."""

    seq: int
    run_id: str
    start_wall_ns: int
    status: str
    command: str
    device: str
    label: str | None
    target: str
    protocol: str
    origin: str
    cells: int
    best_bytes_per_s: float | None

    @property
    def started_at(self) -> str:
        """ISO 8601, UTC."""
        return iso_utc(self.start_wall_ns)

    @property
    def other_name(self) -> str:
        """The label without what names the device already; empty where nothing is left."""
        named = (self.device, *(f"{name}={self.device}" for name in summaries.NAMING_LABELS))
        return ", ".join(part for part in (self.label or "").split(", ") if part and part not in named)


@dataclass(frozen=True)
class OfTarget:
    """A target, and its newest runs. first_seq: of its oldest run. last: the newest that ended, whatever came of it;
    last_wall_ns: its end, or its beginning where its process left it. run_id: the newest that did not fail, empty
    without one.
    """

    target: str
    first_seq: int
    last_run_id: str
    last_command: str
    last_status: str
    last_wall_ns: int
    run_id: str


_LISTED = (
    "seq, run_id, start_wall_ns, status, command, device, label, target, protocol, origin, cells, best_bytes_per_s"
)
FACETS = ("device", "command", "protocol", "origin")
"""What a list is narrowed by, beside the words and the test."""


@dataclass(frozen=True)
class Wanted:
    """Which runs: all words of `text` anywhere in what is known of a run, the others exactly; empty takes all."""

    text: str = ""
    device: str = ""
    command: str = ""
    protocol: str = ""
    origin: str = ""
    test: str = ""

    def where(self) -> tuple[str, list[Any]]:
        """The condition in SQL and its values."""
        parts, values = ["1"], list[Any]()
        for word in self.text.lower().split():
            parts.append("instr(words, ?)")
            values.append(word)
        for name in FACETS:
            if chosen := getattr(self, name):
                parts.append(f"{name} = ?")
                values.append(chosen)
        if self.test:
            parts.append("seq IN (SELECT seq FROM summary_tests WHERE test = ?)")
            values.append(self.test)
        return " AND ".join(parts), values


@dataclass(frozen=True)
class Device:
    """What was measured, by name. newest: the run of it that started last."""

    name: str
    runs: int
    newest: str


class Library:
    """Reads a store; only `fill` writes."""

    def __init__(self, store: Store) -> None:
        """store: of any layout; one without summaries is read after `fill`."""
        self.store = store

    def fill(self, told: Callable[[int, int], None] | None = None) -> int:
        """Makes the summaries that are missing, of all runs but those being measured; how many were made.

        told: called with (made, of how many) after each batch. Raises StoreError where the store cannot be written
        and a summary is missing.
        """
        left = self.store.read_with(lambda db: _unsummarised(db) if _has_summaries(db) else None)
        if left is None:
            with self.store.write():
                pass  # the layout is brought up to date
            left = self.store.read_with(_unsummarised) or []
        made = 0
        for at in range(0, len(left), FILL_AT_ONCE):
            with self.store.write() as db:
                for seq in left[at : at + FILL_AT_ONCE]:
                    found = db.execute("SELECT status, owner FROM runs WHERE seq = ?", (seq,)).fetchone()
                    if found is not None and (status := status_now(*found)) != "running":
                        summaries.summarise(db, seq, status)
                        made += 1
            if told is not None:
                told(made, len(left))
        return made

    def page(self, wanted: Wanted, offset: int, limit: int) -> tuple[list[Listed], int]:
        """(runs of one page, newest first; how many there are in all). limit: -1 for every one."""
        where, values = wanted.where()
        total = self.store.rows(f"SELECT count(*) FROM summaries WHERE {where}", tuple(values))[0][0]
        rows = self.store.rows(
            f"SELECT {_LISTED} FROM summaries WHERE {where} ORDER BY start_wall_ns DESC, seq DESC LIMIT ? OFFSET ?",
            (*values, limit, offset),
        )
        return [Listed(*row) for row in rows], int(total)

    def tests_of(self, seqs: Sequence[int]) -> dict[int, list[str]]:
        """Names of the tests of each of these runs that has any."""
        found: dict[int, list[str]] = {}
        sql = f"SELECT seq, test FROM summary_tests WHERE seq IN ({_marks(seqs)}) ORDER BY seq, test"
        for seq, test in self.store.rows(sql, tuple(seqs)):
            found.setdefault(seq, []).append(test)
        return found

    def facets(self, limit: int = 200) -> Mapping[str, list[tuple[str, int]]]:
        """For each of `FACETS` and `test`: (value, number of runs), the most frequent first, at most `limit`."""
        found = {}
        for name in FACETS:
            found[name] = self.store.rows(
                f"SELECT {name}, count(*) FROM summaries GROUP BY {name} ORDER BY count(*) DESC, {name} LIMIT ?",
                (limit,),
            )
        found["test"] = self.store.rows(
            "SELECT test, count(*) FROM summary_tests GROUP BY test ORDER BY count(*) DESC, test LIMIT ?", (limit,)
        )
        return {name: [(str(value), int(count)) for value, count in rows] for name, rows in found.items()}

    def devices(self, test: str = "", limit: int = 200) -> list[Device]:
        """Devices (with a run of this test), the one measured last first. newest: with that test, too."""
        where = "WHERE seq IN (SELECT seq FROM summary_tests WHERE test = ?1)" if test else "WHERE ?1 = ''"
        rows = self.store.rows(
            f"""SELECT device, count(*), run_id, max(start_wall_ns) FROM summaries {where}
                GROUP BY device ORDER BY max(start_wall_ns) DESC LIMIT ?2""",
            (test, limit),
        )
        return [Device(row[0], row[1], row[2]) for row in rows]

    def newest(self, devices: Sequence[str], test: str = "") -> dict[str, str]:
        """{device: id of its run (with this test) that started last}; a device without one is left out."""
        if not devices:
            return {}
        where = "AND seq IN (SELECT seq FROM summary_tests WHERE test = ?)" if test else ""
        rows = self.store.rows(
            f"""SELECT device, run_id, max(start_wall_ns) FROM summaries
                WHERE device IN ({_marks(devices)}) {where} GROUP BY device""",
            (*devices, *([test] if test else [])),
        )
        return {row[0]: row[1] for row in rows}

    def newest_of_targets(self) -> list[OfTarget]:
        """Every target that has a run that ended, and the newest of these. Published results are none."""
        found: dict[str, OfTarget] = {}
        for row in self._newest("1"):
            target, first, run_id, command, status, owner, wall_ns = row
            if (now := status_now(status, owner)) != "running" and target not in found:
                found[target] = OfTarget(target, first, run_id, command, now, wall_ns, "")
        for target, _, run_id, _, status, owner, _ in self._newest("status != 'failed'"):
            if target in found and not found[target].run_id and status_now(status, owner) != "running":
                found[target] = dataclasses.replace(found[target], run_id=run_id)
        return list(found.values())

    def _newest(self, where: str, most: int = 16) -> list[Any]:
        """The newest runs of each target, newest first. most: of one target; more than run at once."""
        return self.store.rows(
            f"""SELECT target, first, run_id, command, status, owner, wall_ns FROM (
                  SELECT target, run_id, command, status, owner, start_wall_ns, seq,
                         min(seq) OVER (PARTITION BY target) AS first,
                         coalesce(json_extract(document, '$.end_wall_ns'), start_wall_ns) AS wall_ns,
                         row_number() OVER (PARTITION BY target ORDER BY start_wall_ns DESC, seq DESC) AS at
                  FROM runs WHERE target != '' AND {where})
                WHERE at <= ? ORDER BY start_wall_ns DESC, seq DESC""",
            (most,),
        )

    def tests_of_devices(self, devices: Sequence[str]) -> list[str]:
        """Tests of the runs of these devices, those that most of the devices have first, then by their runs."""
        if not devices:
            return []
        rows = self.store.rows(
            f"""SELECT test FROM summary_tests JOIN summaries USING (seq) WHERE device IN ({_marks(devices)})
                GROUP BY test ORDER BY count(DISTINCT device) DESC, count(*) DESC, test""",
            tuple(devices),
        )
        return [str(row[0]) for row in rows]

    def runs_of(self, devices: Sequence[str], tests: Sequence[str], most: int) -> dict[str, list[int]]:
        """Sequence numbers of each device's runs that have one of the tests, newest first, at most `most` each."""
        if not devices or not tests:
            return {}
        rows = self.store.rows(
            f"""SELECT device, seq FROM (
                  SELECT device, seq,
                         row_number() OVER (PARTITION BY device ORDER BY start_wall_ns DESC, seq DESC) AS at
                  FROM summaries WHERE device IN ({_marks(devices)}) AND status != 'failed'
                    AND seq IN (SELECT seq FROM summary_tests WHERE test IN ({_marks(tests)})))
                WHERE at <= ? ORDER BY device, at""",
            (*devices, *tests, most),
        )
        found: dict[str, list[int]] = {device: [] for device in devices}
        for device, seq in rows:
            found[device].append(seq)
        return found

    def points(self, seqs: Sequence[int], tests: Sequence[str], measures: Sequence[str]) -> list[Point]:
        """What these runs measured of these tests."""
        if not seqs or not tests or not measures:
            return []
        rows = self.store.rows(
            f"""SELECT points.seq, measurements.key, points.block, points.value, measurements.test
                FROM points JOIN measurements ON measurements.id = points.measurement
                WHERE points.seq IN ({_marks(seqs)}) AND measurements.test IN ({_marks(tests)})
                  AND measurements.measure IN ({_marks(measures)})""",
            (*seqs, *tests, *measures),
        )
        keys = {text: summaries.key_of(text) for text in {row[1] for row in rows}}
        return [Point(row[0], row[4], keys[row[1]], row[2], row[3]) for row in rows]

    def answered_by_client(self, runs: Mapping[str, Sequence[int]], test: str) -> set[str]:
        """The devices of which a run has a cell of this test that the client's cache answered. runs: by device."""
        device_of = {seq: device for device, seqs in runs.items() for seq in seqs}
        if not device_of:
            return set()
        rows = self.store.rows(
            f"""SELECT DISTINCT runs.seq FROM runs JOIN cells USING (run_id)
                WHERE runs.seq IN ({_marks(tuple(device_of))}) AND instr(cells.document, '"client_cache"')
                  AND json_extract(cells.document, '$.regime') = 'client_cache'
                  AND coalesce(json_extract(cells.document, '$.workload'), json_extract(cells.document, '$.op')) = ?""",
            (*device_of, test),
        )
        return {device_of[row[0]] for row in rows}

    def unlisted(self, limit: int = 20) -> list[Listed]:
        """Runs without a summary, newest first: those being measured, and those whose process ended before they did."""
        rows = self.store.rows(
            """SELECT runs.seq, runs.run_id, runs.start_wall_ns, runs.status, runs.owner, runs.command, runs.label,
                      runs.target, runs.document, (SELECT count(*) FROM cells WHERE cells.run_id = runs.run_id)
               FROM runs LEFT JOIN summaries ON summaries.seq = runs.seq
               WHERE summaries.seq IS NULL ORDER BY runs.start_wall_ns DESC, runs.seq DESC LIMIT ?""",
            (limit,),
        )
        return [_unlisted(row) for row in rows]

    def stamp(self) -> int:
        """A number that changes whenever another process changed the store; for one Library only."""
        return int(self.store.rows("PRAGMA data_version")[0][0])


@dataclass(frozen=True)
class Point:
    """One number of one repeat of a run."""

    seq: int
    test: str
    key: Key
    block: int
    value: float


def _unlisted(row: Sequence[Any]) -> Listed:
    document = json.loads(row[8])
    return Listed(
        row[0], row[1], row[2], status_now(row[3], row[4]), row[5], summaries.device_of(document), row[6], row[7],
        str((document.get("target") or {}).get("protocol") or ""), summaries.origin_of(document), row[9], None,
    )  # fmt: skip


def _has_summaries(db: sqlite3.Connection) -> bool:
    return bool(db.execute("SELECT 1 FROM sqlite_master WHERE name = 'summaries'").fetchone())


def _unsummarised(db: sqlite3.Connection) -> list[int]:
    """Those that can be summarised: the ones being measured are left out."""
    seqs = summaries.missing(db)
    if not seqs:
        return []
    live = {
        row[0]
        for row in db.execute("SELECT seq, status, owner FROM runs WHERE status = 'running'")
        if status_now(row[1], row[2]) == "running"
    }
    return [seq for seq in seqs if seq not in live]


def _marks(values: Iterable[Any]) -> str:
    return ", ".join("?" for _ in values)
