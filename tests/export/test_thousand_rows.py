"""Exported files answer a thousand rows as the ensemble does, to 1e-5: in onnxruntime and in a fresh process."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mixed_table import mixed_table

import nu_ensembles as nu
from nu_ensembles import calibration
from nu_ensembles.calibration.other_priors import FittedOtherPriors
from nu_ensembles.companion import Companion, grow
from nu_ensembles.models import split_variables

pytest.importorskip("onnxruntime", reason="needs the extra onnx")
pytestmark = pytest.mark.slow
N_ROWS, N_CLASSES, N_MEMBERS = 1000, 10, 3


def of_images(model: nu.Model, row_shape: tuple[int, ...]) -> tuple[nu.Ensemble, Any]:
    """Members as they begin, with outputs that differ, and images for them."""
    keys = jax.random.split(jax.random.key(0), N_MEMBERS)
    variables = jax.vmap(lambda key: model.init(key, jnp.zeros((1, *row_shape))))(keys)
    # Networks that begin with zeros would answer the same to all.
    noisy = jax.tree.map(lambda leaf: np.asarray(leaf + 0.15 * jax.random.normal(keys[0], leaf.shape)), variables)
    params, state = split_variables(noisy)
    ensemble = nu.Ensemble(model, params, state, np.arange(N_CLASSES), row_shape, pixels=True)
    rng = np.random.default_rng(0)
    brightness = rng.uniform(0, 1, (N_ROWS, 1, 1, 1))
    return ensemble, (brightness * rng.integers(0, 256, (N_ROWS, *row_shape))).astype(np.uint8)


def torch_resnet() -> nu.Model:
    torch = pytest.importorskip("torch")
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, n_in: int, n_out: int) -> None:
            super().__init__()
            self.one, self.two = (
                nn.Conv2d(n_in, n_out, 3, 2, 1, bias=False),
                nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False),
            )
            self.first, self.second = nn.BatchNorm2d(n_out), nn.BatchNorm2d(n_out)
            self.shortcut = nn.Conv2d(n_in, n_out, 1, 2)

        def forward(self, x: Any) -> Any:
            return torch.relu(self.second(self.two(torch.relu(self.first(self.one(x))))) + self.shortcut(x))

    def make() -> Any:
        stem = [nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2, 1), nn.Dropout(0.2)]
        return nn.Sequential(
            *stem, Block(16, 16), Block(16, 32), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, N_CLASSES)
        )

    return nu.models.from_torch(make, (1, 3, 32, 32))


def with_everything(of_a_table: nu.Ensemble) -> tuple[nu.Ensemble, Any]:
    """A mixed table, a companion forest, a calibrator, and other priors."""
    table = mixed_table(400, seed=2)
    labels = np.arange(400) % 2
    x = of_a_table._network_rows(of_a_table._rows(table))
    forest = grow(x, labels, 2, n_trees=30, seed=0).forest
    pooled = dataclasses.replace(of_a_table, companion=Companion(forest, 0.4))
    fitted = calibration.build("temperature").fit(pooled.predict_proba(table)[None], labels)
    there = FittedOtherPriors(2, np.array([0.7, 1.4]), fitted)
    return dataclasses.replace(pooled, calibrator=there), mixed_table(N_ROWS, seed=3)


# A thousand rows of a mixed table hold words that the few it was trained on had not.
@pytest.mark.filterwarnings("ignore:X has words that the training rows had not")
@pytest.mark.parametrize("format", ["onnx", "stablehlo"])
@pytest.mark.parametrize("name", ["mlp", "lenet", "wrn-10-1", "torch resnet", "mixed table"])
def test_a_thousand_rows_are_answered_alike(name: str, format: str, of_a_table: nu.Ensemble, tmp_path: Path) -> None:
    if name == "mixed table":
        ensemble, rows = with_everything(of_a_table)
    elif name == "torch resnet":
        ensemble, rows = of_images(torch_resnet(), (3, 32, 32))
    else:
        ensemble, rows = of_images(nu.models.build(name, N_CLASSES), (32, 32, 3))
    spread = np.ptp(ensemble.predict_proba(rows), axis=0).max()
    assert spread > 0.05, "all rows are answered the same"
    exported = ensemble.export(tmp_path / f"model.{format}", format, sample=rows)
    print(f"{name}, {format}: {exported.difference:.1e}")
    assert exported.n_rows >= N_ROWS
    assert exported.difference < 1e-5
