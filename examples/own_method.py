"""A method of your own in one file: the focal loss, which pays less attention to what a member is sure of.

  mean over Z of  -(1 - p)^focus * log p,    p: the probability of the label

Lin et al., *Focal Loss for Dense Object Detection*, 2017; focus = 0 is the standard ensemble.
"""

from typing import ClassVar

import jax.numpy as jnp
from jax import Array

import nu_ensembles as nu
from nu_ensembles.methods import BaseMethod, Batch, Forward, method
from nu_ensembles.methods.losses import log_likelihood


@method("focus")  # traced: another value compiles nothing
class Focal(BaseMethod):
    """An ensemble trained by the focal loss; `focus` is its exponent."""

    focus: float = 2.0

    name: ClassVar[str] = "focal"
    uses_unlabeled: ClassVar[bool] = False

    def loss(self, forward: Forward, batch: Batch) -> Array:
        (logits,) = forward(batch.x)
        log_p = log_likelihood(logits, batch.y)
        return -jnp.mean(batch.weight * (1 - jnp.exp(log_p)) ** self.focus * log_p)


if __name__ == "__main__":
    X, y = nu.datasets.load_digits()
    ensemble = nu.fit("mlp", X[:100] / 16, y[:100], method=Focal(focus=2.0), n_members=4, epochs=40, seed=0)
    print(f"accuracy {nu.metrics.accuracy(ensemble.predict_proba(X[100:] / 16), y[100:]):.3f}")
    classifier = nu.EnsembleClassifier(method=Focal(), n_members=4, max_iter=40, random_state=0).fit(X[:100], y[:100])
    print(f"accuracy {classifier.score(X[100:], y[100:]):.3f}")
