"""`nu-ensembles export`: a fitted model as one file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra onnx")
pytest.importorskip("onnx", reason="needs the extra onnx")


def test_a_model_becomes_one_file_that_is_never_overwritten(desk, trained: Path, tmp_path: Path) -> None:
    done = desk.run("export", trained, "--out", tmp_path / "own.onnx", "--uncertainty", "--json")
    assert done.code == 0
    result = json.loads(done.out)
    assert result["largest_difference"] < 1e-6
    assert [each["name"] for each in result["description"]["outputs"]] == ["probabilities", "uncertainty"]
    session = onnxruntime.InferenceSession(tmp_path / "own.onnx", providers=["CPUExecutionProvider"])
    (found,) = session.run(["probabilities"], {"rows": np.zeros((2, 3), np.float32)})
    assert found.sum(axis=1) == pytest.approx([1.0, 1.0], abs=1e-6)
    again = desk.run("export", trained, "--out", tmp_path / "own.onnx")
    assert again.code == 2
    assert "own.onnx" in again.err
