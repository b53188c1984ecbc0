"""Options of the commands that many clients can carry out, each defined once, and the clients of the command under way.

`with_clients` adds the options to a command; `Common.target` hands the clients that they ask for to the target, so that
no command knows how many there are.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional, get_type_hints

import typer

from naslab.commands.plans.scale import MOST_CLIENTS
from naslab.errors import UsageError
from naslab.execution.clients.share import SHARES

if TYPE_CHECKING:
    from naslab.execution.clients.run import Clients
    from naslab.execution.monitor import Monitor
    from naslab.targets import Target

_PANEL = "Many clients"


def _ssh(name: str, metavar: str, text: str, default: str | bool) -> Any:
    return typer.Option(name, metavar=metavar, help=text, show_default=default, rich_help_panel=_PANEL)


_OPTIONS: dict[str, tuple[Any, Any]] = {
    "clients": (
        Optional[int],  # noqa: UP045 - Typer reads this at run time
        typer.Option(
            "--clients", metavar="N", help="Measure with N clients at once, each a process on this machine.",
            min=1, max=MOST_CLIENTS, show_default=False, rich_help_panel=_PANEL,
        ),
    ),
    "hosts": (
        str,
        typer.Option(
            "--hosts", metavar="LIST|FILE", show_default=False, rich_help_panel=_PANEL,
            help="Measure with a client on each of these hosts, started over ssh: user@host:port,... or a file.",
        ),
    ),
    "scheduler": (
        str,
        typer.Option(
            "--scheduler", metavar="ADDRESS|FILE", show_default=False, rich_help_panel=_PANEL,
            help="Measure with the workers of a running Dask cluster: tcp://, tls:// or its scheduler file.",
        ),
    ),
    "share": (
        str,
        typer.Option(
            "--share", metavar="own|folder|file", rich_help_panel=_PANEL,
            help="A folder for each client, one folder for all, or the same files for all.",
        ),
    ),
    "trust_network": (
        bool,
        typer.Option(
            "--trust-network", rich_help_panel=_PANEL,
            help="Accept a --scheduler on the network without TLS: anybody who reaches it can run programs on its "
                "workers.",
        ),
    ),
    "ssh_user": (str, _ssh("--ssh-user", "NAME", "User on hosts that name none.", "as ssh itself")),
    "ssh_port": (Optional[int], _ssh("--ssh-port", "N", "Port of hosts that name none.", "as ssh itself")),  # noqa: UP045
    "ssh_key": (Optional[Path], _ssh("--ssh-key", "FILE", "Private key for the hosts.", "as ssh itself")),  # noqa: UP045
    "remote_python": (str, _ssh("--remote-python", "FILE", "Python on the hosts, which has naslab.", True)),
    "remote_shell": (
        str,
        _ssh(
            "--remote-shell", "COMMAND",
            "Starts naslab-agent on the hosts instead of ssh: 'srun -N1 -n1 -w {host}', 'kubectl exec -i {host} --'.",
            False,
        ),
    ),
    "agent": (
        Optional[Path],  # noqa: UP045
        _ssh(
            "--agent", "FILE", "naslab-agent, or a folder of several: copied to the hosts, used instead of Python.",
            "where a host has no naslab",
        ),
    ),
    "monitor": (
        str,
        typer.Option(
            "--monitor", metavar="ssh://HOST", show_default=False, rich_help_panel=_PANEL,
            help="Record the server's processors, memory, disks and network once a second during the run.",
        ),
    ),
}  # fmt: skip
_SCALE: tuple[Any, Any] = (
    str,
    typer.Option(
        "--scale", metavar="LIST", show_default=False, rich_help_panel=_PANEL,
        help="Repeat the load with these numbers of clients, e.g. 1,2,4,8, to see where more clients add nothing.",
    ),
)  # fmt: skip
_DEFAULTS = {
    "clients": None, "hosts": "", "scheduler": "", "share": "own", "ssh_user": "", "ssh_port": None, "ssh_key": None,
    "remote_python": "python3", "remote_shell": "", "agent": None, "monitor": "", "scale": "", "trust_network": False,
}  # fmt: skip
OWN_FOLDERS = ("apps", "tree", "replay", "job")
"""Commands whose files have names of their own, which clients in one folder would take from one another."""
_now: ContextVar[Clients | None] = ContextVar("clients", default=None)
_watching: ContextVar[Monitor | None] = ContextVar("monitor", default=None)


def with_clients(command: Callable[..., int]) -> Callable[..., int]:
    """The command with the options of many clients."""
    return _with(command, _OPTIONS)


def with_scaled_clients(command: Callable[..., int]) -> Callable[..., int]:
    """The same with `--scale`, which the command finds in its context."""
    return _with(command, {**_OPTIONS, "scale": _SCALE})


def _with(command: Callable[..., int], options: Mapping[str, tuple[Any, Any]]) -> Callable[..., int]:
    @functools.wraps(command)
    def wrapped(**values: Any) -> int:
        asked = {name: values.pop(name) for name in options}
        asked.pop("scale", None)
        if asked["share"] != "own" and command.__name__ in OWN_FOLDERS:
            raise UsageError(
                f"--share {asked['share']}: {command.__name__} works in a folder of each client; leave it out"
            )
        with _during(_watching, _monitor(asked.pop("monitor"))), _during(_now, _Asked(**asked).made()):
            return command(**values)

    signature, hints = inspect.signature(command), get_type_hints(command, include_extras=True)
    known = [each.replace(annotation=hints[name]) for name, each in signature.parameters.items()]
    new = {name: Annotated[kind, option] for name, (kind, option) in options.items()}
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_DEFAULTS[name], annotation=annotation)
        for name, annotation in new.items()
    ]
    wrapped.__signature__ = signature.replace(parameters=[*known, *added])  # type: ignore[attr-defined]
    wrapped.__annotations__ = {**hints, **new}
    return wrapped


def clients_for(target: Target) -> Clients | None:
    """The clients of the command under way, for this target. Raises UsageError where they make no sense."""
    clients = _now.get()
    if clients is not None and target.protocol == "sim":
        raise UsageError(
            "--clients: every client would have a simulated server of its own; use --workers, or a real target"
        )
    return clients


def how_many() -> int:
    """Clients of the command under way; 1 where the cluster alone knows."""
    clients = _now.get()
    return max(clients.count, 1) if clients is not None else 1


def monitor_of() -> Monitor | None:
    """Who watches the server during the command under way."""
    return _watching.get()


def _monitor(url: str) -> Monitor | None:
    """Not yet begun. Raises UsageError."""
    if not url:
        return None
    from naslab.execution.monitor import Monitor

    monitor = Monitor(url)
    monitor.command()  # what is wrong with the address is told before anything begins
    return monitor


@dataclass(frozen=True)
class _Asked:
    """The options as given."""

    clients: int | None
    hosts: str
    scheduler: str
    share: str
    trust_network: bool
    ssh_user: str
    ssh_port: int | None
    ssh_key: Path | None
    remote_python: str
    remote_shell: str
    agent: Path | None

    def check(self) -> bool:
        """Whether many clients are asked for. Raises UsageError for options that contradict one another."""
        ways = [name for name in ("hosts", "scheduler") if getattr(self, name)]
        if len(ways) > 1 or (self.hosts and self.clients is not None):
            raise UsageError("--hosts names the clients: leave --clients and --scheduler out")
        if self.agent is not None and not self.hosts:
            raise UsageError(f"--agent {self.agent}: it is copied to --hosts; give them, too, or leave it out")
        if self.remote_shell and not self.hosts:
            raise UsageError(
                f"--remote-shell {self.remote_shell!r}: it leads to --hosts; give them, too, or leave it out"
            )
        if not ways and self.clients is None and self.share != "own":
            raise UsageError(f"--share {self.share}: give --clients, --hosts or --scheduler, too")
        return bool(ways) or self.clients is not None

    def made(self) -> Clients | None:
        """The clients, not yet begun; None where one is asked for. Raises UsageError."""
        if not self.check():
            return None
        from naslab.execution.clients.launch import check_scheduler, hosts_of
        from naslab.execution.clients.run import Clients
        from naslab.execution.clients.settings import Ssh, Wanted

        chosen = next((each for each in SHARES if each == self.share), None)
        if chosen is None:
            raise UsageError(f"--share {self.share!r}: choose one of {', '.join(SHARES)}")
        ssh = Ssh(
            self.ssh_user or None, self.ssh_port, self.ssh_key, self.remote_python, self.agent, self.remote_shell
        )  # fmt: skip
        hosts = hosts_of(self.hosts, ssh) if self.hosts else ()
        if self.scheduler:
            check_scheduler(self.scheduler, self.trust_network)
        return Clients(Wanted(self.clients, self.scheduler or None, hosts, ssh), chosen)


@contextlib.contextmanager
def _during(variable: ContextVar[Any], made: Clients | Monitor | None) -> Iterator[None]:
    """`made` is the variable's value for a command, and closed after it."""
    token = variable.set(made)
    try:
        yield
    finally:
        variable.reset(token)
        if made is not None:
            made.close()
