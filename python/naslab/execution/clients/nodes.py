"""Dask's scheduler and workers, without their web servers: each listens on one port, for its own kind alone.

Dask gives every node an HTTP server beside its port, on all interfaces, without TLS, for any `Host`; nothing of
naslab's asks them anything. To be imported only where Dask is.
"""

from __future__ import annotations

import socket
from typing import Any

import distributed as dask_distributed

from naslab.errors import UsageError

distributed: Any = dask_distributed  # it has types in part


class _WithoutWeb:
    """Begins no HTTP server."""

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Dask calls this once, when a node begins."""


class Scheduler(_WithoutWeb, distributed.Scheduler):  # type: ignore[misc]
    """A scheduler of one run."""


class Worker(_WithoutWeb, distributed.Worker):  # type: ignore[misc]
    """A client of one run."""


def own_address(host: str, port: int) -> str:
    """This machine's address on the way to another: who listens there is reached from there, and on no other way.

    Raises UsageError where there is no way.
    """
    try:
        family, kind, _, _, there = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(there)
            return str(probe.getsockname()[0])
    except OSError as error:
        raise UsageError(f"{host}: {error.strerror or error}; name hosts that this machine can reach") from error
