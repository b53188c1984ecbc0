"""DiskSpd's command line: argument vector in, `Request` out, or a UsageError that names option, value, next step."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from naslab.commands.diskspd import profile_xml
from naslab.commands.diskspd.caching import CacheModes
from naslab.commands.diskspd.options import DISKSPD, LONG, note, refusal
from naslab.commands.diskspd.profile import Compat, Distribution, Profile, TargetSpec, TimeSpan, check
from naslab.commands.diskspd.sizes import parse_bytes
from naslab.errors import UsageError
from naslab.targets.forms import check_local
from naslab.text.messages import without_secrets

MAX_SEED = (1 << 32) - 1
MAX_BLOCK = (1 << 32) - 1
_WITH_PROFILE = "vzRWdC"
"""Options that may stand beside -X."""
_SILENT_2_0_21 = (
    "DiskSpd 2.0.21a took -r silently and ignored -s: random offsets, multiples of the number behind -r, which is an "
    "alignment and not a share of reads"
)


@dataclass
class Own:
    """naslab's own options. timeout: as written."""

    store: str | None = None
    credentials: str | None = None
    labels: list[str] = field(default_factory=list)
    remark: str = ""
    timeout: str = "30s"
    overwrite: bool = False
    json: bool = False
    quiet: bool = False


@dataclass
class Request:
    """A command line, validated. notes: what differs from DiskSpd or has no effect, one sentence each."""

    profile: Profile
    own: Own = field(default_factory=Own)
    notes: list[str] = field(default_factory=list)
    help: bool = False


def parse(argv: Sequence[str]) -> Request:
    """The validated command line. Raises UsageError."""
    own, compat, words = _take_long(list(argv))
    if not argv or "-?" in words or "--help" in words:
        return Request(Profile(), own, help=True)
    line = _Line(words, compat)
    profile = line.profile()
    profile.command_line = without_secrets(" ".join(["naslab", "diskspd", *argv]))
    return Request(profile, own, [*check(profile), *line.notes])


def forms(argv: Sequence[str]) -> tuple[dict[str, str], set[str]]:
    """For files of options: how a value follows each option, and the options that this line has."""
    known = {option.flag: "joined" for option in DISKSPD}
    known |= {flag: "value" if option.operand else "flag" for flag, option in LONG.items()}
    given = {
        max((flag for flag in known if word.startswith(flag)), key=len, default="")
        for word in argv if word.startswith("-")
    }  # fmt: skip
    return known, given


_OWN_TEXTS = {"--store": "store", "--credentials": "credentials", "--timeout": "timeout", "--note": "remark"}
_OWN_FLAGS = {"--overwrite": "overwrite", "--json": "json", "--quiet": "quiet"}


def _take_long(argv: list[str]) -> tuple[Own, Compat, list[str]]:
    """naslab's long options, wherever they stand, and the rest."""
    own, compat, words = Own(), "2.2", []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--") or word == "--help":
            words.append(word)
            continue
        flag, given, value = word.partition("=")
        if flag not in LONG:
            raise UsageError(f"{flag}: unknown option; naslab's own are {', '.join(LONG)}")
        if flag in _OWN_FLAGS:
            if given:
                raise UsageError(f"{flag} takes no value, but {value!r} was given: write {flag}")
            setattr(own, _OWN_FLAGS[flag], True)
            continue
        if not given:
            if not rest:
                raise UsageError(f"{flag}: {LONG[flag].operand} is missing; write {flag} {LONG[flag].operand}")
            value = rest.pop(0)
        if flag == "--compat":
            compat = _compat(value)
        elif flag == "--label":
            own.labels.append(value)
        else:
            if flag in ("--store", "--credentials"):
                check_local(value, flag)
            setattr(own, _OWN_TEXTS[flag], value)
    return own, compat, words  # type: ignore[return-value]


def _compat(value: str) -> Compat:
    known: dict[str, Compat] = {"2.2": "2.2", "2.0.21": "2.0.21", "2.0.21a": "2.0.21"}
    if value not in known:
        raise UsageError(f"--compat {value}: give 2.0.21 (the article's version) or 2.2")
    return known[value]


class _Line:
    """One command line on its way to a profile."""

    def __init__(self, words: list[str], compat: Compat) -> None:
        self.old = compat == "2.0.21"
        self.notes: list[str] = []
        self.found = Profile(compat=compat)
        self.span = TimeSpan()
        self.target = TargetSpec()
        self.caches = CacheModes()
        self._seen: dict[str, str] = {}
        self.options, self.targets = _split(words)
        for word in self.options:
            if word[1:2] == "b":
                self.target.block_bytes = _block(self, word[2:])

    def profile(self) -> Profile:
        """The profile, from the options or from -X."""
        profiles = [word for word in self.options if word.startswith("-X")]
        if profiles:
            return self._from_file(profiles)
        for word in self.options:
            self._take(word)
        if not self.targets:
            raise UsageError("need to provide at least one filename: name a target after the options")
        self.caches.apply(self.target)
        self.span.targets = [dataclasses.replace(self.target, path=path) for path in self.targets]
        self.found.spans = [self.span]
        return self.found

    def _from_file(self, profiles: list[str]) -> Profile:
        if len(profiles) > 1:
            raise UsageError("multiple XML profiles specified (-X): give one")
        others = [word for word in self.options if word[1:2] not in _WITH_PROFILE + "X"]
        if others:
            raise UsageError(
                f"invalid XML profile specification; parameter {others[0]} not compatible with -X: "
                "only -v -z -R -W -d -C are allowed with it"
            )
        path = profiles[0][2:]
        if not path:
            raise UsageError("-X: the file is missing; write -Xprofile.xml")
        for word in self.options:
            if not word.startswith("-X"):
                self._take(word)
        loaded = profile_xml.load(Path(path), self.targets)
        loaded.profile.compat = self.found.compat
        self.notes += loaded.notes
        return self._over(loaded.profile)

    def _over(self, profile: Profile) -> Profile:
        """The options that may stand beside -X, over what the profile says."""
        if "R" in self._seen:
            profile.only = self.found.only
            if self._seen["R"] != "-Rp":
                profile.xml_output = self.found.xml_output
        profile.verbose = profile.verbose or self.found.verbose
        for letter, name in (("d", "duration_s"), ("W", "warmup_s"), ("C", "cooldown_s"), ("z", "seed")):
            if letter in self._seen:
                for span in profile.spans:
                    setattr(span, name, getattr(self.span, name))
        return profile

    def _take(self, word: str) -> None:
        letter, value = word[1:2], word[2:]
        reader = _READERS.get(letter)
        if reader is None:
            raise UsageError(f"invalid option: {word!r}; naslab diskspd -? lists all")
        reader(self, value)
        self._seen[letter] = word

    def seen(self, letter: str) -> str | None:
        """The option of this letter as it was written, if there was one."""
        return self._seen.get(letter)

    def note(self, flag: str, operand: str) -> None:
        """Remembers the table's remark about an option that was given."""
        self.notes.append(f"{flag}{operand}: {note(flag, operand)}")

    def size(self, option: str, text: str) -> int:
        """Bytes of a size behind an option."""
        return parse_bytes(option, text, self.target.block_bytes, old=self.old)

    def not_in_old(self, form: str) -> None:
        """Raises UsageError for what 2.0.21a does not know."""
        if self.old:
            raise UsageError(f"{form}: DiskSpd 2.0.21a does not know it; leave out {form} or --compat 2.0.21")


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """Options, targets. Raises UsageError for an option behind a target."""
    options: list[str] = []
    targets: list[str] = []
    for word in words:
        if not word:
            raise UsageError("a target is empty: name a file")
        if not word.startswith("-"):
            targets.append(word)
        elif targets:
            raise UsageError(
                f"parameters ({word}) must come before targets on the command line: move it before {targets[0]!r}"
            )
        else:
            options.append(word)
    return options, targets


def _number(option: str, text: str, low: int, high: int = MAX_SEED) -> int:
    """A whole number. DiskSpd reads as far as digits go; here the rest is an error."""
    if not re.fullmatch(r"[0-9]{1,10}", text) or not low <= int(text) <= high:
        limits = f"at least {low}" if high == MAX_SEED else f"{low} to {high}"
        raise UsageError(f"incorrectly provided option: '{option}{text}'; write {option} and a whole number, {limits}")
    return int(text)


def _count(letter: str, on: str, name: str, low: int = 1, high: int = MAX_SEED) -> Callable[[_Line, str], None]:
    """A reader that keeps a whole number. on: `span` or `target`."""

    def read(line: _Line, text: str) -> None:
        setattr(getattr(line, on), name, _number(f"-{letter}", text, low, high))

    return read


def _flag(letter: str, on: str, name: str, said: bool = False) -> Callable[[_Line, str], None]:
    """A reader of an option without a value. said: its remark in the table is told."""

    def read(line: _Line, text: str) -> None:
        if text:
            raise UsageError(f"incorrectly provided option: '-{letter}{text}'; -{letter} takes no value")
        setattr(getattr(line, on), name, True)
        if said:
            line.note(f"-{letter}", "")

    return read


def _refused(letter: str, operand: str) -> Callable[[_Line, str], None]:
    def read(line: _Line, text: str) -> None:
        raise UsageError(f"-{letter}{text} {refusal(f'-{letter}', operand)}")

    return read


def _block(line: _Line, text: str) -> int:
    found = parse_bytes("-b", text, 64 << 10, old=line.old)
    if not 1 <= found < MAX_BLOCK:
        raise UsageError(f"invalid block size passed to -b: '{text}'; give 1 byte to 4 GiB")
    return found


def _affinity(line: _Line, text: str) -> None:
    if text in ("", "g"):
        line.note("-a", "")
        return
    group, pairs = 0, []
    for part in text.split(","):
        found = re.fullmatch(r"(g?)([0-9]{1,5})", part)
        if not found:
            raise UsageError(f"-a{text}: syntax error parsing affinity at {part!r}; write -a0,1 or -ag0,0,1")
        if found[1]:
            group = int(found[2])
        else:
            pairs.append((group, int(found[2])))
    line.span.affinity += pairs


def _base(line: _Line, text: str) -> None:
    if line.seen("B"):
        raise UsageError("base target offset (-Bbase[:length]) can only be specified once: leave one out")
    base, colon, length = text.partition(":")
    line.target.base_bytes = line.size("-B", base)
    if not colon:
        return
    line.not_in_old("-Bbase:length")
    if line.target.max_bytes:
        raise UsageError("maximum target offset (-Bbase:length or -fsize) can only be specified once: leave one out")
    line.target.max_bytes = line.target.base_bytes + line.size("-Bbase:", length)


def _create(line: _Line, text: str) -> None:
    line.target.file_bytes = line.size("-c", text)


def _buckets(line: _Line, text: str) -> None:
    line.span.iops = True
    if text:
        line.span.bucket_ms = _number("-D", text, 1)


def _file_range(line: _Line, text: str) -> None:
    if text[:1].isdigit():
        if line.target.max_bytes:
            raise UsageError(
                "maximum target offset (-Bbase:length or -fsize) can only be specified once: leave one out"
            )
        line.target.max_bytes = line.size("-f", text)
        return
    if not text or set(text) - set("rst"):
        raise UsageError(
            f"incorrectly provided option: '-f{text}'; write -f and a size, or some of the letters r, s, t"
        )
    line.target.hints += text
    line.note("-f", "rst")


def _limit(line: _Line, text: str) -> None:
    if text.endswith("i"):
        line.not_in_old("-g…i")
        line.target.limit_per_s, line.target.limit_bytes_per_ms = _number("-g", text[:-1], 1), 0
    else:
        line.target.limit_bytes_per_ms, line.target.limit_per_s = _number("-g", text, 1), 0


def _old_uncached(line: _Line, text: str) -> None:
    if text:
        raise UsageError(f"incorrectly provided option: '-h{text}'; -h takes no value")
    line.caches.take("h", "-h")


def _priority(line: _Line, text: str) -> None:
    line.target.priority = _number("-I", text, 1, 3)
    if line.target.priority == 3:
        line.note("-I", "3")


def _map_flush(line: _Line, text: str) -> None:
    if text.lower() not in ("v", "n", "i") or not text:
        raise UsageError(f"incorrectly provided option: '-N{text}'; write -Nv")
    line.target.map_flush = text.lower()


def _progress(line: _Line, text: str) -> None:
    line.found.progress = _number("-P", text, 1) if text else 65536


def _random(line: _Line, text: str) -> None:
    target = line.target
    if text.startswith("s"):
        line.not_in_old("-rs")
        _random_share(target, text[1:])
        return
    if text.startswith("d"):
        line.not_in_old("-rd")
        target.distribution = _distribution(line, text[1:])
        return
    align = line.size("-r", text) if text else target.block_bytes
    if align == 0:
        raise UsageError(f"invalid alignment passed to -r: '{text}'; give at least 1 byte")
    if line.old:
        if line.seen("s"):
            line.notes.append(f"{line.seen('s')} is overridden by -r{text}: {_SILENT_2_0_21}")
        target.random_pct, target.stride_bytes = 100, align
        return
    if target.stride_bytes is not None:
        if line.seen("s"):
            raise UsageError(_conflict(str(line.seen("s")), f"-r{text}"))
        raise UsageError("random IO (-r) specified multiple times: give it once")
    target.random_pct = target.random_pct or 100
    target.stride_bytes = align


def _conflict(first: str, second: str) -> str:
    return (
        f"sequential IO (-s) conflicts with random IO (-r/-rs): {first} {second}. {_SILENT_2_0_21}; "
        "it read where -w was absent. "
        "Leave one of them out, or give --compat 2.0.21 for what that version did"
    )


def _random_share(target: TargetSpec, text: str) -> None:
    share = _number("-rs", text, 1, 100)
    if not target.random_pct and target.stride_bytes is not None:
        raise UsageError(
            "use -r to specify IO alignment when using mixed random/sequential IO (-rs): write -r instead of -s"
        )
    if target.random_pct not in (0, 100):
        raise UsageError("mixed random/sequential IO (-rs) specified multiple times: give it once")
    target.random_pct = share


def _distribution(line: _Line, text: str) -> Distribution:
    kind = text[:3]
    if kind not in ("pct", "abs"):
        raise UsageError(f"-rd{text}: unrecognized random distribution type; write -rdpct90/10 or -rdabs90/10G")
    parts: list[tuple[int, int]] = []
    for part in text[3:].split(":"):
        share, slash, span = part.partition("/")
        if not slash:
            raise UsageError(f"-rd{text}: expected / separator in {part!r}; write IO%/TARGET, as in 90/10")
        size = _number("-rd …/", span, 1, 100) if kind == "pct" else line.size("-rd …/", span)
        if size == 0:
            raise UsageError(f"-rd{text}: invalid zero length target range; give at least a block")
        parts.append((_number("-rd ", share, 0, 100), size))
    return Distribution(kind, parts)  # type: ignore[arg-type]


def _results(line: _Line, text: str) -> None:
    form = text
    if text.startswith("p"):
        line.not_in_old("-Rp")
        line.found.only, form = True, text[1:]
    if form not in ("xml", "text") and not (form == "" and line.found.only):
        raise UsageError(f"invalid results format (-R): '{text}'; use -Rtext, -Rxml, -Rptext or -Rpxml")
    line.found.xml_output = form == "xml"


def _sequential(line: _Line, text: str) -> None:
    target = line.target
    if text.startswith("i"):
        target.interlocked, text = True, text[1:]
    stride = line.size("-s", text) if text else target.block_bytes
    if line.old:
        if target.random_pct:
            line.notes.append(f"-s{text} behind {line.seen('r')}: DiskSpd 2.0.21a stays random, with -s's alignment")
        target.stride_bytes = stride
        return
    if target.random_pct == 100:
        raise UsageError(_conflict(str(line.seen("r")), f"-s{text}"))
    if target.random_pct:
        raise UsageError("use -r to specify IO alignment for -rs: write -r instead of -s")
    if target.stride_bytes is not None:
        raise UsageError("sequential IO (-s) specified multiple times: give it once")
    target.stride_bytes = stride


def _caching(line: _Line, text: str) -> None:
    for letter in text or "u":
        line.caches.take(letter, f"-S{letter}" if text else "-S")


def _separation(line: _Line, text: str) -> None:
    line.target.separation_bytes = line.size("-T", text)
    if not line.target.separation_bytes:
        raise UsageError(f"invalid offset passed to -T: '{text}'; give at least 1 byte")


def _verbose(line: _Line, text: str) -> None:
    if text == "s":
        line.not_in_old("-vs")
        raise UsageError(f"-vs {refusal('-v', 's')}")
    if text:
        raise UsageError(f"invalid verbose mode (-v): '{text}'; write -v")
    line.found.verbose = True


def _write_share(line: _Line, text: str) -> None:
    if not text:
        raise UsageError("no write ratio passed to -w: write -w0 to read only, -w100 to write only")
    line.target.write_pct = _number("-w", text, 0, 100)


def _events(line: _Line, text: str) -> None:
    raise UsageError(f"-y{text} {refusal('-y', 's|f|r|p|e NAME')}")


def _seed(line: _Line, text: str) -> None:
    now_ms = time.monotonic_ns() // 1_000_000
    line.span.seed = _number("-z", text, 0, MAX_SEED) if text else now_ms & MAX_SEED


def _write_data(line: _Line, text: str) -> None:
    if not text:
        line.target.pattern = "zero"
    elif text == "r":
        line.span.random_data = True
    else:
        size, comma, path = text.partition(",")
        line.target.source_bytes = line.size("-Z", size)
        if not line.target.source_bytes:
            raise UsageError(f"invalid size passed to -Z: '{text}'; give at least one block")
        line.target.pattern, line.target.source_path = "random", path
        if comma and not path:
            raise UsageError(f"invalid size passed to -Z: '{text}'; the file after the comma is missing")


def _done(_line: _Line, _text: str) -> None:
    """Read before the others."""


_READERS: dict[str, Callable[[_Line, str], None]] = {
    ":": _refused(":", "FLAGS"),
    "a": _affinity,
    "b": _done,
    "B": _base,
    "c": _create,
    "C": _count("C", "span", "cooldown_s", 0),
    "d": _count("d", "span", "duration_s", 1),
    "D": _buckets,
    "e": _refused("e", "..."),
    "f": _file_range,
    "F": _count("F", "span", "threads", 1, 4096),
    "g": _limit,
    "h": _old_uncached,
    "i": _count("i", "target", "burst"),
    "I": _priority,
    "j": _count("j", "target", "think_ms"),
    "l": _flag("l", "target", "large_pages", said=True),
    "L": _flag("L", "span", "latency"),
    "n": _flag("n", "span", "no_affinity", said=True),
    "N": _map_flush,
    "o": _count("o", "target", "outstanding", 1, 4096),
    "O": _count("O", "span", "outstanding", 1, 4096),
    "p": _flag("p", "target", "parallel"),
    "P": _progress,
    "r": _random,
    "R": _results,
    "s": _sequential,
    "S": _caching,
    "t": _count("t", "target", "threads", 1, 4096),
    "T": _separation,
    "v": _verbose,
    "w": _write_share,
    "W": _count("W", "span", "warmup_s", 0),
    "x": _flag("x", "span", "completion_routines", said=True),
    "y": _events,
    "z": _seed,
    "Z": _write_data,
}


def letters() -> str:
    """Letters that the parser knows, for the test that table and parser cover each other."""
    return "".join(sorted({*_READERS, "X", "?"}))
