"""Texts of an exported file: safe to open in a spreadsheet."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def without_control(text: str) -> str:
    """Text without characters that XML cannot hold; half of a surrogate pair becomes a question mark."""
    return _CONTROL.sub("", text).encode("utf-8", "replace").decode("utf-8")


def safe_text(text: str) -> str:
    """Text a spreadsheet takes as text: no control characters, an apostrophe before what would be a formula."""
    clean = without_control(text)
    return "'" + clean if clean.startswith(_FORMULA) else clean


def plain_text(text: str) -> str:
    """What `safe_text` made its text of, but for control characters."""
    return text[1:] if text.startswith("'") and text[1:].startswith(_FORMULA) else text
