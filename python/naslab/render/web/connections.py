"""Connections that ask for nothing hold nothing: a deadline for the request, and a limit for each address.

uvicorn waits for the rest of a header for ever, and refuses everybody once enough connections stand open. Here a
request must have arrived whole within REQUEST_S; an address that opens more than MAX_EACH connections loses the oldest
of those on which no answer is under way; all addresses together have MAX_ALL.
"""

from __future__ import annotations

import asyncio
import ipaddress
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_S = 5.0
MAX_EACH = 32
MAX_ALL = 192
"""Less than uvicorn's own limit, from which on it would refuse requests instead of closing what is idle."""


class Doorkeeper:
    """The open connections of one server, oldest first."""

    def __init__(self, max_each: int = MAX_EACH, max_all: int = MAX_ALL) -> None:
        self.max_each, self.max_all = max_each, max_all
        self._open: dict[str, dict[Connection, None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._open.values()))

    def arrived(self, connection: Connection) -> None:
        """A new connection. Where there are too many, one that waits is closed; where none waits, the new one."""
        own = self._open.setdefault(connection.source, {})
        own[connection] = None
        if len(own) > self.max_each:
            _close_one([*own], connection)
        elif len(self) > self.max_all:
            most = max(self._open.values(), key=len)
            _close_one([*most, *(each for of_one in self._open.values() for each in of_one)], connection)

    def left(self, connection: Connection) -> None:
        """A connection has ended."""
        own = self._open.get(connection.source, {})
        own.pop(connection, None)
        if not own:
            self._open.pop(connection.source, None)


def _close_one(oldest_first: list[Connection], new: Connection) -> None:
    waiting = (each for each in oldest_first if each is not new and each.waits)
    next(waiting, new).abort()


class Connection(H11Protocol):
    """One connection. doorkeeper: of the server; a subclass of each server has it."""

    doorkeeper: Doorkeeper
    request_s = REQUEST_S
    source = ""
    _deadline: asyncio.TimerHandle | None = None

    @property
    def waits(self) -> bool:
        """Whether its request has not arrived as a whole, so that no answer is under way."""
        cycle: Any = self.cycle
        return cycle is None or bool(cycle.response_complete or cycle.more_body)

    def abort(self) -> None:
        """Closes it at once, whatever was still to be sent."""
        self._calm()
        self.doorkeeper.left(self)
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """asyncio calls it when the connection is open."""
        super().connection_made(transport)
        self.source = source_of(self.client[0] if self.client else "")
        self._hurry()
        self.doorkeeper.arrived(self)

    def data_received(self, data: bytes) -> None:
        """asyncio calls it with what came."""
        super().data_received(data)
        if self.waits:
            self._hurry()
        else:
            self._calm()

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio calls it when the connection has ended."""
        self._calm()
        self.doorkeeper.left(self)
        super().connection_lost(exc)

    def _hurry(self) -> None:
        """From here on the request has its time; more bytes of it do not give it more."""
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.request_s, self.abort)

    def _calm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def connection_class() -> type[Connection]:
    """The class of one server's connections, with a doorkeeper of its own."""
    return type("OwnConnection", (Connection,), {"doorkeeper": Doorkeeper()})


def source_of(address: str) -> str:
    """Whose connection it is: the address, or the network of 64 bits that one owner of IPv6 has."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is None and not found.is_loopback:
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(getattr(found, "ipv4_mapped", None) or found)
