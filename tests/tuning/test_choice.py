"""The rule and its claims, on losses written down here; `test_stages.py` has generated searches with a known truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nu_ensembles.tuning.choice import Gain, choose, gain_of_the_rule, smallest_within
from nu_ensembles.tuning.scores import OutOfFold

STEPS = np.geomspace(10, 1000, 12).astype(int)


def table(losses: Any, betas: list[float] | None = None, n_folds: int = 5) -> OutOfFold:
    """Losses `[P, S, N]` as they would stand after a search, the rows dealt to the folds in turn."""
    losses = np.asarray(losses, float)
    n_candidates, n_stops, n = losses.shape
    return OutOfFold(
        np.array([0.0, 1e-4, 1e-3, 1e-2, 0.1][:n_candidates] if betas is None else betas),
        STEPS[:n_stops],
        losses,
        np.full((n_candidates, n, 2), 0.5),
        np.arange(n),
        np.zeros(n, int),
        np.ones(n),
        np.arange(n) % n_folds,
        [],
    )


# The rule

# Against the best (beta = .1: 0, 0, 0, 0) the others are .02 ± .004, .01 ± .009 and .0045 ± .010 worse.
PAIRED = np.array([[[0.03, 0.02, 0.01, 0.02]], [[0.03, 0.0, 0.02, -0.01]], [[0.025, -0.022, 0.015, 0.0]], [[0.0] * 4]])


@pytest.mark.parametrize(("tolerance", "candidate"), [(0.0, 3), (0.5, 2), (1.1, 1), (5.0, 0)])
def test_the_smallest_beta_within_so_many_standard_errors_of_the_best_is_taken(
    tolerance: float, candidate: int
) -> None:
    assert smallest_within(PAIRED, np.ones(4), tolerance) == (candidate, 0)


def test_every_candidate_stands_for_its_best_stop() -> None:
    losses = np.array([[[0.9, 0.9], [0.5, 0.7], [0.8, 0.8]], [[0.4, 0.4], [0.6, 0.6], [0.7, 0.7]]])
    assert smallest_within(losses, np.ones(2), 0.0) == (1, 0)
    assert smallest_within(losses, np.ones(2), 3.0) == (0, 1)
    assert choose(table(losses), 3.0).standard_steps == STEPS[1]


def test_what_was_not_measured_is_never_chosen() -> None:
    losses = [[[0.5, 0.7], [np.nan, np.nan]], [[0.4, 0.4], [0.3, 0.3]]]
    assert smallest_within(np.array(losses), np.ones(2), 0.0) == (1, 1)


def test_a_clear_gain_takes_the_beta_and_an_unclear_one_the_reference_at_its_best_stop() -> None:
    rng = np.random.default_rng(0)
    standard = np.stack([1 + 0.1 * rng.random(50), 0.5 + 0.1 * rng.random(50)])
    clear, unclear = 0.8 * standard, standard - 0.001 + 0.1 * rng.normal(size=50)
    assert choose(table([standard, clear]), 1.0).chosen == (1, 1)
    assert choose(table([standard, unclear]), 0.0).chosen == (0, 1)
    # Without the standard ensemble among the candidates there is nothing to be compared with.
    assert choose(table([standard, unclear - 0.01], [1e-3, 1e-2]), 0.0).chosen == (1, 1)


def test_the_gain_of_a_fold_is_that_of_what_the_other_folds_chose() -> None:
    # Two folds, two stops: each fold alone would stop the reference where the other one is worst.
    reference = [[1.0, 3.0], [3.0, 1.0]]
    gain = gain_of_the_rule(table([reference], n_folds=2), 1.0)
    assert gain.relative == 0
    other = [[2.0, 2.0], [2.0, 2.0]]
    # Fold 0 (row 0) is scored where row 1 is best, at the second stop: 3, and the other way round; the constant is 2.
    losses = table([reference, other], n_folds=2)
    assert gain_of_the_rule(losses, 0.0).relative == 0.0  # on one row each the reference's 1 beats 2
    losses.losses[1] = 0.9
    assert gain_of_the_rule(losses, 0.0).relative == pytest.approx((0.9 - 3.0) / 3.0)


def test_one_row_claims_nothing() -> None:
    assert not Gain.of(np.zeros(1), np.ones(1), np.ones(1)).is_clear
    assert choose(table([[[1.0]], [[0.1]]]), 1.0).beta == 0


@pytest.mark.parametrize(
    ("relative", "half_width", "clear"), [(-0.02, 0.01, True), (-0.0024, 0.0022, False), (0.031, 0.03, True)]
)
def test_a_gain_is_clear_only_if_the_figures_that_are_shown_exclude_zero(
    relative: float, half_width: float, clear: bool
) -> None:
    assert Gain(relative, half_width).is_clear == clear


# Whatever the losses are


@settings(max_examples=200, deadline=None)
@given(arrays(np.float64, (3, 4, 9), elements=st.floats(0, 20)), st.floats(0, 2))
def test_a_beta_is_taken_only_with_a_clear_gain(losses: np.ndarray, tolerance: float) -> None:
    result = choose(table(losses), tolerance)
    if result.beta > 0:
        gain = gain_of_the_rule(result.out_of_fold, tolerance)
        assert gain.relative + gain.half_width < 0
