"""Servers die, freeze and lie: each ends in a typed error within the timeout, and a new session works again."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from subjects import SUBJECTS, Servers, Subject, share_target

from faults import MODES, relay
from naslab import _engine, lab
from naslab.errors import TargetError
from naslab.targets import Target

TIMEOUT_S = 1
BROKEN = ("timeout", "disconnected", "protocol")
SPOKEN = (
    "smb-2.1", "smb-3.1.1", "smb-3.1.1-aes-gmac", "smb-3.1.1-aes-128-gcm", "smb-multichannel",
    "nfs-3", "nfs-4.0", "nfs-4.1", "nfs-3-connections", "demo",
)  # fmt: skip


def chosen() -> list[Any]:
    """The subjects of SPOKEN; those that a server of this machine answers are the lab's."""
    marks = {True: pytest.mark.lab, False: ()}
    return [pytest.param(s, id=s.name, marks=marks[s.is_server]) for s in SUBJECTS if s.name in SPOKEN]


@contextlib.contextmanager
def through_relay(subject: Subject, servers: Servers) -> Iterator[tuple[Any, Target]]:
    """A relay before the subject's server, and the target that goes through it."""
    server = servers.get(subject.system)
    with relay(server.port) as found:
        target = share_target(server, subject.share, subject.query)
        yield found, target.with_options(port=found.port, timeout_ns=TIMEOUT_S * 10**9)


def open_options(**more: Any) -> str:
    return json.dumps({"read": True, "write": True, "create": "if_missing", **more})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("subject", chosen())
def test_broken_connections(subject: Subject, servers: Servers, mode: str) -> None:
    """Operations in flight, then calls of all kinds, then a new session over the healed connection."""
    with through_relay(subject, servers) as (broken, target):
        session = _engine.Session(target.engine_json(), 16)
        name = f"fault-{subject.name}-{mode}"
        file = session.open(name, open_options())
        data = bytes(range(256)) * 256
        assert all(o[2] is None for o in session.run_ops(file, [("write", i << 16, data) for i in range(16)], 8))
        broken.break_down(mode)
        started = time.monotonic()
        errors = errors_of(session, file, name)
        # Each call may take the timeout; what may not be is a hang or a loop.
        assert time.monotonic() - started < 20 * TIMEOUT_S
        assert errors, "every call succeeded over a broken connection"
        session.end()
        broken.heal()
        again = _engine.Session(target.engine_json(), 16)
        assert again.stat(name)[0] == 16 << 16
        again.remove(name)
        again.end()


def errors_of(session: _engine.Session, file: int, name: str) -> list[str]:
    """Classes of the errors that operations and calls of a broken session end in."""
    found = []
    calls = [
        lambda: [
            o for _ in range(6) for o in session.run_ops(file, [("read", i << 16, 1 << 16) for i in range(16)], 8)
        ],
        lambda: session.run_ops(file, [("write", i << 12, b"w" * 4096) for i in range(16)], 8),
        lambda: session.flush(file),
        lambda: session.stat(name),
        lambda: session.readdir(""),
    ]
    for call in calls:
        try:
            outcomes = call()
        except TargetError as error:
            found.append(error.kind)
            assert str(error), "an error without words"
        else:
            # Noise may hit data, where only signing and encryption see it, or a status.
            found += [o[2] for o in outcomes or [] if isinstance(o, tuple) and len(o) == 4 and o[2]]
            if isinstance(outcomes, list) and outcomes and isinstance(outcomes[0], tuple) and len(outcomes[0]) == 4:
                found += ["changed data"] * any(o[1] is not None and o[1] != bytes(range(256)) * 256 for o in outcomes)
    return found


@pytest.mark.parametrize("mode", [m for m in MODES if m != "noise"])
@pytest.mark.parametrize("subject", chosen())
def test_broken_while_connecting(subject: Subject, servers: Servers, mode: str) -> None:
    with through_relay(subject, servers) as (broken, target):
        broken.break_down(mode)
        with pytest.raises(TargetError) as caught:
            _engine.Session(target.engine_json(), 4)
        assert caught.value.kind in (*BROKEN, "permission", "unsupported", "io"), caught.value


@pytest.mark.parametrize("subject", [s for s in chosen() if "smb" in s.id and "3.1.1-aes" in s.id])
def test_changed_bytes_are_noticed(subject: Subject, servers: Servers) -> None:
    """Signing and encryption: no changed byte of data reaches the caller."""
    with through_relay(subject, servers) as (broken, target):
        session = _engine.Session(target.engine_json(), 4)
        file = session.open("noisy", open_options())
        data = bytes(1 << 16)
        session.write(file, 0, data)
        broken.break_down("noise")
        with pytest.raises(TargetError) as caught:
            for _ in range(50):
                (_, read, failure, _), *_ = session.run_ops(file, [("read", 0, 1 << 16)], 1)
                assert read == data or failure, "changed data was taken for good"
        assert caught.value.kind in BROKEN
        session.end()


@pytest.mark.lab
@pytest.mark.parametrize("name", ["samba", "ganesha", "demo"])
@pytest.mark.parametrize("how", ["kill", "freeze"])
def test_the_server_itself(servers: Servers, name: str, how: str) -> None:
    """A killed or frozen server process, and its return."""
    servers.get(name)  # skipped where it cannot run
    with lab.running(name) as server:
        target = share_target(server, "data").with_options(timeout_ns=TIMEOUT_S * 10**9)
        session = _engine.Session(target.engine_json(), 8)
        file = session.open("file", open_options())
        session.write(file, 0, b"kept" * 1000)
        session.flush(file)
        server.kill() if how == "kill" else server.freeze()
        started = time.monotonic()
        with pytest.raises(TargetError) as caught:
            session.run_ops(file, [("read", 0, 4000)] * 20, 8)
        assert caught.value.kind in BROKEN
        with pytest.raises(TargetError) as second:
            session.stat("file")
        assert second.value.kind in BROKEN
        with pytest.raises(TargetError):
            _engine.Session(target.engine_json(), 8)
        assert time.monotonic() - started < 10 * TIMEOUT_S
        server.restart() if how == "kill" else server.thaw()
        again = _engine.Session(dataclasses.replace(target).engine_json(), 8)
        file = again.open("file", open_options(create="never"))
        assert again.read(file, 0, 4000) == b"kept" * 1000
        again.end()
        session.end()
