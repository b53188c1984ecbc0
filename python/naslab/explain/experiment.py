"""The cheapest next experiment for an open question: as a sentence, as a ready command, and its time."""

from __future__ import annotations

import shlex
from typing import Any

from naslab.analysis.series import NS_PER_S

_LOAD = "sustained {target} --size 64m --block {block} --depth {depth}"
_COMMANDS: dict[str, tuple[str, str, int]] = {
    "duplex": ("reads beside writes for longer", _LOAD + " --workers 2 --write 50 --duration 30s", 40),
    "depth": ("large reads at this queue depth for longer", _LOAD + " --duration 30s", 40),
    "small_depth": ("small reads at this queue depth for longer", _LOAD + " --random --duration 30s", 40),
    "connections": ("more connections for longer", _LOAD + " --workers 4 --duration 30s", 40),
    "writes": ("durable writes for longer", _LOAD + " --write 100 --durability each --duration 30s", 40),
    "watch": ("small reads for longer", _LOAD + " --random --duration 60s", 70),
    "rest": ("the same load after a rest", "burst {target} --budget 20m", 1200),
    "long": ("a longer load", "burst {target} --budget 20m", 1200),
    "set": ("working sets of growing size", "cache size {target} --budget 10m", 600),
}
"""By the step that would tell: words, arguments of naslab, seconds."""
_LONGER = ("the same ladder with more time", "run {target} --budget 15m", 900)
DEEP = {"large": ("1m", 16), "small": ("4k", 64)}
"""Block and depth that keep a server busy, by size."""


def experiment(step: str, size: str, target: str) -> dict[str, Any]:
    """`experiment`, `command` and `costs_ns` of what would settle a question. target: as a user names it."""
    told, arguments, seconds = _COMMANDS.get(step, _LONGER)
    block, depth = DEEP.get(size, DEEP["large"])
    command = arguments.format(target=shlex.quote(target), block=block, depth=depth)
    return {"experiment": told, "command": f"naslab {command}", "costs_ns": seconds * NS_PER_S}
