"""The link by iperf3 in each direction, its latency by one byte there and back, its packets by its interface."""

from __future__ import annotations

import contextlib
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from naslab.errors import TargetError
from naslab.lab.calibrate.bursts import Fitted, fit_bucket
from naslab.lab.calibrate.probe import Probe
from naslab.lab.calibrate.tools import RAMP_S, chunks, iperf_series, iperf_words
from naslab.lab.limits import client_rate

_PORT = 5201
_HEAD_BYTES, _FRAME_BYTES = 52, 14
"""Of a packet: headers of IP and TCP with time stamps; of a frame: Ethernet's header."""
_LONGEST_BURST_S = 60.0
_FLOOR_S = 2.5
_EXCHANGES = 40
_ATTEMPTS = 4
_NOT_YET = ("busy", "unable to", "reset")
_STREAMS = 4
"""Over a link with latency: one stream alone takes seconds to find how much may be under way."""
_WAYS = {"to the server": False, "to the client": True}
Series = Sequence[tuple[float, float]]

_ECHO = """
import socket
server = socket.create_server(("0.0.0.0", 5202))
print("ready", flush=True)
while True:
    one, _ = server.accept()
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while got := one.recv(1):
        one.sendall(got)
"""
_ASK = """
import json, socket, sys, time
one = socket.create_connection((sys.argv[1], 5202), 10)
one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
found = []
for _ in range(int(sys.argv[2])):
    begin = time.perf_counter_ns()
    one.sendall(b"x")
    one.recv(1)
    found.append(time.perf_counter_ns() - begin)
print(json.dumps(found))
"""


def wire_share(mtu: int) -> float:
    """Of the bytes of full frames on the wire, those that are data of TCP."""
    return (mtu - _HEAD_BYTES) / (mtu + _FRAME_BYTES)


def measure_link(probe: Probe) -> None:
    """All that is planted of the link and of the clients' own."""
    names = [each for each in probe.planted if each.startswith(("link.", "clients.rate"))]
    if not names:
        return
    if "link.mtu" in names:
        _mtu(probe)
    if any(each in ("link.rate", "link.burst.rate") or each.startswith("clients.") for each in names):
        with contextlib.ExitStack() as stack:
            for port in range(_PORT, _PORT + _clients(probe)):
                words = ["iperf3", "-s", "-p", str(port), "--forceflush"]
                stack.enter_context(probe.beside(words, 0, "listening"))
            _rates(probe, names)


def _rates(probe: Probe, names: Sequence[str]) -> None:
    if "link.burst.rate" in names:
        for way, reverse in _WAYS.items():
            _burst(probe, way, reverse)
    for client in range(1, _clients(probe) + 1):
        name = _own(probe, client)
        for way, reverse in _WAYS.items() if name in names else ():
            at = f"client {client} {way}" if _clients(probe) > 1 else way
            _rate(probe, name, at, [client], reverse)
    if "link.rate" in names:
        _link_rate(probe)


def _own(probe: Probe, client: int) -> str:
    """The name of the limit of a client's own link, which it may have."""
    return "clients.rate" if "clients.rate" in probe.planted else client_rate(client)


def _link_rate(probe: Probe) -> None:
    """One client fills the link, or as many together as it takes where each has a slower one."""
    rate, carried, needed = probe.planted["link.rate"].value, 0.0, 0
    while carried < rate and needed < _clients(probe):
        needed += 1
        own = probe.planted.get(_own(probe, needed))
        carried += rate if own is None else own.value
    for way, reverse in _WAYS.items():
        if carried < rate:
            probe.skip("link.rate", "its clients' own links are slower in total", way, "iperf3")
        else:
            _rate(probe, "link.rate", way, list(range(1, needed + 1)), reverse)


def _rate(probe: Probe, name: str, at: str, clients: Sequence[int], reverse: bool) -> None:
    seconds = max(1, math.ceil(RAMP_S + probe.seconds * max(1, probe.runs) / 2))
    share = wire_share(_mtu_of(probe)) / 8

    def measure() -> list[float]:
        rates = [chunks(each, max(1, probe.runs)) for each in _streams(probe, clients, seconds, reverse)]
        return [sum(parts) / share for parts in zip(*rates, strict=True)]

    together = f", {len(clients)} clients together" if len(clients) > 1 else ""
    words = _words(probe, 1, seconds, reverse)
    probe.add(name, at, "iperf3", words, measure, note=f"TCP data, counted with the frames around them{together}")


def _streams(probe: Probe, clients: Sequence[int], seconds: int, reverse: bool) -> list[Series]:
    """What each client moved; all at once."""

    def one(client: int) -> Series:
        words = _words(probe, client, seconds, reverse)
        for again in range(_ATTEMPTS):
            try:
                return iperf_series(probe.run(words, client, seconds))
            except TargetError as error:
                # A slow server still ends the streams of the run before, and refuses or resets new ones.
                if again == _ATTEMPTS - 1 or not any(word in str(error) for word in _NOT_YET):
                    raise
                time.sleep(1.0)
        raise AssertionError

    with ThreadPoolExecutor(len(clients)) as pool:
        return list(pool.map(one, clients))


def _words(probe: Probe, client: int, seconds: int, reverse: bool) -> list[str]:
    several = ["-P", str(_STREAMS)] if "link.latency" in probe.planted else []
    return [*iperf_words(_host(probe), _PORT + client - 1, seconds, reverse), *several]


def _burst(probe: Probe, way: str, reverse: bool) -> None:
    """The bucket of one direction. What is on the wire before it is some kilobytes of the server's own."""
    rate, base, size = (probe.planted[f"link.burst.{key}"].value for key in ("rate", "base", "size"))
    names = {key: f"link.burst.{key}" for key in ("rate", "base", "size")}
    seconds = math.ceil(size / (rate - base) + _FLOOR_S)
    if seconds > _LONGEST_BURST_S or not probe.scratch:
        why = (
            f"the credit lasts {seconds} s: calibrate a smaller one (--set link.burst=...)"
            if probe.scratch
            else "the system is already up, so its credit is unknown: calibrate one that is not up"
        )
        for each in names.values():
            probe.skip(each, why, way, "iperf3")
        return
    share = wire_share(_mtu_of(probe))
    fitted: list[Fitted] = []

    def value(key: str) -> Callable[[], list[float]]:
        def measure() -> list[float]:
            if key == "rate":
                fitted.append(fit_bucket(_streams(probe, [1], seconds, reverse)[0], skip_s=RAMP_S))
            if not fitted:
                raise TargetError("see the burst's rate")
            return [getattr(fitted[0], key) / share]

        return measure

    words = _words(probe, 1, seconds, reverse)
    for key, name in names.items():
        probe.add(name, way, "iperf3", words, value(key), note="TCP data, counted with the frames around them")


def measure_latency(probe: Probe) -> None:
    """There and back with and, where the system is taken down after it, without what was added: the last of all."""
    if "link.latency" not in probe.planted:
        return
    words = [sys.executable, "-c", _ASK, _host(probe), str(_EXCHANGES)]

    def exchanges() -> list[float]:
        with probe.beside([sys.executable, "-c", _ECHO], 0, "ready"):
            said = probe.run(words, 1, seconds=_EXCHANGES * 0.2)
        return [float(each) for each in json.loads(said)[2:]]

    def measure() -> list[float]:
        own_ns = 0.0
        delayed = exchanges()
        if probe.scratch:
            _undelay(probe)
            own_ns = statistics.median(exchanges())
        return [(statistics.median(part) - own_ns) / 2 for part in (delayed[at::3] for at in range(3))]

    told = ["python3", "-c", "(one byte of TCP there and back)", _host(probe), str(_EXCHANGES)]
    own = "less the time without the added latency" if probe.scratch else "including the time of both ends"
    probe.add("link.latency", "each direction", "one byte there and back", told, measure,
              note=f"half of the time there and back, {own}")  # fmt: skip


def _undelay(probe: Probe) -> None:
    """Takes away what delays packets: of a native link at both ends, else in the server's guest."""
    if probe.in_guest:
        probe.run(["sh", "-c", "tc qdisc del dev vec0 root; tc qdisc del dev vec0 ingress"], 0)
        return
    for end in (0, 1):
        probe.run(["tc", "qdisc", "del", "dev", "eth0", "root"], end)


def _mtu(probe: Probe) -> None:
    for at, client in (("at the server", 0), ("at the client", 1)):
        guest = (f"client{client}" if client else "server") in probe.server.facts.get("guests", {})
        device = "vec0" if guest else "eth0"
        if not guest and probe.in_guest:
            device = "lab0"
        words = ["ip", "-j", "link", "show", "dev", device]

        def measure(words: Sequence[str] = words, client: int = client) -> list[float]:
            return [json.loads(probe.run(words, client))[0]["mtu"]]

        probe.add("link.mtu", at, "ip", words, measure)


def _mtu_of(probe: Probe) -> int:
    limit = probe.planted.get("link.mtu")
    return 1500 if limit is None else int(limit.value)


def _clients(probe: Probe) -> int:
    return 1 if probe.definition is None else probe.definition.clients.count


def _host(probe: Probe) -> str:
    return str(probe.server.facts["host"])
