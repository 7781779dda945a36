"""The numbers and figures of docs/metrics.md: traps of metrics shown on data whose truth is known.

Measured (two minutes on two cores) into results/metric-traps.json, from which the tables are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import nu_ensembles as nu
from makers.files import IMAGES, ROOT, Maker, store, stored, table_of
from nu_ensembles.metrics.bootstrap import resampled
from nu_ensembles.metrics.evaluation import ensemble_statistics
from nu_ensembles.report import figures
from nu_ensembles.training import environment

TRAPS = "metric-traps"
Rows = list[dict[str, Any]]


def softmax(logits: np.ndarray) -> np.ndarray:
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)


def world(n_samples: int, n_classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits of the true probabilities `[N, C]`, and labels drawn from them."""
    rng = np.random.default_rng([seed, n_samples, n_classes])
    logits = 2 * rng.normal(size=(n_samples, n_classes))
    return logits, (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)


def mean_rows(make: Callable[[int], dict[str, float]], repeats: int) -> dict[str, float]:
    rows = [make(seed) for seed in range(repeats)]
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def calibrated() -> Rows:
    """Scores of a predictor that states the true probabilities: every calibration error should be 0."""
    names = ("ece", "ece_debiased", "tace", "brier_reliability", "brier_exact_reliability")

    def row(n_samples: int, seed: int) -> dict[str, float]:
        logits, labels = world(n_samples, 10, seed)
        return nu.metrics.evaluate(softmax(logits), labels)

    found = {n: mean_rows(lambda seed, n=n: row(n, seed), 20) for n in (100, 1000, 10_000)}
    return [{"samples": n} | {name: scores[name] for name in names} for n, scores in found.items()]


def information() -> Rows:
    """Mutual information of two members that predict at random: it should be 0 bits."""
    rows = []
    for n_classes, n_samples in ((10, 1000), (100, 1000), (100, 10_000)):
        votes = np.random.default_rng(n_classes + n_samples).integers(0, n_classes, (2, n_samples))
        members = np.eye(n_classes, dtype=np.float32)[votes]
        plain = nu.metrics.mutual_information(members)
        corrected = nu.metrics.mutual_information(members, bias_corrected=True)
        rows.append({"classes": n_classes, "samples": n_samples, "mutual_information": plain, "corrected": corrected})
    return rows


def properness() -> Rows:
    """A useless, a truthful and an over-confident predictor of the same labels."""
    logits, labels = world(10_000, 10, 0)
    predictors = {
        "always the base rates": np.full(logits.shape, 0.1),
        "the true probabilities": softmax(logits),
        "twice too sure": softmax(2 * logits),
    }
    names = ("accuracy", "ece", "nll", "brier", "error_auroc")
    scores = {name: nu.metrics.evaluate(probs, labels) for name, probs in predictors.items()}
    return [{"predictor": name} | {metric: row[metric] for metric in names} for name, row in scores.items()]


def scale() -> Rows:
    """The same over-confidence with ten and with a hundred classes."""
    rows = []
    for n_classes in (10, 100):
        logits, labels = world(10_000, n_classes, 1)
        scores = nu.metrics.evaluate(softmax(1.6 * logits), labels)
        names = ("ece", "tace", "tace_nixon", "ece_classwise")
        rows.append({"classes": n_classes} | {name: scores[name] for name in names})
    return rows


def diversity() -> Rows:
    """Five members that are the truth plus their own noise: more noise, more diversity."""
    rows = []
    logits, labels = world(5000, 10, 2)
    for noise in (0.0, 1.0, 2.0, 4.0):
        draws = np.random.default_rng(3).normal(size=(5, *logits.shape))
        scores = nu.metrics.evaluate(softmax(logits + noise * draws), labels)
        names = ("disagreement", "mutual_information", "variance", "accuracy", "nll")
        rows.append({"noise": noise} | {name: scores[name] for name in names})
    return rows


def coverage(repeats: int = 60) -> Rows:
    """How often 95 % intervals from 500 samples contain the value on 400,000."""

    def members(n_samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        logits, labels = world(n_samples, 10, seed)
        noise = np.random.default_rng([seed, 9]).normal(size=(3, *logits.shape))
        return softmax((logits + 0.7 * noise) / 0.7).astype(np.float32), labels

    names = ["accuracy", "nll", "brier", "ece", "ece_debiased", "tace", "brier_reliability", "brier_exact_reliability"]
    names += ["mutual_information", "mutual_information_corrected", "aurc"]
    truth = nu.metrics.evaluate(*members(400_000, 10_000))
    hits = {name: np.zeros(2) for name in names}
    for seed in range(repeats):
        probs, labels = members(500, seed)
        ours = nu.metrics.evaluate(probs, labels, intervals=0.95, n_resamples=200, seed=seed)
        draws = resampled(ensemble_statistics(probs, labels, reuse=True), 500, 200, seed)
        for name in names:
            low, high = np.quantile(draws[name], [0.025, 0.975])
            inside = ours[f"{name}_low"] <= truth[name] <= ours[f"{name}_high"]
            hits[name] += [low <= truth[name] <= high, inside]
    return [
        {
            "metric": name,
            "percentile bootstrap": hits[name][0] / repeats,
            "evaluate(intervals=0.95)": hits[name][1] / repeats,
        }
        for name in names
    ]


def digits(seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Member probabilities on 900 test digits of a standard and a nu-ensemble that saw 50 labels."""
    x, y = nu.datasets.load_digits()
    rows = nu.datasets.split(len(x), {"labelled": 50, "unlabelled": 800, "test": 900}, seed, stratify=y)
    x = (x / 16).astype(np.float32)
    known = {"x": x[rows["labelled"]], "y": y[rows["labelled"]], "x_unlabeled": x[rows["unlabelled"]]}
    methods = {"standard": nu.methods.Standard(), "ν, β = 0.003": nu.methods.Nu(beta=0.003)}
    members = {
        name: nu.fit("mlp", **known, method=method, epochs=800, seed=seed).predict_members(x[rows["test"]])
        for name, method in methods.items()
    }
    return members, y[rows["test"]]


def scores_of(members: dict[str, np.ndarray], labels: np.ndarray) -> Rows:
    rows = []
    for name, probs in members.items():
        scores = nu.metrics.evaluate(probs, labels, intervals=0.95)
        shown = ("accuracy", "nll", "brier", "ece_debiased", "overconfidence", "aurc", "disagreement")
        cells = {m: f"{scores[m]:.3f} ({scores[m + '_low']:.3f} … {scores[m + '_high']:.3f})" for m in shown}
        rows.append({"ensemble": name} | cells)
    return rows


def temperature(members: np.ndarray, labels: np.ndarray, repeats: int = 50) -> Rows:
    """Test NLL after scaling by a temperature fitted on few labels, with and without the prior."""
    rows = []
    for n_labels in (10, 30, 100, 300):
        found: dict[str, list[float]] = {"unscaled": [], "no prior": [], "prior 30": []}
        for seed in range(repeats):
            order = np.random.default_rng([seed, n_labels]).permutation(len(labels))
            fitted, rest = order[:n_labels], order[300:]
            found["unscaled"].append(nu.metrics.nll(members[:, rest], labels[rest]))
            for name, prior in (("no prior", 0.0), ("prior 30", 30.0)):
                scaler = nu.metrics.TemperatureScaling(prior=prior).fit(members[:, fitted], labels[fitted])
                found[name].append(nu.metrics.nll(scaler.transform(members[:, rest]), labels[rest]))
        rows.append({"labels": n_labels} | {name: float(np.mean(values)) for name, values in found.items()})
    return rows


def draw(members: dict[str, np.ndarray], labels: np.ndarray) -> None:
    (standard, plain), (other, mixed) = members.items()
    pair = Figure(figsize=(8.4, 4.8), layout="constrained")
    left, right = pair.subplots(1, 2)
    for ax, name, probs in ((left, standard, plain), (right, other, mixed)):
        title = f"{name}: ECE {nu.metrics.ece(probs, labels):.3f}"
        figures.reliability_diagram(probs, labels, ax, n_bins=10, title=title)
    four = Figure(figsize=(12.6, 4.2), layout="constrained")
    first, second, third = four.subplots(1, 3)
    figures.class_reliability(mixed, labels, first)
    figures.member_agreement(mixed, second)
    figures.risk_coverage_curve(plain, labels, third, label=standard, colour=figures.HIGHLIGHTS[0])
    figures.risk_coverage_curve(mixed, labels, third, label=other)
    for name, figure in {"reliability": pair, "others": four}.items():
        # no date and fixed identifiers: the same numbers give the same file
        figure.savefig(ROOT / IMAGES / f"metrics-{name}.svg", metadata={"Date": None})


def speed() -> Rows:
    """The table of benchmarks/metrics_speed.py, from what it stored."""
    names = ("seconds", "memory / input", "fastest peer", "peer seconds")
    return [
        {"what": row["what"].replace("_", " ")} | {name: row.get(name, "") for name in names}
        for row in stored("metrics-speed")["rows"]
    ]


MADE_UP: dict[str, Callable[[], Rows]] = {
    "calibrated": calibrated,
    "information": information,
    "properness": properness,
    "scale": scale,
    "diversity": diversity,
    "coverage": coverage,
}


def measure() -> None:
    """Trains two ensembles, draws them, and measures every trap."""
    import matplotlib

    matplotlib.rcParams["svg.hashsalt"] = "nu-ensembles"
    members, labels = digits()
    draw(members, labels)
    measured = {name: rows() for name, rows in MADE_UP.items()}
    measured["digits"] = scores_of(members, labels)
    measured["temperature"] = temperature(members["standard"], labels)
    about = {"command": "python docs/make_tables.py --measure metrics", "environment": environment()}
    store(TRAPS, about | measured)


def trap(name: str) -> str:
    """The table of a trap, or of the metrics' speed."""
    return table_of(speed() if name == "speed" else stored(TRAPS)[name], "{:.3f}".format)


MAKER = Maker(
    tables={f"metric-{name}.md": partial(trap, name) for name in (*MADE_UP, "digits", "temperature", "speed")},
    measure=measure,
)
