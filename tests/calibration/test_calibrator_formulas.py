"""Every calibrator does what its formula says, on numbers that can be checked by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from numpy.typing import NDArray

from nu_ensembles.calibration import (
    Beta,
    Calibrator,
    Isotonic,
    MatrixScaling,
    MemberTemperature,
    SmoothedTemperature,
    Temperature,
    VectorScaling,
)
from nu_ensembles.calibration.preparation import prepared

# Larger than any number of labels: what has this prior stays where it is.
FIXED = 1e12


def summed_nll(probs: NDArray, labels: NDArray, weight: NDArray | None = None) -> float:
    losses = -np.log(probs[np.arange(len(labels)), labels])
    return float(losses.sum() if weight is None else losses @ weight)


def overconfident(n_rows: int = 60, n_classes: int = 3, seed: int = 0) -> tuple[NDArray, NDArray]:
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(n_classes), n_rows)
    labels = (rng.random(n_rows)[:, None] > probs.cumsum(axis=1)).sum(axis=1)
    sharp = probs**2.5
    return sharp / sharp.sum(axis=1, keepdims=True), labels


def test_the_temperature_gives_rows_that_are_alike_their_share_of_right_labels() -> None:
    # Three of four are right, so p becomes 0.75: the odds 4^(1/T) are 3.
    fitted = Temperature(prior=0.0).fit([[0.8, 0.2]] * 4, [0, 0, 0, 1])
    assert fitted.state()["temperature"] == pytest.approx(np.log(4) / np.log(3), rel=1e-4)
    np.testing.assert_allclose(fitted.apply([[0.8, 0.2]]), [[0.75, 0.25]], atol=1e-4)


def test_a_row_of_weight_two_counts_as_two() -> None:
    once = Temperature(prior=0.0).fit([[0.8, 0.2]] * 3, [0, 0, 1], [2.0, 1.0, 1.0])
    np.testing.assert_allclose(once.apply([[0.8, 0.2]]), [[0.75, 0.25]], atol=1e-4)


def test_a_share_of_the_uniform_distribution_forgives_one_sure_mistake() -> None:
    # With T fixed at 1, (1 - e) 0.9999 + e / 2 = 9 / 10.
    fitted = SmoothedTemperature(prior=FIXED, floor_prior=0.0).fit([[0.9999, 0.0001]] * 10, [0] * 9 + [1])
    assert fitted.state()["share"] == pytest.approx(0.0999 / 0.4999, rel=1e-3)


def test_without_mistakes_the_share_is_next_to_nothing() -> None:
    fitted = SmoothedTemperature().fit([[0.9999, 0.0001]] * 10, [0] * 10)
    assert fitted.state()["share"] < 1e-4


def test_beta_calibration_shifts_the_odds_to_those_of_the_labels() -> None:
    fitted = Beta(prior=1e-9).fit([[0.5, 0.5]] * 4, [0, 1, 1, 1])
    np.testing.assert_allclose(fitted.apply([[0.5, 0.5]]), [[0.25, 0.75]], atol=1e-3)


def test_isotonic_regression_pools_what_falls_and_its_prior_draws_to_the_diagonal() -> None:
    second = np.array([0.1, 0.4, 0.6, 0.9])
    probs, labels = np.stack([1 - second, second], axis=1), [0, 1, 0, 1]
    np.testing.assert_allclose(Isotonic(prior=0.0).fit(probs, labels).apply(probs)[:, 1], [0.0, 0.5, 0.5, 1.0])
    # Each row is joined by one of its own probability: (0 + 0.1) / 2, …
    np.testing.assert_allclose(Isotonic(prior=4.0).fit(probs, labels).apply(probs)[:, 1], [0.05, 0.5, 0.5, 0.95])


def test_isotonic_regression_goes_straight_between_its_points_and_level_beyond_them() -> None:
    second = np.array([0.2, 0.8])
    fitted = Isotonic(prior=2.0).fit(np.stack([1 - second, second], axis=1), [0, 1])
    asked = np.array([0.0, 0.2, 0.5, 1.0])
    np.testing.assert_allclose(fitted.apply(np.stack([1 - asked, asked], axis=1))[:, 1], [0.1, 0.1, 0.5, 0.9])


def test_prepared_inputs_are_logarithms_of_a_mixture() -> None:
    # (1 - 1/4) (0.5, 0.5, 0) + 1/4 · 1/3
    x = prepared(np.array([[0.5, 0.5, 0.0]]), temperature=1.0, share=0.25)
    np.testing.assert_allclose(np.exp(x), [[11 / 24, 11 / 24, 1 / 12]])


@pytest.mark.parametrize("scaling", [VectorScaling, MatrixScaling])
def test_a_strong_prior_leaves_only_the_preparation(scaling: type[VectorScaling | MatrixScaling]) -> None:
    probs, labels = overconfident()
    fitted = scaling(prior=FIXED, temperature_prior=FIXED).fit(probs, labels)
    np.testing.assert_allclose(fitted.apply(probs), (60 * probs + 1 / 3) / 61, atol=1e-6)


def test_vector_scaling_mends_a_class_that_is_promised_too_often() -> None:
    rng = np.random.default_rng(1)
    truth = rng.dirichlet(np.ones(3), 3000)
    labels = (rng.random(3000)[:, None] > truth.cumsum(axis=1)).sum(axis=1)
    shifted = truth * [4.0, 1.0, 1.0]
    shifted /= shifted.sum(axis=1, keepdims=True)
    calibrated = VectorScaling().fit(shifted, labels).apply(shifted)
    assert np.abs(calibrated - truth).mean() < 0.25 * np.abs(shifted - truth).mean()


def test_matrix_scaling_mends_classes_that_are_taken_for_one_another_and_vector_scaling_does_not() -> None:
    rng = np.random.default_rng(2)
    truth = rng.dirichlet(np.full(3, 0.5), 2000)
    labels = (rng.random(2000)[:, None] > truth.cumsum(axis=1)).sum(axis=1)
    swapped = truth[:, [1, 0, 2]]
    of_matrix = summed_nll(MatrixScaling(prior=1.0).fit(swapped, labels).apply(swapped), labels)
    of_vector = summed_nll(VectorScaling(prior=1.0).fit(swapped, labels).apply(swapped), labels)
    assert of_matrix < 1.1 * summed_nll(truth, labels)
    assert of_vector > 1.2 * summed_nll(truth, labels)


def penalised(calibrator: Calibrator, state: dict, probs: NDArray, labels: NDArray, fitted: object) -> float:
    """The objective of the file's first lines, written once more."""
    nll = summed_nll(fitted.apply(probs), labels)  # pyright: ignore[reportAttributeAccessIssue]
    n_classes, options = state["n_classes"], vars(calibrator)
    match calibrator.name:
        case "member_temperature":
            return nll + options["prior"] * (np.log(state["inner"]) ** 2 + np.log(state["outer"]) ** 2)
        case "smoothed_temperature":
            floor = options["floor_prior"] * np.log1p(-state["share"])
            return nll + options["prior"] * np.log(state["temperature"]) ** 2 - floor
        case "vector_scaling":
            away = ((state["scale"] - 1) ** 2).sum() + (state["shift"] ** 2).sum()
            return nll + options["prior"] * n_classes * away
        case _:
            matrix = state["matrix"] - np.eye(n_classes)
            diagonal = (np.diag(matrix) ** 2).sum()
            rest = (matrix**2).sum() - diagonal
            away = diagonal + (state["shift"] ** 2).sum() + (n_classes - 1) * rest
            return nll + options["prior"] * n_classes * away


@pytest.mark.parametrize(
    "calibrator", [MemberTemperature(), SmoothedTemperature(), VectorScaling(), MatrixScaling()], ids=lambda c: c.name
)
def test_what_is_fitted_is_a_minimum_of_nll_and_prior(calibrator: Calibrator) -> None:
    parts = [overconfident(seed=seed) for seed in (3, 4)]
    members, labels = np.stack([probs for probs, _ in parts]), parts[0][1]
    fitted = calibrator.fit(members, labels)
    lowest = penalised(calibrator, fitted.state(), members, labels, fitted)
    rng = np.random.default_rng(5)
    free = [field.name for field in dataclasses.fields(fitted) if field.name != "n_classes"]
    if "scale" in free or "matrix" in free:
        free = [name for name in free if name not in ("temperature", "share")]  # of the preparation
    for _ in range(50):
        moved = {
            name: value + 1e-3 * rng.normal(size=np.shape(value))
            for name, value in fitted.state().items()
            if name in free
        }
        if "share" in moved:
            moved["share"] = abs(moved["share"])
        other = dataclasses.replace(fitted, **moved)
        assert penalised(calibrator, other.state(), members, labels, other) >= lowest - 1e-9


def test_two_temperatures_fit_at_least_as_well_as_one() -> None:
    parts = [overconfident(seed=seed) for seed in (6, 7, 8)]
    members, labels = np.stack([probs for probs, _ in parts]), parts[0][1]
    one = Temperature(prior=0.0).fit(members, labels).apply(members)
    two = MemberTemperature(prior=0.0).fit(members, labels).apply(members)
    assert summed_nll(two, labels) <= summed_nll(one, labels) + 1e-6
