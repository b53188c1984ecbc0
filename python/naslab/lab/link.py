"""A Samba behind a link with a token bucket: `burst-link`.

Two network namespaces joined by a pair of virtual interfaces, each shaped on its way out (tbf with a peak rate), so
that writes and reads have a bucket each. The server lives in one, its guardian in the other, which is the client's;
no interface of the host is touched, and both end with the guardian, having no names. A command that measures
`lab:burst-link` moves into the client's namespace itself (`enter`); other programs run there through `naslab lab exec`.

The rates are those of the wire, as the shaper counts: of each 1514 bytes (Ethernet's header and 1500) 1448 are
data of a TCP segment with time stamps.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
from dataclasses import dataclass

from naslab.errors import TargetError, UsageError
from naslab.lab import samba
from naslab.lab.bucket import Plan
from naslab.lab.place import Place, Service

PROGRAMS = {**samba.PROGRAMS, "ip": "iproute2", "tc": "iproute2", "nsenter": "util-linux"}
SERVER, CLIENT = "10.77.0.1", "10.77.0.2"
PAYLOAD_SHARE = 1448 / 1514
"""Of the bytes on the wire, how many a client reads or writes; SMB's own headers take less than 0.1 % more."""
SHARE_BYTES = 2 << 30
"""Room on the share, in memory: taken only as it fills."""
_PEAK_BYTES = 128 << 10
_QUEUE_S = 0.01
_CLONE_NEWNET = 0x40000000
_held: list[int] = []


@dataclass(frozen=True)
class LinkOptions:
    """What can be chosen of the link, in words as on the command line.

    burst, base: bytes per second on the wire with and without credit, in each direction. size: credit when it is full.
    """

    burst: str = "120MB/s"
    base: str = "24MB/s"
    size: str = "400MB"

    def plan(self) -> Plan:
        """The bucket. Raises UsageError, also for what the shaper cannot count."""
        plan = Plan.parse("burst-link", self.burst, self.base, self.size)
        if plan.size_bytes >= min(1 << 32, 250 * plan.base_bytes_per_s):
            raise UsageError(
                f"burst-link: size={self.size!r}; the shaper takes less than 4 GiB and less than 250 s at the base rate"
            )
        return plan


def prepare(place: Place, options: LinkOptions) -> Service:
    """Makes the link around this process, which is then the client's end. Raises UsageError, TargetError."""
    plan = options.plan()
    if os.geteuid() != 0:
        raise UsageError("burst-link: network namespaces and shapers need root: run as root")
    if not place.can_mount:
        raise UsageError("burst-link: naslab cannot create namespaces on this machine: run it outside a container")
    if place.folder not in place.data.parents:
        raise UsageError("burst-link: its share is in memory, so that only the link is a limit; leave out --folder")
    server = _make(plan)
    service = samba.prepare(place, samba.SambaOptions(), SERVER)
    service.tmpfs_bytes[place.data] = SHARE_BYTES
    service.prefix = ["nsenter", f"--net={server}"]
    service.facts["planted"] = plan.facts()
    service.facts["inside"] = {"net": f"/proc/{os.getpid()}/ns/net", "server_net": server}
    return service


def _make(plan: Plan) -> str:
    """Server's namespace, client's namespace, the pair between them; a path of the server's."""
    drop_networks()
    server = new_network()
    unshare_network()
    shaper = [
        "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", f"{plan.base_bytes_per_s}bps",
        "burst", str(plan.size_bytes), "peakrate", f"{plan.burst_bytes_per_s}bps", "mtu", str(_PEAK_BYTES),
        "limit", str(int(plan.burst_bytes_per_s * _QUEUE_S) + _PEAK_BYTES),
    ]  # fmt: skip
    run_command("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", server)
    for prefix, address in (("nsenter", f"--net={server}"), SERVER), ((), CLIENT):
        run_command(*prefix, "ip", "link", "set", "lo", "up")
        run_command(*prefix, "ip", "addr", "add", f"{address}/24", "dev", "eth0")
        run_command(*prefix, "ip", "link", "set", "eth0", "up")
        run_command(*prefix, *shaper)
    return server


def enter(path: str) -> int:
    """Moves this thread, and those it starts from now on, into a network namespace; a descriptor of the former.

    Raises TargetError.
    """
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        there = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _set(there)
        finally:
            os.close(there)
    except OSError as error:
        os.close(before)
        raise TargetError(f"lab: the link's namespace: {error.strerror}; run as root", before_run=True) from None
    return before


def leave(before: int) -> None:
    """Returns to the namespace that `enter` left.

    In a user namespace there is no way back into a network of the host: the process stays where it is.
    """
    with contextlib.suppress(PermissionError):
        _set(before)
    os.close(before)


def _set(handle: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(handle, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def drop_networks() -> None:
    """Lets go of the namespaces that `new_network` made."""
    while _held:
        os.close(_held.pop())


def new_network() -> str:
    """A new network namespace, which this process is then in; its path, good until `drop_networks`."""
    unshare_network()
    _held.append(os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC))
    return f"/proc/{os.getpid()}/fd/{_held[-1]}"


def unshare_network() -> None:
    """Gives this thread a network namespace of its own. Raises UsageError."""
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise UsageError(f"lab: cannot create a network namespace here: {reason}; run it outside a container")


def run_command(*command: str) -> None:
    """Raises TargetError with the end of what the command said when it fails."""
    path = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    done = subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ, "PATH": path})
    if done.returncode != 0:
        words = done.stderr.strip().splitlines()[-1:]
        raise TargetError(f"lab: {' '.join(command)}: {' '.join(words)}", before_run=True)
