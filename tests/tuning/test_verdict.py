"""The sentence and the table that a search ends with, from losses written down here."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from nu_ensembles.metrics.temperature import fit_temperature
from nu_ensembles.tuning import as_table, nu_gain, temperature_gain, temperature_of, verdict
from nu_ensembles.tuning.choice import SearchResult, choose
from nu_ensembles.tuning.scores import OutOfFold


def result(losses: np.ndarray, betas: list[float], tolerance: float = 0.5) -> SearchResult:
    """A finished search whose probabilities belong to its losses at the best stop of each candidate."""
    losses = np.asarray(losses, float)
    n = losses.shape[-1]
    best = losses[np.arange(len(betas)), np.nanargmin(losses.mean(axis=-1), axis=1)]
    of_label = np.exp(-best)
    found = OutOfFold(
        betas=np.array(betas),
        steps=np.array([10, 20, 40])[: losses.shape[1]],
        losses=losses,
        probabilities=np.stack([of_label, 1 - of_label], axis=-1),
        rows=np.arange(n),
        y=np.zeros(n, int),
        weight=np.ones(n),
        fold_of=np.arange(n) % 2,
        folds=[],
    )
    return choose(found, tolerance)


STANDARD = np.array([[0.9, 0.8, 1.0, 0.9], [0.5, 0.6, 0.4, 0.5], [0.7, 0.8, 0.9, 1.0]])
BETTER = np.array([[0.9, 0.8, 1.0, 0.9], [0.4, 0.5, 0.3, 0.42], [0.6, 0.8, 0.9, 1.0]])


def test_a_beta_that_gains_is_reported_with_its_gain_and_interval() -> None:
    found = result(np.stack([STANDARD, BETTER]), [0.0, 0.003])
    # Differences -.1, -.1, -.1, -.08 of a mean loss of .5: -19 %, give or take t(3) = 3.18 times .005 / .5.
    gain = nu_gain(found)
    assert gain.relative == pytest.approx(-0.19)
    assert gain.half_width == pytest.approx(3.1824 * 0.005 / 0.5, rel=1e-4)
    sentence = verdict(found)
    assert sentence.startswith(
        "β = 0.003, 20 steps: out-of-fold NLL 19.0 % ± 3.2 lower than an early-stopped standard ensemble (95 %"
    )
    assert "temperature scaling alone (calibration='temperature') gives" in sentence
    assert "max_iter" not in sentence


def test_a_beta_of_zero_says_that_this_is_a_standard_ensemble() -> None:
    sentence = verdict(result(np.stack([STANDARD, STANDARD + 0.01]), [0.0, 0.003]))
    assert sentence.startswith(
        "β = 0, 20 steps: no β that was tried has a clear gain out of fold over an early-stopped standard ensemble, so "
        "this is one; "
        "temperature scaling alone (calibration='temperature') gives"
    )


def test_a_loss_that_was_still_falling_asks_for_a_longer_training() -> None:
    sentence = verdict(result(STANDARD[None, ::-1][:, [0, 0, 1]], [0.0]))
    assert sentence.endswith("The loss was still falling at the last step: raise max_iter.")


def test_a_last_step_that_is_no_clear_gain_asks_for_nothing() -> None:
    level = STANDARD[1]
    assert "max_iter" not in verdict(result(np.stack([[level + 0.4, level, level - [0.1, -0.1, 0.1, -0.09]]]), [0.0]))


def test_temperature_is_praised_only_where_its_interval_excludes_zero() -> None:
    # Of rows that are certain every fourth is wrong: with 40 of them a temperature clearly helps, with 4 who knows.
    sure = np.where(np.arange(40) % 4 == 0, 4.0, 0.02)
    clear = result(sure[None, None], [0.0])
    assert temperature_gain(clear).is_clear
    assert verdict(clear).endswith(f"gives {temperature_gain(clear).in_words()} NLL.")
    assert "% ±" in verdict(clear)
    assert verdict(result(sure[None, None, :4], [0.0])).endswith("gives no clear gain.")


def test_a_reference_without_any_loss_is_no_division_by_zero() -> None:
    assert nu_gain(result(np.zeros((2, 3, 4)), [0.0, 0.003])).relative == 0


def test_the_temperature_of_a_fold_is_fitted_on_the_other_folds() -> None:
    found = result(np.stack([STANDARD, BETTER]), [0.0, 0.003])
    probabilities = found.out_of_fold.probabilities[0]
    before, after = np.empty(4), np.empty(4)
    for fold in (0, 1):
        here = np.arange(4) % 2 == fold
        temperature = fit_temperature(probabilities[~here], np.zeros(2, int), 30.0)
        powered = probabilities[here] ** (1 / temperature)
        before[here] = -np.log(probabilities[here, 0])
        after[here] = -np.log(powered[:, 0] / powered.sum(axis=1))
    assert temperature_gain(found).relative == pytest.approx((after - before).mean() / before.mean())


def test_a_validation_set_is_named_and_parted_in_two_for_the_temperature() -> None:
    folds = result(np.stack([STANDARD, BETTER]), [0.0, 0.003])
    one_set = dataclasses.replace(folds.out_of_fold, fold_of=np.zeros(4, int))
    found = dataclasses.replace(folds, out_of_fold=one_set)
    assert temperature_gain(found) == temperature_gain(folds)  # whose folds are every other row
    assert nu_gain(found) == nu_gain(folds)
    assert "20 steps: validation NLL 19.0 %" in verdict(found)
    zero = dataclasses.replace(found, chosen=(0, 1))
    assert "no β that was tried has a clear gain on the validation rows over" in verdict(zero)


def test_the_temperature_that_is_offered_is_fitted_on_all_rows_with_the_prior() -> None:
    found = result(np.stack([STANDARD, BETTER]), [0.0, 0.003]).out_of_fold
    assert temperature_of(found, 1) == fit_temperature(found.probabilities[1], found.y, 30.0)


def test_the_table_has_a_row_for_each_beta_and_step_and_marks_the_choice() -> None:
    losses = np.stack([STANDARD, BETTER])
    losses[1, 2] = np.nan  # dropped before the last stop
    found = result(losses, [0.0, 0.003])
    columns = as_table(found)
    assert columns["beta"].tolist() == [0, 0, 0, 0.003, 0.003, 0.003]
    assert columns["n_steps"].tolist() == [10, 20, 40] * 2
    assert columns["chosen"].tolist() == [False] * 4 + [True, False]
    np.testing.assert_allclose(columns["nll"], [0.9, 0.5, 0.85, 0.9, 0.405, np.nan])
    np.testing.assert_allclose(columns["difference"], [0.495, 0.095, 0.445, 0.495, 0, np.nan])
    np.testing.assert_allclose(columns["standard_error"][1], 0.005)
    assert columns["standard_error"][4] == 0
