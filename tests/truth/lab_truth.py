"""Does `naslab run lab:FILE` name the limit that was planted? 24 systems of the lab, one after another.

Real servers, disks and links of this machine: run it alone there. It takes about 24 times a minute and a half, so it is
not among the tests that run with every change; `tools/truth --only lab`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plateau_systems import payload_share
from truth.asking import TIMEOUT_S, Answer, run_command
from truth.planted_ceilings import READ_LARGE, READ_SMALL, WRITE_LARGE, WRITE_SMALL, Class
from truth.planted_systems import BUCKET, DISK, LINK, MB, Planted, System
from truth.verdict_truth import RIGHT, Judged, holds, judge

BUDGET = "2m"
MORE_TRIES = 1
"""What misses is measured once more: a machine's own work lies in a minute of wall time, too."""
SAMBA, NFS3, NFS41, KNFS = (
    'kind = "samba"', 'kind = "ganesha"\nversion = ["3"]', 'kind = "ganesha"\nversion = ["4.1"]', 'kind = "knfsd"',
)  # fmt: skip
_OWN = 'ram = "128MiB"\nwrite_cache = "8MiB"'
_BOTH, _SMALL = (READ_LARGE, WRITE_LARGE), (READ_SMALL, WRITE_SMALL)


@dataclass(frozen=True)
class LabSystem:
    """One system: its definition as docs/reference/lab-systems.md says, and what limits it where.

    mounted: measured through a kernel's mount, by naslab inside the guest.
    """

    name: str
    kind: str
    classes: tuple[Class, ...]
    text: str
    figures: Sequence[Planted] = field(default_factory=tuple)
    mounted: bool = False

    def planted(self) -> System:
        """For the judge."""
        options = {"definition": self.text}
        return System(self.name, "single", (self.kind,), self.classes, options, self.figures, self.name)


def _link(megabits: int, server: str, classes: tuple[Class, ...] = (READ_LARGE,), name: str = "") -> LabSystem:
    value = megabits * 1e6 / 8 * payload_share(None)
    text = f'[server]\n{server}\n[link]\nrate = "{megabits}Mbit/s"\n'
    return LabSystem(f"link of {megabits} Mbit/s{name}", "link", classes, text, [Planted("value", value, LINK)])


def _disks(
    name: str, kind: str, classes: tuple[Class, ...], disks: str, server: str = SAMBA, volume: str = "single",
    filesystem: str = "ext4", value: float | None = None, link: str = "", within: float = DISK,
) -> LabSystem:  # fmt: skip
    text = f'[[disks]]\n{disks}\n[volume]\nlevel = "{volume}"\n[filesystem]\ntype = "{filesystem}"\n'
    text += f"[server]\n{server}\n{_OWN}\n" + (f'[link]\nrate = "{link}"\n' if link else "")
    return LabSystem(name, kind, classes, text, [Planted("value", value, within)] if value else ())


def _rates(read: int, write: int, count: int = 1, size: str = "1GiB") -> str:
    return f'count = {count}\nsize = "{size}"\nread = "{read}MB/s"\nwrite = "{write}MB/s"'


SYSTEMS: tuple[LabSystem, ...] = (
    _link(50, SAMBA, _BOTH),
    _link(100, NFS3, _BOTH, ", NFS 3"),
    _link(200, NFS41, _BOTH, ", NFS 4.1"),
    _link(200, SAMBA + '\nsigning = "mandatory"', _BOTH, ", signed"),
    _link(400, SAMBA),
    _link(1000, SAMBA),
    LabSystem("client's link of 80 Mbit/s", "link", (READ_LARGE,),
              f'[server]\n{SAMBA}\n[link]\nrate = "1Gbit/s"\n[clients]\ncount = 2\nrate = "80Mbit/s"\n',
              [Planted("value", 10e6 * payload_share(None), LINK)]),
    _disks("disk of 40 MB/s read, 30 written", "disk", _BOTH, _rates(40, 30), value=40 * MB),
    _disks("disk of 50 MB/s, NFS 3", "disk", _BOTH, _rates(50, 40), NFS3, filesystem="xfs", value=50 * MB),
    _disks("disk of 60 MB/s behind 1 Gbit/s", "disk", _BOTH, _rates(60, 50), NFS41, link="1Gbit/s", value=60 * MB),
    _disks("disk of 50 MB/s for reads and writes", "disk", _BOTH, 'size = "1GiB"\nrate = "50MB/s"',
           filesystem="xfs", value=50 * MB),
    _disks("two disks of 30 MB/s striped", "disk", (READ_LARGE,), _rates(30, 25, 2), volume="raid0",
           value=60 * MB, within=0.05),
    _disks("two disks of 40 MB/s mirrored", "disk", (WRITE_LARGE,), _rates(90, 40, 2), volume="raid1",
           filesystem="btrfs", value=40 * MB, within=0.05),
    _disks("three disks of 30 MB/s with parity", "disk", (READ_LARGE,), _rates(30, 30, 3), volume="raid5",
           filesystem="xfs", value=90 * MB, within=0.05),
    _disks("disk of 200 requests/s", "disk_iops", _SMALL, 'size = "1GiB"\niops = 200'),
    _disks("disk of 500 requests/s", "disk_iops", _SMALL, 'size = "1GiB"\niops = 500'),
    _disks("disk of 500 requests/s, NFS 3", "disk_iops", _SMALL, 'size = "1GiB"\niops = 500', NFS3),
    LabSystem("Samba with 1 % of a processor", "server_cpu", (READ_SMALL,),
              f'[server]\n{SAMBA}\nram = "256MiB"\ncpu = "1%"\n[link]\nrate = "1Gbit/s"\n'),
    LabSystem("Samba with 2 % of a processor", "server_cpu", (READ_SMALL,),
              f'[server]\n{SAMBA}\nram = "256MiB"\ncpu = "2%"\n'),
    LabSystem("Ganesha with 2 % of a processor", "server_cpu", (READ_SMALL,),
              f'[server]\n{NFS3}\nram = "256MiB"\ncpu = "2%"\n'),
    LabSystem("link with 60 ms each way, NFS 3", "latency", (READ_SMALL,),
              f'[server]\n{KNFS}\nversion = ["3"]\n[link]\nlatency = "60ms"\n'),
    _disks("disk with 300 MB of credit", "burst_credit", (WRITE_LARGE,),
           'size = "512MiB"\nburst = { rate = "96MB/s", base = "24MB/s", size = "300MB" }', value=24 * MB,
           within=BUCKET),
    LabSystem("link with 300 MB of credit", "burst_credit", (READ_LARGE,),
              f'[server]\n{SAMBA}\n[link]\nburst = {{ rate = "96MB/s", base = "24MB/s", size = "300MB" }}\n',
              [Planted("value", 24e6 * payload_share(None), BUCKET)]),
    LabSystem("kernel's mount of NFS 4.2", "client_cache", (READ_LARGE,),
              f'[[disks]]\n{_rates(60, 50, 1, "256MiB")}\n[server]\n{KNFS}\n[link]\nrate = "1Gbit/s"\n'
              '[clients]\naccess = "nfs4.2"\n', mounted=True),
)  # fmt: skip


def ask(system: LabSystem, folder: Path) -> Answer:
    """`naslab lab up`, `naslab run lab:NAME`, `naslab lab down`."""
    path = folder / f"truth-system-{SYSTEMS.index(system):02d}.toml"
    path.write_text(f'what = "one planted limit"\n{system.text}')
    up = _naslab("lab", "up", str(path))
    if up.returncode:
        return Answer(None, f"lab up, exit {up.returncode}: {_last(up.stderr)}", 0.0, 0.0)
    try:
        if system.mounted:
            return _inside(path.stem)
        return run_command(f"lab:{path.stem}", BUDGET, folder / f"{path.stem}.sqlite")
    finally:
        _naslab("lab", "down", path.stem)


def _inside(name: str) -> Answer:
    """`naslab run` on the mount of a guest's kernel, in the guest."""
    done = _naslab("lab", "exec", name, "--", "naslab", "run", "/lab/mount", "--budget", BUDGET, "--json", "--quiet")
    try:
        return Answer(json.loads(done.stdout), "", 0.0, 0.0)
    except json.JSONDecodeError:
        return Answer(None, f"exit {done.returncode}: {_last(done.stderr)}", 0.0, 0.0)


def _naslab(*words: str) -> subprocess.CompletedProcess[str]:
    whole = [sys.executable, "-m", "naslab", *words]
    return subprocess.run(whole, check=False, capture_output=True, text=True, timeout=TIMEOUT_S)


def _last(said: str) -> str:
    return (said.strip().splitlines() or ["no words"])[-1]


def figures(seed: int, names: Sequence[str] = ()) -> dict[str, Any]:
    """The table; the systems are the same for any seed. names: only those systems."""
    del seed
    found: list[Judged] = []
    with tempfile.TemporaryDirectory(prefix="naslab-truth-") as name:
        for system in (each for each in SYSTEMS if not names or each.name in names):
            for _ in range(1 + MORE_TRIES):
                judged = judge(system.planted(), ask(system, Path(name)))
                if judged.outcome == "right":
                    break
            said = ", ".join(f"{' '.join(where)}: {kind}" for where, kind in judged.named.items())
            print(f"  {system.name:40} {judged.outcome:10} {said} {judged.answer.error}", flush=True)
            found.append(judged)
    right = sum(judged.outcome == "right" for judged in found)
    held = [holds(p, value) for judged in found for p, value in judged.figures]
    ok = right >= RIGHT * len(found) and sum(held) >= RIGHT * len(held)
    table: dict[str, Counter[str]] = {}
    for judged in found:
        table.setdefault(judged.system.kinds[0], Counter()).update(judged.named.values())
    summary = [f"named first: {right} of {len(found)} (at least 95 %)",
               f"figures within their bars: {sum(held)} of {len(held)} (at least 95 %)"]  # fmt: skip
    matrix = {kind: dict(row) for kind, row in table.items()}
    return {"rows": [judged.row() for judged in found], "ok": ok, "summary": summary, "matrix": matrix}
