"""SWAG: when snapshots are taken, and the Gaussian that is drawn from."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles.errors import InputError
from nu_ensembles.methods import MultiSwag, Swag
from nu_ensembles.methods.swag import draw_weights

MODEL = nu.models.mlp(3, hidden=(8,))

# Three snapshots of three weights, of which the last never moves.
VISITED = np.array([[0.0, 0.0, 1.0], [2.0, 2.0, 1.0], [4.0, 1.0, 1.0]], np.float32)


def test_snapshots_are_spread_evenly_over_the_last_part() -> None:
    taken = Swag(n_snapshots=4, last=0.4, learning_rate=0.1).snapshots(100)
    assert (taken.at, taken.start, taken.learning_rate) == ([70, 80, 90, 100], 60, 0.1)


@pytest.mark.parametrize(("n_steps", "at"), [(1, [1]), (2, [1, 2]), (3, [2, 3])])
def test_a_short_training_has_fewer_snapshots(n_steps: int, at: list[int]) -> None:
    assert Swag(n_snapshots=20, last=0.1).snapshots(n_steps).at == at


def keys(n: int) -> list[jax.Array]:
    return [jax.random.fold_in(jax.random.key(0), number) for number in range(n)]


def test_draws_have_the_mean_of_the_snapshots_and_half_diagonal_half_low_rank_covariance() -> None:
    drawn = draw_weights(VISITED, keys(2000), scale=1.0)
    assert (drawn.shape, drawn.dtype) == ((2000, 3), np.float32)
    np.testing.assert_allclose(drawn.mean(axis=0), [2.0, 1.0, 1.0], atol=0.15)
    # The snapshots deviate by (-2, -1), (0, 1), (2, 0): variances 8/3 and 2/3, and D D'/2 = [[4, 1], [1, 1]].
    expected = 0.5 * np.array([[8 / 3, 0], [0, 2 / 3]]) + 0.5 * np.array([[4, 1], [1, 1]])
    np.testing.assert_allclose(np.cov(drawn[:, :2].T), expected, rtol=0.1)
    assert (drawn[:, 2] == 1).all()


def test_a_member_keeps_its_weights_when_members_are_added() -> None:
    two, three = (draw_weights(VISITED, keys(n), 1.0) for n in (2, 3))
    np.testing.assert_array_equal(three[:2], two)


def test_scale_zero_is_the_mean_of_the_snapshots_and_one_snapshot_is_itself() -> None:
    assert draw_weights(VISITED, keys(2), 0.0).tolist() == [[2.0, 1.0, 1.0]] * 2
    assert draw_weights(VISITED[:1], keys(2), 1.0).tolist() == [[0.0, 0.0, 1.0]] * 2


def test_around_each_of_k_trajectories_draws_come_trajectory_by_trajectory(blobs) -> None:
    x, y, _ = blobs

    def members(method: Swag, n_members: int) -> np.ndarray:
        return nu.fit(MODEL, x, y, method=method, n_members=n_members, steps=12, learning_rate=0.01).predict_members(x)

    # With scale 0 every draw is the mean of its trajectory.
    of_two = members(MultiSwag(n_samples=3, scale=0.0), 2)
    assert len(of_two) == 6
    np.testing.assert_array_equal(of_two[[0, 1, 0, 1]], of_two[2:])
    assert np.abs(of_two[0] - of_two[1]).max() > 1e-3
    np.testing.assert_array_equal(members(MultiSwag(n_samples=3), 1), members(Swag(), 3))


def test_multi_swag_carries_random_labels(blobs) -> None:
    x, y, u = blobs
    options: dict[str, Any] = {"n_members": 2, "steps": 6}
    with_labels = nu.fit(MODEL, x, y, u, method=MultiSwag(n_samples=1, beta=0.5), **options)
    without = nu.fit(MODEL, x, y, u, method=MultiSwag(n_samples=1), **options)
    assert np.abs(with_labels.predict_members(x) - without.predict_members(x)).max() > 1e-4


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"n_samples": 0}, "n_samples must be a whole number of at least 1, not 0"),
        ({"beta": -1}, "beta must be a number of at least 0, not -1"),
        ({"n_snapshots": 1}, "n_snapshots must be a whole number of at least 2, not 1"),
        ({"last": 0}, "last must be a number above 0, not 0"),
        ({"last": 1.1}, "last is a share of the training, above 0 and at most 1, not 1.1"),
        ({"learning_rate": 0}, "learning_rate of the last part must be a number above 0"),
        ({"scale": -1}, "scale must be a number of at least 0, not -1"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Swag(**options)
