"""Reference values computed from the definitions, beside what published codes return (see expected.json)."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from nu_ensembles import metrics

GOLDEN = Path(__file__).parents[1] / "golden" / "metrics"
CASES = json.loads((GOLDEN / "expected.json").read_text(encoding="utf-8"))["cases"]
NAMES = {
    "accuracy": "accuracy",
    "nll": "nll",
    "ece": "ece_15",
    "tace": "tace_paper",
    "tace_nixon": "tace_google",
    "brier": "brier",
    "brier_reliability": "brier_reliability",
    "brier_resolution": "brier_resolution",
    "brier_uncertainty": "brier_uncertainty",
    "mutual_information": "mi_bits",
    "variance": "v_hat",
}


def load(case):
    with np.load(GOLDEN / f"{case}.npz", allow_pickle=False) as stored:
        return stored["probs"], stored["labels"], CASES[case]["expected"]


def number(value):
    return math.nan if value is None else float(value)


def close(value):
    return pytest.approx(number(value), rel=1e-6, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("case", CASES)
def test_evaluate_reproduces_the_reference_values(case):
    probs, labels, expected = load(case)
    scores = metrics.evaluate(probs, labels)
    assert {name: scores[name] for name in NAMES} == {name: close(expected[key]) for name, key in NAMES.items()}


@pytest.mark.parametrize("case", CASES)
def test_single_functions_reproduce_the_reference_values(case):
    probs, labels, expected = load(case)
    terms = metrics.brier_decomposition(probs, labels)
    assert metrics.accuracy(probs, labels) == close(expected["accuracy"])
    assert metrics.nll(probs, labels) == close(expected["nll"])
    assert metrics.ece(probs, labels) == close(expected["ece_15"])
    assert metrics.tace(probs, labels) == close(expected["tace_paper"])
    assert metrics.tace(probs, labels, variant="nixon") == close(expected["tace_google"])
    assert metrics.tace(probs, labels, variant="nixon", n_bins=15, threshold=1e-3) == close(
        expected["tace_google_15_bins_threshold_0.001"]
    )
    assert metrics.brier(probs, labels) == close(expected["brier"])
    assert terms.reliability == close(expected["brier_reliability"])
    assert terms.resolution == close(expected["brier_resolution"])
    assert terms.uncertainty == close(expected["brier_uncertainty"])
    assert metrics.mutual_information(probs) == close(expected["mi_bits"])
    assert metrics.variance(probs, labels) == close(expected["v_hat"])
    assert [metrics.accuracy(member, labels) for member in probs] == pytest.approx(expected["member_accuracy"])


@pytest.mark.parametrize("case", [case for case in CASES if CASES[case]["expected"]["mi_bits_pairs"]])
def test_every_pair_of_members_has_the_reference_mutual_information(case):
    probs, _, expected = load(case)
    matrix = metrics.pairwise_mutual_information(probs)
    for first, second, bits in expected["mi_bits_pairs"]:
        assert matrix[first, second] == close(bits)
        assert matrix[second, first] == close(bits)


@pytest.mark.parametrize("case", CASES)
def test_averaging_members_beforehand_changes_nothing(case):
    probs, labels, expected = load(case)
    mean = probs.mean(axis=0, dtype=np.float64)
    assert metrics.ece(mean, labels) == close(expected["ece_15"])
    assert metrics.nll(mean, labels) == close(expected["nll"])
