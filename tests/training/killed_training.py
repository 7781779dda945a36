"""Starts a fit and kills itself with SIGKILL while a checkpoint is being written; run by tests of training.

Arguments: a folder with `blobs.safetensors`, a plan, a method.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import nu_ensembles as nu
from nu_ensembles import models, storage
from nu_ensembles.engine import checkpoints

METHODS = {"nu": nu.methods.Nu(0.1), "self_training": nu.methods.SelfTraining(eras=2, fraction=0.4)}


def main(folder: Path) -> None:
    arrays = storage.load_arrays(folder / "blobs.safetensors", None)
    write, written = storage.write_sealed_json, []

    def write_or_die(path: Any, content: Any) -> None:
        written.append(path)
        if len(written) == 3:  # the arrays of the third checkpoint are on disk, its index is not
            os.kill(os.getpid(), signal.SIGKILL)
        write(path, content)

    checkpoints.storage.write_sealed_json = write_or_die
    x, y, u = (arrays[name] for name in ("x", "y", "u"))
    nu.fit(
        models.mlp(3, hidden=(8,)),
        x,
        y,
        u,
        METHODS[sys.argv[3]],
        n_members=3,
        steps=20,
        batch_size=8,
        learning_rate=0.01,
        plan=sys.argv[2],
        validation=(x[:5], y[:5]),
        evaluate_every=1,
        run_folder=folder / "run",
        checkpoint_seconds=0,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
