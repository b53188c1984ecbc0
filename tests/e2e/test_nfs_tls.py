"""`xprtsec=tls` and `mtls` through a front of OpenSSL's before the demo server: what is trusted, refused and sealed."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from certificates import Authority, Made
from cli_tools import Cli, Done
from faults import relay
from naslab import lab
from naslab.results.outages import outages_of
from tls_front import front

SMALL = ("--file-size", "1m", "--record", "4k,64k", "--depth", "8", "--verify")
MOUNT = 100_005


@dataclass
class Place:
    """A server, and authorities of which one has signed its certificate."""

    server: lab.Server
    authority: Authority
    stranger: Authority
    good: Made

    def url(self, port: int, more: str = "", host: str = "127.0.0.1") -> str:
        path = self.server.url.partition("?")[0].split("/", 3)[3]
        return f"nfs://{host}:{port}/{path}?version=3&mountport={port}&xprtsec=tls{more}"

    def trusting(self, port: int, more: str = "", host: str = "127.0.0.1") -> str:
        return self.url(port, f"&tlscacert={self.authority.certificate}{more}", host)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("certificates")
    authority = Authority(folder)
    with lab.running("demo") as server:
        yield Place(server, authority, Authority(folder, "stranger"), authority.sign("good"))


Here = Callable[..., Done]


def refused(here: Here, url: str, *more: str) -> tuple[int, str]:
    """Exit code and error of a command that must fail, with no run stored."""
    done = here("run", url, "--budget", "10s", "--quiet", *more).sound()
    assert done.code in (1, 2) and done.err.startswith("naslab: "), f"{done.code}: {done.err}"
    return done.code, " ".join(done.err.split())


def cells(document: Any) -> list[Any]:
    found: list[Any] = document["cells"]
    assert found and all(cell["status"] == "complete" and not cell["errors"] for cell in found)
    checked = [cell["verified"] for cell in found if cell["verified"]]
    assert checked and all(each["blocks"] > 0 and each["bad"] == 0 for each in checked)
    return found


def test_a_verified_sweep_at_depth_is_sealed_and_told(place: Place, cli: Cli) -> None:
    with front(place.server.port, place.good.context()) as before:
        url = place.trusting(before.port, "&connections=2")
        document = cli("sweep", url, *SMALL, "--json").ok().json()
        # The question for TLS is all that went in the clear: the mount service was asked, too.
        assert before.asked >= 4 and before.in_the_clear == [] and before.not_records == []
        assert before.inner_bytes > 2 << 20
    told = document["target"]
    assert (told["xprtsec"], told["tls_version"], told["encryption"]) == ("tls", "1.3", "aes-256-gcm")
    assert told["tls_cipher_suite"] == "TLS_AES_256_GCM_SHA384" and told["signing"] is None
    assert document["environment"]["target"]["mount_tls"] == "yes"
    for cell in cells(document):
        moved = cell["wire_sent_bytes"] if cell["op"].endswith("write") else cell["wire_received_bytes"]
        # Sealed bytes, with the heads and tags of their records: 22 bytes for each 16 KiB at least.
        assert moved > cell["bytes"] + 22 * (cell["bytes"] >> 14), cell["op"]


def test_bytes_on_the_wire_are_those_of_the_socket(place: Place, cli: Cli) -> None:
    with front(place.server.port, place.good.context()) as before:
        document = (
            cli("sweep", place.trusting(before.port), "--file-size", "1m", "--record", "64k", "--json").ok().json()
        )
        sent = sum(cell["wire_sent_bytes"] for cell in document["cells"])
        # Set-up and metadata belong to no cell.
        assert 0 <= before.raw_bytes - sent < 64 << 10 < before.inner_bytes
        assert before.inner_bytes < before.raw_bytes


def test_rsa_and_names(place: Place, here: Here) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    made = place.authority.sign("rsa", ("localhost",), key=key)
    with front(place.server.port, made.context()) as before:
        found = here("doctor", place.trusting(before.port, host="localhost"), "--json").ok().json()
        assert found["usable"] and found["offers_tls"] is True
        assert "tls" not in [one["kind"] for one in found["advice"]]
        _, said = refused(here, place.trusting(before.port))
        assert "certificate is for localhost, not for 127.0.0.1: name the server as the certificate does" in said


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("refuse", "the server does not offer TLS (RFC 9289: AUTH_REJECTEDCRED)"),
        ("ignore", "the server does not offer TLS (RFC 9289: it answers as if it had not been asked)"),
        ("hang_up", "closed the connection when it was asked for TLS"),
        ("cut", "closed the connection in the TLS handshake"),
        ("half", "to the question whether it offers TLS"),
        ("mute", "to the question whether it offers TLS"),
    ],
)
def test_servers_without_tls_are_told(place: Place, here: Here, way: str, words: str) -> None:
    with front(place.server.port, place.good.context(), way) as before:
        _, said = refused(here, place.trusting(before.port), "--timeout", "1s")
        assert words in said, said
        assert before.in_the_clear == [], "nothing is sent in the clear after TLS was asked for"


def test_certificates_that_are_not_taken(place: Place, here: Here) -> None:
    cases: list[tuple[ssl.SSLContext, str, str]] = [
        (place.stranger.sign("foreign").context(), "", "no authority that is trusted here"),
        (place.authority.sign("old", left=timedelta(days=-3)).context(), "", "certificate expired on 20"),
        (place.authority.sign("other", ("nas.example",)).context(), "", "is for nas.example, not for 127.0.0.1"),
        (place.good.context(alpn=""), "", "does not name the protocol sunrpc (ALPN)"),
        (place.good.context(alpn="h2"), "", "ALPN"),
        (place.good.context(clients_of=place.authority.certificate), "", "asks for a certificate of this client"),
    ]
    for context, more, words in cases:
        with front(place.server.port, context) as before:
            _, said = refused(here, place.trusting(before.port, more))
            assert words in said, said
            assert before.in_the_clear == []


def test_unchecked_certificates_are_taken_on_demand_alone(place: Place, here: Here) -> None:
    made = place.stranger.sign("unknown", ("nas.example",), left=timedelta(days=-3))
    with front(place.server.port, made.context()) as before:
        assert here("doctor", place.url(before.port, "&tlsverify=off"), "--json").ok().json()["usable"]
        _, said = refused(here, place.url(before.port))
        assert "trusted" in said or "expired" in said


def test_clients_prove_themselves(place: Place, here: Here) -> None:
    client, foreign = place.authority.sign("client", ("client.example",)), place.stranger.sign("foreigner")
    context = place.good.context(clients_of=place.authority.certificate)

    def url(port: int, one: Made) -> str:
        return place.trusting(port, f"&tlscert={one.certificate}&tlskey={one.key}").replace("=tls&", "=mtls&")

    with front(place.server.port, context) as before:
        found = here("doctor", url(before.port, client), "--json").ok().json()
        assert found["usable"] and found["negotiated"]["xprtsec"] == "mtls"
        _, said = refused(here, url(before.port, foreign))
        assert "does not take this client's certificate" in said, said


def test_options_that_cannot_be_used_are_named(place: Place, here: Here, tmp_path: Path) -> None:
    folder = tmp_path / "x"
    folder.mkdir()
    good, key, port = place.good.certificate, place.good.key, place.server.port
    none = place.url(port).replace("=tls", "=none")
    cases = {
        place.url(port).replace("=tls", "=ssl"): "xprtsec='ssl'; use none, tls or mtls",
        none + f"&tlscacert={good}": "tlscacert= need TLS: give xprtsec=tls",
        none + "&tlsverify=off": "tlsverify= need TLS",
        place.url(port, f"&tlscert={good}"): "tlscert= is shown with xprtsec=mtls only",
        place.url(port, f"&tlscert={good}").replace("=tls", "=mtls"): "give both tlscert=FILE and tlskey=FILE",
        place.trusting(port, "&tlsverify=off"): "tlsverify=off checks no certificate",
        place.url(port, "&tlscacert="): "tlscacert= names no file",
        place.url(port, f"&tlscacert={folder}/none.pem"): "none.pem: the file cannot be read",
        place.url(port, f"&tlscacert={key}"): "holds no certificate in PEM form",
        place.trusting(port, f"&tlscert={good}&tlskey={good}").replace("=tls&", "=mtls&"): "holds no private key",
        "smb://nas/share?xprtsec=tls": "xprtsec= is an option of nfs://",
    }
    for url, words in cases.items():
        code, said = refused(here, url)
        assert code == 2 and words in said, f"{url}: {said}"
        assert key.read_text().split("\n")[1] not in said
    assert not list(place.server.data.glob("naslab-*"))


@pytest.mark.parametrize("mode", ["close", "reset", "freeze", "half", "garbage", "noise"])
def test_broken_records_end_the_command(place: Place, cli: Cli, mode: str) -> None:
    with front(place.server.port, place.good.context()) as before, relay(before.port) as way:
        way.break_after(60_000, mode)
        done = cli(
            "sustained", place.trusting(way.port), "--size", "4m", "--duration", "20s", "--timeout", "1s"
        ).sound()
        assert way.broken and done.code == 1, f"exit {done.code}: {done.err}"
    (run,) = cli.runs()
    assert run["status"] == "failed"


def test_an_outage_is_waited_out_and_tls_is_asked_for_again(place: Place, cli: Cli) -> None:
    with front(place.server.port, place.good.context()) as before, relay(before.port) as way:
        way.close_every(200_000, 2)
        url = place.trusting(way.port)
        load = ("--size", "4m", "--block", "64k", "--depth", "8", "--duration", "2s")
        done = cli("sustained", url, *load, "--ride-out", "30s", "--json").ok().json()
        assert way.closings_left == 0
        assert before.in_the_clear == [] and before.not_records == []
    assert len(outages_of(done)) == 2


def test_doctor_says_what_the_server_offers(place: Place, here: Here) -> None:
    plain = place.url(0).replace("&xprtsec=tls", "")
    with front(place.server.port, place.good.context()) as before:
        found = (
            here("doctor", plain.replace(":0/", f":{before.port}/").replace("=0", f"={before.port}"), "--json")
            .ok()
            .json()
        )
        assert found["offers_tls"] is True and found["usable"]
        (hint,) = [one for one in found["advice"] if one["kind"] == "tls"]
        assert hint["severity"] == "hint" and "?xprtsec=tls" in hint["message"]
        assert MOUNT in {program for program, _ in before.in_the_clear}
    port = place.server.port
    found = here("doctor", plain.replace(":0/", f":{port}/").replace("=0", f"={port}"), "--json").ok().json()
    assert found["offers_tls"] is False and found["usable"]


def test_the_price_list_has_tls(place: Place, cli: Cli) -> None:
    with front(place.server.port, place.good.context()) as before:
        words = ("security", place.trusting(before.port), "--repeat", "3", "--budget", "4s", "--json")
        found = cli(*words).ok().json()["security"]
    rows = {row["name"]: row for row in found["combinations"]}
    assert found["baseline"] == "plain (sec=sys)" and rows["encrypted TLS"]["state"] == "measured"
    assert rows["encrypted TLS"]["encryption"] == "aes-256-gcm" and rows["plain (sec=sys)"]["encryption"] is None
    assert all(load["cpu"]["value"] is not None for load in rows["encrypted TLS"]["loads"])
    assert rows["encrypted krb5p"]["state"] == "refused"
    # The server itself has no TLS.
    url = place.trusting(place.server.port)
    found = cli("security", url, *words[2:]).ok().json()["security"]
    (row,) = [row for row in found["combinations"] if row["name"] == "encrypted TLS"]
    assert row["state"] == "refused" and "does not offer TLS" in row["reason"]
