"""Vector and matrix scaling agree with `probmetrics`, the package of those who proposed their shrinkage."""

from __future__ import annotations

import numpy as np
import pytest

from nu_ensembles.calibration import MatrixScaling, Temperature, VectorScaling


# Deprecations inside the other package are not ours to mend.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("n_classes", [3, 10])
@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("temp-scaling", Temperature(prior=0.0)),
        ("svs", VectorScaling(prior=1.0, temperature_prior=0.0)),
        ("sms", MatrixScaling(prior=1.0, temperature_prior=0.0)),
    ],
)
def test_our_fit_is_theirs_at_equal_strength(name: str, ours: Temperature, n_classes: int) -> None:
    calibrators = pytest.importorskip("probmetrics.calibrators")
    rng = np.random.default_rng(n_classes)
    truth = rng.dirichlet(np.full(n_classes, 0.7), 400)
    labels = (rng.random(400)[:, None] > truth.cumsum(axis=1)).sum(axis=1)
    sharp = truth**1.7 * rng.uniform(0.5, 2.0, n_classes)
    sharp /= sharp.sum(axis=1, keepdims=True)
    theirs = calibrators.get_calibrator(name)
    theirs.fit(sharp[:200], labels[:200])
    # They compute in float32.
    expected = theirs.predict_proba(sharp[200:])
    np.testing.assert_allclose(ours.fit(sharp[:200], labels[:200]).apply(sharp[200:]), expected, atol=2e-3)
