"""Redaction: nothing that a document can hold as text leaves the machine but naslab's own words."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.inspect import (
    AnyType,
    BoolType,
    DictType,
    FloatType,
    IntType,
    ListType,
    LiteralType,
    Metadata,
    StrType,
    StructType,
    Type,
    UnionType,
)

from fixtures_run import make_parts
from naslab.cli import main
from naslab.exchange import references
from naslab.exchange.export import FORMATS, export
from naslab.exchange.importers.build import read_file
from naslab.exchange.redact import REMOVED, Names, Outgoing, redact, store_for, target_name
from naslab.exchange.redact_words import FILE, words
from naslab.render.report import write
from naslab.render.terminal.show import show_run
from naslab.results.fields import fields_of, without_null
from naslab.results.parts.run import RunDocument
from naslab.results.parts.target import TargetDocument
from naslab.results.run import MemoryBlobs, Run
from naslab.results.schema import json_schema
from naslab.results.store import Store

SECRET = re.compile(r"q[xj]zwvkjh\d+|10\.66\.7\.\d+|02:42:ac:11", re.IGNORECASE)
"""What planted texts look like; no word, no number of naslab's is like it."""


class Planter:
    """Secrets of several kinds, each another one."""

    def __init__(self) -> None:
        self.count = 0

    def text(self) -> str:
        self.count += 1
        n = self.count
        name, other = f"qxzwvkjh{n}", f"qjzwvkjh{n}"
        kinds = (
            name, f"{name.upper()}.corp.example", f"{name} wrote 3 GB to {other}", f"10.66.7.{n % 200}",
            f"/srv/{name}/a.txt", f"smb://{name}:445/{other}", f"\\\\{name}\\{other}", f"{name}@{other}",
            "02:42:ac:11:00:02", f"SN-{name}",
        )  # fmt: skip
        return kinds[n % len(kinds)]


def planted(part: type[Struct], plant: Planter, depth: int = 0) -> dict[str, Any]:
    """A part of a document with a secret in every text, and in every key and value of what the schema leaves open."""
    return {field.name: _value(field.type, plant, depth) for field in fields_of(part)}


def _value(type_: Type, plant: Planter, depth: int) -> Any:
    match type_:
        case Metadata(type=inner):
            value = _value(inner, plant, depth)
        case UnionType():
            value = _value(without_null(type_)[0], plant, depth)
        case ListType(item_type=inner):
            value = [_value(inner, plant, depth)]
        case DictType(value_type=AnyType()):
            file = {"path": plant.text()}
            value = {plant.text(): plant.text(), "host": plant.text(), "name": [plant.text()], "file": file}
        case DictType(value_type=inner):
            value = {plant.text(): _value(inner, plant, depth)}
        case StructType(cls=part):
            value = planted(part, plant, depth + 1) if depth <= 6 else None
        case StrType() | LiteralType():
            value = plant.text()
        case _:
            value = {IntType: 7, FloatType: 1.5, BoolType: True}[type(type_)]
    return value


def texts(value: Any) -> Iterator[str]:
    """Every text in a document, keys included."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield str(key)
            yield from texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from texts(each)
    elif isinstance(value, str):
        yield value


def leaks(value: Any) -> list[str]:
    return [text for text in texts(value) if SECRET.search(text)]


def test_every_text_field_of_the_schema_is_cleared() -> None:
    plant = Planter()
    document = {**planted(RunDocument, plant), "surprise": plant.text(), "schema": 1}
    document["cells"] = [{**document["cells"][0], "id": 0}]
    assert plant.count > 200 and len(leaks(document)) > 200
    assert leaks(redact(Run(document)).document) == []  # type: ignore[arg-type]


@pytest.fixture
def spied(tmp_path: Path) -> Store:
    """A store with a whole run that is full of secrets wherever a run can have text."""
    document, blobs, _ = make_parts(ops=("read", "write"), file_sizes=(1 << 20,), record_sizes=(65536,))
    plant = Planter()
    for table, part in ((RunDocument, document), (TargetDocument, document["target"])):
        for field in fields_of(table):
            if isinstance(field.type, StrType) and field.name not in ("run_id", "command", "protocol"):
                part[field.name] = plant.text()
    document |= {
        "label": plant.text(), "labels": {"qxz": plant.text(), plant.text(): "1"}, "note": plant.text(),
        "summary": [plant.text()], "argv": ["sweep", plant.text(), "--label", plant.text(), f"--note={plant.text()}"],
        "started_at": "2026-11-20T18:40:00Z", "finished_at": "2026-11-20T18:50:00Z", "validity": [
            {"kind": "drift", "message": plant.text(), "cells": [0], "value": 1.0, "unit": "fraction", "limit": 1.0}],
    }  # fmt: skip
    document["target"] |= {
        "url": "smb://qxzwvkjh9@qxzwvkjh1.corp.example/qjzwvkjh2/qjzwvkjh3",
        "server": plant.text(),
        plant.text(): "x",
    }
    document["environment"] = {
        "client": {**document["environment"]["client"], "host": plant.text(), "cpu": plant.text(), "serial":
                   plant.text(), "interfaces": [{"name": plant.text(), "mac": "02:42:ac:11:00:02", "mtu_bytes": 1500}]},
        "route": {"address": "10.66.7.1", "interface": "qxzwvkjh0", "speed_bits_per_s": 10**9, "mtu_bytes": 1500,
                  "loopback": False, "says": "qxzwvkjh0 says so"},
    }  # fmt: skip
    for cell in document["cells"]:
        cell["first_error"], cell["regime_evidence"], cell["workload"] = plant.text(), plant.text(), plant.text()
        cell["errors_by_status"] = [{"kind": plant.text(), "status": 5, "count": 1}]
        cell["protocol_events"] = {plant.text(): 3}
        cell["warnings"] = [{"kind": "error", "message": plant.text(), "cell": cell["id"]}]
    document["warnings"] = [{"kind": plant.text(), "message": plant.text(), "cell": None}]
    store = Store(tmp_path / "runs.sqlite")
    store.save(document, blobs)
    return store


def _readable(path: Path) -> str:
    if path.suffix == ".xlsx":
        with zipfile.ZipFile(path) as book:
            return "\n".join(book.read(name).decode("utf-8", "replace") for name in book.namelist())
    return path.read_bytes().decode("utf-8", "replace")


@pytest.mark.parametrize("format", FORMATS)
def test_no_export_format_holds_a_secret(format: str, spied: Store, tmp_path: Path) -> None:
    plain, clear = tmp_path / f"plain.{format}", tmp_path / f"clear.{format}"
    for store, path in ((spied, plain), (Outgoing(spied.path), clear)):
        export([store.load("last")], path, format)
    assert SECRET.search(_readable(plain)) or format in ("series.parquet", "series.csv")
    assert not SECRET.search(_readable(clear))


def test_neither_report_nor_terminal_holds_a_secret(spied: Store, tmp_path: Path) -> None:
    for reader, path in ((spied, tmp_path / "plain.html"), (Outgoing(spied.path), tmp_path / "clear.html")):
        run = reader.load("last")
        write([run], path)
        said = _readable(path) + show_run(run) + json.dumps(run.document)
        said += "".join(f"{each.label} {each.target}" for each in reader.list_runs())
        assert bool(SECRET.search(said)) == (reader is spied)


def test_numbers_and_own_words_stay() -> None:
    document, blobs, _ = make_parts(ops=("read",), file_sizes=(1 << 20,), record_sizes=(65536,))
    document["summary"] = ["Fastest: read, 117 MB/s at depth 1; /srv/films was read from nas.example, 3,000 times."]
    document["argv"] = [
        "sweep",
        document["target"]["url"],
        "--file-size",
        "1m..2m",
        "--label",
        "who=ann",
        "-o",
        "x.html",
    ]
    run = Run(document, MemoryBlobs(blobs))  # type: ignore[arg-type]
    clear = redact(run)
    assert clear.document["summary"] == [
        f"Fastest: read, 117 MB/s at depth 1; {REMOVED} was read from host-2, 3,000 times."
    ]
    assert clear.document["argv"] == [
        "sweep", "smb://host-2/share-1", "--file-size", "1m..2m", "--label", REMOVED, "-o", REMOVED,
    ]  # fmt: skip
    for before, after in zip(run.cells, clear.cells, strict=True):
        assert {k: v for k, v in after.items() if k != "warnings"} == {
            k: v for k, v in before.items() if k != "warnings"
        }
        assert run.series(before).tobytes() == clear.series(after).tobytes()
    assert run.quantiles(0, [0.5, 0.99]).tolist() == clear.quantiles(0, [0.5, 0.99]).tolist()


def test_a_redacted_document_is_a_document() -> None:
    import jsonschema

    document, _, _ = make_parts(ops=("read", "mixed"), file_sizes=(1 << 20,), record_sizes=(65536,))
    jsonschema.validate(redact(Run(document)).document, json_schema())  # type: ignore[arg-type]


def test_the_same_server_keeps_one_name_within_one_output() -> None:
    def at(url: str) -> Run:
        document, _, _ = make_parts(ops=("read",), file_sizes=(1 << 20,), record_sizes=(65536,))
        return Run({**document, "argv": None, "target": {**document["target"], "url": url}})  # type: ignore[arg-type]

    names = Names()
    targets = ("smb://ann@Tower/films/a", "smb://bob@tower:445/films/b", "nfs://attic/x")
    runs = [redact(at(each), names) for each in targets]
    urls = [run.document["target"]["url"] for run in runs]
    assert urls == ["smb://host-2/share-1/folder-1", "smb://host-2/share-1/folder-2", "nfs://host-3/share-2"]
    assert runs[0].document["environment"]["client"]["host"] == runs[2].document["environment"]["client"]["host"]


@pytest.mark.parametrize(
    ("url", "protocol", "wanted"),
    [
        ("null:", "null", "null:"),
        ("sim:?link_bytes_per_s=125MB&latency_ns=200us", "sim", "sim:?link_bytes_per_s=125MB&latency_ns=200us"),
        ("sim:?jitter=0.2&disk_seek_ns=8ms&faults=qxz&jitter_qxz=1", "sim", "sim:?jitter=0.2&disk_seek_ns=8ms"),
        ("sim:/home/ann/nas.toml?qxz=1&latency_ns=qxz", "sim", "sim:"),
        ("/mnt/films", "local", "folder-1"),
        ("lab:mine", "smb", "lab:system-1"),
        ("nfs://[fe80::1]:2049/export/home?version=3", "nfs", "nfs://host-1/share-1"),
        ("The box in the attic", "smb", "target-1"),
    ],
)
def test_names_of_targets(url: str, protocol: str, wanted: str) -> None:
    assert target_name(url, protocol, Names()) == wanted


@given(st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=0x2FF), min_size=6, max_size=20))
@example("proBE?")
def test_a_host_of_any_name_is_in_no_sentence(host: str) -> None:
    def told_of(name: str) -> str:
        document, _, _ = make_parts(ops=("read",), file_sizes=(1 << 20,), record_sizes=(65536,))
        document["summary"] = [f"the server {name} answered", f"({name})", f"read {name}, 3 MB/s"]
        document["environment"]["client"]["host"] = name
        return json.dumps(redact(Run(document)).document, ensure_ascii=False)  # type: ignore[arg-type]

    if host.lower() in words_kept() or not re.search("[a-z]{3}", host):
        return
    assert host not in told_of(host) or host in told_of("another-host")  # a word of every document tells nothing


def words_kept() -> set[str]:
    return set(FILE.read_text("utf-8").split())


def test_the_list_of_words_holds_what_naslab_says() -> None:
    """It may be older than the code: a word that is not in it is removed. Most must be there."""
    now, kept = words(("analysis", "audit")), words_kept()
    assert len(now - kept) < 0.05 * len(now), "run: python -m naslab.exchange.redact_words"
    assert not kept & {"tower", "backup", "photos", "qxz", "ann"}


def test_every_way_to_a_run_is_redacted(spied: Store, tmp_path: Path) -> None:
    assert type(store_for(spied.path, False)) is Store
    exported = tmp_path / "run.json"
    export([spied.load("last")], exported)
    outgoing = store_for(spied.path, True)
    run_id = spied.resolve("last")
    for run in (
        outgoing.load("last"),
        outgoing.load(run_id),
        outgoing.load_id(run_id),
        references.load(outgoing, str(exported)),
    ):
        assert leaks(run.document) == [] and run.document["target"]["url"].endswith("/share-1/folder-1")
        assert redact(run) is run


SAMPLES = Path(__file__).parent.parent / "samples"


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*[!.md]")), ids=lambda path: path.name)
def test_what_a_tool_told_stays(path: Path) -> None:
    """Which tool and format, which version, what it does not tell, and naslab's own warnings name nobody."""
    if path.name in ("fio_normal.txt", "README.md", "agent.jsonl"):  # the last is naslab's own
        return
    for run in read_file(path):
        source: Any = run.document["source"]
        clear: Any = redact(run).document
        for name in ("kind", "tool", "tool_version", "format", "unknown"):
            assert clear["source"][name] == source[name], name
        assert clear["target"]["protocol"] == run.document["target"]["protocol"]
        assert [clear["source"][name] for name in ("file", "title", "command_line", "sha256")] == [None] * 4
        assert [each["kind"] for each in clear["warnings"]] == [each["kind"] for each in run.document["warnings"]]


WAYS = {
    "runs": ("runs",),
    "runs --json": ("runs", "--json"),
    "show": ("show", "ID"),
    "compare": ("compare", "ID", "TWIN"),
    "compare --json": ("compare", "ID", "TWIN", "--json", "--report", "out.html"),
    "check": ("compare", "check", "TWIN", "--baseline", "ID", "--junit", "out.xml"),
    "explain": ("explain", "ID", "-o", "out.html"),
    "explain --json": ("explain", "ID", "--json"),
    "history": ("compare", "history", "qjzwvkjh2"),
    "history --json": ("compare", "history", "qjzwvkjh2", "--json", "--report", "out.html"),
    "audit": ("audit", "ID", "TWIN", "FILE"),
    "audit --json": ("audit", "ID", "TWIN", "FILE", "--json"),
}
"""Commands by which a run leaves the machine; the formats of export are above."""


@pytest.mark.parametrize("name", WAYS)
def test_no_command_tells_a_secret(
    name: str, spied: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = spied.load("last")
    twin = {**run.document, "run_id": "20261120-184000-twin", "start_wall_ns": run.document["start_wall_ns"] + 10**9}
    spied.save(twin, {c["id"]: {n: run.blob(c, n) for n in run.blob_names(c)} for c in run.cells})  # type: ignore[arg-type]
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "qxzwvkjh77.json"
    export(run, file)
    words_ = [{"ID": run.run_id, "TWIN": twin["run_id"], "FILE": str(file)}.get(w, w) for w in WAYS[name]]
    for redacted in (False, True):
        assert main([*map(str, words_), "--store", str(spied.path), *["--redact"] * redacted]) in (0, 1, 4)
        said = capsys.readouterr().out + "".join(_readable(path) for path in tmp_path.glob("out.*"))
        assert bool(SECRET.search(said)) != redacted, SECRET.findall(said)[:3]
        assert re.search(r"\b(?:host|file)-\d", said) or not redacted
        for path in tmp_path.glob("out.*"):
            path.unlink()


def test_an_audit_says_the_same_without_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is checked are the true numbers, and the words of the findings are naslab's own."""
    samples = Path(__file__).parent.parent / "samples"
    files = [str(samples / name) for name in ("NASPerf-APP.csv", "fio_jobs.json", "iozone_auto.txt", "elbencho.csv")]
    told = []
    for more in ([], ["--redact"]):
        main(["audit", *files, "--json", "--store", str(tmp_path / "none.sqlite"), *more])
        told.append(json.loads(capsys.readouterr().out)["audits"])
    assert [each["name"] for each in told[1]] == ["file-1", "file-2", "file-3", "file-4"]
    assert [each["findings"] for each in told[0]] == [each["findings"] for each in told[1]]
