"""A private NFS-Ganesha: NFS 3, 4.0, 4.1 and 4.2 on one port, its exports.

Exports: `/data` (read and write), `/readonly`, `/tiny` (4 MiB, to run out of space), `/secure` (demands a
privileged source port) and `/squash` (root becomes nobody, who may not write there). It needs root, and its
registration with rpcbind takes place in namespaces of its own: the host's port 111 stays untouched.

NFS believes clients who they are. The private folder is shut to other users of this machine; where a folder of
the user is served instead, every export demands a privileged source port, which only root has.

With a keytab every export takes Kerberos, too, and `/krb5`, `/krb5i` and `/krb5p` take one of its flavours alone.
Ganesha and its libraries find the realm as other programs do: by KRB5_CONFIG of the environment it is started in.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from naslab.errors import UsageError
from naslab.lab.place import Place, Service, free_port
from naslab.targets.nfs import KERBEROS

PROGRAMS = {"ganesha.nfsd": "nfs-ganesha", "rpcbind": "rpcbind"}
"""Programs and the Debian packages that hold them."""
PLUGINS = ("/usr/lib/*/ganesha/libfsalvfs.so", "/usr/lib64/ganesha/libfsalvfs.so")
TINY_BYTES = 4 << 20
VERSIONS = ("3", "4.0", "4.1", "4.2")
_SERVED = {"data": {}, "readonly": {"Access_Type": "RO"}, "tiny": {}, "secure": {"PrivilegedPort": "true"},
           "squash": {"Squash": "Root_Squash"}}  # fmt: skip
IDMAP_FILE = "idmapd.conf"
_IDMAP = """[General]
Domain = {realm}
Local-Realms = {realm}
[Translation]
Method = nsswitch
GSS-Methods = nsswitch
"""
"""libnfsidmap's: a principal of the realm is the user of its name."""


@dataclass(frozen=True)
class GaneshaOptions:
    """What can be chosen of a private Ganesha.

    versions: those of VERSIONS that it speaks. grace: begin with a grace period of `lease_s` seconds.
    read_bytes, write_bytes: largest READ and WRITE it offers. config: further lines of NFS_CORE_PARAM. every_address:
    listen on all addresses, not on one. keytab: a file with the key of nfs/HOST, for Kerberos. realm: that whose users
    are those of this machine; needed with a keytab.
    """

    versions: tuple[str, ...] = VERSIONS
    grace: bool = False
    lease_s: int = 30
    read_bytes: int = 1 << 20
    write_bytes: int = 1 << 20
    config: str = ""
    every_address: bool = False
    keytab: str = ""
    realm: str = ""

    def __post_init__(self) -> None:
        if not self.versions or set(self.versions) - set(VERSIONS):
            raise UsageError(f"ganesha: versions {self.versions!r}; use some of {', '.join(VERSIONS)}")
        if bool(self.keytab) != bool(self.realm):
            given, missing = ("keytab", "realm") if self.keytab else ("realm", "keytab")
            raise UsageError(f"ganesha: {given}={getattr(self, given)!r}; Kerberos needs {missing}= too")


def prepare(
    place: Place, options: GaneshaOptions, host: str = "127.0.0.1", more: Mapping[str, Path] | None = None
) -> Service:
    """Writes the configuration; the server to start, at the address `host`. Raises UsageError.

    more: further exports by name.
    """
    _check(place)
    port, mount_port = free_port(), free_port()
    folders = {name: place.data if name == "data" else place.make(name, 0o755) for name in served(options)}
    folders |= more or {}
    (folders["readonly"] / "file.bin").write_bytes(bytes(range(256)) * 256)
    if options.keytab:
        place.write(IDMAP_FILE, _IDMAP.format(realm=options.realm))
    config = place.write("ganesha.conf", config_text(place, options, port, mount_port, folders, host))
    log = place.folder / "ganesha.log"
    base = f"nfs://{host}:{port}"
    query = f"?mountport={mount_port}" if "3" in options.versions else ""
    targets = {name: f"{base}/{name}{query}" for name in folders}
    facts = {"url": targets["data"], "targets": targets, "user": "", "port": port, "mount_port": mount_port,
             "host": host, "protocol": "nfs", "versions": list(options.versions)}  # fmt: skip
    place.make("recovery")
    command = ["ganesha.nfsd", "-F", "-L", str(log), "-f", str(config), "-p", str(place.folder / "ganesha.pid")]
    return Service(
        command, port, facts, log, _setup("3" in options.versions), tmpfs_bytes={folders["tiny"]: TINY_BYTES}
    )


def served(options: GaneshaOptions) -> dict[str, dict[str, str]]:
    """The exports by name, and what each has different from the others."""
    return _SERVED | ({name: {"SecType": name} for name in KERBEROS} if options.keytab else {})


def _check(place: Place) -> None:
    """Raises UsageError where Ganesha cannot run."""
    if os.geteuid() != 0:
        raise UsageError("ganesha: it opens files by handle, which needs root: run as root, or use demo or samba")
    if not place.can_mount:
        raise UsageError("ganesha: naslab cannot create a mount namespace on this machine: run it outside a container")
    if plugin_folder() is None:
        raise UsageError("ganesha: its file system plug-in is missing; Debian/Ubuntu: apt install nfs-ganesha-vfs")
    if Path("/run") in place.folder.resolve().parents or Path("/run") in (place.data.resolve(), *place.data.parents):
        raise UsageError("ganesha: /run is replaced for it: choose a --folder and a TMPDIR elsewhere")
    if not has_handles(place.data):
        raise UsageError(
            f"ganesha: {place.data} is on a file system that cannot open files by handle: choose another --folder"
        )


def plugin_folder() -> Path | None:
    """Where Ganesha's file system plug-ins lie; None where they are not installed."""
    return next((path.parent for pattern in PLUGINS for path in Path("/").glob(pattern[1:])), None)


def has_handles(folder: Path) -> bool:
    """Whether the folder's file system gives out file handles, which Ganesha stands on (overlay has none)."""
    library = ctypes.CDLL(None, use_errno=True)
    most = 128
    handle = (ctypes.c_uint * (2 + most // 4))(most)
    mount_id = ctypes.c_int()
    return bool(library.name_to_handle_at(-100, os.fsencode(folder), handle, ctypes.byref(mount_id), 0) == 0)


def _setup(registers: bool) -> list[str]:
    """rpcbind on a socket in a /run of its own, in a network of its own, until version 3 is registered."""
    lines = ["mount -t tmpfs -o size=1m,mode=755 none /run", "mkdir -p /run/rpcbind /run/ganesha"]
    if registers:
        rpcbind = shutil.which("rpcbind", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
        lines += [
            f"unshare --net {rpcbind} -f -w >/dev/null 2>&1 &",
            "for i in 1 2 3 4 5 6 7 8 9 10; do [ -S /run/rpcbind.sock ] && break; sleep 0.02; done",
        ]
    return lines


def config_text(
    place: Place, options: GaneshaOptions, port: int, mount_port: int, folders: dict[str, Path],
    host: str = "127.0.0.1",
) -> str:  # fmt: skip
    """ganesha.conf, for a server at the address `host`. With a keytab it names IDMAP_FILE in the server's folder."""
    minors = ", ".join(version[2:] for version in options.versions if version != "3")
    protocols = ", ".join((["3"] if "3" in options.versions else []) + (["4"] if minors else []))
    core = {
        "Protocols": protocols, "NFS_Port": port, "MNT_Port": mount_port,
        "Bind_addr": "0.0.0.0" if options.every_address else host,
        "Enable_UDP": "false", "Enable_NLM": "false", "Enable_RQUOTA": "false", "mount_path_pseudo": "true",
        "Plugins_Dir": plugin_folder(),
    }  # fmt: skip
    version4 = {
        "Minor_Versions": minors or "0", "Graceless": "false" if options.grace else "true",
        "Lease_Lifetime": options.lease_s, "Grace_Period": options.lease_s, "Only_Numeric_Owners": "true",
        "RecoveryRoot": place.folder / "recovery",
    }  # fmt: skip
    kerberos: dict[str, object] = {"Active_krb5": "false"}
    if options.keytab:
        version4["IdmapConf"] = place.folder / IDMAP_FILE
        kerberos = {"PrincipalName": "nfs", "KeytabPath": options.keytab, "Active_krb5": "true"}
    flavours = ("sys", "none", *(KERBEROS if options.keytab else ()))
    defaults = {
        "Access_Type": "RW", "Squash": "No_Root_Squash", "SecType": ", ".join(flavours),
        "Protocols": protocols,
        "Transports": "TCP", "PrivilegedPort": "false" if place.folder in place.data.parents else "true",
        "MaxRead": options.read_bytes, "MaxWrite": options.write_bytes,
        "PrefRead": options.read_bytes, "PrefWrite": options.write_bytes,
    }  # fmt: skip
    return (
        _block("NFS_CORE_PARAM", core.items(), options.config) + _block("NFSv4", version4.items())
        + _block("NFS_KRB5", kerberos.items()) + _block("EXPORT_DEFAULTS", defaults.items())
        + "".join(
            _export(number, name, path, served(options).get(name, {}))
            for number, (name, path) in enumerate(folders.items(), 2)
        )
        + "LOG {\n\tDefault_Log_Level = EVENT;\n}\n"
    )  # fmt: skip


def _export(number: int, name: str, path: Path, more: Mapping[str, str]) -> str:
    lines = {"Export_Id": number, "Path": path, "Pseudo": f"/{name}", "Filesystem_Id": f"77.{number}", **more}
    return _block("EXPORT", lines.items(), "FSAL { Name = VFS; }")


def _block(name: str, lines: Iterable[tuple[str, object]], more: str = "") -> str:
    text = "".join(f"\t{key} = {value};\n" for key, value in lines)
    return f"{name} {{\n{text}" + (f"\t{more}\n" if more else "") + "}\n"
