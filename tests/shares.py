"""Which values of a test are tried by `make test`, and which only by `make test-lab`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import pytest


def only(quick: Collection[Any], values: Iterable[Any], others: pytest.MarkDecorator) -> list[Any]:
    """The values, of which all that are not quick have the mark `others`: pytest.mark.lab, for they take minutes."""
    return [
        each if each in quick else pytest.param(*(each if isinstance(each, tuple) else (each,)), marks=others)
        for each in values
    ]


def first(count: int, values: Sequence[Any], others: pytest.MarkDecorator) -> list[Any]:
    """The same where the first so many are quick."""
    return only(values[:count], values, others)
