"""Agree to Disagree: its loss on literal numbers, at the edges of floating point, and what it refuses."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import nu_ensembles as nu
from nu_ensembles.errors import InputError
from nu_ensembles.methods import AgreeToDisagree, Batch, Standard
from nu_ensembles.methods.agree_to_disagree import disagreement_losses, log_probability_and_complement

# On each of four points the current member gives the classes 0.2, 0.3 and 0.5, and there is room for four earlier
# members, of which the first gives 0.6, 0.3 and 0.1, and the second the same in reverse.
CURRENT = jnp.log(jnp.tile(jnp.array([0.2, 0.3, 0.5]), (4, 1)))
FIRST = jnp.array([0.6, 0.3, 0.1])
EARLIER = jnp.broadcast_to(jnp.stack([FIRST, FIRST[::-1], 0 * FIRST, 0 * FIRST])[:, None], (4, 4, 3))
FIRST_ON_CLASS_0 = -math.log(0.6 * 0.8 + 0.2 * 0.4)
FIRST_ON_CLASS_2 = -math.log(0.1 * 0.5 + 0.5 * 0.9)
SECOND_ON_CLASS_2 = -math.log(0.6 * 0.5 + 0.5 * 0.4)
COIN = math.log(2)
# Compiling takes all the time here, less of it without optimisation.
quick_jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


@quick_jit
def loss_and_gradient(method: AgreeToDisagree, u: Array, previous: Array, n_previous: int) -> tuple[Array, Array]:
    """With one labelled point, whose prediction is a fair coin; the gradient is that with respect to `u`."""

    def loss(u: Array) -> Array:
        one = jnp.zeros((1, 2)), jnp.array([0]), jnp.ones(1)
        batch = Batch(*one, u, previous=previous, n_previous=jnp.asarray(n_previous))
        return method.loss(lambda *inputs: inputs, batch)

    return jax.value_and_grad(loss)(u)


def disagreement(method: AgreeToDisagree, u: Array, previous: Array, n_previous: int) -> float:
    return float(loss_and_gradient(method, u, previous, n_previous)[0]) - COIN


def test_members_are_compared_on_one_class() -> None:
    assert disagreement(AgreeToDisagree(0.5), CURRENT, EARLIER, 1) == pytest.approx(0.5 * FIRST_ON_CLASS_0, rel=1e-5)
    assert disagreement(AgreeToDisagree(0.5, "v2"), CURRENT, EARLIER, 1) == pytest.approx(
        0.5 * FIRST_ON_CLASS_2, rel=1e-5
    )


def test_the_points_are_averaged_and_as_published_summed() -> None:
    found = disagreement(AgreeToDisagree(1.0, "as_published"), CURRENT, EARLIER, 1)
    assert found == pytest.approx(4 * FIRST_ON_CLASS_2, rel=1e-5)


def test_the_mean_is_over_the_members_there_are() -> None:
    expected = [0.0, FIRST_ON_CLASS_0, (FIRST_ON_CLASS_0 + SECOND_ON_CLASS_2) / 2]
    found = [disagreement(AgreeToDisagree(1.0), CURRENT, EARLIER, n_previous) for n_previous in range(3)]
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("variant", ["v1", "v2", "as_published"])
def test_the_first_member_feels_nothing_of_the_unlabelled_data(variant: Any) -> None:
    value, gradient = loss_and_gradient(AgreeToDisagree(1.0, variant), CURRENT, 0 * EARLIER, 0)
    assert float(value) == pytest.approx(COIN)
    np.testing.assert_array_equal(gradient, np.zeros((4, 3)))


def test_epsilon_puts_a_finite_price_on_full_agreement() -> None:
    sure, same = jnp.tile(jnp.array([40.0, 0.0, 0.0]), (4, 1)), jnp.zeros((4, 4, 3)).at[..., 0].set(1.0)
    assert disagreement(AgreeToDisagree(1.0), sure, same, 3) == pytest.approx(math.log(1e7), rel=1e-5)
    assert disagreement(AgreeToDisagree(1.0, epsilon=1e-3), sure, same, 3) == pytest.approx(math.log(1e3), rel=1e-5)


def test_value_and_gradient_are_finite_however_sure_the_members_are() -> None:
    sizes = jnp.array([0.0, 1.0, 20.0, 90.0, 1e3, 1e6])
    logits = jnp.concatenate([sizes[:, None] * jnp.eye(3)[k] for k in range(3)])
    sure = jnp.array([[1.0, 0.0, 0.0], [1.0 - 1e-7, 1e-7, 0.0], [1.0, 1e-30, 1e-38], [0.0, 0.0, 0.0]])
    previous = jnp.broadcast_to(sure[:, None], (4, *logits.shape))

    @quick_jit
    def gradients_and_values(logits: Array) -> list[tuple[Array, Array]]:
        def total(logits: Array, compare_on: Any, epsilon: float) -> tuple[Array, Array]:
            each = disagreement_losses(logits, previous, compare_on=compare_on, epsilon=epsilon)
            return jnp.sum(each), each

        ways = itertools.product(("earlier", "current"), (0.0, 1e-7))
        return [jax.grad(total, has_aux=True)(logits, *way) for way in ways]

    for gradient, each in gradients_and_values(logits):
        assert np.isfinite(each).all()
        assert np.isfinite(gradient).all()
        # No earlier member pulls harder on a logit than a cross-entropy would.
        assert np.abs(gradient).max() <= len(previous)


def test_the_gradient_survives_where_one_minus_p_is_below_float32s_rounding() -> None:
    # Both are sure of class 0; 1 - b = e^-30 is lost in float32's 1 - p, and is all that the loss is about.
    logits = jnp.array([[30.0, 0.0]])
    sure = jnp.array([[[1.0, 0.0]]])

    def total(logits: Array) -> Array:
        return jnp.sum(disagreement_losses(logits, sure, compare_on="earlier", epsilon=0.0))

    value, gradient = quick_jit(jax.value_and_grad(total))(logits)
    assert float(value) == pytest.approx(30.0, rel=1e-6)
    np.testing.assert_allclose(gradient, [[1.0, -1.0]], rtol=1e-5)


def test_one_minus_p_keeps_its_digits_at_both_ends() -> None:
    log_p, log_not_p = quick_jit(log_probability_and_complement)(jnp.array([[0.0, 25.0, -50.0]]))
    exact = np.exp(np.array([0.0, 25.0, -50.0], np.float64))
    others = np.array([exact[1] + exact[2], exact[0] + exact[2], exact[0] + exact[1]])
    np.testing.assert_allclose(log_p[0], np.log(exact / exact.sum()), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(log_not_p[0], np.log(others / exact.sum()), rtol=2e-6, atol=1e-12)


def test_an_alpha_of_zero_is_the_standard_ensemble() -> None:
    assert AgreeToDisagree(0.0).effective() == Standard()
    assert AgreeToDisagree(1e-9).effective() == AgreeToDisagree(1e-9)


@pytest.mark.parametrize("alpha", [-1e-6, float("nan"), float("inf"), "0.1"])
def test_an_alpha_that_is_no_weight_is_refused(alpha: Any) -> None:
    with pytest.raises(InputError, match=r"alpha must be a number of at least 0, not .*; 0 is the standard ensemble"):
        AgreeToDisagree(alpha)


def test_other_bad_options_are_refused() -> None:
    with pytest.raises(InputError, match="epsilon must be a number of at least 0, not -1; 1e-7 is usual"):
        AgreeToDisagree(epsilon=-1)
    with pytest.raises(InputError, match=r"Unknown variant of agree_to_disagree 'v3'\. Did you mean 'v"):
        AgreeToDisagree(variant="v3")  # pyright: ignore[reportArgumentType]


def test_unlabelled_rows_that_are_augmented_anew_are_refused() -> None:
    images, u = np.zeros((4, 8, 8, 1), np.uint8), np.zeros((6, 8, 8, 1), np.uint8)
    with pytest.raises(
        InputError, match=r"'agree_to_disagree' compares .* cannot be augmented; leave augment_unlabeled out"
    ):
        nu.fit(
            "mlp", images, [0, 1, 0, 1], u, AgreeToDisagree(), 2, steps=1, augment="flip_crop", augment_unlabeled=True
        )


def test_it_cannot_train_its_members_at_once(blobs) -> None:
    with pytest.raises(InputError, match=r"'agree_to_disagree' trains its members one after another.*plan='auto'"):
        nu.fit("mlp", *blobs, method=AgreeToDisagree(), n_members=2, steps=1, plan="vectorised")
