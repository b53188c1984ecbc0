"""The price list of signing and encryption: figures from hand-made cells, the plan, the words, the targets refused."""

from __future__ import annotations

import re
from typing import Any

import pytest

from naslab.cli import security as command
from naslab.cli.common import Common
from naslab.commands.plans import security as plans
from naslab.comparison import security as prices
from naslab.comparison import security_words as words
from naslab.errors import TargetError, UsageError
from naslab.render.report import security as page
from naslab.render.terminal.show import render
from naslab.results.describe import typed
from naslab.results.parts.security import Security
from naslab.targets import parse_target

NOISE = (1.0, 1.01, 0.99, 1.005, 0.995, 1.0)
GCM, GCM256, GMAC = "encrypted AES-128-GCM", "encrypted AES-256-GCM", "signed AES-GMAC"


def cells(factor: float = 1.0, cpu: float = 1.0, rounds: int = 6, **more: Any) -> list[dict[str, Any]]:
    """Cells of every load: `factor` of 100 MB/s, `cpu` times 0.2 s of processor time for each GiB."""
    return [
        {
            "id": at * 10 + block, "workload": plans.WORKLOAD, "op": op, "record_bytes": record, "queue_depth": depth,
            "block": block, "status": "complete", "errors": 0, "bytes": prices.GIB, "warmup_bytes": 0,
            "throughput_bytes_per_s": 100e6 * factor * noise, "latency_ns": {"mean": depth * record * 10 / factor},
            "cpu_user_ns": 150e6 * cpu, "cpu_system_ns": 50e6 * cpu, **more,
        }
        for at, (op, record, depth) in enumerate(plans.LOADS)
        for block, noise in enumerate(NOISE[:rounds])
    ]  # fmt: skip


def listed(measured: dict[str, list[dict[str, Any]]], refused: str = "", ended: str = "repeats") -> dict[str, Any]:
    """The part of a run document: combinations by name, the baseline first."""
    loads, contrasts = prices.price_list(measured)
    session = dict.fromkeys(("run_id", "dialect", "signing", "encryption"))
    rows = [
        {**session, "name": name, "state": "measured", "reason": None, "loads": each} for name, each in loads.items()
    ]
    if refused:
        rows.append(
            {**session, "name": refused, "state": "refused", "reason": "the server does not know it", "loads": []}
        )
    return {"baseline": next(iter(measured)), "ended": ended, "combinations": rows, "contrasts": contrasts}


def test_half_the_rate_and_three_times_the_processor_time() -> None:
    part = listed({"plain": cells(), GCM: cells(0.5, 3.0)})
    plain, sealed = part["combinations"]
    for load in sealed["loads"]:
        assert load["n"] == 6 and load["throughput"]["value"] == pytest.approx(50e6)
        assert load["throughput"]["ratio"] == pytest.approx(0.5) and load["throughput"]["verdict"] == "worse"
        low, high = load["throughput"]["ratio_ci95"]
        assert low < 0.5 < high and high - low < 0.02
        assert load["latency"]["ratio"] == pytest.approx(2) and load["latency"]["verdict"] == "worse"
        assert load["cpu"]["value"] == pytest.approx(600e6) and load["cpu"]["ratio"] == pytest.approx(3)
    assert all(load[name]["ratio"] is None for load in plain["loads"] for name in prices.FIGURES)
    low, high = plain["loads"][0]["throughput"]["ci95"]
    assert low < 100e6 < high
    (said,) = words.sentences(typed(part, Security))
    assert re.fullmatch(
        r"Encryption \(AES-128-GCM\) costs 50 % of the read rate \(50 to 50 %\) and 0\.4 CPU s/GiB more\.", said
    )


def test_a_choice_between_two_ciphers_and_between_signing_and_encryption() -> None:
    part = listed({"plain": cells(), GMAC: cells(0.75, 1.5), GCM: cells(0.5, 3.0), GCM256: cells(0.4, 3.5)})
    told = words.sentences(typed(part, Security))
    assert [each.partition(" costs ")[0] for each in told] == [
        "Encryption (AES-128-GCM)", "Signing (AES-GMAC)", "AES-256-GCM instead of AES-128-GCM",
        "Encryption (AES-128-GCM) instead of signing (AES-GMAC)",
    ]  # fmt: skip
    assert "costs 20 % of the read rate" in told[2] and "0.1 CPU s/GiB more" in told[2], "0.4 of 0.5; 0.7 to 0.6 s"
    assert "costs 33 % of the read rate" in told[3] and "0.3 CPU s/GiB more" in told[3], "0.5 of 0.75; 0.6 to 0.3 s"


def test_the_flavours_of_nfs() -> None:
    part = listed({
        "plain (sec=sys)": cells(), "authenticated krb5": cells(0.9), "signed krb5i": cells(0.5, 2.0),
        "encrypted krb5p": cells(0.25, 4.0),
    })  # fmt: skip
    told = words.sentences(typed(part, Security))
    assert [each.partition(" costs ")[0] for each in told] == [
        "Encryption (krb5p)", "Signing (krb5i)", "Authentication (krb5)",
        "Encryption (krb5p) instead of signing (krb5i)",
    ]  # fmt: skip
    assert "costs 10 % of the read rate" in told[2]
    sealed = words.sentences(typed(listed({"encrypted krb5p": cells()}), Security))
    assert sealed == ["Only encrypted krb5p can be measured: there is nothing to compare it with."]
    strict = words.sentences(typed(listed({"signed krb5i": cells(), "encrypted krb5p": cells(0.5)}), Security))
    assert strict[0] == "The server refuses unprotected sessions: the prices are against signed krb5i."
    assert strict[1].startswith("Encryption (krb5p) costs 50 %") and len(strict) == 2


@pytest.mark.parametrize(
    ("factor", "cpu", "said"),
    [
        (1.0, 1.0, "makes no measurable difference to the read rate (-0.1 to +0.1 %)."),
        (1.0, 2.0, "makes no measurable difference to the read rate (-0.1 to +0.1 %), and takes 0.2 CPU s/GiB more."),
        (1.2, 0.5, "raises the read rate by 20 % (20 to 20 %), and takes 0.1 CPU s/GiB less."),
        (0.96, 0.5, "costs 4.0 % of the read rate (3.9 to 4.1 %), and takes 0.1 CPU s/GiB less."),
        (0.96, 1.0, "costs 4.0 % of the read rate (3.9 to 4.1 %)."),
    ],
)
def test_what_costs_nothing_what_gains_and_what_takes_less(factor: float, cpu: float, said: str) -> None:
    part = listed({"plain": cells(), GMAC: cells(factor, cpu)})
    assert words.sentences(typed(part, Security)) == [f"Signing (AES-GMAC) {said}"]


@pytest.mark.parametrize(("ended", "next_step"), [("repeats", "use --repeat 6 or more"), ("budget", "raise --budget")])
@pytest.mark.parametrize("rounds", [1, 2])
def test_fewer_than_three_rounds_have_no_interval(rounds: int, ended: str, next_step: str) -> None:
    part = listed({"plain": cells(rounds=rounds), GMAC: cells(0.5, rounds=rounds)}, ended=ended)
    figure = part["combinations"][1]["loads"][0]["throughput"]
    assert figure["ci95"] is figure["ratio_ci95"] is figure["verdict"] is None
    assert figure["ratio"] == pytest.approx(0.5)
    price, few = words.sentences(typed(part, Security))
    counted = "1 round" if rounds == 1 else "2 rounds"
    assert price == f"Signing (AES-GMAC) changes the read rate by -50 % ({counted}, no interval)."
    assert few == f"{counted}: too few for intervals; {next_step}."
    assert re.search(r"^signed AES-GMAC +50\S* +-50 +0\.200 +1\.00$", printed(part), re.MULTILINE)
    three = listed({"plain": cells(rounds=3), GMAC: cells(0.5, rounds=3)})
    assert (
        three["combinations"][1]["loads"][0]["throughput"]["ratio_ci95"]
        and len(words.sentences(typed(three, Security))) == 1
    )


def printed(part: dict[str, Any], width: int = 80) -> str:
    return render(words.tables(typed(part, Security)), width, False)


def test_the_table_fits_80_columns_and_names_what_was_refused() -> None:
    part = listed({"plain": cells(9.1, 31.0), GCM: cells(4.5, 400.0), GMAC: cells(8.3, 31.5)}, "encrypted AES-256-CCM")
    text = printed(part)
    assert max(map(len, text.splitlines())) <= 80 and "Not shown" not in text
    assert text.count(f"{GCM} ") == 3, "a line of each load, none folded"
    for row in (
        r"plain +910 +- +6\.20 +-$",
        r"encrypted AES-128-GCM +450 +-51 \(-51 to -50\) +80 +12\.9 \(12\.9-12\.9\)$",
    ):
        assert re.search(row, text, re.MULTILINE), text
    assert "Small reads (random read 4 KiB, depth 1), medians of 6 rounds" in text
    assert re.search(r"encrypted AES-256-CCM +the server does not know it", text)


def test_failed_cells_and_other_cells_are_left_out() -> None:
    assert prices.priced([cells(errors=1), cells()]) == [[], []]
    assert prices.priced([cells(workload="probe")]) == [[]]
    assert prices.priced([]) == []
    coarse = prices.priced([cells(), cells(cpu=0.0)])
    assert coarse[1][0]["cpu"]["value"] is None and coarse[1][0]["cpu"]["ratio"] is None
    none = listed({"plain": cells(errors=1), GCM: cells(errors=1)})
    assert words.sentences(typed(none, Security)) == [] and words.tables(typed(none, Security)) == []


def test_a_server_without_plain_sessions() -> None:
    part = listed({GMAC: cells(), GCM: cells(0.5), GCM256: cells(0.4)}, refused="plain")
    told = words.sentences(typed(part, Security))
    assert told[0] == "The server refuses unprotected sessions: the prices are against signed AES-GMAC."
    assert told[1].startswith("Encryption (AES-128-GCM) costs 50 % of the read rate")
    assert told[2].startswith("AES-256-GCM instead of AES-128-GCM costs 20 %")
    assert told[3:] == ["1 of 4 combinations are refused: plain."]


def test_a_server_that_requires_encryption() -> None:
    told = words.sentences(typed(listed({GCM: cells(), GCM256: cells(0.5)}), Security))
    assert told[0] == "The server refuses unprotected sessions: the prices are against encrypted AES-128-GCM."
    assert len(told) == 2 and told[1].startswith("AES-256-GCM instead of AES-128-GCM costs 50 %")
    alone = words.sentences(typed(listed({GCM256: cells()}), Security))
    assert alone == ["Only encrypted AES-256-GCM can be measured: there is nothing to compare it with."]


def test_every_combination_is_one_that_its_target_takes() -> None:
    """A row of the table: options that the target has, one unprotected combination first, names of their own."""
    every = [row.name for row in plans.COMBINATIONS]
    assert all(name in every for pair in plans.CONTRASTS for name in pair)
    for protocol, url in (("smb", "smb://me@host/share"), ("nfs", "nfs://host/export")):
        rows = plans.combinations(protocol)
        unspoken = [name for kind, name, _ in plans.NOT_SPOKEN if kind == protocol]
        names = [row.name for row in rows] + unspoken
        assert (
            rows[0].name.startswith("plain") and len(set(names)) == len(names) and len(unspoken) == (protocol == "smb")
        )
        known = parse_target(url).options
        assert all(row.options.keys() <= known.keys() for row in rows)
        assert plans.pinned(protocol, known) == []


def test_tls_is_tried_as_the_name_says_and_all_else_without_it() -> None:
    """A file of authorities belongs to TLS alone: with it in the clear a target would be refused."""
    given = parse_target("nfs://host/export?xprtsec=tls&tlsverify=off").options
    assert plans.pinned("nfs", given) == [] and plans.pinned("nfs", {**given, "sec": "krb5"}) == ["sec"]
    rows = {row.name: {**given, **plans.tried(row, given)} for row in plans.combinations("nfs")}
    assert [name for name, options in rows.items() if options["xprtsec"]] == ["encrypted TLS"]
    assert rows["encrypted TLS"]["tls_verify"] is False and rows["plain (sec=sys)"]["tls_verify"] is True
    assert plans.tried(plans.combinations("nfs")[1], {**given, "xprtsec": "mtls"})["xprtsec"] == "mtls"
    assert plans.usual("nfs", given)["xprtsec"] is None
    assert plans.usual("smb", {}) == {} and plans.usual("nfs", parse_target("nfs://host/export").options) == {}


def test_the_plan_keeps_the_budget_the_bytes_and_the_room() -> None:
    plan = plans.Plan.of(6, 8, 120_000_000_000, None)
    assert plan.blocks == 6 and plan.duration_ns == plans.MAX_CELL_NS and plan.stop_bytes is None
    short = plans.Plan.of(10, 8, 10_000_000_000, 4 << 30)
    assert short.blocks == 10 and short.duration_ns == plans.MIN_CELL_NS
    size = plans.file_bytes(1 << 40, 8, short)
    assert short.stop_bytes and 8 * (10 * len(plans.LOADS) * short.stop_bytes + size) <= 4 << 30
    assert plans.file_bytes(1 << 40, 8, plan) == plans.MAX_FILE_BYTES
    assert plans.file_bytes(256 << 20, 8, plan) == 8 << 20 and plans.file_bytes(0, 8, plan) == 1 << 20
    for cell in [plans.written(8 << 20, 0), *plans.timed(plan, 8 << 20, 0)]:
        cell.validate()
    with pytest.raises(UsageError, match=r"--max-bytes: 10 rounds need at least 1984m; raise it, or lower --repeat"):
        plans.Plan.of(10, 8, 10_000_000_000, 1 << 30)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("sim:", "a simulated target has no signing and no encryption; name a server: smb://HOST/SHARE"),
        ("null:", "a simulated target has no signing"),
        ("/tmp", "a folder or device of this machine has no signing"),
        ("smb://me:p@127.0.0.1/x?sign=on", "all values of sign are tried; leave the option out"),
        ("smb://me:p@127.0.0.1/x?encrypt=aes256gcm", "all values of encrypt are tried"),
        ("smb://me:p@127.0.0.1/x?signing=aes-gmac", "all values of signing are tried"),
        ("nfs://127.0.0.1/x?sec=krb5p", "all values of sec are tried; leave the option out"),
        ("nfs://127.0.0.1/x?sec=sys", "all values of sec are tried"),
    ],
)
def test_targets_that_are_refused_by_name(target: str, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)) as refused:
        command.run_security(target, 1, common())
    assert target.partition("me:p")[0] in str(refused.value)


def test_a_server_that_is_not_there_says_why_once() -> None:
    with pytest.raises(TargetError, match=r"nothing answers at port 1 of 127\.0\.0\.1") as refused:
        command.run_security("smb://me:p@127.0.0.1:1/x", 1, common())
    assert "plain" not in str(refused.value), "no combination was tried"


def common() -> Common:
    return Common("security", None, False, True, 0, {}, "", "2s", None)


def test_another_answer_than_what_was_asked_for_is_no_measurement() -> None:
    row = plans.combinations("smb")[4]
    assert command._differs(row, {"encryption": "aes-128-ccm"}) == ""
    for facts in ({"encryption": "none"}, {}):
        assert "encryption none instead of aes-128-ccm" in command._differs(row, facts)


def test_bars_have_their_intervals() -> None:
    part = listed({"plain": cells(), GCM: cells(0.5)})
    shown = [(row.name, row.loads[0].throughput) for row in typed(part, Security).combinations]
    (trace,) = page.bars(shown, "Throughput (MB/s)", "MB/s", 1e6)["data"]
    assert trace["x"] == [100, 50] and trace["y"] == ["plain", GCM]
    assert all(up > 0 for up in trace["error_x"]["array"]) and all(down > 0 for down in trace["error_x"]["arrayminus"])
    assert trace["customdata"][0][2] == "the baseline" and trace["customdata"][1][2] == "0.500 of the baseline"
