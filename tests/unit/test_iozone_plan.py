"""Rows, cells and files: auto mode's progressions, the cut-off, the semantics of each pass."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

import pytest

from naslab.commands.iozone.checks import parse
from naslab.commands.iozone.plan import Plan, make_plan, record_sizes
from naslab.errors import UsageError
from naslab.text.messages import without_secrets

SEED_WIKI = "-Ra -i 0 -i 1 -+u -f DIR/f -q 64k -n 2M -g 1G -z"
SEED_ROOTUSERS = "-Racz -g 2G -i 0 -i 1 -i 2 -U /mnt -f /mnt/testfile"


def plan(line: str) -> Plan:
    return make_plan(parse(line.split()))


@pytest.mark.parametrize(
    ("line", "rows", "cut"),
    [
        ("-a", 126, 20), ("-az", 146, 0), ("-A", 146, 0), (SEED_WIKI, 50, 0), (SEED_ROOTUSERS, 172, 0),
        ("", 1, 0), ("-s 1m -r 64", 1, 0), ("-s 64 -s 512", 13, 0), ("-s 64 -s 512 -r 4", 2, 0),
        ("-s 64 -s 1m -r 16 -r 128", 3, 0), ("-a -r 4", 14, 0), ("-a -+x 4", 35, 4), ("-a -s 32m", 9, 4),
        ("-a -n 48 -g 200 -y 12", 12, 0), ("-r 64 -r 256 -g 128", 2, 0),
    ],
)  # fmt: skip
def test_rows(line: str, rows: int, cut: int) -> None:
    found = plan(line)
    assert sum(not row.cut_off for row in found.rows) == rows
    assert sum(row.cut_off for row in found.rows) == cut


def test_seed_lines_move_what_the_reference_says() -> None:
    assert plan(SEED_WIKI).planned_bytes() / 2**30 == pytest.approx(40, rel=0.01)
    second = plan(SEED_ROOTUSERS)
    assert len(second.cells) == 1032
    assert second.planned_bytes() / 2**30 == pytest.approx(312, rel=0.01)
    assert all(cell.timed_close and cell.flush == "none" and not cell.timed_flush for cell in second.cells)


def test_cut_off_starts_above_16_mib() -> None:
    smallest = {row.file_kib: row.record_kib for row in reversed(plan("-a").rows) if not row.cut_off}
    assert smallest[16384] == 4 and smallest[32768] == 64 and smallest[524288] == 64


def test_series_starts_at_the_lower_bound() -> None:
    found = plan("-a -n 48 -g 200 -i 0")
    assert sorted({row.file_kib for row in found.rows}) == [48, 96, 192]
    assert record_sizes(found.args)[-1] == 16384


def test_small_bounds_become_4_kib() -> None:
    found = plan("-a -n 1 -g 8 -i 0")
    assert [(row.file_kib, row.record_kib) for row in found.rows] == [(4, 4), (8, 4), (8, 8)]
    assert any("-n 1" in warning for warning in found.args.warnings)


def test_nothing_fits() -> None:
    with pytest.raises(UsageError, match="no record size fits"):
        plan("-s 4 -r 16")


def test_passes_of_a_row() -> None:
    ops = [cell.op for cell in plan("-s 64 -E").cells]
    assert ops == [
        "write", "rewrite", "read", "reread", "random_read", "random_write", "backward_read", "record_rewrite",
        "stride_read", "fwrite", "frewrite", "fread", "freread", "pwrite", "repwrite", "pread", "repread",
    ]  # fmt: skip


def test_semantics_of_each_pass() -> None:
    cells = {cell.op: cell for cell in plan("-s 1m -r 64 -E -j 5").cells}
    write, rewrite = cells["write"], cells["rewrite"]
    assert write.remove_before and write.create == "if_missing" and write.access == "cursor"
    assert not rewrite.remove_before and not rewrite.truncate and rewrite.create == "never"
    assert cells["read"].prime and not cells["fread"].prime
    assert cells["random_read"].pattern == cells["random_write"].pattern == "permutation"
    assert cells["random_read"].seed == cells["random_write"].seed
    assert cells["backward_read"].pattern == "backward" and cells["record_rewrite"].pattern == "same_record"
    assert cells["stride_read"].pattern == "stride" and cells["stride_read"].stride_records == 5
    assert cells["fwrite"].access == cells["fread"].access == "stdio" and cells["fwrite"].create == "if_missing"
    assert cells["pwrite"].access == cells["pread"].access == "positioned"
    for cell in cells.values():
        assert cell.writes() == (cell.op in {"write", "rewrite", "random_write", "record_rewrite", "fwrite",
                                             "frewrite", "pwrite", "repwrite"})  # fmt: skip
        assert cell.flush == ("all" if cell.writes() else "none")
        assert not cell.timed_flush and not cell.timed_close
        cell.validate()


@pytest.mark.parametrize(
    ("line", "flush", "timed_flush", "timed_close", "durability"),
    [("", "all", False, False, "end"), ("-e", "all", True, False, "end"), ("-c", "none", False, True, "none"),
     ("-e -c", "all", True, True, "end"), ("-o", "all", False, False, "each")],
)  # fmt: skip
def test_timed_windows(line: str, flush: str, timed_flush: bool, timed_close: bool, durability: str) -> None:
    write, read = (cell for cell in plan(f"-s 64 {line}").cells if cell.op in ("write", "read"))
    assert (write.flush, write.timed_flush, write.timed_close) == (flush, timed_flush, timed_close)
    assert (read.timed_flush, read.timed_close) == (timed_flush, timed_close), "-c and -e act on reads too"
    assert write.durability == durability


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("-I -i 0", "direct", True), ("-o", "sync", "all"), ("-+r", "sync", "reads_too"), ("-+D", "sync", "data"),
        ("-J 3", "think_ns", 3_000_000), ("-J 3 -+J", "think_counted", True), ("-Q", "record_ops", True),
        ("-W", "lock", "file"), ("-+l", "lock", "record"), ("-B", "access", "mmap"), ("-H 8", "queue_depth", 8),
        ("-V 7", "verify", True), ("-+d", "verify", True), ("--verify", "verify", True),
        ("-+N", "remove_before", False),
        ("--seed 9", "seed", 9), ("-H 8", "access", "positioned"),
    ],
)  # fmt: skip
def test_options_reach_the_engine(line: str, field: str, value: object) -> None:
    assert getattr(plan(f"-s 64 {line}").cells[0], field) == value


def test_data() -> None:
    def data(line: str) -> dict[str, object]:
        return dataclasses.asdict(plan(f"-s 64 {line}").cells[0].data)

    assert data("")["kind"] == "random" and data("")["compress_ratio"] == 1
    assert data("--iozone-data")["kind"] == "iozone"
    assert (data("-V 7")["kind"], data("-V 7")["fill"]) == ("fill", 7)
    assert data("-+a 50 -+w 75")["compress_ratio"] == 2 and data("-+w 75")["dedupe_ratio"] == 4


def test_no_retest_keeps_random_write_and_the_columns() -> None:
    found = plan("-s 64 -+n")
    assert Counter(cell.op for cell in found.cells)["random_write"] == 1
    assert not {"rewrite", "reread", "frewrite", "freread"} & {cell.op for cell in found.cells}
    assert "rewrite" in found.ops


def test_stdio_is_left_out_of_mmap_and_queues() -> None:
    for option in ("-B", "-H 4"):
        assert not {"fwrite", "fread"} & {cell.op for cell in plan(f"-s 64 {option}").cells}


def test_files_and_cleanup(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_bytes(b"x")
    found = plan(f"-s 64 -f {tmp_path}/t")
    assert (found.folder, found.cells[0].files, found.cleanup_files) == (str(tmp_path), ["t"], ["t"])
    assert plan(f"-s 64 -w -f {tmp_path}/t").cleanup_files == []
    assert plan(f"-s 64 -i 1 -f {kept}").cleanup_files == [], "a file no test of this run makes is never removed"
    assert plan("-s 64").folder == "."


def test_existing_files() -> None:
    assert plan("-s 64").run_spec().existing == "refuse"
    assert plan("-s 64 --overwrite").run_spec().existing == "overwrite"
    assert plan("-s 64 --read-existing").run_spec().existing == "read"


def test_addresses(tmp_path: Path) -> None:
    found = plan("-s 64 -f smb://user:pw@host/share/dir/t?sign=on")
    assert (found.folder, found.cells[0].files) == ("smb://user:pw@host/share/dir?sign=on", ["t"])
    assert {cell.access for cell in found.cells} == {"positioned"}
    assert without_secrets("smb://user:pw@host/share/t") == "smb://user:***@host/share/t"
    assert plan(r"-s 64 -f \\host\share\t").folder == "smb://host/share"
    with pytest.raises(UsageError, match="-f"):
        plan("-s 64 -f nfs://host")
    with pytest.raises(UsageError, match="one folder"):
        plan("-t 2 -F smb://h/s/a smb://h/t/b")


def test_throughput_mode() -> None:
    found = plan("-l 1 -u 3 -s 1m -r 64 -i 0 -i 8 -i 2 -+p 70")
    assert found.counts == [1, 2, 3]
    assert [cell.op for cell in found.cells if cell.workers == 3] == [
        "write", "rewrite", "random_read", "mixed", "random_write",
    ]  # fmt: skip
    cells = {cell.op: cell for cell in found.cells if cell.workers == 3}
    assert cells["mixed"].read_workers == 2 and cells["mixed"].pattern == "permutation"
    assert cells["write"].files == ["iozone.DUMMY.0", "iozone.DUMMY.1", "iozone.DUMMY.2"]
    assert cells["write"].stonewall and cells["write"].finish_untimed and cells["rewrite"].finish_untimed
    assert cells["random_read"].stonewall and not cells["random_read"].finish_untimed
    assert found.cleanup_files == cells["write"].files
    assert not plan("-t 2 -x").cells[0].stonewall


def test_mixed_workload_alternates() -> None:
    assert [cell.read_workers for cell in plan("-l 1 -u 4 -i 0 -i 8").cells if cell.op == "mixed"] == [1, 1, 2, 2]
    assert plan("-t 2 -i 0 -i 8 -+B").cells[-1].pattern == "sequential"


def test_shared_and_constant_sizes(tmp_path: Path) -> None:
    assert {tuple(cell.files) for cell in plan("-t 3 -+V").cells} == {("iozone.DUMMY.0",)}
    assert plan("-t 3 -+L").cells[0].lock == "record"
    assert plan("-t 4 -s 1m -+k").cells[0].file_bytes == 256 * 1024
    deep = plan(f"-t 2 -F {tmp_path}/a/x {tmp_path}/b/y")
    assert (deep.folder, deep.cells[0].files) == (str(tmp_path), ["a/x", "b/y"])


def test_max_bytes() -> None:
    with pytest.raises(UsageError, match="--max-bytes"):
        plan("-s 1m --max-bytes 1m")
    assert plan("-s 1m -i 0 --max-bytes 2m").cells
