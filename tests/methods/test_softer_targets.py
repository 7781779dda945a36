"""Label smoothing, mixup and the confidence penalty on literal numbers."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from nu_ensembles.errors import InputError
from nu_ensembles.methods import Batch, ConfidencePenalty, LabelSmoothing, Mixup, Nu, Standard
from nu_ensembles.methods.mixup import symmetric_beta

KEY = jax.random.key(5)
# softmax(0, ln 3) = (1/4, 3/4)
LOGITS = jnp.array([[0.0, math.log(3.0)], [0.0, math.log(3.0)]])
LABELS = jnp.array([0, 1])


def loss(method: Any, weight: list[float], **more: Any) -> float:
    return float(method.loss(lambda *inputs: inputs, Batch(LOGITS, LABELS, jnp.array(weight), **more)))


def test_smoothed_labels_share_epsilon_among_all_classes() -> None:
    right, wrong = -math.log(3 / 4), -math.log(1 / 4)
    # Targets (0.9, 0.1) and (0.1, 0.9) on predictions (1/4, 3/4).
    expected = (0.9 * wrong + 0.1 * right + 0.1 * wrong + 0.9 * right) / 2
    assert loss(LabelSmoothing(0.2), [1.0, 1.0]) == pytest.approx(expected)


def test_smoothing_honours_the_weights() -> None:
    assert loss(LabelSmoothing(0.2), [2.0, 0.0]) == pytest.approx(0.9 * math.log(4) + 0.1 * math.log(4 / 3))


def test_the_confidence_penalty_is_nu_with_a_uniform_target() -> None:
    more = {"x_unlabeled": jnp.array([[0.0, 9.0]])}
    assert loss(ConfidencePenalty(0.5), [0.5, 1.5], **more) == loss(Nu(0.5, "uniform"), [0.5, 1.5], **more)
    assert ConfidencePenalty().unlabeled_targets(KEY, 10, 3, 2) is None


def test_mixup_mixes_neighbours_and_their_labels_anew_with_every_key() -> None:
    x = jnp.array([[0.0, 2.0], [0.0, -1.0], [0.0, 4.0]])
    labels, weight = np.array([0, 1, 1]), np.array([0.5, 1.0, 1.5], np.float32)

    @jax.jit
    def losses_and_shares(keys: jax.Array) -> tuple[jax.Array, jax.Array]:
        def one(key: jax.Array) -> tuple[jax.Array, jax.Array]:
            batch = Batch(x, jnp.array(labels), jnp.array(weight), key=key)
            return Mixup(0.4).loss(lambda *inputs: inputs, batch), symmetric_beta(key, 0.4)

        return jax.vmap(one)(keys)

    losses, shares = (np.asarray(each, np.float64) for each in losses_and_shares(jax.random.split(KEY, 5)))
    assert len(set(shares)) == 5
    z, partner = np.array([2.0, -1.0, 4.0]), np.array([2, 0, 1])
    for loss_of_key, share in zip(losses, shares, strict=True):
        mixed = share * z + (1 - share) * z[partner]
        # -log p of class 0 and class 1 for logits (0, z).
        costs = np.stack([np.log1p(np.exp(mixed)), np.log1p(np.exp(-mixed))])
        own, other = weight * costs[labels, range(3)], weight[partner] * costs[labels[partner], range(3)]
        assert loss_of_key == pytest.approx(np.mean(share * own + (1 - share) * other), rel=1e-5)


def test_shares_follow_the_beta_distribution_for_small_and_large_alpha() -> None:
    alphas = np.array([0.01, 0.1, 0.4, 0.5, 0.51, 1.0, 8.0], np.float32)
    draw = jax.jit(jax.vmap(jax.vmap(symmetric_beta, in_axes=(0, None)), in_axes=(None, 0)))
    draws = np.asarray(draw(jax.random.split(KEY, 4000), alphas), np.float64)
    assert ((draws >= 0) & (draws <= 1)).all()
    for alpha, found in zip(alphas, draws, strict=True):
        # Float32 rounds shares next to 1 to 1, which the distribution function of a small alpha would notice.
        inside = found[(found > 1e-6) & (found < 1 - 1e-6)]
        law = scipy.stats.beta(alpha, alpha)
        low, high = law.cdf([1e-6, 1 - 1e-6])
        assert scipy.stats.kstest(inside, lambda x, law=law, a=low, b=high: (law.cdf(x) - a) / (b - a)).pvalue > 1e-3
        assert len(inside) / len(found) == pytest.approx(high - low, abs=0.03)
        assert found.mean() == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("method", [LabelSmoothing(0.0), Mixup(0.0), ConfidencePenalty(0.0)])
def test_zero_is_the_standard_ensemble(method: Any) -> None:
    assert method.effective() == Standard()


@pytest.mark.parametrize("method", [LabelSmoothing(), Mixup(), ConfidencePenalty()])
def test_the_default_is_not(method: Any) -> None:
    assert method.effective() == method
    assert len(jax.tree.leaves(method)) == 1


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: LabelSmoothing(1.0), "epsilon must be a number of at least 0 and below 1, not 1.0"),
        (lambda: LabelSmoothing(-0.1), "epsilon must be a number of at least 0 and below 1, not -0.1"),
        (lambda: Mixup(-0.1), "alpha must be a number of at least 0, not -0.1; 0 is the standard ensemble"),
        (lambda: ConfidencePenalty(math.nan), "beta must be a number of at least 0, not nan; 0 is the standard"),
    ],
)
def test_numbers_out_of_range_are_refused(make: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        make()
