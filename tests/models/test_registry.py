"""Networks by name, and the spec that makes a saved one again."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nu_ensembles import models
from nu_ensembles.errors import InputError

NAMED = [
    ("mlp", {}),
    ("mlp", {"hidden": [32], "dropout": 0.1}),
    ("mlp", {"ramps": True}),
    ("mlp_large", {}),
    ("lenet", {"dtype": "bfloat16"}),
    ("wide_resnet", {"depth": 16, "widen": 1}),
    ("wrn-28-10", {"shared_dropout": True}),
]


@pytest.mark.parametrize(("name", "options"), NAMED)
def test_equal_builds_are_one_object(name: str, options: dict[str, Any]) -> None:
    assert models.build(name, 10, **options) is models.build(name, 10, **options)
    assert models.build(name, 10, **options) != models.build(name, 11, **options)


def test_spelt_out_defaults_and_other_spellings_are_the_same_network() -> None:
    ten: Any = np.int64(10)
    assert models.build("mlp", 10) is models.build("mlp", ten, hidden=[64, 64], dropout=0, dtype=jnp.float32)
    assert models.build("WRN-22-4", 10) is models.build("wide_resnet", 10, depth=22, widen=4)
    assert models.build("mlp-large", 10) is models.mlp_large(10)


@pytest.mark.parametrize(("name", "options"), NAMED)
def test_a_spec_survives_json_pickle_and_deepcopy(name: str, options: dict[str, Any]) -> None:
    model = models.build(name, 10, **options)
    assert model.spec is not None
    assert models.from_spec(json.loads(json.dumps(model.spec.to_dict()))) is model
    assert models.from_spec(model.spec) is model
    assert pickle.loads(pickle.dumps(model)) is model
    assert copy.deepcopy(model) is model


def test_a_spec_names_every_option() -> None:
    assert models.build("wrn-16-1", 7).spec == models.ModelSpec(
        "wide_resnet",
        7,
        (("depth", 16), ("dropout", 0.3), ("dtype", "float32"), ("shared_dropout", False), ("widen", 1)),
    )


def test_equal_builds_share_one_compilation() -> None:
    traces = []

    def double(model: models.Model, x: Any) -> Any:
        traces.append(model)
        return 2 * x

    jitted = jax.jit(double, static_argnums=0)
    jitted(models.build("lenet", 10), 1.0)
    jitted(models.build("lenet", 10), 1.0)
    assert len(traces) == 1


@pytest.mark.parametrize(
    ("name", "n_classes", "options", "sentence"),
    [
        ("lenett", 10, {}, r"Unknown model 'lenett'\. Did you mean 'lenet'\?"),
        ("mlp", 10, {"hiden": (3,)}, r"Unknown mlp option 'hiden'\. Did you mean 'hidden'\?"),
        ("mlp_large", 10, {"dropout": 0.1}, "Unknown mlp_large option 'dropout'"),
        ("wrn-22-4", 10, {"depth": 16}, "'wrn-22-4' already says the depth"),
        ("wrn-20-4", 10, {}, "depth is 10, 16, 22, 28, …, not 20; try 16 or 22"),
        ("wrn-4-4", 10, {}, "not 4; try 10"),
        ("mlp", 1, {}, "n_classes must be a whole number of at least 2, not 1"),
        ("mlp", 2.5, {}, "n_classes must be a whole number"),
        ("mlp", 3, {"hidden": (8, 0)}, "hidden must be a whole number of at least 1, not 0"),
        ("mlp", 3, {"hidden": 8}, r"hidden must be a list \(a whole number each\), not 8"),
        ("mlp", 3, {"dropout": 1.0}, "dropout must be a number of at least 0 and below 1, not 1.0"),
        ("mlp", 3, {"dropout": "high"}, "dropout must be a number, not .high."),
        ("lenet", 3, {"dtype": "bfloat61"}, r"Unknown dtype 'bfloat61'\. Did you mean 'bfloat16'\?"),
        ("lenet", 3, {"dtype": "float64"}, "jax_enable_x64"),
    ],
)
def test_what_cannot_be_built_is_said_in_a_sentence(
    name: str, n_classes: Any, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        models.build(name, n_classes, **options)
