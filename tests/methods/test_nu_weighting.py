"""Nu's unlabelled loss in units of the labelled one."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import pytest

from nu_ensembles.errors import InputError
from nu_ensembles.methods import Batch, Nu

# softmax(0, ln 3) = (1/4, 3/4): the labelled loss is ln 4, the unlabelled one ln(4/3).
LOGITS = jnp.array([[0.0, math.log(3.0)]])
BATCH = Batch(LOGITS, jnp.array([0]), jnp.ones(1), x_unlabeled=LOGITS, y_unlabeled=jnp.array([1]))


def loss(method: Nu, shift: float = 0.0) -> jax.Array:
    """The loss where the first logit of the labelled row is moved."""

    def forward(*inputs: jax.Array) -> tuple[jax.Array, ...]:
        x, u = inputs
        return x + jnp.array([shift, 0.0]), u

    return method.loss(forward, BATCH)


def test_a_constant_weight_is_the_papers() -> None:
    assert float(loss(Nu(0.5))) == pytest.approx(math.log(4) + 0.5 * math.log(4 / 3))


def test_the_weight_is_the_labelled_loss_over_log_c() -> None:
    expected = math.log(4) + 0.5 * math.log(4) / math.log(2) * math.log(4 / 3)
    assert float(loss(Nu(0.5, weighting="labelled_loss"))) == pytest.approx(expected)


def test_the_weight_has_no_gradient() -> None:
    plain, weighted = (jax.grad(lambda s, m=m: loss(m, s))(0.0) for m in (Nu(0.5), Nu(0.5, weighting="labelled_loss")))
    assert float(plain) == pytest.approx(float(weighted)) == pytest.approx(-3 / 4)


def test_an_unknown_weighting_is_refused() -> None:
    with pytest.raises(InputError, match="weighting"):
        Nu(0.1, weighting="sometimes")  # pyright: ignore[reportArgumentType]
