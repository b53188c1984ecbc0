"""`naslab security` on real servers that allow all, demand signing or encryption, or know one cipher."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from cli_tools import Cli, need
from naslab.commands.plans.security import LOADS, combinations
from naslab.lab import running
from naslab.results.schema import json_schema

pytestmark = pytest.mark.lab

SIGNED = ["signed HMAC-SHA256", "signed AES-CMAC", "signed AES-GMAC"]
SEALED = [f"encrypted AES-{bits}-{mode}" for bits in (128, 256) for mode in ("CCM", "GCM")]
SERVERS: dict[str, tuple[dict[str, Any], list[str], str]] = {
    "any": ({}, ["plain", *SIGNED, *SEALED], ""),
    "signing": ({"signing": "mandatory"}, [*SIGNED, *SEALED], "the server requires signed messages"),
    "encryption": ({"encrypt": "required"}, SEALED, "the server requires encryption"),
    "cipher": (
        {"encrypt": "required", "config": {"server smb3 encryption algorithms": "AES-256-GCM"}}, SEALED[-1:],
        "does not know the cipher aes-128-ccm",
    ),
    "old": ({"max_dialect": "3.0"}, ["plain", SIGNED[1], SEALED[0]], "SMB 3.0 signs only with aes-cmac"),
}  # fmt: skip


@pytest.fixture(scope="module", params=SERVERS)
def priced(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The price list of a server: (cli, server, the run's document, combinations that it allows, a reason)."""
    need(shutil.which("smbd", path="/usr/sbin:/usr/bin"), "smbd")
    options, allowed, reason = SERVERS[request.param]
    cli = Cli(tmp_path_factory.mktemp("security"))
    with running("samba", fast=True, **options) as server:
        words = ("--credentials", server.credentials, "--repeat", 3, "--budget", "8s", "--json", "-o", "prices.html")
        document = cli("security", server.url, *words).ok().json()
        yield cli, server, document, allowed, reason


def test_allowed_combinations_are_measured_and_the_others_say_why(priced: Any) -> None:
    _, server, document, allowed, reason = priced
    jsonschema.validate(document, json_schema())
    found = document["security"]
    assert found["baseline"] == allowed[0] and found["ended"] in ("repeats", "budget")
    rows = {row["name"]: row for row in found["combinations"]}
    assert [name for name, row in rows.items() if row["state"] == "measured"] == allowed
    assert [row.name for row in combinations("smb")] == [n for n, r in rows.items() if r["state"] != "not_spoken"]
    refused = [row["reason"] for row in rows.values() if row["state"] == "refused"]
    assert (not reason and not refused) or any(reason in said for said in refused)
    for name in allowed:
        loads = rows[name]["loads"]
        assert [(each["op"], each["record_bytes"], each["queue_depth"]) for each in loads] == list(LOADS)
        assert all(each["throughput"]["value"] > 0 < each["latency"]["value"] for each in loads)
        # Three rounds are measured even where the budget is gone, unless it is gone twice over: fewer have no interval.
        rounds = {each["n"] for each in loads}
        assert rounds == {3} or (found["ended"] == "budget" and rounds <= {1, 2, 3})
        assert all(each["cpu"]["value"] for each in loads)
        assert name == allowed[0] or rounds != {3} or all(each["throughput"]["ratio_ci95"] for each in loads)
        kind, _, algorithm = name.partition(" ")
        assert rows[name]["encryption"] == (algorithm.lower() if kind == "encrypted" else "none")
        if kind != "encrypted":
            assert rows[name]["signing"] == (algorithm.lower() or "none")
    assert not list(server.data.glob("naslab*"))


def test_its_runs_are_one_group_of_the_library(priced: Any) -> None:
    cli, _, document, allowed, _ = priced
    runs = cli.runs()
    assert [run["labels"]["security"] for run in reversed(runs)] == allowed
    assert len({run["interleaved"]["id"] for run in runs}) == 1 and {run["status"] for run in runs} == {"complete"}
    assert sum("security" in run for run in runs) == 1
    shown = cli("show", document["run_id"]).ok().out
    assert all(name in shown for name in allowed) and "SMB over QUIC (TLS 1.3)" in shown
    html = (cli.folder / "prices.html").read_text(encoding="utf-8")
    assert all(name in html for name in allowed)
    if len(runs) > 1:
        ids = [run["run_id"] for run in reversed(runs)]
        (compared,) = cli("compare", ids[0], ids[-1], "--json").sound().json()["comparisons"]
        assert compared["paired"] and {each["workload"] for each in compared["measurements"]} == {"security"}
        cli("report", *ids, "-o", "all.html").ok()


def test_an_export_without_kerberos_has_one_way_and_the_others_say_why(cli: Cli) -> None:
    need(shutil.which("ganesha.nfsd", path="/usr/sbin:/usr/bin"), "ganesha.nfsd")
    cli.env["KRB5CCNAME"] = str(cli.folder / "none")
    with running("ganesha", fast=True) as server:
        document = cli("security", server.url, "--repeat", 4, "--budget", "2s", "--json").ok().json()
    rows = {row["name"]: row["state"] for row in document["security"]["combinations"]}
    assert rows == {
        "plain (sec=sys)": "measured", "authenticated krb5": "refused", "signed krb5i": "refused",
        "encrypted krb5p": "refused", "encrypted TLS": "refused",
    }  # fmt: skip
    reasons = {row["name"]: row["reason"] for row in document["security"]["combinations"] if row["state"] == "refused"}
    assert "the server does not offer TLS" in reasons.pop("encrypted TLS")
    assert all("Kerberos" in reason and "kinit" in reason for reason in reasons.values()), reasons


def test_a_wrong_password_is_said_once_and_nothing_is_stored(cli: Cli) -> None:
    need(shutil.which("smbd", path="/usr/sbin:/usr/bin"), "smbd")
    with running("samba", fast=True) as server:
        done = cli("security", server.url, env={**cli.env, "NASLAB_PASSWORD": "wrong"})
    assert done.code == 2 and done.err.count("refuses the login of user") == 1 and not cli.runs()
