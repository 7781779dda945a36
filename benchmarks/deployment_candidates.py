"""What `deployment_rules.py` compares: a run of the bank, and the rules that take a candidate of it.

Every rule is a function of a run with the same signature; those named oracle see labels of the deployment.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nu_ensembles.deployment.evidence import ShiftEvidence
from nu_ensembles.deployment.opinions import Opinions, opinions
from nu_ensembles.deployment.rule import decide, next_beta
from nu_ensembles.metrics import ece
from nu_ensembles.metrics.temperature import scale_temperature


class Taken(NamedTuple):
    """A beta, a temperature on top, and whether its prediction is averaged with the standard one's."""

    beta: float
    temperature: float = 1.0
    halfway: bool = False


class Run:
    """One file of the bank."""

    def __init__(self, path: Path) -> None:
        with np.load(path, allow_pickle=False) as arrays:
            self.arrays = {name: arrays[name] for name in arrays.files}
        self.network, named = path.stem.split(".", 1)
        self.name, self.seed, self.n_labels = named.rsplit(".", 2)
        self.betas, self.nll = self.arrays["betas"].tolist(), self.arrays["nll_oof"]
        self.best = int(self.arrays["best"])

    def rows(self, part: str, beta: float = 0.0) -> np.ndarray:
        """Probabilities `[N, C]`: out of fold at the candidate's best stop, on unlabelled rows at the standard one's,
        else of the ensemble that a fit would return."""
        found = np.exp(self.arrays[part][self.betas.index(beta)].astype(np.float64))
        return found / found.sum(axis=-1, keepdims=True)

    def labels(self, part: str) -> np.ndarray:
        """Of the rows that are kept."""
        return self.arrays[f"y_{part}"][: self.arrays[part].shape[1]]

    def at(self, what: str, beta: float = 0.0) -> float:
        """Where the candidate is best out of fold."""
        number = self.betas.index(beta)
        return float(self.arrays[what][number, int(np.nanargmin(self.nll[number]))])

    @property
    def differs(self) -> bool:
        """Whether the two-sample test says so; else no rule of these is asked."""
        return bool(self.arrays["shift"][1] < 0.01)

    def of(self, betas: list[float]) -> ShiftEvidence:
        """What these candidates would show a fit."""
        chosen = [self.betas.index(beta) for beta in betas]
        steps = self.arrays["stops"][: self.nll.shape[1]]
        on_u = np.stack([self.rows("u", beta) for beta in betas])
        return ShiftEvidence(np.array(betas), steps, self.nll[chosen], on_u, self.opinions())

    def opinions(self) -> Opinions:
        """Of the standard ensemble's accuracy."""
        nearest = self.arrays["near_u"].argmax(axis=1)
        return opinions(self.rows("u"), self.rows("oof"), self.arrays["y"], nearest)

    def evidence(self) -> ShiftEvidence:
        """What `nu_ensembles.deployment.decide` sees in a fit, where candidates are trained one after another."""
        betas = [0.0]
        while (further := next_beta(self.of(betas))) is not None:
            betas = sorted([*betas, further])
        return self.of(betas)

    def scored(self, taken: Taken) -> dict[str, float]:
        """NLL on deployment and source relative to the standard ensemble's, logarithms, and the change of the ECE."""
        if taken == Taken(taken.beta):
            changes = {
                part: float(np.log(self.at(f"nll_{part}", taken.beta) / max(self.at(f"nll_{part}"), 1e-6)))
                for part in ("test", "source")
            }
            return {"ece": self.at("ece_test", taken.beta) - self.at("ece_test"), **changes}
        found = {}
        for part in ("test", "source"):
            y, standard = self.labels(part), self.rows(part)
            scaled = scale_temperature(self.rows(part, taken.beta), taken.temperature)
            scaled = (scaled + standard) / 2 if taken.halfway else scaled
            nll = [float(losses(each, y).mean()) for each in (scaled, standard)]
            found[part] = float(np.log(nll[0] / max(nll[1], 1e-6)))
            if part == "test":
                found["ece"] = ece(scaled, y) - ece(standard, y)
        return found


def losses(p: np.ndarray, y: np.ndarray) -> np.ndarray:
    """`[N]`."""
    return -np.log(np.maximum(p[np.arange(len(y)), y], 1e-30))


Rule = Callable[[Run], Taken]


def fixed(beta: float) -> Rule:
    return lambda _: Taken(beta)


def own(run: Run) -> Taken:
    """The package's."""
    return Taken(decide(run.evidence()).beta)


def halfway(run: Run) -> Taken:
    """The package's choice, averaged with the standard ensemble."""
    return own(run)._replace(halfway=True)


def before(run: Run) -> Taken:
    """The package's rule before: 0.2, then 0.6 or 0.03, by price against flips and out-of-fold NLL alone."""

    def passes(beta: float, most: float) -> bool:
        seen = run.of([0.0, beta])
        affordable = seen.price(1) <= 0.03 + 2 * seen.flipped(1)
        return seen.confidence(0) <= 0.95 and seen.source_change(1) <= most and affordable

    if not passes(0.2, -0.002):
        return Taken(0.03 if passes(0.03, 0.0) else 0.0)
    return Taken(0.6 if passes(0.6, min(-0.002, run.of([0.0, 0.2]).source_change(1))) else 0.2)


def agreement_and_source(run: Run) -> Taken:
    """The largest beta that costs at most 1 % on the source, where members agree on less than 90 %."""
    if run.at("agree_between_folds_u") >= 0.9:
        return Taken(0.0)
    return Taken(max(beta for beta in run.betas if run.at("nll_oof", beta) <= 1.01 * run.at("nll_oof")))


def matched(run: Run, accuracy: float) -> Taken:
    """The beta whose confidence on the unlabelled rows is closest to an accuracy."""
    return Taken(min(run.betas, key=lambda beta: abs(run.rows("u", beta).max(axis=-1).mean() - accuracy)))


def matched_to_agreement(run: Run) -> Taken:
    return matched(run, run.at("agree_between_folds_u"))


def matched_to_threshold(run: Run) -> Taken:
    """Average-threshold confidence (Garg et al., 2022)."""
    return matched(run, run.opinions().threshold)


def oracle(run: Run) -> Taken:
    return Taken(min(run.betas, key=lambda beta: run.at("nll_test", beta)))


def oracle_temperature(run: Run) -> Taken:
    """The standard ensemble with the temperature that is best on the labelled test rows."""
    from nu_ensembles.metrics.temperature import fit_temperature

    return Taken(0.0, fit_temperature(run.rows("test"), run.labels("test").astype(np.int64), 0.0))


RULES: dict[str, Rule] = {
    **{f"β = {beta:g} of the labelled loss": fixed(beta) for beta in (0.03, 0.08, 0.2, 0.6, 1.5)},
    "agreement < .9 and source ≤ +1 %": agreement_and_source,
    "confidence matched to agreement": matched_to_agreement,
    "confidence matched to average-threshold confidence": matched_to_threshold,
    "confidence matched to the expected accuracy": lambda run: matched(run, run.opinions().accuracy),
    "price against flips (the rule before)": before,
    "the package's rule": own,
    "the package's rule, averaged with the standard ensemble": halfway,
    "oracle: temperature of the standard ensemble": oracle_temperature,
    "oracle: any candidate": oracle,
}
