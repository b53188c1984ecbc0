"""The engine's model against its readable definition in `forward.py`, on rows with every feature."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from naslab import _engine
from naslab.explain import compiled
from naslab.explain.ceilings import CLASSES, ceilings
from naslab.explain.challenge import CLOSE, forbidden_of
from naslab.explain.compiled import client_times, limited_by, predicted
from naslab.explain.forward import predict, values_of
from naslab.explain.hypotheses import AT, HIGH, LOW, NAMES, Array, log_prior, log_usual
from naslab.explain.inference import MODEL_ERROR, log_likelihood, sought
from naslab.explain.rows import Rows

CLIENT_ERROR, SERVER_ERROR, FREEDOM = 0.05, 0.1, 4.0


def drawn_rows(rng: np.random.Generator, count: int = 24) -> Rows:
    """Rows of random loads: null calls, pairs, passes of which a half counts, durable and unstable writes."""
    flag = lambda often: rng.random(count) < often  # noqa: E731
    read, random = flag(0.55), flag(0.4)
    record = rng.choice([4096.0, 65536.0, 262144.0, 1048576.0], count)
    seconds, start = rng.uniform(0.05, 8.0, count), np.cumsum(rng.uniform(0.0, 9.0, count))
    seen = rng.uniform(0.0, 11.0, count)
    found = {
        "read": read, "durable": ~read & flag(0.3), "random": random, "null": np.zeros(count, bool),
        "whole": ~read & flag(0.3), "late": read & flag(0.3), "record": record,
        "depth": rng.choice([1.0, 2.0, 8.0, 32.0, 128.0], count), "workers": rng.choice([1.0, 1.0, 2.0, 8.0], count),
        "files": rng.choice([1.0, 1.0, 4.0], count), "size": 2.0 ** rng.integers(22, 34, count), "start": start,
        "seconds": seconds, "pair": np.full(count, -1), "moved": np.exp(seen) * record * seconds,
        "count": np.maximum(rng.uniform(-10.0, 4000.0, count), 1.0),
        "weight": rng.choice([0.0, 0.4, 1.0], count), "seen": seen, "sigma": rng.uniform(0.01, 0.3, count),
        "client_s": np.where(flag(0.5), np.exp(rng.uniform(-12, -6, count)), np.nan),
        "cell": np.arange(count),
    }  # fmt: skip
    for one in range(0, count - 1, 4):  # readers beside writers, also such that go through a memory
        found["read"][one : one + 2] = True, False
        found["pair"][one : one + 2] = one + 1, one
        for name in ("start", "seconds", "record"):
            found[name][one + 1] = found[name][one]
        for name in ("whole", "durable"):
            found[name][one] = False
        found["late"][one : one + 2], found["workers"][one : one + 2] = False, 1.0
    null = count - 1
    found["read"][null], found["null"][null], found["record"][null], found["moved"][null] = True, True, 1.0, 0.0
    for name in ("durable", "whole", "late", "random"):
        found[name][null] = False
    return Rows(
        **found, step=["made"] * count, order=np.argsort(rng.permutation(count)),
        nic_bytes_per_s=float(rng.choice([0.0, 1.25e8])), cpus=float(rng.choice([1.0, 4.0])),
        cpu_limit=float(rng.choice([0.0, 0.3])), same_machine=bool(rng.random() < 0.3), here=bool(rng.random() < 0.5),
        protocol=str(rng.choice(["smb", "nfs"])), usual=bool(rng.random() < 0.5),
        server_times=((4096.0, 2e-5), (1048576.0, 6e-4)) if rng.random() < 0.5 else (),
        rationed=bool(rng.random() < 0.3),
    )  # fmt: skip


def drawn_particles(rng: np.random.Generator, count: int = 60) -> Array:
    """Particles all over the prior; every second has a bucket, of every scope, every third a lock."""
    theta = LOW + (HIGH - LOW) * rng.random((count, len(LOW)))
    theta[:, AT["bucket_on"]] = np.where(np.arange(count) % 2, -0.05, LOW[AT["bucket_on"]] + 0.05)
    theta[:, AT["lock_on"]] = np.where(np.arange(count) % 3, -0.05, LOW[AT["lock_on"]] + 0.05)
    return np.asarray(theta)


def likelihood_by_definition(theta: Array, r: Rows) -> Array:
    """Student's t on log rates, thin tails on the client's time, the server's at least, the priors' shape."""
    v = values_of(theta)
    z = (predict(v, r) - r.seen) / np.hypot(r.sigma, MODEL_ERROR)
    peak = math.lgamma((FREEDOM + 1) / 2) - math.lgamma(FREEDOM / 2) - 0.5 * math.log(FREEDOM * math.pi)
    found = (
        np.log1p(z * z / FREEDOM) @ (-(FREEDOM + 1) / 2 * r.weight) + peak * r.weight.sum() + log_prior(theta, r.here)
    )
    found = found + (log_usual(theta) if r.usual else 0.0)
    for record, seconds in client_times(r):
        off = (np.log(v["client_s"] + v["client_byte_s"] * record)[:, 0] - np.log(seconds)) / CLIENT_ERROR
        found = found - np.minimum(off**2 / 2, 60.0)
    for record, seconds in r.server_times:  # at least so long, and not much longer
        more = np.log(v["server_s"] + record / v["memory"])[:, 0] - np.log(seconds)
        found = found - np.minimum((np.minimum(more, 0.0) / SERVER_ERROR) ** 2 / 2, 30.0)
        idle = np.maximum((more - np.log(1.5)) / 0.5, 0.0)
        found = found - np.minimum(idle**2 / 2, 4.0) * r.counted
    return np.asarray(found)


@pytest.mark.parametrize("seed", range(40))
def test_the_engine_computes_the_model_that_is_written_down(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, theta = drawn_rows(rng), drawn_particles(rng)
    wanted, found = predict(values_of(theta), rows), predicted(theta, rows)
    assert np.abs(found - wanted).max() < 1e-6, f"seed {seed}: {np.argwhere(np.abs(found - wanted) > 1e-6)[:5]}"
    assert log_likelihood(theta, rows) == pytest.approx(likelihood_by_definition(theta, rows), rel=1e-6)
    without = theta.copy()
    without[:, AT["bucket_on"]] = LOW[AT["bucket_on"]]
    assert log_likelihood(without, rows) == pytest.approx(likelihood_by_definition(without, rows), rel=1e-6)


def test_a_row_may_follow_any_other() -> None:
    """Experiments are put behind the rows of a ladder: the order is that of the start, not of the table."""
    rng = np.random.default_rng(3)
    rows, theta = drawn_rows(rng), drawn_particles(rng)
    turned = dataclasses.replace(rows, order=rows.order[::-1].copy())
    assert np.abs(predicted(theta, turned) - predict(values_of(theta), turned)).max() < 1e-6


def test_a_table_that_differs_is_refused() -> None:
    rows = drawn_rows(np.random.default_rng(1))
    columns = {name: np.asarray(getattr(rows, name), float).tobytes() for name in compiled.COLUMNS}
    made = (list(LOW), list(HIGH), [], columns, (0.0, 1.0, 0.0, [False] * 4), [], [])
    with pytest.raises(ValueError, match="parameters differ"):
        _engine.InferModel(NAMES[::-1], *made)
    with pytest.raises(ValueError, match="without scale"):
        _engine.InferModel(NAMES, *made)


@pytest.mark.parametrize("seed", range(6))
def test_what_is_forbidden_is_what_limits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, theta = drawn_rows(rng), drawn_particles(rng, 300)
    rows = dataclasses.replace(rows, max_set_bytes=float(2.0 ** rng.integers(28, 36)), granted_depth=16 * (seed % 2))
    theta[:, AT["bucket_on"]] = LOW[AT["bucket_on"]]
    for where in CLASSES:
        found = ceilings(theta, rows, *where)
        lowest = np.min(list(found.values()), axis=0)
        for kind, ceiling in found.items():
            near = limited_by(theta, rows, forbidden_of(rows, kind, *where))
            assert (near == (ceiling < CLOSE * lowest)).all(), (kind, where)


def test_a_forbidden_limit_is_none_of_what_is_found() -> None:
    rng = np.random.default_rng(2)
    rows = drawn_rows(rng)
    forbidden = forbidden_of(rows, "disk", "read", "large")
    theta = sought(rows, rng, drawn_particles(rng, 120), 60, forbidden)
    assert theta.shape[0] == 120 and limited_by(theta, rows, forbidden).mean() < 0.1
    with pytest.raises(ValueError, match="no limit to forbid"):
        forbidden_of(rows, "disk_iops", "read", "large")
