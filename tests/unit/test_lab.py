"""The lab without servers: configurations, who is who among processes, records, lab: names."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from naslab.client import process
from naslab.client.process import Process
from naslab.errors import UsageError
from naslab.lab import ganesha, place, samba, server, session, state, systems
from naslab.lab.place import Place
from naslab.lab.readiness import answers, last_words


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process to look at and to end."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"]) as child:
        yield child
        child.kill()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Records and private folders in a folder of the test."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def facts(folder: Path, guardian: Process, **more: Any) -> dict[str, Any]:
    return {
        "name": "samba", "url": "smb://me@127.0.0.1:20001/data", "user": "me", "port": 20001, "protocol": "smb",
        "targets": {"data": "smb://me@127.0.0.1:20001/data", "secret": "smb://me@127.0.0.1:20001/secret"},
        "folder": str(folder), "data": str(folder), "log": str(folder / "log"), "guardian": guardian, **more,
    }  # fmt: skip


def this_process() -> Process:
    found = process.find(os.getpid())
    assert found is not None
    return found


def dead_process() -> Process:
    return Process(os.getpid(), this_process().start_time - 1)


# configurations


def sections(text: str) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        if line.startswith("["):
            found[line.strip("[]")] = {}
        elif line:
            name, _, value = line.partition("=")
            list(found.values())[-1][name.strip()] = value.strip()
    return found


def samba_text(tmp_path: Path, **options: Any) -> dict[str, dict[str, str]]:
    shares = {name: tmp_path / name for name in ("data", "secret", "readonly", "public", "noaccess")}
    chosen = samba.SambaOptions(**options)
    return sections(samba.config_text(Place(tmp_path, tmp_path / "data", True), chosen, 20001, "me", shares))


def test_samba_stays_on_loopback_and_in_its_folder(tmp_path: Path) -> None:
    text = samba_text(tmp_path)
    everywhere = text["global"]
    assert everywhere["interfaces"] == "127.0.0.1" and everywhere["bind interfaces only"] == "yes"
    assert everywhere["smb ports"] == "20001" and everywhere["server min protocol"] == "SMB2_02"
    for name in ("private dir", "lock directory", "state directory", "cache directory", "pid directory", "ncalrpc dir"):
        assert everywhere[name].startswith(str(tmp_path))
    assert text["secret"]["smb encrypt"] == "required" and text["readonly"]["read only"] == "yes"
    assert text["public"]["guest ok"] == "yes" and text["noaccess"]["invalid users"] == "me"
    assert "guest ok" not in text["data"]


def test_samba_options(tmp_path: Path) -> None:
    text = samba_text(tmp_path, signing="mandatory", max_dialect="3.0", multichannel=False, config={"log level": "3"})
    assert text["global"]["server signing"] == "mandatory" and text["global"]["server max protocol"] == "SMB3_00"
    assert text["global"]["server multi channel support"] == "no" and text["global"]["log level"] == "3"
    for wrong in ({"signing": "maybe"}, {"encrypt": "yes"}, {"min_dialect": "1.0"}, {"max_dialect": "4"}):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            samba.SambaOptions(**wrong)  # type: ignore[arg-type]


def test_ganesha_versions(tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("data", "readonly", "tiny", "secure", "squash")}
    here = Place(tmp_path, tmp_path / "data", True)
    every = ganesha.config_text(here, ganesha.GaneshaOptions(), 20001, 20002, folders)
    assert "\tProtocols = 3, 4;" in every and "Minor_Versions = 0, 1, 2;" in every and "Bind_addr = 127.0.0.1" in every
    assert every.count("EXPORT {") == 5 and "PrivilegedPort = true" in every and "Squash = Root_Squash" in every
    only = ganesha.config_text(here, ganesha.GaneshaOptions(("4.1",), grace=True), 20001, 20002, folders)
    assert "\tProtocols = 4;" in only and "Minor_Versions = 1;" in only and "Graceless = false" in only
    assert "PrivilegedPort = false" in every
    own = ganesha.config_text(Place(tmp_path, Path("/srv/mine"), True), ganesha.GaneshaOptions(), 1, 2, folders)
    assert "PrivilegedPort = false" not in own, "a folder of the user's is not for every user of this machine"
    with pytest.raises(UsageError, match=r"4\.3"):
        ganesha.GaneshaOptions(("4.3",))


def test_ganesha_with_kerberos(tmp_path: Path) -> None:
    options = ganesha.GaneshaOptions(keytab="/etc/nfs.keytab", realm="T.LAB")
    folders = {name: tmp_path / name for name in ganesha.served(options)}
    text = ganesha.config_text(Place(tmp_path, tmp_path / "data", True), options, 20001, 20002, folders)
    assert "KeytabPath = /etc/nfs.keytab" in text and "Active_krb5 = true" in text and "SecType = krb5i;" in text
    assert "SecType = sys, none, krb5, krb5i, krb5p;" in text and f"IdmapConf = {tmp_path}/idmapd.conf" in text
    plain = ganesha.config_text(Place(tmp_path, tmp_path / "data", True), ganesha.GaneshaOptions(), 1, 2, {})
    assert "Active_krb5 = false" in plain and "SecType = sys, none;" in plain and "Idmap" not in plain
    for wrong, words in (({"keytab": "/k"}, "keytab='/k'; Kerberos needs realm="), ({"realm": "R"}, "needs keytab=")):
        with pytest.raises(UsageError, match=words):
            ganesha.GaneshaOptions(**wrong)


def test_unknown_systems_and_options_are_named() -> None:
    with pytest.raises(UsageError, match="no system 'windows'; use one of samba"):
        systems.system("windows")
    with pytest.raises(UsageError, match="unknown option colour; it takes signing"):
        systems.system("samba").make_options({"colour": "red"})
    assert systems.system("samba-encrypted").make_options({"min_dialect": "3.1.1"}).encrypt == "required"
    assert systems.system("ganesha").make_options({"versions": ["3"]}).versions == ("3",)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systems, "which", lambda program: None if program == "smbd" else "/bin/true")
    assert systems.missing_packages(systems.system("samba")) == ["samba"]
    with pytest.raises(UsageError, match="lab: samba needs samba; Debian/Ubuntu: apt install samba"):
        server.start("samba")


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a folder"):
        server.start("demo", tmp_path / "none")


# processes


def test_only_the_very_process_is_signalled(sleeper: subprocess.Popen[bytes]) -> None:
    found = process.find(sleeper.pid)
    assert found is not None and process.is_alive(found) and found in process.descendants(os.getpid())
    other = Process(found.pid, found.start_time + 1)
    assert not process.is_alive(other) and not process.send(other, signal.SIGKILL)
    assert sleeper.poll() is None
    assert process.send(found, signal.SIGKILL) and process.wait_gone(found, 10)
    assert sleeper.wait() == -signal.SIGKILL and not process.send(found, signal.SIGKILL)


def test_a_zombie_is_gone(sleeper: subprocess.Popen[bytes]) -> None:
    found = process.find(sleeper.pid)
    assert found is not None
    sleeper.kill()
    assert process.wait_gone(found, 10) and process.find(sleeper.pid) is None


# folders and records


def test_sweep_removes_what_dead_guardians_left_and_nothing_else(home: Path) -> None:
    made = {name: place.new_folder(None) for name in ("dead", "alive", "unmarked", "damaged", "other boot")}
    for folder in made.values():
        (folder / "data").mkdir()
        (folder / "data" / "file").write_text("x")
    place.mark(made["dead"], dead_process())
    place.mark(made["alive"], this_process())
    place.mark(made["other boot"], this_process())
    mark = made["other boot"] / place.OWNER
    mark.write_text(mark.read_text().replace(place.boot_id(), "another"))
    (made["damaged"] / place.OWNER).write_text("{")
    elsewhere = home / "elsewhere"
    elsewhere.mkdir()
    place.mark(elsewhere, dead_process())
    (home / f"{place.PREFIX}link").symlink_to(elsewhere)
    assert set(place.sweep()) == {made["dead"], made["other boot"]}
    assert not made["dead"].exists() and (elsewhere / place.OWNER).exists()
    assert all((made[name] / "data" / "file").exists() for name in ("alive", "unmarked", "damaged"))


def test_a_sweep_that_is_killed_leaves_the_rest_to_the_next(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen: the mark went first, and a folder half removed was nobody's for good."""
    folder = place.new_folder(None)
    (folder / "data" / "deep").mkdir(parents=True)
    place.mark(folder, dead_process())

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            place.sweep()
    assert (folder / place.OWNER).exists()
    assert place.sweep() == [folder] and not folder.exists()


def test_a_server_that_is_still_dying_keeps_its_folder_for_the_next_sweep(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen: its last writes came between the removals; the mark had gone, and the folder was nobody's for good."""
    folder = place.new_folder(dead_process(), name="samba")
    real = Path.rmdir

    def written_to(path: Path) -> None:
        if path == folder:
            (folder / "last.tdb").write_text("x")
        real(path)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rmdir", written_to)
        assert place.sweep() == [] and place.read_mark(folder) is not None
    assert place.sweep() == [folder] and not folder.exists()


def test_a_folder_has_its_mark_from_the_start(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is killed before leaves a folder of another name, which a sweep removes once it is old."""

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(place, "mark", killed)
        with pytest.raises(KeyboardInterrupt):
            place.new_folder(this_process(), name="samba")
    (left,) = home.glob(".naslab-lab-*")
    assert not list(home.glob(f"{place.PREFIX}*"))
    place.sweep()
    assert left.exists(), "its maker may be at it"
    os.utime(left, (0, 0))
    place.sweep()
    assert not left.exists()
    born = place.new_folder(this_process(), name="samba")
    assert born.name.startswith(place.PREFIX) and place.read_mark(born) is not None


def test_records_are_private_and_name_living_servers_only(home: Path) -> None:
    folder = place.new_folder(None)
    place.mark(folder, this_process())
    up = server.from_facts(facts(folder, this_process()))
    state.save(up)
    path = state.folder() / "samba.json"
    assert path.stat().st_mode & 0o777 == 0o600 and state.folder().stat().st_mode & 0o777 == 0o700
    assert home in path.parents
    found = state.find("samba")
    assert found is not None and found.url == up.url and found.guardian == up.guardian
    assert [each.name for each in state.all_servers()] == ["samba"]
    place.mark(folder, dead_process())
    state.save(server.from_facts(facts(folder, dead_process())))
    assert state.find("samba") is None
    assert not path.exists() and not folder.exists(), "what it left is removed"
    path.write_text('{"guardian": 7}')
    assert state.all_servers() == [] and not path.exists()


def test_a_password_is_in_its_file_only(home: Path) -> None:
    folder = place.new_folder(None)
    file = Place(folder, folder, False).write("credentials", "username=me\npassword=s3cret=x\n")
    up = server.from_facts(facts(folder, this_process(), credentials=str(file)))
    assert up.password == "s3cret=x" and file.stat().st_mode & 0o777 == 0o600
    assert "s3cret" not in json.dumps(up.public()) + repr(up)


# readiness


def test_only_a_proper_answer_is_one() -> None:
    replies = [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n" * 2, b"\x80\0\0\x18" + bytes(24)]
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for reply in replies:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(100)
                    connection.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        port = listener.getsockname()[1]
        known = {"protocol": "nfs", "versions": ["3"], "port": port, "mount_port": port}
        assert not any(answers(known) for _ in replies)
        thread.join()
    assert not answers(known)
    assert not answers({"protocol": "smb", "port": port})


def test_the_end_of_a_log(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("".join(f"line {n}\n\n" for n in range(99)))
    assert last_words(tmp_path / "log", 2) == "line 97 | line 98"
    assert last_words(tmp_path / "none") == ""


# lab: targets


def test_a_server_that_is_up_is_used(home: Path) -> None:
    folder = place.new_folder(None)
    file = Place(folder, folder, False).write("credentials", "username=me\npassword=s3cret\n")
    state.save(server.from_facts(facts(folder, this_process(), credentials=str(file))))
    target = session.open_lab_target("lab:samba/some dir?share=secret&dialect=3.0")
    assert target.url == "lab:samba/some dir?share=secret&dialect=3.0" and target.protocol == "smb"
    assert target.options["share"] == "secret" and target.options["user"] == "me" and target.options["port"] == 20001
    url = "smb://me@127.0.0.1:20001/secret/some%20dir?dialect=3.0"
    assert target.lab == {"name": "samba", "url": url, "planted": [], "calibrated_at": None, "net": None}
    assert target.password is not None and target.password.reveal() == "s3cret"
    assert "s3cret" not in json.dumps(target.stored_spec()) + repr(target)
    with pytest.raises(UsageError, match="has no 'none'; it has data, secret"):
        session.open_lab_target("lab:samba?share=none")
    with pytest.raises(UsageError, match="give only one"):
        session.open_lab_target("lab:samba?share=data&export=data")
    with pytest.raises(UsageError, match="unknown option colour"):
        session.open_lab_target("lab:samba?colour=red")


def test_an_nfs_version_without_mount_protocol(home: Path) -> None:
    url = "nfs://127.0.0.1:20001/data?mountport=20002"
    more = {"name": "ganesha", "url": url, "targets": {"data": url}, "user": "", "protocol": "nfs"}
    state.save(server.from_facts(facts(place.new_folder(None), this_process(), **more)))
    assert session.open_lab_target("lab:ganesha").options["mount_port"] == 20002
    target = session.open_lab_target("lab:ganesha?version=4.1&connections=2")
    assert target.options["mount_port"] is None and target.options["connections"] == 2


def test_a_system_that_kernels_mount_is_measured_where_they_do(home: Path) -> None:
    with pytest.raises(UsageError, match=r"naslab lab up knfs-ext4 --set clients.access=nfs4.2, which prints how"):
        session.open_lab_target("lab:knfs-ext4?clients.access=nfs4.2")
    url = "nfs://10.78.0.2:2049/lab/data?version=4.2"
    more = {"name": "knfs-ext4", "url": url, "targets": {"data": url}, "protocol": "nfs", "mount": "/lab/mount"}
    state.save(server.from_facts(facts(place.new_folder(None), this_process(), **more)))
    with pytest.raises(UsageError) as refused:
        session.open_lab_target("lab:knfs-ext4")
    for words in ("naslab run /lab/mount", f"naslab run '{url}'"):
        assert f"naslab lab exec knfs-ext4 -- {words}" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lab:", "the name is missing; write lab:NAME"),
        ("lab:windows", "there is no system 'windows'"),
        ("lab:demo?fast=perhaps", "fast='perhaps'; use 1 or 0"),
        ("lab:demo?fast", "not name=value"),
    ],
)
def test_wrong_names_are_refused_before_anything_starts(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        session.open_lab_target(text)
