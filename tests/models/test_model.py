"""The model itself, and how its variables part into what is trained and what is not."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nu_ensembles.errors import InputError
from nu_ensembles.models import Model, join_variables, logits_and_features, split_variables

LEAVES = st.floats(allow_nan=False) | st.lists(st.integers(), max_size=2)
NAMES = st.sampled_from(["params", "batch_stats", "cache", "kernel"])
VARIABLES = LEAVES | st.dictionaries(NAMES, LEAVES | st.dictionaries(NAMES, LEAVES))


def init(key: Any, x: Any) -> Any:
    return key


def apply(variables: Any, x: Any, *, key: Any, train: bool) -> Any:
    return x


def test_the_params_entry_is_trained_and_the_other_collections_are_state() -> None:
    variables = {"params": {"w": 1.0}, "batch_stats": {"mean": 2.0}, "cache": {}}
    assert split_variables(variables) == (
        {"params": {"w": 1.0}},
        {"batch_stats": {"mean": 2.0}, "cache": {}},
    )


@pytest.mark.parametrize("variables", [[1.0, 2.0], {"w": 1.0}, 3.0, ()])
def test_variables_without_a_params_entry_are_trained_as_a_whole(variables: Any) -> None:
    assert split_variables(variables) == (variables, {})


@given(VARIABLES)
def test_joining_undoes_splitting(variables: Any) -> None:
    assert join_variables(*split_variables(variables)) == variables


def test_models_of_the_same_functions_are_equal_and_hash_alike() -> None:
    assert Model(init, apply) == Model(init, apply)
    assert hash(Model(init, apply)) == hash(Model(init, apply))
    assert Model(init, apply) != Model(init, apply, features=apply)


def test_a_users_model_survives_pickle_and_deepcopy() -> None:
    model = Model(init, apply, features=apply)
    assert copy.deepcopy(model) is model
    assert pickle.loads(pickle.dumps(Model(abs, max))) == Model(abs, max)


def test_features_come_with_the_logits_from_one_pass_or_from_two_with_the_same_key() -> None:
    def features(variables: Any, x: Any, *, key: Any, train: bool) -> Any:
        return ("features", key, train)

    def both(variables: Any, x: Any, *, key: Any, train: bool) -> Any:
        return ("both", key, train)

    x: Any = "x"
    key: Any = 5
    two_passes = Model(init, apply, features=features)
    assert logits_and_features(two_passes, None, x, key=key, train=True) == ("x", ("features", 5, True))
    one_pass = Model(init, apply, features=features, apply_with_features=both)
    assert logits_and_features(one_pass, None, x, key=key, train=True) == ("both", 5, True)
    with pytest.raises(InputError, match=r"does not expose; give them as nu\.Model\(init, apply, features=…\)"):
        logits_and_features(Model(init, apply), None, x, key=key, train=True)


def test_something_that_is_no_function_is_refused() -> None:
    with pytest.raises(InputError, match=r"Model\(apply=…\) must be a function, not a dict; .*from_linen"):
        Model(init, {})  # pyright: ignore[reportArgumentType]
