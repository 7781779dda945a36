"""Rules for beta under shift, compared on trainings that are kept (`deployment_bank.py`): nothing is trained here.

    python benchmarks/deployment_rules.py development=FOLDER confirming=FOLDER --out results/deployment-rules.json

A rule sees what a fit would see and takes a candidate and a stop; what it took is scored on the deployment's test rows,
against the standard ensemble that was stopped early out of fold. Shifts hurt where that ensemble's ECE there is above
.05. Runs without shift and with other priors alone are left out: there the two-sample test leaves the usual search on.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from deployment_candidates import BY_LOSS, Rule, Run, Taken, price, rules_of
from nu_ensembles.calibration import FittedOtherPriors
from nu_ensembles.deployment import estimate_priors
from nu_ensembles.deployment.accuracy import accuracy_under_shift
from nu_ensembles.deployment.rule import decide
from nu_ensembles.problem import prepare
from nu_ensembles.storage import write_json
from nu_ensembles.training import environment
from nu_ensembles_studies import shifts

HURTS = 0.05


def summary(runs: list[Run], rule: Rule) -> dict[str, Any]:
    scores = [run.scored(rule(run)) for run in runs]
    test, source, change = (np.array([each[name] for each in scores]) for name in ("test", "source", "ece"))
    hurts = np.array([run.at("ece_test") > HURTS for run in runs])

    too_sure = hurts & np.array([run.at("conf_test") > run.at("acc_test") for run in runs])

    def relative(logarithms: np.ndarray, of: Callable[..., Any]) -> float | None:
        return float(np.expm1(of(logarithms))) if len(logarithms) else None

    return {
        "n_hurting": int(hurts.sum()),
        "hurting": relative(test[hurts], np.mean),
        "hurting_worst": relative(test[hurts], np.max),
        "ece_lower": float((change[hurts] < 0).mean()),
        "n_too_sure": int(too_sure.sum()),
        "too_sure": relative(test[too_sure], np.mean),
        "too_sure_ece_lower": float((change[too_sure] < 0).mean()),
        "n_harmless": int((~hurts).sum()),
        "harmless": relative(test[~hurts], np.mean),
        "harmless_worst": relative(test[~hurts], np.max),
        "harmless_worse": float((np.expm1(test[~hurts]) > 0.01).mean()) if (~hurts).any() else None,
        "source": relative(source, np.mean),
        "source_worst": relative(source, np.max),
        "source_worse": float((np.expm1(source) > 0.02).mean()),
    }


def accuracy_errors(runs: list[Run]) -> dict[str, float]:
    """How far estimates of the accuracy on the unlabelled rows were off."""
    true, estimates = [], []
    for run in runs:
        found, taken = decide(run.evidence()), price(run)
        true.append(run.at("acc_u", taken.candidate, taken.stop))
        confidence = run.at("conf_u", taken.candidate, taken.stop)
        estimates.append(accuracy_under_shift(confidence, found.flipped))
    true = np.array(true)
    middle = np.array([each.accuracy for each in estimates])
    inside = np.array([each.low <= t <= each.high for each, t in zip(estimates, true, strict=True)])
    others = {name: np.array([run.at(name) for run in runs]) for name in ("conf_u", "agree_u")}
    return {
        "mean_absolute_error": float(np.abs(middle - true).mean()),
        "largest_error": float(np.abs(middle - true).max()),
        "covered": float(inside.mean()),
        "of_confidence": float(np.abs(others["conf_u"] - true).mean()),
        "of_agreement": float(np.abs(others["agree_u"] - true).mean()),
    }


def with_labels(runs: list[Run]) -> dict[str, float]:
    """What labels of the deployment buy: the candidate with the lowest NLL on so many of its rows, drawn or ranked.

    The geometric mean over runs on which the shift hurts. Candidates are 0 and those in units of the labelled loss.
    """
    found: dict[str, list[float]] = {}
    for run in runs:
        if run.at("ece_test") <= HURTS:
            continue
        candidates = [0, *run.of_kind(BY_LOSS, 1.0)]
        y = run.arrays["y_u"][: run.arrays["u"].shape[2]]
        own = np.arange(len(y)), y
        losses = np.stack([-np.log(np.maximum(run.rows("u", each)[own], 1e-30)) for each in candidates])
        gains = [run.scored(Taken(each, run.best))["test"] for each in candidates]
        # Of the rows' spreads those on unlabelled rows come after those out of fold.
        start = run.arrays["oof"].shape[2]
        spread = run.arrays["spread"][0, run.at_best, start : start + len(y)].astype(np.float64)
        rng = np.random.default_rng(0)
        for n in (10, 20, 50):
            if n > len(y):
                continue
            drawn = [gains[int(losses[:, rng.permutation(len(y))[:n]].mean(axis=1).argmin())] for _ in range(20)]
            ranked = gains[int(losses[:, np.argsort(-spread, kind="stable")[:n]].mean(axis=1).argmin())]
            found.setdefault(f"{n} drawn", []).append(float(np.mean(drawn)))
            found.setdefault(f"{n} ranked", []).append(ranked)
        found.setdefault("all of the test's", []).append(min(gains))
    return {name: float(np.expm1(np.mean(values))) for name, values in found.items()}


def moved_to_priors(runs: list[Run]) -> list[dict[str, Any]]:
    """What `priors` does to runs without shift or with other class shares alone: each one's change in NLL."""
    found = []
    for run in runs:
        rows = shifts.load(run.name, int(run.seed), int(run.n_labels))
        problem = prepare(rows.x, rows.y, rows.x_unlabeled, standardize=rows.x.ndim == 2)
        out_of_fold, y = run.rows("oof", 0), run.arrays["y"]
        assert problem.x_unlabeled is not None
        n = len(out_of_fold)
        both = (part.reshape(len(part), -1) for part in (problem.x[:n], problem.x_unlabeled))
        classes = range(rows.n_classes)
        priors = estimate_priors(classes, out_of_fold, y[:n], run.rows("u", 0), *both)
        change = 0.0
        if priors is not None:
            before, labels = run.rows("test", 0), run.arrays["y_test"][: run.arrays["test"].shape[2]]
            after = FittedOtherPriors(rows.n_classes, priors.ratio).apply(before)
            own = np.arange(len(labels)), labels
            nll = [-np.log(np.maximum(p[own], 1e-30)).mean() for p in (after, before)]
            change = float(nll[0] / nll[1] - 1)
        shares = [np.bincount(each, minlength=rows.n_classes) + 0.5 for each in (rows.y, rows.y_unlabeled)]
        ratio = np.log(shares[0] / shares[0].sum()) - np.log(shares[1] / shares[1].sum())
        factor = float(np.exp(np.abs(ratio).max()))
        kind, which = run.name.rsplit(".", 1)[1], f"{run.name} {run.seed} {run.n_labels}"
        found.append({"run": which, "kind": kind, "factor": factor, "moved": priors is not None, "nll": change})
    return found


def without_shift(folder: Path) -> list[Run]:
    """The runs without shift, or with other class shares alone."""
    return [run for path in sorted(folder.glob("*.npz")) if (run := Run(path)).name.endswith((".same", ".priors"))]


def read(folder: Path) -> list[Run]:
    """The runs of real shifts, each once: a small table gives the same rows for two numbers of labels."""
    found: dict[Any, Run] = {}
    for path in sorted(folder.glob("*.npz")):
        if path.stem.endswith(".part"):
            continue
        run = Run(path)
        if not run.name.endswith((".same", ".priors")):
            found.setdefault((run.name, run.seed, len(run.arrays["y"])), run)
    return list(found.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", help="ROLE=FOLDER, as of deployment_bank.py")
    parser.add_argument("--out", type=Path, default=Path("results/deployment-rules.json"))
    options = parser.parse_args()
    found: dict[str, Any] = {"command": f"python {Path(__file__).name} ROLE=FOLDER …", "environment": environment()}
    found["roles"] = {}
    for word in options.folders:
        role, folder = word.split("=", 1)
        runs = read(Path(folder))
        rules = {name: summary(runs, rule) for name, rule in rules_of(runs).items()}
        seeds = sorted({int(run.seed) for run in runs})
        found["roles"][role] = {
            "seeds": seeds,
            "shifts": sorted({run.name for run in runs}),
            "rules": rules,
            "accuracy": accuracy_errors(runs),
            "with_labels": with_labels(runs),
            "priors": moved_to_priors(without_shift(Path(folder))),
        }
        print(role, len(runs), found["roles"][role]["accuracy"])
        for name, of_rule in rules.items():
            print(f"  {name:52s}", {key: round(v, 3) for key, v in of_rule.items() if v is not None})
    write_json(options.out, found)


if __name__ == "__main__":
    main()
