"""`naslab reference net`: raw TCP between two hosts, the reference for what a protocol reaches."""

from __future__ import annotations

import ipaddress
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec.json import decode

from naslab import __version__, _engine
from naslab.errors import TargetError, UsageError
from naslab.results.describe import Part
from naslab.results.foreign import foreign_cell, foreign_document
from naslab.results.store import Store, new_run_id
from naslab.text.messages import failure_of, say, words_of
from naslab.units import duration_text, parse_duration, percent_text, rate_text

if TYPE_CHECKING:
    from naslab.results.document import Document

T = TypeVar("T")
DEFAULT_PORT = 6277
"""As in crates/wire/src/reference.rs."""
MAX_DURATION_NS = 600 * 10**9
LOSS_SHARE = 0.001
"""More than this share of the segments sent again is loss, less is ordinary."""
_FLOWS = {
    "upload": ("raw TCP, upload", "write"), "download": ("raw TCP, download", "read"),
    "both_upload": ("raw TCP, upload beside download", "write"),
    "both_download": ("raw TCP, download beside upload", "read"),
}  # fmt: skip
"""What each is called in the library, and the operation of files whose data go the same way."""
_PHASES = {
    "upload": "sending", "download": "receiving", "both": "both at once", "round_trip": "round trips",
}  # fmt: skip


class Flow(Part):
    """One way, of one measurement."""

    bytes: int
    duration_ns: int


class RoundTrip(Part):
    """Times of small messages, ns."""

    p50: int
    p99: int
    message_bytes: int
    count: int


class Wire(Part):
    """What the kernel says of the connections."""

    mss_bytes: int | None
    mtu_bytes: int | None
    retransmitted_segments: int


class NetResult(Part):
    """What the engine measured."""

    host: str
    port: int
    connections: int
    duration_ns: int
    upload_bytes_per_s: float
    download_bytes_per_s: float
    both_upload_bytes_per_s: float
    both_download_bytes_per_s: float
    round_trip_ns: RoundTrip
    flows: dict[str, Flow]
    wire: Wire


@dataclass
class NetRequest:
    """`naslab reference net`'s options; durations as text with units."""

    host: str
    listen: bool
    connections: int = 1
    duration: str = "5s"
    once: bool = False
    idle: str = "1h"
    timeout: str = "30s"
    store: Path | None = None
    as_json: bool = False
    quiet: bool = False

    def duration_ns(self, option: str, text: str, most: int = 1 << 62) -> int:
        """A time above 0. Raises UsageError."""
        found = parse_duration(text, option)
        if not 0 < found <= most:
            raise UsageError(f"{option} {text!r}: give more than 0 and at most {duration_text(most)}")
        return found


def net(request: NetRequest) -> int:
    """`naslab reference net HOST[:PORT]` and `naslab reference net --listen [ADDR:]PORT`; the exit code."""
    if request.listen:
        return _listen(request)
    if not request.host:
        raise UsageError("reference net: HOST is missing; give the host where `naslab reference net --listen` runs")
    host, port = split_host(request.host, "HOST")
    return _measure(request, host, port)


def split_host(text: str, name: str) -> tuple[str, int]:
    """Host and port of `host`, `host:port`, `[::1]:port`. Raises UsageError."""
    if "://" in text or "/" in text or "\0" in text or any(character.isspace() for character in text):
        raise UsageError(f"reference net: {name} {text!r}: give a host or HOST:PORT, without protocol and path")
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or not host or (rest and not rest.startswith(":")):
            raise UsageError(f"reference net: {name} {text!r}: an IPv6 address with a port is written [ADDRESS]:PORT")
        return host, _port(rest[1:], text, name) if rest else DEFAULT_PORT
    if text.count(":") > 1:
        return text, DEFAULT_PORT
    host, colon, port = text.partition(":")
    if not host:
        raise UsageError(f"reference net: {name} {text!r}: the host is missing")
    return host, _port(port, text, name) if colon else DEFAULT_PORT


def _port(port: str, text: str, name: str, lowest: int = 1) -> int:
    if not (port.isascii() and port.isdecimal() and len(port) < 6 and lowest <= int(port) <= 65535):
        raise UsageError(f"reference net: {name} {text!r}: the port must be a number from {lowest} to 65535")
    return int(port)


def _measure(request: NetRequest, host: str, port: int) -> int:
    from naslab.cli.live import current

    options = {
        "host": host,
        "port": port,
        "connections": request.connections,
        "duration_ns": request.duration_ns("--duration", request.duration, MAX_DURATION_NS),
        "timeout_ns": request.duration_ns("--timeout", request.timeout),
    }

    live = current()

    def on_event(_kind: str, phase: str) -> None:
        if live is not None:
            live.say("phase", name=phase)
        if not request.quiet:
            print(f"naslab reference net: {_PHASES.get(phase, phase)} ...", file=sys.stderr)

    found = _call(lambda: _engine.net_measure(json.dumps(options), on_event))
    result = decode(found, type=NetResult)
    run_id = Store(request.store).save(run_of(result))
    if request.as_json:
        json.dump({**json.loads(found), "run_id": run_id}, sys.stdout)
        print()
    else:
        print(describe(result))
        print(f"Run {run_id}: draw it beside a file server with naslab report RUN --line {run_id}")
    return 0


def run_of(result: NetResult) -> Document:
    """The measurement as a run of the library: a cell for each way, and for both at once."""
    ended = time.time_ns()
    cells = []
    for number, (flow, (what, op)) in enumerate(_FLOWS.items(), 1):
        told = result.flows[flow]
        cells.append(foreign_cell(
            number, op, getattr(result, f"{flow}_bytes_per_s"), workload=what, workers=result.connections,
            bytes=told.bytes, duration_ns=told.duration_ns, errors=0,
        ))  # fmt: skip
    source = {"kind": "imported", "tool": "naslab reference net", "tool_version": __version__, "format": "raw TCP"}
    route = {"mtu_bytes": result.wire.mtu_bytes} if result.wire.mtu_bytes else {}
    return foreign_document(
        new_run_id(), source, cells, target=f"tcp://{result.host}:{result.port}", protocol="tcp",
        label=f"raw TCP to {result.host}", environment={"route": route} if route else {},
        start_wall_ns=ended - 4 * result.duration_ns, end_wall_ns=ended,
    )  # fmt: skip


def _call(work: Callable[[], T]) -> T:
    """The engine's errors in words. Raises TargetError, UsageError."""
    try:
        return work()
    except (TargetError, UsageError) as error:
        if isinstance(error, TargetError):
            found = failure_of(error)
            error.refuse(found is not None and found.operation == "connect")
        say(error, words_of(error, step=False))  # it is in the engine's words already; none about files is added
        raise


def describe(result: NetResult) -> str:
    """The result in a few lines of text."""
    trip, wire = result.round_trip_ns, result.wire
    number = result.connections
    each = "1 connection" if number == 1 else f"{number} connections each way"
    took = duration_text(result.duration_ns)
    lines = [
        f"raw TCP to {result.host} (port {result.port}), {each}, {took} each",
        f"  upload      {rate_text(result.upload_bytes_per_s):>12}",
        f"  download    {rate_text(result.download_bytes_per_s):>12}",
        f"  both        {rate_text(result.both_upload_bytes_per_s):>12} up, "
        f"{rate_text(result.both_download_bytes_per_s)} down",
        f"  round trip  {duration_text(trip.p50):>12} (p50), {duration_text(trip.p99)} (p99) "
        f"of {trip.message_bytes} bytes, {trip.count} times",
    ]
    if wire.mtu_bytes:
        lines.append(f"  path        {wire.mtu_bytes:>8} byte packets (MTU), {wire.mss_bytes} bytes of data in each")
    again = wire.retransmitted_segments
    if again and wire.mss_bytes:
        flows = result.flows
        share = again * wire.mss_bytes / max(1, flows["upload"].bytes + flows["both_upload"].bytes)
        lost = ": packets are lost on the path to the server" if share > LOSS_SHARE else ""
        lines.append(f"  sent again  {again:>8} segments, {percent_text(share, 2)} of the upload{lost}")
    return "\n".join(lines)


def _listen(request: NetRequest) -> int:

    address, port = listen_address(request.host)
    idle = None if request.idle == "never" else request.duration_ns("--idle", request.idle)
    options = {"address": address, "port": port, "once": request.once, "idle_ns": idle}
    served: list[str] = []

    def on_event(kind: str, where: str) -> None:
        if kind == "ended":
            served.append(where)
        if kind == "listening" or not request.quiet:
            print(f"naslab reference net: {_told(kind, where, address)}", file=sys.stderr, flush=True)

    try:
        _call(lambda: _engine.net_listen(json.dumps(options), on_event))
    except KeyboardInterrupt:
        print(f"naslab reference net: stopped; {len(served)} served", file=sys.stderr)
    if request.as_json:
        json.dump({"schema": 1, "served": served}, sys.stdout)
        print()
    return 0


def listen_address(text: str) -> tuple[str | None, int]:
    """Address (None: all interfaces) and port of `[ADDR:]PORT`; port 0 takes a free one. Raises UsageError."""
    if not text:
        return None, DEFAULT_PORT
    if text.isascii() and text.isdecimal():
        return None, _port(text, text, "--listen", 0)
    host, colon, port = text.rpartition(":")
    whole = text.endswith("]") or (":" in host and not host.startswith("["))
    if not colon or whole:
        host, port = text, str(DEFAULT_PORT)
    plain = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        address = str(ipaddress.ip_address(plain))
    except ValueError:
        raise UsageError(
            f"--listen {text!r}: give PORT, ADDRESS:PORT or [IPv6]:PORT, the address being one of this machine's"
        ) from None
    return address, _port(port, text, "--listen", 0)


def _told(kind: str, where: str, address: str | None) -> str:
    if kind != "listening":
        return f"{where} {'measures' if kind == 'begun' else 'is done'}"
    port = where.rpartition(":")[2]
    if address is None:
        return (
            f"listening on all interfaces, port {port}: anybody who can reach this machine may measure. "
            f"On the other host: naslab reference net THIS-HOST:{port}. Ctrl-C ends it"
        )
    return f"listening on {where}. On the other host: naslab reference net {where}. Ctrl-C ends it"
