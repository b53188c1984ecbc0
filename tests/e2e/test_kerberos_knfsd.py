"""`sec=krb5`, `krb5i` and `krb5p` against Linux's own NFS server in a guest, with a private MIT realm."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_tools import Cli, need
from kerberos_lab import REALM, SMALL, Realm, all_verified, failure, holds, realm
from lab_tools import left_processes
from naslab.lab import guest as guests
from naslab.lab.ganesha import KERBEROS, VERSIONS
from naslab.lab.guest import Disk, Guest, Spec, boot, servers, volume
from naslab.lab.guest.volume import Volume
from naslab.lab.systems import which

pytestmark = pytest.mark.lab
IDMAP = (
    f"[General]\nDomain = {REALM}\nLocal-Realms = {REALM}\n[Translation]\nMethod = nsswitch\nGSS-Methods = nsswitch\n"
)
PREPARE = """modprobe rpcsec_gss_krb5
mount --bind /lab/idmapd.conf /etc/idmapd.conf
mkdir -p /run/rpc_pipefs
mount -t rpc_pipefs rpc_pipefs /run/rpc_pipefs"""


@dataclasses.dataclass
class Kernel:
    """A guest whose kernel serves /lab/data, and the realm beside it, in the guest's network."""

    guest: Guest
    realm: Realm

    def url(self, query: str) -> str:
        return f"nfs://{self.guest.address}/lab/data?{query}"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """Without the program that takes logins."""
    wanted = {**boot.programs(), **volume.PACKAGES, **servers.PROGRAMS["knfsd"], "rpc.svcgssd": "nfs-common"}
    missing = sorted({package for program, package in wanted.items() if which(program) is None})
    need(not missing, f"a guest: {' '.join(missing)}")
    need(os.geteuid() == 0 and Path("/dev/net/tun").exists(), "root, and /dev/net/tun")
    folder = tmp_path_factory.mktemp("realm")
    with guests.running(Spec(ram_bytes=384 << 20, disks=(Disk(size_bytes=128 << 20),))) as guest:
        volume.make(guest, Volume("single", "ext4", (0,)))
        with realm(folder, guest.address, tuple(guest.inside())) as made:
            for name in ("krb5.conf", "nfs.keytab"):
                guest.write(f"/lab/{name}", (folder / name).read_bytes(), 0o600)
            guest.write("/lab/idmapd.conf", IDMAP.encode())
            guest.shell(PREPARE)
            plan = servers.plan_knfsd(guest.address)
            lines = (line.replace("-o rw", "-o sec=sys:krb5:krb5i:krb5p,rw") for line in plan.lines)
            servers.start(guest, dataclasses.replace(plan, lines=tuple(lines)))
            yield Kernel(guest, made)
    assert not guest.folder.exists() and left_processes(guest.folder) == []


@pytest.fixture(scope="module")
def place(kernel: Kernel) -> Kernel:
    """With it."""
    env = {"KRB5_CONFIG": "/lab/krb5.conf", "KRB5_KTNAME": "/lab/nfs.keytab"}
    command = ["rpc.svcgssd", "-f", "-p", f"nfs/{kernel.guest.address}"]
    kernel.guest.spawn(command, "/var/log/svcgssd.log", env=env)
    channel = "auth.rpcsec.init/channel"
    kernel.guest.shell(f"for i in $(seq 100); do ls -l /proc/[0-9]*/fd | grep -q {channel} && exit 0; sleep 0.1; done")
    return kernel


@pytest.fixture
def user(cli: Cli, kernel: Kernel) -> Cli:
    """The command line in the realm, with a ticket."""
    kernel.realm.enter(cli).env["KRB5CCNAME"] = kernel.realm.kinit("good")
    return cli


def test_a_server_that_takes_no_logins(user: Cli, kernel: Kernel) -> None:
    line = failure(user, kernel.url("version=4.2&sec=krb5"), prefix=kernel.guest.inside())
    holds(line, "does not take the Kerberos ticket", "Kerberos must be enabled for NFS")


@pytest.mark.parametrize("sec", KERBEROS)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_verified_sweep(user: Cli, place: Kernel, version: str, sec: str) -> None:
    url = place.url(f"version={version}&sec={sec}")
    document = user("sweep", url, *SMALL, "--depth", 16, "--json", prefix=place.guest.inside()).ok().json()
    assert (document["target"]["dialect"], document["target"]["sec"]) == (version, sec)
    assert [cell["errors"] for cell in document["cells"]] == [0] * len(document["cells"])
    all_verified(document)


@pytest.mark.parametrize("connections", [1, 4])
def test_no_call_is_lost_at_depth(user: Cli, place: Kernel, connections: int) -> None:
    url = place.url(f"version=4.1&sec=krb5i&connections={connections}")
    load = ("--file-size", "8m", "--record", "4k", "--depth", 200, "--tests", "write,random_read", "--timeout", "10s")
    document = user("sweep", url, *load, "--verify", "--json", prefix=place.guest.inside()).ok().json()
    assert [cell["errors"] for cell in document["cells"]] == [0, 0]
    all_verified(document)


@pytest.mark.parametrize("version", ["3", "4.1"])
def test_a_ticket_that_expires_in_the_middle(user: Cli, place: Kernel, version: str) -> None:
    """The kernel ends a login with its ticket: it refuses the next call, or ends the connection."""
    user.env["KRB5CCNAME"] = place.realm.kinit(f"short-{version}", "-l", "6s")
    load = ("--file-size", "1m", "--record", "64k", "--duration", "60s")
    done = user("sustained", place.url(f"version={version}&sec=krb5i"), *load, prefix=place.guest.inside()).sound()
    assert done.code == 1
    holds(
        done.err, "the ticket has expired" if "RPCSEC_GSS" in done.err else "the Kerberos ticket has expired", "kinit"
    )
