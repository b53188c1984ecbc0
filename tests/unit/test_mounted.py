"""Which server lies behind a mounted folder: lines of mountinfo as kernels write them."""

from __future__ import annotations

import pytest

from naslab.targets import parse_target
from naslab.targets.mounted import behind

HEAD = """\
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,errors=remount-ro
23 22 0:21 / /proc rw,nosuid,nodev,noexec,relatime shared:12 - proc proc rw
41 22 0:36 / /net rw,relatime shared:20 - autofs /etc/auto.net rw,fd=5,pgrp=700,timeout=300,indirect
"""
NFS = (
    "{vers},rsize=1048576,wsize=1048576,namlen=255,hard,proto=tcp,timeo=600,retrans=2,sec=sys,{more}"
    "local_lock=none,addr=192.0.2.7"
)
CIFS = (
    "rw,vers=3.1.1,cache=strict,username=ann,uid=0,noforceuid,gid=0,noforcegid,addr=192.0.2.9,file_mode=0755,"
    "dir_mode=0755,soft,nounix,serverino,mapposix,rsize=4194304,wsize=4194304,bsize=1048576,echo_interval=60,actimeo=1"
)


def line(kind: str, source: str, options: str, point: str = "/mnt/nas", root: str = "/") -> str:
    """One line; with an optional field, as shared mounts have."""
    return f"60 22 0:44 {root} {point} rw,relatime shared:31 - {kind} {source} {options}\n"


def nfs(vers: str = "vers=4.2", more: str = "clientaddr=192.0.2.1,") -> str:
    return "rw," + NFS.format(vers=vers, more=more)


@pytest.mark.parametrize(
    ("text", "path", "url"),
    [
        (line("nfs4", "nas:/export", nfs()), "/mnt/nas", "nfs://192.0.2.7/export?version=4.2"),
        (line("nfs4", "nas:/", nfs()), "/mnt/nas/deep/er", "nfs://192.0.2.7/deep/er?version=4.2"),
        (
            line("nfs", "nas:/vol/data",
                 nfs("vers=3", "mountaddr=192.0.2.7,mountvers=3,mountport=20048,mountproto=tcp,")),
            "/mnt/nas/a",
            "nfs://192.0.2.7/vol/data/a?version=3&mountport=20048",
        ),
        (
            line("nfs4", "nas:/export", nfs("vers=4.1", "port=12049,nconnect=4,noresvport,")), "/mnt/nas",
            "nfs://192.0.2.7:12049/export?version=4.1&connections=4&privileged=off",
        ),
        (line("nfs", "nas:/e", nfs("vers=3", "port=2049,mountport=0,")), "/mnt/nas", "nfs://192.0.2.7/e?version=3"),
        # A folder of the mount that was bound elsewhere: the kernel writes its whole path into the source.
        (line("nfs4", "nas:/export/homes/ann", nfs(), "/home/ann"), "/home/ann/x",
         "nfs://192.0.2.7/export/homes/ann/x?version=4.2"),
        (line("nfs4", r"nas:/my\040export\303\274", nfs(), r"/mnt/my\040nas"), "/mnt/my nas/d e",
         "nfs://192.0.2.7/my%20export%C3%BC/d%20e?version=4.2"),
        (
            line("nfs4", "[2001:db8::7]:/export",
                 nfs().replace("proto=tcp", "proto=tcp6").replace("192.0.2.7", "2001:db8::7")),
            "/mnt/nas", "nfs://[2001:db8::7]/export?version=4.2",
        ),
        (line("nfs4", "nas:/export", "rw,vers=4.0,sec=sys"), "/mnt/nas", "nfs://nas/export?version=4.0"),
        (line("cifs", "//nas/data", CIFS), "/mnt/nas", "smb://ann@192.0.2.9/data?dialect=3.1.1"),
        # A prefix is in the source and in the root: it is not doubled.
        (line("cifs", "//nas/data/pre/fix", CIFS, root="/pre/fix"), "/mnt/nas/d",
         "smb://ann@192.0.2.9/data/pre/fix/d?dialect=3.1.1"),
        (line("cifs", "//nas/data/pre", CIFS, root="/pre/below"), "/mnt/nas",
         "smb://ann@192.0.2.9/data/pre/below?dialect=3.1.1"),
        # Where the server lets nobody see the folders above, the prefix is in the source alone.
        (line("cifs", "//nas/data/pre/fix", CIFS), "/mnt/nas", "smb://ann@192.0.2.9/data/pre/fix?dialect=3.1.1"),
        (line("cifs", "//nas/data", CIFS, root="/bound"), "/mnt/nas/d", "smb://ann@192.0.2.9/data/bound/d?dialect=3.1.1"),
        (line("cifs", r"//nas/my\040share", CIFS), "/mnt/nas", "smb://ann@192.0.2.9/my%20share?dialect=3.1.1"),
        (
            line("smb3", "//nas/data", "rw,vers=3.02,sec=ntlmsspi,cache=none,username=ann,domain=CORP,"
                 "addr=2001:0db8:0000:0000:0000:0000:0000:0009,seal,multichannel,max_channels=4"),
            "/mnt/nas", "smb://CORP;ann@[2001:db8::9]/data?dialect=3.0.2&encrypt=on&connections=4",
        ),
        (line("cifs", "//nas/data", "rw,vers=2.1,sec=ntlmsspi,username=ann"), "/mnt/nas",
         "smb://ann@nas/data?dialect=2.1&sign=on"),
        # A ticket is for a name: the address of the mount would not do.
        (line("nfs4", "nas.lab:/e", nfs().replace("sec=sys", "sec=krb5p")), "/mnt/nas/d",
         "nfs://nas.lab/e/d?version=4.2&sec=krb5p"),
        (line("cifs", "//nas.lab/data", "rw,vers=3.1.1,sec=krb5i,username=ann,domain=CORP,addr=192.0.2.9"), "/mnt/nas",
         "smb://ann@nas.lab/data?dialect=3.1.1&sign=on&auth=kerberos"),
        (line("cifs", "//nas.lab/data", "rw,vers=3.1.1,sec=krb5,addr=192.0.2.9"), "/mnt/nas",
         "smb://nas.lab/data?dialect=3.1.1&auth=kerberos"),
        (line("cifs", "//nas/public", "rw,vers=2.0,sec=none,cache=strict,uid=0"), "/mnt/nas",
         "smb://nas/public?dialect=2.0.2"),
    ],
)  # fmt: skip
def test_the_url_of_a_mount(text: str, path: str, url: str) -> None:
    found = behind(HEAD + text, path)
    assert found is not None and (found.url, found.left_out) == (url, ())
    target = parse_target(url)
    assert target.protocol == found.kind and not target.whole_server


def test_the_innermost_mount_counts() -> None:
    text = (
        HEAD
        + line("nfs4", "nas:/outer", nfs())
        + line("tmpfs", "none", "rw", "/mnt/nas/tmp")
        + line("nfs4", "nas:/inner", nfs("vers=3", ""), "/mnt/nas/in")
        + line("nfs4", "nas:/twin", nfs(), "/mnt/nas2")
    )
    urls = {path: behind(text, path) for path in ("/mnt/nas", "/mnt/nas/in/x", "/mnt/nas/inside", "/mnt/nas2")}
    assert {path: found.url.split("?")[0] if found and found.url else None for path, found in urls.items()} == {
        "/mnt/nas": "nfs://192.0.2.7/outer",
        "/mnt/nas/in/x": "nfs://192.0.2.7/inner/x",
        "/mnt/nas/inside": "nfs://192.0.2.7/outer/inside",
        "/mnt/nas2": "nfs://192.0.2.7/twin",
    }
    assert behind(text, "/mnt/nas/tmp/x") is None and behind(text, "/") is None and behind(text, "/mnt") is None
    # Mounted over: the last one of a point is what is seen, also over an automount.
    assert behind(text + line("ext4", "/dev/sdb", "rw"), "/mnt/nas/in/x") is not None
    assert behind(text + line("tmpfs", "none", "rw", "/mnt/nas2"), "/mnt/nas2") is None
    automount = HEAD.replace("/net", "/mnt/nas") + line("nfs4", "nas:/export", nfs())
    assert behind(automount, "/mnt/nas") is not None


@pytest.mark.parametrize(
    ("text", "said", "has_url"),
    [
        (line("nfs4", "nas:/e", nfs().replace("sec=sys", "sec=lkey")), "sec=lkey", True),
        (line("nfs4", "nas:/e", nfs().replace("proto=tcp", "proto=rdma")), "proto=rdma", True),
        (line("nfs4", "nas:/e", nfs("vers=4.2", "xprtsec=mtls,")), "xprtsec=mtls", True),
        (line("nfs4", "nas:/e", nfs("vers=4.2", "fsc,")), "fsc", True),
        (line("nfs", "nas:/e", nfs("vers=2", "")), "vers=2", False),
        (line("cifs", "//nas/data", "rw,vers=3.1.1,sec=ntlmssp,multiuser,addr=192.0.2.9"), "multiuser", True),
        (line("cifs", "//nas/data", "rw,vers=1.0,sec=ntlmssp,username=ann"), "vers=1.0", False),
    ],
)
def test_what_cannot_be_carried_over_is_said(text: str, said: str, has_url: bool) -> None:
    found = behind(HEAD + text, "/mnt/nas")
    assert found is not None and (found.url is not None) is has_url
    assert len(found.left_out) == 1 and found.left_out[0].startswith(said)


def test_a_mount_over_tls_is_reached_over_tls_by_its_name() -> None:
    found = behind(HEAD + line("nfs4", "nas:/e", nfs("vers=4.2", "xprtsec=tls,")), "/mnt/nas")
    assert found is not None and not found.left_out and found.options["xprtsec"] == "tls"
    assert found.url is not None and found.url.startswith("nfs://nas/e?") and "xprtsec=tls" in found.url


TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100000A:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0000000000000000 100 0 0
   1: 010200C0:8B2E 090200C0:{port:04X} {state} 00000000:00000000 00:00000000 00000000     0        0 2 1
   2: 010200C0:8B30 090200C0:0801 01 00000000:00000000 00:00000000 00000000     0        0 3 1
"""


def test_the_port_of_a_share_is_where_the_kernel_is_connected() -> None:
    text = HEAD + line("cifs", "//nas/data", CIFS)
    for port, state, wanted in ((4450, "01", ":4450"), (445, "01", ""), (4450, "06", "")):
        found = behind(text, "/mnt/nas", TCP.format(port=port, state=state))
        assert found is not None and found.url == f"smb://ann@192.0.2.9{wanted}/data?dialect=3.1.1"
    six = "   0: B80D0120000000000000000001000000:8000 B80D0120000000000000000009000000:1162 01 0:0 0:0 0 0 0 5\n"
    found = behind(text.replace("192.0.2.9", "2001:0db8:0000:0000:0000:0000:0000:0009"), "/mnt/nas", six)
    assert found is not None and found.url == "smb://ann@[2001:db8::9]:4450/data?dialect=3.1.1"


def test_nothing_secret_and_only_what_tells_is_kept() -> None:
    found = behind(line("cifs", "//nas/data", f"{CIFS},password=geheim,pass=geheim"), "/mnt/nas")
    assert found is not None and "geheim" not in repr(found)
    assert found.options == {"vers": "3.1.1", "rsize": "4194304", "wsize": "4194304", "cache": "strict"}


@pytest.mark.parametrize("text", ["", "nonsense\n", "60 22 0:44 / /mnt/nas rw - nfs4\n", "1 2 - nfs4 a:/b rw\n"])
def test_lines_that_cannot_be_read_are_passed_over(text: str) -> None:
    assert behind(text, "/mnt/nas") is None
