"""IOzone's cluster file (-+m): which hosts, how many children on each, and the folder they work in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from naslab.errors import UsageError

if TYPE_CHECKING:
    from naslab.commands.iozone.args import Args
    from naslab.execution.clients.run import Clients

_COLUMNS = 3
"""Client, folder, program; a fourth would name the file."""


@dataclass(frozen=True)
class Cluster:
    """The lines of a cluster file that -t uses.

    hosts: as `user@host:port`, each once, in the file's order. children: on each of them. folder: of all.
    """

    hosts: tuple[str, ...]
    children: int
    folder: str


def read_cluster(path: str, count: int) -> Cluster:
    """The first `count` lines of a cluster file: `client folder program`, # in the first column begins a remark.

    Raises UsageError for a file that cannot be read, and for what one run of naslab cannot do: other folders on other
    clients, other numbers of children on other hosts, files named by a fourth column.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"-+m {path}: cannot be read ({getattr(error, 'strerror', None) or error}); "
            "give a text file with a line for each child"
        ) from error
    lines = [line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    for words in lines:
        if len(words) < _COLUMNS:
            raise UsageError(f"-+m {path}: {' '.join(words)!r} is not a line `client folder program`; write all three")
    if len(lines) < count:
        raise UsageError(f"-+m {path}: -t {count} needs as many lines, but there are only {len(lines)}; add some")
    return _cluster(path, lines[:count])


def _cluster(path: str, lines: list[list[str]]) -> Cluster:
    named = next((words for words in lines if len(words) > _COLUMNS), None)
    if named is not None:
        raise UsageError(f"-+m {path}: {named[_COLUMNS]!r} names a file; naslab names the files: leave it out")
    folders = list(dict.fromkeys(words[1] for words in lines))
    if len(folders) > 1:
        raise UsageError(
            f"-+m {path}: {folders[0]} and {folders[1]} are two folders, but one run measures one: use the same for all"
        )
    counts: dict[str, int] = {}
    for words in lines:
        counts[words[0]] = counts.get(words[0], 0) + 1
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{host} {count}" for host, count in counts.items())
        raise UsageError(f"-+m {path}: give each host as many lines as the others ({said} in the first of them)")
    return Cluster(tuple(counts), next(iter(counts.values())), folders[0])


def clients_of(args: Args) -> Clients | None:
    """The clients of the command line, not yet begun; None without -+m. Raises UsageError for what is no host."""
    if args.cluster is None:
        return None
    from naslab.execution.clients.launch import hosts_of
    from naslab.execution.clients.run import Clients
    from naslab.execution.clients.settings import Ssh, Wanted

    key = Path(args.ssh_key) if args.ssh_key else None
    agent = Path(args.agent) if args.agent else None
    ssh = Ssh(args.ssh_user, args.ssh_port, key, args.remote_python or Ssh.python, agent, args.remote_shell)
    return Clients(Wanted(hosts=hosts_of(",".join(args.cluster.hosts), ssh), ssh=ssh))
