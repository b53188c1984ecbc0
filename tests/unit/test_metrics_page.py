"""/metrics: the newest run of each target by Prometheus's own parser, its guard, its names; Grafana's queries."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

import naslab
from cli_tools import called
from docs_pages import ROOT
from fixtures_run import make_parts
from naslab.exchange import scrape
from naslab.exchange.samples import ALLOWED, ENDED, PROBABILITY, WARNINGS, WARNINGS_BY_KIND
from naslab.render.web.app import application
from naslab.render.web.metrics import MAX_TARGETS, Metrics
from naslab.results.store import Store
from naslab.results.store.library import Library

SMB = "smb://tester@nas.example/bench"
NFS = "nfs://filer.example/export"
SIM = "sim:?link_bytes_per_s=125MB"
TOKEN = "0123456789abcdef"


def save(store: Store, number: int, url: str, *, status: str = "complete", **more: Any) -> str:
    """A run that was the `number`th; its id."""
    document, blobs, spec = make_parts(
        ops=("write", "read"), file_sizes=(1 << 20,), record_sizes=(65536,), blocks=1, seed=number,
        run_id=f"20261120-1900{number:02}-abcd", start_wall_ns=1_795_201_000_000_000_000 + number * 10**10, **more,
    )  # fmt: skip
    document["target"] = {**document["target"], "url": url}
    document["status"] = status
    store.save(document, blobs, spec)
    return str(document["run_id"])


@pytest.fixture
def filled(store: Store) -> Store:
    """Two runs of one target, one of another that failed later."""
    save(store, 1, NFS)
    save(store, 2, SMB)
    save(store, 3, SMB, speed=0.5)
    save(store, 4, NFS, status="failed")
    return store


@pytest.fixture
def measured(filled: Store) -> Store:
    """And one with a verdict, of the simulated server."""
    naslab.measure(SIM, kind="sweep", file_size=["1m", "16m"], record="64k", tests="write,read", store=filled.path)
    return filled


def families(text: str) -> dict[str, Any]:
    return {family.name: family for family in text_string_to_metric_families(text)}


def samples(found: dict[str, Any], name: str) -> list[Any]:
    """Those of a family, which may have none."""
    return list(found[name].samples) if name in found else []


def ask(
    store: Store, path: str, redacted: bool = False, token: str | None = None, **headers: str
) -> tuple[int, dict[str, str], str]:
    """(status, headers, text) of one request."""
    library = Library(store)
    served = application(library, ("localhost",), token, Metrics(library, redacted))
    sent: list[Any] = []
    raw = [(name.encode(), value.encode()) for name, value in {"host": "localhost:8321", **headers}.items()]
    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "root_path": "",
             "query_string": b"", "headers": raw, "client": ("127.0.0.1", 1), "scheme": "http",
             "server": ("127.0.0.1", 8321), "http_version": "1.1", "asgi": {"version": "3.0"}}  # fmt: skip

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(served(scope, receive, send))
    found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], found, b"".join(part.get("body", b"") for part in sent[1:]).decode()


def test_the_newest_run_of_each_target(filled: Store) -> None:
    found = families(Metrics(Library(filled)).text())
    rates = found["naslab_throughput_bytes_per_second"].samples
    assert {(s.labels["target"], s.labels["run"]) for s in rates} == {
        (SMB, "20261120-190003-abcd"), (NFS, "20261120-190001-abcd")
    }  # fmt: skip
    for sample in rates:
        cell = filled.load(sample.labels["run"]).cell(int(sample.labels["cell"]))
        assert sample.value == cell["throughput_bytes_per_s"]
    ended = {s.labels["target"]: (s.labels["status"], s.labels["run"]) for s in found[ENDED.name].samples}
    assert ended == {SMB: ("complete", "20261120-190003-abcd"), NFS: ("failed", "20261120-190004-abcd")}


def test_verdict_and_warnings_are_the_runs(measured: Store) -> None:
    found = families(Metrics(Library(measured)).text())
    limits = naslab.Run.of(measured.load("last")).verdict().limits
    told = {tuple(s.labels[name] for name in ("op", "size", "limit")): s.value for s in found[PROBABILITY.name].samples}
    assert told and told == {(limit.op, limit.size, limit.kind): limit.probability for limit in limits}
    for unit, (family, scale) in ALLOWED.items():
        allowed = {
            tuple(s.labels[name] for name in ("op", "size", "limit")): s.value for s in samples(found, family.name)
        }
        assert allowed == pytest.approx(
            {(each.op, each.size, each.kind): (each.value or 0) * scale for each in limits if each.unit == unit}
        )
    counted = {s.labels["run"]: s.value for s in found[WARNINGS.name].samples}
    assert counted == {run_id: len(measured.load(run_id).document["warnings"]) for run_id in counted}
    kinds: dict[str, float] = {}
    for sample in found[WARNINGS_BY_KIND.name].samples:
        kinds[sample.labels["run"]] = kinds.get(sample.labels["run"], 0) + sample.value
    assert kinds == {run_id: count for run_id, count in counted.items() if count} != {}


def test_every_name_is_listed(measured: Store) -> None:
    told = {sample.name for family in families(Metrics(Library(measured)).text()).values() for sample in family.samples}
    assert told <= set(scrape.NAMES)
    page = (ROOT / "docs" / "guide" / "prometheus.md").read_text("utf-8")
    assert {name for name in re.findall(r"naslab_\w+", page) if name != "naslab_run"} <= set(scrape.NAMES)
    assert {family.name for family in scrape.OF_TARGETS} <= set(re.findall(r"naslab_\w+", page)), "the guide names each"


def test_a_new_run_appears(filled: Store) -> None:
    metrics = Metrics(Library(filled))
    before = metrics.text()
    assert metrics.text() == before
    newest = save(filled, 5, NFS)
    rates = families(metrics.text())["naslab_throughput_bytes_per_second"].samples
    assert newest in {sample.labels["run"] for sample in rates}
    assert "20261120-190001-abcd" not in metrics.text()


def test_only_the_targets_measured_last(store: Store) -> None:
    for number in range(MAX_TARGETS + 2):
        save(store, number, f"nfs://host{number}/export")
    ended = families(Metrics(Library(store)).text())[ENDED.name].samples
    assert {s.labels["target"] for s in ended} == {f"nfs://host{n}/export" for n in range(2, MAX_TARGETS + 2)}


def test_a_damaged_run_is_told(filled: Store) -> None:
    with filled.write() as db:
        db.execute("UPDATE cells SET document = '{' WHERE run_id = '20261120-190003-abcd'")
    found = families(Metrics(Library(filled)).text())
    assert {s.labels["target"]: s.labels["status"] for s in found[ENDED.name].samples}[SMB] == "damaged"
    assert {s.labels["target"] for s in found["naslab_throughput_bytes_per_second"].samples} == {NFS}


def test_without_names(filled: Store) -> None:
    text = Metrics(Library(filled), redacted=True).text()
    for name in ("tester", "nas.example", "bench", "filer", "export"):
        assert name not in text
    found = families(text)
    targets = {s.labels["target"] for s in found[ENDED.name].samples}
    assert targets == {s.labels["target"] for s in found["naslab_throughput_bytes_per_second"].samples}
    assert targets == {"nfs://host-1/share-1", "smb://host-2/share-2"}
    save(filled, 9, "smb://later.example/other")
    again = families(Metrics(Library(filled), redacted=True).text())[ENDED.name].samples
    assert {s.labels["target"] for s in again} > targets, "a later target changes no earlier name"


def test_redacted_is_the_only_page(filled: Store) -> None:
    assert ask(filled, "/metrics", redacted=True)[0] == 200
    for path in ("/", "/run/20261120-190003-abcd/", "/run/20261120-190003-abcd/run.json", "/overlay/"):
        status, _, text = ask(filled, path, redacted=True)
        assert status == 404 and "nas.example" not in text, path
    assert ask(filled, "/")[0] == 200


def test_the_token_guards_it(filled: Store) -> None:
    status, headers, text = ask(filled, "/metrics", token=TOKEN)
    assert status == 401 and "naslab_" not in text
    status, headers, text = ask(filled, "/metrics", token=TOKEN, authorization=f"Bearer {TOKEN}")
    assert status == 200 and headers["content-type"] == scrape.MEDIA_TYPE and ENDED.name in text
    assert ask(filled, "/metrics", host="evil.example")[0] == 400


def test_an_empty_library_has_an_empty_page(store: Store) -> None:
    assert Metrics(Library(store)).text() == ""


def test_no_page_unless_asked_for(filled: Store) -> None:
    library = Library(filled)
    assert not any("metrics" in str(route) for route in application(library).app.routes)  # type: ignore[attr-defined]


def test_redact_needs_metrics(tmp_path: Path) -> None:
    done = called(["serve", "--redact"], tmp_path, {"NASLAB_STORE": str(tmp_path / "runs.sqlite")})
    assert done.code == 2 and done.err.count("\n") == 1 and "--metrics" in done.err


def queries() -> Iterator[str]:
    """Those of the dashboard, its variable among them."""
    board = json.loads((ROOT / "docs" / "grafana" / "naslab.json").read_text("utf-8"))
    yield from (target["expr"] for panel in board["panels"] for target in panel["targets"])
    yield from (each["query"]["query"] for each in board["templating"]["list"] if each["type"] == "query")


def test_grafana_asks_for_what_there_is(measured: Store) -> None:
    found = [
        sample for family in families(Metrics(Library(measured)).text()).values() for sample in family.samples
    ]  # fmt: skip
    asked = list(queries())
    assert len(asked) >= 8
    for query in asked:
        (name,) = re.findall(r"naslab_\w+", query)
        assert name in scrape.NAMES, query
        labels = {label for sample in found if sample.name == name for label in sample.labels}
        used = set(re.findall(r"(\w+)=~?\"", query))
        used |= {label for group in re.findall(r"by \(([^)]*)\)", query) for label in group.split(", ")}
        used |= set(re.findall(r"label_values\(\w+, (\w+)\)", query))
        assert used and used <= labels, f"{query}: {used - labels}"
