"""A server with two addresses, each behind a link of its own: `two-links` (Samba) and `two-links-nfs` (NFS-Ganesha).

As `burst-link`, in two network namespaces that end with the guardian; here two pairs of virtual interfaces join them,
each shaped to the same rate at both ends (tbf). One link alone carries `rate`, both together twice that: what a client
gets that uses both addresses (`--address`). The rate is that of the wire, see `link.PAYLOAD_SHARE`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from naslab.errors import UsageError
from naslab.lab import ganesha, samba
from naslab.lab.link import SHARE_BYTES, drop_networks, new_network, run_command, unshare_network
from naslab.lab.place import Place, Service
from naslab.units import parse_size

_NETWORK = {"ip": "iproute2", "tc": "iproute2", "nsenter": "util-linux"}
PROGRAMS = {"samba": {**samba.PROGRAMS, **_NETWORK}, "ganesha": {**ganesha.PROGRAMS, **_NETWORK}}
"""By kind of server."""
SERVERS, CLIENTS = ("10.77.0.1", "10.78.0.1"), ("10.77.0.2", "10.78.0.2")
_BURST_S, _QUEUE_S = 0.002, 0.05
_LEAST_BURST_BYTES = 32 << 10


@dataclass(frozen=True)
class TwoLinksOptions:
    """What can be chosen. rate: of each link, bytes per second on the wire, each way. server: samba or ganesha."""

    rate: str = "24MB/s"
    server: str = "samba"
    multichannel: bool = True

    def bytes_per_s(self) -> int:
        """The rate of one link. Raises UsageError."""
        found = parse_size(self.rate.strip().removesuffix("/s"), "two-links: rate")
        if not 100_000 <= found <= 4_000_000_000:
            raise UsageError(f"two-links: rate={self.rate!r}; give 100kB/s to 4GB/s")
        return found


def prepare(place: Place, options: TwoLinksOptions) -> Service:
    """Makes the links around this process, which is then the client's end. Raises UsageError, TargetError."""
    rate = options.bytes_per_s()
    if os.geteuid() != 0:
        raise UsageError("two-links: network namespaces and shapers need root: run as root")
    if not place.can_mount:
        raise UsageError("two-links: naslab cannot create namespaces on this machine: run it outside a container")
    if place.folder not in place.data.parents:
        raise UsageError("two-links: its share is in memory, so that only the links are a limit; leave out --folder")
    net = _make(rate)
    if options.server == "ganesha":
        service = ganesha.prepare(place, ganesha.GaneshaOptions(every_address=True), SERVERS[0])
    else:
        config = {"interfaces": "eth0 eth1"}
        made = samba.SambaOptions(multichannel=options.multichannel, config=config)
        service = samba.prepare(place, made, SERVERS[0])
        service.tmpfs_bytes[place.data] = SHARE_BYTES
    service.prefix = ["nsenter", f"--net={net}"]
    service.facts["addresses"] = list(SERVERS)
    service.facts["inside"] = {"net": f"/proc/{os.getpid()}/ns/net", "server_net": net}
    return service


def _make(rate: int) -> str:
    """Server's namespace, client's namespace, the pairs between them; a path of the server's."""
    drop_networks()
    server = new_network()
    unshare_network()
    burst = max(int(rate * _BURST_S), _LEAST_BURST_BYTES)
    shaper = ["tbf", "rate", f"{rate}bps", "burst", str(burst), "limit", str(int(rate * _QUEUE_S) + burst)]
    for number, ends in enumerate(zip(SERVERS, CLIENTS, strict=True)):
        name = f"eth{number}"
        run_command("ip", "link", "add", name, "type", "veth", "peer", "name", name, "netns", server)
        for prefix, address in (("nsenter", f"--net={server}"), ends[0]), ((), ends[1]):
            run_command(*prefix, "ip", "link", "set", "lo", "up")
            run_command(*prefix, "ip", "addr", "add", f"{address}/24", "dev", name)
            run_command(*prefix, "ip", "link", "set", name, "up")
            run_command(*prefix, "tc", "qdisc", "add", "dev", name, "root", *shaper)
    return server
