"""What `explain` says of a ladder: advice, steps, sentences, tables, pictures, and the schema that describes it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from fixtures_run import make_run
from naslab.cli.dispatch import run_app
from naslab.cli.explain_run import document_of, text_of
from naslab.explain import any_run, experiment, ladder_table, outcome, tell
from naslab.explain.advice import advice
from naslab.explain.answer import answer
from naslab.explain.evidence import Evidence
from naslab.explain.limits import CLASSES, Limit, Verdict
from naslab.explain.points import Figure, Point, Stalls
from naslab.explain.says import says
from naslab.render.report.explain import pictures
from naslab.render.report.explain import section as ladder_section
from naslab.results.describe import typed
from naslab.results.parts.ladder import Ladder, LadderConditions, LadderPoint, LadderStalls
from naslab.results.schema import json_schema

SIM = "sim:?latency_ns=200us&link_bytes_per_s=125MB&server_cache_bytes=64m&disk_read_bytes_per_s=60MB"
KIB, MIB = 1 << 10, 1 << 20


def point(rate: float, record: int = MIB, depth: int = 1, **more: Any) -> Point:
    """A read of a small file at `rate` bytes/s, known to 1 %."""
    figure = Figure(rate, 0.99 * rate, 1.01 * rate)
    mean = record * depth / rate * 1e9
    fields: dict[str, Any] = {
        "cell": 1, "op": "read", "random": False, "record_bytes": record, "depth": depth, "workers": 1, "files": 1,
        "set_bytes": 4 * MIB, "bypass": False, "durability": "none", "rate": figure,
        "iops": figure.scaled(1 / record, "iops"), "reads": rate, "writes": 0.0, "durable": None, "p50_ns": mean,
        "mean_ns": mean, "p99_ns": mean, "cpu": 0.1, "crossed": 1.0, "stalls": Stalls(0.0, 0, 0, 0), "start_ns": 0,
        "end_ns": 10**9, **more,
    }  # fmt: skip
    return Point(**fields)


def evidence(**more: list[Point]) -> Evidence:
    """A far server behind 1 Gbit/s whose memory holds 64 MiB."""
    steps = {
        "round_trip": [point(4096 / 430e-6, 4 * KIB, random=True)],
        "depth": [point(110e6), point(118e6, depth=2), point(118e6, depth=4)],
        "small_depth": [point(38e6, 4 * KIB, 4), point(100e6, 4 * KIB, 16), point(101e6, 4 * KIB, 64)],
        **more,
    }
    return Evidence(steps)


def told(found: Evidence, kind: str = "link") -> str:
    """The advice on a ladder whose classes are limited by one kind."""
    limits = [Limit(kind, op, size, 0.9, Figure(1e8, 9e7, 1.1e8), "") for op, size in CLASSES]
    return "\n".join(advice(found, Verdict(limits)))


def test_depth_is_advised_with_the_rate_that_one_request_caps() -> None:
    # 430 us and 60 KiB more at 118 MB/s: 0.95 ms for 64 KiB, 69 MB/s.
    text = told(evidence())
    assert "one 64 KiB request at a time reaches at most 68.9 MB/s (951 µs each): keep about 2 outstanding" in text
    near = evidence(round_trip=[point(4096 / 40e-6, 4 * KIB, random=True)])
    assert "outstanding" not in told(near)


def test_the_clients_cache_is_told_with_bytes() -> None:
    cached = evidence(client_cache=[point(2.1e9, crossed=0.0)])
    assert "you measured the client's cache: 0 B of 2.10 GB crossed the wire; to measure the server, name it" in told(
        cached
    )
    past = evidence(client_cache=[point(2.1e9, crossed=0.0)], record=[point(1e8, 64 * KIB, bypass=True)])
    assert "all later steps bypassed that cache" in told(past)
    assert "cache" not in told(evidence(client_cache=[point(1e8)]), "latency")
    cached.protocol = "null"
    assert "client's cache" not in told(cached)


def test_protection_is_told_by_what_it_costs() -> None:
    ways = evidence(security=[point(100e6, cell=7), point(59e6, cell=8), point(99e6, cell=9)])
    ways.ways = {"7": "plain", "8": "signed", "9": "encrypted"}
    text = told(ways)
    assert "signing costs 41 % here: 59 MB/s against 100 MB/s unprotected" in text
    assert "encryption costs almost nothing here" in text


def test_promises_and_memory_are_told() -> None:
    written = {"op": "write", "set_bytes": 128 * MIB, "durable": 20e6}
    found = evidence(
        writes=[point(100e6, op="write", depth=2, durability="end")],
        set=[point(118e6, set_bytes=64 * MIB), point(100e6, **written), point(40e6, set_bytes=128 * MIB)],
    )
    found.memory_bytes = (64 * MIB, 128 * MIB)
    text = told(found)
    assert "writes are acknowledged 5.0 times as fast as they become durable (100 MB/s against 20 MB/s)" in text
    assert "a power cut loses what is only acknowledged" in text
    assert "beyond 64 MiB reads fall from 118 MB/s to 40 MB/s" in text
    assert says("set", found) == (
        "up to 64 MiB from the server cache, at up to 118 MB/s; 128 MiB not; 128 MiB read at 40 MB/s"
    )


def test_steps_say_what_came_out() -> None:
    found = evidence(connections=[point(350e6, depth=4, workers=4, files=4)])
    assert says("round_trip", found) == "one read of 4 KiB takes 430 µs"
    assert says("depth", found) == "110 MB/s at queue depth 1, 118 MB/s at 2, level from there on"
    assert says("connections", found) == "1 MiB: 4 connections reach 350 MB/s, 3 times one connection (118 MB/s)"
    assert says("nothing of the kind", found) == ""


def limit(kind: str, op: str, size: str, confidence: float, value: float = 1e8) -> dict[str, Any]:
    unit = "bytes_per_s" if size == "large" else "iops"
    return {"kind": kind, "applies_to": {"op": op, "size": size}, "confidence": confidence, "value": value,
            "unit": unit, "ci95": [0.99 * value, 1.01 * value], "evidence": f"seen in {size} {op}s"}  # fmt: skip


def test_classes_of_one_limit_share_a_sentence() -> None:
    limits = [limit("link", "read", "large", 0.95, 118e6), limit("link", "read", "small", 0.95, 28800),
              limit("disk", "write", "large", 0.8, 60e6), limit("link", "write", "large", 0.3)]  # fmt: skip
    assert tell.sentences({"verdict": {"limits": limits}}) == [
        "Large reads and small reads are limited by the network link (probability 0.95), at 118 MB/s and 28,800 "
        "operations/s.",
        "Large writes are limited by the disks (probability 0.80), at 60 MB/s.",
    ]
    assert tell.sentences({"verdict": {"limits": []}}) == []
    assert [row[1] for row in tell.rows(limits)] == [
        "the network link", "the disks", "next: the network link", "the network link",
    ]  # fmt: skip


def test_reads_of_no_set_beyond_memory_are_told_to_reach_no_further() -> None:
    def last(kind: str, smallest_beyond: int | None, **more: object) -> str:
        where = {"applies_to": {"op": "read", "size": "small"}, "confidence": 0.95}
        conditions = {"memory_bytes": [478 << 20, smallest_beyond], "local_disk": False, "protocol": "nfs", **more}
        verdict = {"limits": [{"kind": kind, **where}]}
        return tell.sentences({"verdict": verdict, "ladder": {"conditions": conditions}})[-1]

    told = "No working set above 478 MiB was read: data outside the server cache may be slower."
    assert last("link", None) == told
    assert last("link", 512 << 20) != told  # a set outgrew it
    assert last("disk_iops", None) != told  # disks answered
    assert last("disk", None, local_disk=True) != told and last("client_cpu", None, protocol="null") != told


def test_two_that_are_not_told_apart_are_both_named() -> None:
    limits = [limit("link", "read", "large", 0.55), limit("server_cache", "read", "large", 0.5)]
    assert tell.sentences({"verdict": {"limits": limits}}) == [
        "Large reads are limited by the network link (probability 0.55) or the server cache (probability 0.50), at 100 "
        "MB/s."
    ]
    assert [row[1] for row in tell.rows(limits)] == ["the network link", "or the server cache"]
    assert [row[4] for row in tell.rows(limits)] == ["0.55", "0.50"]


def test_classes_that_share_a_sentence_keep_their_probabilities() -> None:
    limits = [limit("link", "read", "large", 0.95), limit("link", "write", "large", 0.8)]
    (told_,) = tell.sentences({"verdict": {"limits": limits}})
    assert "the network link (probability 0.95 and 0.80)" in told_
    assert "probability not stated" in tell.sentences({"verdict": {"limits": [{"kind": "disk"}]}})[0]


def test_experiments_are_commands_a_shell_takes() -> None:
    found = experiment.experiment("duplex", "large", "sim:?a=1&b=2")
    assert found["command"].startswith("naslab sustained 'sim:?a=1&b=2' ") and found["costs_ns"] > 0
    assert "run smb://nas/x --budget" in experiment.experiment("no such step", "small", "smb://nas/x")["command"]


def test_a_run_without_a_ladder_is_explained_weakly() -> None:
    found = answer(make_run().document)
    first = {(each["applies_to"]["op"], each["applies_to"]["size"]): each["kind"] for each in reversed(found.limits)}
    # The made server: 1 Gbit/s, 250 us, a disk of 60 MB/s that seeks for 8 ms.
    assert (first["write", "large"], first["write", "small"]) == ("disk", "disk_iops")
    assert first["read", "large"] in ("link", "disk")
    assert all(each["confidence"] <= any_run.UNVARIED for each in found.limits)
    assert "guesses" in text_of(found, 100) and "naslab run smb://" in text_of(found, 100)


def test_what_the_client_cached_and_what_a_rest_brought_back_are_told_as_they_were_found() -> None:
    made = make_run(ops=("read",), file_sizes=(1 << 20,), record_sizes=(1 << 20,)).document
    for cell in made["cells"]:
        cell["regime"], cell["wire_bytes"] = "client_cache", 0
    bucket = {"baseline_bytes_per_s": {"value": 3e7, "ci95": [2e7, 4e7]}, "burst_bytes_per_s": {"value": 2e8}}
    burst = {"cause": "token_bucket", "op": "write", "bucket": {**bucket, "dropped_ns": 10**9}}
    found = answer({**made, "sustained": {"burst": burst, "regimes": []}})
    assert [(each["kind"], each["applies_to"]["op"]) for each in found.limits] == [
        ("client_cache", "read"), ("burst_credit", "write"),
    ]  # fmt: skip
    assert found.limits[1]["value"] == 3e7 and found.limits[1]["ci95"] == [2e7, 4e7]
    assert len(found.advice) == 2


def test_schema_names_every_field_of_a_point_and_its_conditions() -> None:
    assert set(LadderPoint.__struct_fields__) == {f.name for f in dataclasses.fields(Point)}
    assert set(LadderConditions.__struct_fields__) == set(Evidence().document())
    assert list(LadderStalls.__struct_fields__) == [f.name for f in dataclasses.fields(Stalls)]


@pytest.fixture(scope="module")
def climbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A store with one `naslab run` of a simulated server, and its document."""
    from naslab.results.store import Store

    store = tmp_path_factory.mktemp("ladder") / "s.db"
    assert run_app(["run", SIM, "--budget", "30s", "--quiet", "--store", str(store)]) == 0
    return store, dict(Store(store).load("last").document)


def test_a_run_holds_to_the_strict_schema_and_begins_with_its_verdict(climbed: tuple[Path, dict[str, Any]]) -> None:
    document = json.loads(json.dumps(climbed[1]))
    jsonschema.Draft202012Validator(json_schema(strict=True)).validate(document)
    assert document["verdict"]["limits"] and document["ladder"]["advice"]
    assert document["summary"][: len(tell.sentences(document))] == tell.sentences(document)


def test_explain_in_text_json_and_html(
    climbed: tuple[Path, dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, document = climbed
    page = tmp_path / "e.html"
    assert run_app(["explain", "last", "--json", "-o", str(page), "--store", str(store)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["verdict"] == document["verdict"] and printed["explanation"]["basis"] == "ladder"
    assert page.read_text(encoding="utf-8").index("What limited it") < page.read_text(encoding="utf-8").index("Data")
    text = text_of(answer(document), 80)
    assert "What to do" in text and "The ladder" in text
    # A command is copied whole: only its long target may stand out.
    assert all(len(line) <= 80 or SIM in line for line in text.splitlines())
    assert document_of(answer(document))["cells"] == document["cells"]


def test_a_missing_verdict_is_judged_again(climbed: tuple[Path, dict[str, Any]]) -> None:
    document = climbed[1]
    again = answer({**document, "verdict": {"limits": []}})
    stored = outcome.verdict_of(document["ladder"]).limits
    assert [each["kind"] for each in again.limits] == [each.kind for each in stored]


def test_a_run_of_an_earlier_version_is_judged_anew(climbed: tuple[Path, dict[str, Any]]) -> None:
    document = climbed[1]
    assert answer(document).said is None  # this very model said it
    then = {**limit("server_cpu", "read", "large", 0.95), "unit": "bytes_per_s"}
    ladder = {**document["ladder"], "model": {"version": "0.0.9+old"}, "conditions": {
        **document["ladder"]["conditions"], "a_field_of_another_version": 1}}  # fmt: skip
    old = answer({**document, "ladder": ladder, "verdict": {"limits": [then]}})
    # The same data and the same model: the same answer.
    assert old.limits == document["verdict"]["limits"] and old.open == document["ladder"]["open"]
    assert old.said is not None and old.said.by == "0.0.9+old" and old.said.differs(old.limits)
    assert f"Verdict of 0.0.9+old on {document['finished_at'][:10]}: Large reads are limited by the server's CPU" in (
        text_of(old, 200)
    )
    same = answer({**document, "ladder": ladder})
    assert same.said is not None and not same.said.differs(same.limits) and "Verdict of" not in text_of(same, 200)


def test_all_that_the_ladder_moved_counts(climbed: tuple[Path, dict[str, Any]]) -> None:
    """Files that were written and first tries fill caches and spend credit as every load does."""
    from naslab.explain.evidence import Evidence
    from naslab.explain.rows import rows_of

    document = climbed[1]
    ladder = document["ladder"]
    aside = [point["cell"] for point in ladder["aside"]]
    told = {cell for step in ladder["steps"] for cell in step["cells"]} | {*aside}
    moved = {cell["id"] for cell in document["cells"] if cell["workload"] == "ladder" and cell["bytes"]}
    pauses = {each["id"] for each in document["cells"] if (each["op"], each["ops"]) == ("random_read", 2)}
    assert told == moved - pauses, "a rest moves two small reads"
    rows = rows_of(Evidence.from_document(ladder))
    assert rows is not None
    mine = np.isin(rows.cell, aside) & ~rows.null
    assert mine.sum() == len(aside) > 0 and not rows.weight[mine].any() and rows.moved[mine].all()


def test_a_ladder_that_only_wrote_its_files_measured_nothing(climbed: tuple[Path, dict[str, Any]]) -> None:
    """As where the budget ends, or the target is slow, before the first step."""
    from naslab.explain.evidence import Evidence
    from naslab.explain.rows import rows_of

    whole = Evidence.from_document(climbed[1]["ladder"])
    assert whole.aside and rows_of(Evidence(aside=whole.aside)) is None and rows_of(Evidence()) is None


def test_pictures_keep_the_ladder_apart_from_the_sweep(climbed: tuple[Path, dict[str, Any]]) -> None:
    from naslab.render.report.model import cases
    from naslab.results import Run

    document = climbed[1]
    names = [name for name, _, words in pictures(typed(document["ladder"], Ladder)) if words]
    assert names[:1] == ["Queue depth"] and "Working set" in names
    assert not any(cell["workload"] == "ladder" for case in cases(Run(document)) for cell in case.cells)  # type: ignore[arg-type]
    rows = list(ladder_table.rows(typed(document["ladder"], Ladder)))
    assert len(rows) == len(document["ladder"]["steps"]) and "one read of 4 KiB" in rows[0][1]
    assert ladder_section([("x", document)]).count("<tr>") == len(rows) + 1
