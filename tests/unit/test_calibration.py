"""How often statements are true, and the map from what was stated to that."""

from __future__ import annotations

import numpy as np
import pytest

from naslab.explain.verdict import ANCHOR, CALIBRATION, _calibrated, mapped
from truth.calibration import Claim, calibration_error, logistic


def drawn(offset: float, slope: float, count: int = 4000) -> list[Claim]:
    """Claims that are true as often as a map says."""
    rng = np.random.default_rng(5)
    stated = rng.uniform(0.3, 0.98, count)
    true = 1 / (1 + np.exp(-(offset + slope * (np.log(stated / (1 - stated)) - ANCHOR))))
    return [Claim(float(p), bool(right)) for p, right in zip(stated, rng.random(count) < true, strict=True)]


@pytest.mark.parametrize(("offset", "slope"), [(2.4, 0.7), (1.0, 1.3), (ANCHOR, 1.0)])
def test_a_map_is_found_again(offset: float, slope: float) -> None:
    claims = drawn(offset, slope)
    found = logistic(claims, ANCHOR)
    assert found == pytest.approx((offset, slope), abs=0.15)
    after = [Claim(mapped(claim.probability, found), claim.right) for claim in claims]
    assert calibration_error(after) < 0.03 and [claim.right for claim in after] == [claim.right for claim in claims]


def test_few_claims_that_are_all_true_give_a_finite_map() -> None:
    offset, slope = logistic([Claim(0.8, True)] * 5, ANCHOR)
    assert np.isfinite((offset, slope)).all()


def test_shares_are_mapped_as_claims_are() -> None:
    shares = {"link": 0.6, "disk": 0.3, "protocol": 0.1}
    found = _calibrated(shares, "link", 0.6)
    assert found["link"] == pytest.approx(mapped(0.6, CALIBRATION))
    assert sum(found.values()) == pytest.approx(1.0) and found["disk"] == pytest.approx(3 * found["protocol"])


def test_what_was_counted_is_not_mapped() -> None:
    shares = {"client_cache": 0.97, "link": 0.02, "disk": 0.01}
    assert _calibrated(shares, "link", 0.02) == shares
