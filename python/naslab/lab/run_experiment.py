"""Carries an experiment out: blocks in which every condition is measured once, in random order, each on a new system
or on one that stays up.

What builds a system is given as `bring_up`; the rest knows only a Bench. So simulated servers, servers that are there
already and the lab's own go the same way.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from naslab.analysis.claims import MOST_REPEATS, Looks, judge
from naslab.analysis.quantities import ELSEWHERE, Sample
from naslab.analysis.sequential import LOOKS
from naslab.errors import NaslabError, UsageError
from naslab.lab.bench import BringUp, Document
from naslab.lab.experiment import Condition, Experiment, System, without_stand_ins
from naslab.lab.experiment_pool import Pool
from naslab.lab.experiment_result import Measurements, result_of
from naslab.lab.experiment_tune import Tune, rate_of, search
from naslab.results.foreign import is_foreign
from naslab.units import percent_text

Say = Callable[[str], None]
FUTILE_FROM = 8
"""Repeats from which on a claim at the edge of its region is given up; earlier it may lie there by chance."""


def run_experiment(
    experiment: Experiment,
    bring_up: BringUp,
    *,
    repeats: int | None = None,
    keep: bool = False,
    until: bool = False,
    seed: int = 0,
    enough: Callable[[], bool] = lambda: False,
    given: Mapping[str, Sequence[Document]] | None = None,
    before: Measurements | None = None,
    kept: Callable[[Document], None] = lambda _: None,
    say: Say = lambda _: None,
) -> Document:
    """The result of an experiment, as `result_of` has it.

    repeats: blocks, for all conditions; the experiment's own numbers if left out. keep: systems of guests
    stay up for all blocks. until: blocks go on until every claim is decided, with the conditions that open claims
    need, up to `repeats` or the last of `LOOKS`. enough: asked before each block; True ends the run after
    those done. given: documents of conditions measured elsewhere, by id, one for each repeat. before: what an ended
    run of the same experiment measured; its last repeat is finished first. kept: gets the result of each block. A
    condition that cannot
    be built or fails is missing with its reason; the others go on. Raises UsageError for unknown ids of `given`.
    """
    pool = Pool(bring_up, keep)
    run = _Run(experiment, pool, seed, say)
    run.take(given or {})
    if until:
        run.looks = Looks(_planned(repeats))
    first = run.resume(before) if before else 0
    started = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        run.prepare()
        for block in range(first, run.last or (experiment.repeats if repeats is None else repeats)):
            if run.all_decided:
                break
            if block and enough():
                run.notes.append(f"ended after {block} {'repeat' if block == 1 else 'repeats'}: the time was used up")
                break
            run.block(block, all_of_them=until or repeats is not None)
            run.look(block + 1)
            kept(run.result(started))
    except KeyboardInterrupt:
        run.interrupted = True
        run.notes.append("interrupted: the results so far are judged")
    finally:
        pool.close()
    found = run.result(started)
    kept(found)
    return found


def _planned(repeats: int | None) -> tuple[int, ...]:
    """After which numbers of repeats claims are judged. repeats: the last of them."""
    if repeats is None or repeats in LOOKS:
        return LOOKS if repeats is None else LOOKS[: LOOKS.index(repeats) + 1]
    return (*(each for each in LOOKS if each < repeats), repeats)


class _Run:
    """Samples as they come in."""

    def __init__(self, experiment: Experiment, pool: Pool, seed: int, say: Say) -> None:
        self.experiment, self.pool, self.seed, self.say = experiment, pool, seed, say
        self.samples: list[Sample] = []
        self.limits: dict[str, float] = {}
        self.missing = {one.id: one.missing for one in experiment.conditions if one.missing}
        self.notes: list[str] = []
        self.interrupted = False
        self.looks: Looks | None = None
        self.needed: set[str] | None = None
        """Conditions of open claims; None while all are measured."""

    @property
    def last(self) -> int:
        """The most blocks of a run that ends when its claims are decided; 0 for others."""
        return self.looks.planned[-1] if self.looks else 0

    def measurements(self) -> Measurements:
        """What there is so far."""
        return Measurements(
            self.samples, self.limits, self.missing, self.notes, interrupted=self.interrupted, looks=self.looks
        )

    def result(self, started: str) -> Document:
        """The document of what there is so far."""
        finished = datetime.now(UTC).isoformat(timespec="seconds")
        found = self.measurements()
        return result_of(
            self.experiment, dataclasses.replace(found, seed=self.seed, started_at=started, finished_at=finished)
        )

    def resume(self, before: Measurements) -> int:
        """Takes what an ended run measured, and looks as it did; the block to go on with."""
        self.samples += before.samples
        self.limits |= before.limits
        self.missing |= before.missing
        self.notes += before.notes
        last = max((sample.block for sample in before.samples), default=0)
        for look in self.looks.planned if self.looks else ():
            if look <= last:
                self.look(look)
        return last

    @property
    def all_decided(self) -> bool:
        """Whether no claim is open that more repeats could decide."""
        return self.needed is not None and not self.needed

    def look(self, repeats: int) -> None:
        """Judges the claims where a look is planned, and says what each open one still needs."""
        if self.looks is None or repeats not in self.looks.planned:
            return
        samples = [sample for sample in self.samples if sample.block < repeats]
        measured = dataclasses.replace(self.measurements(), samples=samples).of(self.experiment)
        found = judge(self.experiment.claims, measured, self.looks, look=True)
        open_ = [one for one in found if one.verdict in ("undecided", "too few repeats")]
        there = {one.id for one in self._wanted()}
        sides = [
            {side.condition for side in one.claim.sides} for one in open_
            if one.repeats_needed is None or one.repeats_needed <= MOST_REPEATS
            or (repeats < FUTILE_FROM and not one.bound)
        ]  # fmt: skip
        self.needed = {name for of_claim in sides if of_claim <= there for name in of_claim}
        self.say(f"{repeats} repeats: {len(found) - len(open_)} of {len(found)} claims decided")
        for one in open_:
            self.say(f"open: {one.claim.words}{one.outlook}")

    def take(self, given: Mapping[str, Sequence[Document]]) -> None:
        """Documents of conditions measured elsewhere; claims are tested on these, not on what stands for them.

        A result of another tool belongs to all tests of its condition: the cells that each wants are chosen by size.
        """
        for name, documents in given.items():
            if name not in [one.id for one in self.experiment.conditions]:
                raise UsageError(f"{self.experiment.name} has no condition {name!r}")
            condition = self.experiment.condition(name)
            self.missing.pop(name, None)
            for block, document in enumerate(documents):
                of_it = [t for t in condition.tests if self.experiment.tests[t].command == document["command"]]
                tests = condition.tests if is_foreign(document) else of_it[:1] or condition.tests[:1]
                self.samples += [Sample(name, test, block, ELSEWHERE, document) for test in tests]
        self.experiment = without_stand_ins(self.experiment, set(given))

    def _wanted(self) -> list[Condition]:
        """Conditions that are to be measured here."""
        there = {sample.condition for sample in self.samples if sample.place == ELSEWHERE}
        return [one for one in self.experiment.conditions if one.id not in self.missing and one.id not in there]

    def prepare(self) -> None:
        """Builds the systems that stay up."""
        names = dict.fromkeys(one.system for one in self._wanted())
        why = self.pool.prepare([self.experiment.systems[name] for name in names], self.seed, self.say)
        self.notes += [why] if why else []
        if self.experiment.tune and self.experiment.tune.system in names:
            self._tune(self.experiment.tune, [self.experiment.systems[name] for name in names])

    def _tune(self, tune: Tune, systems: Sequence[System]) -> None:
        """Finds the share of a processor that gives the wanted rate here, and plants it."""
        system, test = self.experiment.systems[tune.system], self.experiment.tests[tune.of.test]
        assert system.checked is not None and system.checked.server.cpu is not None
        try:
            with self.pool.bench(system, self.seed) as bench:

                def measure(share: float) -> float:
                    bench.set_cpu(share)
                    rate = rate_of(tune.of, bench.measure([test.command, *test.words]))
                    self.say(
                        f"{percent_text(share, 1)} of a processor: {rate / 1e6:.1f} of {tune.wanted / 1e6:.1f} MB/s"
                    )
                    return rate

                found = search(system.checked.server.cpu, tune.wanted, measure)
        except NaslabError as error:
            self.notes.append(f"the share of a processor was not calibrated: {error}")
            return
        self.pool.plant(found.share, systems)
        self.notes.append(found.words())

    def block(self, block: int, all_of_them: bool = False) -> None:
        """Every condition once, in an order drawn for this block. all_of_them: those with fewer repeats, too."""
        order = [
            one for one in self._wanted()
            if (all_of_them or one.repeats is None or block < one.repeats)
            and (self.needed is None or one.id in self.needed) and not self._has(one, block)
        ]  # fmt: skip
        random.Random(f"{self.seed} {block}").shuffle(order)
        for condition in order:
            self.say(f"repeat {block + 1}: {condition.id}")
            try:
                self._condition(condition, block)
            except NaslabError as error:
                self._failed(condition, block, error)

    def _has(self, condition: Condition, block: int) -> bool:
        """Whether this repeat of a condition was measured, as before the run was ended; drops a part of one."""
        tests = {name for name in condition.tests if self.experiment.tests[name].measures}
        mine = [sample for sample in self.samples if (sample.condition, sample.block) == (condition.id, block)]
        if tests <= {sample.test for sample in mine}:
            return True
        self.samples = [sample for sample in self.samples if sample not in mine]
        return False

    def _condition(self, condition: Condition, block: int) -> None:
        with self.pool.bench(self.experiment.systems[condition.system], self.seed + block) as bench:
            for name, value in bench.limits.items():
                self.limits.setdefault(f"{condition.id}/{name}", value)
            tests = [self.experiment.tests[name] for name in condition.tests]
            for test in tests:
                if not test.measures:
                    bench.prepare([test.command, *test.words, *condition.words])
            with bench.beside(condition.beside, condition.beside_client):
                for test in tests:
                    if test.cold:
                        bench.empty()
                    if test.measures:
                        document = bench.measure([test.command, *test.words, *condition.words], condition.client)
                        self.samples.append(Sample(condition.id, test.name, block, bench.place, document))

    def _failed(self, condition: Condition, block: int, error: NaslabError) -> None:
        """One that was never measured is missing, and not tried again; else this repeat of it is lost."""
        if any(sample.condition == condition.id for sample in self.samples):
            self.notes.append(f"{condition.id}, repeat {block + 1}, failed: {error}")
        else:
            self.missing[condition.id] = str(error)
            self.notes.append(f"{condition.id} was not measured: {error}")
