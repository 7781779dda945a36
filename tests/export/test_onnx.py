"""ONNX files: onnxruntime gives the ensemble's probabilities, with tables encoded and calibrators applied inside."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mixed_table import mixed_table

import nu_ensembles as nu
from nu_ensembles import calibration
from nu_ensembles.companion import Companion, grow
from nu_ensembles.problem import Standardisation

onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra onnx")
pytest.importorskip("onnx", reason="needs the extra onnx")

from nu_ensembles.export.inputs import input_arrays, inputs_of  # noqa: E402
from nu_ensembles.export.onnx_file import onnx_bytes, run_onnx  # noqa: E402

ALL = ("probabilities", "members", "uncertainty")


def run(ensemble: nu.Ensemble, x: Any, outputs: tuple[str, ...] = ALL) -> dict[str, np.ndarray]:
    return run_onnx(onnx_bytes(ensemble, outputs, {}), input_arrays(ensemble, x, "onnx"))


def test_an_export_is_one_file_with_its_classes_in_it(of_numbers: nu.Ensemble, tmp_path: Path) -> None:
    exported = of_numbers.export(tmp_path / "model.onnx", sample=np.zeros((3, 5)))
    assert exported.difference < 1e-6
    assert exported.n_rows == 67
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    properties = session.get_modelmeta().custom_metadata_map
    assert json.loads(properties["classes"]) == ["no", "yes"]
    x = np.random.default_rng(1).normal(20.0, 3.0, size=(1000, 5)).astype(np.float32)
    (found,) = session.run(["probabilities"], {"rows": x})
    np.testing.assert_allclose(found, of_numbers.predict_proba(x), atol=1e-6)


def test_a_mixed_table_has_an_input_for_each_column(of_a_table: nu.Ensemble) -> None:
    table = mixed_table(40, seed=1)
    inputs = input_arrays(of_a_table, table, "onnx")
    assert {name: (each.dtype.kind, each.shape) for name, each in inputs.items()} == {
        "age": ("f", (40, 1)),
        "city": ("O", (40, 1)),
        "size": ("O", (40, 1)),
        "bought": ("i", (40, 1)),
        "year": ("f", (40, 1)),
    }
    found = run(of_a_table, table)
    np.testing.assert_allclose(found["probabilities"], of_a_table.predict_proba(table), atol=1e-6)
    np.testing.assert_allclose(found["members"].swapaxes(0, 1), of_a_table.predict_members(table), atol=1e-6)


def test_text_that_was_never_seen_is_unknown_and_no_text_is_a_gap(of_a_table: nu.Ensemble) -> None:
    inputs = input_arrays(of_a_table, mixed_table(40)[:3], "onnx")
    inputs["city"] = np.array([["Ulm"], ["Rome"], [""]], object)
    found = run_onnx(onnx_bytes(of_a_table, ("probabilities",), {}), inputs)["probabilities"]
    table = mixed_table(40)[:3]
    city = dataclasses.replace(table.parts[1], values=np.array([0, 1, -1], np.int32), levels=("Ulm", "Rome"))
    with pytest.warns(nu.DataWarning, match="taken as unknown: 'city'"):
        expected = of_a_table.predict_proba(dataclasses.replace(table, parts=(table.parts[0], city, *table.parts[2:])))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_pixels_and_convolutions(of_pixels: nu.Ensemble) -> None:
    x = np.random.default_rng(1).integers(0, 256, (3, 8, 8, 3), np.uint8)
    np.testing.assert_allclose(run(of_pixels, x)["probabilities"], of_pixels.predict_proba(x), atol=1e-6)


@pytest.mark.parametrize("name", ["temperature", *calibration.CALIBRATORS])
def test_every_calibrator_is_inside(name: str, of_numbers: nu.Ensemble) -> None:
    x = np.random.default_rng(1).normal(20.0, 3.0, size=(50, 5)).astype(np.float32)
    members = of_numbers.predict_members(x)
    fitted = calibration.build(name).fit(members, np.arange(50) % 2)
    calibrated = dataclasses.replace(of_numbers, calibrator=fitted)
    np.testing.assert_allclose(run(calibrated, x)["probabilities"], calibrated.predict_proba(x), atol=2e-6)


def test_the_uncertainty_is_zero_where_members_agree_and_log_k_where_each_is_sure_of_another(
    of_numbers: nu.Ensemble,
) -> None:
    from nu_ensembles.export.answer import disagreement

    sure = jnp.eye(3)[:, None, :]
    assert float(disagreement(sure)[0]) == pytest.approx(np.log(3.0), rel=1e-5)
    assert float(disagreement(jnp.full((4, 1, 2), 0.5))[0]) == 0.0
    x = np.full((2, 5), 20.0, np.float32)
    members = of_numbers.predict_members(x)
    assert run(of_numbers, x)["uncertainty"] == pytest.approx(np.asarray(disagreement(jnp.asarray(members))), abs=1e-6)


def test_dropout_masks_are_inside(of_numbers: nu.Ensemble) -> None:
    x = np.random.default_rng(0).normal(20.0, 3.0, size=(9, 5)).astype(np.float32)
    one = jax.tree.map(lambda leaf: leaf[:1], of_numbers.params)
    keys = np.arange(8, dtype=np.uint32).reshape(4, 2)
    model = nu.models.mlp(2, hidden=(8,), dropout=0.3, ramps=True)
    dropped = dataclasses.replace(of_numbers, model=model, params=one, mask_keys=keys)
    found = run(dropped, x)
    assert found["members"].shape == (9, 4, 2)
    np.testing.assert_allclose(found["members"].swapaxes(0, 1), dropped.predict_members(x), atol=1e-6)


def test_a_companion_is_inside(of_numbers: nu.Ensemble) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(20.0, 3.0, size=(60, 5)).astype(np.float32)
    forest = grow((x - 20.0) / 3.0, (x[:, 0] > x[:, 1]).astype(int), 2, n_trees=20, seed=0).forest
    pooled = dataclasses.replace(of_numbers, companion=Companion(forest, 0.4))
    expected = pooled.predict_proba(x)
    assert np.abs(expected - of_numbers.predict_proba(x)).max() > 0.1
    np.testing.assert_allclose(run(pooled, x)["probabilities"], expected, atol=1e-6)
    np.testing.assert_allclose(pooled.compile().predict_proba(x), expected, atol=1e-6)


def sorting(n_classes: int) -> nu.Model:
    def init(key: jax.Array, x: jax.Array) -> dict[str, Any]:
        return {"params": {"w": jax.random.normal(key, (x.shape[1], n_classes))}}

    def apply(variables: Any, x: jax.Array, *, key: Any, train: bool) -> jax.Array:
        return jnp.fft.irfft(jnp.fft.rfft(jnp.sort(x))) @ variables["params"]["w"][: 2 * (x.shape[1] // 2)]

    return nu.Model(init, apply)


def test_what_onnx_cannot_hold_is_named_and_stablehlo_offered(of_numbers: nu.Ensemble, tmp_path: Path) -> None:
    model = sorting(2)
    params = jax.vmap(lambda key: model.init(key, jnp.zeros((1, 5))))(jax.random.split(jax.random.key(0), 3))
    odd = dataclasses.replace(of_numbers, model=model, params=params, model_state={})
    with pytest.raises(nu.InputError, match=r"no rule for fft, sort; export it with format='stablehlo'"):
        odd.export(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_an_answer_that_differs_is_refused(
    of_numbers: nu.Ensemble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nu_ensembles.export import onnx_file

    true = onnx_file.run_onnx
    monkeypatch.setattr(onnx_file, "run_onnx", lambda *given: {n: v + 2e-5 for n, v in true(*given).items()})
    with pytest.raises(nu.InputError, match=r"differ by 2\.0e-05 .* nothing was written"):
        of_numbers.export(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_samples_that_are_no_rows_are_refused(of_numbers: nu.Ensemble, tmp_path: Path) -> None:
    for sample in (-0.5, np.zeros((3, 4)), ["text"]):
        with pytest.raises(nu.InputError, match="X "):
            of_numbers.export(tmp_path / "model.onnx", sample=sample)
    assert not list(tmp_path.iterdir())


def test_numbers_far_from_zero_are_taken_in_float64(of_numbers: nu.Ensemble) -> None:
    far = dataclasses.replace(of_numbers, standardisation=Standardisation(np.full(5, 1.6e9), np.full(5, 3.0)))
    x = np.random.default_rng(0).normal(1.6e9, 3.0, size=(9, 5))
    assert [each.dtype for each in inputs_of(far, "onnx")] == ["float64"]
    np.testing.assert_allclose(run(far, x)["probabilities"], far.predict_proba(x), atol=1e-6)
