"""Does a server do what `naslab whatif` said it would? Simulated servers are measured, a part of each is
changed, and they are measured again.

The predictions are made from the first run alone; of the second one only the loads are taken (how many requests in
flight, how large a set), because the ladder chooses them by what it meets. A prediction is definite where it gives a
number; `at least` is none, and its share is told.
"""

from __future__ import annotations

import dataclasses
import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from naslab.explain.evidence import Evidence
from naslab.explain.fitted import fit
from naslab.explain.loads import Load, load_of, measured_loads
from naslab.explain.points import Figure
from naslab.explain.predict import Change, Prediction, Scale, predict
from naslab.explain.steps import LARGE_RECORD, SMALL_BYTES
from truth import planted_systems as planted
from truth.asking import BUDGET, TOGETHER, run_command, toml_of

COUNT = 36
WITHIN, RIGHT, KNOWN, SEEN = 0.10, 0.90, 0.5, 0.75
"""A prediction may be off by this; so many of them, and of the systems in all of theirs, have to hold; at least this
share of loads, and of systems, has to be told definitely: a faster link where only the link was ever seen is not."""
MAKERS = (
    planted.link, planted.disk, planted.disk_iops, planted.server_cpu, planted.latency, planted.server_cache,
    planted.protocol, planted.client_cpu, planted.disk,
)  # fmt: skip
Options = dict[str, Any]
Altered = tuple[Options, dict[str, Scale], str]
"""Changed fields of the server, the same as a change, and in words."""
Alter = Callable[[random.Random, Options], Altered | None]


@dataclass(frozen=True)
class Replanted:
    """A server, and the same with a changed part."""

    name: str
    kind: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    change: Change
    what: str


@dataclass(frozen=True)
class Held:
    """One class of load of one system: what was said, and what was."""

    system: Replanted
    said: Prediction
    was: Figure

    @property
    def off(self) -> float:
        """How far the prediction lies from what was, as a share."""
        return self.said.then.value / self.was.value - 1

    @property
    def moved(self) -> bool:
        """Whether the change made a difference: of what was measured before, too much for a guess of none."""
        before = self.said.measured
        return before is not None and abs(self.was.value / before.value - 1) > WITHIN

    @property
    def right(self) -> bool:
        """Whether a definite prediction held, or a lower bound is one."""
        if self.said.known:
            return abs(self.off) <= WITHIN
        return self.said.then.low <= self.was.value * (1 + WITHIN)

    def row(self) -> dict[str, Any]:
        """For the JSON document."""
        return {
            "system": self.system.name, "planted": self.system.kind, "change": self.system.what,
            **self.said.document(), "was": self.was.document(), "off": round(self.off, 4), "right": self.right,
            "in_interval": self.said.then.low <= self.was.value <= self.said.then.high,
        }  # fmt: skip


# Changes.


def _factor(rng: random.Random, low: float, high: float) -> float:
    """A factor that changes something."""
    while True:
        found = float(round(low * (high / low) ** rng.random(), 2))
        if not 0.8 < found < 1.25:
            return found


def _link(rng: random.Random, options: Options) -> Altered | None:
    if not options.get("link_bytes_per_s") or options.get("client_nic_bytes_per_s"):
        return None
    k = _factor(rng, 0.25, 4)
    return {"link_bytes_per_s": round(options["link_bytes_per_s"] * k)}, {"link": Scale(k)}, f"link {k}x"


def _disk(rng: random.Random, options: Options) -> Altered | None:
    k = _factor(rng, 0.3, 4)
    more: Options = {
        n: round(options[n] * k)
        for n in ("disk_read_bytes_per_s", "disk_write_bytes_per_s", "disk_iops")
        if n in options
    }
    if options.get("disk_seek_ns"):
        more["disk_seek_ns"] = round(options["disk_seek_ns"] / k)
    return more, {"disk": Scale(k)}, f"disk {k}x"


def _ram(rng: random.Random, options: Options) -> Altered | None:
    if not 0 < options.get("server_cache_bytes", 0) < 8 << 30:
        return None
    k = _factor(rng, 0.25, 4)
    size = round(options["server_cache_bytes"] * k) // 65536 * 65536
    return {"server_cache_bytes": size}, {"ram": Scale(k)}, f"memory {k}x"


def _latency(rng: random.Random, options: Options) -> Altered | None:
    value = round(100_000 * 200 ** rng.random())
    return {"latency_ns": value}, {"latency": Scale(value=float(value))}, f"round trip {value / 1e6:.2f} ms"


def _cpu(rng: random.Random, options: Options) -> Altered | None:
    k = _factor(rng, 0.25, 4)
    return {"server_op_ns": round(options["server_op_ns"] / k)}, {"cpu": Scale(k)}, f"server's processor {k}x"


ALTERS: Sequence[Alter] = (_link, _disk, _ram, _latency, _cpu)
OF_KIND: Mapping[str, Sequence[Alter]] = {
    "link": (_link,), "disk": (_disk, _ram), "disk_iops": (_disk, _ram), "server_cpu": (_cpu,), "latency": (_latency,),
    "protocol": (_latency,), "server_cache": (_link, _cpu),
}  # fmt: skip
"""Changes that touch what was planted."""


def draw(seed: int, count: int = COUNT) -> list[Replanted]:
    """Servers with one or two changed parts each; the same for the same seed."""
    found: list[Replanted] = []
    for at in range(count):
        rng = random.Random(f"{seed} whatif {at}")
        maker = MAKERS[at % len(MAKERS)]
        system = planted._drawn(maker, rng, at, f"whatif-{at:02d}")
        found.append(_altered(system, rng, at))
    return found


def _altered(system: planted.System, rng: random.Random, at: int) -> Replanted:
    """The server with one changed part, or with two; in two of three the part that was planted as its limit is one."""
    before: Options = dict(system.options)
    order = rng.sample(ALTERS, len(ALTERS))
    if at % 3:
        order.sort(key=lambda alter: alter not in OF_KIND.get(system.kinds[0], ()))
    after, change, words = dict(before), Change(), list[str]()
    for alter in order:
        altered = alter(rng, before)
        if altered and len(words) < (2 if at % 4 == 3 else 1):
            after.update(altered[0])
            change = dataclasses.replace(change, **altered[1])
            words.append(altered[2])
    return Replanted(system.name, system.kinds[0], before, after, change, ", ".join(words))


# Measuring.


def measure(options: Mapping[str, Any], name: str, folder: Path) -> Evidence | None:
    """The ladder of one server; None where it failed."""
    path = folder / f"{name}.toml"
    path.write_text(toml_of(options))
    document = run_command(f"sim:{path}", BUDGET, folder / f"{name}.sqlite").document
    return Evidence.from_document(document["ladder"]) if document and document.get("ladder") else None


def hold(system: Replanted, before: Evidence, after: Evidence) -> list[Held]:
    """Every class that both runs measured: what the first says of the second, and what the second measured."""
    fitted = fit(before)
    if fitted is None:
        return []
    old = {_class(load): (load, figure) for load, figure in measured_loads(before)}
    found = []
    for load, was in measured_loads(after):
        if _class(load) in old and was.value > 0:
            now, measured = old[_class(load)]
            found.append(Held(system, predict(fitted, system.change, now, load, measured), was))
    return found


def other_loads(evidence: Evidence) -> list[tuple[Prediction, Figure]]:
    """The same server at every depth, connections and record size of its ladder: what the model says, and what was.

    The model is fitted to all of them; what it says here is how well one server explains them together.
    """
    fitted, small, large = fit(evidence), evidence.small, evidence.large
    found: list[tuple[Prediction, Figure]] = []
    if fitted is None:
        return found
    for point in evidence.step("depth", "small_depth", "connections", "record"):
        base = large if point.record_bytes == LARGE_RECORD else small
        if base is not None:
            load = load_of(point)
            figure = base.rate if base is large else base.iops
            was = point.rate if load.size == "large" else point.iops
            found.append((predict(fitted, Change(), load_of(base), load, figure), was))
    return found


def _class(load: Load) -> tuple[str, str, bool]:
    return load.op, load.size, load.op == "read" and load.set_bytes > SMALL_BYTES


def figures(seed: int, count: int = COUNT) -> dict[str, Any]:
    """All systems of a seed; ok: enough predictions are definite, and enough of them hold."""
    systems = draw(seed, count)
    with tempfile.TemporaryDirectory(prefix="naslab-truth-") as name, ThreadPoolExecutor(TOGETHER) as pool:

        def one(system: Replanted) -> tuple[list[Held], list[tuple[Prediction, Figure]]]:
            before = measure(system.before, f"{system.name}-before", Path(name))
            after = measure(system.after, f"{system.name}-after", Path(name))
            return (hold(system, before, after), other_loads(before)) if before and after else ([], [])

        found = list(pool.map(one, systems))
    held = [each for changed, _ in found for each in changed]
    return with_loads(outcome(held, len(systems)), [each for _, loads in found for each in loads])


def with_loads(told: dict[str, Any], loads: Sequence[tuple[Prediction, Figure]]) -> dict[str, Any]:
    """The same, with what was said of other loads on the servers as they were."""
    definite = [(said, was) for said, was in loads if said.known]
    right = sum(abs(said.then.value / was.value - 1) <= WITHIN for said, was in definite)
    ok = right >= RIGHT * len(definite)
    line = f"{'ok  ' if ok else 'MISS'} other depths, connections, records within 10 %: {right} of {len(definite)}"
    return {**told, "ok": told["ok"] and ok, "summary": [*told["summary"], f"{line} (of {len(loads)}; at least 90 %)"]}


def outcome(held: Sequence[Held], systems: int) -> dict[str, Any]:
    """Rows and demands of what was predicted."""
    definite = [each for each in held if each.said.known]
    right = sum(each.right for each in definite)
    bounds = [each for each in held if not each.said.known]
    moved = [each for each in definite if each.moved]
    inside = sum(each.said.then.low <= each.was.value <= each.said.then.high for each in definite)
    whole = {each.system.name for each in definite} - {each.system.name for each in definite if not each.right}
    seen = {each.system.name for each in definite}
    ok = (
        bool(definite)
        and right >= RIGHT * len(definite)
        and sum(each.right for each in moved) >= RIGHT * len(moved)
        and len(whole) >= RIGHT * len(seen)
        and len(definite) >= KNOWN * len(held)
        and len(seen) >= SEEN * systems
    )
    return {
        "rows": [each.row() for each in held], "ok": ok,
        "summary": [
            f"{'ok  ' if ok else 'MISS'} predictions within 10 %: {right} of {len(definite)} (at least 90 %)",
            f"     {len(held)} loads of {systems} systems: {len(definite)} predicted, {len(bounds)} not known",
            f"     where the rate did change: {sum(each.right for each in moved)} of {len(moved)} (at least 90 %)",
            f"     systems with every prediction within 10 %: {len(whole)} of {len(seen)}",
            f"     within the printed interval: {inside} of {len(definite)}",
            f"     lower bounds that held: {sum(each.right for each in bounds)} of {len(bounds)}",
        ],
    }  # fmt: skip
