"""Label smoothing: a standard ensemble whose targets keep a share epsilon for all classes alike.

  mean over Z of  (1 - epsilon) * CE  +  epsilon * CE to the uniform distribution

Szegedy, Vanhoucke, Ioffe, Shlens and Wojna, *Rethinking the Inception Architecture for Computer Vision*, 2016.
"""

from __future__ import annotations

from typing import ClassVar

from jax import Array

from nu_ensembles.checks import check_coefficient
from nu_ensembles.methods.losses import cross_entropy, uniform_cross_entropy
from nu_ensembles.methods.protocol import BaseMethod, Batch, Forward, Method, Shape, is_zero, method
from nu_ensembles.methods.standard import Standard


@method("epsilon")
class LabelSmoothing(BaseMethod):
    """A standard ensemble on smoothed labels.

    Attributes:
      epsilon: the share of the target that is spread over all classes, the right one included.
    """

    epsilon: float = 0.1

    name: ClassVar[str] = "label_smoothing"
    shape: ClassVar[Shape] = "independent"
    uses_unlabeled: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_coefficient("epsilon", self.epsilon, "0 is the standard ensemble", below=1.0)

    def effective(self) -> Method:
        return Standard() if is_zero(self.epsilon) else self

    def loss(self, forward: Forward, batch: Batch) -> Array:
        (logits,) = forward(batch.x)
        hard = cross_entropy(logits, batch.y, batch.weight)
        soft = uniform_cross_entropy(logits, batch.weight)
        return (1 - self.epsilon) * hard + self.epsilon * soft
