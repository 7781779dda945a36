"""PAC²B: the second-order bound for ensembles, with the variance also taken over unlabelled data if wished.

  mean over members and Z of -log p_k(y)  -  beta * mean of  h * Var_k[r_k],   r_k = p_k(y) / max_j p_j(y)

h depends on log(mean_j p_j / max_j p_j); neither it nor the maximum carries a gradient. The penalty on the weights
is the optimiser's weight decay.

Ortega, Cabañas and Masegosa, *Diversity and Generalization in Neural Network Ensembles*, 2022.
"""

from __future__ import annotations

from typing import ClassVar, Literal, get_args

import jax
import jax.numpy as jnp
from jax import Array

from nu_ensembles.checks import check_coefficient, check_name
from nu_ensembles.methods.losses import at_least_float32, log_likelihood
from nu_ensembles.methods.pac2 import jensen_h
from nu_ensembles.methods.protocol import BaseMethod, Batch, Forward, Shape, method

UnlabeledVariance = Literal["argmax", "expected"]


@method("beta")
class Pac2B(BaseMethod):
    """The PAC²B ensemble.

    Attributes:
      unlabeled: whether the variance is averaged over unlabelled points too, and under which label.
        None: labelled points only. "argmax": the most probable class of the averaged prediction, taken as given.
        "expected": all classes, weighted by the averaged prediction, which is differentiated.
      beta: weight of the variance; 1 is the bound. With unlabelled points and few labels take 0.01 or less: at 1
        nothing holds the members together where there are no labels.
    """

    unlabeled: UnlabeledVariance | None = None
    beta: float = 1.0

    name: ClassVar[str] = "pac2b"
    shape: ClassVar[Shape] = "joint"
    # To a type checker this is the protocol's class variable; the value depends on an option.
    uses_unlabeled: ClassVar[bool] = property(lambda self: self.unlabeled is not None)  # pyright: ignore[reportAssignmentType]

    def __post_init__(self) -> None:
        check_coefficient("beta", self.beta, "1 is the bound, 0 leaves out the variance")
        if self.unlabeled is not None:
            check_name(self.unlabeled, "unlabelled variance of pac2b", get_args(UnlabeledVariance))

    def loss(self, forward: Forward, batch: Batch) -> Array:
        batch = batch.on_the_same_rows()
        if self.unlabeled is None:
            (labelled,) = forward(batch.x)
            log_p = log_likelihood(labelled, batch.y)
            variances = batch.weight[0] * tight_variance(log_p)
        else:
            assert batch.x_unlabeled is not None
            labelled, unlabelled = forward(batch.x, batch.x_unlabeled)
            log_p = log_likelihood(labelled, batch.y)
            on_unlabeled = unlabeled_variance(unlabelled, self.unlabeled)
            variances = jnp.concatenate([batch.weight[0] * tight_variance(log_p), on_unlabeled])
        return -jnp.mean(batch.weight * log_p) - self.beta * jnp.mean(variances)


def tight_variance(log_p: Array) -> Array:
    """`h * Var_k[p_k / max_j p_j]` from log-likelihoods: `[K, ...]` -> `[...]`."""
    r = jnp.exp(log_p - jax.lax.stop_gradient(jnp.max(log_p, axis=0)))
    # The published limits.
    h = jensen_h(jnp.clip(jnp.log(jnp.mean(r, axis=0)), -10.0, -0.01))
    return jax.lax.stop_gradient(h) * jnp.var(r, axis=0)


def unlabeled_variance(logits: Array, label: UnlabeledVariance) -> Array:
    """The variance term of unlabelled points: logits `[K, B', C]` -> `[B']`."""
    log_p = jax.nn.log_softmax(at_least_float32(logits), axis=-1)
    averaged = jnp.mean(jnp.exp(log_p), axis=0)
    if label == "expected":
        return jnp.sum(averaged * tight_variance(log_p), axis=-1)
    top = jnp.argmax(averaged, axis=-1)[None, :, None]
    return tight_variance(jnp.take_along_axis(log_p, top, axis=-1)[..., 0])
