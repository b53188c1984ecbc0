"""Text of others never reaches a terminal raw: escapes, letters that turn lines round, halves of characters."""

from __future__ import annotations

import io
import json
import re
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from fixtures_run import make_parts
from naslab.cli import main
from naslab.errors import UsageError
from naslab.render.terminal.show import list_runs_text, show_run
from naslab.results.store import Store
from naslab.text.printable import Guarded, colours_of, fold, fold_for_terminals, guarded, printable

HOSTILE = (
    "\x1b[31m", "\x1b[8m", "\x1b]0;title\x07", "\x1b]8;;http://x\x1b\\here\x1b]8;;\x1b\\", "\x1b]52;c;eA==\x07",
    "\x9b31m", "\x9d0;t\x9c", "\r\x1b[2K", "\b\b\b", "\x07", "\x0c", "\u202egnp.exe", "\u2066x\u2069", "\u200ex",
    "a\u200bb", "\ufeff", "\u2028", "\U000e0041", "\udcff", "\x7f",
)  # fmt: skip
OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b\u200e\u2028\ufeff\ud800-\udfff]")


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_is_obeyed_and_all_is_seen(text: str) -> None:
    shown = printable(f"a{text}b")
    assert OBEYED.search(shown) is None and shown[0] == "a" and shown[-1] == "b"
    assert json.loads(f'"{printable(json.dumps(text, ensure_ascii=False)[1:-1])}"') == text, "JSON stays the same"


def test_what_people_write_stays() -> None:
    for text in ("größer, 日本語, עברית, 👩‍🚀, été\u0301", "a\tb\nc", "=1+1", "C:\\x", "~ µs ▁█·…"):
        assert printable(text) == text
    assert printable("a\tb\nc", one_line=True) == "a\\u0009b\\u000ac"


def test_every_control_and_format_character_is_escaped() -> None:
    """But for two that join letters in some scripts, and marks that belong to numbers and letters of others."""
    kept = {"\n", "\t", "\u200c", "\u200d"}
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code)) in ("Cc", "Cs"):
            assert (printable(chr(code)) == chr(code)) is (chr(code) in kept), hex(code)
        if unicodedata.bidirectional(chr(code)) in ("LRE", "LRO", "RLE", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"):
            assert printable(chr(code)) != chr(code), hex(code)


def test_own_colours_pass_and_those_of_others_do_not() -> None:
    there = io.StringIO()
    ours = colours_of("\x1b[1mRun\x1b[0m  x\nplain")
    print(ours, file=Guarded(there))
    print("\x1b[1mTrust me\x1b[0m", file=Guarded(there))
    assert there.getvalue() == "\x1b[1mRun\x1b[0m  x\nplain\n\\u001b[1mTrust me\\u001b[0m\n"


def test_the_streams_are_given_back(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout, sys.stderr
    with pytest.raises(UsageError), guarded():
        print("\x1b[31mred")
        print("\x07", file=sys.stderr)
        raise UsageError("x")
    assert (sys.stdout, sys.stderr) == before
    assert capsys.readouterr() == ("\\u001b[31mred\n", "\\u0007\n")


def _hostile(document: Any) -> Any:
    """The document with an escape in every text that is not one of a few words, and in names of the environment."""
    words = ("schema", "run_id", "status", "started_at", "finished_at", "op", "kind", "unit")
    if isinstance(document, dict):
        return {key: value if key in words else _hostile(value) for key, value in document.items()}
    if isinstance(document, list):
        return [_hostile(each) for each in document]
    return document + "".join(HOSTILE[:-2]) if isinstance(document, str) else document


@pytest.mark.parametrize("colour", ["", "1"])
def test_no_reader_of_a_run_prints_it_raw(
    colour: str, store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    document, blobs, spec = make_parts(ops=("read",), file_sizes=(1 << 20, 4 << 20), label="x")
    environment = {"client": {"host\x1b[2J": "h"}, "target": {"server": "Samba"}, "\x1b[31m": 1}
    warnings = [{"kind": "error", "message": "the server said x", "cell": None}]
    about = {"label", "labels", "note", "target", "environment", "warnings", "command", "summary", "naslab_version"}
    told = {**document, "environment": environment, "warnings": warnings, "note": "n", "summary": ["a sentence"]}
    store.save({name: _hostile(value) if name in about else value for name, value in told.items()}, blobs, spec)
    monkeypatch.setenv("NASLAB_STORE", str(store.path))
    monkeypatch.setenv("FORCE_COLOR", colour)
    monkeypatch.chdir(tmp_path)
    own = re.compile(r"\x1b\[(?:0|1|2|3[0-7]|1;3[0-7]|2;3[0-7])?m")
    for words in (
        ("show", "last"), ("show", "last", "--json"), ("runs",), ("runs", "--json"), ("explain", "last"),
        ("audit", "last"), ("compare", "last", "last"), ("history",), ("show", "no\x1b[31m-run"),
        ("sweep", "/no\x1b]0;t\x07/folder\u202e"), ("export", "last", "-o", "a\x1b[31m.csv"), ("no\x1b[31m-command",),
        ("show", "--no\x1b[31m-option"), ("import", "no\x1b[31m-file"), ("report", "last", "-o", "r\u202e.html"),
        ("doctor", "/no\x9b31m"), ("lab", "up", "no\x1b[31m"), ("whatif", "last", "x\x1b[31m"),
        ("clean", "/no\x1b[31m"),
        ("diskspd", "-c1M", "-d1", "/no\x1b[31m/x"), ("iozone", "-f", "/no\x1b[31m/x", "-i0", "-s64", "-r64"),
        ("trace", "show", "/no\x1b[31m"), ("published", "\x1b[31m"), ("apps", "/no", "--app", "\x1b[31m"),
    ):  # fmt: skip
        main(list(words))
        out, err = capsys.readouterr()
        text = own.sub("", out + err)
        assert OBEYED.search(text) is None, (words, OBEYED.search(text), text)
    assert OBEYED.search(own.sub("", show_run(store.load("last"), 100, bool(colour)))) is None
    assert OBEYED.search(own.sub("", list_runs_text(store.list_runs(), 100, bool(colour)))) is None


def test_long_lines_fold_between_words_on_a_terminal_alone() -> None:
    line = "  - large reads: 38.5 MB/s at queue depth 4, working set of 128 MiB of the file"
    assert fold(line, 40).split("\n") == [
        "  - large reads: 38.5 MB/s at queue", "    depth 4, working set of 128 MiB of", "    the file",
    ]  # fmt: skip
    assert fold("pool    Two disks in one folder, and more", 24) == "pool    Two disks in one\n        folder, and more"
    assert fold('{"run": "' + "word " * 40 + '"}', 40).count("\n") == 0, "JSON is one document"
    word = "x" * 50
    assert fold(f"see {word} there", 40) == f"see\n{word}\nthere", "no word is broken"
    assert fold(f"    {word}", 40) == f"    {word}", "it keeps its place"
    assert fold(f"    '{word}' \\", 40) == f"    '{word}' \\", "a shell goes on after a backslash at the end alone"
    assert "\n" not in fold(f"\x1b[1m{line}\x1b[0m", 40)

    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, folded in ((Screen(), True), (io.StringIO(), False)):
        guard = Guarded(stream)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdout", guard)
            patch.setenv("COLUMNS", "40")
            fold_for_terminals()
            print(line)
        assert (stream.getvalue().count("\n") > 1) == folded
