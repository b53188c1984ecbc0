"""How many inputs the tests that change other tools' files at random try."""

from __future__ import annotations

import os


def inputs(usual: int) -> int:
    """`NASLAB_HOSTILE_READERS`, if it is set; pytest's `--hypothesis-seed` draws others."""
    return int(os.environ.get("NASLAB_HOSTILE_READERS", usual))
