"""The answer of `naslab run`: ten lines, in words that agree with their numbers, no surer than the run's conditions."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest

from made_evidence import Server, ladder
from naslab.explain import brief as briefs
from naslab.explain import brief_words, fitted, gains, ladder_table, tell, trust
from naslab.explain.brief import Bottleneck, Brief, Measured, Named, Question, Work, brief_of
from naslab.explain.brief_words import MAX_LINES, WIDTH, ending, lines
from naslab.explain.conclusion import conclude
from naslab.explain.gains import Effect, Gain
from naslab.explain.limits import CLASSES
from naslab.explain.normal import normal
from naslab.explain.outcome import question, step_part
from naslab.results.parts.ladder import LIMIT_KINDS
from naslab.units import rate_text

URL = "sim:?" + "&".join(f"option_number_{at}=123456789MB" for at in range(12))
"""A target whose name is longer than any line."""
RUN_ID = "20261125-145512-y4nv"
MB = 1e6


def limit(kind: str, op: str, size: str, confidence: float, value: float = 60e6) -> dict[str, Any]:
    unit, value = ("bytes_per_s", value) if size == "large" else ("iops", value / 4096)
    return {
        "kind": kind, "applies_to": {"op": op, "size": size}, "confidence": confidence, "value": value, "unit": unit,
        "ci95": [0.99 * value, 1.01 * value], "evidence": "why",
    }  # fmt: skip


def document(limits: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A complete run of `naslab run` over a server behind a link."""
    points = [{"op": op, "record_bytes": 1 << 20} for op in ("read", "write") for _ in range(4)]
    found = {
        "run_id": RUN_ID, "status": "complete", "command": "run", "warnings": [], "cells": [],
        "target": {"url": URL, "protocol": "smb"}, "environment": {}, "verdict": {"limits": limits},
        "ladder": {"steps": [{"name": "depth", "points": points}], "conditions": {"protocol": "smb"}, "open": [],
                   "stopped": "certain", "spent_ns": 1, "budget_ns": 180 * 10**9, "model": {}},
    }  # fmt: skip
    return {**found, **more}


def shown(found: Mapping[str, Any], open_: list[dict[str, Any]] | None = None) -> list[str]:
    made = brief_of(found, found["verdict"]["limits"], open_ or [], predict=False)
    return lines(made, ending(RUN_ID))


def held(text: list[str]) -> None:
    """The bound, and that nothing of the target's name is in it."""
    assert 5 <= len(text) <= MAX_LINES, text
    assert max(map(len, text)) <= WIDTH, text
    assert "option_number" not in " ".join(text)


@pytest.mark.parametrize("kind", LIMIT_KINDS)
@pytest.mark.parametrize("share", [0.98, 0.89, 0.75, 0.5])
def test_every_limit_fits_and_is_as_sure_as_it_is(kind: str, share: float) -> None:
    limits = [limit(kind, op, size, share) for op, size in CLASSES]
    limits += [
        limit("link" if kind != "link" else "disk", op, size, share - 0.1) for op, size in CLASSES if share < 0.7
    ]
    text = shown(document(limits))
    held(text)
    joined = " ".join(text)
    assert text[0].startswith("Copying large files from the NAS: 60 MB/s")
    assert "Copying large files to the NAS" in joined and "Small files of 4 KiB: 14,600 reads/s" in joined
    assert ("probably" in joined) == (0.7 <= share < 0.9)
    assert ("not clear" in joined) == (share < 0.7)
    assert (f"({share:.2f})" in joined) == (share < 0.9)
    assert "Is this normal? " in joined and "Trust: " in joined and text[-1].startswith(f"Run {RUN_ID}: ")


def test_a_certain_limit_is_not_called_probable() -> None:
    text = " ".join(shown(document([limit("disk", op, size, 0.97) for op, size in CLASSES])))
    assert "Copying large files from the NAS: 60 MB/s; the disks limit it." in text
    assert "probably" not in text and "(0.9" not in text
    assert "No, it is slow: a single hard disk does 80 to 300 MB/s." in text
    assert "Trust: high." in text


def test_what_is_open_has_the_command_that_decides() -> None:
    limits = [limit("disk", "read", "large", 0.5), limit("link", "read", "large", 0.4)]
    open_ = [{"applies_to": {"op": "read", "size": "large"}, "between": ["disk", "link"]}]
    whole = " ".join(line.strip() for line in shown(document(limits), open_))
    assert "not clear: the disks (0.50) or the link (0.40)." in whole
    assert "To tell the disks from the link: naslab cache size TARGET" in whole
    short = document(limits)
    short["ladder"]["stopped"] = "budget"
    whole = " ".join(line.strip() for line in shown(short, open_))
    assert "To tell the disks from the link: naslab run TARGET --budget 10m" in whole
    assert "Trust: fair" in whole


# Random answers.


def some(rng: random.Random) -> Brief:
    """Any answer that there can be."""
    kinds = list(LIMIT_KINDS)

    def bottleneck(op: str, size: str) -> Bottleneck:
        share = rng.choice([0.98, 0.89, 0.7, 0.55, 0.3])
        named = rng.sample(kinds, 1 if share >= tell.DECIDED else 2)
        value = 10 ** rng.uniform(5, 10.5)
        return Bottleneck(
            op, size, value, "bytes_per_s" if size == "large" else "iops", (0.9 * value, value),
            tuple(Named(kind, share) for kind in named),
        )  # fmt: skip

    found = tuple(bottleneck(op, size) for op, size in CLASSES if rng.random() < 0.9)
    helped = [
        Effect(e.op, e.size, e.unit, e.value, 1.2 * e.value, rng.choice([None, 2.4 * e.value]), "link") for e in found
    ]
    words = {"disk": "disks twice as fast", "connections": "4 connections (SMB multichannel, NFS nconnect)",
             "link": "a 2.5 GbE link", "cpu": "a server CPU twice as fast"}  # fmt: skip
    made = [
        Gain(key, noun, tuple(rng.sample(helped, rng.randint(0, len(helped)))), ("read large", "write large"))
        for key, noun in rng.sample(list(words.items()), rng.randint(0, 4))
    ]
    doubts = [f"other programs used up to {rng.randint(16, 100)} % of this client's CPU", "the run was interrupted",
              "what limits large reads, large writes, small reads and small writes is not decided"]  # fmt: skip
    open_ = [Question(e.op, e.size, (kinds[0], kinds[5]), "naslab run TARGET --budget 10m") for e in found]
    document = {"environment": {"route": {"speed_bits_per_s": 1e9, "interface": "eth0"}}}
    usual = [normal(document, e.op, e.value, e.limits[0].kind, e.decided) for e in found if e.size == "large"]
    gained = (Measured("connections", 1e8, 2e8, 4), Measured("encrypted", 1e8, 2e8))
    return Brief(
        rng.choice(["the NAS", "this disk", "the null target"]), found, tuple(usual), tuple(made),
        gained[: rng.randint(0, 2)], tuple(open_), rng.choice(["high", "fair", "low"]),
        tuple(rng.sample(doubts, rng.randint(0, 3))), "", tuple(works(rng)),
    )  # fmt: skip


def works(rng: random.Random) -> list[Work]:
    names = rng.sample(["HDVideo_1Play_1Record", "DirectoryCopyFromNAS", "VirtualMachines", "SourceTree"], 4)
    found = [Work(name, 10 ** rng.uniform(4, 10), rng.choice([None, 10 ** rng.uniform(5, 8)])) for name in names]
    return sorted(found[: rng.choice([0, 0, 1, 4])], key=lambda each: each.rate)


@pytest.mark.parametrize("seed", range(300))
def test_applications_in_their_own_numbers(seed: int) -> None:
    """Slowest and fastest are those, and what films get is what was measured over what they need."""
    made = some(random.Random(seed))
    text = brief_words.work_sentence(made)
    assert (text == "") == (not made.work)
    if not made.work:
        return
    rates = [each.rate for each in made.work]
    assert f"Applications: {made.work[0].name} {rate_text(min(rates))}" in text
    assert len(rates) == 1 or f"{made.work[-1].name} {rate_text(max(rates))}." in text
    own = [(each.rate / each.needs, each.name) for each in made.work if each.needs]
    if own and min(own)[0] < 1:
        assert f"{min(own)[1]} gets only " in text
    elif own:
        if min(own)[0] < 1.1:
            assert text.endswith("Films get just the rate they need.")
            return
        least = re.search(r"at least ([\d.,]+) times", text)
        assert least and float(least[1].replace(",", "")) <= min(own)[0] * 1.005
    else:
        assert "Films" not in text and "need" not in text


@pytest.mark.parametrize("seed", range(300))
def test_any_answer_fits(seed: int) -> None:
    made = some(random.Random(seed))
    text = lines(made, ending(RUN_ID))
    assert len(text) <= MAX_LINES and max(map(len, text)) <= WIDTH, text
    assert text[-1].startswith("Run ") and sum(line.startswith("Trust: ") for line in text) == 1
    assert msgspec.convert(brief_words.document_of(made), Brief) == made


@pytest.mark.parametrize("seed", range(300))
def test_a_gain_is_more_than_what_there_is(seed: int) -> None:
    """A change that is listed as help brings a higher rate, one that does not help brings none."""
    made = some(random.Random(seed))
    now = {(e.op, e.size): e.value for e in made.bottlenecks}
    for gain in made.gains:
        told = brief_words.gain_sentence(gain, made.place) if gain.helps else ""
        for effect in gain.helps:
            assert effect.low > now[(effect.op, effect.size)]
        assert "not help" not in told
    useless = brief_words.no_help_sentence(made)
    names = [gain.words for gain in made.gains if gain.helps]
    assert not useless or useless.split(" will not help")[0].lower() not in names


def test_the_report_line_fits_any_path() -> None:
    from pathlib import Path

    assert ending(RUN_ID, Path("nas.html")) == f"Report: nas.html (run {RUN_ID})"
    assert len(ending(RUN_ID, Path("/a" * 200 + "/nas.html"))) <= WIDTH
    assert ending(RUN_ID, Path("/a" * 200 + "/nas.html")).endswith(f"/nas.html (run {RUN_ID})")


# Whole systems: made by arithmetic, judged and predicted by the model.


SYSTEMS = {
    "disks behind a fast link": Server(link=1.18e9, disk_read=150e6, disk_write=120e6),
    "a link of 1 Gbit/s": Server(),
    "a far server": Server(delay_s=2e-2, slots=32),
    "one lock": Server(lock_s=2e-4),
    "a slow processor": Server(server_s=2e-3),
}


def climbed(server: Server, **more: Any) -> dict[str, Any]:
    """The document of a run over a server, as `naslab run` leaves it before its end."""
    evidence = ladder(server, protocol="smb")
    evidence.memory_bytes = None
    verdict = conclude(evidence, 1)
    steps = [step_part(name, points) for name, points in evidence.points.items() if points]
    part = {
        "steps": steps, "conditions": evidence.document(), "open": [question(each, URL) for each in verdict.open],
        "model": fitted.document_of(evidence, 1), "spent_ns": 1, "budget_ns": 180 * 10**9, "stopped": "open",
    }  # fmt: skip
    return document([each.document() for each in verdict.limits], ladder=part, **more)


@pytest.mark.parametrize("name", SYSTEMS)
def test_whole_systems_fit_and_agree_with_their_numbers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(briefs, "RUNS", 1)
    found = climbed(SYSTEMS[name])
    made = brief_of(found, found["verdict"]["limits"], found["ladder"]["open"])
    text = lines(made, ending(RUN_ID))
    held(text)
    assert {(each.op, each.size) for each in made.bottlenecks} == set(CLASSES)
    for gain in made.gains:
        for effect in gain.helps:
            assert effect.low >= gains.HELPS * effect.now
            assert effect.high is None or effect.high >= effect.low
            assert f"{effect.op} {effect.size}" not in gain.unchanged
    assert [gain.total for gain in made.gains if gain.helps] == sorted(
        (gain.total for gain in made.gains if gain.helps), reverse=True
    )


def test_what_helps_is_what_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disks of 150 MB/s behind 10 Gbit/s: faster disks double it, and the text says that a faster link does not."""
    monkeypatch.setattr(briefs, "RUNS", 1)
    found = climbed(SYSTEMS["disks behind a fast link"])
    made = brief_of(found, found["verdict"]["limits"], found["ladder"]["open"])
    by_change = {gain.change: gain for gain in made.gains}
    assert {(e.op, e.size) for e in by_change["disk"].helps} >= {("read", "large"), ("write", "large")}
    assert set(by_change["link"].unchanged) >= {"read large", "write large"} and not by_change["link"].helps
    text = " ".join(line.strip() for line in lines(made))
    assert re.search(r"1\. Disks twice as fast: from the NAS .*MB/s, to it .*MB/s\.", text)
    assert re.search(r"A (10|25) GbE link or .* will not help with large files: the disks stop at 15\d MB/s and", text)


# Conditions.


def warned(*kinds: str) -> list[dict[str, Any]]:
    return [{"kind": kind, "message": "", "cell": None} for kind in kinds]


CONDITIONS: dict[str, tuple[dict[str, Any], float, str]] = {
    "interrupted": ({"status": "partial", "warnings": warned("interrupted")}, 0.85, "the run was interrupted"),
    "failed": ({"status": "failed"}, 0.85, "the run failed"),
    "killed": ({"status": "running"}, 0.85, "did not finish"),
    "busy client": (
        {"warnings": warned("client_busy"), "environment": {"client": {"load_1min": 7.0}}}, 0.89, "a load of 7.0"),
    "other load": (
        {"warnings": warned("other_load"), "environment": {"during": {"foreign_cpu_fraction_max": 0.6}}}, 0.89,
        "other programs used up to 60 %"),
    "a little load": (
        {"warnings": warned("other_load"), "environment": {"during": {"foreign_cpu_fraction_max": 0.2}}}, 0.95,
        "other programs used up to 20 %"),
    "a busy host": (
        {"warnings": warned("other_load"), "environment": {"during": {"stolen_cpu_fraction_max": 0.3}}}, 0.85,
        "took up to 30 % of its CPU"),
    "others on the link": (
        {"warnings": warned("other_load"), "environment": {"during": {"foreign_bytes_per_s_max": 1e7}}}, 0.85,
        "other programs used this client"),
    "two grave ones": (
        {"status": "partial", "warnings": warned("interrupted", "other_load"),
         "environment": {"during": {"stolen_cpu_fraction_max": 0.3}}}, 0.7, "the run was interrupted and the host"),
    "rationed": ({"cells": [{"warnings": warned("client_throttled")}]}, 0.85, "a quota throttled this client's CPU"),
    "one odd cell": ({"cells": [{"warnings": warned("client_stall")}, *([{}] * 30)]}, 0.89, "stalled"),
    "failed operations": ({"cells": [{"errors": 3}, {}]}, 0.85, "operations failed in 1 of 2 cells"),
}  # fmt: skip


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_lower_what_is_claimed(name: str) -> None:
    """In the verdict, in the answer, in its sentence: all the same."""
    more, left, words = CONDITIONS[name]
    found = document([limit("disk", op, size, 0.98) for op, size in CLASSES], **more)
    assert {each["confidence"] for each in trust.claimed(found)} == {left}
    made = brief_of(found, found["verdict"]["limits"], [], predict=False)
    assert {each.limits[0].probability for each in made.bottlenecks} == {left}
    text = lines(made, ending(RUN_ID))
    held(text)
    certain = left >= trust.CERTAIN
    assert ("probably" in text[0]) != certain and (f"({left:.2f})" in " ".join(text)) != certain
    sentence = trust.sentence(trust.doubts(found))
    assert words in sentence and sentence.startswith(f"Trust: {made.trust}")
    assert made.trust == ("high" if certain else "fair" if left == 0.89 else "low")


def test_a_clean_run_is_believed() -> None:
    found = document([limit("disk", "read", "large", 0.98)])
    assert trust.doubts(found) == [] and trust.claimed(found) == found["verdict"]["limits"]


def test_few_measurements_lower_only_their_own() -> None:
    found = document([limit("disk", "read", "large", 0.98), limit("disk", "write", "large", 0.98)])
    steps = found["ladder"]["steps"][0]
    steps["points"] = [point for point in steps["points"] if point["op"] == "read"] + [{"op": "write"}]
    assert [each["confidence"] for each in trust.claimed(found)] == [0.98, 0.85]
    assert "writes were measured only once" in trust.sentence(trust.doubts(found))


def test_counted_bytes_stay_certain() -> None:
    found = document([limit("client_cache", "read", "large", 0.97)], status="failed")
    assert trust.claimed(found)[0]["confidence"] == 0.97


def test_a_rationed_client_is_no_less_surely_the_limit() -> None:
    """What a condition shows it does not make doubtful."""
    cells = [{"warnings": warned("client_throttled", "client_stall")}]
    found = document([limit("client_cpu", "read", "large", 0.95), limit("disk", "read", "small", 0.95)], cells=cells)
    assert [each["confidence"] for each in trust.claimed(found)] == [0.95, 0.7]


def test_an_interrupted_run_never_says_that_nothing_is_open() -> None:
    for stopped in ("certain", "open", "interrupted", "failed"):
        for status, kinds in (("partial", ["interrupted"]), ("failed", []), ("running", []), ("partial", [])):
            found = document([], status=status, warnings=warned(*kinds))
            found["ladder"]["stopped"] = stopped
            said = ladder_table.ended(found)
            assert "are decided" not in said and "no further step" not in said
            assert ("interrupted" in said) == (
                (kinds == ["interrupted"] and stopped != "failed") or stopped == "interrupted"
            )
    whole = document([])
    assert ladder_table.ended(whole).endswith("all limits are decided.")
    spent = document([], status="partial", warnings=warned("budget"))
    assert "all limits are decided" in ladder_table.ended(spent), "its budget ended it, nobody else"
    whole["ladder"]["open"] = [{}]
    assert "nothing is open" not in ladder_table.ended(whole)


# Normal or not.


def route(bits: float) -> dict[str, Any]:
    return {"environment": {"route": {"interface": "eth0", "speed_bits_per_s": bits, "mtu_bytes": 1500}}}


NORMAL = [
    (route(1e9), 117e6, "link", "normal", "1 Gbit/s carries 119 MB/s"),
    (route(1e9), 60e6, "link", "slow", "1 Gbit/s carries 119 MB/s; look at cable"),
    (route(1e8), 11.7e6, "link", "slow", "the link runs at 100 Mbit/s"),
    ({}, 11.7e6, "link", "slow", "the link runs at 100 Mbit/s"),
    ({}, 117e6, "link", "normal", "1 Gbit/s carries"),
    ({}, 60e6, "link", "unknown", "not known"),
    (route(1e10), 60e6, "disk", "slow", "a single hard disk"),
    (route(1e10), 180e6, "disk", "normal", "for hard disks"),
    (route(1e10), 500e6, "disk", "normal", "SATA SSD"),
    (route(1e10), 3e9, "disk", "normal", "NVMe"),
    (route(1e9), 30e6, "server_cpu", "slow", "1 Gbit/s carries"),
    ({}, 30e6, "server_cpu", "unknown", "not known"),
    ({}, 30e6, "unknown", "unknown", "not known"),
    ({}, 3e9, "client_cache", "unknown", "client's cache"),
    ({"ladder": {"conditions": {"same_machine": True}}}, 3e9, "server_cpu", "unknown", "one machine"),
    ({"ladder": {"conditions": {"local_disk": True}}}, 3e9, "client_cpu", "unknown", "neither"),
]


@pytest.mark.parametrize(("found", "rate", "kind", "state", "words"), NORMAL)
def test_normal(found: dict[str, Any], rate: float, kind: str, state: str, words: str) -> None:
    said = normal(found, "read", rate, kind, True)
    assert (said.state, words in said.text) == (state, True), said
    assert normal(found, "read", rate, kind, False).state == "unknown"


def rates_in(text: str) -> Iterator[float]:
    for number in re.findall(r"([\d,.]+) MB/s", text):
        yield float(number.replace(",", "")) * MB


@pytest.mark.parametrize("bits", [1e8, 1e9, 2.5e9, 1e10])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.8, 0.9, 0.99, 1.05])
def test_slow_is_less_than_what_it_is_held_against(bits: float, share: float) -> None:
    rate = bits / 8 * 0.95 * share
    for kind in ("link", "server_cpu", "disk"):
        said = normal(route(bits), "read", rate, kind, True)
        if said.state == "slow" and bits > 1e8:
            assert rate < max(rates_in(said.text))
        if said.state == "normal" and kind != "disk":
            assert rate <= 1.01 * max(rates_in(said.text))
