"""Feature-space flow: members that follow a gradient flow in the space of what enters the last layer, point by point.

  v_k = grad log p(y | h_k) + grad log p(h_k) - grad log q(h_k),    h_k = features of member k at x, q their density

Each member's weights then follow its features: w_k <- w_k + step * (dh_k/dw_k)' v_k. The density lives on a projection
of the features to 5 dimensions; the prior is a wide Cauchy distribution of every feature, whose heavy tails let
features be large.

Yashima, Suzuki, Ishikawa, Sato and Kawakami, *Feature Space Particle Inference for Neural Network Ensembles*, 2022;
dimensions and width are those of the authors' program. There the subspace comes from the members' gradients on a whole
batch; here it is drawn at random in every step, and each row has a density of its own.
"""

from __future__ import annotations

from typing import ClassVar, Literal, cast, get_args

import jax
import jax.numpy as jnp
from jax import Array

from nu_ensembles.checks import check_coefficient, check_name, check_positive, check_whole
from nu_ensembles.methods.forward import FeatureForward, Forward
from nu_ensembles.methods.losses import at_least_float32, cross_entropy
from nu_ensembles.methods.particles import density_score
from nu_ensembles.methods.protocol import BaseMethod, Batch, Shape, method
from nu_ensembles.methods.repulsive import with_gradient

FeaturePrior = Literal["cauchy", "normal", "flat"]


@method("repulsion")
class FeatureFlow(BaseMethod):
    """An ensemble whose members spread in feature space.

    Attributes:
      repulsion: times what drives features apart; 1 is the posterior of the features.
      n_dimensions: of the subspace in which features are compared; more than there are features means all.
      prior: of every feature h: "cauchy", which falls as 1 / (1 + c h²), "normal", as exp(-c h² / 2), or "flat".
      prior_precision: c.
    """

    repulsion: float = 1.0
    n_dimensions: int = 5
    prior: FeaturePrior = "cauchy"
    prior_precision: float = 0.005

    name: ClassVar[str] = "feature_flow"
    shape: ClassVar[Shape] = "joint"
    uses_unlabeled: ClassVar[bool] = False
    uses_features: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_coefficient("repulsion", self.repulsion, "1 is the posterior, 0 leaves members to themselves")
        check_whole(self.n_dimensions, "n_dimensions")
        check_positive(self.prior_precision, "prior_precision")
        check_name(self.prior, "prior of features", get_args(FeaturePrior))

    def loss(self, forward: Forward, batch: Batch) -> Array:
        batch = batch.on_the_same_rows()
        assert batch.key is not None
        logits, features = cast(FeatureForward, forward).with_features(batch.x)
        fit = jnp.sum(cross_entropy(logits, batch.y, batch.weight))
        h = at_least_float32(features)
        z = jnp.einsum("kbf,fd->kbd", h, subspace(batch.key[0], h.shape[-1], self.n_dimensions))
        still = jax.lax.stop_gradient(z)
        density = jax.vmap(lambda of_row: density_score(of_row, "kde"), in_axes=1, out_axes=1)(still)
        prior = prior_score(jax.lax.stop_gradient(h), self.prior, self.prior_precision)
        share = (batch.weight[0] / z.shape[1])[:, None]
        return fit + with_gradient(z, self.repulsion * density * share) + with_gradient(h, -prior * share)


def subspace(key: Array, n_features: int, n_dimensions: int) -> Array:
    """An orthonormal basis `[F, D]` of a random subspace; the identity where there are no more features than that."""
    if n_dimensions >= n_features:
        return jnp.eye(n_features)
    return jnp.linalg.qr(jax.random.normal(key, (n_features, n_dimensions)))[0]


def prior_score(h: Array, prior: FeaturePrior, precision: float) -> Array:
    """The gradient of log p(h), of the shape of h.

    Args:
      precision: c.
    """
    if prior == "flat":
        return jnp.zeros_like(h)
    return -precision * h if prior == "normal" else -2 * precision * h / (1 + precision * h**2)
