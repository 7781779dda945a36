"""A member that learnt nothing is named; trainings that are short, even or unknown raise no alarm."""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles.errors import IdleMembersWarning
from nu_ensembles.problem.problem import Problem, prepare
from nu_ensembles.training.idle_members import idle_members, loss_of_guessing, warn_of_idle_members


@pytest.fixture
def problem() -> Problem:
    """Two classes of equal share: guessing costs log 2 = 0.69."""
    return prepare(np.zeros((8, 2), np.float32), np.arange(8) % 2)


def test_guessing_costs_the_entropy_of_the_weighted_shares() -> None:
    weighted = prepare(np.zeros((4, 1), np.float32), np.array([0, 0, 1, 1]), sample_weight=np.array([1.0, 1, 3, 3]))
    assert loss_of_guessing(weighted) == pytest.approx(-(0.25 * np.log(0.25) + 0.75 * np.log(0.75)))


@pytest.mark.parametrize(
    ("losses", "idle"),
    [
        ([0.1, 0.69, 0.2], [5]),
        ([0.1, 0.9, 0.2], [5]),
        ([0.1, 0.5, 0.2], []),  # slow, but not idle
        ([0.68, 0.69, 0.1], []),  # most have not learnt yet
        ([np.nan, 0.69, 0.1, 0.1], [5]),
        ([np.nan, np.nan], []),
    ],
)
def test_those_at_the_loss_of_guessing_are_idle_if_most_are_not(problem: Problem, losses, idle) -> None:
    members = [3, 5, 7, 9][: len(losses)]
    assert idle_members(np.array(losses), members, problem) == idle


def test_the_warning_names_them_and_says_what_to_do(problem: Problem) -> None:
    losses = np.array([0.01, 0.7, 0.02, 0.69, 0.01])
    expected = r"Members 1 and 3 of 5 learnt nothing.*guessing, 0\.69.*median member is 0\.02.*rate \(now 0\.1\)"
    with pytest.warns(IdleMembersWarning, match=expected):
        warn_of_idle_members(losses, range(5), problem, 0.1)
    with pytest.warns(IdleMembersWarning, match=r"Member 1 of 3.*Lower the learning rate or take"):
        warn_of_idle_members(losses[:3], range(3), problem, None)


def test_fit_warns_of_a_member_whose_units_died_and_of_nothing_else() -> None:
    x = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    y = (x[:, 0] > 0).astype(int)
    network = nu.models.mlp(2, hidden=(8,))

    def init(key, x):
        """One initialisation in three, or so, has hidden units that no row switches on."""
        dead = jax.random.uniform(key) < 0.35
        variables = network.init(key, x)
        return jax.tree.map(lambda leaf: jnp.where(dead, 0.0, leaf), variables)

    options = {"method": "standard", "steps": 300, "learning_rate": 0.01, "seed": 1}
    with pytest.warns(IdleMembersWarning, match="learnt nothing"):
        nu.fit(nu.Model(init, network.apply), x, y, n_members=8, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nu.fit(network, x, y, n_members=8, **options)
