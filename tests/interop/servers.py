"""File servers that others wrote, from their packages: how each is had, started and reached.

They share no code with naslab, and none with its lab but for the guest of `knfsd.py`. Versions are pinned. What is
built is kept in `CACHE`, outside of the project; a server that cannot be had here is a reported skip with its reason.
All listen in a network namespace of their own (`inside.py`), for some of them know no other address than that of all
networks.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from interop import domain, knfsd, quota
from naslab.lab.guest import GUEST
from naslab.lab.guest.agent import DATA
from naslab.lab.guest.servers import MOUNT_PORT, NFS_PORT

CACHE = Path(os.environ.get("NASLAB_INTEROP_CACHE") or Path.home() / ".cache" / "naslab-tests" / "interop")
HERE = Path(__file__).parent
PORT = 24049
USER, PASSWORD = "ann", "Of-the-interop-tests"
BUILD_S = 1500


class MissingError(Exception):
    """A server cannot be had here; the text says why."""


class NotServedError(MissingError):
    """No registry of packages has it: no machine can be blamed."""


@dataclass(frozen=True)
class Foreign:
    """One server.

    what: its version and where it comes from. command: words from the folder to serve; asking it builds what is
    missing. url: with {port}. keeps: whether files survive a restart. host: where it listens.
    last_port: the one that answers last; 0: `port`.
    beside: starts what it needs beside it, in its namespace; the environment of the server and of its clients.
    room_bytes: what a quota leaves at most; 0: none is known.
    """

    name: str
    what: str
    command: Callable[[Path], list[str]]
    url: str
    keeps: bool = True
    port: int = PORT
    host: str = "127.0.0.1"
    last_port: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)
    beside: Callable[[Path], Mapping[str, str]] = lambda data: {}
    room_bytes: int = 0

    @property
    def target(self) -> str:
        """As a user names it."""
        return self.url.format(port=self.port)

    @property
    def ready_at(self) -> tuple[str, int]:
        """Host and port that answer when it is ready."""
        return self.host, self.last_port or self.port

    @property
    def logs_in(self) -> bool:
        """Whether a password is needed."""
        return self.url.startswith("smb://") and "auth=kerberos" not in self.url


def _run(words: list[str], **environment: str) -> None:
    """Builds something. Raises MissingError with the last line of what it printed."""
    if shutil.which(words[0]) is None:
        raise MissingError(f"{words[0]} is not installed")
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=BUILD_S, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip
    if done.returncode:
        raise MissingError(f"{words[0]}: {(done.stderr.strip().splitlines() or ['failed'])[-1]}")


def of_cargo(crate: str, version: str, program: str) -> str:
    """The program of a crate."""
    root = CACHE / f"{crate}-{version}"
    if not (root / "bin" / program).exists():
        _run(["cargo", "install", "--quiet", "--locked", "--root", str(root), "--version", version, crate])
    return str(root / "bin" / program)


def of_go(module: str, version: str, program: str) -> str:
    """The program of a Go module."""
    root = CACHE / f"{program}-{version}"
    if not (root / program).exists():
        _run(["go", "install", f"{module}@v{version}"], GOBIN=str(root), GOFLAGS="-modcacherw")
    return str(root / program)


def of_python(package: str, version: str, program: str) -> list[str]:
    """The words that begin a program of a Python package, in an environment of its own."""
    root = CACHE / f"{package}-{version}"
    if not (root / "bin" / program).exists():
        _run([sys.executable, "-m", "venv", str(root)])
        _run([str(root / "bin" / "pip"), "--quiet", "--disable-pip-version-check", "install", f"{package}=={version}"])
    return [str(root / "bin" / "python"), str(root / "bin" / program)]


def of_here(program: str) -> str:
    """A program of our own around a library, `rust/src/PROGRAM.rs`."""
    root = CACHE / "rust"
    _run(["cargo", "build", "--quiet", "--release", "--locked", "--bin", program, "--manifest-path",
          str(HERE / "rust" / "Cargo.toml")], CARGO_TARGET_DIR=str(root))  # fmt: skip
    return str(root / "release" / program)


def of_maven(program: str) -> list[str]:
    """The words that begin a program of our own around libraries that Maven gets, `java/PROGRAM.java`."""
    source, root = HERE / "java", CACHE / "java"
    made = root / "classes" / f"{program}.class"
    if not (root / "jars").exists():
        try:
            _run(["mvn", "--quiet", "--batch-mode", "--file", str(source / "pom.xml"), "dependency:copy-dependencies",
                  f"-DoutputDirectory={root / 'jars'}"])  # fmt: skip
        except MissingError as error:
            raise NotServedError(
                f"{error}: the jars of {program} are in its project's own repository, which Maven's settings must name"
            ) from error
    files = sorted(source.glob("*.java"))
    if not made.exists() or made.stat().st_mtime < max(file.stat().st_mtime for file in files):
        _run(["javac", "-cp", f"{root / 'jars'}/*", "-d", str(root / "classes"), *map(str, files)])
    return ["java", "-cp", f"{root / 'jars'}/*:{root / 'classes'}", program]


def _rclone(data: Path) -> list[str]:
    program = of_go("github.com/rclone/rclone", "1.69.1", "rclone")
    return [program, "serve", "nfs", str(data), "--addr", f"127.0.0.1:{PORT}", "--vfs-cache-mode", "full",
            "--cache-dir", str(data.parent / "rclone"), "--config", str(data.parent / "rclone.conf")]  # fmt: skip


def _osnfs(data: Path) -> list[str]:
    return [of_go("github.com/willscott/go-nfs/example/osnfs", "0.0.4", "osnfs"), str(data), str(PORT)]


def _impacket(data: Path) -> list[str]:
    words = of_python("impacket", "0.13.1", "smbserver.py")
    return [*words, "-smb2support", "-ip", "127.0.0.1", "-port", str(PORT), "DATA", str(data), "-username", USER,
            "-password", PASSWORD]  # fmt: skip


def _nfs3_server(data: Path, *more: str) -> list[str]:
    program = of_cargo("cargo-nfs3-server", "0.2.3", "cargo-nfs3-server")
    return [program, "--bind-ip", "127.0.0.1", "--bind-port", str(PORT), "--quiet", *more]


def _nfs_mirror(data: Path) -> list[str]:
    return [of_cargo("nfs_mirror", "0.1.2", "nfs_mirror"), str(data), "-t", "/data", "-i", "127.0.0.1", "-p", str(PORT)]


def _nfs4j(data: Path) -> list[str]:
    return [*of_maven("Nfs4j"), str(data), str(PORT)]


def _knfsd(data: Path) -> list[str]:
    if lacking := knfsd.missing():
        raise MissingError(f"{lacking} is not installed")
    return knfsd.command(data.parent)


def _ganesha_mem(data: Path) -> list[str]:
    if not list(Path("/usr/lib").glob("*/ganesha/libfsalmem.so")):
        raise MissingError("nfs-ganesha-mem is not installed")
    config = data.parent / "ganesha.conf"
    config.write_text(
        f"""NFS_CORE_PARAM {{ Protocols = 4; NFS_Port = {PORT}; MNT_Port = {PORT + 1}; Bind_addr = 0.0.0.0;
    Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; }}
NFSv4 {{ RecoveryRoot = {data.parent}/recovery; Graceless = true; Lease_Lifetime = 30; Only_Numeric_Owners = true; }}
NFS_KRB5 {{ Active_krb5 = false; }}
EXPORT {{ Export_Id = 1; Path = /data; Pseudo = /data; Protocols = 4; Transports = TCP; Access_Type = RW;
    Squash = None; SecType = sys; FSAL {{ Name = MEM; }} }}
""",
        "utf-8",
    )
    return ["ganesha.nfsd", "-F", "-L", str(data.parent / "ganesha.log"), "-f", str(config), "-p",
            str(data.parent / "ganesha.pid")]  # fmt: skip


def _domain(data: Path) -> domain.Domain:
    return domain.Domain(data.parent, USER, PASSWORD, PORT)


def _member(data: Path) -> list[str]:
    if lacking := domain.missing():
        raise MissingError(f"{lacking} is not installed")
    return _domain(data).write(data)


class Samba(NamedTuple):
    """One unusual configuration. globals_, share: further lines of smb.conf. name: of the share. mounted: puts another
    file system over the folder; `quota_said`: and Samba is told of its quota."""

    key: str
    what: str
    globals_: Mapping[str, str] = {}
    share: Mapping[str, str] = {}
    name: str = "data"
    mounted: Callable[[Path], Mapping[str, str]] | None = None
    quota_said: bool = False

    def command(self, data: Path) -> list[str]:
        """Writes configuration and user; the password goes through standard input."""
        if shutil.which("smbd", path=_SBIN) is None:
            raise MissingError("samba is not installed")
        if self.mounted and (lacking := quota.missing(_SBIN)):
            raise MissingError(f"{lacking} is not installed")
        folder = data.parent / "samba"
        for name in ("etc", "lock", "state", "cache", "run", "ncalrpc"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "users").write_text(f"root = {USER}\n")
        lines = {
            "server role": "standalone server", "workgroup": "INTEROP", "smb ports": str(PORT),
            "interfaces": "127.0.0.1", "bind interfaces only": "yes", "disable netbios": "yes",
            "private dir": f"{folder}/etc", "lock directory": f"{folder}/lock", "state directory": f"{folder}/state",
            "cache directory": f"{folder}/cache", "pid directory": f"{folder}/run", "ncalrpc dir": f"{folder}/ncalrpc",
            "passdb backend": f"tdbsam:{folder}/etc/passdb.tdb", "username map": f"{folder}/users",
            "log file": f"{folder}/log", "load printers": "no", "disable spoolss": "yes", **self.globals_,
        }  # fmt: skip
        if self.quota_said:
            lines["get quota command"] = str(quota.command(data))
        share = {"path": str(data), "read only": "no", **self.share}
        sections = ((each, "".join(f"\t{key} = {value}\n" for key, value in of.items()))
                    for each, of in (("global", lines), (self.name, share)))  # fmt: skip
        config = folder / "smb.conf"
        config.write_text("".join(f"[{each}]\n{text}" for each, text in sections), "utf-8")
        subprocess.run(
            ["smbpasswd", "-c", str(config), "-s", "-a", "root"], input=f"{PASSWORD}\n{PASSWORD}\n", text=True,
            check=True, capture_output=True, timeout=30,
        )  # fmt: skip
        return ["smbd", "-F", "--no-process-group", "-s", str(config), "-l", str(folder)]

    def foreign(self) -> Foreign:
        """As a server to try."""
        url = f"smb://{USER}@127.0.0.1:{{port}}/{quote(self.name)}"
        made = Foreign(f"samba-{self.key}", f"Samba (Debian), {self.what}", self.command, url)
        if self.mounted:
            made = replace(made, beside=self.mounted)
        return replace(made, room_bytes=quota.QUOTA_BYTES) if self.quota_said else made


_SBIN = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
SAMBAS = (
    Samba("311", "SMB 3.1.1 alone", {"server min protocol": "SMB3_11"}),
    Samba("fruit", "for Macs: catia, fruit, streams_xattr", share={
        "vfs objects": "catia fruit streams_xattr", "fruit:metadata": "stream", "fruit:resource": "xattr",
        "fruit:encoding": "native"}),
    Samba("aes256", "encryption by AES-256-GCM alone", {
        "server smb3 encryption algorithms": "AES-256-GCM", "smb encrypt": "required"}),
    Samba("cmac", "signing by AES-CMAC alone", {
        "server smb3 signing algorithms": "AES-128-CMAC", "server signing": "mandatory"}),
    Samba("small", "requests of 64 KiB, 16 credits", {
        "smb2 max read": "65536", "smb2 max write": "65536", "smb2 max trans": "65536", "smb2 max credits": "16"}),
    Samba("no-oplocks", "no oplocks, no leases", {"smb2 leases": "no"}, {"oplocks": "no", "level2 oplocks": "no"}),
    Samba("unicode", "a share with a name of other letters", name="Größe Übersicht 日本"),
    Samba("hidden", "a share that is not listed", share={"browseable": "no"}, name="hidden$"),
    Samba("case", "names with case", share={"case sensitive": "yes", "preserve case": "yes"}),
    Samba("audit", "full_audit", share={
        "vfs objects": "full_audit", "full_audit:success": "all", "full_audit:failure": "all",
        "full_audit:facility": "local7", "full_audit:priority": "debug"}),
    Samba("shadow", "shadow_copy2", share={"vfs objects": "shadow_copy2", "shadow:snapdir": ".snapshots"}),
    Samba("recycle", "a recycle bin", share={
        "vfs objects": "recycle", "recycle:repository": "#recycle", "recycle:keeptree": "yes",
        "recycle:versions": "yes"}),
    Samba("strict", "strict allocate, sync and locking", share={
        "strict allocate": "yes", "strict sync": "yes", "sync always": "yes", "strict locking": "yes"}),
    Samba("quota", "a quota that it reports", mounted=quota.mount, quota_said=True),
    Samba("quota-hidden", "a quota that it does not report", mounted=quota.mount),
    Samba("quota-full", "a quota that is used up", mounted=quota.mount_full, quota_said=True),
    Samba("quota-hidden-full", "a quota that is used up and that it does not report", mounted=quota.mount_full),
)  # fmt: skip
KNFSD = f"nfs://{GUEST}:{{port}}{DATA}"
NFS3 = "nfs://127.0.0.1:{port}/?mountport={port}&version=3"
SERVERS: tuple[Foreign, ...] = (
    Foreign("rclone", "rclone 1.69.1 over go-nfs (Go), NFS 3", _rclone, NFS3),
    Foreign("osnfs", "osnfs of go-nfs 0.0.4 (Go), NFS 3", _osnfs, NFS3),
    Foreign("nfs3_server", "nfs3_server 0.11, in memory (Rust), NFS 3",
            lambda data: _nfs3_server(data, "--memfs"), NFS3, keeps=False),
    Foreign("nfs3_server-folder", "nfs3_server 0.11, a folder (Rust), NFS 3",
            lambda data: _nfs3_server(data, "--path", str(data)), NFS3),
    Foreign("nfs_mirror", "nfs_mirror 0.1.2 over nfsserve (Rust), NFS 3", _nfs_mirror,
            "nfs://127.0.0.1:{port}/data?mountport={port}&version=3"),
    Foreign("embednfsd", "embednfsd 0.4.1 (Rust), NFS 4.1",
            lambda data: [of_cargo("embednfsd", "0.4.1", "embednfsd")], "nfs://127.0.0.1:{port}/?version=4.1",
            keeps=False, port=2049),
    Foreign("ganesha-mem", "NFS-Ganesha, FSAL MEM (Debian), NFS 4.1", _ganesha_mem,
            "nfs://127.0.0.1:{port}/data?version=4.1", keeps=False),
    Foreign("nfs4j", "nfs4j 0.27.2 (Java), NFS 3", _nfs4j, NFS3),
    Foreign("nfs4j-41", "nfs4j 0.27.2 (Java), NFS 4.1", _nfs4j, "nfs://127.0.0.1:{port}/?version=4.1"),
    Foreign("knfsd-3", "Linux's own (knfsd, in a guest), NFS 3", _knfsd, f"{KNFSD}?mountport={MOUNT_PORT}&version=3",
            port=NFS_PORT, host=GUEST, last_port=MOUNT_PORT),
    Foreign("knfsd", "Linux's own (knfsd, in a guest), NFS 4.2", _knfsd, f"{KNFSD}?version=4.2", port=NFS_PORT,
            host=GUEST, last_port=MOUNT_PORT),
    Foreign("impacket", "impacket 0.13.1 (Python), SMB 2", _impacket, f"smb://{USER}@127.0.0.1:{{port}}/DATA"),
    Foreign("smb-server", "smb-server 0.8 (Rust), SMB 3.1.1",
            lambda data: [of_here("smb"), f"127.0.0.1:{PORT}", str(data)], f"smb://{USER}@127.0.0.1:{{port}}/data",
            environment={"SMB_USER": USER, "SMB_PASSWORD": PASSWORD}),
    *(each.foreign() for each in SAMBAS),
    Foreign("samba-ad", "Samba (Debian), member of a Samba domain, login by Kerberos ticket", _member,
            f"smb://{domain.DOMAIN};{USER}@{domain.HOST}:{{port}}/data?auth=kerberos",
            beside=lambda data: _domain(data).start()),
    Foreign("samba-ad-password", "Samba (Debian), member of a Samba domain, login by password", _member,
            f"smb://{domain.DOMAIN};{USER}@{domain.HOST}:{{port}}/data?sign=on",
            beside=lambda data: _domain(data).start()),
)  # fmt: skip
