"""What counts as a number in parsed JSON and TOML."""

from __future__ import annotations

import math
from typing import Any, TypeGuard


def is_number(value: Any) -> TypeGuard[float]:
    """Whether parsed JSON or TOML is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_positive(value: Any) -> TypeGuard[float]:
    """The same, above 0 and finite."""
    return is_number(value) and 0 < value < math.inf
