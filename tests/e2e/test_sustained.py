"""`naslab sustained` on the simulator and on folders: truth that was planted, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from cli_tools import SIM, Cli, need, populate, snapshot
from naslab import lab
from naslab.lab import systems
from naslab.results.schema import json_schema

MB = 1_000_000


def bucket_server(kind: str = "both", **more: Any) -> str:
    bucket = {"scope": "disk", "applies_to": kind, "burst_bytes_per_s": 260 * MB, "base_bytes_per_s": 32 * MB,
              "size_bytes": 4000 * MB, **more}  # fmt: skip
    return f"sim:?link_bytes_per_s=600MB&latency_ns=200us&buckets={json.dumps([bucket])}"


def measured(cli: Cli, *words: object, command: str = "sustained") -> Any:
    """The document of a run that ended well, checked against the strict schema."""
    document = cli(*command.split(), *words, "--json").ok().json()
    jsonschema.Draft202012Validator(json_schema(strict=True)).validate(document)
    assert document["command"] == command and document["status"] == "complete"
    return document


def loads(document: Any) -> list[Any]:
    return [cell for cell in document["cells"] if cell["workload"] == "sustained"]


@pytest.mark.parametrize(
    ("kind", "write", "more"),
    [
        ("both", 100, {}),
        ("write", 100, {"burst_bytes_per_s": 100 * MB, "base_bytes_per_s": 50 * MB, "size_bytes": 900 * MB}),
        ("read", 0, {"size_bytes": 1500 * MB}),
        ("both", 100, {"burst_bytes_per_s": 400 * MB, "base_bytes_per_s": 20 * MB, "size_bytes": 9000 * MB}),
    ],
)
def test_planted_bucket_is_found(kind: str, write: int, more: dict[str, int], cli: Cli) -> None:
    words = ("--write", write, "--depth", 4, "--size", "64m")
    document = measured(cli, bucket_server(kind, **more), *words, command="burst")
    burst = document["sustained"]["burst"]
    truth = {"burst_bytes_per_s": 260 * MB, "base_bytes_per_s": 32 * MB, "size_bytes": 4000 * MB, **more}
    assert burst["cause"] == "token_bucket" and burst["op"] == ("write" if write else "read"), burst
    found = burst["bucket"]
    assert found["precision"] <= 0.03
    for ours, theirs in (
        ("burst_bytes_per_s", "burst_bytes_per_s"), ("baseline_bytes_per_s", "base_bytes_per_s"),
        ("size_bytes", "size_bytes"),
    ):  # fmt: skip
        assert found[ours]["value"] == pytest.approx(truth[theirs], rel=0.05), ours
        assert found[ours]["ci95"][0] < found[ours]["value"] < found[ours]["ci95"][1]
    assert found["refill_ns"] == pytest.approx(truth["size_bytes"] / truth["base_bytes_per_s"] * 1e9, rel=0.05)
    assert "A token bucket of" in document["summary"][0]
    assert [cell["workload"] for cell in document["cells"]].count("retest") == 1
    shown = cli("show", "last").ok().out
    assert "A token bucket of" in shown and "Evidence, two rates" in shown and "p99.9" in shown


@pytest.mark.parametrize("size", ["256m", "1g"])
def test_write_back_cache_is_no_bucket(size: str, cli: Cli) -> None:
    server = f"disk_write_bytes_per_s=40MB&write_back_bytes={size}&server_cache_bytes=2g&link_bytes_per_s=300MB"
    words = ("--write", 100, "--budget", "10m", "--depth", 4)
    document = measured(cli, f"sim:?{server}&latency_ns=100us", *words, command="burst")
    burst = document["sustained"]["burst"]
    assert burst["cause"] == "write_back_cache"
    assert burst["bucket"]["baseline_bytes_per_s"]["value"] == pytest.approx(40 * MB, rel=0.05)
    assert "not from a token bucket" in document["summary"][0]


def test_no_burst_is_none_and_a_short_budget_says_what_is_missing(cli: Cli) -> None:
    document = measured(cli, SIM, "--write", 100, "--budget", "1m", command="burst")
    assert document["sustained"]["burst"]["cause"] == "none"
    assert document["sustained"]["burst"]["bucket"] is None and "No burst was detected" in document["summary"][0]
    # The idle times alone are longer than this budget.
    document = measured(cli, bucket_server(), "--write", 100, "--budget", "45s", "--depth", 4, command="burst")
    burst = document["sustained"]["burst"]
    assert burst["cause"] == "undecided" and "a second run after an idle time" in burst["missing"]
    assert "budget" in [w["kind"] for w in document["warnings"]]


def test_slow_operations_that_end_after_the_load_are_no_fall(cli: Cli, tmp_path: Path) -> None:
    """One read in thirty takes 0.8 s: those under way when the time is up are answered alone."""
    server = tmp_path / "server.toml"
    server.write_text(
        "latency_ns = 1_500_000\nlink_bytes_per_s = 1_200_000_000\n"
        '[[faults]]\nop = "read"\nkind = "stall"\nprobability = 0.035\nduration_ns = 800_000_000\n'
    )
    words = ("sustained", f"sim:{server}", "--size", "1g", "--duration", "20s", "--depth", "64", "--json")
    document = cli(*words).ok().json()
    (found,) = [each for each in document["sustained"]["regimes"] if each["kind"] == "read"]
    assert found["burst_bytes_per_s"] is None and found["changes"] == [] and found["steady"]["is_steady"]
    cell = document["cells"][-1]
    assert (cell["stop_reason"], cell["limit_ns"]) == ("duration", 20_000_000_000)
    assert cell["window_ns"] > cell["limit_ns"] + 500_000_000
    (worker,) = cell["workers_detail"]
    assert worker["kinds"]["read"]["iops_stddev"] < 0.05 * cell["iops"]
    assert [each for each in document["cells"] if each["regime"] == "burst"] == []


def test_burst_and_floor_in_a_plain_run(cli: Cli) -> None:
    words = ("--write", 100, "--duration", "60s", "--depth", 4, "--price-per-month", 640)
    document = measured(cli, bucket_server(), *words)
    part = document["sustained"]
    (regime,) = part["regimes"]
    assert regime["kind"] == "write" and regime["steady"]["word"] == "slowdown" and regime["steady"]["snia_steady"]
    assert regime["burst_bytes_per_s"] == pytest.approx(260 * MB, rel=0.02)
    assert len(regime["segments"]) == len(regime["changes"]) + 1 == 2
    assert regime["best_second_bytes_per_s"] == pytest.approx(260 * MB, rel=0.02)
    assert regime["baseline_bytes_per_s"] == pytest.approx(32 * MB, rel=0.02)
    assert regime["dropped_ns"] == pytest.approx(4000 / 228 * 1e9, rel=0.02)
    assert part["cost"]["sustained"]["per_mb_per_s_month"] == pytest.approx(640 / 32, rel=0.02)
    assert part["cost"]["burst"]["per_mb_per_s_month"] == pytest.approx(640 / 260, rel=0.02)
    (cell,) = loads(document)
    assert cell["flush_ns"] is not None and cell["durability"] == "end" and cell["interval_ns"] == 100_000_000
    text = " ".join(document["summary"])
    assert "then 32.0 MB/s" in text and "SNIA's criterion: steady" in text and "Cost at 640 a month" in text


def test_mixed_random_load_is_told_by_kind(cli: Cli) -> None:
    words = ("--write", 30, "--random", "--size", "64m", "--block", "4k", "--depth", 8, "--duration", "5s")
    document = measured(cli, SIM, *words)
    regimes = {found["kind"]: found for found in document["sustained"]["regimes"]}
    assert set(regimes) == {"all", "read", "write"}
    (cell,) = loads(document)
    writes = cell["kinds"]["write"]["ops"] / cell["ops"]
    assert writes == pytest.approx(0.3, abs=0.02) and document["cells"][0]["workload"] == "fill"
    percentiles = regimes["all"]["percentiles_ns"]
    assert percentiles["p50"] <= percentiles["p99"] <= percentiles["p99_99"]
    assert percentiles["p99_9999999"] is None, "nine nines need 10^9 operations"


def test_rate_bytes_bursts_and_repeats(cli: Cli) -> None:
    document = measured(cli, SIM, "--size", "64m", "--duration", "5s", "--rate", "20MB/s", "--depth", 4)
    assert loads(document)[0]["throughput_bytes_per_s"] == pytest.approx(20 * MB, rel=0.03)
    document = measured(cli, SIM, "--size", "64m", "--bytes", "100m", "--repeat", 2)
    assert [(cell["bytes"], cell["block"]) for cell in loads(document)] == [(100 << 20, 0), (100 << 20, 1)]
    words = ("--size", "64m", "--duration", "5s", "--block", "4k", "--burst-ops", 10, "--burst-gap", "100ms")
    (cell,) = loads(measured(cli, SIM, *words))
    assert 45 * 10 <= cell["ops"] <= 51 * 10, "ten operations in a little more than a tenth of a second"


def test_cached_rate_and_what_cannot_be_told(cli: Cli) -> None:
    server = "server_cache_bytes=256m&disk_read_bytes_per_s=50MB&link_bytes_per_s=120MB&latency_ns=100us"
    document = measured(cli, f"sim:?{server}", "--duration", "5s", "--depth", 4, command="cache speed")
    cached = document["sustained"]["cached"]
    assert cached["separable"] and cached["file_bytes"] == 64 << 20
    assert cached["network_only_bytes_per_s"] == pytest.approx(120 * MB, rel=0.03)
    assert cached["cold_bytes_per_s"] == pytest.approx(50 * MB, rel=0.05)
    assert [step["evicted_bytes"] for step in cached["steps"]] == [1 << 30], "one step was enough"
    document = measured(cli, SIM, "--duration", "5s", "--size", "8m", "--evict-size", "64m", command="cache speed")
    assert document["sustained"]["cached"]["network_only_bytes_per_s"] is None
    assert "not separable" in document["summary"][0] and "--evict-size" in document["summary"][0]


@pytest.mark.parametrize("memory_bytes", [64 << 20, 300 << 20])
def test_the_largest_working_set_in_memory(memory_bytes: int, cli: Cli) -> None:
    server = f"sim:?server_cache_bytes={memory_bytes}&disk_read_bytes_per_s=50MB&link_bytes_per_s=120MB&latency_ns=1us"
    document = measured(cli, server, "--size", "1g", "--depth", 4, command="cache size")
    found = document["sustained"]["working_set"]
    low, high = found["interval_bytes"]
    assert (
        found["knee_bytes"] == pytest.approx(memory_bytes, rel=0.08) and low < found["knee_bytes"] < high <= 1.06 * low
    )
    assert found["memory_bytes_per_s"] == pytest.approx(120 * MB, rel=0.03)
    assert found["beyond_bytes_per_s"] == pytest.approx(50 * MB, rel=0.03)
    assert [step["from_memory"] for step in found["steps"]] == [step["bytes"] <= low for step in found["steps"]]
    assert document["summary"][0].startswith("Working sets up to")


def test_a_working_set_that_is_not_found(cli: Cli) -> None:
    server = "sim:?server_cache_bytes=2g&disk_read_bytes_per_s=50MB&link_bytes_per_s=120MB&latency_ns=1us"
    document = measured(cli, server, "--size", "512m", "--depth", 4, command="cache size")
    found = document["sustained"]["working_set"]
    assert found["knee_bytes"] is None and "--size" in found["reason"] and "not detected" in document["summary"][0]
    server = server.replace("2g", "100m")
    found = measured(cli, server, "--size", "512m", "--budget", "1s", command="cache size")["sustained"]["working_set"]
    assert len(found["steps"]) == 2, "what the bracket needs is measured whatever the budget"
    assert found["interval_bytes"] == [step["bytes"] for step in found["steps"]]


@pytest.mark.lab
def test_more_is_written_until_the_cache_is_full(cli: Cli) -> None:
    """6 GB of memory: 1, 2 and 4 GiB leave the files in it, 8 GiB push them out; what bounds it is named."""
    server = "sim:?server_cache_bytes=6g&disk_read_bytes_per_s=50MB&link_bytes_per_s=120MB&latency_ns=100us"
    words = ("--duration", "1s", "--depth", 4)
    document = measured(cli, server, *words, command="cache speed")
    cached = document["sustained"]["cached"]
    assert cached["separable"] and cached["evicted_bytes"] == 8 << 30
    assert [step["contrast"] > 2 for step in cached["steps"]] == [False, False, False, True]
    assert document["cells"][-1]["workload"] == "again" and document["status"] == "complete"
    for bound in (("--evict-size", "3g"), ("--max-bytes", "8g"), ("--budget", "20s")):
        cached = measured(cli, server, *words, *bound, command="cache speed")["sustained"]["cached"]
        assert not cached["separable"] and cached["evicted_bytes"] < 6 << 30 and bound[0] in cached["reason"]


@pytest.mark.parametrize(
    ("words", "mode", "cell"),
    [
        ("--write 100", "cached", {"direct": False, "sync": "none", "access": "positioned"}),
        ("--write 100 --cache cached", "cached", {"direct": False, "sync": "none"}),
        ("--write 100 --cache write-through", "write-through", {"sync": "all", "durability": "each"}),
        ("--write 100 --cache mmap", "mmap", {"access": "mmap", "sync": "none"}),
        ("--random --cache mmap --verify --workers 2", "mmap", {"access": "mmap"}),
        ("--write 50 --random --cache mmap --durability each", "mmap+write-through", {"sync": "all"}),
    ],
)
def test_cache_modes_on_a_folder(words: str, mode: str, cell: dict[str, Any], cli: Cli) -> None:
    before = populate(cli.target)
    document = measured(cli, cli.target, "--size", "1m", "--block", "16k", "--bytes", "2m", *words.split())
    (load,) = loads(document)
    assert {name: load[name] for name in cell} == cell and load["bytes"] >= 2 << 20 and not load["errors"]
    cache = document["sustained"]["cache"]
    assert cache == {"mode": mode, "asked": "--cache" in words, "notes": []}
    assert ("Cache mode" in " ".join(document["summary"])) is cache["asked"]
    assert snapshot(cli.target) == before


def test_cache_modes_on_a_simulated_server(cli: Cli) -> None:
    words = ("--write", 100, "--size", "1m", "--bytes", "2m")
    document = measured(cli, SIM, *words, "--cache", "none+write-through")
    assert document["sustained"]["cache"]["mode"] == "none+write-through"
    assert loads(document)[0]["direct"] and loads(document)[0]["sync"] == "all"
    document = measured(cli, SIM, *words, "--cache", "remote")
    assert any("the server's is used" in found["message"] for found in document["warnings"])
    own = f"{SIM}&client_cache_bytes=64m&client_cache_bytes_per_s=1g"
    assert measured(cli, own, *words, "--cache", "cached")["sustained"]["cache"]["mode"] == "cached"


@pytest.mark.parametrize("depth", [1, 4])
def test_on_a_folder(depth: int, cli: Cli) -> None:
    before = populate(cli.target)
    words = ("--size", "4m", "--block", "64k", "--bytes", "16m", "--depth", depth, "--verify")
    document = measured(cli, cli.target, *words)
    (cell,) = loads(document)
    assert cell["bytes"] == 16 << 20 and cell["verified"]["bad"] == 0 and cell["verified"]["blocks"] > 0
    words = ("--size", "4m", "--block", "64k", "--workers", 2, "--interlocked", "--duration", "1s", "--depth", depth)
    document = measured(cli, cli.target, *words)
    assert len(loads(document)[0]["workers_detail"]) == 2
    assert snapshot(cli.target) == before


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("--bytes 1g --duration 5s", "--bytes"),
        ("--align 4k", "--align"),
        ("--distribution zipf:0.9", "--distribution"),
        ("--random --distribution cold", "--distribution"),
        ("--random --distribution hot:0/10", "--distribution"),
        ("--random --distribution zipf:1", "--distribution"),
        ("--random --stride 4k", "--stride"),
        ("--random --interlocked --workers 2", "--interlocked"),
        ("--interlocked", "--interlocked"),
        ("--burst-ops 10", "--burst-gap"),
        ("--burst-ops 10 --burst-gap 1ms --rate 5iops", "--rate"),
        ("--rate 5", "--rate"),
        ("--rate 0iops", "--rate"),
        ("--bytes 1g --cooldown 1s", "--cooldown"),
        ("--random --align 512 --verify", "--verify"),
        ("--write 50 --verify --depth 2", "--verify"),
        ("--verify --dedupe 2", "--verify"),
        ("--durability each", "--durability"),
        ("--durability maybe", "--durability"),
        ("--size 1000001", "--size"),
        ("--size 1k --block 4k", "--block"),
        ("--find-burst --cached", "--cached"),
        ("--find-burst --duration 5s", "--duration"),
        ("--find-burst --find-cache", "--find-cache"),
        ("--find-cache --write 5", "--write"),
        ("--find-cache --duration 5s", "--duration"),
        ("--find-cache --max-bytes 5g", "--max-bytes"),
        ("--find-cache --workers 2", "--workers"),
        ("--find-cache --size 32m", "--size"),
        ("--find-burst --repeat 2", "--repeat"),
        ("--find-burst --write 100 --durability none", "--durability"),
        ("--find-burst --rate 5iops", "--rate"),
        ("--write 100 --rest 5s", "--rest"),
        ("--cached --write 5", "--cached"),
        ("--budget 5m", "--budget"),
        ("--cache warm", "--cache"),
        ("--cache cached", "--cache cached"),
        ("--cache mmap", "--cache mmap"),
        ("--cache write-through", "--cache write-through"),
        ("--write 5 --cache cached --direct", "--direct"),
        ("--write 5 --cache write-through --direct", "none+write-through"),
        ("--write 5 --cache write-through --durability none", "--durability"),
        ("--cached --cache none", "--cache"),
        ("--cached --repeat 2", "--repeat"),
        ("--cached --rate 5iops", "--rate"),
        ("--cached --evict-size 64m", "--evict-size"),
        ("--cached --max-bytes 1g", "--max-bytes"),
        ("--evict-size 64m", "--evict-size"),
        ("--price-per-gb 5", "--stored"),
        ("--max-bytes 5m", "--max-bytes"),
        ("--duration soon", "--duration"),
    ],
)
def test_contradictions_are_refused(words: str, names: str, cli: Cli) -> None:
    done = cli("sustained", SIM, *words.split()).sound()
    assert done.code == 2 and done.out == "", done
    assert names in done.err and done.err.startswith("naslab: ") and done.err.count("\n") == 1
    assert cli.runs() == []


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("burst SIM --write 100 --durability none", "--durability"),
        ("burst SIM --duration 5s", "--duration"),
        ("burst SIM --repeat 2", "--repeat"),
        ("cache speed SIM --cache none", "--cache none"),
        ("cache speed SIM --evict-size 64m", "--evict-size"),
        ("cache speed SIM --direct", "--direct"),
        ("cache size SIM --size 32m", "--size 32 MiB"),
        ("cache size SIM --write 5", "--write"),
        ("cache sizes SIM", "sizes"),
    ],
)
def test_commands_of_bursts_and_caches_refuse_what_they_cannot(words: str, names: str, cli: Cli) -> None:
    done = cli(*(SIM if word == "SIM" else word for word in words.split())).sound()
    assert done.code == 2 and done.out == "" and names in done.err, done
    assert cli.runs() == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("--find-burst --write 100 --budget 10s", "burst"),
        ("--cached --duration 1s --size 8m --evict-size 64m", "cache speed"),
        ("--find-cache --size 64m --budget 1s", "cache size"),
    ],
)
def test_an_old_mode_is_the_new_command(old: str, new: str, cli: Cli) -> None:
    """For one release, with a hint."""
    done = cli("sustained", SIM, *old.split(), "--json").ok()
    assert done.json()["command"] == new and f"use naslab {new}" in done.err
    assert "--find" not in cli("sustained", "--help").ok().out and "--cached" not in cli("sustained", "--help").ok().out


@pytest.mark.lab
@pytest.mark.parametrize("name", ["samba", "demo"])
def test_cache_modes_on_a_server(name: str, cli: Cli) -> None:
    """Modes that mean something there are used and said; the others are refused by name."""
    missing = systems.missing_packages(systems.system(name))
    need(not missing, f"{name}: {' '.join(missing)}")
    with lab.running(name) as server:
        cli.env["NASLAB_PASSWORD"] = server.password
        words = ("--write", 100, "--size", "4m", "--block", "64k", "--bytes", "4m")
        modes = {"none": "none" if name == "samba" else "remote", "remote": "remote",
                 "write-through": "remote+write-through", "": "remote"}  # fmt: skip
        for asked, mode in modes.items():
            document = measured(cli, server.url, *words, *(("--cache", asked) if asked else ()))
            (load,) = loads(document)
            assert document["sustained"]["cache"]["mode"] == mode, asked
            assert load["direct"] is (mode == "none") and load["sync"] == ("all" if "through" in mode else "none")
            told = [found["message"] for found in document["warnings"] if found["kind"] == "cache"]
            assert bool(told) is (asked in ("remote", "write-through") or (asked == "none" and mode == "remote")), told
        for asked, why in (("cached", "no client cache to enable"), ("mmap", "cannot be mapped")):
            done = cli("sustained", server.url, "--cache", asked).sound()
            assert done.code == 2 and f"--cache {asked}: " in done.err and why in done.err
        words = ("--size", "4m", "--duration", "1s", "--evict-size", "16m", "--depth", 4)
        cached = measured(cli, server.url, *words, command="cache speed")["sustained"]["cached"]
        assert [step["evicted_bytes"] for step in cached["steps"]] == [16 << 20]
        assert (cached["reason"] is None) is cached["separable"] is (cached["network_only_bytes_per_s"] is not None)


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("--cache mmap --depth 8", "--depth 8"),
        ("--cache remote", "lies on"),
        ("--cache none --block 1000 --size 1000000", "--block 1000"),
    ],
)
def test_cache_modes_that_a_folder_cannot_have(words: str, names: str, cli: Cli) -> None:
    done = cli("sustained", cli.target, *words.split()).sound()
    assert done.code == 2 and names in done.err and done.err.count("\n") == 1 and cli.runs() == []
    assert list(cli.target.iterdir()) == []


def test_find_burst_says_why_a_target_refuses(cli: Cli) -> None:
    done = cli("burst", "sim:?read_only=true", "--write", 100).sound()
    assert done.code == 2 and "read-only" in done.err.lower().replace("erofs", "read-only") and cli.runs() == []


def test_max_bytes_cuts_a_timed_load(cli: Cli) -> None:
    document = measured(cli, SIM, "--size", "16m", "--duration", "10s", "--max-bytes", "64m")
    assert sum(cell["bytes"] + cell["warmup_bytes"] for cell in document["cells"]) <= 64 << 20


def test_report_of_a_run(cli: Cli, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    words = ("--write", 100, "--duration", "60s", "--depth", 4, "--price-per-hour", 2, "-o", page)
    cli("sustained", bucket_server(), *words).ok()
    text = page.read_text(encoding="utf-8").replace("\u202f", " ").replace("\xa0", " ")
    assert "Sustained load on" in text and "then 32.0 MB/s" in text
    assert 'data-chart="regimes"' in text and "No change of rate" not in text
    assert "Cost at 2 an hour, 1,460 a month" in text and "p99.9" in text
