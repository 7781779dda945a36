"""A training that survives being killed: stop it at any moment, start it again, and it goes on where it was.

The folder `runs/digits` holds the settings, scores as they come, checkpoints, and at the end the model.
"""

from pathlib import Path

import nu_ensembles as nu

RUN = Path("runs/digits")

X, y = nu.datasets.load_digits()
X = X / 16

if (RUN / "model").exists():
    ensemble = nu.Ensemble.load(RUN / "model")
else:
    ensemble = nu.fit(
        "mlp",
        X[:100],
        y[:100],
        n_members=3,
        epochs=60,
        seed=0,
        validation=(X[100:300], y[100:300]),
        evaluate_every=20,
        run_folder=RUN,
        resume=True,  # also the first time: an empty folder is one to begin in
        checkpoint_seconds=0,  # after every compiled call; the usual 30 are better for long trainings
    )

for row in ensemble.history:
    print(f"step {row['step']:4}  NLL {row['nll']:.3f}")
