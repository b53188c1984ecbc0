"""The link of a system: network namespaces joined by virtual interfaces that are shaped on their way out.

One client: a pair of interfaces between it and the server. Several: a switch between them, in a namespace of its
own; the server's port is the link that they share, and each has one of its own. The guardian holds the namespaces by
descriptors and stays in the first client's; they have no names and end with it. No interface of the host is touched.

Rates are those of the wire as the shaper counts them: frames with Ethernet's header.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass

from naslab.errors import UsageError
from naslab.lab import link as links
from naslab.lab.definition import Burst, Clients, Link

PROGRAMS = {"ip": "iproute2", "tc": "iproute2", "nsenter": "util-linux"}
NETWORK = "10.77.0."
SERVER = NETWORK + "1"
QUEUE_NS = 5_000_000
"""A longer queue lets several writers starve each other."""
_LEAST_BURST_BYTES = 32 << 10
_BURST_S = 0.001
"""What a shaper lets through at once after a pause, in time at the link's rate."""
_SHORT_LEAST_BYTES = 9 << 10
_SHORT_S = 256e-6
"""The same where both ends send short trains of packets. Longer, and short exchanges run faster than a wire would let
them; shorter, and a busy machine cannot keep up with the rate."""
_LEAST_FRAMES, _FRAME_BYTES = 3, 14
"""With room for one frame alone, what is earned while that one waits to be sent would be lost: 5 % at 9000 bytes."""
_LONGEST_TRAIN_BYTES = 64 << 10
_PEAK_BYTES = 128 << 10
_BELOW = ("parent", "1:1", "handle", "10:")


@dataclass(frozen=True)
class Network:
    """Namespaces as paths: the server's, and each client's; the server's address."""

    server: str
    clients: tuple[str, ...]
    address: str = SERVER


def build(link: Link, clients: Clients) -> Network:
    """Makes the network around this process, which is then the first client. Raises UsageError, TargetError."""
    if os.geteuid() != 0:
        raise UsageError("lab: network namespaces and shapers need root: run as root, or leave [link] out")
    links.drop_networks()
    made = [links.new_network() for _ in range(1 + clients.count + (clients.count > 1))]
    mine, server, others = made[-1], made[0], made[1:-1]
    switch = others.pop(0) if clients.count > 1 else ""
    network = Network(server, (mine, *others))
    for where, words in commands(network, switch, link, clients):
        links.run_command("nsenter", f"--net={where}", *words)
    return network


def commands(network: Network, switch: str, link: Link, clients: Clients) -> list[tuple[str, list[str]]]:
    """What is done, in order: a namespace, and a command in it. switch: empty with one client."""
    found: list[tuple[str, list[str]]] = []
    if not switch:
        (client,), (own,) = network.clients, clients.own_bits_per_s
        found += _pair(client, "eth0", network.server)
        found += _end(network.server, SERVER, link, own) + _end(client, NETWORK + "2", link, own)
        return found + _way_out(network.server, link, own) + _way_out(client, link, own)
    found.append((switch, ["ip", "link", "add", "br0", "type", "bridge"]))
    found.append((switch, ["ip", "link", "set", "br0", *size_words(link), "up"]))
    ends = zip((network.server, *network.clients), (None, *clients.own_bits_per_s), strict=True)
    for at, (where, rate) in enumerate(ends):
        port = f"port{at}"
        found += _pair(switch, port, where)
        found.append((switch, ["ip", "link", "set", port, *size_words(link), "master", "br0", "up"]))
        found += _end(where, f"{NETWORK}{at + 1}", link, rate)
        found += _way_out(where, link, rate) + shaped(switch, port, link, rate, True)
    return found


def _pair(where: str, name: str, peer: str) -> list[tuple[str, list[str]]]:
    return [(where, ["ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", peer])]


def size_words(link: Link) -> list[str]:
    """Packets of their real size, one by one: only so their size costs what it costs on a wire."""
    return [] if link.mtu is None else ["mtu", str(link.mtu), "gso_max_segs", "1"]


def _end(where: str, address: str, link: Link, own_bits_per_s: int | None) -> list[tuple[str, list[str]]]:
    return [
        (where, ["ip", "link", "set", "lo", "up"]),
        (where, ["ip", "addr", "add", f"{address}/24", "dev", "eth0"]),
        (where, ["ip", "link", "set", "eth0", *(size_words(link) or _train_words(link, own_bits_per_s)), "up"]),
    ]


def _train_words(link: Link, own_bits_per_s: int | None) -> list[str]:
    """Packets leave in trains of half of what the shaper lets through at once."""
    rates = [each for each in (link.rate_bits_per_s, own_bits_per_s) if each is not None]
    return (
        ["gso_max_size", str(min(_burst_bytes(min(rates), True, link.mtu) // 2, _LONGEST_TRAIN_BYTES))] if rates else []
    )


def _burst_bytes(bits_per_s: int, short: bool, mtu: int | None) -> int:
    if short:
        frames = _LEAST_FRAMES * (mtu + _FRAME_BYTES) if mtu else 0
        return max(_SHORT_LEAST_BYTES, frames, int(bits_per_s / 8 * _SHORT_S))
    return max(_LEAST_BURST_BYTES, int(bits_per_s / 8 * _BURST_S))


def shaped(
    where: str, device: str, link: Link, own_bits_per_s: int | None, short: bool = False
) -> list[tuple[str, list[str]]]:
    """A shaper on an interface's way out: the client's own rate where that is the lower one, or the link's.

    short: what is sent comes in short trains of packets.
    """
    rate, burst = link.rate_bits_per_s, link.burst
    queue_ns = QUEUE_NS if link.queue_ns is None else link.queue_ns
    if own_bits_per_s is not None and (rate is None or own_bits_per_s < rate):
        rate, burst = own_bits_per_s, None
    shape = ["tc", "qdisc", "add", "dev", device, "root", "tbf"]
    if burst is not None:
        return [(where, [*shape, *_bucket_words(burst, queue_ns)])]
    return [] if rate is None else [(where, [*shape, *_rate_words(rate, queue_ns, short, link.mtu)])]


def _way_out(where: str, link: Link, own_bits_per_s: int | None) -> list[tuple[str, list[str]]]:
    """The shaper at an end of the link; packets that are delayed wait before it, and not in its queue.

    Source: tc-netem(8), netem with tbf below it.
    """
    found = shaped(where, "eth0", link, own_bits_per_s, True)
    if not link.latency_ns:
        return found
    below = [(at, [each for word in words for each in (_BELOW if word == "root" else [word])]) for at, words in found]
    return [
        (where, ["tc", "qdisc", "add", "dev", "eth0", "root", "handle", "1:", *delay_words(link.latency_ns)]),
        *below,
    ]


def delay_words(latency_ns: int) -> list[str]:
    """A delay of packets, as tc takes it, with room for all that are under way."""
    return ["netem", "delay", f"{latency_ns / 1e6:.3f}ms", "limit", "100000"]


def check_delay() -> None:
    """Raises UsageError where this machine's kernel cannot delay packets; tried in a network of its own."""
    words = ["unshare", "--net", "tc", "qdisc", "add", "dev", "lo", "root", *delay_words(10**6)]
    env = {**os.environ, "PATH": os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"}
    done = subprocess.run(words, check=False, capture_output=True, env=env)
    if done.returncode != 0:
        raise UsageError(
            "lab: link.latency: this kernel has no netem (module sch_netem), which delays packets; a guest has it"
        )


def _rate_words(bits_per_s: int, queue_ns: int, short: bool, mtu: int | None) -> list[str]:
    burst = _burst_bytes(bits_per_s, short, mtu)
    limit = burst + int(bits_per_s / 8 * queue_ns / 1e9)
    return ["rate", f"{bits_per_s}bit", "burst", str(burst), "limit", str(limit)]


def _bucket_words(burst: Burst, queue_ns: int) -> list[str]:
    limit = int(burst.rate_bytes_per_s * queue_ns / 1e9) + _PEAK_BYTES
    return [
        "rate", f"{burst.base_bytes_per_s}bps", "burst", str(burst.size_bytes),
        "peakrate", f"{burst.rate_bytes_per_s}bps", "mtu", str(_PEAK_BYTES), "limit", str(limit),
    ]  # fmt: skip
