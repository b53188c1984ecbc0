"""What all parts of a cluster share: which clients are wanted, Dask's settings, and the certificate of both ends."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CONFIG = {
    "distributed.worker.profile.enabled": False,
    "distributed.worker.http.routes": [],
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.scheduler.locks.lease-timeout": "inf",
    "distributed.admin.system-monitor.interval": "10s",
}
"""Workers only wait for our calls: nothing of Dask's own may work on the machine that measures."""


@dataclass(frozen=True)
class Host:
    """A client's host as `user@name:port` names it; parts that are None are ssh's own business."""

    name: str
    user: str | None = None
    port: int | None = None


@dataclass(frozen=True)
class Ssh:
    """For hosts that say nothing of their own. python: on the hosts, with naslab. agent: naslab-agent on this machine,
    or a folder of several, which measures on the hosts instead; without it, only on those that have no naslab.
    shell: a command that starts programs on a host instead of ssh; only the agent is started by it."""

    user: str | None = None
    port: int | None = None
    key: Path | None = None
    python: str = "python3"
    agent: Path | None = None
    shell: str = ""


@dataclass(frozen=True)
class Wanted:
    """Which clients a command line asks for. clients: processes on this machine; hosts: names for ssh; scheduler: the
    address or file of a Dask scheduler that runs already."""

    clients: int | None = None
    scheduler: str | None = None
    hosts: tuple[Host, ...] = ()
    ssh: Ssh = Ssh()


def spec_cluster(distributed: Any, workers: dict[int, Any], host: str, security: Any) -> Any:
    """A Dask cluster, not yet begun, of clients that naslab begins. host: where its scheduler listens."""
    from distributed.deploy.spec import SpecCluster

    from naslab.execution.clients.nodes import Scheduler

    options = {"host": host, "protocol": "tls://", "security": security, "dashboard": False}
    return SpecCluster(  # type: ignore[no-untyped-call]
        workers=workers, scheduler={"cls": Scheduler, "options": options}, asynchronous=True,
        security=security, silence_logs=logging.CRITICAL,
    )  # fmt: skip


def silence() -> None:
    """Dask's own messages in this process, and those of what it is made of: what goes wrong is told by naslab."""
    for name in [each for each in logging.root.manager.loggerDict if each.startswith(("distributed", "tornado"))]:
        logging.getLogger(name).setLevel(logging.CRITICAL)


def security_of(pem: str) -> Any:
    """Both ends show the certificate in `pem`, which holds key and certificate, and trust no other."""
    import distributed as dask_distributed

    distributed: Any = dask_distributed
    names = [f"tls_{role}_{part}" for role in ("scheduler", "worker", "client") for part in ("key", "cert")]
    return distributed.Security(require_encryption=True, tls_ca_file=pem, **dict.fromkeys(names, pem))
