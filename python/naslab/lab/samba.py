"""A private Samba server: its configuration, its one user, its shares.

Shares: `data` (read and write), `secret` (encrypted sessions only), `readonly`, `public` (guests), `noaccess`
(nobody may enter), `dfs` (a namespace of DFS links, `DFS_LINKS`) and, where file systems can be mounted for it, `tiny`
(4 MiB, to run out of space). SMB1 stays off.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from naslab.errors import TargetError, UsageError
from naslab.lab.place import Place, Service, free_port, new_password

PROGRAMS = {"smbd": "samba", "smbpasswd": "samba-common-bin", "pdbedit": "samba-common-bin"}
"""Programs and the Debian packages that hold them."""
TINY_BYTES = 4 << 20
DIALECTS = {"2.0.2": "SMB2_02", "2.1": "SMB2_10", "3.0": "SMB3_00", "3.0.2": "SMB3_02", "3.1.1": "SMB3_11"}
DFS_LINKS = {
    "files": ("data",), "inner": ("data\\inner",), "spare": ("gone", "data"), "onward": ("dfs\\files",),
    "circle": ("dfs\\circle",), "broken": ("gone",),
}  # fmt: skip
"""Links of the share `dfs` and the shares and folders of this server that each names, in the order of preference."""
_SIGNING = ("auto", "mandatory", "disabled")
_ENCRYPT = ("default", "off", "desired", "required")


@dataclass(frozen=True)
class SambaOptions:
    """What can be chosen of a private Samba.

    signing: auto, mandatory or disabled. encrypt: default (if the client asks), off, desired or required.
    min_dialect, max_dialect: keys of DIALECTS. config: further lines of `[global]`, which win over ours.
    """

    signing: str = "auto"
    encrypt: str = "default"
    min_dialect: str = "2.0.2"
    max_dialect: str = "3.1.1"
    multichannel: bool = True
    config: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _one_of("signing", self.signing, _SIGNING)
        _one_of("encrypt", self.encrypt, _ENCRYPT)
        _one_of("min_dialect", self.min_dialect, DIALECTS)
        _one_of("max_dialect", self.max_dialect, DIALECTS)


def _one_of(name: str, value: str, allowed: object) -> None:
    if value not in tuple(allowed):  # type: ignore[arg-type]
        raise UsageError(f"samba: {name}={value!r}; use one of {', '.join(allowed)}")  # type: ignore[arg-type]


def prepare(
    place: Place, options: SambaOptions, host: str = "127.0.0.1", more: Mapping[str, Path] | None = None
) -> Service:
    """Writes configuration and user; the server to start, at the address `host`. Raises UsageError, TargetError.

    more: further shares by name.
    """
    user, password = _own_name(), new_password()
    is_root = os.geteuid() == 0
    shares = {**_shares(place), **(more or {})}
    port = free_port()
    for name in ("etc", "lock", "state", "cache", "run", "ncalrpc", "log"):
        place.make(name)
    config = place.write("etc/smb.conf", config_text(place, options, port, user, shares, host))
    _make_links(shares["dfs"], host)
    _add_user(config, place, user, password, is_root)
    credentials = place.write("etc/credentials", f"username={user}\npassword={password}\n")
    targets = {name: f"smb://{user}@{host}:{port}/{name}" for name in shares}
    targets["public"] = f"smb://{host}:{port}/public"
    facts = {
        "url": targets["data"], "targets": targets, "user": user, "credentials": str(credentials),
        "port": port, "host": host, "protocol": "smb",
    }  # fmt: skip
    log = place.folder / "log" / "log.smbd"
    command = ["smbd", "-F", "--no-process-group", "-s", str(config), "-l", str(log.parent)]
    return Service(command, port, facts, log, tmpfs_bytes={shares["tiny"]: TINY_BYTES} if "tiny" in shares else {})


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        raise UsageError(
            f"samba: user id {os.geteuid()} has no name in /etc/passwd, which smbd needs: run as a named user"
        ) from None


def _shares(place: Place) -> dict[str, Path]:
    """Folders of the shares by name."""
    shares = {"data": place.data, "secret": place.data}
    for name in ("readonly", "noaccess", "public", "dfs", *(["tiny"] if place.can_mount else [])):
        shares[name] = place.make(name)
    (shares["readonly"] / "file.bin").write_bytes(bytes(range(256)) * 256)
    return shares


def _make_links(folder: Path, host: str) -> None:
    """The links of the namespace, as Samba keeps them: symbolic links to `msdfs:HOST\\SHARE,HOST\\SHARE`."""
    for name, led in DFS_LINKS.items():
        (folder / name).symlink_to("msdfs:" + ",".join(f"{host}\\{place}" for place in led))


def config_text(
    place: Place, options: SambaOptions, port: int, user: str, shares: dict[str, Path], host: str = "127.0.0.1"
) -> str:
    """smb.conf."""
    folder = place.folder
    lines = {
        "server role": "standalone server", "workgroup": "NASLAB", "netbios name": "NASLAB",
        "smb ports": port, "interfaces": host, "bind interfaces only": "yes", "disable netbios": "yes",
        "private dir": folder / "etc", "lock directory": folder / "lock", "state directory": folder / "state",
        "cache directory": folder / "cache", "pid directory": folder / "run", "ncalrpc dir": folder / "ncalrpc",
        "passdb backend": f"tdbsam:{folder}/etc/passdb.tdb", "map to guest": "Bad User",
        "log file": folder / "log" / "log.%m", "log level": 1, "max log size": 10000,
        "load printers": "no", "printing": "bsd", "printcap name": "/dev/null", "disable spoolss": "yes",
        "server min protocol": DIALECTS[options.min_dialect], "server max protocol": DIALECTS[options.max_dialect],
        "server multi channel support": "yes" if options.multichannel else "no",
        "server signing": options.signing, "smb encrypt": options.encrypt,
        **({} if os.geteuid() == 0 else {"guest account": user}),
        **options.config,
    }  # fmt: skip
    return _section("global", lines) + "".join(
        _section(name, {"path": path, **_share_lines(name, user)}) for name, path in shares.items()
    )


def _share_lines(name: str, user: str) -> dict[str, str]:
    lines = {"read only": "yes" if name == "readonly" else "no"}
    if name == "secret":
        lines["smb encrypt"] = "required"
    elif name == "public":
        lines |= {"guest ok": "yes", "force user": user}  # nobody could not pass the private folder
    elif name == "dfs":
        lines["msdfs root"] = "yes"
    elif name == "noaccess":
        lines["invalid users"] = user
    return lines


def _section(name: str, lines: Mapping[str, object]) -> str:
    return f"[{name}]\n" + "".join(f"\t{key} = {value}\n" for key, value in lines.items())


def _add_user(config: Path, place: Place, user: str, password: str, is_root: bool) -> None:
    """Adds the user; the password goes through standard input."""
    if is_root:
        command = ["smbpasswd", "-c", str(config), "-s", "-a", user]
    else:
        command = ["pdbedit", "-s", str(config), "-t", "-a", "-u", user]
    done = subprocess.run(
        command, check=False, input=f"{password}\n{password}\n", capture_output=True, text=True, timeout=30
    )
    if done.returncode != 0:
        said = (done.stderr + done.stdout).strip().splitlines()[-1:]
        raise TargetError(f"samba: {command[0]} failed: {' '.join(said)}", before_run=True)
