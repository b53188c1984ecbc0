"""`naslab doctor` and passwords against real servers on this machine."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from cli_tools import Cli, Done, need
from naslab import _engine
from naslab.errors import NaslabError
from naslab.lab import Server, running

pytestmark = pytest.mark.lab


def spoken(protocol: str) -> bool:
    """Whether this build of the engine has the protocol."""
    try:
        _engine.probe(json.dumps({"protocol": protocol, "options": {"host": ""}}), 1)
    except NaslabError as error:
        return "unknown variant" not in str(error)
    return True


@pytest.fixture(scope="module")
def samba() -> Iterator[Server]:
    need(spoken("smb") and shutil.which("smbd", path="/usr/sbin:/usr/bin"), "smb:// and smbd")
    with running("samba", fast=True) as server:
        yield server


@pytest.fixture(scope="module")
def ganesha() -> Iterator[Server]:
    need(spoken("nfs") and shutil.which("ganesha.nfsd", path="/usr/sbin:/usr/bin"), "nfs:// and ganesha.nfsd")
    with running("ganesha", fast=True) as server:
        yield server


def doctor(cli: Cli, *words: object) -> tuple[Done, Any]:
    done = cli("doctor", *words, "--json").sound()
    return done, done.json()


def kinds(document: Any, severity: str = "error") -> set[str]:
    return {one["kind"] for one in document["advice"] if one["severity"] == severity}


def all_allowed(document: Any) -> bool:
    return all(right["allowed"] for right in document["rights"].values()) and len(document["rights"]) == 9


def test_a_share(cli: Cli, samba: Server) -> None:
    before = sorted(path.name for path in samba.data.iterdir())
    done, found = doctor(cli, samba.url, "--credentials", samba.credentials)
    assert done.code == 0 and found["usable"] and all_allowed(found), found
    assert [step["name"] for step in found["steps"]] == ["name", "connect", "log in", "ping"]
    assert found["negotiated"]["dialect"] == "3.1.1" and found["space"]["free_bytes"] > 0
    assert found["round_trip_ns"]["count"] > 0 and found["left_behind"] is None
    assert "mtu" not in kinds(found, "warning"), "loopback is one way"
    assert sorted(path.name for path in samba.data.iterdir()) == before
    _, old = doctor(cli, samba.url + "?dialect=2.1", "--credentials", samba.credentials)
    assert old["negotiated"]["dialect"] == "2.1" and "dialect" in kinds(old, "warning")
    text = cli("doctor", samba.url, "--credentials", samba.credentials).ok().out
    assert "Allowed: list" in text and samba.password not in text


def test_shares_are_listed(cli: Cli, samba: Server) -> None:
    whole = f"smb://{samba.user}@127.0.0.1:{samba.port}"
    done, found = doctor(cli, whole, "--credentials", samba.credentials)
    assert done.code == 0 and {"data", "readonly", "public"} <= {entry["name"] for entry in found["exports"]}
    done, found = doctor(cli, whole + "/nosuch", "--credentials", samba.credentials)
    assert done.code == 1 and kinds(found) == {"share"}
    assert "readonly" in next(one["message"] for one in found["advice"] if one["kind"] == "share")


def test_wrong_password(cli: Cli, samba: Server) -> None:
    cli.env["NASLAB_PASSWORD"] = "wrong-canary"
    done, found = doctor(cli, samba.url)
    assert done.code == 1 and kinds(found) == {"password"} and found["steps"][-1]["name"] == "log in"
    assert "wrong-canary" not in done.out + done.err
    done = cli("sweep", samba.url, "--file-size", "64k", "--record", "64k").sound()
    assert done.code in (1, 2) and done.out == "" and "wrong-canary" not in done.err


def test_read_only_share_and_missing_folder(cli: Cli, samba: Server) -> None:
    done, found = doctor(cli, samba.targets["readonly"], "--credentials", samba.credentials)
    assert done.code == 1 and found["rights"]["list"]["allowed"] and not found["rights"]["make_folder"]["allowed"]
    done, found = doctor(cli, samba.url + "/no/such", "--credentials", samba.credentials)
    assert done.code == 1 and kinds(found) == {"folder"}


def test_guest(cli: Cli, samba: Server) -> None:
    done, found = doctor(cli, samba.targets["public"])
    assert done.code == 0 and all_allowed(found) and "guest" in kinds(found, "hint"), found


def test_a_password_is_in_nothing_that_is_written(cli: Cli, samba: Server) -> None:
    """Through the real client: each way of giving it, one store for all."""
    address = samba.url.partition("@")[2]
    named = f"smb://{samba.user}:{samba.password}@{address}"
    small = ("--file-size", "64k", "--record", "64k")
    said = [cli("sweep", named, *small, "--json", "-o", "r.html").ok()]
    said.append(cli("sweep", samba.url, *small, "--credentials", samba.credentials, "--json").ok())
    said.append(cli("sweep", samba.url, *small, env={**cli.env, "NASLAB_PASSWORD": samba.password}).ok())
    said.append(cli("iozone", "-i0", "-i1", "-s64", "-r64", "-b", "x.xls", "-f", named + "/f").ok())
    said.append(cli("clean", named).ok())
    document = said[0].json()
    assert document["target"]["dialect"] == "3.1.1" and document["target"]["protocol"] == "smb"
    assert {one["kind"] for one in document["warnings"]} >= {"password_in_name"}
    said += [cli("show", run["run_id"]).ok() for run in cli.runs()]
    assert len(said) == 9
    for done in said:
        assert samba.password not in done.out + done.err
    for path in cli.folder.rglob("*"):
        assert path.is_dir() or samba.password.encode() not in path.read_bytes(), path


def test_an_export(cli: Cli, ganesha: Server) -> None:
    for version in ("3", "4.0", "4.1", "4.2"):
        done, found = doctor(cli, f"{ganesha.url}&version={version}")
        assert done.code == 0 and all_allowed(found), (version, found)
        assert [step["name"] for step in found["steps"]] == ["name", "connect", "tls", "mount", "ping"]
        assert found["negotiated"]["dialect"].startswith(version[0]) and found["round_trip_ns"]["count"] > 0
    assert not [path for path in ganesha.data.iterdir() if path.name.startswith("naslab-")]


def test_exports_are_listed(cli: Cli, ganesha: Server) -> None:
    _, _, query = ganesha.url.partition("?")
    whole = f"nfs://127.0.0.1:{ganesha.port}"
    done, found = doctor(cli, f"{whole}?{query}" if query else whole)
    assert done.code == 0 and any("data" in entry["name"] for entry in found["exports"]), found
    done, found = doctor(cli, f"{whole}/nosuch?{query}")
    assert done.code == 1 and kinds(found) == {"export"}, found


@pytest.mark.parametrize(("version", "told"), [("3", False), ("4.1", True)])
def test_a_path_that_is_not_exported(cli: Cli, ganesha: Server, version: str, told: bool) -> None:
    """Linux' own server knows an export by its real path in NFS 4, and by that of a symbolic link in NFS 3, too."""
    done, found = doctor(cli, f"{ganesha.url}&version={version}".replace("/data?", "/link?"))
    message = found["advice"][0]["message"]
    assert done.code == 1 and "/link is not exported" in message and ("symbolic links" in message) is told, message


def test_squashed(cli: Cli, ganesha: Server) -> None:
    """Another user may not use root's folder, and is told whose numbers to give."""
    base, _, query = ganesha.url.partition("?")
    done, found = doctor(cli, base + "?" + "&".join(filter(None, [query, "uid=12345", "gid=12345"])))
    assert done.code == 1 and kinds(found) <= {"list", "make_folder"}, found
    assert any("uid 12345" in one["message"] for one in found["advice"])


@pytest.mark.parametrize("version", ["3", "4.0", "4.2"])
@pytest.mark.parametrize("rest", ["", "/below/and/deeper"])
def test_a_symbolic_link_on_the_path_is_named(cli: Cli, ganesha: Server, version: str, rest: str) -> None:
    """NFS leaves it to the client to follow one: it was called a file, or a folder that does not exist."""
    (ganesha.data / "real").mkdir(exist_ok=True)
    link = ganesha.data / f"link-{version}-{bool(rest)}"
    link.symlink_to("real")
    url = f"{ganesha.url}&version={version}".replace("/data?", f"/data/{link.name}{rest}?")
    reason = f"/data/{link.name} is a symbolic link, which a client has to follow: name the folder it points to"
    done, found = doctor(cli, url)
    assert done.code == 1 and [reason in one["message"] for one in found["advice"]] == [True], found["advice"]
    swept = cli("sweep", url, "--file-size", "64k", "--record", "64k").sound()
    assert swept.code == 2 and reason in swept.err
    whole = f"{ganesha.url}&version={version}".replace("/data?", "/data/real?")
    assert doctor(cli, whole)[0].code == 0


def test_samba_follows_symbolic_links_within_the_share(cli: Cli, samba: Server) -> None:
    (samba.data / "real").mkdir()
    (samba.data / "link").symlink_to("real")
    (samba.data / "out").symlink_to("/etc")
    assert doctor(cli, f"{samba.url}/link", "--credentials", samba.credentials)[0].code == 0
    done, found = doctor(cli, f"{samba.url}/out", "--credentials", samba.credentials)
    assert done.code == 1 and [one["kind"] for one in found["advice"]] == ["folder"], found["advice"]
    assert "symbolic link" in found["advice"][0]["message"]
