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
from typing import Any, NamedTuple

import numpy as np

from nu_ensembles.deployment.accuracy import accuracy_under_shift
from nu_ensembles.deployment.evidence import ShiftEvidence
from nu_ensembles.deployment.rule import LADDER, decide
from nu_ensembles.metrics import ece
from nu_ensembles.metrics.temperature import scale_temperature
from nu_ensembles.storage import write_json
from nu_ensembles.training import environment

HURTS = 0.05
CONSTANT, BY_LOSS = "constant", "labelled_loss"


class Taken(NamedTuple):
    """A candidate at a stop, and a temperature on top."""

    candidate: int
    stop: int
    temperature: float = 1.0


class Run:
    """One file of the bank."""

    def __init__(self, path: Path) -> None:
        with np.load(path, allow_pickle=False) as arrays:
            self.arrays = {name: arrays[name] for name in arrays.files}
        self.name, self.seed, self.n_labels = path.stem.rsplit(".", 2)
        self.candidates = [str(name) for name in self.arrays["names"]]
        self.best, kept = int(self.arrays["best"]), self.arrays["kept"].tolist()
        self.at_best = kept.index(self.best)
        self.nll = self.arrays["nll_oof"]

    def rows(self, part: str, candidate: int) -> np.ndarray:
        """Probabilities where the standard ensemble stops."""
        found = np.exp(self.arrays[part][candidate, self.at_best].astype(np.float64))
        return found / found.sum(axis=-1, keepdims=True)

    def at(self, what: str, candidate: int = 0, stop: int | None = None) -> float:
        return float(self.arrays[what][candidate, self.best if stop is None else stop])

    def of_kind(self, kind: str, most: float = np.inf) -> list[int]:
        """Candidates of a weighting, by beta."""
        split = [name.split() for name in self.candidates]
        return [i for i, (how, beta) in enumerate(split) if how == kind and 0 < float(beta) <= most]

    def named(self, name: str) -> int | None:
        return self.candidates.index(name) if name in self.candidates else None

    def own_stop(self, candidate: int) -> int:
        return int(np.nanargmin(self.nll[candidate]))

    def evidence(self) -> ShiftEvidence:
        """What `nu_ensembles.deployment.decide` sees in a fit."""
        chosen = [0, *(self.candidates.index(f"{BY_LOSS} {beta:g}") for beta in sorted(LADDER))]
        steps = self.arrays["stops"][: self.nll.shape[1]]
        on_u = np.stack([self.rows("u", each) for each in chosen])
        return ShiftEvidence(np.array([0.0, *sorted(LADDER)]), steps, self.nll[chosen], on_u)

    def scored(self, taken: Taken) -> dict[str, float]:
        """NLL on deployment and source relative to the standard ensemble's, logarithms, and the change of the ECE."""
        if taken.temperature == 1:
            changes = {
                part: np.log(self.at(f"nll_{part}", taken.candidate, taken.stop) / self.at(f"nll_{part}"))
                for part in ("test", "source")
            }
            change_of_ece = self.at("ece_test", taken.candidate, taken.stop) - self.at("ece_test")
        else:
            changes, change_of_ece = {}, 0.0
            for part in ("test", "source"):
                y = self.arrays[f"y_{part}"][: self.arrays[part].shape[2]]
                own = np.arange(len(y)), y
                standard = self.rows(part, 0)
                scaled = scale_temperature(self.rows(part, taken.candidate), taken.temperature)
                nll = [-np.log(np.maximum(each[own], 1e-30)).mean() for each in (scaled, standard)]
                changes[part] = np.log(nll[0] / nll[1])
                if part == "test":
                    change_of_ece = ece(scaled, y) - ece(standard, y)
        return {"ece": change_of_ece, **{part: float(value) for part, value in changes.items()}}


Rule = Callable[[Run], Taken]


def fixed(name: str) -> Rule:
    def rule(run: Run) -> Taken:
        candidate = run.named(name)
        return Taken(0, run.best) if candidate is None else Taken(candidate, run.best)

    return rule


def price(run: Run) -> Taken:
    """The package's."""
    found = decide(run.evidence())
    return Taken(0 if found.beta == 0 else run.candidates.index(f"{BY_LOSS} {found.beta:g}"), found.stop)


def agreement_and_source(run: Run) -> Taken:
    """The largest constant beta that costs at most 1 % on the source, where members agree on less than 90 %."""
    taken = Taken(0, run.best)
    if run.at("fold_agree_u") >= 0.9:
        return taken
    for candidate in run.of_kind(CONSTANT):
        if run.nll[candidate, run.best] <= 1.01 * run.nll[0, run.best]:
            taken = Taken(candidate, run.best)
    return taken


def confidence_matched(run: Run, accuracy: float) -> Taken:
    """The constant beta whose confidence on the unlabelled rows is closest to an accuracy."""
    candidates = [0, *run.of_kind(CONSTANT)]
    return Taken(min(candidates, key=lambda each: abs(run.at("conf_u", each) - accuracy)), run.best)


def matched_to_agreement(run: Run) -> Taken:
    return confidence_matched(run, run.at("fold_agree_u"))


def matched_to_threshold(run: Run) -> Taken:
    """Average-threshold confidence (Garg et al., 2022)."""
    out_of_fold, y = run.rows("oof", 0), run.arrays["y"][: run.arrays["oof"].shape[2]]
    right = (out_of_fold.argmax(axis=-1) == y).mean()
    threshold = np.quantile(out_of_fold.max(axis=-1), 1 - right)
    return confidence_matched(run, float((run.rows("fold_u", 0).max(axis=-1) >= threshold).mean()))


def not_fitted(run: Run) -> Taken:
    """The largest constant beta at which random labels are not fitted and the source costs at most 1 %."""
    taken, n_classes = Taken(0, run.best), run.arrays["test"].shape[-1]
    for candidate in run.of_kind(CONSTANT):
        fits = run.at("own", candidate) < np.log(n_classes)
        if not fits and run.nll[candidate, run.best] <= 1.01 * run.nll[0, run.best]:
            taken = Taken(candidate, run.best)
    return taken


def pseudo_labels_of_mixed_rows(run: Run) -> Taken:
    """The standard ensemble with PseudoCal's temperature (Hu et al., 2024), where it softens."""
    return Taken(0, run.best, max(1.0, run.at("pseudo_temperature")))


def oracle(run: Run) -> Taken:
    candidate, stop = np.unravel_index(np.nanargmin(run.arrays["nll_test"]), run.arrays["nll_test"].shape)
    return Taken(int(candidate), int(stop))


def oracle_constant(run: Run) -> Taken:
    nll = run.arrays["nll_test"][[0, *run.of_kind(CONSTANT)]]
    candidate, stop = np.unravel_index(np.nanargmin(nll), nll.shape)
    return Taken([0, *run.of_kind(CONSTANT)][candidate], int(stop))


def oracle_temperature(run: Run) -> Taken:
    """The standard ensemble with the temperature that is best on the labelled test rows."""
    tried = [Taken(0, run.best, t) for t in np.geomspace(0.5, 20, 25)]
    return min(tried, key=lambda each: run.scored(each)["test"])


RULES: dict[str, Rule] = {
    "constant β = 0.003": fixed("constant 0.003"),
    "constant β = 0.01": fixed("constant 0.01"),
    "constant β = 0.03": fixed("constant 0.03"),
    "β = 0.1 of the labelled loss": fixed("labelled_loss 0.1"),
    "β = 0.3 of the labelled loss": fixed("labelled_loss 0.3"),
    "agreement < .9 and source ≤ +1 %": agreement_and_source,
    "confidence matched to agreement": matched_to_agreement,
    "confidence matched to average-threshold confidence": matched_to_threshold,
    "random labels not fitted, source ≤ +1 %": not_fitted,
    "standard with PseudoCal's temperature": pseudo_labels_of_mixed_rows,
    "price against flips (the package's rule)": price,
    "oracle: constant β": oracle_constant,
    "oracle: temperature of the standard ensemble": oracle_temperature,
    "oracle: any candidate and stop": oracle,
}


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
        estimates.append(accuracy_under_shift(confidence, found.confidence, found.flipped))
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
        rules = {name: summary(runs, rule) for name, rule in RULES.items()}
        seeds = sorted({int(run.seed) for run in runs})
        found["roles"][role] = {
            "seeds": seeds,
            "shifts": sorted({run.name for run in runs}),
            "rules": rules,
            "accuracy": accuracy_errors(runs),
        }
        print(role, len(runs), found["roles"][role]["accuracy"])
        for name, of_rule in rules.items():
            print(f"  {name:52s}", {key: round(v, 3) for key, v in of_rule.items() if v is not None})
    write_json(options.out, found)


if __name__ == "__main__":
    main()
