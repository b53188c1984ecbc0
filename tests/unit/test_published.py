"""Published results: what the articles print, as runs; their errors are found by the checks that own runs pass."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from fixtures_run import make_run
from naslab import load, published
from naslab.analysis.fsx import _TIERS
from naslab.cli.published import list_published
from naslab.cli.report import parse_drawing
from naslab.comparison.conditions import differences
from naslab.comparison.judgement import compare
from naslab.comparison.ranges import over_ranges
from naslab.errors import UnknownRunError, UsageError
from naslab.exchange import references
from naslab.lab import experiment
from naslab.published import article
from naslab.published.article import parse
from naslab.render import report
from naslab.render.report import compare as compare_view
from naslab.render.report.model import cases, finding
from naslab.render.report.page import parts
from naslab.render.terminal.show import show_run
from naslab.results.foreign import foreign_cell, foreign_document
from naslab.results.run import Run
from naslab.results.schema import json_schema
from naslab.results.store import Store

ARTICLES = ("fast-nas", "fsx-32", "nas4220", "nfs-servers", "raid5-naspt")
SEEDS = """
[source]
title = "Two disks"

[setting]
tool = "iozone"
target = "a box"
protocol = "smb"
link = "1Gbit/s"
labels = { colour = "red" }

[numbers]
slow = { value = 48, unit = "MB/s", place = "table 1", what = "Writes of the slower disk" }
fast = { value = 96, unit = "MB/s", place = "table 1", what = "Writes of the faster disk" }
gap = { value = 50, unit = "MB/s", place = "text", what = "Faster above slower" }
cost = { value = 5, unit = "USD", place = "text", what = "Price" }

[tables.all]
unit = "MB/s"
place = "table 2"
columns = ["one", "two"]
rows = { copy = [10, 10], play = [20, 20] }
ops = { copy = "write", play = "read" }

[findings]
faster = { place = "end", words = "The faster disk is faster." }

[[run]]
name = "slow"
what = "The slower disk"
place = "table 1"
cells = [{ number = "slow", op = "write", file = "1m..4m", record = "64k" }]

[[run]]
name = "all"
what = "All"
place = "table 2"
table = "all"

[[derived]]
how = "difference"
number = "gap"
of = ["fast", "slow"]
run = "slow"
"""


def kinds(name: str) -> list[str]:
    return [found["kind"] for found in published.load(name).document["warnings"]]


def own_run(cells: list[dict[str, Any]], **document: Any) -> Run:
    """A run of three repeats as naslab's own are, made without measuring."""
    made: dict[str, Any] = foreign_document("own", {"kind": "imported", "tool": "x", "format": "x"}, cells)  # type: ignore[assignment]
    return Run({**made, "source": None, **document})  # type: ignore[arg-type]


def test_every_article_has_runs_that_fit_the_schema() -> None:
    assert tuple(published.articles()) == ARTICLES
    schema = Draft202012Validator(json_schema(strict=True))
    for name in published.names():
        document = published.load(name).document
        schema.validate(json.loads(json.dumps(document)))
        source = document["source"]
        assert source and source["kind"] == "published" and source["title"] and source["place"], name
        assert any(name.startswith(one) for one in ARTICLES)


def test_the_naspt_table_is_whole() -> None:
    run = published.load("raid5-naspt")
    assert len(run.cells) == 72 and {cell["block"] for cell in run.cells} == set(range(6))
    copies = [cell["throughput_bytes_per_s"] for cell in run.cells if cell["workload"] == "FileCopyToNAS"]
    assert copies == pytest.approx([633.475e6, 633.475e6, 748.91e6, 690.827e6, 768.598e6, 806.578e6])
    six = published.load("raid5-naspt-6").cells
    assert [c["throughput_bytes_per_s"] for c in six] == [
        c["throughput_bytes_per_s"] for c in run.cells if c["block"] == 5
    ]
    means = {c["workload"]: c["throughput_bytes_per_s"] for c in published.load("raid5-naspt-mean").cells}
    assert len(means) == 12 and means["PhotoAlbum"] == pytest.approx(26.47e6)


def test_the_averages_are_in_kib_and_cover_a_range_of_sizes() -> None:
    write, read = published.load("nas4220-raid0").cells
    assert (write["throughput_bytes_per_s"], read["throughput_bytes_per_s"]) == (8811 * 1024, 11449 * 1024)
    assert write["file_bytes"] is None and write["covers_file_bytes"] == [64 << 20, 1 << 30]
    assert write["record_bytes"] == 64 << 10 and write["latency_ns"]["p50"] is None


def test_repeated_runs_are_found_by_the_check_of_repeats() -> None:
    found = [w for w in published.load("raid5-naspt").document["warnings"] if w["kind"] == "duplicate"]
    assert len(found) == 1 and "repeats 1 and 2 have exactly the same numbers" in found[0]["message"]
    assert "duplicate" not in kinds("raid5-naspt-1")
    one, two = (published.load(f"raid5-naspt-{at}").document for at in (1, 2))
    doubts = {doubt.kind for doubt in compare([one], [two], ("1", "2")).doubts}
    assert "duplicate" in doubts


def test_rates_above_the_link_are_found_by_its_formula() -> None:
    found = published.load("nas4220-rewrite").document["validity"]
    assert [one["kind"] for one in found] == ["above_link", "file_sizes"]
    assert found[0]["value"] == 652e6 and found[0]["limit"] == pytest.approx(1e9 / 8 * 1460 / 1538)
    for name in ("nas4220-raid0", "nas4220-span-ext2", "fast-nas-vista"):
        assert "above_link" not in kinds(name), name


def test_rates_above_what_the_article_says_is_the_most() -> None:
    assert kinds("fsx-32") == ["above_limit"] * 3  # 287.5 and 400 over the disk's 260, 625 over the network's 600
    assert kinds("fsx-32-baseline") == [] and kinds("fsx-32-memory") == ["above_limit", "unwritten"]
    above = {c["workload"] for c in published.load("raid5-naspt-6").cells if c["warnings"]}
    assert above == {"HDVideo_1Record", "FileCopyToNAS"}  # faster than the four ports of the disks


def test_means_over_different_conditions_are_found() -> None:
    found = {one["kind"]: one["message"] for one in published.load("raid5-naspt-mean").document["warnings"]}
    assert "a mean over 3 different conditions" in found["mixed_mean"] and "12 such means" in found["mixed_mean"]
    assert "run 1 and run 2 have exactly the same numbers" in found["duplicate"]
    assert "arithmetic" not in found, "the means themselves are right"


def test_a_difference_that_does_not_follow_is_found() -> None:
    found = [w for w in published.load("nas4220-span-ext2").document["warnings"] if w["kind"] == "arithmetic"]
    assert len(found) == 1 and "ext2 above ext3" in found[0]["message"]
    for name in ("nas4220-raid0", "nas4220-jbod-fat"):
        assert "arithmetic" not in kinds(name), "their differences are right"


def test_a_command_line_that_measures_other_sizes_than_the_text_says_is_found() -> None:
    found = [one for one in published.load("nas4220-raid1").document["validity"] if one["kind"] == "file_sizes"]
    assert [(one["value"], one["limit"]) for one in found] == [(2 << 30, 1 << 30)]
    said = found[0]["message"]
    assert "files of 2 MiB to 2 GiB" in said and "measures 2 MiB to 1 GiB" in said
    assert "file_sizes" not in kinds("nfs-servers"), "its text gives no sizes beside those of its command"


def test_reads_of_a_file_that_was_only_allocated_are_doubtful() -> None:
    for name in ("fsx-32-burst", "fsx-32-baseline"):
        assert "unwritten" not in kinds(name), "these write the file themselves"
    found = [one for one in published.load("fsx-32-memory").document["validity"] if one["kind"] == "unwritten"]
    assert len(found) == 1 and found[0]["cells"] == [1]


def test_what_an_article_does_not_tell_is_not_called_absent() -> None:
    target = next(line for line in show_run(published.load("nas4220-span"), 120).splitlines() if "Target" in line)
    assert "signing and encryption not reported" in target and "not signed" not in target
    own = make_run()
    own.document["target"] |= {"protocol": "smb", "signing": "aes-gmac", "encryption": None}
    said = {text for kind, text in differences([own.document], [published.load("nas4220-span").document], [])}
    assert not any("signing" in text or "encryption" in text for text in said), said
    assert "signed aes-gmac" in show_run(own, 120) and "not encrypted" in show_run(own, 120)


def test_machines_and_dates_are_told_where_an_article_tells_them() -> None:
    client = published.load("nas4220-span").document["environment"]["client"]
    assert client == {
        "machine": "Thinkpad T60", "system": "Windows XP SP2", "cpu": "Core Duo 1.83 GHz", "memory_bytes": 3 << 30,
    }  # fmt: skip
    assert published.load("fast-nas-barracuda").document["environment"]["target"]["memory_bytes"] == 1 << 30
    assert published.load("fast-nas-raptor").document["environment"]["client"]["memory_bytes"] == 512 << 20
    shown = show_run(published.load("raid5-naspt-memory"), 120)
    assert "the article is of 2009-02-15" in shown and "6,270" in shown and "3,340" in shown
    assert published.load("fast-nas-raptor").document["source"]["date"] is None


def test_no_doubt_is_written_by_hand() -> None:
    for path in (Path(published.__file__).parent).glob("*.toml"):
        text = path.read_text("utf-8")
        assert "above_l" not in text and "duplicate" not in text and "arithmetic" not in text


def test_experiments_take_numbers_and_findings_from_the_article() -> None:
    for name in ARTICLES:
        own, told = experiment.load(name), article(name)
        numbers = {one.id: (one.value, one.unit, one.place) for one in own.published}
        assert {key: (one.value, one.unit, one.place) for key, one in told.numbers.items()}.items() <= numbers.items()
        assert {one.id: (one.place, one.words) for one in own.claims} == told.findings
        assert own.source == told.source


def test_the_documented_tiers_are_those_of_the_model() -> None:
    told = article("fsx-32").tables
    for tier, row in told["tiers"].rows.items():
        known = _TIERS[int(tier)]
        assert row == (*known.network, *known.disk)
        assert told["tier-memory-gb"].rows[tier] == (known.ram_gb[2020],)
    assert len(told["tiers"].rows) == len(_TIERS)


def test_names_work_wherever_a_run_is_taken(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.db")
    assert references.load(store, "published:fsx-32-burst").cells[0]["throughput_bytes_per_s"] == 287.5e6
    with pytest.raises(UnknownRunError, match=r"near: published:fsx-32, .*naslab runs --published"):
        references.load(store, "published:fsx")
    drawn = parse_drawing([], ["published:fsx-32-baseline", "110MB/s=raw"], "")
    assert [rate for _, rate in drawn.lines] == [32e6, 110e6] and "fsx-32-baseline write" in drawn.lines[0][0]


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert list_published("raid1", "", 50, False) == 0
    told = capsys.readouterr().out
    assert "published:nas4220-raid1" in told and "raid0" not in told
    list_published("", "windows home", 50, True)
    data = json.loads(capsys.readouterr().out)
    assert {run["run_id"] for run in data["runs"]} == {f"published:fast-nas-{n}" for n in (
        "barracuda", "raptor", "vista", "drive")}  # fmt: skip
    costs = {one["id"]: one["value"] for one in data["articles"][1]["numbers"]}
    assert costs["cost-month"] == 270.72 and len(data["articles"]) == 5
    list_published("none of them", "", 50, False)
    assert "No published result fits" in capsys.readouterr().out


def test_a_mean_over_sizes_stands_beside_the_mean_of_the_same_sizes() -> None:
    rates = {1 << 20: 999e6, 64 << 20: 10e6, 256 << 20: 8e6, 1 << 30: 6e6, 2 << 30: 1e6}
    cells = [
        foreign_cell(at, "write", rate, file_bytes=size, record_bytes=64 << 10, queue_depth=1, workers=1, errors=0)
        for at, (size, rate) in enumerate(rates.items(), 1)
    ]
    theirs = published.load("nas4220-raid0").document
    found = compare([theirs], [own_run(cells).document], ("theirs", "own"))
    (row,) = found.rows
    assert (row.one, row.other) == (8811 * 1024, pytest.approx(8e6)) and row.judged.verdict is None
    vista = published.load("fast-nas-vista").document  # tells single sizes of reads, too: those stay
    reads = [{**cell, "op": "read"} for cell in cells]
    (kept,) = over_ranges([own_run(reads).document], [vista])
    assert {cell["file_bytes"] for cell in kept["cells"]} == {None, *rates}


def test_a_mean_is_drawn_over_its_sizes() -> None:
    write, _ = cases(published.load("nas4220-raid0"))
    assert write.files == [64 << 20, 1 << 30]
    assert finding(write) == "Write: 9.02 MB/s over files of 64 MiB to 1 GiB."


def test_a_small_article() -> None:
    found = parse(SEEDS, "two.toml", "two")
    assert [run.name for run in found.runs] == ["two-slow", "two-all"] and len(found.runs[1].cells) == 4
    assert found.derived[0].number.of[0].bytes_per_s == 96e6 and found.runs[0].setting.labels == {"colour": "red"}


MISTAKES = [
    ("value = 48", "value = -48", "numbers.slow.value = -48: write a number above 0"),
    ('unit = "USD"', 'unit = "EUR"', "numbers.cost.unit = 'EUR': use one of MB/s"),
    ('number = "slow"', 'number = "slw"', "number = 'slw': use one of slow, fast"),
    ('number = "slow"', 'number = "cost"', "USD is not a rate"),
    ('op = "write", file', 'op = "wrote", file', "op = 'wrote': use one of"),
    ("1m..4m", "1m..", "give both ends of the range"),
    ("1m..4m", "4m..1m", "the range is empty"),
    ("copy = [10, 10]", "copy = [10]", "rows.copy: give 2 numbers above 0"),
    (', play = "read" }', " }", "its ops do not contain play"),
    ('name = "all"', 'name = "slow"', "'two-slow' is used 2 times"),
    ('table = "all"', 'table = "none"', "table = 'none': use one of all"),
    ('table = "all"', "", "give cells, or a table and its columns"),
    ('of = ["fast", "slow"]', 'of = ["fast"]', "name two numbers or more"),
    ('how = "difference"', 'how = "sum"', "how = 'sum': use one of mean, difference"),
    ('run = "slow"', 'run = "slower"', "run = 'two-slower': no such run"),
    ('title = "Two', 'titel = "Two', "source.titel: unknown key"),
    ('link = "1Gbit/s"', 'link = "fast"', "link"),
    ("[findings]", "[findings", "correct the TOML"),
    ('words = "The faster', 'wrods = "The faster', "findings.faster.wrods: unknown key; use place, words"),
    ('protocol = "smb"', 'protocol = "ftp"', "protocol = 'ftp': use one of smb, nfs, local"),
]


@pytest.mark.parametrize(("old", "new", "said"), MISTAKES, ids=[said[:40] for _, _, said in MISTAKES])
def test_mistakes_are_refused_by_name(old: str, new: str, said: str) -> None:
    assert old in SEEDS
    with pytest.raises(UsageError) as caught:
        parse(SEEDS.replace(old, new, 1), "two.toml", "two")
    assert said in str(caught.value) and "two.toml" in str(caught.value)


def test_an_article_that_an_experiment_does_not_have() -> None:
    text = (Path(__file__).parents[1] / "sim_experiment.toml").read_text("utf-8")
    head, _, rest = text.partition("[source]")
    after = rest[rest.index("\n[") :] if "\n[" in rest else rest
    with pytest.raises(UsageError, match="no such article"):
        experiment.parse(f'{head}[source]\narticle = "none"\n{after}', "mine.toml", "mine")


def test_the_guides_article_is_one() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "published.md").read_text("utf-8")
    found = parse(guide.split("```toml\n")[1].split("```")[0], "guide", "guide")
    assert [run.name for run in found.runs] == ["guide-slow", "guide-all"]
    for name in published.names():
        stem = next(one for one in ARTICLES if name.startswith(one))
        assert f"`{name}`" in guide or f"`{name.removeprefix(stem)}`" in guide or name[:-1] == "raid5-naspt-", name


def test_ratios_without_interval_are_marks_on_the_page_and_all_of_them_are_on_the_axis() -> None:
    one, two = (load(f"published:raid5-naspt-{number}").document for number in (4, 6))
    found = compare([one], [two], ("4", "6"))
    assert "<td>none</td>" in compare_view.tables([found]) and "no end" not in compare_view.tables([found])
    figure = compare_view.ratio_figure(found.rows)
    (marks,) = figure["data"]
    assert len(marks["x"]) == 12 and not any(marks["error_x"]["array"] + marks["error_x"]["arrayminus"])
    low, high = (10**end for end in figure["layout"]["xaxis"]["range"])
    assert low < min(marks["x"]) < max(marks["x"]) < high


def test_runs_without_rates_have_no_column_beside_those_that_have() -> None:
    runs = [load(f"published:{name}") for name in ("nas4220-raid1", "nas4220-raid0", "nfs-servers")]
    table = re.search(r'<section id="results">.*?</section>', report.render(runs), re.DOTALL)
    assert table and "nas4220-raid0" in table[0] and "nfs-servers" not in table[0]


def test_a_published_run_on_a_page_tells_no_time_and_no_seed() -> None:
    body = parts([load("published:nfs-servers")]).body
    assert "1970" not in body and 'data-download="csv"' not in body and ">seed<" not in body and "run id" in body


def test_many_measurements_are_folded_and_few_are_not() -> None:
    """Of more than sixty measurements of a kind the picture draws those that tell most, and says so."""
    sizes = {"file_sizes": [1 << n for n in range(20, 30)], "record_sizes": [1 << n for n in range(12, 20)]}
    one, two = (
        make_run(label=name, run_id=name, ops=("read",), speed=speed, **sizes)
        for name, speed in (("a", 1.0), ("b", 0.9))
    )
    found = compare([one.document], [two.document], ("a", "b"))
    assert len(found.rows) > 60 and "<details><summary>" in compare_view.tables([found])
    rates = compare_view.charts([found])[0].entries[0]
    assert len([y for trace in rates["figure"]["data"] for y in trace["y"]]) == 60
    assert f"of {sum(row.key.measure == 'throughput' for row in found.rows)} measurements" in rates["caption"]
    assert "The 60 most significant ones are drawn." in rates["caption"]
    few = compare([load("published:raid5-naspt-4").document], [load("published:raid5-naspt-6").document], ("4", "6"))
    assert "<details>" not in compare_view.tables([few])
