"""A whole calibration, of a running system or of one that is built for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from naslab.lab import server as servers
from naslab.lab.calibrate import disks, links, path, records
from naslab.lab.calibrate.finding import Calibration, Finding
from naslab.lab.calibrate.probe import Probe, check_tools
from naslab.lab.calibrate.servers import measure_server
from naslab.lab.server import Server

Say = Callable[[str], None]


def calibrate(
    server: Server, *, scratch: bool = False, runs: int = 3, seconds: float = 1.0, through: bool = True,
    say: Say = lambda _: None,
) -> Calibration:  # fmt: skip
    """Measures each planted limit of a running system with independent tools.

    scratch: what its disks hold may be spoiled, and it is taken down after it; only so are the disks of a volume
    written and buckets drained. runs, seconds: of each limit. through: also the whole way through the server. A limit
    that cannot be measured is among the findings with its reason. Raises UsageError where a tool is missing.
    """
    probe = Probe(server, runs, seconds, scratch, say)
    check_tools(_tools(probe, through), server.name)
    disks.measure_bursts(probe)
    links.measure_link(probe)
    disks.measure_reads(probe)
    disks.measure_volume(probe)
    measure_server(probe)
    if through:
        path.measure_path(probe)
    else:
        probe.run(["rm", "-f", probe.file], 0, check=False)
    disks.measure_writes(probe)
    backend = server.facts.get("backend", "native")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Calibration(server.name, backend, records.key_of(server), now, tuple(_ordered(probe)))


def calibrate_system(
    name: str,
    chosen: Mapping[str, str] | None = None,
    *,
    runs: int = 3,
    seconds: float = 1.0,
    say: Say = lambda _: None,
) -> Calibration:
    """Builds a system by its name or file, calibrates it and takes it down. chosen: as for `naslab.lab.start`.

    Raises UsageError, TargetError.
    """
    options: dict[str, Any] = dict(chosen or {})
    with servers.running(name, **options) as server:
        return calibrate(server, scratch=True, runs=runs, seconds=seconds, say=say)


def _tools(probe: Probe, through: bool) -> list[str]:
    """Programs that the planted limits need."""
    names = [*probe.planted]
    found = path.tools(probe) if through else []
    if any(each.startswith(("disks", "volume")) for each in names):
        found.append("fio")
    if any(each in ("link.rate", "link.burst.rate", "clients.rate") for each in names):
        found.append("iperf3")
    return [*found, *(["ip"] if "link.mtu" in names else [])]


def _ordered(probe: Probe) -> list[Finding]:
    """In the order of the parts, the whole way last; a planted limit that nothing was said of says so."""
    order = {name: at for at, name in enumerate(probe.planted)}
    said = {each.name for each in probe.found}
    for name in order:
        if name not in said:
            probe.skip(name, "naslab has no way to measure it on this system")
    return sorted(probe.found, key=lambda each: order.get(each.name, len(order)))
