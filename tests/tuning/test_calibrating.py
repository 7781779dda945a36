"""Which calibrator a search's out-of-fold predictions give, and what the verdict says of it."""

from __future__ import annotations

import numpy as np
import pytest

from nu_ensembles import calibration
from nu_ensembles.errors import InputError
from nu_ensembles.estimator.wanted import check_calibration
from nu_ensembles.tuning import calibrated, temperature_of
from nu_ensembles.tuning.choice import SearchResult, choose
from nu_ensembles.tuning.scores import OutOfFold


def search_of(sharpness: float, weight: np.ndarray | None = None) -> SearchResult:
    """200 rows of three classes whose probabilities are too sure by a factor, in five folds."""
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.ones(3), 200)
    y = (rng.random(200)[:, None] > truth.cumsum(axis=1)).sum(axis=1)
    sharp = truth**sharpness
    sharp /= sharp.sum(axis=1, keepdims=True)
    found = OutOfFold(
        betas=np.array([0.0]),
        steps=np.array([10]),
        losses=-np.log(sharp[np.arange(200), y])[None, None],
        probabilities=sharp[None],
        rows=np.arange(200),
        y=y,
        weight=np.ones(200) if weight is None else weight,
        fold_of=np.arange(200) % 5,
        folds=[],
    )
    return choose(found, 1.0)


def test_what_is_overconfident_out_of_fold_is_softened_and_the_verdict_says_by_what_and_which_switch() -> None:
    found = calibrated(search_of(3.0), check_calibration("auto", False))
    assert found.calibrator is not None
    assert found.sentence.startswith(f" Calibrated by {found.calibrator.name}: NLL ")
    assert found.sentence.endswith("(95 % interval) (calibration='auto').")
    assert found.calibrator.apply([[0.98, 0.01, 0.01]])[0, 0] < 0.9


def test_what_needs_nothing_is_left_alone_by_auto() -> None:
    found = calibrated(search_of(1.0), check_calibration("auto", False))
    assert found.calibrator is None
    assert found.sentence.startswith(" No calibrator has a clear gain out of fold")


def test_a_calibrator_that_was_asked_for_is_taken_also_where_it_gains_nothing() -> None:
    found = calibrated(search_of(1.0), check_calibration("vector_scaling", False))
    assert found.calibrator is not None
    assert found.calibrator.name == "vector_scaling"
    assert found.sentence == (
        " Calibrated by vector_scaling (calibration='vector_scaling'): out-of-fold NLL 1.0 % ± 0.8 higher than without."
    )
    found = calibrated(search_of(1.0), check_calibration("temperature", False))
    assert found.sentence == " Calibrated by temperature (calibration='temperature'): no clear gain out of fold."


def test_the_older_switch_means_the_temperature_and_rows_count_by_their_weight() -> None:
    assert check_calibration(None, True) == check_calibration("temperature", True) == (calibration.Temperature(),)
    weight = np.where(np.arange(200) < 100, 2.0, 1.0)
    for result in (search_of(3.0), search_of(3.0, weight)):
        found = calibrated(result, check_calibration(None, True)).calibrator
        assert isinstance(found, calibration.FittedCalibrator)
        assert found.state()["temperature"] == pytest.approx(temperature_of(result.out_of_fold, 0), abs=1e-5)
    assert temperature_of(search_of(3.0, weight).out_of_fold, 0) != temperature_of(search_of(3.0).out_of_fold, 0)


def test_without_a_calibrator_asked_for_nothing_is_fitted_or_said() -> None:
    for none in (None, "none", calibration.Identity()):
        assert check_calibration(none, False) == ()
    assert calibrated(search_of(3.0), ()) == (None, "")
    assert calibrated(None, ()) == (None, "")


@pytest.mark.parametrize("what", ["platt", 3, True, calibration.Temperature, ["temperature"]])
def test_what_is_no_calibrator_is_refused_with_the_names_of_those_that_there_are(what: object) -> None:
    with pytest.raises(InputError, match="give one of auto, none, temperature, smoothed_temperature, vector_scaling"):
        check_calibration(what, False)  # pyright: ignore[reportArgumentType]


def test_what_cannot_be_fitted_on_mean_probabilities_and_two_wishes_at_once_are_refused() -> None:
    with pytest.raises(InputError, match="fitted on members' predictions, and a search keeps their mean"):
        check_calibration("member_temperature", False)
    with pytest.raises(InputError, match="temperature=True means calibration='temperature', but calibration is 'auto'"):
        check_calibration("auto", True)
