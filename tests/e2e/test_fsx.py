"""`naslab fsx`: the published model, and runs beside it."""

from __future__ import annotations

import json

import pytest

from cli_tools import SIM, Cli

ARTICLE = ("reference", "fsx", "--tier", "32", "--storage", "hdd", "--tib", "5")


@pytest.mark.lab
def test_the_articles_system(cli: Cli) -> None:
    text = cli(*ARTICLE, "--year", "2020").ok().out
    for part in ("32 MB/s, burst 600 MB/s", "32 MB/s, burst 260 MB/s", "60 MB/s, burst 400 MB/s", "2 GiB", "5 TiB"):
        assert part in text
    found = cli(*ARTICLE, "--json").ok().json()
    assert found["measured"] is None and found["model"]["bucket"]["size_bytes"] == 5 << 40
    # 1 TiB drained at 80 - 12 MiB/s for each TiB, filled at 12 MiB/s.
    assert found["model"]["bucket"]["empty_ns"] / 1e9 == pytest.approx((1 << 20) / 68, rel=1e-3)
    assert found["model"]["bucket"]["refill_ns"] / 1e9 == pytest.approx((1 << 20) / 12, rel=1e-6)
    assert "empty after" in text and "full again after" in text
    ssd = cli("reference", "fsx", "--tier", "512", "--storage", "ssd", "--tib", "1").ok().out
    assert "Burst credit" not in ssd and "512 MB/s\n" in ssd and "20,000 IOPS" not in ssd and "3,000 IOPS" in ssd


def test_a_run_beside_it(cli: Cli) -> None:
    document = cli.sweep(SIM)
    best = max(cell["throughput_bytes_per_s"] for cell in document["cells"])
    measured = cli(*ARTICLE, "--run", "last", "--json").ok().json()["measured"]
    assert measured["run_id"] == document["run_id"] and measured["highest_bytes_per_s"] == best
    assert measured["baseline_bytes_per_s"] is None
    assert "naslab burst" in cli(*ARTICLE, "--run", "last").ok().out


def test_a_sustained_run_beside_it(cli: Cli) -> None:
    words = ("--size", "8m", "--write", "100", "--duration", "20s", "--json")
    cli("sustained", "sim:?link_bytes_per_s=16MB", *words).ok()
    measured = cli(*ARTICLE, "--run", "last", "--json").ok().json()["measured"]
    assert measured["baseline_bytes_per_s"] == pytest.approx(16e6, rel=0.02)
    assert "50 % of the published 32 MB/s" in cli(*ARTICLE, "--run", "last").ok().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--tier", "33"), "--tier 33"), (("--storage", "tape"), "--storage tape"), (("--tib", "0.1"), "--tib 0.1"),
        (("--tib", "nan"), "--tib nan"), (("--year", "2021"), "--year 2021"), (("--run", "nosuch"), "nosuch"),
        (("--tier", "8", "--year", "2022"), "--tier 8"),
    ],
)  # fmt: skip
def test_what_the_guide_does_not_have(words: tuple[str, ...], says: str, cli: Cli) -> None:
    done = cli(*ARTICLE, *words).sound()
    assert done.code == 2 and says in done.err and done.out == "" and done.err.count("\n") == 1


def test_the_smallest_file_system_for_a_runs_load(cli: Cli) -> None:
    """Half a minute of 50 MB/s, written: every tier bursts for so long; the lowest of the guide is taken."""
    words = ("--size", "64m", "--write", "100", "--duration", "30s", "--json")
    run = cli("sustained", "sim:?disk_write_bytes_per_s=50MB&disk_read_bytes_per_s=50MB", *words).ok().json()
    done = cli("reference", "fsx", "--run", "last").ok()
    assert "Smallest that carries it: 32 MB/s, 2 TiB of HDD\n" in done.out and "This is what the run got" in done.out
    found = cli("reference", "fsx", "--run", "last", "--year", "2020", "--json").ok().json()
    assert (found["chosen"]["tier_mb_per_s"], found["chosen"]["storage"]) == (8, "hdd")
    moved = sum(cell["kinds"]["write"]["bytes"] for cell in run["cells"] if cell["kinds"].get("write"))
    assert found["load"]["written_bytes"] == pytest.approx(moved, rel=0.1) and found["load"]["read_bytes"] == 0
    prices = ("--price-hdd-gib", "0.025", "--price-ssd-gib", "0.23", "--price-mb-s", "4.5")
    priced = cli("reference", "fsx", "--run", "last", *prices).ok().out
    assert "Smallest that carries it: 32 MB/s, 128 GiB of SSD, 173.44 a month\n" in priced
    assert "Next: 32 MB/s, 2 TiB of HDD, 195.20 a month\n" in priced
    one = cli("reference", "fsx", "--run", "last", "--storage", "hdd", "--tib", "5", *prices).ok().out
    assert "Smallest that carries it: 32 MB/s, 5 TiB of HDD, 272.00 a month\n" in one


def test_the_smallest_file_system_for_a_traces_load(cli: Cli) -> None:
    """A file of 1 GiB written in two seconds, read in the third and again in each of the next five."""
    lines = ['{"naslab_trace":1,"source":"naslab"}', '{"t":0,"s":0,"op":"open","f":"a","h":1,"x":"rw"}']
    page, second = 1 << 20, 10**9
    for op, at, last in (("write", 0, 2), ("read", 2, 8)):
        count = 1024 * (last - at) if op == "read" else 1024
        lines += [
            json.dumps({"t": at * second + n * (last - at) * second // count, "s": 0, "op": op, "h": 1,
                        "o": n % 1024 * page, "n": page}) for n in range(count)
        ]  # fmt: skip
    count = len(lines) - 1
    path = cli.folder / "load.trace"
    path.write_text("\n".join([*lines, json.dumps({"end": {"operations": count, "streams": 1}}), ""]))
    found = cli("reference", "fsx", "--trace", path, "--json").ok().json()
    assert found["load"] | {"operations": 0} == {
        "seconds": 8, "read_bytes": 6 << 30, "again_bytes": 6 << 30, "written_bytes": 1 << 30, "operations": 0,
        "set_bytes": 1 << 30, "stored_bytes": 1 << 30,
    }  # fmt: skip
    # Memory answers the reads, at 1.07 GB/s by the network, where tiers up to 64 MB/s have 600; the disks write 537.
    assert found["chosen"]["tier_mb_per_s"] == 128
    told = cli("reference", "fsx", "--trace", path).ok().out
    why = "at once the server's disk throughput allows 350 MB/s, and 537 MB/s are wanted"
    assert f"Not 64 MB/s with HDD of any size: {why}\n" in told


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "--tier is missing"), (("--tier", "32"), "--storage is missing"),
        (("--tier", "32", "--storage", "hdd"), "--tib is missing"), (("--run", "published:fsx-32"), "no times"),
        (("--run", "last", "--trace", "x"), "--trace x"), (("--trace", "/nope"), "/nope"),
        (("--run", "last", "--year", "2021"), "--year 2021"),
        (("--run", "last", "--storage", "tape"), "--storage tape"),
        (("--run", "last", "--tib", "70"), "--tib 70"), (("--run", "last", "--price-mb-s", "3"), "--price-hdd-gib"),
        (("--run", "last", "--price-mb-s", "-3", "--price-hdd-gib", "1", "--storage", "hdd"), "--price-mb-s -3"),
        (("--tier", "32", "--storage", "hdd", "--tib", "5", "--trace", "x"), "--trace x"),
    ],
)  # fmt: skip
def test_a_load_that_nobody_named(words: tuple[str, ...], says: str, cli: Cli) -> None:
    cli.sweep(SIM)
    done = cli("reference", "fsx", *words).sound()
    assert done.code == 2 and says in done.err and done.out == "" and done.err.count("\n") == 1


def test_the_article_beside_the_model(cli: Cli) -> None:
    measured = cli(*ARTICLE, "--run", "published:fsx-32", "--json").ok().json()["measured"]
    rates = [measured[f"{name}_bytes_per_s"] for name in ("network", "baseline", "burst")]
    assert rates == [625e6, 32e6, 287.5e6]
