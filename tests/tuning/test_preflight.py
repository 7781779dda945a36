"""The preflight: its figures, and the sentence that each pattern of figures leads to."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nu_ensembles.deployment.accuracy import AccuracyEstimate
from nu_ensembles.deployment.shift import Shift
from nu_ensembles.problem.problem import prepare
from nu_ensembles.tuning.advice import NO_FORECAST, Estimate, Evidence, OutOfFoldFit, advise
from nu_ensembles.tuning.preflight import _at_most, count_duplicates, preflight


def fit_with(overconfidence: tuple[float, float, float], n_steps: int = 100) -> OutOfFoldFit:
    return OutOfFoldFit(n_steps, Estimate(0.8, 0.75, 0.85), Estimate(0.5, 0.4, 0.6), Estimate(*overconfidence))


CALM = Evidence(
    n_labelled=500,
    n_examined=500,
    n_unlabelled=800,
    labels_per_class={"a": 250, "b": 250},
    early_stopped=fit_with((0.0, -0.01, 0.01)),
    last_step=fit_with((0.01, 0.0, 0.02), 400),
    nll_rise=Estimate(0.0, -0.1, 0.1),
    shift=Shift(0.5, 0.45, 0.55, 0.6),
    n_duplicates=0,
)


def changed(**figures) -> Evidence:
    return dataclasses.replace(CALM, **figures)


# The recommendation


def test_no_overconfidence_anywhere_means_that_there_is_nothing_to_mend():
    advice = advise(CALM)
    assert (advice.level, advice.notes) == ("unlikely", (NO_FORECAST,))
    assert advice.recommendation == (
        "Nothing to mend: with 500 labels the standard ensemble is not overconfident, neither where it is best "
        "(0.000 ± 0.010) nor at the end of its training (0.010 ± 0.010)."
    )


def test_overconfidence_where_the_standard_ensemble_is_best_is_something_to_mend():
    advice = advise(changed(early_stopped=fit_with((0.08, 0.05, 0.11)), last_step=fit_with((0.12, 0.08, 0.16), 400)))
    assert advice.level == "likely"
    assert "overconfident by 0.080 ± 0.030 even where it is best (100 steps)" in advice.recommendation


def test_overconfidence_at_the_end_alone_helps_against_long_training_only():
    advice = advise(changed(last_step=fit_with((0.3, 0.25, 0.35), 400), nll_rise=Estimate(0.9, 0.5, 1.3)))
    assert advice.level == "some"
    assert "which is overconfident by 0.300 ± 0.050" in advice.recommendation
    assert "90 % higher at the last step than after 100" in advice.notes[0]


def test_an_interval_too_wide_to_tell_is_called_that():
    advice = advise(changed(n_labelled=50, n_examined=50, last_step=fit_with((0.02, -0.07, 0.11), 400)))
    assert advice.level == "unclear"
    assert advice.recommendation.startswith("Hard to say: with 50 labels")


@pytest.mark.parametrize(
    ("figures", "says"),
    [
        ({"n_unlabelled": 0, "shift": None}, "there are no unlabelled rows"),
        ({"n_duplicates": 60}, "60 of 500 labelled rows stand among the unlabelled ones"),
    ],
)
def test_what_spoils_the_unlabelled_rows_is_to_be_fixed_first(figures, says):
    advice = advise(changed(early_stopped=fit_with((0.08, 0.05, 0.11)), **figures))
    assert advice.level == "fix first"
    assert advice.recommendation.startswith("Fix first: ")
    assert says in advice.recommendation


def test_rows_from_elsewhere_are_where_nu_pays():
    expected = AccuracyEstimate(0.6, 0.3, 0.8, True, "It may be off.")
    advice = advise(changed(shift=Shift(0.93, 0.9, 0.96, 1e-9, ("age", "site")), expected=expected))
    assert advice.level == "differs"
    assert advice.recommendation == (
        "The unlabelled rows differ from the labelled ones (told apart with AUROC 0.93, most by age, site): if they "
        "are what the model will be used on, this is where nu pays, and beta='auto' goes by what they tell; if not, "
        "take unlabelled rows from where the labelled ones come from."
    )
    assert advice.notes == ("Expected accuracy on the unlabelled rows: 0.60 (0.30 … 0.80). It may be off.", NO_FORECAST)


def test_rows_that_share_nothing_promise_nothing():
    advice = advise(changed(shift=Shift(1.0, 0.99, 1.0, 1e-9)))
    assert "no method can promise anything on the unlabelled ones" in advice.notes[0]


@pytest.mark.parametrize(
    ("figures", "says"),
    [
        (
            {"shift": Shift(0.62, 0.58, 0.66, 1e-4, ("age",))},
            "differ a little (told apart with AUROC 0.62, most by age)",
        ),
        ({"unseen_columns": ("dose",)}, "No labelled row says what these columns mean"),
        ({"settled_columns": ("ward",)}, "the same in all unlabelled rows, and not in the labelled ones: ward."),
        ({"shift": None}, "Too few rows to compare"),
        ({"n_duplicates": 3}, "3 labelled row(s) stand among the unlabelled ones"),
        ({"labels_per_class": {"a": 496, "b": 4}}, "The class 'b' has 4 labels only"),
        ({"labels_per_class": {"a": 480, "b": 20}}, "24 times as many labels"),
        ({"n_labelled": 9000}, "saw 500 labels; with all 9000"),
    ],
)
def test_what_is_worth_knowing_beside_it_is_noted(figures, says):
    advice = advise(changed(**figures))
    assert advice.level == "unlikely"
    assert any(says in note for note in advice.notes)


@given(
    st.tuples(st.floats(-0.3, 0.5), st.floats(0.001, 0.2), st.floats(-0.3, 0.5), st.floats(0.001, 0.2)),
    st.integers(0, 500),
    st.floats(0.3, 1.0),
)
def test_any_figures_lead_to_one_sentence(figures, n_duplicates, auroc):
    early, last = (fit_with((v, v - w, v + w)) for v, w in (figures[:2], figures[2:]))
    shift = Shift(auroc, auroc - 0.05, auroc + 0.05, 0.001)
    advice = advise(changed(early_stopped=early, last_step=last, n_duplicates=n_duplicates, shift=shift))
    assert advice.recommendation.endswith(".")
    assert ". " not in advice.recommendation


# The whole


def test_duplicates_are_labelled_rows_that_stand_among_the_unlabelled_ones():
    x = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [5.0, 6.0]])
    assert count_duplicates(x, np.array([[1.0, 2.0], [5.0, 6.5]])) == 2


def test_a_preflight_counts_scores_and_compares(digits):
    X, y = digits
    names = np.array(["nought", "one", "two"])
    rows = np.flatnonzero(y < 3)
    found = preflight(X[rows[:40]], names[y[rows[:40]]], X[rows[40:140]], max_iter=10, seed=3)
    evidence = found.evidence
    assert (evidence.n_labelled, evidence.n_unlabelled, evidence.n_duplicates) == (40, 100, 0)
    assert set(evidence.labels_per_class) == {"nought", "one", "two"}
    assert sum(evidence.labels_per_class.values()) == 40
    assert evidence.last_step.n_steps == 10
    assert evidence.early_stopped.n_steps <= 20
    assert evidence.early_stopped.nll.value <= evidence.last_step.nll.value
    assert 0 <= evidence.last_step.accuracy.low <= evidence.last_step.accuracy.high <= 1
    assert evidence.shift is not None
    assert json.loads(json.dumps(found.to_dict()))["recommendation"] == found.recommendation
    again = preflight(X[rows[:40]], names[y[rows[:40]]], X[rows[40:140]], max_iter=10, seed=3)
    assert again == found


def test_without_unlabelled_rows_there_is_something_to_fix_first(blobs):
    x, y, _ = blobs
    assert preflight(x, y, max_iter=5).level == "fix first"


def test_a_class_with_a_single_label_is_no_obstacle(blobs):
    x, _, u = blobs
    found = preflight(x, np.array([7, *[0, 1] * 19, 0]), u, max_iter=5)
    assert any("The class '7' has 1 labels only" in note for note in found.notes)


def test_an_accuracy_of_one_is_not_certain():
    # Of 40 rows none is wrong: a share of 1 - .025 ** (1 / 40) = .088 wrong would show that in one case of forty.
    estimate = Estimate.of_share(1.0, 1.0, 1.0, 40)
    assert (estimate.low, estimate.high) == (pytest.approx(0.912, abs=5e-4), 1.0)
    assert str(estimate) == "1.000 (0.912 to 1.000)"
    assert Estimate.of_share(0.0, 0.0, 0.0, 40).high == pytest.approx(1 - 0.912, abs=5e-4)
    assert str(Estimate.of_share(0.9, 0.8, 1.0, 40)) == "0.900 ± 0.100"


def test_of_many_labelled_rows_some_are_kept_and_two_of_every_class():
    codes = np.array([0] * 990 + [1] * 8 + [2] * 2)
    problem = prepare(np.arange(2000.0).reshape(1000, 2), codes)
    kept = _at_most(problem, 100, seed=0)
    assert 100 <= len(kept.x) <= 106
    assert np.bincount(kept.y).min() == 2
    np.testing.assert_array_equal(kept.x, problem.x[kept.row_numbers])
    assert _at_most(problem, 1000, seed=0) is problem
