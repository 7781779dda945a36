"""What must hold for any predictions: symmetries, ranges, perfect and repeated members."""

import math
from collections.abc import Set

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nu_ensembles import metrics

# Ties are broken by the lowest class, so relabelling classes may change an argmax that is tied; and equal-mass bins cut
# through ties by the order of samples. Continuous draws have no ties, votes have many.
CUT_BY_ORDER = {"tace"}

# a shared machine may be slow for a moment, which says nothing about the metric
relaxed = settings(deadline=None, max_examples=50)


@st.composite
def predictions(draw, votes=False, min_samples=1):
    """Member probabilities `[K, N, C]` and labels `[N]`."""
    n_members, n_classes = draw(st.integers(1, 4)), draw(st.integers(2, 5))
    n_samples = draw(st.integers(min_samples, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if votes:
        members = np.eye(n_classes)[rng.integers(0, n_classes, (n_members, n_samples))]
    else:
        members = rng.dirichlet(np.full(n_classes, draw(st.sampled_from([0.1, 1.0, 5.0]))), (n_members, n_samples))
    return members, rng.integers(0, n_classes, n_samples), rng


def same(left: dict[str, float], right: dict[str, float], leave_out: Set[str] = frozenset()) -> None:
    assert left.keys() == right.keys()
    for name in left.keys() - leave_out:
        assert left[name] == pytest.approx(right[name], rel=1e-9, abs=1e-9, nan_ok=True), name


@relaxed
@given(predictions())
def test_the_order_of_samples_does_not_matter(case):
    members, labels, rng = case
    order = rng.permutation(len(labels))
    same(metrics.evaluate(members, labels), metrics.evaluate(members[:, order], labels[order]))


@relaxed
@given(predictions(votes=True))
def test_the_order_of_samples_does_not_matter_with_ties_except_where_bins_cut_through_them(case):
    members, labels, rng = case
    order = rng.permutation(len(labels))
    shuffled = metrics.evaluate(members[:, order], labels[order])
    same(metrics.evaluate(members, labels), shuffled, leave_out=CUT_BY_ORDER)


@relaxed
@given(st.one_of(predictions(), predictions(votes=True)))
def test_the_order_of_members_does_not_matter(case):
    members, labels, rng = case
    # the mean of floats depends on their order in the last bit, which may break a tie
    order = rng.permutation(len(members))
    same(metrics.evaluate(members, labels), metrics.evaluate(members[order], labels), leave_out=CUT_BY_ORDER)


@relaxed
@given(predictions())
def test_renaming_classes_changes_nothing(case):
    members, labels, rng = case
    names = rng.permutation(members.shape[2])
    renamed = np.empty_like(members)
    renamed[:, :, names] = members
    same(metrics.evaluate(members, labels), metrics.evaluate(renamed, names[labels]))


@relaxed
@given(predictions())
def test_repeating_the_whole_ensemble_changes_no_score_of_its_mean(case):
    members, labels, _ = case
    twice = np.concatenate([members, members])
    # the members' own terms move: there are now pairs of identical members
    moved = {"mutual_information", "mutual_information_corrected", "disagreement"}
    same(metrics.evaluate(members, labels), metrics.evaluate(twice, labels), leave_out=moved)


@relaxed
@given(predictions())
def test_an_identical_member_adds_information_and_takes_disagreement_away(case):
    members, labels, _ = case
    one = members[:1]
    both = metrics.evaluate(np.concatenate([one, one]), labels)
    matrix = metrics.pairwise_mutual_information(one)
    assert both["mutual_information"] == pytest.approx(matrix[0, 0], abs=1e-9)
    assert both["disagreement"] == 0.0
    assert both["variance"] == pytest.approx(0.0, abs=1e-15)
    assert both["nll_gain"] == pytest.approx(0.0, abs=1e-9)


@relaxed
@given(predictions())
def test_values_lie_in_their_ranges(case):
    members, labels, _ = case
    scores = metrics.evaluate(members, labels)
    bits = math.log2(members.shape[2])
    for name in ("accuracy", "ece", "ece_debiased", "ece_classwise", "ece_top_label", "tace", "tace_nixon", "aurc"):
        assert -1e-12 <= scores[name] <= 1.0 + 1e-12, name
    assert 0.0 <= scores["brier"] <= 2.0
    assert 0.0 <= scores["variance"] <= 0.125 + 1e-12
    assert scores["nll"] >= 0.0
    assert scores["nll_gain"] >= -1e-9
    assert math.isnan(scores["mutual_information"]) or -1e-9 <= scores["mutual_information"] <= bits + 1e-9
    assert scores["brier_resolution"] <= scores["brier_uncertainty"] + 1e-12
    assert scores["ece_top_label"] >= scores["ece"] - 1e-12
    total = scores["brier_exact_reliability"] - scores["brier_exact_resolution"] + scores["brier_uncertainty"]
    assert total == pytest.approx(scores["brier"], abs=1e-9)


@relaxed
@given(predictions())
def test_a_perfect_predictor_scores_perfectly(case):
    members, labels, _ = case
    perfect = np.eye(members.shape[2])[labels]
    scores = metrics.evaluate(np.stack([perfect] * len(members)), labels)
    zero = (
        "nll",
        "brier",
        "ece",
        "tace",
        "tace_nixon",
        "brier_reliability",
        "brier_exact_reliability",
        "aurc",
        "variance",
    )
    assert {name: scores[name] for name in zero} == pytest.approx(dict.fromkeys(zero, 0.0), abs=1e-12)
    assert scores["accuracy"] == 1.0
    assert math.isnan(scores["error_auroc"])


@relaxed
@given(st.integers(1, 12), st.integers(0, 30), st.integers(0, 30), st.floats(0.51, 0.99))
def test_splitting_a_bin_of_constant_confidence_does_not_change_ece(factor, right, wrong, confidence):
    probs = np.tile([confidence, 1 - confidence], (right + wrong + 1, 1))
    labels = [0] * (right + 1) + [1] * wrong
    assert metrics.ece(probs, labels, n_bins=3 * factor) == pytest.approx(metrics.ece(probs, labels, n_bins=3))


@relaxed
@given(predictions(min_samples=2))
def test_nothing_warns_whatever_the_level_and_the_number_of_resamples(case):
    members, labels, rng = case
    scores = metrics.evaluate(members, labels, intervals=float(rng.uniform(0.01, 0.99)), n_resamples=3)
    assert all(
        math.isnan(scores[f"{name}_low"]) or scores[f"{name}_low"] <= scores[name] <= scores[f"{name}_high"]
        for name in scores
        if not name.endswith(("_low", "_high"))
    )
