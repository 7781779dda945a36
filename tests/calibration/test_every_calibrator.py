"""What holds for every calibrator: nothing breaks it, and what it learnt can be stored."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from nu_ensembles import calibration
from nu_ensembles.errors import InputError

NAMES = sorted(calibration.CALIBRATORS)
every = pytest.mark.parametrize("name", NAMES)


def drawn(seed: int, n_rows: int, n_classes: int, concentration: float = 0.3) -> tuple[NDArray, NDArray]:
    """Probabilities `[N, C]`, some of them 0 for small concentrations, and labels that follow none of them."""
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(n_classes, concentration), n_rows), rng.integers(0, n_classes, n_rows)


def is_distribution(probs: NDArray) -> bool:
    return bool((probs >= 0).all() and np.allclose(probs.sum(axis=-1), 1.0, atol=1e-12))  # False for nan


@every
def test_certain_rows_right_and_wrong_are_survived(name: str) -> None:
    certain = np.eye(3)[[0, 1, 2, 0, 1]]
    fitted = calibration.build(name).fit(certain, [0, 1, 2, 1, 1])
    assert is_distribution(fitted.apply(np.concatenate([certain, [[1 / 3, 1 / 3, 1 / 3]]])))


@every
@pytest.mark.parametrize("label", [0, 1])
def test_one_row_is_enough(name: str, label: int) -> None:
    fitted = calibration.build(name).fit([[1.0, 0.0]], [label])
    assert is_distribution(fitted.apply([[1.0, 0.0], [0.0, 1.0], [0.3, 0.7]]))


@every
def test_a_class_may_be_missing_from_the_labels_and_all_but_one_may(name: str) -> None:
    probs, _ = drawn(0, 30, 4, 0.01)
    for labels in (np.arange(30) % 3, np.zeros(30, int)):
        fitted = calibration.build(name).fit(probs, labels)
        assert is_distribution(fitted.apply(np.concatenate([probs, np.eye(4)])))


@every
def test_a_single_class_is_left_alone(name: str) -> None:
    np.testing.assert_array_equal(calibration.build(name).fit(np.ones((3, 1)), [0, 0, 0]).apply([[1.0]]), [[1.0]])


@every
@settings(max_examples=25)
@given(
    seed=st.integers(0, 10_000),
    n_rows=st.integers(1, 40),
    n_classes=st.integers(2, 6),
    concentration=st.sampled_from([0.001, 0.1, 10.0]),
    largest=st.sampled_from([1.0, 1e-300, 1e300]),
)
def test_rows_sum_to_one_whatever_came_in(
    name: str, seed: int, n_rows: int, n_classes: int, concentration: float, largest: float
) -> None:
    probs, labels = drawn(seed, n_rows, n_classes, concentration)
    weight = largest * np.random.default_rng(seed).uniform(0.1, 1.0, n_rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = calibration.build(name).fit(probs, labels, weight)
        assert is_distribution(fitted.apply(np.concatenate([probs, np.eye(n_classes)])))


@every
def test_without_priors_they_are_no_less_robust(name: str) -> None:
    options = dict.fromkeys(vars(calibration.build(name)), 0.0)
    probs, labels = drawn(1, 12, 3, 0.01)
    assert is_distribution(calibration.build(name, **options).fit(probs, labels).apply(np.eye(3)))


@every
def test_a_fitted_calibrator_survives_a_round_through_json(name: str) -> None:
    probs, labels = drawn(2, 40, 3)
    fitted = calibration.build(name).fit(probs, labels)
    text = json.dumps(fitted.state(), default=lambda array: array.tolist())
    again = calibration.restore(json.loads(text))
    assert type(again) is type(fitted)
    np.testing.assert_array_equal(again.apply(probs), fitted.apply(probs))


@every
def test_rows_of_weight_zero_are_as_good_as_absent(name: str) -> None:
    probs, labels = drawn(3, 40, 3)
    some = calibration.build(name).fit(probs[:25], labels[:25], np.full(25, 7.0))
    zeros = calibration.build(name).fit(probs, labels, np.repeat([2.0, 0.0], [25, 15]))
    np.testing.assert_allclose(zeros.apply(probs), some.apply(probs), atol=1e-7)


@every
def test_members_are_averaged_by_those_that_do_not_ask_for_them(name: str) -> None:
    members = np.stack([drawn(seed, 40, 3)[0] for seed in (4, 5)])
    labels = drawn(4, 40, 3)[1]
    built = calibration.build(name)
    of_members, of_mean = built.fit(members, labels), built.fit(members.mean(axis=0), labels)
    assert of_members.apply(members).shape == (40, 3)
    same = np.allclose(of_members.apply(members), of_mean.apply(members.mean(axis=0)), atol=1e-6)
    assert same != built.takes_members


@every
def test_with_ever_more_labels_the_priors_fade(name: str) -> None:
    """Labels drawn from the probabilities themselves: the best map is the identity, and they come close to it."""
    rng = np.random.default_rng(6)
    probs = rng.dirichlet(np.ones(3), 4000)
    labels = (rng.random(4000)[:, None] > probs.cumsum(axis=1)).sum(axis=1)
    calibrated = calibration.build(name).fit(probs, labels).apply(probs)
    assert np.abs(calibrated - probs).mean() < 0.025


def test_misuse_is_explained() -> None:
    half = [[0.5, 0.5]]
    fitted = calibration.build("temperature").fit(half, [0])
    with pytest.raises(InputError, match=r"Unknown calibrator 'temperatur'. Did you mean 'temperature'"):
        calibration.build("temperatur")
    with pytest.raises(InputError, match=r"Unknown option of calibrator 'temperature' 'priors'. Did you mean 'prior'"):
        calibration.build("temperature", priors=1.0)
    with pytest.raises(InputError, match="prior must be a number of at least 0, not -1"):
        calibration.build("temperature", prior=-1)
    with pytest.raises(InputError, match="fitted on 2 classes but the probabilities have 3"):
        fitted.apply([[0.2, 0.3, 0.5]])
    with pytest.raises(InputError, match="look like logits"):
        fitted.apply([[3.0, -1.0]])
    with pytest.raises(InputError, match="Labels run from 2 to 2"):
        calibration.build("temperature").fit(half, [2])


@pytest.mark.parametrize("weight", [[0.0], [-1.0], [np.nan], [1.0, 1.0], ["a"]], ids=str)
def test_weights_that_cannot_be_used_are_refused(weight: list) -> None:
    with pytest.raises(InputError, match="weights"):
        calibration.build("temperature").fit([[0.5, 0.5]], [0], weight)


@pytest.mark.parametrize(
    "damage",
    [
        {"calibrator": "unheard-of"},
        {"calibrator": "temperature"},
        {"n_classes": 0},
        {"n_classes": 3},
        {"scale": [1.0, float("nan")]},
        {"scale": "a"},
        {"temperature": 0.0},
        {"shift": [[1.0], [2.0], [3.0]]},
        {"more": 1},
    ],
    ids=str,
)
def test_a_damaged_state_is_refused_in_one_sentence(damage: dict) -> None:
    whole = calibration.build("vector_scaling").fit([[0.5, 0.5]], [0]).state()
    assert calibration.restore(whole).name == "vector_scaling"
    with pytest.raises(InputError, match="calibrator"):
        calibration.restore(whole | damage)
