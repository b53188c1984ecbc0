"""The independent tools: how they are called, and what their output says. What runs them is in `probe.py`."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from naslab.errors import TargetError

PACKAGES = {
    "fio": "fio", "iperf3": "iperf3", "smbclient": "smbclient", "nfs-cp": "libnfs-utils", "ip": "iproute2",
    "dd": "coreutils",
}  # fmt: skip
"""Debian packages of the programs."""
RAMP_S = 0.3
"""Left out at the start: a throttle lets through what it holds after a pause, and TCP finds its window."""
_SAMPLE_MS = 100
_PUT = re.compile(r"\(([0-9.]+) kb/s\)")
_GET = re.compile(r"\(([0-9.]+) KiloBytes/sec\)")
_DD = re.compile(r"(\d+) bytes .*copied, ([0-9.e-]+) s")


@dataclass(frozen=True)
class Work:
    """What fio does, through the same region until the time is over. rw: as it calls it.

    block, depth: little in flight, which a short run counts in full or not at all.
    """

    rw: str
    block: str = "64k"
    depth: int = 4
    seconds: float = 1.0
    ramp_s: float = RAMP_S


def fio_words(work: Work, places: Mapping[str, Sequence[str]], engine: str = "libaio") -> list[str]:
    """fio's command line. places: options of each job (at least its file), by name."""
    ramp = [f"--ramp_time={work.ramp_s * 1e3:.0f}ms"] if work.ramp_s else []
    words = [
        "fio", "--output-format=json", "--name=global", f"--rw={work.rw}", f"--bs={work.block}", "--direct=1",
        f"--ioengine={engine}", f"--iodepth={work.depth}", "--time_based", f"--runtime={work.seconds * 1e3:.0f}ms",
        *ramp, "--randrepeat=0", "--norandommap=1",
    ]  # fmt: skip
    for name, options in places.items():
        words += [f"--name={name}", *options]
    return words


def raw(device: str, writes: bool) -> list[str]:
    """Options of a job on a block device that carries something; writing spoils it: its second half only."""
    return [
        f"--filename={device}",
        *(["--offset=50%", "--size=16m", "--allow_mounted_write=1"] if writes else ["--readonly"]),
    ]


@dataclass(frozen=True)
class FioJob:
    """One job of fio: bytes per second, requests per second of reads and writes; median latency of reads; errors."""

    read_bytes_per_s: float
    write_bytes_per_s: float
    read_iops: float
    write_iops: float
    read_latency_ns: float
    requests: int
    errors: int


def fio_jobs(out: str) -> dict[str, FioJob]:
    """Jobs by name. Raises TargetError for what is no result of fio's."""
    try:
        # Warnings may stand before the document.
        found = json.loads(out[out.index("{") :])["jobs"]
        return {each["jobname"]: _job(each) for each in found}
    except (ValueError, KeyError, TypeError) as error:
        said = " ".join(out.split())[:200]
        raise TargetError(f"fio gave no result ({type(error).__name__}): {said or 'it printed nothing'}") from None


def _job(job: Mapping[str, Any]) -> FioJob:
    read, write = job["read"], job["write"]
    return FioJob(
        float(read["bw_bytes"]), float(write["bw_bytes"]), float(read["iops"]), float(write["iops"]),
        _median_ns(read), int(read["total_ios"]) + int(write["total_ios"]), int(job.get("total_err", 0)),
    )  # fmt: skip


def _median_ns(way: Mapping[str, Any]) -> float:
    return float(way["clat_ns"]["percentile"]["50.000000"]) if way["total_ios"] else 0.0


def log_words(prefix: str) -> list[str]:
    """Options of a job that write what it moved in each tenth of a second to `PREFIX_bw.1.log`."""
    return [f"--write_bw_log={prefix}", f"--log_avg_msec={_SAMPLE_MS}"]


def fio_series(log: str) -> list[tuple[float, float]]:
    """(seconds, bytes moved until then) from a log of bandwidth. Raises TargetError without two rows.

    Rows are: end of the interval in ms, KiB/s, direction, block size, ...; source: fio's HOWTO, log file formats.
    """
    moved, before, found = 0.0, 0.0, [(0.0, 0.0)]
    for row in log.splitlines():
        at_ms, kib_per_s, *_ = (float(each) for each in row.split(",")[:2])
        moved += kib_per_s * 1024 * (at_ms / 1e3 - before)
        before = at_ms / 1e3
        found.append((before, moved))
    if len(found) < 3:
        raise TargetError("fio's log of bandwidth is empty")
    return found


def iperf_words(address: str, port: int, seconds: int, reverse: bool) -> list[str]:
    """The client's command line; reverse: the server sends."""
    return [
        "iperf3",
        "-c",
        address,
        "-p",
        str(port),
        "-t",
        str(seconds),
        "-i",
        "0.1",
        "-J",
        *(["-R"] if reverse else []),
    ]


def iperf_series(out: str) -> list[tuple[float, float]]:
    """(seconds, bytes of TCP data until then) of one run. Raises TargetError with what iperf3 says."""
    try:
        document = json.loads(out[out.index("{") :])
        if "error" in document:
            raise TargetError(f"iperf3: {document['error']}")
        moved, found = 0.0, [(0.0, 0.0)]
        for each in document["intervals"]:
            moved += float(each["sum"]["bytes"])
            found.append((float(each["sum"]["end"]), moved))
    except (ValueError, KeyError, TypeError) as error:
        said = " ".join(out.split())[:200]
        raise TargetError(f"iperf3 gave no result ({type(error).__name__}): {said or 'it printed nothing'}") from None
    if len(found) < 3:
        raise TargetError("iperf3 reported no intervals")
    return found


def chunks(series: Sequence[tuple[float, float]], count: int, skip_s: float = RAMP_S) -> tuple[float, ...]:
    """Rates per second of equal parts of a series after its beginning. Raises TargetError where it is too short."""
    rest = [each for each in series if each[0] >= skip_s - 1e-6]
    if len(rest) <= count:
        raise TargetError(f"a series of {len(series)} intervals is too short for {count} parts")
    edges = [rest[round(at * (len(rest) - 1) / count)] for at in range(count + 1)]
    return tuple((b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.pairwise(edges))


def smbclient_rate(out: str, get: bool) -> float:
    """Bytes per second of smbclient's put or get. Raises TargetError with what it says."""
    found = (_GET if get else _PUT).search(out)
    if found is None or float(found[1]) <= 0:
        said = " ".join(out.split())[-200:]
        raise TargetError(f"smbclient transferred nothing: {said or 'it printed nothing'}")
    return float(found[1]) * 1024


def dd_rate(out: str) -> float:
    """Bytes per second of dd. Raises TargetError with what it says."""
    found = _DD.search(out)
    if found is None:
        raise TargetError(f"dd copied nothing: {' '.join(out.split())[-200:]}")
    return float(found[1]) / float(found[2])
