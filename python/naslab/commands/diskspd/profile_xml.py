"""XML profiles: -X reads them, -Rpxml and the results write them, in the elements of DiskSpd's schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from naslab.commands.diskspd.options import note, refusal
from naslab.commands.diskspd.profile import TEMPLATE, Distribution, Profile, TargetSpec, TimeSpan
from naslab.commands.diskspd.xml_lines import XmlLines
from naslab.errors import UsageError

MAX_FILE_BYTES = 1 << 20
_MAPS = {"ViewOfFile": "v", "NonVolatileMemory": "n", "NonVolatileMemoryNoDrain": "i"}
_PRECREATE = ("UseMaxSize", "CreateOnlyFilesWithConstantSizes", "CreateOnlyFilesWithConstantOrZeroSizes")
_Element = ElementTree.Element


@dataclass
class Loaded:
    """A profile read from a file, and remarks about what has no effect here."""

    profile: Profile
    notes: list[str] = field(default_factory=list)


def load(path: Path, targets: Sequence[str]) -> Loaded:
    """The profile in a file, its templates *1, *2 ... replaced by `targets`. Raises UsageError."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"-X{path}: cannot be read ({getattr(error, 'strerror', None) or error}); give an XML profile"
        ) from None
    if len(raw) > MAX_FILE_BYTES:
        raise UsageError(f"-X{path}: the file is too long to be a profile")
    if b"<!DOCTYPE" in raw or b"<!ENTITY" in raw:
        raise UsageError(f"-X{path}: a profile has no DOCTYPE; leave it out")
    try:
        root = ElementTree.fromstring(raw)
    except ElementTree.ParseError as error:
        raise UsageError(f"-X{path}: not XML: {error}") from None
    loaded = _Reader(path).profile(root)
    _substitute(loaded.profile, targets, path)
    return loaded


def _substitute(profile: Profile, targets: Sequence[str], path: Path) -> None:
    used = set()
    for span in profile.spans:
        for target in span.targets:
            number = target.path.removeprefix(TEMPLATE)
            is_template = target.path.startswith(TEMPLATE) and re.fullmatch("[0-9]{1,4}", number)
            if is_template and 1 <= int(number) <= len(targets):
                target.path = targets[int(number) - 1]
                used.add(int(number))
    unused = [name for at, name in enumerate(targets, 1) if at not in used]
    if unused:
        raise UsageError(
            f"target {unused[0]!r}: no template of -X{path} takes it; leave it out, or write *N in the profile"
        )


class _Reader:
    """Reads one profile; refuses by name what it does not know."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notes: dict[str, None] = {}

    def profile(self, root: _Element) -> Loaded:
        """The whole of it."""
        if root.tag != "Profile":
            raise self.error(f"its outermost element is {root.tag}, not Profile")
        profile = Profile()
        for element in root:
            if element.tag == "TimeSpans":
                profile.spans = [self.span(one) for one in self.children(element, "TimeSpan")]
            elif element.tag == "Progress":
                profile.progress = self.number(element)
            elif element.tag == "ResultFormat":
                profile.xml_output = self.choice(element, ("text", "xml")) == "xml"
            elif element.tag == "Verbose":
                profile.verbose = self.truth(element)
            elif element.tag == "PrecreateFiles":
                profile.precreate = self.choice(element, _PRECREATE)
            elif element.tag == "VerboseStats":
                if self.truth(element):
                    raise self.error(f"VerboseStats {refusal('-v', 's')}")
            elif element.tag == "ExperimentFlags":
                raise self.error(f"ExperimentFlags {refusal('-:', 'FLAGS')}")
            elif element.tag == "ETW":
                raise self.error(f"ETW {refusal('-e', '...')}")
            else:
                raise self.unknown(element)
        return Loaded(profile, list(self.notes))

    def span(self, element: _Element) -> TimeSpan:
        """One TimeSpan."""
        span = TimeSpan()
        for child in element:
            if child.tag == "Targets":
                span.targets = [self.target(one) for one in self.children(child, "Target")]
            elif child.tag in _SPAN_NUMBERS:
                setattr(span, _SPAN_NUMBERS[child.tag], self.number(child))
            elif child.tag in _SPAN_FLAGS:
                setattr(span, _SPAN_FLAGS[child.tag], self.truth(child))
            elif child.tag == "Affinity":
                span.affinity = [self.processor(one) for one in child]
            elif child.tag != "GroupAffinity":
                raise self.unknown(child)
        if span.duration_s < 1 or span.bucket_ms < 1:
            raise self.error("Duration and IoBucketDuration must be at least 1")
        if span.completion_routines:
            self.notes[f"CompletionRoutines: {note('-x')}"] = None
        return span

    def target(self, element: _Element) -> TargetSpec:
        """One Target."""
        target = TargetSpec()
        for child in element:
            reader = _TARGET_READERS.get(child.tag)
            if reader is not None:
                reader(self, target, child)
            elif child.tag in _TARGET_NUMBERS:
                setattr(target, _TARGET_NUMBERS[child.tag], self.number(child))
            elif child.tag not in _TARGET_IGNORED:
                raise self.unknown(child)
        if not target.path:
            raise self.error("a Target has no Path")
        if not (target.block_bytes and target.threads and target.outstanding and target.write_pct <= 100):
            raise self.error("BlockSize, ThreadsPerFile and RequestCount must be above 0, WriteRatio at most 100")
        ratio = element.find("RandomRatio")
        if target.random_pct and ratio is not None:
            target.random_pct = self.number(ratio)
            if not 1 <= target.random_pct <= 99:
                raise self.error("RandomRatio must be 1 to 99; Random alone is 100, StrideSize alone 0")
        return target

    def processor(self, element: _Element) -> tuple[int, int]:
        """One assignment of -a."""
        texts = (element.get("Group", "0"), element.get("Processor", (element.text or "0").strip()))
        if not all(re.fullmatch("[0-9]{1,5}", text) for text in texts):
            raise self.unknown(element)
        return int(texts[0]), int(texts[1])

    def children(self, element: _Element, tag: str) -> Iterable[_Element]:
        """Children that must all be of one kind."""
        for child in element:
            if child.tag != tag:
                raise self.unknown(child)
            yield child

    def number(self, element: _Element) -> int:
        """A whole number."""
        text = (element.text or "").strip()
        if not re.fullmatch("[0-9]{1,19}", text):
            raise self.error(f"{element.tag} {text!r}: give a whole number")
        return int(text)

    def truth(self, element: _Element) -> bool:
        """A boolean of XML Schema."""
        return self.choice(element, ("true", "false", "1", "0")) in ("true", "1")

    def choice(self, element: _Element, allowed: Sequence[str]) -> str:
        """One of some words."""
        text = (element.text or "").strip()
        if text not in allowed:
            raise self.error(f"{element.tag} {text!r}: use {', '.join(allowed)}")
        return text

    def unknown(self, element: _Element) -> UsageError:
        """An error about an element that no profile has."""
        return self.error(f"element {element.tag} is not known here; leave it out")

    def error(self, message: str) -> UsageError:
        """An error about this file."""
        return UsageError(f"-X{self.path}: {message}")


_SPAN_NUMBERS = {
    "Duration": "duration_s", "Warmup": "warmup_s", "Cooldown": "cooldown_s", "RandSeed": "seed",
    "ThreadCount": "threads", "RequestCount": "outstanding", "IoBucketDuration": "bucket_ms",
}  # fmt: skip
_SPAN_FLAGS = {
    "MeasureLatency": "latency", "CalculateIopsStdDev": "iops", "DisableAffinity": "no_affinity",
    "CompletionRoutines": "completion_routines", "RandomWriteData": "random_data",
}  # fmt: skip
_TARGET_NUMBERS = {
    "BlockSize": "block_bytes", "BaseFileOffset": "base_bytes", "MaxFileSize": "max_bytes", "FileSize": "file_bytes",
    "RequestCount": "outstanding", "WriteRatio": "write_pct", "ThreadsPerFile": "threads", "BurstSize": "burst",
    "ThinkTime": "think_ms", "ThreadStride": "separation_bytes", "IOPriority": "priority",
}  # fmt: skip
_TARGET_IGNORED = ("RandomRatio",)
"""Read after the others."""
_TargetReader = Callable[[_Reader, TargetSpec, _Element], None]


def _path(_: _Reader, target: TargetSpec, element: _Element) -> None:
    target.path = element.text or ""


def _stride(reader: _Reader, target: TargetSpec, element: _Element) -> None:
    """Ignored beside Random, as the schema's notes say."""
    if not target.random_pct:
        target.stride_bytes = reader.number(element)


def _random(reader: _Reader, target: TargetSpec, element: _Element) -> None:
    target.stride_bytes, target.random_pct = reader.number(element), 100
    if not target.stride_bytes:
        raise reader.error("Random 0: an alignment is at least 1 byte")


def _throughput(reader: _Reader, target: TargetSpec, element: _Element) -> None:
    unit = element.get("unit", "BPMS")
    if unit not in ("BPMS", "IOPS"):
        raise reader.error(f"Throughput unit {unit!r}: use BPMS or IOPS")
    setattr(target, "limit_per_s" if unit == "IOPS" else "limit_bytes_per_ms", reader.number(element))


def _contents(reader: _Reader, target: TargetSpec, element: _Element) -> None:
    for child in element:
        if child.tag == "Pattern":
            target.pattern = reader.choice(child, ("sequential", "zero", "random"))  # type: ignore[assignment]
        elif child.tag == "RandomDataSource":
            size, path = child.find("SizeInBytes"), child.find("FilePath")
            target.source_bytes = 0 if size is None else reader.number(size)
            target.source_path = "" if path is None else path.text or ""
        else:
            raise reader.unknown(child)


def _spread(reader: _Reader, target: TargetSpec, element: _Element) -> None:
    for child in element:
        kind = {"Percent": "pct", "Absolute": "abs"}.get(child.tag)
        if kind is None:
            raise reader.unknown(child)
        shares = [(one.get("IO", ""), reader.number(one)) for one in reader.children(child, "Range")]
        if not all(re.fullmatch("[0-9]{1,3}", share) for share, _ in shares):
            raise reader.error("Range: its attribute IO must be a whole number")
        target.distribution = Distribution(kind, [(int(share), span) for share, span in shares])  # type: ignore[arg-type]


def _cache(name: str, through: bool = False) -> _TargetReader:
    def read(reader: _Reader, target: TargetSpec, element: _Element) -> None:
        if reader.truth(element):
            target.cache, target.cache_given = name, True  # type: ignore[assignment]
            target.write_through = target.write_through or through

    return read


def _flag(name: str) -> _TargetReader:
    def read(reader: _Reader, target: TargetSpec, element: _Element) -> None:
        setattr(target, name, reader.truth(element))

    return read


def _hint(letter: str) -> _TargetReader:
    def read(reader: _Reader, target: TargetSpec, element: _Element) -> None:
        if reader.truth(element):
            target.hints += letter
            reader.notes[f"{element.tag}: {note('-f', 'rst')}"] = None

    return read


def _map_flush(reader: _Reader, target: TargetSpec, element: _Element) -> None:
    target.map_flush = _MAPS[reader.choice(element, tuple(_MAPS))]


def _weight(reader: _Reader, target: TargetSpec, element: _Element) -> None:
    if element.tag == "ThreadTargets" or reader.number(element) != 1:
        raise reader.error(f"{element.tag}: naslab has no weights between targets; leave it out")


_TARGET_READERS: dict[str, _TargetReader] = {
    "Path": _path, "StrideSize": _stride, "Random": _random, "Throughput": _throughput,
    "WriteBufferContent": _contents, "Distribution": _spread, "FlushType": _map_flush,
    "InterlockedSequential": _flag("interlocked"), "ParallelAsyncIO": _flag("parallel"),
    "MemoryMappedIo": _flag("mmap"), "WriteThrough": _flag("write_through"), "UseLargePages": _flag("large_pages"),
    "DisableLocalCache": _cache("remote"), "DisableOSCache": _cache("none"),
    "DisableAllCache": _cache("none", through=True),
    "SequentialScan": _hint("s"), "RandomAccess": _hint("r"), "TemporaryFile": _hint("t"),
    "Weight": _weight, "ThreadTargets": _weight,
}  # fmt: skip


def write(profile: Profile, lines: XmlLines, notes: Sequence[str] = ()) -> None:
    """Adds the Profile element. notes: comments in it."""
    with lines.within("Profile"):
        for text in notes:
            lines.comment(f"naslab: {text}")
        lines.add("Progress", profile.progress)
        lines.add("ResultFormat", "xml" if profile.xml_output else "text")
        lines.add("Verbose", profile.verbose)
        if profile.precreate:
            lines.add("PrecreateFiles", profile.precreate)
        with lines.within("TimeSpans"):
            for span in profile.spans:
                _write_span(span, lines)


def profile_text(profile: Profile) -> str:
    """What -Rpxml prints."""
    lines = XmlLines()
    write(profile, lines)
    return lines.text()


def _write_span(span: TimeSpan, lines: XmlLines) -> None:
    with lines.within("TimeSpan"):
        lines.add("CompletionRoutines", span.completion_routines)
        lines.add("MeasureLatency", span.latency)
        lines.add("CalculateIopsStdDev", span.iops)
        lines.add("DisableAffinity", span.no_affinity)
        for tag in ("Duration", "Warmup", "Cooldown", "ThreadCount", "RequestCount", "IoBucketDuration", "RandSeed"):
            lines.add(tag, getattr(span, _SPAN_NUMBERS[tag]))
        if span.random_data:
            lines.add("RandomWriteData", True)
        if span.affinity:
            with lines.within("Affinity"):
                for group, processor in span.affinity:
                    lines.empty("AffinityGroupAssignment", Group=group, Processor=processor)
        with lines.within("Targets"):
            for target in span.targets:
                with lines.within("Target"):
                    _write_target(target, lines)


def _write_target(target: TargetSpec, lines: XmlLines) -> None:
    lines.add("Path", target.shown)
    lines.add("BlockSize", target.block_bytes)
    lines.add("BaseFileOffset", target.base_bytes)
    for letter, tag in (("s", "SequentialScan"), ("r", "RandomAccess"), ("t", "TemporaryFile")):
        lines.add(tag, letter in target.hints)
    lines.add("UseLargePages", target.large_pages)
    if target.cache != "cached":
        lines.add("DisableLocalCache" if target.cache == "remote" else "DisableOSCache", True)
    if target.write_through:
        lines.add("WriteThrough", True)
    if target.mmap:
        lines.add("MemoryMappedIo", True)
    if target.map_flush:
        lines.add("FlushType", next(name for name, letter in _MAPS.items() if letter == target.map_flush))
    _write_contents(target, lines)
    lines.add("ParallelAsyncIO", target.parallel)
    if target.burst:
        lines.add("BurstSize", target.burst)
    if target.think_ms:
        lines.add("ThinkTime", target.think_ms)
    if target.file_bytes is not None:
        lines.add("FileSize", target.file_bytes)
    _write_order(target, lines)
    lines.add("ThreadStride", target.separation_bytes)
    lines.add("MaxFileSize", target.max_bytes)
    lines.add("RequestCount", target.outstanding)
    lines.add("WriteRatio", target.write_pct)
    if target.limit_per_s:
        lines.add("Throughput", target.limit_per_s, unit="IOPS")
    else:
        lines.add("Throughput", target.limit_bytes_per_ms)
    lines.add("ThreadsPerFile", target.threads)
    lines.add("IOPriority", target.priority)
    lines.add("Weight", 1)


def _write_contents(target: TargetSpec, lines: XmlLines) -> None:
    with lines.within("WriteBufferContent"):
        lines.add("Pattern", target.pattern)
        if target.source_bytes:
            with lines.within("RandomDataSource"):
                lines.add("SizeInBytes", target.source_bytes)
                if target.source_path:
                    lines.add("FilePath", target.source_path)


def _write_order(target: TargetSpec, lines: XmlLines) -> None:
    if not target.random_pct:
        lines.add("StrideSize", target.step_bytes)
        lines.add("InterlockedSequential", target.interlocked)
        return
    lines.add("Random", target.step_bytes)
    if target.random_pct != 100:
        lines.add("RandomRatio", target.random_pct)
    if target.distribution is not None:
        with lines.within("Distribution"), lines.within("Percent" if target.distribution.kind == "pct" else "Absolute"):
            for share, span in target.distribution.completed().parts:
                lines.add("Range", span, IO=share)
