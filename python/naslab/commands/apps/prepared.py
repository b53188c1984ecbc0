"""Applications that stay prepared on a target from one command to the next: `naslab apps --step`.

They lie in the folder `naslab-apps` under the target, which has an owner mark as a run's folder has, and a file that
says what was prepared how. That file has a fixed length and is written in one request, so that a killed command leaves
the old or the new state. An application is `begun` while it is prepared, `ready`, or `used` while it runs; one found
begun or used was cut short and has to be prepared again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

from naslab import _engine
from naslab.commands.apps.generate import Plan
from naslab.errors import TargetError, UsageError
from naslab.execution.execute import engine_errors
from naslab.execution.workspace import FILES, MARK
from naslab.targets import Target

FOLDER = "naslab-apps"
STATE = "naslab.prepared"
BEGUN, READY, USED = "begun", "ready", "used"
STATE_BYTES = 16384
_NEXT = "naslab apps TARGET --step"


@dataclass(frozen=True)
class How:
    """What decides the files: another scale, seed or kind of data gives others."""

    scale: float
    seed: int
    compress: float
    dedupe: float

    def words(self) -> str:
        """As options."""
        return f"--scale {self.scale:g} --seed {self.seed} --compress {self.compress:g} --dedupe {self.dedupe:g}"


@dataclass
class State:
    """What lies there. apps: name to (begun, ready or used; digest of the files)."""

    how: How
    apps: dict[str, tuple[str, str]] = field(default_factory=dict)


def digest(made: Plan) -> str:
    """Of the files and folders that a plan prepares: a definition that was changed since gives another."""
    told = json.dumps([made.folders, sorted(made.files.items())])
    return hashlib.sha256(told.encode()).hexdigest()[:12]


def inner_target(target: Target) -> Target:
    """The folder of the applications as a target of its own. Raises UsageError where nothing stays between commands."""
    if target.protocol in ("sim", "null") or target.lab:
        raise UsageError(f"--step: {target.url} keeps nothing from one command to the next; leave out --step")
    key = "path" if target.protocol == "nfs" else "root"
    above = str(target.options.get(key) or "")
    return target.with_options(**{key: f"{above.rstrip('/')}/{FOLDER}" if above else FOLDER})


class Place:
    """The folder on a target. A context manager: its session ends with it. Raises TargetError, UsageError."""

    def __init__(self, target: Target) -> None:
        self.target = target
        with engine_errors(target.url, before_run=True):
            self._session = _engine.Session(target.engine_json())

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.end()

    def exists(self) -> bool:
        """Whether the folder is there. Raises UsageError when it is someone else's."""
        if self._stat(FOLDER) is None:
            return False
        if self._stat(f"{FOLDER}/{MARK}") is None:
            raise UsageError(
                f"{FOLDER} on {self.target.url} has no mark of naslab, so it belongs to somebody else: move it away"
            )
        return True

    def make(self) -> None:
        """Makes the folder with its mark, which no process owns: `naslab clean` leaves it unless forced."""
        what = f"applications prepared by naslab; `{_NEXT} clean` removes them"
        self._session.mkdir(FOLDER)
        self._write(f"{FOLDER}/{MARK}", json.dumps({"naslab_run": "apps", "host": None, "what": what}).encode())

    def state(self) -> State | None:
        """What was prepared; None where nothing was. Raises UsageError where that cannot be read."""
        if self._stat(f"{FOLDER}/{STATE}") is None:
            return None
        file = self._session.open(f"{FOLDER}/{STATE}", json.dumps({"read": True}))
        try:
            found = json.loads(self._session.read(file, 0, STATE_BYTES))
            apps = {str(name): (str(one[0]), str(one[1])) for name, one in found["apps"].items()}
            return State(How(**found["how"]), apps)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            raise UsageError(
                f"{FOLDER}/{STATE} on {self.target.url} is damaged, so the prepared applications are unknown: remove "
                "the folder with: naslab clean TARGET --force"
            ) from error
        finally:
            self._session.close(file)

    def save(self, state: State) -> None:
        """Keeps what is prepared now, durably."""
        text = json.dumps({"how": asdict(state.how), "apps": state.apps}).encode()
        self._write(f"{FOLDER}/{STATE}", text.ljust(STATE_BYTES))

    def check_files(self, made: Plan) -> None:
        """Raises UsageError for a prepared file that is gone or has another size."""
        for name, size in made.files.items():
            found = self._stat(f"{FOLDER}/{FILES}/{name}")
            if found != (size, False):
                told = "gone" if found is None else "a folder" if found[1] else f"{found[0]} bytes instead of {size}"
                raise UsageError(
                    f"{FOLDER}/{FILES}/{name} on {self.target.url} is {told}: {_NEXT} clean, then {_NEXT} prepare"
                )

    def remove(self) -> list[str]:
        """Removes the folder; paths in it that naslab did not make, which then stay with it."""
        files = f"{FOLDER}/{FILES}"
        if self._stat(files) is not None:
            left = [f"{files}/{name}" for name, _ in self._session.readdir(files)]
            if left:
                return left
        with engine_errors(self.target.url):
            return list(_engine.clean(self.target.engine_json(), FOLDER))

    def _stat(self, path: str) -> tuple[int, bool] | None:
        try:
            size, is_folder = self._session.stat(path)
        except TargetError as error:
            if error.kind == "not_found":
                return None
            raise
        return (0 if is_folder else size), is_folder

    def _write(self, path: str, data: bytes) -> None:
        file = self._session.open(path, json.dumps({"write": True, "create": "if_missing"}))
        try:
            self._session.write(file, 0, data)
            self._session.flush(file)
        finally:
            self._session.close(file)


def check_same(state: State, how: How) -> None:
    """Raises UsageError where files were prepared in another way."""
    if state.how != how:
        raise UsageError(
            f"the prepared files have {state.how.words()}, but this command has {how.words()}: give the same options, "
            f"or {_NEXT} clean first"
        )


def check_ready(state: State, plans: Iterable[Plan]) -> None:
    """Raises UsageError for an application that is not prepared as it has to be."""
    for made in plans:
        name = made.definition.name
        status, known = state.apps.get(name, ("", ""))
        if status != READY or known != digest(made):
            told = {
                "": "is not prepared", BEGUN: "was not prepared completely",
                USED: "has run and may have changed its files", READY: "was prepared from another definition",
            }[status]  # fmt: skip
            raise UsageError(f"{name} {told}: {_NEXT} prepare --only {name}, with the same options")


def restores_files(made: Plan) -> bool:
    """Whether its prepared files have the sizes after a run that they had before."""
    return all(part.does != "mix" for part in made.definition.parts)
