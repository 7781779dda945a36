"""How much the members differ: mutual information, variance, disagreement (Section 5.1 and eq. 2).

Diversity is not a goal by itself: bad members are diverse, too. Read these beside NLL and accuracy.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nu_ensembles.checks import checked
from nu_ensembles.errors import InputError
from nu_ensembles.metrics.information import Votes, joint_predictions, pair_information
from nu_ensembles.metrics.inputs import Floats, check_labels, check_member_probs
from nu_ensembles.metrics.scores import label_probability
from nu_ensembles.metrics.weighting import Values, unit_weights


def member_predictions(member_probs: Floats) -> Votes:
    """argmax of every member, int32 `[K, N]`; ties go to the lowest class."""
    # one member at a time: argmax makes int64, which for two classes is as large as the probabilities
    return np.stack([member.argmax(axis=1).astype(np.int32) for member in member_probs])


@checked
def mutual_information(member_probs: ArrayLike, *, bias_corrected: bool = False) -> float:
    """Mutual information of two members' predicted classes, in bits, mean over all pairs of members::

        I(a, b) = sum over the C×C table of joint frequencies of f_ij · log2(f_ij / (f_i · f_j))

    Range 0 … log2 C; lower means more diverse members; `nan` for a single member. Hides its bias: from finite
    data independent members score about (C-1)²/(2N ln 2) instead of 0, .7 bits at C = 100 and N = 10⁴.
    `bias_corrected=True` uses Grassberger's entropy estimate, which removes most of that (and may go slightly
    below 0). Also hides whether members are diverse because they are wrong. Reference: Section 5.1 of the
    paper; Grassberger (2003), Entropy estimates from insufficient samplings.

    Args:
      member_probs: `[K, N, C]`.
      bias_corrected: use Grassberger's estimate instead of the plug-in one.
    """
    members = check_member_probs(member_probs)
    if len(members) == 1:
        return float("nan")
    return float(mean_over_pairs(pairwise_mutual_information(members, bias_corrected=bias_corrected)))


@checked
def pairwise_mutual_information(member_probs: ArrayLike, *, bias_corrected: bool = False) -> Values:
    """The matrix behind `mutual_information`: `[K, K]` in bits, each member's own entropy on the diagonal.

    Args:
      member_probs: `[K, N, C]`.
      bias_corrected: use Grassberger's estimate instead of the plug-in one.
    """
    if not isinstance(bias_corrected, bool | np.bool_):
        raise InputError("bias_corrected is True or False.")
    members = check_member_probs(member_probs)
    predictions, n_classes = member_predictions(members), members.shape[2]
    pairs = joint_predictions(predictions, n_classes)
    both = pair_information(predictions, n_classes, unit_weights(members.shape[1]), pairs)
    return both[int(bias_corrected)][:, :, 0]


def mean_over_pairs(matrix: Values) -> Values:
    """Mean of a symmetric `[K, K, …]` matrix over unordered pairs of different members."""
    n_members = len(matrix)
    rows, columns = np.triu_indices(n_members, k=1)
    return matrix[rows, columns].mean(axis=0)


@checked
def variance(member_probs: ArrayLike, labels: ArrayLike) -> float:
    """V-hat, the empirical variance of the likelihood of the true label over members [eq. 2]::

        V-hat = 1/(2N) sum_n 1/K sum_k (p_k(y_n) - mean_j p_j(y_n))²

    Range 0 … 1/8; larger means that the members differ more on the true label, 0 for one member. Members that
    fit random labels drawn without replacement reach (K-1)/(2cK) (Proposition 1). Hides disagreement about
    wrong classes.

    Args:
      member_probs: `[K, N, C]`.
      labels: `[N]`.
    """
    members = check_member_probs(member_probs)
    labels = check_labels(labels, *members.shape[1:])
    return float(label_variance(label_probability(members, labels)).mean())


def label_variance(label_probs: NDArray[np.floating]) -> Values:
    """Half the variance over members of p_k(y): `[K, N]` -> `[N]`."""
    deviations = label_probs - label_probs.mean(axis=0, dtype=np.float64)
    return 0.5 * np.einsum("kn,kn->n", deviations, deviations) / len(deviations)


@checked
def disagreement(member_probs: ArrayLike) -> float:
    """Share of samples on which two members predict different classes, mean over all pairs of members.

    Range 0 … 1; larger means more diverse; `nan` for a single member. Estimates 1 - accuracy for members of a
    calibrated ensemble (Jiang, Nagarajan, Baek & Kolter 2022), without labels. Hides whether the members that
    differ are right.

    Args:
      member_probs: `[K, N, C]`.
    """
    members = check_member_probs(member_probs)
    return float(pair_disagreement(member_predictions(members)).mean())


def pair_disagreement(predictions: Votes) -> Values:
    """For each sample the share of member pairs that differ: `[K, N]` -> `[N]`; `nan` for one member."""
    n_members, n_samples = predictions.shape
    if n_members == 1:
        return np.full(n_samples, np.nan)
    keys = np.sort(predictions, axis=0)
    run = np.ones(n_samples)
    agreeing = np.zeros(n_samples)
    for previous, current in pairwise(keys):
        # the j-th member of a run of equal votes agrees with the j-1 before it
        same = previous == current
        agreeing += np.where(same, run, 0.0)
        run = np.where(same, run + 1.0, 1.0)
    return 1.0 - agreeing / (n_members * (n_members - 1) / 2)
