"""What a server refuses comes back as a class and in words."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import pytest
from subjects import Servers, share_target

from naslab import _engine, lab
from naslab.errors import TargetError
from naslab.targets import Secret, Target

pytestmark = pytest.mark.lab
WRITE = json.dumps({"read": True, "write": True, "create": "if_missing"})
READ = json.dumps({"read": True})
SMB = ("dialect=2.1", "dialect=3.0", "dialect=3.1.1", "sign=on", "encrypt=required")
NFS = ("version=3", "version=4.0", "version=4.1", "version=4.2")
BOTH = [*(("samba", q) for q in SMB), *(("ganesha", q) for q in NFS)]


def connecting(target: Target) -> TargetError:
    """The error that connecting ends in."""
    with pytest.raises(TargetError) as caught:
        _engine.Session(target.engine_json(), 1)
    return caught.value


@pytest.fixture
def session_on(servers: Servers) -> Iterator[Any]:
    """Makes sessions on a share of a server."""
    made = []

    def make(system: str, share: str, query: str) -> _engine.Session:
        made.append(_engine.Session(share_target(servers.get(system), share, query).engine_json(), 8))
        return made[-1]

    yield make
    for session in made:
        session.end()


@pytest.mark.parametrize(("system", "query"), BOTH)
def test_read_only(session_on: Any, system: str, query: str) -> None:
    session = session_on(system, "readonly", query)
    file = session.open("file.bin", READ)
    assert session.read(file, 0, 256) == bytes(range(256))
    session.close(file)
    for refused in (
        lambda: session.open("new", WRITE),
        lambda: session.mkdir("new"),
        lambda: session.remove("file.bin"),
    ):
        with pytest.raises(TargetError) as caught:
            refused()
        assert caught.value.kind in ("permission", "read_only"), caught.value
        assert caught.value.status != 0


@pytest.mark.parametrize(("system", "query"), BOTH)
def test_no_space(session_on: Any, system: str, query: str) -> None:
    """Writes until the 4 MiB are full, in flight together; what fitted stays readable."""
    session = session_on(system, "tiny", query)
    file = session.open("fill", WRITE)
    data = b"d" * (1 << 18)
    try:
        outcomes = session.run_ops(file, [("write", i << 18, data) for i in range(40)], 4)
        failures = [o for o in outcomes if o[2]]
        if not failures:  # a server may take unstable writes and say so at the flush
            with pytest.raises(TargetError) as caught:
                session.flush(file)
            assert caught.value.kind == "no_space"
        assert {o[2] for o in failures} <= {"no_space"}, failures
        assert all(o[3] != 0 for o in failures)
        for _, _, kind, status in failures:
            assert "quota is" in session.explain(kind, status), "a number alone tells nobody anything"
        assert session.read(file, 0, 1000) == b"d" * 1000
    finally:
        session.close(file)
        session.remove("fill")


@pytest.mark.parametrize("query", SMB)
def test_wrong_password(servers: Servers, query: str) -> None:
    target = share_target(servers.get("samba"), "data", query)
    error = connecting(dataclasses.replace(target, password=Secret("not-the-password")))
    assert error.kind == "permission"
    assert "password" in str(error)
    assert "not-the-password" not in str(error)
    assert error.status & 0xFFFF_FFFF == 0xC000_006D


@pytest.mark.parametrize("query", SMB)
def test_a_share_one_may_not_enter(servers: Servers, query: str) -> None:
    assert connecting(share_target(servers.get("samba"), "noaccess", query)).kind == "permission"


@pytest.mark.parametrize("query", SMB)
def test_a_share_that_is_not_there(servers: Servers, query: str) -> None:
    error = connecting(share_target(servers.get("samba"), "data", query).with_options(share="nosuchshare"))
    assert error.kind == "not_found"
    assert "nosuchshare" in str(error)


@pytest.mark.parametrize(("system", "query"), [("ganesha", q) for q in NFS])
def test_an_export_that_is_not_there(servers: Servers, system: str, query: str) -> None:
    target = share_target(servers.get(system), "data", query).with_options(path="/nosuchexport")
    assert connecting(target).kind in ("not_found", "permission")


@pytest.mark.parametrize(("system", "query"), BOTH)
def test_a_folder_that_is_not_there(servers: Servers, system: str, query: str) -> None:
    target = share_target(servers.get(system), "data", query)
    deeper = {"root": "no/such"} if system == "samba" else {"path": "/data/no/such"}
    error = connecting(target.with_options(**deeper))
    assert error.kind == "not_found"
    assert "no" in str(error)


@pytest.mark.parametrize("query", NFS)
def test_a_privileged_port_is_asked_for(servers: Servers, query: str) -> None:
    """From a high port the server refuses, or hides the export; the error says what helps. A low one works."""
    target = share_target(servers.get("ganesha"), "secure", query)
    error = connecting(target.with_options(privileged_port="off"))
    assert error.kind in ("permission", "not_found")
    assert "port" in str(error)
    assert "above 1023" in str(error)  # and what helps, which depends on who asks
    session = _engine.Session(target.with_options(privileged_port="on").engine_json(), 1)
    session.mkdir("made")
    session.rmdir("made")
    session.end()


@pytest.mark.parametrize("query", NFS)
def test_root_is_squashed(session_on: Any, query: str) -> None:
    session = session_on("ganesha", "squash", query)
    with pytest.raises(TargetError) as caught:
        session.mkdir("new")
    assert caught.value.kind == "permission"


def test_guests(servers: Servers) -> None:
    session = _engine.Session(share_target(servers.get("samba"), "public").engine_json(), 1)
    file = session.open("guest-file", WRITE)
    session.write(file, 0, b"hello")
    assert session.read(file, 0, 5) == b"hello"
    session.close(file)
    session.remove("guest-file")
    assert session.facts()["auth"] == "guest"
    session.end()


def test_a_dialect_the_server_lacks(servers: Servers) -> None:
    servers.get("samba")
    with lab.running("samba", min_dialect="3.0", max_dialect="3.0.2") as server:
        for pinned in ("2.1", "3.1.1"):
            error = connecting(share_target(server, "data", f"dialect={pinned}"))
            assert error.kind == "unsupported"
            assert pinned in str(error)
        session = _engine.Session(share_target(server, "data").engine_json(), 1)
        assert session.facts()["dialect"] == "3.0.2"
        session.end()


def test_signing_that_the_server_demands(servers: Servers) -> None:
    error = connecting(share_target(servers.get("samba-signed"), "data", "sign=off"))
    assert error.kind in ("permission", "unsupported", "invalid")
    assert "sign" in str(error)
    session = _engine.Session(share_target(servers.get("samba-signed"), "data").engine_json(), 1)
    assert session.facts()["signing"] != "none"
    session.end()


def test_encryption_that_the_server_demands(servers: Servers) -> None:
    error = connecting(share_target(servers.get("samba"), "secret", "encrypt=off"))
    assert error.kind in ("permission", "unsupported", "invalid")
    assert "encrypt" in str(error)
    old = connecting(share_target(servers.get("samba"), "secret", "dialect=2.1"))
    assert old.kind in ("permission", "unsupported", "invalid")


def test_versions_the_server_lacks(servers: Servers) -> None:
    servers.get("ganesha")
    with lab.running("ganesha", versions=("3", "4.0")) as server:
        for pinned in ("4.1", "4.2"):
            error = connecting(share_target(server, "data", f"version={pinned}"))
            assert error.kind == "unsupported", error
            assert pinned in str(error)
        session = _engine.Session(share_target(server, "data").engine_json(), 1)
        assert session.facts()["dialect"] == "4.0"
        session.end()


@pytest.mark.parametrize("query", ["version=4.0", "version=4.1"])
def test_grace_is_visible(servers: Servers, query: str) -> None:
    """After a restart the server waits for its old clients: opening waits too, each wait is counted, none hidden."""
    servers.get("ganesha")
    with lab.running("ganesha", grace=True, lease_s=5) as server:
        target = share_target(server, "data", query)
        before = _engine.Session(target.engine_json(), 1)
        old = before.open("held-over-the-restart", WRITE)
        server.restart()
        session = _engine.Session(target.engine_json(), 1)
        file = session.open("after-grace", WRITE)
        session.write(file, 0, b"x")
        events = session.events()
        assert events.get("grace_waits", 0) + events.get("delay_waits", 0) > 0, events
        with pytest.raises(TargetError):
            before.write(old, 0, b"the server has forgotten who opened this")
        before.end()
        session.end()


def test_shares_and_exports_are_listed(servers: Servers) -> None:
    listed = json.loads(_engine.list_exports(share_target(servers.get("samba"), "data").engine_json()))
    assert {"data", "secret", "readonly", "IPC$"} <= {share["name"] for share in listed}
    listed = json.loads(_engine.list_exports(share_target(servers.get("ganesha"), "data").engine_json()))
    assert {"/data", "/readonly", "/tiny"} <= {export["name"] for export in listed}
