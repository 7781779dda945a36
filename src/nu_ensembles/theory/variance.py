"""How much variance random labels buy: V-hat (eq. 2) and its expectation under a perfect fit (Proposition 1).

Proposition 1 covers K ≤ c members. For more, consecutive blocks of c members hold permutations of the
classes, so a point's true label is fitted by q or q + 1 members, where K = qc + r, and the expectation is
again in closed form.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from nu_ensembles.checks import check_name, check_whole, checked
from nu_ensembles.errors import InputError
from nu_ensembles.metrics.diversity import variance

# That are drawn at once.
MOST_LABELS = 1 << 28
LABELS = ("without_replacement", "with_replacement", "shared", "uniform")


@checked
def empirical_variance(member_probs: ArrayLike, labels: ArrayLike) -> float:
    """V-hat = 1/(2N) sum_n 1/K sum_k (p_k(y_n) - mean_j p_j(y_n))² [eq. 2].

    Args:
      member_probs: `[K, N, C]`.
      labels: `[N]`, the true ones.
    """
    return variance(member_probs, labels)


@checked
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
    check_name(labels, "label scheme", LABELS)
    if labels == "without_replacement":
        q, r = divmod(K, c)
        return 0.5 * (1.0 / c - (q**2 + (2 * q + 1) * r / c) / K**2)
    if labels == "with_replacement":
        return 0.5 * (1.0 / c) * (1.0 - 1.0 / c) * (K - 1) / K
    return 0.0


@checked
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
    n_points = check_whole(n_points, "n_points")
    check_name(labels, "label scheme", LABELS)
    if (n_members + n_classes) * n_points > MOST_LABELS:
        raise InputError(f"{n_points} points of {n_classes} classes do not fit into memory; simulate fewer points.")
    rng = np.random.default_rng(check_whole(seed, "seed", least=0))
    shape = (n_members, n_points)
    if labels == "without_replacement":
        n_blocks = -(-n_members // n_classes)
        ordered = np.broadcast_to(np.arange(n_classes)[:, None], (n_classes, n_points))
        fitted = np.concatenate([rng.permuted(ordered, axis=0) for _ in range(n_blocks)])[:n_members]
    elif labels == "with_replacement":
        fitted = rng.integers(0, n_classes, shape)
    elif labels == "shared":
        fitted = np.broadcast_to(rng.integers(0, n_classes, n_points), shape)
    else:
        return 0.0
    truth = rng.integers(0, n_classes, n_points)
    return float(0.5 * np.var(fitted == truth, axis=0).mean())


def _check_counts(n_members: int, n_classes: int) -> None:
    try:
        check_whole(n_members, "n_members")
        check_whole(n_classes, "n_classes", least=2)
    except InputError as error:
        raise InputError(f"{error} Give at least one member and two classes.") from None
