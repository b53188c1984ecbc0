"""The library's application: who may read, what no address reaches, that foreign text stays text; sites as files."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from starlette.datastructures import Headers as WebHeaders

from fixtures_run import make_parts
from naslab.errors import UsageError
from naslab.render.web.app import application
from naslab.render.web.connections import source_of
from naslab.render.web.failures import MAX_SOURCES, REST_S, Failures
from naslab.render.web.guard import COOKIE, HEADERS, Guard, cookie_of, host_allowed
from naslab.render.web.html import Html, tag
from naslab.render.web.live import news
from naslab.render.web.server import Where, listen_on, token_of
from naslab.render.web.site import MANIFEST, Chosen, write_site
from naslab.results.store import Store
from naslab.results.store.library import Library

RUN = "20261120-184000-x7k2"
HOSTILE = '<script>hit=1</script>"onmouseover=hit=1 <img src=x>'
TOKEN = "0123456789abcdef"


@pytest.fixture
def library(store: Store) -> Library:
    document, blobs, spec = make_parts(ops=("read",), file_sizes=(1 << 20, 4 << 20), label=HOSTILE)
    store.save(document, blobs, spec)
    other, blobs, spec = make_parts(ops=("read",), file_sizes=(1 << 20, 4 << 20), run_id="../../etc/passwd.json")
    store.save({**other, "labels": {"device": HOSTILE}}, blobs, spec)
    return Library(store)


def ask(
    library: Library, path: str, query: str = "", method: str = "GET", token: str | None = None, body: bytes = b"",
    **headers: str,
) -> tuple[int, dict[str, str], str]:  # fmt: skip
    """(status, headers, text) of one request to the application, without a network."""
    sent: list[dict[str, Any]] = []
    names = {"host": "localhost:8321", **{name.replace("_", "-"): value for name, value in headers.items()}}
    raw = [(name.encode(), value.encode()) for name, value in names.items()]
    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
             "path": path, "raw_path": path.encode(), "root_path": "", "query_string": query.encode(), "headers": raw,
             "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8321)}  # fmt: skip

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(application(library, ("localhost",), token)(scope, receive, send))  # type: ignore[arg-type]
    found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], found, b"".join(part.get("body", b"") for part in sent[1:]).decode("utf-8", "replace")


def test_every_answer_carries_the_strict_headers(library: Library) -> None:
    for path in ("/", f"/run/{RUN}/", f"/run/{RUN}/run.json", "/static/none.js", "/nothing", "/overlay/", "/rank/"):
        _, headers, _ = ask(library, path)
        assert {name.lower(): value for name, value in HEADERS.items()}.items() <= headers.items(), path
        policy = headers["content-security-policy"]
        assert "unsafe-eval" not in policy and "script-src 'self';" in policy and "frame-ancestors 'none'" in policy


@pytest.mark.parametrize("path", ["/", "/overlay/", "/rank/", "/compare/", f"/run/{RUN}/", f"/live/{RUN}/"])
def test_foreign_text_stays_text(library: Library, path: str) -> None:
    status, _, text = ask(library, path, f"run={RUN}" if path == "/overlay/" else "")
    assert status == 200
    assert "<script>hit" not in text and '"onmouseover' not in text and "<img" not in text


def test_html_is_escaped_by_type() -> None:
    assert tag("a", "<b>", href='"x', title=None, hidden=True) == '<a href="&quot;x" hidden>&lt;b&gt;</a>'
    assert tag("p", Html("<b>1</b>"), "&") == "<p><b>1</b>&amp;</p>"


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/%2e%2e/app.py", "/run/..%2f..%2fetc%2fpasswd.json/", "/run/x/run.html",
     "/run/../../etc/passwd/", "/static/style.css", "/run/%2Fetc%2Fpasswd/run.json"],
)  # fmt: skip
def test_no_address_reaches_a_file(library: Library, path: str) -> None:
    status, _, text = ask(library, path)
    assert status in (404, 400) and "root:" not in text and str(library.store.path) not in text


def test_an_id_that_looks_like_a_file_is_a_run(library: Library, tmp_path: Path) -> None:
    """Ids come from imported files; the run opens by its id, and no file is read for it."""
    ids = [run.run_id for run in library.store.list_runs()]
    assert "../../etc/passwd.json" in ids
    status, _, text = ask(library, "/overlay/", "run=../../etc/passwd.json")
    assert status == 200 and "overlay-rate" in text
    site = write_site(library.store, Chosen((RUN,)), tmp_path / "s")
    assert {path.name for path in site.iterdir()} >= {"index.html", "run", MANIFEST}


@pytest.mark.parametrize(
    ("given", "fits"),
    [(["localhost:8321"], True), (["127.0.0.1"], True), (["[::1]:8321"], True), (["192.0.2.7:80"], True),
     (["evil.example"], False), (["localhost.evil.example"], False), (["127.0.0.1.evil.example:80"], False),
     ([], False), (["localhost", "evil.example"], False), (["localhost:x"], False), (["[::1]evil"], False),
     (["nas.home"], True)],
)  # fmt: skip
def test_only_known_hosts_are_answered(given: list[str], fits: bool) -> None:
    assert host_allowed(given, ("localhost", "nas.home")) == fits


def test_a_rebound_name_sees_nothing(library: Library) -> None:
    status, _, text = ask(library, "/", host="evil.example")
    assert status == 400 and RUN not in text


def test_the_token_is_asked_of_everything(library: Library) -> None:
    for path in ("/", f"/run/{RUN}/run.json", "/static/none", f"/events/{RUN}"):
        status, headers, text = ask(library, path, token=TOKEN)
        assert status == 401 and "Bearer" in headers["www-authenticate"] and TOKEN not in text and RUN not in text
    wrong = {"authorization": f"Bearer {TOKEN}x"}, {"authorization": TOKEN}, {"cookie": f"{COOKIE}={TOKEN}"}
    assert [ask(library, "/", token=TOKEN, **one)[0] for one in wrong] == [401] * 3
    right = {"authorization": f"bearer {TOKEN}"}, {"cookie": f"a=b; {COOKIE}={cookie_of(TOKEN)}"}
    assert [ask(library, "/", token=TOKEN, **one)[0] for one in right] == [200] * 2


def test_the_form_makes_a_cookie_and_nothing_else_is_posted(library: Library) -> None:
    status, headers, _ = ask(library, "/login", method="POST", token=TOKEN, body=f"token={TOKEN}".encode())
    assert status == 303 and headers["location"] == "/"
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and TOKEN not in cookie
    status, _, text = ask(library, "/login", method="POST", token=TOKEN, body=b"token=no", accept="text/html")
    assert status == 403 and 'type="password"' in text
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert ask(library, "/", method=method)[0] == 405


@pytest.mark.parametrize(
    ("path", "query", "said"),
    [("/", "page=0", "page=0"), ("/", "page=x", "whole number"), ("/rank/", "test=none", "test=none"),
     ("/rank/", "measure=x", "choose one of rate, p50, p99"), ("/overlay/", "device=none", "has no run of it"),
     ("/overlay/", "run=nothing", "no run"), ("/compare/", f"run={RUN}&run={RUN}%2C{RUN}", "named twice")],
)  # fmt: skip
def test_wrong_questions_are_answered_in_words(library: Library, path: str, query: str, said: str) -> None:
    status, _, text = ask(library, path, query)
    assert status in (400, 404) and said in text
    assert str(library.store.path) not in text


def test_an_overlay_of_devices_takes_a_test_they_have(library: Library) -> None:
    """Most runs have Read; a device that has only Write is shown by Write, and by Read with a word on what it has."""
    document, blobs, _ = make_parts(ops=("write",), file_sizes=(1 << 20, 4 << 20), run_id="w1")
    library.store.save({**document, "labels": {"device": "writer"}}, blobs)
    assert library.tests_of_devices(["writer"]) == ["write"] and library.facets()["test"][0][0] == "read"
    status, _, text = ask(library, "/overlay/", "device=writer")
    assert status == 200 and "overlay-rate" in text and '<option value="write" selected>' in text
    status, _, text = ask(library, "/overlay/", "device=writer&test=read")
    assert status == 200 and "Left out, without a run of the test Read" in text
    assert 'href="../overlay/?device=writer&amp;test=write"' in text and "overlay-rate" not in text
    assert '<input type="checkbox" name="device" value="writer" checked>' in text


def test_a_device_that_the_form_does_not_list_is_drawn_and_ticked(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the devices measured last have boxes of their own; an address may name any."""
    from naslab.render.web import overlay

    monkeypatch.setattr(overlay, "MOST_DEVICES", 1)
    for number in (1, 2):
        document, blobs, _ = make_parts(
            ops=("read",), file_sizes=(1 << 20, 4 << 20), run_id=f"n{number}", start_wall_ns=number * 10**9
        )
        library.store.save({**document, "labels": {"device": f"old {number}"}}, blobs)
    status, _, text = ask(library, "/overlay/", "device=old+1")
    assert status == 200 and "overlay-rate" in text
    assert '<input type="checkbox" name="device" value="old 1" checked>' in text and 'value="old 2"' not in text


def test_downloads_are_whole(library: Library) -> None:
    status, headers, text = ask(library, f"/run/{RUN}/run.json")
    assert status == 200 and headers["content-disposition"] == f'attachment; filename="naslab-{RUN}.json"'
    assert json.loads(text)["run_id"] == RUN
    _, headers, text = ask(library, f"/run/{RUN}/run.csv")
    cells = library.store.load_id(RUN).cells
    assert headers["content-type"].startswith("text/csv") and text.count("\n") == len(cells) + 1


def test_pages_are_kept_until_the_store_changes(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    from naslab.render.web.cache import Pages

    pages, made = Pages(library), list[str]()

    def make() -> str:
        made.append("x")
        return f"page {len(made)}"

    assert [pages.get("a", make), pages.get("a", make)] == ["page 1"] * 2
    with Store(library.store.path) as other:
        other.update_run(RUN, note="changed")
    assert pages.get("a", make) == "page 2"


def test_news_come_once_and_tell_the_end(store: Store) -> None:
    document, blobs, _ = make_parts(ops=("read",), file_sizes=(1 << 20,), run_id="r1")
    cells = document["cells"]
    store.create_run({**document, "cells": [], "warnings": [], "status": "running"})
    assert news(store, "r1", 0).status == "running"
    store.add_cell("r1", cells[0], blobs[cells[0]["id"]])
    first = news(store, "r1", 0)
    assert [cell["row"][0] for cell in first.cells] == ["Read"]
    assert first.cells[0]["mb_per_s"] == cells[0]["throughput_bytes_per_s"] / 1e6
    assert news(store, "r1", first.last).cells == []
    store.finish_run("r1", "complete")
    assert news(store, "r1", first.last).status == "complete"


def test_failed_logins_wait_longer_and_longer_by_address() -> None:
    waited: list[float] = []
    now = [0.0]

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    failures = Failures(sleep, lambda: now[0])
    for _ in range(8):
        asyncio.run(failures.failed("10.0.0.1"))
    assert waited == [0.5, 1, 2, 4, 8, 8], "two mistakes are free"
    asyncio.run(failures.failed("10.0.0.2"))
    assert len(waited) == 6, "another address pays nothing"
    failures.right("10.0.0.1")
    assert failures.delay_s("10.0.0.1") == 0
    for _ in range(8):
        asyncio.run(failures.failed("10.0.0.3"))
    now[0] += REST_S
    assert failures.delay_s("10.0.0.3") == 0
    for at in range(2 * MAX_SOURCES):
        asyncio.run(failures.failed(str(at)))
    assert len(failures._seen) == MAX_SOURCES


def test_wrong_tokens_are_failures_and_none_is_not(library: Library) -> None:
    guard = application(library, ("localhost",), TOKEN)
    assert isinstance(guard, Guard)
    for headers, known in (
        ({}, None), ({"authorization": "Bearer wrong"}, False), ({"cookie": f"{COOKIE}=wrong"}, False),
        ({"authorization": f"Bearer {TOKEN}"}, True), ({"cookie": f"{COOKIE}={cookie_of(TOKEN)}"}, True),
        ({"cookie": f"{COOKIE}={cookie_of(TOKEN)}", "authorization": "Basic x"}, True),
    ):  # fmt: skip
        assert guard._knows(WebHeaders(headers)) is known, headers


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("10.0.0.1", "10.0.0.1"), ("::1", "::1"), ("2001:db8::1:2:3:4", "2001:db8::/64"), ("", ""), ("x", "x"),
        ("::ffff:10.0.0.1", "10.0.0.1"), ("fe80::1%eth0", "fe80::/64"),
    ],
)  # fmt: skip
def test_one_owner_of_a_network_is_one_source(address: str, source: str) -> None:
    assert source_of(address) == source


@pytest.mark.parametrize(
    ("listen", "token", "said"),
    [("0.0.0.0:80", "", "--token auto"), ("host.example:80", "", "is not an address"),
     ("127.0.0.1:x", "", "is not a port"), ("127.0.0.1:99999", "", "is not a port"),
     ("0.0.0.0:80", "short", "16 characters")],
)  # fmt: skip
def test_bad_addresses_and_tokens_are_refused(listen: str, token: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        token_of(token, listen_on(listen))


def test_good_addresses_and_tokens() -> None:
    assert listen_on("8321") == Where("127.0.0.1", 8321)
    assert listen_on("[::1]:0") == Where("::1", 0)
    assert token_of("", listen_on("localhost:1")) is None
    assert len(token_of("auto", Where("0.0.0.0", 1)) or "") >= 32


def test_a_site_is_whole_and_replaced_only_where_it_is_ours(library: Library, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    written = write_site(library.store, Chosen(), site)
    names = {str(path.relative_to(written)) for path in written.rglob("*") if path.is_file()}
    assert {f"run/{RUN}/{name}" for name in ("index.html", "run.json", "run.csv", "run.xlsx")} <= names
    assert {"index.html", "overlay/index.html", "rank/index.html", "compare/index.html"} <= names
    assert set(json.loads((site / MANIFEST).read_text())["files"]) == names - {MANIFEST}
    for name in names:
        if name.endswith(".html"):
            assert "<script>" not in (site / name).read_text() and "http://" not in (site / name).read_text()
    write_site(library.store, Chosen((RUN,)), site)
    assert [path.name for path in (site / "run").iterdir()] == [RUN]
    (site / "mine.txt").write_text("keep")
    with pytest.raises(UsageError, match=r"did not write mine\.txt"):
        write_site(library.store, Chosen((RUN,)), site)
    assert (site / "mine.txt").read_text() == "keep"


def test_a_site_refuses_folders_of_others(library: Library, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("keep")
    with pytest.raises(UsageError, match="not empty"):
        write_site(library.store, Chosen(), tmp_path)
    with pytest.raises(UsageError, match="is a file"):
        write_site(library.store, Chosen(), tmp_path / "a.txt")
    assert [path for path in tmp_path.iterdir() if path.name.endswith(".part")] == []
