"""The reference page of definitions, from the declarations that read them."""

from __future__ import annotations

import dataclasses

from naslab.lab import definition
from naslab.lab.definition import Burst, Clients, Disk, Filesystem, Link, Server, Volume

_HEAD = """# Systems of the lab

<!-- Made by tools/make-docs from naslab/lab/definition.py; edit the declarations there instead. -->

A system is a TOML file: disks, a volume of them, a file system, a server, a link, clients. `naslab lab up FILE.toml`
builds it; `naslab lab show FILE.toml` draws it and says which backend can build it here. Any key can be replaced:
`naslab lab up raid5 --set disks.size=1GiB`, `lab:raid5?link.rate=100Mbit/s`; a key of `disks` is replaced in all
disks. Unknown keys, invalid values and incompatible parts are refused, with a message that names file, key
and value. See [the lab](../guide/lab.md).

Sizes: `1GiB` and `1g` are powers of 1024, `1GB` powers of 1000. A disk's rate is in bytes per second (`67MB/s`), a
link's in bits per second (`1Gbit/s`) or bytes (`67MB/s`); shares are in percent.

At the top of the file: `what` (one line; required), `source` (its origin), `backend` (`native` or `uml`; by default the
first that can build it).
"""
_PARTS = (
    ("[[disks]]", "", Disk, "Once for each kind of disk. Without disks the server serves a folder of this machine."),
    ("burst = { ... }", "of a disk or a link", Burst, "A token bucket."),
    ("[volume]", "", Volume, ""),
    ("[filesystem]", "", Filesystem, ""),
    ("[server]", "", Server, ""),
    ("[link]", "", Link, "Without it clients reach the server over this machine's loopback interface."),
    ("[clients]", "", Clients, ""),
)
_LEVELS = """
| level | disks | meaning |
|---|---|---|
| `single` | 1 | the file system on the disk |
| `span` | 2 or more | the disks one after the other |
| `jbod` | 1 or more | each disk with its own file system and share: `data`, `disk2`, `disk3`, ... |
| `raid0` | 2 or more | striped |
| `raid1` | 2 | mirrored |
| `raid5` | 3 or more | striped with parity |
| `pool` | 2 or more | a file system on each, presented as one folder; each file is on one disk |
| `duplicated` | 2 or more | the same, each file on two disks: immediately (`synchronous`) or later (`background`) |
"""


def page() -> str:
    """The page."""
    parts = [_HEAD]
    for title, note, kind, words in _PARTS:
        parts.append(f"\n## `{title}`{f' {note}' if note else ''}\n")
        parts.append(f"\n{words}\n" if words else "")
        parts.append("\n| key | value | default | meaning |\n|---|---|---|---|\n")
        parts += [_row(each) for each in dataclasses.fields(kind)]
        if kind is Volume:
            parts.append(_LEVELS)
    parts.append("\n## Systems that come with naslab\n\n| name | what |\n|---|---|\n")
    for name, words in definition.built_in().items():
        parts.append(f"| `{name}` | {definition.parse(words, name, name).what} |\n")
    return "".join(parts)


def _row(field: dataclasses.Field[object]) -> str:
    key, reads, what = (field.metadata[each] for each in ("key", "reads", "what"))
    if field.default is dataclasses.MISSING:
        default = "required"
    elif field.default in (None, (), 0, 0.0):
        default = "none"
    elif key == "size":
        default = f"`{int(str(field.default)) >> 20}MiB`"
    else:
        default = f"`{field.default}`"
    return f"| `{key}` | {reads.takes} | {default} | {what} |\n"
