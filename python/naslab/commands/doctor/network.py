"""Name and TCP connection of a server, before any protocol is spoken."""

from __future__ import annotations

import errno
import fcntl
import socket
import struct
import time
from dataclasses import dataclass
from typing import Any

from naslab.targets import Target
from naslab.targets.nfs import DEFAULT_PORT as NFS_PORT

_IP_MTU = 14
_IPV6_MTU = 24
_SIOCGIFMTU = 0x8921
MOST_WAIT_S = 10.0
LARGEST_PACKET_BYTES = 65535
"""Of IPv4; loopback's interface says one byte more."""


@dataclass(frozen=True)
class Reached:
    """A TCP connection that was made: round trip of its handshake, packet size of the way and of the interface."""

    address: str
    port: int
    connect_ns: int
    mtu_bytes: int | None
    interface_mtu_bytes: int | None


@dataclass(frozen=True)
class Unreached:
    """Why there is none. kind: name, refused, timeout or network."""

    kind: str
    message: str


def ports(target: Target) -> list[int]:
    """TCP ports to try, in order. NFSv3 servers may be known to the portmapper only."""
    options = target.options
    if target.protocol == "smb":
        return [options["port"]]
    if options["port"] is not None:
        return [options["port"]]
    return [NFS_PORT] if (options["version"] or "").startswith("4") else [NFS_PORT, options["portmap_port"]]


def resolve(host: str) -> list[str] | Unreached:
    """Addresses of a host name."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return Unreached("name", f"the name {host} cannot be resolved: check its spelling, or give the address")
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def reach(addresses: list[str], port_list: list[int], timeout_s: float) -> Reached | Unreached:
    """The first address and port that takes a connection."""
    last = Unreached("network", "the name has no address")
    for port in port_list:
        for address in addresses:
            try:
                return _connect(address, port, min(timeout_s, MOST_WAIT_S))
            except OSError as error:
                last = Unreached(_kind(error), error.strerror or "no answer")
    return last


def _connect(address: str, port: int, timeout_s: float) -> Reached:
    start = time.perf_counter_ns()
    with socket.create_connection((address, port), timeout=timeout_s) as connection:
        took = time.perf_counter_ns() - start
        return Reached(address, port, took, _path_mtu(connection), _interface_mtu(connection))


def _kind(error: OSError) -> str:
    if isinstance(error, TimeoutError) or error.errno == errno.ETIMEDOUT:
        return "timeout"
    return "refused" if error.errno == errno.ECONNREFUSED else "network"


def _path_mtu(connection: socket.socket) -> int | None:
    level, option = (
        (socket.IPPROTO_IPV6, _IPV6_MTU) if connection.family == socket.AF_INET6 else (socket.IPPROTO_IP, _IP_MTU)
    )
    try:
        return connection.getsockopt(level, option) or None
    except OSError:
        return None


def _interface_mtu(connection: socket.socket) -> int | None:
    """MTU of the interface that holds the connection's own address; IPv4 only."""
    if connection.family != socket.AF_INET:
        return None
    own = connection.getsockname()[0]
    for _, name in socket.if_nameindex():
        if _ioctl(connection, 0x8915, name, slice(20, 24)) == socket.inet_aton(own):  # SIOCGIFADDR
            mtu = _ioctl(connection, _SIOCGIFMTU, name, slice(16, 20))
            return min(struct.unpack("i", mtu)[0], LARGEST_PACKET_BYTES) if mtu else None
    return None


def _ioctl(connection: socket.socket, request: int, name: str, part: slice) -> Any:
    try:
        return fcntl.ioctl(connection.fileno(), request, struct.pack("256s", name[:15].encode()))[part]
    except OSError:
        return None
