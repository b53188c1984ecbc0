"""What servers say in the first minutes becomes one line: thing, reason, what to do."""

from __future__ import annotations

import pytest

from naslab.targets.first_contact import first_contact
from told import told

SMB, NFS = "smb://ann@nas:1445/photos/raw", "nfs://nas/export"


@pytest.mark.parametrize(
    ("url", "text", "words"),
    [
        (SMB, "connect: the server refuses this user name or password (STATUS_LOGON_FAILURE), user=ann",
         ("nas:1445", "user ann", "password", "--credentials")),
        (SMB, "connect: the server does not know this user and would let us in as a guest: check the name, user=ann",
         ("no user ann", "auth=guest")),
        (SMB, "connect: Connection reset by peer: it speaks SMB, and takes no more connections just now, host=nas",
         ("nas:1445 takes no more connections", "Samba: max connections")),
        (SMB, "connect: Connection reset by peer while it was asked for its SMB version: is this an SMB server, and",
         ("ends the connection at once", "does not speak SMB, or takes no more connections")),
        (SMB, "mkdir: nothing has this name (STATUS_OBJECT_NAME_NOT_FOUND), path=naslab-1",
         ("accepts no folder of the name naslab-1", "veto files")),
        (SMB, "connect: the server has no share of this name (STATUS_BAD_NETWORK_NAME), share=photos",
         ("no share photos", "naslab doctor smb://nas:1445")),
        (SMB, "connect: nothing has this name (STATUS_OBJECT_NAME_NOT_FOUND), path=, folder=raw, share=photos",
         ("the folder raw", "smb://nas:1445/photos", "create it")),
        (SMB, "connect: not allowed (STATUS_ACCESS_DENIED), share=photos", ("share photos", "another user")),
        (SMB, "connect: Connection refused (os error 111), host=nas, port=1445", ("port 1445 of nas", "enable SMB")),
        (NFS, "connect: this host name is not known: check its spelling, host=nas", ("name nas", "spelling")),
        (NFS, "connect: No route to host (os error 113), host=nas, port=2049", ("nas cannot be reached", "network")),
        (NFS, "connect: NFS3ERR_NOENT: it does not exist, path=/export, host=nas", ("/export", "doctor nfs://nas")),
        (NFS, "connect: MNT3ERR_ACCES: no, path=/export, host=nas", ("/export", "clients on the server")),
        (NFS, "mount: NFS3ERR_ACCES: no, path=/export, host=nas", ("/export", "clients on the server")),
        (NFS, "connect: the export takes krb5i or krb5p, not sec=sys: give ?sec=krb5i or krb5p, path=/export, host=nas",
         ("nas: /export takes krb5i or krb5p, not sec=sys: give ?sec=krb5i or krb5p",)),
        (NFS, "connect: the server closed the connection, host=nas", ("does not speak NFS", "check protocol and port")),
        (SMB, "receive: no complete answer from the server within 3 s", ("port 1445 of nas", "--timeout")),
        (SMB, "mkdir: not allowed (STATUS_ACCESS_DENIED), path=naslab-1", (SMB, "no write access", "allow it")),
        ("/mnt/nas", "mkdir: Read-only file system (os error 30), path=naslab-1", ("/mnt/nas", "read-only")),
        ("/mnt/nas", "mkdir: No space left on device (os error 28), path=naslab-1", ("/mnt/nas is full", "free some")),
        ("lab:demo/none", "connect: NFS3ERR_NOENT: it does not exist, path=/data/none", ("lab:demo", "leave it")),
    ],
)  # fmt: skip
def test_lines(url: str, text: str, words: tuple[str, ...]) -> None:
    line = first_contact(url, told(text), True)
    assert line is not None and "\n" not in line
    assert all(word in line for word in words), line
    assert "os error" not in line and "STATUS" not in line and "ERR_" not in line


def test_what_happens_during_a_run_is_told_as_it_is() -> None:
    assert first_contact(SMB, told("receive: the server closed the connection"), False) is None
    assert first_contact(SMB, told("read: something else"), True) is None
    assert first_contact("sim:", told("connect: Connection refused"), True) is None
    assert first_contact("smb://nas:99999/x", told("connect: Connection refused"), True) is None
    assert first_contact(SMB, None, True) is None, "no error of the engine"
