"""Every command of README.md and docs runs as it stands there, on a machine without servers, root or time.

What is not there has a stand-in (STAND_INS, FILES), what takes long is made small (SMALLER); both are all that is
changed about a command. What cannot run here is parsed (ELSEWHERE, or the block's own mark).
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

import shares
from cli_tools import HANG_S, Done, called
from docs_pages import ROOT, Block, Command, blocks, blocks_of, commands, environment, masked, pages
from naslab.cli.build import parser_of
from naslab.cli.lookup import choose
from naslab.commands.diskspd import args as diskspd
from naslab.commands.iozone import checks as iozone
from otlp_collector import listening

SIM = "sim:?link_bytes_per_s=1GB&latency_ns=100us&disk_read_bytes_per_s=400MB&disk_write_bytes_per_s=300MB"
SIM += "&server_cache_bytes=64m&capacity_bytes=2t"
SERVER = re.compile(r"^((smb|nfs)://[^ ]+/[^ ]+|lab:.*|TARGET(-\d)?)$")
MOUNT = re.compile(r"^(/mnt/\w+|smb://\w+@nas/\w+|nfs://\w+/\w+|lab:\w+)(?=[/?]|$)(\?.*)?")
COLLECTOR = re.compile(r"^http://[\w.]+:4318$")
REAL = ("job", "durable", "replay", "diskspd", "iozone", "doctor")
"""Commands whose stand-in is a folder; others take the simulated server SIM."""
STORED = re.compile(r"^(RUN|OTHER)(-[\w-]+)?$|^20\d{6}-\d{6}-\w{4}$")
"""Words for a run: one of those in the store."""
SMALLER: dict[str, dict[str, str]] = {
    "run": {"--budget": "1s"},
    "sweep": {"--file-size": "64k..256k", "--record": "64k..128k", "--repeat": "1"},
    "sustained": {"--size": "64m", "--duration": "1s", "--repeat": "1"},
    "burst": {"--size": "64m", "--budget": "2s"},
    "cache speed": {"--size": "8m", "--duration": "1s", "--evict-size": "256m"},
    "cache size": {"--size": "64m", "--budget": "1s"},
    "curve": {"--size": "4m", "--step-duration": "500ms"},
    "profile": {"--size": "64m", "--zones": "10"},
    "apps": {"--scale": "0.001", "--repeat": "1", "--only": "HDVideo_1Play,PhotoAlbum"},
    "tree": {"--files": "60", "--fan-out": "10", "--workers": "2", "--repeat": "1"},
    "job": {"--scale": "0.0005", "--repeat": "1"},
    "compare": {"--file-size": "1m", "--budget": "2s"},
    "mkfile": {"--size": "1m"},
}
"""Options of commands that measure, and what they are made where a page gives them more (or nothing: ALWAYS)."""
ALWAYS = {
    "run": ("--budget",), "sweep": ("--file-size", "--record"), "sustained": ("--size", "--duration"),
    "burst": ("--size", "--budget"), "cache speed": ("--duration", "--evict-size"),
    "cache size": ("--size", "--budget"),
    "curve": ("--size", "--step-duration"), "profile": ("--zones",), "apps": ("--scale",),
    "tree": ("--files",), "job": ("--scale",),
}  # fmt: skip
NOT_WITH = {
    "--scale": {"--source"},
    "--only": {"--app", "--list"},
}
"""Options that are not made smaller beside others, which refuse them."""
SHORTER = (
    ("iozone", r"^\d+[mg]$", "128k"), ("iozone", r"^\d+[MG]$", "128K"),
    ("diskspd", r"^-c\d+[MG]$", "-c8M"), ("diskspd", r"^-d\d+$", "-d1"), ("diskspd", r"^-Sr$", "-Su"),
)  # fmt: skip
"""The same of the front ends' own words; -Sr is for shares only."""
AUTO = re.compile("-R?a")
"""How a command line of IOzone asks for its automatic mode."""
ELSEWHERE: tuple[tuple[str, str], ...] = (
    (r"^lab (up|down|exec|calibrate|run|show samba)", "builds servers"),
    (r"^mcp\b", "waits for a client"),
    (r"^discover\b", "asks the networks that a machine happens to be on"),
    (r"^(net|serve|ceiling|reference (client|net))\b", "waits for another machine"),
    (r" --(hosts|scheduler|remote-python|monitor)\b", "needs other machines"),
    (r"^durable\b", "cuts a server's power"),
    (r"^security\b", "logs in to a server"),
    (r" /dev/", "reads a disk"),
    (r" --cold-command ", "needs a server to log in to"),
    (r"^trace record\b", "needs strace"),
    (r"^iozone .* -U ", "unmounts and mounts"),
    (r"^trace convert \w+\.pcap", "needs captured packets, and tshark"),
    (r"^doctor ((smb|nfs)://\w+|[\d.]+)$", "asks a server for its shares"),
)
"""Commands, as a page has them, that are parsed only, and why."""
TRACE = """\
1 1700000000.500000 openat(AT_FDCWD</srv/data>, "b", O_RDWR|O_CREAT, 0666) = 3</srv/data/b> <0.000010>
1 1700000000.600000 write(3</srv/data/b>, "x"..., 4096) = 4096 <0.000010>
1 1700000001.500000 close(3</srv/data/b>) = 0 <0.000010>
"""
"""What strace wrote of a small application."""
WRITTEN = {
    "app.txt": TRACE,
    "clients": "c1 /mnt/nas /opt/iozone\nc2 /mnt/nas /opt/iozone\n" * 2,
    "client.txt": 'NTCreateX "\\\\a" 0x1 0x2 1 0\nWriteX 1 0 4096 4096 0\nClose 1 0\n',
    "job.log": "fio version 2 iolog\n/a add\n/a open\n/a write 0 4096\n/a close\n",
}
"""Files of other programs that pages take for granted."""
FROM_PAGE = {"docs/guide/apps.md": ("mine.toml", 1), "docs/guide/experiments.md": ("mine.toml", 0)}
"""Files that a page shows: their names, and which of its blocks of TOML they are."""
FILES = {
    "results.txt": "diskspd_linux.txt", "results.json": "fio_plus.json", "iozone.xls": "iozone_auto.xls",
    "nas.txt": "iozone_auto.txt", **{f"baseline_{n}.iozone": f"baseline_{n}.iozone" for n in range(1, 6)},
    **{f"target_{n}.iozone": f"baseline_{n}.iozone" for n in range(1, 6)},
}  # fmt: skip
"""Files that pages take for granted, and the one of tests/samples that is in their place."""
CONVERT = "trace convert app.txt --root /srv/data -o"
PRELUDE = {
    "docs/guide/apps.md": (f"{CONVERT} app.trace.zst",),
    "docs/guide/trace.md": (f"{CONVERT} build.trace.zst",),
    "docs/guide/sustained.md": (f"{CONVERT} office.trace",),
    "docs/guide/curve.md": (f"curve {SIM} --random --size 4m --step-duration 500ms",),
}
"""What else was done before a page begins: `last` is the last of these."""
OLD = "goes with the next release"
"""What naslab says of a spelling that no page may teach."""
ANSWERS = {"check": {0, 3, 4}, "compare": {0, 3, 4}, "audit": {0, 1, 3}}
"""Exit codes beside 0 that are an answer."""
WHOLE = ("README.md", "docs/guide/slow-nas.md")
"""Pages whose commands print what the page says only where nothing is made smaller."""
OTHER = {
    "make", "pip", "curl", "strace", "tcpdump", "fio", "promtool", "fio_jsonplus_clat2csv", "DiskSpd.exe", "ssh",
}  # fmt: skip
"""Programs that pages name and that are not ours."""


@dataclass
class World:
    """A machine on which a page's commands run, one after the other."""

    folder: Path
    ids: list[str]
    """Runs in the store."""
    collector: str = ""
    """Where metrics can be sent."""
    taken: int = 0
    whole: bool = False
    """Nothing is made smaller but what has a stand-in."""
    printed: list[str] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def run(self, words: tuple[str, ...]) -> Done:
        """The command to its end."""
        env = environment(self.home, self.folder / "store.sqlite")
        done = called(words, self.folder, env, timeout=500 if self.whole else HANG_S, coarse=not self.whole)
        self.printed.append(done.out + "\n" + done.err)
        return done

    def stood_in(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """The words with what is here in place of what is not."""
        real = words[0] in REAL or {"--step", "--clients"} & set(words)
        words = tuple(self._word(word, bool(real)) for word in words)
        if "--credentials" in words:  # refused where nobody logs in
            at = words.index("--credentials")
            words = (*words[:at], *words[at + 2 :])
        return words

    def _word(self, word: str, real: bool) -> str:
        if STORED.match(word):
            self.taken += 1
            return self.ids[self.taken % len(self.ids)]
        if MOUNT.match(word):
            if word.startswith(("smb:", "nfs:")) and not real:
                return SIM
            return MOUNT.sub(str(self.folder / "mount"), word)
        if COLLECTOR.match(word):
            return self.collector
        return SIM if SERVER.match(word) else word


def smaller(words: tuple[str, ...]) -> tuple[str, ...]:
    """The command with sizes and times that a test can wait for."""
    for name, form, short in SHORTER:
        words = tuple(re.sub(form, short, word) if words[0] == name else word for word in words)
    if words[0] == "diskspd" and not any(word.startswith("-W") for word in words):
        words = (words[0], "-W0", *words[1:])  # five seconds otherwise
    if words[0] == "iozone" and any(AUTO.match(word) for word in words) and "-g" not in words:
        words = (words[0], "-g", "128k", *words[1:])  # files of up to 512 MiB otherwise
    command = " ".join(words[:2]) if words[0] == "cache" else words[0]
    rules = SMALLER.get(command, {})
    if words[0] == "compare" and "--run" not in words:
        return words
    names = dict.fromkeys([*(word for word in words if word in rules), *ALWAYS.get(command, ())])
    more = [part for name in names if not NOT_WITH.get(name, set()) & set(words) for part in (name, rules[name])]
    if words[0] == "run" and words[1].startswith("/"):
        more += ["--max-bytes", "64m"]
    return (*words, *more)


def elsewhere(words: tuple[str, ...]) -> bool:
    """Whether the command is parsed only."""
    return any(re.search(rule, " ".join(words)) for rule, _ in ELSEWHERE)


def parsed(words: tuple[str, ...]) -> None:
    """Raises where the command would be refused for its options."""
    if words[0] == "iozone":
        iozone.parse(words[1:])
        return
    if words[0] == "diskspd" and not any(word.startswith("-W") for word in words):
        diskspd.parse(words[1:])
        return
    choice = choose(words)
    assert choice and choice.command.where, f"no command {' '.join(words)}"
    context = parser_of(choice.command.name).make_context(" ".join(words), choice.rest)
    inner = [word for value in context.params.values() if isinstance(value, list | tuple) for word in value]
    if inner and inner[0] == "naslab":
        parsed(tuple(inner[1:]))


@pytest.fixture(scope="module")
def seed(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A store with runs of several kinds; the sweeps are last."""
    folder = tmp_path_factory.mktemp("docs")
    (folder / "home").mkdir()
    world = World(folder, [])
    grid = "--file-size 64k..1m --record 64k..256k --tests write,read,random_write,random_read"
    for line in (f"run {SIM} --budget 1s", *(f"sweep {SIM} {grid} --repeat {count} --label name={name}"
                 for name, count in (("idle", 6), ("busy", 6), ("last", 5)))):  # fmt: skip
        world.run((*line.split(), "--quiet")).ok()
    found = json.loads(world.run(("runs", "--json")).ok().out)["runs"]
    world.ids = [run["run_id"] for run in found if run["command"] == "sweep"]
    assert len(world.ids) == 3
    return world


@pytest.fixture
def world(seed: World, tmp_path: Path) -> Iterator[World]:
    """A copy of that machine with the files pages take for granted."""
    shutil.copy(seed.folder / "store.sqlite", tmp_path)
    for name, sample in FILES.items():
        shutil.copy(ROOT / "tests" / "samples" / sample, tmp_path / name)
    for name, text in WRITTEN.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "mount").mkdir()
    (tmp_path / "mount" / "film.mkv").write_bytes(b"film" * (4 << 20))
    for name in ("photos", "documents"):
        (tmp_path / "home" / name).mkdir(parents=True)
        (tmp_path / "home" / name / "1.jpg").write_bytes(bytes(range(256)) * 40)
    (tmp_path / "home" / ".nas").write_text("username=ann\npassword=secret\n")
    (tmp_path / "home" / ".nas").chmod(0o600)
    with listening() as collector:
        yield World(tmp_path, seed.ids, collector.url)


def parts(page: str, *languages: str) -> Iterator[Block]:
    """The page's blocks of these languages."""
    return (block for block in blocks(page) if block.language in languages)


def with_commands() -> list[str]:
    """Pages that have any; the command line's own reference has only forms."""
    return [page for page in pages() if any(parts(page, ""))]


QUICK = ("docs/guide/first-run.md",)
"""Pages whose commands `make test` runs, beside those of README.md below; the others take minutes."""


@pytest.mark.parametrize("page", shares.only(QUICK, with_commands(), pytest.mark.lab))
def test_commands_of_a_page_work(page: str, world: World) -> None:
    judge(page, world)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", [WHOLE[0], pytest.param(WHOLE[1], marks=pytest.mark.lab)])
def test_a_page_prints_what_it_says(page: str, world: World) -> None:
    world.whole = True
    judge(page, world)


def judge(page: str, world: World) -> None:
    """Runs a page from its beginning to its end."""
    if page in FROM_PAGE:
        name, index = FROM_PAGE[page]
        (world.folder / name).write_text(list(parts(page, "toml"))[index].text)
    for line in PRELUDE.get(page, ()):
        world.run(tuple(line.split())).ok()
    shown: list[Block] = []
    failed: list[str] = []
    for block in parts(page, "", "text"):
        if block.language == "text":
            failed += said_otherwise(block, world) if page not in WHOLE or world.whole else ()
        elif block.mark != "tested by":
            shown.append(block)
            failed += failures(shown, block, world)
    assert not failed, "\n\n".join(failed)


def failures(shown: list[Block], block: Block, world: World) -> Iterator[str]:
    """What of a block does not do as it says. shown: it and those before it, whose variables hold."""
    begun = {str(block), *(f"{block.page}:{block.line + 1 + at}" for at in range(block.text.count("\n")))}
    for command in commands(shown, world.folder, world.home):
        if command.place in begun and (failure := attempt(command, block, world)):
            yield f"{command.place}: {' '.join(command.words)}\n{failure}"


def attempt(command: Command, block: Block, world: World) -> str:
    """What went wrong with a command, or nothing."""
    if command.words[0] != "naslab":
        return "" if command.words[0] in OTHER or block.mark else "not a program that pages name"
    words = command.words[1:]
    if block.mark == "not run" or elsewhere(words):
        try:
            with contextlib.chdir(world.folder):
                parsed(words)
        except Exception as error:  # Typer's own errors have no class of ours
            return f"is refused: {getattr(error, 'message', error)}"
        return ""
    here = world.stood_in(words)
    done = world.run(here if world.whole and here == words else smaller(here))
    known = ANSWERS.get(words[0], {0})
    if OLD in done.err:
        return f"is an old spelling: {done.err[-200:]}"
    crashed = "Traceback" in done.out + done.err
    return "" if done.code in known and not crashed else f"exit {done.code}: {done.err[-600:]}"


def said_otherwise(block: Block, world: World) -> Iterator[str]:
    """What a block says that a command printed, and none did."""
    if block.mark == "output":
        printed = masked("\n".join(world.printed))
        if masked(block.text) not in printed:
            yield f"{block}: no command above printed this:\n{block.text}"


@pytest.mark.parametrize("page", pages())
def test_every_block_says_what_it_is(page: str) -> None:
    for block in blocks(page):
        assert block.language in ("", "text", "toml", "python", "yaml", "bash", "json"), f"{block}: {block.language}"
        if block.language == "text":
            assert block.mark in ("output", "example"), f"{block}: say where the text is from: output or example"
        if block.mark in ("not run", "example"):
            assert len(block.reason) > 5, f"{block}: why not?"
        if block.mark == "tested by":
            path, _, name = block.reason.partition("::")
            assert f"def {name}(" in (ROOT / path).read_text(), f"{block}: no such test"
        if block.language == "toml":
            tomllib.loads(block.text)
        if block.language == "yaml":
            assert list(yaml.safe_load_all(block.text))


@pytest.mark.parametrize("page", [*pages(), "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(page: str) -> None:
    """To a file that is there, and to a heading in it."""
    for link in re.findall(r"\]\(([^)\s]+)\)", (ROOT / page).read_text("utf-8")):
        if re.match(r"\w+:", link):
            continue
        name, _, anchor = link.partition("#")
        path = (ROOT / page).parent / name if name else ROOT / page
        assert path.exists(), f"{page}: {link}"
        if anchor and path.suffix == ".md":
            assert anchor in anchors(path.read_text("utf-8")), f"{page}: {link}"


def anchors(text: str) -> set[str]:
    """Names of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text("utf-8")
    missing = [page for page in pages()[1:] if f"({page.removeprefix('docs/')})" not in index]
    assert missing == ["docs/README.md"]


@pytest.mark.parametrize("page", [page for page in pages() if any(parts(page, "python"))])
def test_python_of_a_page_works(page: str, world: World) -> None:
    for block in parts(page, "python"):
        compile(block.text, str(block), "exec")
        if block.mark:
            continue
        done = subprocess.run(
            [sys.executable, "-c", block.text], cwd=world.folder, capture_output=True, text=True, check=False,
            env=environment(world.home, world.folder / "store.sqlite"), timeout=HANG_S,
        )  # fmt: skip
        assert done.returncode == 0, f"{block}:\n{done.stderr}"


def test_a_wrong_page_fails(world: World) -> None:
    """The harness sees what it is for: options that are not there, programs that are not ours, texts nobody prints."""
    text = '```\nA=null:\nnaslab run "$A" --no-such   # a note\nnaslab sweep $A --plan; nosuch\n```\n'
    text += "<!-- output -->\n```text\nThis was never said.\n```\n<!-- not run: there is no root -->\n```\n"
    text += "naslab lab exec x -- naslab sweep /a --nor-this\n```\n"
    one, output, marked = blocks_of("page", text)
    first = list(failures([one], one, world))
    assert [failure.partition("\n")[0] for failure in first] == ["page:3: naslab run null: --no-such", "page:4: nosuch"]
    assert "--no-such" in first[0].partition("\n")[2]
    assert "never said" in "".join(said_otherwise(output, world))
    (refused,) = failures([marked], marked, world)
    assert "--nor-this" in refused.partition("\n")[2]
