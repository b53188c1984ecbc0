"""The backend of guests: what it can build, what that takes, and how a server of it is prepared.

The server and, where kernels mount it, each client are guests of their own. The link lies between two network
namespaces of the host, so that it is shaped as the native backend shapes it, outside of what it limits; latency is
added by the server's guest. The guardian stays in the clients' network, where `naslab lab exec` runs a program.
"""

from __future__ import annotations

import sys
from pathlib import Path

from naslab.errors import UsageError
from naslab.lab import ganesha
from naslab.lab import link as links
from naslab.lab.definition import Definition
from naslab.lab.guest import agent, boot, mounts, servers, volume
from naslab.lab.guest.boot import make_bridge
from naslab.lab.guest.house import House
from naslab.lab.guest.servers import Served
from naslab.lab.guest.spec import BRIDGE, GUEST, HOST, MOST_DISKS, Disk, Spec
from naslab.lab.guest.volume import Volume
from naslab.lab.native import net
from naslab.lab.native.backend import samba_options
from naslab.lab.place import Place, Service

READY_S = 120.0
"""Guests start and format their disks: seconds, and more on a busy machine."""
DEFAULT_RAM_BYTES = 512 << 20
_NETWORK = GUEST.rpartition(".")[0]
_RAM_SHARE = 5
_PERIOD_TOLERANCE = 0.02
_TAP = "tap0"


def refusals(definition: Definition) -> list[str]:
    """What this backend never builds, as `part.key = value: why`."""
    found = []
    server, level, access = definition.server, definition.volume.level, definition.clients.access
    if server.kind == "demo":
        found.append("server.kind = 'demo': it serves the loopback interface alone")
    if definition.disks:
        if definition.filesystem.type == "ntfs":
            found.append("filesystem.type = 'ntfs': a guest's kernel does not support it")
        if level in ("pool", "duplicated"):
            found.append(f"volume.level = {level!r}: pools need the native backend")
    if len(definition.disks) > MOST_DISKS:
        found.append(f"disks: a guest has {MOST_DISKS} at most")
    found += [f"disks.{name}: {why}" for name, why, given in _native_limits(definition) if given]
    if odd := [each.error_rate for each in definition.disks if each.error_rate and not _period(each.error_rate)]:
        found.append(f"disks.errors = {odd[0]:.2%}: a guest can only fail one request in a whole number of requests")
    if server.cpu is not None and server.cpu > 1:
        found.append(f"server.cpu = {server.cpu}: a guest has one processor")
    if server.cpu is not None and server.kind == "knfsd":
        found.append("server.cpu: the kernel's threads cannot be limited")
    if access == "direct" and definition.clients.count > 1:
        found.append("clients.count: several direct clients need the native backend")
    return found


def _native_limits(definition: Definition) -> list[tuple[str, str, bool]]:
    """Limits of disks that only the native backend plants: name, why, whether they are given."""
    disks = definition.disks
    return [
        ("rate", "a guest limits reads and writes separately", any(each.rate_bytes_per_s for each in disks)),
        (
            "burst",
            "a guest's kernel does not apply a changed limit to waiting requests",
            any(each.burst for each in disks),
        ),
        ("latency", "a guest's clock ticks every 10 ms, too coarse", any(each.latency_ns for each in disks)),
        ("seek", "no packaged program delays only seeks", any(each.seek_ns for each in disks)),
    ]


def _period(share: float) -> int:
    """One request in how many fails; 0 where no whole number is within 2 %."""
    found = round(1 / share)
    return found if abs(1 / (found * share) - 1) < _PERIOD_TOLERANCE else 0


def programs(definition: Definition) -> dict[str, str]:
    """Programs that a system needs here, and their Debian packages."""
    found = {**boot.programs(), **servers.PROGRAMS[definition.server.kind], **net.PROGRAMS, "mount": "mount"}
    made = _volume(definition)
    if made is not None:
        found |= {name: volume.package(name) for name in made.programs()}
    access = definition.clients.access
    if access != "direct":
        found |= {name: package for name, package in mounts.PROGRAMS.items() if name == f"mount.{_kind(access)}"}
    return found


def problems(definition: Definition) -> list[str]:
    """What this machine lacks for a system, beyond programs."""
    try:
        boot.check(Spec(), Path("/"))
        if definition.server.kind == "ganesha" and ganesha.plugin_folder() is None:
            return ["ganesha's file system plug-in is missing; Debian/Ubuntu: apt install nfs-ganesha-vfs"]
    except UsageError as error:
        return [str(error).removeprefix("lab: ")]
    return []


def prepare(place: Place, definition: Definition) -> Service:
    """The server to start, and the keeper of its guests. Raises UsageError, TargetError."""
    if place.folder not in place.data.parents:
        raise UsageError(f"{definition.name}: its share is in a guest; leave out --folder")
    server_net, client_net = _networks(definition)
    made = _volume(definition)
    server = Spec(
        definition.server.ram_bytes or DEFAULT_RAM_BYTES, _disks(definition), (str(place.folder),), server_net, _TAP,
        mtu_bytes=_mtu_bytes(definition),
    )  # fmt: skip
    clients = _clients(definition, client_net)
    served = _served(place, definition, {"data": agent.DATA} if made is None else made.folders())
    found = House(
        str(place.folder), server, served, made, _write_cache_bytes(definition), definition.server.cpu or 0.0, clients,
        definition.clients.access, tuple(_shapers(definition, client_net)), tuple(_inside(definition)),
    )  # fmt: skip
    path = place.write("house.json", found.dump())
    command = [sys.executable, "-m", "naslab.lab.guest.house"]
    nets = [client_net] * definition.clients.count
    mounted = definition.clients.access != "direct"
    facts = {
        **served.facts, "inside": {"net": client_net, "nets": nets, "server_net": server_net},
        "guests": {name: str(found.home(name)) for name in found.names},
        "mount": mounts.MOUNT if mounted else None, "ready": str(found.ready),
        "mount_credentials": mounts.CREDENTIALS if mounted and served.facts["user"] else None,
    }  # fmt: skip
    return Service(
        [*command, "serve", str(path)], facts["port"], facts, place.folder / "server.log",
        keeper=[*command, "keep", str(path)], keeper_ready_s=READY_S, ready_s=READY_S,
    )  # fmt: skip


def _kind(access: str) -> str:
    return "nfs" if access.startswith("nfs") else "cifs"


def _disks(definition: Definition) -> tuple[Disk, ...]:
    return tuple(
        Disk(
            size_bytes=each.size_bytes // 4096 * 4096, read_bytes_per_s=each.read_bytes_per_s or 0,
            write_bytes_per_s=each.write_bytes_per_s or 0, read_iops=each.iops or 0, write_iops=each.iops or 0,
        )
        for each in definition.disks
    )  # fmt: skip


def _volume(definition: Definition) -> Volume | None:
    if not definition.disks:
        return None
    level = "single" if len(definition.disks) == 1 else definition.volume.level
    faults = tuple(_period(each.error_rate) if each.error_rate else 0 for each in definition.disks)
    return Volume(
        level, definition.filesystem.type, tuple(range(len(definition.disks))), faults=faults if any(faults) else ()
    )


def _write_cache_bytes(definition: Definition) -> int:
    """As Linux does where nothing is said, but the share is of what the server was given."""
    server = definition.server
    return server.write_cache_bytes or (server.ram_bytes or 0) // _RAM_SHARE


def _clients(definition: Definition, client_net: str) -> tuple[Spec, ...]:
    if definition.clients.access == "direct":
        return ()
    ram_bytes = definition.clients.ram_bytes or DEFAULT_RAM_BYTES
    mtu_bytes = _mtu_bytes(definition)
    return tuple(
        Spec(ram_bytes, net=client_net, tap=f"tap{at}", address=f"{_NETWORK}.{at + 2}", mtu_bytes=mtu_bytes)
        for at in range(1, definition.clients.count + 1)
    )


def _mtu_bytes(definition: Definition) -> int:
    link = definition.link
    return 1500 if link is None or link.mtu is None else link.mtu


def _served(place: Place, definition: Definition, folders: dict[str, str]) -> Served:
    server = definition.server
    if server.kind == "samba":
        return servers.plan_samba(GUEST, place.folder / "samba", samba_options(definition), folders)
    versions = server.versions or servers.VERSIONS
    if server.kind == "ganesha":
        return servers.plan_ganesha(GUEST, ganesha.GaneshaOptions(versions), folders)
    write = "async" if server.sync == "never" else "sync"
    return servers.plan_knfsd(GUEST, servers.KernelNfsOptions(versions, write), folders)


# the network


def _networks(definition: Definition) -> tuple[str, str]:
    """Paths of the server's and the clients' network, made around this process, which is in the latter."""
    links.drop_networks()
    if definition.link is None:
        client_net = links.new_network()
        make_bridge(HOST)
        return client_net, client_net
    server_net, client_net = links.new_network(), links.new_network()
    make_bridge("", "nsenter", f"--net={server_net}")
    make_bridge(HOST)
    links.run_command("ip", "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", server_net)
    size = net.size_words(definition.link)
    for prefix in (("nsenter", f"--net={server_net}"), ()):
        links.run_command(*prefix, "ip", "link", "set", "wire", *size, "master", BRIDGE, "up")
        links.run_command(*prefix, "ip", "link", "set", BRIDGE, *size)
    own = definition.clients.own_bits_per_s[0] if definition.clients.access == "direct" else None
    for where in (server_net, client_net):
        for _, words in net.shaped(where, "wire", definition.link, own):
            links.run_command("nsenter", f"--net={where}", *words)
    return server_net, client_net


def _shapers(definition: Definition, client_net: str) -> list[tuple[str, tuple[str, ...]]]:
    """Commands at the host's ends of the clients' own links."""
    link, clients = definition.link, definition.clients
    if link is None or clients.access == "direct":
        return []
    found: list[tuple[str, tuple[str, ...]]] = []
    for number, own in enumerate(clients.own_bits_per_s, 1):
        for where, words in net.shaped(client_net, f"tap{number}", link, own) if own else ():
            found.append((where, tuple(words)))
    return found


def _inside(definition: Definition) -> list[tuple[str, str]]:
    """Lines of sh in the guests: packets' size, latency, the clients' own rate."""
    link, clients = definition.link, definition.clients
    if link is None:
        return []
    names = ["server", *(f"client{number}" for number in range(1, clients.count + 1))]
    names = names[:1] if clients.access == "direct" else names
    found = []
    if link.mtu is not None:
        found += [(name, "ip link set vec0 gso_max_segs 1") for name in names]
    if link.latency_ns:
        found += [("server", line) for line in _delay_lines(link.latency_ns)]
    for name, own in zip(names[1:], clients.own_bits_per_s, strict=False):
        words = net.shaped("", "vec0", link, own) if own else ()
        found += [(name, " ".join(each)) for _, each in words]
    return found


def _delay_lines(latency_ns: int) -> list[str]:
    """Each direction's packets wait: those that leave, and those that come by way of an interface between."""
    wait = " ".join(net.delay_words(latency_ns))
    return [
        "modprobe -a ifb sch_netem act_mirred cls_u32 sch_ingress", "ip link add ifb0 type ifb 2>/dev/null || true",
        "ip link set ifb0 up", f"tc qdisc add dev vec0 root {wait}", "tc qdisc add dev vec0 handle ffff: ingress",
        "tc filter add dev vec0 parent ffff: protocol all u32 match u32 0 0 action mirred egress redirect dev ifb0",
        f"tc qdisc add dev ifb0 root {wait}",
    ]  # fmt: skip
