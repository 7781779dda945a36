"""PAC² and PAC²B: bounds that hold, numbers that keep their digits, members that meet on the same points."""

from __future__ import annotations

import functools
import math
from decimal import Decimal, localcontext
from typing import Any

import hypothesis
import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles.errors import InputError
from nu_ensembles.methods import Batch, Pac2, Pac2B, pac2, pac2b
from nu_ensembles.methods.pac2 import LOG_MARGIN

# Compiling takes all the time here, less of it without optimisation.
quick_jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
jensen_h, log_mean = quick_jit(pac2.jensen_h), quick_jit(pac2.log_mean)
variance_shares, published_penalty = quick_jit(pac2.variance_shares), quick_jit(pac2.published_penalty)
tight_variance = quick_jit(pac2b.tight_variance)
unlabeled_variance = quick_jit(pac2b.unlabeled_variance, static_argnums=1)


def exact_h(d: float) -> float:
    with localcontext() as context:
        context.prec = 60
        x = Decimal(d)
        ratio = x.exp()
        return float(x / (1 - ratio) ** 2 + 1 / (ratio * (1 - ratio)))


# Two members and a third between them, on two points alike.
P = np.array([0.2, 0.6, 0.4])
LOG_P = np.log(np.stack([P, P], axis=1)).astype(np.float32)


def test_h_keeps_its_digits_in_float32() -> None:
    d = np.array([-1e-5, -1e-4, -0.01, -0.1, -0.499, -0.501, -1.0, -5.0, -30.0], np.float32)
    np.testing.assert_allclose(jensen_h(d), [exact_h(float(each)) for each in d], rtol=2e-6)


def test_h_is_one_half_where_members_agree_and_never_less() -> None:
    d = np.concatenate([[0.0], -np.geomspace(1e-4, 200, 8)]).astype(np.float32)
    h = np.asarray(jensen_h(d))
    assert h[0] == pytest.approx(0.5, rel=2e-6)
    assert (np.diff(h) >= 0).all()
    assert np.isfinite(h).all()


def test_pac2_on_three_members() -> None:
    variance = 0.9999**2 * np.var(P)
    np.testing.assert_allclose(np.mean(variance_shares(LOG_P, 0.5), axis=0), [0.5 * variance] * 2, rtol=1e-5)
    tight = exact_h(math.log(0.4 * 0.9999)) * variance
    curvature = jensen_h(log_mean(LOG_P) + LOG_MARGIN)
    np.testing.assert_allclose(np.mean(variance_shares(LOG_P, curvature), axis=0), [tight] * 2, rtol=1e-5)


def test_pac2b_on_three_members() -> None:
    expected = exact_h(math.log(0.4 / 0.6)) * np.var(P / 0.6)
    np.testing.assert_allclose(tight_variance(LOG_P), [expected] * 2, rtol=1e-5)


def test_as_published_penalises_what_the_bound_rewards() -> None:
    q = P * 0.2
    np.testing.assert_allclose(published_penalty(LOG_P)[:, 0], q**2 + q * q.sum(), rtol=1e-5)


members = arrays.arrays(np.float32, (3, 2), elements=st.floats(-20, -0.0009765625, width=32))


@hypothesis.given(members)
def test_the_bounds_lie_above_the_ensembles_nll_and_the_tight_one_is_the_lower(log_p: np.ndarray) -> None:
    logs = np.asarray(log_mean(log_p))
    nll = -float(np.mean(logs))
    plain = -float(np.mean(log_p + variance_shares(log_p, 0.5)))
    tight = -float(np.mean(log_p + variance_shares(log_p, jensen_h(logs + LOG_MARGIN))))
    relative = -float(np.mean(log_p) + np.mean(tight_variance(log_p)))
    rounding = 1e-5 * (1 + nll)
    assert nll <= tight + rounding
    assert tight <= plain + rounding
    # PAC²B knows the largest of the members, and is tighter still; its clipped h overshoots by less than 1e-4.
    assert nll <= relative + rounding + 1e-4
    assert relative <= tight + rounding + 1e-4


@hypothesis.given(members, st.permutations(range(3)))
def test_the_order_of_members_does_not_matter(log_p: np.ndarray, order: list[int]) -> None:
    np.testing.assert_allclose(tight_variance(log_p), tight_variance(log_p[order]), rtol=1e-4, atol=1e-6)
    shares = np.asarray(variance_shares(log_p, 0.5))
    np.testing.assert_allclose(shares[order], variance_shares(log_p[order], 0.5), atol=1e-6)


def test_neither_h_nor_the_maximum_carries_a_gradient() -> None:
    r, h = P / 0.6, exact_h(math.log(0.4 / 0.6))
    gradient = quick_jit(jax.grad(lambda log_p: jnp.sum(pac2b.tight_variance(log_p))))(LOG_P)
    np.testing.assert_allclose(gradient[:, 0], h * 2 / 3 * r * (r - r.mean()), rtol=1e-5, atol=1e-7)


def test_an_unlabelled_point_counts_under_its_likeliest_class_or_under_all() -> None:
    p = np.array([[[0.7, 0.2, 0.1]], [[0.5, 0.1, 0.4]]])
    each = np.array([exact_h(math.log(a.mean() / a.max())) * np.var(a / a.max()) for a in p[:, 0].T])
    logits = np.log(p).astype(np.float32)
    assert float(unlabeled_variance(logits, "argmax")[0]) == pytest.approx(each[0], rel=1e-5)
    assert float(unlabeled_variance(logits, "expected")[0]) == pytest.approx(each @ p.mean(axis=0)[0], rel=1e-5)


JOINT = [Pac2("tight"), Pac2("as_published"), Pac2B("expected")]


@pytest.mark.parametrize("method", JOINT)
def test_members_meet_on_the_first_ones_rows_and_a_weight_of_two_is_a_sample_twice(method: Any) -> None:
    rows = jax.random.normal(jax.random.key(0), (3, 2, 4))
    labels = jnp.array([[1, 2], [0, 0], [3, 0]])
    factors = jnp.array([1.0, 2.0, 3.0])[:, None, None]

    @quick_jit
    def loss_and_inputs(x: jax.Array, y: jax.Array, weight: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        seen: list[jax.Array] = []

        def forward(*inputs: jax.Array) -> tuple[jax.Array, ...]:
            seen.extend(inputs)
            return tuple(factors * each for each in inputs)

        return method.loss(forward, Batch(x, y, jnp.tile(weight, (3, 1)), rows)), tuple(seen)

    found, seen = loss_and_inputs(rows, labels, jnp.array([2.0, 0.0]))
    for each in seen:
        np.testing.assert_array_equal(each, np.broadcast_to(rows[:1], rows.shape))
    twice, _ = loss_and_inputs(rows[:, [0, 0]], labels[:, [0, 0]], jnp.ones(2))
    assert float(found) == pytest.approx(float(twice), rel=1e-5)
    # What the other members would have drawn themselves plays no part.
    same, _ = loss_and_inputs(rows.at[1:].set(0.0), labels.at[1:].set(0), jnp.array([2.0, 0.0]))
    assert float(found) == float(same)


def test_pac2b_takes_unlabelled_data_where_an_option_says_so() -> None:
    assert not Pac2B().uses_unlabeled
    assert Pac2B("argmax").uses_unlabeled
    assert Pac2B("expected").uses_unlabeled


@pytest.mark.parametrize("method", [Pac2, Pac2B])
def test_a_negative_weight_of_the_variance_is_refused(method: Any) -> None:
    with pytest.raises(InputError, match="beta must be a number of at least 0, not -1; 1 is the bound"):
        method(beta=-1)


def test_unknown_variants_suggest_the_nearest() -> None:
    with pytest.raises(InputError, match=r"Unknown variant of pac2 'tigth'\. Did you mean 'tight'"):
        Pac2("tigth")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match=r"Unknown unlabelled variance of pac2b 'arg_max'\. Did you mean 'argmax'"):
        Pac2B("arg_max")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("method", [Pac2(), Pac2B()])
def test_a_joint_method_cannot_train_member_after_member_and_says_why(blobs, method: Any) -> None:
    with pytest.raises(InputError, match="has one loss over all members, so they must train together; use plan="):
        nu.fit("mlp", *blobs, method=method, n_members=2, steps=1, plan="sequential")
