"""What is written where, and in which order: all of it follows from a few numbers, so that the journal of what was
acknowledged needs no contents, and another process can check it later.
"""

from __future__ import annotations

import dataclasses
import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from naslab.errors import UsageError

METADATA = "metadata"
Mode = Literal["none", "end", "each"]
MODES: tuple[Mode, ...] = ("none", "end", "each")
"""none: written, never flushed. end: flushed after every group of writes. each: every write is a durable one."""
FILL = 1
"""Generation of the first contents of a record, flushed before the load begins."""
FIRST = 2
"""Generation of the first write of the load; each further write of the file has the next."""


@dataclass(frozen=True)
class Plan:
    """What decides everything written. flush_batches: batches of `queue_depth` writes per flush (mode end).

    loads: those of MODES and METADATA that run at once.
    """

    run_id: str
    folder: str
    seed: int
    file_bytes: int
    record_bytes: int
    queue_depth: int
    flush_batches: int
    loads: tuple[str, ...] = (*MODES, METADATA)

    @property
    def modes(self) -> tuple[Mode, ...]:
        """Those of MODES that run."""
        return tuple(mode for mode in MODES if mode in self.loads)

    @property
    def records(self) -> int:
        """Records in a file."""
        return self.file_bytes // self.record_bytes

    def place(self, cut: int) -> str:
        """Folder of one cut's files."""
        return f"{self.folder}/naslab.files/cut{cut}"

    def path(self, cut: int, mode: str) -> str:
        """File of a mode."""
        return f"{self.place(cut)}/{mode}"

    def tag(self, cut: int) -> int:
        """Number that marks this cut's blocks, 64 bits: blocks of another run or cut are told apart."""
        return int.from_bytes(hashlib.blake2b(f"{self.run_id}/{cut}".encode(), digest_size=8).digest(), "little")

    def batches(self, cut: int, mode: str) -> Iterator[list[int]]:
        """Without end: record numbers of each batch, all different within it. Batch n has the generations
        FIRST + n * queue_depth and on, in the order of the numbers.
        """
        chance = random.Random(f"{self.seed}/{cut}/{mode}")
        while True:
            yield chance.sample(range(self.records), self.queue_depth)

    def document(self) -> dict[str, Any]:
        """As JSON types."""
        return dataclasses.asdict(self)


def from_document(found: dict[str, Any]) -> Plan:
    """The plan that `document` described. Raises UsageError for anything else."""
    try:
        plan = Plan(**{**found, "loads": tuple(found["loads"])})
    except (TypeError, KeyError):
        raise UsageError("--check: this naslab did not write the head of this journal") from None
    return plan
