"""Foreign inputs are told from familiar ones by confidence, entropy and disagreement."""

from __future__ import annotations

import numpy as np
import pytest

from nu_ensembles.errors import InputError
from nu_ensembles.metrics.out_of_distribution import ood_scores, sample_disagreement

SURE = np.array([[[0.9, 0.1], [0.8, 0.2]], [[0.9, 0.1], [0.7, 0.3]]])  # two members, two samples
UNSURE = np.array([[[0.6, 0.4], [0.5, 0.5]], [[0.4, 0.6], [0.45, 0.55]]])


def test_an_ensemble_that_doubts_all_foreign_inputs_scores_one() -> None:
    scores = ood_scores(SURE, UNSURE)
    assert scores.keys() == {"confidence", "entropy", "epistemic", "disagreement"}
    assert scores["confidence"] == scores["entropy"] == scores["disagreement"] == 1.0


def test_swapping_the_two_turns_every_score_around() -> None:
    there, back = ood_scores(SURE, UNSURE), ood_scores(UNSURE, SURE)
    assert all(there[name] + back[name] == pytest.approx(1) for name in there)


def test_the_same_inputs_on_both_sides_are_chance() -> None:
    assert set(ood_scores(UNSURE, UNSURE).values()) == {0.5}


def test_disagreement_is_the_share_of_pairs_with_different_classes() -> None:
    votes = np.eye(3)[[[0, 0], [0, 1], [1, 2]]]  # three members, two samples
    assert sample_disagreement(votes).tolist() == pytest.approx([2 / 3, 1.0])


def test_a_single_member_cannot_disagree() -> None:
    scores = ood_scores(SURE[:1], UNSURE[:1])
    assert scores["confidence"] == 1.0
    assert np.isnan(scores["disagreement"])
    assert np.isnan(scores["epistemic"])


def test_predictions_of_two_ensembles_are_refused() -> None:
    with pytest.raises(InputError, match="2 and 1 members"):
        ood_scores(SURE, UNSURE[:1])
