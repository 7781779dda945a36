"""A Gaussian over the last layer's weights: the curvature at the trained weights, the prior, and the evidence for it.

  precision = H + delta I,    H = sum_n w_n (diag p_n - p_n p_n') (x) f_n f_n'        (f with a 1 for the bias)
  log evidence = log p(y | w*) - 1/2 ( delta |w*|² + sum_i log(lambda_i + delta) - P log delta ),   lambda_i of H

H is the Hessian of the negative log-likelihood in the last layer, exactly. "kronecker" takes apart into
sum_n (diag p_n - p_n p_n') (x) mean_n f_n f_n' for the weights, and the first factor for the bias.

Daxberger et al., *Laplace Redux: Effortless Bayesian Deep Learning*, 2021, section 2; MacKay, 1992.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

Curvature = Literal["kronecker", "full"]

# Where the evidence is maximised; a prior outside says that the data hardly count, or that the prior hardly does.
LEAST_PRECISION, MOST_PRECISION = 1e-6, 1e6


class CurvatureBlock(NamedTuple):
    """Eigenvectors and -values of the curvature of some of the weights, as Kronecker factors.

    Attributes:
      left: `[C, C]`, eigenvectors along the classes; right: `[G, G]`, along the inputs of this block.
      values: `[C, G]`, the eigenvalues.
      inputs: which of the F + 1 inputs these are.
    """

    left: np.ndarray
    right: np.ndarray
    values: np.ndarray
    inputs: slice


class LastLayerPosterior:
    """The Gaussian around one network's last layer.

    Args:
      layer: `[C, F + 1]`, the trained weights, the bias last.
      features: `[N, F]`; logits: `[N, C]`; labels: int `[N]`; weight: `[N]`, of the rows that it was trained on.
      structure: of the curvature.
      has_bias: whether the layer has one; if not, nothing is said of its last column.

    Attributes:
      prior_precision: delta; 1 until it is set.
    """

    def __init__(
        self,
        layer: np.ndarray,
        features: np.ndarray,
        logits: np.ndarray,
        labels: np.ndarray,
        weight: np.ndarray,
        structure: Curvature = "kronecker",
        has_bias: bool = True,
    ) -> None:
        self.prior_precision = 1.0
        self.n_classes, self.size = layer.shape
        self.n_inputs = self.size if has_bias else self.size - 1
        log_p = log_softmax(logits.astype(np.float64), axis=1)
        self.log_likelihood = float(weight.astype(np.float64) @ log_p[np.arange(len(labels)), labels])
        self.squared_norm = float(np.square(layer[:, : self.n_inputs]).sum())
        inputs = np.concatenate([features, np.ones((len(features), 1))], axis=1, dtype=np.float64)[:, : self.n_inputs]
        self.blocks: list[CurvatureBlock] = []
        self.full: tuple[np.ndarray, np.ndarray] | None = None
        if structure == "full":
            self.full = np.linalg.eigh(full_curvature(inputs, np.exp(log_p), weight))
        else:
            self.blocks = kronecker_blocks(inputs, np.exp(log_p), weight, self.size - 1)

    @property
    def eigenvalues(self) -> np.ndarray:
        """Of the curvature, `[P]`, at least 0."""
        values = [self.full[0]] if self.full is not None else [block.values.ravel() for block in self.blocks]
        return np.maximum(np.concatenate(values), 0)

    def log_evidence(self, prior_precision: float) -> float:
        """Laplace's approximation to the log marginal likelihood of the labels."""
        values = self.eigenvalues
        complexity = np.log(values + prior_precision).sum() - len(values) * np.log(prior_precision)
        return self.log_likelihood - 0.5 * (prior_precision * self.squared_norm + float(complexity))

    def best_prior_precision(self) -> float:
        """The precision of the prior under which the evidence is largest."""
        lowest, highest = math.log(LEAST_PRECISION), math.log(MOST_PRECISION)
        # The evidence can have a second, flat maximum at an end; a grid finds the basin, the search its bottom.
        grid = np.linspace(lowest, highest, 49)
        best = int(np.argmax([self.log_evidence(float(np.exp(each))) for each in grid]))
        around = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
        found = minimize_scalar(lambda each: -self.log_evidence(float(np.exp(each))), bounds=around, method="bounded")
        return float(np.exp(found.x))  # pyright: ignore[reportAttributeAccessIssue]

    def class_covariances(self) -> np.ndarray:
        """The covariance of each class's own weights, `[C, F + 1, F + 1]`: all that variances of logits need."""
        found = np.zeros((self.n_classes, self.size, self.size))
        if self.full is not None:
            values, vectors = self.full
            by_class = vectors.reshape(self.n_classes, self.n_inputs, -1)
            variances = 1 / (np.maximum(values, 0) + self.prior_precision)
            for c, own in enumerate(by_class):
                found[c, : self.n_inputs, : self.n_inputs] = (own * variances) @ own.T
            return found
        for block in self.blocks:
            variances = 1 / (np.maximum(block.values, 0) + self.prior_precision)
            of_inputs = np.square(block.left) @ variances
            own = np.einsum("ig,cg,jg->cij", block.right, of_inputs, block.right)
            found[:, block.inputs, block.inputs] = own
        return found

    def deviations(self, normal: np.ndarray) -> np.ndarray:
        """Draws from the Gaussian, less its mean, from standard normal numbers, both `[C, F + 1]`."""
        found = np.zeros((self.n_classes, self.size))
        if self.full is not None:
            values, vectors = self.full
            scaled = normal[:, : self.n_inputs].ravel() / np.sqrt(np.maximum(values, 0) + self.prior_precision)
            found[:, : self.n_inputs] = (vectors @ scaled).reshape(self.n_classes, self.n_inputs)
            return found
        for block in self.blocks:
            scaled = normal[:, block.inputs] / np.sqrt(np.maximum(block.values, 0) + self.prior_precision)
            found[:, block.inputs] = block.left @ scaled @ block.right.T
        return found


def full_curvature(inputs: np.ndarray, p: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """`sum_n w_n (diag p_n - p_n p_n') (x) f_n f_n'`, `[C G, C G]`, from inputs `[N, G]` and probabilities `[N, C]`."""
    n_classes, n_inputs = p.shape[1], inputs.shape[1]
    found = np.empty((n_classes, n_inputs, n_classes, n_inputs))
    for c in range(n_classes):
        for other in range(c + 1):
            curvature = weight * p[:, c] * ((c == other) - p[:, other])
            found[c, :, other] = found[other, :, c] = (inputs * curvature[:, None]).T @ inputs
    return found.reshape(n_classes * n_inputs, n_classes * n_inputs)


def kronecker_blocks(inputs: np.ndarray, p: np.ndarray, weight: np.ndarray, n_features: int) -> list[CurvatureBlock]:
    """The blocks of the weights and, where there are more inputs than features, of the bias."""
    weight = weight.astype(np.float64)
    of_classes, left = np.linalg.eigh(np.diag(weight @ p) - (p * weight[:, None]).T @ p)
    features = inputs[:, :n_features]
    of_features, right = np.linalg.eigh((features * weight[:, None]).T @ features / weight.sum())
    blocks = [CurvatureBlock(left, right, np.outer(of_classes, of_features), slice(0, n_features))]
    if inputs.shape[1] > n_features:
        blocks.append(CurvatureBlock(left, np.ones((1, 1)), of_classes[:, None], slice(n_features, n_features + 1)))
    return blocks
