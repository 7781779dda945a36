"""Which unlabelled rows to label next: a ranking by what the ensemble is unsure about.

"epistemic" asks where the members disagree, which more labels can settle; "entropy", "margin" and
"confidence" also chase rows that are ambiguous by nature, which they cannot. References: Houlsby et al.
(2011), Settles (2009).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from nu_ensembles.checks import checked
from nu_ensembles.errors import InputError, unknown_name
from nu_ensembles.metrics.diversity import member_predictions, pair_disagreement
from nu_ensembles.metrics.inputs import Floats, Ints, check_member_probs, mean_probability
from nu_ensembles.metrics.selective import epistemic_uncertainty, predictive_entropy
from nu_ensembles.metrics.weighting import Values


@checked
def labelling_scores(member_probs: ArrayLike, *, by: str = "epistemic") -> Values:
    """How much each row is worth labelling, higher first: members `[K, N, C]` -> `[N]`.

    Args:
      member_probs: `[K, N, C]`; `[N, C]` counts as one member.
      by: "epistemic" (entropy of the mean less mean entropy), "disagreement" (share of member pairs that
        predict different classes), "entropy", "margin" (one less the lead of the first class over the second)
        or "confidence" (one less the largest probability).
    """
    if by not in _SCORES:
        raise unknown_name("ranking", by, _SCORES)
    members = check_member_probs(member_probs)
    if len(members) == 1 and by in ("epistemic", "disagreement"):
        raise InputError(f'Ranking by "{by}" compares members but there is one: use "entropy" or give [K, N, C].')
    return _SCORES[by](members)


@checked
def rank_for_labelling(member_probs: ArrayLike, *, by: str = "epistemic", n_rows: int | None = None) -> Ints:
    """Indices of the rows to label next, the most useful first; equal rows keep their order.

    Args:
      member_probs: `[K, N, C]`; `[N, C]` counts as one member.
      by: see `labelling_scores`.
      n_rows: how many to return; None ranks all.
    """
    if n_rows is not None and n_rows < 1:
        raise InputError(f"n_rows is {n_rows}: give at least 1, or None for all.")
    return np.argsort(-labelling_scores(member_probs, by=by), kind="stable")[:n_rows]


def _margin(members: Floats) -> Values:
    second, first = np.partition(mean_probability(members), -2, axis=1)[:, -2:].T
    return 1.0 - (first - second)


def _unconfidence(members: Floats) -> Values:
    return 1.0 - mean_probability(members).max(axis=1)


def _disagreement(members: Floats) -> Values:
    return pair_disagreement(member_predictions(members))


_SCORES = {
    "epistemic": epistemic_uncertainty,
    "disagreement": _disagreement,
    "entropy": predictive_entropy,
    "margin": _margin,
    "confidence": _unconfidence,
}
