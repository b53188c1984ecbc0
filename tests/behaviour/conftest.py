"""Fixtures of the behaviour suite: one subject after the other, each with a session and a folder of its own."""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from subjects import SUBJECTS, Servers, Subject, subject_target

from naslab import _engine
from naslab.errors import TargetError
from naslab.targets import Target

_COUNTER = itertools.count()


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """The lab's servers of this test run."""
    found = Servers()
    yield found
    found.close()


@pytest.fixture(scope="session", params=SUBJECTS, ids=lambda subject: subject.name)
def subject(request: pytest.FixtureRequest) -> Subject:
    """Each target in each way of speaking to it."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def target(subject: Subject, servers: Servers) -> Target:
    """The subject's target."""
    return subject_target(subject, servers)


@pytest.fixture
def connect(target: Target, subject: Subject) -> Iterator[Callable[[], _engine.Session]]:
    """Makes sessions of the subject, ended after the test."""
    made: list[_engine.Session] = []

    def make() -> _engine.Session:
        made.append(_engine.Session(target.engine_json(), subject.depth))
        return made[-1]

    yield make
    for session in made:
        session.end()


@pytest.fixture(scope="session")
def shared_session(target: Target, subject: Subject) -> Iterator[_engine.Session]:
    """One session for all tests of the subject that leave it whole."""
    session = _engine.Session(target.engine_json(), subject.depth)
    yield session
    session.end()


@pytest.fixture
def caps(shared_session: _engine.Session) -> dict[str, Any]:
    """What the subject can do."""
    return dict(json.loads(shared_session.caps()))


@pytest.fixture
def files(shared_session: _engine.Session) -> Iterator[Files]:
    """A fresh folder on the subject."""
    folder = f"test{next(_COUNTER)}"
    shared_session.mkdir(folder)
    found = Files(shared_session, folder)
    yield found
    found.remove_all()


class Files:
    """A folder of a session, and shorthands for what tests do in it."""

    def __init__(self, session: _engine.Session, folder: str) -> None:
        self.session = session
        self.folder = folder

    def path(self, name: str) -> str:
        """Its path from the target's root."""
        return f"{self.folder}/{name}"

    @contextlib.contextmanager
    def open(self, name: str, session: _engine.Session | None = None, **options: Any) -> Iterator[int]:
        """An open file, for reading and writing and made if missing, unless options say otherwise."""
        session = session or self.session
        chosen = {"read": True, "write": True, "create": "if_missing", **options}
        file = session.open(self.path(name), json.dumps(chosen))
        try:
            yield file
        finally:
            with contextlib.suppress(TargetError):
                session.close(file)

    def make(self, name: str, data: bytes = b"") -> str:
        """A file with these bytes; its path."""
        with self.open(name, create="new") as file:
            if data:
                assert self.session.write(file, 0, data) == len(data)
        return self.path(name)

    def content(self, name: str) -> bytes:
        """All bytes of a file."""
        length, _ = self.session.stat(self.path(name))
        with self.open(name, write=False, create="never") as file:
            return self.session.read(file, 0, length) if length else b""

    def names(self, folder: str = "") -> dict[str, bool]:
        """Names in it and whether they are folders."""
        return dict(self.session.readdir(f"{self.folder}/{folder}" if folder else self.folder))

    def remove_all(self) -> None:
        """Takes the folder away with all that is in it."""
        self._remove(self.folder)

    def _remove(self, folder: str) -> None:
        for name, is_folder in self.session.readdir(folder):
            if is_folder:
                self._remove(f"{folder}/{name}")
            else:
                self.session.remove(f"{folder}/{name}")
        self.session.rmdir(folder)
