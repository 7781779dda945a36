"""Proper scores of the mean probability, and accuracy (Section 5.1 of the paper).

Proper scores (NLL, Brier) are smallest in expectation for the true probabilities, so they are what to select
a model by; they mix calibration with accuracy, so they are not what to call a model calibrated by.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nu_ensembles.checks import checked
from nu_ensembles.metrics.inputs import Ints, Predictions, check_predictions
from nu_ensembles.metrics.weighting import Values


def label_nll(label_probs: NDArray[np.floating]) -> Values:
    """-ln p(y) of each entry; `inf` where p(y) = 0."""
    values = label_probs.astype(np.float64)
    with np.errstate(divide="ignore"):
        np.log(values, out=values)
    return np.negative(values, out=values)


def label_probability(probs: NDArray[np.floating], labels: Ints) -> NDArray[np.floating]:
    """p(y_n) for `[N, C]` or `[K, N, C]` -> `[N]` or `[K, N]`."""
    return probs[..., np.arange(len(labels)), labels]


def squared_distance(predictions: Predictions) -> Values:
    """Sum over classes of (p_c - 1[y=c])², for each sample: `[N]`."""
    # |p - e_y|² = |p|² - 2 p_y + 1 needs no second [N, C] array; it is exact to 1e-16, hence the floor at 0.
    of_label = label_probability(predictions.probs, predictions.labels)
    return np.maximum(squared_norm(predictions.probs) - 2.0 * of_label + 1.0, 0.0)


def squared_norm(probs: Values) -> Values:
    """Sum over classes of p_c²: `[N, C]` -> `[N]`."""
    return np.einsum("nc,nc->n", probs, probs)


@checked
def accuracy(probs: ArrayLike, labels: ArrayLike) -> float:
    """Share of samples whose most probable class is the label: mean of 1[argmax p = y].

    Range 0 … 1, higher is better. Hides everything about the probabilities except their order, and class
    imbalance. Ties go to the lowest class index.

    Args:
      probs: `[N, C]`, or members `[K, N, C]`, which are averaged.
      labels: `[N]`.
    """
    return float(check_predictions(probs, labels).right.mean())


@checked
def nll(probs: ArrayLike, labels: ArrayLike) -> float:
    """Negative log-likelihood of the mean probability: -mean ln p(y), in nats.

    Range 0 … inf, lower is better; a uniform guess scores ln C. Proper. Hides where the loss comes from: one
    confident mistake can outweigh a thousand good predictions, and a label of probability exactly 0 makes it
    `inf` (nothing is clipped). Reference: Good (1952), Rational decisions.

    Args:
      probs: `[N, C]`, or members `[K, N, C]`, which are averaged first.
      labels: `[N]`.
    """
    predictions = check_predictions(probs, labels)
    return float(label_nll(label_probability(predictions.probs, predictions.labels)).mean())


@checked
def brier(probs: ArrayLike, labels: ArrayLike) -> float:
    """Brier score: mean over samples of sum_c (p_c - 1[y=c])².

    Range 0 … 2 (the multi-class form: twice the binary one), lower is better. Proper and bounded, so a single
    confident mistake costs at most 2. Hides rare classes when there are many. Reference: Brier (1950).

    Args:
      probs: `[N, C]`, or members `[K, N, C]`, which are averaged first.
      labels: `[N]`.
    """
    return float(squared_distance(check_predictions(probs, labels)).mean())
