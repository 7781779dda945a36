"""One of several processes that train an ensemble together; `test_processes.py` compares what they save."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax

import nu_ensembles as nu
from nu_ensembles import storage
from nu_ensembles.engine.checkpoints import CheckpointFolder


def die_at_checkpoint(number: int) -> None:
    """This process dies, as if it was killed, when it has written so many checkpoints."""
    save, saves = CheckpointFolder.save, []

    def counted(self: CheckpointFolder, *arguments: object) -> None:
        save(self, *arguments)  # pyright: ignore
        saves.append(self)
        if len(saves) == number:
            os._exit(9)

    setattr(CheckpointFolder, "save", counted)  # noqa: B010  # a type checker refuses the plain assignment


def main(job: str, folder: Path, process: int, n_processes: int, port: int) -> None:
    if n_processes > 1:
        jax.distributed.initialize(f"127.0.0.1:{port}", n_processes, process)
    arrays = storage.load_arrays(folder / "blobs.safetensors", None)
    x, y, u = (arrays[name] for name in ("x", "y", "u"))
    model = nu.models.mlp(3, hidden=(8,))
    method = nu.methods.Nu(0.1)
    how: dict[str, Any] = {"batch_size": 8, "learning_rate": 0.01, "steps": 600}
    if job == "killed" and process == min(1, n_processes - 1):
        die_at_checkpoint(2)
    if job == "diverges":
        how |= {"optimizer": optax.sgd(1e20)}
    if job in ("killed", "resumed"):
        how |= {"run_folder": folder / "run", "checkpoint_seconds": 0, "resume": job == "resumed"}
        how |= {"validation": (x, y), "evaluate_every": 40}
    if job == "lenet":
        images = np.random.default_rng(0).integers(0, 256, (50, 16, 16, 1), np.uint8)
        model, x, u, how = "lenet", images[:40], images, how | {"steps": 20}
    if job == "joint":
        method = nu.methods.Dice(0.1)
    try:
        ensemble = nu.fit(model, x, y, u, method, 5, **how)
    except Exception as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        os._exit(3)
    leaves = jax.tree.leaves(ensemble.params)
    history = [np.array([[row[name] for name in sorted(row)] for row in ensemble.history])] if ensemble.history else []
    found = {str(number): leaf for number, leaf in enumerate([*leaves, *history])}
    storage.save_arrays(folder / f"{job}-{n_processes}-{process}.safetensors", found)


if __name__ == "__main__":
    name, place, *numbers = sys.argv[1:]
    main(name, Path(place), *map(int, numbers))
