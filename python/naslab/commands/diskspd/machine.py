"""What DiskSpd prints about the client: names, start, and how many processors, cores, nodes and sockets there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Processor:
    """One logical processor."""

    number: int
    core: int
    socket: int
    node: int


@dataclass(frozen=True)
class Machine:
    """The client. start: `2026/11/20 18:40:00 UTC`, empty when unknown."""

    name: str
    start: str
    processors: tuple[Processor, ...]

    @property
    def cores(self) -> list[tuple[int, int]]:
        """(core, mask of its processors), numbered from 0."""
        return _masks(self.processors, lambda one: (one.socket, one.core))

    @property
    def nodes(self) -> list[tuple[int, int]]:
        """(node, mask)."""
        return _masks(self.processors, lambda one: (one.node,))

    @property
    def sockets(self) -> list[tuple[int, int]]:
        """(socket, mask)."""
        return _masks(self.processors, lambda one: (one.socket,))

    @property
    def threaded(self) -> bool:
        """Whether any core has several processors."""
        return len(self.cores) < len(self.processors)

    def place_of(self, number: int) -> tuple[int, int, int]:
        """Socket, node and core of a processor, as numbered above; 0 and its own number when it is not known."""
        found = [
            next((index for index, mask in masks if mask >> number & 1), default)
            for masks, default in ((self.sockets, 0), (self.nodes, 0), (self.cores, number))
        ]
        return found[0], found[1], found[2]


def _masks(processors: tuple[Processor, ...], key: Any) -> list[tuple[int, int]]:
    masks: dict[tuple[int, ...], int] = {}
    for one in processors:
        masks[key(one)] = masks.get(key(one), 0) | 1 << one.number
    return list(enumerate(masks[known] for known in sorted(masks)))


def machine_of(document: Mapping[str, Any], root: Path = Path("/sys/devices/system")) -> Machine:
    """The client of a run: name, number of processors and start from the document, the rest from this machine."""
    client = document["environment"].get("client", {})
    count = int(client.get("cpus") or 1)
    started = str(document.get("started_at") or "")
    shown = started.replace("-", "/").replace("T", " ").replace("Z", " UTC")
    return Machine(str(client.get("host") or ""), shown, tuple(_processor(number, root) for number in range(count)))


def _processor(number: int, root: Path) -> Processor:
    folder = root / "cpu" / f"cpu{number}"
    nodes = sorted(folder.glob("node[0-9]*"))
    node = int(nodes[0].name.removeprefix("node")) if nodes else 0
    core = _read(folder / "topology" / "core_id", number)
    return Processor(number, core, _read(folder / "topology" / "physical_package_id", 0), node)


def _read(path: Path, default: int) -> int:
    try:
        return max(int(path.read_text()), 0)
    except (OSError, ValueError):
        return default
