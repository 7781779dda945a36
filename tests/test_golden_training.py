"""A few steps of training come to what they came to when the version of the results was last raised.

The golden file holds the bits of small ensembles, with the kind of machine and the versions that they were trained
with, and their scores. Bits are compared where machine and versions are the same. Elsewhere XLA may add up in another
order, so the scores are compared, to 1e-4.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles import methods
from nu_ensembles.results_version import RESULTS_VERSION

GOLDEN = Path(__file__).parent / "golden" / "training.json"
WRITE = "NU_ENSEMBLES_WRITE_GOLDEN"
TOLERANCE = 1e-4
METHODS = {"standard": methods.Standard(), "nu": methods.Nu(beta=0.1), "joint": methods.Pac2()}
NETWORKS = {"mlp": nu.models.mlp(10, hidden=(16,)), "lenet": nu.models.lenet(10)}
CASES = [f"{method} {network}" for method in METHODS for network in NETWORKS]
WHAT_TO_DO = (
    f"If that is meant, raise RESULTS_VERSION in src/nu_ensembles/results_version.py (now {RESULTS_VERSION}), say in "
    "the commit why results differ, and write the golden file anew: "
    f"{WRITE}=1 python -m pytest tests/test_golden_training.py"
)


def machine() -> dict[str, Any]:
    """What decides the bits of the same program."""
    models = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    kinds = {line.split(":")[1].strip() for line in models if line.startswith(("model name", "flags"))}
    return {
        "machine": f"{platform.system()} {platform.machine()}",
        "cpu": hashlib.sha256("".join(sorted(kinds)).encode()).hexdigest()[:12],
        "cores": os.cpu_count(),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        **{name: metadata.version(name) for name in ("jax", "jaxlib", "numpy")},
    }


def trained(case: str) -> dict[str, Any]:
    """A digest of parameters and predictions, and the scores on rows that were not trained on."""
    method, network = case.split()
    x, y = nu.datasets.load_digits(images=network == "lenet")
    x = (x / 16).astype(np.float32)
    options: dict[str, Any] = {"n_members": 2, "steps": 6, "batch_size": 8, "learning_rate": 0.01, "seed": 3}
    ensemble = nu.fit(NETWORKS[network], x[:24], y[:24], x[24:72], METHODS[method], **options)
    members = ensemble.predict_members(x[72:200])
    digest = hashlib.sha256()
    for leaf in (*jax.tree.leaves(ensemble.params), members):
        digest.update(np.ascontiguousarray(leaf).tobytes())
    scores = nu.metrics.evaluate(members, y[72:200])
    kept = ("accuracy", "nll", "ece", "tace", "brier_reliability", "mutual_information", "variance")
    return {"bits": digest.hexdigest()[:16], "scores": {name: round(float(scores[name]), 7) for name in kept}}


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    return json.loads(GOLDEN.read_text(encoding="utf-8"))


def differs(found: dict[str, Any], golden: dict[str, Any], case: str) -> str:
    """How a case differs from the golden file, in words; empty where it does not."""
    stored = golden["cases"][case]
    if golden["machine"] == machine() and found["bits"] != stored["bits"]:
        return f"the bits of {case!r} are others than those that {GOLDEN.name} holds for this machine and versions"
    scores = {name: (value, found["scores"][name]) for name, value in stored["scores"].items()}
    apart = [f"{name} {was} → {now}" for name, (was, now) in scores.items() if abs(was - now) > TOLERANCE]
    return f"the scores of {case!r} changed: {', '.join(apart)}" if apart else ""


@pytest.mark.parametrize("case", CASES)
def test_a_training_comes_to_what_results_of_this_version_came_to(case: str, golden: dict[str, Any]) -> None:
    found = trained(case)
    if golden["results_version"] == RESULTS_VERSION:
        difference = differs(found, golden, case)
        assert not difference, f"{difference}. {WHAT_TO_DO}"
    if WRITE in os.environ:
        write(case, found)


def test_the_golden_file_is_that_of_the_version_of_the_results() -> None:
    """Last, so that a file that was just written counts."""
    stored = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert stored["results_version"] == RESULTS_VERSION, WHAT_TO_DO
    assert set(stored["cases"]) == set(CASES)


def write(case: str, found: dict[str, Any]) -> None:
    """Puts a case into the golden file, which it begins anew for another version or machine."""
    stored = json.loads(GOLDEN.read_text(encoding="utf-8")) if GOLDEN.exists() else {}
    head = {"results_version": RESULTS_VERSION, "machine": machine()}
    cases = stored["cases"] if all(stored.get(name) == value for name, value in head.items()) else {}
    GOLDEN.write_text(json.dumps({**head, "cases": {**cases, case: found}}, indent=1) + "\n", encoding="utf-8")
