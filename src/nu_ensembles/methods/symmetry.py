"""Losses that make a member invariant or equivariant to a group of transformations of the image.

  invariant:    CE(g x, y),                         g drawn for each row
  equivariant:  CE(x, y) + weight * CE(head(features(g x)), g),   which g it was has to be told from the features

Loh et al., *Multi-Symmetry Ensembles: Improving Diversity and Generalization via Opposing Symmetries*, 2023, train
such networks by contrast before they see a label; here both are part of one supervised loss. With beta > 0 there are
random labels on the unlabelled rows, as in a nu-ensemble; the equivariant member turns those, too.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

import jax
import jax.numpy as jnp
import optax
from jax import Array

from nu_ensembles.methods.forward import FeatureForward, Forward
from nu_ensembles.methods.labels import TargetsAt, random_labels, random_labels_at
from nu_ensembles.methods.losses import at_least_float32, cross_entropy
from nu_ensembles.methods.protocol import BaseMethod, Batch, Shape, method
from nu_ensembles.models.image_maps import GROUPS

HEAD_RATE = 1e-3


class SymmetricLoss(BaseMethod):
    """What both have in common: the random labels."""

    shape: ClassVar[Shape] = "independent"
    beta: float
    with_unlabeled: bool

    @property
    def uses_unlabeled(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]  # an option decides
        return self.with_unlabeled

    def unlabeled_targets(self, key: Array, n_points: int, n_classes: int, n_members: int) -> Array | None:
        return random_labels(key, n_points, n_classes, n_members)

    def unlabeled_targets_at(self, key: Array, n_points: int, n_classes: int, n_members: int) -> TargetsAt | None:
        return random_labels_at(key, n_points, n_classes, n_members)

    def fit(self, forward: Forward, batch: Batch, x: Array, u: Array | None) -> Array:
        """CE of the labelled rows, and beta times that of the unlabelled ones on their random labels."""
        if u is None or batch.y_unlabeled is None:
            (logits,) = forward(x)
            return cross_entropy(logits, batch.y, batch.weight)
        on_z, on_u = forward(x, u)
        return cross_entropy(on_z, batch.y, batch.weight) + self.beta * cross_entropy(on_u, batch.y_unlabeled)


@method("beta")
class Invariant(SymmetricLoss):
    """The label of a row is that of all its transformations.

    Attributes:
      group: one of `GROUPS`.
      beta: weight of the random labels.
      with_unlabeled: whether there are any.
    """

    group: str = "rotations"
    beta: float = 0.0
    with_unlabeled: bool = False

    name: ClassVar[str] = "invariant"

    def loss(self, forward: Forward, batch: Batch) -> Array:
        assert batch.key is not None
        of_x, of_u = jax.random.split(batch.key)
        x, _ = drawn(of_x, batch.x, self.group)
        u = batch.x_unlabeled if self.with_unlabeled else None
        return self.fit(forward, batch, x, None if u is None else drawn(of_u, u, self.group)[0])


@method("beta", "weight")
class Equivariant(SymmetricLoss):
    """The features of a row tell how it was transformed.

    Attributes:
      group: one of `GROUPS`.
      beta: weight of the random labels.
      weight: of telling the transformation.
      with_unlabeled: whether there are random labels.
    """

    group: str = "rotations"
    beta: float = 0.0
    weight: float = 0.4
    with_unlabeled: bool = False

    name: ClassVar[str] = "equivariant"
    uses_features: ClassVar[bool] = True

    def auxiliary(self, key: Array, n_features: int, n_classes: int) -> Any:
        """The head that tells the transformation from the features."""
        shape = n_features, len(GROUPS[self.group])
        return {"kernel": jax.nn.initializers.lecun_normal()(key, shape), "bias": jnp.zeros(shape[1])}

    def auxiliary_optimiser(self) -> optax.GradientTransformation:
        return optax.adam(HEAD_RATE)

    def loss(self, forward: Forward, batch: Batch) -> Array:
        assert batch.key is not None
        u = batch.x_unlabeled if self.with_unlabeled else None
        fit = self.fit(forward, batch, batch.x, u)
        moved, which = drawn(batch.key, batch.x if u is None else jnp.concatenate([batch.x, u]), self.group)
        _, features = cast(FeatureForward, forward).with_features(moved)
        told = at_least_float32(features) @ batch.auxiliary["kernel"] + batch.auxiliary["bias"]
        return fit + self.weight * cross_entropy(told, which)


def drawn(key: Array, x: Array, group: str) -> tuple[Array, Array]:
    """Each row under a transformation of its own from the group, and which that was, int `[B]`."""
    every = jnp.stack([each(x) for each in GROUPS[group]])
    which = jax.random.randint(key, (len(x),), 0, len(every))
    return every[which, jnp.arange(len(x))], which
