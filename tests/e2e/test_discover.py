"""`naslab discover` on a network of its own: Avahi and wsdd announce, Samba lists its shares, nobody else is asked."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cli_tools import HANG_S, Cli, need

pytestmark = pytest.mark.lab
NEAR, FAR = "10.211.87.1", "10.211.87.2"
PROGRAMS = ("avahi-daemon", "wsdd", "smbd", "ip", "unshare", "nsenter")
_PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
_AVAHI = """[server]
host-name=lab-nas
use-ipv6=no
enable-dbus=no
[publish]
publish-workstation=no
"""
_SERVICES = """<?xml version="1.0" standalone='no'?><!DOCTYPE service-group SYSTEM "avahi-service.dtd">
<service-group><name>Lab NAS, 2nd floor</name><service><type>_smb._tcp</type><port>445</port></service>
<service><type>_nfs._tcp</type><port>12049</port></service>
<service><type>_device-info._tcp</type><port>0</port><txt-record>model=RackMac</txt-record></service></service-group>
"""
_SAMBA = """[global]
server min protocol = SMB2
map to guest = Bad User
private dir = {folder}
lock directory = {folder}
state directory = {folder}
cache directory = {folder}
pid directory = {folder}
ncalrpc dir = {folder}/ncalrpc
log file = {folder}/smb.log
bind interfaces only = no
disable netbios = yes
load printers = no
[media]
path = {folder}
guest ok = yes
[backup]
path = {folder}
guest ok = yes
"""


@dataclass
class Network:
    """A network of two ends. interface: ours. Its other end lies in a namespace, with files of /run of its own.

    first: its first process.
    """

    interface: str
    first: int
    folder: Path
    children: list[subprocess.Popen[bytes]]

    def start(self, *words: str) -> None:
        """A program at the far end."""
        inside = ["nsenter", "-t", str(self.first), "-n", "-m", "-p", *words]
        with (self.folder / f"{words[0]}.log").open("wb") as log:
            self.children.append(
                subprocess.Popen(
                    inside, stdout=log, stderr=log, start_new_session=True, env={**os.environ, "PATH": _PATH}
                )
            )


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    need(os.geteuid() == 0 and all(shutil.which(each, path=_PATH) for each in PROGRAMS), f"root, {', '.join(PROGRAMS)}")
    # The first process of a namespace of processes: with it all others end, Samba's helpers among them.
    ready = (
        "mount -t tmpfs tmpfs /run && mkdir /run/avahi-daemon && mount -t tmpfs tmpfs /etc/avahi && echo ready && "
        "exec sleep 300"
    )
    words = ["unshare", "-n", "-m", "-p", "--mount-proc", "--fork", "--kill-child", "sh", "-c", ready]
    keeper = subprocess.Popen(words, stdout=subprocess.PIPE)
    found = Network(f"nsd{os.getpid() % 10**6}", 0, tmp_path, [])
    try:
        assert keeper.stdout is not None and keeper.stdout.readline() == b"ready\n"
        found.first = int(Path(f"/proc/{keeper.pid}/task/{keeper.pid}/children").read_text())
        for words in (
            ["ip", "link", "add", found.interface, "type", "veth", "peer", "name", "eth0", "netns", str(found.first)],
            ["ip", "address", "add", f"{NEAR}/24", "dev", found.interface],
            ["ip", "link", "set", found.interface, "up"],
            *(["nsenter", "-t", str(found.first), "-n", "ip", *each.split()] for each in (
                f"address add {FAR}/24 dev eth0", "link set eth0 up", "link set lo up")),
        ):  # fmt: skip
            subprocess.run(words, check=True, timeout=HANG_S, env={**os.environ, "PATH": _PATH})
        yield found
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(found.first or keeper.pid, signal.SIGKILL)
        for each in (*found.children, keeper):
            each.wait(10)
        if keeper.stdout is not None:
            keeper.stdout.close()
        subprocess.run(["ip", "link", "delete", found.interface], check=False, capture_output=True)


def searched(cli: Cli, network: Network, ready: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """What is found, once it is complete: daemons take their time to announce."""
    for _ in range(10):
        done = cli("discover", "--interface", network.interface, "--for", "1s", "--json")
        servers: list[dict[str, Any]] = json.loads(done.out)["servers"]
        if len(servers) == 1 and ready(servers[0]):
            return servers[0]
        time.sleep(0.3)
    pytest.fail(f"{done}\n" + "\n".join(log.read_text("utf-8", "replace") for log in network.folder.glob("*.log")))


def test_avahi_wsdd_and_samba_are_one_server_with_its_shares(cli: Cli, network: Network) -> None:
    folder = network.folder
    (folder / "smb.conf").write_text(_SAMBA.format(folder=folder))
    (folder / "avahi.conf").write_text(_AVAHI)
    (folder / "lab.service").write_text(_SERVICES)
    inside = ["nsenter", "-t", str(network.first), "-n", "-m", "sh", "-c"]
    put = f"mkdir /etc/avahi/services; cp {folder}/lab.service /etc/avahi/services/"
    subprocess.run([*inside, put], check=True, timeout=HANG_S)
    network.start("avahi-daemon", "-f", str(folder / "avahi.conf"), "--no-drop-root", "--no-chroot", "--no-rlimits")
    network.start("wsdd", "-i", "eth0", "-4", "-n", "LABNAS", "-w", "HOMEGROUP")
    network.start("smbd", "-F", "--no-process-group", "-s", str(folder / "smb.conf"))
    found = searched(
        cli, network,
        lambda one: len(one["ways"]) == 2 and all((one["group"], one["model"], one["nearby"]["offers"][0]["open"])),
    )  # fmt: skip
    assert (found["address"], found["name"], found["model"], found["group"]) == (
        FAR, "Lab NAS, 2nd floor", "RackMac", "HOMEGROUP",
    )  # fmt: skip
    assert found["ports"] == {"smb": 445, "nfs": 12049}
    said = cli("discover", "--interface", network.interface, "--for", "1s")
    assert said.code == 0
    for line in (
        f"Lab NAS, 2nd floor  {FAR}  RackMac  workgroup HOMEGROUP", f"  naslab run smb://{FAR}/media",
        f"  naslab run smb://{FAR}/backup", f"  naslab run nfs://{FAR}:12049/EXPORT",
    ):  # fmt: skip
        assert line in said.out.splitlines(), said.out
    whole = cli("doctor", FAR)
    assert whole.code == 0, whole
    assert "Speaks SMB 2.1, 3.0, 3.0.2, 3.1.1." in whole.out and f"  naslab run smb://{FAR}/media" in whole.out
    told = json.loads(cli("doctor", FAR, "--json").out)
    assert told["host"] == FAR and [each["target"]["protocol"] for each in told["checkups"]] == ["smb"]


def test_a_network_where_nobody_announces_is_said(cli: Cli, network: Network) -> None:
    said = cli("discover", "--interface", network.interface, "--for", "300ms")
    assert said.code == 1
    assert said.out.startswith(f"No file server announced itself within 300 ms on {network.interface} ({NEAR}).")
