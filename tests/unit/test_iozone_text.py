"""Standard output: golden text from fixed cells, read back by a parser that knows only the format."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

import pytest

from iozone_fakes import FakeExecute, fake_cell, rate_of
from iozone_parser import parse as parse_output
from iozone_parser import parse_throughput, parse_throughput_report
from naslab.cli.iozone import Session
from naslab.commands.iozone.checks import parse
from naslab.commands.iozone.plan import make_plan
from naslab.commands.iozone.tables import value
from naslab.commands.iozone.text import TableWriter
from naslab.errors import InterruptedRunError, TargetError

GOLDEN = Path(__file__).resolve().parents[1] / "golden/iozone"

LINES = {
    "row": "-s 512 -r 64",
    "auto": "-Ra -n 48 -g 200 -y 12 -i 0 -i 1 -+u",
    "extensions": "-R -s 1m -r 64 -E -c -e",
    "cutoff": "-Ra -i 0 -n 16m -g 32m",
    "no_retest": "-s 64 -E -+n -R",
    "obsolete": "-A -g 64",
    "skipped": "-s 64 -i 0 -i 2 -i 4 -i 6 -i 9",
    "ops": "-s 64 -O -i 0 -R",
    "usec": "-s 64 -N -i 0 -R",
    "throughput": "-l 1 -u 3 -s 1m -r 16 -R -C -+u -E",
    "throughput_ops": "-t 2 -T -O -+n -R",
    "echoes": "-s 64 -i 0 -V 5 -J 2 -+J -o -+r -+D -W -w -j 5 -Q -+q 0 -c -e -x -S 256 -L 64 -+N -O",
}


def run(line: str, **stop: object) -> tuple[int, str]:
    out = io.StringIO()
    plan = make_plan(parse(line.split()))
    code = Session(plan, out).carry_out(FakeExecute(plan, **stop))  # type: ignore[arg-type]
    return code, out.getvalue()


def filtered(text: str) -> str:
    """Without the time and the version."""
    text = re.sub(r"(Run began: ).*", r"\1TIME", text)
    return re.sub(r"(Version: naslab )\S+", r"\1VERSION", text)


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", sorted(LINES))
def test_golden(name: str) -> None:
    code, text = run(LINES[name])
    assert code == 0
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("NASLAB_UPDATE_GOLDEN") == "1":
        path.write_text(filtered(text))
    assert filtered(text) == path.read_text()


@pytest.mark.parametrize(
    "name", ["row", "auto", "extensions", "cutoff", "no_retest", "obsolete", "skipped", "ops", "usec"]
)
def test_the_table_reads_back(name: str) -> None:
    args = parse(LINES[name].split())
    plan = make_plan(args)
    found = parse_output(run(LINES[name])[1])
    assert found.complete and found.command == "iozone " + LINES[name]
    shown = [row for row in plan.rows if not row.cut_off]
    assert [(row["kB"], row["reclen"]) for row in found.rows] == [(row.file_kib, row.record_kib) for row in shown]
    for spec in plan.cells:
        row = plan.rows[plan.where[spec.id][0]]
        printed = next(r for r in found.rows if (r["kB"], r["reclen"]) == (row.file_kib, row.record_kib))
        assert printed[spec.op] == value(fake_cell(spec, rate_of(spec)), args)
    measured = {spec.op for spec in plan.cells}
    for printed in found.rows:
        for op in set(printed) - {"kB", "reclen"} - measured:
            assert printed[op] == (0 if op in plan.ops else None), "skipped is blank, left out by -+n is 0"


def test_report_tables_are_ragged_and_cut_off_cells_are_zero() -> None:
    found = parse_output(run(LINES["cutoff"])[1])
    assert list(found.reports) == ["Writer report", "Re-writer report"]
    assert found.headers["Writer report"] == [4 << n for n in range(13)]
    assert found.reports["Writer report"][32768][:4] == [0, 0, 0, 0]
    assert all(found.reports["Writer report"][32768][4:])
    small = parse_output(run(LINES["auto"])[1])
    assert {size: len(values) for size, values in small.reports["Reader report"].items()} == {48: 3, 96: 4, 192: 5}


def test_cpu_tables_follow_and_are_per_cent_of_the_window() -> None:
    found = parse_output(run(LINES["auto"])[1])
    names = list(found.reports)
    assert names[:4] == ["Writer report", "Re-writer report", "Reader report", "Re-Reader report"]
    assert names[4] == "Writer CPU utilization report (Zero values should be ignored)"
    assert {value for rows in found.reports[names[4]].values() for value in rows} == {50.0}


def test_extensions_touch_but_do_not_shift() -> None:
    plan = make_plan(parse(["-s", "64", "-E", "-i", "9", "-i", "10", "-i", "0"]))
    out = io.StringIO()
    writer = TableWriter(plan, out)
    for spec in plan.cells:
        writer.cell(fake_cell(spec, 50e9))
    writer.end_row()
    row = parse_output("              kB  reclen    write\n" + out.getvalue()).rows[0]
    assert all(
        row[op] == 48828125 or abs(row[op] - 48828125) < 500_000 for op in ("write", "repwrite", "pread", "repread")
    )
    assert row["fread"] is None and row["freread"] is None


def test_rate_is_truncated_twice() -> None:
    plan = make_plan(parse(["-s", "64"]))
    cell = fake_cell(plan.cells[0], duration_ns=3_000_000)
    assert value(cell, plan.args) == (65536 * 10**9 // 3_000_000) >> 10
    assert value(cell, parse(["-O"])) == 16 * 10**9 // 3_000_000
    assert value(cell, parse(["-N"])) == 3_000_000 // 16_000


@pytest.mark.parametrize(
    ("error", "word", "ended"),
    [
        (KeyboardInterrupt(), "interrupted", 130),
        (InterruptedRunError("x"), "interrupted", 130),
        (TargetError("gone"), "failed", 1),
        (None, "interrupted", 130),
    ],
)
def test_what_was_measured_is_reported(
    error: BaseException | None, word: str, ended: int, tmp_path: Path, capsys: object
) -> None:
    code, text = run("-Ra -g 128 -i 0 -b o.xls", stop_after=11, error=error)
    assert code == ended
    found = parse_output(text)
    assert not found.complete and f"iozone: {word}\n" in text and text.endswith("exiting iozone\n\n")
    assert len(found.rows) == 6 and found.rows[5]["rewrite"] is None
    assert found.reports["Writer report"][128] and (tmp_path / "o.xls").stat().st_size > 0


def test_a_failed_cell_leaves_its_field_blank() -> None:
    plan = make_plan(parse(["-s", "64", "-i", "0", "-i", "1"]))
    out = io.StringIO()
    session = Session(plan, out)
    for spec in plan.cells:
        session.on_cell(fake_cell(spec, errors=1 if spec.op == "rewrite" else 0))
    session._writer.end_row()
    row = parse_output(out.getvalue()).rows[0]
    assert row["rewrite"] is None and row["write"] and row["reread"]


def test_nothing_is_printed_before_the_first_cell(capsys: pytest.CaptureFixture[str]) -> None:
    class Refuses:
        def __call__(self, **hooks: object) -> None:
            raise TargetError("no such share")

    out = io.StringIO()
    assert Session(make_plan(parse(["-s", "64"])), out).carry_out(Refuses()) == 1
    assert out.getvalue() == "" and "no such share" in capsys.readouterr().err


def test_throughput_blocks_read_back() -> None:
    blocks = parse_throughput(run(LINES["throughput"])[1])
    assert [(block.name, block.count) for block in blocks[:13]] == [
        ("initial writers", 1), ("rewriters", 1), ("readers", 1), ("re-readers", 1), ("reverse readers", 1),
        ("stride readers", 1), ("random readers", 1), ("mixed workload", 1), ("random writers", 1),
        ("pwrite writers", 1), ("pread readers", 1), ("fwriters", 1), ("freaders", 1),
    ]  # fmt: skip
    assert len(blocks) == 39
    for block in blocks:
        assert block.values["Children"] == pytest.approx(block.count * block.values["Avg"], abs=0.02)
        assert block.values["Parent"] == pytest.approx(block.values["Children"], rel=1e-6)
        assert len(block.children) == block.count and block.cpu_percent == 50.0
        assert block.values["Min xfer"] == 1024


def test_throughput_report_holds_a_value_a_count() -> None:
    report = parse_throughput_report(run(LINES["throughput"])[1])
    assert list(report)[:4] == ["Initial write", "Rewrite", "Read", "Re-read"] and len(report) == 13
    assert all(len(values) == 3 for values in report.values())
    assert parse_throughput_report(run(LINES["throughput_ops"])[1])["Rewrite"] == [0.0]


def test_a_stalled_child_counts_as_nothing() -> None:
    from naslab.commands.iozone.throughput import block

    plan = make_plan(parse(["-t", "2", "-i", "0"]))
    cell = fake_cell(plan.cells[0])
    cell["workers_detail"][0] |= {"bytes": 0, "ops": 0, "duration_ns": 0}
    found = parse_throughput(block(cell, plan.args))[0]
    assert found.values["Min"] == 0 and found.values["Min xfer"] == 0 and found.values["Max"] > 0


def test_json_replaces_the_text(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = run("-s 64 --json -R")
    assert code == 0 and text == "" and capsys.readouterr().out == '{"schema": 1}\n'


def test_passwords_are_not_printed() -> None:
    text = run("-s 64 -i 0 -f smb://me:secret@host/share/t")[1]
    assert "secret" not in text and "smb://me:***@host/share/t" in text
