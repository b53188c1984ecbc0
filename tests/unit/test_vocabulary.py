"""The field's words in docs and help: how often the words of our own are still there may only fall."""

from __future__ import annotations

import re

import pytest

from docs_pages import ROOT, pages
from naslab.cli.build import all_parsers
from naslab.cli.lookup import shown

OURS = {
    "reported, detected, finding, message": r"\bfound\b|\btold\b|\bsaid\b|\bin words\b|\bthe words\b",
    "acknowledged": r"\bpromised\b",
    "path, bottleneck, ceiling": r"what is behind|the way of (the )?data|path of data",
    "working set": r"\b(?:a|the|this|largest|smallest|each) set\b(?! of)|\bset of \d",
    "queue depth, outstanding requests": r"\bin flight\b",
    "server cache, cached reads": r"server's memory|memory of the server|data in memory|from (?:its )?memory",
    "disk IOPS": r"operations (?:that )?the disks can do",
    "wire fraction, cache-hit fraction": r"\bcrossed fraction|\bquick fraction",
    "round-trip time (RTT)": r"round trip of a call|a call that moves nothing",
    "including flush": r"until (?:it was |they are )?durable\b|time to durable",
    "no single bottleneck": r"held up by",
    "worker pool, supervisor, device manager": r"\bcrew\b|\battendant\b|\bguardian\b|\bsteward\b",
    "a plain sentence": r"\bit is that\b|\bnothing of it\b|\bwhat it says\b|\bof which what\b|\bthe way is\b",
}
"""What to write, and the regular expression of what not to write: the left side of HOUSE.md's glossary."""
IN_DOCS, IN_HELP = 11, 0
"""Ratchets: lower them when there are fewer, never raise them."""


def prose(page: str) -> str:
    """A page without its blocks, code and addresses."""
    text = re.sub(r"^ *```.*?^ *```", "", (ROOT / page).read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`|\]\([^)]*\)", "", text)


def counted(text: str) -> list[str]:
    """The words of our own in a text, each with what to write instead."""
    flat = " ".join(text.split())
    return [
        f"{flat[max(0, match.start() - 25) : match.end() + 10]!r}: write {better}"
        for better, form in OURS.items()
        for match in re.finditer(form, flat, re.IGNORECASE)
    ]


def test_docs_use_the_fields_words() -> None:
    there = {page: counted(prose(page)) for page in pages() if not page.startswith("docs/notes/")}
    total = sum(map(len, there.values()))
    worst = sorted(there.items(), key=lambda each: -len(each[1]))[:5]
    assert total <= IN_DOCS, f"{total} words of our own, at most {IN_DOCS}:\n" + "\n".join(
        line for page, lines in worst for line in (page, *lines[:8])
    )


def test_help_uses_the_fields_words() -> None:
    lines = []
    for entry in shown():
        texts = [entry.brief, *(example.does for example in entry.examples)]
        if parser := all_parsers().get(entry.name):
            texts += [parser.help or "", *(getattr(parameter, "help", "") or "" for parameter in parser.params)]
        lines += [f"{entry.name}: {line}" for text in texts for line in counted(text)]
    assert len(lines) <= IN_HELP, f"{len(lines)} words of our own, at most {IN_HELP}:\n" + "\n".join(lines)


@pytest.mark.parametrize("text", ["what is behind a burst", "three requests in flight", "Nothing was found."])
def test_our_own_words_are_seen(text: str) -> None:
    assert len(counted(text)) == 1
    assert counted("The bottleneck is the disk; the result reports a queue depth of 4.") == []
