"""`python -m naslab.lab.guest.house keep|serve FILE`: a system of guests, as the lab's supervisor starts it.

`keep` is the guardian's keeper: it starts the guests, makes the volume and shapes the link, says so in one line of JSON
and ends them all when its standard input does. `serve` is the server's program as the guardian sees it: it starts the
server inside and has the clients' kernels mount it. The server's guest lasts as long as that program: killed, it is a
power cut; started anew, it boots the guest on the same disks.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from naslab.client import process
from naslab.errors import NaslabError
from naslab.lab import link as links
from naslab.lab.devices import keeper
from naslab.lab.guest import mounts, servers, volume
from naslab.lab.guest import spec as specs
from naslab.lab.guest.client import Guest, find, start
from naslab.lab.guest.mounts import Remote
from naslab.lab.guest.servers import Served
from naslab.lab.guest.spec import Spec
from naslab.lab.guest.volume import Volume
from naslab.lab.native.groups import quota

GROUP = "/sys/fs/cgroup/cpu/server"
"""The control group of a server with a share of the guest's CPU."""
_CREDENTIALS = ("username", "password")
_DISKS = ("disks", "faults")


@dataclass(frozen=True)
class House:
    """What a system of guests is made of.

    folder: private; each guest lives in a folder below. server: None where it has no disks: a folder in memory.
    cpu: share of the server's one processor; 0 for all of it. latency_ns: added in each direction. shapers: commands
    on the host, each with its network, when the guests are there. inside: the same in each guest, by name.
    """

    folder: str
    server: Spec
    served: Served
    volume: Volume | None = None
    write_cache_bytes: int = 0
    cpu: float = 0.0
    clients: tuple[Spec, ...] = ()
    access: str = "direct"
    shapers: tuple[tuple[str, tuple[str, ...]], ...] = ()
    inside: tuple[tuple[str, str], ...] = ()

    def home(self, name: str) -> Path:
        """Where a guest lives: `server`, `client1` ..."""
        return Path(self.folder) / name

    @property
    def ready(self) -> Path:
        """A file that is there when the server is, and when its clients have mounted it."""
        return Path(self.folder) / "ready"

    @property
    def names(self) -> list[str]:
        """All guests, the server first."""
        return ["server", *(f"client{number}" for number in range(1, len(self.clients) + 1))]

    @property
    def specs(self) -> list[Spec]:
        """What they are made of, in the same order."""
        return [self.server, *self.clients]

    def dump(self) -> str:
        """As JSON."""
        return json.dumps(dataclasses.asdict(self))


def load(words: str) -> House:
    """What `dump` wrote."""
    data: dict[str, Any] = json.loads(words)
    made = data["volume"]
    data |= {
        "server": specs.from_json(data["server"]),
        "served": Served.from_json(data["served"]),
        "volume": None if made is None else Volume(**made | {name: tuple(made[name]) for name in _DISKS}),
        "clients": tuple(specs.from_json(each) for each in data["clients"]),
        "shapers": tuple((net, tuple(command)) for net, command in data["shapers"]),
        "inside": tuple((name, line) for name, line in data["inside"]),
    }
    return House(**data)


def settle(house: House, guest: Guest, name: str) -> None:
    """What a guest needs after each start, before its volume and its server. Raises TargetError."""
    lines = [line for whose, line in house.inside if whose == name]
    if name == "server" and house.write_cache_bytes:
        lines += [
            f"echo {house.write_cache_bytes} > /proc/sys/vm/dirty_bytes",
            f"echo {house.write_cache_bytes // 2} > /proc/sys/vm/dirty_background_bytes",
        ]
    if name == "server" and house.cpu:
        lines += [
            "mkdir -p /sys/fs/cgroup/cpu", "mount -t cgroup -o cpu cgroup /sys/fs/cgroup/cpu", f"mkdir {GROUP}",
            *cpu_lines(house.cpu),
        ]  # fmt: skip
    if lines:
        guest.shell("\n".join(lines))


def cpu_lines(share: float) -> list[str]:
    """What gives the server's group in a guest this share of its processor."""
    quota_us, period_us = quota(share)
    return [f"echo {period_us} > {GROUP}/cpu.cfs_period_us", f"echo {quota_us} > {GROUP}/cpu.cfs_quota_us"]


def _start(house: House, name: str, spec: Spec) -> Guest:
    house.home(name).mkdir()
    guest = start(spec, house.home(name))
    settle(house, guest, name)
    return guest


def keep(house: House) -> list[Guest]:
    """Starts all guests and makes the volume. Raises NaslabError, OSError."""
    with ThreadPoolExecutor(len(house.names)) as pool:
        guests = list(pool.map(lambda name, spec: _start(house, name, spec), house.names, house.specs))
    for net, command in house.shapers:
        links.run_command("nsenter", f"--net={net}", *command)
    if house.volume is not None:
        volume.make(guests[0], house.volume)
    return guests


def serve(house: House) -> Guest:
    """Starts the server, in a guest that is started first if it does not run; its guest. Raises NaslabError."""
    house.ready.unlink(missing_ok=True)
    guest = find(house.home("server"))
    if not guest.is_up:
        guest.boot()
        settle(house, guest, "server")
        if house.volume is not None:
            volume.reopen(guest, house.volume)
    servers.start(guest, house.served, GROUP if house.cpu else "")
    for name in house.names[1:]:
        client = find(house.home(name))
        if f" {mounts.MOUNT} " not in client.read("/proc/mounts").decode():
            mounts.mount(client, house.access, remote(house.served.facts))
    house.ready.touch()
    return guest


def remote(facts: Mapping[str, Any]) -> Remote:
    """What kernels mount of a server with these facts."""
    if facts["protocol"] == "nfs":
        return Remote(facts["host"], facts["port"], facts["path"], mount_port=facts["mount_port"])
    rows = Path(facts["credentials"]).read_text(encoding="utf-8").splitlines()
    known = dict(row.split("=", 1) for row in rows if row.split("=", 1)[0] in _CREDENTIALS)
    return Remote(facts["host"], facts["port"], "data", known["username"], known["password"])


def _keep(house: House) -> int:
    Path("/proc/self/comm").write_text(keeper.NAME, encoding="ascii")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    try:
        keep(house)
    except (OSError, NaslabError) as error:
        print(json.dumps({"error": str(error).removeprefix("lab: ")}), flush=True)
        process.kill_tree(os.getpid())
        return 1
    print(json.dumps({"ready": True}), flush=True)
    while True:
        signal.pause()


def _end_with_stdin() -> None:
    """Ends this process, and all guests, at any moment of their start when the guardian lets go of it."""
    while os.read(0, 4096):
        pass
    process.kill_tree(os.getpid())
    os._exit(0)


def _serve(house: House) -> int:
    process.die_with_parent(os.getppid())
    try:
        why = serve(house).wait(hold=True)
    except NaslabError as error:
        why = str(error)
    print(why, flush=True)
    return 1


def main() -> int:
    """Entry point."""
    house = load(Path(sys.argv[2]).read_text(encoding="utf-8"))
    return _keep(house) if sys.argv[1] == "keep" else _serve(house)


if __name__ == "__main__":
    sys.exit(main())
