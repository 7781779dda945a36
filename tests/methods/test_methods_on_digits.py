"""Every method that is a loss trains on digits at its defaults, breaks off, resumes, saves and loads.

One small network and one set of sizes throughout, so that each method compiles one program.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles.backend import BLOCK
from nu_ensembles.engine.checkpoints import CheckpointFolder
from nu_ensembles.engine.loop import compiled_loop
from nu_ensembles.methods import (
    AgreeToDisagree,
    ConfidencePenalty,
    LabelSmoothing,
    Mixup,
    Pac2,
    Pac2B,
    Standard,
)

MODEL = nu.models.mlp(10, hidden=(32,))
N_MEMBERS, N_STEPS = 3, BLOCK + 24
METHODS = {
    "agree_to_disagree": AgreeToDisagree(),
    "pac2": Pac2(),
    "pac2b, expected": Pac2B("expected", beta=0.001),
    "label_smoothing": LabelSmoothing(),
    "mixup": Mixup(),
    "confidence_penalty": ConfidencePenalty(),
}


class PowerCutError(Exception):
    pass


@pytest.fixture(scope="module")
def rows(digits) -> dict[str, np.ndarray]:
    x, y = digits
    parts = nu.datasets.split(len(x), {"labelled": 50, "unlabelled": 300, "test": None}, 0, stratify=y)
    return {name: x[part] for name, part in parts.items()} | {f"{name} y": y[part] for name, part in parts.items()}


def fit(rows: dict[str, np.ndarray], method: Any, n_members: int = N_MEMBERS, **options: Any) -> nu.Ensemble:
    return nu.fit(
        MODEL,
        rows["labelled"],
        rows["labelled y"],
        rows["unlabelled"],
        method,
        n_members,
        steps=N_STEPS,
        learning_rate=0.01,
        **options,
    )


@pytest.fixture(scope="module")
def accuracy_of_one(rows) -> float:
    """Of a single network, the mean over the members of a standard ensemble."""
    members = fit(rows, Standard()).predict_members(rows["test"])
    return float(np.mean(members.argmax(axis=-1) == rows["test y"]))


@pytest.mark.parametrize("name", METHODS)
def test_a_method_trains_resumes_saves_loads_and_is_no_worse_than_a_single_network(
    rows, accuracy_of_one: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    method = METHODS[name]
    unbroken = fit(rows, method)
    save, n_saved = CheckpointFolder.save, 0

    def save_until_the_power_goes(*arguments: Any, **options: Any) -> None:
        nonlocal n_saved
        save(*arguments, **options)
        n_saved += 1
        # There are two checkpoints in a training, at the end of a block and at the last step; a sequential method's
        # third is in the middle of its second member.
        if n_saved == (3 if method.shape == "sequential" else 1):
            raise PowerCutError

    with monkeypatch.context() as patch:
        patch.setattr(CheckpointFolder, "save", save_until_the_power_goes)
        with pytest.raises(PowerCutError):
            fit(rows, method, run_folder=tmp_path / "run", checkpoint_seconds=0)
    resumed = fit(rows, method, run_folder=tmp_path / "run", resume=True, checkpoint_seconds=1e9)
    jax.tree.map(np.testing.assert_array_equal, resumed.params, unbroken.params)

    loaded = nu.Ensemble.load(tmp_path / "run" / "model")
    assert loaded.training["method"] == method.name
    assert loaded.training["hyper_parameters"] == nu.methods.hyper_parameters(method)
    members = loaded.predict_members(rows["test"])
    np.testing.assert_array_equal(members, unbroken.predict_members(rows["test"]))
    accuracy = np.mean(members.mean(axis=0).argmax(axis=-1) == rows["test y"])
    assert accuracy > accuracy_of_one - 0.01


def test_members_that_are_asked_to_disagree_do_so_in_one_program_whatever_alpha_is(rows) -> None:
    def disagreement(ensemble: nu.Ensemble) -> float:
        votes = ensemble.predict_members(rows["test"]).argmax(axis=-1)
        return float(np.mean([np.mean(votes[i] != votes[j]) for i, j in ((0, 1), (0, 2), (1, 2))]))

    compiled = compiled_loop((), False)._cache_size()
    weak = fit(rows, AgreeToDisagree(1e-9))
    strong = fit(rows, AgreeToDisagree(0.1))
    assert disagreement(strong) > 2 * disagreement(weak)
    # None where another test has compiled it already.
    assert compiled_loop((), False)._cache_size() <= compiled + 1
