"""Does `naslab sweep --adaptive` predict what a whole sweep measures? Each server is swept twice, whole and adaptively.

Errors count predicted cells only. A server of the simulator is drawn with a link, a latency, a disk with or without
seeks, caches that hold some of the files and not others, write-back of two of the longest records at least, and noise
of up to 3 %.
"""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

COUNT, TOGETHER = 20, 2
GRID = ("--file-size", "64k..256m", "--record", "4k..16m")
LARGEST = 4
"""So many of the largest file sizes are judged alone, too."""
BYTES, MEDIAN, P90, COVERED = 0.10, 0.05, 0.15, (0.85, 0.95)
MB = 1_000_000
LAB_GRID = ("--file-size", "64k..256m", "--record", "16k..1m", "--tests", "write,read,reread,random_read")
# What a whole sweep measures once must be what it measures twice. Three things do not repeat themselves: what loopback
# and memory alone serve; what a journal stops now and then; a disk that gives its bytes ten times a second.
LAB_SYSTEMS = {
    "Samba, disk of 50 MB/s": (
        '[[disks]]\nsize = "512MiB"\nrate = "50MB/s"\n[volume]\nlevel = "single"\n[filesystem]\ntype = "xfs"\n'
        '[server]\nkind = "samba"\nram = "128MiB"\nwrite_cache = "8MiB"\n[link]\nrate = "500Mbit/s"\n'
    ),
    "Ganesha, NFS 4.1 over 400 Mbit/s": (
        '[server]\nkind = "ganesha"\nversion = ["4.1"]\nram = "1GiB"\n[link]\nrate = "400Mbit/s"\n'
    ),
}
NASLAB = (sys.executable, "-m", "naslab")
Options = dict[str, Any]
Spot = tuple[str, int, int]


def draw(seed: int, at: int) -> Options:
    """One simulated server; the same for the same numbers."""
    rng = random.Random(f"{seed} adaptive {at}")

    def log(low: float, high: float) -> int:
        return int(math.exp(rng.uniform(math.log(low), math.log(high))))

    noise, read = rng.uniform(0, 0.03), log(50 * MB, 600 * MB)
    found: Options = {
        "seed": rng.randrange(1, 1 << 30), "op_overhead_ns": log(1_000, 20_000), "latency_ns": log(50_000, 2_000_000),
        "jitter": rng.choice([0.0, 0.05, 0.1]), "server_op_ns": log(2_000, 50_000), "header_bytes": 150,
        "link_bytes_per_s": log(50 * MB, 1_200 * MB), "link_noise": noise, "disk_noise": noise,
        "disk_read_bytes_per_s": read, "disk_write_bytes_per_s": int(read * rng.uniform(0.5, 1)),
        "disk_seek_ns": rng.choice([0, log(50_000, 300_000), log(3_000_000, 9_000_000)]),
        "server_cache_bytes": rng.choice([0, *(log(6 * MB, 400 * MB) for _ in range(4))]),
        "server_cache_bytes_per_s": log(1_000 * MB, 6_000 * MB),
        "write_back_bytes": rng.choice([0, *(log(35 * MB, 200 * MB) for _ in range(2))]),
    }  # fmt: skip
    if found["server_cache_bytes"]:
        found["server_read_ahead_bytes"] = rng.choice([0, 128 << 10, 512 << 10])
    if rng.random() < 0.2:  # a client that caches: twice, thrice as many regimes
        size = log(140 * MB, 200 * MB)
        found |= {"client_cache_bytes": size, "client_cache_bytes_per_s": log(2_000 * MB, 8_000 * MB)}
        found["client_write_back_bytes"] = rng.choice([0, size // 2])
    return found


@dataclass(frozen=True)
class Held:
    """A surface, predicted and measured: of each predicted cell the ratio of both, and whether its interval held."""

    name: str
    share: float
    ratios: Mapping[Spot, float]
    inside: Sequence[bool]

    def errors(self, largest: bool) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Relative errors of the predicted rates."""
        files = sorted({file for _, file, _ in self.ratios})[-LARGEST:]
        return np.array([abs(r - 1) for (_, file, _), r in self.ratios.items() if not largest or file in files])

    def ok(self) -> bool:
        """Whether the bytes and the errors keep to their bars."""
        errors = [self.errors(largest) for largest in (False, True)]
        small = all(np.median(e) <= MEDIAN and np.quantile(e, 0.9) <= P90 for e in errors)
        return self.share <= BYTES and small

    def row(self) -> dict[str, Any]:
        """For the JSON document."""
        every, largest = self.errors(False), self.errors(True)
        return {
            "system": self.name, "bytes_share": round(self.share, 4), "predicted": len(every),
            "median_error": round(float(np.median(every)), 4), "p90_error": round(float(np.quantile(every, 0.9)), 4),
            "median_error_largest": round(float(np.median(largest)), 4),
            "p90_error_largest": round(float(np.quantile(largest, 0.9)), 4),
            "covered": round(float(np.mean(self.inside)), 3), "ok": self.ok(),
        }  # fmt: skip

    def line(self) -> str:
        """For the table."""
        row = self.row()
        return (
            f"{'ok  ' if row['ok'] else 'MISS'} {self.name:34} {row['bytes_share']:6.1%} of the bytes; errors of "
            f"{row['predicted']} cells: median {row['median_error']:.1%}, p90 {row['p90_error']:.1%}; largest files "
            f"{row['median_error_largest']:.1%}, {row['p90_error_largest']:.1%}; {row['covered']:.0%} in the interval"
        )


def sweep(target: str, words: Sequence[str], store: Path) -> Any:
    """The document of the real command."""
    command = [*NASLAB, "sweep", target, *words, "--json", "--quiet", "--store", str(store)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=900)
    if done.returncode:
        raise RuntimeError(f"{target}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def hold(name: str, target: str, grid: Sequence[str], folder: Path) -> Held:
    """Both sweeps of a target."""
    store = folder / f"{abs(hash(name))}.sqlite"
    truth = {spot(cell): cell["throughput_bytes_per_s"] for cell in sweep(target, grid, store)["cells"]}
    document = sweep(target, [*grid, "--adaptive"], store)
    cells = [cell for cell in document["cells"] if cell["predicted"]]
    saved = document["adaptive"]
    assert not saved["unknown_cells"], name
    inside = [low <= truth[spot(c)] <= high for c in cells for low, high in [c["predicted_ci90_bytes_per_s"]]]
    ratios = {spot(cell): cell["throughput_bytes_per_s"] / truth[spot(cell)] for cell in cells}
    return Held(name, saved["moved_bytes"] / saved["full_grid_bytes"], ratios, inside)


def spot(cell: Mapping[str, Any]) -> Spot:
    """Where a cell lies."""
    return cell["op"], cell["file_bytes"], cell["record_bytes"]


def figures(seed: int, count: int = COUNT) -> dict[str, Any]:
    """All simulated surfaces of a seed; ok: each keeps to the bars, and the intervals hold over all."""
    with tempfile.TemporaryDirectory(prefix="naslab-truth-") as name, ThreadPoolExecutor(TOGETHER) as pool:

        def one(at: int) -> Held:
            path = Path(name) / f"surface-{at:02d}.toml"
            path.write_text("".join(f"{key} = {value}\n" for key, value in draw(seed, at).items()))
            return hold(path.stem, f"sim:{path}", GRID, Path(name))

        return outcome(list(pool.map(one, range(count))))


def lab_figures(names: Sequence[str] = ()) -> dict[str, Any]:
    """The same of systems of the lab: alone on the machine, two minutes each."""
    held = []
    with tempfile.TemporaryDirectory(prefix="naslab-truth-") as name:
        for at, (title, text) in enumerate(LAB_SYSTEMS.items()):
            if names and title not in names:
                continue
            path = Path(name) / f"adaptive-{at}.toml"
            path.write_text(f'what = "{title}"\n{text}')
            subprocess.run([*NASLAB, "lab", "up", str(path)], check=True, capture_output=True)
            try:
                held.append(hold(title, f"lab:{path.stem}", LAB_GRID, Path(name)))
            finally:
                subprocess.run([*NASLAB, "lab", "down", path.stem], check=True, capture_output=True)
    return outcome(held, most=1.0)  # two surfaces are too few to find intervals too wide


def outcome(held: Sequence[Held], most: float = COVERED[1]) -> dict[str, Any]:
    """Rows and demands. Surfaces are judged one by one, the intervals over all of them; most: that these may hold."""
    inside = [each for found in held for each in found.inside]
    covered = float(np.mean(inside))
    good = sum(found.ok() for found in held)
    ok = good == len(held) and COVERED[0] <= covered <= most
    summary = [found.line() for found in held]
    summary += [
        f"{'ok  ' if good == len(held) else 'MISS'} surfaces within the bars (10 % of the bytes; errors: median 5 %, "
        f"p90 15 %): {good} of {len(held)}",
        f"{'ok  ' if COVERED[0] <= covered <= most else 'MISS'} 90 % intervals held: {covered:.1%} of "
        f"{len(inside)} predicted cells ({COVERED[0]:.0%} to {most:.0%})",
    ]
    return {"rows": [found.row() for found in held], "ok": ok, "summary": summary}


if __name__ == "__main__":
    found = lab_figures(sys.argv[2:]) if sys.argv[1:2] == ["lab"] else figures(int((sys.argv[1:] or ["0"])[0]))
    print("\n".join(found["summary"]))
    sys.exit(0 if found["ok"] else 1)
