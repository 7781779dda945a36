"""Rules for beta under shift, compared on trainings that are kept (`deployment_bank.py`): nothing is trained here.

    NU_ENSEMBLES_DATA=DATA python benchmarks/deployment_rules.py FOLDER --out results/deployment-rules.json

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

from deployment_candidates import RULES, Rule, Run, Taken, losses, own
from deployment_runs import UNSHIFTED, role_of
from nu_ensembles.calibration import FittedOtherPriors
from nu_ensembles.deployment import estimate_priors
from nu_ensembles.deployment.accuracy import accuracy_under_shift
from nu_ensembles.problem import prepare
from nu_ensembles.storage import write_json
from nu_ensembles.training import environment
from nu_ensembles_studies import shifts

HURTS = 0.05


def summary(runs: list[Run], rule: Rule) -> dict[str, Any]:
    """A rule on runs: changes of NLL and ECE against the standard ensemble, where the shift hurts and where not."""
    scores = [run.scored(rule(run)) for run in runs]
    test, source, change = (np.array([each[name] for each in scores]) for name in ("test", "source", "ece"))
    hurts = np.array([run.at("ece_test") > HURTS for run in runs])
    too_sure = hurts & np.array([run.at("conf_test") > run.at("acc_test") for run in runs])

    def relative(logarithms: np.ndarray, of: Callable[..., Any]) -> float | None:
        return float(np.expm1(of(logarithms))) if len(logarithms) else None

    def share(which: np.ndarray) -> float | None:
        return float(which.mean()) if len(which) else None

    return {
        "n_hurting": int(hurts.sum()),
        "hurting": relative(test[hurts], np.mean),
        "hurting_worst": relative(test[hurts], np.max),
        "hurting_worse": share(np.expm1(test[hurts]) > 0.1),
        "ece_lower": share(change[hurts] < 0),
        "n_too_sure": int(too_sure.sum()),
        "too_sure": relative(test[too_sure], np.mean),
        "too_sure_ece_lower": share(change[too_sure] < 0),
        "n_harmless": int((~hurts).sum()),
        "harmless": relative(test[~hurts], np.mean),
        "harmless_worst": relative(test[~hurts], np.max),
        "harmless_worse": share(np.expm1(test[~hurts]) > 0.01),
        "source": relative(source, np.mean),
        "source_worst": relative(source, np.max),
        "source_worse": share(np.expm1(source) > 0.02),
    }


def accuracy_errors(runs: list[Run]) -> dict[str, float]:
    """How far estimates of the accuracy of what the rule takes were off, on unlabelled rows."""
    opinions = [run.opinions() for run in runs]
    confidences = [run.at("conf_u", own(run).beta) for run in runs]
    estimates = [accuracy_under_shift(*each) for each in zip(opinions, confidences, strict=True)]
    true = np.array([run.at("acc_u", own(run).beta) for run in runs])
    errors = np.abs([each.accuracy for each in estimates] - true)
    inside = [each.low <= t <= each.high for each, t in zip(estimates, true, strict=True)]
    alone = {
        "confidence": [each.confidence for each in opinions],
        "threshold": [each.threshold for each in opinions],
        "neighbours": [each.neighbours for each in opinions],
        "agreement": [run.at("agree_u") for run in runs],
        "own_confidence": confidences,
        "opinions": [each.accuracy for each in opinions],
    }
    return {
        "mean_absolute_error": float(errors.mean()),
        "median_error": float(np.median(errors)),
        "largest_error": float(errors.max()),
        "covered": float(np.mean(inside)),
        "width": float(np.mean([each.high - each.low for each in estimates])),
        **{f"of_{name}": float(np.abs(np.array(values) - true).mean()) for name, values in alone.items()},
    }


def with_labels(runs: list[Run]) -> dict[str, float]:
    """What labels of the deployment buy: the candidate with the lowest NLL on so many of its rows, drawn or ranked.

    The geometric mean over runs on which the shift hurts. Candidates are 0 and those in units of the labelled loss.
    """
    found: dict[str, list[float]] = {}
    for run in runs:
        if run.at("ece_test") <= HURTS:
            continue
        y = run.labels("u")
        of_rows = np.stack([losses(run.rows("u", beta), y) for beta in run.betas])
        gains = [run.scored(Taken(beta))["test"] for beta in run.betas]
        # Members disagree most where most of their pairs do; the first five votes are of those on all labels.
        votes = run.arrays["u_votes"][0, :5]
        agreement = sum((votes == each).mean(axis=0) ** 2 for each in range(run.arrays["u"].shape[-1]))
        rng = np.random.default_rng(0)
        for n in (10, 20, 50):
            if n > len(y):
                continue
            drawn = [gains[int(of_rows[:, rng.permutation(len(y))[:n]].mean(axis=1).argmin())] for _ in range(20)]
            ranked = gains[int(of_rows[:, np.argsort(agreement, kind="stable")[:n]].mean(axis=1).argmin())]
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
        assert problem.x_unlabeled is not None
        out_of_fold, y = run.rows("oof"), run.arrays["y"].astype(np.int64)
        both = (part.reshape(len(part), -1) for part in (problem.x, problem.x_unlabeled))
        priors = estimate_priors(range(rows.n_classes), out_of_fold, y, run.rows("u"), *both)
        change = 0.0
        if priors is not None:
            before, labels = run.rows("test"), run.labels("test")
            after = FittedOtherPriors(rows.n_classes, priors.ratio).apply(before)
            change = float(losses(after, labels).mean() / losses(before, labels).mean() - 1)
        shares = [np.bincount(each, minlength=rows.n_classes) + 0.5 for each in (rows.y, rows.y_unlabeled)]
        ratio = np.log(shares[0] / shares[0].sum()) - np.log(shares[1] / shares[1].sum())
        factor = float(np.exp(np.abs(ratio).max()))
        kind, which = run.name.rsplit(".", 1)[1], f"{run.name} {run.seed} {run.n_labels}"
        found.append({"run": which, "kind": kind, "factor": factor, "moved": priors is not None, "nll": change})
    return found


def read(folder: Path) -> list[Run]:
    """The runs, each once: a small table gives the same rows for two numbers of labels."""
    found: dict[Any, Run] = {}
    for path in sorted(folder.glob("*.npz")):
        run = Run(path)
        found.setdefault((run.network, run.name, run.seed, len(run.arrays["y"])), run)
    return list(found.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, help="as of deployment_bank.py")
    parser.add_argument("--out", type=Path, default=Path("results/deployment-rules.json"))
    options = parser.parse_args()
    found: dict[str, Any] = {"command": f"python benchmarks/{Path(__file__).name} FOLDER", "environment": environment()}
    found["roles"] = {}
    runs = [run for folder in options.folders for run in read(folder)]
    found["priors"] = moved_to_priors([run for run in runs if run.name.endswith(UNSHIFTED)])
    for role in ("development", "confirming"):
        # Where the test tells no difference no rule is asked; rows of iris are too few for any of it.
        of_role = [
            run for run in runs if role_of(run.name) == role and run.differs and not run.name.startswith("iris.")
        ]
        for network in sorted({run.network for run in of_role}):
            here = [run for run in of_role if run.network == network]
            title = f"{role}, {network}"
            found["roles"][title] = {
                "seeds": sorted({int(run.seed) for run in here}),
                "shifts": sorted({run.name for run in here}),
                "rules": {name: summary(here, rule) for name, rule in RULES.items()},
                "accuracy": accuracy_errors(here),
                "with_labels": with_labels(here),
            }
            print(title, len(here), found["roles"][title]["accuracy"])
            for name, scores in found["roles"][title]["rules"].items():
                print(f"  {name:52s}", {key: round(v, 3) for key, v in scores.items() if v is not None})
    write_json(options.out, found)


if __name__ == "__main__":
    main()
