"""Names, folders and what happens to them."""

from __future__ import annotations

import random
from typing import Any

import pytest
from files import Files, fails

NAMES = [
    "with space",
    "ümläut-日本語-Ω",
    "emoji-🎉",
    "a" * 200,
    "dots.in.it.txt",
    "UPPER and lower",
    "-dash",
    "#hash%25&",
]


def test_names_of_all_kinds(files: Files) -> None:
    for at, name in enumerate(NAMES):
        files.make(name, bytes([at]) * 10)
    assert files.names() == dict.fromkeys(NAMES, False)
    for at, name in enumerate(NAMES):
        assert files.content(name) == bytes([at]) * 10
        files.session.remove(files.path(name))
    assert files.names() == {}


def test_the_longest_name(files: Files) -> None:
    files.make("n" * 250, b"x")
    assert files.content("n" * 250) == b"x"
    with fails("invalid", "not_found", "io"):
        files.make("n" * 300)


def test_deep_folders(files: Files) -> None:
    path = ""
    for level in range(12):
        path = f"{path}/level{level}".lstrip("/")
        files.session.mkdir(files.path(path))
    files.make(f"{path}/leaf", b"leaf")
    assert files.names(path) == {"leaf": False}
    assert files.session.stat(files.path(path))[1] is True


def test_creating(files: Files) -> None:
    with fails("not_found"), files.open("missing", create="never"):
        pass
    files.make("there", b"content")
    with fails("exists"), files.open("there", create="new"):
        pass
    with files.open("there", create="if_missing"):
        pass
    assert files.content("there") == b"content"
    with files.open("there", create="if_missing", truncate=True):
        pass
    assert files.content("there") == b""
    with fails("not_found"), files.open("no/such/folder", create="new"):
        pass


def test_folders(files: Files) -> None:
    files.session.mkdir(files.path("inner"))
    with fails("exists"):
        files.session.mkdir(files.path("inner"))
    with fails("not_found"):
        files.session.mkdir(files.path("no/such"))
    files.make("inner/file")
    with fails("exists"):
        files.session.rmdir(files.path("inner"))
    files.session.remove(files.path("inner/file"))
    files.session.rmdir(files.path("inner"))
    with fails("not_found"):
        files.session.rmdir(files.path("inner"))
    assert files.names() == {}


def test_removing(files: Files) -> None:
    with fails("not_found"):
        files.session.remove(files.path("nothing"))
    files.make("file", b"1")
    files.session.remove(files.path("file"))
    with fails("not_found"):
        files.session.stat(files.path("file"))
    with fails("not_found"):
        files.session.readdir(files.path("nothing"))


def test_renaming(files: Files) -> None:
    files.make("old", b"one")
    files.session.mkdir(files.path("folder"))
    files.session.rename(files.path("old"), files.path("folder/new"))
    assert files.content("folder/new") == b"one"
    files.make("second", b"two")
    files.session.rename(files.path("second"), files.path("folder/new"))
    assert files.content("folder/new") == b"two", "a rename replaces the file in its way"
    files.session.rename(files.path("folder"), files.path("moved"))
    assert files.content("moved/new") == b"two"
    assert files.names() == {"moved": True}
    with fails("not_found"):
        files.session.rename(files.path("nothing"), files.path("x"))
    with fails("not_found"):
        files.session.rename(files.path("moved/new"), files.path("no/such"))
    assert files.content("moved/new") == b"two"


def test_stat_tells_files_from_folders(files: Files) -> None:
    files.session.mkdir(files.path("folder"))
    files.make("file", b"12345")
    assert files.session.stat(files.path("file")) == (5, False)
    assert files.session.stat(files.path("folder"))[1] is True
    assert files.names() == {"folder": True, "file": False}


def test_times_are_kept(files: Files) -> None:
    """To 100 ns, as SMB counts; before 1970 and after 2106 only where the server can."""
    files.make("file", b"12345")
    files.session.mkdir(files.path("folder"))
    for name, when in (("file", 1_234_567_890_123_456_700), ("folder", 981_173_106_000_000_000)):
        files.session.set_times(files.path(name), when + 1_000_000_000, when)
        assert files.session.modified_ns(files.path(name)) == when
    assert files.content("file") == b"12345"
    with fails("not_found"):
        files.session.set_times(files.path("nothing"), 0, 0)


def test_thousands_of_files(files: Files) -> None:
    names = [f"file-{number:05d}-{'x' * (number % 40)}" for number in range(1500)]
    for name in random.Random(5).sample(names, len(names)):
        files.make(name)
    listed = files.session.readdir(files.folder)
    assert len(listed) == len(names), "no name twice, none lost"
    assert dict(listed) == dict.fromkeys(names, False)
    for name in names[::97]:
        assert files.session.stat(files.path(name)) == (0, False)
    for name in names[::2]:
        files.session.remove(files.path(name))
    assert set(files.names()) == set(names[1::2])


def test_delete_on_close(files: Files, subject: Any) -> None:
    if not subject.name.startswith("smb"):
        with fails("unsupported"), files.open("gone", delete_on_close=True):
            pass
        return
    with files.open("gone", create="new", delete_on_close=True) as file:
        files.session.write(file, 0, b"short life")
        assert "gone" in files.names()
    assert files.names() == {}


def test_server_copy(files: Files, caps: dict[str, Any]) -> None:
    data = random.Random(8).randbytes((3 << 20) + 17)
    files.make("source", data)
    if not caps["server_copy"]:
        with fails("unsupported"):
            files.session.server_copy(files.path("source"), files.path("copy"))
        return
    before = files.session.wire() or (0, 0)
    assert files.session.server_copy(files.path("source"), files.path("copy")) == len(data)
    after = files.session.wire() or (0, 0)
    assert sum(after) - sum(before) < len(data) / 10, "the bytes do not pass through the client"
    assert files.content("copy") == data
    with fails("exists"):
        files.session.server_copy(files.path("source"), files.path("copy"))


def test_room_and_null_operations(files: Files, caps: dict[str, Any]) -> None:
    free, total = files.session.space()
    assert 0 < free <= total
    if caps["ping"]:
        for _ in range(20):
            files.session.ping()
    else:
        with fails("unsupported"):
            files.session.ping()


def test_what_was_negotiated(files: Files, subject: Any) -> None:
    facts = files.session.facts()
    for name, value in subject.expect:
        assert facts.get(name) == value, facts
    assert not any("***" in value or "password" in name for name, value in facts.items())


@pytest.mark.parametrize("path", ["../outside", "a/../../b", "/absolute"])
def test_nothing_outside_the_root(files: Files, subject: Any, path: str) -> None:
    if subject.name == "sim" and path.startswith("/"):
        pytest.skip("a simulated tree has nothing outside its root")
    with fails("invalid", "not_found", "permission"):
        files.session.mkdir(path)
    with fails("invalid", "not_found", "permission"):
        files.session.stat(path)
