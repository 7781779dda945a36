"""Repulsive ensembles: members that follow a gradient flow to the posterior instead of its modes.

  w_k  <-  w_k + step * ( grad log p(w_k | Z) - grad log q(w_k) ),    q the density of the members

D'Angelo and Fortuin, *Repulsive Deep Ensembles are Bayesian*, 2021. The kernel between members compares their weights
or, in function space, their logits on the batch's rows. `particles.py` has the flows. The loss is the mean over the
rows, as everywhere here, so that what drives members apart is divided by their number n; the prior on the weights is
the optimiser's weight decay.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, cast, get_args

import jax
import jax.numpy as jnp
from jax import Array

from nu_ensembles.checks import check_coefficient, check_name
from nu_ensembles.methods.forward import Forward, ParameterForward
from nu_ensembles.methods.losses import cross_entropy
from nu_ensembles.methods.particles import Flow, ScoreEstimator, density_score, direction
from nu_ensembles.methods.protocol import BaseMethod, Batch, Method, Shape, is_zero, method
from nu_ensembles.methods.standard import Standard

Space = Literal["weight", "function"]


@method("repulsion")
class RepulsiveEnsemble(BaseMethod):
    """A repulsive ensemble.

    Attributes:
      space: where members are compared: "function" compares logits on the batch, "weight" all weights.
      form: "wgd", the Wasserstein gradient flow, or "svgd", Stein's, in which members share their gradients, too.
      estimator: how "wgd" estimates the density of the members: "kde" (kernel density), "sge" (Stein gradient
        estimator) or "ssge" (spectral Stein gradient estimator).
      repulsion: times what drives members apart; 1 is the posterior. 0 is the standard ensemble under "wgd".
    """

    space: Space = "function"
    form: Flow = "wgd"
    estimator: ScoreEstimator = "kde"
    repulsion: float = 1.0

    name: ClassVar[str] = "repulsive"
    shape: ClassVar[Shape] = "joint"
    uses_unlabeled: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_coefficient("repulsion", self.repulsion, "1 is the posterior, 0 leaves members to themselves")
        choices = {"space": Space, "form": Flow, "estimator": ScoreEstimator}
        for option, names in choices.items():
            check_name(getattr(self, option), f"{option} of a repulsive ensemble", get_args(names))

    def effective(self) -> Method:
        return Standard() if is_zero(self.repulsion) and self.form == "wgd" else self

    def loss(self, forward: Forward, batch: Batch) -> Array:
        assert batch.n_rows is not None
        strength = self.repulsion / batch.n_rows[0]
        if self.space == "function":
            return self._in_function_space(forward, batch.on_the_same_rows(), strength)
        return self._in_weight_space(cast(ParameterForward, forward), batch, strength)

    def _in_function_space(self, forward: Forward, batch: Batch, strength: Array) -> Array:
        (logits,) = forward(batch.x)

        def fit(logits: Array) -> Array:
            return jnp.sum(cross_entropy(logits, batch.y, batch.weight))

        value, slopes = jax.value_and_grad(fit)(jax.lax.stop_gradient(logits))
        flat, scores = (each.reshape(len(logits), -1) for each in (logits, -slopes))
        moved = direction(jax.lax.stop_gradient(flat), scores, self.form, self.estimator, strength)
        return value + with_gradient(flat, -moved)

    def _in_weight_space(self, forward: ParameterForward, batch: Batch, strength: Array) -> Array:
        (logits,) = forward(batch.x)
        fit = jnp.sum(cross_entropy(logits, batch.y, batch.weight))
        weights = as_rows(forward.params)
        still = jax.lax.stop_gradient(weights)
        if self.form == "wgd":
            return fit + with_gradient(weights, strength * density_score(still, self.estimator))

        def fit_at(params: Any) -> Array:
            (logits,) = forward.at(params)(batch.x)
            return jnp.sum(cross_entropy(logits, batch.y, batch.weight))

        slopes = as_rows(jax.grad(fit_at)(jax.lax.stop_gradient(forward.params)))
        moved = direction(still, -slopes, self.form, self.estimator, strength)
        return jax.lax.stop_gradient(fit) + with_gradient(weights, -moved)


def with_gradient(values: Array, gradient: Array) -> Array:
    """A scalar that is 0 and has this derivative by the values: so the loss that is told remains the fit."""
    product = jnp.sum(values * jax.lax.stop_gradient(gradient))
    return product - jax.lax.stop_gradient(product)


def as_rows(params: Any) -> Array:
    """The weights of each member as one row, `[K, P]`; params: leaves `[K, …]`."""
    return jnp.concatenate([leaf.reshape(len(leaf), -1) for leaf in jax.tree.leaves(params)], axis=1)
