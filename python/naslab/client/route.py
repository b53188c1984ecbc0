"""By which network interface a host is reached, and how fast that interface says it is.

Source: rtnetlink(7), netdevice(7); sysfs class net. What lies beyond the interface (a switch, a slower server) is
not known here.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_NETLINK_ROUTE, _RTM_NEWROUTE, _RTM_GETROUTE, _NLM_F_REQUEST = 0, 24, 26, 1
_RTA_DST, _RTA_OIF = 1, 4
_RTN_LOCAL = 2
NET = Path("/sys/class/net")
NOMINAL_DRIVERS = ("virtio_net", "vmxnet3", "xen-netfront", "vif", "e1000", "hv_netvsc", "netvsc", "ena", "gve")
"""Drivers of interfaces that a hypervisor makes up: their speed is a label, data may pass faster or slower."""

Route = dict[str, Any]
"""address, interface, loopback, mtu_bytes, speed_bits_per_s (None: not known), says (why not, or what the speed is)."""


def route_to(host: str) -> Route | None:
    """The way to a host: see `Route`. None where the name is not known or this system does not say.

    A name is looked up, which may ask a name server; no packet goes to the host.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        scope = int(address[3]) if len(address) > 3 else 0
        index, is_local = _ask(family, str(address[0]).partition("%")[0])
        index = scope or index
        name = socket.if_indextoname(index)
    except (OSError, UnicodeError, AttributeError, ValueError, struct.error):
        return None
    loopback = is_local or name == "lo"
    found: Route = {"address": str(address[0]), "interface": name, "loopback": loopback, "mtu_bytes": _mtu(name)}
    if loopback:
        return {**found, "interface": "lo", "speed_bits_per_s": None, "says": "lo: the server is on this machine"}
    if _number(NET / name / "ifindex") != index:
        return {**found, "speed_bits_per_s": None, "says": f"{name}, in a network namespace of its own"}
    speed, says = speed_of(name)
    return {**found, "speed_bits_per_s": speed, "says": says}


def route_to_all(hosts: Sequence[str]) -> Route | None:
    """The way to several addresses of one server, used together: that to the first, with the speeds of all added up.

    Two addresses behind one interface have its speed once. `interfaces` lists them where there are several; their speed
    is None where one is not known. mtu_bytes: the largest, so that a ceiling from it is one.
    """
    found = [route for host in hosts if (route := route_to(host)) is not None]
    ways = {route["interface"]: route for route in found}
    if len(ways) < 2 or len(found) < len(hosts):
        return found[0] if len(found) == len(hosts) and found else None
    speeds = [route["speed_bits_per_s"] for route in ways.values()]
    says = "; ".join(route["says"] for route in ways.values())
    return {
        **found[0], "loopback": any(route["loopback"] for route in found), "interfaces": list(ways),
        "mtu_bytes": max((route["mtu_bytes"] or 0 for route in ways.values()), default=0) or None,
        "speed_bits_per_s": None if None in speeds else sum(speeds), "says": f"several interfaces: {says}",
    }  # fmt: skip


def nic_bytes_per_s(hosts: Sequence[str]) -> int | None:
    """What the interfaces on the way to a server's addresses carry one way, bytes of file data per second.

    None where that is not known: for loopback, and for interfaces that are no hardware. An upper bound by formula from
    the interfaces' speed and MTU (naslab.analysis.linkrate).
    """
    from naslab.analysis.linkrate import link_ceiling_bytes_per_s

    ceiling = link_ceiling_bytes_per_s({"environment": {"route": route_to_all(hosts)}})
    return None if ceiling is None else int(ceiling)


def speed_of(name: str, root: Path = NET, seen: tuple[str, ...] = ()) -> tuple[int | None, str]:
    """Speed of an interface in bits per second, and a word on it; None where what it says means nothing.

    A bond says the sum of its links; a VLAN or macvlan has the speed of what it lies on. veth, tun, bridges and the
    like are no hardware and say made-up figures such as 10 Gbit/s.
    """
    here = root / name
    stated = _number(here / "speed")
    stated = stated * 10**6 if stated is not None and stated > 0 else None
    if (here / "bonding").is_dir():
        return stated, "a bond: the sum of its links; a single connection uses only one"
    if (here / "device").exists():
        driver = os.path.basename(os.path.realpath(here / "device" / "driver"))
        if driver in NOMINAL_DRIVERS:
            return None, f"{name}, emulated by a hypervisor ({driver}): its speed is not known"
        return stated, name if stated else f"{name}, which does not report its speed"
    lower = sorted(path.name.removeprefix("lower_") for path in here.glob("lower_*"))
    is_bridge = (here / "bridge").is_dir()
    if len(lower) == 1 and not is_bridge and lower[0] not in seen:
        speed, says = speed_of(lower[0], root, (*seen, name))
        return speed, f"{name} on {says}"
    return None, f"{name}, a virtual interface: its stated speed means nothing"


def _mtu(name: str) -> int | None:
    """From the socket interface, which sees this process's own network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            found = fcntl.ioctl(asking.fileno(), 0x8921, struct.pack("256s", name[:15].encode()))  # SIOCGIFMTU
        except OSError:
            return None
    return int(struct.unpack_from("i", found, 16)[0]) or None


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _ask(family: int, address: str) -> tuple[int, bool]:
    """(number of the interface that packets to an address leave by, whether it is this machine's own address).

    Raises OSError where there is no route, or no netlink.
    """
    packed = socket.inet_pton(family, address)
    attribute = struct.pack("=HH", 4 + len(packed), _RTA_DST) + packed
    body = struct.pack("=BBBBBBBBI", family, len(packed) * 8, 0, 0, 0, 0, 0, 0, 0) + attribute
    header = struct.pack("=IHHII", 16 + len(body), _RTM_GETROUTE, _NLM_F_REQUEST, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_ROUTE) as asking:
        asking.settimeout(2)
        asking.send(header + body)
        answer = asking.recv(1 << 16)
    _, kind, _, _, _ = struct.unpack_from("=IHHII", answer)
    if kind != _RTM_NEWROUTE:
        raise OSError("no route")
    is_local = answer[16 + 7] == _RTN_LOCAL
    at = 16 + 12
    while at + 4 <= len(answer):
        size, what = struct.unpack_from("=HH", answer, at)
        if what == _RTA_OIF:
            return struct.unpack_from("=I", answer, at + 4)[0], is_local
        at += max(4, (size + 3) & ~3)
    raise OSError("the answer names no interface")
