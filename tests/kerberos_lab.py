"""A private Kerberos realm on this machine: MIT's KDC on a loopback port, principals, tickets, keytabs."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cli_tools import Cli, need
from naslab.lab import running
from naslab.lab.place import free_port, new_password
from naslab.lab.server import Server

REALM = "TEST.LAB"
SMALL = ("--file-size", "256k", "--record", "64k", "--verify")
"""Of a sweep that only shows that all works."""
PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_CLIENT = """[libdefaults]
 default_realm = {realm}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
[realms]
 {realm} = {{
  kdc = 127.0.0.1:{port}
 }}
[domain_realm]
 {server} = {realm}
"""
# A Samba that is in no domain takes only tickets without what domain controllers add (a PAC).
_KDC = """[kdcdefaults]
 kdc_listen = 127.0.0.1:{port}
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 {realm} = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
  disable_pac = true
 }}
[logging]
 kdc = FILE:{folder}/kdc.log
"""


@dataclass
class Realm:
    """folder: all of its files. user: a principal with the name of this process's user, and a keytab `user.keytab`.

    `cifs.keytab` and `nfs.keytab` hold the keys of the server. prefix: words before its programs.
    """

    folder: Path
    user: str
    prefix: tuple[str, ...] = ()

    @property
    def env(self) -> dict[str, str]:
        """The environment of its programs and clients; the ticket cache is `cache`, which begins empty."""
        files = {"KRB5_CONFIG": "krb5.conf", "KRB5_KDC_PROFILE": "kdc.conf", "KRB5CCNAME": "cache"}
        return {**os.environ, "PATH": _PATH, **{name: str(self.folder / file) for name, file in files.items()}}

    def enter(self, cli: Cli) -> Cli:
        """The command line in the realm, without a ticket."""
        for name in ("KRB5_CONFIG", "KRB5CCNAME"):
            cli.env[name] = self.env[name]
        cli.env["NASLAB_PASSWORD"] = "never-asked-for"
        return cli

    def run(self, *words: str) -> None:
        subprocess.run([*self.prefix, *words], env=self.env, check=True, capture_output=True, text=True, timeout=30)

    def admin(self, query: str) -> None:
        self.run("kadmin.local", "-r", REALM, "-q", query)

    def keytab(self, file: str, principal: str) -> None:
        self.admin(f"ktadd -norandkey -k {self.folder / file} {principal}")

    def kinit(self, cache: str, *more: str) -> str:
        """A ticket of the user, by the keytab; the name of its cache."""
        path = f"FILE:{self.folder / cache}"
        self.run("kinit", "-c", path, "-k", "-t", str(self.folder / "user.keytab"), *more, self.user)
        return path

    def outlive(self, cache: str) -> None:
        """Waits until the ticket in the cache has expired."""
        check = ["klist", "-s", "-c", cache]
        deadline = time.monotonic() + 30
        while subprocess.run(check, env=self.env, check=False, timeout=30).returncode == 0:
            assert time.monotonic() < deadline, "the ticket does not expire"
            time.sleep(0.1)
        # The library counts in whole seconds, and takes a ticket in the second in which it ends.
        time.sleep(1.1)


@contextlib.contextmanager
def realm(folder: Path, server: str = "localhost", prefix: tuple[str, ...] = ()) -> Iterator[Realm]:
    """The realm for the time of a `with` block; its KDC ends with it.

    server: the name or address by which clients know the servers. prefix: words that put a program where clients are.
    """
    need(all(shutil.which(name, path=_PATH) for name in PROGRAMS), "krb5-kdc, krb5-admin-server and krb5-user")
    made, port = Realm(folder, pwd.getpwuid(os.geteuid()).pw_name, prefix), free_port()
    for name, text in (("krb5.conf", _CLIENT), ("kdc.conf", _KDC)):
        (folder / name).write_text(text.format(realm=REALM, port=port, folder=folder, server=server))
    # The master password is made up here and protects a database that the test throws away.
    made.run("kdb5_util", "create", "-s", "-r", REALM, "-P", new_password())
    for file, principal in (("user", made.user), ("cifs", f"cifs/{server}"), ("nfs", f"nfs/{server}")):
        made.admin(f"addprinc -randkey {principal}")
        made.keytab(f"{file}.keytab", principal)
    with (folder / "kdc.out").open("w") as log:
        kdc = subprocess.Popen([*prefix, "krb5kdc", "-n", "-r", REALM], env=made.env, stdout=log, stderr=log)
    try:
        _await(folder / "kdc.log", kdc)
        yield made
    finally:
        kdc.terminate()
        kdc.wait(timeout=20)


def _await(log: Path, kdc: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and kdc.poll() is None:
        if log.exists() and "commencing operation" in log.read_text():
            return
        time.sleep(0.02)
    raise AssertionError("the KDC does not answer")


@contextlib.contextmanager
def kerberos_ganesha(folder: Path) -> Iterator[tuple[Realm, Server]]:
    """A realm, and a Ganesha in it; this process and its programs know the realm meanwhile, but have no ticket."""
    with realm(folder) as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRB5_CONFIG", made.env["KRB5_CONFIG"])
        patch.setenv("KRB5CCNAME", made.env["KRB5CCNAME"])
        keytab = str(folder / "nfs.keytab")
        with running("ganesha", fast=True, keytab=keytab, realm=REALM) as server:
            yield made, server


def all_verified(document: dict[str, Any]) -> None:
    """Fails unless blocks were checked and all of them were right."""
    checked = [cell["verified"] for cell in document["cells"] if cell["verified"]]
    assert checked and all(each["blocks"] > 0 and each["bad"] == 0 for each in checked), checked


def failure(user: Cli, url: str, **more: Any) -> str:
    """The one line of a refused sweep."""
    done = user("sweep", url, *SMALL, **more).sound()
    assert done.code == 2 and done.out == "", done
    assert user("runs", "--json").ok().json()["runs"] == []
    return done.err.strip().splitlines()[-1]


def holds(line: str, *words: str) -> None:
    """Fails unless all of the words are there."""
    assert all(word in line for word in words), line


def without_the_library() -> list[str]:
    """Words before a program for which an empty file lies over the Kerberos library."""
    libraries = [str(path) for path in Path("/usr/lib").glob("*/libgssapi_krb5.so.2")]
    need(os.geteuid() == 0 and libraries, "root, and libgssapi-krb5-2")
    hide = f'for each in {" ".join(libraries)}; do mount --bind /dev/null $(realpath $each) || exit 9; done; exec "$@"'
    return ["unshare", "-m", "sh", "-c", hide, "sh"]
