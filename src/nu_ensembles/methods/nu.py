"""nu-ensembles: every member also fits its own random labels on the unlabelled data [Algorithm 1, eq. 5].

  L(Z)  +  beta * L(U_i)  (+ gamma ‖w_i‖², the weight decay, which belongs to the optimiser)

L is the mean cross-entropy. U_i carries member i's labels, drawn once. At beta = 0 this is the standard ensemble, and
runs as such.
"""

from __future__ import annotations

from typing import ClassVar, Literal, get_args

import jax
import jax.numpy as jnp
from jax import Array

from nu_ensembles.checks import check_coefficient, check_name
from nu_ensembles.methods.labels import TargetsAt, random_labels, random_labels_at
from nu_ensembles.methods.losses import cross_entropy, uniform_cross_entropy
from nu_ensembles.methods.protocol import BaseMethod, Batch, Forward, Method, Shape, is_zero, method
from nu_ensembles.methods.standard import Standard

LabelScheme = Literal["without_replacement", "with_replacement", "shared", "uniform"]
Weighting = Literal["constant", "labelled_loss"]


@method("beta")
class Nu(BaseMethod):
    """A nu-ensemble.

    Attributes:
      beta: weight of the unlabelled loss.
      labels: how the unlabelled points get their targets.
        "without_replacement": the paper's; up to c members never share a label on a point.
        "with_replacement": every member draws on its own.
        "shared": one random label per point, the same for all members.
        "uniform": no label; the target is the uniform distribution (a confidence penalty on U).
        The last three separate what diversity does from what softer predictions do.
      weighting: "constant" is the paper's, eq. 5. "labelled_loss" multiplies beta by the batch's labelled loss over
        log c, as a number without gradient: the member then descends log L(Z) + beta / log c * L(U_i), and beta means
        the same at every step, where Adam lets a constant one take over as soon as the labels are fitted.
    """

    beta: float = 0.01
    labels: LabelScheme = "without_replacement"
    weighting: Weighting = "constant"

    name: ClassVar[str] = "nu"
    shape: ClassVar[Shape] = "independent"
    uses_unlabeled: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_coefficient("beta", self.beta, "0 is the standard ensemble")
        check_name(self.labels, "label scheme", get_args(LabelScheme))
        check_name(self.weighting, "weighting", get_args(Weighting))

    def effective(self) -> Method:
        # A traced zero differs from no unlabelled term in the last bits, so zero runs the other program.
        return Standard() if is_zero(self.beta) else self

    def unlabeled_targets(self, key: Array, n_points: int, n_classes: int, n_members: int) -> Array | None:
        if self.labels == "without_replacement":
            return random_labels(key, n_points, n_classes, n_members)
        if self.labels == "with_replacement":
            # One key per member: member i keeps its labels when members are added.
            keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(n_members))
            return jax.vmap(lambda k: jax.random.randint(k, (n_points,), 0, n_classes))(keys)
        if self.labels == "shared":
            return jnp.tile(jax.random.randint(key, (n_points,), 0, n_classes), (n_members, 1))
        return None

    def unlabeled_targets_at(self, key: Array, n_points: int, n_classes: int, n_members: int) -> TargetsAt | None:
        if self.labels == "without_replacement":
            return random_labels_at(key, n_points, n_classes, n_members)
        return super().unlabeled_targets_at(key, n_points, n_classes, n_members)

    def without_unlabeled(self) -> Method:
        return Standard()

    def loss(self, forward: Forward, batch: Batch) -> Array:
        assert batch.x_unlabeled is not None
        on_z, on_u = forward(batch.x, batch.x_unlabeled)
        labelled, weight = cross_entropy(on_z, batch.y, batch.weight), self.beta
        if self.weighting == "labelled_loss":
            weight = weight * jax.lax.stop_gradient(labelled) / jnp.log(on_z.shape[-1])
        return labelled + weight * self._loss_on_u(on_u, batch.y_unlabeled)

    def _loss_on_u(self, logits: Array, labels: Array | None) -> Array:
        return uniform_cross_entropy(logits) if labels is None else cross_entropy(logits, labels)
