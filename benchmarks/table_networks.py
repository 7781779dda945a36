"""Whether another network would serve small tables better: test NLL of early-stopped standard ensembles of ten.

    NU_ENSEMBLES_DATA=FOLDER python benchmarks/table_networks.py [--first-seed 20] [--seeds 3] [--labels 50 100]
        [--tables iris wine] [--only base mixup] [--out FILE]

The tables and splits are those of the study `rivals`, whose seeds 10 to 14 are left alone. Every ensemble has the
defaults of `EnsembleClassifier(early_stopping=True)` but for what its name says, and is stopped by its own folds.
Beside each its members pooled geometrically, and the mean of every two. Finished splits are kept in the file, and not
measured again.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import nu_ensembles as nu
from nu_ensembles.models.ramps import ramped, wants_ramps
from nu_ensembles_studies.declare.cells import StudyCell
from nu_ensembles_studies.experiments.rivals import FEWER, TABLES
from nu_ensembles_studies.measure.rival_scores import split_of
from recording import Recording

MEMBERS, LEAST_PROBABILITY = 10, 1e-6
VARIANTS: dict[str, dict[str, Any]] = {
    "base": {},
    "without ramps": {"model_options": {"ramps": False}},
    "weight decay 1": {"weight_decay": 1.0},
    "weight decay 5": {"weight_decay": 5.0},
    "dropout .25": {"model_options": {"dropout": 0.25}},
    "dropout .5": {"model_options": {"dropout": 0.5}},
    "256-256": {"model_options": {"hidden": (256, 256)}},
    "256-256, weight decay 1": {"model_options": {"hidden": (256, 256)}, "weight_decay": 1.0},
    "256-256, dropout .5": {"model_options": {"hidden": (256, 256), "dropout": 0.5}},
    "512": {"model_options": {"hidden": (512,)}},
    "32": {"model_options": {"hidden": (32,)}},
    "mixup": {"method": "mixup"},
    "learning rate 3e-4": {"learning_rate": 3e-4, "max_iter": 1000},
    "input scales and dropout .2": {"model": "scaled_and_dropped"},
}
PACE, DROPPED = 6.0, 0.2


@functools.cache
def scaled_and_dropped(n_classes: int, columns: int) -> nu.Model:
    """The default network with a learnt factor for every input, ramps included, and a fifth of them dropped.

    A scaling layer that learns PACE times as fast as weights: Holzmüller, Grinsztajn and Steinwart, *Better by
    default*, 2024.
    """
    inside, with_ramps = nu.models.mlp(n_classes), wants_ramps((columns,))

    def inputs(x: Any) -> Any:
        return ramped(x) if with_ramps else x

    def init(key: Any, x: Any) -> Any:
        h = inputs(x)
        return {"params": {"inside": inside.init(key, h)["params"], "scale": jnp.full(h.shape[1], 1 / PACE)}}

    def apply(variables: Any, x: Any, *, key: Any, train: bool) -> Any:
        params = variables["params"]
        h = inputs(x) * (PACE * params["scale"])
        if train:
            h = jnp.where(jax.random.bernoulli(key, 1 - DROPPED, h.shape), h / (1 - DROPPED), 0)
        return inside.apply({"params": params["inside"]}, h, key=None, train=False)

    return nu.Model(init, apply)


def measured(table: str, n_labels: int, seed: int, names: list[str]) -> dict[str, dict[str, float]]:
    """NLL on the test rows: of the mean of each ensemble's members, of their geometric pool, and of every two means."""
    sizes = {"n_unlabeled": 1000, "n_test": 1000, "n_validation": 0}
    parts = split_of(StudyCell(table, n_labels, "mlp", "standard", seed=seed, epochs=(1,), n_members=MEMBERS, **sizes))
    means, found = {}, {"mean": {}, "geometric": {}, "steps": {}}
    for name in names:
        how: dict[str, Any] = {"method": "standard", **VARIANTS[name]}
        if "model" in how:
            how["model"] = scaled_and_dropped(parts.n_classes, parts.x.shape[1])
        classifier = nu.EnsembleClassifier(n_members=MEMBERS, early_stopping=True, random_state=seed, **how)
        classifier.fit(parts.x, parts.y, X_unlabeled=parts.x_unlabeled)
        members = classifier.predict_members(parts.x_test).astype(np.float64)
        means[name] = members.mean(axis=0)
        pooled = np.exp(np.log(np.maximum(members, np.finfo(np.float32).tiny)).mean(axis=0))
        found["mean"][name] = nll(means[name], parts.y_test)
        found["geometric"][name] = nll(pooled / pooled.sum(axis=1, keepdims=True), parts.y_test)
        found["steps"][name] = int(classifier.n_steps_)
    found["two"] = {
        f"{one} + {other}": nll((means[one] + means[other]) / 2, parts.y_test)
        for one, other in itertools.combinations(names, 2)
    }
    return found


def nll(probabilities: np.ndarray, y: np.ndarray) -> float:
    of_label = probabilities[np.arange(len(y)), y]
    return round(float(-np.log(np.maximum(of_label, LEAST_PROBABILITY)).mean()), 6)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first-seed", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--labels", type=int, nargs="+", default=(50, 100))
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES, metavar="TABLE")
    parser.add_argument("--only", nargs="+", choices=list(VARIANTS), default=list(VARIANTS), metavar="VARIANT")
    parser.add_argument("--out", type=Path, default=Path("results/table-networks.json"))
    options = parser.parse_args()
    command = "python benchmarks/table_networks.py"
    recording = Recording("table-networks", command, ("table", "labels", "seed"), options.out)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    for table, n_labels, seed in itertools.product(options.tables, options.labels, seeds):
        key = {"table": table, "labels": n_labels, "seed": seed}
        if n_labels not in FEWER.get(table, options.labels) or any(
            key.items() <= row.items() for row in recording.rows
        ):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = measured(table, n_labels, seed, options.only)
        recording.add(key | found)
        print(key, found["mean"], flush=True)


if __name__ == "__main__":
    main()
