"""Which values of a test are tried by `make test`, and which only by `make test-lab`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def first(count: int, values: Sequence[Any], others: pytest.MarkDecorator) -> list[Any]:
    """The values, of which all but the first so many have the mark `others`: pytest.mark.lab, for they take minutes."""
    return [
        pytest.param(*(each if isinstance(each, tuple) else (each,)), marks=others) if at >= count else each
        for at, each in enumerate(values)
    ]
