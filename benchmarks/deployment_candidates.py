"""What `deployment_rules.py` compares: a run of the bank, and the rules that take a candidate and a stop of it.

Every rule is a function of a run with the same signature; those named oracle see labels of the deployment.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nu_ensembles.deployment.evidence import ShiftEvidence
from nu_ensembles.deployment.rule import decide, next_beta
from nu_ensembles.metrics import ece
from nu_ensembles.metrics.temperature import scale_temperature

CONSTANT, BY_LOSS = "constant", "labelled_loss"


class Taken(NamedTuple):
    """A candidate at a stop, a temperature on top, and whether its prediction is averaged with the standard one's."""

    candidate: int
    stop: int
    temperature: float = 1.0
    halfway: bool = False


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
        """What `nu_ensembles.deployment.decide` sees in a fit, where candidates are trained one after another."""
        betas = [0.0]
        steps = self.arrays["stops"][: self.nll.shape[1]]
        while True:
            chosen = [0, *(self.candidates.index(f"{BY_LOSS} {beta:g}") for beta in betas[1:])]
            on_u = np.stack([self.rows("u", each) for each in chosen])
            found = ShiftEvidence(np.array(betas), steps, self.nll[chosen], on_u)
            further = next_beta(found)
            if further is None:
                return found
            betas = sorted([*betas, further])

    def scored(self, taken: Taken) -> dict[str, float]:
        """NLL on deployment and source relative to the standard ensemble's, logarithms, and the change of the ECE."""
        if taken.temperature == 1 and not taken.halfway:
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
                scaled = (scaled + standard) / 2 if taken.halfway else scaled
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


def halfway(run: Run) -> Taken:
    """The package's choice, averaged with the standard ensemble."""
    return price(run)._replace(halfway=True)


def of_two(run: Run) -> Taken:
    """The package's rule before: 0.1 and 0.3, the flips of 0.3, a percent of the source for the larger one."""
    taken, pair = Taken(0, run.best), [run.named(f"{BY_LOSS} {beta}") for beta in ("0.1", "0.3")]
    if None in pair:
        return taken
    rows = np.stack([run.rows("u", each) for each in (0, *(each for each in pair if each is not None))])
    seen = ShiftEvidence(np.array([0, 0.1, 0.3]), np.arange(run.nll.shape[1]), run.nll[[0, *pair]], rows)
    for number, most in ((1, 0.0), (2, -0.01)):
        if seen.source_change(number) <= most and seen.price(number) <= 0.02 + 3 * seen.flipped(2):
            candidate = run.named(f"{BY_LOSS} {seen.betas[number]:g}") or 0
            taken = Taken(candidate, run.own_stop(candidate))
    return taken


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
    **{
        f"β = {beta} of the labelled loss": fixed(f"labelled_loss {beta}")
        for beta in ("0.03", "0.1", "0.2", "0.3", "0.6")
    },
    "agreement < .9 and source ≤ +1 %": agreement_and_source,
    "confidence matched to agreement": matched_to_agreement,
    "confidence matched to average-threshold confidence": matched_to_threshold,
    "random labels not fitted, source ≤ +1 %": not_fitted,
    "standard with PseudoCal's temperature": pseudo_labels_of_mixed_rows,
    "price against flips, of 0.1 and 0.3": of_two,
    "price against flips (the package's rule)": price,
    "the package's rule, averaged with the standard ensemble": halfway,
    "oracle: constant β": oracle_constant,
    "oracle: temperature of the standard ensemble": oracle_temperature,
    "oracle: any candidate and stop": oracle,
}
# What chooses among constant betas, which `deployment_bank.py` trains with `--candidates all` alone.
OF_CONSTANTS = frozenset(name for name in RULES if name.startswith(("constant", "agreement", "confidence", "random")))
OF_CONSTANTS |= {"oracle: constant β"}


def rules_of(runs: list[Run]) -> dict[str, Rule]:
    """Those that these runs have candidates for."""
    constant = any(run.of_kind(CONSTANT) for run in runs)
    return {name: rule for name, rule in RULES.items() if constant or name not in OF_CONSTANTS}
