"""The native backend: what it can build, what that takes, and how a server of it is prepared."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path

from naslab.errors import UsageError
from naslab.lab import embedded, ganesha, loops, samba, throttle
from naslab.lab.definition import Definition
from naslab.lab.devices import blocks, format, keeper, plan
from naslab.lab.native import groups, net
from naslab.lab.place import Place, Service
from naslab.units import amount_text

KEEPER_READY_S = 90.0
"""Memory of the disks is touched and formatted first: seconds, and more on a busy machine."""
ROOM_BYTES = 2 << 30
"""Of a share in memory behind a link, for systems without disks: taken only as it fills."""
MEMORY_SHARE = 0.9
"""Of the memory that is available, how much disks may take."""
LEAST_RAID_BYTES = 128 << 20
"""Of each disk: below that a RAID of btrfs has hardly room for a file."""
_POOLS = {"pool": {"mergerfs": "mergerfs"}, "background": {"mergerfs": "mergerfs"},
          "synchronous": {"glusterfs": "glusterfs-client"}}  # fmt: skip
_SERVERS = {"samba": samba.PROGRAMS, "ganesha": ganesha.PROGRAMS, "demo": {}, "knfsd": {}}


def refusals(definition: Definition) -> list[str]:
    """What this backend never builds, as `part.key = value: why`."""
    found = []
    kind, level, access = definition.filesystem.type, definition.volume.level, definition.clients.access
    server, link = definition.server, definition.link
    if definition.disks:
        if kind == "fat":
            found.append("filesystem.type = 'fat': only a guest has it")
        if level == "span" and kind != "btrfs":
            found.append("volume.level = 'span': one disk after the other exists in a guest only (or as btrfs)")
        if kind in ("ntfs", "btrfs") and definition.volume.mode == "synchronous":
            found.append(f"filesystem.type = {kind!r}: a synchronous pair takes ext2, ext3, ext4 or xfs")
    if plan.needs_engine(definition) and min(each.size_bytes for each in definition.disks) < LEAST_RAID_BYTES:
        found.append(f"disks.size: a RAID here takes disks of {LEAST_RAID_BYTES >> 20}MiB or more")
    if odd := [each.latency_ns for each in definition.disks if each.latency_ns % 10**6]:
        found.append(f"disks.latency = {odd[0]} ns: disks are delayed by whole milliseconds")
    if any(each.seek_ns for each in definition.disks):
        found.append("disks.seek: no packaged program delays only seeks; use iops to limit small requests")
    if server.kind == "knfsd":
        found.append("server.kind = 'knfsd': the kernel's server belongs to the whole machine; a guest has its own")
    if server.kind == "demo" and link is not None:
        found.append("server.kind = 'demo': it serves the loopback interface only; leave out [link]")
    if access != "direct":
        found.append(f"clients.access = {access!r}: kernel mounts are possible in guests only, from servers in guests")
    return found


def programs(definition: Definition) -> dict[str, str]:
    """Programs that a system needs here, and their Debian packages."""
    found = dict(_SERVERS[definition.server.kind])
    if definition.disks:
        found |= {"mount": "mount", "nsenter": "util-linux", **format.PROGRAMS.get(definition.filesystem.type, {})}
        found |= _POOLS.get(definition.volume.mode or definition.volume.level, {})
        if plan.needs_engine(definition):
            found |= {**format.PROGRAMS["btrfs"], "btrfs": "btrfs-progs", "chattr": "e2fsprogs"}
        drafts = _draft(definition).disks
        if any(each.is_served for each in drafts):
            filters = any(each.latency_ns or each.error_rate for each in drafts)
            found |= blocks.programs(filters, any(each.served for each in drafts))
    return found | (net.PROGRAMS if definition.link is not None else {})


def problems(definition: Definition) -> list[str]:
    """What this machine lacks for a system, beyond programs."""
    found = []
    needs_root = bool(definition.disks or definition.link) or definition.server.kind == "ganesha"
    if (needs_root or definition.server.ram_bytes or definition.server.cpu) and os.geteuid() != 0:
        return ["disks, links, limits of a server and NFS-Ganesha need root: run as root"]
    checks: list[Callable[[Definition], object]] = (
        [_check_devices, _check_kernel, _check_memory] if definition.disks else []
    )
    if definition.link is not None and definition.link.latency_ns:
        checks.append(lambda _: net.check_delay())
    for check in [*checks, _check_groups]:
        try:
            check(definition)
        except UsageError as error:
            found.append(str(error).removeprefix("lab: "))
    if any(each.burst for each in definition.disks) and plan.is_escaped(definition, _version(definition)):
        found.append("disks.burst: limits of cgroup v2 do not cover the threads of a RAID; use one disk, or a guest")
    return found


def prepare(place: Place, definition: Definition) -> Service:
    """The server to start, and the keeper of its disks. Raises UsageError, TargetError."""
    if definition.disks or definition.link:
        if not place.can_mount:
            raise UsageError(f"{definition.name}: naslab cannot create namespaces here: run it outside a container")
        if place.folder not in place.data.parents:
            raise UsageError(f"{definition.name}: its share is on its own disks; leave out --folder")
    limits = _groups(definition, place.folder.name)
    build = None
    if definition.disks or limits:
        count = len(definition.disks) + plan.needs_engine(definition)
        minors = loops.reserve(place.folder, count, [str(each.folder) for each in limits])
        build = plan.build_plan(definition, place.folder, minors, _version(definition), str(uuid.uuid4()))
    groups.make(limits)
    network = None if definition.link is None else net.build(definition.link, definition.clients)
    service = _server(place, definition, net.SERVER if network else "127.0.0.1", build)
    disks = [] if build is None or not build.disks else _disk_lines(place, definition, build)
    service.setup = [*groups.join_lines(limits), *disks, *service.setup]
    if build is not None and build.disks:
        service.keeper, service.keeper_ready_s = keeper.words(build), KEEPER_READY_S
        service.facts["disks"] = [{"device": f"/dev/loop{each}", "number": loops.name(each)} for each in build.minors]
    elif network is not None:
        service.tmpfs_bytes[place.data] = ROOM_BYTES
    service.facts["inside"] = _inside(definition, limits, network)
    if network is not None:
        service.prefix = ["nsenter", f"--net={network.server}"]
    return service


def _server(place: Place, definition: Definition, host: str, build: plan.BuildPlan | None) -> Service:
    server = definition.server
    folders = [] if build is None or not build.disks else plan.disk_folders(build, place.folder, place.data)
    for each in folders:
        each.mkdir(exist_ok=True)
    more = {each.name: each for each in folders[1:]} if definition.volume.level == "jbod" else {}
    if server.kind == "ganesha":
        return ganesha.prepare(place, ganesha.GaneshaOptions(server.versions or ganesha.VERSIONS), host, more)
    if server.kind == "demo":
        return embedded.prepare(place, embedded.EmbeddedOptions())
    return samba.prepare(place, samba_options(definition), host, more)


def samba_options(definition: Definition) -> samba.SambaOptions:
    """As a definition's server says."""
    server = definition.server
    sync = {"asked": {}, "always": {"strict sync": "yes", "sync always": "yes"}, "never": {"strict sync": "no"}}
    return samba.SambaOptions(
        signing=server.signing or "auto", encrypt=server.encryption or "default",
        min_dialect="3.0" if server.encryption == "required" else "2.0.2", max_dialect=server.dialect or "3.1.1",
        config=sync[server.sync],
    )  # fmt: skip


def _disk_lines(place: Place, definition: Definition, build: plan.BuildPlan) -> list[str]:
    lines = plan.mount_lines(build, place.folder, place.data)
    if build.level in ("pool", "duplicated"):
        if definition.volume.mode == "synchronous":
            text = plan.replica_text(plan.disk_folders(build, place.folder, place.data))
            place.write("pool.vol", text)
        lines += plan.pool_lines(build, definition, place.folder, place.data)
    return lines


def _inside(definition: Definition, limits: list[groups.Group], network: net.Network | None) -> dict[str, object]:
    """Where `lab exec` runs a program: in the server's mounts, and its disks' limits; at a client's end of the link."""
    found: dict[str, object] = {}
    if definition.disks:
        found["mount"] = True
        with_disks = [each for each in limits if (each.folder / "io.max").exists()]
        found["join"] = str(with_disks[0].join) if with_disks else None
    if network is not None:
        found |= {"net": network.clients[0], "nets": [*network.clients], "server_net": network.server}
    return found


def _draft(definition: Definition) -> plan.BuildPlan:
    """The devices without their numbers."""
    minors = [*range(len(definition.disks) + 1)]
    return plan.build_plan(definition, Path("/"), minors, _version(definition), "00")


def _has_kernel_limits(definition: Definition) -> bool:
    version = _version(definition)
    escaped = plan.is_escaped(definition, version)
    drafts = [plan.disk_plan(each, 0, escaped) for each in definition.disks]
    return any(each.kernel or each.bucket for each in drafts)


def _version(definition: Definition) -> int:
    """Of the control groups that limit disks here; 1 where nothing needs them."""
    try:
        return throttle.find("", "").version if definition.disks else 1
    except UsageError:
        return 2


def _check_devices(_definition: Definition) -> None:
    loops.check()


def _check_kernel(definition: Definition) -> None:
    """Raises UsageError where the kernel lacks the file system, or what can limit a disk."""
    if _has_kernel_limits(definition):
        throttle.find("", "")
    needed = {"ntfs": "fuse"}.get(definition.filesystem.type, definition.filesystem.type)
    kinds = [needed, *(["btrfs"] if plan.needs_engine(definition) else [])]
    if any(each.is_served for each in _draft(definition).disks) or definition.volume.level in ("pool", "duplicated"):
        kinds.append("fuse")
    known = Path("/proc/filesystems").read_text(encoding="ascii").split()
    modules = Path("/lib/modules", os.uname().release, "kernel", "fs")
    for kind in kinds:
        if kind not in known and not (modules / ("ext4" if kind in ("ext2", "ext3") else kind)).exists():
            raise UsageError(f"lab: filesystem.type = {kind!r}: this kernel has none; use another, or a guest")


def _check_memory(definition: Definition) -> None:
    """Raises UsageError where the disks do not fit in memory: they take all of it at once."""
    needed = sum(each.size_bytes for each in definition.disks)
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    free = next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), 0)
    if needed > free * MEMORY_SHARE:
        raise UsageError(
            f"lab: disks.size: {amount_text(needed)} of disks are in memory, but only {amount_text(free)} is "
            "available;  "
            "make them smaller (--set disks.size=...)"
        )


def _check_groups(definition: Definition) -> None:
    _groups(definition, "x")


def _groups(definition: Definition, name: str) -> list[groups.Group]:
    server = definition.server
    disks = bool(definition.disks) and _has_kernel_limits(definition)
    return groups.find(name, server.ram_bytes, server.cpu, disks)
