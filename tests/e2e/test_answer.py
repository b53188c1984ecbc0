"""The answer of a run from the command to the page, of a whole run and of one that was cut short."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from naslab.cli.dispatch import run_app
from naslab.explain.climb import Climb
from naslab.results.schema import json_schema
from naslab.results.store import Store

SIM = "sim:?latency_ns=200us&link_bytes_per_s=125MB&server_cache_bytes=64m&disk_read_bytes_per_s=60MB&seed=1234567890"
"""Longer than a line of the terminal."""
Out = pytest.CaptureFixture[str]


def ran(store: Path, capsys: Out, *words: str) -> tuple[int, list[str], str]:
    """(exit code, lines on standard output, standard error) of a run."""
    code = run_app(["run", SIM, "--budget", "30s", "--store", str(store), *words])
    done = capsys.readouterr()
    return code, done.out.splitlines(), done.err


def test_the_same_answer_everywhere(tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store, page = tmp_path / "s.db", Path("nas.html")
    code, lines, _ = ran(store, capsys, "-o", str(page))
    assert code == 0 and len(lines) <= 10 and max(map(len, lines)) <= 80
    *answer, last = lines
    assert answer[0].startswith("Copying large files from the NAS: ") and "Trust: " in " ".join(answer)
    assert last.startswith("Report: nas.html (run ")
    document = Store(store).load("last").document
    assert document["answer"]["lines"] == answer
    jsonschema.Draft202012Validator(json_schema(strict=True)).validate(json.loads(json.dumps(document)))
    for words in (("show", "last"), ("explain", "last"), ("run", SIM, "--budget", "30s", "--details")):
        assert run_app([*words, "--store", str(store)]) == 0
        out = capsys.readouterr().out
        assert "\n".join(answer) in out and len(out.splitlines()) > 20
    assert run_app(["explain", "last", "--json", "--store", str(store)]) == 0
    assert json.loads(capsys.readouterr().out)["answer"]["lines"] == answer
    text = page.read_text("utf-8")
    for sentence in document["answer"]["doubts"] or ["Nothing disturbed the run"]:
        assert sentence in text.replace("\u00a0", " ")


def test_an_interrupted_run_claims_less_in_the_same_words(
    tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    def interrupted(self: Climb) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Climb, "explore", interrupted)
    store = tmp_path / "s.db"
    code, lines, err = ran(store, capsys)
    assert code == 130 and "interrupted; the results so far are stored" in err
    assert len(lines) <= 10 and max(map(len, lines)) <= 80
    trust = next(line for line in lines if line.startswith("Trust: "))
    assert trust.startswith("Trust: low; ") and "the run was interrupted" in " ".join(lines)
    document = Store(store).load("last").document
    assert document["ladder"]["stopped"] == "interrupted" and document["answer"]["trust"] == "low"
    assert max(limit["confidence"] for limit in document["verdict"]["limits"]) <= 0.85
    for words in (("show", "last"), ("explain", "last")):
        assert run_app([*words, "--store", str(store)]) == 0
        out = capsys.readouterr().out
        assert trust in out and "nothing is open" not in out and "the run was interrupted." in out
    assert run_app(["whatif", "last", "--link", "10g", "--store", str(store)]) == 0
    out = capsys.readouterr().out
    assert "Trust: low; " in out and "not known" not in out
    assert run_app(["report", "last", "-o", str(tmp_path / "r.html"), "--store", str(store)]) == 0
    text = (tmp_path / "r.html").read_text("utf-8").replace("\u00a0", " ")
    assert "Trust: low; " in text and "nothing is open" not in text
