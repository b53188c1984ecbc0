"""Fixtures of the end-to-end tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli_tools import Cli


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """The real program with a store and a target folder of its own."""
    return Cli(tmp_path)
