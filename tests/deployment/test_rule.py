"""The choice of beta under shift: what counts as evidence, what is tried, and what is taken."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from nu_ensembles.deployment.evidence import ShiftEvidence
from nu_ensembles.deployment.opinions import Opinions
from nu_ensembles.deployment.rule import decide, next_beta

# Ten unlabelled rows of two classes: the standard ensemble says (.7, .3) of each.
SURE = np.tile([0.7, 0.3], (10, 1))


def softer(n_flipped: int, confidence: float = 0.65) -> np.ndarray:
    """The same rows, less surely, and so many of them the other way."""
    rows = np.tile([confidence, 1 - confidence], (10, 1))
    rows[:n_flipped] = rows[:n_flipped, ::-1]
    return rows


def evidence(
    betas: tuple[float, ...] = (0, 0.2, 0.6),
    n_flipped: int = 2,
    oof: tuple[float, ...] = (0.50, 0.49, 0.48),
    accuracy: float = 0.6,
) -> ShiftEvidence:
    """Of so many candidates at three stops, the second of which is the best; flips are those of all but the first."""
    nll = np.array([[each + 0.1, each, each + 0.1] for each in oof])
    on_unlabeled = np.stack([SURE, softer(n_flipped, 0.68), softer(n_flipped)])
    n, steps, of_standard = len(betas), np.array([10, 20, 40]), Opinions(accuracy, accuracy, accuracy)
    return ShiftEvidence(np.array(betas), steps, nll[:n], on_unlabeled[:n], of_standard)


def test_predictions_that_turn_over_are_counted_on_the_unlabelled_rows():
    assert evidence(n_flipped=3).flipped(2) == pytest.approx(0.3)
    assert evidence(n_flipped=0).flipped(1) == 0
    assert evidence().confidence(0) == pytest.approx(0.7)


def test_the_price_is_what_softness_costs_if_the_standard_ensemble_were_calibrated():
    entropy = -(0.7 * np.log(0.7) + 0.3 * np.log(0.3))
    cross = -(0.7 * np.log(0.65) + 0.3 * np.log(0.35))
    assert evidence(n_flipped=0).price(2) == pytest.approx(cross / entropy - 1)
    assert evidence(n_flipped=0).price(0) == pytest.approx(0)


def test_the_middle_is_tried_first_then_more_where_it_passes_and_less_where_it_does_not():
    assert next_beta(evidence((0,))) == 0.2
    assert next_beta(evidence((0, 0.2))) == 0.6
    assert next_beta(evidence((0, 0.2), oof=(0.50, 0.51, 0))) == 0.03
    assert next_beta(evidence()) is None
    assert next_beta(evidence((0, 0.03, 0.2), oof=(0.50, 0.49, 0.51))) is None


def test_the_largest_beta_is_taken_where_labels_out_of_fold_and_flips_speak_for_it():
    found = decide(evidence())
    assert (found.beta, found.n_steps, found.refused) == (0.6, 20, "")
    assert found.flipped == pytest.approx(0.2)
    assert found.confidence == pytest.approx(0.65)
    assert found.source_change == pytest.approx(-0.04)
    assert found.reason() == (
        "20 % of the predictions there change class under a little random labelling, and the NLL out of fold is 4.0 % "
        "lower than an early-stopped standard ensemble's"
    )


def test_a_beta_that_costs_on_labelled_rows_is_not_taken():
    assert decide(evidence(oof=(0.50, 0.49, 0.4995))).beta == 0.2  # a larger one must save two in a thousand
    assert decide(evidence(oof=(0.50, 0.48, 0.49))).beta == 0.2  # and no less than the one before it
    assert decide(evidence((0, 0.03, 0.2), oof=(0.50, 0.50, 0.51))).beta == 0.03  # the smallest must cost nothing
    found = decide(evidence((0, 0.03, 0.2), oof=(0.50, 0.505, 0.6)))
    assert (found.beta, found.refused) == (0.0, "source")
    assert "it would not lower the NLL out of fold, so this is an early-stopped standard ensemble" in found.reason()


def test_softness_that_nothing_speaks_for_is_not_bought():
    sure = np.tile([0.9, 0.1], (10, 1))
    three = np.stack([sure, softer(0, 0.7), softer(0, 0.6)])
    found = decide(dataclasses.replace(evidence((0, 0.03, 0.2)), on_unlabeled=three))
    assert (found.beta, found.refused, found.flipped) == (0.0, "price", 0.0)
    assert "could cost more than it saves" in found.reason()


def test_nothing_is_changed_where_nine_rows_of_ten_are_expected_to_be_right():
    assert decide(evidence(accuracy=0.7)).beta == 0.6
    found = decide(evidence(accuracy=0.91))
    assert (found.beta, found.refused) == (0.0, "right")
    assert "expected to be right on more than nine rows of ten there, so this is" in found.reason()
    assert next_beta(evidence((0, 0.2), accuracy=0.91)) is None
    assert next_beta(evidence((0, 0.2), accuracy=0.89)) is not None


def test_an_ensemble_is_not_left_less_sure_than_it_is_expected_to_be_right():
    found = decide(evidence((0, 0.03, 0.2), accuracy=0.715))  # .65 is .065 below it, and .03 + .5 * .04 allowed
    assert (found.beta, found.refused) == (0.03, "")
    found = decide(evidence((0, 0.03, 0.2), accuracy=0.9))
    assert (found.beta, found.refused) == (0.0, "unsure")
    assert "it would leave the ensemble less sure than it is expected to be right" in found.reason()
    assert found.opinions == Opinions(0.9, 0.9, 0.9)
    gained = evidence((0, 0.03, 0.2), accuracy=0.715, oof=(0.50, 0.49, 0.40))
    assert decide(gained).beta == 0.2  # labels out of fold speak for it


def test_the_largest_must_be_worth_what_it_costs_beyond_the_middle():
    dear = np.stack([SURE, softer(2, 0.68), softer(2, 0.55)])
    found = decide(dataclasses.replace(evidence(accuracy=0.5, oof=(0.50, 0.49, 0.489)), on_unlabeled=dear))
    assert found.beta == 0.2  # its flips are those of the middle one
    flipped = np.stack([SURE, softer(2, 0.68), softer(5, 0.55)])
    assert decide(dataclasses.replace(evidence(accuracy=0.5), on_unlabeled=flipped)).beta == 0.6


def test_an_ensemble_that_is_all_but_certain_is_left_alone_and_nothing_else_is_tried():
    certain = np.stack([np.tile([0.999, 0.001], (10, 1)), np.tile([0.998, 0.002], (10, 1))])
    sure = dataclasses.replace(evidence((0, 0.2)), on_unlabeled=certain)
    assert next_beta(sure) is None
    found = decide(sure)
    assert (found.beta, found.refused) == (0.0, "certain")
    assert "all but certain there" in found.reason()


def test_where_a_candidate_was_not_measured_its_other_stops_count():
    gaps = evidence()
    gaps.nll[2, 2] = np.nan
    assert decide(gaps).n_steps == 20
