"""naslab against file servers that others wrote; docs/reference/interop.md is their table."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli_tools import need
from interop.inside import TRIED
from interop.known import KNOWN
from interop.servers import SERVERS, Foreign, MissingError, NotServedError
from interop.trying import kept, page, tried, wrong

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "interop.md"
pytestmark = pytest.mark.timeout(2400)  # the first one may build its server


@pytest.mark.parametrize("server", SERVERS, ids=[each.name for each in SERVERS])
def test_every_command_works_or_names_the_servers_fault(server: Foreign, tmp_path: Path) -> None:
    try:
        found = tried(server, tmp_path)
    except NotServedError as error:
        pytest.skip(f"{server.what}: {error}")
    except MissingError as error:
        need(False, f"{server.what}: {error};")
        raise
    assert wrong(server.name, found) == []


def test_the_page_is_of_these_servers() -> None:
    good = {server.name: {what: {"code": 0, "said": ""} for what in TRIED} for server in SERVERS}
    assert PAGE.read_text("utf-8") == page(good)
    assert {name for name, _ in KNOWN} <= set(good) and {what for _, what in KNOWN} <= set(TRIED)


def test_a_page_is_read_as_it_was_written() -> None:
    found = {server.name: {what: {"code": 0, "said": ""} for what in TRIED} for server in SERVERS}
    found["rclone"]["tree"]["code"] = 1
    assert "**fails**" in page(found) and kept(page(found)) == found


def test_an_unknown_failure_is_one() -> None:
    found = {what: {"code": 0, "said": ""} for what in TRIED}
    assert wrong("rclone", found) == []
    assert wrong("rclone", {**found, "tree": {"code": 1, "said": "x"}}) == ["tree: exit 1: x"]
    assert len(wrong("ganesha-mem", found)) == 3
