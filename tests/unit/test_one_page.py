"""One page for print: every kind of run has it whole, as SVG that needs no browser, and as a PNG where one is drawn."""

from __future__ import annotations

import re
import struct
import zlib
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fixtures_run import make_run
from naslab.errors import UsageError
from naslab.published.runs import load
from naslab.render.report import one_page, rasterise, svg_chart
from naslab.render.report.views import charts, shown
from naslab.results import Run
from naslab.text.outputs import ONE_PAGE_PNG, ONE_PAGE_SVG

SVG = "{http://www.w3.org/2000/svg}"
SIZES = (65536, 1 << 20, 16 << 20)


def sweep(**more: object) -> Run:
    return make_run(**{"ops": ("write", "read"), "file_sizes": SIZES, "record_sizes": (4096, 65536), **more})


def texts(svg: str) -> list[tuple[float, float, float, str, str]]:
    """(x, y, size, anchor, words) of every text."""
    return [
        (float(one.get("x", 0)), float(one.get("y", 0)), float(one.get("font-size", 11)), one.get("text-anchor", ""),
         one.text or "")
        for one in ElementTree.fromstring(svg).iter(f"{SVG}text")
    ]  # fmt: skip


RUNS = {
    "sweep": lambda: [sweep()], "two": lambda: [sweep(label="old"), sweep(label="new")],
    "one size": lambda: [make_run(ops=("read", "write"), file_sizes=(1 << 30,), record_sizes=(1 << 20,))],
    "published": lambda: [load("published:raid5-naspt-4")],
}  # fmt: skip


@pytest.mark.parametrize("name", ["sweep", "two", "one size", "published"])
def test_all_that_is_written_is_on_the_page(name: str) -> None:
    drawn = one_page.svg(RUNS[name]())
    assert ElementTree.fromstring(drawn).get("viewBox") == f"0 0 {one_page.WIDTH} {one_page.HEIGHT}"
    for x, _, size, anchor, words in texts(drawn):
        wide = svg_chart.text_width(words, size)
        left = x - {"middle": wide / 2, "end": wide}.get(anchor, 0.0)
        assert left >= 0 and left + wide <= one_page.WIDTH, f"{words!r} leaves the page"
    assert "NaN" not in drawn and ">None<" not in drawn


def test_the_picture_is_the_reports_own() -> None:
    run = sweep()
    figure = charts(shown([run]), [])[0].entries[0]["figure"]
    drawn = svg_chart.draw(figure, 0, 0, 600, 400)
    marks = re.findall(r"<(?:circle|rect|polygon) ", drawn)
    points = sum(len(trace["x"]) for trace in figure["data"] if "markers" in trace["mode"])
    named = len({trace["name"] for trace in figure["data"]})
    assert len(marks) == points + named, "a mark for every measured point, one for each name in the legend"
    ticks = [words for *_, words in texts(f'<svg xmlns="{SVG[1:-1]}">{drawn}</svg>')]
    assert {"64 KiB", "1 MiB", "16 MiB", "Throughput (MB/s)", "File size"} <= set(ticks)


def test_hostile_names_are_text() -> None:
    run = sweep(label='</text><script>alert("x")</script>\u202e')
    drawn = one_page.svg([run, sweep(label="b")])
    assert "<script" not in drawn and "\u202e" not in drawn
    ElementTree.fromstring(drawn)
    assert "<script" not in one_page.page([run])


def test_a_table_as_long_as_a_curve_has_its_ends() -> None:
    rows = [(str(at),) for at in range(40)]
    kept = one_page._spread(rows)
    assert len(kept) == one_page.MAX_ROWS and kept[0] == ("0",) and kept[-1] == ("39",)


def test_files_by_their_ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = sweep()
    path = one_page.write([run], tmp_path / "run.svg")
    assert ONE_PAGE_SVG.own(path) and path == one_page.write([run], path), "naslab's own is replaced"
    page = one_page.write([run], tmp_path / "run.html").read_text()
    assert "size: A4 portrait" in page and "<script" not in page and "<svg " in page
    with pytest.raises(UsageError, match=r"\.svg, \.png or \.html"):
        one_page.write([run], tmp_path / "run.pdf")
    (tmp_path / "mine.svg").write_text("<svg/>")
    with pytest.raises(UsageError, match="not a one-page naslab report"):
        one_page.write([run], tmp_path / "mine.svg")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"rsvg-convert.*or Chromium, and none is in PATH"):
        one_page.write([run], tmp_path / "run.png")
    assert not (tmp_path / "run.png").exists()


def test_a_png_is_drawn_by_what_is_there_and_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that writes the smallest PNG stands in the place of librsvg's."""
    row = zlib.compress(b"\0\0\0\0")
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)), (b"IDAT", row), (b"IEND", b"")]
    picture = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    (tmp_path / "small.png").write_bytes(picture)
    tool = tmp_path / "rsvg-convert"
    tool.write_text(f'#!/bin/sh\n[ "$2" = {one_page.WIDTH * rasterise.SCALE} ] && /bin/cp {tmp_path}/small.png "$4"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    path = one_page.write([sweep()], tmp_path / "run.png")
    data = path.read_bytes()
    assert ONE_PAGE_PNG.own(path) and data.startswith(picture[:33]) and data.endswith(picture[33:])
    tool.write_text("#!/bin/sh\necho no fonts >&2; exit 3\n")
    with pytest.raises(UsageError, match="rsvg-convert ended with 3: no fonts; name a file"):
        one_page.write([sweep()], tmp_path / "other.png")
    assert not (tmp_path / "other.png").exists()
