"""Where passwords come from: order, files as mount.cifs reads them, and what is said when there is none."""

from __future__ import annotations

import io
import os
import sys
import types
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naslab.errors import UsageError
from naslab.lab.opening import open_target
from naslab.targets import credentials, parse_target
from naslab.targets.credentials import log_in, read_credentials

CANARY = "Tr0ub4dor&3"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """No password anywhere: neither environment, keyring nor terminal."""
    monkeypatch.delenv("NASLAB_PASSWORD", raising=False)
    monkeypatch.setattr(credentials, "_taken", None)
    monkeypatch.setitem(sys.modules, "keyring", None)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.setattr(credentials.getpass, "getuser", lambda: "login")


def file_of(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "credentials"
    path.write_text(text, encoding="utf-8", newline="")
    path.chmod(mode)
    return path


def password_of(text: str, path: Path | None = None) -> str | None:
    found = log_in(parse_target(text), path).password
    return None if found is None else found.reveal()


@pytest.mark.parametrize(
    ("text", "user", "domain", "password"),
    [
        ("username=ann\npassword=x\ndomain=corp\n", "ann", "corp", "x"),
        ("user=ann\r\npass=x\r\ndom=corp\r\n", "ann", "corp", "x"),
        ("# a remark\n\n  username = ann \npassword= a=b #c  \n", "ann", "", " a=b #c  "),
        ("username=corp\\ann\npassword=", "ann", "corp", ""),
        ("USERNAME=ann", "ann", "", None),
        ("password=ünïcode\x85mark", "", "", "ünïcode\x85mark"),
        ("", "", "", None),
    ],
)
def test_file(tmp_path: Path, text: str, user: str, domain: str, password: str | None) -> None:
    found = read_credentials(file_of(tmp_path, text))
    assert (found.user, found.domain) == (user, domain)
    assert (None if found.password is None else found.password.reveal()) == password
    assert not found.open_to_others and CANARY not in repr(found)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (CANARY, ("line 1", "username=")),
        (f"username=ann\npassword2={CANARY}", ("line 2",)),
        (f"password={CANARY}\npass={CANARY}", ("line 2", "second time")),
        ("#" * (1 << 17), ("too long",)),
    ],
)
def test_bad_files_are_named_without_their_text(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as caught:
        read_credentials(file_of(tmp_path, text))
    assert CANARY not in str(caught.value)
    assert all(word in str(caught.value) for word in ("--credentials", *words))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_credentials(tmp_path / "none")
    with pytest.raises(UsageError, match="--credentials"):
        read_credentials(tmp_path)
    (tmp_path / "binary").write_bytes(b"password=\xff\xfe")
    with pytest.raises(UsageError, match="UTF-8"):
        read_credentials(tmp_path / "binary")


@given(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=40))
def test_any_password_survives_a_file(tmp_path_factory: pytest.TempPathFactory, password: str) -> None:
    path = file_of(tmp_path_factory.mktemp("c"), f"username=u\npassword={password}\n")
    found = read_credentials(path).password
    assert found is not None and found.reveal() == password.removesuffix("\r")


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_file_others_can_read_is_warned_of(tmp_path: Path, mode: int) -> None:
    path = file_of(tmp_path, f"username=ann\npassword={CANARY}\n", mode)
    (kind, message), *_ = log_in(parse_target("smb://nas/data"), path).warnings
    assert kind == "open_credentials" and "chmod 600" in message and CANARY not in message


def test_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Name, file, environment, keyring, terminal."""
    asked: list[str] = []
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(credentials.getpass, "getpass", lambda text, stream: asked.append(text) or "of the terminal")
    assert password_of("smb://ann@nas/data") == "of the terminal" and "ann on nas" in asked[0]
    kept = {("naslab", "ann@nas"): "of the keyring"}
    fake = types.SimpleNamespace(get_password=lambda service, key: kept.get((service, key)))
    monkeypatch.setitem(sys.modules, "keyring", fake)
    assert password_of("smb://ann@nas/data") == "of the keyring"
    assert password_of("smb://bob@nas/data") == "of the terminal"
    monkeypatch.setenv("NASLAB_PASSWORD", "of the environment")
    assert password_of("smb://ann@nas/data") == "of the environment"
    assert "NASLAB_PASSWORD" not in os.environ, "what is started later would inherit it"
    assert password_of("smb://ann@nas/other") == "of the environment", "a second target asks again"
    path = file_of(tmp_path, "password=of the file")
    assert password_of("smb://ann@nas/data", path) == "of the file"
    assert password_of("smb://ann:of+the%20name@nas/data") == "of+the name"
    assert len(asked) == 2


def test_a_keyring_that_fails_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def locked(*_: object) -> None:
        raise RuntimeError("locked")

    monkeypatch.setitem(sys.modules, "keyring", types.SimpleNamespace(get_password=locked))
    with pytest.raises(UsageError, match="NASLAB_PASSWORD"):
        password_of("smb://ann@nas/data")


def test_no_password_names_every_way() -> None:
    with pytest.raises(UsageError) as caught:
        password_of("smb://ann@nas/data")
    for word in ("ann", "NASLAB_PASSWORD", "--credentials FILE", "keyring set naslab ann@nas"):
        assert word in str(caught.value)


def test_without_user_it_is_a_guest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    guest = log_in(parse_target("smb://nas/data"))
    assert (guest.options["auth"], guest.options["user"], guest.password) == ("guest", None, None)
    named = log_in(parse_target("smb://nas/data"), file_of(tmp_path, "username=a b\npassword=x\ndomain=corp"))
    assert (named.options["auth"], named.options["user"], named.options["domain"]) == ("ntlm", "a b", "corp")
    assert named.url == "smb://a%20b@nas/data"
    monkeypatch.setenv("NASLAB_PASSWORD", CANARY)
    own = log_in(parse_target("smb://nas/data"))
    assert (own.options["auth"], own.options["user"], own.url) == ("ntlm", "login", "smb://login@nas/data")
    assert password_of("smb://nas/data?auth=guest") is None, "said so: no login then"
    assert password_of("smb://nas/data?auth=anonymous") is None
    assert (
        password_of("smb://nas/data?auth=kerberos") is None and password_of("smb://ann@nas/data?auth=kerberos") is None
    )
    assert own.engine_spec()["options"]["password"] == CANARY
    assert CANARY not in repr(own) + str(own.stored_spec()) + own.url


@pytest.mark.parametrize(
    ("text", "lines", "words"),
    [
        ("smb://ann@nas/data", "username=bob\npassword=x", ("bob", "ann")),
        ("smb://a;ann@nas/data", "domain=b\npassword=x", ("domain",)),
        ("smb://ann:x@nas/data", "password=y", ("password",)),
        ("smb://nas/data?auth=guest", "username=bob\npassword=x", ("guest",)),
        ("smb://ann@nas/data?auth=kerberos", "username=ann\npassword=x", ("kerberos",)),
        ("nfs://nas/data", "username=bob\npassword=x", ("smb://",)),
        ("null:", "username=bob\npassword=x", ("smb://",)),
    ],
)
def test_contradictions(tmp_path: Path, text: str, lines: str, words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as caught:
        log_in(parse_target(text), file_of(tmp_path, lines))
    assert all(word in str(caught.value) for word in ("--credentials", *words))


def test_a_password_in_the_name_is_warned_of() -> None:
    target = open_target(f"smb://ann:{CANARY.replace('&', '%26')}@nas/data", timeout_ns=7, seed=3)
    (kind, message), *more = target.warnings
    assert kind == "password_in_name" and "NASLAB_PASSWORD" in message and not more
    assert CANARY not in repr(target) and target.options["timeout_ns"] == 7
    assert log_in(parse_target("smb://ann:@nas/data")).warnings == (), "an empty one is no secret"
    assert open_target("sim:", seed=3).options["seed"] == 3
