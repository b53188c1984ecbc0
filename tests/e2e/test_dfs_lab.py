"""DFS: a namespace's links are followed to the server behind them, which the run names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cli_tools import Cli, Done
from lab_tools import need_system, own_folders
from naslab import lab
from naslab.lab.server import Server

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("own_folders")]
__all__ = ["own_folders"]
LOAD = ("--file-size", "1m", "--record", "64k", "--tests", "read", "--verify")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    need_system("samba")
    with lab.running("samba") as running:
        yield running


def swept(cli: Cli, server: Server, folder: str, query: str = "") -> Done:
    """A verified sweep of a folder of the namespace."""
    target = server.facts["targets"]["dfs"] + folder + query
    return cli("sweep", target, *LOAD, "--credentials", server.credentials, "--json", prefix=server.inside())


def facts_of(done: Done) -> dict[str, Any]:
    """What the run says of its server."""
    document = done.ok().json()
    assert all(cell["verified"]["bad"] == 0 for cell in document["cells"] if cell["op"] == "read")
    return dict(document["environment"]["target"])


@pytest.mark.parametrize(("folder", "behind"), [
    ("/files", "data"), ("/spare", "data"), ("/onward", "data"), ("/files/inner", "data\\inner"),
    ("/inner", "data\\inner"),
])  # fmt: skip
def test_a_link_is_followed_to_the_server_behind_it(folder: str, behind: str, server: Server, cli: Cli) -> None:
    """A link to a share and to a folder, one whose first server is gone, one to another link, a folder behind one."""
    (server.data / "inner").mkdir(exist_ok=True)
    facts = facts_of(swept(cli, server, folder))
    host, link = server.facts["host"], folder.replace("/", "\\")
    assert facts["dfs_path"] == f"\\\\{host}\\dfs{link}"
    assert facts["dfs_target"] == f"\\\\{host}\\{behind}"
    assert not [left.name for left in server.data.rglob("naslab*")], "removed where it was made"


def test_several_workers_and_doctor_follow_it_too(server: Server, cli: Cli) -> None:
    target = server.facts["targets"]["dfs"] + "/files"
    known = ("--credentials", server.credentials)
    cli("sweep", target, *LOAD, "--workers", "3", *known, prefix=server.inside()).ok()
    looked = cli("doctor", target, *known, prefix=server.inside()).ok().out
    assert "\\\\" in looked and "data" in looked, looked


def test_the_namespace_itself_and_other_shares_lead_nowhere(server: Server, cli: Cli) -> None:
    """Files beside the links are the namespace's own; a share outside of any is asked nothing."""
    assert "dfs_path" not in facts_of(swept(cli, server, ""))
    plain = cli("sweep", server.url, *LOAD, "--credentials", server.credentials, "--json", prefix=server.inside())
    assert "dfs_path" not in facts_of(plain)


@pytest.mark.parametrize(("folder", "query", "said"), [
    ("/circle", "", "lead on and on"), ("/broken", "", "no server behind it can be reached"),
    ("/nothing", "", "the folder nothing is not on"), ("/files", "?dfs=off", "DFS link"),
])  # fmt: skip
def test_links_that_lead_nowhere_are_named(folder: str, query: str, said: str, server: Server, cli: Cli) -> None:
    refused = swept(cli, server, folder, query)
    assert refused.code == 2 and said in refused.err, refused.err
    assert cli("runs", "--json").ok().json()["runs"] == []
