"""The numbers and figures of docs/theory.md: variance bought by random labels, and Theorem 1 on trained ensembles.

Digits, 50 labels, 800 unlabelled rows, ten MLPs; trained (a minute on two cores) into results/bound-digits.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from matplotlib.figure import Figure

import nu_ensembles as nu
from makers.files import IMAGES, ROOT, Maker, store, stored, table_of
from nu_ensembles import theory
from nu_ensembles.engine.assembly import label_key
from nu_ensembles.problem import random_key
from nu_ensembles.report.figures import ACCENT, HIGHLIGHTS, PALE
from nu_ensembles.training import environment

BOUND, PARTS = "bound-digits", ("fits", "terms", "precisions", "labels-needed", "ensembles")
Rows = list[dict[str, Any]]
N_CLASSES, N_MEMBERS, MIXED = 10, 10, 0.01
# predictions are mixed with 1 % of the uniform distribution, so the NLL is at most ln(10 / 0.01)
LOSS = theory.BoundedLoss(float(np.log(N_CLASSES / MIXED)))


def trained(beta: float, seed: int = 0) -> dict[str, Any]:
    """A nu-ensemble on digits: what Theorem 1 needs of it, and how well it did."""
    x, y = nu.datasets.load_digits()
    rows = nu.datasets.split(len(x), {"labelled": 50, "unlabelled": 800, "test": 900}, 0, stratify=y)
    z, u, t = (rows[part] for part in ("labelled", "unlabelled", "test"))
    x = (x / 16).astype(np.float32)
    method = nu.methods.Nu(beta=beta)
    ensemble = nu.fit("mlp", x[z], y[z], x[u], method=method, n_members=N_MEMBERS, epochs=800, seed=seed)
    on_z, on_u, on_t = (
        (1 - MIXED) * ensemble.predict_members(x[part]).astype(np.float64) + MIXED / N_CLASSES for part in (z, u, t)
    )
    asked = np.asarray(method.unlabeled_targets(label_key(random_key(seed)), len(u), N_CLASSES, N_MEMBERS))
    leaves = [np.asarray(leaf, np.float64).reshape(N_MEMBERS, -1) for leaf in jax.tree.leaves(ensemble.params)]
    return {
        "random labels fitted": float((on_u.argmax(axis=2) == asked).mean()),
        "variance": theory.empirical_variance(on_u, y[u]),
        "test accuracy": nu.metrics.accuracy(on_t, y[t]),
        "test nll": nu.metrics.nll(on_t, y[t]),
        "theorem": {
            "member_nll": [nu.metrics.nll(member, y[z]) for member in on_z],
            "variance": theory.empirical_variance(on_u, y[u]),
            "squared_norms": np.sum([(leaf**2).sum(axis=1) for leaf in leaves], axis=0).tolist(),
            "n_parameters": sum(leaf.shape[1] for leaf in leaves),
            "n_labeled": len(z),
            "n_unlabeled": len(u),
        },
    }


def fits(ensembles: dict[float, dict[str, Any]]) -> Rows:
    expected = theory.expected_variance(N_MEMBERS, N_CLASSES)
    names = ("random labels fitted", "variance", "test accuracy", "test nll")
    return [
        {"β": f"{beta:g}"} | {name: found[name] for name in names} | {"Proposition 1": expected}
        for beta, found in ensembles.items()
    ]


def terms(arguments: dict[str, Any]) -> Rows:
    bounds = {
        "as printed, γ = 1": theory.bound(**arguments, loss=LOSS, version="as_printed"),
        "corrected, γ = 1": theory.bound(**arguments, loss=LOSS),
        "corrected, best γ": theory.best_bound(**arguments, loss=LOSS),
    }
    names = ("training_nll", "variance", "norm", "precision", "confidence", "moment", "total")
    return [
        {"version": label}
        | {name: float(getattr(found, name)) for name in names}
        | {"uniform guess": np.log(N_CLASSES)}
        for label, found in bounds.items()
    ]


def precisions(arguments: dict[str, Any]) -> Rows:
    return [
        {
            "format": name,
            "nats a parameter": theory.log_normaliser(1, name),
            "best corrected bound": theory.best_bound(**arguments, loss=LOSS, precision=name).total,
        }
        for name in ("float32", "bfloat16", "float16")
    ]


def labels_needed(arguments: dict[str, Any]) -> Rows:
    """Smallest n = m on a fine grid from which the bound promises more than guessing, all else as trained."""
    rows = []
    for n_parameters in (10, 1000, arguments["n_parameters"]):
        norm = np.array(arguments["squared_norms"]) * n_parameters / arguments["n_parameters"]
        for n in np.geomspace(1e2, 1e10, 400):
            sizes = {"n_labeled": int(n), "n_unlabeled": int(n), "n_parameters": n_parameters}
            changed = arguments | sizes | {"squared_norms": norm}
            if not theory.best_bound(**changed, loss=LOSS).vacuous(N_CLASSES):
                rows.append({"parameters": n_parameters, "labels": int(float(f"{n:.1e}"))})
                break
    return rows


def over_ensembles(found: Sequence[dict[str, Any]]) -> Rows:
    """Appendix B from several ensembles on the same data."""
    bounds = [theory.bound(**run["theorem"], loss=LOSS) for run in found]
    spread = 2.0 * float(np.ptp([b.norm for b in bounds])) + 1.0
    total = theory.bound_over_ensembles(bounds, nll_range=LOSS.width, complexity_range=spread)
    names = ("training_nll", "nll_deviation", "variance", "variance_deviation", "complexity", "complexity_deviation")
    row = {name.replace("_", " "): getattr(total, name) for name in names}
    return [{"ensembles": len(bounds)} | row | {"total": total.total, "holds with probability": 1 - total.failure}]


def draw() -> None:
    ax = Figure(figsize=(6.4, 3.6), layout="constrained").subplots()
    counts = range(1, 31)
    schemes = {"without_replacement": ACCENT, "with_replacement": HIGHLIGHTS[0]}
    for labels, colour in schemes.items():
        closed = [theory.expected_variance(K, N_CLASSES, labels) for K in counts]
        drawn = [theory.simulated_variance(K, N_CLASSES, n_points=20_000, seed=K, labels=labels) for K in counts]
        ax.plot(counts, closed, color=colour, linewidth=1.2, label=labels.replace("_", " "))
        ax.plot(counts, drawn, "o", color=colour, markersize=3)
    ax.axvline(N_CLASSES, color=PALE, linewidth=0.8, zorder=0)
    ax.set(xlabel="members K (ten classes)", ylabel="expected V-hat")
    ax.legend(frameon=False, fontsize=8, loc="lower right")
    ax.figure.savefig(ROOT / IMAGES / "theory-variance.svg", metadata={"Date": None})


def measure() -> None:
    """Trains ten ensembles and evaluates the bound on them."""
    import matplotlib

    matplotlib.rcParams["svg.hashsalt"] = "nu-ensembles"
    draw()
    ensembles = {beta: trained(beta) for beta in (0.0, 0.003, 0.03, 0.3, 1.0)}
    arguments = ensembles[0.003]["theorem"]
    measured = {
        "fits": fits(ensembles),
        "terms": terms(arguments),
        "precisions": precisions(arguments),
        "labels-needed": labels_needed(arguments),
        "ensembles": over_ensembles([ensembles[0.003], *(trained(0.003, seed) for seed in range(1, 5))]),
    }
    command = "python docs/make_tables.py --measure theory"
    store(BOUND, {"command": command, "environment": environment(), "theorem": arguments} | measured)


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4f}" if abs(value) < 0.1 else f"{value:.2f}"


def part(name: str) -> str:
    return table_of(stored(BOUND)[name], number)


MAKER = Maker(tables={f"theory-{name}.md": partial(part, name) for name in PARTS}, measure=measure)
