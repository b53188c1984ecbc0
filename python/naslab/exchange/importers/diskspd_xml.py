"""DiskSpd's XML (-Rxml). Paths there are not escaped by DiskSpd; entities and document types are refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree
from xml.parsers import expat

from naslab.exchange.importers.base import Draft, Input, checked, date_ns, number, short, whole
from naslab.exchange.importers.diskspd import KINDS, NAMES, Part, Setting, Span, environment, span_cell

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

MAX_XML_BYTES = 64 << 20
END = b"</Results>"
_BARE = re.compile(rb"&(?!(?:amp|lt|gt|quot|apos|#\d{1,7}|#x[0-9a-fA-F]{1,6});)")
_AVERAGES = {
    "read": "AverageReadMilliseconds",
    "write": "AverageWriteMilliseconds",
    "total": "AverageTotalMilliseconds",
}


def parse(source: Input) -> Draft:
    """The run in DiskSpd's XML, a cell a time span. Raises ForeignFileError where nothing of it can be read."""
    root = _root(source)
    draft = Draft("diskspd", "diskspd-xml", [], unknown=("time zone",))
    draft.tool_version = short(_text(root, "System/Tool/Version")) or None
    draft.start_wall_ns = date_ns(_text(root, "System/RunTime"))
    asked = root.findall("Profile/TimeSpans/TimeSpan")
    spans = root.findall("TimeSpan")
    for at, element in enumerate(spans):
        span = _span(element, asked[at] if at < len(asked) else None)
        if made := span_cell(len(draft.cells), span):
            cell, blobs = made
            draft.cells.append(cell)
            draft.blobs |= {cell["id"]: blobs} if blobs else {}
        draft.target = draft.target or short(", ".join(dict.fromkeys(s.path for s in span.settings)))
        facts = {"cpu_usage_percent": span.cpu_percent}
        draft.environment = draft.environment or environment(short(_text(root, "System/ComputerName")), facts)
    if len(draft.cells) < len(spans):
        missing = len(spans) - len(draft.cells)
        draft.warnings.append(("interrupted", f"{missing} time spans have no result and were left out"))
    return checked(draft, source)


def _root(source: Input) -> Element:

    data = source.data
    if len(data) > MAX_XML_BYTES:
        raise source.broken(f"is above {MAX_XML_BYTES} bytes; DiskSpd's results are small")
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):  # as PowerShell's > writes it
        data = source.text.lstrip("\ufeff").encode()
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise source.broken("has a document type or entities, which DiskSpd never writes")
    source.values(b"<")
    start, end = max(0, data.find(b"<Results>")), data.rfind(END)
    try:
        # What calls DiskSpd may write something behind.
        root = ElementTree.fromstring(_BARE.sub(b"&amp;", data[start : end + len(END) if end > 0 else None]))
    except (ElementTree.ParseError, expat.ExpatError, ValueError, LookupError) as error:
        raise source.broken(f"is XML that is cut off or damaged: {error}") from error
    if root.tag != "Results":
        raise source.broken(f"is XML, but not DiskSpd's: it begins with <{short(root.tag)[:40]}>")
    return root


def _text(element: Element | None, path: str) -> str:
    found = None if element is None else element.findtext(path)
    return found or ""


def _number(element: Element, path: str) -> float | None:
    return number(_text(element, path))


def _span(element: Element, asked: Element | None) -> Span:
    span = Span(seconds=_number(element, "TestTimeSeconds") or 0.0, threads=whole(_text(element, "ThreadCount")))
    span.cpu_percent = _number(element, "CpuUtilization/Average/UsagePercent")
    span.depth = whole(_text(element, "RequestCount")) or None
    for target in asked.findall("Targets/Target") if asked is not None else ():
        span.settings.append(_setting(target))
    totals = {kind: Part() for kind in KINDS}
    for thread in element.findall("Thread"):
        moved = ops = 0
        for target in thread.findall("Target"):
            for kind, names in (
                ("read", ("ReadBytes", "ReadCount")), ("write", ("WriteBytes", "WriteCount")),
                ("total", ("BytesCount", "IOCount")),
            ):  # fmt: skip
                amounts = [whole(_text(target, name)) or 0 for name in names]
                totals[kind] = Part(totals[kind].bytes + amounts[0], totals[kind].ops + amounts[1])
            moved += whole(_text(target, "BytesCount")) or 0
            ops += whole(_text(target, "IOCount")) or 0
            span.file_bytes += [size] if (size := whole(_text(target, "FileSize"))) else []
        duration = round(span.seconds * 1e9)
        worker = {"worker": whole(_text(thread, "Id")) or 0, "bytes": moved, "ops": ops, "start_ns": 0}
        span.workers.append({**worker, "end_ns": duration, "duration_ns": duration})
    if not totals["total"].ops:  # tools that write a part of the format leave the sums out
        both = totals["read"], totals["write"]
        totals["total"] = Part(sum(part.bytes for part in both), sum(part.ops for part in both))
    for kind, part in totals.items():
        mean = _number(element, f"Latency/{_AVERAGES[kind]}")
        span.parts[kind] = Part(part.bytes, part.ops, mean)
    _latency(element, span)
    for bucket in element.findall("Iops/Bucket"):
        values = [number(bucket.get(name)) for name in ("SampleMillisecond", "Read", "Write")]
        if None not in values:
            span.series.append((round(values[0]), values[1], values[2]))  # type: ignore[arg-type]
    return span


def _latency(element: Element, span: Span) -> None:
    for bucket in element.findall("Latency/Bucket"):
        name = NAMES.get(_text(bucket, "Percentile").rstrip("0").rstrip(".") or "0") or NAMES.get(
            _text(bucket, "Percentile")
        )
        for kind in KINDS if name else ():
            value = _number(bucket, f"{kind.capitalize()}Milliseconds")
            if value is not None:
                span.latency_ms.setdefault(kind, {})[str(name)] = value


def _setting(target: Element) -> Setting:
    one = Setting(_text(target, "Path"), whole(_text(target, "BlockSize")) or None)
    one.write_percent = _number(target, "WriteRatio")
    # <Random> holds the alignment; <RandomRatio> (2.1 and later) the share of random operations.
    ratio = _number(target, "RandomRatio")
    one.random = target.find("Random") is not None and (ratio is None or ratio >= 100)
    one.depth = whole(_text(target, "RequestCount")) or None
    flags = {name: _text(target, name) == "true" for name in ("DisableAllCache", "DisableOSCache", "DisableLocalCache")}
    one.direct = any(flags.values())
    one.through = _text(target, "WriteThrough") == "true" or flags["DisableAllCache"]
    return one
