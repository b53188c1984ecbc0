"""A TCP relay between a client and a server that plants what a kernel without netem cannot: delay, a rate of each
connection, a token bucket, stops.

One thread, one selector. Each direction of a connection is a line of chunks, each with the time from which it may go
on; what is not due yet waits, up to `Plan.queue_bytes`, and then the relay reads no more, so that TCP slows the sender.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

CHUNK = 256 << 10
SAVED_S = 0.05
"""A paced line may catch up on so much time: a busy machine does not let the relay run whenever it wants to."""
LONGEST_WAIT_S = 0.2
Address = tuple[str, int]


@dataclass(frozen=True)
class Plan:
    """What a relay plants.

    delay_s: each way. rate_bytes_per_s: of each connection, each direction; 0: no limit. base, peak, size: of one token
    bucket for all connections and both directions (bytes per second, bytes per second, bytes); base 0: none. every_s,
    stop_s: nothing is passed on for `stop_s` out of `every_s`.
    """

    delay_s: float = 0.0
    rate_bytes_per_s: float = 0.0
    base_bytes_per_s: float = 0.0
    peak_bytes_per_s: float = 0.0
    size_bytes: float = 0.0
    every_s: float = 0.0
    stop_s: float = 0.0

    @property
    def queue_bytes(self) -> int:
        """Bytes that wait in one direction: many where they only travel, few where a rate would pile them up."""
        return 64 << 20 if self.delay_s and not (self.rate_bytes_per_s or self.base_bytes_per_s) else 512 << 10

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Plan:
        """From a system's part."""
        return cls(**values)


@dataclass
class Tokens:
    """A token bucket: `rate` bytes a second, `most` bytes of credit. A rate of 0 lets everything pass."""

    rate: float
    most: float
    left: float = 0.0
    at: float = 0.0

    def fill(self, now: float) -> None:
        """Up to `now`."""
        if self.at:
            self.left = min(self.most, self.left + (now - self.at) * self.rate)
        self.at = now

    def room(self) -> float:
        """Bytes that may pass now."""
        return self.left if self.rate else float("inf")

    def wait_s(self, size: float) -> float:
        """Until so many bytes may pass."""
        return max((size - self.left) / self.rate, 0.0) if self.rate else 0.0

    def take(self, size: float) -> None:
        """So many have passed."""
        self.left -= size


def paced(rate: float) -> Tokens:
    """A rate without credit."""
    return Tokens(rate, max(rate * SAVED_S, 16 << 10))


@dataclass
class Line:
    """One direction of one connection. pieces: (due, data), the oldest first; ended: the sender closed its end."""

    source: socket.socket
    sink: socket.socket
    limits: Sequence[Tokens]
    pieces: deque[tuple[float, memoryview]] = field(default_factory=deque)
    queued: int = 0
    ended: bool = False
    done: bool = False

    def put(self, data: bytes, due: float) -> None:
        """Data came in."""
        self.pieces.append((due, memoryview(data)))
        self.queued += len(data)

    def push(self, now: float) -> float | None:
        """Sends what is due and allowed; when to try again (a time), None: when the sink or the source says so."""
        while self.pieces:
            due, data = self.pieces[0]
            if due > now:
                return due
            for each in self.limits:
                each.fill(now)
            allowed = int(min([len(data), *(each.room() for each in self.limits)]))
            least = min(len(data), 4096)
            if allowed < least:
                return now + max([0.001, *(each.wait_s(least) for each in self.limits)])
            try:
                sent = self.sink.send(data[:allowed])
            except BlockingIOError:
                return None
            for each in self.limits:
                each.take(sent)
            self.queued -= sent
            if sent == len(data):
                self.pieces.popleft()
            else:
                self.pieces[0] = (due, data[sent:])
        return None


def is_stopped(plan: Plan, now: float) -> float:
    """Seconds until a stop is over; 0: none is on."""
    if not plan.every_s:
        return 0.0
    return max(plan.stop_s - now % plan.every_s, 0.0)


class Relay:
    """listen: where clients come. server: where they go."""

    def __init__(self, plan: Plan, doors: Sequence[tuple[Address, Address]]) -> None:
        self.plan = plan
        self.selector = selectors.DefaultSelector()
        self.lines: dict[socket.socket, tuple[Line, Line]] = {}  # by each end: (from it, to it)
        self.shared: list[Tokens] = []
        if plan.base_bytes_per_s:
            self.shared.append(Tokens(plan.base_bytes_per_s, plan.size_bytes, plan.size_bytes))
            self.shared.append(paced(plan.peak_bytes_per_s))
        self.listeners = []
        for listen, server in doors:
            listener = socket.create_server(listen, backlog=64)
            listener.setblocking(False)
            self.selector.register(listener, selectors.EVENT_READ, server)
            self.listeners.append(listener)

    def run(self, until: float | None = None) -> None:
        """Relays; for ever without `until` (of the monotonic clock)."""
        wait = LONGEST_WAIT_S
        while until is None or time.monotonic() < until:
            events = self.selector.select(wait)
            held = is_stopped(self.plan, time.monotonic())
            if held:
                time.sleep(min(held, LONGEST_WAIT_S))
                wait = 0.0
                continue
            for key, mask in events:
                if key.data is not None:
                    self._accept(key.fileobj, key.data)  # type: ignore[arg-type]
                elif mask & selectors.EVENT_READ and key.fileobj in self.lines:
                    self._read(key.fileobj)  # type: ignore[arg-type]
            wait = self._push()

    def close(self) -> None:
        """Lets go of every socket."""
        for each in [*self.lines, *self.listeners]:
            each.close()
        self.selector.close()

    def _accept(self, listener: socket.socket, server: Address) -> None:
        try:
            client, _ = listener.accept()
            other = socket.create_connection(server, timeout=5)
        except OSError:
            return
        rate = self.plan.rate_bytes_per_s
        for each in (client, other):
            each.setblocking(False)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.selector.register(each, selectors.EVENT_READ)
        up = Line(client, other, [*self.shared, *([paced(rate)] if rate else [])])
        down = Line(other, client, [*self.shared, *([paced(rate)] if rate else [])])
        self.lines[client], self.lines[other] = (up, down), (down, up)

    def _read(self, end: socket.socket) -> None:
        line, _ = self.lines[end]
        if line.queued >= self.plan.queue_bytes:
            return
        try:
            data = end.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            line.put(data, time.monotonic() + self.plan.delay_s)
        else:
            line.ended = True

    def _push(self) -> float:
        """Sends what may go, and asks for the events that are needed; seconds until the next try."""
        now = time.monotonic()
        nearest = now + LONGEST_WAIT_S
        broken = []
        for end, (line, to_it) in self.lines.items():
            try:
                again = line.push(now)
                if line.ended and not line.pieces and not line.done:
                    line.done = True
                    line.sink.shutdown(socket.SHUT_WR)
            except OSError:
                broken.append(end)
                continue
            nearest = min(nearest, again or nearest)
            if line.done and to_it.done:
                broken.append(end)
            else:
                self._want(end, line, to_it)
        for end in broken:
            self._drop(end)
        return max(nearest - time.monotonic(), 0.0)

    def _want(self, end: socket.socket, line: Line, to_it: Line) -> None:
        """Reading where there is room; writing where something due waits for the socket."""
        wanted = 0
        if not line.ended and line.queued < self.plan.queue_bytes:
            wanted |= selectors.EVENT_READ
        now = time.monotonic()
        if to_it.pieces and to_it.pieces[0][0] <= now and all(each.room() >= 4096 for each in to_it.limits):
            wanted |= selectors.EVENT_WRITE
        if end in self.selector.get_map():
            if self.selector.get_key(end).events == wanted:
                return
            if wanted:
                self.selector.modify(end, wanted)
            else:
                self.selector.unregister(end)
        elif wanted:
            self.selector.register(end, wanted)

    def _drop(self, end: socket.socket) -> None:
        line, _ = self.lines.get(end, (None, None))
        if line is None:
            return
        for each in (line.source, line.sink):
            self.lines.pop(each, None)
            if each in self.selector.get_map():
                self.selector.unregister(each)
            each.close()
