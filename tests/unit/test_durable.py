"""Durability: each class of what became of a write is found exactly, whatever the server did to it."""

from __future__ import annotations

import dataclasses
import os
import queue
import random
import sys
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from cli_tools import HANG_S
from durable_fakes import FakeServer, FakeSession
from naslab import _engine
from naslab.cli.arguments import DurableArguments
from naslab.cli.durable import cutter
from naslab.commands.durable import check, cutters, journal, metadata, words
from naslab.commands.durable.block import NEVER, SECTOR_BYTES, Found, Tagger
from naslab.commands.durable.check import Writes
from naslab.commands.durable.cutters import AskCutter, LabCutter
from naslab.commands.durable.load import Load
from naslab.commands.durable.plan import FILL, FIRST, MODES, Plan
from naslab.commands.durable.proof import Proof
from naslab.errors import TargetError, UsageError
from naslab.execution import workspace
from naslab.render import report
from naslab.render.report import durable as view
from naslab.render.terminal.show import show_run
from naslab.render.terminal.summary import summarise
from naslab.results.describe import plain, typed
from naslab.results.document import new_document
from naslab.results.parts.durable import Durable
from naslab.results.run import Run
from naslab.results.schema import json_schema
from naslab.targets import Target, parse_target

PLAN = Plan("run", "naslab-run", 7, 64 * 4096, 4096, 4, 4)


# --- tagged records --------------------------------------------------------------------------------------


def test_every_flipped_bit_of_a_sector_is_found() -> None:
    tagger = Tagger(5, 1)
    good = tagger.record(3, 8192, 512)
    assert tagger.look(good, 8192, 512) == Found(3, 3, 0)
    for bit in range(512 * 8):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        assert tagger.look(bytes(bad), 8192, 512) == Found(NEVER, 0, 1), f"bit {bit}"


def test_records_tell_run_file_place_and_generation_apart() -> None:
    tagger = Tagger(5, 1)
    one, two = tagger.record(3, 0, 4096), tagger.record(4, 0, 4096)
    assert tagger.look(one[:1536] + two[1536:], 0, 4096) == Found(3, 4, 0)
    assert tagger.look(one[:1024], 0, 4096) == Found(0, 3, 0)
    assert tagger.look(bytes(4096), 0, 4096) == Found(0, 0, 0)
    assert tagger.look(one[:700], 0, 4096) == Found(0, 3, 1)
    for other in (Tagger(6, 1), Tagger(5, 2)):
        assert other.look(one, 0, 4096).bad == 8
    assert tagger.look(one, 4096, 4096).bad == 8
    assert len(zlib.compress(one)) > 0.9 * len(one)
    assert tagger.record(3, 0, 4096) == one


# --- the judgement against the definition ---------------------------------------------------------------


def oracle(writes: list[tuple[int, int, bool, bool]], sectors: list[list[int | None]]) -> dict[str, int]:
    """The docstring of durable.check, write by write. writes: record, generation, acknowledged, promised.

    sectors: of each record the generations found, None for one that is not sound.
    """
    counts: Counter[str] = Counter()
    for record, generation, acknowledged, promised in writes:
        if not acknowledged:
            continue
        sound = [one for one in sectors[record] if one is not None]
        mine = [one for one in writes if one[0] == record]
        kept = max((one[1] for one in mine if one[3]), default=FILL)
        newest = max(one[1] for one in mine)
        older = any(one < generation for one in sound)
        if None in sectors[record]:
            name = "overwritten" if generation < kept else "damaged"
            counts["bad damaged"] += promised and generation == kept and (newest == generation or older)
        elif all(one == generation for one in sound):
            name = "survived"
        elif all(one > generation for one in sound):
            name = "overwritten"
        elif all(one < generation for one in sound):
            name = "lost"
            counts["bad lost"] += promised
        else:
            name = "torn"
            counts["bad torn"] += promised and older
        counts[name] += 1
    for record, found in enumerate(sectors):
        mine = [one for one in writes if one[0] == record]
        if not any(one[3] for one in mine):
            empty = any(one == 0 for one in found)
            counts["bad first_contents"] += empty or (None in found and not mine)
    return counts


def some_writes(chance: random.Random, records: int) -> list[tuple[int, int, bool, bool]]:
    """In the order of their generations; a flush promises what was acknowledged until some moment."""
    count = chance.randrange(0, 30)
    covered = chance.randrange(0, count + 1)
    writes = []
    for at in range(count):
        acknowledged = chance.random() < 0.85
        writes.append((chance.randrange(records), FIRST + at, acknowledged, acknowledged and at < covered))
    return writes


def some_sectors(chance: random.Random, writes: list[tuple[int, int, bool, bool]], record: int) -> list[int | None]:
    possible = [0, FILL, *(one[1] for one in writes if one[0] == record)]
    if chance.random() < 0.6:
        return [chance.choice(possible)] * 4
    return [None if chance.random() < 0.2 else chance.choice(possible) for _ in range(4)]


@pytest.mark.parametrize("seed", range(300))
def test_every_write_is_in_its_class(seed: int) -> None:
    chance = random.Random(seed)
    writes = some_writes(chance, 5)
    sectors = [some_sectors(chance, writes, record) for record in range(5)]
    found = check.records([
        Found(min((s for s in one if s is not None), default=NEVER), max((s for s in one if s is not None), default=0),
              one.count(None))
        for one in sectors
    ])  # fmt: skip
    columns = list(zip(*writes, strict=True)) or [(), (), (), ()]
    arrays = Writes(
        np.array(columns[0], np.int64), np.array(columns[1], np.int64),
        np.array([1000 * (at + 1) * flag for at, flag in enumerate(columns[2])], np.int64),
        np.array(columns[3], np.bool_),
    )  # fmt: skip
    row = plain(check.judge("end", arrays, found))
    expected = oracle(writes, sectors)
    for name in ("survived", "overwritten", "lost", "torn", "damaged"):
        assert row[name] == expected[name], (name, seed)
    assert row["violations_by_kind"] == {
        name: expected[f"bad {name}"] for name in ("lost", "torn", "damaged", "first_contents")
    }, seed
    assert row["acknowledged"] == sum(one[2] for one in writes)
    assert row["acknowledged"] == sum(row[n] for n in ("survived", "overwritten", "lost", "torn", "damaged"))


# --- the journal ----------------------------------------------------------------------------------------


def write_journal(path: Path) -> None:
    one = journal.Journal.create(path, PLAN, {"url": "x", "protocol": "smb"})
    one.write(cut=0)
    one.write(filled=True)
    one.write(mode="end", batch=0, at=10)
    one.write(mode="end", batch=1, at=20, only=[0, 2])
    one.write(mode="end", flushed=0, at=30)
    one.write(step="created", file=0, at=40)
    one.close()


def test_a_torn_journal_accuses_nobody(tmp_path: Path) -> None:
    """Cut off at any byte it holds a part of the acknowledgements, and never one more."""
    path = tmp_path / "journal"
    write_journal(path)
    whole = path.read_bytes()
    full = journal.read(path)
    assert full.plan == PLAN and full.sound_bytes == len(whole)
    facts = full.cuts[0].modes["end"]
    assert (facts.batches, facts.flushes) == ([(0, None, 10), (1, [0, 2], 20)], [(0, 30)])
    head = whole.index(b"\n") + 1
    for length in range(head, len(whole)):
        path.write_bytes(whole[:length])
        cuts = journal.read(path).cuts
        known = cuts[0].modes["end"] if cuts else journal.ModeFacts()
        assert known.batches == facts.batches[: len(known.batches)]
        assert not known.flushes or len(known.batches) == 2
    for at in range(head, len(whole), 7):
        damaged = bytearray(whole)
        damaged[at] ^= 4
        path.write_bytes(damaged)
        assert journal.read(path).sound_bytes <= at


def test_journal_goes_on_where_it_was_sound(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    write_journal(path)
    with path.open("ab") as file:
        file.write(b'deadbeef {"torn":')
    recorded = journal.read(path)
    again = journal.Journal.reopen(path, recorded.sound_bytes)
    with pytest.raises(UsageError, match="still running"):
        journal.Journal.reopen(path, recorded.sound_bytes)
    again.write(result={"violations": 0})
    again.close()
    assert journal.read(path).cuts[0].result == {"violations": 0}
    with pytest.raises(UsageError, match="--journal"):
        journal.Journal.create(path, PLAN, {})
    (tmp_path / "other").write_text("hello\n")
    with pytest.raises(UsageError, match="not a journal"):
        journal.read(tmp_path / "other")


def test_writes_of_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    write_journal(path)
    facts = journal.read(path).cuts[0].modes["end"]
    writes = check.writes_of(PLAN, 0, "end", facts)
    order = PLAN.batches(0, "end")
    assert writes.record.tolist() == [*next(order), *next(order), *next(order)]
    assert writes.generation.tolist() == list(range(FIRST, FIRST + 12))
    assert writes.ack_ns.tolist() == [10] * 4 + [20, 0, 20, 0] + [0] * 4
    assert writes.promised.tolist() == [True] * 4 + [False] * 8
    assert len(check.writes_of(PLAN, 0, "end", facts, 5).record) == 28
    assert check.writes_of(PLAN, 0, "each", facts).promised.tolist() == [True] * 5 + [False, True] + [False] * 5


# --- whole cuts on a server in memory --------------------------------------------------------------------


@pytest.fixture
def prove(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Carries out a whole proof on a fake server; the part of the document."""

    def carry_out(
        server: FakeServer, cut: Callable[[], None] | None = None, cuts: int = 1, dialect: str = "4.1",
        timeout_s: float = 5.0, plan: Plan = PLAN,
    ) -> Any:  # fmt: skip
        monkeypatch.setattr(_engine, "Session", lambda _target, _depth: FakeSession(server))
        target = Target("nfs://host/export", "nfs")
        path = tmp_path / f"journal{len(list(tmp_path.iterdir()))}"
        log = journal.Journal.create(path, plan, {"url": target.url, "protocol": "nfs"})
        cutter = LabCutter("power", cut or server.cut, server.start)
        proof = Proof(target, dialect, plan, cutter, log, 0.25, 5.0, timeout_s)
        parts: list[Any] = []
        try:
            proof.carry_out(cuts, parts.append)
        finally:
            log.close()
        assert not proof.owes_check and len(parts) == cuts
        assert [one.result is not None for one in journal.read(path).cuts] == [True] * cuts
        return plain(parts[-1])

    monkeypatch.setattr("naslab.commands.durable.proof.Sentinel", lambda *_: None)
    return carry_out


def by_mode(part: Any) -> dict[str, Any]:
    return {row["mode"]: row for row in part["modes"]}


@pytest.mark.parametrize("seed", range(3))
def test_an_honest_server_keeps_its_promises(prove: Callable[..., Any], seed: int) -> None:
    part = prove(FakeServer(seed, keep=0.5), cuts=2)
    assert part["violations"] == 0 and len(part["cuts"]) == 2 and part["kind"] == "power"
    assert part["loss_bound95"] == pytest.approx(1 - 0.05**0.5)
    modes = by_mode(part)
    assert modes["none"]["promised"] == 0 and modes["none"]["torn"] > 0 and modes["none"]["lost"] > 0
    assert modes["none"]["reach_ns"] > 0
    assert modes["each"]["lost"] == modes["each"]["torn"] == 0 < modes["each"]["at_risk"]
    assert modes["end"]["promised"] <= modes["end"]["acknowledged"]
    for row in part["modes"]:  # a promised write may be torn by one that came later
        gone = sum(age["judged"] - age["survived"] for age in row["ages"])
        assert gone == row["lost"] + row["torn"] if row["mode"] == "none" else gone <= row["lost"] + row["torn"]
    said = words.sentences(typed(part, Durable))
    assert said[0].startswith("No guarantee was broken in 2 power cuts. This does not prove durability")
    assert any("that breaks no guarantee" in sentence for sentence in said)


def test_a_lost_end_of_the_journal_accuses_nobody(prove: Callable[..., Any], tmp_path: Path) -> None:
    """Whatever end of it a crash of this machine takes, an honest server breaks no promise. Not lost can be what was
    settled: that a file is about to be removed.
    """
    server = FakeServer(6, keep=0.5)
    assert prove(server, dialect="3")["violations"] == 0
    (path,) = tmp_path.glob("journal*")
    lines = path.read_bytes().splitlines(keepends=True)
    settled = max((at for at, line in enumerate(lines) if b'"removing"' in line), default=0)
    first = max(settled, next(at for at, line in enumerate(lines) if b'"filled"' in line)) + 1
    session: Any = FakeSession(server)
    seen = Counter[str]()
    for count in range(first, len(lines), max(1, (len(lines) - first) // 25)):
        path.write_bytes(b"".join(lines[:count]))
        facts = journal.read(path).cuts[0]
        for row in check.check(session, PLAN, facts, 400):
            assert row.violations == 0, (count, row)
            seen[row.mode] += row.promised
        for each in metadata.judge(session, PLAN, facts, metadata.promises("nfs", "3")):
            assert each.violations == 0, (count, each)
            seen[each.op] += each.promised
    assert seen["none"] == 0 and min(seen["end"], seen["each"], seen["create"], seen["rename"]) > 0


def test_a_flush_that_lies_is_found(prove: Callable[..., Any]) -> None:
    part = prove(FakeServer(1, keep=0.0, lying_flush=True))
    modes = by_mode(part)
    # Nothing after the first contents reached the disk: every promised write is gone.
    assert modes["end"]["violations"] == modes["end"]["promised"] == modes["end"]["violations_by_kind"]["lost"] > 0
    assert modes["each"]["violations"] == modes["none"]["violations"] == 0
    assert part["loss_bound95"] is None
    assert words.sentences(typed(part, Durable))[0].startswith(
        "VIOLATION: the server acknowledged data before they were durable"
    )


def test_durable_writes_that_lie_are_found(prove: Callable[..., Any]) -> None:
    modes = by_mode(prove(FakeServer(2, keep=0.0, lying_stable=True)))
    assert modes["each"]["violations"] == modes["each"]["acknowledged"] == modes["each"]["lost"] > 0
    assert modes["end"]["violations"] == 0


def harm(server: FakeServer, how: str, count: int) -> Callable[[], None]:
    """A cut that harms `count` records of the mode each, whose newest write is a promised one."""

    def cut() -> None:
        server.cut()
        content = next(one for path, one in server.files.items() if path.endswith("/each"))
        tagger, harmed = Tagger(PLAN.tag(0), MODES.index("each")), 0
        for offset in range(0, PLAN.file_bytes, PLAN.record_bytes):
            found = tagger.look(bytes(content.disk[offset : offset + PLAN.record_bytes]), offset, PLAN.record_bytes)
            if harmed == count or found.low < FIRST or found.low != found.high:
                continue
            harmed += 1
            if how == "torn":
                content.put(offset, tagger.record(FILL, offset, SECTOR_BYTES * 3))
            elif how == "damaged":
                content.disk[offset + 700] ^= 1
            else:
                content.put(offset, bytes(PLAN.record_bytes))
        assert harmed == count

    return cut


@pytest.mark.parametrize("how", ["torn", "damaged", "lost"])
def test_single_harmed_records_are_counted(prove: Callable[..., Any], how: str) -> None:
    server = FakeServer(3, keep=1.0)
    row = by_mode(prove(server, harm(server, how, 5)))["each"]
    if how == "lost":  # all earlier promised writes of the record are gone with the newest
        assert row["violations_by_kind"]["lost"] >= 5
    elif how == "damaged":  # a record that was being written may be damaged
        assert row["damaged"] == 5 and 5 - PLAN.queue_depth <= row["violations_by_kind"]["damaged"] <= 5
    else:
        assert row["violations_by_kind"]["torn"] >= 5
    assert row["violations"] == row["violations_by_kind"][how]


def test_metadata_that_goes_back_is_found(prove: Callable[..., Any]) -> None:
    """NFS 3 promises a rename; NFS 4 does not."""
    for dialect, promised in (("3", True), ("4.2", False)):
        server = FakeServer(4, keep=1.0)

        def cut(server: FakeServer = server) -> None:
            server.cut()
            for old, new in server.lost_names[-4:-1]:
                server.files[old] = server.files.pop(new)

        rows = {row["op"]: row for row in prove(server, cut, dialect=dialect)["metadata"]}
        assert (rows["rename"]["lost"], rows["rename"]["violations"]) == (3, 3 * promised)
        assert rows["create"]["lost"] == rows["contents"]["lost"] == 0


def test_files_that_cannot_be_looked_at(prove: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that a cut damaged ends no check: what cannot be opened is damaged, what cannot be listed is gone.
    A server that goes away again does.
    """
    server, real = FakeServer(10, keep=0.5), FakeSession.open

    def broken(kind: str) -> Callable[..., int]:
        def open_file(session: FakeSession, path: str, options: str) -> int:
            if server.epoch and path.endswith("/each"):
                raise TargetError("open: structure needs cleaning", kind)
            return real(session, path, options)

        return open_file

    monkeypatch.setattr(FakeSession, "open", broken("io"))
    row = by_mode(prove(server))["each"]
    assert row["damaged"] > 0 and row["survived"] == row["lost"] == 0
    assert row["violations_by_kind"]["damaged"] > 0
    server.epoch = 0
    monkeypatch.setattr(FakeSession, "open", broken("timeout"))
    with pytest.raises(TargetError, match="cleaning"):
        prove(server)


def test_unflushed_writes_are_the_control(prove: Callable[..., Any]) -> None:
    """A cut that takes nothing at all is doubted; one that takes unflushed writes is not."""
    part = prove(FakeServer(9, keep=1.0))
    assert any(one.startswith("CAUTION") and "not cut" in one for one in words.sentences(typed(part, Durable)))
    assert not any(one.startswith("CAUTION") for one in words.sentences(typed({**part, "kind": "process"}, Durable)))
    assert not any(one.startswith("CAUTION") for one in words.sentences(typed(prove(FakeServer(9, keep=0.5)), Durable)))


@pytest.mark.parametrize("loads", [("none",), ("metadata",), ("end", "metadata")])
def test_some_loads_run_alone(prove: Callable[..., Any], loads: tuple[str, ...]) -> None:
    """Only what was asked for is written, judged and told."""
    server = FakeServer(8, keep=0.0)
    part = prove(server, plan=dataclasses.replace(PLAN, loads=loads))
    assert tuple(by_mode(part)) == tuple(one for one in loads if one in MODES)
    assert bool(part["metadata"]) is ("metadata" in loads)
    made = {path.rsplit("/", 1)[1] for path in server.files}
    assert made & set(MODES) == set(loads) & set(MODES) and part["violations"] == 0
    said = words.sentences(typed(part, Durable))
    assert said[0].startswith("No guarantee was tested" if loads == ("none",) else "No guarantee was broken")
    assert any(one.startswith("Metadata") for one in said) is ("metadata" in loads)


def test_files_are_flushed_by_turns() -> None:
    steps = [metadata.steps_of(number) for number in range(64)]
    assert [("flushed" in one) for one in steps] == [number // 16 % 2 == 0 for number in range(64)]
    assert all("flushed" in one or "extension_flushed" not in one for one in steps)
    assert [("removed" in one) for one in steps] == [number >= metadata.KEPT for number in range(64)]


def test_a_cut_that_reaches_nothing_is_told(prove: Callable[..., Any]) -> None:
    with pytest.raises(TargetError, match="did not reach the server"):
        prove(FakeServer(5), lambda: None, timeout_s=0.05)


def test_the_words_count_the_cuts() -> None:
    assert words.totals([], PLAN).violations == 0
    assert words.sentences(words.totals([], PLAN)) == ["No power cut was checked, so there is no result."]


def test_load_stops_for_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that no cut makes ends the load as a failure, and is not taken for the cut."""
    server = FakeServer()
    session: Any = FakeSession(server)
    for mode in MODES:
        session.open(PLAN.path(0, mode), '{"create": "new"}')

    def full(*_: object) -> None:
        raise TargetError("write: no space", "no_space")

    monkeypatch.setattr(metadata, "work", full)
    log = journal.Journal.create(tmp_path / "journal", PLAN, {})
    log.write(cut=0)
    load = Load(session, PLAN, 0, log)
    load.start()
    assert load.lost.wait(10)
    load.stop()
    log.close()
    assert isinstance(load.failure, TargetError) and load.failure.kind == "no_space"


def test_folders_of_others_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = '[{"folder": "naslab-run", "owner": "{\\"naslab_run\\": \\"other\\"}"}]'
    monkeypatch.setattr(_engine, "find_folders", lambda _: listed)
    monkeypatch.setattr(_engine, "clean", lambda *_: pytest.fail("removed"))
    assert workspace.remove(Target("nfs://host/export", "nfs").engine_json(), "naslab-run", "run") == ["naslab-run"]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A terminal as standard input; the end that a person types at."""
    typed, read_end = os.openpty()
    with os.fdopen(read_end, closefd=True) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield typed
    os.close(typed)


@pytest.mark.parametrize(("answer", "kind"), [("y", "power"), ("yes", "power"), ("n", "unknown"), ("", "unknown")])
def test_a_person_cuts_and_confirms(terminal: int, answer: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enter says that it is off; a further one from before the question answers nothing."""
    said: queue.Queue[str] = queue.Queue()
    monkeypatch.setattr(cutters, "_say", said.put)
    cutter = AskCutter(30.0, True)
    os.write(terminal, b"\n\n")
    cutter.cut(threading.Event())
    cutter.restore()
    thread = threading.Thread(target=cutter.confirm, daemon=True)
    thread.start()
    told = [said.get(timeout=HANG_S) for _ in range(4)]
    assert cutter.said_off and told[1] == "Counted as cut." and told[3].endswith("[y/N]")
    os.write(terminal, f"{answer}\n".encode())
    thread.join(10)
    assert cutter.kind == kind


def test_a_lost_server_needs_no_enter(terminal: int) -> None:
    lost = threading.Event()
    threading.Timer(0.05, lost.set).start()
    cutter = AskCutter(30.0, True)
    cutter.cut(lost)
    assert lost.is_set() and not cutter.said_off
    with pytest.raises(TargetError, match="no cut within"):
        AskCutter(0.1, False).cut(threading.Event())


def test_promises_of_the_protocols() -> None:
    """RFC 1813 1.6: names with their acknowledgement, but no length; others what was flushed."""
    promised = {
        name: {op for op, step in metadata.promises(*name).items() if step}
        for name in (("nfs", "3"), ("nfs", "4.2"), ("smb", "3.1.1"), ("local", None))
    }
    assert promised == {
        ("nfs", "3"): {"create", "contents", "rename", "remove"}, ("nfs", "4.2"): {"create", "contents"},
        ("smb", "3.1.1"): {"create", "contents", "extend"}, ("local", None): {"extend"},
    }  # fmt: skip


def test_the_page_shows_what_the_numbers_say(prove: Callable[..., Any], tmp_path: Path) -> None:
    """Bars add up to the writes that none overwrote; the tables and the words are on the page, and valid."""
    part = prove(FakeServer(7, keep=0.5, lying_flush=True))
    for row, shares in zip(
        part["modes"], zip(*(t["x"] for t in view.fates(typed(part, Durable))["data"]), strict=True), strict=True
    ):
        assert sum(shares) == pytest.approx(100, abs=0.01)
        assert shares[0] == pytest.approx(100 * row["survived"] / (row["acknowledged"] - row["overwritten"]), abs=0.01)
    document: Any = new_document("20260101-000000-abcd", "durable", {"url": "nfs://h/e", "protocol": "nfs"})
    document |= {"durable": part, "status": "complete", "summary": summarise({**document, "durable": part})}
    jsonschema.Draft202012Validator(json_schema(strict=True)).validate(document)
    text = report.write([Run(document)], tmp_path / "page.html").read_text(encoding="utf-8")
    end = by_mode(part)["end"]
    assert "VIOLATION" in text and 'id="durable-table"' in text and f"<td>{end['violations']:,}</td>" in text
    assert "Every cell as measured" not in text and "0 cells" not in text
    assert f"Complete: {part['violations']:,} guarantees broken" in text and 'class="status complete"' not in text
    shown = show_run(Run(document), 100)
    assert f"{end['violations']:,}" in shown and "flushed contents of new files" in shown


def test_a_server_may_take_longer_to_come_back_than_a_request() -> None:
    """The command that restores the power is waited for as the server is, by --wait."""
    arguments = DurableArguments("smb://nas/s", cut_command="true", restore_command="sleep 5", wait="200ms")
    found = cutter(arguments, parse_target("smb://nas/s"), 30.0)
    with pytest.raises(TargetError, match=r"--restore-command: not done after 200 ms; raise --wait"):
        found.restore()
