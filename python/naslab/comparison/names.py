"""Names of targets and runs in sentences."""

from __future__ import annotations

LONGEST_NAME = 44


def short(name: str) -> str:
    """A name that leaves room for the rest of the sentence: its beginning and its end."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME // 2]}…{name[-LONGEST_NAME // 2 + 1 :]}"
