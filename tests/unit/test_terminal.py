"""What `naslab show` draws in a terminal, and that nothing is cut, wrapped or coloured where it should not be."""

from __future__ import annotations

import math
import re
from functools import cache
from typing import Any

import numpy as np
import pytest

from fixtures_run import make_run
from naslab.render.terminal import pictures
from naslab.render.terminal.show import folded, render, show_run
from naslab.results import Run
from naslab.results.foreign import foreign_cell, foreign_document
from naslab.results.parts.curve import CurveDocument
from naslab.text import screen as terminal
from naslab.text.screen import plain_table

FILES = tuple(65536 << at for at in range(8))
RECORDS = tuple(4096 << at for at in range(9))


@cache
def sweep(**more: Any) -> Run:
    options = {"ops": ("write", "read", "random_read"), "file_sizes": FILES, "record_sizes": RECORDS, "blocks": 1}
    return make_run(**{**options, **more})


def load(rates: list[float], **more: Any) -> Run:
    """A sustained run whose first cell has these MB/s, one a second."""
    made = make_run(ops=("read",), file_sizes=(1 << 30,), record_sizes=(65536,), command="sustained", blocks=1, **more)
    rows = np.zeros((len(rates), 7), "<i8")
    rows[:, 1] = np.array(rates) * 1e6
    made.cells[0]["window_ns"] = len(rates) * 10**9
    return Run(made.document, _Blobs(rows.tobytes()))


class _Blobs:
    def __init__(self, series: bytes) -> None:
        self.series = series

    def names(self, cell_id: int) -> list[str]:
        return ["series"]

    def get(self, cell_id: int, name: str) -> bytes | None:
        return self.series if name == "series" else None


def curve(steps: int = 12) -> Run:
    made = make_run(ops=("read",), file_sizes=(1 << 20,), record_sizes=(4096,), blocks=1, command="curve")
    times = dict.fromkeys(("min", "mean", "p50", "p90", "p99", "p99_9", "max"), 10**6)
    made.document["curve"] = {  # type: ignore[typeddict-item]
        "steps": [
            {
                "offered_per_s": 100_000.0 * (at + 1), "achieved_per_s": 100_000.0 * (at + 1), "ops": 1,
                "achieved_bytes_per_s": 4.096e8, "saturated": at == steps - 1, "missed_starts": 5_036_432, "errors": 0,
                "response_ns": {**times, "p99": 10**5 * 4**at // 3**at}, "service_ns": times, "cells": [0],
            }
            for at in range(steps)
        ],
        **dict.fromkeys(name for name in CurveDocument.__struct_fields__ if "_per_s" in name), "compared": None,
        "probe_alone": None, "probe_full": None, "low_load_p99_ns": None, "arrivals": "poisson", "block_bytes": 4096,
        "write_fraction": 0.0, "random": True, "file_bytes": 4096, "workers": 1, "queue_depth": 1, "step_ns": 1,
        "factor": 1.5, "stop_reason": "saturated", "saturated": True, "depth_limited": False, "knee_method": "",
    }  # fmt: skip
    return made


# pictures


def test_blocks_are_in_equal_steps() -> None:
    assert terminal.spark([0, 1, 2, 3, 4, 5, 6, 7, 8], 0, 8, 99) == "▁▂▃▄▅▆▇██"
    assert terminal.spark([5, 5], 5, 5, 99) == "██", "all the same"
    assert terminal.spark([1, math.nan, 3], 0, 3, 99) == "▃ █"
    assert terminal.spark([0, 0, 8, 8, 8, 0], 0, 8, 3) == "▁█▅", "means of equal parts"


def test_the_heat_map_holds_the_rates() -> None:
    made = sweep()
    lines = [str(line) for line in pictures.heat_maps(made, ["read"], 100)]
    files, _, matrix = made.grid("read")
    for line, row, size in zip(lines[2:], matrix / 1e6, ("64k", "128k", "256k"), strict=False):
        name, drawn = line.split()
        assert name == size
        high = np.nanmax(matrix) / 1e6
        wanted = [terminal.NOTHING if math.isnan(v) else terminal.BLOCKS[terminal.step(v, 0, high)] for v in row]
        assert drawn == "".join(block * 2 for block in wanted)
    assert len(files) + 4 == len(lines) - 1
    assert lines[-3].split() == ["4k", "1m"]
    assert f"0 to {np.nanmax(matrix) / 1e6:,.0f} MB/s" in lines[-2] and "not measured" in lines[-2]


def test_the_sparkline_goes_from_the_first_value_to_the_last() -> None:
    text = show_run(load([118.0] * 60 + [40.0] * 60), 80, False)
    assert "64 KiB reads (1 GiB file): 40 to 118 in 2 min" in text
    (line,) = [line for line in text.splitlines() if "█" in line]
    assert line.split()[0] == "118" and line.split()[-1] == "40"
    assert re.fullmatch(r"█{33,36}▆?▃{33,36}", line.split()[1])


def test_the_curve_climbs() -> None:
    text = show_run(curve(), 80, False)
    assert "p99 of the response time, one mark per load, log scale" in text
    (line,) = [line for line in text.splitlines() if "▁" in line]
    assert line.strip().startswith("100 µs ▁") and line.endswith("█ 2.37 ms")
    drawn = line.split()[2]
    assert drawn == "".join(sorted(drawn)) and len(drawn) == 12


def test_a_few_numbers_are_not_drawn() -> None:
    assert pictures.heat_maps(sweep(file_sizes=FILES[:2]), ["read"], 80) == []
    assert pictures.sparklines(load([1.0] * 5), [], 80) == []
    source = {"kind": "imported", "tool": "iozone", "format": "iozone-text"}
    bare = Run(foreign_document("20130101-000000-aaaa", source, [foreign_cell(0, "read", 60e6)]))
    assert pictures.sparklines(bare, [], 80) == [] == pictures.heat_maps(bare, bare.sweep_ops(), 80)


# width


@pytest.mark.parametrize("width", [40, 55, 80, 120, 160, 200])
@pytest.mark.parametrize("made", [sweep, curve, lambda: load([100.0] * 400)], ids=["sweep", "curve", "sustained"])
def test_nothing_is_wider_and_no_number_is_cut(made: Any, width: int) -> None:
    run = made()
    text = show_run(run, width, False)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    if run.document.get("curve"):
        words = text.split()
        assert words.count("5,036,432") == 12 and words.count("1.2e+06") + words.count("1,200,000") >= 1


def test_many_record_sizes_get_narrower_maps() -> None:
    records = tuple(4096 * (at + 1) for at in range(60))
    made = sweep(ops=("read",), file_sizes=FILES[2:], record_sizes=records)
    for width in (40, 80):
        lines = [str(line) for line in pictures.heat_maps(made, ["read"], width)]
        assert max(map(len, lines[1:-2])) <= width
        assert lines[-3].split()[0] == "4k" and lines[-3].split()[-1] == "240k"


def test_wide_tables_come_in_parts_with_the_first_column() -> None:
    table = plain_table(("name", *"abcdef", "note"), right=tuple("abcdef"))
    table.add_row("first", *("1,234,567",) * 6, "some words about it")
    text = render([table], 40, False)
    assert text.split().count("1,234,567") == 6 and text.split().count("first") == 3
    assert "some words" in text
    assert len(render([table], 120, False).splitlines()) == 3
    long = plain_table(("application", *"abcd"), right=tuple("abcd"))
    long.add_row("HDVideo_1Play_1Record", *("1,234,567",) * 4)
    assert render([long], 40, False).split().count("HDVideo_1Play_1Record") == 4, "each number has its row's name"


def test_sentences_fold_between_words_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    sentence = "Capacity: 1,000,000/s of 4 KiB, 95 % interval 1,000,000/s to 1,000,000/s."
    assert folded(sentence) == sentence
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert folded(sentence).split() == sentence.split() and max(map(len, folded(sentence).splitlines())) <= 40


# what the terminal can


@pytest.mark.parametrize(
    ("environment", "tty", "colour"),
    [
        ({}, True, True), ({}, False, False), ({"NO_COLOR": "1"}, True, False), ({"NO_COLOR": ""}, True, True),
        ({"TERM": "dumb"}, True, False), ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, False, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
    ],
)  # fmt: skip
def test_colours(environment: dict[str, str], tty: bool, colour: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdout.isatty", lambda: tty)
    assert ("\x1b[" in show_run(sweep())) == colour


@pytest.mark.parametrize(
    ("environment", "blocks"),
    [
        ({}, True), ({"LANG": "en_GB.UTF-8"}, True), ({"LANG": "C.utf8"}, True), ({"LANG": "C"}, False),
        ({"LANG": "en_GB.UTF-8", "LC_ALL": "POSIX"}, False), ({"LANG": "C", "LC_CTYPE": "de_DE.UTF-8"}, True),
        ({"LANG": "de_DE.ISO-8859-1"}, False),
    ],
)  # fmt: skip
def test_locales(environment: dict[str, str], blocks: bool) -> None:
    assert terminal.has_blocks(environment) == blocks


def test_ascii_where_the_locale_is_not_utf8(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    for made in (sweep(), curve(), load([100.0, 50.0] * 20)):
        text = show_run(made, 80, False)
        assert text.isascii()
        assert "@" in text
