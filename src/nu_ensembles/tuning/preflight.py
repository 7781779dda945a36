"""Two minutes before hours of training: what is there for a nu-ensemble to mend on this data?

What nu mends is overconfidence, so the question is whether a standard ensemble is overconfident on rows that it
has not seen, where it would be stopped and at the end of its training; and whether the unlabelled rows, which nu
makes the ensemble unsure about, are like the labelled ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from nu_ensembles.datasets.splits import split
from nu_ensembles.deployment.accuracy import AccuracyEstimate, accuracy_under_shift
from nu_ensembles.deployment.shift import NORMAL_95, Shift, comparable, settled_columns, two_sample_test, unseen_columns
from nu_ensembles.engine.settings import Settings
from nu_ensembles.methods import Nu, Standard
from nu_ensembles.metrics import evaluate
from nu_ensembles.metrics.paired import paired_difference
from nu_ensembles.problem import Problem, prepare, random_key
from nu_ensembles.tables import ColumnTypes, RawTable, SparseRows, rows_of
from nu_ensembles.training import make_job, steps_in
from nu_ensembles.tuning.advice import LEVEL, Estimate, Evidence, OutOfFoldFit, advise
from nu_ensembles.tuning.folds import stratified_folds
from nu_ensembles.tuning.search import SearchSettings, search
from nu_ensembles.tuning.under_shift import search_under_shift

# More labelled rows and more steps than this are not looked at: the answer should come within two minutes.
MOST_LABELLED = 2000
MOST_STEPS = 5000
# With fewer labels the folds are dealt twice.
FEW_LABELS = 100


@dataclasses.dataclass(frozen=True)
class Preflight:
    """What was found, and what it means.

    Attributes:
      evidence: the figures.
      level: "likely", "some", "unclear", "unlikely", "differs" or "fix first".
      recommendation: one plain sentence.
      notes: what else is worth knowing, a sentence each.
    """

    evidence: Evidence
    level: str
    recommendation: str
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as JSON knows them."""
        return {**dataclasses.asdict(self), "notes": list(self.notes)}


def preflight(
    X: Any,
    y: Any,
    X_unlabeled: Any = None,
    *,
    feature_names: Sequence[str] | None = None,
    column_types: ColumnTypes | None = None,
    max_iter: int = 500,
    learning_rate: float = 1e-3,
    batch_size: int = 32,
    seed: int = 0,
    verbose: int = 0,
) -> Preflight:
    """Looks at the data with a small standard ensemble (three MLPs a fold) and a two-sample test.

    Args:
      X: `[N, …]`, labelled rows; y: `[N]`, labels of any type.
      X_unlabeled: `[M, …]`, or None.
      feature_names: of the columns of an array; those of a data frame are found.
      column_types: see `nu.fit`.
      max_iter, learning_rate, batch_size: of the training that is meant; its last step is where it would end.
    """
    X = rows_of(X, "X")
    X = X if isinstance(X, RawTable | SparseRows) else np.asarray(X)
    is_table = isinstance(X, RawTable | SparseRows) or (X.ndim == 2 and X.dtype != np.uint8)
    # Scaled as the estimator does it, so that the two sets are compared, and trained on, as they will be used.
    problem = prepare(X, y, X_unlabeled, standardize=is_table, column_types=column_types)
    # A column of text is several of numbers, which have names of their own.
    feature_names = problem.feature_names or feature_names
    counts = np.bincount(problem.y, minlength=len(problem.classes))
    settings = Settings(batch_size, learning_rate=learning_rate)
    examined = _at_most(problem, MOST_LABELLED, seed)
    early, last, rise = _out_of_fold(examined, settings, max_iter, seed, verbose)
    u = problem.x_unlabeled
    sets = None if u is None else (comparable(problem, problem.x), comparable(problem, u))
    shift = None if sets is None else two_sample_test(*sets, feature_names, seed)
    evidence = Evidence(
        n_labelled=len(problem.x),
        n_examined=len(examined.x),
        n_unlabelled=problem.n_unlabeled,
        labels_per_class={str(label): int(n) for label, n in zip(problem.classes, counts, strict=True)},
        early_stopped=early,
        last_step=last,
        nll_rise=rise,
        shift=shift,
        n_duplicates=0 if u is None else count_duplicates(problem.x, u),
        expected=_expected(examined, settings, max_iter, seed, shift, verbose),
        unseen_columns=tuple(unseen_columns(problem)),
        settled_columns=tuple(settled_columns(problem)),
    )
    advice = advise(evidence)
    return Preflight(evidence, advice.level, advice.recommendation, advice.notes)


def count_duplicates(x: np.ndarray, x_unlabeled: np.ndarray) -> int:
    """How many rows of `x` `[N, …]` stand in `x_unlabeled` `[M, …]`, too."""
    flat = (np.ascontiguousarray(part).reshape(len(part), -1) for part in (x, x_unlabeled))
    own, others = ([row.tobytes() for row in part] for part in flat)
    known = set(others)
    return sum(row in known for row in own)


def _out_of_fold(
    problem: Problem, settings: Settings, max_iter: int, seed: int, verbose: int
) -> tuple[OutOfFoldFit, OutOfFoldFit, Estimate]:
    """A small standard ensemble at its best step and at its last one, and the relative rise of its NLL between them."""
    n_repeats = 2 if len(problem.x) < FEW_LABELS else 1
    folds = stratified_folds(problem.y, 5, n_repeats, seed)
    max_steps = min(steps_in(max_iter, len(problem.x), settings.batch_size), MOST_STEPS)
    job = make_job(problem, "mlp", Standard(), settings, n_members=1, n_steps=max_steps, key=random_key(seed))
    fits: list[OutOfFoldFit] = []
    losses: list[np.ndarray] = []
    weight = np.ones(0)  # of the rows that were held out: all but single rows of a class
    # Two searches, because one that is past its best is dropped and never sees the last step.
    for n_stops in (None, 1):
        result = search(job, folds, SearchSettings(betas=None, n_stops=n_stops), verbose=verbose)
        scores = evaluate(result.out_of_fold.probabilities[0], result.out_of_fold.y, intervals=LEVEL, seed=seed)
        estimates = {
            name: Estimate(scores[name], scores[f"{name}_low"], scores[f"{name}_high"])
            for name in ("nll", "overconfidence")
        }
        accuracy = scores["accuracy"], scores["accuracy_low"], scores["accuracy_high"]
        estimates["accuracy"] = Estimate.of_share(*accuracy, len(result.out_of_fold.y))
        fits.append(OutOfFoldFit(n_steps=result.n_steps, **estimates))
        losses.append(result.out_of_fold.best_losses())
        weight = result.out_of_fold.weight
    rise, error = paired_difference(losses[1], losses[0], weight)
    level = float(losses[0].mean())
    low, high = (rise + sign * NORMAL_95 * error for sign in (-1, 1))
    return fits[0], fits[1], Estimate(rise / level, low / level, high / level)


def _expected(
    problem: Problem, settings: Settings, max_iter: int, seed: int, shift: Shift | None, verbose: int
) -> AccuracyEstimate | None:
    """The accuracy on unlabelled rows that differ, of what a fit would take."""
    if shift is None or not shift.differs:
        return None
    max_steps = min(steps_in(max_iter, len(problem.x), settings.batch_size), MOST_STEPS)
    job = make_job(problem, "mlp", Nu(), settings, n_members=5, n_steps=max_steps, key=random_key(seed))
    folds = stratified_folds(problem.y, 5, 1, seed)
    decision = search_under_shift(job, folds, SearchSettings(), shift, verbose=verbose).decision
    return accuracy_under_shift(decision.opinions, decision.confidence)


def _at_most(problem: Problem, n_rows: int, seed: int) -> Problem:
    """A part of the labelled rows with every class in proportion, if there are more."""
    if len(problem.x) <= n_rows:
        return problem
    drawn = split(len(problem.x), {"kept": n_rows}, seed, stratify=problem.y)["kept"]
    # Two rows of every class, where there are as many, however rare it is: one of them can be held out.
    first_two = [np.flatnonzero(problem.y == code)[:2] for code in range(len(problem.classes))]
    rows = np.unique(np.concatenate([drawn, *first_two]))
    return problem.part(rows)
