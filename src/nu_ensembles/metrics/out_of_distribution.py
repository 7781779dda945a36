"""How well an ensemble notices foreign inputs: AUROC of confidence, of entropy and of the members' disagreement."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from nu_ensembles.checks import checked
from nu_ensembles.errors import InputError
from nu_ensembles.metrics.diversity import member_predictions
from nu_ensembles.metrics.inputs import Floats, check_member_probs
from nu_ensembles.metrics.selective import ood_auroc, weighted_auroc
from nu_ensembles.metrics.weighting import Values, unit_weights


@checked
def ood_scores(member_probs: ArrayLike, ood_member_probs: ArrayLike) -> dict[str, float]:
    """AUROC for telling foreign inputs from familiar ones, by what the ensemble shows of its doubt.

    Range 0 … 1, higher is better, ½ is chance. `confidence` is the largest mean probability, `entropy` that of the
    mean probability, `epistemic` the part of it on which members differ, `disagreement` the share of pairs of
    members that predict different classes. A single member has no disagreement: the last two are `nan`.

    Args:
      member_probs: familiar inputs, `[K, N, C]`.
      ood_member_probs: foreign inputs, `[K, M, C]`.
    """
    familiar, foreign = check_member_probs(member_probs), check_member_probs(ood_member_probs)
    if len(familiar) != len(foreign):
        raise InputError(
            f"The two inputs have {len(familiar)} and {len(foreign)} members: give predictions of one ensemble."
        )
    scores = {name: ood_auroc(familiar, foreign, score=name) for name in ("confidence", "entropy", "epistemic")}
    doubt = np.concatenate([sample_disagreement(familiar), sample_disagreement(foreign)])
    is_foreign = np.repeat([0.0, 1.0], [familiar.shape[1], foreign.shape[1]])
    scores["disagreement"] = float(weighted_auroc(doubt, is_foreign, unit_weights(len(doubt)))[0])
    if len(familiar) == 1:
        scores["epistemic"] = scores["disagreement"] = float("nan")
    return scores


def sample_disagreement(members: Floats) -> Values:
    """For each sample the share of pairs of members that predict different classes: `[K, N, C]` -> `[N]`."""
    votes = member_predictions(members)
    n_members, n_samples = votes.shape
    counts = np.zeros((n_samples, members.shape[2]), np.int64)
    for vote in votes:
        counts[np.arange(n_samples), vote] += 1
    agreeing = (counts * (counts - 1)).sum(axis=1)
    return 1.0 - agreeing / max(n_members * (n_members - 1), 1)
