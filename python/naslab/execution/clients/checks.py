"""What must be true of all clients before anything is measured: one naslab, one target, room and permission."""

from __future__ import annotations

import platform
from typing import Any

from naslab import __version__
from naslab.errors import TargetError, UsageError
from naslab.execution.clients.link import Client, of_all
from naslab.execution.clients.share import Share
from naslab.execution.workspace import owner_mark
from naslab.results.store import new_run_id

PROBE_S = 120.0
_SAME = ("filesystem", "dialect", "signing", "encryption", "server_guid", "share_type")
"""Facts of a target that must not differ from client to client."""


async def probe(clients: list[Client], target: dict[str, Any], depth: int, share: Share) -> dict[str, Any]:
    """What the clients see of the target, as `_engine.probe` says it, with the least room that one of them sees.

    Raises UsageError for clients that differ, TargetError for a target that is not the same, or is not writable.
    """
    versions(clients, await of_all(clients, "describe"))
    found = [each["probe"] for each in await of_all(clients, "probe", PROBE_S, target=target, depth=depth)]
    for client, each in zip(clients, found, strict=True):
        for name in _SAME:
            ours, theirs = found[0]["facts"].get(name), each["facts"].get(name)
            if ours != theirs:
                raise TargetError(
                    f"{client.name} sees a different target from {clients[0].name}: {name} is {theirs}, not {ours}; "
                    "give all clients the same share", "invalid", before_run=True,
                )  # fmt: skip
    if target["protocol"] != "null":
        await _one_view(clients, target)
    return {**found[0], "space": _least_space(found, len(clients), share)}


def versions(clients: list[Client], about: list[dict[str, Any]]) -> None:
    """Raises UsageError naming the first client whose naslab or Python is another one."""
    here = platform.python_version()
    for client, each in zip(clients, about, strict=True):
        theirs, python = each["naslab_version"], each["python"]
        if theirs != __version__:
            raise UsageError(f"{client.name} has naslab {theirs}, this machine {__version__}: install the same on all")
        if python is not None and python.split(".")[:2] != here.split(".")[:2]:
            raise UsageError(f"{client.name} has Python {python}, this machine {here}: install the same on all")


async def _one_view(clients: list[Client], target: dict[str, Any]) -> None:
    """The first client makes a folder; all others must see it and be able to write to it."""
    run_id = new_run_id()
    folder = f"naslab-{run_id}"
    await clients[0].call("mark", PROBE_S, target=target, folder=folder, mark=owner_mark(run_id))
    in_doubt = True
    try:
        for client, each in zip(
            clients, await of_all(clients, "sees", PROBE_S, target=target, folder=folder), strict=True
        ):
            if not each["sees"]:
                raise TargetError(
                    f"{client.name} does not see the files of {clients[0].name}: this name is another target there; "
                    "mount the same share on all clients", "invalid", before_run=True,
                )  # fmt: skip
        in_doubt = False
    finally:
        await clients[0].call("unmark", PROBE_S, target=target, folder=folder, in_doubt=in_doubt)


def _least_space(found: list[dict[str, Any]], clients: int, share: Share) -> dict[str, Any] | None:
    """The room of the client that sees the least, for one client's files."""
    known = [each["space"] for each in found if each["space"]]
    if not known:
        return None
    least = min(known, key=lambda each: each["free_bytes"])
    return {**least, "free_bytes": least["free_bytes"] // (1 if share == "file" else clients)}
