"""Serving: the address, the token, the names, uvicorn around the application."""

from __future__ import annotations

import ipaddress
import secrets
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from naslab.analysis.distributions import t_quantile
from naslab.errors import UsageError
from naslab.render.web.assets import assets
from naslab.results.store.library import Library

LEAST_TOKEN = 16
"""Characters of a token that nobody guesses over a network."""
AUTO = "auto"


@dataclass(frozen=True)
class Where:
    """address: an IP address. port: 0 takes a free one."""

    address: str
    port: int

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return ipaddress.ip_address(self.address).is_loopback


@dataclass(frozen=True)
class Request:
    """What `naslab serve` was asked for. token: None where none is needed. hosts: further names. made: the token is
    new, so it has to be told. metrics: also /metrics. redacted: /metrics alone, without names."""

    where: Where
    token: str | None
    hosts: Sequence[str]
    quiet: bool
    made: bool = False
    metrics: bool = False
    redacted: bool = False


def listen_on(text: str) -> Where:
    """`[ADDR:]PORT` as an address and a port. Raises UsageError."""
    address, _, port = text.rpartition(":")
    address = address.strip("[]") or "127.0.0.1"
    address = "127.0.0.1" if address == "localhost" else address
    try:
        ipaddress.ip_address(address)
    except ValueError:
        raise UsageError(
            f"--listen {text}: {address} is not an address; write 127.0.0.1:8321, 0.0.0.0:8321 or [::]:8321"
        ) from None
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UsageError(
            f"--listen {text}: {port or 'nothing'} is not a port; give a number up to 65535, e.g. {address}:8321"
        )
    return Where(address, int(port))


def token_of(text: str, where: Where) -> str | None:
    """The token that readers need; None on the loopback where none was given. Raises UsageError."""
    if text == AUTO:
        return secrets.token_urlsafe(24)
    if text and (len(text) < LEAST_TOKEN or not text.isascii() or not text.isprintable() or " " in text):
        raise UsageError(
            f"--token: give at least {LEAST_TOKEN} characters without spaces, or --token auto, which creates one"
        )
    if not text and not where.loopback:
        raise UsageError(
            f"--listen {where.address}: others could read all results there; add --token auto (it prints a token that "
            "readers need), or listen on 127.0.0.1 and forward the port with ssh -L"
        )
    return text or None


def names_of(request: Request) -> tuple[str, ...]:
    """Host names the library answers to; a request by another name is refused, a rebound one among them."""
    own = () if request.where.loopback else (socket.gethostname(), socket.getfqdn())
    return tuple(dict.fromkeys(name.lower().removesuffix(".") for name in ("localhost", *own, *request.hosts)))


def run_server(library: Library, request: Request) -> int:
    """Serves until it is interrupted. Raises UsageError where the port is taken."""
    import uvicorn

    from naslab.render.web.app import application
    from naslab.render.web.connections import connection_class
    from naslab.render.web.metrics import Metrics

    family = socket.AF_INET6 if ":" in request.where.address else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((request.where.address, request.where.port))
    except OSError as error:
        bound.close()
        where = f"{request.where.address}:{request.where.port}"
        raise UsageError(f"--listen {where}: {error.strerror or error}; choose another port") from error
    bound.listen(128)
    metrics = Metrics(library, request.redacted) if request.metrics else None
    config = uvicorn.Config(
        application(library, names_of(request), request.token, metrics), log_level="warning", access_log=False,
        use_colors=False,
        server_header=False, date_header=True, lifespan="off", ws="none", timeout_graceful_shutdown=2,
        proxy_headers=False, limit_concurrency=256, http=connection_class(),
    )  # fmt: skip
    assets()  # read and packed once, and the statistics loaded, before the first page is asked for
    t_quantile(0.5, 1)
    if metrics is not None:
        metrics.text()  # verdicts of older runs, computed once: a scrape has ten seconds
    _greet(request, bound.getsockname()[1])
    try:
        uvicorn.Server(config).run(sockets=[bound])
    except KeyboardInterrupt:
        pass
    finally:
        bound.close()
    return 0


def _greet(request: Request, port: int) -> None:
    """The address on standard output; the token, where one was made, on standard error."""
    any_address = ipaddress.ip_address(request.where.address).is_unspecified
    host = socket.gethostname() if any_address else request.where.address
    host = f"[{host}]" if ":" in host else host
    if not request.redacted:
        print(f"Library: http://{host}:{port}/", flush=True)
    if request.metrics:
        print(f"Metrics: http://{host}:{port}/metrics", flush=True)
    if request.made and request.token is not None:
        print(f"Token: {request.token}", file=sys.stderr, flush=True)
    if not request.quiet:
        print("Press Ctrl-C to stop.", file=sys.stderr, flush=True)
