"""Does `naslab run` name what limits a real server? Own Samba and Ganesha, in namespaces, with planted limits.

Systems are drawn (`real_systems`), built (`real_world`, `real_parts`, `real_relay`) and judged (`real_truths`) without
naslab's lab, so that what is judged shares no part with what the model grew up with. One at a time; root and cgroup v1
are needed. Each answer can be kept whole, in the format of `sim_kept`, to be replayed without measuring. Statements are
claims of `calibration`; bars: right first 95 %, one certain and wrong, calibration error 0.08.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from truth import real_parts, sim_kept
from truth.asking import TIMEOUT_S
from truth.calibration import Claim, brier, calibration_error, certain, matrix, reliability, text
from truth.real_systems import KINDS, System, draw
from truth.real_truths import Class, Machine, RealTruth, truths

LOOKED_AT = (1, 2, 303, 1726332564, 1083830888, 768313742, 826302457, 562053396, 344233083, 250929346, 377270866)
"""Seeds whose misses were looked at while verdicts were made: they judge nothing."""
RIGHT, WRONG, ERROR, DECIDED = 0.95, 1, 0.08, 0.7
MACHINE_KEPT_S = 6 * 3600
NOTHING = "(none)"
Kept = dict[str, Any]
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Statement:
    """What was said of one class. planted: the part; value, expected: of its figure, where there is one."""

    system: str
    kind: str
    where: Class
    planted: str
    named: str
    probability: float
    right: bool
    value: float | None = None
    expected: float | None = None
    within: float | None = None

    @property
    def claim(self) -> Claim:
        """As calibration takes it."""
        return Claim(self.probability, self.right)

    @property
    def holds(self) -> bool | None:
        """Whether the value lies within its bar; None where there is nothing to hold."""
        if not (self.right and self.expected and self.within):
            return None
        return self.value is not None and abs(self.value / self.expected - 1) <= self.within


# Running.


def in_world(system: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """What the process of a system writes; everything it began is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="naslab-real-", dir="/tmp") as name:
        folder = Path(name)
        (folder / "system.json").write_text(json.dumps(system))
        words = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--net", "--pid", "--fork",
                 "--kill-child=SIGKILL", "--mount-proc", sys.executable, str(Path(__file__).with_name("real_world.py")),
                 name]  # fmt: skip
        with (folder / "world.log").open("wb") as out:
            child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            pass
        finally:
            if child.poll() is None:
                os.kill(child.pid, signal.SIGKILL)
            child.wait()
        answer = folder / "answer.json"
        if answer.exists():
            return dict(json.loads(answer.read_text()))
        said = (folder / "world.log").read_text(errors="replace").strip().splitlines()
        error = f"no answer: {said[-1] if said else 'not in time'}"
        return {"answer": {"document": None, "error": error, "cpu_s": 0.0, "wall_s": 0.0}, "facts": {}}


def machine_costs(keep: Path, told: Tell) -> Machine:
    """The unshaped server's figures, measured anew where those of the folder are old."""
    path = keep / "machine" / "machine.json"
    if path.exists() and time.time() - path.stat().st_mtime < MACHINE_KEPT_S:
        return dict(json.loads(path.read_text()))
    found: dict[str, Any] = {}
    for name in ("smb", "nfs3", "nfs4.1", "smb+relay", "nfs4.1+relay"):
        protocol, _, relayed = name.partition("+")
        spec: dict[str, Any] = {"protocol": protocol, **({"relay": {"delay_s": 0.0}} if relayed else {})}
        given = System(f"machine-{name}", "fast", 60, spec).document() | {"machine": True}
        made = in_world(given, 300)
        if "machine" not in made:
            raise RuntimeError(f"{name}: {made['answer']['error']}")
        found[name] = made["machine"]
        rates = ", ".join(f"{where} {each['ops_per_s']:.0f}/s" for where, each in made["machine"].items())
        told(f"this machine, {name}: {rates}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1))
    return found


def kept(system: System, seed: int, made: Mapping[str, Any], found: Mapping[Class, RealTruth]) -> Kept:
    """What is kept of a system and its answer: as `sim_kept.kept`, with spec and facts."""
    answer = made["answer"]
    whole = answer["document"]
    document = {name: whole.get(name) for name in sim_kept.PARTS} if whole else None
    if document is not None:
        document["moved_bytes"] = sum(cell.get("bytes") or 0 for cell in whole.get("cells", ()))
    return {
        "name": system.name, "group": "real", "wanted": system.kind, "seed": seed, "options": dict(system.spec),
        "what": system.what, "budget_s": system.budget_s, "facts": made.get("facts", {}),
        "truth": {" ".join(where): each.document() for where, each in found.items()},
        "document": document, "error": answer["error"], "wall_s": round(answer["wall_s"], 2),
        "cpu_s": round(answer["cpu_s"], 2),
    }  # fmt: skip


# Judging.


def statements(found: Kept) -> list[Statement]:
    """One for each class that counts, of what is kept."""
    limits = ((found["document"] or {}).get("verdict") or {}).get("limits") or []
    said = []
    for name, truth in found["truth"].items():
        if not truth["judged"] or found["document"] is None:
            continue
        op, size = name.split()
        mine = [x for x in limits if (x["applies_to"]["op"], x["applies_to"]["size"]) == (op, size)]
        first = max(mine, key=lambda limit: limit["confidence"], default=None)
        named, probability = (first["kind"], float(first["confidence"])) if first else (NOTHING, 0.0)
        value = first.get("value") if first else None
        said.append(Statement(found["name"], found["wanted"], (op, size), truth["part"], named, probability,
                              named in truth["accepted"], value, truth["value"], truth["within"]))  # fmt: skip
    return said


def line(found: Kept) -> str:
    """One system in a line."""
    said = "; ".join(
        f"{' '.join(s.where)}: {s.named} {s.probability:.2f}{'' if s.right else f' WRONG ({s.planted})'}"
        for s in statements(found)
    )
    return f"{found['name']:22} {found['options']['protocol']:6} {found['wall_s']:4.0f} s {found['what']}: " + (
        found["error"] or said or "no class is judged"
    )


def figures(
    seed: int, count: int | None = None, kinds: Sequence[str] = (), keep: Path | None = None, told: Tell = print
) -> dict[str, Any]:
    """The part of `tools/truth`. count: so many systems, of every kind in turn; keep: a folder for the answers.

    What the folder has already of this seed is not measured again.
    """
    unknown = set(kinds) - set(KINDS)
    if unknown or os.geteuid() != 0:
        raise SystemExit(f"no such kinds: {sorted(unknown)}" if unknown else "real systems need root")
    with real_parts.alone(), tempfile.TemporaryDirectory(prefix="naslab-kept-real-") as name:
        real_parts.sweep()
        folder = keep or Path(name)
        machine = machine_costs(folder, told)
        done = []
        for system in draw(seed, kinds)[:count]:
            path = folder / f"{system.name}.json"
            if path.exists():
                found = json.loads(path.read_text())
                again = truths(System.from_kept(found), machine)  # by today's arithmetic
                found["truth"] = {" ".join(where): each.document() for where, each in again.items()}
            else:
                made = in_world(system.document(), min(system.budget_s * 2 + 240, TIMEOUT_S))
                found = kept(system, seed, made, truths(system, machine))
                sim_kept.write(found, folder)
                real_parts.sweep()
            told(line(found))
            done.append(found)
    return summed(seed, done)


def summed(seed: int, done: Sequence[Kept]) -> dict[str, Any]:
    """Figures, bars and rows."""
    said = [each for found in done for each in statements(found)]
    failed = [found["name"] for found in done if found["document"] is None]
    claims = [s.claim for s in said]
    wrong, sure = certain(claims)
    right = sum(c.right for c in claims)
    undecided = sum(c.probability < DECIDED for c in claims) / max(len(claims), 1)
    error = calibration_error(claims)
    held = [s.holds for s in said if s.holds is not None]
    documents = [found["document"] for found in done if found["document"]]
    spent = [each["ladder"]["spent_ns"] / 1e9 for each in documents if each.get("ladder")]
    moved = sum(each["moved_bytes"] for each in documents)
    note = " (looked at before: it judges nothing)" if seed in LOOKED_AT else ""
    summary = [
        f"seed {seed}{note}: {len(done)} systems, {len(claims)} classes judged, {len(failed)} failed {failed or ''}",
        f"named first: {right} of {len(claims)} (at least {RIGHT:.0%}); undecided {undecided:.0%}",
        f"certain and wrong: {wrong} of {sure} (at most {WRONG})",
        f"expected calibration error {error:.3f} (at most {ERROR:.2f}), Brier score {brier(claims):.3f}",
        *text(claims),
        f"time to verdict: median {median(spent) if spent else 0:.0f} s; {moved / 1e9:.1f} GB moved",
        f"values within their bars: {sum(held)} of {len(held)}",
    ]
    enough = bool(claims) and right >= RIGHT * len(claims)
    return {"ok": enough and not failed and wrong <= WRONG and error <= ERROR, "summary": summary,
            "matrix": matrix((s.planted, s.named) for s in said), "rows": [asdict(s) for s in said],
            "reliability": [asdict(each) for each in reliability(claims)]}  # fmt: skip
