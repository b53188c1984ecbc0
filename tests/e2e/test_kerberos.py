"""`auth=kerberos` against a real Samba with the keytab of a private MIT realm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from cli_tools import Cli
from kerberos_lab import REALM, SMALL, Realm, all_verified, failure, holds, realm, without_the_library
from lab_tools import need_system
from naslab.lab import running
from naslab.lab.server import Server

pytestmark = pytest.mark.lab


@dataclass
class Place:
    realm: Realm
    server: Server

    def url(self, query: str = "", host: str = "localhost", user: str = "") -> str:
        return f"smb://{user}{host}:{self.server.port}/data?auth=kerberos{query}"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    need_system("samba")
    with realm(tmp_path_factory.mktemp("realm")) as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRB5_CONFIG", str(made.folder / "krb5.conf"))
        config = {
            "realm": REALM, "kerberos method": "dedicated keytab",
            "dedicated keytab file": str(made.folder / "cifs.keytab"),
        }  # fmt: skip
        with running("samba", fast=True, config=config) as server:
            yield Place(made, server)


@pytest.fixture
def user(cli: Cli, place: Place) -> Cli:
    """The command line in the realm, without a ticket."""
    return place.realm.enter(cli)


@pytest.mark.parametrize(
    ("query", "facts"),
    [
        ("&sign=on", {"dialect": "3.1.1", "signing": "aes-gmac|aes-cmac"}),
        ("&encrypt=aes128gcm", {"encryption": "aes-128-gcm"}),
        ("&encrypt=aes256gcm", {"encryption": "aes-256-gcm"}),
        ("&encrypt=on&dialect=3.0", {"encryption": "aes-128-ccm", "dialect": "3.0"}),
        ("&sign=on&dialect=2.1", {"signing": "hmac-sha256", "dialect": "2.1"}),
    ],
)  # fmt: skip
def test_a_verified_sweep(user: Cli, place: Place, query: str, facts: dict[str, str]) -> None:
    user.env["KRB5CCNAME"] = place.realm.kinit("good")
    document = user("sweep", place.url(query), *SMALL, "--json").ok().json()
    told = document["target"]
    assert told["auth"] == "kerberos"
    assert {name: value for name, value in facts.items() if told[name] not in value.split("|")} == {}, told
    all_verified(document)


def test_without_a_ticket(user: Cli, place: Place) -> None:
    holds(failure(user, place.url()), "no Kerberos ticket", "kinit USER@REALM")
    user.env["KRB5CCNAME"] = place.realm.kinit("mine")
    other = failure(user, place.url(user="somebody@"))
    holds(other, "no Kerberos ticket of somebody", "kinit somebody@REALM")


def test_a_client_keytab_is_a_ticket(user: Cli, place: Place) -> None:
    user.env["KRB5_CLIENT_KTNAME"] = str(place.realm.folder / "user.keytab")
    user.env["KRB5CCNAME"] = f"FILE:{place.realm.folder / 'of-keytab'}"
    found = user("doctor", place.url(user=f"{REALM.lower()};{place.realm.user}@"), "--json").ok().json()
    assert found["usable"] and found["negotiated"]["auth"] == "kerberos"


def test_an_expired_ticket(user: Cli, place: Place) -> None:
    user.env["KRB5CCNAME"] = place.realm.kinit("old", "-l", "1s")
    place.realm.outlive(user.env["KRB5CCNAME"])
    holds(failure(user, place.url()), "ticket", "has expired", "kinit")


def test_a_host_that_the_realm_does_not_know(user: Cli, place: Place) -> None:
    user.env["KRB5CCNAME"] = place.realm.kinit("good")
    holds(failure(user, place.url(host="127.0.0.1")), "no service cifs/127.0.0.1", "full host name")


def test_a_server_with_another_key(user: Cli, place: Place) -> None:
    """The KDC has a newer key than the server's keytab."""
    user.env["KRB5CCNAME"] = place.realm.kinit("newer")
    try:
        place.realm.admin("cpw -randkey cifs/localhost")
        holds(failure(user, place.url()), "does not take the Kerberos ticket", "keytab", "cifs/localhost")
    finally:
        place.realm.keytab("cifs.keytab", "cifs/localhost")


def test_a_server_in_no_realm(user: Cli, place: Place) -> None:
    user.env["KRB5CCNAME"] = place.realm.kinit("good")
    with running("samba", fast=True) as alone:
        url = f"smb://localhost:{alone.port}/data?auth=kerberos"
        holds(failure(user, url), "Kerberos", "ntlm")


def test_connections_of_one_session(user: Cli, place: Place) -> None:
    """Each connection logs in again, to join the session of the first."""
    user.env["KRB5CCNAME"] = place.realm.kinit("good")
    found = user("doctor", place.url("&sign=on&connections=2"), "--json").ok().json()
    assert found["usable"] and found["negotiated"]["multichannel"] == "yes", found["negotiated"]
    assert found["negotiated"]["server_name"] == "localhost"


def test_without_the_library(user: Cli, place: Place) -> None:
    line = failure(user, place.url(), prefix=without_the_library())
    holds(line, "libgssapi_krb5.so.2", "apt install libgssapi-krb5-2")
