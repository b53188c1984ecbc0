"""Experiments as data: those of the articles, and every mistake refused by file, key and value."""

from __future__ import annotations

import shlex
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naslab.analysis.claims import KINDS
from naslab.analysis.quantities import TAKES
from naslab.cli.build import parser_of
from naslab.errors import UsageError
from naslab.lab import experiment
from naslab.lab.experiment import SCALES, Experiment
from naslab.toml.tables import UNITS

ARTICLES = ("fast-nas", "fsx-32", "nas4220", "nfs-servers", "raid5-naspt")
SIM = Path(__file__).parents[1] / "sim_experiment.toml"
TEXT = SIM.read_text("utf-8")


@pytest.fixture(params=[(name, scale) for name in ARTICLES for scale in SCALES], ids="-".join)
def article(request: pytest.FixtureRequest) -> Experiment:
    return experiment.load(*request.param)


def test_all_five_are_there() -> None:
    assert tuple(experiment.built_in()) == ARTICLES


def test_every_system_can_be_described(article: Experiment) -> None:
    assert article.systems and all(one.checked is not None for one in article.systems.values())
    used = {one.system for one in article.conditions if not one.missing}
    assert used == set(article.systems), "systems that no condition uses"
    assert any(one.stands_for for one in article.systems.values())


def test_every_command_is_understood(article: Experiment) -> None:
    """Options are parsed and checked as on the command line; nothing runs."""
    lines = [(test.command, test.words) for test in article.tests.values()]
    lines += [(words[0], words[1:]) for one in article.conditions for words in one.beside]
    for command, words in lines:
        context = parser_of(command).make_context(command, ["sim:", *words])
        assert context.params.get("target") in ("sim:", None)


def test_full_sizes_are_the_larger_ones() -> None:
    for name in ARTICLES:
        quick, scaled, full = (experiment.load(name, scale) for scale in SCALES)
        assert [one.id for one in quick.claims] == [one.id for one in scaled.claims] == [one.id for one in full.claims]
        sizes = [
            sum(one.checked.capacity_bytes for one in each.systems.values() if one.checked) for each in (scaled, full)
        ]
        assert sizes[0] < sizes[1]
        assert quick.repeats >= 3 and scaled.repeats >= 3


def test_every_claim_has_a_test_or_a_reason(article: Experiment) -> None:
    assert len(article.claims) >= 10
    for claim in article.claims:
        assert claim.place and claim.words.endswith(".")
        assert bool(claim.sides) != bool(claim.not_testable)
        assert claim.kind in KINDS


def test_numbers_that_the_articles_print() -> None:
    found = {name: {one.id: one for one in experiment.load(name).published} for name in ARTICLES}
    assert found["fast-nas"]["write-2g-raptor"].scaled == 80e6
    assert found["nas4220"]["write-raid1"].scaled == 7597 * 1024
    assert found["fsx-32"]["cached"].scaled == found["fsx-32"]["cached-link"].scaled == 625e6
    assert found["fsx-32"]["zip-time"].scaled == 99e9
    assert found["raid5-naspt"]["naspt.FileCopyToNAS.run 6"].value == 806.578
    assert len([one for one in found["raid5-naspt"] if one.startswith("naspt.")]) == 72


def test_published_numbers_agree_with_one_another() -> None:
    box = {one.id: one.value for one in experiment.load("nas4220").published}
    assert box["write-raid0"] - box["write-raid1"] == box["write-raid-difference"]
    assert box["read-raid0"] - box["read-raid1"] == box["read-raid-difference"]
    assert box["write-ext2"] - box["write-span"] == box["write-ext-difference"]
    assert box["read-ext2"] - box["read-span"] == 1431 != box["read-ext-difference"]
    runs = {one.id: one for one in experiment.load("raid5-naspt").published}
    means = {one.group: one.value for one in runs.values() if one.id.startswith("average.")}
    for name, mean in means.items():
        assert sum(runs[f"naspt.{name}.run {at}"].value for at in range(1, 7)) / 6 == pytest.approx(mean, abs=0.006)


def test_published_ratios_come_from_published_numbers() -> None:
    claims = {one.id: one for one in experiment.load("nas4220").claims}
    assert claims["raid0-writes-faster"].published == pytest.approx(8811 / 7597)
    assert experiment.load("fsx-32").claims[3].published == pytest.approx(625 / 600)


def test_a_scaled_box_is_three_times_as_fast() -> None:
    assert [experiment.load("nas4220", scale).speed for scale in SCALES] == [3, 3, 1]
    assert experiment.load("fast-nas").speed == 1
    with pytest.raises(UsageError, match=r"speed = 0: write a number above 0"):
        experiment.parse(f"speed = 0\n{TEXT}", "e.toml", "e")


def test_a_system_like_another_keeps_what_it_does_not_change() -> None:
    systems = experiment.load("fast-nas").systems
    raptor, plain = systems["raptor"].checked, systems["raptor-single"].checked
    assert raptor is not None and plain is not None
    assert raptor.server == plain.server and raptor.volume.level == "duplicated" and plain.volume.level == "pool"
    assert plain.volume.mode is None, "a table with a level of its own begins anew"


def test_the_tiers_network_has_the_credit_that_is_documented() -> None:
    for scale in SCALES:
        found = experiment.load("fsx-32", scale)
        tier, spent = (found.systems[name].checked for name in ("tier-32", "tier-32-network"))
        assert tier is not None and spent is not None and tier.link is not None and spent.link is not None
        assert (tier.disks, tier.server) == (spent.disks, spent.server), "only the network differs"
        rates, burst = {one.id: one.scaled for one in found.published}, spent.link.burst
        assert burst is not None and (burst.rate_bytes_per_s, burst.base_bytes_per_s) == (
            rates["tier-network"], rates["tier-baseline"],
        )  # fmt: skip
        assert tier.link.rate_bits_per_s == 8 * burst.rate_bytes_per_s


def test_the_pool_of_four_differs_in_its_number_of_drives_alone() -> None:
    for scale in SCALES:
        systems = experiment.load("fast-nas", scale).systems
        two, four = systems["home-server-1g"].checked, systems["home-server-four"].checked
        assert two is not None and four is not None
        assert (len(two.disks), len(four.disks), {each.rate_bytes_per_s for each in four.disks}) == (2, 4, {67 * 10**6})
        assert (four.server, four.link, four.volume) == (two.server, two.link, two.volume)


def test_the_slow_device_works_at_a_client_of_its_own() -> None:
    found = experiment.load("nas4220")
    alone, mixed = found.condition("quick-alone"), found.condition("quick-and-slow")
    assert (alone.beside, mixed.beside_client, alone.system) == ((), 2, mixed.system)
    assert mixed.beside_words[0].endswith("1h, at client 2")
    made = found.systems[mixed.system].checked
    assert made is not None and made.clients.own_bits_per_s == (3 * 10**9, 3 * 10**8)


def test_the_guides_example_is_one() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "experiments.md").read_text("utf-8")
    found = experiment.parse(guide.split("```toml\n")[1].split("```")[0], "guide", "guide")
    assert [one.id for one in found.claims] == ["faster-disk-writes-faster"]
    for word in (*ARTICLES, *KINDS, *UNITS, *TAKES, "not_testable", "beside"):
        assert word in guide, word


def test_every_system_can_be_built_by_a_backend(article: Experiment) -> None:
    """What a backend never builds; what this machine lacks is another matter."""
    from naslab.lab.guest import backend as guest
    from naslab.lab.native import backend as native

    for system in article.systems.values():
        assert system.checked is not None
        assert not native.refusals(system.checked) or not guest.refusals(system.checked), system.name


def test_a_file_is_an_experiment_too() -> None:
    found = experiment.load(str(SIM))
    assert found.name == "sim_experiment" and found.repeats == 4 and experiment.load(str(SIM), "full").repeats == 6


MISTAKES = [
    ('title = "Sim', 'titel = "Sim', "titel: unknown key; use title"),
    ('large = ["32m", "256m"]', 'large = "32m"', "values.large = '32m': write texts"),
    ('large = ["32m", "256m"]', "", "[values] has no 'large'"),
    ("[values]", '[values]\nspare = ["1", "2"]', "values.spare: it is not used"),
    ("repeats = [4, 6]", "repeats = 0", "repeats = 0: write a whole number from 1"),
    ("repeats = [4, 6]", "repeats = 4\nmargin = 2", "margin = 2: write a share"),
    ('command = "sweep"', 'command = "rm"', "tests.files.command = 'rm': use one of sweep"),
    ('options = "--file', "options = \"'--file", "close the quotes"),
    ('system = "slow"', 'system = "slw"', "condition[slow].system = 'slw': use one of slow, fast"),
    ('id = "fast"\nwhat', 'id = "slow"\nwhat', "'slow' is used 2 times"),
    ('id = "slow"', 'id = "s l"', "give at most 64 letters"),
    ('missing = "cannot exist here"', "", "condition[elsewhere].system is missing"),
    ('server = { kind = "samba" }', 'server = { kind = "sambo" }', "kind = 'sambo'"),
    ('server = { kind = "samba" }', 'server = { kind = "samba" }\ntarget = "sim:"', "an address has no parts"),
    ('server = { kind = "samba" }', 'like = "nobody"', "systems.parts.like = 'nobody': no such system"),
    ('server = { kind = "samba" }', 'like = "parts"', "it refers to itself"),
    ('value = "50MB/s"', 'value = "fast"', "limits.disk.value"),
    ("value = 48", "value = -1", "published[slow-write].value = -1: write a number above 0"),
    ('value = 48\nunit = "MB/s"', 'value = 48\nunit = "kB"', "unit = 'kB': use one of MB/s"),
    ('chart = "write"', 'chart = "wrote"', "chart = 'wrote': no such chart; use write"),
    ("two = [2.5, 2.5]", "two = [2.5]", "rows.two: give 2 numbers above 0"),
    (
        'op = "write", file = "{large}" }\nto',
        'op = "write", fiel = "{large}" }\nto',
        "unknown key; use condition, test",
    ),
    ('to = { condition = "slow" }', 'to = { condition = "none" }', "claim[true-more].to.condition = 'none'"),
    ('file = "1m", record', 'file = "4m..1m", record', "the range is empty"),
    ('take = "knee"', 'take = "bend"', "take = 'bend': use one of mean"),
    ('expect = "more"', 'expect = "most"', "expect = 'most': use one of more, less, same"),
    ('expect = "more"', "", "give expect = more, less or same, or range"),
    ("range = [0.93, 1.07]", "range = [1.07, 0.93]", "range = [1.07, 0.93]: write [low, high]"),
    ('limit = "disk"\nrange', 'limit = "disc"\nrange', "limit = 'disc': use one of"),
    ('kind = "limit"', 'kind = "ratio"', "true-limit].to: is missing"),
    ('conditions = ["slow", "fast"]', 'conditions = ["slow"]', "an order has two conditions or more"),
    ('published = "fast-write / slow-write"', 'published = "fast-write"', "write a number, or `a / b`"),
    ('not_testable = "it is', 'expect = "more"\nnot_testable = "it is', "a claim is tested or not"),
    ('system = "slow"', 'system = "slow"\nbeside_client = 2', "beside_client = 2: write a whole number from 1 to 1"),
    ('limits = ["disk", "memory"]', 'limits = ["disk", "cpu"]', "chart[write].limits: 'cpu': no such limit"),
    ('kind = "surface"', 'kind = "cake"', "kind = 'cake': use one of line, bars, surface, time"),
    ('value = "write" }', 'value = "iops" }', "chart[course].of.value = 'iops': use one of throughput, read, write"),
    ('value = "write" }', 'take = "most" }', "chart[course].of.take: a chart over time shows the median repeat"),
    ('kind = "time"', 'kind = "time"\nunit = "USD"', "chart[course].unit = 'USD': a rate over time is in MB/s"),
    ('"slow-write", "fast-write"]', '"table.one.run 3"]', "chart[course].published: 'table.one.run 3': no such rate"),
    ('kind = "surface"', 'kind = "surface"\npublished = ["slow-write"]', "chart[surface].published: only of time"),
    ('kind = "surface"', 'kind = "surface"\ngroups = { a = {} }', "chart[surface].groups: only of bars"),
    ('kind = "bars"', 'kind = "line"', "groups: only of bars"),
    ("[[chart]]", "[chart", "correct the TOML"),
]


@pytest.mark.parametrize(("old", "new", "said"), MISTAKES, ids=[said[:40] for _, _, said in MISTAKES])
def test_mistakes_are_refused_by_name(old: str, new: str, said: str) -> None:
    assert old in TEXT
    with pytest.raises(UsageError) as caught:
        experiment.parse(TEXT.replace(old, new, 1), "mine.toml", "mine")
    assert said in str(caught.value) and "mine.toml" in str(caught.value)


JUNK = (
    "1",
    "-1",
    "true",
    '"x"',
    "[]",
    "{}",
    "[1]",
    '["a"]',
    "{a=1}",
    "inf",
    "nan",
    '""',
    "[{}]",
    '"{nope}"',
    "2026-01-01",
)
LINES = ("x = 1", "[x]", "[[claim]]", "[tests]", "[systems.q]", 'like = "q"', "base = true")


@settings(max_examples=300)
@given(st.sampled_from(sorted(experiment.built_in())), st.randoms(use_true_random=False))
def test_damaged_files_are_refused_in_order(name: str, random: Random) -> None:
    lines = (TEXT if random.random() < 0.3 else experiment.built_in()[name]).split("\n")
    at, kind = random.randrange(len(lines)), random.random()
    if kind < 0.6 and " = " in lines[at]:
        lines[at] = lines[at].split(" = ")[0] + " = " + random.choice(JUNK)
    elif kind < 0.8:
        lines[at] = ""
    else:
        lines.insert(at, random.choice(LINES))
    try:
        experiment.parse("\n".join(lines), "mine.toml", "mine")
    except UsageError as error:
        assert "mine.toml" in str(error) and "\n" not in str(error).replace("\\n", "")


def test_unknown_names_and_files_are_refused() -> None:
    with pytest.raises(UsageError, match="no such experiment; use one of fast-nas"):
        experiment.load("fast-nsa")
    with pytest.raises(UsageError, match=r"nowhere.toml: No such file"):
        experiment.load("nowhere.toml")


def test_quoted_words_stay_together() -> None:
    text = TEXT.replace("--tests write,read", "--tests write,read --note 'two words'", 1)
    assert experiment.parse(text, "f", "n").tests["files"].words[-1] == "two words"
    assert shlex.split("a 'b c'") == ["a", "b c"]
