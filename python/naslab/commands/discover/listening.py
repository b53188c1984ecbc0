"""Questions to a multicast group, and the datagrams that come back."""

from __future__ import annotations

import fcntl
import select
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MOST_BYTES = 65_535
MOST_ANSWERS = 4_000
"""Datagrams that are read in one search, so that a flood ends it."""


@dataclass(frozen=True)
class Group:
    """A multicast group of IPv4. ttl: over how many routers its questions go."""

    address: str
    port: int
    ttl: int


def interfaces(names: Sequence[str] = ()) -> dict[str, str]:
    """IPv4 address by interface; those of `names`, or all but the machine's own."""
    found = {}
    for _, name in socket.if_nameindex():
        address = _address(name)
        if address is not None and (name in names if names else not address.startswith("127.")):
            found[name] = address
    return found


def _address(name: str) -> str | None:
    """The first IPv4 address of an interface; None where it has none."""
    request = struct.pack("256s", name.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            found = fcntl.ioctl(asking.fileno(), 0x8915, request)  # SIOCGIFADDR of <linux/sockios.h>
        except OSError:
            return None
    return socket.inet_ntoa(found[20:24])


class Asking:
    """Sockets that ask a group, one for each interface; close them by `with`."""

    def __init__(self, group: Group, addresses: Sequence[str]) -> None:
        self.group = group
        self.sockets: list[socket.socket] = []
        for address in addresses:
            opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.sockets.append(opened)
            opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
            opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, group.ttl)
            opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
            opened.bind((address, 0))

    def __enter__(self) -> Asking:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.sockets:
            each.close()

    def ask(self, question: bytes) -> None:
        """Sends a question by every interface; one that cannot send, e.g. because its cable is out, is left out."""
        for each in self.sockets:
            try:
                each.sendto(question, (self.group.address, self.group.port))
            except OSError:
                continue

    def answers(self, questions: Sequence[tuple[float, bytes]], wait_s: float) -> Iterator[tuple[str, bytes]]:
        """(address of the sender, datagram) until `wait_s` has passed. questions: each after so many seconds."""
        began = time.monotonic()
        left = sorted(questions)
        for _ in range(MOST_ANSWERS):
            now = time.monotonic() - began
            while left and left[0][0] <= now:
                self.ask(left.pop(0)[1])
            if now >= wait_s:
                return
            until = min(wait_s, left[0][0] if left else wait_s)
            ready = select.select(self.sockets, [], [], max(until - now, 0))[0]
            for each in ready[:1]:
                try:
                    data, (sender, _) = each.recvfrom(MOST_BYTES)
                except OSError:
                    continue
                yield sender, data
