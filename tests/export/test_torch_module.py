"""Ensembles as PyTorch modules, and imported PyTorch networks as ONNX and StableHLO."""

# pyright: reportMissingImports=false
from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles import calibration
from nu_ensembles.problem import Standardisation

torch: Any = pytest.importorskip("torch", reason="needs the extra torch")


def untrained(model: nu.Model, row_shape: tuple[int, ...], **fields: Any) -> nu.Ensemble:
    """Two members whose every number was moved, so that none hides behind a zero."""
    keys = jax.random.split(jax.random.key(0), 2)
    variables = jax.vmap(lambda key: model.init(key, jnp.zeros((1, *row_shape))))(keys)
    rng = np.random.default_rng(0)

    def moved(leaf: Any) -> np.ndarray:
        array = np.asarray(leaf)
        return array + rng.normal(0.0, 0.05, array.shape).astype(array.dtype) if array.dtype.kind == "f" else array

    params = {"params": jax.tree.map(moved, variables["params"])}
    state = {name: jax.tree.map(np.asarray, value) for name, value in variables.items() if name != "params"}
    return nu.Ensemble(model, params, state, np.arange(3), row_shape, **fields)


@pytest.mark.parametrize(
    ("name", "row_shape", "options"),
    [
        ("mlp", (5,), {}),
        ("mlp", (5,), {"ramps": True}),
        ("lenet", (9, 8, 3), {}),
        ("lenet", (8, 8), {}),
        ("wrn-10-1", (9, 8, 3), {}),
    ],
)
def test_built_in_networks_give_the_same_probabilities_in_pytorch(
    name: str, row_shape: tuple[int, ...], options: dict[str, Any]
) -> None:
    ensemble = untrained(nu.models.build(name, 3, **options), row_shape, temperature=1.5)
    x = 2 * np.random.default_rng(1).normal(size=(6, *row_shape)).astype(np.float32)
    with torch.no_grad():
        module = ensemble.to_torch()
        np.testing.assert_allclose(module(torch.from_numpy(x)).numpy(), ensemble.predict_proba(x), atol=1e-6)
        members = module.predict_members(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(members, ensemble.predict_members(x), atol=1e-6)


@pytest.mark.parametrize("name", ["temperature", "smoothed_temperature", "vector_scaling", "matrix_scaling"])
def test_scaling_and_calibrators_are_inside(name: str) -> None:
    ensemble = untrained(nu.models.mlp(3), (5,), standardisation=Standardisation(np.full(5, 7.0), np.full(5, 2.0)))
    x = np.random.default_rng(1).normal(7.0, 2.0, size=(30, 5)).astype(np.float32)
    fitted = calibration.build(name).fit(ensemble.predict_members(x), np.arange(30) % 3)
    calibrated = dataclasses.replace(ensemble, calibrator=fitted)
    with torch.no_grad():
        found = calibrated.to_torch()(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(found, calibrated.predict_proba(x), atol=2e-6)


def small_network() -> Any:
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, stride=2, padding=1),
        torch.nn.BatchNorm2d(4),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(3, 2, 1),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Dropout(0.2),
        torch.nn.Linear(4, 3),
    )


def attention() -> Any:
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu")
    return torch.nn.Sequential(layer, torch.nn.Flatten(), torch.nn.LayerNorm(40), torch.nn.Linear(40, 3))


@pytest.mark.parametrize(("factory", "row_shape"), [(small_network, (3, 9, 9)), (attention, (5, 8))])
def test_imported_networks_leave_as_onnx_and_as_pytorch_again(factory: Any, row_shape: tuple[int, ...]) -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    from nu_ensembles.export.onnx_file import onnx_bytes, run_onnx

    ensemble = untrained(nu.models.from_torch(factory, (1, *row_shape)), row_shape)
    x = np.random.default_rng(1).normal(size=(6, *row_shape)).astype(np.float32)
    expected = ensemble.predict_proba(x)
    with torch.no_grad():
        np.testing.assert_allclose(ensemble.to_torch()(torch.from_numpy(x)).numpy(), expected, atol=1e-6)
    found = run_onnx(onnx_bytes(ensemble, ("probabilities",), {}), {"rows": x})["probabilities"]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_what_has_no_pytorch_form_is_refused() -> None:
    ensemble = untrained(nu.models.mlp(3), (5,))
    masked = dataclasses.replace(ensemble, mask_keys=np.zeros((2, 2), np.uint32))
    with pytest.raises(nu.InputError, match="dropout masks have no PyTorch form"):
        masked.to_torch()
    own = nu.Model(
        lambda key, x: {"params": {"w": jnp.zeros((5, 3))}}, lambda v, x, *, key, train: x @ v["params"]["w"]
    )
    with pytest.raises(nu.InputError, match="to_torch knows the built-in networks"):
        dataclasses.replace(ensemble, model=own).to_torch()
