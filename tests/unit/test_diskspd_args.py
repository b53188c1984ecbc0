"""DiskSpd's command line: the table, sizes, contradictions, the article's lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diskspd_fixtures import planned
from naslab.commands.diskspd import options
from naslab.commands.diskspd.args import letters, parse
from naslab.commands.diskspd.options import DISKSPD, NASLAB, help_text, reference_text
from naslab.commands.diskspd.profile import TargetSpec
from naslab.commands.diskspd.sizes import MAX_BYTES, parse_bytes, shown, shown_old
from naslab.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]
LETTERS_2_2 = "?:aBbCcDdeFfghIijLlNnOoPpRrSsTtvWwXxyZz"
"""The letters of DiskSpd 2.2's usage text."""
WRITE_LINE = "-d900 -s1M -w100 -t1 -o32 -b1M -Sr -L"
READ_LINE = "-d900 -s1M -r100 -t1 -o32 -b1M -Sr -L"


def target_of(line: str) -> TargetSpec:
    return parse(f"{line} f".split()).profile.spans[0].targets[0]


def refused(line: str) -> str:
    """What is said about a line that must not run, from its reading to its plan."""
    with pytest.raises(UsageError) as caught:
        planned(line, {"f": 1 << 30, "g": 1 << 30})
    return str(caught.value)


def test_table_and_parser_cover_every_letter() -> None:
    assert "".join(sorted(LETTERS_2_2)) == letters()
    assert {option.flag[1] for option in DISKSPD} == set(LETTERS_2_2)
    assert "k" not in letters()


def test_every_form_is_told_in_help_and_reference() -> None:
    page, text = reference_text(), help_text()
    assert (ROOT / "docs" / "reference" / "diskspd.md").read_text(encoding="utf-8") == page, "run tools/make-docs"
    for option in (*DISKSPD, *NASLAB):
        assert f"{option.flag}" in page and option.meaning in text
        assert option.how not in ("changed", "no effect", "refused") or option.note, f"{option.flag} gives no reason"
    assert parse(["-?"]).help and parse([]).help and parse(["-d5", "--help"]).help


REFUSED = {
    "-: FLAGS": "-:1", "-e ...": "-eDISK_IO", "-I 1, -I2": "-I1", "-N n, -Ni": "-Nn -Sm",
    "-p ": "-p", "-v s": "-vs", "-y s|f|r|p|e NAME": "-ysgo", "-Z SIZE,FILE": "-Z1M,data.bin",
}  # fmt: skip


def test_refused_options_say_why() -> None:
    table = {f"{o.flag} {o.operand}": o for o in DISKSPD if o.how == "refused"}
    assert set(table) == set(REFUSED)
    for name, line in REFUSED.items():
        assert table[name].note in refused(f"{line} f")
    assert "-I2" in refused("-I2 f") and "-Ni" in refused("-Ni -Sm f")


NO_EFFECT = ("-a", "-ag", "-frst", "-I3", "-l", "-n", "-x")


@pytest.mark.parametrize("word", NO_EFFECT)
def test_options_without_effect_are_told(word: str) -> None:
    request = parse([word, "f"])
    assert len(request.notes) == 1 and request.notes[0].startswith(word[:2])


def test_every_implemented_option_reaches_the_profile() -> None:
    """Each form that is not refused and has an effect changes what is run or printed."""
    forms = {
        "-a": "-a0,1", "-b": "-b4K", "-B": "-B1M:8M", "-c": "-c1M", "-C": "-C1", "-d": "-d3", "-D": "-D100",
        "-f": "-f1M", "-F": "-F2", "-g": "-g5", "-h": "-h", "-i": "-i5 -j5", "-j": "-i5 -j6", "-L": "-L",
        "-N": "-Sm -Nv", "-o": "-o3",
        "-O": "-F1 -O3", "-P": "-P5", "-r": "-r", "-rs": "-rs50", "-rd": "-r -rdpct90/10", "-R": "-Rxml", "-Rp": "-Rp",
        "-s": "-s1", "-si": "-si -t2", "-S": "-Su", "-t": "-t2", "-T": "-T1M -t2", "-v": "-v", "-w": "-w5", "-W": "-W1",
        "-z": "-z7", "-Z": "-Z", "-X": "", "-?": "",
    }  # fmt: skip
    effective = {o.flag for o in DISKSPD if o.how in ("implemented", "changed")}
    assert effective == set(forms)
    plain = parse(["f"]).profile
    for flag, line in forms.items():
        if line:
            found = parse(f"{line} f".split()).profile
            found.command_line = plain.command_line
            assert found != plain, flag


SIZES = {"0": 0, "100": 100, "64K": 1 << 16, "64k": 1 << 16, "1M": 1 << 20, "8G": 8 << 30, "2T": 2 << 40, "3b": 12288}


def test_size_grammar() -> None:
    for text, size in SIZES.items():
        assert parse_bytes("-c", text, 4096) == size
    for text in ("", "K", "1.5M", "1 M", "-1", "1KB", "1MiB", "0x10", "１", "1KK", "99999999999999999999", "20000000T"):
        with pytest.raises(UsageError, match="-c"):
            parse_bytes("-c", text, 4096)


@given(st.integers(0, MAX_BYTES), st.sampled_from(["", *"bkmgtBKMGT"]), st.integers(1, 1 << 20))
def test_sizes_are_read_exactly_or_refused(number: int, unit: str, block: int) -> None:
    factor = block if unit in ("b", "B") else 1 << (10 * " KMGT".index(unit.upper())) if unit else 1
    if number * factor > MAX_BYTES:
        with pytest.raises(UsageError):
            parse_bytes("-c", f"{number}{unit}", block)
    else:
        assert parse_bytes("-c", f"{number}{unit}", block) == number * factor


@given(st.text(max_size=8))
def test_no_text_breaks_the_size_reader(text: str) -> None:
    try:
        assert 0 <= parse_bytes("-c", text, 512) <= MAX_BYTES
    except UsageError as error:
        assert "-c" in str(error)


@given(
    st.lists(
        st.sampled_from(["-r", "-rs", "-rd", "-s", "-Su", "-B", "-f1", "-Z", "-a0", "-z", "x", "9", "K", "/", ":", ","])
    )
)
def test_no_line_breaks_the_parser(parts: list[str]) -> None:
    for line in (["".join(parts), "f"], [*parts, "f"]):
        try:
            parse(line)
        except UsageError as error:
            assert str(error)


def test_sizes_as_printed() -> None:
    assert [shown(size) for size in (8 << 30, 2_000_000_000, 65536, 100, 1 << 40, 1536)] == [
        "8GiB", "1.86GiB", "64KiB", "100", "1TiB", "1.50KiB",
    ]  # fmt: skip
    assert [shown_old(size) for size in (8 << 30, 2_000_000_000, 11 << 30, 10240, 65536)] == [
        "8192MiB", "1907MiB", "11GiB", "10240B", "64KiB",
    ]  # fmt: skip


REJECTED = {
    "-n -a0 f": "-n and -a parameters cannot be used together",
    "-F2 -t2 f": "-F and -t parameters cannot be used together",
    "-g5 -x f": "-g throughput control cannot be used with -x",
    "-F2 -O2 -g5 f": "-g throughput control cannot be used with -O",
    "-F2 -O2 -i1 -j5 f": "-j think time cannot be used with -O",
    "-F2 -O2 -p f": "-p parallel IO cannot be used with -O",
    "-O2 f": "-O belongs to -F",
    "-r -T1M -t2 f": "-T conflicts with -r",
    "-r -si f": "sequential IO (-s) conflicts with random IO",
    "-r -p f": "-p conflicts with -r",
    "-si -T1M -t2 f": "-si conflicts with -T",
    "-si -p f": "-si conflicts with -p",
    "-T1M f": "-T has no effect unless multiple threads",
    "-rdpct90/10 f": "do not apply to sequential-only",
    "-Sm -x f": "completion routines (-x) can't be used with memory mapped IO",
    "-Sm -Su f": "-Su conflicts with earlier specification of cache mode/memory mapped IO",
    "-Su -Sm f": "-Sm conflicts with earlier specification of memory mapped IO/unbuffered IO",
    "-Sm -Sh f": "-Sh conflicts with earlier specification",
    "-Nv f": "(-N) can only be specified with memory mapped IO (-Sm)",
    "-Z1K f": "smaller than the block size",
    "-B2M -f1M f": "(-f) target offset must be greater than base (-B)",
    "-B1M:1M -f4M f": "can only be specified once",
    "-Sb -Su f": "-Su conflicts", "-Sbr f": "-Sr conflicts", "-Sww f": "-Sw conflicts", "-h -Su f": "-Su conflicts",
    "-Sw -h f": "-h conflicts",
    "-i5 f": "need to specify -j<think time> with -i<burst size>", "-j5 f": "need to specify -j",
    "-s -s4K f": "sequential IO (-s) specified multiple times", "-r -r4K f": "random IO (-r) specified multiple times",
    "-rs50 -rs60 f": "(-rs) specified multiple times", "-s -rs50 f": "use -r to specify IO alignment",
    "-rs50 -s f": "use -r to specify IO alignment for -rs", "-r0 f": "invalid alignment passed to -r",
    "-w f": "no write ratio passed to -w", "-w101 f": "-w101", "-d0 f": "-d0", "-d10s f": "-d10s", "-o2x f": "-o2x",
    "-t0 f": "-t0", "-o f": "-o", "-Rjson f": "invalid results format", "-R f": "invalid results format",
    "f -d5": "must come before targets", "-d5": "need to provide at least one filename", "-k f": "invalid option: '-k'",
    "-Sx f": "unrecognized option provided to -S", "-b0 f": "invalid block size", "-Nx -Sm f": "-Nx", "-T0 f": "-T",
    "-rdabc1/2 -r f": "unrecognized random distribution", "-rdpct90 -r f": "expected / separator",
    "-rdpct90/100 -r f": "IO left to distribute", "-rdpct60/10:60/10 -r f": "total must be <= 100%",
    "-rdpct50/60:50/60 -r f": "total must be 100%", "-rdabs50/1K -r f": "minimum of the block size",
    "-rdabs50/0 -r f": "invalid zero length", "-ax f": "syntax error parsing affinity", "-vx f": "invalid verbose mode",
    "-X": "the file is missing", "-Xa -Xb": "multiple XML profiles", "-Xa -w5": "-w5 not compatible with -X",
    "--compat 1 f": "--compat 1", "--nonsense f": "--nonsense", "--quiet=1 f": "--quiet takes no value",
    "--store": "--store: FILE is missing", "-c4K f": "smaller than one block", "-c0 f": "smaller than one block",
}  # fmt: skip


@pytest.mark.parametrize("line", REJECTED)
def test_contradictions_are_rejected(line: str) -> None:
    assert REJECTED[line] in refused(line)


def test_profiles_check_si_against_r_too(tmp_path: Path) -> None:
    path = tmp_path / "p.xml"
    path.write_text(
        "<Profile><TimeSpans><TimeSpan><Targets><Target><Path>f</Path><Random>4096</Random>"
        "<InterlockedSequential>true</InterlockedSequential></Target></Targets></TimeSpan></TimeSpans></Profile>"
    )
    assert "-si conflicts with -r" in refused(f"-X{path}")


def test_warnings() -> None:
    assert any("will not be sequential" in note for note in parse(["-t2", "f"]).notes)
    assert any("-si ignored" in note for note in parse(["-si", "f"]).notes)
    assert any("-p does not have effect" in note for note in parse(["-p", "-o1", "f"]).notes)
    planned("-p -o1 f", {"f": 1 << 20})
    for line in ("-t2 -si f", "-t2 -T1M f", "-t2 -r f", "-t1 f"):
        assert not parse(line.split()).notes


def test_the_articles_write_line() -> None:
    span = parse([*WRITE_LINE.split(), r"\\server\share\f.dat"]).profile.spans[0]
    target = span.targets[0]
    assert (span.duration_s, span.warmup_s, span.latency) == (900, 5, True)
    assert (target.block_bytes, target.outstanding, target.write_pct, target.threads) == (1 << 20, 32, 100, 1)
    assert (target.random_pct, target.step_bytes, target.cache) == (0, 1 << 20, "remote")


def test_the_articles_read_line_is_an_error_today() -> None:
    message = refused(f"{READ_LINE} f")
    assert "sequential IO (-s) conflicts with random IO (-r/-rs): -s1M -r100" in message
    assert "2.0.21a took -r silently" in message and "not a share of reads" in message and "--compat 2.0.21" in message
    assert "-r100 -s1M" in refused("-r100 -s1M f")


def test_the_articles_read_line_as_it_was() -> None:
    request = parse(["--compat", "2.0.21", *READ_LINE.split(), "f"])
    target = request.profile.spans[0].targets[0]
    assert (target.random_pct, target.step_bytes, target.write_pct) == (100, 100, 0)
    assert any("-s1M is overridden by -r100" in note for note in request.notes)
    later = parse(["--compat=2.0.21", "-r100", "-s1M", "f"]).profile.spans[0].targets[0]
    assert (later.random_pct, later.step_bytes) == (100, 1 << 20)


@pytest.mark.parametrize("word", ["-rs50", "-rdpct90/10", "-B1M:1M", "-g5i", "-Rp", "-vs", "-c1T"])
def test_what_2_0_21a_lacks_is_refused_there(word: str) -> None:
    with pytest.raises(UsageError, match=r"2\.0\.21a"):
        parse(["--compat", "2.0.21", "-r", word, "f"])


def test_own_options_stand_anywhere_and_take_both_forms() -> None:
    request = parse(["--store=a.db", "-d5", "f", "--overwrite", "--timeout", "5s", "--label", "a=b", "--label=c=d"])
    own = request.own
    assert (own.store, own.overwrite, own.timeout, own.labels) == ("a.db", True, "5s", ["a=b", "c=d"])
    assert request.profile.spans[0].targets[0].path == "f"


def test_defaults_are_diskspds() -> None:
    span, target = parse(["f"]).profile.spans[0], target_of("")
    assert (span.duration_s, span.warmup_s, span.cooldown_s, span.seed, span.bucket_ms) == (10, 5, 0, 0, 1000)
    assert (target.block_bytes, target.outstanding, target.threads, target.write_pct) == (65536, 2, 1, 0)
    assert (target.cache, target.cache_given, target.random_pct, target.step_bytes) == ("cached", False, 0, 65536)


def test_cache_letters() -> None:
    for line, expected in {
        "-Su": ("none", False, False), "-S": ("none", False, False), "-Sh": ("none", True, False),
        "-h": ("none", True, False), "-Suw": ("none", True, False), "-Swu": ("none", True, False),
        "-Sw": ("cached", True, False), "-Sbw": ("cached", True, False), "-Sr": ("remote", False, False),
        "-Srw": ("remote", True, False), "-Sm": ("cached", False, True), "-Sr -Sw": ("remote", True, False),
    }.items():  # fmt: skip
        target = target_of(line)
        assert (target.cache, target.write_through, target.mmap) == expected, line


def test_blocks_are_a_unit_wherever_b_stands() -> None:
    assert target_of("-c10b -b4K").file_bytes == 40960
    assert target_of("-b4K -r2b").step_bytes == 8192
    assert target_of("-b4K -s").step_bytes == 4096 and target_of("-r -b4K").step_bytes == 4096


def test_seed() -> None:
    assert parse(["-z42", "f"]).profile.spans[0].seed == 42
    assert parse(["-z", "f"]).profile.spans[0].seed > 0
    assert "-z4294967296" in refused("-z4294967296 f")


def test_passwords_are_not_kept() -> None:
    profile = parse(["-d5", "smb://me:secret@nas/share/f"]).profile
    assert "secret" not in profile.command_line and "secret" not in profile.spans[0].targets[0].shown


def test_notes_come_from_the_table() -> None:
    assert options.note("-n") in parse(["-n", "f"]).notes[0]
