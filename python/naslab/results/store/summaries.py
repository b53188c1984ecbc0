"""What lists and rankings read of an ended run, kept beside it: one short row, its tests, each number it measured.

A run's summary is made where the run ends or is saved, and by `fill` for stores that were written before there were
any. Whatever changes the run afterwards takes the summary away (triggers of the layout): none is ever out of date.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Any

from naslab.results.cell_names import op_words
from naslab.results.measurements import Key, Side

VERSION = 2
"""Of what is summarised and how; raised when that changes, so that `missing` names the older ones."""
WORDS_LIMIT = 4000
NAMING_LABELS = ("device", "system", "name")
"""Labels (`--label device=...`) that say what was measured."""


def missing(db: sqlite3.Connection) -> list[int]:
    """Sequence numbers of the runs without a summary of this version, running ones included."""
    rows = db.execute(
        """SELECT runs.seq FROM runs LEFT JOIN summaries ON summaries.seq = runs.seq
           WHERE summaries.version IS NOT ? ORDER BY runs.seq""",
        (VERSION,),
    )
    return [row[0] for row in rows]


def summarise(db: sqlite3.Connection, seq: int, status: str) -> None:
    """Makes the run's summary, within the caller's transaction. status: of the run as it reads now, not `running`.

    A run whose documents are damaged gets one without numbers, so that it is listed and not read again and again.
    """
    row = db.execute("SELECT run_id, start_wall_ns, document FROM runs WHERE seq = ?", (seq,)).fetchone()
    document, values = _read(db, *row)
    tests = sorted({test_of(key) for key in values})
    rates = [value for key, found in values.items() if key.measure == "throughput" for value in found.values()]
    target = document["target"] if isinstance(document.get("target"), Mapping) else {}
    db.execute("DELETE FROM summaries WHERE seq = ?", (seq,))
    count = db.execute("SELECT count(*) FROM cells WHERE run_id = ?", (row[0],)).fetchone()[0]
    db.execute(
        "INSERT INTO summaries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            seq, VERSION, row[0], row[1], status, str(document.get("command") or ""), device_of(document),
            document.get("label"), str(target.get("url") or ""), str(target.get("protocol") or ""),
            origin_of(document), count, max(rates, default=None), _words(row[0], document, tests),
        ),
    )  # fmt: skip
    db.executemany("INSERT INTO summary_tests VALUES (?, ?)", [(test, seq) for test in tests])
    _points(db, seq, values)


def _read(
    db: sqlite3.Connection, run_id: str, start_wall_ns: int, text: str
) -> tuple[dict[str, Any], Mapping[Key, Mapping[tuple[int, int], float]]]:
    """The document and its numbers; what cannot be read is left out."""
    try:
        document: dict[str, Any] = dict(json.loads(text))
    except (ValueError, TypeError):
        return {"run_id": run_id, "start_wall_ns": start_wall_ns}, {}
    try:
        rows = db.execute("SELECT document FROM cells WHERE run_id = ? ORDER BY seq", (run_id,))
        return document, Side.of([{**document, "cells": [json.loads(row[0]) for row in rows]}]).values
    except (ValueError, TypeError, KeyError, AttributeError):
        return document, {}


def _points(db: sqlite3.Connection, seq: int, values: Mapping[Key, Mapping[tuple[int, int], float]]) -> None:
    texts = {key: key_text(key) for key in values}
    db.executemany(
        "INSERT OR IGNORE INTO measurements (key, test, measure) VALUES (?, ?, ?)",
        [(text, test_of(key), key.measure) for key, text in texts.items()],
    )
    rows = []
    for key, by_block in values.items():
        found = db.execute("SELECT id FROM measurements WHERE key = ?", (texts[key],)).fetchone()[0]
        rows += [(seq, found, block, value) for (_, block), value in by_block.items()]
    db.executemany("INSERT OR REPLACE INTO points VALUES (?, ?, ?, ?)", rows)


def key_text(key: Key) -> str:
    """The key as JSON, for the store."""
    return json.dumps([key.asked, key.conditions, key.occurrence, key.measure], separators=(",", ":"))


def key_of(text: str) -> Key:
    """The key of `key_text`."""
    asked, conditions, occurrence, measure = json.loads(text)
    return Key(tuple(asked), tuple(conditions), occurrence, measure)


def test_of(key: Key) -> str:
    """The application's name, else the operation's."""
    fields = key.fields()
    return str(fields.get("workload") or fields["op"])


def device_of(document: Mapping[str, Any]) -> str:
    """What was measured, as it is called: by a label that names it, by its source, by its target."""
    labels = document.get("labels")
    for name in NAMING_LABELS:
        if isinstance(labels, Mapping) and labels.get(name):
            return str(labels[name])
    source = document.get("source")
    if isinstance(source, Mapping) and source.get("title"):
        return str(document.get("label") or source["title"])
    target = document.get("target")
    target = target if isinstance(target, Mapping) else {}
    return str(target.get("url") or document.get("label") or target.get("protocol") or "unnamed")


def origin_of(document: Mapping[str, Any]) -> str:
    """`own`, `imported` or `published`."""
    source = document.get("source")
    return str(source.get("kind") or "imported") if isinstance(source, Mapping) else "own"


def _words(run_id: str, document: Mapping[str, Any], tests: list[str]) -> str:
    """Everything of the run that a search may name, in lower case. Commands are in it; passwords are in no document."""
    target, labels = (one if isinstance(one := document.get(name), Mapping) else {} for name in ("target", "labels"))
    found = [
        run_id, document.get("command"), document.get("label"), document.get("note"), document.get("started_at"),
        *target.values(), *(f"{name}={value}" for name, value in labels.items()),
        *tests, *(op_words(test) for test in tests), device_of(document), origin_of(document),
    ]  # fmt: skip
    return " ".join(str(one) for one in found if isinstance(one, str | int)).lower()[:WORDS_LIMIT]
