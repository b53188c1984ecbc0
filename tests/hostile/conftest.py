"""Servers that the tests of this folder share, anew for each file: some files kill them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from cli_tools import need
from naslab import lab
from spoken import SYSTEMS, missing_packages


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, lab.Server]]:
    """One server of each system that `spoken` names."""
    missing = missing_packages()
    need(not missing, missing)
    with ExitStack() as stack:
        yield {name: stack.enter_context(lab.running(name)) for name in SYSTEMS}
