"""A confidence penalty on the unlabelled data: a standard ensemble that is asked to be unsure there.

  mean CE over Z  +  beta * mean over U of CE to the uniform distribution

It is nu with the random labels replaced by their expectation, `Nu(labels="uniform")`, under a name of its own: the
comparison that tells what the labels' diversity adds to softer predictions. Pereyra, Tucker, Chorowski, Kaiser and
Hinton, *Regularizing Neural Networks by Penalizing Confident Output Distributions*, 2017, penalise the same on Z.
"""

from __future__ import annotations

from typing import ClassVar

from jax import Array

from nu_ensembles.checks import check_coefficient
from nu_ensembles.methods.losses import cross_entropy, uniform_cross_entropy
from nu_ensembles.methods.protocol import BaseMethod, Batch, Forward, Method, Shape, is_zero, method
from nu_ensembles.methods.standard import Standard


@method("beta")
class ConfidencePenalty(BaseMethod):
    """An ensemble with a uniform target on the unlabelled data.

    Attributes:
      beta: weight of the unlabelled loss.
    """

    beta: float = 3e-4

    name: ClassVar[str] = "confidence_penalty"
    shape: ClassVar[Shape] = "independent"
    uses_unlabeled: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_coefficient("beta", self.beta, "0 is the standard ensemble")

    def effective(self) -> Method:
        return Standard() if is_zero(self.beta) else self

    def loss(self, forward: Forward, batch: Batch) -> Array:
        assert batch.x_unlabeled is not None
        labelled, unlabelled = forward(batch.x, batch.x_unlabeled)
        return cross_entropy(labelled, batch.y, batch.weight) + self.beta * uniform_cross_entropy(unlabelled)
