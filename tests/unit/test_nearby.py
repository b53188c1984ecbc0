"""A machine alone is no target: what it offers is asked, and the lines to type are said."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from naslab.cli import main
from naslab.commands.doctor import nearby
from naslab.commands.doctor.nearby import Nearby, Offer, advice, host_of, look


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("192.168.1.5", "192.168.1.5"), ("nas.local", "nas.local"), ("fe80::1", "[fe80::1]"), ("[::1]", "[::1]"),
        ("localhost", "localhost"), ("./nas.local", None), ("/nas", None), ("a/b", None), ("", None), ("x_y", None),
        ("no-such-word", None), ("data.toml", None), ("1.2.3", None), ("smb://nas/x", None),
    ],
)  # fmt: skip
def test_what_is_a_machine(text: str, host: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearby, "_is_known", lambda name: name == "localhost")
    monkeypatch.chdir(tmp_path)
    assert host_of(text) == host


def test_a_folder_of_this_name_is_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "192.168.1.5").mkdir()
    assert host_of("192.168.1.5") is None


def test_what_to_type() -> None:
    offers = [Offer("smb", True, ["media", "photos"]), Offer("nfs", True, ["/volume1/data"])]
    assert advice(Nearby("nas.local", True, offers), "naslab sweep").splitlines() == [
        "nas.local is a server; name what to measure on it:",
        "  naslab sweep smb://nas.local/media",
        "  naslab sweep smb://nas.local/photos",
        "  naslab sweep nfs://nas.local/volume1/data",
    ]
    closed = advice(Nearby("10.0.0.1", True, [Offer("smb", True), Offer("nfs")]), "naslab run")
    assert "smb://10.0.0.1/SHARE" in closed and "naslab doctor smb://USER@10.0.0.1" in closed
    many = advice(Nearby("nas", True, [Offer("smb", True, [f"s{n}" for n in range(20)])]), "naslab run")
    assert many.count("naslab run") == nearby.MAX_SHOWN and "and 12 more: naslab doctor smb://nas" in many
    assert "neither SMB (port 445) nor NFS" in advice(Nearby("nas", True, [Offer("smb"), Offer("nfs")]), "naslab run")
    assert "cannot be resolved" in advice(Nearby("nas", False), "naslab run")


def test_both_are_asked_and_only_what_is_open_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearby, "_is_known", lambda name: True)
    asked: list[str] = []

    def names(url: str) -> list[str]:
        asked.append(url)
        return ["a"]

    found = look("nas", lambda host, port: port == 111, names)
    assert asked == ["nfs://nas"]
    assert [(offer.scheme, offer.open, offer.names) for offer in found.offers] == [
        ("smb", False, None), ("nfs", True, ["a"]),
    ]  # fmt: skip


def test_a_real_machine_is_asked(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """This one, whose ports are set to one that listens and answers nothing, and to one where nobody listens."""
    monkeypatch.setattr(nearby, "LIST_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as closed:
        monkeypatch.setattr(nearby, "SMB_PORT", server.getsockname()[1])
        port = closed.getsockname()[1]
        closed.close()
        monkeypatch.setattr(nearby, "NFS_PORT", port)
        monkeypatch.setattr(nearby, "PORTMAP_PORT", port)
        for command in ("run", "sweep"):
            assert main([command, "127.0.0.1"]) == 2
            said = capsys.readouterr()
            assert said.out == "" and f"naslab {command} smb://127.0.0.1/SHARE" in said.err
