"""How much variance random labels buy: V-hat (eq. 2) and its expectation under a perfect fit (Proposition 1).

Proposition 1 covers K ≤ c members. For more, consecutive blocks of c members hold permutations of the
classes, so a point's true label is fitted by q or q + 1 members, where K = qc + r, and the expectation is
again in closed form.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from nu_ensembles.errors import InputError, unknown_name
from nu_ensembles.metrics.diversity import variance

LABELS = ("without_replacement", "with_replacement", "shared", "uniform")


def empirical_variance(member_probs: ArrayLike, labels: ArrayLike) -> float:
    """V-hat = 1/(2N) sum_n 1/K sum_k (p_k(y_n) - mean_j p_j(y_n))² [eq. 2].

    Args:
      member_probs: `[K, N, C]`.
      labels: `[N]`, the true ones.
    """
    return variance(member_probs, labels)


def expected_variance(n_members: int, n_classes: int, labels: str = "without_replacement") -> float:
    """E[V-hat] over random labels that every member fits perfectly.

    The number M of members that were given a point's true label decides: V-hat = ½ E[(M/K)(1 - M/K)].

    - "without_replacement": (K-1)/(2cK) for K ≤ c [Proposition 1]; with K = qc + r members in blocks of c,
      M = q + Bernoulli(r/c), so ½ [1/c - (q² + (2q+1) r/c) / K²].
    - "with_replacement": M is binomial, ½ (1/c)(1 - 1/c)(K-1)/K, which is smaller.
    - "shared" (all members get the same label) and "uniform" (a soft target): 0.

    Args:
      n_members: how many members (K).
      n_classes: how many classes (c).
      labels: how they are drawn: one of these four.
    """
    _check_counts(n_members, n_classes)
    K, c = int(n_members), int(n_classes)
    if labels == "without_replacement":
        q, r = divmod(K, c)
        return 0.5 * (1.0 / c - (q**2 + (2 * q + 1) * r / c) / K**2)
    if labels == "with_replacement":
        return 0.5 * (1.0 / c) * (1.0 - 1.0 / c) * (K - 1) / K
    if labels in LABELS:
        return 0.0
    raise unknown_name("label scheme", labels, LABELS)


def simulated_variance(
    n_members: int,
    n_classes: int,
    *,
    n_points: int = 10_000,
    seed: int = 0,
    labels: str = "without_replacement",
) -> float:
    """V-hat of members that fit simulated random labels perfectly on points with random true labels.

    Args:
      n_members: how many members (K).
      n_classes: how many classes (c).
      n_points: how many points.
      seed: of the true labels and the random ones.
      labels: how these are drawn, as for `expected_variance`.
    """
    _check_counts(n_members, n_classes)
    if n_points < 1:
        raise InputError(f"n_points is {n_points}: give at least 1.")
    rng = np.random.default_rng(seed)
    shape = (n_members, n_points)
    if labels == "without_replacement":
        n_blocks = -(-n_members // n_classes)
        ordered = np.broadcast_to(np.arange(n_classes)[:, None], (n_classes, n_points))
        fitted = np.concatenate([rng.permuted(ordered, axis=0) for _ in range(n_blocks)])[:n_members]
    elif labels == "with_replacement":
        fitted = rng.integers(0, n_classes, shape)
    elif labels == "shared":
        fitted = np.broadcast_to(rng.integers(0, n_classes, n_points), shape)
    elif labels == "uniform":
        return 0.0
    else:
        raise unknown_name("label scheme", labels, LABELS)
    truth = rng.integers(0, n_classes, n_points)
    return float(0.5 * np.var(fitted == truth, axis=0).mean())


def _check_counts(n_members: int, n_classes: int) -> None:
    counts = [value for value in (n_members, n_classes) if isinstance(value, int | np.integer)]
    if len(counts) < 2 or n_members < 1 or n_classes < 2:
        raise InputError(
            f"n_members is {n_members!r} and n_classes {n_classes!r}: give at least one member and two classes."
        )
