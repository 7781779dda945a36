"""Rules for when to stop a standard ensemble: test NLL against that of the folds' best step, on small tables.

    python benchmarks/when_to_stop.py --folder FOLDER [--keep ARRAYS] --out results/when-to-stop.json

FOLDER: see `small_tables.py`. Three members a fold and ten on all labelled rows are trained once, and predict at 23
steps; every rule is then tried on these predictions, which --keep stores. Rules were looked at on seeds 10 to 12; what
is taken of them was confirmed on 13 and 14. Finished splits are kept in the file, and skipped when it is started again.
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

import small_tables
from nu_ensembles.engine.settings import Settings
from nu_ensembles.engine.train import Evaluate
from nu_ensembles.methods import Standard
from nu_ensembles.problem import prepare, random_key
from nu_ensembles.training import make_job, run_job, steps_in
from nu_ensembles.tuning.folds import folds_of, held_out_of
from nu_ensembles.tuning.search import SearchSettings
from nu_ensembles.tuning.trial import Heat, Show, Trial
from recording import Recording

FOLD_MEMBERS, MEMBERS, MAX_ITER, N_STOPS = 3, 10, 500, 23
FEWEST = 1e-6


class Keeping(Heat):
    """A heat that keeps what every member predicts."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.by_member: list[np.ndarray] = []

    def go_on(self, show: Show) -> None:
        self.stop += 1
        self.pool.advance(int(self.trial.stops[self.stop]), show)
        members = self.pool.probabilities(self.pool.lanes_of([0]))
        self.by_member.append(members.reshape(-1, self.trial.n_members, *members.shape[1:]).astype(np.float16))


def trained(split: small_tables.Split, standardize: bool, seed: int) -> dict[str, np.ndarray]:
    """What members of folds `[S, folds, members, V, C]` and the mean of the final ones `[S, N, C]` predict."""
    problem = prepare(split.x, split.y, split.x_unlabeled, standardize=standardize)
    x_test, y_test = problem.further_rows(split.x_test, split.y_test, "the test x")
    steps = steps_in(MAX_ITER, len(problem.x), 32)
    job = make_job(problem, "mlp", Standard(), Settings(32), MEMBERS, steps, random_key(seed))
    numbers = np.arange(len(problem.x))
    folds = folds_of(5, problem.y, seed, numbers, len(numbers), problem.classes)
    usual = SearchSettings().stops(steps)
    stops = np.union1d(SearchSettings(n_stops=N_STOPS).stops(steps), usual)
    trial = Trial(job, held_out_of(job, folds), stops, FOLD_MEMBERS)
    heat = Keeping(trial, {0: job.method.base}, trial.nothing_yet([0.0]))
    while not heat.is_over:
        heat.go_on(lambda n, loss: None)
    on_test: dict[int, np.ndarray] = {}
    run_job(job, evaluate=Evaluate(x_test, stops.tolist(), then=on_test.__setitem__), for_good=False)
    widest = max(len(fold.held_out) for fold in folds)
    rows = np.stack([np.pad(fold.held_out, (0, widest - len(fold.held_out)), constant_values=-1) for fold in folds])
    return {
        "stops": stops,
        "pst": usual,
        "oof": np.stack(heat.by_member)[None, ..., :widest, :],
        "rows": rows,
        "y": problem.y,
        "yt": y_test,
        "tp": np.stack([on_test[int(stop)].mean(axis=0) for stop in stops]).astype(np.float16),
    }


def fold_losses(kept: dict[str, np.ndarray]) -> np.ndarray:
    """Losses `[2, S, N]` of a single member (the mean of three) and of the mean of three."""
    n = len(kept["y"])
    total, times = np.zeros((2, len(kept["stops"]), n)), np.zeros(n)
    for number, of_fold in enumerate(kept["rows"]):
        held_out = of_fold[of_fold >= 0]
        own = kept["oof"][0, :, number][:, :, np.arange(len(held_out)), kept["y"][held_out]].astype(np.float64)
        total[0][:, held_out] -= np.log(np.maximum(own, FEWEST)).mean(axis=1)
        total[1][:, held_out] -= np.log(np.maximum(own.mean(axis=1), FEWEST))
        times[held_out] += 1
    return total[..., times > 0] / times[times > 0]


def calibrated_nll(kept: dict[str, np.ndarray], stop: int) -> float:
    """Out-of-fold NLL of a stop after the temperature that suits it best."""
    held_out = kept["rows"][kept["rows"] >= 0]
    predicted = kept["oof"][0, stop].astype(np.float64).mean(axis=1)[kept["rows"] >= 0]
    logits, y = np.log(np.maximum(predicted, FEWEST)), kept["y"][held_out]

    def nll(log_temperature: float) -> float:
        scaled = logits * np.exp(-log_temperature)
        return float(np.mean(np.logaddexp.reduce(scaled, axis=1) - scaled[np.arange(len(y)), y]))

    return float(minimize_scalar(nll, bounds=(-1.0, 1.5), method="bounded").fun)  # pyright: ignore


def smoothed(nll: np.ndarray) -> np.ndarray:
    return np.convolve(np.pad(nll, 1, mode="edge"), [0.25, 0.5, 0.25], "valid")


def changes(kept: dict[str, np.ndarray]) -> dict[str, float]:
    """Relative change of test NLL by each rule; at steps between two stops it is interpolated in their logarithm."""
    at, usual = np.log(kept["stops"]), np.flatnonzero(np.isin(kept["stops"], kept["pst"]))
    probabilities, y = kept["tp"].astype(np.float64), kept["yt"]
    own = -np.log(np.maximum(probabilities[:, np.arange(len(y)), y], FEWEST)).mean(axis=1)
    single, three = fold_losses(kept).mean(axis=-1)
    # A mean of K members has a loss of about a + b / K.
    ten = three - 1.5 * (single - three) * (1 / FOLD_MEMBERS - 1 / MEMBERS)

    def lowest(nll: np.ndarray) -> float:
        return float(at[usual][np.argmin(nll[usual])])

    def test_nll(log_steps: float) -> float:
        return float(np.interp(min(log_steps, at[-1]), at, own))

    def of_three_stops(log_steps: float) -> float:
        middle = int(np.argmin(np.abs(at - log_steps)))
        mean = probabilities[max(0, middle - 2) : middle + 3 : 2].mean(axis=0)
        return float(-np.log(np.maximum(mean[np.arange(len(y)), y], FEWEST)).mean())

    best = lowest(three)
    temperature = [calibrated_nll(kept, stop) for stop in usual.tolist()]
    more = np.log(1.25)
    found = {
        "steps × 1.12": test_nll(best + np.log(1.12)),
        "steps × 1.25 (as many passes)": test_nll(best + more),
        "steps × 1.6": test_nll(best + np.log(1.6)),
        "steps × 2": test_nll(best + np.log(2)),
        "curve smoothed": test_nll(float(at[usual][np.argmin(smoothed(three[usual]))])),
        "23 stops instead of 12": test_nll(float(at[np.argmin(three)])),
        "loss of ten members extrapolated": test_nll(lowest(ten)),
        "NLL after calibration": test_nll(float(at[usual][int(np.argmin(temperature))])),
        "mean of three neighbouring stops": of_three_stops(best),
        "the same, steps × 1.25": of_three_stops(best + more),
        "the best step (oracle)": float(own.min()),
    }
    reference = test_nll(best)
    return {name: value / reference - 1 for name, value in found.items()}


def summary(rows: list[dict[str, Any]]) -> None:
    for name in rows[0]["changes"]:
        change = np.array([row["changes"][name] for row in rows])
        logs = np.log1p(change)
        error = logs.std(ddof=1) / len(logs) ** 0.5
        print(
            f"{name:35s} {100 * logs.mean():+.2f} ± {196 * error:.2f} %, worst {100 * change.max():+.1f}; worse by 2 % "
            f"{(change > 0.02).sum()}, better {(change < -0.02).sum()}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=os.environ.get("NU_ENSEMBLES_TABLES", "."))
    parser.add_argument("--keep", type=Path, help="where predictions are kept, and looked for")
    parser.add_argument("--seeds", type=int, nargs=2, default=(10, 15), help="first and last but one")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    command = "python benchmarks/when_to_stop.py --folder FOLDER"
    recording = Recording("when-to-stop", command, ("table", "budget", "seed"), options.out)
    seeds = range(*options.seeds)
    for name, budget, seed in small_tables.splits(small_tables.NAMES, small_tables.BUDGETS, seeds):
        key = {"table": name, "budget": budget, "seed": seed}
        if any(key.items() <= row.items() for row in recording.rows):
            continue
        path = None if options.keep is None else options.keep / f"{name}-{budget}-{seed}.npz"
        if path is not None and path.exists():
            kept = dict(np.load(path))
        else:
            split = small_tables.split_of(name, options.folder, budget, seed)
            if split is None:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                kept = trained(split, name != "mnist", seed)
            if path is not None:
                np.savez(path, **kept)  # pyright: ignore[reportArgumentType]
        recording.add(key | {"changes": changes(kept)})
    print(f"{len(recording.rows)} splits")
    summary(recording.rows)


if __name__ == "__main__":
    main()
