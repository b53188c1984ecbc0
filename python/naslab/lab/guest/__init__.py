"""Guests of the lab: whole Linux systems with kernels of their own (user-mode Linux), as parts of a system.

with naslab.lab.guest.running(Spec(disks=(Disk(size_bytes=1 << 30),))) as guest:
    print(guest.run(["uname", "-r"]).text)
"""

from __future__ import annotations

from naslab.lab.guest.client import Done, Guest, find, from_facts, running, start
from naslab.lab.guest.spec import GUEST, HOST, Disk, Spec

__all__ = ["GUEST", "HOST", "Disk", "Done", "Guest", "Spec", "find", "from_facts", "running", "start"]
