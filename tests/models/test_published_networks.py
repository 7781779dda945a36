"""The built-in networks against reference values of the published ones.

`tests/golden/models/models.json` lists every parameter, and the logits of four CIFAR-10 test images under
parameters that a formula defines.
"""

from __future__ import annotations

import functools
import json
import math
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from flax.traverse_util import flatten_dict, unflatten_dict

from nu_ensembles import models
from nu_ensembles.models import Model

GOLDEN = Path(__file__).parents[1] / "golden" / "models"
REFERENCE = json.loads((GOLDEN / "models.json").read_text())
NETWORKS = {
    "LeNet_c10": models.lenet(10),
    "LeNet_c100": models.lenet(100),
    "MLP_Large_c10": models.mlp_large(10),
    "MLP_Large_c100": models.mlp_large(100),
    "FixupWideResNet22_c10": models.wide_resnet(10),
    "FixupWideResNet22_c100": models.build("wrn-22-4", 100),
}


def images() -> np.ndarray:
    with np.load(GOLDEN / "cifar10_test_images_0_to_3.npz", allow_pickle=False) as file:
        return file["images"].astype(np.float32) / 255


def formula_parameter(position: int, path: str, shape: list[int]) -> np.ndarray:
    """The reference's parameter number `position`, as `forward_check` in the file defines it."""
    i = np.arange(1, math.prod(shape) + 1, dtype=np.float64)
    h = np.sin(12.9898 * i + 78.233 * (position + 1)) * 43758.5453
    v = (math.sqrt(3) * (2 * (h - np.floor(h)) - 1)).reshape(shape)
    if path.endswith("kernel"):
        v *= math.sqrt(2 / math.prod(shape[:-1]))
    elif path.endswith("fixup_multiplier"):
        v = 1 + 0.05 * v
    else:
        v *= 0.05
    return v.astype(np.float32)


@functools.cache
def initialised(model: Model) -> Any:
    return jax.jit(lambda key: model.init(key, images()))(jax.random.key(0))


@pytest.mark.parametrize("name", NETWORKS)
def test_every_parameter_has_the_published_name_and_shape(name: str) -> None:
    variables = jax.eval_shape(NETWORKS[name].init, jax.random.key(0), images())
    parameters: dict[str, Any] = flatten_dict(variables["params"], sep="/")
    expected = {layer["path"]: tuple(layer["shape"]) for layer in REFERENCE["layers"][name]}
    assert {path: leaf.shape for path, leaf in parameters.items()} == expected
    assert sum(math.prod(leaf.shape) for leaf in parameters.values()) == REFERENCE["parameter_counts"][name]


@pytest.mark.parametrize("name", NETWORKS)
def test_logits_agree_to_five_digits_under_the_reference_parameters(name: str) -> None:
    layers = REFERENCE["layers"][name]
    parameters = {
        layer["path"]: formula_parameter(position, layer["path"], layer["shape"])
        for position, layer in enumerate(layers)
    }
    variables = {"params": unflatten_dict(parameters, sep="/")}
    logits = jax.jit(NETWORKS[name].apply)(variables, images())
    expected = REFERENCE["forward_check"]["expected"][name]
    scale = np.abs(logits).max()
    np.testing.assert_allclose(logits[:, :10], expected["logits_first_10_classes"], rtol=0, atol=1e-5 * scale)
    np.testing.assert_allclose(logits.sum(axis=1), expected["sum_of_all_logits"], rtol=0, atol=1e-4 * scale)


@pytest.mark.parametrize("name", ["LeNet_c10", "MLP_Large_c10", "FixupWideResNet22_c10"])
def test_initial_weights_have_the_specified_spread(name: str) -> None:
    parameters = flatten_dict(initialised(NETWORKS[name])["params"], sep="/")
    for layer in REFERENCE["layers"][name]:
        weights = np.asarray(parameters[layer["path"]])
        if layer["init_std"] == 0.0:
            expected = 1.0 if layer["path"].endswith("fixup_multiplier") else 0.0
            np.testing.assert_array_equal(weights, expected)
            continue
        fan_in = math.prod(layer["shape"][:-1])
        # Fixup: sqrt(2 / fan_in) / sqrt(9 blocks) for the first convolution of a branch; LeCun elsewhere.
        is_branch = "FixupBasicBlock" in layer["path"] and "Conv_0" in layer["path"]
        expected = math.sqrt(2 / fan_in / 9) if is_branch else math.sqrt(1 / fan_in)
        # The relative standard error of a standard deviation is at most 1/sqrt(2n).
        tolerance = 5 / math.sqrt(2 * weights.size)
        assert weights.std() == pytest.approx(expected, rel=tolerance)
        assert weights.std() == pytest.approx(layer["init_std"], rel=2 * tolerance)
        # LeCun's normal is cut at two of its own sds, rescaled by 1/0.8796; Fixup's is not cut.
        assert (np.abs(weights).max() > 2.2738 * expected) == is_branch


def test_a_fresh_wide_resnet_is_undecided_to_the_last_bit() -> None:
    model = models.build("wrn-22-4", 10)
    logits = jax.jit(model.apply)(initialised(model), images())
    np.testing.assert_array_equal(logits, np.zeros((4, 10)))
