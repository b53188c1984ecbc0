"""What doctor finds, and what it says about it. Servers are scripted sessions; folders are real ones."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naslab import _engine
from naslab.cli import main
from naslab.cli.doctor import describe
from naslab.commands.doctor import advice, check_target, checkup, describe_machine, machine_advice
from naslab.commands.doctor.checkup import percentiles
from naslab.commands.doctor.machine import Machine
from naslab.errors import TargetError
from naslab.results.describe import plain, typed
from naslab.targets import Target, parse_target

DENIED, NO_SHARE, BAD_LOGON = 0xC0000022, 0xC00000CC, 0xC000006D


class Session:
    """A server's session that keeps files in memory and fails where it is told to: method -> error."""

    def __init__(self, fails: dict[str, TargetError] | None = None, facts: dict[str, str] | None = None) -> None:
        self.fails = fails or {}
        self.entries: dict[str, bytearray | None] = {}
        self.facts_known = facts or {}
        self.ended = False
        self.free, self.total = 1 << 40, 1 << 41
        self.ahead_ns = 0
        self.versions: tuple[str, ...] | None = None

    def _check(self, name: str) -> None:
        if name in self.fails:
            raise self.fails[name]

    def open(self, path: str, options: str) -> str:
        self._check("open")
        assert json.loads(options)["create"] == "new" and path not in self.entries
        self.entries[path] = bytearray()
        return path

    def close(self, _path: str) -> None:
        self._check("close")

    def write(self, path: str, offset: int, data: bytes) -> int:
        self._check("write")
        self._bytes(path)[offset : offset + len(data)] = data
        return len(data)

    def _bytes(self, path: str) -> bytearray:
        found = self.entries[path]
        assert found is not None
        return found

    def read(self, path: str, offset: int, length: int) -> bytes:
        self._check("read")
        return bytes(self._bytes(path)[offset : offset + length])

    def flush(self, _path: str) -> None:
        self._check("flush")

    def set_len(self, path: str, length: int) -> None:
        self._check("set_len")
        data = self._bytes(path)
        self.entries[path] = data[:length] + bytes(max(0, length - len(data)))

    def modified_ns(self, path: str) -> int | None:
        self._check("modified_ns")
        return time.time_ns() + self.ahead_ns if path in self.entries else None

    def stat(self, path: str) -> tuple[int, bool]:
        found = self.entries[path]
        return (0, True) if found is None else (len(found), False)

    def mkdir(self, path: str) -> None:
        self._check("mkdir")
        self.entries[path] = None

    def rmdir(self, path: str) -> None:
        self._check("rmdir")
        assert not [name for name in self.entries if name.startswith(path + "/")]
        del self.entries[path]

    def readdir(self, path: str) -> list[tuple[str, bool]]:
        self._check("readdir")
        begin = path + "/" if path else ""
        names = [name.removeprefix(begin) for name in self.entries if name.startswith(begin)]
        return [(name, self.entries[begin + name] is None) for name in names if "/" not in name]

    def rename(self, old: str, new: str) -> None:
        self._check("rename")
        self.entries[new] = self.entries.pop(old)

    def remove(self, path: str) -> None:
        self._check("remove")
        del self.entries[path]

    def space(self) -> tuple[int, int]:
        self._check("space")
        return self.free, self.total

    def ping(self) -> None:
        self._check("ping")

    def facts(self) -> dict[str, str]:
        return self.facts_known

    def caps(self) -> str:
        return json.dumps({"ping": True, "keeps_data": True})

    def end(self) -> None:
        self.ended = True


@pytest.fixture
def port() -> Any:
    """A port on which somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


Serve = Callable[..., Target]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch, port: int) -> Serve:
    """Puts a session (or the error of opening one) and a list of shares behind an address."""

    def put(session: Session | TargetError, text: str = "smb://ann:pw@127.0.0.1/data", names: Any = ()) -> Target:
        def make(target: str, _depth: int = 1) -> Session:
            if isinstance(session, TargetError):
                raise session
            options = json.loads(target)["options"]
            asked = options.get("dialect") or options.get("version")
            if asked and session.versions is not None and asked not in session.versions:
                raise failure("unsupported", 0xC00000BB)
            return session

        def listing(_json: str) -> str:
            if isinstance(names, TargetError):
                raise names
            return json.dumps([{"name": name, "kind": "disk", "comment": ""} for name in names])

        monkeypatch.setattr(_engine, "Session", make)
        monkeypatch.setattr(_engine, "list_exports", listing, raising=False)
        return parse_target(text.replace("127.0.0.1", f"127.0.0.1:{port}"), whole_server=True)

    return put


def failure(kind: str, status: int = 0, text: str = "connect: it failed") -> TargetError:
    return TargetError(text, kind, status)


def errors_of(found: checkup.Checkup) -> dict[str, str]:
    return {one.kind: one.message for one in found.advice if one.severity == "error"}


def test_all_is_well(serve: Serve) -> None:
    session = Session(facts={"dialect": "3.1.1", "signing": "none", "encryption": "none"})
    heard: list[str] = []
    found = check_target(serve(session), 10**9, lambda step: heard.append(step.name))
    assert found.usable and heard == ["name", "connect", "log in", "ping"] and all(step.ok for step in found.steps)
    assert {name for name, right in found.rights.items() if right.allowed} == set(checkup._Rights.ORDER)
    assert session.entries == {} and session.ended and found.left_behind is None
    assert found.space == checkup.Space(1 << 40, 1 << 41)
    trip = found.round_trip_ns
    assert trip and trip.count == checkup.PINGS and trip.min <= trip.p50 <= trip.p99 <= trip.max
    document = json.loads(json.dumps(found.document()))
    assert document["schema"] == 1 and document["usable"] and document["negotiated"]["dialect"] == "3.1.1"
    assert "pw" not in document["target"]["url"] and '"pw"' not in json.dumps(document)


def test_the_folder_bears_the_mark_while_it_is_used(serve: Serve) -> None:
    """Killed in the middle, `naslab clean` finds it; files in it bear our names."""
    session = Session({"rename": failure("io"), "remove": failure("permission", 13)})
    found = check_target(serve(session), 10**9)
    (folder,) = [name for name, data in session.entries.items() if data is None]
    assert folder.startswith("naslab-") and found.left_behind == folder
    mark = session.entries[f"{folder}/naslab-owner.json"]
    assert mark is not None and '"naslab_run"' in mark.decode()
    names = {name.rpartition("/")[2] for name in session.entries if "/" in name}
    assert all(name.startswith("naslab.") or name == "naslab-owner.json" for name in names)
    assert not found.usable and "left_behind" in {one.kind for one in found.advice}
    assert found.rights["delete"].allowed is False and found.rights["remove_folder"].allowed is False


@pytest.mark.parametrize(
    ("text", "session", "names", "kind", "words"),
    [
        ("smb://ann:x@127.0.0.1/data", failure("permission", BAD_LOGON), (), "password", ("ann", "password", "domain")),
        ("smb://c;ann:x@127.0.0.1/data", failure("permission", BAD_LOGON), (), "password", ("domain c",)),
        ("smb://127.0.0.1/data", failure("permission", BAD_LOGON), (), "guest", ("no guests", "smb://USER@")),
        ("smb://127.0.0.1/data?auth=kerberos", failure("permission", BAD_LOGON), (), "kerberos", ("server's log",)),
        ("smb://127.0.0.1/data?auth=kerberos", failure("permission", DENIED), (), "permission", ("of the Kerberos",)),
        ("smb://ann:x@127.0.0.1/data", failure("permission", 0xC0000234), (), "account", ("locked",)),
        ("smb://ann:x@127.0.0.1/data", failure("permission", 0xC0000071), (), "account", ("expired",)),
        ("smb://ann:x@127.0.0.1/data", failure("not_found", NO_SHARE), ("a", "b"), "share", ("data", "a, b")),
        ("smb://ann:x@127.0.0.1/data", failure("not_found", NO_SHARE), failure("permission"), "share", ("not list",)),
        ("smb://ann:x@127.0.0.1/data", failure("permission", DENIED), (), "permission", ("encryption", "another user")),
        ("smb://ann:x@127.0.0.1/data/d", failure("not_found", 0xC000003A), (), "folder", ("'d'", "create")),
        ("smb://ann:x@127.0.0.1/data?dialect=2.1", failure("unsupported"), (), "unsupported", ("dialect=2.1 out",)),
        ("smb://ann:x@127.0.0.1/data", failure("protocol"), (), "protocol", ("it failed", "SMB")),
        ("nfs://127.0.0.1/data", failure("timeout"), (), "timeout", ("it failed", "port of NFS")),
        ("smb://ann:x@127.0.0.1/data", failure("permission"), (), "permission", ("it failed",)),
        ("nfs://127.0.0.1/data", failure("not_found", 2), ("/a",), "export", ("/data", "exports: /a")),
        ("nfs://127.0.0.1/data", failure("not_found", 2), (), "export", ("lists no exports",)),
        ("nfs://127.0.0.1/data?uid=0", failure("permission", 13), ("/data",), "permission", ("privileged=on",)),
        ("nfs://127.0.0.1/data?uid=5", failure("permission", 13), (), "permission", ("below 1024", "insecure")),
        ("nfs://127.0.0.1/data", failure("permission", 10016), (), "security", ("Kerberos", "allow sec=sys")),
        (
            "nfs://127.0.0.1/data?sec=krb5", failure("permission", 10016, "the export takes krb5p, not sec=krb5: give"),
            (), "security", ("/data takes krb5p, not sec=krb5: give ?sec=krb5p,",),
        ),
        ("nfs://127.0.0.1/data?sec=krb5", failure("permission", 0, "no ticket: kinit"), (), "kerberos", ("kinit",)),
        ("nfs://127.0.0.1/data?version=4.2", failure("unsupported"), (), "version", ("version=4.2 out",)),
    ],
)  # fmt: skip
def test_why_a_login_failed(
    text: str, session: TargetError, names: Any, kind: str, words: tuple[str, ...], serve: Serve
) -> None:
    found = check_target(serve(session, text, names), 10**9)
    assert not found.usable and [step.ok for step in found.steps] == [True, True, False]
    assert found.steps[-1].status == session.status and found.steps[-1].kind == session.kind
    message = errors_of(found)[kind]
    assert all(word in message for word in words), message
    if isinstance(names, tuple) and names:
        assert found.exports is not None and [entry["name"] for entry in found.exports] == list(names)


@pytest.mark.parametrize(
    ("text", "fails", "right", "words"),
    [
        ("smb://ann:x@127.0.0.1/data", {"mkdir": failure("permission", DENIED)}, "make_folder", ("write access",)),
        ("nfs://127.0.0.1/data?uid=0", {"mkdir": failure("permission", 13)}, "make_folder", ("root squash", "?uid=N")),
        ("nfs://127.0.0.1/data?uid=7", {"mkdir": failure("permission", 13)}, "make_folder", ("uid 7",)),
        ("nfs://127.0.0.1/data", {"mkdir": failure("read_only", 30)}, "make_folder", ("read-only", "read-write")),
        ("smb://ann:x@127.0.0.1/data", {"readdir": failure("permission", DENIED)}, "list", ("list the folder",)),
        ("smb://ann:x@127.0.0.1/data/d", {"readdir": failure("not_found")}, "folder", ("not there", "create")),
        ("smb://ann:x@127.0.0.1/data", {"open": failure("no_space")}, "write", ("quota",)),
        ("smb://ann:x@127.0.0.1/data", {"flush": failure("io")}, "flush", ("flush", "it failed")),
        ("smb://ann:x@127.0.0.1/data", {"rename": failure("permission", 1)}, "rename", ("rename",)),
        ("smb://ann:x@127.0.0.1/data", {"set_len": failure("io")}, "set_length", ("length",)),
    ],
)  # fmt: skip
def test_what_is_not_allowed(
    text: str, fails: dict[str, TargetError], right: str, words: tuple[str, ...], serve: Serve
) -> None:
    session = Session(fails)
    found = check_target(serve(session, text), 10**9)
    tried = "list" if right == "folder" else right
    assert not found.usable and found.rights[tried].allowed is False and found.rights[tried].error
    message = errors_of(found)[right]
    assert all(word in message for word in words), message
    if right in ("make_folder", "write"):
        later = checkup._Rights.ORDER[checkup._Rights.ORDER.index(right) + 1 : -1]
        assert all(found.rights[name].allowed is None for name in later)
    if right not in ("list", "folder"):
        assert session.entries == {}


def test_corrupt_reads_are_seen(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session()
    monkeypatch.setattr(session, "read", lambda *_: b"\0" * checkup.PROBE_BYTES)
    found = check_target(serve(session), 10**9)
    assert "differ from the data written" in errors_of(found)["read"] and session.entries == {}


def test_a_server_that_dies_while_pinged(serve: Serve) -> None:
    session = Session({"ping": failure("timeout")})
    session.free = session.total = 0
    found = check_target(serve(session), 10**9)
    assert "space" not in {one.kind for one in found.advice}, "a size of 0 says nothing"
    assert not found.usable and not found.steps[-1].ok and found.steps[-1].name == "ping"


@pytest.mark.parametrize("text", ["smb://127.0.0.1", "nfs://127.0.0.1"])
def test_whole_servers_are_listed(text: str, serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    target = serve(Session({"mkdir": failure("io")}), text, ("one", "two"))
    found = check_target(target, 10**9)
    assert found.usable and found.rights == {} and [e["name"] for e in found.exports or []] == ["one", "two"]
    url = target.url
    assert main(["doctor", url]) == 0
    assert "one\n  two" in capsys.readouterr().out
    assert main(["doctor", serve(Session(), text, failure("permission", DENIED)).url]) == 1


def test_no_name_and_nobody_there(capsys: pytest.CaptureFixture[str]) -> None:
    free = 1  # tcpmux: a port that was free a moment ago may be another test's server by now
    found = check_target(parse_target(f"nfs://127.0.0.1:{free}/x"), 10**9)
    assert str(free) in errors_of(found)["connect"] and [step.ok for step in found.steps] == [True, False]
    found = check_target(parse_target("smb://no-such-host.invalid/x"), 10**9)
    assert "no-such-host.invalid" in errors_of(found)["name"] and len(found.steps) == 1
    assert main(["doctor", f"smb://127.0.0.1:{free}/x", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["usable"] is False and document["steps"][-1]["name"] == "connect"


def target_of(text: str) -> Target:
    return parse_target(text)


@pytest.mark.parametrize(
    ("text", "facts", "kinds"),
    [
        ("smb://ann@nas/x", {"dialect": "3.1.1", "signing": "none", "encryption": "none"}, set()),
        ("smb://ann@nas/x", {"dialect": "2.1"}, {"dialect"}),
        ("smb://ann@nas/x", {"dialect": "3.1.1", "encryption": "aes-128-gcm", "signing": "none"}, {"encryption"}),
        ("smb://ann@nas/x", {"dialect": "3.1.1", "encryption": "none", "signing": "aes-gmac"}, {"signing"}),
        ("smb://nas/x", {"dialect": "3.1.1"}, {"guest"}),
        ("smb://ann@nas/x", {"max_read_bytes": "65536", "max_write_bytes": "8388608"}, {"transfer_size"}),
        ("nfs://nas/x", {"dialect": "3"}, set()),
    ],
)
def test_negotiated(text: str, facts: dict[str, str], kinds: set[str]) -> None:
    assert {one.kind for one in advice.negotiated_advice(target_of(text), facts)} == kinds


@pytest.mark.parametrize(
    ("p50", "p99", "tcp_ns", "kinds"),
    [
        (100_000, 300_000, 80_000, set()),
        (3_000_000, 4_000_000, 2_900_000, {"round_trip"}),
        (1_500_000, 2_000_000, 100_000, {"slow_server"}),
        (100_000, 6_000_000, 100_000, {"uneven"}),
        (100_000, 100_000, None, set()),
    ],
)
def test_latency(p50: int, p99: int, tcp_ns: int | None, kinds: set[str]) -> None:
    assert {one.kind for one in advice.latency_advice(advice.RoundTrip(9, 1, p50, p50, p99, p99, p99), tcp_ns)} == kinds


def test_what_is_demanded_is_not_advised_against() -> None:
    for fact, value in (("signing", "aes-gmac"), ("encryption", "aes-128-gcm")):
        for demanded in ("yes", "no"):
            facts = {"dialect": "3.1.1", fact: value, f"{fact}_required": demanded}
            (found,) = advice.negotiated_advice(target_of("smb://ann@nas/x"), facts)
            assert ("requires" in found.message) == (demanded == "yes") != ("compare with" in found.message)


def test_packets_and_space() -> None:
    assert [one.severity for one in advice.path_advice(1500, 9000)] == ["warning"]
    assert [one.severity for one in advice.path_advice(1400, 1400)] == ["hint"]
    assert advice.path_advice(9000, 9000) == advice.path_advice(None, None) == advice.path_advice(1500, None) == []
    assert advice.space_advice(10**9) == [] and "999 MB" in advice.space_advice(999_000_000)[0].message


@pytest.mark.parametrize(
    ("text", "spoken", "kinds"),
    [
        ("smb://ann:x@127.0.0.1/data", ("2.1", "3.0", "3.0.2", "3.1.1"), set()),
        ("smb://ann:x@127.0.0.1/data", ("2.0.2", "2.1"), {"old_dialect"}),
        ("nfs://127.0.0.1/export", ("3", "4.1"), set()),
    ],
)
def test_versions_are_asked_one_after_the_other(
    text: str, spoken: tuple[str, ...], kinds: set[str], serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    session = Session()
    session.versions = spoken
    found = check_target(serve(session, text), 10**9)
    assert found.versions == list(spoken) and {one.kind for one in found.advice} & {"old_dialect"} == kinds
    assert f"Speaks {text[:3].upper()} {', '.join(spoken)}." in describe(found)
    option = "?dialect=2.1" if text.startswith("smb") else "?version=3"
    assert check_target(serve(Session(), text + option), 10**9).versions is None, "one was asked for"


@pytest.mark.parametrize(
    ("ahead_s", "said"),
    [
        (0, "Clock: as this machine's."),
        (1.5, "Clock: as this machine's."),
        (3600, "1 h ahead of"),
        (-90, " behind this"),
    ],
)
def test_the_servers_clock_is_compared(ahead_s: float, said: str, serve: Serve) -> None:
    session = Session()
    session.ahead_ns = round(ahead_s * 1e9)
    found = check_target(serve(session), 10**9)
    assert found.clock_ahead_ns is not None and abs(found.clock_ahead_ns - session.ahead_ns) < 10**9
    assert said in describe(found)
    assert ("clock" in {one.kind for one in found.advice}) == (abs(ahead_s) > 3)
    silent = Session({"modified_ns": failure("unsupported")})
    assert check_target(serve(silent), 10**9).clock_ahead_ns is None


@given(st.lists(st.integers(0, 1 << 40), min_size=1, max_size=300))
def test_percentiles_are_those_of_the_definition(samples: list[int]) -> None:
    found = percentiles(samples)
    for name, share in (("p50", 50), ("p90", 90), ("p99", 99)):
        at_most = sum(value <= getattr(found, name) for value in samples)
        below = sum(value < getattr(found, name) for value in samples)
        assert at_most * 100 >= share * len(samples) > below * 100
    assert (found.min, found.max, found.count) == (min(samples), max(samples), len(samples))


def test_a_real_folder_is_left_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").write_text("x")
    assert main(["doctor", str(tmp_path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert all(right["allowed"] for right in document["rights"].values()) and len(document["rights"]) == 9
    assert document["space"]["free_bytes"] > 0 and document["round_trip_ns"] is None
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_real_folder_that_may_not_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if os.geteuid() == 0:
        folder = Path("/proc")
    else:
        folder = tmp_path / "closed"
        folder.mkdir(0o555)
    assert main(["doctor", str(folder)]) == 1
    out = capsys.readouterr().out
    assert "FIX: " in out and "Not allowed, make folder" in out and "Not tried: write" in out


@pytest.mark.parametrize("text", ["sim:", "null:"])
def test_targets_without_a_server(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", text]) == 0
    assert "Nothing to fix." in capsys.readouterr().out


def test_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    machine = document["machine"]
    assert machine["naslab_version"] and machine["cpus"] == os.cpu_count()
    assert {program["name"] for program in machine["programs"]} >= {"smbd", "ganesha.nfsd", "tshark"}
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    for program in machine["programs"]:
        assert program["path"] or f"package {program['package']}" in text
    assert main(["doctor", "--credentials", "x"]) == 2
    assert main(["doctor", "--timeout", "0"]) == 2


def test_machine_advice() -> None:
    good = {
        **plain(describe_machine()), "io_uring": {"available": True, "reason": None}, "clock_source": "tsc",
        "open_files_limit": {"soft": 4096, "hard": None}, "memory_available_bytes": 8 << 30, "load_1min": 0.0,
        "cpu_governor": None, "sysctls": {"net.ipv4.tcp_rmem": "4096 131072 33554432"},
    }  # fmt: skip
    assert machine_advice(typed(good, Machine)) == []
    for change, kind in (
        ({"io_uring": {"available": False, "reason": "refused"}}, "io_uring"),
        ({"clock_source": "hpet"}, "clock"),
        ({"open_files_limit": {"soft": 256, "hard": None}}, "open_files"),
        ({"memory_available_bytes": 1 << 20}, "memory"),
        ({"load_1min": 99.0}, "load"),
        ({"cpu_governor": "powersave"}, "governor"),
        ({"sysctls": {"net.ipv4.tcp_wmem": "4096 16384 65536"}}, "tcp_window"),
    ):
        assert [one.kind for one in machine_advice(typed({**good, **change}, Machine))] == [kind]
