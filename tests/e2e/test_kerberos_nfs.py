"""`sec=krb5`, `krb5i` and `krb5p` against a real Ganesha with the keytab of a private MIT realm."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from cli_tools import Cli
from faults import Relay
from kerberos_lab import REALM, SMALL, Realm, all_verified, failure, holds, kerberos_ganesha, without_the_library
from lab_tools import need_system
from naslab import _engine
from naslab.commands.plans.security import LOADS
from naslab.errors import TargetError
from naslab.lab import running
from naslab.lab.ganesha import KERBEROS, VERSIONS
from naslab.lab.server import Server
from naslab.targets import parse_target

pytestmark = pytest.mark.lab
CREATE = json.dumps({"read": True, "write": True, "create": "if_missing"})
PATTERN = bytes(range(1, 256)) * 64
"""What is looked for on the wire."""


@dataclass
class Place:
    realm: Realm
    server: Server

    def url(self, query: str = "", export: str = "data", host: str = "localhost", port: int = 0) -> str:
        return f"nfs://{host}:{port or self.server.port}/{export}?mountport={self.server.mount_port}{query}"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    need_system("ganesha")
    with kerberos_ganesha(tmp_path_factory.mktemp("realm")) as (made, server):
        yield Place(made, server)


@pytest.fixture
def stranger(cli: Cli, place: Place) -> Cli:
    """The command line in the realm, without a ticket."""
    return place.realm.enter(cli)


@pytest.fixture
def user(stranger: Cli, place: Place, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The command line with a ticket, which this process has, too."""
    stranger.env["KRB5CCNAME"] = place.realm.kinit("good")
    monkeypatch.setenv("KRB5CCNAME", stranger.env["KRB5CCNAME"])
    return stranger


@contextmanager
def session(url: str, depth: int = 1, **options: object) -> Iterator[_engine.Session]:
    """A session of the engine."""
    spec = parse_target(url).with_options(**options).engine_spec()
    made = _engine.Session(json.dumps(spec), depth)
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
def relay(place: Place) -> Iterator[Relay]:
    made = Relay(place.server.port)
    yield made
    made.close()


@pytest.mark.parametrize("sec", KERBEROS)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_verified_sweep(user: Cli, place: Place, version: str, sec: str) -> None:
    document = user("sweep", place.url(f"&version={version}&sec={sec}", sec), *SMALL, "--json").ok().json()
    told = document["target"]
    assert (told["dialect"], told["sec"], told["auth"]) == (version, sec, "kerberos")
    kind = document["environment"]["target"]["kerberos_encryption_type"]
    assert kind.startswith("aes256-cts")
    assert told["signing"] == (kind if sec == "krb5i" else None)
    assert told["encryption"] == (kind if sec == "krb5p" else None)
    all_verified(document)


def test_without_a_ticket(stranger: Cli, place: Place) -> None:
    line = failure(stranger, place.url("&sec=krb5"))
    holds(line, "no Kerberos ticket", "kinit USER@REALM")
    assert "write access" not in line
    stranger.env["KRB5CCNAME"] = place.realm.kinit("mine")
    holds(failure(stranger, place.url("&sec=krb5", host="somebody@localhost")), "ticket of somebody", "kinit somebody@")
    found = stranger("doctor", place.url("&sec=krb5i", host="somebody@localhost"), "--json").sound().json()
    assert not found["usable"] and "kinit somebody@REALM" in json.dumps(found["advice"])


def test_a_principal_is_chosen_and_a_client_keytab_is_its_ticket(stranger: Cli, place: Place) -> None:
    stranger.env["KRB5_CLIENT_KTNAME"] = str(place.realm.folder / "user.keytab")
    stranger.env["KRB5CCNAME"] = f"FILE:{place.realm.folder / 'of-keytab'}"
    url = place.url("&sec=krb5p", host=f"{REALM.lower()};{place.realm.user}@localhost")
    found = stranger("doctor", url, "--json").ok().json()
    assert found["usable"] and found["negotiated"]["sec"] == "krb5p"


def test_an_expired_ticket(stranger: Cli, place: Place) -> None:
    stranger.env["KRB5CCNAME"] = place.realm.kinit("old", "-l", "1s")
    place.realm.outlive(stranger.env["KRB5CCNAME"])
    holds(failure(stranger, place.url("&sec=krb5i")), "ticket", "has expired", "kinit")


def test_a_host_that_the_realm_does_not_know(user: Cli, place: Place) -> None:
    line = failure(user, place.url("&sec=krb5", host="127.0.0.1"))
    holds(line, "no service nfs/127.0.0.1", "full host name")


def test_a_server_with_another_key(user: Cli, place: Place) -> None:
    """The KDC has a newer key than the server's keytab."""
    user.env["KRB5CCNAME"] = place.realm.kinit("newer")
    try:
        place.realm.admin("cpw -randkey nfs/localhost")
        holds(failure(user, place.url("&sec=krb5")), "does not take the Kerberos ticket", "keytab", "nfs/localhost")
    finally:
        place.realm.keytab("nfs.keytab", "nfs/localhost")


def test_a_server_without_kerberos(user: Cli) -> None:
    with running("ganesha", fast=True) as alone:
        url = f"nfs://localhost:{alone.port}/data?sec=krb5&mountport={alone.mount_port}"
        holds(failure(user, url), "does not take the Kerberos ticket", "Kerberos must be enabled for NFS")


@pytest.mark.parametrize("sec", ["sys", "krb5"])
@pytest.mark.parametrize("version", VERSIONS)
def test_an_export_names_the_flavour_that_it_takes(user: Cli, place: Place, version: str, sec: str) -> None:
    url = place.url(f"&version={version}&sec={sec}", "krb5p")
    holds(failure(user, url), f"/krb5p takes krb5p, not sec={sec}: give ?sec=krb5p")
    found = user("doctor", url, "--json").sound().json()
    assert f"/krb5p takes krb5p, not sec={sec}: give ?sec=krb5p, or allow" in json.dumps(found["advice"])


@pytest.mark.parametrize(
    "query", ["&version=3", "&version=4.2", "&version=3&connections=4", "&version=4.1&connections=4"]
)
@pytest.mark.parametrize("sec", KERBEROS)
def test_no_call_is_lost_at_depth(user: Cli, place: Place, query: str, sec: str) -> None:
    """Ganesha drops in silence what falls out of its window of 32 numbers."""
    load = ("--file-size", "16m", "--record", "4k", "--depth", 64, "--workers", 2, "--tests", "write,random_read")
    words = (*load, "--verify", "--timeout", "10s", "--json")
    document = user("sweep", place.url(f"{query}&sec={sec}"), *words).ok().json()
    assert document["environment"]["target"]["kerberos_contexts"] > 1
    assert [cell["errors"] for cell in document["cells"]] == [0, 0]
    all_verified(document)


@pytest.mark.parametrize("sec", KERBEROS)
def test_the_window_does_not_limit_the_depth(user: Cli, place: Place, sec: str) -> None:
    with session(place.url(f"&version=3&connections=2&sec={sec}"), depth=128) as made:
        file = made.open("deep", CREATE)
        made.write(file, 0, PATTERN)
        done = made.run_ops(file, [("read", 16 * at, 512) for at in range(900)], 128)
        assert all(data == PATTERN[16 * at : 16 * at + 512] for at, (_, data, _, _) in enumerate(done))
        made.close(file)
        made.remove("deep")
        assert made.events()["max_outstanding"] == 128


def test_a_context_is_replaced_when_its_numbers_are_used_up(user: Cli, place: Place) -> None:
    with session(place.url("&version=4.1&sec=krb5p"), depth=16, context_calls=20) as made:
        file = made.open("renewed", CREATE)
        blocks = [bytes([at]) * 4096 for at in range(200)]
        done = made.run_ops(file, [("write", 4096 * at, block) for at, block in enumerate(blocks)], 16)
        assert {error for _, _, error, _ in done} == {None}
        done = made.run_ops(file, [("read", 4096 * at, 4096) for at in range(200)], 16)
        assert [data for _, data, _, _ in done] == blocks
        made.close(file)
        made.remove("renewed")
        assert made.events()["context_renewal"] >= 400 // 40
        assert any(name == "renewed" for name, _ in made.readdir("")) is False


@pytest.mark.parametrize(("sec", "hidden"), [("krb5", False), ("krb5i", False), ("krb5p", True)])
def test_what_is_on_the_wire(user: Cli, place: Place, relay: Relay, sec: str, hidden: bool) -> None:
    sent, answered = bytearray(), bytearray()
    relay.rewrite, relay.rewrite_answer = keeping(sent), keeping(answered)
    with session(place.url(f"&version=4.2&sec={sec}", port=relay.port)) as made:
        file = made.open("a-name-to-be-seen", CREATE)
        made.write(file, 0, PATTERN)
        assert made.read(file, 0, len(PATTERN)) == PATTERN
        made.close(file)
        made.remove("a-name-to-be-seen")
    for what, wire in ((PATTERN, sent), (PATTERN, answered), (b"a-name-to-be-seen", sent)):
        assert (what not in wire) is hidden


def keeping(into: bytearray) -> Callable[[bytes], bytes]:
    """Passes pieces on, and keeps a copy."""

    def keep(data: bytes) -> bytes:
        into.extend(data)
        return data

    return keep


@pytest.mark.parametrize("version", ["3", "4.1"])
@pytest.mark.parametrize("sec", ["krb5i", "krb5p"])
def test_changed_data_are_an_error_and_never_data(
    user: Cli, place: Place, relay: Relay, version: str, sec: str
) -> None:
    with session(place.url(f"&version={version}&sec={sec}", port=relay.port)) as made:
        file = made.open("changed", CREATE)
        made.write(file, 0, PATTERN)
        relay.rewrite_answer = lambda data: data[:-3000] + bytes([data[-3000] ^ 1]) + data[-2999:]
        (outcome,) = results_of(made, file)
        assert outcome == "protocol"
    with session(place.url(f"&version={version}&sec={sec}")) as made:
        made.remove("changed")


def test_an_old_answer_is_not_taken_for_a_new_one(user: Cli, place: Place, relay: Relay) -> None:
    answers: list[bytes] = []

    def replay(data: bytes) -> bytes:
        answers.append(data)
        return data[:8] + answers[0][8:] if len(answers) > 1 else data

    with session(place.url("&version=3&sec=krb5i", port=relay.port)) as made:
        file = made.open("replayed", CREATE)
        made.write(file, 0, PATTERN)
        relay.rewrite_answer = replay
        assert results_of(made, file) == ["data"] and results_of(made, file) == ["protocol"]
    with session(place.url("&sec=krb5i")) as made:
        made.remove("replayed")


def results_of(made: _engine.Session, file: int) -> list[str]:
    """What a read of the pattern comes to: `data`, or the class of the error."""
    try:
        return ["data" if made.read(file, 0, len(PATTERN)) == PATTERN else "other data"]
    except TargetError as error:
        return [error.kind]


def test_a_login_that_the_server_ends_in_the_middle(user: Cli, place: Place, relay: Relay) -> None:
    """As a server does that looks at the ticket's end: RPCSEC_GSS_CTXPROBLEM."""
    passed = 0

    def refuse(data: bytes) -> bytes:
        nonlocal passed
        passed += len(data)
        whole = len(data) > 28 and struct.unpack_from(">I", data)[0] == 1 << 31 | len(data) - 4
        return struct.pack(">I4sIIII", 1 << 31 | 20, data[4:8], 1, 1, 1, 14) if whole and passed > 1 << 20 else data

    relay.rewrite_answer = refuse
    url = place.url("&version=3&sec=krb5i", port=relay.port)
    done = user("sweep", url, "--file-size", "4m", "--record", "4k", "--tests", "write,read", "--timeout", "5s").sound()
    assert done.code == 1
    holds(done.err, "no longer takes this Kerberos login", "RPCSEC_GSS_CTXPROBLEM", "has expired", "kinit")


def test_the_price_list_of_an_export_with_all_flavours(user: Cli, place: Place) -> None:
    document = user("security", place.url(), "--repeat", 3, "--budget", "8s", "--json").ok().json()
    rows = {row["name"]: row for row in document["security"]["combinations"]}
    names = ["plain (sec=sys)", "authenticated krb5", "signed krb5i", "encrypted krb5p"]
    assert [name for name, row in rows.items() if row["state"] == "measured"] == names
    assert [name for name, row in rows.items() if row["state"] != "measured"] == ["encrypted TLS"]
    for name in names:
        loads = rows[name]["loads"]
        assert [(each["op"], each["record_bytes"], each["queue_depth"]) for each in loads] == list(LOADS)
        assert all(each["throughput"]["value"] > 0 for each in loads)
    assert [pair["name"] for pair in document["security"]["contrasts"]] == ["encrypted krb5p"]
    summary = " ".join(document["summary"])
    holds(summary, "Encryption (krb5p)", "Signing (krb5i)", "Authentication (krb5)", "instead of signing (krb5i)")


def test_the_price_list_says_what_is_refused(stranger: Cli, place: Place) -> None:
    words = ("--repeat", 3, "--budget", "4s", "--json")
    found = stranger("security", place.url(), *words).ok().json()["security"]["combinations"]
    reasons = {row["name"]: row["reason"] for row in found if row["state"] == "refused"}
    holds(reasons.pop("encrypted TLS"), "does not offer TLS")
    assert list(reasons) == ["authenticated krb5", "signed krb5i", "encrypted krb5p"]
    assert all("no Kerberos ticket" in reason and "kinit" in reason for reason in reasons.values())
    stranger.env["KRB5CCNAME"] = place.realm.kinit("good")
    document = stranger("security", place.url(export="krb5p"), *words).ok().json()
    rows = {row["name"]: row for row in document["security"]["combinations"]}
    assert document["security"]["baseline"] == "encrypted krb5p"
    assert "takes krb5p, not sec=sys" in rows["plain (sec=sys)"]["reason"]
    done = stranger("security", place.url("&sec=krb5p"), *words).sound()
    assert done.code == 2
    holds(done.err, "all values of sec are tried")


def test_without_the_library(user: Cli, place: Place) -> None:
    line = failure(user, place.url("&sec=krb5"), prefix=without_the_library())
    holds(line, "libgssapi_krb5.so.2", "apt install libgssapi-krb5-2")
