"""From the figures of a preflight to one plain sentence.

What was seen (MLP 64-64, 200 passes, default rates; test NLL of nu with beta auto, relative to a standard ensemble):

  advice    runs  against the last step  against the early stop   data (labels)
  some        6      -47 … -5 %             -3 … 0 %              noisy and clean synthetic (100-500), CIFAR-10 (300),
                                                                  breast cancer (200)
  unclear     4      -22 … +4 %              0 … +1 %             digits (50), breast cancer (50)
  unlikely    5      -25 … +10 %             0 … +10 %            digits (500), breast cancer (200), wine (60)

So overconfidence at the last step tells where long training costs much, and nu, or stopping early, saves it. No
standard ensemble was overconfident where its NLL was lowest ("likely"): there nu has little left to gain. On other data
these figures foretold nu's gain no better than a constant did (`docs/will-nu-help.md`), so the sentences describe what
was seen and forecast nothing; the names of the levels are older than that. Digits
with 50 labels against noisier, brighter or fewer classes' unlabelled digits: AUROC .99, 1.00, .80, hence "differs".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

from nu_ensembles.deployment.accuracy import AccuracyEstimate
from nu_ensembles.deployment.shift import FAR_APART, Shift

Level = Literal["likely", "some", "unclear", "unlikely", "differs", "fix first"]

# Of the intervals.
LEVEL = 0.95
# A share of labelled rows that may stand among the unlabelled ones, where they get random labels.
MANY_DUPLICATES = 0.1
# `benchmarks/will_nu_help.py`; tests/tuning/test_will_nu_help.py holds it to the results.
NO_FORECAST = (
    "This is no forecast: on data sets left out, no rule on such figures did clearly better than the better of always "
    "and never taking nu, and these levels did not either. Fitting with beta auto tries it out."
)
# Overconfidence below this costs next to nothing: NLL grows with its square.
NEGLIGIBLE = 0.02


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        if self.value in (self.low, self.high) and self.low < self.high:  # such as an accuracy of 1
            return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"
        return f"{self.value:.3f} ± {(self.high - self.low) / 2:.3f}"

    @classmethod
    def of_share(cls, value: float, low: float, high: float, n_rows: int) -> Estimate:
        """A share of so many rows. Where it is all or nothing, resampling them shows no spread: Clopper and Pearson."""
        if low < high:
            return cls(value, low, high)
        at_the_end = ((1 - LEVEL) / 2) ** (1 / n_rows)
        return cls(value, at_the_end, 1.0) if value > 0.5 else cls(value, 0.0, 1 - at_the_end)


@dataclasses.dataclass(frozen=True)
class OutOfFoldFit:
    """A standard ensemble after so many steps, on rows that it was not trained on."""

    n_steps: int
    accuracy: Estimate
    nll: Estimate
    overconfidence: Estimate


@dataclasses.dataclass(frozen=True)
class Evidence:
    """The figures of a preflight.

    Attributes:
      n_examined: labelled rows that the small ensemble was trained on.
      early_stopped: a small standard ensemble where its NLL is lowest; last_step: at the end of its training.
      nll_rise: how much higher its NLL is at the end, relative.
      shift: how well labelled and unlabelled rows can be told apart, None if there are too few.
      n_duplicates: labelled rows that stand among the unlabelled ones, too.
      expected: the accuracy of an early-stopped standard ensemble on the unlabelled rows, where they differ.
      unseen_columns, settled_columns: columns that are constant among the labelled or the unlabelled rows alone.
    """

    n_labelled: int
    n_examined: int
    n_unlabelled: int
    labels_per_class: Mapping[str, int]
    early_stopped: OutOfFoldFit
    last_step: OutOfFoldFit
    nll_rise: Estimate
    shift: Shift | None
    n_duplicates: int
    expected: AccuracyEstimate | None = None
    unseen_columns: tuple[str, ...] = ()
    settled_columns: tuple[str, ...] = ()

    @property
    def imbalance(self) -> float:
        """How many times more labels the largest class has than the smallest."""
        return max(self.labels_per_class.values()) / min(self.labels_per_class.values())


@dataclasses.dataclass(frozen=True)
class Advice:
    level: Level
    recommendation: str
    notes: tuple[str, ...]


def advise(evidence: Evidence) -> Advice:
    """The recommendation that the evidence supports, and what else is worth knowing."""
    level, recommendation = _obstacle(evidence) or _outlook(evidence)
    notes = _notes(evidence, level)
    return Advice(level, recommendation, tuple(notes if level == "fix first" else [*notes, NO_FORECAST]))


def _obstacle(evidence: Evidence) -> tuple[Level, str] | None:
    """What is to be put right before anything else."""
    if evidence.n_unlabelled == 0:
        return "fix first", "Fix first: there are no unlabelled rows, without which this is a standard ensemble."
    if evidence.n_duplicates > MANY_DUPLICATES * evidence.n_labelled:
        return "fix first", (
            f"Fix first: {evidence.n_duplicates} of {evidence.n_labelled} labelled rows stand among the unlabelled "
            "ones, too, where they would get random labels; remove them there."
        )
    shift = evidence.shift
    if shift is not None and shift.differs and shift.auroc >= FAR_APART:
        return "differs", (
            f"The unlabelled rows differ from the labelled ones ({shift.in_words()}): if they are what the model will "
            "be used on, this is where nu pays, and beta='auto' goes by what they tell; if not, take unlabelled rows "
            "from where the labelled ones come from."
        )
    return None


def _outlook(evidence: Evidence) -> tuple[Level, str]:
    early, last = evidence.early_stopped.overconfidence, evidence.last_step.overconfidence
    labels = f"{evidence.n_labelled} labels"
    if early.low > 0 and early.value > NEGLIGIBLE:
        return "likely", (
            f"Something to mend: with {labels} the standard ensemble is overconfident by {early} even where it is best "
            f"({evidence.early_stopped.n_steps} steps); at the end of the training by {last}."
        )
    if last.low > 0 and last.value > NEGLIGIBLE:
        return "some", (
            f"Something to mend in a standard ensemble trained to the end, which is overconfident by {last}, but "
            f"hardly in one that is stopped in time (after {evidence.early_stopped.n_steps} steps: {early})."
        )
    if last.high > 2 * NEGLIGIBLE:
        return "unclear", (
            f"Hard to say: with {labels} the standard ensemble's overconfidence is {early} where it is best and {last} "
            "at the end, within the noise; fitting with beta auto tries it out."
        )
    return "unlikely", (
        f"Nothing to mend: with {labels} the standard ensemble is not overconfident, neither where it is best "
        f"({early}) nor at the end of its training ({last})."
    )


def _notes(evidence: Evidence, level: Level) -> list[str]:
    notes = []
    smallest = min(evidence.labels_per_class, key=lambda label: evidence.labels_per_class[label])
    fewest = evidence.labels_per_class[smallest]
    if fewest < 5:
        notes.append(f"The class {smallest!r} has {fewest} labels only: what is held out rests on few rows.")
    if evidence.n_examined < evidence.n_labelled:
        notes.append(
            f"The small ensemble saw {evidence.n_examined} labels; with all {evidence.n_labelled} it would be less "
            "overconfident."
        )
    if evidence.imbalance > 10:
        notes.append(f"The largest class has {evidence.imbalance:.0f} times as many labels as the smallest.")
    if evidence.nll_rise.low > 0:
        notes.append(
            f"Held-out NLL is {100 * evidence.nll_rise.value:.0f} % higher at the last step than after "
            f"{evidence.early_stopped.n_steps}: the length of training matters here."
        )
    shift = evidence.shift
    if shift is not None and shift.differs and level != "differs":
        notes.append(f"Labelled and unlabelled rows differ a little ({shift.in_words()}).")
    if shift is not None and shift.is_disjoint:
        notes.append("Nearly every row can be told apart, so no method can promise anything on the unlabelled ones.")
    if evidence.expected is not None:
        notes.append(
            f"Expected accuracy on the unlabelled rows: {evidence.expected.accuracy:.2f} "
            f"({evidence.expected.low:.2f} … {evidence.expected.high:.2f}). {evidence.expected.limit}"
        )
    if evidence.unseen_columns:
        columns = ", ".join(evidence.unseen_columns)
        notes.append(f"No labelled row says what these columns mean, which vary among unlabelled rows: {columns}.")
    if evidence.settled_columns:
        columns = ", ".join(evidence.settled_columns)
        notes.append(f"These columns are the same in all unlabelled rows, and not in the labelled ones: {columns}.")
    if evidence.shift is None and evidence.n_unlabelled:
        notes.append("Too few rows to compare the labelled with the unlabelled ones.")
    if 0 < evidence.n_duplicates <= MANY_DUPLICATES * evidence.n_labelled:
        notes.append(
            f"{evidence.n_duplicates} labelled row(s) stand among the unlabelled ones, too; remove them there."
        )
    return notes
