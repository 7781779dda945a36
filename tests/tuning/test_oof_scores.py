"""Out-of-fold losses and the paired comparisons made with them, on tables small enough to check by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nu_ensembles.methods import TrainingRows
from nu_ensembles.tuning.folds import Fold, HeldOut
from nu_ensembles.tuning.scores import OutOfFold, paired_difference


def table(losses: Any, betas: list[float] | None = None) -> OutOfFold:
    """Losses `[P, S, N]` as they would stand after a search."""
    values = np.array(losses, dtype=float)
    n_candidates, n_stops, n = values.shape
    return OutOfFold(
        betas=np.array(betas or [0.0, 0.01, 0.1, 1.0][:n_candidates]),
        steps=10 * np.arange(1, n_stops + 1),
        losses=values,
        probabilities=np.full((n_candidates, n, 2), 0.5),
        rows=np.arange(n),
        y=np.zeros(n, int),
        weight=np.ones(n),
        fold_of=np.arange(n) % 2,
        folds=[],
    )


def nothing_yet(y: list[int], weight: list[float], folds: list[Fold], steps: list[int]) -> OutOfFold:
    """One candidate of a search of two classes, before anything is measured."""
    rows = TrainingRows(np.zeros((len(y), 1), np.float32), np.array(y), np.array(weight))
    return OutOfFold.empty(np.zeros(1), np.array(steps), HeldOut(rows, folds), 2)


def test_the_standard_error_of_a_paired_difference_is_that_of_its_mean() -> None:
    # differences 1, 2, 6: mean 3, variance (4 + 1 + 9) / 2 = 7, standard error sqrt(7 / 3)
    mean, error = paired_difference(np.array([2.0, 4.0, 9.0]), np.array([1.0, 2.0, 3.0]), np.ones(3))
    assert mean == pytest.approx(3.0)
    assert error == pytest.approx(np.sqrt(7 / 3))


def test_weights_count_in_mean_and_error_and_their_scale_does_not() -> None:
    losses, reference = np.array([1.0, 5.0]), np.zeros(2)
    # w = 3/4, 1/4: mean 2; sum w² (d - mean)² = (9/16)·1 + (1/16)·9 = 18/16; times n/(n-1) = 2
    for weight in (np.array([3.0, 1.0]), np.array([6.0, 2.0])):
        mean, error = paired_difference(losses, reference, weight)
        assert mean == pytest.approx(2.0)
        assert error == pytest.approx(np.sqrt(2 * 18 / 16))


def test_equal_losses_differ_by_nothing_and_a_single_sample_has_no_error() -> None:
    assert paired_difference(np.ones(4), np.ones(4), np.ones(4)) == (0.0, 0.0)
    assert paired_difference(np.array([2.0]), np.array([1.0]), np.ones(1)) == (1.0, 0.0)


def test_probabilities_become_losses_averaged_over_repeats_without_the_padding() -> None:
    folds = [Fold(np.array([1]), np.array([0])), Fold(np.array([0]), np.array([1])), Fold(np.array([0]), np.array([1]))]
    found = nothing_yet([0, 1], [1, 1], folds, [10])
    padding = [0.9, 0.1]
    found.add(0, 0, np.array([[[0.5, 0.5], padding], [[0.75, 0.25], padding], [[0.5, 0.5], padding]]))
    np.testing.assert_allclose(found.losses[0, 0], [np.log(2), (np.log(4) + np.log(2)) / 2])
    np.testing.assert_allclose(found.probabilities[0], [[0.5, 0.5], [0.625, 0.375]])
    assert found.fold_of.tolist() == [0, 1]
    np.testing.assert_allclose(found.mean_nll(), [[(np.log(2) + 1.5 * np.log(2)) / 2]])


def test_a_probability_of_zero_gives_a_large_loss_and_no_infinity() -> None:
    fold = [Fold(np.array([]), np.array([0]))]
    found = nothing_yet([0], [1], fold, [10])
    found.add(0, 0, np.array([[[0.0, 1.0]]]))
    assert 80 < found.losses[0, 0, 0] < 100


def test_the_probabilities_of_the_best_stop_are_kept() -> None:
    fold = [Fold(np.array([]), np.array([0]))]
    found = nothing_yet([0], [1], fold, [1, 2, 3])
    for stop, of_label in enumerate((0.5, 0.8, 0.6)):
        found.add(0, stop, np.array([[[of_label, 1 - of_label]]]))
    np.testing.assert_allclose(found.probabilities[0], [[0.8, 0.2]])


def test_a_validation_set_holds_out_its_own_rows_only() -> None:
    fold = [Fold(np.arange(3), np.array([3, 4]))]
    found = nothing_yet([0, 1, 0, 1, 1], [0, 1, 2, 3, 4], fold, [1])
    assert found.rows.tolist() == [3, 4]
    assert found.y.tolist() == [1, 1]
    assert found.weight.tolist() == [3.0, 4.0]


def test_a_candidate_far_past_its_own_best_is_dropped() -> None:
    # From stop 0 to 1 all losses rise: by 1, 1, 1.2 (2 errors are .13), or by 1, -1, .1 (2 errors are 1.2).
    assert table([[[1, 1, 1], [2, 2, 2.2]]]).is_beaten(0, 1)
    assert not table([[[1, 1, 1], [2, 0, 1.1]]]).is_beaten(0, 1)


def test_a_candidate_on_its_way_back_from_a_rise_goes_on() -> None:
    assert not table([[[1, 1, 1], [3, 3, 3.2], [2, 2, 2.2]]]).is_beaten(0, 2)


def test_a_candidate_clearly_behind_the_leader_is_dropped_from_the_middle_on() -> None:
    two = table([[[1, 1.1, 1]] * 4, [[2, 2.1, 2.2]] * 4])
    assert [two.is_beaten(1, stop) for stop in range(4)] == [False, False, True, True]
    assert not any(two.is_beaten(0, stop) for stop in range(4))


def falling(*levels: float) -> list[list[float]]:
    """Losses `[S, 3]` around one level a stop."""
    return [[level, level + 0.001, level] for level in levels]


@pytest.mark.parametrize(
    ("levels", "dropped"),
    [
        # The leader comes down to .3 at the middle stop, the fourth, falling by .1.
        ((1.2, 0.8, 0.6, 0.5, 0.45, 0.42), False),  # as fast, though far above
        ((1.2, 1.0, 0.9, 0.81, 0.75, 0.7), True),  # .09 a stop, two to go: .63 is far from .3
        ((1.2, 1.0, 0.52, 0.44, 0.4, 0.36), False),  # .08 a stop, two to go: it may come down to .28
        ((1.2, 1.0, 0.92, 0.9, 0.89, 0.88), True),  # .02 a stop: hopeless
        ((1.2, 1.0, 0.9, 0.95, 0.96, 0.97), True),  # does not fall at all
    ],
)
def test_a_candidate_that_can_catch_up_is_not_dropped(levels: tuple[float, ...], dropped: bool) -> None:
    found = table([falling(1.0, 0.6, 0.4, 0.3, 0.25, 0.22), falling(*levels)])
    found.losses[:, 4:] = np.nan  # what is yet to come is not known
    assert found.is_beaten(1, 3) == dropped


def test_a_probe_promises_something_if_its_best_is_ahead_by_more_than_noise() -> None:
    # .1 of a mean loss of 1 lower on every row but for .02: 10 standard errors of .01. Then 1.2 errors of .08.
    reference = [[1.0, 1.1, 0.9], [2.0, 2.0, 2.0]]
    clear, noise = [[0.9, 0.98, 0.82], [0.0, 3.0, 3.0]], [[0.9, 1.15, 0.65], [2.0, 2.0, 2.0]]
    assert table([reference, clear]).is_promising(1, 0)
    assert not table([reference, noise]).is_promising(1, 0)
    assert not table([reference, reference]).is_promising(1, 0)


def test_a_gain_that_is_sure_but_next_to_nothing_promises_nothing() -> None:
    reference = np.ones((1, 2, 3))
    assert table(np.concatenate([reference, 0.99 * reference])).is_promising(1, 0)
    assert not table(np.concatenate([reference, 0.998 * reference])).is_promising(1, 0)


def test_candidates_that_were_not_tried_are_left_out() -> None:
    nothing = [[np.nan] * 3] * 2
    some = table([[[1, 1, 1], [2, 2, 2]], nothing, [[3, 3, 3], [1, 1, 1]]], [0.0, 0.1, 0.3])
    assert some.tried_betas == [0.0, 0.3]
    assert some.of_those_measured().betas.tolist() == [0.0, 0.3]
    assert some.of_those_measured().losses.shape == (2, 2, 3)
    assert (some.best_stop(0), some.best_stop(2)) == (0, 1)
    assert some.best_beta == 0.0
