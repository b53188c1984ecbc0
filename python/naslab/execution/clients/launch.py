"""Starts or joins the Dask cluster whose workers are the clients. Nothing else in naslab imports Dask at start-up."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import re
import threading
import time
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from naslab.errors import TargetError, UsageError
from naslab.execution.clients import remote_shell
from naslab.execution.clients.settings import CONFIG, Host, Ssh, Wanted, silence

MISSING = "many clients need Dask, which is not installed: pip install 'naslab[cluster]'"
START_S = 60.0
END_S = 5.0
FILE_S = 20.0
"""A scheduler that was begun a moment ago writes its file within so long."""
T = TypeVar("T")


class LoopThread:
    """An event loop in a thread of its own: signals and the engine's seam stay in the caller's."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="naslab-clients", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The work's result; waits so that Ctrl-C gets through."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        while True:
            try:
                return future.result(timeout=0.5)
            except TimeoutError:
                if future.done():
                    raise
            except BaseException:
                future.cancel()
                raise

    def close(self) -> None:
        """Ends what is still under way in the loop, and the loop."""
        with contextlib.suppress(Exception):
            asyncio.run_coroutine_threadsafe(_cancel_all(), self._loop).result(END_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        if not self._thread.is_alive():
            self._loop.close()


async def _cancel_all() -> None:
    """Such as what waits for a scheduler that is gone."""
    others = [each for each in asyncio.all_tasks() if each is not asyncio.current_task()]
    for each in others:
        each.cancel()
    await asyncio.gather(*others, return_exceptions=True)


@contextlib.asynccontextmanager
async def started(wanted: Wanted) -> AsyncIterator[Any]:
    """The Dask client of a running cluster with the wanted workers; all ends with it that it began.

    Raises UsageError where Dask is missing, TargetError where the cluster cannot be had.
    """
    check_installed()
    import dask
    import distributed as dask_distributed

    distributed: Any = dask_distributed  # it has types in part
    silence()
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(dask.config.set(CONFIG))
        try:
            if wanted.scheduler is not None:
                yield await stack.enter_async_context(_joined(distributed, wanted.scheduler))
                return
            cluster, security = _own(distributed, wanted)
            await stack.enter_async_context(cluster)
            yield await stack.enter_async_context(distributed.Client(cluster, asynchronous=True, security=security))
        except (OSError, TimeoutError, RuntimeError) as error:
            raise TargetError(f"the clients could not be started: {error}", "disconnected", before_run=True) from error


def _own(distributed: Any, wanted: Wanted) -> tuple[Any, Any]:
    """A cluster of this run's own, not yet begun, and the security of its connections."""
    if wanted.hosts:
        from naslab.execution.clients.ssh import over_ssh

        return over_ssh(distributed, wanted)
    from naslab.execution.clients.local import on_this_machine

    return on_this_machine(distributed, wanted.clients or 1)


def check_installed() -> None:
    """Raises UsageError where Dask is missing."""
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        raise UsageError(MISSING) from error


def _joined(distributed: Any, scheduler: str) -> Any:
    """Raises UsageError for a scheduler with TLS where Dask's settings name no certificate to show."""
    address = _address_of(scheduler)
    known = distributed.Security().get_connection_args("client")
    if address.startswith("tls://") and known.get("ssl_context") is None:
        names = ", ".join(f"DASK_DISTRIBUTED__COMM__TLS__{each}" for each in ("CA_FILE", "CLIENT__CERT", "CLIENT__KEY"))
        raise UsageError(f"--scheduler {address}: no client certificate: name its files in {names}")
    return distributed.Client(address, asynchronous=True, timeout=START_S)


def _address_of(scheduler: str) -> str:
    """A scheduler's address, or the one in its file, which may be about to be written. Raises UsageError."""
    if "://" in scheduler:
        return scheduler
    file, until = Path(scheduler), time.monotonic() + FILE_S
    while file.parent.is_dir() and not (file.exists() and file.stat().st_size) and time.monotonic() < until:
        time.sleep(0.1)
    try:
        return str(json.loads(file.read_text("utf-8"))["address"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"--scheduler {file}: neither an address (tls://host:8786) nor a scheduler file: {error}"
        ) from error


def check_scheduler(text: str, trusted: bool) -> None:
    """Raises UsageError for a scheduler's file that is none, and for one that strangers may speak to: Dask's messages
    can carry code. trusted: somebody says that nobody else is on its network."""
    address = _address_of(text)
    kind, _, rest = address.partition("://")
    if kind == "tls" or trusted:
        return
    host = rest.rpartition(":")[0].strip("[]")
    try:
        alone = ipaddress.ip_address(host).is_loopback
    except ValueError:
        alone = host == "localhost"
    if not alone:
        raise UsageError(
            f"--scheduler {address}: without TLS, anybody who reaches it can run programs on its workers; use "
            "tls://, or "
            "add --trust-network if nobody else can"
        )


_HOST = re.compile(r"^(?:(?P<user>[^@\s]+)@)?(?P<name>\[[0-9a-fA-F:]+\]|[^@:\s]+)(?::(?P<port>\d+))?$")


def hosts_of(text: str, ssh: Ssh | None = None) -> tuple[Host, ...]:
    """`a,user@b:2222`, or a file with a host on each line (# begins a remark). ssh: how they are reached. Raises
    UsageError, also where one does not fit the other."""
    path = Path(text)
    if "," not in text and path.is_file():
        words = [line.partition("#")[0].strip() for line in path.read_text("utf-8").splitlines()]
    else:
        words = [each.strip() for each in text.split(",")]
    found = []
    for word in filter(None, words):
        match = _HOST.match(word)
        if match is None:
            raise UsageError(f"--hosts {word!r}: write user@host:port, host:port or host, with commas, or name a file")
        port = int(match["port"]) if match["port"] else None
        found.append(Host(match["name"].strip("[]"), match["user"], port))
    if not found:
        raise UsageError(f"--hosts {text!r}: names no host")
    if ssh is not None and ssh.shell:
        remote_shell.check(ssh, found)
    return tuple(found)
