"""Trains on four simulated devices and prints, as JSON, what `test_sharded.py` asserts on; a process of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
from trainings import BARS, N_STEPS, Training, by_the_book

import nu_ensembles as nu
from nu_ensembles import models, storage
from nu_ensembles.engine import run as engine_run
from nu_ensembles.engine.checkpoints import CheckpointFolder
from nu_ensembles.engine.train import train

CALLS: list[tuple[Any, ...]] = []
COLLECTIVES = ("all-reduce", "all-gather", "all-to-all", "collective-permute", "reduce-scatter", "collective-broadcast")


class PowerCutError(Exception):
    pass


def recorded(*arguments: Any) -> Any:
    CALLS.append(jax.tree.map(lambda leaf: jax.typeof(leaf) if isinstance(leaf, jax.Array) else leaf, arguments))
    return STEPS(*arguments)


COMPILED_LOOP = engine_run.compiled_loop
STEPS = COMPILED_LOOP((), True)
engine_run.compiled_loop = lambda options, on_a_mesh: recorded if on_a_mesh else COMPILED_LOOP(options, False)


def difference(one: Any, other: Any) -> float:
    return max(jax.tree.leaves(jax.tree.map(lambda a, b: float(np.abs(a - b).max()), one, other)))


def difference_from_the_reference(dtype: str) -> float:
    """Of five members, after ten steps."""
    with jax.enable_x64(dtype == "float64"):
        training = Training("remembering", "nu", dtype, n_members=5)
        trained = train(training.assembled(), N_STEPS, plan="sharded")
        params, state, losses = by_the_book(training)
    return difference((trained.params, trained.model_state, trained.losses), (params, state, losses.mean(axis=1)))


def interrupted_and_resumed(folder: Path, fit: Any) -> nu.Ensemble:
    """Fits with a power cut after the second checkpoint, then resumes."""
    save, saves = CheckpointFolder.save, []

    def save_twice(self: CheckpointFolder, *arguments: Any) -> None:
        save(self, *arguments)
        saves.append(arguments)
        if len(saves) == 2:
            raise PowerCutError

    setattr(CheckpointFolder, "save", save_twice)  # noqa: B010  # a type checker refuses the plain assignment
    try:
        fit(run_folder=folder, checkpoint_seconds=0)
        raise AssertionError("the power did not go out")
    except PowerCutError:
        return fit(run_folder=folder, checkpoint_seconds=0, resume=True)
    finally:
        CheckpointFolder.save = save


def main(folder: Path) -> dict[str, Any]:
    arrays = storage.load_arrays(folder / "blobs.safetensors", None)
    model = models.mlp(3, hidden=(8,), dtype="float64")

    def fit(plan: str, n_members: int, **options: Any) -> nu.Ensemble:
        x, y, u = (arrays[name] for name in ("x", "y", "u"))
        settings = {"batch_size": 8, "learning_rate": 0.01, "dtype": "float64", "steps": 10, **options}
        return nu.fit(model, x, y, u, nu.methods.Nu(0.1), n_members, plan=plan, **settings)

    sharded = fit("sharded", 5)
    arguments = CALLS[0]
    program = str(STEPS.lower(*arguments).compile().as_text())
    validation = {"validation": (arrays["x"], arrays["y"]), "evaluate_every": 1}
    resumed = interrupted_and_resumed(folder / "run", lambda **o: fit("sharded", 5, **validation, **o))
    return {
        "n_devices": len(jax.devices()),
        "n_mesh_devices": arguments[1].size,
        "n_lanes": arguments[2].failed_at.shape[0],
        "against the reference": {dtype: difference_from_the_reference(dtype) for dtype in BARS},
        "resumed against unbroken": difference(resumed.params, sharded.params),
        "n_evaluations": len(resumed.history),
        "collectives": [name for name in COLLECTIVES if name in program],
    }


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
