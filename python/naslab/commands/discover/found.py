"""Who announced itself, by address: names of both ways together, and what each machine offers when it is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

from naslab.commands.discover import dns_sd, ws_discovery
from naslab.commands.discover.listening import interfaces
from naslab.commands.doctor.nearby import Nearby, look
from naslab.errors import UsageError

SCHEMA = 1


@dataclass
class Found:
    """A machine. name: as it calls itself. model: by its own announcement. group: workgroup or domain.

    ways: how it was found. ports: of the protocols that it announced, 0 where it did not tell. nearby: what it offers;
    None where it was not asked.
    """

    address: str
    name: str = ""
    model: str = ""
    group: str = ""
    ways: list[str] = field(default_factory=list)
    ports: dict[str, int] = field(default_factory=dict)
    nearby: Nearby | None = None


Look = Callable[[str], Nearby]


def discover(wait_s: float, names: Sequence[str] = (), look: Look = look) -> tuple[list[Found], dict[str, str]]:
    """(machines by address, interfaces that were asked). names: of interfaces; all but the machine's own if empty.

    Raises UsageError where there is no such interface, or none with an address.
    """
    asked = interfaces(names)
    if missing := [name for name in names if name not in asked]:
        raise UsageError(f"--interface {missing[0]}: no such interface with an IPv4 address; see ip -4 address")
    if not asked:
        raise UsageError("this machine has no network interface with an IPv4 address: connect it, and try again")
    addresses = list(asked.values())
    with ThreadPoolExecutor(2) as pool:
        by_dns = pool.submit(dns_sd.services, addresses, wait_s)
        by_ws = pool.submit(ws_discovery.computers, addresses, wait_s)
        found = merged(by_dns.result(), by_ws.result())
    with ThreadPoolExecutor(16) as pool:
        for one, nearby in zip(found, pool.map(look, [one.address for one in found]), strict=True):
            one.nearby = nearby
    return found, asked


def merged(services: Sequence[dns_sd.Service], computers: Sequence[ws_discovery.Computer]) -> list[Found]:
    """One for each address, in the order of their numbers."""
    found: dict[str, Found] = {}

    def at(address: str, way: str) -> Found:
        one = found.setdefault(address, Found(address))
        one.ways += [way] if way not in one.ways else []
        return one

    for service in services:
        # A machine with several addresses is reached by the one that it answered from.
        one = at(service.sender, "DNS-SD")
        one.name, one.model = one.name or service.name, one.model or service.model
        one.ports[service.scheme] = one.ports.get(service.scheme) or service.port
    for computer in computers:
        one = at(computer.address, "WS-Discovery")
        one.name, one.group = one.name or computer.name, one.group or computer.workgroup
    return sorted(found.values(), key=lambda one: tuple(map(int, one.address.split("."))))


def document(found: Sequence[Found], asked: dict[str, str]) -> dict[str, Any]:
    """As JSON."""
    return {"schema": SCHEMA, "interfaces": asked, "servers": [asdict(one) for one in found]}
