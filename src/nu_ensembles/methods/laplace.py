"""Laplace's approximation: a Gaussian around the last layer of one trained network, or of each of K.

  p(y | x) = integral of softmax(W f(x)) N(W; W*, (H + delta I)^-1)

W* is what was trained, H the curvature there, and delta the precision of the prior under which the evidence is largest
(`laplace_posterior.py`). The integral is the probit approximation, or a mean over draws of W.

Daxberger et al., *Laplace Redux: Effortless Bayesian Deep Learning*, 2021; around each member: Eschenhagen et al.,
*Mixtures of Laplace Approximations for Improved Post-Hoc Uncertainty in Deep Learning*, 2021.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Literal, Self, get_args

import jax
import numpy as np

from nu_ensembles.checks import check_name, check_positive, check_whole
from nu_ensembles.errors import InputError
from nu_ensembles.methods.laplace_posterior import Curvature, LastLayerPosterior
from nu_ensembles.methods.last_layer import find_last_layer, last_layer_of
from nu_ensembles.methods.nu import Nu
from nu_ensembles.methods.procedure import Procedure
from nu_ensembles.methods.protocol import Method
from nu_ensembles.methods.trainer import Members, Networks, Trainer
from nu_ensembles.models import Model
from nu_ensembles.models.inspect import require_features
from nu_ensembles.models.wrapped import around, wrapped

Predictive = Literal["probit", "monte_carlo"]

# A gibibyte of float64, and two more while its eigenvectors are found.
MOST_WEIGHTS_OF_FULL = 11_585


@dataclasses.dataclass(frozen=True)
class Laplace(Procedure):
    """A Gaussian around the last layer. Training costs 1/K of a standard ensemble, or as much with `mixture`.

    Attributes:
      structure: of the curvature: "kronecker", or "full".
      predictive: "probit" predicts in closed form: the ensemble is one network, or K with `mixture`. "monte_carlo"
        draws networks.
      mixture: around each of K members instead of a single network.
      prior_precision: None takes the one of the largest evidence, for each network its own.
      n_samples: draws from each network under "monte_carlo"; None for K from a single network, and 10 from each of K.
      beta: weight of random labels on the unlabelled rows while the networks train; 0 leaves those out.
    """

    structure: Curvature = "kronecker"
    predictive: Predictive = "probit"
    mixture: bool = False
    prior_precision: float | None = None
    n_samples: int | None = None
    beta: float = 0.0

    name: ClassVar[str] = "laplace"

    def __post_init__(self) -> None:
        check_name(self.structure, "structure of the curvature", get_args(Curvature))
        check_name(self.predictive, "predictive of laplace", get_args(Predictive))
        if self.prior_precision is not None:
            check_positive(self.prior_precision, "prior_precision")
        if self.n_samples is not None:
            check_whole(self.n_samples, "n_samples")
            if self.predictive == "probit":
                raise InputError("The probit predictive draws nothing; leave n_samples out, or ask for 'monte_carlo'.")
        check_positive(self.beta, "beta", zero_allowed=True)

    @property
    def base(self) -> Method:
        return Nu(self.beta).effective()

    def without_unlabeled(self) -> Self:
        return dataclasses.replace(self, beta=0.0)

    def network(self, given: Model, row_shape: tuple[int, ...]) -> Model:
        n_features, n_classes = require_features(given, row_shape)
        n_weights = (n_features + 1) * n_classes
        if self.structure == "full" and n_weights > MOST_WEIGHTS_OF_FULL:
            raise InputError(
                f"The full curvature of a last layer with {n_weights:,} weights is a matrix of "
                f"{n_weights**2 * 8e-9:.0f} GB; use structure='kronecker'."
            )
        last_layer_of(given, row_shape)
        return given

    def carry_out(self, trainer: Trainer) -> Members:
        numbers = range(trainer.n_members) if self.mixture else [0]
        networks = trainer.train("networks", self.base, numbers)
        rows = trainer.rows
        logits, features = trainer.logits_and_features(networks, rows.x)
        one = jax.tree.map(lambda leaf: leaf[0], networks.params)
        layer = find_last_layer(one, features[0], logits[0])
        trained = layer.of(networks.params)
        posteriors = []
        for number in range(len(networks)):
            seen = trained[number], features[number], logits[number], rows.y, rows.weight
            posterior = LastLayerPosterior(*seen, self.structure, layer.bias is not None)
            posterior.prior_precision = self.prior_precision or posterior.best_prior_precision()
            posteriors.append(posterior)
        notes: dict[str, Any] = {
            "prior_precisions": [each.prior_precision for each in posteriors],
            "log_evidences": [each.log_evidence(each.prior_precision) for each in posteriors],
        }
        if self.predictive == "probit":
            covariance = np.stack([each.class_covariances() for each in posteriors]).astype(np.float32)
            variables = around(networks.params, networks.model_state, covariance=covariance)
            return Members(Networks(wrapped(networks.model, "probit"), *variables), notes=notes)
        n_samples = self.n_samples or (10 if self.mixture else trainer.n_members)
        rng = np.random.default_rng(np.asarray(jax.random.key_data(trainer.key)))
        # Draw after draw, so that the first ones stay when more are asked for.
        drawn = [
            mean + posterior.deviations(rng.standard_normal(mean.shape))
            for _ in range(n_samples)
            for mean, posterior in zip(trained, posteriors, strict=True)
        ]
        repeated = networks.select(list(range(len(networks))) * n_samples)
        params = layer.replaced(repeated.params, np.stack(drawn))
        return Members(Networks(networks.model, params, repeated.model_state), notes=notes)
