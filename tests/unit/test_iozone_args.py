"""IOzone's getopt, sizes, refusals and warnings."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naslab.commands.iozone.args import Args
from naslab.commands.iozone.checks import parse
from naslab.commands.iozone.options import BY_FLAG, OPTIONS, help_text, reference_text
from naslab.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]


def refusal(line: str) -> str:
    with pytest.raises(UsageError) as caught:
        parse(line.split())
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_letters_bundle_as_getopt_reads_them(tmp_path: Path) -> None:
    out = tmp_path / "out.xls"
    for argv in (["-Rab", str(out)], [f"-Rab{out}"], ["-R", "-a", "-b", str(out)]):
        args = parse(argv)
        assert (args.report, args.auto, args.excel) == (True, True, str(out))


def test_plus_options_take_the_next_argument() -> None:
    args = parse(["-+u", "-+x", "4", "-Ra+n", "-g", "64"])
    assert args.cpu and args.multiplier == 4 and args.no_retest and args.report and args.auto
    assert "-+w 50" in refusal("-+w50")
    assert "-+uR" in refusal("-+uR")


def test_b_implies_the_report(tmp_path: Path) -> None:
    assert parse(["-b", str(tmp_path / "x.xls")]).report


@pytest.mark.parametrize(
    ("text", "kib"), [("64", 64), ("64k", 64), ("64K", 64), ("2m", 2048), ("2M", 2048), ("1g", 1 << 20)]
)
def test_sizes_are_kib(text: str, kib: int) -> None:
    assert parse(["-s", text]).sizes == [kib]


@pytest.mark.parametrize("text", ["1.5m", "2x", "", "0", "-4", "4kb", "k"])
def test_what_iozone_would_cut_off_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="-s"):
        parse(["-s", text])


@given(st.lists(st.text(max_size=12), max_size=6))
def test_any_argument_vector_parses_or_is_a_usage_error(argv: list[str]) -> None:
    try:
        assert isinstance(parse([word for word in argv if not word.startswith("-b")]), Args)
    except UsageError as error:
        assert str(error)


def test_repeated_sizes_make_a_list_and_switch_auto_mode_on() -> None:
    args = parse(["-s", "1m", "-s", "64", "-s", "64", "-r", "4"])
    assert args.automatic and args.sizes == [64, 1024]
    assert any("ascending" in warning for warning in args.warnings)
    assert not parse(["-s", "1m"]).automatic


@pytest.mark.parametrize("flag", ["-n", "-g", "-y", "-q"])
def test_auto_bounds_without_auto_mode_say_so(flag: str) -> None:
    message = refusal(f"{flag} 64")
    assert flag in message and "-a" in message


@pytest.mark.parametrize("option", [option for option in OPTIONS if option.how == "refused"], ids=lambda o: o.flag)
def test_refused_options_say_their_name_and_why(option: object) -> None:
    message = refusal(f"{option.flag} x")  # type: ignore[attr-defined]
    assert option.flag in message and option.note in message  # type: ignore[attr-defined]


def test_options_between_iozones_own_processes_point_at_the_cluster_file() -> None:
    assert "-+m FILE" in refusal("-+s") and "-+m FILE" in refusal("-+c host")


def test_options_without_effect_are_named() -> None:
    args = parse(["-p", "-m", "-S", "512", "-L", "64", "-s", "64", "-T", "-C", "-x"])
    for flag in ("-p", "-m", "-S", "-L", "-T", "-C", "-x"):
        assert any(warning.startswith(f"{flag} has no effect") for warning in args.warnings), flag


@pytest.mark.parametrize(
    ("line", "flags"),
    [
        ("-t 2 -f x", ("-f", "-t", "-F")), ("-F a b", ("-F", "-t")), ("-a -t 2", ("-t", "-a")),
        ("-t 2 -n 64", ("-n", "-t")), ("-t 2 -U /mnt", ("-U", "-t")), ("-t 2 -N", ("-N", "-O")),
        ("-O -N", ("-O", "-N")), ("-t 2 -l 1", ("-t", "-l")), ("-l 3 -u 2", ("-l", "-u")),
        ("-a -s 64 -g 128", ("-s", "-g")), ("-a -r 4 -q 64", ("-r", "-q")), ("-I -B", ("-I", "-B")),
        ("-a -n 1m -g 64", ("-n", "-g")), ("-a -y 64 -q 16", ("-y", "-q")), ("-r 32m -s 64m", ("-r", "16m")),
        ("-i 13", ("-i", "12")), ("-i x", ("-i",)), ("-t 0", ("-t",)), ("-V 256", ("-V", "255")),
        ("-W -+l", ("-W", "-+l")), ("-V 1 -+d", ("-V", "-+d")), ("-+J", ("-+J", "-J")),
        ("-+E", ("-+E", "-i")), ("-+E -i 0 -f x", ("-+E", "-i")), ("-i 8", ("8", "-t")),
        ("-t 2 -F a", ("-F", "2")), ("-t 2 -F a a", ("-F",)), ("--umount-command true", ("--umount-command", "-U")),
        ("-s", ("-s",)), ("-@", ("-@",)), ("foo", ("foo",)), ("--seed", ("--seed",)), ("--json=1", ("--json",)),
        ("-b /nonexistent/x.xls", ("-b",)), ("-i 1 -f /nonexistent/file", ("/nonexistent/file", "-i 0")),
        ("-z", ("-z", "-a")), ("--iozone-data --verify", ("--iozone-data", "--verify")),
    ],
)  # fmt: skip
def test_contradictions_name_the_options(line: str, flags: tuple[str, ...]) -> None:
    message = refusal(line)
    for flag in flags:
        assert flag in message


def test_extension_tests() -> None:
    args = parse(["-i", "0", "-i", "11", "-i", "12", "-s", "64"])
    assert args.tests == [0, 9, 10] and args.extensions
    assert any("test 11 is carried out as test 9" in warning for warning in args.warnings)
    assert parse(["-s", "64", "-E"]).tests == [0, 1, 2, 3, 4, 5, 6, 7, 9, 10]
    assert parse(["-t", "2"]).tests == [0, 1, 2, 3, 5, 6, 7, 8]


def test_compressible_data_only_when_asked_for() -> None:
    assert any("--iozone-data" in warning for warning in parse(["-s", "64"]).warnings)
    assert not any("compress" in warning for warning in parse(["-s", "64", "--iozone-data"]).warnings)


def test_names_before_or_after_the_count() -> None:
    assert parse(["-F", "a", "b", "-t", "2"]).names == parse(["-t", "2", "-F", "a", "b"]).names == ["a", "b"]


def test_names_from_a_file(tmp_path: Path) -> None:
    listing = tmp_path / "names"
    listing.write_text("a\n\nb\n")
    assert parse(["-t", "2", "-+R", str(listing)]).names == ["a", "b"]


def test_every_option_has_a_place() -> None:
    names = set(Args.__dataclass_fields__)
    for option in OPTIONS:
        assert option.how == "refused" or option.dest in names, option.flag
        assert option.how not in ("refused", "no effect") or option.note, option.flag
        assert option.flag in help_text()


@pytest.mark.skipif(shutil.which("iozone") is None, reason="iozone is not installed")
def test_every_option_of_iozones_own_help_is_known() -> None:
    text = subprocess.run(["iozone", "-h"], capture_output=True, text=True, check=False).stdout
    flags = set(re.findall(r"^ +(-\+?[A-Za-z])(?= )", text, re.MULTILINE))
    assert len(flags) > 80
    assert flags <= set(BY_FLAG)


def test_the_reference_is_fresh() -> None:
    path = ROOT / "docs/reference/iozone.md"
    assert path.read_text() == reference_text(), "run tools/make-docs"
