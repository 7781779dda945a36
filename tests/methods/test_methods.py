"""The methods as the engine and the user meet them: labels, beta, names, and their form as pytrees."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles import methods
from nu_ensembles.errors import InputError
from nu_ensembles.methods import Batch, Nu, Standard

KEY = jax.random.key(3)


def targets(scheme: Any, n_members: int) -> np.ndarray:
    found = Nu(labels=scheme).unlabeled_targets(KEY, 600, 3, n_members)
    assert found is not None
    return np.asarray(found)


def test_without_replacement_is_algorithm_1() -> None:
    assert (targets("without_replacement", 5) == np.asarray(nu.random_labels(KEY, 600, 3, 5))).all()


def test_with_replacement_members_draw_on_their_own() -> None:
    labels = targets("with_replacement", 3)
    assert labels.shape == (3, 600)
    assert np.bincount(labels.ravel(), minlength=3).min() > 500
    # Two independent draws of three labels agree on a third of the points.
    assert [np.mean(labels[i] == labels[j]) for i, j in ((0, 1), (0, 2), (1, 2))] == pytest.approx(
        [1 / 3] * 3, abs=0.07
    )


def test_a_shared_label_is_the_same_for_all_members() -> None:
    labels = targets("shared", 3)
    assert (labels == labels[0]).all()
    assert np.bincount(labels[0], minlength=3).min() > 150


def test_the_uniform_target_needs_no_labels_and_penalises_confidence() -> None:
    assert Nu(labels="uniform").unlabeled_targets(KEY, 600, 3, 3) is None
    x, confident = jnp.zeros((1, 2)), jnp.array([[0.0, 9.0]])
    batch = Batch(x, jnp.array([0]), jnp.ones(1), x_unlabeled=confident)
    loss = Nu(beta=0.5, labels="uniform").loss(lambda *inputs: inputs, batch)
    # CE of a fair coin is ln 2; the uniform target costs (0 + 9)/2 nats on logits (0, 9), up to log(1 + e^-9).
    assert float(loss) == pytest.approx(np.log(2) + 0.5 * (4.5 + np.log1p(np.exp(-9))), rel=1e-6)


@pytest.mark.parametrize("scheme", ["without_replacement", "with_replacement", "shared"])
def test_members_keep_their_labels_when_members_are_added(scheme: str) -> None:
    assert (targets(scheme, 7)[:2] == targets(scheme, 2)).all()


@pytest.mark.parametrize("zero", [0, 0.0, np.float32(0), np.float64(0), np.int64(0)])
def test_a_beta_of_zero_is_the_standard_ensemble(zero: Any) -> None:
    assert Nu(beta=zero).effective() == Standard()


def test_any_other_beta_stays_what_it_is() -> None:
    assert Nu(beta=1e-9).effective() == Nu(beta=1e-9)
    assert Standard().effective() == Standard()


@pytest.mark.parametrize("beta", [-0.1, -1, float("nan"), float("inf"), np.float32(-0.1), "0.1"])
def test_a_beta_that_is_no_weight_is_refused(beta: Any) -> None:
    with pytest.raises(InputError, match=r"beta must be a number of at least 0, not .*; 0 is the standard ensemble"):
        Nu(beta=beta)


def test_an_unknown_label_scheme_suggests_the_nearest() -> None:
    with pytest.raises(
        InputError, match=r"Unknown label scheme 'without_replacment'. Did you mean 'without_replacement'"
    ):
        Nu(labels="without_replacment")  # pyright: ignore[reportArgumentType]


def test_methods_are_built_by_name() -> None:
    assert methods.build("standard") == Standard()
    assert methods.build("nu", beta=0.3, labels="shared") == Nu(0.3, "shared")
    assert set(methods.METHODS) >= {"standard", "nu"}


def test_an_unknown_method_suggests_the_nearest() -> None:
    with pytest.raises(InputError, match=r"Unknown method 'standart'\. Did you mean 'standard'\? Known: .*nu"):
        methods.build("standart")


def test_an_unknown_option_suggests_the_nearest() -> None:
    with pytest.raises(InputError, match=r"Unknown option of method 'nu' 'bata'. Did you mean 'beta'"):
        methods.build("nu", bata=0.1)


def test_options_of_a_method_without_any_are_refused() -> None:
    with pytest.raises(InputError, match="The method 'standard' takes no options; leave out 'beta'"):
        methods.build("standard", beta=0.1)


def test_hyper_parameters_are_plain_values() -> None:
    expected = {"beta": 0.3, "labels": "without_replacement", "weighting": "constant"}
    assert methods.hyper_parameters(Nu(0.3)) == expected
    assert methods.hyper_parameters(Standard()) == {}


def test_a_method_is_a_pytree_whose_beta_is_traced_and_whose_scheme_is_not() -> None:
    assert jax.tree.leaves(Nu(0.25)) == [0.25]
    assert jax.tree.leaves(Standard()) == []
    assert jax.tree.structure(Nu(0.25)) == jax.tree.structure(Nu(0.5))
    assert jax.tree.structure(Nu(0.25)) != jax.tree.structure(Nu(0.25, "shared"))


def test_a_new_beta_compiles_nothing() -> None:
    @jax.jit
    def loss(method: Nu) -> jax.Array:
        one, two = jnp.zeros((1, 2)), jnp.array([[0.0, 1.0]])
        batch = Batch(one, jnp.array([0]), jnp.ones(1), two, jnp.array([1]))
        return method.loss(lambda *inputs: inputs, batch)

    losses = [float(loss(Nu(beta))) for beta in (0.1, 0.2, 3.0)]
    assert losses == pytest.approx([np.log(2) + beta * np.log1p(np.exp(-1)) for beta in (0.1, 0.2, 3.0)])
    assert loss._cache_size() == 1  # pyright: ignore[reportAttributeAccessIssue]


def test_a_method_is_frozen() -> None:
    with pytest.raises(AttributeError):
        Nu().beta = 1.0  # pyright: ignore[reportAttributeAccessIssue]
