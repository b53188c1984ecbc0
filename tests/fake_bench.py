"""A bench that measures nothing: for what a run of an experiment asks of one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from claim_truth import cell
from naslab.errors import TargetError


class Fake:
    """A bench that notes what is asked of it. fails: which measurement, from 0, fails."""

    place, limits, seed = "host", {"disk": 60e6}, 0

    def __init__(self, log: list[str], fails: Sequence[int] = ()) -> None:
        self.log, self.fails = log, fails

    def measure(self, words: Sequence[str], client: str = "") -> dict[str, Any]:
        count = sum(line.startswith("measure") for line in self.log)
        self.log.append(f"measure {' '.join(words)}")
        if count in self.fails:
            raise TargetError("the server went away")
        return {"command": words[0], "cells": [cell(1e8 + count, 32 << 20)], "run_id": str(count), "status": "complete"}

    @contextlib.contextmanager
    def beside(self, commands: Sequence[Sequence[str]], client: int = 1) -> Iterator[None]:
        at = f" at client {client}" if client > 1 else ""
        self.log += [f"beside {' '.join(words)}{at}" for words in commands]
        yield
        self.log += [f"end {' '.join(words)}" for words in commands]

    def prepare(self, words: Sequence[str]) -> None:
        self.log.append(f"prepare {' '.join(words)}")

    def empty(self) -> None:
        self.log.append("empty")

    def set_cpu(self, share: float) -> None:
        self.log.append(f"cpu {share:.3f}")

    def close(self) -> None:
        self.log.append("close")
