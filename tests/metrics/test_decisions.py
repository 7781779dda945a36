"""Abstention, conformal sets and labelling order: what people do with calibrated probabilities."""

import math
from typing import Any, cast

import numpy as np
import pytest

from nu_ensembles import metrics
from nu_ensembles.errors import InputError
from nu_ensembles.metrics.abstention import upper_limit


def two_class(confidence):
    confidence = np.asarray(confidence)
    return np.stack([confidence, 1 - confidence], axis=1)


def test_abstention_without_guarantee_takes_the_largest_coverage_that_keeps_the_target():
    # twenty samples, confidence falling from .99; the four least confident are wrong
    probs = two_class(np.linspace(0.99, 0.6, 20))
    labels = [0] * 16 + [1] * 4
    rule = metrics.Abstention(target_error=0.1, guarantee=None).fit(probs, labels)
    assert rule.coverage_ == pytest.approx(0.85)
    assert rule.error_ == pytest.approx(1 / 17)
    assert rule.accept(probs).sum() == 17
    assert rule.predict(probs).tolist() == [0] * 17 + [-1] * 3


def test_abstention_with_guarantee_is_more_careful():
    probs = two_class(np.linspace(0.99, 0.6, 200))
    labels = np.arange(200) >= 160
    careful = metrics.Abstention(target_error=0.1).fit(probs, labels)
    plain = metrics.Abstention(target_error=0.1, guarantee=None).fit(probs, labels)
    assert careful.coverage_ < plain.coverage_
    assert careful.error_ < careful.error_limit_ <= 0.1


def test_abstention_keeps_its_promise(calibrated):
    misses = 0
    for seed in range(60):
        rule = metrics.Abstention(target_error=0.2).fit(*calibrated(300, 4, seed))
        fresh, truth = calibrated(4000, 4, seed + 1000)
        taken = rule.accept(fresh)
        misses += taken.any() and np.mean(fresh.argmax(axis=1)[taken] != truth[taken]) > 0.2
    assert misses <= 3


def test_an_unreachable_target_accepts_nothing():
    rule = metrics.Abstention(target_error=0.01).fit(two_class([0.9, 0.8]), [0, 1])
    assert (rule.threshold_, rule.coverage_) == (math.inf, 0.0)
    assert math.isnan(rule.error_)
    assert rule.predict(two_class([0.999])).tolist() == [-1]


def test_clopper_pearson_limit_of_no_errors_is_the_root_of_the_failure_probability():
    limit = upper_limit(np.array([0.0, 10.0]), np.array([10, 10]), 0.05)
    assert limit.tolist() == pytest.approx([1 - 0.05 ** (1 / 10), 1.0])


@pytest.mark.parametrize("score", ["threshold", "adaptive"])
def test_conformal_sets_cover_as_promised(calibrated, score):
    covered, sizes = [], []
    for seed in range(20):
        sets = metrics.ConformalSets(coverage=0.8, score=score).fit(*calibrated(200, 6, seed))
        fresh, truth = calibrated(1000, 6, seed + 1000)
        share, size = metrics.set_coverage(sets.transform(fresh), truth)
        covered.append(share)
        sizes.append(size)
    assert 0.78 <= np.mean(covered) <= (0.83 if score == "threshold" else 0.95)
    assert np.mean(sizes) < 5


def test_the_threshold_is_the_corrected_quantile():
    probs = two_class([0.9, 0.8, 0.7, 0.6])
    sets = metrics.ConformalSets(coverage=0.6).fit(probs, [0, 0, 0, 0])
    # rank ceil(0.6 · 5) = 3 of the scores .1 .2 .3 .4
    assert sets.limit_ == pytest.approx(0.3)
    assert sets.transform([[0.75, 0.25], [0.65, 0.35], [0.2, 0.8]]).tolist() == [
        [True, False],
        [False, False],
        [False, True],
    ]


def test_too_few_labels_for_the_promise_give_full_sets():
    sets = metrics.ConformalSets(coverage=0.95).fit(two_class([0.9] * 5), [0] * 5)
    assert sets.limit_ == math.inf
    assert sets.transform([[0.99, 0.01]]).tolist() == [[True, True]]


def test_adaptive_sets_are_never_empty():
    sets = metrics.ConformalSets(coverage=0.1, score="adaptive").fit(two_class([0.9, 0.6, 0.7]), [0, 0, 0])
    assert sets.transform([[0.99, 0.01], [0.5, 0.5]]).any(axis=1).all()


MEMBERS = np.array([[[0.9, 0.1], [0.9, 0.1], [0.5, 0.5]], [[0.9, 0.1], [0.1, 0.9], [0.5, 0.5]]])


@pytest.mark.parametrize(
    ("by", "order"),
    [("epistemic", [1, 0, 2]), ("disagreement", [1, 0, 2]), ("entropy", [1, 2, 0]), ("margin", [1, 2, 0])],
)
def test_rows_are_ranked_by_what_the_members_do_not_know(by, order):
    # row 0: all agree; row 1: sure and opposed; row 2: all equally unsure
    assert metrics.rank_for_labelling(MEMBERS, by=by).tolist() == order
    assert metrics.rank_for_labelling(MEMBERS, by=by, n_rows=1).tolist() == order[:1]


def test_labelling_scores_have_their_formula():
    np.testing.assert_allclose(metrics.labelling_scores(MEMBERS, by="confidence"), [0.1, 0.5, 0.5])
    np.testing.assert_allclose(metrics.labelling_scores(MEMBERS, by="margin"), [0.2, 1.0, 1.0])
    entropy = -0.9 * math.log(0.9) - 0.1 * math.log(0.1)
    np.testing.assert_allclose(metrics.labelling_scores(MEMBERS), [0, math.log(2) - entropy, 0], atol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.Abstention(1.5), "target_error"),
        (lambda: metrics.Abstention(0.1, guarantee=2.0), "guarantee"),
        (lambda: metrics.Abstention(0.1).accept([[0.5, 0.5]]), "call fit"),
        (lambda: metrics.ConformalSets(coverage=90), "coverage"),
        (lambda: metrics.ConformalSets(score=cast(Any, "adaptative")), "Did you mean 'adaptive'"),
        (lambda: metrics.ConformalSets().transform([[0.5, 0.5]]), "call fit"),
        (lambda: metrics.set_coverage([[True, False]], [0, 1]), "Sets have shape"),
        (lambda: metrics.set_coverage([[True, False]], [-1]), "Labels"),
        (lambda: metrics.set_coverage([[True, False]], [2]), "Labels"),
        (lambda: metrics.rank_for_labelling(MEMBERS, by="entrpy"), "Did you mean 'entropy'"),
        (lambda: metrics.rank_for_labelling(MEMBERS[:1]), "compares members"),
        (lambda: metrics.rank_for_labelling(MEMBERS, n_rows=0), "n_rows"),
    ],
)
def test_misuse_gets_one_sentence(call, message):
    with pytest.raises(InputError, match=message):
        call()
