"""Names of targets: understood, or refused with a UsageError that shows no password."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naslab.errors import TargetError, UsageError
from naslab.targets import Target, folder_target, parse_target
from naslab.text.messages import say, sentence, told_of, without_secrets, words_of
from told import told

PIECES = st.lists(
    st.sampled_from(
        ["sim:", "null:", "smb:", "nfs:", "//", "\\\\", "?", "&", "=", "latency_ns", "200us", "direct", "1", "/", "..",
         "~", "[", "{", "]", "%00", "%", "user:pw@", "\0", "\udc80", "1e400", "nan", "é", " ", "x" * 300]
    ),
    max_size=8,
).map("".join)  # fmt: skip


@settings(max_examples=400)
@given(st.one_of(st.text(), PIECES))
def test_nothing_but_usage_errors(text: str) -> None:
    try:
        target = parse_target(text)
    except UsageError as error:
        assert "target" in str(error)
        return
    assert target.protocol in ("local", "sim", "null", "smb", "nfs")
    json.loads(target.engine_json())
    assert target.password is None or "pw" not in target.url


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("sim:", {}),
        ("sim:?link_bytes_per_s=125MB&latency_ns=200us", {"link_bytes_per_s": 125_000_000, "latency_ns": 200_000}),
        ("sim:?link_bytes_per_s=0&disk_iops=60&jitter=0.5", {"link_bytes_per_s": 0, "disk_iops": 60, "jitter": 0.5}),
        ("sim:?store_data=true&read_only=False", {"store_data": True, "read_only": False}),
        ('sim:?faults=[{"kind":"enospc","at_op":3}]', {"faults": [{"kind": "enospc", "at_op": 3}]}),
    ],
)
def test_sim(text: str, options: dict[str, Any]) -> None:
    assert parse_target(text) == Target(text, "sim", options)


def test_seed_reaches_the_simulator() -> None:
    assert parse_target("sim:").seeded(5).options == {"seed": 5}
    assert parse_target("sim:?seed=2").seeded(5).options == {"seed": 2}
    assert parse_target("null:").seeded(5) == parse_target("null:")


def test_sim_file_with_overrides(tmp_path: Path) -> None:
    file = tmp_path / "nas.toml"
    file.write_text("latency_ns = 5\n[[files]]\npath = 'a'\n")
    found = parse_target(f"sim:{file}?latency_ns=1ms")
    assert found.options == {"latency_ns": 1_000_000, "files": [{"path": "a"}]}


def test_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    odd = tmp_path / "what?direct=1"
    odd.mkdir()
    local = {"root": str(tmp_path), "engine": "auto"}
    assert parse_target(".") == parse_target(f"{tmp_path}/") == Target(str(tmp_path), "local", local)
    assert parse_target("what?direct=1").options["root"] == str(odd), "an existing name is a name"
    found = parse_target(".?engine=uring&direct=yes")
    assert found == Target(f"{tmp_path}?engine=uring&direct=yes", "local", {**local, "engine": "uring"}, True)
    colon = tmp_path / "sim:x"
    colon.mkdir()
    assert parse_target("sim:x").protocol == "local" and folder_target(colon).options["root"] == str(colon)
    assert parse_target("./sim:x").protocol == "local"


@given(st.text("abc:@/.?%", max_size=30), st.text("xyz!@#:", min_size=1, max_size=12).filter(lambda s: s.strip("@")))
def test_passwords_are_hidden(host: str, password: str) -> None:
    secret = f"S3{password}CR3T"
    for text in (f"smb://user:{secret}@{host}", f"foo://u:{secret}@{host}", f"smb:/user:{secret}@{host}"):
        assert secret not in without_secrets(text)
        try:
            target = parse_target(text)
        except UsageError as error:
            assert secret not in str(error)
        else:
            assert secret not in f"{target.url}{target!r}{target.stored_spec()}"


@pytest.mark.parametrize("name", ["user:S3CR3T@nas/share", "us er:S3 CR3T@nas/share", "user:S3@CR3T@nas/share",
                                  "smb:/user:S3CR3T@nas/share", "smb:user:S3CR3T@nas/share"])  # fmt: skip
def test_a_name_with_something_left_out_shows_no_password(name: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_target(name)
    assert "CR3T" not in str(refused.value) and "nas" in str(refused.value)


def test_words_with_a_colon_are_left_alone() -> None:
    for text in ("sim:a@b.toml", "at 10:30 by ann@nas", "lab:nas@2", "nfs://nas/a@b", "a: b@c"):
        assert without_secrets(text) == text


@pytest.mark.parametrize(
    ("raw", "kind", "words"),
    [
        (
            "mkdir: Permission denied (os error 13), path=naslab-1", "permission",
            "cannot create the folder naslab-1: Permission denied; give a folder with write access",
        ),
        (
            "connect: there is no Kerberos ticket: kinit USER@REALM, host=nas", "permission",
            "cannot connect to nas: there is no Kerberos ticket: kinit USER@REALM",
        ),
        ("mount: the export is closed, path=/e", "permission", "cannot mount /e: the export is closed"),
        ("plan: cell 3 (read): the null target has no flush: x", "invalid", "the null target has no flush: x"),
        ("open: No space left on device (os error 28), file=a, offset=3", "no_space",
         "cannot open a: No space left on device, offset 3; free some space or choose smaller sizes"),
        ("umount: failed, a=b", "io", "failed, a b"),
    ],
)  # fmt: skip
def test_engine_errors_read_well(raw: str, kind: str, words: str) -> None:
    assert sentence(told(raw, kind)) == words
    assert sentence(told(raw, kind), step=False) == words.partition("; ")[0]


def test_names_that_look_like_facts_stay_whole() -> None:
    """The parts come as parts: a name may hold whatever separates them in a line."""
    parts = ("not_found", 2, "open", "it is not there", [("path", "a, b=c: d"), ("share", "x")])
    error = TargetError("open: it is not there, path=a, b=c: d, share=x", "not_found", 2)
    error.failure = parts
    assert words_of(error) == "cannot open a, b=c: d: it is not there, share x"
    assert told_of(error) == {
        "kind": "not_found", "status": 2, "operation": "open", "cause": "it is not there", "facts": parts[4]
    }  # fmt: skip
    say(error)
    assert str(error) == "cannot open a, b=c: d: it is not there, share x" and error.failure is None
    say(error)
    assert str(error).count("cannot open") == 1, "words stay as they are"


def test_words_of_python_stay_as_they_are() -> None:
    error = UsageError("connect: to what, path=x")
    assert words_of(error) == sentence(str(error)) == str(error)
    assert sentence(told_of(error)) == str(error) and told_of(error)["kind"] == "invalid"
