"""The standard deep ensemble: K initialisations, each fitted to the labelled data alone.

  mean CE over Z  (+ weight decay, which belongs to the optimiser)

Lakshminarayanan, Pritzel and Blundell, *Simple and Scalable Predictive Uncertainty Estimation using Deep
Ensembles*, 2017. It is what a nu-ensemble becomes at beta = 0.
"""

from __future__ import annotations

from typing import ClassVar

from jax import Array

from nu_ensembles.methods.losses import cross_entropy
from nu_ensembles.methods.protocol import BaseMethod, Batch, Forward, Shape, method


@method()
class Standard(BaseMethod):
    """A standard deep ensemble. Accepts unlabelled data and uses it for the scaling of the inputs only."""

    name: ClassVar[str] = "standard"
    shape: ClassVar[Shape] = "independent"
    uses_unlabeled: ClassVar[bool] = False

    def loss(self, forward: Forward, batch: Batch) -> Array:
        (logits,) = forward(batch.x)
        return cross_entropy(logits, batch.y, batch.weight)
