"""Fixtures of the behaviour suite: one subject after the other, each with a session and a folder of its own."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from files import Files
from subjects import SUBJECTS, Servers, Subject, subject_target

from naslab import _engine
from naslab.targets import Target

_COUNTER = itertools.count()


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """The lab's servers of this test run."""
    found = Servers()
    yield found
    found.close()


@pytest.fixture(
    scope="session",
    params=[pytest.param(each, id=each.name, marks=pytest.mark.lab if each.is_server else ()) for each in SUBJECTS],
)
def subject(request: pytest.FixtureRequest) -> Subject:
    """Each target in each way of speaking to it."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def target(subject: Subject, servers: Servers) -> Target:
    """The subject's target."""
    return subject_target(subject, servers)


@pytest.fixture
def connect(shared_session: _engine.Session) -> Iterator[Callable[[], _engine.Session]]:
    """Makes more sessions of the subject, ended after the test."""
    made: list[_engine.Session] = []

    def make() -> _engine.Session:
        made.append(shared_session.another())
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
