"""Several classifiers' probabilities as one: the opinion pools of Genest and Zidek, *Combining probability
distributions*, 1986.

  geometric:   p ∝ exp( Σ w_k log p_k )        arithmetic:   p = Σ w_k p_k

Learnt weights minimise, over the simplex,  summed NLL + prior · Σ w_k log(K w_k),  which is convex for both pools. The
prior pulls them to equality: one classifier alone costs prior · log K nats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_softmax, logsumexp, softmax

from nu_ensembles.calibration.protocol import Values, check_members, labelled_rows, normalised
from nu_ensembles.calibration.softmax_regression import minimum
from nu_ensembles.checks import checked, shown
from nu_ensembles.errors import InputError, unknown_name
from nu_ensembles.metrics.temperature import log_probability

Pooling = Literal["geometric", "arithmetic"]
POOLINGS: tuple[Pooling, ...] = ("geometric", "arithmetic")
WEIGHT_PRIOR = 10.0


@checked
def pool(probabilities: Sequence[ArrayLike], weights: ArrayLike | None = None, pooling: str = "geometric") -> Values:
    """The pooled probabilities `[N, C]`.

    Args:
      probabilities: `[N, C]` of each of the K classifiers, with the same rows and classes.
      weights: `[K]`, not negative; only their ratios matter. Equal by default.
      pooling: "geometric" or "arithmetic".
    """
    check_pooling(pooling)
    parts = _stacked(probabilities)
    return normalised(_pooled(parts, check_weights(weights, len(parts)), pooling))


@checked
def pooling_weights(
    probabilities: Sequence[ArrayLike],
    labels: ArrayLike,
    pooling: str = "geometric",
    weight: ArrayLike | None = None,
    prior: float = WEIGHT_PRIOR,
) -> Values:
    """Weights `[K]` that suit predictions of rows that the classifiers were not trained on; they sum to one.

    Args:
      probabilities: `[N, C]` of each classifier.
      labels: `[N]`, 0 … C-1.
      pooling: "geometric" or "arithmetic".
      weight: `[N]`, how much each row counts.
      prior: strength of the pull to equal weights, see above.
    """
    check_pooling(pooling)
    rows = labelled_rows(_stacked(probabilities), labels, weight)
    n_parts = len(rows.members)
    logs = log_probability(rows.members)
    of_label = logs[:, np.arange(len(rows.labels)), rows.labels]

    def objective(free: Values) -> tuple[float, Values]:
        # A softmax keeps the weights on the simplex; its first input is fixed, since only differences matter.
        log_weights = log_softmax(np.concatenate([[0.0], free]))
        weights = np.exp(log_weights)
        nll, slope = _nll(logs, of_label, rows.weight, weights, pooling)
        relative = log_weights + np.log(n_parts)
        value = nll + prior * float(weights @ relative)
        slope = slope + prior * (relative + 1.0)
        return value, (weights * (slope - weights @ slope))[1:]

    return softmax(np.concatenate([[0.0], minimum(objective, np.zeros(n_parts - 1))])) if n_parts > 1 else np.ones(1)


def _nll(logs: Values, of_label: Values, row_weight: Values, weights: Values, pooling: str) -> tuple[float, Values]:
    """Summed NLL of the pool, and its derivative by the weights `[K]`."""
    if pooling == "geometric":
        pooled = np.tensordot(weights, logs, axes=1)
        normaliser = np.asarray(logsumexp(pooled, axis=1))
        expected = np.einsum("nc,knc->kn", np.exp(pooled - normaliser[:, None]), logs)
        return float(row_weight @ (normaliser - weights @ of_label)), (expected - of_label) @ row_weight
    highest = of_label.max(axis=0)
    relative = np.exp(of_label - highest)  # no weight can make all of them vanish
    mixed = weights @ relative
    return float(-row_weight @ (np.log(mixed) + highest)), -(relative / mixed) @ row_weight


def _pooled(parts: Values, weights: Values, pooling: str) -> Values:
    if pooling == "arithmetic":
        return np.tensordot(weights, parts, axes=1)
    return softmax(np.tensordot(weights, log_probability(parts), axes=1), axis=1)


@checked
def check_pooling(pooling: str) -> None:
    """Refuses what is not a pooling."""
    if pooling not in POOLINGS:
        raise unknown_name("pooling", pooling, POOLINGS)


def check_weights(weights: ArrayLike | None, n_parts: int) -> Values:
    """Weights `[K]` that sum to one."""
    if weights is None:
        return np.full(n_parts, 1.0 / n_parts)
    try:
        array = np.asarray(weights, np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.shape != (n_parts,) or not np.isfinite(array).all() or (array < 0).any() or not (array > 0).any():
        raise InputError(
            f"The weights are {shown(weights)}: give {n_parts} finite numbers of at least 0, one for each "
            "classifier, and not all 0."
        )
    array = array / array.max()  # sums of huge weights would overflow
    return array / array.sum()


def _stacked(probabilities: Sequence[ArrayLike]) -> Values:
    parts = [check_members(each) for each in probabilities]
    if not parts:
        raise InputError("There is nothing to pool: give the probabilities of at least one classifier.")
    if any(len(part) != 1 for part in parts) or len({part.shape for part in parts}) > 1:
        shapes = [np.shape(each) for each in probabilities]
        raise InputError(f"The probabilities to pool have shapes {shapes}: give [rows, classes] alike for each.")
    return np.concatenate(parts)
