"""`naslab discover`: file servers that announce themselves on this network, and what to type for each."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from naslab.cli import options as o
from naslab.errors import UsageError
from naslab.text.printable import printable
from naslab.units import duration_text, parse_duration

if TYPE_CHECKING:
    from naslab.commands.discover import Found

SHORTEST_NS, LONGEST_NS = 100_000_000, 60_000_000_000
WaitOpt = Annotated[str, typer.Option("--for", metavar="TIME", help="How long to wait for answers; at most 60s.")]
InterfaceOpt = Annotated[
    Optional[list[str]],  # noqa: UP045 - Typer reads this at run time
    typer.Option(
        "--interface", metavar="NAME", help="Ask on this network interface; may be repeated.", show_default="all",
    ),
]  # fmt: skip


def discover(wait: WaitOpt = "3s", interface: InterfaceOpt = None, as_json: o.JsonOpt = False) -> int:
    """Find the file servers that announce themselves on this network.

    Asks by DNS-SD (as Bonjour and Avahi) and WS-Discovery (as Windows); exit code 1 where no server answers.
    """
    from naslab.commands.discover.found import discover as search
    from naslab.commands.discover.found import document

    wait_ns = parse_duration(wait, "--for")
    if not SHORTEST_NS <= wait_ns <= LONGEST_NS:
        raise UsageError(f"--for {wait}: give {duration_text(SHORTEST_NS)} to {duration_text(LONGEST_NS)}")
    found, asked = search(wait_ns / 1e9, interface or ())
    if as_json:
        json.dump(document(found, asked), sys.stdout)
        print()
    else:
        print("\n".join(_lines(found, asked, duration_text(wait_ns))))
    return 0 if found else 1


def _lines(found: Sequence[Found], asked: Mapping[str, str], wait: str) -> Iterator[str]:
    """For people: each machine, and what to type for what it offers."""
    if not found:
        networks = ", ".join(f"{name} ({address})" for name, address in asked.items())
        yield f"No file server announced itself within {wait} on {networks}."
    for one in found:
        told = [one.name or "(no name)", one.address, *([one.model] if one.model else [])]
        yield printable("  ".join([*told, *([f"workgroup {one.group}"] if one.group else [])]), one_line=True)
        yield from (printable(line, one_line=True) for line in _to_type(one))
        yield ""
    yield "A server that announces nothing is asked by its name or address: naslab run 192.168.1.5"


def _to_type(one: Found) -> Iterator[str]:
    """What to type for what a machine offers or announces."""
    from naslab.commands.discover.dns_sd import USUAL
    from naslab.commands.doctor.nearby import to_type

    open_ = {offer.scheme: offer for offer in (one.nearby.offers if one.nearby else []) if offer.open}
    for offer in open_.values():
        yield from to_type(offer, one.address, "naslab run")
    for scheme, port in one.ports.items():
        if port not in (0, USUAL[scheme]):
            yield f"  naslab run {scheme}://{one.address}:{port}/{'SHARE' if scheme == 'smb' else 'EXPORT'}"
        elif scheme not in open_:
            yield f"  it announces {scheme.upper()}, but nothing answers at port {USUAL[scheme]}"
    if not open_ and not one.ports:
        yield "  it answers neither SMB nor NFS: sharing may be turned off, or a firewall in between"
