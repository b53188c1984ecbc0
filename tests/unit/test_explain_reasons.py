"""Evidence sentences: generated from the numbers that decided, and their arithmetic holds whatever those are."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_evidence import GIB, KIB, MB, MIB, SECOND, Server, evidence, ladder, point
from naslab.explain import reasons
from naslab.explain.advice import advice
from naslab.explain.evidence import Evidence, memory_gap
from naslab.explain.limits import CLASSES, Limit, Verdict
from naslab.explain.measured import Measured, measured
from naslab.explain.points import Figure
from naslab.explain.reasons import Facts, lasted, reason
from naslab.explain.says import says

KINDS = ("link", "server_cache", "server_cpu", "disk", "disk_iops", "protocol", "latency", "client_cpu", "client_nic",
         "burst_credit", "unknown", "shared_machine", "client_cache")  # fmt: skip
RATE = r"([\d,.]+) (?:MB/s|operations/s)"
COMPARED = re.compile(rf"{RATE}, (as fast as|[\d.,]+ times) (?:one|durable) [^;(]*\({RATE}\)")
BESIDE = re.compile(rf"beside a writer at {RATE} reads reach {RATE}, alone {RATE}(: [a-z ]+)?")
JUDGING = re.compile(r"\b(slower|faster than|no more|hardly|barely|less than)\b")


def number(text: str) -> float:
    return float(text.replace(",", ""))


def texts(found: Evidence) -> Iterator[str]:
    """Every evidence sentence that can be said of a ladder, whatever the limit and the next one."""
    for op, size in CLASSES:
        fitted = Measured(Figure(1e8, 9e7, 1.1e8, "bytes_per_s" if size == "large" else "iops"))
        for value in (*measured(found, op, size), fitted):
            for kind in KINDS:
                for rival in ("link", "disk"):
                    yield reason(Facts(kind, op, size, value, rival, ("disk", 1.3), found, 0.2, 0.5))


def page(found: Evidence) -> list[str]:
    """All that `explain` says of a ladder."""
    found.memory_bytes = memory_gap(found)
    limits = [Limit(kind, *where, 0.5, Figure(1e8, 9e7, 1.1e8), "") for kind in KINDS for where in CLASSES]
    steps = [says(step, found) for step in found.points]
    return [*dict.fromkeys(texts(found)), *steps, *advice(found, Verdict(limits))]


def check(found: Evidence) -> int:
    """Holds every number against those beside it; how many comparisons there were."""
    told, count = page(found), 0
    for text in told:
        assert not JUDGING.search(text), text
        for one, word, other in COMPARED.findall(text):
            count += 1
            rate = number(one) / max(number(other), 1e-9)
            if word == "as fast as":
                assert rate == pytest.approx(1, abs=0.04), text
            else:
                assert number(word.split()[0]) == pytest.approx(rate, rel=0.08, abs=0.006), text
        for writes, reads, alone, judged in BESIDE.findall(text):
            count += 1
            on_top = (number(reads) + number(writes) - number(alone)) / number(writes)
            if "own ceiling" in judged:
                assert on_top > 0.6, text
            if "share" in judged:
                assert on_top < 0.5, text
    whole = " ".join(told)
    assert not ("own ceiling" in whole and "share one ceiling" in whole)
    for depth, one, two in re.findall(rf"at queue depth (\d+), {RATE}[^;]*?{RATE}", whole):
        assert depth and number(one) > 0 and number(two) > 0
    return count


def rates(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(0, 1).map(lambda at: low * (high / low) ** at)


servers = st.builds(
    Server, link=rates(1e7, 5e9), uplink=st.sampled_from([0.0, 2e7, 1e9]), memory=rates(1e8, 1e10),
    server_s=rates(1e-6, 1e-3), delay_s=rates(1e-5, 0.05), client_s=rates(1e-6, 1e-3), window=rates(2e7, 1e12),
    slots=st.sampled_from([1.0, 8.0, 1e9]), cache=st.sampled_from([1.0, 128.0 * MIB, 1e12]),
    disk_read=rates(2e7, 5e9), disk_write=rates(2e7, 5e9), request_s=rates(1e-6, 1e-2),
    lock_s=st.sampled_from([0.0, 1e-4]), write_back=st.booleans(),
)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(servers, st.sampled_from([0.0, 0.02, 0.2]), st.integers(0, 1000))
def test_no_sentence_contradicts_its_numbers_nor_another_one(server: Server, noise: float, seed: int) -> None:
    found = ladder(server, noise=min(noise, 0.2), seed=seed, nic_bytes_per_s=125_000_000, null_ns={"mean": 50_000})
    assert check(found) > 10


def test_a_large_set_that_is_read_faster_is_not_called_slow() -> None:
    """`make demo` called a set of 4 GiB disk-limited that was read faster than a small one."""
    found = evidence(2764 * MB, set=[point(rate=2885 * MB, set_bytes=4 * GIB, depth=8)])
    text = reason(Facts("disk", "read", "large", measured(found, "read", "large")[0], "link", None, found))
    assert "a working set of 4 GiB reads at 2,880 MB/s, 1.04 times one of 4 MiB (2,760 MB/s)" in text
    check(found)


def test_writes_are_held_against_cached_reads_with_the_factor_between_them() -> None:
    """A link shaped for reads alone: writes of 559 MB/s were said to meet its ceiling of 28.6 MB/s."""
    written = point("write", rate=559 * MB, set_bytes=GIB, durable=559 * MB)
    found = evidence(28.6 * MB, set=[written, point(rate=28.6 * MB, set_bytes=GIB)])
    text = reason(Facts("link", "write", "large", measured(found, "write", "large")[0], "disk", None, found))
    assert text.startswith("durable at 559 MB/s; cached reads reach 28.6 MB/s, 0.051 times durable writes (559 MB/s)")
    check(found)


@pytest.mark.parametrize(("share", "judged"), [(1.0, "each direction has its own"), (0.0, "both directions share one")])
def test_a_writer_beside_a_reader_tells_whose_the_ceiling_is(share: float, judged: str) -> None:
    assert judged in reasons.duplex(evidence(118 * MB, share=share))
    assert not {"own", "share"} & set(reasons.duplex(evidence(118 * MB, share=0.55)).split())


def test_a_reader_that_depth_makes_faster_tells_nothing_of_directions() -> None:
    rising = [point(rate=depth * 10 * MB, depth=depth) for depth in (1, 2, 4, 8)]
    beside = point("mixed", rate=80 * MB, depth=4, workers=2, reads=40 * MB, writes=40 * MB)
    assert reasons.duplex(evidence(depth=rising, duplex=[beside])).endswith("alone 40 MB/s")


def test_numbers_of_a_busy_client_a_lock_and_slow_operations_are_told() -> None:
    quota = point(rate=50 * MB, depth=8, cpu=0.15, cpu_limit=0.15)
    found = evidence(50 * MB, depth=[quota])
    value = measured(found, "read", "large")[0]
    assert "the client uses 0.15 of 0.15 cores there" in reason(
        Facts("client_cpu", "read", "large", value, "", None, found)
    )
    own, same = point(rate=700 * MB, depth=4, workers=4), point(rate=205 * MB, depth=4, workers=4, files=1)
    slow = point(record=4 * KIB, rate=4 * MB, p50_ns=100_000.0, mean_ns=1_000_000.0)
    found = evidence(200 * MB, connections=[own], same_file=[same], round_trip=[slow])
    text = reason(Facts("unknown", "read", "large", measured(found, "read", "large")[0], "", None, found, misfit=0.6))
    assert "4 connections reach 205 MB/s on one file and 700 MB/s on files of their own" in text
    assert "half of single 4 KiB reads take up to 100 µs, the mean is 1 ms" in text
    assert "does not explain 60 % of the rates of reads" in text


def test_credit_and_ceilings_of_the_model_are_told_as_what_they_are() -> None:
    found = evidence()
    fitted = Measured(Figure(80e6, 70e6, 90e6))
    told = reason(Facts("disk", "read", "large", fitted, "", ("link", 1.3), found))
    assert told.startswith("the fitted model has a ceiling of 80 MB/s (70 to 90 MB/s)")
    assert told.endswith("the next limit is the network link, at 1.3 times")
    found.burst = {
        "burst_bytes_per_s": 1e8, "base_bytes_per_s": 2e7, "size_bytes": 10**9, "shown_by": "it came back",
        "applies_to": ["read"], "spent_by": "read",
    }  # fmt: skip
    told = reason(Facts("burst_credit", "read", "large", fitted, "", None, found))
    assert told.startswith("the rate was 100 MB/s with credit, 1 GB above that and is 20 MB/s without: it came back")


def test_factors_have_the_digits_they_need() -> None:
    assert [reasons.factor_text(each) for each in (0.0351, 0.51, 0.96, 1.04, 1.34, 12.4, 4321.0)] == [
        "0.035", "0.51", "0.96", "1.04", "1.3", "12", "4,321",
    ]  # fmt: skip


def test_how_long_no_credit_ran_out_is_told() -> None:
    long = point(rate=100 * MB, depth=8, end_ns=20 * SECOND)
    assert lasted(evidence(long=[long]), "read") == "no credit ran out in 20 s of reads (2 GB)"
    assert lasted(evidence(long=[long]), "write") == ""
    spent = evidence(long=[long])
    spent.burst = {"base_bytes_per_s": 1.0, "applies_to": ["read"], "spent_by": "read"}
    assert lasted(spent, "read") == ""
