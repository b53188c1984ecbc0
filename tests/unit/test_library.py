"""The store as lists and rankings read it: summaries that are never out of date, few queries, ranks that are earned."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from fixtures_run import make_parts
from naslab.analysis.ranking import Standing, category, ranks, total
from naslab.render.web import rankpage
from naslab.results import new_document
from naslab.results.store import Store, migrations
from naslab.results.store.library import Library, Wanted


def saved(store: Store, number: int, device: str, speed: float = 1.0, **more: Any) -> str:
    """A small sweep of a device; its id."""
    run_id = f"20261120-184000-a{number:03}"
    options: dict[str, Any] = {
        "ops": ("write", "read"),
        "file_sizes": (1 << 20,),
        "record_sizes": (65536,),
        "blocks": 5,
    }
    document, blobs, _ = make_parts(
        **{**options, **more}, run_id=run_id, seed=number, speed=speed, label=f"device={device}",
        start_wall_ns=1_795_200_000_000_000_000 + number * 10**9,
    )  # fmt: skip
    document["labels"] = {"device": device}
    store.save(document, blobs)
    return run_id


@pytest.fixture
def library(store: Store) -> Library:
    for number in range(12):
        saved(
            store, number, "AB"[number % 2], 1.0 if number % 2 else 0.5, **({"ops": ("mixed",)} if number > 9 else {})
        )
    return Library(store)


class Counted:
    """Counts queries and rows of a store."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.queries = self.rows = 0
        ask = store.rows

        def rows(sql: str, values: tuple[Any, ...] = ()) -> list[Any]:
            found = ask(sql, values)
            self.queries += 1
            self.rows += len(found)
            return found

        monkeypatch.setattr(store, "rows", rows)


# lists


def test_pages_filters_and_search(library: Library) -> None:
    rows, count = library.page(Wanted(), 0, 5)
    assert count == 12 and [row.run_id[-2:] for row in rows] == ["11", "10", "09", "08", "07"]
    assert library.page(Wanted(device="A"), 0, 50)[1] == 6
    assert library.page(Wanted(test="mixed"), 0, 50)[1] == 2
    assert library.page(Wanted(text="NAS.example a003"), 0, 50)[0][0].run_id.endswith("a003")
    assert library.page(Wanted(text="a003 a004"), 0, 50) == ([], 0)
    assert library.page(Wanted(text="' OR 1 --"), 0, 50)[1] == 0
    facets = library.facets()
    assert dict(facets["device"]) == {"A": 6, "B": 6}
    assert dict(facets["test"]) == {"read": 10, "write": 10, "mixed": 2}
    assert [(one.name, one.runs, one.newest[-2:]) for one in library.devices("read")] == [
        ("B", 5, "09"),
        ("A", 5, "08"),
    ]


def test_a_page_asks_few_queries_whatever_the_store_holds(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []
    for extra in (0, 8):
        for number in range(extra):
            saved(library.store, 100 + number, "C")
        with monkeypatch.context() as patch:
            counted = Counted(library.store, patch)
            library.page(Wanted(text="nas"), 0, 5)
            library.devices()
            library.unlisted()
            counts.append((counted.queries, counted.rows))
    assert counts[0][0] == counts[1][0] == 4
    assert counts[1][1] == counts[0][1] + 1, "one more device, not eight more runs"


def test_the_list_is_read_from_indexes(library: Library) -> None:
    with sqlite3.connect(library.store.path) as db:
        plan = db.execute(
            "EXPLAIN QUERY PLAN SELECT run_id FROM summaries ORDER BY start_wall_ns DESC, seq DESC LIMIT 50"
        ).fetchall()
        assert "summaries_by_time" in plan[0][3] and not any("TEMP B-TREE" in step[3] for step in plan)
    db.close()


# summaries


def test_a_change_takes_the_summary_and_its_numbers_away(library: Library) -> None:
    store = library.store
    (row,) = library.page(Wanted(text="a003"), 0, 1)[0]
    store.update_cell(row.run_id, 0, regime="link")
    assert [run.run_id for run in library.unlisted()] == [row.run_id]
    assert library.points([row.seq], ["read", "write"], ["throughput"]) == []
    assert library.fill() == 1
    assert library.unlisted() == []
    store.update_run(row.run_id, label="renamed", labels={"device": "C"})
    assert library.page(Wanted(device="C"), 0, 1)[0][0].label == "renamed"
    store.delete_run(row.run_id)
    assert library.page(Wanted(), 0, 1)[1] == 11
    with sqlite3.connect(store.path) as db:
        assert db.execute("SELECT count(*) FROM points WHERE seq = ?", (row.seq,)).fetchone() == (0,)
    db.close()


def test_a_running_run_has_none_and_gets_one_at_its_end(store: Store) -> None:
    document = new_document("20261120-184000-live", "sweep", {"url": "/srv/x", "protocol": "local"})
    store.create_run(document)
    library = Library(store)
    library.fill()
    assert library.page(Wanted(), 0, 5) == ([], 0)
    assert [(run.run_id[-4:], run.status) for run in library.unlisted()] == [("live", "running")]
    store.finish_run("20261120-184000-live", "partial")
    assert library.page(Wanted(), 0, 5)[0][0].status == "partial" and library.unlisted() == []


def test_a_store_from_before_is_filled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "old.sqlite"
    with monkeypatch.context() as patch:
        patch.setattr("naslab.results.store.database.MIGRATIONS", migrations.MIGRATIONS[:1])
        patch.setattr("naslab.results.store.database.NEWEST", 1)
        patch.setattr("naslab.results.store.store._summarise", lambda db, run_id: None)
        with Store(path) as old:
            run_id = saved(old, 1, "A")
    library = Library(Store(path))
    assert library.fill() == 1
    assert library.page(Wanted(), 0, 5)[0][0].run_id == run_id
    assert Library(Store(path)).fill() == 0


def test_damaged_documents_are_listed_without_numbers(library: Library) -> None:
    with sqlite3.connect(library.store.path) as db:
        db.execute("UPDATE cells SET document = '{' WHERE run_id LIKE '%a003'")
    db.close()
    assert library.fill() == 1
    (row,) = library.page(Wanted(text="a003"), 0, 5)[0]
    assert (row.device, row.best_bytes_per_s, row.cells) == ("B", None, 10)


# ranks


def values(*means: float, repeats: int = 5, spread: float = 0.01) -> dict[str, dict[str, dict[int, float]]]:
    """Devices d0, d1 ... with one measurement each, repeats around the mean."""
    steps = [1 + spread * (at - (repeats - 1) / 2) for at in range(repeats)]
    return {f"d{n}": {"k": {at: mean * step for at, step in enumerate(steps)}} for n, mean in enumerate(means)}


def test_ranks_are_shared_where_intervals_touch() -> None:
    found = category(values(100, 101, 50), higher=True).standings
    assert [(one.name, one.first, one.last) for one in found] == [("d1", 1, 2), ("d0", 1, 2), ("d2", 3, 3)]
    slow = category(values(100, 101, 50), higher=False).standings
    assert [(one.name, one.first, one.last) for one in slow] == [("d2", 1, 1), ("d0", 2, 3), ("d1", 2, 3)]


def test_a_chain_of_touching_intervals_gives_ranges() -> None:
    chain = [Standing(name, value, value - 3, value + 3, 5) for name, value in (("a", 10), ("b", 14), ("c", 18))]
    assert [(one.name, one.first, one.last) for one in ranks(chain, higher=True)] == [
        ("c", 1, 2), ("b", 1, 3), ("a", 2, 3)
    ]  # fmt: skip


def test_too_few_repeats_have_no_rank() -> None:
    given = {**values(100, 50), "few": values(200, repeats=3)["d0"], "one": values(300, repeats=1)["d0"]}
    found = {one.name: one for one in category(given, higher=True).standings}
    assert (found["d0"].first, found["d1"].first) == (1, 2)
    assert (found["few"].first, found["one"].first) == (None, None)
    assert found["few"].low is not None and found["one"].low is None


def test_only_what_all_measured_counts() -> None:
    given = values(100, 50)
    given["d0"]["other"] = dict.fromkeys(range(5), 1e6)
    given["alone"] = {"else": dict.fromkeys(range(5), 1.0)}
    found = category(given, higher=True)
    assert (found.measurements, found.left_out) == (1, ("alone",))
    assert found.standings[0].value == pytest.approx(100, rel=1e-3)


def test_all_categories_together_count_the_same_and_turn_latency_round() -> None:
    rates, delays = category(values(100, 25), higher=True), category(values(4.0, 1.0), higher=False)
    found = total([(rates, True), (delays, False)])
    assert [one.value for one in found] == pytest.approx([1, 1])
    assert [(one.first, one.last) for one in found] == [(1, 2), (1, 2)]
    assert [one.name for one in total([(rates, True)])] == ["d0", "d1"]


def test_rankings_read_the_store(library: Library) -> None:
    of_device = library.runs_of(["A", "B"], ["read", "write"], 2)
    assert {name: len(seqs) for name, seqs in of_device.items()} == {"A": 2, "B": 2}
    read, write = rankpage.ranked(library, of_device, ["read", "write"], "rate")
    assert (read.unit, read.found.standings[0].name, read.found.standings[0].repeats) == ("bytes", "B", 10)
    assert [rankpage.rank_text(one) for one in write.found.standings] == ["1", "2"]
    run = library.store.load(library.page(Wanted(device="B", test="read"), 0, 1)[0][0].run_id)
    rates = [cell["throughput_bytes_per_s"] for cell in run.cells if cell["op"] == "read"]
    low, high = read.found.standings[0].low, read.found.standings[0].high
    assert low is not None and high is not None and low <= sorted(rates)[2] <= high
