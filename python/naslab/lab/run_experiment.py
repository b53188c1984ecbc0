"""Carries an experiment out: blocks in which every condition is measured once, in random order, each on a new system.

What builds a system is given as `bring_up`; the rest knows only a Bench. So simulated servers, servers that are there
already and the lab's own go the same way.
"""

from __future__ import annotations

import contextlib
import json
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from naslab.analysis.quantities import Sample
from naslab.errors import NaslabError, TargetError, UsageError
from naslab.lab.experiment import Condition, Experiment, System
from naslab.lab.experiment_result import Measurements, result_of

Document = dict[str, Any]
ELSEWHERE = "elsewhere"
"""The place of results that were given: nothing is known of what they share with ours."""
_STOP_S = 30


class Bench(Protocol):
    """A system that stands, and how naslab reaches it.

    place: on which side of a guest's boundary server and client are, in words; places that differ are not compared.
    limits: what independent tools measured of its planted limits, by the experiment's names.
    """

    place: str
    limits: Mapping[str, float]

    def measure(self, words: Sequence[str]) -> Document:
        """The document of one command: its name, then its options. Raises NaslabError."""

    def beside(self, words: Sequence[str]) -> contextlib.AbstractContextManager[None]:
        """The same command at work while the context lasts. Raises NaslabError."""

    def close(self) -> None:
        """Takes the system down."""


BringUp = Callable[[System, int], Bench]
"""A Bench of a system; the number is a seed. Raises NaslabError when it cannot be built here."""
Say = Callable[[str], None]


class AddressBench:
    """A server with an address, measured by a `naslab` of its own for each command.

    store: where runs are kept. prefix: words before the command, as to enter a namespace. credentials: the file with
    the server's password.
    """

    limits: Mapping[str, float] = {}

    def __init__(
        self,
        target: str,
        seed: int = 0,
        store: Path | None = None,
        place: str = "host",
        prefix: Sequence[str] = (),
        credentials: Path | None = None,
    ) -> None:
        self.target, self.seed, self.store, self.place = target, seed, store, place
        self.prefix, self.credentials = tuple(prefix), credentials

    def command(self, words: Sequence[str]) -> list[str]:
        """The whole command line. words: the command, then its options."""
        more = ["--json", "--quiet", "--seed", str(self.seed)]
        for option, path in (("--store", self.store), ("--credentials", self.credentials)):
            more += [] if path is None else [option, str(path)]
        return [*self.prefix, sys.executable, "-m", "naslab", words[0], self.target, *words[1:], *more]

    def measure(self, words: Sequence[str]) -> Document:
        """The document that a child of this process prints. Raises TargetError with what it says."""
        child = subprocess.Popen(
            self.command(words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            out, err = child.communicate()
        except BaseException:
            _end(child)  # in order, so that it removes what it wrote
            raise
        return document_of(words, child.returncode, out, err)

    @contextlib.contextmanager
    def beside(self, words: Sequence[str]) -> Iterator[None]:
        """A child that works until the end of the context. Raises TargetError when it ended by itself before."""
        if self.target.startswith("sim:"):
            raise UsageError("beside: a simulated server is one command's own; nothing can work on it meanwhile")
        child = subprocess.Popen(
            self.command(words), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        try:
            yield
            if child.poll() is not None:
                said = (child.stderr.read() if child.stderr else "").strip().splitlines()
                raise TargetError(f"naslab {' '.join(words)}: ended before the test did: {said[-1] if said else ''}")
        finally:
            _end(child)

    def close(self) -> None:
        """Nothing was started for it."""


def _end(child: subprocess.Popen[str]) -> None:
    """Ends a child as an interruption does, which cleans up; kills it when it does not end."""
    with contextlib.suppress(ProcessLookupError):
        child.send_signal(signal.SIGTERM)
    try:
        child.communicate(timeout=_STOP_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()


def document_of(words: Sequence[str], code: int, out: str, err: str) -> Document:
    """The document that a command printed, as one that failed does, too. Raises TargetError with what it said."""
    try:
        found: Document = json.loads(out)
    except json.JSONDecodeError:
        said = err.strip().splitlines() or [f"it ended with {code} and no result"]
        raise TargetError(f"naslab {words[0]}: {said[-1].removeprefix('naslab: ')}") from None
    return found


def bring_up_addresses(store: Path | None = None) -> BringUp:
    """Takes systems that are addresses, and none other."""

    def bring_up(system: System, seed: int) -> Bench:
        if not system.target:
            raise UsageError(f"{system.name}: only systems with a target can be measured in this way")
        return AddressBench(system.target, seed, store)

    return bring_up


def run_experiment(
    experiment: Experiment,
    bring_up: BringUp,
    *,
    repeats: int | None = None,
    seed: int = 0,
    enough: Callable[[], bool] = lambda: False,
    given: Mapping[str, Sequence[Document]] | None = None,
    say: Say = lambda _: None,
) -> Document:
    """The result of an experiment, as `result_of` has it.

    repeats: blocks; the experiment's own number if left out. enough: asked before each block; True ends the run after
    those done. given: documents of conditions measured elsewhere, by id, one for each repeat. A condition that cannot
    be built or fails is missing with its reason; the others go on. Raises UsageError for unknown ids of `given`.
    """
    run = _Run(experiment, bring_up, seed, say)
    run.take(given or {})
    started = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        for block in range(experiment.repeats if repeats is None else repeats):
            if block and enough():
                run.notes.append(f"ended after {block} repeats: the time was spent")
                break
            run.block(block)
    except KeyboardInterrupt:
        run.interrupted = True
        run.notes.append("interrupted: what was measured until then is judged")
    finished = datetime.now(UTC).isoformat(timespec="seconds")
    found = Measurements(
        run.samples, run.limits, run.missing, run.notes, seed, started, finished, run.interrupted
    )  # fmt: skip
    return result_of(experiment, found)


class _Run:
    """Samples as they come in."""

    def __init__(self, experiment: Experiment, bring_up: BringUp, seed: int, say: Say) -> None:
        self.experiment, self.bring_up, self.seed, self.say = experiment, bring_up, seed, say
        self.samples: list[Sample] = []
        self.limits: dict[str, float] = {}
        self.missing = {one.id: one.missing for one in experiment.conditions if one.missing}
        self.notes: list[str] = []
        self.interrupted = False

    def take(self, given: Mapping[str, Sequence[Document]]) -> None:
        """Documents of conditions measured elsewhere."""
        for name, documents in given.items():
            if name not in [one.id for one in self.experiment.conditions]:
                raise UsageError(f"{self.experiment.name} has no condition {name!r}")
            condition = self.experiment.condition(name)
            self.missing.pop(name, None)
            for block, document in enumerate(documents):
                test = next((t for t in condition.tests if self.experiment.tests[t].command == document["command"]), "")
                self.samples.append(Sample(name, test or condition.tests[0], block, ELSEWHERE, document))

    def block(self, block: int) -> None:
        """Every condition once, in an order drawn for this block."""
        there = {sample.condition for sample in self.samples if sample.place == ELSEWHERE}
        order = [one for one in self.experiment.conditions if one.id not in self.missing and one.id not in there]
        random.Random(f"{self.seed} {block}").shuffle(order)
        for condition in order:
            self.say(f"repeat {block + 1}: {condition.id}")
            try:
                self._condition(condition, block)
            except NaslabError as error:
                self._failed(condition, block, error)

    def _condition(self, condition: Condition, block: int) -> None:
        bench = self.bring_up(self.experiment.systems[condition.system], self.seed + block)
        try:
            for name, value in bench.limits.items():
                self.limits.setdefault(f"{condition.id}/{name}", value)
            with contextlib.ExitStack() as meanwhile:
                for words in condition.beside:
                    meanwhile.enter_context(bench.beside(words))
                for name in condition.tests:
                    test = self.experiment.tests[name]
                    document = bench.measure([test.command, *test.words, *condition.words])
                    self.samples.append(Sample(condition.id, name, block, bench.place, document))
        finally:
            bench.close()

    def _failed(self, condition: Condition, block: int, error: NaslabError) -> None:
        """One that was never measured is missing, and not tried again; else this repeat of it is lost."""
        if any(sample.condition == condition.id for sample in self.samples):
            self.notes.append(f"{condition.id}, repeat {block + 1}, failed: {error}")
        else:
            self.missing[condition.id] = str(error)
            self.notes.append(f"{condition.id} was not measured: {error}")
