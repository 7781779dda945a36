"""Agree to Disagree (D-BAT): each member is asked to differ from the earlier ones on the unlabelled data.

  mean CE over Z  +  alpha * mean over earlier m' of mean over U of -log(a (1 - b) + b (1 - a) + epsilon)

a and b are the probabilities that the earlier member m' and this one give to class k. Members train one after
another; the earlier ones are frozen, and what they say about U was computed once, in evaluation mode.

Pagliardini, Jaggi, Fleuret and Karimireddy, *Agree to Disagree: Diversity through Disagreement for Better
Transferability*, 2023.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal, get_args

import jax
import jax.numpy as jnp
from jax import Array

from nu_ensembles.checks import check_coefficient, check_name
from nu_ensembles.methods.losses import at_least_float32, cross_entropy
from nu_ensembles.methods.protocol import BaseMethod, Batch, Forward, Method, Shape, is_zero, method
from nu_ensembles.methods.standard import Standard

DisagreementVariant = Literal["v1", "v2", "as_published"]


@method("alpha")
class AgreeToDisagree(BaseMethod):
    """Members that disagree on the unlabelled data.

    Attributes:
      alpha: weight of the disagreement.
      variant: which class the two members are compared on, and how.
        "v1": the most probable class of the earlier member; "v2": of the current one.
        "as_published": what the comparison in the nu-ensembles paper was run with: v2 without epsilon, summed over the
        unlabelled batch instead of averaged, so that alpha means `unlabeled_batch_size` times as much.
      epsilon: keeps the logarithm away from zero.
    """

    alpha: float = 1e-5
    variant: DisagreementVariant = "v1"
    epsilon: float = 1e-7

    name: ClassVar[str] = "agree_to_disagree"
    shape: ClassVar[Shape] = "sequential"
    uses_unlabeled: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_coefficient("alpha", self.alpha, "0 is the standard ensemble")
        check_coefficient("epsilon", self.epsilon, "1e-7 is usual")
        check_name(self.variant, "variant of agree_to_disagree", get_args(DisagreementVariant))

    def effective(self) -> Method:
        return Standard() if is_zero(self.alpha) else self

    def loss(self, forward: Forward, batch: Batch) -> Array:
        assert batch.x_unlabeled is not None
        assert batch.previous is not None
        assert batch.n_previous is not None
        labelled, unlabelled = forward(batch.x, batch.x_unlabeled)
        published = self.variant == "as_published"
        each = disagreement_losses(
            unlabelled,
            batch.previous,
            compare_on="earlier" if self.variant == "v1" else "current",
            epsilon=0.0 if published else self.epsilon,
        )
        of_member = jnp.sum(each, axis=-1) if published else jnp.mean(each, axis=-1)
        # Members that are still to come are rows of zeros: they have a finite loss, which does not count.
        is_earlier = jnp.arange(len(of_member)) < batch.n_previous
        diversity = jnp.sum(jnp.where(is_earlier, of_member, 0)) / jnp.maximum(batch.n_previous, 1)
        return cross_entropy(labelled, batch.y, batch.weight) + self.alpha * diversity


def disagreement_losses(
    logits: Array, previous: Array, *, compare_on: Literal["earlier", "current"], epsilon: float
) -> Array:
    """`-log(a (1 - b) + b (1 - a) + epsilon)`, finite, with a finite gradient, for any logits and `epsilon >= 0`.

    Args:
      logits: `[B', C]`, of the current member.
      previous: `[K, B', C]`, probabilities of the earlier members; no gradient flows into them.
      compare_on: whose most probable class is k.

    Returns:
      `[K, B']`.
    """
    previous = jax.lax.stop_gradient(previous)
    log_p, log_not_p = log_probability_and_complement(logits)
    chosen = previous if compare_on == "earlier" else logits
    at_k = jnp.arange(logits.shape[-1]) == jnp.argmax(chosen, axis=-1, keepdims=True)

    def pick(values: Array) -> Array:
        return jnp.sum(jnp.where(at_k, values, 0), axis=-1)

    log_b, log_not_b, log_a = pick(log_p), pick(log_not_p), _log(pick(previous))
    # The sum of the others, since 1 - a would be nothing but rounding where a is near 1.
    log_not_a = _log(jnp.sum(jnp.where(at_k, 0, previous), axis=-1))
    log_differ = jnp.logaddexp(log_a + log_not_b, log_b + log_not_a)
    return -(jnp.logaddexp(log_differ, math.log(epsilon)) if epsilon > 0 else log_differ)


def log_probability_and_complement(logits: Array) -> tuple[Array, Array]:
    """`log p` and `log(1 - p)` of every class, both `[..., C]`, accurate also where p is near 0 or 1."""
    log_p = jax.nn.log_softmax(at_least_float32(logits), axis=-1)
    # Only the most probable class can be above 1/2; there, 1 - p is the sum of the others.
    is_top = jnp.arange(log_p.shape[-1]) == jnp.argmax(log_p, axis=-1, keepdims=True)
    log_others = jax.nn.logsumexp(jnp.where(is_top, -jnp.inf, log_p), axis=-1, keepdims=True)
    # The value in the place of the top class is arbitrary: it keeps an unused branch's gradient finite.
    log_not_p = jnp.log1p(-jnp.exp(jnp.where(is_top, -1.0, log_p)))
    return log_p, jnp.where(is_top, log_others, log_not_p)


def _log(p: Array) -> Array:
    return jnp.log(jnp.maximum(p, jnp.finfo(p.dtype).tiny))
