"""`nu.tune` against the same Optuna search one trial at a time, at equal trials, steps, folds, members and scores.

    python benchmarks/tune_side_by_side.py [--trials 32] [--only "side by side" nu.fit]

Digits, 200 labels and 800 unlabelled rows, a perceptron of 64-64, five folds of three members, 1000 steps, scored at
twelve of them; a TPE over learning rate, weight decay and beta. Each way runs once in a process of its own:

  side by side   `nu.tune` as it is by default
  no dropping    the same, and no trial ends before its last step
  lanes alone    the same, and one trial at a time: what running beside each other adds
  nu.fit         Optuna's own loop, whose objective trains each fold by `nu.fit` with twelve scores on the held-out rows
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

STEPS, N_LABELS, FOLDS, MEMBERS, HIDDEN, STOPS = 1000, 200, 5, 3, (64, 64), 12
SPACE = {
    "learning_rate": {"log": [3e-4, 1e-2]},
    "weight_decay": {"log": [1e-6, 1e-2]},
    "beta": {"log": [1e-4, 1e-1]},
}
WAYS = ("side by side", "nu.fit", "no dropping", "lanes alone")


def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    x = (x / 16).astype(np.float32)
    labelled, unlabelled = order[:N_LABELS], order[N_LABELS : N_LABELS + 800]
    return x[labelled], y[labelled], x[unlabelled]


def by_tune(n_trials: int, together: int, drops: bool) -> tuple[int, float]:
    import nu_ensembles as nu

    x, y, u = rows()
    found = nu.tune(
        SPACE,
        x,
        y,
        u,
        n_trials=n_trials,
        model_options={"hidden": HIDDEN},
        max_iter=STEPS // (N_LABELS // 32) + 1,
        n_stops=STOPS,
        n_members=MEMBERS,
        cv=FOLDS,
        together=together,
        drops=drops,
    )
    return len(found.trials), found.best.value


def by_fit(n_trials: int) -> tuple[int, float]:
    import optuna
    from sklearn.model_selection import StratifiedKFold

    import nu_ensembles as nu

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    x, y, u = rows()
    network = nu.models.build("mlp", 10, hidden=HIDDEN)
    folds = list(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(x, y))
    n_steps = 6 * (STEPS // (N_LABELS // 32) + 1)  # as many as `by_tune` makes

    def objective(trial: optuna.Trial) -> float:
        rates = {name: trial.suggest_float(name, *bounds["log"], log=True) for name, bounds in SPACE.items()}
        method = nu.methods.Nu(rates.pop("beta"))
        curves = []
        for train, held_out in folds:
            ensemble = nu.fit(
                network,
                x[train],
                y[train],
                u,
                method=method,
                n_members=MEMBERS,
                steps=n_steps,
                validation=(x[held_out], y[held_out]),
                evaluate_every=n_steps / STOPS / (len(train) // 32),
                **rates,
            )
            curves.append([row["nll"] for row in ensemble.history][:STOPS])
        return float(np.mean(curves, axis=0).min())

    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
    study.optimize(objective, n_trials=n_trials)
    return len(study.trials), study.best_value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--way", choices=WAYS, help="this one, in this process")
    parser.add_argument("--trials", type=int, default=32)
    parser.add_argument("--only", nargs="+", choices=WAYS, default=WAYS, metavar="WAY")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.way:
        started = time.perf_counter()
        n_trials, best = by_fit(given.trials) if given.way == "nu.fit" else by_tune(given.trials, *_how(given.way))
        seconds, spent = time.perf_counter() - started, sum(os.times()[:2])
        print(f"{n_trials} {best} {seconds} {spent}")
        return
    from recording import Recording

    found = Recording(
        "tune-side-by-side", "python benchmarks/tune_side_by_side.py", ("way", "trials"), given.out, steps=STEPS
    )
    for way in given.only:
        command = [sys.executable, __file__, "--way", way, "--trials", str(given.trials)]
        said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        n_trials, best, seconds, spent = said.stdout.split()[-4:]
        row = {"way": way, "trials": int(n_trials), "best_nll": float(best), "seconds": float(seconds)}
        found.add({**row, "processor_seconds": float(spent), "load": os.getloadavg()[0]})
        print(f"{way}: {float(seconds):.1f} s for {n_trials} trials", flush=True)


def _how(way: str) -> tuple[int, bool]:
    return {"side by side": (8, True), "no dropping": (8, False), "lanes alone": (1, False)}[way]


if __name__ == "__main__":
    main()
