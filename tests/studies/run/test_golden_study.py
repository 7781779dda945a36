"""The cells of a small study come to what they came to when the version of the results was last raised.

`tests/test_golden_training.py` holds the trainings; this holds what studies add: which rows train and test, and what is
measured. Another machine may round otherwise, so scores are compared to 1e-4.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from nu_ensembles.results_version import RESULTS_VERSION
from nu_ensembles_studies.run.reading import read_results

GOLDEN = Path(__file__).parents[2] / "golden" / "small_study.json"
WRITE = "NU_ENSEMBLES_WRITE_GOLDEN"
WHAT_TO_DO = (
    "If that is meant, raise RESULTS_VERSION in src/nu_ensembles/results_version.py and write the golden file anew: "
    f"{WRITE}=1 python -m pytest tests/studies/run/test_golden_study.py"
)


def test_the_cells_of_a_small_study_score_as_they_did(small_study: Path) -> None:
    found = {}
    for record in read_results(small_study).records.values():
        for epochs, measured in record.measured["epochs"].items():
            parts = {part: measured[part] for part in ("test", "scaled", "validation", "unlabeled")}
            scores = {f"{part} {name}": value for part, scores in parts.items() for name, value in scores.items()}
            kept = {name: scores[name] for name in scores if name.endswith((" nll", " ece", "_labels", " variance"))}
            found[f"{record.cell.name} at {epochs}"] = {**kept, "temperature": measured["temperature"]}
    golden: dict[str, Any] = (
        json.loads(GOLDEN.read_text(encoding="utf-8")) if GOLDEN.exists() else {"results_version": 0}
    )
    if WRITE in os.environ and golden["results_version"] != RESULTS_VERSION:
        golden = {"results_version": RESULTS_VERSION, "scores": found}
        GOLDEN.write_text(json.dumps(golden, indent=1) + "\n", encoding="utf-8")
    assert golden["results_version"] == RESULTS_VERSION, WHAT_TO_DO
    assert found.keys() == golden["scores"].keys(), WHAT_TO_DO
    for name, scores in golden["scores"].items():
        assert found[name] == pytest.approx(scores, abs=1e-4), f"{name}. {WHAT_TO_DO}"
