"""`lab:NAME` targets: servers that a command starts when it opens such a target, and that end with it.

A server that `naslab lab up` started is used and left. `session` ends those started inside it; without one they
end with the process, as their guardian sees to.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
from collections.abc import Iterator
from urllib.parse import quote, urlencode

from naslab.client import own_servers
from naslab.errors import UsageError
from naslab.lab import calibrate, link, mounted, state
from naslab.lab.server import Server, start
from naslab.lab.systems import DefinedSystem, names, system
from naslab.targets import Target, parse_target
from naslab.targets.query import flag, parse_query

SCHEME = "lab:"
_SHARE = ("share", "export")
_started: dict[tuple[str, bool, tuple[tuple[str, str], ...]], Server] = {}
_entered: dict[str, int] = {}
"""The network namespace that this process is in, and the one it came from; empty when in its own."""
_apart: list[None] = []
"""Not empty: targets keep to networks of their own, which only `inside` enters."""


@contextlib.contextmanager
def session() -> Iterator[None]:
    """Ends the servers that were started for lab: targets in the block."""
    try:
        yield
    finally:
        close()


def close() -> None:
    """Ends all servers that this process started for lab: targets; leaves the network of a link."""
    while _entered:
        link.leave(_entered.popitem()[1])
    while _started:
        _started.popitem()[1].stop()


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """Targets that are opened in the block may lie in several networks: each is used in `inside` alone."""
    _apart.append(None)
    try:
        yield
    finally:
        _apart.pop()


@contextlib.contextmanager
def inside(target: Target) -> Iterator[None]:
    """This thread, and those it starts, in the network of a lab: target for the time of the block.

    Threads that the engine started there stay there. Raises TargetError.
    """
    path = (target.lab or {}).get("net")
    if not path or path in _entered:
        yield
        return
    before = link.enter(path)
    try:
        yield
    finally:
        link.leave(before)


def open_lab_target(text: str) -> Target:
    """The target of `lab:NAME[/dir][?share=...&fast=1&...]`; starts its server if it does not run.

    Further options are those of the smb:// or nfs:// target that it stands for. Raises UsageError, TargetError.
    """
    place, _, query = text[len(SCHEME) :].partition("?")
    name, _, path = place.partition("/")
    if not name:
        raise UsageError(f"target {text!r}: the name is missing; write lab:NAME with one of {', '.join(names())}")
    server = state.find(name)
    words = system(name).words if server is None or name in names() else ()
    options = parse_query(text, query)
    fast = flag(text, "fast", options.pop("fast", "0"))
    shares = [options.pop(key) for key in _SHARE if key in options]
    if len(shares) > 1:
        raise UsageError(f"target {text!r}: share and export mean the same; give only one")
    planted = {key: options.pop(key) for key in words if key in options}
    if server is not None and planted:
        raise UsageError(f"target {text!r}: {name} is up with its own {', '.join(planted)}; leave them out, or end it")
    _check_mount(text, name, server, planted)
    server = server or _start(name, fast, planted)
    own_servers.note(name, server.guardian.pid)
    if not _apart:
        _check_network(text, server)
        _enter(server)
    return _target(text, server, shares[0] if shares else "data", path, options)


def started(name: str) -> Server | None:
    """The server that a lab: target of this name stands for in this process."""
    return state.find(name) or next((server for (one, _, _), server in _started.items() if one == name), None)


def _start(name: str, fast: bool, planted: dict[str, str]) -> Server:
    key = (name, fast, tuple(sorted(planted.items())))
    if key not in _started:
        _started[key] = start(name, fast=fast, **planted)
    return _started[key]


def _check_mount(text: str, name: str, server: Server | None, planted: dict[str, str]) -> None:
    """A system whose clients' kernels mount it is measured where they do: in their guests. Raises UsageError."""
    if server is not None:
        if server.facts.get("mount"):
            steps = mounted.words(server)
            raise UsageError(f"target {text!r}: {mounted.WHY}: {steps[0]}; with naslab's own client: {steps[1]}")
        return
    found = system(name)
    made = found.make_options(planted) if isinstance(found, DefinedSystem) else None
    if made is not None and made.clients.access != "direct":
        sets = "".join(f" --set {shlex.quote(f'{key}={value}')}" for key, value in planted.items())
        raise UsageError(
            f"target {text!r}: {mounted.WHY}: naslab lab up {name}{sets}, which prints how; or let naslab's own client "
            f"measure it from here: {SCHEME}{name}?clients.access=direct"
        )


def _check_network(text: str, server: Server) -> None:
    """A process in a link's network reaches that link's server only. Raises UsageError."""
    if _entered and server.facts.get("inside", {}).get("net") not in _entered:
        raise UsageError(
            f"target {text!r}: this command already runs in the network of a link; measure this target by itself"
        )


def _enter(server: Server) -> None:
    """Into the client's end of a link, from where its server can be reached."""
    path = server.facts.get("inside", {}).get("net")
    if path and path not in _entered:
        _entered[path] = link.enter(path)


def _target(text: str, server: Server, share: str, path: str, options: dict[str, str]) -> Target:
    if share not in server.targets:
        raise UsageError(f"target {text!r}: {server.name} has no {share!r}; it has {', '.join(server.targets)}")
    base, _, given = server.targets[share].partition("?")
    merged = {**parse_query(text, given), **options}
    if options.get("version", "3") != "3":
        merged.pop("mountport", None)
    url = base + (f"/{quote(path)}" if path else "") + (f"?{urlencode(merged, safe=',')}" if merged else "")
    target = server.logged_in(parse_target(url))
    found = calibrate.find(server)
    lab = {
        "name": server.name, "url": target.url, "planted": calibrate.limits_of(server, found),
        "calibrated_at": None if found is None else found.measured_at, "net": server.facts.get("inside", {}).get("net"),
    }  # fmt: skip
    if found is not None and not found.holds:
        target = target.warned("planted_missed", f"calibration at {found.measured_at}: {found.summary()}")
    return dataclasses.replace(target, url=text, may_log_in=False, lab=lab)
