"""SNGP: a network that knows how far a row is from its training rows, by a Gaussian process as its last layer.

  logits = B phi(h) / sqrt(1 + pi/8 phi' S_c phi),    S_c = (ridge I + sum_n w_n p_nc (1 - p_nc) phi_n phi_n')^-1

phi are random features of what entered the last layer, and the weights in front are held to a spectral norm, so that
rows that differ stay apart (`models/random_features.py`). S_c is Laplace's covariance of class c's weights, and
dividing by the root is the mean-field approximation to the expected probabilities.

Liu, Lin, Padhy, Tran, Bedrax-Weiss and Lakshminarayanan, *Simple and Principled Uncertainty Estimation with
Deterministic Deep Learning via Distance Awareness*, 2020.
Bounded weights keep rows apart in networks of residual blocks; in others they only keep them from being torn apart.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Self

import jax
import numpy as np

from nu_ensembles.checks import check_positive, check_whole
from nu_ensembles.errors import InputError
from nu_ensembles.methods.last_layer import last_layer_of
from nu_ensembles.methods.nu import Nu
from nu_ensembles.methods.procedure import Procedure
from nu_ensembles.methods.protocol import Method
from nu_ensembles.methods.trainer import Members, Networks, Trainer
from nu_ensembles.models import Model
from nu_ensembles.models.dropout import has_mutable_state
from nu_ensembles.models.inspect import require_features
from nu_ensembles.models.wrapped import around, wrapped

# A gibibyte of float32 for the covariances of one network's classes.
MOST_COVARIANCES = 1 << 28


@dataclasses.dataclass(frozen=True)
class SNGP(Procedure):
    """One network, or K with `mixture`. Training costs 1/K of a standard ensemble, or a little more than one.

    Attributes:
      random_features: D; 0 keeps the network's own last layer, a Gaussian process with a linear kernel.
      norm_bound: of the spectral norm of every layer but the last; None leaves them free.
      ridge: precision of the prior on the last layer's weights; the larger, the surer.
      length_scale: of the kernel on the features.
      mixture: K networks instead of one.
      beta: weight of random labels on the unlabelled rows while they train; 0 leaves those out.
    """

    random_features: int = 1024
    norm_bound: float | None = 0.95
    ridge: float = 1.0
    length_scale: float = 1.0
    mixture: bool = False
    beta: float = 0.0

    name: ClassVar[str] = "sngp"

    def __post_init__(self) -> None:
        check_whole(self.random_features, "random_features", least=0)
        if self.norm_bound is not None:
            check_positive(self.norm_bound, "norm_bound")
        check_positive(self.ridge, "ridge")
        check_positive(self.length_scale, "length_scale")
        check_positive(self.beta, "beta", zero_allowed=True)

    @property
    def base(self) -> Method:
        return Nu(self.beta).effective()

    def without_unlabeled(self) -> Self:
        return dataclasses.replace(self, beta=0.0)

    def network(self, given: Model, row_shape: tuple[int, ...]) -> Model:
        n_features, n_classes = require_features(given, row_shape)
        if has_mutable_state(given, row_shape):
            raise InputError(
                "SNGP bounds weights, which the mutable state of this network (batch statistics) would undo; use a "
                "network without."
            )
        n_inputs = self.random_features or n_features
        if n_classes * n_inputs**2 > MOST_COVARIANCES:
            raise InputError(
                f"The covariances of {n_classes} classes and {n_inputs:,} features are "
                f"{n_classes * n_inputs**2 * 4e-9:.0f} GB; ask for fewer random_features."
            )
        last_layer_of(given, row_shape)
        return given

    def carry_out(self, trainer: Trainer) -> Members:
        rows, layer = trainer.rows, last_layer_of(trainer.model, trainer.rows.x.shape[1:])
        options: dict[str, Any] = {
            "kernel": layer.kernel,
            "transposed": layer.transposed,
            "n_random": self.random_features,
            "length_scale": self.length_scale,
            **({} if layer.bias is None else {"bias": layer.bias}),
            **({} if self.norm_bound is None else {"norm_bound": self.norm_bound}),
        }
        network = wrapped(trainer.model, "random_features", **options)
        numbers = range(trainer.n_members) if self.mixture else [0]
        networks = trainer.train("networks", self.base, numbers, network=network)
        logits, features = trainer.logits_and_features(networks, rows.x)
        p = np.asarray(jax.nn.softmax(logits))
        covariance = np.stack(
            [covariances(phi, p_of, rows.weight, self.ridge) for phi, p_of in zip(features, p, strict=True)]
        )
        variables = around(networks.params, networks.model_state, covariance=covariance)
        return Members(Networks(wrapped(trainer.model, "sngp", **options), *variables))


def covariances(features: np.ndarray, p: np.ndarray, weight: np.ndarray, ridge: float) -> np.ndarray:
    """Each class's S_c, with an input for the bias, which is taken as certain; float32 `[C, D + 1, D + 1]`.

    Args:
      features: `[N, D]`; p: `[N, C]`, probabilities; weight: `[N]`, of the training rows.
      ridge: precision of the prior.
    """
    phi, size = features.astype(np.float64), features.shape[1]
    found = np.zeros((p.shape[1], size + 1, size + 1), np.float32)
    for c, p_c in enumerate(p.T.astype(np.float64)):
        rooted = phi * np.sqrt(weight * p_c * (1 - p_c))[:, None]
        if len(phi) < size:
            # Of fewer rows than features: the same by a matrix of rows (Woodbury's identity).
            inner = ridge * np.eye(len(phi)) + rooted @ rooted.T
            found[c, :size, :size] = (np.eye(size) - rooted.T @ np.linalg.solve(inner, rooted)) / ridge
        else:
            found[c, :size, :size] = np.linalg.inv(ridge * np.eye(size) + rooted.T @ rooted)
    return found
