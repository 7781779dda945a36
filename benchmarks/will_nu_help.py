"""Can it be said before the expensive part whether ν will help, and how much? A rule, tested on data sets left out.

    python benchmarks/will_nu_help.py run --rows will-nu-help.jsonl
    python benchmarks/will_nu_help.py learn --rows will-nu-help.jsonl --out results/will-nu-help.json

`run` trains a small design: data sets, numbers of labels, unlabelled rows from the same distribution and from another
cluster of it. Of every run it writes what can be known beforehand (features) and what came out: the logarithm of the
ratio of test NLLs, of ν with beta="auto" to the standard ensemble stopped early, and of ν with β = 0.01 to the standard
ensemble when both are trained to the end. A run that is in the file is not trained again. Data sets that do not come
with a package are read from the folder that NU_ENSEMBLES_DATA names; without it the design has four.

`learn` fits a ridge regression of each outcome on the features without one data set, predicts that data set, and takes
ν where a gain is predicted. What is reported is the mean outcome with the rule, beside never (0), always and what
`nu-ensembles check` advises, over data sets, each counted once, with Student's intervals; and the same of the outcomes
that the results of earlier studies hold, for which only sizes are known beforehand.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import nu_ensembles as nu
from nu_ensembles.engine.assembly import label_key
from nu_ensembles.methods import Nu, Standard
from nu_ensembles.metrics import evaluate
from nu_ensembles.problem import random_key
from nu_ensembles.storage import write_json
from nu_ensembles.training import environment, steps_in
from nu_ensembles.tuning.preflight import preflight
from nu_ensembles_studies import shifts
from nu_ensembles_studies.results.intervals import student_interval

TABLES = (
    *("digits", "wine", "breast_cancer", "iris", "vehicle", "letter", "dna", "pima", "spam", "german", "cellseg"),
    *("income", "soybean", "penguins"),
)
SIZES, KINDS, SEEDS = (40, 150), ("same", "cluster"), (0,)
MAX_ITER, MEMBERS, BETA, BATCH = 200, 5, 0.01, 32
FEW_MEMBERS, FEW_STEPS = 3, 60
OUTCOMES = {
    "auto": "ν (auto) against the standard ensemble stopped early",
    "end": "ν (β = 0.01) against the standard ensemble, both to the end",
}
OUTCOMES_ON_DISK = {"auto": OUTCOMES["auto"], "end": "ν (auto) against the standard ensemble at its end"}
# Outcomes beyond this say no more than that something went very well or very wrong.
CLIPPED = 1.0
# Ridge: so many runs' worth of prior that no feature matters.
RIDGE = 5.0
SIZE_FEATURES = ("log_labels_a_class", "log_unlabelled_a_label", "log_classes")
ON_DISK = ("auto-safety-study", "auto-safety-lenet")


def runs() -> Iterator[tuple[str, int, int]]:
    """Every run of the design whose data are at hand: a shift, a number of labels, a seed."""
    for kind in KINDS:
        for table in TABLES:
            for n in SIZES:
                for seed in SEEDS:
                    if shifts.available(f"{table}.{kind}"):
                        yield f"{table}.{kind}", n, seed


def features_of(rows: shifts.Shifted, seed: int) -> tuple[dict[str, float], str]:
    """What is known before the expensive part, and what `check` says of it."""
    found = preflight(rows.x, rows.y, rows.x_unlabeled, max_iter=MAX_ITER, batch_size=BATCH, seed=seed)
    evidence = found.evidence
    early, last = evidence.early_stopped, evidence.last_step
    how: dict[str, Any] = {
        "n_members": FEW_MEMBERS,
        "seed": seed,
        "batch_size": BATCH,
        "standardize": True,
        "verbose": 0,
    }
    few = nu.fit("mlp", rows.x, rows.y, rows.x_unlabeled, Standard(), steps=early.n_steps, **how)
    on_u = evaluate(few.predict_members(rows.x_unlabeled), rows.y_unlabeled)
    soft = nu.fit("mlp", rows.x, rows.y, rows.x_unlabeled, Nu(1.0), steps=FEW_STEPS, **how)
    n_classes, members = len(np.unique(rows.y)), soft.predict_members(rows.x_unlabeled)
    labels = np.asarray(
        Nu(1.0).unlabeled_targets(label_key(random_key(seed)), len(rows.x_unlabeled), n_classes, FEW_MEMBERS)
    )
    n, m = len(rows.x), len(rows.x_unlabeled)
    confidence = few.predict_members(rows.x_unlabeled).mean(axis=0).max(axis=1).mean()
    known = {
        "log_labels_a_class": np.log(n / n_classes),
        "log_unlabelled_a_label": np.log(m / n),
        "log_classes": np.log(n_classes),
        "overconfidence_early": early.overconfidence.value,
        "overconfidence_end": last.overconfidence.value,
        "nll_early": early.nll.value,
        "rise_of_nll": np.log1p(max(evidence.nll_rise.value, -0.5)),
        "shift_auroc": 0.5 if evidence.shift is None else evidence.shift.auroc,
        "confidence_drop_on_u": early.accuracy.value + early.overconfidence.value - confidence,
        "disagreement_on_u": on_u["disagreement"],
        "random_labels_fitted": float((members.argmax(axis=2) == labels).mean()) - 1 / n_classes,
    }
    return {name: float(value) for name, value in known.items()}, found.level


def outcomes_of(rows: shifts.Shifted, seed: int) -> dict[str, float]:
    """What ν came to: logarithms of ratios of test NLLs; and how the standard ensembles were."""
    auto = nu.NuEnsembleClassifier(MEMBERS, max_iter=MAX_ITER, batch_size=BATCH, random_state=seed)
    auto.fit(rows.x, rows.y, X_unlabeled=rows.x_unlabeled)
    assert auto.search_ is not None
    last = steps_in(MAX_ITER, len(rows.x), BATCH)
    how: dict[str, Any] = {"n_members": MEMBERS, "seed": seed, "batch_size": BATCH, "standardize": True, "verbose": 0}

    def nll(method: Any, steps: int) -> float:
        ensemble = nu.fit("mlp", rows.x, rows.y, rows.x_unlabeled, method, steps=steps, **how)
        return evaluate(ensemble.predict_members(rows.x_test), rows.y_test)["nll"]

    early, at_end, with_nu = nll("standard", auto.search_.standard_steps), nll("standard", last), nll(Nu(BETA), last)
    chosen = evaluate(auto.predict_members(rows.x_test), rows.y_test)["nll"]
    ratios = {"auto": np.log(chosen / early), "end": np.log(with_nu / at_end), "stopping": np.log(early / at_end)}
    return {name: float(value) for name, value in ratios.items()} | {"beta": float(auto.beta_), "standard_nll": early}


def run(kept: Path, time_limit: float) -> None:
    done = {(each["place"], each["n"], each["seed"]) for each in read(kept)} if kept.exists() else set()
    began = time.process_time()
    for place, n, seed in runs():
        if (place, n, seed) in done or time.process_time() - began > time_limit:
            continue
        started = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                rows = shifts.load(place, seed, n)
                known, level = features_of(rows, seed)
                came_out = outcomes_of(rows, seed)
            except nu.errors.InputError as error:  # too few rows of a class on one side
                print(f"{place} with {n} labels: {error}", flush=True)
                continue
        seconds = time.process_time() - started
        entry = {"place": place, "n": n, "seed": seed, "level": level, "features": known, "outcomes": came_out}
        with kept.open("a") as file:
            file.write(json.dumps(entry | {"seconds": round(seconds, 1)}) + "\n")
        print(
            f"{place} {n}: {level}, auto {came_out['auto']:+.3f}, end {came_out['end']:+.3f}, {seconds:.0f} s",
            flush=True,
        )


def read(kept: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in kept.read_text().splitlines()]


def on_disk(folder: Path) -> list[dict[str, Any]]:
    """Runs of earlier studies: sizes, and ν (auto) against the standard ensemble stopped early and at its end."""
    found = []
    for name in ON_DISK:
        for cell in json.loads((folder / f"{name}.json").read_text())["cells"]:
            about, scores = cell["cell"], next(iter(cell["measured"].get("epochs", {}).values()), None)
            if scores is None:
                continue
            n_classes = {"wine": 3, "breast_cancer": 2, "cifar100": 100}.get(about["dataset"], 10)
            n, m = about["n_train"], about["n_unlabeled"]
            values = np.log(n / n_classes), np.log(m / n), np.log(n_classes)
            against = {"auto": "early_stopped", "end": "last_epoch"}
            ratios = {key: np.log(scores["auto"]["nll"] / scores[other]["nll"]) for key, other in against.items()}
            found.append(
                {
                    "place": f"{about['dataset']}-{about['model']}.same",
                    "features": dict(zip(SIZE_FEATURES, map(float, values), strict=True)),
                    "outcomes": {key: float(value) for key, value in ratios.items()},
                }
            )
    return found


def left_out(entries: Sequence[dict[str, Any]], outcome: str, names: Sequence[str]) -> np.ndarray:
    """What a ridge regression that has not seen a run's data set predicts for it, `[N]`."""
    x = np.array([[each["features"][name] for name in names] for each in entries])
    y = outcomes(entries, outcome)
    groups = data_sets(entries)
    predicted = np.empty(len(y))
    for group in np.unique(groups):
        own = groups == group
        predicted[own] = ridge(x[~own], y[~own], x[own])
    return predicted


def ridge(x: np.ndarray, y: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The prediction at other rows; the mean is free, slopes of standardised features are shrunk."""
    mean, scale = x.mean(axis=0), x.std(axis=0)
    scale = np.where(scale > 0, scale, 1)
    z = (x - mean) / scale
    slopes = np.linalg.solve(z.T @ z + RIDGE * np.eye(z.shape[1]), z.T @ (y - y.mean()))
    return y.mean() + np.clip((at - mean) / scale, -3, 3) @ slopes


def outcomes(entries: Sequence[dict[str, Any]], outcome: str) -> np.ndarray:
    return np.clip([each["outcomes"][outcome] for each in entries], -CLIPPED, CLIPPED)


def data_sets(entries: Sequence[dict[str, Any]]) -> np.ndarray:
    return np.array([each["place"].split(".")[0].split("-")[0] for each in entries])


def by_data_set(values: np.ndarray, groups: np.ndarray) -> dict[str, float | None]:
    """The mean over data sets, each counted once, with its 95 % interval."""
    means = np.array([values[groups == group].mean() for group in np.unique(groups)])
    interval = student_interval(means)
    return {"mean": interval.mean, "half_width": interval.half_width if len(means) > 1 else None}


def skill(
    entries: Sequence[dict[str, Any]], outcome: str, names: Sequence[str], titles: Mapping[str, str] = OUTCOMES
) -> dict[str, Any]:
    """What the rule comes to on data sets that it has not seen, beside the constants and `check`."""
    y, groups, predicted = outcomes(entries, outcome), data_sets(entries), left_out(entries, outcome, names)
    taken = {"never": np.zeros(len(y), bool), "always": np.ones(len(y), bool), "rule": predicted < 0}
    if all("level" in each for each in entries):
        taken["check"] = np.array([each["level"] in ("likely", "some", "differs") for each in entries])
    came = {name: np.where(use, y, 0) for name, use in taken.items()}
    constants = {name: by_data_set(came[name], groups) for name in ("never", "always")}
    best = min(constants, key=lambda name: constants[name]["mean"] or 0)
    rules = {
        name: {
            "used": float(taken[name].mean()),
            "outcome": by_data_set(came[name], groups),
            "less_best_constant": by_data_set(came[name] - came[best], groups),
        }
        for name in taken
        if name not in constants
    }
    baseline = np.array([y[groups != group].mean() for group in groups])
    explained = 1 - np.sum((y - predicted) ** 2) / np.sum((y - baseline) ** 2)
    margin = rules["rule"]["less_best_constant"]
    return {
        "outcome": titles[outcome],
        "features": list(names),
        "n_runs": len(y),
        "n_data_sets": len(np.unique(groups)),
        "constants": constants,
        "best_constant": best,
        "rules": rules,
        # How much: of the squared error of the other data sets' mean, the share that the rule saves.
        "explained": float(explained),
        "squared_error_saved": by_data_set((y - baseline) ** 2 - (y - predicted) ** 2, groups),
        "has_skill": bool(margin["half_width"] is not None and margin["mean"] + margin["half_width"] < 0),
    }


def learn(kept: Path, results: Path, out: Path, command: str) -> None:
    # A table that has not 150 rows to label gives the same run twice.
    different = {(each["place"], each["seed"], str(each["features"])): each for each in read(kept)}
    entries, earlier = list(different.values()), on_disk(results)
    every = list(entries[0]["features"])
    parts = {
        "design": [skill(entries, outcome, every) for outcome in OUTCOMES],
        "design, sizes alone": [skill(entries, outcome, SIZE_FEATURES) for outcome in OUTCOMES],
        "earlier studies, sizes alone": [
            skill(earlier, outcome, SIZE_FEATURES, OUTCOMES_ON_DISK) for outcome in OUTCOMES_ON_DISK
        ],
    }
    for name, tables in parts.items():
        for each in tables:
            rule, margin = each["rules"]["rule"], each["rules"]["rule"]["less_best_constant"]
            print(
                f"{name}: {each['outcome']}: rule {rule['outcome']['mean']:+.4f}, never 0, always "
                f"{each['constants']['always']['mean']:+.4f}; against the best constant {margin['mean']:+.4f} ± "
                f"{margin['half_width']:.4f}; explained {each['explained']:+.2f}; skill: {each['has_skill']}"
            )
    about = {
        "max_iter": MAX_ITER,
        "members": MEMBERS,
        "beta": BETA,
        "seconds": sum(each["seconds"] for each in entries),
    }
    write_json(out, {"command": command, "environment": environment(), **about, "skill": parts, "runs": entries})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    trains = verbs.add_parser("run", help="train the design; go on where it was stopped")
    trains.add_argument("--rows", type=Path, required=True, help="a file to which a line is added for every run")
    trains.add_argument("--time-limit", type=float, default=900.0, help="processor seconds after which no run begins")
    learns = verbs.add_parser("learn", help="fit and test the rule on what `run` wrote and on earlier results")
    learns.add_argument("--rows", type=Path, required=True)
    learns.add_argument("--results", type=Path, default=Path("results"), help="folder of the earlier studies' results")
    learns.add_argument("--out", type=Path, default=Path("results/will-nu-help.json"))
    options = parser.parse_args()
    if options.verb == "run":
        run(options.rows, options.time_limit)
    else:
        learn(
            options.rows,
            options.results,
            options.out,
            f"python benchmarks/will_nu_help.py learn --rows {options.rows.name}",
        )


if __name__ == "__main__":
    main()
