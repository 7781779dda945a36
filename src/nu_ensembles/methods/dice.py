"""DICE: members whose features share no more than the class tells, judged by discriminators that train beside them.

  sum_k [ CE_k  +  alpha * mean over j ≠ k of R_kj ],   R_kj = max(0, E_joint[t_kj] - log E_product[exp t_kj])

t_kj is a learned log-ratio of pairs of features of one point, (z_k(x), z_j(x), y), to pairs of two points of a class,
(z_k(x), z_j(x'), y); R_kj is then the Donsker-Varadhan estimate of the conditional redundancy I(Z_k; Z_j | Y).

Ramé and Cord, *DICE: Diversity in Deep Ensembles via Conditional Redundancy Adversarial Estimation*, 2021, without
their variational bottleneck. What keeps the game between networks and discriminators bounded here: features are
normalised per point and blurred by noise before a discriminator sees them (the classifier sees them as they are), t is
limited by a tanh and its layers are spectrally normalised, a negative estimate, which no redundancy can have, pulls at
nothing, and alpha grows from 0. Without these the networks fit their labels late or not at all
(`benchmarks/dice_convergence.py`).
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

import jax
import jax.numpy as jnp
import optax
from jax import Array

from nu_ensembles.checks import check_coefficient, check_whole, shown
from nu_ensembles.errors import InputError
from nu_ensembles.methods.forward import FeatureForward, Forward
from nu_ensembles.methods.losses import at_least_float32, cross_entropy
from nu_ensembles.methods.protocol import BaseMethod, Batch, Method, Shape, is_zero, method
from nu_ensembles.methods.standard import Standard

# Points of the same class that each point is paired with. More lower the noise of the estimate; in a batch of 32 from
# ten classes there are seldom more.
N_PARTNERS = 4


@method("alpha", "warm_up", "discriminator_learning_rate", "noise")
class Dice(BaseMethod):
    """A DICE ensemble. The redundancy is estimated on the labelled data, on batches that all members share.

    Attributes:
      alpha: weight of the redundancy; 0 is the standard ensemble.
      warm_up: steps over which alpha grows to its value, while the discriminators learn to judge.
      discriminator_learning_rate: of Adam; it should be larger than the networks', so that the judges keep up.
      noise: standard deviation of the noise on the normalised features, before the discriminators see them. It makes
        the redundancy of deterministic features finite.
      bound: of the log-ratio; no estimate exceeds twice this.
      hidden: units of the discriminators' two layers.
    """

    alpha: float = 1.0
    warm_up: float = 100
    discriminator_learning_rate: float = 3e-3
    noise: float = 0.3
    bound: float = 3.0
    hidden: int = 32

    name: ClassVar[str] = "dice"
    shape: ClassVar[Shape] = "joint"
    uses_unlabeled: ClassVar[bool] = False
    uses_features: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_coefficient("alpha", self.alpha, "0 is the standard ensemble")
        check_coefficient("warm_up", self.warm_up, "it is a number of steps")
        check_coefficient("noise", self.noise, "0 leaves the features as they are")
        for name in ("discriminator_learning_rate", "bound"):
            value = getattr(self, name)
            check_coefficient(name, value, "give one above 0")
            if is_zero(value):
                raise InputError(f"{name} must be a number above 0, not {shown(value)}.")
        check_whole(self.hidden, "hidden")

    def effective(self) -> Method:
        return Standard() if is_zero(self.alpha) else self

    def auxiliary(self, key: Array, n_features: int, n_classes: int) -> Any:
        """A member's discriminator: one encoder for when it comes first in a pair, one for when it comes second."""
        draw = jax.nn.initializers.lecun_normal()

        def encoder(key: Array) -> dict[str, Array]:
            keys = jax.random.split(key, 3)
            return {
                "features": draw(keys[0], (n_features, self.hidden)),
                "classes": draw(keys[1], (n_classes, self.hidden)),
                "out": draw(keys[2], (self.hidden, self.hidden)),
            }

        first, second = jax.random.split(key)
        return {"first": encoder(first), "second": encoder(second), "offset": jnp.zeros(())}

    def auxiliary_optimiser(self) -> optax.GradientTransformation:
        # Less momentum than usual: what the discriminators chase moves away from them.
        return optax.chain(
            optax.scale_by_adam(b1=0.5),
            optax.scale_by_learning_rate(self.discriminator_learning_rate),  # pyright: ignore[reportArgumentType]
        )

    def loss(self, forward: Forward, batch: Batch) -> Array:
        batch = batch.on_the_same_rows()
        assert batch.key is not None
        assert batch.step is not None
        logits, features = cast(FeatureForward, forward).with_features(batch.x)
        z, labels = blurred(features, batch.key, self.noise), batch.y[0]
        # The networks feel the redundancy and not the discriminators' loss, the discriminators the reverse.
        discriminators = with_bounded_slopes(batch.auxiliary)
        judged = log_ratios(jax.lax.stop_gradient(discriminators), z, labels, self.bound)
        learned = log_ratios(discriminators, jax.lax.stop_gradient(z), labels, self.bound)
        weight = self.alpha * jnp.clip(batch.step[0] / jnp.maximum(self.warm_up, 1), 0, 1)
        fit = jnp.sum(cross_entropy(logits, batch.y, batch.weight))
        penalty = weight * jnp.sum(over_others(redundancies(*judged)))
        judgement = jnp.sum(over_others(discriminator_losses(*learned)))
        # The last term has a gradient and the value zero: the loss that is reported is the networks' own.
        return fit + penalty + (judgement - jax.lax.stop_gradient(judgement))


def blurred(features: Array, keys: Array, noise: Array | float) -> Array:
    """Features `[K, B, F]` with mean 0 and variance 1 over F for every point, plus noise from the keys `[K]`."""
    features = at_least_float32(features)
    centred = features - jnp.mean(features, axis=-1, keepdims=True)
    # The margin keeps the gradient finite where all features are equal (all ReLUs off, say).
    z = centred * jax.lax.rsqrt(jnp.mean(centred**2, axis=-1, keepdims=True) + 1e-6)
    return z + noise * jax.vmap(lambda key, z: jax.random.normal(key, z.shape, z.dtype))(keys, z)


def log_ratios(discriminators: Any, z: Array, labels: Array, bound: float) -> tuple[Array, Array, Array]:
    """The discriminators' log-ratios of all pairs of members, in [-bound, bound].

    Args:
      discriminators: as `Dice.auxiliary` makes them, with a leading axis of members, after `with_bounded_slopes`.
      z: `[K, B, F]`; labels: int `[B]`.

    Returns:
      joint: `[K, K, B]`, of (z_k(x), z_j(x)).
      product: `[K, K, B, P]`, of (z_k(x), z_j(x')) for up to P partners x' of x.
      weights: `[B, P]`, of the partners: those of a point sum to its share among the points that have some.
    """

    def encoded(encoder: Any, z: Array) -> Array:
        return jax.nn.relu(z @ encoder["features"] + encoder["classes"][labels]) @ encoder["out"]

    def bounded(t: Array) -> Array:
        offset = discriminators["offset"].reshape(-1, *[1] * (t.ndim - 1))
        return bound * jnp.tanh((t / jnp.sqrt(first.shape[-1]) + offset) / bound)

    first = jax.vmap(encoded)(discriminators["first"], z)
    second = jax.vmap(encoded)(discriminators["second"], z)
    others, weights = partners(labels)
    joint = bounded(jnp.einsum("kbh,jbh->kjb", first, second))
    product = bounded(jnp.einsum("kbh,jbph->kjbp", first, second[:, others]))
    return joint, product, weights


def partners(labels: Array, n_partners: int = N_PARTNERS) -> tuple[Array, Array]:
    """For every point of the batch the next points of its class, round the batch; batches are in random order.

    Args:
      labels: int `[B]`.

    Returns:
      rows: int `[B, P]`, and weights: `[B, P]`, equal for the partners of a point, zero where there are no more. They
      sum to one over the batch, or to zero if no two points share a class.
    """
    row = jnp.arange(len(labels))
    ahead = (row[None, :] - row[:, None]) % len(labels)
    wanted = (labels[:, None] == labels[None, :]) & (ahead > 0)
    order = jnp.where(wanted, ahead, len(labels))
    rows = jnp.argsort(order, axis=1)[:, : min(n_partners, len(labels))]
    found = jnp.take_along_axis(wanted, rows, axis=1)
    n_found = jnp.sum(found, axis=1, keepdims=True)
    n_points = jnp.sum(n_found > 0)
    return rows, found / jnp.maximum(n_found * n_points, 1)


def redundancies(joint: Array, product: Array, weights: Array) -> Array:
    """The redundancy of every pair of members, `[K, K]`; a negative estimate counts as none."""
    return jax.nn.relu(estimates(joint, product, weights))


def estimates(joint: Array, product: Array, weights: Array) -> Array:
    """Donsker and Varadhan's `E_joint[t] - log E_product[exp t]` of every pair, `[K, K]`; zero without partners."""
    has_partners = jnp.sum(weights) > 0
    ratio = jnp.einsum("kjbp,bp->kj", jnp.exp(product), weights)
    return jnp.einsum("kjb,bp->kj", joint, weights) - jnp.log(jnp.where(has_partners, ratio, 1))


def discriminator_losses(joint: Array, product: Array, weights: Array) -> Array:
    """`E_joint[-log s(t)] + E_product[-log (1 - s(t))]`, s the logistic function, of every pair, `[K, K]`.

    2 log 2 where the pairs cannot be told apart; the minimum is reached by t = log of the true ratio.
    """
    taken_apart = jnp.einsum("kjb,bp->kj", jax.nn.softplus(-joint), weights)
    return taken_apart + jnp.einsum("kjbp,bp->kj", jax.nn.softplus(product), weights)


def over_others(pairs: Array) -> Array:
    """Mean over j ≠ k of `[K, K]`, for every k; zero for a single member."""
    n_members = len(pairs)
    return jnp.sum(jnp.where(jnp.eye(n_members, dtype=bool), 0, pairs), axis=1) / max(n_members - 1, 1)


def with_bounded_slopes(discriminators: Any) -> Any:
    """The discriminators with spectrally normalised layers: no encoder's slope exceeds 1 anywhere."""

    def normalised(encoder: Any) -> Any:
        return {**encoder, **{layer: jax.vmap(spectrally_normalised)(encoder[layer]) for layer in ("features", "out")}}

    first, second = normalised(discriminators["first"]), normalised(discriminators["second"])
    return {**discriminators, "first": first, "second": second}


def spectrally_normalised(kernel: Array) -> Array:
    """The matrix divided by its Schatten-8 norm, (sum of singular values^8)^(1/8).

    That norm is never below the largest singular value, so none of the result's exceeds 1, and it is at most 1.55 times
    it for 32 of them. Unlike power iteration it needs no vector to be kept from step to step.
    """
    # Scaled first: eighth powers could leave float32's range.
    scaled = kernel * jax.lax.rsqrt(jnp.sum(kernel**2) + 1e-12)
    gram = scaled.T @ scaled
    return scaled / jnp.sum((gram @ gram) ** 2) ** (1 / 8)
