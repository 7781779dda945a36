"""Which candidate a row takes, and what a claim comes to."""

import math
from collections.abc import Mapping

import pytest

from nu_ensembles.errors import InputError
from nu_ensembles_studies.declare.cells import StudyCell
from nu_ensembles_studies.results.claims import comparable_verdict, lowering_verdict
from nu_ensembles_studies.results.folder import Record
from nu_ensembles_studies.results.intervals import Interval
from nu_ensembles_studies.results.results import choose

MAKER = {"nu_ensembles": "1", "jax": "1", "backend": "cpu", "device": "cpu", "code": "1"}


def record(scores: Mapping[int, Mapping[str, float | None]], status: str = "done") -> Record:
    cell = StudyCell("digits", 100, "mlp", "nu", 0, tuple(scores))
    return Record(cell, status, MAKER, {"epochs": {str(e): {"validation": v} for e, v in scores.items()}})


TRAJECTORY = record(
    {
        10: {"accuracy": 0.5, "tace": 0.01, "nll": 1.2},
        20: {"accuracy": 0.6, "tace": 0.02, "nll": 1.0},
        30: {"accuracy": 0.65, "tace": 0.05, "nll": 1.5},
    }
)


def test_the_published_rule_trades_errors_for_tace_and_ours_takes_the_lowest_nll():
    candidates = [(TRAJECTORY, epochs) for epochs in (10, 20, 30)]
    assert choose(candidates, "published") == (TRAJECTORY, 30)  # .35² + .05² = .125 < .4² + .02²
    assert choose(candidates, "nll") == (TRAJECTORY, 20)


def test_an_infinite_nll_is_never_chosen():
    infinite = record({10: {"accuracy": 0.9, "tace": 0.0, "nll": None}})
    assert choose([(infinite, 10), (TRAJECTORY, 10)], "nll") == (TRAJECTORY, 10)


def test_missing_failed_and_too_short_trainings_are_no_candidates():
    failed = record({10: {"accuracy": 1.0, "tace": 0.0, "nll": 0.0}}, status="failed")
    assert choose([(None, 10), (failed, 10), (TRAJECTORY, 10)], "nll") == (TRAJECTORY, 10)
    assert choose([(TRAJECTORY, 99)], "nll") is None


def test_an_unknown_rule_is_refused():
    with pytest.raises(InputError, match="Unknown selection rule 'nl'"):
        choose([(TRAJECTORY, 10)], "nl")


@pytest.mark.parametrize(
    ("mean", "half_width", "published", "verdict"),
    [
        (-0.05, 0.01, -0.06, "holds"),
        (-0.02, 0.01, -0.06, "smaller"),
        (-0.02, 0.01, None, "holds"),
        (-0.02, 0.03, -0.06, "not settled"),
        (-0.005, 0.01, -0.06, "does not hold"),
        (0.05, 0.01, -0.06, "does not hold"),
        (0.05, 0.01, None, "does not hold"),
        (0.0, 0.01, None, "not settled"),
        (-0.05, math.nan, -0.06, "not settled"),
    ],
)
def test_a_score_that_should_fall(mean, half_width, published, verdict):
    assert lowering_verdict(Interval(mean, half_width), published) == verdict


@pytest.mark.parametrize(
    ("mean", "half_width", "verdict"),
    [
        (0.01, 0.005, "holds"),
        (-0.01, 0.005, "holds"),
        (-0.015, 0.01, "not settled"),
        (-0.035, 0.01, "does not hold"),
        (0.0, math.nan, "not settled"),
    ],
)
def test_an_accuracy_that_should_stay(mean, half_width, verdict):
    assert comparable_verdict(Interval(mean, half_width)) == verdict
