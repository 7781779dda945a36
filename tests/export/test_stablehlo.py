"""StableHLO files: JAX alone reads them, for any number of rows, and what is inside is the ensemble."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from mixed_table import mixed_table

import nu_ensembles as nu
from nu_ensembles.export.inputs import input_arrays
from nu_ensembles.export.stablehlo import stablehlo_bytes


def call(ensemble: nu.Ensemble, x: object, *outputs: str) -> dict[str, np.ndarray]:
    program = jax.export.deserialize(bytearray(stablehlo_bytes(ensemble, outputs or ("probabilities",))))
    assert program.platforms == ("cpu", "cuda")
    found: Any = program.call(input_arrays(ensemble, x, "stablehlo"))
    return {name: np.asarray(value) for name, value in found.items()}


def test_an_export_is_a_file_that_jax_runs_and_a_description(of_numbers: nu.Ensemble, tmp_path: Path) -> None:
    exported = of_numbers.export(tmp_path / "model.stablehlo", "stablehlo", outputs=("probabilities", "uncertainty"))
    assert exported.difference < 1e-6
    assert exported.n_rows == 64
    x = np.random.default_rng(1).normal(20.0, 3.0, size=(7, 5)).astype(np.float32)
    program = jax.export.deserialize(bytearray((tmp_path / "model.stablehlo").read_bytes()))
    found = program.call({"rows": x})
    np.testing.assert_allclose(found["probabilities"], of_numbers.predict_proba(x), atol=1e-6)
    description = json.loads((tmp_path / "model.stablehlo.json").read_text(encoding="utf-8"))
    assert description["classes"] == {"dtype": "<U3", "values": ["no", "yes"]}
    assert description["inputs"] == [{"name": "rows", "kind": "rows", "dtype": "float32", "shape": ["rows", 5]}]
    assert [each["shape"] for each in description["outputs"]] == [["rows", 2], ["rows"]]
    assert description["n_members"] == 3


def test_a_mixed_table_is_encoded_inside(of_a_table: nu.Ensemble) -> None:
    table = mixed_table(40, seed=1)
    found = call(of_a_table, table, "probabilities", "members")
    np.testing.assert_allclose(found["probabilities"], of_a_table.predict_proba(table), atol=1e-6)
    np.testing.assert_allclose(found["members"].swapaxes(0, 1), of_a_table.predict_members(table), atol=1e-6)


def test_pixels_and_convolutions(of_pixels: nu.Ensemble) -> None:
    x = np.random.default_rng(1).integers(0, 256, (3, 8, 8, 3), np.uint8)
    np.testing.assert_allclose(call(of_pixels, x)["probabilities"], of_pixels.predict_proba(x), atol=1e-6)


def test_a_file_that_exists_is_left_alone(of_numbers: nu.Ensemble, tmp_path: Path) -> None:
    (tmp_path / "model.stablehlo.json").write_text("mine")
    with pytest.raises(nu.InputError, match=r"model\.stablehlo\.json"):
        of_numbers.export(tmp_path / "model.stablehlo", "stablehlo")
    assert (tmp_path / "model.stablehlo.json").read_text() == "mine"


def test_unknown_formats_and_outputs_are_named(of_numbers: nu.Ensemble, tmp_path: Path) -> None:
    with pytest.raises(nu.InputError, match=r"Unknown format 'stable'\. Did you mean 'stablehlo'\?"):
        of_numbers.export(tmp_path / "model", "stable")
    with pytest.raises(nu.InputError, match=r"Unknown output 'member'\. Did you mean 'members'\?"):
        of_numbers.export(tmp_path / "model", "stablehlo", outputs=("member",))
    assert not list(tmp_path.iterdir())
