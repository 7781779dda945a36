"""Full-batch HMC: logistic regression by quadrature, diagnostics, what is refused; in part skipped without BlackJAX."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import optax
import pytest

import nu_ensembles as nu
from nu_ensembles.errors import InputError
from nu_ensembles.methods import HMC
from nu_ensembles.methods.hmc_chains import in_words
from nu_ensembles_studies.shifts.images import MNIST_FILE
from nu_ensembles_studies.shifts.tables import data_folder

has_blackjax = importlib.util.find_spec("blackjax") is not None
needs_blackjax = pytest.mark.skipif(not has_blackjax, reason="BlackJAX is not installed")
LINEAR = nu.models.mlp(2, hidden=())


def posterior_mean_probability(x: np.ndarray, y: np.ndarray, at: np.ndarray, variance: float) -> np.ndarray:
    """P(class 1) under logistic regression on one column, by a grid over slope and intercept.

    A network of two logits has four weights; what matters are the differences, whose priors have twice the variance.
    """
    line = np.linspace(-6, 6, 241)
    slope, intercept = np.meshgrid(line, line)
    log_p = -(slope**2 + intercept**2) / (4 * variance)
    for row, label in zip(x[:, 0], y, strict=True):
        log_p -= np.logaddexp(0, -(2 * label - 1) * (slope * row + intercept))
    p = np.exp(log_p - log_p.max())
    return np.array([np.sum(p / (1 + np.exp(-(slope * each + intercept)))) for each in at[:, 0]]) / p.sum()


@needs_blackjax
def test_bayesian_logistic_regression_is_that_of_quadrature(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 1)).astype(np.float32)
    y = (x[:, 0] + 0.7 * rng.normal(size=20) > 0).astype(int)
    method = HMC(n_chains=4, n_samples=200, burn_in=30, step_size=0.1, prior_variance=1.0)
    # All eight hundred samples are members.
    ensemble = nu.fit(LINEAR, x, y, method=method, n_members=800, steps=1, seed=0, standardize=False)
    at = np.array([[-2.0], [-0.5], [0.0], [1.0], [3.0]], np.float32)
    expected = posterior_mean_probability(x, y, at, 1.0)
    np.testing.assert_allclose(ensemble.predict_proba(at)[:, 1], expected, atol=0.02)
    told = ensemble.training["procedure"]
    assert told["acceptance"] > 0.9
    assert told["leapfrog_steps"] == 16
    assert told["predictions"]["r_hat_largest"] < 1.05
    assert told["predictions"]["ess_smallest"] > 100
    ensemble.save(tmp_path / "model")
    np.testing.assert_array_equal(nu.Ensemble.load(tmp_path / "model").predict_proba(at), ensemble.predict_proba(at))


def rows_of_160(data: str) -> tuple[np.ndarray, np.ndarray]:
    """160 images of digits, and 160 of MNIST where the folder of data sets has those."""
    if data == "digits":
        x, y = nu.datasets.load_digits()
        return (x[:160] / 16).astype(np.float32), y[:160]
    folder = data_folder()
    if folder is None or not (folder / MNIST_FILE).is_file():
        pytest.skip(f"the folder that NU_ENSEMBLES_DATA names has no {MNIST_FILE}")
    with np.load(folder / MNIST_FILE) as found:
        rows = np.linspace(0, len(found["labels"]) - 1, 160).astype(int)  # they are sorted by class
        return (found["images"][rows].reshape(160, -1) / 255).astype(np.float32), found["labels"][rows]


@needs_blackjax
@pytest.mark.slow
@pytest.mark.parametrize(("data", "chains"), [("digits", (2, 6, 4)), ("mnist", (1, 4, 1))])
def test_160_rows_at_the_papers_step_and_trajectory(data: str, chains: tuple[int, int, int]) -> None:
    """Steps of 3e-5 over trajectories of 1.5: nearly all proposals are accepted, and the rows are fitted."""
    x, y = rows_of_160(data)
    method = HMC(*chains, step_size=3e-5, trajectory=1.5, prior_variance=1.0, most_minutes=60)
    model = nu.models.mlp(10, hidden=(16,))
    ensemble = nu.fit(model, x, y, method=method, n_members=6, steps=1, seed=0, standardize=False)
    told = ensemble.training["procedure"]
    assert told["leapfrog_steps"] == 50_000
    assert told["acceptance"] > 0.95
    assert np.mean(ensemble.predict(x) == y) > 0.9
    members = ensemble.predict_members(x)
    assert np.abs(members[0] - members[-1]).max() > 0.01


@needs_blackjax
def test_a_run_that_would_take_too_long_says_how_long(blobs) -> None:
    x, y, _ = blobs
    with pytest.raises(InputError, match=r"40 rows would take about .* \(2,037,250 leapfrog steps of 3 chains\), more"):
        nu.fit("mlp", x, y, method=HMC(step_size=1e-4, most_minutes=1e-6), steps=1)


@needs_blackjax
def test_steps_that_are_too_large_are_told_and_early_stopping_is_refused(blobs) -> None:
    x, y, _ = blobs
    with pytest.warns(UserWarning, match=r"Only \d+ % of HMC's proposals were accepted, .* lower step_size \(now 2\)"):
        nu.fit(nu.models.mlp(3, hidden=()), x, y, method=HMC(2, 4, 0, step_size=2.0, trajectory=20.0), steps=1)
    classifier = nu.EnsembleClassifier("hmc", 2, early_stopping=True, max_iter=20)
    with pytest.raises(InputError, match="'hmc' has no number of steps that could be chosen; leave early_stopping out"):
        classifier.fit(x, y)


def test_without_blackjax_the_extra_is_named(blobs, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, _ = blobs
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "blackjax" else find(name, *rest)
    )
    with pytest.raises(InputError, match=r"not installed: pip install 'nu-ensembles\[bayes\]'"):
        nu.fit("mlp", x, y, method="hmc", steps=1)


def test_an_optimizer_of_ones_own_is_refused(blobs) -> None:
    x, y, _ = blobs
    with pytest.raises(InputError, match="HMC takes steps of its own; leave the optimizer out"):
        nu.fit("mlp", x, y, method="hmc", steps=1, optimizer=optax.sgd(0.1))


def test_a_trajectory_is_a_quarter_of_the_priors_period() -> None:
    assert HMC(step_size=0.01, prior_variance=1.0).n_leapfrog_steps == 157
    assert HMC(step_size=3e-5, trajectory=1.5).n_leapfrog_steps == 50_000


@pytest.mark.parametrize(
    ("minutes", "words"),
    [(0.5, "0.5 minutes"), (90, "90.0 minutes"), (600, "10 hours"), (1e4, "7 days"), (1e7, "19 years")],
)
def test_durations_in_words(minutes: float, words: str) -> None:
    assert in_words(minutes) == words


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"n_chains": 0}, "n_chains must be a whole number of at least 1, not 0"),
        ({"n_samples": 3}, "n_samples must be a whole number of at least 4, not 3"),
        ({"burn_in": -1}, "burn_in must be a whole number of at least 0, not -1"),
        ({"step_size": 0}, "step_size must be a number above 0, not 0"),
        ({"trajectory": -1}, "trajectory must be a number above 0, not -1"),
        ({"prior_variance": 0}, "prior_variance must be a number above 0, not 0"),
        ({"most_minutes": 0}, "most_minutes must be a number above 0, not 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        HMC(**options)
