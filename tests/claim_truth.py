"""Seeded repeats of known truth for claims: each block shares a factor, each measurement has noise of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from naslab.analysis.claims import Claim
from naslab.analysis.quantities import Quantity, Sample

RATE = 100e6


def cell(rate: float, file_bytes: int = 1 << 20, record_bytes: int = 1 << 16, op: str = "write") -> dict[str, Any]:
    """One complete cell of a run document, as far as claims read it."""
    return {
        "op": op, "workload": None, "status": "complete", "file_bytes": file_bytes, "record_bytes": record_bytes,
        "throughput_bytes_per_s": rate, "latency_ns": {},
    }  # fmt: skip


def sample(condition: str, block: int, cells: list[dict[str, Any]], place: str = "host") -> Sample:
    """A repeat of the test `t`."""
    return Sample(condition, "t", block, place, {"cells": cells})


def repeats(
    rng: np.random.Generator, truth: Mapping[str, float], count: int, cv: float, shared_cv: float = 0.1
) -> list[Sample]:
    """Blocks of all conditions. truth: rate by condition, times RATE. cv: of a measurement; shared_cv: of a block."""
    found = []
    for block in range(count):
        level = RATE * np.exp(shared_cv * rng.standard_normal())
        for name, rate in truth.items():
            found.append(sample(name, block, [cell(float(rate * level * np.exp(cv * rng.standard_normal())))]))
    return found


def ratio(name: str, one: str, other: str, region: tuple[float, float]) -> Claim:
    """A claim on the ratio of two conditions."""
    return Claim(name, "words", sides=(Quantity(one, "t"), Quantity(other, "t")), region=region)
