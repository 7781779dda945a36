"""Temperature scaling recovers a known temperature, and its prior keeps it sober."""

from typing import Any, cast

import numpy as np
import pytest

from nu_ensembles import metrics
from nu_ensembles.errors import InputError
from nu_ensembles.metrics.temperature import scale_temperature


def sharpened(probs, temperature):
    scaled = probs ** (1 / temperature)
    return scaled / scaled.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.5])
def test_many_labels_reveal_the_temperature_that_was_taken_off(calibrated, temperature):
    probs, labels = calibrated(20_000, 5, seed=0)
    scaler = metrics.TemperatureScaling().fit(sharpened(probs, 1 / temperature), labels)
    assert scaler.temperature_ == pytest.approx(temperature, rel=0.05)
    np.testing.assert_allclose(scaler.transform(sharpened(probs, 1 / temperature)), probs, atol=0.02)


def test_the_fitted_temperature_minimises_nll_plus_prior(calibrated):
    probs, labels = calibrated(60, 4, seed=1)
    probs = sharpened(probs, 0.4)
    best = metrics.TemperatureScaling(prior=30.0).fit(probs, labels).temperature_

    def objective(t):
        return len(labels) * metrics.nll(sharpened(probs, t), labels) + 30.0 * np.log(t) ** 2

    assert objective(best) <= min(objective(t) for t in np.geomspace(0.2, 8, 400)) + 1e-6


def test_the_prior_pulls_towards_one_when_labels_are_few(calibrated):
    probs, labels = calibrated(20, 4, seed=2)
    probs = sharpened(probs, 0.3)
    free = metrics.TemperatureScaling(prior=0.0).fit(probs, labels).temperature_
    held = metrics.TemperatureScaling(prior=30.0).fit(probs, labels).temperature_
    assert 1.0 < held < free


def test_scaling_the_mean_keeps_the_predicted_class(calibrated):
    probs, labels = calibrated(100, 6, seed=3)
    members = np.stack([probs, probs[:, ::-1]])
    scaled = metrics.TemperatureScaling().fit_transform(members, labels)
    assert scaled.shape == (100, 6)
    np.testing.assert_array_equal(scaled.argmax(axis=1), members.mean(axis=0).argmax(axis=1))
    np.testing.assert_allclose(scaled.sum(axis=1), 1.0)


def test_member_wise_scaling_gives_every_member_its_own_temperature(calibrated):
    probs, labels = calibrated(5000, 4, seed=4)
    members = np.stack([sharpened(probs, 0.5), probs, sharpened(probs, 2.0)])
    scaler = metrics.TemperatureScaling(on="members").fit(members, labels)
    np.testing.assert_allclose(scaler.temperature_, [2.0, 1.0, 0.5], rtol=0.1)
    assert scaler.transform(members).shape == (3, 5000, 4)


def test_exact_zeros_and_ones_are_survived():
    scaler = metrics.TemperatureScaling().fit(np.eye(3)[[0, 1, 2, 0]], [0, 1, 2, 1])
    scaled = scaler.transform(np.eye(3))
    assert scaler.temperature_ > 1.0
    assert np.isfinite(scaled).all()


@pytest.mark.parametrize("temperature", [1e-320, 0.0, -1.0, float("nan")])
def test_what_logarithms_cannot_be_divided_by_is_no_temperature(temperature):
    np.testing.assert_array_equal(scale_temperature(np.array([[0.3, 0.6, 0.1]]), 1e-299), [[0, 1, 0]])
    with pytest.raises(InputError, match="it must be above 1e-300"):
        scale_temperature(np.array([[0.3, 0.6, 0.1]]), temperature)


def test_misuse_is_explained():
    with pytest.raises(InputError, match="call fit"):
        metrics.TemperatureScaling().transform([[0.5, 0.5]])
    with pytest.raises(InputError, match="prior"):
        metrics.TemperatureScaling(prior=-1.0)
    with pytest.raises(InputError, match="Did you mean 'members'"):
        metrics.TemperatureScaling(on=cast(Any, "member"))
    scaler = metrics.TemperatureScaling(on="members").fit([[[0.5, 0.5]], [[0.6, 0.4]]], [0])
    with pytest.raises(InputError, match="Fitted on 2 members but 1"):
        scaler.transform([[[0.5, 0.5]]])
