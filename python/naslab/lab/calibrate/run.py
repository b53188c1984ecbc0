"""A whole calibration, of a running system or of one that is built for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from naslab.lab import server as servers
from naslab.lab import systems
from naslab.lab.calibrate import disks, links, path, records
from naslab.lab.calibrate.finding import Calibration, Finding
from naslab.lab.calibrate.probe import Probe, check_tools
from naslab.lab.calibrate.servers import measure_server
from naslab.lab.limits import planted
from naslab.lab.server import Server

Say = Callable[[str], None]
THOROUGH, QUICK = (3, 1.0), (1, 1.5)
"""Runs of each limit, and seconds of each."""


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
    mounted = bool(server.facts.get("mount"))
    kind = "samba" if server.url.startswith("smb:") else "nfs"
    check_tools(_tools(probe.planted, path.tool(kind, mounted) if through else ""), server.name)
    probe.prepare()
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
    links.measure_latency(probe)
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
    _check_before(name, options)
    with servers.running(name, **options) as server:
        return calibrate(server, scratch=True, runs=runs, seconds=seconds, say=say)


def _tools(names: Iterable[str], through: str) -> list[str]:
    """Programs that limits of these names need. through: the one that measures the whole way; empty without."""
    limits, found = [*names], [through] if through else []
    if any(each.startswith(("disks", "volume")) for each in limits):
        found.append("fio")
    if any(each in ("link.rate", "link.burst.rate") or each.startswith("clients.") for each in limits):
        found.append("iperf3")
    return [*found, *(["ip"] if "link.mtu" in limits else [])]


def _check_before(name: str, chosen: Mapping[str, str]) -> None:
    """Raises UsageError for a tool that is missing, before anything is built."""
    found = systems.from_file(Path(name)) if name.endswith(".toml") else systems.system(name)
    if isinstance(found, systems.DefinedSystem):
        made = found.make_options(chosen)
        through = path.tool(made.server.kind, made.clients.access != "direct")
        check_tools(_tools([each.name for each in planted(made)], through), name)
        return
    limits = {"burst-disk": ["disks.burst.rate"], "burst-link": ["link.burst.rate"]}.get(name, [])
    check_tools(_tools(limits, path.tool(name.partition("-")[0], False)), name)


def _ordered(probe: Probe) -> list[Finding]:
    """In the order of the parts, the whole way last; a planted limit that nothing was said of says so."""
    order = {name: at for at, name in enumerate(probe.planted)}
    said = {each.name for each in probe.found}
    for name in order:
        if name not in said:
            probe.skip(name, "naslab cannot measure it on this system")
    return sorted(probe.found, key=lambda each: order.get(each.name, len(order)))
