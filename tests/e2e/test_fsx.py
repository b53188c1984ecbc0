"""`naslab fsx`: the published model, and runs beside it."""

from __future__ import annotations

import pytest

from cli_tools import SIM, Cli

ARTICLE = ("reference", "fsx", "--tier", "32", "--storage", "hdd", "--tib", "5")


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
    assert "naslab sustained --find-burst" in cli(*ARTICLE, "--run", "last").ok().out


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


def test_the_article_beside_the_model(cli: Cli) -> None:
    measured = cli(*ARTICLE, "--run", "published:fsx-32", "--json").ok().json()["measured"]
    rates = [measured[f"{name}_bytes_per_s"] for name in ("network", "baseline", "burst")]
    assert rates == [625e6, 32e6, 287.5e6]
