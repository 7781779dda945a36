"""Options of a classifier that are none: one sentence, before anything is trained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles.errors import InputError

X, Y = np.arange(24.0).reshape(12, 2), np.arange(12) % 2


def a_row(key: Any, rows: Any) -> Any:
    return rows[0]


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ({"temperature": np.zeros(0)}, r"temperature must not be an array: array\(\[\], dtype=float64\)"),
        ({"calibration": np.zeros(3)}, "calibration must not be an array"),
        ({"early_stopping": "text"}, "early_stopping must be True or False, not 'text'"),
        ({"deterministic": None}, "deterministic must be True or False, not None"),
        ({"standardize": 3}, "standardize, unless it is 'auto', must be True or False, not 3"),
        ({"model_options": True}, "model_options must be a dict of options by name, not True"),
        ({"method_options": {1: 2}}, "method_options must be a dict of options by name, not {1: 2}"),
        ({"class_weight": [1]}, r"class_weight must be a dict of classes, 'balanced' or None, not \[1\]"),
        ({"column_types": {"a": 1}}, "column_types must say of 'a' its type or its levels in order, not 1"),
        ({"unlabeled_label": []}, r"unlabeled_label must be one label, not \[\]"),
        ({"random_state": -1}, "random_state must be a whole number, a RandomState or None, not -1"),
        ({"n_members": 2**70}, "n_members must be at most 1000000, not 1180591620717411303424"),
        ({"augment": {}}, "augment must be a function, or the name of one, not {}"),
        ({"augment": int}, r"augment must take a key and rows, and it cannot take rows of shape \(2,\)"),
        ({"augment": a_row}, r"augment must give back rows of the shape that it takes, \(2,\), and does not"),
        ({"plan": np.zeros(3)}, "plan must not be an array"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_is_no_option_is_told_in_one_sentence(option: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=rf"^{sentence}") as error:
        nu.EnsembleClassifier(**{"n_members": 1, "max_iter": 1, "random_state": 0, **option}).fit(X, Y)
    assert "\n" not in str(error.value)


def test_betas_may_be_an_array_of_one_axis() -> None:
    betas: Any = np.array([[0.1]])
    classifier = nu.NuEnsembleClassifier(n_members=1, max_iter=1, betas=betas)
    with pytest.raises(InputError, match=r"^each of betas must be a number of at least 0, not array"):
        classifier.fit(X, Y)
