"""Readers of other tools' files against hostile ones: one clear error or a run that holds, never anything else."""

from __future__ import annotations

import io
import json
import random
import re
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.inspect import FloatType, IntType, ListType

from fixtures_run import make_run
from lengths import inputs
from naslab.errors import ForeignFileError, NaslabError
from naslab.exchange.export import export
from naslab.exchange.importers import (
    crystaldiskmark,
    diskspd_text,
    diskspd_xml,
    elbencho,
    fio_json,
    fio_log,
    iozone_sheet,
    iozone_text,
    naslab_json,
    naslab_table,
    naspt,
)
from naslab.exchange.importers.base import MAX_CELLS, MAX_LINE, MAX_LINES, MAX_NUMBER, MAX_VALUES, Draft, Input
from naslab.exchange.importers.build import Asked, _parsed, _run
from naslab.exchange.importers.recognise import FORMATS, format_of
from naslab.exchange.json_file import json_text
from naslab.render.terminal.show import show_run
from naslab.results.fields import fields_of
from naslab.results.schema import TABLES
from naslab.results.shape import leaf_fault, of_field
from naslab.results.store import Store

SAMPLES = Path(__file__).parent.parent / "samples"
DISKSPD = Path(__file__).parent.parent / "golden" / "diskspd"
PARSERS: dict[str, tuple[Any, Path]] = {
    "iozone": (iozone_text.parse, SAMPLES / "iozone_auto.txt"),
    "iozone old": (iozone_text.parse, SAMPLES / "baseline_1.iozone"),
    "iozone throughput": (iozone_text.parse, SAMPLES / "iozone_throughput.txt"),
    "sheet": (iozone_sheet.parse, SAMPLES / "iozone_counts.xls"),
    "sheet, xlsx": (iozone_sheet.parse, SAMPLES / "iozone_counts.xlsx"),
    "diskspd": (diskspd_text.parse, DISKSPD / "mix.txt"),
    "diskspd xml": (diskspd_xml.parse, DISKSPD / "write.xml"),
    "fio": (fio_json.parse, SAMPLES / "fio_plus.json"),
    "fio log": (lambda source: fio_log.parse([source]), SAMPLES / "fiolg_bw.1.log"),
    "naspt": (naspt.parse, SAMPLES / "NASPerf-APP.csv"),
    "elbencho": (elbencho.parse, SAMPLES / "elbencho.csv"),
    "elbencho json": (elbencho.parse, SAMPLES / "elbencho.json"),
    "diskspd linux": (diskspd_text.parse, SAMPLES / "diskspd_linux.txt"),
    "naslab csv": (naslab_table.parse, SAMPLES / "naslab.csv"),
    "crystaldiskmark": (crystaldiskmark.parse, SAMPLES / "crystaldiskmark_8.txt"),
}
HUGE = (b"9" * 40, b"1e308", b"-1", b"nan", b"0", b"99999999999999999999", b'"', b"", b"\xff", b"1,5")
FEW = settings(max_examples=inputs(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def holds(draft: Draft) -> None:
    """Whatever was read is within bounds, and can be stored and shown."""
    assert 0 < len(draft.cells) <= MAX_CELLS
    run = _run(draft, [Input("x", b"y", 1)], Asked())
    json.dumps(run.document, allow_nan=False)
    for cell in run.cells:
        assert 0 <= cell["throughput_bytes_per_s"] <= MAX_NUMBER * 1e6
        run.series(cell)


def survives(parse: Any, data: bytes, name: str) -> None:
    source = Input(name, data)
    found = next(each for each in FORMATS if each.module in parse.__module__ or "log" in name)
    try:
        for draft in [parse(source)] if "log" in name else _parsed(found, [source]):
            holds(draft)
    except ForeignFileError as error:
        assert name in str(error)
        assert len(str(error)) < 1000


def damaged(data: bytes, seed: int) -> bytes:
    """The file cut off, shuffled, with huge numbers, or with bytes of another encoding."""
    rng = random.Random(seed)
    kind = rng.randrange(5)
    if kind == 0:
        return data[: rng.randrange(len(data) + 1)]
    if kind == 1:
        lines = data.splitlines(keepends=True)
        rng.shuffle(lines)
        return b"".join(lines)
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 30)):
        at = rng.randrange(len(changed) + 1)
        if kind == 2:
            changed[at : at + 1] = bytes([rng.randrange(256)])
        elif kind == 3:
            changed[at : at + rng.randrange(6)] = rng.choice(HUGE)
        else:
            changed[at : at + rng.randrange(40)] = b""
    return bytes(changed)


@pytest.mark.parametrize("name", PARSERS)
def test_whole_samples_hold(name: str) -> None:
    parse, path = PARSERS[name]
    found = parse(Input(path.name, path.read_bytes()))
    for draft in found if isinstance(found, list) else [found]:
        holds(draft)


@pytest.mark.parametrize("name", PARSERS)
@FEW
@given(seed=st.integers(0, 1 << 30))
def test_damaged_files(name: str, seed: int) -> None:
    parse, path = PARSERS[name]
    survives(parse, damaged(path.read_bytes(), seed), path.name)


@pytest.mark.parametrize("name", PARSERS)
@FEW
@given(data=st.binary(max_size=400))
def test_garbage(name: str, data: bytes) -> None:
    parse, path = PARSERS[name]
    survives(parse, data, path.name)


@FEW
@given(data=st.one_of(st.binary(max_size=300), st.text(max_size=300).map(str.encode)))
def test_recognising_never_fails_otherwise(data: bytes) -> None:
    try:
        format_of(Input("some.file", data))
    except ForeignFileError as error:
        assert "some.file" in str(error)


NAMES = ("jobs", "read", "write", "job options", "lat_ns", "clat_ns", "bins", "mean", "N", "total_ios", "bw", "x")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=25,
)


@settings(max_examples=inputs(100), deadline=None)
@given(jobs=JSON, shared=JSON)
def test_json_of_any_shape(jobs: Any, shared: Any) -> None:
    text = json.dumps({"fio version": "fio-3", "jobs": jobs, "global options": shared})
    survives(fio_json.parse, text.encode(), "fio.json")
    alone = json.dumps({"fio version": "fio-3", "jobs": [jobs]})
    survives(fio_json.parse, alone.encode(), "fio.json")


def test_a_sheet_that_claims_much_is_read_within_bounds() -> None:
    label = struct.pack("<HHHH3sB256s", 4, 264, 0, 0, b"\0\0\0", 13, b"Writer Report")
    cells = b"".join(struct.pack("<HHHH3sd", 3, 15, row, column, b"\0\0\0", value) for row, column, value in (
        (1, 1, 4.0), (2, 0, 64.0), (2, 1, float("inf")), (3, 0, 128.0), (3, 1, 1e300), (4, 0, 256.0), (4, 1, 77.0),
        (65535, 65535, 1.0),
    ))  # fmt: skip
    draft = iozone_sheet.parse(Input("x.xls", b"\x09\0\x04\0\x02\0\x10\0" + label + cells))
    assert [cell["throughput_bytes_per_s"] for cell in draft.cells] == [77 * 1024]


def test_work_grows_as_the_file_does() -> None:
    """Counted in calls, not in time: no line is looked at a number of times that grows with the file."""
    import sys

    def calls(copies: int) -> int:
        text = (SAMPLES / "iozone_auto.txt").read_text()
        row = next(line for line in text.splitlines() if line[:24].split() == ["64", "4"])
        data = text.replace(row, "\n".join([row] * copies)).encode()
        count = 0

        def counted(_frame: Any, event: str, _arg: Any) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        sys.setprofile(counted)
        try:
            iozone_text.parse(Input("x.txt", data))
        finally:
            sys.setprofile(None)
        return count

    few, many = calls(50), calls(500)
    assert many < 10.5 * few


DEEP = (
    b"{" * 200_000, b'{"fio version": ' + b"[" * 200_000, b"<Results>" * 100_000, b"\t" * 500_000, b'"' * 300_000,
    b"Children see throughput for " * 20_000, b"1, 2, 3, 4, 5\n" * 2 + b"x\n" * 3000, b"\n" * 300_000 + b"x",
    b"a" + b"," * 5000 + b" x", b"a" + b"\t," * 3000 + b"b c", b"[a-" * 20_000,
    b'{"phase_type": "last_done", ' + b"[" * 90_000,
    b"PK\x03\x04" + b"PK\x01\x02" * 20_000, b"run_id,cell,op,throughput_bytes_per_s\n" + b"x,1,read,-\n" * 500,
)  # fmt: skip


@pytest.mark.parametrize("data", DEEP)
def test_deep_and_long_files_end_in_the_error(data: bytes) -> None:
    with pytest.raises(ForeignFileError):
        source = Input("deep_bw.1.log", data)
        _parsed(format_of(source), [source])


IOZONE = b"Children see throughput for 1 readers = 5 kB/sec\n"
TOO_MUCH = {
    "lines": (IOZONE + b"\n" * MAX_LINES, f"has {MAX_LINES + 1} lines"),
    "a line": (IOZONE + b"\t" * (MAX_LINE + 1), f"line 2 has {MAX_LINE + 1} characters"),
    "values": (b'{"fio version": 1, "jobs": [' + b"0," * MAX_VALUES, "holds about"),
    "elements": (b"<Results><System>" + b"<a>" * MAX_VALUES, "holds about"),
    "runs": (b'{"run_id": 1, "schema": 1, "runs": [' + b"0," * MAX_VALUES, "holds about"),
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_what_would_need_gigabytes_is_refused_before_it_is_made(name: str) -> None:
    data, said = TOO_MUCH[name]
    source = Input("large.txt", data)
    found = format_of(source)
    with pytest.raises(ForeignFileError, match=said):
        naslab_json.parse(source) if found.module == "naslab_json" else _parsed(found, [source])


def test_a_damaged_file_is_told_with_its_line() -> None:
    lines = (SAMPLES / "naslab.csv").read_text().splitlines()
    lines[2] = lines[2].replace(",mixed,", ",,", 1)
    table = Input("t.csv", "\n".join(lines).encode())
    with pytest.raises(ForeignFileError, match=r"t\.csv: is a table of naslab's cells, but line 3 is damaged"):
        _parsed(format_of(table), [table])
    log = Input("a_bw.1.log", b"1, 2, 0, 0\nx\n3, 4, 0, 0\ny\n")
    with pytest.raises(ForeignFileError, match="is not a log of fio: line 2, 4 is not"):
        _parsed(format_of(log), [log])
    for name in ("fio_jobs.json", "elbencho.json"):
        data = (SAMPLES / name).read_bytes()
        part = Input(name, data[: data.index(b"\n") // 2] if name[0] == "e" else data[: len(data) // 2])
        with pytest.raises(ForeignFileError, match=rf"{name}: is JSON that is cut off or damaged: .*line \d+"):
            _parsed(fio_or_elbencho(name), [part])


def fio_or_elbencho(name: str) -> Any:
    return next(each for each in FORMATS if each.module == ("fio_json" if "fio" in name else "elbencho"))


@pytest.fixture(scope="module")
def workbook_of_naslab(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    made = make_run(ops=("read",), file_sizes=(1 << 20,), record_sizes=(65536,))
    return export(made, tmp_path_factory.mktemp("naslab") / "x.xlsx").read_bytes()


@FEW
@given(seed=st.integers(0, 1 << 30))
def test_damaged_workbooks_of_naslab(seed: int, workbook_of_naslab: bytes) -> None:
    survives(naslab_table.parse, damaged(workbook_of_naslab, seed), "x.xlsx")


def test_a_bomb_in_a_workbook_is_not_unpacked(tmp_path: Path) -> None:
    from naslab.exchange.importers import workbook

    whole = (SAMPLES / "iozone_counts.xlsx").read_bytes()
    for part, size, said in (
        ("xl/sharedStrings.xml", workbook.MAX_OTHER_BYTES, "unpacks to more"),
        ("xl/worksheets/sheet1.xml", workbook.MAX_SHEET_BYTES, "unpacks to more"),
        ("xl/styles.xml", 0, "document type"),
    ):
        path = tmp_path / "bomb.xlsx"
        with (
            zipfile.ZipFile(io.BytesIO(whole)) as old,
            zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, True, 1) as new,
        ):
            for info in old.infolist():
                data = old.read(info)
                if info.filename == part:
                    data = data + b" " * size if size else b"<!DOCTYPE x [<!ENTITY a 'aaa'>]>" + data
                new.writestr(info, data, zipfile.ZIP_DEFLATED, 1)
        with pytest.raises(ForeignFileError, match=said):
            iozone_sheet.parse(Input.of(path))
        path.unlink()


def places(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something is in a document."""
    if here:
        yield here
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        yield from places(each, (*here, key))


WRONG = (None, "x", -1, 1e308, [], {}, True, 10**30, [[]], "absent")
WHOLE = json_text(make_run(ops=("read", "mixed"), file_sizes=(1 << 20,), record_sizes=(65536,)))
PLACES = list(places({key: value for key, value in json.loads(WHOLE).items() if key != "blobs"}))


@settings(max_examples=inputs(120), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.sampled_from(PLACES), wrong=st.sampled_from(WRONG))
@example(place=("environment", "client", "nic_bits_per_s"), wrong="x")
@example(place=("environment", "client", "ram_bytes"), wrong="x")
def test_a_run_with_a_wrong_field_is_shown_or_named(place: tuple[Any, ...], wrong: Any, tmp_path: Path) -> None:
    document = part = json.loads(WHOLE)
    for key in place[:-1]:
        part = part[key]
    if wrong == "absent":
        part.pop(place[-1])
    else:
        part[place[-1]] = wrong
    try:
        (run,) = naslab_json.parse(Input("run.json", json.dumps(document).encode()))
        (tmp_path / "store.sqlite").unlink(missing_ok=True)
        store = Store(tmp_path / "store.sqlite")
        store.save(run.document)
        show_run(store.load("last"), 100, False)
    except NaslabError as error:
        assert "run.json" in str(error)


def test_only_ratios_have_intervals_without_an_end() -> None:
    open_ended = []
    for table, part in TABLES.items():
        for field in fields_of(part):
            if isinstance(field.type, ListType) and re.search("ci9[05]", field.name):
                check = of_field(field)
                assert check([1.0, 2.0], field.name) is None and check([1.0], field.name) is not None
                if check([1.0, None], field.name) is None:
                    open_ended.append(table)
    assert open_ended == ["client_split_cell"]


def refused(old: str, new: str, said: str) -> None:
    """A run with one text in place of another is no run, and why is told."""
    assert old in WHOLE
    with pytest.raises(ForeignFileError, match=f"run.json: is not a complete run exported by naslab: .*{said}"):
        naslab_json.parse(Input("run.json", WHOLE.replace(old, new, 1).encode()))


def test_which_field_is_wrong_is_said() -> None:
    for old, new, said in (
        ('"op": "read"', '"op": 7', r"cells\.0\.op is not a text"),
        ('"cache_state": "warm"', '"cache_state": "odd"', r"cells\.0\.cache_state is not one of"),
        ('"workers": 1', '"workers": 1e20', r"cells\.0\.workers is not an integer"),
        ('"workers": 1', '"workers": 1e308', r"cells\.0\.workers is not a valid number"),
        ('"block": 0, ', "", r"cells\.0\.block is missing"),
    ):
        refused(old, new, said)


def test_no_number_is_larger_than_can_be_measured() -> None:
    """An interval of 1e308 bytes a second made `whatif` square it."""
    for value in (1e308, -1e308, 2e30, float("nan")):
        assert leaf_fault({"steps": [{"ci95": [value, 1.0]}]}) == "steps.0.ci95.0 is not a valid number"
    assert leaf_fault({"steps": [{"ci95": [0.0, 1e18]}]}) is None


def test_no_measured_number_is_below_zero() -> None:
    """A p50 of -1 ns ended `report` in a logarithm that is none. What may be negative is a choice of its field."""
    for old, new, said in (
        ('"p50": ', '"p50": -', r"cells\.0\.latency_ns\.p50 is below 0"),
        ('"bytes": ', '"bytes": -', r"cells\.0\.bytes is below 0"),
        ('"throughput_bytes_per_s": ', '"throughput_bytes_per_s": -', r"cells\.0\.throughput_bytes_per_s is below 0"),
        ('"file_bytes": 1048576', '"file_bytes": 0', r"cells\.0\.file_bytes is below 1"),
        ('"workers": 1', '"workers": 0', r"cells\.0\.workers is below 1"),
    ):
        refused(old, new, said)
    signed = {
        field.name
        for part in TABLES.values()
        for field in fields_of(part)
        if isinstance(field.type, IntType | FloatType) and field.type.ge is None
    }
    assert signed == {
        "seed", "status", "clock_step_ns", "wall_clock_step_ns", "clock_rate_off", "late_ns", "earliest_ns", "effect",
        "drift", "snia_range_share", "snia_excursion_share", "value", "limit", "deviation", "autocorrelation",
        "other_autocorrelation", "measured",
    }  # fmt: skip
