"""Does a real server do what `naslab whatif` said it would? Systems of the lab, measured, given another part and
measured again.

Real servers, disks and links of this machine: run it alone there, `python tests/truth/whatif_lab_truth.py`; names of
systems may follow. Two measurements of a minute or two each.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from naslab.explain.evidence import Evidence
from naslab.explain.predict import Change, Scale
from truth.asking import run_command
from truth.lab_truth import _OWN, NFS41, SAMBA, _last, _naslab
from truth.whatif_truth import Held, Replanted, hold, outcome

BUDGET = "2m"


@dataclass(frozen=True)
class LabChange:
    """A system's definition before and after, as docs/reference/lab-systems.md says."""

    name: str
    before: str
    after: str
    change: Change
    what: str


def _disk(rate: int, link: str, server: str = SAMBA) -> str:
    """Of so many MB/s for reads and writes together, kept evenly (separate rates come in tenths of a second), and of 25
    requests/s for each of them: a part that is twice as fast is so for small requests, too. Several times as large as
    memory, which else holds another share of a set from one run to the next."""
    disk = f'size = "768MiB"\nrate = "{rate}MB/s"\niops = {25 * rate}'
    return f'[[disks]]\n{disk}\n[volume]\nlevel = "single"\n[server]\n{server}\n{_OWN}\n[link]\nrate = "{link}"\n'


def _link(megabits: int, server: str = SAMBA) -> str:
    return f'[server]\n{server}\n[link]\nrate = "{megabits}Mbit/s"\n'


SYSTEMS: tuple[LabChange, ...] = (
    LabChange("disk", _disk(40, "1Gbit/s"), _disk(80, "1Gbit/s"), Change(disk=Scale(2.0)), "disk 2x"),
    LabChange("link", _link(200), _link(100), Change(link=Scale(0.5)), "link 0.5x"),
    LabChange(
        "disk and link", _disk(60, "600Mbit/s", NFS41), _disk(24, "300Mbit/s", NFS41),
        Change(link=Scale(0.5), disk=Scale(0.4)), "link 0.5x, disk 0.4x",
    ),
)  # fmt: skip


def measure(text: str, name: str, folder: Path) -> Evidence:
    """The ladder of one system. Raises RuntimeError with what was said where there is none."""
    path = folder / f"{name}.toml"
    path.write_text(f'what = "a part to change"\n{text}')
    up = _naslab("lab", "up", str(path))
    if up.returncode:
        raise RuntimeError(f"lab up {name}: {_last(up.stderr)}")
    try:
        answer = run_command(f"lab:{name}", BUDGET, folder / f"{name}.sqlite")
    finally:
        _naslab("lab", "down", name)
    if answer.document is None or not answer.document.get("ladder"):
        raise RuntimeError(f"run lab:{name}: {answer.error or 'no ladder'}")
    return Evidence.from_document(answer.document["ladder"])


def figures(seed: int = 0, names: Sequence[str] = ()) -> dict[str, Any]:
    """All systems, or the named ones; as of the simulated ones. The seed changes nothing: these are real."""
    held: list[Held] = []
    chosen = [system for system in SYSTEMS if not names or system.name in names]
    with tempfile.TemporaryDirectory(prefix="naslab-truth-") as folder:
        for system in chosen:
            name = f"whatif-{system.name.replace(' ', '-')}"
            before = measure(system.before, f"{name}-before", Path(folder))
            after = measure(system.after, f"{name}-after", Path(folder))
            made = Replanted(system.name, system.name, {}, {}, system.change, system.what)
            held += hold(made, before, after)
    return outcome(held, len(chosen))


if __name__ == "__main__":
    found = figures(0, sys.argv[1:])
    print(json.dumps(found["rows"], indent=1))
    print("\n".join(found["summary"]))
    sys.exit(0 if found["ok"] else 1)
