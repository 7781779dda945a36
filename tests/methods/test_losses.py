"""Cross-entropy: literal values, weights, and what half precision must not do to it."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
import pytest

from nu_ensembles.methods.losses import cross_entropy, uniform_cross_entropy

# softmax(0, ln 3) = (1/4, 3/4)
LOGITS = jnp.array([[0.0, math.log(3.0)], [0.0, math.log(3.0)]])


def test_the_mean_over_the_batch_of_minus_log_p() -> None:
    assert float(cross_entropy(LOGITS, jnp.array([0, 1]))) == pytest.approx((math.log(4) + math.log(4 / 3)) / 2)


def test_weights_multiply_and_their_sum_does_not_divide() -> None:
    weights = jnp.array([3.0, 0.0])
    assert float(cross_entropy(LOGITS, jnp.array([0, 1]), weights)) == pytest.approx(3 * math.log(4) / 2)


def test_leading_axes_stay() -> None:
    stacked = jnp.stack([LOGITS, 0 * LOGITS])
    labels = jnp.array([[0, 1], [0, 1]])
    np.testing.assert_allclose(
        cross_entropy(stacked, labels), [(math.log(4) + math.log(4 / 3)) / 2, math.log(2)], rtol=1e-6
    )


def test_a_shift_of_all_logits_changes_nothing_even_a_large_one() -> None:
    assert float(cross_entropy(LOGITS + 1e4, jnp.array([0, 1]))) == pytest.approx(
        float(cross_entropy(LOGITS, jnp.array([0, 1]))), rel=1e-3
    )


def test_the_uniform_target_is_the_mean_over_all_labels() -> None:
    by_label = [float(cross_entropy(LOGITS, jnp.array([label, label]))) for label in (0, 1)]
    assert float(uniform_cross_entropy(LOGITS)) == pytest.approx(np.mean(by_label))
    assert float(uniform_cross_entropy(0 * LOGITS)) == pytest.approx(math.log(2))


@pytest.mark.parametrize("loss", [lambda x: cross_entropy(x, jnp.array([0, 1])), uniform_cross_entropy])
def test_half_precision_logits_give_a_float32_loss(loss) -> None:
    assert loss(LOGITS.astype(jnp.bfloat16)).dtype == jnp.float32
